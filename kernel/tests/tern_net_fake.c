// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A device in memory for tests of tern.ko's network device: a thread answers each
 * command at once, and refuses those that the test selects.
 */

#include <linux/delay.h>
#include <linux/ethtool.h>
#include <linux/irq.h>
#include <linux/kthread.h>
#include <linux/rtnetlink.h>

#include "tern_net_fake.h"
#include "tern_util.h"

/* Timeout in milliseconds, which only catches hangs. */
#define TERN_TEST_PATIENCE	60000

struct tern_net *tern_test_net(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;

	return fake->tdev.net;
}

struct tern_queues *tern_test_queues(struct kunit *test)
{
	return rcu_dereference_protected(tern_test_net(test)->queues, true);
}

static void tern_test_modify_port(struct tern_test_net *fake,
				  const struct tern_cmd_modify_port *cmd)
{
	u32 mask = le32_to_cpu(cmd->mask);

	if (mask & TERN_PORT_MTU)
		WRITE_ONCE(fake->port_mtu, le32_to_cpu(cmd->mtu));
	if (mask & TERN_PORT_ENABLE)
		WRITE_ONCE(fake->port_enabled, cmd->enable);
}

/* Stores the moderation of a queue. */
static void tern_test_moderate(struct tern_test_net *fake, const struct tern_cmd_modify_cq *cmd)
{
	fake->periods[tern_test_cq_slot(le32_to_cpu(cmd->cqn))] = le16_to_cpu(cmd->period);
}

/* Counts a command that changes steering while the channel is stopped. */
static void tern_test_steered(struct tern_test_net *fake)
{
	if (fake->steered && !READ_ONCE(fake->steered->up))
		fake->steered_late++;
}

/* Executes a command of steering. Returns whether it creates an object. */
static bool tern_test_steer(struct tern_test_net *fake, u16 opcode, const void *in)
{
	switch (opcode) {
	case TERN_CMD_CREATE_RSS:
		memcpy(&fake->rss, in, sizeof(fake->rss));
		WRITE_ONCE(fake->rss_groups, fake->rss_groups + 1);
		return true;
	case TERN_CMD_MODIFY_RSS:
		tern_test_steered(fake);
		fake->old_rss = fake->rss;
		memcpy(&fake->rss, in, sizeof(fake->rss));
		fake->rss_modified++;
		return false;
	case TERN_CMD_DESTROY_RSS:
		WRITE_ONCE(fake->rss_groups, fake->rss_groups - 1);
		return false;
#ifndef TERN_WITHOUT_STEERING
	case TERN_CMD_CREATE_FLOW:
		memcpy(&fake->flow, in, sizeof(fake->flow));
		WRITE_ONCE(fake->flows, fake->flows + 1);
		return true;
	case TERN_CMD_DESTROY_FLOW:
		tern_test_steered(fake);
		WRITE_ONCE(fake->flows, fake->flows - 1);
		return false;
#endif
	case TERN_CMD_SET_RX_DEFAULT:
		memcpy(&fake->rx_default, in, sizeof(fake->rx_default));
		return false;
	default:
		return false;
	}
}

/* Checks that no RSS group and no rule refers to a queue that is destroyed. */
static void tern_test_check_dangling(struct tern_test_net *fake,
				     const struct tern_cmd_object *queue)
{
	bool used = false;
	unsigned int i;

#ifndef TERN_WITHOUT_STEERING
	used = fake->flows && fake->flow.dest == TERN_DEST_ETH_QUEUE &&
	       fake->flow.dest_id == queue->id;
#endif
	for (i = 0; fake->rss_groups && i < TERN_RSS_ENTRIES; i++)
		used |= fake->rss.entries[i] == queue->id;
	fake->dangling += used;
}

/* Executes a command. Returns the length of the reply. */
static u16 tern_test_execute(struct tern_test_net *fake, u16 opcode,
			     const void *in, void *out)
{
	u32 id = ++fake->next_id;
	struct tern_rsp_object object = {
		.id = cpu_to_le32(id),
		.generation = cpu_to_le32(id + TERN_TEST_GENERATION),
	};
	struct tern_rsp_port port = {
		.link_up = fake->port_enabled,
		.max_mtu = cpu_to_le32(9000),
	};
	unsigned int i;

	switch (opcode) {
	case TERN_CMD_MODIFY_PORT:
		tern_test_modify_port(fake, in);
		return 0;
	case TERN_CMD_QUERY_COUNTERS:
		for (i = 0; i < TERN_ETH_CNT_NUM; i++)
			((__le64 *)out)[i] = cpu_to_le64(READ_ONCE(fake->counters[i]));
		return TERN_ETH_CNT_NUM * sizeof(__le64);
	case TERN_CMD_SET_RX_FILTER:
		memcpy(&fake->filter, in, sizeof(fake->filter));
		return 0;
	case TERN_CMD_QUERY_PORT:
		memcpy(out, &port, sizeof(port));
		return sizeof(port);
	case TERN_CMD_CREATE_ETH_QUEUE:
		WRITE_ONCE(fake->eth_queues, fake->eth_queues + 1);
		fake->eth_created++;
		break;
	case TERN_CMD_DESTROY_ETH_QUEUE:
		WRITE_ONCE(fake->eth_queues, fake->eth_queues - 1);
		tern_test_check_dangling(fake, in);
		return 0;
	case TERN_CMD_MODIFY_CQ:
		tern_test_moderate(fake, in);
		return 0;
	case TERN_CMD_CREATE_CQ:
		fake->periods[tern_test_cq_slot(id)] = 0;
		break;
	case TERN_CMD_CREATE_EQ:
		break;
	default:
		if (!tern_test_steer(fake, opcode, in))
			return 0;
	}
	memcpy(out, &object, sizeof(object));
	return sizeof(object);
}

/* Whether the device refuses the command. */
static bool tern_test_refuses(struct tern_test_net *fake, u16 opcode)
{
	if (opcode == TERN_CMD_MODIFY_CQ && fake->modify_cq_left && !--fake->modify_cq_left)
		return true;
	return opcode == READ_ONCE(fake->refused);
}

static void tern_test_serve(struct tern_test_net *fake)
{
	struct tern_aq *aq = &fake->tdev.aq;
	struct tern_acq_entry *answer;
	struct tern_aq_entry cmd;
	void *mem = aq->mem;
	u16 out_len = 0;
	u16 status;

	cmd = aq->mem->aq[tern_ring_slot(fake->head++, TERN_AQ_LOG_SIZE)];
	status = tern_test_refuses(fake, le16_to_cpu(cmd.opcode)) ?
		TERN_ST_NO_MEMORY : TERN_ST_OK;
	if (status == TERN_ST_OK)
		out_len = tern_test_execute(fake, le16_to_cpu(cmd.opcode),
					    mem + (le64_to_cpu(cmd.in_addr) - aq->dma),
					    mem + (le64_to_cpu(cmd.out_addr) - aq->dma));

	answer = &aq->mem->acq[tern_ring_slot(fake->pi, TERN_AQ_LOG_SIZE)];
	answer->tag = cmd.tag;
	answer->status = cpu_to_le16(status);
	answer->out_len = cpu_to_le16(out_len);
	/* Write the rest of the entry before its phase. */
	smp_wmb();
	WRITE_ONCE(answer->phase, cpu_to_le32(~(fake->pi >> TERN_AQ_LOG_SIZE) &
					      TERN_CQE_PHASE));
	fake->pi++;
	tern_aq_reap(&fake->tdev);
}

static int tern_test_device(void *data)
{
	struct tern_test_net *fake = data;
	__le32 *tail = (__le32 *)&fake->regs[TERN_REG_AQ_TAIL];

	while (!kthread_should_stop()) {
		while (fake->head != le32_to_cpu(READ_ONCE(*tail))) {
			/* The entry was written before the index. */
			smp_rmb();
			tern_test_serve(fake);
		}
		usleep_range(50, 100);
	}
	return 0;
}

bool tern_test_wait(bool (*is_true)(struct kunit *test), struct kunit *test)
{
	unsigned int ms;

	for (ms = 0; ms < TERN_TEST_PATIENCE && !is_true(test); ms++)
		usleep_range(1000, 2000);
	return is_true(test);
}

int tern_test_set_mtu(struct kunit *test, int mtu)
{
	int err;

	rtnl_lock();
	err = dev_set_mtu(tern_test_net(test)->netdev, mtu);
	rtnl_unlock();
	return err;
}

void tern_test_open(struct kunit *test)
{
	int err;

	rtnl_lock();
	err = dev_open(tern_test_net(test)->netdev, NULL);
	rtnl_unlock();
	KUNIT_ASSERT_EQ(test, err, 0);
}

void tern_test_exhaust(struct kunit *test, bool on)
{
	struct tern_test_net *fake = test->priv;

	/* No page has such an address. */
	fake->pdev.dev.coherent_dma_mask = on ? DMA_BIT_MASK(12) : DMA_BIT_MASK(64);
}

int tern_test_set_channels(struct kunit *test, unsigned int num)
{
	struct net_device *netdev = tern_test_net(test)->netdev;
	struct ethtool_channels channels = { .combined_count = num };
	int err;

	rtnl_lock();
	err = netdev->ethtool_ops->set_channels(netdev, &channels);
	rtnl_unlock();
	return err;
}

/* Makes the device one with RSS, and the netdev one with several channels. */
void tern_test_many(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;

	fake->tdev.caps.flags = cpu_to_le64(TERN_CAP_STEERING | TERN_CAP_MODERATE_CQ);
	fake->tdev.caps.max_eth_queues = cpu_to_le16(4);
	fake->tdev.caps.max_rss = cpu_to_le32(8);
	fake->tdev.caps.max_flows = cpu_to_le32(16);
	KUNIT_ASSERT_EQ(test, tern_test_set_channels(test, 4), 0);
}

static void tern_test_hold_rtnl(struct work_struct *work)
{
	struct tern_test_net *fake = container_of(work, struct tern_test_net, rtnl_work);

	rtnl_lock();
	complete(&fake->rtnl_taken);
	msleep(200);
	WRITE_ONCE(fake->rtnl_released, true);
	rtnl_unlock();
}

static void tern_test_release(struct device *dev)
{
}

static int tern_test_pci_init(struct tern_test_net *fake)
{
	struct device *dev = &fake->pdev.dev;
	int irq;

	device_initialize(dev);
	dev->release = tern_test_release;
	dev->dma_mask = &fake->pdev.dma_mask;
	fake->pdev.dma_mask = DMA_BIT_MASK(64);
	dev->coherent_dma_mask = DMA_BIT_MASK(64);
	/* There is no configuration space to access. */
	fake->pdev.error_state = pci_channel_io_perm_failure;

	/* An interrupt that is never raised. */
	irq = irq_alloc_desc(NUMA_NO_NODE);
	if (irq < 0)
		return irq;
	irq_set_chip_and_handler(irq, &dummy_irq_chip, handle_simple_irq);
	irq_clear_status_flags(irq, IRQ_NOREQUEST);
	fake->pdev.irq = irq;
	return dev_set_name(dev, "tern-net-fake") ?: device_add(dev);
}

static void tern_test_dead(struct work_struct *work)
{
}

int tern_test_net_init(struct kunit *test)
{
	struct tern_test_net *fake = kunit_kzalloc(test, sizeof(*fake), GFP_KERNEL);
	struct tern_dev *tdev;

	KUNIT_ASSERT_NOT_NULL(test, fake);
	tdev = &fake->tdev;
	KUNIT_ASSERT_EQ(test, tern_test_pci_init(fake), 0);

	tdev->core.pdev = &fake->pdev;
	tdev->num_vectors = 1;
	tdev->max_channels = 4;
	tdev->regs = (__force void __iomem *)fake->regs;
	tdev->core.uar_kernel = (__force void __iomem *)&fake->regs[TERN_MSIX_PBA_OFFSET];
	*(u32 *)&fake->regs[TERN_REG_STATUS] = (__force u32)cpu_to_le32(TERN_STATUS_ENABLED);
	spin_lock_init(&tdev->dead_lock);
	INIT_WORK(&tdev->async_work, tern_test_dead);
	INIT_WORK(&fake->rtnl_work, tern_test_hold_rtnl);
	init_completion(&fake->rtnl_taken);
	tern_aq_init(tdev);
	KUNIT_ASSERT_EQ(test, tern_aq_alloc(tdev), 0);
	fake->device = kthread_run(tern_test_device, fake, "tern-net-fake");
	KUNIT_ASSERT_FALSE(test, IS_ERR(fake->device));

	KUNIT_ASSERT_EQ(test, tern_net_alloc(tdev), 0);
	KUNIT_ASSERT_EQ(test, tern_net_register(tdev->net), 0);
	test->priv = fake;
	return 0;
}

void tern_test_net_exit(struct kunit *test)
{
	struct tern_test_net *fake = test->priv;

	if (!fake)
		return;
	if (fake->tdev.net) {
		tern_net_unregister(fake->tdev.net);
		tern_net_free(fake->tdev.net);
	}
	kthread_stop(fake->device);
	tern_dev_kill(&fake->tdev);
	cancel_work_sync(&fake->tdev.async_work);
	tern_aq_free(&fake->tdev);
	irq_free_desc(fake->pdev.irq);
	device_del(&fake->pdev.dev);
	put_device(&fake->pdev.dev);
}
