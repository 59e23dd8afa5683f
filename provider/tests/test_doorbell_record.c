// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Doorbell records: placement, ownership and failures; address vectors. */

#include <errno.h>
#include <sys/mman.h>

#include "fixture.h"

static const size_t sizes[TERN_NUM_RECORD_TYPES] = {
	[TERN_RECORD_CQ] = 128,
	[TERN_RECORD_SRQ] = 128,
	[TERN_RECORD_QP] = 256,
	[TERN_RECORD_COMP_CNTR] = 16,
};

#define RECORDS 200U

static uintptr_t page_of(const void *record)
{
	return (uintptr_t)record & ~(uintptr_t)(PAGE - 1);
}

static bool is_zero(const uint8_t *bytes, size_t len)
{
	return !bytes[0] && !memcmp(bytes, bytes + 1, len - 1);
}

/*
 * Allocates and frees records at random. Each must be zeroed, aligned to its
 * size and exclusive; no page has records of two types, and no page remains
 * without records.
 */
void test_records(void)
{
	static struct {
		struct tern_record record;
		enum tern_record_type type;
	} taken[RECORDS];
	int before = dontfork_ranges;
	uint32_t r = 99, num = 0, i;
	unsigned int step;

	for (step = 0; step < 20000; step++) {
		r = r * 1664525 + 1013904223; /* the high bits are random */
		i = (r >> 16) % RECORDS;
		if (i < num) {
			uint8_t *bytes = taken[i].record.addr;
			size_t size = sizes[taken[i].type];

			/* The contents are intact up to the last byte. */
			CHECK(bytes[0] && !memcmp(bytes, bytes + 1, size - 1));
			tern_free_record(ctx, &taken[i].record, taken[i].type);
			taken[i] = taken[--num];
			continue;
		}
		taken[num].type = (r >> 8) % TERN_NUM_RECORD_TYPES;
		CHECK(!tern_alloc_record(ctx, NULL, &taken[num].record,
					 taken[num].type));
		CHECK((uintptr_t)taken[num].record.addr %
			      sizes[taken[num].type] == 0);
		CHECK(is_zero(taken[num].record.addr, sizes[taken[num].type]));
		memset(taken[num].record.addr, 1 + step % 255,
		       sizes[taken[num].type]);
		for (i = 0; i < num; i++)
			CHECK(page_of(taken[i].record.addr) !=
				      page_of(taken[num].record.addr) ||
			      taken[i].type == taken[num].type);
		num++;
	}
	CHECK(num > 20 && dontfork_ranges > before);
	while (num--)
		tern_free_record(ctx, &taken[num].record, taken[num].type);
	CHECK(dontfork_ranges == before);
}

/*
 * The kernel is told the record's address. Resized CQs and SRQs keep it, and
 * the rings contain nothing else.
 */
void test_record_addresses(void)
{
	struct tern_cq *cq = make_cq(64), *other = make_cq(64);
	struct tern_qp *qp;
	struct ibv_srq_init_attr attr = { .attr = { 64, 1, 0 } };
	struct ibv_pd *pd = &test_pd.ibvpd;
	struct tern_srq *srq = to_tern_srq(tern_create_srq(pd, &attr));
	const struct ibv_qp_cap cap = { 32, 64, 1, 1, 0 };
	void *record;

	CHECK(last_cq.record_addr == (uintptr_t)other->record);
	CHECK(last_cq.buf_len == PAGE);
	CHECK(page_of(cq->record) == page_of(other->record));
	CHECK(cq->record != other->record);
	qp = make_qp(cq, cq, cap);
	CHECK(last_qp.record_addr == (uintptr_t)qp->record);
	CHECK(last_qp.buf_len == align(tern_wq_bytes(&qp->sq) +
				       tern_wq_bytes(&qp->rq), PAGE));
	CHECK(last_srq.record_addr == (uintptr_t)srq->record);
	CHECK(last_srq.buf_len == align(tern_wq_bytes(&srq->wq), PAGE));

	record = srq->record;
	attr.attr.max_wr = 256;
	CHECK(!tern_modify_srq(&srq->vsrq.srq, &attr.attr, IBV_SRQ_MAX_WR));
	CHECK(srq->record == record && srq->wq.mask == 255);

	tern_destroy_srq(&srq->vsrq.srq);
	tern_destroy_qp(&qp->vqp.qp);
	tern_destroy_cq(&other->vcq.cq);
	tern_destroy_cq(&cq->vcq.cq);
}

/* Without memory, or if the kernel refuses, nothing is left behind. */
void test_record_refused(void)
{
	struct ibv_pd *pd = &test_pd.ibvpd;
	struct ibv_srq_init_attr srq_attr = { .attr = { 4, 1, 0 } };
	struct ibv_qp_init_attr qp_attr = {
		.cap = small_cap,
		.qp_type = IBV_QPT_RC,
	};
	int before = dontfork_ranges;
	struct tern_cq *cq;
	unsigned int i;

	/* The first time even the buffer fails, then the page of records. */
	dontfork_err = ENOMEM;
	for (i = 0; i < 2; i++) {
		dontfork_left = i;
		CHECK(!tern_create_cq(&ctx->vctx.context, 4, NULL, 0) &&
		      errno == ENOMEM);
		dontfork_left = i;
		CHECK(!tern_create_srq(pd, &srq_attr) && errno == ENOMEM);
	}
	CHECK(dontfork_ranges == before);

	dontfork_err = 0;
	cq = make_cq(4);
	before = dontfork_ranges;
	qp_attr.send_cq = &cq->vcq.cq;
	qp_attr.recv_cq = &cq->vcq.cq;
	dontfork_err = ENOMEM;
	for (i = 0; i < 2; i++) {
		dontfork_left = i;
		CHECK(!tern_create_qp(pd, &qp_attr) && errno == ENOMEM);
	}
	dontfork_err = 0;

	create_err = EPERM;
	CHECK(!tern_create_cq(&ctx->vctx.context, 4, NULL, 0) &&
	      errno == EPERM);
	CHECK(!tern_create_srq(pd, &srq_attr) && errno == EPERM);
	CHECK(!tern_create_qp(pd, &qp_attr) && errno == EPERM);
	create_err = 0;
	CHECK(dontfork_ranges == before);
	tern_destroy_cq(&cq->vcq.cq);
	CHECK(dontfork_ranges == before - 2);
}

/* The address vector matches the attributes and the kernel's reply. */
void test_ah(void)
{
	struct ibv_pd *pd = &test_pd.ibvpd;
	struct ibv_ah_attr attr = {
		.grh = { .flow_label = 0x12345, .sgid_index = 3,
			 .hop_limit = 64, .traffic_class = 8 },
		.sl = 5,
		.static_rate = 2,
		.port_num = 7,
	};
	struct tern_av *av;
	struct ibv_ah *ah;

	memset(attr.grh.dgid.raw, 0xab, 16);
	memset(ah_resp.dmac, 0xcd, 6);
	ah_resp.udp_sport = 0xc123;
	memory_err = 0;
	ah = tern_create_ah(pd, &attr);
	CHECK(ah);
	av = &to_tern_ah(ah)->av;
	CHECK(av->port == 7);
	CHECK(av->dgid[15] == 0xab && av->dmac[5] == 0xcd);
	CHECK(le32toh(av->flow_label) == 0x12345);
	CHECK(le16toh(av->sgid_index) == 3 && le16toh(av->udp_sport) == 0xc123);
	CHECK(av->hop_limit == 64 && av->traffic_class == 8);
	CHECK(av->sl == 5 && av->static_rate == 2);
	memory_err = EBUSY;
	CHECK(tern_destroy_ah(ah) == EBUSY);
	CHECK(!tern_create_ah(pd, &attr) && errno == EBUSY);
	memory_err = 0;
	CHECK(!tern_destroy_ah(ah));
}
