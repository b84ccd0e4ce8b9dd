"""Unmodified clients of `weightfs serve`: curl, wget, aria2, rclone, Python, fsspec, nginx as a cache, Chromium. They get the bytes
of the tree, and resume after a connection was cut. semantics 29.1 to 29.4, 29.6, 29.7"""
import base64
import email.parser
import email.policy
import html.parser
import http.client
import io
import json
import os
import random
import re
import ssl
import subprocess
import unittest
import urllib.error
import urllib.request
from typing import NamedTuple
from urllib.parse import quote, unquote

from browsing import dump_dom, needs_chromium
from http_serving import HttpServer
from mounting import LIMIT_S, Tensor, TestCase, WEIGHTFS, containers, is_mounted, numbers, run, signal, until
from servers import Nginx, ended_with_parent, needs, path_of, self_signed_certificate
from tcp_proxy import TcpProxy
import stores

try:
    import numpy
except ImportError:
    numpy = None

MODEL = "a.safetensors"
TARGET = "tensors/layer.0.weight"
SHAPE = (1280, 1024)
SIZE = 1280 * 1024 * 4
CUT = 1_500_000  # bytes of a response before its connection is cut
OLD = "Sat, 01 Jan 2000 00:00:00 GMT"
TOKEN = "a-token-of-the-test"


def tensors():
    return [
        Tensor("layer.0.weight", "float32", SHAPE, random.Random(1).randbytes(SIZE)),
        Tensor("x", "float32", (3, 4), numbers("f", 12)),
        Tensor("empty", "int8", (0, 2), b""),
        Tensor("names/b c+\u00e9#?&;='\"<i>", "int8", (4,), b"odd."),
        Tensor("names/100%", "int8", (4,), b"100%"),
        Tensor("names/http:d", "int8", (4,), b"http"),
    ]


class Logged(NamedTuple):
    """A line of the access log."""
    method: str
    target: str
    status: int
    bytes: int  # of the body that was sent


class LoggingServer(HttpServer):
    """A server whose requests are counted."""

    def __init__(self, *sources, folder, options=(), **more):
        self.log = os.path.join(folder, f"access-{random.randrange(1 << 64)}.log")
        super().__init__(*sources, folder=folder, options=("--access-log", self.log, *options), **more)

    def logged(self):
        with open(self.log) as file:
            lines = [re.fullmatch(r'\S+ - - \[.*\] "(\S+) (\S+) HTTP/1\.\d" (\d+) (\d+)', line.rstrip("\n")) for line in file]
        assert all(lines), "a line of the access log is not in the common log format"
        return [Logged(line[1], line[2], int(line[3]), int(line[4])) for line in lines]

    def requests(self):
        """All requests so far. A request is logged after its response, and is in flight until then."""
        def in_flight():
            metrics = self.get("/.weightfs/metrics", Authorization=f"Bearer {TOKEN}").body.decode()
            return int(re.search(r"^weightfs_requests_in_flight\{.*\} (\d+)$", metrics, re.MULTILINE)[1])

        until(lambda: in_flight() == 1, "requests do not end")
        return [each for each in self.logged() if not each.target.startswith("/.weightfs/")]


def tree_of(source):
    """The files of a model: {path: bytes}."""
    entries = json.loads(run("ls", "-R", "--json", source).stdout)
    files = [entry for entry in entries if entry["type"] == "file"]
    command = [WEIGHTFS, "cat", source, *(entry["path"] for entry in files)]
    data = io.BytesIO(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=LIMIT_S).stdout)
    tree = {entry["path"]: data.read(entry["size"]) for entry in files}
    assert [len(tree[entry["path"]]) for entry in files] == [entry["size"] for entry in files] and not data.read()
    return tree


def setUpModule():
    """Writes the models, and starts a server that all tests share."""
    owner = TestCase()
    owner.setUp()
    unittest.addModuleCleanup(owner.doCleanups)
    os.mkdir(owner.path("models"))
    ClientTestCase.models = owner.path("models")
    ClientTestCase.source = owner.path("models", MODEL)
    containers.write_safetensors(ClientTestCase.source, tensors(), {"key": "value"})
    containers.write_safetensors(owner.path("models", "b.safetensors"), tensors()[1:2], None)
    ClientTestCase.tree = tree_of(ClientTestCase.source)
    ClientTestCase.data = ClientTestCase.tree[TARGET]
    ClientTestCase.server = LoggingServer(ClientTestCase.models, folder=owner.tmp)
    unittest.addModuleCleanup(ClientTestCase.server.close)
    ClientTestCase.model_url = f"{ClientTestCase.server.url}{MODEL}/"
    ClientTestCase.target_url = ClientTestCase.model_url + TARGET


class ClientTestCase(TestCase):
    """A test with the server of the module, which serves a directory of two models. `tree` has the files of MODEL, `data` the bytes
    of TARGET."""

    def own_server(self, *options, **more):
        """Another server of the same models, with these options."""
        server = LoggingServer(self.models, folder=self.tmp, options=options, **more)
        self.addCleanup(server.close)
        return server

    def cut(self, *cuts, resets=False):
        """A URL of the file, whose first connections are cut."""
        self.proxy = TcpProxy(self, (self.server.host, self.server.port), cuts or (CUT,), resets)
        return f"{self.proxy.url}{MODEL}/{TARGET}"

    def setUp(self):
        super().setUp()
        self.seen = len(self.server.requests())

    def requests(self):
        """The requests of this test to the server of the module."""
        return self.server.requests()[self.seen:]

    def wait_for_requests(self, condition):
        """Waits until the condition holds for the requests of this test."""
        until(lambda: condition(self.requests()), lambda: f"not these requests: {self.requests()}")

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": self.tmp, "LC_ALL": "C.UTF-8"}  # without proxies and the user's settings

    def client(self, *argv, status=0, statuses=None):
        """Runs a client in the directory of the test, and returns its output. `statuses`: those it may end with."""
        done = subprocess.run([path_of(argv[0]), *argv[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S,
                              cwd=self.tmp, env=self.environment())
        self.assertIn(done.returncode, statuses or (status,), f"{argv}: {done.stderr[-2000:].decode(errors='replace')}")
        return done.stdout

    def assert_is_target(self, got):
        self.assertTrue(got == self.data, f"{len(got)} bytes, not the {len(self.data)} right ones")

    def assert_same_files(self, got, expected):
        self.assertEqual(sorted(got), sorted(expected))
        self.assertEqual([path for path in expected if got[path] != expected[path]], [], "other bytes")

    def files_below(self, *names):
        """The files of a directory of the test: {path: bytes}."""
        top = self.path(*names)
        return {os.path.relpath(os.path.join(folder, name), top): self.read(*names, os.path.relpath(folder, top), name)
                for folder, _, found in os.walk(top) for name in found}

    def partial(self, name="partial", size=1_000_001):
        """A file with the first bytes of the target."""
        return self.write(name, self.data[:size])


@needs("curl")
class Curl(ClientTestCase):
    def curl(self, *argv, status=0):
        return self.client("curl", "--silent", "--show-error", "--max-time", str(LIMIT_S), *argv, status=status)

    def code(self, *argv):
        """The status of the response."""
        return int(self.curl("--output", self.path("body"), "--write-out", "%{http_code}", *argv))

    def test_every_file_of_the_tree_is_identical(self):
        paths = sorted(self.tree)
        argv = [word for number, path in enumerate(paths) for word in ("--output", f"got/{number}", self.model_url + quote(path))]
        self.curl("--fail", "--create-dirs", *argv)
        self.assert_same_files({path: self.read("got", str(number)) for number, path in enumerate(paths)}, self.tree)

    def test_several_ranges_are_parts_in_the_order_of_the_request(self):
        ranges = [(4_000_000, 4_999_999), (0, 9), (100, 70_099), (SIZE - 1, SIZE - 1)]
        body = self.curl("--range", ",".join(f"{first}-{last}" for first, last in ranges), "--dump-header", "head", self.target_url)
        status, _, fields = self.read("head").decode().partition("\r\n")
        self.assertRegex(status, r"^HTTP/1\.1 206 ")
        fields = email.parser.Parser(policy=email.policy.HTTP).parsestr(fields)
        self.assertEqual(int(fields["Content-Length"]), len(body))
        self.assertEqual(fields.get_content_type(), "multipart/byteranges")
        boundary = b"\r\n--" + fields.get_boundary().encode()
        parts = []
        for first, last in ranges:
            self.assertTrue(body.startswith(boundary + b"\r\n"))
            head, _, body = body[len(boundary) + 2:].partition(b"\r\n\r\n")
            self.assertIn(f"Content-Range: bytes {first}-{last}/{SIZE}".encode(), head)
            parts.append(body[:last - first + 1])
            body = body[last - first + 1:]
        self.assertEqual(body, boundary + b"--\r\n")
        self.assertTrue(parts == [self.data[first:last + 1] for first, last in ranges])

    def test_partial_file_is_completed(self):
        name = self.partial()
        self.curl("--continue-at", "-", "--output", name, self.target_url)
        self.assert_is_target(self.read(name))
        self.wait_for_requests(lambda requests: [(each.status, each.bytes) for each in requests] == [(206, SIZE - 1_000_001)])

    def test_complete_file_is_not_downloaded_again(self):
        name = self.partial(size=SIZE)
        self.curl("--continue-at", "-", "--output", name, self.target_url)
        self.assert_is_target(self.read(name))
        self.wait_for_requests(lambda requests: [each.status for each in requests] == [416])

    def test_unmodified_file_is_not_downloaded_again(self):
        self.curl("--remote-time", "--output", "copy", self.target_url)
        self.assertEqual(int(os.stat(self.path("copy")).st_mtime), int(os.stat(self.source).st_mtime))
        self.assertEqual(self.code("--time-cond", "copy", self.target_url), 304)
        self.assertEqual(self.code("--time-cond", OLD, self.target_url), 200)
        self.assert_is_target(self.read("body"))

    def test_file_with_the_saved_etag_is_not_downloaded_again(self):
        self.assertEqual(self.code("--etag-save", "etag", self.target_url), 200)
        self.assertEqual(self.code("--etag-compare", "etag", self.target_url), 304)
        self.write("etag", b'"another"\n')
        self.assertEqual(self.code("--etag-compare", "etag", self.target_url), 200)

    def test_head_has_the_fields_without_a_body(self):
        out = self.curl("--head", self.target_url).decode()
        self.assertRegex(out, r"^HTTP/1\.1 200 ")
        fields = email.parser.Parser(policy=email.policy.HTTP).parsestr(out.partition("\r\n")[2])
        self.assertEqual((fields["Content-Length"], fields["Accept-Ranges"]), (str(SIZE), "bytes"))
        self.assertRegex(fields["ETag"], r'^"[^"]+"$')
        self.assertEqual(fields.get_payload(), "")

    def test_local_socket_serves_the_same_bytes(self):
        socket = self.path("socket")
        self.own_server(listen=(f"unix:{socket}",))
        url = f"http://models.example/{MODEL}/{TARGET}"
        self.assert_is_target(self.curl("--unix-socket", socket, url))
        self.assertTrue(self.curl("--unix-socket", socket, "--range", "7-1000006", url) == self.data[7:1_000_007])

    @needs("openssl")
    def test_https_serves_the_same_bytes(self):
        certificate, key = self_signed_certificate(self.tmp)
        server = self.own_server("--tls-cert", certificate, "--tls-key", key, scheme="https")
        self.assertTrue(server.url.startswith("https://"))
        url = f"{server.url}{MODEL}/{TARGET}"
        self.assert_is_target(self.curl("--cacert", certificate, url))
        name = self.partial()
        self.curl("--cacert", certificate, "--continue-at", "-", "--output", name, url)
        self.assert_is_target(self.read(name))
        self.curl(url, status=60)  # curl(1): the certificate cannot be verified

    def test_token_is_required_as_bearer_or_as_password(self):
        server = self.own_server("--token-file", self.write("token", f"{TOKEN}\n".encode()))
        url = f"{server.url}{MODEL}/{TARGET}"
        for name, argv in {"bearer": ["--oauth2-bearer", TOKEN], "basic": ["--user", f"anyone:{TOKEN}"],
                           "basic after 401": ["--user", f"anyone:{TOKEN}", "--anyauth"]}.items():
            with self.subTest(name):
                self.assertEqual(self.code(*argv, url), 200)
                self.assert_is_target(self.read("body"))
        for name, argv in {"none": [], "bearer": ["--oauth2-bearer", TOKEN + "x"], "prefix": ["--oauth2-bearer", TOKEN[:-1]],
                           "basic": ["--user", "anyone:wrong"], "as user": ["--user", f"{TOKEN}:"]}.items():
            with self.subTest(name, what="wrong"):
                self.assertEqual(self.code(*argv, url), 401)
                self.assertLess(len(self.read("body")), 1000)

    def test_download_resumes_after_a_cut(self):
        for resets in (False, True):
            with self.subTest(resets=resets):
                name, url = f"file-{resets}", self.cut(resets=resets)
                self.curl("--output", name, url, status=56 if resets else 18)  # curl(1): failure in receiving, partial file
                self.assertIn(len(self.read(name)), range(1, CUT))
                self.curl("--continue-at", "-", "--output", name, url)
                self.assert_is_target(self.read(name))
                self.assertEqual(self.proxy.connections, 2)
                self.wait_for_requests(lambda requests: requests[-1].status == 206)

    def test_download_is_repeated_after_a_cut(self):
        url = self.cut()
        self.curl("--retry", "3", "--retry-all-errors", "--continue-at", "-", "--output", "file", url)
        self.assert_is_target(self.read("file"))
        self.assertEqual(self.proxy.connections, 2)


class WgetTests:
    """Tests of wget and wget2, which have the same options. `runs`: how many are needed after two cuts; `cut_statuses`: how those
    end that are cut."""
    runs = 1
    cut_statuses = (0,)

    def wget(self, *argv, status=0):
        return self.client(*self.wget_command(*argv), status=status)

    def wget_command(self, *argv):
        return (self.program, "--no-config", "--no-verbose", "--tries=5", "--waitretry=0", "--timeout=30", *argv)

    def test_recursive_copy_has_the_files_of_the_tree_and_no_others(self):
        self.wget("--recursive", "--level=inf", "--no-parent", "--no-host-directories", "--directory-prefix=copy", self.model_url)
        self.assertEqual(os.listdir(self.path("copy")), [MODEL])
        got = self.files_below("copy", MODEL)
        folders = {os.path.relpath(folder, self.path("copy", MODEL)) for folder, *_ in os.walk(self.path("copy", MODEL))}
        listings = {os.path.normpath(os.path.join(folder, "index.html")) for folder in folders}
        self.assert_same_files({path: data for path, data in got.items() if path not in listings}, self.kept(self.tree))
        self.assertLessEqual(listings, set(got))
        self.assertEqual({each.status for each in self.requests()} - {200, 404}, set())
        self.assertEqual({each.target for each in self.requests() if each.status == 404}, {"/robots.txt"})

    def kept(self, tree):
        """The tree under the names that the client gives it."""
        return tree

    def test_partial_file_is_completed(self):
        name = self.partial(os.path.basename(TARGET))
        self.wget("--continue", self.target_url)
        self.assert_is_target(self.read(name))
        self.wait_for_requests(lambda requests: [(each.status, each.bytes) for each in requests] == [(206, SIZE - 1_000_001)])

    def test_download_resumes_after_each_cut(self):
        for resets in (False, True):
            with self.subTest(resets=resets):
                url = self.cut(CUT, CUT // 2, resets=resets)
                command = self.wget_command("--continue", f"--directory-prefix={resets}", url)
                for _ in range(self.runs - 1):
                    self.client(*command, statuses=self.cut_statuses)
                self.client(*command)
                self.assert_is_target(self.read(str(resets), os.path.basename(TARGET)))
                self.check_cut_requests()

    def check_cut_requests(self):
        self.assertEqual(self.proxy.connections, 3)
        self.wait_for_requests(lambda requests: [each.status for each in requests[-3:]] == [200, 206, 206])

    def test_unmodified_file_is_not_downloaded_again(self):
        for _ in range(2):
            self.wget("--timestamping", self.target_url)
            self.assert_is_target(self.read(os.path.basename(TARGET)))
        self.wait_for_requests(lambda requests: [each.bytes for each in requests if each.bytes] == [SIZE])

    def test_password_is_sent_after_401(self):
        server = self.own_server("--token-file", self.write("token", f"{TOKEN}\n".encode()))
        url = f"{server.url}{MODEL}/{TARGET}"
        self.wget("--user=anyone", f"--password={TOKEN}", "--output-document=file", url)
        self.assert_is_target(self.read("file"))
        self.wget("--user=anyone", "--password=wrong", "--output-document=other", url, status=6)  # wget(1): authentication
        self.assertEqual([each.status for each in server.requests()][:2], [401, 200])


@needs("wget")
class Wget(WgetTests, ClientTestCase):
    program = "wget"

    def kept(self, tree):
        return {unquote(path): data for path, data in tree.items()}  # wget decodes a name twice


@needs("wget2")
class Wget2(WgetTests, ClientTestCase):
    program = "wget2"
    # After a cut, wget2 1.99 ends with status 0, and a further run resumes. 2.2 begins again at once, and ends with the
    # status of a protocol error.
    runs = 3
    cut_statuses = (0, 7)

    def check_cut_requests(self):
        self.assertGreaterEqual(self.proxy.connections, 3)


@needs("aria2c")
class Aria2(ClientTestCase):
    def aria2(self, name, url, *options, status=0):
        return self.client("aria2c", "--no-conf", "--quiet", "--max-connection-per-server=4", "--split=4", "--min-split-size=1M",
                           "--max-tries=5", "--retry-wait=0", "--file-allocation=none", f"--dir={self.tmp}", f"--out={name}",
                           *options, url, status=status)

    def ranges(self):
        return [each for each in self.requests() if each.status == 206]

    def test_file_is_downloaded_in_several_ranges(self):
        self.aria2("file", self.target_url)
        self.assert_is_target(self.read("file"))
        self.assertFalse(os.path.exists(self.path("file.aria2")))
        self.assertGreaterEqual(len(self.ranges()), 3, self.requests())

    def test_download_resumes_after_a_cut(self):
        for resets in (False, True):
            with self.subTest(resets=resets):
                self.aria2(f"file-{resets}", self.cut(CUT, 300_000, resets=resets))
                self.assert_is_target(self.read(f"file-{resets}"))
                self.assertFalse(os.path.exists(self.path(f"file-{resets}.aria2")))
                self.assertGreater(self.proxy.connections, 2)

    def test_interrupted_download_is_continued_by_the_next_run(self):
        url = self.cut(CUT)
        self.aria2("file", url, "--max-tries=1", "--split=1", status=1)
        self.assertTrue(os.path.exists(self.path("file.aria2")))
        self.aria2("file", url, "--continue=true")
        self.assert_is_target(self.read("file"))
        self.assertTrue(self.ranges(), self.requests())


@needs("rclone")
class Rclone(ClientTestCase):
    def options(self):
        return [":http:", "--http-url", self.model_url, "--config", os.devnull, "--cache-dir", self.path("rclone")]

    def test_copy_has_the_files_of_the_tree_and_no_others(self):
        self.client("rclone", "copy", *self.options(), self.path("copy"))
        self.assert_same_files(self.files_below("copy"), self.tree)
        self.assertNotIn(404, {each.status for each in self.requests()})

    def test_copy_resumes_after_a_cut(self):
        url = self.cut(CUT).removesuffix(TARGET)
        self.client("rclone", "copyto", f":http:{TARGET}", "--http-url", url, "--config", os.devnull, self.path("file"),
                    "--retries-sleep", "0")
        self.assert_is_target(self.read("file"))

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    @needs("fusermount3")
    def test_mount_has_the_files_of_the_tree_and_no_others(self):
        point = self.path("mnt")
        os.mkdir(point)
        options = self.options()
        command = [path_of("rclone"), "mount", options[0], point, *options[1:], "--read-only"]
        with open(self.path("problems"), "wb") as problems:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=problems, env=self.environment(),
                                       preexec_fn=ended_with_parent(signal.SIGTERM))
        try:
            until(lambda: is_mounted(point) or process.poll() is not None, "it does not mount")
            self.assertIsNone(process.poll(), self.read("problems"))
            self.assert_same_files(self.files_below("mnt"), self.tree)
            with open(os.path.join(point, TARGET), "rb") as file:
                file.seek(3_000_001)
                self.assertTrue(file.read(100_000) == self.data[3_000_001:3_100_001])
        finally:
            process.send_signal(signal.SIGTERM)  # it unmounts
            process.wait(LIMIT_S)
            if is_mounted(point):
                subprocess.run(["umount", "-l", point], check=True)


@unittest.skipUnless(numpy, "needs numpy")
class Python(ClientTestCase):
    """urllib.request and numpy."""

    def open(self, url, context=None, **fields):
        request = urllib.request.Request(url, headers={name.replace("_", "-"): value for name, value in fields.items()})
        handlers = [urllib.request.ProxyHandler({})] + ([urllib.request.HTTPSHandler(context=context)] if context else [])
        return urllib.request.build_opener(*handlers).open(request, timeout=LIMIT_S)

    def test_npy_file_is_the_array(self):
        with self.open(self.model_url + "npy/layer.0.weight.npy") as response:
            array = numpy.load(io.BytesIO(response.read()), allow_pickle=False)
        self.assertEqual((array.dtype, array.shape), (numpy.float32, SHAPE))
        self.assert_is_target(array.tobytes())
        with self.open(self.model_url + "npy/x.npy") as response:
            self.assertEqual(numpy.load(io.BytesIO(response.read())).tolist(), numpy.arange(12).reshape(3, 4).tolist())

    def test_range_is_a_part_of_the_array(self):
        row, count = SHAPE[1] * 4, 100
        with self.open(self.target_url, Range=f"bytes={7 * row}-{(7 + count) * row - 1}") as response:
            self.assertEqual(response.status, 206)
            rows = numpy.frombuffer(response.read(), numpy.float32).reshape(count, SHAPE[1])
        whole = numpy.frombuffer(self.data, numpy.float32).reshape(SHAPE)
        self.assertTrue(rows.tobytes() == whole[7:7 + count].tobytes())

    def test_cut_response_is_incomplete(self):
        with self.assertRaises(http.client.IncompleteRead) as caught, self.open(self.cut()) as response:
            response.read()
        got = caught.exception.partial
        with self.open(self.target_url, Range=f"bytes={len(got)}-", If_Range=response.headers["ETag"]) as rest:
            self.assertEqual(rest.status, 206)
            self.assert_is_target(got + rest.read())

    @needs("openssl")
    def test_https_with_a_token_serves_the_same_bytes(self):
        certificate, key = self_signed_certificate(self.tmp)
        token = self.write("token", TOKEN.encode())
        server = self.own_server("--tls-cert", certificate, "--tls-key", key, "--token-file", token, scheme="https")
        url, context = f"{server.url}{MODEL}/{TARGET}", ssl.create_default_context(cafile=certificate)
        basic = base64.b64encode(f"anyone:{TOKEN}".encode()).decode()
        for credentials in (f"Bearer {TOKEN}", f"Basic {basic}"):
            with self.open(url, context, Authorization=credentials) as response:
                self.assert_is_target(response.read())
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.open(url, context)
        with caught.exception as error:
            self.assertEqual(error.code, 401)


class Fsspec(ClientTestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import fsspec
            cls.files = fsspec.filesystem("http", skip_instance_cache=True)
        except ImportError as error:
            raise unittest.SkipTest(f"needs python3-fsspec, python3-aiohttp and python3-requests: {error}") from error
        super().setUpClass()

    def urls(self):
        """Without names that begin with "http", which fsspec takes for URLs of other servers."""
        return {self.model_url + quote(path): data for path, data in self.tree.items() if "/http" not in path}

    def test_file_is_read_in_blocks(self):
        with self.files.open(self.target_url, block_size=65536) as file:
            self.assertEqual(file.size, SIZE)
            for begin, count in ((4_000_000, 300_000), (0, 10), (SIZE - 5, 100)):
                file.seek(begin)
                self.assertTrue(file.read(count) == self.data[begin:begin + count])
        self.assertTrue(self.files.cat_file(self.target_url, start=99, end=200_000) == self.data[99:200_000])
        self.assertLess(sum(each.bytes for each in self.requests()), SIZE // 2)

    def test_listing_has_the_urls_of_the_entries(self):
        names = {path.partition("/")[0] + "/" * ("/" in path) for path in self.tree}
        self.assertEqual(sorted(self.files.ls(self.model_url, detail=False)), sorted(self.model_url + name for name in names))

    def test_every_file_of_the_tree_is_found_and_identical(self):
        urls = self.files.find(self.model_url)
        self.assert_same_files({url: self.files.cat_file(url) for url in urls}, self.urls())

    def test_pattern_finds_the_files_of_a_directory(self):
        self.assertEqual(self.files.glob(self.model_url + "npy/*.npy"),
                         sorted(self.model_url + f"npy/{name}.npy" for name in ("empty", "layer.0.weight", "x")))


@needs("nginx")
class NginxCache(ClientTestCase):
    """nginx as a cache in front of a server of a directory whose model is replaced."""
    OPTIONS = "proxy_cache_key $uri;"

    def cache(self, origin):
        return Nginx(self, http="proxy_cache_path FOLDER/cached keys_zone=models:1m use_temp_path=off;", server=f"""
            location / {{
              {self.OPTIONS}
              proxy_cache models; proxy_ignore_headers Cache-Control; proxy_cache_valid 200 206 1s; proxy_cache_revalidate on;
              proxy_http_version 1.1; proxy_set_header Connection "";
              proxy_pass http://{origin.host}:{origin.port};
            }}""")

    def put(self, version):
        """Replaces the model by rename(2), and returns the bytes of its tensor."""
        data = random.Random(version).randbytes(SIZE)
        stored = stores.safetensors(self.tmp, [Tensor("w", "int8", (SIZE,), data)])
        os.rename(self.write("new", stored), self.path("living", MODEL))
        return data

    def start(self):
        os.mkdir(self.path("living"))
        containers.write_safetensors(self.path("living", "b.safetensors"), tensors()[1:2], None)
        data = self.put(1)
        origin = LoggingServer(self.path("living"), folder=self.tmp)
        self.addCleanup(origin.close)
        return origin, self.cache(origin), data

    def read_through(self, cache):
        """The bytes of the tensor through the cache; None if the response is not complete."""
        try:
            status, _, body = cache.send_request("GET", f"/{MODEL}/tensors/w")
        except http.client.IncompleteRead:
            return None
        return body if status == 200 else None

    def sent(self, origin):
        return sum(each.bytes for each in origin.requests() if each.target.endswith("/w"))

    def test_second_read_transfers_no_bytes_from_the_server(self):
        origin, cache, data = self.start()
        self.assertTrue(self.read_through(cache) == data)
        until(lambda: self.sent(origin) == SIZE, lambda: f"sent: {origin.requests()}")
        self.assertTrue(self.read_through(cache) == data)
        self.assertEqual(self.sent(origin), SIZE)

    def test_expired_file_is_revalidated_without_a_transfer(self):
        origin, cache, data = self.start()
        self.assertTrue(self.read_through(cache) == data)

        def is_revalidated():
            self.assertTrue(self.read_through(cache) == data)
            return any(each.status == 304 for each in origin.requests())
        until(is_revalidated, "it is not revalidated")
        self.assertEqual(self.sent(origin), SIZE)

    def test_replaced_model_is_delivered_and_never_mixed_with_the_old_one(self):
        origin, cache, old = self.start()
        self.assertTrue(self.read_through(cache) == old)
        new = self.put(2)

        def is_new():
            got = self.read_through(cache)
            self.assertTrue(got in (None, old, new), "bytes of two versions")
            return got == new
        until(is_new, "the new bytes are not delivered")
        self.assertTrue(self.read_through(cache) == new)


def has_slices():
    program = path_of("nginx")
    return program and "http_slice_module" in subprocess.run([program, "-V"], capture_output=True, text=True).stderr


@needs("nginx")
@unittest.skipUnless(has_slices(), "nginx without http_slice_module")
class NginxSlices(NginxCache):
    OPTIONS = "slice 512k; proxy_cache_key $uri$slice_range; proxy_set_header Range $slice_range;"

    def test_range_transfers_only_its_slices(self):
        origin, cache, data = self.start()
        status, _, body = cache.send_request("GET", f"/{MODEL}/tensors/w", headers={"Range": "bytes=1000000-1099999"})
        self.assertEqual((status, body == data[1_000_000:1_100_000]), (206, True))
        self.assertLessEqual(self.sent(origin), 2 * 512 * 1024)


class Links(html.parser.HTMLParser):
    """The texts of the links of a page."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.tag = [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tag = tag

    def handle_endtag(self, tag):
        self.tag = None

    def handle_data(self, data):
        if self.tag == "a":
            self.texts.append(data)


@needs_chromium
class Chromium(ClientTestCase):
    def test_listing_shows_the_names(self):
        for folder, names in {"": ["../", *{path.partition("/")[0] + "/" * ("/" in path) for path in self.tree}],
                              "tensors/names/": ["../", "100%25", "b c+\u00e9#?&;='\"<i>", "http:d"]}.items():
            with self.subTest(folder):
                self.assertEqual(sorted(Links(dump_dom(self, self.model_url + folder)).texts), sorted(names))


if __name__ == "__main__":
    unittest.main()
