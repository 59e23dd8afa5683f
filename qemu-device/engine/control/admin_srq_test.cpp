// SPDX-License-Identifier: GPL-2.0-or-later
// Commands on shared receive queues and XRC objects.
#include <functional>
#include <utility>
#include <vector>

#include "control/admin_fixture.h"

namespace tern {
namespace {

class AdminSrqTest : public AdminTest {
 protected:
  std::uint32_t uar = 0;
  std::uint32_t pd = 0;
  std::uint32_t cqn = 0;
  tern_cmd_create_srq good{};

  void SetUp() override {
    enable();
    uar = make_uar();
    pd = make_pd();
    cqn = make(TERN_CMD_CREATE_CQ, cq_command(TERN_NO_EQ, uar));
    good = srq_command(pd);
  }
  Status modify(
      std::uint32_t srqn, std::uint32_t mask,
      const std::function<void(tern_cmd_modify_srq&)>& change = [](auto&) {}) {
    tern_cmd_modify_srq c{.srqn = srqn, .mask = mask};
    change(c);
    return run(TERN_CMD_MODIFY_SRQ, c);
  }
  tern_rsp_query_srq query(std::uint32_t srqn) {
    EXPECT_EQ(on(TERN_CMD_QUERY_SRQ, srqn, 8), TERN_ST_OK);
    return out<tern_rsp_query_srq>();
  }
};

TEST_F(AdminSrqTest, CreationChecksEveryField) {
  using C = tern_cmd_create_srq;
  const std::pair<Status, std::function<void(C&)>> rows[] = {
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = 4; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = TERN_SRQ_F_XRC | TERN_SRQ_F_TM; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_ops = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.ops_pages.addr = 4096; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.uar = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.max_tags = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = 0x81; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.cqn = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.xrcdn = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_size = 16; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_size = 255; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_stride = 4; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_stride = 11; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_stride = 255; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_stride = 8; }},  // past the list
      {TERN_ST_BAD_PARAM, [](C& c) { c.record += 32; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.record += 64; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.num = 0; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.kind = 3; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.page_shift = 10; }},
      {TERN_ST_DMA_ERROR, [](C& c) { c.pages.addr = 0x40; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.pdn = 0; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { ++c.pdn; }},
  };
  int row = 0;
  for (const auto& [st, spoil] : rows) {
    C c = good;
    spoil(c);
    EXPECT_EQ(run(TERN_CMD_CREATE_SRQ, c, 8), st) << "row " << row;
    ++row;
  }
  EXPECT_EQ(objects().srq, 0U);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_OK) << "no attempt left a user behind";
}

TEST_F(AdminSrqTest, TagsCheckEveryField) {
  using C = tern_cmd_create_srq;
  C tags = good;
  tags.flags = TERN_SRQ_F_TM;
  tags.cqn = cqn;
  tags.log_ops = 5;
  tags.ops_pages = pages(1);
  tags.uar = uar;
  tags.max_tags = 10;
  const std::pair<Status, std::function<void(C&)>> rows[] = {
      {TERN_ST_BAD_HANDLE, [](C& c) { c.cqn = 0; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.pdn = 0; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { ++c.uar; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.xrcdn = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.max_tags = 0; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.max_tags = 1025; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.max_tags = 0xffffffff; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_ops = 6; }},  // past the list
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_ops = TERN_TM_MAX_LOG_OPS + 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_ops = 255; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.ops_pages.num = 0; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.ops_pages.rsvd_e = 1; }},
      {TERN_ST_DMA_ERROR, [](C& c) { c.ops_pages.addr = 0x40; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.num = 0; }},
  };
  const auto before = objects();
  int row = 0;
  for (const auto& [st, spoil] : rows) {
    C c = tags;
    spoil(c);
    EXPECT_EQ(run(TERN_CMD_CREATE_SRQ, c, 8), st) << "row " << row;
    ++row;
  }
  EXPECT_EQ(objects().page_entries, before.page_entries);
  const std::uint32_t srqn = make(TERN_CMD_CREATE_SRQ, tags);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uar), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_SRQ, srqn), TERN_ST_OK);
  EXPECT_EQ(objects().page_entries, before.page_entries);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_OK);
}

TEST_F(AdminSrqTest, LayoutsThatAreFine) {
  using C = tern_cmd_create_srq;
  const std::function<void(C&)> rows[] = {
      [](C&) {},
      [](C& c) { c.log_size = 0; },
      [](C& c) { c.log_stride = 5, c.log_size = 7; },
      [](C& c) { c.log_stride = 10, c.log_size = 2; },
      [](C& c) { c.record += 128; },
      [this](C& c) {
        c.pages = {};
        c.pages.addr = host.alloc(2 * 4096);
      },
  };
  for (const auto& change : rows) {
    C c = good;
    change(c);
    EXPECT_EQ(on(TERN_CMD_DESTROY_SRQ, make(TERN_CMD_CREATE_SRQ, c)), TERN_ST_OK);
  }
}

TEST_F(AdminSrqTest, CountsAndUsers) {
  const std::uint64_t before = objects().page_entries;
  const std::uint32_t srqn = make(TERN_CMD_CREATE_SRQ, good);
  EXPECT_GE(srqn, 1U);
  EXPECT_EQ(objects().srq, 1U);
  EXPECT_EQ(objects().page_entries, before + 1);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_BUSY);
  const std::uint32_t other_pd = make_pd();
  tern_cmd_create_qp qp = qp_command(other_pd, uar, cqn);
  qp.flags = TERN_QP_F_SRQ | TERN_QP_F_NO_RQ;
  qp.srqn = srqn + 1;
  EXPECT_EQ(run(TERN_CMD_CREATE_QP, qp, 8), TERN_ST_BAD_HANDLE);
  qp.srqn = srqn;
  const std::uint32_t first = make(TERN_CMD_CREATE_QP, qp);
  const std::uint32_t second = make(TERN_CMD_CREATE_QP, qp);
  qp.pages.num = 0;
  EXPECT_EQ(run(TERN_CMD_CREATE_QP, qp, 8), TERN_ST_BAD_PARAM) << "and leaves no user behind";
  EXPECT_EQ(on(TERN_CMD_DESTROY_SRQ, srqn), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_QP, first), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_SRQ, srqn), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_QP, second), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_SRQ, srqn), TERN_ST_OK);
  EXPECT_EQ(objects().srq, 0U);
  EXPECT_EQ(objects().page_entries, before);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_OK);
  for (const std::uint32_t bad : {0U, srqn, 77U, 0xffffffffU}) {
    EXPECT_EQ(on(TERN_CMD_DESTROY_SRQ, bad), TERN_ST_BAD_HANDLE);
    EXPECT_EQ(on(TERN_CMD_QUERY_SRQ, bad, 8), TERN_ST_BAD_HANDLE);
    EXPECT_EQ(modify(bad, 0), TERN_ST_BAD_HANDLE);
  }
}

TEST_F(AdminSrqTest, NoMoreThanTheLimit) {
  good.pages = {};
  good.pages.addr = host.alloc(2 * 4096);  // one buffer for all, because nothing is posted
  for (unsigned i = 0; i < 16384; ++i) (void)make(TERN_CMD_CREATE_SRQ, good);
  EXPECT_EQ(run(TERN_CMD_CREATE_SRQ, good, 8), TERN_ST_NO_RESOURCE);
  EXPECT_EQ(on(TERN_CMD_DESTROY_SRQ, 100), TERN_ST_OK);
  EXPECT_EQ(make(TERN_CMD_CREATE_SRQ, good), 100U);
}

TEST_F(AdminSrqTest, ModifyChecksEveryField) {
  const std::uint32_t srqn = make(TERN_CMD_CREATE_SRQ, good);
  host.put(good.record, 20U);  // 20 WQEs posted
  EXPECT_EQ(modify(srqn, TERN_SRQA_LIMIT, [](auto& c) { c.limit = 10; }), TERN_ST_OK);
  using C = tern_cmd_modify_srq;
  const auto fresh = [this](C& c) {
    c.pages = pages(1);
    c.log_size = 5;
  };
  const std::pair<Status, std::function<void(C&)>> rows[] = {
      {TERN_ST_BAD_PARAM, [](C& c) { c.mask = 4; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.mask |= 0x80000000; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.mask = TERN_SRQA_LIMIT; }},  // with a page list
      {TERN_ST_BAD_PARAM, [](C& c) { c.mask |= TERN_SRQA_LIMIT, c.limit = 33; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.mask |= TERN_SRQA_LIMIT, c.limit = 0xffffffff; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_size = 16; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_size = 255; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_size = 6; }},  // past the list
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_size = 4; }},  // 20 are posted
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_size = 3; }},  // below the limit, too
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.num = 0; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.kind = 3; }},
      {TERN_ST_DMA_ERROR, [](C& c) { c.pages.addr = 0x40; }},
  };
  int row = 0;
  for (const auto& [st, spoil] : rows) {
    EXPECT_EQ(modify(srqn, TERN_SRQA_RESIZE,
                     [&](C& c) {
                       fresh(c);
                       spoil(c);
                     }),
              st)
        << "row " << row;
    ++row;
  }
  EXPECT_EQ(query(srqn).limit, 10U) << "nothing has changed";
  EXPECT_EQ(modify(srqn, TERN_SRQA_LIMIT, [](C& c) { c.limit = 33; }), TERN_ST_BAD_PARAM);
  EXPECT_EQ(modify(srqn, 0), TERN_ST_OK);
  const std::uint64_t before = objects().page_entries;
  EXPECT_EQ(modify(srqn, TERN_SRQA_RESIZE | TERN_SRQA_LIMIT,
                   [&](C& c) {
                     c.pages = pages(2);
                     c.log_size = 6;
                     c.limit = 20;
                   }),
            TERN_ST_OK);
  EXPECT_EQ(query(srqn).limit, 20U);
  EXPECT_EQ(objects().page_entries, before + 1);
}

TEST_F(AdminSrqTest, EventsOfADestroyedQueueAreDropped) {
  const std::uint32_t srqn = make(TERN_CMD_CREATE_SRQ, good);
  EXPECT_EQ(modify(srqn, TERN_SRQA_LIMIT, [](auto& c) { c.limit = 1; }), TERN_ST_OK);
  host.put(good.record, 33U);
  EXPECT_EQ(modify(srqn, TERN_SRQA_LIMIT, [](auto& c) { c.limit = 1; }), TERN_ST_BAD_STATE);
  EXPECT_EQ(device.datapath.async_events.waiting(), 2U);
  EXPECT_EQ(on(TERN_CMD_DESTROY_SRQ, srqn), TERN_ST_OK);
  EXPECT_EQ(device.datapath.async_events.waiting(), 0U);
}

// ---- XRC ----

class AdminXrcTest : public AdminSrqTest {
 protected:
  std::uint32_t xrcd = 0;
  tern_cmd_create_srq named{};  // an XRC SRQ
  tern_cmd_create_qp target{};
  tern_cmd_create_qp initiator{};

  void SetUp() override {
    AdminSrqTest::SetUp();
    xrcd = make_xrcd();
    named = good;
    named.flags = TERN_SRQ_F_XRC;
    named.xrcdn = xrcd;
    named.cqn = cqn;
    target.xrcdn = xrcd;
    target.type = TERN_QPT_XRC_TGT;
    target.flags = TERN_QP_F_NO_SQ | TERN_QP_F_NO_RQ;
    initiator = qp_command(pd, uar, cqn);
    initiator.type = TERN_QPT_XRC_INI;
    initiator.flags = TERN_QP_F_NO_RQ;
  }
};

TEST_F(AdminXrcTest, DomainsCountTheirUsers) {
  EXPECT_EQ(objects().xrcd, 1U);
  const std::uint32_t other = make_xrcd();
  EXPECT_NE(other, xrcd);
  EXPECT_EQ(on(TERN_CMD_FREE_XRCD, other), TERN_ST_OK);
  for (const std::uint32_t bad : {0U, other, 0xffffffffU}) {
    EXPECT_EQ(on(TERN_CMD_FREE_XRCD, bad), TERN_ST_BAD_HANDLE);
  }
  const std::uint32_t srqn = make(TERN_CMD_CREATE_SRQ, named);
  EXPECT_EQ(on(TERN_CMD_FREE_XRCD, xrcd), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_BUSY) << "the SRQ completes into it";
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_BUSY);
  const std::uint32_t qpn = make(TERN_CMD_CREATE_QP, target);
  EXPECT_EQ(on(TERN_CMD_DESTROY_SRQ, srqn), TERN_ST_OK) << "no target holds an SRQ";
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_XRCD, xrcd), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_QP, qpn), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_XRCD, xrcd), TERN_ST_OK);
  const tern_rsp_objects left = objects();
  EXPECT_EQ(left.xrcd | left.srq | left.qp | left.pd | left.cq, 0U);
  EXPECT_EQ(left.page_entries, 0U);
}

TEST_F(AdminXrcTest, NoMoreDomainsThanTheLimit) {
  for (unsigned i = 1; i < 16384; ++i) (void)make_xrcd();
  EXPECT_EQ(run(entry(TERN_CMD_ALLOC_XRCD, 0, 8)), TERN_ST_NO_RESOURCE);
}

TEST_F(AdminXrcTest, QueuesCheckWhatTheyName) {
  using C = tern_cmd_create_srq;
  const std::pair<Status, std::function<void(C&)>> rows[] = {
      {TERN_ST_BAD_HANDLE, [](C& c) { c.xrcdn = 0; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { ++c.xrcdn; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.cqn = 0; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { ++c.cqn; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.pdn = 0; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = 0; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_size = 16; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.num = 0; }},
  };
  int row = 0;
  for (const auto& [st, spoil] : rows) {
    C c = named;
    spoil(c);
    EXPECT_EQ(run(TERN_CMD_CREATE_SRQ, c, 8), st) << "row " << row;
    ++row;
  }
  EXPECT_EQ(on(TERN_CMD_FREE_XRCD, xrcd), TERN_ST_OK) << "no attempt left a user behind";
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_OK);
}

TEST_F(AdminXrcTest, HalfConnectionsCheckEveryField) {
  using C = tern_cmd_create_qp;
  const std::uint32_t srqn = make(TERN_CMD_CREATE_SRQ, named);
  const std::pair<Status, std::function<void(C&)>> targets[] = {
      {TERN_ST_BAD_HANDLE, [](C& c) { c.xrcdn = 0; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { ++c.xrcdn; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = 0; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = TERN_QP_F_NO_RQ; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = TERN_QP_F_NO_SQ; }},
      {TERN_ST_BAD_PARAM, [=](C& c) { c.flags |= TERN_QP_F_SRQ, c.srqn = srqn; }},
      {TERN_ST_BAD_PARAM, [=](C& c) { c.srqn = srqn; }},
      {TERN_ST_BAD_PARAM, [this](C& c) { c.pdn = pd; }},
      {TERN_ST_BAD_PARAM, [this](C& c) { c.uar = uar; }},
      {TERN_ST_BAD_PARAM, [this](C& c) { c.send_cqn = cqn; }},
      {TERN_ST_BAD_PARAM, [this](C& c) { c.recv_cqn = cqn; }},
      {TERN_ST_BAD_PARAM, [this](C& c) { c.pages = pages(1); }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.record = 256; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.sq_offset = 64; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.rq_offset = 64; }},
  };
  int row = 0;
  for (const auto& [st, spoil] : targets) {
    C c = target;
    spoil(c);
    EXPECT_EQ(run(TERN_CMD_CREATE_QP, c, 8), st) << "target, row " << row;
    ++row;
  }
  const std::pair<Status, std::function<void(C&)>> initiators[] = {
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = 0; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags |= TERN_QP_F_NO_SQ; }},
      {TERN_ST_BAD_PARAM, [=](C& c) { c.flags |= TERN_QP_F_SRQ, c.srqn = srqn; }},
      {TERN_ST_BAD_PARAM, [this](C& c) { c.xrcdn = xrcd; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.pdn = 0; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.recv_cqn = 0; }},
  };
  row = 0;
  for (const auto& [st, spoil] : initiators) {
    C c = initiator;
    spoil(c);
    EXPECT_EQ(run(TERN_CMD_CREATE_QP, c, 8), st) << "initiator, row " << row;
    ++row;
  }
  // An XRC SRQ cannot be the receive queue of a QP.
  tern_cmd_create_qp rc = qp_command(pd, uar, cqn);
  rc.flags = TERN_QP_F_SRQ | TERN_QP_F_NO_RQ;
  rc.srqn = srqn;
  EXPECT_EQ(run(TERN_CMD_CREATE_QP, rc, 8), TERN_ST_BAD_PARAM);
  EXPECT_EQ(objects().qp, 0U);
  const std::uint32_t made = make(TERN_CMD_CREATE_QP, initiator);
  EXPECT_EQ(on(TERN_CMD_FREE_XRCD, xrcd), TERN_ST_BUSY) << "of the SRQ";
  EXPECT_EQ(on(TERN_CMD_DESTROY_SRQ, srqn), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_XRCD, xrcd), TERN_ST_OK) << "an initiator is in no domain";
  EXPECT_EQ(on(TERN_CMD_DESTROY_QP, made), TERN_ST_OK);
}

}  // namespace
}  // namespace tern
