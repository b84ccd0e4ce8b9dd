"""Shared by the tests of downloads: an environment with a separate home and without a proxy, and checks of the cache."""
import errno
import os
import re
import signal
import socket
import subprocess
import threading
import unittest.mock

from mounting import WEIGHTFS
from test_archives import ArchiveTestCase, blobs_in, temporary_files_left_in, noise
import stores

MEGABYTE = 1 << 20
FAR = noise(MEGABYTE // 2) + bytes(MEGABYTE // 2)  # half of it is compressible
ALLOWED = "--allow-private-urls"
NOT_REACHED = (errno.EHOSTUNREACH, errno.EIO)

# Variables that would expose models, logins and network settings of the user who runs the tests.
OUTER = ("OLLAMA_MODELS", "CARTON_CACHE_DIR", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "DOCKER_CONFIG",
         "REGISTRY_AUTH_FILE", "NETRC", "XDG_CONFIG_HOME", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
         "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE")


class FetchTestCase(ArchiveTestCase):
    def setUp(self):
        super().setUp()
        environment = unittest.mock.patch.dict(os.environ, HOME=self.path("home"))
        environment.start()
        self.addCleanup(environment.stop)
        for name in OUTER:
            os.environ.pop(name, None)
        os.mkdir(self.path("home"))

    def assert_cache_holds(self, *blobs):
        """The cache has exactly these blobs, each under its digest, and no partial or temporary files."""
        kept = self.published(len(blobs))
        self.assertEqual(sorted(os.path.basename(path) for path in kept), sorted(map(stores.sha256, blobs)))
        for path in kept:
            self.assertEqual(stores.sha256(self.read_whole(path)), os.path.basename(path))
        self.assertEqual(temporary_files_left_in(self.cache()), [])

    def assert_nothing_readable(self, folder, name):
        """The file is missing, or cannot be opened, or its first byte cannot be read."""
        with self.assertRaises(OSError):
            self.read_whole(folder, name)

    def assert_section_is_right(self, title, least, replaced=("", "")):
        """Runs the commands of a section of docs/remote.md, at least so many, and compares their output. A line `…` is any number
        of lines. `replaced`: a text of the page, and what it is here."""
        with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "remote.md")) as file:
            section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", file.read(), re.MULTILINE | re.DOTALL)[1]
        section = section.replace(*replaced) if replaced[0] else section
        self.addCleanup(self.force_unmount, self.path("mnt"))
        os.environ["PATH"] = f"{os.path.dirname(WEIGHTFS)}:{os.environ['PATH']}"  # restored by the patch in setUp()
        commands = re.findall(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", section, re.MULTILINE)
        self.assertGreaterEqual(len(commands), least)
        for command, shown in commands:
            done = subprocess.run(command, shell=True, cwd=self.tmp, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=120)
            pattern = "".join("(.*\n)*" if line == "…" else re.escape(line) + "\n" for line in shown.splitlines())
            self.assertRegex(done.stdout, rf"\A{pattern}\Z", command)

    def end(self, process):
        """Ends a mount in the foreground; returns its log lines."""
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        self.assertEqual(process.returncode, 0)
        return process.stderr.read().splitlines()


class LinkTestCase(FetchTestCase):
    def carton_of(self, *urls, data=FAR, name="m.carton"):
        """A carton whose model/far is behind these URLs."""
        return stores.linked_carton(self.path(name), {"model/far": (data, list(urls))}, {"model/near": b"here"})

    def far(self, point):
        return self.read_whole(point, "files", "model", "far")

    def assert_unreadable(self, point, errors=NOT_REACHED):
        with self.assertRaises(OSError) as caught:
            self.far(point)
        self.assertIn(caught.exception.errno, errors)

    def read_at_once(self, points):
        """Reads model/far of all mounts at the same time."""
        seen = [None] * len(points)

        def read(i):
            seen[i] = self.far(points[i])
        readers = [threading.Thread(target=read, args=(i,)) for i in range(len(points))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        return seen


def closed_port():
    """A port without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


__all__ = [
    "ALLOWED", "FAR", "FetchTestCase", "LinkTestCase", "MEGABYTE", "NOT_REACHED", "blobs_in", "closed_port",
    "temporary_files_left_in"
]
