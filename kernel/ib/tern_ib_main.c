// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * RDMA driver of tern: binds to the auxiliary device of the network driver and
 * registers with ib_core.
 */

#include <linux/auxiliary_bus.h>
#include <linux/module.h>

#include "tern_ib.h"
#ifndef TERN_WITHOUT_DV
#include "tern_ib_dv.h"
#endif
#ifndef TERN_WITHOUT_RSS
#include "tern_ib_raw.h"
#endif

static const struct ib_device_ops tern_dev_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_TERN,
	.uverbs_abi_ver = TERN_UVERBS_ABI_VERSION,
	.uverbs_robust_udata = 1,

	.add_gid = tern_add_gid,
#ifndef TERN_WITHOUT_COUNTERS
	.alloc_hw_port_stats = tern_alloc_hw_port_stats,
#endif
	.alloc_pd = tern_alloc_pd,
	.alloc_ucontext = tern_alloc_ucontext,
	.create_cq = tern_create_cq,
	.create_qp = tern_create_qp,
	.create_user_cq = tern_create_user_cq,
	.dealloc_pd = tern_dealloc_pd,
	.dealloc_ucontext = tern_dealloc_ucontext,
	.del_gid = tern_del_gid,
	.dereg_mr = tern_dereg_mr,
	.destroy_cq = tern_destroy_cq,
	.destroy_qp = tern_destroy_qp,
	.disassociate_ucontext = tern_disassociate_ucontext,
#ifndef TERN_WITHOUT_RESTRACK
	.fill_res_cq_entry = tern_fill_res_cq_entry,
	.fill_res_cq_entry_raw = tern_fill_res_cq_entry_raw,
	.fill_res_mr_entry = tern_fill_res_mr_entry,
	.fill_res_mr_entry_raw = tern_fill_res_mr_entry_raw,
	.fill_res_qp_entry = tern_fill_res_qp_entry,
	.fill_res_qp_entry_raw = tern_fill_res_qp_entry_raw,
#endif
	.get_dev_fw_str = tern_get_dev_fw_str,
	.get_dma_mr = tern_get_dma_mr,
#ifndef TERN_WITHOUT_COUNTERS
	.get_hw_stats = tern_get_hw_stats,
#endif
	.get_link_layer = tern_get_link_layer,
	.get_numa_node = tern_get_numa_node,
	.get_port_immutable = tern_get_port_immutable,
	.mmap = tern_mmap,
	.mmap_free = tern_mmap_free,
#ifndef TERN_WITHOUT_COUNTERS
	.modify_hw_stat = tern_modify_hw_stat,
#endif
	.modify_qp = tern_modify_qp,
	.poll_cq = tern_poll_cq,
	.post_recv = tern_post_recv,
	.post_send = tern_post_send,
#ifndef TERN_WITHOUT_MAD
	.process_mad = tern_process_mad,
#endif
	.query_device = tern_query_device,
	.query_pkey = tern_query_pkey,
	.query_port = tern_query_port,
#ifndef TERN_WITHOUT_SPEED
	.query_port_speed = tern_query_port_speed,
#endif
	.query_qp = tern_query_qp,
#ifndef TERN_WITHOUT_IMPORT
	.query_ucontext = tern_query_ucontext,
#endif
	.reg_user_mr = tern_reg_user_mr,
#ifndef TERN_WITHOUT_DMABUF
	.reg_user_mr_dmabuf = tern_reg_user_mr_dmabuf,
#endif
	.req_notify_cq = tern_req_notify_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, tern_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_pd, tern_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, tern_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, tern_ucontext, ibucontext),
};

static const struct ib_device_ops tern_dev_dm_ops = {
	.alloc_dm = tern_alloc_dm,
	.dealloc_dm = tern_dealloc_dm,
#ifndef TERN_WITHOUT_DMABUF
	.mmap_get_pfns = tern_mmap_get_pfns,
	.pgoff_to_mmap_entry = tern_pgoff_to_mmap_entry,
#endif
	.reg_dm_mr = tern_reg_dm_mr,
};

#ifndef TERN_WITHOUT_RESIZE
static const struct ib_device_ops tern_dev_resize_ops = {
	.resize_user_cq = tern_resize_user_cq,
};

#endif
static const struct ib_device_ops tern_dev_srq_ops = {
	.create_srq = tern_create_srq,
	.destroy_srq = tern_destroy_srq,
#ifndef TERN_WITHOUT_RESTRACK
	.fill_res_srq_entry = tern_fill_res_srq_entry,
	.fill_res_srq_entry_raw = tern_fill_res_srq_entry_raw,
#endif
	.modify_srq = tern_modify_srq,
#ifndef TERN_WITHOUT_KSRQ
	.post_srq_recv = tern_post_srq_recv,
#endif
	.query_srq = tern_query_srq,

	INIT_RDMA_OBJ_SIZE(ib_srq, tern_srq, ibsrq),
};

/* Driver attributes of ib_core methods, and driver methods. */
static const struct uapi_definition tern_uapi_defs[] = {
	UAPI_DEF_CHAIN(tern_dm_defs),
#ifndef TERN_WITHOUT_IMPORT
	UAPI_DEF_CHAIN(tern_ctx_defs),
#endif
#ifndef TERN_WITHOUT_DV
	UAPI_DEF_CHAIN(tern_dv_defs),
#endif
#ifndef TERN_WITHOUT_COMP_CNTR
	UAPI_DEF_CHAIN(tern_comp_cntr_defs),
#endif
	{}
};

static void tern_ib_set_ops(struct tern_ib_dev *dev)
{
	static const struct {
		u64 cap;
		const struct ib_device_ops *ops;
	} optional[] = {
		{ TERN_CAP_DM, &tern_dev_dm_ops },
		{ TERN_CAP_FRWR, &tern_frwr_ops },
		{ TERN_CAP_MCAST, &tern_mcast_ops },
#ifndef TERN_WITHOUT_MODERATE
		{ TERN_CAP_MODERATE_CQ, &tern_moderate_ops },
#endif
		{ TERN_CAPS_MW, &tern_mw_ops },
#ifndef TERN_WITHOUT_REREG
		{ TERN_CAP_REREG_MR, &tern_rereg_ops },
#endif
#ifndef TERN_WITHOUT_RESIZE
		{ TERN_CAP_RESIZE_CQ, &tern_dev_resize_ops },
#endif
		{ TERN_CAP_SRQ, &tern_dev_srq_ops },
		{ TERN_CAP_UD, &tern_ah_ops },
#ifndef TERN_WITHOUT_XRC
		{ TERN_CAP_XRC, &tern_xrc_ops },
#endif
#ifndef TERN_WITHOUT_QP_COUNTERS
		{ TERN_CAP_COUNTER_SETS, &tern_qp_counter_ops },
#endif
#ifndef TERN_WITHOUT_COMP_CNTR
		{ TERN_CAP_COMP_CNTR, &tern_comp_cntr_ops },
#endif
	};
	unsigned int i;

	ib_set_device_ops(&dev->ibdev, &tern_dev_ops);
	for (i = 0; i < ARRAY_SIZE(optional); i++)
		if (tern_has_cap(dev, optional[i].cap))
			ib_set_device_ops(&dev->ibdev, optional[i].ops);
#ifndef TERN_WITHOUT_RSS
	if (tern_has_steering(dev))
		ib_set_device_ops(&dev->ibdev, &tern_wq_ops);
#endif
#ifndef TERN_WITHOUT_FLOW
	if (tern_has_steering(dev))
		ib_set_device_ops(&dev->ibdev, &tern_flow_ops);
#endif
#ifndef TERN_WITHOUT_ODP
	if (tern_has_odp(dev))
		ib_set_device_ops(&dev->ibdev, &tern_dev_odp_ops);
#endif
#ifndef TERN_WITHOUT_DMAH
	ib_set_device_ops(&dev->ibdev, &tern_dmah_ops);
#endif

	dev->ibdev.driver_def = tern_uapi_defs;
}

static void tern_ib_device_fatal(struct tern_ib_dev *dev)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_DEVICE_FATAL,
		.element.port_num = TERN_IB_PORT,
	};

	schedule_work(&dev->flush_work);

	/* A device that is not registered has no users. */
	if (!ib_device_try_get(&dev->ibdev))
		return;

	ib_dispatch_event(&event);
	ib_device_put(&dev->ibdev);
}

/* Events of objects, by TERN_EV_*. */
static const struct {
	void (*report)(struct tern_ib_dev *dev, u32 id, u32 generation,
		       enum ib_event_type event);
	enum ib_event_type event;
} tern_ib_events[] = {
	[TERN_EV_QP_FATAL] = { tern_qp_event, IB_EVENT_QP_FATAL },
	[TERN_EV_QP_REQ_ERR] = { tern_qp_event, IB_EVENT_QP_REQ_ERR },
	[TERN_EV_QP_ACCESS_ERR] = { tern_qp_event, IB_EVENT_QP_ACCESS_ERR },
	[TERN_EV_COMM_EST] = { tern_qp_event, IB_EVENT_COMM_EST },
	[TERN_EV_SQ_DRAINED] = { tern_qp_event, IB_EVENT_SQ_DRAINED },
	[TERN_EV_QP_LAST_WQE] = { tern_qp_event, IB_EVENT_QP_LAST_WQE_REACHED },
#ifndef TERN_WITHOUT_APM
	[TERN_EV_PATH_MIG] = { tern_qp_event, IB_EVENT_PATH_MIG },
	[TERN_EV_PATH_MIG_ERR] = { tern_qp_event, IB_EVENT_PATH_MIG_ERR },
#endif
	[TERN_EV_CQ_ERR] = { tern_cq_event, IB_EVENT_CQ_ERR },
	[TERN_EV_SRQ_ERR] = { tern_srq_event, IB_EVENT_SRQ_ERR },
	[TERN_EV_SRQ_LIMIT] = { tern_srq_event, IB_EVENT_SRQ_LIMIT_REACHED },
};

/* Handles asynchronous events in process context. */
static int tern_ib_event(struct notifier_block *nb, unsigned long action,
			 void *data)
{
	struct tern_ib_dev *dev = container_of(nb, struct tern_ib_dev, event_nb);
	const struct tern_eqe *eqe = data;
	u32 id, gen;

	if (action == TERN_CORE_EV_DEAD) {
		tern_ib_device_fatal(dev);
		return NOTIFY_OK;
	}

	id = le32_to_cpu(eqe->id);
	gen = le32_to_cpu(eqe->generation);
#ifndef TERN_WITHOUT_RSS
	/* A work queue is a QP to the device. */
	if (action == TERN_EV_QP_FATAL)
		tern_rwq_fatal(dev, id, gen);
#endif
#ifndef TERN_WITHOUT_SPEED
	if (action == TERN_EV_PORT_CHANGE && id == TERN_IB_PORT)
		tern_ib_port_changed(dev);
#endif
	if (action >= ARRAY_SIZE(tern_ib_events) || !tern_ib_events[action].report)
		return NOTIFY_DONE;

	tern_ib_events[action].report(dev, id, gen, tern_ib_events[action].event);
	return NOTIFY_OK;
}

static int tern_ib_register(struct tern_ib_dev *dev)
{
	struct tern_core *core = dev->core;
	struct ib_device *ibdev = &dev->ibdev;
	int err;

	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->node_guid = cpu_to_be64(le64_to_cpu(core->caps->guid));
	ibdev->phys_port_cnt = TERN_IB_PORT;
	ibdev->num_comp_vectors = dev->num_eqs;
	ibdev->local_dma_lkey = TERN_LKEY_DMA;
	/* User space finds its provider by the PCI ID of the parent. */
	ibdev->dev.parent = &core->pdev->dev;
	tern_ib_set_ops(dev);

	err = ib_device_set_netdev(ibdev, core->netdev, TERN_IB_PORT);
	if (err)
		return err;

	return ib_register_device(ibdev, "tern%d", &core->pdev->dev);
}

static int tern_ib_probe(struct auxiliary_device *adev,
			 const struct auxiliary_device_id *id)
{
	struct tern_ib_dev *dev;
	int err;

	dev = ib_alloc_device(tern_ib_dev, ibdev);
	if (!dev)
		return -ENOMEM;

	dev->core = tern_adev_core(adev);
	dev->event_nb.notifier_call = tern_ib_event;
	INIT_WORK(&dev->flush_work, tern_flush_work);
	xa_init_flags(&dev->cqs, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->qps, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->srqs, XA_FLAGS_LOCK_IRQ);
#ifndef TERN_WITHOUT_RSS
	xa_init_flags(&dev->rwqs, XA_FLAGS_LOCK_IRQ);
#endif

#ifndef TERN_WITHOUT_DMABUF
	err = tern_dm_export_init(dev);
	if (err)
		goto err_dealloc;

#endif
	err = tern_ib_create_eqs(dev);
	if (err)
		goto err_dealloc;

#ifndef TERN_WITHOUT_ODP
	err = tern_faults_init(dev);
	if (err)
		goto err_destroy_eqs;

#endif
#ifndef TERN_WITHOUT_SPEED
	tern_ib_update_speed(dev);
#endif
	err = tern_register_event_notifier(dev->core, &dev->event_nb);
	if (err)
		goto err_destroy_eqs;

	err = tern_ib_register(dev);
	if (err)
		goto err_unregister_notifier;

	auxiliary_set_drvdata(adev, dev);
	return 0;

err_unregister_notifier:
	tern_unregister_event_notifier(dev->core, &dev->event_nb);
	cancel_work_sync(&dev->flush_work);
err_destroy_eqs:
#ifndef TERN_WITHOUT_ODP
	tern_faults_free(dev);
#endif
	tern_ib_destroy_eqs(dev);
err_dealloc:
	ib_dealloc_device(&dev->ibdev);
	return err;
}

static void tern_ib_remove(struct auxiliary_device *adev)
{
	struct tern_ib_dev *dev = auxiliary_get_drvdata(adev);

	/*
	 * Kernel users destroy their QPs during this call and wait for
	 * completions, so they must still be notified if the device dies.
	 */
	ib_unregister_device(&dev->ibdev);
	tern_unregister_event_notifier(dev->core, &dev->event_nb);
	cancel_work_sync(&dev->flush_work);
#ifndef TERN_WITHOUT_ODP
	tern_faults_free(dev);
#endif
	tern_ib_destroy_eqs(dev);
	WARN_ON(!xa_empty(&dev->cqs));
	WARN_ON(!xa_empty(&dev->qps));
	WARN_ON(!xa_empty(&dev->srqs));
#ifndef TERN_WITHOUT_RSS
	WARN_ON(!xa_empty(&dev->rwqs));
#endif
	ib_dealloc_device(&dev->ibdev);
}

static const struct auxiliary_device_id tern_ib_id_table[] = {
	{ .name = "tern." TERN_AUX_RDMA_NAME, },
	{}
};
MODULE_DEVICE_TABLE(auxiliary, tern_ib_id_table);

static struct auxiliary_driver tern_ib_driver = {
	.name = "rdma",
	.probe = tern_ib_probe,
	.remove = tern_ib_remove,
	.id_table = tern_ib_id_table,
};
module_auxiliary_driver(tern_ib_driver);

MODULE_DESCRIPTION("RDMA driver of the tern host channel adapter");
MODULE_LICENSE("Dual BSD/GPL");
