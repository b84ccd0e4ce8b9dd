"""The forward pass of decoders from the weights of a Hugging Face repository, in float64: what llama.cpp computes from a GGUF."""
import json
import math
import os
import zlib

import numpy
from tensors import Tensor


def narrow(values):
    """Rounds to bfloat16: to nearest, ties to even."""
    bits = numpy.asarray(values, "<f4").view("<u4")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype("<u4").view("<f4").astype(float)


def spread(name, _, shape):
    """A tensor in bfloat16 that makes one token likely and attention choose, so that an error in a matrix shows."""
    noise = numpy.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    values = noise * 2 / math.sqrt(shape[-1]) if len(shape) > 1 else noise / 5 + (not name.endswith(".bias"))
    return Tensor(name, "bfloat16", shape, (narrow(values).astype("<f4").view("<u4") >> 16).astype("<u2").tobytes())


def bfloat16_tensors(folder):
    """The tensors of all safetensors files of a directory."""
    found = {}
    for file in os.listdir(folder):
        if not file.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, file), "rb") as stream:
            header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
            data = stream.read()
        header.pop("__metadata__", None)
        for name, entry in header.items():
            bits = numpy.frombuffer(data[slice(*entry["data_offsets"])], "<u2").astype("<u4") << 16
            found[name] = bits.view("<f4").astype(float).reshape(entry["shape"])
    return found


def frequencies(config, size):
    """(the angles of RoPE per position, the factor of its sine and cosine)."""
    theta, scaling = config["rope_theta"], config.get("rope_scaling") or {}
    plain = theta ** (-numpy.arange(0, size, 2) / size)
    kind, factor, original = (scaling.get(key) for key in ("rope_type", "factor", "original_max_position_embeddings"))
    if kind == "llama3":
        low, high, waves = scaling["low_freq_factor"], scaling["high_freq_factor"], 2 * math.pi / plain
        part = numpy.clip((original / waves - low) / (high - low), 0, 1)
        return plain * (part + (1 - part) / factor), 1
    if kind == "yarn":
        begin, end = (size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta)) for turns in (32, 1))
        begin, end = max(math.floor(begin), 0), min(math.ceil(end), size - 1)
        part = 1 - numpy.clip((numpy.arange(size // 2) - begin) / (end - begin), 0, 1)
        return plain * (part + (1 - part) / factor), scaling.get("attention_factor", 0.1 * math.log(factor) + 1)
    assert kind is None, kind
    return plain, 1


class Decoder:
    """Llama, Qwen2, Qwen3, Granite and Mixtral. `rounded`: of what matrices are multiplied with, as llama.cpp does for the type of
    the matrix."""

    def __init__(self, folder, rounded=lambda values: values):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self.weights, self.rounded = bfloat16_tensors(folder), rounded
        self.heads, self.groups = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        self.size = self.config.get("head_dim", self.config["hidden_size"] // self.heads)

    def norm(self, values, name):
        mean = (values * values).mean(-1, keepdims=True)
        return values / numpy.sqrt(mean + self.config["rms_norm_eps"]) * self.weights[name + ".weight"]

    def times(self, values, name):
        return self.rounded(values) @ self.weights[name + ".weight"].T + self.weights.get(name + ".bias", 0)

    def rotated(self, values):
        angles, factor = frequencies(self.config, self.size)
        angles = numpy.arange(len(values))[:, None, None] * angles
        first, second = numpy.split(values, 2, -1)
        cosine, sine = factor * numpy.cos(angles), factor * numpy.sin(angles)
        return numpy.concatenate([first * cosine - second * sine, second * cosine + first * sine], -1)

    def attention(self, values, prefix):
        query, key, value = (self.times(values, f"{prefix}.{letter}_proj").reshape(len(values), -1, self.size) for letter in "qkv")
        if f"{prefix}.q_norm.weight" in self.weights:
            query, key = self.norm(query, f"{prefix}.q_norm"), self.norm(key, f"{prefix}.k_norm")
        query, key = self.rotated(query), self.rotated(key)
        key, value = (numpy.repeat(each, self.heads // self.groups, 1) for each in (key, value))
        scores = numpy.einsum("qhd,khd->hqk", query, key) * self.config.get("attention_multiplier", self.size ** -0.5)
        scores[:, numpy.triu(numpy.ones(scores.shape[1:], bool), 1)] = -numpy.inf
        mixed = numpy.einsum("hqk,khd->qhd", softmax(scores), value)
        return self.times(mixed.reshape(len(values), -1), f"{prefix}.o_proj")

    def feed_forward(self, values, prefix, gate="gate_proj", up="up_proj", down="down_proj"):
        gated = self.times(values, f"{prefix}.{gate}")
        return self.times(gated / (1 + numpy.exp(-gated)) * self.times(values, f"{prefix}.{up}"), f"{prefix}.{down}")

    def experts(self, values, prefix):
        chances = softmax(values @ self.weights[f"{prefix}.gate.weight"].T)  # a router is float32 in a GGUF
        chosen = numpy.argsort(-chances, -1)[:, :self.config["num_experts_per_tok"]]
        result = numpy.zeros_like(values)
        for row, some in enumerate(chosen):
            for expert in some:
                part = chances[row, expert] / chances[row, some].sum()
                result[row] += part * self.feed_forward(values[row], f"{prefix}.experts.{expert}", "w1", "w3", "w2")
        return result

    def logits(self, tokens):
        config, embedding = self.config, "model.embed_tokens"
        values = self.weights[embedding + ".weight"][tokens] * config.get("embedding_multiplier", 1)
        residual = config.get("residual_multiplier", 1)
        for layer in range(config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}"
            values = values + residual * self.attention(self.norm(values, f"{prefix}.input_layernorm"), f"{prefix}.self_attn")
            normed = self.norm(values, f"{prefix}.post_attention_layernorm")
            mixture = f"{prefix}.block_sparse_moe"
            mixed = self.experts(normed, mixture) if f"{mixture}.gate.weight" in self.weights else self.feed_forward(
                normed, f"{prefix}.mlp")
            values = values + residual * mixed
        head = "lm_head" if "lm_head.weight" in self.weights else embedding
        return self.times(self.norm(values, "model.norm"), head) / config.get("logits_scaling", 1)


def softmax(values):
    powers = numpy.exp(values - values.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def log_probabilities(logits):
    return numpy.log(softmax(numpy.asarray(logits, float)))
