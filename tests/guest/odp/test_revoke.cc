// SPDX-License-Identifier: GPL-2.0-or-later
// Dma-bufs whose exporter takes the memory back (kernel/tests/tern_exporter.c).
#include <fcntl.h>
#include <linux/ioctl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>

#include "paging.h"

namespace guest {
namespace {

constexpr unsigned long kAlloc = _IO('t', 1), kRevoke = _IO('t', 2);
constexpr std::size_t kLen = 300 * kPage;
constexpr std::byte kCanary{0x5a};

int exporter() {
  static const int fd = ::open("/dev/tern_exporter", O_RDWR | O_CLOEXEC);
  require(fd >= 0, "/dev/tern_exporter: {}", errno_name(errno));
  return fd;
}

// Memory that is exported, as this process sees it.
class Exported {
 public:
  Exported() : fd_(::ioctl(exporter(), kAlloc, kLen)) {
    require(fd_ >= 0, "the exporter: {}", errno_name(errno));
    map_.emplace(kLen, PROT_READ | PROT_WRITE, MAP_SHARED, fd_);
  }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;
  ~Exported() { ::close(fd_); }

  [[nodiscard]] const Map& map() const { return *map_; }
  [[nodiscard]] MrPtr try_reg(const Device& dev) const {
    errno = 0;
    return MrPtr(ibv_reg_dmabuf_mr(dev.pd(), 0, kLen, 0, fd_, kAllAccess));
  }
  [[nodiscard]] MrPtr reg(const Device& dev) const {
    MrPtr mr = try_reg(dev);
    require(mr != nullptr, "ibv_reg_dmabuf_mr: {}", errno_name(errno));
    return mr;
  }
  // Takes the memory back and marks it: whoever writes to it now is wrong. Returns the number of
  // importers that still map it.
  [[nodiscard]] int take() const {
    const int left = ::ioctl(exporter(), kRevoke, fd_);
    std::ranges::fill(map_->bytes(), kCanary);
    return left;
  }
  void revoke() const {
    const int left = take();
    require(left == 0, "{} importers still map the memory", left);
  }
  void check() const {
    const auto at =
        std::ranges::find_if(map_->bytes(), [](std::byte each) { return each != kCanary; });
    require(at == map_->bytes().end(), "byte {} was written after the memory was revoked",
            at - map_->bytes().begin());
  }

 private:
  int fd_;
  std::optional<Map> map_;
};

void expect_status(const Device& dev, const Send& send, ibv_wc_status expected, const char* what) {
  Loop pair(dev);
  const ibv_wc_status status = pair.run(send);
  require(status == expected, "{}: {}", what, ibv_wc_status_str(status));
}

// The key stays, and refers to nothing.
void expect_empty(const Device& dev, const Exported& exported, const ibv_mr* mr) {
  const Map plain(kLen);
  const MrPtr local = reg(dev, plain, kAllAccess);
  const ibv_sge here = sge(local.get(), plain.address(), 64), there = sge(mr, 0, 64);
  expect_status(dev, write_from(here, 0, mr->rkey), IBV_WC_REM_ACCESS_ERR, "WRITE");
  expect_status(dev, read_into(here, 0, mr->rkey), IBV_WC_REM_ACCESS_ERR, "READ");
  expect_status(dev, write_from(there, plain.address(), local->rkey), IBV_WC_LOC_PROT_ERR,
                "WRITE from it");
  expect_status(dev, read_into(there, plain.address(), local->rkey), IBV_WC_LOC_PROT_ERR,
                "READ into it");
  expect_zeros(plain.bytes(), "memory beside it");
  exported.check();
}

void revoked(const Device& dev) {
  const Exported exported;
  const Map plain(kLen);
  const MrPtr local = reg(dev, plain, kAllAccess);
  MrPtr mr = exported.reg(dev), second = exported.reg(dev);
  Loop pair(dev);
  fill(plain.bytes(), 1);
  pair.must(write_from(sge(local.get(), plain.address(), kLen), 0, mr->rkey), "WRITE");
  expect_pattern(exported.map().bytes(), 1, "WRITE");
  exported.revoke();
  expect_empty(dev, exported, mr.get());
  expect_empty(dev, exported, second.get());
  exported.revoke();
  // The keys are not given to others.
  for (int i = 0; i < 600; ++i) {
    const MrPtr other = reg(dev, plain, kAllAccess);
    require(other->rkey != mr->rkey && other->rkey != second->rkey, "its key is given away");
  }
  require(exported.try_reg(dev) == nullptr && errno == ENODEV, "registered again: {}",
          errno_name(errno));
  require_err(ibv_dereg_mr(mr.release()), 0, "ibv_dereg_mr");
}

// Each region is revoked while WRITEs into it are under way, and others out of it.
void revoked_under_load(const Device& dev) {
  const Map plain(kLen);
  const MrPtr local = reg(dev, plain, kAllAccess);
  fill(plain.bytes(), 1);
  for (unsigned round = 0; round < 20; ++round) {
    const Exported exported;
    const MrPtr mr = exported.reg(dev);
    Loop into(dev), from(dev);
    const Send write = write_from(sge(local.get(), plain.address(), kLen), 0, mr->rkey);
    const Send read = read_into(sge(mr.get(), 0, kLen), plain.address(), local->rkey);
    constexpr unsigned kPosts = 8;
    for (unsigned i = 0; i < kPosts; ++i) {
      require_err(post(into.a(), Api::kPost, write), 0, "post");
      require_err(post(from.a(), Api::kPost, read), 0, "post");
    }
    // Some are done, and others are not.
    (void)poll(into.cq(), 1 + round % 4);
    exported.revoke();
    for (const Loop* loop : {&into, &from}) {
      const auto done = poll(loop->cq(), loop == &into ? kPosts - 1 - round % 4 : kPosts);
      const ibv_wc_status refused = loop == &into ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR;
      for (const ibv_wc& wc : done) {
        require(
            wc.status == IBV_WC_SUCCESS || wc.status == refused || wc.status == IBV_WC_WR_FLUSH_ERR,
            "a request under way: {}", ibv_wc_status_str(wc.status));
      }
    }
    exported.check();
  }
}

// The exporter takes the memory back while it is registered and deregistered.
void revoked_in_a_race(const Device& dev) {
  unsigned refused = 0, registered = 0;
  for (unsigned round = 0; round < 200; ++round) {
    const Exported exported;
    constexpr int kNotYet = -2;
    std::atomic<int> left = kNotYet;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(round * 37));
      left = exported.take();
    });
    int err = 0;
    for (bool last = false; !last && err == 0;) {
      last = left != kNotYet;
      const MrPtr mr = exported.try_reg(dev);
      ++(mr ? registered : refused);
      if (!mr && errno != ENODEV && errno != EINVAL) err = errno;
    }
    other.join();
    require_err(err, 0, "ibv_reg_dmabuf_mr");
    require(left == 0, "{} importers still map the memory", left.load());
    require(exported.try_reg(dev) == nullptr, "registered after it was revoked");
    exported.check();
  }
  note("registered {} times, refused {} times", registered, refused);
}

// A process is killed with a region whose memory was revoked.
void revoked_and_killed(const Device& dev) {
  const Exported exported;
  int fds[2];
  require(::pipe2(fds, O_CLOEXEC) == 0, "pipe2: {}", errno_name(errno));
  const pid_t child = ::fork();
  if (child == 0) {
    const Device own(ibv_get_device_name(dev.context()->device), -1);
    const MrPtr mr = exported.try_reg(own);
    const bool good = mr != nullptr;
    if (::write(fds[1], &good, 1) == 1) ::pause();
    ::_exit(0);
  }
  char good = 0;
  require(::read(fds[0], &good, 1) == 1 && good != 0, "ibv_reg_dmabuf_mr in a child");
  exported.revoke();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(fds[0]);
  ::close(fds[1]);
  exported.check();
}

}  // namespace

std::vector<Test> revoke_tests(const Device& dev) {
  return tests_of(dev, {{"keys-stay-empty", revoked},
                        {"under-load", revoked_under_load},
                        {"in-a-race", revoked_in_a_race},
                        {"and-killed", revoked_and_killed}});
}

}  // namespace guest
