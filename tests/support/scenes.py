"""Models as people hold them, with the names, shapes, types and keys of the real ones; the numbers are holes that take no space, so
that a directory of fifty gigabytes is written in a second. For pictures and for golden screens."""
import io
import json
import os
import zipfile

import containers
import demo
from containers import GGUF_I32, Typed, write_gguf, write_safetensors
from protobuf import data, number, onnx_graph, onnx_model, onnx_node, onnx_tensor, onnx_value
from tensors import Hole, Tensor

HALF, FULL = "float16", "float32"
BLOCKS = {"q4_k": (256, 144), "q6_k": (256, 210), FULL: (1, 4), HALF: (1, 2), "bfloat16": (1, 2)}  # elements, bytes
LLAMA_TEMPLATE = ("{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' "
                  "+ message['content'] | trim + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}"
                  "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}")


def hole(name, dtype, *shape):
    """A tensor of zeros."""
    elements, size = BLOCKS[dtype]
    count = 1
    for length in shape:
        count *= length
    return Tensor(name, dtype, shape, Hole(count // elements * size))


def more_bits(layer, layers):
    """Whether the converter gives this layer's attn_v and ffn_down more bits in Q4_K_M."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def vocabulary(size, special):
    words = [f"\u0120word{index}" for index in range(size - len(special))]
    return [*words, *special]


def tokenizer_keys(model, pre, size, special, template):
    tokens = vocabulary(size, special)
    return {"tokenizer.ggml.model": model, "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [Typed(GGUF_I32, 3 if token.startswith("<|") else 1) for token in tokens],
            "tokenizer.ggml.merges": [f"w o{index}" for index in range(1000)],
            "tokenizer.ggml.bos_token_id": size - len(special), "tokenizer.ggml.eos_token_id": size - 1,
            "tokenizer.chat_template": template}


def llama_8b_tensors(layers=32, hidden=4096, inner=14336, keys=1024, size=128_256):
    tensors = [hole("token_embd.weight", "q4_k", size, hidden)]
    for layer in range(layers):
        rich = "q6_k" if more_bits(layer, layers) else "q4_k"
        at = f"blk.{layer}"
        tensors += [hole(f"{at}.attn_norm.weight", FULL, hidden), hole(f"{at}.ffn_down.weight", rich, hidden, inner),
                    hole(f"{at}.ffn_gate.weight", "q4_k", inner, hidden), hole(f"{at}.ffn_up.weight", "q4_k", inner, hidden),
                    hole(f"{at}.ffn_norm.weight", FULL, hidden), hole(f"{at}.attn_k.weight", "q4_k", keys, hidden),
                    hole(f"{at}.attn_output.weight", "q4_k", hidden, hidden), hole(f"{at}.attn_q.weight", "q4_k", hidden, hidden),
                    hole(f"{at}.attn_v.weight", rich, keys, hidden)]
    return [*tensors, hole("output_norm.weight", FULL, hidden), hole("output.weight", "q6_k", size, hidden),
            hole("rope_freqs.weight", FULL, 64)]


def llama_8b(path):
    """Llama 3.1 8B Instruct as Q4_K_M."""
    special = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"]
    write_gguf(path, llama_8b_tensors(), {
        "general.architecture": "llama", "general.type": "model", "general.name": "Meta Llama 3.1 8B Instruct",
        "general.basename": "Meta-Llama-3.1", "general.finetune": "Instruct", "general.size_label": "8B",
        "general.license": "llama3.1", "general.tags": ["facebook", "meta", "pytorch", "llama", "text-generation"],
        "general.languages": ["en", "de", "fr", "it", "pt", "hi", "es", "th"], "general.file_type": 15,
        "general.quantization_version": 2, "llama.block_count": 32, "llama.context_length": 131_072,
        "llama.embedding_length": 4096, "llama.feed_forward_length": 14_336, "llama.attention.head_count": 32,
        "llama.attention.head_count_kv": 8, "llama.rope.freq_base": 500_000.0, "llama.vocab_size": 128_256,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.dimension_count": 128,
        **tokenizer_keys("gpt2", "llama-bpe", 128_256, special, LLAMA_TEMPLATE)})


def qwen_moe(path, layers=48, hidden=2048, experts=128, inner=768, size=151_936):
    """Qwen3 30B A3B as Q4_K_M: 128 experts of which 8 are used."""
    tensors = [hole("token_embd.weight", "q4_k", size, hidden)]
    for layer in range(layers):
        rich = "q6_k" if more_bits(layer, layers) else "q4_k"
        at = f"blk.{layer}"
        tensors += [hole(f"{at}.attn_norm.weight", FULL, hidden), hole(f"{at}.attn_q.weight", "q4_k", 4096, hidden),
                    hole(f"{at}.attn_k.weight", "q4_k", 512, hidden), hole(f"{at}.attn_v.weight", rich, 512, hidden),
                    hole(f"{at}.attn_q_norm.weight", FULL, 128), hole(f"{at}.attn_k_norm.weight", FULL, 128),
                    hole(f"{at}.attn_output.weight", "q4_k", hidden, 4096), hole(f"{at}.ffn_norm.weight", FULL, hidden),
                    hole(f"{at}.ffn_gate_inp.weight", FULL, experts, hidden),
                    hole(f"{at}.ffn_gate_exps.weight", "q4_k", experts, inner, hidden),
                    hole(f"{at}.ffn_up_exps.weight", "q4_k", experts, inner, hidden),
                    hole(f"{at}.ffn_down_exps.weight", rich, experts, hidden, inner)]
    tensors += [hole("output_norm.weight", FULL, hidden), hole("output.weight", "q6_k", size, hidden)]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    write_gguf(path, tensors, {
        "general.architecture": "qwen3moe", "general.type": "model", "general.name": "Qwen3 30B A3B Instruct 2507",
        "general.license": "apache-2.0", "general.size_label": "30B-A3B", "general.file_type": 15,
        "general.quantization_version": 2, "qwen3moe.block_count": layers, "qwen3moe.context_length": 262_144,
        "qwen3moe.embedding_length": hidden, "qwen3moe.feed_forward_length": 6144, "qwen3moe.attention.head_count": 32,
        "qwen3moe.attention.head_count_kv": 4, "qwen3moe.attention.key_length": 128, "qwen3moe.attention.value_length": 128,
        "qwen3moe.expert_count": experts, "qwen3moe.expert_used_count": 8, "qwen3moe.expert_feed_forward_length": inner,
        "qwen3moe.rope.freq_base": 10_000_000.0, "qwen3moe.attention.layer_norm_rms_epsilon": 1e-6,
        **tokenizer_keys("gpt2", "qwen2", size, special, template)})


QWEN_CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151_643, "eos_token_id": 151_645,
    "hidden_act": "silu", "hidden_size": 1536, "initializer_range": 0.02, "intermediate_size": 8960,
    "max_position_embeddings": 32_768, "max_window_layers": 21, "model_type": "qwen2", "num_attention_heads": 12,
    "num_hidden_layers": 28, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "rope_theta": 1_000_000.0, "sliding_window": 32_768,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True, "use_sliding_window": False, "vocab_size": 151_936}
QWEN_CARD = """---
license: apache-2.0
license_link: https://huggingface.co/Qwen/Qwen2.5-1.5B-Instruct/blob/main/LICENSE
language:
- en
pipeline_tag: text-generation
base_model: Qwen/Qwen2.5-1.5B
tags:
- chat
library_name: transformers
---

# Qwen2.5-1.5B-Instruct

## Introduction

**This repository contains the instruction-tuned 1.5B model**, which has the following features:

- Type: causal language models
- Architecture: transformers with RoPE, SwiGLU, RMSNorm, attention QKV bias and tied word embeddings
- Number of parameters: 1.54B

| layers | heads (Q) | heads (KV) |
|--------|----------:|-----------:|
| 28     | 12        | 2          |

## Quickstart

```python
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B-Instruct", torch_dtype="auto")
```
"""


def qwen_tensors(layers=28, hidden=1536, inner=8960, keys=256, size=151_936, prefix="model", dtype="bfloat16"):
    tensors = [hole(f"{prefix}.embed_tokens.weight", dtype, size, hidden)]
    for layer in range(layers):
        at = f"{prefix}.layers.{layer}"
        for letter, rows in (("k", keys), ("q", hidden), ("v", keys)):
            tensors += [hole(f"{at}.self_attn.{letter}_proj.{part}", dtype, *((rows, hidden) if part == "weight" else (rows,)))
                        for part in ("bias", "weight")]
        for name, shape in (("self_attn.o_proj", (hidden, hidden)), ("input_layernorm", (hidden,)),
                            ("post_attention_layernorm", (hidden,)), ("mlp.gate_proj", (inner, hidden)),
                            ("mlp.up_proj", (inner, hidden)), ("mlp.down_proj", (hidden, inner))):
            tensors.append(hole(f"{at}.{name}.weight", dtype, *shape))
    return [*tensors, hole(f"{prefix}.norm.weight", dtype, hidden)]


def write_json(folder, name, document):
    with open(os.path.join(folder, name), "w") as file:
        json.dump(document, file, indent=2)
        file.write("\n")


def qwen(folder):
    """Qwen2.5 1.5B Instruct: a repository of the Hub as it is downloaded."""
    os.mkdir(folder)
    write_json(folder, "config.json", QWEN_CONFIG)
    write_json(folder, "generation_config.json", {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.1})
    write_json(folder, "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", "model_max_length": 131_072,
                                                 "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}"})
    with open(os.path.join(folder, "README.md"), "w") as file:
        file.write(QWEN_CARD)
    write_safetensors(os.path.join(folder, "model.safetensors"), qwen_tensors(), {"format": "pt"})


def incomplete(folder):
    """A repository of which one of two shards was not downloaded."""
    os.mkdir(folder)
    write_json(folder, "config.json", QWEN_CONFIG)
    tensors = qwen_tensors()
    containers.write_safetensors_shards(folder, [tensors[:170], tensors[170:]], {"format": "pt"})
    os.unlink(os.path.join(folder, "model-00002-of-00002.safetensors"))


def attention_of_unet(at, width, depth):
    for block in range(depth):
        inside = f"{at}.transformer_blocks.{block}"
        for name, source in (("attn1", width), ("attn2", 2048)):
            yield hole(f"{inside}.{name}.to_q.weight", HALF, width, width)
            yield hole(f"{inside}.{name}.to_k.weight", HALF, width, source)
            yield hole(f"{inside}.{name}.to_v.weight", HALF, width, source)
            yield hole(f"{inside}.{name}.to_out.0.weight", HALF, width, width)
            yield hole(f"{inside}.{name}.to_out.0.bias", HALF, width)
        yield hole(f"{inside}.ff.net.0.proj.weight", HALF, 8 * width, width)
        yield hole(f"{inside}.ff.net.0.proj.bias", HALF, 8 * width)
        yield hole(f"{inside}.ff.net.2.weight", HALF, width, 4 * width)
        yield hole(f"{inside}.ff.net.2.bias", HALF, width)
        for norm in ("norm1", "norm2", "norm3"):
            yield from (hole(f"{inside}.{norm}.{part}", HALF, width) for part in ("weight", "bias"))
    for norm in ("norm", "proj_in", "proj_out"):
        yield hole(f"{at}.{norm}.weight", HALF, *((width,) if norm == "norm" else (width, width)))
        yield hole(f"{at}.{norm}.bias", HALF, width)


def residual(at, entering, leaving):
    for name, shape in (("in_layers.0", (entering,)), ("in_layers.2", (leaving, entering, 3, 3)), ("emb_layers.1", (leaving, 1280)),
                        ("out_layers.0", (leaving,)), ("out_layers.3", (leaving, leaving, 3, 3))):
        yield hole(f"{at}.{name}.weight", HALF, *shape)
        yield hole(f"{at}.{name}.bias", HALF, shape[0])
    if entering != leaving:
        yield hole(f"{at}.skip_connection.weight", HALF, leaving, entering, 1, 1)
        yield hole(f"{at}.skip_connection.bias", HALF, leaving)


# The blocks of SDXL's network: number, channels before and after, transformer blocks.
XL_DOWN = ((1, 320, 320, 0), (2, 320, 320, 0), (4, 320, 640, 2), (5, 640, 640, 2), (7, 640, 1280, 10), (8, 1280, 1280, 10))
XL_UP = ((0, 2560, 1280, 10), (1, 2560, 1280, 10), (2, 1920, 1280, 10), (3, 1920, 640, 2), (4, 1280, 640, 2), (5, 960, 640, 2),
         (6, 960, 320, 0), (7, 640, 320, 0), (8, 640, 320, 0))


def sdxl(path):
    """A checkpoint of Stable Diffusion XL in one file."""
    unet = "model.diffusion_model"
    tensors = [hole(f"{unet}.input_blocks.0.0.weight", HALF, 320, 4, 3, 3), hole(f"{unet}.input_blocks.0.0.bias", HALF, 320),
               hole(f"{unet}.label_emb.0.0.weight", HALF, 1280, 2816), hole(f"{unet}.label_emb.0.0.bias", HALF, 1280),
               hole(f"{unet}.time_embed.0.weight", HALF, 1280, 320), hole(f"{unet}.time_embed.2.weight", HALF, 1280, 1280)]
    for side, blocks in (("input_blocks", XL_DOWN), ("output_blocks", XL_UP)):
        for block, entering, leaving, depth in blocks:
            tensors += residual(f"{unet}.{side}.{block}.0", entering, leaving)
            if depth:
                tensors += attention_of_unet(f"{unet}.{side}.{block}.1", leaving, depth)
    tensors += [*residual(f"{unet}.middle_block.0", 1280, 1280), *attention_of_unet(f"{unet}.middle_block.1", 1280, 10),
                *residual(f"{unet}.middle_block.2", 1280, 1280), hole(f"{unet}.out.2.weight", HALF, 4, 320, 3, 3)]
    tensors += text_encoders()
    first = "first_stage_model"
    tensors += [hole(f"{first}.{part}.conv_in.weight", FULL, *shape)
                for part, shape in (("encoder", (128, 3, 3, 3)), ("decoder", (512, 4, 3, 3)))]
    tensors += [hole(f"{first}.quant_conv.weight", FULL, 8, 8, 1, 1),
                hole(f"{first}.post_quant_conv.weight", FULL, 4, 4, 1, 1)]
    write_safetensors(path, tensors, {
        "modelspec.architecture": "stable-diffusion-xl-v1-base", "modelspec.sai_model_spec": "1.0.0",
        "modelspec.resolution": "1024x1024",
        "modelspec.title": "Stable Diffusion XL 1.0 Base", "modelspec.license": "CreativeML Open RAIL++-M"})


def text_encoders():
    one = "conditioner.embedders.0.transformer.text_model"
    two = "conditioner.embedders.1.model"
    tensors = [hole(f"{one}.embeddings.token_embedding.weight", HALF, 49_408, 768),
               hole(f"{one}.embeddings.position_embedding.weight", HALF, 77, 768)]
    for layer in range(12):
        at = f"{one}.encoder.layers.{layer}"
        tensors += [hole(f"{at}.self_attn.{name}_proj.weight", HALF, 768, 768) for name in ("k", "v", "q", "out")]
        tensors += [hole(f"{at}.mlp.fc1.weight", HALF, 3072, 768), hole(f"{at}.mlp.fc2.weight", HALF, 768, 3072)]
    tensors += [hole(f"{two}.token_embedding.weight", HALF, 49_408, 1280), hole(f"{two}.text_projection", HALF, 1280, 1280),
                hole(f"{two}.positional_embedding", HALF, 77, 1280)]
    for layer in range(32):
        at = f"{two}.transformer.resblocks.{layer}"
        tensors += [hole(f"{at}.attn.in_proj_weight", HALF, 3840, 1280), hole(f"{at}.attn.out_proj.weight", HALF, 1280, 1280),
                    hole(f"{at}.mlp.c_fc.weight", HALF, 5120, 1280), hole(f"{at}.mlp.c_proj.weight", HALF, 1280, 5120)]
    return tensors


def lora(path, rank=16):
    """A LoRA of kohya's scripts for SDXL."""
    tensors = []
    for block, width, depth in ((4, 640, 2), (5, 640, 2), (7, 1280, 10), (8, 1280, 10)):
        for inner in range(depth):
            for name in ("attn1_to_q", "attn1_to_k", "attn1_to_v", "attn1_to_out_0"):
                at = f"lora_unet_input_blocks_{block}_1_transformer_blocks_{inner}_{name}"
                tensors += [hole(f"{at}.alpha", HALF), hole(f"{at}.lora_down.weight", HALF, rank, width),
                            hole(f"{at}.lora_up.weight", HALF, width, rank)]
    frequency = {"10_pixelart": {"pixelart": 120, "castle": 31, "night": 17}, "5_style": {"pixelart": 40}}
    write_safetensors(path, tensors, {
        "ss_base_model_version": "sdxl_base_v1-0", "ss_sd_model_name": "sd_xl_base_1.0.safetensors",
        "ss_network_module": "networks.lora",
        "ss_network_dim": str(rank), "ss_network_alpha": "8", "ss_tag_frequency": json.dumps(frequency), "ss_num_epochs": "10",
        "ss_output_name": "pixel-art-xl", "modelspec.architecture": "stable-diffusion-xl-v1-base/lora",
        "modelspec.title": "Pixel Art XL", "modelspec.trigger_phrase": "pixelart"})


def ints(name, *values):
    return data(1, name) + b"".join(number(8, value) for value in values) + number(20, 7)


class Network:
    """The nodes and weights of a convolutional network in ONNX."""
    FLOAT = 1

    def __init__(self):
        self.nodes, self.weights, self.values, self.count = [], [], [], 0

    def add(self, operator, inputs, shape, *attributes, name):
        output = f"{name}_output"
        self.nodes.append(onnx_node(operator, inputs, (output,), *attributes, name=name))
        self.values.append(onnx_value(output, self.FLOAT, shape))
        return output

    def convolution(self, value, name, entering, leaving, kernel, stride, size):
        self.weights += [onnx_tensor(f"{name}.weight", self.FLOAT, (leaving, entering, kernel, kernel),
                                     data(9, bytes(4 * leaving * entering * kernel * kernel))),
                         onnx_tensor(f"{name}.bias", self.FLOAT, (leaving,), data(9, bytes(4 * leaving)))]
        attributes = (ints("kernel_shape", kernel, kernel), ints("strides", stride, stride), ints("pads", *[kernel // 2] * 4))
        place = "/" + name.replace(".", "/")
        return self.add("Conv", (value, f"{name}.weight", f"{name}.bias"),
                        (1, leaving, size, size), *attributes, name=f"{place}/Conv")

    def relu(self, value, place, channels, size):
        return self.add("Relu", (value,), (1, channels, size, size), name=f"{place}/Relu")


def resnet(path):
    """ResNet-18 as PyTorch exports it."""
    net = Network()
    value = net.convolution("input", "conv1", 3, 64, 7, 2, 112)
    value = net.relu(value, "/relu", 64, 112)
    pooling = (ints("kernel_shape", 3, 3), ints("strides", 2, 2))
    value = net.add("MaxPool", (value,), (1, 64, 56, 56), *pooling, name="/maxpool/MaxPool")
    entering, size = 64, 56
    for stage, channels in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            stride = 2 if stage > 1 and block == 0 else 1
            size //= stride
            at = f"layer{stage}.{block}"
            place = "/" + at.replace(".", "/")
            inner = net.convolution(value, f"{at}.conv1", entering, channels, 3, stride, size)
            inner = net.relu(inner, f"{place}/relu", channels, size)
            inner = net.convolution(inner, f"{at}.conv2", channels, channels, 3, 1, size)
            if stride > 1:
                value = net.convolution(value, f"{at}.downsample.0", entering, channels, 1, stride, size)
            value = net.add("Add", (inner, value), (1, channels, size, size), name=f"{place}/Add")
            value = net.relu(value, f"{place}/relu_1", channels, size)
            entering = channels
    value = net.add("GlobalAveragePool", (value,), (1, 512, 1, 1), name="/avgpool/GlobalAveragePool")
    value = net.add("Flatten", (value,), (1, 512), name="/Flatten")
    net.weights += [onnx_tensor("fc.weight", 1, (1000, 512), data(9, bytes(4 * 512_000))),
                    onnx_tensor("fc.bias", 1, (1000,), data(9, bytes(4000)))]
    net.nodes.append(onnx_node("Gemm", (value, "fc.weight", "fc.bias"), ("output",), name="/fc/Gemm"))
    ends = [onnx_value("input", 1, ("batch", 3, 224, 224))], [onnx_value("output", 1, ("batch", 1000))]
    graph = onnx_graph(net.weights, net.nodes, *ends)
    with open(path, "wb") as file:
        file.write(onnx_model(graph + b"".join(data(13, each) for each in net.values), data(2, "pytorch"), data(3, "2.5.1")))


def keras(path):
    """A classifier of digits, as model.save() writes it; needs h5py."""
    import h5py  # pylint: disable=import-outside-toplevel  only this model needs it
    import numpy  # pylint: disable=import-outside-toplevel
    layers = (("conv2d", "Conv2D", {"filters": 32, "kernel_size": [3, 3]}, (3, 3, 1, 32)),
              ("conv2d_1", "Conv2D", {"filters": 64, "kernel_size": [3, 3]}, (3, 3, 32, 64)),
              ("dense", "Dense", {"units": 10}, (1600, 10)))
    weights = io.BytesIO()
    noise = numpy.random.default_rng(1)
    with h5py.File(weights, "w") as file:
        for name, _, _, shape in layers:
            file[f"layers/{name}/vars/0"] = noise.normal(0, 0.05, shape).astype(FULL)
            file[f"layers/{name}/vars/1"] = numpy.zeros(shape[-1:], FULL)
    config = {"module": "keras", "class_name": "Sequential", "registered_name": None, "config": {"name": "digits", "layers": [
        {"module": "keras.layers", "class_name": kind, "registered_name": None, "config": {"name": name, "dtype": FULL, **config}}
        for name, kind, config, _ in layers]}}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.8.0", "date_saved": "2026-01-05@10:00:00"}))
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", weights.getvalue())


def damaged(path):
    """A GGUF whose download ended early."""
    llama_8b(path)
    os.truncate(path, 3_000_000_000)


def embedding(folder):
    """A BERT for embeddings, as bge-small."""
    os.makedirs(os.path.join(folder, "1_Pooling"))
    write_json(folder, "config.json", {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 384, "intermediate_size": 1536,
        "num_attention_heads": 12, "num_hidden_layers": 12, "max_position_embeddings": 512, "vocab_size": 30_522,
        "type_vocab_size": 2, "torch_dtype": FULL})
    write_json(folder, "modules.json", [
        {"idx": index, "name": str(index), "path": place, "type": f"sentence_transformers.models.{kind}"}
        for index, (place, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))])
    write_json(folder, "1_Pooling/config.json", {"word_embedding_dimension": 384, "pooling_mode_cls_token": True})
    with open(os.path.join(folder, "README.md"), "w") as file:
        file.write("---\nlicense: mit\ntags:\n- sentence-transformers\n---\n# bge-small-en-v1.5\n")
    tensors = [hole("embeddings.word_embeddings.weight", FULL, 30_522, 384),
               hole("embeddings.position_embeddings.weight", FULL, 512, 384),
               hole("embeddings.token_type_embeddings.weight", FULL, 2, 384)]
    for layer in range(12):
        at = f"encoder.layer.{layer}"
        tensors += [hole(f"{at}.attention.self.{name}.weight", FULL, 384, 384) for name in ("query", "key", "value")]
        tensors += [hole(f"{at}.attention.output.dense.weight", FULL, 384, 384),
                    hole(f"{at}.intermediate.dense.weight", FULL, 1536, 384),
                    hole(f"{at}.output.dense.weight", FULL, 384, 1536),
                    hole(f"{at}.output.LayerNorm.weight", FULL, 384)]
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors, {"format": "pt"})


def tuned(path):
    """A tuning of the 1.5B model in float32, without anything beside it."""
    write_safetensors(path, qwen_tensors(dtype=HALF), {"format": "pt"})


def runs_code(path):
    """A pickle that would run a command."""
    with open(path, "wb") as file:
        file.write(b"cposix\nsystem\n(S'echo hello'\ntR.")


# name → how it is written: what a person has in a directory of models.
SCENES = {
    "llama-3.1-8b-instruct-q4_k_m.gguf": llama_8b, "qwen3-30b-a3b-q4_k_m.gguf": qwen_moe, "Qwen2.5-1.5B-Instruct": qwen,
    "sd_xl_base_1.0.safetensors": sdxl, "pixel-art-xl.safetensors": lora, "resnet18.onnx": resnet, "digits.keras": keras,
    "llama-3.1-8b-cut.gguf": damaged, "Qwen2.5-1.5B-incomplete": incomplete, "bge-small-en-v1.5": embedding,
    "qwen-tuned.safetensors": tuned, "model.pkl": runs_code, "digits.rten": demo.write_perceptron}


def write_scenes(folder, names=None):
    """Writes the models as entries of `folder`."""
    for name in names or SCENES:
        SCENES[name](os.path.join(folder, name))
