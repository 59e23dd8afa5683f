// SPDX-License-Identifier: GPL-2.0-or-later
// Fuzzes what a guest can do: accesses of any size to BAR0, BAR2, BAR4 and config space of an
// adapter that a driver has brought up, with queues in memory that the guest overwrites, and memory
// that the hypervisor takes away, shortens or makes read-only. Each message is a correct one.
//
// An input is a byte of options and a list of steps: a byte that chooses one of kSteps, and the
// step's own bytes. Missing bytes are 0. After the last step a reset must make the adapter usable
// again, if the options say so.
#include <linux/pci_regs.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fuzz/input.h"
#include "testing/admin_queue.h"
#include "testing/machine.h"
#include "tests/client.h"
#include "tests/protocol.h"
#include "unix_socket.h"
#include "world.h"

namespace tern::daemon {
namespace {

constexpr std::size_t kMaxSteps = 24;
constexpr std::uint32_t kConfig = Client::kConfig;
// Guest memory comes in pieces, which can go one by one.
constexpr unsigned kPieces = 4;
constexpr std::uint64_t kPiece = std::uint64_t{1} << 20;
constexpr std::uint64_t kMemory = kPieces * kPiece;

#define REQUIRE(condition)                                                 \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                        \
    }                                                                      \
  } while (false)

using fuzz::Input;

// A vfio-user client in the thread of its function.
class Hypervisor final : public Client {
 public:
  explicit Hypervisor(World& world) : Client(connect_to(world.path())), world_(world) {
    REQUIRE(negotiate() == 0);
  }

  int command(std::uint16_t number, std::span<const std::byte> body, std::span<const int> fds,
              std::vector<std::byte>* answer, std::vector<Descriptor>* /*files*/) override {
    if (gone_) return ECONNRESET;
    const bool sent = send_message(fd(), protocol::message(++id_, number, body), fds);
    if (sent) world_.serve();
    protocol::Header reply{};
    const ssize_t n = sent ? recv(fd(), &reply, sizeof(reply), MSG_DONTWAIT) : 0;
    if (n == 0) {
      REQUIRE(cheats_);
      gone_ = true;
      return ECONNRESET;
    }
    REQUIRE(n == sizeof(reply) && reply.id == id_ &&
            (reply.flags & protocol::kTypeMask) == protocol::kReply && reply.size >= sizeof(reply));
    std::vector<std::byte> data(reply.size - sizeof(reply));
    REQUIRE(data.empty() || recv(fd(), data.data(), data.size(), MSG_DONTWAIT) ==
                                static_cast<ssize_t>(data.size()));
    if (answer != nullptr) *answer = std::move(data);
    return (reply.flags & protocol::kError) != 0 ? static_cast<int>(reply.error) : 0;
  }
  int read(std::uint32_t region, std::uint64_t offset, std::span<std::byte> to) {
    return Client::read(region, offset, to.data(), static_cast<std::uint32_t>(to.size()));
  }
  int write(std::uint32_t region, std::uint64_t offset, std::span<const std::byte> from) {
    return Client::write(region, offset, from.data(), static_cast<std::uint32_t>(from.size()));
  }
  // From now on the function may end the connection: memory is shorter than it should be.
  void cheat() { cheats_ = true; }
  [[nodiscard]] bool gone() const { return gone_; }

 private:
  World& world_;
  std::uint16_t id_ = 0;
  bool cheats_ = false;
  bool gone_ = false;
};

class Machine final : public test::MachineDriver {
 public:
  explicit Machine(World& world)
      : MachineDriver(1),
        world_(world),
        hypervisor_(world),
        file_(checked(memfd_create("guest", MFD_CLOEXEC), "memory")) {
    REQUIRE(ftruncate(file_.get(), kMemory) == 0);
    void* const p = mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    REQUIRE(p != MAP_FAILED);
    memory_ = static_cast<std::byte*>(p);
    plug();
  }
  ~Machine() override { munmap(memory_, kMemory); }

  // Driver
  std::span<std::byte> memory() override { return {memory_, kMemory}; }
  std::uint32_t reg_read(std::uint32_t offset) override {
    std::uint32_t value = 0;
    hypervisor_.read(TERN_BAR_REGS, offset, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }
  void reg_write(std::uint32_t offset, std::uint32_t value) override {
    if (offset == TERN_REG_AQ_TAIL) tail_ = value;
    hypervisor_.write(TERN_BAR_REGS, offset, std::as_bytes(std::span(&value, 1)));
  }
  void ring(std::uint32_t uar, std::uint32_t value) override {
    hypervisor_.write(TERN_BAR_UAR, (std::uint64_t{uar} << 12) + TERN_UAR_DB,
                      std::as_bytes(std::span(&value, 1)));
  }
  void let_run() override { world_.run(); }

  // A driver with two connected QPs.
  void start() {
    bring_up();
    for (auto& qp : qps_) qp = std::make_unique<test::Qp>(*this);
    qps_[0]->connect(*qps_[1]);
    qps_[1]->connect(*qps_[0]);
  }

  void step(Input& in) { (this->*kSteps[in.u8() % kSteps.size()])(in); }
  [[nodiscard]] bool gone() const { return hypervisor_.gone(); }

  void check_config();
  // Whatever has happened, a reset makes a new adapter.
  void recover();

 private:
  using Step = void (Machine::*)(Input&);

  void plug();
  void expect_answer(int error, std::uint32_t region, std::uint64_t offset,
                     std::size_t count) const;

  void write_register(Input& in);
  void read_register(Input& in);
  void write_doorbell(Input& in);
  void read_doorbell(Input& in);
  void write_anywhere(Input& in);
  void read_anywhere(Input& in);
  void write_config(Input& in);
  void overwrite_memory(Input& in);
  void post(Input& in);
  void post_changed(Input& in);
  void admin(Input& in);
  void unmap(Input& in);
  void map(Input& in);
  void shorten_memory(Input& in);
  void reset(Input& in);
  void pass_time(Input& in);
  void change_link(Input& in);
  void remove(Input& in);

  // The numbers are the format of inputs: add new ones at the end.
  static constexpr std::array<Step, 18> kSteps = {&Machine::write_register,
                                                  &Machine::read_register,
                                                  &Machine::write_doorbell,
                                                  &Machine::read_doorbell,
                                                  &Machine::write_anywhere,
                                                  &Machine::read_anywhere,
                                                  &Machine::write_config,
                                                  &Machine::overwrite_memory,
                                                  &Machine::post,
                                                  &Machine::post_changed,
                                                  &Machine::admin,
                                                  &Machine::unmap,
                                                  &Machine::map,
                                                  &Machine::shorten_memory,
                                                  &Machine::reset,
                                                  &Machine::pass_time,
                                                  &Machine::change_link,
                                                  &Machine::remove};

  World& world_;
  Hypervisor hypervisor_;
  Descriptor file_;
  std::byte* memory_ = nullptr;
  std::array<std::unique_ptr<test::Qp>, 2> qps_;
  std::uint32_t tail_ = 0;
  bool removed_ = false;
};

void Machine::plug() {
  for (unsigned i = 0; i < kPieces; ++i)
    REQUIRE(hypervisor_.map(i * kPiece, kPiece, file_.get(), i * kPiece) == 0);
  const std::uint16_t command = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
  REQUIRE(hypervisor_.write(kConfig, PCI_COMMAND, std::as_bytes(std::span(&command, 1))) == 0);
}

std::uint64_t size_of(std::uint32_t region) {
  switch (region) {
    case TERN_BAR_REGS:
      return TERN_BAR_REGS_SIZE;
    case TERN_BAR_UAR:
      return World::kUar;
    case TERN_BAR_DM:
      return World::kDm;
    case kConfig:
      return 4096;
    default:
      return 0;
  }
}

// An access within a region succeeds, any other is refused.
void Machine::expect_answer(int error, std::uint32_t region, std::uint64_t offset,
                            std::size_t count) const {
  if (gone() || count == 0) return;
  const std::uint64_t size = size_of(region);
  REQUIRE((error == 0) == (offset < size && count <= size - offset));
}

void Machine::write_register(Input& in) { reg_write(in.u8() * 4U, in.take<std::uint32_t>()); }

void Machine::read_register(Input& in) { (void)reg_read(in.u8() * 4U); }

void Machine::write_doorbell(Input& in) {
  const std::uint8_t where = in.u8();
  std::uint32_t value = in.take<std::uint32_t>();
  // A queue that exists, most of the time.
  if ((where & 0x80) == 0 && qps_[0])
    value = field_prep(TERN_DB_CMD_MASK, value >> 28) | qps_[value & 1]->number();
  const std::uint64_t offset =
      (where & 0x40) == 0 ? TERN_UAR_DB : std::uint64_t{where & 0x3fU} * 2048;
  hypervisor_.write(TERN_BAR_UAR, offset, std::as_bytes(std::span(&value, 1)));
}

void Machine::read_doorbell(Input& in) {
  std::uint32_t value = 0;
  hypervisor_.read(TERN_BAR_UAR, std::uint64_t{in.take<std::uint16_t>()} * 4,
                   std::as_writable_bytes(std::span(&value, 1)));
}

struct Place {
  explicit Place(Input& in) {
    constexpr std::array<std::uint32_t, 8> kRegions{
        TERN_BAR_REGS, TERN_BAR_UAR, TERN_BAR_DM, kConfig, TERN_BAR_REGS, TERN_BAR_DM, 1, 8};
    const std::uint8_t choice = in.u8();
    region = kRegions[choice % 8];
    count = (choice & 0x40) != 0 ? in.take<std::uint16_t>() % 4096U : 1U << (choice >> 3) % 4;
    offset = in.take<std::uint32_t>();
    // Within the region, or near its end.
    if (const std::uint64_t size = size_of(region); (choice & 0x80) == 0 && size != 0)
      offset %= size + 16;
  }
  std::uint32_t region;
  std::uint32_t count;
  std::uint64_t offset;
};

void Machine::write_anywhere(Input& in) {
  const Place at(in);
  const auto pattern = std::bit_cast<std::array<std::byte, 4>>(in.take<std::uint32_t>());
  std::vector<std::byte> data(at.count);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = pattern[i % 4];
  expect_answer(hypervisor_.write(at.region, at.offset, data), at.region, at.offset, at.count);
  if (gone() || at.region != TERN_BAR_DM || at.count == 0 || at.offset >= World::kDm ||
      at.count > World::kDm - at.offset)
    return;
  // Nothing but a reset stores to device memory here.
  std::vector<std::byte> now(at.count);
  REQUIRE(hypervisor_.read(at.region, at.offset, now) == 0 && now == data);
}

void Machine::read_anywhere(Input& in) {
  const Place at(in);
  std::vector<std::byte> data(at.count);
  const int error = hypervisor_.read(at.region, at.offset, data);
  expect_answer(error, at.region, at.offset, at.count);
  if (error != 0 || (at.count == 4 && at.offset % 4 == 0)) return;
  const bool word_only = at.region == TERN_BAR_UAR ||
                         (at.region == TERN_BAR_REGS && at.offset < TERN_MSIX_TABLE_OFFSET);
  if (word_only)
    REQUIRE(std::ranges::all_of(data, [](std::byte x) { return x == std::byte{0xff}; }));
}

void Machine::write_config(Input& in) {
  // Command, power management, device control, MSI-X, BARs; or anywhere.
  constexpr std::array<std::uint64_t, 8> kPlaces{
      PCI_COMMAND,        0x40 + PCI_PM_CTRL, 0x48 + PCI_EXP_DEVCTL, 0x84 + PCI_MSIX_FLAGS,
      PCI_BASE_ADDRESS_0, PCI_BASE_ADDRESS_2, PCI_COMMAND,           0};
  const std::uint8_t choice = in.u8();
  const std::uint64_t offset =
      choice % 8 == 7 ? in.take<std::uint16_t>() % 4096U : kPlaces[choice % 8];
  const auto value = std::bit_cast<std::array<std::byte, 4>>(in.take<std::uint32_t>());
  const std::size_t count = std::size_t{1} << (choice >> 3) % 3;
  expect_answer(hypervisor_.write(kConfig, offset, std::span(value).first(count)), kConfig, offset,
                count);
}

// The driver's queues are in the first pages, those of the second QP behind the buffer of the
// first.
void Machine::overwrite_memory(Input& in) {
  const std::uint8_t where = in.u8();
  const std::uint64_t page = where % 32 < 16 ? where % 16 : 260 + where % 16;
  const std::uint64_t offset = page * 4096 + in.take<std::uint16_t>() % 4096U;
  const auto value = std::bit_cast<std::array<std::byte, 8>>(in.take<std::uint64_t>());
  std::ranges::copy(std::span(value).first(1 + where / 32), memory().subspan(offset).begin());
}

void Machine::post(Input& in) {
  if (!qps_[0]) return;
  const std::uint8_t choice = in.u8();
  test::Qp& qp = *qps_[choice & 1];
  qp.post(in.take<std::uint32_t>() % (2 * test::Qp::kBytes), 1 + (choice >> 1) % 8);
  if ((choice & 0x80) == 0) qp.ring();
  if ((choice & 0x40) != 0) qp.arm();
}

// A WRITE with bytes of its WQE changed. Its producer index is the number posted so far.
void Machine::post_changed(Input& in) {
  if (!qps_[0]) return;
  const std::uint8_t choice = in.u8();
  test::Qp& qp = *qps_[choice & 1];
  qp.post(64);
  for (unsigned i = 0; i <= (choice >> 1) % 8U; ++i) {
    const std::uint8_t at = in.u8();
    qp.last_wqe()[at % 64] = static_cast<std::byte>(in.u8());
  }
  qp.ring();
}

// A command with an input of the fuzzer's bytes. The driver has its admin queue first, and its
// arguments in the third page.
void Machine::admin(Input& in) {
  constexpr std::uint64_t kAdminQueue = 4096;
  constexpr std::uint64_t kInput = std::uint64_t{3} * 4096;
  const std::uint16_t opcode = in.u8() % 0x80;
  const std::size_t lengths = in.u8();
  const tern_aq_entry entry =
      test::admin_entry(opcode, kInput, lengths % 16 * 8, kInput + 4096, lengths / 16 * 8);
  for (unsigned i = 0; i < entry.in_len; ++i) memory_[kInput + i] = static_cast<std::byte>(in.u8());
  put(kAdminQueue + tail_ % (1U << kLogAdmin) * sizeof(entry), entry);
  reg_write(TERN_REG_AQ_TAIL, tail_ + 1);
}

void Machine::unmap(Input& in) { (void)hypervisor_.unmap(in.u8() % kPieces * kPiece, kPiece); }

void Machine::map(Input& in) {
  const std::uint8_t choice = in.u8();
  const std::uint64_t at = choice % kPieces * kPiece;
  (void)hypervisor_.map(at, kPiece, file_.get(), at, (choice & 0x80) == 0);
}

// The file is short while the device works; the machine itself does not look at it then.
void Machine::shorten_memory(Input& in) {
  hypervisor_.cheat();
  REQUIRE(ftruncate(file_.get(), std::int64_t{in.take<std::uint16_t>()} % 1024 * 4096) == 0);
  world_.pass(1'000'000);
  world_.run();
  REQUIRE(ftruncate(file_.get(), kMemory) == 0);
}

void Machine::reset(Input& in) {
  switch (in.u8() % 3) {
    case 0:
      (void)hypervisor_.reset();
      break;
    case 1: {
      const std::uint16_t flr = PCI_EXP_DEVCTL_BCR_FLR;
      (void)hypervisor_.write(kConfig, 0x48 + PCI_EXP_DEVCTL, std::as_bytes(std::span(&flr, 1)));
      break;
    }
    default:
      reg_write(TERN_REG_CTRL, TERN_CTRL_RESET);
  }
}

void Machine::pass_time(Input& in) {
  const std::uint8_t choice = in.u8();
  world_.pass(std::uint64_t{1} << choice % 36);
  world_.allow_polling((choice & 0x80) != 0);
  world_.run();
}

void Machine::change_link(Input& in) {
  world_.set_link((in.u8() & 1) != 0);
  world_.run();
}

void Machine::remove(Input& in) {
  removed_ = (in.u8() & 1) != 0;
  world_.function().set_removed(removed_);
}

void Machine::check_config() {
  std::array<std::byte, 256> space{};
  if (hypervisor_.read(kConfig, 0, space) != 0) return;
  if (removed_) {
    REQUIRE(std::ranges::all_of(space, [](std::byte x) { return x == std::byte{0xff}; }));
    return;
  }
  const auto word = [&](std::size_t at) {
    return static_cast<unsigned>(space[at]) | static_cast<unsigned>(space[at + 1]) << 8;
  };
  REQUIRE(word(PCI_VENDOR_ID) == TERN_PCI_VENDOR_ID && word(PCI_DEVICE_ID) == TERN_PCI_DEVICE_ID);
  std::vector<unsigned> capabilities;
  for (unsigned at = word(PCI_CAPABILITY_LIST) & 0xff; at != 0; at = word(at) >> 8) {
    capabilities.push_back(word(at) & 0xff);
    REQUIRE(capabilities.size() <= 3);
  }
  REQUIRE((capabilities == std::vector<unsigned>{PCI_CAP_ID_PM, PCI_CAP_ID_EXP, PCI_CAP_ID_MSIX}));
}

void Machine::recover() {
  if (removed_) world_.function().set_removed(false);
  world_.set_link(true);
  for (unsigned i = 0; i < kPieces; ++i) (void)hypervisor_.unmap(i * kPiece, kPiece);
  if (hypervisor_.reset() != 0) return;
  const Device::Info left = world_.info();
  REQUIRE(left.live_qps == 0 && left.live_keys == 0 && left.page_entries == 0);
  plug();
  forget();
  start();
  qps_[0]->source()[0] = std::byte{0x5a};
  qps_[1]->target()[0] = std::byte{};
  qps_[0]->post(1);
  qps_[0]->ring();
  for (int i = 0; i < 100 && qps_[0]->poll() == 0; ++i) {
    world_.pass(100'000);
    world_.run();
  }
  REQUIRE(qps_[0]->poll() == 1 && qps_[0]->failed() == 0 &&
          qps_[1]->target()[0] == std::byte{0x5a});
}

void play(World& world, std::span<const std::uint8_t> bytes) {
  Input in(bytes);
  const std::uint8_t options = in.u8();
  {
    Machine machine(world);
    if ((options & 1) == 0) machine.start();
    for (std::size_t i = 0; i < kMaxSteps && !in.empty() && !machine.gone(); ++i) machine.step(in);
    machine.check_config();
    if ((options & 6) == 6) machine.recover();
  }
  world.end();
}

}  // namespace
}  // namespace tern::daemon

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // What the driver expects, and does not find, ends the process.
  testing::GTEST_FLAG(break_on_failure) = true;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static tern::daemon::World world;
  tern::daemon::play(world, {data, size});
  tern::daemon::check_descriptors();
  return 0;
}
