"""float32/ of repositories of GPTQ, AWQ, compressed-tensors, fp8 and ModelOpt: the weights that the modules compute with; diff
and stats by these."""
import io
import json
import os
import unittest

from mounting import OneMountTestCase, TestCase, containers, run

try:
    import numpy
    from packed_weights import FLOAT4, Groups, bfloat16, float8, pack_quantized, pairs, tensor
except ImportError:
    numpy = None

PREFIX = "model.layers.0.mlp.up_proj."
WEIGHT = PREFIX + "weight"


def gptq(bits=4, group_size=32, **stated):
    return {"quant_method": "gptq", "bits": bits, "group_size": group_size, **stated}


def awq(**stated):
    return {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm", **stated}


def compressed(packing, bits, group_size=None, strategy=None, type="int", symmetric=True, **stated):
    weights = {"num_bits": bits, "type": type, "symmetric": symmetric, "group_size": group_size, "strategy": strategy, **stated}
    return {"quant_method": "compressed-tensors", "format": packing,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def write(owner, name, tensors, quantisation, config=(), document="config.json"):
    """A repository, with its description of the packing in `document`."""
    folder = owner.path(name)
    os.mkdir(folder)
    documents = {"config.json": {"model_type": "llama", **dict(config)}}
    if document == "config.json":
        documents[document]["quantization_config"] = quantisation
    else:
        documents[document] = quantisation
    for path, value in documents.items():
        owner.write(f"{name}/{path}", json.dumps(value).encode())
    containers.write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
    return folder


class Sizes:
    """What rows of numbers have as scales: a random matrix of [outputs, inputs], scales of [outputs, inputs / size]."""

    def __init__(self, low, high, outputs, inputs, size, seed=2):
        random = numpy.random.default_rng(seed)
        self.size = size
        self.codes = random.integers(low, high, (outputs, inputs))
        self.scales = random.uniform(0.001, 0.1, (outputs, inputs // size)).astype(numpy.float32)
        self.half_scales = self.scales.astype(numpy.float16)
        self.zeros = random.integers(-3, 4, (outputs, inputs // size))

    def scaled(self, numbers, scales):
        return numbers.astype(numpy.float32) * numpy.repeat(scales.astype(numpy.float32), self.size, 1)


def gptq_cases():
    for bits in (2, 3, 4, 8):
        groups = Groups(bits, 96, 64, 32)
        yield f"gptq-{bits}-bits", groups.gptq(PREFIX), gptq(bits), groups.weight()
        yield f"gptq-{bits}-bits-v2", groups.gptq(PREFIX, version=2), gptq(bits, checkpoint_format="gptq_v2"), groups.weight()
    shuffled = numpy.random.default_rng(3).permutation(numpy.arange(96, dtype=numpy.int32) // 32)
    groups = Groups(4, 96, 64, 32, index=shuffled)
    yield "gptq-desc-act", groups.gptq(PREFIX), gptq(desc_act=True), groups.weight()
    groups = Groups(4, 96, 64, 96)
    yield "gptq-one-group", groups.gptq(PREFIX), gptq(group_size=-1, desc_act=True), groups.weight()
    groups = Groups(4, 80, 64, 32)
    yield "gptq-last-group-smaller", groups.gptq(PREFIX), gptq(), groups.weight()
    groups = Groups(4, 96, 64, 32)
    yield "gptq-without-g-idx", groups.gptq(PREFIX, has_index=False), gptq(desc_act=False), groups.weight()
    groups = Groups(4, 96, 64, 32, zeros=8)
    yield "gptq-symmetric-without-zeros", groups.gptq(PREFIX, has_zeros=False), gptq(sym=True), groups.weight()
    groups = Groups(4, 96, 64, 32, zeros=0)
    yield "gptq-zero-point-0", groups.gptq(PREFIX), gptq(), groups.weight()
    groups = Groups(4, 2048, 520, 128)  # several tiles
    yield "gptq-large", groups.gptq(PREFIX), gptq(group_size=128), groups.weight()
    groups = Groups(8, 1024, 520, 64)
    yield "gptq-8-bits-large", groups.gptq(PREFIX), gptq(8, group_size=64), groups.weight()
    groups = Groups(4, 96, 64, 32)
    yield "awq", groups.awq(PREFIX), awq(), groups.weight()
    groups = Groups(4, 1024, 1048, 128)
    yield "awq-large", groups.awq(PREFIX), awq(group_size=128), groups.weight()
    groups = Groups(4, 96, 64, 96)
    yield "awq-one-group", groups.awq(PREFIX), awq(group_size=-1), groups.weight()


def compressed_cases():
    for bits in (2, 3, 4, 8):
        rows = Sizes(-2 ** (bits - 1), 2 ** (bits - 1), 24, 64, 32)
        yield (f"packed-{bits}-bits", pack_quantized(PREFIX, rows.codes, bits, rows.half_scales),
               compressed("pack-quantized", bits, 32, "group"), rows.scaled(rows.codes, rows.half_scales))
    rows = Sizes(-8, 8, 20, 64, 32)
    yield ("packed-asymmetric", pack_quantized(PREFIX, rows.codes, 4, rows.half_scales, rows.zeros),
           compressed("pack-quantized", 4, 32, "group", symmetric=False),
           rows.scaled(rows.codes - numpy.repeat(rows.zeros, 32, 1), rows.half_scales))
    index = numpy.random.default_rng(4).permutation(numpy.arange(64, dtype=numpy.int32) // 32)
    yield ("packed-reordered", pack_quantized(PREFIX, rows.codes, 4, rows.half_scales, index=index),
           compressed("pack-quantized", 4, 32, "group", actorder="group"),
           rows.codes.astype(numpy.float32) * rows.half_scales.astype(numpy.float32)[:, index])
    rows = Sizes(-8, 8, 20, 61, 61)
    yield ("packed-channels-padded", pack_quantized(PREFIX, rows.codes, 4, rows.half_scales),
           compressed("pack-quantized", 4, None, "channel"), rows.scaled(rows.codes, rows.half_scales))
    rows = Sizes(-8, 8, 700, 1024, 128)
    yield ("packed-large", pack_quantized(PREFIX, rows.codes, 4, rows.half_scales, rows.zeros),
           compressed("pack-quantized", 4, 128, "group", symmetric=False),
           rows.scaled(rows.codes - numpy.repeat(rows.zeros, 128, 1), rows.half_scales))
    rows = Sizes(-128, 128, 20, 64, 64)
    numbers = tensor(WEIGHT, rows.codes.astype(numpy.int8))
    yield ("int-channels", [numbers, tensor(PREFIX + "weight_scale", rows.scales)], compressed("int-quantized", 8, None, "channel"),
           rows.scaled(rows.codes, rows.scales))
    yield ("int-asymmetric", [numbers, tensor(PREFIX + "weight_scale", rows.scales),
                              tensor(PREFIX + "weight_zero_point", rows.zeros.astype(numpy.int8))],
           compressed("int-quantized", 8, None, "channel", symmetric=False), rows.scaled(rows.codes - rows.zeros, rows.scales))
    yield ("int-tensor", [numbers, tensor(PREFIX + "weight_scale", rows.scales[0])], compressed("int-quantized", 8, None, "tensor"),
           rows.codes.astype(numpy.float32) * rows.scales[0, 0])
    rows = Sizes(0, 127, 20, 64, 64)
    scales = (rows.scales.view(numpy.uint32) & 0xFFFF0000).view(numpy.float32)
    yield ("float-channels", [tensor(WEIGHT, rows.codes.astype(numpy.uint8), "float8_e4m3fn"),
                              tensor(PREFIX + "weight_scale", bfloat16(scales), "bfloat16")],
           compressed("float-quantized", 8, None, "channel", "float"), rows.scaled(float8(rows.codes), scales))
    rows = Sizes(0, 16, 20, 64, 16)
    codes = numpy.random.default_rng(5).integers(8, 120, rows.scales.shape)
    numbers, total = tensor(PREFIX + "weight_packed", pairs(rows.codes)), numpy.array([448.0], numpy.float32)
    yield ("nvfp4", [numbers, tensor(PREFIX + "weight_scale", codes.astype(numpy.uint8), "float8_e4m3fn"),
                     tensor(PREFIX + "weight_global_scale", total)],
           compressed("nvfp4-pack-quantized", 4, 16, "tensor_group", "float"),
           rows.scaled(FLOAT4[rows.codes], float8(codes) / total))
    rows = Sizes(0, 16, 20, 64, 32)
    codes = numpy.random.default_rng(6).integers(110, 130, rows.scales.shape)
    yield ("mxfp4", [tensor(PREFIX + "weight_packed", pairs(rows.codes)),
                     tensor(PREFIX + "weight_scale", codes.astype(numpy.uint8))],
           compressed("mxfp4-pack-quantized", 4, 32, "group", "float"), rows.scaled(FLOAT4[rows.codes], 2.0 ** (codes - 127.0)))


def float8_cases():
    random = numpy.random.default_rng(7)
    codes = random.integers(0, 127, (200, 300))
    numbers = tensor(WEIGHT, codes.astype(numpy.uint8), "float8_e4m3fn")
    blocks = random.uniform(0.0001, 0.01, (2, 3)).astype(numpy.float32)
    spread = numpy.repeat(numpy.repeat(blocks, 128, 0), 128, 1)[:200, :300]
    stated = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    yield "fp8-blocks", [numbers, tensor(PREFIX + "weight_scale_inv", blocks)], stated, float8(codes) * spread
    rows = random.uniform(0.0001, 0.01, (200, 1)).astype(numpy.float32)
    yield "fp8-rows", [numbers, tensor(PREFIX + "weight_scale", rows)], {"quant_method": "fbgemm_fp8"}, float8(codes) * rows
    one = numpy.array(0.03125, numpy.float32)
    yield "fp8-tensor", [numbers, tensor(PREFIX + "weight_scale", one)], {"quant_method": "fp8"}, float8(codes) * one
    yield ("modelopt-fp8", [numbers, tensor(PREFIX + "weight_scale", one), tensor(PREFIX + "input_scale", one)],
           {"quant_method": "modelopt", "quant_algo": "FP8"}, float8(codes) * one)
    codes, scales = random.integers(0, 16, (20, 64)), random.integers(8, 120, (20, 4))
    yield ("modelopt-nvfp4", [tensor(WEIGHT, pairs(codes)), tensor(PREFIX + "weight_scale_2", one),
                              tensor(PREFIX + "weight_scale", scales.astype(numpy.uint8), "float8_e4m3fn")],
           {"quant_method": "modelopt", "quant_algo": "NVFP4"}, FLOAT4[codes] * numpy.repeat(float8(scales) * one, 16, 1))


def all_cases():
    yield from gptq_cases()
    yield from compressed_cases()
    yield from float8_cases()


def with_other(tensors, end, array, dtype=None):
    """The tensors, with another one of this end."""
    return [tensor(one.name, array, dtype) if one.name.endswith(end) else one for one in tensors]


def without(tensors, end):
    return [one for one in tensors if not one.name.endswith(end)]


def refused_cases():
    """Name, tensors, description, and what warnings.txt says."""
    groups = Groups(4, 96, 64, 32)
    good = groups.gptq(PREFIX)
    yield "bits-5", good, gptq(5), "bits is 5; expected 2, 3, 4 or 8"
    yield "no-bits", good, {"quant_method": "gptq", "group_size": 32}, "no bits"
    yield "bits-of-another-size", good, gptq(8), "scales is float16 [3,64]; expected [2,64]"
    yield "no-group-size", good, {"quant_method": "gptq", "bits": 4}, "no group_size"
    yield "group-size-0", good, gptq(group_size=0), "group_size is neither -1 nor positive"
    yield "group-size-64", good, gptq(group_size=64), "scales is float16 [3,64]; expected [2,64]"
    yield "marlin", good, gptq(checkpoint_format="marlin"), "checkpoint_format is marlin; expected gptq or gptq_v2"
    yield "no-scales", without(good, "scales"), gptq(), "scales is missing"
    yield "no-zeros", without(good, "qzeros"), gptq(), "qzeros is missing, though sym is not true"
    yield "no-g-idx", without(good, "g_idx"), gptq(desc_act=True), "g_idx is missing, though desc_act is true"
    zeros = with_other(good, "qzeros", numpy.zeros((3, 7), numpy.int32))
    yield "zeros-of-another-size", zeros, gptq(), "qzeros is int32 [3,7]; expected [3,8]"
    yield "no-groups", with_other(good, "scales", numpy.zeros((0, 64), numpy.float16)), gptq(), "scales is float16 [0,64]"
    yield "no-inputs", with_other(good, "qweight", numpy.zeros((0, 64), numpy.int32)), gptq(), "qweight is int32 [0,64]"
    wide = with_other(good, "qweight", numpy.zeros((12, 64), numpy.int64))
    yield "int64", wide, gptq(), "qweight is int64 [12,64]; expected int32"
    yield "weight-beside", good + [tensor(WEIGHT, numpy.ones((2, 2), numpy.float32))], gptq(), "a tensor of this name is stored"
    yield "gemv", groups.awq(PREFIX), awq(version="gemv"), "version is gemv; expected gemm"
    yield "awq-3-bits", groups.awq(PREFIX), awq(bits=3), "bits is 3; expected 4"
    rows = Sizes(-8, 8, 20, 64, 32)
    packed = pack_quantized(PREFIX, rows.codes, 4, rows.half_scales)
    yield "packed-as-8-bits", packed, compressed("pack-quantized", 8, 32), "weight_packed is int32 [20,8]; expected [20,16]"
    yield "packed-16-bits", packed, compressed("pack-quantized", 16, 32, "group"), "num_bits is 16; expected 1 to 8"
    yield "packed-as-channels", packed, compressed("pack-quantized", 4, None, "channel"), "for 20 rows and the strategy channel"
    yield ("packed-without-zeros", packed, compressed("pack-quantized", 4, 32, "group", symmetric=False),
           "weight_zero_point is missing, though symmetric is false")
    yield ("packed-not-reordered", packed, compressed("pack-quantized", 4, 32, "group", actorder="group"),
           "weight_g_idx is missing, though actorder is group")
    yield "packed-unknown", packed, compressed("marlin-24", 4, 32, "group"), "in the format marlin-24 with weight_packed"
    yield ("packed-in-no-shape", with_other(packed, "weight_shape", numpy.array([-1, 64])), compressed("pack-quantized", 4),
           "18446744073709551615 outputs of 64 inputs")
    codes = numpy.zeros((200, 300), numpy.uint8)
    float8_weight = [tensor(WEIGHT, codes, "float8_e4m3fn"), tensor(PREFIX + "weight_scale_inv", numpy.ones((3, 2), numpy.float32))]
    yield ("blocks-of-another-size", float8_weight, {"quant_method": "fp8", "weight_block_size": [128, 128]},
           "weight_scale_inv is float32 [3,2]; expected [2,3]")
    yield ("blocks-of-0", float8_weight, {"quant_method": "fp8", "weight_block_size": [0, 128]},
           "weight_block_size is not a list of two positive sizes")


@unittest.skipUnless(numpy, "no NumPy here")
class PackedWeights(OneMountTestCase):
    @classmethod
    def sources_of(cls, owner):
        cls.expected = {name: expected for name, _, _, expected in all_cases()}
        cls.reasons = {name: reason for name, _, _, reason in refused_cases()}
        sources = [write(owner, name, tensors, stated) for name, tensors, stated, _ in all_cases()]
        return sources + [write(owner, name, tensors, stated) for name, tensors, stated, _ in refused_cases()]

    def path_of(self, name, *names):
        return os.path.join(self.mnt, name, *names)

    def test_float32_has_the_weight_that_the_module_computes_with(self):
        for name, expected in self.expected.items():
            with self.subTest(name):
                weight = numpy.load(self.path_of(name, "float32", WEIGHT + ".npy"))
                self.assertEqual(weight.dtype.name, "float32")
                numpy.testing.assert_array_equal(weight, expected.astype(numpy.float32))
                self.assertFalse(os.path.exists(self.path_of(name, "warnings.txt")))

    def test_stored_tensors_are_as_they_were(self):
        self.assertIn(PREFIX + "qweight.npy", os.listdir(self.path_of("awq", "float32")))
        self.assertNotIn(WEIGHT, os.listdir(self.path_of("awq", "tensors")))
        self.assertNotIn(WEIGHT + ".npy", os.listdir(self.path_of("awq", "npy")))
        stored = numpy.load(self.path_of("int-tensor", "npy", WEIGHT + ".npy"))
        self.assertEqual(stored.dtype.name, "int8")

    def test_random_ranges_are_those_of_the_whole(self):
        random = numpy.random.default_rng(8)
        for name in ("gptq-large", "awq-large", "packed-large"):
            with open(self.path_of(name, "float32", WEIGHT + ".npy"), "rb") as file:
                whole = file.read()
                for begin in random.integers(0, len(whole), 20):
                    file.seek(int(begin))
                    self.assertEqual(file.read(1000), whole[begin:begin + 1000], name)

    def test_weight_that_contradicts_its_description_is_absent_with_a_warning(self):
        for name, reason in self.reasons.items():
            with self.subTest(name):
                shown = os.listdir(self.path_of(name, "float32"))
                self.assertEqual(WEIGHT + ".npy" in shown, name == "weight-beside")
                with open(self.path_of(name, "warnings.txt")) as file:
                    lines = file.read().splitlines()
                self.assertEqual(len(lines), 1, lines)
                self.assertIn(reason, lines[0])
                self.assertIn(WEIGHT, lines[0])


@unittest.skipUnless(numpy, "no NumPy here")
class PackedRepositories(TestCase):
    def read_weight(self, source):
        return run("cat", source, f"float32/{WEIGHT}.npy")

    def test_reading_fails_if_groups_contradict(self):
        groups = Groups(4, 96, 64, 32)
        for name, index, stated, reason in (
                ("above", groups.index + 1, gptq(), "g_idx: group 3 of 3 groups"),
                ("below", groups.index - 1, gptq(), "g_idx: group -1 of 3 groups"),
                ("order", groups.index[::-1], gptq(desc_act=False), "groups are not in order, as desc_act false states")):
            folder = write(self, name, with_other(groups.gptq(PREFIX), "g_idx", index.astype(numpy.int32)), stated)
            done = self.read_weight(folder)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(reason, done.stderr)
        rows = Sizes(-8, 8, 20, 64, 32)
        packed = with_other(pack_quantized(PREFIX, rows.codes, 4, rows.half_scales), "weight_shape", numpy.array([20, 60]))
        done = self.read_weight(write(self, "shape", packed, compressed("pack-quantized", 4, 32, "group")))
        self.assertIn("weight_shape is [20,60]; expected [20,64]", done.stderr)

    def test_description_in_a_file_of_its_own(self):
        groups = Groups(4, 96, 64, 32)
        for name, tensors, stated, document in (
                ("a", groups.gptq(PREFIX), {"bits": 4, "group_size": 32, "desc_act": False}, "quantize_config.json"),
                ("b", groups.awq(PREFIX), {"w_bit": 4, "q_group_size": 32, "version": "GEMM"}, "quant_config.json")):
            done = run("cat", write(self, name, tensors, stated, document=document), f"float32/{WEIGHT}.npy", text=False)
            self.assertEqual(done.stdout[-groups.weight().nbytes:], groups.weight().tobytes(), done.stderr)

    def test_experts_of_mxfp4_are_those_that_transformers_computes_with(self):
        random = numpy.random.default_rng(9)
        codes, scales = random.integers(0, 16, (3, 40, 64)), random.integers(110, 130, (3, 40, 2))
        expected = (FLOAT4[codes] * numpy.repeat(2.0 ** (scales - 127.0), 32, 2)).astype(numpy.float32).transpose(0, 2, 1)
        name = "model.layers.0.mlp.experts.gate_up_proj"
        tensors = [tensor(name + "_blocks", pairs(codes.reshape(-1, 64)).reshape(3, 40, 2, 16)),
                   tensor(name + "_scales", scales.astype(numpy.uint8)),
                   tensor(name + "_bias", numpy.ones((3, 40), numpy.float16))]
        folder = write(self, "experts", tensors, {"quant_method": "mxfp4"})
        done = run("cat", folder, f"float32/{name}.npy", text=False)
        numpy.testing.assert_array_equal(numpy.load(io.BytesIO(done.stdout)), expected)
        original = write(self, "original", [tensor(name, expected), tensors[2]], None)
        found = self.compare(folder, original)
        self.assertEqual([found[key] for key in ("missing", "added", "changed", "equal_tensors")], [[], [], [], 2])

    def test_weights_of_transposed_layers_are_not_shown(self):
        folder = write(self, "gpt2", Groups(4, 96, 64, 32).gptq(PREFIX), gptq(), {"model_type": "gpt2"})
        self.assertIn("the weights of gpt2 are transposed", run("cat", folder, "warnings.txt").stdout)

    def test_without_a_description_float32_has_the_stored_numbers(self):
        numbers = numpy.arange(6, dtype=numpy.int8).reshape(2, 3)
        tensors = [tensor(WEIGHT, numbers), tensor(PREFIX + "weight_scale", numpy.full((2, 1), 2, numpy.float32))]
        folder = write(self, "plain", tensors, None)
        done = run("cat", folder, f"float32/{WEIGHT}.npy", text=False)
        self.assertEqual(done.stdout[-24:], numbers.astype(numpy.float32).tobytes())
        self.assertNotEqual(run("cat", folder, "warnings.txt").returncode, 0)

    def test_modules_of_one_reason_have_one_line(self):
        tensors = [one for i in range(5) for one in Groups(4, 96, 64, 32).gptq(f"layers.{i}.")]
        text = run("cat", write(self, "many", tensors, gptq(5)), "warnings.txt").stdout
        self.assertEqual(text, "float32/: \"layers.0.weight\" and 4 others not computed: bits is 5; expected 2, 3, 4 or 8\n")

    def compare(self, a, b):
        done = run("diff", "--stat", "--json", a, b)
        return json.loads(done.stdout)

    def original(self, weight):
        return write(self, "original", [tensor(WEIGHT, weight.astype(numpy.float32))], None)

    def test_diff_compares_the_weight_with_that_of_the_original(self):
        groups = Groups(4, 96, 64, 32)
        original = groups.weight() + numpy.float32(0.001)
        error = numpy.sqrt(((groups.weight().astype(float) - original) ** 2).sum() / (groups.weight().astype(float) ** 2).sum())
        there = self.original(original)
        for name, tensors, stated in (("gptq", groups.gptq(PREFIX), gptq()), ("awq", groups.awq(PREFIX), awq())):
            folder = write(self, name, tensors, stated)
            found = self.compare(folder, there)
            self.assertEqual((found["missing"], found["added"]), ([], []), found)
            [changed] = found["changed"]
            self.assertEqual(changed["name"], WEIGHT)
            self.assertAlmostEqual(changed["stat"]["relative_error"], error, 9)
        self.assertEqual(self.compare(self.path("gptq"), self.path("awq"))["changed"], [])

    def test_diff_of_float8_is_by_value(self):
        [(_, tensors, stated, weight), *_] = float8_cases()
        folder = write(self, "fp8", tensors, stated)
        self.assertEqual(self.compare(folder, self.original(weight))["changed"], [])

    def test_diff_of_equal_packings_compares_the_stored_tensors(self):
        groups = Groups(4, 96, 64, 32)
        a = write(self, "a", groups.gptq(PREFIX), gptq())
        groups.scales[0, 0] *= 2
        b = write(self, "b", groups.gptq(PREFIX), gptq())
        self.assertEqual([one["name"] for one in self.compare(a, b)["changed"]], [PREFIX + "scales"])

    def test_stats_has_the_figures_of_the_weight(self):
        groups = Groups(4, 96, 64, 32)
        done = run("stats", "--json", write(self, "gptq", groups.gptq(PREFIX), gptq()), WEIGHT)
        [figures] = json.loads(done.stdout)["tensors"]
        self.assertAlmostEqual(figures["mean"], groups.weight().mean(dtype=float), 9)
        self.assertEqual(figures["max"], float(groups.weight().max()))


if __name__ == "__main__":
    unittest.main()
