// SPDX-License-Identifier: GPL-2.0-or-later
// ratelimit: rate limits of QPs and static rates of addresses: what is advertised, accepted,
// refused and reported, and that a limited QP is not faster than its limit. How exact the device
// is, its simulation shows (engine tests).
//
// Test: ratelimit
// Tier: quick, 300 s
// Boot: pair
// Proves: Rate limits of RC and raw packet QPs and static rates: capabilities, what is refused,
//   what rdma resource reports, and a WRITE that is not faster than the limit.
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "lab.h"
#include "pair.h"
#include "program.h"

namespace guest {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kNone = 0;

// Two connected QPs of this process.
struct Both {
  Device dev{"tern0", -1};
  Pair pair{dev, alike({.memory = 1U << 20}, {.mtu = IBV_MTU_1024})};
  ibv_qp* const a = pair.local.qp();
  ibv_qp* const b = pair.remote.end().qp();
};

// The rate in kbit/s that "rdma resource" reports for the QP.
std::uint32_t reported(const ibv_qp* qp) {
  const std::string command =
      "rdma resource show qp link tern0 lqpn " + std::to_string(qp->qp_num) + " -dd";
  const std::string text = shell(command);
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
  const Both both;
  expect_limit(both.a, kNone);
  require(limit(both.a, 12'345) == 0, "refused");
  expect_limit(both.a, 12'345);
  expect_limit(both.b, kNone);
  require(limit(both.a, 54'321, 1 << 20, 1024) == 0, "a burst is refused");
  expect_limit(both.a, 54'321);
  require(limit(both.a, 0) == 0, "no limit is refused");
  expect_limit(both.a, kNone);
  require(limit(both.a, most()) == 0, "the highest rate is refused");
  require(to_state(both.a, IBV_QPS_RESET) == 0, "no RESET");
  expect_limit(both.a, kNone);
}

void test_refused() {
  const Both both;
  ibv_qp* const qp = both.a;
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
  require(to_state(qp, IBV_QPS_RESET) == 0 && to_init(qp, both.pair.how) == 0, "no INIT");
  expect(limit(qp, 777), EINVAL);
}

void test_modify() {
  const Both both;
  ibv_qp_attr attr{};
  attr.rate_limit = 4'242;
  const int err = ibv_modify_qp(both.a, &attr, IBV_QP_RATE_LIMIT);
  require(err == 0, "ibv_modify_qp: {}", errno_name(err));
  expect_limit(both.a, 4'242);
}

// A MiB at 20 Mbit/s takes 420 ms, whatever the machine does.
void test_not_faster() {
  const Both both;
  constexpr std::uint32_t kBytes = 1U << 20;
  require(limit(both.a, 20'000) == 0, "refused");
  const Pair& pair = both.pair;
  pair.fill({0, kBytes}, 7);
  const Clock::time_point begin = Clock::now();
  pair.post(pair.request(IBV_WR_RDMA_WRITE, kBytes));
  const ibv_wc wc = poll(pair.local.send_cq(), 1, 60'000)[0];
  const auto took =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
  require(wc.status == IBV_WC_SUCCESS, "{}", ibv_wc_status_str(wc.status));
  require(took >= 419, "{} ms", took);
  pair.remote.check({0, kBytes}, 7);
}

void test_static_rate() {
  const Both both;
  ibv_qp* const qp = both.a;
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
  require(AhPtr(ibv_create_ah(both.dev.pd(), &ah)) != nullptr,
          "an address handle of 5 Gbit/s is refused");
  ah.static_rate = 1;
  require(ibv_create_ah(both.dev.pd(), &ah) == nullptr && errno == EINVAL,
          "an address handle with code 1");
}

void test_raw() {
  const Device dev("tern0", -1);
  const CqPtr cq = create_cq(dev, 16);
  const QpPtr qp = create_qp(dev, {.type = IBV_QPT_RAW_PACKET,
                                   .send_cq = cq.get(),
                                   .recv_cq = cq.get(),
                                   .send_ops = IBV_QP_EX_WITH_SEND});
  connect(qp.get(), dev, {}, {}, {}, IBV_QPS_RTR);
  ibv_qp_attr attr{};
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
  using namespace guest;
  return run_program(argc, argv, {.group = "ratelimit", .run = [](const CommandLine&) {
                                    run_tests(std::vector<Test>{{"caps", test_caps},
                                                                {"reported", test_reported},
                                                                {"refused", test_refused},
                                                                {"modify", test_modify},
                                                                {"not-faster", test_not_faster},
                                                                {"static-rate", test_static_rate},
                                                                {"raw", test_raw}});
                                  }});
}
