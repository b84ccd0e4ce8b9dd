"""--connections, --limit-rate and Retry-After: how many requests a server gets at a time, when, and in which order."""
import json
import os
import threading
import time
import unittest

from fetching import FetchTestCase
from mounting import run, until
from scripted_server import Server, correct
from test_archives import noise
import stores
from tensors import Tensor

KIB, MIB = 1 << 10, 1 << 20
HOLD_S = 30


class Crowd:
    """Serves a file, and notes how many requests it has at a time. Holds responses until it has had `wanted` of them."""

    def __init__(self, data):
        self.script = correct(data)
        self.lock = threading.Lock()
        self.now = self.most = self.wanted = 0
        self.reached = threading.Event()

    def __call__(self, request):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            if self.now >= self.wanted:
                self.reached.set()
        self.reached.wait(HOLD_S)
        with self.lock:
            self.now -= 1
        return self.script(request)

    def expect(self, wanted):
        with self.lock:
            self.most, self.wanted = 0, wanted
        self.reached.clear()


class Limits(FetchTestCase):
    def model(self, name, count, size):
        data = noise(count * size, seed=count)
        self.tensors = [Tensor(f"w{i:02}", "uint8", (size,), data[i * size:(i + 1) * size]) for i in range(count)]
        os.makedirs(self.path(name))
        return stores.safetensors(self.path(name), self.tensors)

    def read_all(self, point):
        """Reads all tensors at the same time; the names of those with wrong bytes."""
        wrong = []

        def read(tensor):
            try:
                if self.read_whole(point, "tensors", tensor.name) != tensor.data:
                    wrong.append(tensor.name)
            except OSError as error:
                wrong.append(f"{tensor.name}: {error}")
        readers = [threading.Thread(target=read, args=(tensor,)) for tensor in self.tensors]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        return wrong


class Connections(Limits):
    def setUp(self):
        super().setUp()
        self.crowd = Crowd(self.model("m", 64, 256 * KIB))
        self.url = Server(self).serve("m.safetensors", self.crowd)

    def most_of(self, wanted, *options):
        point = self.mount("-o", "prefetch=off", *options, self.url)
        self.crowd.expect(wanted)
        self.assertEqual(self.read_all(point), [])
        self.unmount(point)
        return self.crowd.most

    def test_server_never_gets_more_requests_at_a_time(self):
        self.assertEqual(self.most_of(8, "--connections", "8"), 8)

    def test_everything_is_delivered_with_one_connection(self):
        self.assertEqual(self.most_of(1, "--connections", "1", "--no-cache"), 1)

    def test_without_the_option_there_are_more(self):
        self.assertGreater(self.most_of(9), 8)

    def test_without_a_fetcher_the_limit_is_the_same(self):
        self.crowd.expect(1)
        done = run("fetch", "--sandbox=off", "--connections", "1", self.url)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.crowd.most, 1)

    def test_other_values_are_refused(self):
        for value in ("0", "65", "-1", "many"):
            done = run("info", f"--connections={value}", self.url)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn("is not a number from 1 to 64", done.stderr)


class RetryAfter(Limits):
    """One request is refused, and others begin before its time."""
    WAIT_S = 3

    def setUp(self):
        super().setUp()
        self.data = self.model("m", 12, MIB)
        self.refuses = False
        self.refused = None
        self.early = []
        self.lock = threading.Lock()
        self.server = Server(self)
        self.url = self.server.serve("m.safetensors", self.answer)

    def answer(self, request):
        now = time.monotonic()
        with self.lock:
            if self.refuses:
                self.refuses, self.refused = False, now
                return 429, {"Retry-After": self.WAIT_S}, b""
            if self.refused is not None and now < self.refused + self.WAIT_S:
                self.early.append(repr(request))
        return correct(self.data)(request)

    def waiting(self, point):
        return json.loads(self.read_whole(point, ".weightfs", "status.json"))["network"]["waiting"]

    def test_server_gets_no_request_before_its_time(self):
        point = self.mount("-o", "prefetch=off", self.url)
        self.refuses = True
        first = threading.Thread(target=self.read_whole, args=(point, "tensors", "w11"))
        first.start()
        until(lambda: self.waiting(point) > 0, "no request waits")
        self.assertEqual(self.read_all(point), [])
        first.join()
        self.assertEqual(self.early, [])
        self.assertIsNotNone(self.refused)

    def test_another_server_is_not_waited_for(self):
        other = Server(self).serve("m.safetensors", correct(self.data))
        points = [self.mount("-o", "prefetch=off", url, at=at) for url, at in ((self.url, "busy"), (other, "other"))]
        self.refuses = True
        first = threading.Thread(target=self.read_whole, args=(points[0], "tensors", "w11"))
        first.start()
        until(lambda: self.waiting(points[0]) > 0, "no request waits")
        self.assertEqual(self.read_all(points[1]), [])
        first.join()
        self.assertEqual(self.early, [])


class Order(Limits):
    def test_reader_passes_what_is_prefetched(self):
        data = self.model("m", 5, 8 * MIB)
        release, held = threading.Event(), threading.Event()

        def answer(request):
            if request.last is not None and request.last - request.first > MIB and not release.is_set():
                held.set()
                release.wait(HOLD_S)
            return correct(data)(request)
        server = Server(self)
        urls = [server.serve(f"{name}.safetensors", answer) for name in "ab"]
        point = self.mount("--connections", "1", "-o", "prefetch=all", *urls)
        self.assertTrue(held.wait(HOLD_S), "nothing is prefetched")
        before = len(server.requests())
        other = "b" if server.requests()[-1].path == "/a.safetensors" else "a"
        folder = next(name for name in os.listdir(point) if name.startswith(other))
        result = []
        reader = threading.Thread(target=lambda: result.append(self.read_whole(point, folder, "tensors", "w02")))
        sent = self.requests_to(point, other)
        reader.start()
        until(lambda: self.requests_to(point, other) > sent, "the reader requests nothing")
        release.set()
        reader.join()
        self.assertEqual(result, [self.tensors[2].data])
        self.assertEqual(server.requests()[before].path, f"/{other}.safetensors")

    def requests_to(self, point, name):
        """The requests for a file, also those that wait for their turn."""
        remotes = json.loads(self.read_whole(point, ".weightfs", "status.json"))["remotes"]
        return sum(remote["requests"] for remote in remotes if remote["url"].endswith(f"/{name}.safetensors"))


class Rate(Limits):
    def test_everything_arrives(self):
        url = Server(self).serve("m.safetensors", correct(self.model("m", 4, 256 * KIB)))
        self.assertEqual(self.read_all(self.mount("--limit-rate", "4M", url)), [])

    def test_other_values_are_refused(self):
        for value in ("0", "1023", "fast", "10Q"):
            done = run("info", f"--limit-rate={value}", "http://127.0.0.1:1/m.safetensors")
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn("is not a rate of at least 1K", done.stderr)


if __name__ == "__main__":
    unittest.main()
