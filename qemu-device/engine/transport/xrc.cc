// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/xrc.h"

#include "objects/context.h"
#include "transport/connection.h"

namespace tern {

Srq* XrcResponder::srq() const { return qp_.context().find_srq(srq_); }

// Every packet refers to an SRQ of the domain. The message uses the SRQ of its first packet, and
// keeps it if it has to be repeated after a receive WQE was taken.
bool XrcResponder::admit(const Packet& packet, bool begins) {
  const Srq* const named = qp_.context().find_srq(packet.xrc_srq.value);
  if (named == nullptr || named->xrcd() != qp_.xrcd()) return false;
  if (begins && recv_ && named->ref() != srq_) return false;
  if (begins) srq_ = named->ref();
  const auto keys = keys_of(srq_);
  if (keys) keys_ = *keys;
  return keys.has_value();
}

std::optional<Accessor> XrcResponder::keys_of(const SrqRef& ref) const {
  const Srq* const owner = qp_.context().find_srq(ref);
  if (owner == nullptr) return std::nullopt;
  Accessor keys = owner->owner();
  keys.qp = qp_.number();
  return keys;
}

}  // namespace tern
