// SPDX-License-Identifier: GPL-2.0-or-later
// Frames from the wire into a device with live QPs.
#include "play.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tern::fuzz::Step;
  // Selected by one byte, mostly frames. The order is part of the corpus format.
  static constexpr Step table[] = {Step::kFrame, Step::kFrame,    Step::kFrame,    Step::kFrame,
                                   Step::kEcho,  Step::kPostRecv, Step::kPostSend, Step::kRun,
                                   Step::kTimer, Step::kPoll,     Step::kState,    Step::kRawFrame,
                                   Step::kHole,  Step::kLink,     Step::kArm,      Step::kMemory};
  return tern::fuzz::run_scene({data, size}, table);
}
