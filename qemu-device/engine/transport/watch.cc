// SPDX-License-Identifier: GPL-2.0-or-later
#include "transport/watch.h"

#include <algorithm>

#include "control/device.h"
#include "transport/qp.h"

namespace tern {

void Watch::allow(Nanos from) {
  from_ = from;
  dense_ = false;
  rings_ = 0;
  while (count_ != 0) release(*qps_[count_ - 1]);
}

void Watch::count(Qp& qp) {
  if (rings_++ == kPeriod) {
    const Nanos now = device_.host.now();
    dense_ = now - began_ <= kDense && now >= from_;
    began_ = now;
    rings_ = 1;
    ++period_;
  }
  Watched& w = qp.watched;
  if (w.period != period_) {
    w.period = period_;
    w.rings = 0;
  }
  if (++w.rings >= kRings && dense_) begin(qp);
}

void Watch::begin(Qp& qp) {
  if (qp.watched.on || count_ == kMost || !qp.has_sq() || qp.state() != TERN_QPS_RTS) return;
  qps_[count_++] = &qp;
  qp.watched.on = true;
  qp.watched.idle = 0;
  qp.store_status();
}

void Watch::forget(Qp& qp) {
  if (!qp.watched.on) return;
  qp.watched.on = false;
  qp.watched.rings = 0;
  *std::find(qps_.begin(), qps_.begin() + count_, &qp) = qps_[count_ - 1];
  --count_;
}

void Watch::release(Qp& qp) {
  if (!qp.watched.on) return;
  forget(qp);
  qp.store_status();
  if (qp.sq_moved()) qp.kick_sq();
}

void Watch::look() {
  for (std::size_t i = count_; i-- > 0;) {
    Qp& qp = *qps_[i];
    Watched& w = qp.watched;
    if (qp.sq_moved()) {
      w.idle -= std::min(w.idle, kWorth);
      qp.kick_sq();
    } else if (++w.idle == kPatience) {
      release(qp);
    }
  }
}

}  // namespace tern
