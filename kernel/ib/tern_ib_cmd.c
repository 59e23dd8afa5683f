// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Commands on one object, and what their failure means for its memory.
 */

#include "tern_ib.h"

/**
 * tern_ib_create() - create an object in the device
 * @dev: the device
 * @opcode: TERN_CMD_* that creates it
 * @cmd: the command, may be NULL when @len is 0
 * @len: bytes of @cmd
 * @id: takes the object's number or key
 *
 * May sleep.
 *
 * Return: 0, or the negative errno of tern_cmd_exec().
 */
int tern_ib_create(struct tern_ib_dev *dev, u16 opcode, const void *cmd,
		   size_t len, u32 *id)
{
	struct tern_rsp_object rsp = {};
	int err;

	err = tern_cmd_exec(dev->core, opcode, cmd, len, &rsp, sizeof(rsp));
	if (err)
		return err;

	*id = le32_to_cpu(rsp.id);
	return 0;
}

/**
 * tern_ib_destroy() - take an object away from the device
 * @dev: the device
 * @opcode: TERN_CMD_* that destroys it
 * @id: number or key
 *
 * May sleep.
 *
 * Return: 0 when the device uses the object no more, which a dead device never
 * does; else why a live one kept it.
 */
int tern_ib_destroy(struct tern_ib_dev *dev, u16 opcode, u32 id)
{
	struct tern_cmd_object cmd = { .id = cpu_to_le32(id) };
	int err;

	err = tern_cmd_exec(dev->core, opcode, &cmd, sizeof(cmd), NULL, 0);
	/* It may have died of this very command. */
	if (err && tern_core_dead(dev->core))
		return 0;

	return err;
}

/**
 * tern_ib_query() - ask the device about one object
 * @dev: the device
 * @opcode: TERN_CMD_QUERY_*
 * @id: number, key or what else the command names
 * @out: takes the reply, what the device does not write is zeroed
 * @out_len: its size in bytes
 *
 * May sleep.
 *
 * Return: 0, or the negative errno of tern_cmd_exec().
 */
int tern_ib_query(struct tern_ib_dev *dev, u16 opcode, u32 id, void *out,
		  size_t out_len)
{
	struct tern_cmd_object cmd = { .id = cpu_to_le32(id) };

	return tern_cmd_exec(dev->core, opcode, &cmd, sizeof(cmd), out,
			     out_len);
}

/**
 * tern_ib_umem_done() - unpin the memory of a destroyed object
 * @dev: the device
 * @umem: its memory, NULL for none
 * @err: what tern_ib_destroy() returned for the object
 *
 * Memory that the device may still write to stays pinned for ever.
 */
void tern_ib_umem_done(struct tern_ib_dev *dev, struct ib_umem *umem, int err)
{
	if (err && umem) {
		ibdev_err_ratelimited(&dev->ibdev,
				      "device keeps an object (%d), %zu bytes stay pinned\n",
				      err, umem->length);
		return;
	}

	ib_umem_release(umem);
}
