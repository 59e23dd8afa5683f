// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Packets that the device has coalesced from TCP segments. */

#include <linux/bitfield.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <net/ip.h>

#include "tern_coalesced.h"
#include "tern_net.h"

/* RXFCS and XDP need frames as received. */
netdev_features_t tern_fix_features(struct net_device *netdev,
				    netdev_features_t features)
{
	struct tern_net *net = netdev_priv(netdev);

	if (net->config.xdp)
		features &= ~NETIF_F_GRO_HW;
	if (features & NETIF_F_RXFCS)
		features &= ~NETIF_F_GRO_HW;
	return features;
}

/*
 * Returns the GSO type of the packet at @offset, and sets @offset to that of TCP; 0
 * unless it is TCP without IP options and has the expected length.
 */
static int tern_gro_network(const struct sk_buff *skb, __be16 protocol, int *offset)
{
	unsigned int len = skb->len - *offset;
	const struct ipv6hdr *ip6h;
	const struct iphdr *iph;

	switch (protocol) {
	case htons(ETH_P_IP):
		iph = (void *)skb->data + *offset;
		*offset += sizeof(*iph);
		if (skb_headlen(skb) < *offset || iph->version != 4 || iph->ihl != 5 ||
		    iph->protocol != IPPROTO_TCP || ip_is_fragment(iph) ||
		    ntohs(iph->tot_len) != len)
			return 0;
		return SKB_GSO_TCPV4;
	case htons(ETH_P_IPV6):
		ip6h = (void *)skb->data + *offset;
		*offset += sizeof(*ip6h);
		if (skb_headlen(skb) < *offset || ip6h->version != 6 ||
		    ip6h->nexthdr != IPPROTO_TCP ||
		    ntohs(ip6h->payload_len) + sizeof(*ip6h) != len)
			return 0;
		return SKB_GSO_TCPV6;
	default:
		return 0;
	}
}

/* Returns the offset of the IP header after a tag, and sets @protocol. */
static int tern_gro_tag(const struct sk_buff *skb, __be16 *protocol)
{
	const struct vlan_hdr *tag = (void *)skb->data;

	*protocol = skb->protocol;
	if (!eth_type_vlan(*protocol) || skb_headlen(skb) < sizeof(*tag))
		return 0;
	*protocol = tag->h_vlan_encapsulated_proto;
	return sizeof(*tag);
}

/**
 * tern_gro_complete() - make a packet of several segments one that Linux can segment
 * @skb: the packet, after eth_type_trans()
 * @coalesced: TERN_ETH_COALESCED_*, not 0
 * @frame_len: maximum length of a frame on the wire
 * @count: statistics, TERN_RX_STAT_*, which count the packet as one frame so far
 *
 * The device has set the lengths and has stored the sum of the pseudo header. The
 * number and the size of the segments are not used if they do not fit the packet.
 *
 * Return: whether they fit.
 */
bool tern_gro_complete(struct sk_buff *skb, u32 coalesced, u32 frame_len, u64 *count)
{
	u32 segs = FIELD_GET(TERN_ETH_COALESCED_SEGS_MASK, coalesced);
	u32 mss = FIELD_GET(TERN_ETH_COALESCED_MSS_MASK, coalesced);
	struct skb_shared_info *sinfo = skb_shinfo(skb);
	u32 len = skb->len + ETH_HLEN;
	int offset, type, headers;
	const struct tcphdr *th;
	__be16 protocol;

	offset = tern_gro_tag(skb, &protocol);
	type = tern_gro_network(skb, protocol, &offset);
	if (!type || skb_headlen(skb) < offset + sizeof(*th))
		return false;
	th = (void *)skb->data + offset;
	headers = offset + __tcp_hdrlen(th);
	if (th->doff < sizeof(*th) / 4 || skb_headlen(skb) < headers || segs < 2 || !mss ||
	    DIV_ROUND_UP(skb->len - headers, mss) != segs ||
	    ETH_HLEN + headers + mss > frame_len)
		return false;

	if (type == SKB_GSO_TCPV4 && coalesced & TERN_ETH_COALESCED_FIXED_ID)
		type |= SKB_GSO_TCP_FIXEDID;
	sinfo->gso_size = mss;
	sinfo->gso_segs = segs;
	sinfo->gso_type = type;
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_headroom(skb) + offset;
	skb->csum_offset = offsetof(struct tcphdr, check);

	count[TERN_RX_STAT_GRO_PACKETS]++;
	count[TERN_RX_STAT_GRO_BYTES] += len;
	count[TERN_RX_STAT_GRO_WIRE_PACKETS] += segs;
	count[TERN_RX_STAT_PACKETS] += segs - 1;
	/* Each segment had the headers. */
	len = (segs - 1) * (ETH_HLEN + headers);
	count[TERN_RX_STAT_GRO_WIRE_BYTES] += skb->len + ETH_HLEN + len;
	count[TERN_RX_STAT_BYTES] += len;
	return true;
}
