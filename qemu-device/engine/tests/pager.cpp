// SPDX-License-Identifier: GPL-2.0-or-later
#include "tests/pager.h"

#include <algorithm>

namespace tern {

namespace {
constexpr std::byte kCanary{0xc3};
}

OnDemandMr::OnDemandMr(TestNode& node, std::uint64_t len, std::uint32_t pd, std::uint32_t access,
                       std::uint64_t iova, bool sparse)
    : node_(node), base_(sparse ? iova / kPage : 0) {
  const std::uint64_t num = (len + kPage - 1) / kPage;
  list_ = node.host.alloc(num * 8);
  for (std::uint64_t i = 0; i < num; ++i) frames_.push_back(node.host.alloc(kPage, kPage, 0));
  bits_.resize(num);
  tern_cmd_create_mr cmd{};
  cmd.pages.kind = TERN_PAGES_LIST;
  cmd.pages.page_shift = 12;
  cmd.pages.num = le(sparse ? 0 : static_cast<std::uint32_t>(num));
  cmd.iova = le(sparse ? 0 : iova);
  cmd.length = le(sparse ? UINT64_MAX : len);
  cmd.pdn = le(pd ? pd : node.pd());
  cmd.access = le(access | TERN_ACCESS_ON_DEMAND);
  cmd.kind = TERN_MR_MEMORY;
  cmd.flags = sparse ? TERN_MR_F_SPARSE : TERN_MR_F_INCOMPLETE;
  const std::uint32_t key = node.make(TERN_CMD_CREATE_MR, cmd);
  mr = {.key = key, .iova = iova, .length = len};
  if (sparse) return;
  tern_cmd_update_pages open{.key = le(mr.key), .flags = le(std::uint32_t{TERN_UPDATE_LAST})};
  open.pages.page_shift = 12;
  EXPECT_EQ(node.command(TERN_CMD_UPDATE_PAGES, open), TERN_ST_OK);
}

void OnDemandMr::update(std::uint64_t first, std::uint64_t n) {
  for (std::uint64_t i = first; i < first + n; ++i) {
    node_.host.put(list_ + i * 8, le(bits_[i] ? frames_[i] | bits_[i] : 0));
  }
  tern_cmd_update_pages cmd{.first = le(base_ + first), .key = le(mr.key)};
  cmd.pages.kind = TERN_PAGES_LIST;
  cmd.pages.page_shift = 12;
  cmd.pages.addr = le(list_ + first * 8);
  cmd.pages.num = le(static_cast<std::uint32_t>(n));
  EXPECT_EQ(node_.command(TERN_CMD_UPDATE_PAGES, cmd), TERN_ST_OK);
}

void OnDemandMr::populate(std::uint64_t first, std::uint64_t n, bool writable) {
  n = std::min(n, pages() - first);
  for (std::uint64_t i = first; i < first + n; ++i) {
    bits_[i] = static_cast<std::uint8_t>(TERN_PAGE_READ | (writable ? TERN_PAGE_WRITE : 0));
  }
  update(first, n);
}

void OnDemandMr::evict(std::uint64_t first, std::uint64_t n) {
  n = std::min(n, pages() - first);
  std::fill_n(bits_.begin() + static_cast<std::ptrdiff_t>(first), n, std::uint8_t{0});
  tern_cmd_update_pages cmd{.first = le(base_ + first),
                            .key = le(mr.key),
                            .flags = le(std::uint32_t{TERN_UPDATE_ABSENT})};
  cmd.pages.kind = TERN_PAGES_LIST;
  cmd.pages.num = le(static_cast<std::uint32_t>(n));
  EXPECT_EQ(node_.command(TERN_CMD_UPDATE_PAGES, cmd), TERN_ST_OK);
  // From now on the device must not access the old frames.
  for (std::uint64_t i = first; i < first + n; ++i) {
    const std::uint64_t fresh = node_.host.alloc(kPage, kPage, 0);
    std::copy_n(node_.host.at(frames_[i], kPage), kPage, node_.host.at(fresh, kPage));
    std::fill_n(node_.host.at(frames_[i], kPage), kPage, kCanary);
    gone_.push_back(frames_[i]);
    frames_[i] = fresh;
  }
}

std::vector<std::byte> OnDemandMr::read(std::uint64_t offset, std::uint64_t len) const {
  std::vector<std::byte> bytes(len);
  for (std::uint64_t i = 0; i < len; ++i) {
    bytes[i] = *node_.host.at(frames_[(offset + i) / kPage] + (offset + i) % kPage);
  }
  return bytes;
}

void OnDemandMr::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  for (std::uint64_t i = 0; i < bytes.size(); ++i) {
    *node_.host.at(frames_[(offset + i) / kPage] + (offset + i) % kPage) = bytes[i];
  }
}

void OnDemandMr::check_canaries() const {
  for (const std::uint64_t frame : gone_) {
    const std::byte* const p = node_.host.at(frame, kPage);
    EXPECT_TRUE(std::all_of(p, p + kPage, [](std::byte b) { return b == kCanary; }))
        << "the device stored to a page after its invalidation";
  }
}

void Pager::collect(unsigned limit) {
  for (unsigned i = 0; i < limit; ++i) {
    const auto fault = eq_.take_fault();
    if (!fault) return;
    faults.push_back(*fault);
    ++taken;
  }
}

Status Pager::resolve(std::size_t index, std::uint8_t result) {
  const tern_fault fault = faults[index];
  faults.erase(faults.begin() + static_cast<std::ptrdiff_t>(index));
  const auto mr =
      std::ranges::find(mrs_, le(fault.key), [](const OnDemandMr* m) { return m->key(); });
  EXPECT_NE(mr, mrs_.end()) << "a fault of another key";
  if (mr == mrs_.end()) return TERN_ST_BAD_HANDLE;
  const std::uint64_t at = le(fault.addr) - (*mr)->mr.iova;
  EXPECT_LE(at + le(fault.length), (*mr)->mr.length);
  EXPECT_GT(le(fault.length), 0U);
  const std::uint64_t first = at / OnDemandMr::kPage;
  const std::uint64_t last = whole ? (at + le(fault.length) - 1) / OnDemandMr::kPage : first;
  if (result == TERN_RESUME_RETRY) (*mr)->populate(first, last - first + 1, fault.write != 0);
  return resume(fault, result);
}

Status Pager::resume(const tern_fault& fault, std::uint8_t result) {
  tern_cmd_resume_qp cmd{
      .qpn = fault.qpn, .token = fault.token, .side = fault.side, .result = result};
  return node_.command(TERN_CMD_RESUME_QP, cmd);
}

}  // namespace tern
