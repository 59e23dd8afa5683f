// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Congestion control: a devlink parameter for each parameter of the device, with
 * the names of mlx5's.
 */

#include "tern_dev.h"
#include "tern_congestion.h"

enum {
	TERN_PARAM_CC = DEVLINK_PARAM_GENERIC_ID_MAX + 1,	/* the first */
};

static int tern_cc_get(struct devlink *devlink, u32 id,
		       struct devlink_param_gset_ctx *ctx,
		       struct netlink_ext_ack *extack)
{
	const struct tern_cmd_query_port cmd = { .port = TERN_ETH_PORT };
	struct tern_dev *tdev = devlink_priv(devlink);
	struct tern_cc_params params;
	int err;

	err = tern_cmd_exec(&tdev->core, TERN_CMD_QUERY_CC, &cmd, sizeof(cmd),
			    &params, sizeof(params));
	if (err)
		return err;

	ctx->val.vu32 = le32_to_cpu(params.value[id - TERN_PARAM_CC]);
	return 0;
}

static int tern_cc_set(struct devlink *devlink, u32 id,
		       struct devlink_param_gset_ctx *ctx,
		       struct netlink_ext_ack *extack)
{
	struct tern_dev *tdev = devlink_priv(devlink);
	u32 index = id - TERN_PARAM_CC;
	struct tern_cmd_set_cc cmd = {
		.mask = cpu_to_le32(BIT(index)),
		.port = TERN_ETH_PORT,
	};
	int err;

	cmd.params.value[index] = cpu_to_le32(ctx->val.vu32);
	err = tern_cmd_exec(&tdev->core, TERN_CMD_SET_CC, &cmd, sizeof(cmd),
			    NULL, 0);
	if (err == -EINVAL)
		NL_SET_ERR_MSG_MOD(extack, "out of range");
	return err;
}

static const struct devlink_param tern_cc_params[] = {
#define TERN_CC_PARAM(index, text, ...)					\
	DEVLINK_PARAM_DRIVER(TERN_PARAM_CC + (index), text,		\
			     DEVLINK_PARAM_TYPE_U32,			\
			     BIT(DEVLINK_PARAM_CMODE_RUNTIME),		\
			     tern_cc_get, tern_cc_set, NULL),
#include "tern_cc.h"
};

static_assert(ARRAY_SIZE(tern_cc_params) == TERN_CC_NUM);

static bool tern_has_cc(const struct tern_dev *tdev)
{
	return le64_to_cpu(tdev->caps.flags) & TERN_CAP_CC;
}

/* Before devl_register(). Devlink lock held. */
int tern_cc_register(struct tern_dev *tdev)
{
	int err;

	if (!tern_has_cc(tdev))
		return 0;

	err = devl_params_register(priv_to_devlink(tdev), tern_cc_params,
				   ARRAY_SIZE(tern_cc_params));
	tdev->cc_registered = !err;
	return err;
}

/* After devl_unregister(). Devlink lock held. */
void tern_cc_unregister(struct tern_dev *tdev)
{
	if (tdev->cc_registered)
		devl_params_unregister(priv_to_devlink(tdev), tern_cc_params,
				       ARRAY_SIZE(tern_cc_params));
}
