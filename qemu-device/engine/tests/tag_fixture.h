// SPDX-License-Identifier: GPL-2.0-or-later
// Node a sends messages with tags to node b.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/mini_driver.h"
#include "transport/tag_headers.h"

namespace tern {

inline constexpr std::uint8_t kMatch = TERN_CQE_F_RECV | TERN_CQE_F_TM_MATCH;
inline constexpr std::uint8_t kData = TERN_CQE_F_RECV | TERN_CQE_F_TM_DATA_VALID;
inline constexpr std::uint8_t kWhole = kMatch | kData;

inline std::uint32_t be(std::uint32_t v) { return le(std::uint32_t{__builtin_bswap32(v)}); }
inline std::uint64_t be(std::uint64_t v) { return le(std::uint64_t{__builtin_bswap64(v)}); }

inline tern_tm_header tm_header(std::uint8_t opcode, std::uint64_t tag, std::uint32_t app_ctx = 0) {
  return {opcode, {}, be(app_ctx), be(tag)};
}

inline std::uint64_t tag_of(const Wc& wc) {
  tern_tm_cqe match;
  std::memcpy(&match, &wc, sizeof(match));
  return le(std::uint64_t{match.tag});
}

inline std::uint32_t app_ctx_of(const Wc& wc) {
  tern_tm_cqe match;
  std::memcpy(&match, &wc, sizeof(match));
  return le(match.app_ctx);
}

// Node a sends to QPs of node b, which share an SRQ with tags.
class TagTest : public ::testing::Test {
 protected:
  explicit TagTest(std::uint64_t seed = 11) : sim(seed) { src.fill(3); }

  struct Options {
    std::uint32_t tags = 16;
    unsigned pairs = 1;
    bool fetches = true;  // the device serves rendezvous
    std::uint8_t max_rd_atomic = 16;
    std::uint8_t log_ops = 4;
    unsigned log_cq = 10;
  };
  void make(const Options& options) {
    cq = &b.create_cq(options.log_cq);
    srq =
        &b.create_srq({.log_size = 6, .cq = cq, .tags = options.tags, .log_ops = options.log_ops});
    ASSERT_EQ(srq->created(), TERN_ST_OK);
    QpOptions qp{.max_rd_atomic = options.max_rd_atomic, .min_rnr_timer = 14};
    for (unsigned i = 0; i < options.pairs; ++i) {
      QpOptions mine = qp;
      mine.srq = srq;
      if (options.fetches) mine.flags = TERN_QP_F_NO_SQ;
      qa.push_back(&a.create_qp(qp));
      qb.push_back(&b.create_qp(mine));
      ASSERT_EQ(qb.back()->created(), TERN_ST_OK);
      qa.back()->connect(*qb.back());
      qb.back()->connect(*qa.back());
    }
    for (unsigned i = 0; i < 32; ++i) srq->post({spare.sge(i * 4096, 4096)}, 1000 + i);
  }
  void make() { make(Options{}); }

  // Adds a tag for `len` bytes at `at` of dst; recv_wr_id and handle are `id`. Returns its CQE.
  Wc add(std::uint64_t tag, std::uint64_t id, std::uint32_t at = 0, std::uint32_t len = 4096,
         std::uint32_t unexpected = 0, bool sync = false) {
    TagOp op{.handle = static_cast<std::uint32_t>(id),
             .wr_id = 500 + id,
             .recv_wr_id = id,
             .tag = tag,
             .unexpected = unexpected};
    if (sync) op.flags |= TERN_TM_F_SYNC;
    if (len != 0) op.sges = {dst.sge(at, len)};
    srq->post_op(op);
    const Wc wc = cq->wait();
    EXPECT_EQ(wc.opcode, TERN_TM_CQE_ADD);
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    EXPECT_EQ(le(wc.wr_id), 500 + id);
    EXPECT_EQ(le(wc.srqn), srq->number());
    return wc;
  }
  Wc remove(std::uint32_t handle) {
    srq->post_op(TagOp{.opcode = TERN_TM_DEL, .handle = handle, .wr_id = 77});
    const Wc wc = cq->wait();
    EXPECT_EQ(wc.opcode, TERN_TM_CQE_DEL);
    EXPECT_EQ(le(wc.wr_id), 77U);
    return wc;
  }
  Wc synchronize(std::uint32_t unexpected) {
    srq->post_op(TagOp{.opcode = TERN_TM_SYNC,
                       .flags = TERN_TM_F_SIGNALED | TERN_TM_F_SYNC,
                       .unexpected = unexpected});
    const Wc wc = cq->wait();
    EXPECT_EQ(wc.opcode, TERN_TM_CQE_SYNC);
    EXPECT_EQ(wc.status, TERN_CQE_SUCCESS);
    return wc;
  }
  // Posts a message with `bytes` of data, bytes [at, at + bytes) of src.
  void send_eager(unsigned qp, std::uint64_t tag, std::uint32_t bytes, std::uint32_t at = 0,
                  std::uint8_t opcode = TERN_TMH_EAGER) {
    const tern_tm_header header = tm_header(opcode, tag, 0xabcd);
    TestMr& mr = a.reg(4096);
    std::memcpy(mr.bytes().data(), &header, sizeof(header));
    std::vector<tern_sge> sges = {mr.sge(0, sizeof(header))};
    if (bytes != 0) sges.push_back(src.sge(at, bytes));
    qa[qp]->post(send(sges));
  }
  void send_request(unsigned qp, std::uint64_t tag, const TestMr& from, std::uint32_t at,
                    std::uint32_t bytes, std::uint32_t extra = 0) {
    const TagHeaders headers{tm_header(TERN_TMH_RNDV, tag, 0x1234),
                             {be(from.iova + at), be(from.key), be(bytes)}};
    TestMr& mr = a.reg(4096);
    std::memcpy(mr.bytes().data(), &headers, sizeof(headers));
    qa[qp]->post(send({mr.sge(0, sizeof(headers) + extra)}));
  }
  void expect_sent(unsigned qp, std::uint8_t status = TERN_CQE_SUCCESS) {
    const Wc wc = qa[qp]->wait_send();
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
  }
  Wc expect(std::uint8_t opcode, std::uint64_t wr_id, std::uint8_t flags,
            std::uint8_t status = TERN_CQE_SUCCESS) {
    const Wc wc = cq->wait();
    EXPECT_EQ(wc.opcode, opcode);
    EXPECT_EQ(wc.status, status) << status_name(wc.status);
    EXPECT_EQ(le(wc.wr_id), wr_id);
    EXPECT_EQ(wc.flags, flags);
    EXPECT_EQ(le(wc.srqn), srq->number());
    return wc;
  }
  // A message that no tag matches, which takes receive WQE number `n`.
  void expect_unexpected(std::uint64_t n, std::uint8_t flags = TERN_CQE_F_RECV) {
    expect(TERN_RECV_TM, 1000 + n, flags);
  }
  // Notes what the record of the SRQ has whenever the device has written a CQE.
  void watch_cqes() {
    b.host.stored = [this](const std::byte* at) {
      const std::byte* const ring = cq->memory().at(0);
      if (at >= ring && at < ring + QueueMemory::kPage)
        at_cqe.push_back({srq->ops_done(), srq->tags_released()});
    };
  }
  bool arrived(std::uint32_t at, std::uint32_t from, std::uint32_t len) {
    return std::memcmp(dst.bytes(at, len).data(), src.bytes(from, len).data(), len) == 0;
  }

  Sim sim;
  TestNode a{sim};
  TestNode b{sim};
  TestMr& src = a.reg(1 << 20);
  TestMr& dst = b.reg(1 << 20);
  TestMr& spare = b.reg(1 << 17);
  TestSrq* srq = nullptr;
  TestCq* cq = nullptr;
  std::vector<TestQp*> qa;
  std::vector<TestQp*> qb;
  struct Indices {
    std::uint32_t ops_done;
    std::uint32_t tags_released;
    friend bool operator==(const Indices&, const Indices&) = default;
  };
  std::vector<Indices> at_cqe;
};

}  // namespace tern
