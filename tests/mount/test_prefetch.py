"""mount --prefetch: what is downloaded before it is read, from a real server that counts bytes."""
import os
import random
import unittest

from mounting import run, until
from servers import needs
from test_archives import noise
from test_registry import LayerTestCase, blobs_in
from test_urls import MIB, UrlTestCase
import archives
import stores

COUNT = 20
TOTAL = COUNT * MIB


@needs("nginx")
class FromNginx(UrlTestCase):
    def setUp(self):
        super().setUp()
        self.url, written = self.publish_safetensors(count=COUNT)
        self.written = {tensor.name: tensor.data for tensor in written}

    def order(self, point):
        """The names of the tensors, in the order of the container."""
        with open(os.path.join(point, "tensors.json")) as file:
            names = [line.split('"')[3] for line in file if '"name":' in line]
        self.assertEqual(sorted(names), sorted(self.written))
        return names

    def read_tensors(self, point, names):
        for name in names:
            self.assertEqual(self.read_whole(point, "tensors", name), self.written[name])

    def wait_for(self, size):
        until(lambda: self.transferred() >= size, f"fewer than {size} bytes were transferred")

    # semantics 21.9
    def test_tensors_after_three_in_order_arrive_without_being_read(self):
        point = self.mount(self.url)
        names = self.order(point)
        self.read_tensors(point, names[:3])
        self.wait_for(TOTAL)
        before = self.transferred()
        self.web.stop()
        self.read_tensors(point, names[3:])
        self.assertLessEqual(before, 1.01 * TOTAL + 64 * 1024)

    def test_two_tensors_in_order_are_no_order(self):
        point = self.mount(self.url)
        self.read_tensors(point, self.order(point)[:2])
        self.assert_nothing_more(point, 2)

    def test_random_order_transfers_what_is_read(self):
        point = self.mount(self.url)
        names = self.order(point)
        random.seed(1)
        chosen = random.sample(range(0, COUNT, 2), 8)  # never the next one
        self.read_tensors(point, [names[i] for i in chosen])
        self.assert_nothing_more(point, len(chosen))

    def test_first_bytes_of_tensors_in_order_are_no_order(self):
        url, _ = self.publish_safetensors("large.safetensors", count=6, size=4 * MIB)
        point = self.mount(url)
        for i in range(6):
            with open(os.path.join(point, "tensors", f"layer.{i}"), "rb") as file:
                file.read(16)
        self.unmount(point)
        self.assertLessEqual(self.transferred(), 6 * 2.5 * MIB)

    def test_off_transfers_what_is_read(self):
        point = self.mount("-o", "prefetch=off", self.url)
        self.read_tensors(point, self.order(point)[:5])
        self.assert_nothing_more(point, 5)

    def assert_nothing_more(self, point, count):
        """These tensors were transferred, and nothing follows until the mount ends."""
        self.unmount(point)
        self.assertLessEqual(self.transferred(), 1.02 * count * MIB + 128 * 1024)

    def test_all_transfers_the_file_once(self):
        point = self.mount("--prefetch=all", self.url)
        self.wait_for(TOTAL)
        before = self.transferred()
        self.assertLessEqual(before, 1.01 * TOTAL + 64 * 1024)
        self.assertEqual(self.read_whole(point, "files", "model.safetensors"), self.content_of("model.safetensors"))
        self.assertEqual(self.transferred(), before)

    def test_all_downloads_every_shard(self):
        url, written = self.publish_sharded()
        point = self.mount("--prefetch=all", url)
        self.wait_for(sum(len(tensor.data) for tensor in written))
        self.web.stop()
        for tensor in written:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)

    def test_all_downloads_every_stored_member_of_a_zip(self):
        files = {f"{i}.bin": noise(size, seed=i + 1) for i, size in enumerate((100, 20 * 1024, 200 * 1024, 10 * MIB))}
        with archives.Zip(self.path("m.zip")) as out:
            for name, data in files.items():
                out.write(name, data)
        with open(self.path("m.zip"), "rb") as file:
            url = self.web.publish("m.zip", file.read())
        point = self.mount("--prefetch=all", url)
        self.wait_for(sum(map(len, files.values())))
        self.web.stop()
        for name, data in files.items():
            self.assertEqual(self.read_whole(point, "files", name), data)

    def test_all_stops_at_the_size_of_the_cache(self):
        process, _ = self.foreground("--prefetch=all", "--cache-size=12M", self.url)
        line = process.stderr.readline()
        while "prefetch: " not in line:
            self.assertTrue(line)
            line = process.stderr.readline()
        self.assertIn("files/model.safetensors: larger than the cache", line)
        self.assertEqual([line for line in self.end(process) if "prefetch: " in line], [])
        self.assertLessEqual(self.transferred(), 12 * MIB)

    def test_all_has_the_lowest_priority(self):
        self.web = type(self.web)(self, "limit_rate 1m;", name="slow", send_buffer=64 * 1024)
        url, _ = self.publish_safetensors(count=COUNT)
        tasks = f"/proc/{self.server(self.mount('--prefetch=all', url))}/task"

        def priorities():
            return {os.getpriority(os.PRIO_PROCESS, int(task)) for task in os.listdir(tasks)}
        until(lambda: 19 in priorities(), "no thread has a low priority")
        self.assertIn(os.getpriority(os.PRIO_PROCESS, 0), priorities())

    def test_unmounting_ends_a_download(self):
        self.web = type(self.web)(self, "limit_rate 1m;", name="slow", send_buffer=64 * 1024)
        url, _ = self.publish_safetensors(count=COUNT)
        point = self.mount("--prefetch=all", url)
        self.unmount(point)  # waits for the server process
        self.assertLess(self.transferred(), TOTAL / 2)

    def test_unknown_value_is_refused(self):
        os.mkdir(self.path("mnt"))
        for argv in (("--prefetch=some",), ("-o", "prefetch=some")):
            done = run("mount", *argv, self.url, self.path("mnt"))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("use off, auto or all", done.stderr)


@needs("docker-registry")
class FromRegistry(LayerTestCase):
    def test_all_verifies_the_layers(self):
        self.mount("--prefetch=all", self.url)
        digest = stores.sha256(self.model)
        until(lambda: digest in map(os.path.basename, blobs_in(self.cache())), "the blob is not in the cache")
        self.registry.stop()
        point = self.mount("--offline", self.url, at="offline")
        self.assertEqual(self.read_whole(point, "files", "model.gguf"), self.model)


if __name__ == "__main__":
    unittest.main()
