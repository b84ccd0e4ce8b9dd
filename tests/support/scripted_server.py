"""An HTTP/1.1 server on a port of loopback that the kernel chooses, with scripted responses. It ends with its test.

A *script* is a function of a Request. It returns a response, (status, {header: value}, body), or raises it as a Refusal; or it
sends other bytes by the methods of the request, and returns None. A path has a list of scripts, one per request; the last one also
serves all later requests. Other paths have the script of the constructor (default: 404).

`correct(data)` is a correct server of a file, and `ranged` is its response, for scripts that find the file by the path. `responds`
is any fixed response: a redirect, a refusal with Retry-After, a body of another length. `raw` and `chunked` send other bytes.

A fault is what a server does wrong with the response of a script: `faulty(correct(data), cut=1000, reset=True)`. Its words:

    status, headers     another status; a wrong or missing Content-Length, Content-Range, ETag
    flip                a wrong byte
    cut                 the connection ends before a byte of the file; with `reset` by a RST, with `gate` it waits, or hangs
    step, pause         a slow server
    ignores, most       of correct() and ranged(): no ranges, or no conditions; ranges that are shorter than requested
    Connection: close   a header of a response after which the connection ends; others are kept

The names `cut`, `stalls`, `gated` and `trickles` are for the most frequent ones. A list of scripts has a fault at the n-th request:
`serve("m.gguf", correct(data), faulty(correct(data), flip=7), responds(503, Retry_After="1"), correct(data))`.

Every request and connection is counted, so a test waits for them instead of sleeping.
"""
import hashlib
import re
import socket
import ssl
import struct
import threading
import time
import urllib.parse
from typing import NamedTuple

LIMIT_S = 60
BLOCK = 1 << 16
CONDITIONS = ("if-match", "if-none-match")


class Refusal(Exception):
    """A response that a script raises."""

    def __init__(self, status, headers, body):
        super().__init__(status)
        self.response = status, headers, body


class Fault(NamedTuple):
    """What is wrong with a response (default: nothing). `cut` and `flip` are bytes of the file, also in a response with a range of
    it, and concern responses with content only."""
    status: int = 0        # instead of the right one
    headers: dict = {}     # instead of the right ones, or in addition; None leaves one out
    flip: int = -1         # this byte is wrong
    cut: int = None        # this byte and all later ones are not sent, but the connection ends,
    reset: bool = False    # with a RST,
    gate: threading.Event = None   # or they are sent after this event: one that is never set hangs
    begun: threading.Event = None  # is set when the bytes before the cut were sent
    step: int = BLOCK      # so many bytes are sent at once,
    pause: float = 0       # and then none for these seconds


class Request:
    """A request, and the connection for its response."""

    def __init__(self, server, sock, method, target, headers):
        self.server, self.sock, self.method, self.target = server, sock, method, target
        self.headers = headers  # their names in lower case
        self.content = b""      # the body of a POST
        self.path, _, query = target.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        self.authorization = headers.get("authorization", "")
        self.keeps = False  # whether the connection can be used for another request
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        self.first = int(span[1]) if span else None
        self.last = int(span[2]) if span and span[2] else None
        self.status = None  # of the response; None before it
        self.length = 0     # of its body
        self.sent = 0       # bytes of the body

    def __repr__(self):
        return f"{self.method} {self.target} {self.headers.get('range', '')}"

    def head(self, status, **headers):
        """Sends the head of a response; `_` in the name of a header is a dash."""
        lines = [f"HTTP/1.1 {status} Scripted"] + [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def body(self, data, step=BLOCK, pause=0):
        for at in range(0, len(data), step):
            block = data[at:at + step]
            self.sock.sendall(block)
            self.sent += len(block)
            if pause:
                self.pause(pause)

    def respond(self, status, headers, body, fault=Fault()):
        """Sends a response, with its fault."""
        has_content = status in (200, 206)
        span = re.match(r"bytes (\d+)-", headers.get("Content-Range", ""))
        first = int(span[1]) if span else 0
        if has_content and 0 <= fault.flip - first < len(body):
            body = bytearray(body)
            body[fault.flip - first] ^= 1
        headers = {"Content-Length": len(body), **headers, **fault.headers}
        self.status, self.length = fault.status or status, 0 if self.method == "HEAD" else len(body)
        self.head(self.status, **{name: value for name, value in headers.items() if value is not None})
        self.keeps = headers.get("Connection") != "close"
        if self.method == "HEAD":
            return
        self.keeps = self.keeps and str(headers["Content-Length"]) == str(len(body))
        end = len(body) if fault.cut is None or not has_content else max(0, fault.cut - first)
        self.body(body[:end], fault.step, fault.pause)
        if end < len(body):
            if fault.begun:
                fault.begun.set()
            if fault.reset:
                self.reset()
            self.keeps = fault.gate is not None and self.wait(fault.gate)
            if self.keeps:
                self.body(body[end:])

    def wait(self, event):
        """Waits until a test sets the event, the client disconnects, or the server ends; returns whether it was set."""
        self.sock.settimeout(0.02)
        while not event.is_set() and not self.server.over.is_set():
            try:
                if self.sock.recv(1) == b"":
                    return False
            except TimeoutError:
                continue
            except OSError:
                return False
        self.sock.settimeout(LIMIT_S)
        return event.is_set()

    def pause(self, seconds):
        """Waits, or until the server ends."""
        self.server.over.wait(seconds)

    def hang(self, until=None):
        """Sends nothing more; returns when the client disconnects, or after an event."""
        self.wait(until or threading.Event())

    def reset(self):
        """Ends the connection with a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def tag_of(data):
    return f'"{hashlib.sha256(data).hexdigest()[:16]}"'


def named(headers):
    return {name.replace("_", "-"): value for name, value in headers.items()}


def ranged(request, data, headers, ignores=(), most=None):
    """The response of a correct server of this file, with its headers; the ETag is among them, or None. `ignores`: headers of the
    request; `most`: bytes of a range, which may be shorter than requested (RFC 9110, 15.3.7)."""
    asked = {name: value for name, value in request.headers.items() if name not in ignores}
    tag = headers.get("ETag")
    headers = {"Accept-Ranges": "bytes", **headers}
    if tag and asked.get("if-match", tag) != tag:
        return 412, {}, b""
    if tag and asked.get("if-none-match") == tag:
        return 304, headers, b""
    if request.first is None or "range" in ignores or (tag and asked.get("if-range", tag) != tag):
        return 200, headers, data
    if request.first >= len(data):
        return 416, {"Content-Range": f"bytes */{len(data)}"}, b""
    end = min(len(data) if request.last is None else request.last + 1, len(data), request.first + (most or len(data)))
    return 206, {"Content-Range": f"bytes {request.first}-{end - 1}/{len(data)}", **headers}, data[request.first:end]


def correct(data, ignores=(), most=None, **headers):
    """A correct server: HEAD, GET, ranges, conditions, an ETag."""
    headers = {"ETag": tag_of(data), **named(headers)}
    return lambda request: ranged(request, data, headers, ignores, most)


def responds(status, body=b"", **headers):
    """This response to every request; a Content_Length may be wrong."""
    return lambda request: (status, named(headers), body)


def response_of(script, request):
    try:
        return script(request)
    except Refusal as refusal:
        return refusal.response


def faulty(script, **fields):
    """The response of a script with a fault, by the fields of Fault. A list of such scripts has a fault at the n-th request."""
    return lambda request: request.respond(*response_of(script, request), Fault(**fields))


def cut(data, at, reset=False):
    """A server without ETags whose connection ends after byte `at` of the file."""
    return faulty(correct(data, ETag=None), cut=at, reset=reset)


def stalls(data, at=0, begun=None):
    """Like cut(), but the connection stays open; `begun` is set when it stalls."""
    return faulty(correct(data, ETag=None), cut=at, gate=threading.Event(), begun=begun)


def gated(data, gate, at=0):
    """The bytes from `at` on are sent after the event `gate` is set."""
    return faulty(responds(200, data), cut=at, gate=gate)


def trickles(data, pieces, pause):
    return faulty(responds(200, data), step=-(-len(data) // pieces), pause=pause)


def raw(data):
    """These bytes instead of a response, then a FIN: a RST might arrive before them."""
    def answer(request):
        request.sock.sendall(data)
        request.sock.shutdown(socket.SHUT_WR)
        request.hang()
    return answer


def chunked(piece, count=None, end=b"0\r\n\r\n", **headers):
    """`count` chunks, or endless chunks, and then `end`."""
    def answer(request):
        request.head(200, Transfer_Encoding="chunked", **headers)
        chunk = b"%x\r\n" % len(piece) + piece + b"\r\n"
        while count is None or request.sent < count * len(piece):
            request.sock.sendall(chunk)
            request.sent += len(piece)
        request.sock.sendall(end)
    return answer


def shake_hands(sock):
    """Fails as do_handshake(), after the client has read why: a close before that would reset the connection."""
    try:
        sock.do_handshake()
    except ssl.SSLError:
        sock.shutdown(socket.SHUT_WR)  # what follows is not encrypted
        while sock.recv(BLOCK):
            pass
        raise


class Server:
    """Ends with its test, or by close(). `script` serves all paths that have none of their own. `tls`: (certificate, key), both PEM
    files."""

    def __init__(self, test, script=responds(404), tls=None, address="127.0.0.1"):
        self.script = script
        self.scripts = {}  # (path, method or None) to a list
        self.received = []
        self.connections = 0
        self.errors = []  # exceptions of scripts, except for disconnected clients
        self.over = threading.Event()
        self.changed = threading.Condition()
        self.tls = None
        if tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(*tls)
        self.listener = socket.create_server((address, 0))
        self.address, self.port = self.listener.getsockname()[:2]
        self.host = f"{self.address}:{self.port}"
        self.origin = f"{'https' if tls else 'http'}://{self.host}"
        self.sockets = set()
        self.threads = []
        self.start()
        if test:
            test.addCleanup(self.close)

    def url(self, path):
        return f"{self.origin}/{path}"

    def serve(self, path, *scripts, head=None):
        """The URL of `path`. `head` serves HEAD requests (default: the scripts)."""
        with self.changed:
            self.scripts["/" + path, None] = list(scripts)
            if head:
                self.scripts["/" + path, "HEAD"] = [head]
        return self.url(path)

    def start(self):
        self.acceptor = threading.Thread(target=self.accept, args=(self.listener,), daemon=True)
        self.acceptor.start()

    def go_down(self):
        """Closes the listener and all connections."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.acceptor.join(LIMIT_S)
        self.listener.close()
        with self.changed:
            sockets = list(self.sockets)
        for sock in sockets:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # already closed

    def come_back(self):
        """Listens on the same port again."""
        self.listener = socket.create_server((self.address, self.port))
        self.start()

    def close(self):
        self.over.set()
        if self.listener.fileno() >= 0:
            self.go_down()
        for thread in self.threads:
            thread.join(LIMIT_S)
        assert not self.errors, self.errors

    def accept(self, listener):
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self.changed:
                self.connections += 1
                self.sockets.add(sock)
                self.changed.notify_all()
            thread = threading.Thread(target=self.serve_connection, args=(sock,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def serve_connection(self, plain):
        sock = plain
        try:
            sock.settimeout(LIMIT_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                sock = self.tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
                shake_hands(sock)
            with sock.makefile("rb") as requests:
                while self.answer(sock, requests):
                    pass
        except OSError:
            pass  # the client disconnected, or rejected the certificate
        except Exception as error:
            self.errors.append(error)
        finally:
            with self.changed:
                self.sockets.discard(plain)
            sock.close()

    def answer(self, sock, requests):
        """Serves a request; returns whether another one may follow."""
        if requests.peek(1)[:1] == b"\x16":  # a TLS handshake, which may have no end of a line
            sock.sendall(b"HTTP/1.1 400 Scripted\r\nContent-Length: 0\r\n\r\n")
            return False
        words = requests.readline(BLOCK).split()
        if len(words) != 3:
            return False
        headers = {}
        while (line := requests.readline(BLOCK).strip()):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        request = Request(self, sock, words[0].decode(), words[1].decode(), headers)
        request.content = requests.read(min(int(headers.get("content-length", "0")), BLOCK))
        if response := response_of(self.next_script(request), request):
            request.respond(*response)
        return request.keeps

    def next_script(self, request):
        with self.changed:
            self.received.append(request)
            self.changed.notify_all()
            scripts = self.scripts.get((request.path, request.method)) or self.scripts.get((request.path, None)) or [self.script]
            return scripts.pop(0) if len(scripts) > 1 else scripts[0]

    def requests(self, method=None, path=None):
        """The requests so far."""
        with self.changed:
            return [
                request for request in self.received
                if method in (None, request.method) and path in (None, request.path.lstrip("/"))
            ]

    def count(self, method=None, path=None):
        return len(self.requests(method, path))

    def wait_for(self, ready, what="a request"):
        """Waits until `ready()`, which is called after each connection and request."""
        end = time.monotonic() + LIMIT_S
        with self.changed:
            while not ready():
                if not self.changed.wait(end - time.monotonic()):
                    raise AssertionError(f"timeout while waiting for {what}; received: {self.received}")
