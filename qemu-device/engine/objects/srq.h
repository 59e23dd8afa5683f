// SPDX-License-Identifier: GPL-2.0-or-later
// Shared receive queue: its WQEs go to the queue pairs that need them, in the order in which their
// messages begin.
#pragma once

#include <cstdint>
#include <optional>

#include "objects/queues.h"
#include "objects/recv_wqe.h"

namespace tern {

class Context;

// An SRQ as somebody remembers it: the number may be another's by now, the serial never is.
struct SrqRef {
  std::uint32_t number = 0;
  std::uint64_t serial = 0;
};

class Srq {
 public:
  // `cmd` names a PD that exists; `privileged` tells of it. `cq`: with TERN_SRQ_F_XRC, which needs
  // an XRC domain that exists; else null. `serial`: SrqRef's.
  Srq(Context& context, const tern_cmd_create_srq& cmd, bool privileged, Cq* cq, std::uint64_t serial);
  ~Srq();
  Srq(const Srq&) = delete;
  Srq& operator=(const Srq&) = delete;
  // Checks the command but for the objects it names, and takes the buffer.
  [[nodiscard]] Status init();
  void set_number(std::uint32_t srqn) { srqn_ = srqn; }
  // Tells software how many WQEs were taken; false when the record is unreachable.
  [[nodiscard]] bool store_ci();

  // The next receive WQE. kFailed: the SRQ has failed, now or before, and gives no more. The keys are
  // those of the SRQ's PD; Accessor::qp is the caller's to fill.
  [[nodiscard]] Take take(RecvWqe& wqe);

  // It gives no more WQEs, and its owner is told.
  void fail();

  // MODIFY_SRQ: all checks first, then all changes. QUERY_SRQ.
  [[nodiscard]] Status modify(const tern_cmd_modify_srq& cmd);
  void query(tern_rsp_query_srq* rsp) const;

  // QPs that take their receive WQEs from it.
  void attach() { ++users_; }
  void detach() { --users_; }
  [[nodiscard]] std::uint32_t users() const { return users_; }
  [[nodiscard]] std::uint32_t number() const { return srqn_; }
  [[nodiscard]] SrqRef ref() const { return {srqn_, serial_}; }
  [[nodiscard]] Pdn pd() const { return owner_.pd; }
  // Who asks for memory in its name; Accessor::qp is the caller's to fill.
  [[nodiscard]] const Accessor& owner() const { return owner_; }
  // XRC: its domain and CQ; else 0 and null.
  [[nodiscard]] std::uint32_t xrcd() const { return le(std::uint32_t{cmd_.xrcdn}); }
  [[nodiscard]] Cq* cq() const { return cq_; }
  [[nodiscard]] std::uint64_t page_entries() const { return buffer_.page_entries(); }

 private:
  [[nodiscard]] std::uint32_t size() const { return 1U << log_size_; }
  [[nodiscard]] std::uint64_t ring_bytes(unsigned log_size) const {
    return std::uint64_t{1} << (log_size + cmd_.log_stride);
  }
  [[nodiscard]] std::optional<std::uint32_t> posted();
  [[nodiscard]] Status resize(const tern_cmd_modify_srq& cmd);
  void check_limit(std::uint32_t left);
  void cq_failed();

  Context& context_;
  tern_cmd_create_srq cmd_;
  Cq* cq_;
  CqUser cq_user_;
  std::uint64_t serial_;
  QueueBuffer buffer_;
  Accessor owner_;
  Record record_;
  std::uint32_t srqn_ = 0;
  std::uint32_t users_ = 0;
  std::uint32_t ci_ = 0;
  std::uint32_t limit_ = 0;
  std::uint8_t log_size_ = 0;
  bool failed_ = false;
};

}  // namespace tern
