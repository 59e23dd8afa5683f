// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* User contexts, their mappings, and protection domains. */

#include <linux/mm.h>
#include <linux/slab.h>

#include <rdma/uverbs_ioctl.h>
#define UVERBS_MODULE_NAME tern_ib
#include <rdma/uverbs_named_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_dv.h"
#include "tern_ib_limits.h"

/* If a live device refuses, it keeps the pages until its next reset. */
static void tern_free_pages(struct tern_ib_dev *dev, enum tern_mmap_type type,
			    u32 id)
{
	switch (type) {
	case TERN_MMAP_UAR:
	case TERN_MMAP_DM_OP:
		tern_ib_destroy(dev, TERN_CMD_FREE_UAR, id);
		break;
	case TERN_MMAP_DM:
		tern_ib_destroy(dev, TERN_CMD_FREE_DM, id);
		break;
	/* <not exported> */
	case TERN_MMAP_CLOCK:
		tern_clock_put(dev);
		break;
	/* </not exported> */
	}
}

/**
 * tern_mmap_add() - create an mmap entry
 * @ibucontext: context that may map the pages
 * @type: contents of the pages
 * @id: the device's number for the pages
 * @address: bus address of the first page
 * @size: size in bytes, a multiple of the page size
 *
 * tern_mmap_free() returns the pages to the device once the entry is removed
 * and the last mapping is gone. If this function fails, it returns them at
 * once.
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

/**
 * tern_mmap_add_uar() - create an mmap entry for a page of the doorbell BAR
 * @ibucontext: context that may map the page
 * @type: use of the page
 * @uar: its number, from the device
 *
 * If this function fails, it returns the page to the device.
 *
 * Return: the entry or an ERR_PTR.
 */
struct tern_mmap_entry *tern_mmap_add_uar(struct ib_ucontext *ibucontext,
					  enum tern_mmap_type type, u32 uar)
{
	struct tern_ib_dev *dev = to_tdev(ibucontext->device);
	struct tern_core *core = dev->core;
	phys_addr_t offset = (phys_addr_t)uar << core->page_shift;

	/* Never map pages of another owner, even if the device offers them. */
	if (!tern_uar_ok(pci_resource_len(core->pdev, TERN_BAR_UAR),
			 core->page_shift, uar)) {
		tern_ib_destroy(dev, TERN_CMD_FREE_UAR, uar);
		return ERR_PTR(-EIO);
	}

	return tern_mmap_add(ibucontext, type, uar, core->uar_phys + offset,
			     PAGE_SIZE);
}

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

/* <not exported> */
static int tern_add_clock(struct tern_ib_dev *dev,
			  struct tern_ucontext *ucontext)
{
	struct tern_mmap_entry *entry;

	if (!dev->clock.page)
		return 0;

	tern_clock_get(dev);
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

/* </not exported> */
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
		/* <not exported> */
		.clock_offset = tern_clock_offset(ucontext),
		/* </not exported> */
		.max_rate = le32_to_cpu(caps->max_rate),
	};
}

/**
 * tern_alloc_ucontext() - allocate a user context
 * @ibucontext: the context
 * @udata: no request; the response is struct tern_uresp_alloc_ucontext
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

	tern_records_init(ucontext);
	if (tern_has_odp(dev)) {
		ucontext->pager = tern_pager_alloc(dev);
		if (!ucontext->pager)
			return -ENOMEM;
	}

	err = tern_add_uar(dev, ucontext);
	if (err)
		goto err_close_pager;

	/* <not exported> */
	err = tern_add_clock(dev, ucontext);
	if (err)
		goto err_del_uar;

	/* </not exported> */
	resp = tern_ucontext_resp(ucontext);
	err = ib_respond_udata(udata, resp);
	if (err)
		goto err_del_uar;

	return 0;

err_del_uar:
	/* <not exported> */
	tern_del_clock(ucontext);
	/* </not exported> */
	tern_del_uar(ucontext);
err_close_pager:
	tern_pager_close(ucontext->pager);
	return err;
}

/**
 * tern_query_ucontext() - query a user context that a process imports
 * @ibucontext: the context, opened by another process
 * @attrs: attributes for the same response as that of tern_alloc_ucontext()
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
	UVERBS_ATTR_STRUCT(struct tern_uresp_alloc_ucontext, clock_offset)

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
	struct tern_ucontext *ucontext = to_tucontext(ibucontext);

	/* <not exported> */
	tern_del_clock(ucontext);
	/* </not exported> */
	tern_del_uar(ucontext);
	tern_pager_close(ucontext->pager);
}

/*
 * Nothing to do: ib_core zaps the mappings of rdma_user_mmap_io(), the only
 * ones that reach the device.
 */
void tern_disassociate_ucontext(struct ib_ucontext *ibucontext)
{
}

/* <not exported> */
/*
 * The page is ordinary memory: a mapping that outlives the device keeps it with
 * its last contents.
 */
static int tern_mmap_clock(struct tern_ib_dev *dev, struct vm_area_struct *vma)
{
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EPERM;

	vm_flags_clear(vma, VM_MAYWRITE | VM_MAYEXEC);
	return vm_insert_page(vma, vma->vm_start,
			      virt_to_page(dev->clock.page));
}

/* </not exported> */
static int tern_mmap_entry(struct ib_ucontext *ibucontext,
			   struct vm_area_struct *vma,
			   struct tern_mmap_entry *entry)
{
	pgprot_t prot;

	/* <not exported> */
	if (entry->type == TERN_MMAP_CLOCK)
		return tern_mmap_clock(to_tdev(ibucontext->device), vma);

	/* </not exported> */
	/* The CPU may combine stores to it, but must not cache it. */
	if (entry->type == TERN_MMAP_DM)
		prot = pgprot_writecombine(vma->vm_page_prot);
	else
		prot = pgprot_device(vma->vm_page_prot);

	return rdma_user_mmap_io(ibucontext, vma, PHYS_PFN(entry->address),
				 entry->rdma_entry.npages * PAGE_SIZE, prot,
				 &entry->rdma_entry);
}

/**
 * tern_mmap() - map pages of the device into a process
 * @ibucontext: the context
 * @vma: the mapping
 *
 * Return: 0; -EINVAL if offset and size do not match an entry; or another
 * negative errno.
 */
int tern_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma_entry;
	int err;

	rdma_entry = rdma_user_mmap_entry_get(ibucontext, vma);
	if (!rdma_entry)
		return -EINVAL;

	err = tern_mmap_entry(ibucontext, vma, to_tmmap(rdma_entry));
	rdma_user_mmap_entry_put(rdma_entry);

	return err;
}

/**
 * tern_mmap_free() - release an mmap entry after its last mapping is gone
 * @rdma_entry: the entry
 */
void tern_mmap_free(struct rdma_user_mmap_entry *rdma_entry)
{
	struct tern_ib_dev *dev = to_tdev(rdma_entry->ucontext->device);
	struct tern_mmap_entry *entry = to_tmmap(rdma_entry);

	tern_free_pages(dev, entry->type, entry->id);
	if (entry->type == TERN_MMAP_DM_OP)
		tern_dm_op_free(entry);
	kfree(entry);
}

/**
 * tern_alloc_pd() - allocate a protection domain
 * @ibpd: the PD
 * @udata: user request without driver data; NULL allocates a privileged PD
 *
 * Return: 0 or a negative errno.
 */
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
