// SPDX-License-Identifier: GPL-2.0-or-later
// What a walk does with its objects: state changes, requests, completions.
#include "walk.h"

namespace guest {

int Walk::connect_one(Queue& queue, std::uint32_t peer) {
  Connection how = options_.how;
  how.mtu = IBV_MTU_1024;
  how.qp_access = queue.qp->qp_type == IBV_QPT_UC ? +IBV_ACCESS_REMOTE_WRITE : kRemoteAccess;
  int err = to_init(queue.qp, how);
  called("ibv_modify_qp to INIT");
  if (err != 0) return err;
  err = to_rtr(queue.qp, gid_index_, how, {.qpn = peer, .gid = gid_});
  called("ibv_modify_qp to RTR");
  if (err != 0) return err;
  if (queue.qp->qp_type != IBV_QPT_XRC_RECV) {
    err = to_rts(queue.qp, how, 0);
    called("ibv_modify_qp to RTS");
  }
  if (err != 0) return err;
  queue.connected = true;
  reached(kConnected);
  return 0;
}

// Connects a QP to another one of its type; XRC also to a target of another process. Connects it to
// itself if there is none.
int Walk::connect_qp() {
  const auto is_free = [](const Queue& q) { return !q.connected && !q.extended; };
  Queue* const queue = fitting(qps_, is_free);
  if (queue == nullptr) return kNothing;
  const ibv_qp_type type = queue->qp->qp_type;
  const bool xrc = type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
  const ibv_qp_type other = type == IBV_QPT_XRC_SEND   ? IBV_QPT_XRC_RECV
                            : type == IBV_QPT_XRC_RECV ? IBV_QPT_XRC_SEND
                                                       : type;
  Queue* const peer =
      fitting(qps_, [&](const Queue& q) { return is_free(q) && q.qp->qp_type == other; });
  const std::uint32_t shared = xrc ? shared_.target_qpn.load() : 0;
  const std::uint32_t own = queue->qp->qp_num;
  const bool datagrams = type == IBV_QPT_UD || type == IBV_QPT_RAW_PACKET;
  if (const int err = connect_one(*queue, peer != nullptr ? peer->qp->qp_num
                                          : shared != 0   ? shared
                                                          : own)) {
    return err;
  }
  if (peer == nullptr || peer == queue || datagrams) return 0;
  return connect_one(*peer, own);
}

// ib_core treats the same group under two LIDs as two attachments; to the device they are one.
int Walk::mcast() {
  Queue* const queue =
      fitting(qps_, [](const Queue& q) { return q.qp->qp_type == IBV_QPT_UD && !q.extended; });
  const ibv_gid gid = group(random_.below(3));
  const auto lid = static_cast<std::uint16_t>(0xc000 + random_.below(2));
  const bool leaves = random_.one_in(3);
  if (queue == nullptr) return kNothing;
  const int err =
      leaves ? ibv_detach_mcast(queue->qp, &gid, lid) : ibv_attach_mcast(queue->qp, &gid, lid);
  if (err == 0 && !leaves) ++queue->groups;
  if (err == 0 && leaves && queue->groups > 0) --queue->groups;
  if (err == 0 && !leaves) reached(kMcast);
  called(leaves ? "ibv_detach_mcast" : "ibv_attach_mcast");
  return err;
}

int Walk::query() {
  Queue* const queue = any(qps_);
  SharedQueue* const srq = any(srqs_);
  const std::uint32_t what = random_.below(4);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ibv_srq_attr srq_attr{};
  ibv_device_attr_ex device{};
  ibv_port_attr port{};
  int err = kNothing;
  if (what == 0) err = ibv_query_device_ex(device_, nullptr, &device);
  if (what == 1) err = ibv_query_port(device_, 1, &port);
  if (what == 2 && queue != nullptr) err = ibv_query_qp(queue->qp, &attr, 0xffff, &init);
  if (what == 3 && srq != nullptr) err = ibv_query_srq(srq->srq, &srq_attr);
  if (err == kNothing) return err;
  if (err == 0) reached(kQuery);
  called("ibv_query");
  return err;
}

int Walk::resize() {
  Completions* const cq = any(cqs_);
  SharedQueue* const srq = any(srqs_);
  const bool of_cq = random_.one_in(2);
  const std::uint32_t size = 1 + random_.below(300);
  int err = kNothing;
  if (of_cq && cq != nullptr && !cq->scribbled) err = ibv_resize_cq(cq->cq, static_cast<int>(size));
  if (!of_cq && srq != nullptr) {
    ibv_srq_attr attr{.max_wr = size, .max_sge = 1, .srq_limit = size / 2};
    err = ibv_modify_srq(srq->srq, &attr, size % 2 == 0 ? +IBV_SRQ_LIMIT : +IBV_SRQ_MAX_WR);
  }
  if (err == kNothing) return err;
  if (err == 0) reached(kResize);
  called(of_cq ? "ibv_resize_cq" : "ibv_modify_srq");
  return err;
}

// Changes the memory to a part of the same, or to other memory.
int Walk::rereg() {
  Region* const region = fitting(mrs_, [](const Region& r) { return r.dm == nullptr; });
  ibv_pd** const pd = any(pds_);
  const int flags = static_cast<int>(odd(8) ? 0 : 1 + random_.below(7));
  const bool bindable = !random_.one_in(3);
  const int access =
      static_cast<int>(odd(2) ? random_.below(256) : 0xfU | (bindable ? +IBV_ACCESS_MW_BIND : 0U));
  const bool leaves = random_.one_in(2);
  const std::size_t part = 1 + random_.below(kPage);
  const std::size_t whole = kPage << random_.below(10);
  if (region == nullptr || pd == nullptr) return kNothing;
  void* memory = region->memory;
  const bool moves = leaves || memory == nullptr;
  if (moves) {
    memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return ENOMEM;
  }
  errno = 0;
  const int err = ibv_rereg_mr(region->mr, flags, *pd, memory, moves ? whole : part, access);
  if (err == 0) {
    if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0) {
      region->bindable = (access & IBV_ACCESS_MW_BIND) != 0;
    }
    reached(kRereg);
  } else {
    refused(kRereg, errno);
  }
  const bool taken = err == 0 && (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  if (moves && taken) {
    if (region->memory != nullptr) munmap(region->memory, region->length);
    region->memory = memory;
    region->length = whole;
  } else if (moves) {
    munmap(memory, whole);
  }
  called("ibv_rereg_mr");
  return err == 0 ? 0 : EINVAL;
}

int Walk::post_receives(const Queue& queue, const ibv_mr& mr) {
  ibv_sge sge{.addr = reinterpret_cast<std::uint64_t>(mr.addr),
              .length = static_cast<std::uint32_t>(mr.length),
              .lkey = mr.lkey};
  int err = 0;
  for (std::uint32_t i = 0; i < 8 && err == 0; ++i) {
    if (queue.qp->srq != nullptr) {
      const auto srq = std::ranges::find(srqs_, queue.qp->srq, &SharedQueue::srq);
      err = srq == srqs_.end() ? ENOENT : post_srq_recv(srq->srq, i, sge);
    } else if (queue.qp->qp_type != IBV_QPT_XRC_SEND) {
      err = post_recv(queue.qp, i, sge);
    }
  }
  for (const SharedQueue& srq : srqs_) {
    if (srq.xrcd != nullptr && queue.qp->qp_type == IBV_QPT_XRC_SEND) {
      err = post_srq_recv(srq.srq, 0, sge);
    }
  }
  called("ibv_post_recv");
  return err;
}

// Completes a send request. Returns false if there is nothing to send it with.
bool Walk::set_request(const Queue& queue, ibv_send_wr& wr, ibv_sge& sge, const ibv_mr& remote) {
  const ibv_qp_type type = queue.qp->qp_type;
  const bool reads = type == IBV_QPT_RC && random_.one_in(2);
  const bool plain = random_.one_in(3);
  const std::uint32_t wild = random_.below(12);
  const std::uint64_t skew = odd(8) ? random_.next() >> random_.below(64) : 0;
  const auto address = reinterpret_cast<std::uint64_t>(remote.addr);
  ibv_ah** const ah = any(ahs_);
  wr.opcode = plain ? IBV_WR_SEND : reads ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
  if (odd(2)) wr.opcode = static_cast<ibv_wr_opcode>(wild);
  if (wr.opcode == IBV_WR_BIND_MW || wr.opcode == IBV_WR_TSO) wr.opcode = IBV_WR_SEND;
  sge.addr += skew;
  if (type == IBV_QPT_UD) {
    if (ah == nullptr) return false;
    if (!options_.wild) wr.opcode = IBV_WR_SEND;
    sge.length = std::min(sge.length, 1024U);
    wr.wr.ud = {.ah = *ah,
                .remote_qpn = random_.one_in(2) ? 0xffffff : queue.qp->qp_num,
                .remote_qkey = kQkey};
  } else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    sge.length = 8;
    wr.wr.atomic = {.remote_addr = address, .compare_add = 1, .swap = 2, .rkey = remote.rkey};
  } else {
    wr.wr.rdma = {.remote_addr = address + skew, .rkey = remote.rkey};
  }
  if (type == IBV_QPT_XRC_SEND) wr.qp_type.xrc.remote_srqn = odd(4) ? wild : shared_.srqn.load();
  return true;
}

int Walk::post_sends(const Queue& queue, const ibv_mr& mr) {
  Region* const other = any(mrs_);
  int err = 0;
  for (std::uint32_t i = 0; i < 8 && err == 0; ++i) {
    ibv_sge sge{
        .addr = reinterpret_cast<std::uint64_t>(mr.addr),
        .length = options_.wild ? random_.below(8192) : static_cast<std::uint32_t>(mr.length),
        .lkey = mr.lkey};
    ibv_send_wr* bad = nullptr;
    ibv_send_wr wr{};
    wr.wr_id = i;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = random_.one_in(2) ? +IBV_SEND_SIGNALED : 0U;
    // The library would read what an inline request refers to.
    if (odd(2)) wr.send_flags = random_.below(16) & ~unsigned{IBV_SEND_INLINE};
    if (!set_request(queue, wr, sge, odd(3) ? *other->mr : mr)) return kNothing;
    err = ibv_post_send(queue.qp, &wr, &bad);
    if (err == 0) reached(kPosted);
  }
  called("ibv_post_send");
  return err;
}

int Walk::traffic() {
  const Queue* const queue = fitting(qps_, [](const Queue& q) {
    return q.connected && !q.scribbled && !q.extended && q.qp->qp_type != IBV_QPT_XRC_RECV;
  });
  if (queue == nullptr) return kNothing;
  const ibv_pd* const pd = queue->qp->pd;
  Region* const own = fitting(mrs_, [&](const Region& r) { return r.mr->pd == pd; });
  Region* const any_one = any(mrs_);
  const Region* const region = own == nullptr || odd(8) ? any_one : own;
  if (region == nullptr || (own == nullptr && !options_.wild)) return kNothing;
  post_receives(*queue, *region->mr);
  return post_sends(*queue, *region->mr);
}

int Walk::poll() {
  ibv_wc wc[16];
  for (const Completions& completions : cqs_) {
    const int n = completions.scribbled ? 0 : ibv_poll_cq(completions.cq, 16, wc);
    for (int i = 0; i < n; ++i) reached(kCompleted);
  }
  if (!cqs_.empty()) called("ibv_poll_cq");
  return 0;
}

// Binds the window. A type 2 window that is bound is invalidated instead, since only a free one can
// be bound.
int Walk::post_bind(const Queue& queue, Window& window, const Region& region) {
  ibv_mw* const mw = window.mw;
  const ibv_mw_bind_info info = {
      .mr = region.mr,
      .addr = reinterpret_cast<std::uint64_t>(region.mr->addr),  // 0 in device memory
      .length = odd(2) ? random_.below(kPage) : region.mr->length,
      .mw_access_flags = kRemoteAccess};
  if (mw->type == IBV_MW_TYPE_1) {
    ibv_mw_bind bind{};
    bind.bind_info = info;
    bind.send_flags = random_.one_in(2) ? +IBV_SEND_SIGNALED : 0U;
    const int err = ibv_bind_mw(queue.qp, mw, &bind);
    window.bound |= err == 0;
    return err;
  }
  ibv_send_wr* bad = nullptr;
  ibv_send_wr wr{};
  if (window.bound) {
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.invalidate_rkey = mw->rkey;
    const int err = ibv_post_send(queue.qp, &wr, &bad);
    window.bound = err != 0;
    return err;
  }
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw = {.mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = info};
  const int err = ibv_post_send(queue.qp, &wr, &bad);
  if (err != 0) return err;
  mw->rkey = wr.bind_mw.rkey;
  window.bound = true;
  return 0;
}

// One in eight ignores whether the region allows binds: such a bind can fail, and the QP with it.
int Walk::bind_mw() {
  Window* const window = any(mws_);
  const bool blind = random_.one_in(8);
  if (window == nullptr) return kNothing;
  const ibv_pd* const pd = window->mw->pd;
  const Region* const region =
      fitting(mrs_, [&](const Region& r) { return r.mr->pd == pd && (blind || r.bindable); });
  const Queue* const queue = fitting(qps_, [&](const Queue& q) {
    return q.connected && !q.scribbled && !q.extended && q.qp->pd == pd &&
           q.qp->qp_type != IBV_QPT_UD;
  });
  if (region == nullptr || queue == nullptr) return kNothing;
  const int err = post_bind(*queue, *window, *region);
  called("ibv_bind_mw");
  return err;
}

}  // namespace guest
