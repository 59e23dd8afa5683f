// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What the modules with KUnit tests use of this one. */

#include <kunit/visibility.h>

#include "tern_dev.h"
#ifndef TERN_WITHOUT_RESET
#include "tern_health.h"
#endif
#include "tern_net.h"
#ifndef TERN_WITHOUT_XSK
#include "tern_xsk.h"
#endif

EXPORT_SYMBOL_IF_KUNIT(tern_aq_alloc);
EXPORT_SYMBOL_IF_KUNIT(tern_aq_free);
EXPORT_SYMBOL_IF_KUNIT(tern_aq_init);
EXPORT_SYMBOL_IF_KUNIT(tern_aq_reap);
EXPORT_SYMBOL_IF_KUNIT(tern_async_work);
EXPORT_SYMBOL_IF_KUNIT(tern_cmd_moves_memory);
EXPORT_SYMBOL_IF_KUNIT(tern_dev_kill);
EXPORT_SYMBOL_IF_KUNIT(tern_dev_retire);
EXPORT_SYMBOL_IF_KUNIT(tern_features_check);
EXPORT_SYMBOL_IF_KUNIT(tern_filter_add);
EXPORT_SYMBOL_IF_KUNIT(tern_filter_fill);
EXPORT_SYMBOL_IF_KUNIT(tern_net_alloc);
EXPORT_SYMBOL_IF_KUNIT(tern_net_cq_error);
EXPORT_SYMBOL_IF_KUNIT(tern_net_free);
EXPORT_SYMBOL_IF_KUNIT(tern_net_poll);
EXPORT_SYMBOL_IF_KUNIT(tern_net_register);
EXPORT_SYMBOL_IF_KUNIT(tern_net_unregister);
EXPORT_SYMBOL_IF_KUNIT(tern_status_to_errno);
EXPORT_SYMBOL_IF_KUNIT(tern_tx_account);
EXPORT_SYMBOL_IF_KUNIT(tern_tx_offload);
#ifndef TERN_WITHOUT_RESET
EXPORT_SYMBOL_IF_KUNIT(tern_net_attach);
EXPORT_SYMBOL_IF_KUNIT(tern_net_detach);
EXPORT_SYMBOL_IF_KUNIT(tern_report_due);
#endif
#ifndef TERN_WITHOUT_CC
EXPORT_SYMBOL_IF_KUNIT(tern_cc_register);
EXPORT_SYMBOL_IF_KUNIT(tern_cc_unregister);
#endif
#ifndef TERN_WITHOUT_HWGRO
EXPORT_SYMBOL_IF_KUNIT(tern_gro_complete);
#endif
#ifndef TERN_WITHOUT_PTP
EXPORT_SYMBOL_IF_KUNIT(tern_ptp_register);
EXPORT_SYMBOL_IF_KUNIT(tern_ptp_reset);
EXPORT_SYMBOL_IF_KUNIT(tern_ptp_time);
#endif
EXPORT_SYMBOL_IF_KUNIT(tern_cmd_extra_seconds);
#ifndef TERN_WITHOUT_XSK
EXPORT_SYMBOL_IF_KUNIT(tern_net_set_xsk_pool);
EXPORT_SYMBOL_IF_KUNIT(tern_xsk_next_frame);
EXPORT_SYMBOL_IF_KUNIT(tern_xsk_rx_starves);
EXPORT_SYMBOL_IF_KUNIT(tern_xsk_tx_metadata_ops);
#endif
#ifndef TERN_WITHOUT_STEERING
EXPORT_SYMBOL_IF_KUNIT(tern_ntuple_convert);
EXPORT_SYMBOL_IF_KUNIT(tern_rss_from_rxh);
EXPORT_SYMBOL_IF_KUNIT(tern_rss_to_rxh);
#endif
