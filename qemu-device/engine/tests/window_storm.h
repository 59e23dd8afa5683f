// SPDX-License-Identifier: GPL-2.0-or-later
// Windows are bound, moved, invalidated and freed while peers access them over a wire that loses,
// duplicates and reorders frames. After each step of the simulation, every changed byte must lie in
// a window that was valid then, and no byte that a peer receives may come from elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

#include "tests/windows.h"

namespace tern {

class WindowStorm {
 public:
  // `rule` is switched off at the owner, if the engine was built with TERN_MUTATIONS.
  explicit WindowStorm(std::uint64_t seed, std::string_view rule = {});
  // Runs at most `rounds` rounds, or until the first violation.
  void run(unsigned rounds);

  struct Tally {
    unsigned binds = 0;
    unsigned ends = 0;
    unsigned allowed = 0;
    unsigned refused = 0;
    unsigned changed = 0;  // bytes changed outside all windows
    unsigned leaked = 0;   // bytes that a peer got from outside all windows
  };
  [[nodiscard]] const Tally& tally() const { return tally_; }
  [[nodiscard]] bool calm() const { return tally_.changed == 0 && tally_.leaked == 0; }

  Sim sim;

 private:
  static constexpr std::uint32_t kSlot = 2048;  // bytes of the region for each window
  static constexpr unsigned kPairs = 6;
  static constexpr std::uint32_t kLength = kSlot * kPairs;

  // A range that a window may cover, and its key there, as software knows them.
  struct Place {
    std::uint32_t key;
    std::uint64_t first;  // in the region
    std::uint64_t length;
    std::uint32_t access;
  };
  // A connection, and the window that its end at the owner manages.
  struct Pair {
    TestQp* peer;
    TestQp* own;
    TestMr* sink;  // at the peer
    TestMw mw;
    std::vector<Place> places;    // the window covers one of these, or nothing
    std::optional<Place> coming;  // a bind is posted
    bool ending = false;          // an unbind, LOCAL_INV or SEND_WITH_INV is posted
    unsigned accesses = 0;        // posted by the peer
    bool broken = false;
  };

  std::uint64_t pick(std::uint64_t n) { return rng_() % n; }
  [[nodiscard]] unsigned index(const Pair& p) const {
    return static_cast<unsigned>(&p - pairs_.data());
  }
  TestMw new_window(unsigned i) { return alloc_mw(b_, static_cast<std::uint8_t>(1 + i % 2)); }

  [[nodiscard]] bool alive(const Place& place) const;
  void mark_writable(std::vector<bool>& bytes) const;
  bool step();
  void store(std::uint64_t first, std::uint64_t length, std::byte value);
  void hide(const Pair& p, const std::optional<Place>& place);

  void post_bind(Pair& p);
  void post_end(Pair& p);
  void ended(Pair& p);
  void free_window(Pair& p);
  void owner_acts(Pair& p);
  void owner_hears(Pair& p, const Wc& wc);
  void peer_acts(Pair& p);
  void peer_hears(Pair& p, const Wc& wc);
  void listen();
  void repair();

  std::mt19937_64 rng_;
  TestNode a_;
  TestNode b_;
  TestMr& mr_;
  TestMr& source_;
  std::vector<std::byte> shadow_;
  std::vector<Pair> pairs_;
  Tally tally_;
};

}  // namespace tern
