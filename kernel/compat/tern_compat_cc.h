/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Included by the file with the devlink parameters. */
#ifndef TERN_COMPAT_CC_H
#define TERN_COMPAT_CC_H

/* The function that reads a parameter had no argument for messages. */
#ifndef TERN_HAVE_PARAM_GET_EXTACK

#include <net/devlink.h>

static int tern_cc_get(struct devlink *devlink, u32 id,
		       struct devlink_param_gset_ctx *ctx,
		       struct netlink_ext_ack *extack);

static int tern_compat_cc_get(struct devlink *devlink, u32 id,
			      struct devlink_param_gset_ctx *ctx)
{
	return tern_cc_get(devlink, id, ctx, NULL);
}

#undef DEVLINK_PARAM_DRIVER
#define DEVLINK_PARAM_DRIVER(_id, _name, _type, _cmodes, _get, _set, _validate) \
{									\
	.id = (_id),							\
	.name = (_name),						\
	.type = (_type),						\
	.supported_cmodes = (_cmodes),					\
	.get = tern_compat_cc_get,					\
	.set = (_set),							\
	.validate = (_validate),					\
}

#endif /* TERN_HAVE_PARAM_GET_EXTACK */

#endif /* TERN_COMPAT_CC_H */
