// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Bring-up and teardown of the PCI function: reset, admin queue, interrupts. */

#include <linux/io.h>
#include <linux/iopoll.h>
#include <linux/irq.h>
#ifndef TERN_WITHOUT_RESET
#include <linux/sched/mm.h>
#endif

#include "tern_dev.h"
#include "tern_net.h"
#include "tern_util.h"

#define TERN_RESET_TIMEOUT_US	(10 * USEC_PER_SEC)
#define TERN_RESET_POLL_US	1000
#define TERN_HEALTH_INTERVAL	HZ
/* Size of the asynchronous queue. Events that do not fit wait in the device. */
#define TERN_ASYNC_EQ_LOG_SIZE	8

static u32 tern_read(struct tern_dev *tdev, u32 reg)
{
	return readl(tdev->regs + reg);
}

static void tern_write(struct tern_dev *tdev, u32 reg, u32 value)
{
	writel(value, tdev->regs + reg);
}

static void tern_write_addr(struct tern_dev *tdev, u32 reg_lo, dma_addr_t addr)
{
	static_assert(TERN_REG_AQ_BASE_HI - TERN_REG_AQ_BASE_LO == 4);
	static_assert(TERN_REG_ACQ_BASE_HI - TERN_REG_ACQ_BASE_LO == 4);
	static_assert(TERN_REG_AQ_RECORD_HI - TERN_REG_AQ_RECORD_LO == 4);

	tern_write(tdev, reg_lo, lower_32_bits(addr));
	tern_write(tdev, reg_lo + 4, upper_32_bits(addr));
}

void tern_health_work(struct work_struct *work)
{
	struct tern_dev *tdev = container_of(to_delayed_work(work),
					     struct tern_dev, health_work);

	if (!tern_dev_check(tdev))
		return;
	/* Finds answers and events whose interrupt was lost. */
	tern_aq_reap(tdev);
	if (tern_eq_pending(&tdev->async_eq))
		schedule_work(&tdev->async_work);
	schedule_delayed_work(&tdev->health_work, TERN_HEALTH_INTERVAL);
}

/* Waits until the bits of STATUS in @mask equal @want. */
static int tern_wait_status(struct tern_dev *tdev, u32 mask, u32 want)
{
	u32 status;
	int err;

	err = read_poll_timeout(tern_read, status,
				status == TERN_REG_GONE ||
				status & TERN_STATUS_FATAL & ~mask ||
				(status & mask) == want,
				TERN_RESET_POLL_US, TERN_RESET_TIMEOUT_US, false,
				tdev, TERN_REG_STATUS);
	if (err)
		return err;
	return (status & mask) == want && status != TERN_REG_GONE ? 0 : -EIO;
}

static int tern_hw_reset(struct tern_dev *tdev)
{
	tern_write(tdev, TERN_REG_CTRL, TERN_CTRL_RESET);
	return tern_wait_status(tdev, TERN_STATUS_READY | TERN_STATUS_ENABLED |
				TERN_STATUS_FATAL, TERN_STATUS_READY);
}

static int tern_hw_check_version(struct tern_dev *tdev)
{
	u32 version = tern_read(tdev, TERN_REG_VERSION);
	u32 magic = tern_read(tdev, TERN_REG_MAGIC);

	if (magic != TERN_MAGIC)
		return -ENODEV;
	if (version >> 16 != TERN_VERSION_MAJOR) {
		dev_err(tern_dma_dev(tdev), "unsupported device version %u, expected %u\n",
			version >> 16, TERN_VERSION_MAJOR);
		return -EOPNOTSUPP;
	}
	return 0;
}

static int tern_hw_enable(struct tern_dev *tdev)
{
	struct tern_aq *aq = &tdev->aq;

	tern_write(tdev, TERN_REG_PAGE_SHIFT, PAGE_SHIFT);
	tern_write_addr(tdev, TERN_REG_AQ_BASE_LO,
			aq->dma + offsetof(struct tern_aq_mem, aq));
	tern_write_addr(tdev, TERN_REG_ACQ_BASE_LO,
			aq->dma + offsetof(struct tern_aq_mem, acq));
#ifndef TERN_WITHOUT_AQ_POLL
	tern_write_addr(tdev, TERN_REG_AQ_RECORD_LO,
			aq->dma + offsetof(struct tern_aq_mem, record));
#endif
	tern_write(tdev, TERN_REG_AQ_LOG_SIZE, TERN_AQ_LOG_SIZE);
	tern_write(tdev, TERN_REG_CTRL, TERN_CTRL_ENABLE);
	return tern_wait_status(tdev, TERN_STATUS_ENABLED, TERN_STATUS_ENABLED);
}

static int tern_hw_query_caps(struct tern_dev *tdev)
{
	struct tern_rsp_caps *caps = &tdev->caps;
	int err;

	err = tern_cmd_exec(&tdev->core, TERN_CMD_QUERY_CAPS, NULL, 0, caps,
			    sizeof(*caps));
	if (err)
		return err;
	if (!caps->max_eth_queues || caps->num_ports < TERN_ETH_PORT)
		return -EOPNOTSUPP;

	caps->fw_name[sizeof(caps->fw_name) - 1] = '\0';
	return 0;
}

/*
 * Allocates the vectors and spreads them over the CPUs. They stay allocated over
 * resets, so that an interrupt keeps its number and the CPUs that the user chose.
 * No hints or notifiers are set, including those of netif_enable_irq_affinity():
 * queues of both drivers share vectors, and an interrupt that has one must not
 * lose a handler.
 */
int tern_alloc_vectors(struct tern_dev *tdev)
{
	/* For admin, then for channels, which share the others with RDMA. */
	unsigned int want = 1 + max(num_online_cpus() + 1, TERN_MAX_CHANNELS);
	struct pci_dev *pdev = tdev->core.pdev;
	int i, n;

	n = pci_alloc_irq_vectors(pdev, 1, want, PCI_IRQ_MSIX);
	if (n < 0)
		return n;
	tdev->num_vectors = n;
	tdev->max_channels = clamp(n - 1, 1, TERN_MAX_CHANNELS);
	/* The first vector is for commands and may run anywhere. */
	for (i = 1; i < n; i++)
		irq_set_affinity(pci_irq_vector(pdev, i),
				 cpumask_of(tern_vector_cpu(&pdev->dev, i - 1)));
	return 0;
}

/* Brings a reset device up: it answers commands and reports events. */
int tern_hw_up(struct tern_dev *tdev)
{
	struct pci_dev *pdev = tdev->core.pdev;
	int err;

	err = tern_hw_check_version(tdev);
	if (err)
		return err;
	err = tern_hw_reset(tdev);
	if (err)
		return err;
	err = tern_aq_alloc(tdev);
	if (err)
		return err;
	/* The handler of the interrupt reads the queue. */
	err = tern_eq_alloc_buf(tdev, &tdev->async_eq, sizeof(struct tern_eqe),
				TERN_ASYNC_EQ_LOG_SIZE);
	if (err)
		goto free_aq;
	err = pci_request_irq(pdev, 0, tern_admin_irq, NULL, tdev,
			      "tern-admin@pci:%s", pci_name(pdev));
	if (err)
		goto free_async_eq;

	pci_set_master(pdev);
	err = tern_hw_enable(tdev);
	if (err)
		goto reset;
	clear_bit(TERN_DEV_DEAD, &tdev->flags);
	err = tern_hw_query_caps(tdev);
	if (err)
		goto kill;
	err = tern_eq_cmd_create(&tdev->async_eq, TERN_EQ_ASYNC);
	if (err)
		goto kill;

	schedule_delayed_work(&tdev->health_work, TERN_HEALTH_INTERVAL);
	set_bit(TERN_DEV_UP, &tdev->flags);
	return 0;

kill:
	tern_dev_kill(tdev);
reset:
	tern_hw_reset(tdev);
	pci_clear_master(pdev);
	pci_free_irq(pdev, 0, tdev);
	cancel_work_sync(&tdev->async_work);
	clear_bit(TERN_DEV_TELL_DEAD, &tdev->flags);
free_async_eq:
	tern_buf_free(tdev, &tdev->async_eq.buf);
free_aq:
	tern_aq_free(tdev);
	return err;
}

/* Resets the device. Only counter readers may still be using the device. */
void tern_hw_down(struct tern_dev *tdev)
{
	struct pci_dev *pdev = tdev->core.pdev;

	clear_bit(TERN_DEV_UP, &tdev->flags);
	tern_cmd_destroy(tdev, TERN_CMD_DESTROY_EQ, tdev->async_eq.id);
	tern_dev_retire(tdev);
	tern_hw_reset(tdev);
	pci_clear_master(pdev);

	pci_free_irq(pdev, 0, tdev);
	cancel_delayed_work_sync(&tdev->health_work);
	cancel_work_sync(&tdev->async_work);
	clear_bit(TERN_DEV_TELL_DEAD, &tdev->flags);
	tern_buf_free(tdev, &tdev->async_eq.buf);
	tern_aq_free(tdev);
}
#ifndef TERN_WITHOUT_RESET

/* Takes the device down. The netdev stays registered. Devlink lock held. */
void tern_dev_down(struct tern_dev *tdev)
{
	if (!test_bit(TERN_DEV_UP, &tdev->flags))
		return;
	tern_adev_del(tdev);
	tern_net_detach(tdev->net);
	tern_hw_down(tdev);
}

/* Undoes tern_dev_down(), except for the auxiliary device. Devlink lock held. */
int tern_dev_up(struct tern_dev *tdev)
{
	unsigned int noio;
	int err;

	if (test_bit(TERN_DEV_UP, &tdev->flags))
		return 0;
	/* Writing out pages may use the netdev, which is still down. */
	noio = memalloc_noio_save();
	err = tern_hw_up(tdev);
	if (err)
		dev_err(tern_dma_dev(tdev), "reset failed: %d\n", err);
	else
		tern_net_attach(tdev->net);
	memalloc_noio_restore(noio);
	return err;
}

/* Resets a dead device and restarts everything. Devlink lock held. */
int tern_dev_recover(struct tern_dev *tdev)
{
	int err;

	if (!tern_dev_dead(tdev))
		return 0;
	tern_dev_down(tdev);
	err = tern_dev_up(tdev);
	if (!err)
		tern_adev_add(tdev);
	return err;
}
#endif
