"""Requests by io_uring: the same bytes, no reader that delays others, nothing left behind. See docs/design/rings.md.

They need root, and a weightfs with libfuse 3.19 or later: $WEIGHTFS itself, or one that is built here with the libfuse that
pkg-config finds ($PKG_CONFIG_PATH). Otherwise the tests print why they are skipped."""
import json
import mmap
import random
import signal
import struct
import threading

import mounting
from mounting import LIMIT_S, MountTestCase, eventually, has_ended, os, subprocess, unittest, until
from hung_files import INIT, LOOKUP, HungFiles
from tensors import Tensor

ENABLED = "/sys/module/fuse/parameters/enable_uring"
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.path.join(ROOT, "build", "rings")
RINGS = ("--offline", "--io-uring", "auto")
SIZE = 3 << 20


def check_of(weightfs, name):
    """What doctor says of it."""
    printed = subprocess.run([weightfs, "doctor", "--json"], stdout=subprocess.PIPE, text=True, timeout=LIMIT_S).stdout
    found, = [check for check in json.loads(printed) if check["check"] == name]
    return found["found"]


def built():
    """A weightfs with a newer libfuse; raises SkipTest if there is none."""
    if not check_of(mounting.WEIGHTFS, "io_uring").startswith("not in this build"):
        return mounting.WEIGHTFS
    if subprocess.run(["pkg-config", "--exists", "fuse3 >= 3.19"]).returncode != 0:
        raise unittest.SkipTest("no libfuse 3.19 or later: pkg-config does not find it, also not in $PKG_CONFIG_PATH")
    options = ["-DWEIGHTFS_TESTS=OFF", "-DWEIGHTFS_UNITY=ON", "-DWEIGHTFS_PCH=ON", "-DCMAKE_BUILD_TYPE=Debug"]
    subprocess.run(["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", *options], stdout=subprocess.DEVNULL, check=True)
    subprocess.run(["ninja", "-C", BUILD, "weightfs"], stdout=subprocess.DEVNULL, check=True)
    return os.path.join(BUILD, "weightfs")


def setUpModule():
    if os.geteuid() != 0:
        raise unittest.SkipTest("only root can enable FUSE over io_uring")
    if not os.path.exists(ENABLED):
        raise unittest.SkipTest("the kernel has no FUSE over io_uring (Linux 6.14, FUSE_IO_URING)")
    before = mounting.WEIGHTFS
    unittest.addModuleCleanup(setattr, mounting, "WEIGHTFS", before)
    mounting.WEIGHTFS = built()
    with open(ENABLED) as file:
        unittest.addModuleCleanup(enable, file.read())
    enable("1")


def enable(value):
    with open(ENABLED, "w") as file:
        file.write(value)


class SlowFiles(HungFiles):
    """One file of these bytes in each of the directories `names`. With `hangs` set, reads block until resume() or end()."""

    FILE = 100

    def __init__(self, test, names, content):
        self.names = names
        self.content = content
        self.blocked = []
        super().__init__(test)

    def resume(self):
        self.hangs = False
        for unique, offset, size in self.blocked:
            self._reply(unique, self.content[offset:offset + size])

    def _serve(self):
        while True:
            try:
                request = os.read(self.device, 1 << 18)
                _, operation, unique, node = struct.unpack_from("=IIQQ", request)
                if operation == 15:  # READ
                    _, offset, size = struct.unpack_from("=QQI", request, 40)
                    if self.hangs:
                        self.blocked.append((unique, offset, size))
                    else:
                        self._reply(unique, self.content[offset:offset + size])
                elif operation not in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET
                    self._reply(unique, self._body(operation, node, request[40:]))
            except OSError as error:
                if error.errno != 2:  # ENOENT: the request was interrupted
                    return os.close(self.device)

    def _reply(self, unique, body):
        error = 0 if body is not None else -2
        os.write(self.device, struct.pack("=IiQ", 16 + len(body or b""), error, unique) + (body or b""))

    def _body(self, operation, node, request):
        """Nodes: 1 the root, 2 `folder`, from 10 on the directories in it, from 110 on their files."""
        if operation == INIT:
            return struct.pack("=IIIIHHIIHH32x", 7, 31, 1 << 17, 0, 0, 0, 1 << 17, 1, 0, 0)
        if operation == LOOKUP:
            return self._entry(self._child(node, request.rstrip(b"\0").decode()))
        if operation == 3:  # GETATTR
            return struct.pack("=QII", 0, 0, 0) + self._attributes(node)
        if operation in (14, 27):  # OPEN, OPENDIR
            return struct.pack("=QII", 0, 0, 0)
        if operation == 28:  # READDIR
            return self._entries(node, struct.unpack_from("=QQ", request)[1])
        return b"" if operation in (18, 25, 29) else None  # FLUSH, RELEASE, RELEASEDIR

    def _children(self, node):
        if node == 1:
            return {"folder": 2}
        if node == 2:
            return {name: 10 + number for number, name in enumerate(self.names)}
        return {"m.safetensors": self.FILE + node}

    def _child(self, node, name):
        return self._children(node).get(name)

    def _entries(self, node, offset):
        out = b""
        for position, (name, child) in list(enumerate(self._children(node).items(), 1))[offset:]:
            text = name.encode()
            kind = 8 if child >= self.FILE else 4  # DT_REG, DT_DIR
            out += struct.pack("=QQII", child, position, len(text), kind) + text + bytes(-len(text) % 8)
        return out

    def _attributes(self, node):
        is_file = node >= self.FILE
        mode, size = (0o100644, len(self.content)) if is_file else (0o40755, 0)
        return struct.pack("=QQQQQQIIIIIIIIII", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1 if is_file else 2, 0, 0, 0, 4096, 0)

    def _entry(self, node):
        return None if node is None else struct.pack("=QQQQII", node, 0, 0, 0, 0, 0) + self._attributes(node)


class Case(MountTestCase):
    def requests_by(self, point):
        with open(os.path.join(point, ".weightfs", "status.json")) as file:
            return json.load(file)["io_uring"]

    def mount_rings(self, *sources, at="mnt"):
        point = self.mount(*RINGS, *sources, at=at)
        self.assertEqual(self.requests_by(point), {"used": True})
        return point

    def model(self, name="m.safetensors", size=SIZE):
        self.data = random.Random(1).randbytes(size)
        self.sample(name, [Tensor("w", "uint8", (size,), self.data)])
        return self.path(name)

    def ring_threads(self, server):
        names = []
        for task in os.listdir(f"/proc/{server}/task"):
            with open(f"/proc/{server}/task/{task}/comm") as file:
                names.append(file.read().strip())
        return [name for name in names if name.startswith("fuse-ring")]


class Bytes(Case):
    def test_reads_of_all_sizes_return_the_bytes(self):
        point = self.mount_rings(self.model())
        self.assertEqual(len(self.ring_threads(self.server(point))), os.sysconf("SC_NPROCESSORS_CONF"))
        path = os.path.join(point, "tensors", "w")
        numbers = random.Random(2)
        fd = os.open(path, os.O_RDONLY)
        self.addCleanup(os.close, fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        for _ in range(500):
            offset, size = numbers.randrange(SIZE), numbers.choice((1, 4096, 100_000, 600_000))
            self.assertEqual(os.pread(fd, size, offset), self.data[offset:offset + size])
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapping:
            self.assertEqual(mapping[:], self.data)

    def test_names_attributes_and_extended_attributes(self):
        container = self.sample()
        without = self.mount("--offline", container, at="without")
        point = self.mount_rings(container)
        for folder, folders, files in os.walk(without):
            below = os.path.relpath(folder, without)
            self.assertEqual(sorted(os.listdir(os.path.join(point, below))), sorted(folders + files))
            for name in folders + files:
                one, other = os.path.join(folder, name), os.path.join(point, below, name)
                self.assertEqual(os.stat(one).st_size, os.stat(other).st_size)
                self.assertEqual(os.listxattr(one), os.listxattr(other))
        with self.assertRaises(FileNotFoundError):
            os.stat(os.path.join(point, "tensors", "missing"))

    def test_truncated_container_fails_reads_and_not_the_server(self):
        container = self.model()
        point = self.mount_rings(container)
        with open(os.path.join(point, "tensors", "w"), "rb", buffering=0) as file:
            self.assertEqual(file.read(4096), self.data[:4096])
            os.truncate(container, 100_000)
            with self.assertRaises(OSError):
                os.pread(file.fileno(), 1 << 20, SIZE - (1 << 20))
        self.assertIn("tensors", os.listdir(point))


class Waiting(Case):
    def setUp(self):
        super().setUp()
        container = self.model(size=100_000)
        with open(container, "rb") as file:
            content = file.read()
        self.names = [f"slow{number}" for number in range(8)]
        self.files = SlowFiles(self, self.names, content)
        self.mnt = self.mount_rings(self.files.folder, container)
        self.folder, = [os.path.join(self.mnt, name) for name in os.listdir(self.mnt) if name == "folder"]
        self.other, = [os.path.join(self.mnt, name) for name in os.listdir(self.mnt) if name != "folder"]
        os.listdir(self.folder)
        self.files.hangs = True

    def start_waiting(self):
        """Processes that enter a model whose header cannot be read yet."""
        readers = [subprocess.Popen(["ls", os.path.join(self.folder, name)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                   for name in self.names]
        for reader in readers:
            self.addCleanup(reader.stdout.close)
            self.addCleanup(reader.wait)
        self.addCleanup(self.files.end)
        until(lambda: len(self.files.blocked) == len(self.names), "not all of them wait")
        return readers

    def test_waiting_readers_do_not_delay_others(self):
        readers = self.start_waiting()
        for cpu in os.sched_getaffinity(0):  # each processor has a ring
            listed = subprocess.run(["taskset", "-c", str(cpu), "ls", "-lR", self.other], capture_output=True, text=True,
                                    timeout=LIMIT_S)
            self.assertIn("w", listed.stdout)
        self.assertEqual([reader.poll() for reader in readers], [None] * len(readers))
        self.files.resume()
        for reader in readers:
            self.assertIn(b"tensors", reader.communicate(timeout=LIMIT_S)[0])

    def test_interrupt_ends_a_waiting_reader(self):
        readers = self.start_waiting()
        readers[0].send_signal(signal.SIGINT)
        self.assertEqual(readers[0].wait(LIMIT_S), -signal.SIGINT)
        self.assertEqual([reader.poll() for reader in readers[1:]], [None] * (len(readers) - 1))
        self.files.resume()
        for reader in readers[1:]:
            self.assertIn(b"tensors", reader.communicate(timeout=LIMIT_S)[0])
        self.assertIn("tensors", os.listdir(os.path.join(self.folder, self.names[0])))


class Ending(Case):
    def assert_nothing_is_left(self, server, point):
        until(lambda: has_ended(server), "the server does not end")
        self.assertFalse(os.path.ismount(point))
        self.assertFalse(os.path.exists(point))

    def test_unmounting_ends_the_server(self):
        for command in (["umount"], ["umount", "-l"]):
            with self.subTest(command):
                point = self.mount_rings(self.model())
                server = self.server(point)
                subprocess.run([*command, point], check=True, timeout=LIMIT_S)
                self.assert_nothing_is_left(server, point)

    def test_sigterm_under_load_ends_the_server(self):
        point = self.mount_rings(self.model())
        server = self.server(point)
        ended = threading.Event()

        def read():
            try:
                with open(os.path.join(point, "tensors", "w"), "rb", buffering=0) as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                    while not ended.is_set():
                        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                        os.pread(file.fileno(), 4096, 4096)
            except OSError:
                pass  # the mount has gone

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        os.kill(server, signal.SIGTERM)
        gone = eventually(lambda: has_ended(server), LIMIT_S)
        ended.set()
        for reader in readers:
            reader.join()
        self.assertTrue(gone, "the server does not end")
        self.assert_nothing_is_left(server, point)

    def test_aborted_connection_ends_the_server(self):
        point = self.mount_rings(self.model())
        server, device = self.server(point), os.stat(point).st_dev
        connection = f"/sys/fs/fuse/connections/{os.minor(device)}/abort"
        if not os.path.exists(connection):
            self.skipTest("no fusectl file system is mounted at /sys/fs/fuse/connections")
        with open(connection, "w") as file:
            file.write("1")
        until(lambda: has_ended(server), "the server does not end")


class Choice(Case):
    def test_mount_that_can_use_the_network_has_no_rings(self):
        point = self.mount("--io-uring", "auto", self.model())
        self.assertEqual(self.requests_by(point), {"used": False, "reason": "the mount can use the network; add --offline"})
        self.assertEqual(check_of(mounting.WEIGHTFS, f"requests of {point}"),
                         "by /dev/fuse: the mount can use the network; add --offline")

    def test_rings_are_an_option(self):
        point = self.mount("--offline", self.model())
        self.assertEqual(self.requests_by(point), {"used": False, "reason": "--io-uring=off"})
        self.assertEqual(self.ring_threads(self.server(point)), [])

    def test_doctor_names_the_mount_with_rings(self):
        point = self.mount_rings(self.model())
        self.assertEqual(check_of(mounting.WEIGHTFS, f"requests of {point}"), "by io_uring")

    def test_without_the_module_parameter_requests_come_by_the_device(self):
        enable("0")
        self.addCleanup(enable, "1")
        point = self.mount(*RINGS, self.model())
        self.assertEqual(self.requests_by(point), {"used": False, "reason": "not enabled in the kernel; see weightfs doctor"})
        self.assertEqual(self.read("mnt", "tensors", "w"), self.data)


if __name__ == "__main__":
    unittest.main()
