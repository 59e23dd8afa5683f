// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Raw packet QPs: WQEs of frames, completions, attributes, RSS QPs. */

#include <errno.h>

#include "fixture.h"
#include "../wqe.h"

#define RAW_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_TSO)

/* Ethernet, IPv4 and TCP, 54 bytes. */
static const uint8_t tcp4[54] = {
	[12] = 0x08, 0x00, 0x45, [23] = 6, [46] = 0x50,
};

/* The same with a VLAN tag and IPv6, 78 bytes. */
static const uint8_t tcp6[78] = {
	[12] = 0x81, 0x00, 0x00, 0x05, 0x86, 0xdd, 0x60, [24] = 6, [70] = 0x50,
};

static struct ibv_qp_init_attr_ex raw_attr(struct tern_cq *cq)
{
	return (struct ibv_qp_init_attr_ex) {
		.send_cq = &cq->vcq.cq,
		.recv_cq = &cq->vcq.cq,
		.cap = { 8, 8, 2, 2, 64 },
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = &test_pd.ibvpd,
		.send_ops_flags = RAW_OPS,
	};
}

static struct tern_qp *make_sized_qp(struct tern_cq *cq, struct ibv_qp_cap cap,
				     uint16_t max_tso_header)
{
	struct ibv_qp_init_attr_ex attr = raw_attr(cq);
	struct ibv_qp *qp;

	attr.cap = cap;
	/* Room for no headers is the default. */
	if (max_tso_header)
		attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	attr.max_tso_header = max_tso_header;
	qp = tern_create_qp_ex(&ctx->vctx.context, &attr);
	CHECK(qp);
	qp->state = IBV_QPS_RTS;
	return to_tern_qp(qp);
}

static struct tern_qp *make_raw_qp(struct tern_cq *cq, uint16_t max_tso_header)
{
	return make_sized_qp(cq, raw_attr(cq).cap, max_tso_header);
}

static struct tern_eth_offload *offload_of(struct tern_qp *qp, uint32_t index)
{
	struct tern_sq_hdr *hdr = tern_wq_slot(&qp->sq, index);

	return (void *)(hdr + 1);
}

/* A WQE of a frame that is sent as it is, with one SGE or inline data. */
static void check_frame(struct tern_qp *qp, uint32_t index, uint16_t ops,
			bool inlined)
{
	struct tern_eth_offload want = { .ops = htole16(ops) };
	struct tern_sq_hdr *hdr = tern_wq_slot(&qp->sq, index);
	struct tern_eth_offload *seg = offload_of(qp, index);
	struct tern_sge *sge = (void *)(seg + 1);

	CHECK(hdr->opcode == TERN_WR_SEND);
	CHECK(!memcmp(seg, &want, sizeof(want)));
	if (inlined) {
		CHECK(hdr->flags & TERN_WQE_F_INLINE && !hdr->num_sge);
		CHECK(le32toh(hdr->length) == 3 && !memcmp(sge, "abc", 3));
	} else {
		CHECK(!(hdr->flags & TERN_WQE_F_INLINE) && hdr->num_sge == 1);
		CHECK(le32toh(sge->length) == 3 && le32toh(sge->lkey) == 7);
	}
}

/* Frames through both interfaces, with and without checksums. */
void test_raw_send(void)
{
	static char data[] = "abc";
	struct ibv_sge sge = { (uintptr_t)data, 3, 7 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
	};
	struct tern_cq *cq = make_cq(64);
	struct ibv_qp_ex *qpx;
	struct tern_qp *qp;

	ctx->caps = TERN_UCTX_CAP_RAW_OFFLOAD;
	qp = make_raw_qp(cq, 0);
	qpx = &qp->vqp.qp_ex;

	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	wr.send_flags = IBV_SEND_IP_CSUM;
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	wr.send_flags = IBV_SEND_IP_CSUM | IBV_SEND_INLINE;
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));

	qpx->wr_start(qpx);
	qpx->wr_flags = 0;
	qpx->wr_send(qpx);
	qpx->wr_set_sge(qpx, 7, sge.addr, 3);
	qpx->wr_flags = IBV_SEND_IP_CSUM;
	qpx->wr_send(qpx);
	qpx->wr_set_sge_list(qpx, 1, &sge);
	qpx->wr_send(qpx);
	qpx->wr_set_inline_data(qpx, data, 3);
	CHECK(!qpx->wr_complete(qpx));

	check_frame(qp, 0, 0, false);
	check_frame(qp, 1, TERN_ETH_OP_IP_CSUM, false);
	check_frame(qp, 2, TERN_ETH_OP_IP_CSUM, true);
	check_frame(qp, 3, 0, false);
	check_frame(qp, 4, TERN_ETH_OP_IP_CSUM, false);
	check_frame(qp, 5, TERN_ETH_OP_IP_CSUM, true);
	CHECK(sq_pi(qp) == 6);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* Without offloads, only plain frames can be sent. */
static void check_no_offload(struct tern_cq *cq, struct ibv_send_wr *wr)
{
	struct ibv_qp_init_attr_ex attr = raw_attr(cq);
	struct ibv_send_wr *bad;
	struct ibv_qp *qp;

	CHECK(!tern_create_qp_ex(&ctx->vctx.context, &attr) &&
	      errno == EOPNOTSUPP);
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	qp = tern_create_qp_ex(&ctx->vctx.context, &attr);
	CHECK(qp);
	qp->state = IBV_QPS_RTS;
	wr->opcode = IBV_WR_TSO;
	CHECK(tern_post_send(qp, wr, &bad) == EOPNOTSUPP);
	wr->opcode = IBV_WR_SEND;
	CHECK(!tern_post_send(qp, wr, &bad));
	wr->send_flags = IBV_SEND_IP_CSUM;
	CHECK(tern_post_send(qp, wr, &bad) == EOPNOTSUPP);
	tern_destroy_qp(qp);
}

void test_raw_send_refused(void)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND_WITH_IMM };
	struct tern_cq *cq = make_cq(64);
	struct tern_qp *qp;

	ctx->caps = TERN_UCTX_CAP_RAW_OFFLOAD;
	qp = make_raw_qp(cq, 0);

	/* Nothing but frames, and no headers on a QP without room for them. */
	CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) == EINVAL);
	wr.opcode = IBV_WR_RDMA_WRITE;
	CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) == EINVAL);
	wr.opcode = IBV_WR_TSO;
	wr.tso.hdr = (void *)tcp4;
	wr.tso.hdr_sz = sizeof(tcp4);
	wr.tso.mss = 1000;
	CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) == EINVAL);
	CHECK(!sq_pi(qp));
	tern_destroy_qp(&qp->vqp.qp);

	ctx->caps = 0;
	check_no_offload(cq, &wr);
	tern_destroy_cq(&cq->vcq.cq);
}

static void check_tso(struct tern_qp *qp, uint32_t index, const void *header,
		      size_t length, size_t csum_start, bool inlined)
{
	struct tern_sq_hdr *hdr = tern_wq_slot(&qp->sq, index);
	struct tern_eth_offload *seg = offload_of(qp, index);
	uint8_t *data = (void *)(seg + 1);

	CHECK(hdr->opcode == TERN_WR_SEND);
	CHECK(le16toh(seg->ops) == TERN_ETH_OP_TSO);
	CHECK(le16toh(seg->mss) == 1000 && le16toh(seg->header_len) == length);
	CHECK(le16toh(seg->csum_start) == csum_start);
	CHECK(le16toh(seg->csum_offset) == 16);
	CHECK(!memcmp(data, header, length));

	/* 16-byte units: 64 bytes for 54, 80 for 78. */
	data += length == sizeof(tcp4) ? 64 : 80;
	if (inlined)
		CHECK(le32toh(hdr->length) == 3 && !memcmp(data, "abc", 3));
	else
		CHECK(hdr->num_sge == 2 &&
		      le32toh(((struct tern_sge *)data)[1].lkey) == 9);
}

void test_raw_tso(void)
{
	static char data[] = "abc";
	struct ibv_sge list[2] = {
		{ (uintptr_t)data, 3, 7 }, { (uintptr_t)data, 3, 9 },
	};
	struct ibv_send_wr *bad, wr = {
		.sg_list = list,
		.num_sge = 2,
		.opcode = IBV_WR_TSO,
		.tso = { (void *)tcp4, sizeof(tcp4), 1000 },
	};
	struct tern_cq *cq = make_cq(64);
	struct ibv_qp_ex *qpx;
	struct tern_qp *qp;

	ctx->caps = TERN_UCTX_CAP_RAW_OFFLOAD;
	qp = make_raw_qp(cq, 78);
	qpx = &qp->vqp.qp_ex;

	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	check_tso(qp, 0, tcp4, sizeof(tcp4), 34, false);
	wr.tso.hdr = (void *)tcp6;
	wr.tso.hdr_sz = sizeof(tcp6);
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	check_tso(qp, 1, tcp6, sizeof(tcp6), 58, false);
	wr.send_flags = IBV_SEND_INLINE | IBV_SEND_IP_CSUM;
	wr.num_sge = 1;
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	check_tso(qp, 2, tcp6, sizeof(tcp6), 58, true);

	qpx->wr_flags = 0;
	qpx->wr_start(qpx);
	qpx->wr_send_tso(qpx, (void *)tcp4, sizeof(tcp4), 1000);
	qpx->wr_set_sge_list(qpx, 2, list);
	qpx->wr_send_tso(qpx, (void *)tcp6, sizeof(tcp6), 1000);
	qpx->wr_set_inline_data(qpx, data, 3);
	CHECK(!qpx->wr_complete(qpx));
	check_tso(qp, 3, tcp4, sizeof(tcp4), 34, false);
	check_tso(qp, 4, tcp6, sizeof(tcp6), 58, true);
	CHECK(sq_pi(qp) == 5);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* Headers that are too long, have no segment size or are not TCP's. */
void test_raw_tso_refused(void)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_TSO,
		.tso = { (void *)tcp6, 79, 1000 },
	};
	struct tern_cq *cq = make_cq(64);
	uint8_t options[74] = {}, wqe[128];
	struct ibv_qp_ex *qpx;
	struct tern_qp *qp;

	ctx->caps = TERN_UCTX_CAP_RAW_OFFLOAD;
	qp = make_raw_qp(cq, 78);
	qpx = &qp->vqp.qp_ex;
	qpx->wr_flags = 0;
	CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) == EINVAL);
	wr.tso.hdr_sz = sizeof(tcp6);
	wr.tso.mss = 0;
	CHECK(tern_post_send(&qp->vqp.qp, &wr, &bad) == EINVAL);
	qpx->wr_start(qpx);
	qpx->wr_send_tso(qpx, (void *)tcp4, sizeof(tcp4) - 1, 1000);
	qpx->wr_set_sge_list(qpx, 0, NULL);
	CHECK(qpx->wr_complete(qpx) == EINVAL);
	CHECK(!sq_pi(qp));

	/* IPv4 options move the TCP header; another protocol has none. */
	memcpy(options, tcp4, 46);
	options[14] = 0x46;
	CHECK(tern_tso_csum_start(options, 58) == 38);
	CHECK(!tern_tso_csum_start(options, 57));
	options[23] = 17;
	CHECK(!tern_tso_csum_start(options, 58));
	CHECK(!tern_tso_csum_start(tcp6, 17) && !tern_tso_csum_start(tcp6, 13));
	tern_destroy_qp(&qp->vqp.qp);

	/* The headers fill the slot, and the next one stays as it is. */
	qp = make_sized_qp(cq, (struct ibv_qp_cap){ 2, 1, 0, 1, 0 }, 80);
	CHECK(!qp->sq.max_sge);
	memset(tern_wq_slot(&qp->sq, 1), 0x5c, sizeof(wqe));
	memcpy(wqe, tern_wq_slot(&qp->sq, 1), sizeof(wqe));
	qpx = &qp->vqp.qp_ex;
	qpx->wr_flags = 0;
	qpx->wr_start(qpx);
	qpx->wr_send_tso(qpx, (void *)tcp6, sizeof(tcp6), 1000);
	qpx->wr_set_sge(qpx, 3, 0x1000, 64);
	CHECK(qpx->wr_complete(qpx) == EINVAL && !sq_pi(qp));
	CHECK(!memcmp(wqe, tern_wq_slot(&qp->sq, 1), sizeof(wqe)));
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* The opcode of a completion comes from the WQE. */
void test_raw_tso_cqe(void)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_TSO,
		.tso = { (void *)tcp4, sizeof(tcp4), 1000 },
	};
	struct tern_cq *cq = make_cq(64);
	struct ibv_cq_ex *cqx = &cq->vcq.cq_ex;
	struct ibv_poll_cq_attr poll = {};
	struct tern_qp *qp, *other;
	struct ibv_wc wc[2];

	ctx->caps = TERN_UCTX_CAP_RAW_OFFLOAD;
	qp = make_raw_qp(cq, 64);
	other = make_qp(cq, cq, small_cap);
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	put_cqe(cq, 0, qp->vqp.qp.qp_num, 1, 0, 0);
	/* A QP that another thread has destroyed. */
	put_cqe(cq, 1, 0x999, 1, 0, 0);
	CHECK(tern_poll_cq(&cq->vcq.cq, 2, wc) == 2);
	CHECK(wc[0].opcode == IBV_WC_TSO && wc[0].status == IBV_WC_SUCCESS);
	CHECK(wc[1].opcode == IBV_WC_SEND);

	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	wr.opcode = IBV_WR_SEND;
	CHECK(!tern_post_send(&qp->vqp.qp, &wr, &bad));
	put_cqe(cq, 2, qp->vqp.qp.qp_num, 1, 1, 0);
	put_cqe(cq, 3, qp->vqp.qp.qp_num, 1, 2, 0);
	put_cqe(cq, 4, other->vqp.qp.qp_num, 1, 0, 0);
	CHECK(!ibv_start_poll(cqx, &poll));
	CHECK(ibv_wc_read_opcode(cqx) == IBV_WC_TSO);
	CHECK(!ibv_next_poll(cqx));
	CHECK(ibv_wc_read_opcode(cqx) == IBV_WC_SEND);
	CHECK(!ibv_next_poll(cqx));
	CHECK(ibv_wc_read_opcode(cqx) == IBV_WC_SEND);
	ibv_end_poll(cqx);
	tern_destroy_qp(&other->vqp.qp);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* Checksums, tags and VLANs of received frames, and what is not theirs. */
void test_raw_recv(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_CVLAN |
			    IBV_WC_EX_WITH_FLOW_TAG,
	};
	struct ibv_poll_cq_attr poll = {};
	struct tern_cqe cqe = {
		.flags = TERN_CQE_F_RECV | TERN_CQE_F_VLAN,
		.opcode = TERN_ETH_RX,
		.byte_len = htole32(60),
		.src_qp = htole32(0xabcdef),
		.inv_rkey = htole32(0x12345678),
		.pkey_index = htole16(TERN_ETH_HASH_L4),
		.vlan = htole16(0xa005),
	};
	struct ibv_cq_ex *cqx;
	struct tern_qp *qp;
	struct tern_cq *cq;
	struct ibv_wc wc;

	/* Tags need flows. */
	ctx->caps = TERN_UCTX_CAP_RAW_OFFLOAD;
	CHECK(!tern_create_cq_ex(&ctx->vctx.context, &attr) &&
	      errno == EOPNOTSUPP);
	ctx->caps |= TERN_UCTX_CAP_RSS;
	cqx = tern_create_cq_ex(&ctx->vctx.context, &attr);
	CHECK(cqx);
	cq = to_tern_cq_ex(cqx);
	qp = make_raw_qp(cq, 64);
	cqe.qpn = htole32(qp->vqp.qp.qp_num);

	put_whole_cqe(cq, 0, &cqe);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1);
	CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == 60);
	CHECK(!wc.wc_flags && !wc.src_qp && !wc.pkey_index);
	cqe.flags |= TERN_CQE_F_L3_OK;
	put_whole_cqe(cq, 1, &cqe);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1 && !wc.wc_flags);
	cqe.flags ^= TERN_CQE_F_L3_OK | TERN_CQE_F_L4_OK;
	put_whole_cqe(cq, 2, &cqe);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1 && !wc.wc_flags);
	cqe.flags |= TERN_CQE_F_L3_OK;
	put_whole_cqe(cq, 3, &cqe);
	CHECK(tern_poll_cq(&cq->vcq.cq, 1, &wc) == 1);
	CHECK(wc.wc_flags == IBV_WC_IP_CSUM_OK);

	put_whole_cqe(cq, 4, &cqe);
	CHECK(!ibv_start_poll(cqx, &poll));
	CHECK(ibv_wc_read_wc_flags(cqx) == IBV_WC_IP_CSUM_OK);
	CHECK(ibv_wc_read_flow_tag(cqx) == 0xabcdef);
	CHECK(ibv_wc_read_cvlan(cqx) == 0xa005);
	CHECK(!ibv_wc_read_src_qp(cqx));
	ibv_end_poll(cqx);

	/* A datagram has a source QP and no tag. */
	cqe.flags = TERN_CQE_F_RECV | TERN_CQE_F_GRH;
	put_whole_cqe(cq, 5, &cqe);
	CHECK(!ibv_start_poll(cqx, &poll));
	CHECK(ibv_wc_read_src_qp(cqx) == 0xabcdef);
	CHECK(!ibv_wc_read_flow_tag(cqx));
	ibv_end_poll(cqx);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&cq->vcq.cq);
}

/* Creation flags, with and without offloads. */
void test_raw_flags(void)
{
	const uint32_t flags[] = {
		IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, IBV_QP_CREATE_SCATTER_FCS,
		IBV_QP_CREATE_CVLAN_STRIPPING, IBV_QP_CREATE_SOURCE_QPN,
		IBV_QP_CREATE_PCI_WRITE_END_PADDING,
	};
	struct tern_cq *cq = make_cq(64);
	struct ibv_qp *qp;
	unsigned int i, caps;

	for (caps = 0; caps < 2; caps++)
		for (i = 0; i < 5; i++) {
			struct ibv_qp_init_attr_ex attr = raw_attr(cq);
			bool ok = caps ? i < 3 : i < 1;

			ctx->caps = caps ? TERN_UCTX_CAP_RAW_OFFLOAD : 0;
			attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
			attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
			attr.create_flags = flags[i];
			qp = tern_create_qp_ex(&ctx->vctx.context, &attr);
			CHECK(ok ? !!qp : !qp && errno == EOPNOTSUPP);
			if (qp) {
				CHECK(last_qp_ex.create_flags == flags[i]);
				CHECK(last_qp.log_sq_size == 3);
				tern_destroy_qp(qp);
			}

			/* UD has the first one, if the device has it. */
			attr.qp_type = IBV_QPT_UD;
			CHECK(!tern_create_qp_ex(&ctx->vctx.context, &attr) &&
			      errno == EOPNOTSUPP);
			ctx->caps |= TERN_UCTX_CAP_UD_NO_LOOPBACK;
			qp = tern_create_qp_ex(&ctx->vctx.context, &attr);
			CHECK(i ? !qp && errno == EOPNOTSUPP : !!qp);
			if (qp) {
				CHECK(last_qp_ex.create_flags == flags[i]);
				tern_destroy_qp(qp);
			}
			attr.qp_type = IBV_QPT_RC;
			CHECK(!tern_create_qp_ex(&ctx->vctx.context, &attr) &&
			      errno == EOPNOTSUPP);
		}
	tern_destroy_cq(&cq->vcq.cq);
}

void test_raw_attr(void)
{
	struct ibv_device_attr_ex dev_attr = {};
	struct tern_cq *cq = make_cq(64);
	struct ibv_qp_init_attr_ex attr = raw_attr(cq);
	struct tern_srq srq = {};
	struct ibv_qp *qp;

	ctx->caps = TERN_UCTX_CAP_RAW_OFFLOAD;
	attr.srq = &srq.vsrq.srq;
	qp = tern_create_qp_ex(&ctx->vctx.context, &attr);
	CHECK(qp && !attr.cap.max_recv_wr && !attr.cap.max_recv_sge);
	tern_destroy_qp(qp);
	attr = raw_attr(cq);
	attr.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	attr.max_tso_header = TERN_ETH_MAX_TSO_HEADER + 1;
	CHECK(!tern_create_qp_ex(&ctx->vctx.context, &attr) && errno == EINVAL);
	attr.max_tso_header--;
	qp = tern_create_qp_ex(&ctx->vctx.context, &attr);
	CHECK(qp && attr.cap.max_inline_data >= 64);
	/* Header 32, offloads 16, headers 256, then 64 bytes. */
	CHECK(last_qp.log_sq_stride == 9);
	tern_destroy_qp(qp);
	ctx->caps = 0;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	CHECK(!tern_create_qp_ex(&ctx->vctx.context, &attr) &&
	      errno == EOPNOTSUPP);

	tern_raw_query_device(ctx, &dev_attr, sizeof(dev_attr));
	CHECK(!dev_attr.tso_caps.max_tso && !dev_attr.rss_caps.rx_hash_function);
	ctx->caps = TERN_UCTX_CAP_RAW_OFFLOAD | TERN_UCTX_CAP_RSS;
	tern_raw_query_device(ctx, &dev_attr,
			      offsetof(struct ibv_device_attr_ex, tso_caps));
	CHECK(!dev_attr.tso_caps.max_tso);
	tern_raw_query_device(ctx, &dev_attr, sizeof(dev_attr));
	CHECK(dev_attr.tso_caps.max_tso == 65536);
	CHECK(dev_attr.tso_caps.supported_qpts == 1 << IBV_QPT_RAW_PACKET);
	CHECK(dev_attr.rss_caps.rx_hash_fields_mask == 0xff);
	ctx->caps |= TERN_UCTX_CAP_RSS_TUNNEL;
	tern_raw_query_device(ctx, &dev_attr, sizeof(dev_attr));
	CHECK(dev_attr.rss_caps.rx_hash_fields_mask == 0x800001ff);
	CHECK(dev_attr.rss_caps.rx_hash_function == IBV_RX_HASH_FUNC_TOEPLITZ);
	tern_destroy_cq(&cq->vcq.cq);
}

/* An RSS QP has a key and fields, and nothing can be posted to it. */
void test_rss_qp(void)
{
	uint8_t key[40] = { 1, 2, 3, [39] = 40 };
	struct ibv_rwq_ind_table table = {};
	const struct ibv_qp_init_attr_ex good = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH |
			     IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = &test_pd.ibvpd,
		.rwq_ind_tbl = &table,
		.rx_hash_conf = {
			.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
			.rx_hash_key_len = sizeof(key),
			.rx_hash_key = key,
			.rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 |
					       IBV_RX_HASH_DST_PORT_UDP,
		},
	};
	struct ibv_qp_init_attr_ex attr = good;
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_recv, recv = {};
	struct ibv_qp *qp;

	CHECK(!tern_create_qp_ex(&ctx->vctx.context, &attr) &&
	      errno == EOPNOTSUPP);
	ctx->caps = TERN_UCTX_CAP_RSS;
	qp = tern_create_qp_ex(&ctx->vctx.context, &attr);
	CHECK(qp && last_qp_ex.rwq_ind_tbl == &table);
	CHECK(last_rss.rx_hash_fields_mask == 0x81 &&
	      last_rss.rx_hash_function == 1 && last_rss.rx_hash_key_len == 40);
	CHECK(!memcmp(last_rss.rx_hash_key, key, sizeof(key)));
	CHECK(tern_post_send(qp, &wr, &bad) == EINVAL);
	CHECK(tern_post_recv(qp, &recv, &bad_recv) == EINVAL);
	CHECK(!tern_destroy_qp(qp));

#define REFUSED(err, field, value) do {                                        \
	attr = good;                                                           \
	attr.field = value;                                                    \
	CHECK(!tern_create_qp_ex(&ctx->vctx.context, &attr) && errno == err);  \
} while (0)
	REFUSED(EOPNOTSUPP, qp_type, IBV_QPT_UD);
	REFUSED(EOPNOTSUPP, create_flags, IBV_QP_CREATE_SCATTER_FCS);
	REFUSED(EOPNOTSUPP, rx_hash_conf.rx_hash_function, 2);
	REFUSED(EOPNOTSUPP, rx_hash_conf.rx_hash_fields_mask,
		IBV_RX_HASH_IPSEC_SPI);
	REFUSED(EOPNOTSUPP, rx_hash_conf.rx_hash_fields_mask,
		IBV_RX_HASH_INNER | IBV_RX_HASH_SRC_IPV4);
	REFUSED(EINVAL, rx_hash_conf.rx_hash_key_len, 39);
	REFUSED(EINVAL, rx_hash_conf.rx_hash_key, NULL);
	REFUSED(EINVAL, cap.max_send_wr, 1);
	REFUSED(EINVAL, cap.max_recv_wr, 1);
	REFUSED(EINVAL, rwq_ind_tbl, NULL);
	REFUSED(EINVAL, comp_mask, good.comp_mask & ~IBV_QP_INIT_ATTR_RX_HASH);
	REFUSED(ENOMEM, cap.max_inline_data, (create_err = ENOMEM, 0));
#undef REFUSED
	create_err = 0;

	attr = good;
	attr.rx_hash_conf.rx_hash_fields_mask = IBV_RX_HASH_INNER |
						IBV_RX_HASH_IPSEC_SPI;
	ctx->caps |= TERN_UCTX_CAP_RSS_TUNNEL;
	qp = tern_create_qp_ex(&ctx->vctx.context, &attr);
	CHECK(qp && last_rss.rx_hash_fields_mask == 0x80000100);
	CHECK(!tern_destroy_qp(qp));
	attr = good;
	attr.rx_hash_conf.rx_hash_fields_mask = 1 << 9;
	CHECK(!tern_create_qp_ex(&ctx->vctx.context, &attr) &&
	      errno == EOPNOTSUPP);
}
