// SPDX-License-Identifier: GPL-2.0-or-later
// A device configured without windows, device memory and on-demand paging: it advertises none of
// them, refuses their verbs as unsupported, and does everything else.
#include <algorithm>
#include <array>
#include <cerrno>

#include "counts.h"
#include "devmem.h"

namespace guest {
namespace {

void not_advertised(const Scene& env) {
  ibv_device_attr_ex attr{};
  require_err(ibv_query_device_ex(env.dev.context(), nullptr, &attr), 0, "ibv_query_device_ex");
  require(attr.max_dm_size == 0, "max_dm_size {}", attr.max_dm_size);
  require(attr.orig_attr.max_mw == 0, "max_mw {}", attr.orig_attr.max_mw);
  const auto flags = attr.orig_attr.device_cap_flags;
  require((flags & (IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A |
                    IBV_DEVICE_MEM_WINDOW_TYPE_2B)) == 0,
          "device_cap_flags {:#x}", static_cast<unsigned>(flags));
}

void no_device_memory(const Scene& env) {
  for (const std::size_t n : {0UL, 1UL, 4096UL, 1UL << 20}) {
    const DmPtr dm = try_alloc_dm(env.dev.context(), n);
    require(!dm, "ibv_alloc_dm succeeds");
    require_err(errno, EOPNOTSUPP, "ibv_alloc_dm");
  }
}

void no_window(const Scene& env) {
  for (const ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    ibv_mw* mw = ibv_alloc_mw(env.dev.pd(), type);
    const int err = errno;
    require(mw == nullptr, "ibv_alloc_mw succeeds");
    require_err(err, EOPNOTSUPP, "ibv_alloc_mw");
  }
}

void no_paging(const Scene& env) {
  ibv_device_attr_ex attr{};
  require_err(ibv_query_device_ex(env.dev.context(), nullptr, &attr), 0, "ibv_query_device_ex");
  require(attr.odp_caps.general_caps == 0, "odp_caps {:#x}", attr.odp_caps.general_caps);
  std::array<std::byte, 64> bytes{};
  errno = 0;
  require(ibv_reg_mr(env.dev.pd(), bytes.data(), bytes.size(), IBV_ACCESS_ON_DEMAND) == nullptr,
          "memory on demand");
  require_err(errno, EOPNOTSUPP, "memory on demand");
}

// A QP with bind among its send operations, and a bind on a QP without it.
void no_bind(const Scene& env) {
  const CqPtr cq = create_cq(env.dev, 16);
  QpSpec spec{.type = IBV_QPT_RC,
              .send_cq = cq.get(),
              .recv_cq = cq.get(),
              .send_ops = kRcSendOps | IBV_QP_EX_WITH_BIND_MW};
  errno = 0;
  require(try_create_qp(env.dev, spec) == nullptr, "a QP with IBV_QP_EX_WITH_BIND_MW");
  require_err(errno, EOPNOTSUPP, "a QP with IBV_QP_EX_WITH_BIND_MW");
  spec.send_ops = kRcSendOps;
  const QpPtr qp = create_qp(env.dev, spec);
  connect_to_itself(qp.get(), env.dev);
  const Memory memory(env.dev.pd(), 4096, kAllAccess);
  ibv_sge sge = memory.sge(0, 64);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 0;
  ibv_send_wr* bad = nullptr;
  require_err(ibv_post_send(qp.get(), &wr, &bad), EOPNOTSUPP, "ibv_post_send of a bind");
  require(bad == &wr, "bad_wr is another");
  expect_quiet(cq.get(), 100);
}

void no_object(const Scene& env) {
  const auto counts = read_counts(ibv_get_device_name(env.dev.context()->device));
  for (const char* name : {"alive_mw", "alive_dm", "dm_bytes"}) {
    require(counts.at(name) == 0, "{} is {}", name, counts.at(name));
  }
}

// A WRITE, a READ and a SEND between two local QPs.
void other_things(const Scene& env) {
  const Pair pair(env.dev);
  constexpr Range kAll{0, 4096};
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND}) {
    const bool read = opcode == IBV_WR_RDMA_READ;
    pair.fill(kAll, read ? 1 : 2);
    pair.remote.fill(kAll, read ? 2 : 1);
    if (opcode == IBV_WR_SEND) pair.remote.post_recv(1, kAll);
    pair.run(pair.request(opcode, kAll.length), Api::kWr);
    if (opcode == IBV_WR_SEND) pair.expect_recv(1);
    pair.check(kAll, 2);
    pair.remote.check(kAll, 2);
  }
  require_err(to_state(pair.local.qp(), IBV_QPS_ERR), 0, "to ERR");
}

}  // namespace

std::vector<Test> bare_tests(const Scene& env) {
  return tests_of(env, {{"not-advertised", not_advertised},
                        {"no-device-memory", no_device_memory},
                        {"no-window", no_window},
                        {"no-paging", no_paging},
                        {"no-bind", no_bind},
                        {"other-things", other_things},
                        {"no-object", no_object}});
}

}  // namespace guest
