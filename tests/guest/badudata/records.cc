// SPDX-License-Identifier: GPL-2.0-or-later
#include "records.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/tern-abi.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "counts.h"
#include "uverbs.h"

namespace guest::uverbs {
namespace {

constexpr std::uint64_t kRecord = 128;  // of a CQ

// Page 0 is the ring; the other pages hold records.
class Arena {
 public:
  static constexpr std::size_t kPages = 4;

  Arena() { map(0, kPages); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { munmap(base_, kPages * kPage); }

  [[nodiscard]] std::uint64_t page(std::size_t number) const {
    return reinterpret_cast<std::uint64_t>(base_) + number * kPage;
  }
  void unmap(std::size_t number) { munmap(reinterpret_cast<void*>(page(number)), kPage); }
  void map(std::size_t first, std::size_t pages) {
    const int fixed = base_ == nullptr ? 0 : MAP_FIXED;
    void* at = base_ == nullptr ? nullptr : reinterpret_cast<void*>(page(first));
    void* memory =
        mmap(at, pages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    if (base_ == nullptr) base_ = memory;
  }

 private:
  void* base_ = nullptr;
};

class Cqs {
 public:
  explicit Cqs(const std::string& path) : verbs_(path) {}

  // Creates a CQ with a ring of one page. Returns its handle, or 0 with the errno in `err`.
  std::uint32_t create(std::uint64_t ring, std::uint64_t record) {
    Request r{.command = IB_USER_VERBS_CMD_CREATE_CQ};
    ib_uverbs_create_cq core = {};
    core.cqe = 16;
    core.comp_channel = -1;
    tern_ureq_create_cq driver = {};
    driver.buf_addr = ring;
    driver.buf_len = kPage;
    driver.record_addr = record;
    driver.log_size = 4;
    append(r.core, core);
    append(r.driver, driver);
    r.core_response = sizeof(ib_uverbs_create_cq_resp);
    r.driver_response = sizeof(tern_uresp_create_cq);
    err = verbs_.call(r);
    return err == 0 ? verbs_.response<ib_uverbs_create_cq_resp>().cq_handle : 0;
  }
  // The same by ioctl(): uverbs refuses write() from a process other than the one that opened the
  // file.
  void create_by_ioctl(std::uint64_t ring, std::uint64_t record) {
    const tern_ureq_create_cq driver = {.buf_addr = ring,
                                        .buf_len = kPage,
                                        .record_addr = record,
                                        .log_size = 4,
                                        .reserved_e0 = {}};
    tern_uresp_create_cq answer = {};
    std::uint32_t cqe = 0;
    Method m{.object = UVERBS_OBJECT_CQ, .method = UVERBS_METHOD_CQ_CREATE};
    m.handle(UVERBS_ATTR_CREATE_CQ_HANDLE, 0);
    m.value(UVERBS_ATTR_CREATE_CQ_CQE, 4, 16);
    m.value(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8, 0);
    m.value(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4, 0);
    m.out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4, &cqe);
    m.value(UVERBS_ATTR_UHW_IN, sizeof(driver), reinterpret_cast<std::uint64_t>(&driver));
    m.out(UVERBS_ATTR_UHW_OUT, sizeof(answer), &answer);
    err = verbs_.call(m);
  }
  void destroy(std::uint32_t handle) {
    Request r{.command = IB_USER_VERBS_CMD_DESTROY_CQ};
    ib_uverbs_destroy_cq core = {};
    core.cq_handle = handle;
    append(r.core, core);
    r.core_response = sizeof(ib_uverbs_destroy_cq_resp);
    err = verbs_.call(r);
  }

  int err = 0;

 private:
  Uverbs verbs_;
};

// Pages that the driver has pinned, whichever process they are charged to.
std::int64_t pinned(const std::string& device) { return read_counts(device).at("pinned_pages"); }

// Waits for a pin count; the kernel may release pages a moment after the call.
bool settles(const std::string& device, std::int64_t wanted) {
  for (int i = 0; i < 250; ++i) {
    if (pinned(device) == wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

std::string counts(const std::string& device, std::int64_t charged_before,
                   std::int64_t pinned_before) {
  return std::to_string(charged_pages() - charged_before) + " pages charged, " +
         std::to_string(pinned(device) - pinned_before) + " pinned";
}

// 32 CQs share one page of records; each pins its ring. The page is unpinned with the last CQ.
void shared_page(const std::string& path, const std::string& device) {
  const Arena arena;
  const std::int64_t charged_before = charged_pages();
  const std::int64_t pinned_before = pinned(device);
  {
    Cqs cqs(path);
    std::vector<std::uint32_t> handles;
    for (std::uint64_t i = 0; i < kPage / kRecord; ++i) {
      handles.push_back(cqs.create(arena.page(0), arena.page(1) + i * kRecord));
      if (cqs.err != 0) break;
    }
    const auto made = static_cast<std::int64_t>(kPage / kRecord);
    report(cqs.err == 0 && charged_pages() == charged_before + made + 1 &&
               pinned(device) == pinned_before + made + 1,
           "a-page-of-records-is-pinned-once", counts(device, charged_before, pinned_before));
    while (handles.size() > 1) {
      cqs.destroy(handles.back());
      handles.pop_back();
    }
    report(charged_pages() == charged_before + 2 && settles(device, pinned_before + 2),
           "a-page-stays-for-its-last-record", counts(device, charged_before, pinned_before));
    cqs.destroy(handles.back());
    report(charged_pages() == charged_before && settles(device, pinned_before),
           "the-last-record-unpins-its-page", counts(device, charged_before, pinned_before));
  }
  report(charged_pages() == charged_before, "a-closed-context-pins-nothing",
         counts(device, charged_before, pinned_before));
}

// The page of a record in use is unmapped and another page is mapped in its place.
void unmapped_page(const std::string& path, const std::string& device) {
  Arena arena;
  const std::int64_t charged_before = charged_pages();
  const std::int64_t pinned_before = pinned(device);
  {
    Cqs cqs(path);
    const std::uint32_t first = cqs.create(arena.page(0), arena.page(1));
    arena.unmap(1);
    report(cqs.err == 0 && pinned(device) == pinned_before + 2, "an-unmapped-page-stays-pinned",
           counts(device, charged_before, pinned_before));
    cqs.create(arena.page(0), arena.page(2) + kRecord);
    report(cqs.err == 0, "another-page-works-meanwhile", std::strerror(cqs.err));
    cqs.destroy(first);
    cqs.create(arena.page(0), arena.page(1));
    report(cqs.err == EFAULT, "a-record-needs-memory", std::strerror(cqs.err));
    arena.map(1, 1);
    cqs.create(arena.page(0), arena.page(1));
    report(cqs.err == 0, "a-page-mapped-anew-works", std::strerror(cqs.err));
  }
  report(charged_pages() == charged_before && settles(device, pinned_before),
         "pages-mapped-anew-are-unpinned", counts(device, charged_before, pinned_before));
}

// A child inherits the file and the addresses but has its own memory.
void forked(const std::string& path, const std::string& device) {
  const Arena arena;
  const std::int64_t charged_before = charged_pages();
  const std::int64_t pinned_before = pinned(device);
  {
    Cqs cqs(path);
    cqs.create(arena.page(0), arena.page(1));
    const pid_t child = fork();
    if (child == 0) {
      const std::int64_t own = charged_pages();
      cqs.create_by_ioctl(arena.page(0), arena.page(1) + kRecord);
      _exit(cqs.err != 0 ? cqs.err : charged_pages() == own + 2 ? 0 : 255);
    }
    int status = -1;
    waitpid(child, &status, 0);
    report(status == 0, "a-child-pins-its-own-page",
           std::string(std::strerror(WEXITSTATUS(status))) + ", status " + std::to_string(status));
    report(settles(device, pinned_before + 4), "a-child's-page-stays-with-its-queue",
           counts(device, charged_before, pinned_before));
    report(charged_pages() == charged_before + 2, "a-child-charges-itself",
           counts(device, charged_before, pinned_before));
  }
  report(charged_pages() == charged_before && settles(device, pinned_before),
         "a-child's-page-goes-with-the-context", counts(device, charged_before, pinned_before));
}

}  // namespace

std::int64_t charged_pages() {
  std::ifstream in("/proc/self/status");
  std::string word;
  std::int64_t kib = 0;
  while (in >> word) {
    if (word == "VmPin:" && in >> kib) return kib * 1024 / static_cast<std::int64_t>(kPage);
  }
  throw std::runtime_error("no VmPin");
}

void record_tests(const std::string& path, const std::string& device) {
  shared_page(path, device);
  unmapped_page(path, device);
  forked(path, device);
}

}  // namespace guest::uverbs
