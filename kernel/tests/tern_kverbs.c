// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Exercises the kernel verbs of an RDMA device like a ULP, and prints the
 * results. Independent of the driver: two RC QPs of one device talk to each
 * other. When the device or the module is removed, it drains its QPs, in
 * whatever state they or the device are.
 */

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include <rdma/ib_verbs.h>

#include "tern_kverbs.h"

#define KV_WRS		16
#define KV_SGES		4
#define KV_INLINE	64
#define KV_CQES		256
#define KV_BYTES	(2 * PAGE_SIZE)
#define KV_WAIT		(5 * HZ)

/* One of the two QPs, and its memory. */
struct kv_side {
	struct ib_qp *qp;
	u8 *buf;
	dma_addr_t dma;
};

/* A work request and its result. */
struct kv_req {
	struct ib_cqe cqe;
	struct completion done;
	struct ib_wc wc;
};

struct kv {
	struct ib_device *dev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_mr *mr;
	struct kv_side a, b;
	struct kv_req send, recv;
	struct ib_cqe count_cqe;
	atomic_t flushed;
	const struct ib_gid_attr *gid;
};

static struct ib_client kv_client;

static void kv_req_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kv_req *req = container_of(wc->wr_cqe, struct kv_req, cqe);

	req->wc = *wc;
	complete(&req->done);
}

static void kv_count_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kv *kv = container_of(wc->wr_cqe, struct kv, count_cqe);

	if (wc->status == IB_WC_WR_FLUSH_ERR)
		atomic_inc(&kv->flushed);
}

static void kv_req_init(struct kv_req *req)
{
	req->cqe.done = kv_req_done;
	reinit_completion(&req->done);
}

static bool kv_req_ok(struct kv_req *req, enum ib_wc_opcode opcode)
{
	return wait_for_completion_timeout(&req->done, KV_WAIT) &&
	       req->wc.status == IB_WC_SUCCESS && req->wc.opcode == opcode;
}

/* ---- objects ---- */

static int kv_connect(struct ib_qp *qp, struct ib_qp *peer, struct kv *kv)
{
	return kv_connect_qp(qp, peer, kv->gid);
}

static int kv_side_init(struct kv *kv, struct kv_side *side)
{
	struct ib_qp_init_attr attr = {
		.send_cq = kv->cq,
		.recv_cq = kv->cq,
		.cap.max_send_wr = KV_WRS,
		.cap.max_recv_wr = KV_WRS,
		.cap.max_send_sge = KV_SGES,
		.cap.max_recv_sge = KV_SGES,
		.cap.max_inline_data = KV_INLINE,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp *qp;

	side->buf = dma_alloc_coherent(kv->dev->dma_device, KV_BYTES,
				       &side->dma, GFP_KERNEL);
	if (!side->buf)
		return -ENOMEM;

	qp = ib_create_qp(kv->pd, &attr);
	if (IS_ERR(qp))
		return PTR_ERR(qp);

	side->qp = qp;
	return 0;
}

static void kv_side_free(struct kv *kv, struct kv_side *side)
{
	if (side->qp)
		ib_destroy_qp(side->qp);
	if (side->buf)
		dma_free_coherent(kv->dev->dma_device, KV_BYTES, side->buf,
				  side->dma);
}

static void kv_free(struct kv *kv)
{
	if (!IS_ERR_OR_NULL(kv->mr))
		ib_dereg_mr(kv->mr);
	kv_side_free(kv, &kv->a);
	kv_side_free(kv, &kv->b);
	if (!IS_ERR_OR_NULL(kv->cq))
		ib_free_cq(kv->cq);
	if (!IS_ERR_OR_NULL(kv->pd))
		ib_dealloc_pd(kv->pd);
	if (!IS_ERR_OR_NULL(kv->gid))
		rdma_put_gid_attr(kv->gid);
	kfree(kv);
}

static int kv_init(struct kv *kv)
{
	int err;

	init_completion(&kv->send.done);
	init_completion(&kv->recv.done);
	kv->count_cqe.done = kv_count_done;

	kv->gid = kv_find_gid(kv->dev);
	if (IS_ERR(kv->gid))
		return PTR_ERR(kv->gid);
	kv->pd = ib_alloc_pd(kv->dev, 0);
	if (IS_ERR(kv->pd))
		return PTR_ERR(kv->pd);
	kv->cq = ib_alloc_cq(kv->dev, NULL, KV_CQES, 0, IB_POLL_SOFTIRQ);
	if (IS_ERR(kv->cq))
		return PTR_ERR(kv->cq);

	err = kv_side_init(kv, &kv->a);
	if (!err)
		err = kv_side_init(kv, &kv->b);
	if (!err)
		err = kv_connect(kv->a.qp, kv->b.qp, kv);
	if (!err)
		err = kv_connect(kv->b.qp, kv->a.qp, kv);
	return err;
}

/* ---- requests ---- */

static struct ib_sge kv_sge(struct kv *kv, struct kv_side *side, u32 length)
{
	return (struct ib_sge){
		.addr = side->dma,
		.length = length,
		.lkey = kv->pd->local_dma_lkey,
	};
}

static int kv_recv(struct kv *kv, u32 length)
{
	struct ib_sge sge = kv_sge(kv, &kv->b, length);
	struct ib_recv_wr wr = {
		.wr_cqe = &kv->recv.cqe,
		.sg_list = &sge,
		.num_sge = 1,
	};

	kv_req_init(&kv->recv);
	return ib_post_recv(kv->b.qp, &wr, NULL);
}

static int kv_send(struct kv *kv, struct ib_send_wr *wr)
{
	wr->wr_cqe = &kv->send.cqe;
	wr->send_flags |= IB_SEND_SIGNALED;
	kv_req_init(&kv->send);
	return ib_post_send(kv->a.qp, wr, NULL);
}

static void kv_fill(struct kv *kv)
{
	int i;

	for (i = 0; i < KV_BYTES; i++)
		kv->a.buf[i] = get_random_u8();
	memset(kv->b.buf, 0, KV_BYTES);
}

static bool kv_same(struct kv *kv, size_t bytes)
{
	return !memcmp(kv->a.buf, kv->b.buf, bytes);
}

/* ---- tests ---- */

static void kv_test_send(struct kv *kv)
{
	struct ib_sge sge = kv_sge(kv, &kv->a, 3000);
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_IMM,
		.ex.imm_data = cpu_to_be32(0x12345678),
		.sg_list = &sge,
		.num_sge = 1,
	};

	kv_fill(kv);
	kv_check("send", !kv_recv(kv, 4000) && !kv_send(kv, &wr) &&
		 kv_req_ok(&kv->send, IB_WC_SEND) &&
		 kv_req_ok(&kv->recv, IB_WC_RECV) && kv_same(kv, 3000) &&
		 kv->recv.wc.byte_len == 3000 &&
		 kv->recv.wc.wc_flags & IB_WC_WITH_IMM &&
		 be32_to_cpu(kv->recv.wc.ex.imm_data) == 0x12345678 &&
		 kv->recv.wc.qp == kv->b.qp && kv->send.wc.qp == kv->a.qp);
}

/*
 * Moderation reduces events but loses none: a single completion triggers an
 * event after the period.
 */
static void kv_test_moderate(struct kv *kv)
{
	int (*modify)(struct ib_cq *cq, u16 count, u16 period_us) =
		kv->dev->ops.modify_cq;
	struct ib_sge sge = kv_sge(kv, &kv->a, 8);
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
	};

	kv_check("moderate-refused", modify && modify(kv->cq, 2, 0) == -EINVAL);
	kv_check("moderate", modify && !modify(kv->cq, 1000, 20000) &&
		 !kv_recv(kv, 8) && !kv_send(kv, &wr) &&
		 kv_req_ok(&kv->send, IB_WC_SEND) &&
		 kv_req_ok(&kv->recv, IB_WC_RECV) && !modify(kv->cq, 0, 0));
}

static void kv_test_inline(struct kv *kv)
{
	u8 data[KV_INLINE + 1] = "inline";
	struct ib_sge sge = {
		.addr = (uintptr_t)data,
		.length = KV_INLINE,
	};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_INLINE,
		.sg_list = &sge,
		.num_sge = 1,
	};

	kv_fill(kv);
	kv_check("inline", !kv_recv(kv, 100) && !kv_send(kv, &wr) &&
		 kv_req_ok(&kv->send, IB_WC_SEND) &&
		 kv_req_ok(&kv->recv, IB_WC_RECV) &&
		 !memcmp(kv->b.buf, data, KV_INLINE) &&
		 kv->recv.wc.byte_len == KV_INLINE);

	sge.length = KV_INLINE + 1;
	kv_check("inline-too-long", kv_send(kv, &wr) == -EINVAL);
}

/*
 * The first of three requests is posted, the second is invalid, the third is
 * not examined.
 */
static void kv_test_bad_wr(struct kv *kv)
{
	struct ib_sge sge[KV_SGES + 1] = {};
	struct ib_send_wr wr[3] = {
		{ .next = &wr[1], .opcode = IB_WR_SEND,
		  .send_flags = IB_SEND_SIGNALED, .wr_cqe = &kv->send.cqe },
		{ .next = &wr[2], .opcode = IB_WR_SEND,
		  .sg_list = sge, .num_sge = KV_SGES + 1 },
		{ .opcode = IB_WR_SEND },
	};
	struct ib_recv_wr rwr = { .sg_list = sge, .num_sge = KV_SGES + 1 };
	const struct ib_recv_wr *bad_recv = NULL;
	const struct ib_send_wr *bad = NULL;
	int err;

	err = kv_recv(kv, 100);
	kv_req_init(&kv->send);
	kv_check("bad-wr", !err &&
		 ib_post_send(kv->a.qp, wr, &bad) == -EINVAL && bad == &wr[1] &&
		 kv_req_ok(&kv->send, IB_WC_SEND) &&
		 kv_req_ok(&kv->recv, IB_WC_RECV) &&
		 !kv->recv.wc.byte_len);
	kv_check("bad-recv-wr",
		 ib_post_recv(kv->b.qp, &rwr, &bad_recv) == -EINVAL &&
		 bad_recv == &rwr);

	wr[1].num_sge = 0;
	wr[1].opcode = IB_WR_RDMA_READ_WITH_INV;
	kv_check("bad-opcode",
		 ib_post_send(kv->a.qp, &wr[1], &bad) == -EINVAL &&
		 bad == &wr[1]);
}

/* One receive more than fits the queue. */
static void kv_test_full(struct kv *kv)
{
	struct ib_recv_wr wr = { .wr_cqe = &kv->count_cqe };
	const struct ib_recv_wr *bad = NULL;
	int i, err = 0;

	for (i = 0; i <= KV_WRS && !err; i++)
		err = ib_post_recv(kv->a.qp, &wr, &bad);
	kv_check("full", err == -ENOMEM && i == KV_WRS + 1 && bad == &wr);
}

/* A QP that was never connected flushes each posted request once. */
static void kv_test_flush(struct kv *kv)
{
	struct ib_qp_init_attr attr = {
		.cap.max_send_wr = 1,
		.cap.max_recv_wr = 1,
		.cap.max_recv_sge = 1,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp_attr qp_attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = KV_PORT,
	};
	struct ib_recv_wr wr = { .wr_cqe = &kv->recv.cqe };
	struct ib_cq *cq;
	struct ib_qp *qp;
	struct ib_wc wc[2];
	int first, second, i, n = 0;

	cq = ib_alloc_cq(kv->dev, NULL, 16, 0, IB_POLL_DIRECT);
	if (IS_ERR(cq)) {
		kv_check("flush", false);
		return;
	}
	attr.send_cq = cq;
	attr.recv_cq = cq;
	qp = ib_create_qp(kv->pd, &attr);
	if (IS_ERR(qp)) {
		kv_check("flush", false);
		goto out;
	}

	kv_check("recv-in-reset", ib_post_recv(qp, &wr, NULL) == -EINVAL);
	/* A connection that does not exist. */
	first = ib_modify_qp(qp, &qp_attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			     IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	qp_attr.qp_state = IB_QPS_ERR;
	second = ib_modify_qp(qp, &qp_attr, IB_QP_STATE);
	kv_check("init-to-err", !first && !second &&
		 !ib_post_recv(qp, &wr, NULL));
	for (i = 0; i < 100 && !n; i++) {
		n = ib_poll_cq(cq, 1, wc);
		msleep(20);
	}
	kv_check("flush-polled", n == 1 && wc[0].status == IB_WC_WR_FLUSH_ERR &&
		 wc[0].wr_cqe == &kv->recv.cqe && wc[0].qp == qp);

	n = ib_poll_cq(cq, 1, wc);
	first = ib_post_recv(qp, &wr, NULL);
	msleep(200);
	kv_check("flushed-again", !n && !first);
	second = ib_poll_cq(cq, 2, wc);
	kv_check("one-completion", second == 1);
	ib_drain_qp(qp);
	ib_destroy_qp(qp);
out:
	ib_free_cq(cq);
}

static bool kv_rdma(struct kv *kv, enum ib_wr_opcode opcode,
		    enum ib_wc_opcode done, u32 rkey, u64 raddr, u32 length)
{
	struct ib_sge sge = kv_sge(kv, &kv->a, length);
	struct ib_rdma_wr wr = {
		.wr.opcode = opcode,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.remote_addr = raddr,
		.rkey = rkey,
	};

	return !kv_send(kv, &wr.wr) && kv_req_ok(&kv->send, done);
}

static bool kv_fetch_add(struct kv *kv, u32 rkey, u64 raddr, u64 add)
{
	struct ib_sge sge = kv_sge(kv, &kv->a, 8);
	struct ib_atomic_wr wr = {
		.wr.opcode = IB_WR_ATOMIC_FETCH_AND_ADD,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.remote_addr = raddr,
		.rkey = rkey,
		.compare_add = add,
	};

	return !kv_send(kv, &wr.wr) && kv_req_ok(&kv->send, IB_WC_FETCH_ADD);
}

/* Registers B's memory from byte 100 on, by a work request on B's QP. */
static bool kv_reg(struct kv *kv)
{
	struct scatterlist sg;
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.wr.send_flags = IB_SEND_SIGNALED,
		.wr.wr_cqe = &kv->send.cqe,
		.mr = kv->mr,
		.access = KV_ACCESS,
	};
	unsigned int offset = 100;

	sg_init_table(&sg, 1);
	sg_dma_address(&sg) = kv->b.dma;
	sg_dma_len(&sg) = KV_BYTES;
	if (ib_map_mr_sg(kv->mr, &sg, 1, &offset, PAGE_SIZE) != 1 ||
	    kv->mr->length != KV_BYTES - 100)
		return false;

	ib_update_fast_reg_key(kv->mr, ib_inc_rkey(kv->mr->rkey));
	wr.key = kv->mr->rkey;
	kv_req_init(&kv->send);
	return !ib_post_send(kv->b.qp, &wr.wr, NULL) &&
	       kv_req_ok(&kv->send, IB_WC_REG_MR);
}

static bool kv_local_inv(struct kv *kv)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = IB_SEND_SIGNALED,
		.wr_cqe = &kv->send.cqe,
		.ex.invalidate_rkey = kv->mr->rkey,
	};

	kv_req_init(&kv->send);
	return !ib_post_send(kv->b.qp, &wr, NULL) &&
	       kv_req_ok(&kv->send, IB_WC_LOCAL_INV);
}

static bool kv_send_inv(struct kv *kv)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_INV,
		.ex.invalidate_rkey = kv->mr->rkey,
	};

	return !kv_recv(kv, 100) && !kv_send(kv, &wr) &&
	       kv_req_ok(&kv->send, IB_WC_SEND) &&
	       kv_req_ok(&kv->recv, IB_WC_RECV) &&
	       kv->recv.wc.wc_flags & IB_WC_WITH_INVALIDATE &&
	       kv->recv.wc.ex.invalidate_rkey == kv->mr->rkey;
}

static void kv_test_frwr(struct kv *kv)
{
	const size_t bytes = KV_BYTES - 100;
	u64 *value = (u64 *)kv->b.buf;
	u32 key;

	if (!(kv->dev->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS)) {
		pr_info("kverbs: ok kverbs/frwr # SKIP the device has none\n");
		return;
	}
	kv->mr = ib_alloc_mr(kv->pd, IB_MR_TYPE_MEM_REG, 2);
	kv_check("alloc-mr", !IS_ERR(kv->mr));
	if (IS_ERR(kv->mr))
		return;

	kv_check("reg-mr", kv_reg(kv));
	key = kv->mr->rkey;
	kv_fill(kv);
	kv_check("write", kv_rdma(kv, IB_WR_RDMA_WRITE, IB_WC_RDMA_WRITE, key,
				  kv->mr->iova, bytes) &&
		 !memcmp(kv->a.buf, kv->b.buf + 100, bytes));
	kv_fill(kv);
	memcpy(kv->b.buf + 100, kv->a.buf + 200, 1000);
	kv_check("read", kv_rdma(kv, IB_WR_RDMA_READ, IB_WC_RDMA_READ, key,
				 kv->mr->iova, 1000) &&
		 !memcmp(kv->a.buf, kv->b.buf + 100, 1000));
	/* Address 104 of the buffer is a multiple of 8. */
	value[13] = 40;
	kv_check("fetch-add", kv_fetch_add(kv, key, kv->mr->iova + 4, 2) &&
		 *(u64 *)kv->a.buf == 40 && value[13] == 42);
	*(u64 *)kv->a.buf = 0x8877665544332211;
	kv_check("atomic-write", kv_rdma(kv, IB_WR_ATOMIC_WRITE, IB_WC_ATOMIC_WRITE,
					 key, kv->mr->iova + 4, 8) &&
		 value[13] == 0x8877665544332211);

	kv_check("local-inv", kv_local_inv(kv));
	kv_check("reg-mr-again", kv_reg(kv));
	kv_check("send-inv", kv_send_inv(kv));
	kv_check("reg-mr-third", kv_reg(kv));
}

/* A refused access breaks both QPs, and posted requests are flushed. */
static void kv_test_error(struct kv *kv)
{
	bool ok;

	ok = !kv_rdma(kv, IB_WR_RDMA_WRITE, IB_WC_RDMA_WRITE, 0xdead00,
		      kv->b.dma, 8);
	kv_check("remote-access-error",
		 ok && kv->send.wc.status == IB_WC_REM_ACCESS_ERR);
	/* Draining needs a free slot in the full queue. */
	msleep(500);
	ib_drain_qp(kv->a.qp);
	ib_drain_qp(kv->b.qp);
	/* The receives that kv_test_full() posted. */
	kv_check("drain", atomic_read(&kv->flushed) == KV_WRS);
}

/* After reset and reconnection, the queues are empty and work. */
static void kv_test_reset(struct kv *kv)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RESET };
	struct ib_recv_wr wr = { .wr_cqe = &kv->count_cqe };
	int err, i;

	err = ib_modify_qp(kv->a.qp, &attr, IB_QP_STATE);
	attr.qp_state = IB_QPS_RESET;
	err = err ?: ib_modify_qp(kv->b.qp, &attr, IB_QP_STATE);
	err = err ?: kv_connect(kv->a.qp, kv->b.qp, kv);
	err = err ?: kv_connect(kv->b.qp, kv->a.qp, kv);
	kv_check("reset", !err);
	kv_test_send(kv);

	/* For the final count. */
	atomic_set(&kv->flushed, 0);
	for (i = 0; i < KV_WRS - 1; i++)
		err = err ?: ib_post_recv(kv->a.qp, &wr, NULL);
	kv_check("post-for-end", !err);
}

static int kv_add(struct ib_device *dev)
{
	struct kv *kv;
	int err;

	kv = kzalloc_obj(*kv);
	if (!kv)
		return -ENOMEM;

	kv->dev = dev;
	err = kv_init(kv);
	kv_check("init", !err);
	if (err) {
		kv_free(kv);
		return err;
	}

	kv_test_send(kv);
	kv_test_moderate(kv);
	kv_test_inline(kv);
	kv_test_bad_wr(kv);
	kv_test_frwr(kv);
	kv_test_flush(kv);
	kv_test_full(kv);
	kv_test_error(kv);
	kv_test_reset(kv);
	ib_set_client_data(dev, &kv_client, kv);
	pr_info("kverbs: added\n");
	return 0;
}

static void kv_remove(struct ib_device *dev, void *client_data)
{
	struct kv *kv = client_data;

	ib_drain_qp(kv->a.qp);
	ib_drain_qp(kv->b.qp);
	kv_check("drain-at-end", atomic_read(&kv->flushed) == KV_WRS - 1);
	kv_free(kv);
	pr_info("kverbs: removed\n");
}

static struct ib_client kv_client = {
	.name = "kverbs",
	.add = kv_add,
	.remove = kv_remove,
};

static int __init kv_module_init(void)
{
	return ib_register_client(&kv_client);
}

static void __exit kv_module_exit(void)
{
	ib_unregister_client(&kv_client);
}

module_init(kv_module_init);
module_exit(kv_module_exit);

MODULE_DESCRIPTION("Test of an RDMA device's kernel verbs");
MODULE_LICENSE("Dual BSD/GPL");
