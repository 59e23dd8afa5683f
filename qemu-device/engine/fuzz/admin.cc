// SPDX-License-Identifier: GPL-2.0-or-later
// The admin queue and the registers: nearly valid commands in any order, with traffic in between.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "admin_play.h"

namespace tern::fuzz {

// ---- grants ----

// Allows access to the pages of a list.
void AdminPlay::grant(const tern_pages& p, std::uint64_t bytes, unsigned rights) {
  if (p.kind == TERN_PAGES_DIRECT) return w_.host.grant(p.addr, bytes, rights);
  const std::uint32_t num = std::min(p.num, 65536U);
  for (std::uint32_t i = 0; i < num; ++i) {
    std::uint64_t at = p.addr + 8ULL * i;
    if (p.kind == TERN_PAGES_INDIRECT) {
      at = w_.host.get<std::uint64_t>(p.addr + 8ULL * (i / TERN_PAGES_CHUNK)) +
           8ULL * (i % TERN_PAGES_CHUNK);
    }
    if (!FuzzHost::is_ram(at, 8)) return;
    w_.host.grant(w_.host.get<std::uint64_t>(at), 1ULL << (p.page_shift & 31), rights);
  }
}

void AdminPlay::grant(std::uint16_t opcode, const Bytes& in) {
  const auto as = [&]<class T>(T cmd) {
    std::memcpy(&cmd, in.data(), sizeof(cmd));
    return cmd;
  };
  // The device either writes or reads a ring; it does both to a record.
  const auto ring = [&](const auto& c, std::uint64_t bytes, unsigned rights) {
    grant(c.pages, bytes, rights);
    if constexpr (requires { c.record; })
      w_.host.grant(c.record, 256, FuzzHost::kRead | FuzzHost::kWrite);
  };
  constexpr std::uint64_t kQp = std::uint64_t{1} << 33;  // as far as its offsets can reach
  switch (opcode) {
    case TERN_CMD_ALLOC_PD:
      if (as(tern_cmd_alloc_pd{}).flags & TERN_PD_PRIVILEGED) w_.host.grant_all();
      break;
    case TERN_CMD_CREATE_EQ: {
      const auto c = as(tern_cmd_create_eq{});
      return ring(c, sizeof(tern_fault) << (c.log_size & 31), FuzzHost::kWrite);
    }
    case TERN_CMD_CREATE_CQ: {
      const auto c = as(tern_cmd_create_cq{});
      return ring(c, sizeof(tern_cqe) << (c.log_size & 31), FuzzHost::kWrite);
    }
    case TERN_CMD_CREATE_COMP_CNTR:
      for (const auto value : as(tern_cmd_create_comp_cntr{}).value)
        w_.host.grant(value, sizeof(value), FuzzHost::kWrite);
      break;
    case TERN_CMD_RESIZE_CQ: {
      const auto c = as(tern_cmd_resize_cq{});
      return ring(c, sizeof(tern_cqe) << (c.log_size & 31), FuzzHost::kWrite);
    }
    case TERN_CMD_CREATE_SRQ: {
      const auto c = as(tern_cmd_create_srq{});
      if (c.flags == TERN_SRQ_F_TM) grant(c.ops_pages, sizeof(tern_tm_op) << (c.log_ops & 31));
      return ring(c, std::uint64_t{1} << ((c.log_size + c.log_stride) & 63), FuzzHost::kRead);
    }
    case TERN_CMD_MODIFY_SRQ:
      return ring(as(tern_cmd_modify_srq{}), std::uint64_t{1} << 25, FuzzHost::kRead);
    case TERN_CMD_CREATE_ETH_QUEUE:
      w_.host.grant_all();  // descriptors may contain any DMA address
      break;
    case TERN_CMD_CREATE_QP:
      return ring(as(tern_cmd_create_qp{}), kQp, FuzzHost::kRead);
    case TERN_CMD_CREATE_MR: {
      const auto c = as(tern_cmd_create_mr{});
      if (!(c.flags & TERN_MR_F_INCOMPLETE) && c.kind == TERN_MR_MEMORY)
        grant(c.pages, c.offset + c.length);
      break;
    }
    case TERN_CMD_REREG_MR: {
      const auto c = as(tern_cmd_rereg_mr{});
      if (c.mask & TERN_REREG_TRANS) grant(c.pages, c.offset + c.length);
      break;
    }
    case TERN_CMD_UPDATE_PAGES:
      return grant(as(tern_cmd_update_pages{}).pages, 0);
    default:
      break;
  }
}

// ---- one command ----

void AdminPlay::twist(tern_aq_entry& e) {
  switch (in_.pick(8)) {
    case 0:
      e.opcode = in_.u16();
      break;
    case 1:
      e.version = in_.u8();
      break;
    case 2:
      e.in_len = in_.u16();
      break;
    case 3:
      e.out_len = in_.u16();
      break;
    case 4:
      e.in_addr = some_address();
      break;
    case 5:
      e.out_addr = some_address();
      break;
    case 6:
      e.rsvd_c = in_.u8();
      break;
    default:
      e.in_len = static_cast<std::uint16_t>(e.in_len + in_.u8());
      break;
  }
}

void AdminPlay::command() {
  const Shape* shape = &kShapes[in_.u8() % std::size(kShapes)];
  const std::uint8_t how = in_.u8();
  Bytes in = good(*shape);
  for (unsigned n = how & 3; n > 0; --n) bend(in);
  tern_aq_entry e{};
  e.opcode = shape->opcode;
  e.version = TERN_CMD_VERSION;
  e.in_len = shape->in_len;
  e.out_len = shape->out_len;
  e.in_addr = World::input_addr();
  e.out_addr = World::reply_addr();
  in.resize(TERN_CMD_MAX_LEN);
  w_.host.store(World::input_addr(), in);
  if ((how & 0xc0) == 0xc0) twist(e);

  // The input that the device will read, wherever it is.
  in.assign(TERN_CMD_MAX_LEN, std::byte{0});
  w_.host.load(e.in_addr, std::span(in).first(std::min<std::size_t>(e.in_len, in.size())));
  const auto known = std::ranges::find(kShapes, e.opcode, &Shape::opcode);
  shape = known == std::end(kShapes) ? nullptr : known;
  if (shape != nullptr && too_big(*shape, in)) return;
  w_.host.grant(e.out_addr, std::min<std::uint64_t>(e.out_len, TERN_CMD_MAX_LEN), FuzzHost::kWrite);
  // The device may write to a queue during the command that creates it.
  const bool region = e.opcode == TERN_CMD_CREATE_MR || e.opcode == TERN_CMD_REREG_MR ||
                      e.opcode == TERN_CMD_UPDATE_PAGES;
  if (!region && shape != nullptr) grant(e.opcode, in);
  const auto status = w_.perform(e);
  if (status != TERN_ST_OK || shape == nullptr) return;
  if (region) grant(e.opcode, in);
  if (shape->makes >= 0) {
    const bool dm = shape->makes == kDm;
    const std::size_t at = dm ? offsetof(tern_rsp_alloc_dm, dmn) : 0;
    if (e.out_len < at + 4 || !FuzzHost::is_ram(e.out_addr + at, 4)) {
      nameless_ = true;  // the object exists, but its number is unknown
    } else {
      live_[static_cast<unsigned>(shape->makes)].push_back(
          w_.host.get<std::uint32_t>(e.out_addr + at));
    }
  }
  if (shape->destroys >= 0) {
    std::uint32_t id;
    std::memcpy(&id, in.data(), sizeof(id));
    // Any variant of the key destroys a FAST region or a window.
    const unsigned variant =
        shape->destroys == kKey || shape->destroys == kWindow ? TERN_KEY_VARIANT_MASK : 0;
    std::erase_if(live_[static_cast<unsigned>(shape->destroys)],
                  [&](std::uint32_t live) { return (live | variant) == (id | variant); });
  }
}

void AdminPlay::registers() {
  const std::uint8_t how = in_.u8();
  constexpr std::array offsets = {TERN_REG_CTRL,        TERN_REG_PAGE_SHIFT,  TERN_REG_AQ_BASE_LO,
                                  TERN_REG_ACQ_BASE_LO, TERN_REG_AQ_LOG_SIZE, TERN_REG_AQ_TAIL};
  const std::uint32_t offset = how & 0x80 ? in_.u16() & ~3U : offsets[how % offsets.size()];
  if (offset == TERN_REG_AQ_TAIL) w_.lose_dm();
  (void)w_.device->reg_read(offset);
  const std::uint32_t value = how & 0x40 ? how & 0x20 ? in_.u32() : in_.u8() : 0;
  if (how & 0x40) w_.device->reg_write(offset, value);
  if (how & 0x10) w_.device->dma_invalidate(in_.u64(), in_.u64());
  w_.settle();
  // The device executed old entries of the ring again, so the numbers of new objects are unknown.
  if (how & 0x40 && offset == TERN_REG_AQ_TAIL && w_.enabled()) {
    w_.follow_tail(value);
    nameless_ = true;
  }
}

// ---- the end ----

void AdminPlay::finish() {
  struct Step {
    std::uint16_t opcode;
    Kind kind;
  };
  // In this order no object is busy.
  constexpr Step steps[] = {
      {TERN_CMD_DESTROY_FLOW, kFlow},
      {TERN_CMD_DESTROY_RSS, kRss},
      {TERN_CMD_DESTROY_FLOW_COUNTER, kFlowCounter},
      {TERN_CMD_DESTROY_QP, kQp},
      {TERN_CMD_DESTROY_COUNTER_SET, kCounterSet},
      {TERN_CMD_DESTROY_COMP_CNTR, kCompCounter},
      {TERN_CMD_DESTROY_ETH_QUEUE, kEth},
      {TERN_CMD_DESTROY_SRQ, kSrq},
      {TERN_CMD_FREE_XRCD, kXrcd},
      {TERN_CMD_FREE_MW, kWindow},
      {TERN_CMD_DESTROY_MR, kKey},
      {TERN_CMD_DESTROY_CQ, kCq},
      {TERN_CMD_DESTROY_EQ, kEq},
      {TERN_CMD_FREE_PD, kPd},
      {TERN_CMD_FREE_UAR, kUar},
      {TERN_CMD_FREE_DM, kDm},
  };
  if (nameless_) return;
  tern_cmd_set_rx_default none_set{};
  none_set.port = 1;
  (void)w_.command(TERN_CMD_SET_RX_DEFAULT, none_set);
  for (const Step& s : steps) {
    for (const std::uint32_t id : live_[s.kind]) {
      auto status = w_.on(s.opcode, id);
      // Work requests may have changed the variant of a key.
      for (std::uint32_t v = 0; status == TERN_ST_BAD_HANDLE && v < 256; ++v) {
        if (s.kind != kKey && s.kind != kWindow) break;
        status = w_.on(s.opcode, (id & ~TERN_KEY_VARIANT_MASK) | v);
      }
      if (!w_.enabled()) return;
      if (status != TERN_ST_OK) violation("an object cannot be destroyed", s.opcode, *status);
    }
  }
  for (std::uint16_t i = 0; i < w_.caps.gid_table_len; ++i) {
    tern_cmd_set_gid gid{};
    gid.index = i;
    gid.port = 1;
    if (w_.device->port.addresses.gid_count() != 0) (void)w_.command(TERN_CMD_SET_GID, gid);
  }
  const auto left = w_.objects();
  const tern_rsp_objects none{};
  if (left && std::memcmp(&*left, &none, sizeof(none)) != 0) violation("objects left behind");
}

namespace {

constexpr unsigned kMaxSteps = 48;

constexpr Step kTraffic[] = {Step::kFrame, Step::kPostSend, Step::kPostRecv, Step::kRun,
                             Step::kTimer, Step::kPoll,     Step::kDoorbell, Step::kHole,
                             Step::kWqe,   Step::kArm,      Step::kEcho,     Step::kMemory};

int run(std::span<const std::uint8_t> bytes) {
  static FuzzHost host;
  static const tern_rsp_caps caps = [] {
    World w(host);
    w.plug(false);
    w.device.reset();
    return w.caps;
  }();
  if (bytes.size() < 4) return -1;
  Input in(bytes);
  World w(host);
  const Scene scene = read_scene(in, caps);
  const std::uint8_t end = in.u8();
  w.build(scene);
  // Commands may read any memory; the device may write only memory that a command gave it.
  host.grant_reads();
  w.trust_sent = false;
  Play play(w, in);
  AdminPlay admin(w, in);
  for (unsigned n = 0; n < kMaxSteps && !in.empty() && w.enabled(); ++n) {
    const std::uint8_t what = in.u8();
    if (what < 0xa0) {
      admin.command();
    } else if (what < 0xf8) {
      play.step(kTraffic[what % std::size(kTraffic)]);
    } else {
      admin.registers();
    }
  }
  host.restore_all();
  host.most = 0;
  if (w.enabled()) {
    w.settle();
    for (unsigned n = 0; n < 2 && w.next_timer(); ++n) {
    }
  }
  if ((end & 3) == 0 && w.enabled()) admin.finish();
  w.tear_down(true);
  return 0;
}

}  // namespace
}  // namespace tern::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return tern::fuzz::run({data, size});
}
