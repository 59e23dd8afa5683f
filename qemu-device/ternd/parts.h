// SPDX-License-Identifier: GPL-2.0-or-later
// The switch of a daemon, with the adapters and uplinks at its ports, which can be added and
// removed while it runs.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "adapter.h"
#include "share.h"
#include "switch.h"
#include "uplink.h"

namespace tern::daemon {

class Parts {
 public:
  using Adapters = std::vector<std::shared_ptr<Adapter>>;
  using Uplinks = std::vector<std::shared_ptr<Uplink>>;

  // `places`: limit of adapters at a time, each with this share.
  explicit Parts(const Share& share = {}, unsigned places = Switch::kMaxPorts)
      : share_(share), places_(places) {}
  ~Parts();
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  [[nodiscard]] Switch& fabric() { return fabric_; }

  // ---- one thread ----

  // Creates an adapter or an uplink, which does not run yet. Throws their exceptions, and
  // std::invalid_argument if there is a port of that name or no place is left.
  Adapter& add(const AdapterConfig& config, Adapter::Files files = {});
  Uplink& add(const Uplink::Config& config, Uplink::Files files);
  void start();
  // Detaches a hypervisor, and removes its adapter. Both throw std::runtime_error if the thread
  // does not end.
  void remove(std::shared_ptr<Adapter> adapter);
  void remove(std::shared_ptr<Uplink> uplink);
  // Ends all threads. Returns false if one does not end: see Adapter::stop().
  [[nodiscard]] bool stop();

  // ---- any thread ----

  // Returns the present adapters.
  [[nodiscard]] Adapters adapters() const;
  [[nodiscard]] Uplinks uplinks() const;
  // Null if there is none.
  [[nodiscard]] std::shared_ptr<Adapter> adapter(const std::string& name) const;
  [[nodiscard]] std::shared_ptr<Uplink> uplink(const std::string& name) const;

 private:
  void check_name(const std::string& name);
  void bury();

  const Share share_;
  const unsigned places_;
  Switch fabric_;
  mutable std::mutex mutex_;  // a leaf, for the lists
  Adapters adapters_;
  Uplinks uplinks_;
  // Removed parts. Other threads may still be in a call of them.
  Adapters old_adapters_;
  Uplinks old_uplinks_;
};

// The answer of an adapter's thread.
struct AdapterAnswer {
  std::shared_ptr<Adapter> adapter;
  bool responds = false;  // else nothing follows
  Adapter::Status status{};
};
// Asks all at once: those that do not respond take no longer than one.
std::vector<AdapterAnswer> ask_all(const Parts::Adapters& adapters);

}  // namespace tern::daemon
