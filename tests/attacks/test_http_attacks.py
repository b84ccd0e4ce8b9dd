"""Attacks on `weightfs serve`: what clients send, and how much memory and processor time that costs the server.

After each attack other clients are answered, and the server has not grown beyond its limit.
"""
import contextlib
import os
import re
import resource
import socket
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from mounting import LIMIT_S, WEIGHTFS, Hole, Tensor, TestCase, is_sanitized, until  # noqa: E402
from http_serving import HttpServer  # noqa: E402
import limits  # noqa: E402

MEMORY_MB = 64
CPU_S = 5 * (limits.DEBUG_SLOWDOWN if limits.is_debug_build(WEIGHTFS) else 1)
LARGE = 256 << 20


class Requests(TestCase):
    def setUp(self):
        super().setUp()
        tensors = [Tensor("small", "uint8", (5,), b"hello"), Tensor("large", "uint8", (LARGE,), Hole(LARGE))]
        source = self.sample("m.safetensors", tensors)
        self.server = HttpServer(source, folder=self.path("."))
        self.addCleanup(self.server.close)
        self.begun = self.server.spent()

    def connect(self):
        connection = socket.create_connection((self.server.host, self.server.port), timeout=LIMIT_S)
        self.addCleanup(connection.close)
        return connection

    def status_of(self, *pieces):
        """The status that the server answers with, however much of the request it takes."""
        out = self.server.raw(*pieces)
        self.assertTrue(out.startswith(b"HTTP/1.1 "), out[:100])
        self.assertEqual(out.count(b"HTTP/1.1 "), 1)
        return int(out[9:12])

    def tearDown(self):
        self.assertEqual(self.server.get("/tensors/small").body, b"hello")
        self.assertIsNone(self.server.process.poll())
        self.assertLess(self.server.spent() - self.begun, CPU_S)
        if not is_sanitized():
            self.assertLess(self.server.peak_mb(), MEMORY_MB)
        super().tearDown()

    def test_header_of_a_gigabyte_is_refused_at_its_limit(self):
        self.assertEqual(self.status_of(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", *[b"a" * (1 << 20)] * 1024), 431)

    def test_hundred_thousand_fields_are_refused(self):
        self.assertEqual(self.status_of(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 100_000 + b"\r\n"), 431)

    def test_target_of_a_gigabyte_is_refused_at_its_limit(self):
        self.assertEqual(self.status_of(b"GET /", *[b"a" * (1 << 20)] * 1024), 414)

    def test_body_of_a_gigabyte_is_not_read(self):
        head = b"GET /tensors/small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n\r\n"
        self.assertEqual(self.status_of(head, *[b"a" * (1 << 20)] * 64), 200)

    def test_paths_never_leave_the_tree(self):
        for path in (b"/../../../etc/passwd", b"/..%2f..%2fetc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"/tensors/..%5c..%5cetc",
                     b"//etc/passwd", b"/%2e%2e%2fetc%2fpasswd", b"/files/../../etc/passwd", b"http://localhost/../etc/passwd",
                     b"file:///etc/passwd", b"/tensors/small%00.json", b"/" + b"../" * 2000 + b"etc/passwd"):
            with self.subTest(path):
                out = self.server.raw(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                self.assertIn(int(out[9:12]), (400, 404), out[:100])
                self.assertNotIn(b"root:", out)

    def test_ten_thousand_ranges_cost_one_response(self):
        ranges = b",".join(b"%d-%d" % (2 * i, 2 * i) for i in range(3000))
        connection = self.connect()
        connection.sendall(b"GET /tensors/large HTTP/1.1\r\nHost: localhost\r\nRange: bytes=" + ranges + b"\r\n\r\n")
        self.assertTrue(connection.recv(4096).startswith(b"HTTP/1.1 200 "))

    def test_thousand_readers_that_do_not_read(self):
        readers = [self.connect() for _ in range(1000)]
        for reader in readers:
            reader.sendall(b"GET /tensors/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: self.server.get("/tensors/small").body == b"hello", "not answered")

    def test_thousand_headers_byte_by_byte(self):
        connections = [self.connect() for _ in range(1000)]
        for byte in b"GET / HTTP/1.1\r\nHos":
            for connection in connections:
                connection.sendall(bytes([byte]))
        until(lambda: self.server.get("/tensors/small").body == b"hello", "not answered")

    def test_pipelined_requests_are_answered_one_by_one(self):
        """The client sends a thousand requests and reads nothing: the server keeps one response, not a thousand."""
        connection = self.connect()
        connection.setblocking(False)
        try:
            for _ in range(100_000):
                connection.send(b"GET /tensors/large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        except BlockingIOError:
            pass  # the server does not take more

    def test_connections_that_end_at_any_point(self):
        request = b"GET /tensors/large HTTP/1.1\r\nHost: localhost\r\n\r\n"

        def cut(size):
            with socket.create_connection((self.server.host, self.server.port), timeout=LIMIT_S) as connection:
                connection.sendall(request[:size])
                if size == len(request):
                    connection.recv(1000)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

        threads = [threading.Thread(target=cut, args=(size,)) for size in range(len(request) + 1) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def test_searches_of_every_name_are_bounded(self):
        for query in ("?q=%25", "?q=" + "a" * 4000, "?q=a&limit=99999999999999999999", "?q=a&limit=18446744073709551615",
                      "?after=%ff", "?limit=1&after=" + "z" * 4000):
            self.assertIn(self.server.get("/" + query).status, (200, 400), query)


class Headers(TestCase):
    """Headers that arrive in part, from more connections than a model has memory for."""

    CONNECTIONS = 2_500
    HEADER = b"GET /tensors/w HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 31_000

    def rss_mb(self, server):
        with open(f"/proc/{server.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1000

    def test_memory_of_headers_is_given_back_while_connections_idle(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard < self.CONNECTIONS + 100:
            self.skipTest("too few descriptors")
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, before)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        server = HttpServer(self.sample("m.safetensors", [Tensor("w", "uint8", (5,), b"hello")]), folder=self.path("."))
        self.addCleanup(server.close)
        server.get("/tensors/w")
        base = self.rss_mb(server)
        for ending, status in ((b"\r\n\r\n", b"200"), (b"\r\nbroken\r\n\r\n", b"400")):
            with contextlib.ExitStack() as stack:
                connections = [stack.enter_context(socket.create_connection((server.host, server.port), timeout=LIMIT_S))
                               for _ in range(self.CONNECTIONS)]
                for connection in connections:
                    connection.sendall(self.HEADER)
                until(lambda: self.rss_mb(server) > base + 60, "the headers are not in memory")
                for connection in connections:
                    connection.sendall(ending)
                for connection in connections:
                    self.assertEqual(connection.recv(4096)[9:12], status)
                until(lambda: self.rss_mb(server) < base + 32, lambda: f"{self.rss_mb(server)} MB, {base} before")


if __name__ == "__main__":
    unittest.main()
