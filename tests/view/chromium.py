# SPDX-License-Identifier: GPL-2.0-or-later
"""A headless Chromium, driven through a pipe by its DevTools protocol."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

KEYS = {
    "Enter": 13, "Escape": 27, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37,
    "ArrowRight": 39, "Home": 36, "End": 35
}


class Chromium:
    """One browser with one page."""
    def __init__(self, program="chromium-headless-shell"):
        self.home = tempfile.mkdtemp(prefix="tern-chromium-")
        self.log = open(os.path.join(self.home, "log"), "w+b")
        ask, self.out = os.pipe()
        self.into, answer = os.pipe()

        def pipes():
            # Above 4, so that neither end is lost when the other one is put in its place.
            a, b = os.dup(ask), os.dup(answer)
            os.dup2(a, 3)
            os.dup2(b, 4)

        args = [
            program, "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--force-color-profile=srgb", "--remote-debugging-pipe",
            f"--user-data-dir={self.home}/profile", "about:blank"
        ]
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log, close_fds=False, preexec_fn=pipes,
                                        env={**os.environ, "HOME": self.home})
        os.close(ask)
        os.close(answer)
        self.number, self.buffer, self.events = 0, b"", []
        page = next(t for t in self.call("Target.getTargets", session=None)["targetInfos"]
                    if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", session=None, targetId=page["targetId"],
                                 flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        try:
            self.call("Browser.close", session=None)
            self.process.wait(10)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.into)
        os.close(self.out)
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def receive(self, timeout):
        """The next message, or None."""
        end = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            if not select.select([self.into], [], [], max(0, end - time.monotonic()))[0]:
                return None
            data = os.read(self.into, 1 << 20)
            if not data:
                self.log.seek(0)
                raise RuntimeError(
                    f"Chromium has ended: {self.log.read()[-600:].decode(errors='replace')}")
            self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, timeout=120, session="page", **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        end = time.monotonic() + timeout
        while (message := self.receive(max(0, end - time.monotonic()))) is not None:
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            if "method" in message:
                self.events.append(message)
        raise RuntimeError(f"{method}: no answer in {timeout} seconds")

    def run(self, script):
        """The value of an expression in the page, a promise's result included."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def until(self, script, timeout=120):
        """Waits until an expression is true, and returns it."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            value = self.run(f"(found => found instanceof Node || found)({script})")
            if value:
                return value
            time.sleep(0.05)
        raise RuntimeError(f"not true in {timeout} seconds: {script}")

    def open(self, path, timeout=120):
        return self.open_url(f"file://{path}", timeout)

    def open_url(self, url, timeout=120):
        self.events.clear()
        self.call("Page.navigate", url=url)
        return int(self.until("document.documentElement?.dataset.ready", timeout))

    def complaints(self):
        """Errors and warnings of the console, exceptions and violations of the page's policy, since
        the page was opened."""
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")
        found = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error",
                                                                                      "warning",
                                                                                      "assert"):
                found.append(" ".join(
                    str(a.get("value", a.get("description"))) for a in params["args"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error",
                                                                                      "warning"):
                found.append(params["entry"]["text"])
        return found

    def size(self, width, height, scale=1, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=mobile)

    def media(self, scheme, kind=""):
        self.call("Emulation.setEmulatedMedia", media=kind,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def key(self, key, shift=False):
        text = key if len(key) == 1 else {"Enter": "\r"}.get(key)
        code = KEYS.get(key, ord(key[0].upper()))
        params = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", **params,
                  **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **params)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def screenshot(self, path, full=False):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=full)
        with open(path, "wb") as f:
            f.write(base64.b64decode(data["data"]))
