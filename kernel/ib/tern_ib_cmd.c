// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Commands on a single object, and what becomes of its memory if they fail; access
 * rights in commands.
 */

#include "tern_ib.h"

/* Translates IB_ACCESS_* of a region to TERN_ACCESS_*. Drops hints. */
u32 tern_mr_access(int access)
{
	u32 result = 0;

	if (access & IB_ACCESS_LOCAL_WRITE)
		result |= TERN_ACCESS_LOCAL_WRITE;
	if (access & IB_ACCESS_REMOTE_WRITE)
		result |= TERN_ACCESS_REMOTE_WRITE;
	if (access & IB_ACCESS_REMOTE_READ)
		result |= TERN_ACCESS_REMOTE_READ;
	if (access & IB_ACCESS_REMOTE_ATOMIC)
		result |= TERN_ACCESS_REMOTE_ATOMIC;
	if (access & IB_ACCESS_MW_BIND)
		result |= TERN_ACCESS_MW_BIND;
	if (access & IB_ZERO_BASED)
		result |= TERN_ACCESS_ZERO_BASED;
	if (access & IB_ACCESS_FLUSH_GLOBAL)
		result |= TERN_ACCESS_FLUSH_GLOBAL;

	return result;
}

/* Creates an object in the device: *@id is its number or key. */
int tern_ib_create(struct tern_ib_dev *dev, u16 opcode, const void *cmd,
		   size_t len, u32 *id)
{
	u32 generation;

	return tern_ib_create_gen(dev, opcode, cmd, len, id, &generation);
}

/* The same for a CQ, QP or SRQ, whose events have *@generation. */
int tern_ib_create_gen(struct tern_ib_dev *dev, u16 opcode, const void *cmd,
		       size_t len, u32 *id, u32 *generation)
{
	struct tern_rsp_object rsp = {};
	int err;

	err = tern_cmd_exec(dev->core, opcode, cmd, len, &rsp, sizeof(rsp));
	if (err)
		return err;

	*id = le32_to_cpu(rsp.id);
	*generation = le32_to_cpu(rsp.generation);
	return 0;
}

/**
 * tern_ib_destroy() - destroy an object in the device
 * @dev: the device
 * @opcode: TERN_CMD_* that destroys it
 * @id: object number or key
 *
 * May sleep.
 *
 * Return: 0 if the device no longer uses the object, which is always true of a
 * dead device; otherwise the errno for which a live device kept it.
 */
int tern_ib_destroy(struct tern_ib_dev *dev, u16 opcode, u32 id)
{
	struct tern_cmd_object cmd = { .id = cpu_to_le32(id) };
	int err;

	err = tern_cmd_exec(dev->core, opcode, &cmd, sizeof(cmd), NULL, 0);
	/* The device may have died while it executed this command. */
	if (err && tern_core_dead(dev->core))
		return 0;

	return err;
}

/* Queries an object. Bytes of @out that the device does not write are 0. */
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
 * @umem: the memory, or NULL
 * @err: return value of tern_ib_destroy() for the object
 *
 * If the device may still write to the memory, it stays pinned forever.
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
