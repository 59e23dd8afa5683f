// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Resizing of the completion queues of user space. */

#include <rdma/uverbs_ioctl.h>

#include "tern_change.h"
#include "tern_ib.h"
#include "tern_ib_limits.h"

/* Makes the device write to the new buffer. The user drains the old one. */
static int tern_cq_resize(struct tern_ib_dev *dev, struct tern_cq *cq,
			  const struct tern_ureq_resize_cq *req,
			  struct tern_uresp_resize_cq *resp)
{
	struct tern_cmd_resize_cq cmd = {
		.cqn = cpu_to_le32(cq->cqn),
		.log_size = req->log_size,
	};
	struct tern_rsp_resize_cq rsp = {};
	struct tern_table table;
	struct ib_umem *umem;
	int err;

	lockdep_assert_held(&cq->resize_lock);

	umem = ib_umem_get_va(&dev->ibdev, req->buf_addr, req->buf_len,
			      IB_ACCESS_LOCAL_WRITE);
	if (IS_ERR(umem))
		return PTR_ERR(umem);

	err = tern_table_from_queue(dev, &table, umem, &cmd.pages);
	if (err)
		goto err_release_umem;

	err = tern_cmd_exec(dev->core, TERN_CMD_RESIZE_CQ, &cmd, sizeof(cmd),
			    &rsp, sizeof(rsp));
	tern_table_free(&table);
	if (err)
		goto err_release_umem;

	swap(cq->queue.umem, umem);
	cq->ibcq.cqe = BIT(req->log_size);
	resp->first_index = le32_to_cpu(rsp.pi);
	ib_umem_release(umem);
	return 0;

err_release_umem:
	ib_umem_release(umem);
	return err;
}

/* User space must not poll or arm the CQ during the call. */
int tern_resize_user_cq(struct ib_cq *ibcq, unsigned int cqe,
			struct ib_udata *udata)
{
	struct tern_ib_dev *dev = to_tdev(ibcq->device);
	struct tern_uresp_resize_cq resp = {};
	struct tern_cq *cq = to_tcq(ibcq);
	struct tern_ureq_resize_cq req;
	int err;

	err = ib_copy_validate_udata_in(udata, req, reserved_a0);
	if (err)
		return err;

	if (tern_reserved_set(dev, req.reserved_a0, sizeof(req.reserved_a0)))
		return -EINVAL;
	if (!cqe || !tern_cq_size_ok(dev, req.buf_len, req.log_size, cqe))
		return tern_refuse(dev, -EINVAL,
				   "CQ of 2^%u entries in %llu bytes, for %u",
				   req.log_size, req.buf_len, cqe);

	/* Detect a bad response buffer while the CQ uses the old ring. */
	err = ib_respond_udata(udata, resp);
	if (err)
		return err;

	mutex_lock(&cq->resize_lock);
	err = tern_cq_resize(dev, cq, &req, &resp);
	mutex_unlock(&cq->resize_lock);
	if (err)
		return err;

	return ib_respond_udata(udata, resp);
}
