/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Steering of received frames. All functions need RTNL. */
#ifndef TERN_STEER_H
#define TERN_STEER_H

#include <linux/limits.h>
#include <linux/list.h>
#include <linux/types.h>

#include "tern_hw.h"

#define TERN_RSS_KEY_SIZE	40

#define TERN_RSS_L3	(TERN_RSS_FIELD_SRC_IP | TERN_RSS_FIELD_DST_IP)
#define TERN_RSS_L4	(TERN_RSS_L3 | TERN_RSS_FIELD_SRC_PORT | TERN_RSS_FIELD_DST_PORT)
#ifndef TERN_WITHOUT_XSK

#define TERN_NO_CHANNEL		UINT_MAX
#endif
#ifndef TERN_WITHOUT_STEERING
/* Rules of the network device. Their location is their priority. */
#define TERN_MAX_RULES		1024
#define TERN_RULE_PRIORITY	0x20000
#endif

struct tern_net;

/* An RSS group. */
struct tern_rss {
	u32 id;			/* in the device, while @created */
	bool created;
	bool symmetric;
	u8 fields[8];		/* as in struct tern_cmd_rss */
	u8 key[TERN_RSS_KEY_SIZE];
	u8 indir[TERN_RSS_ENTRIES];	/* channels */
};

/* Steering of the network device. */
struct tern_steer {
	struct tern_rss rss;	/* the default RSS group */
#ifndef TERN_WITHOUT_XSK
	/* Channel to whose receive queue nothing may refer, TERN_NO_CHANNEL if there is none. */
	unsigned int detached;
#endif
#ifndef TERN_WITHOUT_STEERING
	struct list_head rules;	/* ntuple rules, sorted by location */
	unsigned int num_rules;	/* number of @rules */
	/* Number of @rules that wait because the device refused them or others. */
	unsigned int num_waiting;
	/* Channel to which all of these lead, else TERN_NO_CHANNEL. */
	unsigned int waiting_channel;
	unsigned long retry_delay;	/* jiffies until the next attempt to create them */
#endif
};

/* tern_rss.c */
void tern_rss_spread(struct tern_net *net, unsigned int channels);
#ifndef TERN_WITHOUT_XSK
unsigned int tern_steer_substitute(const struct tern_net *net, unsigned int channel);
#endif
void tern_rss_cmd(struct tern_net *net, const struct tern_rss *rss, u32 id,
		  struct tern_cmd_rss *cmd);
int tern_rss_create(struct tern_net *net, struct tern_rss *rss);
void tern_rss_destroy(struct tern_net *net, struct tern_rss *rss);

/* tern_steer.c */
void tern_steer_init(struct tern_net *net);
int tern_steer_start(struct tern_net *net);
void tern_steer_stop(struct tern_net *net);
#ifndef TERN_WITHOUT_XSK
int tern_steer_detach(struct tern_net *net, unsigned int channel);
int tern_steer_attach(struct tern_net *net);
#endif

#ifndef TERN_WITHOUT_STEERING
struct ethtool_rx_flow_spec;
struct ethtool_rxfh_context;
struct ethtool_rxfh_fields;
struct ethtool_rxfh_param;
struct ethtool_rxnfc;
struct net_device;
struct netlink_ext_ack;
struct tern_cmd_create_flow;

void tern_steer_exit(struct tern_net *net);
void tern_steer_rules_changed(struct tern_net *net);

/* tern_rss_ctx.c */
u32 tern_rss_from_rxh(u64 data, u8 *fields);
u64 tern_rss_to_rxh(u8 fields);
int tern_get_rxfh_fields(struct net_device *netdev, struct ethtool_rxfh_fields *fields);
int tern_set_rxfh_fields(struct net_device *netdev,
			 const struct ethtool_rxfh_fields *fields,
			 struct netlink_ext_ack *extack);
int tern_create_rxfh_context(struct net_device *netdev, struct ethtool_rxfh_context *ctx,
			     const struct ethtool_rxfh_param *param,
			     struct netlink_ext_ack *extack);
int tern_modify_rxfh_context(struct net_device *netdev, struct ethtool_rxfh_context *ctx,
			     const struct ethtool_rxfh_param *param,
			     struct netlink_ext_ack *extack);
int tern_remove_rxfh_context(struct net_device *netdev, struct ethtool_rxfh_context *ctx,
			     u32 context, struct netlink_ext_ack *extack);
int tern_rss_ctx_start(struct tern_net *net);
void tern_rss_ctx_stop(struct tern_net *net);
int tern_rss_ctx_modify(struct tern_net *net);

/* tern_ntuple.c */
int tern_ntuple_convert(const struct ethtool_rx_flow_spec *spec,
			struct tern_cmd_create_flow *cmd);
int tern_ntuple_sync(struct tern_net *net);
void tern_ntuple_stop(struct tern_net *net);
void tern_ntuple_detach(struct tern_net *net, unsigned int channel);
void tern_ntuple_free(struct tern_net *net);
bool tern_ntuple_uses_rss(const struct tern_net *net, u32 context);
int tern_ntuple_get(struct tern_net *net, struct ethtool_rxnfc *info, u32 *locations);
int tern_ntuple_set(struct tern_net *net, struct ethtool_rxnfc *info);

#endif
#endif /* TERN_STEER_H */
