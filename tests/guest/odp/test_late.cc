// SPDX-License-Identifier: GPL-2.0-or-later
// Pages that arrive late or never, many faults at once, and processes that end meanwhile.
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "paging.h"
#include "stuck.h"

namespace guest {
namespace {

using namespace std::chrono_literals;

// The pages of a mapping arrive when the test gives them.
class Late {
 public:
  explicit Late(const Map& map) : fd_(userfaultfd_of(map)) {}
  ~Late() { ::close(fd_); }
  Late(const Late&) = delete;
  Late& operator=(const Late&) = delete;
  // Whether there is a fault within timeout_ms.
  [[nodiscard]] bool asked(int timeout_ms) const {
    pollfd p{.fd = fd_, .events = POLLIN, .revents = 0};
    return ::poll(&p, 1, timeout_ms) == 1;
  }
  // Waits for the next fault and returns the address of its page.
  [[nodiscard]] std::uint64_t wait(int timeout_ms = 20000) const {
    require(asked(timeout_ms), "the device does not ask for a page");
    uffd_msg msg{};
    require(::read(fd_, &msg, sizeof(msg)) == sizeof(msg) && msg.event == UFFD_EVENT_PAGEFAULT,
            "no page fault");
    return msg.arg.pagefault.address & ~std::uint64_t{kPage - 1};
  }
  void give(std::uint64_t page, std::span<const std::byte> bytes) const {
    uffdio_copy copy{.dst = page,
                     .src = reinterpret_cast<std::uintptr_t>(bytes.data()),
                     .len = kPage,
                     .mode = 0,
                     .copy = 0};
    require(::ioctl(fd_, UFFDIO_COPY, &copy) == 0, "UFFDIO_COPY: {}", errno_name(errno));
  }

 private:
  int fd_;
};

// The peer waits for a page without an error, as for a slow receiver; other QPs do not wait.
void late(const Device& dev) {
  const Map map(8 * kPage), plain(8 * kPage);
  const MrPtr local = reg(dev, plain, kAllAccess), mr = reg(dev, map);
  const Late pages(map);
  Loop slow(dev), quick(dev);
  const std::uint64_t retries = counter(dev, "local_ack_timeout_err");
  std::vector<std::byte> page(kPage);
  fill(page, 11);
  require_err(post(slow.a(), Api::kPost,
                   read_into(sge(local.get(), plain.address(), kPage), map.address(), mr->rkey)),
              0, "post");
  const std::uint64_t at = pages.wait();
  require(at == map.address(), "a fault at {:#x}", at);
  const auto until = std::chrono::steady_clock::now() + 2s;
  unsigned others = 0;
  for (; std::chrono::steady_clock::now() < until; ++others) {
    quick.must(write_from(sge(local.get(), plain.address(kPage), 64), plain.address(2 * kPage),
                          local->rkey),
               "another QP");
  }
  expect_quiet(slow.cq(), 1);
  require(others > 100, "another QP made only {} WRITEs in 2 s", others);
  pages.give(at, page);
  require(poll(slow.cq(), 1)[0].status == IBV_WC_SUCCESS, "READ of a late page");
  expect_pattern(plain.bytes(0, kPage), 11, "READ of a late page");
  require(counter(dev, "local_ack_timeout_err") == retries, "the peer lost a retry");
}

// A region, its QPs and its process can go while pages do not arrive.
void never(const Device& dev) {
  const Map plain(kPage);
  const MrPtr local = reg(dev, plain, kAllAccess);
  {
    const Map map(8 * kPage);
    MrPtr mr = reg(dev, map);
    const Late pages(map);
    Loop pair(dev);
    require_err(post(pair.a(), Api::kPost,
                     read_into(sge(local.get(), plain.address(), kPage), map.address(), mr->rkey)),
                0, "post");
    (void)pages.wait();
    pair.close();
    mr.reset();
  }
  // In a process that is killed.
  int said[2];
  require(::pipe(said) == 0, "pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const Device own("tern0", -1);
      const Map map(256 * kPage), mine(kPage);
      const MrPtr near = reg(own, mine, kAllAccess), mr = reg(own, map), all = reg_all(own);
      const Late pages(map);
      std::vector<std::unique_ptr<Loop>> pairs;
      // More than run at the same time: some wait in the driver.
      for (std::uint64_t i = 0; i < 100; ++i) {
        pairs.push_back(std::make_unique<Loop>(own, 4));
        const auto& region = i % 2 ? mr : all;
        (void)post(
            pairs.back()->a(), Api::kPost,
            read_into(sge(near.get(), mine.address(), 8), map.address(i * kPage), region->rkey));
      }
      for (unsigned i = 0; i < 8; ++i) (void)pages.wait();
      (void)::write(said[1], "x", 1);
      ::pause();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(1);
  }
  pollfd p{.fd = said[0], .events = POLLIN, .revents = 0};
  require(::poll(&p, 1, 60000) == 1, "the child does not fault");
  ::kill(child, SIGKILL);
  const auto until = std::chrono::steady_clock::now() + 60s;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    require(std::chrono::steady_clock::now() < until, "a killed process does not end");
    std::this_thread::sleep_for(10ms);
  }
  require(WIFSIGNALED(status), "the child ended with {:#x}", status);
  ::close(said[0]);
  ::close(said[1]);
  // The device still works.
  const Map map(8 * kPage);
  const MrPtr mr = reg(dev, map);
  Loop pair(dev);
  pair.must(write_from(sge(local.get(), plain.address(), 8), map.address(), mr->rkey),
            "WRITE after it");
}

// A process with many contexts and QPs, all of which wait for pages that never arrive, does not
// delay another process.
void greedy(const Device& dev) {
  constexpr std::size_t kContexts = 32, kQps = 64;
  int said[2];
  require(::pipe(said) == 0, "pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      std::vector<std::unique_ptr<Device>> devices;
      std::vector<MrPtr> regions;
      std::vector<std::unique_ptr<Loop>> pairs;
      const Map map(kContexts * kQps * kPage), mine(kPage);
      const Late pages(map);
      for (std::size_t c = 0; c < kContexts; ++c) {
        const Device& own = *devices.emplace_back(std::make_unique<Device>("tern0", -1));
        const ibv_mr* const near = regions.emplace_back(reg(own, mine, kAllAccess)).get();
        const ibv_mr* const far = regions.emplace_back(reg(own, map)).get();
        for (std::size_t q = 0; q < kQps; ++q) {
          if (q % 2 == 0) pairs.push_back(std::make_unique<Loop>(own, 1));
          ibv_qp* const qp = q % 2 == 0 ? pairs.back()->a() : pairs.back()->b();
          (void)post(qp, Api::kPost,
                     write_from(sge(far, map.address((c * kQps + q) * kPage), 8), mine.address(),
                                near->rkey));
        }
      }
      // Until all that can wait do.
      while (pages.asked(3000)) (void)pages.wait();
      (void)::write(said[1], "x", 1);
      ::pause();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(1);
  }
  ::close(said[1]);
  char c = 0;
  const bool began = ::read(said[0], &c, 1) == 1;
  ::close(said[0]);
  const Map map(8 * kPage), plain(kPage);
  const MrPtr mr = reg(dev, map), local = reg(dev, plain, kAllAccess);
  fill(map.bytes(0, kPage), 12);
  map.advise(MADV_DONTNEED, kPage);
  Loop pair(dev);
  const int err =
      began ? post(pair.a(), Api::kPost,
                   read_into(sge(local.get(), plain.address(), kPage), map.address(), mr->rkey))
            : 0;
  std::exception_ptr failure;
  try {
    require(began, "the child does not fault");
    require_err(err, 0, "post");
    require(poll(pair.cq(), 1)[0].status == IBV_WC_SUCCESS, "READ");
    expect_pattern(plain.bytes(), 12, "READ");
  } catch (...) {
    failure = std::current_exception();
  }
  ::kill(child, SIGKILL);
  (void)::waitpid(child, nullptr, 0);
  if (failure) std::rethrow_exception(failure);
}

// 64 QPs, each with 160 requests to absent pages: more than 10,000 faults.
void many_at_once(const Device& dev) {
  constexpr std::size_t kQps = 64, kEach = 160;
  const Map map(kQps * kEach * kPage), plain(kEach * kPage);
  const MrPtr local = reg(dev, plain, kAllAccess), mr = reg(dev, map);
  const std::uint64_t before = counter(dev, "page_faults");
  for (std::size_t i = 0; i < kEach; ++i) fill(plain.bytes(i * kPage, 64), i);
  std::vector<std::unique_ptr<Loop>> pairs;
  for (std::size_t q = 0; q < kQps; ++q) pairs.push_back(std::make_unique<Loop>(dev, kEach));
  for (std::size_t i = 0; i < kEach; ++i) {
    for (std::size_t q = 0; q < kQps; ++q) {
      const Send s = write_from(sge(local.get(), plain.address(i * kPage), 64),
                                map.address((q * kEach + (i * 7) % kEach) * kPage + q), mr->rkey);
      require_err(post(pairs[q]->a(), Api::kPost, s), 0, "post");
    }
  }
  for (const auto& pair : pairs) {
    for (const ibv_wc& wc : poll(pair->cq(), kEach, 300000))
      require(wc.status == IBV_WC_SUCCESS, "WRITE: {}", ibv_wc_status_str(wc.status));
  }
  for (std::size_t q = 0; q < kQps; ++q) {
    for (std::size_t i = 0; i < kEach; ++i)
      expect_pattern(map.bytes((q * kEach + (i * 7) % kEach) * kPage + q, 64), i, "a page");
  }
  require(counter(dev, "page_faults") - before >= kQps * kEach, "{} faults",
          counter(dev, "page_faults") - before);
}

}  // namespace

std::vector<Test> late_tests(const Device& dev) {
  return tests_of(dev,
                  {{"late", late}, {"never", never}, {"greedy", greedy}, {"crowd", many_at_once}});
}

}  // namespace guest
