"""The memory and the descriptors of a server. In a memory cgroup of 256 MB it drops the least recently used models, refuses
requests beyond that, and is never killed by the kernel."""
import contextlib
import errno
import io
import json
import resource
import statistics
import struct
import zipfile

from mounting import MountTestCase, Tensor, is_sanitized, os, subprocess, unittest, until, WEIGHTFS
from memory_cgroup import Cgroup
import page_cache
from servers import needs
from test_urls import MIB, UrlTestCase

LIMIT = 256 << 20


def safetensors(name="w", size=4):
    header = json.dumps({name: {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header


def zipped(member, count, name):
    """An archive of `count` members with the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for i in range(count):
            archive.writestr(zipfile.ZipInfo(name % i), member, zipfile.ZIP_DEFLATED)
    return out.getvalue()


class ManyModels(MountTestCase):
    """A directory of many models: a model that was entered costs what it holds, and no descriptor."""

    MAX_IDLE = 64  # kMaxIdleFiles
    COUNT = 10_000
    PER_SAFETENSORS = 4_700  # bytes for each model; 4,000 to 4,400 are used
    PER_GGUF = 4_500  # bytes; 4,200 to 4,300 are used
    TOTAL = 80_000_000

    def resident(self, server, field="VmRSS"):
        """The resident memory of the server, in bytes; `RssAnon` is what it allocated, without its code."""
        with open(f"/proc/{server}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith(field + ":"))

    def descriptors(self, server, name):
        """How many descriptors of a server are open files whose path has `name` in it."""
        found = 0
        for number in os.listdir(f"/proc/{server}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found += name in os.readlink(f"/proc/{server}/fd/{number}")
        return found

    def check_find(self, suffix, data, entries, per_model):
        for i in range(self.COUNT):
            self.write(f"models/{i:05}{suffix}", data(i))
        point = self.mount(self.path("models"))
        server = self.server(point)
        before = self.resident(server, "RssAnon")
        found = subprocess.run(["find", point], stdout=subprocess.PIPE, check=True).stdout.count(b"\n")
        self.assertEqual(found, 1 + self.COUNT * entries)
        self.assertLessEqual(self.descriptors(server, suffix), self.MAX_IDLE)
        if not is_sanitized():
            self.assertLess(self.resident(server), self.TOTAL)
            self.assertLess((self.resident(server, "RssAnon") - before) / self.COUNT, per_model)
        return point

    def test_find_in_ten_thousand_safetensors_models_stays_below_80_mb(self):
        point = self.check_find(".safetensors", lambda i: safetensors(f"tensor.{i}", 4) + b"%04d" % i, 17, self.PER_SAFETENSORS)
        for i in range(0, self.COUNT, 999):
            self.assertEqual(self.read("mnt", f"{i:05}.safetensors", "tensors", f"tensor.{i}"), b"%04d" % i)
        self.assertLessEqual(self.descriptors(self.server(point), ".safetensors"), self.MAX_IDLE)

    def test_find_in_ten_thousand_gguf_models_stays_below_80_mb(self):
        self.sample("one.gguf", tensors=[Tensor("tensor", "float32", (1,), b"abcd")], format="gguf")
        one = self.read("one.gguf")
        self.check_find(".gguf", lambda i: one, 16, self.PER_GGUF)
        self.assertEqual(self.read("mnt", "00000.gguf", "tensors", "tensor"), b"abcd")

    def test_open_file_keeps_its_container_open(self):
        self.write("models/open.safetensors", safetensors() + b"abcd")
        for i in range(2 * self.MAX_IDLE):
            self.write(f"models/{i:05}.safetensors", safetensors(f"tensor.{i}", 4) + b"%04d" % i)
        point = self.mount(self.path("models"))
        with open(self.path("mnt", "open.safetensors", "tensors", "w"), "rb", buffering=0) as file:
            subprocess.run(["find", point], stdout=subprocess.DEVNULL, check=True)
            self.assertEqual(self.descriptors(self.server(point), "/open.safetensors"), 1)
            os.rename(self.path("models/open.safetensors"), self.path("models/renamed.safetensors"))
            self.assertEqual(file.read(), b"abcd")

    def test_replaced_model_fails_when_it_is_opened_again(self):
        for i in range(2 * self.MAX_IDLE):
            self.write(f"models/{i:05}.safetensors", safetensors(f"tensor.{i}", 4) + b"%04d" % i)
        point = self.mount(self.path("models"))
        subprocess.run(["find", point], stdout=subprocess.DEVNULL, check=True)
        self.write("new", safetensors("tensor.0", 4) + b"abcd")
        os.rename(self.path("new"), self.path("models/00000.safetensors"))
        with self.assertRaises(OSError) as raised:
            self.read("mnt", "00000.safetensors", "tensors", "tensor.0")
        self.assertEqual(raised.exception.errno, errno.EIO)

    def test_descriptor_limit_hides_no_tensors_of_many_shards(self):
        count = 200
        weights = {}
        for i in range(count):
            self.write(f"model/{i:05}.safetensors", safetensors(f"tensor.{i}", 4) + b"%04d" % i)
            weights[f"tensor.{i}"] = f"{i:05}.safetensors"
        self.write("model/model.safetensors.index.json", json.dumps({"weight_map": weights}).encode())
        point = self.mount(self.path("model"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)))
        self.assertEqual(len(os.listdir(os.path.join(point, "tensors"))), count)
        self.assertFalse(os.path.exists(os.path.join(point, "warnings.txt")))
        for i in range(count):
            self.assertEqual(self.read("mnt", "tensors", f"tensor.{i}"), b"%04d" % i)


class ParallelReaders(MountTestCase):
    """The read-ahead of many readers does not need memory for each request in flight."""

    READERS = 8
    MEGABYTES = 1024
    LIMIT = 30_000_000

    def test_eight_readers_of_a_large_tensor_stay_below_30_mb(self):
        self.check_peak(0o644)

    def test_eight_readers_of_a_mapped_tensor_stay_below_30_mb(self):
        self.check_peak(0o444)

    def check_peak(self, mode):
        with open(self.write("model.safetensors", safetensors(size=self.MEGABYTES << 20)), "r+b") as file:
            file.truncate(os.path.getsize(file.name) + (self.MEGABYTES << 20))
            os.fchmod(file.fileno(), mode)
        point = self.mount(self.path("model.safetensors"))
        share = self.MEGABYTES // self.READERS
        readers = [subprocess.Popen(["dd", f"if={point}/tensors/w", "of=/dev/null", "bs=1M", f"skip={i * share}", f"count={share}"],
                                    stderr=subprocess.DEVNULL) for i in range(self.READERS)]
        for reader in readers:
            self.assertEqual(reader.wait(), 0)
        with open(f"/proc/{self.server(point)}/status") as file:
            peak = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
        turns = max(8, os.cpu_count())
        self.assertLess(peak, self.LIMIT + ((turns - 8) << 20))


@unittest.skipIf(is_sanitized(), "a sanitizer needs more memory than the cgroup has")
@unittest.skipUnless(os.getuid() == 0, "only root can make a cgroup")
class MemoryCgroup(MountTestCase):
    def setUp(self):
        super().setUp()
        self.cgroup = Cgroup(LIMIT)
        if self.cgroup.path is None:
            self.skipTest("cannot create a memory cgroup: neither v1 nor v2 has the memory controller")
        self.addCleanup(self.remove_cgroup)
        self.write("models/ok.safetensors", safetensors() + b"abcd")

    def remove_cgroup(self):
        def is_removed():
            with contextlib.suppress(OSError):
                self.cgroup.remove()
            return not os.path.exists(self.cgroup.path)
        until(is_removed, "the cgroup is still in use")

    def serve(self, source):
        """Mounts with a server in the cgroup."""
        point = self.path("mnt")
        server = subprocess.Popen([WEIGHTFS, "mount", "-f", "--log-level", "error", source, point], stderr=subprocess.DEVNULL,
                                  preexec_fn=self.cgroup.add_this_process)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.addCleanup(self.force_unmount, point)
        until(lambda: os.path.ismount(point) or server.poll() is not None, "it does not mount")
        self.assertIsNone(server.poll(), "the server ended before it was mounted")
        self.point, self.process = point, server
        return point

    def check_alive(self):
        self.assertEqual(self.cgroup.kills(), 0)
        self.assertIsNone(self.process.poll(), "the server has ended")
        self.assertEqual(self.read("mnt", "ok.safetensors", "tensors", "w"), b"abcd")

    def peak(self):
        """The peak memory of the server, in bytes."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))

    def find(self, point, seconds=None):
        """The paths that find prints; incomplete after a timeout."""
        argv = ["find", point, "-printf", "%i %P\\n"] if seconds is None else ["timeout", str(seconds), "find", point]
        return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode().splitlines()

    def test_find_in_nested_archives_stays_within_memory_limit(self):
        archive = zipped(safetensors() + b"abcd", 60, "%0100d.safetensors")
        for _ in range(3):
            archive = zipped(archive, 40, "%0100d.zip")
        self.assertLess(len(archive), 120_000)
        self.write("models/nested.zip", archive)
        point = self.serve(self.path("models"))
        self.assertGreater(len(self.find(point, seconds=10)), 1000)
        self.check_alive()
        self.assertLess(self.peak(), LIMIT)

    def test_find_in_ten_thousand_models_stays_within_memory_limit(self):
        for i in range(10_000):
            self.write(f"models/{i:05}.safetensors", safetensors(f"tensor.{i}", 4) + b"%04d" % i)
        point = self.serve(self.path("models"))
        first = os.path.join(point, "00000.safetensors", "tensors", "tensor.0")
        before = os.stat(first)
        once = sorted(self.find(point))
        self.assertGreater(len(once), 10_000 * 12)
        self.check_alive()
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("2")  # drops dentries and inodes, so that requests reach the server again
        self.assertEqual(sorted(self.find(point)), once)
        self.check_alive()
        self.assertEqual(os.stat(first).st_ino, before.st_ino)
        self.assertEqual(self.read("mnt", "00000.safetensors", "tensors", "tensor.0"), b"0000")
        self.assertEqual(self.read("mnt", "00000.safetensors", "npy", "tensor.0.npy")[-4:], b"0000")
        self.assertLess(self.peak(), LIMIT // 2 + (32 << 20))

    def share_after_read(self, megabytes, path="tensors/big"):
        """Mounts a model that is not in the page cache, and reads a file of its tensor; the share of its file that is cached
        then."""
        block = os.urandom(1 << 20)
        source = self.write("models/big.safetensors", safetensors("big", megabytes << 20) + block * megabytes)
        point = self.serve(self.path("models"))
        page_cache.drop(source)
        self.assertLess(statistics.mean(page_cache.cached_pages(source)), 0.1)
        with open(os.path.join(point, "big.safetensors", path), "rb") as file:
            file.seek(-(megabytes << 20), os.SEEK_END)
            for _ in range(megabytes):
                self.assertEqual(file.read(1 << 20), block)
        return statistics.mean(page_cache.cached_pages(source))

    def test_pages_of_a_container_that_does_not_fit_twice_are_released(self):
        self.assertLess(self.share_after_read(160), 0.1)

    def test_pages_of_a_npy_file_are_released_like_those_of_its_tensor(self):
        self.assertLess(self.share_after_read(160, "npy/big.npy"), 0.1)

    def test_pages_of_a_container_that_fits_twice_are_kept(self):
        self.assertGreater(self.share_after_read(100), 0.9)

    def test_reading_ten_gigabytes_stays_within_memory_limit(self):
        size = 10 << 30
        source = self.write("models/big.safetensors", safetensors("big", size))
        os.truncate(source, os.path.getsize(source) + size)
        point = self.serve(self.path("models"))
        block = bytearray(4 << 20)
        read = 0
        with open(os.path.join(point, "big.safetensors", "tensors", "big"), "rb", buffering=0) as file:
            while got := file.readinto(block):
                read += got
        self.assertEqual(read, size)
        self.check_alive()
        self.assertLess(self.peak(), LIMIT)


@needs("nginx")
class ReadersOfAUrl(UrlTestCase):
    FILES = 64
    SIZE = 8 * MIB
    LIMIT = 64_000_000

    def test_readers_of_many_files_at_once_stay_below_64_mb(self):
        names = {f"layer.{i}": f"model-{i + 1:05}-of-{self.FILES:05}.safetensors" for i in range(self.FILES)}
        header = {"metadata": {"total_size": self.FILES * self.SIZE}, "weight_map": names}
        for tensor, name in names.items():
            entry = json.dumps({tensor: {"dtype": "U8", "shape": [self.SIZE], "data_offsets": [0, self.SIZE]}}).encode()
            self.web.publish(f"many/{name}", len(entry).to_bytes(8, "little") + entry)
            with open(os.path.join(self.web.content, "many", name), "r+b") as file:
                file.truncate(8 + len(entry) + self.SIZE)
        self.web.publish("many/model.safetensors.index.json", json.dumps(header).encode())
        point = self.mount(self.web.url("many/"))
        readers = [subprocess.Popen(["dd", f"if={point}/tensors/{tensor}", "of=/dev/null", "bs=1M"], stderr=subprocess.DEVNULL)
                   for tensor in names]
        for reader in readers:
            self.assertEqual(reader.wait(), 0)
        self.assertGreaterEqual(self.transferred(), self.FILES * self.SIZE)
        with open(f"/proc/{self.server(point)}/status") as file:
            sizes = {name: value for name, _, value in (line.partition(":") for line in file)}
        # The pages of the program differ by 10 MB between builds, and are not what readers cost.
        peak = (int(sizes["VmHWM"].split()[0]) - int(sizes["RssFile"].split()[0])) << 10
        self.assertLess(peak, self.LIMIT)


if __name__ == "__main__":
    unittest.main()
