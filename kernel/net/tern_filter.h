/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Receive filter of the network device, for SET_RX_FILTER. */
#ifndef TERN_FILTER_H
#define TERN_FILTER_H

#include <linux/types.h>

struct netdev_hw_addr_list;
struct tern_cmd_set_rx_filter;

void tern_filter_fill(struct tern_cmd_set_rx_filter *filter, unsigned int iff,
		      bool filters_vlans, struct netdev_hw_addr_list *uc,
		      struct netdev_hw_addr_list *mc);
bool tern_filter_add(struct tern_cmd_set_rx_filter *filter, unsigned int *num,
		     struct netdev_hw_addr_list *list);

#endif /* TERN_FILTER_H */
