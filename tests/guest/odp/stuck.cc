// SPDX-License-Identifier: GPL-2.0-or-later
// Pages that never arrive: those of a userfaultfd, and those of a file system in user space.
// Whoever would deliver them is stopped.
#include "stuck.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <thread>

namespace guest {
namespace {

constexpr std::uint64_t kFileSize = 1 << 20;

fuse_attr attributes(std::uint64_t node) {
  fuse_attr attr{};
  attr.ino = node;
  attr.nlink = 1;
  attr.blksize = kPage;
  attr.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0644;
  attr.size = node == FUSE_ROOT_ID ? 0 : kFileSize;
  return attr;
}

template <typename Out>
void answer(int dev, const fuse_in_header& in, const Out& out) {
  std::array<std::byte, sizeof(fuse_out_header) + sizeof(Out)> bytes{};
  const fuse_out_header header{.len = bytes.size(), .error = 0, .unique = in.unique};
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), &out, sizeof(out));
  (void)::write(dev, bytes.data(), bytes.size());
}

// One directory with one file. Stops when it is asked for the contents.
[[noreturn]] void serve(int dev) {
  alignas(8) static std::array<std::byte, 1 << 17> request;
  for (;;) {
    if (::read(dev, request.data(), request.size()) < static_cast<ssize_t>(sizeof(fuse_in_header)))
      ::_exit(0);
    fuse_in_header in;
    std::memcpy(&in, request.data(), sizeof(in));
    switch (in.opcode) {
      case FUSE_INIT: {
        // Without FUSE_ASYNC_READ the reader itself waits, and no signal ends that.
        fuse_init_out out{};
        out.major = FUSE_KERNEL_VERSION;
        out.minor = FUSE_KERNEL_MINOR_VERSION;
        out.max_write = kPage;
        answer(dev, in, out);
        break;
      }
      case FUSE_LOOKUP: {
        fuse_entry_out out{};
        out.nodeid = 2;
        out.entry_valid = out.attr_valid = 3600;
        out.attr = attributes(2);
        answer(dev, in, out);
        break;
      }
      case FUSE_GETATTR: {
        fuse_attr_out out{};
        out.attr_valid = 3600;
        out.attr = attributes(in.nodeid);
        answer(dev, in, out);
        break;
      }
      case FUSE_OPEN: {
        answer(dev, in, fuse_open_out{});
        break;
      }
      case FUSE_READ:
        ::raise(SIGSTOP);
        break;
      default: {
        const fuse_out_header out{.len = sizeof(out), .error = -ENOSYS, .unique = in.unique};
        (void)::write(dev, &out, sizeof(out));
      }
    }
  }
}

}  // namespace

int userfaultfd_of(const Map& map) {
  const int fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  require(fd >= 0, "userfaultfd: {}", errno_name(errno));
  uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
  require(::ioctl(fd, UFFDIO_API, &api) == 0, "UFFDIO_API");
  uffdio_register range{.range = {.start = map.address(), .len = map.length()},
                        .mode = UFFDIO_REGISTER_MODE_MISSING,
                        .ioctls = 0};
  require(::ioctl(fd, UFFDIO_REGISTER, &range) == 0, "UFFDIO_REGISTER");
  return fd;
}

Stuck::Stuck(bool file) : file_(file) {
  if (!file) {
    map_ = std::make_unique<Map>(8 * kPage);
    const int fd = userfaultfd_of(*map_);
    // The child shares the descriptor: it stops at the first fault.
    server_ = ::fork();
    if (server_ == 0) {
      pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
      (void)::poll(&p, 1, -1);
      ::raise(SIGSTOP);
      ::_exit(0);
    }
    ::close(fd);
    return;
  }
  const int dev = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  require(dev >= 0, "/dev/fuse: {}", errno_name(errno));
  dir_ = "/run/odp-stuck";
  ::mkdir(dir_.c_str(), 0755);
  const std::string options = "fd=" + std::to_string(dev) + ",rootmode=40000,user_id=0,group_id=0";
  require(::mount("odp", dir_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0,
          "mount: {}", errno_name(errno));
  server_ = ::fork();
  if (server_ == 0) serve(dev);
  ::close(dev);
  const int fd = ::open((dir_ + "/file").c_str(), O_RDONLY | O_CLOEXEC);
  require(fd >= 0, "open: {}", errno_name(errno));
  map_ = std::make_unique<Map>(8 * kPage, PROT_READ, MAP_SHARED, fd);
  ::close(fd);
}

void Stuck::wait() const {
  int status = 0;
  for (int i = 0; i < 600; ++i) {
    if (::waitpid(server_, &status, WUNTRACED | WNOHANG) == server_) {
      require(WIFSTOPPED(status), "the server ended with {:#x}", status);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  fail("the device does not ask for a page");
}

void Stuck::end() const {
  ::kill(server_, SIGKILL);
  (void)::waitpid(server_, nullptr, 0);
  if (file_) ::umount2(dir_.c_str(), MNT_DETACH);
}

void hold(bool file) {
  const Device dev("tern0", -1);
  const Map plain(kPage);
  const MrPtr local = reg(dev, plain, kAllAccess);
  const Stuck stuck(file);
  const MrPtr mr = reg(dev, stuck.map(), IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ);
  Loop pair(dev);
  require_err(
      post(pair.a(), Api::kPost,
           read_into(sge(local.get(), plain.address(), 8), stuck.map().address(), mr->rkey)),
      0, "post");
  stuck.wait();
  std::printf("ready\n");
  std::fflush(stdout);
  // The device goes away meanwhile.
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  int sig = 0;
  (void)::sigwait(&set, &sig);
  stuck.end();
}

}  // namespace guest
