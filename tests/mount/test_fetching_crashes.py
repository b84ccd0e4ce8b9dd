"""Downloads under failures: servers that stall or are down, processes that are killed, disks that are full.
No reader waits longer than necessary, and the correct bytes are downloaded once."""
import contextlib
import errno
import json
import os
import random
import subprocess
import sys
import threading
import time
import unittest
import zipfile

from fetching import blobs_in, temporary_files_left_in
from mounting import WEIGHTFS, eventually, has_ended, is_mounted, run, signal
from scripted_server import Server, correct, gated, stalls
from test_archives import noise
import partial_downloads
import stores
from tensors import Tensor
from test_fetching import ALLOWED, LIMIT_S, MEGABYTE, NOT_REACHED, HostileTestCase


class ConcurrentDownloads(HostileTestCase):
    def test_eight_processes_download_once(self):
        data = noise(8 * MEGABYTE)
        gate = threading.Event()
        carton = self.carton_of({"model/far": (data, [self.web.serve("far", gated(data, gate, MEGABYTE), head=correct(data))])})
        processes = [
            subprocess.Popen([WEIGHTFS, "cat", ALLOWED, carton, "files/model/far"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(8)
        ]
        # All readers have requested the size, and one the data, before most of the data arrives.
        self.web.wait_for(lambda: self.web.count("HEAD") == 8 and self.web.count("GET") >= 1)
        gate.set()
        for process in processes:
            out, err = process.communicate(timeout=LIMIT_S)
            self.assertEqual((process.returncode, err, out == data), (0, b"", True))
        self.assertEqual(self.web.count("GET"), 1, self.web.received)
        self.assert_cached(data)

    def test_two_mounts_with_many_readers_download_once(self):
        data = noise(2 * MEGABYTE)
        gate = threading.Event()
        carton = self.carton_of({"model/far": (data, [self.web.serve("far", gated(data, gate, MEGABYTE), head=correct(data))])})
        points = [self.mount(ALLOWED, carton, at=f"mnt{i}") for i in range(2)]
        readers = [self.start_reader(self.far(point)) for point in points for _ in range(8)]
        self.web.wait_for(lambda: self.web.count("HEAD") == 2 and self.web.count("GET") >= 1)
        gate.set()
        for reader in readers:
            self.assert_correct(self.result_of(reader), data)
        self.assertEqual(self.web.count("GET"), 1, self.web.received)
        self.assert_cached(data)

    def test_another_process_resumes_after_the_downloader_is_killed(self):
        data = noise(2 * MEGABYTE)
        begun = threading.Event()
        url = self.web.serve("far", stalls(data, MEGABYTE, begun), correct(data), head=correct(data))
        carton = self.carton_of({"model/far": (data, [url])})
        command = [WEIGHTFS, "cat", ALLOWED, "--timeout", "600", carton, "files/model/far"]
        first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(first.wait)
        self.addCleanup(first.kill)
        self.assertTrue(begun.wait(LIMIT_S))
        second = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.web.wait_for(lambda: self.web.count("HEAD") == 2)
        first.kill()
        out, _ = second.communicate(timeout=LIMIT_S)
        self.assertEqual((second.returncode, out == data), (0, True))
        self.assertEqual(self.web.count("GET"), 2)
        self.assertLessEqual(self.web.requests("GET")[1].first or 0, MEGABYTE)
        subprocess.run([WEIGHTFS, "cache", "gc"], stdout=subprocess.DEVNULL, check=True)  # removes what the killed one was writing
        self.assert_cached(data)


class FetcherTestCase(HostileTestCase):
    def fetcher_of(self, server):
        for pid in os.listdir("/proc"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
                if name == "weightfs-fetch" and int(rest.split()[1]) == server:
                    return int(pid)
        self.fail("no fetcher")


class KilledFetcher(FetcherTestCase):
    """The process that sends the requests of a mount is killed: what is present stays readable, and the mount says what to do."""

    def status(self, point):
        with open(os.path.join(point, ".weightfs", "status.json")) as file:
            return json.load(file)

    # semantics 14.1
    def test_present_bytes_stay_readable(self):
        data, begun = noise(2 * MEGABYTE), threading.Event()
        scripts = {"read": correct(data), "half": stalls(data[::-1], MEGABYTE, begun), "later": correct(data[1:])}
        bodies = {"read": data, "half": data[::-1], "later": data[1:]}
        carton = self.carton_of({f"model/{name}": (body, [self.web.serve(name, scripts[name], head=correct(body))])
                                 for name, body in bodies.items()})
        process, point = self.foreground(ALLOWED, carton)
        self.assert_correct(self.try_to_read(self.far(point, "model/read")), data)
        half = self.start_reader(self.far(point, "model/half"))
        self.assertTrue(begun.wait(LIMIT_S))
        os.kill(self.fetcher_of(process.pid), signal.SIGKILL)
        got, error = self.result_of(half)
        self.assertEqual((error, data[::-1].startswith(got)), (errno.EHOSTUNREACH, True))
        self.assert_correct(self.try_to_read(self.far(point, "model/read")), data)
        self.assertEqual(self.try_to_read(self.far(point, "model/near")), (b"here", None))
        self.assertEqual(self.try_to_read(self.far(point, "model/later")), (b"", errno.EHOSTUNREACH))
        self.assertEqual(self.status(point)["network"], {"waiting": 0, "fetcher": "ended"})
        lines = self.end(process)
        self.assertTrue(lines and all("the process that downloads has ended; " in line for line in lines), lines)
        self.assertEqual(self.web.count("GET", "later"), 0)


class FetcherOfAMount(FetcherTestCase):
    # Its first process may reap no orphans, as in many containers.
    def test_command_leaves_no_process(self):
        model = stores.safetensors(self.path("."), [Tensor("w", "int8", (9,), b"123456789")])
        url = self.web.serve("m.safetensors", correct(model))
        script = ("import ctypes, os, subprocess, sys\n"
                  "ctypes.CDLL(None).prctl(36, 1)\n"  # PR_SET_CHILD_SUBREAPER: orphans are its children
                  "for url in sys.argv[2:]:\n"
                  "    subprocess.run([sys.argv[1], 'info', url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
                  "try:\n    print(os.waitpid(-1, os.WNOHANG))\nexcept ChildProcessError:\n    print('none')\n")
        done = subprocess.run([sys.executable, "-c", script, WEIGHTFS, url, self.web.url("none"), "https://127.0.0.1:1/m.gguf"],
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.stdout, done.stderr), ("none\n", ""))

    def test_fetcher_leaves_the_terminal_and_ends_with_its_server(self):
        process, point = self.foreground(ALLOWED, self.carton_of({"model/far": (b"far", [self.web.serve("far", correct(b"far"))])}))
        fetcher = self.fetcher_of(process.pid)
        self.assertEqual(os.getsid(fetcher), fetcher)
        process.kill()
        process.wait()
        self.force_unmount(point)
        eventually(lambda: has_ended(fetcher))


class Killed(HostileTestCase):
    """Processes that share a cache are killed at any moment."""
    KILLS = 60

    def setUp(self):
        super().setUp()
        self.data = noise(3 * MEGABYTE)
        url = self.web.serve("far", correct(self.data), head=correct(self.data))
        self.carton = self.carton_of({"model/far": (self.data, [url])})
        self.member = noise(MEGABYTE) * 4
        self.zip = self.path("member.npz")
        with zipfile.ZipFile(self.zip, "w", zipfile.ZIP_DEFLATED) as file:
            header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(self.member)},), }}".ljust(117) + "\n"
            file.writestr("far.npy", b"\x93NUMPY\x01\x00\x76\x00" + header.encode() + self.member)
        self.running = {}

    def commands(self):
        """What each process runs, and what it prints."""
        return {"fetch": ([WEIGHTFS, "cat", ALLOWED, "--cache-size=32M", self.carton, "files/model/far"], self.data),
                "decode": ([WEIGHTFS, "cat", "--cache-size=32M", self.zip, "tensors/far"], self.member),
                "evict": ([WEIGHTFS, "cache", "gc", "--size=1M"], None)}

    def start(self, kind):
        output = open(self.path(f"{kind}.out"), "w+b")
        self.addCleanup(output.close)
        process = subprocess.Popen(self.commands()[kind][0], stdout=output, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.running[kind] = process, output

    def finish(self, kind, killed):
        process, output = self.running.pop(kind)
        errors = process.communicate(timeout=LIMIT_S)[1]
        output.seek(0)
        printed = output.read()
        output.close()
        right = self.commands()[kind][1]
        if not killed:
            self.assertEqual(process.returncode, 0, f"{kind}: {errors}")
        if right is not None:
            self.assertTrue(right.startswith(printed), kind)
            self.assertTrue(killed or printed == right, kind)

    def usual_time(self):
        """How long a process runs that is not killed."""
        begun = time.monotonic()
        for kind in ("fetch", "decode"):
            self.start(kind)
            self.finish(kind, killed=False)
        subprocess.run([WEIGHTFS, "cache", "gc", "--size=0"], stdout=subprocess.DEVNULL, check=True)
        return (time.monotonic() - begun) / 2

    def test_sixty_kills_leave_only_right_bytes(self):
        random_moments = random.Random(45)
        usual = self.usual_time()
        kills = 0
        while kills < self.KILLS:
            for kind in self.commands():
                if kind not in self.running:
                    self.start(kind)
            time.sleep(random_moments.uniform(0, usual))
            kind = random_moments.choice(sorted(self.running))
            process = self.running[kind][0]
            is_killed = process.poll() is None
            if is_killed:
                process.kill()
                kills += 1
            self.finish(kind, is_killed)
        for kind in sorted(self.running):
            self.finish(kind, killed=False)
        for kind in ("fetch", "decode"):
            self.start(kind)
            self.finish(kind, killed=False)
        subprocess.run([WEIGHTFS, "cache", "gc"], stdout=subprocess.DEVNULL, check=True)
        self.assertEqual(temporary_files_left_in(self.cache()), [])
        self.assertEqual(os.listdir(os.path.join(self.cache(), "v1", "blocks")), [])
        self.assertEqual(run("cache", "verify").returncode, 0)


class ServerDown(HostileTestCase):
    def test_cached_blobs_are_read_while_the_server_is_down(self):
        blobs = {name: noise(300_000, i) for i, name in enumerate(("kept", "known", "unknown"))}
        far = {"model/" + name: (data, [self.web.serve(name, correct(data))]) for name, data in blobs.items()}
        process, point = self.foreground(ALLOWED, "--timeout", "5", self.carton_of(far))
        self.assert_correct(self.try_to_read(self.far(point, "model/kept")), blobs["kept"])
        self.assertEqual(os.stat(self.far(point, "model/known")).st_size, 300_000)
        self.web.go_down()
        readers = {name: self.start_reader(self.far(point, "model/" + name)) for name in blobs}
        other = self.mount("--timeout", "5", ALLOWED, self.path("m.carton"), at="other")
        for mounted in (point, other):  # in the second, the size is only known from the response
            self.assert_correct(self.try_to_read(self.far(mounted, "model/kept")), blobs["kept"])
        self.assert_correct(self.result_of(readers["kept"]), blobs["kept"])
        for name in ("known", "unknown"):
            got, error = self.result_of(readers[name], name)
            self.assertEqual(got, b"")
            self.assertIn(error, NOT_REACHED)
        self.web.come_back()
        for name, data in blobs.items():
            self.assert_correct(self.try_to_read(self.far(point, "model/" + name)), data)
        self.assertEqual(self.web.count("GET"), 3)
        lines = self.end(process)
        self.assertLessEqual(len(lines), 2, lines)
        self.assertTrue(all("refused" in line for line in lines), lines)
        self.assert_cached(*blobs.values())

    def test_offline_read_fails_at_once_with_a_reason(self):
        data = noise(1000)
        carton = self.carton_of({"model/far": (data, [self.web.serve("far", correct(data))])})
        process, point = self.foreground("--offline", ALLOWED, carton)
        self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EHOSTUNREACH))
        line, = self.end(process)
        self.assertIn("offline", line)
        self.assertIn("model/far", line)
        done = run("cat", "--offline", ALLOWED, carton, "files/model/far")
        self.assertEqual((done.returncode, done.stdout), (8, ""))
        self.assertIn("offline", done.stderr)
        self.assertEqual(self.web.connections, 0)


class WaitingReaders(HostileTestCase):
    """Readers that wait for a server do not block others, and can be killed."""

    def stalled(self, count, begun=None):
        far = {}
        for i in range(count):
            data = noise(100_000, i)
            far[f"model/stalled{i}"] = (data, [self.web.serve(f"stalled{i}", stalls(data, 1000, begun), head=correct(data))])
        return far

    def mount_stalled(self, far):
        process, point = self.foreground(ALLOWED, "--timeout", "600", self.carton_of(far))
        return process, point

    def assert_ends(self, process, readers):
        self.end(process)
        for reader in readers:
            got, error = self.result_of(reader)
            self.assertEqual(got, b"")
            self.assertIsNotNone(error)

    def test_two_hundred_waiting_readers_do_not_block_cached_files(self):
        process, point = self.mount_stalled(self.stalled(12))
        readers = [self.start_reader(self.far(point, f"model/stalled{i % 12}")) for i in range(200)]
        self.web.wait_for(lambda: self.web.count("GET") == 12)
        near = self.start_reader(self.far(point, "model/near"))
        self.assertEqual(self.result_of(near), (b"here", None))
        self.assertEqual(len(os.listdir(os.path.join(point, "files", "model"))), 13)
        self.assertIn(b"carton", self.read_whole(point, "metadata.json"))
        self.assertEqual(self.web.count("GET"), 12)
        self.assert_ends(process, readers)
        self.assert_cached(parts=len(partial_downloads.in_cache(self.cache())))

    def assert_downloads_beside_stalled(self, count):
        """Reads a blob of a correct server while this many others stall."""
        good = noise(100_000, 1000)
        far = self.stalled(count)
        far["model/good"] = (good, [Server(self).serve("good", correct(good))])
        process, point = self.mount_stalled(far)
        readers = [self.start_reader(self.far(point, f"model/stalled{i}")) for i in range(count)]
        self.web.wait_for(lambda: self.web.count("HEAD") == count and self.web.count("GET") >= min(count, 16))
        reader = self.start_reader(self.far(point, "model/good"))
        reader.join(20)
        came = reader.result
        self.assert_ends(process, readers)
        self.result_of(reader)
        self.assertIsNotNone(came, "the read waits for stalled downloads")
        self.assert_correct(came, good)

    def test_download_succeeds_beside_a_dozen_stalled_ones(self):
        self.assert_downloads_beside_stalled(12)

    def test_download_succeeds_beside_forty_stalled_ones(self):
        self.assert_downloads_beside_stalled(40)

    def assert_killed_reader_exits(self, number, far, seen):
        process, point = self.mount_stalled(far)
        reader = subprocess.Popen(["cat", self.far(point)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        seen()
        reader.send_signal(number)
        try:
            reader.wait(10)
            gone = True
        except subprocess.TimeoutExpired:
            gone = False
        self.end(process)
        reader.wait(LIMIT_S)
        self.assertTrue(gone, "the killed reader is still waiting")

    def test_killed_reader_exits_during_a_stalled_download(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            with self.subTest(number):
                data, begun = noise(100_000), threading.Event()
                url = self.web.serve("far", stalls(data, 1000, begun), head=correct(data))
                self.assert_killed_reader_exits(number, {"model/far": (data, [url])}, lambda: self.assertTrue(begun.wait(LIMIT_S)))

    def test_killed_reader_exits_during_a_stalled_size_request(self):
        for i, number in enumerate((signal.SIGINT, signal.SIGKILL)):
            with self.subTest(number):
                url = self.web.serve(f"far{i}", lambda request: request.hang())
                self.assert_killed_reader_exits(number, {"model/far": (b"x", [url])},
                                                lambda: self.web.wait_for(lambda: self.web.count(path=f"far{i}") >= 1))

    def test_stalled_size_request_does_not_block_the_directory(self):
        url = self.web.serve("far", lambda request: request.hang())
        process, point = self.mount_stalled({"model/far": (b"x", [url])})
        waiting = self.start_reader(self.far(point))
        self.web.wait_for(lambda: self.web.count() >= 1)
        near = self.start_reader(self.far(point, "model/near"))
        listing = subprocess.Popen(["ls", os.path.join(point, "files", "model")], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        near.join(10)
        came, listed = near.result, None
        with contextlib.suppress(subprocess.TimeoutExpired):
            listed = listing.wait(10)
        self.assert_ends(process, [waiting])
        self.result_of(near)
        listed = listing.wait(LIMIT_S) if came else listed
        self.assertEqual((came, listed), ((b"here", None), 0))

    def test_next_reader_succeeds_after_a_killed_one(self):
        data, begun, gate = noise(300_000), threading.Event(), threading.Event()
        answer = gated(data, gate, 1000)
        url = self.web.serve("far", lambda request: begun.set() or answer(request), head=correct(data))
        process, point = self.mount_stalled({"model/far": (data, [url])})
        first = subprocess.Popen(["cat", self.far(point)], stdout=subprocess.DEVNULL)
        self.assertTrue(begun.wait(LIMIT_S))
        first.kill()
        first.wait(LIMIT_S)
        second = self.start_reader(self.far(point))
        gate.set()
        self.assert_correct(self.result_of(second), data)
        self.assertEqual(self.web.count("GET"), 1)
        self.end(process)
        self.assert_cached(data)


class KilledDownloads(HostileTestCase):
    """A download that is killed repeatedly is resumed; no byte is downloaded twice."""
    SIZE = 20 * MEGABYTE
    ROUNDS = 50
    LEAST, MOST = 100_000, 400_000  # sent per round

    def setUp(self):
        super().setUp()
        self.data = noise(self.SIZE)
        self.random = random.Random(1)
        self.lock = threading.Lock()  # guards the next
        self.most = 0  # bytes to send in this round
        self.round = 0
        url = self.web.serve("far", self.answer, head=correct(self.data))
        self.source = self.carton_of({"model/far": (self.data, [url])})
        self.part = partial_downloads.path_of(self.cache(), self.data)

    def answer(self, request):
        """Sends the requested range until the round has sent this number of bytes, then stalls."""
        with self.lock:
            this_round = self.round
        first = request.first or 0
        end = self.SIZE if request.last is None else min(request.last + 1, self.SIZE)
        span = {} if request.first is None else {"Content_Range": f"bytes {first}-{end - 1}/{self.SIZE}"}
        request.head(206 if span else 200, Content_Length=end - first, Accept_Ranges="bytes", ETag='"20"', **span)
        while first < end:
            with self.lock:
                # A request of a killed process sends nothing more: the bytes are for the next one.
                step = min(self.most, 1 << 16, end - first) if self.round == this_round else 0
                self.most -= step
            if step == 0:
                return request.hang()
            request.body(self.data[first:first + step])
            first += step

    def received_bytes(self):
        return partial_downloads.present_bytes(self.part)

    def wait_until(self, ready, process):
        """The late request of a killed process may have taken the bytes of this round: then more are sent."""
        for _ in range(12):
            if eventually(lambda: process.poll() is not None or ready(), 5):
                break
            with self.lock:
                self.most += self.LEAST
        self.assertTrue(ready(), f"{self.received_bytes()} bytes received; status {process.poll()}")

    def one_round(self, number, begin):
        """Kills a process early, or during the transfer, or after the last byte of the round."""
        had, requests = partial_downloads.present_blocks(self.part), self.web.count("GET")
        with self.lock:
            self.round += 1
            self.most = self.random.randrange(self.LEAST, self.MOST)
        least = self.LEAST // 2 if number % 3 == 1 else 1  # up to eight blocks are not complete
        enough = len(had) * partial_downloads.BLOCK + least
        process, end = begin(number)
        if number % 3 == 0:
            time.sleep(self.random.random() * 0.1)  # killed at any offset
        else:
            self.wait_until(lambda: self.received_bytes() >= enough, process)
        process.kill()
        process.wait(LIMIT_S)
        end()
        for request in self.web.requests("GET")[requests:]:
            self.assertNotIn((request.first or 0) // partial_downloads.BLOCK, had, f"round {number}")
        self.assertLessEqual(had, partial_downloads.present_blocks(self.part))

    def assert_complete(self):
        had = self.received_bytes()
        self.assertGreater(had, self.ROUNDS // 3 * self.LEAST // 2)
        before = sum(request.sent for request in self.web.requests("GET"))
        with self.lock:
            self.round += 1
            self.most = self.SIZE
        requests = self.web.count("GET")
        done = subprocess.run([WEIGHTFS, "cat", ALLOWED, self.source, "files/model/far"], capture_output=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr, done.stdout == self.data), (0, b"", True))
        self.assertLess(before, had + self.ROUNDS * self.MOST)
        self.assertEqual(sum(request.sent for request in self.web.requests("GET")[requests:]), self.SIZE - had)
        self.assert_cached(self.data)
        self.assertEqual(temporary_files_left_in(self.cache()), [])
        checked = run("cache", "verify")
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))
        self.assertIn("1 of 1 blob", checked.stdout)

    def test_killed_fetch_is_resumed(self):
        def begin(_):
            process = subprocess.Popen([WEIGHTFS, "fetch", ALLOWED, self.source, "files/model/far"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            return process, lambda: None
        for number in range(self.ROUNDS):
            self.one_round(number, begin)
        self.assert_complete()

    def test_download_of_a_killed_mount_is_resumed(self):
        self.ROUNDS = 10

        def begin(number):
            process, point = self.foreground(ALLOWED, self.source, at=f"mnt{number}")
            reader = self.start_reader(self.far(point))

            def end():
                self.force_unmount(point)
                got, error = self.result_of(reader)
                self.assertEqual(got, b"")
                self.assertIsNotNone(error)
            return process, end
        for number in range(self.ROUNDS):
            self.one_round(number, begin)
        self.assert_complete()


class CacheSpace(HostileTestCase):
    """A full disk."""

    def blobs(self, *names, size=MEGABYTE):
        """Writes the carton with links to the blobs."""
        self.data = {name: noise(size, name) for name in names}
        self.source = self.carton_of(
            {"model/" + name: (data, [self.web.serve(name, correct(data))]) for name, data in self.data.items()})

    def assert_readable(self, point, *names):
        for name in names:
            self.assert_correct(self.try_to_read(self.far(point, "model/" + name)), self.data[name])

    @unittest.skipUnless(os.geteuid() == 0, "a small disk needs a tmpfs, which needs root")
    def test_full_disk_is_an_error_until_space_is_free(self):
        disk = self.path("disk")
        os.mkdir(disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "weightfs-test", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        os.environ["WEIGHTFS_CACHE"] = os.path.join(disk, "cache")
        self.cache = lambda: os.path.join(disk, "cache")
        self.blobs("far", size=3 * MEGABYTE)
        self.write("disk/other", bytes(2 * MEGABYTE))
        process, point = self.foreground(ALLOWED, "--cache-size", "1G", self.source)
        self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EIO))
        self.assert_cached()
        self.assertEqual(self.read_whole(point, "files", "model", "near"), b"here")
        os.remove(os.path.join(disk, "other"))
        self.assert_readable(point, "far")
        self.assert_cached(self.data["far"])
        line, = self.end(process)
        self.assertRegex(line, "model/far: download cannot be stored.*[Nn]o space left")

    def test_blob_larger_than_the_quota_is_refused_without_download(self):
        self.blobs("far", "small", size=MEGABYTE)
        process, point = self.foreground(ALLOWED, "--cache-size", "1000K", self.source)
        self.assertEqual(self.try_to_read(self.far(point)), (b"", errno.EIO))
        self.assertEqual(self.web.count("GET"), 0)
        line, = self.end(process)
        self.assertRegex(line, "model/far: download cannot be stored.*1000.0 KiB|model/far: download cannot be stored.*1000 KiB")
        self.assert_cached()
        self.assert_readable(self.mount(ALLOWED, "--cache-size", "2M", self.source, at="larger"), "far")

    def test_least_recently_used_blobs_are_evicted_and_pinned_ones_kept(self):
        self.blobs("a", "b", "c", "d")
        point = self.mount(ALLOWED, "--cache-size", "3500K", self.source)
        self.assert_readable(point, "a", "b")
        self.wait_for_cached(2)
        self.assertEqual(run("cache", "pin", stores.sha256(self.data["a"])).returncode, 0)
        self.assert_readable(point, "c", "d")
        self.assert_cached(*(self.data[name] for name in "acd"))
        # Evicted blobs are downloaded again.
        self.assert_readable(self.mount(ALLOWED, "--cache-size", "3500K", self.source, at="again"), "a", "b")
        self.assertEqual({name: self.web.count("GET", name) for name in "abcd"}, {"a": 1, "b": 2, "c": 1, "d": 1})
        self.assert_cached(*(self.data[name] for name in "abd"))

    def test_cache_full_of_pinned_blobs_is_reported(self):
        self.blobs("a", "b")
        process, point = self.foreground(ALLOWED, "--cache-size", "1500K", self.source)
        self.assert_readable(point, "a")
        self.wait_for_cached(1)
        self.assertEqual(run("cache", "pin", stores.sha256(self.data["a"])).returncode, 0)
        self.assertEqual(self.try_to_read(self.far(point, "model/b")), (b"", errno.EIO))
        self.assert_cached(self.data["a"])
        self.assertEqual(run("cache", "unpin", stores.sha256(self.data["a"])).returncode, 0)
        self.assert_readable(point, "b")
        self.assert_cached(self.data["b"])
        line, = self.end(process)
        self.assertIn("pinned", line)

    def test_sequential_reads_need_space_for_one_blob(self):
        names = [f"blob{i}" for i in range(60)]
        self.blobs(*names)
        process, point = self.foreground(ALLOWED, "--cache-size", "1500K", self.source)
        for name in names:
            with open(self.far(point, "model/" + name), "rb", buffering=0) as file:
                self.assertEqual(file.read(4096), self.data[name][:4096])
        self.assertEqual(self.end(process), [])
        self.assertEqual({self.web.count("GET", name) for name in names}, {1})
        self.assert_cached(self.data[names[-1]])

    def assert_read_after_eviction(self, evict, server_is_there):
        """Opens model/a and reads its beginning, and the rest after its eviction."""
        self.blobs("a", "b")
        process, point = self.foreground(ALLOWED, "--cache-size", "1500K", "--timeout", "1", self.source)
        with open(self.far(point, "model/a"), "rb", buffering=0) as file:
            self.assertEqual(file.read(4096), self.data["a"][:4096])
            self.wait_for_cached(1)
            evict(point)
            self.assertNotIn(stores.sha256(self.data["a"]), map(os.path.basename, blobs_in(self.cache())))
            if not server_is_there:
                self.web.go_down()
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # also empties the page cache
            got = b""
            while piece := file.read(1 << 16):
                got += piece
        self.assertTrue(got == self.data["a"][4096:])
        self.end(process)

    def remove_a(self, _):
        self.assertEqual(run("cache", "rm", stores.sha256(self.data["a"])).returncode, 0)

    # semantics 10.4: a file that is open stays readable
    def test_open_file_survives_removal_by_another_process(self):
        self.assert_read_after_eviction(self.remove_a, server_is_there=False)

    def test_open_file_survives_eviction_by_its_mount(self):
        self.assert_read_after_eviction(lambda point: self.assert_readable(point, "b"), server_is_there=True)

    def test_open_file_survives_eviction_without_the_server(self):
        self.assert_read_after_eviction(lambda point: self.assert_readable(point, "b"), server_is_there=False)


class Shutdown(HostileTestCase):
    """A mount ends although readers wait for a server that is not responding."""

    def assert_ends(self, end, waiting_for_size=False):
        data, begun = noise(100_000), threading.Event()

        def hang(request):
            begun.set()
            request.hang()
        url = self.web.serve("far", stalls(data, 1000, begun), head=hang if waiting_for_size else correct(data))
        process, point = self.foreground(ALLOWED, "--timeout", "600", self.carton_of({"model/far": (data, [url])}))
        readers = [self.start_reader(self.far(point)) for _ in range(3)]
        self.assertTrue(begun.wait(LIMIT_S))
        end(process, point)
        status, log = process.wait(20), process.stderr.read()
        self.assertEqual(status, 0, log)
        self.assertFalse(is_mounted(point))
        for reader in readers:
            got, error = self.result_of(reader)
            self.assertEqual(got, b"")
            self.assertIsNotNone(error)
        self.assertFalse(os.path.exists(point), "the server removes a mount point that it created")
        self.assertLessEqual(len(log.splitlines()), 2)
        self.assert_cached(parts=len(partial_downloads.in_cache(self.cache())))

    def test_signals_end_the_mount_during_a_download(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                self.assert_ends(lambda process, _: process.send_signal(number))

    def test_signal_ends_the_mount_during_a_size_request(self):
        self.assert_ends(lambda process, _: process.send_signal(signal.SIGTERM), waiting_for_size=True)

    def test_umount_ends_the_mount_after_the_last_reader(self):
        """A mount with open files is busy; umount -l does not wait for them."""
        def end(process, point):
            self.assertEqual(run("umount", point).returncode, 6)
            process.send_signal(signal.SIGTERM)
        self.assert_ends(end)

    def test_lazy_umount_and_a_signal_end_the_mount(self):
        def end(process, point):
            subprocess.run(["umount", "-l", point], check=True)
            process.send_signal(signal.SIGINT)
        self.assert_ends(end)

    def test_ctrl_c_ends_commands(self):
        for verb in ("fetch", "cat"):
            with self.subTest(verb):
                data, begun = noise(100_000, verb), threading.Event()
                url = self.web.serve(verb, stalls(data, 1000, begun), head=correct(data))
                command = [
                    WEIGHTFS, verb, ALLOWED, "--timeout", "600",
                    self.carton_of({"model/far": (data, [url])}), "files/model/far"
                ]
                process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.addCleanup(process.wait)
                self.addCleanup(process.kill)
                self.assertTrue(begun.wait(LIMIT_S))
                process.send_signal(signal.SIGINT)
                process.wait(20)


if __name__ == "__main__":
    unittest.main()
