"""Many hosts that read one model through one mirror: what the origin sends, and what the readers get (docs/fleet.md)."""
import concurrent.futures
import os
import re
import subprocess
import unittest

from fetching import FetchTestCase
from hosts import Ethernet
from mounting import LIMIT_S, Tensor, WEIGHTFS, until
from servers import Nginx, Registry, needs
import artifacts
from artifacts import modelpack
import stores
from test_archives import noise

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
@needs("docker-registry", "ip")
class FleetTestCase(FetchTestCase):
    """An origin, a mirror that reaches it, and hosts that reach the mirror only."""

    def setUp(self):
        super().setUp()
        ethernet = Ethernet(self)
        self.far = ethernet.host("10.77.1.1/24")
        self.near = ethernet.host("10.77.0.1/24", "10.77.1.2/24")
        self.hosts = [ethernet.host(f"10.77.0.{11 + i}/24") for i in range(HOSTS)]
        self.origin = Registry(self, name="origin", host=self.far)
        self.tensors = [Tensor(f"blk.{i}", "int8", (SIZE,), noise(SIZE, seed=i + 1)) for i in range(6)]
        self.model = stores.gguf(self.tmp, self.tensors)
        self.artifact = modelpack().add(WEIGHT, self.model, "model.gguf")
        self.artifact.push(self.origin, NAME, "latest")
        self.bytes = sum(map(len, self.artifact.blobs.values()))
        self.begun = len(self.origin.pulled())

    def environment(self, i, **more):
        folder = self.path(f"host-{i}")
        os.makedirs(folder, exist_ok=True)
        return {**os.environ, "HOME": folder, "WEIGHTFS_CACHE": os.path.join(folder, "cache"), **more}

    def run_on(self, i, *argv, **more):
        with self.hosts[i]:
            return subprocess.run([WEIGHTFS, *argv], capture_output=True, text=True, timeout=LIMIT_S, env=self.environment(i, **more))

    def on_all(self, function):
        """Calls the function with the number of each host, at the same time."""
        with concurrent.futures.ThreadPoolExecutor(HOSTS) as pool:
            return list(pool.map(function, range(HOSTS)))

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
        path = f"/v2/{NAME}/blobs/{artifacts.digest(self.model)}"
        return self.mirror.send_request("GET", path, headers={"Range": "bytes=0-9"})[0] == 206

    def test_after_one_host_fetched_the_model_the_origin_sends_nothing(self):
        self.assertEqual(self.run_on(0, "fetch", "--insecure", self.url(self.mirror)).returncode, 0)
        until(self.is_cached, "the mirror does not cache the model")
        sent = self.sent()
        self.assertLessEqual(self.bytes_sent(), 2.05 * self.bytes)
        self.assert_fleet_reads(self.mount_all("--insecure", self.url(self.mirror)))
        self.assertEqual(self.sent(), sent)

    def test_simultaneous_first_readers_cost_a_copy_each(self):
        self.assert_fleet_reads(self.mount_all("--insecure", self.url(self.mirror)))
        # One copy per host at most, and those for the disk of the mirror.
        self.assertGreater(self.bytes_sent(), 2.05 * self.bytes)
        self.assertLessEqual(self.bytes_sent(), 2 * HOSTS * self.bytes)


@needs("nginx")
class NginxSlices(FleetTestCase):
    def setUp(self):
        super().setUp()
        cache, self.locations = configurations("nginx with slices")
        self.cached = self.adapted(cache)

    def adapted(self, configuration):
        return configuration.replace("ORIGIN", self.origin.host).replace("/var/cache/nginx", "FOLDER").replace("max_size=500g", "max_size=1g")

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


@needs("nginx")
class CacheOfAnotherHost(FleetTestCase):
    def test_origin_sends_nothing_to_readers_of_a_peer(self):
        environment = self.environment("peer")
        with self.near:
            done = subprocess.run([WEIGHTFS, "fetch", "--insecure", self.url(self.origin)], capture_output=True, text=True,
                                  timeout=LIMIT_S, env=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        sent = self.sent()
        self.assertLessEqual(self.bytes_sent(), 1.05 * self.bytes)
        locations, = configurations("The cache of another machine")
        locations = locations.replace("/var/cache/weightfs", environment["WEIGHTFS_CACHE"]).replace("ORIGIN", self.origin.host)
        peer = Nginx(self, name="peer", host=self.near, server=locations)
        self.assert_fleet_reads(self.mount_all("--insecure", self.url(peer)))
        self.assertEqual(self.sent(), sent)


if __name__ == "__main__":
    unittest.main()
