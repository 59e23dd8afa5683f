// SPDX-License-Identifier: GPL-2.0-or-later
#include "client.h"

#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "protocol.h"
#include "testing/admin_queue.h"
#include "unix_socket.h"

namespace tern::daemon {

using namespace protocol;

Client::Client(const std::string& path, Hook before_command)
    : socket_(connect_to(path)), before_command_(std::move(before_command)) {
  if (const int error = negotiate())
    throw std::system_error(error, std::generic_category(), "version");
}

void Client::connect(const std::string& path) {
  socket_ = Descriptor();
  socket_ = connect_to(path);
  if (const int error = negotiate())
    throw std::system_error(error, std::generic_category(), "version");
}

int Client::negotiate() {
  return command(kVersion,
                 version("{\"capabilities\":{\"max_msg_fds\":8,\"max_data_xfer_size\":1048576}}"));
}

void Client::send_raw(std::span<const std::byte> bytes, std::span<const int> fds) {
  (void)send_message(socket_.get(), bytes, fds);
}

int Client::command(std::uint16_t number, std::span<const std::byte> body, std::span<const int> fds,
                    std::vector<std::byte>* answer, std::vector<Descriptor>* files) {
  const std::uint16_t id = next_id_++;
  const auto request = message(id, number, body);
  if (before_command_) before_command_(socket_.get(), request);
  send_raw(request, fds);

  Header reply{};
  std::vector<Descriptor> came;
  const auto head = std::as_writable_bytes(std::span(&reply, 1));
  if (receive_message(socket_.get(), head, MSG_WAITALL, came) != sizeof(reply)) return ECONNRESET;
  if (files != nullptr) *files = std::move(came);
  std::vector<std::byte> data(reply.size - sizeof(reply));
  if (!data.empty() && recv(socket_.get(), data.data(), data.size(), MSG_WAITALL) !=
                           static_cast<ssize_t>(data.size()))
    return ECONNRESET;
  if (reply.id != id || (reply.flags & kTypeMask) != kReply) return EPROTO;
  if (answer != nullptr) *answer = std::move(data);
  return (reply.flags & kError) != 0 ? static_cast<int>(reply.error) : 0;
}

int Client::map(std::uint64_t addr, std::uint64_t len, int fd, std::uint64_t offset,
                bool writable) {
  const DmaMap body{.flags = writable ? kReadable | kWritable : kReadable,
                    .offset = offset,
                    .addr = addr,
                    .size = len};
  return command(kDmaMap, bytes_of(body),
                 fd < 0 ? std::span<const int>() : std::span<const int>(&fd, 1));
}

int Client::unmap(std::uint64_t addr, std::uint64_t len) {
  return command(kDmaUnmap, bytes_of(DmaUnmap{.addr = addr, .size = len}));
}

int Client::read(std::uint32_t region, std::uint64_t offset, void* to, std::uint32_t len) {
  std::vector<std::byte> answer;
  const int error = command(kRead, bytes_of(Access{offset, region, len}), {}, &answer);
  if (error != 0) return error;
  if (answer.size() != sizeof(Access) + len) return EPROTO;
  std::memcpy(to, answer.data() + sizeof(Access), len);
  return 0;
}

int Client::write(std::uint32_t region, std::uint64_t offset, const void* from, std::uint32_t len) {
  return command(kWrite,
                 joined(Access{offset, region, len}, {static_cast<const std::byte*>(from), len}));
}

int Client::use_queues(std::uint64_t addr) {
  const std::uint16_t bus_master = 6;
  const int error = write(kConfig, 4, &bus_master, sizeof(bus_master));
  const auto set = [this](std::uint32_t reg, std::uint32_t value) {
    (void)write(TERN_BAR_REGS, reg, &value, sizeof(value));
  };
  test::enable_admin_queue(addr, addr + 4096, 4, set);
  set(TERN_REG_AQ_TAIL, 1);
  return error;
}

int Client::reset() { return command(kReset, {}); }

int Client::reset_function() {
  std::uint8_t at = 0;
  int error = read(kConfig, PCI_CAPABILITY_LIST, &at, 1);
  for (std::uint8_t id = 0; error == 0 && at != 0;) {
    error = read(kConfig, at, &id, 1);
    if (id == PCI_CAP_ID_EXP) break;
    if (error == 0) error = read(kConfig, at + 1U, &at, 1);
  }
  if (error != 0 || at == 0) return ENOENT;
  const std::uint16_t flr = PCI_EXP_DEVCTL_BCR_FLR;
  return write(kConfig, at + std::uint64_t{PCI_EXP_DEVCTL}, &flr, sizeof(flr));
}

int Client::set_vector(unsigned vector, int fd) {
  vfio_irq_set set{};
  set.argsz = sizeof(set);
  set.flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
  set.index = VFIO_PCI_MSIX_IRQ_INDEX;
  set.start = vector;
  set.count = 1;
  return command(kSetIrqs, bytes_of(set),
                 fd < 0 ? std::span<const int>() : std::span<const int>(&fd, 1));
}

Descriptor Client::dm_file(std::uint64_t* size) {
  vfio_region_info info{};
  info.argsz = 1024;
  info.index = TERN_BAR_DM;
  std::vector<std::byte> answer;
  std::vector<Descriptor> files;
  if (command(kRegionInfo, bytes_of(info), {}, &answer, &files) != 0 ||
      answer.size() < sizeof(info) || files.empty())
    return Descriptor();
  std::memcpy(&info, answer.data(), sizeof(info));
  *size = info.size;
  return std::move(files[0]);
}

// ---- migration ----

namespace {

// Registers in the region of the migration: the state, bytes that are left, and where the window
// begins and how much is in it.
constexpr std::uint64_t kState = 0;
constexpr std::uint64_t kLeft = 8;
constexpr std::uint64_t kDataOffset = 16;
constexpr std::uint64_t kDataSize = 24;
constexpr std::size_t kPart = 1 << 16;

}  // namespace

int Client::enter(std::uint32_t state) { return write(kMigration, kState, &state, sizeof(state)); }

int Client::save(std::vector<std::byte>& state) {
  for (;;) {
    std::uint64_t left = 0;
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    if (const int error = read(kMigration, kLeft, &left, sizeof(left))) return error;
    if (left == 0) return 0;
    if (const int error = read(kMigration, kDataOffset, &offset, sizeof(offset))) return error;
    if (const int error = read(kMigration, kDataSize, &size, sizeof(size))) return error;
    for (const std::uint64_t end = offset + size; offset < end;) {
      const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(kPart, end - offset));
      state.resize(state.size() + n);
      if (const int error = read(kMigration, offset, state.data() + state.size() - n, n))
        return error;
      offset += n;
    }
  }
}

int Client::load(std::span<const std::byte> state) {
  while (!state.empty()) {
    std::uint64_t offset = 0;
    if (const int error = read(kMigration, kDataOffset, &offset, sizeof(offset))) return error;
    const std::uint64_t n = std::min(kPart, state.size());
    if (const int error = write(kMigration, offset, state.data(), static_cast<std::uint32_t>(n)))
      return error;
    if (const int error = write(kMigration, kDataSize, &n, sizeof(n))) return error;
    state = state.subspan(n);
  }
  return 0;
}

bool Client::ended() {
  pollfd p{socket_.get(), POLLIN, 0};
  if (poll(&p, 1, 5000) != 1) return false;
  char c;
  return recv(socket_.get(), &c, 1, 0) <= 0;
}

// ---- a machine ----

TestMachine::TestMachine(const std::string& path, unsigned id, Client::Hook before_command)
    : MachineDriver(id),
      client(path, std::move(before_command)),
      file(checked(memfd_create("machine", MFD_CLOEXEC), "memory")),
      event(checked(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
  if (ftruncate(file.get(), static_cast<off_t>(kMemory)) != 0)
    throw std::system_error(errno, std::generic_category(), "memory");
  void* const p = mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (p == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "memory");
  memory_ = static_cast<std::byte*>(p);
  attach();
  set_bus_master(true);
}

void TestMachine::attach() {
  EXPECT_EQ(client.map(0, kMemory, file.get(), 0), 0);
  EXPECT_EQ(client.set_vector(kCompletionVector, event.get()), 0);
}

void TestMachine::use(const std::string& path) {
  client.connect(path);
  attach();
}

TestMachine::~TestMachine() { munmap(memory_, kMemory); }

void TestMachine::set_bus_master(bool on) {
  const std::uint16_t command = on ? 6 : 2;
  EXPECT_EQ(client.write(Client::kConfig, 4, &command, sizeof(command)), 0);
}

std::uint32_t TestMachine::reg_read(std::uint32_t offset) {
  std::uint32_t value = 0;
  EXPECT_EQ(client.read(TERN_BAR_REGS, offset, &value, sizeof(value)), 0);
  return value;
}

void TestMachine::reg_write(std::uint32_t offset, std::uint32_t value) {
  EXPECT_EQ(client.write(TERN_BAR_REGS, offset, &value, sizeof(value)), 0);
}

void TestMachine::ring(std::uint32_t uar, std::uint32_t value) {
  ++rung;
  EXPECT_EQ(
      client.write(TERN_BAR_UAR, (std::uint64_t{uar} << 12) + TERN_UAR_DB, &value, sizeof(value)),
      0);
}

bool TestMachine::wait_interrupt() {
  pollfd p{event.get(), POLLIN, 0};
  if (poll(&p, 1, 5000) != 1) return false;
  eventfd_t value;
  return eventfd_read(event.get(), &value) == 0;
}

}  // namespace tern::daemon
