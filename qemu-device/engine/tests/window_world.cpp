// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/window_world.h"

#include <algorithm>
#include <cstring>

namespace tern {

const char* name_of(MwKind kind) {
  return kind == MwKind::kType1 ? "Type1" : kind == MwKind::kType2A ? "Type2A" : "Type2B";
}

const char* name_of(Path path) {
  return path == Path::kRc ? "Rc" : path == Path::kUc ? "Uc" : "Xrc";
}

const char* name_of(Op3 op) {
  return op == Op3::kWrite ? "Write" : op == Op3::kRead ? "Read" : "Atomic";
}

WindowWorld::WindowWorld(MwKind mw_kind, Path over)
    : kind(mw_kind), path(over), b(sim, {.mw_type_2a = mw_kind == MwKind::kType2A}) {
  if (path == Path::kXrc) {
    xrcd_a_ = a.alloc_xrcd();
    xrcd_b_ = b.alloc_xrcd();
  }
  src.fill(3);
  mr.fill(4);
  link_ = connect(pd);
}

Link WindowWorld::connect(std::uint32_t own_pd) {
  Link l;
  QpOptions ours{.type = path == Path::kUc ? std::uint8_t{TERN_QPT_UC} : std::uint8_t{TERN_QPT_RC}};
  if (path != Path::kXrc) {
    l.peer = &a.create_qp(ours);
    ours.pd = own_pd;
    l.own = l.binder = &b.create_qp(ours);
    l.recv_cq = &l.own->recv_cq();
    l.peer->connect(*l.own);
    l.own->connect(*l.peer);
    return l;
  }
  // XRC needs two QPs per direction: the peer sends over one pair, and b binds on the other.
  l.recv_cq = &b.create_cq();
  l.srq = &b.create_srq({.pd = own_pd, .xrcd = xrcd_b_, .cq = l.recv_cq});
  l.peer = &a.create_qp({.type = TERN_QPT_XRC_INI});
  l.own = &b.create_qp({.xrcd = xrcd_b_, .type = TERN_QPT_XRC_TGT});
  l.binder = &b.create_qp({.pd = own_pd, .type = TERN_QPT_XRC_INI});
  TestQp& end = a.create_qp({.xrcd = xrcd_a_, .type = TERN_QPT_XRC_TGT});
  l.peer->connect(*l.own);
  l.own->connect(*l.peer);
  l.binder->connect(end);
  end.connect(*l.binder);
  return l;
}

void WindowWorld::reconnect(Link& link) {
  for (TestQp* const qp : {link.peer, link.own}) {
    EXPECT_EQ(qp->to_state(TERN_QPS_RESET), TERN_ST_OK);
    if (path != Path::kXrc) qp->forget_posted();
  }
  link.peer->connect(*link.own);
  link.own->connect(*link.peer);
}

Link& WindowWorld::second() {
  if (!second_) second_ = std::make_unique<Link>(connect(pd));
  return *second_;
}

Link& WindowWorld::foreign() {
  if (!foreign_) foreign_ = std::make_unique<Link>(connect(other_pd));
  return *foreign_;
}

void WindowWorld::bound(TestMw& mw, const TestMr& to, std::uint64_t offset, std::uint64_t length,
                        std::uint32_t rights) {
  link_.binder->post(bind(mw, to, offset, length, rights));
  const Wc wc = wait_bind(link_);
  EXPECT_EQ(wc.status, TERN_CQE_SUCCESS) << status_name(wc.status);
  EXPECT_EQ(wc.opcode, TERN_WR_BIND_MW);
}

TestMw WindowWorld::window(std::uint32_t rights) {
  TestMw mw = make_mw();
  bound(mw, mr, kFirst, kBytes, rights);
  return mw;
}

SendWr WindowWorld::access(Op3 op, const TestMr& to, std::uint64_t at, std::uint32_t len) const {
  switch (op) {
    case Op3::kWrite:
      return write({src.sge(0, len)}, to, at);
    case Op3::kRead:
      return read({src.sge(0, len)}, to, at);
    default:
      return fetch_add(src.sge(0, 8), to, at, 0x0101010101010101);
  }
}

WindowWorld::Snapshot WindowWorld::snapshot() const {
  const auto ours = mr.bytes();
  const auto theirs = src.bytes();
  return {{ours.begin(), ours.end()}, {theirs.begin(), theirs.end()}};
}

std::string WindowWorld::works(Link& over, Op3 op, const TestMr& to, std::uint64_t at,
                               std::uint32_t len) {
  if (op == Op3::kAtomic) len = 8;
  Snapshot want = snapshot();
  const std::size_t offset = to.dma + at - mr.dma;  // in the region
  const auto inside = want.ours.begin() + static_cast<std::ptrdiff_t>(offset);
  if (op == Op3::kWrite) {
    std::copy_n(want.theirs.begin(), len, inside);
  } else {
    std::copy_n(inside, len, want.theirs.begin());
  }
  if (op == Op3::kAtomic) {
    std::uint64_t word;
    std::memcpy(&word, &*inside, sizeof(word));
    word = le(le(word) + 0x0101010101010101);
    std::memcpy(&*inside, &word, sizeof(word));
  }
  over.peer->post(access(op, to, at, len).to_srq(over.srq ? over.srq->number() : 0));
  const Wc wc = over.peer->wait_send();
  sim.run_until_idle();
  if (wc.status != TERN_CQE_SUCCESS) return std::string("completed with ") + status_name(wc.status);
  return unless(snapshot() == want, "the memory is not what the access makes of it");
}

std::string WindowWorld::refused(Link& over, SendWr wr) {
  const Snapshot before = snapshot();
  const std::uint64_t counted = b.counter(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS);
  (void)b.async_events();
  over.peer->post(std::move(wr).to_srq(over.srq ? over.srq->number() : 0));
  const Wc wc = over.peer->wait_send();
  sim.run_until_idle();
  if (snapshot() != before) return "bytes moved";
  const std::uint8_t want = path == Path::kUc ? TERN_CQE_SUCCESS : TERN_CQE_REM_ACCESS_ERR;
  if (wc.status != want) return std::string("completed with ") + status_name(wc.status);
  if (b.counter(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS) != counted + 1) return "not counted";
  if (path == Path::kUc) return "";  // as if the packet had been lost
  const auto events = b.async_events();
  return unless(!events.empty() && le(events[0].type) == TERN_EV_QP_ACCESS_ERR &&
                    le(events[0].id) == over.own->number() &&
                    over.own->query().attr.state == TERN_QPS_ERR,
                "the responder was not told");
}

std::string WindowWorld::state_after_failure(Link& over) {
  const std::uint8_t want = path == Path::kUc ? TERN_QPS_SQE : TERN_QPS_ERR;
  return unless(over.binder->query().attr.state == want, "the QP is in the wrong state");
}

std::string WindowWorld::bind_refused(Link& over, const SendWr& wr, std::uint32_t key) {
  const tern_rsp_mr before = query_key(b, key);
  over.binder->post(wr);
  const Wc wc = wait_bind(over);
  if (wc.status != TERN_CQE_MW_BIND_ERR || wc.opcode != TERN_WR_BIND_MW) {
    return std::string("completed with ") + status_name(wc.status);
  }
  const tern_rsp_mr after = query_key(b, key);
  if (std::memcmp(&before, &after, sizeof(before)) != 0) return "the window changed";
  return state_after_failure(over);
}

std::string WindowWorld::local_inv_refused(Link& over, std::uint32_t key, std::uint32_t look) {
  const tern_rsp_mr before = look_at(look);
  over.binder->post(local_inv(key));
  const Wc wc = wait_bind(over);
  if (wc.status != TERN_CQE_LOC_QP_OP_ERR) {
    return std::string("completed with ") + status_name(wc.status);
  }
  const tern_rsp_mr after = look_at(look);
  if (std::memcmp(&before, &after, sizeof(before)) != 0) return "the key changed";
  return state_after_failure(over);
}

void WindowWorld::post_recv(Link& over) {
  if (over.srq) {
    over.srq->post({}, 77);
  } else {
    over.own->post_recv({}, 77);
  }
}

std::string WindowWorld::remote_inv_refused(Link& over, std::uint32_t key, std::uint32_t look) {
  const tern_rsp_mr before = look_at(look);
  post_recv(over);
  over.peer->post(send_inv({}, key).to_srq(over.srq ? over.srq->number() : 0));
  const Wc sent = over.peer->wait_send();
  const Wc got = over.recv_cq->wait();
  if (got.status != TERN_CQE_REM_INV_REQ_ERR || le(got.wr_id) != 77) {
    return std::string("received with ") + status_name(got.status);
  }
  if (sent.status != (path == Path::kUc ? TERN_CQE_SUCCESS : TERN_CQE_REM_INV_REQ_ERR)) {
    return std::string("sent with ") + status_name(sent.status);
  }
  const tern_rsp_mr after = look_at(look);
  if (std::memcmp(&before, &after, sizeof(before)) != 0) return "the key changed";
  return unless(over.own->query().attr.state == TERN_QPS_ERR, "the QP is in the wrong state");
}

}  // namespace tern
