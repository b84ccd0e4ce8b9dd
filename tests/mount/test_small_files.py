"""The bytes of small local files are stored in the page cache when they are opened, so reading them needs no READ."""
import json
import mmap
import random
import threading

from mounting import MountTestCase, Tensor, os, unittest
from archives import DEFLATE, STORED, Zip
import containers

LIMIT = 16 << 10  # bytes of a small file
COUNT = 60  # files in each test
FEW = 10  # READs of the statistics; a request is counted shortly after its reply


def reads_of(mnt):
    with open(f"{mnt}/.weightfs/stats.json") as file:
        return json.load(file)["operations"]["read"]["requests"]


class CountedReads:
    """The READs of a mount while it is entered, with FEW of the statistics."""

    def __init__(self, mnt):
        self.mnt = mnt

    def __enter__(self):
        self.before = reads_of(self.mnt)
        return self

    def __exit__(self, *_):
        self.count = reads_of(self.mnt) - self.before


class SmallFiles(MountTestCase):
    def tensors(self, sizes):
        return [Tensor(f"t{i}", "uint8", (size,), random.Random(i).randbytes(size)) for i, size in enumerate(sizes)]

    def check(self, path, data):
        with open(path, "rb") as file:
            self.assertEqual(file.read(), data, path)

    # docs/design/reading.md
    def test_files_up_to_the_limit_need_no_read(self):
        tensors = self.tensors([1, 4095, 4096, 4097, LIMIT - 1, LIMIT] * (COUNT // 6))
        mnt = self.mount(self.sample(tensors=tensors))
        with CountedReads(mnt) as reads:
            for tensor in tensors:
                self.check(f"{mnt}/tensors/{tensor.name}", tensor.data)
            for tensor in tensors:
                if len(tensor.data) > LIMIT - 128:  # of the header of the .npy file
                    continue
                with open(f"{mnt}/npy/{tensor.name}.npy", "rb") as file:
                    self.assertTrue(file.read().endswith(tensor.data))
        self.assertLess(reads.count, FEW)

    def test_larger_files_are_read_on_request(self):
        tensors = self.tensors([LIMIT + 1] * COUNT)
        mnt = self.mount(self.sample(tensors=tensors))
        with CountedReads(mnt) as opened:
            for tensor in tensors:
                os.close(os.open(f"{mnt}/tensors/{tensor.name}", os.O_RDONLY))
        self.assertLess(opened.count, FEW)
        with CountedReads(mnt) as reads:
            for tensor in tensors:
                self.check(f"{mnt}/tensors/{tensor.name}", tensor.data)
        self.assertGreaterEqual(reads.count, COUNT)

    def test_members_of_an_archive_need_no_read(self):
        members = {f"{method}-{i}": (method, random.Random(i).randbytes((10, 5000, LIMIT)[i % 3]))
                   for method in (STORED, DEFLATE) for i in range(COUNT // 2)}
        path = self.path("m.zip")
        archive = Zip(path)
        for name, (method, data) in members.items():
            archive.write(name, data, method)
        archive.close()
        mnt = self.mount(path)
        with CountedReads(mnt) as reads:
            for name, (_, data) in members.items():
                self.check(f"{mnt}/files/{name}", data)
        self.assertLess(reads.count, FEW)

    def test_files_of_a_directory_need_no_read(self):
        os.mkdir(self.path("model"))
        tensors = self.tensors([5000] * COUNT)
        for tensor in tensors:
            containers.WRITERS["safetensors"](self.path("model", f"{tensor.name}.safetensors"), [tensor])
        mnt = self.mount(self.path("model"))
        with CountedReads(mnt) as reads:
            for tensor in tensors:
                with open(f"{mnt}/{tensor.name}.safetensors/files/{tensor.name}.safetensors", "rb") as file:
                    self.assertTrue(file.read().endswith(tensor.data))
        self.assertLess(reads.count, FEW)

    def test_evicted_pages_are_requested(self):
        tensors = self.tensors([LIMIT])
        mnt = self.mount(self.sample(tensors=tensors))
        with open(f"{mnt}/tensors/t0", "rb", buffering=0) as file:
            self.assertEqual(file.read(), tensors[0].data)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with CountedReads(mnt) as reads:
                for _ in range(COUNT):
                    self.assertEqual(os.pread(file.fileno(), LIMIT, 0), tensors[0].data)
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            self.assertGreaterEqual(reads.count, COUNT)

    # Bytes are stored at the first open only, so all threads open the files in the same order.
    def test_threads_open_read_map_and_evict_the_same_files(self):
        tensors = self.tensors([random.Random(i).randrange(1, LIMIT + 1) for i in range(2000)])
        mnt = self.mount(self.sample(tensors=tensors))
        wrong, counts = [], [0] * 8

        def read(thread):
            chosen = random.Random(thread)
            for tensor in tensors:
                with open(f"{mnt}/tensors/{tensor.name}", "rb", buffering=0) as file:
                    if chosen.random() < 0.3:
                        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                            got = mapped[:]
                    else:
                        got = os.pread(file.fileno(), LIMIT, 0)
                    if got != tensor.data:
                        wrong.append(tensor.name)
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                counts[thread] += 1

        threads = [threading.Thread(target=read, args=(i,), daemon=True) for i in range(len(counts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            self.assertFalse(thread.is_alive(), "a thread waits forever")
        self.assertEqual(wrong, [])
        self.assertEqual(counts, [len(tensors)] * len(counts))


if __name__ == "__main__":
    unittest.main()
