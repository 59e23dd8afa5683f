/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Arithmetic of rings, tags and status codes: pure functions, testable alone. */
#ifndef TERN_UTIL_H
#define TERN_UTIL_H

#include <linux/errno.h>
#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/sizes.h>

#include "tern_hw.h"

/* Bytes of device memory that a slow device zeroes in a second. */
#define TERN_DM_ZERO_RATE	SZ_128M

/*
 * Seconds that a command may take on top of the usual time. ALLOC_DM ends when its
 * memory is zero, and all that run at once zero @dm_size bytes at most.
 */
static inline unsigned int tern_cmd_extra_seconds(u16 opcode, u64 dm_size)
{
	u64 seconds = div_u64(dm_size, TERN_DM_ZERO_RATE);

	return opcode == TERN_CMD_ALLOC_DM ? min_t(u64, seconds, SZ_1M) : 0;
}

/* -errno of an admin command's TERN_ST_*. */
static inline int tern_status_to_errno(u16 status)
{
	switch (status) {
	case TERN_ST_OK:
		return 0;
	case TERN_ST_BAD_OPCODE:
	case TERN_ST_BAD_VERSION:
	case TERN_ST_NOT_SUPPORTED:
		return -EOPNOTSUPP;
	case TERN_ST_BAD_LENGTH:
	case TERN_ST_BAD_PARAM:
	case TERN_ST_BAD_STATE:
		return -EINVAL;
	case TERN_ST_BAD_HANDLE:
		return -ENOENT;
	case TERN_ST_BUSY:
		return -EBUSY;
	case TERN_ST_NO_RESOURCE:
	case TERN_ST_NO_MEMORY:
		return -ENOMEM;
	case TERN_ST_DMA_ERROR:
		return -EFAULT;
	case TERN_ST_DENIED:
		return -EPERM;
	default:
		return -EIO;
	}
}

/*
 * Whether a command gives memory to the device or takes it back. When such a
 * command goes unanswered nobody knows who owns the memory.
 */
static inline bool tern_cmd_moves_memory(u16 opcode)
{
	switch (opcode) {
	case TERN_CMD_CREATE_EQ:
	case TERN_CMD_DESTROY_EQ:
	case TERN_CMD_CREATE_CQ:
	case TERN_CMD_DESTROY_CQ:
	case TERN_CMD_RESIZE_CQ:
	case TERN_CMD_CREATE_MR:
	case TERN_CMD_DESTROY_MR:
	case TERN_CMD_UPDATE_PAGES:
	case TERN_CMD_REREG_MR:
	case TERN_CMD_CREATE_QP:
	case TERN_CMD_DESTROY_QP:
	case TERN_CMD_MODIFY_QP:	/* to RESET: posted work is forgotten */
	case TERN_CMD_CREATE_SRQ:
	case TERN_CMD_DESTROY_SRQ:
	case TERN_CMD_MODIFY_SRQ:
	case TERN_CMD_CREATE_ETH_QUEUE:
	case TERN_CMD_DESTROY_ETH_QUEUE:
		return true;
	default:
		return false;
	}
}

/* A command's tag: its slot, and a count that tells it from earlier users of the slot. */
#define TERN_TAG_SLOT_MASK	GENMASK(7, 0)
#define TERN_TAG_COUNT_MASK	GENMASK(31, 8)

static inline u32 tern_tag_make(unsigned int slot, u32 count)
{
	return FIELD_PREP(TERN_TAG_SLOT_MASK, slot) |
	       FIELD_PREP(TERN_TAG_COUNT_MASK,
			  count & FIELD_MAX(TERN_TAG_COUNT_MASK));
}

static inline unsigned int tern_tag_slot(u32 tag)
{
	return FIELD_GET(TERN_TAG_SLOT_MASK, tag);
}

/*
 * Whether the phase word of entry @index of a ring of 1 << @log_size entries says
 * that the device has written it: 1 on the first pass, 0 on the second, ...
 */
static inline bool tern_phase_valid(u32 phase, u32 index, u8 log_size)
{
	return (phase & TERN_CQE_PHASE) == (~(index >> log_size) & TERN_CQE_PHASE);
}

/* Entries between the free-running indices @ci and @pi. */
static inline u32 tern_ring_used(u32 pi, u32 ci)
{
	return pi - ci;
}

static inline u32 tern_ring_free(u32 pi, u32 ci, u8 log_size)
{
	return BIT(log_size) - tern_ring_used(pi, ci);
}

static inline u32 tern_ring_slot(u32 index, u8 log_size)
{
	return index & (BIT(log_size) - 1);
}

/* The arm word of struct tern_cq_record. */
static inline u32 tern_cq_arm_word(u32 ci, u32 seq, bool solicited)
{
	return FIELD_PREP(TERN_CQ_ARM_CI_MASK, ci & FIELD_MAX(TERN_CQ_ARM_CI_MASK)) |
	       FIELD_PREP(TERN_CQ_ARM_SEQ_MASK, seq & FIELD_MAX(TERN_CQ_ARM_SEQ_MASK)) |
	       (solicited ? TERN_CQ_ARM_SOLICITED : 0) | TERN_CQ_ARM_VALID;
}

/* Log2 of entries of an event queue for @nent events; CREATE_EQ takes 4..20. */
static inline u8 tern_eq_log_size(unsigned int nent)
{
	return max(order_base_2(nent), 4);
}

#define TERN_EQ_MAX_ENTRIES	BIT(20)

/* Longest frame of @mtu: two VLAN tags may stand before the payload. */
static inline unsigned int tern_frame_len(unsigned int mtu)
{
	return min(mtu + ETH_HLEN + 2 * VLAN_HLEN, TERN_ETH_MAX_FRAME);
}

/* MSI-X vector of completion vector @comp when @num_vectors were granted. */
static inline unsigned int tern_comp_to_msix(unsigned int comp, unsigned int num_vectors)
{
	/* 0: admin and events, 1: netdev, the rest RDMA; few are shared. */
	return num_vectors > 2 ? 2 + comp : num_vectors - 1;
}

static inline unsigned int tern_num_comp_vectors(unsigned int num_vectors)
{
	return num_vectors > 2 ? num_vectors - 2 : 1;
}

#endif /* TERN_UTIL_H */
