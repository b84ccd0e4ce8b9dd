"""Fetching from real servers through the kernel: linked files of cartons behind nginx and caddy, models in docker-registry,
what a mount says of itself while it fetches, and looking after the cache."""
import base64
import errno
import gzip
import json
import os
import pty
import re
import signal
import socket
import subprocess
import threading
import time
import unittest
import zlib

from fetching import FetchTestCase, blobs_in
from mounting import WEIGHTFS, Tensor, numbers, run, sample_tensors
from servers import LOGIN, Caddy, Nginx, Registry, brotli, needs, self_made_certificate
from test_archives import noise
import archives
import stores

MEGABYTE = 1 << 20
FAR = noise(MEGABYTE // 2) + bytes(MEGABYTE // 2)  # half of it can be packed
ALLOWED = "--allow-private-urls"
NOT_REACHED = (errno.EHOSTUNREACH, errno.EIO)


class LinkTestCase(FetchTestCase):
    def carton_of(self, *urls, data=FAR, name="m.carton"):
        """A carton whose model/far is behind these URLs."""
        return stores.linked_carton(self.path(name), {"model/far": (data, list(urls))}, {"model/near": b"here"})

    def far(self, point):
        return self.whole(point, "files", "model", "far")

    def assert_unreadable(self, point, errors=NOT_REACHED):
        with self.assertRaises(OSError) as caught:
            self.far(point)
        self.assertIn(caught.exception.errno, errors)

    def read_at_once(self, points):
        """Reads model/far of each mount, all at the same time."""
        seen = [None] * len(points)

        def read(i):
            seen[i] = self.far(points[i])
        readers = [threading.Thread(target=read, args=(i,)) for i in range(len(points))]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        return seen


class LinksBehind:
    """What holds whichever server it is."""

    def setUp(self):
        super().setUp()
        self.web = self.start_server()

    def test_to_list_asks_nobody_and_to_look_asks_for_no_bytes(self):
        point = self.mount(ALLOWED, self.carton_of(self.web.publish("far", FAR)))
        seen = [os.path.join(base, name) for base, _, names in os.walk(point) for name in names]
        self.assertIn(os.path.join(point, "files", "model", "far"), seen)
        self.assertEqual(run("ls", "-R", ALLOWED, self.path("m.carton")).returncode, 0)
        self.assertEqual(self.web.count(), 0)
        self.assertEqual(os.stat(os.path.join(point, "files", "model", "far")).st_size, len(FAR))
        self.assertEqual({asked.method for asked in self.web.asked()}, {"HEAD"})
        self.assert_cache_holds()

    def test_what_was_read_once_is_there_for_all_mounts(self):
        carton = self.carton_of(self.web.publish("far", FAR))
        self.assertEqual(self.far(self.mount(ALLOWED, carton, at="one")), FAR)
        self.assert_cache_holds(FAR)
        asked = self.web.asked()
        self.assertEqual(sum(a.method == "GET" for a in asked), 1, asked)
        for i, options in enumerate(([], ["--offline"], [ALLOWED])):
            point = self.mount(*options, carton, at=f"again{i}")
            self.assertEqual(self.far(point), FAR)
            self.assertEqual(os.stat(os.path.join(point, "files", "model", "far")).st_size, len(FAR))
        self.assertEqual(self.web.asked(), asked)

    def test_nobody_is_asked_unless_private_addresses_are_allowed(self):
        process, point = self.foreground(self.carton_of(self.web.publish("far", FAR)))
        self.assert_unreadable(point)
        self.assertEqual(self.whole(point, "files", "model", "near"), b"here")
        self.assertEqual(self.web.count(), 0)
        self.assertRegex("\n".join(self.end(process)), r"loopback|private")
        self.assert_cache_holds()

    def test_nobody_is_asked_offline(self):
        point = self.mount("--offline", ALLOWED, self.carton_of(self.web.publish("far", FAR)))
        self.assert_unreadable(point, [errno.EHOSTUNREACH])
        self.assertEqual(self.web.count(), 0)

    def test_two_mounts_that_want_it_at_once_fetch_it_once(self):
        carton = self.carton_of(self.web.publish("far", FAR))
        points = [self.mount(ALLOWED, carton, at=f"mnt{i}") for i in range(3)]
        self.assertEqual(self.read_at_once(points), [FAR] * 3)
        self.assertEqual(self.web.count("GET"), 1, self.web.asked())
        self.assert_cache_holds(FAR)

    def test_two_files_of_one_digest_are_fetched_once(self):
        url = self.web.publish("far", FAR)
        with archives.Zip(self.path("m.carton")) as out:
            out.write("carton.toml", archives.NOOP.encode())
            out.write("MANIFEST", archives.manifest({"carton.toml": archives.NOOP.encode()}, linked={"model/a": FAR, "model/b": FAR}))
            out.write("LINKS", f'version = 1\n[urls]\n{stores.sha256(FAR)} = ["{url}"]\n'.encode())
        point = self.mount(ALLOWED, self.path("m.carton"))
        for name in ("a", "b"):
            self.assertEqual(self.whole(point, "files", "model", name), FAR)
        self.assertEqual(self.web.count("GET"), 1)

    def test_the_next_url_is_asked_when_one_has_it_not(self):
        good = self.web.publish("good", FAR)
        cases = {"404": self.web.url("absent"), "another file": self.web.publish("bad", FAR[:-1] + b"\xff"),
                 "another size": self.web.publish("short", FAR[:-1]), "no URL of the web": "file:///etc/passwd"}
        for i, (case, url) in enumerate(cases.items()):
            with self.subTest(case):
                os.environ["WEIGHTFS_CACHE"] = self.path(f"cache{i}")
                point = self.mount(ALLOWED, "--timeout", "5", self.carton_of(url, good, name=f"{i}.carton"), at=f"mnt{i}")
                self.assertEqual(self.far(point), FAR)

    def test_what_nobody_has_is_an_error_and_said_once(self):
        carton = self.carton_of(self.web.url("absent"), self.web.url("gone"))
        process, point = self.foreground(ALLOWED, carton)
        for _ in range(2):
            self.assert_unreadable(point, [errno.EIO, errno.ENOENT, errno.EHOSTUNREACH])
        self.assertEqual(self.whole(point, "files", "model", "near"), b"here")
        self.assertEqual({a.status for a in self.web.asked()}, {404})
        lines = self.end(process)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("404", lines[0])
        self.assert_cache_holds()

    def test_wrong_bytes_are_never_served_nor_kept(self):
        wrong = FAR[:-1] + b"\xff"
        process, point = self.foreground(ALLOWED, self.carton_of(self.web.publish("far", wrong)))
        for _ in range(2):
            with self.assertRaises(OSError) as caught, open(os.path.join(point, "files", "model", "far"), "rb") as file:
                file.read(10)
            self.assertEqual(caught.exception.errno, errno.EIO)
        self.assertRegex("\n".join(self.end(process)), r"SHA-256|digest")
        self.assert_cache_holds()

    def test_without_a_cache_nothing_is_left(self):
        point = self.mount(ALLOWED, "--no-cache", self.carton_of(self.web.publish("far", FAR)))
        self.assertEqual(self.far(point), FAR)
        self.assertEqual(self.far(point), FAR)
        self.assertEqual(self.web.count("GET"), 1)
        self.unmount(point)
        self.assertFalse(os.path.exists(self.cache()))

    def test_a_tensor_behind_a_link_is_an_array(self):
        import numpy
        data = numbers("f", 60_000)
        urls = [self.web.publish("t.bin", data)]
        stores.linked_carton(self.path("m.carton"), {"tensor_data/t.bin": (data, urls)}, tensors=[("n/a", "float32", (3, 20_000), "t.bin")])
        point = self.mount(ALLOWED, self.path("m.carton"))
        self.assertEqual(json.loads(self.whole(point, "tensors.json"))["tensors"][0]["shape"], [3, 20_000])
        path = os.path.join(point, "npy", "n", "a.npy")
        for mode in (None, "r"):
            array = numpy.load(path, mmap_mode=mode)
            self.assertEqual((array.shape, array.dtype.name, array.tobytes()), ((3, 20_000), "float32", data))
        self.assertEqual(self.whole(point, "tensors", "n", "a"), data)
        self.assertEqual(self.web.count("GET"), 1)
        self.assert_cache_holds(data)

    def test_an_empty_file_and_one_byte(self):
        far = {"model/empty": (b"", [self.web.publish("empty", b"")]), "model/one": (b"1", [self.web.publish("one", b"1")])}
        point = self.mount(ALLOWED, stores.linked_carton(self.path("m.carton"), far))
        self.assertEqual((self.whole(point, "files", "model", "empty"), self.whole(point, "files", "model", "one")), (b"", b"1"))


@needs("nginx")
class LinksBehindNginx(LinksBehind, LinkTestCase):
    def start_server(self):
        return Nginx(self)

    def test_the_next_url_is_asked_when_nobody_listens_at_one(self):
        carton = self.carton_of(f"http://127.0.0.1:{closed_port()}/far", self.web.publish("good", FAR))
        self.assertEqual(self.far(self.mount("-o", "allow_private_urls,timeout=5", carton)), FAR)

    def test_what_it_sends_packed_is_unpacked(self):
        packed = {"gzip": gzip.compress(FAR), "deflate": zlib.compress(FAR), "zstd": archives.zstd(FAR), "br": brotli(FAR)}
        for encoding, data in packed.items():
            with self.subTest(encoding):
                os.environ["WEIGHTFS_CACHE"] = self.path("cache-" + encoding)
                # Whether it is asked to or not.
                server = Nginx(self, f"add_header Content-Encoding {encoding};", name="nginx-" + encoding)
                point = self.mount(ALLOWED, self.carton_of(server.publish("far", data), name=f"{encoding}.carton"), at=encoding)
                self.assertEqual(self.far(point), FAR)
                self.assertEqual(os.stat(os.path.join(point, "files", "model", "far")).st_size, len(FAR))
                self.assertEqual({asked.encoding for asked in server.asked()}, {encoding})
                self.assertEqual([os.path.basename(path) for path in blobs_in(self.path("cache-" + encoding))], [stores.sha256(FAR)])

    def test_a_file_with_its_packed_form_beside_it(self):
        url = self.web.publish("far", FAR)
        self.web.publish("far.gz", gzip.compress(FAR))
        self.assertEqual(self.far(self.mount(ALLOWED, self.carton_of(url))), FAR)
        self.assert_cache_holds(FAR)

    def test_damaged_gzip_is_an_error(self):
        server = Nginx(self, "add_header Content-Encoding gzip;", name="packed")
        for i, data in enumerate((gzip.compress(FAR)[:-100], FAR, gzip.compress(FAR[:-1]))):
            point = self.mount(ALLOWED, self.carton_of(server.publish(f"far{i}", data), name=f"{i}.carton"), at=f"mnt{i}")
            self.assert_unreadable(point, [errno.EIO, errno.EHOSTUNREACH])
        self.assert_cache_holds()

    def test_redirects_are_followed_and_loops_are_not(self):
        server = Nginx(self, "rewrite ^/old/(.*)$ /$1 redirect; rewrite ^/loop$ /loop redirect;", name="moving")
        server.publish("far", FAR)
        self.assertEqual(self.far(self.mount(ALLOWED, self.carton_of(server.url("old/far")))), FAR)
        point = self.mount(ALLOWED, self.carton_of(server.url("loop"), data=b"other", name="loop.carton"), at="loop")
        self.assert_unreadable(point, [errno.EIO, errno.EHOSTUNREACH])
        self.assertLessEqual(server.count("GET", "/loop") + server.count("HEAD", "/loop"), 100)

    def test_what_a_killed_mount_began_the_next_one_goes_on_with(self):
        data = noise(4 * MEGABYTE)
        server = Nginx(self, "limit_rate_after 2m; limit_rate 256k;", name="slow")
        carton = self.carton_of(server.publish("far", data), data=data)
        process, point = self.foreground(ALLOWED, carton)
        reader = threading.Thread(target=self.assert_unreadable, args=(point, range(1, 200)))
        reader.start()
        part = os.path.join(self.cache(), "v1", "making", stores.sha256(data) + ".part")
        end = time.monotonic() + 60
        while not (os.path.exists(part) and os.path.getsize(part) >= MEGABYTE) and time.monotonic() < end:
            time.sleep(0.01)
        process.kill()
        process.wait()
        had = os.path.getsize(part)
        self.force_unmount(point)
        reader.join()
        self.assertGreaterEqual(had, MEGABYTE)
        before = len(server.asked())
        self.assertEqual(self.far(self.mount(ALLOWED, carton, at="again")), data)
        self.assert_cache_holds(data)
        later = [asked for asked in server.asked()[before:] if asked.method == "GET"]
        self.assertEqual({asked.status for asked in later}, {206})
        self.assertLess(sum(asked.bytes for asked in later), len(data))

    def test_a_stream_is_read_while_it_arrives(self):
        data = noise(4 * MEGABYTE)
        server = Nginx(self, "limit_rate_after 2m; limit_rate 1k;", name="slow")
        process, point = self.foreground(ALLOWED, "--stream", self.carton_of(server.publish("far", data), data=data))
        with open(os.path.join(point, "files", "model", "far"), "rb", buffering=0) as file:
            self.assertEqual(file.read(4096), data[:4096])
        self.assertEqual(server.count("GET"), 0, "it is not finished, so it is not in the log")
        self.assertEqual(blobs_in(self.cache()), [])
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)

    def test_a_stream_of_wrong_bytes_fails_before_its_end_and_is_not_kept(self):
        wrong = FAR[:-1] + b"\xff"
        point = self.mount(ALLOWED, "--stream", self.carton_of(self.web.publish("far", wrong)))
        for _ in range(2):
            self.assert_unreadable(point)
        self.assert_cache_holds()

    def test_what_does_not_fit_the_cache_cannot_be_read(self):
        process, point = self.foreground(ALLOWED, "--cache-size", "500K", self.carton_of(self.web.publish("far", FAR)))
        self.assert_unreadable(point, [errno.EIO])
        self.assertEqual(self.whole(point, "files", "model", "near"), b"here")
        self.assertEqual(len(self.end(process)), 1)
        self.assert_cache_holds()

    def test_unmounting_does_not_wait_for_a_slow_server(self):
        data = noise(4 * MEGABYTE)
        server = Nginx(self, "limit_rate 1k;", name="slow")
        process, point = self.foreground(ALLOWED, self.carton_of(server.publish("far", data), data=data))
        reader = threading.Thread(target=self.assert_unreadable, args=(point, range(1, 200)))
        reader.start()
        part = os.path.join(self.cache(), "v1", "making", stores.sha256(data) + ".part")
        while not os.path.exists(part) and reader.is_alive():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)
        reader.join()


@needs("caddy")
class LinksBehindCaddy(LinksBehind, LinkTestCase):
    def start_server(self):
        return Caddy(self)

    def test_packed_beforehand_or_as_it_is_sent(self):
        for encoding in ("br", "zstd"):
            data = b"the same again and again\n" * 40_000 + encoding.encode()
            url = self.web.publish(encoding, data)
            if encoding == "br":
                self.web.publish("br.br", brotli(data))
            point = self.mount(ALLOWED, self.carton_of(url, data=data, name=f"{encoding}.carton"), at=encoding)
            self.assertEqual(self.far(point), data)
            self.assertEqual([a.encoding for a in self.web.asked() if a.method == "GET" and a.path == f"/{encoding}"], [encoding])


@needs("caddy", "openssl")
class Https(LinkTestCase):
    def setUp(self):
        super().setUp()
        self.certificate = self_made_certificate(self.tmp)
        self.web = Caddy(self, self.certificate)
        self.source = self.carton_of(self.web.publish("far", FAR))

    def test_a_certificate_that_nobody_vouches_for_is_not_accepted(self):
        done = run("fetch", ALLOWED, "--insecure", self.source)
        self.assertEqual(self.web.count(), 0)
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("certificate", done.stderr)
        self.assert_cache_holds()

    @unittest.skipUnless(os.geteuid() == 0, "certificates of its own need a mount namespace, which needs root")
    def test_one_that_the_system_trusts_is(self):
        trusted = "/etc/ssl/certs/ca-certificates.crt"
        if not os.path.exists(trusted):
            self.skipTest("needs the package ca-certificates")
        script = f'mount --bind "$0" {trusted} && exec "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, self.certificate[0], WEIGHTFS, "fetch", ALLOWED, self.source],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("HTTP/2.0", self.web.protocols())
        self.assert_cache_holds(FAR)


def closed_port():
    """One on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class RegistryTestCase(FetchTestCase):
    NAME = "library/tiny"

    def setUp(self):
        super().setUp()
        self.package = stores.tiny(self.tmp, sample_tensors())
        self.model = self.package.blobs[self.package.layers[0]["digest"][7:]]

    def push(self, registry, package, tag="latest", name=NAME):
        for data in package.blobs.values():
            registry.push_blob(name, data)
        registry.push_manifest(name, tag, package.manifest())
        return f"ollama://{registry.host}/{name}:{tag}"

    def blob_requests(self, registry):
        return [a for a in registry.pulled() if "/blobs/" in a.path]

    def manifest_requests(self, registry):
        return [a for a in registry.pulled() if "/manifests/" in a.path]

    def assert_cache_holds(self, *blobs):
        """These, and the manifest with its digest, by which a tag is known offline."""
        manifest = self.package.manifest()
        super().assert_cache_holds(*blobs, stores.sha256(manifest).encode() + b"\n" + manifest)

    def everything(self, point):
        """{path: bytes} of all files below."""
        return {os.path.relpath(os.path.join(base, name), point): self.whole(base, name)
                for base, _, names in os.walk(point) for name in names}


@needs("docker-registry")
class Models(RegistryTestCase):
    def setUp(self):
        super().setUp()
        self.registry = Registry(self)
        self.url = self.push(self.registry, self.package)

    def test_the_tree_is_that_of_a_store(self):
        store = stores.Store(self.path("models"))
        remote = self.everything(self.mount(self.url))
        local = self.everything(self.mount(store.put_package("tiny/latest", self.package), at="local"))
        # What could only be known by fetching has a place from the beginning.
        self.assertEqual(remote.pop("warnings.txt"), b"")
        self.assertEqual(sorted(remote), sorted(local))
        for path in local:
            if not path.startswith("metadata."):
                self.assertEqual(remote[path], local[path], path)
        remote, local = (json.loads(tree["metadata.json"]) for tree in (remote, local))
        digest = stores.digest(self.package.manifest())
        self.assertEqual(remote["metadata"]["manifest"]["digest"], digest)
        self.assertTrue(remote["source"].endswith("@" + digest), remote["source"])
        self.assertEqual({**remote, "source": ""}, {**local, "source": ""})
        self.assert_cache_holds(*set(self.package.blobs.values()))

    def test_each_blob_is_fetched_once_and_the_tag_is_resolved_once(self):
        point = self.mount(self.url)
        self.assertEqual(len(self.manifest_requests(self.registry)), 1)
        self.assertEqual(self.blob_requests(self.registry), [])
        for _ in range(2):
            self.everything(point)
        self.assertEqual(len(self.manifest_requests(self.registry)), 1)
        asked = self.blob_requests(self.registry)
        self.assertEqual(len(asked), len(set(a.path for a in asked)), asked)
        self.assertEqual(len(asked), len(self.package.blobs))

    def test_what_is_not_read_is_not_fetched(self):
        point = self.mount(self.url)
        self.assertIn("model.gguf", os.listdir(os.path.join(point, "files")))
        self.assertEqual(os.stat(os.path.join(point, "files", "model.gguf")).st_size, len(self.model))
        self.assertEqual(self.blob_requests(self.registry), [])
        self.assertEqual(self.whole(point, "files", "template"), stores.TEMPLATE)
        self.assertNotIn(stores.sha256(self.model), str(self.blob_requests(self.registry)))

    def test_offline_shows_what_was_fetched_and_nothing_else(self):
        done = run("mount", "--offline", self.url, self.path("mnt"))
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertRegex(done.stderr, r"^weightfs: .*offline.*\n$")
        self.assertEqual(run("fetch", self.url).returncode, 0)
        asked = self.registry.asked()
        self.registry.stop()
        point = self.mount("--offline", self.url)
        self.assertEqual(self.whole(point, "files", "model.gguf"), self.model)
        for tensor in sample_tensors():
            self.assertEqual(self.whole(point, "tensors", tensor.name), tensor.data)
        self.assertGreater(len(asked), 0)

    def test_without_the_registry_it_is_not_guessed_what_the_tag_means(self):
        self.assertEqual(run("fetch", self.url).returncode, 0)
        self.registry.stop()
        done = run("mount", self.url, self.path("mnt"))
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("--offline", done.stderr)

    def test_after_a_fetch_reading_asks_for_nothing(self):
        done = run("fetch", self.url)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        before = self.blob_requests(self.registry)
        self.assertEqual(len(before), len(self.package.blobs))
        self.everything(self.mount(self.url))
        self.assertEqual(self.blob_requests(self.registry), before)
        self.assert_cache_holds(*self.package.blobs.values())

    def test_a_fetch_of_one_file_fetches_that(self):
        done = run("fetch", self.url, "files/template")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_cache_holds(stores.TEMPLATE)

    def test_a_tag_that_moves_moves_no_mount(self):
        point = self.mount(self.url)
        other = stores.tiny(self.tmp, [Tensor("other", "int8", (2,), b"ab")], "Other")
        self.push(self.registry, other)
        self.assertEqual(self.whole(point, "tensors", "bias"), numbers("i", 4))
        self.assertEqual(self.whole(point, "files", "manifest.json"), self.package.manifest())
        self.assertEqual(self.whole(self.mount(self.url, at="next"), "tensors", "other"), b"ab")

    def test_by_digest_it_is_that_manifest(self):
        other = stores.tiny(self.tmp, [Tensor("other", "int8", (2,), b"ab")], "Other")
        self.push(self.registry, other)
        digest = stores.digest(self.package.manifest())
        point = self.mount(f"ollama://{self.registry.host}/{self.NAME}@{digest}")
        self.assertEqual(self.whole(point, "tensors", "bias"), numbers("i", 4))

    def test_a_tag_or_model_that_is_not_there(self):
        for name in (f"{self.NAME}:absent", "library/absent:latest"):
            done = run("mount", f"ollama://{self.registry.host}/{name}", self.path("mnt"))
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(name, done.stderr)
            self.assertFalse(os.path.exists(self.path("mnt")))

    def test_the_first_bytes_that_a_server_sends_are_not_believed(self):
        # The registry does not compare what lies in its storage.
        hex = stores.sha256(self.model)
        data = os.path.join(self.registry.content, "docker", "registry", "v2", "blobs", "sha256", hex[:2], hex, "data")
        self.assertEqual(self.whole(data), self.model)
        with open(data, "wb") as file:
            file.write(self.model[:-1] + b"\xff")
        point = self.mount(self.url)
        with self.assertRaises(OSError) as caught:
            self.whole(point, "files", "model.gguf")
        self.assertEqual(caught.exception.errno, errno.EIO)
        self.assertEqual(self.whole(point, "files", "template"), stores.TEMPLATE)
        self.published(1)
        self.assertNotIn(stores.sha256(self.model), map(os.path.basename, blobs_in(self.cache())))

    def test_blobs_of_the_local_store_are_read_there(self):
        store = stores.Store(self.path("home", ".ollama", "models"))
        store.put_package("tiny/latest", self.package)
        self.everything(self.mount(self.url))
        self.assertEqual(self.blob_requests(self.registry), [])
        self.assert_cache_holds()

    def test_a_name_is_asked_of_the_registry_when_the_store_has_it_not(self):
        self.assertEqual(self.whole(self.mount(f"ollama:{self.registry.host}/{self.NAME}"), "tensors", "bias"), numbers("i", 4))

    def test_two_models_are_two_directories(self):
        second = self.push(self.registry, stores.tiny(self.tmp, [Tensor("other", "int8", (2,), b"ab")], "Other"), "7b")
        point = self.mount(self.url, second)
        names = os.listdir(point)
        self.assertEqual(len(names), 2, names)
        self.assertEqual(sorted(tensor for name in names for tensor in os.listdir(os.path.join(point, name, "tensors"))),
                         sorted(["other", "bias", "bytes", "empty", "encoder", "scalar"]))

    def test_of_an_index_the_one_for_this_machine_is_taken(self):
        other = stores.tiny(self.tmp, [Tensor("other", "int8", (2,), b"ab")], "Other")
        self.push(self.registry, other, "other")
        rows = [{"mediaType": stores.MANIFEST, "size": len(package.manifest()), "digest": stores.digest(package.manifest()),
                 "platform": {"architecture": architecture, "os": "linux"}}
                for package, architecture in ((other, "s390x"), (self.package, {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]))]
        kind = "application/vnd.docker.distribution.manifest.list.v2+json"
        self.registry.push_manifest(self.NAME, "index", stores.as_go({"schemaVersion": 2, "mediaType": kind, "manifests": rows}))
        point = self.mount(f"ollama://{self.registry.host}/{self.NAME}:index")
        self.assertEqual(self.whole(point, "tensors", "bias"), numbers("i", 4))

    def test_two_mounts_that_read_at_once_fetch_each_blob_once(self):
        points = [self.mount(self.url, at=f"mnt{i}") for i in range(2)]
        trees = [None, None]

        def read(i):
            trees[i] = self.everything(points[i])
        readers = [threading.Thread(target=read, args=(i,)) for i in range(2)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.assertEqual(trees[0], trees[1])
        asked = [a.path for a in self.blob_requests(self.registry)]
        self.assertEqual(sorted(asked), sorted(set(asked)))

    def test_tensors_as_layers(self):
        import numpy
        tensors = [Tensor(f"layer.{i}.weight", "float32", (4, 8), numbers("f", 32)[:-4] + bytes([i] * 4)) for i in range(20)]
        url = self.push(self.registry, stores.mlx(self.tmp, tensors, {"config.json": {"model_type": "tiny"}}), name="library/mlx")
        point = self.mount(url)
        for tensor in tensors:
            self.assertEqual(numpy.load(os.path.join(point, "npy", tensor.name + ".npy")).tobytes(), tensor.data)

    def test_ls_cat_and_info_without_a_mount(self):
        self.assertIn("model.gguf", run("ls", self.url, "files").stdout)
        self.assertEqual(run("cat", self.url, "files/template").stdout, stores.TEMPLATE.decode())
        page = run("info", self.url)
        self.assertEqual((page.returncode, page.stderr), (0, ""))
        self.assertIn("Tiny", page.stdout)


@needs("docker-registry")
class Logins(RegistryTestCase):
    def setUp(self):
        super().setUp()
        self.registry = Registry(self, login=True)
        self.url = self.push(self.registry, self.package)

    def log_in(self, user, password):
        auth = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.write("home/.docker/config.json", json.dumps({"auths": {self.registry.host: {"auth": auth}}}).encode())

    def test_with_the_login_of_docker(self):
        self.log_in(*LOGIN)
        point = self.mount(self.url)
        self.assertEqual(self.whole(point, "files", "model.gguf"), self.model)

    def test_without_one_access_is_denied(self):
        done = run("mount", self.url, self.path("mnt"))
        self.assertNotIn(done.returncode, (0, 3), done.stderr)
        self.assertIn("access denied", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_with_a_wrong_one_too_and_the_password_is_not_told(self):
        self.log_in("anna", "a-wrong-password")
        done = run("mount", self.url, self.path("mnt"))
        self.assertNotIn(done.returncode, (0, 3), done.stderr)
        self.assertIn("access denied", done.stderr)
        self.assertNotIn("a-wrong-password", done.stderr)
        self.assertLessEqual(len([a for a in self.registry.asked() if a.method == "GET"]), 3)


@needs("nginx")
class Status(LinkTestCase):
    def setUp(self):
        super().setUp()
        self.web = Nginx(self)

    def status(self, point):
        return json.loads(self.whole(point, ".weightfs", "status.json"))

    def test_it_is_there_for_those_who_know_its_name(self):
        point = self.mount(ALLOWED, self.carton_of(self.web.publish("far", FAR)))
        self.assertNotIn(".weightfs", os.listdir(point))
        self.assertFalse([base for base, _, _ in os.walk(point) if ".weightfs" in base])
        self.assertEqual(os.listdir(os.path.join(point, ".weightfs")), ["status.json"])
        self.assertEqual(set(self.status(point)), {"counters", "blobs"})
        with self.assertRaises(OSError) as caught:
            open(os.path.join(point, ".weightfs", "status.json"), "w")
        self.assertIn(caught.exception.errno, (errno.EROFS, errno.EACCES, errno.EPERM))

    def test_it_counts_what_is_fetched_and_what_was_there(self):
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

    def test_it_tells_errors(self):
        point = self.mount(ALLOWED, self.carton_of(self.web.url("absent?token=secret")))
        self.assert_unreadable(point, [errno.EIO, errno.ENOENT, errno.EHOSTUNREACH])
        status = self.status(point)
        self.assertEqual(status["counters"]["bytes_fetched"], 0)
        self.assertFalse(any(blob["verified"] for blob in status["blobs"]))
        self.assertNotIn("secret", json.dumps(status))

    def test_an_open_file_is_read_anew_each_time_that_it_is_opened(self):
        point = self.mount(ALLOWED, self.carton_of(self.web.publish("far", FAR)))
        before = self.whole(point, ".weightfs", "status.json")
        done = subprocess.run(["cat", os.path.join(point, ".weightfs", "status.json")], capture_output=True, check=True)
        self.assertEqual(done.stdout, before)
        self.far(point)
        after = subprocess.run(["cat", os.path.join(point, ".weightfs", "status.json")], capture_output=True, check=True).stdout
        self.assertNotEqual(after, before)
        json.loads(after)

    def test_it_grows_while_bytes_arrive(self):
        data = noise(2 * MEGABYTE)
        server = Nginx(self, "limit_rate_after 1m; limit_rate 512k;", name="slow")
        point = self.mount(ALLOWED, self.carton_of(server.publish("far", data), data=data))
        reader = threading.Thread(target=self.far, args=(point,))
        reader.start()
        seen = []
        while reader.is_alive():
            blobs = self.status(point)["blobs"]
            if blobs and not blobs[0]["verified"] and 0 < blobs[0]["fetched"] < len(data):
                seen.append(blobs[0]["fetched"])
            time.sleep(0.02)
        reader.join()
        self.assertTrue(seen)
        self.assertEqual(seen, sorted(seen))
        self.assertTrue(self.status(point)["blobs"][0]["verified"])


@needs("nginx")
class Fetch(LinkTestCase):
    def setUp(self):
        super().setUp()
        self.web = Nginx(self)

    def test_it_says_in_plain_lines_what_it_brought(self):
        carton = self.carton_of(self.web.publish("far", FAR))
        done = run("fetch", ALLOWED, carton)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        first, last = done.stdout.splitlines()
        self.assertRegex(first, f"^{stores.sha256(FAR)[:12]}  1.0 MiB  model/far  from {re.escape(self.web.url('far'))}$")
        self.assertEqual(last, "1 blob at hand (1.0 MiB), 1.0 MiB fetched")
        self.assert_cache_holds(FAR)
        again = run("fetch", ALLOWED, carton)
        self.assertEqual((again.returncode, again.stderr), (0, ""))
        self.assertTrue(again.stdout.splitlines()[-1].startswith("1 blob at hand (1.0 MiB), 0 B fetched"), again.stdout)
        self.assertEqual(self.web.count("GET"), 1)

    def test_a_container_without_links_has_nothing_to_fetch(self):
        done = run("fetch", self.sample())
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("nothing to fetch", done.stdout)

    def test_on_a_terminal_it_draws_a_bar(self):
        data = noise(2 * MEGABYTE)
        server = Nginx(self, "limit_rate_after 512k; limit_rate 512k;", name="slow")
        carton = self.carton_of(server.publish("far", data), data=data)
        terminal, other = pty.openpty()
        process = subprocess.Popen([WEIGHTFS, "fetch", ALLOWED, carton], stdout=subprocess.PIPE, stderr=other, stdin=subprocess.DEVNULL)
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
        self.assertTrue(drawn.endswith(b"\r\x1b[K"), "the bar is gone when it is done")
        self.assertNotIn("\x1b", out)
        self.assertIn("model/far", out)

    def test_what_it_cannot_bring_is_a_line_and_a_status(self):
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

    def test_many_files_are_fetched_each_once(self):
        files = {f"model/{i}": noise(10_000, i) for i in range(60)}
        carton = stores.linked_carton(self.path("m.carton"), {name: (data, [self.web.publish(name, data)]) for name, data in files.items()})
        done = run("fetch", ALLOWED, carton)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.web.count("GET"), len(files))
        self.assert_cache_holds(*files.values())

    def test_a_bar_that_is_interrupted_leaves_what_came_for_the_next_time(self):
        data = noise(4 * MEGABYTE)
        server = Nginx(self, "limit_rate_after 2m; limit_rate 256k;", name="slow")
        carton = self.carton_of(server.publish("far", data), data=data)
        process = subprocess.Popen([WEIGHTFS, "fetch", ALLOWED, carton], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        part = os.path.join(self.cache(), "v1", "making", stores.sha256(data) + ".part")
        end = time.monotonic() + 60
        while not (os.path.exists(part) and os.path.getsize(part) >= MEGABYTE) and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertNotEqual(process.wait(30), 0)
        self.assertGreaterEqual(os.path.getsize(part), MEGABYTE)
        before = len(server.asked())
        self.assertEqual(run("fetch", ALLOWED, carton).returncode, 0)
        self.assertLess(sum(a.bytes for a in server.asked()[before:] if a.method == "GET"), len(data))
        self.assert_cache_holds(data)


@needs("nginx")
class LookingAfterTheCache(LinkTestCase):
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

    def test_where_it_is(self):
        self.assertEqual(self.verb("path").stdout, self.cache() + "\n")
        self.assertFalse(os.path.exists(self.cache()))

    def test_one_that_is_not_there_is_empty(self):
        self.assertEqual(self.verb("ls").stdout, "the cache is empty\n")
        self.assertEqual(self.listed(), [])
        self.assertEqual(json.loads(self.verb("du", "--json").stdout)["blobs"], 0)
        self.assertEqual(self.verb("verify").stdout, "the cache is empty\n")
        self.assertEqual(self.verb("gc").stdout, "nothing to remove\n")
        self.assertFalse(os.path.exists(self.cache()))

    def test_what_is_in_it(self):
        self.fill()
        entries = self.listed()
        self.assertEqual(sorted(entry["digest"] for entry in entries), sorted(map(stores.digest, self.BLOBS)))
        self.assertEqual({(entry["size"], entry["pinned"], entry["state"]) for entry in entries}, {(100_000, False, "complete")})
        du = json.loads(self.verb("du", "--json").stdout)
        self.assertEqual((du["blobs"], du["blob_bytes"]), (3, sum(os.stat(path).st_blocks * 512 for path in blobs_in(self.cache()))))
        lines = self.verb("ls", "-l").stdout.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual({line.split()[0] for line in lines[1:]}, set(map(stores.sha256, self.BLOBS)))

    def test_a_blob_that_has_rotted_is_found_and_removed(self):
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
        self.assertEqual(self.whole(point, "files", "model", "0"), self.BLOBS[0])
        self.assert_cache_holds(*self.BLOBS)

    def test_what_was_left_is_collected(self):
        self.fill()
        left = os.path.join(self.cache(), "v1", "making", stores.sha256(b"other") + ".part")
        self.write(os.path.relpath(left, self.tmp), bytes(8192))
        self.assertIn("unfinished", [entry["state"] for entry in self.listed()])
        self.assertRegex(self.verb("gc").stdout, r"^removed 1 unfinished fetch, 8\.0 KiB\n$")
        self.assert_cache_holds(*self.BLOBS)

    def test_the_ones_used_longest_ago_go_until_it_is_small_enough(self):
        self.fill()
        for i, data in enumerate(self.BLOBS):
            os.utime(self.blob(data), (1_000_000 + i, 1_000_000 + i))
        size = os.stat(self.blob(self.BLOBS[0])).st_blocks * 512
        total = json.loads(self.verb("du", "--json").stdout)["all_bytes"]
        self.verb("gc", "--size", str(total - size))
        self.assert_cache_holds(*self.BLOBS[1:])
        self.verb("gc", "--size", "0")
        self.assert_cache_holds()

    def test_what_is_named_is_removed_and_fetched_again_when_it_is_read(self):
        self.fill()
        point = self.mount(ALLOWED, self.source)
        with open(os.path.join(point, "files", "model", "0"), "rb") as reader:
            self.assertEqual(reader.read(10), self.BLOBS[0][:10])
            self.verb("rm", stores.sha256(self.BLOBS[0])[:8])
            self.assert_cache_holds(*self.BLOBS[1:])
            self.assertEqual(reader.read(), self.BLOBS[0][10:])
        self.assertIn(stores.sha256(b"none"), self.verb("rm", stores.sha256(b"none"), status=3).stderr)
        self.verb("rm", "xyz", status=2)
        self.verb("rm", status=2)
        self.verb("rm", "--all")
        self.assert_cache_holds()
        self.assertEqual(self.whole(self.mount(ALLOWED, self.source, at="next"), "files", "model", "0"), self.BLOBS[0])

    def test_what_is_pinned_stays_until_it_is_not(self):
        self.fill()
        hex = stores.sha256(self.BLOBS[0])
        self.assertEqual(self.verb("pin", hex[:12]).stdout, f"{hex}: pinned\n")
        self.assertEqual(self.verb("pin", hex).stdout, f"{hex}: is pinned already\n")
        self.assertEqual([entry["digest"][7:] for entry in self.listed() if entry["pinned"]], [hex])
        self.verb("gc", "--size", "0")
        self.assert_cache_holds(self.BLOBS[0])
        self.assertEqual(len(self.verb("rm", hex, status=1).stderr.splitlines()), 1)
        self.verb("rm", "--all")
        self.assert_cache_holds(self.BLOBS[0])
        self.assertEqual(self.verb("unpin", hex).stdout, f"{hex}: no longer pinned\n")
        self.verb("rm", hex)
        self.assert_cache_holds()

    def test_what_is_pinned_stays_when_room_is_wanted(self):
        self.fill()
        for data in self.BLOBS:
            os.utime(self.blob(data), (1_000_000, 1_000_000))
        self.verb("pin", stores.sha256(self.BLOBS[0]))
        large = noise(250_000)
        source = self.carton_of(self.web.publish("large", large), data=large, name="large.carton")
        self.assertEqual(self.far(self.mount(ALLOWED, "--cache-size", "400K", source)), large)
        self.assert_cache_holds(self.BLOBS[0], large)

    def test_one_that_others_may_write_to_is_not_touched(self):
        self.fill()
        os.chmod(os.path.join(self.cache(), "v1"), 0o777)
        self.assertNotEqual(run("cache", "rm", "--all").returncode, 0)
        self.assertEqual(len(blobs_in(self.cache())), 3)


if __name__ == "__main__":
    unittest.main()
