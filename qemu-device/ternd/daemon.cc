// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon.h"

#include <poll.h>
#include <prometheus/exposer.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <syslog.h>
#include <systemd/sd-daemon.h>

#include <csignal>
#include <stdexcept>

#include "commands.h"
#include "log.h"
#include "sandbox.h"

namespace tern::daemon {

namespace {

// How often captures are written to their files, in ms.
constexpr int kFlush = 100;

// A hypervisor passes a descriptor for each region of memory, and for each interrupt.
void allow_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void check_name(Switch& fabric, const std::string& name) {
  for (const Port& port : fabric.ports()) {
    if (port.name() == name) throw std::invalid_argument("two ports have the name '" + name + "': give an adapter a property name=");
  }
}

}  // namespace

Daemon::Daemon(const Options& options) : options_(options) {
  allow_descriptors();
  GuestMemory::handle_sigbus();
  for (const std::string& text : options_.adapters) {
    const AdapterConfig config = parse_adapter(text);
    check_name(fabric_, config.name);
    adapters_.emplace_back(config, fabric_);
  }
  for (const std::string& text : options_.uplinks) {
    check_name(fabric_, Uplink::name_in(text));
    uplinks_.emplace_back(text, fabric_);
  }
  if (!options_.pcap.empty()) {
    pcap_ = std::make_unique<Capture>(options_.pcap, 0);
    fabric_.set_tap([this](const Port&, std::span<const std::byte> frame, std::uint64_t time) { pcap_->add(time, frame); });
  }
  if (!options_.control.empty()) {
    control_ = std::make_unique<Control>(options_.control,
                                         [this](const std::string& request, Descriptor file) { return handle(request, std::move(file)); });
  }
  if (!options_.metrics.empty()) {
    metrics_ = std::make_shared<Metrics>(adapters_, uplinks_);
    exposer_ = std::make_unique<prometheus::Exposer>(options_.metrics, 1);
    exposer_->RegisterCollectable(metrics_);
  }
}

// Clients first, then the threads whose adapters they ask for.
Daemon::~Daemon() {
  exposer_.reset();
  control_.reset();
  for (Uplink& uplink : uplinks_) uplink.stop();
  for (Adapter& adapter : adapters_) adapter.stop();
}

std::string Daemon::handle(const std::string& request, Descriptor file) {
  return run_command({adapters_, uplinks_}, request, std::move(file));
}

void Daemon::start() {
  for (Adapter& adapter : adapters_) adapter.start();
  for (Uplink& uplink : uplinks_) uplink.start();
}

void Daemon::run() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  const Descriptor signals = checked(signalfd(-1, &ends, SFD_CLOEXEC), "signalfd");
  start();
  sd_notify(0, "READY=1");
  if (options_.sandbox) enter_sandbox();
  for (;;) {
    pollfd fds[2] = {{signals.get(), POLLIN, 0}, {control_ ? control_->fd() : -1, POLLIN, 0}};
    poll(fds, 2, kFlush);
    Capture::flush_all();
    if (fds[0].revents != 0) return;
    if (fds[1].revents != 0) control_->serve();
  }
}

}  // namespace tern::daemon
