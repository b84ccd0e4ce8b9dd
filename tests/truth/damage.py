"""Damages of a model: what is done to one of its parts, and the statuses of weightfs that tell of it."""
import http.client
import os
import re
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

REFUSED, MISSING, FORBIDDEN, MISMATCH, UNAVAILABLE, SYSTEM = 5, 3, 4, 7, 8, 1


class Damage(NamedTuple):
    """Damage of the part of this name: a file, a layer, a URL."""
    kind: str             # "cut", "flip", "missing", or one of a server: "403", "stall", …
    part: str
    at: int = 0           # the byte
    statuses: tuple = ()  # that tell of it

    def __str__(self):
        return f"{self.kind} {self.part}" + (f"@{self.at}" if self.kind in ("cut", "flip", "short") else "")


def cuts(part, size, count, has_digest=False):
    """`count` places, among them the first byte and the last."""
    statuses = (REFUSED, FORBIDDEN, *((MISMATCH,) if has_digest else ()))
    places = sorted({0, 1, 7, size - 1, *(size * i // count for i in range(1, count))})
    return [Damage("cut", part, at, statuses) for at in places if at < size]


def flips(part, size, count=4):
    return [
        Damage("flip", part, at, (MISMATCH, REFUSED, FORBIDDEN))
        for at in sorted({size * i // count for i in range(count)} | {size - 1})
    ]


def missing(part):
    # A missing shard is damage.
    return [Damage("missing", part, 0, (MISSING, REFUSED))]


def unreadable(part):
    """Root can read every file."""
    denied = [Damage("unreadable", part, 0, (SYSTEM,))] if os.geteuid() != 0 else []
    return [*denied, Damage("directory", part, 0, (SYSTEM, FORBIDDEN, REFUSED))]


def of_a_server(part, size):
    """What the server of a part can do instead of sending it."""
    return [Damage("403", part, 0, (FORBIDDEN,)), Damage("404", part, 0, (MISSING,)),
            *(Damage(kind, part, 0, (UNAVAILABLE,)) for kind in ("429", "503", "stall", "reset")),
            Damage("short", part, min(1000, size // 2), (UNAVAILABLE, REFUSED))]


def apply_to_file(damage, path):
    if damage.kind == "missing":
        os.unlink(path)
    elif damage.kind == "unreadable":
        os.chmod(path, 0)
    elif damage.kind == "directory":
        os.unlink(path)
        os.mkdir(path)
    elif damage.kind == "cut":
        os.truncate(path, damage.at)
    elif damage.kind == "flip":
        with open(path, "r+b") as file:
            file.seek(damage.at)
            byte = file.read(1)[0]
            file.seek(damage.at)
            file.write(bytes([byte ^ 1]))
    else:
        raise ValueError(damage.kind)


class FaultyProxy:
    """In front of a server: sends its answers on, but does a damage to those of one path. Ends with stop()."""

    def __init__(self, upstream, rewritten=()):
        self.upstream = upstream
        self.rewritten = rewritten  # (text, other) in Location headers
        self.damage = self.pattern = None
        self.sent = 0  # bytes of bodies
        self.lock = threading.Lock()
        self.ended = threading.Event()
        proxy = self

        class Handler(_Handler):
            pass
        Handler.proxy = proxy
        self.server = _Threads(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def break_with(self, damage, pattern):
        """`pattern`: of the paths of the part, with their queries."""
        self.damage, self.pattern = damage, pattern

    def heal(self):
        self.ended.set()
        self.ended = threading.Event()
        self.damage = None

    def stop(self):
        self.heal()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, address):
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy = None

    def do_GET(self):
        proxy = self.proxy
        damage = proxy.damage if proxy.damage and re.search(proxy.pattern, self.path) else None
        if damage and self.refuse(damage):
            return
        host, port = proxy.upstream.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            connection.request(self.command, self.path, headers=dict(self.headers))
            answer = connection.getresponse()
            body, headers = answer.read(), answer.getheaders()
        finally:
            connection.close()
        with proxy.lock:
            proxy.sent += len(body)
        self.send(answer.status, headers, body, damage)

    do_HEAD = do_GET

    def refuse(self, damage):
        """Whether this damage is an answer of its own."""
        if damage.kind.isdigit():
            self.send(int(damage.kind), [("Content-Type", "text/plain")], b"refused by the test\n", None)
            return True
        if damage.kind == "stall":
            self.proxy.ended.wait(60)
        if damage.kind == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if damage.kind in ("stall", "reset"):
            self.close_connection = True
            self.connection.close()
            return True
        return False

    def send(self, status, headers, body, damage):
        self.send_response_only(status)
        length = None
        for name, value in headers:
            for text, other in self.proxy.rewritten if name.lower() == "location" else ():
                value = value.replace(text, other)
            if name.lower() == "content-length":
                length = value
            elif name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", length if length is not None else str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        begin = next((int(re.search(r"(\d+)-", value)[1]) for name, value in headers if name.lower() == "content-range"), 0)
        at = damage.at - begin if damage else -1
        if damage and damage.kind == "flip" and 0 <= at < len(body):
            body = body[:at] + bytes([body[at] ^ 1]) + body[at + 1:]
        if damage and damage.kind == "short" and status in (200, 206) and len(body) > at >= 0:
            body = body[:at]
            self.close_connection = True
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *arguments):
        pass
