"""Real servers on 127.0.0.1 for download tests: nginx, caddy and docker-registry, from Debian's packages.

The kernel chooses every port, without races: nginx inherits its socket; the ports of the others are read from /proc.
Servers end with their test, also if it is killed. Each counts its requests.
"""
import base64
import contextlib
import ctypes
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import unittest
from typing import NamedTuple

from mounting import eventually

PR_SET_PDEATHSIG = 1  # prctl(2)
LIMIT_S = 30
SENTINEL = "/sentinel-of-the-test"

libc = ctypes.CDLL(None)


def ended_with_parent(number):
    """Runs in the child before exec: the server gets the signal when the test dies."""
    return lambda: libc.prctl(PR_SET_PDEATHSIG, number)


def path_of(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def needs(*programs):
    """Skips a test, or a class of them, if a program is missing."""
    missing = [program for program in programs if path_of(program) is None]
    return unittest.skipIf(missing, f"needs {', '.join(missing)} (see scripts/dependencies)")


class LoggedRequest(NamedTuple):
    method: str
    path: str
    status: int
    bytes: int  # of the body that was sent
    encoding: str = ""


def listening_port(pid):
    """The port of the one TCP socket on which a process listens; None before that."""
    inodes = set()
    try:
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
            except FileNotFoundError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[len("socket:["):-1])
    except FileNotFoundError:
        return None
    with open(f"/proc/{pid}/net/tcp") as table:
        for line in list(table)[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:  # proc(5): listening
                return int(fields[1].rpartition(":")[2], 16)
    return None


class Loopback:
    """This machine, as a host of servers: a context in which its network is used, and an address."""
    address = "127.0.0.1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Server:
    """A server program with its own directory, which is removed after the test. It runs on `host`: Loopback, or a Host of
    hosts.py."""
    program = None
    scheme = "http"
    end = signal.SIGKILL

    def __init__(self, test, name=None, host=Loopback()):
        self.on = host
        self.address = host.address
        self.folder = test.path(name or self.program)
        self.content = os.path.join(self.folder, "content")
        os.makedirs(self.content)
        self.log = os.path.join(self.folder, "access.log")
        self.problems = os.path.join(self.folder, "problems.log")
        self.process = None
        test.addCleanup(self.stop)

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def publish(self, name, data):
        """Serves `data` at /name; returns its URL."""
        path = os.path.join(self.content, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return self.url(name)

    def url(self, name):
        return f"{self.scheme}://{self.host}/{name}"

    @property
    def host(self):
        return f"{self.address}:{self.port}"

    def start(self, argv, pass_fds=(), stdout=None, **environment):
        if path_of(self.program) is None:
            raise unittest.SkipTest(f"needs {self.program} (see scripts/dependencies)")
        own = {"PATH": "/usr/bin:/bin", "HOME": self.folder, "XDG_CONFIG_HOME": self.folder, "XDG_DATA_HOME": self.folder}
        with open(self.problems, "ab") as problems, open(stdout or os.devnull, "ab") as out, self.on:
            self.process = subprocess.Popen([path_of(self.program), *argv], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=problems, pass_fds=pass_fds, preexec_fn=ended_with_parent(self.end),
                                            cwd=self.folder, env={**own, **environment})

    def await_port(self):
        eventually(lambda: self.process.poll() is not None or listening_port(self.process.pid) is not None, LIMIT_S)
        port = listening_port(self.process.pid)
        if port is None:
            raise AssertionError(f"{self.program} does not serve: {self.log_tail()}")
        return port

    def log_tail(self):
        with open(self.problems) as problems:
            return problems.read()[-2000:]

    def stop(self):
        if self.process is None:
            return
        process, self.process = self.process, None
        for _ in range(LIMIT_S):
            process.send_signal(self.end)  # nginx loses one that arrives while it starts its workers
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1)
                return
        process.kill()
        process.wait(LIMIT_S)
        raise TimeoutError(f"{process.args} did not end")

    def connection(self):
        return http.client.HTTPConnection(self.address, self.port, timeout=LIMIT_S)

    def send_request(self, method, path, body=None, headers={}):
        """Sends a request from the test, which is logged, too."""
        connection = self.connection()
        try:
            with self.on:
                connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def requests(self):
        """All requests so far. A server logs a request after its response, so a final request of the test is logged last."""
        before = self.logged().count(SENTINEL)
        self.send_request("GET", SENTINEL)
        if not eventually(lambda: self.logged().count(SENTINEL) > before, LIMIT_S):
            raise AssertionError(f"{self.program} writes no log: {self.log_tail()}")
        requests = [self.line(line) for line in self.logged().splitlines()]
        return [request for request in requests if request and request.path != SENTINEL]

    def count(self, method=None, path=None):
        return sum((method or a.method) == a.method and (path is None or a.path == path) for a in self.requests())

    def logged(self):
        if not os.path.exists(self.log):
            return ""
        with open(self.log) as log:
            return log.read()

    def line(self, line):
        """A line of the log, if it is about a request."""
        raise NotImplementedError


class Nginx(Server):
    """Files with their ranges and ETags; name.gz beside a file is sent to clients that accept gzip. `extra` is added to the
    location, for example `limit_rate 100k;`, and `locations` beside it. `server` replaces all of this, and `http` is added outside
    of it. PORT, CONTENT and FOLDER in them are the port, the directory of the files, and that of nginx. `send_buffer`: bytes that
    the kernel keeps of each response."""
    program = "nginx"
    end = signal.SIGTERM  # which it passes on to its worker process

    def __init__(self, test, extra="", name=None, locations="", send_buffer=None, http="", server=None, host=Loopback()):
        super().__init__(test, name, host)
        with host:
            listener = socket.create_server((self.address, 0), backlog=64)
        if send_buffer:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        self.port = listener.getsockname()[1]
        places = "".join(f"{module}_temp_path {self.folder}/{module};\n"
                         for module in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        server = server or f"root {self.content}; location / {{ gzip_static on; {extra} }} {locations}"
        config = self.file("nginx.conf", f"""
{"user root;" if os.geteuid() == 0 else ""}
daemon off; worker_processes 1; pid {self.folder}/pid; error_log stderr;
events {{}}
http {{
{places}
log_format requests '$request_method $uri $status $body_bytes_sent $sent_http_content_encoding';
access_log {self.log} requests;
default_type application/octet-stream;
{self.replaced(http)}
server {{
  listen {self.address}:{self.port};
  {self.replaced(server)}
}}
}}
""")
        # nginx inherits sockets in the way of a binary upgrade.
        descriptor = listener.fileno()
        self.start(["-e", "stderr", "-p", self.folder, "-c", config], pass_fds=[descriptor], NGINX=f"{descriptor};")
        listener.close()

    def replaced(self, config):
        return config.replace("PORT", str(self.port)).replace("CONTENT", self.content).replace("FOLDER", self.folder)

    def line(self, line):
        method, path, status, size, encoding = line.split()
        return LoggedRequest(method, path, int(status), int(size), "" if encoding == "-" else encoding)


class Caddy(Server):
    """Files with the requested encoding: zstd and gzip on the fly, brotli from name.br beside a file. With a `certificate`
    (its file and that of its key) https with HTTP/2."""
    program = "caddy"

    def __init__(self, test, certificate=None, name=None):
        super().__init__(test, name)
        serve = {"handler": "file_server", "root": self.content, "precompressed": {"br": {}}, "precompressed_order": ["br"]}
        encode = {"handler": "encode", "encodings": {"zstd": {}, "gzip": {}}, "prefer": ["zstd", "gzip"], "minimum_length": 1,
                  "match": {"headers": {"Content-Type": ["*"]}}}
        server = {"listen": ["127.0.0.1:0"], "protocols": ["h1", "h2"], "automatic_https": {"disable": True},
                  "routes": [{"handle": [encode, serve]}], "logs": {"default_logger_name": "requests"}}
        apps = {"http": {"servers": {"only": server}}}
        if certificate:
            self.scheme = "https"
            server["tls_connection_policies"] = [{}]
            apps["tls"] = {"certificates": {"load_files": [{"certificate": certificate[0], "key": certificate[1]}]}}
        log = {"writer": {"output": "file", "filename": self.log}, "encoder": {"format": "json"},
               "include": ["http.log.access.requests"]}
        config = self.file("caddy.json", json.dumps({"admin": {"disabled": True, "config": {"persist": False}},
                                                     "logging": {"logs": {"requests": log}}, "apps": apps}))
        self.start(["run", "--config", config])
        self.port = self.await_port()

    def connection(self):
        if self.scheme == "http":
            return super().connection()
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=LIMIT_S, context=ssl._create_unverified_context())

    def line(self, line):
        entry = json.loads(line)
        encoding, = entry["resp_headers"].get("Content-Encoding", [""])
        return LoggedRequest(entry["request"]["method"], entry["request"]["uri"], entry["status"], entry["size"], encoding)

    def protocols(self):
        """The protocols of the requests so far: HTTP/1.1, HTTP/2.0."""
        self.requests()
        entries = [json.loads(line)["request"] for line in self.logged().splitlines()]
        return {entry["proto"] for entry in entries if entry["uri"] != SENTINEL}


# A name, its password, and its bcrypt hash, the only kind that docker-registry accepts.
LOGIN = ("anna", "secret")
HASH = "$2y$04$zg7R26FQ7pq80s3eQdIZGOWvUvJbKFuJ0cgaY/uj1oAzIuPRChQa2"


class Registry(Server):
    """docker-registry. With `login` it requires LOGIN; with `proxy`, the URL of another registry, it is a cache of that."""
    program = "docker-registry"

    def __init__(self, test, login=False, name=None, proxy=None, host=Loopback()):
        super().__init__(test, name, host)
        self.headers = {}
        extra = ""
        if login:
            users = self.file("htpasswd", f"{LOGIN[0]}:{HASH}\n")
            extra = f"auth:\n  htpasswd:\n    realm: here\n    path: {users}\n"
            self.headers["Authorization"] = "Basic " + base64.b64encode(":".join(LOGIN).encode()).decode()
        if proxy:
            extra += f"proxy:\n  remoteurl: {proxy}\n"
        config = self.file(
            "registry.yml", f"version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n"
            f"    rootdirectory: {self.content}\n  delete:\n    enabled: true\nhttp:\n  addr: {self.address}:0\n{extra}")
        self.start(["serve", config], stdout=self.log)
        self.port = self.await_port()

    def line(self, line):
        match = re.search(r'"(\w+) (\S+) HTTP/[\d.]+" (\d+) (\d+) ', line)
        return LoggedRequest(match[1], match[2], int(match[3]), int(match[4])) if match else None

    def push_blob(self, name, data):
        """Uploads by the distribution specification (Pushing blobs): POST, then PUT with the digest."""
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        status, headers, body = self.send_request("POST", f"/v2/{name}/blobs/uploads/", b"", self.headers)
        if status != 202:
            raise AssertionError((status, body))
        path = re.sub(r"^https?://[^/]+", "", headers["Location"])
        path += ("&" if "?" in path else "?") + "digest=" + digest
        status, _, body = self.send_request("PUT", path, data, {**self.headers, "Content-Type": "application/octet-stream"})
        if status != 201:
            raise AssertionError((status, body))

    def push_manifest(self, name, tag, manifest):
        kind = json.loads(manifest)["mediaType"]
        status, _, body = self.send_request("PUT", f"/v2/{name}/manifests/{tag}", manifest, {**self.headers, "Content-Type": kind})
        if status != 201:
            raise AssertionError((status, body))

    def pulled(self):
        """The requests except those of pushes and those that were answered with 401."""
        return [a for a in self.requests() if a.method in ("GET", "HEAD") and a.status != 401]

    def count(self, method=None, path=None):
        return sum((method or a.method) == a.method and (path is None or a.path == path) for a in self.pulled())


def self_signed_certificate(folder, names=()):
    """The files of a self-signed certificate for 127.0.0.1 and these names, and of its key."""
    subjects = ",".join(["IP:127.0.0.1", *(f"DNS:{name}" for name in names)])
    certificate, key = os.path.join(folder, "certificate.pem"), os.path.join(folder, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", f"subjectAltName={subjects}", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    return certificate, key


def brotli(data):
    """`data` as brotli (the library that libcurl decodes it with can also encode)."""
    try:
        library = ctypes.CDLL("libbrotlienc.so.1")
    except OSError as error:
        raise unittest.SkipTest("needs libbrotlienc") from error
    size = ctypes.c_size_t(len(data) + 1024)
    out = ctypes.create_string_buffer(size.value)
    if not library.BrotliEncoderCompress(5, 22, 0, ctypes.c_size_t(len(data)), data, ctypes.byref(size), out):
        raise AssertionError("brotli failed")
    return out.raw[:size.value]
