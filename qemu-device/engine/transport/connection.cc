// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/connection.h"

#include "objects/context.h"
#include "wire/codec.h"

namespace tern {

Connection::Connection(Context& context, const tern_cmd_create_qp& cmd, Transport transport,
                       bool privileged)
    : transport_(transport),
      privileged_(privileged),
      context_(&context),
      counters_(&context.counters),
      cmd_(cmd),
      generation_(context.device.next_qp_generation()),
      serial_(static_cast<std::uint32_t>(context.device.next_serial())) {}

std::optional<Route> Connection::route_of(const tern_av& av, std::uint8_t port, Qpn dest) const {
  std::optional<Route> route = context_->resolve(av, port, qpn_, dest);
  // Switches mark ECN-capable packets and drop others.
  if (route && (route->traffic_class & kEcnMask) == 0 &&
      context_->device.congestion.enabled(TERN_CC_RP_ENABLE, route->sl)) {
    route->traffic_class |= kEcnCapable;
  }
  return route;
}

SendRate& Connection::make_send_rate() {
  if (send_rate_ == nullptr) send_rate_ = std::make_unique<SendRate>(*this);
  return *send_rate_;
}

std::uint32_t Connection::max_train() const {
  const bool paced = send_rate_ != nullptr && !send_rate_->unlimited();
  return paced ? 1 : context_->max_train(route_, mtu());
}

std::uint32_t Connection::packet_bytes() const {
  constexpr std::uint32_t kHeaders = 64;
  const bool connected =
      transport_ != Transport::kRaw && transport_ != Transport::kUd && attr_.path_mtu != 0;
  return (connected ? mtu() : context_->mtu()) + kHeaders;
}

void Connection::send_paced(Packet& packet) {
  if (send_rate_ != nullptr) send_rate_->sent(frame_bytes(packet));
  context_->emit(packet);
}

}  // namespace tern
