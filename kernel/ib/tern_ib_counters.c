// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Port counters of the RDMA function for "rdma statistic", with mlx5's names.
 */

#include "tern_ib.h"

static const struct rdma_stat_desc tern_counters[] = {
	[TERN_CNT_RX_WRITE_REQUESTS].name = "rx_write_requests",
	[TERN_CNT_RX_READ_REQUESTS].name = "rx_read_requests",
	[TERN_CNT_RX_ATOMIC_REQUESTS].name = "rx_atomic_requests",
	[TERN_CNT_OUT_OF_BUFFER].name = "out_of_buffer",
	[TERN_CNT_OUT_OF_SEQUENCE].name = "out_of_sequence",
	[TERN_CNT_DUPLICATE_REQUEST].name = "duplicate_request",
	[TERN_CNT_RNR_NAK_RETRY_ERR].name = "rnr_nak_retry_err",
	[TERN_CNT_PACKET_SEQ_ERR].name = "packet_seq_err",
	[TERN_CNT_IMPLIED_NAK_SEQ_ERR].name = "implied_nak_seq_err",
	[TERN_CNT_LOCAL_ACK_TIMEOUT_ERR].name = "local_ack_timeout_err",
	[TERN_CNT_RESP_LOCAL_LENGTH_ERROR].name = "resp_local_length_error",
	[TERN_CNT_RESP_CQE_ERROR].name = "resp_cqe_error",
	[TERN_CNT_REQ_CQE_ERROR].name = "req_cqe_error",
	[TERN_CNT_REQ_REMOTE_INVALID_REQUEST].name =
		"req_remote_invalid_request",
	[TERN_CNT_REQ_REMOTE_ACCESS_ERRORS].name = "req_remote_access_errors",
	[TERN_CNT_RESP_REMOTE_ACCESS_ERRORS].name = "resp_remote_access_errors",
	[TERN_CNT_RESP_CQE_FLUSH_ERROR].name = "resp_cqe_flush_error",
	[TERN_CNT_REQ_CQE_FLUSH_ERROR].name = "req_cqe_flush_error",
	[TERN_CNT_RX_ICRC_ERRORS].name = "rx_icrc_encapsulated",
	[TERN_CNT_RX_MALFORMED].name = "rx_malformed",
	[TERN_CNT_RX_QP_MISMATCH].name = "rx_qp_mismatch",
	[TERN_CNT_QKEY_VIOLATIONS].name = "qkey_violations",
	[TERN_CNT_BAD_DOORBELL].name = "bad_doorbell",
	[TERN_CNT_DMA_ERRORS].name = "dma_errors",
	[TERN_CNT_CQ_OVERRUNS].name = "cq_overruns",
	[TERN_CNT_TX_RDMA_PACKETS].name = "tx_rdma_packets",
	[TERN_CNT_TX_RDMA_BYTES].name = "tx_rdma_bytes",
	[TERN_CNT_RX_RDMA_PACKETS].name = "rx_rdma_packets",
	[TERN_CNT_RX_RDMA_BYTES].name = "rx_rdma_bytes",
	[TERN_CNT_NP_ECN_MARKED].name = "np_ecn_marked_roce_packets",
	[TERN_CNT_NP_CNP_SENT].name = "np_cnp_sent",
	[TERN_CNT_RP_CNP_HANDLED].name = "rp_cnp_handled",
	[TERN_CNT_EQ_COALESCED].name = "eq_coalesced",
	[TERN_CNT_PAGE_FAULTS].name = "page_faults",
};

static_assert(ARRAY_SIZE(tern_counters) == TERN_CNT_RDMA_NUM);

struct rdma_hw_stats *tern_alloc_hw_port_stats(struct ib_device *ibdev,
					       u32 port)
{
	return rdma_alloc_hw_stats_struct(tern_counters,
					  ARRAY_SIZE(tern_counters),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/**
 * tern_get_hw_stats() - read all counters
 * @ibdev: the device
 * @stats: output
 * @port: 1
 * @index: requested counter; ignored, because one command reads all of them
 *
 * Return: number of counters filled, or a negative errno.
 */
int tern_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats,
		      u32 port, int index)
{
	struct tern_cmd_query_counters cmd = {
		.group = cpu_to_le32(TERN_COUNTERS_RDMA),
		.port = port,
	};
	__le64 counters[TERN_CNT_RDMA_NUM];
	unsigned int i;
	int err;

	err = tern_cmd_exec(to_tdev(ibdev)->core, TERN_CMD_QUERY_COUNTERS, &cmd,
			    sizeof(cmd), counters, sizeof(counters));
	if (err)
		return err;

	for (i = 0; i < ARRAY_SIZE(counters); i++)
		stats->value[i] = le64_to_cpu(counters[i]);

	return ARRAY_SIZE(counters);
}
