// SPDX-License-Identifier: GPL-2.0-or-later
// The verb that destroys an object of each type, and owners that call it.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

#include "failure.h"

namespace guest {

// Return an errno.
inline int destroy(ibv_context* context) { return ibv_close_device(context); }
inline int destroy(ibv_pd* pd) { return ibv_dealloc_pd(pd); }
inline int destroy(ibv_td* td) { return ibv_dealloc_td(td); }
inline int destroy(ibv_mr* mr) { return ibv_dereg_mr(mr); }
inline int destroy(ibv_mw* mw) { return ibv_dealloc_mw(mw); }
inline int destroy(ibv_dm* dm) { return ibv_free_dm(dm); }
inline int destroy(ibv_comp_channel* channel) { return ibv_destroy_comp_channel(channel); }
inline int destroy(ibv_cq* cq) { return ibv_destroy_cq(cq); }
inline int destroy(ibv_srq* srq) { return ibv_destroy_srq(srq); }
inline int destroy(ibv_xrcd* xrcd) { return ibv_close_xrcd(xrcd); }
inline int destroy(ibv_qp* qp) { return ibv_destroy_qp(qp); }
inline int destroy(ibv_ah* ah) { return ibv_destroy_ah(ah); }
inline int destroy(ibv_wq* wq) { return ibv_destroy_wq(wq); }
inline int destroy(ibv_rwq_ind_table* table) { return ibv_destroy_rwq_ind_table(table); }
inline int destroy(ibv_flow* flow) { return ibv_destroy_flow(flow); }
inline int destroy(ibv_counters* counters) { return ibv_destroy_counters(counters); }

struct Destroyer {
  void operator()(auto* object) const { note_destroy("destroy", destroy(object)); }
};
template <typename T>
using Owner = std::unique_ptr<T, Destroyer>;
using ContextPtr = Owner<ibv_context>;
using PdPtr = Owner<ibv_pd>;
using TdPtr = Owner<ibv_td>;
using MrPtr = Owner<ibv_mr>;
using MwPtr = Owner<ibv_mw>;
using DmPtr = Owner<ibv_dm>;
using ChannelPtr = Owner<ibv_comp_channel>;
using CqPtr = Owner<ibv_cq>;
using SrqPtr = Owner<ibv_srq>;
using XrcdPtr = Owner<ibv_xrcd>;
using QpPtr = Owner<ibv_qp>;
using AhPtr = Owner<ibv_ah>;

}  // namespace guest
