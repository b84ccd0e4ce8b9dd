"""A directory with one model is that model: on disk, in a cache of the Hub, on the Hub, in archives and artifacts."""
import json
import os
import shutil
import zipfile

from mounting import run
from test_hub import HubTestCase
from hub_server import git_id
import artifacts
import containers
import stores
from tensors import Tensor

CONFIG = b'{"model_type": "llama"}'
NPY = b"\x93NUMPY\1\0" + (118).to_bytes(2, "little") + b"{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }".ljust(
    117) + b"\n" + b"abcd"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def tensor(name, value=1):
    return Tensor(name, "int8", (4,), bytes([value] * 4))


class OneModelTestCase(HubTestCase):
    def weights(self, *names):
        return stores.safetensors(self.path("."), [tensor(name) for name in names])

    def gguf_of(self, *names, **metadata):
        return stores.gguf(self.path("."), [tensor(name) for name in names], {"general.architecture": "llama", **metadata})

    def shards(self, *parts):
        os.makedirs(self.path("sharded"))
        containers.write_safetensors_shards(self.path("sharded"), [[tensor(name) for name in names] for names in parts])
        return {name: self.read("sharded", name) for name in os.listdir(self.path("sharded"))}

    def directory(self, files, name="model"):
        for path, data in files.items():
            os.makedirs(os.path.dirname(self.path(name, path)), exist_ok=True)
            self.write(os.path.join(name, path), data)
        return self.path(name)

    def output(self, *argv):
        done = run(*argv)
        self.assertEqual((done.returncode, done.stderr), (0, ""), argv)
        return done.stdout

    def tensors_of(self, source, *options):
        return [entry["name"] for entry in json.loads(self.output("cat", *options, source, "tensors.json"))["tensors"]]

    def names(self, source, path=""):
        """The files at a path of a model; nothing if it does not exist."""
        done = run("ls", source, *([path] if path else []))
        return done.stdout.split() if done.returncode == 0 else []

    def cache(self, files):
        """A repository in a cache of huggingface_hub."""
        repository = self.path("hub", "models--org--demo")
        os.makedirs(os.path.join(repository, "blobs"))
        os.makedirs(os.path.join(repository, "refs"))
        self.write(os.path.join(repository, "refs", "main"), COMMIT.encode())
        for path, data in files.items():
            link = os.path.join(repository, "snapshots", COMMIT, path)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            blob = artifacts.digest(data)[7:] if path.endswith((".safetensors", ".bin", ".gguf")) else git_id(data)
            self.write(os.path.join(repository, "blobs", blob), data)
            os.symlink("../" * (path.count("/") + 2) + "blobs/" + blob, link)
        return repository


class Directories(OneModelTestCase):
    # semantics 1.2
    def test_repository_is_its_safetensors(self):
        model = self.directory({
            "config.json": CONFIG, **self.shards(["a"], ["b"]), "pytorch_model.bin": b"x", "tiny.gguf": self.gguf_of("g"),
            "original/consolidated.safetensors": self.weights("o"), "original/params.json": b"{}"
        })
        self.assertEqual(self.tensors_of(model), ["a", "b"])
        self.assertEqual(self.names(model, "nested"), ["original", "pytorch_model.bin", "tiny.gguf"])
        self.assertEqual(self.names(model, "files/original"), ["consolidated.safetensors", "params.json"])
        self.assertEqual(self.output("cat", model, "files/config.json"), CONFIG.decode())

    # semantics 1.6
    def test_other_weights_are_nested_and_can_be_named(self):
        model = self.directory({"config.json": CONFIG, "model.safetensors": self.weights("a"), "tiny.gguf": self.gguf_of("g"),
                                "original/consolidated.safetensors": self.weights("o")})
        self.assertEqual(self.names(model, "nested/tiny.gguf/tensors"), ["g"])
        self.assertEqual(self.names(model, "nested/original/consolidated.safetensors/tensors"), ["o"])
        self.assertEqual(self.tensors_of(model, "--file", "tiny.gguf"), ["g"])
        self.assertEqual(self.tensors_of(model, "--file", "original/consolidated.safetensors"), ["o"])
        mounted = self.mount("--file", "tiny.gguf", model)
        self.assertEqual(os.listdir(os.path.join(mounted, "tensors")), ["g"])
        self.assertEqual(self.tensors_of(os.path.join(model, "tiny.gguf")), ["g"], "a file that is named is opened")
        for command in (["info", "--json"], ["stats"], ["verify"]):
            self.assertEqual(run(*command, model).returncode, 0, command)
        self.assertEqual(len(json.loads(self.output("stats", "--json", model))["tensors"]), 1, "other weights have no statistics")

    # semantics 1.6
    def test_other_weights_beside_the_form_of_a_format_are_nested(self):
        manifest = {"weightsManifest": [{"paths": ["weights.bin"], "weights": [{"name": "w", "shape": [2], "dtype": "float32"}]}]}
        forms = {"tfjs": {"model.json": json.dumps(manifest).encode(), "weights.bin": b"01234567"},
                 "saved": {"saved_model.pb": b"\x08\1\x12\0"}}
        for name, files in forms.items():
            with self.subTest(name):
                model = self.directory({**files, "good.safetensors": self.weights("a"), "bad.safetensors": self.weights("b")[:20]},
                                       name)
                facts = json.loads(self.output("info", "--json", model))
                self.assertEqual([one["path"] for one in facts["summary"]["alternatives"]], ["bad.safetensors", "good.safetensors"])
                self.assertIn("also here: bad.safetensors, good.safetensors", " ".join(self.output("info", model).split()))
                self.assertEqual(self.names(model, "nested"), ["bad.safetensors", "good.safetensors"])
                self.assertEqual(self.output("cat", model, "a"), "\1\1\1\1")
                self.assertEqual(self.tensors_of(model, "--file", "good.safetensors"), ["a"])
                self.assertTrue(self.output("verify", model).endswith("; not verified: 2 alternatives, which --file opens\n"))
                self.assertIn(f"weightfs: {model}/nested/bad.safetensors: safetensors: ", run("ls", "-R", model).stderr)

    def test_file_that_does_not_exist_is_reported(self):
        model = self.directory({"config.json": CONFIG, "model.safetensors": self.weights("a")})
        self.assertIn("b.gguf: no such file", self.failure("ls", "--file", "b.gguf", model, status=3))
        self.assertIn("not a path below SOURCE", self.failure("ls", "--file", "../b.gguf", model, status=2))
        self.assertIn("not a directory", self.failure("ls", "--file", "a", os.path.join(model, "model.safetensors"), status=4))

    def test_checkpoint_has_no_models_of_its_trainer(self):
        model = self.directory(
            {"config.json": CONFIG, "model.safetensors": self.weights("a"), "optimizer.pt": b"PK\3\4", "trainer_state.json": b"{}"})
        self.assertEqual((self.tensors_of(model), self.names(model, "nested")), (["a"], []))
        several = self.directory(
            {"a.safetensors": self.weights("a"), "b.safetensors": self.weights("b"), "optimizer.safetensors": self.weights("o")},
            "several")
        self.assertEqual(self.names(several), ["a.safetensors", "b.safetensors"])

    def test_adapter_is_one_model(self):
        model = self.directory(
            {"adapter_config.json": b"{}", "adapter_model.safetensors": self.weights("lora_A"), "optimizer.pt": b"PK\3\4"})
        self.assertEqual(self.tensors_of(model), ["lora_A"])

    def test_pipeline_has_the_tensors_of_its_components(self):
        index = {
            "_class_name": "P", "unet": ["diffusers", "U"], "vae": ["diffusers", "A"], "scheduler": ["diffusers", "S"],
            "checker": [None, None]
        }
        model = self.directory(
            {
                "model_index.json": json.dumps(index).encode(), "unet/diffusion_pytorch_model.safetensors": self.weights("w"),
                "unet/diffusion_pytorch_model.fp16.safetensors": self.weights(
                    "w"), "scheduler/scheduler_config.json": b"{}", **{
                        f"vae/{name}".replace("model", "diffusion_pytorch_model"): data.replace(
                            b"model-", b"diffusion_pytorch_model-") for name, data in self.shards(["v"], ["w"]).items()
                    }
            })
        self.assertEqual(self.tensors_of(model), ["unet/w", "vae/v", "vae/w"])
        metadata = json.loads(self.output("cat", model, "metadata.json"))
        self.assertEqual((metadata["format"], metadata["architecture"]), ("diffusers", "P"))
        self.assertEqual(self.names(model, "nested/unet"), ["diffusion_pytorch_model.fp16.safetensors"])

    def test_sentence_transformer_has_the_weights_of_its_modules(self):
        modules = [{"idx": 0, "path": "", "type": "T"}, {"idx": 1, "path": "1_Pooling", "type": "P"},
                   {"idx": 2, "path": "2_Dense", "type": "D"}]
        model = self.directory({
            "modules.json": json.dumps(modules).encode(), "config.json": CONFIG, "model.safetensors": self.weights("w"),
            "1_Pooling/config.json": b"{}", "2_Dense/model.safetensors": self.weights("linear")
        })
        self.assertEqual(self.tensors_of(model), ["w", "2_Dense/linear"])

    def test_shards_without_index_are_one_model_with_a_warning(self):
        shards = self.shards(["a"], ["b"])
        del shards["model.safetensors.index.json"]
        model = self.directory({"config.json": CONFIG, **shards})
        self.assertEqual(self.tensors_of(model), ["a", "b"])
        self.assertIn("no index of the shards", self.output("cat", model, "warnings.txt"))

    def test_only_model_file_is_the_model_unless_models_are_below(self):
        model = self.directory({"a.gguf": self.gguf_of("g"), "README.md": b"#"})
        self.assertEqual(self.tensors_of(model), ["g"])
        self.directory({"sub/b.gguf": self.gguf_of("h")})
        self.assertEqual(self.names(model), ["a.gguf", "sub"])

    def test_command_names_the_models_of_a_directory(self):
        several = self.directory({f"{name}.gguf": self.gguf_of(name) for name in "cab"}, "several")
        self.assertIn("several has 3 models: a.gguf, b.gguf, c.gguf; name one of them",
                      self.failure("export", several, self.path("x.npz"), status=4))
        many = self.directory({f"{i:02}.gguf": self.gguf_of("w") for i in range(12)}, "many")
        self.assertIn("has 12 models: 00.gguf, 01.gguf,", self.failure("export", many, self.path("x.npz"), status=4))
        self.assertIn("09.gguf and 2 others; name", self.failure("export", many, self.path("x.npz"), status=4))

    def test_links_of_a_snapshot_are_files(self):
        repository = self.cache({"config.json": CONFIG, "model.safetensors": self.weights("a"), "sub/vocab.txt": b"v"})
        for source in (repository, os.path.join(repository, "snapshots", COMMIT)):
            self.assertEqual(self.tensors_of(source), ["a"])
            self.assertEqual(self.names(source, "files"), ["config.json", "model.safetensors", "sub"])
            self.assertEqual(self.output("cat", source, "files/sub/vocab.txt"), "v")

    def test_main_snapshot_is_the_model_of_a_cached_repository(self):
        repository = self.cache({"config.json": CONFIG, "model.safetensors": self.weights("main")})
        os.makedirs(os.path.join(repository, "snapshots", "f" * 40))
        self.write(os.path.join(repository, "snapshots", "f" * 40, "model.safetensors"), self.weights("newest"))
        self.assertEqual(self.tensors_of(repository), ["main"])
        self.assertEqual(self.tensors_of(repository, "--file", f"snapshots/{'f' * 40}/model.safetensors"), ["newest"])
        os.remove(os.path.join(repository, "refs", "main"))
        os.utime(os.path.join(repository, "snapshots", COMMIT), (1, 1))
        self.assertEqual(self.tensors_of(repository), ["newest"])


# semantics 1.3
class OnlyModelBelow(OneModelTestCase):
    FILES = {"sub/deep/model.gguf": b"", "notes/readme.txt": b"text", "readme.txt": b"text"}

    def check(self, source, below, file):
        """Commands show the only model below `source`; the tree stays that of the directory."""
        self.assertEqual(json.loads(self.output("info", "--json", source))["format"], "gguf")
        self.assertNotIn("\t", self.output("info", source), "a screen, not a table")
        self.assertEqual(self.output("stats", source), self.output("stats", file))
        self.assertEqual(self.names(source)[-1], below.partition("/")[0])
        self.assertEqual(self.names(source, below), self.names(file))

    def test_commands_show_the_only_model_of_a_directory(self):
        source = self.directory({**self.FILES, "sub/deep/model.gguf": self.gguf_of("w")})
        file = os.path.join(source, "sub/deep/model.gguf")
        self.check(source, "sub/deep", file)
        for pair in ((source, file), (file, source)):
            done = run("diff", *pair)
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.directory({"other/b.gguf": self.gguf_of("v")})
        self.assertIsInstance(json.loads(run("info", "--json", source).stdout), list, "a directory of two models")

    def test_only_model_of_a_repository_on_the_hub(self):
        data = self.gguf_of("w")
        file = os.path.join(self.directory({"model.gguf": data}, "local"), "model.gguf")
        self.hub.add("org/demo", {**self.FILES, "sub/deep/model.gguf": data})
        self.check("hf://org/demo", "sub/deep", file)


class CachedRepository(OneModelTestCase):
    """The names of the blobs in a cache of huggingface_hub are digests of their content."""

    def setUp(self):
        super().setUp()
        self.files = {"config.json": CONFIG, "model.safetensors": self.weights("a"), "sub/vocab.txt": b"vocabulary"}
        self.repository = self.cache(self.files)
        self.snapshot = os.path.join(self.repository, "snapshots", COMMIT)
        self.sources = (self.path("hub"), self.repository, self.snapshot)

    def blob(self, path):
        return os.path.realpath(os.path.join(self.snapshot, path))

    def damage(self, path):
        data = self.files[path]
        self.write(self.blob(path), data[:-1] + bytes([data[-1] ^ 1]))

    def verify(self, source, status):
        done = run("verify", "--no-cache", source)
        self.assertEqual(done.returncode, status, (source, done.stdout, done.stderr))
        return done.stdout + done.stderr

    # semantics 8.5
    def test_intact_files_match_their_names(self):
        for source in self.sources:
            self.assertIn(": 3 files match their checksums\n", self.verify(source, 0))
        self.assertIn(": 1 file matches its checksum\n", self.verify(os.path.join(self.snapshot, "model.safetensors"), 0))

    def test_file_that_differs_from_its_name_is_found(self):
        for path in self.files:
            self.damage(path)
            for source in self.sources:
                self.assertIn(f'"{path}": {"SHA-256" if path.endswith("s") else "Git object id"} is', self.verify(source, 7))
            self.write(self.blob(path), self.files[path])
        self.damage("model.safetensors")
        self.verify(os.path.join(self.snapshot, "model.safetensors"), 7)

    def test_zip_that_differs_from_its_name_is_found(self):
        with zipfile.ZipFile(self.path("m.npz"), "w") as archive:
            archive.writestr("a.npy", NPY)
            archive.comment = b"comment"
        data = self.read("m.npz")
        self.write(os.path.join(self.repository, "blobs", stores.sha256(data)), data[:-1] + b"T")
        os.symlink("../../blobs/" + stores.sha256(data), os.path.join(self.snapshot, "m.npz"))
        self.assertIn('"m.npz": SHA-256 is', self.verify(os.path.join(self.snapshot, "m.npz"), 7))

    def test_file_beside_a_name_that_is_no_digest_is_not_compared(self):
        os.rename(self.blob("config.json"), os.path.join(self.repository, "blobs", "etag-of-a-proxy"))
        os.remove(os.path.join(self.snapshot, "config.json"))
        os.symlink("../../blobs/etag-of-a-proxy", os.path.join(self.snapshot, "config.json"))
        self.verify(self.repository, 0)
        other = self.path("blobs", "0" * 64)
        os.makedirs(os.path.dirname(other))
        self.write(other, self.files["model.safetensors"])
        os.symlink(other, self.path("linked.safetensors"))
        self.verify(self.path("linked.safetensors"), 0)

    # semantics 25.6
    def test_export_of_all_tensors_compares_the_digest(self):
        self.damage("model.safetensors")
        for source in (self.snapshot, os.path.join(self.snapshot, "model.safetensors")):
            done = run("export", source, self.path("out.npz"))
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertFalse(os.path.exists(self.path("out.npz")))
        self.assertEqual(run("cat", self.snapshot, "files/model.safetensors").returncode, 7)
        self.assertEqual(run("cat", self.snapshot, "files/config.json").returncode, 0)

    def test_file_of_the_cache_is_compared_for_a_name_on_the_hub(self):
        os.environ["HF_HUB_CACHE"] = self.path("hub")
        del os.environ["HF_ENDPOINT"]
        self.assertIn(": 3 files match", self.verify_offline(0))
        self.damage("config.json")
        self.assertIn('"config.json"', self.verify_offline(7))

    def verify_offline(self, status):
        done = run("verify", "--no-cache", "--offline", "hf://org/demo")
        self.assertEqual(done.returncode, status, (done.stdout, done.stderr))
        return done.stdout

    # semantics 25.1
    def test_link_to_a_missing_blob_is_a_missing_file(self):
        os.remove(self.blob("config.json"))
        for source in self.sources:
            self.assertIn('"config.json": a link to a blob that is missing', self.verify(source, 3))
        self.assertEqual(self.tensors_of(self.snapshot), ["a"])
        os.remove(self.blob("model.safetensors"))
        for source in self.sources:
            self.assertIn("model.safetensors: a link to a blob that is missing", self.verify(source, 3))

    def test_link_to_missing_weights_beside_others_is_a_warning(self):
        os.symlink("../../blobs/" + "0" * 64, os.path.join(self.snapshot, "pytorch_model.bin"))
        self.assertIn('warning: "pytorch_model.bin": a link to a blob that is missing', self.verify(self.repository, 0))


class SameEverywhere(OneModelTestCase):
    """A directory is the same model wherever it is."""

    def sources(self, files):
        yield "disk", self.directory(files)
        yield "cache", self.cache(files)
        self.hub.add("org/demo", files)
        yield "hub", "hf://org/demo"
        with zipfile.ZipFile(self.path("model.zip"), "w") as archive:
            for path, data in files.items():
                archive.writestr(path, data)
        yield "zip", self.path("model.zip")
        with open(self.path("model.tar"), "wb") as archive:
            archive.write(artifacts.tar(files))
        yield "tar", self.path("model.tar")
        artifact = artifacts.modelpack()
        for path, data in files.items():
            artifact.add("application/vnd.cncf.model.weight.v1.raw", data, path)
        layout = artifacts.layout(self.path("layout"), ("latest", artifact))
        yield "artifact", shutil.make_archive(self.path("artifact"), "tar", layout)

    def assert_same(self, files):
        expected = None
        for kind, source in self.sources(files):
            tensors = json.loads(self.output("cat", source, "tensors.json"))["tensors"]
            summary = json.loads(self.output("info", "--json", source))["summary"]
            summary = {key: value for key, value in summary.items() if key not in ("name", "repository", "commit")}
            found = (tensors, self.output("ls", "-R", source,
                                          "files"), self.names(source, "nested"), self.names(source, "tensors"), summary)
            expected = expected or found
            self.assertEqual(found, expected, kind)
        self.assertEqual(len(expected[0]), 2)
        self.assertGreaterEqual(expected[-1].keys(), {"kind", "architecture", "parameters", "license", "weight_files", "blocks"})

    def test_formats_side_by_side(self):
        self.assert_same({
            "config.json": CONFIG, **self.shards(["a"], ["b"]), "tiny.gguf": self.gguf_of("g"), "onnx/model.onnx": b"x",
            "original/consolidated.safetensors": self.weights("o"), "README.md": b"---\nlicense: mit\n---\n"
        })

    def test_sentence_transformer(self):
        modules = [{"path": ""}, {"path": "2_Dense"}]
        self.assert_same({
            "modules.json": json.dumps(modules).encode(), "config.json": CONFIG, "model.safetensors": self.weights("w"),
            "2_Dense/model.safetensors": self.weights("linear"), "optimizer.pt": b"PK\3\4", "README.md": b"---\nlicense: mit\n---\n"
        })

    def test_directory_in_a_zip_is_its_model(self):
        model = self.directory({"config.json": CONFIG, "model.safetensors": self.weights("a"), "tiny.gguf": self.gguf_of("g")})
        whole = shutil.make_archive(self.path("whole"), "zip", self.path("."), "model")
        self.assertEqual(self.tensors_of(whole), ["a"])
        self.assertEqual(self.names(whole, "files/model"), sorted(os.listdir(model)))
        self.assertEqual(self.names(whole, "nested/model"), ["tiny.gguf"])

    def test_unreadable_model_in_a_zip_is_a_file(self):
        with zipfile.ZipFile(self.path("model.zip"), "w") as archive:
            archive.writestr("config.json", CONFIG)
            archive.writestr("model.safetensors", b"x")
        self.assertEqual(self.names(self.path("model.zip"), "files"), ["config.json", "model.safetensors"])
        self.assertIn("not shown as one model", self.output("cat", self.path("model.zip"), "warnings.txt"))

    def test_names_decide_on_the_hub_without_requests(self):
        self.hub.add("org/demo", {"config.json": CONFIG, "model.safetensors": self.weights("a"), "tiny.gguf": self.gguf_of("g")})
        self.assertEqual(self.tensors_of("hf://org/demo"), ["a"])
        self.assertEqual([each.path for each in self.hub.requests(path="config.json") + self.hub.requests(path="tiny.gguf")], [])
