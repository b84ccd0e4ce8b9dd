"""Attacks on the API of `weightfs serve`: computations over hundreds of thousands of tensors, clients that leave, that do not read,
and a server that ends meanwhile.
"""
import json
import os
import re
import signal
import socket
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from mounting import LIMIT_S, WEIGHTFS, TestCase, is_sanitized, until  # noqa: E402
from http_serving import HttpServer  # noqa: E402
import limits  # noqa: E402

API = "/.weightfs/api/v1/"
SLOWDOWN = limits.DEBUG_SLOWDOWN if limits.is_debug_build(WEIGHTFS) else 1
END_S = 2 * (2 if SLOWDOWN > 1 else 1)  # a server ends within this time, whatever it computes
BEGUN_S = 0.3 * SLOWDOWN


def write_tensors(path, count, dtype="U8", width=1):
    """A safetensors file of `count` tensors of one element, without an object for each."""
    entries = ",".join(f'"layers.{i % 700}.w{i}":{{"dtype":"{dtype}","shape":[],"data_offsets":[{width * i},{width * (i + 1)}]}}'
                       for i in range(count))
    header = ("{" + entries + "}").encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + bytes(count * width))
    return path


class Computations(TestCase):
    def serve(self, count, dtype="U8", width=1):
        self.server = HttpServer(write_tensors(self.path("m.safetensors"), count, dtype, width), folder=self.path("."))
        self.addCleanup(self.server.close)
        self.assertEqual(json.loads(self.get("tensors?limit=1"))["total"], count)

    def get(self, target, status=200):
        response = self.server.get(API + target)
        self.assertEqual(response.status, status, response.body[:300])
        return response.body

    def ask(self, target, accept="*/*"):
        """A client that has sent a request, and does not read."""
        connection = socket.create_connection((self.server.host, self.server.port), timeout=LIMIT_S)
        self.addCleanup(connection.close)
        path = target if target.startswith("/") else API + target
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n".encode())
        return connection

    def spent(self):
        """Seconds of processor time of the server."""
        with open(f"/proc/{self.server.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def peak_mb(self):
        with open(f"/proc/{self.server.process.pid}/status") as file:
            return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) / 1000

    def assert_idle(self):
        """The server computes nothing any more."""
        def is_idle():
            before = self.spent()
            time.sleep(0.3)
            return self.spent() - before < 0.1
        until(is_idle, "the computation goes on")

    def assert_ends(self):
        begun = time.monotonic()
        self.server.process.send_signal(signal.SIGTERM)
        self.server.process.wait(LIMIT_S)
        self.assertLess(time.monotonic() - begun, END_S)

    def check_computation(self, target):
        """A computation of a client that leaves ends, and so does one of a server that ends."""
        for accept in ("*/*", "text/event-stream"):
            client = self.ask(target, accept)
            time.sleep(BEGUN_S)
            client.close()
            begun = time.monotonic()
            self.assert_idle()
            self.assertLess(time.monotonic() - begun, END_S, accept)
        clients = [self.ask(target + f"&n={i}", accept) for i in range(4) for accept in ("*/*", "text/event-stream")]
        time.sleep(BEGUN_S)
        self.assert_ends()
        del clients

    def test_overview_of_60_000_tensors(self):
        self.serve(60_000, "F64", 8)
        begun = self.spent()
        self.get("overview?metric=rms")
        size = limits.bytes_of(self.path("m.safetensors"))
        if not is_sanitized():
            self.assertLess(self.spent() - begun, (limits.CPU_BASE_S + limits.CPU_PER_BYTE_S * size) * SLOWDOWN)
        self.check_computation("overview?metric=mean")

    def test_experts_of_60_000_tensors_are_not_found(self):
        self.serve(60_000)
        self.get("experts?mode=full", 404)

    def test_search_of_a_million_names(self):
        self.serve(1_000_000)
        self.get("tensors?q=" + "+".join(f"t{i}" for i in range(1000)), 400)
        self.assertEqual(json.loads(self.get("tensors?q=" + "+".join(["w999999"] * 1000)))["total"], 1)
        words = "+".join("layers.1234"[:i] for i in range(1, 12)) + "+w+1+2+3+4"
        searches = [self.ask(f"tensors?q={words}x{i}") for i in range(40)]
        begun = time.monotonic()
        self.get("tensors?limit=1")  # not behind the searches
        self.assertLess(time.monotonic() - begun, END_S)
        for search in searches:
            search.close()
        begun = time.monotonic()
        self.assert_idle()
        self.assertLess(time.monotonic() - begun, END_S)
        searches = [self.ask(f"{kind}={words}y{i}") for i in range(20)
                    for kind in ("tensors?sort=name&q", "tree?q", "tensors?sort=shape&q")]
        time.sleep(BEGUN_S)
        self.assert_ends()
        del searches

    def test_searches_of_the_tree_end_with_their_clients(self):
        self.serve(300_000)
        connections = [self.ask(f"/tensors/?q=zzz{i}") for i in range(60)]
        connections += [self.ask(f"/?q=zzz{i}") for i in range(60)]
        time.sleep(BEGUN_S)
        for connection in connections:
            connection.close()
        begun = time.monotonic()
        self.assert_idle()
        self.assertLess(time.monotonic() - begun, END_S)
        self.assert_ends()

    def test_200_clients_that_do_not_read(self):
        self.serve(100_000)
        self.assertGreater(len(self.get("duplicates")), 3 << 20)
        clients = [self.ask("duplicates") for _ in range(200)]
        clients += [self.ask("duplicates", "text/event-stream") for _ in range(60)]
        until(lambda: self.server.get("/tensors/layers.0.w0").status == 200, "not answered")
        time.sleep(0.5)
        if not is_sanitized():
            self.assertLess(self.peak_mb(), 128)
        del clients

    def test_comparison_of_100_000_tensors(self):
        os.mkdir(self.path("models"))
        for name, value in (("a", 0), ("b", 1)):
            write_tensors(self.path("models", f"{name}.safetensors"), 100_000, "F64", 8)
            with open(self.path("models", f"{name}.safetensors"), "r+b") as file:
                file.seek(-800_000, os.SEEK_END)
                file.write(struct.pack("<d", value) * 100_000)
        self.server = HttpServer(self.path("models"), folder=self.path("."))
        self.addCleanup(self.server.close)
        begun = self.spent()
        compared = self.get("compare?a=a.safetensors&b=b.safetensors&values=1")
        self.assertEqual(compared.count(b'"change":"bytes"'), 100_000)
        size = limits.bytes_of(self.path("models"))
        if not is_sanitized():
            self.assertLess(self.peak_mb() * 1e6, limits.MEMORY_BASE + limits.MEMORY_PER_BYTE * size + (64 << 20))
            self.assertLess(self.spent() - begun, (1 + limits.CPU_BASE_S + limits.CPU_PER_BYTE_S * size) * 2 * SLOWDOWN)
        self.check_computation("compare?a=b.safetensors&b=a.safetensors&values=1")


if __name__ == "__main__":
    unittest.main()
