// SPDX-License-Identifier: GPL-2.0-or-later
#include "groups.h"

namespace guest {

// clang-format off
namespace atomics { Rules all(); }
namespace cm { Rules all(); }
namespace connections { Rules all(); }
namespace datagrams { Rules all(); }
namespace device { Rules all(); }
namespace device_memory { Rules all(); }
namespace faults { Rules all(); }
namespace flows { Rules all(); }
namespace opcodes { Rules all(); }
namespace paging { Rules all(); }
namespace protection { Rules all(); }
namespace queues { Rules all(); }
namespace regions { Rules all(); }
namespace retries { Rules all(); }
namespace srq { Rules all(); }
namespace states { Rules all(); }
namespace tags { Rules all(); }
namespace windows { Rules all(); }
namespace xrc { Rules all(); }
// clang-format on

std::span<const Group> groups() {
  static constexpr Group kGroups[] = {
      {"device", "queries, claims and limits", "ibv_query_device(3)", false, true, device::all},
      {"protection", "protection domains and processes", "ibv_alloc_pd(3); IBTA volume 1, 10.2.3",
       false, true, protection::all},
      {"regions", "registration of memory, its keys, and its change",
       "ibv_reg_mr(3), ibv_rereg_mr(3)", false, true, regions::all},
      {"paging", "memory on demand", "ibv_reg_mr(3), ibv_advise_mr(3)", false, true, paging::all},
      {"device-memory", "device memory", "ibv_alloc_dm(3)", true, true, device_memory::all},
      {"windows", "memory windows of types 1, 2A and 2B",
       "ibv_alloc_mw(3), ibv_bind_mw(3), ibv_post_send(3); IBTA volume 1, 10.6.7", true, false,
       windows::all},
      {"states", "states of QPs: each transition with each attribute, and wrong values",
       "ibv_modify_qp(3); IBTA volume 1, 10.3.1 and 11.2.5.2", false, false, states::all},
      {"opcodes", "each opcode and flag on each type of QP, by both interfaces", "ibv_post_send(3)",
       false, false, opcodes::all},
      {"connections", "reliable connections: data, queues, errors, states, events",
       "IBTA volume 1, 9 and 10", true, false, connections::all},
      {"queues", "completion queues: sizes, moderation, fields, channels",
       "ibv_create_cq(3), ibv_create_cq_ex(3)", false, false, queues::all},
      {"srq", "shared receive queues: sizes, limits, events",
       "ibv_create_srq(3), ibv_modify_srq(3)", false, false, srq::all},
      {"xrc", "XRC: domains, SRQs by number, targets",
       "ibv_create_srq_ex(3), ibv_create_qp_ex(3); IBTA volume 1, annex A14", false, false,
       xrc::all},
      {"datagrams", "UD: delivery, Q_Keys, address handles, multicast",
       "ibv_create_ah(3), ibv_attach_mcast(3); IBTA volume 1, 9.8.3", false, false, datagrams::all},
      {"atomics", "atomics under contention", "IBTA volume 1, 9.4.5 and 10.6", false, false,
       atomics::all},
      {"retries", "what a requester repeats, and when it gives up",
       "ibv_modify_qp(3); IBTA volume 1, 9.7.5 and 9.9.2", true, false, retries::all},
      {"cm", "the connection manager: addresses, connections, lookups, groups", "rdma_cm(7)", false,
       true, cm::all},
      {"tags", "SRQs that match tags", "ibv_create_srq_ex(3), ibv_post_srq_ops(3)", false, false,
       tags::all},
      {"flows", "raw packets and the flows that steer them", "ibv_create_flow(3)", false, false,
       flows::all},
      {"faults", "a wire that loses, repeats, delays, reorders and damages packets",
       "IBTA volume 1, 9.7.5 and 9.9; annex A17", true, false, faults::all},
  };
  return kGroups;
}

}  // namespace guest
