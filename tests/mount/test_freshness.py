"""How often a server examines a container for changes while tensors of it are read."""
import time

from mounting import Tensor, os, unittest
from tracing import TracedTestCase, calls_in, calls_since

KIB, MIB = 1 << 10, 1 << 20
SIZE = 64 * MIB
READS = 100


class Freshness(TracedTestCase):
    # semantics 6.1
    def test_read_examines_the_container_once(self):
        data = os.urandom(MIB) * (SIZE // MIB)
        source = self.sample("m.safetensors", [Tensor("w", "uint8", (SIZE,), data)])
        _, mount, trace = self.mount_traced(source, "fstat,newfstatat,statx,stat,lstat")
        with open(f"{mount}/tensors/w", "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            self.read(file, data, 0)
            before = calls_in(trace)
            begun = time.monotonic()
            # Descending, so that nothing is read ahead.
            for i in range(READS, 0, -1):
                self.read(file, data, i * 512 * KIB)
        calls = calls_since(before, trace)
        of_the_file = [call for call in calls if call.startswith("fstat(") or call.startswith("newfstatat(") and '""' in call]
        by_path = [call for call in calls if call not in of_the_file]
        self.assertGreaterEqual(len(of_the_file), READS, "strace recorded nothing")
        self.assertLessEqual(len(of_the_file), READS + 10)
        self.assertLessEqual(len(by_path), (time.monotonic() - begun) / 0.1 + 5, "the path is resolved every 0.1 s")

    def read(self, file, data, offset):
        self.assertEqual(os.pread(file.fileno(), 4 * KIB, offset), data[offset:offset + 4 * KIB])


if __name__ == "__main__":
    unittest.main()
