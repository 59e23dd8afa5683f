// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Receive filter of the network device. */

#include <linux/etherdevice.h>
#include <linux/if.h>
#include <linux/string.h>

#include "tern_net.h"

/* Appends all addresses of @list to the filter, or none if one is too many. */
bool tern_filter_add(struct tern_cmd_set_rx_filter *filter, unsigned int *num,
		     struct netdev_hw_addr_list *list)
{
	struct netdev_hw_addr *ha;

	if (*num + netdev_hw_addr_list_count(list) > TERN_RX_FILTER_MACS)
		return false;
	netdev_hw_addr_list_for_each(ha, list)
		ether_addr_copy(filter->macs[(*num)++], ha->addr);
	return true;
}

/*
 * Fills in everything but the VLANs of the filter, from the device's IFF_*
 * flags, its addresses, and whether it filters VLANs. Falls back to promiscuous
 * or all-multicast mode if the addresses do not fit.
 */
void tern_filter_fill(struct tern_cmd_set_rx_filter *filter, unsigned int iff,
		      bool filters_vlans, struct netdev_hw_addr_list *uc,
		      struct netdev_hw_addr_list *mc)
{
	unsigned int num = 0;
	u16 flags = 0;

	memset(filter->macs, 0, sizeof(filter->macs));
	if (iff & IFF_PROMISC || !tern_filter_add(filter, &num, uc))
		flags |= TERN_RXF_PROMISC;
	else if (filters_vlans)
		flags |= TERN_RXF_VLANS;
	if (iff & IFF_ALLMULTI || !tern_filter_add(filter, &num, mc))
		flags |= TERN_RXF_ALLMULTI;

	filter->flags = cpu_to_le16(flags);
	filter->num_macs = cpu_to_le16(num);
}
