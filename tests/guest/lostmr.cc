// SPDX-License-Identifier: GPL-2.0-or-later
// Registrations whose response cannot be stored: the kernel destroys the region again. A process
// that looks up the key before that can have bound a window to it. The response goes to a
// userfaultfd page, so the kernel blocks there as long as the test wants.
//
// A region with a bound window cannot be destroyed; it stays until the file is closed. ib_core
// warns about that unless the first patch of packaging/upstream/linux/core/series is applied. So
// windows are bound only under a kernel built from the series, in which tern_ib is no out-of-tree
// module.
//
// usage: lostmr [-d DEV]. Needs root.
//
// Test: lostmr
// Tier: quick, 600 s
// Boot: pcap
// Proves: Registrations that ib_core takes back because the response cannot be stored: nothing is
//   left and the kernel does not complain. Under a kernel of the exported series also with a window
//   bound meanwhile: the region stays, pinned, until the file is closed, also when it is in device
//   memory.

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include "counts.h"
#include "lab.h"
#include "map.h"
#include "program.h"
#include "uverbs.h"
#include "verbs.h"

namespace guest {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLength = 3 * kPage;  // no other region has this length
constexpr int kAccess = kAllAccess | IBV_ACCESS_MW_BIND;

std::string device = "tern0";

// A page that blocks whoever accesses it, until it is unmapped and the access fails.
class Trap {
 public:
  Trap() : fd_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK))) {
    if (fd_ < 0) fail_errno("userfaultfd");
    uffdio_api api = {};
    api.api = UFFD_API;
    page_ = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uffdio_register range = {};
    range.range = {reinterpret_cast<std::uint64_t>(page_), kPage};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    if (page_ == MAP_FAILED || ioctl(fd_, UFFDIO_API, &api) != 0 ||
        ioctl(fd_, UFFDIO_REGISTER, &range) != 0) {
      fail_errno("userfaultfd");
    }
  }
  Trap(const Trap&) = delete;
  Trap& operator=(const Trap&) = delete;
  ~Trap() {
    spring();
    close(fd_);
  }

  [[nodiscard]] void* page() const { return page_; }
  // Waits until something accesses the page. Returns false if `over` becomes true before.
  [[nodiscard]] bool wait(const std::atomic<bool>& over) const {
    pollfd events = {fd_, POLLIN, 0};
    for (int i = 0; i < 600; ++i) {
      const bool late = over;
      const int ready = ::poll(&events, 1, late ? 0 : 100);
      if (ready == 1) return true;
      if (late) return false;
    }
    fail("the registration does not end");
  }
  void spring() {
    if (sprung_) return;
    sprung_ = true;
    munmap(page_, kPage);
    uffdio_range range = {reinterpret_cast<std::uint64_t>(page_), kPage};
    ioctl(fd_, UFFDIO_WAKE, &range);
  }

 private:
  int fd_;
  void* page_ = nullptr;
  bool sprung_ = false;
};

// Returns the key of the region of kLength bytes: "... rkey 0x100 lkey 0x100 mrlen 12288 ..."
std::uint32_t find_key() {
  std::istringstream words(shell("rdma resource show mr"));
  std::uint32_t key = 0;
  std::uint32_t found = 0;
  std::size_t length = 0;
  for (std::string word; words >> word;) {
    if (word == "lkey") words >> std::hex >> key >> std::dec;
    if (word == "mrlen" && words >> length && length == kLength) found = key;
  }
  require(found != 0, "rdma resource does not show the region");
  return found;
}

// A QP connected to itself, and a window to bind, in a PD of their own.
struct Binder {
  explicit Binder(const Device& dev) : cq(create_cq(dev, 16)) {
    pd.reset(ibv_alloc_pd(dev.context()));
    require(pd != nullptr, "no PD");
    mw.reset(ibv_alloc_mw(pd.get(), IBV_MW_TYPE_2));
    require(mw != nullptr, "no window");
    qp = create_qp(dev, {.pd = pd.get(), .send_cq = cq.get(), .recv_cq = cq.get()});
    connect_to_itself(qp.get(), dev);
  }

  void bind(ibv_mr& mr) {
    Send send;
    send.opcode = IBV_WR_BIND_MW;
    send.mw = mw.get();
    send.bind_rkey = ibv_inc_rkey(mw->rkey);
    send.bind = {.mr = &mr,
                 .addr = reinterpret_cast<std::uint64_t>(mr.addr),
                 .length = kLength,
                 .mw_access_flags = IBV_ACCESS_REMOTE_READ};
    require_err(post(qp.get(), Api::kPost, send), 0, "post");
    require_status(poll(cq.get(), 1).front(), 0, IBV_WC_SUCCESS);
  }

  CqPtr cq;
  PdPtr pd;
  QpPtr qp;
  MwPtr mw;
};

// Registers a region, with the response at `to`. Returns an errno.
using Register = std::function<int(const Binder& binder, void* to)>;

int reg_mr(const Binder& binder, void* memory, void* to) {
  struct {
    ib_uverbs_cmd_hdr header;
    std::uint64_t response, start, length, hca_va;
    std::uint32_t pd_handle, access_flags;
  } command = {};
  static_assert(sizeof(command) == sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_reg_mr));
  command.header.command = IB_USER_VERBS_CMD_REG_MR;
  command.header.in_words = sizeof(command) / 4;
  command.header.out_words = sizeof(ib_uverbs_reg_mr_resp) / 4;
  command.response = reinterpret_cast<std::uint64_t>(to);
  command.start = command.hca_va = reinterpret_cast<std::uint64_t>(memory);
  command.length = kLength;
  command.pd_handle = binder.pd->handle;
  command.access_flags = kAccess;
  const int fd = binder.pd->context->cmd_fd;
  return write(fd, &command, sizeof(command)) < 0 ? errno : 0;
}

int reg_dm_mr(const Binder& binder, const ibv_dm* dm, void* to) {
  std::uint32_t rkey = 0;
  uverbs::Method m{.object = UVERBS_OBJECT_MR, .method = UVERBS_METHOD_DM_MR_REG};
  m.handle(UVERBS_ATTR_REG_DM_MR_HANDLE, 0);
  m.value(UVERBS_ATTR_REG_DM_MR_OFFSET, 8, 0);
  m.value(UVERBS_ATTR_REG_DM_MR_LENGTH, 8, kLength);
  m.handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, binder.pd->handle);
  m.value(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, 4, kAccess | IBV_ACCESS_ZERO_BASED);
  m.handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, dm->handle);
  m.out(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, 4, to);
  m.out(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, 4, &rkey);
  return uverbs::call(binder.pd->context->cmd_fd, m);
}

std::int64_t count(const char* name) { return read_counts(device).at(name); }

void require_counts(const Counts& wanted) {
  const std::string left = settle(device, wanted, std::chrono::seconds(10));
  require(left.empty(), "{}", left);
}

// Makes one registration fail late, after binding a window to the region if `bound`.
void lose(Binder& binder, const Register& reg, void* address, bool bound) {
  Trap trap;
  int err = 0;
  std::atomic<bool> over = false;
  std::thread caller([&] {
    err = reg(binder, trap.page());
    over = true;
  });
  try {
    if (!trap.wait(over)) fail("the registration ends before its answer, errno {}", err);
    if (bound) {
      ibv_mr mr = {};
      mr.context = binder.pd->context;
      mr.pd = binder.pd.get();
      mr.addr = address;
      mr.length = kLength;
      mr.lkey = mr.rkey = find_key();
      binder.bind(mr);
    }
  } catch (...) {
    trap.spring();
    caller.join();
    throw;
  }
  trap.spring();
  caller.join();
  require_err(err, EFAULT, "registration");
}

// The region and its PD stay even after its windows are gone, until the file is closed.
void end(Binder& binder) {
  require_err(ibv_dealloc_pd(binder.pd.get()), EBUSY, "ibv_dealloc_pd under a window");
  binder.qp.reset();
  binder.mw.reset();
  binder.cq.reset();
  require(take_destroy_errors().empty(), "an object is not destroyed");
  require_err(ibv_dealloc_pd(binder.pd.get()), EBUSY, "ibv_dealloc_pd under a region");
  static_cast<void>(binder.pd.release());
}

ibv_dm* alloc_dm(const Device& dev) {
  ibv_alloc_dm_attr attr = {};
  attr.length = kLength;
  ibv_dm* dm = ibv_alloc_dm(dev.context(), &attr);
  require(dm != nullptr, "no device memory");
  return dm;
}

void memory_test() {
  const Device dev(device, -1);
  const Map memory(kLength);
  const Register reg = [&](const Binder& b, void* to) { return reg_mr(b, memory.at(), to); };
  Binder binder(dev);
  const Counts before = read_counts(device);
  lose(binder, reg, memory.at(), false);
  require_counts(before);
}

void dm_test() {
  const Device dev(device, -1);
  ibv_dm* dm = alloc_dm(dev);
  const Register reg = [&](const Binder& b, void* to) { return reg_dm_mr(b, dm, to); };
  Binder binder(dev);
  const Counts before = read_counts(device);
  lose(binder, reg, nullptr, false);
  require_counts(before);
  require_err(ibv_free_dm(dm), 0, "ibv_free_dm");
}

void bound_memory_test() {
  const Map memory(kLength);
  const Counts start = read_counts(device);
  {
    const Device dev(device, -1);
    const Register reg = [&](const Binder& b, void* to) { return reg_mr(b, memory.at(), to); };
    Binder binder(dev);
    const Counts before = read_counts(device);
    lose(binder, reg, memory.at(), true);
    require(count("alive_mr") == before.at("alive_mr") + 1, "a region with a window is gone");
    require(count("pinned_pages") == before.at("pinned_pages") + 3,
            "memory that a window shows is not pinned");
    end(binder);
  }
  require_counts(start);
}

void bound_dm_test() {
  const Counts start = read_counts(device);
  {
    const Device dev(device, -1);
    ibv_dm* dm = alloc_dm(dev);
    const Register reg = [&](const Binder& b, void* to) { return reg_dm_mr(b, dm, to); };
    Binder binder(dev);
    const Counts before = read_counts(device);
    lose(binder, reg, nullptr, true);
    require_err(ibv_free_dm(dm), EBUSY, "ibv_free_dm under a region");
    require(count("dm_bytes") == before.at("dm_bytes"), "memory that a window shows is free");
    end(binder);
    // The mapping would keep the file open.
    ibv_unimport_dm(dm);
  }
  require_counts(start);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  return run_program(argc, argv,
                     {.group = "lostmr", .run = [](const CommandLine& line) {
                        device = line.device;
                        std::vector<Test> tests{{"user-memory", memory_test},
                                                {"device-memory", dm_test}};
                        // A stock ib_core warns about an aborted region that is in use.
                        if (drivers_in_tree()) {
                          tests.push_back({"user-memory-with-a-window", bound_memory_test});
                          tests.push_back({"device-memory-with-a-window", bound_dm_test});
                        }
                        run_tests(tests);
                      }});
}
