// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Admin commands of the network driver, typed, and the memory queues live in. */

#include <kunit/static_stub.h>
#include <kunit/visibility.h>

#include "tern_dev.h"
#include "tern_layout.h"
#include "tern_util.h"

static_assert(TERN_ETH_CNT_NUM * sizeof(__le64) <= TERN_CMD_MAX_LEN);
/* A record takes one line and is aligned to it. */
static_assert(sizeof(struct tern_eq_record) == TERN_RECORD_LINE);
static_assert(sizeof(struct tern_cq_record) == TERN_RECORD_LINE);
static_assert(sizeof(struct tern_eth_record) == TERN_RECORD_LINE);

/* Zeroed memory for 1 << @log_size entries and a doorbell record. */
int tern_buf_alloc(struct tern_dev *tdev, struct tern_buf *buf,
		   size_t entry_size, u8 log_size)
{
	size_t entries = ALIGN(entry_size << log_size, TERN_RECORD_LINE);

	KUNIT_STATIC_STUB_REDIRECT(tern_buf_alloc, tdev, buf, entry_size, log_size);

	buf->size = entries + TERN_RECORD_LINE;
	buf->record_offset = entries;
	buf->va = dma_alloc_coherent(tern_dma_dev(tdev), buf->size, &buf->dma,
				     GFP_KERNEL);
	return buf->va ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_IF_KUNIT(tern_buf_alloc);

void tern_buf_free(struct tern_dev *tdev, struct tern_buf *buf)
{
	dma_free_coherent(tern_dma_dev(tdev), buf->size, buf->va, buf->dma);
	buf->va = NULL;
}

struct tern_pages tern_buf_pages(const struct tern_buf *buf)
{
	return (struct tern_pages){
		.addr = cpu_to_le64(buf->dma),
		.num = cpu_to_le32(DIV_ROUND_UP(buf->record_offset, SZ_4K)),
		.page_shift = ilog2(SZ_4K),
		.kind = TERN_PAGES_DIRECT,
	};
}

/* DMA address of the doorbell record. */
__le64 tern_buf_record(const struct tern_buf *buf)
{
	return cpu_to_le64(buf->dma + buf->record_offset);
}

/* Runs a command that makes an object; @id becomes its number. */
int tern_cmd_create(struct tern_dev *tdev, u16 opcode, const void *in,
		    size_t in_len, u32 *id)
{
	struct tern_rsp_object rsp;
	int err;

	err = tern_cmd_exec(&tdev->core, opcode, in, in_len, &rsp, sizeof(rsp));
	if (!err)
		*id = le32_to_cpu(rsp.id);
	return err;
}

/*
 * Destroys object @id. When this returns the device does not touch the object's
 * memory any more: a device that refuses is stopped.
 */
void tern_cmd_destroy(struct tern_dev *tdev, u16 opcode, u32 id)
{
	struct tern_cmd_object cmd = { .id = cpu_to_le32(id) };

	if (tern_cmd_exec(&tdev->core, opcode, &cmd, sizeof(cmd), NULL, 0))
		tern_dev_kill(tdev);
}

int tern_cmd_query_port(struct tern_dev *tdev, struct tern_rsp_port *port)
{
	struct tern_cmd_query_port cmd = { .port = TERN_ETH_PORT };

	return tern_cmd_exec(&tdev->core, TERN_CMD_QUERY_PORT, &cmd,
			     sizeof(cmd), port, sizeof(*port));
}

/* Reads the TERN_ETH_CNT_NUM counters of the Ethernet function. */
int tern_cmd_query_eth_counters(struct tern_dev *tdev, u64 *counters)
{
	struct tern_cmd_query_counters cmd = {
		.group = cpu_to_le32(TERN_COUNTERS_ETH),
		.port = TERN_ETH_PORT,
	};
	__le64 rsp[TERN_ETH_CNT_NUM];
	unsigned int i;
	int err;

	err = tern_cmd_exec(&tdev->core, TERN_CMD_QUERY_COUNTERS, &cmd,
			    sizeof(cmd), rsp, sizeof(rsp));
	if (err)
		return err;
	for (i = 0; i < TERN_ETH_CNT_NUM; i++)
		counters[i] = le64_to_cpu(rsp[i]);
	return 0;
}
