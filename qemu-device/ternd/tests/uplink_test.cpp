// SPDX-License-Identifier: GPL-2.0-or-later
// Uplinks at interfaces of the host, in network namespaces of the test's own: those of two hosts,
// and that of the uplinks between them.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "daemon.h"
#include "fixture.h"
#include "frames/bytes.h"
#include "frames/layout.h"
#include "uplink.h"

namespace tern::daemon {
namespace {

using test::Qp;
using test::wait_until;
using testing::HasSubstr;
using testing::Not;

// A network namespace. The test's thread is in one at a time, and the threads it starts are in the
// same.
class Namespace {
 public:
  // Makes one, with this thread in it.
  Namespace() {
    if (unshare(CLONE_NEWNET) == 0) fd_ = current();
  }
  // The one that this thread is in.
  static Descriptor current() {
    return Descriptor(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  [[nodiscard]] std::string path() const {
    return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_.get());
  }
  // Runs `what` in it.
  template <typename F>
  auto in(F what) const {
    const Descriptor before = current();
    setns(fd_.get(), CLONE_NEWNET);
    struct Back {
      int fd;
      ~Back() { setns(fd, CLONE_NEWNET); }
    } const back{before.get()};
    return what();
  }

 private:
  Descriptor fd_;
};

void sh(const std::string& command) {
  ASSERT_EQ(std::system(("set -e; " + command).c_str()), 0) << command;
}

// Packets that an interface of this namespace has sent.
std::uint64_t sent_packets(const std::string& name) {
  std::ifstream file("/proc/thread-self/net/dev");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word != name + ":") continue;
    std::uint64_t value = 0;
    for (int i = 0; i < 10; ++i) words >> value;
    return value;
  }
  ADD_FAILURE() << "no interface " << name;
  return 0;
}

struct Addr {
  explicit Addr(const std::string& text, std::uint16_t port) {
    if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
      v4.sin_family = AF_INET;
      v4.sin_port = htons(port);
      size = sizeof(v4);
    } else {
      v6.sin6_family = AF_INET6;
      EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr), 1) << text;
      v6.sin6_port = htons(port);
      size = sizeof(v6);
    }
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&v6); }
  union {
    sockaddr_in6 v6{};
    sockaddr_in v4;
  };
  socklen_t size;
};

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> data(size);
  std::uint32_t x = 1;
  for (std::byte& b : data) b = static_cast<std::byte>((x = x * 1664525 + 1013904223) >> 24);
  return data;
}

constexpr timeval kPatience{60, 0};

// Sends data by TCP from a host to an address of another, and compares it.
void transfer(const Namespace& from, const Namespace& to, const std::string& address,
              std::size_t size) {
  const Addr addr(address, 7000);
  const Descriptor listener =
      to.in([&] { return checked(socket(addr.get()->sa_family, SOCK_STREAM, 0), "socket"); });
  const int on = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ASSERT_EQ(bind(listener.get(), addr.get(), addr.size), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const Descriptor client =
      from.in([&] { return checked(socket(addr.get()->sa_family, SOCK_STREAM, 0), "socket"); });
  for (const int fd : {listener.get(), client.get()}) {
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof(kPatience));
  }
  ASSERT_EQ(connect(client.get(), addr.get(), addr.size), 0)
      << std::generic_category().message(errno);
  const Descriptor server = checked(accept(listener.get(), nullptr, nullptr), "accept");
  setsockopt(server.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  const auto data = pattern(size);
  std::thread sender([&] {
    for (std::size_t at = 0; at < size;) {
      const ssize_t n = send(client.get(), data.data() + at, size - at, MSG_NOSIGNAL);
      if (n <= 0) break;
      at += static_cast<std::size_t>(n);
    }
    shutdown(client.get(), SHUT_WR);
  });
  std::vector<std::byte> got(size + 1);
  std::size_t at = 0;
  for (ssize_t n = 1; n > 0 && at < got.size();) {
    n = recv(server.get(), got.data() + at, got.size() - at, 0);
    if (n > 0) at += static_cast<std::size_t>(n);
  }
  sender.join();
  got.resize(at);
  EXPECT_TRUE(got == data) << at << " of " << size << " bytes";
}

// Sends a packet with its virtio-net header from an interface of this namespace, which leaves it as
// it is.
void send_raw(const char* name, std::span<const std::byte> packet) {
  const Descriptor raw = checked(socket(AF_PACKET, SOCK_RAW, 0), "socket");
  const int on = 1;
  ASSERT_EQ(setsockopt(raw.get(), SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)), 0);
  sockaddr_ll addr{};
  addr.sll_family = AF_PACKET;
  addr.sll_protocol = htons(ETH_P_ALL);
  addr.sll_ifindex = static_cast<int>(if_nametoindex(name));
  const std::uint64_t before = sent_packets(name);
  ASSERT_EQ(sendto(raw.get(), packet.data(), packet.size(), 0,
                   reinterpret_cast<const sockaddr*>(&addr), sizeof(addr)),
            static_cast<ssize_t>(packet.size()))
      << std::generic_category().message(errno);
  EXPECT_LT(sent_packets(name) - before, 4U) << "its host has cut it";
}

// Host 1 has interface `one`, host 2 has `two`, with addresses 10.5.0.N and fd05::N. Their peers,
// or what they are connected to, are the uplinks' side.
struct UplinkTest : testing::Test {
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, or root of a user namespace";
    host1 = std::make_unique<Namespace>();
    host2 = std::make_unique<Namespace>();
    middle = std::make_unique<Namespace>();
    if (!*host1 || !*host2 || !*middle) GTEST_SKIP() << "needs network namespaces";
  }
  ~UplinkTest() override {
    for (Uplink& uplink : uplinks) uplink.stop();
    uplinks.clear();
    if (home) setns(home.get(), CLONE_NEWNET);
  }
  // A veth into each host: `one` there and `up1` here, `two` there and `up2` here.
  void make_veths() {
    for (const auto& [name, up, host, n] :
         {std::tuple{"one", "up1", host1.get(), "1"}, std::tuple{"two", "up2", host2.get(), "2"}}) {
      const std::string here = up;
      const std::string there = name;
      const std::string number = n;
      sh("ip link add " + here + " type veth peer " + there + "; ip link set " + there + " netns " +
         host->path());
      sh("ip link set " + here + " up");
      host->in([&] {
        sh("ip addr add 10.5.0." + number + "/24 dev " + there + "; ip addr add fd05::" + number +
           "/64 dev " + there + " nodad");
        sh("ip link set " + there + " up");
      });
    }
  }
  // Ports are added before any thread sends.
  Uplink& add(const std::string& text) { return uplinks.emplace_back(text, fabric); }
  // Starts the uplinks, and waits until their links are up.
  void start() {
    for (Uplink& uplink : uplinks) uplink.start();
    for (Uplink& uplink : uplinks)
      EXPECT_TRUE(wait_until([&] { return uplink.port().link(); })) << uplink.port().name();
  }
  void expect_nothing_lost() {
    for (Uplink& uplink : uplinks) {
      EXPECT_EQ(uplink.unfinished(), 0U) << uplink.port().name();
      EXPECT_EQ(uplink.port().counters().in_discards, 0U) << uplink.port().name();
    }
  }

  Descriptor home = Namespace::current();
  std::unique_ptr<Namespace> host1;
  std::unique_ptr<Namespace> host2;
  std::unique_ptr<Namespace> middle;
  Switch fabric;
  std::deque<Uplink> uplinks;
};

constexpr std::size_t kMuch = std::size_t{8} << 20;
constexpr std::size_t kLittle = std::size_t{1} << 20;

TEST_F(UplinkTest, PacketSocketsSegmentTcp) {
  make_veths();
  Uplink& one = add("packet=up1");
  add("packet=up2");
  start();
  transfer(*host1, *host2, "10.5.0.2", kMuch);
  transfer(*host2, *host1, "10.5.0.1", kMuch);
  expect_nothing_lost();
  const std::uint64_t sent = host1->in([] { return sent_packets("one"); });
  EXPECT_LT(sent, one.port().counters().in_frames / 2) << "the host left packets to segment";
  transfer(*host1, *host2, "fd05::2", kMuch);
  transfer(*host2, *host1, "fd05::1", kMuch);
  expect_nothing_lost();
}

// A port of the switch that keeps what leaves through it.
struct Sink final : PortUser {
  explicit Sink(Switch& fabric) : port(fabric.add("sink", *this, EgressQueue::kFrameMax * 32)) {
    port.set_link(true);
  }
  void frames_wait() override {}
  void room() override {}
  // All frames from now on, once there are `n` of them, or after 5 s.
  std::vector<std::vector<std::byte>> take(std::size_t n) {
    std::vector<std::vector<std::byte>> frames;
    wait_until([&] {
      for (auto f = port.front(1, nullptr); !f.empty(); f = port.front(1, nullptr)) {
        // The hosts send frames of their own.
        if (f.bytes[0] == std::byte{2}) frames.emplace_back(f.bytes.begin(), f.bytes.end());
        port.pop();
      }
      return frames.size() >= n;
    });
    return frames;
  }
  Port& port;
};

// A packet over IPv4 that is left to segment, with its virtio-net header. TCP is in VLAN 5, UDP is
// RoCE's.
constexpr std::size_t kVnet = 10;
struct Long {
  bool tcp;
  std::uint16_t segment;
  std::size_t payload;
  [[nodiscard]] std::size_t ip() const { return tcp ? 18 : 14; }
  [[nodiscard]] std::size_t headers() const { return ip() + 20 + (tcp ? 20 : 8); }
  [[nodiscard]] std::vector<std::byte> make() const {
    std::vector<std::byte> packet(kVnet + headers() + payload);
    const std::array<std::uint16_t, 5> vnet{
        static_cast<std::uint16_t>(tcp ? 0x0101 : 0x0501), static_cast<std::uint16_t>(headers()),
        segment, static_cast<std::uint16_t>(ip() + 20), static_cast<std::uint16_t>(tcp ? 16 : 6)};
    std::memcpy(packet.data(), vnet.data(), sizeof(vnet));
    const std::span<std::byte> frame = std::span(packet).subspan(kVnet);
    frame[0] = frame[6] = std::byte{2};
    frame[11] = std::byte{1};
    if (tcp) {
      frames::put16(frame, 12, frames::kVlanType);
      frames::put16(frame, 14, 5);
    }
    frames::put16(frame, ip() - 2, 0x0800);
    const std::span<std::byte> header = frame.subspan(ip());
    frames::put16(header, 0, 0x4500);
    frames::put16(header, 2, static_cast<std::uint16_t>(header.size()));
    frames::put16(header, 8, static_cast<std::uint16_t>(64 << 8 | (tcp ? 6 : 17)));
    frames::put16(header, 12, 0x0a05);
    frames::put16(header, 14, 1);
    frames::put16(header, 16, 0x0a05);
    frames::put16(header, 18, 9);
    frames::put16(header, 22, 4791);
    if (tcp) {
      frames::put16(header, 32, 0x5018);
    } else {
      frames::put16(header, 24, static_cast<std::uint16_t>(header.size() - 20));
    }
    std::ranges::copy(pattern(payload), frame.begin() + static_cast<std::ptrdiff_t>(headers()));
    return packet;
  }
};

// A packet in a VLAN, which needs no VLAN device: the kernel takes the tag out of it.
TEST_F(UplinkTest, APacketInAVlanIsSegmented) {
  make_veths();
  Sink sink(fabric);
  add("packet=up1");
  start();
  const Long tcp{true, 1000, 5000};
  host1->in([&] { send_raw("one", tcp.make()); });
  const auto frames = sink.take(5);
  const auto data = pattern(tcp.payload);
  ASSERT_EQ(frames.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(frames[i].size(), tcp.headers() + 1000) << i;
    EXPECT_EQ(frames::get16(frames[i], 12), frames::kVlanType);
    EXPECT_EQ(frames::get16(frames[i], 14), 5);
    EXPECT_EQ(frames::get16(frames[i], tcp.ip() + 20 + 6), i * 1000) << "sequence number";
    EXPECT_TRUE(std::ranges::equal(std::span(frames[i]).subspan(tcp.headers()),
                                   std::span(data).subspan(i * 1000, 1000)))
        << i;
  }
  expect_nothing_lost();
}

// More segments of one packet than the thread takes at a time are lost; the others arrive without
// another packet.
TEST_F(UplinkTest, RulesThatTakeAWholeBurst) {
  make_veths();
  Sink sink(fabric);
  Uplink& one = add("packet=up1");
  start();
  host1->in([] { sh("echo 1 >/proc/sys/net/ipv6/conf/one/disable_ipv6"); });
  const Long udp{false, 64, std::size_t{64} * 100};
  // News of the link may wake the thread once.
  for (unsigned round = 0; round < 3; ++round) {
    std::string error;
    ASSERT_TRUE(one.call([&] { error = one.set_faults("drop rx nth=1 count=70"); }));
    ASSERT_EQ(error, "");
    host1->in([&] { send_raw("one", udp.make()); });
    EXPECT_EQ(sink.take(30).size(), 30U) << round;
  }
}

// A port that takes its frames slowly, or not at all, does not keep the others' from them, even if
// these send meanwhile.
TEST_F(UplinkTest, ASlowPortDoesNotStopTheOthers) {
  make_veths();
  Sink slow(fabric);
  Sink other(fabric);
  PortPolicy policy;
  policy.queue = 0;  // the least
  slow.port.set_policy(policy);
  Uplink& one = add("packet=up1");
  start();
  host1->in([] { sh("echo 1 >/proc/sys/net/ipv6/conf/one/disable_ipv6"); });
  const auto announce = [](Sink& sink, std::uint8_t station) {
    std::vector<std::byte> frame(64);
    frame[0] = frame[6] = std::byte{2};
    frame[5] = std::byte{1};
    frame[11] = std::byte{station};
    EXPECT_EQ(sink.port.send({frame}, 1), Port::Sent::kTaken);
    sink.port.wake_receivers();
  };
  const std::vector<std::byte> much = Long{false, 1000, 60000}.make();
  std::vector<std::byte> little = Long{false, 1000, 1000}.make();
  little[kVnet + 5] = std::byte{9};
  for (const unsigned ms : {0U, 400U}) {
    announce(slow, 0);
    announce(other, 9);
    host1->in([&] {
      for (unsigned i = 0; i < 3; ++i) send_raw("one", much);
      send_raw("one", little);
    });
    auto last = std::chrono::steady_clock::now();
    bool arrived = false;
    for (unsigned i = 0; i < 100 && !arrived; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      announce(other, 9);
      for (auto f = other.port.front(1, nullptr); !f.empty(); f = other.port.front(1, nullptr)) {
        arrived |= f.bytes[5] == std::byte{9};
        other.port.pop();
      }
      const auto now = std::chrono::steady_clock::now();
      if (ms == 0 || now - last < std::chrono::milliseconds(ms)) continue;
      last = now;
      slow.port.pop();
      slow.port.release();
    }
    EXPECT_TRUE(arrived) << ms;
    EXPECT_GT(slow.port.counters().out_discards, 0U);
    slow.take(1);
    slow.port.release();
  }
  expect_nothing_lost();
  EXPECT_EQ(one.overruns(), 0U);
}

// What has no virtio-net header, or one that cannot be served, is counted.
TEST_F(UplinkTest, UnknownPacketsAreCounted) {
  make_veths();
  Uplink& one = add("packet=up1");
  start();
  // SCTP leaves its checksum to the interface: it is a CRC.
  std::vector<std::byte> packet(10 + 14 + 20 + 12);
  const std::array<std::uint16_t, 5> vnet{1, 0, 0, 34, 8};
  std::memcpy(packet.data(), vnet.data(), sizeof(vnet));
  const std::span<std::byte> frame = std::span(packet).subspan(10);
  frames::put16(frame, 12, 0x0800);
  frames::put16(frame, 14, 0x4500);
  frames::put16(frame, 16, 32);
  frames::put16(frame, 22, 64 << 8 | 132);
  host1->in([&] { send_raw("one", packet); });
  EXPECT_TRUE(wait_until([&] { return one.unfinished() == 1; }));
}

TEST_F(UplinkTest, PacketSocketsWithoutOffloads) {
  make_veths();
  host1->in([] { sh("ethtool -K one tx off tso off gso off gro off"); });
  add("packet=up1");
  add("packet=up2");
  start();
  transfer(*host1, *host2, "10.5.0.2", kLittle);
  transfer(*host2, *host1, "fd05::1", kLittle);
  expect_nothing_lost();
}

TEST_F(UplinkTest, PacketSocketsSegmentUdp) {
  make_veths();
  add("packet=up1");
  add("packet=up2");
  start();
  for (const char* const address : {"10.5.0.2", "fd05::2"}) {
    const Addr addr(address, 7001);
    const Descriptor server =
        host2->in([&] { return checked(socket(addr.get()->sa_family, SOCK_DGRAM, 0), "socket"); });
    const Descriptor client =
        host1->in([&] { return checked(socket(addr.get()->sa_family, SOCK_DGRAM, 0), "socket"); });
    setsockopt(server.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
    ASSERT_EQ(bind(server.get(), addr.get(), addr.size), 0);
    ASSERT_EQ(connect(client.get(), addr.get(), addr.size), 0);
    const int segment = 999;
    ASSERT_EQ(setsockopt(client.get(), SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)), 0);
    const auto data = pattern(9000);
    const std::uint64_t before = host1->in([] { return sent_packets("one"); });
    ASSERT_EQ(send(client.get(), data.data(), data.size(), 0), 9000)
        << std::generic_category().message(errno);
    std::vector<std::byte> got;
    while (got.size() < data.size()) {
      std::array<std::byte, 2000> datagram;
      const ssize_t n = recv(server.get(), datagram.data(), datagram.size(), 0);
      ASSERT_EQ(n, static_cast<ssize_t>(std::min<std::size_t>(999, data.size() - got.size())));
      got.insert(got.end(), datagram.begin(), datagram.begin() + n);
    }
    EXPECT_TRUE(got == data) << address;
    EXPECT_LT(host1->in([] { return sent_packets("one"); }) - before, 10U)
        << "the host left it to segment";
  }
  expect_nothing_lost();
}

// Host 2 is behind a tap, in a bridge.
struct TapUplinkTest : UplinkTest {
  void make_bridge() {
    make_veths();
    sh("ip link add br0 type bridge; ip link set tap0 master br0; ip link set up2 master br0; ip "
       "link set tap0 up; ip link set br0 up");
  }
};

TEST_F(TapUplinkTest, ATapTakesTcp) {
  add("tap=tap0");
  make_bridge();
  add("packet=up1");
  start();
  transfer(*host1, *host2, "10.5.0.2", kMuch);
  transfer(*host2, *host1, "10.5.0.1", kMuch);
  transfer(*host2, *host1, "fd05::1", kMuch);
  expect_nothing_lost();
}

// A tap that another program has left, which took packets of 64 KiB.
TEST_F(TapUplinkTest, ATapForgetsTheOffloadsOfItsLastUser) {
  {
    const Descriptor last = checked(open("/dev/net/tun", O_RDWR | O_CLOEXEC), "/dev/net/tun");
    ifreq request{};
    std::string("tap0").copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
    ASSERT_EQ(ioctl(last.get(), TUNSETIFF, &request), 0);
    ASSERT_EQ(ioctl(last.get(), TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6), 0);
    ASSERT_EQ(ioctl(last.get(), TUNSETPERSIST, 1), 0);
  }
  make_bridge();
  add("tap=tap0");
  add("packet=up1");
  start();
  transfer(*host2, *host1, "10.5.0.1", kMuch);
  expect_nothing_lost();
}

// Whether a thread of this process has this name, and the time that it has run, in ns.
std::uint64_t run_time(const std::string& name) {
  std::uint64_t total = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string is;
    std::getline(std::ifstream(task.path() / "comm"), is);
    std::uint64_t time = 0;
    if (is == name && std::ifstream(task.path() / "schedstat") >> time) total += time;
  }
  return total;
}

TEST_F(TapUplinkTest, TheLinkFollowsTheInterface) {
  Uplink& tap = add("tap=tap0");
  make_bridge();
  Uplink& packet = add("packet=up1");
  start();
  transfer(*host1, *host2, "10.5.0.2", kLittle);
  // up1 loses its carrier, then is down itself.
  host1->in([] { sh("ip link set one down"); });
  EXPECT_TRUE(wait_until([&] { return !packet.port().link(); }));
  sh("ip link set up1 down; ip link set tap0 down");
  EXPECT_TRUE(wait_until([&] { return !tap.port().link(); }));
  sh("ip link set up1 up; ip link set tap0 up");
  host1->in([] { sh("ip link set one up; ip addr add fd05::1/64 dev one nodad"); });
  EXPECT_TRUE(wait_until([&] { return packet.port().link() && tap.port().link(); }));
  // A port that leaves its bridge is still there.
  sh("ip link set tap0 nomaster; ip link set tap0 master br0");
  transfer(*host1, *host2, "10.5.0.2", kLittle);
  transfer(*host2, *host1, "fd05::1", kLittle);
  EXPECT_TRUE(packet.port().link() && tap.port().link());
}

TEST_F(TapUplinkTest, AnInterfaceIsDeleted) {
  Uplink& tap = add("tap=tap0");
  make_bridge();
  Uplink& packet = add("packet=up1");
  start();
  transfer(*host1, *host2, "10.5.0.2", kLittle);
  sh("ip link del tap0; ip link del up1");
  EXPECT_TRUE(wait_until([&] { return !packet.port().link() && !tap.port().link(); }));
  // The threads wait: they neither end nor spin.
  EXPECT_TRUE(tap.call([] {}));
  EXPECT_TRUE(packet.call([] {}));
  const std::uint64_t before = run_time("uplink");
  EXPECT_NE(before, 0U);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_LT(run_time("uplink") - before, 100'000'000U) << "of 800 ms in two threads";
}

TEST_F(UplinkTest, AnInterfaceIsOpenedAgain) {
  make_veths();
  Uplink& one = add("packet=up1");
  add("packet=up2");
  start();
  transfer(*host1, *host2, "10.5.0.2", kLittle);
  const auto open = [] { return Uplink::open(Uplink::parse("packet=up1")); };
  for (unsigned round = 0; round < 2; ++round) {
    sh("ip link del up1");
    EXPECT_TRUE(wait_until([&] { return !one.port().link(); }));
    EXPECT_THROW((void)open(), std::system_error);
    sh("ip link add up1 type veth peer one; ip link set one netns " + host1->path() +
       "; ip link set up1 up");
    host1->in([] { sh("ip addr add 10.5.0.1/24 dev one; ip link set one up"); });
    Uplink::Files files = open();
    EXPECT_TRUE(one.call([&] { one.reopen(std::move(files)); }));
    EXPECT_TRUE(wait_until([&] { return one.port().link(); }));
    transfer(*host1, *host2, "10.5.0.2", kLittle);
    transfer(*host2, *host1, "10.5.0.1", kLittle);
  }
  // One that is still there, too.
  Uplink::Files files = open();
  EXPECT_TRUE(one.call([&] { one.reopen(std::move(files)); }));
  EXPECT_TRUE(wait_until([&] { return one.port().link(); }));
  transfer(*host2, *host1, "10.5.0.1", kLittle);
}

// The thread is kept busy while more arrives than its socket takes.
TEST_F(UplinkTest, OverrunsAreCounted) {
  make_veths();
  Uplink& one = add("packet=up1");
  start();
  EXPECT_EQ(one.overruns(), 0U);
  const Long tcp{true, 1000, 60000};
  const auto packet = tcp.make();
  unsigned sent = 0;
  ASSERT_TRUE(one.call([&] {
    for (; sent < 1000 && one.overruns() == 0; ++sent) host1->in([&] { send_raw("one", packet); });
  }));
  EXPECT_GT(one.overruns(), 0U);
  EXPECT_LT(one.overruns(), sent) << "the first ones are in the socket";
}

TEST_F(UplinkTest, APortHasItsNameAlone) {
  make_veths();
  Options options;
  options.adapters = {testing::TempDir() + "ternd-name.sock,name=up1"};
  options.uplinks = {"packet=up1,rate=1G"};
  EXPECT_THROW(Daemon daemon(options), std::invalid_argument);
  options.uplinks = {"packet=up2"};
  EXPECT_NO_THROW(Daemon daemon(options));
  options.uplinks = {"packet=up2", "packet=up2"};
  EXPECT_THROW(Daemon daemon(options), std::invalid_argument);
}

TEST_F(UplinkTest, AFrameThatIsTooLongIsCounted) {
  make_veths();
  Sink sink(fabric);
  Uplink& one = add("packet=up1");
  start();
  std::vector<std::byte> frame(1519, std::byte{0xff});
  frame[6] = std::byte{2};
  sink.port.send({frame}, 1);
  EXPECT_TRUE(wait_until([&] { return one.port().counters().out_discards == 1; }));
  frame.resize(1514);
  sink.port.send({frame}, 2);
  EXPECT_TRUE(wait_until([&] { return one.port().counters().out_frames == 1; }));
}

// Two daemons with an adapter each, joined by a veth.
struct TwoDaemonsTest : AdapterFixture {
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, or root of a user namespace";
    ns = std::make_unique<Namespace>();
    if (!*ns) GTEST_SKIP() << "needs network namespaces";
    sh("ip link add up1 mtu 9000 type veth peer up2 mtu 9000; ip link set up1 up; ip link set up2 "
       "up");
    make(1);
    second.emplace_back(parse_adapter(path(2) + ",mac=52:54:00:77:00:02"), other).start();
    uplinks.emplace_back("packet=up1", fabric).start();
    uplinks.emplace_back("packet=up2", other).start();
    for (Uplink& uplink : uplinks) ASSERT_TRUE(wait_until([&] { return uplink.port().link(); }));
  }
  ~TwoDaemonsTest() override {
    machines.clear();
    for (Uplink& uplink : uplinks) uplink.stop();
    EXPECT_TRUE(parts.stop());
    for (Adapter& adapter : second) EXPECT_TRUE(adapter.stop());
    uplinks.clear();
    setns(home.get(), CLONE_NEWNET);
  }

  Descriptor home = Namespace::current();
  std::unique_ptr<Namespace> ns;
  Switch other;
  std::deque<Adapter> second;
  std::deque<Uplink> uplinks;
};

TEST_F(TwoDaemonsTest, RdmaAndItsFaults) {
  auto [a, b, qa, qb] = ConnectedPair(attach(1), attach(2));
  exchange(qa, qb, 1);
  exchange(qb, qa, 2);
  // What the rules drop is sent again.
  Uplink& up = uplinks[0];
  const auto set = [&](const char* rules) {
    std::string error;
    EXPECT_TRUE(up.call([&] { error = up.set_faults(rules); }));
    return error;
  };
  const auto get = [&] {
    std::string text;
    EXPECT_TRUE(up.call([&] { text = up.faults(); }));
    return text;
  };
  EXPECT_EQ(get(), "");
  EXPECT_EQ(set("drop tx opcode=write-only nth=1; drop rx opcode=ack nth=2 count=1; duplicate tx "
                "opcode=write-last after=1ms; "
                "delay=100us rx opcode=ack; reorder=2 tx opcode=write-middle every=7"),
            "");
  exchange(qa, qb, 3);
  EXPECT_THAT(get(), HasSubstr("drop tx opcode=write-only nth=1  # matched"));
  EXPECT_THAT(get(), Not(HasSubstr("applied 0"))) << "each rule has acted";
  // What is none of an uplink is refused, and changes nothing.
  for (const char* const rules : {"fatal", "admin-drop", "dma-error", "fatal=2 rx opcode=ack",
                                  "explode", "drop opcode=ack"}) {
    EXPECT_NE(set(rules), "") << rules;
  }
  EXPECT_THAT(get(), HasSubstr("reorder"));
  EXPECT_EQ(set(""), "");
  EXPECT_EQ(get(), "");
  exchange(qb, qa, 4);
}

TEST_F(TwoDaemonsTest, AnUplinkIsCaptured) {
  auto [a, b, qa, qb] = ConnectedPair(attach(1), attach(2));
  const std::string file = dir + "/uplink.pcap";
  Uplink& up = uplinks[0];
  EXPECT_TRUE(up.call([&] { up.set_capture(std::make_unique<Capture>(create_file(file), 0)); }));
  exchange(qa, qb, 1);
  EXPECT_TRUE(up.call([&] { up.set_capture(nullptr); }));
  const auto size = std::filesystem::file_size(file);
  EXPECT_GT(size, Qp::kBytes) << "WRITEs on their way out";
  // ACKs on their way in: the source of a frame is behind the file's and the record's header.
  std::ifstream in(file, std::ios::binary);
  in.seekg(24);
  unsigned from2 = 0;
  for (std::array<std::uint32_t, 4> record{};
       in.read(reinterpret_cast<char*>(record.data()), sizeof(record));) {
    std::vector<char> frame(record[2]);
    in.read(frame.data(), record[2]);
    if (frame.at(11) == 2) ++from2;
  }
  EXPECT_GT(from2, 0U);
  exchange(qa, qb, 2);
  EXPECT_EQ(std::filesystem::file_size(file), size);
}

}  // namespace
}  // namespace tern::daemon
