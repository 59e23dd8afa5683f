# SPDX-License-Identifier: GPL-2.0-or-later
"""Decodes frames: Ethernet, IP, UDP, BTH, extension headers, payload, pad, ICRC.

Written from the text of IBTA volume 1 (chapter 9, annexes A14, A17, A19), not from the engine's
source.
"""
import struct

from roce.headers import (ACK, ATOMIC_WRITE, CNP, FLUSH, HEADER_SIZE, NOTIFY, OPCODES, UC, UD,
                          address_text, checksum, find_udp, icrc)

GSI_QKEY = 0x80010000


class Packet:
    """One decoded RoCE frame. Fields of missing headers are absent."""
    __slots__ = ("frame", "time", "smac", "dmac", "vlan", "src", "dst", "sport", "op", "solicited",
                 "mig_req", "pad", "version", "p_key", "ecn", "reserved", "dest_qp", "ack_req",
                 "psn", "va", "r_key", "dma_length", "swap_add", "compare", "original", "syndrome",
                 "msn", "imm", "inv_key", "q_key", "source_qp", "srq", "feth", "extended", "length",
                 "payload")

    def __str__(self):
        at = f"{address_text(self.src)} -> {address_text(self.dst)} QP {self.dest_qp:#x}"
        return f"{at} {self.op.name} PSN {self.psn:#x} {self.length} bytes" if self.op else at


class Decoder:
    """Decodes frames to packets, and reports errors within single frames."""
    def __init__(self, report, orderly=lambda _: True):
        self.report = report
        self.orderly = orderly  # by MAC: whether its frames are captured as they were sent

    def decode(self, number, time, data, whole):
        """The packet, or None if it is not RoCE or too wrong to have a place in a stream."""
        report = self.report
        found = find_udp(data)
        if not found:
            report.others += 1
            return None
        if not whole:
            report.cut += 1
            return None
        ip, udp, ip4 = found
        p = Packet()
        p.frame, p.time, p.op = number, time, None
        p.dmac, p.smac = data[0:6], data[6:12]
        p.vlan = (data[14] << 8 | data[15]) & 0xFFF if ip == 18 else None
        p.src, p.dst = (data[ip + 12:ip + 16],
                        data[ip + 16:ip + 20]) if ip4 else (data[ip + 8:ip + 24],
                                                            data[ip + 24:ip + 40])
        p.sport = data[udp] << 8 | data[udp + 1]
        p.dest_qp = p.psn = 0
        report.frames += 1
        end = self.network(p, data, ip, udp, ip4)
        if end is None or not self.base(p, data, ip, udp, ip4, end):
            return None
        self.extended(p, data, udp + 20)
        self.flags(p)
        self.groups(p)
        return p

    def network(self, p, data, ip, udp, ip4):
        """Checks IP and UDP; returns the end of the ICRC, or None."""
        bad = self.report.complain
        udp_length = data[udp + 4] << 8 | data[udp + 5]
        if ip4:
            length = data[ip + 2] << 8 | data[ip + 3]
            if udp - ip != 20 or checksum(data[ip:udp]) or data[ip + 6] != 0x40:
                bad("ip-header", p, "options, wrong checksum, or not just Don't Fragment")
        else:
            length = (data[ip + 4] << 8 | data[ip + 5]) + 40
        end = udp + udp_length
        if ip + length != end or end > len(data) or udp_length < 8 + 12 + 4:
            bad("ip-length", p,
                f"IP length {length}, UDP length {udp_length}, frame of {len(data)}")
            return None
        if data[udp + 6] or data[udp + 7]:
            pseudo = p.src + p.dst + (struct.pack(">BBH", 0, 17, udp_length)
                                      if ip4 else struct.pack(">II", udp_length, 17))
            if checksum(pseudo + data[udp:end]):
                bad("udp-checksum", p, "neither 0 nor right")
        if end < len(data) and (len(data) > 64 or any(data[end:])):
            bad("frame-fill", p, f"{len(data) - end} bytes after the ICRC")
        return end

    def base(self, p, data, ip, udp, ip4, end):
        """Checks BTH, lengths and ICRC. False if the rest cannot be decoded."""
        bad = self.report.complain
        code, flags, p.p_key, ecn, dest, ack, psn = struct.unpack_from(">BBHB3sB3s", data, udp + 8)
        p.dest_qp, p.psn = int.from_bytes(dest, "big"), int.from_bytes(psn, "big")
        right = icrc(data, ip, udp, ip4, end) == int.from_bytes(data[end - 4:end], "little")
        if not self.orderly(p.smac):
            if not right:
                self.report.damaged += 1
                return False
            ecn = 0x40 if code == CNP | 1 else 0  # the byte that the ICRC does not cover
        p.op = op = OPCODES.get(code)
        p.length = 0
        if op is None:
            bad("opcode", p, f"opcode {code:#04x}")
            return False
        p.solicited = flags >> 7
        p.mig_req = flags >> 6 & 1
        p.pad = flags >> 4 & 3
        p.version = flags & 15
        p.ecn, p.reserved = ecn >> 6, ecn & 0x3F | ack & 0x7F
        p.ack_req = ack >> 7
        body = udp + 8 + op.size
        room = end - 4 - body
        if room < 0 or room % 4 or (room and not op.payload):
            bad("headers", p, f"{room} bytes between headers and ICRC")
            return False
        if not right:
            bad("icrc", p, "wrong")
            return False
        p.length = room - p.pad
        if p.length < 0 or (p.pad and any(data[end - 4 - p.pad:end - 4])):
            bad("pad", p,
                f"pad of {p.pad} in {room} bytes: " + ("too much" if p.length < 0 else "not zero"))
            if p.length < 0:
                return False
        p.extended = data[udp + 20:body]
        p.payload = data[body:body + p.length]
        return True

    def extended(self, p, data, at):
        bad, checked = self.report.complain, self.report.checked
        for header in p.op.headers:
            if header == "RETH":
                p.va, p.r_key, p.dma_length = struct.unpack_from(">QII", data, at)
                checked["dma-length"] += 1
                if p.dma_length > 1 << 31:
                    bad("dma-length", p, f"{p.dma_length} bytes")
            elif header == "AETH":
                p.syndrome, p.msn = data[at], int.from_bytes(data[at + 1:at + 4], "big")
                self.syndrome(p)
            elif header == "AtomicETH":
                p.va, p.r_key, p.swap_add, p.compare = struct.unpack_from(">QIQQ", data, at)
            elif header == "AtomicAckETH":
                p.original = int.from_bytes(data[at:at + 8], "big")
            elif header == "ImmDt":
                p.imm = data[at:at + 4]
            elif header == "IETH":
                p.inv_key = int.from_bytes(data[at:at + 4], "big")
            else:
                checked["reserved-fields"] += 1
                if header == "DETH":
                    p.q_key, reserved, p.source_qp = *struct.unpack_from(
                        ">IB", data, at), int.from_bytes(data[at + 5:at + 8], "big")
                elif header == "XRCETH":
                    reserved, p.srq = data[at], int.from_bytes(data[at + 1:at + 4], "big")
                else:
                    p.feth = int.from_bytes(data[at:at + 4], "big")
                    reserved = p.feth >> 6
                if reserved:
                    bad("reserved-fields", p, f"in {header}")
            at += HEADER_SIZE[header]
        kind = p.op.kind
        if kind == ATOMIC_WRITE:
            checked["atomic-write"] += 1
            if p.dma_length != 8 or p.length != 8:
                bad("atomic-write", p, f"{p.dma_length} bytes in RETH, {p.length} in the packet")
        elif kind == FLUSH:
            checked["flush"] += 1
            if not 1 <= p.feth & 15 <= 3 or p.feth >> 4 & 3 > 1:
                bad("flush", p, f"FETH {p.feth:#x}")
        if p.op.payload:
            checked["payload"] += 1
            if p.length > 4096:
                bad("payload", p, f"{p.length} bytes")

    def syndrome(self, p):
        bad, checked = self.report.complain, self.report.checked
        kind, value = p.syndrome >> 5, p.syndrome & 31
        checked["syndrome"] += 1
        if p.op.kind != ACK and kind != 0:
            bad("syndrome", p, f"{p.syndrome:#04x} in a response with data")
        elif kind not in (0, 1, 3) or (kind == 3 and value > 3):
            bad("syndrome", p, f"{p.syndrome:#04x} is reserved")
        elif kind == 0:
            checked["credits"] += 1
            if value != 31:
                bad("credits", p, f"credit code {value}")

    def flags(self, p):
        bad, op = self.report.complain, p.op
        if p.version:
            bad("bth-version", p, f"version {p.version}")
        if p.reserved:
            bad("bth-reserved", p, "not 0")
        if not p.mig_req and op.kind != NOTIFY:
            bad("mig-req", p, "0")
        if p.p_key | 0x8000 != 0xFFFF:
            bad("p-key", p, f"{p.p_key:#06x}")
        if p.dest_qp == 0 or (p.dest_qp == 0xFFFFFF and op.cls != UD):
            bad("dest-qp", p, f"{p.dest_qp:#x}")
        if op.kind == NOTIFY:
            self.report.checked["cnp"] += 1
            if p.ecn & 1 == 0 or p.ack_req or p.solicited or p.length != 16 or any(p.payload):
                bad("cnp", p, "fields are not those of a CNP")
            return
        if p.ecn:
            bad("ecn", p, f"FECN and BECN {p.ecn}")
        if p.solicited and not (op.data and op.last):
            bad("solicited", p, "set")
        if op.response or op.cls in (UC, UD):
            if p.ack_req:
                bad("ack-request", p, "set")
        elif op.last and not p.ack_req:
            bad("ack-request", p, "missing")

    def groups(self, p):
        """Checks multicast and datagrams."""
        bad, checked = self.report.complain, self.report.checked
        ip4 = len(p.dst) == 4
        group = p.dst[0] >> 4 == 14 if ip4 else p.dst[0] == 0xFF
        if p.op.cls != UD:
            if group:
                bad("multicast", p, "connected QPs do not talk to groups")
            return
        checked["multicast"] += 1
        mac = (b"\x01\x00\x5e" + bytes([p.dst[1] & 0x7F]) + p.dst[2:] if ip4 else b"\x33\x33" +
               p.dst[12:]) if group else p.dmac
        if group != (p.dest_qp == 0xFFFFFF) or mac != p.dmac or p.dmac[0] & 1 != group:
            bad("multicast", p, f"destination MAC {p.dmac.hex(':')}")
        checked["ud-source"] += 1
        if p.source_qp in (0, 0xFFFFFF):
            bad("ud-source", p, f"{p.source_qp:#x}")
        if p.dest_qp == 1:
            checked["gsi"] += 1
            if p.length != 256 or p.q_key != GSI_QKEY or p.payload[0] != 1:
                bad("gsi", p, f"{p.length} bytes, Q_Key {p.q_key:#x}")
