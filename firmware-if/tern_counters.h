/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * The names of the HCA's counters, in the order of TERN_CNT_*: mlx5's where it
 * has the counter. The including file defines TERN_COUNTER(index, name), which
 * this file undefines.
 */
TERN_COUNTER(TERN_CNT_RX_WRITE_REQUESTS, "rx_write_requests")
TERN_COUNTER(TERN_CNT_RX_READ_REQUESTS, "rx_read_requests")
TERN_COUNTER(TERN_CNT_RX_ATOMIC_REQUESTS, "rx_atomic_requests")
TERN_COUNTER(TERN_CNT_OUT_OF_BUFFER, "out_of_buffer")
TERN_COUNTER(TERN_CNT_OUT_OF_SEQUENCE, "out_of_sequence")
TERN_COUNTER(TERN_CNT_DUPLICATE_REQUEST, "duplicate_request")
TERN_COUNTER(TERN_CNT_RNR_NAK_RETRY_ERR, "rnr_nak_retry_err")
TERN_COUNTER(TERN_CNT_PACKET_SEQ_ERR, "packet_seq_err")
TERN_COUNTER(TERN_CNT_IMPLIED_NAK_SEQ_ERR, "implied_nak_seq_err")
TERN_COUNTER(TERN_CNT_LOCAL_ACK_TIMEOUT_ERR, "local_ack_timeout_err")
TERN_COUNTER(TERN_CNT_RESP_LOCAL_LENGTH_ERROR, "resp_local_length_error")
TERN_COUNTER(TERN_CNT_RESP_CQE_ERROR, "resp_cqe_error")
TERN_COUNTER(TERN_CNT_REQ_CQE_ERROR, "req_cqe_error")
TERN_COUNTER(TERN_CNT_REQ_REMOTE_INVALID_REQUEST, "req_remote_invalid_request")
TERN_COUNTER(TERN_CNT_REQ_REMOTE_ACCESS_ERRORS, "req_remote_access_errors")
TERN_COUNTER(TERN_CNT_RESP_REMOTE_ACCESS_ERRORS, "resp_remote_access_errors")
TERN_COUNTER(TERN_CNT_RESP_CQE_FLUSH_ERROR, "resp_cqe_flush_error")
TERN_COUNTER(TERN_CNT_REQ_CQE_FLUSH_ERROR, "req_cqe_flush_error")
TERN_COUNTER(TERN_CNT_RX_ICRC_ERRORS, "rx_icrc_encapsulated")
TERN_COUNTER(TERN_CNT_RX_MALFORMED, "rx_malformed")
TERN_COUNTER(TERN_CNT_RX_QP_MISMATCH, "rx_qp_mismatch")
TERN_COUNTER(TERN_CNT_QKEY_VIOLATIONS, "qkey_violations")
TERN_COUNTER(TERN_CNT_BAD_DOORBELL, "bad_doorbell")
TERN_COUNTER(TERN_CNT_DMA_ERRORS, "dma_errors")
TERN_COUNTER(TERN_CNT_CQ_OVERRUNS, "cq_overruns")
TERN_COUNTER(TERN_CNT_TX_RDMA_PACKETS, "tx_rdma_packets")
TERN_COUNTER(TERN_CNT_TX_RDMA_BYTES, "tx_rdma_bytes")
TERN_COUNTER(TERN_CNT_RX_RDMA_PACKETS, "rx_rdma_packets")
TERN_COUNTER(TERN_CNT_RX_RDMA_BYTES, "rx_rdma_bytes")
TERN_COUNTER(TERN_CNT_NP_ECN_MARKED, "np_ecn_marked_roce_packets")
TERN_COUNTER(TERN_CNT_NP_CNP_SENT, "np_cnp_sent")
TERN_COUNTER(TERN_CNT_RP_CNP_HANDLED, "rp_cnp_handled")
TERN_COUNTER(TERN_CNT_EQ_COALESCED, "eq_coalesced")
TERN_COUNTER(TERN_CNT_PAGE_FAULTS, "page_faults")
TERN_COUNTER(TERN_CNT_RP_CNP_IGNORED, "rp_cnp_ignored")

#undef TERN_COUNTER
