// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * <debugfs>/tern/<PCI function>/objects shows the live objects of the device.
 * Nothing here can fail a probe.
 */

#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "tern_counts.h"
#include "tern_dev.h"
#include "tern_verbs.h"

static struct dentry *tern_debugfs_root;

/* A dead device fails the read: it has no objects to count. */
static int tern_objects_show(struct seq_file *s, void *unused)
{
	struct tern_dev *tdev = s->private;
	struct tern_rsp_objects rsp;
	int err;

	err = tern_cmd_exec(&tdev->core, TERN_CMD_QUERY_OBJECTS, NULL, 0, &rsp,
			    sizeof(rsp));
	if (err)
		return err;

	seq_printf(s, "alive_uar %u\n", le32_to_cpu(rsp.uar));
	seq_printf(s, "alive_pd %u\n", le32_to_cpu(rsp.pd));
	seq_printf(s, "alive_eq %u\n", le32_to_cpu(rsp.eq));
	seq_printf(s, "alive_cq %u\n", le32_to_cpu(rsp.cq));
	seq_printf(s, "alive_mr %u\n", le32_to_cpu(rsp.mr));
	seq_printf(s, "alive_mw %u\n", le32_to_cpu(rsp.mw));
	seq_printf(s, "alive_dm %u\n", le32_to_cpu(rsp.dm));
	seq_printf(s, "alive_qp %u\n", le32_to_cpu(rsp.qp));
	seq_printf(s, "alive_srq %u\n", le32_to_cpu(rsp.srq));
	seq_printf(s, "alive_xrcd %u\n", le32_to_cpu(rsp.xrcd));
	seq_printf(s, "alive_mcast %u\n", le32_to_cpu(rsp.mcast));
	seq_printf(s, "alive_gid %u\n", le32_to_cpu(rsp.gid));
	seq_printf(s, "alive_eth_queue %u\n", le32_to_cpu(rsp.eth_queue));
	seq_printf(s, "alive_rss %u\n", le32_to_cpu(rsp.rss));
	seq_printf(s, "alive_flow %u\n", le32_to_cpu(rsp.flow));
	seq_printf(s, "alive_flow_counter %u\n", le32_to_cpu(rsp.flow_counter));
	seq_printf(s, "alive_comp_cntr %u\n", le32_to_cpu(rsp.comp_cntr));
	seq_printf(s, "dm_bytes %llu\n", le64_to_cpu(rsp.dm_bytes));
	seq_printf(s, "page_entries %llu\n", le64_to_cpu(rsp.page_entries));
	seq_printf(s, "parked_faults %u\n", le32_to_cpu(rsp.parked));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tern_objects);

/* Before the first probe. */
void tern_debugfs_init(void)
{
	tern_debugfs_root = debugfs_create_dir(TERN_DRV_NAME, NULL);
}

/* After the last removal. */
void tern_debugfs_exit(void)
{
	debugfs_remove(tern_debugfs_root);
}

/* Shows the function's files. Reads send commands from here on. */
void tern_debugfs_add(struct tern_dev *tdev)
{
	tdev->debugfs = debugfs_create_dir(pci_name(tdev->core.pdev),
					   tern_debugfs_root);
	debugfs_create_file("objects", 0400, tdev->debugfs, tdev,
			    &tern_objects_fops);
}

/* Waits for reads in progress. Later reads, of open files too, fail. */
void tern_debugfs_remove(struct tern_dev *tdev)
{
	debugfs_remove(tdev->debugfs);
}
