// SPDX-License-Identifier: GPL-2.0-or-later
#include "wire/packet.h"

#include "core/archive.h"
#include "core/limits.h"

namespace tern {

void Route::state(Archive& ar) {
  ar(sgid, dgid, smac, dmac, vlan, udp_sport, flow_label, sgid_index, traffic_class, hop_limit, sl,
     ipv4, local, port);
  ar.require(is_port(port), "a route has a wrong port");
}

}  // namespace tern
