# SPDX-License-Identifier: GPL-2.0-or-later
"""tern-view --live: serves the page while captures and event logs grow, to browsers of this
host."""
import argparse
import os
import signal
import sys
import threading

from adapters import Adapters
from feed import Feed
from file_follower import Tail
from server import Server
from sources import source_of

TOP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../..")
KEEP, MOST_KEEP = 10_000, 200_000
ENDS = {signal.SIGINT, signal.SIGTERM}
RECORDS = 4  # records of each event log for each packet


def arguments():
    p = argparse.ArgumentParser(
        prog="tern-view --live",
        description="Serves the page while captures and event logs grow, with faults on demand.")
    p.add_argument("--live", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("files", nargs="*", metavar="FILE",
                   help="captures and event logs that grow (default: those of the running lab)")
    p.add_argument(
        "--control", metavar="SOCKET", help=
        "the control socket of a ternd: its adapters get faults; without FILE, it captures for the page"
    )
    p.add_argument("--capture", metavar="PORT", dest="port_name",
                   help="the port that ternd captures (default: its first adapter)")
    p.add_argument("--run", metavar="DIR", default=os.path.normpath(os.path.join(TOP, "build/run")),
                   help="where the lab runs (default: %(default)s)")
    p.add_argument("--port", type=int, default=0, metavar="N",
                   help="of 127.0.0.1 (default: a free one)")
    p.add_argument("--last", type=int, default=KEEP, metavar="N",
                   help="how many packets the page keeps (default: %(default)s)")
    p.add_argument("--no-icrc", action="store_true", help="do not check the ICRC of each frame")
    opt = p.parse_args()
    if not 100 <= opt.last <= MOST_KEEP:
        p.error(f"--last: 100 to {MOST_KEEP}")
    if not 0 <= opt.port <= 65535:
        p.error("--port: 0 to 65535")
    if len(opt.files) > 64:
        p.error("no more than 64 files")
    return opt


def main():
    opt = arguments()

    def tail(path, name=None):
        return Tail(path, opt.last, RECORDS * opt.last, not opt.no_icrc, name)

    source = source_of(opt, tail)
    feed = Feed(source, opt.last)
    try:
        server = Server(opt.port, feed, Adapters(source.adapters))
    except OSError as e:
        print(f"tern-view: port {opt.port}: {e}", file=sys.stderr)
        return 2
    # Only this thread waits for them: a handler could run in another thread, without waking this
    # one.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
    try:
        feed.start()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.url, flush=True)
        signal.sigwait(ENDS)
    finally:
        server.shutdown()
        feed.stop()
        getattr(source, "close", lambda: None)()
    return 0
