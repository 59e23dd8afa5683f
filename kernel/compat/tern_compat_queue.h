/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Included by the files with NAPI contexts and adaptive moderation. */
#ifndef TERN_COMPAT_QUEUE_H
#define TERN_COMPAT_QUEUE_H

#include <linux/dim.h>
#include <linux/netdevice.h>

/* Settings of a NAPI context are lost with it. */
#ifndef TERN_HAVE_NAPI_CONFIG
#define netif_napi_add_config(netdev, napi, poll, index) \
	netif_napi_add(netdev, napi, poll)
#endif

#ifndef TERN_HAVE_DIM_SAMPLE_POINTER
#define net_dim(dim, sample) net_dim(dim, *(sample))
#endif

#endif /* TERN_COMPAT_QUEUE_H */
