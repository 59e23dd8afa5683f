// SPDX-License-Identifier: GPL-2.0-or-later
// The tests' driver and provider. They use a device through the contract alone and never look
// inside the engine. A subclass connects the driver to its device: in this process, behind a
// runner, or behind a vfio-user client.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "testing/memory.h"
#include "testing/queues.h"
#include "testing/work_requests.h"

namespace tern::test {

// Waits until done() is true. Returns false after 30 s.
bool wait_until(const std::function<bool()>& done);

class Driver {
 public:
  static constexpr unsigned kLogAdmin = 5;
  static constexpr std::uint16_t kCompletionVector = 1;
  static constexpr std::uint16_t kVlan = 77;

  // `id`: the last two bytes of the adapter's MAC address.
  explicit Driver(unsigned id);
  virtual ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // ---- the device ----

  // `len` zeroed bytes of memory at a new DMA address.
  [[nodiscard]] virtual std::uint64_t alloc(std::uint64_t len,
                                            std::uint64_t align = QueueMemory::kPage) = 0;
  // The memory at a DMA address.
  [[nodiscard]] virtual std::byte* at(std::uint64_t addr, std::uint64_t len) = 0;
  // Whether the pages of queues are scattered.
  [[nodiscard]] virtual bool scattered() const { return false; }
  [[nodiscard]] virtual std::uint32_t reg_read(std::uint32_t offset) = 0;
  virtual void reg_write(std::uint32_t offset, std::uint32_t value) = 0;
  // Stores to the doorbell register of a UAR page.
  virtual void ring(std::uint32_t uar, std::uint32_t value) = 0;
  // Lets the device work, if it does so only when told.
  virtual void let_run() {}
  // Waits for the device, while the clock stands still for a command. Returns done().
  virtual bool wait_command(const std::function<bool()>& done) { return wait(done); }
  virtual bool wait(const std::function<bool()>& done);
  // The device polls the queue of a request, so it was posted without a doorbell.
  virtual void posted_unrung() { ++unrung; }
  std::uint64_t unrung = 0;

  // ---- commands ----

  // Starts with empty admin queues.
  void start_admin_queue();
  // Executes an admin command.
  template <class In>
  [[nodiscard]] Status command(std::uint16_t opcode, const In& in) {
    return command(opcode, std::as_bytes(std::span(&in, 1)), {});
  }
  template <class In, class Out>
  [[nodiscard]] Status command(std::uint16_t opcode, const In& in, Out* out) {
    return command(opcode, std::as_bytes(std::span(&in, 1)),
                   std::as_writable_bytes(std::span(out, 1)));
  }
  [[nodiscard]] Status command(std::uint16_t opcode, std::span<const std::byte> in,
                               std::span<std::byte> out, std::uint16_t version = TERN_CMD_VERSION);
  // Makes an object and returns its number; expects success.
  std::uint32_t make(std::uint16_t opcode, std::span<const std::byte> in = {});
  template <class In>
  std::uint32_t make(std::uint16_t opcode, const In& in) {
    return make(opcode, std::as_bytes(std::span(&in, 1)));
  }
  // Makes an object whose number the reply stores in `number`.
  template <class In>
  [[nodiscard]] Status try_make(std::uint16_t opcode, const In& in, std::uint32_t& number) {
    tern_rsp_object rsp{};
    const Status status = command(opcode, in, &rsp);
    number = le(rsp.id);
    return status;
  }
  // A command without a reply; expects success.
  template <class In>
  void run(std::uint16_t opcode, const In& in) {
    EXPECT_EQ(command(opcode, in), TERN_ST_OK) << "command " << opcode;
  }
  // A command with a reply; expects success.
  template <class Out>
  [[nodiscard]] Out query(std::uint16_t opcode, std::span<const std::byte> in = {}) {
    Out out{};
    EXPECT_EQ(command(opcode, in, std::as_writable_bytes(std::span(&out, 1))), TERN_ST_OK)
        << "command " << opcode;
    return out;
  }
  template <class Out, class In>
  [[nodiscard]] Out query(std::uint16_t opcode, const In& in) {
    return query<Out>(opcode, std::as_bytes(std::span(&in, 1)));
  }
  // A command on one object; expects success.
  void destroy(std::uint16_t opcode, std::uint32_t id) { run(opcode, tern_cmd_object{le(id), 0}); }

  // ---- objects ----

  [[nodiscard]] std::uint32_t alloc_pd(bool privileged = false);
  [[nodiscard]] std::uint32_t alloc_uar() { return make(TERN_CMD_ALLOC_UAR); }
  [[nodiscard]] std::uint32_t alloc_xrcd() { return make(TERN_CMD_ALLOC_XRCD); }
  TestEq& create_eq(unsigned log_size = 8, std::uint16_t vector = kCompletionVector,
                    std::uint8_t kind = TERN_EQ_COMPLETION);
  TestCq& create_cq(unsigned log_size = 8, TestEq* eq = nullptr, std::uint8_t flags = 0);
  TestQp& create_qp(const QpOptions& options = {});
  TestSrq& create_srq(const SrqOptions& options = {});
  // Expects success; the memory is zero.
  TestMr& reg(std::uint64_t len, const RegOptions& options = {});
  [[nodiscard]] Status try_reg(std::uint64_t len, const RegOptions& options, TestMr* mr);
  // A closed region with room for `pages` pages, in a privileged PD; expects success.
  [[nodiscard]] FastMr alloc_fast(std::uint32_t pages, std::uint32_t pd);
  void dereg(const TestMr& mr) { destroy(TERN_CMD_DESTROY_MR, mr.key); }
  void destroy(TestQp& qp) { destroy(TERN_CMD_DESTROY_QP, qp.number()); }
  void destroy(TestCq& cq) { destroy(TERN_CMD_DESTROY_CQ, cq.number()); }
  void destroy(TestSrq& srq) { destroy(TERN_CMD_DESTROY_SRQ, srq.number()); }

  // ---- the node ----

  void doorbell(std::uint32_t uar, std::uint32_t command, std::uint32_t number) {
    ring(uar, field_prep(TERN_DB_CMD_MASK, command) | number);
  }
  [[nodiscard]] std::uint32_t uar() const { return uar_; }
  [[nodiscard]] std::uint32_t pd() const { return pd_; }
  [[nodiscard]] TestEq& eq() { return *completion_; }
  [[nodiscard]] TestEq& async_eq() { return *async_; }
  [[nodiscard]] const Mac& mac() const { return mac_; }
  // 0: IPv6, 1: IPv4, 2: IPv4 on kVlan, 3: IPv6 on kVlan.
  [[nodiscard]] Gid gid(std::uint16_t index) const;
  [[nodiscard]] TestQp* find_qp(std::uint32_t qpn);
  [[nodiscard]] const tern_rsp_caps& caps() const { return caps_; }
  // Expects that an event carries the generation of the object with its number.
  void check_generation(const tern_eqe& eqe) const;

  template <class T>
  void put(std::uint64_t addr, const T& value) {
    std::memcpy(at(addr, sizeof(T)), &value, sizeof(T));
  }

 protected:
  void enable_port(std::uint32_t mtu);
  void set_gid(std::uint16_t index);

  const unsigned id_;
  const Mac mac_;
  tern_rsp_caps caps_{};
  std::uint64_t aq_ = 0;
  std::uint64_t acq_ = 0;
  std::uint32_t uar_ = 0;
  std::uint32_t pd_ = 0;
  TestEq* async_ = nullptr;
  TestEq* completion_ = nullptr;
  std::deque<TestMr> mrs_;

 private:
  std::uint64_t in_ = 0;
  std::uint64_t out_ = 0;
  std::optional<TestRecord<tern_aq_record>> aq_record_;
  std::uint32_t aq_tail_ = 0;
  std::uint32_t acq_ci_ = 0;
  // By the command that created the object, and its number.
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::uint32_t> generations_;
  std::deque<TestEq> eqs_;
  std::deque<TestCq> cqs_;
  std::deque<TestQp> qps_;
  std::deque<TestSrq> srqs_;
};

}  // namespace tern::test
