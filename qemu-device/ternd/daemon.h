// SPDX-License-Identifier: GPL-2.0-or-later
// The whole of ternd: adapters, uplinks and the switch between them, and who looks at them.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "adapter.h"
#include "capture.h"
#include "control.h"
#include "metrics.h"
#include "options.h"
#include "switch.h"
#include "uplink.h"

namespace prometheus {
class Exposer;
}

namespace tern::daemon {

class Daemon {
 public:
  // Opens everything. Throws what the parts throw.
  explicit Daemon(const Options& options);
  ~Daemon();

  // Starts the threads, enters the sandbox, and returns when SIGTERM or SIGINT comes. The caller
  // has blocked these signals.
  void run();
  // Answers a request of a control client.
  [[nodiscard]] std::string handle(const std::string& request, Descriptor file);

 private:
  void start();

  const Options options_;
  std::unique_ptr<Capture> pcap_;  // of the whole switch
  Switch fabric_;
  std::deque<Adapter> adapters_;
  std::deque<Uplink> uplinks_;
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<prometheus::Exposer> exposer_;
  std::unique_ptr<Control> control_;
};

}  // namespace tern::daemon
