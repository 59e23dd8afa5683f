// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Pages that user space may map: doorbells and device memory. */

#include <linux/mm.h>
#include <linux/slab.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"

/* If a live device refuses, it keeps the pages until its next reset. */
static void tern_free_pages(struct tern_ib_dev *dev, enum tern_mmap_type type,
			    u32 id)
{
	switch (type) {
#ifndef TERN_WITHOUT_DV
	case TERN_MMAP_DM_OP:
#endif
	case TERN_MMAP_UAR:
		tern_ib_destroy(dev, TERN_CMD_FREE_UAR, id);
		break;
	case TERN_MMAP_DM:
		tern_ib_destroy(dev, TERN_CMD_FREE_DM, id);
		break;
#ifndef TERN_WITHOUT_CLOCK
	case TERN_MMAP_CLOCK:
		break;
#endif
	}
}

/*
 * Creates an mmap entry for pages that have the number @id in the device. tern_mmap_free()
 * returns the pages once the entry is removed and the last mapping is gone. If this
 * function fails, with an ERR_PTR, it returns them at once.
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

/* The same for a page of the doorbell BAR. */
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

#ifndef TERN_WITHOUT_CLOCK
/*
 * The page is ordinary memory of the network driver: a mapping that outlives
 * the device keeps it with its last contents.
 */
static int tern_mmap_clock(struct tern_ib_dev *dev, struct vm_area_struct *vma)
{
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EPERM;

	vm_flags_clear(vma, VM_MAYWRITE | VM_MAYEXEC);
	return vm_insert_page(vma, vma->vm_start,
			      virt_to_page(dev->core->clock));
}

#endif
static int tern_mmap_entry(struct ib_ucontext *ibucontext,
			   struct vm_area_struct *vma,
			   struct tern_mmap_entry *entry)
{
	pgprot_t prot;

#ifndef TERN_WITHOUT_CLOCK
	if (entry->type == TERN_MMAP_CLOCK)
		return tern_mmap_clock(to_tdev(ibucontext->device), vma);
#endif
	/* The CPU may combine stores to it, but must not cache it. */
	if (entry->type == TERN_MMAP_DM)
		prot = pgprot_writecombine(vma->vm_page_prot);
	else
		prot = pgprot_device(vma->vm_page_prot);

	return rdma_user_mmap_io(ibucontext, vma, PHYS_PFN(entry->address),
				 entry->rdma_entry.npages * PAGE_SIZE, prot,
				 &entry->rdma_entry);
}

int tern_mmap(struct ib_ucontext *ibucontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma_entry;
	int err;

	rdma_entry = rdma_user_mmap_entry_get(ibucontext, vma);
	if (!rdma_entry)
		return tern_refuse(to_tdev(ibucontext->device), -EINVAL,
				   "nothing to map at page %lu", vma->vm_pgoff);

	err = tern_mmap_entry(ibucontext, vma, to_tmmap(rdma_entry));
	rdma_user_mmap_entry_put(rdma_entry);

	return err;
}

#ifndef TERN_WITHOUT_DV
/* The device has taken back an operation page. */
static void tern_dm_op_free(struct tern_mmap_entry *entry)
{
	struct ib_ucontext *ibucontext = entry->rdma_entry.ucontext;

	/* May free the memory, which was busy until now. */
	if (entry->memory)
		rdma_user_mmap_entry_put(entry->memory);
	atomic_dec(&to_tucontext(ibucontext)->num_dm_ops);
}

#endif
/* Called after the last mapping is gone. */
void tern_mmap_free(struct rdma_user_mmap_entry *rdma_entry)
{
	struct tern_ib_dev *dev = to_tdev(rdma_entry->ucontext->device);
	struct tern_mmap_entry *entry = to_tmmap(rdma_entry);

	tern_free_pages(dev, entry->type, entry->id);
#ifndef TERN_WITHOUT_DV
	if (entry->type == TERN_MMAP_DM_OP)
		tern_dm_op_free(entry);
#endif
	kfree(entry);
}
