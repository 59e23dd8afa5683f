# SPDX-License-Identifier: GPL-2.0-or-later
"""Two hosts for the machines of ternd: network namespaces, each with a bridge, joined by VXLAN over
a veth. On the first host, ternd's uplink is a tap in the bridge; on the second, a packet socket at
a veth whose other end is in the bridge."""
import fcntl
import os
import struct
import subprocess

VXLAN = 50  # bytes that it takes of each packet: Ethernet, IPv4, UDP and VXLAN headers
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000


class Host:
    """A network namespace; processes that start in its `with` block run in it. It lasts as long
    as its descriptor and its processes."""
    def __init__(self, number):
        self.number = number
        self.uplink = ("tap=tern0", "packet=tern0")[number - 1]
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        os.unshare(os.CLONE_NEWNET)
        self.fd = os.open("/proc/self/ns/net", os.O_RDONLY)
        os.setns(home, os.CLONE_NEWNET)
        os.close(home)

    def __enter__(self):
        self.home = os.open("/proc/self/ns/net", os.O_RDONLY)
        os.setns(self.fd, os.CLONE_NEWNET)

    def __exit__(self, *_):
        os.setns(self.home, os.CLONE_NEWNET)
        os.close(self.home)

    def ip(self, *commands):
        with self:
            for command in commands:
                subprocess.run(["ip", *command.split()], check=True)

    def close(self):
        os.close(self.fd)


def make_hosts(mtu):
    """Returns the hosts, ready for their daemons. `mtu`: of the machines' network."""
    hosts = [Host(1), Host(2)]
    hosts[0].ip("link add under type veth peer name peer",
                f"link set peer netns /proc/{os.getpid()}/fd/{hosts[1].fd}")
    hosts[1].ip("link set peer name under")
    for host in hosts:
        host.ip(
            f"link set under mtu {mtu + VXLAN} up", f"addr add 192.0.2.{host.number}/24 dev under",
            f"link add vxlan0 mtu {mtu} type vxlan id 77 dstport 4789 local 192.0.2.{host.number} remote 192.0.2.{3 - host.number}",
            "link add br0 type bridge", "link set vxlan0 master br0 up", "link set br0 up")
    hosts[1].ip(f"link add tern0 mtu {mtu} type veth peer name port0 mtu {mtu}",
                "link set tern0 up", "link set port0 master br0 up")
    return hosts


def join(host, mtu):
    """Adds the tap of a running ternd to the bridge."""
    if host.uplink.startswith("tap="):
        host.ip(f"link set tern0 mtu {mtu} master br0 up")


def open_tap(host, name, mtu):
    """Creates a tap in the bridge, for a virtio-net with all its offloads."""
    with host:
        tap = open("/dev/net/tun", "r+b", buffering=0)
        fcntl.ioctl(tap, TUNSETIFF,
                    struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI | IFF_VNET_HDR))
    os.set_inheritable(tap.fileno(), True)
    host.ip(f"link set {name} mtu {mtu} master br0 up")
    return tap
