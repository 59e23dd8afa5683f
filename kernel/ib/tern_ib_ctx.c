// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * User contexts with their doorbell pages, and protection domains.
 */

#include <linux/mm.h>
#include <linux/slab.h>

#include <rdma/uverbs_ioctl.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"

static void tern_free_uar(struct tern_ib_dev *dev, u32 uar)
{
	/* A live device that keeps the page has one less to give. */
	tern_ib_destroy(dev, TERN_CMD_FREE_UAR, uar);
}

/* Makes a doorbell page that only this context may map. */
static int tern_add_uar(struct tern_ib_dev *dev, struct tern_ucontext *ucontext)
{
	struct tern_core *core = dev->core;
	struct tern_rsp_object rsp = {};
	struct tern_mmap_entry *entry;
	int err;

	entry = kzalloc_obj(*entry);
	if (!entry)
		return -ENOMEM;

	err = tern_cmd_exec(core, TERN_CMD_ALLOC_UAR, NULL, 0, &rsp,
			    sizeof(rsp));
	if (err)
		goto err_free;

	entry->uar = le32_to_cpu(rsp.id);
	entry->address = core->uar_phys +
			 ((phys_addr_t)entry->uar << core->page_shift);
	err = rdma_user_mmap_entry_insert(&ucontext->ibucontext,
					  &entry->rdma_entry, PAGE_SIZE);
	if (err)
		goto err_free_uar;

	ucontext->uar_entry = entry;
	return 0;

err_free_uar:
	tern_free_uar(dev, entry->uar);
err_free:
	kfree(entry);
	return err;
}

static void tern_del_uar(struct tern_ucontext *ucontext)
{
	/* The page goes back from tern_mmap_free(), after its last mapping. */
	rdma_user_mmap_entry_remove(&ucontext->uar_entry->rdma_entry);
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
	const struct tern_rsp_caps *caps = dev->core->caps;
	struct tern_uresp_alloc_ucontext resp = {
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
	int err;

	err = ib_is_udata_in_empty(udata);
	if (err)
		return err;

	err = tern_add_uar(dev, ucontext);
	if (err)
		return err;

	resp.uar_offset =
		rdma_user_mmap_get_offset(&ucontext->uar_entry->rdma_entry);
	err = ib_respond_udata(udata, resp);
	if (err)
		goto err_del_uar;

	return 0;

err_del_uar:
	tern_del_uar(ucontext);
	return err;
}

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
 * tern_mmap() - map the context's doorbell page
 * @ibucontext: the context
 * @vma: where
 *
 * Return: 0; -EINVAL for an offset or size that is not the page's.
 */
int tern_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma_entry;
	int err;

	rdma_entry = rdma_user_mmap_entry_get(ibucontext, vma);
	if (!rdma_entry)
		return -EINVAL;

	err = rdma_user_mmap_io(ibucontext, vma,
				PHYS_PFN(to_tmmap(rdma_entry)->address),
				rdma_entry->npages * PAGE_SIZE,
				pgprot_device(vma->vm_page_prot), rdma_entry);
	rdma_user_mmap_entry_put(rdma_entry);

	return err;
}

/**
 * tern_mmap_free() - the last mapping of a doorbell page is gone
 * @rdma_entry: its entry
 */
void tern_mmap_free(struct rdma_user_mmap_entry *rdma_entry)
{
	struct tern_ib_dev *dev = to_tdev(rdma_entry->ucontext->device);
	struct tern_mmap_entry *entry = to_tmmap(rdma_entry);

	tern_free_uar(dev, entry->uar);
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
	/* A live device that keeps the PD has one less to give. */
	tern_ib_destroy(to_tdev(ibpd->device), TERN_CMD_FREE_PD,
			to_tpd(ibpd)->pdn);
	return 0;
}
