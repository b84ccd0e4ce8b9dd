"""diff, stats and info --duplicates: models compared without a mount."""
import hashlib
import json
import math
import struct
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
        a = self.model("a.safetensors", float32("w", 1, 2, 3, 4), float32("n", math.nan, 1), Tensor("d", "float64", (2,), struct.pack("<2d", 1, 2)))
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
            self.assertEqual(line[:6] + line[7:], ["type", "w", "float32 [32]", "q8_0 [32]", f"{change:g}", f"{change / 32:g}", differing])

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
            "unreadable": [], "equal_tensors": 0})
        self.assertTrue(json.loads(run("diff", "--json", a, a).stdout)["equal"])

    def test_refused_tensor_is_reported_once(self):
        a, b = self.sample("a.gguf", format="gguf"), self.sample("b.gguf", format="gguf")
        os.truncate(b, os.path.getsize(b) - 32)  # the last tensor is not complete
        message = f'weightfs: {b}: tensor "bytes": refused: see warnings.txt\n'
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
        for argv in ((source,), (source, self.path("absent")), (source, self.write("text", b"no model")), (source, self.path("models"))):
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


class Figures(Comparison):
    # semantics 26.8
    def stats(self, *argv, status=0):
        done = run("stats", "--json", *argv)
        self.assertEqual((done.returncode, done.stderr), (status, ""))
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
        self.assertEqual(self.stats(source, status=5)["bytes"]["error"], "refused: see warnings.txt")

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

    def test_terminal_shows_the_total(self):
        a = self.model("a.safetensors", *(float32(name, 1, 2) for name in "xyz"))
        self.assertIn("1 groups of equal tensors cost 16 B\n", on_terminal("info", "--duplicates", a))

    def test_several_sources_need_the_option(self):
        source = self.sample()
        done = run("info", source, source)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1))


if __name__ == "__main__":
    unittest.main()
