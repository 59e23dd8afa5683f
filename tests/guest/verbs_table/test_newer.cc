// SPDX-License-Identifier: GPL-2.0-or-later
// Verbs of rdma-core 65 that 56.1 lacks; built against its headers.
#include "table.h"

#ifdef RDMA_CORE_65
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <format>
#include <fstream>
#include <set>
#include <span>

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
    const Pair rc(dev, loop(IBV_QPT_RC));
    fill(bytes, 31);
    Send write = rc.request(IBV_WR_RDMA_WRITE, 64, 0, 0, 1);
    write.sges = {{attr.iova, 64, mr->lkey}};
    rc.post(write, Api::kPost);
    rc.expect(1);
    rc.remote.check({0, 64}, 31);
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
  p.works({"ibv_alloc_dmah", "ibv_dealloc_dmah"},
          "a region with hints, which is sent; busy meanwhile", [](const Device& dev) {
            ibv_dmah_init_attr attr{};
            attr.comp_mask = IBV_DMAH_INIT_ATTR_MASK_PH;
            attr.ph = 1;
            ibv_dmah* const dmah = ibv_alloc_dmah(dev.context(), &attr);
            require(dmah != nullptr, "ibv_alloc_dmah: {}", errno_name(errno));
            {
              std::vector<std::byte> bytes(kLength);
              fill(bytes, 32);
              ibv_mr_init_attr init{};
              init.length = kLength;
              init.access = IBV_ACCESS_LOCAL_WRITE;
              init.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH;
              init.addr = bytes.data();
              init.dmah = dmah;
              const MrPtr mr(ibv_reg_mr_ex(dev.pd(), &init));
              require(mr != nullptr, "ibv_reg_mr_ex: {}", errno_name(errno));
              const Pair rc(dev, loop(IBV_QPT_RC));
              Send write = rc.request(IBV_WR_RDMA_WRITE, 64, 0, 0, 1);
              write.sges = {{reinterpret_cast<std::uintptr_t>(bytes.data()), 64, mr->lkey}};
              rc.post(write, Api::kPost);
              rc.expect(1);
              rc.remote.check({0, 64}, 32);
              require_err(ibv_dealloc_dmah(dmah), EBUSY, "ibv_dealloc_dmah of a region's hints");
            }
            require_err(ibv_dealloc_dmah(dmah), 0, "ibv_dealloc_dmah");
          });
  p.works({"ibv_dm_export_dmabuf_fd"}, "a dma-buf as long as the device memory",
          [](const Device& dev) {
            ibv_alloc_dm_attr attr{};
            attr.length = kLength;
            ibv_dm* const dm = ibv_alloc_dm(dev.context(), &attr);
            require(dm != nullptr, "ibv_alloc_dm: {}", errno_name(errno));
            const int fd = ibv_dm_export_dmabuf_fd(dm);
            const int err = errno;
            const off_t length = fd < 0 ? -1 : ::lseek(fd, 0, SEEK_END);
            if (fd >= 0) ::close(fd);
            require_err(ibv_free_dm(dm), 0, "ibv_free_dm");
            require(fd >= 0, "ibv_dm_export_dmabuf_fd: {}", errno_name(err));
            require(length == static_cast<off_t>(kLength), "{} bytes", length);
          });
  p.measures({"ibv_query_port_speed"}, "", [](const Device& dev) {
    std::uint64_t speed = 0;
    require_err(ibv_query_port_speed(dev.context(), 1, &speed), 0, "ibv_query_port_speed");
    const std::string net = std::string("/sys/class/infiniband/") +
                            ibv_get_device_name(dev.context()->device) + "/device/net";
    std::uint64_t mbps = 0;
    for (const auto& entry : std::filesystem::directory_iterator(net)) {
      std::ifstream(entry.path() / "speed") >> mbps;
    }
    require(speed * 100 == mbps && speed > 0, "{} times 100 Mb/s, and the netdev has {} Mb/s",
            speed, mbps);
    return std::format("{}, in units of 100 Mb/s, as the netdev", speed);
  });
}

// Values of a completion counter.
void require_values(ibv_comp_cntr* counter, std::uint64_t comp, std::uint64_t err) {
  std::uint64_t got = 0, failed = 0;
  require_err(ibv_read_comp_cntr(counter, &got), 0, "ibv_read_comp_cntr");
  require_err(ibv_read_err_comp_cntr(counter, &failed), 0, "ibv_read_err_comp_cntr");
  require(got == comp && failed == err, "{} and {}, not {} and {}", got, failed, comp, err);
}

void add_completion_counters(Probes& p) {
  p.measures({"ibv_query_comp_cntr_caps"}, "", [](const Device& dev) {
    ibv_comp_cntr_caps caps{};
    require_err(ibv_query_comp_cntr_caps(dev.context(), &caps), 0, "ibv_query_comp_cntr_caps");
    require(caps.max_value == UINT64_MAX, "max_value {}", caps.max_value);
    return std::format("{} counters of 64 bits, of operations {:#x}", caps.max_counters,
                       caps.supported_qp_attach_ops);
  });
  p.works({"ibv_create_comp_cntr", "ibv_destroy_comp_cntr", "ibv_qp_attach_comp_cntr",
           "ibv_read_comp_cntr", "ibv_read_err_comp_cntr"},
          "the WRITEs of a QP, and one that fails; busy meanwhile", [](const Device& dev) {
            ibv_comp_cntr_init_attr init{};
            ibv_comp_cntr* const counter = ibv_create_comp_cntr(dev.context(), &init);
            require(counter != nullptr, "ibv_create_comp_cntr: {}", errno_name(errno));
            {
              PairOptions options = loop(IBV_QPT_RC);
              options.connect = false;
              Pair rc(dev, options);
              ibv_qp_attach_comp_cntr_attr attach{};
              attach.op_mask = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE;
              require_err(ibv_qp_attach_comp_cntr(rc.local.qp(), counter, &attach), 0,
                          "ibv_qp_attach_comp_cntr");
              rc.connect();
              for (unsigned i = 0; i < 3; ++i) rc.run(rc.request(IBV_WR_RDMA_WRITE, 64));
              rc.run(rc.request(IBV_WR_RDMA_READ, 64));
              require_values(counter, 3, 0);
              Send wrong = rc.request(IBV_WR_RDMA_WRITE, 64);
              wrong.rkey ^= 0x100;
              rc.run(wrong, Api::kPost, IBV_WC_REM_ACCESS_ERR);
              require_values(counter, 3, 1);
              require_err(ibv_destroy_comp_cntr(counter), EBUSY, "ibv_destroy_comp_cntr of a QP's");
            }
            require_err(ibv_destroy_comp_cntr(counter), 0, "ibv_destroy_comp_cntr");
          });
  p.works(
      {"ibv_set_comp_cntr", "ibv_set_err_comp_cntr", "ibv_inc_comp_cntr", "ibv_inc_err_comp_cntr"},
      "values set and added to", [](const Device& dev) {
        ibv_comp_cntr_init_attr init{};
        ibv_comp_cntr* const counter = ibv_create_comp_cntr(dev.context(), &init);
        require(counter != nullptr, "ibv_create_comp_cntr: {}", errno_name(errno));
        require_err(ibv_set_comp_cntr(counter, 5), 0, "ibv_set_comp_cntr");
        require_err(ibv_inc_comp_cntr(counter, 2), 0, "ibv_inc_comp_cntr");
        require_err(ibv_set_err_comp_cntr(counter, 8), 0, "ibv_set_err_comp_cntr");
        require_err(ibv_inc_err_comp_cntr(counter, 1), 0, "ibv_inc_err_comp_cntr");
        require_values(counter, 7, 9);
        require_err(ibv_destroy_comp_cntr(counter), 0, "ibv_destroy_comp_cntr");
      });
}

}  // namespace

void add_newer_probes(Probes& probes) {
  const std::size_t before = probes.all().size();
  add_buffers(probes);
  add_completion_counters(probes);
  std::set<std::string> pages;
  for (const Probe& probe : std::span(probes.all()).subspan(before)) {
    pages.insert(probe.pages.begin(), probe.pages.end());
  }
  const std::vector<std::string> all = newer_pages();
  require(pages == std::set(all.begin(), all.end()), "newer_pages() is not up to date");
}

}  // namespace guest::verbs
#else
namespace guest::verbs {
void add_newer_probes(Probes&) {}
}  // namespace guest::verbs
#endif

std::vector<std::string> guest::verbs::newer_pages() {
  return {"ibv_alloc_buf",
          "ibv_alloc_dmah",
          "ibv_create_comp_cntr",
          "ibv_dealloc_dmah",
          "ibv_destroy_comp_cntr",
          "ibv_dm_export_dmabuf_fd",
          "ibv_export_buf_dmabuf_fd",
          "ibv_free_buf",
          "ibv_inc_comp_cntr",
          "ibv_inc_err_comp_cntr",
          "ibv_qp_attach_comp_cntr",
          "ibv_query_comp_cntr_caps",
          "ibv_query_port_speed",
          "ibv_read_comp_cntr",
          "ibv_read_err_comp_cntr",
          "ibv_reg_buf_mr",
          "ibv_reg_mr_ex",
          "ibv_set_comp_cntr",
          "ibv_set_err_comp_cntr"};
}
