"""Many hosts that read one model through one mirror: what the origin sends, and what the readers get (docs/fleet.md)."""
import concurrent.futures
import hashlib
import os
import re
import socket
import subprocess
import unittest

from fetching import FetchTestCase
from hosts import Ethernet
from http_serving import HttpServer
from hub_server import Hub
from mounting import LIMIT_S, Tensor, WEIGHTFS, until
from servers import Nginx, Registry, needs
import artifacts
import partial_downloads
from artifacts import modelpack
import stores
from test_archives import noise
from test_hub import VARIABLES
from test_serve_hub import Client

HOSTS = 8
SIZE = 2 << 20
WEIGHT = "application/vnd.cncf.model.weight.v1.raw"
NAME = "ai/tiny"

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "fleet.md")


def configurations(title):
    """The configurations of nginx in a section of the page."""
    with open(PAGE) as page:
        section = re.search(rf"(?ms)^## {title}\n(.*?)(?=^## |\Z)", page.read())[1]
    return re.findall(r"(?ms)^```nginx\n(.*?)^```", section)


@unittest.skipUnless(os.geteuid() == 0, "only root can create network namespaces")
@needs("ip")
class HostsTestCase(FetchTestCase):
    """A host for an origin, one for a mirror, which reaches the origin, and hosts that reach the mirror only."""

    def setUp(self):
        super().setUp()
        ethernet = Ethernet(self)
        self.far = ethernet.host("10.77.1.1/24")
        self.near = ethernet.host("10.77.0.1/24", "10.77.1.2/24")
        self.hosts = [ethernet.host(f"10.77.0.{11 + i}/24") for i in range(HOSTS)]

    def on_all(self, function):
        """Calls the function with the number of each host, at the same time."""
        with concurrent.futures.ThreadPoolExecutor(HOSTS) as pool:
            return list(pool.map(function, range(HOSTS)))


class MirroredHub(HostsTestCase):
    """`weightfs serve --mirror hf=URL` near the hosts, with a token."""

    SIZE, PART = 64 << 20, 4 << 20  # bytes of the file, and of a host that reads a part of it

    def setUp(self):
        super().setUp()
        for name in VARIABLES:
            os.environ.pop(name, None)  # restored by the patch of the base class
        with self.far:
            self.hub = Hub(self, address=self.far.address)
        self.weights = noise(self.SIZE, seed=9)
        self.hub.add("org/demo", {"model.safetensors": self.weights})
        os.mkdir(self.path("served"))
        options = ("--mirror", f"hf={self.hub.url}", "--allow", "org/*", "--insecure",
                   "--token-file", self.write("token", b"of-the-fleet\n"))
        with self.near:
            server = HttpServer(options=options, listen=(f"{self.near.address}:0",), folder=self.path("served"))
        self.addCleanup(server.close)
        self.client = Client(server.url, "of-the-fleet")

    def received_on(self, i, **fields):
        """The status and the SHA-256 of what a host receives of the file."""
        digest = hashlib.sha256()
        with self.hosts[i], self.client.request("/org/demo/resolve/main/model.safetensors", **fields) as response:
            while block := response.read(1 << 20):
                digest.update(block)
            return response.status, digest.hexdigest()

    def test_hosts_that_read_a_cold_file_share_one_download(self):
        with self.hosts[0], self.assertRaises(OSError):
            socket.create_connection((self.far.address, self.hub.servers["hub"].port), timeout=LIMIT_S)
        self.assertEqual(self.on_all(self.received_on), [(200, stores.sha256(self.weights))] * HOSTS)
        self.assertLessEqual(self.hub.bytes("cdn"), 1.02 * self.SIZE)

    def test_hosts_that_read_parts_cost_these_parts(self):
        starts = [i * (self.SIZE // HOSTS) + 1000 for i in range(HOSTS)]
        expected = [(206, stores.sha256(self.weights[start:start + self.PART])) for start in starts]
        for _ in range(2):
            self.assertEqual(self.on_all(lambda i: self.received_on(i, Range=f"bytes={starts[i]}-{starts[i] + self.PART - 1}")),
                             expected)
        self.assertLessEqual(self.hub.bytes("cdn"), 1.1 * HOSTS * self.PART)


@needs("docker-registry")
class FleetTestCase(HostsTestCase):
    """An origin with a model, for hosts that read it through mirrors."""

    def setUp(self):
        super().setUp()
        self.origin = Registry(self, name="origin", host=self.far)
        self.tensors = [Tensor(f"blk.{i}", "int8", (SIZE,), noise(SIZE, seed=i + 1)) for i in range(6)]
        self.model = stores.gguf(self.tmp, self.tensors)
        self.artifact = modelpack().add(WEIGHT, self.model, "model.gguf")
        self.artifact.push(self.origin, NAME, "latest")
        self.bytes = sum(map(len, self.artifact.blobs.values()))
        self.begun = len(self.origin.pulled())

    def connect_to_origin(self):
        """The hosts reach the origin, too."""
        self.far.ip("route add 10.77.0.0/24 dev eth0")
        for host in self.hosts:
            host.ip("route add 10.77.1.0/24 dev eth0")

    def adapted(self, configuration):
        """A configuration of nginx in the page for this test."""
        return configuration.replace("ORIGIN", self.origin.host).replace("/var/cache/nginx", "FOLDER").replace(
            "max_size=500g", "max_size=1g")

    def environment(self, i, **more):
        folder = self.path(f"host-{i}")
        os.makedirs(folder, exist_ok=True)
        return {**os.environ, "HOME": folder, "WEIGHTFS_CACHE": os.path.join(folder, "cache"), **more}

    def run_on(self, i, *argv, **more):
        with self.hosts[i]:
            return subprocess.run([WEIGHTFS, *argv], capture_output=True, text=True, timeout=LIMIT_S,
                                  env=self.environment(i, **more))

    def mount_on(self, i, *argv, **more):
        point = self.path(f"mnt{i}")
        done = self.run_on(i, "mount", *argv, point, **more)
        self.addCleanup(self.force_unmount, point)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return point

    def mount_all(self, *argv, **more):
        return self.on_all(lambda i: self.mount_on(i, *argv, **more))

    def assert_fleet_reads(self, points):
        """All hosts read different tensors at the same time, and then everything."""
        def one(i):
            tensor = self.tensors[i % len(self.tensors)]
            self.assertEqual(self.read_whole(points[i], "tensors", tensor.name), tensor.data)

        def everything(i):
            for tensor in self.tensors[i % 3:] + self.tensors[:i % 3]:
                self.assertEqual(self.read_whole(points[i], "tensors", tensor.name), tensor.data)
            self.assertEqual(self.read_whole(points[i], "files", "model.gguf"), self.model)
        self.on_all(one)
        self.on_all(everything)

    def sent(self):
        """The GET requests of blobs that the origin answered."""
        return [request for request in self.origin.pulled()[self.begun:] if request.method == "GET" and "/blobs/" in request.path]

    def bytes_sent(self):
        return sum(request.bytes for request in self.sent())

    def url(self, server):
        return f"oci://{server.host}/{NAME}:latest"


class PullThrough(FleetTestCase):
    """docker-registry as pull-through cache. It ignores ranges of blobs that it does not have yet."""

    def setUp(self):
        super().setUp()
        self.mirror = Registry(self, name="mirror", proxy=f"http://{self.origin.host}", host=self.near)

    def is_cached(self):
        # Not by a request, which would cost a download until it is cached.
        digest = stores.sha256(self.model)
        return os.path.exists(os.path.join(self.mirror.content, "docker/registry/v2/blobs/sha256", digest[:2], digest, "data"))

    def test_after_one_host_fetched_the_model_the_origin_sends_nothing(self):
        self.assertEqual(self.run_on(0, "fetch", "--verify=whole", "--insecure", self.url(self.mirror)).returncode, 0)
        until(self.is_cached, "the mirror does not cache the model")
        sent = self.sent()
        self.assertLessEqual(self.bytes_sent(), 2.05 * self.bytes)
        self.assert_fleet_reads(self.mount_all("--insecure", self.url(self.mirror)))
        self.assertEqual(self.sent(), sent)

    def test_simultaneous_first_readers_that_wait_for_ranges_share_a_copy(self):
        self.assert_fleet_reads(self.mount_all("--insecure", "--wait-for-ranges=600", self.url(self.mirror)))
        # One copy for the disk of the mirror, and a part of one for each host that came too early: fewer than half of them.
        self.assertLessEqual(self.bytes_sent(), (1 + HOSTS / 2) * self.bytes)

    def test_simultaneous_first_readers_cost_at_most_a_copy_each(self):
        self.assert_fleet_reads(self.mount_all("--insecure", self.url(self.mirror)))
        # One copy per host, and one for the disk of the mirror with each. How many they share is a matter of moments.
        self.assertLessEqual(self.bytes_sent(), 2 * HOSTS * self.bytes)


@needs("nginx")
class NginxSlices(FleetTestCase):
    def setUp(self):
        super().setUp()
        cache, self.locations = configurations("nginx with slices")
        self.cached = self.adapted(cache)

    def test_origin_sends_each_byte_once(self):
        mirror = Nginx(self, name="mirror", host=self.near, http=self.cached, server=self.adapted(self.locations))
        self.assert_fleet_reads(self.mount_all("--insecure", self.url(mirror)))
        self.assertLessEqual(self.bytes_sent(), 1.05 * self.bytes)

    def test_forward_proxy_sends_each_byte_once(self):
        locations, = configurations("A forward proxy")
        proxy = Nginx(self, name="proxy", host=self.near, http=self.cached, server=self.adapted(locations))
        self.assertNotEqual(self.run_on(0, "info", "--insecure", "--timeout", "1", self.url(self.origin)).returncode, 0)
        self.assert_fleet_reads(self.mount_all("--insecure", self.url(self.origin), http_proxy=f"http://{proxy.host}"))
        self.assertLessEqual(self.bytes_sent(), 1.05 * self.bytes)


class Served(FleetTestCase):
    """`weightfs serve` near the hosts, with a token."""

    def test_origin_sends_each_byte_once(self):
        token = self.write("token", b"of-the-fleet\n")
        os.mkdir(self.path("served"))
        with self.near:
            server = HttpServer(self.url(self.origin), options=("--insecure", "--token-file", token),
                                listen=(f"{self.near.address}:0",), folder=self.path("served"))
        self.addCleanup(server.close)
        self.assertEqual(self.run_on(0, "info", "--insecure", server.url).returncode, 4)
        self.assert_fleet_reads(self.mount_all("--insecure", "--source-token-file", token, server.url))
        self.assertLessEqual(self.bytes_sent(), 1.05 * self.bytes)


class Peers(FleetTestCase):
    """A host whose cache has the model."""

    def setUp(self):
        super().setUp()
        environment = self.environment("peer")
        self.cache_of_peer = environment["WEIGHTFS_CACHE"]
        with self.near:
            done = subprocess.run([WEIGHTFS, "fetch", "--insecure", self.url(self.origin)], capture_output=True, text=True,
                                  timeout=LIMIT_S, env=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.before = self.sent()
        self.assertLessEqual(self.bytes_sent(), 1.05 * self.bytes)

    def peer(self, configuration):
        configuration = configuration.replace("/var/cache/weightfs", self.cache_of_peer).replace("ORIGIN", self.origin.host)
        return Nginx(self, name="peer", host=self.near, server=configuration)


@needs("nginx")
class CacheOfAnotherHost(Peers):
    def test_origin_sends_nothing_to_readers_of_its_cache(self):
        cache, _ = configurations("The cache of another machine")
        peer = self.peer(cache)
        self.connect_to_origin()
        self.assert_fleet_reads(self.mount_all(f"--mirror=http://{peer.host}/v1/blobs", "--insecure", self.url(self.origin)))
        self.assertEqual(self.sent(), self.before)

    def test_origin_sends_nothing_to_readers_of_a_registry_with_its_cache(self):
        _, registry = configurations("The cache of another machine")
        peer = self.peer(registry)
        self.assert_fleet_reads(self.mount_all("--insecure", self.url(peer)))
        self.assertEqual(self.sent(), self.before)


class Mirrors(FleetTestCase):
    """--mirror: tags come from the origin, and blobs from the mirror, if their digests match."""

    def setUp(self):
        super().setUp()
        self.connect_to_origin()

    def mount_with(self, mirror, *argv):
        return self.mount_all(f"--mirror=http://{mirror.host}", "--log-level=warning", "--insecure", *argv, self.url(self.origin))

    def log_lines(self, point):
        return self.read_whole(point, ".weightfs", "log").decode().splitlines()

    @needs("nginx")
    def test_origin_sends_each_slice_once(self):
        cache, locations = configurations("nginx with slices")
        mirror = Nginx(self, name="mirror", host=self.near, http=self.adapted(cache), server=self.adapted(locations))
        points = self.mount_with(mirror)
        self.assert_fleet_reads(points)
        self.assertLessEqual(self.bytes_sent(), 1.05 * self.bytes)
        self.assertEqual([self.log_lines(point) for point in points], [[]] * HOSTS)

    def test_wrong_bytes_are_not_read(self):
        mirror = Registry(self, name="mirror", host=self.near)
        self.artifact.push(mirror, NAME, "latest")
        digest = stores.sha256(self.model)
        with open(os.path.join(mirror.content, "docker/registry/v2/blobs/sha256", digest[:2], digest, "data"), "r+b") as file:
            file.seek(SIZE)
            file.write(bytes(100))
        points = self.mount_with(mirror)
        self.assert_fleet_reads(points)
        for point in points:
            self.assertEqual(len(self.log_lines(point)), 1, self.log_lines(point))

    @needs("nginx")
    def test_origin_completes_the_download_of_a_mirror_that_dies(self):
        mirror = Nginx(self, name="mirror", host=self.near, extra="limit_rate_after 1m; limit_rate 100k;")
        mirror.publish(f"v2/{NAME}/blobs/{artifacts.digest(self.model)}", self.model)
        parts = [partial_downloads.path_of(self.environment(i)["WEIGHTFS_CACHE"], self.model) for i in range(HOSTS)]
        points = []

        def mount_and_read():
            points.extend(self.mount_with(mirror))
            self.assert_fleet_reads(points)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            reading = pool.submit(mount_and_read)
            until(lambda: all(partial_downloads.present_bytes(path) > 0 for path in parts) or reading.done(),
                  "nothing was downloaded")
            self.assertFalse(reading.done())
            mirror.stop()
            reading.result()
        for point in points:
            self.assertEqual(len(self.log_lines(point)), 1, self.log_lines(point))


if __name__ == "__main__":
    unittest.main()
