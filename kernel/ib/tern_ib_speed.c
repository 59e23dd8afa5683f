// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The speed of the port, and its changes. */

#include <rdma/ib_verbs.h>

#include "tern_ib.h"

/* Reads the speed of the link. Returns whether it has changed. */
bool tern_ib_update_speed(struct tern_ib_dev *dev)
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

/* The speed may have changed. ib_core derives other port events from the netdev. */
void tern_ib_port_changed(struct tern_ib_dev *dev)
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

/**
 * tern_query_port_speed() - query the speed of the port
 * @ibdev: the device
 * @port: 1
 * @speed: output, in units of 100 Mb/s; 0 if the port is down
 *
 * Return: 0 or a negative errno.
 */
int tern_query_port_speed(struct ib_device *ibdev, u32 port, u64 *speed)
{
	struct ib_port_speed_info info;
	struct ib_port_attr attr = {};
	int err;

	err = tern_query_port(ibdev, port, &attr);
	if (err)
		return err;

	if (attr.state == IB_PORT_DOWN) {
		*speed = 0;
		return 0;
	}

	err = ib_port_attr_to_speed_info(&attr, &info);
	if (err)
		return err;

	*speed = info.rate;
	return 0;
}
