// SPDX-License-Identifier: GPL-2.0-or-later
// A hypervisor for tests: a vfio-user client with memory, and the driver of its adapter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "descriptor.h"
#include "testing/machine.h"

namespace tern::daemon {

// The protocol. Each function waits for the answer and returns its error number, 0 for none.
class Client {
 public:
  static constexpr std::uint32_t kConfig = 7;  // region of config space

  // Called with the socket and each command before it is sent.
  using Hook = std::function<void(int, std::span<const std::byte>)>;

  static constexpr std::uint32_t kMigration = 9;  // region of the migration
  // States of a migration; kStopped and kCopy stop the device.
  enum Migration : std::uint32_t { kStopped = 0, kRunning = 1, kCopy = 2, kResuming = 4 };

  // Connects and negotiates the version. Throws std::system_error.
  explicit Client(const std::string& path, Hook before_command = {});
  virtual ~Client() = default;

  int map(std::uint64_t addr, std::uint64_t len, int fd, std::uint64_t offset,
          bool writable = true);
  int unmap(std::uint64_t addr, std::uint64_t len);
  int read(std::uint32_t region, std::uint64_t offset, void* to, std::uint32_t len);
  int write(std::uint32_t region, std::uint64_t offset, const void* from, std::uint32_t len);
  int reset();
  // FLR, by the PCI Express capability.
  int reset_function();
  // Has the adapter read its admin queues at `addr`, whatever is there. Returns the error of making
  // it a bus master.
  int use_queues(std::uint64_t addr);
  // The eventfd of an MSI-X vector; -1 disables it.
  int set_vector(unsigned vector, int fd);
  // The file behind BAR4, to be mapped. Empty if there is none.
  Descriptor dm_file(std::uint64_t* size);
  // Connects to another adapter.
  void connect(const std::string& path);

  // ---- migration ----

  int enter(std::uint32_t state);
  // What the adapter saves, in kCopy.
  int save(std::vector<std::byte>& state);
  // Writes a state, in kResuming.
  int load(std::span<const std::byte> state);

  // ---- messages as a hostile client sends them ----

  void send_raw(std::span<const std::byte> bytes, std::span<const int> fds = {});
  // Sends a command and returns the answer's error number. With `answer`, also its body.
  virtual int command(std::uint16_t number, std::span<const std::byte> body,
                      std::span<const int> fds = {}, std::vector<std::byte>* answer = nullptr,
                      std::vector<Descriptor>* files = nullptr);
  // Whether the server has ended the connection; waits up to 5 s.
  bool ended();
  [[nodiscard]] int fd() const { return socket_.get(); }

 protected:
  // Connected, and without a version.
  explicit Client(Descriptor socket) : socket_(std::move(socket)) {}
  int negotiate();

 private:
  Descriptor socket_;
  Hook before_command_;
  std::uint16_t next_id_ = 1;
};

// A machine with 64 MiB of memory and an adapter. Its link comes up in the constructor.
class TestMachine final : public test::MachineDriver {
 public:
  static constexpr std::uint64_t kMemory = std::uint64_t{64} << 20;

  TestMachine(const std::string& path, unsigned id, Client::Hook before_command = {});
  ~TestMachine() override;

  std::span<std::byte> memory() override { return {memory_, kMemory}; }
  std::uint32_t reg_read(std::uint32_t offset) override;
  void reg_write(std::uint32_t offset, std::uint32_t value) override;
  void ring(std::uint32_t uar, std::uint32_t value) override;

  // Sets the bus master bit, or clears it.
  void set_bus_master(bool on);
  // Gives the machine another adapter.
  void use(const std::string& path);
  // Waits until the vector was raised; false after 5 s.
  bool wait_interrupt();
  // Doorbells rung so far.
  unsigned rung = 0;

  Client client;
  Descriptor file;   // the memory
  Descriptor event;  // of kCompletionVector

 private:
  void attach();

  std::byte* memory_ = nullptr;
};

}  // namespace tern::daemon
