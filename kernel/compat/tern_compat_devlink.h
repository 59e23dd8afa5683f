/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Included by the file with the health reporter. Before the operations had a
 * default graceful period, the period was an argument of the function that
 * creates a reporter.
 */
#ifndef TERN_COMPAT_DEVLINK_H
#define TERN_COMPAT_DEVLINK_H

#ifndef TERN_HAVE_REPORTER_PERIOD

#include <linux/build_bug.h>
#include <net/devlink.h>

/* The operations of such a kernel, followed by the default. */
struct tern_compat_reporter_ops {
	char *name;
	int (*recover)(struct devlink_health_reporter *reporter,
		       void *priv_ctx, struct netlink_ext_ack *extack);
	int (*dump)(struct devlink_health_reporter *reporter,
		    struct devlink_fmsg *fmsg, void *priv_ctx,
		    struct netlink_ext_ack *extack);
	int (*diagnose)(struct devlink_health_reporter *reporter,
			struct devlink_fmsg *fmsg,
			struct netlink_ext_ack *extack);
	int (*test)(struct devlink_health_reporter *reporter,
		    struct netlink_ext_ack *extack);
	u64 default_graceful_period;
};

static_assert(sizeof(struct devlink_health_reporter_ops) ==
	      offsetof(struct tern_compat_reporter_ops, default_graceful_period));
static_assert(offsetof(struct devlink_health_reporter_ops, test) ==
	      offsetof(struct tern_compat_reporter_ops, test));

static inline struct devlink_health_reporter *
tern_compat_reporter_create(struct devlink *devlink,
			    const struct tern_compat_reporter_ops *ops, void *priv)
{
	return devl_health_reporter_create(devlink, (const void *)ops,
					   ops->default_graceful_period, priv);
}

#define devlink_health_reporter_ops tern_compat_reporter_ops
#define devl_health_reporter_create(...) tern_compat_reporter_create(__VA_ARGS__)

#endif /* TERN_HAVE_REPORTER_PERIOD */

#endif /* TERN_COMPAT_DEVLINK_H */
