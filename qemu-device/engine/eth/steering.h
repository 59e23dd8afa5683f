// SPDX-License-Identifier: GPL-2.0-or-later
// The steering table of a port: flows by priority, and their counters. Destinations are only
// numbers here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "frames/headers.h"
#include "memory/page_list.h"

namespace tern {
class Archive;
}

namespace tern::eth {

// The destination to which a flow gives a frame.
struct Target {
  std::uint8_t dest = TERN_DEST_NONE;
  std::uint32_t id = 0;
  std::uint32_t tag = 0;
};

// What a flow sees: a frame passes the flows of one stage, or of two that follow each other.
enum class Stage : std::uint8_t {
  kDatagram,  // RoCE datagrams to QPs of this port
  kSniffer,
  kReceived,  // frames of the Ethernet function
  kSent,      // frames that raw QPs send
};
inline constexpr std::size_t kStages = 4;

class Steering {
 public:
  // SNIFFER and CONTINUE flows that a frame matches: sniffers first, then by priority and creation.
  // More of them neither get a copy nor count.
  static constexpr std::size_t kMaxCopies = 16;

  // `seed`: of the hash tables. Random and secret, so that nobody can choose colliding flows.
  explicit Steering(std::uint64_t seed = 0);
  ~Steering();

  // The caller has checked port, reserved bytes and the destination. Checks kind, flags, tag,
  // counter, layers and masks: fields whose layer is not named must have a mask of 0.
  [[nodiscard]] Status create(const tern_cmd_create_flow& cmd, std::uint32_t* id);
  [[nodiscard]] Status destroy(std::uint32_t id);
  [[nodiscard]] Status create_counter(std::uint32_t* id);
  [[nodiscard]] Status query_counter(std::uint32_t id, tern_rsp_flow_counter& reply) const;
  [[nodiscard]] Status destroy_counter(std::uint32_t id);
  void reset();

  // Whether there is a flow of the stage: otherwise classify() need not be called.
  [[nodiscard]] bool any(Stage stage) const;
  // Whether a flow refers to this destination.
  [[nodiscard]] bool refers_to(std::uint8_t dest, std::uint32_t id) const;

  struct Verdict {
    bool taken =
        false;  // a flow without CONTINUE matched: `target`, and the frame goes nowhere else
    Target target;
    std::uint32_t lookups = 0;  // shapes that were compared with the frame
    std::size_t copies = 0;
    std::array<Target, kMaxCopies> copy;
  };
  // Finds the flows of a frame of `bytes` bytes in the stages from `first` to `last` and counts it
  // in their counters. The cost is at most one lookup for each of their shapes, whatever the number
  // of flows.
  [[nodiscard]] Verdict classify(const frames::Headers& headers, std::size_t bytes, Stage first,
                                 Stage last);

  // Saved state; the hash tables' seed is not part of it. The caller checks the destinations of the
  // flows that were read.
  void state(Archive& ar);
  void for_each_flow(
      const std::function<void(std::uint32_t id, const tern_cmd_create_flow& cmd)>& f) const;

  [[nodiscard]] std::uint32_t flows() const;
  [[nodiscard]] std::uint32_t counters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern::eth
