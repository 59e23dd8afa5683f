// SPDX-License-Identifier: GPL-2.0-or-later
// fairness: measures how the long messages of other QPs delay a short one.
//
//   fairness [-d DEV] [-g GID_INDEX] [-n QPS] [-m MIB] [-s SENDS]
//
// QPS QPs each keep an RDMA WRITE, then an RDMA READ, of MIB megabytes outstanding, while another
// QP sends 8 bytes at a time. Reports the latency of the sends and the packets that the device sent
// in between. Asserts only what does not depend on time: every request completes, and the sends do
// not wait for the end of long messages.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "verbs.h"

namespace guest {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;  // the memory that is mapped repeatedly
constexpr std::uint32_t kSmall = 8;
// Sends for each long message that completes meanwhile. If sends waited for the end of a long
// message, there would be one.
constexpr unsigned kMinSends = 2;

using Clock = std::chrono::steady_clock;

// A region of any length over a small piece of memory, mapped repeatedly.
class Mirror {
 public:
  Mirror(ibv_pd* pd, std::size_t length) : length_(length) {
    const int fd = memfd_create("fairness", 0);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(kPiece)) != 0) fail_errno("memfd_create");
    base_ = mmap(nullptr, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base_ == MAP_FAILED) fail_errno("mmap");
    for (std::size_t at = 0; at < length; at += kPiece) {
      if (mmap(static_cast<char*>(base_) + at, kPiece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
          MAP_FAILED) {
        fail_errno("mmap of a piece");
      }
    }
    close(fd);
    mr_.reset(ibv_reg_mr(pd, base_, length, kAllAccess));
    if (!mr_) fail_errno("ibv_reg_mr");
  }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  ~Mirror() {
    mr_.reset();
    munmap(base_, length_);
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(base_); }
  [[nodiscard]] const ibv_mr& mr() const { return *mr_; }

 private:
  void* base_ = nullptr;
  std::size_t length_;
  MrPtr mr_;
};

// Two connected QPs of this process.
struct Pair {
  explicit Pair(const Device& dev) {
    Connection how;
    how.mtu = dev.active_mtu();
    cq = create_cq(dev, 64);
    for (QpPtr* const qp : {&a, &b}) {
      ibv_qp_cap cap{.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
      *qp = create_rc_qp(dev, cq.get(), cq.get(), cap);
    }
    const Endpoint ea{a->qp_num, 1, dev.gid()};
    const Endpoint eb{b->qp_num, 2, dev.gid()};
    connect(a.get(), dev, how, ea, eb);
    connect(b.get(), dev, how, eb, ea);
  }
  CqPtr cq;
  QpPtr a;
  QpPtr b;
};

std::uint64_t sent_packets(const Device& dev) {
  const std::string dir = std::string("/sys/class/infiniband/") + ibv_get_device_name(dev.context()->device);
  for (const char* const place : {"/ports/1/hw_counters/", "/hw_counters/"}) {
    std::ifstream f(dir + place + "tx_rdma_packets");
    std::uint64_t n = 0;
    if (f >> n) return n;
  }
  return 0;
}

struct Options {
  std::string device = "tern0";
  int gid_index = -1;
  unsigned qps = 1;
  std::size_t bytes = std::size_t{1} << 30;
  unsigned sends = 400;
};

class Run {
 public:
  explicit Run(const Options& options)
      : options_(options),
        dev_(options.device, options.gid_index),
        big_(dev_.pd(), options.bytes),
        small_(dev_.pd(), 4096, kAllAccess),
        quick_(dev_) {
    for (unsigned i = 0; i < options.qps; ++i) busy_.push_back(std::make_unique<Pair>(dev_));
  }

  void idle() { report("idle", measure(options_.sends), 0); }

  // Returns false if one of the assertions failed.
  bool beside(ibv_wr_opcode opcode, const char* name) {
    opcode_ = opcode;
    long_done_ = 0;
    stop_ = false;
    for (auto& pair : busy_) start(*pair);
    const std::uint64_t before = sent_packets(dev_);
    const auto times = measure(options_.sends);
    const std::uint64_t packets = sent_packets(dev_) - before;
    report(name, times, packets);
    const std::size_t long_done = long_done_;
    stop_ = true;
    const auto end = Clock::now() + std::chrono::minutes(2);
    while (outstanding_ > 0 && Clock::now() < end) reap();
    if (outstanding_ > 0) return complain(name, "the long messages do not end");
    if (long_done * kMinSends > options_.sends) {
      return complain(name, std::to_string(long_done) + " long messages completed meanwhile");
    }
    std::printf("ok fairness/%s\n", name);
    return true;
  }

 private:
  void start(Pair& pair) {
    Send send;
    send.opcode = opcode_;
    send.sges = {{.addr = big_.address(), .length = static_cast<std::uint32_t>(options_.bytes), .lkey = big_.mr().lkey}};
    send.raddr = big_.address();
    send.rkey = big_.mr().rkey;
    if (const int err = post(pair.a.get(), Api::kPost, send)) fail("post of a long message: {}", errno_name(err));
    ++outstanding_;
  }
  // Polls the long messages' CQs and replaces each completed message.
  void reap() {
    for (auto& pair : busy_) {
      ibv_wc wc{};
      if (ibv_poll_cq(pair->cq.get(), 1, &wc) != 1) continue;
      require(wc.status == IBV_WC_SUCCESS, "a long message: {}", ibv_wc_status_str(wc.status));
      --outstanding_;
      ++long_done_;
      if (!stop_) start(*pair);
    }
  }
  // Returns each send's latency in microseconds, from its post to its completion at the receiver.
  std::vector<double> measure(unsigned count) {
    std::vector<double> times;
    for (unsigned i = 0; i < count; ++i) {
      const ibv_sge to = small_.sge(64, kSmall);
      if (const int err = post_recv(quick_.b.get(), i, {&to, 1})) fail("post_recv: {}", errno_name(err));
      Send send;
      send.sges = {small_.sge(0, kSmall)};
      const auto begin = Clock::now();
      if (const int err = post(quick_.a.get(), Api::kPost, send)) fail("post of a send: {}", errno_name(err));
      bool received = false;
      for (int left = 2; left > 0;) {
        ibv_wc wc{};
        if (ibv_poll_cq(quick_.cq.get(), 1, &wc) != 1) {
          require(Clock::now() - begin < std::chrono::seconds(300), "a send does not complete");
          continue;
        }
        require(wc.status == IBV_WC_SUCCESS, "a send: {}", ibv_wc_status_str(wc.status));
        --left;
        if (!received && wc.opcode == IBV_WC_RECV) {
          received = true;
          times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
        }
      }
      reap();
    }
    return times;
  }
  void report(const char* name, std::vector<double> times, std::uint64_t packets) const {
    std::ranges::sort(times);
    const auto at = [&](double q) { return times[static_cast<std::size_t>(q * static_cast<double>(times.size() - 1))]; };
    std::printf("fairness/%s: %zu sends of 8 bytes, us: median %.0f, 90%% %.0f, 99%% %.0f, most %.0f\n", name,
                times.size(), at(0.5), at(0.9), at(0.99), at(1.0));
    if (packets != 0) {
      std::printf("fairness/%s: %u QPs with %zu MiB outstanding; %.1f packets sent for each send; "
                  "%zu long messages completed\n",
                  name, options_.qps, options_.bytes >> 20,
                  static_cast<double>(packets) / static_cast<double>(times.size()), long_done_);
    }
    std::fflush(stdout);
  }
  static bool complain(const char* name, const std::string& why) {
    std::printf("not ok fairness/%s - %s\n", name, why.c_str());
    return false;
  }

  Options options_;
  Device dev_;
  Mirror big_;
  Memory small_;
  Pair quick_;
  std::vector<std::unique_ptr<Pair>> busy_;
  ibv_wr_opcode opcode_ = IBV_WR_RDMA_WRITE;
  unsigned outstanding_ = 0;
  std::size_t long_done_ = 0;
  bool stop_ = true;
};

int usage() {
  std::fputs("usage: fairness [-d DEV] [-g GID_INDEX] [-n QPS] [-m MIB] [-s SENDS]\n", stderr);
  return 2;
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  guest::Options options;
  for (int c; (c = getopt(argc, argv, "d:g:n:m:s:")) != -1;) {
    switch (c) {
      case 'd':
        options.device = optarg;
        break;
      case 'g':
        options.gid_index = std::atoi(optarg);
        break;
      case 'n':
        options.qps = static_cast<unsigned>(std::clamp(std::atoi(optarg), 1, 64));
        break;
      case 'm':
        options.bytes = static_cast<std::size_t>(std::clamp(std::atoi(optarg), 4, 2044)) / 4 * guest::kPiece;
        break;
      case 's':
        options.sends = static_cast<unsigned>(std::clamp(std::atoi(optarg), 1, 1000000));
        break;
      default:
        return guest::usage();
    }
  }
  try {
    guest::Run run(options);
    run.idle();
    const bool writes = run.beside(IBV_WR_RDMA_WRITE, "writes");
    const bool reads = run.beside(IBV_WR_RDMA_READ, "reads");
    return writes && reads ? 0 : 1;
  } catch (const std::exception& e) {
    std::printf("not ok fairness/run - %s\n", e.what());
    return 1;
  }
}
