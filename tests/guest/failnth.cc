// SPDX-License-Identifier: GPL-2.0-or-later
// Makes every allocation and user copy that the kernel does for a verb fail once, one after the
// other (Documentation/fault-injection: fail-nth). The verb must fail with an errno and leak
// nothing, or succeed without it. A destroy that failed must succeed when repeated.
//
// usage: failnth [-d DEV] [-n N] [PATTERN...]; -n: only the N-th point. Prints ok / not ok lines.
// Needs root and a kernel with FAULT_INJECTION, FAILSLAB and FAIL_PAGE_ALLOC, as in lane debug.
//
// Test: failnth
// Tier: quick, 600 s
// Lane: debug
// Boot: single
// Proves: Lane debug: every allocation and every copy that the kernel makes for a verb fails once,
//   one after the other. The verb reports an errno or has managed without; what it began is undone,
//   counted by object, page and pin; a destroy that failed works when it is tried again. failnth -n
//   N NAME runs one point again.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <format>
#include <fstream>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "counts.h"
#include "program.h"
#include "verbs.h"

namespace guest {
namespace {

constexpr int kMost = 5000;  // points of one verb; bounds an endless loop
constexpr std::size_t kPage = 4096;
constexpr std::size_t kLarge = 8 << 20;  // needs a page list of two levels

// Makes the n-th point fail at which kernel code of this thread can fail.
class Faults {
 public:
  Faults() : fd_(open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC)) {
    if (fd_ < 0) fail_errno("fail-nth");
    const std::string debug = "/sys/kernel/debug/";
    for (const char* kind : {"failslab", "fail_page_alloc"}) {
      set(debug + kind + "/ignore-gfp-wait", "N");
    }
    // Spares this program's own pages: the test is not about how it dies.
    set(debug + "fail_page_alloc/ignore-gfp-highmem", "Y");
    for (const char* kind : {"failslab", "fail_page_alloc", "fail_usercopy"}) {
      set(debug + kind + "/verbose", "0");
    }
    // DMA-API debugging would switch itself off when one of its own allocations fails.
    const auto [begin, end] = place_of("add_dma_entry");
    set(debug + "failslab/reject-start", begin);
    set(debug + "failslab/reject-end", end);
  }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;
  ~Faults() { close(fd_); }

  void arm(int n) const {
    const std::string text = std::to_string(n);
    if (pwrite(fd_, text.data(), text.size(), 0) < 0) fail_errno("fail-nth");
  }
  // Returns whether the fault was injected. The pread() and pwrite() have fault points of their
  // own.
  [[nodiscard]] bool disarm() const {
    char left[16] = {};
    const bool happened = pread(fd_, left, sizeof(left) - 1, 0) > 0 && std::atoi(left) == 0;
    while (pwrite(fd_, "0", 1, 0) < 0) {
      require(errno == EFAULT || errno == ENOMEM, "fail-nth: {}", errno_name(errno));
    }
    return happened;
  }

 private:
  // Returns the addresses of a kernel function and of the next symbol.
  static std::pair<std::string, std::string> place_of(const std::string& function) {
    std::ifstream symbols("/proc/kallsyms");
    std::vector<std::uint64_t> places;
    std::uint64_t begin = 0;
    std::string address;
    std::string type;
    std::string name;
    for (std::string line; std::getline(symbols, line);) {
      std::istringstream words(line);
      words >> address >> type >> name;
      const std::uint64_t place = std::stoull(address, nullptr, 16);
      if (name == function) begin = place;
      places.push_back(place);
    }
    require(begin != 0, "the kernel has no {}", function);
    const auto next =
        std::ranges::min(places | std::views::filter([&](auto p) { return p > begin; }));
    return {std::format("{:#x}", begin), std::format("{:#x}", next)};
  }
  static void set(const std::string& path, const std::string& value) {
    std::ofstream file(path);
    file << value << std::flush;
    require(file.good(), "cannot write {}", path);
  }

  int fd_;
};

// before: prepares, without faults. act: calls the verb, with faults; returns an errno. after:
// cleans up, without faults; gets the errno of act.
struct Op {
  std::string name;
  std::function<void()> before;
  std::function<int()> act;
  std::function<void(int err)> after;
};

// The errno of a verb that returns a pointer, which it stores in `out`.
template <typename T>
int made(T*& out, T* object) {
  out = object;
  if (object != nullptr) return 0;
  return errno != 0 ? errno : -1;
}

// Adds an operation that makes an object, and one that destroys it.
template <typename T>
void add_object(std::vector<Op>& ops, const std::string& name, std::function<T*()> make) {
  auto held = std::make_shared<T*>(nullptr);
  const auto destroy_now = [held, name](int err) {
    if (err != 0) return;
    const int again = destroy(*held);
    require(again == 0, "{} cannot be destroyed: {}", name, errno_name(again));
  };
  ops.push_back({"make-" + name, [] {},
                 [held, make] {
                   errno = 0;
                   return made(*held, make());
                 },
                 destroy_now});
  ops.push_back({"destroy-" + name,
                 [held, make, name] {
                   *held = make();
                   require(*held != nullptr, "no {}: {}", name, errno_name(errno));
                 },
                 [held] { return destroy(*held); },
                 [held, destroy_now](int err) {
                   // EFAULT: the core destroyed the object but could not store its response. The
                   // count of objects shows whether it is gone.
                   if (err == EFAULT) {
                     destroy(*held);
                   } else if (err != 0) {
                     destroy_now(0);
                   }
                 }});
}

// The objects that the operations use, created without faults.
class Bench {
 public:
  explicit Bench(const std::string& device)
      : device_(device), dev_(device, -1), cq_(create_cq(dev_, 64)) {
    ibv_srq_init_attr srq = {};
    srq.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
    srq_.reset(ibv_create_srq(pd(), &srq));
    require(srq_ != nullptr, "no SRQ");
    ibv_xrcd_init_attr xrcd = {};
    xrcd.fd = -1;
    xrcd.oflags = O_CREAT;
    xrcd.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    xrcd_.reset(ibv_open_xrcd(verbs(), &xrcd));
    require(xrcd_ != nullptr, "no XRC domain");
  }

  std::vector<Op> ops();

 private:
  [[nodiscard]] ibv_context* verbs() const { return dev_.context(); }
  [[nodiscard]] ibv_pd* pd() const { return dev_.pd(); }

  void add_contexts(std::vector<Op>& ops);
  void add_completions(std::vector<Op>& ops);
  void add_memory(std::vector<Op>& ops);
  void add_receive(std::vector<Op>& ops);
  void add_qps(std::vector<Op>& ops);
  void add_changes(std::vector<Op>& ops);
  ibv_qp* make_qp(ibv_qp_type type);

  std::string device_;
  Device dev_;
  CqPtr cq_;
  SrqPtr srq_;
  XrcdPtr xrcd_;
  const Map area_{kLarge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE};
};

void Bench::add_contexts(std::vector<Op>& ops) {
  ibv_device* device = verbs()->device;
  add_object<ibv_context>(ops, "context", [device] { return ibv_open_device(device); });
  add_object<ibv_pd>(ops, "pd", [this] { return ibv_alloc_pd(verbs()); });
  add_object<ibv_ah>(ops, "ah", [this] {
    ibv_ah_attr attr = {};
    attr.is_global = 1;
    attr.grh = {.dgid = dev_.gid(),
                .flow_label = 0,
                .sgid_index = dev_.gid_index(),
                .hop_limit = 64,
                .traffic_class = 0};
    attr.port_num = 1;
    return ibv_create_ah(pd(), &attr);
  });
}

void Bench::add_completions(std::vector<Op>& ops) {
  add_object<ibv_comp_channel>(ops, "channel", [this] { return ibv_create_comp_channel(verbs()); });
  add_object<ibv_cq>(ops, "cq",
                     [this] { return ibv_create_cq(verbs(), 1000, nullptr, nullptr, 0); });
  add_object<ibv_cq>(ops, "cq-ex", [this] {
    ibv_cq_init_attr_ex attr = {};
    attr.cqe = 100;
    attr.wc_flags = +IBV_WC_STANDARD_FLAGS | +IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    ibv_cq_ex* cq = ibv_create_cq_ex(verbs(), &attr);
    return cq == nullptr ? nullptr : ibv_cq_ex_to_cq(cq);
  });
}

void Bench::add_memory(std::vector<Op>& ops) {
  constexpr int kAccess = kAllAccess | IBV_ACCESS_MW_BIND;
  for (const auto& [name, length] : {std::pair{"mr", kPage}, {"mr-large", kLarge}}) {
    add_object<ibv_mr>(ops, name,
                       [this, length] { return ibv_reg_mr(pd(), area_.at(), length, kAccess); });
  }
  for (const auto& [name, type] : {std::pair{"mw-1", IBV_MW_TYPE_1}, {"mw-2", IBV_MW_TYPE_2}}) {
    add_object<ibv_mw>(ops, name, [this, type] { return ibv_alloc_mw(pd(), type); });
  }
  const auto alloc_dm = [this] {
    ibv_alloc_dm_attr attr = {};
    attr.length = 3 * kPage;
    return ibv_alloc_dm(verbs(), &attr);
  };
  add_object<ibv_dm>(ops, "dm", alloc_dm);

  auto dm = std::make_shared<ibv_dm*>(nullptr);
  auto mr = std::make_shared<ibv_mr*>(nullptr);
  ops.push_back({"make-dm-mr", [=] { require((*dm = alloc_dm()) != nullptr, "no device memory"); },
                 [this, dm, mr] {
                   errno = 0;
                   return made(*mr, ibv_reg_dm_mr(pd(), *dm, 0, kPage,
                                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED));
                 },
                 [=](int err) {
                   if (err == 0) require(ibv_dereg_mr(*mr) == 0, "the region stays");
                   require(ibv_free_dm(*dm) == 0, "the device memory stays");
                 }});
  ops.push_back({"rereg-mr",
                 [this, mr] {
                   *mr = ibv_reg_mr(pd(), area_.at(), kPage, kAccess);
                   require(*mr != nullptr, "no MR");
                 },
                 [this, mr]() -> int {
                   // A failure returns an IBV_REREG_MR_ERR_* value and sets errno.
                   errno = 0;
                   const int err = ibv_rereg_mr(*mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                                                area_.at(), kLarge, 0);
                   return err == 0 ? 0 : errno != 0 ? errno : -1;
                 },
                 [mr](int) { require(ibv_dereg_mr(*mr) == 0, "the region stays"); }});
}

void Bench::add_receive(std::vector<Op>& ops) {
  add_object<ibv_srq>(ops, "srq", [this] {
    ibv_srq_init_attr attr = {};
    attr.attr = {.max_wr = 500, .max_sge = 2, .srq_limit = 0};
    return ibv_create_srq(pd(), &attr);
  });
  add_object<ibv_srq>(ops, "xrc-srq", [this] {
    ibv_srq_init_attr_ex attr = {};
    attr.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    attr.srq_type = IBV_SRQT_XRC;
    attr.pd = pd();
    attr.xrcd = xrcd_.get();
    attr.cq = cq_.get();
    return ibv_create_srq_ex(verbs(), &attr);
  });
  add_object<ibv_xrcd>(ops, "xrcd", [this] {
    ibv_xrcd_init_attr attr = {};
    attr.fd = -1;
    attr.oflags = O_CREAT;
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    return ibv_open_xrcd(verbs(), &attr);
  });
}

ibv_qp* Bench::make_qp(ibv_qp_type type) {
  QpSpec spec;
  spec.type = type;
  spec.send_cq = spec.recv_cq = cq_.get();
  spec.cap = capacity(100, 100, 2, 64);
  if (type == IBV_QPT_XRC_RECV) spec.xrcd = xrcd_.get();
  return try_create_qp(dev_, spec).release();
}

void Bench::add_qps(std::vector<Op>& ops) {
  const std::pair<const char*, ibv_qp_type> types[] = {{"rc", IBV_QPT_RC},
                                                       {"uc", IBV_QPT_UC},
                                                       {"ud", IBV_QPT_UD},
                                                       {"xrc-send", IBV_QPT_XRC_SEND},
                                                       {"xrc-recv", IBV_QPT_XRC_RECV}};
  for (const auto& [name, type] : types) {
    add_object<ibv_qp>(ops, std::string("qp-") + name,
                       [this, type = type] { return make_qp(type); });
  }
  // Linux 7.3: create_xrc_qp_user() takes a reference to the XRC domain and does not drop it when
  // one of its allocations fails. Closing the domain then fails with a WARNING (upstreaming.rst).
  std::erase_if(ops, [](const Op& op) { return op.name == "make-qp-xrc-recv"; });
  auto qp = std::make_shared<ibv_qp*>(nullptr);
  const auto destroy = [qp](int) { require(ibv_destroy_qp(*qp) == 0, "the QP stays"); };
  const auto connect_it = [this, qp] {
    const Connection how{.mtu = dev_.active_mtu()};
    const Endpoint self = {.qpn = (*qp)->qp_num, .psn = 1, .gid = dev_.gid()};
    int err = to_init(*qp, how);
    if (err == 0) err = to_rtr(*qp, dev_, how, self);
    return err != 0 ? err : to_rts(*qp, how, 1);
  };
  const auto make = [this, qp] { require((*qp = make_qp(IBV_QPT_RC)) != nullptr, "no QP"); };
  ops.push_back({"connect", make, connect_it, destroy});
  ops.push_back({"query-qp",
                 [=] {
                   make();
                   require(connect_it() == 0, "it does not connect");
                 },
                 [qp] {
                   ibv_qp_attr attr;
                   ibv_qp_init_attr init;
                   return ibv_query_qp(*qp, &attr, IBV_QP_STATE, &init);
                 },
                 destroy});
  ibv_gid group = {};
  group.raw[10] = group.raw[11] = 0xff;
  group.raw[12] = 239;
  group.raw[15] = 77;
  ops.push_back({"attach",
                 [this, qp] {
                   require((*qp = make_qp(IBV_QPT_UD)) != nullptr, "no QP");
                   require(to_init(*qp, Connection()) == 0, "no INIT");
                 },
                 [qp, group] { return ibv_attach_mcast(*qp, &group, 0); },
                 [qp, group, destroy](int err) {
                   if (err == 0)
                     require(ibv_detach_mcast(*qp, &group, 0) == 0, "it stays attached");
                   destroy(0);
                 }});
}

void Bench::add_changes(std::vector<Op>& ops) {
  ops.push_back({"resize-cq", [this] { cq_ = create_cq(dev_, 16); },
                 [this] { return ibv_resize_cq(cq_.get(), 5000); }, [](int) {}});
  ops.push_back({"resize-srq", [] {},
                 [this] {
                   ibv_srq_attr attr = {.max_wr = 2000, .max_sge = 0, .srq_limit = 0};
                   return ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_MAX_WR);
                 },
                 [this](int) {
                   ibv_srq_attr attr = {.max_wr = 16, .max_sge = 0, .srq_limit = 0};
                   require(ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_MAX_WR) == 0,
                           "it does not shrink");
                 }});
  ops.push_back({"query-device", [] {},
                 [this] {
                   ibv_device_attr_ex attr;
                   return ibv_query_device_ex(verbs(), nullptr, &attr);
                 },
                 [](int) {}});
}

std::vector<Op> Bench::ops() {
  std::vector<Op> ops;
  add_contexts(ops);
  add_completions(ops);
  add_memory(ops);
  add_receive(ops);
  add_qps(ops);
  add_changes(ops);
  return ops;
}

// Runs an operation once for each fault point. only: just that point, if not 0.
void run(const Op& op, const Faults& faults, const std::string& device, int only) {
  // Objects that are created once and kept, such as table pages, must exist before the count.
  op.before();
  const int without = op.act();
  require(without == 0, "it fails without a fault: {}", errno_name(without));
  op.after(0);
  const Counts counts = read_counts(device);
  int failed = 0;
  int n = only != 0 ? only : 1;
  for (bool more = true; more; n++) {
    op.before();
    faults.arm(n);
    const int err = op.act();
    more = faults.disarm();
    require(more || err == 0, "without a fault ({} points): {}", n, errno_name(err));
    require(err >= 0, "fault {}: no errno", n);
    failed += err != 0;
    op.after(err);
    require(n < kMost, "no end");
    more = more && only == 0;
  }
  const std::string left = difference(counts, read_counts(device));
  require(left.empty(), "left behind: {}", left);
  // A destroy that only closes a file has no fault point.
  require(only != 0 || n > 2 || op.name.starts_with("destroy-"), "nothing was made to fail");
  note("{}: {} points, {} of them refused", op.name, n - 2, failed);
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  unsigned only = 0;
  return run_program(
      argc, argv,
      {.group = "failnth", .options = {{"n", &only}}, .run = [&only](const CommandLine& line) {
         const Faults faults;
         Bench bench(line.device);
         std::vector<Test> tests;
         for (const Op& op : bench.ops()) {
           tests.push_back(
               {op.name, [&, op] { guest::run(op, faults, line.device, static_cast<int>(only)); }});
         }
         run_tests(tests);
       }});
}
