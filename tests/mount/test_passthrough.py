"""Passthrough: files that the kernel reads itself. See docs/semantics.md, rules 6.4, 10.8 and 17.9."""
import array
import errno
import json
import mmap
import random
import re
import socket
import threading
import time

from mounting import (LIMIT_S, WEIGHTFS, MountTestCase, UsersTestCase, as_nobody, containers, descriptors_of, eventually, halt,
                      has_ended, is_sanitized, os, processes_of, run, signal, subprocess, sys, unittest, until)
from tensors import one_tensor
import archives
import reading
import stores
from service_manager import BrokerSocket
from test_archives import ArchiveTestCase, noise
from test_service import ServiceMountTestCase

MEGABYTE = 1 << 20
SIZE = 4 * MEGABYTE
PAGE = mmap.PAGESIZE
THREADS = 8


def whole(fd, size):
    """`size` bytes from the start of a file, in several reads."""
    out = b""
    while len(out) < size:
        piece = os.pread(fd, size - len(out), len(out))
        if not piece:
            break
        out += piece
    return out


@unittest.skipUnless(os.getuid() == 0, "passthrough needs root")
class Case(MountTestCase):
    def status(self, point):
        with open(os.path.join(point, ".weightfs", "status.json")) as file:
            return json.load(file)

    looks = 0  # reads of the metrics

    def metrics(self, point):
        """What .weightfs/metrics says, by {series: number}. This takes one request."""
        with open(os.path.join(point, ".weightfs", "metrics"), "rb", buffering=0) as file:
            text = file.read(MEGABYTE).decode()
        self.looks += 1
        return {series: float(number) for series, number in re.findall(r"^(weightfs.*) (\S+)$", text, re.MULTILINE)}

    def metric(self, point, series, label=""):
        found, = [number for name, number in self.metrics(point).items()
                  if re.fullmatch(rf'{series}{{mountpoint="[^"]*",?{label}}}', name)]
        return found

    def check_at(self, path, order, wrong):
        """One read of a random kind at a random place; mapped pages are read by write(2), which fails instead of raising SIGBUS."""
        offset, size = order.randrange(SIZE - 70_000), order.randrange(1, 65_536)
        fd = os.open(path, os.O_RDONLY)
        reader, writer = os.pipe()
        try:
            kind = order.choice(("read", "mmap", "splice"))
            if kind == "read":
                got = os.pread(fd, size, offset)
            elif kind == "splice":
                got = os.read(reader, os.splice(fd, writer, size, offset_src=offset))
            else:
                with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapping, memoryview(mapping) as view:
                    got = os.read(reader, os.write(writer, view[offset:offset + min(size, PAGE)]))
            if got != self.data[offset:offset + len(got)]:
                wrong.append((kind, offset, len(got)))
        finally:
            for number in (fd, reader, writer):
                os.close(number)
        return 1

    def read_requests(self, point):
        """How many reads were answered, but for those of the metrics. A request is counted after its answer was sent, so this
        looks until no other is under way."""
        label = f'mountpoint="{point}"'
        reads = []

        def is_alone():
            earlier, metrics = self.looks, self.metrics(point)
            reads.append(metrics[f'weightfs_request_duration_seconds_count{{{label},operation="read"}}'] - earlier)
            return metrics[f"weightfs_requests_in_flight{{{label}}}"] == 1
        self.assertTrue(eventually(is_alone))
        return reads[-1]

    def mount_or_skip(self, *argv, **kwargs):
        """A mount where files can pass through."""
        point = self.mount(*argv, **kwargs)
        passthrough = self.status(point)["passthrough"]
        if passthrough.get("reason") in ("kernel without passthrough", "needs CAP_SYS_ADMIN"):
            self.skipTest(passthrough["reason"])
        self.assertTrue(passthrough["available"], passthrough)
        return point

    def tier(self, point, path):
        """(tier, reason) of an open file."""
        file, = [file for file in self.status(point)["passthrough"]["files"] if file["path"] == path]
        return file["tier"], file.get("reason", "")

    def open(self, *path):
        fd = os.open(os.path.join(*path), os.O_RDONLY)
        self.addCleanup(self.close, fd)
        return fd

    def close(self, fd):
        try:
            os.close(fd)
        except OSError:
            pass  # closed by the test

    def protected(self, name="m.gguf"):
        """A write-protected container, and its bytes."""
        path = self.path(name)
        containers.write_gguf(path, one_tensor(SIZE, fill=True), {"general.name": "test"})
        os.chmod(path, 0o444)
        return path, self.read(name)

    def processes(self, name):
        """The processes of that name among those of this test."""
        found = []
        for pid in processes_of(self.tmp):
            with open(f"/proc/{pid}/comm") as file:
                if file.read().strip() == name:
                    found.append(pid)
        return found


class Container(Case):
    def setUp(self):
        super().setUp()
        self.source, self.data = self.protected()
        self.point = self.mount_or_skip(self.source)
        self.file = os.path.join(self.point, "files", "m.gguf")

    def test_write_protected_container_is_read_without_requests(self):
        before = self.read_requests(self.point)
        fd = self.open(self.file)
        ways = {way: read for way, read in reading.WAYS.items() if way != "WILLNEED"}  # see the next test
        if not reading.refusal_of_io_uring():
            ways["io_uring"] = reading.by_io_uring
        for way, read in ways.items():
            with self.subTest(way=way):
                self.assertTrue(read(fd) == self.data)
        self.assertEqual(self.read_requests(self.point) - before, 0)
        self.assertEqual(self.tier(self.point, "files/m.gguf"), ("passthrough", ""))
        self.assertEqual(self.status(self.point)["served_bytes"], 0)
        self.assertEqual(self.status(self.point)["passthrough"]["opened"], {"passthrough": 2, "server": 0}, "one by O_DIRECT")
        self.assertEqual(self.metric(self.point, "weightfs_opened_files_total", 'tier="passthrough"'), 2)

    # The kernel reads ahead into the pages of the mount, which it does not use then.
    def test_requested_read_ahead_does_not_disturb_reads(self):
        before = self.read_requests(self.point)
        fd = self.open(self.file)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
        with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapping:
            mapping.madvise(mmap.MADV_WILLNEED)
            self.assertTrue(mapping[:] == self.data)
        self.assertTrue(whole(fd, len(self.data)) == self.data)
        self.assertLessEqual(self.read_requests(self.point) - before, 8)

    def test_direct_io_gives_the_same_bytes(self):
        fd = os.open(self.file, os.O_RDONLY | os.O_DIRECT)
        self.addCleanup(self.close, fd)
        buffer = mmap.mmap(-1, MEGABYTE)
        os.preadv(fd, [buffer], MEGABYTE)
        self.assertTrue(buffer[:] == self.data[MEGABYTE:2 * MEGABYTE])
        both = self.open(self.file)
        self.assertEqual(whole(both, len(self.data)), self.data)

    def test_files_opened_at_once_share_their_tier(self):
        failures = []

        def use(number):
            order = random.Random(number)
            try:
                for _ in range(50):
                    fd = os.open(self.file, os.O_RDONLY)
                    offset = order.randrange(SIZE)
                    if os.pread(fd, 5000, offset) != self.data[offset:offset + 5000]:
                        failures.append(offset)
                    os.close(fd)
            except OSError as error:
                failures.append(error)
        in_threads(use)
        self.assertEqual(failures, [])
        self.assertEqual(self.status(self.point)["passthrough"]["opened"], {"passthrough": 50 * THREADS, "server": 0})
        # The kernel does not wait for the reply to RELEASE.
        until(lambda: self.status(self.point)["passthrough"]["files"] == [], "files stay open")

    def test_other_files_of_the_mount_are_read_from_the_server(self):
        for path, reason in (("tensors/weight", "part of a larger file"), ("metadata.json", "not a local file")):
            fd = self.open(self.point, path)
            os.read(fd, 100)
            self.assertEqual(self.tier(self.point, path), ("server", reason))
            self.assertEqual(self.metric(self.point, "weightfs_opened_files_total", f'tier="server",reason="{reason}"'), 1)

    def test_descriptors_are_closed_with_the_last_open_file(self):
        broker, = self.processes("weightfs-pass")
        counts = []
        for _ in range(3):
            for _ in range(20):
                fds = [os.open(self.file, os.O_RDONLY) for _ in range(3)]
                for fd in fds:
                    os.close(fd)
            until(lambda: self.status(self.point)["passthrough"]["files"] == [], "files stay open")
            counts.append(sum(map(descriptors_of, (broker, self.server(self.point)))))
        self.assertLess(counts[-1], counts[0] + 10, counts)  # a request under way has one or two; a leak would be 60 a round

    # The kernel maps the local file itself.
    def test_mapping_outlives_the_mount_and_a_killed_server(self):
        for ending in ("kill", "unmount"):
            with self.subTest(ending):
                fd = os.open(self.file, os.O_RDONLY)
                with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapping:
                    os.close(fd)
                    if ending == "kill":
                        server = self.server(self.point)
                        os.kill(server, signal.SIGKILL)
                        until(lambda: has_ended(server), "the server does not end")
                    done = run("umount", "--lazy", self.point)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertTrue(mapping[:] == self.data)
                if ending == "kill":
                    self.mount(self.source)

    def test_stopped_server_does_not_delay_reads(self):
        fd = self.open(self.file)
        self.stop(self.point)
        self.assertEqual(whole(fd, len(self.data)), self.data)


class ChangedContainer(Case):
    # semantics 6.4
    def test_writable_container_is_read_from_the_server(self):
        source = self.sample()
        point = self.mount_or_skip(source)
        fd = self.open(point, "files/model.safetensors")
        self.assertEqual(self.tier(point, "files/model.safetensors"), ("server", "file is writable"))
        with open(source, "r+b") as file:
            file.write(b"changed")
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # the kernel has the bytes of a small file since its open
        with self.assertRaises(OSError) as caught:
            os.pread(fd, 100, 0)
        self.assertEqual(caught.exception.errno, errno.EIO)

    def test_replaced_container_is_not_opened_again_and_open_files_keep_the_old_bytes(self):
        source, data = self.protected()
        point = self.mount_or_skip(source)
        fd = self.open(point, "files/m.gguf")
        self.write("new", bytes(len(data)))
        os.rename(self.path("new"), source)
        self.assertEqual(whole(fd, len(data)), data)
        self.assert_not_opened(point)
        os.close(fd)
        self.assert_unreadable(point)

    # Only root, and the owner after a chmod(2), can write to the file.
    def test_rewrite_by_root_is_seen_by_open_files_and_fails_the_next_open(self):
        source, data = self.protected()
        point = self.mount_or_skip(source)
        fd = self.open(point, "files/m.gguf")
        with open(source, "r+b") as file:
            file.write(b"changed")
        self.assertEqual(os.pread(fd, 7, 0), b"changed")
        self.assert_not_opened(point)
        os.close(fd)
        self.assert_unreadable(point)

    def test_truncation_gives_sigbus_to_the_reader_and_not_to_the_server(self):
        source, data = self.protected()
        point = self.mount_or_skip(source)
        reader = subprocess.Popen([sys.executable, "-c", """if True:
            import mmap, sys
            with open(sys.argv[1], "rb") as file:
                mapping = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
                print("mapped", flush=True)
                sys.stdin.read()
                print(len(file.read(100)), mapping[-1], flush=True)
            """, os.path.join(point, "files/m.gguf")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(reader.kill)
        self.assertEqual(reader.stdout.readline(), "mapped\n")
        os.truncate(source, PAGE)
        out, _ = reader.communicate(timeout=LIMIT_S)
        self.assertEqual((reader.returncode, out), (-signal.SIGBUS, ""))
        self.assert_unreadable(point)
        self.assertTrue(self.status(point)["passthrough"]["available"], "the server is alive")

    def test_threads_read_right_bytes_while_the_container_is_cut(self):
        source, self.data = self.protected()
        path = os.path.join(self.mount_or_skip(source), "files", "m.gguf")
        stop, cut, wrong, reads = threading.Event(), threading.Event(), [], [0] * THREADS

        def read(number):
            order = random.Random(number)
            while not stop.is_set():
                try:
                    reads[number] += self.check_at(path, order, wrong)
                except OSError as error:
                    reads[number] += 1
                    if not cut.is_set():
                        wrong.append(error)
        threads = start_threads(read)
        try:
            for size in (SIZE, SIZE // 2, PAGE):
                if size < SIZE:
                    cut.set()
                    os.truncate(source, size)
                had = list(reads)
                until(lambda: all(now > then + 5 for now, then in zip(reads, had)), "no reads")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])

    def assert_not_opened(self, point):
        with self.assertRaises(OSError) as caught:
            os.open(os.path.join(point, "files/m.gguf"), os.O_RDONLY)
        self.assertEqual(caught.exception.errno, errno.EIO)

    def assert_unreadable(self, point):
        """After the last open file was closed."""
        def fails():
            try:
                fd = os.open(os.path.join(point, "files/m.gguf"), os.O_RDONLY)
            except OSError as error:
                self.assertEqual(error.errno, errno.EIO)
                return False  # the last RELEASE has not been processed
            try:
                os.pread(fd, 100, SIZE // 2)
            except OSError as error:
                self.assertEqual(error.errno, errno.EIO)
                return True
            finally:
                os.close(fd)
            self.fail("changed bytes are served")
        until(fails, "it cannot be opened")


class BlobCase(Case, ArchiveTestCase):
    """A member that is decoded into the cache: `data`, shown as `file` in the mount at `point`."""

    def open_passing(self):
        """Opens the cached blob; reads it before if its pages were not in memory."""
        for _ in range(10):
            fd = self.open(self.file)
            tier = self.tier(self.point, "files/model/w")
            if tier != ("server", "not all blocks are compared yet"):
                break
            self.assertTrue(whole(fd, SIZE) == self.data)
            os.close(fd)
            until(lambda: self.status(self.point)["passthrough"]["files"] == [], "the file stays open")
        self.assertEqual(tier, ("passthrough", ""))
        return fd


class CachedBlob(BlobCase):
    def setUp(self):
        super().setUp()
        self.data = noise(SIZE // 2) + bytes(SIZE // 2)
        self.source = self.carton(files={"model/w": self.data}, method=archives.DEFLATE)
        self.point = self.mount_or_skip(self.source)
        self.file = os.path.join(self.point, "files", "model", "w")

    def decode(self):
        with open(self.file, "rb") as file:
            self.assertTrue(file.read() == self.data)
            tier = self.tier(self.point, "files/model/w")
        self.published()
        until(lambda: self.status(self.point)["passthrough"]["files"] == [], "the file stays open")
        return tier

    def test_decoded_member_passes_when_it_is_cached(self):
        self.assertEqual(self.decode(), ("server", "not cached"))
        fd = self.open_passing()
        before = self.read_requests(self.point)
        self.assertTrue(whole(fd, SIZE) == self.data)
        self.assertEqual(self.read_requests(self.point) - before, 0)
        other = self.mount(self.source, at="other")
        fd = self.open(other, "files/model/w")
        self.assertEqual(self.tier(other, "files/model/w"), ("passthrough", ""))
        self.assertTrue(whole(fd, SIZE) == self.data)

    # semantics 10.8
    def test_damaged_blob_does_not_pass(self):
        self.decode()
        self.unmount(self.point)
        blob, = self.published()
        with open(blob, "r+b") as file:
            file.seek(MEGABYTE)
            file.write(bytes([self.data[MEGABYTE] ^ 1]))
        self.mount(self.source)
        self.assertEqual(self.decode()[0], "server")
        self.assertTrue(whole(self.open_passing(), SIZE) == self.data)

    def test_evicted_blob_stays_readable_while_it_is_open(self):
        self.decode()
        fd = self.open_passing()
        with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapping:
            self.assertEqual(run("cache", "rm", "--all").returncode, 0)
            self.assertEqual(self.published(0), [])
            self.assertTrue(whole(self.open(self.file), SIZE) == self.data)
            self.assertTrue(mapping[:] == self.data)
        self.assertTrue(whole(fd, SIZE) == self.data)

    def test_threads_read_right_bytes_while_blob_is_evicted_and_server_is_killed(self):
        """Right bytes or an error: by read, mmap and splice, with and without passthrough."""
        for option in ("auto", "off"):
            with self.subTest(passthrough=option):
                point = self.mount("--passthrough", option, self.source, at=option)
                path = os.path.join(point, "files", "model", "w")
                with open(path, "rb") as file:
                    file.read()
                stop, killed, wrong, reads = threading.Event(), threading.Event(), [], [0] * THREADS

                def read(number):
                    order = random.Random(number)
                    while not stop.is_set():
                        try:
                            reads[number] += self.check_at(path, order, wrong)
                        except OSError as error:
                            if not killed.is_set():
                                wrong.append(error)
                threads = start_threads(read)
                until(lambda: min(reads) > 20, "no reads")
                for _ in range(5):
                    run("cache", "rm", "--all")
                    had = list(reads)
                    until(lambda: all(now > then for now, then in zip(reads, had)), "no reads")
                server = self.server(point)
                killed.set()
                os.kill(server, signal.SIGKILL)
                until(lambda: not self.is_served(point), "it is still served")
                stop.set()
                for thread in threads:
                    thread.join()
                self.assertEqual(wrong, [])

    def is_served(self, point):
        try:
            os.stat(os.path.join(point, ".weightfs", "log"))
        except OSError:
            return False
        return True


class ExternalBlob(Case):
    """A layer of an Ollama store."""

    def test_verified_blob_passes_if_it_is_write_protected(self):
        os.environ["OLLAMA_MODELS"] = self.path("none")
        self.addCleanup(os.environ.pop, "OLLAMA_MODELS")
        data = stores.gguf(self.tmp, one_tensor(SIZE + 1024, fill=True))
        store = stores.Store(self.path("store"))
        manifest = store.put_package("tiny/latest", stores.Package().add("model", data))
        blob = store.blob_path(data)
        for mode, tier in ((0o644, ("server", "file is writable")), (0o444, ("passthrough", ""))):
            with self.subTest(mode=oct(mode)):
                os.chmod(blob, mode)
                point = self.mount_or_skip("--offline", manifest, at=f"mnt{mode:o}")
                whole(self.open(point, "files/model.gguf"), len(data))  # verifies it
                fd = self.open(point, "files/model.gguf")
                self.assertEqual(whole(fd, len(data)), data)


class Processes(Case):
    def setUp(self):
        super().setUp()
        self.source, self.data = self.protected()

    def capabilities(self, pid):
        with open(f"/proc/{pid}/status") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        return {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")}, fields["NoNewPrivs"], fields["Seccomp"]

    @unittest.skipIf(is_sanitized(), "builds with sanitizers are not confined")
    def test_broker_keeps_one_capability_and_the_server_none(self):
        point = self.mount_or_skip(self.source)
        broker, = self.processes("weightfs-pass")
        cap_sys_admin = 1 << 21
        self.assertEqual(self.capabilities(broker), ({cap_sys_admin, 0}, "1", "2"))
        self.assertEqual(self.capabilities(self.server(point)), ({0}, "1", "2"))
        targets = sorted(os.readlink(f"/proc/{broker}/fd/{fd}") for fd in os.listdir(f"/proc/{broker}/fd"))
        self.assertEqual([target for target in targets if not target.startswith(("socket:", "/dev/null", "pipe:"))],
                         [])  # the device only during a request

    def test_broker_ends_with_its_server(self):
        for number in (signal.SIGKILL, signal.SIGTERM):
            point = self.mount_or_skip(self.source)
            broker, = self.processes("weightfs-pass")
            server = self.server(point)
            os.kill(server, number)
            until(lambda: has_ended(broker) and has_ended(server), "it stays")
            if number == signal.SIGKILL:
                with self.assertRaises(OSError) as caught:
                    os.listdir(point)
                self.assertEqual(caught.exception.errno, errno.ENOTCONN)
                self.unmount(point)

    def test_killed_broker_leaves_files_to_the_server(self):
        point = self.mount_or_skip(self.source)
        os.kill(*self.processes("weightfs-pass"), signal.SIGKILL)
        fd = self.open(point, "files/m.gguf")
        self.assertEqual(whole(fd, len(self.data)), self.data)
        self.assertEqual(self.tier(point, "files/m.gguf")[0], "server")
        os.close(fd)
        self.unmount(point)

    def test_passthrough_can_be_turned_off(self):
        point = self.mount("--passthrough", "off", self.source)
        self.assertEqual(self.processes("weightfs-pass"), [])
        fd = self.open(point, "files/m.gguf")
        self.assertEqual(whole(fd, len(self.data)), self.data)
        self.assertEqual(self.tier(point, "files/m.gguf"), ("server", "--passthrough=off"))
        self.assertEqual(self.status(point)["passthrough"]["available"], False)
        os.close(fd)
        done = run("mount", "-o", "passthrough=on", self.source, self.path("other"))
        self.assertEqual((done.returncode, '"on" is not valid; use auto or off' in done.stderr), (2, True), done.stderr)


class Users(UsersTestCase):
    def test_mount_of_an_ordinary_user_is_read_from_the_server(self):
        point = self.path("open", "mnt")
        os.makedirs(point)
        os.chmod(self.path("open"), 0o777)
        os.chown(point, 65534, 65534)
        self.addCleanup(self.force_unmount, point)
        done = as_nobody(self.binary, "mount", "--no-cache", self.source, point)
        self.assertEqual(done.returncode, 0, done.stderr)
        status = as_nobody("cat", os.path.join(point, ".weightfs", "status.json"))
        self.assertEqual(json.loads(status.stdout)["passthrough"],
                         {"available": False, "reason": "needs root", "opened": {"passthrough": 0, "server": 0}, "files": []})
        self.assertEqual(as_nobody("cmp", os.path.join(point, "files/model.safetensors"), self.source).returncode, 0)
        as_nobody(self.binary, "umount", point)

    def test_service_of_an_ordinary_user_is_read_from_the_server(self):
        point = self.path("open", "mnt")
        os.makedirs(point)
        os.chown(self.path("open"), 65534, 65534)
        os.chown(point, 65534, 65534)
        self.addCleanup(self.force_unmount, point)
        config = self.write("a.conf", f"SOURCE={self.source}\nMOUNTPOINT={point}\nOPTIONS=no_cache\n".encode())
        server = subprocess.Popen([self.binary, "service", "serve", config], stderr=subprocess.DEVNULL, user=65534, group=65534,
                                  extra_groups=[])
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        path = os.path.join(point, ".weightfs", "status.json")
        until(lambda: as_nobody("test", "-e", path).returncode == 0, "it is not mounted")
        passthrough = json.loads(as_nobody("cat", path).stdout)["passthrough"]
        self.assertEqual((passthrough["available"], passthrough["reason"]), (False, "needs root"))
        server.terminate()
        self.assertEqual(server.wait(LIMIT_S), 0)


class ServiceCase(ServiceMountTestCase, Case):
    """A service of the user nobody, with brokers that are started as by weightfs-passthrough.socket."""

    def setUp(self):
        super().setUp()
        self.socket_path = self.path("run-passthrough.sock")

    def listen(self, **kwargs):
        os.chmod(self.tmp, 0o755)
        brokers = BrokerSocket(self.socket_path, self.program_of_nobody(), **kwargs)
        self.addCleanup(brokers.close)
        return brokers

    def start(self, source, name="a", options="", **more):
        """Starts a service, and returns its server and its mount point."""
        point = self.path(f"mnt-{name}")
        self.addCleanup(self.force_unmount, point)
        config = self.write(f"{name}.conf", f"SOURCE={source}\nMOUNTPOINT={point}\nOPTIONS={options}\n".encode())
        self.attach(config)
        self.manager.notifications.clear()
        return self.serve_stored_as_nobody(config, **more), point

    def start_or_skip(self, source, name="a", **more):
        """A service whose files can pass through."""
        server, point = self.start(source, name, **more)
        passthrough = self.status(point)["passthrough"]
        if passthrough.get("reason") == "kernel without passthrough":
            self.skipTest(passthrough["reason"])
        self.assertTrue(passthrough["available"], passthrough)
        return server, point

    def reason(self, source, **more):
        """Why no file of a service passes through. Its files are readable."""
        server, point = self.start(source, **more)
        fd = self.open(point, "files/m.gguf")
        self.assertTrue(whole(fd, os.stat(source).st_size) == self.read("m.gguf"))
        os.close(fd)
        passthrough = self.status(point)["passthrough"]
        self.assertEqual(passthrough["available"], False)
        self.stop_service(server, point)
        return passthrough["reason"]

    def stop_service(self, server, point):
        server.terminate()
        self.assertEqual(server.wait(LIMIT_S), 0)
        self.force_unmount(point)


class Services(ServiceCase):
    def setUp(self):
        super().setUp()
        self.source, self.data = self.protected()

    def test_file_of_a_service_is_read_without_requests(self):
        brokers = self.listen()
        _, point = self.start_or_skip(self.source)
        fd = self.open(point, "files/m.gguf")
        self.assertTrue(whole(fd, len(self.data)) == self.data)
        with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapping:
            self.assertTrue(mapping[:] == self.data)
        self.assertEqual(self.tier(point, "files/m.gguf"), ("passthrough", ""))
        self.assertEqual(self.status(point)["passthrough"]["opened"], {"passthrough": 1, "server": 0})
        self.assertEqual(self.status(point)["served_bytes"],
                         0)  # a request is counted after its reply; the server would have several
        brokers.process(0)
        self.assertEqual(brokers.count(), 1)

    @unittest.skipIf(is_sanitized(), "builds with sanitizers are not confined")
    def test_broker_keeps_its_capability_and_its_connection_only(self):
        brokers = self.listen()
        self.start_or_skip(self.source)
        broker = brokers.process(0)
        with open(f"/proc/{broker.pid}/status") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        self.assertEqual([int(fields[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")], [1 << 21, 1 << 21, 0, 0])
        self.assertEqual((fields["Name"], fields["NoNewPrivs"], fields["Seccomp"]), ("weightfs-pass", "1", "2"))
        self.assertEqual(sorted(os.listdir(f"/proc/{broker.pid}/fd")), ["0", "1", "2", "3"])

    def test_broker_ends_with_its_server(self):
        brokers = self.listen()
        for broker, number in enumerate((signal.SIGKILL, signal.SIGTERM)):
            server, point = self.start_or_skip(self.source, name=number.name)
            fd = self.open(point, "files/m.gguf")
            server.send_signal(number)
            os.close(fd)
            server.wait(LIMIT_S)
            self.assertEqual(brokers.process(broker).wait(LIMIT_S), 0)
            self.force_unmount(point)

    def test_dead_broker_leaves_files_to_the_server(self):
        brokers = self.listen()
        for broker, number in enumerate((signal.SIGKILL, signal.SIGTERM)):
            server, point = self.start_or_skip(self.source, name=number.name)
            passed = self.open(point, "files/m.gguf")
            brokers.process(broker).send_signal(number)
            self.assertEqual(brokers.process(broker).wait(LIMIT_S), -number)
            self.assertTrue(whole(passed, len(self.data)) == self.data)
            os.close(passed)
            until(lambda: self.status(point)["passthrough"]["files"] == [], "the file stays open")
            fd = self.open(point, "files/m.gguf")
            self.assertTrue(whole(fd, len(self.data)) == self.data)
            self.assertEqual(self.tier(point, "files/m.gguf")[0], "server")
            os.close(fd)
            self.stop_service(server, point)

    # Opening waits for the reply, as long as Broker::connect() permits.
    def test_stopped_broker_leaves_files_to_the_server(self):
        brokers = self.listen()
        _, point = self.start_or_skip(self.source)
        broker = brokers.process(0)
        halt(broker.pid)
        fd = self.open(point, "files/m.gguf")
        self.assertTrue(whole(fd, len(self.data)) == self.data)
        self.assertEqual(self.tier(point, "files/m.gguf")[0], "server")
        broker.send_signal(signal.SIGCONT)
        self.assertEqual(broker.wait(LIMIT_S), 0, "the connection was closed")

    def test_services_have_a_broker_each(self):
        brokers = self.listen()
        first, point = self.start_or_skip(self.source)
        _, other = self.start_or_skip(self.source, name="b")
        brokers.process(1)
        self.assertEqual(brokers.count(), 2)
        self.stop_service(first, point)
        self.assertEqual(brokers.process(0).wait(LIMIT_S), 0)
        fd = self.open(other, "files/m.gguf")
        self.assertEqual(self.tier(other, "files/m.gguf"), ("passthrough", ""))
        self.assertTrue(whole(fd, len(self.data)) == self.data)

    def test_service_without_a_broker_reports_the_reason(self):
        place = f"no broker of backing files: {self.socket_path}: "
        self.assertEqual(self.reason(self.source), place + "No such file or directory")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.socket_path)
            self.assertEqual(self.reason(self.source, name="closed"), place + "Permission denied")
            os.chmod(self.socket_path, 0o666)
            self.assertEqual(self.reason(self.source, name="deaf"), place + "Connection refused")

    # As systemd does if there are too many connections.
    def test_closed_connection_is_reported(self):
        os.chmod(self.tmp, 0o755)
        brokers = BrokerSocket(self.socket_path, "/bin/false")
        self.addCleanup(brokers.close)
        self.assertIn("the broker process", self.reason(self.source))

    def test_passthrough_of_a_service_can_be_turned_off(self):
        brokers = self.listen()
        self.assertEqual(self.reason(self.source, options="passthrough=off"), "--passthrough=off")
        self.assertEqual(brokers.count(), 0)

    # The kernel reads with the credentials of the broker, which a network file system checks.
    def test_file_that_the_broker_cannot_read_is_read_from_the_server(self):
        self.listen()
        os.chmod(self.source, 0o440)
        _, point = self.start_or_skip(self.source, groups=[os.stat(self.source).st_gid])
        fd = self.open(point, "files/m.gguf")
        self.assertTrue(whole(fd, len(self.data)) == self.data)
        self.assertEqual(self.tier(point, "files/m.gguf"), ("server", "the broker refuses: no permission to read it"))

    def test_number_of_registered_files_is_limited(self):
        limit = 8
        self.listen(descriptors=limit)
        for number in range(limit + 2):
            path = self.path("models", f"{number}.safetensors")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            containers.WRITERS["safetensors"](path, one_tensor(PAGE, fill=True), None)
            os.chmod(path, 0o444)
        _, point = self.start_or_skip(self.path("models"))
        files = [f"{number}.safetensors/files/{number}.safetensors" for number in range(limit + 2)]
        expected = [("passthrough", "")] * limit + [("server", f"the broker refuses: {limit} files pass through already")] * 2

        def tiers():
            """The tiers of files that are open at the same time."""
            fds = [os.open(os.path.join(point, file), os.O_RDONLY) for file in files]
            try:
                return [self.tier(point, file) for file in files]
            finally:
                for fd in fds:
                    os.close(fd)
                until(lambda: self.status(point)["passthrough"]["files"] == [], "files stay open")
        self.assertEqual(tiers(), expected)
        until(lambda: tiers() == expected, "closed files count")  # the server closes them at the broker after it has listed them

    def test_broker_is_only_for_the_service_manager(self):
        done = run("service", "passthrough")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no connection of the service manager", done.stderr)
        # A listening socket and a stream are no connection to a server.
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.socket_path)
            listener.listen()
            left, right = socket.socketpair()
            with left, right:
                for given in (listener, left):
                    done = subprocess.run(["bash", "-c", BrokerSocket.COMMAND, WEIGHTFS,
                                           str(given.fileno())], pass_fds=(given.fileno(), ), capture_output=True, text=True,
                                          timeout=LIMIT_S)
                    self.assertEqual(done.returncode, 2)
                    self.assertIn("no connection of the service manager", done.stderr)


class ServiceBlob(ServiceCase, BlobCase):
    def test_decoded_member_of_a_service_passes_when_it_is_cached(self):
        self.listen()
        self.data = noise(SIZE // 2) + bytes(SIZE // 2)
        _, self.point = self.start_or_skip(self.carton(files={"model/w": self.data}, method=archives.DEFLATE))
        self.file = os.path.join(self.point, "files", "model", "w")
        with open(self.file, "rb") as file:
            self.assertTrue(file.read() == self.data)
            self.assertEqual(self.tier(self.point, "files/model/w"), ("server", "not cached"))
        self.published()
        until(lambda: self.status(self.point)["passthrough"]["files"] == [], "the file stays open")
        fd = self.open_passing()
        before = self.status(self.point)["served_bytes"]
        self.assertTrue(whole(fd, SIZE) == self.data)
        self.assertLess(self.status(self.point)["served_bytes"] - before, SIZE // 2)  # an earlier request may be counted late


class HostileServer(ServiceCase):
    """Requests of a server that has been taken over."""

    def setUp(self):
        super().setUp()
        self.brokers = self.listen()
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(self.connection.close)
        self.connection.settimeout(LIMIT_S)
        self.connection.connect(self.socket_path)

    def ask(self, request, *descriptors):
        """(status, text) of the reply."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self.connection.sendmsg([request], rights)
        reply = self.connection.recv(MEGABYTE)
        return int.from_bytes(reply[:4], sys.byteorder, signed=True), reply[4:].decode()

    def refused(self, request, *descriptors):
        status, text = self.ask(request, *descriptors)
        self.assertLess(status, 0)
        return text

    def descriptors(self):
        return sorted(os.listdir(f"/proc/{self.brokers.process(0).pid}/fd"))

    def test_wrong_descriptors_are_refused(self):
        device = os.open("/dev/fuse", os.O_RDWR)
        self.addCleanup(os.close, device)
        path = self.write("file", b"bytes")
        no_file = "not a regular file that is open for reading"
        self.assertEqual(self.refused(b"d", self.open("/dev/null")), "not the device of a mount")
        self.assertEqual(self.refused(b"u", self.open(path)), "not the device of a mount")
        self.assertEqual(self.refused(b"u"), "not the device of a mount")
        self.assertEqual(self.refused(b"o", self.open(path)), "not mounted yet")
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        writable = os.open(path, os.O_RDWR)
        self.addCleanup(os.close, writable)
        nameless = os.open(path, os.O_PATH)
        self.addCleanup(os.close, nameless)
        for wrong, reason in (((), no_file), ((reader, ), no_file), ((writable, ), no_file), ((nameless, ), no_file),
                              ((device, ), no_file), ((self.open(self.tmp), ), no_file), ((self.open("/proc/self/status"), ),
                                                                                          "file system without storage"),
                              ((self.open("/sys/kernel/notes"), ), "file system without storage")):
            self.assertEqual(self.ask(b"u", device), (0, ""))
            self.assertEqual(self.refused(b"o", *wrong), reason)
        self.assertEqual(self.refused(b"x"), "unknown request")
        self.assertEqual(self.refused(b"x" * 5000), "unknown request")
        self.assertEqual(self.ask(b"u", device), (0, ""))
        self.assertLess(self.ask(b"c" + bytes(3))[0], 0)
        # The kernel refuses: this device is not that of a mount.
        os.chmod(path, 0o444)
        self.assertEqual(self.ask(b"u", device), (0, ""))
        self.assertEqual(self.refused(b"o", self.open(path)), "")
        self.assertEqual(self.descriptors(), ["0", "1", "2", "3"])

    def test_additional_descriptors_are_not_kept_open(self):
        null = self.open("/dev/null")
        for count in (2, 3, 100):
            self.refused(b"d", *[null] * count)
        self.assertEqual(self.descriptors(), ["0", "1", "2", "3"])
        self.connection.close()
        self.assertEqual(self.brokers.process(0).wait(LIMIT_S), 0)

    def test_empty_request_ends_the_broker(self):
        self.connection.send(b"")
        self.assertEqual(self.brokers.process(0).wait(LIMIT_S), 0)


def start_threads(work):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    return threads


def in_threads(work):
    for thread in start_threads(work):
        thread.join()


if __name__ == "__main__":
    unittest.main()
