// SPDX-License-Identifier: GPL-2.0-or-later
// ternd_attack ADAPTER CONTROL: a hypervisor that does each thing that it should not do to the
// daemon, through the socket of its adapter, and a control client that should not be one. The
// daemon must go on, and its other adapters must not be disturbed, which their users judge. Prints
// a result line for each attack: whether the daemon has defended itself, and the adapter works
// afterwards.
#include <fcntl.h>
#include <grp.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/client.h"
#include "tests/protocol.h"
#include "unix_socket.h"

namespace tern::daemon {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kSize = std::uint64_t{4} << 20;
constexpr timeval kWaitLimit{60, 0};

struct Attacker {
  std::string adapter;
  std::string control;
};

Descriptor memory(unsigned flags = 0) {
  Descriptor file = checked(memfd_create("attack", MFD_CLOEXEC | flags), "memfd");
  if (ftruncate(file.get(), static_cast<off_t>(kSize)) != 0) return Descriptor();
  return file;
}

bool works(const Attacker& me) {
  Client c(me.adapter);
  std::uint32_t magic = 0;
  return c.read(TERN_BAR_REGS, TERN_REG_MAGIC, &magic, sizeof(magic)) == 0 && magic == TERN_MAGIC;
}

bool map_without_rights(const Attacker& me) {
  for (const std::uint32_t flags : {0U, protocol::kWritable}) {
    Client c(me.adapter);
    const Descriptor file = memory();
    const int fd = file.get();
    const protocol::DmaMap map{.flags = flags, .offset = 0, .addr = 0, .size = kSize};
    (void)c.command(protocol::kDmaMap, protocol::bytes_of(map), std::span(&fd, 1));
    (void)c.use_queues(65536);
  }
  return true;
}

bool map_many_regions(const Attacker& me) {
  constexpr std::uint64_t kPage = 4096;
  constexpr unsigned kMany = 65536;
  Client c(me.adapter);
  const Descriptor file = memory();
  unsigned n = 0;
  while (n < kMany && c.map(2 * kPage * n, kPage, file.get(), 0) == 0) ++n;
  std::printf("# %u regions\n", n);
  return n < kMany / 2;
}

bool send_many_descriptors(const Attacker& me) {
  Client c(me.adapter);
  const Descriptor event = checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
  std::array<int, kMaxDescriptors> fds{};
  fds.fill(event.get());
  const std::vector<std::byte> body(64);
  for (unsigned i = 0; i < 5000; ++i) (void)c.command(protocol::kReset, body, fds);
  return true;
}

bool truncate_memory(const Attacker& me, unsigned flags) {
  const Descriptor file = memory(flags);
  if (!file) return true;  // no pool of huge pages
  Client c(me.adapter);
  if (c.map(0, kSize, file.get(), 0) != 0) return flags != 0;
  if (ftruncate(file.get(), 0) != 0) return false;
  (void)c.use_queues(65536);
  return c.ended();
}

bool say_nothing(const Attacker& me) {
  const Descriptor s = connect_to(me.adapter);
  setsockopt(s.get(), SOL_SOCKET, SO_RCVTIMEO, &kWaitLimit, sizeof(kWaitLimit));
  char c = 0;
  return recv(s.get(), &c, 1, 0) == 0;
}

bool say_half(const Attacker& me) {
  Client c(me.adapter);
  const auto whole = protocol::message(1, protocol::kReset, std::vector<std::byte>(16));
  c.send_raw(std::span(whole).first(20));
  return c.ended();
}

bool read_no_answers(const Attacker& me) {
  Client c(me.adapter);
  const auto request = protocol::message(1, protocol::kRead,
                                         protocol::bytes_of(protocol::Access{0, TERN_BAR_REGS, 4}));
  const timeval limit{1, 0};
  setsockopt(c.fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  for (unsigned i = 0; i < 100'000; ++i) {
    if (send(c.fd(), request.data(), request.size(), MSG_NOSIGNAL) < 0) break;
  }
  return true;
}

// A request to the control socket, with a file. Returns the answer; empty if there is none.
std::string ask(const std::string& control, const Json& request, int file = -1) {
  const Descriptor s = connect_to(control);
  setsockopt(s.get(), SOL_SOCKET, SO_RCVTIMEO, &kWaitLimit, sizeof(kWaitLimit));
  const std::string line = request.dump() + "\n";
  if (!send_message(s.get(), std::as_bytes(std::span(line)), std::span(&file, file >= 0 ? 1U : 0U)))
    return "";
  std::array<char, 65536> data{};
  const ssize_t got = recv(s.get(), data.data(), data.size(), 0);
  return got <= 0 ? "" : std::string(data.data(), static_cast<std::size_t>(got));
}

// As a process of a hypervisor's user and group would.
bool control_as_hypervisor(const Attacker& me) {
  struct stat socket{};
  if (stat(me.adapter.c_str(), &socket) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    const gid_t group = socket.st_gid != 0 ? socket.st_gid : kNobody;
    if (setgroups(0, nullptr) != 0 || setgid(group) != 0 || setuid(kNobody) != 0) _exit(2);
    try {
      _exit(ask(me.control, {{"command", "list"}}).empty() ? 0 : 1);
    } catch (const std::system_error&) {
      _exit(0);
    }
  }
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The client is allowed, but the pipe has no reader: the daemon must go on answering.
bool capture_to_pipe(const Attacker& me) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  const Descriptor reader(ends[0]);
  const Descriptor writer(ends[1]);
  const Json list = Json::parse(ask(me.control, {{"command", "list"}}));
  bool refused = true;
  for (const Json& adapter : list.at("result").at("adapters")) {
    const Json answer = Json::parse(
        ask(me.control, {{"command", "capture"}, {"port", adapter.at("name")}}, writer.get()));
    refused = answer.contains("error") && refused;
  }
  return refused;
}

bool truncate_pages(const Attacker& me) { return truncate_memory(me, 0); }
bool truncate_huge_pages(const Attacker& me) { return truncate_memory(me, MFD_HUGETLB); }

struct Attack {
  const char* name;
  bool (*run)(const Attacker&);
};
constexpr Attack kAttacks[] = {
    {"map-without-rights", map_without_rights},
    {"many-regions", map_many_regions},
    {"many-descriptors", send_many_descriptors},
    {"truncated-memory", truncate_pages},
    {"truncated-huge-pages", truncate_huge_pages},
    {"silence", say_nothing},
    {"half-a-message", say_half},
    {"unread-answers", read_no_answers},
    {"control-by-others", control_as_hypervisor},
    {"capture-to-a-pipe", capture_to_pipe},
};

int run(const Attacker& me) {
  int failed = 0;
  for (const Attack& attack : kAttacks) {
    std::string why;
    try {
      if (!attack.run(me)) why = "the daemon let it";
      if (why.empty() && !works(me)) why = "the adapter does not work afterwards";
    } catch (const std::exception& e) {
      why = e.what();
    }
    std::printf("%sok attack/%s%s%s\n", why.empty() ? "" : "not ", attack.name,
                why.empty() ? "" : " - ", why.c_str());
    std::fflush(stdout);
    if (!why.empty()) failed = 1;
  }
  return failed;
}

}  // namespace
}  // namespace tern::daemon

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: ternd_attack ADAPTER CONTROL\n", stderr);
    return 2;
  }
  return tern::daemon::run({argv[1], argv[2]});
}
