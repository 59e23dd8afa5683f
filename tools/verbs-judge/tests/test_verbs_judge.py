# SPDX-License-Identifier: GPL-2.0-or-later
#
# Test: verbs-judge-self
# Tier: quick, 120 s
# Boot: none
# Run: tests/tap/pytest tools/verbs-judge/tests
# Proves: What verbs-judge makes of rules that pass, fail, are skipped, kill their program or hang;
#   its JSON, its page, and files that are none.
"""What verbs-judge makes of a program of rules that passes, fails, dies and hangs."""
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = HERE.parent / "verbs-judge"
sys.path[1:1] = [str(HERE.parent), str(HERE.parent.parent)]

import judging  # noqa: E402
import report  # noqa: E402

# Answers --list with the rules of $RULES, and runs a rule by its name.
FAKE = """#!/usr/bin/python3
import json, os, signal, sys
rules = os.environ["RULES"].split()
if "--list" in sys.argv:
    for name in rules:
        group, _, rest = name.partition("/")
        print(json.dumps({"group": group, "about": "", "name": name, "says": "it " + rest,
                          "authority": "ibv_x(3)", "risk": "dies" if "risky" in rest else "",
                          "across": rest != "here"}))
    sys.exit()
names = sys.argv[sys.argv.index("--") + 1:]
if names[0].endswith("gone"):
    print("not ok setup - no device fake0")
    sys.exit(1)
for name in names:
    kind = name.rpartition("/")[2].rstrip("0123456789")
    print("#: post SEND", flush=True)
    if kind == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "exits":
        sys.exit(7)
    if kind == "hangs":
        print("not ok", name, "- hangs", flush=True)
        sys.exit(3)
    if kind == "here" and "--across" in sys.argv:
        continue
    print({"fails": f"not ok {name} - a <b> & c", "lacks": f"ok {name} # SKIP no IBV_DEVICE_XRC",
           "chose": f"ok {name} # NOT DECIDED ENOSPC, not ENOMEM"}.get(kind, f"ok {name} # 0.01 s"),
          flush=True)
print("1..3")
"""


@pytest.fixture(name="run")
def runner(tmp_path):
    program = tmp_path / "verbs-rules"
    program.write_text(FAKE)
    program.chmod(0o755)

    def run(rules, *args):
        env = {**os.environ, "RULES": rules, "VERBS_RULES": str(program)}
        return subprocess.run([COMMAND, "-d", "fake0", *args], env=env, capture_output=True,
                              text=True, timeout=60, check=False)

    return run


def results(out):
    return [line for line in out.splitlines() if line.startswith(("ok", "not ok"))]


def test_results(run):
    done = run("a/works a/fails b/lacks b/chose")
    assert results(done.stdout) == [
        "ok a/works", "not ok a/fails - a <b> & c", "ok b/lacks # SKIP no IBV_DEVICE_XRC",
        "ok b/chose # NOT DECIDED ENOSPC, not ENOMEM"
    ]
    assert "1..4" in done.stdout.splitlines()
    assert done.returncode == 1
    assert run("a/works b/lacks b/chose").returncode == 0


def test_the_rules_behind_a_death_run(run):
    done = run("a/works1 a/segv1 a/works2 a/exits1 a/hangs1 a/segv2")
    assert results(done.stdout) == [
        "ok a/works1", "not ok a/segv1 - the program dies: SIGSEGV", "ok a/works2",
        "not ok a/exits1 - the program ends with status 7", "not ok a/hangs1 - hangs",
        "not ok a/segv2 - the program dies: SIGSEGV"
    ]


def test_a_device_that_goes(run):
    """Its rules are not lost, and each costs no further attempt."""
    done = run("a/works1 a/segv1 a/gone a/works2")
    assert results(done.stdout) == [
        "ok a/works1", "not ok a/segv1 - the program dies: SIGSEGV",
        "not ok a/gone - no device fake0", "not ok a/works2 - no device fake0"
    ]
    never = run("a/gone a/works")
    assert never.returncode == 2 and "no device fake0" in never.stderr


def test_choice_of_rules(run):
    rules = "a/works1 b/works2 b/risky"
    assert results(run(rules, "--group", "b").stdout) == ["ok b/works2"]
    assert results(run(rules, "--group", "a,b/risk*",
                       "--risky").stdout) == ["ok a/works1", "ok b/risky"]
    wrong = run(rules, "--group", "c")
    assert wrong.returncode == 2 and "the groups are a, b" in wrong.stderr
    assert "b/risky: it risky [ibv_x(3)] risky: dies" in run(rules, "--list").stdout


def test_rules_without_a_peer_do_not_apply(run):
    done = run("a/works a/here b/works", "--peer", "host", "--no-ssh")
    assert results(done.stdout) == ["ok a/works", "ok b/works"]


def test_files(run, tmp_path):
    old, new, page = (tmp_path / name for name in ("old.json", "new.json", "page.html"))
    run("a/works1 a/fails1", "--json", old)
    done = run("a/works1 a/lacks1", "--json", new)
    judged = json.loads(new.read_text())
    assert [r["result"] for r in judged["results"]] == ["pass", "not supported"]
    assert judged["results"][0]["trace"] == ["post SEND"]
    assert judged["about"]["device"] == "fake0"
    # The same rule with another result on another device.
    text = old.read_text().replace('"a/fails1"', '"a/lacks1"')
    old.write_text(text)
    done = run("", "--read", new, "--against", old, "--html", page)
    assert "# 1 rules differ from fake0" in done.stdout
    assert "#   a/lacks1: fail -> not supported" in done.stdout
    html = page.read_text()
    assert "a \\u003cb> & c" in html and "<b>" not in html
    assert not re.search("@[A-Z]+@", html)


@pytest.mark.parametrize("text", [
    "", "[]", "{}", '{"about": 1, "results": []}', '{"about": {}, "results": [{"name": 1}]}',
    '{"about": {}, "results": [7]}'
])
def test_files_that_are_none(run, tmp_path, text):
    wrong = tmp_path / "wrong.json"
    wrong.write_text(text)
    done = run("", "--read", wrong)
    assert done.returncode == 2 and "has no results of verbs-judge" in done.stderr


def test_no_program(tmp_path):
    env = {**os.environ, "VERBS_RULES": "", "PATH": "/usr/bin:/bin"}
    if not any(os.access(path, os.X_OK) for path in judging.PLACES):
        done = subprocess.run([COMMAND, "-d", "x"], env=env, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 2 and "verbs-rules is missing" in done.stderr
    with pytest.raises(report.Malformed):
        report.load(os.devnull)
