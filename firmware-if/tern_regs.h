/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: PCI identity, BARs, registers, doorbells.
 *
 * Every multi-byte register and memory structure is little-endian. All masks
 * fit into 32 bits. The including file must provide GENMASK(), BIT() and
 * static_assert().
 * The device, the kernel drivers and the rdma-core provider have the same text.
 */
#ifndef TERN_REGS_H
#define TERN_REGS_H

#include <linux/types.h>

/* PCI identity: 1af4:10f0 is in the range that QEMU leaves to experiments. */
#define TERN_PCI_VENDOR_ID		0x1af4
#define TERN_PCI_DEVICE_ID		0x10f0
#define TERN_PCI_CLASS			0x020700
#define TERN_PCI_REVISION		0x01

/* Contract version: a driver refuses another major version and ignores the minor. */
#define TERN_VERSION_MAJOR		1
#define TERN_VERSION_MINOR		0

/* BAR0: registers and MSI-X. 32-bit accesses only; others read ones and write nothing. */
#define TERN_BAR_REGS			0
#define TERN_BAR_REGS_SIZE		0x10000
#define TERN_MSIX_TABLE_OFFSET		0x8000
#define TERN_MSIX_PBA_OFFSET		0xc000
#define TERN_MAX_VECTORS		128
/* BAR2: doorbell pages (UAR), stride 1 << TERN_REG_PAGE_SHIFT. */
#define TERN_BAR_UAR			2
/* BAR4: on-device memory, prefetchable; absent when the device has none. */
#define TERN_BAR_DM			4

/* Registers of BAR0: offsets. RO: read-only, WO: write-only, RW: both. */
#define TERN_REG_MAGIC			0x000	/* RO TERN_MAGIC */
#define TERN_REG_VERSION		0x004	/* RO major << 16 | minor */
#define TERN_REG_STATUS			0x008	/* RO TERN_STATUS_* */
#define TERN_REG_CTRL			0x00c	/* WO TERN_CTRL_*, one bit at a time */
#define TERN_REG_PAGE_SHIFT		0x010	/* RW host page shift 12..16; before ENABLE */
#define TERN_REG_FATAL			0x014	/* RO TERN_FATAL_* while STATUS has FATAL */
#define TERN_REG_AQ_BASE_LO		0x020	/* RW admin queue address, 64-byte aligned */
#define TERN_REG_AQ_BASE_HI		0x024
#define TERN_REG_ACQ_BASE_LO		0x028	/* RW admin completion queue address */
#define TERN_REG_ACQ_BASE_HI		0x02c
#define TERN_REG_AQ_LOG_SIZE		0x030	/* RW log2 of entries of both, 1..8 */
#define TERN_REG_AQ_TAIL		0x034	/* WO producer index, free running, 32 bits */
#define TERN_REG_AQ_RECORD_LO		0x038	/* RW address of a struct tern_aq_record, or 0 */
#define TERN_REG_AQ_RECORD_HI		0x03c
#define TERN_REG_CLOCK_LO		0x040	/* RO device clock in ns; reading LO latches HI */
#define TERN_REG_CLOCK_HI		0x044

#define TERN_MAGIC			0x4e524554	/* "TERN" */

#define TERN_STATUS_READY		BIT(0)	/* reset is over, registers may be written */
#define TERN_STATUS_ENABLED		BIT(1)	/* the admin queue is served */
#define TERN_STATUS_FATAL		BIT(2)	/* only CTRL_RESET leaves this state */

#define TERN_CTRL_RESET			BIT(0)	/* destroys every object; READY when done */
#define TERN_CTRL_ENABLE		BIT(1)	/* takes PAGE_SHIFT and AQ registers */

#define TERN_FATAL_NONE			0
#define TERN_FATAL_AQ_DMA		1	/* admin queue not reachable by DMA */
#define TERN_FATAL_AQ_OVERRUN		2	/* AQ_TAIL ran past the queue */
#define TERN_FATAL_EQ_DMA		3	/* event queue not reachable by DMA */
#define TERN_FATAL_CONFIG		4	/* ENABLE with a register out of range */
#define TERN_FATAL_INTERNAL		5

/* Page shifts that every device accepts; it may refuse others (FATAL_CONFIG). */
#define TERN_PAGE_SHIFT_MIN		12
#define TERN_PAGE_SHIFT_MAX		16

/* When the function is gone, all registers read all ones. */
#define TERN_REG_GONE			0xffffffffU

/*
 * Doorbell page. Software does one 32-bit store to TERN_UAR_DB:
 * command << 28 | queue number. The store is only a kick: the indices are in the
 * queue's doorbell record. TERN_DB_CMD_PAGE refers to no single queue: the device
 * serves every queue that belongs to the page, as it does when the value of a
 * store is lost on its way (an ioeventfd). The device ignores a store for a queue
 * that does not belong to the page, and counts it (TERN_CNT_BAD_DOORBELL).
 */
#define TERN_UAR_DB			0x000	/* WO */
#define TERN_UAR_CLOCK_LO		0x010	/* RO as TERN_REG_CLOCK_LO, own latch */
#define TERN_UAR_CLOCK_HI		0x014

#define TERN_DB_NUM_MASK		GENMASK(23, 0)
#define TERN_DB_CMD_MASK		GENMASK(31, 28)
#define TERN_DB_CMD_PAGE		0U	/* all queues of the page; the number is ignored */
#define TERN_DB_CMD_SQ			1U	/* QP: read sq_pi */
#define TERN_DB_CMD_RQ			2U	/* QP: read rq_pi; needed with RQ_KICK */
#define TERN_DB_CMD_CQ_ARM		3U	/* CQ: read the arm word */
#define TERN_DB_CMD_EQ_CI		4U	/* asynchronous and fault EQ: read ci */
#define TERN_DB_CMD_ETH_TX		5U	/* Ethernet transmit queue: read pi */
#define TERN_DB_CMD_TM			6U	/* SRQ with tags: read ops_pi */

/* Page 0 belongs to the kernel; ALLOC_UAR and MAP_DM_OP allocate the others. */
#define TERN_UAR_KERNEL			0

#endif /* TERN_REGS_H */
