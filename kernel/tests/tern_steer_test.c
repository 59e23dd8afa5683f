// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Tests of what tern.ko tells the device about frames: rules, hash fields and
 * offloads.
 */

#include <kunit/skbuff.h>
#include <kunit/test.h>
#include <linux/ethtool.h>
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "tern_net.h"
#include "tern_flow.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

#define TERN_TEST_HEADERS	(ETH_HLEN + sizeof(struct iphdr))

static void tern_test_fields(struct kunit *test)
{
	u8 fields;

	KUNIT_EXPECT_EQ(test, tern_rss_from_rxh(RXH_IP_SRC | RXH_L4_B_2_3, &fields), 0);
	KUNIT_EXPECT_EQ(test, fields, TERN_RSS_FIELD_SRC_IP | TERN_RSS_FIELD_DST_PORT);
	KUNIT_EXPECT_EQ(test, tern_rss_to_rxh(fields), RXH_IP_SRC | RXH_L4_B_2_3);
	KUNIT_EXPECT_EQ(test, tern_rss_from_rxh(RXH_IP_DST | RXH_VLAN, &fields), RXH_VLAN);
	for (fields = 0; fields < 16; fields++) {
		u8 again;

		KUNIT_EXPECT_EQ(test, tern_rss_from_rxh(tern_rss_to_rxh(fields), &again), 0);
		KUNIT_EXPECT_EQ(test, again, fields);
	}
}

static void tern_test_rule_tcp4(struct kunit *test)
{
	struct tern_cmd_create_flow cmd = {};
	struct ethtool_rx_flow_spec spec = {
		.flow_type = TCP_V4_FLOW | FLOW_EXT,
		.h_u.tcp_ip4_spec = {
			.ip4src = htonl(0x0a4d0001),
			.ip4dst = htonl(0x0a4d0002),
			.psrc = htons(1234),
			.pdst = htons(80),
		},
		.m_u.tcp_ip4_spec = {
			.ip4src = htonl(0xffffff00),
			.pdst = htons(0xffff),
		},
		.h_ext.vlan_tci = htons(0x6005),
		.m_ext.vlan_tci = htons(0x0fff),
	};
	static const u8 src[] = { 10, 77, 0, 0 }, src_mask[] = { 255, 255, 255, 0 };
	static const u8 zeros[16];

	KUNIT_ASSERT_EQ(test, tern_ntuple_convert(&spec, &cmd), 0);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.layers),
			TERN_LAYER_ETH | TERN_LAYER_VLAN | TERN_LAYER_IPV4 |
			TERN_LAYER_TCP);
	/* Bits that are not compared are 0. */
	KUNIT_EXPECT_MEMEQ(test, cmd.value.src_ip, src, 4);
	KUNIT_EXPECT_MEMEQ(test, cmd.mask.src_ip, src_mask, 4);
	KUNIT_EXPECT_MEMEQ(test, cmd.value.dst_ip, zeros, 16);
	KUNIT_EXPECT_MEMEQ(test, cmd.mask.dst_ip, zeros, 16);
	KUNIT_EXPECT_EQ(test, ntohs(cmd.value.dst_port), 80);
	KUNIT_EXPECT_EQ(test, ntohs(cmd.mask.dst_port), 0xffff);
	KUNIT_EXPECT_EQ(test, ntohs(cmd.value.src_port), 0);
	KUNIT_EXPECT_EQ(test, ntohs(cmd.value.vlan), 5);
}

static void tern_test_rule_ether(struct kunit *test)
{
	static const u8 mac[ETH_ALEN] = { 2, 0, 0, 0, 0, 1 };
	struct ethtool_rx_flow_spec spec = { .flow_type = ETHER_FLOW };
	struct tern_cmd_create_flow cmd = {};

	ether_addr_copy(spec.h_u.ether_spec.h_dest, mac);
	eth_broadcast_addr(spec.m_u.ether_spec.h_dest);
	spec.h_u.ether_spec.h_proto = htons(ETH_P_1588);
	spec.m_u.ether_spec.h_proto = htons(0xffff);
	KUNIT_ASSERT_EQ(test, tern_ntuple_convert(&spec, &cmd), 0);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd.layers), TERN_LAYER_ETH);
	KUNIT_EXPECT_MEMEQ(test, cmd.value.dmac, mac, ETH_ALEN);
	KUNIT_EXPECT_EQ(test, ntohs(cmd.value.ether_type), ETH_P_1588);
}

/* What the device cannot match is refused, rather than matched too widely. */
static void tern_test_rule_refused(struct kunit *test)
{
	struct ethtool_rx_flow_spec spec = { .flow_type = SCTP_V4_FLOW };
	struct tern_cmd_create_flow cmd = {};

	KUNIT_EXPECT_EQ(test, tern_ntuple_convert(&spec, &cmd), -EOPNOTSUPP);
	spec.flow_type = IPV4_USER_FLOW;
	KUNIT_EXPECT_EQ(test, tern_ntuple_convert(&spec, &cmd), -EOPNOTSUPP);
	spec.h_u.usr_ip4_spec.ip_ver = ETH_RX_NFC_IP4;
	KUNIT_EXPECT_EQ(test, tern_ntuple_convert(&spec, &cmd), 0);
	spec.m_u.usr_ip4_spec.l4_4_bytes = htonl(1);
	KUNIT_EXPECT_EQ(test, tern_ntuple_convert(&spec, &cmd), -EOPNOTSUPP);
	spec.flow_type = UDP_V6_FLOW | FLOW_EXT;
	spec.m_u = (union ethtool_flow_union){};
	KUNIT_EXPECT_EQ(test, tern_ntuple_convert(&spec, &cmd), 0);
	spec.m_ext.data[1] = htonl(1);
	KUNIT_EXPECT_EQ(test, tern_ntuple_convert(&spec, &cmd), -EOPNOTSUPP);
	spec.m_ext.data[1] = 0;
	spec.m_ext.vlan_etype = htons(0xffff);
	spec.h_ext.vlan_etype = htons(ETH_P_8021AD);
	KUNIT_EXPECT_EQ(test, tern_ntuple_convert(&spec, &cmd), -EOPNOTSUPP);
}

/* A frame of IPv4 with @len bytes. */
static struct sk_buff *tern_test_skb(struct kunit *test, unsigned int len)
{
	struct sk_buff *skb = kunit_zalloc_skb(test, len, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, skb);
	skb_put(skb, len);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb_set_transport_header(skb, TERN_TEST_HEADERS);
	return skb;
}

static void tern_test_offload_none(struct kunit *test)
{
	struct sk_buff *skb = tern_test_skb(test, 1000);
	u64 count[TERN_TX_STAT_NUM] = {};
	struct tern_eth_offload offload;

	KUNIT_EXPECT_FALSE(test, tern_tx_offload(skb, &offload));
	tern_tx_account(skb, count);
	KUNIT_EXPECT_EQ(test, count[TERN_TX_STAT_PACKETS], 1);
	KUNIT_EXPECT_EQ(test, count[TERN_TX_STAT_BYTES], 1000);
	KUNIT_EXPECT_EQ(test, count[TERN_TX_STAT_CSUM_NONE], 1);
	KUNIT_EXPECT_EQ(test, count[TERN_TX_STAT_GSO_PACKETS], 0);
}

static void tern_test_offload_csum(struct kunit *test)
{
	struct sk_buff *skb = tern_test_skb(test, 1000);
	struct tern_eth_offload offload;

	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_headroom(skb) + TERN_TEST_HEADERS;
	skb->csum_offset = offsetof(struct udphdr, check);
	__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), 0x2007);
	KUNIT_ASSERT_TRUE(test, tern_tx_offload(skb, &offload));
	KUNIT_EXPECT_EQ(test, le16_to_cpu(offload.flags), TERN_ETH_F_OFFLOAD);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(offload.ops), TERN_ETH_OP_CSUM | TERN_ETH_OP_VLAN);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(offload.csum_start), TERN_TEST_HEADERS);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(offload.csum_offset), 6);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(offload.vlan), 0x2007);
}

static void tern_test_offload_tso(struct kunit *test)
{
	/* With 12 bytes of options, 2 segments and a bit. */
	unsigned int headers = TERN_TEST_HEADERS + 32;
	struct sk_buff *skb = tern_test_skb(test, headers + 2 * 500 + 10);
	u64 count[TERN_TX_STAT_NUM] = {};
	struct tern_eth_offload offload;

	tcp_hdr(skb)->doff = 8;
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb_shinfo(skb)->gso_size = 500;
	skb_shinfo(skb)->gso_segs = 3;
	skb_shinfo(skb)->gso_type = SKB_GSO_TCPV4;
	KUNIT_ASSERT_TRUE(test, tern_tx_offload(skb, &offload));
	KUNIT_EXPECT_EQ(test, le16_to_cpu(offload.ops), TERN_ETH_OP_TSO);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(offload.csum_start), TERN_TEST_HEADERS);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(offload.header_len), headers);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(offload.mss), 500);

	tern_tx_account(skb, count);
	KUNIT_EXPECT_EQ(test, count[TERN_TX_STAT_PACKETS], 3);
	KUNIT_EXPECT_EQ(test, count[TERN_TX_STAT_BYTES], 3 * headers + 1010);
	KUNIT_EXPECT_EQ(test, count[TERN_TX_STAT_GSO_PACKETS], 1);
	KUNIT_EXPECT_EQ(test, count[TERN_TX_STAT_GSO_BYTES], headers + 1010);
	KUNIT_EXPECT_EQ(test, count[TERN_TX_STAT_GSO_WIRE_PACKETS], 3);
	KUNIT_EXPECT_EQ(test, count[TERN_TX_STAT_GSO_WIRE_BYTES], 3 * headers + 1010);
	KUNIT_EXPECT_EQ(test, count[TERN_TX_STAT_NEEDS_CSUM], 3);
}

static void tern_test_offload_uso(struct kunit *test)
{
	struct sk_buff *skb = tern_test_skb(test, TERN_TEST_HEADERS + 8 + 3000);
	struct tern_eth_offload offload;

	skb->ip_summed = CHECKSUM_PARTIAL;
	skb_shinfo(skb)->gso_size = 1000;
	skb_shinfo(skb)->gso_segs = 3;
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
	KUNIT_ASSERT_TRUE(test, tern_tx_offload(skb, &offload));
	KUNIT_EXPECT_EQ(test, le16_to_cpu(offload.ops), TERN_ETH_OP_USO);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(offload.header_len), TERN_TEST_HEADERS + 8);
}

/* Whether the device segments a frame with an IP header of @ip_len bytes. */
static bool tern_test_segments(struct kunit *test, u8 version, u32 ip_len, u32 gso_type)
{
	netdev_features_t features = NETIF_F_SG | NETIF_F_GSO_MASK;
	struct sk_buff *skb = tern_test_skb(test, 1000);

	ip_hdr(skb)->version = version;
	skb_set_transport_header(skb, ETH_HLEN + ip_len);
	if (gso_type != SKB_GSO_UDP_L4)
		tcp_hdr(skb)->doff = 5;
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb_shinfo(skb)->gso_size = 500;
	skb_shinfo(skb)->gso_type = gso_type;
	features = tern_features_check(skb, NULL, features);
	KUNIT_EXPECT_TRUE(test, features & NETIF_F_SG);
	return features & NETIF_F_GSO_MASK;
}

/* The sum of the pseudo header of a frame with a source route has another destination. */
static void tern_test_source_route(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, tern_test_segments(test, 4, 20, SKB_GSO_TCPV4));
	KUNIT_EXPECT_TRUE(test, tern_test_segments(test, 4, 20, SKB_GSO_UDP_L4));
	KUNIT_EXPECT_TRUE(test, tern_test_segments(test, 6, 40, SKB_GSO_TCPV6));
	KUNIT_EXPECT_TRUE(test, tern_test_segments(test, 6, 40, SKB_GSO_UDP_L4));
	KUNIT_EXPECT_FALSE(test, tern_test_segments(test, 4, 40, SKB_GSO_TCPV4));
	KUNIT_EXPECT_FALSE(test, tern_test_segments(test, 4, 28, SKB_GSO_UDP_L4));
	KUNIT_EXPECT_FALSE(test, tern_test_segments(test, 6, 64, SKB_GSO_TCPV6));
	KUNIT_EXPECT_FALSE(test, tern_test_segments(test, 6, 64, SKB_GSO_UDP_L4));
}

static struct kunit_case tern_steer_cases[] = {
	KUNIT_CASE(tern_test_fields),
	KUNIT_CASE(tern_test_rule_tcp4),
	KUNIT_CASE(tern_test_rule_ether),
	KUNIT_CASE(tern_test_rule_refused),
	KUNIT_CASE(tern_test_offload_none),
	KUNIT_CASE(tern_test_offload_csum),
	KUNIT_CASE(tern_test_offload_tso),
	KUNIT_CASE(tern_test_offload_uso),
	KUNIT_CASE(tern_test_source_route),
	{}
};

static struct kunit_suite tern_steer_suite = {
	.name = "tern_steer",
	.test_cases = tern_steer_cases,
};

kunit_test_suite(tern_steer_suite);

MODULE_DESCRIPTION("KUnit tests of tern's steering and offloads");
MODULE_LICENSE("Dual BSD/GPL");
