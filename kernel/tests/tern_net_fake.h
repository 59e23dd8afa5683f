/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A device in memory for tests of tern.ko's network device. */
#ifndef TERN_NET_FAKE_H
#define TERN_NET_FAKE_H

#include <kunit/test.h>
#include <linux/kthread.h>

#include "tern_counts.h"
#include "tern_net.h"
#ifndef TERN_WITHOUT_STEERING
#include "tern_flow.h"
#endif

/* What the fake device adds to a number for its generation. */
#define TERN_TEST_GENERATION	0x80000000

struct tern_test_net {
	struct tern_dev tdev;
	struct pci_dev pdev;
	struct task_struct *device;
	u32 head;		/* commands that the device has executed */
	u32 pi;			/* answers that the device has written */
	u32 next_id;
	u16 refused;		/* opcode that fails with NO_MEMORY */
	unsigned int modify_cq_left;	/* until the MODIFY_CQ that fails so, or 0 */
	u16 periods[64];	/* of moderation, by tern_test_cq_slot() */
	u32 port_mtu;
	bool port_enabled;
	struct tern_cmd_set_rx_filter filter;
	u64 counters[TERN_ETH_CNT_NUM];
	int eth_queues;
	unsigned int eth_created;	/* queues, ever */
	unsigned int dangling;	/* queues destroyed while steering referred to them */
	int rss_groups;
	const struct tern_channel *steered;	/* to count in steered_late, or NULL */
	unsigned int steered_late;	/* commands of steering while it was down */
	struct tern_cmd_rss rss;		/* last CREATE_RSS or MODIFY_RSS */
	struct tern_cmd_rss old_rss;		/* the one before */
	unsigned int rss_modified;	/* MODIFY_RSS, ever */
#ifndef TERN_WITHOUT_STEERING
	struct tern_cmd_create_flow flow;	/* last CREATE_FLOW */
	int flows;
#endif
	struct tern_cmd_set_rx_default rx_default;
	u32 old_id;
	bool rtnl_released;
	struct completion rtnl_taken;
	struct work_struct rtnl_work;
	u8 regs[TERN_BAR_REGS_SIZE] __aligned(8);
};

/* Numbers of the queues of one start are close to each other. */
static inline u32 tern_test_cq_slot(u32 cqn)
{
	return cqn % 64;
}

struct tern_net *tern_test_net(struct kunit *test);
struct tern_queues *tern_test_queues(struct kunit *test);
bool tern_test_wait(bool (*is_true)(struct kunit *test), struct kunit *test);
int tern_test_set_mtu(struct kunit *test, int mtu);
void tern_test_open(struct kunit *test);
int tern_test_set_channels(struct kunit *test, unsigned int num);
void tern_test_many(struct kunit *test);
/* Makes allocations of memory for queues fail. */
void tern_test_exhaust(struct kunit *test, bool on);
int tern_test_net_init(struct kunit *test);
void tern_test_net_exit(struct kunit *test);

#endif /* TERN_NET_FAKE_H */
