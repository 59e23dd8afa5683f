// SPDX-License-Identifier: GPL-2.0-or-later
// What a program has done so far: the state of the model, the keys that it knows, its receives.
// Turns steps into requests.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "model.h"

namespace guest::generator {

// A key that the program has had, and the addresses that it covered.
struct KnownKey {
  std::uint32_t key = 0;
  std::uint32_t lkey = 0;
  std::uint64_t base = 0;
  std::uint32_t len = 0;
};

class Book {
 public:
  explicit Book(const Caps& caps, std::array<std::array<std::uint64_t, kHostMems>, kEnds> addresses)
      : caps_(caps), addresses_(addresses) {}

  State state;

  [[nodiscard]] bool can(const char* cap) const { return caps_.contains(cap); }
  [[nodiscard]] const Caps& caps() const { return caps_; }
  [[nodiscard]] Region& region(int end, std::size_t slot) {
    return state.regions.at(static_cast<std::size_t>(end)).at(slot);
  }
  [[nodiscard]] Window& window(int end, std::size_t slot) {
    return state.windows.at(static_cast<std::size_t>(end)).at(slot);
  }
  [[nodiscard]] Conn& conn(std::size_t slot) { return state.conns.at(slot); }
  [[nodiscard]] Queue& queue(std::size_t slot, int end) {
    return conn(slot).ends.at(static_cast<std::size_t>(end));
  }
  [[nodiscard]] std::vector<KnownKey>& keys(bool window, int end, std::size_t slot) {
    return keys_.at(window ? 1 : 0).at(static_cast<std::size_t>(end)).at(slot);
  }
  // The receives that this end of a connection takes from.
  [[nodiscard]] std::deque<Receive>& receives(std::size_t slot, int end) {
    return receives_.at(conn(slot).srq ? kConns : slot).at(static_cast<std::size_t>(end));
  }
  [[nodiscard]] const Receive* next_receive(std::size_t slot, int end);

  void receives_died(int end) {
    for (auto& ends : receives_) ends.at(static_cast<std::size_t>(end)).clear();
  }

  // These return nothing if the step's objects do not exist.
  std::optional<RegionArgs> region_args(const Step& step) const;
  std::optional<RegionArgs> rereg_args(const Step& step);
  std::optional<QpArgs> qp_args(const Step& step, int end) const;
  std::optional<Request> request(const Step& step);
  std::optional<Receive> receive(const Step& step);

  // These record what was done.
  void made_region(int end, const RegionArgs& args, const Keys& keys);
  void made_window(int end, std::size_t slot, int type, std::size_t pd, std::uint32_t key);
  void made_conn(const Step& step);
  void posted(const Request& request, std::uint32_t new_key);
  // A bind failed: its key does not exist.
  void forget_key(const Request& request);
  // Resets the QPs. Returns the windows that died with their connection, by end.
  std::array<std::vector<std::size_t>, kEnds> restart(std::size_t slot);

 private:
  bool set_local(const Step& step, Request& r);
  bool set_key(const Step& step, Request& r);
  [[nodiscard]] bool names_free_window(const Request& r) const;
  bool set_bind(const Step& step, Request& r);
  [[nodiscard]] ibv_sge local_sge(const Step& step);

  Caps caps_;
  std::array<std::array<std::uint64_t, kHostMems>, kEnds> addresses_;
  std::array<std::array<std::array<std::vector<KnownKey>, kRegions>, kEnds>, 2> keys_{};
  std::array<std::array<std::deque<Receive>, kEnds>, kConns + 1> receives_{};
  std::uint64_t next_id_ = 1;
  int next_queue_ = 1;
};
static_assert(kRegions == kWindows);

}  // namespace guest::generator
