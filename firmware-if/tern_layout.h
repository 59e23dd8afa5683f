/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: offsets of all members of all structures. The sizes are
 * asserted next to the structures. Include this file after the other headers; the
 * including file provides offsetof(). The engine does, and tests/check/layout
 * compiles it as C11, C++20 and kernel C, of 32 bits, too.
 * tests/check/spec-offsets fails when a member is missing here.
 */
#ifndef TERN_LAYOUT_H
#define TERN_LAYOUT_H

#define TERN_AT(type, member, offset) \
	static_assert(offsetof(struct type, member) == (offset), #type "." #member)

TERN_AT(tern_qp_record, sq_pi, 0x00);
TERN_AT(tern_qp_record, rsvd_4, 0x04);
TERN_AT(tern_qp_record, rq_pi, 0x40);
TERN_AT(tern_qp_record, rsvd_44, 0x44);
TERN_AT(tern_qp_record, status, 0x80);
TERN_AT(tern_qp_record, rsvd_84, 0x84);

TERN_AT(tern_srq_record, pi, 0x00);
TERN_AT(tern_srq_record, ops_pi, 0x04);
TERN_AT(tern_srq_record, rsvd_8, 0x08);
TERN_AT(tern_srq_record, ci, 0x40);
TERN_AT(tern_srq_record, ops_ci, 0x44);
TERN_AT(tern_srq_record, tags_released, 0x48);
TERN_AT(tern_srq_record, rsvd_4c, 0x4c);

TERN_AT(tern_cq_record, ci, 0x00);
TERN_AT(tern_cq_record, arm, 0x04);
TERN_AT(tern_cq_record, rsvd_8, 0x08);
TERN_AT(tern_cq_record, reported, 0x40);
TERN_AT(tern_cq_record, rsvd_44, 0x44);

TERN_AT(tern_sge, addr, 0x00);
TERN_AT(tern_sge, length, 0x08);
TERN_AT(tern_sge, lkey, 0x0c);

TERN_AT(tern_sq_hdr, opcode, 0x00);
TERN_AT(tern_sq_hdr, flags, 0x01);
TERN_AT(tern_sq_hdr, num_sge, 0x02);
TERN_AT(tern_sq_hdr, rsvd_3, 0x03);
TERN_AT(tern_sq_hdr, length, 0x04);
TERN_AT(tern_sq_hdr, wr_id, 0x08);
TERN_AT(tern_sq_hdr, imm, 0x10);
TERN_AT(tern_sq_hdr, inv_rkey, 0x14);
TERN_AT(tern_sq_hdr, xrc_srqn, 0x18);
TERN_AT(tern_sq_hdr, rsvd_1c, 0x1c);

TERN_AT(tern_rdma_seg, raddr, 0x00);
TERN_AT(tern_rdma_seg, rkey, 0x08);
TERN_AT(tern_rdma_seg, rsvd_c, 0x0c);

TERN_AT(tern_atomic_seg, raddr, 0x00);
TERN_AT(tern_atomic_seg, rkey, 0x08);
TERN_AT(tern_atomic_seg, rsvd_c, 0x0c);
TERN_AT(tern_atomic_seg, swap_add, 0x10);
TERN_AT(tern_atomic_seg, compare, 0x18);

TERN_AT(tern_flush_seg, raddr, 0x00);
TERN_AT(tern_flush_seg, rkey, 0x08);
TERN_AT(tern_flush_seg, type, 0x0c);
TERN_AT(tern_flush_seg, level, 0x0d);
TERN_AT(tern_flush_seg, rsvd_e, 0x0e);
TERN_AT(tern_flush_seg, length, 0x10);
TERN_AT(tern_flush_seg, rsvd_18, 0x18);

TERN_AT(tern_bind_seg, addr, 0x00);
TERN_AT(tern_bind_seg, length, 0x08);
TERN_AT(tern_bind_seg, lkey, 0x10);
TERN_AT(tern_bind_seg, rkey, 0x14);
TERN_AT(tern_bind_seg, new_rkey, 0x18);
TERN_AT(tern_bind_seg, access, 0x1c);
TERN_AT(tern_bind_seg, type, 0x20);
TERN_AT(tern_bind_seg, rsvd_21, 0x21);

TERN_AT(tern_reg_seg, iova, 0x00);
TERN_AT(tern_reg_seg, length, 0x08);
TERN_AT(tern_reg_seg, pages, 0x10);
TERN_AT(tern_reg_seg, num_pages, 0x18);
TERN_AT(tern_reg_seg, key, 0x1c);
TERN_AT(tern_reg_seg, access, 0x20);
TERN_AT(tern_reg_seg, page_shift, 0x24);
TERN_AT(tern_reg_seg, rsvd_25, 0x25);
TERN_AT(tern_reg_seg, first_offset, 0x28);

TERN_AT(tern_av, dgid, 0x00);
TERN_AT(tern_av, flow_label, 0x10);
TERN_AT(tern_av, sgid_index, 0x14);
TERN_AT(tern_av, udp_sport, 0x16);
TERN_AT(tern_av, dmac, 0x18);
TERN_AT(tern_av, hop_limit, 0x1e);
TERN_AT(tern_av, traffic_class, 0x1f);
TERN_AT(tern_av, sl, 0x20);
TERN_AT(tern_av, static_rate, 0x21);
TERN_AT(tern_av, port, 0x22);
TERN_AT(tern_av, rsvd_23, 0x23);

TERN_AT(tern_ud_seg, av, 0x00);
TERN_AT(tern_ud_seg, dqpn, 0x28);
TERN_AT(tern_ud_seg, qkey, 0x2c);

TERN_AT(tern_rq_hdr, num_sge, 0x00);
TERN_AT(tern_rq_hdr, rsvd_1, 0x01);
TERN_AT(tern_rq_hdr, wr_id, 0x08);

TERN_AT(tern_tm_op, opcode, 0x00);
TERN_AT(tern_tm_op, flags, 0x01);
TERN_AT(tern_tm_op, num_sge, 0x02);
TERN_AT(tern_tm_op, rsvd_3, 0x03);
TERN_AT(tern_tm_op, handle, 0x04);
TERN_AT(tern_tm_op, wr_id, 0x08);
TERN_AT(tern_tm_op, recv_wr_id, 0x10);
TERN_AT(tern_tm_op, tag, 0x18);
TERN_AT(tern_tm_op, mask, 0x20);
TERN_AT(tern_tm_op, unexpected, 0x28);
TERN_AT(tern_tm_op, rsvd_2c, 0x2c);
TERN_AT(tern_tm_op, sge, 0x40);

TERN_AT(tern_tm_header, opcode, 0x00);
TERN_AT(tern_tm_header, rsvd_1, 0x01);
TERN_AT(tern_tm_header, app_ctx, 0x04);
TERN_AT(tern_tm_header, tag, 0x08);

TERN_AT(tern_tm_rndv, va, 0x00);
TERN_AT(tern_tm_rndv, rkey, 0x08);
TERN_AT(tern_tm_rndv, length, 0x0c);

TERN_AT(tern_tm_cqe, rsvd_0, 0x00);
TERN_AT(tern_tm_cqe, app_ctx, 0x18);
TERN_AT(tern_tm_cqe, rsvd_1c, 0x1c);
TERN_AT(tern_tm_cqe, tag, 0x30);
TERN_AT(tern_tm_cqe, rsvd_38, 0x38);

TERN_AT(tern_cqe, wr_id, 0x00);
TERN_AT(tern_cqe, qpn, 0x08);
TERN_AT(tern_cqe, byte_len, 0x0c);
TERN_AT(tern_cqe, imm, 0x10);
TERN_AT(tern_cqe, inv_rkey, 0x14);
TERN_AT(tern_cqe, src_qp, 0x18);
TERN_AT(tern_cqe, wqe_index, 0x1c);
TERN_AT(tern_cqe, timestamp, 0x20);
TERN_AT(tern_cqe, opcode, 0x28);
TERN_AT(tern_cqe, status, 0x29);
TERN_AT(tern_cqe, vendor_err, 0x2a);
TERN_AT(tern_cqe, flags, 0x2b);
TERN_AT(tern_cqe, pkey_index, 0x2c);
TERN_AT(tern_cqe, vlan, 0x2e);
TERN_AT(tern_cqe, smac, 0x30);
TERN_AT(tern_cqe, sl, 0x36);
TERN_AT(tern_cqe, net_type, 0x37);
TERN_AT(tern_cqe, srqn, 0x38);
TERN_AT(tern_cqe, phase, 0x3c);

TERN_AT(tern_aq_entry, opcode, 0x00);
TERN_AT(tern_aq_entry, version, 0x02);
TERN_AT(tern_aq_entry, tag, 0x04);
TERN_AT(tern_aq_entry, in_len, 0x08);
TERN_AT(tern_aq_entry, out_len, 0x0a);
TERN_AT(tern_aq_entry, rsvd_c, 0x0c);
TERN_AT(tern_aq_entry, in_addr, 0x10);
TERN_AT(tern_aq_entry, out_addr, 0x18);

TERN_AT(tern_acq_entry, tag, 0x00);
TERN_AT(tern_acq_entry, status, 0x04);
TERN_AT(tern_acq_entry, out_len, 0x06);
TERN_AT(tern_acq_entry, aq_head, 0x08);
TERN_AT(tern_acq_entry, phase, 0x0c);

TERN_AT(tern_aq_record, tail, 0x00);
TERN_AT(tern_aq_record, arm, 0x04);
TERN_AT(tern_aq_record, rsvd_8, 0x08);
TERN_AT(tern_aq_record, status, 0x40);
TERN_AT(tern_aq_record, rsvd_44, 0x44);

TERN_AT(tern_cmd_object, id, 0x00);
TERN_AT(tern_cmd_object, rsvd_4, 0x04);

TERN_AT(tern_rsp_object, id, 0x00);
TERN_AT(tern_rsp_object, generation, 0x04);

TERN_AT(tern_pages, addr, 0x00);
TERN_AT(tern_pages, num, 0x08);
TERN_AT(tern_pages, page_shift, 0x0c);
TERN_AT(tern_pages, kind, 0x0d);
TERN_AT(tern_pages, rsvd_e, 0x0e);

TERN_AT(tern_rsp_caps, flags, 0x00);
TERN_AT(tern_rsp_caps, max_mr_size, 0x08);
TERN_AT(tern_rsp_caps, page_shift_mask, 0x10);
TERN_AT(tern_rsp_caps, dm_size, 0x18);
TERN_AT(tern_rsp_caps, guid, 0x20);
TERN_AT(tern_rsp_caps, max_uar, 0x28);
TERN_AT(tern_rsp_caps, max_pd, 0x2c);
TERN_AT(tern_rsp_caps, max_mr, 0x30);
TERN_AT(tern_rsp_caps, max_mw, 0x34);
TERN_AT(tern_rsp_caps, max_dm, 0x38);
TERN_AT(tern_rsp_caps, max_eq, 0x3c);
TERN_AT(tern_rsp_caps, max_cq, 0x40);
TERN_AT(tern_rsp_caps, max_cqe, 0x44);
TERN_AT(tern_rsp_caps, max_qp, 0x48);
TERN_AT(tern_rsp_caps, max_qp_wr, 0x4c);
TERN_AT(tern_rsp_caps, max_srq, 0x50);
TERN_AT(tern_rsp_caps, max_srq_wr, 0x54);
TERN_AT(tern_rsp_caps, max_xrcd, 0x58);
TERN_AT(tern_rsp_caps, max_mcast_grp, 0x5c);
TERN_AT(tern_rsp_caps, max_mcast_qp_attach, 0x60);
TERN_AT(tern_rsp_caps, max_msg_size, 0x64);
TERN_AT(tern_rsp_caps, max_inline, 0x68);
TERN_AT(tern_rsp_caps, max_fast_reg_pages, 0x6c);
TERN_AT(tern_rsp_caps, device_version, 0x70);
TERN_AT(tern_rsp_caps, max_send_sge, 0x74);
TERN_AT(tern_rsp_caps, max_recv_sge, 0x76);
TERN_AT(tern_rsp_caps, max_sge_rd, 0x78);
TERN_AT(tern_rsp_caps, max_rd_atomic, 0x7a);
TERN_AT(tern_rsp_caps, gid_table_len, 0x7c);
TERN_AT(tern_rsp_caps, num_vectors, 0x7e);
TERN_AT(tern_rsp_caps, max_eth_queues, 0x80);
TERN_AT(tern_rsp_caps, max_tags, 0x82);
TERN_AT(tern_rsp_caps, mac, 0x84);
TERN_AT(tern_rsp_caps, local_ca_ack_delay, 0x8a);
TERN_AT(tern_rsp_caps, num_ports, 0x8b);
TERN_AT(tern_rsp_caps, max_rate, 0x8c);
TERN_AT(tern_rsp_caps, fw_name, 0x90);
TERN_AT(tern_rsp_caps, max_pages, 0xb0);
TERN_AT(tern_rsp_caps, max_cmd_pages, 0xb8);
TERN_AT(tern_rsp_caps, max_rss, 0xbc);
TERN_AT(tern_rsp_caps, max_flows, 0xc0);
TERN_AT(tern_rsp_caps, max_flow_shapes, 0xc4);
TERN_AT(tern_rsp_caps, max_flow_counters, 0xc8);
TERN_AT(tern_rsp_caps, max_counter_sets, 0xcc);
TERN_AT(tern_rsp_caps, max_comp_cntrs, 0xd0);
TERN_AT(tern_rsp_caps, rsvd_d4, 0xd4);

TERN_AT(tern_rsp_objects, uar, 0x00);
TERN_AT(tern_rsp_objects, pd, 0x04);
TERN_AT(tern_rsp_objects, eq, 0x08);
TERN_AT(tern_rsp_objects, cq, 0x0c);
TERN_AT(tern_rsp_objects, mr, 0x10);
TERN_AT(tern_rsp_objects, mw, 0x14);
TERN_AT(tern_rsp_objects, dm, 0x18);
TERN_AT(tern_rsp_objects, qp, 0x1c);
TERN_AT(tern_rsp_objects, srq, 0x20);
TERN_AT(tern_rsp_objects, xrcd, 0x24);
TERN_AT(tern_rsp_objects, mcast, 0x28);
TERN_AT(tern_rsp_objects, gid, 0x2c);
TERN_AT(tern_rsp_objects, eth_queue, 0x30);
TERN_AT(tern_rsp_objects, parked, 0x34);
TERN_AT(tern_rsp_objects, dm_bytes, 0x38);
TERN_AT(tern_rsp_objects, page_entries, 0x40);
TERN_AT(tern_rsp_objects, rss, 0x48);
TERN_AT(tern_rsp_objects, flow, 0x4c);
TERN_AT(tern_rsp_objects, flow_counter, 0x50);
TERN_AT(tern_rsp_objects, counter_set, 0x54);
TERN_AT(tern_rsp_objects, comp_cntr, 0x58);
TERN_AT(tern_rsp_objects, rsvd_5c, 0x5c);

TERN_AT(tern_cmd_query_counters, group, 0x00);
TERN_AT(tern_cmd_query_counters, port, 0x04);
TERN_AT(tern_cmd_query_counters, rsvd_5, 0x05);

TERN_AT(tern_cmd_bind_counter_set, qpn, 0x00);
TERN_AT(tern_cmd_bind_counter_set, set, 0x04);

TERN_AT(tern_cmd_create_comp_cntr, value, 0x00);
TERN_AT(tern_cmd_create_comp_cntr, type, 0x10);
TERN_AT(tern_cmd_create_comp_cntr, rsvd_11, 0x11);

TERN_AT(tern_cmd_modify_comp_cntr, id, 0x00);
TERN_AT(tern_cmd_modify_comp_cntr, entry, 0x04);
TERN_AT(tern_cmd_modify_comp_cntr, op, 0x05);
TERN_AT(tern_cmd_modify_comp_cntr, rsvd_6, 0x06);
TERN_AT(tern_cmd_modify_comp_cntr, operand, 0x08);

TERN_AT(tern_cmd_attach_comp_cntr, qpn, 0x00);
TERN_AT(tern_cmd_attach_comp_cntr, id, 0x04);
TERN_AT(tern_cmd_attach_comp_cntr, ops, 0x08);
TERN_AT(tern_cmd_attach_comp_cntr, rsvd_c, 0x0c);

TERN_AT(tern_cmd_query_port, port, 0x00);
TERN_AT(tern_cmd_query_port, rsvd_1, 0x01);

TERN_AT(tern_cc_params, value, 0x00);

TERN_AT(tern_cmd_set_cc, mask, 0x00);
TERN_AT(tern_cmd_set_cc, port, 0x04);
TERN_AT(tern_cmd_set_cc, rsvd_5, 0x05);
TERN_AT(tern_cmd_set_cc, params, 0x08);

TERN_AT(tern_rsp_port, link_up, 0x00);
TERN_AT(tern_rsp_port, mac, 0x01);
TERN_AT(tern_rsp_port, rsvd_7, 0x07);
TERN_AT(tern_rsp_port, mtu, 0x08);
TERN_AT(tern_rsp_port, max_mtu, 0x0c);
TERN_AT(tern_rsp_port, speed, 0x10);
TERN_AT(tern_rsp_port, rsvd_14, 0x14);

TERN_AT(tern_cmd_modify_port, mask, 0x00);
TERN_AT(tern_cmd_modify_port, mtu, 0x04);
TERN_AT(tern_cmd_modify_port, mac, 0x08);
TERN_AT(tern_cmd_modify_port, enable, 0x0e);
TERN_AT(tern_cmd_modify_port, port, 0x0f);

TERN_AT(tern_cmd_set_gid, index, 0x00);
TERN_AT(tern_cmd_set_gid, valid, 0x02);
TERN_AT(tern_cmd_set_gid, net_type, 0x03);
TERN_AT(tern_cmd_set_gid, vlan, 0x04);
TERN_AT(tern_cmd_set_gid, mac, 0x06);
TERN_AT(tern_cmd_set_gid, port, 0x0c);
TERN_AT(tern_cmd_set_gid, rsvd_d, 0x0d);
TERN_AT(tern_cmd_set_gid, gid, 0x10);

TERN_AT(tern_cmd_alloc_pd, flags, 0x00);
TERN_AT(tern_cmd_alloc_pd, rsvd_4, 0x04);

TERN_AT(tern_cmd_create_eq, pages, 0x00);
TERN_AT(tern_cmd_create_eq, record, 0x10);
TERN_AT(tern_cmd_create_eq, vector, 0x18);
TERN_AT(tern_cmd_create_eq, log_size, 0x1a);
TERN_AT(tern_cmd_create_eq, kind, 0x1b);
TERN_AT(tern_cmd_create_eq, rsvd_1c, 0x1c);

TERN_AT(tern_eq_record, ci, 0x00);
TERN_AT(tern_eq_record, rsvd_4, 0x04);

TERN_AT(tern_eqe, type, 0x00);
TERN_AT(tern_eqe, detail, 0x02);
TERN_AT(tern_eqe, id, 0x04);
TERN_AT(tern_eqe, generation, 0x08);
TERN_AT(tern_eqe, phase, 0x0c);

TERN_AT(tern_fault, addr, 0x00);
TERN_AT(tern_fault, length, 0x08);
TERN_AT(tern_fault, key, 0x10);
TERN_AT(tern_fault, qpn, 0x14);
TERN_AT(tern_fault, token, 0x18);
TERN_AT(tern_fault, side, 0x1c);
TERN_AT(tern_fault, write, 0x1d);
TERN_AT(tern_fault, port, 0x1e);
TERN_AT(tern_fault, rsvd_1f, 0x1f);
TERN_AT(tern_fault, rsvd_20, 0x20);
TERN_AT(tern_fault, phase, 0x3c);

TERN_AT(tern_cmd_create_cq, pages, 0x00);
TERN_AT(tern_cmd_create_cq, record, 0x10);
TERN_AT(tern_cmd_create_cq, eqn, 0x18);
TERN_AT(tern_cmd_create_cq, uar, 0x1c);
TERN_AT(tern_cmd_create_cq, log_size, 0x20);
TERN_AT(tern_cmd_create_cq, flags, 0x21);
TERN_AT(tern_cmd_create_cq, rsvd_22, 0x22);

TERN_AT(tern_cmd_resize_cq, pages, 0x00);
TERN_AT(tern_cmd_resize_cq, cqn, 0x10);
TERN_AT(tern_cmd_resize_cq, log_size, 0x14);
TERN_AT(tern_cmd_resize_cq, rsvd_15, 0x15);

TERN_AT(tern_rsp_resize_cq, pi, 0x00);
TERN_AT(tern_rsp_resize_cq, rsvd_4, 0x04);

TERN_AT(tern_cmd_modify_cq, cqn, 0x00);
TERN_AT(tern_cmd_modify_cq, count, 0x04);
TERN_AT(tern_cmd_modify_cq, period, 0x06);
TERN_AT(tern_rsp_query_cq, pi, 0x00);
TERN_AT(tern_rsp_query_cq, ci, 0x04);
TERN_AT(tern_rsp_query_cq, reported, 0x08);
TERN_AT(tern_rsp_query_cq, eqn, 0x0c);
TERN_AT(tern_rsp_query_cq, generation, 0x10);
TERN_AT(tern_rsp_query_cq, count, 0x14);
TERN_AT(tern_rsp_query_cq, period, 0x16);
TERN_AT(tern_rsp_query_cq, log_size, 0x18);
TERN_AT(tern_rsp_query_cq, flags, 0x19);
TERN_AT(tern_rsp_query_cq, state, 0x1a);
TERN_AT(tern_rsp_query_cq, rsvd_1b, 0x1b);
TERN_AT(tern_rsp_query_cq, rsvd_1c, 0x1c);

TERN_AT(tern_cmd_create_mr, pages, 0x00);
TERN_AT(tern_cmd_create_mr, iova, 0x10);
TERN_AT(tern_cmd_create_mr, length, 0x18);
TERN_AT(tern_cmd_create_mr, offset, 0x20);
TERN_AT(tern_cmd_create_mr, pdn, 0x28);
TERN_AT(tern_cmd_create_mr, access, 0x2c);
TERN_AT(tern_cmd_create_mr, dmn, 0x30);
TERN_AT(tern_cmd_create_mr, kind, 0x34);
TERN_AT(tern_cmd_create_mr, flags, 0x35);
TERN_AT(tern_cmd_create_mr, rsvd_36, 0x36);

TERN_AT(tern_cmd_update_pages, pages, 0x00);
TERN_AT(tern_cmd_update_pages, first, 0x10);
TERN_AT(tern_cmd_update_pages, key, 0x18);
TERN_AT(tern_cmd_update_pages, flags, 0x1c);

TERN_AT(tern_cmd_rereg_mr, pages, 0x00);
TERN_AT(tern_cmd_rereg_mr, iova, 0x10);
TERN_AT(tern_cmd_rereg_mr, length, 0x18);
TERN_AT(tern_cmd_rereg_mr, offset, 0x20);
TERN_AT(tern_cmd_rereg_mr, key, 0x28);
TERN_AT(tern_cmd_rereg_mr, mask, 0x2c);
TERN_AT(tern_cmd_rereg_mr, pdn, 0x30);
TERN_AT(tern_cmd_rereg_mr, access, 0x34);
TERN_AT(tern_cmd_rereg_mr, flags, 0x38);
TERN_AT(tern_cmd_rereg_mr, rsvd_39, 0x39);

TERN_AT(tern_rsp_mr, iova, 0x00);
TERN_AT(tern_rsp_mr, length, 0x08);
TERN_AT(tern_rsp_mr, key, 0x10);
TERN_AT(tern_rsp_mr, pdn, 0x14);
TERN_AT(tern_rsp_mr, access, 0x18);
TERN_AT(tern_rsp_mr, qpn, 0x1c);
TERN_AT(tern_rsp_mr, num_windows, 0x20);
TERN_AT(tern_rsp_mr, mr_key, 0x24);
TERN_AT(tern_rsp_mr, state, 0x28);
TERN_AT(tern_rsp_mr, type, 0x29);
TERN_AT(tern_rsp_mr, rsvd_2a, 0x2a);

TERN_AT(tern_cmd_alloc_mw, pdn, 0x00);
TERN_AT(tern_cmd_alloc_mw, type, 0x04);
TERN_AT(tern_cmd_alloc_mw, rsvd_5, 0x05);

TERN_AT(tern_cmd_alloc_dm, length, 0x00);
TERN_AT(tern_cmd_alloc_dm, log_align, 0x08);
TERN_AT(tern_cmd_alloc_dm, rsvd_c, 0x0c);

TERN_AT(tern_rsp_alloc_dm, offset, 0x00);
TERN_AT(tern_rsp_alloc_dm, size, 0x08);
TERN_AT(tern_rsp_alloc_dm, dmn, 0x10);
TERN_AT(tern_rsp_alloc_dm, rsvd_14, 0x14);

TERN_AT(tern_cmd_map_dm_op, offset, 0x00);
TERN_AT(tern_cmd_map_dm_op, dmn, 0x08);
TERN_AT(tern_cmd_map_dm_op, op, 0x0c);
TERN_AT(tern_cmd_map_dm_op, rsvd_d, 0x0d);

TERN_AT(tern_cmd_create_qp, pages, 0x00);
TERN_AT(tern_cmd_create_qp, record, 0x10);
TERN_AT(tern_cmd_create_qp, sq_offset, 0x18);
TERN_AT(tern_cmd_create_qp, rq_offset, 0x1c);
TERN_AT(tern_cmd_create_qp, pdn, 0x20);
TERN_AT(tern_cmd_create_qp, uar, 0x24);
TERN_AT(tern_cmd_create_qp, send_cqn, 0x28);
TERN_AT(tern_cmd_create_qp, recv_cqn, 0x2c);
TERN_AT(tern_cmd_create_qp, srqn, 0x30);
TERN_AT(tern_cmd_create_qp, xrcdn, 0x34);
TERN_AT(tern_cmd_create_qp, type, 0x38);
TERN_AT(tern_cmd_create_qp, flags, 0x39);
TERN_AT(tern_cmd_create_qp, log_sq_size, 0x3a);
TERN_AT(tern_cmd_create_qp, log_sq_stride, 0x3b);
TERN_AT(tern_cmd_create_qp, log_rq_size, 0x3c);
TERN_AT(tern_cmd_create_qp, log_rq_stride, 0x3d);
TERN_AT(tern_cmd_create_qp, rsvd_3e, 0x3e);

TERN_AT(tern_qp_attr, av, 0x00);
TERN_AT(tern_qp_attr, dest_qpn, 0x28);
TERN_AT(tern_qp_attr, qkey, 0x2c);
TERN_AT(tern_qp_attr, sq_psn, 0x30);
TERN_AT(tern_qp_attr, rq_psn, 0x34);
TERN_AT(tern_qp_attr, access, 0x38);
TERN_AT(tern_qp_attr, pkey_index, 0x3c);
TERN_AT(tern_qp_attr, state, 0x3e);
TERN_AT(tern_qp_attr, path_mtu, 0x3f);
TERN_AT(tern_qp_attr, max_rd_atomic, 0x40);
TERN_AT(tern_qp_attr, max_dest_rd_atomic, 0x41);
TERN_AT(tern_qp_attr, min_rnr_timer, 0x42);
TERN_AT(tern_qp_attr, timeout, 0x43);
TERN_AT(tern_qp_attr, retry_cnt, 0x44);
TERN_AT(tern_qp_attr, rnr_retry, 0x45);
TERN_AT(tern_qp_attr, sq_draining, 0x46);
TERN_AT(tern_qp_attr, port, 0x47);
TERN_AT(tern_qp_attr, rate_limit, 0x48);
TERN_AT(tern_qp_attr, max_burst, 0x4c);
TERN_AT(tern_qp_attr, typical_packet, 0x50);
TERN_AT(tern_qp_attr, rsvd_52, 0x52);

TERN_AT(tern_qp_alt, av, 0x00);
TERN_AT(tern_qp_alt, pkey_index, 0x28);
TERN_AT(tern_qp_alt, port, 0x2a);
TERN_AT(tern_qp_alt, timeout, 0x2b);
TERN_AT(tern_qp_alt, mig_state, 0x2c);
TERN_AT(tern_qp_alt, rsvd_2d, 0x2d);

TERN_AT(tern_cmd_modify_qp, qpn, 0x00);
TERN_AT(tern_cmd_modify_qp, mask, 0x04);
TERN_AT(tern_cmd_modify_qp, cur_state, 0x08);
TERN_AT(tern_cmd_modify_qp, flags, 0x0c);
TERN_AT(tern_cmd_modify_qp, attr, 0x10);
TERN_AT(tern_cmd_modify_qp, alt, 0x68);

TERN_AT(tern_rsp_query_qp, attr, 0x00);
TERN_AT(tern_rsp_query_qp, sq_ci, 0x58);
TERN_AT(tern_rsp_query_qp, rq_ci, 0x5c);
TERN_AT(tern_rsp_query_qp, rate, 0x60);
TERN_AT(tern_rsp_query_qp, rsvd_64, 0x64);
TERN_AT(tern_rsp_query_qp, alt, 0x68);

TERN_AT(tern_cmd_resume_qp, qpn, 0x00);
TERN_AT(tern_cmd_resume_qp, token, 0x04);
TERN_AT(tern_cmd_resume_qp, side, 0x08);
TERN_AT(tern_cmd_resume_qp, result, 0x09);
TERN_AT(tern_cmd_resume_qp, rsvd_a, 0x0a);

TERN_AT(tern_cmd_create_srq, pages, 0x00);
TERN_AT(tern_cmd_create_srq, record, 0x10);
TERN_AT(tern_cmd_create_srq, pdn, 0x18);
TERN_AT(tern_cmd_create_srq, xrcdn, 0x1c);
TERN_AT(tern_cmd_create_srq, cqn, 0x20);
TERN_AT(tern_cmd_create_srq, log_size, 0x24);
TERN_AT(tern_cmd_create_srq, log_stride, 0x25);
TERN_AT(tern_cmd_create_srq, flags, 0x26);
TERN_AT(tern_cmd_create_srq, log_ops, 0x27);
TERN_AT(tern_cmd_create_srq, ops_pages, 0x28);
TERN_AT(tern_cmd_create_srq, uar, 0x38);
TERN_AT(tern_cmd_create_srq, max_tags, 0x3c);

TERN_AT(tern_cmd_modify_srq, pages, 0x00);
TERN_AT(tern_cmd_modify_srq, srqn, 0x10);
TERN_AT(tern_cmd_modify_srq, mask, 0x14);
TERN_AT(tern_cmd_modify_srq, limit, 0x18);
TERN_AT(tern_cmd_modify_srq, log_size, 0x1c);
TERN_AT(tern_cmd_modify_srq, rsvd_1d, 0x1d);

TERN_AT(tern_rsp_query_srq, limit, 0x00);
TERN_AT(tern_rsp_query_srq, ci, 0x04);

TERN_AT(tern_cmd_mcast, gid, 0x00);
TERN_AT(tern_cmd_mcast, qpn, 0x10);
TERN_AT(tern_cmd_mcast, port, 0x14);
TERN_AT(tern_cmd_mcast, rsvd_15, 0x15);

TERN_AT(tern_eth_txd, addr, 0x00);
TERN_AT(tern_eth_txd, length, 0x08);
TERN_AT(tern_eth_txd, flags, 0x0c);
TERN_AT(tern_eth_txd, rsvd_e, 0x0e);

TERN_AT(tern_eth_offload, csum_start, 0x00);
TERN_AT(tern_eth_offload, csum_offset, 0x02);
TERN_AT(tern_eth_offload, mss, 0x04);
TERN_AT(tern_eth_offload, header_len, 0x06);
TERN_AT(tern_eth_offload, vlan, 0x08);
TERN_AT(tern_eth_offload, ops, 0x0a);
TERN_AT(tern_eth_offload, flags, 0x0c);
TERN_AT(tern_eth_offload, rsvd_e, 0x0e);

TERN_AT(tern_eth_rxd, addr, 0x00);
TERN_AT(tern_eth_rxd, length, 0x08);
TERN_AT(tern_eth_rxd, rsvd_c, 0x0c);

TERN_AT(tern_eth_record, pi, 0x00);
TERN_AT(tern_eth_record, rsvd_4, 0x04);
TERN_AT(tern_eth_record, status, 0x40);
TERN_AT(tern_eth_record, rsvd_44, 0x44);

TERN_AT(tern_cmd_create_eth_queue, pages, 0x00);
TERN_AT(tern_cmd_create_eth_queue, record, 0x10);
TERN_AT(tern_cmd_create_eth_queue, cqn, 0x18);
TERN_AT(tern_cmd_create_eth_queue, uar, 0x1c);
TERN_AT(tern_cmd_create_eth_queue, direction, 0x20);
TERN_AT(tern_cmd_create_eth_queue, log_size, 0x21);
TERN_AT(tern_cmd_create_eth_queue, port, 0x22);
TERN_AT(tern_cmd_create_eth_queue, flags, 0x23);
TERN_AT(tern_cmd_create_eth_queue, rsvd_24, 0x24);

TERN_AT(tern_cmd_set_rx_filter, flags, 0x00);
TERN_AT(tern_cmd_set_rx_filter, num_macs, 0x02);
TERN_AT(tern_cmd_set_rx_filter, port, 0x04);
TERN_AT(tern_cmd_set_rx_filter, rsvd_5, 0x05);
TERN_AT(tern_cmd_set_rx_filter, macs, 0x08);
TERN_AT(tern_cmd_set_rx_filter, vlans, 0x188);

TERN_AT(tern_cmd_rss, id, 0x00);
TERN_AT(tern_cmd_rss, port, 0x04);
TERN_AT(tern_cmd_rss, log_entries, 0x05);
TERN_AT(tern_cmd_rss, kind, 0x06);
TERN_AT(tern_cmd_rss, func, 0x07);
TERN_AT(tern_cmd_rss, fields, 0x08);
TERN_AT(tern_cmd_rss, key, 0x10);
TERN_AT(tern_cmd_rss, entries, 0x38);

TERN_AT(tern_cmd_set_rx_default, id, 0x00);
TERN_AT(tern_cmd_set_rx_default, dest, 0x04);
TERN_AT(tern_cmd_set_rx_default, port, 0x05);
TERN_AT(tern_cmd_set_rx_default, rsvd_6, 0x06);

TERN_AT(tern_flow_fields, dmac, 0x00);
TERN_AT(tern_flow_fields, smac, 0x06);
TERN_AT(tern_flow_fields, ether_type, 0x0c);
TERN_AT(tern_flow_fields, vlan, 0x0e);
TERN_AT(tern_flow_fields, src_ip, 0x10);
TERN_AT(tern_flow_fields, dst_ip, 0x20);
TERN_AT(tern_flow_fields, flow_label, 0x30);
TERN_AT(tern_flow_fields, tos, 0x34);
TERN_AT(tern_flow_fields, ttl, 0x35);
TERN_AT(tern_flow_fields, protocol, 0x36);
TERN_AT(tern_flow_fields, frag, 0x37);
TERN_AT(tern_flow_fields, src_port, 0x38);
TERN_AT(tern_flow_fields, dst_port, 0x3a);
TERN_AT(tern_flow_fields, spi, 0x3c);
TERN_AT(tern_flow_fields, esp_seq, 0x40);
TERN_AT(tern_flow_fields, mpls, 0x44);

TERN_AT(tern_flow_tunnel, vni, 0x00);
TERN_AT(tern_flow_tunnel, gre_flags, 0x04);
TERN_AT(tern_flow_tunnel, gre_protocol, 0x06);
TERN_AT(tern_flow_tunnel, gre_key, 0x08);

TERN_AT(tern_cmd_create_flow, priority, 0x00);
TERN_AT(tern_cmd_create_flow, dest_id, 0x04);
TERN_AT(tern_cmd_create_flow, tag, 0x08);
TERN_AT(tern_cmd_create_flow, counter, 0x0c);
TERN_AT(tern_cmd_create_flow, kind, 0x10);
TERN_AT(tern_cmd_create_flow, dest, 0x11);
TERN_AT(tern_cmd_create_flow, port, 0x12);
TERN_AT(tern_cmd_create_flow, flags, 0x13);
TERN_AT(tern_cmd_create_flow, layers, 0x14);
TERN_AT(tern_cmd_create_flow, inner_layers, 0x16);
TERN_AT(tern_cmd_create_flow, tunnel_value, 0x18);
TERN_AT(tern_cmd_create_flow, tunnel_mask, 0x24);
TERN_AT(tern_cmd_create_flow, value, 0x30);
TERN_AT(tern_cmd_create_flow, mask, 0x78);
TERN_AT(tern_cmd_create_flow, inner_value, 0xc0);
TERN_AT(tern_cmd_create_flow, inner_mask, 0x108);

TERN_AT(tern_rsp_flow_counter, packets, 0x00);
TERN_AT(tern_rsp_flow_counter, bytes, 0x08);

#undef TERN_AT

#endif /* TERN_LAYOUT_H */
