// SPDX-License-Identifier: GPL-2.0-or-later
#include "play.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>

namespace tern::fuzz {

namespace {

constexpr unsigned kMaxSteps = 64;
// Step bytes from here on select fault rules instead of an entry of the target's table.
constexpr std::uint8_t kFaults = 0xf8;

constexpr std::array kTypes = {TERN_QPT_RC, TERN_QPT_UC, TERN_QPT_UD, TERN_QPT_XRC_INI,
                               TERN_QPT_GSI};
constexpr std::array kTypeCaps = {TERN_CAP_RC, TERN_CAP_UC, TERN_CAP_UD, TERN_CAP_XRC, TERN_CAP_UD};

}  // namespace

// ---- choices ----

std::uint32_t Play::key() {
  switch (in_.pick(12)) {
    case 7:
      return w_.ro.key;
    case 8:
      return w_.other.key;
    case 9:
      return w_.fast.key != 0 ? w_.fast.key : w_.dm.key;
    case 10: {
      if (w_.windows.empty()) return TERN_LKEY_DMA;
      return w_.windows[in_.pick(static_cast<unsigned>(w_.windows.size()))].key;
    }
    case 11:
      switch (in_.pick(4)) {
        case 0:
          return TERN_LKEY_DMA;
        case 1:
          return w_.rw.key + 1;
        case 2:
          return TERN_KEY_INVALID;
        default:
          return in_.u32();
      }
    default:
      return w_.rw.key;
  }
}

std::uint64_t Play::address(std::uint32_t key) {
  const Region* r = &w_.rw;
  for (const Region* const other : {&w_.ro, &w_.other, &w_.fast, &w_.dm}) {
    if (other->key != 0 && other->key == key) r = other;
  }
  for (const Region& mw : w_.windows) {
    if (mw.key == key && mw.length != 0) r = &mw;
  }
  switch (in_.pick(8)) {
    case 0:
      return r->iova + r->length - in_.u8();  // near its end
    case 1:
      return r->iova - 1;
    case 2:
      return in_.u64();
    case 3:
      return r->iova + 8 * in_.u8();
    case 4:
      return FuzzHost::page(page::kFree) + in_.u16();  // for TERN_LKEY_DMA
    default:
      return r->iova + (8 - r->iova % 8) + in_.u8();
  }
}

std::uint32_t Play::length(std::uint32_t most) {
  const std::uint32_t mtu = 1U << w_.scene.log_mtu;
  switch (in_.pick(8)) {
    case 0:
      return 0;
    case 1:
      return std::min(mtu, most);
    case 2:
      return std::min(mtu + in_.u8(), most);
    case 3:
      return std::min<std::uint32_t>(2 * mtu, most);
    case 4:
      return in_.u16() % (most + 1);
    case 5:
      return std::min<std::uint32_t>(8, most);
    default:
      return std::min<std::uint32_t>(in_.u8(), most);
  }
}

// ---- faults ----

// A rule in the language of Documentation/faults.rst, built from the input.
std::string Play::rule() {
  constexpr std::array kActions = {"drop", "duplicate", "delay", "reorder", "corrupt", "mark"};
  constexpr std::array kParts = {"icrc", "payload", "psn", "qp", "opcode", "any"};
  constexpr std::array kOpcodes = {
      "request",      "response",   "ack",         "read-response",      "read-request",
      "atomic",       "atomic-ack", "send-last",   "send-first",         "write-last",
      "write-middle", "write-only", "write-first", "read-response-last", "read-response-first",
      "send-only"};
  constexpr std::array kSyndromes = {"ack", "rnr", "nak"};
  const std::uint8_t what = in_.u8();
  const std::uint8_t how = in_.u8();
  const unsigned action = what % kActions.size();
  std::string text = kActions[action];
  const auto value = [&] { return std::to_string(1 + in_.pick(16)); };
  if (action == 1 && how & 1) text += "=" + value();
  if (action == 2) text += "=" + value() + (how & 1 ? "ms" : "us");
  if (action == 3) text += "=" + value();
  if (action == 4)
    text += how & 1 ? "=" + std::to_string(in_.u8())
                    : std::string("=") + kParts[in_.pick(kParts.size())];
  const bool out = what & 0x80;
  text += out ? " tx" : " rx";
  if (action == 4 && how & 2) text += " sealed";
  // A frame that is corrupted on its way out need not be well-formed.
  if (action == 4 && out) w_.trust_sent = false;
  if (how & 4) text += std::string(" opcode=") + kOpcodes[in_.pick(kOpcodes.size())];
  if ((how & 12) == 8) text += std::string(" syndrome=") + kSyndromes[in_.pick(kSyndromes.size())];
  switch (how >> 6) {
    case 0:
      text += " nth=" + value();
      break;
    case 1:
      text += " every=" + value();
      break;
    case 2:
      text += " rate=" + std::to_string(1 + in_.pick(99)) + "% seed=" + std::to_string(in_.u8());
      break;
    default:
      break;
  }
  if (how & 16) text += " count=" + value();
  return text;
}

void Play::faults() {
  std::string rules;
  for (unsigned n = in_.pick(4); n > 0; --n) rules += rule() + "\n";
  std::string error;
  if (!w_.device->set_faults(rules, error)) violation(("a rule is refused: " + error).c_str());
  w_.collect();
  w_.check();
}

// ---- steps ----

void Play::run(unsigned bits) {
  (void)w_.device->poll();
  (void)w_.device->run(1U << bits);
  if (bits >= w_.qps.size()) return;
  if (Qp* const qp = w_.device->registry.qps.find(w_.qps[bits].number))
    w_.device->datapath.sq_poller.begin(*qp);
}

void Play::step(Step what) {
  switch (what) {
    case Step::kFrame:
      return frame();
    case Step::kRawFrame:
      return raw_frame();
    case Step::kEcho:
      return echo();
    case Step::kPostRecv:
      return post_recv();
    case Step::kPostSend:
      return post_send();
    case Step::kRun:
      run(in_.pick(18));
      w_.collect();
      return w_.check();
    case Step::kTimer:
      w_.settle();
      (void)w_.next_timer();
      return;
    case Step::kHole:
      return hole();
    case Step::kState:
      return state();
    case Step::kLink:
      w_.device->set_link(in_.u8() & 1);
      return w_.collect();
    case Step::kPoll:
      return poll();
    case Step::kArm:
      return arm();
    case Step::kWqe:
      return wqe();
    case Step::kRawWqe:
      return raw_wqe();
    case Step::kRecvWqe:
      return recv_wqe();
    case Step::kRecord:
      return record();
    case Step::kScribble:
      return scribble();
    case Step::kDoorbell:
      return doorbell();
    case Step::kEth:
      return eth();
    case Step::kMemory: {
      const std::uint8_t how = in_.u8();
      w_.host.cut_pages = how & 1;
      w_.host.most = how & 2 ? 1 + (how >> 2) : 0;
      return;
    }
    case Step::kFaults:
      return faults();
    case Step::kNum:
      return;
  }
}

// ---- a whole input ----

Scene read_scene(Input& in, const tern_rsp_caps& caps) {
  Scene s;
  const std::uint8_t a = in.u8();
  const std::uint8_t b = in.u8();
  const unsigned i = a % kTypes.size();
  if (caps.flags & kTypeCaps[i]) s.type = static_cast<std::uint8_t>(kTypes[i]);
  if ((b & 0x80) && (caps.flags & TERN_CAP_RAW_QP)) s.type = TERN_QPT_RAW;
  s.loopback = a & 0x80;
  s.qps = a & 0x40 ? 3 : 2;
  s.privileged = s.type == TERN_QPT_GSI || (b & 0x07) == 7;
  s.ipv4 = b & 0x08;
  s.vlan = (b & 0x30) == 0x30;
  s.srq = (b & 0x40) && (caps.flags & TERN_CAP_SRQ);
  s.tags = s.srq && s.type == TERN_QPT_RC && caps.max_tags != 0 && (b & 1);
  const std::uint8_t c = in.u8();
  s.log_mtu = static_cast<std::uint8_t>(8 + (c & 7) % 5);
  s.log_sq_stride = static_cast<std::uint8_t>(6 + (c >> 3 & 3));
  s.eth = (c & 0xe0) == 0xe0;
  s.capture = (c & 0xe0) == 0xc0;
  s.cut_pages = (c & 0xe0) == 0xa0;
  return s;
}

int run_scene(std::span<const std::uint8_t> bytes, std::span<const Step> table) {
  static FuzzHost host;
  static const tern_rsp_caps caps = [] {
    World w(host);
    w.plug(false);
    w.device.reset();
    return w.caps;
  }();
  if (bytes.size() < 4) return -1;
  Input in(bytes);
  World world(host);
  const Scene scene = read_scene(in, caps);
  const std::uint8_t end = in.u8();
  world.build(scene);
  Play play(world, in);
  for (unsigned n = 0; n < kMaxSteps && !in.empty() && world.enabled(); ++n) {
    const std::uint8_t step = in.u8();
    play.step(step >= kFaults ? Step::kFaults : table[step % table.size()]);
  }
  if (world.enabled()) {
    world.settle();
    for (unsigned n = 0; n < 4 && world.next_timer(); ++n) {
    }
  }
  world.tear_down(end & 3);
  return 0;
}

}  // namespace tern::fuzz
