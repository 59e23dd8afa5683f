// SPDX-License-Identifier: GPL-2.0-or-later
// Posts WQEs and polls CQEs with nothing but the layouts of terndv.h. The provider only creates and
// connects the objects.
#pragma once

#include <infiniband/terndv.h>

#include <cstdint>
#include <optional>
#include <span>

#include "verbs.h"

namespace guest {

// A send WQE under construction: its header, and the end of what was appended.
struct RawWqe {
  tern_sq_hdr* header;
  std::uint8_t* end;

  // Appends a segment and returns it, zeroed.
  template <class T>
  T& append() {
    auto* const segment = new (end) T{};
    end += sizeof(T);
    return *segment;
  }
  void append_sges(std::span<const ibv_sge> sges);
  void append_inline(std::span<const std::byte> data);
};

class RawQp {
 public:
  explicit RawQp(ibv_qp* qp);
  [[nodiscard]] const terndv_qp& layout() const { return dv_; }
  // The next slot, with an empty signaled WQE. post() makes it visible to the device.
  RawWqe next(std::uint8_t opcode, std::uint64_t wr_id);
  void post();
  void post_recv(std::uint64_t wr_id, std::span<const ibv_sge> sges);

 private:
  void ring(std::uint32_t command) const;

  std::uint32_t qpn_;
  terndv_qp dv_{};
};

class RawSrq {
 public:
  explicit RawSrq(ibv_srq* srq);
  [[nodiscard]] const terndv_srq& layout() const { return dv_; }
  // Whether the device has taken so many WQEs that a slot is free.
  [[nodiscard]] bool has_room() const;
  void post_recv(std::uint64_t wr_id, std::span<const ibv_sge> sges);

 private:
  terndv_srq dv_{};
};

class RawCq {
 public:
  explicit RawCq(ibv_cq* cq);
  [[nodiscard]] const terndv_cq& layout() const { return dv_; }
  std::optional<tern_cqe> poll();
  // Polls until there is a CQE; fails after half a minute.
  tern_cqe wait();
  // Whether poll() would return a CQE.
  [[nodiscard]] bool ready() const { return ready(dv_.ci); }
  // Requests an event for the next CQE.
  void arm();
  void event_taken() { ++dv_.arm_seq; }

 private:
  [[nodiscard]] bool ready(std::uint32_t number) const;

  terndv_cq dv_{};
};

}  // namespace guest
