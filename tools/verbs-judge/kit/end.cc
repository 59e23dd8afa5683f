// SPDX-License-Identifier: GPL-2.0-or-later
#include "end.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace guest {
namespace {

std::uint64_t send_ops(ibv_qp_type type) {
  return type == IBV_QPT_UD ? kUdSendOps : type == IBV_QPT_UC ? kUcSendOps : kRcSendOps;
}

// Repeats the check for a while if the QP type has no completion that proves arrival.
template <typename Differs>
auto eventually(const EndSpec& spec, const Differs& differs) {
  constexpr auto kLimit = std::chrono::seconds(60);
  const auto end = std::chrono::steady_clock::now() + kLimit;
  auto at = differs();
  while (at && !is_reliable(spec.type) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    at = differs();
  }
  return at;
}

}  // namespace

End::End(const Device& dev, const EndSpec& spec) : dev_(dev), spec_(spec) {
  if (!claims_windows(dev.context())) {
    spec_.access &= ~IBV_ACCESS_MW_BIND;
    spec_.more_ops &= ~kWindowOps;
  }
  if (!claims_atomics(dev)) spec_.access &= ~IBV_ACCESS_REMOTE_ATOMIC;
  const auto max_sge = static_cast<std::uint32_t>(dev.attr().max_sge);
  spec_.send_sge = std::min(spec_.send_sge, max_sge);
  spec_.recv_sge = std::min(spec_.recv_sge, max_sge);
  if (spec_.pd == nullptr) spec_.pd = dev.pd();
  if (spec_.send_cq == nullptr) {
    send_cq_ = create_cq(dev, spec.send_cqe);
    spec_.send_cq = send_cq_.get();
  }
  if (spec_.recv_cq == nullptr) {
    channel_.reset(ibv_create_comp_channel(dev.context()));
    if (!channel_) fail_errno("ibv_create_comp_channel");
    recv_cq_ = create_cq(dev, spec.recv_cqe, channel_.get());
    spec_.recv_cq = recv_cq_.get();
  }
  if (spec.foreign_pd) foreign_pd_.reset(ibv_alloc_pd(dev.context()));
  if (spec.memory != 0) {
    host_.emplace(std::make_unique<Memory>(
        spec.foreign_pd ? foreign_pd_.get() : spec_.pd, spec.memory, spec_.access,
        spec.iova != 0 ? std::optional(spec.iova) : std::nullopt));
  }
  if (spec.device_memory != 0) {
    device_.emplace(dev, Kind::kDevice, spec.device_memory, spec.access, spec.part);
  }
  if (spec.srq || spec.type == IBV_QPT_XRC_RECV) make_srq();
  make_qp();
}

void End::make_srq() {
  const ibv_srq_attr attr{.max_wr = spec_.recv_wr, .max_sge = spec_.recv_sge, .srq_limit = 0};
  if (spec_.type == IBV_QPT_XRC_RECV) {
    xrc_ = open_xrc(dev_, spec_.pd, spec_.recv_cq, attr);
    srqn_ = xrc_.srqn;
  } else {
    ibv_srq_init_attr init{.srq_context = nullptr, .attr = attr};
    xrc_.srq.reset(ibv_create_srq(spec_.pd, &init));
    if (!xrc_.srq) fail_errno("ibv_create_srq");
  }
  spec_.use_srq = xrc_.srq.get();
}

void End::make_qp() {
  QpSpec make{.type = spec_.type, .pd = spec_.pd, .signal_all = spec_.signal_all};
  if (spec_.type == IBV_QPT_XRC_RECV) {
    make.xrcd = xrc_.xrcd.get();
  } else {
    const bool receives = spec_.type != IBV_QPT_XRC_SEND && spec_.use_srq == nullptr;
    make.send_cq = spec_.send_cq;
    make.recv_cq = spec_.type == IBV_QPT_XRC_SEND ? nullptr : spec_.recv_cq;
    make.srq = spec_.use_srq;
    make.cap = {.max_send_wr = spec_.send_wr,
                .max_recv_wr = receives ? spec_.recv_wr : 0,
                .max_send_sge = spec_.send_sge,
                .max_recv_sge = receives ? spec_.recv_sge : 0,
                .max_inline_data = spec_.inline_data};
    make.send_ops = send_ops(spec_.type) | spec_.more_ops;
  }
  // No limit promises inline data.
  qp_ = try_create_qp(dev_, make);
  if (!qp_) {
    if (make.cap.max_inline_data != 0 && !strict()) make.cap.max_inline_data = 0;
    qp_ = create_qp(dev_, make);
  }
  cap_ = make.cap;
}

const Space& End::space(Kind kind) const {
  require(kind == Kind::kHost || kind == Kind::kDevice, "no such kind of memory");
  const std::optional<Space>& space = kind == Kind::kHost ? host_ : device_;
  require(space.has_value(), "an end without {} memory", kind_name(kind));
  return *space;
}

ibv_sge End::sge(const Range& range) const {
  return space(range.kind).sge(range.offset, range.length);
}

std::vector<ibv_sge> End::sges(Ranges ranges) const {
  std::vector<ibv_sge> list;
  for (const Range& r : ranges) list.push_back(sge(r));
  return list;
}

std::span<std::byte> End::bytes(const Range& range) const {
  const std::size_t length = memory().length();
  require(range.offset <= length && range.length <= length - range.offset, "range past the memory");
  return memory().bytes().subspan(range.offset, range.length);
}

int End::try_recv(std::uint64_t wr_id, std::span<const ibv_sge> sges) const {
  return srq() != nullptr ? post_srq_recv(srq(), wr_id, sges) : post_recv(qp(), wr_id, sges);
}

void End::recv(std::uint64_t wr_id, Ranges ranges) const {
  require_err(try_recv(wr_id, sges(ranges)), 0, "a receive request");
}

void End::fill(const Range& range, std::uint64_t seed) const { guest::fill(bytes(range), seed); }

void End::check(const Range& range, std::uint64_t seed) const {
  const auto at = eventually(spec_, [&] { return mismatch(bytes(range), seed); });
  require(!at, "{} bytes at {}: wrong from byte {} on", range.length, range.offset, at.value_or(0));
}

void End::check(Kind kind, std::uint64_t background, Patches patches) const {
  eventually(spec_, [&] { return space(kind).differs(background, patches); });
  space(kind).check(background, patches);
}

}  // namespace guest
