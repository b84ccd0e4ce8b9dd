"""Servers and networks that are down: what is waited for, and what is not. See docs/semantics.md, rules 14.1 and 14.7."""
import errno
import json
import os
import re
import signal
import subprocess

from mounting import WEIGHTFS, on_terminal, run, until
from scripted_server import Server, correct, raw, responds
from servers import self_signed_certificate
from test_archives import noise
from test_fetching import ALLOWED, HostileTestCase
import stores
from tensors import Tensor

SIZE = 100_000


class PermanentErrors(HostileTestCase):
    """One attempt: a repetition would fail again."""

    def fails_at_once(self, server, url, *options, **environment):
        done = subprocess.run([WEIGHTFS, "info", "--timeout", "5", *options, url], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **environment})
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(server.connections, 1)
        return done.returncode, done.stderr

    def test_certificate_of_an_unknown_authority(self):
        web = Server(self, tls=self_signed_certificate(self.tmp))
        status, text = self.fails_at_once(web, web.serve("m.gguf", correct(noise(1000))))
        self.assertEqual(status, 8)
        self.assertIn("certificate not accepted", text)

    def test_certificate_of_another_host(self):
        certificate, key = self_signed_certificate(self.tmp)
        web = Server(self, tls=(certificate, key))
        url = web.serve("m.gguf", correct(noise(1000))).replace("127.0.0.1", "localhost")
        status, text = self.fails_at_once(web, url, SSL_CERT_FILE=certificate)
        self.assertEqual(status, 8)
        self.assertIn("certificate not accepted", text)

    def test_tls_to_a_server_without_it(self):
        status, text = self.fails_at_once(self.web, f"https://{self.web.host}/m.gguf")
        self.assertEqual(status, 8)
        self.assertIn("does not speak TLS", text)

    def test_proxy_that_wants_a_password(self):
        self.web.scripts["http://192.0.2.1/m.gguf", None] = [responds(407)]
        status, text = self.fails_at_once(self.web, "http://192.0.2.1/m.gguf", "--insecure", http_proxy=self.web.origin)
        self.assertEqual(status, 4, text)
        self.assertIn(f"the proxy {self.web.origin}/ ($http_proxy) answers 407, which needs a user and password in it", text)

    def test_proxy_that_refuses_a_tunnel(self):
        for code in (403, 407):
            with self.subTest(code):
                proxy = Server(self, responds(code))
                status, text = self.fails_at_once(proxy, "https://192.0.2.1/m.gguf", https_proxy=proxy.origin)
                self.assertEqual(status, 4, text)
                self.assertIn(f"the proxy {proxy.origin}/ ($https_proxy) answers {code}", text)

    def test_proxy_that_is_down(self):
        done = run("info", "https://192.0.2.1/m.gguf", env={**os.environ, "HTTPS_PROXY": "http://me:secret@127.0.0.1:1"})
        self.assertEqual(done.returncode, 8)
        self.assertRegex(done.stderr, r"^weightfs: .*the proxy http://127\.0\.0\.1:1/ \(\$HTTPS_PROXY\): connection refused\n$")

    def test_loop_of_redirects(self):
        url = self.web.serve("m.gguf", *[responds(302, Location=self.web.url("m.gguf"))] * 20)
        done = run("info", url)
        self.assertEqual((done.returncode, self.web.count("GET")), (4, 11), done.stderr)
        self.assertIn("more than 10 redirects", done.stderr)

    def test_name_that_does_not_resolve(self):
        done = run("info", "https://no-such-host.invalid/m.gguf")
        self.assertEqual(done.returncode, 8)
        self.assertRegex(done.stderr, "^weightfs: .*cannot resolve the host name\n$")


class Links(HostileTestCase):
    """What a container names may be gone for years: a mount does not wait for a server that has never answered."""

    def test_server_that_is_gone(self):
        carton = self.carton_of({"model/far": (noise(SIZE), [self.web.serve("far", correct(noise(SIZE)))])})
        self.web.go_down()
        process, point = self.foreground(ALLOWED, "--wait-for-network", "forever", carton)
        self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EHOSTUNREACH))
        self.assertIn("connection refused", "".join(self.end(process)))

    def test_header_without_an_end(self):
        endless = Server(self)
        carton = self.carton_of(
            {"model/far": (noise(SIZE), [endless.serve("far", raw(b"HTTP/1.1 200 OK\r\nX-Endless: " + b"x" * (4 << 20)))])})
        process, point = self.foreground(ALLOWED, "--wait-for-network", "forever", carton)
        self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EIO))
        self.end(process)


class Outages(HostileTestCase):
    def status(self, point):
        with open(os.path.join(point, ".weightfs", "status.json")) as file:
            return json.load(file)["network"]

    def far_mount(self, *options):
        """A mount whose server has answered, and the bytes of two files."""
        blobs = {name: noise(SIZE, i) for i, name in enumerate(("first", "second"))}
        far = {"model/" + name: (data, [self.web.serve(name, correct(data))]) for name, data in blobs.items()}
        process, point = self.foreground(ALLOWED, "--timeout", "2", *options, self.carton_of(far))
        self.assert_correct(self.try_to_read(self.far(point, "model/first")), blobs["first"])
        return process, point, blobs["second"]

    @staticmethod
    def sends_the_head_only(data):
        return lambda request: correct(data)(request) if request.first == 0 else (503, {}, b"")

    def test_reader_waits_until_the_server_is_back(self):
        process, point, data = self.far_mount("--retries", "1", "--wait-for-network", "600")
        self.web.go_down()
        reader = self.start_reader(self.far(point, "model/second"))
        until(lambda: self.status(point)["waiting"] == 1 and "refused" in self.status(point).get("reason", ""), "no request waits")
        self.assertRegex(self.status(point)["since"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        until(lambda: b"requests wait since" in self.read_whole(point, ".weightfs", "log"), "the log does not say it")
        self.assertTrue(reader.is_alive())
        self.web.come_back()
        self.assert_correct(self.result_of(reader), data)
        self.assertEqual(self.status(point), {"waiting": 0})
        lines = self.end(process)
        self.assertEqual(
            [bool(re.search(what, line)) for what, line in zip(("requests wait since .*refused", "answered again after"), lines)],
            [True, True], lines)
        self.assertEqual(len(lines), 2, lines)

    def test_waiting_reader_can_be_interrupted(self):
        _, point, _ = self.far_mount("--wait-for-network", "forever")
        self.web.go_down()
        reader = subprocess.Popen(["cat", self.far(point, "model/second")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(reader.wait)
        self.addCleanup(reader.kill)
        until(lambda: self.status(point)["waiting"] == 1, "no request waits")
        reader.send_signal(signal.SIGINT)
        self.assertEqual(reader.wait(timeout=30), -signal.SIGINT)

    def test_unmount_ends_the_wait(self):
        process, point, _ = self.far_mount("--wait-for-network", "forever")
        self.web.go_down()
        reader = self.start_reader(self.far(point, "model/second"))
        until(lambda: self.status(point)["waiting"] == 1, "no request waits")
        self.end(process)
        self.assertEqual(self.result_of(reader)[0], b"")

    def test_waiting_command_goes_on_when_the_server_is_back(self):
        data = stores.safetensors(self.path("."), [Tensor("w", "uint8", (SIZE,), noise(SIZE))])
        url = self.web.serve("m.safetensors", correct(data))
        self.web.go_down()
        done = run("cat", "--retries", "0", url, "tensors/w")
        self.assertEqual((done.returncode, done.stdout), (8, ""))
        process = subprocess.Popen([WEIGHTFS, "cat", "--retries", "1", "--wait-for-network", "600", url, "tensors/w"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        line = process.stderr.readline()  # after the usual attempts
        self.assertIn(b"requests wait since", line)
        self.web.come_back()
        output, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output == noise(SIZE)), (0, True), errors)

    # semantics 14.7
    def test_fetch_waits_until_the_server_is_back(self):
        data = stores.safetensors(self.path("."), [Tensor("w", "uint8", (SIZE,), noise(SIZE))])
        url = self.web.serve("m.safetensors", self.sends_the_head_only(data))
        process = subprocess.Popen([WEIGHTFS, "fetch", "--retries", "1", url], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        line = process.stderr.readline()  # after the usual attempts
        self.assertIn(b"requests wait since", line)
        self.web.serve("m.safetensors", correct(data))
        errors = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(run("cat", "--offline", url, "tensors/w", text=False).stdout, noise(SIZE))

    # semantics 14.8
    def test_command_uses_up_the_retries_of_a_server_once(self):
        wide = [Tensor(f"w{i}", "uint8", (SIZE,), noise(SIZE, seed=i)) for i in range(4)]
        data = stores.safetensors(self.path("."), wide)
        url = self.web.serve("m.safetensors", self.sends_the_head_only(data))
        done = run("cat", "--retries", "1", url, *(f"tensors/{tensor.name}" for tensor in wide), text=False)
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertEqual(sum(b"503" in line for line in done.stderr.splitlines()), 4, done.stderr)
        self.assertEqual(self.web.count("GET"), 1 + 2)
        _, point = self.foreground("--retries", "0", url)
        before = self.web.count("GET")
        for tensor in wide[:2]:  # a mount asks again
            self.assertEqual(self.try_to_read(os.path.join(point, "tensors", tensor.name))[1], errno.EHOSTUNREACH)
        self.assertGreaterEqual(self.web.count("GET"), before + 2)

    def test_time_is_a_number_of_seconds_or_forever(self):
        for value in ("-1", "soon", "86401", ""):
            done = run("cat", "--wait-for-network", value, "x", "y")
            self.assertEqual(done.returncode, 2, value)
            self.assertIn("--wait-for-network", done.stderr)

    # The page of a terminal: see semantics 14.8.
    def test_terminal_shows_the_next_attempt(self):
        url = self.web.serve("m.gguf", responds(503, Retry_After="2"), correct(noise(1000)))
        self.assertRegex(on_terminal("info", url, status=4, of="stderr", columns=200),
                         r"retrying in 2 s: http://.*/m\.gguf: 503 Service Unavailable")
