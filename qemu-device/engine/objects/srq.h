// SPDX-License-Identifier: GPL-2.0-or-later
// Shared receive queue: QPs take its WQEs in the order in which their messages begin.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "objects/queues.h"
#include "objects/recv_wqe.h"
#include "objects/tag_list.h"

namespace tern {

class Context;

// Weak reference to an SRQ: the number may be reused, the serial never is.
struct SrqRef {
  std::uint32_t number = 0;
  std::uint64_t serial = 0;
  friend bool operator==(const SrqRef&, const SrqRef&) = default;
};

class Srq {
 public:
  // The PD in `cmd` exists; `privileged` is a property of that PD. `cq` is null unless the flags
  // have TERN_SRQ_F_XRC or TERN_SRQ_F_TM; the objects that these need exist, too.
  Srq(Context& context, const tern_cmd_create_srq& cmd, bool privileged, Cq* cq);
  ~Srq();
  Srq(const Srq&) = delete;
  Srq& operator=(const Srq&) = delete;
  // Checks the command except for the objects it refers to, and loads the buffer.
  [[nodiscard]] Status init();
  void set_number(std::uint32_t srqn) { srqn_ = srqn; }
  // Saved state, besides the command and the number. Reading replaces init().
  [[nodiscard]] const tern_cmd_create_srq& command() const { return cmd_; }
  void state(Archive& ar);
  [[nodiscard]] Context& context() const { return *context_; }
  // Reports the number of WQEs taken in the record. Returns false if the record is unreachable.
  [[nodiscard]] bool store_ci();

  // Takes the next receive WQE. kFailed: the SRQ has failed, now or earlier, and delivers no more.
  // The WQE's accessor is that of the SRQ's PD; the caller sets Accessor::qp.
  [[nodiscard]] Take take(RecvWqe& wqe);

  void move_to(Context& lane);

  // Puts the SRQ into error: it delivers no more WQEs and raises TERN_EV_SRQ_ERR.
  void fail();
  [[nodiscard]] bool failed() const { return failed_; }

  // MODIFY_SRQ and QUERY_SRQ. modify() checks everything before it changes anything.
  [[nodiscard]] Status modify(const tern_cmd_modify_srq& cmd);
  void query(tern_rsp_query_srq* rsp) const;

  // Counts the QPs that take their receive WQEs from it.
  void attach() { ++users_; }
  void detach() { --users_; }
  [[nodiscard]] std::uint32_t users() const { return users_; }
  [[nodiscard]] std::uint32_t number() const { return srqn_; }
  // Generation of its number; see DeviceState::next_serial().
  [[nodiscard]] std::uint32_t generation() const { return static_cast<std::uint32_t>(serial_); }
  [[nodiscard]] SrqRef ref() const { return {srqn_, serial_}; }
  [[nodiscard]] Pdn pd() const { return owner_.pd; }
  // Accessor for memory accesses on the SRQ's behalf; the caller sets Accessor::qp.
  [[nodiscard]] const Accessor& owner() const { return owner_; }
  // XRC domain of an XRC SRQ; 0 for others.
  [[nodiscard]] std::uint32_t xrcd() const { return le(std::uint32_t{cmd_.xrcdn}); }
  // CQ of an SRQ for XRC or tag matching; null for others.
  [[nodiscard]] Cq* cq() const { return cq_; }
  // Null unless the SRQ is for tag matching.
  [[nodiscard]] TagList* tags() const { return tags_.get(); }
  [[nodiscard]] std::uint64_t page_entries() const {
    return buffer_.page_entries() + (tags_ ? tags_->page_entries() : 0);
  }

 private:
  [[nodiscard]] Status check() const;
  [[nodiscard]] std::uint32_t size() const { return 1U << log_size_; }
  [[nodiscard]] std::uint64_t ring_bytes(unsigned log_size) const {
    return std::uint64_t{1} << (log_size + cmd_.log_stride);
  }
  [[nodiscard]] std::optional<std::uint32_t> posted();
  [[nodiscard]] Status resize(const tern_cmd_modify_srq& cmd);
  void check_limit(std::uint32_t left);
  void cq_failed();

  static const CqUser::Kind kCqUser;

  Context* context_;
  tern_cmd_create_srq cmd_;
  Cq* cq_;
  CqUser cq_user_;
  std::uint64_t serial_;
  QueueBuffer buffer_;
  Accessor owner_;
  Record record_;
  std::unique_ptr<TagList> tags_;
  std::uint32_t srqn_ = 0;
  std::uint32_t users_ = 0;
  std::uint32_t ci_ = 0;
  std::uint32_t limit_ = 0;
  std::uint8_t log_size_ = 0;
  bool failed_ = false;

 public:
  LaneMember lane_member;  // moves the SRQ; its QPs and its CQ are in the same group
};

}  // namespace tern
