// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzes what a hypervisor can send: vfio-user messages of any kind, with descriptors. Behind the
// function is a real engine, which works on the memory that the messages map.
//
// An input is a list of messages: a byte that chooses the command, a byte for length and
// descriptors, and the body. All of them are sent before the function reads the first one, so that
// it never waits.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/protocol.h"
#include "unix_socket.h"
#include "world.h"

namespace tern::daemon {
namespace {

constexpr std::uint64_t kFileSize = std::uint64_t{256} * 1024;
constexpr std::size_t kMessages = 24;
constexpr std::array<std::uint16_t, 12> kCommands{2, 2, 3, 4, 5, 7, 8, 9, 10, 10, 13, 14};

// Descriptors of every kind: short and long memory, an eventfd, a pipe.
std::vector<Descriptor> descriptors(unsigned n) {
  std::vector<Descriptor> fds;
  for (unsigned i = 0; i < n; ++i) {
    switch (i % 4) {
      case 0: {
        fds.emplace_back(memfd_create("fuzz", MFD_CLOEXEC));
        [[maybe_unused]] const int r = ftruncate(fds.back().get(), kFileSize);
        break;
      }
      case 1:
        fds.emplace_back(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
        break;
      case 2:
        fds.emplace_back(memfd_create("empty", MFD_CLOEXEC));
        break;
      default:
        fds.emplace_back(open("/dev/null", O_RDWR | O_CLOEXEC));
        break;
    }
  }
  return fds;
}

std::span<const std::uint8_t> send_message(int fd, std::span<const std::uint8_t> input) {
  const std::uint16_t command =
      input[0] >= 0xf0 ? input[0] : kCommands[input[0] % kCommands.size()];
  const unsigned nfds = input[1] >> 5;
  // The lengths that the commands have, or any.
  const bool odd = (input[1] & 0x10) != 0;
  input = input.subspan(2);
  std::size_t len = command == 2    ? 32
                    : command == 3  ? 24
                    : command == 9  ? 16
                    : command == 10 ? 20
                    : command == 13 ? 0
                                    : 32;
  if (odd && !input.empty()) {
    len = input[0];
    input = input.subspan(1);
  }
  len = std::min(len, input.size());
  std::vector<std::uint8_t> m(16 + len);
  std::memcpy(m.data() + 2, &command, sizeof(command));
  const auto size = static_cast<std::uint32_t>(m.size());
  std::memcpy(m.data() + 4, &size, sizeof(size));
  std::memcpy(m.data() + 16, input.data(), len);
  // A valid argsz, most of the time, so that the rest is looked at.
  if (!odd && (command == 2 || command == 3 || command == 5 || command == 7 || command == 8) &&
      len >= 4) {
    const std::uint32_t argsz = command == 5 ? 256 : static_cast<std::uint32_t>(len);
    std::memcpy(m.data() + 16, &argsz, sizeof(argsz));
  }
  // Small addresses and sizes: the memory is small.
  if (!odd && command == 2 && len == 32) {
    for (const std::size_t at : {8U, 16U, 24U}) std::memset(m.data() + 16 + at + 3, 0, 5);
  }
  if (!odd && (command == 9 || command == 10) && len >= 16) {
    std::memset(m.data() + 16 + 3, 0, 5);
    const std::uint32_t count = command == 9 ? 4 : static_cast<std::uint32_t>(len - 16);
    std::memcpy(m.data() + 16 + 12, &count, sizeof(count));
    m[16 + 8] %= 10;
    std::memset(m.data() + 16 + 9, 0, 3);
  }
  const auto fds = descriptors(nfds);
  std::vector<int> numbers;
  numbers.reserve(fds.size());
  for (const Descriptor& d : fds) numbers.push_back(d.get());
  (void)tern::daemon::send_message(fd, std::as_bytes(std::span(m)), numbers);
  return input.subspan(len);
}

void play(World& world, std::span<const std::uint8_t> input) {
  const Descriptor client = connect_to(world.path());
  const auto version = protocol::version("{\"capabilities\":{\"max_msg_fds\":8}}");
  (void)tern::daemon::send_message(client.get(), protocol::message(0, protocol::kVersion, version),
                                   {});
  for (std::size_t i = 0; i < kMessages && input.size() >= 2; ++i)
    input = send_message(client.get(), input);
  shutdown(client.get(), SHUT_WR);
  world.end();
}

}  // namespace
}  // namespace tern::daemon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tern::daemon::World world;
  tern::daemon::play(world, {data, size});
  tern::daemon::check_descriptors();
  return 0;
}
