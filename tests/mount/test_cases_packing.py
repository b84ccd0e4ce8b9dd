"""Parameters of packed weights whose bits differ from module to module, or whose rows are padded: right or absent."""
from cases import ABSENT, info, table
from test_cases_summary import FLOAT, INT8, NORM, UINT8, UNKNOWN, layer, model, onnx, operation, quantised, tensor

ATTENTION = "model.layers.0.self_attn.q_proj."
MLP = "model.layers.0.mlp.up_proj."


def group(targets, bits, size=None):
    strategy = "channel" if size is None else "group"
    return {"targets": targets, "weights": {"num_bits": bits, "group_size": size, "strategy": strategy, "type": "int"}}


def compressed(tensors, *groups):
    """`tensors`: name, the sizes of the packed weight, the groups of a row."""
    parts = []
    for name, rows, columns, scales in tensors:
        parts += [tensor(name + "weight_packed", "int32", rows, columns), tensor(name + "weight_scale", "bfloat16", rows, scales),
                  tensor(name + "weight_shape", "int64", 2)]
    return model({"model_type": "llama", "quantization_config": {
        "quant_method": "compressed-tensors", "format": "pack-quantized",
        "config_groups": {f"group_{i}": one for i, one in enumerate(groups)}}}, *parts)


BOTH = ((MLP, 64, 32, 2), (ATTENTION, 64, 64, 1))  # 64 × 256 of 4 bits in groups of 128, 64 × 256 of 8 bits
FOUR, EIGHT = (ATTENTION, 64, 32, 1), (MLP, 64, 64, 1)  # the shapes do not tell the bits

CompressedTensors = table("CompressedTensors", (
    info("two-groups", compressed(BOTH, group(["re:.*mlp.*"], 4, 128), group(["re:.*self_attn.*"], 8)), parameters=32768),
    info("two-groups-in-the-other-order", compressed(
        BOTH, group(["re:.*self_attn\\.(q|k|v|o)_proj$"], 8), group(["Linear"], 4, 128)), parameters=32768),
    info("two-groups-without-targets-by-their-shapes", compressed(BOTH, group([], 4, 128), group([], 8)), parameters=32768),
    info("two-groups-of-channels-without-targets", compressed((FOUR, EIGHT), group([], 4), group([], 8)), parameters=ABSENT,
         shows=[UNKNOWN]),
    info("channels-by-patterns", compressed((FOUR, EIGHT), group(["re:.*q_proj"], 4), group(["re:.*up_proj"], 8)),
         parameters=32768),
    info("channels-by-ends-of-names", compressed((FOUR, EIGHT), group(["q_proj"], 4), group(["mlp.up_proj"], 8)),
         parameters=32768),
    info("channels-by-names", compressed((FOUR, EIGHT), group([ATTENTION[:-1]], 4), group([MLP[:-1]], 8)), parameters=32768),
    info("channels-by-class", compressed((FOUR, EIGHT), group(["Linear"], 8), group([ATTENTION[:-1]], 4)), parameters=32768),
    info("channels-by-layers", compressed((FOUR, EIGHT), group(["re:model.layers.[0-9]+.self_attn.*"], 4),
                                          group(["re:model\\.layers\\.\\d+\\.mlp\\..*"], 8)), parameters=32768),
    info("channels-by-an-unknown-pattern", compressed((FOUR, EIGHT), group(["re:(?!.*mlp).*"], 4), group(["Linear"], 8)),
         parameters=ABSENT),
    info("channels-by-an-endless-pattern", compressed((FOUR, EIGHT), group(["re:" + ".*" * 50 + "x"], 4), group(["Linear"], 8)),
         parameters=ABSENT),
    info("channels-of-two-groups-with-equal-targets", compressed((FOUR,), group(["Linear"], 4), group(["Linear"], 8)),
         parameters=ABSENT),
    info("channels-of-one-number-of-bits", compressed((FOUR,), group(["Linear"], 4)), parameters=64 * 256),
    info("groups-contradict-the-target", compressed(((MLP, 64, 32, 2),), group(["Linear"], 8, 128), group(["q_proj"], 4, 128)),
         parameters=ABSENT),
    info("padded-rows", compressed(((MLP, 64, 13, 1),), group(["Linear"], 4)), parameters=ABSENT, shows=[UNKNOWN]),
    info("padded-rows-of-groups", compressed(((MLP, 64, 13, 4),), group(["Linear"], 4, 32)), parameters=ABSENT),
    info("full-rows-of-groups", compressed(((MLP, 64, 13, 13),), group(["Linear"], 4, 8)), parameters=64 * 104),
))


def mlx(columns, scales, **stated):
    return model({"model_type": "llama", "quantization": stated}, tensor(MLP + "weight", "uint32", 64, columns),
                 tensor(MLP + "scales", "bfloat16", 64, scales), tensor(MLP + "biases", "bfloat16", 64, scales))


def torchao(config, *tensors):
    return quantised(*tensors, quant_method="torchao", quant_type={"default": {"_type": config, "_data": {}}})


INT4 = (("_weight_qdata", "uint8", 64, 128), ("_weight_scale", "bfloat16", 2, 64))

OtherMethods = table("OtherMethods", (
    info("mlx-groups", mlx(32, 4, bits=4, group_size=64), parameters=64 * 256),
    info("mlx-with-a-remainder", mlx(33, 4, bits=5, group_size=64), parameters=ABSENT),
    info("mlx-with-other-groups", mlx(32, 3, bits=4, group_size=64), parameters=ABSENT),
    info("torchao-float8-activations", torchao("Float8DynamicActivationInt4WeightConfig", *INT4), parameters=16384),
    info("torchao-int8-activations", torchao("Int8DynamicActivationInt4WeightConfig", *INT4), parameters=16384),
    info("torchao-unknown-weights", torchao("Int8DynamicActivationIntxWeightConfig", *INT4), parameters=ABSENT),
    info("torchao-int8-weights", torchao(
        "Int8DynamicActivationInt8WeightConfig", ("_weight_qdata", "int8", 64, 128), ("_weight_scale", "float32", 64, 1)),
        parameters=8192),
    info("gptq-marlin", quantised(
        ("qweight", "int32", 16, 128), ("scales", "float16", 2, 64), quant_method="gptq", bits=4, group_size=128,
        checkpoint_format="marlin"), parameters=16384, quantization__name="GPTQ 4-bit g128", quantization__method="gptq"),
    info("gptq-marlin-of-eight-bits", quantised(
        ("qweight", "int32", 16, 256), ("scales", "float16", 2, 64), quant_method="gptq", bits=8, group_size=128),
        parameters=16384, quantization__bits=8),
    info("gptq-by-its-index", quantised(
        ("qweight", "int32", 64, 64), ("scales", "float16", 2, 64), ("g_idx", "int32", 256), quant_method="gptq", bits=4,
        group_size=128, dynamic={"+:.*q_proj": {"bits": 8}}), parameters=16384),
    info("gptq-with-bits-of-a-module", quantised(
        ("qweight", "int32", 64, 64), ("scales", "float16", 2, 64), quant_method="gptq", bits=4, group_size=128,
        dynamic={"+:.*q_proj": {"bits": 8}}), parameters=ABSENT, shows=[UNKNOWN]),
    info("gptq-with-bits-and-groups-of-a-module", quantised(
        ("qweight", "int32", 64, 64), ("scales", "float16", 4, 64), quant_method="gptq", bits=4, group_size=128,
        dynamic={"+:.*q_proj": {"bits": 8, "group_size": 64}}), parameters=ABSENT),
    info("gptq-without-zeros", quantised(
        ("qweight", "int32", 32, 64), ("scales", "float16", 2, 64), quant_method="gptq", bits=4, group_size=128,
        dynamic={"-:lm_head": {}}), parameters=16384),
    info("int8-name", quantised(("weight", "int8", 64, 32), ("weight_scale", "float32", 64, 1)), quantization__name="INT8",
         quantization__bits=8),
))

W8A8 = (("weight", "int8", 128, 256), ("weight_scale", "float32", 128, 1))
PLAIN = 128 * 256


def module(*tensors):
    """A module without a configuration, beside a norm of 256."""
    return layer(*tensors, ("norm.weight", "float16", 256))


Companions = table("Companions", (
    info("scales-of-activations", module(*W8A8, ("smooth_scale", "float32", 256)), parameters=PLAIN + 256),
    info("scales-of-activations-of-other-names", module(
        *W8A8, ("act_scales", "float32", 256), ("prequant_scaling_factor", "float32", 256)), parameters=PLAIN + 256),
    info("offsets-and-biases-of-integers", module(
        *W8A8, ("weight_offset", "float32", 128, 1), ("quant_bias", "int32", 128), ("deq_scale", "float32", 128),
        ("input_scale", "float32", 1), ("input_offset", "float32", 1)), parameters=PLAIN + 256, quantization__name="INT8"),
    info("a-scale-of-the-output-alone", module(
        ("weight", "int8", 128, 256), ("quant_bias", "int32", 128), ("deq_scale", "float32", 128), ("input_scale", "float32", 1),
        ("input_offset", "float32", 1)), parameters=PLAIN + 256),
    info("a-scale-of-the-output-as-bits", module(("weight", "int8", 128, 256), ("deq_scale", "int64", 128)), parameters=ABSENT,
         shows=[UNKNOWN]),
    info("two-scales-of-an-int4", module(
        ("weight", "int8", 128, 256), ("weight_scale", "float32", 256, 1), ("weight_scale_second", "float32", 256, 4),
        ("weight_offset_second", "float32", 256, 4), ("scale_bias", "float32", 256, 16)), parameters=ABSENT, shows=[UNKNOWN]),
    info("scaling-factors", layer(
        ("weight", "float8_e4m3fn", 128, 256), ("weights_scaling_factor", "float32", 1),
        ("activation_scaling_factor", "float32", 1)), parameters=PLAIN),
    info("scales-of-channels", layer(("weight", "int8", 128, 256), ("per_channel_scale", "float16", 256)), parameters=PLAIN),
    info("a-mark-of-float8", model(
        None, tensor("blocks.0.q.weight", "float8_e4m3fn", 64, 32), tensor("blocks.0.q.scale_weight", "float32"),
        tensor("scaled_fp8", "float8_e4m3fn", 2)), parameters=2048),
    info("a-mark-of-float8-below-a-model", model(
        None, tensor("model.diffusion_model.q.weight", "float8_e4m3fn", 64, 32),
        tensor("model.diffusion_model.scaled_fp8", "float8_e4m3fn", 0)), parameters=2048),
    info("scales-of-unknown-names", layer(
        *W8A8, ("a_scale", "float32", 128), ("x_smooth", "float32", 256), ("bias", "float32", 128), prefix="l.0.q."),
        parameters=PLAIN + 128),
    info("scales-of-unknown-names-of-float8", layer(
        ("weight", "float8_e4m3fn", 128, 256), ("wscale", "float32"), ("xscale", "float32", 1)), parameters=PLAIN),
    info("offsets-and-scales-of-plain-weights", module(
        ("weight", "float16", 128, 256), ("weight_offset", "float32", 128), ("smooth_scale", "float32", 256)),
        parameters=PLAIN + 256 + 128 + 256),
))

MARLIN = {"quant_method": "compressed-tensors", "format": "marlin-24"}


def bitmask(columns, stored, dtype="bfloat16"):
    return module(("compressed", dtype, *stored), ("bitmask", "uint8", 128, columns), ("shape", "int64", 2),
                  ("row_offsets", "int64", 128))


Sparse = table("Sparse", (
    info("marlin-24", quantised(
        ("weight_packed", "int32", 8, 256), ("meta", "int16", 256, 8), ("scale_packed", "float16", 2, 128),
        config_groups={"group_0": group(["Linear"], 4, 128)}, **MARLIN), parameters=PLAIN,
        quantization__name="compressed-tensors W4A16 g128"),
    info("marlin-24-of-channels-and-8-bits", quantised(
        ("weight_packed", "int32", 8, 512), ("meta", "int16", 256, 8), ("scale_packed", "float16", 1, 128),
        config_groups={"group_0": group(["Linear"], 8)}, **MARLIN), parameters=PLAIN),
    info("marlin-24-without-a-scale", quantised(
        ("weight_packed", "int32", 8, 250), ("meta", "int16", 256, 8), ("scale_packed", "float16", 2, 128),
        config_groups={"group_0": group(["Linear"], 4, 128)}, **MARLIN), parameters=ABSENT, shows=[UNKNOWN]),
    info("gptq-marlin-24", quantised(
        ("B_24", "int32", 8, 256), ("B_meta", "int16", 256, 8), ("s", "float16", 2, 128), ("workspace", "int32", 64),
        quant_method="gptq_marlin_24", bits=4, group_size=128), parameters=PLAIN),
    info("marlin", quantised(("B", "int32", 16, 256), ("s", "float16", 2, 128), ("workspace", "int32", 16),
                             quant_method="marlin", group_size=128), parameters=PLAIN),
    info("bitmask", bitmask(32, (9000,)), parameters=PLAIN + 256, quantization=ABSENT),
    info("bitmask-of-two-of-four", bitmask(32, (128, 128)), parameters=PLAIN + 256),
    info("bitmask-of-float8", layer(
        ("compressed", "float8_e4m3fn", 128, 128), ("bitmask", "uint8", 128, 32), ("weight_scale", "float32", 128, 1)),
        parameters=PLAIN, quantization__name="FP8 E4M3"),
    info("bitmask-with-padded-rows", bitmask(33, (9000,)), parameters=ABSENT, shows=[UNKNOWN]),
    info("bitmask-with-fewer-bits-than-elements", bitmask(32, (PLAIN + 1,)), parameters=ABSENT),
))


def quip(dtype, *sizes, **config):
    return layer(("Qidxs", dtype, *sizes), ("SU", "float16", 256), ("SV", "float16", 128), ("Wscale", "float32"),
                 ("codebook_id", "int64"), **config)


Codebooks = table("Codebooks", (
    info("quip-sharp", quip("int64", 128, 8, quantization_config={"quant_method": "quip"}), parameters=PLAIN,
         quantization__bits=2),
    info("quip-sharp-of-int16", quip("int16", 128, 32), parameters=PLAIN),
    info("quip-sharp-of-three-bits", quip("int64", 128, 12), parameters=PLAIN, quantization__bits=3),
    info("quip-sharp-of-four-bits", quip("int64", 128, 16), parameters=PLAIN),
    info("quip-sharp-that-contradicts-itself", quip("int64", 128, 9), parameters=ABSENT, shows=[UNKNOWN]),
    info("quip-sharp-with-a-low-rank-branch", layer(
        ("Qidxs", "int16", 128, 32), ("SU", "float16", 256), ("SV", "float16", 128), ("A", "float16", 128, 8),
        ("B", "float16", 8, 256)), parameters=ABSENT, shows=[UNKNOWN]),
    info("qtip", layer(("trellis", "int16", 128, 32), ("SU", "float16", 256), ("SV", "float32", 128), ("tlut", "float16", 512, 2)),
         parameters=PLAIN),
    info("indices-and-a-codebook", module(("indices", "uint8", 128, 128), ("codebook", "float16", 16)), parameters=ABSENT,
         shows=[UNKNOWN]),
    info("higgs", quantised(
        ("weight", "int16", 32, 256), ("scales", "float16", 128, 1), ("tables", "float16", 16), ("tables2", "float32", 16, 16, 1),
        quant_method="higgs", bits=4, p=2, group_size=256), parameters=PLAIN, quantization__name="HIGGS 4-bit"),
    info("higgs-with-other-bits", quantised(
        ("weight", "int16", 16, 256), ("scales", "float16", 128, 1), ("tables", "float16", 16), quant_method="higgs", bits=4),
        parameters=ABSENT, shows=[UNKNOWN]),
    info("awq-of-int16", quantised(
        ("qweight", "int16", 32, 256), ("qzeros", "float16", 8, 128), ("scales", "float16", 8, 128), quant_method="awq", bits=4,
        group_size=64, version="gemv_fast"), parameters=PLAIN, quantization__name="AWQ 4-bit g64"),
    info("awq-of-int16-with-other-rows", quantised(
        ("qweight", "int16", 16, 256), ("qzeros", "float16", 8, 128), ("scales", "float16", 8, 128), quant_method="awq", bits=2,
        version="gemv_fast"), parameters=ABSENT, shows=[UNKNOWN]),
))

EXPERTS = "model.layers.0.mlp.experts."
FLOATS = (tensor("model.embed_tokens.weight", "float16", 1000, 256), tensor("model.norm.weight", "float16", 256))
COUNTED = 1000 * 256 + 256

Integers = table("Integers", (
    info("experts-without-scales", model(None, tensor(EXPERTS + "gate_up_proj", "int8", 4, 128, 256), *FLOATS), parameters=ABSENT,
         shows=[UNKNOWN]),
    info("codes-with-scales-of-another-name", module(("codes", "uint8", 128, 128), ("scl", "float16", 128, 4)), parameters=ABSENT,
         shows=[UNKNOWN]),
    info("codes-named-as-hidden", model(None, tensor("l.0.hidden_q", "int32", 4, 128, 256), *FLOATS), parameters=ABSENT),
    info("indices-of-positions", model(
        None, tensor("model.position_ids", "int64", 1, 512), tensor("layers.0.attn.relative_position_index", "int32", 490, 490),
        tensor("layers.0.attn.bias", "uint8", 1, 1, 1024, 1024), tensor("causal_mask", "uint8", 2048, 2048), *FLOATS),
        parameters=COUNTED, buffer_elements=512 + 490 * 490 + 1024 * 1024 + 2048 * 2048),
    info("few-integers", model(None, tensor("faces", "int32", 1000, 3), *FLOATS), parameters=COUNTED, buffer_elements=3000),
    info("few-integers-beside-packed-weights", model(
        None, tensor("l.0.q.weight", "int8", 128, 256), tensor("l.0.q.weight_scale", "float32", 128, 1),
        tensor("l.0.map", "int32", 4, 100)), parameters=PLAIN, buffer_elements=400),
    info("small-integers", model(None, tensor("a", "int32", 4, 6), tensor("b", "float32", 4, 6)), parameters=24,
         buffer_elements=24),
    info("integers-alone", model(None, tensor("images", "uint8", 100, 28, 28)), parameters=0, buffer_elements=78400),
))

GATHER = operation("Gather", "w", "ids", output="rows")


def dequantised(kind, scale, zero_point, *nodes):
    return onnx([("w", kind, 100, 64), ("s", FLOAT, *scale), ("z", kind, *zero_point), NORM], *nodes)


ROWS = operation("DequantizeLinear", "rows", "s", "z")

OnnxParameters = table("OnnxParameters", (
    info("gather-of-uint8", dequantised(UINT8, (1,), (1,), GATHER, ROWS), parameters=6400 + 256),
    info("gather-of-int8", dequantised(INT8, (), (), GATHER, ROWS), parameters=6400 + 256),
    info("gather-after-its-use", dequantised(UINT8, (1,), (1,), ROWS, GATHER), parameters=6400 + 256),
    info("gather-and-reshape", dequantised(
        UINT8, (64,), (64,), operation("Reshape", "w", "shape", output="v"), operation("Gather", "v", "ids", output="rows"), ROWS),
        parameters=6400 + 256),
    info("steps-in-a-circle", dequantised(UINT8, (1,), (1,), operation("Identity", "rows", output="v"),
                                          operation("Identity", "v", output="rows"), ROWS), parameters=6400 + 256),
    info("scales-of-activations", onnx(
        [("s", FLOAT, 1), ("z", UINT8, 1), NORM], operation("QuantizeLinear", "x", "s", "z", output="q"),
        operation("DequantizeLinear", "q", "s", "z")), parameters=256),
    info("scales-of-sums", onnx(
        [*((name + "s", FLOAT, 1) for name in "abc"), *((name + "z", UINT8, 1) for name in "abc"), ("b", UINT8, 64), NORM],
        operation("QLinearAdd", "a", "as", "az", "b", "bs", "bz", "cs", "cz")), parameters=64 + 256),
    info("scales-of-inputs-and-outputs", onnx(
        [("w", INT8, 8, 3, 3, 3), ("ws", FLOAT, 8), ("wz", INT8, 8), *((name, FLOAT, 1) for name in ("xs", "ys")),
         *((name, UINT8, 1) for name in ("xz", "yz"))],
        operation("QLinearConv", "x", "xs", "xz", "w", "ws", "wz", "ys", "yz")), parameters=8 * 27),
    info("names-of-the-quantizer", onnx(
        [("w_quantized", UINT8, 100, 64), ("w_scale", FLOAT, 1), ("w_zero_point", UINT8, 1), NORM],
        operation("ArgMax", "w_quantized")), parameters=6400 + 256),
    info("names-of-another-quantizer", onnx(
        [("w_packed", UINT8, 100, 64), ("w_scale", FLOAT, 1), ("w_zero_point", UINT8, 1)], operation("ArgMax", "w_packed")),
        parameters=ABSENT, shows=[UNKNOWN]),
))
