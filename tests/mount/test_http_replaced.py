"""Models that are replaced while many clients of `weightfs serve` read them: a complete response has the bytes of one version.
semantics 29.2 to 29.4"""
import contextlib
import functools
import http.client
import os
import random
import threading
import unittest
from typing import NamedTuple

from http_serving import HttpServer
from mounting import LIMIT_S, Tensor, TestCase, containers, is_sanitized, until

try:
    import numpy
except ImportError:
    numpy = None

NAME = "a.safetensors"
PATH = f"/{NAME}/tensors/w"
WORD = 8
WORDS = 2 << 20
SIZE = WORDS * WORD
VERSION_BITS = 48  # of a word, below its version
VERSIONS = 20
CLIENTS = 64
READS_PER_VERSION = 100  # of all clients, before the next version


@functools.cache
def indexes():
    return numpy.arange(WORDS, dtype="<u8")


def words(version, first=0, end=WORDS):
    """The words `first` to `end` of a version of the tensor: each has the version and its own index."""
    return (indexes()[first:end] | numpy.uint64(version << VERSION_BITS)).tobytes()


def version_of(body, begin):
    """The version of which `body`, from the byte `begin` of the tensor, has the bytes; None if they are not of one version."""
    first = -(-begin // WORD) * WORD
    word = int.from_bytes(body[first - begin:first - begin + WORD], "little")
    version = word >> VERSION_BITS
    end = begin + len(body)
    expected = words(version, begin // WORD, -(-end // WORD))
    return version if body == expected[begin % WORD:begin % WORD + len(body)] else None


class Answer(NamedTuple):
    status: int
    etag: str | None
    begin: int
    body: bytes
    size: int  # of the range
    is_complete: bool


@unittest.skipUnless(numpy, "needs numpy")
class ReplacedTestCase(TestCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("models"))
        containers.write_safetensors(self.path("models", "b.safetensors"), [Tensor("w", "uint8", (1,), b"b")], None)
        self.put(0)
        self.server = HttpServer(self.path("models"), folder=self.tmp)
        self.addCleanup(self.server.close)

    def put(self, version):
        """Writes a version beside the directory, and renames it to its name."""
        tensor = Tensor("w", "uint64", (WORDS,), words(version))
        containers.write_safetensors(self.path("new"), [tensor], None)
        os.rename(self.path("new"), self.path("models", NAME))

    def connect(self):
        return http.client.HTTPConnection(self.server.host, self.server.port, timeout=LIMIT_S)


class Readers:
    """Threads that read random ranges until stop(). The problems that they find are in `problems`."""

    def __init__(self, connect, count):
        self.connect = connect
        self.problems, self.statuses, self.versions = [], {}, set()
        self.complete = self.cut = 0
        self.tags = {}  # {entity tag: version}
        self.lock = threading.Lock()  # guards all of these
        self.ends = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(random.Random(seed),)) for seed in range(count)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()

    def run(self, source):
        with contextlib.closing(self.connect()) as connection:
            while not self.ends.is_set():
                try:
                    self.judge(self.read(connection, source))
                except Exception as error:  # for the test, which reports it
                    with self.lock:
                        self.problems.append(repr(error))
                    return

    def read(self, connection, source):
        """A random range; the whole tensor without Range one time in 16."""
        size = SIZE if source.random() < 1 / 16 else min(SIZE, 2 * WORD + int(2 ** source.uniform(0, 22)))
        begin = source.randrange(SIZE - size + 1)
        fields = {} if size == SIZE else {"Range": f"bytes={begin}-{begin + size - 1}"}
        try:
            connection.request("GET", PATH, headers=fields)
            response = connection.getresponse()
        except ConnectionError:  # RemoteDisconnected: closed before the status line
            connection.close()
            return Answer(0, None, begin, b"", size, False)
        try:
            body, is_complete = response.read(), True
        except http.client.IncompleteRead as error:
            body, is_complete = error.partial, False
        except ConnectionError:
            body, is_complete = b"", False
        if not is_complete:
            connection.close()
        return Answer(response.status, response.headers["ETag"], begin, body, size, is_complete)

    def judge(self, answer):
        with self.lock:
            self.statuses[answer.status] = self.statuses.get(answer.status, 0) + 1
            if answer.status not in (200, 206):
                self.cut += answer.status == 0
                if not (answer.status in (0, 404, 416) or answer.status >= 500):
                    self.problems.append(f"status {answer.status}")
                return
            if not answer.is_complete:
                self.cut += 1
                return
            self.complete += 1
        version = version_of(answer.body, answer.begin)
        with self.lock:
            where = f"{answer.status}: {len(answer.body)} of {answer.size} bytes from {answer.begin}"
            if version is None or len(answer.body) != answer.size:
                self.problems.append(f"{where} are not of one version")
            elif self.tags.setdefault(answer.etag, version) != version:
                self.problems.append(f"{where} of version {version} have the tag of version {self.tags[answer.etag]}")
            self.versions.add(version)


class Replaced(ReplacedTestCase):
    def test_bytes_of_two_versions_are_detected(self):
        old, new = words(1, 0, 100), words(2, 0, 100)
        self.assertEqual([version_of(each[3:], 3) for each in (old, new)], [1, 2])
        for mixed in (old[:400] + new[400:], old[:401] + new[401:], old[:-1] + b"x", old[8:16] + old[8:], bytes(800)):
            self.assertIsNone(version_of(mixed, 0), mixed)

    def test_response_in_progress_has_the_old_bytes_or_is_cut(self):
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET", PATH)
            response = connection.getresponse()
            body = response.read(SIZE // 16)
            self.put(1)
            until(lambda: version_of(self.server.get(PATH, Range="bytes=0-7").body, 0) == 1, "the new version is not served")
            with contextlib.suppress(ConnectionError):
                try:
                    body += response.read()
                except http.client.IncompleteRead as error:
                    body += error.partial
        self.assertEqual(version_of(body, 0), 0)

    def test_complete_response_has_the_bytes_of_one_version(self):
        readers = Readers(self.connect, 8 if is_sanitized() else CLIENTS)
        self.addCleanup(readers.stop)
        for version in range(1, VERSIONS + 1):
            enough = readers.complete + READS_PER_VERSION
            until(lambda: readers.complete >= enough or readers.problems, "no complete responses")
            self.put(version)
        until(lambda: VERSIONS in readers.versions or readers.problems, "the last version is not served")
        readers.stop()
        self.assertEqual(readers.problems[:10], [])
        self.assertGreater(len(readers.versions), VERSIONS // 2, "most versions were not read")
        self.assertGreaterEqual(len(readers.tags), len(readers.versions))
        self.assertIsNone(self.server.process.poll(), self.server.error_text())
        response = self.server.get(PATH)
        self.assertEqual((response.status, version_of(response.body, 0), len(response.body)), (200, VERSIONS, SIZE))


class Conditions(ReplacedTestCase):
    def replaced(self):
        """The response for version 0, after which version 1 is served."""
        old = self.server.get(PATH)
        self.assertEqual(version_of(old.body, 0), 0)
        self.put(1)
        until(lambda: version_of(self.server.get(PATH, Range="bytes=0-7").body, 0) == 1, "the new version is not served")
        return old

    def assert_is_new(self, response):
        self.assertEqual((response.status, len(response.body), version_of(response.body, 0)), (200, SIZE, 1))
        self.assertTrue(response.complete)

    def test_if_range_with_the_tag_of_the_old_version_gets_the_whole_new_file(self):
        old = self.replaced()
        response = self.server.get(PATH, Range="bytes=8-15", If_Range=old.headers["ETag"])
        self.assert_is_new(response)
        part = self.server.get(PATH, Range="bytes=8-15", If_Range=response.headers["ETag"])
        self.assertEqual((part.status, part.body), (206, words(1, 1, 2)))

    def test_if_none_match_of_the_old_version_gets_the_whole_new_file(self):
        old = self.replaced()
        response = self.server.get(PATH, If_None_Match=old.headers["ETag"])
        self.assert_is_new(response)
        self.assertEqual(self.server.get(PATH, If_None_Match=response.headers["ETag"]).status, 304)

    def test_if_match_of_the_old_version_fails(self):
        old = self.replaced()
        self.assertEqual(self.server.get(PATH, If_Match=old.headers["ETag"]).status, 412)

    def test_every_version_has_another_tag(self):
        tags = set()
        for version in range(1, 5):
            self.put(version)
            until(lambda: version_of(self.server.get(PATH, Range="bytes=0-7").body, 0) == version, "the new version is not served")
            tags.add(self.server.get(PATH, method="HEAD").headers["ETag"])
        self.assertEqual(len(tags), 4)


if __name__ == "__main__":
    unittest.main()
