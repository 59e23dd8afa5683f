// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* XRC domains, which XRC SRQs and XRC target QPs of several processes share. */

#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"

/**
 * tern_alloc_xrcd() - allocate an XRC domain
 * @ibxrcd: the domain
 * @udata: user request without driver data, NULL for kernel users
 *
 * Return: 0 or a negative errno.
 */
static int tern_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibxrcd->device);
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return err;

	return tern_ib_create(dev, TERN_CMD_ALLOC_XRCD, NULL, 0,
			      &to_txrcd(ibxrcd)->xrcdn);
}

static int tern_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata)
{
	/* If a live device refuses, it keeps the domain until its next reset. */
	tern_ib_destroy(to_tdev(ibxrcd->device), TERN_CMD_FREE_XRCD,
			to_txrcd(ibxrcd)->xrcdn);
	return 0;
}

const struct ib_device_ops tern_xrc_ops = {
	.alloc_xrcd = tern_alloc_xrcd,
	.dealloc_xrcd = tern_dealloc_xrcd,

	INIT_RDMA_OBJ_SIZE(ib_xrcd, tern_xrcd, ibxrcd),
};
