# SPDX-License-Identifier: GPL-2.0-or-later
"""What answers as ternd and QEMU do, for tests of the live view that have neither."""
import json
import os
import socket
import threading


class Fake(threading.Thread):
    """A unix socket that answers one connection after the other."""
    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.requests, self.rules = path, [], {}
        if os.path.exists(path):
            os.unlink(path)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        self.socket.listen()
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.join(5)
        self.socket.close()
        os.unlink(self.path)

    def run(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with client:
                self.serve(client)

    def report(self, name):
        return "".join(f"{rule}  # matched 3, applied 1\n"
                       for rule in self.rules.get(name, "").splitlines())

    def set(self, name, text):
        """An error if a rule is wrong."""
        word, _, rest = text.partition(" ")
        new = (rest if word in ("add", "remove") else text).splitlines()
        for at, rule in enumerate(new):
            if rule.split()[0].partition("=")[0] not in ("drop", "delay", "duplicate", "corrupt",
                                                         "reorder", "mark"):
                return f"rule {at + 1}: no action '{rule.split()[0]}'"
        if word in ("add", "remove") and not new:
            return f"{word} needs a rule"
        now = self.rules.get(name, "").splitlines()
        if word == "add":
            new = now + new
        elif word == "remove":
            for rule in new:
                if rule not in now:
                    return f"there is no rule '{rule}'"
                now.remove(rule)
            new = now
        self.rules[name] = "\n".join(new)
        return None


class FakeTernd(Fake):
    """Two adapters and an uplink."""
    file = None

    def serve(self, client):
        data, fds, _, _ = socket.recv_fds(client, 65536, 1)
        while data and not data.endswith(b"\n"):
            data += client.recv(65536)
        if not data:
            return
        request = json.loads(data)
        self.requests.append(request)
        client.sendall(json.dumps(self.answer(request, fds)).encode() + b"\n")

    def answer(self, request, fds):
        if request["command"] == "list":
            return {
                "result": {
                    "adapters": [{"name": "vm1"}, {"name": "vm2"}], "uplinks": [{"name": "up"}]
                }
            }
        if request["command"] == "capture":
            if self.file is not None:
                os.close(self.file)
            self.file = fds[0] if fds else None
            return {"result": {}}
        if "rules" in request and (error := self.set(request["port"], request["rules"])):
            return {"error": error}
        return {"result": {"rules": self.report(request["port"])}}

    def capture(self, data):
        """Writes to the file that the last capture was for."""
        os.write(self.file, data)


class FakeQemu(Fake):
    """A machine with the devices tern0 and tern1, and others."""
    devices = ("tern0", "tern1")

    def serve(self, client):
        with client.makefile("rw") as f:
            f.write('{"QMP": {}}\n')
            f.flush()
            for line in f:
                request = json.loads(line)
                self.requests.append(request)
                f.write('{"event": "X"}\n' + json.dumps(self.answer(request)) + "\n")
                f.flush()

    def answer(self, request):
        arguments = request.get("arguments", {})
        device = arguments.get("path", "").rpartition("/")[2]
        if request["execute"] == "qom-list":
            return {
                "return": [{"name": d, "type": "child<tern>"} for d in self.devices] +
                [{"name": "disk", "type": "child<virtio-blk-pci>"}]
            }
        if request["execute"] == "qom-set" and (error := self.set(device, arguments["value"])):
            return {"error": {"class": "GenericError", "desc": error}}
        return {"return": self.report(device) if request["execute"] == "qom-get" else {}}
