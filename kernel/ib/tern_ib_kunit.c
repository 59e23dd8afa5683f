// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Exports of functions to the KUnit tests. */

#include <kunit/visibility.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_ib_qp_util.h"
#include "tern_ib_ring.h"
#ifndef TERN_WITHOUT_APM
#include "tern_ib_apm.h"
#endif
#ifndef TERN_WITHOUT_DV
#include "tern_ib_dv.h"
#endif
#ifndef TERN_WITHOUT_ODP
#include "tern_ib_odp.h"
#endif
#ifndef TERN_WITHOUT_RAW
#include "tern_ib_raw.h"
#endif

EXPORT_SYMBOL_IF_KUNIT(tern_av_from_attr);
EXPORT_SYMBOL_IF_KUNIT(tern_av_to_attr);
EXPORT_SYMBOL_IF_KUNIT(tern_check_alloc_dm);
EXPORT_SYMBOL_IF_KUNIT(tern_check_create_cq);
EXPORT_SYMBOL_IF_KUNIT(tern_check_create_qp);
EXPORT_SYMBOL_IF_KUNIT(tern_check_create_srq);
EXPORT_SYMBOL_IF_KUNIT(tern_coherent_alloc);
EXPORT_SYMBOL_IF_KUNIT(tern_coherent_free);
EXPORT_SYMBOL_IF_KUNIT(tern_completion_event);
EXPORT_SYMBOL_IF_KUNIT(tern_copy_inline);
EXPORT_SYMBOL_IF_KUNIT(tern_cq_event);
EXPORT_SYMBOL_IF_KUNIT(tern_cq_size_ok);
EXPORT_SYMBOL_IF_KUNIT(tern_cqe_to_wc);
EXPORT_SYMBOL_IF_KUNIT(tern_cqs_per_vector);
EXPORT_SYMBOL_IF_KUNIT(tern_dm_rsp_ok);
EXPORT_SYMBOL_IF_KUNIT(tern_exceeds);
EXPORT_SYMBOL_IF_KUNIT(tern_fill_limits);
EXPORT_SYMBOL_IF_KUNIT(tern_fill_optional);
EXPORT_SYMBOL_IF_KUNIT(tern_fill_segment);
EXPORT_SYMBOL_IF_KUNIT(tern_flush_wc);
EXPORT_SYMBOL_IF_KUNIT(tern_ib_create_gen);
EXPORT_SYMBOL_IF_KUNIT(tern_kbuf_alloc);
EXPORT_SYMBOL_IF_KUNIT(tern_kbuf_done);
EXPORT_SYMBOL_IF_KUNIT(tern_kbuf_free);
EXPORT_SYMBOL_IF_KUNIT(tern_kcq_forget);
EXPORT_SYMBOL_IF_KUNIT(tern_kcq_init);
EXPORT_SYMBOL_IF_KUNIT(tern_kqp_detach);
EXPORT_SYMBOL_IF_KUNIT(tern_kqp_init);
EXPORT_SYMBOL_IF_KUNIT(tern_max_fast_reg_pages);
EXPORT_SYMBOL_IF_KUNIT(tern_mr_access);
EXPORT_SYMBOL_IF_KUNIT(tern_poll_cq);
EXPORT_SYMBOL_IF_KUNIT(tern_post_recv);
EXPORT_SYMBOL_IF_KUNIT(tern_post_send);
EXPORT_SYMBOL_IF_KUNIT(tern_qp_access);
EXPORT_SYMBOL_IF_KUNIT(tern_qp_access_flags);
EXPORT_SYMBOL_IF_KUNIT(tern_qp_attr_from_dev);
EXPORT_SYMBOL_IF_KUNIT(tern_qp_attr_ok);
EXPORT_SYMBOL_IF_KUNIT(tern_qp_attr_to_dev);
EXPORT_SYMBOL_IF_KUNIT(tern_qp_create_flags);
EXPORT_SYMBOL_IF_KUNIT(tern_qp_create_flags_to_dev);
EXPORT_SYMBOL_IF_KUNIT(tern_qp_event);
EXPORT_SYMBOL_IF_KUNIT(tern_qp_geometry_ok);
EXPORT_SYMBOL_IF_KUNIT(tern_qp_has_rq);
EXPORT_SYMBOL_IF_KUNIT(tern_query_qp);
EXPORT_SYMBOL_IF_KUNIT(tern_queue_len_ok);
EXPORT_SYMBOL_IF_KUNIT(tern_record_done);
EXPORT_SYMBOL_IF_KUNIT(tern_record_get);
EXPORT_SYMBOL_IF_KUNIT(tern_record_umem);
EXPORT_SYMBOL_IF_KUNIT(tern_records_init);
EXPORT_SYMBOL_IF_KUNIT(tern_recv_stride);
EXPORT_SYMBOL_IF_KUNIT(tern_ref_publish);
EXPORT_SYMBOL_IF_KUNIT(tern_reserved_set);
EXPORT_SYMBOL_IF_KUNIT(tern_rq_bytes);
EXPORT_SYMBOL_IF_KUNIT(tern_rq_geometry_ok);
EXPORT_SYMBOL_IF_KUNIT(tern_rq_stride_ok);
EXPORT_SYMBOL_IF_KUNIT(tern_send_wqe_bytes);
EXPORT_SYMBOL_IF_KUNIT(tern_send_wr_ok);
EXPORT_SYMBOL_IF_KUNIT(tern_sge_bytes);
EXPORT_SYMBOL_IF_KUNIT(tern_srq_event);
EXPORT_SYMBOL_IF_KUNIT(tern_srq_size_ok);
EXPORT_SYMBOL_IF_KUNIT(tern_table_add);
EXPORT_SYMBOL_IF_KUNIT(tern_table_free);
EXPORT_SYMBOL_IF_KUNIT(tern_table_from_kbuf);
EXPORT_SYMBOL_IF_KUNIT(tern_table_init);
EXPORT_SYMBOL_IF_KUNIT(tern_table_limit);
EXPORT_SYMBOL_IF_KUNIT(tern_table_map);
EXPORT_SYMBOL_IF_KUNIT(tern_table_reset);
EXPORT_SYMBOL_IF_KUNIT(tern_uar_ok);
EXPORT_SYMBOL_IF_KUNIT(tern_uctx_caps);
EXPORT_SYMBOL_IF_KUNIT(tern_user_cq_flags);
EXPORT_SYMBOL_IF_KUNIT(tern_wc_opcode);
EXPORT_SYMBOL_IF_KUNIT(tern_wc_status);
EXPORT_SYMBOL_IF_KUNIT(tern_wr_allowed);
EXPORT_SYMBOL_IF_KUNIT(tern_wr_flags);
EXPORT_SYMBOL_IF_KUNIT(tern_wr_has_data);
EXPORT_SYMBOL_IF_KUNIT(tern_wr_may_inline);
EXPORT_SYMBOL_IF_KUNIT(tern_wr_opcode);
#ifndef TERN_WITHOUT_APM
EXPORT_SYMBOL_IF_KUNIT(tern_alt_path_to_attr);
#endif
#ifndef TERN_WITHOUT_COMP_CNTR
EXPORT_SYMBOL_IF_KUNIT(tern_comp_cntr_ops);
#endif
#ifndef TERN_WITHOUT_DV
EXPORT_SYMBOL_IF_KUNIT(tern_qp_get_sport);
EXPORT_SYMBOL_IF_KUNIT(tern_qp_set_sport);
EXPORT_SYMBOL_IF_KUNIT(tern_query_key);
#endif
#ifndef TERN_WITHOUT_FLOW
EXPORT_SYMBOL_IF_KUNIT(tern_create_counters);
EXPORT_SYMBOL_IF_KUNIT(tern_create_flow);
EXPORT_SYMBOL_IF_KUNIT(tern_destroy_flow);
EXPORT_SYMBOL_IF_KUNIT(tern_flow_from_attr);
EXPORT_SYMBOL_IF_KUNIT(tern_read_counters);
#endif
#ifndef TERN_WITHOUT_DMABUF
EXPORT_SYMBOL_IF_KUNIT(tern_dereg_mr);
EXPORT_SYMBOL_IF_KUNIT(tern_get_dma_mr);
EXPORT_SYMBOL_IF_KUNIT(tern_reg_user_mr_dmabuf);
#endif
#ifndef TERN_WITHOUT_MAD
EXPORT_SYMBOL_IF_KUNIT(tern_process_mad);
#endif
#ifndef TERN_WITHOUT_ODP
#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
EXPORT_SYMBOL_IF_KUNIT(tern_faults_free);
EXPORT_SYMBOL_IF_KUNIT(tern_faults_init);
EXPORT_SYMBOL_IF_KUNIT(tern_odp_abort);
EXPORT_SYMBOL_IF_KUNIT(tern_odp_alloc);
EXPORT_SYMBOL_IF_KUNIT(tern_odp_clear);
EXPORT_SYMBOL_IF_KUNIT(tern_odp_create);
EXPORT_SYMBOL_IF_KUNIT(tern_odp_destroy);
EXPORT_SYMBOL_IF_KUNIT(tern_odp_free);
EXPORT_SYMBOL_IF_KUNIT(tern_odp_get);
EXPORT_SYMBOL_IF_KUNIT(tern_odp_map);
EXPORT_SYMBOL_IF_KUNIT(tern_odp_put);
EXPORT_SYMBOL_IF_KUNIT(tern_odp_update);
EXPORT_SYMBOL_IF_KUNIT(tern_pager_alloc);
EXPORT_SYMBOL_IF_KUNIT(tern_pager_close);
EXPORT_SYMBOL_IF_KUNIT(tern_pager_queue);
EXPORT_SYMBOL_IF_KUNIT(tern_reg_odp_mr);
#endif
#endif
#ifndef TERN_WITHOUT_COUNTERS
EXPORT_SYMBOL_IF_KUNIT(tern_alloc_hw_port_stats);
EXPORT_SYMBOL_IF_KUNIT(tern_get_hw_stats);
EXPORT_SYMBOL_IF_KUNIT(tern_modify_hw_stat);
#endif
#ifndef TERN_WITHOUT_RAW
EXPORT_SYMBOL_IF_KUNIT(tern_fill_raw);
#endif
#ifndef TERN_WITHOUT_RSS
EXPORT_SYMBOL_IF_KUNIT(tern_check_create_wq);
EXPORT_SYMBOL_IF_KUNIT(tern_check_rss);
EXPORT_SYMBOL_IF_KUNIT(tern_destroy_rss_qp);
EXPORT_SYMBOL_IF_KUNIT(tern_fill_rss);
EXPORT_SYMBOL_IF_KUNIT(tern_rss_exec_create);
EXPORT_SYMBOL_IF_KUNIT(tern_rss_fields);
EXPORT_SYMBOL_IF_KUNIT(tern_rwq_transition_ok);
#endif
#ifndef TERN_WITHOUT_TM
EXPORT_SYMBOL_IF_KUNIT(tern_qp_is_rendezvous);
EXPORT_SYMBOL_IF_KUNIT(tern_tm_ring_ok);
#endif
#ifndef TERN_WITHOUT_KSRQ
EXPORT_SYMBOL_IF_KUNIT(tern_ksrq_init);
EXPORT_SYMBOL_IF_KUNIT(tern_post_srq_recv);
#endif
#ifndef TERN_WITHOUT_REREG
EXPORT_SYMBOL_IF_KUNIT(tern_rereg_mask);
#endif
