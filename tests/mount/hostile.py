"""A server on 127.0.0.1 with scripted responses: too short, too long, missing, or wrong.

A path has a list of scripts, one per request; the last one also serves all later requests. A script is a function of a
Request. Every request and connection is counted, so a test waits for them instead of sleeping.
"""
import hashlib
import re
import socket
import ssl
import struct
import threading
import time
import zlib

LIMIT_S = 60
BLOCK = 1 << 16


class Request:
    """A request, and the connection for its response."""

    def __init__(self, server, sock, method, path, headers):
        self.server, self.sock, self.method, self.path, self.headers = server, sock, method, path, headers
        self.keeps = False  # whether the connection can be used for another request
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        self.first = int(span[1]) if span else None
        self.last = int(span[2]) if span and span[2] else None
        self.sent = 0  # bytes of the body

    def __repr__(self):
        return f"{self.method} {self.path} {self.headers.get('range', '')}"

    def head(self, status, **headers):
        """Sends the head of a response; `_` in the name of a header is a dash."""
        lines = [f"HTTP/1.1 {status} Scripted"] + [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def body(self, data):
        for at in range(0, len(data), BLOCK):
            block = data[at:at + BLOCK]
            self.sock.sendall(block)
            self.sent += len(block)

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

    def hang(self):
        """Sends nothing more; returns when the client disconnects."""
        self.wait(threading.Event())

    def reset(self):
        """Ends the connection with a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def tag_of(data):
    return f'"{hashlib.sha256(data).hexdigest()[:16]}"'


def correct(data, **headers):
    """A correct server: HEAD, GET, ranges, an ETag."""
    tag = tag_of(data)

    def answer(request):
        same = request.headers.get("if-range", tag) == tag
        request.keeps = True
        if request.first is None or not same:
            request.head(200, Content_Length=len(data), ETag=tag, Accept_Ranges="bytes", **headers)
            part = data
        elif request.first >= len(data):
            request.head(416, Content_Range=f"bytes */{len(data)}", Content_Length=0)
            part = b""
        else:
            last = min(len(data) - 1 if request.last is None else request.last, len(data) - 1)
            part = data[request.first:last + 1]
            request.head(206, Content_Length=len(part), Content_Range=f"bytes {request.first}-{last}/{len(data)}", ETag=tag,
                         **headers)
        if request.method != "HEAD":
            request.body(part)
    return answer


def responds(status, body=b"", **headers):
    """A status without the requested data."""
    def answer(request):
        request.head(status, Content_Length=len(body), **headers)
        if request.method != "HEAD":
            request.body(body)
    return answer


def sends(data, length=None, **headers):
    """All of `data` for every request, with a length that may be wrong; then closes the connection."""
    def answer(request):
        request.head(200, Content_Length=len(data) if length is None else length, **headers)
        request.body(data)
    return answer


def raw(data):
    """These bytes instead of a response, then a FIN: a RST might arrive before them."""
    def answer(request):
        request.sock.sendall(data)
        request.sock.shutdown(socket.SHUT_WR)
        request.hang()
    return answer


def cut(data, at, reset=False):
    """Like correct(), but the connection ends after byte `at` of the blob."""
    def answer(request):
        first, last = request.first or 0, len(data) - 1 if request.last is None else request.last
        span = {} if request.first is None else {"Content_Range": f"bytes {first}-{last}/{len(data)}"}
        request.head(206 if span else 200, Content_Length=last - first + 1, Accept_Ranges="bytes", **span)
        request.body(data[first:at])
        if reset:
            request.reset()
    return answer


def stalls(data, at=0, begun=None):
    """Like cut(), but the connection stays open; `begun` is set when it stalls."""
    answer_cut = cut(data, at)

    def answer(request):
        answer_cut(request)
        if begun:
            begun.set()
        request.hang()
    return answer


def gated(data, gate, at=0):
    """The bytes from `at` on are sent after the event `gate` is set."""
    def answer(request):
        request.head(200, Content_Length=len(data))
        request.body(data[:at])
        if request.wait(gate):
            request.body(data[at:])
    return answer


def trickles(data, pieces, pause):
    def answer(request):
        request.head(200, Content_Length=len(data))
        step = -(-len(data) // pieces)
        for at in range(0, len(data), step):
            request.body(data[at:at + step])
            request.pause(pause)
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


def packed_zeroes(mebibytes):
    """gzip of this many MiB of zeros, in a thousandth of their size: one repeated block."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    for _ in range(mebibytes):
        crc = zlib.crc32(bytes(1 << 20), crc)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + block * mebibytes + packer.flush() + struct.pack(
        "<II", crc, (mebibytes << 20) & 0xFFFFFFFF)


class Server:
    """Ends with its test. `tls`: (certificate, key), both PEM files."""

    def __init__(self, test, tls=None, address="127.0.0.1"):
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
        self.sockets = set()
        self.threads = []
        self.start()
        test.addCleanup(self.close)

    def url(self, path):
        return f"{'https' if self.tls else 'http'}://{self.address}:{self.port}/{path}"

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
                sock = self.tls.wrap_socket(plain, server_side=True)
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
        words = requests.readline(BLOCK).split()
        if len(words) != 3:
            return False
        headers = {}
        while (line := requests.readline(BLOCK).strip()):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        request = Request(self, sock, words[0].decode(), words[1].decode().partition("?")[0], headers)
        script = self.next_script(request)
        script(request)
        return request.keeps

    def next_script(self, request):
        with self.changed:
            self.received.append(request)
            self.changed.notify_all()
            scripts = self.scripts.get((request.path, request.method)) or self.scripts.get((request.path, None)) or [responds(404)]
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
