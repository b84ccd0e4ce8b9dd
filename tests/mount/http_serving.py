"""`weightfs serve` for tests: a server on loopback, on a port that the kernel picks, which ends with its test."""
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import threading
from urllib.parse import urlsplit

from mounting import LIMIT_S, MountTestCase, WEIGHTFS
from processes import cpu_s_of, peak_mb_of


class HttpServer:
    """Serves `sources` until close(). `options` are those of `weightfs serve`."""

    def __init__(self, *sources, options=(), listen=("127.0.0.1:0",), folder=None, scheme="http", **popen):
        self.folder = folder
        self.errors = open(os.path.join(folder, "serve.errors"), "w+") if folder else subprocess.DEVNULL
        where = [word for each in listen for word in ("--listen", each)]
        environment = dict(os.environ)
        if folder:
            environment["WEIGHTFS_CACHE"] = os.path.join(folder, "cache")
        self.process = subprocess.Popen([WEIGHTFS, "serve", *where, *options, *sources], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment, **popen)
        self.urls = [self.process.stdout.readline().strip() for _ in listen]
        if not self.urls[0]:
            self.process.wait(LIMIT_S)
            raise AssertionError(f"status {self.process.returncode}: {self.error_text()}")
        self.url = self.urls[0]
        if self.url.startswith(scheme):
            self.host, self.port = urlsplit(self.url).hostname, urlsplit(self.url).port

    def spent(self):
        """Seconds of processor time."""
        return cpu_s_of(self.process.pid)

    def peak_mb(self):
        return peak_mb_of(self.process.pid)

    def error_text(self):
        if self.folder is None:
            return ""
        self.errors.seek(0)
        return self.errors.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self, how=signal.SIGTERM):
        """Ends the server, and returns its status."""
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(LIMIT_S)
        self.process.stdout.close()
        if self.folder:
            self.errors.close()
        return self.process.returncode

    def get(self, path="/", method="GET", **fields):
        """A request; `fields` with _ for -. Returns the response, whose `body` is read; response.complete is False if the
        connection was closed short."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=LIMIT_S)
        with contextlib.closing(connection):
            connection.request(method, path, headers={name.replace("_", "-"): value for name, value in fields.items()})
            response = connection.getresponse()
            response.complete = True
            try:
                response.body = response.read()
            except http.client.IncompleteRead as error:
                response.body, response.complete = error.partial, False
            except ConnectionError:
                response.body, response.complete = b"", False
            return response

    def raw(self, *pieces, wait=LIMIT_S, half_close=False):
        """Sends bytes as they are, and returns all bytes until the server closes the connection or nothing arrives for
        `wait` seconds."""
        out = []

        def receive():
            with contextlib.suppress(ConnectionError, socket.timeout):
                while piece := connection.recv(65536):
                    out.append(piece)

        # The response is read while the request is sent: bytes that the server does not take reset the connection.
        with socket.create_connection((self.host, self.port), timeout=wait) as connection:
            receiving = threading.Thread(target=receive)
            receiving.start()
            with contextlib.suppress(ConnectionError, socket.timeout):
                for piece in pieces:
                    connection.sendall(piece)
                if half_close:
                    connection.shutdown(socket.SHUT_WR)
            receiving.join()
        return b"".join(out)


class ServingTestCase(MountTestCase):
    def serve(self, *sources, options=()):
        folder = self.path(f"server{len(os.listdir(self.path('.')))}")
        os.mkdir(folder)
        server = HttpServer(*sources, folder=folder, options=options)
        self.addCleanup(server.close)
        return server
