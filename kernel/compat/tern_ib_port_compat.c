// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Port events for kernels whose ib_core does not derive them from netdev
 * events. Compiles to nothing on other kernels. Not part of the driver.
 */

#ifndef TERN_HAVE_PORT_EVENTS

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/slab.h>

#undef ib_register_device
#undef ib_unregister_device

#define TERN_COMPAT_PORT	1

/**
 * struct tern_compat_port - port of a registered device
 * @list: entry in the list of all ports
 * @nb: receives netdev events, under the RTNL lock
 * @ibdev: the device
 * @state: state in the last event; protected by the RTNL lock
 */
struct tern_compat_port {
	struct list_head list;
	struct notifier_block nb;
	struct ib_device *ibdev;
	enum ib_port_state state;
};

static LIST_HEAD(tern_compat_ports);
static DEFINE_MUTEX(tern_compat_lock);

static void tern_compat_port_changed(struct tern_compat_port *port,
				     struct net_device *ndev)
{
	enum ib_port_state state = ib_get_curr_port_state(ndev);
	struct ib_event event = {
		.device = port->ibdev,
		.element.port_num = TERN_COMPAT_PORT,
	};

	if (port->state == state)
		return;

	port->state = state;
	event.event = state == IB_PORT_ACTIVE ? IB_EVENT_PORT_ACTIVE :
						IB_EVENT_PORT_ERR;
	ib_dispatch_event(&event);
}

static int tern_compat_netdev_event(struct notifier_block *nb,
				    unsigned long action, void *data)
{
	struct tern_compat_port *port =
		container_of(nb, struct tern_compat_port, nb);
	struct net_device *ndev = netdev_notifier_info_to_dev(data);
	struct net_device *own;

	switch (action) {
	case NETDEV_UP:
	case NETDEV_CHANGE:
	case NETDEV_DOWN:
		own = ib_device_get_netdev(port->ibdev, TERN_COMPAT_PORT);
		if (own == ndev)
			tern_compat_port_changed(port, ndev);
		dev_put(own);
		return NOTIFY_OK;
	default:
		return NOTIFY_DONE;
	}
}

/* Like ib_register_device(). Listeners receive port events from then on. */
int tern_compat_register_device(struct ib_device *ibdev, const char *name,
				struct device *dma_device)
{
	struct tern_compat_port *port;
	int err;

	port = kzalloc_obj(*port);
	if (!port)
		return -ENOMEM;

	err = ib_register_device(ibdev, name, dma_device);
	if (err)
		goto err_free;

	port->ibdev = ibdev;
	port->nb.notifier_call = tern_compat_netdev_event;
	err = register_netdevice_notifier(&port->nb);
	if (err)
		goto err_unregister;

	mutex_lock(&tern_compat_lock);
	list_add(&port->list, &tern_compat_ports);
	mutex_unlock(&tern_compat_lock);
	return 0;

err_unregister:
	ib_unregister_device(ibdev);
err_free:
	kfree(port);
	return err;
}

/* Like ib_unregister_device(). No port event follows. */
void tern_compat_unregister_device(struct ib_device *ibdev)
{
	struct tern_compat_port *port;

	mutex_lock(&tern_compat_lock);
	list_for_each_entry(port, &tern_compat_ports, list)
		if (port->ibdev == ibdev)
			break;
	list_del(&port->list);
	mutex_unlock(&tern_compat_lock);

	unregister_netdevice_notifier(&port->nb);
	kfree(port);
	ib_unregister_device(ibdev);
}

#endif /* TERN_HAVE_PORT_EVENTS */
