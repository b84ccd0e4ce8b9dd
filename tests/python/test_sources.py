"""Models in mounts and behind hostile names; containers that are replaced or cut while arrays are alive."""
import os
import shutil
import struct
import subprocess
import sys
import unittest

from python_testing import LIMIT_S, PACKAGE, WEIGHTFS, PythonTestCase, weightfs, write_corpus
from mounting import NOBODY, MountTestCase, sample_tensors
from tensors import Tensor
import demo


class Names(PythonTestCase):
    HOSTILE = ("../../etc/passwd", "/absolute", "new\nline", "a b?c#d%2Fe&f", "..", ".", "", "ü\u202e", "n" * 300, "-option",
               "a", "a/b", "a/b/", "*", "x" * 252)

    def test_model_lists_what_runs_code(self):
        folder = self.path("code")
        os.makedirs(folder)
        for name, data in (("config.json", b'{"model_type": "x", "auto_map": {"AutoModel": "m.M"}}'), ("m.py", b""),
                           ("model.safetensors", b"\x02\0\0\0\0\0\0\0{}")):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        with weightfs.open(folder) as model:
            self.assertEqual([(item["what"], item["where"]) for item in model.code], [("AutoModel: m.M", "m.py")])
        with weightfs.open(os.path.join(folder, "model.safetensors")) as model:
            self.assertEqual(model.code, [])

    def test_hostile_names_are_names_only(self):
        tensors = [Tensor(name, "float32", (32,), struct.pack("<32f", *range(number, number + 32)))
                   for number, name in enumerate(self.HOSTILE)]
        for kind in ("safetensors", "gguf"):
            kept = [tensor for tensor in tensors if kind == "safetensors" or len(tensor.name) <= 64]
            source = self.sample(f"model.{kind}", kept, kind)
            with self.subTest(kind), weightfs.open(source) as model:
                self.assertEqual(set(model), {tensor.name for tensor in kept})
                for tensor in kept:
                    self.assertEqual(model[tensor.name].tobytes(), tensor.data, tensor.name)
                    read = model.tensor(tensor.name)._read("npy")  # through the server
                    self.assertEqual(read.tobytes(), tensor.data, tensor.name)
                    self.assertEqual(model.tensor(tensor.name).float32().tobytes(), tensor.data, tensor.name)
                    self.assertIn("<table", model._repr_html_())

    def test_source_that_begins_with_a_dash_is_not_an_option(self):
        self.sample("--help")
        before = os.getcwd()
        os.chdir(self.tmp)
        self.addCleanup(os.chdir, before)
        self.assertEqual(self.open("--help")["bias"].tolist(), [0, 1, 2, 3])
        self.assertRaises(weightfs.NotFound, weightfs.open, "--version")

    def test_option_of_another_command_is_not_one(self):
        source = self.sample()
        for name in ("listen", "until_eof", "json", "token_file", "x-y", "Offline"):
            self.assertRaises(TypeError, weightfs.open, source, **{name: "x"})
        with self.assertRaisesRegex(TypeError, "no-such: unknown option"):
            weightfs.open(source, no_such=True)
        self.assertEqual(len(self.open(source, offline=True, cache_size="1G", blob_dir=[self.tmp, self.tmp], no_cache=False)), 5)

    def test_tensors_of_one_name_are_found_by_their_paths(self):
        os.mkdir(self.path("models"))
        write_corpus(self.path("models"))
        model = self.open(self.path("models", "Ort.model"))
        self.assertEqual([key for key in model if key.endswith("w")], ["w", "if/then_branch/w"])
        self.assertEqual([model.tensor(key).name for key in ("w", "if/then_branch/w")], ["w", "w"])

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_file_without_permission_is_refused(self):
        source = self.sample()
        os.chmod(self.tmp, 0o755)
        os.chmod(source, 0o600)
        shutil.copytree(os.path.join(PACKAGE, "weightfs"), self.path("module", "weightfs"))
        program = "import sys, weightfs\ntry: weightfs.open(sys.argv[1])\nexcept weightfs.Refused as error: print(error)"
        environment = dict(os.environ, PYTHONPATH=self.path("module"), WEIGHTFS=shutil.copy(WEIGHTFS, self.path("program")))
        done = subprocess.run(["/usr/bin/env", "python3", "-B", "-c", program, source], capture_output=True, text=True,
                              timeout=LIMIT_S, cwd="/", env={**environment, "PATH": "/usr/bin:/bin"}, user=NOBODY.pw_uid,
                              group=NOBODY.pw_gid, extra_groups=[])
        self.assertEqual((done.returncode, done.stdout), (0, f"{source}: Permission denied\n"), done.stderr)

    def test_scalars_and_empty_tensors_are_arrays(self):
        tensors = [Tensor("a", "float32", (), struct.pack("<f", 5)), Tensor("b", "bfloat16", (), b"\x80\x3f"),
                   Tensor("c", "int8", (0, 3), b""), Tensor("d", "int8", (2, 0), b"")]
        numbers = {"b": struct.pack("<f", 1)}
        for kind in ("safetensors", "bintensors"):
            model = self.open(self.sample(f"m.{kind}", tensors, kind))
            for tensor in tensors:
                with self.subTest(kind, name=tensor.name):
                    own = model.tensor(tensor.name)
                    for array in (own.numpy(), own._read("npy"), own[...]):
                        self.assertEqual((array.shape, array.tobytes()), (tensor.shape, numbers.get(tensor.name, tensor.data)))
                    self.assertEqual((own.float32().shape, own.raw().nbytes), (tensor.shape, len(tensor.data)))
            self.assertEqual((float(model.tensor("a")[()]), len(model.tensor("c")), len(model.tensor("d")[1:])), (5, 0, 1))
            self.assertRaises(TypeError, len, model.tensor("a"))
            self.assertRaises(IndexError, lambda: model.tensor("a")[0])

    def test_paths_stay_inside_the_model(self):
        model = self.open(self.sample())
        for path in ("../x", "files/../../x", "nothing", "tensors/nothing"):
            self.assertRaisesRegex(weightfs.NotFound, "not found|not a path", model.open_file, path)
        self.assertRaisesRegex(weightfs.NotFound, "^/metadata.json/: not found", model.list, "metadata.json")
        self.assertRaisesRegex(weightfs.Error, "a directory", model.open_file, "files")
        with model.open_file("/metadata.json") as file:
            self.assertEqual(file.read(1), b"{")


class Changes(PythonTestCase):
    def replace(self, source, tensors, format="safetensors"):
        self.sample("new", tensors, format)
        os.rename(self.path("new"), source)

    def test_replaced_container_fails_the_next_read_and_arrays_keep_theirs(self):
        tensors = [*sample_tensors(), Tensor("other", "float32", (3,), bytes(12))]
        source = self.sample(tensors=tensors)
        model = self.open(source)
        mapped, before = model["encoder/weight"], model["encoder/weight"].tobytes()
        served = model.tensor("encoder/weight")._read("npy")
        self.assertEqual(served.tobytes(), before)
        model.check()
        self.replace(source, [tensor._replace(data=bytes(len(tensor.data))) for tensor in tensors])
        with self.assertRaisesRegex(weightfs.Changed, "another file"):
            model.check()
        self.assertEqual((mapped.tobytes(), served.tobytes()), (before, before))
        for name in ("encoder/weight", "other"):
            for _ in range(3):
                with self.assertRaises(weightfs.Error):
                    model.tensor(name)._read("npy")
        self.assertEqual(self.open(source)["encoder/weight"].sum(), 0)

    def test_container_that_is_replaced_before_the_server_starts_is_changed(self):
        source = self.sample("q.gguf", demo.ggml_layers(1), "gguf")
        model = self.open(source)
        self.replace(source, demo.ggml_layers(1), "gguf")
        with self.assertRaises(weightfs.Changed):
            model["blk.0.attn_q.weight"]

    def test_compressed_container_that_is_replaced_is_changed(self):
        demo.write_demo(self.path("demo"))
        model = self.open(self.path("demo", "demo.carton"))
        model.check()
        model["pixels"]
        os.rename(self.path("demo", "demo.gguf"), self.path("demo", "demo.carton"))
        self.assertRaises(weightfs.Changed, model.check)
        with self.assertRaises(weightfs.Error):
            model["digits"]

    def test_container_that_is_written_in_place_is_changed(self):
        source = self.sample("q.gguf", demo.ggml_layers(1), "gguf")
        model = self.open(source)
        model["blk.0.attn_q.weight"]
        with open(source, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\1")
        self.assertRaisesRegex(weightfs.Changed, "written", model.check)
        with self.assertRaises(weightfs.Error):
            model["blk.0.attn_k.weight"]

    def test_container_that_is_cut_before_it_is_mapped_is_changed(self):
        source = self.sample(tensors=[Tensor("a", "float32", (100,), bytes(400))])
        tensor = self.open(source).tensor("a")
        os.truncate(source, os.path.getsize(source) - 200)
        self.assertRaises(weightfs.Changed, tensor.raw)
        self.assertRaises(weightfs.Changed, tensor.numpy)

    def test_written_memory_is_not_seen_by_others(self):
        tensor = self.open(self.sample(tensors=[Tensor("a", "float32", (100,), bytes(400))])).tensor("a")
        tensor._array("npy", "c")[:] = 99  # as torch() has it
        self.assertEqual(tensor._array("npy", "c").max(), 0)

    def test_cut_container_gives_an_error_or_a_signal_but_no_value(self):
        source = self.sample("q.gguf", demo.ggml_layers(1), "gguf")
        model = self.open(source)
        os.truncate(source, 4096)
        self.assertRaises(weightfs.Changed, model.check)
        with self.assertRaises(weightfs.Error):
            model["blk.0.attn_q.weight"]
        self.sample("q.gguf", demo.ggml_layers(1), "gguf")
        program = ("import os, sys; sys.path.insert(0, sys.argv[1]); import weightfs; m = weightfs.open(sys.argv[2]);"
                   "a = m['token_embd.weight']; os.truncate(sys.argv[2], 4096); print(a[-1].sum())")
        done = subprocess.run([sys.executable, "-c", program, PACKAGE, source], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stdout), (-7, ""))  # SIGBUS


class Mounts(MountTestCase, PythonTestCase):
    def test_mounted_path_is_used_as_it_is(self):
        tensors = [*demo.ggml_layers(1), demo.float32("n" * 60, 4)]
        source = self.sample("q.gguf", tensors, "gguf")
        point = self.mount(source)
        model = self.open(point)
        with weightfs.open(source) as direct:
            self.assertEqual(list(model), list(direct))
            for name in direct:
                self.assertEqual(model[name].tobytes(), direct[name].tobytes(), name)
                self.assertEqual(model.tensor(name).float32().tobytes(), direct.tensor(name).float32().tobytes())
                self.assertEqual(model.tensor(name)[-2:].tobytes(), direct.tensor(name)[-2:].tobytes())
                self.assertEqual(model.tensor(name).raw().tobytes(), direct.tensor(name).raw().tobytes())
            self.assertEqual(model.metadata["metadata"], direct.metadata["metadata"])
        self.assertEqual(model.files, ["files/q.gguf"])
        self.assertEqual(os.listdir(self.sockets), [])

    def test_notebook_shows_a_tensor_of_a_mount_as_that_of_the_container(self):
        tensors = [*demo.hugging_face_layers(1), *sample_tensors(), demo.float32("kernel", 4, 3, 8, 8),
                   Tensor("big", "int64", (2, 2), struct.pack("<4q", 1, 2**53 + 1, -3, 4)),
                   Tensor("f8", "float8_e4m3fn", (8, 32), bytes(range(126)) + bytes(130))]
        source = self.sample(tensors=tensors)
        mounted, direct = self.open(self.mount(source)), self.open(source)
        pictures = 0
        for name in direct:
            text = mounted.tensor(name)._repr_html_()
            self.assertEqual(text, direct.tensor(name)._repr_html_(), name)
            pictures += "<img" in text
        self.assertGreater(pictures, 10)
        direct.close()
        self.assertEqual(os.listdir(self.sockets), [])

    def test_tensor_of_a_mount_without_numbers_has_a_sentence(self):
        demo.write_demo(self.path("demo"))
        text = self.open(self.mount(self.path("demo", "demo.carton"))).tensor("digits")._repr_html_()
        self.assertIn("digits</strong>", text)
        self.assertIn("<p>", text)
        self.assertNotIn("<img", text)

    def test_names_that_are_cut_are_found_in_a_mount(self):
        names = ("x" * 252, "n" * 300, "a", "a/b")
        tensors = [Tensor(name, "float32", (1,), struct.pack("<f", number)) for number, name in enumerate(names)]
        model = self.open(self.mount(self.sample(tensors=tensors)))
        self.assertEqual([float(model[name][0]) for name in names], [0, 1, 2, 3])

    def test_model_of_a_mounted_directory_is_used(self):
        folder = self.path("models")
        os.mkdir(folder)
        self.sample("models/one.safetensors")
        self.sample("models/two.safetensors")
        point = self.mount(folder)
        self.assertEqual(self.open(f"{point}/two.safetensors")["bias"].tolist(), [0, 1, 2, 3])
        with self.assertRaisesRegex(weightfs.Refused, "a directory of 2 models"):
            weightfs.open(folder)


if __name__ == "__main__":
    unittest.main()
