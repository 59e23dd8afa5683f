// SPDX-License-Identifier: GPL-2.0-or-later
// ratelimit: rate limits of QPs and static rates of addresses: what is advertised, accepted,
// refused and reported, and that a limited QP is not faster than its limit. How exact the device
// is, its simulation shows (engine tests).
//
// Test: ratelimit
// Tier: quick, 300 s
// Boot: pair
// Results: 7
// Proves: Rate limits of RC and raw packet QPs and static rates: capabilities, what is refused,
//   what rdma resource reports, and a WRITE that is not faster than the limit.
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runner.h"
#include "verbs.h"

namespace guest {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kNone = 0;

// Two connected QPs of this process, and memory.
struct Pair {
  Pair() {
    how.mtu = IBV_MTU_1024;
    for (QpPtr* const qp : {&a, &b}) {
      ibv_qp_cap cap{.max_send_wr = 16,
                     .max_recv_wr = 16,
                     .max_send_sge = 1,
                     .max_recv_sge = 1,
                     .max_inline_data = 0};
      *qp = create_rc_qp(dev, cq.get(), cq.get(), cap);
    }
    const Endpoint ea{a->qp_num, 1, dev.gid()};
    const Endpoint eb{b->qp_num, 2, dev.gid()};
    connect(a.get(), dev, how, ea, eb);
    connect(b.get(), dev, how, eb, ea);
  }
  Device dev{"tern0", -1};
  Connection how;
  CqPtr cq = create_cq(dev, 64);
  Memory memory{dev.pd(), 2U << 20, kAllAccess};
  QpPtr a;
  QpPtr b;
};

// The rate in kbit/s that "rdma resource" reports for the QP.
std::uint32_t reported(const ibv_qp* qp) {
  const std::string command =
      "rdma resource show qp link tern0 lqpn " + std::to_string(qp->qp_num) + " -dd";
  const std::unique_ptr<FILE, int (*)(FILE*)> out(popen(command.c_str(), "r"), pclose);
  require(out != nullptr, "cannot run rdma");
  std::string text;
  std::array<char, 512> piece{};
  while (std::fgets(piece.data(), static_cast<int>(piece.size()), out.get()) != nullptr)
    text += piece.data();
  const std::string name = "drv_rate_kbps ";
  const std::size_t at = text.find(name);
  require(at != std::string::npos, "no rate in: {}", text);
  return static_cast<std::uint32_t>(std::stoul(text.substr(at + name.size())));
}

int limit(ibv_qp* qp, std::uint32_t kbit, std::uint32_t burst = 0, std::uint16_t typical = 0) {
  ibv_qp_rate_limit_attr attr{};
  attr.rate_limit = kbit;
  attr.max_burst_sz = burst;
  attr.typical_pkt_sz = typical;
  return ibv_modify_qp_rate_limit(qp, &attr);
}

void expect_limit(const ibv_qp* qp, std::uint32_t kbit) {
  const std::uint32_t rate = reported(qp);
  require(rate == kbit, "reported {} kbit/s, not {}", rate, kbit);
}

std::uint32_t most() {
  const Device dev("tern0", -1);
  ibv_device_attr_ex attr{};
  if (const int err = ibv_query_device_ex(dev.context(), nullptr, &attr))
    require(false, "ibv_query_device_ex: {}", errno_name(err));
  const ibv_packet_pacing_caps& caps = attr.packet_pacing_caps;
  require(caps.qp_rate_limit_min == 1, "the least rate is {}", caps.qp_rate_limit_min);
  require(caps.qp_rate_limit_max >= 1'000, "the highest rate is {}", caps.qp_rate_limit_max);
  for (const ibv_qp_type type :
       {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET, IBV_QPT_XRC_SEND}) {
    require((caps.supported_qpts & 1U << type) != 0, "type {} is missing", static_cast<int>(type));
  }
  require((caps.supported_qpts & 1U << IBV_QPT_XRC_RECV) == 0, "XRC_RECV cannot send");
  return caps.qp_rate_limit_max;
}

void test_caps() { (void)most(); }

void test_reported() {
  const Pair pair;
  expect_limit(pair.a.get(), kNone);
  require(limit(pair.a.get(), 12'345) == 0, "refused");
  expect_limit(pair.a.get(), 12'345);
  expect_limit(pair.b.get(), kNone);
  require(limit(pair.a.get(), 54'321, 1 << 20, 1024) == 0, "a burst is refused");
  expect_limit(pair.a.get(), 54'321);
  require(limit(pair.a.get(), 0) == 0, "no limit is refused");
  expect_limit(pair.a.get(), kNone);
  require(limit(pair.a.get(), most()) == 0, "the highest rate is refused");
  require(to_state(pair.a.get(), IBV_QPS_RESET) == 0, "no RESET");
  expect_limit(pair.a.get(), kNone);
}

void test_refused() {
  const Pair pair;
  ibv_qp* const qp = pair.a.get();
  require(limit(qp, 777) == 0, "refused");
  const auto expect = [](int got, int want) {
    require(got == want, "{}, not {}", errno_name(got), errno_name(want));
  };
  expect(limit(qp, most() + 1), EINVAL);
  expect(limit(qp, 0, 1), EINVAL);
  expect(limit(qp, 0, 0, 1), EINVAL);
  expect(limit(qp, 1, (1U << 24) + 1), EINVAL);
  ibv_qp_rate_limit_attr unknown{};
  unknown.rate_limit = 1;
  unknown.comp_mask = 1;
  expect(ibv_modify_qp_rate_limit(qp, &unknown), EINVAL);
  expect_limit(qp, 777);
  require(to_state(qp, IBV_QPS_RESET) == 0 && to_init(qp, pair.how) == 0, "no INIT");
  expect(limit(qp, 777), EINVAL);
}

void test_modify() {
  const Pair pair;
  ibv_qp_attr attr{};
  attr.rate_limit = 4'242;
  const int err = ibv_modify_qp(pair.a.get(), &attr, IBV_QP_RATE_LIMIT);
  require(err == 0, "ibv_modify_qp: {}", errno_name(err));
  expect_limit(pair.a.get(), 4'242);
}

// A MiB at 20 Mbit/s takes 420 ms, whatever the machine does.
void test_not_faster() {
  const Pair pair;
  constexpr std::uint32_t kBytes = 1U << 20;
  require(limit(pair.a.get(), 20'000) == 0, "refused");
  fill(pair.memory.bytes().first(kBytes), 7);
  const Clock::time_point begin = Clock::now();
  const int err = post(pair.a.get(), Api::kPost,
                       Send{.opcode = IBV_WR_RDMA_WRITE,
                            .sges = {pair.memory.sge(0, kBytes)},
                            .raddr = pair.memory.address(kBytes),
                            .rkey = pair.memory.rkey()});
  require(err == 0, "post: {}", errno_name(err));
  const ibv_wc wc = poll(pair.cq.get(), 1, 60'000)[0];
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  require(wc.status == IBV_WC_SUCCESS, "{}", ibv_wc_status_str(wc.status));
  require(took >= 419, "{} ms", took);
  require(!mismatch(pair.memory.bytes().subspan(kBytes, kBytes), 7), "other bytes arrived");
}

void test_static_rate() {
  const Pair pair;
  ibv_qp* const qp = pair.a.get();
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  require(ibv_query_qp(qp, &attr, IBV_QP_AV, &init) == 0, "ibv_query_qp");
  require(to_state(qp, IBV_QPS_SQD) == 0, "no SQD");
  const auto set = [&](std::uint8_t rate) {
    ibv_qp_attr path{};
    path.ah_attr = attr.ah_attr;
    path.ah_attr.static_rate = rate;
    return ibv_modify_qp(qp, &path, IBV_QP_AV);
  };
  const int err = set(IBV_RATE_2_5_GBPS);
  require(err == 0, "2.5 Gbit/s is refused: {}", std::strerror(err));
  expect_limit(qp, 2'500'000);
  require(set(IBV_RATE_40_GBPS) == 0, "40 Gbit/s is refused");
  expect_limit(qp, kNone);
  require(set(1) == EINVAL, "there is no code 1");
  require(set(26) == EINVAL, "there is no code 26");

  ibv_ah_attr ah = attr.ah_attr;
  ah.static_rate = IBV_RATE_5_GBPS;
  require(AhPtr(ibv_create_ah(pair.dev.pd(), &ah)) != nullptr,
          "an address handle of 5 Gbit/s is refused");
  ah.static_rate = 1;
  require(ibv_create_ah(pair.dev.pd(), &ah) == nullptr && errno == EINVAL,
          "an address handle with code 1");
}

void test_raw() {
  const Device dev("tern0", -1);
  const CqPtr cq = create_cq(dev, 16);
  QpSpec spec{.type = IBV_QPT_RAW_PACKET,
              .send_cq = cq.get(),
              .recv_cq = cq.get(),
              .cap = {.max_send_wr = 4,
                      .max_recv_wr = 4,
                      .max_send_sge = 1,
                      .max_recv_sge = 1,
                      .max_inline_data = 0},
              .send_ops = IBV_QP_EX_WITH_SEND};
  const QpPtr qp = try_create_qp(dev, spec);
  require(qp != nullptr, "no raw QP");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  require(ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_PORT) == 0, "no INIT");
  require(to_state(qp.get(), IBV_QPS_RTR) == 0, "no RTR");
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.rate_limit = 99;
  const int err = ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT);
  require(err == 0, "to RTS with a limit: {}", errno_name(err));
  expect_limit(qp.get(), 99);
  require(limit(qp.get(), 98) == 0, "refused");
  expect_limit(qp.get(), 98);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  const std::vector<guest::Named> tests = {
      {"caps", guest::test_caps},
      {"reported", guest::test_reported},
      {"refused", guest::test_refused},
      {"modify", guest::test_modify},
      {"not-faster", guest::test_not_faster},
      {"static-rate", guest::test_static_rate},
      {"raw", guest::test_raw},
  };
  return guest::run_named("ratelimit", tests,
                          std::span(argv + 1, static_cast<std::size_t>(argc - 1)))
             ? 0
             : 1;
}
