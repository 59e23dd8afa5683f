// SPDX-License-Identifier: GPL-2.0-or-later
// Completion queues and their channels, shared receive queues, XRC domains.
#include <endian.h>
#include <fcntl.h>
#include <infiniband/tm_types.h>

#include <cerrno>

#include "table.h"

namespace guest::verbs {
namespace {

// Posts a WRITE of 8 bytes, which completes in the send CQ.
void complete_one(const Pair& rc, std::uint64_t wr_id) {
  rc.post(rc.request(IBV_WR_RDMA_WRITE, 8, 0, 0, wr_id), Api::kPost);
}

void add_cqs(Probes& p) {
  p.works({"ibv_create_cq", "ibv_destroy_cq"}, "a CQ that is busy as long as a QP uses it",
          [](const Device& dev) {
            const CqPtr cq = create_cq(dev, 100);
            const QpPtr qp = create_qp(dev, {.send_cq = cq.get(), .recv_cq = cq.get()});
            require(ibv_destroy_cq(cq.get()) == EBUSY, "the CQ of a QP was destroyed");
          });
  p.works({"ibv_create_cq_ex"}, "polled with ibv_start_poll, with fields that were asked for",
          [](const Device& dev) {
            ibv_cq_init_attr_ex attr{};
            attr.cqe = 16;
            attr.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM |
                            IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
            ibv_cq_ex* const cqx = ibv_create_cq_ex(dev.context(), &attr);
            require(cqx != nullptr, "ibv_create_cq_ex: {}", errno_name(errno));
            const CqPtr cq(ibv_cq_ex_to_cq(cqx));
            const QpPtr qp = create_qp(dev, {.send_cq = cq.get(), .recv_cq = cq.get()});
            require_err(to_init(qp.get(), {}), 0, "to INIT");
            require_err(post_recv(qp.get(), 17, {}), 0, "ibv_post_recv");
            require_err(to_state(qp.get(), IBV_QPS_ERR), 0, "to ERR");
            ibv_poll_cq_attr poll{};
            int err = ENOENT;
            for (int i = 0; err == ENOENT && i < 100'000'000; i++) err = ibv_start_poll(cqx, &poll);
            require_err(err, 0, "ibv_start_poll");
            const bool good = cqx->wr_id == 17 && cqx->status == IBV_WC_WR_FLUSH_ERR &&
                              ibv_wc_read_qp_num(cqx) == qp->qp_num &&
                              ibv_wc_read_completion_ts(cqx) != 0;
            ibv_end_poll(cqx);
            require(good, "another completion");
          });
  p.works({"ibv_resize_cq"}, "completions before and after it", [](const Device& dev) {
    const Pair rc(dev, loop(IBV_QPT_RC));
    complete_one(rc, 1);
    require_err(ibv_resize_cq(rc.local.send_cq(), 500), 0, "ibv_resize_cq");
    require(rc.local.send_cq()->cqe >= 500, "{} entries", rc.local.send_cq()->cqe);
    rc.expect(1);
    complete_one(rc, 2);
    rc.expect(2);
  });
  p.works({"ibv_modify_cq"}, "a count with a period; EINVAL for a count without",
          [](const Device& dev) {
            const Pair rc(dev, loop(IBV_QPT_RC));
            ibv_modify_cq_attr attr{};
            attr.attr_mask = IBV_CQ_ATTR_MODERATE;
            attr.moderate = {.cq_count = 8, .cq_period = 100};
            require_err(ibv_modify_cq(rc.local.send_cq(), &attr), 0, "ibv_modify_cq");
            attr.moderate = {.cq_count = 8, .cq_period = 0};
            require_err(ibv_modify_cq(rc.local.send_cq(), &attr), EINVAL,
                        "ibv_modify_cq without a period");
          });
  p.works({"ibv_poll_cq"}, "as many completions as there are", [](const Device& dev) {
    const Pair rc(dev, loop(IBV_QPT_RC));
    ibv_wc wc[4];
    require(ibv_poll_cq(rc.local.send_cq(), 4, wc) == 0, "a completion of nothing");
    complete_one(rc, 1);
    complete_one(rc, 2);
    require(poll(rc.local.send_cq(), 2).back().wr_id == 2, "in another order");
  });
  p.works({"ibv_create_comp_channel", "ibv_destroy_comp_channel", "ibv_req_notify_cq",
           "ibv_get_cq_event", "ibv_ack_cq_events"},
          "an event for the next completion, and one only", [](const Device& dev) {
            const Pair rc(dev, loop(IBV_QPT_RC));
            require_err(ibv_req_notify_cq(rc.remote.end().recv_cq(), 0), 0, "ibv_req_notify_cq");
            rc.recv(1, 0, 64);
            rc.post(rc.request(IBV_WR_SEND, 8, 0, 0, 2), Api::kPost);
            rc.expect(2);
            require(wait_event(rc.remote.end().channel(), 10000), "no event");
            rc.expect_recv(1);
            rc.recv(3, 0, 64);
            rc.post(rc.request(IBV_WR_SEND, 8, 0, 0, 4), Api::kPost);
            rc.expect(4);
            rc.expect_recv(3);
            require(!wait_event(rc.remote.end().channel(), 100), "an event without an arm");
          });
}

SrqPtr create_srq(const Device& dev, std::uint32_t max_wr) {
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = max_wr, .max_sge = 2, .srq_limit = 0};
  SrqPtr srq(ibv_create_srq(dev.pd(), &attr));
  if (!srq) fail_errno("ibv_create_srq");
  require(attr.attr.max_wr >= max_wr && attr.attr.max_sge >= 2, "a smaller SRQ");
  return srq;
}

// A peer sends to the XRC SRQ by its number.
void send_to_srq(const Device& dev, const XrcShare& xrc, ibv_cq* cq, std::uint32_t number) {
  const Memory memory(dev.pd(), 4096, kAllAccess);
  const QpPtr target = create_qp(dev, {.type = IBV_QPT_XRC_RECV, .xrcd = xrc.xrcd.get()});
  const QpPtr peer = create_qp(
      dev,
      {.type = IBV_QPT_XRC_SEND, .send_cq = cq, .cap = capacity(4, 0), .send_ops = kRcSendOps});
  const Endpoint here{.qpn = peer->qp_num, .gid = dev.gid()};
  const Endpoint there{.qpn = target->qp_num, .gid = dev.gid()};
  connect(target.get(), dev, {.mtu = dev.active_mtu()}, there, here);
  connect(peer.get(), dev, {.mtu = dev.active_mtu()}, here, there);
  require_err(post_srq_recv(xrc.srq.get(), 1, memory.sge(2048, 64)), 0, "ibv_post_srq_recv");
  fill(memory.bytes().first(64), 6);
  require_err(
      post(peer.get(), Api::kWr, Send{.sges = {memory.sge(0, 64)}, .wr_id = 2, .srqn = number}), 0,
      "ibv_wr_send");
  for (const ibv_wc& wc : poll(cq, 2)) {
    require(wc.status == IBV_WC_SUCCESS, "wr_id {}: {}", wc.wr_id, ibv_wc_status_str(wc.status));
  }
  require(!mismatch(memory.bytes().subspan(2048, 64), 6), "other bytes");
}

void add_srqs(Probes& p) {
  p.works(
      {"ibv_create_srq", "ibv_destroy_srq", "ibv_post_srq_recv"}, "a SEND takes a WQE of it",
      [](const Device& dev) {
        const SrqPtr srq = create_srq(dev, 8);
        const CqPtr cq = create_cq(dev, 16);
        const Memory memory(dev.pd(), 4096, kAllAccess);
        const QpPtr qp = create_qp(
            dev,
            {.send_cq = cq.get(), .recv_cq = cq.get(), .srq = srq.get(), .cap = capacity(4, 0)});
        connect_to_itself(qp.get(), dev);
        require_err(post_srq_recv(srq.get(), 1, memory.sge(2048, 64)), 0, "ibv_post_srq_recv");
        fill(memory.bytes().first(64), 4);
        require_err(post(qp.get(), Api::kPost, Send{.sges = {memory.sge(0, 64)}, .wr_id = 2}), 0,
                    "ibv_post_send");
        for (const ibv_wc& wc : poll(cq.get(), 2)) {
          require(wc.status == IBV_WC_SUCCESS, "wr_id {}: {}", wc.wr_id,
                  ibv_wc_status_str(wc.status));
        }
        require(!mismatch(memory.bytes().subspan(2048, 64), 4), "other bytes");
      });
  p.works({"ibv_modify_srq", "ibv_query_srq"}, "a limit and another size", [](const Device& dev) {
    const SrqPtr srq = create_srq(dev, 8);
    // A limit above the number of WQEs would be reached at once.
    for (std::uint64_t i = 0; i < 4; ++i)
      require_err(post_srq_recv(srq.get(), i, {}), 0, "ibv_post_srq_recv");
    ibv_srq_attr attr{.max_wr = 100, .max_sge = 0, .srq_limit = 3};
    require_err(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0,
                "ibv_modify_srq");
    attr = {};
    require_err(ibv_query_srq(srq.get(), &attr), 0, "ibv_query_srq");
    require(attr.max_wr >= 100 && attr.srq_limit == 3 && attr.max_sge >= 2, "{} WQEs, limit {}",
            attr.max_wr, attr.srq_limit);
    attr.srq_limit = attr.max_wr + 1;
    require_err(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT), EINVAL, "a limit above the size");
  });
  p.works({"ibv_open_xrcd", "ibv_close_xrcd", "ibv_create_srq_ex", "ibv_get_srq_num"},
          "an XRC SRQ, and a message to its number", [](const Device& dev) {
            const CqPtr cq = create_cq(dev, 16);
            const XrcShare xrc = open_xrc(dev, dev.pd(), cq.get());
            std::uint32_t number = 0;
            require_err(ibv_get_srq_num(xrc.srq.get(), &number), 0, "ibv_get_srq_num");
            require(number != 0 && number == xrc.srqn, "number {}", number);
            send_to_srq(dev, xrc, cq.get(), number);
            require(ibv_close_xrcd(xrc.xrcd.get()) == EBUSY, "the domain of an SRQ was closed");
            const SrqPtr basic = create_srq(dev, 8);
            require_err(ibv_get_srq_num(basic.get(), &number), EINVAL, "the number of a basic SRQ");
          });
}

// An SRQ with tags, and a QP that sends to itself and takes WQEs of it.
class Tags {
 public:
  explicit Tags(const Device& dev) : cq_(create_cq(dev, 16)), memory_(dev.pd(), 4096, kAllAccess) {
    ibv_srq_init_attr_ex attr{};
    attr.attr = {.max_wr = 8, .max_sge = 1, .srq_limit = 0};
    attr.comp_mask =
        IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
    attr.srq_type = IBV_SRQT_TM;
    attr.pd = dev.pd();
    attr.cq = cq_.get();
    attr.tm_cap = {.max_num_tags = 4, .max_ops = 8};
    srq_.reset(ibv_create_srq_ex(dev.context(), &attr));
    require(srq_ != nullptr, "ibv_create_srq_ex: {}", errno_name(errno));
    qp_ = create_qp(
        dev,
        {.send_cq = cq_.get(), .recv_cq = cq_.get(), .srq = srq_.get(), .cap = capacity(4, 0)});
    connect_to_itself(qp_.get(), dev);
  }

  // Returns the handle of the tag.
  std::uint32_t add(std::uint64_t tag, std::uint64_t recv_wr_id) {
    ibv_sge sge = memory_.sge(2048, 64);
    ibv_ops_wr op{};
    op.opcode = IBV_WR_TAG_ADD;
    op.tm.add = {.recv_wr_id = recv_wr_id,
                 .sg_list = &sge,
                 .num_sge = 1,
                 .tag = tag,
                 .mask = ~std::uint64_t{0}};
    done(op, IBV_WC_TM_ADD);
    return op.tm.handle;
  }
  void remove(std::uint32_t handle) {
    ibv_ops_wr op{};
    op.opcode = IBV_WR_TAG_DEL;
    op.tm.handle = handle;
    done(op, IBV_WC_TM_DEL);
  }
  void sync() {
    ibv_ops_wr op{};
    op.opcode = IBV_WR_TAG_SYNC;
    done(op, IBV_WC_TM_SYNC);
  }
  // Sends 48 bytes with a tag; returns the completion of the receiver.
  ibv_wc message(std::uint64_t tag) {
    auto* const header = reinterpret_cast<ibv_tmh*>(memory_.bytes().data());
    *header = {.opcode = IBV_TMH_EAGER, .reserved = {}, .app_ctx = 0, .tag = htobe64(tag)};
    fill(memory_.bytes().subspan(sizeof(*header), 48), 14);
    require_err(post(qp_.get(), Api::kPost,
                     Send{.sges = {memory_.sge(0, sizeof(*header) + 48)}, .wr_id = 90}),
                0, "ibv_post_send");
    ibv_wc received{};
    for (const ibv_wc& wc : poll(cq_.get(), 2)) {
      require(wc.status == IBV_WC_SUCCESS, "wr_id {}: {}", wc.wr_id, ibv_wc_status_str(wc.status));
      if (wc.wr_id != 90) received = wc;
    }
    return received;
  }
  void post_recv() const {
    require_err(post_srq_recv(srq_.get(), 80, memory_.sge(3072, 64)), 0, "ibv_post_srq_recv");
  }
  // The program has seen a message that no tag matched.
  void saw_unexpected() { ++unexpected_; }
  [[nodiscard]] bool in_the_buffer() const {
    return !mismatch(memory_.bytes().subspan(2048, 48), 14);
  }

 private:
  // Posts an operation and takes its completion.
  void done(ibv_ops_wr& op, ibv_wc_opcode opcode) {
    ibv_ops_wr* bad = nullptr;
    op.wr_id = ++ops_;
    op.flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
    op.tm.unexpected_cnt = unexpected_;
    require_err(ibv_post_srq_ops(srq_.get(), &op, &bad), 0, "ibv_post_srq_ops");
    const ibv_wc wc = poll(cq_.get(), 1).front();
    require(wc.status == IBV_WC_SUCCESS && wc.wr_id == ops_ && wc.opcode == opcode,
            "operation {}: opcode {}, {}", ops_, static_cast<int>(wc.opcode),
            ibv_wc_status_str(wc.status));
  }

  CqPtr cq_;
  Memory memory_;
  SrqPtr srq_;
  QpPtr qp_;
  std::uint64_t ops_ = 0;
  std::uint32_t unexpected_ = 0;
};

// A message takes the buffer of its tag, and one whose tag has gone takes a WQE.
void probe_tags(const Device& dev) {
  ibv_device_attr_ex caps{};
  require_err(ibv_query_device_ex(dev.context(), nullptr, &caps), 0, "ibv_query_device_ex");
  require(caps.tm_caps.max_num_tags != 0, "no tags are advertised");
  Tags tags(dev);
  (void)tags.add(0x1234, 2);
  const std::uint32_t other = tags.add(0x5678, 3);
  const ibv_wc matched = tags.message(0x1234);
  require(matched.wr_id == 2 && matched.opcode == IBV_WC_TM_RECV &&
              (matched.wc_flags & IBV_WC_TM_MATCH) != 0,
          "wr_id {}, opcode {}", matched.wr_id, static_cast<int>(matched.opcode));
  require(tags.in_the_buffer(), "other bytes");
  tags.remove(other);
  tags.post_recv();
  const ibv_wc unexpected = tags.message(0x5678);
  require(unexpected.wr_id == 80 && (unexpected.wc_flags & IBV_WC_TM_MATCH) == 0,
          "wr_id {} without its tag", unexpected.wr_id);
  tags.saw_unexpected();
  tags.sync();
}

}  // namespace

void add_queue_probes(Probes& probes) {
  add_cqs(probes);
  add_srqs(probes);
  probes.works({"ibv_post_srq_ops"}, "a tag added, matched, removed and missed; a synchronization",
               probe_tags);
}

}  // namespace guest::verbs
