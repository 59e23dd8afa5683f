// SPDX-License-Identifier: GPL-2.0-or-later
// Target of the messages of an extended reliable connection (IBTA A14), whose responder has no PD,
// CQ and receive WQEs of its own: the SRQ that a request refers to.
#pragma once

#include <optional>

#include "memory/memory.h"
#include "objects/srq.h"
#include "wire/packet.h"

namespace tern {

class Archive;
class Connection;

class XrcTarget {
 public:
  // Returns the keys that a request uses, or nothing if the request is invalid. `begins`: it is the
  // first packet of a message. `held`: a receive WQE was taken for the message.
  [[nodiscard]] std::optional<Accessor> admit(const Connection& qp, const Packet& packet,
                                              bool begins, bool held);
  // Returns the keys of requests that refer to `ref`, or nothing if the SRQ is gone.
  [[nodiscard]] static std::optional<Accessor> keys_of(const Connection& qp, const SrqRef& ref);
  // Returns the SRQ that a request refers to, or null if it is gone.
  [[nodiscard]] static Srq* find(const Connection& qp, const SrqRef& ref);
  // The SRQ of the message.
  [[nodiscard]] const SrqRef& srq() const { return srq_; }
  void state(Archive& ar);

 private:
  SrqRef srq_;
};

}  // namespace tern
