// SPDX-License-Identifier: GPL-2.0-or-later
// The receiving half of an extended reliable connection (IBTA A14): a responder without a PD, CQ
// and receive WQEs of its own. It uses those of the SRQ that a request refers to.
#pragma once

#include "transport/responder.h"

namespace tern {

class XrcResponder final : public Responder {
 public:
  using Responder::Responder;

  [[nodiscard]] Srq* srq() const override;

 private:
  [[nodiscard]] bool admit(const Packet& packet, bool begins) override;
  [[nodiscard]] std::optional<Accessor> keys_of(const SrqRef& ref) const override;
};

}  // namespace tern
