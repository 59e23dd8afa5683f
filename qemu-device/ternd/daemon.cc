// SPDX-License-Identifier: GPL-2.0-or-later
#include "daemon.h"

#include <poll.h>
#include <prometheus/exposer.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <syslog.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "commands.h"
#include "log.h"
#include "sandbox.h"
#include "share.h"
#include "unix_socket.h"

namespace tern::daemon {

namespace {

// Adapters that may be added while the daemon runs, unless an option sets their number.
constexpr unsigned kMore = 4;
constexpr unsigned kLeastPlaces = 8;
// Each client of the metrics takes a thread, and may be silent for this long, in ms.
constexpr const char* kMetricsThreads = "4";
constexpr const char* kMetricsTimeout = "2000";

// A hypervisor passes a descriptor for each region of memory, and for each interrupt.
void allow_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

unsigned places(const Options& options) {
  const auto now = static_cast<unsigned>(options.adapters.size());
  if (options.max_adapters == 0) return std::max(now + kMore, kLeastPlaces);
  if (options.max_adapters < now)
    throw std::invalid_argument("there are more adapters than --max-adapters allows");
  return options.max_adapters;
}

Share share_of(const Options& options) {
  HostLimits host = HostLimits::read();
  if (options.memory != 0) host.memory = options.memory;
  return divide(host, places(options));
}

}  // namespace

sigset_t Daemon::end_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, signal);
  return ends;
}

Daemon::Daemon(const Options& options)
    : options_(options), parts_(share_of(options), places(options)) {
  allow_descriptors();
  GuestMemory::handle_sigbus();
  for (const std::string& text : options_.adapters) parts_.add(parse_adapter(text));
  for (const std::string& text : options_.uplinks) {
    const Uplink::Config config = Uplink::parse(text);
    parts_.add(config, Uplink::open(config));
  }
  if (!options_.pcap.empty()) pcap_file_ = create_file(options_.pcap);
  if (!options_.control.empty()) {
    control_ =
        std::make_unique<Control>(options_.control, socket_rights("", options_.control_group).group,
                                  [this](const std::string& request, Control::Files files) {
                                    return handle(request, std::move(files));
                                  });
  }
}

Daemon::~Daemon() {
  if (!stop()) std::_Exit(1);
}

// Ends the clients first, then the threads that they ask.
bool Daemon::stop() {
  exposer_.reset();
  control_.reset();
  if (parts_.stop()) return true;
  write_log(LOG_WARNING, "",
            "a hypervisor or an interface keeps a thread waiting: the process ends without it");
  // The captures of the others are written meanwhile.
  std::this_thread::sleep_for(2 * Capture::kFlush);
  return false;
}

std::string Daemon::handle(const std::string& request, Control::Files files) {
  return run_command(parts_, request, std::move(files));
}

void Daemon::start() {
  if (pcap_file_) {
    pcap_ = std::make_unique<Capture>(std::move(pcap_file_), 0, options_.pcap);
    parts_.fabric().set_tap([this](const Port&, std::span<const std::byte> frame,
                                   std::uint64_t time) { pcap_->add(time, frame); });
  }
  parts_.start();
  if (!options_.metrics.empty()) {
    metrics_ = std::make_shared<Metrics>(parts_);
    exposer_ = std::make_unique<prometheus::Exposer>(
        std::vector<std::string>{"listening_ports", options_.metrics, "num_threads",
                                 kMetricsThreads, "request_timeout_ms", kMetricsTimeout});
    exposer_->RegisterCollectable(metrics_);
  }
}

void Daemon::run() {
  const sigset_t ends = end_signals();
  const Descriptor signals = checked(signalfd(-1, &ends, SFD_CLOEXEC), "signalfd");
  drop_capabilities();
  start();
  sd_notify(0, "READY=1");
  if (options_.sandbox) enter_sandbox();
  for (int wait = -1;;) {
    pollfd fds[2] = {{signals.get(), POLLIN, 0}, {control_ ? control_->fd() : -1, POLLIN, 0}};
    poll(fds, 2, wait);
    if (fds[0].revents != 0) return;
    if (control_) wait = control_->serve();
  }
}

}  // namespace tern::daemon
