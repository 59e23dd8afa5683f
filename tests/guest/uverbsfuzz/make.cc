// SPDX-License-Identifier: GPL-2.0-or-later
// Objects, through the library.
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "life.h"

namespace guest::uverbsfuzz {
namespace {

constexpr std::size_t kMany = 12;  // objects of a type that a thread keeps
constexpr std::size_t kShared = 16 * kPage;

// A dma-buf of the pages of a memfd, which is mapped at `memory`. Returns a descriptor or -1.
int udmabuf(void*& memory) {
  static const int device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
  const int file = memfd_create("uverbsfuzz", MFD_ALLOW_SEALING | MFD_CLOEXEC);
  if (file < 0) return -1;
  udmabuf_create create{};
  create.memfd = static_cast<__u32>(file);
  create.flags = UDMABUF_FLAGS_CLOEXEC;
  create.size = kShared;
  int buffer = -1;
  if (ftruncate(file, kShared) == 0 && fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0) {
    buffer = ioctl(device, UDMABUF_CREATE, &create);
    memory = mmap(nullptr, kShared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  close(file);
  return buffer;
}

}  // namespace

std::vector<Thread::Op> Thread::making_ops() {
  return {
      {"make-pd", 3, &Thread::make_pd, true},
      {"make-mr", 6, &Thread::make_mr, true},
      {"make-dmabuf-mr", 3, &Thread::make_dmabuf_mr, true},
      {"make-dm", 3, &Thread::make_dm, true},
      {"make-dm-mr", 3, &Thread::make_dm_mr, true},
      {"make-channel", 2, &Thread::make_channel, true},
      {"make-cq", 6, &Thread::make_cq, true},
      {"make-srq", 4, &Thread::make_srq, true},
      {"make-xrc-srq", 3, &Thread::make_xrc_srq, true},
      {"make-xrcd", 3, &Thread::make_xrcd, true},
      {"make-qp", 8, &Thread::make_qp, true},
      {"make-raw-qp", 3, &Thread::make_raw_qp, true},
      {"make-target", 4, &Thread::make_target, true},
      {"open-target", 4, &Thread::open_target, false},
      {"make-ah", 3, &Thread::make_ah, true},
      {"make-mw", 4, &Thread::make_mw, true},
      {"make-wq", 4, &Thread::make_wq, true},
      {"make-table", 3, &Thread::make_table, true},
      {"make-rss-qp", 3, &Thread::make_rss_qp, true},
      {"make-flow", 4, &Thread::make_flow, true},
      {"make-counters", 2, &Thread::make_counters, true},
      {"destroy-one", 26, &Thread::destroy_one, true},
  };
}

int Thread::make_pd() {
  if (pds_.size() >= 4) return kNothing;
  return keep(pds_, ibv_alloc_pd(process_.verbs), kPd, UVERBS_OBJECT_PD);
}

int Thread::make_mr() {
  ibv_pd** const pd = any(pds_);
  const std::size_t length = kPage << random_.below(9);
  const std::size_t offset = random_.one_in(2) ? 0 : random_.below(kPage);
  const bool on_demand = random_.one_in(4);
  const int access =
      static_cast<int>(random_.one_in(4) ? random_.below(512) : 0xfU | random_.below(2) << 4);
  const bool unmaps = random_.one_in(8);
  if (pd == nullptr || mrs_.size() >= kMany) return kNothing;
  void* const memory =
      mmap(nullptr, length + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ENOMEM;
  ibv_mr* const mr =
      ibv_reg_mr(*pd, static_cast<char*>(memory) + offset, length,
                 static_cast<unsigned>(access) | (on_demand ? +IBV_ACCESS_ON_DEMAND : 0U));
  const int err =
      keep(mrs_, Region{mr, memory, length + kPage}, on_demand ? kOdpMr : kMr, UVERBS_OBJECT_MR);
  if (err != 0 || unmaps) munmap(memory, length + kPage);
  if (err == 0 && unmaps) mrs_.back().memory = nullptr;
  return err;
}

// Half of the time the same pages are registered by their address as well.
int Thread::make_dmabuf_mr() {
  ibv_pd** const pd = any(pds_);
  const bool twice = random_.one_in(2);
  if (pd == nullptr || mrs_.size() >= kMany) return kNothing;
  void* memory = MAP_FAILED;
  const int buffer = udmabuf(memory);
  if (buffer < 0 || memory == MAP_FAILED) return EACCES;
  ibv_mr* const mr = ibv_reg_dmabuf_mr(*pd, 0, kShared, 0, buffer, 0xf);
  const int err = keep(mrs_, Region{mr, nullptr, kShared}, kDmabufMr, UVERBS_OBJECT_MR);
  close(buffer);
  ibv_mr* const same = twice ? ibv_reg_mr(*pd, memory, kShared, 0xf) : nullptr;
  if (same == nullptr) {
    munmap(memory, kShared);
  } else {
    mrs_.push_back({same, memory, kShared});
  }
  return err;
}

int Thread::make_dm() {
  ibv_alloc_dm_attr attr{};
  attr.length = 1 + random_.below(4 * kPage);
  attr.log_align_req = random_.one_in(8) ? random_.below(64) : random_.below(13);
  if (dms_.size() >= 4) return kNothing;
  return keep(dms_, ibv_alloc_dm(process_.verbs, &attr), kDm, UVERBS_OBJECT_DM);
}

int Thread::make_dm_mr() {
  ibv_pd** const pd = any(pds_);
  ibv_dm** const dm = any(dms_);
  const std::size_t offset = random_.one_in(2) ? 0 : random_.below(kPage);
  const std::size_t length = 1 + random_.below(kPage);
  if (pd == nullptr || dm == nullptr || mrs_.size() >= kMany) return kNothing;
  ibv_mr* const mr = ibv_reg_dm_mr(*pd, *dm, offset, length, 0xf | IBV_ACCESS_ZERO_BASED);
  return keep(mrs_, Region{mr, nullptr, length}, kDmMr, UVERBS_OBJECT_MR);
}

int Thread::make_channel() {
  if (channels_.size() >= 3) return kNothing;
  ibv_comp_channel* const channel = ibv_create_comp_channel(process_.verbs);
  if (channel == nullptr) return errno;
  fcntl(channel->fd, F_SETFL, O_NONBLOCK);
  channels_.push_back(channel);
  reached(kChannel);
  return 0;
}

int Thread::make_cq() {
  ibv_comp_channel** const channel = any(channels_);
  const bool extended = random_.one_in(4);
  const auto entries = 1 + random_.below(random_.one_in(8) ? 100000 : 200);
  const bool arms = random_.one_in(2);
  if (cqs_.size() >= kMany) return kNothing;
  ibv_cq* cq = nullptr;
  if (extended) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = entries;
    attr.channel = channel == nullptr ? nullptr : *channel;
    attr.wc_flags = IBV_WC_STANDARD_FLAGS;
    ibv_cq_ex* const made = ibv_create_cq_ex(process_.verbs, &attr);
    cq = made == nullptr ? nullptr : ibv_cq_ex_to_cq(made);
  } else {
    cq = ibv_create_cq(process_.verbs, static_cast<int>(entries), nullptr,
                       channel == nullptr ? nullptr : *channel, 0);
  }
  const int err = keep(cqs_, Completions{cq, false}, kCq, UVERBS_OBJECT_CQ);
  if (err == 0 && arms && channel != nullptr) ibv_req_notify_cq(cq, 0);
  return err;
}

int Thread::make_srq() {
  ibv_pd** const pd = any(pds_);
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = 1 + random_.below(64), .max_sge = 1 + random_.below(4), .srq_limit = 0};
  if (pd == nullptr || srqs_.size() >= 4) return kNothing;
  return keep(srqs_, ibv_create_srq(*pd, &attr), kSrq, UVERBS_OBJECT_SRQ);
}

int Thread::make_xrc_srq() {
  ibv_pd** const pd = any(pds_);
  ibv_xrcd** const xrcd = any(xrcds_);
  Completions* const cq = any(cqs_);
  ibv_srq_init_attr_ex attr{};
  attr.attr = {.max_wr = 1 + random_.below(64), .max_sge = 1 + random_.below(4), .srq_limit = 0};
  if (pd == nullptr || xrcd == nullptr || cq == nullptr || srqs_.size() >= 4) return kNothing;
  attr.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  attr.srq_type = IBV_SRQT_XRC;
  attr.pd = *pd;
  attr.xrcd = *xrcd;
  attr.cq = cq->cq;
  return keep(srqs_, ibv_create_srq_ex(process_.verbs, &attr), kXrcSrq, UVERBS_OBJECT_SRQ);
}

// A domain of the process's own, or the one that all processes share by a file.
int Thread::make_xrcd() {
  const bool own = random_.one_in(3);
  if (xrcds_.size() >= 3) return kNothing;
  static const int file = open("/run/uverbsfuzz.xrcd", O_RDONLY | O_CLOEXEC);
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = own ? -1 : file;
  attr.oflags = O_CREAT;
  ibv_xrcd* const xrcd = ibv_open_xrcd(process_.verbs, &attr);
  // The library keeps the handle to itself.
  if (xrcd != nullptr) {
    xrcds_.push_back(xrcd);
    reached(kXrcd);
    return 0;
  }
  return errno;
}

// Without CQs where there are none.
ibv_qp_init_attr_ex Thread::qp_attr(ibv_qp_type type) {
  ibv_pd** const pd = any(pds_);
  Completions* const send_cq = any(cqs_);
  Completions* const recv_cq = any(cqs_);
  ibv_srq** const srq = any(srqs_);
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = type;
  attr.cap = {.max_send_wr = 1 + random_.below(64),
              .max_recv_wr = 1 + random_.below(64),
              .max_send_sge = 1 + random_.below(4),
              .max_recv_sge = 1 + random_.below(4),
              .max_inline_data = random_.below(256)};
  attr.sq_sig_all = static_cast<int>(random_.below(2));
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  attr.pd = pd == nullptr ? nullptr : *pd;
  attr.send_cq = send_cq == nullptr ? nullptr : send_cq->cq;
  attr.recv_cq = recv_cq == nullptr ? nullptr : recv_cq->cq;
  if (random_.one_in(4) && srq != nullptr && type != IBV_QPT_RAW_PACKET) attr.srq = *srq;
  return attr;
}

int Thread::make_qp() {
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
  return keep(qps_, Queue{ibv_create_qp_ex(process_.verbs, &attr)}, kind.goal, UVERBS_OBJECT_QP);
}

int Thread::make_raw_qp() {
  ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RAW_PACKET);
  if (attr.pd == nullptr || attr.send_cq == nullptr || qps_.size() >= kMany) return kNothing;
  return keep(qps_, Queue{ibv_create_qp_ex(process_.verbs, &attr)}, kRaw, UVERBS_OBJECT_QP);
}

int Thread::make_target() {
  ibv_xrcd** const xrcd = any(xrcds_);
  if (xrcd == nullptr || qps_.size() >= kMany) return kNothing;
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  attr.xrcd = *xrcd;
  ibv_qp* const qp = ibv_create_qp_ex(process_.verbs, &attr);
  if (qp != nullptr) process_.tally.target_qpn = qp->qp_num;
  return keep(qps_, Queue{qp}, kXrcTarget, UVERBS_OBJECT_QP);
}

// A target of this process, or of another one.
int Thread::open_target() {
  ibv_xrcd** const xrcd = any(xrcds_);
  Queue* const own = any(qps_);
  const bool shared = random_.one_in(2);
  if (xrcd == nullptr || qps_.size() >= kMany || !process_.may_open()) return kNothing;
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.qp_num = shared || own == nullptr ? process_.tally.target_qpn.load() : own->qp->qp_num;
  attr.xrcd = *xrcd;
  attr.qp_type = IBV_QPT_XRC_RECV;
  return keep(qps_, Queue{ibv_open_qp(process_.verbs, &attr), true}, kOpenedQp, UVERBS_OBJECT_QP);
}

int Thread::make_ah() {
  ibv_pd** const pd = any(pds_);
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = process_.gid;
  attr.grh.sgid_index = process_.gid_index;
  attr.grh.hop_limit = 64;
  if (random_.one_in(4)) attr.sl = static_cast<std::uint8_t>(random_.below(256));
  if (random_.one_in(8)) attr.grh.sgid_index = static_cast<std::uint8_t>(random_.below(256));
  if (pd == nullptr || ahs_.size() >= 4) return kNothing;
  return keep(ahs_, ibv_create_ah(*pd, &attr), kAh, UVERBS_OBJECT_AH);
}

int Thread::make_mw() {
  ibv_pd** const pd = any(pds_);
  const ibv_mw_type type = random_.one_in(2) ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
  if (pd == nullptr || mws_.size() >= kMany) return kNothing;
  return keep(mws_, ibv_alloc_mw(*pd, type), kMw, UVERBS_OBJECT_MW);
}

int Thread::make_wq() {
  ibv_pd** const pd = any(pds_);
  Completions* const cq = any(cqs_);
  ibv_wq_init_attr attr{};
  attr.wq_type = IBV_WQT_RQ;
  attr.max_wr = 1 + random_.below(64);
  attr.max_sge = 1 + random_.below(2);
  if (pd == nullptr || cq == nullptr || wqs_.size() >= 6) return kNothing;
  attr.pd = *pd;
  attr.cq = cq->cq;
  return keep(wqs_, ibv_create_wq(process_.verbs, &attr), kWq, UVERBS_OBJECT_WQ);
}

int Thread::make_table() {
  ibv_wq* queues[4] = {};
  const std::uint32_t log = random_.below(3);
  for (std::uint32_t i = 0; i < 4; ++i) {
    ibv_wq** const wq = any(wqs_);
    if (wq != nullptr) queues[i] = *wq;
  }
  if (queues[0] == nullptr || tables_.size() >= 4) return kNothing;
  ibv_rwq_ind_table_init_attr attr{};
  attr.log_ind_tbl_size = log;
  attr.ind_tbl = queues;
  return keep(tables_, ibv_create_rwq_ind_table(process_.verbs, &attr), kRssTable,
              UVERBS_OBJECT_RWQ_IND_TBL);
}

int Thread::make_rss_qp() {
  ibv_pd** const pd = any(pds_);
  ibv_rwq_ind_table** const table = any(tables_);
  const std::uint64_t fields = random_.below(256);
  if (pd == nullptr || table == nullptr || qps_.size() >= kMany) return kNothing;
  std::uint8_t key[40] = {1, 2, 3};
  ibv_qp_init_attr_ex attr{};
  attr.qp_type = IBV_QPT_RAW_PACKET;
  attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
  attr.pd = *pd;
  attr.rwq_ind_tbl = *table;
  attr.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
                       .rx_hash_key_len = sizeof(key),
                       .rx_hash_key = key,
                       .rx_hash_fields_mask = fields};
  return keep(qps_, Queue{ibv_create_qp_ex(process_.verbs, &attr), true}, kRssQp, UVERBS_OBJECT_QP);
}

int Thread::make_flow() {
  Queue* const queue = any(qps_);
  struct {
    ibv_flow_attr attr;
    ibv_flow_spec_eth eth;
  } flow{};
  flow.attr.type = random_.one_in(4) ? IBV_FLOW_ATTR_SNIFFER : IBV_FLOW_ATTR_NORMAL;
  flow.attr.size = sizeof(flow);
  flow.attr.num_of_specs = 1;
  flow.attr.port = 1;
  flow.attr.priority = static_cast<std::uint16_t>(random_.below(8));
  flow.eth.type = IBV_FLOW_SPEC_ETH;
  flow.eth.size = sizeof(flow.eth);
  flow.eth.val.dst_mac[5] = static_cast<std::uint8_t>(random_.below(256));
  flow.eth.val.dst_mac[0] = 2;
  for (std::uint8_t& byte : flow.eth.mask.dst_mac) byte = 0xff;
  if (queue == nullptr || flows_.size() >= 4) return kNothing;
  if (flow.attr.type == IBV_FLOW_ATTR_SNIFFER) {
    flow.attr.num_of_specs = 0;
    flow.attr.size = sizeof(flow.attr);
  }
  return keep(flows_, ibv_create_flow(queue->qp, &flow.attr), kFlow, UVERBS_OBJECT_FLOW);
}

int Thread::make_counters() {
  ibv_counters_init_attr attr{};
  if (counters_.size() >= 3) return kNothing;
  ibv_counters* const counters = ibv_create_counters(process_.verbs, &attr);
  if (counters == nullptr) return errno;
  counters_.push_back(counters);
  reached(kCounters);
  return 0;
}

int Thread::destroy_one() {
  // Regions and QPs twice as often as the others.
  static constexpr int (Thread::* kDrops[])() = {
      &Thread::drop<&Thread::pds_>,      &Thread::drop<&Thread::mrs_>,
      &Thread::drop<&Thread::mrs_>,      &Thread::drop<&Thread::dms_>,
      &Thread::drop<&Thread::channels_>, &Thread::drop<&Thread::cqs_>,
      &Thread::drop<&Thread::srqs_>,     &Thread::drop<&Thread::xrcds_>,
      &Thread::drop<&Thread::qps_>,      &Thread::drop<&Thread::qps_>,
      &Thread::drop<&Thread::ahs_>,      &Thread::drop<&Thread::mws_>,
      &Thread::drop<&Thread::wqs_>,      &Thread::drop<&Thread::tables_>,
      &Thread::drop<&Thread::flows_>,    &Thread::drop<&Thread::counters_>};
  return (this->*kDrops[random_.below(std::size(kDrops))])();
}

void Thread::destroy_all() {
  const auto each = [](auto&... pools) {
    const auto empty = [](auto& pool) {
      for (const auto& element : pool) destroy(object_of(element));
      pool.clear();
    };
    (empty(pools), ...);
  };
  each(flows_, qps_, tables_, wqs_, srqs_, xrcds_, cqs_, channels_, ahs_, mws_, mrs_, dms_,
       counters_, pds_);
}

}  // namespace guest::uverbsfuzz
