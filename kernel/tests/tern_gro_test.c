// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of what tern.ko makes of packets that the device has coalesced. */

#include <kunit/skbuff.h>
#include <kunit/test.h>
#include <linux/bitfield.h>
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <linux/tcp.h>
#include <net/ip.h>

#include "tern_coalesced.h"
#include "tern_net.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

#define TERN_TEST_MSS		1000
#define TERN_TEST_PAYLOAD	2500
#define TERN_TEST_FRAME_LEN	(ETH_DATA_LEN + VLAN_ETH_HLEN)

/* A packet of three segments, the last one shorter; @options bytes of TCP. */
struct tern_test_packet {
	bool v6;
	bool tagged;
	unsigned int options;
	struct sk_buff *skb;
	struct iphdr *iph;	/* or struct ipv6hdr */
	struct tcphdr *th;
	unsigned int headers;	/* with the Ethernet header */
};

static void tern_test_put_ip(struct tern_test_packet *p, unsigned int len)
{
	struct ipv6hdr *ip6h;

	if (p->v6) {
		ip6h = skb_put_zero(p->skb, sizeof(*ip6h));
		ip6h->version = 6;
		ip6h->nexthdr = IPPROTO_TCP;
		ip6h->payload_len = htons(len);
		p->iph = (void *)ip6h;
		return;
	}
	p->iph = skb_put_zero(p->skb, sizeof(*p->iph));
	p->iph->version = 4;
	p->iph->ihl = 5;
	p->iph->protocol = IPPROTO_TCP;
	p->iph->frag_off = htons(IP_DF);
	p->iph->tot_len = htons(sizeof(*p->iph) + len);
}

/* Makes the packet as eth_type_trans() leaves it: without Ethernet header. */
static void tern_test_make(struct kunit *test, struct tern_test_packet *p)
{
	__be16 type = p->v6 ? htons(ETH_P_IPV6) : htons(ETH_P_IP);
	unsigned int len = sizeof(*p->th) + p->options + TERN_TEST_PAYLOAD;
	struct vlan_hdr *tag;

	p->skb = kunit_zalloc_skb(test, 4096, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, p->skb);
	skb_trim(p->skb, 0);
	skb_reserve(p->skb, 64);
	p->skb->protocol = type;
	if (p->tagged) {
		tag = skb_put_zero(p->skb, sizeof(*tag));
		tag->h_vlan_encapsulated_proto = type;
		p->skb->protocol = htons(ETH_P_8021Q);
	}
	tern_test_put_ip(p, len);
	p->th = skb_put_zero(p->skb, sizeof(*p->th) + p->options);
	p->th->doff = (sizeof(*p->th) + p->options) / 4;
	p->headers = ETH_HLEN + p->skb->len;
	skb_put_zero(p->skb, TERN_TEST_PAYLOAD);
}

static u32 tern_test_info(u32 segs, u32 mss)
{
	return FIELD_PREP(TERN_ETH_COALESCED_SEGS_MASK, segs) |
	       FIELD_PREP(TERN_ETH_COALESCED_MSS_MASK, mss);
}

static bool tern_test_complete(struct tern_test_packet *p, u32 info, u64 *count)
{
	return tern_gro_complete(p->skb, info, TERN_TEST_FRAME_LEN, count);
}

static const struct tern_test_packet tern_test_kinds[] = {
	{ },
	{ .options = 12 },
	{ .options = 40 },
	{ .tagged = true },
	{ .v6 = true },
	{ .v6 = true, .options = 12, .tagged = true },
};

static void tern_test_good(struct kunit *test)
{
	const u32 info = tern_test_info(3, TERN_TEST_MSS);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(tern_test_kinds); i++) {
		struct tern_test_packet p = tern_test_kinds[i];
		u64 count[TERN_RX_STAT_NUM] = { [TERN_RX_STAT_PACKETS] = 1 };
		const struct skb_shared_info *sinfo;
		u64 bytes, wire;

		tern_test_make(test, &p);
		bytes = p.headers + TERN_TEST_PAYLOAD;
		wire = 3 * p.headers + TERN_TEST_PAYLOAD;
		count[TERN_RX_STAT_BYTES] = bytes;
		KUNIT_EXPECT_TRUE(test, tern_test_complete(&p, info, count));
		sinfo = skb_shinfo(p.skb);
		KUNIT_EXPECT_EQ(test, sinfo->gso_size, TERN_TEST_MSS);
		KUNIT_EXPECT_EQ(test, sinfo->gso_segs, 3);
		KUNIT_EXPECT_EQ(test, sinfo->gso_type, p.v6 ? SKB_GSO_TCPV6 : SKB_GSO_TCPV4);
		KUNIT_EXPECT_EQ(test, (int)p.skb->ip_summed, CHECKSUM_PARTIAL);
		KUNIT_EXPECT_PTR_EQ(test, p.skb->head + p.skb->csum_start, (u8 *)p.th);
		KUNIT_EXPECT_EQ(test, p.skb->csum_offset, offsetof(struct tcphdr, check));
		KUNIT_EXPECT_EQ(test, count[TERN_RX_STAT_PACKETS], 3);
		KUNIT_EXPECT_EQ(test, count[TERN_RX_STAT_BYTES], wire);
		KUNIT_EXPECT_EQ(test, count[TERN_RX_STAT_GRO_PACKETS], 1);
		KUNIT_EXPECT_EQ(test, count[TERN_RX_STAT_GRO_BYTES], bytes);
		KUNIT_EXPECT_EQ(test, count[TERN_RX_STAT_GRO_WIRE_PACKETS], 3);
		KUNIT_EXPECT_EQ(test, count[TERN_RX_STAT_GRO_WIRE_BYTES], wire);
	}
}

/* Identifications that do not count exist only in IPv4. */
static void tern_test_fixed_id(struct kunit *test)
{
	const u32 info = tern_test_info(3, TERN_TEST_MSS) | TERN_ETH_COALESCED_FIXED_ID;
	struct tern_test_packet p = { }, p6 = { .v6 = true };
	u64 count[TERN_RX_STAT_NUM] = {};

	tern_test_make(test, &p);
	KUNIT_EXPECT_TRUE(test, tern_test_complete(&p, info, count));
	KUNIT_EXPECT_EQ(test, skb_shinfo(p.skb)->gso_type,
			SKB_GSO_TCPV4 | SKB_GSO_TCP_FIXEDID);
	tern_test_make(test, &p6);
	KUNIT_EXPECT_TRUE(test, tern_test_complete(&p6, info, count));
	KUNIT_EXPECT_EQ(test, skb_shinfo(p6.skb)->gso_type, SKB_GSO_TCPV6);
}

static void tern_test_refused_info(struct kunit *test)
{
	static const u32 bad[][2] = {
		{ 0, TERN_TEST_MSS }, { 1, TERN_TEST_MSS }, { 2, TERN_TEST_MSS },
		{ 4, TERN_TEST_MSS }, { 3, 0 }, { 3, 1 }, { 1, TERN_TEST_PAYLOAD },
		/* A frame that long is not received. */
		{ 2, 1470 },
	};
	u64 count[TERN_RX_STAT_NUM] = {};
	struct tern_test_packet p = { };
	unsigned int i;

	tern_test_make(test, &p);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		u32 info = tern_test_info(bad[i][0], bad[i][1]);

		KUNIT_EXPECT_FALSE_MSG(test, tern_test_complete(&p, info, count),
				       "%u segments of %u", bad[i][0], bad[i][1]);
	}
	for (i = 0; i < TERN_RX_STAT_NUM; i++)
		KUNIT_EXPECT_EQ(test, count[i], 0);
	KUNIT_EXPECT_EQ(test, skb_shinfo(p.skb)->gso_size, 0);
	KUNIT_EXPECT_TRUE(test, tern_test_complete(&p, tern_test_info(3, TERN_TEST_MSS), count));
}

/* Each change makes the packet another one than the device says. */
static void tern_test_refused_packet(struct kunit *test)
{
	const u32 info = tern_test_info(3, TERN_TEST_MSS);
	u64 count[TERN_RX_STAT_NUM] = {};
	unsigned int i;

	for (i = 0; i < 12; i++) {
		struct tern_test_packet p = { .v6 = i >= 8 };
		struct ipv6hdr *ip6h;

		tern_test_make(test, &p);
		ip6h = (void *)p.iph;
		switch (i) {
		case 0:
			p.iph->version = 6;
			break;
		case 1:
			p.iph->ihl = 6;
			break;
		case 2:
			p.iph->ihl = 0;
			break;
		case 3:
			p.iph->protocol = IPPROTO_UDP;
			break;
		case 4:
			p.iph->frag_off = htons(IP_MF);
			break;
		case 5:
			be16_add_cpu(&p.iph->tot_len, 1);
			break;
		case 6:
			p.th->doff = 4;
			break;
		case 7:
			skb_trim(p.skb, sizeof(*p.iph) + 19);
			break;
		case 8:
			ip6h->version = 4;
			break;
		case 9:
			ip6h->nexthdr = IPPROTO_HOPOPTS;
			break;
		case 10:
			be16_add_cpu(&ip6h->payload_len, -1);
			break;
		case 11:
			p.skb->protocol = htons(ETH_P_ARP);
			break;
		}
		KUNIT_EXPECT_FALSE_MSG(test, tern_test_complete(&p, info, count),
				       "change %u", i);
	}
}

static struct kunit_case tern_gro_cases[] = {
	KUNIT_CASE(tern_test_good),
	KUNIT_CASE(tern_test_fixed_id),
	KUNIT_CASE(tern_test_refused_info),
	KUNIT_CASE(tern_test_refused_packet),
	{}
};

static struct kunit_suite tern_gro_suite = {
	.name = "tern_gro",
	.test_cases = tern_gro_cases,
};

kunit_test_suite(tern_gro_suite);

MODULE_DESCRIPTION("KUnit tests of tern's coalesced packets");
MODULE_LICENSE("Dual BSD/GPL");
