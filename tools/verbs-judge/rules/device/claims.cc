// SPDX-License-Identifier: GPL-2.0-or-later
// What a device claims can be created, and what it does not claim is refused.
#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "device.h"
#include "loop.h"

namespace guest::device {
namespace {

// Judges the creation of what a device claims or not. A device that does more than it claims
// breaks no rule.
void as_claimed(bool claimed, int err, const char* what) {
  if (claimed) {
    require(err == 0, "{}, which the device claims: {}", what, errno_name(err));
  } else {
    usually_refused(err, EOPNOTSUPP, what);
  }
}

template <typename T>
int error_of(const Owner<T>& object) {
  return object ? 0 : errno;
}

void windows(const Env& env) {
  const std::uint32_t flags = env.dev.attr().device_cap_flags;
  constexpr std::uint32_t kTwo = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  require((flags & kTwo) != kTwo, "windows of type 2A and 2B at once");
  const MwPtr one(ibv_alloc_mw(env.dev.pd(), IBV_MW_TYPE_1));
  as_claimed((flags & IBV_DEVICE_MEM_WINDOW) != 0, error_of(one), "a window of type 1");
  const MwPtr two(ibv_alloc_mw(env.dev.pd(), IBV_MW_TYPE_2));
  as_claimed((flags & kTwo) != 0, error_of(two), "a window of type 2");
}

void device_memory(const Env& env) {
  const DmPtr dm = try_alloc_dm(env.dev.context(), 64);
  as_claimed(env.dev.attr_ex().max_dm_size >= 64, error_of(dm), "device memory");
}

void xrc(const Env& env) {
  ibv_xrcd_init_attr attr{};
  attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  attr.fd = -1;
  attr.oflags = O_CREAT;
  const XrcdPtr xrcd(ibv_open_xrcd(env.dev.context(), &attr));
  const bool claimed = (env.dev.attr().device_cap_flags & IBV_DEVICE_XRC) != 0;
  as_claimed(claimed, error_of(xrcd), "an XRC domain");
  if (!claimed) {
    const CqPtr cq = create_cq(env.dev, 4);
    QpSpec spec{.type = IBV_QPT_XRC_SEND, .send_cq = cq.get(), .cap = capacity(4, 0)};
    const QpPtr qp = try_create_qp(env.dev, spec);
    as_claimed(false, error_of(qp), "a QP of XRC");
  }
}

void paging(const Env& env) {
  const std::uint64_t caps = env.dev.attr_ex().odp_caps.general_caps;
  const Map map(4096);
  const MrPtr mr = try_reg(env.dev.pd(), map.at(), map.length(), IBV_ACCESS_ON_DEMAND);
  as_claimed((caps & IBV_ODP_SUPPORT) != 0, error_of(mr), "memory on demand");
  const MrPtr all = try_reg(env.dev.pd(), nullptr, SIZE_MAX, IBV_ACCESS_ON_DEMAND);
  as_claimed((caps & IBV_ODP_SUPPORT_IMPLICIT) != 0, error_of(all), "all memory on demand");
  if ((caps & IBV_ODP_SUPPORT) == 0) {
    const MrPtr pinned = reg(env.dev, map, IBV_ACCESS_LOCAL_WRITE);
    ibv_sge range = sge(pinned.get(), map.address(), 8);
    as_claimed(false,
               ibv_advise_mr(env.dev.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
                             &range, 1),
               "advice for memory on demand");
  }
}

void flush(const Env& env) {
  const std::uint64_t flags = env.dev.attr_ex().device_cap_flags_ex;
  const Map map(4096);
  struct Right {
    std::uint64_t claim;
    int access;
    const char* what;
  };
  const Right rights[] = {
      {IB_UVERBS_DEVICE_FLUSH_GLOBAL, IBV_ACCESS_FLUSH_GLOBAL, "a region with FLUSH_GLOBAL"},
      {IB_UVERBS_DEVICE_FLUSH_PERSISTENT, IBV_ACCESS_FLUSH_PERSISTENT,
       "a region with FLUSH_PERSISTENT"}};
  for (const Right& r : rights) {
    // Persistent memory is a matter of the memory, too.
    const bool persistent = r.access == IBV_ACCESS_FLUSH_PERSISTENT;
    const MrPtr mr = try_reg(env.dev.pd(), map.at(), map.length(), kAllAccess | r.access);
    if (persistent && (flags & r.claim) != 0) continue;
    as_claimed((flags & r.claim) != 0, error_of(mr), r.what);
  }
  if (env.dev.apis().size() == 1) return;
  const CqPtr cq = create_cq(env.dev, 4);
  struct Operation {
    std::uint64_t claim;
    std::uint64_t op;
  };
  for (const Operation& o :
       {Operation{IB_UVERBS_DEVICE_FLUSH_GLOBAL, IBV_QP_EX_WITH_FLUSH},
        Operation{IB_UVERBS_DEVICE_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE}}) {
    QpSpec spec{.send_cq = cq.get(), .recv_cq = cq.get(), .send_ops = kRcSendOps | o.op};
    const QpPtr qp = try_create_qp(env.dev, spec);
    as_claimed((flags & o.claim) != 0, error_of(qp), "a QP that flushes or writes words");
  }
}

void srqs(const Env& env) {
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  const SrqPtr srq(ibv_create_srq(env.dev.pd(), &attr));
  as_claimed(env.dev.attr().max_srq > 0, error_of(srq), "an SRQ");
}

void tag_matching(const Env& env) {
  const ibv_tm_caps& caps = env.dev.attr_ex().tm_caps;
  const CqPtr cq = create_cq(env.dev, 16);
  ibv_srq_init_attr_ex attr{};
  attr.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  attr.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
  attr.srq_type = IBV_SRQT_TM;
  attr.pd = env.dev.pd();
  attr.cq = cq.get();
  attr.tm_cap = {.max_num_tags = std::min(caps.max_num_tags, 4U),
                 .max_ops = std::min(caps.max_ops, 4U)};
  if (caps.max_num_tags == 0) attr.tm_cap = {.max_num_tags = 4, .max_ops = 4};
  const SrqPtr srq(ibv_create_srq_ex(env.dev.context(), &attr));
  as_claimed(caps.max_num_tags != 0, error_of(srq), "an SRQ that matches tags");
}

// Only a device with IBV_DEVICE_MANAGED_FLOW_STEERING promises flows.
void flows(const Env& env) {
  if ((env.dev.attr().device_cap_flags & IBV_DEVICE_MANAGED_FLOW_STEERING) != 0) return;
  const CqPtr cq = create_cq(env.dev, 16);
  QpSpec spec{.type = IBV_QPT_UD, .send_cq = cq.get(), .recv_cq = cq.get()};
  const QpPtr qp = create_qp(env.dev, spec);
  connect_to_itself(qp.get(), env.dev);
  struct {
    ibv_flow_attr attr;
    ibv_flow_spec_eth eth;
  } rule{};
  rule.attr = {.comp_mask = 0,
               .type = IBV_FLOW_ATTR_NORMAL,
               .size = sizeof(rule),
               .priority = 0,
               .num_of_specs = 1,
               .port = 1,
               .flags = 0};
  rule.eth.type = IBV_FLOW_SPEC_ETH;
  rule.eth.size = sizeof(rule.eth);
  const Owner<ibv_flow> flow(ibv_create_flow(qp.get(), &rule.attr));
  as_claimed(false, error_of(flow), "a flow");
}

void receive_scaling(const Env& env) {
  const ibv_rss_caps& caps = env.dev.attr_ex().rss_caps;
  if (caps.supported_qpts != 0) {
    require(caps.max_rwq_indirection_tables != 0 && caps.max_rwq_indirection_table_size != 0 &&
                caps.rx_hash_function != 0 && caps.rx_hash_fields_mask != 0,
            "QPs of types {:#x} scale, with {} tables of {} queues", caps.supported_qpts,
            caps.max_rwq_indirection_tables, caps.max_rwq_indirection_table_size);
    return;
  }
  const CqPtr cq = create_cq(env.dev, 16);
  ibv_wq_init_attr attr{};
  attr.wq_type = IBV_WQT_RQ;
  attr.max_wr = 1;
  attr.max_sge = 1;
  attr.pd = env.dev.pd();
  attr.cq = cq.get();
  const Owner<ibv_wq> wq(ibv_create_wq(env.dev.context(), &attr));
  as_claimed(false, error_of(wq), "a receive work queue");
}

void multicast(const Env& env) {
  if (env.dev.attr().max_mcast_grp > 0) {
    require(env.dev.attr().max_mcast_qp_attach > 0, "groups without members");
    return;
  }
  const CqPtr cq = create_cq(env.dev, 16);
  QpSpec spec{.type = IBV_QPT_UD, .send_cq = cq.get(), .recv_cq = cq.get()};
  const QpPtr qp = create_qp(env.dev, spec);
  connect_to_itself(qp.get(), env.dev);
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[1] = 0x0e;
  group.raw[15] = 0x77;
  const int err = ibv_attach_mcast(qp.get(), &group, 0);
  as_claimed(false, err, "a member of a multicast group");
  if (err == 0) require_err(ibv_detach_mcast(qp.get(), &group, 0), 0, "ibv_detach_mcast");
}

// No capability stands for the other types of QPs: they are there or refused.
void qp_types(const Env& env) {
  const CqPtr cq = create_cq(env.dev, 16);
  for (const int type : {0, 5, 6, 7, 0x7f, 0x1000}) {
    QpSpec spec{.type = static_cast<ibv_qp_type>(type), .send_cq = cq.get(), .recv_cq = cq.get()};
    const QpPtr qp = try_create_qp(env.dev, spec);
    require(qp == nullptr, "a QP of the type {}, which there is not", type);
  }
  QpSpec spec{.type = IBV_QPT_RAW_PACKET, .send_cq = cq.get(), .recv_cq = cq.get()};
  const QpPtr raw = try_create_qp(env.dev, spec);
  require(!raw || (raw->qp_type == IBV_QPT_RAW_PACKET && raw->state == IBV_QPS_RESET),
          "another QP than one of raw packets");
}

void timestamps(const Env& env) {
  const ibv_device_attr_ex& a = env.dev.attr_ex();
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 16;
  attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  ibv_cq_ex* const cq_ex = ibv_create_cq_ex(env.dev.context(), &attr);
  const int err = errno;
  const CqPtr cq(cq_ex != nullptr ? ibv_cq_ex_to_cq(cq_ex) : nullptr);
  as_claimed(a.completion_timestamp_mask != 0, cq ? 0 : err, "a CQ with timestamps");
}

}  // namespace

Rules claims() {
  return {
      {"claims-windows", "windows can be allocated as claimed", windows, "ibv_alloc_mw(3)"},
      {"claims-device-memory", "device memory can be allocated if max_dm_size says so",
       device_memory, "ibv_alloc_dm(3)"},
      {"claims-xrc", "XRC domains can be opened as claimed", xrc, "ibv_open_xrcd(3)"},
      {"claims-paging", "memory can be registered on demand as claimed", paging, "ibv_reg_mr(3)"},
      {"claims-flush", "rights to flush and ATOMIC_WRITE are there as claimed", flush,
       "ibv_reg_mr(3)"},
      {"claims-srq", "SRQs can be created if max_srq says so", srqs, "ibv_create_srq(3)"},
      {"claims-tags", "SRQs match tags as claimed", tag_matching, "ibv_create_srq_ex(3)"},
      {"claims-flows", "without IBV_DEVICE_MANAGED_FLOW_STEERING flows are refused", flows,
       "ibv_create_flow(3)"},
      {"claims-scaling", "without rss_caps receive work queues are refused", receive_scaling,
       "ibv_create_wq(3)"},
      {"claims-multicast", "without max_mcast_grp no QP joins a group", multicast,
       "ibv_attach_mcast(3)"},
      {"claims-timestamps", "CQs have timestamps as claimed", timestamps, "ibv_create_cq_ex(3)"},
      {"qp-types", "a QP of a type that there is not is refused", qp_types, "ibv_create_qp(3)"},
  };
}

}  // namespace guest::device
