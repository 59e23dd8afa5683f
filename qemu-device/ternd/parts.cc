// SPDX-License-Identifier: GPL-2.0-or-later
#include "parts.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace tern::daemon {

namespace {

std::chrono::steady_clock::time_point limit() {
  return std::chrono::steady_clock::now() + TaskQueue::kWaitLimit;
}

template <typename List>
typename List::value_type find(const List& list, const std::string& name, std::mutex& mutex) {
  const std::lock_guard lock(mutex);
  const auto at =
      std::ranges::find_if(list, [&](const auto& part) { return part->port().name() == name; });
  return at == list.end() ? nullptr : *at;
}

}  // namespace

Parts::~Parts() {
  if (!stop()) std::_Exit(1);
}

Parts::Adapters Parts::adapters() const {
  const std::lock_guard lock(mutex_);
  return adapters_;
}

Parts::Uplinks Parts::uplinks() const {
  const std::lock_guard lock(mutex_);
  return uplinks_;
}

std::shared_ptr<Adapter> Parts::adapter(const std::string& name) const {
  return find(adapters_, name, mutex_);
}

std::shared_ptr<Uplink> Parts::uplink(const std::string& name) const {
  return find(uplinks_, name, mutex_);
}

void Parts::check_name(const std::string& name) {
  if (name.empty()) throw std::invalid_argument("a port needs a name");
  if (adapter(name) || uplink(name))
    throw std::invalid_argument("two ports have the name '" + name +
                                "': give an adapter a property name=");
}

Adapter& Parts::add(const AdapterConfig& config, Adapter::Files files) {
  bury();
  check_name(config.name);
  if (adapters_.size() >= places_) {
    throw std::invalid_argument("there are " + std::to_string(places_) +
                                " adapters: --max-adapters allows no more");
  }
  auto adapter = std::make_shared<Adapter>(config, fabric_, share_, std::move(files));
  const std::lock_guard lock(mutex_);
  return *adapters_.emplace_back(std::move(adapter));
}

Uplink& Parts::add(const Uplink::Config& config, Uplink::Files files) {
  bury();
  check_name(config.name);
  auto uplink = std::make_shared<Uplink>(config, fabric_, std::move(files));
  const std::lock_guard lock(mutex_);
  return *uplinks_.emplace_back(std::move(uplink));
}

void Parts::start() {
  for (const auto& adapter : adapters()) adapter->start();
  for (const auto& uplink : uplinks()) uplink->start();
}

void Parts::remove(std::shared_ptr<Adapter> adapter) {
  if (!adapter->stop())
    throw std::runtime_error("adapter '" + adapter->config().name +
                             "' does not stop: its hypervisor keeps it waiting");
  Switch::leave(adapter->port());
  {
    const std::lock_guard lock(mutex_);
    std::erase(adapters_, adapter);
  }
  old_adapters_.push_back(std::move(adapter));
  bury();
}

void Parts::remove(std::shared_ptr<Uplink> uplink) {
  if (!uplink->stop())
    throw std::runtime_error("uplink '" + uplink->name() +
                             "' does not stop: its interface keeps it waiting");
  Switch::leave(uplink->port());
  {
    const std::lock_guard lock(mutex_);
    std::erase(uplinks_, uplink);
  }
  old_uplinks_.push_back(std::move(uplink));
  bury();
}

// Destroys removed parts once each thread has begun a new turn since: no thread is in a call of
// their port's user then. A thread that does not respond, or has a copy of the lists, delays this.
void Parts::bury() {
  if (old_adapters_.empty() && old_uplinks_.empty()) return;
  std::vector<TaskQueue::Ticket> turns;
  for (const auto& adapter : adapters()) turns.push_back(adapter->post([] {}));
  for (const auto& uplink : uplinks()) turns.push_back(uplink->post([] {}));
  const auto until = limit();
  if (!std::ranges::all_of(turns, [until](TaskQueue::Ticket& turn) { return turn.wait(until); }))
    return;
  std::erase_if(old_adapters_, [](const auto& adapter) { return adapter.use_count() == 1; });
  std::erase_if(old_uplinks_, [](const auto& uplink) { return uplink.use_count() == 1; });
}

// All threads end before the first part is destroyed: they wake each other.
bool Parts::stop() {
  bool all = true;
  for (const auto& uplink : uplinks()) all = uplink->stop() && all;
  for (const auto& adapter : adapters()) all = adapter->stop() && all;
  return all;
}

std::vector<AdapterAnswer> ask_all(const Parts::Adapters& adapters) {
  std::vector<AdapterAnswer> answers(adapters.size());
  std::vector<TaskQueue::Ticket> tickets;
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    AdapterAnswer& a = answers[i];
    a.adapter = adapters[i];
    tickets.push_back(a.adapter->post([&a] { a.status = a.adapter->status(); }));
  }
  const auto until = limit();
  for (std::size_t i = 0; i < adapters.size(); ++i) answers[i].responds = tickets[i].wait(until);
  return answers;
}

}  // namespace tern::daemon
