# SPDX-License-Identifier: GPL-2.0-or-later
"""The live view's server: who may ask, what it refuses, its bounds, its data; and faults, of a real
ternd and of sockets that act as QEMU."""
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.join(HERE, "../..")
sys.path[:0] = [
    HERE,
    os.path.join(TOP, "tools/tern-view"),
    os.path.join(TOP, "tests/judge"),
    os.path.join(TOP, "tools")
]

import adapters  # noqa: E402
import feed  # noqa: E402
import file_follower  # noqa: E402
import server  # noqa: E402
import sources  # noqa: E402
from fakes import FakeQemu, FakeTernd  # noqa: E402
from test_tern_view import TOOL, Directory  # noqa: E402

TERND = os.path.join(TOP, "build/ternd/ternd")
KEEP = 1000


class Served(Directory):
    def setUp(self):
        super().setUp()
        self.fake = FakeTernd(self.path("control"))
        self.addCleanup(self.fake.__exit__)
        self.source = sources.Files([self.story()],
                                    lambda path: file_follower.Tail(path, KEEP, KEEP),
                                    self.fake.path)
        self.addCleanup(self.source.tails()[0].close)
        self.feed = feed.Feed(self.source, KEEP)
        self.server = server.Server(0, self.feed, adapters.Adapters(self.source.adapters))
        self.addCleanup(self.server.server_close)
        self.feed.start()
        self.addCleanup(self.feed.stop)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05},
                         daemon=True).start()
        self.addCleanup(self.server.shutdown)

    def ask(self, method, path, body=None, **headers):
        """(status, headers, body). A header that is None is not sent."""
        given = {
            "Host": f"127.0.0.1:{self.server.port}", "X-Tern-Token": self.server.token,
            "Origin": f"http://127.0.0.1:{self.server.port}",
            **({"Content-Length": str(len(body))} if body is not None else {}),
            **{name.replace("_", "-"): value for name, value in headers.items()}
        }
        client = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        try:
            client.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    client.putheader(name, value)
            client.endheaders(body)
            answer = client.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            client.close()

    def json(self, method, path, value=None):
        status, _, body = self.ask(method, path,
                                   json.dumps(value).encode() if value is not None else None)
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def page(self, token=None):
        return self.ask("GET", f"/?token={self.server.token if token is None else token}",
                        X_Tern_Token=None, Origin=None)


class Access(Served):
    def test_url_has_a_random_token(self):
        self.assertRegex(self.server.url, r"^http://127\.0\.0\.1:\d+/\?token=[\w-]{32}$")
        other = server.Server(0, self.feed, None)
        other.server_close()
        self.assertNotEqual(self.server.token, other.token)

    def test_listens_on_this_host_only(self):
        self.assertEqual(self.server.socket.getsockname(), ("127.0.0.1", self.server.port))

    def test_page_needs_the_token(self):
        self.assertEqual(self.page()[0], 200)
        for token in ("", "x", self.server.token[:-1], self.server.token + "x",
                      self.server.token.swapcase(), "%00", "%C3%BC"):
            with self.subTest(token=token):
                status, _, body = self.page(token)
                self.assertEqual((status, b"10.77" in body), (403, False))
        self.assertEqual(self.ask("GET", "/")[0], 403)  # in the header only

    def test_data_state_and_faults_need_the_token(self):
        for path in ("/state", "/data", "/faults", "/nothing"):
            for token in (None, "", "x", self.server.token[1:], "\xfc"):
                with self.subTest(path=path, token=token):
                    self.assertEqual(self.ask("GET", path, X_Tern_Token=token)[0], 403)
            # The URL of the page is not enough: a link cannot fetch data.
            self.assertEqual(
                self.ask("GET", f"{path}?token={self.server.token}", X_Tern_Token=None)[0], 403)
        self.assertEqual(self.ask("POST", "/faults", b"{}", X_Tern_Token="x")[0], 403)
        self.assertEqual(self.fake.requests, [])

    def test_token_is_compared_in_constant_time(self):
        with mock.patch.object(server.secrets, "compare_digest", return_value=False) as compare:
            self.assertEqual(self.page()[0], 403)
        compare.assert_called_once()

    def test_other_hosts_are_refused(self):
        for host in ("example.org", f"example.org:{self.server.port}", "127.0.0.1", "127.0.0.1:1",
                     f"127.0.0.1.example.org:{self.server.port}", "", None):
            with self.subTest(host=host):
                self.assertEqual(self.ask("GET", "/state", Host=host)[0], 403)
                self.assertEqual(self.ask("POST", "/faults", b"{}", Host=host)[0], 403)
        self.assertEqual(self.ask("GET", "/state", Host=f"localhost:{self.server.port}")[0], 200)

    def test_changes_need_this_origin(self):
        body = json.dumps({"adapter": "vm1", "add": "drop tx"}).encode()
        for origin in (None, "null", "http://example.org", "http://127.0.0.1",
                       f"https://127.0.0.1:{self.server.port}",
                       f"http://127.0.0.1:{self.server.port}.example.org"):
            with self.subTest(origin=origin):
                self.assertEqual(self.ask("POST", "/faults", body, Origin=origin)[0], 403)
        self.assertEqual(self.fake.requests, [])
        self.assertEqual(self.ask("POST", "/faults", body)[0], 200)

    def test_reading_does_not_change(self):
        self.assertEqual(self.ask("GET", "/faults?adapter=vm1&add=drop+tx")[0], 200)
        self.assertEqual(self.fake.rules, {})

    def test_serves_no_file(self):
        for path in ("/tern-view", "/../../../etc/passwd", "/page/live.js", "//etc/passwd",
                     "/%2e%2e/server.py", "/faults/", "/?x", "/.", "http://[", "*"):
            with self.subTest(path=path):
                self.assertIn(self.ask("GET", path)[0], (400, 403, 404))

    def test_other_methods(self):
        for method in ("PUT", "DELETE", "OPTIONS", "HEAD", "CONNECT"):
            with self.subTest(method=method):
                self.assertEqual(self.ask(method, "/faults")[0], 501)

    def test_policy_of_the_page(self):
        _, headers, body = self.page()
        meta = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"',
                         body.decode())[1]
        self.assertEqual(headers["Content-Security-Policy"], f"{meta}; frame-ancestors 'none'")
        policy = dict(part.strip().split(" ", 1) for part in meta.split(";"))
        self.assertEqual((policy["default-src"], policy["connect-src"], policy["form-action"]),
                         ("'none'", "'self'", "'none'"))
        self.assertRegex(policy["script-src"], r"^'sha256-[\w+/=]+'$")
        self.assertEqual((headers["Referrer-Policy"], headers["X-Content-Type-Options"],
                          headers["Cache-Control"], headers["X-Frame-Options"]),
                         ("no-referrer", "nosniff", "no-store", "DENY"))
        self.assertNotIn("Access-Control-Allow-Origin", headers)


class Bounds(Served):
    def test_size_of_a_change(self):
        for length in ("32769", "99999999999999999999", "-1", "1e3", "x", "", "\xb2", None):
            with self.subTest(length=length):
                self.assertEqual(self.ask("POST", "/faults", Content_Length=length)[0], 413)

    def test_what_is_no_change(self):
        for body in (b"", b"{", b"[" * 30000, b"\xff", b"[]", b"1", b'{"adapter": 1}',
                     b'{"adapter": "vm1"}', b'{"adapter": "vm9", "add": "drop tx"}',
                     b'{"adapter": "vm1", "add": ""}', b'{"adapter": "vm1", "add": ["x"]}',
                     b'{"adapter": "vm1", "remove": "x"}', b'{"adapter": "vm1", "remove": 1}',
                     b'{"adapter": "vm1", "clear": 1}'):
            with self.subTest(body=body[:40]):
                status, _, answer = self.ask("POST", "/faults", body)
                self.assertEqual((status, list(json.loads(answer))), (200, ["error"]))
        self.assertEqual(self.fake.rules, {})

    def test_long_lines_and_many_headers(self):
        self.assertIn(self.ask("GET", "/?" + "x" * 70000)[0], (414, ))
        self.assertEqual(self.ask("GET", "/?" + "&".join(f"a{k}=1" for k in range(50)))[0], 400)
        self.assertEqual(self.ask("GET", "/state", **{f"X{k}": "1" for k in range(200)})[0], 431)

    def wait_for(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            time.sleep(0.02)
        self.assertTrue(condition())

    def test_many_clients(self):
        """Those that have not shown the token keep nobody out: the oldest one makes room."""
        idle = [
            socket.create_connection(("127.0.0.1", self.server.port), timeout=10)
            for _ in range(server.MOST_CLIENTS)
        ]
        self.wait_for(lambda: len(self.server.strangers) == server.MOST_CLIENTS)
        self.assertEqual(self.page()[0], 200)
        self.assertEqual(idle[0].recv(1), b"")
        for client in idle:
            client.close()
        self.wait_for(lambda: not self.server.strangers and not self.server.clients)

    def test_many_clients_with_the_token(self):
        clients = []
        for _ in range(server.MOST_CLIENTS):
            clients.append(socket.create_connection(("127.0.0.1", self.server.port), timeout=10))
            clients[-1].sendall(
                f"POST /faults HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\nX-Tern-Token: {self.server.token}\r\n"
                f"Origin: http://127.0.0.1:{self.server.port}\r\nContent-Length: 5\r\n\r\n".encode(
                ))
        self.wait_for(lambda: len(self.server.clients) == server.MOST_CLIENTS)
        self.assertEqual(self.ask("GET", "/state")[0], 503)
        for client in clients:
            client.close()
        self.wait_for(lambda: not self.server.clients)
        self.assertEqual(self.page()[0], 200)

    def test_the_default_port_of_http(self):
        """Browsers leave port 80 out of Host and Origin."""
        self.assertEqual(self.ask("GET", "/state", Host="127.0.0.1")[0], 403)
        with mock.patch.object(server.socketserver.ThreadingTCPServer, "__init__",
                               lambda self, at, _: setattr(self, "server_address", (at[0], 80))):
            hosts = server.Server(80, self.feed, None).hosts
        self.assertEqual(hosts, {"127.0.0.1", "localhost", "127.0.0.1:80", "localhost:80"})

    def test_a_client_that_says_nothing(self):
        with mock.patch.object(server.Handler, "timeout", 0.2), socket.create_connection(
            ("127.0.0.1", self.server.port), timeout=10) as client:
            self.assertEqual(client.recv(1), b"")

    def test_a_client_that_is_slow(self):
        with mock.patch.object(server, "WHOLE", 0.5), socket.create_connection(
            ("127.0.0.1", self.server.port), timeout=10) as client:
            begin = time.monotonic()
            client.sendall(b"GET / HTTP/1.1\r\n")
            try:
                while time.monotonic() - begin < 8:
                    client.sendall(b"X: y\r\n")
                    if select.select([client], [], [], 0.1)[0]:
                        break
            except OSError:
                pass
            self.assertLess(time.monotonic() - begin, 6)
        self.wait_for(lambda: not self.server.strangers)


class Data(Served):
    def append(self, copies):
        with open(self.story(), "r+b") as f:
            story = f.read()
            f.write(story[24:] * copies)

    def newer(self, version, seconds=15):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (state := self.json("GET", "/state?looks=1"))["version"] != version:
                return state
            time.sleep(0.1)
        self.fail("no new data")
        return None

    def test_page_has_the_data(self):
        body = self.page()[2].decode()
        live = json.loads(re.search(r'id="live">(.*?)</script>', body)[1])
        self.assertEqual((live["version"], live["keep"], live["title"]), (1, KEEP, "story.pcap"))
        self.assertEqual(
            json.loads(re.search(r'id="meta">(.*?)</script>', body)[1])["totals"]["packets"], 52)
        self.assertNotIn("@LIVE@", body)

    def test_new_packets(self):
        self.assertEqual(self.json("GET", "/state?looks=1")["version"], 1)
        self.append(1)
        state = self.newer(1)
        data = self.json("GET", "/data")
        self.assertEqual((data["version"], data["meta"]["totals"]["packets"]),
                         (state["version"], 104))
        self.assertEqual(state["files"], [{
            "name": "story.pcap", "state": "reading", "say": "", "begun": 1, "count": 104,
            "log": False
        }])
        self.assertRegex(data["origin"], r"^\d{19}$")

    def test_bounded_window(self):
        self.append(30)
        self.newer(1)
        data = self.json("GET", "/data")
        self.assertEqual(data["meta"]["totals"]["packets"], KEEP)
        self.assertLess(len(json.dumps(data)), 200_000)
        self.assertEqual(self.json("GET", "/state")["files"][0]["count"], 31 * 52)

    def test_a_capture_that_is_never_read_to_its_end(self):
        look = self.feed.look
        with mock.patch.object(self.feed, "look", lambda: look() or True):
            self.append(1)
            self.newer(1)
        self.assertEqual(self.json("GET", "/data")["meta"]["totals"]["packets"], 104)

    def test_nobody_looks(self):
        self.append(1)
        for _ in range(10):
            self.json("GET", "/state?looks=0")
            time.sleep(0.15)
        self.assertEqual(self.json("GET", "/state?looks=0")["version"], 1)

    def test_nothing_new(self):
        for _ in range(10):
            self.assertEqual(self.json("GET", "/state?looks=1")["version"], 1)
            time.sleep(0.15)

    def test_a_file_that_goes_wrong(self):
        os.unlink(self.story())
        self.newer(1)
        state = self.json("GET", "/state")
        self.assertEqual((state["files"][0]["state"], state["files"][0]["say"]),
                         ("gone", "is gone; what was read of it stays"))
        self.assertEqual(self.json("GET", "/data")["meta"]["totals"]["packets"], 52)

    def test_an_error_of_the_reader_is_said_and_goes(self):
        with mock.patch.object(feed.window, "state_of",
                               side_effect=RuntimeError("broken")), mock.patch.object(
                                   feed.traceback, "print_exc"):
            end = time.monotonic() + 10
            while not (said := self.json("GET", "/state")["say"]) and time.monotonic() < end:
                time.sleep(0.1)
        self.assertEqual(said, ["The data cannot be read: broken"])
        end = time.monotonic() + 10
        while self.json("GET", "/state")["say"] and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(self.json("GET", "/state")["say"], [])


class Faults(Served):
    def test_rules_and_counts(self):
        self.fake.set("vm2", "drop tx\ndelay=5ms rx")
        found = self.json("GET", "/faults")["adapters"]
        self.assertEqual([(a["name"], [r["rule"] for r in a["rules"]]) for a in found],
                         [("vm1", []), ("vm2", ["drop tx", "delay=5ms rx"]), ("up", [])])
        self.assertEqual(found[1]["rules"][0], {"rule": "drop tx", "matched": 3, "applied": 1})

    def test_add_remove_clear(self):
        for rule in ("drop tx nth=1", "mark rx", "drop tx nth=1"):
            answer = self.json("POST", "/faults", {"adapter": "vm1", "add": rule})
        self.assertEqual([r["rule"] for r in answer["adapter"]["rules"]],
                         ["drop tx nth=1", "mark rx", "drop tx nth=1"])
        answer = self.json("POST", "/faults", {"adapter": "vm1", "remove": "mark rx"})
        self.assertEqual(self.json("POST", "/faults", {"adapter": "vm1", "remove": "mark rx"}),
                         {"error": "vm1: there is no rule 'mark rx'"})
        self.assertEqual(self.fake.rules["vm1"].splitlines(), ["drop tx nth=1"] * 2)
        self.assertEqual(
            self.json("POST", "/faults", {"adapter": "vm1", "clear": True})["adapter"]["rules"], [])
        self.assertEqual(self.fake.rules["vm1"], "")

    def test_a_wrong_rule_changes_nothing(self):
        self.json("POST", "/faults", {"adapter": "vm1", "add": "drop tx"})
        self.assertEqual(self.json("POST", "/faults", {"adapter": "vm1", "add": "drp tx"}),
                         {"error": "vm1: rule 1: no action 'drp'"})
        self.assertEqual(self.fake.rules["vm1"], "drop tx")

    def test_ternd_that_is_gone(self):
        os.rename(self.fake.path, self.path("away"))
        self.assertEqual(self.json("GET", "/faults"),
                         {"error": "the adapters cannot be reached: No such file or directory"})
        self.assertIn("cannot be reached",
                      self.json("POST", "/faults", {"adapter": "vm1", "add": "drop tx"})["error"])
        os.rename(self.path("away"), self.fake.path)
        self.assertEqual(len(self.json("GET", "/faults")["adapters"]), 3)


class Machines(Directory):
    """Adapters of the lab."""
    def test_devices_of_qemu(self):
        with FakeQemu(self.path("vm1.qmp")) as fake:
            of = adapters.Adapters(lambda: adapters.of_lab(self.dir.name))
            self.assertEqual([a["name"] for a in of.list()], ["vm1:0", "vm1:1"])
            answer = of.change({"adapter": "vm1:1", "add": "drop tx nth=2"})
            self.assertEqual((answer["rules"][0]["rule"], fake.rules),
                             ("drop tx nth=2", {"tern1": "drop tx nth=2"}))
            with self.assertRaisesRegex(adapters.Refused, "vm1:1: rule 1: no action 'drp'"):
                of.change({"adapter": "vm1:1", "add": "drp"})

    def test_machines_with_one_adapter_have_plain_names(self):
        with mock.patch.object(FakeQemu, "devices",
                               ("tern0", )), FakeQemu(self.path("vm1.qmp")), FakeQemu(
                                   self.path("vm2.qmp")), FakeQemu(self.path("vm10.qmp")):
            self.assertEqual([a.name for a in adapters.of_lab(self.dir.name)],
                             ["vm1", "vm2", "vm10"])

    def test_a_machine_that_is_off(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(self.path("vm1.qmp"))
        with FakeQemu(self.path("vm2.qmp")):
            self.assertEqual([a.name for a in adapters.of_lab(self.dir.name)], ["vm2:0", "vm2:1"])

    def test_ternd_of_the_lab(self):
        with FakeTernd(self.path("ternd0.ctl")), FakeQemu(self.path("vm1.qmp")) as qemu:
            self.assertEqual([a.name for a in adapters.of_lab(self.dir.name)], ["vm1", "vm2", "up"])
            self.assertEqual(qemu.requests, [])

    def test_notes_of_an_adapter(self):
        self.assertEqual(adapters.rules_of("drop tx  # matched 1, applied 0\n# held back now: 4\n"),
                         ([{"rule": "drop tx", "matched": 1, "applied": 0}], ["held back now: 4"]))


class RealTernd(Directory):
    def setUp(self):
        super().setUp()
        self.ternd = subprocess.Popen([
            TERND, "--adapter",
            self.path("vm1.sock"), "--adapter",
            self.path("vm2.sock"), "--control",
            self.path("control")
        ], stderr=subprocess.DEVNULL)
        self.addCleanup(self.ternd.wait)
        self.addCleanup(self.ternd.terminate)
        end = time.monotonic() + 30
        while not os.path.exists(self.path("control")) and time.monotonic() < end:
            time.sleep(0.05)
        self.of = adapters.Adapters(lambda: adapters.of_ternd(self.path("control")))

    def test_rules_of_every_kind(self):
        rules = [
            "drop tx opcode=write-last nth=1", "duplicate=2 rx opcode=ack", "delay=5ms rx rate=1%",
            "reorder=3 tx every=10", "corrupt=icrc rx qp=0x11 count=10", "mark tx"
        ]
        for rule in rules:
            self.of.change({"adapter": "vm1", "add": rule})
        found = {a["name"]: a["rules"] for a in self.of.list()}
        self.assertEqual(
            found,
            {"vm1": [{"rule": rule, "matched": 0, "applied": 0} for rule in rules], "vm2": []})
        self.of.change({"adapter": "vm1", "remove": rules[2]})
        self.assertEqual([r["rule"] for r in self.of.list()[0]["rules"]], rules[:2] + rules[3:])
        self.assertEqual(self.of.change({"adapter": "vm1", "clear": True})["rules"], [])

    def test_what_others_set_meanwhile_stays(self):
        self.of.change({"adapter": "vm1", "add": "drop tx"})
        faults, port = adapters.OfTernd.faults, adapters.OfTernd(self.path("control"), "vm1")

        def beside_another(adapter, change=None):
            if change is not None:
                faults(port, "add mark rx")
            return faults(adapter, change)

        with mock.patch.object(adapters.OfTernd, "faults", beside_another):
            self.of.change({"adapter": "vm1", "add": "drop rx"})
            self.of.change({"adapter": "vm1", "remove": "drop tx"})
        self.assertEqual([r["rule"] for r in self.of.list()[0]["rules"]],
                         ["mark rx", "drop rx", "mark rx"])

    def test_too_many_rules(self):
        for rules in ("x" * 8192, "drop tx;" * 65, "drop tx;" * 40):
            with self.subTest(rules=rules[:20]), self.assertRaisesRegex(
                    adapters.Refused, "more than (8192|64)"):
                self.of.change({"adapter": "vm1", "add": "mark rx;" * 30})
                self.of.change({"adapter": "vm1", "add": rules})
            self.of.change({"adapter": "vm1", "clear": True})

    def test_several_rules_in_one_text(self):
        answer = self.of.change({
            "adapter": "vm2",
            "add": "drop tx rate=1% seed=1; duplicate tx rate=1% seed=2\nmark rx # a comment"
        })
        self.assertEqual(len(answer["rules"]), 3)
        self.assertEqual(len(self.of.change({"adapter": "vm2", "add": "drop rx"})["rules"]), 4)

    def test_errors_are_those_of_the_device(self):
        for rule, words in (("drp tx", "vm1: rule 1: "), ("drop", "vm1: "),
                            ("delay=99s rx", "vm1: "), ("<script>", "vm1: ")):
            with self.subTest(rule=rule), self.assertRaisesRegex(adapters.Refused, words):
                self.of.change({"adapter": "vm1", "add": rule})
        self.assertEqual(self.of.list()[0]["rules"], [])

    def test_capture(self):
        source = sources.Ternd(
            self.path("control"), None,
            lambda path, name=None: file_follower.Tail(path, KEEP, KEEP, name=name))
        self.addCleanup(source.close)
        tail, = source.tails()
        end = time.monotonic() + 10
        while tail.content is None and time.monotonic() < end:
            tail.look()
            time.sleep(0.05)
        self.assertEqual((tail.name, tail.content.counts["frames"], source.say()), ("vm1", 0, ""))


class Command(Directory):
    def start(self, *args):
        process = subprocess.Popen(
            [sys.executable, os.path.join(TOOL, "tern-view"), "--live", *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_prints_its_url_and_ends_in_order(self):
        for end in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(end=end):
                process = self.start(self.story())
                port, token = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]+)\n",
                                           process.stdout.readline()).groups()
                client = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
                client.request("GET", f"/?token={token}")
                self.assertEqual(client.getresponse().status, 200)
                client.close()
                process.send_signal(end)
                self.assertEqual(process.communicate(timeout=15), ("", ""))
                self.assertEqual(process.returncode, 0)

    def test_ternd_stops_capturing(self):
        with FakeTernd(self.path("control")) as fake:
            process = self.start("--control", fake.path)
            process.stdout.readline()
            process.terminate()
            process.wait(15)
            self.assertEqual(fake.requests[-1], {"command": "capture", "port": "vm1"})

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            process = self.start("--port", str(taken.getsockname()[1]), self.story())
            self.assertEqual(process.wait(15), 2)
            self.assertIn("Address already in use", process.stderr.read())

    def test_options(self):
        for wrong in (["--last", "5"], ["--last", "999999"], ["--port", "70000"], ["-o", "x"]):
            with self.subTest(wrong=wrong):
                self.assertEqual(self.run_tool("--live", *wrong).returncode, 2)
        self.assertIn("127.0.0.1", self.run_tool("--live", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
