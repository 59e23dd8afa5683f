// SPDX-License-Identifier: GPL-2.0-or-later
// Domains, regions, windows and device memory.
#include <sys/mman.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "table.h"

namespace guest::verbs {
namespace {

constexpr std::uint32_t kLength = 4096;

DmPtr alloc_dm(const Device& dev) {
  ibv_alloc_dm_attr attr{};
  attr.length = kLength;
  DmPtr dm(ibv_alloc_dm(dev.context(), &attr));
  if (!dm) fail_errno("ibv_alloc_dm");
  return dm;
}

// Writes `length` bytes from `sge` to the peer, and checks that they arrive.
void check_source(const Pair& rc, const ibv_sge& sge, std::uint64_t seed) {
  Send write = rc.request(IBV_WR_RDMA_WRITE, sge.length, 0, 0, 1);
  write.sges = {sge};
  rc.post(write, Api::kPost);
  rc.expect(1);
  rc.remote.check({0, sge.length}, seed);
}

void add_domains(Probes& p) {
  p.works({"ibv_alloc_pd", "ibv_dealloc_pd"}, "a PD that is busy as long as it has a region",
          [](const Device& dev) {
            PdPtr pd = alloc_pd(dev);
            {
              const Memory memory(pd.get(), kLength, kAllAccess);
              require(ibv_dealloc_pd(pd.get()) == EBUSY, "the PD of a region was freed");
            }
            require_err(ibv_dealloc_pd(pd.release()), 0, "ibv_dealloc_pd");
          });
  p.works({"ibv_import_pd", "ibv_unimport_pd"},
          "a region of another context's PD, sent by a QP of that one", [](const Device& dev) {
            const ContextPtr context = import_context(dev);
            ibv_pd* const pd = ibv_import_pd(context.get(), dev.pd()->handle);
            require(pd != nullptr, "ibv_import_pd: {}", errno_name(errno));
            {
              const Pair rc(dev, loop(IBV_QPT_RC));
              const Memory memory(pd, kLength, kAllAccess);
              fill(memory.bytes(), 8);
              check_source(rc, memory.sge(0, kLength), 8);
            }
            ibv_unimport_pd(pd);
          });
  p.works({"ibv_alloc_td", "ibv_dealloc_td"}, "a thread domain that is busy in a parent domain",
          [](const Device& dev) {
            ibv_td_init_attr td_attr{};
            TdPtr td(ibv_alloc_td(dev.context(), &td_attr));
            require(td != nullptr, "ibv_alloc_td: {}", errno_name(errno));
            ibv_parent_domain_init_attr attr{};
            attr.pd = dev.pd();
            attr.td = td.get();
            const PdPtr parent(ibv_alloc_parent_domain(dev.context(), &attr));
            require(parent != nullptr, "ibv_alloc_parent_domain: {}", errno_name(errno));
            require(ibv_dealloc_td(td.get()) == EBUSY, "a thread domain in use was freed");
          });
  p.works({"ibv_alloc_parent_domain"},
          "traffic of QPs that take no locks, in memory of the program", [](const Device& dev) {
            const Device own(ibv_get_device_name(dev.context()->device), dev.gid_index(),
                             Domain::kThread);
            const Pair rc(own, loop(IBV_QPT_RC));
            fill(rc.local.memory().bytes(), 7);
            check_source(rc, rc.local.memory().sge(0, 1000), 7);
            require(ibv_dealloc_pd(own.parent()) == EBUSY, "a parent domain in use was freed");
          });
}

void add_regions(Probes& p) {
  p.partly(
      {"ibv_reg_mr"}, {"ibv_dereg_mr"}, "what is registered is sent",
      [](const Device& dev) {
        const Pair rc(dev, loop(IBV_QPT_RC));
        std::vector<std::byte> bytes(kLength);
        fill(bytes, 3);
        MrPtr mr(ibv_reg_mr(dev.pd(), bytes.data(), bytes.size(), IBV_ACCESS_LOCAL_WRITE));
        require(mr != nullptr, "ibv_reg_mr: {}", errno_name(errno));
        check_source(rc, {reinterpret_cast<std::uintptr_t>(bytes.data()), kLength, mr->lkey}, 3);
        require(
            ibv_reg_mr(dev.pd(), bytes.data(), bytes.size(), IBV_ACCESS_REMOTE_WRITE) == nullptr &&
                errno == EINVAL,
            "REMOTE_WRITE without LOCAL_WRITE");
      },
      {{"FLUSH_PERSISTENT", [](const Device& dev) {
          std::vector<std::byte> bytes(kLength);
          return refusal_of<MrPtr>(ibv_reg_mr(dev.pd(), bytes.data(), bytes.size(),
                                              kAllAccess | IBV_ACCESS_FLUSH_PERSISTENT));
        }}});
  p.works({"ibv_rereg_mr"}, "rights that go", [](const Device& dev) {
    const Pair rc(dev, loop(IBV_QPT_RC));
    require_err(ibv_rereg_mr(rc.remote.end().memory().mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr,
                             nullptr, 0, IBV_ACCESS_LOCAL_WRITE),
                0, "ibv_rereg_mr");
    rc.post(rc.request(IBV_WR_RDMA_WRITE, 8, 0, 0, 1), Api::kPost);
    rc.expect(1, IBV_WC_REM_ACCESS_ERR);
  });
  p.works({"ibv_import_mr", "ibv_unimport_mr"}, "the region's keys in another context",
          [](const Device& dev) {
            const Memory memory(dev.pd(), kLength, kAllAccess);
            const ContextPtr context = import_context(dev);
            ibv_pd* const pd = ibv_import_pd(context.get(), dev.pd()->handle);
            require(pd != nullptr, "ibv_import_pd: {}", errno_name(errno));
            ibv_mr* const mr = ibv_import_mr(pd, memory.mr()->handle);
            require(mr != nullptr, "ibv_import_mr: {}", errno_name(errno));
            require(mr->lkey == memory.lkey() && mr->rkey == memory.rkey(), "other keys");
            ibv_unimport_mr(mr);
            ibv_unimport_pd(pd);
          });
  p.works({"ibv_advise_mr"}, "pages on demand, prefetched", [](const Device& dev) {
    const Memory memory(dev.pd(), 16UL * kLength, kAllAccess | IBV_ACCESS_ON_DEMAND);
    ibv_sge sge = memory.sge(0, 16 * kLength);
    require_err(ibv_advise_mr(dev.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                              IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1),
                0, "ibv_advise_mr");
    std::array<unsigned char, 16> resident{};
    require_err(::mincore(memory.bytes().data(), memory.length(), resident.data()), 0, "mincore");
    for (const unsigned char page : resident) require((page & 1) != 0, "a page is not there");
  });
  p.works({"ibv_alloc_null_mr"}, "reads give zeros, writes vanish", [](const Device& dev) {
    const Pair rc(dev, loop(IBV_QPT_RC));
    const MrPtr mr(ibv_alloc_null_mr(dev.pd()));
    require(mr != nullptr, "ibv_alloc_null_mr: {}", errno_name(errno));
    fill(rc.remote.end().memory().bytes(), 9);
    Send read = rc.request(IBV_WR_RDMA_READ, 64, 0, 0, 1);
    read.sges = {{0, 64, mr->lkey}};
    rc.post(read, Api::kPost);
    rc.expect(1);
    Send write = rc.request(IBV_WR_RDMA_WRITE, 64, 0, 0, 2);
    write.sges = {{0, 64, mr->lkey}};
    rc.post(write, Api::kPost);
    rc.expect(2);
    require(rc.remote.end().memory().load64(0) == 0 && rc.remote.end().memory().load64(56) == 0,
            "not zeros");
  });
}

void add_windows(Probes& p) {
  p.works({"ibv_alloc_mw", "ibv_dealloc_mw", "ibv_bind_mw"}, "a WRITE through a window of type 1",
          [](const Device& dev) {
            const Pair rc(dev, loop(IBV_QPT_RC, kWindowOps));
            const MwPtr mw = alloc_mw(dev.pd(), IBV_MW_TYPE_1);
            ibv_mw_bind bind{};
            bind.wr_id = 1;
            bind.send_flags = IBV_SEND_SIGNALED;
            bind.bind_info = {.mr = rc.remote.end().memory().mr(),
                              .addr = rc.remote.end().memory().address(),
                              .length = 64,
                              .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
            require_err(ibv_bind_mw(rc.remote.end().qp(), mw.get(), &bind), 0, "ibv_bind_mw");
            fill(rc.local.memory().bytes(), 5);
            Send write = rc.request(IBV_WR_RDMA_WRITE, 64, 0, 0, 2);
            write.rkey = mw->rkey;
            rc.post(write, Api::kPost);
            rc.expect(2);
            rc.remote.check({0, 64}, 5);
          });
}

void add_device_memory(Probes& p) {
  p.works(
      {"ibv_alloc_dm", "ibv_free_dm", "ibv_memcpy_to_dm", "ibv_memcpy_from_dm", "ibv_reg_dm_mr"},
      "bytes copied to it, sent and copied back", [](const Device& dev) {
        const Pair rc(dev, loop(IBV_QPT_RC));
        const DmPtr dm = alloc_dm(dev);
        std::vector<std::byte> bytes(kLength), back(kLength);
        fill(bytes, 11);
        require_err(ibv_memcpy_to_dm(dm.get(), 0, bytes.data(), bytes.size()), 0,
                    "ibv_memcpy_to_dm");
        const MrPtr mr(
            ibv_reg_dm_mr(dev.pd(), dm.get(), 0, kLength, kAllAccess | IBV_ACCESS_ZERO_BASED));
        require(mr != nullptr, "ibv_reg_dm_mr: {}", errno_name(errno));
        check_source(rc, {0, kLength, mr->lkey}, 11);
        require_err(ibv_memcpy_from_dm(back.data(), dm.get(), 0, back.size()), 0,
                    "ibv_memcpy_from_dm");
        require(back == bytes, "other bytes came back");
      });
  p.works(
      {"ibv_import_dm", "ibv_unimport_dm"}, "its bytes in another context", [](const Device& dev) {
        const DmPtr dm = alloc_dm(dev);
        const std::uint64_t written = 0x1122334455667788;
        std::uint64_t read = 0;
        require_err(ibv_memcpy_to_dm(dm.get(), 8, &written, sizeof(written)), 0,
                    "ibv_memcpy_to_dm");
        const ContextPtr context = import_context(dev);
        ibv_dm* const imported = ibv_import_dm(context.get(), dm->handle);
        require(imported != nullptr, "ibv_import_dm: {}", errno_name(errno));
        require_err(ibv_memcpy_from_dm(&read, imported, 8, sizeof(read)), 0, "ibv_memcpy_from_dm");
        ibv_unimport_dm(imported);
        require(read == written, "other bytes");
      });
}

}  // namespace

void add_memory_probes(Probes& probes) {
  add_domains(probes);
  add_regions(probes);
  add_windows(probes);
  add_device_memory(probes);
}

}  // namespace guest::verbs
