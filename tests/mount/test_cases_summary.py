"""Numbers of `info` that are right or absent: parameters of packed weights, the cache of attention, adapters."""
import json
import math
import os
import unittest

from cases import ABSENT, info, table
from mounting import Hole, Tensor, containers
import pickles
import protobuf

WIDTHS = {"int8": 1, "uint8": 1, "float8_e4m3fn": 1, "float8_e8m0fnu": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4,
          "uint32": 4, "float32": 4, "int64": 8}
UNKNOWN = "packed weights of an unknown kind"
PREFIX = "model.layers.0.self_attn.q_proj."


def tensor(name, dtype, *shape):
    return Tensor(name, dtype, shape, Hole(math.prod(shape) * WIDTHS[dtype]))


def model(config, *tensors, metadata=None, files=None, name="model.safetensors"):
    """A directory of a config.json and safetensors. `files`: further JSON."""
    def build(tmp):
        folder = os.path.join(tmp, "model")
        os.mkdir(folder)
        documents = dict(files or {})
        if config is not None:
            documents["config.json"] = config
        for path, document in documents.items():
            with open(os.path.join(folder, path), "w") as file:
                json.dump(document, file)
        containers.write_safetensors(os.path.join(folder, name), tensors, metadata)
        return folder
    return build


def layer(*tensors, prefix=PREFIX, metadata=None, **config):
    """A model with one module, whose tensors are (name, dtype, sizes)."""
    stated = {"model_type": "llama", **config}
    return model(stated, *(tensor(prefix + name, *rest) for name, *rest in tensors), metadata=metadata)


def quantised(*tensors, **quantisation):
    return layer(*tensors, quantization_config=quantisation)


TORCHAO = {PREFIX + "weight": json.dumps({"_type": "Int4Tensor", "_data": {"block_size": [1, 128], "shape": [128, 256]}})}
INT4 = (("_weight_qdata", "uint8", 128, 128), ("_weight_scale", "bfloat16", 2, 128), ("_weight_zero_point", "bfloat16", 2, 128))
SVDQUANT = {"quantization_config": json.dumps({"method": "svdquant", "weight": {"dtype": "int4", "group_size": 64}})}
EXPERT = ("experts.0.w1.weight", "int8", 128, 128), ("experts.0.w1.scale", "float8_e8m0fnu", 128, 8)

SafetensorsParameters = table("SafetensorsParameters", (
    info("params-ao_i4", layer(*INT4, metadata=TORCHAO, quantization_config={"quant_method": "torchao"}), parameters=32768,
         bits_per_weight=4.25),
    info("torchao-groups-of-the-config", quantised(*INT4, quant_method="torchao", quant_type={
        "default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}}}), parameters=32768),
    info("torchao-without-a-shape", quantised(*INT4, quant_method="torchao"), parameters=ABSENT, bits_per_weight=ABSENT,
         shows=[UNKNOWN]),
    info("torchao-int8", quantised(("_weight_qdata", "int8", 64, 32), ("_weight_scale", "float32", 64, 1),
                                   quant_method="torchao"), parameters=2048),
    info("torchao-float8", quantised(("_weight_qdata", "float8_e4m3fn", 64, 32), ("_weight_scale", "float32", 64, 1),
                                     quant_method="torchao"), parameters=2048),
    info("params-dsv4", layer(*EXPERT, ("wq.weight", "float8_e4m3fn", 256, 128), ("wq.scale", "float8_e8m0fnu", 2, 1),
                              prefix="layers.0.", expert_dtype="fp4", quantization_config={"quant_method": "fp8"}),
         parameters=128 * 256 + 256 * 128),
    info("experts-of-e8m0-without-a-config", model(None, *(tensor("layers.0." + name, *rest) for name, *rest in EXPERT)),
         parameters=32768, quantization__name="MXFP4"),
    info("params-gptoss_orig", model(
        {"model_type": "gpt_oss", "num_experts": 4, "experts_per_token": 2, "num_hidden_layers": 1},
        tensor("block.0.mlp.mlp1_weight.blocks", "uint8", 4, 256, 8, 16),
        tensor("block.0.mlp.mlp1_weight.scales", "uint8", 4, 256, 8), tensor("block.0.mlp.mlp1_bias", "bfloat16", 4, 256),
        tensor("embedding.weight", "bfloat16", 100, 256)), parameters=4 * 256 * 256 + 4 * 256 + 100 * 256,
        parameters_active=2 * 256 * 256 + 2 * 256 + 100 * 256, quantization__name="MXFP4"),
    info("params-int-weight-plain_i8", layer(("weight", "int8", 128, 256)), parameters=ABSENT, buffer_elements=ABSENT,
         shows=[UNKNOWN]),
    info("params-int-weight-smoothq", layer(("weight", "int8", 128, 256), ("scale", "float32"), ("bias", "float32", 128)),
         parameters=32896),
    info("params-int-weight-w4afp8", layer(
        ("weight", "int8", 128, 128), ("weight_scale_inv", "bfloat16", 128, 2), ("input_scale", "float32", 1),
        prefix="model.layers.0.mlp.experts.0.gate_proj.",
        quantization_config={"quant_method": "w4afp8", "weight_block_size": [128, 128]}), parameters=32768,
        quantization__name="W4AFP8 4-bit", quantization__bits=4),
    info("blocks-of-int8", quantised(("weight", "int8", 256, 256), ("weight_scale_inv", "float32", 2, 2),
                                     quant_method="blockwise_int8", weight_block_size=[128, 128]), parameters=65536),
    info("groups-of-an-unknown-size", layer(("weight", "int8", 128, 128), ("weight_scale", "bfloat16", 128, 2)),
         parameters=ABSENT, shows=[UNKNOWN]),
    info("int8-with-scales-of-rows", layer(("weight", "int8", 64, 32), ("weight_scale", "float32", 64, 1)), parameters=2048),
    info("eetq", quantised(("weight", "int8", 32, 64), ("weight_scales", "float16", 64), quant_method="eetq"), parameters=2048),
    info("float8-with-a-scale-beside", layer(("weight", "float8_e4m3fn", 64, 32), ("scale", "float32", 1, 1)), parameters=2048),
    info("float8-of-comfyui", model(None, tensor("blocks.0.q.weight", "float8_e4m3fn", 64, 32),
                                    tensor("blocks.0.q.scale_weight", "float32")), parameters=2048),
    info("params-nunchaku", layer(
        ("qweight", "int8", 128, 128), ("wscales", "bfloat16", 4, 128), ("smooth_factor", "bfloat16", 256),
        ("proj_down", "bfloat16", 256, 32), ("proj_up", "bfloat16", 128, 32), ("bias", "bfloat16", 128), metadata=SVDQUANT),
        parameters=ABSENT, quantization__method="svdquant", shows=[UNKNOWN]),
    info("modelopt-int4-packed-along-rows", quantised(
        ("weight", "uint8", 64, 256), ("weight_scale", "float16", 128, 2), ("pre_quant_scale", "float16", 256),
        quant_method="modelopt", quant_algo="W4A16_AWQ", group_size=128), parameters=32768),
    info("fp-quant", quantised(("qweight", "uint8", 64, 32), ("scales", "uint8", 64, 2), ("weight_global_scale", "float32", 1),
                               ("forward_hadamard_matrix", "bfloat16", 32, 32), quant_method="fp_quant"), parameters=4096),
    info("hqq-of-three-bits", quantised(
        ("W_q", "int32", 7, 64), ("scale", "float16", 64, 1), ("zero", "float16", 64, 1), quant_method="hqq",
        quant_config={"weight_quant_params": {"nbits": 3, "group_size": 64}}), parameters=4096),
    info("aqlm-by-its-codebooks", quantised(
        ("codes", "int16", 64, 4, 1), ("codebooks", "float16", 1, 65536, 1, 8), ("scales", "float16", 64, 1, 1, 1),
        quant_method="aqlm"), parameters=64 * 32),
    info("vptq-by-its-sizes", quantised(
        ("indices", "int16", 1, 32, 8), ("centroids", "float16", 1, 4096), quant_method="vptq",
        config_for_layers={PREFIX[:-1]: {"in_features": 64, "out_features": 32}}), parameters=2048),
    info("spqr-is-not-known", quantised(("dense_weights", "int64", 1, 512), ("row_offsets", "int32", 4, 65),
                                        quant_method="spqr"), parameters=ABSENT, shows=[UNKNOWN]),
    info("quanto-int4", quantised(("weight._data", "uint8", 64, 16), ("weight._scale", "float16", 8, 1),
                                  ("weight._shift", "float16", 8, 1), quant_method="quanto", weights="int4"), parameters=2048),
    info("quanto-int8", quantised(("weight._data", "int8", 64, 32), ("weight._scale", "float16", 64, 1), quant_method="quanto",
                                  weights="int8"), parameters=2048),
    info("mlx-without-a-config", model(None, tensor("l.weight", "uint32", 32, 8), tensor("l.scales", "float16", 32, 2),
                                       tensor("l.biases", "float16", 32, 2)), parameters=ABSENT, shows=[UNKNOWN]),
    info("mlx-mxfp4-by-its-shapes", model(None, tensor("l.weight", "uint32", 32, 8), tensor("l.scales", "uint8", 32, 2)),
         parameters=2048),
    info("mlx-nvfp4", model({"model_type": "llama", "quantization": {"bits": 4, "group_size": 16, "mode": "nvfp4"}},
                            tensor("l.weight", "uint32", 32, 8), tensor("l.scales", "uint8", 32, 4)), parameters=2048),
    info("config-gptq-group-size", quantised(
        ("qweight", "int32", 8, 64), ("qzeros", "int32", 1, 8), ("scales", "float16", 1, 64), quant_method="gptq", bits=4,
        group_size=-1), parameters=4096, quantization__name="GPTQ 4-bit", quantization__group_size=ABSENT, warnings=ABSENT),
    info("scales-of-the-cache-are-companions", layer(
        ("weight", "float8_e4m3fn", 64, 32), ("weight_scale", "float32"), ("k_scale", "float32", 1)), parameters=2048),
    info("unknown-part-of-the-embedding", model(
        {"model_type": "llama", "num_hidden_layers": 1}, tensor("model.embed_tokens.weight", "uint8", 100, 32),
        tensor("model.layers.0.mlp.up_proj.weight", "bfloat16", 8, 8)), parameters=ABSENT, parameters_embedding=ABSENT,
        dtype="uint8"),
))


def mlc(quantization, *tensors):
    def build(tmp):
        records = []
        for name, dtype, *shape in tensors:
            size = math.prod(shape) * WIDTHS[dtype]
            records.append({"name": name, "shape": shape, "dtype": dtype, "format": "raw", "nbytes": size,
                            "byteOffset": sum(record["nbytes"] for record in records)})
        total = sum(record["nbytes"] for record in records)
        shard = {"dataPath": "params_shard_0.bin", "format": "raw-shard", "nbytes": total, "records": records}
        chat = {"model_type": "llama", "quantization": quantization, "context_window_size": 4096,
                "model_config": {"hidden_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4,
                                 "context_window_size": 4096, "vocab_size": 1000}}
        for name, document in (("tensor-cache.json", {"metadata": {}, "records": [shard]}), ("mlc-chat-config.json", chat)):
            with open(os.path.join(tmp, name), "w") as file:
                json.dump(document, file)
        with open(os.path.join(tmp, "params_shard_0.bin"), "wb") as file:
            file.truncate(total)
        return tmp
    return build


MlcParameters = table("MlcParameters", (
    info("mlc-named-exl2", mlc(
        "q4f16_1", ("model.embed_tokens.q_weight", "uint32", 1000, 16), ("model.embed_tokens.q_scale", "float16", 1000, 4),
        ("model.layers.0.input_layernorm.weight", "float16", 128)), parameters=128128, quantization__name="MLC q4f16_1",
        quantization__method="mlc", quantization__bits=4, architecture="llama", context_length=4096),
    info("three-bits-have-padded-rows", mlc("q3f16_1", ("l.q_weight", "uint32", 64, 16), ("l.q_scale", "float16", 64, 4)),
         parameters=ABSENT, quantization__name="MLC q3f16_1", shows=[UNKNOWN]),
    info("columns-first", mlc("q4f16_0", ("l.q_weight", "uint32", 16, 64), ("l.q_scale", "float16", 4, 64)), parameters=8192),
    info("plain-types", mlc("q0f16", ("l.weight", "float16", 64, 64)), parameters=4096, quantization=ABSENT),
))

UINT8, INT8, INT32 = 2, 3, 6


def onnx(initializers, *nodes):
    """`initializers`: (name, type, sizes); nodes as of onnx_node."""
    def build(tmp):
        path = os.path.join(tmp, "model.onnx")
        sizes = {protobuf.ONNX_FLOAT: 4, INT32: 4, UINT8: 1, INT8: 1}
        tensors = [protobuf.onnx_tensor(name, kind, shape, protobuf.data(9, bytes(math.prod(shape) * sizes[kind])))
                   for name, kind, *shape in initializers]
        with open(path, "wb") as file:
            file.write(protobuf.onnx_model(protobuf.onnx_graph(tensors, nodes)))
        return path
    return build


def operation(kind, *inputs, output="y", **attributes):
    fields = [protobuf.data(1, name) + protobuf.number(3, number) + protobuf.number(20, 2) for name, number in attributes.items()]
    return protobuf.onnx_node(kind, inputs, (output,), *fields) + protobuf.data(7, "com.microsoft")


FLOAT = protobuf.ONNX_FLOAT
NORM = ("norm", FLOAT, 256)


def n_bits(weights, scales, zeros):
    return onnx([(weights, UINT8, 128, 8, 16), (scales, FLOAT, 1024), (zeros, UINT8, 512), NORM],
                operation("MatMulNBits", "x", weights, scales, zeros, K=256, N=128, bits=4, block_size=32))


OnnxParameters = table("OnnxParameters", (
    info("params-onnx-q4g32", n_bits("w_Q4G32", "w_scale", "w_zp"), parameters=33024, quantization__name="MatMulNBits 4-bit",
         quantization__bits=4, quantization__group_size=32),
    info("onnx-nbits-named-awq", n_bits("w.qweight", "w.scales", "w.qzeros"), parameters=33024,
         quantization__name="MatMulNBits 4-bit"),
    info("params-onnx-bnb4", onnx([("w_Bnb4", UINT8, 16384), ("w_absmax", FLOAT, 512), NORM], operation(
        "MatMulBnb4", "x", "w_Bnb4", "w_absmax", K=256, N=128, block_size=64, quant_type=1)), parameters=33024),
    info("more-than-is-stored", onnx([("w", UINT8, 128, 8, 16), ("s", FLOAT, 1024)], operation(
        "MatMulNBits", "x", "w", "s", K=1 << 40, N=1 << 30, bits=4, block_size=32)), parameters=ABSENT, shows=[UNKNOWN]),
    info("experts", onnx([("w", UINT8, 4, 64, 32), ("s", FLOAT, 4, 64)], operation(
        "QMoE", "x", "router", "w", "s", expert_weight_bits=4)), parameters=4 * 64 * 64),
    info("embedding-in-blocks", onnx([("w", UINT8, 100, 32), ("s", FLOAT, 100, 2)], operation(
        "GatherBlockQuantized", "w", "ids", "s", bits=4, block_size=32)), parameters=6400),
    info("scales-of-dequantised-weights", onnx(
        [("w", INT8, 64, 32), ("s", FLOAT, 64), ("z", INT8, 64), ("b", INT32, 64), ("t", FLOAT, 64)],
        operation("DequantizeLinear", "w", "s", "z"), operation("DequantizeLinear", "b", "t")), parameters=64 * 32 + 64),
    info("scales-of-convolutions", onnx(
        [("w", INT8, 8, 3, 3, 3), ("ws", FLOAT, 8), ("wz", INT8, 8), ("b", INT32, 8)],
        operation("QLinearConv", "x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b")), parameters=8 * 27 + 8),
    info("scales-by-name", onnx([("w_quantized", INT8, 64, 32), ("w_scale", FLOAT, 32), ("w_zero_point", INT8, 32)],
                                operation("MatMulInteger", "x", "w_quantized", "xz", "w_zero_point")), parameters=2048),
))


def checkpoint(**objects):
    """A checkpoint of PyTorch. In dicts and lists a tuple is a tensor of float32 with these sizes."""
    def build(tmp):
        path = os.path.join(tmp, "ckpt.pt")
        storages = []

        def opcodes(content):
            if isinstance(content, dict):
                return pickles.dictionary([(name, opcodes(item)) for name, item in content.items()])
            if isinstance(content, list):
                return b"(" + b"".join(map(opcodes, content)) + b"l"
            if not isinstance(content, tuple):
                return pickles.value(content)
            storages.append(bytes(4 * math.prod(content)))
            return pickles.tensor(pickles.storage("Float", str(len(storages) - 1), math.prod(content)), content)

        pickles.write_checkpoint(path, opcodes(objects), storages)
        return path
    return build


MODEL = {"a.weight": (64, 64), "a.bias": (64,), "head.weight": (10, 64)}
ADAM = {f"state.{i}.{slot}": shape for i, shape in enumerate(MODEL.values()) for slot in ("exp_avg", "exp_avg_sq")}
COUNTED = {"parameters": 4800, "weight_bytes": 19200, "optimizer_elements": 9600}

TrainingCheckpoints = table("TrainingCheckpoints", (
    info("params-train-optimizer", checkpoint(model=MODEL, optimizer=ADAM, iter_num=7), **COUNTED),
    info("as-the-tutorial-of-pytorch", checkpoint(model_state_dict=MODEL, optimizer_state_dict=ADAM), **COUNTED),
    info("of-lightning", checkpoint(state_dict=MODEL, optimizer_states=ADAM, lr_schedulers={}), **COUNTED),
    info("of-two-optimizers", checkpoint(netG=MODEL, optimG=ADAM), **COUNTED),
    info("of-timm-with-an-average", checkpoint(state_dict=MODEL, state_dict_ema=MODEL), parameters=4800, optimizer_elements=4800),
    info("an-average-alone", checkpoint(params_ema=MODEL), parameters=4800, optimizer_elements=ABSENT),
    info("of-lightning-with-an-average", checkpoint(state_dict={
        **{f"model.{name}": shape for name, shape in MODEL.items()}, "model_ema.decay": (),
        **{f"model_ema.{name.replace('.', '')}": shape for name, shape in MODEL.items()}}), parameters=4800),
    info("state-alone", checkpoint(state={name[6:]: shape for name, shape in ADAM.items()}), parameters=0,
         optimizer_elements=9600),
    info("scalars-of-a-trainer", checkpoint(state_dict=MODEL, best_acc1=(), anything=(), optimizer=ADAM), parameters=4800),
    info("scalars-beside-a-model", checkpoint(model=MODEL, best_loss=(), epoch=(), logit_scale=()), parameters=4801),
    info("scalars-in-an-object", checkpoint(model=MODEL, metrics={"acc": (), "loss": ()}, temperature={"scale": ()}),
         parameters=4801),
    info("scalar-of-a-model", checkpoint(**{**MODEL, "logit_scale": ()}), parameters=4801, optimizer_elements=ABSENT),
    info("optimizer-under-any-name", checkpoint(net=MODEL, opt={"state": {
        str(i): {"step": (), "exp_avg": shape, "exp_avg_sq": shape} for i, shape in enumerate(MODEL.values())}},
        scaler={"scale": 65536.0, "_growth_tracker": 0}), parameters=4800, optimizer_elements=9603),
    info("of-torch-ema", checkpoint(state_dict=MODEL, ema={"decay": 0.99, "shadow_params": list(MODEL.values()),
                                                           "collected_params": []}), **{**COUNTED, "optimizer_elements": 4800}),
    info("of-torch-ema-alone", checkpoint(decay=0.99, shadow_params=list(MODEL.values())), parameters=4800),
    info("of-averaged-model", checkpoint(model=MODEL, swa_model={
        "n_averaged": (), **{f"module.{name}": shape for name, shape in MODEL.items()}}), parameters=4800),
    info("of-averaged-model-of-ddp", checkpoint(
        state_dict={f"module.{name}": shape for name, shape in MODEL.items()},
        avg_model={f"module.module.{name}": shape for name, shape in MODEL.items()}), parameters=4800),
    info("scalar-beside-a-module-named-optimizer", checkpoint(**{**MODEL, "optimizer_net.weight": (8, 8), "logit_scale": ()}),
         parameters=4865),
    info("module-named-avg", checkpoint(**{"avg.weight": (64,), "norm.weight": (64,), "avg_pool.weight": (64,)}), parameters=192),
    info("state-as-a-name-of-a-model", checkpoint(state=MODEL), parameters=4800, optimizer_elements=ABSENT),
))

HEADS = {"num_attention_heads": 4, "head_dim": 16, "hidden_size": 64, "vocab_size": 100}


def cache(*tensors, **config):
    return model({"model_type": "new", "architectures": ["NewForCausalLM"], **HEADS, **config},
                 tensor("model.embed_tokens.weight", "bfloat16", 100, 64), *tensors)


KIMI = {"num_hidden_layers": 4, "kv_lora_rank": 32, "qk_rope_head_dim": 8, "model_max_length": 1048576, "linear_attn_config": {
    "full_attn_layers": [4], "kda_layers": [1, 2, 3], "head_dim": 16, "num_heads": 4, "short_conv_kernel_size": 4}}
MIMO = {"num_hidden_layers": 6, "num_key_value_heads": 1, "head_dim": 24, "v_head_dim": 16, "swa_num_key_value_heads": 2,
        "swa_head_dim": 24, "swa_v_head_dim": 16, "sliding_window": 128, "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0],
        "max_position_embeddings": 262144}
STEP = {"num_hidden_layers": 4, "num_attention_groups": 2, "sliding_window": 512, "max_position_embeddings": 262144,
        "layer_types": ["full_attention"] + ["sliding_attention"] * 3}
PLAIN = {"num_hidden_layers": 4, "num_key_value_heads": 2, "max_position_embeddings": 1000}  # 128 bytes per layer

Caches = table("Caches", (
    info("kv-kimi", cache(**KIMI), kv_cache__bytes_per_token=80, context_length=1048576),
    info("kv-mimo", cache(**MIMO), kv_cache__bytes_per_token=800, kv_cache__bytes_at_context=42024960),
    info("kv-step35", cache(**STEP), kv_cache__bytes_per_token=512, kv_cache__bytes_at_context=33751040, attention="GQA"),
    info("kv-step35-with-other-heads", cache(**STEP, attention_other_setting={
        "attention_type": "sliding_attention", "num_attention_groups": 1, "head_dim": 32}), kv_cache__bytes_per_token=512,
        kv_cache__bytes_at_context=33751040),
    info("lightning-attention", cache(**PLAIN, attn_type_list=[0, 0, 0, 1]), kv_cache__bytes_per_token=128,
         kv_cache__bytes_at_context=ABSENT),
    info("shared-across-layers", cache(**PLAIN, use_cla=True, cla_share_factor=2), kv_cache__bytes_per_token=256),
    info("shared-across-layers-is-off", cache(**PLAIN, use_cla=False, cla_share_factor=2), kv_cache__bytes_per_token=512),
    info("last-layers-share", cache(**PLAIN, num_kv_shared_layers=1), kv_cache__bytes_per_token=384),
    info("letters-of-windows", cache(**PLAIN, sliding_window=10, sliding_window_pattern="LLLG"),
         kv_cache__bytes_at_context=128 * (3 * 10 + 1000)),
    info("llama4-layers-without-positions", cache(**PLAIN, attention_chunk_size=10, no_rope_layers=[1, 1, 1, 0]),
         kv_cache__bytes_at_context=128 * (3 * 10 + 1000)),
    info("layers-that-attend-to-images", cache(**PLAIN, cross_attention_layers=[1]), kv_cache__bytes_per_token=384),
    info("compression-that-is-off", cache(**PLAIN, use_mla=False, kv_lora_rank=512), kv_cache__bytes_per_token=512),
    info("falcon-with-one-head", cache(model_type="falcon", num_hidden_layers=4, multi_query=True, num_kv_heads=4,
                                       new_decoder_architecture=False), kv_cache__bytes_per_token=256, attention="MQA"),
    info("falcon-with-groups", cache(model_type="falcon", num_hidden_layers=4, multi_query=True, num_kv_heads=2,
                                     new_decoder_architecture=True), kv_cache__bytes_per_token=512, attention="GQA"),
    info("mpt-with-one-head", cache(num_hidden_layers=4, attn_config={"attn_type": "multiquery_attention"}),
         kv_cache__bytes_per_token=256, attention="MQA"),
    info("mpt-with-groups", cache(num_hidden_layers=4, attn_config={"attn_type": "grouped_query_attention", "kv_n_heads": 2}),
         kv_cache__bytes_per_token=512),
    info("plamo", cache(num_hidden_layers=4, n_shared_head=2), kv_cache__bytes_per_token=512),
    info("loops-over-layers", cache(**PLAIN, total_ut_steps=4), kv_cache=ABSENT),
    info("striped-hyena", cache(**PLAIN, attn_layer_idxs=[1, 3], hyena_layer_idxs=[0, 2]), kv_cache=ABSENT),
    info("eva", cache(**PLAIN, attention_class="eva", window_size=10), kv_cache=ABSENT),
    info("places-of-attention", cache(**PLAIN, attn_layers=[1]), kv_cache=ABSENT),
    info("attention-every-so-many", cache(**PLAIN, attn_every=2), kv_cache=ABSENT),
    info("places-of-windows", cache(**PLAIN, sliding_window=10, sliding_window_layers=[0, 1]), kv_cache=ABSENT),
    info("window-of-an-unknown-family", cache(**PLAIN, sliding_window=10), kv_cache__bytes_per_token=512,
         kv_cache__bytes_at_context=ABSENT),
    info("window-of-a-known-family", cache(**{**PLAIN, "model_type": "mistral"}, sliding_window=10),
         kv_cache__bytes_at_context=5120),
    info("window-of-all-tokens", cache(**PLAIN, sliding_window=1000), kv_cache__bytes_at_context=512000),
    info("unknown-type-of-layer", cache(**PLAIN, layer_types=["full_attention"] * 3 + ["compressed_sparse_attention"]),
         kv_cache=ABSENT),
    info("unknown-pattern", cache(**PLAIN, attention_layer_pattern=[1, 0, 1, 0]), kv_cache=ABSENT),
    info("unknown-linear-attention", cache(**PLAIN, linear_attn_every=2), kv_cache=ABSENT),
    info("unknown-sharing-of-keys", cache(**PLAIN, kv_reuse_group=[[0, 1]]), kv_cache=ABSENT),
    info("zamba-has-wider-heads", cache(model_type="zamba2", num_hidden_layers=6, hybrid_layer_ids=[2, 5], kv_channels=16,
                                        attention_head_dim=32, layers_block_type=["mamba", "mamba", "hybrid"] * 2,
                                        mamba_d_state=16), kv_cache__bytes_per_token=2 * 2 * 4 * 32 * 2),
    info("zamba-without-the-size-of-its-heads", cache(
        model_type="zamba2", num_hidden_layers=6, layers_block_type=["mamba", "mamba", "hybrid"] * 2),
        kv_cache__bytes_per_token=2 * 2 * 4 * 32 * 2),
    info("blocks-of-their-own", cache(**PLAIN, block_configs=[{"attention": {"no_op": True}}]), kv_cache=ABSENT),
    info("states-without-their-layers", cache(**PLAIN, mamba_d_state=16), kv_cache=ABSENT),
    info("rows-that-contradict", cache(tensor(PREFIX.replace("q_", "k_") + "weight", "bfloat16", 16, 64), **PLAIN),
         kv_cache=ABSENT),
))

LORA = "base_model.model.model.layers.0.mlp.experts."
TARGETS = ["mlp.experts.down_proj", "mlp.experts.gate_up_proj"]
PEFT = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": None, "base_model_name_or_path": "org/base"}
MLX = {"model": "org/base", "fine_tune_type": "lora", "lora_parameters": {"rank": 8, "scale": 20.0}}
OF_MLX = (tensor("model.layers.0.self_attn.q_proj.lora_a", "float32", 64, 8),
          tensor("model.layers.0.self_attn.q_proj.lora_b", "float32", 8, 96))
OF_EXPERTS = (tensor(LORA + "base_layer.lora_A.weight", "float32", 32, 64),
              tensor(LORA + "base_layer.lora_B.weight", "float32", 192, 32),
              tensor(LORA + "lora_A.weight", "float32", 32, 96), tensor(LORA + "lora_B.weight", "float32", 64, 32))


def adapter(tensors, config, name):
    build = model(None, *tensors, files={"adapter_config.json": config} if config else None, name=name)
    return lambda tmp: os.path.join(build(tmp), name)


Adapters = table("Adapters", (
    info("lora-target-parameters", adapter(OF_EXPERTS, {**PEFT, "target_parameters": TARGETS}, "adapter_model.safetensors"),
         adapter__target_modules=TARGETS, adapter__rank=8, adapter__base_model="org/base"),
    info("lora-target-parameters-not-listed", adapter(OF_EXPERTS, PEFT, "adapter_model.safetensors"),
         adapter__target_modules=["experts"]),
    info("mlx-lora-directory", adapter(OF_MLX, MLX, "adapters.safetensors"), kind="adapter", adapter__rank=8,
         adapter__base_model="org/base", adapter__target_modules=["q_proj"], adapter__method="LORA", parameters=64 * 8 + 8 * 96),
    info("mlx-lora-alone", adapter(OF_MLX, None, "adapters.safetensors"), adapter__rank=8),
))


def fork_type(tmp):
    """A matrix of a type of ik_llama.cpp, whose shape is logical."""
    path = os.path.join(tmp, "model.gguf")
    tensors = (tensor("token_embd.weight", "float32", 10, 256), Tensor("blk.0.ffn_down.weight", "fork", (64, 256), Hole(6656)))
    containers.DTYPES["fork"] = containers.DType(None, 156)
    containers.write_gguf(path, tensors, {"general.architecture": "llama", "llama.block_count": 1, "general.file_type": 154})
    return path


def llama4(**keys):
    """Eight layers of 128 bytes per token. A key is one of attention."""
    def build(tmp):
        path = os.path.join(tmp, "model.gguf")
        attention = {"head_count": 4, "head_count_kv": 2, "key_length": 16, "value_length": 16, **keys}
        stated = {"block_count": 8, "context_length": 1 << 20, "embedding_length": 64,
                  **{f"attention.{key}": value for key, value in attention.items()}}
        containers.write_gguf(path, [tensor("token_embd.weight", "float16", 100, 64)], {
            "general.architecture": "llama4", **{f"llama4.{key}": value for key, value in stated.items()}})
        return path
    return build


GgufCaches = table("GgufCaches", (
    info("chunks-of-llama4", llama4(), kv_cache__bytes_per_token=1024, kv_cache__bytes_at_context=128 * (2 * (1 << 20) + 6 * 8192)),
    info("chunks-that-are-stated", llama4(chunk_size=1024), kv_cache__bytes_at_context=128 * (2 * (1 << 20) + 6 * 1024)),
    info("no-chunks", llama4(sliding_window=0), kv_cache__bytes_at_context=1024 << 20),
))


def unknown_type(tmp):
    containers.DTYPES["unknown"] = containers.DType("F5_E9")
    WIDTHS["unknown"] = 1
    return layer(("weight", "unknown", 8, 8), ("bias", "float32", 8))(tmp)


UnknownTypes = table("UnknownTypes", (
    info("matrix-of-an-unknown-type", unknown_type, parameters=ABSENT, buffer_elements=ABSENT, shows=[UNKNOWN]),
))

GgufParameters = table("GgufParameters", (
    info("gguf-ik-type-params", fork_type, parameters=2560 + 16384, bits_per_weight=round(8 * (10240 + 6656) / 18944, 2),
         dtype="ggml-156"),
))

if __name__ == "__main__":
    unittest.main()
