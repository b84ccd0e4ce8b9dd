"""Downloads of linked files of cartons from real servers, nginx and caddy, through the kernel."""
import errno
import gzip
import json
import os
import signal
import subprocess
import threading
import unittest
import zlib

from fetching import ALLOWED, FAR, MEGABYTE, LinkTestCase, blobs_in, closed_port
from mounting import WEIGHTFS, eventually, numbers, run
from servers import Caddy, Nginx, brotli, needs, self_signed_certificate
from test_archives import noise
import archives
import partial_downloads
import stores


class LinksBehind:
    """Tests that run with every server."""

    def setUp(self):
        super().setUp()
        self.web = self.start_server()

    def test_listing_sends_no_request_and_stat_downloads_no_data(self):
        point = self.mount(ALLOWED, self.carton_of(self.web.publish("far", FAR)))
        seen = [os.path.join(base, name) for base, _, names in os.walk(point) for name in names]
        self.assertIn(os.path.join(point, "files", "model", "far"), seen)
        self.assertEqual(run("ls", "-R", ALLOWED, self.path("m.carton")).returncode, 0)
        self.assertEqual(self.web.count(), 0)
        self.assertEqual(os.stat(os.path.join(point, "files", "model", "far")).st_size, len(FAR))
        self.assertEqual({requests.method for requests in self.web.requests()}, {"HEAD"})
        self.assert_cache_holds()

    def test_downloaded_blob_is_shared_between_mounts(self):
        carton = self.carton_of(self.web.publish("far", FAR))
        self.assertEqual(self.far(self.mount(ALLOWED, carton, at="one")), FAR)
        self.assert_cache_holds(FAR)
        requests = self.web.requests()
        self.assertEqual(sum(a.method == "GET" for a in requests), 1, requests)
        for i, options in enumerate(([], ["--offline"], [ALLOWED])):
            point = self.mount(*options, carton, at=f"again{i}")
            self.assertEqual(self.far(point), FAR)
            self.assertEqual(os.stat(os.path.join(point, "files", "model", "far")).st_size, len(FAR))
        self.assertEqual(self.web.requests(), requests)

    def test_private_addresses_are_refused_by_default(self):
        process, point = self.foreground(self.carton_of(self.web.publish("far", FAR)))
        self.assert_unreadable(point)
        self.assertEqual(self.read_whole(point, "files", "model", "near"), b"here")
        self.assertEqual(self.web.count(), 0)
        self.assertRegex("\n".join(self.end(process)), r"loopback|private")
        self.assert_cache_holds()

    def test_offline_sends_no_request(self):
        point = self.mount("--offline", ALLOWED, self.carton_of(self.web.publish("far", FAR)))
        self.assert_unreadable(point, [errno.EHOSTUNREACH])
        self.assertEqual(self.web.count(), 0)

    def test_two_concurrent_mounts_download_once(self):
        carton = self.carton_of(self.web.publish("far", FAR))
        points = [self.mount(ALLOWED, carton, at=f"mnt{i}") for i in range(3)]
        self.assertEqual(self.read_at_once(points), [FAR] * 3)
        self.assertEqual(self.web.count("GET"), 1, self.web.requests())
        self.assert_cache_holds(FAR)

    def test_two_files_with_one_digest_are_downloaded_once(self):
        url = self.web.publish("far", FAR)
        with archives.Zip(self.path("m.carton")) as out:
            out.write("carton.toml", archives.NOOP.encode())
            out.write("MANIFEST", archives.manifest({"carton.toml": archives.NOOP.encode()},
                                                    linked={"model/a": FAR, "model/b": FAR}))
            out.write("LINKS", f'version = 1\n[urls]\n{stores.sha256(FAR)} = ["{url}"]\n'.encode())
        point = self.mount(ALLOWED, self.path("m.carton"))
        for name in ("a", "b"):
            self.assertEqual(self.read_whole(point, "files", "model", name), FAR)
        self.assertEqual(self.web.count("GET"), 1)

    def test_next_url_is_used_after_not_found(self):
        good = self.web.publish("good", FAR)
        cases = {"404": self.web.url("absent"), "another file": self.web.publish("bad", FAR[:-1] + b"\xff"),
                 "another size": self.web.publish("short", FAR[:-1]), "no URL of the web": "file:///etc/passwd"}
        for i, (case, url) in enumerate(cases.items()):
            with self.subTest(case):
                os.environ["WEIGHTFS_CACHE"] = self.path(f"cache{i}")
                point = self.mount(ALLOWED, "--timeout", "5", self.carton_of(url, good, name=f"{i}.carton"), at=f"mnt{i}")
                self.assertEqual(self.far(point), FAR)

    def test_missing_file_is_an_error_and_reported_once(self):
        carton = self.carton_of(self.web.url("absent"), self.web.url("gone"))
        process, point = self.foreground(ALLOWED, carton)
        for _ in range(2):
            self.assert_unreadable(point, [errno.EIO, errno.ENOENT, errno.EHOSTUNREACH])
        self.assertEqual(self.read_whole(point, "files", "model", "near"), b"here")
        self.assertEqual({a.status for a in self.web.requests()}, {404})
        lines = self.end(process)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("404", lines[0])
        self.assert_cache_holds()

    def test_corrupt_download_is_neither_served_nor_kept(self):
        wrong = FAR[:-1] + b"\xff"
        process, point = self.foreground(ALLOWED, self.carton_of(self.web.publish("far", wrong)))
        for _ in range(2):
            with self.assertRaises(OSError) as caught, open(os.path.join(point, "files", "model", "far"), "rb") as file:
                file.read(10)
            self.assertEqual(caught.exception.errno, errno.EIO)
        self.assertRegex("\n".join(self.end(process)), r"SHA-256|digest")
        self.assert_cache_holds()

    def test_no_cache_leaves_no_files(self):
        point = self.mount(ALLOWED, "--no-cache", self.carton_of(self.web.publish("far", FAR)))
        self.assertEqual(self.far(point), FAR)
        self.assertEqual(self.far(point), FAR)
        self.assertEqual(self.web.count("GET"), 1)
        self.unmount(point)
        self.assertFalse(os.path.exists(self.cache()))

    def test_linked_tensor_is_an_array(self):
        import numpy
        data = numbers("f", 60_000)
        urls = [self.web.publish("t.bin", data)]
        stores.linked_carton(self.path("m.carton"), {"tensor_data/t.bin": (data, urls)},
                             tensors=[("n/a", "float32", (3, 20_000), "t.bin")])
        point = self.mount(ALLOWED, self.path("m.carton"))
        self.assertEqual(json.loads(self.read_whole(point, "tensors.json"))["tensors"][0]["shape"], [3, 20_000])
        path = os.path.join(point, "npy", "n", "a.npy")
        for mode in (None, "r"):
            array = numpy.load(path, mmap_mode=mode)
            self.assertEqual((array.shape, array.dtype.name, array.tobytes()), ((3, 20_000), "float32", data))
        self.assertEqual(self.read_whole(point, "tensors", "n", "a"), data)
        self.assertEqual(self.web.count("GET"), 1)
        self.assert_cache_holds(data)

    def test_empty_and_one_byte_files_are_read(self):
        far = {"model/empty": (b"", [self.web.publish("empty", b"")]), "model/one": (b"1", [self.web.publish("one", b"1")])}
        point = self.mount(ALLOWED, stores.linked_carton(self.path("m.carton"), far))
        self.assertEqual((self.read_whole(point, "files", "model", "empty"), self.read_whole(point, "files", "model", "one")),
                         (b"", b"1"))


@needs("nginx")
class LinksBehindNginx(LinksBehind, LinkTestCase):
    def start_server(self):
        return Nginx(self)

    def test_next_url_is_used_after_connection_refused(self):
        carton = self.carton_of(f"http://127.0.0.1:{closed_port()}/far", self.web.publish("good", FAR))
        self.assertEqual(self.far(self.mount("-o", "allow_private_urls,timeout=5", carton)), FAR)

    def test_compressed_response_is_decompressed(self):
        packed = {"gzip": gzip.compress(FAR), "deflate": zlib.compress(FAR), "zstd": archives.zstd(FAR), "br": brotli(FAR)}
        for encoding, data in packed.items():
            with self.subTest(encoding):
                os.environ["WEIGHTFS_CACHE"] = self.path("cache-" + encoding)
                # Also if no encoding was requested.
                server = Nginx(self, f"add_header Content-Encoding {encoding};", name="nginx-" + encoding)
                point = self.mount(ALLOWED, self.carton_of(server.publish("far", data), name=f"{encoding}.carton"), at=encoding)
                self.assertEqual(self.far(point), FAR)
                self.assertEqual(os.stat(os.path.join(point, "files", "model", "far")).st_size, len(FAR))
                self.assertEqual({requests.encoding for requests in server.requests()}, {encoding})
                self.assertEqual([os.path.basename(path) for path in blobs_in(self.path("cache-" + encoding))],
                                 [stores.sha256(FAR)])

    def test_precompressed_file_is_decompressed(self):
        url = self.web.publish("far", FAR)
        self.web.publish("far.gz", gzip.compress(FAR))
        self.assertEqual(self.far(self.mount(ALLOWED, self.carton_of(url))), FAR)
        self.assert_cache_holds(FAR)

    def test_damaged_gzip_response_is_an_error(self):
        server = Nginx(self, "add_header Content-Encoding gzip;", name="packed")
        for i, data in enumerate((gzip.compress(FAR)[:-100], FAR, gzip.compress(FAR[:-1]))):
            point = self.mount(ALLOWED, self.carton_of(server.publish(f"far{i}", data), name=f"{i}.carton"), at=f"mnt{i}")
            self.assert_unreadable(point, [errno.EIO, errno.EHOSTUNREACH])
        self.assert_cache_holds()

    def test_redirects_are_followed_and_loops_fail(self):
        server = Nginx(self, "rewrite ^/old/(.*)$ /$1 redirect; rewrite ^/loop$ /loop redirect;", name="moving")
        server.publish("far", FAR)
        self.assertEqual(self.far(self.mount(ALLOWED, self.carton_of(server.url("old/far")))), FAR)
        point = self.mount(ALLOWED, self.carton_of(server.url("loop"), data=b"other", name="loop.carton"), at="loop")
        self.assert_unreadable(point, [errno.EIO, errno.EHOSTUNREACH])
        self.assertLessEqual(server.count("GET", "/loop") + server.count("HEAD", "/loop"), 100)

    def test_download_of_a_killed_mount_is_resumed(self):
        data = noise(4 * MEGABYTE)
        server = Nginx(self, "limit_rate_after 2m; limit_rate 256k;", name="slow")
        carton = self.carton_of(server.publish("far", data), data=data)
        process, point = self.foreground(ALLOWED, carton)
        reader = threading.Thread(target=self.assert_unreadable, args=(point, range(1, 200)))
        reader.start()
        part = partial_downloads.path_of(self.cache(), data)
        eventually(lambda: partial_downloads.present_bytes(part) >= MEGABYTE)
        process.kill()
        process.wait()
        had = partial_downloads.present_bytes(part)
        self.force_unmount(point)
        reader.join()
        self.assertGreaterEqual(had, MEGABYTE)
        eventually(lambda: any(request.method == "GET" for request in server.requests()))  # logged when it has ended
        before = len(server.requests())
        self.assertEqual(self.far(self.mount(ALLOWED, carton, at="again")), data)
        self.assert_cache_holds(data)
        later = [requests for requests in server.requests()[before:] if requests.method == "GET"]
        self.assertEqual({request.status for request in later}, {206})
        self.assertLess(sum(request.bytes for request in later), len(data))

    def test_blob_larger_than_the_quota_is_not_readable(self):
        process, point = self.foreground(ALLOWED, "--cache-size", "500K", self.carton_of(self.web.publish("far", FAR)))
        self.assert_unreadable(point, [errno.EIO])
        self.assertEqual(self.read_whole(point, "files", "model", "near"), b"here")
        self.assertEqual(len(self.end(process)), 1)
        self.assert_cache_holds()

    def test_unmount_does_not_wait_for_a_slow_server(self):
        data = noise(4 * MEGABYTE)
        server = Nginx(self, "limit_rate 1k;", name="slow")
        process, point = self.foreground(ALLOWED, self.carton_of(server.publish("far", data), data=data))
        reader = threading.Thread(target=self.assert_unreadable, args=(point, range(1, 200)))
        reader.start()
        part = partial_downloads.path_of(self.cache(), data)
        eventually(lambda: os.path.exists(part) or not reader.is_alive())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)
        reader.join()


@needs("caddy")
class LinksBehindCaddy(LinksBehind, LinkTestCase):
    def start_server(self):
        return Caddy(self)

    def test_precompressed_and_dynamic_compression_are_decompressed(self):
        for encoding in ("br", "zstd"):
            data = b"the same again and again\n" * 40_000 + encoding.encode()
            url = self.web.publish(encoding, data)
            if encoding == "br":
                self.web.publish("br.br", brotli(data))
            point = self.mount(ALLOWED, self.carton_of(url, data=data, name=f"{encoding}.carton"), at=encoding)
            self.assertEqual(self.far(point), data)
            self.assertEqual([a.encoding for a in self.web.requests() if a.method == "GET" and a.path == f"/{encoding}"],
                             [encoding])


@needs("caddy", "openssl")
class Https(LinkTestCase):
    def setUp(self):
        super().setUp()
        self.certificate = self_signed_certificate(self.tmp)
        self.web = Caddy(self, self.certificate)
        self.source = self.carton_of(self.web.publish("far", FAR))

    def test_untrusted_certificate_is_refused(self):
        done = run("fetch", ALLOWED, "--insecure", self.source)
        self.assertEqual(self.web.count(), 0)
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("certificate", done.stderr)
        self.assert_cache_holds()

    @unittest.skipUnless(os.geteuid() == 0, "replacing certificates needs a mount namespace, which needs root")
    def test_trusted_certificate_is_accepted(self):
        self.need_mount_namespace()
        trusted = "/etc/ssl/certs/ca-certificates.crt"
        if not os.path.exists(trusted):
            self.skipTest("needs the package ca-certificates")
        script = f'mount --bind "$0" {trusted} && exec "$@"'
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, self.certificate[0], WEIGHTFS, "fetch", ALLOWED, self.source],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("HTTP/2.0", self.web.protocols())
        self.assert_cache_holds(FAR)


if __name__ == "__main__":
    unittest.main()
