// SPDX-License-Identifier: GPL-2.0-or-later
// The tests of terndv, by file.
#pragma once

#include <vector>

#include "runner.h"
#include "tcp.h"
#include "verbs.h"

namespace guest {

// Two connected QPs of this process, each with its own CQs.
struct Pair {
  Pair(const Device& dev, ibv_qp_type type, ibv_srq* srq = nullptr);

  struct Side {
    CqPtr send_cq, recv_cq;
    ibv_qp_cap cap{.max_send_wr = 8,
                   .max_recv_wr = 8,
                   .max_send_sge = 4,
                   .max_recv_sge = 2,
                   .max_inline_data = 128};
    QpPtr qp;
  };
  Side a, b;
};

std::vector<Named> query_tests(const Device& dev);
std::vector<Named> post_tests(const Device& dev);
std::vector<Named> dm_tests(const Device& dev);
std::vector<Named> key_tests(const Device& dev);
// The peer runs serve(); null: there is none, and there are no tests.
std::vector<Named> sport_tests(const Device& dev, const Socket* peer);
// Serves one client: reports the source ports of the packets that it receives.
void serve(const Device& dev, const Socket& client);

}  // namespace guest
