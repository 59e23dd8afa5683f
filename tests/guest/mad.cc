// SPDX-License-Identifier: GPL-2.0-or-later
// mad: performance management of the port (IBTA 16.1), by MADs through ib_umad and in sysfs.
//
//   mad [-d DEV] [-g GID_INDEX]
//
// The MADs have a GRH, to the GID of the device itself: RoCE has no LIDs, by which perfquery
// addresses a port.
//
// Test: mad
// Tier: quick, 300 s
// Also: testing
// Boot: pair
// Proves: The port answers MADs for PortCounters, PortCountersExtended and ClassPortInfo with the
//   counters that sysfs shows: they grow with what a QP sends. Clears and unknown attributes are
//   refused, with the status of their MAD.
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <rdma/ib_user_mad.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "pair.h"
#include "program.h"

namespace guest {
namespace {

constexpr std::uint8_t kPerformance = 0x04;
constexpr std::uint8_t kGet = 0x01, kSet = 0x02, kGetResp = 0x81;
constexpr std::uint16_t kClassPortInfo = 0x0001, kPortCounters = 0x0012, kExtended = 0x001d;
constexpr std::size_t kMad = 256;
// The GID is an IPv6 one: ib_core compares the GIDs of request and answer, and an IPv4 header has
// none.
constexpr std::uint8_t kGid = 0;
constexpr std::size_t kData = 64;  // where an attribute of the class begins
constexpr std::uint32_t kMessages = 100, kLength = 4000;

struct Mad {
  std::array<std::byte, kMad> bytes{};
  template <typename T>
  [[nodiscard]] T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
  }
  template <typename T>
  void put(std::size_t offset, T value) {
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
  }
  [[nodiscard]] std::uint16_t status() const { return ntohs(at<std::uint16_t>(4)); }
};

// An agent that asks the port of a device.
class Agent {
 public:
  explicit Agent(const Device& dev) : dev_(dev) {
    (void)!std::system("modprobe -q ib_umad");
    const std::string name = ibv_get_device_name(dev.context()->device);
    for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband_mad")) {
      std::string of;
      std::ifstream(entry.path() / "ibdev") >> of;
      if (of == name && entry.path().filename().string().starts_with("umad"))
        fd_ = ::open(("/dev/infiniband/" + entry.path().filename().string()).c_str(), O_RDWR);
    }
    require(fd_ >= 0, "umad of {}: {}", name, errno_name(errno));
    int err = ::ioctl(fd_, IB_USER_MAD_ENABLE_PKEY);
    require(err == 0, "ENABLE_PKEY: {}", errno_name(errno));
    ib_user_mad_reg_req reg{};
    reg.mgmt_class = kPerformance;
    reg.mgmt_class_version = 1;
    reg.qpn = 1;
    err = ::ioctl(fd_, IB_USER_MAD_REGISTER_AGENT, &reg);
    require(err == 0, "REGISTER_AGENT: {}", errno_name(errno));
    agent_ = reg.id;
  }
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;
  ~Agent() { ::close(fd_); }

  [[nodiscard]] Mad ask(std::uint8_t method, std::uint16_t attr, std::uint8_t port = 1) {
    Mad mad;
    mad.put<std::uint8_t>(0, 1);
    mad.put(1, kPerformance);
    mad.put<std::uint8_t>(2, 1);
    mad.put(3, method);
    mad.put(8, htobe64(++transaction_));
    mad.put(16, htons(attr));
    mad.put(kData + 1, port);
    std::array<std::byte, sizeof(ib_user_mad_hdr) + kMad> message{};
    ib_user_mad_hdr hdr{};
    hdr.id = agent_;
    hdr.timeout_ms = 5000;
    hdr.retries = 2;
    hdr.qpn = htonl(1);
    hdr.qkey = htonl(0x80010000);
    hdr.grh_present = 1;
    hdr.gid_index = kGid;
    hdr.hop_limit = 64;
    ibv_gid gid{};
    require(ibv_query_gid(dev_.context(), 1, kGid, &gid) == 0, "ibv_query_gid");
    std::memcpy(hdr.gid, gid.raw, sizeof(hdr.gid));
    std::memcpy(message.data(), &hdr, sizeof(hdr));
    std::memcpy(message.data() + sizeof(hdr), mad.bytes.data(), kMad);
    ssize_t moved = ::write(fd_, message.data(), message.size());
    require(moved == static_cast<ssize_t>(message.size()), "write: {}", errno_name(errno));
    moved = ::read(fd_, message.data(), message.size());
    require(moved == static_cast<ssize_t>(message.size()), "read: {}", errno_name(errno));
    std::memcpy(&hdr, message.data(), sizeof(hdr));
    require(hdr.status == 0, "no answer: {}", errno_name(static_cast<int>(hdr.status)));
    Mad answer;
    std::memcpy(answer.bytes.data(), message.data() + sizeof(hdr), kMad);
    // The kernel has the upper half of a transaction id.
    require(answer.at<std::uint8_t>(3) == kGetResp &&
                (be64toh(answer.at<std::uint64_t>(8)) & UINT32_MAX) == transaction_,
            "method {:#x}", answer.at<std::uint8_t>(3));
    return answer;
  }

 private:
  const Device& dev_;
  int fd_ = -1;
  std::uint32_t agent_ = 0;
  std::uint64_t transaction_ = 0;
};

std::uint64_t sysfs(const Device& dev, const char* counter) {
  std::uint64_t value = 0;
  const std::string path = std::string("/sys/class/infiniband/") +
                           ibv_get_device_name(dev.context()->device) + "/ports/1/counters/" +
                           counter;
  require(static_cast<bool>(std::ifstream(path) >> value), "{}", path);
  return value;
}

struct Counters {
  std::uint64_t xmit_data, rcv_data, xmit_packets, rcv_packets;
};
Counters extended(Agent& agent) {
  const Mad mad = agent.ask(kGet, kExtended);
  require(mad.status() == 0, "PortCountersExtended: status {:#x}", mad.status());
  const auto at = [&](std::size_t n) { return be64toh(mad.at<std::uint64_t>(kData + 8 + 8 * n)); };
  return {at(0), at(1), at(2), at(3)};
}

void counters(const Device& dev) {
  Agent agent(dev);
  const Pair rc(dev, alike({.memory = 1 << 16}));
  const Counters before = extended(agent);
  const std::uint64_t shown = sysfs(dev, "port_xmit_data");
  for (unsigned i = 0; i < kMessages; ++i) rc.run(rc.request(IBV_WR_RDMA_WRITE, kLength));
  const Counters after = extended(agent);
  const std::uint64_t words = std::uint64_t{kMessages} * kLength / 4;
  require(after.xmit_packets - before.xmit_packets >= kMessages &&
              after.rcv_packets - before.rcv_packets >= kMessages,
          "{} and {} packets", after.xmit_packets - before.xmit_packets,
          after.rcv_packets - before.rcv_packets);
  for (const std::uint64_t data :
       {after.xmit_data - before.xmit_data, after.rcv_data - before.rcv_data,
        sysfs(dev, "port_xmit_data") - shown})
    require(data >= words && data < 2 * words, "{} words for {}", data, words);
  const Mad basic = agent.ask(kGet, kPortCounters);
  require(basic.status() == 0, "PortCounters: status {:#x}", basic.status());
  const std::uint32_t packets = ntohl(basic.at<std::uint32_t>(kData + 32));
  require(packets >= after.xmit_packets && packets < after.xmit_packets + 100,
          "{} packets in PortCounters, {} in PortCountersExtended", packets, after.xmit_packets);
}

void refused(const Device& dev) {
  Agent agent(dev);
  const Mad info = agent.ask(kGet, kClassPortInfo);
  require(info.status() == 0 && (ntohs(info.at<std::uint16_t>(kData + 2)) & 0x400),
          "ClassPortInfo: status {:#x}", info.status());
  require(agent.ask(kGet, kPortCounters, 0xff).status() == 0, "all ports");
  require(agent.ask(kGet, kPortCounters, 2).status() == 0x1c, "another port");
  require(agent.ask(kGet, 0x0010).status() == 0x0c, "another attribute");
  require(agent.ask(kSet, kPortCounters).status() == 0x0c, "a clear");
}

}  // namespace
}  // namespace guest

int main(int argc, char** argv) {
  using namespace guest;
  return run_program(argc, argv,
                     {.group = "mad", .run = [](const CommandLine& line) {
                        const Device dev(line.device, line.gid_index);
                        run_tests(tests_of(dev, {{"counters", counters}, {"refused", refused}}));
                      }});
}
