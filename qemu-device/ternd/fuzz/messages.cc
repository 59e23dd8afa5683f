// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzes what a hypervisor can send: vfio-user messages of any kind, with descriptors, and accesses
// to BARs and config space. Behind the function is a real engine, which works on the memory that the
// messages map.
//
// An input is a list of messages: a byte that chooses the command, a byte for length and
// descriptors, and the body. All of them are sent before the function reads the first one, so that
// it never waits.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "clock.h"
#include "device_memory.h"
#include "function.h"
#include "tern_engine.h"
#include "unix_socket.h"

namespace tern::daemon {
namespace {

constexpr std::uint64_t kUar = 128 * 1024;
constexpr std::uint64_t kFileSize = 256 * 1024;
constexpr std::size_t kMessages = 24;

// A function with an engine, without a runner: the engine runs after each message.
class World final : public FunctionOwner {
 public:
  World() : dm_(64 * 1024) {
    GuestMemory::handle_sigbus();
    memory_.adopt();
    TernConfig c{};
    c.dm_size = dm_.size();
    c.dm_storage = dm_.data();
    c.uar_bar_size = kUar;
    c.max_qp = c.max_cq = c.max_mr = c.max_mw = 64;
    c.num_vectors = 4;
    c.max_mtu = 1500;
    c.link_speed = 1000;
    c.mac[0] = 2;
    engine_ = tern_engine_new(&c, &kOps, this);
    path_ = "/tmp/ternd-fuzz-" + std::to_string(getpid()) + ".sock";
    ConfigSpace::Options o;
    o.uar_size = kUar;
    o.dm_size = dm_.size();
    o.vectors = c.num_vectors;
    o.link_speed = 3;
    function_ = std::make_unique<Function>(path_, o, DmFile{dm_.fd(), dm_.data()}, *this);
  }

  void play(std::span<const std::uint8_t> input) {
    const Descriptor client = connect_to(path_);
    send_version(client.get());
    for (std::size_t i = 0; i < kMessages && input.size() >= 2; ++i) input = send_message(client.get(), input);
    shutdown(client.get(), SHUT_WR);
    for (int i = 0; i < 1000 && (i == 0 || function_->attached()); ++i) {
      function_->serve(1);
      run();
    }
    if (function_->attached()) std::abort();
  }

 private:
  static constexpr std::array<std::uint16_t, 12> kCommands{2, 2, 3, 4, 5, 7, 8, 9, 10, 10, 13, 14};

  static void send_version(int fd) {
    constexpr char kText[] = "{\"capabilities\":{\"max_msg_fds\":8}}";
    std::vector<std::uint8_t> m(16 + 4 + sizeof(kText));
    m[2] = 1;
    m[4] = static_cast<std::uint8_t>(m.size());
    m[18] = 1;
    std::memcpy(m.data() + 20, kText, sizeof(kText));
    [[maybe_unused]] const ssize_t n = send(fd, m.data(), m.size(), MSG_NOSIGNAL);
  }

  // Descriptors of every kind: short and long memory, an eventfd, a pipe.
  static std::vector<Descriptor> descriptors(unsigned n) {
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

  static std::span<const std::uint8_t> send_message(int fd, std::span<const std::uint8_t> input) {
    const std::uint16_t command = input[0] >= 0xf0 ? input[0] : kCommands[input[0] % kCommands.size()];
    const unsigned nfds = input[1] >> 5;
    // The lengths that the commands have, or any.
    const bool odd = (input[1] & 0x10) != 0;
    input = input.subspan(2);
    std::size_t len = command == 2 ? 32 : command == 3 ? 24 : command == 9 ? 16 : command == 10 ? 20 : command == 13 ? 0 : 32;
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
    if (!odd && (command == 2 || command == 3 || command == 5 || command == 7 || command == 8) && len >= 4) {
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
    for (const Descriptor& d : fds) numbers.push_back(d.get());
    (void)tern::daemon::send_message(fd, std::as_bytes(std::span(m)), numbers);
    return input.subspan(len);
  }

  void run() {
    for (int i = 0; i < 4 && tern_engine_run(engine_, 65536); ++i) {
    }
    if (TernEffects* const fx = tern_engine_take_effects(engine_)) {
      for (unsigned v = 0; v < 4; ++v) {
        if ((tern_engine_effects_vectors(fx)[0] >> v & 1) != 0) function_->raise(v);
      }
      tern_engine_effects_free(engine_, fx);
    }
  }

  // FunctionOwner
  std::uint32_t read_register(std::uint64_t offset) override { return tern_engine_reg_read(engine_, static_cast<std::uint32_t>(offset)); }
  void write_register(std::uint64_t offset, std::uint32_t value) override {
    tern_engine_reg_write(engine_, static_cast<std::uint32_t>(offset), value);
  }
  std::uint32_t read_doorbell(std::uint64_t offset) override { return tern_engine_uar_read(engine_, offset); }
  void ring_doorbell(std::uint64_t offset, std::uint32_t value) override { tern_engine_doorbell(engine_, offset, value); }
  void memory_added(const GuestMemory::Region& region) override {
    memory_.add(region);
    memory_.tell(engine_);
  }
  void memory_removed(const GuestMemory::Region& region) override {
    memory_.remove(region.addr);
    memory_.tell(engine_);
    tern_engine_dma_invalidate(engine_, region.addr, region.len);
  }
  void reset() override {
    memory_.allow(false);
    memory_.tell(engine_);
    tern_engine_reset(engine_);
  }
  void power_changed(bool bus_master, bool) override {
    memory_.allow(bus_master);
    memory_.tell(engine_);
    if (!bus_master) tern_engine_dma_invalidate(engine_, 0, UINT64_MAX);
  }
  void attached() override { tern_engine_set_link(engine_, true); }
  void detached() override {
    if (memory_.regions() != 0) std::abort();
    dm_.renew();
    function_->set_dm({dm_.fd(), dm_.data()});
  }
  void log(int, const char*) override {}
  static void* map(void* opaque, std::uint64_t addr, std::uint64_t* len, bool is_write) {
    const auto span = static_cast<World*>(opaque)->memory_.find(addr, *len, is_write);
    *len = span.size();
    return span.data();
  }
  static void unmap(void*, void*, std::uint64_t, bool, std::uint64_t) {}
  static std::uint64_t now(void*) { return clock_ns(); }
  static std::uint64_t random(void*) { return 0x9e3779b97f4a7c15; }
  static constexpr TernHostOps kOps = {map, unmap, now, random, nullptr, nullptr};

  DeviceMemory dm_;
  GuestMemory memory_;
  TernEngine* engine_ = nullptr;
  std::string path_;
  std::unique_ptr<Function> function_;
};

// Descriptors that are open in this process, without the pipes of the fuzzer's symbolizer.
unsigned open_descriptors() {
  unsigned n = 0;
  for (int fd = 0; fd < 256; ++fd) {
    struct stat status {};
    n += fstat(fd, &status) == 0 && !S_ISFIFO(status.st_mode) ? 1U : 0U;
  }
  return n;
}

}  // namespace
}  // namespace tern::daemon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tern::daemon::World world;
  static unsigned runs = 0;
  static unsigned before = 0;
  world.play({data, size});
  // A hypervisor that is gone leaves nothing behind. The fuzzer itself opens files at its start.
  if (++runs == 1000) before = tern::daemon::open_descriptors();
  if (runs > 1000 && runs % 64 == 0 && tern::daemon::open_descriptors() > before) {
    std::fputs("descriptors are left open:\n", stderr);
    std::system("ls -l /proc/$PPID/fd >&2");
    std::abort();
  }
  return 0;
}
