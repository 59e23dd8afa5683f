/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* tern.ko internals: the PCI function, its admin queue and its event queues. */
#ifndef TERN_DEV_H
#define TERN_DEV_H

#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/devlink.h>

#ifndef TERN_WITHOUT_AQ_POLL
#include "tern_aq_record.h"
#endif
#include "tern_core.h"
#include "tern_hw.h"

#define TERN_DRV_NAME		"tern"

/* Port of the Ethernet function. The device numbers its ports from 1. */
#define TERN_ETH_PORT		1

/*
 * Memory of one queue, zeroed when allocated: entries, then the doorbell
 * record. The queue's buffer is the entries alone; the record has its own
 * address.
 */
struct tern_buf {
	void *va;
	dma_addr_t dma;
	size_t size;
	size_t record_offset;
};

#define TERN_AQ_LOG_SIZE	5
#define TERN_AQ_SIZE		BIT(TERN_AQ_LOG_SIZE)
#ifndef TERN_WITHOUT_VERBS
/* Maximum number of slots for commands that wait for zeroed device memory. */
#define TERN_AQ_MAX_SLOW	8
#endif

struct tern_mailbox {
	u8 in[TERN_CMD_MAX_LEN];
	u8 out[TERN_CMD_MAX_LEN];
};

/* Part of the admin queue that the device accesses: coherent memory. */
struct tern_aq_mem {
	struct tern_aq_entry aq[TERN_AQ_SIZE];
	struct tern_acq_entry acq[TERN_AQ_SIZE];
#ifndef TERN_WITHOUT_AQ_POLL
	struct tern_aq_record record __aligned(sizeof(struct tern_aq_record));
#endif
	struct tern_mailbox mbox[TERN_AQ_SIZE];
};

enum tern_cmd_state {
	TERN_CMD_IDLE,		/* no command, or one not yet submitted */
	TERN_CMD_SUBMITTED,
	TERN_CMD_DONE,
	TERN_CMD_ABANDONED,	/* timed out; the device may still write the mailbox */
};

struct tern_cmd_slot {
	struct completion done;
	enum tern_cmd_state state;
	u32 tag;
	u16 out_len;
#ifndef TERN_WITHOUT_VERBS
	bool slow;
#endif
	int err;
};

/* A caller that waits for a slot. */
struct tern_aq_waiter {
	struct list_head entry;
	struct completion done;
	int index;		/* the slot, or an error */
#ifndef TERN_WITHOUT_VERBS
	bool slow;
#endif
};

/* Admin queue. */
struct tern_aq {
	spinlock_t lock;	/* protects everything below; taken in hard interrupt context */
	wait_queue_head_t wait;	/* waits for @users to reach 0 */
	struct tern_aq_mem *mem;	/* the rings and mailboxes */
	dma_addr_t dma;	/* DMA address of @mem */
	u32 tail;	/* producer index of the admin queue */
	u32 ci;	/* consumer index of the completion queue */
#ifndef TERN_WITHOUT_AQ_POLL
	u32 arm;	/* index of the answer for which an interrupt was requested last */
	bool early;	/* an answer was processed before its interrupt arrived */
#endif
	u32 count;	/* number of commands submitted; makes tags unique */
	u32 answered;	/* number of commands that the device has answered */
	unsigned long timeout;	/* command timeout in jiffies */
	unsigned int users;	/* number of slots that callers of tern_cmd_exec() hold */
	/* Slots that have no user and for which no answer is outstanding. */
	DECLARE_BITMAP(free, TERN_AQ_SIZE);
	struct list_head waiters;	/* callers that wait for a slot, in order */
#ifndef TERN_WITHOUT_VERBS
	struct list_head slow_waiters;	/* those of slow commands */
#endif
	/* One per entry, so that neither ring can overflow. */
	struct tern_cmd_slot slots[TERN_AQ_SIZE];
};

/* An event queue. Only one context at a time consumes entries. */
struct tern_eq {
	struct tern_dev *tdev;
	struct tern_buf buf;
	const void *ring;
	struct tern_eq_record *record;
	u32 ci;
	u32 id;
	u8 entry_size;		/* in bytes */
	u8 log_size;
	unsigned int vector;
	tern_eq_handler_t handler;	/* of a queue of completions */
#ifndef TERN_WITHOUT_FAULT
	void (*notify)(void *context);	/* of the queue of page faults */
#endif
	void *context;
};

enum {
	TERN_DEV_DEAD,		/* commands are no longer answered */
	TERN_DEV_TELL_DEAD,	/* TERN_CORE_EV_DEAD is yet to be delivered */
	TERN_DEV_UP,		/* tern_hw_up() has run; changed under the devlink lock */
#ifndef TERN_WITHOUT_RESET
	TERN_DEV_HELD,		/* taken down by the PCI core or for system sleep; devlink lock */
#endif
};

/* The PCI function. */
struct tern_dev {
	struct tern_core core;	/* the part that the RDMA driver sees */
	struct tern_rsp_caps caps;	/* reply of QUERY_CAPS */
	void __iomem *regs;	/* BAR0 */
	unsigned long flags;	/* TERN_DEV_* bits */
	unsigned int num_vectors;	/* number of MSI-X vectors granted */
	/* Number of channels of the network device that these allow. */
	unsigned int max_channels;
	struct tern_aq aq;	/* admin queue */
	struct tern_eq async_eq;	/* asynchronous event queue, drained only by @async_work */
	struct work_struct async_work;	/* delivers events in process context */
	struct delayed_work health_work;	/* detects a failed or removed device */
#ifndef TERN_WITHOUT_RESET
	/* Reports a failure to devlink, which may recover the device. */
	struct work_struct report_work;
	/* Devlink health reporter for fatal failures. */
	struct devlink_health_reporter *fatal_reporter;
#endif
	u32 fatal;	/* TERN_FATAL_* of the last failure */
#ifndef TERN_WITHOUT_CC
	bool cc_registered;	/* the parameters of congestion control; devlink lock */
#endif
	struct devlink_port devlink_port;	/* port of the network device */
#ifndef TERN_WITHOUT_DEBUGFS
	struct dentry *debugfs;	/* debugfs directory of the function */
#endif
	struct blocking_notifier_head events;	/* listeners for asynchronous events */
	spinlock_t dead_lock;	/* makes setting TERN_DEV_DEAD and its consequences atomic */
#ifndef TERN_WITHOUT_VERBS
	struct tern_adev *adev;	/* auxiliary device, NULL if there is none */
#endif
	struct tern_net *net;	/* private data of the network device */
};

static inline struct tern_dev *core_to_tdev(struct tern_core *core)
{
	return container_of(core, struct tern_dev, core);
}

static inline struct device *tern_dma_dev(struct tern_dev *tdev)
{
	return &tdev->core.pdev->dev;
}

static inline bool tern_dev_dead(struct tern_dev *tdev)
{
	return test_bit(TERN_DEV_DEAD, &tdev->flags);
}

/* CPU of the @index-th vector for completions, and of the channel on it. */
static inline unsigned int tern_vector_cpu(struct device *dev, unsigned int index)
{
	return cpumask_local_spread(index, dev_to_node(dev));
}

/* tern_aq.c */
void tern_aq_init(struct tern_dev *tdev);
int tern_aq_alloc(struct tern_dev *tdev);
void tern_aq_free(struct tern_dev *tdev);
bool tern_aq_reap(struct tern_dev *tdev);
void tern_aq_fail_all(struct tern_dev *tdev);
#ifndef TERN_WITHOUT_RESET
int tern_aq_overrun(struct tern_dev *tdev);
#endif
int tern_aq_claim(struct tern_dev *tdev);
#ifndef TERN_WITHOUT_VERBS
int tern_aq_claim_slow(struct tern_dev *tdev, unsigned long timeout);
#endif
void tern_aq_release(struct tern_aq *aq, unsigned int index);
void tern_aq_submit(struct tern_dev *tdev, unsigned int index, u16 opcode,
		    size_t in_len, size_t out_len);
#ifndef TERN_WITHOUT_AQ_POLL
void tern_aq_expect(struct tern_aq *aq, unsigned int index);
#endif
bool tern_aq_abandon(struct tern_aq *aq, unsigned int index);
void tern_aq_leave(struct tern_aq *aq);
int tern_status_to_errno(u16 status);

/* tern_dev.c */
void tern_dev_kill(struct tern_dev *tdev);
void tern_dev_retire(struct tern_dev *tdev);
bool tern_dev_check(struct tern_dev *tdev);
#ifndef TERN_WITHOUT_RESET
bool tern_dev_gone(struct tern_dev *tdev);
#endif

/* tern_cmd.c */
bool tern_cmd_moves_memory(u16 opcode);
#ifndef TERN_WITHOUT_VERBS
unsigned int tern_cmd_extra_seconds(u16 opcode, u64 dm_size);
#endif
int tern_buf_alloc(struct tern_dev *tdev, struct tern_buf *buf,
		   size_t entry_size, u8 log_size);
void tern_buf_free(struct tern_dev *tdev, struct tern_buf *buf);
struct tern_pages tern_buf_pages(const struct tern_buf *buf);
__le64 tern_buf_record(const struct tern_buf *buf);
int tern_cmd_create(struct tern_dev *tdev, u16 opcode, const void *in,
		    size_t in_len, u32 *id);
void tern_cmd_destroy(struct tern_dev *tdev, u16 opcode, u32 id);
int tern_cmd_query_port(struct tern_dev *tdev, struct tern_rsp_port *port);

#ifndef TERN_WITHOUT_DEBUGFS
/* tern_debugfs.c */
void tern_debugfs_init(void);
void tern_debugfs_exit(void);
void tern_debugfs_add(struct tern_dev *tdev);
void tern_debugfs_remove(struct tern_dev *tdev);

#endif
/* tern_eq.c */
int tern_eq_alloc_buf(struct tern_dev *tdev, struct tern_eq *eq, size_t entry_size,
		      u8 log_size);
int tern_eq_cmd_create(struct tern_eq *eq, u8 kind);
bool tern_eq_pending(const struct tern_eq *eq);
const void *tern_eq_peek(const struct tern_eq *eq);
void tern_eq_advance(struct tern_eq *eq);
bool tern_eq_next(struct tern_eq *eq, struct tern_eqe *eqe);
struct tern_eq *tern_eq_alloc(struct tern_dev *tdev, unsigned int vector, size_t entry_size,
			      u8 log_size);
struct tern_eq *tern_eq_start(struct tern_eq *eq, u8 kind, irq_handler_t handler,
			      const char *name);
struct tern_eq *tern_eq_create_on(struct tern_dev *tdev, unsigned int vector,
				  unsigned int nent, tern_eq_handler_t handler,
				  void *context);

/* tern_event.c */
irqreturn_t tern_admin_irq(int irq, void *data);
void tern_async_work(struct work_struct *work);

/* tern_devlink.c */
struct tern_dev *tern_devlink_alloc(struct pci_dev *pdev);
int tern_devlink_port_register(struct tern_dev *tdev);
int tern_devlink_register(struct tern_dev *tdev);
void tern_devlink_unregister(struct tern_dev *tdev);

#ifndef TERN_WITHOUT_CC
/* tern_cc.c */
int tern_cc_register(struct tern_dev *tdev);
void tern_cc_unregister(struct tern_dev *tdev);

#endif
/* tern_bringup.c */
void tern_health_work(struct work_struct *work);
int tern_alloc_vectors(struct tern_dev *tdev);
int tern_hw_up(struct tern_dev *tdev);
void tern_hw_down(struct tern_dev *tdev);

#ifndef TERN_WITHOUT_VERBS
/* tern_adev.c */
void tern_adev_add(struct tern_dev *tdev);
void tern_adev_del(struct tern_dev *tdev);

#endif
#ifndef TERN_WITHOUT_RESET
void tern_dev_down(struct tern_dev *tdev);
int tern_dev_up(struct tern_dev *tdev);
int tern_dev_recover(struct tern_dev *tdev);

/* tern_reset.c */
extern const struct pci_error_handlers tern_err_handler;
extern const struct dev_pm_ops tern_pm_ops;
void tern_shutdown(struct pci_dev *pdev);

#endif
#endif /* TERN_DEV_H */
