// SPDX-License-Identifier: GPL-2.0-or-later
// Tests of XDP and AF_XDP on an interface. Each command runs until SIGTERM, or until it is done:
//   xdp drop DEV                        drops all frames; prints their number, and frames per
//   second
//                                       from the first one to the last one
//   xdp reflect DEV                     XDP_TX: sends test frames back
//   xdp redirect DEV TO                 XDP_REDIRECT to another interface
//   xdp cpu DEV                         XDP_REDIRECT to another processor, which passes the frames
//                                       to the stack
//   xdp echo DEV [OPTION...]            AF_XDP: sends test frames back
//   xdp ping DEV MAC COUNT [OPTION...]  AF_XDP: sends COUNT test frames to MAC, and checks every
//                                       byte of the answers; 0: until SIGTERM
//   xdp flood DEV MAC SECONDS           AF_XDP: sends test frames of 60 bytes to MAC as fast as it
//                                       can
// OPTIONs: copy, frags (up to 9000 bytes), no-wakeup (the driver does not ask for wake-ups), lossy
// (lost frames are no error).
#include <arpa/inet.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "bpf.h"
#include "socket.h"

namespace {

using Clock = std::chrono::steady_clock;
using Frame = std::vector<std::byte>;
using Mac = std::array<unsigned char, 6>;

constexpr std::size_t kHeader = 14;
constexpr std::size_t kSmall = 60;
constexpr std::uint32_t kWindow = 64;
constexpr std::uint32_t kWindowWithFragments = 16;

volatile sig_atomic_t stop = 0;

unsigned index_of(const char* name) {
  const unsigned index = if_nametoindex(name);
  if (index == 0) xdp::die(name);
  return index;
}

Mac mac_of(const char* name) {
  const int fd = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  std::snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
  if (ioctl(fd, SIOCGIFHWADDR, &request) != 0) xdp::die("SIOCGIFHWADDR");
  close(fd);
  Mac mac;
  std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
  return mac;
}

Mac parse(const char* text) {
  Mac mac;
  if (std::sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3],
                  &mac[4], &mac[5]) != 6)
    xdp::die(text);
  return mac;
}

struct Settings {
  xdp::Options socket;
  bool lossy = false;

  static Settings parse(int argc, char** argv, int first) {
    Settings s;
    for (int i = first; i < argc; i++) {
      const std::string_view option = argv[i];
      if (option == "copy")
        s.socket.zero_copy = false;
      else if (option == "frags")
        s.socket.fragments = true;
      else if (option == "no-wakeup")
        s.socket.need_wakeup = false;
      else if (option == "lossy")
        s.lossy = true;
      else
        xdp::die("unknown option " + std::string(option));
    }
    return s;
  }
  std::size_t longest() const { return socket.fragments ? 9000 : 1514; }
  std::uint32_t window() const { return socket.fragments ? kWindowWithFragments : kWindow; }
};

// Attaches the program that gives test frames of the first queue to a socket.
struct Channel {
  Channel(const char* dev, const Settings& s)
      : map(xdp::create_map(BPF_MAP_TYPE_XSKMAP, 4, 16)),
        program(xdp::attach(xdp::redirect_map(map, true), index_of(dev), s.socket.fragments)),
        socket(index_of(dev), 0, s.socket) {
    const int fd = socket.fd();
    xdp::update(map, 0, &fd);
    if (socket.zero_copy() != s.socket.zero_copy) xdp::die("not the wanted mode");
  }
  xdp::Fd map;
  xdp::Attached program;
  xdp::Socket socket;
};

void ready() {
  std::puts("ready");
  std::fflush(stdout);
}

std::byte content(std::uint32_t sequence, std::size_t i) {
  return static_cast<std::byte>(sequence * 7 + i * 13 + (i >> 8));
}

// A frame's length and bytes follow from its number, which it carries.
Frame make(const Mac& to, const Mac& from, std::uint32_t sequence, std::size_t longest) {
  Frame f(kSmall + sequence * std::size_t{397} % (longest - kSmall + 1));
  for (std::size_t i = 0; i < f.size(); i++) f[i] = content(sequence, i);
  std::memcpy(f.data(), to.data(), to.size());
  std::memcpy(f.data() + 6, from.data(), from.size());
  const std::uint16_t type = htons(xdp::kTestType);
  std::memcpy(f.data() + 12, &type, sizeof(type));
  std::memcpy(f.data() + kHeader, &sequence, sizeof(sequence));
  return f;
}

std::uint32_t number_of(const Frame& f) {
  std::uint32_t sequence = 0;
  if (f.size() >= kHeader + sizeof(sequence))
    std::memcpy(&sequence, f.data() + kHeader, sizeof(sequence));
  return sequence;
}

int ping(const char* dev, const char* peer, std::uint32_t count, const Settings& s) {
  Channel ch(dev, s);
  const Mac to = parse(peer), from = mac_of(dev);
  std::uint32_t sent = 0, next = 0;
  std::uint64_t good = 0;
  Frame f;
  auto progress = Clock::now(), told = progress;
  ready();
  while (stop == 0 && (count == 0 || next < count)) {
    while (sent - next < s.window() && (count == 0 || sent < count) &&
           ch.socket.send(make(to, from, sent, s.longest())))
      sent++;
    ch.socket.wait(20);
    while (ch.socket.receive(f)) {
      const std::uint32_t number = number_of(f);
      if (f != make(from, to, number, s.longest())) {
        std::fprintf(stderr, "xdp: frame %u has wrong bytes\n", number);
        return 1;
      }
      // A frame that comes late belongs to an earlier window.
      if (s.lossy && number - next >= s.window()) continue;
      if (number != next && !s.lossy) {
        std::fprintf(stderr, "xdp: frame %u instead of %u\n", number, next);
        return 1;
      }
      next = number + 1;
      good++;
      progress = Clock::now();
      if (progress - told > std::chrono::milliseconds(200)) {
        std::puts("moves");
        std::fflush(stdout);
        told = progress;
      }
    }
    const auto idle = Clock::now() - progress;
    if (s.lossy && idle > std::chrono::milliseconds(500)) {
      next = sent;
      progress = Clock::now();
    } else if (!s.lossy && idle > std::chrono::seconds(30)) {
      std::fprintf(stderr, "xdp: %u frames sent, %u received, then none in 30 seconds\n", sent,
                   next);
      return 1;
    }
  }
  std::printf("%llu frames, all bytes right\n", static_cast<unsigned long long>(good));
  return good != 0 ? 0 : 1;
}

int echo(const char* dev, const Settings& s) {
  Channel ch(dev, s);
  Frame f;
  ready();
  while (stop == 0) {
    while (ch.socket.receive(f)) {
      std::swap_ranges(f.begin(), f.begin() + 6, f.begin() + 6);
      while (!ch.socket.send(f) && stop == 0) ch.socket.wait(1);
    }
    ch.socket.wait(20);
  }
  return 0;
}

int flood(const char* dev, const char* peer, double seconds) {
  Settings s;
  s.socket.fragments = true;
  Channel ch(dev, s);
  const Frame f = make(parse(peer), mac_of(dev), 0, kSmall);
  std::uint64_t sent = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (stop == 0 && Clock::now() < end) {
    for (std::uint32_t i = 0; i < kWindow && ch.socket.send(f); i++) sent++;
    ch.socket.kick();
  }
  std::printf("{\"frames\": %llu}\n", static_cast<unsigned long long>(sent));
  return sent != 0 ? 0 : 1;
}

int wait_for_signal() {
  ready();
  while (stop == 0) pause();
  return 0;
}

int drop(const char* dev) {
  const xdp::Fd counters = xdp::create_map(BPF_MAP_TYPE_PERCPU_ARRAY, 8, 1);
  const xdp::Attached program = xdp::attach(xdp::count_and_drop(counters), index_of(dev), true);
  ready();
  // From the first frame on.
  while (stop == 0 && xdp::sum(counters, 0) == 0) usleep(1000);
  const auto start = Clock::now();
  const std::uint64_t before = xdp::sum(counters, 0);
  std::uint64_t dropped = 0;
  auto last = start + std::chrono::milliseconds(1);
  while (stop == 0) {
    usleep(10000);
    const std::uint64_t now = xdp::sum(counters, 0) - before;
    if (now != dropped) last = Clock::now();
    dropped = now;
  }
  const double seconds = std::chrono::duration<double>(last - start).count();
  std::printf("{\"frames\": %llu, \"per_second\": %.0f}\n",
              static_cast<unsigned long long>(dropped), static_cast<double>(dropped) / seconds);
  return dropped != 0 ? 0 : 1;
}

int redirect_to_cpu(const char* dev) {
  const xdp::Fd map = xdp::create_map(BPF_MAP_TYPE_CPUMAP, 4, 1);
  const std::uint32_t size = 512;
  // The map has one entry, for processor 0.
  xdp::update(map, 0, &size);
  const xdp::Attached program = xdp::attach(xdp::redirect_map(map, false), index_of(dev), false);
  return wait_for_signal();
}

int run(int argc, char** argv) {
  const std::string_view command = argv[1];
  const char* const dev = argv[2];
  if (command == "drop") return drop(dev);
  if (command == "echo") return echo(dev, Settings::parse(argc, argv, 3));
  if (command == "cpu") return redirect_to_cpu(dev);
  if (command == "reflect") {
    const xdp::Attached program = xdp::attach(xdp::reflect(), index_of(dev), true);
    return wait_for_signal();
  }
  if (command == "redirect" && argc >= 4) {
    const xdp::Attached program =
        xdp::attach(xdp::redirect(index_of(argv[3])), index_of(dev), false);
    return wait_for_signal();
  }
  if (command == "ping" && argc >= 5)
    return ping(dev, argv[3], static_cast<std::uint32_t>(std::strtoul(argv[4], nullptr, 10)),
                Settings::parse(argc, argv, 5));
  if (command == "flood" && argc >= 5) return flood(dev, argv[3], std::strtod(argv[4], nullptr));
  std::fprintf(stderr, "xdp: unknown command\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: see main.cc\n");
    return 2;
  }
  struct sigaction action{};
  action.sa_handler = [](int) { stop = 1; };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  return run(argc, argv);
}
