// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/xrc.h"

#include "objects/context.h"
#include "transport/connection.h"

namespace tern {

// Every packet refers to an SRQ of the domain. The message uses the SRQ of its first packet, and
// keeps it if it has to be repeated after a receive WQE was taken.
std::optional<Accessor> XrcTarget::admit(const Connection& qp, const Packet& packet, bool begins,
                                         bool held) {
  const Srq* const named = qp.context().find_srq(packet.xrc_srq.value);
  if (named == nullptr || named->xrcd() != qp.xrcd()) return std::nullopt;
  if (begins && held && named->ref() != srq_) return std::nullopt;
  if (begins) srq_ = named->ref();
  return keys_of(qp, srq_);
}

// A saved state may refer to any SRQ.
Srq* XrcTarget::find(const Connection& qp, const SrqRef& ref) {
  Srq* const srq = qp.context().find_srq(ref);
  return srq != nullptr && srq->xrcd() == qp.xrcd() ? srq : nullptr;
}

std::optional<Accessor> XrcTarget::keys_of(const Connection& qp, const SrqRef& ref) {
  const Srq* const owner = find(qp, ref);
  if (owner == nullptr) return std::nullopt;
  Accessor keys = owner->owner();
  keys.qp = qp.number();
  return keys;
}

}  // namespace tern
