// SPDX-License-Identifier: GPL-2.0-or-later
#include "world.h"

#include <algorithm>
#include <cstring>

#include "testing/admin_queue.h"
#include "testing/qp_attributes.h"
#include "wire/codec.h"

namespace tern::fuzz {

namespace {

constexpr std::uint32_t kAll = TERN_ACCESS_LOCAL_WRITE | TERN_ACCESS_REMOTE_WRITE |
                               TERN_ACCESS_REMOTE_READ | TERN_ACCESS_REMOTE_ATOMIC |
                               TERN_ACCESS_FLUSH_GLOBAL;
constexpr std::uint32_t kBudget = 65536;
// Far more than any input needs: a device that takes longer never finishes.
constexpr unsigned kMaxTurns = 20000;
constexpr std::size_t kKeepFrames = 8;
constexpr std::uint64_t kAdminRecord = 3072;  // in the page of the admin queue

tern_pages direct(std::uint64_t addr) {
  tern_pages p{.addr = addr, .kind = TERN_PAGES_DIRECT};
  return p;
}

}  // namespace

// ---- the device ----

void World::plug(bool capture) {
  Config config{.dm = host.dm(),
                .uar_bar_size = kUarBytes,
                .max_qp = 24,
                .max_cq = 24,
                .max_mr = 24,
                .max_mw = 24,
                .num_vectors = 4,
                .max_mtu = 9000,
                .mac = kMac,
                .capture = capture};
  host.restart();
  device = std::make_unique<Device>(host, config);
  device->allow_polling(0);
  using H = FuzzHost;
  host.grant(H::page(page::kAdmin), H::kPage, H::kRead | H::kWrite);
  host.grant(H::page(page::kArgs), H::kPage, H::kRead | H::kWrite);
  const std::uint64_t aq = H::page(page::kAdmin);
  test::enable_admin_queue(
      aq, aq + 2048, kLogAdmin,
      [this](std::uint32_t reg, std::uint32_t value) { device->reg_write(reg, value); },
      aq + kAdminRecord);
  aq_tail_ = 0;
  device->set_link(true);
  tern_cmd_modify_port port{
      .mask = TERN_PORT_ENABLE | TERN_PORT_MTU, .mtu = 4300, .enable = 1, .port = 1};
  if (command(TERN_CMD_MODIFY_PORT, port) != TERN_ST_OK) violation("no port");
  if (command(TERN_CMD_QUERY_CAPS, {}, sizeof(caps)) != TERN_ST_OK) violation("no capabilities");
  caps = host.get<tern_rsp_caps>(reply_addr());
}

bool World::enabled() const {
  return device->reg_read(TERN_REG_STATUS) == (TERN_STATUS_READY | TERN_STATUS_ENABLED);
}

std::optional<Status> World::perform(const tern_aq_entry& entry) {
  const std::uint32_t index = aq_tail_++;
  const std::uint64_t slot = index & ((1U << kLogAdmin) - 1);
  const std::uint64_t aq = FuzzHost::page(page::kAdmin);
  host.put(aq + slot * sizeof(entry), entry);
  const auto freed = host.get<std::uint32_t>(entry.in_addr);
  if (entry.opcode == TERN_CMD_ALLOC_DM) host.open_dm();  // it zeroes the new part
  host.put(aq + kAdminRecord + offsetof(tern_aq_record, tail), aq_tail_);
  if (host.get<std::uint32_t>(aq + kAdminRecord + offsetof(tern_aq_record, status)) == 0)
    device->reg_write(TERN_REG_AQ_TAIL, aq_tail_);
  settle();
  if (!enabled()) return std::nullopt;
  const auto done = host.get<tern_acq_entry>(aq + 2048 + slot * sizeof(tern_acq_entry));
  if (done.aq_head != aq_tail_) {
    if (!trust_commands) return std::nullopt;
    violation("a command without completion", entry.opcode, done.aq_head);
  }
  if (entry.opcode == TERN_CMD_ALLOC_DM) {
    if (done.status == TERN_ST_OK) dm_given(entry.out_addr, entry.out_len);
    grant_dm();
  } else if (entry.opcode == TERN_CMD_FREE_DM && done.status == TERN_ST_OK) {
    std::erase_if(dm_parts, [&](const DmPart& part) { return part.number == freed; });
    grant_dm();
  }
  return done.status;
}

// ---- device memory ----

void World::dm_given(std::uint64_t reply, std::size_t len) {
  if (len < sizeof(tern_rsp_alloc_dm) || !FuzzHost::is_ram(reply, sizeof(tern_rsp_alloc_dm))) {
    return lose_dm();
  }
  const auto rsp = host.get<tern_rsp_alloc_dm>(reply);
  const DmPart part{rsp.dmn, rsp.offset, rsp.size};
  if (part.size == 0 || part.offset > FuzzHost::kDmBytes ||
      part.size > FuzzHost::kDmBytes - part.offset) {
    violation("a part that is not in device memory", part.offset, part.size);
  }
  for (const DmPart& p : dm_parts) {
    if (part.offset < p.offset + p.size && p.offset < part.offset + part.size) {
      violation("device memory given out twice", part.offset, p.offset);
    }
  }
  const auto bytes = host.dm().subspan(part.offset, part.size);
  if (std::ranges::any_of(bytes, [](std::byte b) { return b != std::byte{0}; })) {
    violation("device memory given out with something in it", part.offset);
  }
  dm_parts.push_back(part);
}

void World::grant_dm() {
  if (dm_lost_) return;
  host.close_dm();
  for (const DmPart& part : dm_parts) host.grant_dm(part.offset, part.size);
}

void World::lose_dm() {
  dm_lost_ = true;
  host.open_dm();
}

std::optional<Status> World::command(std::uint16_t opcode, std::span<const std::byte> in,
                                     std::size_t out_len) {
  host.store(input_addr(), in);
  return perform(
      test::admin_entry(opcode, input_addr(), in.size(), reply_addr(), out_len, aq_tail_));
}

std::uint32_t World::make(std::uint16_t opcode, std::span<const std::byte> in) {
  const auto status = command(opcode, in, sizeof(tern_rsp_object));
  if (status != TERN_ST_OK) violation("the world cannot be built", opcode, status.value_or(0xffff));
  return reply();
}

// ---- objects ----

void World::build(const Scene& s) {
  scene = s;
  plug(s.capture);
  before_ = *objects();
  uar = make(TERN_CMD_ALLOC_UAR, std::span<const std::byte>{});
  pd = make(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{s.privileged ? TERN_PD_PRIVILEGED : 0U, 0});
  pd2 = make(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{});
  tern_cmd_set_gid g{.valid = 1,
                     .net_type = static_cast<std::uint8_t>(s.ipv4 ? TERN_NET_IPV4 : TERN_NET_IPV6),
                     .vlan = s.vlan ? kVlan : std::uint16_t{TERN_VLAN_NONE},
                     .port = 1};
  std::ranges::copy(kMac, g.mac);
  std::ranges::copy(own_gid(), g.gid);
  if (command(TERN_CMD_SET_GID, g) != TERN_ST_OK) violation("no GID");
  make_queues();
  make_memory();
  if (can(TERN_CAP_DM)) make_dm();
  if (can(TERN_CAP_SRQ)) make_srqs();
  if (s.eth) make_eth();
  for (unsigned i = 0; i < s.qps; ++i) make_qp(i);
  for (unsigned i = 0; i < s.qps; ++i) {
    FuzzQp& qp = qps[i];
    // Local QPs form a ring, which also works for an odd number.
    const std::uint32_t dest = s.loopback ? qps[(i + 1) % s.qps].number : kPeerQpn + i;
    if (!connect(qp, dest, s.loopback)) violation("a QP cannot be connected", qp.type);
  }
  bind_windows();
  if (s.type == TERN_QPT_RAW && can(TERN_CAP_STEERING)) make_flows();
  host.cut_pages = s.cut_pages;
  // A privileged PD and the Ethernet function may use any DMA address.
  if (s.privileged || s.eth) host.grant_all();
}

void World::make_queues() {
  using H = FuzzHost;
  // The device only writes the rings of EQs and CQs, and only reads those of work queues.
  host.grant(record::kPage, H::kPage, H::kRead | H::kWrite);
  host.grant(H::page(page::kEqs), H::kPage, H::kWrite);
  tern_cmd_create_eq e{.pages = direct(H::page(page::kEqs)),
                       .record = record::eq(0),
                       .log_size = 4,
                       .kind = TERN_EQ_ASYNC};
  async_eq = make(TERN_CMD_CREATE_EQ, e);
  e.pages = direct(H::page(page::kEqs) + 2048);
  e.record = record::eq(1);
  e.vector = 1;
  e.kind = TERN_EQ_COMPLETION;
  eq = make(TERN_CMD_CREATE_EQ, e);
  for (unsigned i = 0; i < cqs.size(); ++i) {
    host.grant(H::page(page::kCq + i), 64U << kLogCq, H::kWrite);
    tern_cmd_create_cq c{.pages = direct(H::page(page::kCq + i)),
                         .record = record::cq(i),
                         .eqn = i == 2 ? TERN_NO_EQ : eq,
                         .uar = uar,
                         .log_size = kLogCq};
    cqs[i] = make(TERN_CMD_CREATE_CQ, c);
  }
}

void World::make_memory() {
  using H = FuzzHost;
  const std::uint64_t list = H::page(page::kLists);
  host.grant(list, H::kPage, H::kRead);
  host.put(list, H::page(page::kRw));
  host.put(list + 8, H::page(page::kRw2));
  const auto reg = [&](Region& r, tern_cmd_create_mr& c) {
    r.iova = c.iova;
    r.length = c.length;
    r.key = make(TERN_CMD_CREATE_MR, c);
  };
  tern_cmd_create_mr c{};
  c.pages.addr = list;
  c.pages.num = 2;
  c.pages.page_shift = 12;
  c.pages.kind = TERN_PAGES_LIST;
  c.iova = 0x10'0000'0123;
  c.offset = 0x123;
  c.length = 0x1500;
  c.pdn = pd;
  c.access = kAll;
  if (can(TERN_CAP_MW_TYPE_1)) c.access |= TERN_ACCESS_MW_BIND;
  reg(rw, c);
  host.grant(H::page(page::kRw) + 0x123, 0x1000 - 0x123, H::kRead | H::kWrite);
  host.grant(H::page(page::kRw2), 0x1500 - (0x1000 - 0x123), H::kRead | H::kWrite);
  c.pages = direct(H::page(page::kRo));
  c.iova = 0x20'0000'0000;
  c.offset = 0;
  c.length = 0x800;
  c.access = TERN_ACCESS_REMOTE_READ;
  reg(ro, c);
  host.grant(H::page(page::kRo), 0x800, H::kRead);
  // Allows no access to it: no QP of the scene is in its PD.
  c.pages = direct(H::page(page::kOther));
  c.iova = 0x30'0000'0000;
  c.pdn = pd2;
  c.access = kAll;
  reg(other, c);
  if (can(TERN_CAP_FRWR) && scene.privileged) {
    c = {};
    c.pages.num = 4;
    c.pdn = pd;
    c.kind = TERN_MR_FAST;
    c.access = 0;
    reg(fast, c);
  }
  for (const auto& [cap, type] :
       {std::pair{TERN_CAP_MW_TYPE_1, 1}, {TERN_CAP_MW_TYPE_2A, 2}, {TERN_CAP_MW_TYPE_2B, 2}}) {
    if (!can(cap)) continue;
    tern_cmd_alloc_mw m{.pdn = pd, .type = static_cast<std::uint8_t>(type)};
    windows.push_back({make(TERN_CMD_ALLOC_MW, m), 0, 0});
  }
}

// A region on a part of two pages, except its ends.
void World::make_dm() {
  constexpr std::uint64_t kEnd = 16;
  const tern_cmd_alloc_dm a{2 * FuzzHost::kPage, 0, 0};
  if (command(TERN_CMD_ALLOC_DM, a, sizeof(tern_rsp_alloc_dm)) != TERN_ST_OK) {
    violation("no device memory");
  }
  const DmPart& part = dm_parts.front();
  tern_cmd_create_mr c{.length = part.size - 2 * kEnd, .offset = kEnd, .pdn = pd, .access = kAll};
  if (can(TERN_CAP_MW_TYPE_1)) c.access |= TERN_ACCESS_MW_BIND;
  c.dmn = part.number;
  c.kind = TERN_MR_DM;
  dm = {make(TERN_CMD_CREATE_MR, c), 0, c.length};
  host.close_dm();
  host.grant_dm(part.offset + kEnd, c.length);
}

void World::bind_windows() {
  if (qps[0].type == TERN_QPT_UD || qps[0].type == TERN_QPT_GSI || qps[0].type == TERN_QPT_RAW)
    return;
  const Accessor who = device->registry.qps.find(qps[0].number)->accessor();
  for (std::size_t i = 0; i < windows.size(); ++i) {
    Region& mw = windows[i];
    mw.iova = rw.iova + 0x100 + 0x80 * i;
    mw.length = 0x400;
    tern_bind_seg seg{.addr = mw.iova, .length = mw.length, .lkey = rw.key};
    seg.rkey = seg.new_rkey = mw.key;
    seg.access = kAll & kWindowRights;
    seg.type = static_cast<std::uint8_t>(i + 1);
    if (!device->registry.memory.bind_mw(who, seg)) violation("a window cannot be bound", i);
  }
}

void World::make_srqs() {
  using H = FuzzHost;
  if (can(TERN_CAP_XRC)) xrcd = make(TERN_CMD_ALLOC_XRCD, std::span<const std::byte>{});
  for (unsigned i = 0; i < (xrcd ? 2U : 1U); ++i) {
    host.grant(H::page(page::kSrq + i), 1U << (kLogSrq + kLogSrqStride), H::kRead);
    tern_cmd_create_srq c{.pages = direct(H::page(page::kSrq + i)),
                          .record = record::srq(i),
                          .pdn = pd,
                          .log_size = kLogSrq,
                          .log_stride = kLogSrqStride};
    if (i == 1) {
      c.flags = TERN_SRQ_F_XRC;
      c.xrcdn = xrcd;
      c.cqn = cqs[1];
    } else if (scene.tags) {
      host.grant(H::page(page::kTags), sizeof(tern_tm_op) << kLogTagOps, H::kRead);
      c.flags = TERN_SRQ_F_TM;
      c.cqn = cqs[1];
      c.log_ops = kLogTagOps;
      c.ops_pages = direct(H::page(page::kTags));
      c.uar = uar;
      c.max_tags = kTags;
    }
    srqs[i] = make(TERN_CMD_CREATE_SRQ, c);
  }
}

void World::make_eth() {
  using H = FuzzHost;
  for (const unsigned direction : {TERN_ETH_QUEUE_TX, TERN_ETH_QUEUE_RX}) {
    host.grant(H::page(page::kEth + direction), 16U << kLogEth, H::kRead);
    tern_cmd_create_eth_queue c{.pages = direct(H::page(page::kEth + direction)),
                                .record = record::eth(direction),
                                .cqn = cqs[2],
                                .uar = uar,
                                .direction = static_cast<std::uint8_t>(direction),
                                .log_size = kLogEth,
                                .port = 1};
    if (direction == TERN_ETH_QUEUE_RX) c.flags = TERN_ETH_QF_SCATTER | TERN_ETH_QF_COALESCE;
    (direction == TERN_ETH_QUEUE_TX ? eth_tx : eth_rx) = make(TERN_CMD_CREATE_ETH_QUEUE, c);
  }
  trust_sent = false;
}

void World::make_qp(unsigned index) {
  using H = FuzzHost;
  FuzzQp qp;
  qp.type = scene.type;
  qp.log_sq_stride = scene.log_sq_stride;
  // There is only one GSI QP; XRC QPs alternate between initiator and target.
  if (qp.type == TERN_QPT_GSI && index > 0) qp.type = TERN_QPT_UD;
  if (qp.type == TERN_QPT_XRC_INI && index % 2 == 1) qp.type = TERN_QPT_XRC_TGT;
  const bool xrc = qp.type == TERN_QPT_XRC_INI || qp.type == TERN_QPT_XRC_TGT;
  const bool shared = scene.srq && srqs[0] != 0 && !xrc && qp.type != TERN_QPT_GSI;
  qp.has_sq = qp.type != TERN_QPT_XRC_TGT && !(scene.tags && index % 2 == 1);
  qp.has_rq = !xrc && !shared;
  qp.buffer = H::page(page::kQp + index * page::kQpPages);
  qp.rq_offset = 1U << (qp.log_sq + qp.log_sq_stride);
  qp.record = record::qp(index);
  host.grant(qp.buffer, qp.rq_offset + (1U << (qp.log_rq + qp.log_rq_stride)), H::kRead);
  tern_cmd_create_qp c{};
  if (qp.type != TERN_QPT_XRC_TGT) {
    c.pages = direct(qp.buffer);
    c.sq_offset = qp.sq_offset;
    c.rq_offset = qp.rq_offset;
    c.record = qp.record;
    c.pdn = pd;
    c.uar = uar;
    c.send_cqn = cqs[0];
    c.recv_cqn = xrc ? cqs[0] : cqs[1];
  }
  c.srqn = shared ? srqs[0] : 0;
  c.xrcdn = qp.type == TERN_QPT_XRC_TGT ? xrcd : 0;
  c.type = qp.type;
  c.flags =
      static_cast<std::uint8_t>((shared ? TERN_QP_F_SRQ : 0U) | (qp.has_sq ? 0U : TERN_QP_F_NO_SQ) |
                                (qp.has_rq ? 0U : TERN_QP_F_NO_RQ));
  if (qp.type == TERN_QPT_RAW)
    c.flags |= index % 2 ? TERN_QP_F_STRIP_VLAN | TERN_QP_F_KEEP_FCS : TERN_QP_F_NO_MCAST_LOOPBACK;
  c.log_sq_size = qp.log_sq;
  c.log_sq_stride = qp.log_sq_stride;
  c.log_rq_size = qp.log_rq;
  c.log_rq_stride = qp.log_rq_stride;
  qp.number = make(TERN_CMD_CREATE_QP, c);
  qps.push_back(qp);
}

// The last raw QP gets the frames to the port, and every one a copy of those to groups.
void World::make_flows() {
  trust_sent = false;  // its frames are what the input says
  tern_cmd_create_flow c{.counter = TERN_NO_COUNTER, .dest = TERN_DEST_QP, .port = 1};
  for (const FuzzQp& qp : qps) {
    c.kind = TERN_FLOW_MULTICAST;
    c.flags = TERN_FLOW_F_CONTINUE;
    c.dest_id = c.tag = qp.number;
    flows.push_back(make(TERN_CMD_CREATE_FLOW, c));
  }
  c.kind = TERN_FLOW_NORMAL;
  c.flags = 0;
  c.layers = TERN_LAYER_ETH;
  for (const Mac& mac : {kMac, kClaimedMac}) {
    std::ranges::copy(mac, c.value.dmac);
    std::ranges::fill(c.mask.dmac, 0xff);
    flows.push_back(make(TERN_CMD_CREATE_FLOW, c));
  }
}

// ---- connecting ----

Gid World::gid(std::uint8_t last, bool ipv4) {
  if (ipv4) return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, last};
  return {0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
}

tern_av World::av(bool local) const {
  tern_av a{};
  std::ranges::copy(local ? own_gid() : peer_gid(), a.dgid);
  std::ranges::copy(local ? kMac : kPeerMac, a.dmac);
  a.hop_limit = 64;
  a.port = 1;
  return a;
}

bool World::connect(FuzzQp& qp, std::uint32_t dest, bool local) {
  tern_cmd_modify_qp c{};
  c.qpn = qp.number;
  tern_qp_attr& a = c.attr;
  a.av = av(local);
  a.dest_qpn = dest;
  a.qkey = kQkey;
  a.sq_psn = a.rq_psn = kPsn;
  a.access = kAll;
  a.path_mtu = scene.log_mtu;
  a.max_rd_atomic = a.max_dest_rd_atomic = 4;
  a.min_rnr_timer = 1;
  a.timeout = 8;
  a.retry_cnt = a.rnr_retry = 2;
  a.port = 1;
  // The alternate path of a connection has the same addresses, so MigReq decides whether a packet
  // moves the QP.
  c.alt.av = a.av;
  c.alt.port = a.port;
  c.alt.timeout = a.timeout;
  c.alt.mig_state = TERN_MIG_REARM;
  for (const std::uint8_t state : {TERN_QPS_INIT, TERN_QPS_RTR, TERN_QPS_RTS}) {
    a.state = state;
    c.mask = test::needed_attributes(qp.type, state);
    if (state == TERN_QPS_RTS && test::is_connected(qp.type))
      c.mask |= TERN_QPA_ALT_PATH | TERN_QPA_MIG_STATE;
    if (command(TERN_CMD_MODIFY_QP, c) != TERN_ST_OK) return false;
  }
  return true;
}

// ---- running ----

void World::settle() {
  unsigned turns = 0;
  while (device->run(kBudget)) {
    if (++turns > kMaxTurns) violation("the device never gets done", turns);
    collect();
  }
  collect();
  check();
}

bool World::next_timer() {
  const Nanos next = device->next_deadline();
  if (next == kNever) return false;
  host.clock = std::max(host.clock, next);
  settle();
  return true;
}

void World::collect() {
  Effects& fx = *device->datapath.effects;
  if (fx.empty()) return;
  for (const Effects::Frame& f : fx.frames()) look_at(f);
  fx.clear();
}

// A transmitted frame must have a size that the wire accepts, and a peer must be able to parse it.
void World::look_at(const Effects::Frame& f) {
  if (f.received) return;
  const auto bytes = device->datapath.effects->bytes(f);
  if (bytes.size() < 60 || bytes.size() > device->port.addresses.max_mtu() + 18) {
    violation("a frame of a size the wire does not take", bytes.size());
  }
  if (trust_sent) {
    Route route;
    Packet packet(host);
    if (parse_route(bytes, route) != ParseResult::kOk) violation("not a RoCE frame", bytes.size());
    if (parse_packet(bytes, packet) != ParseResult::kOk) violation("a frame that cannot be read");
    packet.payload.clear();
  }
  if (!f.to_wire) return;
  if (sent.size() == kKeepFrames) sent.erase(sent.begin());
  sent.emplace_back(bytes.begin(), bytes.end());
}

void World::check() {
  if (host.outstanding() != 0) violation("mappings left behind", host.outstanding());
}

std::optional<tern_rsp_objects> World::objects() {
  if (command(TERN_CMD_QUERY_OBJECTS, {}, sizeof(tern_rsp_objects)) != TERN_ST_OK) {
    return std::nullopt;
  }
  return host.get<tern_rsp_objects>(reply_addr());
}

void World::must(std::uint16_t opcode, std::uint32_t id) {
  if (id == 0) return;
  const auto status = on(opcode, id);
  if (status && *status != TERN_ST_OK) violation("an object cannot be destroyed", opcode, *status);
}

void World::tear_down(bool reset) {
  host.restore_all();
  host.most = 0;
  if (!reset && enabled()) {
    for (const std::uint32_t flow : flows) must(TERN_CMD_DESTROY_FLOW, flow);
    for (const FuzzQp& qp : qps) must(TERN_CMD_DESTROY_QP, qp.number);
    must(TERN_CMD_DESTROY_ETH_QUEUE, eth_tx);
    must(TERN_CMD_DESTROY_ETH_QUEUE, eth_rx);
    for (const std::uint32_t srq : srqs) must(TERN_CMD_DESTROY_SRQ, srq);
    must(TERN_CMD_FREE_XRCD, xrcd);
    for (const Region& mw : windows) must(TERN_CMD_FREE_MW, mw.key);  // in any variant
    must(TERN_CMD_DESTROY_MR, rw.key);
    must(TERN_CMD_DESTROY_MR, ro.key);
    must(TERN_CMD_DESTROY_MR, other.key);
    must(TERN_CMD_DESTROY_MR, fast.key);
    must(TERN_CMD_DESTROY_MR, dm.key);
    if (dm.key != 0) must(TERN_CMD_FREE_DM, dm_parts.front().number);
    for (const std::uint32_t cq : cqs) must(TERN_CMD_DESTROY_CQ, cq);
    must(TERN_CMD_DESTROY_EQ, eq);
    must(TERN_CMD_DESTROY_EQ, async_eq);
    must(TERN_CMD_FREE_PD, pd);
    must(TERN_CMD_FREE_PD, pd2);
    must(TERN_CMD_FREE_UAR, uar);
    tern_cmd_set_gid gid{};
    gid.port = 1;
    (void)command(TERN_CMD_SET_GID, gid);
    const auto after = objects();
    if (after && std::memcmp(&*after, &before_, sizeof(before_)) != 0)
      violation("objects left behind");
  }
  device->reset();
  check();
  if (device->registry.qps.count() != 0 || device->registry.cqs.count() != 0 ||
      device->registry.eqs.count() != 0 || device->registry.pds.count() != 0 ||
      device->registry.memory.counts().mr != 0 || device->registry.memory.counts().mw != 0 ||
      device->registry.page_entries() != 0 || device->registry.dm.counts().parts != 0 ||
      device->registry.dm.counts().bytes != 0) {
    violation("objects left behind by a reset");
  }
  if (device->next_deadline() != kNever) violation("a timer left behind by a reset");
  device->datapath.effects->clear();
  device.reset();
}

}  // namespace tern::fuzz
