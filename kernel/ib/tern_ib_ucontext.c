// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* User contexts and protection domains. */

#include <rdma/uverbs_ioctl.h>
#ifndef TERN_WITHOUT_IMPORT
#define UVERBS_MODULE_NAME tern_ib
#include <rdma/uverbs_named_ioctl.h>
#endif

#include "tern_ib.h"
#include "tern_ib_limits.h"

/* Allocates a doorbell page that only this context may map. */
static int tern_add_uar(struct tern_ib_dev *dev, struct tern_ucontext *ucontext)
{
	struct tern_mmap_entry *entry;
	u32 uar;
	int err;

	err = tern_ib_create(dev, TERN_CMD_ALLOC_UAR, NULL, 0, &uar);
	if (err)
		return err;

	entry = tern_mmap_add_uar(&ucontext->ibucontext, TERN_MMAP_UAR, uar);
	if (IS_ERR(entry))
		return PTR_ERR(entry);

	ucontext->uar_entry = entry;
	return 0;
}

static void tern_del_uar(struct tern_ucontext *ucontext)
{
	/* tern_mmap_free() returns the page, after the last mapping is gone. */
	rdma_user_mmap_entry_remove(&ucontext->uar_entry->rdma_entry);
}

#ifndef TERN_WITHOUT_CLOCK
static int tern_add_clock(struct tern_ib_dev *dev,
			  struct tern_ucontext *ucontext)
{
	struct tern_mmap_entry *entry;

	if (!dev->core->clock)
		return 0;

	entry = tern_mmap_add(&ucontext->ibucontext, TERN_MMAP_CLOCK, 0, 0,
			      PAGE_SIZE);
	if (IS_ERR(entry))
		return PTR_ERR(entry);

	ucontext->clock_entry = entry;
	return 0;
}

static void tern_del_clock(struct tern_ucontext *ucontext)
{
	if (ucontext->clock_entry)
		rdma_user_mmap_entry_remove(&ucontext->clock_entry->rdma_entry);
}

/* Offset 0 belongs to the doorbell page, which is added first. */
static u64 tern_clock_offset(struct tern_ucontext *ucontext)
{
	if (!ucontext->clock_entry)
		return 0;

	return rdma_user_mmap_get_offset(&ucontext->clock_entry->rdma_entry);
}

#endif
static struct tern_uresp_alloc_ucontext
tern_ucontext_resp(struct tern_ucontext *ucontext)
{
	struct tern_ib_dev *dev = to_tdev(ucontext->ibucontext.device);
	const struct tern_rsp_caps *caps = dev->core->caps;
	struct rdma_user_mmap_entry *uar = &ucontext->uar_entry->rdma_entry;

	return (struct tern_uresp_alloc_ucontext){
		.uar_offset = rdma_user_mmap_get_offset(uar),
		.uar_size = PAGE_SIZE,
		.caps = tern_uctx_caps(dev),
		.max_send_wr = le32_to_cpu(caps->max_qp_wr),
		.max_recv_wr = le32_to_cpu(caps->max_qp_wr),
		.max_srq_wr = le32_to_cpu(caps->max_srq_wr),
		.max_cqe = le32_to_cpu(caps->max_cqe),
		.max_send_sge = le16_to_cpu(caps->max_send_sge),
		.max_recv_sge = le16_to_cpu(caps->max_recv_sge),
		.max_inline_data = le32_to_cpu(caps->max_inline),
#ifndef TERN_WITHOUT_RATE
		.max_rate = le32_to_cpu(caps->max_rate),
#endif
#ifndef TERN_WITHOUT_CLOCK
		.clock_offset = tern_clock_offset(ucontext),
#endif
	};
}

int tern_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata)
{
	struct tern_ucontext *ucontext = to_tucontext(ibucontext);
	struct tern_ib_dev *dev = to_tdev(ibucontext->device);
	struct tern_uresp_alloc_ucontext resp;
	int err;

	err = ib_is_udata_in_empty(udata);
	if (err)
		return err;

	tern_records_init(ucontext);
	err = tern_add_uar(dev, ucontext);
	if (err)
		return err;

#ifndef TERN_WITHOUT_ODP
	if (tern_has_odp(dev)) {
		ucontext->pager = tern_pager_alloc(dev);
		if (!ucontext->pager) {
			err = -ENOMEM;
			goto err_del_uar;
		}
	}

#endif
#ifndef TERN_WITHOUT_CLOCK
	err = tern_add_clock(dev, ucontext);
	if (err)
		goto err_del_uar;

#endif
	resp = tern_ucontext_resp(ucontext);
	err = ib_respond_udata(udata, resp);
	if (err)
		goto err_del_uar;

	return 0;

err_del_uar:
#ifndef TERN_WITHOUT_CLOCK
	tern_del_clock(ucontext);
#endif
#ifndef TERN_WITHOUT_ODP
	tern_pager_close(ucontext->pager);
#endif
	tern_del_uar(ucontext);
	return err;
}

#ifndef TERN_WITHOUT_IMPORT
/* A process imports the context that another one has opened. */
int tern_query_ucontext(struct ib_ucontext *ibucontext,
			struct uverbs_attr_bundle *attrs)
{
	struct tern_uresp_alloc_ucontext resp =
		tern_ucontext_resp(to_tucontext(ibucontext));

	return uverbs_copy_to_struct_or_zero(attrs,
					     TERN_IB_ATTR_QUERY_CONTEXT_RESP,
					     &resp, sizeof(resp));
}

#define TERN_UCONTEXT_RESP_ATTR \
	UVERBS_ATTR_STRUCT(struct tern_uresp_alloc_ucontext, max_inline_data)

ADD_UVERBS_ATTRIBUTES_SIMPLE(tern_query_context, UVERBS_OBJECT_DEVICE,
			     UVERBS_METHOD_QUERY_CONTEXT,
			     UVERBS_ATTR_PTR_OUT(TERN_IB_ATTR_QUERY_CONTEXT_RESP,
						 TERN_UCONTEXT_RESP_ATTR,
						 UA_MANDATORY));

const struct uapi_definition tern_ctx_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &tern_query_context),
	{}
};

#endif
void tern_dealloc_ucontext(struct ib_ucontext *ibucontext)
{
	struct tern_ucontext *ucontext = to_tucontext(ibucontext);

#ifndef TERN_WITHOUT_CLOCK
	tern_del_clock(ucontext);
#endif
#ifndef TERN_WITHOUT_ODP
	tern_pager_close(ucontext->pager);
#endif
	tern_del_uar(ucontext);
}

/*
 * Nothing to do: ib_core zaps the mappings of rdma_user_mmap_io(), the only
 * ones that reach the device.
 */
void tern_disassociate_ucontext(struct ib_ucontext *ibucontext)
{
}

/* A PD of the kernel is privileged. */
int tern_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibpd->device);
	struct tern_cmd_alloc_pd cmd = {};
	struct tern_pd *pd = to_tpd(ibpd);
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return err;

	pd->privileged = !udata;
	if (pd->privileged)
		cmd.flags = cpu_to_le32(TERN_PD_PRIVILEGED);

	return tern_ib_create(dev, TERN_CMD_ALLOC_PD, &cmd, sizeof(cmd),
			      &pd->pdn);
}

int tern_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	/* If a live device refuses, it keeps the PD until its next reset. */
	tern_ib_destroy(to_tdev(ibpd->device), TERN_CMD_FREE_PD,
			to_tpd(ibpd)->pdn);
	return 0;
}
