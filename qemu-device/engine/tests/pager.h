// SPDX-License-Identifier: GPL-2.0-or-later
// A driver's on-demand paging: pages of a region become present when the device faults, and absent
// when the host reclaims them. The old frame of an evicted page is filled with a canary; its data
// moves.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "tests/mini_driver.h"

namespace tern {

class OnDemandMr {
 public:
  static constexpr std::uint64_t kPage = FakeHost::kPage;

  // Created closed with absent pages, then opened by an UPDATE_PAGES without pages. With `sparse`,
  // the region of the device is the whole address space, and these pages are those at `iova`.
  OnDemandMr(TestNode& node, std::uint64_t len, std::uint32_t pd = 0,
             std::uint32_t access = kAllAccess, std::uint64_t iova = 0x7f0000000000,
             bool sparse = false);
  ~OnDemandMr() { check_canaries(); }
  OnDemandMr(const OnDemandMr&) = delete;
  OnDemandMr& operator=(const OnDemandMr&) = delete;

  [[nodiscard]] std::uint32_t key() const { return mr.key; }
  [[nodiscard]] tern_sge sge(std::uint64_t offset, std::uint32_t len) const {
    return mr.sge(offset, len);
  }
  [[nodiscard]] std::uint64_t pages() const { return frames_.size(); }
  [[nodiscard]] bool present(std::uint64_t page) const { return bits_[page] & TERN_PAGE_READ; }
  // Makes pages [first, first + n) present; without `writable`, read-only.
  void populate(std::uint64_t first, std::uint64_t n, bool writable = true);
  // Makes pages [first, first + n) absent and moves their data.
  void evict(std::uint64_t first, std::uint64_t n);
  // Software's view of [offset, offset + len).
  [[nodiscard]] std::vector<std::byte> read(std::uint64_t offset, std::uint64_t len) const;
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  // Checks that the device did not store to evicted pages.
  void check_canaries() const;

  TestMr mr;  // only key, iova and length are valid

 private:
  void update(std::uint64_t first, std::uint64_t n);
  TestNode& node_;
  std::uint64_t base_ = 0;  // index of the first page in the device's list
  std::uint64_t list_;
  std::vector<std::uint64_t> frames_;  // current frame of each page
  std::vector<std::uint8_t> bits_;
  std::deque<std::uint64_t> gone_;  // old frames, filled with the canary
};

// Takes faults from the event queue and resolves each one when the test says so.
class Pager {
 public:
  // `log_size`: size of the fault EQ.
  explicit Pager(TestNode& node, unsigned log_size = 4)
      : node_(node), eq_(node, TERN_EQ_FAULT, TestNode::kCompletionVector, log_size) {
    EXPECT_EQ(eq_.created(), TERN_ST_OK);
  }
  void add(OnDemandMr& mr) { mrs_.push_back(&mr); }

  // Takes entries from the queue, at most `limit`.
  void collect(unsigned limit = UINT32_MAX);
  // Resolves the fault at `index` of `faults`: makes its pages present and resumes the QP.
  // BAD_STATE is not an error, since the QP may be gone.
  Status resolve(std::size_t index, std::uint8_t result = TERN_RESUME_RETRY);
  void resolve_all() {
    for (collect(); !faults.empty(); collect()) (void)resolve(0);
  }
  [[nodiscard]] Status resume(const tern_fault& fault, std::uint8_t result = TERN_RESUME_RETRY);

  std::deque<tern_fault> faults;  // taken and not resolved
  std::uint64_t taken = 0;
  bool whole = true;  // resolve all bytes of a fault, not only its first page

 private:
  TestNode& node_;
  TestEq eq_;
  std::vector<OnDemandMr*> mrs_;
};

}  // namespace tern
