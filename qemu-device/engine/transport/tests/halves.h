// SPDX-License-Identifier: GPL-2.0-or-later
// A half of a QP without a device. FakeConnection and FakeContext define what Qp and DataPath
// define in the engine: WQEs are values of the test, and packets, completions and events are
// collected. Memory and its keys are real.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "objects/context.h"
#include "testing/queues.h"
#include "tests/fake_host.h"
#include "transport/connection.h"
#include "transport/receiver.h"
#include "transport/send_queue.h"

namespace tern {

using namespace test;

using Bytes = std::vector<std::byte>;

// The fields of a packet that a half sent, or that a test delivers to one.
struct Fields {
  Op op = Op::kAck;
  std::uint32_t psn = 0;
  bool ack_req = false;
  std::uint8_t syndrome = kSyndromeAck;
  std::uint32_t msn = 0;
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint32_t len = 0;  // of the RETH
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;
  std::uint64_t original = 0;
  std::uint32_t imm = 0;
  std::uint32_t inv_rkey = 0;
  std::uint32_t qkey = 0;
  std::uint32_t dest_qp = 0;
  std::uint32_t src_qp = 0;
  bool solicited = false;
  Bytes payload;
};

class FakeContext final : public Context {
 public:
  FakeContext(Host& host_, DeviceState& device_, Memory& memory_)
      : Context(0, host_, device_, memory_, events_, faults_) {}

  std::vector<Fields> sent;

 private:
  AsyncEvents events_;
  PageFaults faults_;
};

class FakeConnection final : public Connection {
 public:
  FakeConnection(Context& context, std::uint8_t type, Transport transport);

  [[nodiscard]] tern_qp_attr& attributes() { return attr_; }
  void set_state(std::uint8_t state) { attr_.state = state; }
  // Ends the page fault of half `side`, as Qp::resume_fault() does.
  void resume(std::uint8_t side, bool failed = false);

  SendQueue* sender = nullptr;  // the half under test; the other one is null
  Receiver* receiver = nullptr;

  std::vector<Bytes> sq;  // WQE i is posted in slot i
  std::deque<RecvWqe> rq;
  bool rq_unusable = false;

  std::vector<tern_cqe> sends;
  std::vector<tern_cqe> receives;
  std::vector<int> errors;  // events of enter_error()
  std::vector<Memory::Missing> faults;
  unsigned wakes = 0;
  unsigned established = 0;
  unsigned drained = 0;
};

// A QP in RTS with a path MTU of 256 bytes, which sends from PSN 100 on and expects PSN 200, and a
// region with all rights.
class HalfTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kMtu = 256;
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint32_t kTurn = 1 << 20;

  explicit HalfTest(std::uint8_t type = TERN_QPT_RC, Transport transport = Transport::kRc);

  // A region of `pages` pages. With TERN_ACCESS_ON_DEMAND they are absent until set_present().
  TestMr reg(std::uint32_t pages, std::uint32_t access = kAllAccess | TERN_ACCESS_MW_BIND);
  void set_present(const TestMr& mr, std::uint32_t page);
  // Bytes [offset, offset + len) of `mr`.
  static Bytes copy(const TestMr& mr, std::uint64_t offset, std::uint64_t len) {
    const auto bytes = mr.bytes(offset, len);
    return {bytes.begin(), bytes.end()};
  }
  static Bytes pattern(std::size_t len, unsigned seed = 1);

  void post_recv(const std::vector<tern_sge>& sges, std::uint64_t wr_id = 0);
  // Passes a packet with these fields to the half under test.
  void deliver(const Fields& fields);
  // Gives the half a turn, and returns the packets sent since the last call.
  std::vector<Fields> turn(std::uint32_t allowance = kTurn);
  // Lets time pass, and runs the timers that expire.
  void pass(Nanos time);
  [[nodiscard]] std::uint64_t count(unsigned counter) const {
    return context.counters.rdma[counter];
  }

  FakeHost host;
  DeviceState device{{}};
  Memory memory{host, device.page_budget, 16, nullptr, 4};
  FakeContext context{host, device, memory};
  FakeConnection qp;
  TestMr data;
};

// A member of all rows.
template <class T, class Row>
std::vector<T> column(const std::vector<Row>& rows, T Row::* field) {
  std::vector<T> all;
  for (const Row& row : rows) all.push_back(row.*field);
  return all;
}
inline auto psns(const std::vector<Fields>& packets) { return column(packets, &Fields::psn); }
inline auto ops(const std::vector<Fields>& packets) { return column(packets, &Fields::op); }
inline auto statuses(const std::vector<tern_cqe>& cqes) { return column(cqes, &tern_cqe::status); }

}  // namespace tern
