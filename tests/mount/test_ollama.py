"""Local Ollama stores through the kernel: stores, single manifests, names, damaged files, and blobs in the
stores of other programs."""
import errno
import json
import os
import subprocess
import unittest

from fetching import FetchTestCase
from mounting import LIMIT_S, WEIGHTFS, Tensor, numbers, run, sample_tensors
import stores

TENSORS = sample_tensors()


class StoreTestCase(FetchTestCase):
    def setUp(self):
        super().setUp()
        self.store = stores.Store(self.path("models"))

    def tiny(self, name="Tiny", tensors=TENSORS):
        return stores.tiny(self.tmp, tensors, name)

    def mount_store(self, *options, **kwargs):
        return self.mount(*options, self.store.root, **kwargs)

    def tree(self, point, host=stores.DEFAULT_HOST, name="library/tiny/latest"):
        return os.path.join(point, host, name)

    def metadata(self, tree):
        return json.loads(self.read_whole(tree, "metadata.json"))

    def warnings(self, tree):
        return self.read_whole(tree, "warnings.txt").decode().splitlines()


class Stores(StoreTestCase):
    def test_models_are_directories_by_manifest_path(self):
        names = {f"{stores.DEFAULT_HOST}/library/tiny/latest": "One", f"{stores.DEFAULT_HOST}/library/tiny/7B-Q4_K_M": "Two",
                 "localhost:5000/someone/tiny/latest": "Three", "hf.co/Example-Org/Tiny-GGUF/Q4_K_M": "Four"}
        for place, name in names.items():
            self.store.put_package(place, self.tiny(name))
        point = self.mount_store()
        found = [os.path.relpath(base, point) for base, directories, _ in os.walk(point)
                 if "tensors.json" in os.listdir(base)]
        self.assertEqual(sorted(found), sorted(names))
        for place, name in names.items():
            self.assertEqual(self.metadata(os.path.join(point, place))["name"], name)
        self.assertFalse(os.path.exists(os.path.join(point, "warnings.txt")))

    def test_model_has_the_common_layout(self):
        package = self.tiny()
        self.store.put_package("tiny/latest", package)
        tree = self.tree(self.mount_store())
        self.assertEqual(sorted(os.listdir(tree)),
                         ["files", "float32", "metadata.json", "metadata.toml", "npy", "tensors", "tensors.json", "views"])
        self.assertEqual(sorted(os.listdir(os.path.join(tree, "files"))),
                         ["config.json", "license", "manifest.json", "model.gguf", "params.json", "template"])
        model, template, license, params = package.layers
        for name, data in {"model.gguf": package.blobs[model["digest"][7:]], "template": stores.TEMPLATE,
                           "license": stores.LICENSE, "params.json": stores.as_go(stores.PARAMETERS),
                           "config.json": package.blobs[package.config["digest"][7:]],
                           "manifest.json": package.manifest()}.items():
            self.assertEqual(self.read_whole(tree, "files", name), data, name)
        for tensor in TENSORS:
            self.assertEqual(self.read_whole(tree, "tensors", tensor.name), tensor.data, tensor.name)
        metadata = self.metadata(tree)
        self.assertEqual((metadata["format"], metadata["name"], metadata["architecture"]), ("ollama", "Tiny", "llama"))
        self.assertEqual(metadata["metadata"]["parameters"], stores.PARAMETERS)
        self.assertEqual(metadata["metadata"]["manifest"]["digest"], stores.digest(package.manifest()))

    def test_tensors_are_those_of_the_model_layer(self):
        package = self.tiny()
        self.store.put_package("tiny/latest", package)
        self.write("model.gguf", package.blobs[package.layers[0]["digest"][7:]])
        tree, plain = self.tree(self.mount_store()), self.mount(self.path("model.gguf"), at="plain")
        index = json.loads(self.read_whole(tree, "tensors.json"))["tensors"]
        expected = json.loads(self.read_whole(plain, "tensors.json"))["tensors"]
        shared = ("name", "path", "dtype", "stored_dtype", "shape", "nbytes")
        self.assertEqual([{key: row[key] for key in shared} for row in index],
                         [{key: row[key] for key in shared} for row in expected])

    def test_single_manifest_uses_the_blobs_of_its_store(self):
        path = self.store.put_package("tiny/latest", self.tiny())
        point = self.mount(path)
        self.assertEqual(self.read_whole(point, "tensors", "bias"), numbers("i", 4))
        self.assertEqual(self.metadata(point)["source"], path)

    def test_manifest_in_another_root_is_read(self):
        self.store.put_package("hf.co/Example-Org/Tiny-GGUF/Q4_K_M", self.tiny())
        done = run("cat", os.path.join(self.store.root, "manifests/hf.co/Example-Org/Tiny-GGUF/Q4_K_M"), "files/template")
        self.assertEqual((done.returncode, done.stdout), (0, stores.TEMPLATE.decode()))

    def test_store_is_never_modified(self):
        self.store.put_package("tiny/latest", self.tiny())
        self.store.put_package("other/latest", self.tiny("Other"))
        self.store.put_manifest("bad/latest", b"{")
        before = stores.everything_in(self.store.root)
        point = self.mount_store()
        for base, _, names in os.walk(point):
            for name in set(names) - {"model.npz"}:  # its checksums are cached
                self.read_whole(base, name)
        self.unmount(point)
        for command in (["ls", "-lR"], ["fetch"], ["verify"]):
            self.assertEqual(run(*command, self.store.root).returncode, 5, command)
        self.assertEqual(stores.everything_in(self.store.root), before)
        self.assert_cache_holds()

    @unittest.skipUnless(os.geteuid() == 0, "a read-only bind mount needs root")
    def test_store_on_a_read_only_file_system_is_read(self):
        self.store.put_package("tiny/latest", self.tiny())
        os.mkdir(self.path("read-only"))
        subprocess.run(["mount", "--bind", "-o", "ro", self.store.root, self.path("read-only")], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.path("read-only")], check=True)
        tree = self.tree(self.mount(self.path("read-only")))
        self.assertEqual(self.read_whole(tree, "tensors", "bias"), numbers("i", 4))

    def test_empty_store_is_an_empty_directory(self):
        done = run("ls", self.store.root)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


class Names(StoreTestCase):
    def test_name_is_found_in_the_store_of_the_environment(self):
        self.store.put_package("tiny/latest", self.tiny("One"))
        self.store.put_package("tiny/7b", self.tiny("Two"))
        self.store.put_package("hf.co/Example-Org/Tiny-GGUF/Q4_K_M", self.tiny("Three"))
        os.environ["OLLAMA_MODELS"] = self.store.root
        for i, (name, shown) in enumerate({"tiny": "One", "tiny:7b": "Two", "library/tiny:7b": "Two",
                                           "hf.co/Example-Org/Tiny-GGUF:Q4_K_M": "Three",
                                           f"{stores.DEFAULT_HOST}/library/tiny": "One"}.items()):
            point = self.mount(f"ollama:{name}", at=f"mnt{i}")
            self.assertEqual(self.metadata(point)["name"], shown, name)

    def test_name_is_found_in_the_store_of_the_user(self):
        stores.Store(self.path("home", ".ollama", "models")).put_package("tiny/latest", self.tiny())
        self.assertEqual(self.read_whole(self.mount("ollama:tiny"), "tensors", "bias"), numbers("i", 4))

    def test_missing_name_fails_at_once_when_offline(self):
        os.environ["OLLAMA_MODELS"] = self.store.root
        done = run("mount", "--offline", "ollama:absent", self.path("mnt"))
        self.assertEqual(done.returncode, 8, done.stderr)
        self.assertRegex(done.stderr, r"^weightfs: .*absent.*: manifest not cached; retry without --offline\n$")
        self.assertFalse(os.path.exists(self.path("mnt")))

    def test_invalid_name_is_refused(self):
        for name in ("ollama:", "ollama:../../etc/passwd", "ollama:a/b/c/d/e", "ollama:tiny:", "ollama:.hidden", "ollama:ti ny"):
            done = run("ls", "--offline", name)
            self.assertEqual(done.returncode, 4, (name, done.stderr))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


class UnusualStores(StoreTestCase):
    """Unusual layouts of stores."""

    def test_blob_names_before_2024_are_supported(self):
        self.store.put_package("tiny/latest", self.tiny(), separator=":")
        tree = self.tree(self.mount_store())
        self.assertEqual(self.read_whole(tree, "files", "template"), stores.TEMPLATE)
        self.assertEqual(self.read_whole(tree, "tensors", "bias"), numbers("i", 4))

    def test_blobs_linked_from_elsewhere_are_read(self):
        package = self.tiny()
        self.store.put_package("tiny/latest", package)
        model = package.blobs[package.layers[0]["digest"][7:]]
        os.remove(self.store.blob_path(model))
        os.symlink(self.write("downloads/my.gguf", model), self.store.blob_path(model))
        tree = self.tree(self.mount_store())
        self.assertEqual(self.read_whole(tree, "files", "model.gguf"), model)
        self.assertFalse(os.path.islink(os.path.join(tree, "files", "model.gguf")))

    def test_other_files_in_a_store_are_ignored(self):
        package = self.tiny()
        self.store.put_package("tiny/latest", package)
        other = stores.sha256(b"other")
        for name in (f"sha256-{other}-partial", f"sha256-{other}-partial-0", f"sha256-{other}.tmp", "sha256-123456789",
                     ".DS_Store"):
            self.store.put(os.path.join(self.store.root, "blobs", name), b"left over")
        for name in (".DS_Store", f"{stores.DEFAULT_HOST}/.DS_Store", f"{stores.DEFAULT_HOST}/library/tiny/.hidden",
                     f"{stores.DEFAULT_HOST}/library/tiny/too/deep", f"{stores.DEFAULT_HOST}/shallow"):
            self.store.put(os.path.join(self.store.root, "manifests", name), package.manifest())
        point = self.mount_store()
        found = [os.path.relpath(base, point) for base, _, names in os.walk(point) if "tensors.json" in names]
        self.assertEqual(found, [f"{stores.DEFAULT_HOST}/library/tiny/latest"])
        self.assertFalse(os.path.exists(os.path.join(point, "warnings.txt")))

    def test_several_licenses_are_numbered(self):
        package = self.tiny()
        package.add("license", b"Another license\n").add("license", stores.LICENSE)
        self.store.put_package("tiny/latest", package)
        files = os.path.join(self.tree(self.mount_store()), "files")
        self.assertEqual([name for name in sorted(os.listdir(files)) if name.startswith("license")],
                         ["license", "license-2", "license-3"])
        self.assertEqual([self.read_whole(files, name) for name in ("license", "license-2", "license-3")],
                         [stores.LICENSE, b"Another license\n", stores.LICENSE])

    def test_projector_is_a_nested_model(self):
        package = self.tiny()
        projector = stores.gguf(self.tmp, [Tensor("v.patch/weight", "float32", (2, 2), numbers("f", 4))],
                                {"general.architecture": "clip"})
        self.store.put_package("tiny/latest", package.add("projector", projector))
        tree = self.tree(self.mount_store())
        self.assertEqual(self.read_whole(tree, "files", "projector.gguf"), projector)
        nested = os.path.join(tree, "nested", "projector.gguf")
        self.assertEqual(self.metadata(nested)["architecture"], "clip")
        self.assertEqual(self.read_whole(nested, "tensors", "v.patch", "weight"), numbers("f", 4))
        self.assertFalse(os.path.exists(os.path.join(tree, "tensors", "v.patch")))

    def test_model_with_tensor_layers_is_read(self):
        import numpy
        tensors = [Tensor("model.embed.weight", "float32", (3, 4), numbers("f", 12)), Tensor("a/b", "int8", (5,), numbers("b", 5)),
                   Tensor("model.norm.bias", "float64", (2,), numbers("d", 2))]
        package = stores.mlx(self.tmp, tensors, {"config.json": {"model_type": "tiny"}, "text/config.json": {"layers": 3}})
        self.store.put_package("mlx/latest", package)
        tree = self.tree(self.mount_store(), name="library/mlx/latest")
        self.assertEqual([row["name"] for row in json.loads(self.read_whole(tree, "tensors.json"))["tensors"]],
                         [tensor.name for tensor in tensors])
        for tensor in tensors:
            array = numpy.load(os.path.join(tree, "npy", tensor.name + ".npy"), mmap_mode="r")
            self.assertEqual((array.shape, array.dtype.name, array.tobytes()), (tensor.shape, tensor.dtype, tensor.data))
        self.assertEqual(json.loads(self.read_whole(tree, "files", "config.json")), {"model_type": "tiny"})
        self.assertEqual(json.loads(self.read_whole(tree, "files", "text", "config.json")), {"layers": 3})
        self.assertIn("image-config.json", os.listdir(os.path.join(tree, "files")))

    # semantics 26.5
    def test_tensor_layers_are_one_gguf(self):
        tensors = [
            Tensor("model.embed.weight", "float32", (3, 4), numbers("f", 12)),
            Tensor("model.norm.bias", "float16", (2, ), b"abcd")
        ]
        self.store.put_package("mlx/latest", stores.mlx(self.tmp, tensors, {"config.json": {"model_type": "tiny"}}))
        views = os.path.join(self.tree(self.mount_store(), name="library/mlx/latest"), "views")
        done = subprocess.run([WEIGHTFS, "cat", os.path.join(views, "model.gguf"), "tensors.json"], capture_output=True,
                              timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual([(row["name"], row["dtype"], row["shape"]) for row in json.loads(done.stdout)["tensors"]],
                         [(tensor.name, tensor.dtype, list(tensor.shape)) for tensor in tensors])
        for tensor in tensors:
            self.assertEqual(subprocess.run([WEIGHTFS, "cat", os.path.join(views, "model.gguf"), "tensors/" + tensor.name],
                                            stdout=subprocess.PIPE, check=True, timeout=LIMIT_S).stdout, tensor.data)

    def test_tensor_named_data_gets_the_name_of_its_layer(self):
        package = stores.Package({"model_format": "safetensors"})
        package.add("tensor", stores.safetensors(self.tmp, [Tensor("data", "int8", (2,), b"ab")]), name="vae/weight")
        self.store.put_package("old/latest", package)
        tree = self.tree(self.mount_store(), name="library/old/latest")
        self.assertEqual(self.read_whole(tree, "tensors", "vae", "weight"), b"ab")

    def test_documented_manifest_layout_is_read(self):
        import numpy
        manifest, blobs = stores.document(
            [Tensor("n/a", "float32", (2, 3), numbers("f", 6)),
             Tensor("scalar", "int32", (), numbers("i", 1))], {"tokenizer": b"{}", "license": stores.LICENSE})
        for data in blobs.values():
            self.store.put_blob(data)
        self.store.put_manifest("document/latest", manifest)
        tree = self.tree(self.mount_store(), name="library/document/latest")
        self.assertEqual(self.read_whole(tree, "tensors", "n", "a"), numbers("f", 6))
        self.assertEqual(numpy.load(os.path.join(tree, "npy", "n", "a.npy")).tolist(), [[0, 1, 2], [3, 4, 5]])
        self.assertEqual(numpy.load(os.path.join(tree, "npy", "scalar.npy")).shape, ())
        self.assertEqual(os.getxattr(os.path.join(tree, "tensors", "n", "a"), "user.weightfs.sha256").decode(),
                         stores.sha256(numbers("f", 6)))
        self.assertEqual(self.read_whole(tree, "files", "license"), stores.LICENSE)
        self.assertEqual(self.read_whole(tree, "files", "config.json"), stores.as_go({"model_type": "llama"}))

    def test_hostile_layer_names_stay_in_the_mount(self):
        package = stores.Package({"model_format": "safetensors"})
        names = [
            "../../up.json", "/etc/passwd", "a//b.json", "tokenizer.json", "tokenizer.json", "dir", "dir/below.json", "\n.json"
        ]
        for i, name in enumerate(names):
            package.add("json", b'{"n":%d}' % i, name=name)
        self.store.put_package("evil/latest", package)
        files = os.path.join(self.tree(self.mount_store(), name="library/evil/latest"), "files")
        found = {os.path.relpath(os.path.join(base, name), files): self.read_whole(base, name)
                 for base, _, names in os.walk(files) for name in names}
        self.assertEqual(sorted(data for data in found.values() if data.startswith(b'{"n"')),
                         [b'{"n":%d}' % i for i in range(len(names))])
        self.assertFalse(os.path.exists(self.path("up.json")))


class Damage(StoreTestCase):
    """Damaged models beside an intact one, which stays readable."""

    def setUp(self):
        super().setUp()
        # It has no blob in common with the others.
        model = stores.gguf(self.tmp, TENSORS, {"general.name": "Good"})
        self.store.put_package("good/latest", stores.Package({"model_family": "good"}).add("model", model))

    def mount_and_check_the_good_one(self):
        point = self.mount_store()
        good = self.tree(point, name="library/good/latest")
        self.assertEqual(self.read_whole(good, "tensors", "bias"), numbers("i", 4))
        self.assertFalse(os.path.exists(os.path.join(good, "warnings.txt")))
        return point

    def test_each_corrupt_manifest_is_reported(self):
        valid = self.tiny().manifest()
        broken = {"empty": b"", "binary": b"\0\xff" * 50, "cut": valid[:-20], "list": b"[]", "text": b'"layers"',
                  "layers-of-another-type": b'{"schemaVersion":2,"layers":{}}',
                  "size-of-another-type": valid.replace(b'"size":', b'"size":"1","x":')}
        for name, manifest in broken.items():
            self.store.put_manifest(f"{name}/latest", manifest)
        point = self.mount_and_check_the_good_one()
        self.assertEqual(sorted(os.listdir(os.path.join(point, stores.DEFAULT_HOST, "library"))), sorted([*broken, "good"]))
        lines = self.warnings(point)
        self.assertEqual(len(lines), len(broken), lines)
        for name in broken:
            self.assertEqual(sum(f"library/{name}/latest" in line for line in lines), 1, name)
            with self.assertRaises(OSError) as caught:
                os.listdir(self.tree(point, name=f"library/{name}/latest"))
            self.assertEqual(caught.exception.errno, errno.EIO)

    # semantics 25.1
    def test_verify_and_info_fail_for_a_corrupt_manifest(self):
        valid = self.tiny().manifest()
        broken = {"zeros": bytes(500), "cut": valid[:-20], "html": b"<html></html>", "odd": b'{"schemaVersion":2,"layers":{}}'}
        for name, manifest in broken.items():
            self.store.put_manifest(f"{name}/latest", manifest)
        done = run("verify", self.store.root)
        self.assertEqual(done.returncode, 5, (done.stdout, done.stderr))
        self.assertIn("library/good/latest: WHOLE: 3 files match", done.stdout)
        for name in broken:
            self.assertIn(f"library/{name}/latest: ollama: ", done.stderr)
        done = run("info", self.store.root)
        self.assertEqual(done.returncode, 5, (done.stdout, done.stderr))
        for name in broken:
            self.assertRegex(done.stdout, rf"library/{name}/latest\t+ollama: ")

    # semantics 27.1
    def test_model_with_a_corrupt_small_layer_is_damaged(self):
        package = self.tiny().add("system", b"Answer in verse.")
        small = {layer["mediaType"].rsplit(".", 1)[1]: package.blobs[layer["digest"][7:]] for layer in package.layers[1:]}
        self.assertEqual(sorted(small), ["license", "params", "system", "template"])
        self.store.put_package("tiny/latest", package)
        manifest = os.path.join(self.store.root, "manifests", stores.DEFAULT_HOST, "library/tiny/latest")
        for kind, data in small.items():
            self.store.put(self.store.blob_path(data), bytes([data[0] ^ 1]) + data[1:])
            done = run("info", manifest)
            self.assertEqual(done.returncode, 7, (kind, done.stdout, done.stderr))
            self.assertIn("\nDAMAGED: ", done.stdout)
            for argv in (("export", manifest, self.path("out"), "--to", "dir"), ("cat", manifest, "metadata.json")):
                self.assertEqual(run(*argv).returncode, 7, (kind, argv))
            self.assertFalse(os.path.exists(self.path("out")))
            self.store.put(self.store.blob_path(data), data)
        self.assertEqual(run("info", manifest).returncode, 0)

    def test_empty_layer_has_the_digest_of_no_bytes(self):
        for digest_of, status in ((b"", 0), (b"other bytes", 7)):
            package = self.tiny().add("system", b"")
            layer = package.layers[-1]
            layer["digest"] = "sha256:" + stores.sha256(digest_of)
            self.store.put_package("tiny/latest", package)
            self.store.put(self.store.blob_path(digest_of), b"")
            done = run("info", os.path.join(self.store.root, "manifests", stores.DEFAULT_HOST, "library/tiny/latest"))
            self.assertEqual((done.returncode, layer["size"]), (status, 0), done.stderr)

    def test_missing_blob_is_reported_and_others_are_read(self):
        package = self.tiny()
        self.store.put_package("tiny/latest", package)
        model = package.blobs[package.layers[0]["digest"][7:]]
        os.remove(self.store.blob_path(model))
        point = self.mount_and_check_the_good_one()
        self.assertEqual(len(self.warnings(point)), 1)
        self.assertIn(stores.sha256(model), self.warnings(point)[0])
        tree = self.tree(point)
        self.assertEqual(self.read_whole(tree, "files", "template"), stores.TEMPLATE)
        self.assertNotIn("model.gguf", os.listdir(os.path.join(tree, "files")))
        self.assertEqual(len(self.warnings(tree)), 2)
        self.assertIn("1 file is missing: ", self.warnings(tree)[0])

    def test_truncated_blob_is_never_served(self):
        for cut in (1, 100):
            package = self.tiny(f"Cut {cut}")
            self.store.put_package(f"cut{cut}/latest", package)
            path = self.store.blob_path(package.blobs[package.layers[0]["digest"][7:]])
            os.truncate(path, os.path.getsize(path) - cut)
        point = self.mount_and_check_the_good_one()
        for cut in (1, 100):
            tree = self.tree(point, name=f"library/cut{cut}/latest")
            self.assert_nothing_readable(os.path.join(tree, "files"), "model.gguf")
            self.assert_nothing_readable(os.path.join(tree, "tensors"), "bias")
            self.assertRegex("\n".join(self.warnings(tree)), r"\d+ bytes, not \d+|is missing|size")
            self.assertEqual(self.read_whole(tree, "files", "license"), stores.LICENSE)

    def test_zeroed_blob_is_never_served_and_reported_once(self):
        package = self.tiny()
        self.store.put_package("tiny/latest", package)
        model = package.blobs[package.layers[0]["digest"][7:]]
        self.store.put(self.store.blob_path(model), bytes(len(model)))
        process, point = self.foreground(self.store.root)
        tree = self.tree(point)
        name, = [name for name in os.listdir(os.path.join(tree, "files")) if name.startswith("model.")]
        for _ in range(3):
            with self.assertRaises(OSError) as caught:
                self.read_whole(tree, "files", name)
            self.assertEqual(caught.exception.errno, errno.EIO)
        self.assertEqual(self.read_whole(tree, "files", "license"), stores.LICENSE)
        lines = [line for line in self.end(process) if stores.sha256(model) in line]
        self.assertEqual(len(lines), 1, lines)
        self.assert_cache_holds()

    def test_flipped_bit_is_never_served(self):
        package = self.tiny()
        self.store.put_package("tiny/latest", package)
        for kind, data in (("model.gguf", package.blobs[package.layers[0]["digest"][7:]]), ("license", stores.LICENSE)):
            wrong = bytearray(data)
            wrong[-1] ^= 1
            self.store.put(self.store.blob_path(data), wrong)
        point = self.mount_and_check_the_good_one()
        tree = self.tree(point)
        for name in ("model.gguf", "license"):
            with self.assertRaises(OSError) as caught:
                self.read_whole(tree, "files", name)
            self.assertEqual(caught.exception.errno, errno.EIO)
        for tensor in TENSORS:
            if tensor.data:
                self.assert_nothing_readable(os.path.join(tree, "tensors"), tensor.name)

    def test_verify_names_the_corrupt_blob(self):
        package = self.tiny()
        self.store.put_package("tiny/latest", package)
        self.store.put(self.store.blob_path(stores.TEMPLATE), bytes(len(stores.TEMPLATE)))
        done = run("verify", os.path.join(self.store.root, "manifests", stores.DEFAULT_HOST, "library/tiny/latest"))
        self.assertEqual(done.returncode, 7, (done.stdout, done.stderr))
        self.assertIn("template", done.stdout)
        self.assertEqual(len(done.stdout.splitlines()), 1, done.stdout)

    def test_invalid_digests_open_nothing(self):
        package = self.tiny()
        for digest in ("", "sha256:", "sha256:" + "../" * 21 + "x", "md5:" + "0" * 32, "sha256:" + "g" * 64, "SHA256:" + "0" * 64):
            package.layers.append({"mediaType": stores.IMAGE + "system", "digest": digest, "size": 1})
        self.store.put_package("tiny/latest", package)
        tree = self.tree(self.mount_and_check_the_good_one())
        self.assertNotIn("system", os.listdir(os.path.join(tree, "files")))
        self.assertEqual(self.read_whole(tree, "files", "license"), stores.LICENSE)

    def test_fifo_as_blob_does_not_block(self):
        package = self.tiny()
        self.store.put_package("tiny/latest", package)
        os.remove(self.store.blob_path(stores.LICENSE))
        os.mkfifo(self.store.blob_path(stores.LICENSE))
        tree = self.tree(self.mount_and_check_the_good_one())
        self.assert_nothing_readable(os.path.join(tree, "files"), "license")
        self.assertEqual(self.read_whole(tree, "files", "template"), stores.TEMPLATE)

    def test_blob_removed_while_mounted_is_an_error(self):
        package = self.tiny()
        self.store.put_package("tiny/latest", package)
        point = self.mount_store()
        tree = self.tree(point)
        self.assertIn("license", os.listdir(os.path.join(tree, "files")))
        model = package.blobs[package.layers[0]["digest"][7:]]
        with open(os.path.join(tree, "files", "model.gguf"), "rb") as opened:
            self.assertEqual(opened.read(4), b"GGUF")
            for data in package.blobs.values():
                os.remove(self.store.blob_path(data))
            self.assertEqual(opened.read(), model[4:])
        self.assertIn("files", os.listdir(tree))
        # Files that were not open may be errors; their bytes never change.
        for name, data in {"license": stores.LICENSE, "template": stores.TEMPLATE}.items():
            try:
                self.assertEqual(self.read_whole(tree, "files", name), data)
            except OSError as error:
                self.assertIn(error.errno, (errno.EIO, errno.EHOSTUNREACH))

    def test_models_added_later_appear_in_the_next_mount(self):
        point = self.mount_and_check_the_good_one()
        self.store.put_package("later/latest", self.tiny("Later"))
        self.assertEqual(os.listdir(os.path.join(point, stores.DEFAULT_HOST, "library")), ["good"])
        self.assertEqual(os.listdir(os.path.join(self.mount_store(at="next"), stores.DEFAULT_HOST, "library")), ["good", "later"])


class ExternalStores(StoreTestCase):
    """Blobs of a carton in the stores of other programs."""
    FAR = b"far away" * 100_000

    def setUp(self):
        super().setUp()
        self.carton = stores.linked_carton(self.path("m.carton"), {"model/far": (self.FAR, ["http://127.0.0.1:1/far"])})

    def assert_read_in_place(self, *options):
        point = self.mount("--offline", *options, self.carton)
        self.assertEqual(self.read_whole(point, "files", "model", "far"), self.FAR)
        self.assertEqual(os.stat(os.path.join(point, "files", "model", "far")).st_size, len(self.FAR))
        self.assert_cache_holds()
        return point

    def test_blob_is_found_in_the_system_store(self):
        self.store.put_blob(self.FAR)
        os.environ["OLLAMA_MODELS"] = self.store.root
        self.assert_read_in_place()

    def test_blob_is_found_in_the_user_store(self):
        stores.Store(self.path("home", ".ollama", "models")).put_blob(self.FAR)
        self.assert_read_in_place()

    def test_blob_is_found_in_blob_dir(self):
        for i, name in enumerate(
                (stores.sha256(self.FAR), "sha256-" + stores.sha256(self.FAR), "blobs/sha256/" + stores.sha256(self.FAR))):
            with self.subTest(name=name):
                folder = self.path(f"blobs{i}")
                self.store.put(os.path.join(folder, name), self.FAR)
                for option in (["--blob-dir", folder], ["-o", f"blob_dir={folder}"]):
                    self.unmount(self.assert_read_in_place(*option))

    def test_blob_is_found_in_the_hub_cache(self):
        stores.put_in_hub_cache(self.path("home", ".cache", "huggingface", "hub"), "someone/model", "model.bin", self.FAR)
        self.assert_read_in_place()

    def test_blob_is_found_in_the_hub_cache_of_the_environment(self):
        stores.put_in_hub_cache(self.path("hub"), "someone/model", "model.bin", self.FAR)
        os.environ["HF_HUB_CACHE"] = self.path("hub")
        self.assert_read_in_place()

    def test_blob_is_found_in_the_carton_cache(self):
        stores.put_in_carton_cache(self.path("home", ".carton", "cache"), self.FAR, "http://127.0.0.1:1/far")
        self.assert_read_in_place()

    def test_external_stores_are_never_modified(self):
        self.store.put_blob(self.FAR)
        os.environ["OLLAMA_MODELS"] = self.store.root
        before = stores.everything_in(self.store.root)
        self.assert_read_in_place()
        self.assertEqual(stores.everything_in(self.store.root), before)

    def test_external_file_with_wrong_digest_is_not_served(self):
        wrong = bytearray(self.FAR)
        wrong[-1] ^= 1
        self.store.put(self.store.blob_path(self.FAR), wrong)
        os.environ["OLLAMA_MODELS"] = self.store.root
        process, point = self.foreground("--offline", self.carton)
        for _ in range(2):
            with self.assertRaises(OSError):
                self.read_whole(point, "files", "model", "far")
        # The next store is searched nevertheless.
        self.store.put(os.path.join(self.path("second"), stores.sha256(self.FAR)), self.FAR)
        other = self.mount("--offline", "--blob-dir", self.path("second"), self.carton, at="other")
        self.assertEqual(self.read_whole(other, "files", "model", "far"), self.FAR)
        lines = [line for line in self.end(process) if self.store.blob_path(self.FAR) in line]
        self.assertEqual(len(lines), 1, lines)

    def test_missing_blob_fails_at_once_when_offline(self):
        point = self.mount("--offline", self.carton)
        with self.assertRaises(OSError) as caught:
            self.read_whole(point, "files", "model", "far")
        self.assertEqual(caught.exception.errno, errno.EHOSTUNREACH)
        self.assertIn("far", os.listdir(os.path.join(point, "files", "model")))

    def test_missing_blob_dir_is_reported(self):
        done = run("mount", "--blob-dir", self.path("absent"), self.carton, self.path("mnt"))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("absent", done.stderr)
        self.assertFalse(os.path.exists(self.path("mnt")))


if __name__ == "__main__":
    unittest.main()
