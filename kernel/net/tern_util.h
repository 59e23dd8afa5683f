/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Arithmetic on rings, tags and vectors. */
#ifndef TERN_UTIL_H
#define TERN_UTIL_H

#include <linux/if_ether.h>
#include <linux/if_vlan.h>
#include <linux/log2.h>
#include <linux/minmax.h>

#include "tern_hw.h"

/*
 * A command's tag is its slot and a count that distinguishes it from earlier
 * users of the slot.
 */
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
 * Whether the phase word of entry @index, in a ring of 1 << @log_size entries,
 * shows that the device has written the entry: the phase is 1 on the first
 * pass, 0 on the second, and so on.
 */
static inline bool tern_phase_valid(u32 phase, u32 index, u8 log_size)
{
	return (phase & TERN_CQE_PHASE) == (~(index >> log_size) & TERN_CQE_PHASE);
}

/* Number of entries between the free-running indices @ci and @pi. */
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

/* Arm word of struct tern_cq_record. */
static inline u32 tern_cq_arm_word(u32 ci, u32 seq, bool solicited)
{
	return FIELD_PREP(TERN_CQ_ARM_CI_MASK, ci & FIELD_MAX(TERN_CQ_ARM_CI_MASK)) |
	       FIELD_PREP(TERN_CQ_ARM_SEQ_MASK, seq & FIELD_MAX(TERN_CQ_ARM_SEQ_MASK)) |
	       (solicited ? TERN_CQ_ARM_SOLICITED : 0) | TERN_CQ_ARM_VALID;
}

/*
 * Index of the first CQE for which an arm is not too late: neither consumed nor
 * reported by an event.
 */
static inline u32 tern_cq_unreported(u32 ci, u32 reported)
{
	return (s32)(reported - ci) > 0 ? reported : ci;
}

/* Log2 of the size of an EQ for @nent events. CREATE_EQ accepts 4..20. */
static inline u8 tern_eq_log_size(unsigned int nent)
{
	return max(order_base_2(nent), 4);
}

#define TERN_EQ_MAX_ENTRIES	BIT(20)

/* Maximum frame length for @mtu, with two VLAN tags. */
static inline unsigned int tern_frame_len(unsigned int mtu)
{
	return min(mtu + ETH_HLEN + 2 * VLAN_HLEN, TERN_ETH_MAX_FRAME);
}

/* MSI-X vector of channel @index of the netdev. */
static inline unsigned int tern_net_to_msix(unsigned int index, unsigned int num_vectors)
{
	return num_vectors > 1 ? 1 + index % (num_vectors - 1) : 0;
}

#endif /* TERN_UTIL_H */
