// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/storm/world.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace tern::storm {

namespace {

constexpr unsigned kLogCq = 13;
constexpr std::uint32_t kSharedLen = 8192;
constexpr unsigned kSharedSlots = 48;
constexpr unsigned kOwnSlots = 24;
constexpr Nanos kQuiet = 30'000'000'000;  // no progress for so long is a stall
constexpr unsigned kStepsATick = 12;

// Shortly before the PSN wraps.
std::uint32_t late_psn(Random& random) {
  return 0xffffff - random.pick(random.one_in(2) ? 20 : 600);
}

}  // namespace

StormResult run_storm(const StormOptions& options) {
  StormResult result;
  World world(options, result);
  world.run();
  return result;
}

World::World(const StormOptions& options, StormResult& result)
    : o_(options),
      result_(result),
      random_(content_key(options.seed, 0, 0)),
      saving_(content_key(options.seed, 0, 1)),
      sim_(options.seed),
      context_{options.seed, sim_, random_, result.findings, result.counts} {
  sim_.tracing = o_.trace;
  for (unsigned i = 0; i < 3; ++i) add_node();
  std::vector<TestNode*> nodes;
  for (const Node& n : nodes_) nodes.push_back(n.node.get());
  watch_ = std::make_unique<WireWatch>(sim_, nodes, result.counts, result.findings);
  set_wire();
  Node &a = nodes_[0], &b = nodes_[1], &c = nodes_[2];
  for (unsigned i = 0; i < 2; ++i) {
    add_reliable(a, b, Fate::kLive, false);
    add_reliable(b, c, Fate::kLive, false);
    add_reliable(c, a, Fate::kLive, false);
  }
  add_reliable(a, c, Fate::kLive, true);
  for (const Fate fate : {Fate::kBlackHole, Fate::kStarve, Fate::kImpatient, Fate::kImpatient}) {
    add_reliable(a, b, fate, false);
    add_reliable(c, b, fate, false);
  }
  add_xrc(a, b);
  add_xrc(c, b);
  add_xrc(b, a);
  add_inside(a);
  add_uc(a, b);
  add_uc(b, c);
  add_uc(c, a);
  add_datagrams();
  add_tags(b);
  add_tags(c);
  changes_ = std::make_unique<Changes>(context_, reliable_);
  plant_on_the_wire();
  hostile_ = std::make_unique<Hostile>(context_, *watch_, *nodes_[0], *nodes_[1]);
}

// Each seed has its own rates of up to 5 %; every fourth seed has 5 % of each.
void World::set_wire() {
  const auto rate = [&] { return o_.seed % 4 == 0 ? 0.05 : random_.pick(5001) / 100'000.0; };
  sim_.wire.bits_per_ns = 200;
  sim_.wire.loss = rate();
  sim_.wire.duplicate = rate();
  sim_.wire.corrupt = rate();
  sim_.wire.reorder = rate();
  sim_.wire.reorder_by = 2'000 + random_.pick(100'000);
  // With every third seed, some doorbells lose their value.
  sim_.lost_values = o_.seed % 3 == 0 ? 64 : 0;
  // The wire has a congested switch with two of three seeds.
  const unsigned one_in = o_.seed % 3 == 0 ? 0 : 5 + random_.pick(200);
  sim_.queue = [this, one_in](unsigned, std::span<std::byte> frame) {
    const auto at = find_parts(frame);
    if (one_in != 0 && at && random_.one_in(one_in)) mark_congestion(frame, *at);
    return sim_.now();
  };
  sim_.budget = 8192;
  sim_.turn_time = 500;
  std::array<char, 160> text;
  std::snprintf(text.data(), text.size(),
                "loss %.1f%%, duplicates %.1f%%, damage %.1f%%, reordering %.1f%% by %llu us",
                sim_.wire.loss * 100, sim_.wire.duplicate * 100, sim_.wire.corrupt * 100,
                sim_.wire.reorder * 100,
                static_cast<unsigned long long>(sim_.wire.reorder_by / 1000));
  result_.rates = text.data();
}

// ---- building ----

void World::add_node() {
  Node& n = nodes_.emplace_back();
  // However many marks there are: a packet of a flow takes less time than most timers.
  NodeOptions options{.unfinished_frames = o_.unfinished_frames, .share_payload = o_.share_payload};
  EXPECT_TRUE(options.congestion.set(TERN_CC_RP_MIN_RATE, 1'000));
  n.node = std::make_unique<TestNode>(sim_, options);
  TestNode& node = *n.node;
  node.host.hash_stores = o_.trace;
  // With every other seed, the devices may poll send queues instead of waiting for doorbells.
  if (o_.seed % 2 != 0) node.device.allow_polling(0);
  n.send_cq = &node.create_cq(kLogCq);
  n.recv_cq = &node.create_cq(kLogCq);
  n.pd = node.alloc_pd(true);
  n.srq = &node.create_srq({.pd = n.pd, .log_size = 6});
  n.shared = &pools_.emplace_back(node, n.pd, kSharedLen, kSharedSlots, n.srq,
                                  ReceivePool::Kind::kShared, result_.findings);
  n.xrcd = node.alloc_xrcd();
  n.xrc_srq = &node.create_srq({.pd = n.pd, .log_size = 6, .xrcd = n.xrcd, .cq = n.recv_cq});
  n.xrc = &pools_.emplace_back(node, n.pd, kSharedLen, kSharedSlots, n.xrc_srq,
                               ReceivePool::Kind::kXrc, result_.findings);
}

QpOptions World::options_for(std::uint8_t type, const Node& node) {
  const auto depth = static_cast<std::uint8_t>(1 + random_.pick(16));
  const bool reliable = type == TERN_QPT_RC || type == TERN_QPT_XRC_INI;
  const std::uint8_t ece = reliable && random_.one_in(3) ? TERN_ECE_REPEAT_NAK : 0;
  return {.pd = node.pd,
          .send_cq = node.send_cq,
          .recv_cq = node.recv_cq,
          .type = type,
          .log_mtu = 8 + random_.pick(5),
          .gid_index = static_cast<std::uint16_t>(random_.pick(4)),
          .sq_psn = late_psn(random_),
          .rq_psn = late_psn(random_),
          .max_rd_atomic = depth,
          .max_dest_rd_atomic = depth,
          .min_rnr_timer = static_cast<std::uint8_t>(1 + random_.pick(20)),
          .timeout = static_cast<std::uint8_t>(1 + random_.pick(11)),
          .sl = static_cast<std::uint8_t>(random_.pick(8)),
          .flow_label = random_.pick(1 << 20),
          .ece = ece};
}

ReceivePool& World::own_pool(Node& node, TestQp& qp, std::uint32_t max_len) {
  ReceivePool& pool = pools_.emplace_back(*node, node.pd, max_len, kOwnSlots, nullptr,
                                          ReceivePool::Kind::kQueue, result_.findings);
  pool.attach(qp);
  return pool;
}

void World::add_direction(Node& a, Node& b, TestQp& x, TestQp& y, FlowOptions base) {
  base.from = &x;
  base.to = &y;
  base.from_view = watch_->find(a.node->index(), x.number());
  base.to_view = watch_->find(b.node->index(), y.number());
  base.pd_from = a.pd;
  base.pd_to = b.pd;
  auto flow =
      std::make_unique<ReliableFlow>(context_, static_cast<unsigned>(flows_.size() + 1), base);
  a.duties[x.number()].sends = flow.get();
  a.duties[x.number()].connected = flow.get();
  a.duties[x.number()].reliable = flow.get();
  b.duties[y.number()].receives = flow.get();
  b.duties[y.number()].registers = flow.get();
  b.duties[y.number()].pool = base.pool;
  reliable_.push_back(flow.get());
  flows_.push_back(std::move(flow));
}

void World::add_reliable(Node& a, Node& b, Fate fate, bool large) {
  QpOptions forward = options_for(TERN_QPT_RC, a);
  if (fate == Fate::kBlackHole) forward.retry_cnt = static_cast<std::uint8_t>(random_.pick(8));
  if (fate == Fate::kStarve) forward.rnr_retry = static_cast<std::uint8_t>(random_.pick(5));
  if (fate == Fate::kImpatient) {
    forward.retry_cnt = static_cast<std::uint8_t>(random_.pick(3));
    forward.rnr_retry = static_cast<std::uint8_t>(random_.pick(7));
  }
  if (large) forward.log_mtu = 8 + random_.pick(2);
  QpOptions backward = forward;
  backward.pd = b.pd;
  backward.send_cq = b.send_cq;
  backward.recv_cq = b.recv_cq;
  std::swap(backward.sq_psn, backward.rq_psn);
  const bool both = fate == Fate::kLive && !large && random_.one_in(2);
  const bool shared = fate == Fate::kLive && !large && random_.one_in(2);
  if (shared) backward.srq = b.srq;
  TestQp& x = (*a).create_qp(forward);
  TestQp& y = (*b).create_qp(backward);
  x.connect(y);
  y.connect(x);
  WireWatch::connect(watch_->add(x), watch_->add(y));
  FlowOptions o{};
  o.max_len = large ? 200'000 : shared ? kSharedLen : 1U << (10 + random_.pick(5));
  o.depth = large ? 4 : 4 + random_.pick(13);
  o.fate = fate;
  o.quota = 5 + random_.pick(60);
  o.invalidates = fate == Fate::kLive && !large;
  o.pool = shared ? b.shared : &own_pool(b, y, o.max_len);
  add_direction(a, b, x, y, o);
  if (!both) return;
  o.invalidates = true;
  o.pool = &own_pool(a, x, o.max_len);
  add_direction(b, a, y, x, o);
}

void World::add_xrc(Node& a, Node& b) {
  QpOptions from = options_for(TERN_QPT_XRC_INI, a);
  QpOptions to = from;
  to.type = TERN_QPT_XRC_TGT;
  to.pd = b.pd;
  to.xrcd = b.xrcd;
  std::swap(to.sq_psn, to.rq_psn);
  TestQp& x = (*a).create_qp(from);
  TestQp& y = (*b).create_qp(to);
  x.connect(y);
  y.connect(x);
  WireWatch::connect(watch_->add(x), watch_->add(y));
  FlowOptions o{};
  o.max_len = kSharedLen;
  o.depth = 4 + random_.pick(13);
  o.pool = b.xrc;
  add_direction(a, b, x, y, o);
}

// Two QPs of one device: their packets never reach the wire, so the device's own fault rules
// replace it.
void World::add_inside(Node& a) {
  QpOptions options = options_for(TERN_QPT_RC, a);
  options.rq_psn = options.sq_psn;
  TestQp& x = (*a).create_qp(options);
  TestQp& y = (*a).create_qp(options);
  x.connect(y);
  y.connect(x);
  FlowOptions o{};
  o.max_len = 8192;
  o.depth = 8;
  o.invalidates = true;
  o.pool = inside_ = &own_pool(a, y, o.max_len);
  add_direction(a, a, x, y, o);
  std::string rules;
  for (const TestQp* const qp : {&x, &y}) {
    for (const char* const action : {"drop", "duplicate", "delay=30us", "corrupt=any"}) {
      rules += std::string(action) + " rx qp=" + std::to_string(qp->number()) +
               " rate=1% seed=" + std::to_string(random_.pick(1 << 30)) + "\n";
    }
  }
  std::string error;
  EXPECT_TRUE((*a).device.set_faults(rules, error)) << error;
}

void World::add_uc(Node& a, Node& b) {
  QpOptions forward = options_for(TERN_QPT_UC, a);
  QpOptions backward = forward;
  backward.pd = b.pd;
  backward.send_cq = b.send_cq;
  backward.recv_cq = b.recv_cq;
  std::swap(backward.sq_psn, backward.rq_psn);
  TestQp& x = (*a).create_qp(forward);
  TestQp& y = (*b).create_qp(backward);
  x.connect(y);
  y.connect(x);
  WireWatch::connect(watch_->add(x), watch_->add(y));
  FlowOptions o{};
  o.from = &x;
  o.to = &y;
  o.from_view = watch_->find(a.node->index(), x.number());
  o.to_view = watch_->find(b.node->index(), y.number());
  o.pd_from = a.pd;
  o.pd_to = b.pd;
  o.max_len = 8192;
  o.depth = 24;
  o.pool = &own_pool(b, y, o.max_len);
  auto flow = std::make_unique<UcFlow>(context_, static_cast<unsigned>(flows_.size() + 1), o);
  a.duties[x.number()].sends = flow.get();
  b.duties[y.number()].receives = flow.get();
  b.duties[y.number()].pool = o.pool;
  flows_.push_back(std::move(flow));
}

void World::add_datagrams() {
  datagrams_ = std::make_unique<Datagrams>(context_);
  for (Node& n : nodes_) {
    const bool shared = random_.one_in(2);
    QpOptions options = options_for(TERN_QPT_UD, n);
    if (shared) options.srq = n.srq;
    TestQp& qp = (*n).create_qp(options);
    qp.connect();
    ReceivePool& pool = shared ? *n.shared : own_pool(n, qp, Datagrams::kGrh + Datagrams::kMaxLen);
    datagrams_->add(qp, watch_->add(qp), pool, n.pd);
  }
}

void World::add_tags(Node& to) {
  std::vector<TestNode*> from;
  for (Node& n : nodes_) {
    if (&n != &to) from.insert(from.end(), 2, n.node.get());
  }
  const auto id = static_cast<unsigned>(flows_.size() + 1);
  auto flow = std::make_unique<TagFlow>(context_, *watch_, id, *to, from);
  if (o_.plant >= Plant::kTagLost) {
    flow->plant = [this](TagFlow& tags, Wc& wc) { return plant_tag(tags, wc); };
  }
  tags_.push_back(flow.get());
  flows_.push_back(std::move(flow));
}

// ---- running ----

void World::post_receives() {
  for (ReceivePool& pool : pools_) {
    // Rarely enough that some messages find none.
    if (random_.one_in(6)) pool.post(1 + random_.pick(8));
  }
  // An RNR NAK does not reset the retry count: losses around many of them could add up and end the
  // flow inside the device, and no packet seen here would justify that. So this flow never runs out
  // of receives.
  inside_->post(kOwnSlots);
}

void World::tick() {
  ++ticks_;
  const bool more = sim_.stats.sent < o_.packets;
  for (const auto& flow : flows_) {
    if (!more) flow->wind_up();
    if (random_.one_in(3)) flow->post();
  }
  if (more) datagrams_->post();
  changes_->next();
  if (ticks_ % 4 == 0) post_receives();
}

void World::poll() {
  // Receives first: a request that is reported as done must have been received before.
  for (Node& n : nodes_) {
    while (const auto wc = n.recv_cq->poll()) dispatch(n, *wc);
  }
  for (Node& n : nodes_) {
    while (const auto wc = n.send_cq->poll()) dispatch(n, *wc);
  }
  for (TagFlow* const tags : tags_) tags->poll();
}

void World::dispatch(Node& node, const Wc& wc) {
  if (o_.plant != Plant::kNone && planted(node, wc)) return;
  dispatch_one(node, wc);
}

void World::dispatch_one(Node& node, const Wc& wc) {
  if (datagrams_->completed(node.node->index(), wc)) return;
  const auto it = node.duties.find(le(std::uint32_t{wc.qpn}));
  if (it == node.duties.end()) {
    return result_.findings.add(Claim::kCorrupted, "a completion of a QP that has no work");
  }
  if (wc.flags & TERN_CQE_F_RECV) {
    if (it->second.receives) return it->second.receives->received(wc);
  } else if (le(std::uint64_t{wc.wr_id}) & kRegTag) {
    if (it->second.registers) return it->second.registers->registered(wc);
  } else if (it->second.sends) {
    return it->second.sends->sent(wc);
  }
  result_.findings.add(Claim::kDoubled, "a completion of a QP that has no such work");
}

bool World::stalled(bool idle) {
  bool stuck = false;
  for (const auto& flow : flows_) {
    if (flow->done() || (!idle && sim_.now() - flow->quiet_since() < kQuiet)) continue;
    // A flow may be idle before winding up.
    if (!idle && sim_.stats.sent < o_.packets) continue;
    result_.findings.add(Claim::kStall, flow->describe());
    stuck = true;
  }
  return stuck;
}

void World::run() {
  const auto all_done = [&] {
    return datagrams_->done() && hostile_->done() &&
           std::ranges::all_of(flows_, [](const auto& flow) { return flow->done(); });
  };
  const std::uint64_t between = o_.packets / (hostile_->count() + 1);
  const Nanos begun = sim_.now();
  std::uint64_t last_sent = 0, idle_ticks = 0;
  while (result_.findings.empty()) {
    for (unsigned i = random_.pick(kStepsATick) + 1; i > 0; --i) {
      (void)sim_.step();
      if (o_.saves != 0 && saving_.one_in(o_.saves))
        result_.saves += nodes_[saving_.pick(nodes_.size())].node->save_and_load();
    }
    poll();
    tick();
    const bool winding_up = sim_.stats.sent >= o_.packets;
    if (!hostile_->done() && (winding_up || sim_.stats.sent / between > hostile_->tried())) {
      hostile_->next();
      poll();
    }
    if (winding_up && all_done()) break;
    // No packet for many rounds, whatever the clock says: none will come any more.
    idle_ticks = sim_.stats.sent == last_sent ? idle_ticks + 1 : 0;
    last_sent = sim_.stats.sent;
    const bool idle = idle_ticks > 50'000;
    if ((idle || ticks_ % 1024 == 0) && stalled(idle)) break;
    if (idle) {
      result_.findings.add(Claim::kStall, "no packet for 50,000 rounds");
      break;
    }
  }
  if (result_.findings.empty()) finish();
  result_.wire = sim_.stats;
  result_.simulated = sim_.now() - begun;
  result_.fingerprint = watch_->fingerprint();
  if (o_.trace) result_.trace = hash_trace();
  for (const auto& flow : flows_) result_.messages += flow->messages();
  result_.messages += datagrams_->messages();
  for (const Node& n : nodes_) result_.unrung += n.node->unrung;
}

std::uint64_t World::hash_trace() const {
  std::uint64_t h = 0;
  const auto add = [&h](std::uint64_t value) { h = (h ^ value) * 0x100000001b3; };
  for (const TraceEntry& e : sim_.trace()) {
    add(e.time);
    add(static_cast<std::uint64_t>(e.kind) << 32 | e.node);
    add(e.value);
  }
  for (const Node& n : nodes_) add(n.node->host.stores);
  return h;
}

// Lets everything in flight end; it must not change anything.
void World::finish() {
  sim_.run_for(1'000'000'000);
  poll();
  for (const auto& flow : flows_) flow->finish();
  datagrams_->finish();
  for (ReceivePool& pool : pools_) pool.check_resting();
  watch_->finish();
}

}  // namespace tern::storm
