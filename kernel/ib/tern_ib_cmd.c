// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Commands on a single object, and what becomes of its memory if they fail; access
 * rights in commands.
 */

#include <linux/array_size.h>

#include "tern_ib.h"

static const struct {
	int ib;
	u32 dev;
} tern_access[] = {
	{ IB_ACCESS_LOCAL_WRITE, TERN_ACCESS_LOCAL_WRITE },
	{ IB_ACCESS_REMOTE_WRITE, TERN_ACCESS_REMOTE_WRITE },
	{ IB_ACCESS_REMOTE_READ, TERN_ACCESS_REMOTE_READ },
	{ IB_ACCESS_REMOTE_ATOMIC, TERN_ACCESS_REMOTE_ATOMIC },
	{ IB_ACCESS_MW_BIND, TERN_ACCESS_MW_BIND },
	{ IB_ZERO_BASED, TERN_ACCESS_ZERO_BASED },
	{ IB_ACCESS_FLUSH_GLOBAL, TERN_ACCESS_FLUSH_GLOBAL },
	{ IB_ACCESS_FLUSH_PERSISTENT, TERN_ACCESS_FLUSH_PERSISTENT },
};

static u32 tern_access_to_dev(int access)
{
	unsigned int i;
	u32 result = 0;

	for (i = 0; i < ARRAY_SIZE(tern_access); i++)
		if (access & tern_access[i].ib)
			result |= tern_access[i].dev;

	return result;
}

/* What a peer may do with a QP. */
#define TERN_QP_ACCESS	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
			 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_FLUSH_GLOBAL | \
			 IB_ACCESS_FLUSH_PERSISTENT)

/* Translates IB_ACCESS_* of a region to TERN_ACCESS_*. Drops hints. */
u32 tern_mr_access(int access)
{
	return tern_access_to_dev(access & ~IB_ACCESS_FLUSH_PERSISTENT);
}

/*
 * Translates IB_ACCESS_* of a QP to TERN_ACCESS_*. FLUSH for persistence is accepted,
 * as other RDMA devices do; no region grants it.
 */
u32 tern_qp_access(int flags)
{
	return tern_access_to_dev(flags & TERN_QP_ACCESS);
}

/* Translates TERN_ACCESS_* of a QP to IB_ACCESS_*. */
int tern_qp_access_flags(u32 access)
{
	unsigned int i;
	int flags = 0;

	for (i = 0; i < ARRAY_SIZE(tern_access); i++)
		if (access & tern_access[i].dev)
			flags |= tern_access[i].ib;

	return flags & TERN_QP_ACCESS;
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

/*
 * Creates a region in the device: *@key is its lkey and rkey. -EIO: the device reports
 * the key of all memory. It may have the region's memory, so it is stopped.
 */
int tern_ib_create_mr(struct tern_ib_dev *dev,
		      const struct tern_cmd_create_mr *cmd, u32 *key)
{
	int err;

	err = tern_ib_create(dev, TERN_CMD_CREATE_MR, cmd, sizeof(*cmd), key);
	if (err || *key != TERN_LKEY_DMA)
		return err;

	tern_core_stop(dev->core);
	return -EIO;
}

/*
 * Destroys an object in the device. Returns 0 if the device no longer uses it, which is
 * always true of a dead device; otherwise the errno for which a live device kept it.
 * May sleep.
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

/*
 * Unpins the memory, or NULL, of a destroyed object. @err is that of tern_ib_destroy():
 * memory that the device may still write stays pinned forever.
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
