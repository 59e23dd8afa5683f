// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Multicast: the device hands UD packets to a group's address to the QPs that
 * are attached, whatever the filter of the Ethernet function says. Membership
 * on the network is ib_core's business.
 */

#include "tern_ib.h"

static int tern_mcast(struct ib_qp *ibqp, const union ib_gid *gid, u16 opcode)
{
	struct tern_cmd_mcast cmd = {
		.qpn = cpu_to_le32(ibqp->qp_num),
		/* A QP in RESET has none yet. */
		.port = ibqp->port ?: TERN_IB_PORT,
	};

	memcpy(cmd.gid, gid->raw, sizeof(cmd.gid));
	return tern_cmd_exec(to_tdev(ibqp->device)->core, opcode, &cmd,
			     sizeof(cmd), NULL, 0);
}

/**
 * tern_attach_mcast() - let a QP receive what is sent to a group
 * @ibqp: a UD QP
 * @gid: a multicast address
 * @lid: means nothing on Ethernet
 *
 * Return: 0; -ENOMEM when the device has no room; -EIO for a dead device; others.
 */
int tern_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return tern_mcast(ibqp, gid, TERN_CMD_ATTACH_MCAST);
}

/**
 * tern_detach_mcast() - end an attachment
 * @ibqp: a UD QP
 * @gid: a group's address
 * @lid: means nothing on Ethernet
 *
 * ib_core tells attachments to one group apart by LID: to the device they are
 * one, and the second to go finds none.
 *
 * Return: 0, also when the device is dead and with it the attachment; others.
 */
int tern_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	int err = tern_mcast(ibqp, gid, TERN_CMD_DETACH_MCAST);

	if (err == -ENOENT || tern_core_dead(to_tdev(ibqp->device)->core))
		return 0;

	return err;
}
