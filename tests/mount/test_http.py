"""`weightfs serve`: the tree over HTTP, its errors, who may read, status, signals and services."""
import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import unittest

from http_serving import HttpServer
from mounting import LIMIT_S, NOBODY, WEIGHTFS, run, until

import containers
from scripted_server import Server, correct, responds
import stores
from tensors import Tensor


class Serving(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="weightfs-http-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def model(self, name="m.safetensors", tensors=None):
        path = self.path(name)
        kind = name.rsplit(".", 1)[1]
        containers.WRITERS[kind](path, tensors or [Tensor("w", "float32", (4,), struct.pack("<4f", 1, 2, 3, 4)),
                                                   Tensor("blk.0.bias", "int8", (5,), b"hello")])
        return path

    def serve(self, *sources, **options):
        server = HttpServer(*sources, folder=self.folder, **options)
        self.addCleanup(server.close)
        return server


class Tree(Serving):
    def test_every_file_is_that_of_cat(self):
        model = self.model("m.gguf")
        listed = json.loads(run("ls", "-R", "--json", model).stdout)
        server = self.serve(model)
        files = [entry for entry in listed if entry["type"] == "file"]
        self.assertGreater(len(files), 8)
        for entry in files:
            with self.subTest(entry["path"]):
                response = server.get("/" + entry["path"])
                self.assertEqual((response.status, len(response.body)), (200, entry["size"]))
                done = run("cat", model, entry["path"], text=False)
                self.assertEqual(response.body, done.stdout)

    def test_directory_of_models_follows_the_disk(self):
        folder = self.path("models")
        os.mkdir(folder)
        for name in ("models/a.safetensors", "models/b.safetensors"):
            self.model(name)
        server = self.serve(folder)
        names = lambda: server.get("/", Accept="text/plain").body.decode().split()  # noqa: E731
        self.assertEqual(names(), ["a.safetensors/", "b.safetensors/"])
        self.model("models/c.safetensors")
        until(lambda: "c.safetensors/" in names(), names)
        os.unlink(os.path.join(folder, "a.safetensors"))
        until(lambda: "a.safetensors/" not in names(), names)
        self.assertEqual(server.get("/a.safetensors/tensors/w").status, 404)

    def test_local_socket_of_a_path(self):
        path = self.path("socket")
        with HttpServer(self.model(), folder=self.folder, listen=(f"unix:{path}",)) as server:
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                client.sendall(b"GET /tensors/blk.0.bias HTTP/1.0\r\nHost: any.example\r\n\r\n")
                text = b"".join(iter(lambda: client.recv(4096), b""))
            self.assertTrue(text.endswith(b"\r\n\r\nhello"), text)
            server.close()
            self.assertFalse(os.path.exists(path))

    def test_socket_of_a_killed_server_is_replaced(self):
        path = self.path("socket")
        listen = (f"unix:{path}",)
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(path)
        self.assertTrue(os.path.exists(path))
        with HttpServer(self.model(), folder=self.folder, listen=listen) as second:
            self.assertEqual(second.urls, [f"unix:{path}"])

    def test_ordinary_user_serves(self):
        model = self.model()
        os.chmod(self.folder, 0o755)
        if os.geteuid() != 0:
            self.skipTest("the tests run as an ordinary user")
        server = HttpServer(model, options=("--no-cache",), user=NOBODY.pw_uid, group=NOBODY.pw_gid, extra_groups=[])
        self.addCleanup(server.close)
        self.assertEqual(server.get("/tensors/blk.0.bias").body, b"hello")


class Validators(Serving):
    def test_tags_are_those_of_the_bytes(self):
        model = self.model()
        with self.serve(model) as server:
            before = {path: server.get(path).getheader("ETag") for path in ("/tensors/w", "/npy/w.npy", "/metadata.json")}
            self.assertEqual(len(set(before.values())), 3)
            for path, tag in before.items():
                self.assertEqual(server.get(path, If_None_Match=tag).status, 304, path)
        with self.serve(model) as server:
            for path, tag in before.items():
                is_same = server.get(path).getheader("ETag") == tag
                self.assertEqual(is_same, path != "/metadata.json", f"{path} after a restart")
        os.utime(model, (1, 1))
        with self.serve(model) as server:
            for path, tag in before.items():
                self.assertNotEqual(server.get(path).getheader("ETag"), tag, f"{path} of another file")

    def test_stated_digest_is_the_tag(self):
        content = b"stated"
        digest = hashlib.sha256(content)
        carton = stores.linked_carton(self.path("m.carton"), {}, {"model/data": content})
        server = self.serve(carton)
        response = server.get("/files/model/data")
        self.assertEqual((response.status, response.body), (200, content))
        self.assertEqual(response.getheader("ETag"), f'"{digest.hexdigest()}"')
        self.assertEqual(response.getheader("Repr-Digest"), f"sha-256=:{base64.b64encode(digest.digest()).decode()}:")


class Listings(Serving):
    def test_browsers_get_pages_and_others_everything(self):
        model = self.model(tensors=[Tensor(f"t{i:04}", "uint8", (1,), b"x") for i in range(2500)])
        server = self.serve(model)
        whole = re.findall(r'<a href="(t\d+)"', server.get("/tensors/", Accept="*/*").body.decode())
        self.assertEqual(whole, [f"t{i:04}" for i in range(2500)])
        found, path = [], "/tensors/"
        while path:
            response = server.get(path, Accept="text/html,application/xhtml+xml")
            page = re.findall(r'<a href="(t\d+)"', response.body.decode())
            self.assertLessEqual(len(page), 1000)
            found += page
            link = response.getheader("Link")
            path = link and "/tensors/" + re.match("<(.*)>", link)[1]
        self.assertEqual(found, whole)

    def test_json_has_sizes(self):
        server = self.serve(self.model(tensors=[Tensor("w", "uint8", (1000,), bytes(1000))]))
        entries = json.loads(server.get("/npy/", Accept="application/json").body)
        self.assertEqual([(entry["name"], entry["size"]) for entry in entries], [("w.npy", 1128)])


class Errors(Serving):
    def test_names_that_do_not_exist(self):
        server = self.serve(self.model())
        for path, text in (("/tensros", "/tensros: not found; did you mean tensors?"), ("/w", "; did you mean /tensors/w?"),
                           ("/tensors/blk.0.bais", "did you mean blk.0.bias?"), ("/%1b[2J", "not found")):
            response = server.get(path)
            self.assertEqual(response.status, 404)
            self.assertIn(text, response.body.decode())
            self.assertNotIn(b"\x1b", response.body)

    def test_refused_tensor_is_502_with_its_warning(self):
        model = self.model("m.gguf", [Tensor("first", "float32", (32,), bytes(128)), Tensor("w", "float32", (32,), bytes(128))])
        os.truncate(model, os.path.getsize(model) - 64)
        server = self.serve(model)
        response = server.get("/tensors/w")
        self.assertEqual(response.status, 502)
        warnings = server.get("/warnings.txt").body.decode()
        self.assertIn(response.body.decode().splitlines()[-1].removeprefix('tensor "w" was refused: '), warnings)
        self.assertEqual(json.loads(server.get("/tensors/w", Accept="application/json").body)["status"], 502)

    def test_offline_is_503_and_a_silent_server_504(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and sends nothing
            with self.linked(f"http://127.0.0.1:{silent.getsockname()[1]}/data") as server:
                response = server.get("/files/model/data")
                self.assertEqual((response.status, response.getheader("Retry-After")), (504, None), response.body)
        with self.linked("https://weightfs.example/data", "--offline") as server:
            response = server.get("/files/model/data")
            self.assertEqual(response.status, 503, response.body)
            self.assertIn(b"offline", response.body)
            self.assertTrue(response.getheader("Retry-After"))

    def test_server_that_is_busy_for_an_hour_is_503_at_once(self):
        data = b"bytes"
        web = Server(self)
        url = web.serve("data", responds(429, Retry_After="3600"), head=correct(data))
        carton = stores.linked_carton(self.path("linked.carton"), {"model/data": (data, [url])})
        server = self.serve(carton, options=("--allow-private-urls", "--wait-for-network", "2"))
        response = server.get("/files/model/data")
        self.assertEqual(response.status, 503, response.body)
        self.assertIn(b"retry after 3600 s", response.body)
        self.assertTrue(response.getheader("Retry-After"))
        self.assertEqual(web.count("GET"), 1)

    @contextlib.contextmanager
    def linked(self, url, *options):
        """A server of a carton whose file is behind a link."""
        carton = stores.linked_carton(self.path("linked.carton"), {"model/data": (b"bytes", [url])})
        quick = ("--allow-private-urls", "--insecure", "--timeout", "1", "--retries", "0", "--wait-for-network", "0")
        with HttpServer(carton, folder=self.folder, options=(*quick, *options)) as server:
            yield server

    def test_wrong_options_are_one_line(self):
        model = self.model()
        token = self.path("empty")
        open(token, "w").close()
        for words, status, text in (
            (["--listen", "nowhere"], 2, "not PORT, ADDRESS:PORT"), (["--listen", "127.0.0.1:99999"], 2, "not a valid port"),
            (["--listen", "99999"], 2, "--listen 99999: not a valid port; ports are 0 to 65535"),
            (["--listen", "0.0.0.0:0"], 2, "use --token-file FILE, or --no-auth"),
            (["--listen", "systemd"], 1, "has passed no socket"), (["--tls-cert", model], 2, "belong together"),
            (["--listen", "127.0.0.1:0", "--tls-cert", model, "--tls-key", model], 2, "not a valid certificate"),
            (["--listen", "127.0.0.1:0", "--token-file", token], 2, "not a token"),
            (["--listen", "127.0.0.1:0", "--token-file", self.path("missing")], 3, "missing"),
            (["--listen", "127.0.0.1:0", "--access-log", "/dev/null/x"], 1, "--access-log"),
            (["--listen", "unix:" + "x" * 200], 1, "too long"),
        ):
            done = run("serve", *words, model)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (status, "", 1), done.stderr)
            self.assertIn(text, done.stderr)

    def test_missing_source_ends_with_its_status(self):
        done = run("serve", "--listen", "127.0.0.1:0", self.path("nothing.gguf"))
        self.assertEqual((done.returncode, done.stdout), (3, ""))

    def test_taken_port_is_named(self):
        server = self.serve(self.model())
        done = run("serve", "--listen", f"127.0.0.1:{server.port}", self.path("m.safetensors"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("another program has this port", done.stderr)

    def test_full_disk_ends_no_response(self):
        """The access log is on a full disk: requests are answered all the same."""
        server = self.serve(self.model(), options=("--access-log", "/dev/full"))
        self.assertEqual(server.get("/tensors/blk.0.bias").body, b"hello")


class Access(Serving):
    def test_token(self):
        token = self.path("token")
        with open(token, "w") as file:
            file.write("s3cret\n")
        server = self.serve(self.model(), options=("--token-file", token), listen=("0.0.0.0:0",))
        server.host = "127.0.0.1"
        self.assertEqual(server.get("/").status, 401)
        self.assertEqual(server.get("/", Authorization="Bearer s3cret").status, 200)
        basic = base64.b64encode(b"me:s3cret").decode()
        self.assertEqual(server.get("/tensors/blk.0.bias", Authorization=f"Basic {basic}").body, b"hello")
        self.assertEqual(server.get("/.weightfs/status.json").status, 401)

    def test_foreign_names_are_misdirected(self):
        server = self.serve(self.model(), options=("--host", "models.example"))
        for host, status in (("evil.example", 421), (f"evil.example:{server.port}", 421), ("models.example", 200),
                             (f"localhost:{server.port}", 200)):
            self.assertEqual(server.get("/", Host=host).status, status, host)

    def test_origin_is_permitted_by_option(self):
        server = self.serve(self.model(), options=("--allow-origin", "https://a.example"))
        response = server.get("/tensors/w", Origin="https://a.example")
        self.assertEqual(response.getheader("Access-Control-Allow-Origin"), "https://a.example")
        self.assertIn("ETag", response.getheader("Access-Control-Expose-Headers"))
        self.assertIsNone(server.get("/tensors/w", Origin="https://b.example").getheader("Access-Control-Allow-Origin"))
        preflight = server.get("/tensors/w", method="OPTIONS", Origin="https://a.example", Access_Control_Request_Method="GET",
                               Access_Control_Request_Headers="range")
        self.assertEqual(preflight.status, 204)
        self.assertIn("Range", preflight.getheader("Access-Control-Allow-Headers"))


class Encrypted(Serving):
    def test_connections_that_fail_do_not_disturb_others(self):
        certificate, key = self.path("cert.pem"), self.path("key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                        "1", "-subj", "/CN=localhost", "-keyout", key, "-out", certificate], check=True, capture_output=True,
                       timeout=LIMIT_S)
        size = 8 << 20
        model = self.model(tensors=[Tensor("w", "uint8", (size,), bytes(size))])
        server = self.serve(model, options=("--tls-cert", certificate, "--tls-key", key), scheme="https")
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        for _ in range(20):
            with socket.create_connection((server.host, server.port), timeout=LIMIT_S) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")  # no TLS
            with socket.create_connection((server.host, server.port), timeout=LIMIT_S) as cut:
                with context.wrap_socket(cut) as half:
                    half.sendall(b"GET /tensors/w HTTP/1.1\r\nHos")
            with socket.create_connection((server.host, server.port), timeout=LIMIT_S) as connection:
                with context.wrap_socket(connection) as client:
                    client.sendall(b"GET /tensors/w HTTP/1.0\r\n\r\n")
                    got = sum(map(len, iter(lambda: client.recv(1 << 20), b"")))
            self.assertGreater(got, size)


class Status(Serving):
    def test_status_metrics_and_log(self):
        server = self.serve(self.model())
        server.get("/tensors/w")
        server.get("/nothing")
        status = json.loads(server.get("/.weightfs/status.json").body)
        self.assertEqual((status["url"], status["pid"]), (server.url, server.process.pid))
        self.assertNotIn("mountpoint", status)
        self.assertTrue(status["sandbox"]["seccomp"] or not status["sandbox"]["active"])
        operations = json.loads(server.get("/.weightfs/stats.json").body)["operations"]
        self.assertEqual(set(operations), {"get", "head", "options", "other"})
        line = f'weightfs_request_duration_seconds_count{{url="{server.url}",operation="get"}} '
        metrics = lambda: server.get("/.weightfs/metrics").body.decode()  # noqa: E731
        until(lambda: int(metrics().split(line)[1].split()[0]) >= 5, metrics)
        self.assertEqual(server.get("/.weightfs/log").status, 200)
        self.assertNotIn(b".weightfs", server.get("/", Accept="*/*").body)

    def test_access_log_has_a_line_for_each_request(self):
        log = self.path("access.log")
        server = self.serve(self.model(), options=("--access-log", log))

        def lines():
            with open(log) as file:
                return file.read().splitlines()

        # A line is written after the response was sent, so the next request could be the first in the log.
        server.get("/tensors/blk.0.bias")
        until(lambda: len(lines()) == 1, lines)
        server.raw(b'GET /"\x7f HTTP/1.1\r\nHost: localhost\r\n\r\n')
        until(lambda: len(lines()) == 2, lines)
        server.raw(b"nonsense\r\n\r\n")
        until(lambda: len(lines()) == 3, lines)
        lines = lines()
        start = r'127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] '
        self.assertRegex(lines[0], start + r'"GET /tensors/blk\.0\.bias HTTP/1\.1" 200 5$')
        self.assertRegex(lines[1], start + r'"-" 400 \d+$')
        self.assertRegex(lines[2], start + r'"-" 400 \d+$')

    def test_access_log_has_no_credentials(self):
        log = self.path("access.log")
        server = self.serve(self.model(), options=("--access-log", log))
        for query in ("ticket=SECRET", "q=a&ticket=SECRET", "token=SECRET&q=a", "%74icket=SECRET", "code=SECRET=SECRET&after=b",
                      "ticket=SECRET&ticket=SECRET", "ticket=%53ECRET", "tickets=shown&a"):
            server.get(f"/tensors/?{query}")
        server.raw(b"GET http://localhost/tensors/w?a&ticket=SECRET&b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")

        def targets():
            with open(log) as file:
                return [line.split()[6].partition("?")[2] for line in file]

        until(lambda: len(targets()) == 9, targets)
        # Two connections may end in another order.
        self.assertEqual(sorted(targets()), sorted(["ticket=*", "q=a&ticket=*", "token=*&q=a", "%74icket=*", "code=*&after=b",
                                                    "ticket=*&ticket=*", "ticket=*", "tickets=shown&a", "a&ticket=*&b"]))


class Signals(Serving):
    def test_ctrl_c_prints_a_summary(self):
        server = HttpServer(self.model(), folder=self.folder)
        server.get("/tensors/blk.0.bias")
        server.get("/nothing")
        server.process.send_signal(signal.SIGINT)
        self.assertEqual(server.process.wait(LIMIT_S), 0)
        self.assertRegex(server.error_text(), r"weightfs: 2 requests, \d+ B, 2 connections\n")
        server.close()

    def test_responses_in_progress_are_completed(self):
        size = 48 << 20
        server = self.serve(self.model(tensors=[Tensor("w", "uint8", (size,), bytes(size))]))
        with socket.create_connection((server.host, server.port), timeout=LIMIT_S) as client:
            client.sendall(b"GET /tensors/w HTTP/1.0\r\n\r\n")
            got = len(client.recv(1 << 16))
            server.process.send_signal(signal.SIGTERM)
            while piece := client.recv(1 << 20):
                got += len(piece)
        self.assertGreater(got, size)
        self.assertEqual(server.process.wait(LIMIT_S), 0)

    def test_idle_server_ends(self):
        server = HttpServer(self.model(), folder=self.folder, options=("--idle-timeout", "1"))
        self.assertEqual(server.process.wait(LIMIT_S), 0)
        server.close()

    def test_refresh_by_sighup(self):
        link = self.path("current.safetensors")
        os.symlink(self.model("one.safetensors"), link)
        other = self.model("two.safetensors", [Tensor("v", "uint8", (1,), b"v")])
        server = self.serve(link)
        self.assertEqual(server.get("/tensors/w").status, 200)
        os.unlink(link)
        os.symlink(other, link)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: server.get("/tensors/v").status == 200, server.error_text)


class Service(Serving):
    def test_config_is_shown_and_errors_name_the_line(self):
        folder = self.path("serve.d")
        os.mkdir(folder)
        config = os.path.join(folder, "m.conf")
        for text, status, wanted in (
            (f"SOURCE={self.model()}\nOPTIONS=host=models.example\n", 0, '"service": "weightfs-serve@m.service"'),
            ("OPTIONS=host=x\n", 2, "SOURCE= is missing"),
            ("SOURCE=/m\nMOUNTPOINT=/mnt/x\n", 2, ":2: unknown setting"),
            ("SOURCE=/m\nOPTIONS=hots=x\n", 2, ":2: OPTIONS: unknown option \"hots=x\"; did you mean host?"),
        ):
            with open(config, "w") as file:
                file.write(text)
            done = run("service", "show", config)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(wanted, done.stdout + done.stderr)

    def test_example_of_a_mirror_is_valid(self):
        with open(os.path.join(os.path.dirname(__file__), "..", "..", "systemd", "mirror.conf")) as file:
            settings = [line.lstrip("#") for line in file if line.lstrip("#").startswith("OPTIONS=")]
        self.assertEqual([each.count("OPTIONS=mirror=hf=") for each in settings], [1, 1, 0])
        os.mkdir(self.path("serve.d"))
        config = self.path("serve.d/mirror.conf")
        for each in settings:
            with open(config, "w") as file:
                file.write(each)
            done = run("service", "show", config)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(json.loads(done.stdout), {"service": "weightfs-serve@mirror.service", "sources": [],
                                                       "options": each.removeprefix("OPTIONS=").rstrip()})

    def test_sockets_of_the_service_manager_are_used(self):
        """LISTEN_FDS and NOTIFY_SOCKET as systemd sets them."""
        config = self.path("m.conf")
        with open(config, "w") as file:
            file.write(f"SOURCE={self.model()}\n")
        listening = socket.create_server(("127.0.0.1", 0))
        notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listening.close)
        self.addCleanup(notified.close)
        notified.bind(self.path("notify"))
        notified.settimeout(LIMIT_S)
        shell = f'exec 3<&{listening.fileno()}; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'
        process = subprocess.Popen(["bash", "-c", shell, "bash", WEIGHTFS, "service", "serve-http", config],
                                   stdin=subprocess.DEVNULL, pass_fds=(listening.fileno(),),
                                   env=dict(os.environ, NOTIFY_SOCKET=self.path("notify"), WEIGHTFS_CACHE=self.path("cache")))
        self.addCleanup(process.wait, LIMIT_S)
        self.addCleanup(process.terminate)
        self.assertTrue(notified.recv(4096).startswith(b"READY=1\nSTATUS="))
        port = listening.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as client:
            client.sendall(b"GET /tensors/blk.0.bias HTTP/1.0\r\n\r\n")
            text = b"".join(iter(lambda: client.recv(4096), b""))
        self.assertTrue(text.endswith(b"\r\n\r\nhello"), text)


if __name__ == "__main__":
    unittest.main()
