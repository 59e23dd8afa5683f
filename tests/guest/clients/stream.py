#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""stream.py PROTOCOL serve ADDRESS PORT FILE | PROTOCOL send ADDRESS PORT FILE: sends a file over
sockets of a protocol (smc or rds).

The receiver answers with the SHA-256 of what it got. The sender fails unless that is the file's; it
prints its rate."""
import hashlib
import os
import socket
import sys
import time

CHUNK = 65536
SMC = 256  # IPPROTO_SMC


def make(protocol, address):
    if protocol == "rds":
        return socket.socket(socket.AF_RDS, socket.SOCK_SEQPACKET, 0)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    s = socket.socket(family, socket.SOCK_STREAM, SMC)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return s


def serve(protocol, address, port, path):
    s = make(protocol, address)
    s.bind((address, port))
    digest = hashlib.sha256()
    with open(path, "wb") as f:
        if protocol == "rds":
            print("listening", flush=True)
            while True:
                data, peer = s.recvfrom(CHUNK)
                if not data or data == b"end":
                    break
                digest.update(data)
                f.write(data)
            s.sendto(digest.hexdigest().encode(), peer)
            s.recvfrom(CHUNK)  # the sender has it
            return
        s.listen()
        print("listening", flush=True)
        c, _ = s.accept()
        while data := c.recv(CHUNK):
            digest.update(data)
            f.write(data)
        c.sendall(digest.hexdigest().encode())
        c.close()


def send(protocol, address, port, path, local):
    s = make(protocol, address)
    digest = hashlib.sha256()
    began = time.monotonic()
    if protocol == "rds":
        s.bind((local, 0))
    else:
        s.connect((address, port))
    with open(path, "rb") as f:
        while data := f.read(8192 if protocol == "rds" else CHUNK):
            digest.update(data)
            if protocol == "rds":
                s.sendto(data, (address, port))
            else:
                s.sendall(data)
    if protocol == "rds":
        s.sendto(b"end", (address, port))
        theirs = s.recvfrom(CHUNK)[0].decode()
        s.sendto(b"end", (address, port))
    else:
        s.shutdown(socket.SHUT_WR)
        theirs = b"".join(iter(lambda: s.recv(CHUNK), b"")).decode()
    if theirs != digest.hexdigest():
        sys.exit(f"checksums differ: {digest.hexdigest()} and {theirs}")
    print(f"{os.path.getsize(path) / 1e6 / (time.monotonic() - began):.1f} MB/s")


def main():
    protocol, role, address, port, path, *local = sys.argv[1:]
    if role == "serve":
        serve(protocol, address, int(port), path)
    else:
        send(protocol, address, int(port), path, *(local or [""]))


if __name__ == "__main__":
    main()
