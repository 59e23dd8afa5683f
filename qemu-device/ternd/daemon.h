// SPDX-License-Identifier: GPL-2.0-or-later
// The whole of ternd: adapters, uplinks, the switch between them, control and metrics.
#pragma once

#include <csignal>
#include <memory>
#include <string>

#include "capture.h"
#include "control.h"
#include "metrics.h"
#include "options.h"
#include "parts.h"

namespace prometheus {
class Exposer;
}

namespace tern::daemon {

class Daemon {
 public:
  // SIGTERM, SIGINT and SIGHUP.
  static sigset_t end_signals();

  // Opens everything, and starts no thread. Throws the exceptions of the parts.
  explicit Daemon(const Options& options);
  ~Daemon();

  // Gives up capabilities, starts the threads, enters the sandbox, and returns when one of
  // end_signals() comes. The caller has blocked them.
  void run();
  // Ends the threads. Returns false if one does not end: see Adapter::stop().
  [[nodiscard]] bool stop();
  // Answers a request of a control client.
  [[nodiscard]] std::string handle(const std::string& request, Control::Files files);

 private:
  void start();

  const Options options_;
  Descriptor pcap_file_;
  std::unique_ptr<Capture> pcap_;  // of the whole switch
  Parts parts_;
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::unique_ptr<Control> control_;
};

}  // namespace tern::daemon
