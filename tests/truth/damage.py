"""Damages of a model: what is done to one of its parts, and the statuses of weightfs that tell of it."""
import http.client
import os
import re
import threading
from typing import NamedTuple

from scripted_server import Request, Server, faulty, responds

HOP_BY_HOP = ("Transfer-Encoding", "Connection", "Keep-Alive")
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
    """In front of a server: sends its responses on, but does a damage to those of one path. Ends with its test."""

    def __init__(self, test, upstream):
        self.upstream = upstream.removeprefix("http://")
        self.sent = 0  # bytes of bodies
        self.lock = threading.Lock()
        self.healed = threading.Event()
        self.broken = self.pattern = None
        self.url = Server(test, self.answer).origin

    def break_with(self, damage, pattern):
        """`pattern`: of the paths of the part, with their queries."""
        self.pattern, healed = pattern, self.healed
        self.broken = {
            "flip": faulty(self.forward, flip=damage.at), "short": faulty(self.forward, cut=damage.at), "reset": Request.reset,
            "stall": lambda request: request.hang(healed)
        }.get(damage.kind) or responds(int(damage.kind), b"refused by the test\n", Content_Type="text/plain")

    def heal(self):
        self.healed.set()
        self.healed = threading.Event()
        self.broken = None

    def answer(self, request):
        broken = self.broken
        return (broken if broken and re.search(self.pattern, request.target) else self.forward)(request)

    def forward(self, request):
        connection = http.client.HTTPConnection(self.upstream, timeout=30)
        try:
            connection.request(request.method, request.target, headers=request.headers)
            answer = connection.getresponse()
            body, headers = answer.read(), dict(answer.getheaders())
        finally:
            connection.close()
        with self.lock:
            self.sent += len(body)
        return answer.status, {name: value for name, value in headers.items() if name not in HOP_BY_HOP}, body
