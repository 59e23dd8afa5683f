// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The devlink health reporter: fatal errors, and recovery. */

#include "tern_dev.h"
#include "tern_health.h"

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
bool tern_report_due(struct tern_dev *tdev)
{
	/* A held device is checked on release. A removed one stays down. */
	return tern_dev_dead(tdev) && !test_bit(TERN_DEV_HELD, &tdev->flags) &&
	       !tern_dev_gone(tdev);
}

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

/* Creates the reporter. Devlink lock held. */
int tern_health_register(struct tern_dev *tdev)
{
	struct devlink_health_reporter *reporter;

	reporter = devl_health_reporter_create(priv_to_devlink(tdev), &tern_fatal_ops,
					       tdev);
	if (IS_ERR(reporter))
		return PTR_ERR(reporter);
	tdev->fatal_reporter = reporter;
	return 0;
}

void tern_health_unregister(struct tern_dev *tdev)
{
	devl_health_reporter_destroy(tdev->fatal_reporter);
}

/* Before any event can queue the work. tern_health_start() enables it. */
void tern_health_init(struct tern_dev *tdev)
{
	INIT_WORK(&tdev->report_work, tern_report_work);
	disable_work(&tdev->report_work);
}

/* The last step of probe. */
void tern_health_start(struct tern_dev *tdev)
{
	enable_work(&tdev->report_work);
	/* The device may have died in the meantime. */
	if (tern_dev_dead(tdev))
		schedule_work(&tdev->report_work);
}

/* No recovery runs or starts after this returned. */
void tern_health_stop(struct tern_dev *tdev)
{
	disable_work_sync(&tdev->report_work);
}

/* The device was recovered by other means than the reporter. */
void tern_health_good(struct tern_dev *tdev)
{
	devlink_health_reporter_state_update(tdev->fatal_reporter,
					     DEVLINK_HEALTH_REPORTER_STATE_HEALTHY);
}
