// SPDX-License-Identifier: GPL-2.0-or-later
// Ethernet part of the tests' driver: a transmit or receive queue.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "testing/driver.h"

namespace tern::test {

class TestEthQueue {
 public:
  TestEthQueue(Driver& driver, std::uint8_t direction, TestCq& cq, unsigned log_size = 4,
               std::uint8_t flags = 0)
      : driver_(driver),
        cq_(cq),
        log_size_(log_size),
        memory_(driver, 16U << log_size),
        record_(driver) {
    status_ = create(direction, flags);
  }
  [[nodiscard]] std::uint32_t number() const { return id_; }
  [[nodiscard]] Status created() const { return status_; }
  // A transmit queue once more, in the memory of the one that was destroyed.
  Status create_again() {
    store_pi(pi_ = 0);
    return status_ = create(TERN_ETH_QUEUE_TX, 0);
  }
  [[nodiscard]] TestCq& cq() const { return cq_; }
  [[nodiscard]] QueueMemory& memory() { return memory_; }
  [[nodiscard]] std::uint64_t record() const { return record_.address(); }
  [[nodiscard]] std::uint32_t posted() const { return pi_; }
  [[nodiscard]] bool polled() const {
    return (record_.get(offsetof(tern_eth_record, status)) & TERN_ETH_ST_POLLED) != 0;
  }

  // Writes a descriptor; publish() makes it and earlier ones visible to the device.
  void put(std::uint64_t addr, std::uint32_t len, std::uint16_t flags) {
    tern_eth_txd txd{.addr = le(addr), .length = le(len), .flags = le(flags)};
    memory_.put(next_slot(), txd);
  }
  void publish() { store_pi(pi_); }
  void store_pi(std::uint32_t pi) { record_.put(offsetof(tern_eth_record, pi), pi); }
  void kick() { driver_.doorbell(driver_.uar(), TERN_DB_CMD_ETH_TX, id_); }

  // Posts `frame` in pieces of the given sizes; the last piece holds the rest.
  void post(std::span<const std::byte> frame, std::span<const std::size_t> cuts = {}) {
    std::size_t at = 0;
    for (const std::size_t n : cuts) {
      put(place(frame.subspan(at, n)), static_cast<std::uint32_t>(n), 0);
      at += n;
    }
    const auto rest = frame.subspan(at);
    put(place(rest), static_cast<std::uint32_t>(rest.size()), TERN_ETH_F_EOP);
    publish();
  }
  // The same, and rings.
  void send(std::span<const std::byte> frame, std::span<const std::size_t> cuts = {}) {
    post(frame, cuts);
    kick();
  }
  // The first descriptor of a frame with offloads; the members in host byte order.
  void put_offload(const tern_eth_offload& offload) {
    tern_eth_offload entry = offload;
    entry.csum_start = le(std::uint16_t{offload.csum_start});
    entry.csum_offset = le(std::uint16_t{offload.csum_offset});
    entry.mss = le(std::uint16_t{offload.mss});
    entry.header_len = le(std::uint16_t{offload.header_len});
    entry.vlan = le(std::uint16_t{offload.vlan});
    entry.ops = le(std::uint16_t{offload.ops});
    entry.flags = le(static_cast<std::uint16_t>(TERN_ETH_F_OFFLOAD | offload.flags));
    memory_.put(next_slot(), entry);
  }
  void send(const tern_eth_offload& offload, std::span<const std::byte> frame,
            std::span<const std::size_t> cuts = {}) {
    put_offload(offload);
    send(frame, cuts);
  }
  // Posts a receive buffer; received() finds it by the WQE index.
  void post_buffer(std::uint32_t len = 2048) {
    const std::uint64_t addr = driver_.alloc(std::max(len, 1U), 64);
    buffers_.push_back(addr);
    put(addr, len, 0);
    publish();
  }
  [[nodiscard]] std::vector<std::byte> received(const Wc& wc) {
    const std::uint32_t len = le(wc.byte_len);
    const std::byte* const p = driver_.at(buffers_.at(le(wc.wqe_index)), len);
    return {p, p + len};
  }
  // Buffers of `size` bytes that a frame of `len` bytes takes.
  [[nodiscard]] static std::uint32_t buffers_of(std::uint32_t len, std::uint32_t size) {
    return (len + size - 1) / size;
  }
  // The same from buffers of `size` bytes each.
  [[nodiscard]] std::vector<std::byte> gathered(const Wc& wc, std::uint32_t size) {
    const std::uint32_t len = le(wc.byte_len);
    const std::uint32_t count = buffers_of(len, size);
    std::vector<std::byte> all;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t n = std::min(size, len - i * size);
      const std::byte* const p = driver_.at(buffers_.at(le(wc.wqe_index) + 1 - count + i), n);
      all.insert(all.end(), p, p + n);
    }
    return all;
  }

 private:
  std::uint64_t next_slot() { return std::uint64_t{pi_++ & ((1U << log_size_) - 1)} * 16; }
  Status create(std::uint8_t direction, std::uint8_t flags) {
    tern_cmd_create_eth_queue cmd{.pages = memory_.pages(),
                                  .record = le(record_.address()),
                                  .cqn = le(cq_.number()),
                                  .uar = le(driver_.uar()),
                                  .direction = direction,
                                  .log_size = static_cast<std::uint8_t>(log_size_),
                                  .port = 1,
                                  .flags = flags};
    return driver_.try_make(TERN_CMD_CREATE_ETH_QUEUE, cmd, id_);
  }
  std::uint64_t place(std::span<const std::byte> bytes) {
    const std::uint64_t addr = driver_.alloc(std::max<std::size_t>(bytes.size(), 1), 64);
    if (!bytes.empty()) std::memcpy(driver_.at(addr, bytes.size()), bytes.data(), bytes.size());
    return addr;
  }

  Driver& driver_;
  TestCq& cq_;
  unsigned log_size_;
  QueueMemory memory_;
  TestRecord<tern_eth_record> record_;
  std::vector<std::uint64_t> buffers_;
  std::uint32_t pi_ = 0;
  std::uint32_t id_ = 0;
  Status status_ = TERN_ST_INTERNAL;
};

// An Ethernet frame of `len` bytes.
inline std::vector<std::byte> eth_frame(const Mac& dst, const Mac& src, std::size_t len,
                                        unsigned seed = 1,
                                        std::optional<std::uint16_t> vlan = std::nullopt) {
  std::vector<std::byte> f(len);
  for (std::size_t i = 12; i < len; ++i) f[i] = static_cast<std::byte>(i * seed + seed);
  if (len > 0) std::memcpy(f.data(), dst.data(), std::min<std::size_t>(len, 6));
  if (len > 6) std::memcpy(f.data() + 6, src.data(), std::min<std::size_t>(len - 6, 6));
  if (len >= 14) f[12] = f[13] = std::byte{0x88};
  if (vlan && len >= 18) {
    f[12] = std::byte{0x81};
    f[13] = std::byte{0x00};
    f[14] = static_cast<std::byte>(0x60 | *vlan >> 8);
    f[15] = static_cast<std::byte>(*vlan);
    f[16] = f[17] = std::byte{0x88};
  }
  return f;
}

}  // namespace tern::test
