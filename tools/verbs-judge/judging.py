# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs verbs-rules, and survives what it tests: a rule that crashes or hangs the program has
failed, and the rules behind it run in a new process."""
import fnmatch
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time

HERE = os.path.dirname(os.path.realpath(__file__))
# In a package, in a checkout of tern, in a copy of this directory.
PLACES = ("/usr/libexec/verbs-judge/verbs-rules", f"{HERE}/../../build/guest/judge/verbs-rules",
          f"{HERE}/build/verbs-rules")
PORT = "18515"
# A rule bounds its own hang at 300 s; this is for what cannot even be interrupted.
SILENCE = 400
ENDED = 3  # the exit status after the result of a rule that hangs or crashes
RESULT = re.compile(r"(ok|not ok) (\S+)(?: (?:# |- )(.*))?$")
COMPLAINTS = re.compile(r"\b(WARNING: CPU|BUG:|Oops|general protection fault|KASAN|UBSAN|"
                        r"INFO: task \S+ blocked|refcount_t|possible recursive locking)")


class Wrong(Exception):
    """A call that cannot work; its text says why."""


def find_program():
    named = os.environ.get("VERBS_RULES")
    for path in (named, *PLACES, shutil.which("verbs-rules")):
        if path and os.access(path, os.X_OK):
            return path
    raise Wrong("verbs-rules is missing: build it with `make` beside verbs-judge")


class Program:
    def __init__(self):
        self.path = find_program()

    def rules(self):
        out = subprocess.run([self.path, "--list"], capture_output=True, text=True, check=True)
        return [json.loads(line) for line in out.stdout.splitlines()]

    def serve(self, device, more):
        return subprocess.run([self.path, "--serve", "--keep", "-d", device, *more],
                              check=False).returncode


def choose(rules, groups, risky, across=False):
    """The rules of these groups or patterns, without the risky ones unless asked for; with
    `across`, those whose other end may be on another host."""
    patterns = [p if "/" in p or "*" in p else f"{p}/*"
                for p in groups.split(",")] if groups else ["*"]
    chosen = [r for r in rules if any(fnmatch.fnmatchcase(r["name"], p) for p in patterns)]
    if not chosen:
        raise Wrong("no rule has such a name; the groups are " +
                    ", ".join(dict.fromkeys(r["group"] for r in rules)))
    return [r for r in chosen if (risky or not r["risk"]) and (r["across"] or not across)]


def outcome(ok, text):
    """(result, what the device showed) of a line of TAP."""
    if not ok:
        return "fail", text
    if text.startswith("SKIP"):
        return "not supported", text[4:].strip()
    if text.startswith("NOT DECIDED"):
        return "not decided", text[11:].strip()
    return "pass", ""


def tap(result):
    name, text = result["name"], result["detail"]
    return {
        "pass": f"ok {name}", "fail": f"not ok {name} - {text}",
        "not supported": f"ok {name} # SKIP {text}",
        "not decided": f"ok {name} # NOT DECIDED {text}",
    }[result["result"]]


class Kernel:
    """The kernel's complaints, where they may be read."""
    def __init__(self):
        try:
            self.log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self.log, 0, os.SEEK_END)
        except OSError:
            self.log = None

    def complaint(self):
        """The first complaint since the last call, or ""."""
        found = ""
        while self.log is not None:
            try:
                text = os.read(self.log, 8192).decode(errors="replace")
            except BlockingIOError:
                break
            except OSError:  # overwritten before it was read
                continue
            message = text.partition(";")[2].splitlines()[0] if ";" in text else ""
            if not found and COMPLAINTS.search(message):
                found = message
        return found


class Run:
    def __init__(self, program, options):
        self.program, self.options, self.kernel = program, options, Kernel()
        self.kernel.complaint()

    def results(self, rules):
        """Yields a result for each rule, in order."""
        first = True
        while rules:
            yield from self.attempt(rules, first)
            rules, first = rules[self.at:], False

    def attempt(self, rules, first):
        """The same in one process, until it ends or dies. Sets `at` to the number of rules that
        have their result."""
        at = {r["name"]: i for i, r in enumerate(rules)}
        self.at, why, trace, began = 0, "", [], time.monotonic()
        with Peer(self.program, self.options) as peer:
            child = self.start([r["name"] for r in rules], peer)
            for line in lines(child):
                matched = RESULT.match(line)
                if line.startswith("#: "):
                    trace.append(line[3:])
                if not matched or matched[2] not in at:
                    if line.startswith(("not ok setup", "verbs-rules: ")):
                        why = line.removeprefix("not ok setup - ")
                    continue
                index = at[matched[2]]
                now = time.monotonic()
                yield self.result(rules[index], matched[1] == "ok", matched[3] or "", trace,
                                  now - began)
                self.at, trace, began = index + 1, [], now
            status = child.wait()
        if self.at == len(rules) or (status == ENDED and self.at):
            return
        if why and first and self.at == 0:
            raise Wrong(why)
        lost = rules[self.at:]
        if not why:
            # A new process runs those behind it.
            lost = lost[:1]
            why = f"the program dies: {signal.Signals(-status).name}" if status < 0 else (
                f"the program ends with status {status}")
        for rule in lost:
            yield self.result(rule, False, why, trace, time.monotonic() - began)
        self.at += len(lost)

    def start(self, names, peer):
        o = self.options
        command = [self.program.path, "-d", o.device, "--trace", *peer.arguments, *o.more]
        if o.risky:
            command.append("--risky")
        if o.faults:
            command += ["--faults", o.faults]
        return subprocess.Popen([*command, "--", *names], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def result(self, rule, ok, text, trace, seconds):
        what, detail = outcome(ok, text)
        complaint = self.kernel.complaint()
        if complaint:
            what = "fail"
            detail = (detail + "; " if detail else "") + f"the kernel complains: {complaint}"
        return {
            **{key: rule[key] for key in ("group", "name", "says", "authority")}, "result": what,
            "detail": detail, "trace": list(trace), "seconds": round(seconds, 2)
        }


def lines(child):
    """The lines that the process prints; kills it when it is silent for too long."""
    rest = b""
    while True:
        if not select.select([child.stdout], [], [], SILENCE)[0]:
            child.kill()
        got = os.read(child.stdout.fileno(), 65536)
        *whole, rest = (rest + got).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
        if not got:
            return


class Peer:
    """The other end, on another host: `verbs-judge --serve` there, by ssh."""
    def __init__(self, program, options):
        self.arguments, self.child = [], None
        if not options.peer:
            return
        host, _, port = options.peer.partition(":")
        self.arguments = ["--across", host, "-p", port or PORT]
        if options.no_ssh:
            return
        command = (f"{options.peer_command} --serve -d {options.peer_device or options.device} "
                   f"-- -p {port or PORT}")
        self.child = subprocess.Popen(["ssh", "-tt", "-o", "BatchMode=yes", host, command],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child:
            self.child.terminate()
            self.child.wait()
