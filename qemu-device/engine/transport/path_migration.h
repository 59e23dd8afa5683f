// SPDX-License-Identifier: GPL-2.0-or-later
// Automatic path migration of a connected QP (IBTA 17.2.8): the alternate path, and the state that
// decides when the QP migrates. A QP gets one when software loads its first alternate path.
#pragma once

#include <cstdint>
#include <optional>

#include "memory/page_list.h"
#include "tern_hw.hpp"
#include "wire/packet.h"

namespace tern {

class Archive;
class Connection;

class PathMigration {
 public:
  explicit PathMigration(Connection& qp) : qp_(qp) {}

  // Software loads an alternate path, in the contract's byte order, whose route was resolved.
  void load(const tern_qp_alt& alt, const Route& route);
  // check() returns whether software may request TERN_MIG_* `state`, together with a new alternate
  // path if `loads`. request() executes the request.
  [[nodiscard]] Status check(std::uint8_t state, bool loads) const;
  void request(std::uint8_t state);
  // Software has given the QP another primary path.
  void forget_left() { left_.reset(); }

  // Migrates to the alternate path if the QP is armed: the peer does not answer, the peer has
  // migrated, or software requests it. Returns whether it did.
  bool migrate();
  // Decides on a packet to this QP by its path; `primary`: it came by the primary path. Returns
  // false if the packet must be dropped.
  [[nodiscard]] bool accept(const Packet& packet, bool primary);
  // Handles an accepted packet that is in sequence, or repeats one: it may arm the QP or let it
  // migrate. Packets out of sequence may be forged by anybody who knows the addresses. Returns
  // false if the packet must be dropped.
  [[nodiscard]] bool follow(const Packet& packet);

  // MigReq of the packets that the QP sends.
  [[nodiscard]] bool mig_req() const { return state_ == TERN_MIG_MIGRATED; }
  [[nodiscard]] tern_qp_alt query() const;
  void state(Archive& ar);

 private:
  [[nodiscard]] std::optional<Route> resolve() const;
  [[nodiscard]] bool by_alternate(const Packet& packet) const;
  void report_error();

  Connection& qp_;
  tern_qp_alt alt_{};          // port 0: none
  Route route_;                // of alt_
  std::optional<Route> left_;  // the path that the QP left by its last migration
  std::uint8_t state_ = TERN_MIG_MIGRATED;
  bool reported_ = false;  // an error since software loaded the path or armed the QP
};

}  // namespace tern
