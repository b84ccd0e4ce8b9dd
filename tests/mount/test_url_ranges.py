"""Models at URLs whose servers answer a request for a range with wrong, other or too few bytes: a read gets the right bytes or one
clear error. tests/cache/remote/remote_source_test.cc tests the same below the file system, with more kinds of right servers."""
import errno
import json
import os
import re
import struct
import subprocess
import unittest
import zipfile

from mounting import WEIGHTFS, run, until
from public_network import in_network
from scripted_server import CONDITIONS, Server, correct, faulty, responds, tag_of
from test_archives import noise
from test_fetching import LIMIT_S, HostileTestCase
from test_urls import tensors
from tensors import Tensor
import stores

KIB = 1024
SIZE = 200 * KIB  # of a tensor, which is requested whole
CHANGED = "changed on the server; mount it again"
TARGET = 2  # the tensor that is read


def part(stop=None, count=None, total=0, **headers):
    """A response 206, whatever the conditions. `stop`: the body ends before that byte of the range; `count`: the range is shorter
    than requested; `total` is added to the size of the file. `headers` replace others; None leaves one out."""
    def script(data):
        right = correct(data, ignores=CONDITIONS, most=count, **headers)

        def answer(request):
            status, head, body = right(request)
            if total:
                head["Content-Range"] = head["Content-Range"].replace(f"/{len(data)}", f"/{len(data) + total}")
            return faulty(lambda _: (status, head, body), cut=None if stop is None else request.first + stop)(request)
        return answer
    return script


def of_another_version(data):
    """A correct server of other bytes with another ETag, which ignores If-Match."""
    return correct(bytes(byte ^ 0xFF for byte in data), ignores=CONDITIONS)


def in_chunks(data):
    """A right response without Content-Length."""
    def answer(request):
        part(stop=0, Content_Length=None, Transfer_Encoding="chunked")(data)(request)
        body = data[request.first:request.last + 1]
        request.sock.sendall(b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
    return answer


def unknown_total(data):
    def answer(request):
        last = min(request.last, len(data) - 1)
        part(Content_Range=f"bytes {request.first}-{last}/*")(data)(request)
    return answer


def multipart(data):
    """The part of a multipart/byteranges body instead of the bytes."""
    def answer(request):
        head = b"--x\r\nContent-Range: bytes %d-%d/%d\r\n\r\n" % (request.first, request.last, len(data))
        body = head + data[request.first:request.last + 1]
        request.head(206, Content_Type="multipart/byteranges; boundary=x", Content_Length=len(body), ETag=tag_of(data))
        request.body(body)
    return answer


def hangs_after_the_head(data):
    def answer(request):
        part(stop=0)(data)(request)
        request.hang()
    return answer


def always(script):
    """A script that does not depend on the data."""
    return lambda data: script


class Case:
    """The responses to the requests for ranges of one file, of which the last one is repeated, and the outcome of a read."""

    def __init__(self, *scripts, error=None, message="", requests=None):
        self.scripts, self.error, self.message, self.requests = scripts, error, message, requests


class RangeTestCase(HostileTestCase):
    def model(self, seed=1):
        written = [tensor._replace(data=noise(SIZE, seed=100 * seed + i)) for i, tensor in enumerate(tensors(4, SIZE))]
        return stores.safetensors(self.path("."), written), written[TARGET].data

    def publish(self, cases):
        """{name: bytes of the tensor}, and the URLs of name.safetensors. The first request, for the head, is answered correctly."""
        expected, urls = {}, []
        for seed, (name, case) in enumerate(cases.items()):
            data, expected[name] = self.model(seed)
            urls.append(self.web.serve(f"{name}.safetensors", correct(data), *(script(data) for script in case.scripts)))
        return expected, urls

    def ranges(self, name):
        """The requests for ranges, without that for the head."""
        return self.web.requests("GET", f"{name}.safetensors")[1:]


class Mounted(RangeTestCase):
    """All servers of a test in one mount: none affects the files of the others."""

    def assert_cases(self, cases):
        expected, urls = self.publish(cases)
        process, point = self.foreground(*urls)
        readers = {
            name: self.start_reader(os.path.join(point, f"{name}.safetensors", "tensors", f"layer.{TARGET}")) for name in cases
        }
        for name, case in cases.items():
            got, error = self.result_of(readers[name], name)
            with self.subTest(name):
                self.assertEqual(error, case.error)
                self.assertTrue(expected[name].startswith(got), f"{len(got)} bytes, not the right ones")
                if error is None:
                    self.assertEqual(len(got), len(expected[name]))
                if case.requests:
                    self.assertIn(len(self.ranges(name)), case.requests, self.ranges(name))
        lines = self.end(process)
        for name, case in cases.items():
            with self.subTest(name, what="log"):
                about = [line for line in lines if f"/{name}.safetensors: {case.message}" in line]
                self.assertEqual(len(about), 0 if case.error is None else 1, lines)
        self.assertEqual(len(lines), sum(case.error is not None for case in cases.values()), lines)

    def test_wrong_range_fails_without_retry(self):
        once = range(1, 4)  # the kernel requests a page again if its read-ahead failed
        changed = {"error": errno.EIO, "message": CHANGED, "requests": once}
        other = {"error": errno.EIO, "message": "requested bytes from", "requests": once}
        self.assert_cases({
            "larger-total": Case(part(total=1), **changed),
            "smaller-total": Case(part(total=-1), **changed),
            "416": Case(always(responds(416, Content_Range="bytes */100")), **changed),
            "412": Case(always(responds(412)), **changed),
            "multipart": Case(multipart, **other),
            "not-a-range": Case(part(Content_Range="bytes 5-4/3"), **other),
            "other-unit": Case(part(Content_Range="items 0-1/2"), **other),
            "sends-nothing": Case(part(Content_Length=0, stop=0),
                                  **(other | {"message": "content-length contradicts content-range"})),
            "403": Case(always(responds(403)), error=errno.EACCES, message="403 Forbidden", requests=once),
        })

    def test_incomplete_range_is_completed(self):
        self.assert_cases({
            "cut": Case(part(stop=100_000), part(stop=1), correct, requests=(3,)),
            "short": Case(part(count=100_000), requests=(3,)),
            "no-length": Case(part(Content_Length=None), requests=(1,)),
            "chunked": Case(in_chunks, requests=(1,)),
            "unknown-total": Case(unknown_total, requests=(1,)),
        })
        first = self.ranges("cut")[0].first
        self.assertEqual([request.first - first for request in self.ranges("cut")], [0, 100_000, 100_001])

    def test_wrong_length_gives_no_wrong_bytes(self):
        for length in (0, 1000, 10**9):
            with self.subTest(length):
                self.web = Server(self)  # a response may end within the next one of its connection
                expected, urls = self.publish({f"length-{length}": Case(part(Content_Length=length), correct)})
                process, point = self.foreground(*urls, at=f"mnt{length}")
                got, error = self.try_to_read(os.path.join(point, "tensors", f"layer.{TARGET}"))
                self.assertTrue(expected[f"length-{length}"].startswith(got), f"{len(got)} bytes, not the right ones")
                self.assertIn((error, len(got)), ((None, SIZE), (errno.EIO, len(got))))
                self.assertLessEqual(len(self.end(process)), 2)  # the rest may stand before the next response

    def test_read_that_gets_two_versions_fails(self):
        changed = {"error": errno.EIO, "message": CHANGED}
        self.assert_cases({
            "after-a-short-range": Case(part(count=100_000), of_another_version, **changed),
            "after-a-cut": Case(part(stop=100_000), of_another_version, **changed),
            "weak-tag": Case(part(count=100_000), part(ETag='W/"weak"'), **changed),
            "date-instead-of-tag": Case(part(count=100_000), part(ETag=None, Last_Modified="Thu, 01 Jan 1970 00:00:00 GMT"),
                                        **changed),
        })


class Compressed(RangeTestCase):
    """A decoder reads in order, and its input is requested ahead as for a reader in order."""

    def test_large_member_takes_few_requests(self):
        data = noise(24 << 20)
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(data)},), }}".ljust(117) + "\n"
        with zipfile.ZipFile(self.path("m.npz"), "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            file.writestr("w.npy", b"\x93NUMPY\x01\x00\x76\x00" + header.encode() + data)
        url = self.web.serve("m.npz", correct(self.read("m.npz")))
        done = subprocess.run([WEIGHTFS, "cat", url, "tensors/w"], capture_output=True, timeout=LIMIT_S)
        self.assertEqual((done.stderr, done.stdout == data), (b"", True))
        self.assertLessEqual(len(self.web.requests("GET", "m.npz")), 12)


class Headers(RangeTestCase):
    """A header is requested in few pieces: after the head of the file, what is known to belong to it; else twice as much each time."""

    def requests_for(self, name, data):
        url = self.web.serve(name, correct(data))
        done = run("ls", url, "tensors")
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.web.requests("GET", name)

    # semantics 21.10
    def test_header_of_known_length_takes_one_more_request(self):
        for count in (2000, 4000):  # 0.2 and 0.4 MB
            data = stores.safetensors(self.path("."), [Tensor(f"layers.{i}.{'x' * 40}", "int8", (0,), b"") for i in range(count)])
            with self.subTest(count=count):
                self.assertEqual(len(self.requests_for(f"{count}.safetensors", data)), 2)

    def test_long_header_takes_few_requests(self):
        text = json.dumps({f"t{i}": {"dtype": "I8", "shape": [0], "data_offsets": [0, 0]} for i in range(300_000)}).encode()
        self.assertGreater(len(text), 16 << 20)
        data = struct.pack("<Q", len(text)) + text
        self.assertLessEqual(len(self.requests_for("long.safetensors", data)), 6)

    def test_header_of_unknown_length_takes_twice_as_much_each_time(self):
        data = stores.gguf(self.path("."), [Tensor(f"blk.{i}.{'x' * 40}", "int8", (1,), b"x") for i in range(30_000)])
        requests = self.requests_for("model.gguf", data)
        self.assertLessEqual(len(requests), 9, [request.first for request in requests])


class Ending(RangeTestCase):
    def test_read_that_the_end_of_the_mount_cancels_is_not_logged(self):
        for name, script in {"hangs": always(lambda request: request.hang()), "hangs-after-the-head": hangs_after_the_head}.items():
            with self.subTest(name):
                _, urls = self.publish({name: Case(script)})
                process, point = self.foreground(*urls, at=name)
                reader = self.start_reader(os.path.join(point, "tensors", f"layer.{TARGET}"))
                until(lambda: self.ranges(name), "no request")
                self.assertEqual(self.end(process), [])
                self.assertNotEqual(self.result_of(reader)[1], None)


class Retries(RangeTestCase):
    """Without a mount, so that no kernel repeats a read."""

    def test_temporary_failure_gives_up_after_six_attempts(self):
        cases = {
            "hangs": Case(always(lambda request: request.hang()), message="no data for 1 s"),
            "hangs-after-the-head": Case(hangs_after_the_head, message="no data for 1 s"),
            "closes": Case(part(stop=0), message="truncated"),
            "503": Case(always(responds(503)), message="503 Service Unavailable"),
        }
        _, urls = self.publish(cases)
        command = [WEIGHTFS, "cat", "--timeout", "1"]
        readers = [
            subprocess.Popen([*command, url, f"tensors/layer.{TARGET}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for url in urls
        ]
        for (name, case), url, reader in zip(cases.items(), urls, readers):
            out, problem = reader.communicate(timeout=LIMIT_S)
            with self.subTest(name):
                self.assertEqual((reader.returncode, out), (8, ""))
                self.assertRegex(problem, rf"^weightfs: {re.escape(url)}: tensors/layer.{TARGET}: .*{case.message}.*\n$")
                self.assertIn(len(self.ranges(name)), case.requests or (6,), self.ranges(name))


PUBLIC = "8.8.4.4"
PRIVATE = ("10.0.0.1", "169.254.169.254", "192.168.1.1")


class Redirects(RangeTestCase):
    """A redirect of a request for a range, after the head came from a public address."""

    def cat(self, url):
        return run("cat", "--insecure", "--timeout", "5", url, f"tensors/layer.{TARGET}", errors="replace")

    def assert_refused(self, url, hidden):
        done = self.cat(url)
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertRegex(done.stderr, rf"^weightfs: .*{re.escape(hidden.url('secret'))}: refused: {hidden.address} is a .*\n$")
        self.assertEqual(hidden.connections, 0)

    @in_network(PUBLIC, *PRIVATE)
    def test_redirect_to_a_private_address_is_refused(self):
        public = Server(self, address=PUBLIC)
        data, _ = self.model()
        for address in (*PRIVATE, "127.0.0.1"):
            with self.subTest(address):
                hidden = Server(self, address=address)
                target = hidden.serve("secret", correct(data))
                self.assert_refused(public.serve(f"{address}.safetensors", correct(data), responds(302, Location=target)), hidden)

    @in_network(PUBLIC, *PRIVATE)
    def test_target_of_a_redirect_cannot_redirect_to_a_private_address(self):
        public, hidden = Server(self, address=PUBLIC), Server(self, address=PRIVATE[0])
        data, _ = self.model()
        target = public.serve("there", correct(data), responds(302, Location=hidden.serve("secret", correct(data))))
        for web in (public, Server(self)):  # the origin's own address does not matter
            public.serve("there", correct(data), responds(302, Location=hidden.url("secret")))
            self.assert_refused(web.serve("m.safetensors", responds(302, Location=target)), hidden)

    @in_network(PUBLIC, *PRIVATE)
    def test_redirect_to_another_public_server_is_followed(self):
        public = Server(self, address=PUBLIC)
        data, tensor = self.model()
        url = public.serve("m.safetensors", correct(data), responds(302, Location=public.serve("there", correct(data))))
        done = subprocess.run([WEIGHTFS, "cat", "--insecure", url, f"tensors/layer.{TARGET}"], capture_output=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr, done.stdout == tensor), (0, b"", True))
        self.assertEqual(public.count("GET", "there"), 1)


class WrongServers(RangeTestCase):
    def read_one(self, *scripts):
        expected, (url,) = self.publish({"m": Case(*scripts)})
        self.count = getattr(self, "count", 0) + 1
        process, point = self.foreground(url, at=f"mnt{self.count}")
        got, error = self.try_to_read(os.path.join(point, "tensors", f"layer.{TARGET}"))
        return expected["m"], got, error, self.end(process)

    def test_404_during_a_read_is_eio_with_a_log_line(self):
        _, got, error, lines = self.read_one(always(responds(404)))
        with self.subTest("errno"):
            self.assertEqual(error, errno.EIO)
        with self.subTest("log"):
            self.assertEqual(len(lines), 1, lines)

    def test_refused_redirect_is_logged_with_the_url_of_the_file(self):
        _, got, error, (line,) = self.read_one(always(responds(302, Location="file:///etc/passwd")))
        self.assertEqual(error, errno.EIO)
        self.assertIn(self.web.url("m.safetensors"), line)

    def test_bytes_after_the_content_length_are_not_the_next_response(self):
        # Right bytes, or a refused response; but the rest of this response is not parsed as the next one.
        for name, script in (("too-small", part(Content_Length=1000)), ("zero", part(Content_Length=0))):
            with self.subTest(name):
                expected, urls = self.publish({name: Case(script, correct)})
                done = subprocess.run([WEIGHTFS, "cat", urls[0], f"tensors/layer.{TARGET}"], capture_output=True, timeout=60)
                self.assertNotIn(b"HTTP/0.9", done.stderr)
                self.assertTrue(expected[name].startswith(done.stdout))

    def test_length_that_contradicts_the_range_is_refused(self):
        def whole(status):
            def script(data):
                def answer(request):
                    request.head(status, Content_Length=len(data),
                                 Content_Range=f"bytes {request.first}-{min(request.last, len(data) - 1)}/{len(data)}",
                                 ETag=tag_of(data))
                    request.body(data)  # all bytes
                return answer
            return script
        for status in (200, 206):
            with self.subTest(status):
                expected, got, error, lines = self.read_one(whole(status))
                self.assertTrue(expected.startswith(got), "wrong bytes were served")
                self.assertEqual(error, errno.EIO)

    def test_first_response_with_an_error_status_is_refused(self):
        data, _ = self.model()
        for status in (500, 404, 403, 201):
            with self.subTest(status):
                script = faulty(correct(data), status=status)
                done = run("ls", self.web.serve(f"{status}.safetensors", script), "tensors")
                self.assertNotEqual(done.returncode, 0, done.stdout)

    def test_drip_below_the_minimum_speed_ends_in_an_error(self):
        _, (url,) = self.publish({"m": Case(lambda data: faulty(correct(data), step=10, pause=0.1))})
        done = run("cat", "--timeout", "1", url, f"tensors/layer.{TARGET}")
        self.assertEqual(done.returncode, 8)

    def test_weak_tag_that_changes_is_detected(self):
        data, _ = self.model()
        other = bytes(byte ^ 0xFF for byte in data)

        url = self.web.serve("m.safetensors", part(ETag='W/"1"')(data), part(ETag='W/"1"', count=100_000)(data),
                             part(ETag='W/"2"')(other))
        done = run("cat", url, f"tensors/layer.{TARGET}", encoding="latin-1")
        self.assertNotEqual(done.returncode, 0, "bytes of two versions")


if __name__ == "__main__":
    unittest.main()
