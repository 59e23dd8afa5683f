#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""smc.py ueid NAME: adds a user EID, without which two machines do not agree on SMC-Rv2. smc.py
stats: prints the counters of this network namespace as NAME VALUE: connections by version, bytes,
fallbacks to TCP by the reason (SMC_CLC_DECL_* in net/smc/smc_clc.h).

The generic netlink of net/smc (include/uapi/linux/smc.h); smc-tools is not in Debian."""
import socket
import struct
import sys

GET_STATS, GET_FALLBACKS, ADD_UEID = 7, 8, 10
DUMP = 0x300
STATS, SMCR_TECH = 7, 2
FALLBACKS, FALLBACK_REASON, FALLBACK_COUNT = 8, 4, 5
TECH = {
    7: "client-v1", 8: "client-v2", 9: "server-v1", 10: "server-v2", 16: "rx-bytes", 17: "tx-bytes"
}
NESTED = 0x8000


def attributes(data):
    found = {}
    while len(data) >= 4:
        size, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3fff] = data[4:size]
        data = data[(size + 3) & ~3:]
    return found


def attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


class Netlink:
    def __init__(self):
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
        self.sock.bind((0, 0))
        reply = self.ask(16, 3, attribute(2, b"SMC_GEN_NETLINK\0"), 1)  # CTRL_CMD_GETFAMILY by name
        self.family, = struct.unpack("=H", attributes(reply[0])[1])

    def ask(self, family, command, data, flags):
        """The payloads of the replies, without their generic headers."""
        body = struct.pack("=BBH", command, 1, 0) + data
        self.sock.send(struct.pack("=IHHII", 16 + len(body), family, flags | 1, 1, 0) + body)
        found = []
        while True:
            got = self.sock.recv(65536)
            while len(got) >= 16:
                size, kind, given = struct.unpack_from("=IHH", got)
                if kind == 2:  # NLMSG_ERROR
                    error, = struct.unpack_from("=i", got, 16)
                    if error:
                        raise OSError(-error, "netlink")
                    return found
                if kind == 3:  # NLMSG_DONE
                    return found
                found.append(got[20:size])
                got = got[(size + 3) & ~3:]
                if not given & 2 and not flags & DUMP and not flags & 4:
                    return found


def main():
    netlink = Netlink()
    if sys.argv[1] == "ueid":
        try:
            netlink.ask(netlink.family, ADD_UEID,
                        attribute(1, sys.argv[2].ljust(32).encode() + b"\0"), 4)
        except FileExistsError:  # an earlier test of this boot has added it
            pass
        return
    for reply in netlink.ask(netlink.family, GET_STATS, b"", DUMP):
        tech = attributes(attributes(attributes(reply)[STATS])[SMCR_TECH])
        for kind, name in TECH.items():
            print(name, struct.unpack("=Q", tech[kind])[0])
    for reply in netlink.ask(netlink.family, GET_FALLBACKS, b"", DUMP):
        reason = attributes(attributes(reply)[FALLBACKS])
        print(f"fallback-{struct.unpack('=I', reason[FALLBACK_REASON])[0]:#x}",
              struct.unpack("=H", reason[FALLBACK_COUNT])[0])


if __name__ == "__main__":
    main()
