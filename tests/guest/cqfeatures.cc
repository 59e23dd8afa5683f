// SPDX-License-Identifier: GPL-2.0-or-later
// cqfeatures: what completions have of tern's clocks, and other answers that are tern's own. The
// rules of completion queues are in tools/verbs-judge.
//
//   cqfeatures [-d DEV] [-g GID_INDEX] [PATTERN...]
//
// Covers the device's clock, time stamps in the time of the PTP clock, the service level of
// datagrams, and ibv_query_qp_data_in_order().
// No assertion depends on the machine's speed.
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/timex.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <thread>
#include <vector>

#include "program.h"
#include "rig.h"

namespace guest {
namespace {

constexpr int kSoon = 20000;  // ms; an expected event must arrive within this time
constexpr std::uint64_t kNsPerUs = 1000;
constexpr std::uint64_t kNsPerSecond = 1000000000;

std::uint64_t now_ns(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return static_cast<std::uint64_t>(ts.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(ts.tv_nsec);
}

void sleep_ms(unsigned ms) { usleep(ms * 1000); }

// ---- time ----

constexpr std::uint64_t kStamps =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

void clock_attributes(const Device& dev) {
  ibv_device_attr_ex attr{};
  require_err(ibv_query_device_ex(dev.context(), nullptr, &attr), 0, "ibv_query_device_ex");
  require(attr.completion_timestamp_mask == UINT64_MAX, "mask {:#x}",
          attr.completion_timestamp_mask);
  require(attr.hca_core_clock == 1000000, "hca_core_clock {} kHz", attr.hca_core_clock);

  ibv_values_ex values{};
  values.comp_mask = 1U << 1;
  require_err(ibv_query_rt_values_ex(dev.context(), &values), EOPNOTSUPP, "an unknown value");
  std::uint64_t last = raw_clock(dev.context());
  for (int i = 0; i < 20000; i++) {
    const std::uint64_t next = raw_clock(dev.context());
    require(next >= last, "the clock went from {} to {}", last, next);
    last = next;
  }
}

// The device clock runs at the system's rate, within a thousandth.
void clock_rate(const Device& dev) {
  const std::uint64_t outer = now_ns(CLOCK_MONOTONIC);
  const std::uint64_t start = raw_clock(dev.context());
  const std::uint64_t inner = now_ns(CLOCK_MONOTONIC);
  sleep_ms(1000);
  const std::uint64_t inner_end = now_ns(CLOCK_MONOTONIC);
  const std::uint64_t end = raw_clock(dev.context());
  const std::uint64_t outer_end = now_ns(CLOCK_MONOTONIC);
  const std::uint64_t least = (inner_end - inner) / 1000 * 999;
  const std::uint64_t most = (outer_end - outer) / 1000 * 1001 + kNsPerUs;
  require(end - start >= least && end - start <= most, "{} ns, should be {} to {}", end - start,
          least, most);
}

// Two threads read the clock through one page: each reading is consistent.
void clock_shared(const Device& dev) {
  std::exception_ptr broken;
  std::atomic<bool> done = false;
  const auto read = [&] {
    std::uint64_t last = 0;
    while (!done) {
      const std::uint64_t next = raw_clock(dev.context());
      require(next >= last, "the clock went from {} to {}", last, next);
      last = next;
    }
  };
  std::thread other([&] {
    try {
      read();
    } catch (...) {
      broken = std::current_exception();
    }
  });
  std::uint64_t last = raw_clock(dev.context());
  const std::uint64_t end = last + 6 * kNsPerSecond;  // long enough for the low half to wrap around
  std::string why;
  while (last < end && why.empty()) {
    const std::uint64_t next = raw_clock(dev.context());
    if (next < last || next - last > 60 * kNsPerSecond)
      why = std::format("from {} to {}", last, next);
    last = next;
  }
  done = true;
  other.join();
  if (broken) std::rethrow_exception(broken);
  require(why.empty(), "the clock went {}", why);
}

// Returns the only entry of a directory in the sysfs of the device's PCI function.
std::string name_in(const Device& dev, const char* directory) {
  const std::string path = std::format("/sys/class/infiniband/{}/device/{}",
                                       ibv_get_device_name(dev.context()->device), directory);
  const std::filesystem::directory_iterator entries(path);
  require(entries != std::filesystem::directory_iterator(), "{} is empty", path);
  return entries->path().filename();
}

// The PTP clock of the port, with its own rate at first. In the end it has the system's time and
// its own rate again.
class Phc {
 public:
  explicit Phc(const Device& dev)
      : fd_(open(("/dev/" + name_in(dev, "ptp")).c_str(), O_RDWR | O_CLOEXEC)) {
    if (fd_ < 0) fail_errno("open of the PTP clock");
    rate(0);
  }
  Phc(const Phc&) = delete;
  Phc& operator=(const Phc&) = delete;
  ~Phc() {
    timex own{};
    own.modes = ADJ_FREQUENCY;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    if (clock_adjtime(id(), &own) < 0 || clock_settime(id(), &now) != 0) std::perror("ptp");
    close(fd_);
  }

  [[nodiscard]] std::uint64_t now() const { return now_ns(id()); }
  void set(std::uint64_t ns) const {
    const timespec ts{.tv_sec = static_cast<time_t>(ns / kNsPerSecond),
                      .tv_nsec = static_cast<long>(ns % kNsPerSecond)};
    if (clock_settime(id(), &ts) != 0) fail_errno("clock_settime");
  }
  void shift(time_t seconds) const {
    timex change{};
    change.modes = ADJ_SETOFFSET | ADJ_NANO;
    change.time.tv_sec = seconds;
    adjust(change);
  }
  void rate(long ppm) const {
    timex change{};
    change.modes = ADJ_FREQUENCY;
    change.freq = ppm * 65536;
    adjust(change);
  }

 private:
  // <linux/posix-timers.h>
  [[nodiscard]] clockid_t id() const { return static_cast<clockid_t>(~fd_ * 8 + 3); }
  void adjust(timex& change) const {
    if (clock_adjtime(id(), &change) < 0) fail_errno("clock_adjtime");
  }

  int fd_;
};

// A socket whose datagrams, to nobody, get a time stamp when the port has sent them.
class StampedSocket {
 public:
  explicit StampedSocket(const Device& dev) : fd_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) fail_errno("socket");
    name_in(dev, "net").copy(request_.ifr_name, sizeof(request_.ifr_name) - 1);
    configure(HWTSTAMP_TX_ON);
    const int flags =
        SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE | SOF_TIMESTAMPING_OPT_TSONLY;
    if (setsockopt(fd_, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof(flags)) != 0 ||
        setsockopt(fd_, SOL_SOCKET, SO_BINDTODEVICE, request_.ifr_name, IFNAMSIZ) != 0)
      fail_errno("setsockopt");
  }
  StampedSocket(const StampedSocket&) = delete;
  StampedSocket& operator=(const StampedSocket&) = delete;
  ~StampedSocket() {
    config_.tx_type = HWTSTAMP_TX_OFF;
    ioctl(fd_, SIOCSHWTSTAMP, &request_);
    close(fd_);
  }

  // Sends a datagram and returns its time stamp.
  [[nodiscard]] std::uint64_t send() const {
    sockaddr_in all{};  // multicast needs no neighbor
    all.sin_family = AF_INET;
    all.sin_port = htons(9);
    all.sin_addr.s_addr = htonl(INADDR_ALLHOSTS_GROUP);
    if (sendto(fd_, "t", 1, 0, reinterpret_cast<sockaddr*>(&all), sizeof(all)) != 1)
      fail_errno("sendto");
    pollfd error{.fd = fd_, .events = 0, .revents = 0};
    require(::poll(&error, 1, kSoon) == 1, "no time stamp of a datagram");
    alignas(cmsghdr) char control[256];
    msghdr message{};
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (recvmsg(fd_, &message, MSG_ERRQUEUE) < 0) fail_errno("recvmsg");
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPING) continue;
      scm_timestamping stamps{};
      std::memcpy(&stamps, CMSG_DATA(c), sizeof(stamps));
      return static_cast<std::uint64_t>(stamps.ts[2].tv_sec) * kNsPerSecond +
             static_cast<std::uint64_t>(stamps.ts[2].tv_nsec);
    }
    fail("a message without time stamp");
  }

 private:
  void configure(int tx_type) {
    config_.tx_type = tx_type;
    request_.ifr_data = reinterpret_cast<char*>(&config_);
    if (ioctl(fd_, SIOCSHWTSTAMP, &request_) != 0) fail_errno("SIOCSHWTSTAMP");
  }

  int fd_;
  hwtstamp_config config_{};
  ifreq request_{};
};

// One write: its time stamp and its wall clock.
struct Stamp {
  std::uint64_t raw, wall;
};
Stamp next_stamp(const Rig& rig) {
  ibv_poll_cq_attr attr{};
  while (ibv_start_poll(rig.cq_ex(), &attr) != 0) {
  }
  const Stamp stamp{.raw = ibv_wc_read_completion_ts(rig.cq_ex()),
                    .wall = ibv_wc_read_completion_wallclock_ns(rig.cq_ex())};
  ibv_end_poll(rig.cq_ex());
  return stamp;
}
Stamp stamp_of_write(Rig& rig) {
  rig.write();
  return next_stamp(rig);
}

// The wall clock of a write lies between the PHC's times before and after it. All are readings of
// one clock: there is no tolerance.
Stamp wall_of_write(Rig& rig, const Phc& phc, const char* when) {
  const std::uint64_t before = phc.now();
  const Stamp stamp = stamp_of_write(rig);
  const std::uint64_t after = phc.now();
  require(before <= stamp.wall && stamp.wall <= after, "{}: {}, but the PHC went from {} to {}",
          when, stamp.wall, before, after);
  return stamp;
}

void wallclock(const Device& dev) {
  Rig rig(dev, {.wc_flags = kStamps});
  const Phc phc(dev);
  Stamp last{};
  for (int i = 0; i < 300; i++) {
    const Stamp stamp = wall_of_write(rig, phc, "wall clock");
    require(stamp.wall >= last.wall, "{} after {}", stamp.wall, last.wall);
    last = stamp;
    if (i % 10 == 0) sleep_ms(20);
  }
}

// Wherever the PHC is set and however it runs, the wall clock of completions and SO_TIMESTAMPING
// are its time. A completion from before a change is converted to the clock as it is now.
void wallclock_follows_phc(const Device& dev) {
  Rig rig(dev, {.wc_flags = kStamps});
  const StampedSocket datagrams(dev);
  const Phc phc(dev);
  const auto agree = [&](const char* when) {
    const std::uint64_t before = phc.now();
    const std::uint64_t first = stamp_of_write(rig).wall;
    const std::uint64_t sent = datagrams.send();
    const std::uint64_t second = wall_of_write(rig, phc, when).wall;
    require(before <= first && first <= sent && sent <= second,
            "{}: the PHC at {}, a write at {}, a datagram at {}, a write at {}", when, before,
            first, sent, second);
  };
  agree("at first");

  phc.set(now_ns(CLOCK_REALTIME) + 1000 * kNsPerSecond);
  agree("1000 s ahead");
  require(phc.now() > now_ns(CLOCK_REALTIME) + 900 * kNsPerSecond, "the PHC was not set");

  rig.write();
  const std::uint64_t least = raw_clock(dev.context());
  const std::uint64_t ahead = phc.now();
  const std::uint64_t most = raw_clock(dev.context());
  phc.shift(-2000);
  const Stamp old = next_stamp(rig);
  const std::uint64_t back = old.wall + 2000 * kNsPerSecond;
  require(ahead - most <= back - old.raw && back - old.raw <= ahead - least,
          "{} of stamp {} after a step by -2000 s, before which {} was at {} to {}", old.wall,
          old.raw, ahead, least, most);
  agree("1000 s behind");

  for (const long ppm : {100000L, -100000L, 0L}) {
    phc.rate(ppm);
    const Stamp start = wall_of_write(rig, phc, "another rate");
    sleep_ms(200);
    agree("another rate");
    const Stamp end = wall_of_write(rig, phc, "another rate");
    const auto raw = static_cast<std::int64_t>(end.raw - start.raw);
    const auto off = static_cast<std::int64_t>(end.wall - start.wall) - raw - raw * ppm / 1000000;
    // Rounding, and the resolution of the rate: 4 ppb.
    require(std::abs(off) <= 2 + raw / 100000000, "{} ppm: {} ns off after {} ns", ppm, off, raw);
  }
}

// ---- datagrams ----

// Returns the service level of the next completion, by the extended interface.
std::uint8_t read_sl(ibv_cq_ex* cq) {
  ibv_poll_cq_attr attr{};
  while (ibv_start_poll(cq, &attr) != 0) sleep_ms(1);
  const ibv_wc_status status = cq->status;
  const std::uint8_t sl = ibv_wc_read_sl(cq);
  ibv_end_poll(cq);
  require(status == IBV_WC_SUCCESS, "status {}", static_cast<int>(status));
  return sl;
}

std::vector<ibv_gid_entry> roce_v2_gids(const Device& dev) {
  std::vector<ibv_gid_entry> gids(256);
  const ssize_t count = ibv_query_gid_table(dev.context(), gids.data(), gids.size(), 0);
  if (count < 0) fail_errno("ibv_query_gid_table");
  gids.resize(static_cast<std::size_t>(count));
  std::erase_if(gids,
                [](const ibv_gid_entry& gid) { return gid.gid_type != IBV_GID_TYPE_ROCE_V2; });
  return gids;
}

AhPtr create_ah(const Device& dev, const ibv_gid_entry& gid) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = gid.gid;
  attr.grh.sgid_index = static_cast<std::uint8_t>(gid.gid_index);
  attr.grh.hop_limit = 64;
  AhPtr ah(ibv_create_ah(dev.pd(), &attr));
  if (!ah) fail_errno("ibv_create_ah");
  return ah;
}

// The service level is the type of the IP header, as with mlx5, over each address of the port and
// with both interfaces.
void datagram_sl(const Device& dev) {
  constexpr std::uint32_t kBytes = 8;
  const CqPtr send_cq = create_cq(dev, 8);
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 8;
  attr.wc_flags = IBV_WC_STANDARD_FLAGS;
  ibv_cq_ex* cq_ex = ibv_create_cq_ex(dev.context(), &attr);
  if (cq_ex == nullptr) fail_errno("ibv_create_cq_ex");
  const CqPtr recv_cq(ibv_cq_ex_to_cq(cq_ex));
  const QpPtr qp =
      create_qp(dev, {.type = IBV_QPT_UD, .send_cq = send_cq.get(), .recv_cq = recv_cq.get()});
  connect_to_itself(qp.get(), dev);
  const Memory memory(dev.pd(), 4096, IBV_ACCESS_LOCAL_WRITE);
  bool seen[2]{};
  for (const ibv_gid_entry& gid : roce_v2_gids(dev)) {
    const bool ipv4 = IN6_IS_ADDR_V4MAPPED(reinterpret_cast<const in6_addr*>(gid.gid.raw));
    const AhPtr ah = create_ah(dev, gid);
    for (const bool extended : {false, true}) {
      require_err(post_recv(qp.get(), 0, memory.sge(0, kGrh + kBytes)), 0, "ibv_post_recv");
      const Send send{.sges = {memory.sge(2048, kBytes)},
                      .ah = ah.get(),
                      .remote_qpn = qp->qp_num,
                      .remote_qkey = kQkey};
      require_err(post(qp.get(), Api::kPost, send), 0, "post");
      require_status(poll(send_cq.get(), 1).front(), 0, IBV_WC_SUCCESS);
      const std::uint8_t sl = extended ? read_sl(cq_ex) : poll(recv_cq.get(), 1).front().sl;
      const int version = std::to_integer<int>(memory.bytes()[ipv4 ? 20 : 0] >> 4);
      require(version == (ipv4 ? 4 : 6), "GID {}: an IP header of version {}", gid.gid_index,
              version);
      require(sl == (ipv4 ? 0xa : 0x9), "GID {}: service level {:#x}", gid.gid_index, sl);
    }
    seen[ipv4 ? 0 : 1] = true;
  }
  require(seen[0] && seen[1], "no GID of {}", seen[0] ? "IPv6" : "IPv4");
}

// ---- what is not promised ----

void data_in_order(const Device& dev) {
  const Rig rig(dev);
  for (const ibv_wr_opcode op :
       {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
        IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP}) {
    for (const std::uint32_t flags : {0U, std::uint32_t{IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS}}) {
      const int answer = ibv_query_qp_data_in_order(rig.qp(), op, flags);
      require(answer == 0, "{} of operation {}", answer, static_cast<int>(op));
    }
  }
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  return run_program(argc, argv,
                     {.group = "cqfeatures", .run = [](const CommandLine& line) {
                        const Device dev(line.device, line.gid_index);
                        run_tests(tests_of(dev, {{"clock_attributes", clock_attributes},
                                                 {"clock_rate", clock_rate},
                                                 {"clock_shared", clock_shared},
                                                 {"wallclock", wallclock},
                                                 {"wallclock_follows_phc", wallclock_follows_phc},
                                                 {"datagram_sl", datagram_sl},
                                                 {"data_in_order", data_in_order}}));
                      }});
}
