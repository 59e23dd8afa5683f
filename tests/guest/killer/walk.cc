// SPDX-License-Identifier: GPL-2.0-or-later
#include "walk.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "verbs.h"

namespace guest::killer {
namespace {

constexpr ibv_qp_type type_of(Kind kind) {
  switch (kind) {
    case kUc:
      return IBV_QPT_UC;
    case kUd:
      return IBV_QPT_UD;
    case kXrcSend:
      return IBV_QPT_XRC_SEND;
    case kXrcRecv:
      return IBV_QPT_XRC_RECV;
    default:
      return IBV_QPT_RC;
  }
}

// The multicast GID ::ffff:239.1.1.n.
ibv_gid group(std::uint8_t n) {
  ibv_gid gid = {};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 239;
  gid.raw[13] = gid.raw[14] = 1;
  gid.raw[15] = n;
  return gid;
}

}  // namespace

Walk::Walk(const Options& options, Shared& shared)
    : options_(options),
      shared_(shared),
      role_(shared.role[options.second ? 1 : 0]),
      random_(options.seed) {}

std::size_t Walk::queues(Kind kind) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(qps_, [&](const Queue& q) { return q.kind == kind; }));
}

void Walk::step(const char* what) {
  const std::size_t xrc_srqs = static_cast<std::size_t>(
      std::ranges::count_if(srqs_, [](const SharedQueue& q) { return q.xrcd != nullptr; }));
  std::array<std::size_t, kKinds> live{};
  live[kContext] = contexts_.size();
  live[kPd] = pds_.size();
  live[kMr] = mrs_.size();
  live[kChannel] = channels_.size();
  live[kCq] = cqs_.size();
  for (const Kind kind : {kRc, kUc, kUd, kXrcSend, kXrcRecv, kOpenedQp}) live[kind] = queues(kind);
  live[kSrq] = srqs_.size() - xrc_srqs;
  live[kXrcSrq] = xrc_srqs;
  live[kXrcd] = xrcds_.size();
  live[kAh] = ahs_.size();
  live[kMcast] = members_.size();
  live[kMw] = mws_.size();
  live[kBound] = static_cast<std::size_t>(std::ranges::count_if(mws_, &Window::bound));
  live[kDm] = dms_.size();
  live[kDmMr] = static_cast<std::size_t>(
      std::ranges::count_if(mrs_, [](const Region& r) { return r.dm != nullptr; }));
  live[kRereg] = reregs_;
  live[kConnected] = static_cast<std::size_t>(std::ranges::count_if(qps_, &Queue::connected));
  live[kTraffic] = posted_;
  live[kFork] = forks_;
  for (std::size_t i = 0; i < kKinds; ++i) role_.live[i] = static_cast<std::uint32_t>(live[i]);
  role_.last = what;
  if (++role_.verbs == options_.kill_after) kill(getpid(), SIGKILL);
}

template <typename T>
void Walk::forget_context(std::vector<T>& pool, ibv_context* context) {
  std::erase_if(pool, [&](const T& element) { return element.context == context; });
}

Walk::Context* Walk::context_of(ibv_context* verbs) {
  const auto it = std::ranges::find(contexts_, verbs, &Context::verbs);
  return it == contexts_.end() ? nullptr : &*it;
}

Walk::Queue* Walk::any_queue(Kind kind, bool connected, ibv_context* context) {
  if (qps_.empty()) return nullptr;
  const std::size_t start = random_.below(qps_.size());
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    Queue& queue = qps_[(start + i) % qps_.size()];
    if (queue.kind == kind && queue.connected == connected &&
        (context == nullptr || queue.context == context))
      return &queue;
  }
  return nullptr;
}

void Walk::open_device() {
  ibv_context* const verbs = open_context(options_.device);
  step("ibv_open_device");
  if (verbs == nullptr) return;
  // Reads must not block on an event that may never come.
  fcntl(verbs->async_fd, F_SETFL, fcntl(verbs->async_fd, F_GETFL) | O_NONBLOCK);
  Context context{.verbs = verbs, .attr = {}, .gid = {}, .gid_index = 0};
  const auto gid = ipv4_gid(verbs);
  if (!gid || ibv_query_device(verbs, &context.attr) != 0) {
    ibv_close_device(verbs);
    step("ibv_close_device");
    return;
  }
  context.gid = gid->gid;
  context.gid_index = static_cast<std::uint8_t>(gid->gid_index);
  contexts_.push_back(context);
  role_.missing[kSrq] = context.attr.max_srq == 0;
  role_.missing[kMcast] = context.attr.max_mcast_grp == 0;
  role_.missing[kMw] = role_.missing[kBound] = context.attr.max_mw == 0;
  ibv_device_attr_ex more = {};
  if (ibv_query_device_ex(verbs, nullptr, &more) == 0) {
    role_.missing[kDm] = role_.missing[kDmMr] = more.max_dm_size == 0;
  }
  role_.missing[kUd] = role_.missing[kAh] = context.attr.max_ah == 0;
  for (const Kind kind : {kXrcSend, kXrcRecv, kOpenedQp, kXrcSrq, kXrcd}) {
    role_.missing[kind] = (context.attr.device_cap_flags & IBV_DEVICE_XRC) == 0;
  }
  step("ibv_query_gid");
}

// Closes a device with everything in it: the kernel destroys the objects, and libibverbs' memory
// for them leaks.
void Walk::close_device() {
  Context* context = contexts_.size() < 2 ? nullptr : &contexts_[random_.below(contexts_.size())];
  if (context == nullptr) return;
  ibv_context* verbs = context->verbs;
  forget(contexts_, context);
  std::erase_if(members_, [&](const Membership& m) { return m.qp->context == verbs; });
  forget_context(pds_, verbs);
  forget_context(mrs_, verbs);
  forget_context(mws_, verbs);
  forget_context(dms_, verbs);
  forget_context(channels_, verbs);
  forget_context(cqs_, verbs);
  forget_context(qps_, verbs);
  forget_context(srqs_, verbs);
  forget_context(xrcds_, verbs);
  forget_context(ahs_, verbs);
  ibv_close_device(verbs);
  step("ibv_close_device");
}

void Walk::make_pd() {
  if (contexts_.empty() || pds_.size() >= 4) return;
  ibv_context* verbs = contexts_[random_.below(contexts_.size())].verbs;
  if (ibv_pd* pd = ibv_alloc_pd(verbs)) pds_.push_back({verbs, pd});
  step("ibv_alloc_pd");
}

void Walk::make_mr() {
  const auto* pd = any(pds_);
  if (pd == nullptr || mrs_.size() >= 12) return;
  const std::size_t length = std::size_t{4096} << random_.below(10);
  void* memory =
      mmap(nullptr, kMaxRegion, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  const std::size_t offset = random_.one_in(2) ? 0 : random_.below(4096);
  const bool bindable = !random_.one_in(3);
  ibv_mr* mr = ibv_reg_mr(pd->object, static_cast<char*>(memory) + offset,
                          std::min(length, kMaxRegion - offset),
                          bindable ? kRegionAccess | IBV_ACCESS_MW_BIND : kRegionAccess);
  if (mr != nullptr) mrs_.push_back({pd->context, mr, pd->object, bindable});
  // The pages stay pinned after their mapping is gone.
  if (random_.one_in(4)) munmap(memory, kMaxRegion);
  step("ibv_reg_mr");
}

void Walk::make_channel() {
  if (contexts_.empty() || channels_.size() >= 3) return;
  ibv_context* verbs = contexts_[random_.below(contexts_.size())].verbs;
  if (ibv_comp_channel* channel = ibv_create_comp_channel(verbs)) {
    fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
    channels_.push_back({verbs, channel});
  }
  step("ibv_create_comp_channel");
}

void Walk::make_cq() {
  if (contexts_.empty() || cqs_.size() >= 8) return;
  Context& context = contexts_[random_.below(contexts_.size())];
  const auto* channel = any(channels_, context.verbs);
  ibv_cq* cq = ibv_create_cq(
      context.verbs, 1 << random_.below(10), nullptr,
      channel != nullptr && !random_.one_in(4) ? channel->object : nullptr,
      static_cast<int>(random_.below(static_cast<std::size_t>(context.verbs->num_comp_vectors))));
  if (cq != nullptr) {
    cqs_.push_back({context.verbs, cq});
    if (cq->channel != nullptr) ibv_req_notify_cq(cq, 0);
  }
  step("ibv_create_cq");
}

void Walk::make_qp() {
  const auto* pd = any(pds_);
  if (pd == nullptr || qps_.size() >= 20) return;
  const auto* send_cq = any(cqs_, pd->context);
  const auto* recv_cq = any(cqs_, pd->context);
  if (send_cq == nullptr) return;
  constexpr Kind kinds[] = {kRc, kRc, kUc, kUd, kXrcSend};
  const Kind kind = kinds[random_.below(std::size(kinds))];
  if (role_.missing[kind]) return;
  ibv_qp_init_attr_ex attr = {};
  attr.qp_type = type_of(kind);
  attr.send_cq = send_cq->object;
  attr.recv_cq = recv_cq->object;
  attr.cap = {1 + random_.below(64), 1 + random_.below(64), 1 + random_.below(4),
              1 + random_.below(4), random_.below(128)};
  attr.sq_sig_all = static_cast<int>(random_.below(2));
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = pd->object;
  const auto* srq = any(srqs_, pd->context);
  if (srq != nullptr && srq->xrcd == nullptr && kind != kXrcSend && random_.one_in(2))
    attr.srq = srq->object;
  ibv_qp* qp = ibv_create_qp_ex(pd->context, &attr);
  if (qp != nullptr) {
    qps_.push_back({pd->context, qp, kind, false, nullptr});
  } else if (errno == EOPNOTSUPP) {
    role_.missing[kind] = 1;
  }
  step("ibv_create_qp");
}

void Walk::make_xrc_target() {
  const auto* xrcd = any(xrcds_);
  if (xrcd == nullptr || queues(kXrcRecv) >= 4) return;
  ibv_qp_init_attr_ex attr = {};
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attr.xrcd = xrcd->object;
  if (ibv_qp* qp = ibv_create_qp_ex(xrcd->context, &attr)) {
    qps_.push_back({xrcd->context, qp, kXrcRecv, false, xrcd->object});
    if (!options_.second) shared_.target_qpn = qp->qp_num;
  }
  step("ibv_create_qp");
}

// Opens the other process's XRC target if that has published one, otherwise one of its own.
void Walk::open_target() {
  const auto* xrcd = any(xrcds_);
  const Queue* own = any_queue(kXrcRecv, random_.one_in(2));
  const std::uint32_t shared = shared_.target_qpn;
  if (xrcd == nullptr || (shared == 0 && own == nullptr) || queues(kOpenedQp) >= 4) return;
  ibv_qp_open_attr attr = {};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = shared != 0 && (options_.second || own == nullptr) ? shared : own->object->qp_num;
  attr.xrcd = xrcd->object;
  attr.qp_type = IBV_QPT_XRC_RECV;
  if (ibv_qp* qp = ibv_open_qp(xrcd->context, &attr))
    qps_.push_back({xrcd->context, qp, kOpenedQp, false, xrcd->object});
  step("ibv_open_qp");
}

void Walk::make_srq() {
  const auto* pd = any(pds_);
  if (pd == nullptr || srqs_.size() >= 6 || role_.missing[kSrq]) return;
  ibv_srq_init_attr attr = {};
  attr.attr = {.max_wr = 1 + random_.below(128), .max_sge = 1 + random_.below(4), .srq_limit = 0};
  if (ibv_srq* srq = ibv_create_srq(pd->object, &attr)) {
    srqs_.push_back({pd->context, srq, pd->object, nullptr, nullptr, attr.attr.max_wr});
  }
  step("ibv_create_srq");
}

void Walk::make_xrc_srq() {
  const auto* pd = any(pds_);
  if (pd == nullptr || srqs_.size() >= 6) return;
  const auto* xrcd = any(xrcds_, pd->context);
  const auto* cq = any(cqs_, pd->context);
  if (xrcd == nullptr || cq == nullptr) return;
  ibv_srq_init_attr_ex attr = {};
  attr.attr = {.max_wr = 1 + random_.below(128), .max_sge = 1 + random_.below(4), .srq_limit = 0};
  attr.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  attr.srq_type = IBV_SRQT_XRC;
  attr.pd = pd->object;
  attr.xrcd = xrcd->object;
  attr.cq = cq->object;
  if (ibv_srq* srq = ibv_create_srq_ex(pd->context, &attr)) {
    srqs_.push_back({pd->context, srq, pd->object, cq->object, xrcd->object, attr.attr.max_wr});
    std::uint32_t srqn = 0;
    if (ibv_get_srq_num(srq, &srqn) == 0) shared_.srqn = srqn;
  }
  step("ibv_create_srq_ex");
}

void Walk::open_xrcd() {
  if (contexts_.empty() || xrcds_.size() >= 3 || role_.missing[kXrcd]) return;
  ibv_context* verbs = contexts_[random_.below(contexts_.size())].verbs;
  ibv_xrcd_init_attr attr = {};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = random_.one_in(4) ? -1 : options_.xrcd_fd;
  attr.oflags = O_CREAT;
  if (ibv_xrcd* xrcd = ibv_open_xrcd(verbs, &attr)) xrcds_.push_back({verbs, xrcd});
  step("ibv_open_xrcd");
}

void Walk::make_ah() {
  const auto* pd = any(pds_);
  if (pd == nullptr || ahs_.size() >= 6 || role_.missing[kAh]) return;
  const Context* context = context_of(pd->context);
  ibv_ah_attr attr = {};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.sgid_index = context->gid_index;
  attr.grh.hop_limit = 64;
  attr.grh.dgid =
      random_.one_in(3) ? group(static_cast<std::uint8_t>(random_.below(3))) : context->gid;
  if (ibv_ah* ah = ibv_create_ah(pd->object, &attr)) ahs_.push_back({pd->context, ah, pd->object});
  step("ibv_create_ah");
}

// ib_core treats the same group under two LIDs as two attachments; to the device they are one.
void Walk::attach() {
  const Queue* queue = any_queue(kUd, random_.one_in(2));
  if (queue == nullptr || members_.size() >= 8 || role_.missing[kMcast]) return;
  const Membership member{queue->object, group(static_cast<std::uint8_t>(random_.below(3))),
                          static_cast<std::uint16_t>(0xc000 + random_.below(2))};
  if (ibv_attach_mcast(member.qp, &member.group, member.lid) == 0) members_.push_back(member);
  step("ibv_attach_mcast");
}

void Walk::detach() {
  if (members_.empty()) return;
  const Membership* member = &members_[random_.below(members_.size())];
  ibv_detach_mcast(member->qp, &member->group, member->lid);
  forget(members_, member);
  step("ibv_detach_mcast");
}

void Walk::connect_one(Queue& queue, std::uint32_t peer) {
  const Context* context = context_of(queue.context);
  const Connection how{.mtu = IBV_MTU_1024,
                       .qp_access = queue.kind == kUc
                                        ? IBV_ACCESS_REMOTE_WRITE
                                        : IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
                       .timeout = 14,
                       .max_dest_rd_atomic = 4};
  int err = to_init(queue.object, how);
  step("ibv_modify_qp to INIT");
  if (err) return;
  err = to_rtr(queue.object, context->gid_index, how, {.qpn = peer, .gid = context->gid});
  step("ibv_modify_qp to RTR");
  if (err) return;
  queue.connected = true;
  if (queue.kind == kXrcRecv) return;
  to_rts(queue.object, how, 0);
  step("ibv_modify_qp to RTS");
}

// Connects a QP to another one of its kind or, one in four, to itself; XRC to a target of either
// process.
void Walk::connect() {
  constexpr Kind kinds[] = {kRc, kRc, kUc, kUd, kXrcSend, kXrcRecv};
  const Kind kind = kinds[random_.below(std::size(kinds))];
  Queue* queue = any_queue(kind, false);
  if (queue == nullptr) return;
  Queue* peer = nullptr;
  std::uint32_t number = queue->object->qp_num;
  if (kind == kRc || kind == kUc) {
    peer = any_queue(kind, false);
    if (peer == queue && !random_.one_in(4)) return;
    number = peer->object->qp_num;
  } else if (kind == kXrcSend || kind == kXrcRecv) {
    peer = any_queue(kind == kXrcSend ? kXrcRecv : kXrcSend, false);
    number = peer != nullptr ? peer->object->qp_num : shared_.target_qpn.load();
    if (number == 0) return;
  }
  const std::uint32_t own = queue->object->qp_num;
  connect_one(*queue, number);
  if (peer != nullptr && peer != queue) connect_one(*peer, own);
}

void Walk::post_receives(Queue& queue, const ibv_mr& mr) {
  ibv_sge sge{reinterpret_cast<std::uint64_t>(mr.addr), static_cast<std::uint32_t>(mr.length),
              mr.lkey};
  for (std::uint32_t i = 0; i < 8; ++i) {
    ibv_recv_wr* bad = nullptr;
    ibv_recv_wr wr = {};
    wr.wr_id = i;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    if (queue.object->srq != nullptr) {
      ibv_post_srq_recv(queue.object->srq, &wr, &bad);
    } else if (queue.kind != kXrcSend) {
      ibv_post_recv(queue.object, &wr, &bad);
    }
  }
  for (const SharedQueue& srq : srqs_) {
    if (srq.xrcd == nullptr || queue.kind != kXrcSend) continue;
    ibv_recv_wr* bad = nullptr;
    ibv_recv_wr wr = {};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_post_srq_recv(srq.object, &wr, &bad);
  }
  step("ibv_post_recv");
}

void Walk::post_sends(Queue& queue, const ibv_mr& mr) {
  const std::uint32_t length = static_cast<std::uint32_t>(mr.length);
  const auto address = reinterpret_cast<std::uint64_t>(mr.addr);
  for (std::uint32_t i = 0; i < 8; ++i) {
    ibv_sge sge{address, queue.kind == kUd ? std::min(length, 1024U) : length, mr.lkey};
    ibv_send_wr* bad = nullptr;
    ibv_send_wr wr = {};
    wr.wr_id = i;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = random_.one_in(2) ? +IBV_SEND_SIGNALED : 0U;
    wr.opcode = IBV_WR_SEND;
    if (queue.kind == kUd) {
      const auto* ah = any(ahs_, queue.context);
      if (ah == nullptr) return;
      wr.wr.ud.ah = ah->object;
      wr.wr.ud.remote_qpn = random_.one_in(2) ? 0xffffff : queue.object->qp_num;
      wr.wr.ud.remote_qkey = kQkey;
    } else if (!random_.one_in(3)) {
      wr.opcode = queue.kind == kRc && random_.one_in(2) ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
      wr.wr.rdma.remote_addr = address;
      wr.wr.rdma.rkey = mr.rkey;
    }
    if (queue.kind == kXrcSend) wr.qp_type.xrc.remote_srqn = shared_.srqn;
    if (ibv_post_send(queue.object, &wr, &bad) != 0) break;
    ++posted_;
  }
  step("ibv_post_send");
}

void Walk::traffic() {
  constexpr Kind kinds[] = {kRc, kRc, kUc, kUd, kXrcSend};
  Queue* queue = any_queue(kinds[random_.below(std::size(kinds))], true);
  if (queue == nullptr) return;
  const auto region = std::ranges::find_if(
      mrs_, [&](const Region& r) { return r.object->pd == queue->object->pd; });
  if (region == mrs_.end()) return;
  post_receives(*queue, *region->object);
  post_sends(*queue, *region->object);
}

void Walk::notify() {
  if (const auto* channel = any(channels_); channel != nullptr && random_.one_in(2)) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(channel->object, &cq, &context) == 0) ibv_ack_cq_events(cq, 1);
    step("ibv_get_cq_event");
  } else if (const auto* cq = any(cqs_)) {
    ibv_req_notify_cq(cq->object, static_cast<int>(random_.below(2)));
    step("ibv_req_notify_cq");
  }
}

void Walk::poll() {
  const auto* cq = any(cqs_);
  if (cq == nullptr) return;
  ibv_wc wc[16];
  ibv_poll_cq(cq->object, 16, wc);
  step("ibv_poll_cq");
}

void Walk::change_srq() {
  const auto* srq = any(srqs_);
  if (srq == nullptr) return;
  ibv_srq_attr attr = {};
  int mask = IBV_SRQ_LIMIT;
  attr.srq_limit = random_.below(srq->max_wr);
  if (random_.one_in(2)) {
    mask = IBV_SRQ_MAX_WR;
    attr.max_wr = srq->max_wr + random_.below(128);
  }
  ibv_modify_srq(srq->object, &attr, mask);
  step("ibv_modify_srq");
}

void Walk::query() {
  if (const auto* srq = any(srqs_); srq != nullptr && random_.one_in(3)) {
    ibv_srq_attr attr;
    ibv_query_srq(srq->object, &attr);
    step("ibv_query_srq");
  } else if (const Queue* queue = any(qps_); queue != nullptr && random_.one_in(2)) {
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    ibv_query_qp(queue->object, &attr, IBV_QP_STATE, &init);
    step("ibv_query_qp");
  } else if (const auto* context = contexts_.empty() ? nullptr : &contexts_.front()) {
    ibv_port_attr attr;
    ibv_query_port(context->verbs, 1, &attr);
    step("ibv_query_port");
  }
}

void Walk::to_error() {
  Queue* queue = any(qps_);
  if (queue == nullptr) return;
  ibv_qp_attr attr = {};
  attr.qp_state = random_.one_in(3) ? IBV_QPS_RESET : IBV_QPS_ERR;
  if (ibv_modify_qp(queue->object, &attr, IBV_QP_STATE) == 0 && attr.qp_state == IBV_QPS_RESET)
    queue->connected = false;
  step("ibv_modify_qp to ERR");
}

void Walk::take_async_event() {
  if (contexts_.empty()) return;
  ibv_async_event event;
  if (ibv_get_async_event(contexts_[random_.below(contexts_.size())].verbs, &event) == 0) {
    ibv_ack_async_event(&event);
  }
  step("ibv_get_async_event");
}

// A child keeps the open device and its mappings beyond its parent's death.
void Walk::fork_holder() {
  if (forks_ >= 1 || contexts_.empty()) return;
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  if (child > 0) ++forks_;
  step("fork");
}

void Walk::destroy_qp(Queue& queue) {
  // libibverbs requires that they are detached first; uverbs does that for a process that dies.
  const ibv_qp* qp = queue.object;
  if (std::ranges::any_of(members_, [&](const Membership& m) { return m.qp == qp; })) return;
  if (ibv_destroy_qp(queue.object) == 0) forget(qps_, static_cast<const Queue*>(&queue));
  step("ibv_destroy_qp");
}

bool Walk::in_use(const ibv_pd* pd) const {
  const auto of_pd = [&](const auto& element) { return element.pd == pd; };
  return std::ranges::any_of(mrs_, of_pd) || std::ranges::any_of(mws_, of_pd) ||
         std::ranges::any_of(ahs_, of_pd) || std::ranges::any_of(srqs_, of_pd) ||
         std::ranges::any_of(qps_, [&](const Queue& q) { return q.object->pd == pd; });
}

bool Walk::in_use(const ibv_cq* cq) const {
  return std::ranges::any_of(srqs_, [&](const SharedQueue& srq) { return srq.cq == cq; }) ||
         std::ranges::any_of(qps_, [&](const Queue& q) {
           return q.object->send_cq == cq || q.object->recv_cq == cq;
         });
}

bool Walk::in_use(const ibv_srq* srq) const {
  return std::ranges::any_of(qps_, [&](const Queue& q) { return q.object->srq == srq; });
}

bool Walk::in_use(const ibv_xrcd* xrcd) const {
  return std::ranges::any_of(srqs_, [&](const SharedQueue& srq) { return srq.xrcd == xrcd; }) ||
         std::ranges::any_of(qps_, [&](const Queue& q) { return q.xrcd == xrcd; });
}

void Walk::destroy() {
  switch (random_.below(11)) {
    case 1:
    case 2:
      if (Queue* queue = any(qps_)) destroy_qp(*queue);
      return;
    case 3:
      return drop(cqs_, "ibv_destroy_cq");
    case 4:
      return drop(srqs_, "ibv_destroy_srq");
    case 5:
      return drop(ahs_, "ibv_destroy_ah");
    case 6:
      return drop(pds_, "ibv_dealloc_pd");
    case 7:
      return drop(channels_, "ibv_destroy_comp_channel");
    case 8:
      return drop(xrcds_, "ibv_close_xrcd");
    default:
      return destroy_memory();
  }
}

void Walk::one_operation() {
  using Operation = void (Walk::*)();
  struct Weighted {
    std::uint32_t weight;
    Operation operation;
  };
  static constexpr Weighted kOperations[] = {
      {4, &Walk::make_pd},      {8, &Walk::make_mr},      {3, &Walk::make_channel},
      {8, &Walk::make_cq},      {20, &Walk::make_qp},     {5, &Walk::make_srq},
      {6, &Walk::open_xrcd},    {6, &Walk::make_xrc_srq}, {6, &Walk::make_xrc_target},
      {5, &Walk::open_target},  {4, &Walk::make_ah},      {5, &Walk::attach},
      {2, &Walk::detach},       {20, &Walk::connect},     {24, &Walk::traffic},
      {5, &Walk::notify},       {6, &Walk::poll},         {4, &Walk::change_srq},
      {5, &Walk::query},        {2, &Walk::to_error},     {2, &Walk::take_async_event},
      {1, &Walk::fork_holder},  {12, &Walk::destroy},     {1, &Walk::open_device},
      {1, &Walk::close_device}, {9, &Walk::make_mw},      {14, &Walk::bind_mw},
      {5, &Walk::make_dm},      {6, &Walk::make_dm_mr},   {5, &Walk::rereg_mr},
  };
  std::uint32_t total = 0;
  for (const Weighted& w : kOperations) total += w.weight;
  std::uint32_t choice = random_.below(total);
  for (const Weighted& w : kOperations) {
    if (choice < w.weight) {
      if (w.operation != &Walk::open_device || contexts_.size() < 3) (this->*w.operation)();
      return;
    }
    choice -= w.weight;
  }
}

void Walk::run() {
  for (;;) {
    if (contexts_.empty()) open_device();
    one_operation();
  }
}

}  // namespace guest::killer
