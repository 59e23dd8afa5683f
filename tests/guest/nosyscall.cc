// SPDX-License-Identifier: GPL-2.0-or-later
// nosyscall: tests that the data path makes no system call.
//
//   nosyscall [-d DEV] [-g GID_INDEX] [-n COUNT] [-t SECONDS] [-T]
//
// A child connects QPs to each other and installs a seccomp filter that kills it at any system call
// but exit_group. Then it posts and polls COUNT requests of each opcode through ibv_post_send() and
// ibv_wr_*(), checks every byte, arms CQs, binds and invalidates windows, copies to and from device
// memory and drives QPs into errors. It reports through shared memory, since it cannot even print.
// With -T the QPs and CQs belong to a thread domain. The parent prints "ok NAME" or "not ok NAME -
// why" for each part.
//
// Test: nosyscall
// Tier: quick, 1300 s
// Boot: pair
// Proves: A seccomp filter kills the process on any system call during 100,000 posts and polls of
//   every opcode, including CQ wrap and error completions, and during reads of the device's clock.
//
// Test: nosyscall-thread
// Tier: quick, 1300 s
// Boot: pair
// Run: nosyscall -T
// Proves: The same with the objects in a thread domain.
#include <arpa/inet.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "map.h"
#include "pair.h"
#include "program.h"

namespace guest {
namespace {

constexpr std::uint32_t kBatch = 16;  // requests per batch
constexpr std::uint32_t kSlot = 64;   // bytes of memory per request
constexpr int kCqEntries = 64;        // small, so that the CQs wrap thousands of times
constexpr unsigned kSignaled = IBV_SEND_SIGNALED;
constexpr unsigned kInline = IBV_SEND_INLINE;
constexpr std::uint64_t kSpins = 400'000'000;  // polls until a completion counts as lost

struct Op {
  const char* name;
  ibv_wr_opcode opcode;
  bool inline_data;
};

constexpr Op kOps[] = {
    {"send", IBV_WR_SEND, false},
    {"send_inline", IBV_WR_SEND, true},
    {"send_imm", IBV_WR_SEND_WITH_IMM, false},
    {"write", IBV_WR_RDMA_WRITE, false},
    {"write_inline", IBV_WR_RDMA_WRITE, true},
    {"write_imm", IBV_WR_RDMA_WRITE_WITH_IMM, false},
    {"read", IBV_WR_RDMA_READ, false},
    {"cmp_swp", IBV_WR_ATOMIC_CMP_AND_SWP, false},
    {"fetch_add", IBV_WR_ATOMIC_FETCH_AND_ADD, false},
};
constexpr std::size_t kNumOps = std::size(kOps);
constexpr const char* kErrors[] = {"error_rkey", "error_lkey", "error_short_recv"};
constexpr std::size_t kNumErrors = std::size(kErrors);
constexpr const char* kMemories[] = {"bind_type1", "bind_type2", "device_memory", "atomic_write",
                                     "flush"};
constexpr std::size_t kNumMemories = std::size(kMemories);

constexpr bool is_atomic(const Op& op) {
  return op.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || op.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}
constexpr std::size_t kNumParts = kNumOps + kNumMemories + kNumErrors;
constexpr std::uint32_t kDmLength = 4096;

// Results, in memory shared by child and parent.
struct Report {
  std::atomic<std::uint32_t> parts_done;
  std::atomic<std::uint64_t> posts;
  std::atomic<std::uint64_t> polls;
  std::array<std::uint64_t, kNumParts> requests;
  std::array<char, 256> error;
};

Report* told;

// Ends the child; the filter allows no other system call.
[[noreturn]] void leave(int status) {
  ::syscall(SYS_exit_group, status);
  __builtin_unreachable();
}

#define CHECK(condition, ...)                                             \
  do {                                                                    \
    if (!(condition)) {                                                   \
      std::snprintf(told->error.data(), told->error.size(), __VA_ARGS__); \
      leave(1);                                                           \
    }                                                                     \
  } while (0)

#if defined(__x86_64__)
constexpr std::uint32_t kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArch = AUDIT_ARCH_AARCH64;
#else
#error "which AUDIT_ARCH is this?"
#endif

void install_filter() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArch, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(code), .filter = code};
  CHECK(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "prctl: %s", std::strerror(errno));
  CHECK(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp: %s",
        std::strerror(errno));
}

// Two connected QPs of this process: a is the requester, b responds and receives.
struct Connected {
  std::unique_ptr<Pair> pair;
  ibv_qp* a = nullptr;
  ibv_qp* b = nullptr;
};

class Machine {
 public:
  explicit Machine(const CommandLine& line)
      : dev_(line.device, line.gid_index, line.thread_domain ? Domain::kThread : Domain::kPd),
        channel_(ibv_create_comp_channel(dev_.context())),
        send_cq_(make_send_cq()),
        recv_cq_(create_cq(dev_, kCqEntries, channel_.get())),
        here_(dev_.pd(), 2UL * kBatch * kSlot, kAllAccess | IBV_ACCESS_MW_BIND),
        there_(dev_.pd(), 2UL * kBatch * kSlot, kFlushAccess),
        type1_(alloc_mw(dev_.pd(), IBV_MW_TYPE_1)),
        type2_(alloc_mw(dev_.pd(), IBV_MW_TYPE_2)),
        dm_(alloc_dm(dev_.context(), kDmLength)),
        dm_mr_(reg_dm(dev_.pd(), dm_.get(), 0, kDmLength)),
        main_(make_pair()) {
    for (Connected& link : errors_) link = make_pair();
  }

  void run_op(std::size_t part, const Op& op, std::uint64_t count);
  void run_memory(std::size_t part, std::size_t kind, std::uint64_t count);
  void run_error(std::size_t part, std::size_t kind);

 private:
  CqPtr make_send_cq();
  Connected make_pair();

  // One batch of kBatch requests, from the post to the check of the last byte.
  void batch(const Op& op, std::uint64_t number);
  void prepare(const Op& op, std::uint64_t number);
  void post_recvs(ibv_qp* qp, std::uint64_t wr_id, std::uint32_t length);
  void post_list(const Op& op, std::uint64_t number, bool all_signaled);
  void post_session(const Op& op, std::uint64_t number, bool all_signaled);
  void poll_sends(const Op& op, std::uint64_t number, bool all_signaled);
  void poll_recvs(const Op& op, std::uint64_t number);
  void verify(const Op& op, std::uint64_t number);

  // One round of each kind in kMemories.
  void bind_type1(std::uint64_t number);
  void bind_type2(std::uint64_t number);
  void device_memory(std::uint64_t number);
  void atomic_write(std::uint64_t number);
  void flush(std::uint64_t number);
  void post_one(ibv_qp* qp, const ibv_send_wr& request);
  void one_sided(ibv_qp* qp, ibv_wr_opcode opcode, std::uint64_t number, ibv_sge sge,
                 std::uint64_t raddr, std::uint32_t rkey);
  void write_through(std::uint32_t rkey, std::uint64_t number);
  void expect(std::uint64_t wr_id, ibv_wc_opcode opcode, std::uint64_t number);

  ibv_wc wait(ibv_cq* cq);
  ibv_wc wait_ex();

  [[nodiscard]] std::uint32_t length(const Op& op, std::uint32_t i) const {
    return is_atomic(op) ? 8 : kSlot - i - 1;
  }
  [[nodiscard]] static std::byte* slot(const Memory& memory, std::uint32_t i) {
    return memory.bytes().data() + static_cast<std::size_t>(i) * kSlot;
  }
  [[nodiscard]] static std::byte pattern(std::uint64_t number, std::uint32_t i, std::uint32_t at) {
    return static_cast<std::byte>(number * 7 + i * 13 + at);
  }

  Device dev_;
  ChannelPtr channel_;
  CqPtr send_cq_;
  CqPtr recv_cq_;
  Memory here_;
  Memory there_;
  MwPtr type1_;
  MwPtr type2_;
  DmPtr dm_;
  MrPtr dm_mr_;
  Connected main_;
  std::array<Connected, kNumErrors> errors_;
  std::uint64_t counter_ = 0;  // the expected value of the atomics' target
};

CqPtr Machine::make_send_cq() {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = kCqEntries;
  attr.channel = channel_.get();
  attr.wc_flags = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  if (dev_.parent() != nullptr) {
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    attr.parent_domain = dev_.parent();
  }
  ibv_cq_ex* cq = ibv_create_cq_ex(dev_.context(), &attr);
  if (cq == nullptr) fail_errno("ibv_create_cq_ex");
  return CqPtr(ibv_cq_ex_to_cq(cq));
}

Connected Machine::make_pair() {
  const EndSpec spec{.memory = 0,
                     .send_wr = 2 * kBatch,
                     .recv_wr = 2 * kBatch,
                     .send_sge = 2,
                     .recv_sge = 2,
                     .inline_data = kSlot,
                     .more_ops = kBuiltOps | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV,
                     .psn = 0xfffff0,  // soon wraps
                     .send_cq = send_cq_.get(),
                     .recv_cq = recv_cq_.get()};
  auto pair = std::make_unique<Pair>(
      dev_, alike(spec, {.qp_access = kRemoteAccess | IBV_ACCESS_FLUSH_GLOBAL}));
  ibv_qp* const a = pair->local.qp();
  ibv_qp* const b = pair->remote.end().qp();
  return {.pair = std::move(pair), .a = a, .b = b};
}

ibv_wc Machine::wait(ibv_cq* cq) {
  ibv_wc wc{};
  for (std::uint64_t spins = 0; spins < kSpins; spins++) {
    const int n = ibv_poll_cq(cq, 1, &wc);
    CHECK(n >= 0, "ibv_poll_cq: %d", n);
    if (n == 1) {
      told->polls++;
      return wc;
    }
  }
  CHECK(false, "no completion on CQ %s", cq == send_cq_.get() ? "of sends" : "of receives");
}

// The same with the extended CQ's calls.
ibv_wc Machine::wait_ex() {
  ibv_cq_ex* cq = reinterpret_cast<ibv_cq_ex*>(send_cq_.get());
  ibv_poll_cq_attr attr{};
  ibv_wc wc{};
  for (std::uint64_t spins = 0; spins < kSpins; spins++) {
    if (ibv_start_poll(cq, &attr) == 0) {
      wc.wr_id = cq->wr_id;
      wc.status = cq->status;
      wc.opcode = ibv_wc_read_opcode(cq);
      wc.qp_num = ibv_wc_read_qp_num(cq);
      ibv_values_ex now{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK, .raw_clock = {}};
      CHECK(ibv_query_rt_values_ex(dev_.context(), &now) == 0 &&
                static_cast<std::uint64_t>(now.raw_clock.tv_nsec) >= ibv_wc_read_completion_ts(cq),
            "a completion of the future");
      ibv_end_poll(cq);
      told->polls++;
      return wc;
    }
  }
  CHECK(false, "no completion on the extended CQ");
}

// Fills the source with the batch's pattern and the target with its complement.
void Machine::prepare(const Op& op, std::uint64_t number) {
  const bool read = op.opcode == IBV_WR_RDMA_READ;
  const Memory& from = read ? there_ : here_;
  const Memory& to = read ? here_ : there_;
  for (std::uint32_t i = 0; i < kBatch; i++) {
    for (std::uint32_t at = 0; at < kSlot; at++) {
      slot(from, i)[at] = pattern(number, i, at);
      slot(to, i)[at] = ~pattern(number, i, at);
    }
  }
}

void Machine::post_recvs(ibv_qp* qp, std::uint64_t wr_id, std::uint32_t bytes) {
  std::array<ibv_recv_wr, kBatch> wrs{};
  std::array<ibv_sge, kBatch> sges{};
  for (std::uint32_t i = 0; i < kBatch; i++) {
    sges[i] = there_.sge(std::uint64_t{i} * kSlot, bytes);
    wrs[i].wr_id = wr_id + i;
    wrs[i].next = i + 1 < kBatch ? &wrs[i + 1] : nullptr;
    wrs[i].sg_list = &sges[i];
    wrs[i].num_sge = 1;
  }
  ibv_recv_wr* bad = nullptr;
  const int err = ibv_post_recv(qp, wrs.data(), &bad);
  CHECK(err == 0, "ibv_post_recv: %d", err);
  told->posts += kBatch;
}

void Machine::post_list(const Op& op, std::uint64_t number, bool all_signaled) {
  std::array<ibv_send_wr, kBatch> wrs{};
  std::array<std::array<ibv_sge, 2>, kBatch> sges{};
  for (std::uint32_t i = 0; i < kBatch; i++) {
    const std::uint32_t bytes = length(op, i);
    const std::uint64_t at = std::uint64_t{i} * kSlot;
    ibv_send_wr& wr = wrs[i];
    wr.wr_id = number * kBatch + i;
    wr.next = i + 1 < kBatch ? &wrs[i + 1] : nullptr;
    // Two SGEs; an atomic below takes only one.
    sges[i][0] = here_.sge(at, bytes / 2);
    sges[i][1] = here_.sge(at + bytes / 2, bytes - bytes / 2);
    wr.sg_list = sges[i].data();
    wr.num_sge = 2;
    wr.opcode = op.opcode;
    wr.send_flags =
        (all_signaled || i + 1 == kBatch ? kSignaled : 0U) | (op.inline_data ? kInline : 0U);
    wr.imm_data = htonl(static_cast<std::uint32_t>(wr.wr_id));
    wr.wr.rdma.remote_addr = there_.address(at);
    wr.wr.rdma.rkey = there_.rkey();
    if (is_atomic(op)) {
      sges[i][0] = here_.sge(at, 8);
      wr.num_sge = 1;
      wr.wr.atomic.remote_addr = there_.address();
      wr.wr.atomic.rkey = there_.rkey();
      const bool swap = op.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
      wr.wr.atomic.compare_add = swap ? counter_ + i : 1;
      wr.wr.atomic.swap = counter_ + i + 1;
    }
  }
  ibv_send_wr* bad = nullptr;
  const int err = ibv_post_send(main_.a, wrs.data(), &bad);
  CHECK(err == 0, "ibv_post_send of %s: %d", op.name, err);
}

void Machine::post_session(const Op& op, std::uint64_t number, bool all_signaled) {
  ibv_qp_ex* qp = ibv_qp_to_qp_ex(main_.a);
  ibv_wr_start(qp);
  for (std::uint32_t i = 0; i < kBatch; i++) {
    const std::uint32_t bytes = length(op, i);
    const std::uint64_t at = std::uint64_t{i} * kSlot;
    const __be32 imm = htonl(static_cast<std::uint32_t>(number * kBatch + i));
    qp->wr_id = number * kBatch + i;
    qp->wr_flags = all_signaled || i + 1 == kBatch ? kSignaled : 0U;
    switch (op.opcode) {
      case IBV_WR_SEND:
        ibv_wr_send(qp);
        break;
      case IBV_WR_SEND_WITH_IMM:
        ibv_wr_send_imm(qp, imm);
        break;
      case IBV_WR_RDMA_WRITE:
        ibv_wr_rdma_write(qp, there_.rkey(), there_.address(at));
        break;
      case IBV_WR_RDMA_WRITE_WITH_IMM:
        ibv_wr_rdma_write_imm(qp, there_.rkey(), there_.address(at), imm);
        break;
      case IBV_WR_RDMA_READ:
        ibv_wr_rdma_read(qp, there_.rkey(), there_.address(at));
        break;
      case IBV_WR_ATOMIC_CMP_AND_SWP:
        ibv_wr_atomic_cmp_swp(qp, there_.rkey(), there_.address(), counter_ + i, counter_ + i + 1);
        break;
      default:
        ibv_wr_atomic_fetch_add(qp, there_.rkey(), there_.address(), 1);
        break;
    }
    if (!op.inline_data) {
      ibv_wr_set_sge(qp, here_.lkey(), here_.address(at), bytes);
    } else if (i % 2 == 0) {
      ibv_wr_set_inline_data(qp, slot(here_, i), bytes);
    } else {
      const ibv_data_buf bufs[] = {{slot(here_, i), 3}, {slot(here_, i) + 3, bytes - 3}};
      ibv_wr_set_inline_data_list(qp, 2, bufs);
    }
  }
  const int err = ibv_wr_complete(qp);
  CHECK(err == 0, "ibv_wr_complete of %s: %d", op.name, err);
}

void Machine::poll_sends(const Op& op, std::uint64_t number, bool all_signaled) {
  for (std::uint32_t i = all_signaled ? 0 : kBatch - 1; i < kBatch; i++) {
    const ibv_wc wc = number % 4 < 2 ? wait(send_cq_.get()) : wait_ex();
    CHECK(wc.status == IBV_WC_SUCCESS, "%s: %s", op.name, ibv_wc_status_str(wc.status));
    CHECK(wc.wr_id == number * kBatch + i, "%s: completion of %#lx, not %#lx", op.name, wc.wr_id,
          number * kBatch + i);
  }
}

void Machine::poll_recvs(const Op& op, std::uint64_t number) {
  for (std::uint32_t i = 0; i < kBatch; i++) {
    const ibv_wc wc = wait(recv_cq_.get());
    CHECK(wc.status == IBV_WC_SUCCESS, "receive of %s: %s", op.name, ibv_wc_status_str(wc.status));
    CHECK(wc.wr_id == ~(number * kBatch) + i, "receive of %s: wr_id %#lx", op.name, wc.wr_id);
    CHECK(wc.byte_len == length(op, i), "receive of %s: %u bytes", op.name, wc.byte_len);
    CHECK(op.opcode == IBV_WR_SEND ||
              wc.imm_data == htonl(static_cast<std::uint32_t>(number * kBatch + i)),
          "receive of %s: immediate %#x", op.name, ntohl(wc.imm_data));
  }
}

void Machine::verify(const Op& op, std::uint64_t number) {
  if (is_atomic(op)) {
    for (std::uint32_t i = 0; i < kBatch; i++) {
      const std::uint64_t got = here_.load64(std::uint64_t{i} * kSlot);
      CHECK(got == counter_ + i, "%s: %#lx came back, not %#lx", op.name, got, counter_ + i);
    }
    counter_ += kBatch;
    CHECK(there_.load64(0) == counter_, "%s: memory holds %#lx", op.name, there_.load64(0));
    return;
  }
  const Memory& to = op.opcode == IBV_WR_RDMA_READ ? here_ : there_;
  for (std::uint32_t i = 0; i < kBatch; i++) {
    for (std::uint32_t at = 0; at < kSlot; at++) {
      const std::byte want = at < length(op, i) ? pattern(number, i, at) : ~pattern(number, i, at);
      CHECK(slot(to, i)[at] == want, "%s: byte %u of request %u is wrong", op.name, at, i);
    }
  }
}

void Machine::batch(const Op& op, std::uint64_t number) {
  const bool all_signaled = number % 8 < 4;
  if (!is_atomic(op)) prepare(op, number);
  if (number % 16 == 0) {
    CHECK(ibv_req_notify_cq(recv_cq_.get(), number % 32 == 0) == 0, "ibv_req_notify_cq");
    CHECK(ibv_req_notify_cq(send_cq_.get(), 0) == 0, "ibv_req_notify_cq");
  }
  if (needs_recv(op.opcode)) post_recvs(main_.b, ~(number * kBatch), kSlot);
  if (number % 2 == 0) {
    post_list(op, number, all_signaled);
  } else {
    post_session(op, number, all_signaled);
  }
  told->posts += kBatch;
  poll_sends(op, number, all_signaled);
  if (needs_recv(op.opcode)) poll_recvs(op, number);
  verify(op, number);
}

void Machine::run_op(std::size_t part, const Op& op, std::uint64_t count) {
  counter_ = there_.load64(0);
  for (std::uint64_t done = 0; done < count; done += kBatch) {
    batch(op, done / kBatch);
    told->requests[part] = done + kBatch;
  }
}

void Machine::post_one(ibv_qp* qp, const ibv_send_wr& request) {
  ibv_send_wr wr = request;
  ibv_send_wr* bad = nullptr;
  wr.send_flags = kSignaled;
  const int err = ibv_post_send(qp, &wr, &bad);
  CHECK(err == 0, "ibv_post_send of opcode %d: %d", static_cast<int>(wr.opcode), err);
  told->posts++;
}

void Machine::expect(std::uint64_t wr_id, ibv_wc_opcode opcode, std::uint64_t number) {
  const ibv_wc wc = number % 4 < 2 ? wait(send_cq_.get()) : wait_ex();
  CHECK(wc.status == IBV_WC_SUCCESS, "opcode %d: %s", static_cast<int>(opcode),
        ibv_wc_status_str(wc.status));
  CHECK(wc.wr_id == wr_id && wc.opcode == opcode, "completion of %#lx, opcode %d", wc.wr_id,
        static_cast<int>(wc.opcode));
}

// Posts a READ or a WRITE, and takes its completion.
void Machine::one_sided(ibv_qp* qp, ibv_wr_opcode opcode, std::uint64_t number, ibv_sge sge,
                        std::uint64_t raddr, std::uint32_t rkey) {
  ibv_send_wr wr{};
  wr.wr_id = number;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.wr.rdma = {.remote_addr = raddr, .rkey = rkey};
  post_one(qp, wr);
  expect(number, opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE, number);
}

// The other end writes the first slot of this end through a window.
void Machine::write_through(std::uint32_t rkey, std::uint64_t number) {
  for (std::uint32_t at = 0; at < kSlot; at++) {
    slot(there_, 0)[at] = pattern(number, 0, at);
    slot(here_, 0)[at] = ~pattern(number, 0, at);
  }
  one_sided(main_.b, IBV_WR_RDMA_WRITE, number, there_.sge(0, kSlot), here_.address(), rkey);
  CHECK(std::memcmp(slot(here_, 0), slot(there_, 0), kSlot) == 0, "other bytes came through");
}

void Machine::bind_type1(std::uint64_t number) {
  const std::uint32_t before = type1_->rkey;
  ibv_mw_bind bind{};
  bind.wr_id = number;
  bind.send_flags = kSignaled;
  bind.bind_info = {.mr = here_.mr(),
                    .addr = here_.address(),
                    .length = kSlot,
                    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  const int err = ibv_bind_mw(main_.a, type1_.get(), &bind);
  CHECK(err == 0, "ibv_bind_mw: %d", err);
  CHECK(type1_->rkey == ibv_inc_rkey(before), "key %#x after %#x", type1_->rkey, before);
  told->posts++;
  expect(number, IBV_WC_BIND_MW, number);
  write_through(type1_->rkey, number);
}

void Machine::bind_type2(std::uint64_t number) {
  const std::uint32_t rkey = (type2_->rkey & ~0xffU) | static_cast<std::uint8_t>(number);
  const ibv_mw_bind_info info{.mr = here_.mr(),
                              .addr = here_.address(),
                              .length = kSlot,
                              .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
  ibv_qp_ex* qpx = ibv_qp_to_qp_ex(main_.a);
  if (number % 2 == 0) {
    ibv_send_wr wr{};
    wr.wr_id = number;
    wr.opcode = IBV_WR_BIND_MW;
    wr.bind_mw.mw = type2_.get();
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = info;
    post_one(main_.a, wr);
  } else {
    ibv_wr_start(qpx);
    qpx->wr_id = number;
    qpx->wr_flags = kSignaled;
    ibv_wr_bind_mw(qpx, type2_.get(), rkey, &info);
    CHECK(ibv_wr_complete(qpx) == 0, "ibv_wr_complete of BIND_MW");
  }
  expect(number, IBV_WC_BIND_MW, number);
  write_through(rkey, number);
  if (number % 2 == 0) {
    ibv_send_wr wr{};
    wr.wr_id = number;
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.invalidate_rkey = rkey;
    post_one(main_.a, wr);
  } else {
    ibv_wr_start(qpx);
    ibv_wr_local_inv(qpx, rkey);
    CHECK(ibv_wr_complete(qpx) == 0, "ibv_wr_complete of LOCAL_INV");
  }
  expect(number, IBV_WC_LOCAL_INV, number);
}

// Data goes from the CPU to device memory, to the other end, and back to another part of device
// memory.
void Machine::device_memory(std::uint64_t number) {
  std::array<std::byte, kSlot> data{};
  for (std::uint32_t at = 0; at < kSlot; at++) {
    data[at] = pattern(number, 1, at);
    slot(there_, 0)[at] = ~data[at];
  }
  const std::uint64_t from = number % 16 * 4;
  CHECK(ibv_memcpy_to_dm(dm_.get(), from, data.data(), kSlot) == 0, "ibv_memcpy_to_dm");
  ibv_sge sge{.addr = from, .length = kSlot, .lkey = dm_mr_->lkey};
  one_sided(main_.a, IBV_WR_RDMA_WRITE, number, sge, there_.address(), there_.rkey());
  CHECK(std::memcmp(slot(there_, 0), data.data(), kSlot) == 0, "other bytes left device memory");
  sge.addr = kDmLength - kSlot;
  one_sided(main_.a, IBV_WR_RDMA_READ, number, sge, there_.address(), there_.rkey());
  std::array<std::byte, kSlot> back{};
  CHECK(ibv_memcpy_from_dm(back.data(), dm_.get(), sge.addr, kSlot) == 0, "ibv_memcpy_from_dm");
  CHECK(back == data, "other bytes came to device memory");
}

void Machine::atomic_write(std::uint64_t number) {
  ibv_qp_ex* qpx = ibv_qp_to_qp_ex(main_.a);
  const std::uint64_t value = number * 0x0101010101010101U;
  ibv_wr_start(qpx);
  qpx->wr_id = number;
  qpx->wr_flags = kSignaled;
  ibv_wr_atomic_write(qpx, there_.rkey(), there_.address(8), &value);
  CHECK(ibv_wr_complete(qpx) == 0, "ibv_wr_complete of ATOMIC_WRITE");
  told->posts++;
  expect(number, IBV_WC_ATOMIC_WRITE, number);
  CHECK(there_.load64(8) == value, "memory holds %#lx, not %#lx", there_.load64(8), value);
}

// A FLUSH after an unsignaled WRITE, alternately of its range and of the whole region.
void Machine::flush(std::uint64_t number) {
  ibv_qp_ex* qpx = ibv_qp_to_qp_ex(main_.a);
  for (std::uint32_t at = 0; at < kSlot; at++) slot(here_, 0)[at] = pattern(number, 0, at);
  ibv_wr_start(qpx);
  qpx->wr_id = number;
  qpx->wr_flags = 0;
  ibv_wr_rdma_write(qpx, there_.rkey(), there_.address());
  ibv_wr_set_sge(qpx, here_.lkey(), here_.address(), kSlot);
  qpx->wr_flags = kSignaled;
  ibv_wr_flush(qpx, there_.rkey(), there_.address(), kSlot, IBV_FLUSH_GLOBAL,
               number % 2 == 0 ? IBV_FLUSH_RANGE : IBV_FLUSH_MR);
  CHECK(ibv_wr_complete(qpx) == 0, "ibv_wr_complete of FLUSH");
  told->posts += 2;
  expect(number, IBV_WC_FLUSH, number);
  CHECK(std::memcmp(slot(here_, 0), slot(there_, 0), kSlot) == 0, "other bytes are there");
}

void Machine::run_memory(std::size_t part, std::size_t kind, std::uint64_t count) {
  // In the order of kMemories.
  static constexpr void (Machine::* kRounds[])(std::uint64_t) = {
      &Machine::bind_type1, &Machine::bind_type2, &Machine::device_memory, &Machine::atomic_write,
      &Machine::flush};
  static_assert(std::size(kRounds) == kNumMemories);
  for (std::uint64_t i = 0; i < count / kBatch; i++) {
    (this->*kRounds[kind])(i);
    told->requests[part] = i + 1;
  }
}

// One bad request among good ones, then posts to both queues of a QP in the error state.
void Machine::run_error(std::size_t part, std::size_t kind) {
  const Connected& link = errors_[kind];
  constexpr std::uint32_t kBad = 5;
  std::array<ibv_send_wr, kBatch> wrs{};
  std::array<ibv_sge, kBatch> sges{};
  ibv_wc_status status = IBV_WC_REM_ACCESS_ERR;
  post_recvs(link.b, 0, 4);
  for (std::uint32_t i = 0; i < kBatch; i++) {
    sges[i] = here_.sge(0, 4);
    wrs[i].wr_id = i;
    wrs[i].next = i + 1 < kBatch ? &wrs[i + 1] : nullptr;
    wrs[i].sg_list = &sges[i];
    wrs[i].num_sge = 1;
    wrs[i].opcode = IBV_WR_RDMA_WRITE;
    wrs[i].send_flags = IBV_SEND_SIGNALED;
    wrs[i].wr.rdma.remote_addr = there_.address();
    wrs[i].wr.rdma.rkey = there_.rkey();
  }
  if (kind == 0) {
    wrs[kBad].wr.rdma.rkey += 1;
  } else if (kind == 1) {
    sges[kBad].lkey += 1;
    status = IBV_WC_LOC_PROT_ERR;
  } else {
    wrs[kBad].opcode = IBV_WR_SEND;
    sges[kBad].length = 5;
    status = IBV_WC_REM_INV_REQ_ERR;
  }
  ibv_send_wr* bad = nullptr;
  for (std::uint32_t round = 0; round < 64; round++) {
    CHECK(ibv_post_send(link.a, wrs.data(), &bad) == 0, "ibv_post_send in an error");
    told->posts += kBatch;
    for (std::uint32_t i = 0; i < kBatch; i++) {
      ibv_wc_status want = IBV_WC_WR_FLUSH_ERR;
      if (round == 0 && i <= kBad) want = i < kBad ? IBV_WC_SUCCESS : status;
      const ibv_wc wc = wait(send_cq_.get());
      CHECK(wc.status == want && wc.wr_id == i, "%s, round %u: request %u is %lu, %s",
            kErrors[kind], round, i, wc.wr_id, ibv_wc_status_str(wc.status));
    }
    // Receives posted to a QP in error are flushed too; only a doorbell tells the device about
    // them.
    post_recvs(link.a, 100, 4);
    for (std::uint32_t i = 0; i < kBatch; i++) {
      ibv_wc wc = wait(recv_cq_.get());
      while (wc.qp_num != link.a->qp_num) wc = wait(recv_cq_.get());
      CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 100 + i, "flushed receive %lu: %s",
            wc.wr_id, ibv_wc_status_str(wc.status));
    }
    told->requests[part] += 2 * kBatch;
  }
}

void run_child(const CommandLine& line, std::uint64_t count) {
  try {
    Machine machine(line);
    install_filter();
    for (std::size_t i = 0; i < kNumOps; i++) {
      machine.run_op(i, kOps[i], count);
      told->parts_done++;
    }
    for (std::size_t i = 0; i < kNumMemories; i++) {
      machine.run_memory(kNumOps + i, i, count);
      told->parts_done++;
    }
    for (std::size_t i = 0; i < kNumErrors; i++) {
      machine.run_error(kNumOps + kNumMemories + i, i);
      told->parts_done++;
    }
    leave(0);
  } catch (const std::exception& e) {
    CHECK(false, "setup: %s", e.what());
  }
}

const char* part_name(std::size_t part) {
  if (part < kNumOps) return kOps[part].name;
  part -= kNumOps;
  return part < kNumMemories ? kMemories[part] : kErrors[part - kNumMemories];
}

// Returns the child's wait status, or SIGALRM if it ran longer than `seconds` and was killed.
int reap(pid_t child, unsigned seconds) {
  int status = 0;
  for (unsigned tenths = 0; tenths < seconds * 10; tenths++) {
    if (::waitpid(child, &status, WNOHANG) == child) return status;
    ::usleep(100'000);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return SIGALRM;
}

// Checks that the filter does kill; otherwise the test could not fail.
void filter_kills() {
  const pid_t child = ::fork();
  if (child == 0) {
    install_filter();
    ::syscall(SYS_getppid);
    leave(0);
  }
  const int status = reap(child, 30);
  report(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "nosyscall_filter_kills");
}

void run(const CommandLine& line, std::uint64_t count, unsigned seconds) {
  told = new_shared<Report>();
  filter_kills();
  const pid_t child = ::fork();
  if (child == 0) run_child(line, count);
  const int status = reap(child, seconds);
  std::string why;
  if (status == SIGALRM) {
    why = "not done after " + std::to_string(seconds) + " s";
  } else if (WIFSIGNALED(status)) {
    why = WTERMSIG(status) == SIGSYS ? "made a system call"
                                     : std::string("killed by ") + strsignal(WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    why = told->error.data();
  }
  const std::size_t done = told->parts_done;
  for (std::size_t i = 0; i < kNumParts; i++) {
    report(i < done, std::format("nosyscall_{}", part_name(i)), i == done ? why : "not reached",
           std::format("{} requests", told->requests[i]));
  }
  std::printf("# %lu posts, %lu completions, system calls: %s\n", told->posts.load(),
              told->polls.load(), why.empty() && done == kNumParts ? "none" : "see above");
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  std::uint64_t count = 100'000;
  unsigned seconds = 1200;
  return run_program(argc, argv,
                     {.options = {{"n", &count}, {"t", &seconds}},
                      .run = [&](const CommandLine& line) { run(line, count, seconds); }});
}
