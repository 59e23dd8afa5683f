# SPDX-License-Identifier: GPL-2.0-or-later
"""tern COMMAND...

  tern run [option]... -- CMD...   boots machines with tern adapters on one wire, runs CMD as root
                                   in the first, and ends with its status (tern run --help)
  tern shell [option]...           a login in the first machine, with the options of run
  tern tour [option]...            shows the adapter, with pass or fail for each step
  tern bench [option]...           measures tern beside Soft-RoCE (tern bench --help)
  tern view FILE... -o PAGE        makes a page of captures and event logs (tern view --help)

Consoles, captures and the state of machines whose command failed are in ./tern-run, or in the
directory of --run-dir or TERN_RUN_DIR. Without --share, machines see the directory tern-run/share.
Documentation/bundle.rst describes the bundle."""
import os
import runpy
import sys
import time

import places


def program(name, path, argv):
    """Becomes another Python program of the bundle."""
    sys.argv = [name, *argv]
    runpy.run_path(os.path.join(places.TOP, path), run_name="__main__")


def run(argv):
    import lab
    return lab.main(argv)


def shell(argv):
    return run([*argv, "--tty", "--", "bash", "-l"])


def view(argv):
    program("tern view", "tools/tern-view/tern-view", argv)


def bench(argv):
    program("tern bench", "packaging/bench/run", argv)


def tour(argv):
    """Runs the tour; then makes a page of what it captured."""
    import lab
    with open(f"{places.LAB}/guest/tour.options") as f:
        options = f.read().split()
    opt = lab.arguments([*options, *argv, "--", "/mnt/tern/lab/guest/tour"])
    status = lab.boot(opt)
    print("\n== the page of what RDMA did")
    where = getattr(opt, "used_dir", "")
    files = [f"{where}/{name}" for name in ("wire.pcap", "vm1.events", "vm2.events")]
    page = f"{where}/tour.html"
    try:
        view([*files, "-o", page])
    except SystemExit as e:
        if e.code:
            print("FAIL  tern view makes no page")
            status = status or 1
        else:
            print(f"Open {places.shown(page)} in a browser: capture and event logs of both "
                  "machines.\npass  tern view shows them")
    print(f"\nThe tour {'passed' if not status else f'FAILED (status {status})'}, after "
          f"{time.time() - float(os.environ['TERN_T0']):.0f} s.")
    return status


COMMANDS = {f.__name__: f for f in (run, shell, tour, bench, view)}


def main():
    os.environ.setdefault("TERN_T0", str(int(time.time())))
    name, argv = (sys.argv[1:] or ["help"])[0], sys.argv[2:]
    if name in ("help", "-h", "--help"):
        print(__doc__)
        return 0
    if name == "--version":
        with open(os.path.join(places.TOP, "commit")) as f:
            print(f"tern {f.read().strip()}")
        return 0
    if name not in COMMANDS:
        print(f"tern: there is no command {name}; tern --help lists them", file=sys.stderr)
        return 2
    return COMMANDS[name](argv)


if __name__ == "__main__":
    sys.exit(main())
