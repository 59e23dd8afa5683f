// SPDX-License-Identifier: GPL-2.0-or-later
// Regions on dma-bufs of udmabuf, the system heap and vgem.
#include <drm/drm.h>
#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <dlfcn.h>

#include <cerrno>
#include <utility>

#include "paging.h"

namespace guest {
namespace {

constexpr std::size_t kBuf = 1200 * kPage;

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { reset(); }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

Fd udmabuf() {
  const Fd mem(::memfd_create("udmabuf", MFD_ALLOW_SEALING));
  require(::ftruncate(mem.get(), kBuf) == 0 && ::fcntl(mem.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0,
          "memfd");
  const Fd dev(::open("/dev/udmabuf", O_RDWR));
  require(dev.get() >= 0, "/dev/udmabuf: {}", errno_name(errno));
  udmabuf_create create{.memfd = static_cast<__u32>(mem.get()),
                        .flags = UDMABUF_FLAGS_CLOEXEC,
                        .offset = 0,
                        .size = kBuf};
  return Fd(::ioctl(dev.get(), UDMABUF_CREATE, &create));
}

Fd heap() {
  const Fd dev(::open("/dev/dma_heap/system", O_RDWR));
  require(dev.get() >= 0, "/dev/dma_heap/system: {}", errno_name(errno));
  dma_heap_allocation_data data{
      .len = kBuf, .fd = 0, .fd_flags = O_RDWR | O_CLOEXEC, .heap_flags = 0};
  require(::ioctl(dev.get(), DMA_HEAP_IOCTL_ALLOC, &data) == 0, "DMA_HEAP_IOCTL_ALLOC: {}",
          errno_name(errno));
  return Fd(static_cast<int>(data.fd));
}

// A buffer of vgem, a DRM device without hardware.
Fd vgem() {
  if (::system("modprobe vgem 2>/dev/null") != 0) fail("there is no vgem");
  for (int n = 0; n < 4; ++n) {
    const Fd dev(::open(("/dev/dri/card" + std::to_string(n)).c_str(), O_RDWR));
    char name[16] = "";
    drm_version version{};
    version.name_len = sizeof(name) - 1;
    version.name = name;
    if (dev.get() < 0 || ::ioctl(dev.get(), DRM_IOCTL_VERSION, &version) != 0 ||
        std::string_view(name) != "vgem")
      continue;
    drm_mode_create_dumb create{};
    create.height = kBuf / kPage;
    create.width = kPage / 4;
    create.bpp = 32;
    require(::ioctl(dev.get(), DRM_IOCTL_MODE_CREATE_DUMB, &create) == 0,
            "DRM_IOCTL_MODE_CREATE_DUMB: {}", errno_name(errno));
    drm_prime_handle prime{.handle = create.handle, .flags = DRM_CLOEXEC | DRM_RDWR, .fd = -1};
    require(::ioctl(dev.get(), DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime) == 0,
            "DRM_IOCTL_PRIME_HANDLE_TO_FD: {}", errno_name(errno));
    return Fd(prime.fd);  // The buffer outlives the device's descriptor.
  }
  fail("vgem has no /dev/dri/card*");
}

MrPtr try_reg(const Device& dev, int fd, std::uint64_t offset, std::size_t length,
              std::uint64_t iova, int access = kAllAccess) {
  errno = 0;
  return MrPtr(ibv_reg_dmabuf_mr(dev.pd(), offset, length, iova, fd, access));
}

void expect_refused(const Device& dev, int fd, std::uint64_t offset, std::size_t length,
                    std::uint64_t iova, int err, const char* what) {
  const MrPtr mr = try_reg(dev, fd, offset, length, iova);
  require(mr == nullptr && errno == err, "{}: {}", what, mr ? "works" : errno_name(errno));
}

void use(const Device& dev, Fd buf) {
  require(buf.get() >= 0, "the exporter refuses: {}", errno_name(errno));
  const Map map(kBuf, PROT_READ | PROT_WRITE, MAP_SHARED, buf.get());
  const Map plain(kBuf);
  const MrPtr local = reg(dev, plain, kAllAccess);
  constexpr std::uint64_t kIova = 0x100000, kOffset = 3 * kPage + 100;
  constexpr std::uint32_t kLen = 700 * kPage;
  MrPtr mr = try_reg(dev, buf.get(), kOffset, kLen, kIova + 100);
  require(mr != nullptr, "ibv_reg_dmabuf_mr: {}", errno_name(errno));
  Loop pair(dev);
  fill(plain.bytes(0, kLen), 1);
  pair.must(write_from(sge(local.get(), plain.address(), kLen), kIova + 100, mr->rkey), "WRITE");
  expect_pattern(map.bytes(kOffset, kLen), 1, "WRITE");
  expect_zeros(map.bytes(0, kOffset), "in front of the region");
  expect_zeros(map.bytes(kOffset + kLen, kPage), "after the region");
  fill(map.bytes(kOffset, kLen), 2);
  // The region keeps the memory when the descriptor is closed.
  buf.reset();
  pair.must(read_into(sge(local.get(), plain.address(), kLen), kIova + 100, mr->rkey), "READ");
  expect_pattern(plain.bytes(0, kLen), 2, "READ");
  const ibv_sge from = sge(mr.get(), kIova + 100 + kPage, 8);
  pair.must(write_from(from, plain.address(), local->rkey), "WRITE from it");
  require(std::memcmp(plain.at(), map.at(kOffset + kPage), 8) == 0, "WRITE from it");
  ibv_sge advised = sge(mr.get(), kIova + 100, kLen);
  require_err(ibv_advise_mr(dev.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH,
                            &advised, 1),
              0, "ibv_advise_mr");
  const auto status =
      pair.run(write_from(sge(local.get(), plain.address(), 2), kIova + 100 + kLen - 1, mr->rkey));
  require(status == IBV_WC_REM_ACCESS_ERR, "WRITE beyond the region: {}",
          ibv_wc_status_str(status));
}

void errors(const Device& dev) {
  const Fd buf = udmabuf();
  expect_refused(dev, buf.get(), 0, kBuf + 1, 0, EINVAL, "more than the dma-buf");
  expect_refused(dev, buf.get(), kBuf, kPage, 0, EINVAL, "beyond the dma-buf");
  expect_refused(dev, buf.get(), 100, kPage, 200, EINVAL, "another offset in the page");
  expect_refused(dev, -1, 0, kPage, 0, EBADF, "no descriptor");
  const Fd file(::open("/dev/null", O_RDWR));
  expect_refused(dev, file.get(), 0, kPage, 0, EINVAL, "another file");
  // A region without the right to write.
  const MrPtr mr = try_reg(dev, buf.get(), 0, kBuf, 0, IBV_ACCESS_REMOTE_READ);
  require(mr != nullptr, "read-only: {}", errno_name(errno));
  const Map plain(kPage);
  const MrPtr local = reg(dev, plain, kAllAccess);
  Loop pair(dev);
  pair.must(read_into(sge(local.get(), plain.address(), 8), 0, mr->rkey), "READ");
  require(pair.run(write_from(sge(local.get(), plain.address(), 8), 0, mr->rkey)) ==
              IBV_WC_REM_ACCESS_ERR,
          "WRITE without the right");
}

ibv_dm* alloc_dm(const Device& dev, std::size_t length) {
  ibv_alloc_dm_attr attr{};
  attr.length = length;
  ibv_dm* const dm = ibv_alloc_dm(dev.context(), &attr);
  require(dm != nullptr, "ibv_alloc_dm: {}", errno_name(errno));
  return dm;
}

// Exports device memory. rdma-core has the verb from 62 on.
Fd export_dm(ibv_dm* dm) {
  const auto verb =
      reinterpret_cast<int (*)(ibv_dm*)>(::dlsym(RTLD_DEFAULT, "ibv_dm_export_dmabuf_fd"));
  require(verb != nullptr, "libibverbs has no ibv_dm_export_dmabuf_fd()");
  Fd buf(verb(dm));
  require(buf.get() >= 0, "ibv_dm_export_dmabuf_fd: {}", errno_name(errno));
  return buf;
}

// Device memory of one adapter in a region of another one, in both directions.
void peer_to_peer(const Device& first) {
  const Device second("tern1", -1);
  constexpr std::uint32_t kLen = 16 * kPage;
  for (const auto& [from, to] : {std::pair(&first, &second), std::pair(&second, &first)}) {
    ibv_dm* const dm = alloc_dm(*from, kLen);
    Fd buf = export_dm(dm);
    const MrPtr mr = try_reg(*to, buf.get(), 0, kLen, 0);
    require(mr != nullptr, "ibv_reg_dmabuf_mr: {}", errno_name(errno));
    const Map plain(kLen);
    const MrPtr local = reg(*to, plain, kAllAccess);
    Loop pair(*to);
    std::vector<std::byte> bytes(kLen);
    fill(plain.bytes(), 1);
    pair.must(write_from(sge(local.get(), plain.address(), kLen), 0, mr->rkey),
              "WRITE to the other's memory");
    require_err(ibv_memcpy_from_dm(bytes.data(), dm, 0, kLen), 0, "ibv_memcpy_from_dm");
    expect_pattern(bytes, 1, "WRITE to the other's memory");
    fill(bytes, 2);
    require_err(ibv_memcpy_to_dm(dm, 0, bytes.data(), kLen), 0, "ibv_memcpy_to_dm");
    pair.must(read_into(sge(local.get(), plain.address(), kLen), 0, mr->rkey),
              "READ of the other's memory");
    expect_pattern(plain.bytes(), 2, "READ of the other's memory");
    // Without its descriptor the memory is revoked: ib_core waits for that, and the region is
    // empty.
    buf.reset();
    const auto status = pair.run(read_into(sge(local.get(), plain.address(), 8), 0, mr->rkey));
    require(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_SUCCESS,
            "READ after the descriptor is closed: {}", ibv_wc_status_str(status));
    require_err(ibv_free_dm(dm), 0, "ibv_free_dm");
    Loop other(*to);
    const auto after = other.run(read_into(sge(local.get(), plain.address(), 8), 0, mr->rkey));
    require(after == IBV_WC_REM_ACCESS_ERR, "READ of freed memory: {}", ibv_wc_status_str(after));
  }
}

void write_sysfs(const std::string& path) {
  const Fd file(::open(path.c_str(), O_WRONLY));
  require(file.get() >= 0 && ::write(file.get(), "1", 1) == 1, "{}: {}", path, errno_name(errno));
}

// The adapter that exports its memory is removed while a region of another one uses it. The region
// stays, and is empty.
void exporter_removed(const Device& dev) {
  constexpr std::uint32_t kLen = 16 * kPage;
  const Map plain(kLen);
  const MrPtr local = reg(dev, plain, kAllAccess);
  MrPtr mr;
  Fd buf;
  {
    const Device exporter("tern1", -1);
    ibv_dm* const dm = alloc_dm(exporter, kLen);
    buf = export_dm(dm);
    mr = try_reg(dev, buf.get(), 0, kLen, 0);
    require(mr != nullptr, "ibv_reg_dmabuf_mr: {}", errno_name(errno));
    Loop pair(dev);
    pair.must(write_from(sge(local.get(), plain.address(), kLen), 0, mr->rkey),
              "WRITE to the other's memory");
    write_sysfs("/sys/class/infiniband/tern1/device/remove");
    require(pair.run(write_from(sge(local.get(), plain.address(), kLen), 0, mr->rkey)) ==
                IBV_WC_REM_ACCESS_ERR,
            "WRITE after the removal");
    (void)ibv_free_dm(dm);
  }
  require(try_reg(dev, buf.get(), 0, kLen, 0) == nullptr,
          "memory of a removed adapter can be registered");
  Loop other(dev);
  require(other.run(read_into(sge(local.get(), plain.address(), 8), 0, mr->rkey)) ==
              IBV_WC_REM_ACCESS_ERR,
          "READ after the removal");
  mr.reset();
  buf.reset();
  write_sysfs("/sys/bus/pci/rescan");
}

}  // namespace

std::vector<Test> peer_tests(const Device& dev) {
  return tests_of(dev, {{"peer-to-peer", peer_to_peer}, {"exporter-removed", exporter_removed}});
}

std::vector<Test> dmabuf_tests(const Device& dev) {
  return tests_of(dev, {{"udmabuf", [](const Device& of) { use(of, udmabuf()); }},
                        {"dma-heap", [](const Device& of) { use(of, heap()); }},
                        {"vgem", [](const Device& of) { use(of, vgem()); }},
                        {"dma-buf-errors", errors}});
}

}  // namespace guest
