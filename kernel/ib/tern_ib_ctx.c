// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * User contexts with what they may map, and protection domains.
 */

#include <linux/mm.h>
#include <linux/slab.h>

#include <rdma/uverbs_ioctl.h>
#define UVERBS_MODULE_NAME tern_ib
#include <rdma/uverbs_named_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"

/* A live device that keeps it has one less to give. */
static void tern_free_pages(struct tern_ib_dev *dev, enum tern_mmap_type type,
			    u32 id)
{
	u16 opcode = type == TERN_MMAP_DM ? TERN_CMD_FREE_DM : TERN_CMD_FREE_UAR;

	tern_ib_destroy(dev, opcode, id);
}

/**
 * tern_mmap_add() - let user space map pages of the device
 * @ibucontext: the context that may
 * @type: what they are
 * @id: the device's number of them
 * @address: bus address of the first
 * @size: bytes, whole pages
 *
 * They go back to the device, from tern_mmap_free(), after the entry is removed
 * and the last mapping is gone; at once when this fails.
 *
 * Return: the entry or an ERR_PTR.
 */
struct tern_mmap_entry *tern_mmap_add(struct ib_ucontext *ibucontext,
				      enum tern_mmap_type type, u32 id,
				      phys_addr_t address, size_t size)
{
	struct tern_mmap_entry *entry;
	int err;

	entry = kzalloc_obj(*entry);
	if (!entry) {
		err = -ENOMEM;
		goto err_free_pages;
	}

	entry->address = address;
	entry->type = type;
	entry->id = id;
	err = rdma_user_mmap_entry_insert(ibucontext, &entry->rdma_entry, size);
	if (err)
		goto err_free_entry;

	return entry;

err_free_entry:
	kfree(entry);
err_free_pages:
	tern_free_pages(to_tdev(ibucontext->device), type, id);
	return ERR_PTR(err);
}

/* Makes a doorbell page that only this context may map. */
static int tern_add_uar(struct tern_ib_dev *dev, struct tern_ucontext *ucontext)
{
	struct tern_core *core = dev->core;
	struct tern_rsp_object rsp = {};
	struct tern_mmap_entry *entry;
	phys_addr_t offset;
	u32 uar;
	int err;

	err = tern_cmd_exec(core, TERN_CMD_ALLOC_UAR, NULL, 0, &rsp,
			    sizeof(rsp));
	if (err)
		return err;

	uar = le32_to_cpu(rsp.id);
	offset = (phys_addr_t)uar << core->page_shift;
	entry = tern_mmap_add(&ucontext->ibucontext, TERN_MMAP_UAR, uar,
			      core->uar_phys + offset, PAGE_SIZE);
	if (IS_ERR(entry))
		return PTR_ERR(entry);

	ucontext->uar_entry = entry;
	return 0;
}

static void tern_del_uar(struct tern_ucontext *ucontext)
{
	/* The page goes back from tern_mmap_free(), after its last mapping. */
	rdma_user_mmap_entry_remove(&ucontext->uar_entry->rdma_entry);
}

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
	};
}

/**
 * tern_alloc_ucontext() - a process opens the device
 * @ibucontext: its context
 * @udata: no request; response struct tern_uresp_alloc_ucontext
 *
 * Return: 0 or a negative errno.
 */
int tern_alloc_ucontext(struct ib_ucontext *ibucontext, struct ib_udata *udata)
{
	struct tern_ucontext *ucontext = to_tucontext(ibucontext);
	struct tern_ib_dev *dev = to_tdev(ibucontext->device);
	struct tern_uresp_alloc_ucontext resp;
	int err;

	err = ib_is_udata_in_empty(udata);
	if (err)
		return err;

	err = tern_add_uar(dev, ucontext);
	if (err)
		return err;

	resp = tern_ucontext_resp(ucontext);
	err = ib_respond_udata(udata, resp);
	if (err)
		goto err_del_uar;

	return 0;

err_del_uar:
	tern_del_uar(ucontext);
	return err;
}

/**
 * tern_query_ucontext() - a process imports a context
 * @ibucontext: the context, which another one opened
 * @attrs: takes what that one was told
 *
 * Return: 0 or a negative errno.
 */
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

void tern_dealloc_ucontext(struct ib_ucontext *ibucontext)
{
	tern_del_uar(to_tucontext(ibucontext));
}

/*
 * Nothing to do: all mappings are made by rdma_user_mmap_io(), so ib_core can
 * take them away.
 */
void tern_disassociate_ucontext(struct ib_ucontext *ibucontext)
{
}

/**
 * tern_mmap() - map a doorbell page or device memory
 * @ibucontext: the context
 * @vma: where
 *
 * Return: 0; -EINVAL for an offset or size that is not that of an entry.
 */
int tern_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma_entry;
	struct tern_mmap_entry *entry;
	pgprot_t prot;
	int err;

	rdma_entry = rdma_user_mmap_entry_get(ibucontext, vma);
	if (!rdma_entry)
		return -EINVAL;

	entry = to_tmmap(rdma_entry);
	/* Memory of a BAR: the CPU may gather stores, but not keep copies. */
	if (entry->type == TERN_MMAP_DM)
		prot = pgprot_writecombine(vma->vm_page_prot);
	else
		prot = pgprot_device(vma->vm_page_prot);

	err = rdma_user_mmap_io(ibucontext, vma, PHYS_PFN(entry->address),
				rdma_entry->npages * PAGE_SIZE, prot,
				rdma_entry);
	rdma_user_mmap_entry_put(rdma_entry);

	return err;
}

/**
 * tern_mmap_free() - the last mapping is gone, and what it was made of
 * @rdma_entry: its entry
 */
void tern_mmap_free(struct rdma_user_mmap_entry *rdma_entry)
{
	struct tern_ib_dev *dev = to_tdev(rdma_entry->ucontext->device);
	struct tern_mmap_entry *entry = to_tmmap(rdma_entry);

	tern_free_pages(dev, entry->type, entry->id);
	kfree(entry);
}

/**
 * tern_alloc_pd() - make a protection domain
 * @ibpd: the PD
 * @udata: user request without content; NULL makes a privileged PD
 *
 * Return: 0 or a negative errno.
 */
int tern_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibpd->device);
	struct tern_cmd_alloc_pd cmd = {};
	struct tern_pd *pd = to_tpd(ibpd);
	struct tern_rsp_object rsp = {};
	int err;

	err = ib_no_udata_io(udata);
	if (err)
		return err;

	init_llist_head(&pd->orphans);
	pd->privileged = !udata;
	if (pd->privileged)
		cmd.flags = cpu_to_le32(TERN_PD_PRIVILEGED);

	err = tern_cmd_exec(dev->core, TERN_CMD_ALLOC_PD, &cmd, sizeof(cmd),
			    &rsp, sizeof(rsp));
	if (err)
		return err;

	pd->pdn = le32_to_cpu(rsp.id);
	return 0;
}

int tern_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct tern_pd *pd = to_tpd(ibpd);

	/* All its windows are gone by now. */
	tern_mr_free_orphans(pd);
	/* A live device that keeps the PD has one less to give. */
	tern_ib_destroy(to_tdev(ibpd->device), TERN_CMD_FREE_PD, pd->pdn);
	return 0;
}
