// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Start and stop of all that steers received frames. */

#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>

#include "tern_net.h"

#ifndef TERN_WITHOUT_STEERING
/* Delay between attempts to create rules that the device refused; it doubles. */
#define TERN_RULES_INTERVAL	HZ
#define TERN_RULES_INTERVAL_MAX	(64 * HZ)

#endif
static int tern_set_rx_default(struct tern_net *net, u8 dest, u32 id)
{
	struct tern_cmd_set_rx_default cmd = {
		.id = cpu_to_le32(id),
		.dest = dest,
		.port = TERN_ETH_PORT,
	};

	return tern_cmd_exec(&net->tdev->core, TERN_CMD_SET_RX_DEFAULT, &cmd, sizeof(cmd),
			     NULL, 0);
}

#ifndef TERN_WITHOUT_XSK
/* Writes all groups again, after other channels are to be avoided. */
static int tern_rss_modify_all(struct tern_net *net)
{
	int err = tern_rss_modify(net, &net->steer.rss, &net->steer.rss);

#ifndef TERN_WITHOUT_STEERING
	if (!err)
		err = tern_rss_ctx_modify(net);
#endif
	return err;
}

#endif
#ifndef TERN_WITHOUT_STEERING
/* Schedules the next attempt to create the rules that wait, if there are any. */
static void tern_steer_schedule(struct tern_net *net, unsigned long delay)
{
	if (!net->steer.num_waiting)
		return;
	net->steer.retry_delay = min(delay, TERN_RULES_INTERVAL_MAX);
	/* It may be scheduled already, but for later. */
	cancel_delayed_work(&net->rules_work);
	schedule_delayed_work(&net->rules_work, net->steer.retry_delay);
}

/* Tries to create the rules that wait. Returns an error as tern_steer_detach(). */
static int tern_steer_sync(struct tern_net *net)
{
	unsigned int channel = net->steer.waiting_channel;
	unsigned int num = net->steer.num_waiting;
	int err;

	err = tern_ntuple_sync(net);
	if (err)
		return err;
	if (num == net->steer.num_waiting && channel == net->steer.waiting_channel) {
		tern_steer_schedule(net, 2 * net->steer.retry_delay);
		return 0;
	}
	tern_steer_schedule(net, TERN_RULES_INTERVAL);
	return tern_rss_modify_all(net);
}

#endif
/* Creates groups and rules in the device, whose queues exist. RTNL held. */
int tern_steer_start(struct tern_net *net)
{
	const struct tern_queues *queues = rtnl_dereference(net->queues);
	int err;

	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return 0;
	tern_rss_spread(net, queues->config.channels);
	err = tern_rss_create(net, &net->steer.rss);
#ifndef TERN_WITHOUT_STEERING
	if (!err)
		err = tern_rss_ctx_start(net);
	if (!err)
		err = tern_steer_sync(net);
#endif
	/* Last, so that the group takes no frames of rules. */
	if (!err)
		err = tern_set_rx_default(net, TERN_DEST_RSS, net->steer.rss.id);
	if (err)
		tern_steer_stop(net);
	return err;
}

/* Undoes tern_steer_start(). The queues must still exist. */
void tern_steer_stop(struct tern_net *net)
{
	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return;
#ifndef TERN_WITHOUT_XSK
	net->steer.detached = TERN_NO_CHANNEL;
#endif
#ifndef TERN_WITHOUT_STEERING
	tern_ntuple_stop(net);
#endif
	/* On failure the device refuses to destroy the group, and is stopped. */
	tern_set_rx_default(net, TERN_DEST_NONE, 0);
	tern_rss_destroy(net, &net->steer.rss);
#ifndef TERN_WITHOUT_STEERING
	tern_rss_ctx_stop(net);
#endif
}

#ifndef TERN_WITHOUT_XSK
/**
 * tern_steer_detach() - keep frames from a receive queue
 * @net: the network device
 * @channel: index of the channel, whose queue can be destroyed then; it has a substitute
 *
 * A substitute takes its place until tern_steer_attach(). RTNL held.
 *
 * Return: 0, or an error, after which all steering must be stopped.
 */
int tern_steer_detach(struct tern_net *net, unsigned int channel)
{
	net->steer.detached = channel;
#ifndef TERN_WITHOUT_STEERING
	tern_ntuple_detach(net, channel);
#endif
	return tern_rss_modify_all(net);
}

/* Undoes tern_steer_detach(), with the same errors. */
int tern_steer_attach(struct tern_net *net)
{
	int err = 0;

	net->steer.detached = TERN_NO_CHANNEL;
#ifndef TERN_WITHOUT_STEERING
	/* Rules that are refused wait. */
	err = tern_ntuple_sync(net);
	tern_steer_schedule(net, TERN_RULES_INTERVAL);
#endif
	if (!err)
		err = tern_rss_modify_all(net);
	return err;
}

#endif
#ifndef TERN_WITHOUT_STEERING
/* Called after the user has changed the rules: those that wait may fit now. */
void tern_steer_rules_changed(struct tern_net *net)
{
	if (net->steer.num_waiting && tern_steer_sync(net))
		tern_net_fault(net);
}

static void tern_steer_rules_work(struct work_struct *work)
{
	struct tern_net *net = container_of(to_delayed_work(work),
					    struct tern_net, rules_work);

	rtnl_lock();
	if (net->queues_up && !tern_dev_dead(net->tdev))
		tern_steer_rules_changed(net);
	rtnl_unlock();
}

#endif
void tern_steer_init(struct tern_net *net)
{
	struct tern_rss *rss = &net->steer.rss;

	netdev_rss_key_fill(rss->key, sizeof(rss->key));
	rss->fields[TERN_RSS_IPV4] = TERN_RSS_L3;
	rss->fields[TERN_RSS_IPV6] = TERN_RSS_L3;
	rss->fields[TERN_RSS_TCP4] = TERN_RSS_L4;
	rss->fields[TERN_RSS_TCP6] = TERN_RSS_L4;
	rss->fields[TERN_RSS_UDP4] = TERN_RSS_L4;
	rss->fields[TERN_RSS_UDP6] = TERN_RSS_L4;
#ifndef TERN_WITHOUT_XSK
	net->steer.detached = TERN_NO_CHANNEL;
#endif
#ifndef TERN_WITHOUT_STEERING
	INIT_LIST_HEAD(&net->steer.rules);
	net->steer.waiting_channel = TERN_NO_CHANNEL;
	INIT_DELAYED_WORK(&net->rules_work, tern_steer_rules_work);
#endif
}
#ifndef TERN_WITHOUT_STEERING

/* The netdev is gone, and so is all steering in the device. */
void tern_steer_exit(struct tern_net *net)
{
	disable_delayed_work_sync(&net->rules_work);
	tern_ntuple_free(net);
}
#endif
