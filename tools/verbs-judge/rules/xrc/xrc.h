// SPDX-License-Identifier: GPL-2.0-or-later
// The rules of extended reliable connections, and a connection into a domain.
#pragma once

#include "rule.h"

namespace guest::xrc {

// An XRC domain and its file, which is deleted already.
class File {
 public:
  File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

// Returns an empty pointer and sets errno if the call is refused.
XrcdPtr try_open(ibv_context* context, int fd, int flags);
XrcdPtr open(const Device& dev, int fd);

// An SRQ of a domain, with its CQ and memory, as a process would have them.
class Place {
 public:
  Place(const Device& dev, ibv_xrcd* xrcd);
  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] ibv_srq* srq() const { return srq_.get(); }
  [[nodiscard]] ibv_cq* cq() const { return cq_.get(); }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  void recv(std::uint64_t wr_id) const;
  ibv_wc received(std::uint64_t wr_id) const;

 private:
  PdPtr pd_;
  CqPtr cq_;
  Memory memory_;
  SrqPtr srq_;
  std::uint32_t number_ = 0;
};

// A sender that is connected to a target of a domain.
class Road {
 public:
  Road(const Device& dev, ibv_xrcd* xrcd);
  [[nodiscard]] ibv_qp* sender() const { return sender_.get(); }
  [[nodiscard]] ibv_qp* target() const { return target_.get(); }
  // The caller destroys the target.
  [[nodiscard]] ibv_qp* release_target() { return target_.release(); }
  [[nodiscard]] Send message(std::uint32_t srqn) const;
  ibv_wc_status run(const Send& send) const;
  // Sends to an SRQ that takes it.
  void arrives(const Place& place, std::uint64_t wr_id) const;

 private:
  CqPtr cq_;
  Memory memory_;
  QpPtr sender_;
  QpPtr target_;
};

Rules all();

}  // namespace guest::xrc
