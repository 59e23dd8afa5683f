// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Tests of raw packet QPs, RSS QPs, work queues and flows. */

#include <kunit/static_stub.h>
#include <kunit/test.h>
#include <linux/etherdevice.h>
#include <linux/module.h>

#include "tern_ib.h"
#include "tern_ib_limits.h"
#include "tern_ib_qp_util.h"
#include "tern_ib_raw.h"

MODULE_IMPORT_NS("EXPORTED_FOR_KUNIT_TESTING");

#define TERN_TEST_COUNTER	77
#define TERN_TEST_QPN		0x123
#define TERN_TEST_RSSN		9
#define TERN_TEST_FLOW		44

/* A device in memory, and the flow that a test converts or creates. */
struct tern_test_raw {
	struct tern_ib_dev ib;
	struct tern_core core;
	struct tern_rsp_caps caps;
	struct tern_counters counters;
	struct {
		struct ib_flow_attr attr;
		union ib_flow_spec specs[8];
	} flow;
	struct tern_cmd_create_flow cmd;
	u32 destroyed;
	int rss_err;		/* of commands on RSS groups */
};

/* Replaces tern_cmd_exec(). */
static int tern_test_exec(struct tern_core *core, u16 opcode, const void *in,
			  size_t in_len, void *out, size_t out_len)
{
	struct tern_test_raw *dev = kunit_get_current_test()->priv;
	const struct tern_cmd_object *object = in;
	struct tern_rsp_flow_counter *counter = out;
	struct tern_rsp_object *created = out;

	switch (opcode) {
	case TERN_CMD_CREATE_FLOW:
		memcpy(&dev->cmd, in, sizeof(dev->cmd));
		created->id = cpu_to_le32(TERN_TEST_FLOW);
		return in_len == sizeof(dev->cmd) ? 0 : -EINVAL;
	case TERN_CMD_CREATE_FLOW_COUNTER:
		created->id = cpu_to_le32(TERN_TEST_COUNTER);
		return in_len ? -EINVAL : 0;
	case TERN_CMD_QUERY_FLOW_COUNTER:
		if (le32_to_cpu(object->id) != TERN_TEST_COUNTER)
			return -EINVAL;
		counter->packets = cpu_to_le64(3);
		counter->bytes = cpu_to_le64(BIT_ULL(40));
		return 0;
	case TERN_CMD_CREATE_RSS:
	case TERN_CMD_DESTROY_RSS:
		return dev->rss_err;
	case TERN_CMD_DESTROY_FLOW:
		dev->destroyed = le32_to_cpu(object->id);
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static int tern_raw_test_init(struct kunit *test)
{
	struct tern_test_raw *dev = kunit_kzalloc(test, sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return -ENOMEM;

	dev->ib.core = &dev->core;
	dev->core.caps = &dev->caps;
	dev->caps.flags = cpu_to_le64(U64_MAX);
	dev->caps.max_qp = cpu_to_le32(100);
	dev->caps.max_qp_wr = cpu_to_le32(1024);
	dev->caps.max_recv_sge = cpu_to_le16(8);
	dev->caps.max_rss = cpu_to_le32(TERN_MAX_RSS + 20);
	dev->counters.id = TERN_TEST_COUNTER;
	test->priv = dev;
	kunit_activate_static_stub(test, tern_cmd_exec, tern_test_exec);
	return 0;
}

/* Attributes appear only if all that they need is there. */
static void tern_test_raw_caps(struct kunit *test)
{
	struct tern_test_raw *dev = test->priv;
	struct ib_device_attr *attr = kunit_kzalloc(test, sizeof(*attr), GFP_KERNEL);
	const u64 caps[] = { TERN_CAP_RAW_QP, TERN_CAP_ETH_OFFLOAD, TERN_CAP_STEERING };
	unsigned int i, j;

	KUNIT_ASSERT_NOT_NULL(test, attr);
	for (i = 0; i < 8; i++) {
		bool raw = i & 1, offload = raw && i & 2, steering = raw && i & 4;
		u64 flags = 0;

		for (j = 0; j < ARRAY_SIZE(caps); j++)
			if (i & BIT(j))
				flags |= caps[j];
		dev->caps.flags = cpu_to_le64(flags);
		memset(attr, 0, sizeof(*attr));
		tern_fill_raw(&dev->ib, attr);
		tern_fill_rss(&dev->ib, attr);

		KUNIT_EXPECT_EQ(test, attr->max_raw_ethy_qp, raw ? 100 : 0);
		KUNIT_EXPECT_EQ(test, attr->raw_packet_caps, offload ?
				IB_RAW_PACKET_CAP_CVLAN_STRIPPING |
				IB_RAW_PACKET_CAP_SCATTER_FCS |
				IB_RAW_PACKET_CAP_IP_CSUM : 0);
		KUNIT_EXPECT_EQ(test, attr->device_cap_flags,
				(offload ? IB_DEVICE_RAW_IP_CSUM |
					   IB_DEVICE_RAW_SCATTER_FCS : 0) |
				(steering ? IB_DEVICE_MANAGED_FLOW_STEERING : 0));
		KUNIT_EXPECT_EQ(test, attr->max_wq_type_rq, steering ? 100 : 0);
		KUNIT_EXPECT_EQ(test, attr->rss_caps.supported_qpts,
				steering ? BIT(IB_QPT_RAW_PACKET) : 0);
		KUNIT_EXPECT_EQ(test, attr->rss_caps.max_rwq_indirection_tables,
				steering ? 20 : 0);
		KUNIT_EXPECT_EQ(test, attr->rss_caps.max_rwq_indirection_table_size,
				steering ? 128 : 0);
	}
}

static void tern_test_raw_flags(struct kunit *test)
{
	const u32 all = IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK |
			IB_QP_CREATE_CVLAN_STRIPPING | IB_QP_CREATE_SCATTER_FCS;
	struct tern_test_raw *dev = test->priv;
	enum ib_qp_type type;

	for (type = 0; type < IB_QPT_MAX; type++)
		KUNIT_EXPECT_EQ_MSG(test, tern_qp_create_flags(&dev->ib, type),
				    type == IB_QPT_RAW_PACKET ? all :
				    type == IB_QPT_UD ?
				    IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK : 0,
				    "type %d", type);
	dev->caps.flags = cpu_to_le64(TERN_CAP_RAW_QP | TERN_CAP_UD);
	KUNIT_EXPECT_EQ(test, tern_qp_create_flags(&dev->ib, IB_QPT_UD), 0);
	KUNIT_EXPECT_EQ(test, tern_qp_create_flags(&dev->ib, IB_QPT_RAW_PACKET),
			IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK);

	KUNIT_EXPECT_EQ(test, tern_qp_create_flags_to_dev(0), 0);
	KUNIT_EXPECT_EQ(test,
			tern_qp_create_flags_to_dev(IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK),
			TERN_QP_F_NO_MCAST_LOOPBACK);
	KUNIT_EXPECT_EQ(test,
			tern_qp_create_flags_to_dev(IB_QP_CREATE_CVLAN_STRIPPING),
			TERN_QP_F_STRIP_VLAN);
	KUNIT_EXPECT_EQ(test,
			tern_qp_create_flags_to_dev(IB_QP_CREATE_SCATTER_FCS),
			TERN_QP_F_KEEP_FCS);
}

static void tern_test_rss_fields(struct kunit *test)
{
	const u8 src_ip = TERN_RSS_FIELD_SRC_IP, dst_ip = TERN_RSS_FIELD_DST_IP;
	const u8 src = TERN_RSS_FIELD_SRC_PORT, dst = TERN_RSS_FIELD_DST_PORT;
	const u8 spi = TERN_RSS_FIELD_SPI;
	/* In the order of TERN_RSS_*. */
	const struct {
		u64 mask;
		u8 fields[8];
	} cases[] = {
		{ 0, {} },
		{ TERN_RX_HASH_SRC_IPV4, { src_ip, 0, src_ip, 0, src_ip, 0 } },
		{ TERN_RX_HASH_DST_IPV4, { dst_ip, 0, dst_ip, 0, dst_ip, 0 } },
		{ TERN_RX_HASH_SRC_IPV6, { 0, src_ip, 0, src_ip, 0, src_ip } },
		{ TERN_RX_HASH_DST_IPV6, { 0, dst_ip, 0, dst_ip, 0, dst_ip } },
		{ TERN_RX_HASH_SRC_PORT_TCP, { 0, 0, src, src, 0, 0 } },
		{ TERN_RX_HASH_DST_PORT_TCP, { 0, 0, dst, dst, 0, 0 } },
		{ TERN_RX_HASH_SRC_PORT_UDP, { 0, 0, 0, 0, src, src } },
		{ TERN_RX_HASH_DST_PORT_UDP, { 0, 0, 0, 0, dst, dst } },
		{ TERN_RX_HASH_SRC_IPV4 | TERN_RX_HASH_DST_IPV6 |
		  TERN_RX_HASH_SRC_PORT_UDP,
		  { src_ip, dst_ip, src_ip, dst_ip, src_ip | src, dst_ip | src } },
		{ TERN_RX_HASH_FIELDS,
		  { 3, 3, 15, 15, 15, 15 } },
		{ TERN_RX_HASH_FIELDS | TERN_RX_HASH_INNER,
		  { 3, 3, 15, 15, 15, 15 } },
		{ TERN_RX_HASH_IPSEC_SPI, { 0, 0, 0, 0, 0, 0, spi, spi } },
		{ TERN_RX_HASH_IPSEC_SPI | TERN_RX_HASH_SRC_IPV4 |
		  TERN_RX_HASH_DST_IPV6,
		  { src_ip, dst_ip, src_ip, dst_ip, src_ip, dst_ip,
		    src_ip | spi, dst_ip | spi } },
	};
	u8 fields[8];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		memset(fields, 0, sizeof(fields));
		tern_rss_fields(cases[i].mask, fields);
		KUNIT_EXPECT_MEMEQ_MSG(test, fields, cases[i].fields,
				       sizeof(fields), "mask %#llx", cases[i].mask);
	}
}

static void tern_test_rss_check(struct kunit *test)
{
	const struct tern_ureq_create_rss_qp good = {
		.rx_hash_fields_mask = TERN_RX_HASH_FIELDS,
		.rx_hash_function = TERN_RX_HASH_FUNC_TOEPLITZ,
		.rx_hash_key_len = 40,
	};
	struct ib_rwq_ind_table table = { .log_ind_tbl_size = 3 };
	struct tern_test_raw *dev = test->priv;
	struct tern_ureq_create_rss_qp req;

	KUNIT_EXPECT_EQ(test, tern_check_rss(&dev->ib, &good, &table), 0);
#define TERN_EXPECT(want, field, value) do {				\
	req = good;							\
	req.field = value;						\
	KUNIT_EXPECT_EQ(test, tern_check_rss(&dev->ib, &req, &table), want); \
} while (0)
	TERN_EXPECT(0, rx_hash_fields_mask, BIT(8));
	TERN_EXPECT(0, rx_hash_fields_mask, BIT(31) | BIT(0));
	TERN_EXPECT(-EINVAL, rx_hash_fields_mask, BIT(31));
	TERN_EXPECT(-EOPNOTSUPP, rx_hash_fields_mask, BIT(9));
	TERN_EXPECT(-EOPNOTSUPP, rx_hash_fields_mask, BIT_ULL(63));
	TERN_EXPECT(-EOPNOTSUPP, rx_hash_function, 0);
	TERN_EXPECT(-EOPNOTSUPP, rx_hash_function, 2);
	TERN_EXPECT(-EINVAL, rx_hash_key_len, 39);
	TERN_EXPECT(-EINVAL, rx_hash_key_len, 41);
	TERN_EXPECT(-EINVAL, reserved_50[5], 1);
	/* Without a hash, only one queue receives. */
	TERN_EXPECT(-EINVAL, rx_hash_fields_mask, 0);
	table.log_ind_tbl_size = 0;
	TERN_EXPECT(0, rx_hash_fields_mask, 0);
	dev->caps.flags &= ~cpu_to_le64(TERN_CAP_RSS_TUNNEL);
	TERN_EXPECT(-EOPNOTSUPP, rx_hash_fields_mask, BIT(8));
	TERN_EXPECT(-EOPNOTSUPP, rx_hash_fields_mask, BIT(31) | BIT(0));
#undef TERN_EXPECT
}

/* There may be as many RSS QPs as were promised; the other groups are for the netdev. */
static void tern_test_rss_count(struct kunit *test)
{
	const struct tern_ureq_create_rss_qp req = {};
	struct ib_wq wq = { .wq_num = TERN_TEST_QPN };
	struct ib_wq *wq_list[] = { &wq };
	const struct ib_rwq_ind_table table = { .ind_tbl = wq_list };
	struct tern_test_raw *dev = test->priv;
	struct tern_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, qp);
	dev->rss_err = -EIO;
	KUNIT_EXPECT_EQ(test, tern_rss_exec_create(&dev->ib, qp, &table, &req), -EIO);
	dev->rss_err = 0;
	for (i = 0; i < 20; i++)
		KUNIT_EXPECT_EQ(test, tern_rss_exec_create(&dev->ib, qp, &table, &req), 0);
	KUNIT_EXPECT_EQ(test, tern_rss_exec_create(&dev->ib, qp, &table, &req), -ENOMEM);
	tern_destroy_rss_qp(&dev->ib, qp);
	KUNIT_EXPECT_EQ(test, tern_rss_exec_create(&dev->ib, qp, &table, &req), 0);
	KUNIT_EXPECT_EQ(test, tern_rss_exec_create(&dev->ib, qp, &table, &req), -ENOMEM);
}

static void tern_test_wq_check(struct kunit *test)
{
	struct tern_test_raw *dev = test->priv;
	/* 64 slots of 64 bytes: one page, 3 SGEs each. */
	const struct tern_ureq_create_wq good = {
		.log_size = 6, .log_stride = 6, .buf_len = 4096,
	};
	const struct ib_wq_init_attr attr = {
		.wq_type = IB_WQT_RQ, .max_wr = 64, .max_sge = 3,
	};
	struct tern_ureq_create_wq req = good;
	struct ib_wq_init_attr other = attr;

	KUNIT_EXPECT_EQ(test, tern_check_create_wq(&dev->ib, &attr, &good), 0);
#define TERN_EXPECT(want, object, field, value) do {		\
	req = good;							\
	other = attr;							\
	object.field = value;						\
	KUNIT_EXPECT_EQ(test, tern_check_create_wq(&dev->ib, &other, &req), \
			want);						\
} while (0)
	TERN_EXPECT(-EINVAL, req, log_size, 5);
	TERN_EXPECT(-EINVAL, req, log_size, 11);
	TERN_EXPECT(-EINVAL, req, log_size, 255);
	TERN_EXPECT(-EINVAL, req, log_stride, 5);
	TERN_EXPECT(-EINVAL, req, log_stride, 255);
	TERN_EXPECT(-EINVAL, req, buf_len, 4095);
	TERN_EXPECT(-EINVAL, req, buf_len, U64_MAX);
	TERN_EXPECT(-EINVAL, req, reserved_d0[0], 1);
	TERN_EXPECT(-EINVAL, other, max_wr, 65);
	TERN_EXPECT(-EINVAL, other, max_wr, U32_MAX);
	TERN_EXPECT(-EINVAL, other, max_sge, 4);
	TERN_EXPECT(-EINVAL, other, max_sge, U32_MAX);
	TERN_EXPECT(0, other, create_flags,
		    IB_WQ_FLAGS_CVLAN_STRIPPING | IB_WQ_FLAGS_SCATTER_FCS);
	TERN_EXPECT(-EOPNOTSUPP, other, create_flags, IB_WQ_FLAGS_DELAY_DROP);
	TERN_EXPECT(-EOPNOTSUPP, other, create_flags,
		    IB_WQ_FLAGS_PCI_WRITE_END_PADDING);
	TERN_EXPECT(-EOPNOTSUPP, other, wq_type, IB_WQT_RQ + 1);
	dev->caps.flags &= ~cpu_to_le64(TERN_CAP_ETH_OFFLOAD);
	TERN_EXPECT(-EOPNOTSUPP, other, create_flags,
		    IB_WQ_FLAGS_CVLAN_STRIPPING);
#undef TERN_EXPECT
}

static void tern_test_wq_states(struct kunit *test)
{
	enum ib_wq_state from, to;

	for (from = IB_WQS_RESET; from <= IB_WQS_ERR; from++)
		for (to = IB_WQS_RESET; to <= IB_WQS_ERR; to++)
			KUNIT_EXPECT_EQ(test, tern_rwq_transition_ok(from, to),
					!(from == IB_WQS_ERR && to == IB_WQS_RDY));
}

/* Appends a spec, as ib_core does: specs are as long as their types. */
static union ib_flow_spec *tern_test_add(struct tern_test_raw *dev, u32 type,
					 size_t size)
{
	union ib_flow_spec *spec = dev->flow.attr.flows;
	unsigned int i;

	for (i = 0; i < dev->flow.attr.num_of_specs; i++)
		spec = (void *)spec + spec->size;
	dev->flow.attr.num_of_specs++;
	memset(spec, 0, size);
	spec->type = type;
	spec->size = size;
	return spec;
}

static int tern_test_convert(struct tern_test_raw *dev)
{
	memset(&dev->cmd, 0, sizeof(dev->cmd));
	dev->cmd.dest = TERN_DEST_QP;
	dev->cmd.dest_id = cpu_to_le32(TERN_TEST_QPN);
	return tern_flow_from_attr(&dev->ib, &dev->flow.attr, &dev->cmd);
}

static void tern_test_reset(struct tern_test_raw *dev)
{
	memset(&dev->flow, 0, sizeof(dev->flow));
	dev->flow.attr.port = 1;
}

/* Each field of each header reaches the device's field, under its mask. */
static void tern_test_flow_fields(struct kunit *test)
{
	struct tern_test_raw *dev = test->priv;
	struct tern_cmd_create_flow *cmd = &dev->cmd;
	union ib_flow_spec *spec;
	unsigned int i;

	tern_test_reset(dev);
	spec = tern_test_add(dev, IB_FLOW_SPEC_ETH, sizeof(spec->eth));
	eth_broadcast_addr(spec->eth.val.dst_mac);
	eth_broadcast_addr(spec->eth.val.src_mac);
	memset(spec->eth.mask.dst_mac, 0xf0, ETH_ALEN);
	spec->eth.val.ether_type = htons(ETH_P_IP);
	spec->eth.mask.ether_type = htons(0xffff);
	spec = tern_test_add(dev, IB_FLOW_SPEC_IPV4, sizeof(spec->ipv4));
	spec->ipv4.val = (struct ib_flow_ipv4_filter){
		htonl(0x0a000001), htonl(0x0a000002), 17, 4, 64,
		IB_IPV4_DONT_FRAG | IB_IPV4_MORE_FRAG | 1,
	};
	spec->ipv4.mask = (struct ib_flow_ipv4_filter){
		htonl(0xffffff00), htonl(0xffffffff), 0xff, 0xfc, 0xff,
		IB_IPV4_DONT_FRAG,
	};
	spec = tern_test_add(dev, IB_FLOW_SPEC_UDP, sizeof(spec->tcp_udp));
	spec->tcp_udp.val.dst_port = htons(53);
	spec->tcp_udp.mask.dst_port = htons(0xffff);
	spec->tcp_udp.val.src_port = htons(1000);
	dev->flow.attr.priority = 7;
	KUNIT_ASSERT_EQ(test, tern_test_convert(dev), 0);

	KUNIT_EXPECT_EQ(test, cmd->kind, TERN_FLOW_NORMAL);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd->priority), 0x8007);
	KUNIT_EXPECT_EQ(test, cmd->dest, TERN_DEST_QP);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd->dest_id), TERN_TEST_QPN);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd->counter), TERN_NO_COUNTER);
	KUNIT_EXPECT_EQ(test, cmd->port, 1);
	KUNIT_EXPECT_EQ(test, cmd->flags, 0);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd->layers), TERN_LAYER_ETH |
			TERN_LAYER_IPV4 | TERN_LAYER_UDP);
	KUNIT_EXPECT_EQ(test, cmd->inner_layers, 0);
	for (i = 0; i < ETH_ALEN; i++) {
		KUNIT_EXPECT_EQ(test, cmd->value.dmac[i], 0xf0);
		KUNIT_EXPECT_EQ(test, cmd->mask.dmac[i], 0xf0);
		KUNIT_EXPECT_EQ(test, cmd->value.smac[i], 0);
	}
	KUNIT_EXPECT_EQ(test, cmd->value.ether_type, htons(ETH_P_IP));
	KUNIT_EXPECT_EQ(test, cmd->mask.vlan, 0);
	/* 10.0.0.0/24, 10.0.0.2. */
	KUNIT_EXPECT_EQ(test, cmd->value.src_ip[0], 10);
	KUNIT_EXPECT_EQ(test, cmd->value.src_ip[3], 0);
	KUNIT_EXPECT_EQ(test, cmd->mask.src_ip[2], 0xff);
	KUNIT_EXPECT_EQ(test, cmd->mask.src_ip[3], 0);
	KUNIT_EXPECT_EQ(test, cmd->mask.src_ip[4], 0);
	KUNIT_EXPECT_EQ(test, cmd->value.dst_ip[3], 2);
	KUNIT_EXPECT_EQ(test, cmd->value.protocol, 17);
	KUNIT_EXPECT_EQ(test, cmd->value.tos, 4);
	KUNIT_EXPECT_EQ(test, cmd->mask.tos, 0xfc);
	KUNIT_EXPECT_EQ(test, cmd->value.ttl, 64);
	KUNIT_EXPECT_EQ(test, cmd->value.dst_port, htons(53));
	KUNIT_EXPECT_EQ(test, cmd->mask.src_port, 0);
	KUNIT_EXPECT_EQ(test, cmd->value.src_port, 0);
	KUNIT_EXPECT_EQ(test, cmd->mask.frag, TERN_FRAG_DONT);
	KUNIT_EXPECT_EQ(test, cmd->value.frag, TERN_FRAG_DONT);

	tern_test_reset(dev);
	spec = tern_test_add(dev, IB_FLOW_SPEC_IPV6, sizeof(spec->ipv6));
	memset(spec->ipv6.val.src_ip, 0xab, 16);
	memset(spec->ipv6.mask.src_ip, 0xff, 8);
	memset(spec->ipv6.val.dst_ip, 0xcd, 16);
	memset(spec->ipv6.mask.dst_ip, 0xff, 16);
	spec->ipv6.val.flow_label = htonl(0x12345);
	spec->ipv6.mask.flow_label = htonl(0xfffff);
	spec->ipv6.val.next_hdr = 6;
	spec->ipv6.mask.next_hdr = 0xff;
	spec->ipv6.val.traffic_class = 8;
	spec->ipv6.mask.traffic_class = 0xff;
	spec->ipv6.val.hop_limit = 9;
	spec->ipv6.mask.hop_limit = 0xff;
	spec = tern_test_add(dev, IB_FLOW_SPEC_TCP, sizeof(spec->tcp_udp));
	KUNIT_ASSERT_EQ(test, tern_test_convert(dev), 0);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd->layers),
			TERN_LAYER_IPV6 | TERN_LAYER_TCP);
	KUNIT_EXPECT_EQ(test, cmd->value.src_ip[7], 0xab);
	KUNIT_EXPECT_EQ(test, cmd->value.src_ip[8], 0);
	KUNIT_EXPECT_EQ(test, cmd->value.dst_ip[15], 0xcd);
	KUNIT_EXPECT_EQ(test, cmd->value.flow_label, htonl(0x12345));
	KUNIT_EXPECT_EQ(test, cmd->value.protocol, 6);
	KUNIT_EXPECT_EQ(test, cmd->value.tos, 8);
	KUNIT_EXPECT_EQ(test, cmd->value.ttl, 9);
}

static void tern_test_flow_tunnel(struct kunit *test)
{
	struct tern_test_raw *dev = test->priv;
	struct tern_cmd_create_flow *cmd = &dev->cmd;
	union ib_flow_spec *spec;

	tern_test_reset(dev);
	spec = tern_test_add(dev, IB_FLOW_SPEC_ETH, sizeof(spec->eth));
	spec->eth.val.vlan_tag = htons(0x2005);
	spec->eth.mask.vlan_tag = htons(0x0fff);
	spec = tern_test_add(dev, IB_FLOW_SPEC_VXLAN_TUNNEL, sizeof(spec->tunnel));
	spec->tunnel.val.tunnel_id = htonl(0x123456);
	spec->tunnel.mask.tunnel_id = htonl(0xffff00);
	spec = tern_test_add(dev, IB_FLOW_SPEC_INNER | IB_FLOW_SPEC_IPV4,
			     sizeof(spec->ipv4));
	spec->ipv4.val.dst_ip = htonl(0x01020304);
	spec->ipv4.mask.dst_ip = htonl(0xffffffff);
	spec = tern_test_add(dev, IB_FLOW_SPEC_INNER | IB_FLOW_SPEC_TCP,
			     sizeof(spec->tcp_udp));
	spec->tcp_udp.val.src_port = htons(80);
	spec->tcp_udp.mask.src_port = htons(0xffff);
	KUNIT_ASSERT_EQ(test, tern_test_convert(dev), 0);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd->layers), TERN_LAYER_ETH |
			TERN_LAYER_VLAN | TERN_LAYER_VXLAN);
	KUNIT_EXPECT_EQ(test, cmd->value.vlan, htons(5));
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd->tunnel_value.vni), 0x123400);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd->tunnel_mask.vni), 0xffff00);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd->inner_layers),
			TERN_LAYER_IPV4 | TERN_LAYER_TCP);
	KUNIT_EXPECT_EQ(test, cmd->inner_value.dst_ip[3], 4);
	KUNIT_EXPECT_EQ(test, cmd->inner_value.src_port, htons(80));
	KUNIT_EXPECT_EQ(test, cmd->mask.src_port, 0);

	/* Without the spec of a tunnel it may be any. */
	tern_test_reset(dev);
	tern_test_add(dev, IB_FLOW_SPEC_INNER | IB_FLOW_SPEC_ETH, sizeof(spec->eth));
	KUNIT_ASSERT_EQ(test, tern_test_convert(dev), 0);
	KUNIT_EXPECT_EQ(test, cmd->layers, 0);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd->inner_layers), TERN_LAYER_ETH);

	tern_test_reset(dev);
	spec = tern_test_add(dev, IB_FLOW_SPEC_GRE, sizeof(spec->gre));
	spec->gre.val = (struct ib_flow_gre_filter){
		htons(0x2001), htons(ETH_P_IP), htonl(0x12345678),
	};
	spec->gre.mask = (struct ib_flow_gre_filter){
		htons(0xf000), htons(0xffff), htonl(0xffff0000),
	};
	spec = tern_test_add(dev, IB_FLOW_SPEC_INNER | IB_FLOW_SPEC_ESP,
			     sizeof(spec->esp));
	spec->esp.val = (struct ib_flow_esp_filter){ htonl(7), htonl(8) };
	spec->esp.mask = (struct ib_flow_esp_filter){ htonl(0xff), htonl(0xf) };
	KUNIT_ASSERT_EQ(test, tern_test_convert(dev), 0);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd->layers), TERN_LAYER_GRE);
	KUNIT_EXPECT_EQ(test, cmd->tunnel_value.gre_flags, htons(0x2000));
	KUNIT_EXPECT_EQ(test, cmd->tunnel_value.gre_protocol, htons(ETH_P_IP));
	KUNIT_EXPECT_EQ(test, cmd->tunnel_value.gre_key, htonl(0x12340000));
	KUNIT_EXPECT_EQ(test, cmd->tunnel_mask.vni, 0);
	KUNIT_EXPECT_EQ(test, le16_to_cpu(cmd->inner_layers), TERN_LAYER_ESP);
	KUNIT_EXPECT_EQ(test, cmd->inner_value.spi, htonl(7));
	KUNIT_EXPECT_EQ(test, cmd->inner_value.esp_seq, htonl(8));
	KUNIT_EXPECT_EQ(test, cmd->inner_mask.esp_seq, htonl(0xf));
	KUNIT_EXPECT_EQ(test, cmd->mask.spi, 0);
}

/* The place of MPLS in the list says where the label is. */
static void tern_test_flow_mpls(struct kunit *test)
{
	static const u32 inner = IB_FLOW_SPEC_INNER;
	static const struct {
		u32 specs[4];
		u16 layers;
		u16 inner_layers;
		bool inside;	/* the label */
	} cases[] = {
		{ { IB_FLOW_SPEC_ETH, IB_FLOW_SPEC_MPLS },
		  TERN_LAYER_ETH | TERN_LAYER_MPLS },
		{ { IB_FLOW_SPEC_ETH, IB_FLOW_SPEC_MPLS, IB_FLOW_SPEC_IPV4,
		    IB_FLOW_SPEC_TCP },
		  TERN_LAYER_ETH | TERN_LAYER_MPLS,
		  TERN_LAYER_IPV4 | TERN_LAYER_TCP },
		{ { IB_FLOW_SPEC_MPLS, IB_FLOW_SPEC_ETH,
		    inner | IB_FLOW_SPEC_IPV6 },
		  TERN_LAYER_ETH | TERN_LAYER_MPLS, TERN_LAYER_IPV6 },
		{ { IB_FLOW_SPEC_IPV4, IB_FLOW_SPEC_UDP, IB_FLOW_SPEC_MPLS,
		    inner | IB_FLOW_SPEC_IPV4 },
		  TERN_LAYER_IPV4 | TERN_LAYER_UDP | TERN_LAYER_MPLS_TUNNEL,
		  TERN_LAYER_IPV4 },
		{ { IB_FLOW_SPEC_IPV4, IB_FLOW_SPEC_MPLS },
		  TERN_LAYER_IPV4 | TERN_LAYER_MPLS_TUNNEL },
		{ { IB_FLOW_SPEC_GRE, IB_FLOW_SPEC_MPLS },
		  TERN_LAYER_GRE | TERN_LAYER_MPLS_TUNNEL },
		{ { IB_FLOW_SPEC_GRE, inner | IB_FLOW_SPEC_MPLS },
		  TERN_LAYER_GRE | TERN_LAYER_MPLS_TUNNEL },
		{ { IB_FLOW_SPEC_UDP, inner | IB_FLOW_SPEC_MPLS },
		  TERN_LAYER_UDP | TERN_LAYER_MPLS_TUNNEL },
		{ { IB_FLOW_SPEC_UDP, IB_FLOW_SPEC_VXLAN_TUNNEL,
		    inner | IB_FLOW_SPEC_ETH, inner | IB_FLOW_SPEC_MPLS },
		  TERN_LAYER_UDP | TERN_LAYER_VXLAN,
		  TERN_LAYER_ETH | TERN_LAYER_MPLS, true },
	};
	struct tern_test_raw *dev = test->priv;
	struct tern_cmd_create_flow *cmd = &dev->cmd;
	const struct tern_flow_fields *fields;
	union ib_flow_spec *spec;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		tern_test_reset(dev);
		for (j = 0; j < 4 && cases[i].specs[j]; j++) {
			spec = tern_test_add(dev, cases[i].specs[j], sizeof(*spec));
			if ((spec->type & ~inner) != IB_FLOW_SPEC_MPLS)
				continue;
			spec->mpls.val.tag = htonl(0x12345678);
			spec->mpls.mask.tag = htonl(0xfffff000);
		}
		KUNIT_ASSERT_EQ_MSG(test, tern_test_convert(dev), 0, "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, le16_to_cpu(cmd->layers),
				    cases[i].layers, "case %u", i);
		KUNIT_EXPECT_EQ_MSG(test, le16_to_cpu(cmd->inner_layers),
				    cases[i].inner_layers, "case %u", i);
		fields = &cmd->value;
		if (cases[i].inside)
			fields = &cmd->inner_value;
		KUNIT_EXPECT_EQ_MSG(test, fields->mpls, htonl(0x12345000),
				    "case %u", i);
	}
}

static void tern_test_flow_actions(struct kunit *test)
{
	struct tern_test_raw *dev = test->priv;
	struct tern_cmd_create_flow *cmd = &dev->cmd;
	union ib_flow_spec *spec;

	tern_test_reset(dev);
	spec = tern_test_add(dev, IB_FLOW_SPEC_ACTION_TAG, sizeof(spec->flow_tag));
	spec->flow_tag.tag_id = 0xffffff;
	spec = tern_test_add(dev, IB_FLOW_SPEC_ACTION_COUNT,
			     sizeof(spec->flow_count));
	spec->flow_count.counters = &dev->counters.ibcounters;
	dev->flow.attr.flags = IB_FLOW_ATTR_FLAGS_DONT_TRAP;
	KUNIT_ASSERT_EQ(test, tern_test_convert(dev), 0);
	KUNIT_EXPECT_EQ(test, cmd->layers, 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd->tag), 0xffffff);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd->counter), TERN_TEST_COUNTER);
	KUNIT_EXPECT_EQ(test, cmd->flags, TERN_FLOW_F_CONTINUE);
	KUNIT_EXPECT_EQ(test, cmd->dest, TERN_DEST_QP);

	/* A dropped frame goes nowhere, and no other flow sees it. */
	tern_test_add(dev, IB_FLOW_SPEC_ACTION_DROP, sizeof(spec->drop));
	KUNIT_EXPECT_EQ(test, tern_test_convert(dev), -EINVAL);
	dev->flow.attr.flags = 0;
	KUNIT_ASSERT_EQ(test, tern_test_convert(dev), 0);
	KUNIT_EXPECT_EQ(test, cmd->dest, TERN_DEST_NONE);
	KUNIT_EXPECT_EQ(test, cmd->dest_id, 0);
	dev->flow.attr.type = IB_FLOW_ATTR_SNIFFER;
	KUNIT_EXPECT_EQ(test, tern_test_convert(dev), -EINVAL);

	/* One of each, and a tag that fits a completion. */
	dev->flow.attr.type = IB_FLOW_ATTR_NORMAL;
	tern_test_add(dev, IB_FLOW_SPEC_ACTION_DROP, sizeof(spec->drop));
	KUNIT_EXPECT_EQ(test, tern_test_convert(dev), -EINVAL);
	tern_test_reset(dev);
	spec = tern_test_add(dev, IB_FLOW_SPEC_ACTION_TAG, sizeof(spec->flow_tag));
	spec->flow_tag.tag_id = 0x1000000;
	KUNIT_EXPECT_EQ(test, tern_test_convert(dev), -EINVAL);
	spec->type = IB_FLOW_SPEC_ACTION_HANDLE;
	KUNIT_EXPECT_EQ(test, tern_test_convert(dev), -EOPNOTSUPP);
}

static void tern_test_flow_types(struct kunit *test)
{
	static const struct {
		enum ib_flow_attr_type type;
		u8 kind;
		u32 priority;
		u8 flags;	/* with DONT_TRAP */
	} types[] = {
		{ IB_FLOW_ATTR_NORMAL, TERN_FLOW_NORMAL, 0x17fff,
		  TERN_FLOW_F_CONTINUE },
		{ IB_FLOW_ATTR_MC_DEFAULT, TERN_FLOW_MULTICAST, 0x18000,
		  TERN_FLOW_F_CONTINUE },
		{ IB_FLOW_ATTR_ALL_DEFAULT, TERN_FLOW_ALL, 0x18001,
		  TERN_FLOW_F_CONTINUE },
		{ IB_FLOW_ATTR_SNIFFER, TERN_FLOW_SNIFFER, 0x17fff, 0 },
	};
	struct tern_test_raw *dev = test->priv;
	union ib_flow_spec *spec;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(types); i++) {
		tern_test_reset(dev);
		dev->flow.attr.type = types[i].type;
		dev->flow.attr.priority = U16_MAX;
		KUNIT_EXPECT_EQ(test, tern_test_convert(dev), 0);
		KUNIT_EXPECT_EQ(test, dev->cmd.kind, types[i].kind);
		KUNIT_EXPECT_EQ(test, le32_to_cpu(dev->cmd.priority),
				types[i].priority);
		KUNIT_EXPECT_EQ(test, dev->cmd.flags, 0);
		dev->flow.attr.flags = IB_FLOW_ATTR_FLAGS_DONT_TRAP;
		KUNIT_EXPECT_EQ(test, tern_test_convert(dev), 0);
		KUNIT_EXPECT_EQ(test, dev->cmd.flags, types[i].flags);
		dev->flow.attr.flags = IB_FLOW_ATTR_FLAGS_EGRESS;
		KUNIT_EXPECT_EQ(test, tern_test_convert(dev), i ? -EINVAL : 0);
		dev->flow.attr.flags = IB_FLOW_ATTR_FLAGS_RESERVED;
		KUNIT_EXPECT_EQ(test, tern_test_convert(dev), -EOPNOTSUPP);
		/* Only a normal flow looks at headers. */
		dev->flow.attr.flags = 0;
		tern_test_add(dev, IB_FLOW_SPEC_ETH, sizeof(spec->eth));
		KUNIT_EXPECT_EQ(test, tern_test_convert(dev), i ? -EINVAL : 0);
	}
	dev->flow.attr.type = IB_FLOW_ATTR_SNIFFER + 1;
	KUNIT_EXPECT_EQ(test, tern_test_convert(dev), -EINVAL);
}

/* A flow of sent frames goes to no QP, and drops or counts. */
static void tern_test_flow_egress(struct kunit *test)
{
	struct tern_test_raw *dev = test->priv;
	struct tern_cmd_create_flow *cmd = &dev->cmd;
	union ib_flow_spec *spec;

	tern_test_reset(dev);
	dev->flow.attr.flags = IB_FLOW_ATTR_FLAGS_EGRESS;
	spec = tern_test_add(dev, IB_FLOW_SPEC_ACTION_COUNT,
			     sizeof(spec->flow_count));
	spec->flow_count.counters = &dev->counters.ibcounters;
	KUNIT_ASSERT_EQ(test, tern_test_convert(dev), 0);
	KUNIT_EXPECT_EQ(test, cmd->kind, TERN_FLOW_SENT);
	KUNIT_EXPECT_EQ(test, cmd->dest, TERN_DEST_WIRE);
	KUNIT_EXPECT_EQ(test, cmd->dest_id, 0);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(cmd->counter), TERN_TEST_COUNTER);
	dev->flow.attr.flags |= IB_FLOW_ATTR_FLAGS_DONT_TRAP;
	KUNIT_ASSERT_EQ(test, tern_test_convert(dev), 0);
	KUNIT_EXPECT_EQ(test, cmd->flags, TERN_FLOW_F_CONTINUE);
	tern_test_add(dev, IB_FLOW_SPEC_ACTION_DROP, sizeof(spec->drop));
	KUNIT_EXPECT_EQ(test, tern_test_convert(dev), -EINVAL);
	dev->flow.attr.flags = IB_FLOW_ATTR_FLAGS_EGRESS;
	KUNIT_ASSERT_EQ(test, tern_test_convert(dev), 0);
	KUNIT_EXPECT_EQ(test, cmd->dest, TERN_DEST_NONE);
	spec = tern_test_add(dev, IB_FLOW_SPEC_ACTION_TAG, sizeof(spec->flow_tag));
	spec->flow_tag.tag_id = 1;
	KUNIT_EXPECT_EQ(test, tern_test_convert(dev), -EOPNOTSUPP);
}

/* Specs that the device lacks, and specs that exclude each other. */
static void tern_test_flow_refused(struct kunit *test)
{
	static const u32 unknown[] = {
		IB_FLOW_SPEC_IB, IB_FLOW_SPEC_INNER | IB_FLOW_SPEC_GRE,
		IB_FLOW_SPEC_INNER | IB_FLOW_SPEC_VXLAN_TUNNEL,
		IB_FLOW_SPEC_INNER | IB_FLOW_SPEC_ACTION_DROP,
	};
	static const u32 pairs[][2] = {
		{ IB_FLOW_SPEC_ETH, IB_FLOW_SPEC_ETH },
		{ IB_FLOW_SPEC_IPV4, IB_FLOW_SPEC_IPV4 },
		{ IB_FLOW_SPEC_IPV4, IB_FLOW_SPEC_IPV6 },
		{ IB_FLOW_SPEC_IPV6, IB_FLOW_SPEC_IPV4 },
		{ IB_FLOW_SPEC_TCP, IB_FLOW_SPEC_UDP },
		{ IB_FLOW_SPEC_UDP, IB_FLOW_SPEC_UDP },
		{ IB_FLOW_SPEC_ESP, IB_FLOW_SPEC_UDP },
		{ IB_FLOW_SPEC_TCP, IB_FLOW_SPEC_GRE },
		{ IB_FLOW_SPEC_GRE, IB_FLOW_SPEC_GRE },
		{ IB_FLOW_SPEC_GRE, IB_FLOW_SPEC_VXLAN_TUNNEL },
		{ IB_FLOW_SPEC_MPLS, IB_FLOW_SPEC_MPLS },
		{ IB_FLOW_SPEC_VXLAN_TUNNEL, IB_FLOW_SPEC_VXLAN_TUNNEL },
	};
	struct tern_test_raw *dev = test->priv;
	union ib_flow_spec *spec;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(unknown); i++) {
		tern_test_reset(dev);
		tern_test_add(dev, unknown[i], sizeof(*spec));
		KUNIT_EXPECT_EQ_MSG(test, tern_test_convert(dev), -EOPNOTSUPP,
				    "spec %#x", unknown[i]);
	}
	for (i = 0; i < ARRAY_SIZE(pairs); i++) {
		tern_test_reset(dev);
		tern_test_add(dev, pairs[i][0], sizeof(*spec));
		tern_test_add(dev, pairs[i][1], sizeof(*spec));
		KUNIT_EXPECT_EQ_MSG(test, tern_test_convert(dev), -EINVAL,
				    "specs %#x, %#x", pairs[i][0], pairs[i][1]);
	}

	tern_test_reset(dev);
	spec = tern_test_add(dev, IB_FLOW_SPEC_IPV4, sizeof(spec->ipv4));
	spec->ipv4.mask.flags = IB_IPV4_MORE_FRAG;
	KUNIT_EXPECT_EQ(test, tern_test_convert(dev), 0);
	spec->ipv4.mask.flags |= 1;
	KUNIT_EXPECT_EQ(test, tern_test_convert(dev), -EOPNOTSUPP);
}

/* The destination is the QP, the group of an RSS QP, or nothing. */
static void tern_test_flow_create(struct kunit *test)
{
	struct tern_test_raw *dev = test->priv;
	struct tern_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct ib_rwq_ind_table table = {};
	union ib_flow_spec *spec;
	struct ib_flow *flow;

	KUNIT_ASSERT_NOT_NULL(test, qp);
	tern_test_reset(dev);
	qp->ibqp.device = &dev->ib.ibdev;
	qp->ibqp.qp_num = TERN_TEST_QPN;
	qp->ibqp.qp_type = IB_QPT_RC;
	qp->rssn = TERN_TEST_RSSN;
	flow = tern_create_flow(&qp->ibqp, &dev->flow.attr, NULL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(flow), -EINVAL);

	qp->ibqp.qp_type = IB_QPT_UD;
	flow = tern_create_flow(&qp->ibqp, &dev->flow.attr, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(flow));
	KUNIT_EXPECT_EQ(test, dev->cmd.kind, TERN_FLOW_DATAGRAM);
	KUNIT_EXPECT_EQ(test, dev->cmd.dest, TERN_DEST_QP);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(dev->cmd.dest_id), TERN_TEST_QPN);
	flow->device = &dev->ib.ibdev;
	tern_destroy_flow(flow);
	dev->flow.attr.type = IB_FLOW_ATTR_ALL_DEFAULT;
	flow = tern_create_flow(&qp->ibqp, &dev->flow.attr, NULL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(flow), -EINVAL);
	dev->flow.attr.type = IB_FLOW_ATTR_NORMAL;
	spec = tern_test_add(dev, IB_FLOW_SPEC_ACTION_TAG, sizeof(spec->flow_tag));
	spec->flow_tag.tag_id = 1;
	flow = tern_create_flow(&qp->ibqp, &dev->flow.attr, NULL);
	KUNIT_EXPECT_EQ(test, PTR_ERR(flow), -EOPNOTSUPP);
	tern_test_reset(dev);

	qp->ibqp.qp_type = IB_QPT_RAW_PACKET;
	flow = tern_create_flow(&qp->ibqp, &dev->flow.attr, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(flow));
	KUNIT_EXPECT_EQ(test, dev->cmd.dest, TERN_DEST_QP);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(dev->cmd.dest_id), TERN_TEST_QPN);
	flow->device = &dev->ib.ibdev;
	KUNIT_EXPECT_EQ(test, tern_destroy_flow(flow), 0);
	KUNIT_EXPECT_EQ(test, dev->destroyed, TERN_TEST_FLOW);

	qp->ibqp.rwq_ind_tbl = &table;
	flow = tern_create_flow(&qp->ibqp, &dev->flow.attr, NULL);
	KUNIT_ASSERT_FALSE(test, IS_ERR(flow));
	KUNIT_EXPECT_EQ(test, dev->cmd.dest, TERN_DEST_RSS);
	KUNIT_EXPECT_EQ(test, le32_to_cpu(dev->cmd.dest_id), TERN_TEST_RSSN);
	flow->device = &dev->ib.ibdev;
	tern_destroy_flow(flow);
}

/* A buffer may have fewer values than a counter, or more. */
static void tern_test_flow_counter(struct kunit *test)
{
	struct tern_test_raw *dev = test->priv;
	struct tern_counters counters = { .ibcounters.device = &dev->ib.ibdev };
	u64 values[3];
	struct ib_counters_read_attr attr = { .counters_buff = values };
	unsigned int i;

	KUNIT_ASSERT_EQ(test, tern_create_counters(&counters.ibcounters, NULL), 0);
	for (i = 0; i <= ARRAY_SIZE(values); i++) {
		memset(values, 0, sizeof(values));
		attr.ncounters = i;
		KUNIT_EXPECT_EQ(test, tern_read_counters(&counters.ibcounters,
							 &attr, NULL), 0);
		KUNIT_EXPECT_EQ(test, values[IB_COUNTER_PACKETS], i > 0 ? 3 : 0);
		KUNIT_EXPECT_EQ(test, values[IB_COUNTER_BYTES],
				i > 1 ? BIT_ULL(40) : 0);
		KUNIT_EXPECT_EQ(test, values[2], 0);
	}
	counters.id++;
	KUNIT_EXPECT_EQ(test, tern_read_counters(&counters.ibcounters, &attr, NULL),
			-EINVAL);
}

static struct kunit_case tern_ib_raw_cases[] = {
	KUNIT_CASE(tern_test_raw_caps),
	KUNIT_CASE(tern_test_raw_flags),
	KUNIT_CASE(tern_test_rss_fields),
	KUNIT_CASE(tern_test_rss_check),
	KUNIT_CASE(tern_test_rss_count),
	KUNIT_CASE(tern_test_wq_check),
	KUNIT_CASE(tern_test_wq_states),
	KUNIT_CASE(tern_test_flow_fields),
	KUNIT_CASE(tern_test_flow_tunnel),
	KUNIT_CASE(tern_test_flow_mpls),
	KUNIT_CASE(tern_test_flow_actions),
	KUNIT_CASE(tern_test_flow_types),
	KUNIT_CASE(tern_test_flow_egress),
	KUNIT_CASE(tern_test_flow_refused),
	KUNIT_CASE(tern_test_flow_create),
	KUNIT_CASE(tern_test_flow_counter),
	{}
};

static struct kunit_suite tern_ib_raw_suite = {
	.name = "tern_ib_raw",
	.init = tern_raw_test_init,
	.test_cases = tern_ib_raw_cases,
};

kunit_test_suite(tern_ib_raw_suite);

MODULE_DESCRIPTION("KUnit tests of tern's raw packet QPs and flows");
MODULE_LICENSE("Dual BSD/GPL");
