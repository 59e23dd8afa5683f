// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* devlink: device information and the port. */

#include "tern_dev.h"
#ifndef TERN_WITHOUT_RESET
#include "tern_health.h"
#endif

static int tern_devlink_info_get(struct devlink *devlink,
				 struct devlink_info_req *req,
				 struct netlink_ext_ack *extack)
{
	struct tern_dev *tdev = devlink_priv(devlink);

	return devlink_info_version_running_put(req, DEVLINK_INFO_VERSION_GENERIC_FW,
						(const char *)tdev->caps.fw_name);
}

static const struct devlink_ops tern_devlink_ops = {
	.info_get	= tern_devlink_info_get,
};

/*
 * Allocates a zeroed device structure, NULL without memory. The lock of its devlink
 * instance serializes bring-up and teardown.
 */
struct tern_dev *tern_devlink_alloc(struct pci_dev *pdev)
{
	struct devlink *devlink;

	devlink = devlink_alloc(&tern_devlink_ops, sizeof(struct tern_dev), &pdev->dev);
	return devlink ? devlink_priv(devlink) : NULL;
}

/*
 * Registers the port of the network device, before the network device itself.
 * Devlink lock held.
 */
int tern_devlink_port_register(struct tern_dev *tdev)
{
	struct devlink_port_attrs attrs = {
		.flavour = DEVLINK_PORT_FLAVOUR_PHYSICAL,
		.phys.port_number = TERN_ETH_PORT,
	};
	int err;

	devlink_port_attrs_set(&tdev->devlink_port, &attrs);
	err = devl_port_register(priv_to_devlink(tdev), &tdev->devlink_port,
				 TERN_ETH_PORT);
	if (!err)
		SET_NETDEV_DEVLINK_PORT(tdev->core.netdev, &tdev->devlink_port);
	return err;
}

/* Makes the instance visible, which never fails. The last step of probe. Devlink lock held. */
int tern_devlink_register(struct tern_dev *tdev)
{
#ifndef TERN_WITHOUT_RESET
	int err = tern_health_register(tdev);

	if (err)
		return err;
#endif
#ifndef TERN_WITHOUT_CC
	err = tern_cc_register(tdev);
	if (err) {
		tern_health_unregister(tdev);
		return err;
	}
#endif
	return devl_register(priv_to_devlink(tdev));
}

/* First step of removal. No recovery runs or starts after this returned. */
void tern_devlink_unregister(struct tern_dev *tdev)
{
	struct devlink *devlink = priv_to_devlink(tdev);

#ifndef TERN_WITHOUT_RESET
	tern_health_stop(tdev);
#endif
	devl_lock(devlink);
	devl_unregister(devlink);
#ifndef TERN_WITHOUT_CC
	tern_cc_unregister(tdev);
#endif
#ifndef TERN_WITHOUT_RESET
	tern_health_unregister(tdev);
#endif
	devl_unlock(devlink);
}
