"""Secrets of the user: where they are sent, and that nothing of them is left where others can read it. See docs/security.md."""
import base64
import contextlib
import itertools
import json
import os
import resource
import signal
import subprocess
import urllib.parse

from fetching import FetchTestCase
from hub_server import Hub
from mounting import (LIMIT_S, NOBODY, UsersTestCase, WEIGHTFS, as_nobody, has_ended, is_sanitized, only_root_mounts, processes_of,
                      run, sample_tensors, unittest, until)
from scripted_server import Server, correct, responds
from s3_server import KEY_ID, REGION, SECRET, TOKEN, S3Server
import artifacts
import stores

HEADER = ("X-Mirror-Key", "mirror-key-of-the-test")


def served(artifact):
    """The script of a registry with one artifact."""
    def answer(request):
        is_manifest = "/manifests/" in request.path
        body = artifact.blobs.get(request.path.rpartition("/")[2], artifact.manifest() if is_manifest else None)
        if body is None or "sha256-" in request.path:
            return 404, {}, b""
        return correct(body, Content_Type=artifacts.MANIFEST if is_manifest else "application/octet-stream")(request)
    return answer


class SecretsTestCase(FetchTestCase):
    def setUp(self):
        super().setUp()
        model = stores.gguf(self.tmp, sample_tensors(), {"general.architecture": "llama"})
        self.artifact = artifacts.modelpack().add("application/vnd.cncf.model.weight.v1.raw", model, "model.gguf")

    def with_hosts(self, files, *argv):
        """The command line of weightfs in a mount namespace in which containerd has these files: hosts.toml by registry."""
        self.need_mount_namespace()
        for registry, text in files.items():
            self.write(f"etc/containerd/certs.d/{registry}/hosts.toml", text.encode())
        script = 'mount -t overlay -o "lowerdir=$0:/etc" overlay /etc && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", script, self.path("etc"), WEIGHTFS, *argv]


@only_root_mounts
class SecretHeaders(SecretsTestCase):
    """Headers of a mirror in hosts.toml (semantics 24.4)."""

    def read_through_mirror(self, mirror):
        registry = Server(self)
        hosts = f'[host."{mirror.origin}"]\ncapabilities = ["pull", "resolve"]\n[host."{mirror.origin}".header]\n{HEADER[0]} = "{HEADER[1]}"\n'
        argv = self.with_hosts({registry.host.replace(":", "_") + "_": hosts}, "cat", f"oci://{registry.host}/ai/tiny:latest",
                               "tensors/bias")
        done = subprocess.run(argv, capture_output=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, b"", sample_tensors()[1].data))
        return registry

    def assert_has_no_secret(self, server):
        self.assertEqual([each for each in server.received if HEADER[1] in each.headers.values()], [])

    def test_headers_are_not_sent_to_redirect_target(self):
        target = Server(self, served(self.artifact))
        mirror = Server(self, lambda request: (307, {"Location": target.origin + request.target}, b""))
        registry = self.read_through_mirror(mirror)
        self.assertEqual({each.headers.get(HEADER[0].lower()) for each in mirror.received}, {HEADER[1]})
        for part in ("/manifests/", "/blobs/"):
            self.assertTrue(any(part in each.path for each in target.received), part)
        self.assert_has_no_secret(target)
        self.assert_has_no_secret(registry)

    def test_headers_are_sent_to_redirect_target_on_the_mirror(self):
        answer = served(self.artifact)
        mirror = Server(self, lambda request: answer(request) if request.path.startswith("/moved") else
                        (307, {"Location": f"/moved{request.target}"}, b""))
        self.read_through_mirror(mirror)
        self.assertTrue(any(each.path.startswith("/moved") for each in mirror.received))
        self.assertEqual({each.headers.get(HEADER[0].lower()) for each in mirror.received}, {HEADER[1]})

    def test_headers_are_not_sent_to_token_server(self):
        tokens = Server(self, responds(200, b'{"token": "T"}', Content_Type="application/json"))
        answer = served(self.artifact)
        mirror = Server(self, lambda request: answer(request) if "authorization" in request.headers else
                        (401, {"WWW-Authenticate": f'Bearer realm="{tokens.url("token")}"'}, b""))
        self.read_through_mirror(mirror)
        self.assertTrue(tokens.received)
        self.assert_has_no_secret(tokens)


MODELS = {"model.gguf", "proxied.gguf"}

# What the user sets in the environment, and what only files, arguments and servers have.
OF_ENVIRONMENT = {
    "token for the Hub": "hf_tokenOfTheSession", "key of the store": SECRET, "token of the store": TOKEN,
    "password of the proxy": "proxyPassword"
}
OF_FILES = {
    "header of the mirror": HEADER[1], "password of the registry": "dockerPassword", "token of the registry": "bearerOfTheRegistry",
    "signature of the URL": "signatureOfTheUrl", "password in a URL": "urlPassword", "token file": "hf_tokenOfTheFile",
    "netrc": "netrcPassword"
}
LOGIN = base64.b64encode(f"me:{OF_FILES['password of the registry']}".encode()).decode()


def texts_in(folder):
    """The path of each file, its content, the text of a link, and its extended attributes."""
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)
            yield file, os.fsencode(file)
            if os.path.islink(file):
                yield file, os.fsencode(os.readlink(file))
                continue
            with contextlib.suppress(OSError), open(file, "rb") as opened:
                yield file, opened.read()
            for attribute in ("name", "dtype", "shape", "sha256", "verified", "path", "source", "pid"):
                with contextlib.suppress(OSError):
                    yield file, os.getxattr(file, f"user.weightfs.{attribute}")


def texts_of_mount(point):
    """What texts_in() finds in a mount, and in the directory that it does not list."""
    return itertools.chain(texts_in(point), texts_in(os.path.join(point, ".weightfs")))


@only_root_mounts
class Session(SecretsTestCase):
    """One server with every kind of credential: the models of a hub, an object store, a registry with a mirror, a signed URL and a
    proxy."""

    def setUp(self):
        super().setUp()
        for name in [name for name in os.environ if name.startswith(("AWS_", "HF_", "HUGGING"))]:
            del os.environ[name]  # restored after the test
        model = stores.safetensors(self.tmp, sample_tensors())
        self.hub = Hub(self)
        self.hub.add("org/demo", {"config.json": b"{}", "model.safetensors": model}).gated = "manual"
        self.hub.tokens = {secret: ["org/demo"] for secret in (OF_ENVIRONMENT["token for the Hub"], OF_FILES["token file"])}
        self.store = S3Server(self, token=TOKEN)
        os.environ.update(HF_ENDPOINT=self.hub.url, HF_TOKEN=OF_ENVIRONMENT["token for the Hub"],
                          AWS_ENDPOINT_URL_S3=self.store.url, AWS_ACCESS_KEY_ID=KEY_ID, AWS_SECRET_ACCESS_KEY=SECRET,
                          AWS_SESSION_TOKEN=TOKEN, AWS_REGION=REGION)
        self.web = Server(self, self.answer)
        self.registry = Server(self, self.answer)
        self.mirror = Server(self)
        os.environ.update(http_proxy=f"http://me:{OF_ENVIRONMENT['password of the proxy']}@{self.web.host}", no_proxy="127.0.0.1")
        self.write("home/.docker/config.json", f'{{"auths": {{"{self.registry.host}": {{"auth": "{LOGIN}"}}}}}}'.encode())
        self.write("home/.netrc", f"default login me password {OF_FILES['netrc']}\n".encode())
        self.write("home/token", OF_FILES["token file"].encode())
        self.sources = [
            "hf://org/demo",
            self.store.put("models", "stored.safetensors", model), f"oci://{self.registry.host}/ai/tiny:latest",
            self.web.url(f"model.gguf?X-Amz-Signature={OF_FILES['signature of the URL']}"), "http://127.0.0.2:1/proxied.gguf"
        ]

    def answer(self, request):
        """A web server, a proxy, and a registry with its token server."""
        url = urllib.parse.urlsplit(request.target)
        if os.path.basename(url.path) in MODELS:
            return correct(stores.gguf(self.tmp, sample_tensors(), {"general.architecture": "llama"}))(request)
        authorization = request.headers.get("authorization", "")
        if url.path == "/token" and authorization == f"Basic {LOGIN}":
            return 200, {}, json.dumps({"token": OF_FILES["token of the registry"]}).encode()
        if authorization != f"Bearer {OF_FILES['token of the registry']}":
            return 401, {"WWW-Authenticate": f'Bearer realm="{self.registry.url("token")}",service="x"'}, b""
        return served(self.artifact)(request)

    def hosts(self):
        return {
            self.registry.host.replace(":", "_") + "_": f'[host."{self.mirror.origin}"]\n[host."{self.mirror.origin}".header]\n{HEADER[0]} = "{HEADER[1]}"\n'
        }

    def start(self, *argv):
        """A server in a mount namespace; returns its process, and the path of the mount from here."""
        log = open(self.path("log"), "wb")
        self.addCleanup(log.close)
        os.mkdir(self.path("working"))
        process = subprocess.Popen(
            self.with_hosts(self.hosts(), "mount", "-f", "--log-level", "debug", "--wait-for-network", "0", *argv,
                            self.path("mnt")), stderr=log, cwd=self.path("working"),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, ) * 2))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        point = f"/proc/{process.pid}/root{self.path('mnt')}"
        until(lambda: process.poll() is not None or os.path.exists(os.path.join(point, ".weightfs")), "it does not mount")
        self.assertIsNone(process.poll(), self.read("log"))
        return process, point

    def secrets(self, *, of_environment=True):
        """The secret texts, by their kind."""
        signed = {f"signature of the CDN {i}": each.query["Signature"]
                  for i, each in enumerate(self.hub.requests("cdn"))}
        signed.update({f"signature for the store {i}": each.headers["authorization"].rpartition("Signature=")[2]
                       for i, each in enumerate(self.store.requests())})
        self.assertGreater(len(signed), 1)
        return {**OF_FILES, "login": LOGIN, **signed, **(OF_ENVIRONMENT if of_environment else {})}

    def assert_no_secret(self, place, texts, **which):
        texts = list(texts)
        self.assertTrue(texts, place)
        found = {(name, where) for name, secret in self.secrets(**which).items() for where, text in texts
                 if secret.encode() in text}
        self.assertEqual(found, set(), place)

    def processes(self, name):
        for pid in processes_of(self.tmp):
            with open(f"/proc/{pid}/{name}", "rb") as file:
                yield pid, file.read()

    def memory_of(self, pid):
        """Each mapping of a process that can be read, with its line in /proc/PID/maps."""
        with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in maps:
                begin, end = (int(text, 16) for text in line.split()[0].split("-"))
                with contextlib.suppress(OSError, OverflowError):  # [vvar], [vsyscall]
                    memory.seek(begin)
                    yield line.strip(), memory.read(end - begin)

    # semantics 24.4
    @unittest.skipIf(is_sanitized(), "builds with sanitizers are not confined")
    def test_process_that_reads_containers_has_no_key(self):
        process, point = self.start(*self.sources)
        self.assertEqual(len({path for path, _ in texts_in(point) if path.endswith("/tensors/bias")}), len(self.sources))
        self.assert_was_used()
        keys = {**OF_ENVIRONMENT, "login": LOGIN, "signature for the store": self.store.requests()[0].headers["authorization"],
                **{name: OF_FILES[name] for name in ("header of the mirror", "password of the registry", "token of the registry")}}
        memory = list(self.memory_of(process.pid))
        self.assertTrue(any(self.registry.host.encode() in text for _, text in memory))  # so the search finds what is there
        self.assertEqual([(name, place) for name, key in keys.items() for place, text in memory if key.encode() in text], [])

    def test_session_leaves_no_secret(self):
        process, point = self.start("--mirror", f"{self.registry.host}=http://me:{OF_FILES['password in a URL']}@127.0.0.1:1",
                                    *self.sources)
        seen = dict(texts_in(point))
        self.assertEqual(len([path for path in seen if path.endswith("/tensors/bias")]), len(self.sources), list(seen))
        self.assert_was_used()
        self.assert_no_secret("files, status, metrics, log and attributes of the mount", texts_of_mount(point))
        self.assert_no_secret("cache", texts_in(self.cache()))
        self.assert_no_secret("arguments", self.processes("cmdline"))
        self.assert_no_secret("environment", self.processes("environ"), of_environment=False)
        self.assert_no_secret("mount table", self.processes("mountinfo"))
        self.assertGreaterEqual(len(list(self.processes("cmdline"))), 2)
        listed = subprocess.run(["nsenter", f"--mount=/proc/{process.pid}/ns/mnt", WEIGHTFS, "mounts", "--json"],
                                capture_output=True, timeout=LIMIT_S)
        self.assertIn(self.path("mnt").encode(), listed.stdout)
        self.assert_no_secret("list of mounts", [("mounts", listed.stdout + listed.stderr)])
        process.send_signal(signal.SIGABRT)
        _, status = os.waitpid(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual((process.returncode, os.WCOREDUMP(status), os.listdir(self.path("working"))), (-signal.SIGABRT, False, []))
        self.assert_no_secret("log", [("log", self.read("log"))])

    def test_session_with_a_credential_helper_leaves_no_secret(self):
        answer = json.dumps({"Username": "me", "Secret": OF_FILES["password of the registry"]})
        program = self.write("bin/docker-credential-keys", f"#!/bin/sh\necho '{answer}'\necho '{answer}' >&2\n".encode())
        os.chmod(program, 0o755)
        os.environ["PATH"] = f"{self.path('bin')}:{os.environ['PATH']}"  # restored after the test
        self.write("home/.docker/config.json", f'{{"credHelpers": {{"{self.registry.host}": "keys"}}}}'.encode())
        process, point = self.start("--credential-helpers", *self.sources)
        self.assertEqual(len({path for path, _ in texts_in(point) if path.endswith("/tensors/bias")}), len(self.sources))
        self.assert_was_used()
        self.assertIn(b"credential helper keys", self.read_whole(point, ".weightfs", "status.json"))
        self.assert_no_secret("files, status, metrics, log and attributes of the mount", texts_of_mount(point))
        self.assert_no_secret("cache", texts_in(self.cache()))
        self.assert_no_secret("arguments", self.processes("cmdline"))
        self.assert_no_secret("environment", self.processes("environ"), of_environment=False)
        if not is_sanitized():  # which are not confined
            password = OF_FILES["password of the registry"].encode()
            self.assertEqual([place for place, text in self.memory_of(process.pid) if password in text], [])
        process.terminate()
        process.wait(timeout=LIMIT_S)
        self.assert_no_secret("log", [("log", self.read("log"))])

    def assert_was_used(self):
        """Each credential was sent to its server, and to no other."""
        sent = {name: {value for each in server.received for value in each.headers.values()} for name, server in
                {"web": self.web, "registry": self.registry, "mirror": self.mirror}.items()}
        proxy = "Basic " + base64.b64encode(f"me:{OF_ENVIRONMENT['password of the proxy']}".encode()).decode()
        for secret, server in ((HEADER[1], "mirror"), (f"Basic {LOGIN}", "registry"),
                               (f"Bearer {OF_FILES['token of the registry']}", "registry"), (proxy, "web")):
            self.assertEqual({name for name, values in sent.items() if secret in values}, {server}, secret)
        self.assertEqual({each.authorization for each in self.hub.requests("hub")},
                         {f"Bearer {OF_ENVIRONMENT['token for the Hub']}"})
        self.assertEqual({each.authorization for each in self.hub.requests("cdn")}, {""})
        self.assertEqual({each.headers.get("x-amz-security-token") for each in self.store.requests()}, {TOKEN})
        everything = repr([(each.target, each.headers) for server in (self.web, self.registry, self.mirror)
                           for each in server.received])
        self.assertNotIn(OF_FILES["netrc"], everything)
        self.assertNotIn("referer", everything)

    def test_errors_name_no_secret(self):
        shown = []
        url, secret = self.web.url, OF_FILES["signature of the URL"]
        for source, changes in (("hf://org/none", {}), ("hf://org/demo", {
                "HF_TOKEN": "", "HF_TOKEN_PATH": self.path("home/token"), "HF_ENDPOINT": self.web.origin
        }), ("s3://models/none.gguf", {}), ("s3://models/stored.safetensors", {
                "AWS_SESSION_TOKEN": TOKEN + "x"
        }), (url(f"none?X-Amz-Signature={secret}"), {}), (f"http://127.0.0.1:1/none?X-Amz-Signature={secret}", {}),
                                (f"https://me:{OF_FILES['password in a URL']}@127.0.0.1:1/m.gguf",
                                 {}), (f"oci://{self.registry.host}/ai/tiny:latest", {"HOME": self.path("nowhere")}),
                                (f"oci://{self.mirror.host}/ai/none:latest", {}), ("http://127.0.0.2:1/proxied.gguf", {
                                    "http_proxy": f"foo://me:{OF_ENVIRONMENT['password of the proxy']}@127.0.0.1:1"
                                }), ("http://127.0.0.2:1/proxied.gguf",
                                     {"http_proxy": f"http://me:{OF_ENVIRONMENT['password of the proxy']}@127.0.0.1:1"})):
            with self.subTest(source=source):
                done = run("info", "--verbose", "--retries", "0", source, env={**os.environ, **changes})
                self.assertNotEqual(done.returncode, 0)
                shown.append((source, (done.stdout + done.stderr).encode()))
        for source in self.sources:
            run("info", source)
        self.assert_no_secret("messages", shown)


class Arguments(FetchTestCase):
    def secret_url(self, name="model.gguf"):
        model = stores.gguf(self.tmp, sample_tensors(), {"general.architecture": "llama"})
        web = Server(self, correct(model))
        return web.url(f"{name}?Signature={OF_FILES['signature of the URL']}")

    def assert_hidden(self, url):
        lines = processes_of(self.tmp)
        self.assertGreaterEqual(len(lines), 2)  # a server and its broker
        shown, _, query = url.partition("?")
        for line in lines.values():
            self.assertIn(f"{shown}?{'*' * len(query)}", line)
            self.assertNotIn(query, line)

    def test_query_is_hidden_in_server_and_brokers(self):
        url = self.secret_url()
        point = self.mount(url)
        self.assert_hidden(url)
        self.assertEqual(self.read_whole(point, "tensors", "bias"), sample_tensors()[1].data)
        with open("/proc/self/mountinfo") as table:
            line, = [line for line in table if f" {point} " in line]
        self.assertIn(f" {url.partition('?')[0]} ", line)

    @only_root_mounts
    def test_query_is_hidden_in_server_of_mount_helper(self):
        url = self.secret_url()
        helper, point = self.path("mount.weightfs"), self.path("mnt")
        os.symlink(WEIGHTFS, helper)
        self.addCleanup(self.force_unmount, point)
        done = subprocess.run([helper, url, point, "-o", "ro,wait-for-network=0"], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_hidden(url)

    def test_user_and_password_are_hidden(self):
        secret = OF_FILES["password in a URL"]
        for argument in (f"http://me:{secret}@127.0.0.1:1/v1/blobs", f"registry.example=https://me:{secret}@127.0.0.1:1"):
            point = self.mount("--mirror", argument, self.sample(), at=f"mnt{len(argument)}")
            for line in processes_of(self.tmp).values():
                self.assertNotIn(secret, line)
                self.assertIn("*" * len(f"me:{secret}"), line)
            self.unmount(point)


class Memory(UsersTestCase):
    """What another process of the same user sees of a server."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("home"))
        os.chown(self.path("home"), NOBODY.pw_uid, NOBODY.pw_gid)
        self.point = self.path("home", "mnt")
        self.addCleanup(self.force_unmount, self.point)
        done = as_nobody(self.binary, "mount", self.source, self.point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_user_cannot_read_memory_or_environment(self):
        servers = processes_of(self.tmp)
        self.assertEqual(len(servers), 2)
        for pid in servers:
            for name in ("environ", "mem", "maps", "auxv"):
                done = as_nobody("cat", f"/proc/{pid}/{name}")
                self.assertEqual((done.returncode, done.stdout), (1, ""), name)
            done = as_nobody("ls", f"/proc/{pid}/fd")
            self.assertIn("Permission denied", done.stderr)

    def test_user_lists_and_unmounts_own_mount(self):
        server, = [
            mount["pid"] for mount in json.loads(as_nobody(self.binary, "mounts", "--json").stdout)
            if mount["mountpoint"] == self.point
        ]
        self.assertIn(server, processes_of(self.tmp))
        done = as_nobody(self.binary, "umount", self.point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(has_ended(server))
        self.assertFalse(os.path.lexists(self.point))

    def test_core_dumps_are_empty(self):
        for pid in processes_of(self.tmp):
            with open(f"/proc/{pid}/limits") as file:
                self.assertRegex(file.read(), r"Max core file size +0 +0 ")


if __name__ == "__main__":
    unittest.main()
