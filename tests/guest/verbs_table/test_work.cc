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
void session(const Ends& ends, const Build& build, ibv_wc_status status = IBV_WC_SUCCESS) {
  ibv_qp_ex* const q = ibv_qp_to_qp_ex(ends.qp());
  ibv_wr_start(q);
  q->wr_id = 1;
  q->wr_flags = IBV_SEND_SIGNALED;
  build(q);
  require_err(ibv_wr_complete(q), 0, "ibv_wr_complete");
  ends.sent(1, status);
}

void set_sge(const Ends& ends, ibv_qp_ex* q, std::uint32_t length = kBytes) {
  ibv_wr_set_sge(q, ends.here().lkey(), ends.here().address(), length);
}

// A SEND of the pattern, built by `build`, and its receive. Returns the receive's completion.
ibv_wc send(const Ends& ends, const Build& build) {
  fill(ends.here().bytes(), 21);
  ends.recv(9, 0, kBytes);
  session(ends, build);
  const ibv_wc wc = ends.received(9);
  ends.check_there(ends.header(), kBytes, 21);
  return wc;
}

void add_lists(Probes& p) {
  p.works({"ibv_post_send", "ibv_post_recv"}, "a list of two; the request that is wrong is found",
          [](const Device& dev) {
            const Ends rc(dev, kRc);
            rc.recv(3, 0, kBytes);
            rc.recv(4, 1024, kBytes);
            const std::array<Send, 2> good{rc.request(IBV_WR_SEND, 1, 8),
                                           rc.request(IBV_WR_SEND, 2, 8)};
            require_err(post(rc.qp(), Api::kPost, good), 0, "ibv_post_send");
            rc.sent(1);
            rc.sent(2);
            rc.received(3);
            rc.received(4);
            std::array<Send, 2> wrong = good;
            wrong[1].sges.resize(100);
            std::size_t bad = 0;
            require_err(post(rc.qp(), Api::kPost, wrong, &bad), EINVAL, "100 SGEs");
            require(bad == 1, "request {} is wrong", bad);
          });
}

void add_sessions(Probes& p) {
  p.works({"ibv_wr_post", "ibv_wr_start", "ibv_wr_complete", "ibv_wr_send", "ibv_wr_set_sge"},
          "a SEND", [](const Device& dev) {
            const Ends rc(dev, kRc);
            require(send(rc,
                         [&](ibv_qp_ex* q) {
                           ibv_wr_send(q);
                           set_sge(rc, q);
                         }).byte_len == kBytes,
                    "another length");
          });
  p.works({"ibv_wr_abort"}, "nothing is posted", [](const Device& dev) {
    const Ends rc(dev, kRc);
    ibv_qp_ex* const q = ibv_qp_to_qp_ex(rc.qp());
    ibv_wr_start(q);
    ibv_wr_rdma_write(q, rc.there().rkey(), rc.there().address());
    set_sge(rc, q);
    ibv_wr_abort(q);
    expect_quiet(rc.send_cq(), 100);
    session(rc, [&](ibv_qp_ex* again) {
      ibv_wr_rdma_write(again, rc.there().rkey(), rc.there().address());
      set_sge(rc, again);
    });
  });
  p.works({"ibv_wr_set_sge_list"}, "two pieces, gathered", [](const Device& dev) {
    const Ends rc(dev, kRc);
    send(rc, [&](ibv_qp_ex* q) {
      const std::array<ibv_sge, 2> sges{rc.here().sge(0, 24), rc.here().sge(24, kBytes - 24)};
      ibv_wr_send(q);
      ibv_wr_set_sge_list(q, sges.size(), sges.data());
    });
  });
  p.works({"ibv_wr_set_inline_data", "ibv_wr_set_inline_data_list"}, "bytes copied into the WQE",
          [](const Device& dev) {
            const Ends rc(dev, kRc);
            std::byte* const bytes = rc.here().bytes().data();
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
    const Ends ud(dev, kUd);
    const Send to = ud.request(IBV_WR_SEND, 1, kBytes);
    send(ud, [&](ibv_qp_ex* q) {
      ibv_wr_send(q);
      ibv_wr_set_ud_addr(q, to.ah, to.remote_qpn, to.remote_qkey);
      set_sge(ud, q);
    });
  });
  p.works({"ibv_wr_set_xrc_srqn"}, "a SEND to an SRQ", [](const Device& dev) {
    const Ends xrc(dev, kTypes[3]);
    const Send to = xrc.request(IBV_WR_SEND, 1, kBytes);
    send(xrc, [&](ibv_qp_ex* q) {
      ibv_wr_send(q);
      ibv_wr_set_xrc_srqn(q, to.srqn);
      set_sge(xrc, q);
    });
  });
}

void add_sends(Probes& p) {
  p.works({"ibv_wr_send_imm"}, "a SEND with its immediate data", [](const Device& dev) {
    const Ends rc(dev, kRc);
    const ibv_wc wc = send(rc, [&](ibv_qp_ex* q) {
      ibv_wr_send_imm(q, htonl(0x12345678));
      set_sge(rc, q);
    });
    require((wc.wc_flags & IBV_WC_WITH_IMM) != 0 && ntohl(wc.imm_data) == 0x12345678, "other data");
  });
  p.works({"ibv_wr_bind_mw", "ibv_wr_send_inv", "ibv_wr_local_inv"},
          "a window bound, used, and invalidated by either end", [](const Device& dev) {
            const Ends rc(dev, kRc, {.more_ops = kWindowOps});
            const MwPtr mw(ibv_alloc_mw(dev.pd(), IBV_MW_TYPE_2));
            require(mw != nullptr, "ibv_alloc_mw: {}", errno_name(errno));
            const auto bind = [&](std::uint8_t variant) {
              const Send s = rc.bind(mw.get(), rc.here(), variant, 1, kBytes, 0);
              session(rc, [&](ibv_qp_ex* q) { ibv_wr_bind_mw(q, mw.get(), s.bind_rkey, &s.bind); });
              mw->rkey = s.bind_rkey;
              return s.bind_rkey;
            };
            const auto write = [&](std::uint32_t rkey, ibv_wc_status status) {
              Send s{.opcode = IBV_WR_RDMA_WRITE, .sges = {rc.there().sge(0, 8)}, .wr_id = 5};
              s.raddr = rc.here().address();
              s.rkey = rkey;
              rc.peer_post(s, Api::kWr);
              rc.peer_sent(5, status);
            };
            const std::uint32_t first = bind(1);
            write(first, IBV_WC_SUCCESS);
            session(rc, [&](ibv_qp_ex* q) { ibv_wr_local_inv(q, first); });
            const std::uint32_t second = bind(2);
            Send inv{.opcode = IBV_WR_SEND_WITH_INV, .sges = {rc.there().sge(0, 8)}, .wr_id = 6};
            inv.inv_rkey = second;
            const ibv_sge to = rc.here().sge(1024, kBytes);
            require_err(post_recv(rc.qp(), 7, std::span(&to, 1)), 0, "ibv_post_recv");
            ibv_qp_ex* const q = ibv_qp_to_qp_ex(rc.peer());
            ibv_wr_start(q);
            q->wr_id = 6;
            q->wr_flags = IBV_SEND_SIGNALED;
            ibv_wr_send_inv(q, second);
            ibv_wr_set_sge(q, rc.there().lkey(), rc.there().address(), 8);
            require_err(ibv_wr_complete(q), 0, "ibv_wr_complete");
            rc.peer_sent(6);
            const ibv_wc wc = poll(rc.recv_cq(), 1).front();
            require((wc.wc_flags & IBV_WC_WITH_INV) != 0 && wc.invalidated_rkey == second,
                    "another key");
            write(second, IBV_WC_REM_ACCESS_ERR);
          });
}

void add_remote(Probes& p) {
  p.works({"ibv_wr_rdma_write"}, "bytes there", [](const Device& dev) {
    const Ends rc(dev, kRc);
    fill(rc.here().bytes(), 22);
    session(rc, [&](ibv_qp_ex* q) {
      ibv_wr_rdma_write(q, rc.there().rkey(), rc.there().address(128));
      set_sge(rc, q);
    });
    rc.check_there(128, kBytes, 22);
  });
  p.works({"ibv_wr_rdma_write_imm"}, "bytes there, and a receive that says so",
          [](const Device& dev) {
            const Ends rc(dev, kRc);
            fill(rc.here().bytes(), 23);
            rc.recv(9, 1024, 8);
            session(rc, [&](ibv_qp_ex* q) {
              ibv_wr_rdma_write_imm(q, rc.there().rkey(), rc.there().address(), htonl(77));
              set_sge(rc, q);
            });
            require(ntohl(rc.received(9).imm_data) == 77, "other data");
            rc.check_there(0, kBytes, 23);
          });
  p.works({"ibv_wr_rdma_read"}, "bytes from there", [](const Device& dev) {
    const Ends rc(dev, kRc);
    fill(rc.there().bytes(), 24);
    session(rc, [&](ibv_qp_ex* q) {
      ibv_wr_rdma_read(q, rc.there().rkey(), rc.there().address());
      set_sge(rc, q);
    });
    rc.check(rc.here(), 0, kBytes, 24);
  });
  p.works({"ibv_wr_atomic_cmp_swp", "ibv_wr_atomic_fetch_add"},
          "the value before, and the value after", [](const Device& dev) {
            const Ends rc(dev, kRc);
            rc.there().store64(0, 5);
            session(rc, [&](ibv_qp_ex* q) {
              ibv_wr_atomic_cmp_swp(q, rc.there().rkey(), rc.there().address(), 5, 40);
              set_sge(rc, q, 8);
            });
            require(rc.here().load64(0) == 5 && rc.there().load64(0) == 40, "{} after {}",
                    rc.there().load64(0), rc.here().load64(0));
            session(rc, [&](ibv_qp_ex* q) {
              ibv_wr_atomic_fetch_add(q, rc.there().rkey(), rc.there().address(), 2);
              set_sge(rc, q, 8);
            });
            require(rc.here().load64(0) == 40 && rc.there().load64(0) == 42, "{} after {}",
                    rc.there().load64(0), rc.here().load64(0));
          });
  p.works({"ibv_wr_flush"}, "a region that may be flushed, and one that may not",
          [](const Device& dev) {
            const Ends may(dev, kRc, {.more_ops = kBuiltOps, .access = kFlushAccess});
            const auto flush = [](const Ends& rc, ibv_wc_status status) {
              session(
                  rc,
                  [&](ibv_qp_ex* q) {
                    ibv_wr_flush(q, rc.there().rkey(), rc.there().address(), 8, IBV_FLUSH_GLOBAL,
                                 IBV_FLUSH_RANGE);
                  },
                  status);
            };
            flush(may, IBV_WC_SUCCESS);
            const Ends not_allowed(dev, kRc, {.more_ops = kBuiltOps});
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
