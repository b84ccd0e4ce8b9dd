"""Models at URLs, mounted from real servers (nginx, caddy) and read by ranges: the bytes, and the bytes that are transferred."""
import base64
import errno
import gzip
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import threading
import unittest

from fetching import FetchTestCase
from mounting import LIMIT_S, WEIGHTFS, on_terminal, run, until
from servers import Caddy, Nginx, needs, self_signed_certificate
from test_archives import index_of, noise
import archives
import artifacts
import containers
import stores
from tensors import Tensor

KIB = 1024
MIB = 1024 * KIB


COMPRESSED = "gzip on; gzip_types *; gzip_proxied any; gzip_http_version 1.0;"


def tensors(count, size):
    """`count` tensors of `size` bytes of different noise."""
    return [Tensor(f"layer.{i}", "uint8", (size,), noise(size, seed=i + 1)) for i in range(count)]


class UrlTestCase(FetchTestCase):
    def setUp(self):
        super().setUp()
        self.web = self.start_server()

    def start_server(self):
        return Nginx(self)

    def transferred(self):
        return sum(request.bytes for request in self.web.requests() if request.status in (200, 206))

    def publish_safetensors(self, name="model.safetensors", count=4, size=MIB):
        written = tensors(count, size)
        return self.web.publish(name, stores.safetensors(self.path("."), written)), written

    def publish_sharded(self, folder="sharded", shards=6, size=200 * KIB):
        """The URL of the directory, and the tensors of its shards."""
        local = self.path("shards")
        os.makedirs(local)
        parts = [tensors(2, size) for _ in range(shards)]
        for number, part in enumerate(parts):
            for i, tensor in enumerate(part):
                part[i] = tensor._replace(name=f"shard.{number}.{i}", data=noise(size, seed=10 * number + i))
        containers.write_safetensors_shards(local, parts)
        for name in os.listdir(local):
            with open(os.path.join(local, name), "rb") as file:
                self.web.publish(f"{folder}/{name}", file.read())
        return self.web.url(f"{folder}/"), [tensor for part in parts for tensor in part]

    def content_of(self, name):
        with open(os.path.join(self.web.content, name), "rb") as file:
            return file.read()


class Samples(UrlTestCase):
    # docs/numbers.md
    def test_sampled_figures_and_pictures_cost_little_of_a_large_tensor(self):
        shape = (16 * KIB, 4 * KIB)
        tensor = Tensor("w", "uint8", shape, noise(64 * MIB, seed=1))
        url = self.web.publish("model.safetensors", stores.safetensors(self.path("."), [tensor]))
        for command in (("stats", "--sample"), ("plot", "w", "--sample", "-o", self.path("w.png"))):
            before = self.transferred()
            done = run(command[0], url, *command[1:], "--no-cache")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertLess(self.transferred() - before, 4 * MIB, command)


class WithEveryServer:
    # semantics 21.7
    def test_block_list_of_a_url_is_that_of_its_file(self):
        url, _ = self.publish_safetensors()
        done = run("verify", "--tree", self.path("list"), url)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        local = self.path("local.safetensors")
        with open(local, "wb") as file:
            file.write(subprocess.run([WEIGHTFS, "cat", url, "files/model.safetensors"], check=True, capture_output=True).stdout)
        self.assertEqual(run("verify", "--tree", self.path("expected"), local).returncode, 0)
        self.assertEqual(self.read("list"), self.read("expected"))
        done = run("verify", "--tree", self.path("other"), url.rpartition("/")[0] + "/")
        self.assertEqual(done.returncode, 4)
        self.assertIn("/: names a directory; --tree needs one file", done.stderr)

    def test_tensors_of_a_url_are_files(self):
        url, written = self.publish_safetensors()
        point = self.mount(url)
        self.assertEqual(sorted(os.listdir(os.path.join(point, "tensors"))), [tensor.name for tensor in written])
        for tensor in written:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)

    def test_listing_transfers_the_header(self):
        url, _ = self.publish_safetensors()
        self.mount(url)
        self.assertEqual(run("ls", "-R", url).returncode, 0)
        self.assertLessEqual(self.transferred(), 64 * KIB)

    def test_reading_a_tensor_transfers_at_most_two_percent_more(self):
        url, written = self.publish_safetensors()
        point = self.mount(url)
        before = self.transferred()
        self.assertEqual(self.read_whole(point, "tensors", "layer.2"), written[2].data)
        self.assertLessEqual(self.transferred() - before, 1.02 * MIB + 128 * KIB)

    def test_second_mount_transfers_nothing(self):
        url, written = self.publish_safetensors()
        self.read_whole(self.mount(url, at="one"), "tensors", "layer.1")
        until(lambda: self.transferred() > MIB, "the request is not logged")
        before = self.transferred()
        self.assertEqual(self.read_whole(self.mount(url, at="two"), "tensors", "layer.1"), written[1].data)
        self.assertEqual(self.transferred(), before)

    def test_reading_the_file_transfers_each_byte_once(self):
        url, _ = self.publish_safetensors()
        point = self.mount(url)
        self.assertEqual(self.read_whole(point, "files", "model.safetensors"), self.content_of("model.safetensors"))
        self.assertLessEqual(self.transferred(), 1.01 * 4 * MIB + 64 * KIB)

    def test_index_in_a_directory_opens_its_shards(self):
        url, written = self.publish_sharded()
        point = self.mount(url)
        self.assertEqual(len(os.listdir(os.path.join(point, "tensors"))), len(written))
        self.assertEqual(self.read_whole(point, "tensors", written[7].name), written[7].data)
        self.assertEqual(run("info", url + "model.safetensors.index.json").returncode, 0)

    def test_listing_files_of_shards_requests_nothing(self):
        # semantics 21.10
        url, _ = self.publish_sharded()
        point = self.mount(url)
        self.assertGreater(self.transferred(), 0)
        before = len(self.web.requests())
        names = os.listdir(os.path.join(point, "files"))
        self.assertEqual({name: os.stat(os.path.join(point, "files", name)).st_size for name in names},
                         {name: len(self.content_of(os.path.join("sharded", name))) for name in names})
        for name in ("tensors.json", "metadata.json", "metadata.toml"):
            self.read_whole(point, name)
        for folder in ("tensors", "npy"):
            for name in os.listdir(os.path.join(point, folder)):
                os.stat(os.path.join(point, folder, name))
        self.assertEqual(len(self.web.requests()), before)

    def test_members_of_a_remote_zip_are_slices(self):
        files = {f"{i}.bin": noise(MIB, seed=i + 1) for i in range(4)}
        with archives.Zip(self.path("m.zip")) as out:
            for name, data in files.items():
                out.write(name, data)
        with open(self.path("m.zip"), "rb") as file:
            url = self.web.publish("m.zip", file.read())
        point = self.mount(url)
        self.assertEqual(self.read_whole(point, "files", "2.bin"), files["2.bin"])
        self.assertLessEqual(self.transferred(), MIB + 256 * KIB)

    def test_tensors_of_a_remote_carton_are_slices(self):
        data = [noise(MIB, seed=i + 1) for i in range(4)]
        files = {f"tensor_data/t{i}.bin": bytes for i, bytes in enumerate(data)}
        files["tensor_data/index.toml"] = index_of([(f"layer.{i}", "uint8", [MIB], f"t{i}.bin") for i in range(4)])
        archives.write_carton(self.path("m.carton"), files, method=archives.STORED)
        with open(self.path("m.carton"), "rb") as file:
            url = self.web.publish("m.carton", file.read())
        point = self.mount(url)
        self.assertEqual(json.loads(self.read_whole(point, "metadata.json"))["format"], "carton")
        self.assertEqual(self.read_whole(point, "tensors", "layer.2"), data[2])
        self.assertLessEqual(self.transferred(), MIB + 384 * KIB)

    def test_carton_in_a_directory_has_the_files_of_its_manifest(self):
        files = {"model/weights": noise(MIB), "model/other": noise(MIB, seed=2)}
        archives.write_carton_directory(self.path("unpacked"), files)
        for base, _, names in os.walk(self.path("unpacked")):
            for name in names:
                path = os.path.join(base, name)
                with open(path, "rb") as file:
                    self.web.publish(os.path.join("unpacked", os.path.relpath(path, self.path("unpacked"))), file.read())
        point = self.mount(self.web.url("unpacked/"))
        self.assertEqual(sorted(os.listdir(os.path.join(point, "files", "model"))), ["other", "weights"])
        self.assertEqual(self.read_whole(point, "files", "model", "weights"), files["model/weights"])
        self.assertLessEqual(self.transferred(), MIB + 384 * KIB)

    def test_members_of_a_remote_tar_are_slices(self):
        files = {f"{i}.bin": noise(MIB, seed=i + 1) for i in range(4)}
        point = self.mount(self.web.publish("m.tar", artifacts.tar(files)))
        self.assertEqual(self.read_whole(point, "files", "2.bin"), files["2.bin"])
        self.assertLessEqual(self.transferred(), MIB + 384 * KIB)

    def test_tensor_cache_in_a_directory_opens_its_shards(self):
        shards = [noise(2 * MIB, seed=i + 1) for i in range(3)]
        records = []
        for i, shard in enumerate(shards):
            self.web.publish(f"mlc/params_shard_{i}.bin", shard)
            tensors = [{"name": f"layer.{i}.{half}", "shape": [MIB // 4], "dtype": "float32", "format": "raw", "nbytes": MIB,
                        "byteOffset": half * MIB} for half in (0, 1)]
            records.append({"dataPath": f"params_shard_{i}.bin", "format": "raw-shard", "nbytes": len(shard), "records": tensors,
                            "md5sum": hashlib.md5(shard).hexdigest()})
        self.web.publish("mlc/tensor-cache.json", json.dumps({"metadata": {"ParamSize": 6}, "records": records}).encode())
        point = self.mount(self.web.url("mlc/"))
        self.assertEqual(len(os.listdir(os.path.join(point, "tensors"))), 6)
        self.assertEqual(self.read_whole(point, "tensors", "layer.1.1"), shards[1][MIB:])
        self.assertLessEqual(self.transferred(), MIB + 384 * KIB)


# semantics 21.1
@needs("nginx")
class Directories(UrlTestCase):
    NAMES = ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json", "README.md")

    def requests_of_small_files(self):
        return [self.web.count(path=f"/repo/{name}") for name in self.NAMES]

    def test_config_is_in_the_summary_and_requested_when_the_model_is_opened(self):
        self.publish_safetensors("repo/model.safetensors")
        self.web.publish("repo/config.json", b'{"model_type": "llama", "num_hidden_layers": 3}')
        self.web.publish("repo/README.md", b"---\nlicense: mit\n---\n")
        point = self.mount(self.web.url("repo/"))
        self.assertEqual(self.requests_of_small_files(), [1] * 5)
        with open(os.path.join(point, "metadata.json")) as file:
            summary = json.load(file)["summary"]
        self.assertEqual((summary["architecture"], summary["layers"], summary["license"]), ("llama", 3, "mit"))
        self.assertEqual(self.requests_of_small_files(), [1] * 5, "a mount requests nothing else later")

    def test_without_a_config_no_other_small_file_is_requested(self):
        self.publish_safetensors("repo/model.safetensors")
        done = run("info", "--json", self.web.url("repo/"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.requests_of_small_files(), [1, 0, 0, 0, 0])

    # semantics 21.10
    def test_path_of_a_tensor_opens_its_shard_only(self):
        url, written = self.publish_sharded()
        done = run("cat", url, f"tensors/{written[7].name}", text=False)
        self.assertEqual((done.returncode, done.stderr, done.stdout == written[7].data), (0, b"", True))
        opened = {os.path.basename(each.path) for each in self.web.requests()}
        self.assertEqual(opened, {"model.safetensors.index.json", "model-00004-of-00006.safetensors"})


@needs("nginx")
class BlockLists(UrlTestCase):
    """Ranges are verified with a block list that `weightfs verify --tree` wrote."""

    def setUp(self):
        super().setUp()
        self.url, self.written = self.publish_safetensors()
        self.list = self.path("model.fsverity")
        done = run("verify", "--tree", self.list, self.url)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.digest = done.stdout.splitlines()[-1].split()[0]

    def tamper(self):
        """Changes a byte of layer.2 on the server."""
        data = bytearray(stores.safetensors(self.path("."), self.written))
        data[data.index(self.written[2].data) + MIB // 2] ^= 1
        self.web.publish("model.safetensors", bytes(data))

    def assert_only_layer_2_is_refused(self, point):
        for tensor in self.written:
            path = os.path.join(point, "tensors", tensor.name)
            if tensor.name != "layer.2":
                self.assertEqual(self.read_whole(path), tensor.data)
                continue
            with self.assertRaises(OSError) as failed:
                self.read_whole(path)
            self.assertEqual(failed.exception.errno, errno.EIO)

    def test_list_in_a_file(self):
        point = self.mount("--tree", self.list, self.url)
        self.assertEqual(self.read_whole(point, "tensors", "layer.2"), self.written[2].data)
        with open(os.path.join(point, ".weightfs", "status.json")) as file:
            self.assertEqual([remote["verified"] for remote in json.load(file)["remotes"]], ["blocks"])
        self.tamper()
        self.assert_only_layer_2_is_refused(self.mount("--no-cache", "--tree", self.list, self.url, at="tampered"))

    def test_list_beside_the_model_with_this_digest(self):
        with open(self.list, "rb") as file:
            self.web.publish("model.safetensors.fsverity", file.read())
        self.tamper()
        self.assert_only_layer_2_is_refused(self.mount("--tree", self.digest, self.url))
        other = run("ls", "--tree", "sha256:" + "0" * 64, self.url)
        self.assertEqual(other.returncode, 7)
        self.assertIn("is the block list of another file", other.stderr)

    def test_list_that_does_not_fit_is_refused(self):
        for arguments, message in ((("--tree", self.path("none"), self.url), "No such file"),
                                   (("--tree", "sha256:12", self.url), "not a digest"),
                                   (("--tree", self.list, self.web.url("")), "needs the URL of a file"),
                                   (("--tree", self.list, self.list), "needs the URL of a file, or a name in a registry")):
            with self.subTest(arguments):
                done = run("ls", *arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(message, done.stderr)


class FromNginx(WithEveryServer, UrlTestCase):
    pass


@needs("caddy", "openssl")
class FromCaddyByHttps(WithEveryServer, UrlTestCase):
    def start_server(self):
        certificate, key = self_signed_certificate(self.path("."))
        os.environ["CURL_CA_BUNDLE"] = certificate  # restored by setUp()'s patch
        return Caddy(self, (certificate, key))

    def test_ranges_are_requested_by_http2(self):
        url, written = self.publish_safetensors()
        self.assertEqual(self.read_whole(self.mount(url), "tensors", "layer.2"), written[2].data)
        self.assertEqual(self.web.protocols(), {"HTTP/2.0"})

    def test_fstab_names_a_url(self):
        url, written = self.publish_safetensors()
        os.symlink(WEIGHTFS, self.path("mount.weightfs"))
        os.mkdir(self.path("mnt"))
        self.addCleanup(self.force_unmount, self.path("mnt"))
        done = subprocess.run([self.path("mount.weightfs"), url, self.path("mnt"), "-o", "rw,_netdev,cache_size=1G"],
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.read_whole(self.path("mnt"), "tensors", "layer.1"), written[1].data)


@needs("nginx")
class Changes(UrlTestCase):
    def test_changed_file_fails_and_is_right_after_remount(self):
        url, old = self.publish_safetensors()
        point = self.mount(url)
        self.assertEqual(self.read_whole(point, "tensors", "layer.0"), old[0].data)
        new = [tensor._replace(data=noise(MIB, seed=100 + i)) for i, tensor in enumerate(old)]
        self.web.publish("model.safetensors", stores.safetensors(self.path("."), new))
        os.utime(os.path.join(self.web.content, "model.safetensors"), (1, 1))  # another ETag in any case
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "tensors", "layer.3")
        self.assertEqual(caught.exception.errno, errno.EIO)
        self.assertEqual(self.read_whole(self.mount(url, at="again"), "tensors", "layer.3"), new[3].data)

    def test_offline_mount_reads_cached_ranges_only(self):
        url, written = self.publish_safetensors()
        self.read_whole(self.mount(url, at="one"), "tensors", "layer.1")
        self.web.stop()
        point = self.mount("--offline", url, at="two")
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "tensors", "layer.3")
        self.assertEqual(caught.exception.errno, errno.EHOSTUNREACH)

    def test_killed_server_leaves_a_cache_of_right_bytes(self):
        self.web = Nginx(self, "limit_rate 10m;", name="slow", send_buffer=64 * KIB)
        url, written = self.publish_safetensors(count=8, size=16 * MIB)
        random.seed(1)
        self.interrupted = 0
        for i in range(50):
            point = self.mount(url, at=f"mnt{i}")
            reader = threading.Thread(target=self.read_until_killed, args=(point, i % 8))
            reader.start()
            reader.join(random.random() / 20)
            os.kill(self.server(point), signal.SIGKILL)
            reader.join()
            self.force_unmount(point)
        self.assertGreaterEqual(self.interrupted, 25)
        point = self.mount(url, at="last")
        for tensor in written:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        # A kill loses the bytes in the buffers of the sockets, and less than one block of each transfer: of 50 kills a tenth of the
        # model at most, on a busy machine. Without resumption it would be many times the model.
        self.assertLessEqual(self.transferred(), 1.15 * 8 * 16 * MIB)

    def read_until_killed(self, point, number):
        try:
            self.read_whole(point, "tensors", f"layer.{number}")
        except OSError:
            self.interrupted += 1

    def test_no_cache_leaves_no_files(self):
        url, written = self.publish_safetensors()
        point = self.mount("--no-cache", url)
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
        self.assertEqual([name for _, _, names in os.walk(self.cache()) for name in names], [])


@needs("nginx")
class ServersWithoutRanges(UrlTestCase):
    def test_file_is_transferred_as_one_stream(self):
        self.web = Nginx(self, "max_ranges 0;", name="without-ranges")
        url, written = self.publish_safetensors()
        point = self.mount(url)
        for tensor in reversed(written):
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        self.assertEqual([request.status for request in self.web.requests()], [200, 200])
        self.assertEqual(self.read_whole(self.mount(url, at="again"), "tensors", "layer.1"), written[1].data)
        self.assertEqual([request.status for request in self.web.requests()], [200, 200, 304])

    def test_ranges_of_a_server_that_compresses_are_not_compressed(self):
        self.web = Nginx(self, COMPRESSED, name="compressing")
        url, written = self.publish_safetensors()
        status, headers, _ = self.web.send_request("GET", "/model.safetensors",
                                                   headers={"Accept-Encoding": "gzip", "Range": "bytes=0-9"})
        self.assertEqual((status, headers["Content-Encoding"], headers["ETag"][:2]), (200, "gzip", "W/"))
        before = self.transferred()
        self.assertEqual(self.read_whole(self.mount(url), "tensors", "layer.2"), written[2].data)
        self.assertLessEqual(self.transferred() - before, 1.02 * MIB + 128 * KIB)

    def test_file_that_is_always_compressed_is_refused(self):
        self.web = Nginx(self, name="always-compressing", locations=f"""
location /inner/ {{ alias CONTENT/; {COMPRESSED} }}
location /by-proxy/ {{ proxy_pass http://127.0.0.1:PORT/inner/; proxy_http_version 1.1; proxy_set_header Accept-Encoding gzip; }}
location /static/ {{ alias CONTENT/; gzip_static always; }}
""")
        _, written = self.publish_safetensors()
        data = self.content_of("model.safetensors")
        self.web.publish("model.safetensors.gz", gzip.compress(data))
        for folder in ("by-proxy", "static"):
            with self.subTest(folder):
                url = self.web.url(f"{folder}/model.safetensors")
                status, headers, _ = self.web.send_request("GET", f"/{folder}/model.safetensors", headers={"Range": "bytes=0-9"})
                self.assertEqual(headers["Content-Encoding"], "gzip")
                done = run("info", url)
                self.assertEqual((done.returncode, done.stdout), (4, ""))
                self.assertEqual(
                    done.stderr, f"weightfs: {url}: the size of the file is not known: the server sends the file with the encoding "
                    "\"gzip\", without its size\n")

    def test_file_without_a_tag_is_of_one_date(self):
        self.web = Nginx(self, "etag off;", name="without-tags")
        url, old = self.publish_safetensors()
        path = os.path.join(self.web.content, "model.safetensors")
        point = self.mount(url)
        self.assertEqual(self.read_whole(point, "tensors", "layer.0"), old[0].data)
        new = [tensor._replace(data=noise(MIB, seed=100 + i)) for i, tensor in enumerate(old)]
        self.web.publish("model.safetensors", stores.safetensors(self.path("."), new))
        os.utime(path, (1, 1))
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "tensors", "layer.3")
        self.assertEqual(caught.exception.errno, errno.EIO)
        self.assertEqual(self.read_whole(self.mount(url, at="again"), "tensors", "layer.0"), new[0].data)


@needs("nginx")
class SignedTargets(UrlTestCase):
    """The URL redirects to a signed URL, which nginx checks (ngx_http_secure_link_module). A signature expires when the file
    `expired` exists; then the redirect has another one."""
    TARGET = "/signed/model.safetensors"

    def serve(self, status):
        def signature(key):
            return base64.urlsafe_b64encode(hashlib.md5(f"{self.TARGET} {key}".encode()).digest()).decode().rstrip("=")
        self.web = Nginx(self, name=f"signed-{status}", locations=f"""
location = /model.safetensors {{
  if (-f CONTENT/expired) {{ return 302 {self.TARGET}?signature={signature('new')}; }}
  return 302 {self.TARGET}?signature={signature('old')};
}}
location /signed/ {{
  alias CONTENT/;
  set $key old;
  if (-f CONTENT/expired) {{ set $key new; }}
  secure_link $arg_signature;
  secure_link_md5 "$uri $key";
  if ($secure_link = "") {{ return {status}; }}
}}
""")
        return self.publish_safetensors(size=200 * KIB)  # a tensor is requested whole

    def statuses(self):
        """The statuses of requests for the URL, and for the target of the redirect."""
        requests = self.web.requests()
        return [[request.status for request in requests if request.path == path] for path in ("/model.safetensors", self.TARGET)]

    def test_target_is_used_until_it_expires_and_renewed_once(self):
        for status in (403, 410, 400):
            with self.subTest(status):
                url, written = self.serve(status)
                point = self.mount(url, at=f"mnt{status}")
                self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
                self.assertEqual(self.statuses(), [[302], [206, 206]])
                self.web.publish("expired", b"")
                for i in (3, 0):
                    self.assertEqual(self.read_whole(point, "tensors", f"layer.{i}"), written[i].data)
                self.assertEqual(self.statuses(), [[302, 302], [206, 206, status, 206, 206]])


# semantics 7.7
@needs("nginx")
class PageCache(UrlTestCase):
    def bytes_of_second_read(self):
        """How many bytes the server sends when a tensor is opened and read again; they are counted before the reply."""
        url, written = self.publish_safetensors()
        point = self.mount(url)

        def bytes_read():
            return json.loads(self.read_whole(point, ".weightfs", "status.json"))["served_bytes"]
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
        before = bytes_read()
        self.assertEqual(self.read_whole(point, "tensors", "layer.1"), written[1].data)
        return bytes_read() - before

    def test_pages_of_a_version_with_a_strong_tag_are_kept(self):
        self.assertEqual(self.bytes_of_second_read(), 0)

    def test_pages_of_a_file_without_a_tag_are_dropped(self):
        self.web = Nginx(self, "etag off;", name="without-tags")
        self.assertEqual(self.bytes_of_second_read(), MIB)


@needs("nginx")
class Commands(UrlTestCase):
    def test_fetch_of_a_path_downloads_that_tensor_for_offline_use(self):
        url, written = self.publish_safetensors()
        done = run("fetch", url, "tensors/layer.2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^http://\S+: 1\.0 MiB of 4\.0 MiB fetched in \d+ requests, 6[5-9] of 257 blocks cached\n"
                                      r"1 file, 1\.0 MiB: 0 B cached before, 1\.0 MiB downloaded, 0 B verified\n$")
        self.assertLessEqual(self.transferred(), 1.02 * MIB + 128 * KIB)
        self.web.stop()
        point = self.mount("--offline", url)
        self.assertEqual(self.read_whole(point, "tensors", "layer.2"), written[2].data)

    def test_fetch_downloads_the_whole_file(self):
        url, written = self.publish_safetensors()
        self.assertEqual(run("fetch", url).returncode, 0)
        self.web.stop()
        point = self.mount("--offline", url)
        for tensor in written:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)

    def test_fetch_of_a_file_that_is_larger_than_the_cache_fails(self):
        url, _ = self.publish_safetensors()
        for size in ("16K", "64K", "1M", "3000K"):
            with self.subTest(size=size):
                done = run("fetch", "--cache-size", size, url)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("use a larger --cache-size", done.stderr)
        self.assertEqual(run("fetch", "--cache-size", "8M", url).returncode, 0)

    def test_status_reports_bytes_and_requests(self):
        url, _ = self.publish_safetensors()
        point = self.mount(url)
        self.read_whole(point, "tensors", "layer.1")
        with open(os.path.join(point, ".weightfs", "status.json")) as file:
            status = json.load(file)
        remote, = status["remotes"]
        self.assertEqual((remote["url"], remote["verified"]), (url, "transport"))
        self.assertEqual(remote["bytes_fetched"], self.transferred())
        self.assertEqual(status["counters"]["bytes_fetched"], remote["bytes_fetched"])
        self.assertEqual(remote["requests"], self.web.count("GET"))
        self.assertEqual(status["requests"], {url[:url.index("/model")]: self.web.count("GET")})
        self.assertGreaterEqual(remote["bytes_read"], MIB)

    # semantics 16.7
    def test_status_and_metrics_count_blocks(self):
        url, _ = self.publish_safetensors()
        point = self.mount(url)
        self.read_whole(point, "tensors", "layer.1")
        remote, = json.loads(self.read_whole(point, ".weightfs", "status.json"))["remotes"]
        blocks = -(-remote["size"] // (16 * KIB))
        self.assertEqual(remote["blocks"], blocks)
        self.assertGreaterEqual(remote["present"], MIB // (16 * KIB))
        self.assertLess(remote["present"], blocks / 2)
        self.assertNotIn("verified_blocks", remote)
        self.assertEqual(self.metrics(point),
                         {"files": 1, "blocks": blocks, "present_blocks": remote["present"], "verified_blocks": 0})
        self.read_whole(point, "files", "model.safetensors")
        remote, = json.loads(self.read_whole(point, ".weightfs", "status.json"))["remotes"]
        self.assertEqual(remote["present"], blocks)

    # semantics 16.8
    def test_bytes_of_a_url_are_verified_by_the_transport(self):
        url, _ = self.publish_safetensors()
        point = self.mount(url)
        for path in ("files/model.safetensors", "tensors/layer.1", "npy/layer.1.npy"):
            with self.subTest(path):
                self.assertEqual(os.getxattr(os.path.join(point, path), "user.weightfs.verified"), b"transport")
                self.assertIn("user.weightfs.verified", os.listxattr(os.path.join(point, path)))
        self.assertEqual(os.listxattr(os.path.join(point, "metadata.json")), [])
        self.assertRegex(run("info", url).stdout, r"(?m)^  files +1; verified: transport$")
        self.assertIn("; not verified", run("info", self.sample("other.safetensors")).stdout)
        local = self.mount(self.sample("local.safetensors"), at="local")
        self.assertEqual(os.listxattr(os.path.join(local, "files", "local.safetensors")), [])

    def metrics(self, point):
        """The metrics of remote files, without their common prefix."""
        lines = self.read_whole(point, ".weightfs", "metrics").decode().splitlines()
        requests, = [line for line in lines if line.startswith("weightfs_http_requests_total")]
        self.assertIn(f'origin="{self.web.url("")[:-1]}"', requests)
        self.assertEqual(int(requests.split()[-1]), self.web.count("GET"))
        prefix = "weightfs_remote_"
        return {line[len(prefix):line.index("{")]: int(line.split()[-1]) for line in lines if line.startswith(prefix)}

    def test_cache_commands_list_and_remove_ranges(self):
        url, _ = self.publish_safetensors()
        self.assertEqual(run("fetch", url, "tensors/layer.0").returncode, 0)
        listed, = json.loads(run("cache", "ls", "--json").stdout)
        self.assertEqual((listed["state"], listed["names"]), ("ranges", [url]))
        self.assertEqual((listed["size"], listed["reserved"]), (65 * 16 * KIB, 0))
        self.assertEqual(json.loads(run("cache", "du", "--json").stdout)["ranges"], 1)
        done = run("cache", "rm", listed["digest"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 file read by ranges", done.stdout)
        self.assertEqual(json.loads(run("cache", "du", "--json").stdout)["ranges"], 0)

    # semantics 16.4
    def test_ranges_are_pinned_listed_and_removed_by_url(self):
        url, _ = self.publish_safetensors()
        other, _ = self.publish_safetensors("other.safetensors")
        for each in (url, other):
            self.assertEqual(run("fetch", each, "tensors/layer.0").returncode, 0)
        self.assertEqual([entry["names"] for entry in json.loads(run("cache", "ls", "--json", url).stdout)], [[url]])
        self.assertEqual(run("cache", "pin", url).stdout, f"{url}: pinned\n")
        self.assertEqual(run("cache", "pin", url).stdout, f"{url}: already pinned\n")
        self.assertEqual(run("cache", "gc", "--size", "0").returncode, 0)
        self.assertEqual([(entry["names"], entry["pinned"]) for entry in json.loads(run("cache", "ls", "--json").stdout)],
                         [([url], True)])
        kept = run("cache", "rm", url)
        self.assertEqual(kept.returncode, 1)
        self.assertIn(f"weightfs: {url}: is pinned; not removed\n", kept.stderr)
        before = self.transferred()
        self.assertEqual(run("fetch", url, "tensors/layer.0").returncode, 0)
        self.assertLessEqual(self.transferred() - before, 16 * KIB)
        self.assertEqual(run("cache", "unpin", url).stdout, f"{url}: no longer pinned\n")
        self.assertEqual(run("cache", "rm", url).returncode, 0)
        self.assertEqual(json.loads(run("cache", "ls", "--json").stdout), [])
        absent = run("cache", "rm", url)
        self.assertEqual(absent.returncode, 3)
        self.assertIn("no digest, model or URL of this name is in the cache", absent.stderr)

    # semantics 16.3
    def test_damaged_range_is_a_mismatch_and_downloaded_again(self):
        url, written = self.publish_safetensors()
        self.assertEqual(run("fetch", url, "tensors/layer.0").returncode, 0)
        self.assertIn("65 of 65 blocks of 1 partial file, 1.0 MiB, match their checksums", run("cache", "verify").stdout)
        folder = os.path.join(self.cache(), "v1", "blocks")
        path, = [os.path.join(folder, name) for name in os.listdir(folder) if not name.endswith(".map")]
        mounted = self.mount(url, at="before")
        self.assertEqual(self.read_whole(mounted, "tensors", "layer.0"), written[0].data)
        with open(path, "r+b") as file:
            file.seek(MIB // 2)
            file.write(b"rotten")
        done = run("cache", "verify")
        self.assertEqual((done.returncode, done.stderr),
                         (7, f"weightfs: {url}: 1 of 65 cached blocks do not match their checksums; dropped\n"))
        self.assertIn("64 of 65 blocks of 1 partial file, 1.0 MiB, match their checksums", done.stdout)
        before = self.web.count("GET")
        self.assertEqual(
            subprocess.run([WEIGHTFS, "cat", url, "tensors/layer.0"], capture_output=True, check=True).stdout, written[0].data)
        self.assertGreater(self.web.count("GET"), before)
        self.assertEqual(run("cache", "verify").returncode, 0)

    def test_fetch_counts_what_was_cached_before(self):
        url, _ = self.publish_safetensors()
        first = run("fetch", url, "tensors/layer.0").stdout.splitlines()[-1]
        self.assertEqual(first, "1 file, 1.0 MiB: 0 B cached before, 1.0 MiB downloaded, 0 B verified")
        again = run("fetch", url, "tensors/layer.0", "tensors/layer.1").stdout.splitlines()[-1]
        self.assertRegex(again, r"^2 files, 2\.0 MiB: 1\.0 MiB cached before, 1\.0 MiB downloaded, 0 B verified$")
        absent = run("fetch", url, "tensors/layer.0", "tensors/absent")
        self.assertEqual(absent.returncode, 3)

    # semantics 13.7
    def test_progress_of_a_fetch_is_that_of_its_tensors_and_begins_with_what_is_cached(self):
        slow = Nginx(self, "limit_rate_after 64k; limit_rate 1m;", name="slow")
        url = slow.publish("model.safetensors", stores.safetensors(self.path("."), tensors(4, MIB)))
        self.assertEqual(run("fetch", url, "tensors/layer.0").returncode, 0)
        drawn = on_terminal("fetch", url, "tensors/layer.0", "tensors/layer.1", of="stderr", columns=100)
        shown = re.findall(r"\] ([\d.]+) (\w+) of ([\d.]+ \w+), ", drawn)
        self.assertTrue(shown, drawn)
        self.assertEqual({total for _, _, total in shown}, {"2.0 MiB"})
        self.assertTrue(all(unit == "MiB" and float(done) >= 1 for done, unit, _ in shown), shown)
        self.assertIn("tensors/layer.1", drawn)


@needs("nginx")
class Progress(UrlTestCase):
    # semantics 8.6
    def test_opening_of_many_files_is_shown_on_a_terminal_only(self):
        slow = Nginx(self, "limit_rate 8k;", name="slow")
        self.web = slow
        url, _ = self.publish_sharded(shards=24, size=20 * KIB)
        os.mkdir(self.path("mnt"))
        self.addCleanup(self.force_unmount, self.path("mnt"))
        shown = on_terminal("mount", "--no-cache", url, self.path("mnt"), of="stderr", columns=80)
        self.assertRegex(shown, r"^(\r\x1b\[Kopening \d+ of 24 files)+\r\x1b\[K$")
        self.mount("--no-cache", url, at="again")  # prints nothing

    # semantics 8.6
    def test_opening_of_files_that_takes_less_than_a_second_is_not_shown(self):
        url, _ = self.publish_sharded(shards=2)
        os.mkdir(self.path("mnt"))
        self.addCleanup(self.force_unmount, self.path("mnt"))
        self.assertEqual(on_terminal("mount", url, self.path("mnt"), of="stderr"), "")


@needs("nginx")
class Errors(UrlTestCase):
    def message(self, *argv):
        done = run("info", *argv)
        return done.returncode, done.stderr.strip()

    def test_missing_file(self):
        status, text = self.message(self.web.url("absent.gguf"))
        self.assertEqual((status, text), (3, f"weightfs: {self.web.url('absent.gguf')}: 404 Not Found"))

    def test_file_that_is_not_a_model(self):
        status, text = self.message(self.web.publish("notes.txt", b"nothing of interest\n" * 10))
        self.assertEqual(status, 4)
        self.assertEqual(text, f'weightfs: {self.web.url("notes.txt")}: text: "nothing of interest"')

    def test_directory_without_a_model(self):
        self.web.publish("empty/notes.txt", b"x")
        status, text = self.message(self.web.url("empty/"))
        self.assertEqual(status, 3)
        self.assertIn("name a model file", text)

    def test_server_that_is_not_running(self):
        url = self.web.url("m.gguf")
        self.web.stop()
        status, text = self.message("--timeout", "5", url)
        self.assertEqual(status, 8)
        self.assertIn("connection refused", text)

    def test_plain_http_to_other_hosts_is_refused(self):
        status, text = self.message("http://203.0.113.1/m.gguf")
        self.assertEqual(status, 4)
        self.assertIn("--insecure", text)

    def test_password_in_a_url_is_refused_and_not_printed(self):
        status, text = self.message("http://anna:secret@127.0.0.1/m.gguf")
        self.assertEqual(status, 4)
        self.assertNotIn("secret", text)

    def test_query_is_sent_but_not_printed(self):
        url, _ = self.publish_safetensors()
        done = run("info", f"{url}?token=secret")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("secret", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
