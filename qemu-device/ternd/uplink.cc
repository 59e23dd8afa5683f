// SPDX-License-Identifier: GPL-2.0-or-later
#include "uplink.h"

#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <syslog.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <stdexcept>

#include "adapter_config.h"
#include "clock.h"
#include "end_thread.h"
#include "log.h"

namespace tern::daemon {

namespace {

constexpr std::size_t kQueue = std::size_t{4} << 20;
// Limit of frames taken at a time from each side.
constexpr unsigned kBurst = 64;
// Turns of the loop between two reads of the link's state while the thread does not sleep.
constexpr unsigned kReadLinkEvery = 64;

}  // namespace

Uplink::Config Uplink::parse(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view kind = text.substr(0, equals);
  if (equals == std::string_view::npos || (kind != "tap" && kind != "packet")) {
    throw std::invalid_argument("an uplink is tap=NAME or packet=NAME, not '" + std::string(text) +
                                "'");
  }
  Config config{kind == "tap" ? HostInterface::Kind::kTap : HostInterface::Kind::kPacket, "", {}};
  text.remove_prefix(equals + 1);
  std::size_t comma = text.find(',');
  config.name = text.substr(0, comma);
  if (config.name.empty() || config.name.size() >= IFNAMSIZ)
    throw std::invalid_argument("'" + config.name + "' is no name of an interface");
  while (comma != std::string_view::npos) {
    text.remove_prefix(comma + 1);
    comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::size_t at = item.find('=');
    if (at == std::string_view::npos ||
        !set_port_property(config.policy, item.substr(0, at), item.substr(at + 1))) {
      throw std::invalid_argument("an uplink has no property '" + std::string(item.substr(0, at)) +
                                  "'");
    }
  }
  return config;
}

Uplink::Files Uplink::open(const Config& config) {
  Files files;
  files.interface = HostInterface::open(config.kind, config.name, &files.index);
  files.netlink = LinkWatch::open();
  return files;
}

Uplink::Uplink(const Config& config, Switch& fabric, Files files)
    : config_(config),
      host_(std::make_unique<HostInterface>(config.kind, std::move(files.interface))),
      link_(std::make_unique<LinkWatch>(files.index, std::move(files.netlink))),
      wake_(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")),
      port_(&fabric.add(config.name, *this, kQueue, Port::Kind::kUplink)) {
  port_->set_policy(config.policy);
}

Uplink::~Uplink() {
  if (!stop()) std::_Exit(1);
}

void Uplink::start() { thread_ = std::thread(&Uplink::loop, this); }

bool Uplink::stop() {
  if (!thread_.joinable()) return true;
  stop_.store(true);
  eventfd_write(wake_.get(), 1);
  return end_thread(thread_, ended_);
}

TaskQueue::Ticket Uplink::post(std::function<void()> task) {
  TaskQueue::Ticket ticket = tasks_.post(std::move(task));
  wake();
  return ticket;
}

std::uint64_t Uplink::unfinished() {
  const std::lock_guard lock(host_mutex_);
  return unfinished_before_ + host_->unfinished();
}

std::uint64_t Uplink::overruns() {
  const std::lock_guard lock(host_mutex_);
  return overruns_before_ + host_->overruns();
}

void Uplink::reopen(Files files) {
  auto host = std::make_unique<HostInterface>(config_.kind, std::move(files.interface));
  link_ = std::make_unique<LinkWatch>(files.index, std::move(files.netlink));
  {
    const std::lock_guard lock(host_mutex_);
    unfinished_before_ += host_->unfinished();
    overruns_before_ += host_->overruns();
    host_.swap(host);
  }
  // Drop a frame of the old interface that the switch has not taken.
  if (!faults_ || faults_->in().empty()) frame_ = {};
  has_room_.store(true, std::memory_order_seq_cst);
  gone_ = blocked_out_ = false;
  watch_link();
}

std::string Uplink::set_faults(const std::string& text) {
  if (!faults_) faults_ = std::make_unique<UplinkFaults>();
  return faults_->set(text);
}

void Uplink::wake() {
  if (sleeping_.load(std::memory_order_seq_cst) && sleeping_.exchange(false))
    eventfd_write(wake_.get(), 1);
}

void Uplink::room() {
  has_room_.store(true, std::memory_order_seq_cst);
  wake();
}

void Uplink::loop() {
  pthread_setname_np(pthread_self(), "uplink");
  for (unsigned turn = 0; !stop_.load(std::memory_order_relaxed); ++turn) {
    if (turn % kReadLinkEvery == 0) watch_link();
    if (!tasks_.empty()) tasks_.run();
    const bool due = run_faults();
    const bool in = take_in();
    port_->wake_receivers();
    const bool out = send_out();
    if (!due && !in && !out) sleep();
  }
  ended_.release();
}

void Uplink::watch_link() {
  if (gone_) return;
  const LinkWatch::State state = link_->read();
  gone_ = state == LinkWatch::State::kGone;
  if (gone_) write_log(LOG_WARNING, port_->name(), "the interface was deleted");
  port_->set_link(state == LinkWatch::State::kUp);
}

// Passes on frames that the rules held back. Returns false if none is due.
bool Uplink::run_faults() {
  if (!faults_ || faults_->due() == UINT64_MAX) return false;
  const std::uint64_t now = clock_ns();
  if (now < faults_->due()) return false;
  faults_->run(now);
  return true;
}

// Moves frames from the host into the switch. Returns false if there is none, or the switch takes
// no more.
bool Uplink::take_in() {
  for (unsigned i = 0; i < kBurst; ++i) {
    const bool out_of_patience = waits_since_ != 0 && clock_ns() >= retry_at_;
    if (!out_of_patience && !has_room_.load(std::memory_order_seq_cst)) return i != 0;
    if (frame_.empty()) {
      frame_ = incoming();
      if (frame_.empty()) return i != 0;
      frame_time_ = clock_ns();
    }
    has_room_.store(false, std::memory_order_seq_cst);
    if (port_->send(frame_, frame_time_, nullptr, !out_of_patience) == Port::Sent::kBlocked) {
      begin_wait();
      return i != 0;
    }
    has_room_.store(true, std::memory_order_seq_cst);
    end_wait();
    if (capture_) capture_->add(frame_time_, frame_);
    pop_incoming();
  }
  return true;
}

void Uplink::begin_wait() {
  if (waits_since_ != 0) return;
  waits_since_ = clock_ns();
  patience_ = std::min(patience_ + (waits_since_ - waited_until_), Switch::kWatchdog);
  retry_at_ = waits_since_ + patience_;
}

void Uplink::end_wait() {
  if (waits_since_ == 0) return;
  waited_until_ = clock_ns();
  patience_ -= std::min(patience_, waited_until_ - waits_since_);
  waits_since_ = 0;
}

// Returns the next frame for the switch; empty if there is none now.
std::span<const std::byte> Uplink::incoming() {
  for (unsigned i = 0; i < kBurst; ++i) {
    if (faults_ && !faults_->in().empty()) return faults_->in().front();
    if (host_->frame().empty() && (gone_ || !host_->receive())) return {};
    if (host_->frame().empty()) continue;
    if (!faults_) return host_->frame();
    faults_->receive(host_->frame());
    host_->next();
  }
  return {};
}

void Uplink::pop_incoming() {
  frame_ = {};
  if (faults_ && !faults_->in().empty()) {
    faults_->in().pop_front();
  } else {
    host_->next();
  }
}

// Moves frames from the switch to the host. Returns false if there is none, or the host takes no
// more.
bool Uplink::send_out() {
  unsigned sent = 0;
  blocked_out_ = false;
  due_ = UINT64_MAX;
  while (sent < kBurst && (send_held() || send_front())) ++sent;
  port_->release();
  return sent != 0;
}

// Sends the first frame of the port, or hands it to the rules.
bool Uplink::send_front() {
  if (blocked_out_) return false;
  const std::uint64_t now = clock_ns();
  const WireFrame first = port_->front(now, &due_);
  if (first.empty()) return false;
  assert(first.finished());
  const std::span<const std::byte> frame = first.bytes;
  HostInterface::Sent sent = gone_ ? HostInterface::Sent::kRefused : HostInterface::Sent::kTaken;
  if (!gone_ && !faults_) sent = host_->send(frame);
  if (sent == HostInterface::Sent::kFull) {
    blocked_out_ = true;
    return false;
  }
  if (capture_) capture_->add(now, frame);
  if (!gone_ && faults_) faults_->transmit(frame);
  sent == HostInterface::Sent::kTaken ? port_->pop() : port_->discard();
  return true;
}

// Sends the first frame that the rules have let through.
bool Uplink::send_held() {
  if (!faults_ || faults_->out().empty()) return false;
  if (!gone_ && host_->send(faults_->out().front()) == HostInterface::Sent::kFull) {
    blocked_out_ = true;
    return false;
  }
  faults_->out().pop_front();
  return true;
}

void Uplink::sleep() {
  sleeping_.store(true, std::memory_order_seq_cst);
  // A producer that enqueues from here on sees that this thread sleeps, and wakes it.
  const bool waits = !frame_.empty() && !has_room_.load(std::memory_order_seq_cst);
  const bool frames = !blocked_out_ && due_ == UINT64_MAX && !port_->empty();
  // take_in() may have handed a whole burst to the rules.
  const bool in = frame_.empty() ? !host_->frame().empty() : !waits;
  if (!in && !frames && tasks_.empty()) {
    const std::uint64_t now = clock_ns();
    std::uint64_t until = std::min(due_, faults_ ? faults_->due() : UINT64_MAX);
    if (waits) until = std::min(until, retry_at_);
    const timespec limit = timespec_of(until > now ? until - now : 0);
    const int events = (waits ? 0 : POLLIN) | (blocked_out_ ? POLLOUT : 0);
    pollfd fds[3] = {{wake_.get(), POLLIN, 0},
                     {gone_ ? -1 : host_->fd(), static_cast<short>(events), 0},
                     {gone_ ? -1 : link_->fd(), POLLIN, 0}};
    (void)ppoll(fds, 3, until == UINT64_MAX ? nullptr : &limit, nullptr);
    if ((fds[0].revents & POLLIN) != 0) {
      eventfd_t value;
      eventfd_read(wake_.get(), &value);
    }
    if ((fds[1].revents & POLLERR) != 0) host_->clear_error();
    if (fds[2].revents != 0) watch_link();
  }
  sleeping_.store(false, std::memory_order_relaxed);
}

}  // namespace tern::daemon
