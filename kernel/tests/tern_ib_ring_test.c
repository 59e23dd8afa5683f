// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of kernel queues: work requests, queue sizes, completions. */

#include <kunit/test.h>
#include <linux/module.h>
#include <linux/sizes.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_ib_ring.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

static void tern_test_wr_opcode(struct kunit *test)
{
	static const struct {
		enum ib_wr_opcode wr;
		u8 opcode;
		bool ud, uc, data, may_inline;
	} cases[] = {
		{ IB_WR_SEND, TERN_WR_SEND, true, true, true, true },
		{ IB_WR_SEND_WITH_IMM, TERN_WR_SEND_WITH_IMM, true, true, true, true },
		{ IB_WR_SEND_WITH_INV, TERN_WR_SEND_WITH_INV, false, true, true, true },
		{ IB_WR_RDMA_WRITE, TERN_WR_RDMA_WRITE, false, true, true, true },
		{ IB_WR_RDMA_WRITE_WITH_IMM, TERN_WR_RDMA_WRITE_WITH_IMM,
		  false, true, true, true },
		{ IB_WR_RDMA_READ, TERN_WR_RDMA_READ, false, false, true, false },
		{ IB_WR_ATOMIC_CMP_AND_SWP, TERN_WR_ATOMIC_CMP_AND_SWP,
		  false, false, true, false },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, TERN_WR_ATOMIC_FETCH_AND_ADD,
		  false, false, true, false },
		{ IB_WR_ATOMIC_WRITE, TERN_WR_ATOMIC_WRITE,
		  false, false, true, true },
		{ IB_WR_LOCAL_INV, TERN_WR_LOCAL_INV, false, true, false, false },
		{ IB_WR_REG_MR, TERN_WR_REG_MR, false, true, false, false },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		u8 op = tern_wr_opcode(cases[i].wr);

		KUNIT_EXPECT_EQ_MSG(test, op, cases[i].opcode, "wr %d", cases[i].wr);
		KUNIT_EXPECT_TRUE(test, tern_wr_allowed(IB_QPT_RC, op));
		KUNIT_EXPECT_EQ_MSG(test, tern_wr_allowed(IB_QPT_UC, op),
				    cases[i].uc, "UC, opcode %u", op);
		KUNIT_EXPECT_EQ_MSG(test, tern_wr_allowed(IB_QPT_UD, op),
				    cases[i].ud, "UD, opcode %u", op);
		KUNIT_EXPECT_EQ_MSG(test, tern_wr_allowed(IB_QPT_GSI, op),
				    cases[i].ud, "GSI, opcode %u", op);
		KUNIT_EXPECT_EQ_MSG(test, tern_wr_may_inline(op),
				    cases[i].may_inline, "opcode %u", op);
		KUNIT_EXPECT_EQ_MSG(test, tern_wr_has_data(op), cases[i].data,
				    "opcode %u", op);
	}
}

static void tern_test_wr_unknown(struct kunit *test)
{
	static const enum ib_wr_opcode none[] = {
		IB_WR_BIND_MW, IB_WR_LSO, IB_WR_REG_MR_INTEGRITY,
		IB_WR_MASKED_ATOMIC_CMP_AND_SWP, IB_WR_RDMA_READ_WITH_INV,
		IB_WR_RESERVED1, IB_WR_RESERVED10,
		/* Kernel work requests have no fields for its operands. */
		IB_WR_FLUSH,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(none); i++)
		KUNIT_EXPECT_EQ_MSG(test, tern_wr_opcode(none[i]), TERN_WR_NONE,
				    "wr %d", none[i]);
	for (i = 0; i < IB_QPT_MAX; i++)
		KUNIT_EXPECT_FALSE(test, tern_wr_allowed(i, TERN_WR_NONE));
}

static void tern_test_wr_flags(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tern_wr_flags(0, IB_SIGNAL_REQ_WR), 0);
	KUNIT_EXPECT_EQ(test, tern_wr_flags(0, IB_SIGNAL_ALL_WR),
			TERN_WQE_F_SIGNALED);
	KUNIT_EXPECT_EQ(test, tern_wr_flags(IB_SEND_SIGNALED, IB_SIGNAL_REQ_WR),
			TERN_WQE_F_SIGNALED);
	KUNIT_EXPECT_EQ(test, tern_wr_flags(IB_SEND_SOLICITED, IB_SIGNAL_REQ_WR),
			TERN_WQE_F_SOLICITED);
	KUNIT_EXPECT_EQ(test, tern_wr_flags(IB_SEND_FENCE, IB_SIGNAL_REQ_WR),
			TERN_WQE_F_FENCE);
	/* INLINE depends on the opcode; no checksum offload. */
	KUNIT_EXPECT_EQ(test, tern_wr_flags(IB_SEND_INLINE | IB_SEND_IP_CSUM,
					    IB_SIGNAL_REQ_WR), 0);
}

static void tern_test_sges(struct kunit *test)
{
	static const struct ib_sge sge[] = {
		{ .addr = 0x1122334455667788, .length = U32_MAX, .lkey = 0xa1a2a3a4 },
		{ .addr = 1, .length = U32_MAX, .lkey = 2 },
		{ .length = 3 },
	};
	struct tern_sge to[ARRAY_SIZE(sge)] = {};

	KUNIT_EXPECT_EQ(test, tern_sge_bytes(sge, 0), 0);
	/* Exceeds 32 bits. */
	KUNIT_EXPECT_EQ(test, tern_sge_bytes(sge, 3), 2ULL * U32_MAX + 3);

	KUNIT_EXPECT_EQ(test, tern_fill_sges(to, sge, 2), sge[0].length + (u64)sge[1].length);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(to[0].addr), sge[0].addr);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(to[0].length), sge[0].length);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(to[0].lkey), sge[0].lkey);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(to[1].addr), 1);
	KUNIT_EXPECT_EQ(test, to[2].addr, 0);
}

static void tern_test_recv_wqe(struct kunit *test)
{
	struct ib_sge sge = { .addr = 0x1000, .length = 64, .lkey = 7 };
	const struct ib_recv_wr wr = {
		.wr_id = 0xfedcba9876543210, .sg_list = &sge, .num_sge = 1,
	};
	u8 slot[sizeof(struct tern_rq_hdr) + 2 * sizeof(struct tern_sge)];
	struct tern_sge *to = (void *)slot + sizeof(struct tern_rq_hdr);
	struct tern_rq_hdr *hdr = (void *)slot;
	struct tern_posted posted = {};

	memset(slot, 0xa5, sizeof(slot));
	tern_recv_wqe_fill(slot, &wr, 29, &posted);
	KUNIT_EXPECT_EQ(test, posted.wr_id, wr.wr_id);
	KUNIT_EXPECT_EQ(test, posted.length, 64);
	/* The owner's data stays with the driver. */
	KUNIT_EXPECT_EQ(test, le64_to_cpu(hdr->wr_id), 29);
	KUNIT_EXPECT_EQ(test, hdr->num_sge, 1);
	KUNIT_EXPECT_EQ(test, le64_to_cpu(to[0].addr), sge.addr);
	/* Nothing is written after the last SGE. */
	KUNIT_EXPECT_EQ(test, le64_to_cpu(to[1].addr), 0xa5a5a5a5a5a5a5a5);
}

static void tern_test_slot(struct kunit *test)
{
	u8 *memory = kunit_kzalloc(test, 2 * PAGE_SIZE, GFP_KERNEL);
	/* Half of the ring is at the end of a page, half in the next one. */
	void *first = memory + 2 * PAGE_SIZE - 128, *second = memory;
	const struct tern_kpage pages[] = {
		{ .cpu = memory + PAGE_SIZE }, { .cpu = memory },
	};
	const struct tern_wq wq = {
		.pages = pages, .offset = PAGE_SIZE - 128,
		.log_size = 2, .log_stride = 6,
	};

	KUNIT_ASSERT_NOT_NULL(test, memory);
	KUNIT_EXPECT_PTR_EQ(test, tern_wq_slot(&wq, 0), first);
	KUNIT_EXPECT_PTR_EQ(test, tern_wq_slot(&wq, 1), first + 64);
	KUNIT_EXPECT_PTR_EQ(test, tern_wq_slot(&wq, 2), second);
	KUNIT_EXPECT_PTR_EQ(test, tern_wq_slot(&wq, 3), second + 64);
	KUNIT_EXPECT_PTR_EQ(test, tern_wq_slot(&wq, 4), first);
	KUNIT_EXPECT_PTR_EQ(test, tern_wq_slot(&wq, U32_MAX), second + 64);
}

static void tern_test_wq_bytes(struct kunit *test)
{
	struct tern_wq wq = { .log_size = 2, .log_stride = 6 };

	KUNIT_EXPECT_EQ(test, tern_wq_bytes(&wq), 4 * 64);
	wq.log_size = 0;
	KUNIT_EXPECT_EQ(test, tern_wq_bytes(&wq), 64);
	/* Exceeds 32 bits. */
	wq.log_size = 30;
	KUNIT_EXPECT_EQ(test, tern_wq_bytes(&wq), 16 * SZ_4G);
}

static void tern_test_send_bytes(struct kunit *test)
{
	const size_t hdr = sizeof(struct tern_sq_hdr);
	const size_t sge = sizeof(struct tern_sge);

	KUNIT_EXPECT_EQ(test, tern_send_wqe_bytes(IB_QPT_UD, 2, 0),
			hdr + sizeof(struct tern_ud_seg) + 2 * sge);
	KUNIT_EXPECT_EQ(test, tern_send_wqe_bytes(IB_QPT_GSI, 1, 256),
			hdr + sizeof(struct tern_ud_seg) + 256);
	KUNIT_EXPECT_EQ(test, tern_send_wqe_bytes(IB_QPT_RC, 16, 8),
			hdr + sizeof(struct tern_rdma_seg) + 16 * sge);
	/* Even the smallest queue has room for an atomic and a registration. */
	KUNIT_EXPECT_GE(test, tern_send_wqe_bytes(IB_QPT_RC, 0, 0),
			hdr + sizeof(struct tern_atomic_seg) + sge);
	KUNIT_EXPECT_GE(test, tern_send_wqe_bytes(IB_QPT_RC, 0, 0),
			hdr + sizeof(struct tern_reg_seg));
}

static void tern_test_strides(struct kunit *test)
{
	u32 num;

	KUNIT_EXPECT_EQ(test, tern_send_stride(1), TERN_SQ_STRIDE_MIN);
	KUNIT_EXPECT_EQ(test, tern_send_stride(BIT(TERN_SQ_STRIDE_MIN)),
			TERN_SQ_STRIDE_MIN);
	KUNIT_EXPECT_EQ(test, tern_send_stride(BIT(TERN_SQ_STRIDE_MIN) + 1),
			TERN_SQ_STRIDE_MIN + 1);
	KUNIT_EXPECT_EQ(test, tern_recv_stride(0), TERN_RQ_STRIDE_MIN);

	/* The kernel's own queues satisfy the checks for user queues. */
	for (num = 0; num <= 256; num++) {
		u8 log_stride = tern_recv_stride(num);

		if (log_stride > TERN_RQ_STRIDE_MAX)
			break;
		KUNIT_EXPECT_TRUE_MSG(test, tern_rq_stride_ok(log_stride, num),
				      "%u SGEs", num);
		if (log_stride > TERN_RQ_STRIDE_MIN)
			KUNIT_EXPECT_FALSE_MSG(test,
					       tern_rq_stride_ok(log_stride - 1, num),
					       "%u SGEs", num);
	}
	KUNIT_EXPECT_FALSE(test, tern_rq_stride_ok(TERN_RQ_STRIDE_MAX + 1, 1));
	KUNIT_EXPECT_FALSE(test, tern_rq_stride_ok(TERN_RQ_STRIDE_MIN - 1, 0));
	/* The size of the SGEs exceeds 32 bits. */
	KUNIT_EXPECT_FALSE(test, tern_rq_stride_ok(TERN_RQ_STRIDE_MAX, U32_MAX));
	KUNIT_EXPECT_FALSE(test, tern_rq_stride_ok(TERN_RQ_STRIDE_MAX, BIT(28)));
}

static void tern_test_log_size(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, tern_queue_log_size(0, 0), 0);
	KUNIT_EXPECT_EQ(test, tern_queue_log_size(1, 0), 0);
	KUNIT_EXPECT_EQ(test, tern_queue_log_size(1, TERN_CQ_LOG_SIZE_MIN),
			TERN_CQ_LOG_SIZE_MIN);
	KUNIT_EXPECT_EQ(test, tern_queue_log_size(1000, 0), 10);
	KUNIT_EXPECT_EQ(test, tern_queue_log_size(1024, 0), 10);
	KUNIT_EXPECT_EQ(test, tern_queue_log_size(1025, 0), 11);
}

static void tern_test_queue_len(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, tern_queue_len_ok(4096, 100));
	KUNIT_EXPECT_TRUE(test, tern_queue_len_ok(128, 128));
	KUNIT_EXPECT_FALSE(test, tern_queue_len_ok(64, 65));
	/* The buffer may be rounded up to whole pages, but not beyond. */
	KUNIT_EXPECT_TRUE(test, tern_queue_len_ok(2 * PAGE_SIZE, PAGE_SIZE + 1));
	KUNIT_EXPECT_FALSE(test, tern_queue_len_ok(2 * PAGE_SIZE, PAGE_SIZE));
	KUNIT_EXPECT_FALSE(test, tern_queue_len_ok(PAGE_SIZE + 1, 100));
	KUNIT_EXPECT_FALSE(test, tern_queue_len_ok(SZ_4G, SZ_4G));
	KUNIT_EXPECT_FALSE(test, tern_queue_len_ok(U64_MAX, U64_MAX));
}

static void tern_test_wc_status(struct kunit *test)
{
	static const struct {
		u8 status;
		enum ib_wc_status wc;
	} cases[] = {
		{ TERN_CQE_SUCCESS, IB_WC_SUCCESS },
		{ TERN_CQE_LOC_LEN_ERR, IB_WC_LOC_LEN_ERR },
		{ TERN_CQE_LOC_QP_OP_ERR, IB_WC_LOC_QP_OP_ERR },
		{ TERN_CQE_LOC_PROT_ERR, IB_WC_LOC_PROT_ERR },
		{ TERN_CQE_WR_FLUSH_ERR, IB_WC_WR_FLUSH_ERR },
		{ TERN_CQE_MW_BIND_ERR, IB_WC_MW_BIND_ERR },
		{ TERN_CQE_BAD_RESP_ERR, IB_WC_BAD_RESP_ERR },
		{ TERN_CQE_LOC_ACCESS_ERR, IB_WC_LOC_ACCESS_ERR },
		{ TERN_CQE_REM_INV_REQ_ERR, IB_WC_REM_INV_REQ_ERR },
		{ TERN_CQE_REM_ACCESS_ERR, IB_WC_REM_ACCESS_ERR },
		{ TERN_CQE_REM_OP_ERR, IB_WC_REM_OP_ERR },
		{ TERN_CQE_RETRY_EXC_ERR, IB_WC_RETRY_EXC_ERR },
		{ TERN_CQE_RNR_RETRY_EXC_ERR, IB_WC_RNR_RETRY_EXC_ERR },
		{ TERN_CQE_REM_ABORT_ERR, IB_WC_REM_ABORT_ERR },
		{ TERN_CQE_FATAL_ERR, IB_WC_FATAL_ERR },
		{ TERN_CQE_RESP_TIMEOUT_ERR, IB_WC_RESP_TIMEOUT_ERR },
		{ TERN_CQE_GENERAL_ERR, IB_WC_GENERAL_ERR },
		{ U8_MAX, IB_WC_GENERAL_ERR },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, tern_wc_status(cases[i].status),
				    cases[i].wc, "status %u", cases[i].status);
	for (i = 0; i <= U8_MAX; i++)
		if (i != TERN_CQE_SUCCESS)
			KUNIT_EXPECT_NE_MSG(test, tern_wc_status(i),
					    IB_WC_SUCCESS, "status %u", i);
}

static void tern_test_wc_opcode(struct kunit *test)
{
	static const struct {
		u8 opcode;
		enum ib_wc_opcode wc;
	} cases[] = {
		{ TERN_WR_SEND, IB_WC_SEND },
		{ TERN_WR_SEND_WITH_IMM, IB_WC_SEND },
		{ TERN_WR_SEND_WITH_INV, IB_WC_SEND },
		{ TERN_WR_RDMA_WRITE, IB_WC_RDMA_WRITE },
		{ TERN_WR_RDMA_WRITE_WITH_IMM, IB_WC_RDMA_WRITE },
		{ TERN_WR_RDMA_READ, IB_WC_RDMA_READ },
		{ TERN_WR_ATOMIC_CMP_AND_SWP, IB_WC_COMP_SWAP },
		{ TERN_WR_ATOMIC_FETCH_AND_ADD, IB_WC_FETCH_ADD },
		{ TERN_WR_ATOMIC_WRITE, IB_WC_ATOMIC_WRITE },
		{ TERN_WR_FLUSH, IB_WC_FLUSH },
		{ TERN_WR_LOCAL_INV, IB_WC_LOCAL_INV },
		{ TERN_WR_REG_MR, IB_WC_REG_MR },
		{ TERN_RECV_SEND, IB_WC_RECV },
		{ TERN_RECV_RDMA_WITH_IMM, IB_WC_RECV_RDMA_WITH_IMM },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++)
		KUNIT_EXPECT_EQ_MSG(test, tern_wc_opcode(cases[i].opcode),
				    cases[i].wc, "opcode %u", cases[i].opcode);
}

static void tern_test_wc(struct kunit *test)
{
	struct tern_cqe cqe = {
		.wr_id = cpu_to_le64(0x1122334455667788),
		.byte_len = cpu_to_le32(1000),
		.imm = cpu_to_be32(0x01020304),
		.opcode = TERN_RECV_SEND,
		.flags = TERN_CQE_F_IMM,
		.vendor_err = 9,
	};
	struct ib_wc wc;

	memset(&wc, 0xa5, sizeof(wc));
	tern_cqe_to_wc(&cqe, &wc);
	KUNIT_EXPECT_EQ(test, wc.wr_id, 0);
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_SUCCESS);
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_RECV);
	KUNIT_EXPECT_EQ(test, wc.byte_len, 1000);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(wc.ex.imm_data), 0x01020304);
	KUNIT_EXPECT_EQ(test, wc.wc_flags, IB_WC_WITH_IMM);

	cqe.flags = TERN_CQE_F_INV;
	cqe.inv_rkey = cpu_to_le32(0xabcd);
	tern_cqe_to_wc(&cqe, &wc);
	KUNIT_EXPECT_EQ(test, wc.ex.invalidate_rkey, 0xabcd);
	KUNIT_EXPECT_EQ(test, wc.wc_flags, IB_WC_WITH_INVALIDATE);

	/* A failed completion only has a status. */
	cqe.status = TERN_CQE_WR_FLUSH_ERR;
	tern_cqe_to_wc(&cqe, &wc);
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, wc.vendor_err, 9);
	KUNIT_EXPECT_EQ(test, wc.byte_len, 0);
	KUNIT_EXPECT_EQ(test, wc.wc_flags, 0);
}

static void tern_test_wc_ud(struct kunit *test)
{
	static const u8 smac[ETH_ALEN] = { 2, 3, 5, 7, 11, 13 };
	struct tern_cqe cqe = {
		.opcode = TERN_RECV_SEND,
		.flags = TERN_CQE_F_GRH,
		.src_qp = cpu_to_le32(0x123456),
		.pkey_index = cpu_to_le16(0),
		.vlan = cpu_to_le16(U16_MAX),
		.sl = 5,
		.net_type = TERN_NET_IPV4,
	};
	const int flags = IB_WC_GRH | IB_WC_WITH_SMAC | IB_WC_WITH_NETWORK_HDR_TYPE;
	struct ib_wc wc;

	memcpy(cqe.smac, smac, sizeof(smac));
	tern_cqe_to_wc(&cqe, &wc);
	KUNIT_EXPECT_EQ(test, wc.src_qp, 0x123456);
	KUNIT_EXPECT_EQ(test, wc.sl, 5);
	KUNIT_EXPECT_MEMEQ(test, wc.smac, smac, sizeof(smac));
	KUNIT_EXPECT_EQ(test, wc.network_hdr_type, RDMA_NETWORK_IPV4);
	KUNIT_EXPECT_EQ(test, wc.wc_flags, flags);

	cqe.net_type = TERN_NET_IPV6;
	cqe.flags |= TERN_CQE_F_VLAN;
	tern_cqe_to_wc(&cqe, &wc);
	KUNIT_EXPECT_EQ(test, wc.network_hdr_type, RDMA_NETWORK_IPV6);
	KUNIT_EXPECT_EQ(test, wc.vlan_id, VLAN_VID_MASK);
	KUNIT_EXPECT_EQ(test, wc.wc_flags, flags | IB_WC_WITH_VLAN);
}

static void tern_test_flush(struct kunit *test)
{
	struct ib_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct ib_wc wc;

	KUNIT_ASSERT_NOT_NULL(test, qp);
	/* No previous contents remain. */
	memset(&wc, 0xa5, sizeof(wc));
	tern_flush_wc(qp, IB_WC_RECV, 0x1122334455667788, &wc);
	KUNIT_EXPECT_EQ(test, wc.wr_id, 0x1122334455667788);
	KUNIT_EXPECT_EQ(test, wc.status, IB_WC_WR_FLUSH_ERR);
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_RECV);
	KUNIT_EXPECT_PTR_EQ(test, wc.qp, qp);
	KUNIT_EXPECT_EQ(test, wc.byte_len, 0);
	KUNIT_EXPECT_EQ(test, wc.vendor_err, 0);
	KUNIT_EXPECT_EQ(test, wc.wc_flags, 0);

	tern_flush_wc(qp, IB_WC_SEND, 0, &wc);
	KUNIT_EXPECT_EQ(test, wc.wr_id, 0);
	KUNIT_EXPECT_EQ(test, wc.opcode, IB_WC_SEND);
}

static struct kunit_case tern_ib_util_cases[] = {
	KUNIT_CASE(tern_test_wr_opcode),
	KUNIT_CASE(tern_test_wr_unknown),
	KUNIT_CASE(tern_test_wr_flags),
	KUNIT_CASE(tern_test_sges),
	KUNIT_CASE(tern_test_recv_wqe),
	KUNIT_CASE(tern_test_slot),
	KUNIT_CASE(tern_test_wq_bytes),
	KUNIT_CASE(tern_test_send_bytes),
	KUNIT_CASE(tern_test_strides),
	KUNIT_CASE(tern_test_log_size),
	KUNIT_CASE(tern_test_queue_len),
	KUNIT_CASE(tern_test_wc_status),
	KUNIT_CASE(tern_test_wc_opcode),
	KUNIT_CASE(tern_test_wc),
	KUNIT_CASE(tern_test_wc_ud),
	KUNIT_CASE(tern_test_flush),
	{}
};

static struct kunit_suite tern_ib_util_suite = {
	.name = "tern_ib_ring",
	.test_cases = tern_ib_util_cases,
};

kunit_test_suite(tern_ib_util_suite);

MODULE_DESCRIPTION("KUnit tests of tern's work requests, queue sizes and completions");
MODULE_LICENSE("Dual BSD/GPL");
