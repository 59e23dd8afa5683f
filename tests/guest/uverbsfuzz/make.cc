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
      {"open-target", 4, &Thread::open_allowed_target, false},
      {"make-ah", 3, &Thread::make_ah, true},
      {"make-mw", 4, &Thread::make_mw, true},
      {"make-wq", 4, &Thread::make_wq, true},
      {"make-table", 3, &Thread::make_table, true},
      {"make-rss-qp", 3, &Thread::make_rss_qp, true},
      {"make-flow", 4, &Thread::make_flow, true},
      {"make-counters", 2, &Thread::make_counters, true},
      {"destroy-one", 26, &Thread::destroy_any, true},
  };
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
  const int err =
      keep(mrs_, Region{mr, nullptr, kShared}, "ibv_reg_dmabuf_mr", kDmabufMr, UVERBS_OBJECT_MR);
  close(buffer);
  ibv_mr* const same = twice ? ibv_reg_mr(*pd, memory, kShared, 0xf) : nullptr;
  if (same == nullptr) {
    munmap(memory, kShared);
  } else {
    mrs_.push_back({same, memory, kShared});
  }
  return err;
}

int Thread::make_raw_qp() {
  ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RAW_PACKET);
  if (attr.pd == nullptr || attr.send_cq == nullptr || qps_.size() >= kMany) return kNothing;
  return keep(qps_, Queue{ibv_create_qp_ex(device_, &attr)}, "ibv_create_qp", kRaw,
              UVERBS_OBJECT_QP);
}

int Thread::open_allowed_target() { return process_.may_open() ? open_target() : kNothing; }

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
  return keep(wqs_, ibv_create_wq(device_, &attr), "ibv_create_wq", kWq, UVERBS_OBJECT_WQ);
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
  ibv_rwq_ind_table* const table = ibv_create_rwq_ind_table(device_, &attr);
  if (table != nullptr) {
    handle(UVERBS_OBJECT_RWQ_IND_TBL, static_cast<std::uint32_t>(table->ind_tbl_handle));
  }
  return keep(tables_, table, "ibv_create_rwq_ind_table", kRssTable, 0);
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
  return keep(qps_, Queue{ibv_create_qp_ex(device_, &attr), true}, "ibv_create_qp", kRssQp,
              UVERBS_OBJECT_QP);
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
  return keep(flows_, ibv_create_flow(queue->qp, &flow.attr), "ibv_create_flow", kFlow,
              UVERBS_OBJECT_FLOW);
}

int Thread::make_counters() {
  ibv_counters_init_attr attr{};
  if (counters_.size() >= 3) return kNothing;
  return keep(counters_, ibv_create_counters(device_, &attr), "ibv_create_counters", kCounters, 0);
}

int Thread::destroy_any() {
  switch (random_.below(16)) {
    case 0:
      return drop(wqs_, "ibv_destroy_wq");
    case 1:
      return drop(tables_, "ibv_destroy_rwq_ind_table");
    case 2:
      return drop(flows_, "ibv_destroy_flow");
    case 3:
      return drop(counters_, "ibv_destroy_counters");
    default:
      return destroy_one();
  }
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
