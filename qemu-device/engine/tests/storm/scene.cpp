// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/storm/scene.h"

#include <algorithm>

namespace tern::storm {

namespace {

constexpr Nanos kSettle = 300'000;
constexpr Nanos kPatience = 20'000'000'000;
constexpr std::uint32_t kMemory = 65536;
constexpr unsigned kBehind = 3;  // number of requests behind the failing one

std::uint8_t status_of(std::uint8_t syndrome) {
  switch (syndrome) {
    case kNakInvalidRequest:
      return TERN_CQE_REM_INV_REQ_ERR;
    case kNakRemoteAccess:
      return TERN_CQE_REM_ACCESS_ERR;
    case kNakRemoteOperation:
      return TERN_CQE_REM_OP_ERR;
    default:
      return TERN_CQE_RETRY_EXC_ERR;  // no NAK arrived
  }
}

}  // namespace

Scene::Scene(Context& context, WireWatch& watch, TestNode& a, TestNode& b, std::uint8_t type,
             const SceneOptions& options, const char* name)
    : c_(context), a_(a), b_(b), name_(name), packet_(a.host) {
  QpOptions q{.type = type,
              .log_mtu = 8 + random().pick(5),
              .gid_index = static_cast<std::uint16_t>(random().pick(4)),
              .access = options.access,
              .sq_psn = 0xffffff - random().pick(3),
              .rq_psn = 0xffffff - random().pick(3),
              .max_rd_atomic = 4,
              .max_dest_rd_atomic = options.max_dest_rd_atomic,
              .timeout = 1};
  QpOptions r = q;
  std::swap(r.sq_psn, r.rq_psn);
  if (options.small_cq) q.log_cq_size = 1;
  if (options.shared) r.srq = srq_ = &b.create_srq();
  if (type == TERN_QPT_XRC_INI) {
    r.type = TERN_QPT_XRC_TGT;
    r.xrcd = b.alloc_xrcd();
    srq_cq_ = &b.create_cq(5);
    srq_ = &b.create_srq({.xrcd = r.xrcd, .cq = srq_cq_});
  }
  mtu_ = 1U << q.log_mtu;
  x_ = &a.create_qp(q);
  y_ = &b.create_qp(r);
  x_->connect(*y_);
  y_->connect(*x_);
  view_x_ = &watch.add(*x_);
  view_y_ = &watch.add(*y_);
  if (type != TERN_QPT_UD) WireWatch::connect(*view_x_, *view_y_);
  view_y_->keep_answers = true;
  near_ = &a.reg(kMemory);
  target_ = &b.reg(kMemory);
  sink_ = &b.reg(kMemory);
  std::ranges::fill(target_->bytes(), kGuard);
  first_ = psn_ = Psn(q.sq_psn);
  malformed_ = b.device.counters().rdma[TERN_CNT_RX_MALFORMED];
  too_long_ = b.device.counters().rdma[TERN_CNT_RESP_LOCAL_LENGTH_ERROR];
  (void)b.async_events();
  (void)a.async_events();
}

Scene::~Scene() {
  // The regions outlive the scene; late answers do not matter any more.
  view_y_->keep_answers = false;
  packet_.payload.clear();
}

void Scene::wrong(const std::string& text) {
  good_ = false;
  c_.findings.add(Claim::kProtocol, std::string("offence ") + name_ + " by " +
                                        (x_->options().type == TERN_QPT_RC   ? "RC"
                                         : x_->options().type == TERN_QPT_UC ? "UC"
                                         : x_->options().type == TERN_QPT_UD ? "UD"
                                                                             : "XRC") +
                                        ": " + text);
}

std::uint8_t Scene::state() const { return y_->query().attr.state; }

// ---- frames ----

Packet& Scene::begin(Op op) {
  const Qp* const qp = a_.device.registry.qps.find(x_->number());
  Packet& p = packet_;
  p.payload.clear();
  p.transport = qp->transport();
  p.op = op;
  p.ack_req = true;
  p.dest_qp = Qpn(y_->number());
  p.psn = psn_;
  p.qkey = y_->options().qkey;
  p.src_qp = Qpn(x_->number());
  p.xrc_srq = Srqn(srq_ ? srq_->number() : 0);
  if (x_->options().type == TERN_QPT_UD) {
    p.route =
        *a_.device.port.addresses.resolve(x_->av_to(*y_), 1, Qpn(x_->number()), Qpn(y_->number()));
  } else {
    p.route = *qp->route();
  }
  psn_ = psn_.next();
  return p;
}

void Scene::end(std::uint32_t payload, const Change& change) {
  packet_.payload.append_plain(std::span<const std::byte>(near_->bytes(0, payload)));
  std::vector<std::byte> frame(payload + kMaxFrameOverhead);
  frame.resize(serialize(packet_, 1, frame));
  packet_.payload.clear();
  if (change) {
    const FrameParts at = *find_parts(frame);
    std::vector<std::byte> rest(frame.begin() + static_cast<std::ptrdiff_t>(at.bth), frame.end());
    change(rest);
    std::ranges::copy(rest, frame.begin() + static_cast<std::ptrdiff_t>(at.bth));
    const std::uint32_t crc = le(icrc(std::span(frame).subspan(at.ip, at.icrc - at.ip), at.ipv4));
    std::memcpy(frame.data() + at.icrc, &crc, sizeof(crc));
  }
  c_.sim.inject(a_, frame);
}

void Scene::put_write(Op op, const TestMr& to, std::uint32_t dma_len, std::uint32_t payload) {
  Packet& p = begin(op);
  p.va = to.iova;
  p.rkey = to.key;
  p.dma_len = dma_len;
  end(payload);
}

void Scene::put_read(const TestMr& from, std::uint32_t len, std::uint64_t at) {
  Packet& p = begin(Op::kReadRequest);
  p.va = from.iova + at;
  p.rkey = from.key;
  p.dma_len = len;
  end(0);
  if (len > 0 && len < kMemory) psn_ = psn_.plus((len - 1) / mtu_);
}

void Scene::put_atomic(const TestMr& at, std::uint64_t offset) {
  Packet& p = begin(Op::kFetchAdd);
  p.va = at.iova + offset;
  p.rkey = at.key;
  p.swap_add = 1;
  end(0);
}

void Scene::put_flush(const TestMr& of, std::uint32_t len, std::uint64_t at) {
  Packet& p = begin(Op::kFlush);
  p.va = of.iova + at;
  p.rkey = of.key;
  p.dma_len = len;
  p.flush_type = TERN_FLUSH_GLOBAL;
  p.flush_level = TERN_FLUSH_LEVEL_RANGE;
  end(0);
}

void Scene::put_atomic_write(const TestMr& to, std::uint64_t at, std::uint32_t dma_len) {
  Packet& p = begin(Op::kAtomicWrite);
  p.va = to.iova + at;
  p.rkey = to.key;
  p.dma_len = dma_len;
  end(kAtomicWritePayload);
}

void Scene::put_answered() {
  switch (random().pick(3)) {
    case 0:
      return put_flush(target(), 64);
    case 1:
      return put_atomic_write(target());
    default:
      return put_read(target(), 8);
  }
}

void Scene::settle() { c_.sim.run_for(kSettle); }

// ---- expected results ----

bool Scene::has_event(int event) {
  const auto more = b_.async_events();
  events_.insert(events_.end(), more.begin(), more.end());
  return std::ranges::any_of(events_, [&](const tern_eqe& e) {
    return le(std::uint16_t{e.type}) == event && le(std::uint32_t{e.id}) == y_->number();
  });
}

void Scene::expect_event(int event) {
  if (!has_event(event)) wrong("event " + std::to_string(event) + " is missing");
}

void Scene::expect_untouched(std::uint32_t written) {
  settle();
  if (!is_guard(target_->bytes().subspan(written))) wrong("the target was written");
}

void Scene::expect_nak(std::uint8_t syndrome, std::uint32_t request, int event,
                       std::uint32_t written) {
  settle();
  const auto naks = std::ranges::count_if(answers(), [](const Answer& a) {
    return a.op == Op::kAck && (a.syndrome & kSyndromeKindMask) == kSyndromeKindNak;
  });
  if (naks != 1) return wrong(std::to_string(naks) + " NAKs");
  const Answer& last = answers().back();
  if (last.syndrome != syndrome || last.psn != first_.plus(request)) {
    wrong("NAK " + std::to_string(last.syndrome) + " of PSN " + std::to_string(last.psn.value()));
  }
  if (state() != TERN_QPS_ERR) wrong("the QP is in state " + std::to_string(state()));
  if (event >= 0) expect_event(event);
  if (event < 0 && (has_event(TERN_EV_QP_REQ_ERR) || has_event(TERN_EV_QP_ACCESS_ERR))) {
    wrong("an event and a completion");
  }
  if (event == TERN_EV_QP_ACCESS_ERR && good_) c_.counts.add(Rule::kAccessEvent);
  expect_untouched(written);
}

void Scene::expect_late_nak(std::uint8_t syndrome, int event) {
  settle();
  if (answers().size() < 2 || answers().back().syndrome != syndrome ||
      answers().back().op != Op::kAck ||
      answers().back().psn != first_.plus(static_cast<std::uint32_t>(answers().size()) - 1)) {
    wrong("no NAK behind " + std::to_string(answers().size()) + " responses");
  }
  if (state() != TERN_QPS_ERR) wrong("the QP lives");
  expect_event(event);
}

void Scene::expect_answer(Op op, std::uint32_t request) {
  settle();
  if (answers().empty() || answers().front().op != op ||
      answers().front().psn != first_.plus(request)) {
    wrong("another answer");
  }
}

void Scene::expect_silence() {
  settle();
  if (!answers().empty()) wrong("an answer");
  if (state() != TERN_QPS_RTS) wrong("the QP is in state " + std::to_string(state()));
}

void Scene::expect_dropped(unsigned counter) {
  settle();
  const std::uint64_t before = counter == TERN_CNT_RX_MALFORMED ? malformed_ : too_long_;
  if (b_.device.counters().rdma[counter] == before) wrong("nothing was counted");
  expect_silence();
  if (receive_cq().poll()) wrong("something was received");
}

void Scene::receive(std::uint32_t len) {
  const std::vector<tern_sge> sges = {sink_->sge(0, len)};
  if (srq_) {
    srq_->post(sges, 1);
  } else {
    y_->post_recv(sges, 1);
  }
}

void Scene::expect_receive(std::uint8_t status) {
  const auto wc = receive_cq().poll();
  if (!wc || wc->status != status) {
    wrong(std::string("the receive ended with ") + (wc ? status_name(wc->status) : "nothing"));
  }
}

void Scene::expect_received(std::uint32_t len) {
  settle();
  const auto wc = receive_cq().poll();
  if (!wc || wc->status != TERN_CQE_SUCCESS || le(std::uint32_t{wc->byte_len}) != len) {
    wrong("the right message was not received");
  }
  if (receive_cq().poll()) wrong("one more was received");
}

void Scene::expect_still_receiving() {
  if (receive_cq().poll()) wrong("something was received");
  receive();
  // A receive posted earlier may be shorter, so the message must fit that, too.
  put(Op::kSendOnly, 90);
  expect_received(90);
}

// ---- posted requests ----

void Scene::fails(const SendWr& wr, int event) {
  SendWr first = wr;
  first.xrc_srqn = srq_ ? srq_->number() : 0;
  first.wr_id = 1;
  if (!srq_ && event >= 0) {
    receive();
    receive();
  }
  x_->post(first, false);
  for (unsigned i = 0; i < kBehind; ++i) {
    SendWr next = write({near_->sge(0, 8)}, *target_).to_srq(first.xrc_srqn);
    next.wr_id = 2 + i;
    x_->post(next, i + 1 == kBehind);
  }
  std::vector<Wc> got;
  c_.sim.run_until(
      [&] {
        while (const auto wc = x_->send_cq().poll()) got.push_back(*wc);
        return got.size() > kBehind;
      },
      kPatience);
  if (got.size() != kBehind + 1) return wrong(std::to_string(got.size()) + " completions");
  const std::uint8_t status = status_of(view_x_->fatal_nak);
  if (got[0].status != status) {
    return wrong(std::string("status ") + status_name(got[0].status) + ", not " +
                 status_name(status));
  }
  for (unsigned i = 0; i <= kBehind; ++i) {
    if (le(std::uint64_t{got[i].wr_id}) != i + 1U) return wrong("completions out of order");
    if (i > 0 && got[i].status != TERN_CQE_WR_FLUSH_ERR)
      return wrong("a request behind was not flushed");
  }
  flushed(status);
  settle();
  if (!srq_ && event >= 0) {
    // Both receives are unused.
    const auto wcs = receive_cq().poll_all();
    c_.counts.add(Rule::kFlushedReceives, wcs.size());
    if (wcs.size() != 2 || wcs[0].status != TERN_CQE_WR_FLUSH_ERR ||
        wcs[1].status != TERN_CQE_WR_FLUSH_ERR) {
      wrong("the receives were not flushed");
    }
  }
  if (state() != TERN_QPS_ERR) wrong("the responder lives");
  if (event >= 0) expect_event(event);
  if (event == TERN_EV_QP_ACCESS_ERR && good_) c_.counts.add(Rule::kAccessEvent);
  if (event >= 0 && !is_guard(target_->bytes())) wrong("the target was written");
}

// Counts the rules that the status and the flushed requests show.
void Scene::flushed(std::uint8_t first_status) {
  c_.counts.add(Rule::kFlushedSends, kBehind);
  switch (first_status) {
    case TERN_CQE_REM_INV_REQ_ERR:
      c_.counts.add(Rule::kStatusInvalid);
      break;
    case TERN_CQE_REM_ACCESS_ERR:
      c_.counts.add(Rule::kStatusAccess);
      break;
    case TERN_CQE_REM_OP_ERR:
      c_.counts.add(Rule::kStatusOperation);
      break;
    default:
      c_.counts.add(Rule::kStatusRetries);
      break;
  }
}

void Scene::overflows() {
  c_.sim.run_until([&] { return x_->query().attr.state == TERN_QPS_ERR; }, kPatience);
  if (x_->query().attr.state != TERN_QPS_ERR) wrong("the QP lives");
  bool told = false, fatal = false;
  for (const tern_eqe& e : a_.async_events()) {
    told |= le(std::uint16_t{e.type}) == TERN_EV_CQ_ERR &&
            le(std::uint32_t{e.id}) == x_->send_cq().number();
    fatal |=
        le(std::uint16_t{e.type}) == TERN_EV_QP_FATAL && le(std::uint32_t{e.id}) == x_->number();
  }
  if (!told || !fatal) wrong("an event is missing");
  if (x_->send_cq().poll_all().size() != 2) wrong("what was complete before is gone");
}

}  // namespace tern::storm
