// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* devlink: device information, and recovery after a fatal error. */

#include <kunit/visibility.h>

#include "tern_dev.h"
#include "tern_devlink.h"

/*
 * A device that fails again within this time after a recovery, in ms, is left
 * to the administrator.
 */
#define TERN_RECOVER_INTERVAL	(30 * MSEC_PER_SEC)

static const char *tern_fatal_text(u32 fatal)
{
	switch (fatal) {
	case TERN_FATAL_NONE:
		return "no answer";
	case TERN_FATAL_AQ_DMA:
		return "admin queue not reachable";
	case TERN_FATAL_AQ_OVERRUN:
		return "admin queue overrun";
	case TERN_FATAL_EQ_DMA:
		return "event queue not reachable";
	case TERN_FATAL_CONFIG:
		return "register out of range";
	case TERN_FATAL_INTERNAL:
		return "internal error";
	default:
		return "unknown error";
	}
}

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

/* Called with the devlink lock held. */
static int tern_fatal_recover(struct devlink_health_reporter *reporter,
			      void *priv_ctx, struct netlink_ext_ack *extack)
{
	struct tern_dev *tdev = devlink_health_reporter_priv(reporter);

	if (test_bit(TERN_DEV_HELD, &tdev->flags)) {
		NL_SET_ERR_MSG_MOD(extack, "the device is suspended or being reset");
		return -EBUSY;
	}
	return tern_dev_recover(tdev);
}

static int tern_fatal_diagnose(struct devlink_health_reporter *reporter,
			       struct devlink_fmsg *fmsg,
			       struct netlink_ext_ack *extack)
{
	struct tern_dev *tdev = devlink_health_reporter_priv(reporter);
	u32 fatal = READ_ONCE(tdev->fatal);

	devlink_fmsg_string_pair_put(fmsg, "device",
				     tern_dev_dead(tdev) ? "dead" : "alive");
	devlink_fmsg_u32_pair_put(fmsg, "last fatal code", fatal);
	if (fatal)
		devlink_fmsg_string_pair_put(fmsg, "last fatal error",
					     tern_fatal_text(fatal));
	return 0;
}

/* Causes a real device failure by overrunning the admin queue. */
static int tern_fatal_test(struct devlink_health_reporter *reporter,
			   struct netlink_ext_ack *extack)
{
	struct tern_dev *tdev = devlink_health_reporter_priv(reporter);

	return tern_aq_overrun(tdev);
}

static const struct devlink_health_reporter_ops tern_fatal_ops = {
	.name			= "fw_fatal",
	.recover		= tern_fatal_recover,
	.diagnose		= tern_fatal_diagnose,
	.test			= tern_fatal_test,
	.default_graceful_period = TERN_RECOVER_INTERVAL,
};

/*
 * Whether there is a failure to report. The device may have been recovered
 * since the work was queued: reporting it again would leave the reporter in the
 * error state, because the grace period has not passed.
 */
VISIBLE_IF_KUNIT bool tern_report_due(struct tern_dev *tdev)
{
	/* A held device is checked on release. A removed one stays down. */
	return tern_dev_dead(tdev) && !test_bit(TERN_DEV_HELD, &tdev->flags) &&
	       !tern_dev_gone(tdev);
}
EXPORT_SYMBOL_IF_KUNIT(tern_report_due);

/*
 * Queued once a failure was delivered. Recovery takes the device down, so it
 * needs a work item of its own.
 */
static void tern_report_work(struct work_struct *work)
{
	struct tern_dev *tdev = container_of(work, struct tern_dev, report_work);

	if (tern_report_due(tdev))
		devlink_health_report(tdev->fatal_reporter,
				      tern_fatal_text(READ_ONCE(tdev->fatal)),
				      NULL);
}

/*
 * Allocates a zeroed device structure with its devlink instance. Returns NULL
 * without memory.
 */
struct tern_dev *tern_devlink_alloc(struct pci_dev *pdev)
{
	struct devlink *devlink;
	struct tern_dev *tdev;

	devlink = devlink_alloc(&tern_devlink_ops, sizeof(*tdev), &pdev->dev);
	if (!devlink)
		return NULL;
	tdev = devlink_priv(devlink);
	INIT_WORK(&tdev->report_work, tern_report_work);
	/* Enabled by tern_devlink_register(). */
	disable_work(&tdev->report_work);
	return tdev;
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
	struct devlink_health_reporter *reporter;
	int err;

	reporter = devl_health_reporter_create(devlink, &tern_fatal_ops, tdev);
	if (IS_ERR(reporter))
		return PTR_ERR(reporter);
	tdev->fatal_reporter = reporter;
	err = tern_cc_register(tdev);
	if (err)
		goto err_reporter;
	err = devl_register(devlink);
	if (err)
		goto err_cc;
	enable_work(&tdev->report_work);
	/* The device may have died in the meantime. */
	if (tern_dev_dead(tdev))
		schedule_work(&tdev->report_work);
	return 0;

err_cc:
	tern_cc_unregister(tdev);
err_reporter:
	devl_health_reporter_destroy(reporter);
	return err;
}

/* The device was recovered by other means than the reporter. */
void tern_devlink_healthy(struct tern_dev *tdev)
{
	devlink_health_reporter_state_update(tdev->fatal_reporter,
					     DEVLINK_HEALTH_REPORTER_STATE_HEALTHY);
}

/* First step of removal. No recovery runs or starts after this returned. */
void tern_devlink_unregister(struct tern_dev *tdev)
{
	struct devlink *devlink = priv_to_devlink(tdev);

	disable_work_sync(&tdev->report_work);
	devl_lock(devlink);
	devl_unregister(devlink);
	tern_cc_unregister(tdev);
	devl_health_reporter_destroy(tdev->fatal_reporter);
	devl_unlock(devlink);
}
