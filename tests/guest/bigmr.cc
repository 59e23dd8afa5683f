// SPDX-License-Identifier: GPL-2.0-or-later
// Registers 64 GiB of address space on a machine with far less memory, by mapping one small memfd
// of huge pages repeatedly. RDMA writes and reads at both ends, at the borders of page list chunks
// and in the middle must reach the right bytes. The page list is counted while the region exists
// and freed afterwards.
//
// usage: bigmr [device]; prints ok / not ok lines.
//
// Test: bigmr
// Tier: full, 1200 s
// Boot: pair
// Results: 18
// Proves: Regions of 64 GiB, in 2 MiB and in 4 KiB pages, accessed at both ends and at the borders
//   of page list pieces.

#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kFile = std::uint64_t{64} << 20;
constexpr std::uint64_t kRegion = 64 * kGiB;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHuge = std::uint64_t{2} << 20;

int failures = 0;

void report(bool ok, const std::string& name, const std::string& why = "") {
  std::printf("%sok bigmr/%s%s%s\n", ok ? "" : "not ", name.c_str(), why.empty() ? "" : " - ",
              why.c_str());
  std::fflush(stdout);
  if (!ok) ++failures;
}

[[noreturn]] void die(const char* what) {
  std::printf("not ok bigmr/setup - %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

struct Link {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp[2] = {};
};

int ipv4_gid(ibv_context* context) {
  ibv_gid_entry entries[64];
  const ssize_t n = ibv_query_gid_table(context, entries, 64, 0);
  for (ssize_t i = 0; i < n; ++i) {
    const auto* raw = entries[i].gid.raw;
    if (raw[10] == 0xff && raw[11] == 0xff && raw[0] == 0 && raw[9] == 0) {
      return static_cast<int>(entries[i].gid_index);
    }
  }
  return -1;
}

void connect(Link& link) {
  const int index = ipv4_gid(link.context);
  ibv_gid gid;
  if (index < 0 || ibv_query_gid(link.context, 1, index, &gid)) die("no IPv4 GID");
  for (auto& qp : link.qp) {
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = link.cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {16, 1, 1, 1, 0};
    qp = ibv_create_qp(link.pd, &init);
    if (qp == nullptr) die("ibv_create_qp");
  }
  for (int i = 0; i < 2; ++i) {
    ibv_qp_attr a = {};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (ibv_modify_qp(link.qp[i], &a,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
      die("to INIT");
    a = {};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_4096;
    a.dest_qp_num = link.qp[1 - i]->qp_num;
    a.max_dest_rd_atomic = 4;
    a.min_rnr_timer = 1;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh.dgid = gid;
    a.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(index);
    a.ah_attr.grh.hop_limit = 64;
    if (ibv_modify_qp(link.qp[i], &a,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
      die("to RTR");
    a = {};
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 18;
    a.retry_cnt = 7;
    a.rnr_retry = 7;
    a.max_rd_atomic = 4;
    if (ibv_modify_qp(link.qp[i], &a,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
      die("to RTS");
  }
}

ibv_wc_status move(Link& link, ibv_wr_opcode opcode, ibv_mr* local, std::uint64_t addr,
                   ibv_mr* remote, std::uint64_t raddr, std::uint32_t len) {
  ibv_sge sge = {addr, len, local->lkey};
  ibv_send_wr wr = {};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = raddr;
  wr.wr.rdma.rkey = remote->rkey;
  ibv_send_wr* bad;
  if (ibv_post_send(link.qp[0], &wr, &bad)) return IBV_WC_GENERAL_ERR;
  ibv_wc wc = {};
  while (ibv_poll_cq(link.cq, 1, &wc) == 0) {
  }
  return wc.status;
}

// Writes a pattern to `offset` of the region, checks it in the file, and reads it back.
bool crosses(Link& link, ibv_mr* small, char* buffer, ibv_mr* big, std::uint64_t iova,
             const char* file, std::uint64_t offset, std::uint32_t len) {
  for (std::uint32_t i = 0; i < len; ++i) buffer[i] = static_cast<char>(offset / kPage + i * 7 + 1);
  if (move(link, IBV_WR_RDMA_WRITE, small, reinterpret_cast<std::uintptr_t>(buffer), big,
           iova + offset, len) != IBV_WC_SUCCESS)
    return false;
  for (std::uint32_t i = 0; i < len; ++i) {
    if (file[(offset + i) % kFile] != buffer[i]) return false;
  }
  char* const back = buffer + len;
  std::memset(back, 0, len);
  if (move(link, IBV_WR_RDMA_READ, small, reinterpret_cast<std::uintptr_t>(back), big,
           iova + offset, len) != IBV_WC_SUCCESS)
    return false;
  return std::memcmp(back, buffer, len) == 0;
}

void exercise(Link& link, ibv_mr* small, char* buffer, char* region, std::uint64_t iova,
              const char* file, const std::string& name) {
  const auto start = std::chrono::steady_clock::now();
  ibv_mr* const big =
      ibv_reg_mr_iova(link.pd, region, kRegion, iova,
                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (big == nullptr)
    return report(false, name, std::string("ibv_reg_mr_iova: ") + std::strerror(errno));
  char note[64];
  std::snprintf(note, sizeof(note), "registered in %.2f s", took.count());
  report(true, name + "-register", note);
  // A page list chunk has 512 entries; one UPDATE_PAGES command takes up to 512 chunks.
  const std::uint64_t chunk = 512 * kPage;
  const std::uint64_t piece = 512 * chunk;
  const std::uint64_t offsets[] = {0,
                                   kPage - 3,
                                   chunk - 5,
                                   piece - 100,
                                   17 * piece - 1,
                                   kRegion / 2 + 12345,
                                   kRegion - piece - 7,
                                   kRegion - 8192};
  for (const std::uint64_t offset : offsets) {
    char label[64];
    std::snprintf(label, sizeof(label), "-at-%#" PRIx64, offset);
    report(crosses(link, small, buffer, big, iova, file, offset, 8000), name + label);
  }
  if (ibv_dereg_mr(big)) report(false, name + "-dereg", std::strerror(errno));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string wanted = argc > 1 ? argv[1] : "tern0";
  Link link;
  ibv_device** const list = ibv_get_device_list(nullptr);
  for (int i = 0; list != nullptr && list[i] != nullptr; ++i) {
    if (wanted == ibv_get_device_name(list[i])) link.context = ibv_open_device(list[i]);
  }
  if (link.context == nullptr) die("no such device");
  link.pd = ibv_alloc_pd(link.context);
  link.cq = ibv_create_cq(link.context, 64, nullptr, nullptr, 0);
  if (link.pd == nullptr || link.cq == nullptr) die("ibv_alloc_pd, ibv_create_cq");
  connect(link);

  if (FILE* f = std::fopen("/proc/sys/vm/nr_hugepages", "w")) {
    std::fprintf(f, "%d\n", static_cast<int>(kFile / kHuge));
    std::fclose(f);
  }
  const int fd = memfd_create("bigmr", MFD_HUGETLB);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(kFile))) die("memfd of huge pages");
  char* const window = static_cast<char*>(mmap(nullptr, kRegion + kHuge, PROT_NONE,
                                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (window == MAP_FAILED) die("mmap of 64 GiB");
  char* const region = window + (kHuge - reinterpret_cast<std::uintptr_t>(window) % kHuge);
  for (std::uint64_t at = 0; at < kRegion; at += kFile) {
    if (mmap(region + at, kFile, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
        MAP_FAILED)
      die("mmap of the memfd");
  }
  auto* const buffer = static_cast<char*>(std::aligned_alloc(4096, 16384));
  ibv_mr* const small = ibv_reg_mr(link.pd, buffer, 16384, IBV_ACCESS_LOCAL_WRITE);
  if (small == nullptr) die("ibv_reg_mr");
  const auto base = reinterpret_cast<std::uint64_t>(region);
  // With the same alignment the region has 2 MiB pages. With an IOVA off by 4 KiB it has 16 Mi
  // pages of 4 KiB.
  exercise(link, small, buffer, region, base, region, "64g-2m-pages");
  exercise(link, small, buffer, region, base + kPage, region, "64g-4k-pages");
  return failures != 0;
}
