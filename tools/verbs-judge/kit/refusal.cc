// SPDX-License-Identifier: GPL-2.0-or-later
#include "refusal.h"

#include <array>

#include "trace.h"

namespace guest {
namespace {

constexpr std::uint32_t kRoom = 4096;
constexpr std::uint64_t kFirstId = 0x10;
constexpr std::uint64_t kLastId = 0x11;
constexpr std::uint64_t kRecvId = 0x20;
constexpr std::uint64_t kSeedHere = 1;
constexpr std::uint64_t kSeedThere = 2;

void recv(const Pair& pair, std::uint64_t wr_id) { pair.recv(wr_id, 2UL * kRoom, kRoom / 2); }

std::string text_of(const Send& s) {
  std::string text = opcode_name(s.opcode);
  if ((s.flags & IBV_SEND_INLINE) != 0) text += " with INLINE";
  if ((s.flags & IBV_SEND_IP_CSUM) != 0) text += " with IP_CSUM";
  return s.sges.size() > 1 ? text + std::format(" with {} SGEs", s.sges.size()) : text;
}

void check_accepted(const Pair& pair, const Send& wrong, IfAccepted then) {
  constexpr int kWait = 300;  // ms; silence is a choice too
  // Without receives a message would wait for ever.
  recv(pair, kRecvId + 1);
  recv(pair, kRecvId + 2);
  bool worked = false;
  for (const ibv_wc& wc : poll_for(pair.local.send_cq(), 3, kWait)) {
    worked = worked || (wc.wr_id == wrong.wr_id && wc.status == IBV_WC_SUCCESS);
  }
  if (then == IfAccepted::kMustFail) {
    require(!worked, "{}: accepted, and completes with success", opcode_name(wrong.opcode));
    pair.check({0, kRoom}, kSeedHere);
    pair.remote.check({0, kRoom}, kSeedThere);
  } else if (worked && wrong.opcode == IBV_WR_RDMA_READ) {
    pair.check({0, wrong.sges.at(0).length}, kSeedThere);
  }
}

}  // namespace

void check_refusal(const Pair& pair, Api api, const Send& wrong, int usual, IfAccepted then) {
  pair.fill({0, kRoom}, kSeedHere);
  pair.remote.fill({0, kRoom}, kSeedThere);
  recv(pair, kRecvId);
  const std::array list{pair.request(IBV_WR_SEND, 8, 0, 0, kFirstId), wrong,
                        pair.request(IBV_WR_SEND, 8, 0, 0, kLastId)};
  std::size_t bad = kBadNull;
  const int err = post(pair.local.qp(), api, list, &bad);
  const std::string what = std::format("{} of {}", api_name(api), text_of(wrong));
  if (!usually_refused(err, usual, what.c_str())) return check_accepted(pair, wrong, then);
  if (api == Api::kPost) {
    require_bad(bad, 1);
    pair.expect(kFirstId);
    pair.expect_recv(kRecvId);
  }
  expect_quiet(pair.local.send_cq(), 5);
  pair.remote.expect_quiet(5);
}

}  // namespace guest
