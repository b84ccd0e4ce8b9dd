"""Models of a docker-registry through the kernel: directories whose files are downloaded on first read."""
import base64
import contextlib
import errno
import json
import os
import subprocess
import threading
import unittest

from fetching import FetchTestCase, blobs_in
from http_serving import HttpServer
from mounting import Tensor, numbers, run, sample_tensors, until
from servers import LOGIN, Registry, needs
from test_archives import noise
import stores


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
        """The cache has these blobs, the manifest, and the digest of the tag for --offline."""
        manifest = self.package.manifest()
        super().assert_cache_holds(*blobs, stores.sha256(manifest).encode() + b"\n" + manifest)

    def everything(self, point):
        """{path: bytes} of all files below, but for model.npz, whose checksums would be cached."""
        return {os.path.relpath(os.path.join(base, name), point): self.read_whole(base, name)
                for base, _, names in os.walk(point) for name in set(names) - {"model.npz"}}


class LayerTestCase(RegistryTestCase):
    """A model with a layer above 8 MiB."""
    SIZE = 2 << 20

    def setUp(self):
        super().setUp()
        self.registry = Registry(self)
        self.tensors = [Tensor(f"blk.{i}", "int8", (self.SIZE,), noise(self.SIZE, seed=i + 1)) for i in range(6)]
        self.package = stores.tiny(self.tmp, self.tensors)
        self.model = self.package.blobs[self.package.layers[0]["digest"][7:]]
        self.url = self.push(self.registry, self.package)

    def damage_layer(self, at=-1, bits=1):
        """Changes a byte of the layer at the registry; repairs it with `bits` 0."""
        digest = stores.sha256(self.model)
        data = os.path.join(self.registry.content, "docker", "registry", "v2", "blobs", "sha256", digest[:2], digest, "data")
        with open(data, "r+b") as file:
            file.seek(at % len(self.model))
            file.write(bytes([self.model[at] ^ bits]))


# semantics 21.6
@needs("docker-registry")
class WrongLayers(LayerTestCase):
    """A layer above 8 MiB with a wrong byte: no program reads all of it with success."""
    MIDDLE = 7 << 20

    def setUp(self):
        super().setUp()
        self.damage_layer(self.MIDDLE)

    def succeeds(self, *argv):
        return subprocess.run(argv, capture_output=True, timeout=60).returncode == 0

    def copies(self, point):
        """Programs that read the whole file, by their names."""
        file = self.layer(point)
        return {"cp": ("cp", file, self.path("copy")), "sha256sum": ("sha256sum", file),
                "tar": ("tar", "-cf", self.path("tar"), "-C", point, "files"),
                "direct": ("dd", f"if={file}", "of=/dev/null", "bs=1M", "iflag=direct")}

    def layer(self, point):
        return os.path.join(point, "files", "model.gguf")

    def test_copies_fail_and_the_next_mount_has_the_right_bytes(self):
        for name in self.copies(""):
            with self.subTest(name):
                self.damage_layer(self.MIDDLE)
                point = self.mount(self.url, at=f"wrong-{name}")
                self.assertTrue(self.succeeds("head", "-c", "1M", self.layer(point)))
                self.assertFalse(self.succeeds(*self.copies(point)[name]))
                self.damage_layer(self.MIDDLE, 0)
                self.assertFalse(self.succeeds(*self.copies(point)[name]), "until it is mounted again")
                self.unmount(point)
                point = self.mount(self.url, at=f"right-{name}")
                self.assertEqual(self.read_whole(self.layer(point)), self.model)
                self.unmount(point)
                self.assertEqual(run("cache", "rm", "--all").returncode, 0)

    def test_copies_of_the_right_layer_succeed(self):
        self.damage_layer(self.MIDDLE, 0)
        for name in self.copies(""):
            point = self.mount(self.url, at=f"mnt-{name}")
            self.assertTrue(self.succeeds(*self.copies(point)[name]), name)
            self.unmount(point)
            self.assertEqual(run("cache", "rm", "--all").returncode, 0)

    def test_all_tensors_are_not_read_with_success(self):
        point = self.mount(self.url)
        self.assertFalse(self.succeeds("cp", "-r", os.path.join(point, "tensors"), self.path("copy")))

    def test_without_a_cache(self):
        point = self.mount("--no-cache", self.url)
        self.assertFalse(self.succeeds(*self.copies(point)["cp"]))
        self.damage_layer(self.MIDDLE, 0)
        self.unmount(point)
        self.assertTrue(self.succeeds(*self.copies(self.mount("--no-cache", self.url))["cp"]))

    def test_two_mounts_with_one_cache(self):
        points = [self.mount(self.url, at=f"mnt-{i}") for i in range(2)]
        copies = [subprocess.Popen(["cat", self.layer(point)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                  for point in points]
        self.assertNotIn(0, [copy.wait(60) for copy in copies])

    def test_part_left_by_an_earlier_mount_is_compared(self):
        point = self.mount(self.url)
        self.assertTrue(self.succeeds("dd", f"if={self.layer(point)}", "bs=16K", f"skip={self.MIDDLE // (16 << 10)}", "count=1",
                                      "of=/dev/null", "iflag=direct"))
        self.unmount(point)
        self.damage_layer(self.MIDDLE, 0)
        point = self.mount(self.url, at="wrong")
        self.assertFalse(self.succeeds(*self.copies(point)["cp"]))
        self.unmount(point)
        point = self.mount(self.url, at="right")
        self.assertEqual(self.read_whole(point, "files", "model.gguf"), self.model)

    # semantics 29.4
    def test_response_over_http_ends_early(self):
        with HttpServer(self.url) as server, contextlib.suppress(ConnectionResetError):
            self.assertFalse(server.get("/files/model.gguf").complete)


@needs("docker-registry")
class LargeLayers(LayerTestCase):
    """A layer above 8 MiB is read by ranges."""

    def transferred(self):
        return sum(request.bytes for request in self.blob_requests(self.registry) if request.method == "GET")

    def test_reading_a_tensor_transfers_its_range(self):
        point = self.mount(self.url)
        self.assertEqual(len(os.listdir(os.path.join(point, "tensors"))), len(self.tensors))
        self.assertLessEqual(self.transferred(), 256 << 10)
        self.assertEqual(self.read_whole(point, "tensors", "blk.3"), self.tensors[3].data)
        self.assertLessEqual(self.transferred(), 1.02 * self.SIZE + (384 << 10))

    def test_complete_ranges_become_a_verified_blob(self):
        point = self.mount(self.url)
        data = self.read_whole(point, "files", "model.gguf")
        digest = stores.sha256(data)
        self.assertIn(digest, self.package.blobs)
        until(lambda: digest in map(os.path.basename, blobs_in(self.cache())), "the blob is not in the cache")
        self.assertLessEqual(self.transferred(), 1.01 * len(data) + (256 << 10))

    # semantics 16.8
    def test_complete_ranges_are_verified_as_a_whole(self):
        point = self.mount(self.url)
        self.read_whole(point, "tensors", "blk.3")
        self.assertEqual(self.verifications(point), {"transport"})
        self.assertEqual(self.remote(point)["verified_blocks"], 0)
        self.read_whole(point, "files", "model.gguf")
        until(lambda: self.verifications(point) == {"whole"}, lambda: self.verifications(point))
        remote = self.remote(point)
        self.assertEqual((remote["verified"], remote["present"], remote["verified_blocks"]),
                         ("whole", remote["blocks"], remote["blocks"]))
        until(lambda: os.listdir(os.path.join(self.cache(), "v1", "blocks")) == [], "the blob is not published")
        self.assertEqual(self.verifications(self.mount("--offline", self.url, at="cached")), {"whole"})

    # semantics 16.8
    def test_complete_ranges_of_other_bytes_are_a_mismatch(self):
        self.damage_layer()
        point = self.mount(self.url)
        self.read_whole(point, "tensors", "blk.3")
        self.assertEqual(self.verifications(point), {"transport"})
        with contextlib.suppress(OSError):  # read-ahead may complete the layer, so that it is compared before the last read
            for tensor in self.tensors[:-1]:
                self.read_whole(point, "tensors", tensor.name)
            self.read_whole(point, "files", "model.gguf")
        until(lambda: self.verifications(point) == {"mismatch"}, lambda: self.verifications(point))
        for name in ("blk.5", "blk.3"):  # the kernel has had pages of blk.3
            with self.assertRaises(OSError, msg=name) as caught:
                self.read_whole(point, "tensors", name)
            self.assertEqual(caught.exception.errno, errno.EIO)

    def verifications(self, point):
        """user.weightfs.verified of files whose bytes are in the layer."""
        paths = ("files/model.gguf", "tensors/blk.3", "npy/blk.3.npy")
        return {os.getxattr(os.path.join(point, path), "user.weightfs.verified").decode() for path in paths}

    def remote(self, point):
        remote, = json.loads(self.read_whole(point, ".weightfs", "status.json"))["remotes"]
        return remote

    def test_verify_whole_downloads_the_layer_before_the_first_read(self):
        point = self.mount("--verify=whole", self.url)
        self.assertEqual(self.read_whole(point, "tensors", "blk.3"), self.tensors[3].data)
        self.assertGreaterEqual(self.transferred(), 6 * self.SIZE)

    def test_layer_that_is_corrupt_at_the_registry_is_not_cached(self):
        self.damage_layer()
        digest = stores.sha256(self.model)
        point = self.mount(self.url)
        self.assertEqual(self.read_whole(point, "tensors", "blk.3"), self.tensors[3].data)
        done = run("fetch", self.url)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (7, 1), done.stderr)
        self.assertNotIn(digest, map(os.path.basename, blobs_in(self.cache())))


# semantics 21.7, 21.8
@needs("docker-registry")
class BlockLists(LayerTestCase):
    """Ranges of a layer are verified with a block list that `weightfs verify --tree` wrote."""
    TYPE = "application/vnd.weightfs.block-list.v1"

    def setUp(self):
        super().setUp()
        self.list = self.path("model.fsverity")
        done = run("verify", "--tree", self.list, self.url)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.digest = done.stdout.splitlines()[-1].split()[0]
        done = run("cache", "rm", "--all")
        self.assertEqual(done.returncode, 0, done.stderr)

    def attach(self, data):
        """Attaches an artifact to the model, under the tag that clients keep for registries without an index of referrers."""
        config = b"{}"
        self.registry.push_blob(self.NAME, config)
        self.registry.push_blob(self.NAME, data)

        def described(kind, content, **more):
            return {"mediaType": kind, "digest": "sha256:" + stores.sha256(content), "size": len(content), **more}
        manifest_kind = "application/vnd.oci.image.manifest.v1+json"
        model = self.package.manifest()
        artifact = json.dumps({"schemaVersion": 2, "mediaType": manifest_kind, "artifactType": self.TYPE,
                               "config": described("application/vnd.oci.empty.v1+json", config),
                               "layers": [described("application/octet-stream", data)],
                               "subject": described(json.loads(model)["mediaType"], model)}).encode()
        self.registry.push_manifest(self.NAME, "sha256:" + stores.sha256(artifact), artifact)
        self.artifacts = getattr(self, "artifacts", []) + [described(manifest_kind, artifact, artifactType=self.TYPE)]
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": self.artifacts}
        self.registry.push_manifest(self.NAME, "sha256-" + stores.sha256(model), json.dumps(index).encode())

    def remote(self, point):
        remote, = json.loads(self.read_whole(point, ".weightfs", "status.json"))["remotes"]
        return remote

    def assert_only_the_last_tensor_is_refused(self, point):
        for tensor in self.tensors[:-1]:
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "tensors", self.tensors[-1].name)
        self.assertEqual(caught.exception.errno, errno.EIO)

    def damage_last_tensor(self):
        digest = stores.sha256(self.model)
        data = os.path.join(self.registry.content, "docker", "registry", "v2", "blobs", "sha256", digest[:2], digest, "data")
        with open(data, "r+b") as file:
            file.seek(-self.SIZE // 2, os.SEEK_END)
            file.write(bytes([self.model[-self.SIZE // 2] ^ 1]))

    def test_list_is_that_of_the_layer(self):
        layer = self.path("layer")
        with open(layer, "wb") as file:
            file.write(self.model)
        done = run("verify", "--tree", self.path("local.fsverity"), layer)
        self.assertEqual(done.stdout.splitlines()[-1].split()[0], self.digest, done.stderr)

    def test_list_in_a_file(self):
        self.damage_last_tensor()
        point = self.mount("--tree", self.list, self.url)
        self.assert_only_the_last_tensor_is_refused(point)
        remote = self.remote(point)
        self.assertEqual((remote["verified"], remote["verified_blocks"]), ("blocks", remote["present"]))
        self.assertGreater(remote["present"], 0)

    def test_list_of_one_layer_does_not_replace_the_digest_of_a_model(self):
        done = run("ls", "--require-digest", "--tree", self.list, self.url)
        self.assertEqual(done.returncode, 4)
        self.assertIn("no digest in the name", done.stderr)

    def test_list_attached_to_the_model(self):
        self.attach(b"another artifact")
        with open(self.list, "rb") as file:
            self.attach(file.read())
        self.damage_last_tensor()
        self.assert_only_the_last_tensor_is_refused(self.mount("--tree", self.digest, self.url))
        by_oci = self.mount("--tree", self.digest, self.url.replace("ollama:", "oci:"), at="oci")
        self.assert_only_the_last_tensor_is_refused(by_oci)

    def test_all_blocks_become_the_verified_blob(self):
        point = self.mount("--tree", self.list, self.url)
        self.assertEqual(self.read_whole(point, "files", "model.gguf"), self.model)
        until(lambda: stores.sha256(self.model) in map(os.path.basename, blobs_in(self.cache())), "it is not published")
        self.assertEqual(self.read_whole(point, "files", "model.gguf"), self.model)

    def test_list_that_does_not_fit_is_refused(self):
        local = self.sample("small.safetensors")
        self.assertEqual(run("verify", "--tree", self.path("other.fsverity"), local).returncode, 0)
        for arguments, status, message in ((("--tree", self.path("other.fsverity"), self.url), 7,
                                            "no layer has the size of the file of the block list"),
                                           (("--tree", "sha256:" + "0" * 64, self.url), 3, "no artifact of type")):
            with self.subTest(arguments):
                done = run("ls", *arguments)
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (status, 1), done.stderr)
                self.assertIn(message, done.stderr)


@needs("docker-registry")
class PullThroughCache(LayerTestCase):
    """A docker-registry that caches another one. It sends a blob that it does not have yet as a whole, with an ETag without
    quotes."""

    def setUp(self):
        super().setUp()
        self.origin = self.registry
        self.registry = Registry(self, name="pull-through", proxy=f"http://{self.origin.host}")
        self.url = f"ollama://{self.registry.host}/{self.NAME}:latest"
        self.digest = stores.sha256(self.model)
        self.path_of_layer = f"/v2/{self.NAME}/blobs/sha256:{self.digest}"

    def request_range(self):
        return self.registry.send_request("GET", self.path_of_layer, headers={"Range": "bytes=0-9"})

    def warm_up(self):
        """Makes the registry download the layer."""
        status, headers, _ = self.request_range()
        self.assertEqual((status, headers["Etag"]), (200, f"sha256:{self.digest}"))
        self.wait_until_warm()

    def wait_until_warm(self):
        until(lambda: self.request_range()[0] == 206, "the registry does not cache the layer")
        self.assertEqual(self.request_range()[1]["Etag"], f'"sha256:{self.digest}"')

    def layer_requests(self):
        return [a for a in self.registry.pulled() if a.path == self.path_of_layer and a.method == "GET"]

    def assert_tensors(self, point):
        for tensor in reversed(self.tensors):
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)

    def test_uncached_layer_is_downloaded_whole(self):
        self.assert_tensors(self.mount(self.url))
        # The registry may have the layer, and send ranges, when the second request arrives.
        requests = self.layer_requests()
        self.assertLessEqual(sum(request.bytes for request in requests), 2.1 * len(self.model), requests)
        until(lambda: self.digest in map(os.path.basename, blobs_in(self.cache())), "the blob is not in the cache")

    def test_cached_layer_is_read_by_ranges(self):
        self.warm_up()
        before = len(self.layer_requests())
        point = self.mount(self.url)
        self.assertEqual(self.read_whole(point, "tensors", "blk.3"), self.tensors[3].data)
        requests = self.layer_requests()[before:]
        self.assertEqual({request.status for request in requests}, {206})
        self.assertLessEqual(sum(request.bytes for request in requests), 1.02 * self.SIZE + (384 << 10))
        self.assert_tensors(point)

    def test_layer_that_becomes_cached_is_the_same_version(self):
        point = self.mount(self.registry.url(self.path_of_layer[1:]))
        self.wait_until_warm()
        self.assert_tensors(point)
        self.assertEqual(os.listdir(os.path.join(point, "files")), [f"sha256:{self.digest}"])


@needs("docker-registry")
class Models(RegistryTestCase):
    def setUp(self):
        super().setUp()
        self.registry = Registry(self)
        self.url = self.push(self.registry, self.package)

    def test_tree_is_the_same_as_in_a_store(self):
        store = stores.Store(self.path("models"))
        remote = self.everything(self.mount(self.url))
        local = self.everything(self.mount(store.put_package("tiny/latest", self.package), at="local"))
        # Entries whose content is only known after a download are listed from the start.
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

    def test_blobs_are_downloaded_and_tags_resolved_once(self):
        point = self.mount(self.url)
        self.assertEqual(len(self.manifest_requests(self.registry)), 1)
        self.assertEqual(self.blob_requests(self.registry), [])
        for _ in range(2):
            self.everything(point)
        self.assertEqual(len(self.manifest_requests(self.registry)), 1)
        requests = self.blob_requests(self.registry)
        self.assertEqual(len(requests), len(set(a.path for a in requests)), requests)
        self.assertEqual(len(requests), len(self.package.blobs))

    def test_unread_blobs_are_not_downloaded(self):
        point = self.mount(self.url)
        self.assertIn("model.gguf", os.listdir(os.path.join(point, "files")))
        self.assertEqual(os.stat(os.path.join(point, "files", "model.gguf")).st_size, len(self.model))
        self.assertEqual(self.blob_requests(self.registry), [])
        self.assertEqual(self.read_whole(point, "files", "template"), stores.TEMPLATE)
        self.assertNotIn(stores.sha256(self.model), str(self.blob_requests(self.registry)))

    def test_offline_shows_only_cached_models(self):
        done = run("mount", "--offline", self.url, self.path("mnt"))
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertRegex(done.stderr, r"^weightfs: .*offline.*\n$")
        self.assertEqual(run("fetch", self.url).returncode, 0)
        requests = self.registry.requests()
        self.registry.stop()
        point = self.mount("--offline", self.url)
        self.assertEqual(self.read_whole(point, "files", "model.gguf"), self.model)
        for tensor in sample_tensors():
            self.assertEqual(self.read_whole(point, "tensors", tensor.name), tensor.data)
        self.assertGreater(len(requests), 0)

    def test_unreachable_registry_does_not_resolve_a_tag(self):
        self.assertEqual(run("fetch", self.url).returncode, 0)
        self.registry.stop()
        done = run("mount", self.url, self.path("mnt"))
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertIn("--offline", done.stderr)

    def test_reads_after_fetch_send_no_request(self):
        done = run("fetch", self.url)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        before = self.blob_requests(self.registry)
        self.assertEqual(len(before), len(self.package.blobs))
        self.everything(self.mount(self.url))
        self.assertEqual(self.blob_requests(self.registry), before)
        self.assert_cache_holds(*self.package.blobs.values())

    def test_fetch_of_one_file_downloads_only_that(self):
        done = run("fetch", self.url, "files/template")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_cache_holds(stores.TEMPLATE)

    def test_moved_tag_does_not_affect_a_mount(self):
        point = self.mount(self.url)
        other = stores.tiny(self.tmp, [Tensor("other", "int8", (2,), b"ab")], "Other")
        self.push(self.registry, other)
        self.assertEqual(self.read_whole(point, "tensors", "bias"), numbers("i", 4))
        self.assertEqual(self.read_whole(point, "files", "manifest.json"), self.package.manifest())
        self.assertEqual(self.read_whole(self.mount(self.url, at="next"), "tensors", "other"), b"ab")

    def test_digest_selects_its_manifest(self):
        other = stores.tiny(self.tmp, [Tensor("other", "int8", (2,), b"ab")], "Other")
        self.push(self.registry, other)
        digest = stores.digest(self.package.manifest())
        point = self.mount(f"ollama://{self.registry.host}/{self.NAME}@{digest}")
        self.assertEqual(self.read_whole(point, "tensors", "bias"), numbers("i", 4))

    def test_missing_tag_or_model_fails(self):
        for name in (f"{self.NAME}:absent", "library/absent:latest"):
            done = run("mount", f"ollama://{self.registry.host}/{name}", self.path("mnt"))
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(name, done.stderr)
            self.assertFalse(os.path.exists(self.path("mnt")))

    def test_unverified_header_bytes_are_checked(self):
        # The registry does not verify the blobs in its storage.
        hex = stores.sha256(self.model)
        data = os.path.join(self.registry.content, "docker", "registry", "v2", "blobs", "sha256", hex[:2], hex, "data")
        self.assertEqual(self.read_whole(data), self.model)
        with open(data, "wb") as file:
            file.write(self.model[:-1] + b"\xff")
        point = self.mount(self.url)
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "files", "model.gguf")
        self.assertEqual(caught.exception.errno, errno.EIO)
        self.assertEqual(self.read_whole(point, "files", "template"), stores.TEMPLATE)
        self.published(1)
        self.assertNotIn(stores.sha256(self.model), map(os.path.basename, blobs_in(self.cache())))

    def test_blobs_of_the_local_store_are_read_in_place(self):
        store = stores.Store(self.path("home", ".ollama", "models"))
        store.put_package("tiny/latest", self.package)
        self.everything(self.mount(self.url))
        self.assertEqual(self.blob_requests(self.registry), [])
        self.assert_cache_holds()

    def test_falls_back_to_registry_when_not_in_local_store(self):
        self.assertEqual(self.read_whole(self.mount(f"ollama:{self.registry.host}/{self.NAME}"), "tensors", "bias"),
                         numbers("i", 4))

    def test_two_models_are_two_directories(self):
        second = self.push(self.registry, stores.tiny(self.tmp, [Tensor("other", "int8", (2,), b"ab")], "Other"), "7b")
        point = self.mount(self.url, second)
        names = os.listdir(point)
        self.assertEqual(len(names), 2, names)
        self.assertEqual(sorted(tensor for name in names for tensor in os.listdir(os.path.join(point, name, "tensors"))),
                         sorted(["other", "bias", "bytes", "empty", "encoder", "scalar"]))

    def test_index_selects_the_manifest_of_this_platform(self):
        other = stores.tiny(self.tmp, [Tensor("other", "int8", (2,), b"ab")], "Other")
        self.push(self.registry, other, "other")
        rows = [{
            "mediaType": stores.MANIFEST, "size": len(package.manifest()), "digest": stores.digest(package.manifest()),
            "platform": {"architecture": architecture, "os": "linux"}
        } for package, architecture in ((other, "s390x"), (self.package,
                                                           {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]))]
        kind = "application/vnd.docker.distribution.manifest.list.v2+json"
        self.registry.push_manifest(self.NAME, "index", stores.as_go({"schemaVersion": 2, "mediaType": kind, "manifests": rows}))
        point = self.mount(f"ollama://{self.registry.host}/{self.NAME}:index")
        self.assertEqual(self.read_whole(point, "tensors", "bias"), numbers("i", 4))

    def test_two_concurrent_mounts_download_each_blob_once(self):
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
        requests = [a.path for a in self.blob_requests(self.registry)]
        self.assertEqual(sorted(requests), sorted(set(requests)))

    def test_tensor_layers_are_read(self):
        import numpy
        tensors = [Tensor(f"layer.{i}.weight", "float32", (4, 8), numbers("f", 32)[:-4] + bytes([i] * 4)) for i in range(20)]
        url = self.push(self.registry, stores.mlx(self.tmp, tensors, {"config.json": {"model_type": "tiny"}}), name="library/mlx")
        point = self.mount(url)
        for tensor in tensors:
            self.assertEqual(numpy.load(os.path.join(point, "npy", tensor.name + ".npy")).tobytes(), tensor.data)

    def test_ls_cat_and_info_work_without_a_mount(self):
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

    def test_docker_login_is_used(self):
        self.log_in(*LOGIN)
        point = self.mount(self.url)
        self.assertEqual(self.read_whole(point, "files", "model.gguf"), self.model)

    def test_missing_login_is_denied(self):
        done = run("mount", self.url, self.path("mnt"))
        self.assertNotIn(done.returncode, (0, 3), done.stderr)
        self.assertIn("access denied", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_wrong_login_is_denied_without_revealing_the_password(self):
        self.log_in("anna", "a-wrong-password")
        done = run("mount", self.url, self.path("mnt"))
        self.assertNotIn(done.returncode, (0, 3), done.stderr)
        self.assertIn("access denied", done.stderr)
        self.assertNotIn("a-wrong-password", done.stderr)
        self.assertLessEqual(len([a for a in self.registry.requests() if a.method == "GET"]), 3)


if __name__ == "__main__":
    unittest.main()
