// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/sq_poller.h"

#include <algorithm>

#include "objects/context.h"
#include "transport/qp.h"

namespace tern {

SqPoller::SqPoller(Context& context, Nanos doorbell_cost)
    : context_(context),
      dense_limit_(Nanos{kPeriod} * 4 * doorbell_cost),
      patience_(static_cast<std::uint16_t>(std::max<Nanos>(std::min(doorbell_cost, kMaxPatience) * 512 / 1000, 64))) {}

void SqPoller::allow(Nanos from) {
  from_ = from;
  dense_ = false;
  rings_ = 0;
  while (count_ != 0) release(*qps_[count_ - 1]);
}

void SqPoller::count(Qp& qp) {
  if (rings_++ == kPeriod) {
    const Nanos now = context_.host.now();
    dense_ = now - began_ <= dense_limit_ && now >= from_;
    began_ = now;
    rings_ = 1;
    ++period_;
  }
  SqPolled& w = qp.polled;
  if (w.period != period_) {
    w.period = period_;
    w.rings = 0;
  }
  if (++w.rings >= kRings && dense_) begin(qp);
}

void SqPoller::begin(Qp& qp) {
  if (qp.polled.on || count_ == kMost || !qp.has_sq() || qp.state() != TERN_QPS_RTS) return;
  qps_[count_++] = &qp;
  qp.polled.on = true;
  qp.polled.idle = 0;
  qp.store_status();
}

void SqPoller::forget(Qp& qp) {
  if (!qp.polled.on) return;
  qp.polled.on = false;
  qp.polled.rings = 0;
  *std::find(qps_.begin(), qps_.begin() + count_, &qp) = qps_[count_ - 1];
  --count_;
}

void SqPoller::release(Qp& qp) {
  if (!qp.polled.on) return;
  forget(qp);
  qp.store_status();
  if (qp.sq_moved()) qp.kick_sq();
}

void SqPoller::look() {
  for (std::size_t i = count_; i-- > 0;) {
    Qp& qp = *qps_[i];
    SqPolled& w = qp.polled;
    if (qp.sq_moved()) {
      w.idle -= std::min(w.idle, worth());
      qp.kick_sq();
    } else if (++w.idle >= patience_) {
      release(qp);
    }
  }
}

}  // namespace tern
