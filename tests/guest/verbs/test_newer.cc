// SPDX-License-Identifier: GPL-2.0-or-later
// Verbs of rdma-core 65 that 56.1 lacks; built against its headers.
#include "table.h"

#ifdef RDMA_CORE_65
#include <unistd.h>

#include <cerrno>

namespace guest::verbs {
namespace {

constexpr std::size_t kLength = 8192;

void add_buffers(Probes& p) {
  p.works({"ibv_reg_mr_ex"}, "a region with an IOVA of its own", [](const Device& dev) {
    std::vector<std::byte> bytes(kLength);
    ibv_mr_init_attr attr{};
    attr.length = kLength;
    attr.access = IBV_ACCESS_LOCAL_WRITE;
    attr.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA;
    attr.addr = bytes.data();
    attr.iova = 0x10000 + (reinterpret_cast<std::uintptr_t>(bytes.data()) & 0xfff);
    const MrPtr mr(ibv_reg_mr_ex(dev.pd(), &attr));
    require(mr != nullptr, "ibv_reg_mr_ex: {}", errno_name(errno));
    const Ends rc(dev, kRc);
    fill(bytes, 31);
    Send write = rc.request(IBV_WR_RDMA_WRITE, 1, 64);
    write.sges = {{attr.iova, 64, mr->lkey}};
    rc.post(write, Api::kPost);
    rc.sent(1);
    rc.check_there(0, 64, 31);
  });
  p.works({"ibv_alloc_buf", "ibv_free_buf", "ibv_reg_buf_mr", "ibv_export_buf_dmabuf_fd"},
          "memory, registered; no dma-buf, as it is not one", [](const Device& dev) {
            ibv_buf* buf = nullptr;
            void* const memory = ibv_alloc_buf(dev.pd(), kLength, &buf);
            require(memory != nullptr && buf != nullptr, "ibv_alloc_buf: {}", errno_name(errno));
            {
              const MrPtr mr(ibv_reg_buf_mr(dev.pd(), buf, memory, kLength, kAllAccess));
              require(mr != nullptr, "ibv_reg_buf_mr: {}", errno_name(errno));
            }
            errno = 0;
            require(ibv_export_buf_dmabuf_fd(buf) < 0, "a dma-buf");
            require_errno(ENODATA, "ibv_export_buf_dmabuf_fd");
            ibv_free_buf(buf);
          });
  p.works({"ibv_alloc_dmah", "ibv_dealloc_dmah"}, "hints, which have no effect", [](const Device& dev) {
    ibv_dmah_init_attr attr{};
    attr.comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH;
    attr.ph = 1;
    ibv_dmah* const dmah = ibv_alloc_dmah(dev.context(), &attr);
    require(dmah != nullptr, "ibv_alloc_dmah: {}", errno_name(errno));
    require_err(ibv_dealloc_dmah(dmah), 0, "ibv_dealloc_dmah");
  });
  p.works({"ibv_dm_export_dmabuf_fd"}, "a dma-buf of device memory", [](const Device& dev) {
    ibv_alloc_dm_attr attr{};
    attr.length = kLength;
    ibv_dm* const dm = ibv_alloc_dm(dev.context(), &attr);
    require(dm != nullptr, "ibv_alloc_dm: {}", errno_name(errno));
    const int fd = ibv_dm_export_dmabuf_fd(dm);
    const int err = errno;
    if (fd >= 0) {
      ::close(fd);
    }
    require_err(ibv_free_dm(dm), 0, "ibv_free_dm");
    require(fd >= 0, "ibv_dm_export_dmabuf_fd: {}", errno_name(err));
  });
  p.works({"ibv_query_port_speed"}, "in units of 100 Mb/s", [](const Device& dev) {
    std::uint64_t speed = 0;
    require_err(ibv_query_port_speed(dev.context(), 1, &speed), 0, "ibv_query_port_speed");
    require(speed > 0, "a speed of 0");
  });
}

void add_completion_counters(Probes& p) {
  p.refuses({"ibv_query_comp_cntr_caps", "ibv_create_comp_cntr", "ibv_destroy_comp_cntr", "ibv_set_comp_cntr",
             "ibv_set_err_comp_cntr", "ibv_inc_comp_cntr", "ibv_inc_err_comp_cntr", "ibv_read_comp_cntr",
             "ibv_read_err_comp_cntr", "ibv_qp_attach_comp_cntr"},
            "EOPNOTSUPP: Linux 7.2 has no command for them", [](const Device& dev) {
              ibv_comp_cntr_caps caps{};
              require_err(ibv_query_comp_cntr_caps(dev.context(), &caps), EOPNOTSUPP, "ibv_query_comp_cntr_caps");
              ibv_comp_cntr_init_attr init{};
              errno = 0;
              require(ibv_create_comp_cntr(dev.context(), &init) == nullptr, "a counter");
              require_errno(EOPNOTSUPP, "ibv_create_comp_cntr");
              ibv_comp_cntr none{};
              none.context = dev.context();
              std::uint64_t value = 0;
              require_err(ibv_set_comp_cntr(&none, 1), EOPNOTSUPP, "ibv_set_comp_cntr");
              require_err(ibv_set_err_comp_cntr(&none, 1), EOPNOTSUPP, "ibv_set_err_comp_cntr");
              require_err(ibv_inc_comp_cntr(&none, 1), EOPNOTSUPP, "ibv_inc_comp_cntr");
              require_err(ibv_inc_err_comp_cntr(&none, 1), EOPNOTSUPP, "ibv_inc_err_comp_cntr");
              require_err(ibv_read_comp_cntr(&none, &value), EOPNOTSUPP, "ibv_read_comp_cntr");
              require_err(ibv_read_err_comp_cntr(&none, &value), EOPNOTSUPP, "ibv_read_err_comp_cntr");
              require_err(ibv_destroy_comp_cntr(&none), EOPNOTSUPP, "ibv_destroy_comp_cntr");
              const Ends rc(dev, kRc);
              ibv_qp_attach_comp_cntr_attr attach{};
              require_err(ibv_qp_attach_comp_cntr(rc.qp(), &none, &attach), EOPNOTSUPP, "ibv_qp_attach_comp_cntr");
            });
}

}  // namespace

void add_newer_probes(Probes& probes) {
  add_buffers(probes);
  add_completion_counters(probes);
}

}  // namespace guest::verbs
#else
namespace guest::verbs {
void add_newer_probes(Probes&) {}
}  // namespace guest::verbs
#endif
