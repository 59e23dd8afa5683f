// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * <debugfs>/tern/<PCI function>/objects shows the live objects of the device.
 * cc_params has a file for each parameter of congestion control, as the
 * directory of this name has with mlx5. Nothing here can fail a probe.
 */

#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "tern_dev.h"

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
	seq_printf(s, "dm_bytes %llu\n", le64_to_cpu(rsp.dm_bytes));
	seq_printf(s, "page_entries %llu\n", le64_to_cpu(rsp.page_entries));
	seq_printf(s, "parked_faults %u\n", le32_to_cpu(rsp.parked));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(tern_objects);

static const char *const tern_cc_names[] = {
#define TERN_CC_PARAM(index, name, min, max, value) \
	[index] = name,
#include "tern_cc.h"
};

static_assert(ARRAY_SIZE(tern_cc_names) == TERN_CC_NUM);

static int tern_cc_get(void *data, u64 *value)
{
	const struct tern_cc_file *file = data;
	const struct tern_cmd_query_port cmd = { .port = TERN_ETH_PORT };
	struct tern_cc_params params;
	int err;

	err = tern_cmd_exec(&file->tdev->core, TERN_CMD_QUERY_CC, &cmd,
			    sizeof(cmd), &params, sizeof(params));
	if (err)
		return err;

	*value = le32_to_cpu(params.value[file->index]);
	return 0;
}

/* The device knows the range: -EINVAL for a value outside. */
static int tern_cc_set(void *data, u64 value)
{
	const struct tern_cc_file *file = data;
	struct tern_cmd_set_cc cmd = {
		.mask = cpu_to_le32(BIT(file->index)),
		.port = TERN_ETH_PORT,
	};

	if (value > U32_MAX)
		return -EINVAL;

	cmd.params.value[file->index] = cpu_to_le32(value);
	return tern_cmd_exec(&file->tdev->core, TERN_CMD_SET_CC, &cmd,
			     sizeof(cmd), NULL, 0);
}
DEFINE_DEBUGFS_ATTRIBUTE(tern_cc_fops, tern_cc_get, tern_cc_set, "%llu\n");

static void tern_debugfs_add_cc(struct tern_dev *tdev)
{
	struct dentry *dir;
	unsigned int i;

	if (!(le64_to_cpu(tdev->core.caps->flags) & TERN_CAP_CC))
		return;

	dir = debugfs_create_dir("cc_params", tdev->debugfs);
	for (i = 0; i < TERN_CC_NUM; i++) {
		tdev->cc_files[i].tdev = tdev;
		tdev->cc_files[i].index = i;
		debugfs_create_file(tern_cc_names[i], 0600, dir,
				    &tdev->cc_files[i], &tern_cc_fops);
	}
}

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
	tern_debugfs_add_cc(tdev);
}

/* Waits for reads in progress. Later reads, of open files too, fail. */
void tern_debugfs_remove(struct tern_dev *tdev)
{
	debugfs_remove(tdev->debugfs);
}
