/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
/*
 * tern hardware contract: offsets of the members of the event log's structures, apart
 * from tern_layout.h because the kernel does not have them. Include this file after it.
 */
#ifndef TERN_EVENT_LOG_LAYOUT_H
#define TERN_EVENT_LOG_LAYOUT_H

#define TERN_AT(type, member, offset) \
	static_assert(offsetof(struct type, member) == (offset), #type "." #member)

TERN_AT(tern_log_header, magic, 0x00);
TERN_AT(tern_log_header, version, 0x08);
TERN_AT(tern_log_header, header_size, 0x0a);
TERN_AT(tern_log_header, record_size, 0x0c);
TERN_AT(tern_log_header, clock, 0x0e);
TERN_AT(tern_log_header, rsvd_f, 0x0f);
TERN_AT(tern_log_header, epoch, 0x10);
TERN_AT(tern_log_header, mac, 0x18);
TERN_AT(tern_log_header, rsvd_1e, 0x1e);
TERN_AT(tern_log_header, name, 0x20);

TERN_AT(tern_log_event, time, 0x00);
TERN_AT(tern_log_event, type, 0x08);
TERN_AT(tern_log_event, code, 0x09);
TERN_AT(tern_log_event, flags, 0x0a);
TERN_AT(tern_log_event, qpn, 0x0c);
TERN_AT(tern_log_event, addr, 0x10);
TERN_AT(tern_log_event, length, 0x18);
TERN_AT(tern_log_event, key, 0x20);
TERN_AT(tern_log_event, index, 0x24);
TERN_AT(tern_log_event, value, 0x28);
TERN_AT(tern_log_event, detail, 0x2c);

#undef TERN_AT

#endif /* TERN_EVENT_LOG_LAYOUT_H */
