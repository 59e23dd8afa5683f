// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory windows. Work requests of user space bind them, so only the device
 * knows the bindings.
 */

#include "tern_ib.h"

/**
 * tern_alloc_mw() - allocate a memory window
 * @ibmw: the window, with its type
 * @udata: user request without driver data
 *
 * Return: 0; -EOPNOTSUPP for a type that the device does not support; or
 * another negative errno.
 */
int tern_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibmw->device);
	struct tern_cmd_alloc_mw cmd = {
		.pdn = cpu_to_le32(to_tpd(ibmw->pd)->pdn),
		.type = ibmw->type == IB_MW_TYPE_1 ? 1 : 2,
	};
	struct tern_mw *mw = to_tmw(ibmw);
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return err;

	err = tern_ib_create(dev, TERN_CMD_ALLOC_MW, &cmd, sizeof(cmd),
			     &mw->key);
	if (err)
		return err;

	ibmw->rkey = mw->key;
	return 0;
}

/**
 * tern_dealloc_mw() - free a memory window, bound or not
 * @ibmw: the window
 *
 * Return: 0.
 */
int tern_dealloc_mw(struct ib_mw *ibmw)
{
	/* If a live device refuses, it keeps the window until its next reset. */
	tern_ib_destroy(to_tdev(ibmw->device), TERN_CMD_FREE_MW,
			to_tmw(ibmw)->key);
	return 0;
}
