"""Compressed layers of a registry, and archives at URLs, are kept once: decoded, without the bytes that were downloaded
(docs/remote.md)."""
import concurrent.futures
import gzip
import os
import unittest

from fetching import FetchTestCase
from mounting import Tensor, run
from registry_server import RegistryServer
from servers import Nginx
from test_archives import blobs_in, noise
import artifacts
from artifacts import modelpack
import stores

MIB = 1 << 20
LAYER = "application/vnd.cncf.model.weight.v1.tar+gzip"


class ReleasedLayers(FetchTestCase):
    def setUp(self):
        super().setUp()
        self.registry = RegistryServer(self)
        self.tensors = [Tensor(f"blk.{i}", "int8", (5 * MIB,), noise(5 * MIB, seed=i + 1)) for i in range(5)]
        self.model = stores.gguf(self.tmp, self.tensors)
        self.tar = artifacts.tar({"model.gguf": self.model})
        self.layer = gzip.compress(self.tar, 1, mtime=0)  # noise: about as large as the tar
        self.digest = artifacts.digest(self.layer)
        self.url = self.registry.push(modelpack().add(LAYER, self.layer), "ai/tiny", "latest")

    def requests_of_layer(self):
        return sum(self.digest in request.path for request in self.registry.requests())

    def bytes_in_cache(self):
        return sum(os.lstat(os.path.join(base, name)).st_blocks * 512
                   for base, _, names in os.walk(self.cache()) for name in names)

    def packed_in_cache(self):
        return [path for path in blobs_in(self.cache()) if os.path.basename(path) == self.digest[7:]]

    def assert_reads_all(self, point):
        for tensor in self.tensors:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        self.assertEqual(self.read_whole(point, "files", "model.gguf"), self.model)

    def test_cache_has_the_decoded_form_only(self):
        self.assert_reads_all(self.mount(self.url))
        self.assertEqual(self.packed_in_cache(), [])
        self.assertIn(stores.sha256(self.tar), [os.path.basename(path) for path in blobs_in(self.cache())])
        self.assertLessEqual(self.bytes_in_cache(), 1.1 * len(self.tar))

    def test_second_mount_needs_no_request_for_the_layer(self):
        point = self.mount(self.url)
        self.assert_reads_all(point)
        self.unmount(point)
        before = self.requests_of_layer()
        self.assertGreater(before, 0)
        self.assert_reads_all(self.mount(self.url, at="again"))
        self.assert_reads_all(self.mount("--offline", self.url, at="offline"))
        self.assertEqual(self.requests_of_layer(), before)

    def test_fetch_after_a_release_has_the_packed_bytes(self):
        self.unmount(self.mount(self.url))
        self.assertEqual(self.packed_in_cache(), [])
        done = run("fetch", self.url)
        self.assertEqual(done.returncode, 0, done.stderr)
        [packed] = self.packed_in_cache()
        self.assertEqual(self.read_whole(packed), self.layer)
        self.assert_reads_all(self.mount(self.url))
        self.assertEqual(self.packed_in_cache(), [packed])  # a mount releases only what it has downloaded itself

    def assert_refused(self, sent):
        """The registry sends these bytes in place of the layer."""
        self.registry.blobs[self.digest] = sent
        point = self.path("wrong")
        self.addCleanup(self.force_unmount, point)
        done = run("mount", self.url, point)
        self.assertNotEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(stores.sha256(self.tar), [os.path.basename(path) for path in blobs_in(self.cache())])
        self.assertEqual(self.packed_in_cache(), [])
        self.registry.blobs[self.digest] = self.layer
        self.assert_reads_all(self.mount(self.url, at="right"))

    def test_wrong_byte_publishes_nothing(self):
        middle = len(self.layer) // 2
        self.assert_refused(self.layer[:middle] + bytes([self.layer[middle] ^ 1]) + self.layer[middle + 1:])

    # The first blocks are wrong, so nothing is decoded; they are not kept for the next mount.
    def test_wrong_magic_number_is_not_kept(self):
        self.assert_refused(b"\0" + self.layer[1:])

    def test_other_data_than_a_tar_are_not_kept(self):
        other = gzip.compress(self.tar[1:], 1, mtime=0) + bytes(len(self.layer))
        self.assert_refused(other[:len(self.layer)])

    def test_other_bytes_that_decode_publish_nothing(self):
        # The time in the header of gzip: the decoder ignores it.
        other = self.layer[:4] + b"\1" + self.layer[5:]
        self.assertEqual(gzip.decompress(other), self.tar)
        self.assert_refused(other)

    def test_two_processes_at_once(self):
        points = [self.path(f"mnt{i}") for i in range(2)]
        for point in points:
            self.addCleanup(self.force_unmount, point)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            done = list(pool.map(lambda point: run("mount", self.url, point), points))
            self.assertEqual([each.returncode for each in done], [0, 0], [each.stderr for each in done])
            list(pool.map(self.assert_reads_all, points))


class ReleasedArchives(FetchTestCase):
    """An archive at a URL: its ETag names the bytes."""

    def setUp(self):
        super().setUp()
        self.web = Nginx(self)
        self.data = noise(20 * MIB)
        self.packed = self.archive(self.data)
        self.url = self.web.publish("model.tar.gz", self.packed)

    def archive(self, data):
        return gzip.compress(artifacts.tar({"weights.bin": data}), 1, mtime=0)

    def bytes_in(self, folder):
        """On disk; the data of ranges are sparse."""
        return sum(os.lstat(os.path.join(base, name)).st_blocks * 512
                   for base, _, names in os.walk(os.path.join(self.cache(), "v1", folder)) for name in names)

    def bytes_sent(self):
        return sum(request.bytes for request in self.web.requests() if request.path == "/model.tar.gz")

    def assert_reads(self, point, data):
        self.assertEqual(self.read_whole(point, "files", "weights.bin"), data)

    def test_cache_has_the_decoded_form_and_both_ends(self):
        self.assert_reads(self.mount(self.url), self.data)
        self.assertLess(self.bytes_in("blocks"), MIB)
        self.assertLess(self.bytes_in("."), 1.1 * len(self.data))

    def test_second_mount_requests_no_bytes(self):
        point = self.mount(self.url)
        self.assert_reads(point, self.data)
        self.unmount(point)
        before = self.bytes_sent()
        self.assertGreaterEqual(before, len(self.packed))
        self.assert_reads(self.mount(self.url, at="again"), self.data)
        self.assert_reads(self.mount("--offline", self.url, at="offline"), self.data)
        self.assertEqual(self.bytes_sent(), before)

    def test_another_version_is_decoded_anew(self):
        point = self.mount(self.url)
        self.assert_reads(point, self.data)
        self.unmount(point)
        other = noise(20 * MIB + 512, seed=7)  # nginx makes the ETag of the size and the seconds
        self.web.publish("model.tar.gz", self.archive(other))
        self.assert_reads(self.mount(self.url, at="other"), other)

    def test_fetch_has_the_packed_bytes_also_after_a_later_mount(self):
        done = run("fetch", self.url)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(self.bytes_in("blocks"), len(self.packed))
        self.assert_reads(self.mount(self.url), self.data)
        self.assertGreaterEqual(self.bytes_in("blocks"), len(self.packed))


if __name__ == "__main__":
    unittest.main()
