// SPDX-License-Identifier: GPL-2.0-or-later
// cqfeatures: completion queue features besides polling, on QPs connected within this process.
//
//   cqfeatures [-d DEV] [-g GID_INDEX] [PATTERN...]
//
// Covers resizing under traffic, event moderation, ignored overruns, timestamps in device time and
// in the time of the PTP clock, the service level of datagrams, and ibv_query_qp_data_in_order().
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
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "pair.h"
#include "program.h"

namespace guest {
namespace {

constexpr int kSoon = 20000;  // ms; an expected event must arrive within this time
constexpr int kNever = 150;   // ms; no event may arrive within this time
constexpr std::uint32_t kDepth = EndSpec{}.send_wr;  // requests outstanding at most
constexpr std::uint64_t kNsPerUs = 1000;
constexpr std::uint64_t kNsPerMs = 1000000;
constexpr std::uint64_t kNsPerSecond = 1000000000;

std::uint64_t now_ns(clockid_t id) {
  timespec ts{};
  clock_gettime(id, &ts);
  return static_cast<std::uint64_t>(ts.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(ts.tv_nsec);
}

std::uint64_t raw_clock(ibv_context* context) {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  require_err(ibv_query_rt_values_ex(context, &values), 0, "ibv_query_rt_values_ex");
  require(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK, "no clock in the answer");
  return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
}

void sleep_ms(unsigned ms) { usleep(ms * 1000); }

struct CqSpec {
  std::uint32_t entries = kDepth;
  std::uint64_t wc_flags = 0;
  std::uint32_t flags = 0;
};

// A QP that writes to its twin, with a channel and a CQ of its own for its send completions.
class Rig {
 public:
  explicit Rig(const Device& dev, const CqSpec& spec = {}) : dev_(dev) {
    channel_.reset(ibv_create_comp_channel(dev.context()));
    ibv_cq_init_attr_ex attr{};
    attr.cqe = spec.entries;
    attr.channel = channel_.get();
    attr.wc_flags = spec.wc_flags;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = spec.flags;
    cq_ex_ = ibv_create_cq_ex(dev.context(), &attr);
    if (cq_ex_ == nullptr) fail_errno("ibv_create_cq_ex");
    cq_.reset(ibv_cq_ex_to_cq(cq_ex_));
    PairOptions options;
    options.local.send_cq = cq_.get();
    pair_.emplace(dev, options);
  }

  [[nodiscard]] const Device& dev() const { return dev_; }
  [[nodiscard]] ibv_cq* cq() const { return cq_.get(); }
  [[nodiscard]] ibv_cq_ex* cq_ex() const { return cq_ex_; }
  [[nodiscard]] ibv_qp* qp() const { return pair_->local.qp(); }
  [[nodiscard]] const Memory& memory() const { return pair_->local.memory(); }
  [[nodiscard]] const Memory& there() const { return pair_->remote.end().memory(); }

  // Writes the first 8 bytes of the memory. wr_id counts up from 0.
  void write(unsigned count = 1) {
    for (; count > 0; count--) pair_->post(pair_->request(IBV_WR_RDMA_WRITE, 8, 0, 0, posted_++));
  }
  // Checks that the completions are the next ones in order.
  void take(std::span<const ibv_wc> wcs) {
    for (const ibv_wc& wc : wcs) require_status(wc, taken_++, IBV_WC_SUCCESS);
  }
  void poll_all(unsigned count) { take(poll(cq_.get(), count)); }
  void arm(bool solicited = false) const {
    require_err(ibv_req_notify_cq(cq_.get(), solicited ? 1 : 0), 0, "ibv_req_notify_cq");
  }
  [[nodiscard]] bool event(int ms) const { return wait_event(channel_.get(), ms); }
  [[nodiscard]] int moderate(std::uint16_t count, std::uint16_t period) const {
    ibv_modify_cq_attr attr{};
    attr.attr_mask = IBV_CQ_ATTR_MODERATE;
    attr.moderate = {.cq_count = count, .cq_period = period};
    return ibv_modify_cq(cq_.get(), &attr);
  }
  [[nodiscard]] std::uint64_t posted() const { return posted_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }

 private:
  const Device& dev_;
  ChannelPtr channel_;
  ibv_cq_ex* cq_ex_ = nullptr;
  CqPtr cq_;
  std::optional<Pair> pair_;
  std::uint64_t posted_ = 0;
  std::uint64_t taken_ = 0;
};

// ---- resizing ----

// Waits until all completions are in the CQ: the data of the last write has arrived, so all earlier
// writes are done.
void settle(Rig& rig) {
  rig.memory().store64(0, 0x7e57 + rig.posted());
  rig.write();
  const std::uint64_t mark = rig.memory().load64(0);
  for (int ms = 0; rig.there().load64(0) != mark; ms++) {
    require(ms < kSoon, "a write has not arrived");
    sleep_ms(1);
  }
  // The last completion follows its data by a moment; the caller's poll shows that it came.
  sleep_ms(50);
}

void resize_keeps_what_waits(const Device& dev) {
  Rig rig(dev, {.entries = 16});
  for (const int entries : {64, 16, 4096, 20, 100, 17}) {
    rig.write(9);
    settle(rig);
    rig.poll_all(3);
    require_err(ibv_resize_cq(rig.cq(), entries), 0, "ibv_resize_cq");
    require(rig.cq()->cqe >= entries, "{} entries after a resize to {}", rig.cq()->cqe, entries);
    rig.write(4);
    rig.poll_all(11);
  }
}

void resize_refused(const Device& dev) {
  Rig rig(dev, {.entries = 16});
  const int cqe = rig.cq()->cqe;
  rig.write(10);
  settle(rig);
  for (const int bad : {0, -1, dev.attr().max_cqe + 1, 2, 8}) {
    require_err(ibv_resize_cq(rig.cq(), bad), EINVAL, "ibv_resize_cq out of range");
  }
  require(rig.cq()->cqe == cqe, "a resize that is refused has changed the size");
  rig.poll_all(11);
  require_err(ibv_resize_cq(rig.cq(), 2), 0, "ibv_resize_cq of an empty CQ");
  rig.write(2);
  rig.poll_all(2);
  require_err(ibv_resize_cq(rig.cq(), dev.attr().max_cqe), 0, "ibv_resize_cq to max_cqe");
  require(rig.cq()->cqe >= dev.attr().max_cqe, "not max_cqe entries");
  rig.write(50);
  rig.poll_all(50);
}

// A pending arm survives a resize.
void resize_keeps_the_arm(const Device& dev) {
  Rig rig(dev, {.entries = 16});
  for (const int entries : {100, 10, 1000}) {
    rig.arm();
    require_err(ibv_resize_cq(rig.cq(), entries), 0, "ibv_resize_cq");
    require(!rig.event(kNever), "event of a resize");
    rig.write();
    require(rig.event(kSoon), "the arm is lost");
    rig.poll_all(1);
  }
}

// Polls while another thread resizes the CQ, and waits for an event before every second poll: each
// completion comes once and in order, and no wake-up is lost.
void resize_under_traffic(const Device& dev) {
  constexpr std::uint64_t kRequests = 20000;
  constexpr unsigned kResizes = 50;
  Rig rig(dev, {.entries = kDepth});
  std::atomic<bool> done = false;
  std::atomic<unsigned> resizes = 0;
  std::exception_ptr broken;
  std::thread resizer([&] {
    try {
      constexpr int kSizes[] = {64, 300, 65, 4096, 128, 1000, 64, 2048};
      for (; !done; resizes++) {
        require_err(ibv_resize_cq(rig.cq(), kSizes[resizes % 8]), 0, "ibv_resize_cq under traffic");
      }
    } catch (...) {
      broken = std::current_exception();
      done = true;
    }
  });
  std::string why;
  unsigned events = 0;
  try {
    for (unsigned round = 0; !done && (rig.posted() < kRequests || resizes < kResizes); round++) {
      const bool sleeps = round % 2 == 0;
      const unsigned burst = 1 + round % kDepth;
      if (sleeps) rig.arm();
      rig.write(burst);
      if (sleeps) {
        require(rig.event(kSoon), "no event for completion {}", rig.taken());
        events++;
      }
      rig.poll_all(burst);
    }
  } catch (const std::exception& e) {
    why = e.what();
  }
  done = true;
  resizer.join();
  if (broken) std::rethrow_exception(broken);
  require(why.empty(), "after {} resizes: {}", resizes.load(), why);
  note("{} resizes, {} events, {} completions", resizes.load(), events, rig.taken());
}

// ---- moderation ----

void moderation_limits(const Device& dev) {
  ibv_device_attr_ex attr{};
  require_err(ibv_query_device_ex(dev.context(), nullptr, &attr), 0, "ibv_query_device_ex");
  require(attr.cq_mod_caps.max_cq_count == 65535 && attr.cq_mod_caps.max_cq_period == 65535,
          "caps say {} and {}", attr.cq_mod_caps.max_cq_count, attr.cq_mod_caps.max_cq_period);
  Rig rig(dev);
  require_err(rig.moderate(2, 0), EINVAL, "count without period");
  require_err(rig.moderate(65535, 65535), 0, "the largest values");
  require_err(rig.moderate(1, 0), 0, "one");
  require_err(rig.moderate(0, 0), 0, "none");
  ibv_modify_cq_attr none{};
  require_err(ibv_modify_cq(rig.cq(), &none), EINVAL, "no attribute");
  none.attr_mask = 1U << 1;
  require_err(ibv_modify_cq(rig.cq(), &none), EINVAL, "an unknown attribute");
}

// Unmoderated, each arm gives one event. Moderated, an event comes after `count` completions or
// after the period.
void moderation_counts(const Device& dev) {
  constexpr unsigned kCount = 16;
  constexpr unsigned kRounds = 40;
  constexpr std::uint16_t kPeriod = 65000;
  Rig rig(dev);
  for (const bool moderated : {false, true}) {
    require_err(moderated ? rig.moderate(kCount, kPeriod) : rig.moderate(0, 0), 0, "ibv_modify_cq");
    const std::uint64_t start = raw_clock(dev.context());
    const std::uint64_t first = rig.taken();
    unsigned events = 0;
    while (rig.taken() < first + std::uint64_t{kRounds} * kCount) {
      rig.arm();
      rig.write();
      if (!moderated || rig.posted() - rig.taken() == kCount) {
        require(rig.event(kSoon), "no event");
      } else if (!rig.event(0)) {
        continue;
      }
      events++;
      rig.poll_all(static_cast<unsigned>(rig.posted() - rig.taken()));
    }
    const std::uint64_t took = raw_clock(dev.context()) - start;
    const std::uint64_t most = kRounds + took / (kPeriod * kNsPerUs) + 1;
    note("{} completions, moderation {}: {} events in {} ms", kRounds * kCount,
         moderated ? "on" : "off", events, took / kNsPerMs);
    if (moderated) {
      require(events <= most, "{} events, not more than {} are due", events, most);
    } else {
      require(events == kRounds * kCount, "{} events", events);
    }
  }
}

// The period starts with the first completion: no event comes before it ends, one comes after.
void moderation_period(const Device& dev) {
  constexpr std::uint16_t kPeriod = 30000;
  Rig rig(dev, {.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP});
  for (const std::uint16_t count : {std::uint16_t{0}, std::uint16_t{60000}}) {
    require_err(rig.moderate(count, kPeriod), 0, "ibv_modify_cq");
    for (int round = 0; round < 5; round++) {
      rig.arm();
      rig.write(3);
      require(rig.event(kSoon), "no event after the period");
      const std::uint64_t at = raw_clock(dev.context());
      ibv_poll_cq_attr poll{};
      require_err(ibv_start_poll(rig.cq_ex(), &poll), 0, "ibv_start_poll");
      const std::uint64_t first = ibv_wc_read_completion_ts(rig.cq_ex());
      ibv_end_poll(rig.cq_ex());
      require(at - first >= kPeriod * kNsPerUs, "event after {} ns", at - first);
      for (int more = 0; more < 2; more++) {
        while (ibv_start_poll(rig.cq_ex(), &poll) != 0) sleep_ms(1);
        ibv_end_poll(rig.cq_ex());
      }
    }
  }
}

// Switching moderation off delivers a pending event at once.
void moderation_off(const Device& dev) {
  Rig rig(dev);
  for (int round = 0; round < 10; round++) {
    require_err(rig.moderate(1000, 65535), 0, "ibv_modify_cq");
    rig.arm();
    rig.write();
    require_err(rig.moderate(0, 0), 0, "ibv_modify_cq");
    require(rig.event(kSoon), "no event");
    rig.poll_all(1);
  }
}

// ---- overruns ----

void overrun_ignored(const Device& dev) {
  Rig rig(dev, {.entries = 4, .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN});
  for (int i = 0; i < 10; i++) {
    rig.write(4);
    rig.poll_all(4);
  }
  // Fills the send queue without polling: many more completions than the CQ holds, and no slot is
  // freed meanwhile.
  rig.write(kDepth - 1);
  settle(rig);
  require(!dev.wait_async(IBV_EVENT_CQ_ERR, kNever), "IBV_EVENT_CQ_ERR");
  require(state_of(rig.qp()) == IBV_QPS_RTS, "the QP has left RTS");
  require_err(ibv_resize_cq(rig.cq(), 100), EINVAL, "resize of a CQ that has overrun");
}

void overrun_flag_is_checked(const Device& dev) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = 4;
  attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  attr.flags = 1U << 5;
  ibv_cq_ex* const cq = ibv_create_cq_ex(dev.context(), &attr);
  require(cq == nullptr && errno == EOPNOTSUPP, "an unknown flag: {}",
          errno_name(cq == nullptr ? errno : 0));
}

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

// Each timestamp lies between the clock before the post and the clock after the poll, and
// timestamps never decrease.
void stamps(const Device& dev) {
  Rig rig(dev, {.wc_flags = kStamps});
  ibv_cq_ex* const cq = rig.cq_ex();
  std::uint64_t last = 0;
  for (int round = 0; round < 50; round++) {
    const std::uint64_t before = raw_clock(dev.context());
    rig.write(10);
    ibv_poll_cq_attr attr{};
    while (ibv_start_poll(cq, &attr) != 0) sleep_ms(1);
    for (int i = 0; i < 10; i++) {
      if (i > 0) {
        while (ibv_next_poll(cq) != 0) sleep_ms(1);
      }
      const std::uint64_t ts = ibv_wc_read_completion_ts(cq);
      const std::uint64_t after = raw_clock(dev.context());
      require(cq->status == IBV_WC_SUCCESS, "status {}", static_cast<int>(cq->status));
      require(ts >= before && ts <= after && ts >= last,
              "stamp {}, {} before and {} after, {} the one before", ts, before, after, last);
      last = ts;
    }
    ibv_end_poll(cq);
  }
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
  return run_program(
      argc, argv, {.group = "cqfeatures", .run = [](const CommandLine& line) {
                     const Device dev(line.device, line.gid_index);
                     run_tests(tests_of(dev, {{"resize_keeps_what_waits", resize_keeps_what_waits},
                                              {"resize_refused", resize_refused},
                                              {"resize_keeps_the_arm", resize_keeps_the_arm},
                                              {"resize_under_traffic", resize_under_traffic},
                                              {"moderation_limits", moderation_limits},
                                              {"moderation_counts", moderation_counts},
                                              {"moderation_period", moderation_period},
                                              {"moderation_off", moderation_off},
                                              {"overrun_ignored", overrun_ignored},
                                              {"overrun_flag_is_checked", overrun_flag_is_checked},
                                              {"clock_attributes", clock_attributes},
                                              {"clock_rate", clock_rate},
                                              {"clock_shared", clock_shared},
                                              {"stamps", stamps},
                                              {"wallclock", wallclock},
                                              {"wallclock_follows_phc", wallclock_follows_phc},
                                              {"datagram_sl", datagram_sl},
                                              {"data_in_order", data_in_order}}));
                   }});
}
