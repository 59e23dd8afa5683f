// SPDX-License-Identifier: GPL-2.0-or-later
// Saved states. An input makes a world and does some work in it, changes bytes of its saved state,
// loads that, and works on. A state without changes must give the same device again.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "play.h"

namespace tern::fuzz {

namespace {

constexpr unsigned kMaxSteps = 24;
constexpr std::array kTable = {Step::kPostSend, Step::kFrame,    Step::kPostRecv, Step::kRun,
                               Step::kEcho,     Step::kPoll,     Step::kTimer,    Step::kState,
                               Step::kEth,      Step::kDoorbell, Step::kHole,     Step::kArm,
                               Step::kWqe,      Step::kLink,     Step::kRecord,   Step::kMemory};

void work(World& world, Play& play, Input& in) {
  for (unsigned n = 0; n < kMaxSteps && !in.empty() && world.enabled(); ++n) {
    const std::uint8_t step = in.u8();
    if (step >= 0xf0) break;
    play.step(kTable[step % kTable.size()]);
  }
}

// Returns whether anything has changed.
bool change(std::vector<std::byte>& state, Input& in) {
  constexpr std::array<std::uint32_t, 8> kValues = {0,        1,          2,          0x7f,
                                                    0xffffff, 0x7fffffff, 0x80000000, 0xffffffff};
  const std::vector<std::byte> before = state;
  for (unsigned n = in.pick(8); n != 0; --n) {
    const std::size_t at = in.u32() % state.size();
    const std::uint8_t how = in.u8();
    if (how < 0x80) {
      state[at] = std::byte{in.u8()};
    } else if (how < 0xf8) {
      const std::uint32_t value = kValues[how % kValues.size()];
      std::memcpy(&state[at], &value, std::min(sizeof(value), state.size() - at));
    } else {
      state.resize(at + 1);
    }
  }
  return state != before;
}

}  // namespace

int run_state(std::span<const std::uint8_t> bytes) {
  static FuzzHost host;
  static const tern_rsp_caps caps = [] {
    World w(host);
    w.plug(false);
    return w.caps;
  }();
  if (bytes.size() < 8) return -1;
  Input in(bytes);
  World world(host);
  world.build(read_scene(in, caps));
  Play play(world, in);
  work(world, play, in);
  world.collect();
  std::vector<std::byte> state;
  std::string error;
  if (!world.device->save(state, error)) violation(("a device is not saved: " + error).c_str());
  const bool changed = change(state, in);
  if (changed) {
    // It may use any memory now, send anything, and have another place in its queue.
    host.grant_all();
    host.open_dm();
    world.trust_commands = world.trust_sent = false;
  }
  if (!world.device->load(state, error)) {
    if (error.empty()) violation("a state is refused without a reason");
    if (!changed) violation(("a saved state is refused: " + error).c_str());
    world.tear_down(true);
    return 0;
  }
  std::vector<std::byte> again;
  if (!changed && (!world.device->save(again, error) || again != state))
    violation("a loaded device has another state");
  work(world, play, in);
  if (world.enabled()) {
    for (unsigned n = 0; n < 100 && world.device->run(65536); ++n) world.collect();
  }
  world.tear_down(true);
  return 0;
}

}  // namespace tern::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tern::fuzz::run_state({data, size});
}
