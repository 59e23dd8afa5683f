// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RSS QPs: raw packet QPs that spread Ethernet frames over work queues. */

#include <linux/bits.h>
#include <linux/slab.h>
#include <linux/string.h>

#include <rdma/restrack.h>
#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_ib_raw.h"

/* However many RSS QPs there are, the netdev can create its groups again. */
static int tern_max_rss(const struct tern_rsp_caps *caps)
{
	int max = tern_limit(caps->max_rss);

	return max - min(max, TERN_MAX_RSS);
}

/* Device attributes of work queues and RSS QPs. */
void tern_fill_rss(const struct tern_ib_dev *dev, struct ib_device_attr *attr)
{
	const struct tern_rsp_caps *caps = dev->core->caps;

	if (!tern_has_steering(dev))
		return;

#ifndef TERN_WITHOUT_FLOW
	attr->device_cap_flags |= IB_DEVICE_MANAGED_FLOW_STEERING;
#endif
	attr->max_wq_type_rq = tern_limit(caps->max_qp);
	attr->rss_caps.supported_qpts = BIT(IB_QPT_RAW_PACKET);
	attr->rss_caps.max_rwq_indirection_tables = tern_max_rss(caps);
	attr->rss_caps.max_rwq_indirection_table_size = TERN_RSS_ENTRIES;
}

/* Returns the TERN_UCTX_CAP_* that concern RSS QPs. */
u32 tern_rss_uctx_caps(const struct tern_ib_dev *dev)
{
	u32 caps = TERN_UCTX_CAP_RSS;

	if (!tern_has_steering(dev))
		return 0;

	if (tern_has_cap(dev, TERN_CAP_RSS_TUNNEL))
		caps |= TERN_UCTX_CAP_RSS_TUNNEL;

	return caps;
}

/* Translates TERN_RX_HASH_* to the fields of each kind of packet. */
void tern_rss_fields(u64 mask, u8 *fields)
{
	static const struct {
		u32 mask;
		u8 field;
		u8 kinds;	/* BIT(TERN_RSS_*) */
	} map[] = {
#define TERN_RSS_KINDS_IPV4 \
		(BIT(TERN_RSS_IPV4) | BIT(TERN_RSS_TCP4) | BIT(TERN_RSS_UDP4) | \
		 BIT(TERN_RSS_ESP4))
#define TERN_RSS_KINDS_IPV6 \
		(BIT(TERN_RSS_IPV6) | BIT(TERN_RSS_TCP6) | BIT(TERN_RSS_UDP6) | \
		 BIT(TERN_RSS_ESP6))
#define TERN_RSS_KINDS_TCP	(BIT(TERN_RSS_TCP4) | BIT(TERN_RSS_TCP6))
#define TERN_RSS_KINDS_UDP	(BIT(TERN_RSS_UDP4) | BIT(TERN_RSS_UDP6))
#define TERN_RSS_KINDS_ESP	(BIT(TERN_RSS_ESP4) | BIT(TERN_RSS_ESP6))
		{ TERN_RX_HASH_SRC_IPV4, TERN_RSS_FIELD_SRC_IP,
		  TERN_RSS_KINDS_IPV4 },
		{ TERN_RX_HASH_DST_IPV4, TERN_RSS_FIELD_DST_IP,
		  TERN_RSS_KINDS_IPV4 },
		{ TERN_RX_HASH_SRC_IPV6, TERN_RSS_FIELD_SRC_IP,
		  TERN_RSS_KINDS_IPV6 },
		{ TERN_RX_HASH_DST_IPV6, TERN_RSS_FIELD_DST_IP,
		  TERN_RSS_KINDS_IPV6 },
		{ TERN_RX_HASH_SRC_PORT_TCP, TERN_RSS_FIELD_SRC_PORT,
		  TERN_RSS_KINDS_TCP },
		{ TERN_RX_HASH_DST_PORT_TCP, TERN_RSS_FIELD_DST_PORT,
		  TERN_RSS_KINDS_TCP },
		{ TERN_RX_HASH_SRC_PORT_UDP, TERN_RSS_FIELD_SRC_PORT,
		  TERN_RSS_KINDS_UDP },
		{ TERN_RX_HASH_DST_PORT_UDP, TERN_RSS_FIELD_DST_PORT,
		  TERN_RSS_KINDS_UDP },
		{ TERN_RX_HASH_IPSEC_SPI, TERN_RSS_FIELD_SPI,
		  TERN_RSS_KINDS_ESP },
	};
	unsigned int i, kind;
	u8 kinds = U8_MAX;

	/* Without an SPI, ESP is hashed like other protocols. */
	if (!(mask & TERN_RX_HASH_IPSEC_SPI))
		kinds &= ~TERN_RSS_KINDS_ESP;

	for (i = 0; i < ARRAY_SIZE(map); i++)
		for (kind = TERN_RSS_IPV4; kind <= TERN_RSS_ESP6; kind++)
			if ((mask & map[i].mask) &&
			    map[i].kinds & kinds & BIT(kind))
				fields[kind] |= map[i].field;
}

/*
 * Returns 0, -EOPNOTSUPP for an unsupported function or field, -EINVAL for
 * invalid parameters. Without fields every frame goes to the first entry, so it
 * must be the only one.
 */
int tern_check_rss(const struct tern_ib_dev *dev,
		   const struct tern_ureq_create_rss_qp *req,
		   const struct ib_rwq_ind_table *table)
{
	u64 known = TERN_RX_HASH_FIELDS;
	bool hashes;

	if (tern_has_cap(dev, TERN_CAP_RSS_TUNNEL))
		known |= TERN_RX_HASH_IPSEC_SPI | TERN_RX_HASH_INNER;

	if (tern_reserved_set(dev, req->reserved_50, sizeof(req->reserved_50)))
		return -EINVAL;

	if (req->rx_hash_function != TERN_RX_HASH_FUNC_TOEPLITZ ||
	    req->rx_hash_fields_mask & ~known)
		return tern_refuse(dev, -EOPNOTSUPP, "hash %u of fields %#llx",
				   req->rx_hash_function,
				   req->rx_hash_fields_mask);

	/* INNER selects the headers; it is not a field. */
	hashes = req->rx_hash_fields_mask & ~(u64)TERN_RX_HASH_INNER;
	if (req->rx_hash_key_len != sizeof(req->rx_hash_key) ||
	    (!hashes && (req->rx_hash_fields_mask || table->log_ind_tbl_size)))
		return tern_refuse(dev, -EINVAL,
				   "hash key of %u bytes, fields %#llx, table of 2^%u",
				   req->rx_hash_key_len,
				   req->rx_hash_fields_mask,
				   table->log_ind_tbl_size);

	return 0;
}

/* Creates the RSS group of @table. Returns -ENOMEM if there are as many as there may be. */
int tern_rss_exec_create(struct tern_ib_dev *dev, struct tern_qp *qp,
			 const struct ib_rwq_ind_table *table,
			 const struct tern_ureq_create_rss_qp *req)
{
	struct tern_cmd_rss *cmd;
	unsigned int i;
	int err;

	/* The uAPI allows larger tables than the device. */
	if (tern_exceeds(dev, "entries of the table",
			 BIT(table->log_ind_tbl_size), ARRAY_SIZE(cmd->entries)))
		return -EINVAL;

	if (!atomic_add_unless(&dev->num_rss, 1, tern_max_rss(dev->core->caps)))
		return -ENOMEM;

	cmd = kzalloc_obj(*cmd);
	if (!cmd) {
		atomic_dec(&dev->num_rss);
		return -ENOMEM;
	}

	cmd->port = TERN_IB_PORT;
	cmd->log_entries = table->log_ind_tbl_size;
	cmd->kind = TERN_DEST_QP;
	cmd->func = TERN_RSS_FUNC_TOEPLITZ;
	if (req->rx_hash_fields_mask & TERN_RX_HASH_INNER)
		cmd->func |= TERN_RSS_F_INNER;
	tern_rss_fields(req->rx_hash_fields_mask, cmd->fields);
	static_assert(sizeof(cmd->key) == sizeof(req->rx_hash_key));
	memcpy(cmd->key, req->rx_hash_key, sizeof(cmd->key));
	for (i = 0; i < BIT(table->log_ind_tbl_size); i++)
		cmd->entries[i] = cpu_to_le32(table->ind_tbl[i]->wq_num);

	err = tern_ib_create(dev, TERN_CMD_CREATE_RSS, cmd, sizeof(*cmd),
			     &qp->rssn);
	kfree(cmd);
	if (err)
		atomic_dec(&dev->num_rss);
	return err;
}

/**
 * tern_create_rss_qp() - create an RSS QP
 * @dev: the device
 * @qp: the QP, which has no queues, no number and no state
 * @attr: attributes with an indirection table
 * @udata: struct tern_ureq_create_rss_qp, no response; NULL for kernel users
 *
 * Return: 0; -EOPNOTSUPP for an unsupported type, flag, hash function or hash
 * field, and for kernel users; -EINVAL for other invalid attributes; or another
 * negative errno.
 */
int tern_create_rss_qp(struct tern_ib_dev *dev, struct tern_qp *qp,
		       struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	const struct ib_rwq_ind_table *table = attr->rwq_ind_tbl;
	struct tern_ureq_create_rss_qp req;
	int err;

	if (!udata || attr->qp_type != IB_QPT_RAW_PACKET ||
	    attr->create_flags || !tern_has_steering(dev))
		return tern_refuse(dev, -EOPNOTSUPP, "RSS QP of type %d, flags %#x",
				   attr->qp_type, attr->create_flags);

	/* It has no send queue. */
	if (attr->cap.max_send_wr || attr->send_cq || attr->srq)
		return tern_refuse(dev, -EINVAL, "RSS QP with send queue or SRQ");

	err = ib_copy_validate_udata_in(udata, req, rx_hash_key);
	if (err)
		return err;

	err = tern_check_rss(dev, &req, table);
	if (err)
		return err;

	err = tern_rss_exec_create(dev, qp, table, &req);
	if (err)
		return err;

	attr->cap = (struct ib_qp_cap){};
	err = ib_respond_empty_udata(udata);
	if (err) {
		tern_destroy_rss_qp(dev, qp);
		return err;
	}

	/* Without a number it must not be in the list of QPs. */
	rdma_restrack_no_track(&qp->ibqp.res);
	return 0;
}

void tern_destroy_rss_qp(struct tern_ib_dev *dev, struct tern_qp *qp)
{
	/* If a live device refuses, it keeps the group until its next reset. */
	tern_ib_destroy(dev, TERN_CMD_DESTROY_RSS, qp->rssn);
	atomic_dec(&dev->num_rss);
}
