// SPDX-License-Identifier: GPL-2.0-or-later
// A driver's on-demand paging: regions whose pages come when the device asks for them and go when the host
// wants them back. A page that has gone is filled with a canary, and its bytes live on elsewhere.
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

  // Created closed and empty, opened by an UPDATE_PAGES of no pages.
  OnDemandMr(TestNode& node, std::uint64_t len, std::uint32_t pd = 0,
             std::uint32_t access = kAllAccess, std::uint64_t iova = 0x7f0000000000);
  ~OnDemandMr() { check_canaries(); }
  OnDemandMr(const OnDemandMr&) = delete;
  OnDemandMr& operator=(const OnDemandMr&) = delete;

  [[nodiscard]] std::uint32_t key() const { return mr.key; }
  [[nodiscard]] tern_sge sge(std::uint64_t offset, std::uint32_t len) const { return mr.sge(offset, len); }
  [[nodiscard]] std::uint64_t pages() const { return frames_.size(); }
  [[nodiscard]] bool present(std::uint64_t page) const { return bits_[page] & TERN_PAGE_READ; }
  // Makes pages [first, first + n) present; without `writable` for reading only.
  void populate(std::uint64_t first, std::uint64_t n, bool writable = true);
  // Makes them absent, and moves their bytes.
  void evict(std::uint64_t first, std::uint64_t n);
  // What software sees at [offset, offset + len).
  [[nodiscard]] std::vector<std::byte> read(std::uint64_t offset, std::uint64_t len) const;
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  // No page that has gone was stored to.
  void check_canaries() const;

  TestMr mr;  // key, iova and length alone

 private:
  void update(std::uint64_t first, std::uint64_t n);
  TestNode& node_;
  std::uint64_t list_;
  std::vector<std::uint64_t> frames_;  // where each page's bytes are
  std::vector<std::uint8_t> bits_;
  std::deque<std::uint64_t> gone_;  // frames full of canaries
};

// Takes faults from the queue and resolves them, each after a while.
class Pager {
 public:
  // `log_size` of the fault EQ.
  explicit Pager(TestNode& node, unsigned log_size = 4)
      : node_(node), eq_(node, TERN_EQ_FAULT, TestNode::kCompletionVector, log_size) {
    EXPECT_EQ(eq_.created(), TERN_ST_OK);
  }
  void add(OnDemandMr& mr) { mrs_.push_back(&mr); }

  // Takes what the queue holds, at most `limit` entries.
  void collect(unsigned limit = UINT32_MAX);
  // Resolves fault `index` of those taken: its pages become present, and the QP goes on. BAD_STATE is fine:
  // the QP may have gone.
  Status resolve(std::size_t index, std::uint8_t result = TERN_RESUME_RETRY);
  void resolve_all() {
    for (collect(); !faults.empty(); collect()) (void)resolve(0);
  }
  [[nodiscard]] Status resume(const tern_fault& fault, std::uint8_t result = TERN_RESUME_RETRY);

  std::deque<tern_fault> faults;  // taken, not resolved
  std::uint64_t taken = 0;
  bool whole = true;  // resolves as many bytes as the fault names, else its first page

 private:
  TestNode& node_;
  TestEq eq_;
  std::vector<OnDemandMr*> mrs_;
};

}  // namespace tern
