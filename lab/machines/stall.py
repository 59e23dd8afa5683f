"""Describes a machine whose kernel reports a stall: the kernel's first report, QEMU's threads and
the processors' state."""
import os
import re
import time

STALL = b"detected stalls on CPUs"
# Registers and code in a trace add no information to the function names.
_DULL = re.compile(
    r"\] (R[A-D0-9][A-Z0-9]*|RSP|RDX|FS|CS|CR2|DR\d|PKRU|Code|Modules linked in|Hardware name)\b")
_PROCESSOR = re.compile(r"^(CPU#|.*\b(RIP|EIP)=|.*\b(LVTT|Timer|ISR|IRR)\b)")


def first_report(path, lines=45):
    """Returns the kernel's lines from the first stall report on."""
    with open(path, errors="replace") as f:
        text = f.read().splitlines()
    start = next((i for i, line in enumerate(text) if STALL.decode() in line), None)
    return [] if start is None else [
        line for line in text[start:start + 3 * lines] if not _DULL.search(line)
    ][:lines]


def in_driver(report):
    """Returns whether a driver of tern appears in the report: then it is the cause, not the
    machine."""
    return any(re.search(r"(^|[\s:])tern_\w+\+0x|\[tern(_ib)?\]", line) for line in report)


def _threads(pid):
    for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
        with open(f"/proc/{pid}/task/{task}/stat") as f:
            name, rest = re.match(r"\d+ \((.*)\) (.*)", f.read()).groups()
        fields = rest.split()
        yield f"thread {task} {name}: {fields[0]}, {fields[11]} ticks of user, {fields[12]} of system time"


def _processors(ask):
    for command in ("info status", "info cpus", "info registers -a", "info lapic 0",
                    "info lapic 1"):
        answer = ask({"execute": "human-monitor-command", "arguments": {"command-line": command}})
        for line in str(answer.get("return", answer)).splitlines():
            if not command.startswith(("info registers", "info lapic")) or _PROCESSOR.match(line):
                yield line.strip()


def describe(pid, ask):
    """Returns lines about the QEMU with process id pid; ask() sends it a QMP command."""
    lines = []
    try:
        # Twice, to show which threads make progress.
        for i in range(2):
            time.sleep(i)
            lines += _threads(pid)
            lines += _processors(ask)
    except OSError as e:
        lines.append(f"no further information: {e}")
    return lines
