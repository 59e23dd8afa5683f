// SPDX-License-Identifier: GPL-2.0-or-later
// Sends the driver requests that no provider would send: too short, too long, with reserved bits
// set, with inconsistent sizes, with unmapped buffers. A table gives each bad request and its
// errno; random requests follow. Nothing may crash or leak, and valid requests must still succeed.
//
// usage: badudata [--seed N] [--calls N]; prints ok / not ok lines.
//
// Test: badudata
// Tier: quick, 600 s
// Boot: pcap
// Skip: trixie badudata/query_mr Linux 6.12 has no method that registers memory by ioctl()
// Skip: trixie badudata/reg_dmabuf Linux 6.12 has no method that takes a dma-buf and driver data
// Proves: Requests to the driver that no provider would send: a table with the errno of each, then
//   8,000 at random under a seed. Correct requests work afterwards, and nothing is left. Mappings
//   of device memory too: which are refused, and that memory freed under one reaches nobody else.
//   Driver data where a method takes none. Under a kernel of the exported series also two requests
//   that ib_core refuses: neither leaks a task nor leaves a work queue locked.

#include <rdma/ib_user_verbs.h>
#include <rdma/tern-abi.h>
#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core.h"
#include "counts.h"
#include "map.h"
#include "memory.h"
#include "random.h"
#include "records.h"
#include "uverbs.h"

namespace guest::uverbs {
namespace {

constexpr const char* kDevice = "tern0";
constexpr std::size_t kArena = 64 * kPage;
constexpr std::size_t kRecords = 60 * kPage;  // offset of the doorbell records

// A request whose fields the cases change by name. The kernel's structures end in a flexible array
// member, which ISO C++ lacks.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
template <typename Core, typename Driver>
struct Typed {
  Driver driver{};
  // Number of bytes to send; those beyond the structure are `tail`.
  std::size_t driver_bytes = sizeof(Driver);
  std::uint8_t tail = 0;

  [[nodiscard]] Request request(std::uint32_t command, std::size_t core_response,
                                std::size_t driver_response) const {
    Request r{.command = command};
    append(r.core, core);
    append(r.driver, driver);
    r.driver.resize(driver_bytes, std::byte{tail});
    r.core_response = core_response;
    r.driver_response = driver_response;
    return r;
  }

  Core core{};
};
#pragma GCC diagnostic pop

// Bytes of the first version of a request, which grows at its end.
template <typename Driver>
constexpr std::size_t kFirst = sizeof(Driver);
template <>
constexpr std::size_t kFirst<tern_ureq_create_srq> = offsetof(tern_ureq_create_srq, ops_addr);

using CreateCq = Typed<ib_uverbs_create_cq, tern_ureq_create_cq>;
using ResizeCq = Typed<ib_uverbs_resize_cq, tern_ureq_resize_cq>;
using CreateQp = Typed<ib_uverbs_create_qp, tern_ureq_create_qp>;
using ModifyQp = Typed<ib_uverbs_ex_modify_qp, tern_ureq_modify_qp>;
using CreateSrq = Typed<ib_uverbs_create_srq, tern_ureq_create_srq>;
using ModifySrq = Typed<ib_uverbs_modify_srq, tern_ureq_modify_srq>;

constexpr std::uint64_t rounded(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// The objects that the requests refer to: memory, a PD, a CQ.
class Bench {
 public:
  explicit Bench(const std::string& path)
      : verbs(path, sizeof(tern_uresp_alloc_ucontext)), pd_(verbs.alloc_pd()) {
    if (verbs.call(send(cq()))) throw std::runtime_error("no CQ");
    cq_ = verbs.response<ib_uverbs_create_cq_resp>().cq_handle;
  }

  [[nodiscard]] std::uint64_t arena() const { return arena_.address(); }
  [[nodiscard]] std::uint64_t read_only() const { return read_only_.address(); }
  [[nodiscard]] std::uint64_t hole() const { return hole_.address(); }

  [[nodiscard]] CreateCq cq() const {
    CreateCq r;
    r.core.cqe = 16;
    r.core.comp_channel = -1;
    r.driver.buf_addr = arena();
    r.driver.log_size = 4;
    r.driver.buf_len = rounded(64 << 4);
    r.driver.record_addr = arena() + kRecords;
    return r;
  }
  [[nodiscard]] ResizeCq resize_cq() const {
    ResizeCq r;
    r.core.cq_handle = cq_;
    r.core.cqe = 32;
    r.driver.buf_addr = arena() + 32 * kPage;
    r.driver.log_size = 5;
    r.driver.buf_len = rounded(64 << 5);
    return r;
  }
  [[nodiscard]] CreateQp qp() const {
    CreateQp r;
    r.core.pd_handle = pd_;
    r.core.send_cq_handle = r.core.recv_cq_handle = cq_;
    r.core.max_send_wr = r.core.max_recv_wr = 8;
    r.core.max_send_sge = r.core.max_recv_sge = 1;
    r.core.qp_type = 2;  // RC
    r.driver.buf_addr = arena();
    r.driver.log_sq_size = r.driver.log_rq_size = 3;
    r.driver.log_sq_stride = 7;
    r.driver.log_rq_stride = 5;
    r.driver.buf_len = rounded((8 << 7) + (8 << 5));
    r.driver.record_addr = arena() + kRecords + 256;
    return r;
  }
  [[nodiscard]] CreateSrq srq() const {
    CreateSrq r;
    r.core.pd_handle = pd_;
    r.core.max_wr = 16;
    r.core.max_sge = 1;
    r.driver.buf_addr = arena();
    r.driver.log_size = 4;
    r.driver.log_stride = 5;
    r.driver.buf_len = rounded(16 << 5);
    r.driver.record_addr = arena() + kRecords + 512;
    return r;
  }
  [[nodiscard]] ModifySrq resize(std::uint32_t srq) const {
    ModifySrq r;
    r.core.srq_handle = srq;
    r.core.attr_mask = 1;  // IB_SRQ_MAX_WR
    r.core.max_wr = 32;
    r.driver.buf_addr = arena() + 16 * kPage;
    r.driver.log_size = 5;
    r.driver.buf_len = rounded(32 << 5);
    return r;
  }
  static Request send(const CreateCq& r) {
    return r.request(IB_USER_VERBS_CMD_CREATE_CQ, sizeof(ib_uverbs_create_cq_resp),
                     sizeof(tern_uresp_create_cq));
  }
  static Request send(const ResizeCq& r) {
    return r.request(IB_USER_VERBS_CMD_RESIZE_CQ, sizeof(ib_uverbs_resize_cq_resp),
                     sizeof(tern_uresp_resize_cq));
  }
  static Request send(const CreateQp& r) {
    return r.request(IB_USER_VERBS_CMD_CREATE_QP, sizeof(ib_uverbs_create_qp_resp), 0);
  }
  // Only the extended command passes the driver's part on.
  static Request send(const ModifyQp& r) {
    Request request =
        r.request(IB_USER_VERBS_EX_CMD_MODIFY_QP, sizeof(ib_uverbs_ex_modify_qp_resp), 0);
    request.extended = true;
    return request;
  }
  static Request send(const CreateSrq& r) {
    return r.request(IB_USER_VERBS_CMD_CREATE_SRQ, sizeof(ib_uverbs_create_srq_resp),
                     sizeof(tern_uresp_create_srq));
  }
  static Request send(const ModifySrq& r) { return r.request(IB_USER_VERBS_CMD_MODIFY_SRQ, 0, 0); }

  Uverbs verbs;

 private:
  const Map arena_{kArena};
  const Map read_only_{kArena, PROT_READ, MAP_SHARED | MAP_ANONYMOUS};
  const Map hole_{kArena, PROT_NONE};
  std::uint32_t pd_ = 0;
  std::uint32_t cq_ = 0;
};

template <typename R>
void run_table(Bench& bench, const std::string& verb, const R& good,
               const std::vector<Case<R>>& cases) {
  run_table<R>(verb, good, cases, [&](const R& r) { return bench.verbs.call(Bench::send(r)); });
}

// Bad buffers and lengths, which every verb must refuse.
template <typename R>
std::vector<Case<R>> common([[maybe_unused]] const Bench& bench) {
  return {
      {"no driver part", [](R& r) { r.driver_bytes = 0; }, EINVAL},
      {"half of it", [](R& r) { r.driver_bytes = 8; }, EINVAL},
      {"4 bytes short", [](R& r) { r.driver_bytes = kFirst<decltype(r.driver)> - 4; }, EINVAL},
      {"longer by something", [](R& r) { r.driver_bytes += 8, r.tail = 1; }, EOPNOTSUPP},
      {"buffer at 0", [](R& r) { r.driver.buf_addr = 0; }, EFAULT},
      {"buffer off a page", [](R& r) { r.driver.buf_addr += 64; }, EINVAL},
      {"buffer in the kernel", [](R& r) { r.driver.buf_addr = 0xffff888000000000; }, EFAULT},
      {"buffer past the end", [](R& r) { r.driver.buf_addr = ~std::uint64_t{0} - kPage + 1; },
       EINVAL},
      {"buffer not mapped", [&](R& r) { r.driver.buf_addr = bench.hole(); }, EFAULT},
      {"no length", [](R& r) { r.driver.buf_len = 0; }, EINVAL},
      {"entries do not fit", [](R& r) { r.driver.buf_len = 64; }, EINVAL},
      {"a page too much", [](R& r) { r.driver.buf_len += kPage; }, EINVAL},
      {"4 GiB too much", [](R& r) { r.driver.buf_len += std::uint64_t{1} << 32; }, EINVAL},
      {"length -64", [](R& r) { r.driver.buf_len = ~std::uint64_t{63}; }, EINVAL},
  };
}

// A record must be aligned to its size and lie in writable memory.
template <typename R>
std::vector<Case<R>> record(const Bench& bench, std::uint64_t size) {
  return {
      {"record at 0", [](R& r) { r.driver.record_addr = 0; }, EFAULT},
      {"record off by 8", [](R& r) { r.driver.record_addr += 8; }, EINVAL},
      {"record off by half", [=](R& r) { r.driver.record_addr += size / 2; }, EINVAL},
      {"record across pages", [=](R& r) { r.driver.record_addr += kPage - size / 2; }, EINVAL},
      {"record not mapped", [&](R& r) { r.driver.record_addr = bench.hole(); }, EFAULT},
      {"record read-only", [&](R& r) { r.driver.record_addr = bench.read_only(); }, EFAULT},
      {"record in the kernel", [](R& r) { r.driver.record_addr = 0xffff888000000000; }, EFAULT},
      {"record at the end", [=](R& r) { r.driver.record_addr = -size; }, EINVAL},
  };
}

template <typename R>
std::vector<Case<R>> with(std::vector<Case<R>> cases, std::vector<Case<R>> more) {
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

void tables(Bench& bench) {
  run_table<CreateCq>(
      bench, "create_cq", bench.cq(),
      with(with(common<CreateCq>(bench), record<CreateCq>(bench, 128)),
           {
               {"buffer read-only", [&](CreateCq& r) { r.driver.buf_addr = bench.read_only(); },
                EFAULT},
               {"reserved", [](CreateCq& r) { r.driver.reserved_e0[3] = 1; }, EINVAL},
               {"log size 0", [](CreateCq& r) { r.driver.log_size = 0; }, EINVAL},
               {"fewer than asked", [](CreateCq& r) { r.driver.log_size = 3; }, EINVAL},
               {"log size 64", [](CreateCq& r) { r.driver.log_size = 64; }, EINVAL},
               {"log size 2^31", [](CreateCq& r) { r.driver.log_size = 0x80000000; }, EINVAL},
           }));
  run_table<ResizeCq>(
      bench, "resize_cq", bench.resize_cq(),
      with(common<ResizeCq>(bench),
           {
               {"buffer read-only", [&](ResizeCq& r) { r.driver.buf_addr = bench.read_only(); },
                EFAULT},
               {"reserved", [](ResizeCq& r) { r.driver.reserved_a0[0] = 1; }, EINVAL},
               {"no entry", [](ResizeCq& r) { r.core.cqe = 0; }, EINVAL},
               {"log size 0", [](ResizeCq& r) { r.driver.log_size = 0; }, EINVAL},
               {"fewer than asked", [](ResizeCq& r) { r.driver.log_size = 4; }, EINVAL},
               {"log size 64", [](ResizeCq& r) { r.driver.log_size = 64; }, EINVAL},
               {"log size 2^31", [](ResizeCq& r) { r.driver.log_size = 0x80000000; }, EINVAL},
               {"2^32 - 1 entries", [](ResizeCq& r) { r.core.cqe = ~0U; }, EINVAL},
           }));
  run_table<CreateQp>(
      bench, "create_qp", bench.qp(),
      with(with(common<CreateQp>(bench), record<CreateQp>(bench, 256)),
           {
               {"reserved", [](CreateQp& r) { r.driver.reserved_e0[0] = 1; }, EINVAL},
               {"SQ size 255", [](CreateQp& r) { r.driver.log_sq_size = 255; }, EINVAL},
               {"RQ size 63", [](CreateQp& r) { r.driver.log_rq_size = 63; }, EINVAL},
               {"SQ fewer", [](CreateQp& r) { r.driver.log_sq_size = 2; }, EINVAL},
               {"RQ fewer", [](CreateQp& r) { r.driver.log_rq_size = 2; }, EINVAL},
               {"SQ stride 5", [](CreateQp& r) { r.driver.log_sq_stride = 5; }, EINVAL},
               {"SQ stride 255", [](CreateQp& r) { r.driver.log_sq_stride = 255; }, EINVAL},
               {"RQ stride 4", [](CreateQp& r) { r.driver.log_rq_stride = 4; }, EINVAL},
               {"RQ stride 11", [](CreateQp& r) { r.driver.log_rq_stride = 11; }, EINVAL},
               {"SGEs past the slot", [](CreateQp& r) { r.core.max_send_sge = 16; }, EINVAL},
               {"inline past the slot", [](CreateQp& r) { r.core.max_inline_data = 512; }, EINVAL},
               {"a million WRs", [](CreateQp& r) { r.core.max_send_wr = 1000000; }, EINVAL},
               {"a driver's own type", [](CreateQp& r) { r.core.qp_type = 0xff; }, EOPNOTSUPP},
               {"a GSI QP", [](CreateQp& r) { r.core.qp_type = 1; }, EINVAL},
           }));
  // The device only reads work queues.
  CreateQp fixed = bench.qp();
  fixed.driver.buf_addr = bench.read_only();
  const int err = bench.verbs.call(Bench::send(fixed));
  report(err == 0, "create_qp-takes-read-only-queues", std::strerror(err));
}

// Options of a connection go with the move to RTR only. The driver part may be missing.
void modify_qp_table(Bench& bench) {
  constexpr std::uint32_t kState = 1 << 0, kAccess = 1 << 3, kPkey = 1 << 4,
                          kPort = 1 << 5;  // IBV_QP_*
  const int err = bench.verbs.call(Bench::send(bench.qp()));
  report(err == 0, "modify_qp-has-a-qp", std::strerror(err));
  ModifyQp init;
  init.core.base.qp_handle = bench.verbs.response<ib_uverbs_create_qp_resp>().qp_handle;
  init.core.base.attr_mask = kState | kAccess | kPkey | kPort;
  init.core.base.qp_state = 1;  // INIT
  init.core.base.port_num = 1;
  run_table<ModifyQp>(
      bench, "modify_qp", init,
      {
          {"half of it", [](ModifyQp& r) { r.driver_bytes = 4; }, EINVAL},
          {"longer by something", [](ModifyQp& r) { r.driver_bytes += 8, r.tail = 1; }, EOPNOTSUPP},
          {"reserved", [](ModifyQp& r) { r.driver.reserved_70[1] = 1; }, EINVAL},
          {"a burst without a limit", [](ModifyQp& r) { r.driver.max_burst = 1; }, EINVAL},
          {"a packet size without a limit", [](ModifyQp& r) { r.driver.typical_packet = 1; },
           EINVAL},
          {"an option to INIT", [](ModifyQp& r) { r.driver.ece_options = 1; }, EINVAL},
          {"an unknown option to RTR",
           [](ModifyQp& r) {
             r.driver.ece_options = 1U << 31, r.core.base.qp_state = 2, r.core.base.attr_mask = 1;
           },
           EINVAL},
          {"options without a state",
           [](ModifyQp& r) { r.driver.ece_options = 1, r.core.base.attr_mask = 1 << 3; }, EINVAL},
      });
}

void srq_tables(Bench& bench) {
  const int err = bench.verbs.call(Bench::send(bench.srq()));
  if (err == EOPNOTSUPP) {
    report_skip("srq", "the device has none");
    return;
  }
  const auto srq = bench.verbs.response<ib_uverbs_create_srq_resp>();
  const auto extra =
      bench.verbs.response<tern_uresp_create_srq>(offsetof(ib_uverbs_create_srq_resp, driver_data));
  report(err == 0 && extra.srqn != 0xeeeeeeee, "create_srq-tells-the-number", std::strerror(err));
  run_table<CreateSrq>(
      bench, "create_srq", bench.srq(),
      with(with(common<CreateSrq>(bench), record<CreateSrq>(bench, 128)),
           {
               {"reserved", [](CreateSrq& r) { r.driver.reserved_d0[5] = 1; }, EINVAL},
               {"reserved at the end", [](CreateSrq& r) { r.driver.reserved_188[6] = 1; }, EINVAL},
               {"operations without tags", [](CreateSrq& r) { r.driver.ops_len = kPage; }, EINVAL},
               {"log size 255", [](CreateSrq& r) { r.driver.log_size = 255; }, EINVAL},
               {"fewer than asked", [](CreateSrq& r) { r.driver.log_size = 3; }, EINVAL},
               {"stride 4", [](CreateSrq& r) { r.driver.log_stride = 4; }, EINVAL},
               {"stride 255", [](CreateSrq& r) { r.driver.log_stride = 255; }, EINVAL},
               {"SGEs past the slot", [](CreateSrq& r) { r.core.max_sge = 3; }, EINVAL},
               {"SGEs past all", [](CreateSrq& r) { r.core.max_sge = ~0U; }, EINVAL},
               {"no WR", [](CreateSrq& r) { r.core.max_wr = 0; }, EINVAL},
               {"a million WRs", [](CreateSrq& r) { r.core.max_wr = 1000000; }, EINVAL},
           }));
  run_table<ModifySrq>(
      bench, "modify_srq", bench.resize(srq.srq_handle),
      with(common<ModifySrq>(bench),
           {
               {"reserved", [](ModifySrq& r) { r.driver.reserved_88[6] = 1; }, EINVAL},
               {"log size 255", [](ModifySrq& r) { r.driver.log_size = 255; }, EINVAL},
               {"fewer than asked", [](ModifySrq& r) { r.driver.log_size = 3; }, EINVAL},
               {"no WR", [](ModifySrq& r) { r.core.max_wr = 0; }, EINVAL},
               {"unknown attribute", [](ModifySrq& r) { r.core.attr_mask |= 4; }, EINVAL},
               {"limit past the size",
                [](ModifySrq& r) {
                  r.core.attr_mask = 2, r.core.srq_limit = 1000, r.driver_bytes = 0;
                },
                EINVAL},
               {"limit and a buffer", [](ModifySrq& r) { r.core.attr_mask = 2; }, EOPNOTSUPP},
           }));
}

// Commands without a driver part; one in eight gets one all the same. Zeroed fields serve as
// handles and indices.
Request bare(Random& random) {
  struct Bare {
    std::uint32_t command;
    std::size_t core;
    std::size_t response;
  };
  static constexpr Bare kBare[] = {
      {IB_USER_VERBS_CMD_ALLOC_PD, sizeof(ib_uverbs_alloc_pd), sizeof(ib_uverbs_alloc_pd_resp)},
      {IB_USER_VERBS_CMD_CREATE_AH, sizeof(ib_uverbs_create_ah),
       sizeof(ib_uverbs_create_ah_resp) + sizeof(tern_uresp_create_ah)},
      {IB_USER_VERBS_CMD_OPEN_XRCD, sizeof(ib_uverbs_open_xrcd), sizeof(ib_uverbs_open_xrcd_resp)},
      {IB_USER_VERBS_CMD_CREATE_XSRQ, sizeof(ib_uverbs_create_xsrq),
       sizeof(ib_uverbs_create_srq_resp) + sizeof(tern_uresp_create_srq)},
      {IB_USER_VERBS_CMD_ATTACH_MCAST, sizeof(ib_uverbs_attach_mcast), 0},
      {IB_USER_VERBS_CMD_DETACH_MCAST, sizeof(ib_uverbs_detach_mcast), 0},
      {IB_USER_VERBS_CMD_MODIFY_QP, sizeof(ib_uverbs_modify_qp), 0},
      {IB_USER_VERBS_CMD_QUERY_QP, sizeof(ib_uverbs_query_qp), sizeof(ib_uverbs_query_qp_resp)},
      {IB_USER_VERBS_CMD_QUERY_SRQ, sizeof(ib_uverbs_query_srq), sizeof(ib_uverbs_query_srq_resp)},
      {IB_USER_VERBS_CMD_REG_MR, sizeof(ib_uverbs_reg_mr), sizeof(ib_uverbs_reg_mr_resp)},
      {IB_USER_VERBS_CMD_REREG_MR, sizeof(ib_uverbs_rereg_mr), sizeof(ib_uverbs_rereg_mr_resp)},
      {IB_USER_VERBS_CMD_DEREG_MR, sizeof(ib_uverbs_dereg_mr), 0},
      {IB_USER_VERBS_CMD_ALLOC_MW, sizeof(ib_uverbs_alloc_mw), sizeof(ib_uverbs_alloc_mw_resp)},
      {IB_USER_VERBS_CMD_DEALLOC_MW, sizeof(ib_uverbs_dealloc_mw), 0},
  };
  const Bare& chosen = kBare[random.below(std::size(kBare))];
  Request request{.command = chosen.command};
  request.core.resize(chosen.core);
  request.core_response = chosen.response;
  if (random.one_in(8)) request.driver.resize(8 * random.below(5));
  return request;
}

// Changes up to 3 bytes of a request from offset `from` on; the bytes before it hold the response
// address.
void spoil(Random& random, std::vector<std::byte>& bytes, std::size_t from) {
  if (bytes.size() <= from) return;
  constexpr std::uint8_t values[] = {0, 1, 2, 3, 4, 5, 7, 8, 31, 32, 63, 64, 127, 128, 254, 255};
  for (std::uint32_t n = random.below(4); n > 0; --n) {
    bytes[from + random.below(bytes.size() - from)] =
        std::byte{values[random.below(std::size(values))]};
  }
}

void at_random(const std::string& path, std::uint64_t seed, unsigned calls) {
  Random random(seed);
  unsigned accepted = 0;
  for (unsigned done = 0; done < calls;) {
    Bench bench(path);
    std::uint32_t srq = 0;
    for (unsigned i = 0; i < 100 && done < calls; ++i, ++done) {
      Request request;
      switch (random.below(7)) {
        case 0:
          request = Bench::send(bench.cq());
          break;
        case 1:
          request = Bench::send(bench.qp());
          break;
        case 2:
          request = Bench::send(bench.srq());
          break;
        case 3:
          request = Bench::send(bench.resize(srq));
          break;
        case 4:
          request = Bench::send(bench.resize_cq());
          break;
        default:
          request = bare(random);
          break;
      }
      const bool answers = request.core_response != 0;
      spoil(random, request.core, answers ? 8 : 0);
      spoil(random, request.driver, 0);
      if (random.one_in(8)) request.driver.resize(4 * random.below(16));
      const int err = bench.verbs.call(request);
      accepted += err == 0;
      if (err == 0 && request.command == IB_USER_VERBS_CMD_CREATE_SRQ) {
        srq = bench.verbs.response<ib_uverbs_create_srq_resp>().srq_handle;
      }
    }
  }
  report(accepted > calls / 20, "random-requests",
         std::to_string(accepted) + " of " + std::to_string(calls) +
             " accepted: too few to mean much");
  note("seed {}: {} of {} accepted", seed, accepted, calls);
}

void run(std::uint64_t seed, unsigned calls) {
  const std::string path = uverbs_path(kDevice);
  const Counts before = read_counts(kDevice);
  const std::int64_t charged_before = charged_pages();
  {
    Bench bench(path);
    tables(bench);
    modify_qp_table(bench);
    srq_tables(bench);
  }
  memory_tables(path, kDevice);
  record_tests(path, kDevice);
  core_refusals(path);
  at_random(path, seed, calls);
  const std::string left = settle(kDevice, before, std::chrono::seconds(2));
  report(left.empty(), "nothing-is-left", left);
  const std::int64_t charged_after = charged_pages();
  report(charged_after == charged_before, "nothing-stays-charged",
         std::to_string(charged_after - charged_before) + " pages");
}

}  // namespace
}  // namespace guest::uverbs

int main(int argc, char** argv) {
  using namespace guest;
  std::uint64_t seed = 3;
  unsigned calls = 8000;
  return run_program(argc, argv,
                     {.group = "badudata",
                      .options = {{"seed", &seed}, {"calls", &calls}},
                      .run = [&](const CommandLine&) { uverbs::run(seed, calls); }});
}
