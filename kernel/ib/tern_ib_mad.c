// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Performance management (IBTA 16.1): the port's counters by MAD and in sysfs. */

#include <rdma/ib_pma.h>

#include "tern_counts.h"
#include "tern_ib.h"

/* Where attributes of the class begin in ib_mad.data. */
#define TERN_PMA_OFFSET		40

static __be16 tern_pma_be16(u64 value)
{
	return cpu_to_be16(min_t(u64, value, U16_MAX));
}

static __be32 tern_pma_be32(u64 value)
{
	return cpu_to_be32(min_t(u64, value, U32_MAX));
}

/* These counters stop at their largest value. Data are in words of 4 bytes. */
static void tern_pma_counters(const u64 *values, struct ib_pma_portcounters *out)
{
	out->port_rcv_errors = tern_pma_be16(values[TERN_CNT_RX_ICRC_ERRORS] +
					     values[TERN_CNT_RX_MALFORMED]);
	out->port_xmit_data = tern_pma_be32(values[TERN_CNT_TX_RDMA_BYTES] / 4);
	out->port_rcv_data = tern_pma_be32(values[TERN_CNT_RX_RDMA_BYTES] / 4);
	out->port_xmit_packets = tern_pma_be32(values[TERN_CNT_TX_RDMA_PACKETS]);
	out->port_rcv_packets = tern_pma_be32(values[TERN_CNT_RX_RDMA_PACKETS]);
}

static void tern_pma_counters_ext(const u64 *values,
				  struct ib_pma_portcounters_ext *out)
{
	out->port_xmit_data = cpu_to_be64(values[TERN_CNT_TX_RDMA_BYTES] / 4);
	out->port_rcv_data = cpu_to_be64(values[TERN_CNT_RX_RDMA_BYTES] / 4);
	out->port_xmit_packets = cpu_to_be64(values[TERN_CNT_TX_RDMA_PACKETS]);
	out->port_rcv_packets = cpu_to_be64(values[TERN_CNT_RX_RDMA_PACKETS]);
}

/* Fills in an attribute. Returns the status of the MAD or a negative errno. */
static int tern_pma_get(struct tern_ib_dev *dev, u32 port, const struct ib_mad *in,
			struct ib_mad *out)
{
	const struct ib_pma_portcounters *request = (void *)&in->data[TERN_PMA_OFFSET];
	struct ib_pma_portcounters *reply = (void *)&out->data[TERN_PMA_OFFSET];
	struct ib_class_port_info *info = (void *)&out->data[TERN_PMA_OFFSET];
	u64 values[TERN_CNT_RDMA_NUM];
	bool ext = false;
	int err;

	switch (in->mad_hdr.attr_id) {
	case IB_PMA_CLASS_PORT_INFO:
		info->base_version = IB_MGMT_BASE_VERSION;
		info->class_version = in->mad_hdr.class_version;
		/* There are no counters of unicasts and multicasts. */
		info->capability_mask = IB_PMA_CLASS_CAP_ALLPORTSELECT |
					IB_PMA_CLASS_CAP_EXT_WIDTH_NOIETF;
		return 0;
	case IB_PMA_PORT_COUNTERS_EXT:
		ext = true;
		fallthrough;
	case IB_PMA_PORT_COUNTERS:
		break;
	default:
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	}

	/* The port, or all ports. */
	if (request->port_select != port && request->port_select != U8_MAX)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;

	err = tern_port_counters(dev, port, values);
	if (err)
		return err;

	reply->port_select = request->port_select;
	if (ext)
		tern_pma_counters_ext(values, (void *)reply);
	else
		tern_pma_counters(values, reply);

	return 0;
}

/**
 * tern_process_mad() - answer a MAD of the performance management class
 * @ibdev: the device
 * @flags: unused
 * @port: 1
 * @in_wc: the completion of a MAD that was received; NULL for sysfs
 * @in_grh: unused
 * @in: the MAD
 * @out: output, the answer
 * @out_size: unused: the answer has the size of @in
 * @pkey_index: unused
 *
 * Clears of counters are refused. All other MADs are for agents in software,
 * among them the answers that they wait for.
 *
 * Return: IB_MAD_RESULT_SUCCESS, with IB_MAD_RESULT_REPLY if there is an answer;
 * IB_MAD_RESULT_FAILURE if the device does not tell its counters.
 */
int tern_process_mad(struct ib_device *ibdev, int flags, u32 port,
		     const struct ib_wc *in_wc, const struct ib_grh *in_grh,
		     const struct ib_mad *in, struct ib_mad *out,
		     size_t *out_size, u16 *pkey_index)
{
	int status = IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;

	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT ||
	    (in->mad_hdr.method != IB_MGMT_METHOD_GET &&
	     in->mad_hdr.method != IB_MGMT_METHOD_SET))
		return IB_MAD_RESULT_SUCCESS;

	memset(out, 0, sizeof(*out));
	out->mad_hdr = in->mad_hdr;
	out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	if (in->mad_hdr.method == IB_MGMT_METHOD_GET)
		status = tern_pma_get(to_tdev(ibdev), port, in, out);
	if (status < 0)
		return IB_MAD_RESULT_FAILURE;

	out->mad_hdr.status = cpu_to_be16(status);

	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}
