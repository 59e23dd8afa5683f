// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Speed of the port as a number. */

#include "tern_ib.h"

/**
 * tern_query_port_speed() - query the speed of the port
 * @ibdev: the device
 * @port: 1
 * @speed: output, in units of 100 Mb/s; 0 if the port is down
 *
 * Return: 0 or a negative errno.
 */
static int tern_query_port_speed(struct ib_device *ibdev, u32 port, u64 *speed)
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

const struct ib_device_ops tern_speed_ops = {
	.query_port_speed = tern_query_port_speed,
};
