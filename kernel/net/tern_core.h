/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the network driver, owner of the PCI function, gives the RDMA driver:
 * admin commands, event queues, doorbell pages, asynchronous events.
 */
#ifndef TERN_CORE_H
#define TERN_CORE_H

#include <linux/auxiliary_bus.h>
#include <linux/dma-mapping.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/types.h>

struct tern_eq;
struct tern_eqe;

#define TERN_AUX_RDMA_NAME	"rdma"

/**
 * struct tern_core - the PCI function as its drivers see it
 * @pdev: the PCI device; also the DMA device of everything
 * @netdev: the Ethernet function
 * @caps: what QUERY_CAPS said (struct tern_rsp_caps, little-endian)
 * @uar_phys: bus-physical start of BAR2
 * @uar_kernel: doorbell page 0, mapped
 * @dm_phys: start of BAR4, 0 without device memory
 * @dm_size: bytes of device memory
 * @page_shift: log2 of the stride of doorbell pages and of the DM granule
 * @num_comp_vectors: completion vectors tern_eq_create() accepts
 */
struct tern_core {
	struct pci_dev *pdev;
	struct net_device *netdev;
	const struct tern_rsp_caps *caps;
	phys_addr_t uar_phys;
	void __iomem *uar_kernel;
	phys_addr_t dm_phys;
	u64 dm_size;
	unsigned int page_shift;
	unsigned int num_comp_vectors;
};

/**
 * struct tern_adev - auxiliary device the RDMA driver binds to
 * @adev: the auxiliary device, named "tern.rdma"
 * @core: the function behind it; outlives the auxiliary device
 */
struct tern_adev {
	struct auxiliary_device adev;
	struct tern_core *core;
};

static inline struct tern_core *tern_adev_core(struct auxiliary_device *adev)
{
	return container_of(adev, struct tern_adev, adev)->core;
}

/* Runs an admin command; sleeps. 0, or -errno for the device's status; -EIO for a dead device. */
int tern_cmd_exec(struct tern_core *core, u16 opcode, const void *in,
		  size_t in_len, void *out, size_t out_len);

/* True once the function is dead, reset or gone: its objects are gone too, destroys succeed. */
bool tern_core_dead(struct tern_core *core);

/* Called for each EQE in hard interrupt context; the EQE is a copy. */
typedef void (*tern_eq_handler_t)(void *context, const struct tern_eqe *eqe);

/*
 * Creates a completion event queue on completion vector 0..num_comp_vectors - 1
 * with room for at least @nent events. tern_eq_destroy() returns when no handler runs.
 */
struct tern_eq *tern_eq_create(struct tern_core *core, unsigned int vector,
			       unsigned int nent, tern_eq_handler_t handler,
			       void *context);
void tern_eq_destroy(struct tern_eq *eq);
u32 tern_eq_number(const struct tern_eq *eq);

/*
 * Asynchronous events: the chain's data is a const struct tern_eqe *, the action
 * one of TERN_EV_* or TERN_CORE_EV_DEAD; called in process context.
 */
#define TERN_CORE_EV_DEAD	0x10000UL
int tern_register_event_notifier(struct tern_core *core, struct notifier_block *nb);
void tern_unregister_event_notifier(struct tern_core *core, struct notifier_block *nb);

/* Rings @command (TERN_DB_CMD_*) for queue @number on the kernel's doorbell page. */
void tern_ring(struct tern_core *core, u32 command, u32 number);

/* The device clock, ns. */
u64 tern_read_clock(struct tern_core *core);

#endif /* TERN_CORE_H */
