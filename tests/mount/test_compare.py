"""diff, stats and info --duplicates: models compared without a mount."""
import hashlib
import io
import json
import math
import struct
import tarfile
import unittest

from mounting import WEIGHTFS, Hole, Interactive, Tensor, TestCase, on_terminal, os, run, sample_tensors, signal, subprocess
import archives


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def float32(name, *values):
    return Tensor(name, "float32", (len(values),), floats(*values))


def npy(descr, count):
    """An array in a .npy file. Its numbers do not compress well."""
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({count},), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    data = struct.pack(f"<{count * int(descr[2:]) // 4}I", *(i * 2654435761 % 2**31 for i in range(count * int(descr[2:]) // 4)))
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


class Comparison(TestCase):
    def model(self, name, *tensors, metadata=None, format="safetensors"):
        return self.sample(name, list(tensors), format, metadata)

    def model_bytes(self, *tensors, metadata=None, format="safetensors"):
        with open(self.model("bytes", *tensors, metadata=metadata, format=format), "rb") as file:
            data = file.read()
        os.remove(self.path("bytes"))
        return data

    def archive(self, name, members, method=archives.STORED):
        """A zip with these files, by path."""
        with archives.Zip(self.path(name)) as file:
            for path, data in members.items():
                file.write(path, data, method)
        return self.path(name)

    def directory(self, name, files):
        for path, data in files.items():
            os.makedirs(os.path.dirname(self.path(name, path)), exist_ok=True)
            self.write(f"{name}/{path}", data)
        return self.path(name)

    def shards(self, name, *tensors, **others):
        """A directory with a shard for each tensor, and with other files."""
        files = {f"model-{i}.safetensors": self.model_bytes(tensor) for i, tensor in enumerate(tensors)}
        weight_map = {tensor.name: f"model-{i}.safetensors" for i, tensor in enumerate(tensors)}
        files["model.safetensors.index.json"] = json.dumps({"metadata": {}, "weight_map": weight_map}).encode()
        return self.directory(name, {**files, **{key.replace("_", "."): data for key, data in others.items()}})

    def diff(self, *argv, status=1, stderr=""):
        """The lines that diff prints, each split at tabs."""
        done = run("diff", *argv)
        self.assertEqual((done.returncode, done.stderr), (status, stderr))
        return [line.split("\t") for line in done.stdout.splitlines()]


class Differences(Comparison):
    # semantics 26.7
    def test_equal_models_print_nothing(self):
        self.assertEqual(self.diff(self.sample("a.safetensors"), self.sample("b.safetensors"), status=0), [])
        self.assertEqual(self.diff(self.path("a.safetensors"), self.path("a.safetensors"), "--stat", status=0), [])

    def test_each_kind_of_difference_is_a_line(self):
        a = self.model("a.safetensors", float32("same", 1), float32("gone", 2), float32("old", 3, 4), float32("bytes", 5),
                       float32("shape", 6), Tensor("type", "int32", (1,), floats(7)), metadata={"k": "v", "same": "x"})
        b = self.model("b.safetensors", float32("same", 1), float32("extra", 2, 2, 2), float32("new", 3, 4), float32("bytes", 5.5),
                       float32("shape", 6, 6), float32("type", 7), metadata={"k": "w", "same": "x"})
        lines = [line for line in self.diff(a, b) if line[1] != "metadata.safetensors.header_length"]
        self.assertEqual(lines, [
            ["metadata", "metadata.k", "v", "w"],
            ["missing", "gone", "float32 [1]", ""],
            ["added", "extra", "", "float32 [3]"],
            ["renamed", "old", "float32 [2]", "new"],
            ["type", "shape", "float32 [1]", "float32 [2]"],
            ["type", "type", "int32 [1]", "float32 [1]"],
            ["bytes", "bytes", "float32 [1]", "float32 [1]"]])

    def test_formats_are_compared_by_their_tensors(self):
        a, b = self.sample("a.safetensors"), self.sample("b.gguf", format="gguf")
        lines = self.diff(a, b)
        self.assertIn(["metadata", "format", "safetensors", "gguf"], lines)
        self.assertEqual({line[0] for line in lines}, {"metadata"})
        self.assertEqual(json.loads(run("diff", "--json", a, b).stdout)["equal_tensors"], len(sample_tensors()))

    def test_stat_measures_the_deviation(self):
        a = self.model("a.safetensors", float32("w", 1, 2, 3, 4), float32("n", math.nan, 1),
                       Tensor("d", "float64", (2, ), struct.pack("<2d", 1, 2)))
        b = self.model("b.safetensors", float32("w", 1, 2.5, 3, 3), float32("n", math.nan, 2), float32("d", 1, 2))
        lines = {line[1]: line for line in self.diff("--stat", a, b) if line[0] != "metadata"}
        self.assertEqual(lines["w"][:6], ["bytes", "w", "float32 [4]", "float32 [4]", "1", "0.375"])
        self.assertAlmostEqual(float(lines["w"][6]), (1 + 5 + 9 + 12) / math.sqrt(30 * (1 + 6.25 + 9 + 9)))
        self.assertEqual(lines["w"][7], "2")
        self.assertEqual(lines["n"][4:], ["1", "1", "1", "1"])
        self.assertEqual(lines["d"], ["type", "d", "float64 [2]", "float32 [2]", "0", "0", lines["d"][6], "0"])
        self.assertAlmostEqual(float(lines["d"][6]), 1)

    def test_stat_compares_numbers_of_other_types(self):
        values = (1, -2, 0.1)
        a = self.model("a.safetensors", float32("w", *values))
        b = self.model("b.safetensors", Tensor("w", "float16", (3,), struct.pack("<3e", *values)))
        line = [line for line in self.diff("--stat", a, b) if line[0] != "metadata"][0]
        expected = abs(struct.unpack("<f", struct.pack("<f", 0.1))[0] - struct.unpack("<e", struct.pack("<e", 0.1))[0])
        self.assertEqual(line[:4] + line[7:], ["type", "w", "float32 [3]", "float16 [3]", "1"])
        self.assertAlmostEqual(float(line[4]), expected, places=12)

    def test_stat_compares_quantised_tensors_with_float32(self):
        quants = list(range(-16, 16))
        b = self.model("b.gguf", Tensor("w", "q8_0", (32,), struct.pack("<e32b", 0.5, *quants)), format="gguf")
        for change, differing in ((0, "0"), (0.25, "1")):
            a = self.model("a.safetensors", float32("w", change - 8, *(0.5 * quant for quant in quants[1:])))
            line = [line for line in self.diff("--stat", a, b) if line[0] != "metadata"][0]
            self.assertEqual(line[:6] + line[7:],
                             ["type", "w", "float32 [32]", "q8_0 [32]", f"{change:g}", f"{change / 32:g}", differing])

    def test_json_output_has_every_difference(self):
        a = self.model("a.safetensors", float32("w", 1, 2), float32("x", 3), float32("z", 0), metadata={"k": "v"})
        b = self.model("b.safetensors", float32("w", 1, 4), float32("y", 3), float32("z", 1), metadata={"l": "v"})
        done = run("diff", "--json", "--stat", a, b)
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        found = json.loads(done.stdout)
        type_of = lambda size: {"dtype": "float32", "stored_dtype": "F32", "shape": [size]}  # noqa: E731
        self.assertEqual([field for field in found.pop("metadata") if "length" not in field["field"]],
                         [{"field": "metadata.k", "a": "v"}, {"field": "metadata.l", "b": "v"}])
        cosine = found["changed"][0]["stat"].pop("cosine")
        self.assertAlmostEqual(cosine, 9 / math.sqrt(5 * 17))
        self.assertEqual(found, {
            "equal": False, "missing": [], "added": [], "renamed": [{"name": "x", **type_of(1), "new_name": "y"}],
            "changed": [
                {"name": "w", "change": "bytes", "a": type_of(2), "b": type_of(2),
                 "stat": {"count": 2, "differing": 1, "nan": 0, "max": 2.0, "mean": 1.0}},
                {"name": "z", "change": "bytes", "a": type_of(1), "b": type_of(1),
                 "stat": {"count": 1, "differing": 1, "nan": 0, "max": 1.0, "mean": 1.0, "cosine": None}}],
            "files": [], "unreadable": [], "equal_tensors": 0, "equal_files": 0})
        self.assertTrue(json.loads(run("diff", "--json", a, a).stdout)["equal"])

    def test_refused_tensor_is_reported_once(self):
        a, b = self.sample("a.gguf", format="gguf"), self.sample("b.gguf", format="gguf")
        os.truncate(b, os.path.getsize(b) - 32)  # the last tensor is not complete
        message = f'weightfs: {b}: the file ends 5 bytes early: 1 of 5 tensors refused; interrupted download?\n'
        self.assertEqual([line for line in self.diff(a, b, status=2, stderr=message) if line[0] != "metadata"], [])
        self.assertEqual([line for line in self.diff("--stat", b, a, status=2, stderr=message) if line[0] != "metadata"], [])
        found = json.loads(run("diff", "--json", a, b).stdout)
        self.assertEqual(found["unreadable"], [{"source": "b", "name": "bytes", "error": "refused: see warnings.txt"}])
        self.assertFalse(found["equal"])

    def test_tensor_that_cannot_be_read_is_reported_once(self):
        data = npy("<f4", 100_000)
        for name, crc in (("a.npz", None), ("b.npz", 1)):
            with archives.Zip(self.path(name)) as file:
                file.write("w.npy", data, archives.DEFLATE, crc=crc)
        done = run("diff", self.path("a.npz"), self.path("b.npz"))
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(f'{self.path("b.npz")}: tensor "w": ', done.stderr)

    def test_every_error_is_status_2(self):
        source = self.sample()
        os.mkdir(self.path("models"))
        self.sample("models/a.safetensors")
        self.sample("models/b.safetensors")
        for argv in ((source, ), (source, self.path("absent")), (source, self.write("text",
                                                                                    b"no model")), (source, self.path("models"))):
            done = run("diff", *argv)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), (argv, done))
        with open("/dev/full", "wb") as full:
            other = self.model("other.safetensors", float32("x", 1))
            done = subprocess.run([WEIGHTFS, "diff", source, other], stdout=full, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 2, done)

    def test_hostile_names_are_escaped(self):
        a = self.model("a.safetensors", float32("evil\x1b[31m\n", 1), metadata={"k\x07": "\x1b]0;title\x07"})
        b = self.model("b.safetensors", float32("w", 1, 2))
        for line in run("diff", a, b).stdout.splitlines():
            self.assertTrue(line.replace("\t", "").isprintable(), repr(line))
        shown = on_terminal("diff", a, b, status=1)
        self.assertTrue(shown.replace("\n", "").isprintable(), repr(shown))

    def test_terminal_has_a_table_and_a_summary(self):
        a = self.model("a.safetensors", *(float32(f"layers.{i}.weight", i, 1) for i in range(30)))
        b = self.model("b.safetensors", *(float32(f"layers.{i}.weight", i, 1 + i % 3) for i in range(30)))
        shown = on_terminal("diff", "--stat", a, b, status=1, columns=100)
        self.assertRegex(shown, r"change +name +A +B +max +mean +cosine +differing\n")
        self.assertRegex(shown, r"bytes +layers.28.weight +float32 \[2\] +float32 \[2\] +1 +0.5 ")
        self.assertIn("30 and 30 tensors: 10 equal, 0 of another type, 20 with other bytes, 0 renamed, 0 missing, 0 added\n", shown)
        self.assertTrue(all(len(line) <= 100 for line in shown.splitlines()), shown)

    def test_progress_is_shown_until_it_is_interrupted(self):
        sources = [self.model(name, Tensor("w", "uint8", (1 << 40,), Hole(1 << 40))) for name in ("a.safetensors", "b.safetensors")]
        command = Interactive("diff", *sources)
        self.addCleanup(command.close)
        self.assertRegex(command.wait_for("comparing"), r" of 1.0 TiB, ")
        command.process.send_signal(signal.SIGINT)
        self.assertEqual(command.process.wait(60), -signal.SIGINT)

    def test_sharded_model_is_compared_with_one_file(self):
        tensors = [float32(f"layers.{i}", i, i) for i in range(4)]
        whole = self.model("whole.safetensors", *tensors)
        os.mkdir(self.path("sharded"))
        weight_map = {}
        for i, tensor in enumerate(tensors):
            self.model(f"sharded/model-{i}.safetensors", tensor)
            weight_map[tensor.name] = f"model-{i}.safetensors"
        self.write("sharded/model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": weight_map}).encode())
        found = json.loads(run("diff", "--json", whole, self.path("sharded")).stdout)
        self.assertEqual((found["equal_tensors"], found["changed"], found["missing"], found["added"]), (4, [], [], []))


class Contents(Comparison):
    # semantics 26.10
    def members(self, number):
        return {
            "unet/a.safetensors": self.model_bytes(float32("w", 1, number), float32("same", 1)),
            "unet/b.safetensors": self.model_bytes(float32("w", 1)), "same.safetensors": self.model_bytes(float32("w", 1)),
            "config.json": json.dumps({"n": number}).encode(), "same.json": b"{}"
        }

    EXPECTED = [["bytes", "unet/a.safetensors/w", "float32 [2]", "float32 [2]"],
                ["file", "config.json", "file, 8 bytes", "file, 8 bytes"]]

    def test_nested_models_and_members_of_zips_are_compared(self):
        a, b = self.archive("a.zip", self.members(1)), self.archive("b.zip", self.members(2))
        self.assertEqual(self.diff(a, b), self.EXPECTED)
        self.assertEqual(self.diff(a, self.archive("c.zip", self.members(1), archives.DEFLATE), status=0), [])
        found = json.loads(run("diff", "--json", a, b).stdout)
        self.assertEqual(
            ([entry["name"]
              for entry in found["changed"]], found["files"], found["equal_tensors"], found["equal_files"], found["equal"]),
            (["unet/a.safetensors/w"], [{"name": "config.json", "a": {"type": "file", "size": 8}, "b": {"type": "file", "size": 8}}
                                        ], 3, 1, False))

    def test_models_and_files_of_directories_are_compared(self):
        a, b = self.directory("a", self.members(1)), self.directory("b", self.members(2))
        self.assertEqual(self.diff(a, b), self.EXPECTED)
        self.assertEqual(self.diff(a, a, status=0), [])
        self.assertEqual(self.diff(a, self.archive("a.zip", self.members(1)), status=0), [])
        self.assertEqual(self.diff(a, self.archive("b.zip", self.members(2))), self.EXPECTED)

    def test_files_beside_shards_are_compared(self):
        tensors = [float32("x", 1), float32("y", 2, 3)]
        a = self.shards("a", *tensors, config_json=b"1", only_a=b"12")
        b = self.shards("b", *tensors, config_json=b"2", only_b=b"")
        self.assertEqual(self.diff(a, b), [["file", "config.json", "file, 1 bytes", "file, 1 bytes"],
                                           ["missing", "only.a", "file, 2 bytes", ""], ["added", "only.b", "", "file, 0 bytes"]])

    def test_shards_of_other_sizes_are_no_different_files(self):
        tensors = [float32("x", 1), float32("y", 2, 3)]
        a, b = self.shards("a", *tensors, config_json=b"1"), self.shards("b", *reversed(tensors), config_json=b"1")
        self.assertEqual(self.diff(a, b, status=0), [])
        whole = self.model("whole.gguf", *tensors, format="gguf")
        self.assertEqual({line[0] for line in self.diff(a, whole)}, {"metadata"})
        found = json.loads(run("diff", "--json", a, whole).stdout)
        self.assertEqual((found["equal_tensors"], found["files"]), (2, []))

    def test_model_that_only_one_has_is_a_line(self):
        model = self.model_bytes(float32("w", 1))
        a, b = self.archive("a.zip", {"a.safetensors": model}), self.archive("b.zip", {"b.safetensors": model})
        size = len(model)
        self.assertEqual(
            self.diff(a, b),
            [["missing", "a.safetensors", f"model, {size} bytes", ""], ["added", "b.safetensors", "", f"model, {size} bytes"]])

    def test_weights_of_one_format_are_compared_by_tensors_only(self):
        a = self.archive("a.npz", {"w.npy": npy("<f4", 10)})
        b = self.archive("b.npz", {"w.npy": npy("<f4", 11)}, archives.DEFLATE)
        self.assertEqual(self.diff(a, b), [["type", "w", "float32 [10]", "float32 [11]"]])

    def test_incomplete_nested_model_is_status_2(self):
        whole = self.model_bytes(*sample_tensors(), format="gguf")
        a, b = self.archive("a.zip", {"m.gguf": whole}), self.archive("b.zip", {"m.gguf": whole[:-32]})
        message = f'weightfs: {b}/m.gguf: the file ends 5 bytes early: 1 of 5 tensors refused; interrupted download?\n'
        self.assertEqual([line for line in self.diff(a, b, status=2, stderr=message) if "metadata" not in line[1]], [])
        self.assertFalse(json.loads(run("diff", "--json", a, b).stdout)["equal"])

    def test_member_that_cannot_be_read_is_status_2(self):
        for name, crc in (("a.zip", None), ("b.zip", 1)):
            with archives.Zip(self.path(name)) as file:
                file.write("data.bin", bytes(100_000), archives.DEFLATE, crc=crc)
        done = run("diff", self.path("a.zip"), self.path("b.zip"))
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), done)
        self.assertIn(f'{self.path("b.zip")}: "data.bin": ', done.stderr)

    def test_unreadable_model_with_equal_bytes_is_equal(self):
        damaged = b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1)
        a, b = self.archive("a.zip", {"m.gguf": damaged}), self.archive("b.zip", {"m.gguf": damaged})
        self.assertEqual(self.diff(a, b, status=0), [])
        self.assertEqual(self.diff(a, self.archive("c.zip", {"m.gguf": damaged + b"x"})),
                         [["file", "m.gguf", "model, 24 bytes", "model, 25 bytes"]])

    def test_links_are_compared_by_their_targets(self):
        sources = []
        for name, target in (("a.tar", "x"), ("b.tar", "y")):
            with tarfile.open(self.path(name), "w") as tar:
                for member, content in (("x", b"1"), ("y", b"1")):
                    entry = tarfile.TarInfo(member)
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))
                link = tarfile.TarInfo("link")
                link.type, link.linkname = tarfile.SYMTYPE, target
                tar.addfile(link)
            sources.append(self.path(name))
        self.assertEqual(self.diff(*sources), [["file", "link", "link to x", "link to y"]])

    def test_terminal_counts_files(self):
        shown = on_terminal("diff", self.archive("a.zip", self.members(1)), self.archive("b.zip", self.members(2)), status=1)
        self.assertIn("files: 1 equal, 1 different\n", shown)


class Figures(Comparison):
    # semantics 26.8
    def stats(self, *argv, status=0, stderr=""):
        done = run("stats", "--json", *argv)
        self.assertEqual((done.returncode, done.stderr), (status, stderr))
        return {entry["name"]: entry for entry in json.loads(done.stdout)}

    def test_figures_are_those_of_the_numbers(self):
        source = self.model("m.safetensors", float32("w", 2, 4, 4, 4, 5, 5, 7, 9), float32("bad", math.nan, math.inf, 0, 3))
        found = self.stats(source)
        w = found["w"]
        self.assertEqual((w["dtype"], w["shape"], w["count"], w["min"], w["max"], w["mean"], w["std"], w["zeros"]),
                         ("float32", [8], 8, 2.0, 9.0, 5.0, 2.0, 0))
        self.assertEqual((len(w["histogram"]), sum(w["histogram"])), (16, 8))
        bad = found["bad"]
        self.assertEqual((bad["nan"], bad["inf"], bad["zeros"], bad["min"], bad["max"], bad["mean"]), (1, 1, 1, 0.0, 3.0, 1.5))

    def test_figures_are_those_of_numpy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no NumPy here")
        values = numpy.random.default_rng(1).normal(3, 7, 300_000)
        source = self.model("m.safetensors", Tensor("d", "float64", values.shape, values.tobytes()),
                            Tensor("i", "int32", values.shape, (values * 1e6).astype("<i4").tobytes()))
        for name, array in (("d", values), ("i", (values * 1e6).astype("<i4"))):
            found = self.stats(source)[name]
            self.assertEqual((found["min"], found["max"]), (array.min(), array.max()))
            for figure, expected in (("mean", array.mean()), ("std", array.std())):
                self.assertTrue(math.isclose(found[figure], expected, rel_tol=1e-12), (found[figure], expected))
            self.assertEqual(found["histogram"], numpy.histogram(array, 16)[0].tolist())

    def test_patterns_select_tensors(self):
        source = self.model("m.safetensors", *(float32(name, 1) for name in ("a/w", "a/b", "c/w", "c[0]")))
        self.assertEqual(set(self.stats(source, "*w")), {"a/w", "c/w"})
        self.assertEqual(set(self.stats(source, "a/b", "c[0]")), {"a/b", "c[0]"})
        done = run("stats", source, "absent*", "a/b")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "", 'weightfs: no tensor matches "absent*"\n'))

    def test_tensor_without_numbers_has_a_reason(self):
        source = self.write("m.npy", npy("<c8", 1))
        found = next(iter(self.stats(source).values()))
        self.assertEqual(found["error"], "type complex64 has no numbers")

    def test_refused_tensor_is_status_5(self):
        source = self.sample("a.gguf", format="gguf")
        os.truncate(source, os.path.getsize(source) - 32)
        message = f'weightfs: {source}: the file ends 5 bytes early: 1 of 5 tensors refused; interrupted download?\n'
        self.assertEqual(self.stats(source, status=5, stderr=message)["bytes"]["error"], "refused: see warnings.txt")

    def test_nested_models_have_the_path_of_their_container(self):
        source = self.archive("m.zip", {
            "unet/a.safetensors": self.model_bytes(float32("w", 1, 2)), "b.gguf": self.model_bytes(float32("w", 3), format="gguf")
        })
        found = self.stats(source)
        self.assertEqual({name: entry["max"] for name, entry in found.items()}, {"b.gguf/w": 3.0, "unet/a.safetensors/w": 2.0})
        self.assertEqual(set(self.stats(source, "unet/*")), {"unet/a.safetensors/w"})
        os.mkdir(self.path("models"))
        os.rename(source, self.path("models", "m.zip"))
        self.model("models/c.safetensors", float32("x", 5))
        self.assertEqual(set(self.stats(self.path("models"))), {"c.safetensors/x", "m.zip/b.gguf/w", "m.zip/unet/a.safetensors/w"})

    def test_nested_model_that_is_incomplete_is_status_5(self):
        source = self.archive("m.zip", {"a.gguf": self.model_bytes(*sample_tensors(), format="gguf")[:-32]})
        message = f'weightfs: {source}/a.gguf: the file ends 5 bytes early: 1 of 5 tensors refused; interrupted download?\n'
        self.assertEqual(len(self.stats(source, status=5, stderr=message)), 5)

    def test_source_without_tensors_is_an_error(self):
        source = self.archive("m.zip", {"README": b"text"})
        self.assertEqual(self.stats(source, status=3, stderr=f"weightfs: {source}: has no tensors\n"), {})

    def test_terminal_has_a_histogram(self):
        source = self.model("m.safetensors", float32("w", *range(32), *[31] * 40))
        shown = on_terminal("stats", source)
        self.assertRegex(shown, r"tensor +dtype +shape +min +max +mean +std +zeros +nan +inf +histogram\n")
        self.assertIn("▁" * 15 + "█", shown)
        self.assertEqual(run("stats", source).stdout.split("\t")[-1], ",".join(["2"] * 15 + ["42"]) + "\n")


class DuplicateTensors(Comparison):
    # semantics 26.8
    def test_equal_tensors_of_two_models_are_listed_by_cost(self):
        a = self.model("a.safetensors", float32("embed", 1, 2), float32("head", 1, 2), float32("w", 3))
        b = self.model("b.safetensors", float32("other", 1, 3), float32("w", 3))
        done = run("info", "--duplicates", a, b)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = [line.split("\t")[1:] for line in done.stdout.splitlines()]
        self.assertEqual(rows, [["8", "8", a, "embed", "float32", "[2]"], ["8", "8", a, "head", "float32", "[2]"],
                                ["4", "4", a, "w", "float32", "[1]"], ["4", "4", b, "w", "float32", "[1]"]])

    def test_json_output_has_digests(self):
        a = self.model("a.safetensors", float32("x", 1, 2), float32("y", 1, 2))
        self.assertEqual(json.loads(run("info", "--duplicates", "--json", a).stdout), [
            {"digest": "sha256:" + hashlib.sha256(floats(1, 2)).hexdigest(), "nbytes": 8, "cost": 8,
             "tensors": [{"source": a, "name": name, "dtype": "float32", "shape": [2]} for name in "xy"]}])

    def test_models_of_a_directory_are_searched(self):
        os.mkdir(self.path("models"))
        self.model("models/a.safetensors", float32("x", 1))
        self.model("models/b.gguf", float32("y", 1), format="gguf")
        rows = [line.split("\t")[3:5] for line in run("info", "--duplicates", self.path("models")).stdout.splitlines()]
        self.assertEqual(rows, [[self.path("models", "a.safetensors"), "x"], [self.path("models", "b.gguf"), "y"]])

    def test_nested_models_are_searched(self):
        source = self.archive(
            "m.zip", {"a.safetensors": self.model_bytes(float32("x", 1)), "b.safetensors": self.model_bytes(float32("y", 1))})
        rows = [line.split("\t")[3:5] for line in run("info", "--duplicates", source).stdout.splitlines()]
        self.assertEqual(rows, [[source + "/a.safetensors", "x"], [source + "/b.safetensors", "y"]])

    def test_refused_tensor_is_status_5(self):
        source = self.sample("a.gguf", format="gguf")
        os.truncate(source, os.path.getsize(source) - 32)
        done = run("info", "--duplicates", source)
        self.assertEqual(
            (done.returncode, done.stdout, done.stderr),
            (5, "", f'weightfs: {source}: the file ends 5 bytes early: 1 of 5 tensors refused; interrupted download?\n'))

    def test_terminal_shows_the_total(self):
        a = self.model("a.safetensors", *(float32(name, 1, 2) for name in "xyz"))
        self.assertIn("1 groups of duplicate tensors waste 16 B\n", on_terminal("info", "--duplicates", a))


if __name__ == "__main__":
    unittest.main()
