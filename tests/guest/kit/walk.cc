// SPDX-License-Identifier: GPL-2.0-or-later
// Objects of a walk.
#include "walk.h"

#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>

#include <array>

namespace guest {
namespace {

ibv_srq_attr srq_attr(Random& random) {
  return {.max_wr = 1 + random.below(128), .max_sge = 1 + random.below(4), .srq_limit = 0};
}

}  // namespace

Walk::Walk(ibv_context* device, WalkShared& shared, const WalkOptions& options)
    : device_(device), shared_(shared), options_(options), random_(options.seed) {
  if (const auto entry = ipv4_gid(device)) {
    gid_ = entry->gid;
    gid_index_ = static_cast<std::uint8_t>(entry->gid_index);
  }
}

ibv_gid Walk::group(std::uint32_t n) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 239;
  gid.raw[13] = gid.raw[14] = 1;
  gid.raw[15] = static_cast<std::uint8_t>(n);
  return gid;
}

std::size_t Walk::queues(ibv_qp_type type, bool opened) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      qps_, [=](const Queue& q) { return q.qp->qp_type == type && q.extended == opened; }));
}

int Walk::make_pd() {
  if (pds_.size() >= 4) return kNothing;
  return keep(pds_, ibv_alloc_pd(device_), "ibv_alloc_pd", kPd, UVERBS_OBJECT_PD);
}

int Walk::make_mr() {
  ibv_pd** const pd = any(pds_);
  const std::size_t length = kPage << random_.below(10);
  const std::size_t offset = random_.one_in(2) ? 0 : random_.below(kPage);
  const bool on_demand = random_.one_in(4);
  unsigned access = 0xfU | (random_.one_in(3) ? 0U : +IBV_ACCESS_MW_BIND);
  if (odd(4)) access = random_.below(512);
  const bool unmaps = random_.one_in(4);
  if (pd == nullptr || mrs_.size() >= kMany) return kNothing;
  void* const memory =
      mmap(nullptr, length + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ENOMEM;
  ibv_mr* const mr = ibv_reg_mr(*pd, static_cast<char*>(memory) + offset, length,
                                access | (on_demand ? +IBV_ACCESS_ON_DEMAND : 0U));
  // The pages stay pinned after their mapping is gone.
  const bool unmapped = mr == nullptr || unmaps;
  if (unmapped) munmap(memory, length + kPage);
  const Region region{mr, unmapped ? nullptr : memory, length + kPage,
                      (access & IBV_ACCESS_MW_BIND) != 0};
  return keep(mrs_, region, "ibv_reg_mr", on_demand ? kOdpMr : kMr, UVERBS_OBJECT_MR);
}

int Walk::make_dm() {
  ibv_alloc_dm_attr attr{};
  attr.length = 4 * (1 + random_.below(8192));
  attr.log_align_req = odd(8) ? random_.below(64) : random_.below(16);
  if (dms_.size() >= 4) return kNothing;
  ibv_dm* const dm = ibv_alloc_dm(device_, &attr);
  if (dm != nullptr) {
    const std::array<std::uint32_t, 1> word = {0xfeedface};
    ibv_memcpy_to_dm(dm, 4 * random_.below(attr.length / 4), word.data(), sizeof(word));
  }
  return keep(dms_, dm, "ibv_alloc_dm", kDm, UVERBS_OBJECT_DM);
}

// May exceed the allocation: the device refuses such a region.
int Walk::make_dm_mr() {
  ibv_pd** const pd = any(pds_);
  ibv_dm** const dm = any(dms_);
  const std::uint64_t offset = random_.one_in(2) ? 0 : random_.below(kPage);
  const std::size_t length = 1 + random_.below(kPage);
  const bool bindable = random_.one_in(2);
  if (pd == nullptr || dm == nullptr || mrs_.size() >= kMany) return kNothing;
  const unsigned access = 0xf | IBV_ACCESS_ZERO_BASED | (bindable ? +IBV_ACCESS_MW_BIND : 0U);
  ibv_mr* const mr = ibv_reg_dm_mr(*pd, *dm, offset, length, access);
  return keep(mrs_, Region{mr, nullptr, length, bindable, *dm}, "ibv_reg_dm_mr", kDmMr,
              UVERBS_OBJECT_MR);
}

int Walk::make_channel() {
  if (channels_.size() >= 3) return kNothing;
  ibv_comp_channel* const channel = ibv_create_comp_channel(device_);
  // Reads must not block on an event that may never come.
  if (channel != nullptr) fcntl(channel->fd, F_SETFL, O_NONBLOCK);
  return keep(channels_, channel, "ibv_create_comp_channel", kChannel, 0);
}

int Walk::make_cq() {
  ibv_comp_channel** const channel = any(channels_);
  const bool extended = random_.one_in(4);
  const std::uint32_t entries = 1 + random_.below(odd(8) ? 100000 : 1024);
  const bool arms = random_.one_in(2);
  const std::uint32_t vector = random_.below(static_cast<std::size_t>(device_->num_comp_vectors));
  if (cqs_.size() >= 12) return kNothing;
  ibv_comp_channel* const events = channel == nullptr ? nullptr : *channel;
  ibv_cq* cq = nullptr;
  if (extended) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = entries;
    attr.channel = events;
    attr.comp_vector = vector;
    attr.wc_flags = IBV_WC_STANDARD_FLAGS;
    ibv_cq_ex* const made = ibv_create_cq_ex(device_, &attr);
    cq = made == nullptr ? nullptr : ibv_cq_ex_to_cq(made);
  } else {
    cq = ibv_create_cq(device_, static_cast<int>(entries), nullptr, events,
                       static_cast<int>(vector));
  }
  if (cq != nullptr && arms && events != nullptr) ibv_req_notify_cq(cq, 0);
  return keep(cqs_, Completions{cq}, "ibv_create_cq", kCq, UVERBS_OBJECT_CQ);
}

int Walk::make_srq() {
  ibv_pd** const pd = any(pds_);
  ibv_srq_init_attr attr{};
  attr.attr = srq_attr(random_);
  if (pd == nullptr || srqs_.size() >= 6) return kNothing;
  return keep(srqs_, SharedQueue{ibv_create_srq(*pd, &attr)}, "ibv_create_srq", kSrq,
              UVERBS_OBJECT_SRQ);
}

int Walk::make_xrc_srq() {
  ibv_pd** const pd = any(pds_);
  ibv_xrcd** const xrcd = any(xrcds_);
  Completions* const cq = any(cqs_);
  ibv_srq_init_attr_ex attr{};
  attr.attr = srq_attr(random_);
  if (pd == nullptr || xrcd == nullptr || cq == nullptr || srqs_.size() >= 6) return kNothing;
  attr.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  attr.srq_type = IBV_SRQT_XRC;
  attr.pd = *pd;
  attr.xrcd = *xrcd;
  attr.cq = cq->cq;
  ibv_srq* const srq = ibv_create_srq_ex(device_, &attr);
  std::uint32_t srqn = 0;
  if (srq != nullptr && ibv_get_srq_num(srq, &srqn) == 0) shared_.srqn = srqn;
  return keep(srqs_, SharedQueue{srq, cq->cq, *xrcd}, "ibv_create_srq_ex", kXrcSrq,
              UVERBS_OBJECT_SRQ);
}

// A domain of the process's own, or the one that all processes share by a file.
int Walk::make_xrcd() {
  const bool own = random_.one_in(4);
  if (xrcds_.size() >= 3) return kNothing;
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = own ? -1 : options_.xrcd_fd;
  attr.oflags = O_CREAT;
  return keep(xrcds_, ibv_open_xrcd(device_, &attr), "ibv_open_xrcd", kXrcd, 0);
}

// Without CQs where there are none.
ibv_qp_init_attr_ex Walk::qp_attr(ibv_qp_type type) {
  ibv_pd** const pd = any(pds_);
  Completions* const send_cq = any(cqs_);
  Completions* const recv_cq = any(cqs_);
  SharedQueue* const srq = any(srqs_);
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = type;
  attr.cap = {.max_send_wr = 1 + random_.below(64),
              .max_recv_wr = 1 + random_.below(64),
              .max_send_sge = 1 + random_.below(4),
              .max_recv_sge = 1 + random_.below(4),
              .max_inline_data = random_.below(options_.wild ? 256 : 128)};
  attr.sq_sig_all = static_cast<int>(random_.below(2));
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = pd == nullptr ? nullptr : *pd;
  attr.send_cq = send_cq == nullptr ? nullptr : send_cq->cq;
  attr.recv_cq = recv_cq == nullptr ? nullptr : recv_cq->cq;
  const bool shares = random_.one_in(2) && srq != nullptr && (srq->xrcd == nullptr || odd(4));
  if (shares && type != IBV_QPT_RAW_PACKET && type != IBV_QPT_XRC_SEND) attr.srq = srq->srq;
  return attr;
}

int Walk::make_qp() {
  static constexpr struct {
    ibv_qp_type type;
    Goal goal;
  } kinds[] = {{IBV_QPT_RC, kRc},
               {IBV_QPT_RC, kRc},
               {IBV_QPT_UC, kUc},
               {IBV_QPT_UD, kUd},
               {IBV_QPT_XRC_SEND, kXrcSend}};
  const auto& kind = kinds[random_.below(std::size(kinds))];
  ibv_qp_init_attr_ex attr = qp_attr(kind.type);
  if (attr.pd == nullptr || attr.send_cq == nullptr || qps_.size() >= kMany) return kNothing;
  return keep(qps_, Queue{ibv_create_qp_ex(device_, &attr)}, "ibv_create_qp", kind.goal,
              UVERBS_OBJECT_QP);
}

int Walk::make_target() {
  ibv_xrcd** const xrcd = any(xrcds_);
  if (xrcd == nullptr || queues(IBV_QPT_XRC_RECV) >= 4) return kNothing;
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attr.xrcd = *xrcd;
  ibv_qp* const qp = ibv_create_qp_ex(device_, &attr);
  if (qp != nullptr) shared_.target_qpn = qp->qp_num;
  return keep(qps_, Queue{.qp = qp, .xrcd = *xrcd}, "ibv_create_qp", kXrcTarget, UVERBS_OBJECT_QP);
}

// A target of this process, or of another one.
int Walk::open_target() {
  ibv_xrcd** const xrcd = any(xrcds_);
  Queue* const own = fitting(
      qps_, [](const Queue& q) { return q.qp->qp_type == IBV_QPT_XRC_RECV && !q.extended; });
  const bool other = random_.one_in(2);
  const std::uint32_t shared = shared_.target_qpn;
  if (xrcd == nullptr || queues(IBV_QPT_XRC_RECV, true) >= 4) return kNothing;
  if (own == nullptr && shared == 0) return kNothing;
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = own == nullptr || (other && shared != 0) ? shared : own->qp->qp_num;
  attr.xrcd = *xrcd;
  attr.qp_type = IBV_QPT_XRC_RECV;
  ibv_qp* const qp = ibv_open_qp(device_, &attr);
  return keep(qps_, Queue{.qp = qp, .extended = true, .xrcd = *xrcd}, "ibv_open_qp", kOpenedQp,
              UVERBS_OBJECT_QP);
}

int Walk::make_ah() {
  ibv_pd** const pd = any(pds_);
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = random_.one_in(3) ? group(random_.below(3)) : gid_;
  attr.grh.sgid_index = gid_index_;
  attr.grh.hop_limit = 64;
  if (odd(4)) attr.sl = static_cast<std::uint8_t>(random_.below(256));
  if (odd(8)) attr.grh.sgid_index = static_cast<std::uint8_t>(random_.below(256));
  if (pd == nullptr || ahs_.size() >= 6) return kNothing;
  return keep(ahs_, ibv_create_ah(*pd, &attr), "ibv_create_ah", kAh, UVERBS_OBJECT_AH);
}

int Walk::make_mw() {
  ibv_pd** const pd = any(pds_);
  const ibv_mw_type type = random_.one_in(2) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
  if (pd == nullptr || mws_.size() >= kMany) return kNothing;
  return keep(mws_, Window{ibv_alloc_mw(*pd, type)}, "ibv_alloc_mw", kMw, UVERBS_OBJECT_MW);
}

bool Walk::in_use(const ibv_pd* pd) const {
  const auto of_pd = [&](const auto& element) { return object_of(element)->pd == pd; };
  return std::ranges::any_of(mrs_, of_pd) || std::ranges::any_of(mws_, of_pd) ||
         std::ranges::any_of(ahs_, of_pd) || std::ranges::any_of(srqs_, of_pd) ||
         std::ranges::any_of(qps_, of_pd);
}

bool Walk::in_use(const Completions& completions) const {
  const ibv_cq* const cq = completions.cq;
  return std::ranges::find(srqs_, cq, &SharedQueue::cq) != srqs_.end() ||
         std::ranges::any_of(
             qps_, [&](const Queue& q) { return q.qp->send_cq == cq || q.qp->recv_cq == cq; });
}

bool Walk::in_use(const SharedQueue& queue) const {
  return std::ranges::any_of(qps_, [&](const Queue& q) { return q.qp->srq == queue.srq; });
}

bool Walk::in_use(const ibv_xrcd* xrcd) const {
  return std::ranges::find(srqs_, xrcd, &SharedQueue::xrcd) != srqs_.end() ||
         std::ranges::find(qps_, xrcd, &Queue::xrcd) != qps_.end();
}

bool Walk::in_use(const ibv_dm* dm) const {
  return std::ranges::find(mrs_, dm, &Region::dm) != mrs_.end();
}

// Regions and QPs twice as often as the others. A region with bound windows is busy, and so is
// device memory with regions: both stay.
int Walk::destroy_one() {
  switch (random_.below(12)) {
    case 0:
      return drop(pds_, "ibv_dealloc_pd");
    case 1:
      return drop(dms_, "ibv_free_dm");
    case 2:
      return drop(channels_, "ibv_destroy_comp_channel");
    case 3:
      return drop(cqs_, "ibv_destroy_cq");
    case 4:
      return drop(srqs_, "ibv_destroy_srq");
    case 5:
      return drop(xrcds_, "ibv_close_xrcd");
    case 6:
      return drop(ahs_, "ibv_destroy_ah");
    case 7:
      return drop(mws_, "ibv_dealloc_mw");
    case 8:
    case 9:
      return drop(qps_, "ibv_destroy_qp");
    default:
      return drop(mrs_, "ibv_dereg_mr");
  }
}

}  // namespace guest
