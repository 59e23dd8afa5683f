// SPDX-License-Identifier: GPL-2.0-or-later
#include "window.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "trace.h"

namespace guest::windows {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kOwnerSeed = 0x0a;
constexpr std::uint64_t kPeerSeed = 0x0b;
constexpr std::uint64_t kSwapped = 0x99aabbccddeeff00;
constexpr std::uint64_t kAdded = 0x0101010101010101;
constexpr std::uint32_t kImm = 0xa1b2c3d4;
constexpr std::uint64_t kRecvId = 0x7e;
constexpr std::uint64_t kPeerId = 0x9e;
constexpr int kEventWait = 10000;  // ms

// An end of a path. Binds and invalidates by ibv_wr_*(); Soft-RoCE can bind on UC but cannot
// invalidate there.
bool uc_can_invalidate(const Env& env) {
  return env.dev.apis().size() == 1 || env.dev.supports(IBV_QPT_UC, IBV_QP_EX_WITH_LOCAL_INV);
}

EndSpec end_spec(ibv_qp_type type, const Env& env) {
  const bool no_inv = type == IBV_QPT_UC && !uc_can_invalidate(env);
  return {.type = type,
          .memory = 4096,
          .send_wr = 16,
          .recv_wr = 16,
          .send_sge = 1,
          .recv_sge = 1,
          .inline_data = 0,
          .send_cqe = 32,
          .recv_cqe = 32,
          .more_ops = no_inv ? kWindowOps & ~std::uint64_t{IBV_QP_EX_WITH_LOCAL_INV} : kWindowOps};
}

PairOptions path_options(const PathOptions& options, const Env& env) {
  PairOptions made{.local = end_spec(options.type, env),
                   .remote = end_spec(other_type(options.type), env),
                   .how = {.qp_access = options.qp_access}};
  made.local.pd = options.pd;
  made.local.signal_all = options.signal_all;
  made.remote.memory = options.peer_memory;
  made.remote.more_ops = options.flushes ? kBuiltOps : 0;
  if (options.flushes) made.how.qp_access |= IBV_ACCESS_FLUSH_GLOBAL;
  return made;
}

// Waits for an event of this QP; discards others.
bool wait_qp_event(const Device& dev, const ibv_qp* qp, ibv_event_type type) {
  const auto end = Clock::now() + std::chrono::milliseconds(kEventWait);
  while (Clock::now() < end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd p{.fd = dev.context()->async_fd, .events = POLLIN, .revents = 0};
    if (::poll(&p, 1, static_cast<int>(left)) != 1) break;
    ibv_async_event event{};
    if (ibv_get_async_event(dev.context(), &event) != 0) fail_errno("ibv_get_async_event");
    ibv_ack_async_event(&event);
    if (event.event_type == type && event.element.qp == qp) return true;
  }
  return false;
}

// Accesses and binds that were refused as expected.
unsigned refusals = 0;

const ibv_wc& expect(const ibv_wc& wc, const char* what, std::uint64_t wr_id,
                     ibv_wc_status status) {
  require(wc.status == status, "{} completes with: {}, not {}", what, ibv_wc_status_str(wc.status),
          ibv_wc_status_str(status));
  require(wc.wr_id == wr_id, "completion of wr_id {:#x}, not {:#x}", wc.wr_id, wr_id);
  return wc;
}

}  // namespace

void count_refusal() { refusals++; }
unsigned take_refusals() { return std::exchange(refusals, 0); }

const char* op_name(Op op) {
  static constexpr const char* kNames[] = {"RDMA READ",   "RDMA WRITE",    "RDMA WRITE WITH IMM",
                                           "CMP_AND_SWP", "FETCH_AND_ADD", "ATOMIC WRITE",
                                           "FLUSH"};
  return kNames[static_cast<std::size_t>(op)];
}

std::span<const Op> ops_of(ibv_qp_type type) {
  return type == IBV_QPT_UC ? std::span<const Op>(kUcOps) : std::span<const Op>(kAllOps);
}

// ---- Region ----

Region::Region(const Env& env, const RegionOptions& options) : image_(options.length) {
  need_windows(env.dev.context());
  need_atomics(env.dev);  // most rules use them too
  ibv_pd* pd = options.pd != nullptr ? options.pd : env.dev.pd();
  const auto access = static_cast<unsigned>(options.access);
  guest::fill(image_, kOwnerSeed);
  if (options.device_memory) {
    dm_ = alloc_dm(env.dev.context(), options.length);
    mr_ = ibv_reg_dm_mr(pd, dm_.get(), 0, options.length, access | IBV_ACCESS_ZERO_BASED);
  } else {
    host_.emplace(options.length);
    base_ = options.iova.value_or(host_->address());
    mr_ = ibv_reg_mr_iova(pd, host_->at(), options.length, base_, access);
  }
  if (mr_ == nullptr) fail("registration of {} bytes: {}", options.length, errno_name(errno));
  store();
}

Region::~Region() {
  if (mr_ != nullptr) note_destroy("ibv_dereg_mr", ibv_dereg_mr(mr_));
}

int Region::deregister() {
  const int err = ibv_dereg_mr(mr_);
  if (err == 0) mr_ = nullptr;
  return err;
}

void Region::store() const {
  if (host_) {
    std::ranges::copy(image_, host_->at());
  } else {
    dm_write(dm_.get(), 0, image_);
  }
}

std::vector<std::byte> Region::load() const {
  if (!host_) return dm_read(dm_.get(), 0, image_.size());
  return {host_->bytes().begin(), host_->bytes().end()};
}

std::uint64_t Region::first64() const {
  return *reinterpret_cast<const volatile std::uint64_t*>(host_->at());
}

void Region::fill(Range range, std::uint64_t seed) {
  expect(range, seed);
  store();
}

void Region::expect(Range range, std::uint64_t seed) {
  require(range.offset + range.length <= image_.size(), "range past the region");
  guest::fill(std::span(image_).subspan(range.offset, range.length), seed);
}

void Region::expect64(std::uint64_t offset, std::uint64_t value) {
  require(offset + sizeof(value) <= image_.size(), "word past the region");
  std::memcpy(&image_[offset], &value, sizeof(value));
}

std::uint64_t Region::expected64(std::uint64_t offset) const {
  std::uint64_t value = 0;
  require(offset + sizeof(value) <= image_.size(), "word past the region");
  std::memcpy(&value, &image_[offset], sizeof(value));
  return value;
}

void Region::check(const char* after) const {
  const std::vector<std::byte> now = load();
  const auto [here, there] = std::ranges::mismatch(now, image_);
  require(here == now.end(), "{}: byte {} of the region is not what it should be", after,
          here - now.begin());
}

// ---- Path ----

Path::Path(const Env& env, const PathOptions& options)
    : env_(env), options_(options), pair_(env.dev, env.link, path_options(options, env)) {}

void Path::reconnect() {
  peer().to_state(IBV_QPS_RESET);
  require_err(to_state(qp(), IBV_QPS_RESET), 0, "to RESET");
  pair_.connect();
}

void Path::post(const Send& send, Api api) const { pair_.post(send, api); }

ibv_wc Path::done(std::uint64_t wr_id, ibv_wc_status status) const {
  return expect(poll(send_cq(), 1).front(), "the request", wr_id, status);
}

void Path::recv(std::uint64_t wr_id, std::uint32_t length) const {
  pair_.local.recv(wr_id, {0, length});
}

ibv_wc Path::received(std::uint64_t wr_id, ibv_wc_status status) const {
  return expect(poll(recv_cq(), 1).front(), "the receive", wr_id, status);
}

Work Path::work(Op op, std::uint32_t rkey, std::uint64_t addr) const {
  static constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_RDMA_READ,
                                               IBV_WR_RDMA_WRITE,
                                               IBV_WR_RDMA_WRITE_WITH_IMM,
                                               IBV_WR_ATOMIC_CMP_AND_SWP,
                                               IBV_WR_ATOMIC_FETCH_AND_ADD,
                                               IBV_WR_ATOMIC_WRITE,
                                               IBV_WR_FLUSH};
  return {.opcode = kOpcodes[static_cast<std::size_t>(op)],
          .wr_id = kPeerId,
          .raddr = addr,
          .rkey = rkey,
          .imm = kImm,
          .srqn = pair_.local.endpoint().srqn};
}

ibv_wc_status Path::attempt(Op op, std::uint32_t rkey, std::uint64_t addr,
                            std::uint32_t length) const {
  Work w = work(op, rkey, addr);
  w.compare_add = kAdded;
  w.swap = kSwapped;
  w.flush_length = length;
  peer().post(w, {0, length});
  return peer().poll_send(1).front().status;
}

void Path::sync() const {
  recv(kRecvId);
  peer().post({.wr_id = kPeerId, .srqn = pair_.local.endpoint().srqn}, {0, 8});
  require_status(peer().poll_send(1).front(), kPeerId, IBV_WC_SUCCESS);
  require(received(kRecvId).opcode == IBV_WC_RECV, "another receive than the SEND's");
}

void Path::allowed(Region& region, Op op, std::uint32_t rkey, std::uint64_t addr, Range at) const {
  const Range here{.offset = 0, .length = at.length};
  Work w = work(op, rkey, addr);
  std::uint64_t old = 0;
  if (op == Op::kRead) {
    region.fill(at, kOwnerSeed + 1);
  } else if (is_atomic(op)) {
    old = region.expected64(at.offset);
    w.compare_add = op == Op::kCmpSwap ? old : kAdded;
    w.swap = kSwapped;
    region.expect64(at.offset, op == Op::kCmpSwap ? kSwapped : old + kAdded);
  } else if (op == Op::kAtomicWrite) {
    w.swap = kSwapped + 1;
    region.expect64(at.offset, w.swap);
  } else if (op == Op::kFlush) {
    w.flush_length = at.length;
  } else {
    peer().fill(here, kPeerSeed);
    region.expect(at, kPeerSeed);
  }
  if (op == Op::kWriteImm) recv(kRecvId);
  peer().post(w, here);
  const ibv_wc wc = peer().poll_send(1).front();
  require(wc.status == IBV_WC_SUCCESS, "{}: {}", op_name(op), ibv_wc_status_str(wc.status));
  if (op == Op::kWriteImm) {
    const ibv_wc got = received(kRecvId);
    require(got.opcode == IBV_WC_RECV_RDMA_WITH_IMM && got.imm_data == htonl(kImm),
            "the WRITE's immediate data did not come");
  } else if (!reliable()) {
    sync();
  }
  if (op == Op::kRead) {
    peer().check(here, kOwnerSeed + 1);
  } else if (is_atomic(op)) {
    require(peer().load64(0) == old, "{} answers another value", op_name(op));
  }
  region.check(op_name(op));
}

void Path::denied(const Region& region, Op op, std::uint32_t rkey, std::uint64_t addr,
                  std::uint32_t length, ibv_wc_status status) const {
  count_refusal();
  const Range here{.offset = 0, .length = length};
  peer().fill(here, kPeerSeed + 1);
  if (op == Op::kWriteImm || !reliable()) recv(kRecvId);
  const ibv_wc_status got = attempt(op, rkey, addr, length);
  if (!reliable()) {  // no response on UC: the next SEND shows that the request was processed
    require(got == IBV_WC_SUCCESS, "{}: {}", op_name(op), ibv_wc_status_str(got));
    peer().post({.wr_id = kPeerId}, here);
    require_status(peer().poll_send(1).front(), kPeerId, IBV_WC_SUCCESS);
    require(received(kRecvId).opcode == IBV_WC_RECV, "{} was taken", op_name(op));
    region.check(op_name(op));
    return;
  }
  require(got != IBV_WC_SUCCESS, "{} was allowed", op_name(op));
  require(got == status, "{}: {}, not {}", op_name(op), ibv_wc_status_str(got),
          ibv_wc_status_str(status));
  region.check(op_name(op));
  if (op != Op::kWrite && op != Op::kWriteImm) peer().check(here, kPeerSeed + 1);
  expect_owner_error(status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR
                                                     : IBV_EVENT_QP_REQ_ERR);
  if (op == Op::kWriteImm && pair_.local.srq() == nullptr && strict()) {
    received(kRecvId, IBV_WC_WR_FLUSH_ERR);
  }
  require(peer().qp_state() == IBV_QPS_ERR, "the peer's QP is not in ERR");
}

void Path::expect_owner_error(ibv_event_type event) const {
  if (strict()) {
    require(wait_qp_event(env_.dev, qp(), event), "no {} event", ibv_event_type_str(event));
  }
  require(state_of(qp()) == IBV_QPS_ERR, "the owner's QP is not in ERR");
}

void Path::send_inv(std::uint32_t rkey, ibv_wc_status status) const {
  recv(kRecvId);
  peer().post({.opcode = IBV_WR_SEND_WITH_INV,
               .wr_id = kPeerId,
               .inv_rkey = rkey,
               .srqn = pair_.local.endpoint().srqn},
              {0, 8});
  const ibv_wc sent = peer().poll_send(1).front();
  const ibv_wc_status expected = reliable() ? status : IBV_WC_SUCCESS;
  const bool as_usual = sent.status == expected;
  // The responder may have acknowledged the message before it fails to invalidate.
  const auto text = [&] {
    return std::format("SEND_WITH_INV: {}, not {}", ibv_wc_status_str(sent.status),
                       ibv_wc_status_str(expected));
  };
  require(as_usual || (status != IBV_WC_SUCCESS && reliable()), "{}", text());
  require_usual(as_usual, "{}", text());
  const ibv_wc wc = poll(recv_cq(), 1).front();
  require(wc.wr_id == kRecvId, "completion of wr_id {:#x}, not {:#x}", wc.wr_id, kRecvId);
  if (status == IBV_WC_SUCCESS || strict()) expect(wc, "the receive", kRecvId, status);
  if (status != IBV_WC_SUCCESS) {
    require(wc.status != IBV_WC_SUCCESS, "the receive succeeds");
    require_usual(wc.status == status, "the receive: {}, not {}", ibv_wc_status_str(wc.status),
                  ibv_wc_status_str(status));
    count_refusal();
    require(state_of(qp()) == IBV_QPS_ERR, "the owner's QP is not in ERR");
    return;
  }
  require(wc.opcode == IBV_WC_RECV && (wc.wc_flags & IBV_WC_WITH_INV) != 0,
          "the receive does not say IBV_WC_WITH_INV");
  require(wc.invalidated_rkey == rkey, "the receive says key {:#x}, not {:#x}", wc.invalidated_rkey,
          rkey);
}

void need_uc_local_inv(const Env& env) {
  need_windows(env.dev.context(), IBV_MW_TYPE_2);
  if (!uc_can_invalidate(env)) skip("ibv_create_qp_ex with LOCAL_INV on UC: refused");
}

End xrc_sender(const Env& env, const Path& any) {
  End end(env.dev, end_spec(IBV_QPT_XRC_SEND, env));
  guest::connect(end.qp(), env.dev, {.mtu = env.dev.active_mtu()}, end.endpoint(),
                 any.peer().endpoint());
  return end;
}

// ---- binds ----

int post_bind(ibv_qp* qp, const Bind& bind, Api api) {
  if (bind.mw->type == IBV_MW_TYPE_1) {
    ibv_mw_bind request{};
    request.wr_id = kBindId;
    request.send_flags = bind.flags;
    request.bind_info = bind.info();
    const int err = ibv_bind_mw(qp, bind.mw, &request);
    trace("QP {:#x} ibv_bind_mw, {} bytes at {:#x}, {}: {}, {}", qp->qp_num, bind.length, bind.addr,
          access_text(bind.access), errno_name(err), key_tag(bind.mw->rkey));
    return err;
  }
  Send send{.opcode = IBV_WR_BIND_MW, .wr_id = kBindId, .flags = bind.flags};
  send.mw = bind.mw;
  send.bind = bind.info();
  send.bind_rkey = bind.new_rkey;
  return post(qp, api, send);
}

int post_local_inv(ibv_qp* qp, std::uint32_t rkey, Api api) {
  return post(qp, api, {.opcode = IBV_WR_LOCAL_INV, .wr_id = kInvId, .inv_rkey = rkey});
}

namespace {

// A failed request of the owner must stop its queue.
void expect_stopped(const Path& path, ibv_wc_status status) {
  if (status == IBV_WC_SUCCESS) return;
  count_refusal();
  const ibv_qp_state state = state_of(path.qp());
  require(state == IBV_QPS_ERR || (state == IBV_QPS_SQE && !path.reliable()),
          "the QP is in state {}", static_cast<int>(state));
  require_usual(path.reliable() || state == IBV_QPS_SQE, "a UC QP in ERR, not in SQE");
}

// Providers refuse some binds that a manual page allows, and no capability tells.
bool is_optional(const Bind& bind) {
  return (bind.access & (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE)) != 0;
}

}  // namespace

std::uint32_t bind(const Path& path, const Bind& bind, ibv_wc_status status, Api api) {
  const int err = post_bind(path.qp(), bind, api);
  if (err != 0 && status == IBV_WC_SUCCESS && (is_optional(bind) || err == EOPNOTSUPP)) {
    undecided("a bind with {}: {}", access_text(bind.access), errno_name(err));
  }
  if (err != 0 && status != IBV_WC_SUCCESS && !strict()) {
    count_refusal();
    chose(std::format("post of a bind: {}", errno_name(err)));
    return bind.mw->rkey;
  }
  require_err(err, 0, "post of a bind");
  const ibv_wc wc = poll(path.send_cq(), 1).front();
  if (status == IBV_WC_SUCCESS && wc.status != status && is_optional(bind)) {
    undecided("a bind with {}: {}", access_text(bind.access), ibv_wc_status_str(wc.status));
  }
  expect(wc, "the bind", kBindId, status);
  require(status != IBV_WC_SUCCESS || wc.opcode == IBV_WC_BIND_MW, "another opcode than BIND_MW");
  expect_stopped(path, status);
  if (status == IBV_WC_SUCCESS && bind.mw->type == IBV_MW_TYPE_2) {
    bind.mw->rkey = bind.new_rkey;  // tern does not need this, other devices do
  }
  return bind.mw->rkey;
}

void local_inv(const Path& path, std::uint32_t rkey, ibv_wc_status status, Api api) {
  const int err = post_local_inv(path.qp(), rkey, api);
  if (err != 0 && status != IBV_WC_SUCCESS && !strict()) {
    count_refusal();
    return chose(std::format("post of LOCAL_INV: {}", errno_name(err)));
  }
  require_err(err, 0, "post of LOCAL_INV");
  const ibv_wc wc = path.done(kInvId, status);
  require(status != IBV_WC_SUCCESS || wc.opcode == IBV_WC_LOCAL_INV,
          "another opcode than LOCAL_INV");
  expect_stopped(path, status);
}

// ---- Window ----

Window::Window(const Env& env, const Form& form)
    : region(env, {.access = form.mr_access | (form.flushes ? IBV_ACCESS_FLUSH_GLOBAL : 0),
                   .iova = form.iova,
                   .device_memory = form.device_memory}),
      path(env, {.type = form.via, .flushes = form.flushes}),
      form_(form) {
  if (form.via == IBV_QPT_XRC_RECV) {  // an XRC target cannot bind
    binder_ = std::make_unique<Path>(env);
  }
  mw = alloc_mw(env.dev.pd(), form.type);
  rebind(request());
}

std::uint64_t Window::address(std::int64_t offset) const {
  const std::uint64_t first = form_.zero_based ? 0 : region.address(form_.at.offset);
  return first + static_cast<std::uint64_t>(offset);
}

Bind Window::request() const {
  return {.mw = mw.get(),
          .mr = region.mr(),
          .addr = region.address(form_.at.offset),
          .length = form_.at.length,
          .access =
              form_.access | (form_.zero_based ? static_cast<unsigned>(IBV_ACCESS_ZERO_BASED) : 0U),
          .new_rkey = with_variant(mw->rkey, (key != 0 ? key : mw->rkey) + 0x35)};
}

std::uint32_t bind_by(const End& sender, const Window& window, ibv_mw* mw) {
  Bind request = window.request();
  request.mw = mw;
  request.new_rkey = with_variant(mw->rkey, 7);
  require_err(post_bind(sender.qp(), request), 0, "post of a bind");
  require_status(poll(sender.send_cq(), 1).front(), kBindId, IBV_WC_SUCCESS);
  return request.new_rkey;
}

void Window::send_key_after_bind() {
  path.peer().post_recv(3, Range{.offset = 4096, .length = 8});
  Bind silent = request();
  silent.flags = 0;
  require_err(post_bind(path.qp(), silent), 0, "post of a bind");
  path.inbox().store64(0, mw->type == IBV_MW_TYPE_1 ? mw->rkey : silent.new_rkey);
  Send send{.opcode = IBV_WR_SEND, .wr_id = 4};
  send.sges = {path.inbox().sge(0, 8)};
  path.post(send);
  require_status(path.peer().poll_recv(1).front(), 3, IBV_WC_SUCCESS);
  all_work({0, 64}, static_cast<std::uint32_t>(path.peer().load64(4096)));
  path.done(4);
}

void Window::rebind(const Bind& request) { key = bind(binder(), request); }

void Window::all_work(Range at, std::uint32_t rkey) {
  for (const Op op : ops_of(form_.via)) {
    const Range bytes{.offset = form_.at.offset + at.offset,
                      .length = is_atomic(op) ? 8 : at.length};
    path.allowed(region, op, rkey, address(static_cast<std::int64_t>(at.offset)), bytes);
  }
}

}  // namespace guest::windows
