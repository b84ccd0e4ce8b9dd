"""Attacks on the API of `weightfs serve`: computations over hundreds of thousands of tensors, clients that leave, that do not read,
and a server that ends meanwhile.
"""
import json
import os
import signal
import socket
import struct
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from mounting import LIMIT_S, TestCase, is_sanitized, until  # noqa: E402
from http_serving import HttpServer  # noqa: E402
import limits  # noqa: E402
import many  # noqa: E402

API = "/.weightfs/api/v1/"
SLOWDOWN = limits.DEBUG_SLOWDOWN if many.IS_DEBUG else 1
END_S = 2 * (2 if SLOWDOWN > 1 else 1)  # of processor time, which a server that ends takes, whatever it computes
END_WALL_S = 12  # a busy machine gives less processor time; responses whose clients do not read may take ten seconds
BEGUN_S = 0.3 * SLOWDOWN
EMPTY_MB = 30  # of a server of an empty model
ENDPOINTS = ("models", "model", "tensors?sort=name&limit=1000", "tensors?sort=shape&order=desc", "tensors?q=w9+layers&limit=1000",
             "tree?under=layers.", "tree?q=w1", "tensor?t=77", "histogram?t=77", "channels?t=77", "heatmap?t=77",
             "values?t=77&window=0,1,0,1", "statistics?t=77&mode=exact&scales=1", "overview?metric=rms",
             "overview?metric=bits&mode=sample", "experts", "duplicates", "index", "deviation?t=77&t2=78")
PATHS = ("/", "/tensors/", "/tensors/?q=w9", "/?q=zzz", "/nothing-of-this-name", "/metadata.json", "/tensors.json", "/npy/")


class Computations(TestCase):
    def serve(self, count, dtype="U8"):
        self.start(many.safetensors(self.path("m.safetensors"), count, dtype))
        self.assertEqual(json.loads(self.get("tensors?limit=1"))["total"], count)

    def start(self, source):
        self.server = HttpServer(source, folder=self.path("."))
        self.addCleanup(self.server.close)

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

    def assert_idle(self):
        """The server computes nothing any more, soon: by its processor time, because others use the machine, too."""
        begun = self.server.spent()

        def is_idle():
            before = self.server.spent()
            time.sleep(0.3)
            return self.server.spent() - before < 0.1
        until(is_idle, "the computation goes on")
        self.assertLess(self.server.spent() - begun, END_S)

    def assert_ends(self):
        begun, spent = time.monotonic(), self.server.spent()
        before = os.times()
        self.server.process.send_signal(signal.SIGTERM)
        self.server.process.wait(LIMIT_S)
        self.assertLess(time.monotonic() - begun, END_WALL_S)
        after = os.times()
        ended = after.children_user + after.children_system - before.children_user - before.children_system
        self.assertLess(ended - spent, END_S)

    def check_computation(self, target):
        """A computation of a client that leaves ends, and so does one of a server that ends."""
        for accept in ("*/*", "text/event-stream"):
            client = self.ask(target, accept)
            time.sleep(BEGUN_S)
            client.close()
            self.assert_idle()
        clients = [self.ask(target + f"&n={i}", accept) for i in range(4) for accept in ("*/*", "text/event-stream")]
        time.sleep(BEGUN_S)
        self.assert_ends()
        del clients

    def test_overview_of_60_000_tensors(self):
        self.serve(60_000, "F64")
        begun = self.server.spent()
        self.get("overview?metric=rms")
        size = limits.bytes_of(self.path("m.safetensors"))
        if not is_sanitized():
            self.assertLess(self.server.spent() - begun, (limits.CPU_BASE_S + limits.CPU_PER_BYTE_S * size) * SLOWDOWN)
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
        self.assertLess(time.monotonic() - begun, END_WALL_S)
        for search in searches:
            search.close()
        self.assert_idle()
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
        self.assert_idle()
        self.assert_ends()

    def test_200_clients_that_do_not_read(self):
        self.serve(100_000)
        self.assertGreater(len(self.get("duplicates")), 3 << 20)
        clients = [self.ask("duplicates") for _ in range(200)]
        clients += [self.ask("duplicates", "text/event-stream") for _ in range(60)]
        until(lambda: self.server.get("/tensors/layers.0.w0").status == 200, "not answered")
        time.sleep(0.5)
        if not is_sanitized():
            self.assertLess(self.server.peak_mb(), 128)
        del clients

    def test_comparison_of_100_000_tensors(self):
        os.mkdir(self.path("models"))
        for name, value in (("a", 0), ("b", 1)):
            many.safetensors(self.path("models", f"{name}.safetensors"), many.TENSORS, "F64")
            with open(self.path("models", f"{name}.safetensors"), "r+b") as file:
                file.seek(-8 * many.TENSORS, os.SEEK_END)
                file.write(struct.pack("<d", value) * many.TENSORS)
        self.start(self.path("models"))
        begun = self.server.spent()
        compared = self.get("compare?a=a.safetensors&b=b.safetensors&values=1")
        self.assertEqual(compared.count(b'"change":"bytes"'), many.TENSORS)
        size = limits.bytes_of(self.path("models"))
        if not is_sanitized():
            self.assertLess(self.server.peak_mb() * 1e6, limits.MEMORY_BASE + limits.MEMORY_PER_BYTE * size + (64 << 20))
            self.assertLess(self.server.spent() - begun, (1 + limits.CPU_BASE_S + limits.CPU_PER_BYTE_S * size) * 2 * SLOWDOWN)
        self.check_computation("compare?a=b.safetensors&b=a.safetensors&values=1")

    def check_endpoints(self, source):
        self.start(source)
        size = limits.bytes_of(source)
        for target in [API + endpoint for endpoint in ENDPOINTS] + list(PATHS):
            begun = self.server.spent()
            response = self.server.get(target)
            if response.status == 502:  # all documents of a million tensors together
                self.assertIn(b"the time limit of", response.body, target)
            else:
                self.assertIn(response.status, (200, 301, 404, 422), target)
            if not is_sanitized():
                spent = self.server.spent() - begun
                self.assertLess(spent, (limits.CPU_BASE_S + limits.CPU_PER_BYTE_S * size) * SLOWDOWN, target)
                memory_mb = (limits.MEMORY_BASE + limits.MEMORY_PER_BYTE * size) / 1e6 + EMPTY_MB
                self.assertLess(self.server.peak_mb(), memory_mb, target)
        self.assert_ends()

    def test_every_endpoint_of_100_000_tensors_of_each_width(self):
        for dtype in many.WIDTHS:
            with self.subTest(dtype):
                self.check_endpoints(many.safetensors(self.path(f"{dtype}.safetensors"), many.TENSORS, dtype))

    def test_every_endpoint_of_100_000_tensors_of_one_block(self):
        for name in many.BLOCKS:
            with self.subTest(name):
                self.check_endpoints(many.gguf(self.path(f"{name}.gguf"), many.TENSORS, name))

    def test_every_endpoint_of_a_million_names(self):
        self.check_endpoints(many.safetensors(self.path("m.safetensors"), many.NAMES))

    def test_every_endpoint_of_1500_trees(self):
        self.check_endpoints(many.lightgbm(self.path("m.txt")))


if __name__ == "__main__":
    unittest.main()
