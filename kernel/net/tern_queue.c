// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Life cycle of the channels: memory, creation in the device, NAPI. The port is
 * enabled while they exist.
 */

#include <linux/cpumask.h>
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <net/netdev_queues.h>

#include "tern_net.h"
#include "tern_util.h"
#ifndef TERN_WITHOUT_XSK
#include "tern_xsk.h"
#endif

/* Delay between attempts to start queues that the device refused. */
#define TERN_RESTART_INTERVAL	HZ
/* Delay between attempts to fill receive queues in process context. */
#define TERN_REFILL_INTERVAL	(HZ / 2)

/* Maximum number of channels that the device and its vectors allow. */
unsigned int tern_max_channels(const struct tern_net *net)
{
	unsigned int queues = le16_to_cpu(net->tdev->caps.max_eth_queues);

	/* Without RSS, all frames go to one queue. */
	if (!tern_net_has_cap(net, TERN_CAP_STEERING))
		return 1;
	return clamp(queues, 1, net->tdev->max_channels);
}

int tern_net_poll(struct napi_struct *napi, int budget)
{
	struct tern_channel *ch = container_of(napi, struct tern_channel, napi);
	struct tern_net *net = ch->net;
	int done;

	tern_tx_poll(ch, budget);
	/* netpoll only needs transmit completions. */
	if (!budget)
		return 0;
	done = tern_rx_poll(ch, budget);
#ifndef TERN_WITHOUT_XSK
	if (ch->tx.xsk_pool && tern_xsk_tx(ch))
		return budget;
#endif
	if (done < budget && napi_complete_done(napi, done)) {
#ifndef TERN_WITHOUT_COALESCE
		tern_dim_update(ch);
#endif
		tern_net_cq_arm(net, &ch->tx.cq);
		tern_net_cq_arm(net, &ch->rx.cq);
	}
	return done;
}

static int tern_channel_irq(const struct tern_channel *ch)
{
	return pci_irq_vector(ch->net->tdev->core.pdev, ch->eq->vector);
}

static int tern_channel_alloc(struct tern_channel *ch, const struct tern_net_config *config)
{
	struct tern_net *net = ch->net;
	struct tern_dev *tdev;
	int err;

	tdev = net->tdev;
	netif_napi_add_config(net->netdev, &ch->napi, tern_net_poll, ch->index);
#ifndef TERN_WITHOUT_COALESCE
	tern_dim_init(ch);
#endif
	err = tern_tx_alloc(ch, config->tx_log_size);
	if (err)
		goto del_napi;
	err = tern_rx_alloc(ch, config);
	if (err)
		goto free_tx;
	ch->eq = tern_eq_create_on(tdev, tern_net_to_msix(ch->index, tdev->num_vectors),
				   2, tern_net_event, ch);
	if (IS_ERR(ch->eq)) {
		err = PTR_ERR(ch->eq);
		goto free_rx;
	}
	return 0;

free_rx:
	tern_rx_free(ch);
free_tx:
	tern_tx_free(ch);
del_napi:
	netif_napi_del(&ch->napi);
	return err;
}

static void tern_channel_free(struct tern_channel *ch)
{
	tern_eq_destroy(ch->eq);
	tern_rx_free(ch);
	tern_tx_free(ch);
	netif_napi_del(&ch->napi);
}

/*
 * Allocates all memory of the channels, and their event queues. They can be stopped and
 * restarted without allocations. Returns an error pointer on failure. RTNL held.
 */
struct tern_queues *tern_queues_alloc(struct tern_net *net,
				      const struct tern_net_config *config)
{
	struct tern_queues *queues;
	unsigned int i;
	int err;

	queues = kvzalloc(struct_size(queues, channel, config->channels), GFP_KERNEL);
	if (!queues)
		return ERR_PTR(-ENOMEM);
	queues->config = *config;
	for (i = 0; i < config->channels; i++) {
		queues->channel[i].net = net;
		queues->channel[i].index = i;
		err = tern_channel_alloc(&queues->channel[i], config);
		if (err)
			goto free;
	}
	return queues;

free:
	while (i--)
		tern_channel_free(&queues->channel[i]);
	kvfree(queues);
	return ERR_PTR(err);
}

/* The channels must be stopped and no longer be those of the device. RTNL held. */
void tern_queues_free(struct tern_net *net, struct tern_queues *queues)
{
	unsigned int i;

	/* Waits for readers of net->queues. */
	synchronize_net();
	for (i = 0; i < queues->config.channels; i++)
		tern_channel_free(&queues->channel[i]);
	kvfree(queues);
}

/* The first poll arms the completion queues. */
static void tern_channel_napi_start(struct tern_channel *ch)
{
	napi_enable(&ch->napi);
	local_bh_disable();
	napi_schedule(&ch->napi);
	local_bh_enable();
}

static void tern_channel_start(struct tern_channel *ch)
{
	struct net_device *netdev = ch->net->netdev;

#ifdef TERN_WITHOUT_XDP
	WRITE_ONCE(ch->up, true);
#else
	/* Senders of XDP frames that see the flag under the lock see the new queue, too. */
	__netif_tx_lock_bh(tern_txq(ch));
	WRITE_ONCE(ch->up, true);
	__netif_tx_unlock_bh(tern_txq(ch));
#endif
	tern_channel_napi_start(ch);
	netif_napi_set_irq(&ch->napi, tern_channel_irq(ch));
	netif_queue_set_napi(netdev, ch->index, NETDEV_QUEUE_TYPE_TX, &ch->napi);
	netif_queue_set_napi(netdev, ch->index, NETDEV_QUEUE_TYPE_RX, &ch->napi);
}

/*
 * Stops NAPI of a channel, if it runs, before its transmit queue, which NAPI would
 * wake. The end of the last poll may still arm a queue.
 */
static void tern_channel_stop(struct tern_channel *ch)
{
	struct net_device *netdev = ch->net->netdev;

	if (!ch->up)
		return;
	WRITE_ONCE(ch->up, false);
	netif_queue_set_napi(netdev, ch->index, NETDEV_QUEUE_TYPE_TX, NULL);
	netif_queue_set_napi(netdev, ch->index, NETDEV_QUEUE_TYPE_RX, NULL);
	napi_disable(&ch->napi);
}

/* Creates both queues of a channel. On failure, one may exist. */
static int tern_channel_create(struct tern_channel *ch, const struct tern_net_config *config)
{
	int err;

	err = tern_tx_create(ch);
#ifndef TERN_WITHOUT_XSK
	if (!err)
		err = tern_xsk_rx_start(ch);
#endif
	if (!err)
		err = tern_rx_create(ch, config);
	return err;
}

/* Destroys the queues that exist in the device. */
static void tern_channel_destroy(struct tern_channel *ch)
{
	tern_rx_destroy(ch);
	tern_tx_destroy(ch);
#ifndef TERN_WITHOUT_XSK
	tern_xsk_rx_stop(&ch->rx);
#endif
}

static void tern_queues_destroy(struct tern_queues *queues)
{
	unsigned int i;

	for (i = 0; i < queues->config.channels; i++)
		tern_channel_destroy(&queues->channel[i]);
}

static int tern_queues_create(struct tern_net *net, struct tern_queues *queues)
{
	unsigned int num = queues->config.channels;
	unsigned int i;
	int err = 0;

	for (i = 0; i < num && !err; i++)
		err = tern_channel_create(&queues->channel[i], &queues->config);
	if (!err)
#ifdef TERN_WITHOUT_SETTINGS
		err = netif_set_real_num_queues(net->netdev, num, num);
#else
		err = tern_net_set_num_queues(net, num);
#endif
	if (!err)
		err = tern_steer_start(net);
	if (err)
		tern_queues_destroy(queues);
	return err;
}

/*
 * Creates the queues and all steering in the device, and starts them. Needs no
 * memory except for receive buffers. RTNL held.
 */
int tern_queues_start(struct tern_net *net)
{
	struct tern_queues *queues = rtnl_dereference(net->queues);
	unsigned int i, noio;
	int err;

	/* Writing out pages may use this interface. */
	noio = memalloc_noio_save();
	err = tern_queues_create(net, queues);
	if (err)
		goto restore;
	for (i = 0; i < queues->config.channels; i++)
		tern_channel_start(&queues->channel[i]);
#ifndef TERN_WITHOUT_SETTINGS
	tern_queues_set_xps(net, queues->config.channels);
#endif
	WRITE_ONCE(net->queues_up, true);
	netif_tx_wake_all_queues(net->netdev);
restore:
	memalloc_noio_restore(noio);
	return err;
}

/* Stops and destroys the queues, if they exist. RTNL held. */
void tern_queues_stop(struct tern_net *net)
{
	struct tern_queues *queues = rtnl_dereference(net->queues);
	unsigned int i;

	if (!net->queues_up)
		return;
	WRITE_ONCE(net->queues_up, false);

	for (i = 0; i < queues->config.channels; i++)
		tern_channel_stop(&queues->channel[i]);
	netif_tx_disable(net->netdev);
	/* For the ends of the last polls. */
	synchronize_net();

#ifndef TERN_WITHOUT_COALESCE
	for (i = 0; i < queues->config.channels; i++)
		tern_dim_stop(&queues->channel[i]);
#endif
	tern_steer_stop(net);
	tern_queues_destroy(queues);
}

/* Fills a receive queue in process context. */
static void tern_channel_refill(struct tern_channel *ch)
{
	if (!tern_rx_is_low(&ch->rx))
		return;
	napi_disable(&ch->napi);
	/* Writing out pages may use this interface. */
	tern_rx_fill(ch, GFP_NOIO | __GFP_NOWARN);
	/* Queue the work before NAPI runs, which would not delay it. */
	if (tern_rx_is_low(&ch->rx))
		schedule_delayed_work(&ch->net->refill_work, TERN_REFILL_INTERVAL);
	tern_channel_napi_start(ch);
}

void tern_queues_refill_work(struct work_struct *work)
{
	struct tern_net *net = container_of(to_delayed_work(work),
					    struct tern_net, refill_work);
	struct tern_queues *queues;
	unsigned int i;

	rtnl_lock();
	queues = rtnl_dereference(net->queues);
	for (i = 0; net->queues_up && i < queues->config.channels; i++)
		tern_channel_refill(&queues->channel[i]);
	rtnl_unlock();
}

/* Sets the port attributes in @mask, TERN_PORT_*. */
int tern_net_modify_port(struct tern_net *net, u32 mask, unsigned int mtu,
			 const u8 *mac, bool enable)
{
	struct tern_cmd_modify_port cmd = {
		.mask = cpu_to_le32(mask),
		.mtu = cpu_to_le32(mtu),
		.enable = enable,
		.port = TERN_ETH_PORT,
	};

	if (mac)
		ether_addr_copy(cmd.mac, mac);
	return tern_cmd_exec(&net->tdev->core, TERN_CMD_MODIFY_PORT, &cmd,
			     sizeof(cmd), NULL, 0);
}

/* Updates the carrier, if the port is enabled. Process context. */
void tern_net_update_link(struct tern_net *net)
{
	struct tern_rsp_port port;

	mutex_lock(&net->link_lock);
	if (net->port_up) {
		if (!tern_cmd_query_port(net->tdev, &port) && port.link_up)
			netif_carrier_on(net->netdev);
		else
			netif_carrier_off(net->netdev);
	}
	mutex_unlock(&net->link_lock);
}

/* Called when the device is dead. */
void tern_net_lose_link(struct tern_net *net)
{
	mutex_lock(&net->link_lock);
	net->port_up = false;
	netif_carrier_off(net->netdev);
	mutex_unlock(&net->link_lock);
}

/* Starts the queues and enables the port. RTNL held. */
int tern_net_up(struct tern_net *net)
{
	struct net_device *netdev = net->netdev;
	int err;

	err = tern_queues_start(net);
	if (err)
		return err;
	err = tern_net_modify_port(net, TERN_PORT_MTU | TERN_PORT_MAC |
				   TERN_PORT_ENABLE, netdev->mtu,
				   netdev->dev_addr, true);
	if (err) {
		tern_queues_stop(net);
		return err;
	}

	mutex_lock(&net->link_lock);
	net->port_up = true;
	mutex_unlock(&net->link_lock);
	tern_net_update_link(net);
	return 0;
}

/* Disables the port, for RDMA too, and stops the queues. RTNL held. */
void tern_net_down(struct tern_net *net)
{
	tern_net_lose_link(net);
	tern_net_modify_port(net, TERN_PORT_ENABLE, 0, NULL, false);
	tern_queues_stop(net);
}

/*
 * Recreates the queues; the port is left as it is. Needs no host memory. If the
 * device refuses, the interface has no link until a retry succeeds. RTNL held.
 */
static void tern_net_restart(struct tern_net *net)
{
	tern_queues_stop(net);
	if (!tern_net_up(net))
		return;
	tern_net_down(net);
	schedule_delayed_work(&net->restart_work, TERN_RESTART_INTERVAL);
}

void tern_net_restart_work(struct work_struct *work)
{
	struct tern_net *net = container_of(to_delayed_work(work),
					    struct tern_net, restart_work);

	rtnl_lock();
	if (net->open && !tern_dev_dead(net->tdev))
		tern_net_restart(net);
	rtnl_unlock();
}

/*
 * Changes parameters on which the queues' memory depends. Allocates the new queues
 * first. If they cannot be allocated or the device refuses them, the old ones continue,
 * and nothing has changed. The port is left as it is. RTNL held.
 */
int tern_net_reconfigure(struct tern_net *net, const struct tern_net_config *config)
{
	struct tern_queues *old = rtnl_dereference(net->queues);
	struct tern_queues *queues;
	int err;

	if (!net->open) {
#ifndef TERN_WITHOUT_SETTINGS
		err = tern_net_preset_channels(net, config->channels);
		if (err)
			return err;
#endif
		net->config = *config;
		return 0;
	}
	queues = tern_queues_alloc(net, config);
	if (IS_ERR(queues))
		return PTR_ERR(queues);
	tern_queues_stop(net);
	rcu_assign_pointer(net->queues, queues);
	err = tern_queues_start(net);
	if (!err) {
		net->config = *config;
		tern_queues_free(net, old);
		return 0;
	}
	rcu_assign_pointer(net->queues, old);
	tern_queues_free(net, queues);
	tern_net_restart(net);
	return err;
}
#ifndef TERN_WITHOUT_XSK

/*
 * Recreates the queues of a channel, while the others take its share of frames. Needs
 * no host memory. On failure the queues must be restarted.
 */
static int tern_channel_replace(struct tern_channel *ch, const struct tern_net_config *config,
				struct xsk_buff_pool *pool)
{
	struct netdev_queue *txq = tern_txq(ch);
	struct tern_net *net = ch->net;
	int err;

	/* While the channel can still take frames. */
	err = tern_steer_detach(net, ch->index);
	if (err)
		return err;
	tern_channel_stop(ch);
	__netif_tx_lock_bh(txq);
	netif_tx_stop_queue(txq);
	__netif_tx_unlock_bh(txq);
	/* For the end of the last poll. */
	synchronize_net();
	tern_dim_stop(ch);
	tern_channel_destroy(ch);
	net->xsk_pools[ch->index] = pool;
	err = tern_channel_create(ch, config);
	if (err)
		return err;
	tern_channel_start(ch);
	netif_tx_wake_queue(txq);
	return tern_steer_attach(net);
}

/* The same for all queues, if no other channel can take the frames. */
static int tern_queues_replace(struct tern_net *net, struct xsk_buff_pool *pool, u16 qid)
{
	tern_queues_stop(net);
	net->xsk_pools[qid] = pool;
	return tern_queues_start(net);
}

/*
 * Gives a pool to a channel, or removes it if @pool is NULL: removal always ends its
 * use, even after an error. Needs no host memory. RTNL held.
 */
int tern_net_set_xsk_pool(struct tern_net *net, struct xsk_buff_pool *pool, u16 qid)
{
	struct tern_queues *queues = rtnl_dereference(net->queues);
	int err;

	/* The next start of the channel takes it. */
	if (!net->open || qid >= queues->config.channels) {
		net->xsk_pools[qid] = pool;
		return 0;
	}
	if (net->queues_up && tern_steer_substitute(net, qid) != TERN_NO_CHANNEL)
		err = tern_channel_replace(&queues->channel[qid], &queues->config, pool);
	else
		err = tern_queues_replace(net, pool, qid);
	if (!err)
		return 0;
	net->xsk_pools[qid] = NULL;
	tern_net_restart(net);
	return err;
}
#endif
