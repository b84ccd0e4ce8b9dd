"""export: a model written in another form, without a mount."""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tarfile
import threading
import time
import unittest

from mounting import (LIMIT_S, WEIGHTFS, Hole, Interactive, Tensor, TestCase, containers, is_sanitized, numbers, on_terminal, run,
                      sample_tensors, until)
from servers import Nginx, needs

import archives

import safetensors_check

try:
    import numpy
except ImportError:
    numpy = None

DTYPES = {"F32": "<f4", "I32": "<i4", "I8": "|i1"}


class ExportTestCase(TestCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("out"))

    def out(self, *names):
        return self.path("out", *names)

    def export(self, *argv, status=0, stderr=""):
        done = run("export", *argv)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (status, "", stderr))

    def listing(self, path="out"):
        """The paths of the files below a directory."""
        return sorted(os.path.relpath(os.path.join(folder, name), self.path(path))
                      for folder, _, files in os.walk(self.path(path)) for name in files)

    def check_safetensors(self, path, tensors):
        found, _ = safetensors_check.read(path)
        self.assertEqual(found, {t.name: (containers.DTYPES[t.dtype].safetensors, tuple(t.shape), bytes(t.data)) for t in tensors})

    def tensors_of(self, source):
        """{name: (dtype, shape, bytes)} by our reader in a fresh process."""
        index = json.loads(run("cat", source, "tensors.json").stdout)["tensors"]
        return {t["name"]: (t["dtype"], t["shape"], self.cat(source, "tensors/" + t["path"])) for t in index}

    def cat(self, *argv):
        done = run("cat", *argv, text=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class Files(ExportTestCase):
    # semantics 26.9
    def test_safetensors_file_is_accepted_by_a_strict_reader(self):
        self.export(self.sample("m.gguf", format="gguf"), self.out("m.safetensors"))
        self.check_safetensors(self.out("m.safetensors"), sample_tensors())
        self.assertEqual(self.listing(), ["m.safetensors"])
        self.assertEqual(os.stat(self.out("m.safetensors")).st_mode & 0o777, 0o666 & ~self.umask())

    def umask(self):
        mask = os.umask(0)
        os.umask(mask)
        return mask

    def test_files_are_those_of_views(self):
        source = self.sample("m.gguf", format="gguf")
        for name in ("model.safetensors", "model.gguf", "model.npz"):
            self.export(source, self.out(name))
            self.assertEqual(self.read("out", name), self.cat(source, "views/" + name), name)

    def test_gguf_and_npz_have_the_same_tensors(self):
        source = self.sample()
        expected = self.tensors_of(source)
        for name in ("m.gguf", "m.npz"):
            self.export(source, self.out(name))
            self.assertEqual(self.tensors_of(self.out(name)), expected, name)

    @unittest.skipIf(numpy is None, "no NumPy here")
    def test_numpy_reads_npz_and_npy(self):
        source = self.sample()
        self.export(source, self.out("m.npz"))
        self.export("--to", "npy", source, self.out("arrays/"))
        self.assertEqual(self.listing("out/arrays"),
                         ["bias.npy", "bytes.npy", "empty.npy", "encoder/weight.npy", "scalar.npy", "tensors.json"])
        loaded = numpy.load(self.out("m.npz"))
        for tensor in sample_tensors():
            for array in (loaded[tensor.name], numpy.load(self.out("arrays", tensor.name + ".npy"))):
                self.assertEqual((array.dtype.str, array.shape, array.tobytes()),
                                 (DTYPES[containers.DTYPES[tensor.dtype].safetensors], tuple(tensor.shape), bytes(tensor.data)))

    def test_directory_and_tar_have_the_tree_of_a_mount(self):
        source = self.sample()
        self.export("--to", "dir", source, self.out("dir"))
        self.export(source, self.out("m.tar"))
        expected = ["metadata.json", "metadata.toml", "tensors.json", *sorted("tensors/" + t.name for t in sample_tensors())]
        self.assertEqual(self.listing("out/dir"), expected)
        with tarfile.open(self.out("m.tar")) as tar:
            self.assertEqual(sorted(tar.getnames()), expected)
            for name in expected:
                content = self.cat(source, name)
                self.assertEqual(tar.extractfile(name).read(), content, name)
                self.assertEqual(self.read("out", "dir", name), content, name)
        done = subprocess.run(["tar", "-tf", self.out("m.tar")], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr, sorted(done.stdout.split())), (0, "", expected))

    def test_tar_has_long_names(self):
        long = Tensor("layer/" + "n" * 200, "int8", (3,), b"abc")
        self.export(self.sample(tensors=[long]), self.out("m.tar"))
        with tarfile.open(self.out("m.tar")) as tar:
            self.assertEqual(tar.extractfile("tensors/" + long.name).read(), b"abc")

    def test_patterns_select_tensors(self):
        source = self.sample()
        self.export("--tensors", "b*", "--tensors", "scalar", source, self.out("m.safetensors"))
        self.check_safetensors(self.out("m.safetensors"), [t for t in sample_tensors() if t.name in ("bias", "bytes", "scalar")])
        self.export("--to", "dir", "--tensors", "b*", source, self.out("dir"))
        self.assertEqual(self.listing("out/dir"),
                         ["metadata.json", "metadata.toml", "tensors.json", "tensors/bias", "tensors/bytes"])
        self.assertEqual([t["name"] for t in json.loads(self.read("out", "dir", "tensors.json"))["tensors"]], ["bias", "bytes"])
        self.export("--tensors", "absent", source, self.out("n.safetensors"), status=3,
                    stderr='weightfs: no tensor matches "absent"\n')
        self.assertEqual(self.listing(), ["dir/" + name for name in self.listing("out/dir")] + ["m.safetensors"])

    def test_shards_are_one_model_again(self):
        tensors = [Tensor(f"t{i}", "float32", (1000,), numbers("f", 1000)) for i in range(5)]
        source = self.sample(tensors=tensors)
        self.export("--to", "safetensors", "--shard-size", "8K", source, self.out("sharded"))
        self.assertEqual(self.listing("out/sharded"),
                         [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)] + ["model.safetensors.index.json"])
        self.assertEqual(self.tensors_of(self.out("sharded")), self.tensors_of(source))
        self.export("--to", "safetensors", "--shard-size", "8G", source, self.out("whole"))
        self.assertEqual(self.listing("out/whole"), ["model.safetensors"])

    def test_numbers_are_written_as_float32(self):
        half = Tensor("h", "float16", (3,), struct.pack("<3e", 1, -2, 0.5))
        self.export("--dtype", "float32", self.sample(tensors=[half, *sample_tensors()]), self.out("m.safetensors"))
        found, _ = safetensors_check.read(self.out("m.safetensors"))
        self.assertEqual(found["h"], ("F32", (3,), struct.pack("<3f", 1, -2, 0.5)))
        self.assertEqual(found["bias"], ("F32", (4,), struct.pack("<4f", 0, 1, 2, 3)))

    def test_complex_numbers_that_are_not_converted_are_named(self):
        number = Tensor("c", "complex64", (1,), struct.pack("<2f", 1, 2))
        source = self.sample(tensors=[number, number._replace(name="d"), *sample_tensors()])
        for form in ("safetensors", "npz"):
            for patterns, line in (((), "2 tensors of complex64 are"), (("--tensors", "c"), "1 tensor of complex64 is")):
                self.export("--force", "--dtype", "float16", "--to", form, *patterns, source, self.out(form),
                            stderr=f"weightfs: {line} written as stored: not real numbers\n")
                self.assertEqual(self.tensors_of(self.out(form))["c"], ("complex64", [1], number.data))

    # semantics 4.3
    def test_types_that_numpy_lacks_are_float32_and_named(self):
        wide = Tensor("w", "bfloat16", (2, 2), struct.pack("<4H", 0x3F80, 0x4000, 0xC040, 0x7F80))
        eight = Tensor("e", "float8_e4m3fn", (2,), b"\x38\x40")
        values = {"w": struct.pack("<4f", 1, 2, -3, float("inf")), "e": struct.pack("<2f", 1, 2)}
        source = self.sample(tensors=[wide, wide._replace(name="v"), eight, *sample_tensors()])
        line = "weightfs: 2 tensors of bfloat16 and 1 of float8_e4m3fn are written as float32: NumPy has no such types\n"
        for form in ("npz", "npy"):
            self.export("--to", form, source, self.out(form), stderr=line)
            found = self.tensors_of(self.out(form))
            self.assertEqual({name: found[name] for name in values},
                             {"w": ("float32", [2, 2], values["w"]), "e": ("float32", [2], values["e"])})
            self.export("--to", form, "--tensors", "e", source, self.out("one"), stderr="weightfs: 1 tensor of float8_e4m3fn is written as float32: NumPy has no such type\n")
            self.assertEqual(self.tensors_of(self.out("one")), {"e": found["e"]})
            shutil.rmtree(self.out("one")) if form == "npy" else os.remove(self.out("one"))
        counts = [json.loads(run("info", "--json", path).stdout)["summary"]["parameters"]
                  for path in (source, self.out("npz"), self.out("npy"))]
        self.assertEqual(len(set(counts)), 1, counts)

    def test_numbers_are_written_as_halves(self):
        quantised = Tensor("q", "q8_0", (32,), struct.pack("<e32b", 0.5, *range(-16, 16)))
        wide = Tensor("d", "float64", (3,), struct.pack("<3d", 1 + 2**-11 + 2**-40, float("inf"), -2**-30))
        source = self.sample("m.gguf", [quantised, wide], "gguf", {"general.file_type": 7, "general.name": "Tiny"})
        values = [i / 2 for i in range(-16, 16)]
        for dtype, pattern, file_type in (("float16", "<32e", 1), ("bfloat16", None, 32)):
            halves = struct.pack(pattern, *values) if pattern else b"".join(struct.pack("<f", value)[2:] for value in values)
            rounded = struct.pack("<3H", *((0x3C01, 0x7C00, 0x8000) if pattern else (0x3F80, 0x7F80, 0xB080)))
            for form in ("safetensors", "gguf", "npz", "npy", "dir", "tar"):
                out = self.out(dtype + "." + form)
                if dtype == "bfloat16" and form not in ("safetensors", "gguf"):
                    done = run("export", "--to", form, "--dtype", dtype, source, out)
                    self.assertEqual((done.returncode, done.stderr), (
                        2, "weightfs: --dtype bfloat16 needs --to safetensors or gguf: NumPy has no such type "
                        "(see weightfs export --help)\n"))
                    continue
                done = run("export", "--to", form, "--dtype", dtype, source, out)
                self.assertEqual((done.returncode, "infinit" in done.stderr), (0, False), done)
                self.assertEqual(self.tensors_of(out), {"q": (dtype, [32], halves), "d": (dtype, [3], rounded)}, form)
                if form == "gguf":
                    found = json.loads(run("cat", out, "metadata.json").stdout)["metadata"]
                    self.assertEqual((found["general.file_type"], found["general.name"]), (file_type, "Tiny"))

    def test_numbers_that_become_infinities_are_counted(self):
        tensors = [
            Tensor("a", "float32", (4,), struct.pack("<4f", 65504, 65520, -1e30, float("inf"))),
            Tensor("b", "int32", (2,), struct.pack("<2i", 1 << 30, 7)),
            Tensor("c", "float32", (1,), struct.pack("<f", 1)),
        ]
        source = self.sample(tensors=tensors)
        for form in ("safetensors", "gguf", "npz", "npy"):
            self.export("--to", form, "--dtype", "float16", source, self.out(form),
                        stderr="weightfs: 3 numbers in 2 tensors are too large for float16: written as infinities\n")
            found = self.tensors_of(self.out(form))
            self.assertEqual(found["a"][2], struct.pack("<4H", 0x7BFF, 0x7C00, 0xFC00, 0x7C00), form)
        self.export("--dtype", "bfloat16", source, self.out("b.safetensors"))

    # 3.4028235677973366e38 is halfway between the largest float32 and 2^128.
    def test_float64_that_becomes_infinite_is_counted(self):
        numbers = [1e300, -1e39, 3.4028235677973366e38, 3.4028235677973362e38, float("inf"), float("nan"), 1.5]
        many = [0.0] * 40_000 + [1e300]
        source = self.sample(tensors=[Tensor("a", "float64", (7,), struct.pack("<7d", *numbers)),
                                      Tensor("b", "float64", (40_001,), struct.pack("<40001d", *many)),
                                      Tensor("c", "float32", (1,), struct.pack("<f", float("inf")))])
        for form in ("safetensors", "gguf", "npz", "npy", "dir"):
            self.export("--to", form, "--dtype", "float32", source, self.out(form),
                        stderr="weightfs: 4 numbers in 2 tensors are too large for float32: written as infinities\n")
        found = self.tensors_of(self.out("npy"))["a"][2]
        self.assertEqual(found[:20], struct.pack("<5f", *map(float, ("inf", "-inf", "inf")), 3.4028234663852886e38, float("inf")))

    def test_tensors_that_the_form_cannot_hold_are_named(self):
        quantised = Tensor("q\x1b", "q4_0", (32,), bytes(18))
        source = self.sample("m.gguf", sample_tensors() + [quantised], "gguf")
        self.export("--skip-unsupported", source, self.out("m.safetensors"),
                    stderr='weightfs: left out: tensor "q\\x1b": safetensors has no dtype for q4_0\n')
        self.check_safetensors(self.out("m.safetensors"), sample_tensors())

    def test_metadata_that_the_form_cannot_hold_is_one_line(self):
        keys = {"general.name": "Tiny", "n": 1, "flag": True, "list": [1, 2], "long": ["x"] * 2000, "evil\x1b": 2}
        source = self.sample("m.gguf", format="gguf", metadata=keys)
        lines = {
            "safetensors": "weightfs: safetensors holds strings only: 5 of 6 keys are left out: n, flag, list, long, evil\\x1b\n",
            "npz": "weightfs: npz holds no metadata: 6 of 6 keys are left out: general.name, n, flag, list, long, evil\\x1b\n",
            "npy": "weightfs: npy holds no metadata: 6 of 6 keys are left out: general.name, n, flag, list, long, evil\\x1b\n",
            "gguf": "", "dir": "", "tar": ""
        }
        for form, line in lines.items():
            self.export("--to", form, source, self.out(form), stderr=line)
        self.assertEqual(len(json.loads(self.read("out", "dir", "metadata", "long.json"))), 2000)
        with tarfile.open(self.out("tar")) as tar:
            self.assertIn("metadata/long.json", tar.getnames())
        many = self.sample("n.gguf", format="gguf", metadata={f"k{i}": i for i in range(12)})
        self.export(
            many, self.out("n.safetensors"), stderr="weightfs: safetensors holds strings only: 12 of 12 keys are left out: k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, …\n")
        self.export(self.sample(metadata={"k": "v"}), self.out("again.safetensors"))

    def cut_sample(self, name="cut.safetensors", tensors=None, missing=1):
        source = self.sample(name, tensors)
        os.truncate(source, os.path.getsize(source) - missing)
        return source

    # semantics 25.4
    def test_model_without_readable_tensors_has_no_rest_to_export(self):
        cut = self.cut_sample(tensors=[Tensor("w", "float32", (4,), bytes(16))])
        for form in ("safetensors", "gguf", "npz", "npy", "dir", "tar"):
            for options in ((), ("--skip-unsupported",)):
                done = run("export", "--to", form, *options, cut, self.out("out"))
                self.assertEqual((done.returncode, done.stderr), (
                    5, f"weightfs: {cut}: the file ends 1 byte early: 1 of 1 tensors refused; interrupted download?; "
                    "nothing was written\n"))
            done = run("export", "--to", form, "--skip-unsupported", "--tensors", "w", cut, self.out("out"))
            self.assertEqual((done.returncode, "refused when the container was read" in done.stderr), (5, True), done.stderr)
            self.assertNotIn("; use", done.stderr)
        self.assertEqual(self.listing(), [])

    def test_model_with_readable_tensors_has_a_rest_to_export(self):
        cut = self.cut_sample()
        done = run("export", cut, self.out("m.gguf"))
        self.assertEqual(done.returncode, 5)
        self.assertIn("; nothing was written; use --skip-unsupported to export the rest\n", done.stderr)
        done = run("export", "--skip-unsupported", cut, self.out("m.gguf"))
        self.assertEqual((done.returncode, self.listing()), (5, ["m.gguf"]), done.stderr)

    # semantics 25.4
    def test_only_remedies_that_help_are_named(self):
        long = Tensor("n" * 65, "float32", (4,), bytes(16))
        small, byte = Tensor("w", "float32", (4,), bytes(16)), Tensor("b", "uint8", (4,), bytes(4))
        reason = f'tensor "{"n" * 65}": a name of 65 bytes, ggml accepts 63'
        type_reason = 'tensor "b": GGUF has no type for uint8'
        some, none = "1 of 2 tensors cannot be written as gguf, so nothing was written: ", "no tensor can be written as GGUF: "
        for tensors, options, message in (
            ([small, long], (), some + reason + "; use --skip-unsupported"),
            ([long], (), none + reason + "; nothing was written; use --to dir"),
            ([long], ("--skip-unsupported",), none + reason + "; nothing was written; use --to dir"),
            ([small, byte], (), some + type_reason + "; use --dtype float32 or --skip-unsupported"),
            ([byte], ("--skip-unsupported",), none + type_reason + "; nothing was written; use --dtype float32"),
                ([byte, long], (), none + type_reason + ", …; nothing was written; use --dtype float32 with --skip-unsupported")):
            self.export(*options, self.sample(tensors=tensors), self.out("m.gguf"), status=4, stderr=f"weightfs: {message}\n")
        self.assertEqual(self.listing(), [])
        self.export("--to", "dir", self.sample(tensors=[long]), self.out("dir"))
        self.export("--dtype", "float32", self.sample(tensors=[byte]), self.out("m.gguf"))
        self.assertEqual(list(self.tensors_of(self.out("dir"))), [long.name])

    def test_archive_without_tensors_of_its_own_is_refused(self):
        with archives.Zip(self.path("m.zip")) as file:
            file.write("m.safetensors", self.read(self.sample()))
        for form in ("safetensors", "gguf", "npz", "npy", "dir", "tar"):
            self.export(
                "--to", form, self.path("m.zip"), self.out(form), status=4,
                stderr=f'weightfs: {self.path("m.zip")}: has no tensors of its own; mount it, and export a model in nested/\n')
        self.assertEqual(self.listing(), [])

    def test_float32_gguf_has_no_keys_about_quantisation(self):
        source = self.sample(
            "m.gguf", [Tensor("q", "q8_0", (32, ), bytes(34))], "gguf",
            {"general.file_type": 7, "general.name": "Tiny", "general.quantization_version": 2, "quantize.imatrix.file": "i.dat"})
        self.export("--dtype", "float32", source, self.out("f.gguf"))
        found = json.loads(run("cat", self.out("f.gguf"), "metadata.json").stdout)
        self.assertEqual({key: value for key, value in found["metadata"].items() if key != "gguf"},
                         {"general.name": "Tiny", "general.file_type": 0})
        self.assertEqual([(t["name"], t["stored_dtype"])
                          for t in json.loads(run("cat", self.out("f.gguf"), "tensors.json").stdout)["tensors"]], [("q", "F32")])
        self.export(source, self.out("q.gguf"))
        self.assertEqual(self.read("out", "q.gguf"), self.read("m.gguf"))


class Models(ExportTestCase):
    """The output of export opens as a model."""

    # semantics 26.9
    def test_directory_tar_and_npy_are_the_same_model(self):
        source = self.sample(tensors=[*sample_tensors(), Tensor("a b%/c", "int8", (1,), b"x")])
        expected = self.tensors_of(source)
        for form in ("dir", "tar", "npy"):
            self.export("--to", form, source, self.out(form))
            with self.subTest(form):
                self.assertEqual(self.tensors_of(self.out(form)), expected)

    def test_metadata_is_kept(self):
        source = self.sample("m.gguf", format="gguf", metadata={"general.name": "Tiny", "n": 1})
        for form in ("dir", "tar"):
            self.export("--to", form, source, self.out(form))
            found = json.loads(run("cat", self.out(form), "metadata.json").stdout)
            self.assertEqual((found["format"], found["name"]), ("weightfs-export", "Tiny"))
            self.assertEqual((found["metadata"]["general.name"], found["metadata"]["n"]), ("Tiny", 1))
            self.assertEqual(found["metadata"]["weightfs-export"], {"format": "gguf", "version": "3", "source": source})

    def test_float32_directory_has_the_numbers(self):
        half = Tensor("h", "float16", (3,), struct.pack("<3e", 1, -2, 0.5))
        self.export("--to", "dir", "--dtype", "float32", self.sample(tensors=[half]), self.out("dir"))
        self.assertEqual(self.tensors_of(self.out("dir")), {"h": ("float32", [3], struct.pack("<3f", 1, -2, 0.5))})

    # semantics 26.9: a name that is cut only with the suffix .npy, and one that is a directory only without it
    def test_names_that_npy_changes_are_found_again(self):
        long = Tensor("x" * 252, "float32", (2,), bytes(8))
        names = [Tensor(name, "float32", (1,), bytes(4)) for name in ("a", "a.npy/b", 'q"\\é')]
        source = self.sample(tensors=[long, *names])
        for form in (("npy",), ("npy", "--dtype", "float32"), ("dir", "--dtype", "float32")):
            out = self.out("-".join(form))
            self.export("--to", *form, source, out)
            self.assertEqual(run("verify", out).returncode, 0, form)
            self.assertEqual(self.tensors_of(out), self.tensors_of(source))

    def test_selected_tensors_are_the_model(self):
        for form in ("dir", "npy"):
            self.export("--to", form, "--tensors", "bias", self.sample(), self.out(form))
            self.assertEqual(list(self.tensors_of(self.out(form))), ["bias"])

    def test_converted_tensors_have_their_new_type_in_the_model(self):
        quantised = Tensor("q", "q4_0", (32,), bytes(18))
        source = self.sample("m.gguf", [*sample_tensors(), quantised], "gguf")
        self.export("--to", "npy", source, self.out("npy"),
                    stderr="weightfs: 1 tensor of q4_0 is written as float32: NumPy has no such type\n")
        self.assertEqual(self.tensors_of(self.out("npy"))["q"][0], "float32")

    def test_cut_file_of_a_directory_is_reported(self):
        self.export("--to", "dir", self.sample(), self.out("dir"))
        os.truncate(self.out("dir", "tensors", "bias"), 3)
        done = run("info", self.out("dir"))
        self.assertEqual(done.returncode, 5)
        self.assertIn("1 of 5 tensors", done.stderr)


class Formats(ExportTestCase):
    """The format of the output."""

    # semantics 26.9
    def test_unknown_suffix_is_refused_with_the_formats(self):
        self.export(
            self.sample(), self.out("m.bin"), status=2, stderr=f"weightfs: {self.out('m.bin')}: name the format of the output with --to: safetensors (.safetensors), gguf (.gguf), "
            "npz (.npz), npy (a directory), dir (a directory), tar (.tar) (see weightfs export --help)\n")
        self.assertEqual(self.listing(), [])

    def test_shard_size_implies_safetensors(self):
        self.export("--shard-size", "8G", self.sample(), self.out("sharded"))
        self.assertEqual(self.listing("out/sharded"), ["model.safetensors"])
        self.export("--shard-size", "8G", self.sample(), self.out("m.npz"), status=2,
                    stderr="weightfs: --shard-size needs --to safetensors or gguf (see weightfs export --help)\n")


class Outputs(ExportTestCase):
    # semantics 26.9
    def test_existing_file_needs_force(self):
        source = self.sample()
        self.write("out/m.gguf", b"old")
        self.export(source, self.out("m.gguf"), status=1,
                    stderr=f"weightfs: {self.out('m.gguf')}: exists; use --force to replace it\n")
        self.assertEqual(self.read("out", "m.gguf"), b"old")
        self.export("--force", source, self.out("m.gguf"))
        self.assertEqual(self.read("out", "m.gguf")[:4], b"GGUF")
        self.assertEqual(self.listing(), ["m.gguf"])

    def test_directory_with_files_is_not_replaced(self):
        self.write("out/arrays/old", b"old")
        self.export("--force", "--to", "npy", self.sample(), self.out("arrays"), status=1,
                    stderr=f"weightfs: {self.out('arrays')}: exists and is not an empty directory\n")
        self.assertEqual(self.listing(), ["arrays/old"])

    def test_invalid_arguments_leave_no_file(self):
        source = self.sample()
        before = self.read("model.safetensors")
        for argv in ((source, self.out("m.bin")), ("--to", "zip", source, self.out("m")), ("--to", "npy", source, "-"),
                     ("--to", "npz", "--shard-size", "5G", source, self.out("m")), ("--dtype", "int8", source, self.out("m.gguf")),
                     ("--to", "safetensors", "--shard-size", "0", source, self.out("m")), ("--force", source, source)):
            done = run("export", *argv)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), (argv, done))
        done = run("export", self.path("absent"), self.out("m.gguf"))
        self.assertEqual(done.returncode, 3)
        self.assertEqual(run("export", source, self.out("absent", "m.gguf")).returncode, 1)
        self.assertEqual((self.listing(), self.read("model.safetensors")), ([], before))

    def test_standard_output_and_pipes_get_the_same_bytes(self):
        source = self.sample("m.gguf", format="gguf")
        for form in ("safetensors", "gguf", "npz", "tar"):
            self.export("--to", form, source, self.out(form))
            done = run("export", "--to", form, source, "-", text=False)
            self.assertEqual((done.returncode, done.stderr, done.stdout), (0, b"", self.read("out", form)), form)
            os.mkfifo(self.out("fifo"))
            got = []
            reader = threading.Thread(target=lambda: got.append(self.read("out", "fifo")), daemon=True)
            reader.start()
            self.export("--to", form, source, self.out("fifo"))
            reader.join(LIMIT_S)
            self.assertEqual(got, [self.read("out", form)])
            os.remove(self.out("fifo"))

    def test_pipe_without_a_reader_is_refused(self):
        os.mkfifo(self.out("fifo"))
        began = time.monotonic()
        done = run("export", "--to", "gguf", self.sample("m.gguf", format="gguf"), self.out("fifo"))
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no program reads this pipe; start the reader first", done.stderr)
        self.assertLess(time.monotonic() - began, LIMIT_S)

    def test_closed_pipe_ends_it_without_a_message(self):
        source = self.sample(tensors=[Tensor("big", "int8", (64 << 20,), Hole(64 << 20))])
        command = subprocess.Popen([WEIGHTFS, "export", "--to", "safetensors", source, "-"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        command.stdout.read(10)
        command.stdout.close()
        self.assertEqual(command.stderr.read(), b"")
        command.stderr.close()
        self.assertEqual(command.wait(LIMIT_S), -signal.SIGPIPE)

    def test_full_disk_is_one_line_and_leaves_no_file(self):
        self.need_mount_namespace()
        source = self.sample(tensors=[Tensor("w", "uint8", (1 << 20,), os.urandom(1 << 20))])
        script = 'mount -t tmpfs -o size=64k none "$1" && "$2" export --to "$4" "$3" "$1/m"; status=$?; ls -A "$1"; exit $status'
        for form, name in (("safetensors", "m"), ("npz", "m"), ("tar", "m"), ("npy", "m/w.npy"), ("dir", "m/tensors/w")):
            done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", self.out(), WEIGHTFS, source, form],
                                  capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual((done.returncode, done.stdout), (1, ""), form)
            self.assertEqual(done.stderr, f"weightfs: {self.out(name)}: No space left on device\n")

    def test_file_size_limit_is_an_error(self):
        source = self.sample(tensors=[Tensor("w", "uint8", (1 << 20,), bytes(1 << 20))])
        done = subprocess.run(["sh", "-c", 'ulimit -f 8; exec "$0" export "$@"', WEIGHTFS, source, self.out("m.npz")],
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (1, f"weightfs: {self.out('m.npz')}: File too large\n"))
        self.assertEqual(self.listing(), [])

    @unittest.skipIf(is_sanitized(), "builds with sanitizers have no broker")
    def test_interrupted_export_leaves_nothing(self):
        size = 64 << 30
        source = self.sample(tensors=[Tensor("w", "uint8", (size,), Hole(size)), Tensor("x", "uint8", (3,), b"abc")])
        for options in (("--to", "safetensors"), ("--to", "npy"), ("--to", "tar", "--sandbox=off")):
            command = Interactive("export", *options, source, self.out("m"))
            try:
                self.assertRegex(command.wait_for(" of 64.0 GiB, "), r'weightfs: the sandbox is off|\[[.#]{24}\]')
                self.assertEqual(len(os.listdir(self.out())), 1)
                command.process.send_signal(signal.SIGINT)
                self.assertEqual(command.process.wait(LIMIT_S), -signal.SIGINT)
                until(lambda: not os.listdir(self.out()), "the temporary file is left")
            finally:
                command.close()

    def test_progress_is_erased_at_the_end(self):
        source = self.sample()
        shown = on_terminal("export", source, self.out("m.gguf"), of="stderr")
        self.assertTrue(shown == "" or shown.endswith("\r\x1b[K"), repr(shown))

    def test_truncated_source_leaves_no_file(self):
        with open(self.path("m.npz"), "wb") as file:
            file.write(b"PK")
        done = run("export", self.path("m.npz"), self.out("m.gguf"))
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.listing(), [])

    def test_blocks_are_shared_where_the_file_system_can(self):
        self.need_mount_namespace()
        if not shutil.which("mkfs.btrfs") or not shutil.which("filefrag"):
            self.skipTest("no mkfs.btrfs or filefrag here")
        image = self.path("image")
        with open(image, "wb") as file:
            file.truncate(256 << 20)
        subprocess.run(["mkfs.btrfs", "-q", image], check=True, capture_output=True, timeout=LIMIT_S)
        # A header of 4096 bytes, so that the tensor begins at a block. The namespace ends with the script, and the mount with it.
        source = self.path("m.safetensors")
        header = json.dumps({"w": {"dtype": "U8", "shape": [8 << 20], "data_offsets": [0, 8 << 20]}}).ljust(4088).encode()
        with open(source, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + os.urandom(8 << 20))
        script = ('mount -o loop "$1" "$2" || { echo "cannot mount"; exit 0; }; cp "$4" "$2/m.safetensors" && sync && '
                  '"$3" export --to dir "$2/m.safetensors" "$2/dir" && sync && filefrag -v "$2/dir/tensors/w"; status=$?; '
                  'tail -c 8388608 "$4" | cmp - "$2/dir/tensors/w" || status=9; umount "$2"; exit $status')
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", image, self.out(), WEIGHTFS, source],
                              capture_output=True, text=True, timeout=LIMIT_S)
        if "cannot mount" in done.stdout:
            self.skipTest(f"no btrfs here: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 0, done.stderr)
        extents = re.findall(r"^ *\d+: .*$", done.stdout, re.MULTILINE)
        self.assertTrue(extents and all("shared" in line for line in extents), done.stdout)


@needs("nginx")
class Remote(ExportTestCase):
    # semantics 26.9
    def test_only_the_written_tensors_are_transferred(self):
        tensors = [Tensor(f"t{i}", "uint8", (1 << 20,), os.urandom(1 << 20)) for i in range(8)]
        server = Nginx(self)
        with open(self.sample(tensors=tensors), "rb") as file:
            server.publish("m.safetensors", file.read())
        self.export("--no-cache", "--tensors", "t3", server.url("m.safetensors"), self.out("m.safetensors"))
        self.check_safetensors(self.out("m.safetensors"), [tensors[3]])
        sent = sum(request.bytes for request in server.requests())
        self.assertGreaterEqual(sent, 1 << 20)
        self.assertLess(sent, 3 << 20)


if __name__ == "__main__":
    unittest.main()
