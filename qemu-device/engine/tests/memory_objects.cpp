// SPDX-License-Identifier: GPL-2.0-or-later
// Device memory and reregistration of the tests' driver (mini_driver.h).
#include <algorithm>

#include "tests/mini_driver.h"

namespace tern {

Status TestNode::try_alloc_dm(std::uint64_t len, std::uint32_t log_align, TestDm* dm) {
  tern_rsp_alloc_dm rsp{};
  const Status st = command(TERN_CMD_ALLOC_DM, tern_cmd_alloc_dm{le(len), le(log_align), 0}, &rsp);
  *dm = {le(rsp.dmn), le(rsp.offset), le(rsp.size)};
  return st;
}

TestDm TestNode::alloc_dm(std::uint64_t len, std::uint32_t log_align) {
  TestDm dm;
  EXPECT_EQ(try_alloc_dm(len, log_align, &dm), TERN_ST_OK);
  return dm;
}

TestMr& TestNode::reg_dm(const TestDm& dm, std::uint64_t offset, std::uint64_t len,
                         std::uint32_t access, std::uint32_t pd) {
  TestMr& mr = mrs_.emplace_back();
  mr.length = mr.backed = len;
  mr.dma = FakeHost::kDm + dm.offset + offset;
  mr.memory = host.at(mr.dma, len);
  tern_cmd_create_mr cmd{.length = le(len),
                         .offset = le(offset),
                         .pdn = le(pd ? pd : pd_),
                         .access = le(access),
                         .dmn = le(dm.number),
                         .kind = TERN_MR_DM};
  mr.key = make(TERN_CMD_CREATE_MR, cmd);
  return mr;
}

Status TestNode::rereg(TestMr& mr, std::uint32_t mask, const RegOptions& options,
                       std::uint64_t len) {
  tern_cmd_rereg_mr cmd{.key = le(mr.key),
                        .mask = le(mask),
                        .pdn = le(options.pd ? options.pd : pd_),
                        .access = le(options.access)};
  TestMr next = mr;
  if (mask & TERN_REREG_TRANS) {
    const std::uint64_t num = (options.offset + len + FakeHost::kPage - 1) / FakeHost::kPage;
    const std::uint64_t memory = host.alloc(num * FakeHost::kPage);
    const std::uint64_t list = host.alloc(num * 8);
    for (std::uint64_t i = 0; i < num; ++i)
      host.put(list + i * 8, le(memory + i * FakeHost::kPage));
    next.dma = memory + options.offset;
    next.memory = host.at(next.dma, len);
    next.iova = options.iova ? options.iova : next.dma;
    next.length = next.backed = len;
    cmd.pages.addr = le(list);
    cmd.pages.num = le(static_cast<std::uint32_t>(num));
    cmd.pages.page_shift = 12;
    cmd.pages.kind = TERN_PAGES_LIST;
    cmd.iova = le(next.iova);
    cmd.length = le(len);
    cmd.offset = le(options.offset);
  }
  const Status st = command(TERN_CMD_REREG_MR, cmd);
  if (st == TERN_ST_OK) mr = next;
  return st;
}

}  // namespace tern
