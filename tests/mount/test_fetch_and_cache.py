"""The status of a mount during downloads, weightfs fetch, and weightfs cache."""
import errno
import glob
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import threading
import unittest

from fetching import ALLOWED, FAR, MEGABYTE, LinkTestCase, blobs_in
from mounting import LIMIT_S, WEIGHTFS, containers, eventually, is_mounted, on_terminal, run
from servers import Nginx, needs
from tensors import Tensor
from test_archives import noise
import archives
import partial_downloads
import stores


@needs("nginx")
class Status(LinkTestCase):
    def setUp(self):
        super().setUp()
        self.web = Nginx(self)

    def status(self, point):
        return json.loads(self.read_whole(point, ".weightfs", "status.json"))

    def test_status_directory_is_hidden_but_accessible(self):
        point = self.mount(ALLOWED, self.carton_of(self.web.publish("far", FAR)))
        self.assertNotIn(".weightfs", os.listdir(point))
        self.assertFalse([base for base, _, _ in os.walk(point) if ".weightfs" in base])
        self.assertEqual(os.listdir(os.path.join(point, ".weightfs")),
                         ["log", "metrics", "stats.json", "status.json", "summary.json"])
        self.assertLessEqual({"counters", "blobs", "source", "mountpoint", "since", "version", "pid", "served_bytes", "open_files"},
                             set(self.status(point)))
        with self.assertRaises(OSError) as caught:
            open(os.path.join(point, ".weightfs", "status.json"), "w")
        self.assertIn(caught.exception.errno, (errno.EROFS, errno.EACCES, errno.EPERM))

    def test_counters_distinguish_hits_and_misses(self):
        carton = self.carton_of(self.web.publish("far", FAR))
        point = self.mount(ALLOWED, carton)
        self.assertEqual(self.status(point)["counters"], {"hits": 0, "misses": 0, "bytes_fetched": 0, "errors": 0})
        self.far(point)
        self.assertEqual(self.status(point)["counters"], {"hits": 0, "misses": 1, "bytes_fetched": len(FAR), "errors": 0})
        blob, = self.status(point)["blobs"]
        self.assertEqual((blob["name"], blob["digest"], blob["size"], blob["fetched"], blob["verified"]),
                         ("model/far", stores.digest(FAR), len(FAR), len(FAR), True))
        self.assertEqual(blob["from"], self.web.url("far"))
        self.far(point)
        self.assertEqual(self.status(point)["counters"]["misses"], 1)
        self.published(1)
        second = self.mount(ALLOWED, carton, at="second")
        self.far(second)
        self.assertEqual(self.status(second)["counters"], {"hits": 1, "misses": 0, "bytes_fetched": 0, "errors": 0})
        self.assertTrue(self.status(second)["blobs"][0]["verified"])

    def test_errors_are_counted_and_described(self):
        point = self.mount(ALLOWED, self.carton_of(self.web.url("absent?token=secret")))
        self.assert_unreadable(point, [errno.EIO, errno.ENOENT, errno.EHOSTUNREACH])
        status = self.status(point)
        self.assertEqual(status["counters"]["bytes_fetched"], 0)
        self.assertFalse(any(blob["verified"] for blob in status["blobs"]))
        self.assertNotIn("secret", json.dumps(status))

    def test_status_is_regenerated_at_each_open(self):
        point = self.mount(ALLOWED, self.carton_of(self.web.publish("far", FAR)))
        before = self.read_whole(point, ".weightfs", "status.json")
        done = subprocess.run(["cat", os.path.join(point, ".weightfs", "status.json")], capture_output=True, check=True)
        self.assertEqual(done.stdout, before)
        self.far(point)
        after = subprocess.run(["cat", os.path.join(point, ".weightfs", "status.json")], capture_output=True, check=True).stdout
        self.assertNotEqual(after, before)
        json.loads(after)

    def test_fetched_bytes_grow_during_a_download(self):
        data = noise(2 * MEGABYTE)
        server = Nginx(self, "limit_rate_after 1m; limit_rate 512k;", name="slow")
        point = self.mount(ALLOWED, self.carton_of(server.publish("far", data), data=data))
        reader = threading.Thread(target=self.far, args=(point,))
        reader.start()
        seen = []

        def has_ended():
            blobs = self.status(point)["blobs"]
            if blobs and not blobs[0]["verified"] and 0 < blobs[0]["fetched"] < len(data):
                seen.append(blobs[0]["fetched"])
            return not reader.is_alive()
        self.assertTrue(eventually(has_ended))
        self.assertTrue(seen)
        self.assertEqual(seen, sorted(seen))
        self.assertTrue(self.status(point)["blobs"][0]["verified"])


@needs("nginx")
class Fetch(LinkTestCase):
    def setUp(self):
        super().setUp()
        self.web = Nginx(self)

    def test_prints_one_line_per_blob(self):
        carton = self.carton_of(self.web.publish("far", FAR))
        done = run("fetch", ALLOWED, carton)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, last = done.stdout.splitlines()
        self.assertRegex(first, f"^{stores.sha256(FAR)[:12]}  1.0 MiB  model/far  from {re.escape(self.web.url('far'))}$")
        self.assertEqual(last, "1 file, 1.0 MiB: 0 B cached before, 1.0 MiB downloaded, 1.0 MiB verified")
        self.assert_cache_holds(FAR)
        again = run("fetch", ALLOWED, carton)
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertEqual(again.stdout.splitlines()[-1], "1 file, 1.0 MiB: 1.0 MiB cached before, 0 B downloaded, 1.0 MiB verified")
        self.assertEqual(self.web.count("GET"), 1)

    def test_container_without_links_has_nothing_to_fetch(self):
        done = run("fetch", self.sample())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("nothing to fetch", done.stdout)

    def test_shows_a_progress_bar_on_a_terminal(self):
        data = noise(2 * MEGABYTE)
        server = Nginx(self, "limit_rate_after 512k; limit_rate 512k;", name="slow")
        carton = self.carton_of(server.publish("far", data), data=data)
        terminal, other = pty.openpty()
        process = subprocess.Popen([WEIGHTFS, "fetch", ALLOWED, carton], stdout=subprocess.PIPE, stderr=other,
                                   stdin=subprocess.DEVNULL)
        os.close(other)
        drawn = b""
        try:
            while piece := os.read(terminal, 4096):
                drawn += piece
        except OSError as error:  # Linux: the other end was closed
            self.assertEqual(error.errno, errno.EIO)
        os.close(terminal)
        out = process.communicate(timeout=60)[0].decode()
        self.assertEqual(process.returncode, 0)
        self.assertRegex(drawn.decode(), r"\r\x1b\[K\[#*\.+\] .* of 2\.0 MiB, .*/s")
        self.assertTrue(drawn.endswith(b"\r\x1b[K"), "the progress bar is removed at the end")
        self.assertNotIn("\x1b", out)
        self.assertIn("model/far", out)

    def test_failed_download_is_a_line_and_a_status(self):
        far = {"model/a": (b"there", [self.web.publish("a", b"there")]), "model/b": (b"gone", [self.web.url("b")]),
               "model/c": (b"right", [self.web.publish("c", b"wrong")])}
        carton = stores.linked_carton(self.path("m.carton"), far)
        done = run("fetch", ALLOWED, carton)
        self.assertIn(done.returncode, (1, 3, 7, 8), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 2, done.stderr)
        self.assert_cache_holds(b"there")
        self.assertEqual(run("fetch", ALLOWED, carton, "files/model/c").returncode, 7)
        self.assertEqual(run("fetch", ALLOWED, carton, "files/model/a").returncode, 0)
        self.assertEqual(run("fetch", ALLOWED, carton, "files/model/absent").returncode, 3)

    def test_each_of_many_files_is_downloaded_once(self):
        files = {f"model/{i}": noise(10_000, i) for i in range(60)}
        carton = stores.linked_carton(self.path("m.carton"),
                                      {name: (data, [self.web.publish(name, data)]) for name, data in files.items()})
        done = run("fetch", ALLOWED, carton)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.web.count("GET"), len(files))
        self.assert_cache_holds(*files.values())

    def test_interrupted_fetch_is_resumed(self):
        data = noise(4 * MEGABYTE)
        server = Nginx(self, "limit_rate_after 2m; limit_rate 256k;", name="slow")
        carton = self.carton_of(server.publish("far", data), data=data)
        process = subprocess.Popen([WEIGHTFS, "fetch", ALLOWED, carton], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        part = partial_downloads.path_of(self.cache(), data)
        eventually(lambda: partial_downloads.present_bytes(part) >= MEGABYTE)
        process.send_signal(signal.SIGINT)
        self.assertNotEqual(process.wait(30), 0)
        self.assertGreaterEqual(partial_downloads.present_bytes(part), MEGABYTE)
        eventually(lambda: any(request.method == "GET" for request in server.requests()))  # logged when it has ended
        before = len(server.requests())
        self.assertEqual(run("fetch", ALLOWED, carton).returncode, 0)
        self.assertLess(sum(a.bytes for a in server.requests()[before:] if a.method == "GET"), len(data))
        self.assert_cache_holds(data)


@needs("nginx")
class OddFiles(LinkTestCase):
    """What is no file, in place of a file of the cache, is replaced."""

    def kinds(self):
        def directory(path):
            os.mkdir(path)

        def full(path):
            os.makedirs(os.path.join(path, "below"))

        def bound(path):
            with socket.socket(socket.AF_UNIX) as one:
                one.bind("s")
            os.rename("s", path)

        return {
            "fifo": os.mkfifo, "directory": directory, "full": full, "socket": bound,
            "link": lambda path: os.symlink("/etc/passwd", path), "dead": lambda path: os.symlink("nowhere", path)
        }

    def check(self, read, paths, expected):
        """`read` fills the cache; then `paths` has the files that are replaced."""
        self.assertEqual(read(), expected)
        for kind, put in self.kinds().items():
            for path in paths():
                os.unlink(path) if not os.path.isdir(path) else shutil.rmtree(path)
                put(path)
            self.assertEqual(read(), expected, kind)
            self.assertTrue(all(os.path.isfile(path) and not os.path.islink(path) for path in paths()), kind)
        self.assertEqual(run("cache", "gc").returncode, 0)
        left = os.listdir(os.path.join(self.cache(), "v1", "making"))
        self.assertEqual(len(left), len(paths()), left)  # the directory with something in it

    def below(self, name):
        return sorted(glob.glob(os.path.join(self.cache(), "v1", name, "**", "?" * 64), recursive=True))

    def setUp(self):
        super().setUp()
        here = os.getcwd()
        os.chdir(self.path("."))
        self.addCleanup(os.chdir, here)

    def test_ranges_of_a_url(self):
        web = Nginx(self)
        data = noise(300_000)
        containers.write_safetensors(os.path.join(web.content, "m.safetensors"), [Tensor("w", "uint8", (len(data),), data)])

        def read():
            done = subprocess.run([WEIGHTFS, "cat", web.url("m.safetensors"), "tensors/w"], capture_output=True, timeout=LIMIT_S)
            return done.stdout or done.stderr.decode()
        self.check(read, lambda: self.below("blocks"), data)

    def test_blob_behind_a_link(self):
        web = Nginx(self)
        source = self.carton_of(web.publish("far", FAR))

        def read():
            done = subprocess.run([WEIGHTFS, "cat", ALLOWED, source, "files/model/far"], capture_output=True, timeout=LIMIT_S)
            return done.stdout or done.stderr.decode()
        self.check(read, lambda: self.below("blobs"), FAR)


@needs("nginx")
class CacheCommand(LinkTestCase):
    BLOBS = [noise(100_000, i) for i in range(3)]

    def setUp(self):
        super().setUp()
        self.web = Nginx(self)
        far = {f"model/{i}": (data, [self.web.publish(str(i), data)]) for i, data in enumerate(self.BLOBS)}
        self.source = stores.linked_carton(self.path("m.carton"), far)

    def fill(self):
        done = run("fetch", ALLOWED, self.source)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def verb(self, *argv, status=0):
        done = run("cache", *argv)
        self.assertEqual(done.returncode, status, (done.stdout, done.stderr))
        return done

    def listed(self):
        return json.loads(self.verb("ls", "--json").stdout)

    def blob(self, data):
        return next(path for path in blobs_in(self.cache()) if path.endswith(stores.sha256(data)))

    def test_path_prints_the_directory(self):
        self.assertEqual(self.verb("path").stdout, self.cache() + "\n")
        self.assertFalse(os.path.exists(self.cache()))

    def test_missing_cache_is_empty(self):
        self.assertEqual(self.verb("ls").stdout, "digest\tsize\tlast_used\tpinned\tstate\tused_by\n")
        self.assertEqual(on_terminal("cache", "ls"), "the cache is empty\n")
        self.assertEqual(self.listed(), [])
        self.assertEqual(json.loads(self.verb("du", "--json").stdout)["blobs"], 0)
        self.assertEqual(self.verb("verify").stdout, "the cache is empty\n")
        self.assertEqual(self.verb("gc").stdout, "nothing to remove\n")
        self.assertFalse(os.path.exists(self.cache()))

    def test_ls_and_du_print_raw_values_in_a_pipe(self):
        self.fill()
        entries = self.listed()
        self.assertEqual(sorted(entry["digest"] for entry in entries), sorted(map(stores.digest, self.BLOBS)))
        self.assertEqual({(entry["size"], entry["pinned"], entry["state"]) for entry in entries}, {(100_000, False, "complete")})
        du = json.loads(self.verb("du", "--json").stdout)
        self.assertEqual((du["blobs"], du["blob_bytes"]),
                         (3, sum(os.stat(path).st_blocks * 512 for path in blobs_in(self.cache()))))
        head, *rows = [line.split("\t") for line in self.verb("ls", "--long").stdout.splitlines()]
        self.assertEqual(head, ["digest", "size", "last_used", "pinned", "state", "used_by"])
        self.assertEqual({(digest, size, pinned, state, names) for digest, size, _, pinned, state, names in rows},
                         {(stores.sha256(data), "100000", "no", "complete", f"{self.source}, {self.web.url(str(i))}")
                          for i, data in enumerate(self.BLOBS)})
        self.assertEqual({used for _, _, used, _, _, _ in rows}, {entry["used"] for entry in entries})
        _, *short = [line.split("\t") for line in self.verb("ls").stdout.splitlines()]
        self.assertEqual([row[:5] + [f"{self.source} (+1)"] for row in rows], short)
        head, *rows = [line.split("\t") for line in self.verb("du").stdout.splitlines()]
        self.assertEqual(head, ["content", "count", "size"])
        self.assertIn(["blobs", "3", str(du["blob_bytes"])], rows)

    def test_ls_and_du_print_tables_on_a_terminal(self):
        self.fill()
        head, *lines = on_terminal("cache", "ls").splitlines()
        self.assertEqual(head.split(), ["digest", "size", "last", "used", "pinned", "state", "used", "by"])
        self.assertEqual({line.split()[0] for line in lines}, {stores.sha256(data)[:12] for data in self.BLOBS})
        self.assertEqual({tuple(line.split()[1:3]) for line in lines}, {("97.7", "KiB")})
        whole = on_terminal("cache", "ls", "-l").splitlines()[1:]
        self.assertEqual({line.split()[0] for line in whole}, set(map(stores.sha256, self.BLOBS)))
        self.assertRegex(on_terminal("cache", "du"), r"(?m)^blobs +3 +\d+\.\d KiB$")
        self.assertRegex(on_terminal("cache", "du", "-b"), r"(?m)^blobs +3 +\d+$")

    def test_verify_removes_a_damaged_blob(self):
        self.fill()
        self.assertTrue(self.verb("verify").stdout.startswith("3 of 3 blobs"))
        path = self.blob(self.BLOBS[0])
        os.chmod(path, 0o600)
        with open(path, "r+b") as file:
            file.write(b"rotten")
        done = self.verb("verify", status=7)
        self.assertIn(stores.sha256(self.BLOBS[0]), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assert_cache_holds(*self.BLOBS[1:])
        point = self.mount(ALLOWED, self.source)
        self.assertEqual(self.read_whole(point, "files", "model", "0"), self.BLOBS[0])
        self.assert_cache_holds(*self.BLOBS)

    def test_gc_removes_partial_downloads(self):
        self.fill()
        partial_downloads.write(self.cache(), noise(100_000), present=1)
        self.assertIn("partial", [entry["state"] for entry in self.listed()])
        self.assertRegex(self.verb("gc").stdout, r"^removed 1 partial download, 2[048]\.0 KiB\n$")
        self.assert_cache_holds(*self.BLOBS)

    def set_last_use(self, data, seconds):
        for path in (self.blob(data), os.path.join(self.cache(), "v1", "names", stores.sha256(data))):
            os.utime(path, (seconds, seconds))

    def test_gc_evicts_least_recently_used_blobs(self):
        self.fill()
        for i, data in enumerate(self.BLOBS):
            self.set_last_use(data, 1_000_000 + i)
        size = os.stat(self.blob(self.BLOBS[0])).st_blocks * 512
        total = json.loads(self.verb("du", "--json").stdout)["all_bytes"]
        self.verb("gc", "--size", str(total - size))
        self.assert_cache_holds(*self.BLOBS[1:])
        self.verb("gc", "--size", "0")
        self.assert_cache_holds()

    def test_removed_blob_is_downloaded_again_on_read(self):
        self.fill()
        point = self.mount(ALLOWED, self.source)
        with open(os.path.join(point, "files", "model", "0"), "rb") as reader:
            self.assertEqual(reader.read(10), self.BLOBS[0][:10])
            self.verb("rm", stores.sha256(self.BLOBS[0])[:8])
            self.assert_cache_holds(*self.BLOBS[1:])
            self.assertEqual(reader.read(), self.BLOBS[0][10:])
        self.assertIn(stores.sha256(b"none"), self.verb("rm", stores.sha256(b"none"), status=3).stderr)
        self.assertEqual(self.verb("rm", "xyz", status=3).stderr,
                         "weightfs: xyz: no digest, model or URL of this name is in the cache\n")
        self.verb("rm", status=2)
        self.verb("rm", "--all")
        self.assert_cache_holds()
        self.assertEqual(self.read_whole(self.mount(ALLOWED, self.source, at="next"), "files", "model", "0"), self.BLOBS[0])

    def test_pinned_blob_is_not_removed(self):
        self.fill()
        hex = stores.sha256(self.BLOBS[0])
        self.assertEqual(self.verb("pin", hex[:12]).stdout, f"{hex}: pinned\n")
        self.assertEqual(self.verb("pin", hex).stdout, f"{hex}: already pinned\n")
        self.assertEqual([entry["digest"][7:] for entry in self.listed() if entry["pinned"]], [hex])
        self.verb("gc", "--size", "0")
        self.assert_cache_holds(self.BLOBS[0])
        self.assertEqual(len(self.verb("rm", hex, status=1).stderr.splitlines()), 1)
        self.verb("rm", "--all")
        self.assert_cache_holds(self.BLOBS[0])
        self.assertEqual(self.verb("unpin", hex).stdout, f"{hex}: no longer pinned\n")
        self.verb("rm", hex)
        self.assert_cache_holds()

    # semantics 16.2
    def test_blobs_are_listed_pinned_and_removed_by_model(self):
        self.fill()
        other = noise(100_000, 7)
        self.assertEqual(
            run("fetch", ALLOWED, self.carton_of(self.web.publish("other", other), data=other, name="other.carton")).returncode, 0)
        listed = json.loads(self.verb("ls", "--json", self.source).stdout)
        self.assertEqual(sorted(entry["digest"] for entry in listed), sorted(map(stores.digest, self.BLOBS)))
        self.assertEqual([entry["names"] for entry in listed if entry["digest"] == stores.digest(self.BLOBS[1])],
                         [[self.source, self.web.url("1")]])
        self.assertEqual(len(self.verb("pin", self.source).stdout.splitlines()), 3)
        self.verb("rm", "--all")
        self.assert_cache_holds(*self.BLOBS)
        self.assertEqual(len(self.verb("unpin", os.path.relpath(self.source)).stdout.splitlines()), 3)
        self.verb("rm", self.web.url("1"))
        self.assert_cache_holds(self.BLOBS[0], self.BLOBS[2])
        self.verb("rm", self.source)
        self.assert_cache_holds()
        self.verb("ls", self.source, status=3)

    def test_blob_has_the_names_of_all_its_models(self):
        self.fill()
        copy = stores.linked_carton(self.path("copy.carton"), {"model/a": (self.BLOBS[0], [self.web.url("0")])})
        self.assertEqual(run("fetch", ALLOWED, copy).returncode, 0)
        entry, = [each for each in self.listed() if each["digest"] == stores.digest(self.BLOBS[0])]
        self.assertEqual(entry["names"], [self.source, copy, self.web.url("0")])

    def test_decoded_copies_are_named_and_verified(self):
        source = self.path("m.zip")
        with archives.Zip(source) as out:
            out.write("weights.bin", bytes(200_000), method=archives.DEFLATE)
        self.assertEqual(
            subprocess.run([WEIGHTFS, "cat", source, "files/weights.bin"], capture_output=True, check=True).stdout, bytes(200_000))
        entry, = self.listed()
        self.assertEqual(entry["names"], [f'{source}: "weights.bin"', source])
        self.assertEqual(self.verb("verify").stdout, "1 of 1 decoded copy, 195.3 KiB, matches its digest\n")

    def test_records_are_listed_with_all(self):
        url = self.web.publish("model.safetensors",
                               stores.safetensors(self.path("."), [Tensor("a", "uint8", (100_000, ), noise(100_000))]))
        self.assertEqual(run("fetch", url, "tensors/a").returncode, 0)
        self.assertEqual([entry["state"] for entry in self.listed()], ["ranges"])
        records = [entry for entry in json.loads(self.verb("ls", "--all", "--json").stdout) if entry["state"] == "complete"]
        self.assertTrue(all("version of" in name for entry in records for name in entry["names"][1:]) and records, records)
        self.assertIn("of 1 record, ", self.verb("verify").stdout)

    def test_pinned_blob_is_not_evicted(self):
        self.fill()
        for data in self.BLOBS:
            self.set_last_use(data, 1_000_000)
        self.verb("pin", stores.sha256(self.BLOBS[0]))
        large = noise(250_000)
        source = self.carton_of(self.web.publish("large", large), data=large, name="large.carton")
        self.assertEqual(self.far(self.mount(ALLOWED, "--cache-size", "400K", source)), large)
        self.assert_cache_holds(self.BLOBS[0], large)

    def test_cache_in_a_mount_is_refused(self):
        source = stores.linked_carton(self.path("m.carton"), {"model/far": (b"far", ["http://127.0.0.1:1/far"])})
        for cache in ("mnt", "mnt/deep/cache"):
            done = run("mount", source, self.path("mnt"), env=dict(os.environ, WEIGHTFS_CACHE=self.path(cache)))
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assertIn("the cache cannot be in a weightfs mount", done.stderr)
        self.assertFalse(is_mounted(self.path("mnt")))

    def test_cache_writable_by_others_is_refused(self):
        self.fill()
        os.chmod(os.path.join(self.cache(), "v1"), 0o777)
        self.assertNotEqual(run("cache", "rm", "--all").returncode, 0)
        self.assertEqual(len(blobs_in(self.cache())), 3)


if __name__ == "__main__":
    unittest.main()
