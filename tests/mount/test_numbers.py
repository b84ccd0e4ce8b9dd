"""The figures of `stats` and `diff --stat` against NumPy, and their screens."""
import json
import math
import os
import struct
import unittest

import goldens
from mounting import Hole, Tensor, TestCase, is_sanitized, on_terminal, run
from test_dequantised import COUNT, TYPES, blocks

try:
    import numpy
except ImportError:
    numpy = None

QUANTILES = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
SMALL = 1 << 20  # elements of the largest tensor that is always exact


def as_float64(name, array):
    """The numbers of an array in storage: bfloat16 is stored as uint16."""
    if name == "bfloat16":
        return (array.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)
    return array.astype(numpy.float64)


def skewness_and_kurtosis(array):
    distances = array - array.mean()
    variance = (distances ** 2).mean()
    return (distances ** 3).mean() / variance ** 1.5, (distances ** 4).mean() / variance ** 2 - 3


@unittest.skipUnless(numpy, "no NumPy here")
class AgainstNumpy(TestCase):
    def figures(self, source, *options):
        done = run("stats", "--json", *options, source)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return {entry["name"]: entry for entry in json.loads(done.stdout)["tensors"]}

    def check(self, found, numbers, exact):
        """Compares figures with those of an array of float64."""
        finite = numbers[numpy.isfinite(numbers)]
        self.assertEqual((found["count"], found["zeros"], found["nan"], found["inf"]),
                         (numbers.size, (numbers == 0).sum(), numpy.isnan(numbers).sum(), numpy.isinf(numbers).sum()))
        self.assertEqual("min" in found, finite.size > 0)
        if finite.size == 0:
            return
        self.assertEqual((found["min"], found["max"]), (finite.min(), finite.max()))
        magnitude = numpy.abs(finite).max() or 1
        for name, value in (("mean", finite.mean()), ("std", finite.std()), ("l1", numpy.abs(finite).sum()),
                            ("l2", math.sqrt((finite ** 2).sum())), ("rms", math.sqrt((finite ** 2).mean()))):
            self.assertLessEqual(abs(found[name] - value), 1e-12 * max(magnitude, abs(value)), (name, found[name], value))
        if found["skewness"] is not None:
            for name, value in zip(("skewness", "kurtosis"), skewness_and_kurtosis(finite)):
                self.assertLessEqual(abs(found[name] - value), 1e-8 * max(1, abs(value)), (name, found[name], value))
        self.assertEqual(found["exact"], exact)
        expected = numpy.quantile(finite, QUANTILES)
        shown = list(found["percentiles"].values())
        if exact:
            self.assertEqual(shown, expected.tolist())
            if finite.max() > finite.min():
                edges = (finite / 2 - finite.min() / 2) * (64 / (finite.max() / 2 - finite.min() / 2))
                places = numpy.minimum(edges.astype(numpy.int64), 63)
                self.assertEqual(found["histogram"], numpy.bincount(places, minlength=64).tolist())
        else:
            for a, b in zip(shown, expected):
                self.assertLessEqual(abs(a - b), abs(b) / 128 + 2.0 ** -133, (shown, expected))
        self.assertEqual(sum(found["histogram"]), finite.size)
        octaves = numpy.unique(numpy.floor(numpy.log2(numpy.abs(finite[numpy.abs(finite) > 1e-37]))))
        self.assertLessEqual(set(octaves), {octave["exponent"] for octave in found["log2_histogram"]})

    def arrays(self, size):
        random = numpy.random.default_rng(size)
        normal = random.normal(0.1, 2, size)
        special = normal.astype(numpy.float32)
        others = numpy.float32([numpy.nan, numpy.inf, -numpy.inf, -0.0, 0.0, 1e-41, -1e-44])
        special[::7] = numpy.resize(others, special[::7].size)
        return {
            "float64": normal, "float32": normal.astype(numpy.float32), "special": special,
            "float16": normal.astype(numpy.float16),
            "bfloat16": (normal.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16),
            "int8": (normal * 20).astype(numpy.int8), "uint8": numpy.abs(normal * 20).astype(numpy.uint8),
            "int16": (normal * 3000).astype(numpy.int16), "uint16": numpy.abs(normal * 3000).astype(numpy.uint16),
            "int32": (normal * 1e8).astype(numpy.int32), "uint32": numpy.abs(normal * 1e8).astype(numpy.uint32),
            "int64": (normal * 1e12).astype(numpy.int64), "uint64": numpy.abs(normal * 1e12).astype(numpy.uint64),
            "bool": normal > 0,
        }

    def source_of(self, arrays, shape=None):
        tensors = [Tensor(name, "float32" if name == "special" else name, shape or array.shape, array.tobytes())
                   for name, array in arrays.items()]
        return self.sample("m.safetensors", tensors)

    def test_every_plain_type(self):
        for size in (0, 1, 2, 77, 100_003):
            arrays = self.arrays(size)
            found = self.figures(self.source_of(arrays))
            for name, array in arrays.items():
                with self.subTest(name, size=size):
                    self.check(found[name], as_float64(name, array), True)

    def test_large_tensors_with_and_without_a_second_pass(self):
        arrays = {name: array for name, array in self.arrays(SMALL + 4321).items()
                  if name in ("float64", "float32", "special", "float16", "int32")}
        source = self.source_of(arrays)
        about, exact = self.figures(source), self.figures(source, "--exact")
        for name, array in arrays.items():
            with self.subTest(name):
                self.check(about[name], as_float64(name, array), name == "float16")
                self.check(exact[name], as_float64(name, array), True)

    def test_quantised_types(self):
        tensors = [Tensor(name, name, (COUNT, its.elements), blocks(name)) for name, its in TYPES.items()]
        source = self.sample("m.gguf", tensors, "gguf")
        found = self.figures(source)
        for name in TYPES:
            with self.subTest(name):
                npy = run("cat", source, f"float32/{name}.npy", text=False).stdout
                values = numpy.frombuffer(npy[10 + int.from_bytes(npy[8:10], "little"):], "<f4")
                self.check(found[name], values.astype(numpy.float64), True)

    def test_two_to_the_31_elements(self):
        if is_sanitized():
            self.skipTest("takes a minute with sanitizers")
        count = (1 << 31) + 7
        source = self.sample("m.safetensors", [Tensor("w", "float16", (count,), Hole(2 * count))])
        with open(source, "r+b") as file:
            file.seek(-2, os.SEEK_END)
            file.write(numpy.float16(3).tobytes())
        found = self.figures(source)["w"]
        self.assertEqual([found[name] for name in ("count", "zeros", "min", "max", "distinct")], [count, count - 1, 0, 3, 2])
        self.assertEqual(found["mean"], 3 / count)
        self.assertEqual(found["percentiles"]["50"], 0)

    def test_shards_and_layers_add_up(self):
        values = numpy.random.default_rng(5).normal(0, 1, (4, 3000)).astype(numpy.float32)
        source = self.sample("m.safetensors", [Tensor(f"h.{i}.w", "float32", (3000,), values[i].tobytes()) for i in range(4)])
        total = json.loads(run("stats", "--json", source).stdout)["total"]
        numbers = values.astype(numpy.float64).ravel()
        self.assertEqual((total["count"], total["min"], total["max"]), (12_000, numbers.min(), numbers.max()))
        self.assertLess(abs(total["mean"] - numbers.mean()), 1e-12)
        self.assertLess(abs(total["std"] - numbers.std()), 1e-12)
        self.assertLess(abs(total["kurtosis"] - skewness_and_kurtosis(numbers)[1]), 1e-10)
        for shown, expected in zip(total["percentiles"].values(), numpy.quantile(numbers, QUANTILES)):
            self.assertLessEqual(abs(shown - expected), abs(expected) / 128 + 1e-6)

    def test_pairs(self):
        random = numpy.random.default_rng(9)
        a = random.normal(0, 1, (300, 400)).astype(numpy.float32)
        b = a.astype(numpy.float16)
        b[17, 23] += 5
        of_a = self.sample("a.safetensors", [Tensor("w", "float32", a.shape, a.tobytes())])
        of_b = self.sample("b.safetensors", [Tensor("w", "float16", b.shape, b.tobytes())])
        done = run("diff", "--stat", "--json", of_a, of_b)
        self.assertEqual(done.returncode, 1)
        found = json.loads(done.stdout)["changed"][0]["stat"]
        x, y = a.astype(numpy.float64).ravel(), b.astype(numpy.float64).ravel()
        difference = x - y
        error = math.sqrt((difference ** 2).sum() / (x ** 2).sum())
        for name, value in (("rmse", math.sqrt((difference ** 2).mean())), ("relative_error", error),
                            ("snr_db", -20 * math.log10(error)), ("mean", numpy.abs(difference).mean()),
                            ("cosine", (x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum()))):
            self.assertTrue(math.isclose(found[name], value, rel_tol=1e-12), (name, found[name], value))
        self.assertEqual((found["max"], found["max_at"]), (numpy.abs(difference).max(), [17, 23]))
        self.assertEqual(found["differing"], (x != y).sum())
        self.assertEqual(found["share_within_ulps"]["1"], 1 - 1 / x.size)
        self.assertEqual(sum(entry["count"] for entry in found["differences"]), (x != y).sum())

    def test_figures_against_a_reference(self):
        random = numpy.random.default_rng(11)
        of_a = {f"blk.{i}.w": random.normal(0, 1, (40, 50)).astype(numpy.float32) for i in range(3)}
        of_b = {name: array + random.normal(0, 10.0 ** -i, array.shape).astype(numpy.float32)
                for i, (name, array) in enumerate(of_a.items())}
        of_b["blk.2.w"] = of_a["blk.2.w"]
        of_b["blk.1.w"][3, 4] = numpy.nan
        sources = [self.sample(name, [Tensor(key, "float32", array.shape, array.tobytes()) for key, array in arrays.items()])
                   for name, arrays in (("a.safetensors", of_a), ("b.safetensors", of_b))]
        done = run("stats", "--json", "--against", *sources)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = json.loads(done.stdout)
        self.assertEqual([entry["name"] for entry in found["tensors"]], list(of_a))
        pairs = [(of_a[name].astype(numpy.float64).ravel(), of_b[name].astype(numpy.float64).ravel()) for name in of_a]
        total = tuple(numpy.concatenate(parts) for parts in zip(*pairs))
        for shown, (x, y) in zip([*found["tensors"], *found["layers"], found["total"]], [*pairs, *pairs, total]):
            x, y = x[~numpy.isnan(y)], y[~numpy.isnan(y)]
            stat, error = shown["stat"], math.sqrt(((x - y) ** 2).sum() / (x ** 2).sum())
            for name, value in (("relative_error", error), ("max", numpy.abs(x - y).max()), ("mean", numpy.abs(x - y).mean()),
                                ("rmse", math.sqrt(((x - y) ** 2).mean()))):
                self.assertTrue(math.isclose(stat[name], value, rel_tol=1e-12), (shown["name"], name, stat[name], value))
            self.assertEqual(stat["snr_db"] is None, error == 0)
            self.assertTrue(error == 0 or math.isclose(stat["snr_db"], -20 * math.log10(error), rel_tol=1e-12))
            self.assertEqual(stat["nan"], stat["count"] - x.size)

    def test_quantised_against_float16_of_the_same_model(self):
        source = self.sample("q.gguf", [Tensor("blk.0.w", "q4_k", (COUNT, 256), blocks("q4_k"))], "gguf")
        npy = run("cat", source, "float32/blk.0.w.npy", text=False).stdout
        values = numpy.frombuffer(npy[10 + int.from_bytes(npy[8:10], "little"):], "<f4")
        half = values.astype(numpy.float16)
        other = self.sample("h.gguf", [Tensor("blk.0.w", "float16", (COUNT, 256), half.tobytes())], "gguf")
        limits = run("diff", "--min-snr", "40", source, other)
        self.assertEqual((limits.returncode, limits.stderr), (0, ""))
        self.assertIn("type\tblk.0.w\tq4_k [64,256]\tfloat16 [64,256]\t", limits.stdout)

    def test_channels(self):
        values = numpy.random.default_rng(2).normal(0, 1, (50, 4, 60)).astype(numpy.float32)
        values[:, :, 11] *= 30
        source = self.sample("m.safetensors", [Tensor("w", "float32", values.shape, values.tobytes())])
        squares = values.astype(numpy.float64) ** 2
        for axis in range(3):
            found = json.loads(run("stats", "--json", "--axis", str(axis), source).stdout)["tensors"][0]["channels"][0]
            others = tuple(i for i in range(3) if i != axis)
            rms = numpy.sqrt(squares.mean(axis=others))
            self.assertEqual(found["axis"], axis)
            for channel in found["largest"]:
                self.assertTrue(math.isclose(channel["rms"], rms[channel["index"]], rel_tol=1e-12))
            share = (numpy.sqrt(squares) > 6 * math.sqrt(squares.mean())).mean(axis=others)
            self.assertTrue(all(math.isclose(channel["outlier_share"], share[channel["index"]], abs_tol=1e-12)
                                for channel in found["largest"]))
        self.assertEqual(found["largest"][0]["index"], 11)

    def test_singular_values(self):
        values = numpy.random.default_rng(3).normal(0, 1, (30, 50)).astype(numpy.float32)
        a, b = values[:8], numpy.ascontiguousarray(values[8:, :8])
        source = self.sample("m.safetensors", [Tensor("x.lora_A.weight", "float32", a.shape, a.tobytes()),
                                               Tensor("x.lora_B.weight", "float32", b.shape, b.tobytes()),
                                               Tensor("w", "float32", values.shape, values.tobytes())])
        found = json.loads(run("stats", "--json", "--svd", source).stdout)
        if "no_singular_values" in found["tensors"][0]:
            self.skipTest("built without Eigen")
        of_w = numpy.linalg.svd(values.astype(numpy.float64), compute_uv=False)
        self.assertTrue(numpy.allclose(found["tensors"][2]["singular_values"], of_w, rtol=1e-12))
        product = b.astype(numpy.float64) @ a.astype(numpy.float64)
        self.assertEqual(found["lora"][0]["name"], "x.weight")
        of_product = numpy.linalg.svd(product, compute_uv=False)[:8]
        self.assertTrue(numpy.allclose(found["lora"][0]["singular_values"], of_product, rtol=1e-10))
        self.assertTrue(math.isclose(found["lora"][0]["norm"], numpy.linalg.norm(product), rel_tol=1e-12))


class SmallModels(TestCase):
    def layers(self):
        tensors = []
        for layer in range(2):
            for name, rows in (("attn.q", 4), ("mlp.up", 6)):
                data = struct.pack(f"<{rows * 8}f", *(i % 5 / 4 - 0.5 for i in range(rows * 8)))
                tensors.append(Tensor(f"model.layers.{layer}.{name}.weight", "float32", (rows, 8), data))
        tensors.append(Tensor("embed", "float32", (3, 8), bytes(32) + struct.pack("<16f", *range(15), math.nan)))
        return self.sample("m.safetensors", tensors)


class Screens(SmallModels):
    def test_table_at_three_widths(self):
        source = self.layers()
        for columns in (40, 80, 200):
            for language in ("C.UTF-8", "C"):
                shown = on_terminal("stats", source, columns=columns, LC_ALL=language)
                self.assertTrue(all(len(line) <= columns for line in shown.splitlines()), shown)
                if language == "C" or columns == 200:
                    self.assertEqual(shown.isascii(), language == "C", shown)
                self.assertIn("total", shown)
                self.assertEqual("Columns are left out" in shown.replace("\n", " "), columns < 200, shown)
        self.assertRegex(shown, r"tensor +dtype +elements +mean +std +min +p1 +median +p99 +max +zeros +flags +histogram\n")
        self.assertRegex(shown, r"embed +float32 +24 .* 9  NaN 1, dead rows 1  ")
        self.assertRegex(shown, r"model.layers.1.mlp.up.weight +float32 +48 ")
        self.assertRegex(shown, r"\nlayer +elements +mean .*\nmodel.layers.0 +80 .*\nmodel.layers.1 +80 ")

    def test_table_against_a_reference_at_three_widths(self):
        source = self.layers()
        half = self.sample("half.safetensors", [Tensor("model.layers.0.attn.q.weight", "float16", (4, 8), bytes(64)),
                                                Tensor("model.layers.1.mlp.up.weight", "float32", (6, 8), bytes(192)),
                                                Tensor("new\x1b[31m", "float32", (1,), bytes(4))])
        for columns in (40, 80, 200):
            shown = on_terminal("stats", "--against", source, half, columns=columns, LC_ALL="C.UTF-8")
            self.assertTrue(all(len(line) <= columns for line in shown.splitlines()), shown)
            self.assertNotIn("\x1b[31m", shown)
        self.assertRegex(shown, r"^tensor +types +SNR +rel. error +max +at +mean +differing\n")
        self.assertRegex(shown, r"\nmodel.layers.0.attn.q.weight +float32 > float16 +0 dB +1 .* 26\n")
        self.assertRegex(shown, r"\ntotal +0 dB +1 ")
        self.assertRegex(shown, r"\nlayer +SNR +.*\nmodel.layers.0 +0 dB +1 .*\nmodel.layers.1 +0 dB +1 ")
        self.assertIn("3 tensors are missing, which the reference has", run("stats", "--against", source, half).stderr)
        self.assertRegex(on_terminal("stats", "--against", source, source, columns=200), r"\nembed +float32 +equal +0 ")

    def test_names_of_a_narrow_table_differ(self):
        names = [f"model.layers.{i}.{module}.weight" for i in (1, 10) for module in (
            "self_attn.q_proj", "self_attn.k_proj", "self_attn.o_proj", "mlp.down_proj", "input_layernorm")]
        source = self.sample("m.safetensors", [Tensor(name, "float32", (4,), struct.pack("<4f", 0.25, -1, 2, 3)) for name in names])
        for language in ("C.UTF-8", "C"):
            shown = on_terminal("stats", source, columns=40, LC_ALL=language)
            first = [line.split()[0] for line in shown.splitlines() if line[0:1].isdigit()][:len(names)]
            self.assertEqual(len(set(first)), len(names), shown)
            self.assertTrue(all(("10" if i >= 5 else "1") in name for i, name in enumerate(first)), shown)

    def test_channels_fit_the_terminal(self):
        source = self.layers()
        for argv in ((source, "--per-channel"), (source, "embed"), (source, "embed", "--per-channel")):
            shown = on_terminal("stats", *argv, columns=40, LC_ALL="C.UTF-8")
            self.assertIn("Channels of axis 0", shown)
            self.assertTrue(all(len(line) <= 40 for line in shown.splitlines()), shown)
            channels = shown[shown.index("Channels of axis 0"):].splitlines()
            self.assertEqual(channels, [line.rstrip() for line in channels])

    def test_detail_of_one_tensor_has_all_figures(self):
        shown = on_terminal("stats", self.layers(), "embed", columns=60, LC_ALL="C.UTF-8")
        self.assertTrue(all(len(line) <= 60 for line in shown.splitlines()), shown)
        for line in ("  type        float32 [3,8], 24 elements, 96 B\n", "  zeros       9 (37.5 %)\n",
                     "  NaN         1 (4.17 %)\n", "  dead rows   1 of 3\n",
                     "Channels of axis 0 (3), the largest first; 1 of zeros\n"):
            self.assertIn(line, shown)
        self.assertRegex(shown, r"quantiles   min 0, p0.1 0, ")
        self.assertIn("█", shown)

    def test_colours(self):
        self.assertIn("\033[1m", on_terminal("stats", self.layers(), NO_COLOR="", columns=80))
        self.assertNotIn("\033", on_terminal("stats", self.layers(), NO_COLOR="", TERM="dumb", columns=80))

    def test_hostile_names_are_escaped(self):
        source = self.sample("m.safetensors", [Tensor("evil\x1b[31m\n\t", "float32", (1,), bytes(4))])
        self.assertTrue(on_terminal("stats", source).replace("\n", "").isprintable())
        self.assertEqual(len(run("stats", source).stdout.splitlines()), 2)
        self.assertTrue(run("stats", source).stdout.replace("\t", "").replace("\n", "").isprintable())

    def test_sample_is_marked(self):
        source = self.sample("m.safetensors", [Tensor("w", "float16", (4096, 1024), Hole(8 << 20))])
        self.assertIn("sampled 1.6 %", on_terminal("stats", "--sample", source, columns=200))


UTF8, ASCII = {"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C"}
COLOURS = {"NO_COLOR": "", "COLORTERM": "truecolor", **UTF8}


class GoldenTexts(SmallModels):
    """Whole screens, as files in golden/. GOLDEN=write writes them."""

    def check(self, name, shown):
        goldens.check(self, name, shown)

    def test_screens_are_unchanged(self):
        source = self.layers()
        halves = struct.pack("<32e", *(i % 5 / 4.03 - 0.5 for i in range(32)))
        half = self.sample("half.safetensors", [Tensor("model.layers.0.attn.q.weight", "float16", (4, 8), halves),
                                                Tensor("model.layers.1.mlp.up.weight", "float32", (6, 8), bytes(192))])
        for columns in (40, 80, 200):
            for name, argv, status in (("stats", ("stats", source), 0), ("detail", ("stats", source, "embed"), 0),
                                       ("channels", ("stats", source, "model.layers.0.*", "--axis", "1"), 0),
                                       ("diff", ("diff", "--stat", source, half), 1), ("plot", ("plot", source), 0),
                                       ("heatmap", ("plot", source, "embed", "--graphics", "text"), 0)):
                self.check(f"{name}-{columns}", on_terminal(*argv, columns=columns, status=status, **UTF8))
        for name, argv in (("stats", ("stats", source)), ("heatmap", ("plot", source, "embed"))):
            self.check(f"{name}-80-ascii", on_terminal(*argv, columns=80, **ASCII))
            self.check(f"{name}-80-dumb", on_terminal(*argv, columns=80, TERM="dumb", **{**UTF8, "NO_COLOR": ""}))
            self.check(f"{name}-80-colours", on_terminal(*argv, columns=80, **COLOURS))
        self.check("stats-piped", run("stats", source).stdout)
        self.check("diff-piped", run("diff", "--stat", source, half).stdout)


if __name__ == "__main__":
    unittest.main()
