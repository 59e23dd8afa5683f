// SPDX-License-Identifier: GPL-2.0-or-later
// Calls go to a child over a pair of sockets, as raw structures.
#include "processes.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "run.h"

namespace guest::generator {
namespace {

enum class Call : std::uint8_t {
  kRegion,
  kDereg,
  kRereg,
  kWindow,
  kDealloc,
  kRestore,
  kCreate,
  kConnect,
  kModify,
  kDestroy,
  kPost,
  kReceive,
  kPoll,
  kArm,
  kEvents,
  kLoad,
  kStore,
  kGid,
  kWipe
};

// The arguments of any call.
struct Message {
  Call call{};
  std::size_t slot = 0;
  std::size_t second = 0;
  std::uint64_t number = 0;
  int value = 0;
  bool flag = false;
  RegionArgs region{};
  QpArgs qp{};
  Endpoint remote{};
  Request request{};
  std::array<ibv_sge, 2> sge{};
  std::array<std::byte, kDeviceMemSize> bytes{};
};

// The result of any call.
struct Answer {
  int err = 0;
  bool failed = false;  // `bytes` says why
  Keys keys{};
  Numbers numbers{};
  ibv_gid gid{};
  std::size_t count = 0;
  std::array<Completion, 64> completions{};
  std::array<std::byte, kDeviceMemSize> bytes{};
};

bool read_all(int fd, void* to, std::size_t length) {
  auto* at = static_cast<std::byte*>(to);
  while (length != 0) {
    const ssize_t n = ::read(fd, at, length);
    if (n <= 0) return false;
    at += n;
    length -= static_cast<std::size_t>(n);
  }
  return true;
}

bool write_all(int fd, const void* from, std::size_t length) {
  const auto* at = static_cast<const std::byte*>(from);
  while (length != 0) {
    const ssize_t n = ::send(fd, at, length, MSG_NOSIGNAL);
    if (n <= 0) return false;
    at += n;
    length -= static_cast<std::size_t>(n);
  }
  return true;
}

void poll_into(Side& side, Answer& a) {
  const std::vector<Completion> got = side.poll();
  require(got.size() <= a.completions.size(), "{} completions at once", got.size());
  a.count = got.size();
  std::ranges::copy(got, a.completions.begin());
}

void serve_queue(Side& side, const Message& m, Answer& a) {
  switch (m.call) {
    case Call::kCreate:
      a.numbers = side.create(m.qp);
      break;
    case Call::kConnect:
      a.err = side.connect(m.qp, m.remote);
      break;
    case Call::kModify:
      a.err = side.modify(m.slot, static_cast<ibv_qp_state>(m.value));
      break;
    case Call::kDestroy:
      a.err = side.destroy(m.slot);
      break;
    case Call::kPost:
      a.keys = side.post(m.request);
      break;
    case Call::kReceive:
      a.err = side.receive(m.slot, m.flag, m.number, std::span(m.sge.data(), m.second));
      break;
    case Call::kPoll:
      poll_into(side, a);
      break;
    case Call::kArm:
      a.err = side.arm(m.slot, m.flag);
      break;
    case Call::kEvents:
      a.err = side.events(m.value);
      break;
    case Call::kGid:
      a.gid = side.gid();
      break;
    default:
      break;
  }
}

void serve(Side& side, const Message& m, Answer& a) {
  switch (m.call) {
    case Call::kRegion:
      a.keys = side.region(m.region);
      break;
    case Call::kDereg:
      a.err = side.dereg(m.slot);
      break;
    case Call::kRereg:
      a.keys = side.rereg(m.region, m.value);
      break;
    case Call::kWindow:
      a.keys = side.window(m.slot, m.value, m.second);
      break;
    case Call::kDealloc:
      a.err = side.dealloc(m.slot);
      break;
    case Call::kRestore:
      side.restore(m.slot, static_cast<std::uint32_t>(m.number));
      break;
    case Call::kLoad:
      std::ranges::copy(side.load_device(), a.bytes.begin());
      break;
    case Call::kStore:
      side.store_device(m.bytes);
      break;
    case Call::kWipe:
      side.wipe();
      break;
    default:
      serve_queue(side, m, a);
      break;
  }
}

// The child's work, until its parent goes.
void child(int fd, int end, const std::string& device, int gid_index, const Mems& mems,
           const Caps& caps) {
  std::unique_ptr<Side> side;
  Message m;
  while (read_all(fd, &m, sizeof(m))) {
    Answer a;
    try {
      if (!side) side = make_side(end, device, gid_index, mems, caps);
      serve(*side, m, a);
    } catch (const std::exception& e) {
      a.failed = true;
      std::strncpy(reinterpret_cast<char*>(a.bytes.data()), e.what(), a.bytes.size() - 1);
    }
    if (!write_all(fd, &a, sizeof(a))) break;
  }
}

// Children are forked before this process opens a device, and open it themselves when they are
// used.
class Far : public Side {
 public:
  Far(int end, const std::string& device, int gid_index, const Mems& mems, const Caps& caps) {
    for (Process& p : processes_) {
      std::array<int, 2> ends{};
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) fail_errno("socketpair");
      p.pid = ::fork();
      if (p.pid < 0) fail_errno("fork");
      if (p.pid == 0) {
        ::close(ends[0]);
        for (const Process& other : processes_) {
          if (other.fd >= 0) ::close(other.fd);
        }
        child(ends[1], end, device, gid_index, mems, caps);
        std::_Exit(0);
      }
      ::close(ends[1]);
      p.fd = ends[0];
    }
  }
  Far(const Far&) = delete;
  Far& operator=(const Far&) = delete;
  ~Far() override {
    for (Process& p : processes_) {
      if (p.fd >= 0) ::close(p.fd);
      if (p.pid > 0) ::waitpid(p.pid, nullptr, 0);
    }
  }

  Keys region(const RegionArgs& args) override {
    return call({.call = Call::kRegion, .region = args}).keys;
  }
  int dereg(std::size_t slot) override { return call({.call = Call::kDereg, .slot = slot}).err; }
  Keys rereg(const RegionArgs& args, int what) override {
    return call({.call = Call::kRereg, .value = what, .region = args}).keys;
  }
  Keys window(std::size_t slot, int type, std::size_t pd) override {
    return call({.call = Call::kWindow, .slot = slot, .second = pd, .value = type}).keys;
  }
  int dealloc(std::size_t slot) override {
    return call({.call = Call::kDealloc, .slot = slot}).err;
  }
  void restore(std::size_t slot, std::uint32_t key) override {
    call({.call = Call::kRestore, .slot = slot, .number = key});
  }
  Numbers create(const QpArgs& args) override {
    return call({.call = Call::kCreate, .qp = args}).numbers;
  }
  int connect(const QpArgs& args, const Endpoint& remote) override {
    return call({.call = Call::kConnect, .qp = args, .remote = remote}).err;
  }
  int modify(std::size_t conn, ibv_qp_state state) override {
    return call({.call = Call::kModify, .slot = conn, .value = state}).err;
  }
  int destroy(std::size_t conn) override {
    return call({.call = Call::kDestroy, .slot = conn}).err;
  }
  Keys post(const Request& request) override {
    return call({.call = Call::kPost, .request = request}).keys;
  }
  int receive(std::size_t conn, bool srq, std::uint64_t id,
              std::span<const ibv_sge> sges) override {
    Message m{
        .call = Call::kReceive, .slot = conn, .second = sges.size(), .number = id, .flag = srq};
    std::ranges::copy(sges, m.sge.begin());
    return call(m).err;
  }
  std::vector<Completion> poll() override {
    const Answer a = call({.call = Call::kPoll});
    return {a.completions.begin(), a.completions.begin() + static_cast<std::ptrdiff_t>(a.count)};
  }
  int arm(std::size_t cq, bool solicited) override {
    return call({.call = Call::kArm, .slot = cq, .flag = solicited}).err;
  }
  int events(int timeout_ms) override {
    return call({.call = Call::kEvents, .value = timeout_ms}).err;
  }
  std::vector<std::byte> load_device() override {
    const Answer a = call({.call = Call::kLoad});
    return {a.bytes.begin(), a.bytes.end()};
  }
  void store_device(std::span<const std::byte> bytes) override {
    Message m{.call = Call::kStore};
    std::ranges::copy(bytes, m.bytes.begin());
    call(m);
  }
  ibv_gid gid() override { return call({.call = Call::kGid}).gid; }
  void wipe() override { call({.call = Call::kWipe}); }
  bool kill() override {
    if (used_ + 1 == processes_.size()) return false;
    Process& p = processes_.at(used_++);
    ::kill(p.pid, SIGKILL);
    ::waitpid(p.pid, nullptr, 0);
    ::close(p.fd);
    p = {};
    return true;
  }

 private:
  struct Process {
    pid_t pid = -1;
    int fd = -1;
  };
  Answer call(const Message& m) {
    const int fd = processes_.at(used_).fd;
    Answer a;
    require(write_all(fd, &m, sizeof(m)) && read_all(fd, &a, sizeof(a)),
            "the other process is gone");
    require(!a.failed, "{}", reinterpret_cast<const char*>(a.bytes.data()));
    return a;
  }

  std::array<Process, 64> processes_{};
  std::size_t used_ = 0;
};

}  // namespace

std::unique_ptr<Side> fork_side(int end, const std::string& device, int gid_index, const Mems& mems,
                                const Caps& caps) {
  return std::make_unique<Far>(end, device, gid_index, mems, caps);
}

// End 1 dies with all its objects. Its memory stays, since this process shares it, and must not
// change any more. What end 0 owns goes on.
void Runner::kill() {
  if (!options_.processes || !side(1).kill()) return;
  executed_++;
  discard();
  for (std::size_t c = 0; c < kConns; c++) {
    Conn& conn = book_->conn(c);
    if (made_.at(c)[0]) {
      require_err(side(0).modify(c, IBV_QPS_RESET), 0, "to RESET");
      require_err(side(0).destroy(c), 0, "ibv_destroy_qp");
    }
    made_.at(c) = {};
    const auto dead = book_->restart(c);
    for (const std::size_t w : dead[0]) dealloc(0, w);
    conn = {};
  }
  book_->receives_died(1);
  armed_[1] = {};
  for (std::size_t i = 0; i < kRegions; i++) book_->region(1, i) = {};
  for (std::size_t i = 0; i < kWindows; i++) book_->window(1, i) = {};
  if (caps_.contains("dm")) {  // another process, another allocation
    side(1).store_device(std::as_bytes(std::span(memories_.bytes(mem_id(1, kDeviceMem)))));
  }
  text_ += " ok";
}

}  // namespace guest::generator
