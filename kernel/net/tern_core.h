/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Interface of the network driver, which owns the PCI function, to the RDMA
 * driver: admin commands, event queues, doorbell pages, asynchronous events.
 */
#ifndef TERN_CORE_H
#define TERN_CORE_H

#include <linux/auxiliary_bus.h>
#include <linux/dma-mapping.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/pci.h>
#include <linux/types.h>

#ifndef TERN_WITHOUT_PTP
struct ib_uverbs_clock_info;
#endif
struct tern_eq;
struct tern_eqe;

/* The part of the PCI function that both drivers use. */
struct tern_core {
	struct pci_dev *pdev;	/* the PCI device, also used for all DMA */
	struct net_device *netdev;	/* the Ethernet function */
	const struct tern_rsp_caps *caps;	/* reply of QUERY_CAPS, little-endian */
	phys_addr_t uar_phys;	/* physical address of BAR2 */
	void __iomem *uar_kernel;	/* mapping of doorbell page 0 */
	unsigned int page_shift;	/* log2 of the doorbell page stride and of the DM granule */
#ifndef TERN_WITHOUT_VERBS
	phys_addr_t dm_phys;	/* physical address of BAR4, 0 without device memory */
	u64 dm_size;	/* size of device memory in bytes */
	/* Number of completion vectors that tern_eq_create() accepts. */
	unsigned int num_comp_vectors;
#endif
#ifndef TERN_WITHOUT_PTP
	/*
	 * Page with the state of the PTP clock, which processes may map; NULL without a PTP
	 * clock.
	 */
	const struct ib_uverbs_clock_info *clock;
#endif
};

#ifndef TERN_WITHOUT_STEERING
/* RSS groups of the network device, the default one included. Others are free for RDMA. */
#define TERN_MAX_RSS		32

#endif
int tern_cmd_exec(struct tern_core *core, u16 opcode, const void *in,
		  size_t in_len, void *out, size_t out_len);

/* Called for each EQE in hard interrupt context. The EQE is a copy. */
typedef void (*tern_eq_handler_t)(void *context, const struct tern_eqe *eqe);

void tern_eq_destroy(struct tern_eq *eq);
u32 tern_eq_number(const struct tern_eq *eq);

/* The action that reports the device's death to listeners for asynchronous events, TERN_EV_*. */
#define TERN_CORE_EV_DEAD	0x10000UL

void tern_ring(struct tern_core *core, u32 command, u32 number);

#ifndef TERN_WITHOUT_VERBS
#define TERN_AUX_RDMA_NAME	"rdma"

/* Auxiliary device that the RDMA driver binds to. */
struct tern_adev {
	struct auxiliary_device adev;	/* the auxiliary device, named "tern.rdma" */
	struct tern_core *core;	/* the PCI function, which outlives the auxiliary device */
};

static inline struct tern_core *tern_adev_core(struct auxiliary_device *adev)
{
	return container_of(adev, struct tern_adev, adev)->core;
}

/* MSI-X vector of completion vector @comp if @num_vectors were granted. */
static inline unsigned int tern_comp_to_msix(unsigned int comp, unsigned int num_vectors)
{
	/* Vector 0 is for admin and events, 1.. for channels, 2.. also for RDMA. */
	return num_vectors > 2 ? 2 + comp : num_vectors - 1;
}

static inline unsigned int tern_num_comp_vectors(unsigned int num_vectors)
{
	return num_vectors > 2 ? num_vectors - 2 : 1;
}

/* tern_adev.c */
bool tern_core_dead(struct tern_core *core);
void tern_core_stop(struct tern_core *core);
struct tern_eq *tern_eq_create(struct tern_core *core, unsigned int vector,
			       unsigned int nent, tern_eq_handler_t handler,
			       void *context);
int tern_register_event_notifier(struct tern_core *core, struct notifier_block *nb);
void tern_unregister_event_notifier(struct tern_core *core, struct notifier_block *nb);

#endif
#ifndef TERN_WITHOUT_FAULT
struct tern_fault;

/*
 * The event queue for page faults. @notify is called in hard interrupt context
 * when there are faults, which one thread takes with tern_fault_eq_next() until
 * that returns false, followed by tern_fault_eq_done(). tern_eq_destroy() destroys
 * it, once nobody takes faults.
 */
struct tern_eq *tern_fault_eq_create(struct tern_core *core,
				     void (*notify)(void *context), void *context);
bool tern_fault_eq_next(struct tern_eq *eq, struct tern_fault *fault);
void tern_fault_eq_done(struct tern_eq *eq);

#endif
#endif /* TERN_CORE_H */
