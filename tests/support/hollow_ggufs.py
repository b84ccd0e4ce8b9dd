"""GGUFs of published shapes whose tensors are holes in the file: what is computed from a header is that of a large model."""
import struct

from containers import DTYPES, Typed, gguf_string, gguf_type, gguf_value

ALIGNMENT = 32
BLOCKS = {"float32": (1, 4), "q8_0": (32, 34), "q4_k": (256, 144), "q6_k": (256, 210)}  # elements, bytes
SPECIAL = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
INT32, FLOAT32 = 5, 6


def bytes_of(dtype, shape):
    elements, size = BLOCKS[dtype]
    count = 1
    for length in shape:
        count *= length
    return count // elements * size


def tokens(count):
    """The keys of a tokenizer that llama.cpp loads."""
    kinds = [2, 3, 3, *[6] * 256, *[1] * (count - len(SPECIAL))]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [*SPECIAL, *(f"t{number}" for number in range(count - len(SPECIAL)))],
        "tokenizer.ggml.scores": [0.0] * count,
        "tokenizer.ggml.token_type": [Typed(INT32, kind) for kind in kinds],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0,
    }


def write(path, metadata, tensors):
    """`tensors`: name to (dtype, shape), with the rows first."""
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    header += b"".join(gguf_string(key) + struct.pack("<I", gguf_type(value)) + gguf_value(value)
                       for key, value in metadata.items())
    end = 0
    for name, (dtype, shape) in tensors.items():
        header += gguf_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), DTYPES[dtype].gguf, end)
        end += -(-bytes_of(dtype, shape) // ALIGNMENT) * ALIGNMENT
    with open(path, "wb") as file:
        file.write(header)
        file.truncate(-(-len(header) // ALIGNMENT) * ALIGNMENT + end)


def model(architecture, layers, hidden, vocabulary, context, **keys):
    """The keys of a model; `attention__head_count` stands for `attention.head_count`."""
    own = {"block_count": layers, "embedding_length": hidden, "context_length": context,
           "attention.layer_norm_rms_epsilon": 1e-5,
           **{name.replace("__", "."): value for name, value in keys.items()}}
    return {"general.architecture": architecture, "general.name": f"A hollow {architecture}", **tokens(vocabulary),
            **{f"{architecture}.{name}": value for name, value in own.items()}}


def layer(number, hidden, queries, values, width):
    """Attention and a feed-forward part."""
    name = f"blk.{number}."
    return {f"{name}attn_norm.weight": ("float32", (hidden,)), f"{name}attn_q.weight": ("q4_k", (queries, hidden)),
            f"{name}attn_k.weight": ("q4_k", (values, hidden)), f"{name}attn_v.weight": ("q4_k", (values, hidden)),
            f"{name}attn_output.weight": ("q4_k", (hidden, queries)), f"{name}ffn_norm.weight": ("float32", (hidden,)),
            f"{name}ffn_gate.weight": ("q4_k", (width, hidden)), f"{name}ffn_up.weight": ("q4_k", (width, hidden)),
            f"{name}ffn_down.weight": ("q4_k", (hidden, width))}


def ends(hidden, vocabulary, is_tied=False):
    """Input and output."""
    out = {"token_embd.weight": ("q6_k" if is_tied else "q4_k", (vocabulary, hidden)), "output_norm.weight": ("float32", (hidden,))}
    return out if is_tied else {**out, "output.weight": ("q6_k", (vocabulary, hidden))}


def write_llama(path, layers=32, hidden=4096, width=14336, heads=32, groups=8, vocabulary=128256, context=131072):
    """Llama 3.1 8B, in Q4_K but for the output."""
    size = hidden // heads
    tensors = ends(hidden, vocabulary)
    for number in range(layers):
        tensors.update(layer(number, hidden, hidden, groups * size, width))
    write(path, model("llama", layers, hidden, vocabulary, context, feed_forward_length=width, attention__head_count=heads,
                      attention__head_count_kv=groups, rope__dimension_count=size, rope__freq_base=500000.0), tensors)


def write_gemma(path, layers=26, hidden=1280, width=6912, heads=4, groups=1, size=256, window=512, vocabulary=32000,
                context=32768):
    """A Gemma 3: every sixth layer has no window, and the output is the input."""
    tensors = ends(hidden, vocabulary, is_tied=True)
    for number in range(layers):
        tensors.update(layer(number, hidden, heads * size, groups * size, width))
        for name in ("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"):
            tensors[f"blk.{number}.{name}.weight"] = ("float32", (size if name.startswith("attn") else hidden,))
    write(path, model("gemma3", layers, hidden, vocabulary, context, feed_forward_length=width, attention__head_count=heads,
                      attention__head_count_kv=groups, attention__key_length=size, attention__value_length=size,
                      attention__sliding_window=window), tensors)


def write_mamba(path, layers=24, hidden=768, vocabulary=32000, state=16, kernel=4):
    """A Mamba, which keeps a state and no keys."""
    inner, rank = 2 * hidden, hidden // 16
    tensors = ends(hidden, vocabulary, is_tied=True)
    for number in range(layers):
        name = f"blk.{number}."
        tensors.update({f"{name}attn_norm.weight": ("float32", (hidden,)), f"{name}ssm_in.weight": ("q4_k", (2 * inner, hidden)),
                        f"{name}ssm_conv1d.weight": ("float32", (inner, kernel)), f"{name}ssm_conv1d.bias": ("float32", (inner,)),
                        f"{name}ssm_x.weight": ("float32", (rank + 2 * state, inner)),
                        f"{name}ssm_dt.weight": ("float32", (inner, rank)), f"{name}ssm_dt.bias": ("float32", (inner,)),
                        f"{name}ssm_a": ("float32", (inner, state)), f"{name}ssm_d": ("float32", (inner,)),
                        f"{name}ssm_out.weight": ("q4_k", (hidden, inner))})
    write(path, model("mamba", layers, hidden, vocabulary, 1048576, feed_forward_length=0, attention__head_count=0,
                      ssm__conv_kernel=kernel, ssm__inner_size=inner, ssm__state_size=state, ssm__time_step_rank=rank), tensors)
