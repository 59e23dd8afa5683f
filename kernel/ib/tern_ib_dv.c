// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Methods of the driver's own, for the provider's direct verbs: keys, UDP source
 * ports, operations on device memory.
 */

#include <rdma/uverbs_ioctl.h>
#define UVERBS_MODULE_NAME tern_ib
#include <rdma/uverbs_named_ioctl.h>

#include "tern_dm_op.h"
#include "tern_ib.h"
#include "tern_ib_dv.h"

/* User space knows keys and operations by the device's values. */
static_assert(TERN_KEY_STATE_FREE == TERN_KEY_ST_FREE);
static_assert(TERN_KEY_STATE_VALID == TERN_KEY_ST_VALID);
static_assert(TERN_DM_MAP_OP_NUM == TERN_DM_OP_NUM);

/* Per-context limit on pages from the shared pool. */
#define TERN_MAX_DM_OPS		64

/* ---- keys ---- */

/* Translates TERN_ACCESS_* of a key to IB_ACCESS_*. */
static int tern_key_access_flags(u32 access)
{
	static const struct {
		u32 dev;
		int ib;
	} bits[] = {
		{ TERN_ACCESS_LOCAL_WRITE, IB_ACCESS_LOCAL_WRITE },
		{ TERN_ACCESS_REMOTE_WRITE, IB_ACCESS_REMOTE_WRITE },
		{ TERN_ACCESS_REMOTE_READ, IB_ACCESS_REMOTE_READ },
		{ TERN_ACCESS_REMOTE_ATOMIC, IB_ACCESS_REMOTE_ATOMIC },
		{ TERN_ACCESS_MW_BIND, IB_ACCESS_MW_BIND },
		{ TERN_ACCESS_ZERO_BASED, IB_ZERO_BASED },
		{ TERN_ACCESS_ON_DEMAND, IB_ACCESS_ON_DEMAND },
		{ TERN_ACCESS_FLUSH_GLOBAL, IB_ACCESS_FLUSH_GLOBAL },
	};
	int flags = 0;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bits); i++)
		if (access & bits[i].dev)
			flags |= bits[i].ib;

	return flags;
}

/**
 * tern_query_key() - query a key of a PD
 * @ibpd: the PD
 * @key: key of a region or window, with any variant for a window
 * @resp: output
 *
 * Return: 0; -ENOENT if the PD has no such key, whether another one has or not;
 * or another negative errno.
 */
int tern_query_key(struct ib_pd *ibpd, u32 key,
		   struct tern_uresp_query_key *resp)
{
	struct tern_rsp_mr rsp;
	int err;

	err = tern_ib_query(to_tdev(ibpd->device), TERN_CMD_QUERY_MR, key, &rsp,
			    sizeof(rsp));
	if (err)
		return err;
	if (le32_to_cpu(rsp.pdn) != to_tpd(ibpd)->pdn)
		return -ENOENT;

	*resp = (struct tern_uresp_query_key){
		.addr = le64_to_cpu(rsp.iova),
		.length = le64_to_cpu(rsp.length),
		.key = le32_to_cpu(rsp.key),
		.access = tern_key_access_flags(le32_to_cpu(rsp.access)),
		.qp_num = le32_to_cpu(rsp.qpn),
		.num_windows = le32_to_cpu(rsp.num_windows),
		.mr_key = le32_to_cpu(rsp.mr_key),
		.state = rsp.state,
		.type = rsp.type,
	};
	return 0;
}

static int UVERBS_HANDLER(TERN_IB_METHOD_PD_QUERY_KEY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_pd *ibpd = uverbs_attr_get_obj(attrs,
						 TERN_IB_ATTR_QUERY_KEY_PD);
	struct tern_uresp_query_key resp;
	u32 key;
	int err;

	err = uverbs_copy_from(&key, attrs, TERN_IB_ATTR_QUERY_KEY_KEY);
	if (err)
		return err;

	err = tern_query_key(ibpd, key, &resp);
	if (err)
		return err;

	return uverbs_copy_to_struct_or_zero(attrs, TERN_IB_ATTR_QUERY_KEY_RESP,
					     &resp, sizeof(resp));
}

/* ---- UDP source ports ---- */

static bool tern_qp_has_path(const struct tern_qp *qp)
{
	switch (qp->ibqp.qp_type) {
	case IB_QPT_RC:
	case IB_QPT_UC:
	case IB_QPT_XRC_INI:
	case IB_QPT_XRC_TGT:
		return true;
	default:
		return false;
	}
}

/*
 * Returns the driver's QP. For an XRC target, and for one that a process has
 * opened, the object is ib_core's own: a bare struct ib_qp that refers to the
 * driver's.
 */
static struct tern_qp *tern_real_qp(struct ib_qp *ibqp)
{
	return to_tqp(ibqp->real_qp);
}

/**
 * tern_qp_set_sport() - set the UDP source port of a connected QP
 * @ibqp: the QP of a uobject
 * @sport: the port of packets sent from now on, repeated ones included
 *
 * Return: 0; -EOPNOTSUPP for a type without a path and for an old device;
 * -EINVAL for port 0 and for a QP that is neither in RTS nor in SQD; or another
 * negative errno.
 */
int tern_qp_set_sport(struct ib_qp *ibqp, u16 sport)
{
	struct tern_qp *qp = tern_real_qp(ibqp);
	struct tern_ib_dev *dev = to_tdev(qp->ibqp.device);
	struct tern_cmd_modify_qp cmd = {
		.qpn = cpu_to_le32(qp->ibqp.qp_num),
		.mask = cpu_to_le32(TERN_QPA_UDP_SPORT),
		.attr.av.udp_sport = cpu_to_le16(sport),
	};
	int err;

	if (!tern_has_cap(dev, TERN_CAP_UDP_SPORT) || !tern_qp_has_path(qp))
		return tern_refuse(dev, -EOPNOTSUPP, "UDP source port of QP type %d",
				   qp->ibqp.qp_type);
	if (!sport)
		return tern_refuse(dev, -EINVAL, "UDP source port 0");

	mutex_lock(&qp->lock);
	err = tern_cmd_exec(dev->core, TERN_CMD_MODIFY_QP, &cmd, sizeof(cmd),
			    NULL, 0);
	mutex_unlock(&qp->lock);

	return err;
}

/**
 * tern_qp_get_sport() - query the UDP source port of a connected QP
 * @ibqp: the QP of a uobject
 * @sport: output
 *
 * Return: 0; -EOPNOTSUPP for a type without a path; -EINVAL for a QP that is not
 * connected; or another negative errno.
 */
int tern_qp_get_sport(struct ib_qp *ibqp, u16 *sport)
{
	struct tern_qp *qp = tern_real_qp(ibqp);
	struct tern_ib_dev *dev = to_tdev(qp->ibqp.device);
	struct tern_rsp_query_qp rsp;
	int err;

	if (!tern_qp_has_path(qp))
		return tern_refuse(dev, -EOPNOTSUPP, "UDP source port of QP type %d",
				   qp->ibqp.qp_type);

	err = tern_ib_query(dev, TERN_CMD_QUERY_QP, qp->ibqp.qp_num, &rsp,
			    sizeof(rsp));
	if (err)
		return err;
	if (!rsp.attr.path_mtu)
		return tern_refuse(dev, -EINVAL, "QP %u is not connected",
				   qp->ibqp.qp_num);

	*sport = le16_to_cpu(rsp.attr.av.udp_sport);
	return 0;
}

static int UVERBS_HANDLER(TERN_IB_METHOD_QP_SET_SPORT)(struct uverbs_attr_bundle *attrs)
{
	struct ib_qp *ibqp = uverbs_attr_get_obj(attrs,
						 TERN_IB_ATTR_SET_SPORT_QP);
	u16 sport;
	int err;

	err = uverbs_copy_from(&sport, attrs, TERN_IB_ATTR_SET_SPORT_PORT);
	if (err)
		return err;

	return tern_qp_set_sport(ibqp, sport);
}

static int UVERBS_HANDLER(TERN_IB_METHOD_QP_GET_SPORT)(struct uverbs_attr_bundle *attrs)
{
	struct ib_qp *ibqp = uverbs_attr_get_obj(attrs,
						 TERN_IB_ATTR_GET_SPORT_QP);
	u16 sport;
	int err;

	err = tern_qp_get_sport(ibqp, &sport);
	if (err)
		return err;

	return uverbs_copy_to(attrs, TERN_IB_ATTR_GET_SPORT_PORT, &sport,
			      sizeof(sport));
}

/* ---- operations on device memory ---- */

/* Allocates an operation page. It holds a reference on the DM's pages. */
static struct tern_mmap_entry *tern_dm_op_create(struct tern_ib_dev *dev,
						 struct tern_dm *dm, u8 op,
						 u32 page)
{
	struct rdma_user_mmap_entry *memory = &dm->entry->rdma_entry;
	struct tern_cmd_map_dm_op cmd = {
		.offset = cpu_to_le64((u64)page << PAGE_SHIFT),
		.dmn = cpu_to_le32(dm->entry->id),
		.op = op,
	};
	struct tern_mmap_entry *entry;
	u32 uar;
	int err;

	err = tern_ib_create(dev, TERN_CMD_MAP_DM_OP, &cmd, sizeof(cmd), &uar);
	if (err)
		return ERR_PTR(err);

	entry = tern_mmap_add_uar(memory->ucontext, TERN_MMAP_DM_OP, uar);
	if (IS_ERR(entry))
		return entry;

	entry->memory = rdma_user_mmap_entry_get_pgoff(memory->ucontext,
						       memory->start_pgoff);
	return entry;
}

/* Returns the operation page for a page of the DM, the existing one if any. */
static struct tern_mmap_entry *tern_dm_op_get(struct tern_ib_dev *dev,
					      struct tern_dm *dm, u8 op,
					      u32 page)
{
	unsigned long index = (unsigned long)page * TERN_DM_OP_NUM + op;
	struct tern_mmap_entry *entry;
	struct tern_ucontext *ucontext;
	int err;

	lockdep_assert_held(&dm->ops_lock);

	entry = xa_load(&dm->ops, index);
	if (entry)
		return entry;

	ucontext = to_tucontext(dm->entry->rdma_entry.ucontext);
	if (!atomic_add_unless(&ucontext->num_dm_ops, 1, TERN_MAX_DM_OPS))
		return ERR_PTR(-ENOSPC);

	entry = tern_dm_op_create(dev, dm, op, page);
	/* Otherwise tern_mmap_free() subtracts it. */
	if (IS_ERR(entry)) {
		atomic_dec(&ucontext->num_dm_ops);
		return entry;
	}

	err = xa_insert(&dm->ops, index, entry, GFP_KERNEL);
	if (err) {
		rdma_user_mmap_entry_remove(&entry->rdma_entry);
		return ERR_PTR(err);
	}

	return entry;
}

/**
 * tern_dm_ops_init() - initialize the operation pages of device memory
 * @dm: the memory
 */
void tern_dm_ops_init(struct tern_dm *dm)
{
	mutex_init(&dm->ops_lock);
	xa_init(&dm->ops);
}

/**
 * tern_dm_ops_remove() - remove the operation pages of device memory
 * @dm: the memory
 *
 * Existing mappings remain, and with them the pages and the memory.
 */
void tern_dm_ops_remove(struct tern_dm *dm)
{
	struct tern_mmap_entry *entry;
	unsigned long index;

	xa_for_each(&dm->ops, index, entry)
		rdma_user_mmap_entry_remove(&entry->rdma_entry);
	xa_destroy(&dm->ops);
	mutex_destroy(&dm->ops_lock);
}

static int UVERBS_HANDLER(TERN_IB_METHOD_DM_MAP_OP)(struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *ibdm = uverbs_attr_get_obj(attrs,
						 TERN_IB_ATTR_MAP_DM_OP_DM);
	struct tern_ib_dev *dev = to_tdev(ibdm->device);
	struct tern_dm *dm = to_tdm(ibdm);
	struct tern_uresp_alloc_dm resp;
	struct tern_mmap_entry *entry;
	u64 offset;
	int err;
	u8 op;

	err = uverbs_copy_from(&op, attrs, TERN_IB_ATTR_MAP_DM_OP_OP);
	if (!err)
		err = uverbs_copy_from(&offset, attrs,
				       TERN_IB_ATTR_MAP_DM_OP_OFFSET);
	if (err)
		return err;

	if (!tern_has_cap(dev, TERN_CAP_DM_OPS) || op >= TERN_DM_OP_NUM)
		return tern_refuse(dev, -EOPNOTSUPP, "operation %u", op);
	if (offset & ~PAGE_MASK ||
	    offset >> PAGE_SHIFT >= dm->entry->rdma_entry.npages)
		return tern_refuse(dev, -EINVAL, "offset %llu in %zu pages", offset,
				   dm->entry->rdma_entry.npages);

	mutex_lock(&dm->ops_lock);
	entry = tern_dm_op_get(dev, dm, op, offset >> PAGE_SHIFT);
	if (!IS_ERR(entry))
		resp = (struct tern_uresp_alloc_dm){
			.mmap_offset = rdma_user_mmap_get_offset(&entry->rdma_entry),
			.mmap_size = PAGE_SIZE,
		};
	mutex_unlock(&dm->ops_lock);
	if (IS_ERR(entry))
		return PTR_ERR(entry);

	return uverbs_copy_to_struct_or_zero(attrs, TERN_IB_ATTR_MAP_DM_OP_RESP,
					     &resp, sizeof(resp));
}

/* ---- methods ---- */

DECLARE_UVERBS_NAMED_METHOD(TERN_IB_METHOD_PD_QUERY_KEY,
			    UVERBS_ATTR_IDR(TERN_IB_ATTR_QUERY_KEY_PD,
					    UVERBS_OBJECT_PD,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_IN(TERN_IB_ATTR_QUERY_KEY_KEY,
					       UVERBS_ATTR_TYPE(u32),
					       UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(TERN_IB_ATTR_QUERY_KEY_RESP,
						UVERBS_ATTR_STRUCT(struct tern_uresp_query_key,
								   reserved_130),
						UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(TERN_IB_METHOD_QP_SET_SPORT,
			    UVERBS_ATTR_IDR(TERN_IB_ATTR_SET_SPORT_QP,
					    UVERBS_OBJECT_QP,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_IN(TERN_IB_ATTR_SET_SPORT_PORT,
					       UVERBS_ATTR_TYPE(u16),
					       UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(TERN_IB_METHOD_QP_GET_SPORT,
			    UVERBS_ATTR_IDR(TERN_IB_ATTR_GET_SPORT_QP,
					    UVERBS_OBJECT_QP,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(TERN_IB_ATTR_GET_SPORT_PORT,
						UVERBS_ATTR_TYPE(u16),
						UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(TERN_IB_METHOD_DM_MAP_OP,
			    UVERBS_ATTR_IDR(TERN_IB_ATTR_MAP_DM_OP_DM,
					    UVERBS_OBJECT_DM,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_IN(TERN_IB_ATTR_MAP_DM_OP_OP,
					       UVERBS_ATTR_TYPE(u8),
					       UA_MANDATORY),
			    UVERBS_ATTR_PTR_IN(TERN_IB_ATTR_MAP_DM_OP_OFFSET,
					       UVERBS_ATTR_TYPE(u64),
					       UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(TERN_IB_ATTR_MAP_DM_OP_RESP,
						UVERBS_ATTR_STRUCT(struct tern_uresp_alloc_dm,
								   mmap_size),
						UA_MANDATORY));

DECLARE_UVERBS_GLOBAL_METHODS(UVERBS_OBJECT_PD,
			      &UVERBS_METHOD(TERN_IB_METHOD_PD_QUERY_KEY));
DECLARE_UVERBS_GLOBAL_METHODS(UVERBS_OBJECT_QP,
			      &UVERBS_METHOD(TERN_IB_METHOD_QP_SET_SPORT),
			      &UVERBS_METHOD(TERN_IB_METHOD_QP_GET_SPORT));
DECLARE_UVERBS_GLOBAL_METHODS(UVERBS_OBJECT_DM,
			      &UVERBS_METHOD(TERN_IB_METHOD_DM_MAP_OP));

const struct uapi_definition tern_dv_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(UVERBS_OBJECT_PD),
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(UVERBS_OBJECT_QP),
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(UVERBS_OBJECT_DM),
	{}
};
