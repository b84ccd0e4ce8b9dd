"""Fetching from servers that lie, stall, break off and never end: the reader gets the right bytes or an error, and nothing
wrong is kept. What is killed, full or cut off is in test_fetching_crashes.py."""
import errno
import gzip
import os
import re
import subprocess
import threading
import time
import unittest

from fetching import FetchTestCase, blobs_in, debris_in
from hostile import Server, chunked, cut, gated, packed_zeroes, raw, says, sends, stalls, trickles, well
from mounting import WEIGHTFS, numbers, run, signal
from servers import needs, self_made_certificate
from test_archives import noise
import stores

MEGABYTE = 1 << 20
ALLOWED = "--allow-private-urls"
LIMIT_S = 60
ONCE = range(1, 3)  # for a page that could not be read ahead the kernel asks once more
SOME = range(1, 15)  # six tries, twice; one more where bytes came
NOT_REACHED = (errno.EHOSTUNREACH, errno.ETIMEDOUT)


class HostileTestCase(FetchTestCase):
    """A carton whose files lie behind a server that does as it is told."""

    def setUp(self):
        super().setUp()
        self.web = Server(self)

    def carton_of(self, far, name="m.carton", **kwargs):
        """`far`: {path: (bytes, [URL])}; model/near is at hand."""
        return stores.linked_carton(self.path(name), far, {"model/near": b"here"}, **kwargs)

    def far(self, point, name="model/far"):
        return os.path.join(point, "files", name)

    def try_to_read(self, path, block=1 << 16):
        """What came before the end or an error, and that error's number."""
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

    def begin_to_read(self, path):
        """Reads in another thread; what it got is in `.result`."""
        reader = threading.Thread(target=lambda: setattr(reader, "result", self.try_to_read(path)), daemon=True)
        reader.result = None
        reader.start()
        return reader

    def end_of(self, reader, what="a reader"):
        reader.join(LIMIT_S)
        self.assertFalse(reader.is_alive(), f"{what} still waits")
        return reader.result

    def assert_right(self, came, data):
        """All of it, and no error; without a difference of megabytes in the message."""
        got, error = came
        self.assertEqual((error, len(got), got == data), (None, len(data), True))

    def assert_kept(self, *blobs, parts=0):
        """These blobs are kept, right to the last byte, and so many unfinished fetches."""
        self.assertEqual([os.path.basename(path) for path in self.kept(len(blobs))], sorted(map(stores.sha256, blobs)))
        for path in blobs_in(self.cache()):
            self.assertEqual(stores.sha256(self.whole(path)), os.path.basename(path))
        left = [name for name in debris_in(self.cache()) if not name.endswith(".part.from")]
        self.assertEqual([name for name in left if not name.endswith(".part")], [])
        self.assertEqual(len(left), parts, left)

    def kept(self, count):
        """They get their names after the last byte was read."""
        end = time.monotonic() + LIMIT_S
        while len(blobs_in(self.cache())) < count and time.monotonic() < end:
            time.sleep(0.01)
        return blobs_in(self.cache())


class Case:
    """One linked file: what its server does, and what is to become of it."""

    def __init__(self, *scripts, data, error=None, gets=None, said="", kept=False):
        self.scripts, self.data, self.error, self.said, self.kept = scripts, data, error, said, kept
        self.gets = gets or (ONCE if error else 1)


class Answers(HostileTestCase):
    """All at once, in one mount: what one server does takes nothing from the others."""

    def assert_cases(self, cases, *options):
        far = {}
        for name, case in cases.items():
            far["model/" + name] = (case.data, [self.web.serve(name, *case.scripts, head=well(case.data))])
        process, point = self.foreground(ALLOWED, *options, self.carton_of(far))
        readers = {name: self.begin_to_read(self.far(point, "model/" + name)) for name in cases}
        for name, case in cases.items():
            got, error = self.end_of(readers[name], name)
            with self.subTest(name):
                self.assertTrue(case.data.startswith(got), f"{len(got)} bytes, not the right ones")
                if case.error is None:
                    self.assertEqual((error, len(got)), (None, len(case.data)))
                else:
                    self.assertIn(error, case.error if isinstance(case.error, tuple) else (case.error,))
                    self.assertEqual(got, b"", "bytes that nobody proved")
        for name, case in cases.items():
            with self.subTest(name, what="requests"):
                gets = self.web.asks("GET", name)
                self.assertIn(len(gets), case.gets if isinstance(case.gets, range) else (case.gets,), gets)
        lines = self.end(process)
        for name, case in cases.items():
            with self.subTest(name, what="log"):
                said = [line for line in lines if f"model/{name}" in line or f"/{name}:" in line or f"/{name} " in line]
                self.assertEqual(len(said), 0 if case.error is None else 1, said)
                for line in said:
                    self.assertRegex(line, case.said)
                    self.assertLess(len(line), 1000)
        self.assertLessEqual(len(lines), sum(case.error is not None for case in cases.values()), lines)
        parts = [name.removesuffix(".part") for name in debris_in(self.cache()) if not name.endswith(".from")]
        self.assertLessEqual(set(parts), {stores.sha256(case.data) for case in cases.values() if case.kept})
        self.assert_kept(*(case.data for case in cases.values() if case.error is None), parts=len(parts))

    def test_what_cannot_be_the_blob_is_an_error_at_the_first_answer(self):
        a = [noise(200_000, seed) for seed in range(30)]
        huge = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(1000)) + b"\r\n"
        cases = {
            "wrong": Case(sends(a[0][:-1] + bytes([a[0][-1] ^ 1])), data=a[0], error=errno.EIO, said="SHA-256|digest"),
            "longer": Case(sends(a[1] + b"!"), data=a[1], error=errno.EIO, said="200001 bytes"),
            "shorter": Case(sends(a[2][:-1]), data=a[2], error=errno.EIO, said="199999 bytes"),
            "empty": Case(sends(b""), data=a[3], error=errno.EIO, said="0 bytes"),
            "chunked-longer": Case(chunked(a[4], 2), data=a[4], error=errno.EIO, said="goes on after"),
            "chunked-shorter": Case(chunked(a[5][:1000], 1), data=a[5], error=errno.EIO, said="ends before"),
            "chunked-endless": Case(chunked(bytes(50_000)), data=a[6], error=errno.EIO, said="goes on after"),
            "bad-chunks": Case(raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a number\r\n"), data=a[7], error=(errno.EIO, *NOT_REACHED), gets=SOME),
            "garbage-gzip": Case(sends(a[8], Content_Encoding="gzip"), data=a[8], error=errno.EIO, said="encoding"),
            "cut-gzip": Case(sends(gzip.compress(a[9])[:-100], Content_Encoding="gzip"), data=a[9], error=(errno.EIO, errno.EHOSTUNREACH), gets=SOME),
            "unknown-encoding": Case(sends(a[10], Content_Encoding="rot13"), data=a[10], error=errno.EIO, gets=SOME),
            "huge-headers": Case(raw(huge + a[11]), data=a[11], error=errno.EIO, said="headers"),
            "nul-in-a-header": Case(raw(b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 200000\r\n\r\n" + a[12]), data=a[12], error=errno.EIO),
            "http-0.9": Case(raw(a[13]), data=a[13], error=errno.EIO),
            "a-web-page": Case(sends(b"<html>please log in</html>", Content_Type="text/html"), data=a[14], error=errno.EIO, said="has 26 bytes"),
            "part-not-asked-for": Case(raw(b"HTTP/1.1 206 Partial Content\r\nContent-Length: 100\r\nContent-Range: bytes 0-99/200000\r\n\r\n" + a[15][:100]), data=a[15], error=errno.EIO, said="206"),
            "no-content": Case(raw(b"HTTP/1.1 204 No Content\r\n\r\n"), data=a[16], error=errno.EIO, said="204"),
            "not-modified": Case(raw(b"HTTP/1.1 304 Not Modified\r\n\r\n"), data=a[17], error=(errno.EIO, errno.EHOSTUNREACH), said="304"),
            "gone-for-get": Case(says(404), data=a[18], error=errno.EIO, said="404"),
            "forbidden": Case(says(403), data=a[19], error=(errno.EIO, errno.EHOSTUNREACH), said="403"),
            "to-a-file": Case(says(302, Location="file:///etc/passwd"), data=a[20], error=(errno.EIO, errno.EHOSTUNREACH), said="http"),
            "to-a-socket": Case(says(302, Location="gopher://127.0.0.1:1/_x"), data=a[21], error=(errno.EIO, errno.EHOSTUNREACH), said="http"),
            "negative-length": Case(raw(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + a[23][:10]), data=a[23], error=(errno.EIO, errno.EHOSTUNREACH), gets=SOME),
        }
        self.assert_cases(cases)

    def test_what_passes_is_waited_for_and_tried_again(self):
        a = [noise(MEGABYTE, seed) for seed in range(20)]
        half = MEGABYTE // 2
        trickle = Case(trickles(a[0], 30, 0.05), data=a[0])  # 1.5 s in all, with --timeout 1
        cases = {
            "trickle": trickle,
            "500-twice": Case(says(500), says(500), well(a[1]), data=a[1], gets=3),
            "429": Case(says(429, Retry_After="0"), says(429, Retry_After="1"), well(a[2]), data=a[2], gets=3),
            "503": Case(says(503, Retry_After="Thu, 01 Jan 1970 00:00:00 GMT"), well(a[3]), data=a[3], gets=2),
            "cut": Case(cut(a[4], half), well(a[4]), data=a[4], gets=2),
            "reset": Case(cut(a[5], half, reset=True), well(a[5]), data=a[5], gets=2),
            "range-ignored": Case(cut(a[6], half), sends(a[6]), data=a[6], gets=2),
            "cut-often": Case(*(cut(a[7], at) for at in range(1, MEGABYTE, 100_000)), well(a[7]), data=a[7], gets=12),
            "closed": Case(raw(b""), well(a[8]), data=a[8], gets=2),
            "closed-in-the-head": Case(raw(b"HTTP/1.1 200 OK\r\nContent-Le"), well(a[9]), data=a[9], gets=range(2, 4)),
            "chunked": Case(chunked(a[10], 1), data=a[10]),
            "http-1.0": Case(raw(b"HTTP/1.0 200 OK\r\n\r\n" + a[11]), data=a[11]),
            "gzip": Case(sends(gzip.compress(a[12]), Content_Encoding="gzip"), data=a[12]),
            "informed-before": Case(raw(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 50 + b"HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n" + a[13]), data=a[13]),
            "moved": Case(says(307, Location=self.web.serve("there", well(a[14]))), data=a[14]),
            "stalls-once": Case(stalls(a[15], half), well(a[15]), data=a[15], gets=2),
        }
        self.assert_cases(cases, "--timeout", "1")
        for name in ("cut", "range-ignored", "stalls-once"):
            self.assertEqual(self.web.asks("GET", name)[1].first, half)
        self.assertLessEqual(self.web.asks("GET", "reset")[1].first or 0, half)
        firsts = [ask.first for ask in self.web.asks("GET", "cut-often")]
        self.assertEqual(firsts, [None, *range(1, MEGABYTE, 100_000)])

    def test_what_never_comes_is_given_up_after_some_tries(self):
        a = [noise(MEGABYTE, seed) for seed in range(20)]
        half = MEGABYTE // 2
        cases = {
            "stalls": Case(stalls(a[0], half), data=a[0], error=NOT_REACHED, gets=SOME, said="nothing arrived for 1 s", kept=True),
            "stalls-at-once": Case(lambda ask: ask.hang(), data=a[1], error=NOT_REACHED, gets=SOME, said="nothing arrived for 1 s"),
            "always-cut": Case(cut(a[2], half), data=a[2], error=NOT_REACHED, gets=SOME, said="cut short|closed", kept=True),
            "length-too-large": Case(sends(a[3][:half], MEGABYTE), data=a[3], error=NOT_REACHED, gets=SOME, said="cut short|closed", kept=True),
            "500": Case(says(500), data=a[4], error=NOT_REACHED, gets=SOME, said="500"),
            "429-tomorrow": Case(says(429, Retry_After="86400"), data=a[5], error=NOT_REACHED, said="429.*86400"),
            "around": Case(says(302, Location=self.web.url("around")), data=a[6], error=NOT_REACHED + (errno.EIO,), gets=range(2, 140), said="redirects"),
            "416": Case(*[cut(a[7], half), says(416, Content_Range="bytes */5")] * 5, data=a[7], error=errno.EIO, gets=SOME, said="byte 524288"),
            "another-part": Case(*[cut(a[8], half), raw(b"HTTP/1.1 206 P\r\nContent-Length: 10\r\nContent-Range: bytes 0-9/1048576\r\n\r\n0123456789")] * 5, data=a[8],
                                 error=errno.EIO, gets=SOME, said="0-9"),
            "another-size": Case(*[cut(a[9], half), raw(b"HTTP/1.1 206 P\r\nContent-Length: 10\r\nContent-Range: bytes 524288-524297/9999999\r\n\r\n0123456789")] * 5, data=a[9],
                                 error=errno.EIO, gets=SOME, said="9999999"),
            "other-bytes-for-the-rest": Case(*[cut(a[10], half), well(a[10][:half] + a[9][half:])] * 10, data=a[10], error=errno.EIO, gets=SOME, said="SHA-256|digest"),
            "endless-headers": Case(endless_headers, data=a[11], error=errno.EIO, said="headers"),
            "endless-hints": Case(endless_hints, data=a[12], error=(errno.EIO, *NOT_REACHED), gets=SOME, said=""),
        }
        self.assert_cases(cases, "--timeout", "1")

    def test_the_next_url_makes_up_for_each(self):
        bad = {"wrong": sends(bytes(200_000)), "longer": sends(bytes(200_001)), "absent": says(404), "garbage": raw(noise(1000)),
               "cut-and-other": None, "gzip": sends(bytes(1000), Content_Encoding="gzip"), "file": says(302, Location="file:///etc/passwd")}
        far, blobs = {}, []
        for i, (name, script) in enumerate(bad.items()):
            data = noise(200_000, i)
            scripts = [script] if script else [cut(data, 100_000), raw(b"HTTP/1.1 206 P\r\nContent-Range: bytes 0-0/1\r\n\r\n")]
            far["model/" + name] = (data, [self.web.serve(name, *scripts, head=well(data)), self.web.serve("good-" + name, well(data))])
            blobs.append(data)
        process, point = self.foreground(ALLOWED, self.carton_of(far))
        for name, (data, _) in far.items():
            self.assert_right(self.try_to_read(self.far(point, name)), data)
            self.assertEqual(self.web.count("GET", "good-" + name.removeprefix("model/")), 1, name)
        self.assertEqual(self.web.asks("GET", "good-cut-and-other")[0].first, 100_000)
        self.assertLessEqual(len(self.end(process)), len(bad))
        self.assert_kept(*blobs)

    def test_after_a_failure_the_next_read_asks_again(self):
        data = noise(200_000)
        url = self.web.serve("far", head=well(data))
        process, point = self.foreground(ALLOWED, self.carton_of({"model/far": (data, [url])}))
        for script in (sends(bytes(200_000)), says(404), raw(b"garbage")):
            self.web.serve("far", script)
            before = self.web.count("GET")
            self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EIO))
            self.assertIn(self.web.count("GET") - before, ONCE)
            self.assert_kept()
        self.web.serve("far", well(data))
        self.assert_right(self.try_to_read(self.far(point)), data)
        self.assertEqual(len(self.end(process)), 3)
        self.assert_kept(data)

    def test_a_redirect_may_lead_to_another_port(self):
        data = noise(1000)
        other = Server(self)
        url = self.web.serve("far", says(301, Location=other.serve("there", well(data))))
        self.assertEqual(self.try_to_read(self.far(self.mount(ALLOWED, self.carton_of({"model/far": (data, [url])})))), (data, None))
        self.assertEqual(other.count("GET"), 1)

    def test_no_spelling_of_a_loopback_address_reaches_it_unless_that_is_allowed(self):
        data = b"secret of this machine"
        self.web.serve("far", well(data))
        hosts = ("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "127.255.255.254", "0.0.0.0", "0", "[::1]", "[::]",
                 "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "localhost.", "a.localhost", "127.0.0.1.", "１２７.0.0.1",
                 "user@127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.0.1", "172.16.0.1", "100.64.0.1", "[fe80::1]", "[fd00::1]")
        far = {f"model/{i}": (data + b"%d" % i, [f"http://{host}:{self.web.port}/far"]) for i, host in enumerate(hosts)}
        process, point = self.foreground("--timeout", "1", self.carton_of(far))
        readers = [self.begin_to_read(self.far(point, f"model/{i}")) for i in range(len(hosts))]
        for host, reader in zip(hosts, readers):
            got, error = self.end_of(reader, host)
            with self.subTest(host):
                self.assertEqual(got, b"")
                self.assertIn(error, (errno.EIO, errno.EHOSTUNREACH))
        self.assertEqual(self.web.connections, 0)
        self.assertLessEqual(len(self.end(process)), len(hosts))
        self.assert_kept()


def endless_headers(ask):
    ask.sock.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        ask.sock.sendall(b"X-Again: and again\r\n" * 100)


def endless_hints(ask):
    while True:
        ask.sock.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100)


class Bombs(HostileTestCase):
    """What grows when it is unpacked, or never ends."""
    MOST_KIB = 200 * 1024

    def setUp(self):
        super().setUp()
        self.bomb = packed_zeroes(1024)

    def assert_bounded(self, process, point, data, said, most_kept):
        got, error = self.try_to_read(self.far(point))
        self.assertEqual((got, error), (b"", errno.EIO))
        with open(f"/proc/{process.pid}/status") as file:
            peak = int(re.search(r"VmHWM:\s*(\d+) kB", file.read())[1])
        if b"asan" not in self.libraries(process):
            self.assertLess(peak, self.MOST_KIB)
        used = sum(os.stat(os.path.join(base, name)).st_blocks * 512 for base, _, names in os.walk(self.cache()) for name in names)
        self.assertLessEqual(used, most_kept)
        self.assertEqual(self.whole(point, "files", "model", "near"), b"here")
        lines = self.end(process)
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], said)
        self.assert_kept()

    def libraries(self, process):
        with open(f"/proc/{process.pid}/maps", "rb") as file:
            return file.read()

    def test_one_for_a_small_file_ends_at_that_files_size(self):
        data = noise(MEGABYTE)
        url = self.web.serve("far", sends(self.bomb, Content_Encoding="gzip"), head=well(data))
        process, point = self.foreground(ALLOWED, self.carton_of({"model/far": (data, [url])}))
        self.assert_bounded(process, point, data, "goes on after the 1048576 bytes", 2 * MEGABYTE)
        self.assertIn(self.web.count("GET"), ONCE)

    def test_one_of_unknown_size_ends_where_the_cache_is_full(self):
        data = noise(MEGABYTE)
        url = self.web.serve("far", packed(self.bomb))
        process, point = self.foreground(ALLOWED, "--cache-size", "32M", self.carton_of({"model/far": (data, [url])}))
        self.assert_bounded(process, point, data, "larger than all that may be kept", 32 * MEGABYTE)
        self.assertLessEqual(self.web.count("GET"), 3)

    def test_a_body_without_end_ends_where_the_cache_is_full(self):
        data = noise(MEGABYTE)
        url = self.web.serve("far", chunked(bytes(1 << 16)), head=lambda ask: ask.head(200, Transfer_Encoding="chunked"))
        process, point = self.foreground(ALLOWED, "--cache-size", "32M", self.carton_of({"model/far": (data, [url])}))
        self.assert_bounded(process, point, data, "larger than all that may be kept", 32 * MEGABYTE)

    def test_a_size_that_nothing_can_have_takes_no_room(self):
        for length in (1 << 62, (1 << 64) - 1, 10 ** 30):
            with self.subTest(length=length):
                data = noise(MEGABYTE)
                url = self.web.serve("far", lambda ask: ask.head(200, Content_Length=length))
                process, point = self.foreground(ALLOWED, "--timeout", "1", self.carton_of({"model/far": (data, [url])}), at=f"mnt{length}")
                got, error = self.try_to_read(self.far(point))
                self.assertEqual(got, b"")
                self.assertIn(error, (errno.EIO, errno.EHOSTUNREACH))
                self.assertEqual(self.whole(point, "files", "model", "near"), b"here")
                self.assertLessEqual(len(self.end(process)), 1)
                self.assert_kept()


def packed(data):
    def answer(ask):
        ask.head(200, Content_Encoding="gzip", Content_Length=len(data))
        if ask.method != "HEAD":
            ask.body(data)
    return answer


@needs("openssl")
class Certificates(HostileTestCase):
    def test_one_that_nobody_vouches_for_gives_no_bytes(self):
        web = Server(self, tls=self_made_certificate(self.tmp))
        data = noise(1000)
        process, point = self.foreground(ALLOWED, "--timeout", "5", self.carton_of({"model/far": (data, [web.serve("far", well(data))])}))
        self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EHOSTUNREACH))
        self.assertEqual(web.count(), 0)
        self.assertLessEqual(web.connections, 20)
        line, = self.end(process)
        self.assertIn("certificate", line)
        self.assertIn(web.url("far"), line)
        self.assert_kept()


class AtOnce(HostileTestCase):
    def test_eight_processes_fetch_it_once(self):
        data = noise(8 * MEGABYTE)
        gate = threading.Event()
        carton = self.carton_of({"model/far": (data, [self.web.serve("far", gated(data, gate, MEGABYTE), head=well(data))])})
        processes = [subprocess.Popen([WEIGHTFS, "cat", ALLOWED, carton, "files/model/far"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(8)]
        # All have asked for its size, and one for its bytes, before the most of them come.
        self.web.wait_for(lambda: self.web.count("HEAD") == 8 and self.web.count("GET") >= 1)
        gate.set()
        for process in processes:
            out, err = process.communicate(timeout=LIMIT_S)
            self.assertEqual((process.returncode, err, out == data), (0, b"", True))
        self.assertEqual(self.web.count("GET"), 1, self.web.asked)
        self.assert_kept(data)

    def test_two_mounts_and_many_readers_fetch_it_once(self):
        data = noise(2 * MEGABYTE)
        gate = threading.Event()
        carton = self.carton_of({"model/far": (data, [self.web.serve("far", gated(data, gate, MEGABYTE), head=well(data))])})
        points = [self.mount(ALLOWED, carton, at=f"mnt{i}") for i in range(2)]
        readers = [self.begin_to_read(self.far(point)) for point in points for _ in range(8)]
        self.web.wait_for(lambda: self.web.count("HEAD") == 2 and self.web.count("GET") >= 1)
        gate.set()
        for reader in readers:
            self.assert_right(self.end_of(reader), data)
        self.assertEqual(self.web.count("GET"), 1, self.web.asked)
        self.assert_kept(data)

    def test_when_the_one_that_fetches_is_killed_another_goes_on(self):
        data = noise(2 * MEGABYTE)
        begun = threading.Event()
        url = self.web.serve("far", stalls(data, MEGABYTE, begun), well(data), head=well(data))
        carton = self.carton_of({"model/far": (data, [url])})
        command = [WEIGHTFS, "cat", ALLOWED, "--timeout", "600", carton, "files/model/far"]
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(first.wait)
        self.addCleanup(first.kill)
        self.assertTrue(begun.wait(LIMIT_S))
        second = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.web.wait_for(lambda: self.web.count("HEAD") == 2)
        first.kill()
        out, _ = second.communicate(timeout=LIMIT_S)
        self.assertEqual((second.returncode, out == data), (0, True))
        self.assertEqual(self.web.count("GET"), 2)
        self.assertLessEqual(self.web.asks("GET")[1].first or 0, MEGABYTE)
        self.assert_kept(data)


class Down(HostileTestCase):
    def test_what_is_kept_is_read_without_the_server_and_the_rest_once_it_is_back(self):
        blobs = {name: noise(300_000, i) for i, name in enumerate(("kept", "known", "unknown"))}
        far = {"model/" + name: (data, [self.web.serve(name, well(data))]) for name, data in blobs.items()}
        process, point = self.foreground(ALLOWED, "--timeout", "5", self.carton_of(far))
        self.assert_right(self.try_to_read(self.far(point, "model/kept")), blobs["kept"])
        self.assertEqual(os.stat(self.far(point, "model/known")).st_size, 300_000)
        self.web.go_down()
        readers = {name: self.begin_to_read(self.far(point, "model/" + name)) for name in blobs}
        other = self.mount("--timeout", "5", ALLOWED, self.path("m.carton"), at="other")
        for mounted in (point, other):  # in the second nothing says how long it is but the blob itself
            self.assert_right(self.try_to_read(self.far(mounted, "model/kept")), blobs["kept"])
        self.assert_right(self.end_of(readers["kept"]), blobs["kept"])
        for name in ("known", "unknown"):
            got, error = self.end_of(readers[name], name)
            self.assertEqual(got, b"")
            self.assertIn(error, NOT_REACHED)
        self.web.come_back()
        for name, data in blobs.items():
            self.assert_right(self.try_to_read(self.far(point, "model/" + name)), data)
        self.assertEqual(self.web.count("GET"), 3)
        lines = self.end(process)
        self.assertLessEqual(len(lines), 2, lines)
        self.assertTrue(all("refused" in line for line in lines), lines)
        self.assert_kept(*blobs.values())

    def test_offline_fails_at_once_and_says_so(self):
        data = noise(1000)
        carton = self.carton_of({"model/far": (data, [self.web.serve("far", well(data))])})
        process, point = self.foreground("--offline", ALLOWED, carton)
        self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EHOSTUNREACH))
        line, = self.end(process)
        self.assertIn("offline", line)
        self.assertIn("model/far", line)
        done = run("cat", "--offline", ALLOWED, carton, "files/model/far")
        self.assertEqual((done.returncode, done.stdout), (8, ""))
        self.assertIn("offline", done.stderr)
        self.assertEqual(self.web.connections, 0)


class Waiting(HostileTestCase):
    """Readers who wait for a server keep nobody else waiting, and may go away."""

    def stalled(self, count, begun=None):
        far = {}
        for i in range(count):
            data = noise(100_000, i)
            far[f"model/stalled{i}"] = (data, [self.web.serve(f"stalled{i}", stalls(data, 1000, begun), head=well(data))])
        return far

    def mount_stalled(self, far):
        process, point = self.foreground(ALLOWED, "--timeout", "600", self.carton_of(far))
        return process, point

    def assert_ends(self, process, readers):
        self.end(process)
        for reader in readers:
            got, error = self.end_of(reader)
            self.assertEqual(got, b"")
            self.assertIsNotNone(error)

    def test_two_hundred_who_wait_keep_nobody_from_what_is_at_hand(self):
        process, point = self.mount_stalled(self.stalled(12))
        readers = [self.begin_to_read(self.far(point, f"model/stalled{i % 12}")) for i in range(200)]
        self.web.wait_for(lambda: self.web.count("GET") == 12)
        near = self.begin_to_read(self.far(point, "model/near"))
        self.assertEqual(self.end_of(near), (b"here", None))
        self.assertEqual(len(os.listdir(os.path.join(point, "files", "model"))), 13)
        self.assertIn(b"carton", self.whole(point, "metadata.json"))
        self.assertEqual(self.web.count("GET"), 12)
        self.assert_ends(process, readers)
        self.assert_kept(parts=len({name for name in debris_in(self.cache()) if name.endswith(".part")}))

    def assert_gets_through(self, count):
        """A blob of a good server, while so many others stall."""
        good = noise(100_000, 1000)
        far = self.stalled(count)
        far["model/good"] = (good, [Server(self).serve("good", well(good))])
        process, point = self.mount_stalled(far)
        readers = [self.begin_to_read(self.far(point, f"model/stalled{i}")) for i in range(count)]
        self.web.wait_for(lambda: self.web.count("HEAD") == count and self.web.count("GET") >= min(count, 16))
        reader = self.begin_to_read(self.far(point, "model/good"))
        reader.join(20)
        came = reader.result
        self.assert_ends(process, readers)
        self.end_of(reader)
        self.assertIsNotNone(came, "it waits for those that stall")
        self.assert_right(came, good)

    def test_a_good_server_gets_through_beside_a_dozen_that_stall(self):
        self.assert_gets_through(12)

    def test_a_good_server_gets_through_beside_forty_that_stall(self):
        self.assert_gets_through(40)

    def assert_goes_away(self, number, far, seen):
        process, point = self.mount_stalled(far)
        reader = subprocess.Popen(["cat", self.far(point)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen()
        reader.send_signal(number)
        try:
            reader.wait(10)
            gone = True
        except subprocess.TimeoutExpired:
            gone = False
        near = self.begin_to_read(self.far(point, "model/near"))
        self.assertEqual(self.end_of(near), (b"here", None))
        self.end(process)
        reader.wait(LIMIT_S)
        self.assertTrue(gone, "the reader was killed and goes on waiting")

    def test_a_reader_that_is_killed_while_bytes_stall_goes_away(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(number):
                data, begun = noise(100_000), threading.Event()
                url = self.web.serve("far", stalls(data, 1000, begun), head=well(data))
                self.assert_goes_away(number, {"model/far": (data, [url])}, lambda: self.assertTrue(begun.wait(LIMIT_S)))

    def test_a_reader_that_is_killed_while_the_size_stalls_goes_away(self):
        for i, number in enumerate((signal.SIGINT, signal.SIGKILL)):
            with self.subTest(number):
                url = self.web.serve(f"far{i}", lambda ask: ask.hang())
                self.assert_goes_away(number, {"model/far": (b"x", [url])}, lambda: self.web.wait_for(lambda: self.web.count(path=f"far{i}") >= 1))

    def test_after_one_was_killed_the_next_reads_what_comes(self):
        data, begun, gate = noise(300_000), threading.Event(), threading.Event()
        answer = gated(data, gate, 1000)
        url = self.web.serve("far", lambda ask: (begun.set(), answer(ask)), head=well(data))
        process, point = self.mount_stalled({"model/far": (data, [url])})
        first = subprocess.Popen(["cat", self.far(point)], stdout=subprocess.DEVNULL)
        self.assertTrue(begun.wait(LIMIT_S))
        first.kill()
        first.wait(LIMIT_S)
        second = self.begin_to_read(self.far(point))
        gate.set()
        self.assert_right(self.end_of(second), data)
        self.assertEqual(self.web.count("GET"), 1)
        self.end(process)
        self.assert_kept(data)


class Streams(HostileTestCase):
    def test_bytes_are_read_before_the_end_came(self):
        data, gate = noise(2 * MEGABYTE), threading.Event()
        url = self.web.serve("far", gated(data, gate, MEGABYTE), head=well(data))
        point = self.mount(ALLOWED, "--stream", self.carton_of({"model/far": (data, [url])}))
        with open(self.far(point), "rb", buffering=0) as file:
            got = file.read(100_000)
            self.assertFalse(gate.is_set())
            self.assertEqual(got, data[:len(got)])
            self.assertEqual(blobs_in(self.cache()), [])
            gate.set()
            while piece := file.read(1 << 16):
                got += piece
        self.assertEqual(got, data)
        self.assertEqual(self.web.count("GET"), 1)
        self.assert_kept(data)

    def test_wrong_ones_fail_at_the_end_and_are_not_shown_again(self):
        data = noise(2 * MEGABYTE)
        wrong = bytes(len(data))
        url = self.web.serve("far", sends(wrong), head=well(data))
        process, point = self.foreground(ALLOWED, "--stream", self.carton_of({"model/far": (data, [url])}))
        with open(self.far(point), "rb", buffering=0) as held:
            got, error = self.try_to_read(self.far(point))
            self.assertEqual(error, errno.EIO)
            self.assertLess(len(got), len(data))
            self.assertEqual(got, wrong[:len(got)])
            self.assert_kept()
            # Not from the kernel's pages either.
            self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EIO))
            self.assertLessEqual(self.web.count("GET"), 4)
            self.web.serve("far", well(data))
            self.assert_right(self.try_to_read(self.far(point)), data)
            self.assertEqual(held.read(4096), data[:4096])
        lines = self.end(process)
        self.assertRegex("\n".join(lines), "SHA-256|digest")
        self.assertEqual(len(lines), 1, lines)
        self.assert_kept(data)

    def test_a_mount_that_does_not_stream_gives_nothing_before_the_end(self):
        data, gate = noise(2 * MEGABYTE), threading.Event()
        url = self.web.serve("far", gated(data, gate, len(data) - 1), head=well(data))
        carton = self.carton_of({"model/far": (data, [url])})
        streaming, other = self.mount(ALLOWED, "--stream", carton, at="streaming"), self.mount(ALLOWED, carton, at="other")
        reader = self.begin_to_read(self.far(other))
        with open(self.far(streaming), "rb", buffering=0) as file:
            self.assertEqual(file.read(4096), data[:4096])
        self.assertIsNone(reader.result)
        gate.set()
        self.assert_right(self.end_of(reader), data)
        self.assertEqual(self.web.count("GET"), 1)


class Sizes(HostileTestCase):
    def test_a_listing_asks_nobody_and_a_stat_asks_for_no_bytes(self):
        data = noise(300_000)
        point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [self.web.serve("far", well(data))])}))
        for _ in range(2):
            self.assertEqual(sorted(os.listdir(os.path.join(point, "files", "model"))), ["far", "near"])
        self.assertEqual(self.web.connections, 0)
        for _ in range(2):
            self.assertEqual(os.stat(self.far(point)).st_size, len(data))
        self.assertEqual([ask.method for ask in self.web.asks()], ["HEAD"])
        self.assert_kept()

    def test_a_server_that_refuses_head_is_asked_for_one_byte(self):
        for status in (400, 403, 405, 501):
            with self.subTest(status=status):
                data = noise(300_000, status)
                name = f"far{status}"
                url = self.web.serve(name, well(data), head=says(status))
                point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [url])}, name=f"{status}.carton"), at=name)
                self.assertEqual(os.stat(self.far(point)).st_size, len(data))
                self.assertEqual([(ask.method, ask.headers.get("range")) for ask in self.web.asks(path=name)], [("HEAD", None), ("GET", "bytes=0-0")])
                self.assert_right(self.try_to_read(self.far(point)), data)
                self.assertEqual(self.web.count("GET", name), 2)

    def test_a_server_that_ignores_ranges_too_is_not_made_to_send_it_twice(self):
        data = noise(8 * MEGABYTE)
        url = self.web.serve("far", sends(data), head=says(405))
        point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [url])}))
        self.assertEqual(os.stat(self.far(point)).st_size, len(data))
        self.assert_right(self.try_to_read(self.far(point)), data)
        self.assertEqual(self.web.count("GET"), 2)
        self.assertLess(self.web.asks("GET")[0].sent, len(data), "it was read to its end and thrown away")

    def test_a_size_that_only_fetching_tells(self):
        data = bytes(300_000) + noise(1000)
        url = self.web.serve("far", packed(gzip.compress(data)))
        point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [url])}))
        self.assertEqual(os.stat(self.far(point)).st_size, len(data))
        self.assert_right(self.try_to_read(self.far(point)), data)
        self.assertLessEqual(self.web.count("GET"), 2, self.web.asked)
        self.assert_kept(data)

    def test_a_wrong_size_is_not_for_ever(self):
        data = noise(300_000)
        url = self.web.serve("far", well(data))
        self.web.scripts["/far", "HEAD"] = [well(data[:1000]), well(data)]
        point = self.mount(ALLOWED, self.carton_of({"model/far": (data, [url])}))
        got, error = self.try_to_read(self.far(point))
        self.assertEqual((got, error), (b"", errno.EIO))
        again = self.mount(ALLOWED, self.path("m.carton"), at="again")
        self.assert_right(self.try_to_read(self.far(again)), data)
        self.assert_kept(data)

    def test_a_tensor_behind_a_link_is_fetched_by_the_first_read_of_its_bytes(self):
        import numpy
        data = numbers("f", 60_000)
        url = self.web.serve("t.bin", cut(data, 1000), well(data), head=well(data))
        carton = self.carton_of({"tensor_data/t.bin": (data, [url])}, tensors=[("n/a", "float32", (3, 20_000), "t.bin")])
        point = self.mount(ALLOWED, carton)
        self.assertEqual(self.web.count("GET"), 0)
        array = numpy.load(os.path.join(point, "npy", "n", "a.npy"), mmap_mode="r")
        self.assertEqual((array.shape, array.tobytes()), ((3, 20_000), data))
        self.assertEqual(self.web.count("GET"), 2)


if __name__ == "__main__":
    unittest.main()
