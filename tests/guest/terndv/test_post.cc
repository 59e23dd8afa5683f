// SPDX-License-Identifier: GPL-2.0-or-later
// Queries of the device, and WQEs and CQEs by hand.
#include <endian.h>
#include <poll.h>

#include <cerrno>
#include <cstring>

#include "raw.h"
#include "tests.h"

namespace guest {

namespace {

constexpr std::uint32_t kSize = 4096;

// Of the receiver's CQE and of the sender's.
void require_cqe(const tern_cqe& cqe, std::uint8_t opcode, std::uint64_t wr_id, std::uint32_t qpn,
                 std::uint32_t length) {
  require(cqe.status == TERN_CQE_SUCCESS, "status {}", cqe.status);
  require(cqe.opcode == opcode, "opcode {:#x} instead of {:#x}", cqe.opcode, opcode);
  require(le64toh(cqe.wr_id) == wr_id, "wr_id {} instead of {}", le64toh(cqe.wr_id), wr_id);
  require(le32toh(cqe.qpn) == qpn, "QP number");
  require(le32toh(cqe.byte_len) == length, "{} bytes instead of {}", le32toh(cqe.byte_len), length);
}

struct RawSide {
  explicit RawSide(const End& end) : qp(end.qp()), send_cq(end.send_cq()), recv_cq(end.recv_cq()) {}
  RawQp qp;
  RawCq send_cq, recv_cq;
};

// Several times round all queues, with as many requests in flight as fit.
void send_by_hand(const Device& dev) {
  const Pair pair(dev, short_queues(IBV_QPT_RC));
  const Memory from(dev.pd(), kSize, 0);
  const Memory to(dev.pd(), kSize, kAllAccess);
  RawSide a(pair.local);
  RawSide b(pair.remote.end());
  fill(from.bytes(), 1);
  require(a.qp.layout().sq.wqe_cnt == pair.local.cap().max_send_wr, "size of the send queue");
  std::uint64_t id = 0;
  for (unsigned round = 0; round < 5; round++) {
    const std::uint32_t batch = 7;
    for (std::uint32_t i = 0; i < batch; i++) {
      const ibv_sge target = to.sge(i * 64, 64);
      b.qp.post_recv(id + i, std::span(&target, 1));
    }
    for (std::uint32_t i = 0; i < batch; i++) {
      RawWqe wqe = a.qp.next(TERN_WR_SEND_WITH_IMM, id + i);
      wqe.header->imm = htobe32(0x1000 + i);
      const ibv_sge parts[] = {from.sge(i * 64, 10), from.sge(i * 64 + 10, 54)};
      wqe.append_sges(parts);
      a.qp.post();
    }
    for (std::uint32_t i = 0; i < batch; i++) {
      const tern_cqe got = b.recv_cq.wait();
      require_cqe(got, TERN_RECV_SEND, id + i, pair.remote.endpoint().qpn, 64);
      require((got.flags & TERN_CQE_F_IMM) && be32toh(got.imm) == 0x1000 + i, "immediate data");
      require_cqe(a.send_cq.wait(), TERN_WR_SEND_WITH_IMM, id + i, pair.local.qp()->qp_num, 64);
    }
    require(std::memcmp(to.bytes().data(), from.bytes().data(), batch * 64) == 0,
            "other bytes arrived");
    std::memset(to.bytes().data(), 0, kSize);
    id += batch;
  }
}

void one_sided_by_hand(const Device& dev) {
  const Pair pair(dev, short_queues(IBV_QPT_RC));
  const Memory here(dev.pd(), kSize, kAllAccess);
  const Memory there(dev.pd(), kSize, kAllAccess);
  RawSide a(pair.local);
  std::vector<std::byte> data(100);
  fill(data, 2);

  RawWqe wqe = a.qp.next(TERN_WR_RDMA_WRITE, 1);
  auto& write = wqe.append<tern_rdma_seg>();
  write.raddr = htole64(there.address(8));
  write.rkey = htole32(there.rkey());
  wqe.append_inline(data);
  a.qp.post();
  require_cqe(a.send_cq.wait(), TERN_WR_RDMA_WRITE, 1, pair.local.qp()->qp_num, 100);
  require(!mismatch(there.bytes().subspan(8, 100), 2), "the WRITE wrote other bytes");

  wqe = a.qp.next(TERN_WR_RDMA_READ, 2);
  auto& read = wqe.append<tern_rdma_seg>();
  read.raddr = htole64(there.address(8));
  read.rkey = htole32(there.rkey());
  const ibv_sge target = here.sge(40, 100);
  wqe.append_sges(std::span(&target, 1));
  a.qp.post();
  require_cqe(a.send_cq.wait(), TERN_WR_RDMA_READ, 2, pair.local.qp()->qp_num, 100);
  require(!mismatch(here.bytes().subspan(40, 100), 2), "the READ read other bytes");

  there.store64(1024, 5);
  wqe = a.qp.next(TERN_WR_ATOMIC_FETCH_AND_ADD, 3);
  auto& add = wqe.append<tern_atomic_seg>();
  add.raddr = htole64(there.address(1024));
  add.rkey = htole32(there.rkey());
  add.swap_add = htole64(37);
  const ibv_sge result = here.sge(0, 8);
  wqe.append_sges(std::span(&result, 1));
  a.qp.post();
  require_cqe(a.send_cq.wait(), TERN_WR_ATOMIC_FETCH_AND_ADD, 3, pair.local.qp()->qp_num, 8);
  require(here.load64(0) == 5 && there.load64(1024) == 42, "the atomic's result");

  // What the device refuses arrives as a CQE, and the QP as an error.
  wqe = a.qp.next(0x3f, 4);
  a.qp.post();
  const tern_cqe bad = a.send_cq.wait();
  require(bad.status == TERN_CQE_LOC_QP_OP_ERR && le64toh(bad.wr_id) == 4,
          "status {} of an unknown opcode", bad.status);
  require(state_of(pair.local.qp()) == IBV_QPS_ERR, "the QP is not in error");
  // A receive that is posted now needs a doorbell.
  a.qp.post_recv(5, {});
  const tern_cqe flushed = a.recv_cq.wait();
  require(flushed.status == TERN_CQE_WR_FLUSH_ERR && le64toh(flushed.wr_id) == 5,
          "the receive was not flushed");
}

void shared_receives_by_hand(const Device& dev) {
  ibv_srq_init_attr attr{};
  attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
  const SrqPtr srq(ibv_create_srq(dev.pd(), &attr));
  require(srq != nullptr, "ibv_create_srq");
  PairOptions options = short_queues(IBV_QPT_RC);
  options.remote.use_srq = srq.get();
  const Pair pair(dev, options);
  const Memory to(dev.pd(), kSize, kAllAccess);
  RawSide a(pair.local);
  RawCq recv_cq(pair.remote.end().recv_cq());
  RawSrq queue(srq.get());
  require(queue.layout().rq.wqe_cnt == attr.attr.max_wr, "size of the SRQ");
  require(RawQp(pair.remote.end().qp()).layout().rq.buf == nullptr,
          "a receive queue beside the SRQ");
  std::vector<std::byte> data(32);
  for (std::uint64_t i = 0; i < 11; i++) {
    require(queue.has_room(), "no free slot");
    const ibv_sge target = to.sge(i * 32, 32);
    queue.post_recv(i, std::span(&target, 1));
    fill(data, i);
    RawWqe wqe = a.qp.next(TERN_WR_SEND, i);
    wqe.append_inline(data);
    a.qp.post();
    const tern_cqe got = recv_cq.wait();
    require_cqe(got, TERN_RECV_SEND, i, pair.remote.endpoint().qpn, 32);
    require(le32toh(got.srqn) == queue.layout().srqn, "number of the SRQ");
    require(!mismatch(to.bytes().subspan(i * 32, 32), i), "other bytes arrived");
    require_cqe(a.send_cq.wait(), TERN_WR_SEND, i, pair.local.qp()->qp_num, 32);
  }
}

void datagram_by_hand(const Device& dev) {
  const Pair pair(dev, short_queues(IBV_QPT_UD));
  const Memory to(dev.pd(), kSize, kAllAccess);
  RawSide a(pair.local);
  RawSide b(pair.remote.end());
  const AhPtr ah = create_ah(dev, dev.gid());
  terndv_ah out{};
  terndv_obj obj{};
  obj.ah = {.in = ah.get(), .out = &out};
  require_err(terndv_init_obj(&obj, TERNDV_OBJ_AH), 0, "terndv_init_obj of an AH");

  const ibv_sge target = to.sge(0, 140);
  b.qp.post_recv(1, std::span(&target, 1));
  std::vector<std::byte> data(100);
  fill(data, 3);
  RawWqe wqe = a.qp.next(TERN_WR_SEND, 2);
  auto& ud = wqe.append<tern_ud_seg>();
  ud.av = *out.av;
  ud.dqpn = htole32(pair.remote.endpoint().qpn);
  ud.qkey = htole32(kQkey);
  wqe.append_inline(data);
  a.qp.post();
  const tern_cqe got = b.recv_cq.wait();
  require_cqe(got, TERN_RECV_SEND, 1, pair.remote.endpoint().qpn, 140);
  require(le32toh(got.src_qp) == pair.local.qp()->qp_num, "QP number of the sender");
  require(!mismatch(to.bytes().subspan(40, 100), 3), "other bytes arrived");
}

// Arms by hand; the event comes through the provider's channel.
void arm_by_hand(const Device& dev) {
  const ChannelPtr channel(ibv_create_comp_channel(dev.context()));
  require(channel != nullptr, "ibv_create_comp_channel");
  const CqPtr cq = create_cq(dev, 8, channel.get());
  const QpPtr qp = create_qp(dev, {.send_cq = cq.get(), .recv_cq = cq.get()});
  connect_to_itself(qp.get(), dev);
  RawQp raw(qp.get());
  RawCq raw_cq(cq.get());
  // Before the completion and after it.
  for (std::uint64_t i = 0; i < 6; i++) {
    if (i % 2 == 0) raw_cq.arm();
    (void)raw.next(TERN_WR_NOP, i);
    raw.post();
    if (i % 2 != 0) {
      while (!raw_cq.ready()) {
      }
      raw_cq.arm();
    }
    pollfd fd{.fd = channel->fd, .events = POLLIN, .revents = 0};
    require(::poll(&fd, 1, 20000) == 1, "no event {}", i);
    ibv_cq* from = nullptr;
    void* context = nullptr;
    require(ibv_get_cq_event(channel.get(), &from, &context) == 0 && from == cq.get(),
            "ibv_get_cq_event");
    ibv_ack_cq_events(from, 1);
    raw_cq.event_taken();
    require(le64toh(raw_cq.wait().wr_id) == i, "another completion");
  }
}

void query(const Device& dev) {
  terndv_context attrs{};
  attrs.comp_mask = ~std::uint64_t{0};
  require_err(terndv_query_device(dev.context(), &attrs), 0, "terndv_query_device");
  require(attrs.comp_mask == TERNDV_CONTEXT_MASK_DM_OPS, "comp_mask {:#x}", attrs.comp_mask);
  require(attrs.version == 0, "version");
  require(attrs.max_send_wr >= static_cast<std::uint32_t>(dev.attr().max_qp_wr), "max_send_wr");
  require(attrs.max_cqe == static_cast<std::uint32_t>(dev.attr().max_cqe), "max_cqe");
  require(attrs.dm_ops == 7, "dm_ops {:#x}", attrs.dm_ops);
  require((attrs.flags & TERNDV_CONTEXT_FLAGS_UDP_SPORT) != 0, "flags {:#x}", attrs.flags);
}

void supported(const Device& dev) {
  require(terndv_is_supported(dev.context()->device), "not a tern device");
  terndv_obj obj{};
  require_err(terndv_init_obj(&obj, std::uint64_t{1} << 63), EOPNOTSUPP, "an unknown object");
  require_err(terndv_init_obj(&obj, TERNDV_OBJ_QP), EINVAL, "no object");
}

}  // namespace

std::vector<Test> query_tests(const Device& dev) {
  return tests_of(dev, {{"query-device", query}, {"is-supported", supported}});
}

std::vector<Test> post_tests(const Device& dev) {
  return tests_of(dev, {{"raw-send", send_by_hand},
                        {"raw-one-sided", one_sided_by_hand},
                        {"raw-srq", shared_receives_by_hand},
                        {"raw-datagram", datagram_by_hand},
                        {"raw-arm", arm_by_hand}});
}

}  // namespace guest
