// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* The tracepoints of tern_trace.h, for LTTng alone. */

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE

#include "tern_trace.h"
