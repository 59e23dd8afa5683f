// SPDX-License-Identifier: GPL-2.0-or-later
// The tests of terndv, by file.
#pragma once

#include <vector>

#include "pair.h"
#include "program.h"
#include "tcp.h"

namespace guest {

// Connected QPs of this process, with short queues.
inline PairOptions short_queues(ibv_qp_type type) {
  return alike({.type = type,
                .send_wr = 8,
                .recv_wr = 8,
                .recv_sge = 2,
                .inline_data = 128,
                .send_cqe = 8,
                .recv_cqe = 8},
               {.mtu = IBV_MTU_1024});
}

std::vector<Test> query_tests(const Device& dev);
std::vector<Test> post_tests(const Device& dev);
std::vector<Test> dm_tests(const Device& dev);
std::vector<Test> key_tests(const Device& dev);
// The peer runs serve(); null: there is none, and there are no tests.
std::vector<Test> sport_tests(const Device& dev, const Socket* peer);
// Serves one client: reports the source ports of the packets that it receives.
void serve(const Device& dev, const Socket& client);

}  // namespace guest
