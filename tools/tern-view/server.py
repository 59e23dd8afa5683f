# SPDX-License-Identifier: GPL-2.0-or-later
"""The live page's server, for programs of this host that know the token. It serves the page, its
data and the rules of faults, but no files."""
import http.server
import io
import json
import secrets
import socket
import socketserver
import threading
import time
from urllib.parse import parse_qs, urlsplit

import adapters
import page
import webpage

HERE = "127.0.0.1"
TOKEN = "X-Tern-Token"
MOST_BODY = 4 * adapters.MOST_TEXT  # JSON escapes letters
MOST_CLIENTS = 16  # that know the token, and as many that have not shown it yet
IDLE, WHOLE = 10, 60  # limits, in seconds, of an idle client and of a whole request
SCRIPTS = (*page.SCRIPTS[:-1], "live", "faults", page.SCRIPTS[-1])
HEADERS = {
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store", "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin", "Connection": "close"
}


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, port, feed, faults):
        self.feed, self.faults, self.token = feed, faults, secrets.token_urlsafe(24)
        self.page = webpage.Page(page.HERE, SCRIPTS, page.NAME, "connect-src 'self'")
        self.panel = webpage.read(page.HERE, "live.html")
        self.clients, self.strangers, self.lock = {}, {}, threading.Lock()  # when they came
        super().__init__((HERE, port), Handler)
        self.port = self.server_address[1]
        self.hosts = {f"{HERE}:{self.port}", f"localhost:{self.port}"}
        if self.port == 80:  # which browsers leave out
            self.hosts |= {HERE, "localhost"}

    @property
    def url(self):
        return f"http://{HERE}:{self.port}/?token={self.token}"

    def process_request(self, request, client_address):
        """Accepts a client. Clients without the token keep nobody out: they give way to others."""
        with self.lock:
            if len(self.strangers) >= MOST_CLIENTS:
                self.end(next(iter(self.strangers)))
            self.strangers[request] = time.monotonic()
        super().process_request(request, client_address)

    def admit(self, request):
        """Returns whether a client that has shown the token is served."""
        with self.lock:
            begin = self.strangers.pop(request, None)
            if begin is None or len(self.clients) >= MOST_CLIENTS:
                return False
            self.clients[request] = begin
            return True

    def end(self, request):
        """Makes its thread end. Called under the lock."""
        self.clients.pop(request, None)
        self.strangers.pop(request, None)
        try:
            request.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def shutdown_request(self, request):
        with self.lock:
            self.clients.pop(request, None)
            self.strangers.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self):
        """Ends requests that take too long, however busy they seem."""
        with self.lock:
            for request, begin in [*self.clients.items(), *self.strangers.items()]:
                if time.monotonic() - begin > WHOLE:
                    self.end(request)

    def handle_error(self, request, client_address):
        """Does nothing: clients may go away at any time."""

    def html(self):
        """The page with the newest data."""
        now, out = self.feed.snapshot, io.StringIO()
        live = f'<script type="application/json" id="live">{webpage.safe_json({**now.live, "keep": self.feed.keep})}</script>\n'
        self.page.write(out, [live, *page.html_of(now.meta, now.parts)], LIVE=self.panel,
                        TITLE="Live")
        return out.getvalue().encode()


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = IDLE
    server_version, sys_version = "tern-view", ""

    def log_message(self, *_):
        pass

    def answer(self, status, kind, data):
        self.send_response(status)
        for name, value in {
                **HEADERS, "Content-Security-Policy": f"{self.server.page.policy}; frame-ancestors 'none'",
                "Content-Type": kind, "Content-Length": str(len(data))
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def json(self, value, status=200):
        self.answer(status, "application/json",
                    value if isinstance(value, bytes) else json.dumps(value).encode())

    def refuse(self, status, text):
        self.json({"error": text}, status)

    def allowed(self, token):
        """Returns whether the request is for this host by name, unlike that of a rebound domain,
        and has the token."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0] not in self.server.hosts:
            self.refuse(403, "another host")
        elif not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self.refuse(403, "wrong token: open the URL that tern-view printed")
        elif not self.server.admit(self.request):
            self.refuse(503, "too many requests at once")
        else:
            return True
        return False

    def do_GET(self):
        try:
            url = urlsplit(self.path)
            query = {
                name: values[-1] for name, values in parse_qs(url.query, max_num_fields=8).items()
            }
        except ValueError:
            self.refuse(400, "no URL of this page")
            return
        if not self.allowed(
                query.get("token", "") if url.path == "/" else self.headers.get(TOKEN, "")):
            return
        try:
            if url.path == "/":
                self.answer(200, "text/html; charset=utf-8", self.server.html())
            elif url.path == "/state":
                self.json(self.server.feed.state(query.get("looks") == "1"))
            elif url.path == "/data":
                self.json(self.server.feed.snapshot.bytes)
            elif url.path == "/faults":
                self.json({"adapters": self.server.faults.list()})
            else:
                self.refuse(404, "no such thing")
        except adapters.Refused as e:
            self.json({"error": str(e)})

    def do_POST(self):
        if not self.allowed(self.headers.get(TOKEN, "")):
            return
        if self.headers.get("Origin", "").removeprefix("http://") not in self.server.hosts:
            self.refuse(403, "another origin")
            return
        if self.path != "/faults":
            self.refuse(404, "no such thing")
            return
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdecimal() or len(length) > 9 or int(
                length) > MOST_BODY:
            self.refuse(413, f"more than {MOST_BODY} bytes, or no length")
            return
        try:
            self.json(
                {"adapter": self.server.faults.change(adapters.read(self.rfile.read(int(length))))})
        except adapters.Refused as e:  # no error of HTTP, which browsers log
            self.json({"error": str(e)})
