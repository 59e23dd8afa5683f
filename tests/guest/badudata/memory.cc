// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory.h"

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/tern-abi.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "counts.h"
#include "map.h"
#include "uverbs.h"

namespace guest::uverbs {
namespace {

constexpr std::size_t kArena = 16 * kPage;
constexpr std::uint64_t kKernel = 0xffff888000000000;

enum : std::uint32_t {
  kLocalWrite = 1,
  kRemoteAll = 2 | 4 | 8,
  kRemoteWrite = 2,
  kBind = 16,
  kZeroBased = 32,
  kOnDemand = 64,
  kNoRight = 1 << 12,
};

enum : std::uint32_t { kTrans = 1, kPd = 2, kAccess = 4 };

// An open device with a PD, and memory.
class Bench {
 public:
  explicit Bench(const std::string& path)
      : verbs(path, sizeof(tern_uresp_alloc_ucontext)), pd(verbs.alloc_pd()) {}

  std::uint32_t reg_mr(std::uint64_t start, std::uint32_t access) {
    ib_uverbs_reg_mr core = {};
    core.start = core.hca_va = start;
    core.length = kArena;
    core.pd_handle = pd;
    core.access_flags = access;
    Request request{.command = IB_USER_VERBS_CMD_REG_MR};
    append(request.core, core);
    request.core_response = sizeof(ib_uverbs_reg_mr_resp);
    if (verbs.call(request)) throw std::runtime_error("no MR");
    return verbs.response<ib_uverbs_reg_mr_resp>().mr_handle;
  }

  [[nodiscard]] std::uint64_t arena() const { return arena_.address(); }
  [[nodiscard]] std::uint64_t read_only() const { return read_only_.address(); }

  Uverbs verbs;
  std::uint32_t pd = 0;

 private:
  const Map arena_{kArena};
  const Map read_only_{kArena, PROT_READ, MAP_SHARED | MAP_ANONYMOUS};
};

// Both core structures end in a flexible array member, which ISO C++ lacks.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
struct AllocMw {
  std::uint64_t driver = 0;  // 0: no driver part, as the driver expects

  [[nodiscard]] Request request() const {
    Request r{.command = IB_USER_VERBS_CMD_ALLOC_MW};
    append(r.core, core);
    if (driver != 0) append(r.driver, driver);
    r.core_response = sizeof(ib_uverbs_alloc_mw_resp);
    return r;
  }

  ib_uverbs_alloc_mw core{};
};

struct Rereg {
  std::uint64_t driver = 0;

  [[nodiscard]] Request request() const {
    Request r{.command = IB_USER_VERBS_CMD_REREG_MR};
    append(r.core, core);
    if (driver != 0) append(r.driver, driver);
    r.core_response = sizeof(ib_uverbs_rereg_mr_resp);
    return r;
  }

  ib_uverbs_rereg_mr core{};
};
#pragma GCC diagnostic pop

void windows(Bench& bench) {
  const std::function<int(const AllocMw&)> call = [&](const AllocMw& r) {
    return bench.verbs.call(r.request());
  };
  for (const std::uint8_t type : {std::uint8_t{1}, std::uint8_t{2}}) {
    AllocMw good;
    good.core.pd_handle = bench.pd;
    good.core.mw_type = type;
    const std::string verb = "alloc_mw-type-" + std::to_string(type);
    if (call(good) == EOPNOTSUPP) {
      report_skip(verb, "the device has none");
      continue;
    }
    run_table<AllocMw>(verb, good,
                       {
                           {"type 0", [](AllocMw& r) { r.core.mw_type = 0; }, EINVAL},
                           {"type 3", [](AllocMw& r) { r.core.mw_type = 3; }, EINVAL},
                           {"type 255", [](AllocMw& r) { r.core.mw_type = 255; }, EINVAL},
                           {"a driver part", [](AllocMw& r) { r.driver = 1; }, EOPNOTSUPP},
                       },
                       call);
  }
}

// A call may change translation, PD and access at once; each row makes one of them invalid.
void regions(Bench& bench) {
  const std::function<int(const Rereg&)> call = [&](const Rereg& r) {
    return bench.verbs.call(r.request());
  };
  Rereg good;
  good.core.mr_handle = bench.reg_mr(bench.arena(), kLocalWrite);
  good.core.flags = kTrans | kPd | kAccess;
  good.core.start = good.core.hca_va = bench.arena() + kPage;
  good.core.length = kPage;
  good.core.pd_handle = bench.verbs.alloc_pd();
  good.core.access_flags = kLocalWrite | kRemoteAll | kBind;
  const int err = call(good);
  if (err == EOPNOTSUPP) {
    report_skip("rereg_mr", "the device has none");
    return;
  }
  const std::uint32_t fixed = bench.reg_mr(bench.read_only(), 0);
  run_table<Rereg>(
      "rereg_mr", good,
      {
          {"nothing asked", [](Rereg& r) { r.core.flags = 0; }, EINVAL},
          {"unknown flag", [](Rereg& r) { r.core.flags |= 8; }, EOPNOTSUPP},
          {"other offset in the page", [](Rereg& r) { r.core.hca_va += 64; }, EINVAL},
          {"write without local write", [](Rereg& r) { r.core.access_flags = kRemoteWrite; },
           EINVAL},
          {"unknown right", [](Rereg& r) { r.core.access_flags |= kNoRight; }, EINVAL},
          {"on demand in place",
           [](Rereg& r) { r.core.flags = kAccess, r.core.access_flags |= kOnDemand; }, EOPNOTSUPP},
          {"zero-based in place",
           [](Rereg& r) { r.core.flags = kAccess, r.core.access_flags |= kZeroBased; }, EOPNOTSUPP},
          {"memory at 0", [](Rereg& r) { r.core.start = r.core.hca_va = 0; }, EFAULT},
          {"memory of the kernel", [](Rereg& r) { r.core.start = r.core.hca_va = kKernel; },
           EFAULT},
          {"memory past the end",
           [](Rereg& r) {
             r.core.start = r.core.hca_va = ~std::uint64_t{0} - kPage + 1, r.core.length += kPage;
           },
           EINVAL},
          {"more than there can be", [](Rereg& r) { r.core.length = std::uint64_t{1} << 62; },
           EINVAL},
          {"memory read-only", [&](Rereg& r) { r.core.start = r.core.hca_va = bench.read_only(); },
           EFAULT},
          {"read-only in place",
           [&](Rereg& r) { r.core.mr_handle = fixed, r.core.flags = kAccess; }, EACCES},
          {"a driver part", [](Rereg& r) { r.driver = 1; }, EOPNOTSUPP},
      },
      call);

  // A region that was pinned read-only becomes writable only together with a new translation.
  Rereg write;
  write.core.mr_handle = bench.reg_mr(bench.arena(), 0);
  write.core.flags = kAccess;
  write.core.access_flags = kLocalWrite | kRemoteAll;
  const int err_access = call(write);
  write.core.flags = kTrans | kAccess;
  write.core.start = write.core.hca_va = bench.arena();
  write.core.length = kArena;
  const int err_write = call(write);
  report(err_access == EACCES && err_write == 0, "rereg_mr-makes-memory-writable",
         std::string(std::strerror(err_access)) + ", " + std::strerror(err_write));
}

// UVERBS_METHOD_REG_MR and its attributes, which older kernel headers do not define.
constexpr std::uint16_t kRegMr = 5;
enum : unsigned {
  kHandle,
  kPdHandle,
  kDmaHandle,
  kIova,
  kAddr,
  kBytes,
  kRights,
  kFd,
  kFdOffset,
  kLkey,
  kRkey
};

int reg_mr_by_ioctl(Bench& bench, std::uint64_t start, std::uint64_t length, std::uint64_t iova,
                    std::uint32_t& handle) {
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  Method m{.object = UVERBS_OBJECT_MR, .method = kRegMr};
  m.handle(kHandle, 0);
  m.handle(kPdHandle, bench.pd);
  m.value(kIova, 8, iova);
  m.value(kAddr, 8, start);
  m.value(kBytes, 8, length);
  m.value(kRights, 4, kLocalWrite);
  m.out(kLkey, 4, &lkey);
  m.out(kRkey, 4, &rkey);
  const int err = bench.verbs.call(m);
  if (err == 0) handle = static_cast<std::uint32_t>(m.attrs[0].data);
  return err;
}

// QUERY_MR returns the length and IOVA that the driver has stored in the ib_mr.
void region_attributes(Bench& bench) {
  std::uint32_t handle = 0;
  const std::uint64_t iova = 0x10000000 + 64;
  const int err = reg_mr_by_ioctl(bench, bench.arena() + 64, 3 * kPage, iova, handle);
  if (err == EPROTONOSUPPORT) {
    report_skip("query_mr", "the kernel has no method that registers memory");
    return;
  }
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  std::uint64_t length = 0;
  std::uint64_t address = 0;
  Method m{.object = UVERBS_OBJECT_MR, .method = UVERBS_METHOD_QUERY_MR};
  m.handle(UVERBS_ATTR_QUERY_MR_HANDLE, handle);
  m.out(UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4, &lkey);
  m.out(UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4, &rkey);
  m.out(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8, &length);
  m.out(UVERBS_ATTR_QUERY_MR_RESP_IOVA, 8, &address);
  const int err_query = err == 0 ? bench.verbs.call(m) : err;
  report(err_query == 0 && length == 3 * kPage && address == iova,
         "query_mr-tells-length-and-address",
         std::string(std::strerror(err_query)) + ", " + std::to_string(length) + " bytes");
}

// Returns the descriptor of a dma-buf of one page.
int make_dmabuf() {
  if (access("/dev/udmabuf", F_OK) != 0 && std::system("modprobe udmabuf") != 0) {
    throw std::runtime_error("no udmabuf");
  }
  const int memory = memfd_create("badudata", MFD_ALLOW_SEALING);
  const int device = open("/dev/udmabuf", O_RDWR);
  udmabuf_create create{};
  create.memfd = static_cast<__u32>(memory);
  create.flags = UDMABUF_FLAGS_CLOEXEC;
  create.size = kPage;
  if (ftruncate(memory, kPage) != 0 || fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    throw std::runtime_error("no memory for a dma-buf");
  }
  const int dmabuf = ioctl(device, UDMABUF_CREATE, &create);
  close(device);
  close(memory);
  if (dmabuf < 0) throw std::runtime_error("no dma-buf");
  return dmabuf;
}

// REG_MR of a dma-buf, with driver data `in`. *out is the response for the driver.
int reg_dmabuf(Bench& bench, int dmabuf, std::uint64_t in, std::uint64_t* out) {
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  Method m{.object = UVERBS_OBJECT_MR, .method = kRegMr};
  m.handle(kHandle, 0);
  m.handle(kPdHandle, bench.pd);
  m.value(kIova, 8, 0);
  m.value(kBytes, 8, kPage);
  m.value(kRights, 4, kLocalWrite);
  m.handle(kFd, static_cast<std::uint32_t>(dmabuf));
  m.value(kFdOffset, 8, 0);
  m.out(kLkey, 4, &lkey);
  m.out(kRkey, 4, &rkey);
  m.value(UVERBS_ATTR_UHW_IN, sizeof(in), in);
  m.out(UVERBS_ATTR_UHW_OUT, sizeof(*out), out);
  return bench.verbs.call(m);
}

// The method with driver data. UVERBS_METHOD_REG_DMABUF_MR, which every kernel has, takes none.
void dmabuf_driver_data(Bench& bench) {
  const int dmabuf = make_dmabuf();
  std::uint64_t response = ~std::uint64_t{0};
  const int err_bad = reg_dmabuf(bench, dmabuf, 1, &response);
  const int err_good = reg_dmabuf(bench, dmabuf, 0, &response);
  close(dmabuf);
  if (err_good == EPROTONOSUPPORT) {
    report_skip("reg_dmabuf", "the kernel has no method that takes a dma-buf and driver data");
    return;
  }
  report(err_bad == EOPNOTSUPP && err_good == 0 && response == 0, "reg_dmabuf-takes-no-driver-data",
         std::string(std::strerror(err_bad)) + ", " + std::strerror(err_good) + ", response " +
             std::to_string(response));
}

struct AllocDm {
  std::uint64_t length = 0;
  std::uint32_t alignment = 0;
  tern_uresp_alloc_dm* to = nullptr;
  std::size_t to_bytes = sizeof(tern_uresp_alloc_dm);  // 0: no response buffer

  [[nodiscard]] Method method() const {
    Method m{.object = UVERBS_OBJECT_DM, .method = UVERBS_METHOD_DM_ALLOC};
    m.handle(UVERBS_ATTR_ALLOC_DM_HANDLE, 0);
    m.value(UVERBS_ATTR_ALLOC_DM_LENGTH, sizeof(length), length);
    m.value(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, sizeof(alignment), alignment);
    if (to_bytes != 0) m.out(TERN_IB_ATTR_ALLOC_DM_RESP, to_bytes, to);
    return m;
  }
};

// Device memory and its mapping.
class Dm {
 public:
  Dm(Bench& bench, std::uint64_t length) : bench_(bench) {
    Method method = AllocDm{.length = length, .to = &response}.method();
    err = bench_.verbs.call(method);
    if (err == 0) handle = static_cast<std::uint32_t>(method.attrs[0].data);
  }
  Dm(const Dm&) = delete;
  Dm& operator=(const Dm&) = delete;
  ~Dm() { unmap(); }

  int map() {
    void* memory = mmap(nullptr, response.mmap_size, PROT_READ | PROT_WRITE, MAP_SHARED,
                        bench_.verbs.fd(), static_cast<off_t>(response.mmap_offset));
    if (memory == MAP_FAILED) return errno;
    bytes = static_cast<volatile std::uint8_t*>(memory);
    return 0;
  }
  void unmap() {
    if (bytes != nullptr) munmap(const_cast<std::uint8_t*>(bytes), response.mmap_size);
    bytes = nullptr;
  }
  int free() {
    Method m{.object = UVERBS_OBJECT_DM, .method = UVERBS_METHOD_DM_FREE};
    return bench_.verbs.call(m.handle(UVERBS_ATTR_FREE_DM_HANDLE, handle));
  }
  void fill(std::uint8_t value) { std::fill_n(bytes, response.mmap_size, value); }
  [[nodiscard]] bool is(std::uint8_t value) const {
    return std::all_of(bytes, bytes + response.mmap_size, [&](auto b) { return b == value; });
  }

  int err = 0;
  std::uint32_t handle = 0;
  tern_uresp_alloc_dm response{};
  volatile std::uint8_t* bytes = nullptr;

 private:
  Bench& bench_;
};

constexpr std::uint64_t kLength = kPage + 904;
constexpr std::uint64_t kMapped = 2 * kPage;

void alloc_dm_table(Bench& bench) {
  tern_uresp_alloc_dm response;
  const AllocDm good{.length = kLength, .alignment = 6, .to = &response};
  run_table<AllocDm>(
      "alloc_dm", good,
      {
          {"no byte", [](AllocDm& r) { r.length = 0; }, EINVAL},
          {"1 TiB", [](AllocDm& r) { r.length = std::uint64_t{1} << 40; }, ENOMEM},
          {"2^64 - 1 bytes", [](AllocDm& r) { r.length = ~std::uint64_t{0}; }, ENOMEM},
          {"alignment 2^48", [](AllocDm& r) { r.alignment = 48; }, EINVAL},
          {"alignment 2^64", [](AllocDm& r) { r.alignment = 64; }, EINVAL},
          {"alignment 2^(2^32 - 1)", [](AllocDm& r) { r.alignment = ~0U; }, EINVAL},
          {"no place for the answer", [](AllocDm& r) { r.to_bytes = 0; }, EINVAL},
          {"half a place", [](AllocDm& r) { r.to_bytes = 8; }, EINVAL},
          {"a place of the kernel's",
           [](AllocDm& r) { r.to = reinterpret_cast<tern_uresp_alloc_dm*>(kKernel); }, EFAULT},
      },
      [&](const AllocDm& r) {
        Method method = r.method();
        return bench.verbs.call(method);
      });
  report(response.mmap_size == kMapped, "alloc_dm-tells-what-to-map",
         std::to_string(response.mmap_size) + " bytes");
}

struct QueryDm {
  std::uint32_t handle = 0;
  tern_uresp_alloc_dm* to = nullptr;
  std::size_t to_bytes = sizeof(tern_uresp_alloc_dm);
  std::uint64_t* length = nullptr;

  [[nodiscard]] Method method() const {
    Method m{.object = UVERBS_OBJECT_DM, .method = TERN_IB_METHOD_DM_QUERY};
    m.handle(TERN_IB_ATTR_QUERY_DM_HANDLE, handle);
    if (to_bytes != 0) m.out(TERN_IB_ATTR_QUERY_DM_RESP, to_bytes, to);
    m.out(TERN_IB_ATTR_QUERY_DM_LENGTH, sizeof(*length), length);
    return m;
  }
};

void query_dm_table(Bench& bench, const Dm& dm) {
  tern_uresp_alloc_dm response = {};
  std::uint64_t length = 0;
  const QueryDm good{.handle = dm.handle, .to = &response, .length = &length};
  run_table<QueryDm>(
      "query_dm", good,
      {
          {"no DM", [](QueryDm& r) { r.handle = 0x7fffff; }, ENOENT},
          {"no place for the answer", [](QueryDm& r) { r.to_bytes = 0; }, EINVAL},
          {"half a place", [](QueryDm& r) { r.to_bytes = 8; }, EINVAL},
          {"a place of the kernel's",
           [](QueryDm& r) { r.length = reinterpret_cast<std::uint64_t*>(kKernel); }, EFAULT},
      },
      [&](const QueryDm& r) {
        Method method = r.method();
        return bench.verbs.call(method);
      });
  report(length == kLength && response.mmap_size == dm.response.mmap_size &&
             response.mmap_offset == dm.response.mmap_offset,
         "query_dm-tells-what-alloc_dm-told");
}

struct RegDmMr {
  std::uint32_t pd = 0;
  std::uint32_t dm = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint32_t access = 0;
  std::uint32_t* key = nullptr;

  [[nodiscard]] Method method() const {
    Method m{.object = UVERBS_OBJECT_MR, .method = UVERBS_METHOD_DM_MR_REG};
    m.handle(UVERBS_ATTR_REG_DM_MR_HANDLE, 0);
    m.value(UVERBS_ATTR_REG_DM_MR_OFFSET, sizeof(offset), offset);
    m.value(UVERBS_ATTR_REG_DM_MR_LENGTH, sizeof(length), length);
    m.handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, pd);
    m.value(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, sizeof(access), access);
    m.handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm);
    m.out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, sizeof(*key), key);
    m.out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, sizeof(*key), key);
    return m;
  }
};

void reg_dm_mr_table(Bench& bench, Dm& dm) {
  std::uint32_t key = 0;
  std::uint32_t handle = 0;
  const RegDmMr good{.pd = bench.pd,
                     .dm = dm.handle,
                     .offset = kLength - 100,
                     .length = 100,
                     .access = kLocalWrite | kRemoteAll | kBind | kZeroBased,
                     .key = &key};
  run_table<RegDmMr>(
      "reg_dm_mr", good,
      {
          {"a byte too long", [](RegDmMr& r) { ++r.length; }, EINVAL},
          {"into the rest of the page", [](RegDmMr& r) { r.offset = kLength, r.length = 1; },
           EINVAL},
          {"after it", [](RegDmMr& r) { r.offset = kMapped; }, EINVAL},
          {"2^64 - 1 bytes", [](RegDmMr& r) { r.length = ~std::uint64_t{0}; }, EINVAL},
          {"wraps", [](RegDmMr& r) { r.offset = ~std::uint64_t{0}, r.length = 2; }, EINVAL},
          {"not zero-based", [](RegDmMr& r) { r.access &= ~kZeroBased; }, EINVAL},
          {"write without local write", [](RegDmMr& r) { r.access = kRemoteWrite | kZeroBased; },
           EINVAL},
          {"unknown right", [](RegDmMr& r) { r.access |= kNoRight; }, EINVAL},
          {"on demand", [](RegDmMr& r) { r.access |= kOnDemand; }, EINVAL},
          {"a key nobody can be told",
           [](RegDmMr& r) { r.key = reinterpret_cast<std::uint32_t*>(kKernel); }, EFAULT},
      },
      [&](const RegDmMr& r) {
        Method method = r.method();
        const int err = bench.verbs.call(method);
        handle = static_cast<std::uint32_t>(method.attrs[0].data);
        return err;
      });
  report(dm.free() == EBUSY, "free_dm-is-busy-under-a-region");
  Method destroy{.object = UVERBS_OBJECT_MR, .method = UVERBS_METHOD_MR_DESTROY};
  report(bench.verbs.call(destroy.handle(UVERBS_ATTR_DESTROY_MR_HANDLE, handle)) == 0,
         "reg_dm_mr-is-taken-back");
}

struct Map {
  int fd = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  int flags = MAP_SHARED;
};

void mmap_table(Bench& bench, const Dm& dm, const std::string& path) {
  const Uverbs other(path, sizeof(tern_uresp_alloc_ucontext));
  const Map good{
      .fd = bench.verbs.fd(), .offset = dm.response.mmap_offset, .length = dm.response.mmap_size};
  run_table<Map>(
      "dm-mmap", good,
      {
          {"a page less", [](Map& m) { m.length -= kPage; }, EINVAL},
          {"a page more", [](Map& m) { m.length += kPage; }, EINVAL},
          {"its second page", [](Map& m) { m.offset += kPage, m.length -= kPage; }, EINVAL},
          {"an offset nobody told", [](Map& m) { m.offset = std::uint64_t{1} << 40; }, EINVAL},
          {"private", [](Map& m) { m.flags = MAP_PRIVATE; }, EINVAL},
          {"through another context", [&](Map& m) { m.fd = other.fd(); }, EINVAL},
      },
      [](const Map& m) {
        void* memory = mmap(nullptr, m.length, PROT_READ | PROT_WRITE, m.flags, m.fd,
                            static_cast<off_t>(m.offset));
        if (memory == MAP_FAILED) return errno;
        munmap(memory, m.length);
        return 0;
      });
}

std::int64_t dm_bytes(const std::string& device) { return read_counts(device).at("dm_bytes"); }

// Device memory that is freed while mapped is not reused before its last mapping is gone.
void mappings(Bench& bench, const std::string& device) {
  const std::int64_t before = dm_bytes(device);
  Dm first(bench, kLength);
  report(first.err == 0 && first.map() == 0 && first.is(0), "dm-is-zero-at-first");
  if (first.bytes == nullptr) return;
  first.fill(0xaa);
  report(first.is(0xaa), "dm-keeps-what-is-stored");
  report(first.free() == 0 && first.is(0xaa), "dm-stays-mapped-when-freed");
  report(dm_bytes(device) == before + static_cast<std::int64_t>(kMapped),
         "dm-stays-allocated-while-mapped");
  Dm again(bench, kPage);
  again.response = first.response;
  report(again.map() == EINVAL, "dm-freed-is-not-mapped-again");

  Dm second(bench, kLength);
  report(second.err == 0 && second.map() == 0 && second.is(0), "dm-of-another-is-zero");
  if (second.bytes == nullptr) return;
  first.fill(0xbb);
  report(second.is(0), "dm-freed-does-not-reach-another");
  first.unmap();
  report(dm_bytes(device) == before + static_cast<std::int64_t>(kMapped + kPage),
         "dm-returns-with-its-last-mapping");
}

void exhaust(Bench& bench) {
  std::vector<std::uint32_t> handles;
  int err = 0;
  for (;;) {
    const Dm dm(bench, 256 * kPage);
    err = dm.err;
    if (err != 0) break;
    handles.push_back(dm.handle);
  }
  report(err == ENOMEM && !handles.empty(), "dm-runs-out-with-ENOMEM", std::strerror(err));
}

void device_memory(const std::string& path, const std::string& device) {
  {
    Bench bench(path);
    Dm dm(bench, kLength);
    if (dm.err == EOPNOTSUPP || dm.err == EPROTONOSUPPORT) {
      report_skip("dm", "the device has none");
      return;
    }
    alloc_dm_table(bench);
    query_dm_table(bench, dm);
    reg_dm_mr_table(bench, dm);
    mmap_table(bench, dm, path);
  }
  Bench bench(path);
  mappings(bench, device);
  exhaust(bench);
}

}  // namespace

void memory_tables(const std::string& path, const std::string& device) {
  {
    Bench bench(path);
    windows(bench);
    regions(bench);
    region_attributes(bench);
    dmabuf_driver_data(bench);
  }
  device_memory(path, device);
}

}  // namespace guest::uverbs
