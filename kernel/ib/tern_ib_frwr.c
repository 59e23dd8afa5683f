// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Fast registration: regions that work requests register (IB_WR_REG_MR). */

#include <linux/slab.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"

static int tern_fast_mr_create(struct tern_ib_dev *dev, struct tern_mr *mr,
			       struct tern_pd *pd)
{
	struct tern_cmd_create_mr cmd = {
		.pages.num = cpu_to_le32(mr->max_pages),
		.pdn = cpu_to_le32(pd->pdn),
		.kind = TERN_MR_FAST,
	};
	int err;

	err = tern_ib_create_mr(dev, &cmd, &mr->ibmr.lkey);
	if (err)
		return err;

	mr->ibmr.rkey = mr->ibmr.lkey;
	return 0;
}

static struct ib_mr *tern_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type,
				   u32 max_num_sg)
{
	struct tern_ib_dev *dev = to_tdev(ibpd->device);
	struct tern_mr *mr;
	int err;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(tern_refuse(dev, -EOPNOTSUPP, "MR type %d", type));
	if (!max_num_sg)
		return ERR_PTR(tern_refuse(dev, -EINVAL, "MR of 0 pages"));
	if (tern_exceeds(dev, "max_num_sg", max_num_sg,
			 tern_max_fast_reg_pages(dev->core->caps)))
		return ERR_PTR(-EINVAL);

	mr = kzalloc_obj(*mr);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	/* The WQE gives the device the address of the page list. */
	err = tern_kpage_alloc(dev, &mr->page_list);
	if (err)
		goto err_free;

	mr->max_pages = max_num_sg;
	err = tern_fast_mr_create(dev, mr, to_tpd(ibpd));
	if (err)
		goto err_free_page;

	return &mr->ibmr;

err_free_page:
	tern_kpage_free(dev, &mr->page_list);
err_free:
	kfree(mr);
	return ERR_PTR(err);
}

static int tern_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct tern_mr *mr = to_tmr(ibmr);
	__le64 *list = mr->page_list.cpu;

	if (mr->num_pages == mr->max_pages)
		return -ENOMEM;

	list[mr->num_pages++] = cpu_to_le64(addr);
	return 0;
}

/* Fills the page list for the next IB_WR_REG_MR. Any context. */
static int tern_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
			  unsigned int *sg_offset)
{
	struct tern_ib_dev *dev = to_tdev(ibmr->device);
	u64 sizes = le64_to_cpu(dev->core->caps->page_shift_mask);
	struct tern_mr *mr = to_tmr(ibmr);
	int num;

	if (!is_power_of_2(ibmr->page_size) || !(sizes & ibmr->page_size))
		return tern_refuse(dev, -EINVAL, "page size %u", ibmr->page_size);

	mr->num_pages = 0;
	mr->page_shift = ilog2(ibmr->page_size);
	num = ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, tern_set_page);
	/* The caller may make the region zero-based after this. */
	mr->first_offset = ibmr->iova & (ibmr->page_size - 1);
	return num;
}

const struct ib_device_ops tern_frwr_ops = {
	.alloc_mr = tern_alloc_mr,
	.map_mr_sg = tern_map_mr_sg,
};
