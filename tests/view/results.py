# SPDX-License-Identifier: GPL-2.0-or-later
"""Result lines of a test that uses a browser."""


class Lines:
    """`part`: of the tests' names."""
    def __init__(self, part):
        self.part, self.failed = part, False

    def check(self, name, got, expected=True):
        good = got == expected
        self.failed |= not good
        print(
            f"ok {self.part}/{name}" if good else
            f"not ok {self.part}/{name} - expected {expected!r}, got {got!r}", flush=True)

    def accessible(self, c, name, axe):
        """No rule of axe-core is broken; `axe`: its script, or nothing."""
        if not axe:
            print(f"# axe-{name}: not run, this host has no npm to fetch axe-core with")
            return
        with open(axe, encoding="utf-8") as f:
            c.run(f.read() + "; 0")
        result = c.run("""axe.run(document, {resultTypes: ['violations']})
            .then(r => r.violations.map(v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.target.join(' ')).join(', ')))"""
                       )
        self.check(f"axe-{name}", result, [])
