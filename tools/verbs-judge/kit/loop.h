// SPDX-License-Identifier: GPL-2.0-or-later
// Two connected QPs without memory of their own, one request at a time, and regions over memory
// that a test has mapped.
#pragma once

#include <optional>
#include <span>

#include "map.h"
#include "pair.h"

namespace guest {

// Connected RC QPs of one PD, which share a CQ.
class Loop {
 public:
  explicit Loop(const Device& dev, unsigned depth = 64, ibv_srq* srq = nullptr,
                ibv_pd* pd = nullptr);
  [[nodiscard]] ibv_cq* cq() const { return cq_.get(); }
  [[nodiscard]] ibv_qp* a() const { return pair_->local.qp(); }
  [[nodiscard]] ibv_qp* b() const { return pair_->remote.end().qp(); }
  // Posts a request to a() and returns the status of its completion.
  ibv_wc_status run(const Send& send, int timeout_ms = 60000) const;
  void must(const Send& send, const char* what) const;
  // Posts a SEND to a() and a receive to b(), or to the SRQ, and requires that both succeed.
  void message(const ibv_sge& from, std::span<const ibv_sge> to, ibv_srq* srq = nullptr) const;
  void close() { pair_.reset(); }

 private:
  CqPtr cq_;
  std::optional<Pair> pair_;
};

// A region over a mapping. A refusal fails the test.
MrPtr reg(ibv_pd* pd, const Map& map, int access);
MrPtr reg(const Device& dev, const Map& map, int access);
// Returns an empty pointer and sets errno if the call is refused.
MrPtr try_reg(ibv_pd* pd, void* at, std::size_t length, int access);

Send write_from(const ibv_sge& from, std::uint64_t to, std::uint32_t rkey);
Send read_into(const ibv_sge& into, std::uint64_t from, std::uint32_t rkey);
ibv_sge sge(const ibv_mr* mr, std::uint64_t address, std::uint32_t length);

// All access rights on demand, of those that the device has.
int odp_access(const Device& dev);

// A region on demand whose memory a test moves, and pinned memory to access it from.
struct Bed {
  Bed(const Device& dev, std::size_t length, int protection = PROT_READ | PROT_WRITE,
      int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1);
  // RDMA writes a pattern, or reads and returns the bytes.
  void write(std::size_t offset, std::uint32_t n, std::uint64_t seed) const;
  [[nodiscard]] std::span<std::byte> read(std::size_t offset, std::uint32_t n) const;

  Loop pair;
  Map map, plain;
  MrPtr mr, local;
};

void expect_pattern(std::span<const std::byte> bytes, std::uint64_t seed, const char* what);
void expect_zeros(std::span<const std::byte> bytes, const char* what);

}  // namespace guest
