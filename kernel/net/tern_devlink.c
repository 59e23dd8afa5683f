// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* devlink: device information and the port. */

#include "tern_dev.h"
#include "tern_devlink.h"
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
 * Allocates a zeroed device structure with its devlink instance. Returns NULL
 * without memory.
 */
struct tern_dev *tern_devlink_alloc(struct pci_dev *pdev)
{
	struct devlink *devlink;

	devlink = devlink_alloc(&tern_devlink_ops, sizeof(struct tern_dev), &pdev->dev);
	if (!devlink)
		return NULL;
	return devlink_priv(devlink);
}

void tern_devlink_free(struct tern_dev *tdev)
{
	devlink_free(priv_to_devlink(tdev));
}

/* Serializes bring-up and teardown of the device. */
void tern_devlink_lock(struct tern_dev *tdev)
{
	devl_lock(priv_to_devlink(tdev));
}

void tern_devlink_unlock(struct tern_dev *tdev)
{
	devl_unlock(priv_to_devlink(tdev));
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

void tern_devlink_port_unregister(struct tern_dev *tdev)
{
	devl_port_unregister(&tdev->devlink_port);
}

/* Makes the instance visible, as the last step of probe. Devlink lock held. */
int tern_devlink_register(struct tern_dev *tdev)
{
	struct devlink *devlink = priv_to_devlink(tdev);
	int err = 0;

#ifndef TERN_WITHOUT_RESET
	err = tern_health_register(tdev);
	if (err)
		return err;
#endif
#ifndef TERN_WITHOUT_CC
	err = tern_cc_register(tdev);
	if (err)
		goto unregister_health;
#endif
	err = devl_register(devlink);
	if (!err)
		return 0;

#ifndef TERN_WITHOUT_CC
	tern_cc_unregister(tdev);
unregister_health:
#endif
#ifndef TERN_WITHOUT_RESET
	tern_health_unregister(tdev);
#endif
	return err;
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
