"""A tiny Hugging Face repository: its parts, the deterministic weights, and how it is written."""
import array
import functools
import hashlib
import os
import struct
from typing import NamedTuple

import containers
from tensors import Tensor
from tiny_tokenizers import file_bytes

HIDDEN, LAYERS, HEADS, KV_HEADS, FEED_FORWARD = 64, 2, 4, 2, 128


class Repository(NamedTuple):
    """What is written as a directory. `shapes`: of the tensors, in order; `dtypes`: of those that do not have `dtype`."""
    pre: str  # tokenizer.ggml.pre: llama.cpp's converter looks up a hash, which only tokenizers of real size have
    config: dict
    shapes: dict
    files: dict
    dtype: str = "bfloat16"
    dtypes: dict = {}
    shards: int = 1
    deviates: str = ""  # the part of the GGUF that weightfs knowingly writes in another way than the converter


MANTISSA = {"bfloat16": 8, "float16": 11}  # bits, with the sign
# Values of float32 at the edges of narrower types: signed zero, subnormal, ties, overflow, infinite, not a number.
EDGES = (0x80000000, 0x00000001, 0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFF7F7FFF, 0x477FEFFF, 0x477FF000, 0x33000000,
         0x33000001, 0x33C00000, 0x387FE000, 0x387FF000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000)


@functools.cache
def halves(dtype):
    """The bits of each value that `number` makes, by 8 · mantissa + shift."""
    bits = MANTISSA[dtype]
    values = (number(index >> 3, index & 7, bits) for index in range(8 << bits))
    packed = (struct.pack("<e", value) if dtype == "float16" else struct.pack("<f", value)[2:] for value in values)
    return array.array("H", b"".join(packed))


def number(mantissa, shift, bits):
    """A number between -1/8 and 1/8 whose size depends on `shift`: many have more bits than a float16 of that size."""
    return (mantissa - (1 << bits - 1)) * 2.0 ** (-2 - bits - 3 * shift)


def elements(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def weights(name, dtype, shape):
    """Numbers that depend only on the name. `dtype`: also "e8m0", the scales of MXFP4 blocks, as uint8; "edges", float32 that
    begins with EDGES and ends with a row of zeros."""
    count = elements(shape)
    if dtype == "edges":
        middle = weights(name, "float32", shape).data[4 * len(EDGES):4 * (count - shape[-1])]
        return Tensor(name, "float32", shape, struct.pack(f"<{len(EDGES)}I", *EDGES) + middle + bytes(4 * shape[-1]))
    size = {"float32": 4, "int64": 0, "float16": 2, "bfloat16": 2}.get(dtype, 1)
    noise = hashlib.shake_128(name.encode()).digest(size * count)
    if dtype == "e8m0":
        return Tensor(name, "uint8", shape, bytes(116 + byte % 9 for byte in noise))
    if dtype == "int64":
        return Tensor(name, dtype, shape, struct.pack(f"<{count}q", *range(count)))
    if dtype == "float32":
        words = struct.unpack(f"<{count}I", noise)
        return Tensor(name, dtype, shape, struct.pack(f"<{count}f", *(number(word >> 8, word & 7, 24) for word in words)))
    if dtype in MANTISSA:
        table = halves(dtype)
        words = struct.unpack(f"<{count}H", noise)
        return Tensor(name, dtype, shape, struct.pack(f"<{count}H", *(table[word % len(table)] for word in words)))
    if dtype == "float8_e4m3fn":
        noise = bytes(byte if byte & 0x7F != 0x7F else byte ^ 0x40 for byte in noise)  # no NaN
    return Tensor(name, dtype, shape, noise)


def write(repository, folder, numbers=weights):
    """Writes the files of a repository as the new directory `folder`. `numbers`: makes a tensor of its name, type and shape."""
    os.makedirs(folder)
    for file, content in {"config.json": repository.config, **repository.files}.items():
        path = os.path.join(folder, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as out:
            out.write(file_bytes(content))
    tensors = [numbers(name, repository.dtypes.get(name, repository.dtype), shape) for name, shape in repository.shapes.items()]
    if repository.shards == 1:
        containers.write_safetensors(os.path.join(folder, "model.safetensors"), tensors, {"format": "pt"})
    else:
        each = -(-len(tensors) // repository.shards)
        parts = [tensors[at:at + each] for at in range(0, len(tensors), each)]
        containers.write_safetensors_shards(folder, parts, {"format": "pt"})


def config(architecture, model_type, vocabulary, **fields):
    """config.json of a decoder; a field that is None is left out."""
    common = {
        "architectures": architecture and [architecture], "model_type": model_type, "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "max_position_embeddings": 512, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "vocab_size": vocabulary,
    }
    return {key: value for key, value in {**common, **fields}.items() if value is not None}


def attention(document, prefix, biases=(), norms=None):
    """q, k, v and o. `biases`: letters of the projections that have one; `norms`: the sizes of q_norm and k_norm."""
    width, heads = document["hidden_size"], document["num_attention_heads"]
    head = document.get("head_dim", width // heads)
    rows = {"q": heads * head, "k": document["num_key_value_heads"] * head, "v": document["num_key_value_heads"] * head, "o": width}
    shapes = {}
    for letter, size in rows.items():
        shapes[f"{prefix}.{letter}_proj.weight"] = (size, heads * head if letter == "o" else width)
        if letter in biases:
            shapes[f"{prefix}.{letter}_proj.bias"] = (size,)
    for letter, size in zip("qk", norms or ()):
        shapes[f"{prefix}.{letter}_norm.weight"] = (size,)
    return shapes


def feed_forward(document, prefix, size=None, names=("gate_proj", "up_proj", "down_proj"), bias=False):
    """The three matrices; the last of the names is the one that is turned."""
    width, inner = document["hidden_size"], size or document["intermediate_size"]
    shapes = {}
    for name in names:
        shapes[f"{prefix}.{name}.weight"] = (width, inner) if name == names[-1] else (inner, width)
        if bias:
            shapes[f"{prefix}.{name}.bias"] = (width if name == names[-1] else inner,)
    return shapes


def norms(document, prefix, *names):
    return {f"{prefix}.{name}.weight": (document["hidden_size"],) for name in names}


def decoder(document, layer, head=None, model="model"):
    """The tensors of a decoder. `layer(prefix, number)`: those of a layer; `head`: whether lm_head is stored (default: if it is not
    tied)."""
    width, vocabulary = document["hidden_size"], document["vocab_size"]
    shapes = {f"{model}.embed_tokens.weight": (vocabulary, width)}
    for index in range(document["num_hidden_layers"]):
        shapes.update(layer(f"{model}.layers.{index}", index))
    shapes[f"{model}.norm.weight"] = (width,)
    if head if head is not None else not document["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (vocabulary, width)
    return shapes


def plain_layer(document, biases=(), head_norms=None, bias=False):
    """The layer of Llama: two norms, q, k, v, o, gate, up and down."""
    def layer(prefix, _):
        return {**norms(document, prefix, "input_layernorm"), **attention(document, f"{prefix}.self_attn", biases, head_norms),
                **norms(document, prefix, "post_attention_layernorm"), **feed_forward(document, f"{prefix}.mlp", bias=bias)}

    return layer


def card(*lines):
    """README.md with these lines as front matter."""
    return "\n".join(("---", *lines, "---", "# Tiny", "", "Random weights.", ""))
