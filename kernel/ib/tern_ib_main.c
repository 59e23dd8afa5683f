// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * RDMA driver of tern: binds to the auxiliary device of the network driver and
 * registers with ib_core.
 */

#include <linux/auxiliary_bus.h>
#include <linux/module.h>

#include "tern_ib.h"
#include "tern_ib_dv.h"

static const struct ib_device_ops tern_dev_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_TERN,
	.uverbs_abi_ver = TERN_UVERBS_ABI_VERSION,
	.uverbs_robust_udata = 1,

	.add_gid = tern_add_gid,
#ifndef TERN_WITHOUT_DMAH
	.alloc_dmah = tern_alloc_dmah,
#endif
	.alloc_hw_port_stats = tern_alloc_hw_port_stats,
	.alloc_pd = tern_alloc_pd,
	.alloc_ucontext = tern_alloc_ucontext,
	.create_cq = tern_create_cq,
	.create_qp = tern_create_qp,
	.create_user_cq = tern_create_user_cq,
#ifndef TERN_WITHOUT_DMAH
	.dealloc_dmah = tern_dealloc_dmah,
#endif
	.dealloc_pd = tern_dealloc_pd,
	.dealloc_ucontext = tern_dealloc_ucontext,
	.del_gid = tern_del_gid,
	.dereg_mr = tern_dereg_mr,
	.destroy_cq = tern_destroy_cq,
	.destroy_qp = tern_destroy_qp,
	.disassociate_ucontext = tern_disassociate_ucontext,
	.fill_res_cq_entry = tern_fill_res_cq_entry,
	.fill_res_cq_entry_raw = tern_fill_res_cq_entry_raw,
	.fill_res_mr_entry = tern_fill_res_mr_entry,
	.fill_res_mr_entry_raw = tern_fill_res_mr_entry_raw,
	.fill_res_qp_entry = tern_fill_res_qp_entry,
	.fill_res_qp_entry_raw = tern_fill_res_qp_entry_raw,
	.get_dev_fw_str = tern_get_dev_fw_str,
	.get_dma_mr = tern_get_dma_mr,
	.get_hw_stats = tern_get_hw_stats,
	.get_link_layer = tern_get_link_layer,
	.get_numa_node = tern_get_numa_node,
	.get_port_immutable = tern_get_port_immutable,
	.mmap = tern_mmap,
	.mmap_free = tern_mmap_free,
	.modify_hw_stat = tern_modify_hw_stat,
	.modify_qp = tern_modify_qp,
	.poll_cq = tern_poll_cq,
	.post_recv = tern_post_recv,
	.post_send = tern_post_send,
	.process_mad = tern_process_mad,
	.query_device = tern_query_device,
	.query_pkey = tern_query_pkey,
	.query_port = tern_query_port,
	.query_port_speed = tern_query_port_speed,
	.query_qp = tern_query_qp,
	.query_ucontext = tern_query_ucontext,
	.reg_user_mr = tern_reg_user_mr,
	.reg_user_mr_dmabuf = tern_reg_user_mr_dmabuf,
	.req_notify_cq = tern_req_notify_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, tern_cq, ibcq),
#ifndef TERN_WITHOUT_DMAH
	INIT_RDMA_OBJ_SIZE(ib_dmah, tern_dmah, ibdmah),
#endif
	INIT_RDMA_OBJ_SIZE(ib_pd, tern_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, tern_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, tern_ucontext, ibucontext),
};

static const struct ib_device_ops tern_dev_dm_ops = {
	.alloc_dm = tern_alloc_dm,
	.dealloc_dm = tern_dealloc_dm,
	.mmap_get_pfns = tern_mmap_get_pfns,
	.pgoff_to_mmap_entry = tern_pgoff_to_mmap_entry,
	.reg_dm_mr = tern_reg_dm_mr,
};

static const struct ib_device_ops tern_dev_flow_ops = {
	.create_counters = tern_create_counters,
	.create_flow = tern_create_flow,
	.destroy_counters = tern_destroy_counters,
	.destroy_flow = tern_destroy_flow,
	.read_counters = tern_read_counters,

	INIT_RDMA_OBJ_SIZE(ib_counters, tern_counters, ibcounters),
};

static const struct ib_device_ops tern_dev_frwr_ops = {
	.alloc_mr = tern_alloc_mr,
	.map_mr_sg = tern_map_mr_sg,
};

static const struct ib_device_ops tern_dev_mcast_ops = {
	.attach_mcast = tern_attach_mcast,
	.detach_mcast = tern_detach_mcast,
};

static const struct ib_device_ops tern_dev_moderate_ops = {
	.modify_cq = tern_modify_cq,
};

static const struct ib_device_ops tern_dev_mw_ops = {
	.alloc_mw = tern_alloc_mw,
	.dealloc_mw = tern_dealloc_mw,

	INIT_RDMA_OBJ_SIZE(ib_mw, tern_mw, ibmw),
};

static const struct ib_device_ops tern_dev_rereg_ops = {
	.rereg_user_mr = tern_rereg_user_mr,
};

static const struct ib_device_ops tern_dev_resize_ops = {
	.resize_user_cq = tern_resize_user_cq,
};

static const struct ib_device_ops tern_dev_srq_ops = {
	.create_srq = tern_create_srq,
	.destroy_srq = tern_destroy_srq,
	.fill_res_srq_entry = tern_fill_res_srq_entry,
	.fill_res_srq_entry_raw = tern_fill_res_srq_entry_raw,
	.modify_srq = tern_modify_srq,
	.post_srq_recv = tern_post_srq_recv,
	.query_srq = tern_query_srq,

	INIT_RDMA_OBJ_SIZE(ib_srq, tern_srq, ibsrq),
};

static const struct ib_device_ops tern_dev_ud_ops = {
	.create_ah = tern_create_ah,
	.create_user_ah = tern_create_ah,
	.destroy_ah = tern_destroy_ah,
	.query_ah = tern_query_ah,

	INIT_RDMA_OBJ_SIZE(ib_ah, tern_ah, ibah),
};

static const struct ib_device_ops tern_dev_wq_ops = {
	.create_rwq_ind_table = tern_create_rwq_ind_table,
	.create_wq = tern_create_wq,
	.destroy_rwq_ind_table = tern_destroy_rwq_ind_table,
	.destroy_wq = tern_destroy_wq,
	.modify_wq = tern_modify_wq,

	INIT_RDMA_OBJ_SIZE(ib_rwq_ind_table, tern_rwq_ind_table, ibtable),
};

static const struct ib_device_ops tern_dev_xrc_ops = {
	.alloc_xrcd = tern_alloc_xrcd,
	.dealloc_xrcd = tern_dealloc_xrcd,

	INIT_RDMA_OBJ_SIZE(ib_xrcd, tern_xrcd, ibxrcd),
};

/* Driver attributes of ib_core methods, and driver methods. */
static const struct uapi_definition tern_uapi_defs[] = {
	UAPI_DEF_CHAIN(tern_comp_cntr_defs),
	UAPI_DEF_CHAIN(tern_ctx_defs),
	UAPI_DEF_CHAIN(tern_dm_defs),
	UAPI_DEF_CHAIN(tern_dv_defs),
	{}
};

static void tern_ib_set_ops(struct tern_ib_dev *dev)
{
	static const struct {
		u64 cap;
		const struct ib_device_ops *ops;
	} optional[] = {
		{ TERN_CAP_COMP_CNTR, &tern_comp_cntr_ops },
		{ TERN_CAP_COUNTER_SETS, &tern_qp_counter_ops },
		{ TERN_CAP_DM, &tern_dev_dm_ops },
		{ TERN_CAP_FRWR, &tern_dev_frwr_ops },
		{ TERN_CAP_MCAST, &tern_dev_mcast_ops },
		{ TERN_CAP_MODERATE_CQ, &tern_dev_moderate_ops },
		{ TERN_CAPS_MW, &tern_dev_mw_ops },
		{ TERN_CAP_REREG_MR, &tern_dev_rereg_ops },
		{ TERN_CAP_RESIZE_CQ, &tern_dev_resize_ops },
		{ TERN_CAP_SRQ, &tern_dev_srq_ops },
		{ TERN_CAP_UD, &tern_dev_ud_ops },
		{ TERN_CAP_XRC, &tern_dev_xrc_ops },
	};
	unsigned int i;

	ib_set_device_ops(&dev->ibdev, &tern_dev_ops);
	for (i = 0; i < ARRAY_SIZE(optional); i++)
		if (tern_has_cap(dev, optional[i].cap))
			ib_set_device_ops(&dev->ibdev, optional[i].ops);
	/* Only raw packet QPs have flows, and only RSS QPs use work queues. */
	if (tern_has_caps(dev, TERN_CAPS_RAW_STEERING)) {
		ib_set_device_ops(&dev->ibdev, &tern_dev_flow_ops);
		ib_set_device_ops(&dev->ibdev, &tern_dev_wq_ops);
	}
	if (tern_has_odp(dev))
		ib_set_device_ops(&dev->ibdev, &tern_dev_odp_ops);

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

/* Reads the speed of the link. Returns whether it has changed. */
static bool tern_ib_update_speed(struct tern_ib_dev *dev)
{
	struct tern_cmd_query_port cmd = { .port = TERN_IB_PORT };
	struct tern_rsp_port port;
	u32 old = dev->speed;

	if (tern_cmd_exec(dev->core, TERN_CMD_QUERY_PORT, &cmd, sizeof(cmd), &port,
			  sizeof(port)))
		return false;

	dev->speed = port.link_up ? le32_to_cpu(port.speed) : 0;
	return dev->speed != old;
}

static void tern_ib_port_changed(struct tern_ib_dev *dev)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_DEVICE_SPEED_CHANGE,
	};

	if (!tern_ib_update_speed(dev) || !ib_device_try_get(&dev->ibdev))
		return;

	ib_dispatch_event(&event);
	ib_device_put(&dev->ibdev);
}

/*
 * Handles asynchronous events in process context. ib_core derives the other port
 * events from the netdev.
 */
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
	switch (action) {
	case TERN_EV_QP_FATAL:
		tern_qp_event(dev, id, gen, IB_EVENT_QP_FATAL);
		/* A work queue is a QP to the device. */
		tern_rwq_fatal(dev, id, gen);
		break;
	case TERN_EV_QP_REQ_ERR:
		tern_qp_event(dev, id, gen, IB_EVENT_QP_REQ_ERR);
		break;
	case TERN_EV_QP_ACCESS_ERR:
		tern_qp_event(dev, id, gen, IB_EVENT_QP_ACCESS_ERR);
		break;
	case TERN_EV_COMM_EST:
		tern_qp_event(dev, id, gen, IB_EVENT_COMM_EST);
		break;
	case TERN_EV_SQ_DRAINED:
		tern_qp_event(dev, id, gen, IB_EVENT_SQ_DRAINED);
		break;
	case TERN_EV_QP_LAST_WQE:
		tern_qp_event(dev, id, gen, IB_EVENT_QP_LAST_WQE_REACHED);
		break;
#ifndef TERN_WITHOUT_APM
	case TERN_EV_PATH_MIG:
		tern_qp_event(dev, id, gen, IB_EVENT_PATH_MIG);
		break;
	case TERN_EV_PATH_MIG_ERR:
		tern_qp_event(dev, id, gen, IB_EVENT_PATH_MIG_ERR);
		break;
#endif
	case TERN_EV_SRQ_ERR:
		tern_srq_event(dev, id, gen, IB_EVENT_SRQ_ERR);
		break;
	case TERN_EV_SRQ_LIMIT:
		tern_srq_event(dev, id, gen, IB_EVENT_SRQ_LIMIT_REACHED);
		break;
	case TERN_EV_CQ_ERR:
		tern_cq_event(dev, id, gen, IB_EVENT_CQ_ERR);
		break;
	case TERN_EV_PORT_CHANGE:
		if (id == TERN_IB_PORT)
			tern_ib_port_changed(dev);
		break;
	default:
		return NOTIFY_DONE;
	}

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
	xa_init_flags(&dev->rwqs, XA_FLAGS_LOCK_IRQ);

	err = tern_dm_export_init(dev);
	if (err)
		goto err_dealloc;

#ifndef TERN_WITHOUT_CLOCK
	err = tern_clock_init(dev);
	if (err)
		goto err_dealloc;

#endif
	err = tern_ib_create_eqs(dev);
	if (err)
		goto err_dealloc;

	err = tern_faults_init(dev);
	if (err)
		goto err_destroy_eqs;

	tern_ib_update_speed(dev);
	err = tern_register_event_notifier(dev->core, &dev->event_nb);
	if (err)
		goto err_free_faults;

	err = tern_ib_register(dev);
	if (err)
		goto err_unregister_notifier;

	auxiliary_set_drvdata(adev, dev);
	return 0;

err_unregister_notifier:
	tern_unregister_event_notifier(dev->core, &dev->event_nb);
	cancel_work_sync(&dev->flush_work);
err_free_faults:
	tern_faults_free(dev);
err_destroy_eqs:
	tern_ib_destroy_eqs(dev);
err_dealloc:
#ifndef TERN_WITHOUT_CLOCK
	tern_clock_free(dev);
#endif
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
	tern_faults_free(dev);
	tern_ib_destroy_eqs(dev);
	WARN_ON(!xa_empty(&dev->cqs));
	WARN_ON(!xa_empty(&dev->qps));
	WARN_ON(!xa_empty(&dev->srqs));
	WARN_ON(!xa_empty(&dev->rwqs));
#ifndef TERN_WITHOUT_CLOCK
	tern_clock_free(dev);
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
