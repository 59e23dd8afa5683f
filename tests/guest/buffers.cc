// SPDX-License-Identifier: GPL-2.0-or-later
// buffers: queues whose ring an attribute describes, as memory of the process or as a dma-buf, with
// raw uverbs requests: no provider sends them.
//
//   buffers
//
// Test: buffers
// Tier: quick, 120 s
// Lane: testing
// Boot: pair
// Proves: CQs, QPs and SRQs take the ring that UVERBS_ATTR_CREATE_*_BUF_UMEM describes, in memory
//   or in a dma-buf, instead of the address in the driver's data, which is not mapped here; a
//   description that is too short or unknown is refused, and nothing stays pinned.
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/tern-abi.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <vector>

#include "counts.h"
#include "map.h"
#include "uverbs.h"

namespace guest::uverbs {
namespace {

constexpr const char* kDevice = "tern0";
constexpr std::size_t kRing = 2 * kPage;

// Linux 7.3 defines these; the headers of this suite are older.
struct BufferDesc {
  std::uint32_t type = 1;  // 0: dma-buf, 1: memory
  std::int32_t fd = -1;
  std::uint32_t flags = 0;
  std::uint32_t optional_flags = 0;
  std::uint64_t addr = 0;
  std::uint64_t length = kRing;
};
constexpr unsigned kCqBufUmem = 12;
constexpr unsigned kQpBufUmem = 15;
constexpr unsigned kSrqBufUmem = 14;

class Bench {
 public:
  Bench() : verbs_(uverbs_path(kDevice), sizeof(tern_uresp_alloc_ucontext)) {
    pd_ = verbs_.alloc_pd();
    int err = 0;
    const BufferDesc ring{.addr = ring_.address()};
    if ((err = create_cq(ring, cq_)) != 0) fail("no CQ: {}", std::strerror(err));
    const int mem = ::memfd_create("ring", MFD_ALLOW_SEALING);
    const int dev = ::open("/dev/udmabuf", O_RDWR);
    require(mem >= 0 && dev >= 0 && ::ftruncate(mem, kRing) == 0 &&
                ::fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK) == 0,
            "udmabuf: {}", std::strerror(errno));
    udmabuf_create make{};
    make.memfd = static_cast<__u32>(mem);
    make.size = kRing;
    dmabuf_ = ::ioctl(dev, UDMABUF_CREATE, &make);
    require(dmabuf_ >= 0, "UDMABUF_CREATE: {}", std::strerror(errno));
    ::close(dev);
    ::close(mem);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() { ::close(dmabuf_); }

  int create_cq(const BufferDesc& desc, std::uint32_t& handle) {
    tern_ureq_create_cq req{};
    tern_uresp_create_cq resp{};
    std::uint32_t cqe = 0;
    req.buf_addr = hole_.address();
    req.buf_len = kRing;
    req.log_size = 7;
    req.record_addr = record(0);
    Method m{.object = UVERBS_OBJECT_CQ, .method = UVERBS_METHOD_CQ_CREATE};
    m.handle(UVERBS_ATTR_CREATE_CQ_HANDLE, 0)
        .value(UVERBS_ATTR_CREATE_CQ_CQE, 4, 128)
        .value(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8, 1)
        .value(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4, 0)
        .out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, sizeof(cqe), &cqe);
    return create(m, desc, kCqBufUmem, req, resp, handle);
  }
  int create_qp(const BufferDesc& desc, std::uint32_t& handle) {
    tern_ureq_create_qp req{};
    std::uint32_t number = 0;
    req.buf_addr = hole_.address();
    req.buf_len = kRing;
    req.log_sq_size = 5;
    req.log_sq_stride = 7;
    req.log_rq_size = 7;
    req.log_rq_stride = 5;
    req.record_addr = record(1);
    ib_uverbs_qp_cap cap{};
    cap.max_send_wr = 32;
    cap.max_recv_wr = 128;
    cap.max_send_sge = cap.max_recv_sge = 1;
    Method m{.object = UVERBS_OBJECT_QP, .method = UVERBS_METHOD_QP_CREATE};
    m.handle(UVERBS_ATTR_CREATE_QP_HANDLE, 0)
        .handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd_)
        .handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq_)
        .handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq_)
        .value(UVERBS_ATTR_CREATE_QP_USER_HANDLE, 8, 1)
        .out(UVERBS_ATTR_CREATE_QP_CAP, sizeof(cap), &cap)
        .value(UVERBS_ATTR_CREATE_QP_TYPE, 8, IB_UVERBS_QPT_RC)
        .out(UVERBS_ATTR_CREATE_QP_RESP_CAP, sizeof(cap), &cap)
        .out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, sizeof(number), &number);
    std::array<std::byte, 0> none{};
    return create(m, desc, kQpBufUmem, req, none, handle);
  }
  int create_srq(const BufferDesc& desc, std::uint32_t& handle) {
    tern_ureq_create_srq req{};
    tern_uresp_create_srq resp{};
    std::array<std::uint32_t, 3> out{};
    req.buf_addr = hole_.address();
    req.buf_len = kRing;
    req.log_size = 8;
    req.log_stride = 5;
    req.record_addr = record(2);
    Method m{.object = UVERBS_OBJECT_SRQ, .method = UVERBS_METHOD_SRQ_CREATE};
    m.handle(UVERBS_ATTR_CREATE_SRQ_HANDLE, 0)
        .handle(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, pd_)
        .value(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 8, 1)
        .value(UVERBS_ATTR_CREATE_SRQ_MAX_WR, 4, 256)
        .value(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 4, 1)
        .value(UVERBS_ATTR_CREATE_SRQ_LIMIT, 4, 0)
        .value(UVERBS_ATTR_CREATE_SRQ_TYPE, 8, IB_UVERBS_SRQT_BASIC)
        .out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, 4, &out[0])
        .out(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, 4, &out[1]);
    return create(m, desc, kSrqBufUmem, req, resp, handle);
  }
  int destroy(std::uint16_t object, std::uint32_t handle) {
    ib_uverbs_destroy_qp_resp qp{};
    ib_uverbs_destroy_cq_resp cq{};
    ib_uverbs_destroy_srq_resp srq{};
    Method m{.object = object};
    if (object == UVERBS_OBJECT_CQ) {
      m.method = UVERBS_METHOD_CQ_DESTROY;
      m.handle(UVERBS_ATTR_DESTROY_CQ_HANDLE, handle)
          .out(UVERBS_ATTR_DESTROY_CQ_RESP, sizeof(cq), &cq);
    } else if (object == UVERBS_OBJECT_QP) {
      m.method = UVERBS_METHOD_QP_DESTROY;
      m.handle(UVERBS_ATTR_DESTROY_QP_HANDLE, handle)
          .out(UVERBS_ATTR_DESTROY_QP_RESP, sizeof(qp), &qp);
    } else {
      m.method = UVERBS_METHOD_SRQ_DESTROY;
      m.handle(UVERBS_ATTR_DESTROY_SRQ_HANDLE, handle)
          .out(UVERBS_ATTR_DESTROY_SRQ_RESP, sizeof(srq), &srq);
    }
    return verbs_.call(m);
  }
  [[nodiscard]] std::uint64_t ring() const { return ring_.address(); }
  [[nodiscard]] int dmabuf() const { return dmabuf_; }

 private:
  [[nodiscard]] std::uint64_t record(unsigned n) const { return records_.address() + n * 256; }
  template <typename Req, typename Resp>
  int create(Method& m, const BufferDesc& desc, unsigned attr, const Req& req, Resp& resp,
             std::uint32_t& handle) {
    m.out(attr, sizeof(desc), const_cast<BufferDesc*>(&desc));
    m.out(UVERBS_ATTR_UHW_IN, sizeof(req), const_cast<Req*>(&req));
    if constexpr (!std::is_same_v<Resp, std::array<std::byte, 0>>)
      m.out(UVERBS_ATTR_UHW_OUT, sizeof(resp), &resp);
    const int err = verbs_.call(m);
    handle = static_cast<std::uint32_t>(m.attrs[0].data);
    return err;
  }

  Uverbs verbs_;
  const Map ring_{kRing};
  const Map records_{kPage};
  const Map hole_{kRing, PROT_NONE};
  std::uint32_t pd_ = 0;
  std::uint32_t cq_ = 0;
  int dmabuf_ = -1;
};

using Create = int (Bench::*)(const BufferDesc&, std::uint32_t&);

void rings(Bench& bench, std::uint16_t object, Create create) {
  const Counts before = read_counts(kDevice);
  const BufferDesc memory{.addr = bench.ring()};
  const BufferDesc dmabuf{.type = 0, .fd = bench.dmabuf()};
  for (const BufferDesc& good : {memory, dmabuf}) {
    std::uint32_t handle = 0;
    const int err = (bench.*create)(good, handle);
    require(err == 0, "type {}: {}", good.type, std::strerror(err));
    require_err(bench.destroy(object, handle), 0, "destroy");
  }
  const auto refused = [&](int err, const char* what, const BufferDesc& desc) {
    std::uint32_t handle = 0;
    require_err((bench.*create)(desc, handle), err, what);
  };
  BufferDesc bad = memory;
  bad.length = kPage;
  refused(EINVAL, "a short ring", bad);
  bad = memory;
  bad.flags = 1;
  refused(EINVAL, "an unknown flag", bad);
  bad = memory;
  bad.type = 2;
  refused(EINVAL, "an unknown type", bad);
  bad = memory;
  bad.addr = 0;
  refused(EFAULT, "memory that is not mapped", bad);
  bad = dmabuf;
  bad.fd = 0;
  refused(EINVAL, "a file that is no dma-buf", bad);
  bad = dmabuf;
  bad.addr = kPage;
  refused(EINVAL, "a ring beyond the dma-buf", bad);
  const std::string left = settle(kDevice, before, std::chrono::seconds(10));
  require(left.empty(), "left behind: {}", left);
}

void run(const CommandLine&) {
  Bench bench;
  run_tests(std::vector<Test>{
      {"cq", [&] { rings(bench, UVERBS_OBJECT_CQ, &Bench::create_cq); }},
      {"qp", [&] { rings(bench, UVERBS_OBJECT_QP, &Bench::create_qp); }},
      {"srq", [&] { rings(bench, UVERBS_OBJECT_SRQ, &Bench::create_srq); }},
  });
}

}  // namespace
}  // namespace guest::uverbs

int main(int argc, char** argv) {
  return guest::run_program(argc, argv, {.group = "buffers", .run = guest::uverbs::run});
}
