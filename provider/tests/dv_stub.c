// SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause)
/* Stub of the driver's own methods: it checks their input. */

#include <infiniband/cmd_ioctl.h>

#include "fixture.h"

int dv_err;
unsigned int dv_calls;
struct dv_input dv_input;
struct tern_uresp_alloc_dm dv_op_mapping;
struct tern_uresp_query_key dv_key;
uint16_t dv_sport;

/* Reads input, which small attributes have in place of a pointer. */
static uint64_t get_attr(struct ibv_command_buffer *cmd, uint16_t id,
			 size_t len)
{
	struct ib_uverbs_attr *attr = find_attr(cmd, id, len);
	uint64_t value = 0;

	memcpy(&value, &attr->data, len ? len : sizeof(uint32_t));
	return value;
}

static void map_dm_op(struct ibv_command_buffer *cmd)
{
	dv_input.handle = get_attr(cmd, TERN_IB_ATTR_MAP_DM_OP_DM, 0);
	dv_input.op = get_attr(cmd, TERN_IB_ATTR_MAP_DM_OP_OP, 1);
	dv_input.offset = get_attr(cmd, TERN_IB_ATTR_MAP_DM_OP_OFFSET, 8);
	put_attr(cmd, TERN_IB_ATTR_MAP_DM_OP_RESP, &dv_op_mapping,
		 sizeof(dv_op_mapping));
}

static void query_key(struct ibv_command_buffer *cmd)
{
	dv_input.handle = get_attr(cmd, TERN_IB_ATTR_QUERY_KEY_PD, 0);
	dv_input.key = get_attr(cmd, TERN_IB_ATTR_QUERY_KEY_KEY, 4);
	put_attr(cmd, TERN_IB_ATTR_QUERY_KEY_RESP, &dv_key, sizeof(dv_key));
}

int dv_ioctl(struct ibv_command_buffer *cmd)
{
	dv_calls++;
	if (dv_err)
		return dv_err;

	switch (cmd->hdr.object_id) {
	case UVERBS_OBJECT_DM:
		CHECK(cmd->hdr.method_id == TERN_IB_METHOD_DM_MAP_OP);
		map_dm_op(cmd);
		return 0;
	case UVERBS_OBJECT_PD:
		CHECK(cmd->hdr.method_id == TERN_IB_METHOD_PD_QUERY_KEY);
		query_key(cmd);
		return 0;
	case UVERBS_OBJECT_QP:
		break;
	default:
		CHECK(false);
	}

	if (cmd->hdr.method_id == TERN_IB_METHOD_QP_SET_SPORT) {
		dv_input.handle = get_attr(cmd, TERN_IB_ATTR_SET_SPORT_QP, 0);
		dv_sport = get_attr(cmd, TERN_IB_ATTR_SET_SPORT_PORT, 2);
		return 0;
	}

	CHECK(cmd->hdr.method_id == TERN_IB_METHOD_QP_GET_SPORT);
	dv_input.handle = get_attr(cmd, TERN_IB_ATTR_GET_SPORT_QP, 0);
	put_attr(cmd, TERN_IB_ATTR_GET_SPORT_PORT, &dv_sport, sizeof(dv_sport));
	return 0;
}
