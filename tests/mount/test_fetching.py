"""Downloads from servers that send wrong data, stall, disconnect or never end: the reader gets the correct bytes or an error,
and wrong data is never cached. test_fetching_crashes.py tests killed processes, full disks and unreachable servers."""
import errno
import gzip
import os
import re
import shutil
import struct
import subprocess
import threading
import unittest
import zipfile
import zlib

from fetching import FetchTestCase, blobs_in, temporary_files_left_in
import partial_downloads
from mounting import eventually, numbers, run
from scripted_server import Server, chunked, correct, cut, gated, raw, responds, stalls, tag_of, trickles
from servers import needs, self_signed_certificate
from test_archives import noise
import stores
from tensors import Tensor

MEGABYTE = 1 << 20
ALLOWED = "--allow-private-urls"
LIMIT_S = 60
ONCE = range(1, 3)  # the kernel requests a page again if its read-ahead failed
SOME = range(1, 15)  # six attempts, twice; one more if data arrived
NOT_REACHED = (errno.EHOSTUNREACH, errno.ETIMEDOUT)


class HostileTestCase(FetchTestCase):
    """A carton with linked files on a server with scripted responses."""

    def setUp(self):
        super().setUp()
        self.web = Server(self)

    def carton_of(self, far, name="m.carton", **kwargs):
        """`far`: {path: (bytes, [URL])}; model/near is in the carton."""
        return stores.linked_carton(self.path(name), far, {"model/near": b"here"}, **kwargs)

    def far(self, point, name="model/far"):
        return os.path.join(point, "files", name)

    def try_to_read(self, path, block=1 << 16):
        """The bytes read before the end or an error, and the errno."""
        got = b""
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            return got, error.errno
        try:
            while piece := os.read(descriptor, block):
                got += piece
        except OSError as error:
            return got, error.errno
        finally:
            os.close(descriptor)
        return got, None

    def start_reader(self, path):
        """Reads in another thread; the result is in `.result`."""
        reader = threading.Thread(target=lambda: setattr(reader, "result", self.try_to_read(path)), daemon=True)
        reader.result = None
        reader.start()
        return reader

    def result_of(self, reader, what="a reader"):
        reader.join(LIMIT_S)
        self.assertFalse(reader.is_alive(), f"{what} still waits")
        return reader.result

    def assert_correct(self, came, data):
        """The whole file without an error; the failure message does not contain megabytes."""
        got, error = came
        self.assertEqual((error, len(got), got == data), (None, len(data), True))

    def assert_cached(self, *blobs, parts=0):
        """The cache has exactly these blobs, with correct bytes, and this many partial downloads."""
        self.assertEqual([os.path.basename(path) for path in self.wait_for_cached(len(blobs))], sorted(map(stores.sha256, blobs)))
        for path in blobs_in(self.cache()):
            self.assertEqual(stores.sha256(self.read_whole(path)), os.path.basename(path))
        left = self.wait_for_parts(parts)
        self.assertEqual(temporary_files_left_in(self.cache()), [])
        self.assertEqual(len(left), parts, left)

    def wait_for_parts(self, count):
        """Partial downloads. A read that the kernel repeats may be downloading again: its file goes when it ends."""
        eventually(lambda: len(partial_downloads.in_cache(self.cache())) == count)
        return partial_downloads.in_cache(self.cache())

    def wait_for_cached(self, count):
        """Blobs get their names after the last byte was read, and eviction happens after that."""
        eventually(lambda: len(blobs_in(self.cache())) == count)
        return blobs_in(self.cache())


class Case:
    """One linked file: the behaviour of its server, and the expected outcome."""

    def __init__(self, *scripts, data, error=None, gets=None, message=".", kept=False, lines=1, alone=False):
        self.scripts, self.data, self.error, self.message, self.kept = scripts, data, error, message, kept
        self.gets = gets or (ONCE if error else 1)
        self.alone = alone  # on a server of its own
        self.lines = lines if error else 0  # at most, in the log


class Responses(HostileTestCase):
    """All responses at once, in one mount: a server does not affect the files of the others."""

    def assert_cases(self, cases, *options):
        far = {}
        webs = {name: Server(self) if case.alone else self.web for name, case in cases.items()}
        for name, case in cases.items():
            far["model/" + name] = (case.data, [webs[name].serve(name, *case.scripts, head=correct(case.data))])
        process, point = self.foreground(ALLOWED, *options, self.carton_of(far))
        readers = {name: self.start_reader(self.far(point, "model/" + name)) for name in cases}
        for name, case in cases.items():
            got, error = self.result_of(readers[name], name)
            with self.subTest(name):
                self.assertTrue(case.data.startswith(got), f"{len(got)} bytes, not the right ones")
                if case.error is None:
                    self.assertEqual((error, len(got)), (None, len(case.data)))
                else:
                    self.assertIn(error, case.error if isinstance(case.error, tuple) else (case.error,))
                    self.assertEqual(got, b"", "unverified bytes were served")
        for name, case in cases.items():
            with self.subTest(name, what="requests"):
                gets = webs[name].requests("GET", name)
                self.assertIn(len(gets), case.gets if isinstance(case.gets, range) else (case.gets,), gets)
        lines = self.end(process)
        for name, case in cases.items():
            with self.subTest(name, what="log"):
                message = [line for line in lines if f" model/{name}: " in line]
                self.assertIn(len(message), range(min(1, case.lines), case.lines + 1), message)
                for line in message:
                    self.assertRegex(line, case.message)
                    self.assertLess(len(line), 1000)
        self.assertLessEqual(len(lines), sum(case.lines for case in cases.values()), lines)
        parts = partial_downloads.in_cache(self.cache())
        self.assertLessEqual(set(parts), {stores.sha256(case.data) for case in cases.values() if case.kept})
        self.assert_cached(*(case.data for case in cases.values() if case.error is None), parts=len(parts))

    def test_invalid_response_fails_without_retry(self):
        a = [noise(200_000, seed) for seed in range(30)]
        huge = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(1000)) + b"\r\n"
        cases = {
            "wrong": Case(responds(200, a[0][:-1] + bytes([a[0][-1] ^ 1])), data=a[0], error=errno.EIO, message="SHA-256|digest"),
            "longer": Case(responds(200, a[1] + b"!"), data=a[1], error=errno.EIO, message="200001 bytes"),
            "shorter": Case(responds(200, a[2][:-1]), data=a[2], error=errno.EIO, message="199999 bytes"),
            "empty": Case(responds(200, b""), data=a[3], error=errno.EIO, message="0 bytes"),
            "chunked-longer": Case(chunked(a[4], 2), data=a[4]),  # the rest is not received
            "chunked-shorter": Case(chunked(a[5][:1000], 1), data=a[5], error=errno.EIO, message="ends before"),
            "chunked-endless": Case(chunked(bytes(50_000)), data=a[6], error=errno.EIO, message="digest mismatch"),
            "bad-chunks": Case(raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a number\r\n"), data=a[7],
                               error=(errno.EIO, *NOT_REACHED), gets=SOME),
            "garbage-gzip": Case(responds(200, a[8], Content_Encoding="gzip"), data=a[8], error=errno.EIO, message="encoding"),
            "cut-gzip": Case(responds(200, gzip.compress(a[9])[:-100], Content_Encoding="gzip"), data=a[9],
                             error=(errno.EIO, errno.EHOSTUNREACH), gets=SOME, kept=True),
            "unknown-encoding": Case(responds(200, a[10][::-1], Content_Encoding="rot13"), data=a[10], error=errno.EIO, gets=SOME),
            "huge-headers": Case(raw(huge + a[11]), data=a[11], error=errno.EIO, message="headers"),
            "nul-in-a-header": Case(raw(b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 200000\r\n\r\n" + a[12]), data=a[12],
                                    error=errno.EIO),
            # libcurl 8 reports it in two ways, depending on how much it has received.
            "http-0.9": Case(raw(a[13]), data=a[13], error=errno.EIO, lines=2),
            "a-web-page": Case(responds(200, b"<html>please log in</html>", Content_Type="text/html"), data=a[14], error=errno.EIO,
                               message="has 26 bytes"),
            "unrequested-part": Case(
                raw(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 100\r\nContent-Range: bytes 0-99/200000\r\n\r\n" +
                    a[15][:100]), data=a[15], error=errno.EIO, message="206"),
            "no-content": Case(raw(b"HTTP/1.1 204 No Content\r\n\r\n"), data=a[16], error=errno.EIO, message="204"),
            "not-modified": Case(raw(b"HTTP/1.1 304 Not Modified\r\n\r\n"), data=a[17], error=(errno.EIO, errno.EHOSTUNREACH),
                                 message="304"),
            "gone-for-get": Case(responds(404), data=a[18], error=errno.EIO, message="404"),
            "forbidden": Case(responds(403), data=a[19], error=errno.EACCES, message="403"),
            "to-a-file": Case(responds(302, Location="file:///etc/passwd"), data=a[20], error=(errno.EIO, errno.EHOSTUNREACH),
                              message="http"),
            "to-a-socket": Case(responds(302, Location="gopher://127.0.0.1:1/_x"), data=a[21],
                                error=(errno.EIO, errno.EHOSTUNREACH), message="http"),
            "negative-length": Case(raw(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + a[23][:10]), data=a[23],
                                    error=(errno.EIO, errno.EHOSTUNREACH), gets=SOME),
        }
        self.assert_cases(cases)

    def test_temporary_failure_is_retried(self):
        a = [noise(MEGABYTE, seed) for seed in range(20)]
        half = MEGABYTE // 2
        trickle = Case(trickles(a[0], 30, 0.05), data=a[0])  # 1.5 s in total, with --timeout 1
        cases = {
            "trickle": trickle,
            "500-twice": Case(responds(500), responds(500), correct(a[1]), data=a[1], gets=3),
            "429": Case(responds(429, Retry_After="0"), responds(429, Retry_After="1"), correct(a[2]), data=a[2], gets=3),
            "503": Case(responds(503, Retry_After="Thu, 01 Jan 1970 00:00:00 GMT"), correct(a[3]), data=a[3], gets=2),
            "cut": Case(cut(a[4], half), correct(a[4]), data=a[4], gets=2),
            "reset": Case(cut(a[5], half, reset=True), correct(a[5]), data=a[5], gets=2),
            "range-ignored": Case(cut(a[6], half), responds(200, a[6]), data=a[6], gets=2),
            "cut-often": Case(*(cut(a[7], at) for at in range(1, MEGABYTE, 100_000)), correct(a[7]), data=a[7], gets=12),
            "closed": Case(raw(b""), correct(a[8]), data=a[8], gets=2),
            "closed-in-the-head": Case(raw(b"HTTP/1.1 200 OK\r\nContent-Le"), correct(a[9]), data=a[9], gets=2),
            "chunked": Case(chunked(a[10], 1), data=a[10]),
            "http-1.0": Case(raw(b"HTTP/1.0 200 OK\r\n\r\n" + a[11]), data=a[11]),
            "gzip": Case(responds(200, gzip.compress(a[12]), Content_Encoding="gzip"), data=a[12]),
            "informed-before": Case(
                raw(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 50 + b"HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n" +
                    a[13]), data=a[13]),
            "moved": Case(responds(307, Location=self.web.serve("there", correct(a[14]))), data=a[14]),
            "stalls-once": Case(stalls(a[15], half), correct(a[15]), data=a[15], gets=2),
        }
        self.assert_cases(cases, "--timeout", "1")
        for name in ("cut", "range-ignored", "stalls-once"):
            self.assertEqual(self.web.requests("GET", name)[1].first, half)
        self.assertLessEqual(self.web.requests("GET", "reset")[1].first or 0, half)
        firsts = [request.first for request in self.web.requests("GET", "cut-often")]
        self.assertEqual(firsts, [None, *range(1, MEGABYTE, 100_000)])

    def test_permanent_failure_gives_up_after_retries(self):
        a = [noise(MEGABYTE, seed) for seed in range(20)]
        half = MEGABYTE // 2
        cases = {
            "stalls": Case(stalls(a[0], half), data=a[0], error=NOT_REACHED, gets=SOME, message="no data for 1 s", kept=True),
            "stalls-at-once": Case(lambda request: request.hang(), data=a[1], error=NOT_REACHED, gets=SOME,
                                   message="no data for 1 s"),
            "always-cut": Case(cut(a[2], half), data=a[2], error=NOT_REACHED, gets=SOME, message="truncated|closed", kept=True),
            "length-too-large": Case(responds(200, a[3][:half], Content_Length=MEGABYTE), data=a[3], error=NOT_REACHED, gets=SOME,
                                     message="truncated|closed", kept=True),
            "500": Case(responds(500), data=a[4], error=NOT_REACHED, gets=SOME, message="500"),
            # The kernel repeats a read.
            "429-tomorrow": Case(responds(429, Retry_After="86400"), data=a[5], error=NOT_REACHED,
                                 message="429.*(86400|no request)", alone=True, lines=2),
            "around": Case(responds(302, Location=self.web.url("around")), data=a[6], error=NOT_REACHED + (errno.EIO, ),
                           gets=range(2, 140), message="redirects"),
            "416": Case(*[cut(a[7], half), responds(416, Content_Range="bytes */5")] * 5, data=a[7], error=errno.EIO, gets=SOME,
                        message="byte 524288", kept=True),
            "another-part": Case(
                *[
                    cut(a[8], half),
                    raw(b"HTTP/1.1 206 P\r\nContent-Length: 10\r\nContent-Range: bytes 0-9/1048576\r\n\r\n0123456789")
                ] * 5, data=a[8], error=errno.EIO, gets=SOME, message="0-9", kept=True),
            "another-size": Case(
                *[
                    cut(a[9], half),
                    raw(b"HTTP/1.1 206 P\r\nContent-Length: 10\r\nContent-Range: bytes 524288-524297/9999999\r\n\r\n0123456789")
                ] * 5, data=a[9], error=errno.EIO, gets=SOME, message="9999999", kept=True),
            "other-bytes-for-the-rest": Case(*[cut(a[10], half), correct(a[10][:half] + a[9][half:])] * 10, data=a[10],
                                             error=errno.EIO, gets=SOME, message="SHA-256|digest", kept=True),
            "endless-headers": Case(endless_headers, data=a[11], error=errno.EIO, message="headers"),
            "endless-hints": Case(endless_hints, data=a[12], error=(errno.EIO, *NOT_REACHED), gets=SOME),
        }
        self.assert_cases(cases, "--timeout", "1")

    def test_next_url_is_used_after_each_failure(self):
        bad = {
            "wrong": responds(200, bytes(200_000)), "longer": responds(200, bytes(200_001)), "absent": responds(404),
            "garbage": raw(noise(1000)),
            "cut-and-other": None, "gzip": responds(200, bytes(1000), Content_Encoding="gzip"),
            "file": responds(302, Location="file:///etc/passwd")
        }
        far, blobs = {}, []
        for i, (name, script) in enumerate(bad.items()):
            data = noise(200_000, i)
            scripts = [script] if script else [cut(data, 100_000), raw(b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-0/1\r\n\r\n")]
            far["model/" + name] = (data, [
                self.web.serve(name, *scripts, head=correct(data)),
                self.web.serve("good-" + name, correct(data))
            ])
            blobs.append(data)
        process, point = self.foreground(ALLOWED, self.carton_of(far))
        for name, (data, _) in far.items():
            self.assert_correct(self.try_to_read(self.far(point, name)), data)
            self.assertEqual(self.web.count("GET", "good-" + name.removeprefix("model/")), 1, name)
        self.assertEqual(self.web.requests("GET", "good-cut-and-other")[0].first, 100_000)
        self.assertLessEqual(len(self.end(process)), len(bad))
        self.assert_cached(*blobs)

    def test_next_read_retries_after_a_failure(self):
        data = noise(200_000)
        url = self.web.serve("far", head=correct(data))
        process, point = self.foreground(ALLOWED, self.carton_of({"model/far": (data, [url])}))
        for script in (responds(200, bytes(200_000)), responds(404), raw(b"garbage")):
            self.web.serve("far", script)
            before = self.web.count("GET")
            self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EIO))
            self.assertIn(self.web.count("GET") - before, ONCE)
            self.assert_cached()
        self.web.serve("far", correct(data))
        self.assert_correct(self.try_to_read(self.far(point)), data)
        self.assertEqual(len(self.end(process)), 3)
        self.assert_cached(data)

    def test_redirect_to_another_port_is_followed(self):
        data = noise(1000)
        other = Server(self)
        url = self.web.serve("far", responds(301, Location=other.serve("there", correct(data))))
        self.assertEqual(self.try_to_read(self.far(self.mount(ALLOWED, self.carton_of({"model/far": (data, [url])})))),
                         (data, None))
        self.assertEqual(other.count("GET"), 1)

    def test_every_form_of_loopback_address_is_refused_by_default(self):
        data = b"secret of this machine"
        self.web.serve("far", correct(data))
        hosts = ("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.255.255.254", "0.0.0.0", "0",
                 "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "localhost.",
                 "a.localhost", "127.0.0.1.", "１２７.0.0.1", "user@127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.0.1",
                 "172.16.0.1", "100.64.0.1", "[fe80::1]", "[fd00::1]")
        far = {f"model/{i}": (data + b"%d" % i, [f"http://{host}:{self.web.port}/far"]) for i, host in enumerate(hosts)}
        process, point = self.foreground("--timeout", "1", self.carton_of(far))
        readers = [self.start_reader(self.far(point, f"model/{i}")) for i in range(len(hosts))]
        for host, reader in zip(hosts, readers):
            got, error = self.result_of(reader, host)
            with self.subTest(host):
                self.assertEqual(got, b"")
                self.assertIn(error, (errno.EIO, errno.EHOSTUNREACH))
        self.assertEqual(self.web.connections, 0)
        self.assertLessEqual(len(self.end(process)), len(hosts))
        self.assert_cached()


def endless_headers(request):
    request.sock.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        request.sock.sendall(b"X-Again: and again\r\n" * 100)


def endless_hints(request):
    while True:
        request.sock.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100)


def packed_zeroes(mebibytes):
    """gzip of this many MiB of zeros, in a thousandth of their size: one repeated block."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    for _ in range(mebibytes):
        crc = zlib.crc32(bytes(1 << 20), crc)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + block * mebibytes + packer.flush() + struct.pack(
        "<II", crc, (mebibytes << 20) & 0xFFFFFFFF)


class Bombs(HostileTestCase):
    """Decompression bombs and endless bodies."""
    MOST_KIB = 200 * 1024

    def setUp(self):
        super().setUp()
        self.bomb = packed_zeroes(1024)

    def mount_bomb(self, script, *options, head=None):
        """A mount with model/far behind this script, and model/good behind a correct server."""
        self.good = noise(MEGABYTE, "good")
        far = {
            "model/far": (noise(MEGABYTE), [self.web.serve("far", script, head=head)]),
            "model/good": (self.good, [self.web.serve("good", correct(self.good))])
        }
        return self.foreground(ALLOWED, *options, self.carton_of(far))

    def assert_bounded(self, process, point, message, most_kept):
        """The partial download does not prevent other downloads."""
        self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EIO))
        with open(f"/proc/{process.pid}/status") as file:
            peak = int(re.search(r"VmHWM:\s*(\d+) kB", file.read())[1])
        if b"asan" not in self.libraries(process):
            self.assertLess(peak, self.MOST_KIB)
        used = sum(os.stat(os.path.join(base, name)).st_blocks * 512 for base, _, names in os.walk(self.cache()) for name in names)
        self.assertLessEqual(used, most_kept)
        self.assertEqual(self.read_whole(point, "files", "model", "near"), b"here")
        self.assert_correct(self.try_to_read(self.far(point, "model/good")), self.good)
        line, = self.end(process)
        self.assertRegex(line, message)
        self.assert_cached(self.good, parts=len(partial_downloads.in_cache(self.cache())))

    def libraries(self, process):
        with open(f"/proc/{process.pid}/maps", "rb") as file:
            return file.read()

    def test_bomb_stops_at_the_known_size(self):
        process, point = self.mount_bomb(responds(200, self.bomb, Content_Encoding="gzip"), head=correct(noise(MEGABYTE)))
        self.assert_bounded(process, point, "digest mismatch", 2 * MEGABYTE)
        self.assertIn(self.web.count("GET", "far"), ONCE)

    def test_bomb_of_unknown_size_stops_at_the_quota(self):
        process, point = self.mount_bomb(responds(200, self.bomb, Content_Encoding="gzip"), "--cache-size", "32M")
        self.assert_bounded(process, point, "cache's quota|cache full", 32 * MEGABYTE)
        self.assertLessEqual(self.web.count("GET", "far"), 4)

    def test_endless_body_stops_at_the_quota(self):
        process, point = self.mount_bomb(chunked(bytes(1 << 16)), "--cache-size", "32M",
                                         head=lambda request: request.head(200, Transfer_Encoding="chunked"))
        self.assert_bounded(process, point, "cache's quota|cache full", 32 * MEGABYTE)

    def test_impossible_size_reserves_no_space(self):
        for length in (1 << 62, (1 << 64) - 1, 10 ** 30):
            with self.subTest(length=length):
                data = noise(MEGABYTE)
                url = self.web.serve("far", lambda request: request.head(200, Content_Length=length))
                process, point = self.foreground(ALLOWED, "--timeout", "1", self.carton_of({"model/far": (data, [url])}),
                                                 at=f"mnt{length}")
                got, error = self.try_to_read(self.far(point))
                self.assertEqual(got, b"")
                self.assertIn(error, (errno.EIO, errno.EHOSTUNREACH))
                self.assertEqual(self.read_whole(point, "files", "model", "near"), b"here")
                self.assertLessEqual(len(self.end(process)), 1)
                self.assert_cached()


class PartialContent(HostileTestCase):
    """Parallel range requests for a slow download, with wrong or late responses."""
    SIZE = 16 * MEGABYTE

    def slow_until(self, helped):
        """Sends the whole file slowly until the event, then at once; range requests get the scripted response."""
        def answer(request):
            if request.first is not None:
                self.parts.append(request)
                return self.script_of_part(len(self.parts))(request)
            request.head(200, Content_Length=self.SIZE, Accept_Ranges="bytes", ETag=tag_of(self.data))
            at = 0
            while at < self.SIZE and not request.server.over.is_set():
                step = self.SIZE if helped() else 4096
                request.body(self.data[at:at + step])
                at += step
                request.pause(0.02)
        return answer

    def assert_correct_despite(self, first_parts, *, number=1):
        self.data, self.parts = noise(self.SIZE, self.id()), []
        good = correct(self.data)
        self.script_of_part = lambda n: first_parts(self.data) if n <= number else good
        url = self.web.serve("far", self.slow_until(lambda: len(self.parts) >= max(number, 1)), head=good)
        process, point = self.foreground(ALLOWED, "--timeout", "1", self.carton_of({"model/far": (self.data, [url])}))
        self.assert_correct(self.try_to_read(self.far(point)), self.data)
        self.assertGreaterEqual(len(self.parts), 1)
        self.assertEqual(self.end(process), [])
        self.assert_cached(self.data)

    def test_no_partial_content_restarts(self):
        self.assert_correct_despite(None, number=0)

    def test_truncated_part_is_resumed(self):
        self.assert_correct_despite(lambda data: lambda request: cut(data, request.first + 1000, reset=True)(request), number=2)

    def test_stalled_part_is_resumed(self):
        self.assert_correct_despite(lambda data: lambda request: stalls(data, request.first + 1000)(request))

    def test_wrong_part_is_detected(self):
        self.assert_correct_despite(
            lambda data: raw(b'HTTP/1.1 206 P\r\nContent-Length: 10\r\nContent-Range: bytes 5-14/16777216\r\n\r\n0123456789'))

    def test_complete_response_to_a_range_request_is_used(self):
        self.assert_correct_despite(lambda data: responds(200, data))

    def test_refused_range_restarts(self):
        self.assert_correct_despite(lambda data: responds(429, Retry_After="1"))


@needs("openssl")
class Certificates(HostileTestCase):
    def test_untrusted_certificate_fails(self):
        web = Server(self, tls=self_signed_certificate(self.tmp))
        data = noise(1000)
        process, point = self.foreground(ALLOWED, "--timeout", "5",
                                         self.carton_of({"model/far": (data, [web.serve("far", correct(data))])}))
        self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EHOSTUNREACH))
        self.assertEqual(web.count(), 0)
        self.assertLessEqual(web.connections, 20)
        line, = self.end(process)
        self.assertIn("certificate", line)
        self.assertIn(web.url("far"), line)
        self.assert_cached()

    def refused(self, *argv):
        done = run("info", "--timeout", "2", *argv)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.returncode, done.stderr

    # semantics 15.3
    def test_message_names_the_setting_and_what_insecure_does_not_do(self):
        certificate, _ = pair = self_signed_certificate(self.tmp)
        url = Server(self, tls=pair).serve("m.gguf", correct(noise(1000)))
        status, text = self.refused(url)
        self.assertEqual(status, 8, text)
        self.assertIn("; name a file with the certificate of its authority in SSL_CERT_FILE\n", text)
        self.assertIn("; --insecure permits http://, but does not skip the check of certificates\n",
                      self.refused("--insecure", url)[1])
        os.mkdir(self.path("none"))
        os.environ["SSL_CERT_DIR"] = self.path("none")
        system = "/etc/ssl/certs/ca-certificates.crt"
        if os.path.exists(system):
            os.environ["SSL_CERT_FILE"] = system
            self.assertIn(f"; its authority is not in SSL_CERT_FILE={system}\n", self.refused(url)[1])
        os.environ["SSL_CERT_FILE"] = self.path("absent.pem")
        self.assertEqual(self.refused(url),
                         (8, f"weightfs: {url}: SSL_CERT_FILE={self.path('absent.pem')}: no certificates can be read from it\n"))
        os.environ["SSL_CERT_FILE"] = certificate
        self.assertIn("m.gguf: ", self.refused(url)[1])  # no model, but it was read

    # semantics 15.3
    def test_directory_of_certificates_may_have_links_that_lead_out(self):
        certificate, key = self_signed_certificate(self.tmp)
        os.mkdir(self.path("authorities"))
        os.rename(certificate, self.path("authorities", "ours.pem"))
        done = subprocess.run(["openssl", "x509", "-hash", "-noout", "-in",
                               self.path("authorities", "ours.pem")], capture_output=True, text=True, check=True)
        os.mkdir(self.path("certs"))
        os.symlink(self.path("authorities", "ours.pem"), self.path("certs", done.stdout.strip() + ".0"))
        os.environ["SSL_CERT_DIR"] = self.path("certs")
        written = stores.gguf(self.path("."), [Tensor("w", "int8", (4,), b"abcd")])
        url = Server(self, tls=(self.path("authorities", "ours.pem"), key)).serve("m.gguf", correct(written))
        done = run("cat", url, "tensors/w")
        self.assertEqual((done.returncode, done.stdout), (0, "abcd"), done.stderr)

    def test_server_without_tls_is_named(self):
        self.assertIn("the server does not speak TLS at this port; use http://",
                      self.refused(f"https://{self.web.host}/m.gguf")[1])


class WebPages(HostileTestCase):
    PAGE = b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>"

    def message(self, script):
        url = self.web.serve("m.gguf", script)
        done = run("info", url)
        self.assertEqual(done.returncode, 4, done.stderr)
        return done.stderr.replace(url, "URL")

    # semantics 14.6
    def test_login_and_web_page_are_named(self):
        self.assertEqual(self.message(responds(401, b"who?")), "weightfs: URL: the server asks for a login (401)\n")
        page = responds(200, self.PAGE, Content_Type="text/html")
        self.assertEqual(self.message(page), "weightfs: URL: the server sent a web page (text/html), not a model\n")
        self.assertEqual(self.message(chunked(self.PAGE, 1, Content_Type="text/html; charset=utf-8")),
                         "weightfs: URL: the size of the file is not known: the server sent a web page (text/html)\n")
        self.assertEqual(self.message(responds(204)),
                         "weightfs: URL: the size of the file is not known: 204 No Content is not an answer with a file\n")

    def test_model_that_is_sent_as_a_web_page_is_read(self):
        data = stores.gguf(self.path("."), [Tensor("w", "int8", (4,), b"abcd")])
        done = run("cat", self.web.serve("m.gguf", correct(data, Content_Type="text/html")), "tensors/w")
        self.assertEqual((done.returncode, done.stdout), (0, "abcd"), done.stderr)


class BeforeTheEnd(HostileTestCase):
    def test_no_byte_is_served_before_the_end(self):
        data, gate = noise(2 * MEGABYTE), threading.Event()
        url = self.web.serve("far", gated(data, gate, len(data) - 1), head=correct(data))
        point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [url])}))
        reader = self.start_reader(self.far(point))
        eventually(lambda: self.web.count("GET") == 1)
        self.assertIsNone(reader.result)
        gate.set()
        self.assert_correct(self.result_of(reader), data)
        self.assertEqual(self.web.count("GET"), 1)


class Sizes(HostileTestCase):
    def test_listing_sends_no_request_and_stat_downloads_no_data(self):
        data = noise(300_000)
        point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [self.web.serve("far", correct(data))])}))
        for _ in range(2):
            self.assertEqual(sorted(os.listdir(os.path.join(point, "files", "model"))), ["far", "near"])
        self.assertEqual(self.web.connections, 0)
        for _ in range(2):
            self.assertEqual(os.stat(self.far(point)).st_size, len(data))
        self.assertEqual([request.method for request in self.web.requests()], ["HEAD"])
        self.assert_cached()

    def test_refused_head_is_replaced_by_a_one_byte_range(self):
        for status in (400, 403, 405, 501):
            with self.subTest(status=status):
                data = noise(300_000, status)
                name = f"far{status}"
                url = self.web.serve(name, correct(data), head=responds(status))
                point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [url])}, name=f"{status}.carton"), at=name)
                self.assertEqual(os.stat(self.far(point)).st_size, len(data))
                self.assertEqual([(request.method, request.headers.get("range")) for request in self.web.requests(path=name)],
                                 [("HEAD", None), ("GET", "bytes=0-0")])
                self.assert_correct(self.try_to_read(self.far(point)), data)
                self.assertEqual(self.web.count("GET", name), 2)

    def test_server_without_ranges_sends_the_file_once(self):
        data = noise(8 * MEGABYTE)
        url = self.web.serve("far", responds(200, data), head=responds(405))
        point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [url])}))
        self.assertEqual(os.stat(self.far(point)).st_size, len(data))
        self.assert_correct(self.try_to_read(self.far(point)), data)
        self.assertEqual(self.web.count("GET"), 2)
        self.assertLess(self.web.requests("GET")[0].sent, len(data), "the file was read completely and discarded")

    def test_size_is_known_after_download(self):
        data = bytes(300_000) + noise(1000)
        url = self.web.serve("far", responds(200, gzip.compress(data), Content_Encoding="gzip"))
        point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [url])}))
        self.assertEqual(os.stat(self.far(point)).st_size, len(data))
        self.assert_correct(self.try_to_read(self.far(point)), data)
        self.assertLessEqual(self.web.count("GET"), 2, self.web.received)
        self.assert_cached(data)

    def test_wrong_size_is_corrected_later(self):
        data = noise(300_000)
        url = self.web.serve("far", correct(data))
        self.web.scripts["/far", "HEAD"] = [correct(data[:1000]), correct(data)]
        point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [url])}))
        got, error = self.try_to_read(self.far(point))
        self.assertEqual((got, error), (b"", errno.EIO))
        again = self.mount(ALLOWED, self.path("m.carton"), at="again")
        self.assert_correct(self.try_to_read(self.far(again)), data)
        self.assert_cached(data)

    def test_linked_tensor_is_downloaded_on_first_read(self):
        import numpy
        data = numbers("f", 60_000)
        url = self.web.serve("t.bin", cut(data, 1000), correct(data), head=correct(data))
        carton = self.carton_of({"tensor_data/t.bin": (data, [url])}, tensors=[("n/a", "float32", (3, 20_000), "t.bin")])
        point = self.mount(ALLOWED, carton)
        self.assertEqual(self.web.count("GET"), 0)
        array = numpy.load(os.path.join(point, "npy", "n", "a.npy"), mmap_mode="r")
        self.assertEqual((array.shape, array.tobytes()), ((3, 20_000), data))
        self.assertEqual(self.web.count("GET"), 2)


class RemovedCache(HostileTestCase):
    """The directory of the cache is removed under a mount, whose sandbox cannot make it again (semantics 10.1)."""

    def test_linked_blob_is_readable(self):
        data = noise(2 * MEGABYTE)
        point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [self.web.serve("far", correct(data))])}))
        shutil.rmtree(self.cache())
        for _ in range(2):
            self.assert_correct(self.try_to_read(self.far(point)), data)
        self.assertEqual(self.read_whole(point, "files", "model", "near"), b"here")

    def test_ranges_of_a_url_are_readable(self):
        written = [Tensor(f"layer.{i}", "uint8", (MEGABYTE, ), noise(MEGABYTE, seed=i)) for i in range(4)]
        model = stores.safetensors(self.path("."), written)
        process, point = self.foreground(self.web.serve("m.safetensors", correct(model)))
        self.assertEqual(self.read_whole(point, "tensors", "layer.0"), written[0].data)
        shutil.rmtree(self.cache())
        for tensor in written[1:]:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        line, = self.end(process)
        self.assertTrue(line.endswith("; downloaded bytes are kept in temporary files"), line)

    def test_compressed_member_is_readable(self):
        data = bytes(range(256)) * 4096
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(data)},), }}".ljust(117) + "\n"
        with zipfile.ZipFile(self.path("m.npz"), "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("w.npy", b"\x93NUMPY\x01\x00\x76\x00" + header.encode() + data)
        point = self.mount(self.path("m.npz"))
        shutil.rmtree(self.cache(), ignore_errors=True)
        self.assertEqual(self.read_whole(point, "tensors", "w"), data)


if __name__ == "__main__":
    unittest.main()
