// SPDX-License-Identifier: GPL-2.0-or-later
// Queues with arbitrary contents: WQEs, records, doorbells.
#include "play.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using tern::fuzz::Step;
  static constexpr Step table[] = {
      Step::kWqe,      Step::kWqe,    Step::kWqe,      Step::kRawWqe,   Step::kRecvWqe,
      Step::kPostRecv, Step::kRecord, Step::kScribble, Step::kRun,      Step::kDoorbell,
      Step::kTimer,    Step::kPoll,   Step::kArm,      Step::kState,    Step::kHole,
      Step::kEth,      Step::kEcho,   Step::kFrame,    Step::kPostSend, Step::kMemory};
  return tern::fuzz::run_scene({data, size}, table);
}
