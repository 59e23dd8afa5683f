// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Multicast. The device delivers UD packets for a group to the attached QPs,
 * regardless of the Ethernet receive filter. ib_core handles group membership
 * on the network.
 */

#include "tern_ib.h"

static int tern_mcast(struct ib_qp *ibqp, const union ib_gid *gid, u16 opcode)
{
	struct tern_cmd_mcast cmd = {
		.qpn = cpu_to_le32(ibqp->qp_num),
		/* A QP in RESET has no port yet. */
		.port = ibqp->port ?: TERN_IB_PORT,
	};

	memcpy(cmd.gid, gid->raw, sizeof(cmd.gid));
	return tern_cmd_exec(to_tdev(ibqp->device)->core, opcode, &cmd,
			     sizeof(cmd), NULL, 0);
}

/**
 * tern_attach_mcast() - attach a QP to a multicast group
 * @ibqp: a UD QP
 * @gid: group address
 * @lid: unused on Ethernet
 *
 * Return: 0; -ENOMEM if the device has no space; -EIO if the device is dead; or
 * another negative errno.
 */
int tern_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	return tern_mcast(ibqp, gid, TERN_CMD_ATTACH_MCAST);
}

/**
 * tern_detach_mcast() - detach a QP from a multicast group
 * @ibqp: a UD QP
 * @gid: group address
 * @lid: unused on Ethernet
 *
 * ib_core treats attachments to one group with different LIDs as distinct. For
 * the device they are the same, so detaching the second one fails.
 *
 * Return: 0, also if the device is dead, as it has no attachments; or a
 * negative errno.
 */
int tern_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	int err = tern_mcast(ibqp, gid, TERN_CMD_DETACH_MCAST);

	if (err == -ENOENT || tern_core_dead(to_tdev(ibqp->device)->core))
		return 0;

	return err;
}
