// SPDX-License-Identifier: GPL-2.0-or-later
// Posting: lists of requests, and each function of ibv_wr_post(3) with the bytes that it moves.
#include <arpa/inet.h>

#include <array>
#include <cerrno>

#include "table.h"

namespace guest::verbs {
namespace {

constexpr std::uint32_t kBytes = 64;
using Build = std::function<void(ibv_qp_ex*)>;

// Posts one request with wr_id 1 through a session, and waits for its completion.
void session(const Pair& pair, const Build& build, ibv_wc_status status = IBV_WC_SUCCESS) {
  ibv_qp_ex* const q = ibv_qp_to_qp_ex(pair.local.qp());
  ibv_wr_start(q);
  q->wr_id = 1;
  q->wr_flags = IBV_SEND_SIGNALED;
  build(q);
  require_err(ibv_wr_complete(q), 0, "ibv_wr_complete");
  pair.expect(1, status);
}

void set_sge(const Pair& pair, ibv_qp_ex* q, std::uint32_t length = kBytes) {
  ibv_wr_set_sge(q, pair.local.memory().lkey(), pair.local.memory().address(), length);
}

// A SEND of the pattern, built by `build`, and its receive. Returns the receive's completion.
ibv_wc send(const Pair& pair, const Build& build) {
  fill(pair.local.memory().bytes(), 21);
  pair.recv(9, 0, kBytes);
  session(pair, build);
  const ibv_wc wc = pair.expect_recv(9);
  pair.remote.check({pair.local.header(), kBytes}, 21);
  return wc;
}

void add_lists(Probes& p) {
  p.works({"ibv_post_send", "ibv_post_recv"}, "a list of two; the request that is wrong is found",
          [](const Device& dev) {
            const Pair rc(dev, loop(IBV_QPT_RC));
            rc.recv(3, 0, kBytes);
            rc.recv(4, 1024, kBytes);
            const std::array<Send, 2> good{rc.request(IBV_WR_SEND, 8, 0, 0, 1),
                                           rc.request(IBV_WR_SEND, 8, 0, 0, 2)};
            require_err(post(rc.local.qp(), Api::kPost, good), 0, "ibv_post_send");
            rc.expect(1);
            rc.expect(2);
            rc.expect_recv(3);
            rc.expect_recv(4);
            std::array<Send, 2> wrong = good;
            wrong[1].sges.resize(100);
            std::size_t bad = 0;
            require_err(post(rc.local.qp(), Api::kPost, wrong, &bad), EINVAL, "100 SGEs");
            require(bad == 1, "request {} is wrong", bad);
          });
}

void add_sessions(Probes& p) {
  p.works({"ibv_wr_post", "ibv_wr_start", "ibv_wr_complete", "ibv_wr_send", "ibv_wr_set_sge"},
          "a SEND", [](const Device& dev) {
            const Pair rc(dev, loop(IBV_QPT_RC));
            require(send(rc,
                         [&](ibv_qp_ex* q) {
                           ibv_wr_send(q);
                           set_sge(rc, q);
                         }).byte_len == kBytes,
                    "another length");
          });
  p.works({"ibv_wr_abort"}, "nothing is posted", [](const Device& dev) {
    const Pair rc(dev, loop(IBV_QPT_RC));
    ibv_qp_ex* const q = ibv_qp_to_qp_ex(rc.local.qp());
    ibv_wr_start(q);
    ibv_wr_rdma_write(q, rc.remote.end().memory().rkey(), rc.remote.end().memory().address());
    set_sge(rc, q);
    ibv_wr_abort(q);
    expect_quiet(rc.local.send_cq(), 100);
    session(rc, [&](ibv_qp_ex* again) {
      ibv_wr_rdma_write(again, rc.remote.end().memory().rkey(), rc.remote.end().memory().address());
      set_sge(rc, again);
    });
  });
  p.works({"ibv_wr_set_sge_list"}, "two pieces, gathered", [](const Device& dev) {
    const Pair rc(dev, loop(IBV_QPT_RC));
    send(rc, [&](ibv_qp_ex* q) {
      const std::array<ibv_sge, 2> sges{rc.local.memory().sge(0, 24),
                                        rc.local.memory().sge(24, kBytes - 24)};
      ibv_wr_send(q);
      ibv_wr_set_sge_list(q, sges.size(), sges.data());
    });
  });
  p.works({"ibv_wr_set_inline_data", "ibv_wr_set_inline_data_list"}, "bytes copied into the WQE",
          [](const Device& dev) {
            const Pair rc(dev, loop(IBV_QPT_RC));
            std::byte* const bytes = rc.local.memory().bytes().data();
            send(rc, [&](ibv_qp_ex* q) {
              ibv_wr_send(q);
              ibv_wr_set_inline_data(q, bytes, kBytes);
            });
            send(rc, [&](ibv_qp_ex* q) {
              const std::array<ibv_data_buf, 2> pieces{
                  {{.addr = bytes, .length = 7}, {.addr = bytes + 7, .length = kBytes - 7}}};
              ibv_wr_send(q);
              ibv_wr_set_inline_data_list(q, pieces.size(), pieces.data());
            });
          });
  p.works({"ibv_wr_set_ud_addr"}, "a datagram", [](const Device& dev) {
    const Pair ud(dev, loop(IBV_QPT_UD));
    const Send to = ud.request(IBV_WR_SEND, kBytes, 0, 0, 1);
    send(ud, [&](ibv_qp_ex* q) {
      ibv_wr_send(q);
      ibv_wr_set_ud_addr(q, to.ah, to.remote_qpn, to.remote_qkey);
      set_sge(ud, q);
    });
  });
  p.works({"ibv_wr_set_xrc_srqn"}, "a SEND to an SRQ", [](const Device& dev) {
    const Pair xrc(dev, loop(IBV_QPT_XRC_SEND));
    const Send to = xrc.request(IBV_WR_SEND, kBytes, 0, 0, 1);
    send(xrc, [&](ibv_qp_ex* q) {
      ibv_wr_send(q);
      ibv_wr_set_xrc_srqn(q, to.srqn);
      set_sge(xrc, q);
    });
  });
}

void add_sends(Probes& p) {
  p.works({"ibv_wr_send_imm"}, "a SEND with its immediate data", [](const Device& dev) {
    const Pair rc(dev, loop(IBV_QPT_RC));
    const ibv_wc wc = send(rc, [&](ibv_qp_ex* q) {
      ibv_wr_send_imm(q, htonl(0x12345678));
      set_sge(rc, q);
    });
    require((wc.wc_flags & IBV_WC_WITH_IMM) != 0 && ntohl(wc.imm_data) == 0x12345678, "other data");
  });
  p.works({"ibv_wr_bind_mw", "ibv_wr_send_inv", "ibv_wr_local_inv"},
          "a window bound, used, and invalidated by either end", [](const Device& dev) {
            const Pair rc(dev, loop(IBV_QPT_RC, kWindowOps));
            const MwPtr mw(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_2));
            require(mw != nullptr, "ibv_alloc_mw: {}", errno_name(errno));
            const auto bind = [&](std::uint8_t variant) {
              const Send s = bind_request(mw.get(), rc.local.memory(), variant, 1, kBytes, 0);
              session(rc, [&](ibv_qp_ex* q) { ibv_wr_bind_mw(q, mw.get(), s.bind_rkey, &s.bind); });
              mw->rkey = s.bind_rkey;
              return s.bind_rkey;
            };
            const auto write = [&](std::uint32_t rkey, ibv_wc_status status) {
              Send s{.opcode = IBV_WR_RDMA_WRITE,
                     .sges = {rc.remote.end().memory().sge(0, 8)},
                     .wr_id = 5};
              s.raddr = rc.local.memory().address();
              s.rkey = rkey;
              rc.run_back(s, Api::kWr, status);
            };
            const std::uint32_t first = bind(1);
            write(first, IBV_WC_SUCCESS);
            session(rc, [&](ibv_qp_ex* q) { ibv_wr_local_inv(q, first); });
            const std::uint32_t second = bind(2);
            Send inv{.opcode = IBV_WR_SEND_WITH_INV,
                     .sges = {rc.remote.end().memory().sge(0, 8)},
                     .wr_id = 6};
            inv.inv_rkey = second;
            const ibv_sge to = rc.local.memory().sge(1024, kBytes);
            require_err(post_recv(rc.local.qp(), 7, std::span(&to, 1)), 0, "ibv_post_recv");
            ibv_qp_ex* const q = ibv_qp_to_qp_ex(rc.remote.end().qp());
            ibv_wr_start(q);
            q->wr_id = 6;
            q->wr_flags = IBV_SEND_SIGNALED;
            ibv_wr_send_inv(q, second);
            ibv_wr_set_sge(q, rc.remote.end().memory().lkey(), rc.remote.end().memory().address(),
                           8);
            require_err(ibv_wr_complete(q), 0, "ibv_wr_complete");
            require_status(rc.remote.poll_send(1).front(), 6, IBV_WC_SUCCESS);
            const ibv_wc wc = poll(rc.local.recv_cq(), 1).front();
            require((wc.wc_flags & IBV_WC_WITH_INV) != 0 && wc.invalidated_rkey == second,
                    "another key");
            write(second, IBV_WC_REM_ACCESS_ERR);
          });
}

void add_remote(Probes& p) {
  p.works({"ibv_wr_rdma_write"}, "bytes there", [](const Device& dev) {
    const Pair rc(dev, loop(IBV_QPT_RC));
    fill(rc.local.memory().bytes(), 22);
    session(rc, [&](ibv_qp_ex* q) {
      ibv_wr_rdma_write(q, rc.remote.end().memory().rkey(), rc.remote.end().memory().address(128));
      set_sge(rc, q);
    });
    rc.remote.check({128, kBytes}, 22);
  });
  p.works({"ibv_wr_rdma_write_imm"}, "bytes there, and a receive that says so",
          [](const Device& dev) {
            const Pair rc(dev, loop(IBV_QPT_RC));
            fill(rc.local.memory().bytes(), 23);
            rc.recv(9, 1024, 8);
            session(rc, [&](ibv_qp_ex* q) {
              ibv_wr_rdma_write_imm(q, rc.remote.end().memory().rkey(),
                                    rc.remote.end().memory().address(), htonl(77));
              set_sge(rc, q);
            });
            require(ntohl(rc.expect_recv(9).imm_data) == 77, "other data");
            rc.remote.check({0, kBytes}, 23);
          });
  p.works({"ibv_wr_rdma_read"}, "bytes from there", [](const Device& dev) {
    const Pair rc(dev, loop(IBV_QPT_RC));
    fill(rc.remote.end().memory().bytes(), 24);
    session(rc, [&](ibv_qp_ex* q) {
      ibv_wr_rdma_read(q, rc.remote.end().memory().rkey(), rc.remote.end().memory().address());
      set_sge(rc, q);
    });
    rc.check({0, kBytes}, 24);
  });
  p.works({"ibv_wr_atomic_cmp_swp", "ibv_wr_atomic_fetch_add"},
          "the value before, and the value after", [](const Device& dev) {
            const Pair rc(dev, loop(IBV_QPT_RC));
            rc.remote.end().memory().store64(0, 5);
            session(rc, [&](ibv_qp_ex* q) {
              ibv_wr_atomic_cmp_swp(q, rc.remote.end().memory().rkey(),
                                    rc.remote.end().memory().address(), 5, 40);
              set_sge(rc, q, 8);
            });
            require(rc.local.memory().load64(0) == 5 && rc.remote.end().memory().load64(0) == 40,
                    "{} after {}", rc.remote.end().memory().load64(0), rc.local.memory().load64(0));
            session(rc, [&](ibv_qp_ex* q) {
              ibv_wr_atomic_fetch_add(q, rc.remote.end().memory().rkey(),
                                      rc.remote.end().memory().address(), 2);
              set_sge(rc, q, 8);
            });
            require(rc.local.memory().load64(0) == 40 && rc.remote.end().memory().load64(0) == 42,
                    "{} after {}", rc.remote.end().memory().load64(0), rc.local.memory().load64(0));
          });
  p.works({"ibv_wr_flush"}, "a region that may be flushed, and one that may not",
          [](const Device& dev) {
            const Pair may(dev, loop(IBV_QPT_RC, kBuiltOps, kFlushAccess));
            const auto flush = [](const Pair& rc, ibv_wc_status status) {
              session(
                  rc,
                  [&](ibv_qp_ex* q) {
                    ibv_wr_flush(q, rc.remote.end().memory().rkey(),
                                 rc.remote.end().memory().address(), 8, IBV_FLUSH_GLOBAL,
                                 IBV_FLUSH_RANGE);
                  },
                  status);
            };
            flush(may, IBV_WC_SUCCESS);
            const Pair not_allowed(dev, loop(IBV_QPT_RC, kBuiltOps));
            // The QP must allow it before the region is looked at.
            flush(not_allowed, IBV_WC_REM_INV_REQ_ERR);
          });
}

}  // namespace

void add_work_probes(Probes& probes) {
  add_lists(probes);
  add_sessions(probes);
  add_sends(probes);
  add_remote(probes);
}

}  // namespace guest::verbs
