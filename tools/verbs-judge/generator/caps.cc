// SPDX-License-Identifier: GPL-2.0-or-later
#include "caps.h"

#include "end.h"
#include "space.h"

namespace guest::generator {
namespace {

constexpr std::size_t kLength = 8192;
constexpr int kBindable = kAllAccess | IBV_ACCESS_MW_BIND;

bool has_type(const Device& dev, ibv_qp_type type, std::uint32_t inline_data = 0) {
  const CqPtr cq = create_cq(dev, 4);
  QpSpec spec{.type = type,
              .send_cq = cq.get(),
              .recv_cq = cq.get(),
              .cap = capacity(4, 4, 2, inline_data)};
  return try_create_qp(dev, spec) != nullptr;
}

// Tries binds on a QP that is connected to itself.
class Binder {
 public:
  Binder(const Device& dev, ibv_qp_type type)
      : cq_(create_cq(dev, 4)), type_(type), memory_(dev.pd(), kLength, kBindable) {
    QpSpec spec{.type = type, .send_cq = cq_.get(), .recv_cq = cq_.get(), .cap = capacity(4, 4)};
    spec.send_ops = (type == IBV_QPT_UC ? kUcSendOps : kRcSendOps) | IBV_QP_EX_WITH_BIND_MW;
    qp_ = try_create_qp(dev, spec);
    if (qp_) connect_to_itself(qp_.get(), dev);
  }
  // Returns whether such a bind works.
  bool works(const Device& dev, ibv_mw_type type, unsigned rights, std::uint64_t length,
             ibv_mr* mr = nullptr, std::uint64_t at = 0) {
    if (!qp_ || state_of(qp_.get()) != IBV_QPS_RTS) return false;
    const MwPtr mw(ibv_alloc_mw(dev.pd(), type));
    if (!mw) return false;
    const ibv_mw_bind_info info{.mr = mr != nullptr ? mr : memory_.mr(),
                                .addr = mr != nullptr ? at : memory_.address(),
                                .length = length,
                                .mw_access_flags = rights};
    int err = 0;
    if (type == IBV_MW_TYPE_1) {
      ibv_mw_bind bind{.wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
      err = ibv_bind_mw(qp_.get(), mw.get(), &bind);
    } else {
      Send s{.opcode = IBV_WR_BIND_MW, .wr_id = 1};
      s.mw = mw.get();
      s.bind = info;
      s.bind_rkey = (mw->rkey & ~0xffU) | ((mw->rkey + 1) & 0xffU);
      err = post(qp_.get(), Api::kPost, s);
    }
    if (err != 0) return false;
    if (poll(cq_.get(), 1).front().status == IBV_WC_SUCCESS) return true;
    require_err(to_state(qp_.get(), IBV_QPS_RESET), 0, "to RESET");
    connect_to_itself(qp_.get(), dev);
    return false;
  }

 private:
  CqPtr cq_;
  ibv_qp_type type_;
  Memory memory_;
  QpPtr qp_;
};

void add_windows(const Device& dev, Caps& caps) {
  constexpr unsigned kRead = IBV_ACCESS_REMOTE_READ;
  caps.insert("windows");
  Binder rc(dev, IBV_QPT_RC);
  if (rc.works(dev, IBV_MW_TYPE_1, kRead | IBV_ACCESS_ZERO_BASED, 64)) caps.insert("zero-based-1");
  if (rc.works(dev, IBV_MW_TYPE_2, kRead | IBV_ACCESS_ZERO_BASED, 64)) caps.insert("zero-based-2");
  if (rc.works(dev, IBV_MW_TYPE_1, kRead, 0)) caps.insert("unbind");
  if (caps.contains("dm")) {
    const DmPtr dm = try_alloc_dm(dev.context(), 4096);
    const MrPtr mr =
        dm ? try_reg_dm(dev.pd(), dm.get(), 0, 4096, kDmAccess | IBV_ACCESS_MW_BIND) : nullptr;
    if (mr && rc.works(dev, IBV_MW_TYPE_1, kRead, 64, mr.get())) caps.insert("dm-windows");
  }
  if (!caps.contains("uc")) return;
  Binder uc(dev, IBV_QPT_UC);
  if (uc.works(dev, IBV_MW_TYPE_1, kRead, 64)) caps.insert("uc-bind");
  if (dev.supports(IBV_QPT_UC, IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV)) {
    caps.insert("uc-inv");
  }
}

void add_regions(const Device& dev, Caps& caps) {
  const Map map(kLength);
  const auto tries = [&](std::uint64_t iova) {
    return MrPtr(ibv_reg_mr_iova(dev.pd(), map.at(), kLength, iova, kAllAccess)) != nullptr;
  };
  if (tries(0) && tries(0x7000)) caps.insert("iova");
  if (tries(0 - std::uint64_t{kLength})) caps.insert("top");
  const MrPtr mr(ibv_reg_mr(dev.pd(), map.at(), kLength, kAllAccess));
  if (mr &&
      ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                   IBV_ACCESS_LOCAL_WRITE) == 0 &&
      ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, map.at(), 4096, 0) == 0) {
    caps.insert("rereg");
  }
}

}  // namespace

Caps query_caps(const std::string& device, int gid_index) {
  const Device dev(device, gid_index);
  Caps caps{"rc", "bursts"};
  if (has_type(dev, IBV_QPT_UC)) caps.insert("uc");
  if (has_type(dev, IBV_QPT_UD)) caps.insert("ud");
  if (has_type(dev, IBV_QPT_RC, 64)) caps.insert("inline");
  if ((dev.attr().device_cap_flags & IBV_DEVICE_XRC) != 0) caps.insert("xrc");
  if (dev.attr().max_srq > 0) caps.insert("srq");
  if (dev.attr().atomic_cap != IBV_ATOMIC_NONE) caps.insert("atomics");
  if (dev.apis().size() > 1) {
    caps.insert("wr");
    if (dev.supports(IBV_QPT_RC, IBV_QP_EX_WITH_FLUSH)) caps.insert("flush");
    if (dev.supports(IBV_QPT_RC, IBV_QP_EX_WITH_ATOMIC_WRITE)) caps.insert("atomic-write");
  }
  if (dev.attr_ex().max_dm_size >= 2UL * kDeviceMemSize) caps.insert("dm");
  add_regions(dev, caps);
  if (claims_windows(dev.context())) add_windows(dev, caps);
  return caps;
}

}  // namespace guest::generator
