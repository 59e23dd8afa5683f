// SPDX-License-Identifier: GPL-2.0-or-later
// comp_cntr: tests completion counters (ibv_create_comp_cntr(3), ibv_qp_attach_comp_cntr(3)), also
// with values in memory of the program (terndv_create_comp_cntr(3)). Needs rdma-core 65.
//
//   comp_cntr [-d DEV] [-g GID_INDEX] [PATTERN...]
//
// Prints "ok comp_cntr/NAME" or "not ok comp_cntr/NAME - why" for each test.
//
// Test: comp_cntr
// Tier: quick, 300 s
// Lane: testing
// Boot: pair
// Proves: Completion counters of rdma-core 65 on Linux 7.3: what each operation counts, in requests
//   and bytes, successes and failures; values set and added; each refusal with its errno; values in
//   memory of the program, which waits by loads alone, and in a dma-buf; and that nothing is left
//   of a process that was killed.
#include <fcntl.h>
#include <infiniband/terndv.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>

#include "counts.h"
#include "pair.h"
#include "program.h"

namespace guest {
namespace {

constexpr std::uint32_t kBytes = 3000;

struct CounterDestroyer {
  void operator()(ibv_comp_cntr* counter) const {
    note_destroy("ibv_destroy_comp_cntr", ibv_destroy_comp_cntr(counter));
  }
};
using CounterPtr = std::unique_ptr<ibv_comp_cntr, CounterDestroyer>;

CounterPtr create(const Device& dev, ibv_comp_cntr_type type = IBV_COMP_CNTR_TYPE_WRS) {
  ibv_comp_cntr_init_attr attr{};
  attr.type = type;
  CounterPtr counter(ibv_create_comp_cntr(dev.context(), &attr));
  require(counter != nullptr, "ibv_create_comp_cntr: {}", errno_name(errno));
  return counter;
}

int try_attach(ibv_qp* qp, ibv_comp_cntr* counter, std::uint32_t ops) {
  ibv_qp_attach_comp_cntr_attr attr{};
  attr.op_mask = ops;
  return ibv_qp_attach_comp_cntr(qp, counter, &attr);
}
void attach(ibv_qp* qp, const CounterPtr& counter, std::uint32_t ops) {
  require_err(try_attach(qp, counter.get(), ops), 0, "ibv_qp_attach_comp_cntr");
}

// Waits for both values: a count may come after the completion, or without one.
void expect(const CounterPtr& counter, std::uint64_t comp, std::uint64_t err, const char* what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::uint64_t got = 0, failed = 0;
  do {
    require_err(ibv_read_comp_cntr(counter.get(), &got), 0, "ibv_read_comp_cntr");
    require_err(ibv_read_err_comp_cntr(counter.get(), &failed), 0, "ibv_read_err_comp_cntr");
  } while ((got != comp || failed != err) && std::chrono::steady_clock::now() < end);
  require(got == comp && failed == err, "{}: {} and {}, not {} and {}", what, got, failed, comp,
          err);
}

// Two QPs that are not connected yet.
PairOptions unconnected() {
  PairOptions options = loop(IBV_QPT_RC);
  options.connect = false;
  return options;
}

// One request of each kind.
void run_all(const Pair& rc) {
  rc.recv(1, 0, kBytes);
  rc.run(rc.request(IBV_WR_SEND, kBytes));
  rc.expect_recv(1);
  rc.run(rc.request(IBV_WR_RDMA_WRITE, kBytes));
  rc.recv(2, 0, 0);
  rc.run(rc.request(IBV_WR_RDMA_WRITE_WITH_IMM, 40));
  rc.expect_recv(2);
  rc.run(rc.request(IBV_WR_RDMA_READ, 2000));
  rc.run(rc.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8));
}

void counts(const Device& dev) {
  struct Case {
    std::uint32_t op;
    bool remote;
    std::uint64_t requests, bytes;
  };
  constexpr std::array<Case, 6> kCases{{
      {IBV_QP_ATTACH_COMP_CNTR_OP_SEND, false, 1, kBytes},
      {IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ, false, 1, 2000},
      {IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE, false, 2, kBytes + 40},
      {IBV_QP_ATTACH_COMP_CNTR_OP_RECV, true, 2, kBytes + 40},
      {IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ, true, 1, 2000},
      {IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE, true, 2, kBytes + 40},
  }};
  for (const auto type : {IBV_COMP_CNTR_TYPE_WRS, IBV_COMP_CNTR_TYPE_BYTES}) {
    std::vector<CounterPtr> counters;
    Pair rc(dev, unconnected());
    for (const Case& c : kCases) {
      counters.push_back(create(dev, type));
      attach(c.remote ? rc.remote.end().qp() : rc.local.qp(), counters.back(), c.op);
    }
    rc.connect();
    run_all(rc);
    for (std::size_t i = 0; i < kCases.size(); ++i) {
      const Case& c = kCases[i];
      expect(counters[i], type == IBV_COMP_CNTR_TYPE_WRS ? c.requests : c.bytes, 0,
             std::format("operation {:#x}, type {}", c.op, static_cast<int>(type)).c_str());
    }
  }
}

void shared(const Device& dev) {
  const CounterPtr all = create(dev);
  Pair first(dev, unconnected());
  Pair second(dev, unconnected());
  for (Pair* const rc : {&first, &second}) {
    attach(rc->local.qp(), all,
           IBV_QP_ATTACH_COMP_CNTR_OP_SEND | IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ);
    attach(rc->local.qp(), all, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
    rc->connect();
  }
  run_all(first);
  run_all(second);
  expect(all, 8, 0, "two QPs");
}

void errors(const Device& dev) {
  const CounterPtr writes = create(dev);
  const CounterPtr sends = create(dev);
  Pair rc(dev, unconnected());
  attach(rc.local.qp(), writes, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
  attach(rc.local.qp(), sends, IBV_QP_ATTACH_COMP_CNTR_OP_SEND);
  rc.connect();
  Send wrong = rc.request(IBV_WR_RDMA_WRITE, 8, 0, 0, 1);
  wrong.rkey ^= 0x100;
  rc.run(wrong, Api::kPost, IBV_WC_REM_ACCESS_ERR);
  rc.run(rc.request(IBV_WR_SEND, 8, 0, 0, 2), Api::kPost, IBV_WC_WR_FLUSH_ERR);
  expect(writes, 0, 1, "a refused WRITE");
  expect(sends, 0, 1, "a flushed SEND");
}

void set_and_add(const Device& dev) {
  const CounterPtr counter = create(dev);
  expect(counter, 0, 0, "a new counter");
  require_err(ibv_set_comp_cntr(counter.get(), 40), 0, "ibv_set_comp_cntr");
  require_err(ibv_inc_comp_cntr(counter.get(), 3), 0, "ibv_inc_comp_cntr");
  require_err(ibv_set_err_comp_cntr(counter.get(), UINT64_MAX), 0, "ibv_set_err_comp_cntr");
  expect(counter, 43, UINT64_MAX, "set");
  require_err(ibv_inc_err_comp_cntr(counter.get(), 2), 0, "ibv_inc_err_comp_cntr");
  ibv_comp_cntr_caps caps{};
  require_err(ibv_query_comp_cntr_caps(dev.context(), &caps), 0, "ibv_query_comp_cntr_caps");
  require(caps.max_value == UINT64_MAX && caps.max_counters >= 1000 &&
              caps.supported_qp_attach_ops == 0x3f,
          "capabilities: {} {} {:#x}", caps.max_value, caps.max_counters,
          caps.supported_qp_attach_ops);
  expect(counter, 43, 1, "after max_value comes 0");
}

void refused(const Device& dev) {
  const CounterPtr counter = create(dev);
  const CounterPtr other = create(dev);
  {
    Pair rc(dev, unconnected());
    ibv_qp* const qp = rc.local.qp();
    require_err(try_attach(qp, counter.get(), 0), EINVAL, "no operation");
    require_err(try_attach(qp, counter.get(), IBV_QP_ATTACH_COMP_CNTR_OP_SEND | 1U << 6),
                EOPNOTSUPP, "an unknown operation");
    ibv_qp_attach_comp_cntr_attr masked{};
    masked.comp_mask = 1;
    masked.op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_SEND;
    require_err(ibv_qp_attach_comp_cntr(qp, counter.get(), &masked), EOPNOTSUPP, "a comp_mask");
    require_err(try_attach(qp, counter.get(), IBV_QP_ATTACH_COMP_CNTR_OP_SEND), 0, "in RESET");
    require_err(try_attach(qp, other.get(), IBV_QP_ATTACH_COMP_CNTR_OP_SEND), EBUSY, "a second");
    rc.connect(IBV_QPS_INIT);
    require_err(try_attach(qp, other.get(), IBV_QP_ATTACH_COMP_CNTR_OP_RECV), 0, "in INIT");
    rc.connect();
    require_err(try_attach(qp, other.get(), IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ), EINVAL,
                "in RTS");
    require_err(ibv_destroy_comp_cntr(counter.get()), EBUSY, "an attached counter");
  }
  ibv_comp_cntr_init_attr attr{};
  for (int i = 0; i < 3; ++i) {
    attr = {};
    constexpr std::uint32_t kUnknown = 2;
    if (i == 0) std::memcpy(&attr.type, &kUnknown, sizeof(kUnknown));
    if (i == 1) attr.flags = 1;
    if (i == 2) attr.comp_mask = 1;
    errno = 0;
    require(ibv_create_comp_cntr(dev.context(), &attr) == nullptr, "attributes {}", i);
    require_err(errno, EOPNOTSUPP, "ibv_create_comp_cntr");
  }
}

ibv_comp_cntr* create_in(const Device& dev, const terndv_mem& comp) {
  ibv_comp_cntr_init_attr attr{};
  terndv_comp_cntr_init_attr tern{};
  tern.comp_mask = TERNDV_COMP_CNTR_MASK_COMP_MEM;
  tern.comp = comp;
  return terndv_create_comp_cntr(dev.context(), &attr, &tern);
}

// The program waits by loads of its own memory.
void own_memory(const Device& dev) {
  alignas(8) std::atomic<std::uint64_t> value{99};
  terndv_mem memory{};
  memory.ptr = &value;
  memory.fd = -1;
  const CounterPtr counter(create_in(dev, memory));
  require(counter != nullptr, "terndv_create_comp_cntr: {}", errno_name(errno));
  require(value == 0, "{} at first", value.load());
  Pair rc(dev, unconnected());
  attach(rc.remote.end().qp(), counter, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE);
  rc.connect();
  for (std::uint64_t i = 1; i <= 100; ++i) {
    rc.fill({0, kBytes}, i);
    Send write = rc.request(IBV_WR_RDMA_WRITE, kBytes, 0, 0, i);
    rc.post(write);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (value.load(std::memory_order_acquire) != i && std::chrono::steady_clock::now() < end) {
    }
    require(value == i, "{} after {} WRITEs", value.load(), i);
    rc.remote.check({0, kBytes}, i);  // the data are there before the count
    rc.expect(i);
  }
  memory.ptr = reinterpret_cast<char*>(&value) + 4;
  errno = 0;
  require(create_in(dev, memory) == nullptr, "an unaligned value");
  require_err(errno, EINVAL, "terndv_create_comp_cntr");
  memory.ptr = nullptr;
  errno = 0;
  require(create_in(dev, memory) == nullptr, "a value without memory");
  require_err(errno, EFAULT, "terndv_create_comp_cntr");
}

void dma_buf(const Device& dev) {
  constexpr std::size_t kBuf = 8192;
  const int mem = ::memfd_create("counter", MFD_ALLOW_SEALING);
  require(mem >= 0 && ::ftruncate(mem, kBuf) == 0 && ::fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK) == 0,
          "memfd: {}", errno_name(errno));
  const int udmabuf = ::open("/dev/udmabuf", O_RDWR);
  require(udmabuf >= 0, "/dev/udmabuf: {}", errno_name(errno));
  udmabuf_create make{};
  make.memfd = static_cast<__u32>(mem);
  make.flags = UDMABUF_FLAGS_CLOEXEC;
  make.size = kBuf;
  terndv_mem memory{};
  memory.fd = ::ioctl(udmabuf, UDMABUF_CREATE, &make);
  require(memory.fd >= 0, "UDMABUF_CREATE: {}", errno_name(errno));
  memory.offset = 4096 + 16;
  void* const map = ::mmap(nullptr, kBuf, PROT_READ, MAP_SHARED, mem, 0);
  require(map != MAP_FAILED, "mmap: {}", errno_name(errno));
  {
    const CounterPtr unmapped(create_in(dev, memory));
    require(unmapped != nullptr, "terndv_create_comp_cntr: {}", errno_name(errno));
    std::uint64_t value = 0;
    require_err(ibv_read_comp_cntr(unmapped.get(), &value), EOPNOTSUPP, "not mapped");
    require_err(ibv_set_comp_cntr(unmapped.get(), 77), 0, "ibv_set_comp_cntr");
    std::memcpy(&value, static_cast<char*>(map) + memory.offset, sizeof(value));
    require(value == 77, "{} in the dma-buf", value);
  }
  memory.ptr = static_cast<char*>(map) + memory.offset;
  {
    const CounterPtr counter(create_in(dev, memory));
    require(counter != nullptr, "terndv_create_comp_cntr: {}", errno_name(errno));
    Pair rc(dev, unconnected());
    attach(rc.local.qp(), counter, IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE);
    rc.connect();
    rc.run(rc.request(IBV_WR_RDMA_WRITE, kBytes));
    expect(counter, 1, 0, "in a dma-buf");
  }
  memory.offset = kBuf - 4;
  errno = 0;
  require(create_in(dev, memory) == nullptr, "a value at the end of the dma-buf");
  require_err(errno, EINVAL, "terndv_create_comp_cntr");
  ::munmap(map, kBuf);
  for (const int fd : {memory.fd, udmabuf, mem}) ::close(fd);
}

void killed(const Device& dev) {
  const std::string name = ibv_get_device_name(dev.context()->device);
  const Counts before = read_counts(name);
  std::array<int, 2> pipe{};
  require(::pipe(pipe.data()) == 0, "pipe");
  const pid_t child = ::fork();
  require(child >= 0, "fork: {}", errno_name(errno));
  if (child == 0) {
    try {
      const Device own(name, dev.gid_index());
      std::vector<CounterPtr> counters;
      Pair rc(own, unconnected());
      for (unsigned i = 0; i < 300; ++i) counters.push_back(create(own));
      attach(rc.local.qp(), counters[0], IBV_QP_ATTACH_COMP_CNTR_OP_SEND);
      (void)!::write(pipe[1], "y", 1);
      ::pause();
    } catch (...) {
    }
    ::_exit(1);
  }
  ::close(pipe[1]);
  char ready = 0;
  const bool made = ::read(pipe[0], &ready, 1) == 1;
  const std::string held = difference(before, read_counts(name));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(pipe[0]);
  require(made && held.find("alive_comp_cntr 0 -> 300") != std::string::npos, "the child made: {}",
          held);
  const std::string left = settle(name, before, std::chrono::seconds(10));
  require(left.empty(), "left behind: {}", left);
}

void run(const CommandLine& line) {
  const Device dev(line.device, line.gid_index);
  run_tests(tests_of(dev, {{"counts", counts},
                           {"shared", shared},
                           {"errors", errors},
                           {"set-and-add", set_and_add},
                           {"refused", refused},
                           {"own-memory", own_memory},
                           {"dma-buf", dma_buf},
                           {"killed", killed}}));
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  return guest::run_program(argc, argv, {.group = "comp_cntr", .run = guest::run});
}
