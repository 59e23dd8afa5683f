// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* The tern provider: device matching and contexts. */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef TERN_WITHOUT_IMPORT
#include <infiniband/cmd_ioctl.h>

#endif
#include "tern.h"

static void tern_free_context(struct ibv_context *ibvctx);

static const struct verbs_match_ent tern_match_table[] = {
	VERBS_DRIVER_ID(RDMA_DRIVER_TERN),
	VERBS_PCI_MATCH(TERN_PCI_VENDOR_ID, TERN_PCI_DEVICE_ID, NULL),
	{}
};

static const struct verbs_context_ops tern_ctx_ops = {
	.advise_mr = tern_advise_mr,
	.alloc_dm = tern_alloc_dm,
#if IBVERBS_PABI_VERSION >= 62
#ifndef TERN_WITHOUT_DMAH
	.alloc_dmah = tern_alloc_dmah,
	.dealloc_dmah = tern_dealloc_dmah,
#endif
	.dm_export_dmabuf_fd = tern_dm_export_dmabuf_fd,
	.query_port_speed = ibv_cmd_query_port_speed,
	.reg_mr_ex = tern_reg_mr_ex,
#endif
#ifndef TERN_WITHOUT_COMP_CNTR
#if IBVERBS_PABI_VERSION >= 65
	.create_comp_cntr = tern_create_comp_cntr,
	.destroy_comp_cntr = tern_destroy_comp_cntr,
	.inc_comp_cntr = ibv_cmd_inc_comp_cntr,
	.inc_err_comp_cntr = ibv_cmd_inc_err_comp_cntr,
	.qp_attach_comp_cntr = tern_qp_attach_comp_cntr,
	.query_comp_cntr_caps = tern_query_comp_cntr_caps,
	.read_comp_cntr = tern_read_comp_cntr,
	.read_err_comp_cntr = tern_read_err_comp_cntr,
	.set_comp_cntr = ibv_cmd_set_comp_cntr,
	.set_err_comp_cntr = ibv_cmd_set_err_comp_cntr,
#endif
#endif
	.alloc_mw = tern_alloc_mw,
	.alloc_null_mr = tern_alloc_null_mr,
	.alloc_parent_domain = tern_alloc_parent_domain,
	.alloc_pd = tern_alloc_pd,
	.alloc_td = tern_alloc_td,
#ifndef TERN_WITHOUT_FLOW
	.attach_counters_point_flow = tern_attach_counters_point_flow,
#endif
	.attach_mcast = tern_attach_mcast,
	.bind_mw = tern_bind_mw,
	.close_xrcd = tern_close_xrcd,
	.cq_event = tern_cq_event,
	.create_ah = tern_create_ah,
#ifndef TERN_WITHOUT_FLOW
	.create_counters = tern_create_counters,
#endif
	.create_cq = tern_create_cq,
	.create_cq_ex = tern_create_cq_ex,
#ifndef TERN_WITHOUT_FLOW
	.create_flow = tern_create_flow,
#endif
	.create_qp = tern_create_qp,
	.create_qp_ex = tern_create_qp_ex,
#ifndef TERN_WITHOUT_RSS
	.create_rwq_ind_table = tern_create_rwq_ind_table,
#endif
	.create_srq = tern_create_srq,
	.create_srq_ex = tern_create_srq_ex,
#ifndef TERN_WITHOUT_RSS
	.create_wq = tern_create_wq,
#endif
	.dealloc_mw = tern_dealloc_mw,
	.dealloc_pd = tern_dealloc_pd,
	.dealloc_td = tern_dealloc_td,
	.dereg_mr = tern_dereg_mr,
	.destroy_ah = tern_destroy_ah,
#ifndef TERN_WITHOUT_FLOW
	.destroy_counters = tern_destroy_counters,
#endif
	.destroy_cq = tern_destroy_cq,
#ifndef TERN_WITHOUT_FLOW
	.destroy_flow = tern_destroy_flow,
#endif
	.destroy_qp = tern_destroy_qp,
#ifndef TERN_WITHOUT_RSS
	.destroy_rwq_ind_table = tern_destroy_rwq_ind_table,
#endif
	.destroy_srq = tern_destroy_srq,
#ifndef TERN_WITHOUT_RSS
	.destroy_wq = tern_destroy_wq,
#endif
	.detach_mcast = tern_detach_mcast,
	.free_context = tern_free_context,
	.free_dm = tern_free_dm,
	.get_srq_num = tern_get_srq_num,
#ifndef TERN_WITHOUT_IMPORT
	.import_dm = tern_import_dm,
	.import_mr = tern_import_mr,
	.import_pd = tern_import_pd,
#endif
	.modify_cq = tern_modify_cq,
	.modify_qp = tern_modify_qp,
#ifndef TERN_WITHOUT_RATE
	.modify_qp_rate_limit = tern_modify_qp_rate_limit,
#endif
	.modify_srq = tern_modify_srq,
#ifndef TERN_WITHOUT_RSS
	.modify_wq = tern_modify_wq,
#endif
	.open_qp = tern_open_qp,
	.open_xrcd = tern_open_xrcd,
	.poll_cq = tern_poll_cq,
	.post_recv = tern_post_recv,
	.post_send = tern_post_send,
#ifndef TERN_WITHOUT_TM
	.post_srq_ops = tern_post_srq_ops,
#endif
	.post_srq_recv = tern_post_srq_recv,
	.query_device_ex = tern_query_device_ex,
#ifndef TERN_WITHOUT_ECE
	.query_ece = tern_query_ece,
#endif
	.query_port = tern_query_port,
	.query_qp = tern_query_qp,
	.query_qp_data_in_order = tern_query_qp_data_in_order,
	.query_rt_values = tern_query_rt_values,
	.query_srq = tern_query_srq,
#ifndef TERN_WITHOUT_FLOW
	.read_counters = tern_read_counters,
#endif
	.reg_dm_mr = tern_reg_dm_mr,
	.reg_dmabuf_mr = tern_reg_dmabuf_mr,
	.reg_mr = tern_reg_mr,
	.req_notify_cq = tern_req_notify_cq,
	.rereg_mr = tern_rereg_mr,
#ifndef TERN_WITHOUT_RESIZE
	.resize_cq = tern_resize_cq,
#endif
#ifndef TERN_WITHOUT_ECE
	.set_ece = tern_set_ece,
#endif
#ifndef TERN_WITHOUT_IMPORT
	.unimport_dm = tern_unimport_dm,
	.unimport_mr = tern_unimport_mr,
	.unimport_pd = tern_unimport_pd,
#endif
};

#ifndef TERN_WITHOUT_CLOCK
static size_t tern_page_size(const struct tern_context *ctx)
{
	return to_tern_dev(ctx->vctx.context.device)->page_size;
}

/* Returns 0 or an errno. */
static int tern_map_clock(struct tern_context *ctx, uint64_t offset)
{
	void *page;

	if (!offset)
		return 0;

	page = mmap(NULL, tern_page_size(ctx), PROT_READ, MAP_SHARED,
		    ctx->vctx.context.cmd_fd, offset);
	if (page == MAP_FAILED)
		return errno;

	ctx->clock = page;
	return 0;
}

static void tern_unmap_clock(struct tern_context *ctx)
{
	if (ctx->clock)
		munmap((void *)ctx->clock, tern_page_size(ctx));
}

#endif
/* Initializes a context that the kernel allocated. Returns 0 or an errno. */
static int tern_init_context(struct tern_context *ctx,
			     const struct tern_uresp_alloc_ucontext *resp)
{
	unsigned int i;
#ifndef TERN_WITHOUT_CLOCK
	int err;
#endif

	ctx->caps = resp->caps;
	ctx->max_send_wr = resp->max_send_wr;
	ctx->max_recv_wr = resp->max_recv_wr;
	ctx->max_srq_wr = resp->max_srq_wr;
	ctx->max_cqe = resp->max_cqe;
	ctx->max_send_sge = resp->max_send_sge;
	ctx->max_recv_sge = resp->max_recv_sge;
	ctx->max_inline = resp->max_inline_data;
#ifndef TERN_WITHOUT_RATE
	ctx->max_rate = resp->max_rate;
#endif
	ctx->uar_size = resp->uar_size;
	ctx->uar = mmap(NULL, ctx->uar_size, PROT_READ | PROT_WRITE,
			MAP_SHARED, ctx->vctx.context.cmd_fd,
			resp->uar_offset);
	if (ctx->uar == MAP_FAILED)
		return errno;

#ifndef TERN_WITHOUT_CLOCK
	err = tern_map_clock(ctx, resp->clock_offset);
	if (err) {
		munmap(ctx->uar, ctx->uar_size);
		return err;
	}

#endif
	pthread_mutex_init(&ctx->qp_table_mutex, NULL);
	pthread_mutex_init(&ctx->xrc_srqs_mutex, NULL);
	for (i = 0; i < TERN_XRC_SRQ_BUCKETS; i++)
		list_head_init(&ctx->xrc_srqs[i]);
	tern_init_records(ctx);
	verbs_set_ops(&ctx->vctx, &tern_ctx_ops);

	return 0;
}

static struct verbs_context *tern_alloc_context(struct ibv_device *ibvdev,
						int cmd_fd, void *private_data)
{
	struct tern_alloc_ucontext_resp resp = {};
	struct ibv_get_context cmd = {};
	struct tern_context *ctx;
	int err;

	ctx = verbs_init_and_alloc_context(ibvdev, cmd_fd, ctx, vctx,
					   RDMA_DRIVER_TERN);
	if (!ctx)
		return NULL;

	err = ibv_cmd_get_context(&ctx->vctx, &cmd, sizeof(cmd), NULL,
				  &resp.ibv_resp, sizeof(resp));
	if (err)
		goto err_free_context;

	err = tern_init_context(ctx, &resp.drv_payload);
	if (err)
		goto err_free_context;

	return &ctx->vctx;

err_free_context:
	verbs_err(&ctx->vctx, "Failed to allocate a context\n");
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
	errno = err;
	return NULL;
}

#ifndef TERN_WITHOUT_IMPORT
/*
 * ibv_import_device(3): a context that another process, or this one, allocated.
 * It shares the doorbell page, through which each process rings for its own
 * QPs.
 */
static struct verbs_context *tern_import_context(struct ibv_device *ibvdev,
						 int cmd_fd)
{
	DECLARE_COMMAND_BUFFER_LINK(driver, UVERBS_OBJECT_DEVICE,
				    UVERBS_METHOD_QUERY_CONTEXT, 1, NULL);
	struct tern_uresp_alloc_ucontext resp = {};
	struct tern_context *ctx;
	int err;

	ctx = verbs_init_and_alloc_context(ibvdev, cmd_fd, ctx, vctx,
					   RDMA_DRIVER_TERN);
	if (!ctx)
		return NULL;

	fill_attr_out_ptr(driver, TERN_IB_ATTR_QUERY_CONTEXT_RESP, &resp);
	err = ibv_cmd_query_context(&ctx->vctx.context, driver);
	if (err)
		goto err_free_context;

	err = tern_init_context(ctx, &resp);
	if (err)
		goto err_free_context;

	return &ctx->vctx;

err_free_context:
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
	errno = err;
	return NULL;
}

#endif
static void tern_free_context(struct ibv_context *ibvctx)
{
	struct tern_context *ctx = to_tern_ctx(ibvctx);
	unsigned int i;

	for (i = 0; i < TERN_QP_TABLE_SIZE; i++)
		free(ctx->qp_table[i]);
	tern_uninit_records(ctx);
	pthread_mutex_destroy(&ctx->xrc_srqs_mutex);
	pthread_mutex_destroy(&ctx->qp_table_mutex);
#ifndef TERN_WITHOUT_CLOCK
	tern_unmap_clock(ctx);
#endif
	munmap(ctx->uar, ctx->uar_size);
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

static struct verbs_device *tern_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	struct tern_device *dev;

	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return NULL;

	dev->page_size = sysconf(_SC_PAGESIZE);

	return &dev->vdev;
}

static void tern_uninit_device(struct verbs_device *vdev)
{
	free(to_tern_dev(&vdev->device));
}

static const struct verbs_device_ops tern_dev_ops = {
	.name = "tern",
	.match_min_abi_version = TERN_UVERBS_ABI_VERSION,
	.match_max_abi_version = TERN_UVERBS_ABI_VERSION,
	.match_table = tern_match_table,
	.alloc_device = tern_alloc_device,
	.uninit_device = tern_uninit_device,
	.alloc_context = tern_alloc_context,
#ifndef TERN_WITHOUT_IMPORT
	.import_context = tern_import_context,
#endif
};

#ifndef TERN_WITHOUT_DV
/* Whether the device is one of this provider. */
bool tern_is_tern(const struct ibv_device *ibvdev)
{
	return verbs_get_device(ibvdev)->ops == &tern_dev_ops;
}

#endif
PROVIDER_DRIVER(tern, tern_dev_ops);
