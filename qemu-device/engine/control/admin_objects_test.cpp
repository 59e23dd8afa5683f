// SPDX-License-Identifier: GPL-2.0-or-later
// Commands that create, modify, query and destroy objects.
#include "control/admin_commands.h"

#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "control/admin_fixture.h"

namespace tern {
namespace {

// ---- doorbell pages and protection domains ----

TEST_F(AdminTest, DoorbellPages) {
  enable();
  std::vector<std::uint32_t> uars;
  for (int i = 0; i < 15; ++i) uars.push_back(make_uar());
  EXPECT_EQ(std::set(uars.begin(), uars.end()).size(), 15U);
  for (const std::uint32_t uar : uars) {
    EXPECT_GE(uar, 1U);
    EXPECT_LT(uar, 16U);
  }
  EXPECT_EQ(objects().uar, 15U);
  EXPECT_EQ(run(entry(TERN_CMD_ALLOC_UAR, 0, 8)), TERN_ST_NO_RESOURCE);
  for (const std::uint32_t bad : {0U, 16U, 0xffffffffU}) {
    EXPECT_EQ(on(TERN_CMD_FREE_UAR, bad), TERN_ST_BAD_HANDLE);
  }
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uars[4]), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uars[4]), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(make_uar(), uars[4]);
  // The search for a free page continues after the page that was allocated last.
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uars[2]), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uars[9]), TERN_ST_OK);
  EXPECT_EQ(make_uar(), uars[9]);
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uars[9]), TERN_ST_OK);
  EXPECT_EQ(make_uar(), uars[2]);
  EXPECT_EQ(objects().uar, 14U);
}

TEST_F(AdminTest, PageShiftIsTheStrideOfDoorbellPages) {
  configure();
  set(TERN_REG_PAGE_SHIFT, 14);
  set(TERN_REG_CTRL, TERN_CTRL_ENABLE);
  ASSERT_EQ(run(entry(TERN_CMD_QUERY_CAPS, 0, sizeof(tern_rsp_caps))), TERN_ST_OK);
  EXPECT_EQ(out<tern_rsp_caps>().max_uar, 4U);
  for (int i = 0; i < 3; ++i) (void)make_uar();
  EXPECT_EQ(run(entry(TERN_CMD_ALLOC_UAR, 0, 8)), TERN_ST_NO_RESOURCE);
}

TEST_F(AdminTest, ProtectionDomains) {
  enable();
  const std::uint32_t pd = make_pd();
  const std::uint32_t kernel = make_pd(TERN_PD_PRIVILEGED);
  EXPECT_NE(pd, kernel);
  EXPECT_EQ(run(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{2, 0}, 8), TERN_ST_BAD_PARAM);
  EXPECT_EQ(run(TERN_CMD_ALLOC_PD, tern_cmd_alloc_pd{0x80000001, 0}, 8), TERN_ST_BAD_PARAM);
  for (const std::uint32_t bad : {0U, 100U, 0xffffffffU}) {
    EXPECT_EQ(on(TERN_CMD_FREE_PD, bad), TERN_ST_BAD_HANDLE);
  }
  const std::uint32_t key = make(TERN_CMD_CREATE_MR, mr_command(pd));
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, kernel), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_MR, key), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(objects().pd, 0U);
}

// ---- event and completion queues ----

TEST_F(AdminTest, EventQueues) {
  enable();
  const std::uint32_t eqn = make(TERN_CMD_CREATE_EQ, eq_command());
  const std::uint32_t async = make(TERN_CMD_CREATE_EQ, eq_command(TERN_EQ_ASYNC));
  EXPECT_EQ(run(TERN_CMD_CREATE_EQ, eq_command(TERN_EQ_ASYNC), 8), TERN_ST_NO_RESOURCE);
  tern_cmd_create_eq bad = eq_command();
  bad.vector = 4;
  EXPECT_EQ(run(TERN_CMD_CREATE_EQ, bad, 8), TERN_ST_BAD_PARAM);
  EXPECT_EQ(objects().eq, 2U);
  EXPECT_EQ(objects().page_entries, 2U);
  EXPECT_EQ(run(TERN_CMD_CREATE_CQ, cq_command(async, 0), 8), TERN_ST_BAD_PARAM);

  const std::uint32_t cqn = make(TERN_CMD_CREATE_CQ, cq_command(eqn, 0));
  EXPECT_EQ(on(TERN_CMD_DESTROY_EQ, eqn), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_EQ, eqn), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_EQ, eqn), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(on(TERN_CMD_DESTROY_EQ, async), TERN_ST_OK);
  EXPECT_EQ(device.datapath.async_events.eq, nullptr);
  EXPECT_EQ(objects().eq, 0U);
}

TEST_F(AdminTest, AsyncQueueGetsWhatWaited) {
  enable();
  device.set_link(true);
  const tern_cmd_create_eq cmd = eq_command(TERN_EQ_ASYNC);
  (void)make(TERN_CMD_CREATE_EQ, cmd);
  const auto eqe = host.get<tern_eqe>(host.get<std::uint64_t>(cmd.pages.addr));
  EXPECT_EQ(eqe.type, TERN_EV_PORT_CHANGE);
  EXPECT_EQ(eqe.phase, 1U);
}

// Only a change raises an event: the driver answers an event with a command, which may set the same
// values again.
TEST_F(AdminTest, PortThatStaysAsItIsRaisesNothing) {
  enable();
  device.set_link(true);
  const tern_cmd_create_eq cmd = eq_command(TERN_EQ_ASYNC);
  (void)make(TERN_CMD_CREATE_EQ, cmd);
  const std::uint64_t ring = host.get<std::uint64_t>(cmd.pages.addr);
  const auto events = [&] {
    unsigned n = 0;
    while (host.get<tern_eqe>(ring + n * sizeof(tern_eqe)).phase == 1) ++n;
    return n;
  };
  tern_cmd_query_port port{1, {}};
  const auto query = [&] {
    EXPECT_EQ(run(TERN_CMD_QUERY_PORT, port, 24), TERN_ST_OK);
    return out<tern_rsp_port>();
  };
  tern_cmd_modify_port m{
      .mask = TERN_PORT_MTU | TERN_PORT_MAC | TERN_PORT_ENABLE, .mtu = query().mtu, .port = 1};
  std::memcpy(m.mac, query().mac, sizeof(m.mac));
  m.enable = 1;
  EXPECT_EQ(run(TERN_CMD_MODIFY_PORT, m), TERN_ST_OK);
  ASSERT_EQ(events(), 1U) << "the link alone";
  EXPECT_EQ(run(TERN_CMD_MODIFY_PORT, m), TERN_ST_OK);
  device.set_link(true);
  m.mask = 0;
  EXPECT_EQ(run(TERN_CMD_MODIFY_PORT, m), TERN_ST_OK);
  m.mask = TERN_PORT_MTU;
  m.mtu = 0xffffffff;
  EXPECT_EQ(run(TERN_CMD_MODIFY_PORT, m), TERN_ST_BAD_PARAM);
  EXPECT_EQ(events(), 1U);
  const std::uint32_t speed = query().speed;
  for (const std::uint32_t same : {0U, speed, speed + 1}) device.set_speed(same);
  EXPECT_EQ(events(), 1U);
  device.set_speed(25'000);
  EXPECT_EQ(query().speed, 25'000U);
  device.set_speed(25'000);
  EXPECT_EQ(events(), 2U) << "the speed once";
  device.set_speed(0);
  EXPECT_EQ(query().speed, speed) << "as configured";
  EXPECT_EQ(events(), 3U);
  EXPECT_EQ(device.datapath.async_events.waiting(), 0U);
  m.mtu = query().mtu - 1;
  EXPECT_EQ(run(TERN_CMD_MODIFY_PORT, m), TERN_ST_OK);
  EXPECT_EQ(events(), 4U);
}

// Records are reused, and memory from software may contain anything.
TEST_F(AdminTest, NewQueuesClearWhatTheDeviceWritesInTheirRecords) {
  enable();
  const std::uint32_t pdn = make_pd();
  const std::uint32_t uar = make_uar();
  const std::uint32_t cqn =
      make(TERN_CMD_CREATE_CQ, cq_command(make(TERN_CMD_CREATE_EQ, eq_command()), uar));
  const auto dirty = [&](std::uint64_t record, std::size_t len) {
    std::memset(host.at(record, len), 0xee, len);
  };
  const auto word = [&](std::uint64_t addr) { return host.get<std::uint32_t>(addr); };
  tern_cmd_create_qp qp = qp_command(pdn, uar, cqn);
  dirty(qp.record, sizeof(tern_qp_record));
  tern_cmd_create_qp wrong = qp;
  wrong.pages.num = 1;
  EXPECT_EQ(run(TERN_CMD_CREATE_QP, wrong, 8), TERN_ST_BAD_PARAM);
  EXPECT_EQ(word(qp.record + offsetof(tern_qp_record, status)), 0xeeeeeeeeU)
      << "a command that fails stores nothing";
  const std::uint32_t qpn = make(TERN_CMD_CREATE_QP, qp);
  EXPECT_EQ(word(qp.record + offsetof(tern_qp_record, status)), 0U);
  EXPECT_EQ(word(qp.record + offsetof(tern_qp_record, sq_pi)), 0xeeeeeeeeU) << "software's";
  EXPECT_EQ(word(qp.record + offsetof(tern_qp_record, rq_pi)), 0xeeeeeeeeU) << "software's";
  // RESET stores 0 too, from any state.
  tern_cmd_modify_qp m{.qpn = qpn, .mask = TERN_QPA_STATE};
  const auto go = [&](std::uint8_t state) {
    m.attr.state = state;
    EXPECT_EQ(run(TERN_CMD_MODIFY_QP, m), TERN_ST_OK);
    return word(qp.record + offsetof(tern_qp_record, status));
  };
  EXPECT_EQ(go(TERN_QPS_ERR), std::uint32_t{TERN_QP_ST_RQ_KICK});
  EXPECT_EQ(go(TERN_QPS_RESET), 0U);
  EXPECT_EQ(go(TERN_QPS_ERR), std::uint32_t{TERN_QP_ST_RQ_KICK});
  EXPECT_EQ(go(TERN_QPS_RESET), 0U);
  dirty(qp.record, sizeof(tern_qp_record));
  EXPECT_EQ(go(TERN_QPS_RESET), 0U) << "whatever software has stored there";
  // A new QP may have the record of one that ended in error.
  EXPECT_EQ(go(TERN_QPS_ERR), std::uint32_t{TERN_QP_ST_RQ_KICK});
  EXPECT_EQ(on(TERN_CMD_DESTROY_QP, qpn), TERN_ST_OK);
  EXPECT_EQ(word(qp.record + offsetof(tern_qp_record, status)), std::uint32_t{TERN_QP_ST_RQ_KICK});
  (void)make(TERN_CMD_CREATE_QP, qp);
  EXPECT_EQ(word(qp.record + offsetof(tern_qp_record, status)), 0U);

  const tern_cmd_create_srq srq = srq_command(pdn);
  dirty(srq.record, sizeof(tern_srq_record));
  (void)make(TERN_CMD_CREATE_SRQ, srq);
  EXPECT_EQ(word(srq.record + offsetof(tern_srq_record, ci)), 0U);
  EXPECT_EQ(word(srq.record + offsetof(tern_srq_record, pi)), 0xeeeeeeeeU) << "software's";
}

TEST_F(AdminTest, CompletionQueues) {
  enable();
  const std::uint32_t uar = make_uar();
  const std::uint32_t eqn = make(TERN_CMD_CREATE_EQ, eq_command());
  const tern_cmd_create_cq good = cq_command(eqn, uar);
  tern_cmd_create_cq c = good;
  c.eqn = eqn + 1;
  EXPECT_EQ(run(TERN_CMD_CREATE_CQ, c, 8), TERN_ST_BAD_HANDLE);
  c = good;
  c.uar = uar + 1;
  EXPECT_EQ(run(TERN_CMD_CREATE_CQ, c, 8), TERN_ST_BAD_HANDLE);
  c = good;
  c.uar = 0xffffffff;
  EXPECT_EQ(run(TERN_CMD_CREATE_CQ, c, 8), TERN_ST_BAD_HANDLE);
  c = good;
  c.flags = 2;
  EXPECT_EQ(run(TERN_CMD_CREATE_CQ, c, 8), TERN_ST_BAD_PARAM);
  EXPECT_EQ(objects().cq, 0U);

  std::vector<std::uint32_t> cqs;
  for (int i = 0; i < 16; ++i) cqs.push_back(make(TERN_CMD_CREATE_CQ, good));
  EXPECT_EQ(run(TERN_CMD_CREATE_CQ, good, 8), TERN_ST_NO_RESOURCE) << "the EQ has 16 entries";
  c = good;
  c.eqn = TERN_NO_EQ;
  for (int i = 16; i < 40; ++i) cqs.push_back(make(TERN_CMD_CREATE_CQ, c));
  EXPECT_EQ(run(TERN_CMD_CREATE_CQ, c, 8), TERN_ST_NO_RESOURCE) << "max_cq";
  EXPECT_EQ(objects().cq, 40U);
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uar), TERN_ST_BUSY);
  for (const std::uint32_t cqn : cqs) EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqs[0]), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uar), TERN_ST_OK);
}

TEST_F(AdminTest, CompletionQueuesThatAreQueried) {
  enable();
  const std::uint32_t eqn = make(TERN_CMD_CREATE_EQ, eq_command());
  const std::uint32_t cqn = make(TERN_CMD_CREATE_CQ, cq_command(eqn, make_uar()));
  EXPECT_EQ(on(TERN_CMD_QUERY_CQ, cqn + 1, sizeof(tern_rsp_query_cq)), TERN_ST_BAD_HANDLE);
  ASSERT_EQ(on(TERN_CMD_QUERY_CQ, cqn, sizeof(tern_rsp_query_cq)), TERN_ST_OK);
  const auto rsp = out<tern_rsp_query_cq>();
  EXPECT_EQ(rsp.pi, 0U);
  EXPECT_EQ(rsp.eqn, eqn);
  EXPECT_NE(rsp.generation, 0U);
}

TEST_F(AdminTest, CompletionQueuesThatChange) {
  enable();
  const std::uint32_t uar = make_uar();
  const std::uint32_t eqn = make(TERN_CMD_CREATE_EQ, eq_command());
  tern_cmd_create_cq create = cq_command(eqn, uar);
  create.flags = TERN_CQ_F_IGNORE_OVERRUN;
  const std::uint32_t cqn = make(TERN_CMD_CREATE_CQ, create);
  const std::uint64_t entries = objects().page_entries;
  EXPECT_EQ(run(TERN_CMD_MODIFY_CQ, tern_cmd_modify_cq{cqn + 1, 1, 1}), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(run(TERN_CMD_MODIFY_CQ, tern_cmd_modify_cq{cqn, 2, 0}), TERN_ST_BAD_PARAM);
  EXPECT_EQ(run(TERN_CMD_MODIFY_CQ, tern_cmd_modify_cq{cqn, 2, 1}), TERN_ST_OK);

  tern_cmd_resize_cq c{.pages = pages(8), .cqn = cqn + 1, .log_size = 9};
  EXPECT_EQ(run(TERN_CMD_RESIZE_CQ, c, 8), TERN_ST_BAD_HANDLE);
  c.cqn = cqn;
  ASSERT_EQ(run(TERN_CMD_RESIZE_CQ, c, 8), TERN_ST_OK);
  EXPECT_EQ(out<tern_rsp_resize_cq>().pi, 0U);
  EXPECT_EQ(objects().page_entries, entries + 7) << "1 page has become 8";
  c.log_size = 10;
  EXPECT_EQ(run(TERN_CMD_RESIZE_CQ, c, 8), TERN_ST_BAD_PARAM);
  EXPECT_EQ(objects().page_entries, entries + 7);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_OK);
}

// ---- regions ----

TEST_F(AdminTest, Regions) {
  enable();
  const std::uint32_t pd = make_pd();
  tern_cmd_create_mr c = mr_command(pd);
  c.pdn = pd + 1;
  EXPECT_EQ(run(TERN_CMD_CREATE_MR, c, 8), TERN_ST_BAD_HANDLE);
  c.pdn = 0;
  EXPECT_EQ(run(TERN_CMD_CREATE_MR, c, 8), TERN_ST_BAD_HANDLE);
  c.pdn = pd;
  c.kind = TERN_MR_FAST;
  EXPECT_EQ(run(TERN_CMD_CREATE_MR, c, 8), TERN_ST_DENIED);
  const std::uint32_t key = make(TERN_CMD_CREATE_MR, mr_command(pd));
  EXPECT_GE(key >> 8, 2U);
  EXPECT_EQ(on(TERN_CMD_QUERY_MR, key, 48), TERN_ST_OK);
  EXPECT_EQ(out<tern_rsp_mr>().length, 8192U);
  EXPECT_EQ(out<tern_rsp_mr>().pdn, pd);
  EXPECT_EQ(on(TERN_CMD_QUERY_MR, key ^ 1, 48), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(on(TERN_CMD_QUERY_MR, TERN_LKEY_DMA, 48), TERN_ST_BAD_HANDLE);
  tern_cmd_update_pages up{.pages = pages(1), .first = 1, .key = key};
  EXPECT_EQ(run(TERN_CMD_UPDATE_PAGES, up), TERN_ST_OK);
  up.first = 2;
  EXPECT_EQ(run(TERN_CMD_UPDATE_PAGES, up), TERN_ST_BAD_PARAM);
  EXPECT_EQ(objects().mr, 1U);
  EXPECT_EQ(objects().page_entries, 2U);
  EXPECT_EQ(on(TERN_CMD_DESTROY_MR, key + 0x100), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(on(TERN_CMD_DESTROY_MR, key), TERN_ST_OK);
  EXPECT_EQ(objects().page_entries, 0U);
}

TEST_F(AdminTest, ReregisteredRegions) {
  enable();
  const std::uint32_t pd = make_pd();
  const std::uint32_t pd2 = make_pd();
  const std::uint32_t key = make(TERN_CMD_CREATE_MR, mr_command(pd));
  tern_cmd_rereg_mr c{.key = key, .mask = TERN_REREG_PD};
  for (const std::uint32_t none : {0U, pd2 + 1, 0xffffffffU}) {
    c.pdn = none;
    EXPECT_EQ(run(TERN_CMD_REREG_MR, c), TERN_ST_BAD_HANDLE);
  }
  c.mask = 0;  // then the PD is ignored
  EXPECT_EQ(run(TERN_CMD_REREG_MR, c), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_BUSY);
  c.mask = TERN_REREG_PD | TERN_REREG_TRANS;
  c.pdn = pd2;
  c.pages = pages(3);
  c.length = 3 * 4096;
  EXPECT_EQ(run(TERN_CMD_REREG_MR, c), TERN_ST_OK);
  EXPECT_EQ(objects().mr, 1U);
  EXPECT_EQ(objects().page_entries, 3U);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd2), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_QUERY_MR, key, 48), TERN_ST_OK);
  EXPECT_EQ(out<tern_rsp_mr>().pdn, pd2);
  EXPECT_EQ(out<tern_rsp_mr>().length, 3 * 4096U);
  EXPECT_EQ(on(TERN_CMD_DESTROY_MR, key), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd2), TERN_ST_OK);
}

// ---- device memory ----

TEST_F(AdminTest, DeviceMemory) {
  enable();
  const std::uint32_t pd = make_pd();
  EXPECT_EQ(run(entry(TERN_CMD_QUERY_CAPS, 0, sizeof(tern_rsp_caps))), TERN_ST_OK);
  EXPECT_TRUE(out<tern_rsp_caps>().flags & TERN_CAP_DM);
  EXPECT_EQ(out<tern_rsp_caps>().dm_size, kDmBytes);
  EXPECT_GT(out<tern_rsp_caps>().max_dm, 0U);
  EXPECT_EQ(run(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{5000, 13, 0}, 24), TERN_ST_OK);
  const auto dm = out<tern_rsp_alloc_dm>();
  EXPECT_EQ(dm.size, 8192U);
  EXPECT_EQ(dm.offset % 8192, 0U);
  EXPECT_EQ(objects().dm, 1U);
  EXPECT_EQ(objects().dm_bytes, 8192U);
  tern_cmd_create_mr c{.length = 8192, .pdn = pd, .dmn = dm.dmn, .kind = TERN_MR_DM};
  const std::uint32_t key = make(TERN_CMD_CREATE_MR, c);
  EXPECT_EQ(objects().page_entries, 0U);
  EXPECT_EQ(on(TERN_CMD_FREE_DM, dm.dmn), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_FREE_DM, dm.dmn + 1), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_BUSY);
  tern_cmd_rereg_mr r{};
  r.key = key;
  EXPECT_EQ(run(TERN_CMD_REREG_MR, r), TERN_ST_BAD_STATE);
  EXPECT_EQ(on(TERN_CMD_DESTROY_MR, key), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_DM, dm.dmn), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_DM, dm.dmn), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(objects().dm, 0U);
  EXPECT_EQ(objects().dm_bytes, 0U);
}

TEST_F(AdminTest, PagesOfDeviceMemoryAreTheDrivers) {
  enable();
  set(TERN_REG_CTRL, TERN_CTRL_RESET);
  configure();
  set(TERN_REG_PAGE_SHIFT, 14);
  std::memset(host.at(acq), 0, kEntries * sizeof(tern_acq_entry));
  tail = done = 0;
  set(TERN_REG_CTRL, TERN_CTRL_ENABLE);
  EXPECT_EQ(run(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{1, 0, 0}, 24), TERN_ST_OK);
  EXPECT_EQ(out<tern_rsp_alloc_dm>().size, 16384U);
}

TEST_F(AdminTest, ResetTakesDeviceMemoryBack) {
  enable();
  tern_cmd_create_mr c{.length = kDmBytes, .pdn = make_pd(), .kind = TERN_MR_DM};
  EXPECT_EQ(run(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{kDmBytes, 0, 0}, 24), TERN_ST_OK);
  c.dmn = out<tern_rsp_alloc_dm>().dmn;
  (void)make(TERN_CMD_CREATE_MR, c);
  EXPECT_EQ(run(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{1, 0, 0}, 24), TERN_ST_NO_MEMORY);
  set(TERN_REG_CTRL, TERN_CTRL_RESET);
  enable();
  EXPECT_EQ(objects().dm, 0U);
  EXPECT_EQ(objects().dm_bytes, 0U);
  EXPECT_EQ(run(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{kDmBytes, 0, 0}, 24), TERN_ST_OK);
}

TEST_F(AdminTest, DeviceWithoutDeviceMemory) {
  Device bare(host, admin_test_config());
  EXPECT_FALSE(bare.registry.caps() & TERN_CAP_DM);
  EXPECT_EQ(bare.registry.dm.size(), 0U);
  EXPECT_EQ(bare.registry.dm.max(), 0U);
  tern_rsp_alloc_dm rsp;
  EXPECT_EQ(bare.registry.dm.alloc(tern_cmd_alloc_dm{1, 0, 0}, 12, &rsp), TERN_ST_BAD_PARAM);
  tern_cmd_create_mr c{};
  c.kind = TERN_MR_DM;
  std::uint32_t key;
  EXPECT_EQ(bare.registry.memory.create_mr(c, &key), TERN_ST_NOT_SUPPORTED);
}

// ---- queue pairs ----

class AdminQpTest : public AdminTest {
 protected:
  AdminQpTest() {
    enable();
    uar = make_uar();
    pd = make_pd();
    cqn = make(TERN_CMD_CREATE_CQ, cq_command(TERN_NO_EQ, uar));
    good = qp_command(pd, uar, cqn);
  }
  std::uint32_t uar;
  std::uint32_t pd;
  std::uint32_t cqn;
  tern_cmd_create_qp good;
};

TEST_F(AdminQpTest, CreationChecksEveryField) {
  using C = tern_cmd_create_qp;
  const std::pair<Status, std::function<void(C&)>> rows[] = {
      {TERN_ST_BAD_PARAM, [](C& c) { c.type = TERN_QPT_XRC_INI; }},  // with an RQ
      {TERN_ST_BAD_PARAM, [](C& c) { c.type = TERN_QPT_XRC_TGT; }},  // with queues
      {TERN_ST_DENIED, [](C& c) { c.type = TERN_QPT_GSI; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.type = TERN_QPT_RAW + 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.type = 255; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.flags = TERN_QP_F_SRQ | TERN_QP_F_NO_RQ, c.srqn = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = TERN_QP_F_SRQ; }},  // and an RQ
      {TERN_ST_BAD_PARAM,
       [](C& c) { c.type = TERN_QPT_GSI, c.flags = TERN_QP_F_SRQ | TERN_QP_F_NO_RQ; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = 8; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.flags = 0x80; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.srqn = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.xrcdn = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_sq_size = 16; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_sq_size = 255; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_sq_stride = 5; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_sq_stride = 12; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_rq_size = 16; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_rq_stride = 4; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_rq_stride = 11; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.log_rq_stride = 255; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.sq_offset = 32; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.rq_offset += 8; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.record += 60; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.record += 128; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.rq_offset = 4032; }},  // end of SQ overlaps RQ
      {TERN_ST_BAD_PARAM, [](C& c) { c.rq_offset = 0; }},     // full overlap
      {TERN_ST_BAD_PARAM, [](C& c) { c.sq_offset = 8192; }},  // beyond the page list
      {TERN_ST_BAD_PARAM, [](C& c) { c.sq_offset = 0xffffffc0; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.sq_offset = 8192 + 64; }},
      // Rings far apart in a page list that covers them: the gap would waste entries.
      {TERN_ST_BAD_PARAM, [this](C& c) { c.pages = pages(18), c.rq_offset = 4096 + 65536 + 64; }},
      {TERN_ST_BAD_PARAM,
       [this](C& c) { c.pages = pages(20), c.sq_offset = c.rq_offset + 65536 + 4096 + 64; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.num = 1; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.kind = 3; }},
      {TERN_ST_BAD_PARAM, [](C& c) { c.pages.page_shift = 10; }},
      {TERN_ST_DMA_ERROR, [](C& c) { c.pages.addr = 0x40; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.pdn = 0; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { ++c.pdn; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { ++c.uar; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.uar = 1U << 31; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { ++c.send_cqn; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { ++c.recv_cqn; }},
      {TERN_ST_BAD_HANDLE, [](C& c) { c.recv_cqn = 0xffffffff; }},
  };
  int row = 0;
  for (const auto& [st, spoil] : rows) {
    C c = good;
    spoil(c);
    EXPECT_EQ(run(TERN_CMD_CREATE_QP, c, 8), st) << "row " << row;
    ++row;
  }
  EXPECT_EQ(objects().qp, 0U);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_OK) << "no attempt left a user behind";
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uar), TERN_ST_OK);
}

TEST_F(AdminQpTest, LayoutsThatAreFine) {
  using C = tern_cmd_create_qp;
  const std::function<void(C&)> rows[] = {
      [](C&) {},
      [](C& c) { c.log_sq_size = c.log_rq_size = 0; },
      [](C& c) { c.log_sq_stride = 6, c.log_rq_stride = 5; },
      [](C& c) {
        c.log_sq_size = 1, c.log_sq_stride = 11, c.log_rq_stride = 10, c.log_rq_size = 2;
      },
      [](C& c) { c.sq_offset = 4096, c.rq_offset = 0; },
      [this](C& c) { c.pages = pages(18), c.rq_offset = 4096 + 65536; },
      [](C& c) { c.record += 256; },
      [](C& c) { c.flags = TERN_QP_F_NO_SQ, c.log_sq_size = c.log_sq_stride = 255; },
      [](C& c) { c.flags = TERN_QP_F_NO_RQ, c.log_rq_size = c.log_rq_stride = 255; },
      [](C& c) { c.flags = TERN_QP_F_NO_RQ | TERN_QP_F_NO_SQ, c.pages = {}; },
      [this](C& c) {
        c.pages = {};
        c.pages.addr = host.alloc(3 * 4096);
      },
  };
  int row = 0;
  for (const auto& change : rows) {
    C c = good;
    change(c);
    EXPECT_EQ(run(TERN_CMD_CREATE_QP, c, 8), TERN_ST_OK) << "row " << row;
    save_and_load();
    EXPECT_EQ(on(TERN_CMD_DESTROY_QP, out<tern_rsp_object>().id), TERN_ST_OK);
    ++row;
  }
}

TEST_F(AdminQpTest, NumbersLimitsAndUsers) {
  std::vector<std::uint32_t> qps;
  for (int i = 0; i < 8; ++i) qps.push_back(make(TERN_CMD_CREATE_QP, good));
  for (const std::uint32_t qpn : qps) EXPECT_GE(qpn, 2U);
  EXPECT_EQ(run(TERN_CMD_CREATE_QP, good, 8), TERN_ST_NO_RESOURCE);
  EXPECT_EQ(objects().qp, 8U);
  EXPECT_EQ(objects().page_entries, 8 * 2 + 1U);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uar), TERN_ST_BUSY);
  for (const std::uint32_t bad : {0U, 1U, 10U, 0xffffffffU}) {
    EXPECT_EQ(on(TERN_CMD_DESTROY_QP, bad), TERN_ST_BAD_HANDLE);
    EXPECT_EQ(on(TERN_CMD_QUERY_QP, bad, sizeof(tern_rsp_query_qp)), TERN_ST_BAD_HANDLE);
  }
  for (const std::uint32_t qpn : qps) EXPECT_EQ(on(TERN_CMD_DESTROY_QP, qpn), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_PD, pd), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uar), TERN_ST_OK);
  EXPECT_EQ(objects().page_entries, 0U);
}

TEST_F(AdminQpTest, ModifyAndQuery) {
  const std::uint32_t qpn = make(TERN_CMD_CREATE_QP, good);
  tern_cmd_modify_qp m{
      .qpn = qpn + 1,
      .mask = TERN_QPA_STATE | TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS | TERN_QPA_PORT};
  m.attr.port = 1;
  m.attr.state = TERN_QPS_INIT;
  m.attr.access = TERN_ACCESS_REMOTE_READ;
  EXPECT_EQ(run(TERN_CMD_MODIFY_QP, m), TERN_ST_BAD_HANDLE);
  m.qpn = qpn;
  m.mask |= 1U << 20;
  EXPECT_EQ(run(TERN_CMD_MODIFY_QP, m), TERN_ST_BAD_PARAM);
  m.mask &= ~(1U << 20);
  for (const unsigned port : {0U, 2U}) {
    m.attr.port = static_cast<std::uint8_t>(port);
    EXPECT_EQ(run(TERN_CMD_MODIFY_QP, m), TERN_ST_BAD_PARAM) << port;
  }
  m.attr.port = 1;
  m.flags = 2;
  EXPECT_EQ(run(TERN_CMD_MODIFY_QP, m), TERN_ST_BAD_PARAM);
  m.flags = 0;
  EXPECT_EQ(run(TERN_CMD_MODIFY_QP, m), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_QUERY_QP, qpn, sizeof(tern_rsp_query_qp)), TERN_ST_OK);
  EXPECT_EQ(out<tern_rsp_query_qp>().attr.state, TERN_QPS_INIT);
  EXPECT_EQ(out<tern_rsp_query_qp>().attr.access, TERN_ACCESS_REMOTE_READ);
}

TEST_F(AdminQpTest, EventsOfADestroyedObjectAreDropped) {
  const std::uint32_t qpn = make(TERN_CMD_CREATE_QP, good);
  device.datapath.async_events.raise(device.datapath, TERN_EV_QP_FATAL, qpn);
  device.datapath.async_events.raise(device.datapath, TERN_EV_CQ_ERR, cqn);
  device.datapath.async_events.raise(device.datapath, TERN_EV_CQ_ERR, qpn);
  EXPECT_EQ(on(TERN_CMD_DESTROY_QP, qpn), TERN_ST_OK);
  EXPECT_EQ(device.datapath.async_events.waiting(), 2U);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_OK);
  EXPECT_EQ(device.datapath.async_events.waiting(), 1U);
}

// An event of an object that is gone must not pass for one of its successor's.
TEST_F(AdminQpTest, SuccessorsHaveANewGeneration) {
  std::set<std::uint32_t> generations;
  const auto remake = [&](std::uint16_t create, std::uint16_t destroy, const auto& cmd) {
    const std::uint32_t number = make(create, cmd);
    generations.insert(out<tern_rsp_object>().generation);
    EXPECT_EQ(on(destroy, number), TERN_ST_OK);
    for (std::size_t n = 1;; ++n) {
      const std::uint32_t next = make(create, cmd);
      EXPECT_TRUE(generations.insert(out<tern_rsp_object>().generation).second) << "object " << n;
      EXPECT_EQ(on(destroy, next), TERN_ST_OK);
      if (next == number) return;
      ASSERT_LT(n, std::size_t{1} << 20) << "no number is used again";
    }
  };
  const tern_cmd_create_cq cq = cq_command(TERN_NO_EQ, uar);
  const tern_cmd_create_srq srq = srq_command(pd);
  for (int round = 0; round < 2; ++round) {
    remake(TERN_CMD_CREATE_CQ, TERN_CMD_DESTROY_CQ, cq);
    remake(TERN_CMD_CREATE_QP, TERN_CMD_DESTROY_QP, good);
    remake(TERN_CMD_CREATE_SRQ, TERN_CMD_DESTROY_SRQ, srq);
  }
  (void)make_pd();
  EXPECT_EQ(out<tern_rsp_object>().generation, 0U) << "nothing has events about it";
}

TEST_F(AdminQpTest, DeadCompletionQueueTakesNoQueuePair) {
  const std::uint32_t qpn = make(TERN_CMD_CREATE_QP, good);
  tern_cmd_modify_qp m{
      .qpn = qpn, .mask = TERN_QPA_STATE | TERN_QPA_PKEY_INDEX | TERN_QPA_ACCESS | TERN_QPA_PORT};
  m.attr.port = 1;
  m.attr.state = TERN_QPS_INIT;
  ASSERT_EQ(run(TERN_CMD_MODIFY_QP, m), TERN_ST_OK);
  Cq* const cq = device.registry.cqs.find(cqn);
  tern_cqe cqe{};
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(cq->push(cqe));
  EXPECT_FALSE(cq->push(cqe));
  (void)device.run(1 << 16);
  EXPECT_EQ(on(TERN_CMD_QUERY_QP, qpn, sizeof(tern_rsp_query_qp)), TERN_ST_OK);
  EXPECT_EQ(out<tern_rsp_query_qp>().attr.state, TERN_QPS_ERR) << "its QPs are notified";
  EXPECT_EQ(run(TERN_CMD_CREATE_QP, good, 8), TERN_ST_BAD_STATE);
  EXPECT_EQ(on(TERN_CMD_DESTROY_QP, qpn), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_OK);
}

TEST_F(AdminQpTest, DoorbellsNeedTheRightPage) {
  const std::uint32_t qpn = make(TERN_CMD_CREATE_QP, good);
  const auto bad = [&] { return device.datapath.counters.rdma[TERN_CNT_BAD_DOORBELL]; };
  const std::uint32_t kick = field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_SQ) | qpn;
  device.doorbell(std::uint64_t{uar} << 12, kick);
  EXPECT_EQ(bad(), 0U);
  device.doorbell(0, kick);
  EXPECT_EQ(bad(), 1U);
  device.doorbell((std::uint64_t{uar} << 12) + 8, kick);
  EXPECT_EQ(bad(), 1U) << "no doorbell there";
  device.doorbell(std::uint64_t{uar} << 12, field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_CQ_ARM) | cqn);
  EXPECT_EQ(bad(), 1U);
  device.doorbell(0, field_prep(TERN_DB_CMD_MASK, TERN_DB_CMD_CQ_ARM) | cqn);
  EXPECT_EQ(bad(), 2U);
}

// ---- port and Ethernet ----

TEST_F(AdminTest, EthernetQueues) {
  enable();
  const std::uint32_t uar = make_uar();
  const std::uint32_t cqn = make(TERN_CMD_CREATE_CQ, cq_command(TERN_NO_EQ, 0));
  tern_cmd_create_eth_queue c = eth_command(cqn, uar);
  c.uar = uar + 1;
  EXPECT_EQ(run(TERN_CMD_CREATE_ETH_QUEUE, c, 8), TERN_ST_BAD_HANDLE);
  c.uar = uar;
  c.cqn = cqn + 1;
  EXPECT_EQ(run(TERN_CMD_CREATE_ETH_QUEUE, c, 8), TERN_ST_BAD_HANDLE);
  const std::uint32_t id = make(TERN_CMD_CREATE_ETH_QUEUE, eth_command(cqn, uar));
  EXPECT_EQ(objects().eth_queue, 1U);
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uar), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_BUSY);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, id + 1), TERN_ST_BAD_HANDLE);
  EXPECT_EQ(on(TERN_CMD_DESTROY_ETH_QUEUE, id), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_DESTROY_CQ, cqn), TERN_ST_OK);
  EXPECT_EQ(on(TERN_CMD_FREE_UAR, uar), TERN_ST_OK);
  tern_cmd_set_rx_filter f{};
  EXPECT_EQ(run(TERN_CMD_SET_RX_FILTER, f), TERN_ST_BAD_PARAM) << "of no port";
  f.port = 1;
  EXPECT_EQ(run(TERN_CMD_SET_RX_FILTER, f), TERN_ST_OK);
  f.num_macs = 65;
  EXPECT_EQ(run(TERN_CMD_SET_RX_FILTER, f), TERN_ST_BAD_PARAM);
}

TEST_F(AdminTest, PortAndGids) {
  enable();
  const tern_cmd_query_port port{1, {}};
  for (const unsigned none : {0U, 2U, 255U}) {
    EXPECT_EQ(
        run(TERN_CMD_QUERY_PORT, tern_cmd_query_port{static_cast<std::uint8_t>(none), {}}, 24),
        TERN_ST_BAD_PARAM);
  }
  EXPECT_EQ(run(TERN_CMD_QUERY_PORT, port, 24), TERN_ST_OK);
  EXPECT_EQ(out<tern_rsp_port>().max_mtu, 9000U);
  EXPECT_EQ(out<tern_rsp_port>().link_up, 0U);
  tern_cmd_modify_port m{.mask = TERN_PORT_MTU, .mtu = 9001, .port = 1};
  EXPECT_EQ(run(TERN_CMD_MODIFY_PORT, m), TERN_ST_BAD_PARAM);
  EXPECT_EQ(device.datapath.async_events.waiting(), 0U);
  m.mtu = 4200;
  EXPECT_EQ(run(TERN_CMD_MODIFY_PORT, m), TERN_ST_OK);
  EXPECT_EQ(device.datapath.async_events.waiting(), 1U) << "the MTU changed";
  EXPECT_EQ(run(TERN_CMD_QUERY_PORT, port, 24), TERN_ST_OK);
  EXPECT_EQ(out<tern_rsp_port>().mtu, 4200U);

  tern_cmd_set_gid g{.valid = 1, .net_type = TERN_NET_IPV6, .vlan = TERN_VLAN_NONE, .port = 1};
  g.mac[0] = 2;
  g.gid[0] = 0xfe;
  g.gid[1] = 0x80;
  EXPECT_EQ(run(TERN_CMD_SET_GID, g), TERN_ST_OK);
  EXPECT_EQ(objects().gid, 1U);
  g.index = 128;
  EXPECT_EQ(run(TERN_CMD_SET_GID, g), TERN_ST_BAD_PARAM);
  g.index = 0;
  g.valid = 0;
  EXPECT_EQ(run(TERN_CMD_SET_GID, g), TERN_ST_OK);
  EXPECT_EQ(objects().gid, 0U);
}

// ---- queries ----

TEST_F(AdminTest, Capabilities) {
  enable();
  ASSERT_EQ(run(entry(TERN_CMD_QUERY_CAPS, 0, sizeof(tern_rsp_caps))), TERN_ST_OK);
  const auto caps = out<tern_rsp_caps>();
  EXPECT_EQ(caps.flags,
            TERN_CAP_RC | TERN_CAP_UC | TERN_CAP_UD | TERN_CAP_XRC | TERN_CAP_SRQ |
                TERN_CAP_SRQ_RESIZE | TERN_CAP_MCAST | TERN_CAP_ATOMIC | TERN_CAP_FLUSH |
                TERN_CAP_ATOMIC_WRITE | TERN_CAP_MW_TYPE_1 | TERN_CAP_MW_TYPE_2B | TERN_CAP_FRWR |
                TERN_CAP_REREG_MR | TERN_CAP_DM | TERN_CAP_RESIZE_CQ | TERN_CAP_MODERATE_CQ |
                TERN_CAP_IGNORE_OVERRUN | TERN_CAP_TIMESTAMP | TERN_CAP_ODP | TERN_CAP_VLAN |
                TERN_CAP_ETH_OFFLOAD | TERN_CAP_STEERING | TERN_CAP_RAW_QP | TERN_CAP_COUNTER_SETS |
                TERN_CAP_RSS_TUNNEL | TERN_CAP_UD_NO_LOOPBACK | TERN_CAP_ECE | TERN_CAP_RATE_LIMIT |
                TERN_CAP_CC | TERN_CAP_APM | TERN_CAP_DM_OPS | TERN_CAP_UDP_SPORT |
                TERN_CAP_ETH_COALESCE | TERN_CAP_COMP_CNTR);
  EXPECT_EQ(caps.max_uar, 16U);
  EXPECT_EQ(caps.max_qp, 8U);
  EXPECT_EQ(caps.max_cq, 40U);
  EXPECT_EQ(caps.max_mr, 16U);
  EXPECT_EQ(caps.max_mw, 65536U);
  EXPECT_EQ(caps.max_dm, 65536U);
  EXPECT_EQ(caps.dm_size, kDmBytes);
  EXPECT_EQ(caps.max_srq, 16384U);
  EXPECT_EQ(caps.max_xrcd, 16384U);
  EXPECT_EQ(caps.page_shift_mask, 0xfffff000U);
  EXPECT_EQ(caps.max_msg_size, 0x80000000U);
  EXPECT_EQ(caps.guid, 0x505400fffe123456U);
  EXPECT_EQ(caps.num_vectors, 4U);
  EXPECT_EQ(caps.num_ports, 1U);
  EXPECT_EQ(caps.max_eth_queues, 16U);
  EXPECT_EQ(caps.max_rss, 64U);
  EXPECT_EQ(caps.max_flows, 16384U);
  EXPECT_EQ(caps.max_flow_shapes, 64U);
  EXPECT_EQ(caps.max_flow_counters, 16384U);
  EXPECT_EQ(caps.max_counter_sets, 4096U);
  EXPECT_EQ(caps.max_comp_cntrs, 65536U);
  EXPECT_EQ(std::memcmp(caps.mac, "\x52\x54\x00\x12\x34\x56", 6), 0);
  EXPECT_NE(std::memchr(caps.fw_name, 0, sizeof(caps.fw_name)), nullptr);
  for (const std::uint32_t limit : {caps.max_cqe, caps.max_qp_wr, caps.max_srq_wr}) {
    EXPECT_TRUE(std::has_single_bit(limit));
  }
}

TEST_F(AdminTest, CountersOfBothFunctions) {
  enable();
  device.datapath.counters.add(TERN_CNT_RX_MALFORMED, 5);
  device.datapath.counters.add_eth(TERN_ETH_CNT_RX_FILTERED, 7);
  ASSERT_EQ(run(TERN_CMD_QUERY_COUNTERS, tern_cmd_query_counters{TERN_COUNTERS_RDMA, 1, {}}, 1024),
            TERN_ST_OK);
  EXPECT_EQ((out<std::array<std::uint64_t, TERN_CNT_RDMA_NUM>>()[TERN_CNT_RX_MALFORMED]), 5U);
  ASSERT_EQ(run(TERN_CMD_QUERY_COUNTERS, tern_cmd_query_counters{TERN_COUNTERS_ETH, 1, {}}, 1024),
            TERN_ST_OK);
  EXPECT_EQ((out<std::array<std::uint64_t, TERN_ETH_CNT_NUM>>()[TERN_ETH_CNT_RX_FILTERED]), 7U);
  EXPECT_EQ(run(TERN_CMD_QUERY_COUNTERS, tern_cmd_query_counters{2, 1, {}}, 1024),
            TERN_ST_BAD_PARAM);
}

TEST_F(AdminTest, ResetDestroysEverything) {
  for (int round = 0; round < 3; ++round) {
    enable();
    const auto before = objects();
    EXPECT_EQ(before.uar | before.pd | before.eq | before.cq | before.mr | before.qp | before.gid |
                  before.srq | before.xrcd | before.eth_queue,
              0U);
    EXPECT_EQ(before.page_entries, 0U);
    const std::uint32_t uar = make_uar();
    const std::uint32_t pd = make_pd();
    const std::uint32_t eqn = make(TERN_CMD_CREATE_EQ, eq_command());
    (void)make(TERN_CMD_CREATE_EQ, eq_command(TERN_EQ_ASYNC));
    const std::uint32_t cqn = make(TERN_CMD_CREATE_CQ, cq_command(eqn, uar));
    (void)make(TERN_CMD_CREATE_MR, mr_command(pd));
    (void)make(TERN_CMD_CREATE_QP, qp_command(pd, uar, cqn));
    tern_cmd_create_qp shares = qp_command(pd, uar, cqn);
    shares.flags = TERN_QP_F_SRQ | TERN_QP_F_NO_RQ;
    shares.srqn = make(TERN_CMD_CREATE_SRQ, srq_command(pd));
    (void)make(TERN_CMD_CREATE_QP, shares);
    tern_cmd_create_qp target{
        .xrcdn = make_xrcd(), .type = TERN_QPT_XRC_TGT, .flags = TERN_QP_F_NO_SQ | TERN_QP_F_NO_RQ};
    (void)make(TERN_CMD_CREATE_QP, target);
    tern_cmd_create_srq named = srq_command(pd);
    named.flags = TERN_SRQ_F_XRC;
    named.xrcdn = target.xrcdn;
    named.cqn = cqn;
    (void)make(TERN_CMD_CREATE_SRQ, named);
    (void)make(TERN_CMD_CREATE_ETH_QUEUE, eth_command(cqn, uar));
    device.datapath.counters.add(TERN_CNT_RX_MALFORMED);
    submit(entry(TERN_CMD_NOP, 0, 0));
    set(TERN_REG_CTRL, TERN_CTRL_RESET);
    EXPECT_EQ(reg(TERN_REG_STATUS), kReady);
    EXPECT_EQ(reg(TERN_REG_AQ_LOG_SIZE), 0U);
    EXPECT_FALSE(device.run(1 << 20)) << "what was outstanding is never completed";
    EXPECT_EQ(device.datapath.counters.rdma[TERN_CNT_RX_MALFORMED], 0U);
  }
}

}  // namespace
}  // namespace tern
