"""Parameters of packed weights whose bits differ from module to module, or whose rows are padded: right or absent."""
from cases import ABSENT, info, table
from test_cases_summary import UNKNOWN, model, quantised, tensor

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
