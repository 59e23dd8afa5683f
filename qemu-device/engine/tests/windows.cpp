// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/windows.h"

#include <algorithm>

namespace tern {

TestMw alloc_mw(TestNode& node, std::uint8_t type, std::uint32_t pd) {
  tern_cmd_alloc_mw cmd{.pdn = le(pd ? pd : node.pd()), .type = type};
  return {.type = type, .view = {.key = node.make(TERN_CMD_ALLOC_MW, cmd)}};
}

Status free_mw(TestNode& node, std::uint32_t key) {
  return node.command(TERN_CMD_FREE_MW, tern_cmd_object{le(key), 0});
}

tern_rsp_mr query_key(TestNode& node, std::uint32_t key) {
  return node.query<tern_rsp_mr>(TERN_CMD_QUERY_MR, tern_cmd_object{le(key), 0});
}

TestMr reg_zero_based(TestNode& node, std::uint64_t len, std::uint32_t pd, std::uint32_t access) {
  TestMr mr{.length = len, .dma = node.host.alloc(len), .backed = len};
  mr.memory = node.host.at(mr.dma, len);
  tern_cmd_create_mr cmd{};
  cmd.pages.addr = le(mr.dma);
  cmd.pages.kind = TERN_PAGES_DIRECT;
  cmd.length = le(len);
  cmd.pdn = le(pd);
  cmd.access = le(access | TERN_ACCESS_ZERO_BASED);
  cmd.kind = TERN_MR_MEMORY;
  mr.key = node.make(TERN_CMD_CREATE_MR, cmd);
  return mr;
}

SendWr bind(TestMw& mw, const TestMr& mr, std::uint64_t offset, std::uint64_t length,
            std::uint32_t access) {
  SendWr wr;
  wr.opcode = TERN_WR_BIND_MW;
  wr.bind.addr = le(mr.iova + offset);
  wr.bind.length = le(length);
  wr.bind.lkey = le(mr.key);
  wr.bind.rkey = le(mw.view.key);
  wr.bind.new_rkey = le(next_variant(mw.view.key));
  wr.bind.access = le(access);
  wr.bind.type = mw.type;
  mw.view.key = next_variant(mw.view.key);
  mw.view.iova = access & TERN_ACCESS_ZERO_BASED ? 0 : mr.iova + offset;
  mw.view.length = length;
  mw.view.dma = mr.dma + offset;
  mw.view.memory = mr.memory + offset;
  mw.view.backed = std::min(length, mr.backed > offset ? mr.backed - offset : 0);
  return wr;
}

SendWr unbind(TestMw& mw) {
  SendWr wr;
  wr.opcode = TERN_WR_BIND_MW;
  wr.bind.rkey = le(mw.view.key);
  wr.bind.new_rkey = le(next_variant(mw.view.key));
  wr.bind.type = mw.type;
  mw.view.key = next_variant(mw.view.key);
  mw.view.length = mw.view.backed = 0;
  return wr;
}

}  // namespace tern
