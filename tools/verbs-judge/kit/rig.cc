// SPDX-License-Identifier: GPL-2.0-or-later
#include "rig.h"

#include <cerrno>
#include <chrono>
#include <thread>

namespace guest {
namespace {

void sleep_ms(unsigned ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace

Rig::Rig(const Device& dev, const CqSpec& spec) : dev_(dev) {
  channel_.reset(ibv_create_comp_channel(dev.context()));
  if (!channel_) fail_errno("ibv_create_comp_channel");
  if (spec.wc_flags == 0 && spec.flags == 0) {
    cq_ = create_cq(dev, static_cast<int>(spec.entries), channel_.get());
  } else {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = spec.entries;
    attr.channel = channel_.get();
    attr.wc_flags = spec.wc_flags;
    if (spec.flags != 0) {
      attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
      attr.flags = spec.flags;
    }
    cq_ex_ = ibv_create_cq_ex(dev.context(), &attr);
    if (cq_ex_ == nullptr) skip("no such extended CQ: {}", errno_name(errno));
    cq_.reset(ibv_cq_ex_to_cq(cq_ex_));
  }
  PairOptions options;
  options.local.send_cq = cq_.get();
  pair_.emplace(dev, options);
}

void Rig::write(unsigned count) {
  for (; count > 0; count--) pair_->post(pair_->request(IBV_WR_RDMA_WRITE, 8, 0, 0, posted_++));
}

// The data of the last write has arrived, so all earlier writes are done.
void Rig::settle() {
  constexpr int kSoon = 20000;  // ms
  memory().store64(0, 0x7e57 + posted_);
  write();
  const std::uint64_t mark = memory().load64(0);
  for (int ms = 0; there().load64(0) != mark; ms++) {
    require(ms < kSoon, "a write has not arrived");
    sleep_ms(1);
  }
  // The last completion follows its data by a moment; the caller's poll shows that it came.
  sleep_ms(50);
}

void Rig::take(std::span<const ibv_wc> wcs) {
  for (const ibv_wc& wc : wcs) require_status(wc, taken_++, IBV_WC_SUCCESS);
}

void Rig::poll_all(unsigned count) { take(poll(cq_.get(), count)); }

void Rig::arm(bool solicited) const {
  require_err(ibv_req_notify_cq(cq_.get(), solicited ? 1 : 0), 0, "ibv_req_notify_cq");
}

int Rig::moderate(std::uint16_t count, std::uint16_t period) const {
  ibv_modify_cq_attr attr{};
  attr.attr_mask = IBV_CQ_ATTR_MODERATE;
  attr.moderate = {.cq_count = count, .cq_period = period};
  return ibv_modify_cq(cq_.get(), &attr);
}

std::uint64_t raw_clock(ibv_context* context) {
  ibv_values_ex values{};
  values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
  require_err(ibv_query_rt_values_ex(context, &values), 0, "ibv_query_rt_values_ex");
  require(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK, "no clock in the answer");
  return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
}

}  // namespace guest
