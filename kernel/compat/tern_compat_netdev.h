/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Included by the file with the net_device_ops. Before ndo_set_rx_mode_async()
 * there was only ndo_set_rx_mode(), which is called under a spinlock. The
 * driver's function takes its place, and runs later with snapshots of the
 * lists.
 */
#ifndef TERN_COMPAT_NETDEV_H
#define TERN_COMPAT_NETDEV_H

#ifndef TERN_HAVE_SET_RX_MODE_ASYNC

#include <linux/etherdevice.h>
#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#define ndo_set_rx_mode_async ndo_set_rx_mode

/*
 * Only the function definition has a parenthesis after the name, so only there
 * is this macro expanded: it turns the definition into that of the function
 * called later.
 */
#define tern_set_rx_mode_async(...)					\
	tern_compat_rx_mode(__VA_ARGS__);				\
	static void tern_set_rx_mode_async(struct net_device *netdev)	\
	{								\
		tern_compat_rx_mode_queue(netdev, tern_compat_rx_mode);	\
	}								\
	static int tern_compat_rx_mode(__VA_ARGS__)

typedef int (*tern_compat_rx_mode_t)(struct net_device *netdev,
				     struct netdev_hw_addr_list *uc,
				     struct netdev_hw_addr_list *mc);

struct tern_compat_rx_request {
	struct list_head entry;
	struct net_device *netdev;
	netdevice_tracker tracker;
	tern_compat_rx_mode_t func;
};

static LIST_HEAD(tern_compat_rx_requests);
static DEFINE_SPINLOCK(tern_compat_rx_lock);

/* Copies @from into @copies and links them to @to. Returns false without memory. */
static inline bool tern_compat_snapshot(struct netdev_hw_addr_list *to,
					struct netdev_hw_addr_list *from,
					struct netdev_hw_addr **copies)
{
	struct netdev_hw_addr *ha;
	int n = 0;

	INIT_LIST_HEAD(&to->list);
	to->count = 0;
	*copies = kcalloc(from->count, sizeof(**copies), GFP_ATOMIC);
	if (!*copies)
		return false;
	netdev_hw_addr_list_for_each(ha, from) {
		ether_addr_copy((*copies)[n].addr, ha->addr);
		list_add_tail(&(*copies)[n].list, &to->list);
		n++;
	}
	to->count = n;
	return true;
}

static inline void tern_compat_rx_run(struct net_device *netdev,
				      tern_compat_rx_mode_t func)
{
	struct netdev_hw_addr *uc_copies = NULL, *mc_copies = NULL;
	struct netdev_hw_addr_list uc, mc;
	bool have;

	netif_addr_lock_bh(netdev);
	have = tern_compat_snapshot(&uc, &netdev->uc, &uc_copies) &&
	       tern_compat_snapshot(&mc, &netdev->mc, &mc_copies);
	netif_addr_unlock_bh(netdev);
	if (have)
		func(netdev, &uc, &mc);
	kfree(uc_copies);
	kfree(mc_copies);
}

static inline void tern_compat_rx_work_func(struct work_struct *work)
{
	struct tern_compat_rx_request *request;

	for (;;) {
		spin_lock_bh(&tern_compat_rx_lock);
		request = list_first_entry_or_null(&tern_compat_rx_requests,
						   struct tern_compat_rx_request,
						   entry);
		if (request)
			list_del(&request->entry);
		spin_unlock_bh(&tern_compat_rx_lock);
		if (!request)
			return;

		rtnl_lock();
		if (request->netdev->flags & IFF_UP &&
		    netif_device_present(request->netdev))
			tern_compat_rx_run(request->netdev, request->func);
		rtnl_unlock();
		netdev_put(request->netdev, &request->tracker);
		kfree(request);
	}
}

static DECLARE_WORK(tern_compat_rx_work, tern_compat_rx_work_func);

static inline void tern_compat_rx_mode_queue(struct net_device *netdev,
					     tern_compat_rx_mode_t func)
{
	struct tern_compat_rx_request *request;

	request = kzalloc_obj(*request, GFP_ATOMIC);
	if (!request)
		return;
	request->netdev = netdev;
	request->func = func;
	netdev_hold(netdev, &request->tracker, GFP_ATOMIC);
	spin_lock_bh(&tern_compat_rx_lock);
	list_add_tail(&request->entry, &tern_compat_rx_requests);
	spin_unlock_bh(&tern_compat_rx_lock);
	schedule_work(&tern_compat_rx_work);
}

/* Wait for the last request: the module may be unloaded after the call. */
static inline void tern_compat_free_netdev(struct net_device *netdev)
{
	flush_work(&tern_compat_rx_work);
	free_netdev(netdev);
}

#define free_netdev(netdev) tern_compat_free_netdev(netdev)

#endif /* TERN_HAVE_SET_RX_MODE_ASYNC */

#endif /* TERN_COMPAT_NETDEV_H */
