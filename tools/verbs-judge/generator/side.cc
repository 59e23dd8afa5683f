// SPDX-License-Identifier: GPL-2.0-or-later
#include "side.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <utility>

#include "end.h"

namespace guest::generator {
namespace {

constexpr std::size_t kCqs = 2;
constexpr int kCqe = 512;
constexpr std::uint32_t kDepth = 32;

ibv_qp_type qp_type(std::int64_t type, int end) {
  switch (type) {
    case kUc:
      return IBV_QPT_UC;
    case kUd:
      return IBV_QPT_UD;
    case kXrc:
      return end == 0 ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV;
    default:
      return IBV_QPT_RC;
  }
}

ibv_wr_opcode opcode_of(Verb verb) {
  switch (verb) {
    case Verb::kBind:
      return IBV_WR_BIND_MW;
    case Verb::kInvalidate:
      return IBV_WR_LOCAL_INV;
    case Verb::kSendImm:
      return IBV_WR_SEND_WITH_IMM;
    case Verb::kSendInv:
      return IBV_WR_SEND_WITH_INV;
    case Verb::kWrite:
      return IBV_WR_RDMA_WRITE;
    case Verb::kWriteImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Verb::kRead:
      return IBV_WR_RDMA_READ;
    case Verb::kCas:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Verb::kFetchAdd:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case Verb::kAtomicWrite:
      return IBV_WR_ATOMIC_WRITE;
    case Verb::kFlush:
      return IBV_WR_FLUSH;
    default:
      return IBV_WR_SEND;
  }
}

struct Conn {
  QpPtr qp;
  AhPtr ah;
  Endpoint remote{};
  std::int64_t type = kRc;
};

class Local : public Side {
 public:
  Local(int end, const std::string& device, int gid_index, const Mems& mems, const Caps& caps)
      : end_(end), mems_(mems), caps_(caps), dev_(device, gid_index), other_pd_(alloc_pd(dev_)) {
    channel_.reset(ibv_create_comp_channel(dev_.context()));
    if (!channel_) fail_errno("ibv_create_comp_channel");
    for (CqPtr& cq : cqs_) cq = create_cq(dev_, kCqe, channel_.get());
    if (caps_.contains("dm")) dm_ = alloc_dm(dev_.context(), kDeviceMemSize);
  }

  Keys region(const RegionArgs& args) override {
    ibv_mr* mr = nullptr;
    errno = 0;
    if (args.mem == kDeviceMem) {
      mr = ibv_reg_dm_mr(pd(args.pd), dm_.get(), args.off, args.len,
                         args.access | unsigned{IBV_ACCESS_ZERO_BASED});
    } else {
      std::byte* const at = mems_.bytes(end_, args.mem).data() + args.off;
      mr = args.iova == reinterpret_cast<std::uintptr_t>(at)
               ? ibv_reg_mr(pd(args.pd), at, args.len, args.access)
               : ibv_reg_mr_iova(pd(args.pd), at, args.len, args.iova, args.access);
    }
    if (mr == nullptr) return {.err = errno};
    mrs_.at(args.slot) = mr;
    return {.lkey = mr->lkey, .rkey = mr->rkey};
  }
  int dereg(std::size_t slot) override {
    const int err = ibv_dereg_mr(mrs_.at(slot));
    if (err == 0) mrs_.at(slot) = nullptr;
    return err;
  }
  Keys rereg(const RegionArgs& args, int what) override {
    ibv_mr* const mr = mrs_.at(args.slot);
    void* const at =
        args.mem == kDeviceMem ? nullptr : mems_.bytes(end_, args.mem).data() + args.off;
    errno = 0;
    const bool rights = (what & IBV_REREG_MR_CHANGE_ACCESS) != 0;
    const int rc = ibv_rereg_mr(mr, what, pd(args.pd), at, args.len,
                                rights ? static_cast<int>(args.access) : 0);
    return {.err = rc == 0 ? 0 : (errno != 0 ? errno : EIO), .lkey = mr->lkey, .rkey = mr->rkey};
  }
  Keys window(std::size_t slot, int type, std::size_t pd_slot) override {
    errno = 0;
    mws_.at(slot) = ibv_alloc_mw(pd(pd_slot), type == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    if (mws_.at(slot) == nullptr) return {.err = errno};
    return {.rkey = mws_.at(slot)->rkey};
  }
  int dealloc(std::size_t slot) override {
    return ibv_dealloc_mw(std::exchange(mws_.at(slot), nullptr));
  }

  void restore(std::size_t slot, std::uint32_t key) override { mws_.at(slot)->rkey = key; }

  Numbers create(const QpArgs& args) override {
    Conn& c = conns_.at(args.conn);
    c.type = args.type;
    QpSpec spec{.type = qp_type(args.type, end_), .pd = pd(args.pd)};
    ibv_cq* const cq = cqs_.at(args.conn % kCqs).get();
    if (spec.type == IBV_QPT_XRC_RECV) {
      spec.xrcd = xrc().xrcd.get();
    } else {
      spec.send_cq = cq;
      spec.recv_cq = spec.type == IBV_QPT_XRC_SEND ? nullptr : cq;
      spec.srq = args.srq ? srq() : nullptr;
      const bool receives = !args.srq && spec.type != IBV_QPT_XRC_SEND;
      spec.cap = {.max_send_wr = kDepth,
                  .max_recv_wr = receives ? kDepth : 0,
                  .max_send_sge = 2,
                  .max_recv_sge = receives ? 2U : 0U,
                  .max_inline_data = caps_.contains("inline") ? 64U : 0U};
      spec.send_ops = ops_of(args.type);
    }
    c.qp = try_create_qp(dev_, spec);
    if (!c.qp) return {.err = errno != 0 ? errno : EIO};
    return {.qpn = c.qp->qp_num, .srqn = spec.type == IBV_QPT_XRC_RECV ? xrc().srqn : 0};
  }
  int connect(const QpArgs& args, const Endpoint& remote) override {
    Conn& c = conns_.at(args.conn);
    c.remote = remote;
    if (args.type == kUd && !c.ah) c.ah = create_ah(dev_, remote.gid, remote.lid);
    const Connection how{.mtu = args.mtu,
                         .qp_access = static_cast<int>(args.access),
                         .timeout = 13,
                         .retry_cnt = 7,
                         .rnr_retry = 1,
                         .min_rnr_timer = 1,
                         .max_rd_atomic = 4,
                         .max_dest_rd_atomic = 8};
    int err = to_init(c.qp.get(), how);
    if (err == 0) err = to_rtr(c.qp.get(), dev_, how, remote);
    if (err == 0) err = to_rts(c.qp.get(), how, 1);
    return err;
  }
  int modify(std::size_t conn, ibv_qp_state state) override {
    return to_state(conns_.at(conn).qp.get(), state);
  }
  int destroy(std::size_t conn) override {
    const int err = ibv_destroy_qp(conns_.at(conn).qp.release());
    conns_.at(conn) = {};
    return err;
  }

  Keys post(const Request& r) override;
  int receive(std::size_t conn, bool use_srq, std::uint64_t id,
              std::span<const ibv_sge> sges) override {
    if (conns_.at(conn).type == kXrc) return post_srq_recv(xrc().srq.get(), id, sges);
    return use_srq ? post_srq_recv(srq(), id, sges) : post_recv(conns_.at(conn).qp.get(), id, sges);
  }
  std::vector<Completion> poll() override {
    std::vector<Completion> got;
    std::array<ibv_wc, 16> wcs{};
    for (std::size_t cq = 0; cq < kCqs; cq++) {
      for (int n = 16; n == 16;) {
        n = ibv_poll_cq(cqs_.at(cq).get(), 16, wcs.data());
        require(n >= 0, "ibv_poll_cq: {}", n);
        for (int i = 0; i < n; i++) {
          got.push_back({.end = end_, .cq = cq, .wc = wcs.at(static_cast<std::size_t>(i))});
        }
      }
    }
    return got;
  }
  int arm(std::size_t cq, bool solicited) override {
    return ibv_req_notify_cq(cqs_.at(cq % kCqs).get(), solicited ? 1 : 0);
  }
  int events(int timeout_ms) override {
    int count = 0;
    while (wait_event(channel_.get(), count == 0 ? timeout_ms : 0)) count++;
    return count;
  }
  std::vector<std::byte> load_device() override { return dm_read(dm_.get(), 0, kDeviceMemSize); }
  void store_device(std::span<const std::byte> bytes) override { dm_write(dm_.get(), 0, bytes); }
  ibv_gid gid() override { return dev_.gid(); }

  void wipe() override {
    for (ibv_mw*& mw : mws_) {
      if (mw != nullptr)
        require_err(ibv_dealloc_mw(std::exchange(mw, nullptr)), 0, "ibv_dealloc_mw");
    }
    srq_.reset();
    xrc_.srq.reset();
    xrc_.xrcd.reset();
    for (ibv_mr*& mr : mrs_) {
      if (mr != nullptr) require_err(ibv_dereg_mr(std::exchange(mr, nullptr)), 0, "ibv_dereg_mr");
    }
  }

  ~Local() override {
    for (Conn& c : conns_) c = {};
    for (ibv_mw* mw : mws_) {
      if (mw != nullptr) note_destroy("ibv_dealloc_mw", ibv_dealloc_mw(mw));
    }
    for (ibv_mr* mr : mrs_) {
      if (mr != nullptr) note_destroy("ibv_dereg_mr", ibv_dereg_mr(mr));
    }
  }

 private:
  [[nodiscard]] ibv_pd* pd(std::size_t slot) const {
    return slot % kPds == 0 ? dev_.pd() : other_pd_.get();
  }
  [[nodiscard]] std::uint64_t ops_of(std::int64_t type) const {
    std::uint64_t ops = type == kUd ? kUdSendOps : type == kUc ? kUcSendOps : kRcSendOps;
    if (type == kUd) return ops;
    if (caps_.contains("windows")) {
      ops |= IBV_QP_EX_WITH_BIND_MW;
      if (type != kUc || caps_.contains("uc-inv")) {
        ops |= IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;
      }
    }
    if (type != kUc && caps_.contains("flush")) ops |= IBV_QP_EX_WITH_FLUSH;
    if (type != kUc && caps_.contains("atomic-write")) ops |= IBV_QP_EX_WITH_ATOMIC_WRITE;
    return ops;
  }
  ibv_srq* srq() {
    if (!srq_) {
      ibv_srq_init_attr init{.srq_context = nullptr,
                             .attr = {.max_wr = kDepth, .max_sge = 2, .srq_limit = 0}};
      srq_.reset(ibv_create_srq(dev_.pd(), &init));
      if (!srq_) fail_errno("ibv_create_srq");
    }
    return srq_.get();
  }
  XrcShare& xrc() {
    if (!xrc_.srq)
      xrc_ = open_xrc(dev_, dev_.pd(), cqs_[0].get(),
                      {.max_wr = kDepth, .max_sge = 2, .srq_limit = 0});
    return xrc_;
  }
  int bind_type1(const Request& r, ibv_mw* mw);
  [[nodiscard]] ibv_mw_bind_info bind_info(const Request& r) const {
    return {.mr = mrs_.at(r.region),
            .addr = r.addr,
            .length = r.bind_length,
            .mw_access_flags = r.rights};
  }

  int end_;
  const Mems& mems_;
  Caps caps_;
  Device dev_;
  PdPtr other_pd_;
  ChannelPtr channel_;
  std::array<CqPtr, kCqs> cqs_;
  DmPtr dm_;
  SrqPtr srq_;
  XrcShare xrc_;
  std::array<ibv_mr*, kRegions> mrs_{};
  std::array<ibv_mw*, kWindows> mws_{};
  std::array<Conn, kConns> conns_;
};

int Local::bind_type1(const Request& r, ibv_mw* mw) {
  const std::uint32_t before = mw->rkey;
  if (r.forge == 2) mw->rkey ^= 0x55;
  ibv_mw_bind bind{.wr_id = r.id, .send_flags = r.flags, .bind_info = bind_info(r)};
  const int err = ibv_bind_mw(conns_.at(r.conn).qp.get(), mw, &bind);
  if (err != 0) mw->rkey = before;
  return err;
}

Keys Local::post(const Request& r) {
  Conn& c = conns_.at(r.conn);
  Send s{.opcode = opcode_of(r.verb),
         .wr_id = r.id,
         .flags = r.flags,
         .raddr = r.raddr,
         .rkey = r.rkey};
  if (r.verb == Verb::kBind) {
    ibv_mw* const mw = mws_.at(r.window);
    const ibv_mw_type type = mw->type;
    const bool forged = r.forge == 1;
    if (forged) mw->type = type == IBV_MW_TYPE_1 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;
    int err = 0;
    if (mw->type == IBV_MW_TYPE_1) {
      err = bind_type1(r, mw);
    } else {
      s.mw = mw;
      s.bind = bind_info(r);
      s.bind_rkey = r.new_key;
      err = guest::post(c.qp.get(), r.api_wr ? Api::kWr : Api::kPost, s);
    }
    mw->type = type;
    return {.err = err, .rkey = mw->rkey};
  }
  for (std::size_t i = 0; i < r.num_sge; i++) s.sges.push_back(r.sge.at(i));
  s.imm = r.imm;
  s.inv_rkey = r.rkey;
  s.compare_add = r.compare_add;
  s.swap = r.swap;
  s.flush_length = r.length;
  if (r.inline_mem >= 0) {
    const auto at = reinterpret_cast<std::uintptr_t>(mems_.bytes(end_, r.inline_mem).data());
    s.sges = {{.addr = at + r.inline_off, .length = r.length, .lkey = 0}};
  }
  s.ah = c.ah.get();
  s.remote_qpn = c.remote.qpn;
  s.remote_qkey = kQkey;
  s.srqn = c.remote.srqn;
  return {.err = guest::post(c.qp.get(), r.api_wr ? Api::kWr : Api::kPost, s)};
}

}  // namespace

Mems::Mems()
    : map_(std::size_t{kEnds} * kHostMems * kMemSize, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS) {}

std::unique_ptr<Side> make_side(int end, const std::string& device, int gid_index, const Mems& mems,
                                const Caps& caps) {
  return std::make_unique<Local>(end, device, gid_index, mems, caps);
}

}  // namespace guest::generator
