"""Read-ahead on the disk: the pages of a container that are read before the reader of a tensor asks for them."""
import mmap

from mounting import MountTestCase, Tensor, os, unittest, until

import page_cache  # of tests/support

KIB, MIB = 1 << 10, 1 << 20
SIZE = 48 * MIB


class ReadAhead(MountTestCase):
    def setUp(self):
        super().setUp()
        self.data = os.urandom(MIB) * (SIZE // MIB)
        self.source = self.sample("m.safetensors", [Tensor("w", "uint8", (SIZE,), self.data)])
        self.begin = os.path.getsize(self.source) - SIZE
        self.point = self.mount(self.source)
        page_cache.drop(self.source)
        if page_cache.is_in_memory(self.source):
            self.skipTest("the file system keeps all pages in memory")
        self.assertFalse(any(page_cache.cached_pages(self.source)[2:]))

    def are_cached(self, start, end):
        """Whether all bytes of the tensor from `start` to `end` are in the page cache, as bytes of the container."""
        first, last = (self.begin + start) // mmap.PAGESIZE, (self.begin + end - 1) // mmap.PAGESIZE
        return all(page_cache.cached_pages(self.source)[first:last + 1])

    def test_blocks_at_equal_distances_are_requested_without_the_bytes_between(self):
        self.check("tensors/w", 64 * KIB)

    def test_npy_files_are_read_ahead_like_tensors(self):
        self.check("npy/w.npy", 64 * KIB)

    def test_faults_at_equal_distances_are_read_ahead(self):
        with open(f"{self.point}/tensors/w", "rb") as file, mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapping:
            mapping.madvise(mmap.MADV_RANDOM)
            for i in range(5):
                self.assertEqual(mapping[i * MIB], self.data[0])
        self.expect_read_ahead(mmap.PAGESIZE)

    def check(self, path, size):
        with open(f"{self.point}/{path}", "rb", buffering=0) as file:
            header = os.path.getsize(file.name) - SIZE
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            for i in range(5):
                self.assertEqual(os.pread(file.fileno(), size, header + i * MIB), self.data[:size])
        self.expect_read_ahead(size)

    def expect_read_ahead(self, size):
        until(lambda: all(self.are_cached(i * MIB, i * MIB + size) for i in range(5, 13)), "the next blocks are not requested")
        for i in range(5, 12):
            self.assertFalse(self.are_cached(i * MIB + 512 * KIB, i * MIB + 516 * KIB))

    def test_random_reads_request_only_their_bytes(self):
        with open(f"{self.point}/tensors/w", "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            for i in (40, 3, 30, 11, 7, 22, 1, 45, 17):
                self.assertEqual(os.pread(file.fileno(), 64 * KIB, i * MIB), self.data[:64 * KIB])
        self.assertLess(sum(page_cache.cached_pages(self.source)) * mmap.PAGESIZE, 2 * MIB)


if __name__ == "__main__":
    unittest.main()
