"""Models with the names, shapes and metadata of published ones, whose numbers are holes of sparse files."""
import json
import math
import os

import containers
from tensors import Hole, Tensor

BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "q4_k": 4.5, "q6_k": 6.5625}


def hole(name, dtype, *shape):
    return Tensor(name, dtype, shape, Hole(int(math.prod(shape) * BITS[dtype] / 8)))


def llama_gguf(path, layers=32, metadata=None):
    """Llama 3.1 8B in Q4_K_M, without a tokenizer."""
    tensors = [hole("token_embd.weight", "q4_k", 128256, 4096)]
    for i in range(layers):
        sizes = {"attn_q": (4096, 4096), "attn_k": (1024, 4096), "attn_v": (1024, 4096), "attn_output": (4096, 4096),
                 "ffn_gate": (14336, 4096), "ffn_up": (14336, 4096), "ffn_down": (4096, 14336)}
        for name, shape in sizes.items():
            many = name in ("attn_v", "ffn_down") and (i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2)
            tensors.append(hole(f"blk.{i}.{name}.weight", "q6_k" if many else "q4_k", *shape))
        tensors += [hole(f"blk.{i}.{name}.weight", "float32", 4096) for name in ("attn_norm", "ffn_norm")]
    tensors += [hole("output_norm.weight", "float32", 4096), hole("output.weight", "q6_k", 128256, 4096)]
    keys = {"general.architecture": "llama", "general.name": "Llama 3.1 8B Instruct", "general.license": "llama3.1",
            "general.file_type": 15, "llama.block_count": layers, "llama.context_length": 131072, "llama.embedding_length": 4096,
            "llama.feed_forward_length": 14336, "llama.attention.head_count": 32, "llama.attention.head_count_kv": 8,
            "llama.rope.freq_base": 500000.0, "llama.vocab_size": 128256}
    containers.WRITERS["gguf"](path, tensors, {**keys, **(metadata or {})})


def mixtral(folder, layers=32):
    """Mixtral 8x7B as it is at the Hub, in one file."""
    os.makedirs(folder)
    tensors = [hole("model.embed_tokens.weight", "bfloat16", 32000, 4096)]
    for i in range(layers):
        layer = f"model.layers.{i}."
        for name, rows in (("q", 4096), ("k", 1024), ("v", 1024), ("o", 4096)):
            tensors.append(hole(f"{layer}self_attn.{name}_proj.weight", "bfloat16", rows, 4096))
        tensors.append(hole(f"{layer}block_sparse_moe.gate.weight", "bfloat16", 8, 4096))
        for expert in range(8):
            for name, shape in (("w1", (14336, 4096)), ("w2", (4096, 14336)), ("w3", (14336, 4096))):
                tensors.append(hole(f"{layer}block_sparse_moe.experts.{expert}.{name}.weight", "bfloat16", *shape))
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors.append(hole(f"{layer}{name}.weight", "bfloat16", 4096))
    tensors += [hole("model.norm.weight", "bfloat16", 4096), hole("lm_head.weight", "bfloat16", 32000, 4096)]
    containers.WRITERS["safetensors"](os.path.join(folder, "model.safetensors"), tensors, {"format": "pt"})
    config = {"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
              "num_hidden_layers": layers, "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
              "num_experts_per_tok": 2, "max_position_embeddings": 32768, "rope_theta": 1000000.0, "vocab_size": 32000,
              "tie_word_embeddings": False}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)


def attentions(name, width, context, depth):
    """The transformers of a block of a UNet."""
    yield from (hole(f"{name}.norm.{end}", "float16", width) for end in ("weight", "bias"))
    for linear in ("proj_in", "proj_out"):
        yield hole(f"{name}.{linear}.weight", "float16", width, width)
        yield hole(f"{name}.{linear}.bias", "float16", width)
    for i in range(depth):
        inner = f"{name}.transformer_blocks.{i}"
        for attention, reads in (("attn1", width), ("attn2", context)):
            yield hole(f"{inner}.{attention}.to_q.weight", "float16", width, width)
            yield from (hole(f"{inner}.{attention}.to_{one}.weight", "float16", width, reads) for one in "kv")
            yield hole(f"{inner}.{attention}.to_out.0.weight", "float16", width, width)
            yield hole(f"{inner}.{attention}.to_out.0.bias", "float16", width)
        yield hole(f"{inner}.ff.net.0.proj.weight", "float16", 8 * width, width)
        yield hole(f"{inner}.ff.net.2.weight", "float16", width, 4 * width)
        yield from (hole(f"{inner}.norm{norm}.weight", "float16", width) for norm in (1, 2, 3))


def residual(name, inputs, outputs, time=1280):
    for module, shape in (("in_layers.2", (outputs, inputs, 3, 3)), ("emb_layers.1", (outputs, time)),
                          ("out_layers.3", (outputs, outputs, 3, 3))):
        yield hole(f"{name}.{module}.weight", "float16", *shape)
        yield hole(f"{name}.{module}.bias", "float16", outputs)
    if inputs != outputs:
        yield hole(f"{name}.skip_connection.weight", "float16", outputs, inputs, 1, 1)


def sdxl_tensors():
    """SDXL base 1.0: the UNet, two text encoders and the VAE; without some biases and norms."""
    unet = "model.diffusion_model."
    tensors = [hole(unet + "time_embed.0.weight", "float16", 1280, 320),
               hole(unet + "label_emb.0.0.weight", "float16", 1280, 2816),
               hole(unet + "input_blocks.0.0.weight", "float16", 320, 4, 3, 3)]
    widths = (320, 640, 1280)
    inputs = 320
    for i in range(1, 9):
        width = widths[i // 3]
        name = f"{unet}input_blocks.{i}"
        if i % 3 == 0:
            tensors.append(hole(f"{name}.0.op.weight", "float16", inputs, inputs, 3, 3))
            continue
        tensors += residual(f"{name}.0", inputs, width)
        if i > 3:
            tensors += attentions(f"{name}.1", width, 2048, 2 if i < 6 else 10)
        inputs = width
    tensors += [*residual(unet + "middle_block.0", 1280, 1280), *attentions(unet + "middle_block.1", 1280, 2048, 10),
                *residual(unet + "middle_block.2", 1280, 1280)]
    for i in range(9):
        width = widths[2 - i // 3]
        tensors += residual(f"{unet}output_blocks.{i}.0", 2 * width, width)
        if i < 6:
            tensors += attentions(f"{unet}output_blocks.{i}.1", width, 2048, 10 if i < 3 else 2)
    tensors.append(hole(unet + "out.2.weight", "float16", 4, 320, 3, 3))
    for i in range(12):
        layer = f"conditioner.embedders.0.transformer.text_model.encoder.layers.{i}."
        tensors += [hole(f"{layer}self_attn.{one}_proj.weight", "float16", 768, 768) for one in ("q", "k", "v", "out")]
        tensors += [hole(f"{layer}mlp.fc1.weight", "float16", 3072, 768), hole(f"{layer}mlp.fc2.weight", "float16", 768, 3072)]
    tensors.append(hole("conditioner.embedders.0.transformer.text_model.embeddings.token_embedding.weight", "float16", 49408, 768))
    for i in range(32):
        layer = f"conditioner.embedders.1.model.transformer.resblocks.{i}."
        tensors += [hole(f"{layer}attn.in_proj_weight", "float16", 3840, 1280),
                    hole(f"{layer}mlp.c_fc.weight", "float16", 5120, 1280),
                    hole(f"{layer}mlp.c_proj.weight", "float16", 1280, 5120)]
    vae = "first_stage_model."
    tensors += [hole(vae + "decoder.conv_in.weight", "float16", 512, 4, 3, 3),
                hole(vae + "decoder.conv_out.weight", "float16", 3, 128, 3, 3)]
    for side in ("encoder.down", "decoder.up"):
        for i, width in enumerate((128, 256, 512, 512)):
            tensors += [hole(f"{vae}{side}.{i}.block.{j}.conv1.weight", "float16", width, width, 3, 3) for j in range(2)]
    return tensors


SDXL = {"modelspec.sai_model_spec": "1.0.0", "modelspec.architecture": "stable-diffusion-xl-v1-base",
        "modelspec.title": "My Merge XL", "modelspec.license": "CreativeML Open RAIL++-M", "modelspec.resolution": "1024x1024"}


def sdxl(path):
    containers.WRITERS["safetensors"](path, sdxl_tensors(), SDXL)


def kohya_lora(path):
    """A LoRA for SDXL by kohya's scripts."""
    tensors = []
    for block, width in (("4", 640), ("5", 640), ("7", 1280), ("8", 1280)):
        for module, reads in (("attn1_to_q", width), ("attn2_to_k", 2048), ("ff_net_2", 4 * width)):
            name = f"lora_unet_input_blocks_{block}_1_transformer_blocks_0_{module}"
            tensors += [hole(f"{name}.lora_down.weight", "float16", 32, reads),
                        hole(f"{name}.lora_up.weight", "float16", width, 32), hole(f"{name}.alpha", "float16", 1)]
    tags = {"10_ohwx dog": {"ohwx dog": 24, "grass": 11, "outdoors": 9}, "2_more": {"ohwx dog": 6, "snow": 3}}
    containers.WRITERS["safetensors"](path, tensors, {
        "ss_network_dim": "32", "ss_network_alpha": "16", "ss_sd_model_name": "sd_xl_base_1.0.safetensors",
        "ss_base_model_version": "sdxl_base_v1-0", "ss_tag_frequency": json.dumps(tags), "modelspec.trigger_phrase": "ohwx dog",
        "modelspec.architecture": "stable-diffusion-xl-v1-base/lora"})


def cut(path, share):
    """Leaves so much of a file."""
    os.truncate(path, int(os.path.getsize(path) * share))
