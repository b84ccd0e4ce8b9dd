"""Writes the seeds of the fuzz target `mapping`: tiny repositories (tests/support/tiny_repositories.py) as lines of their tensors
and config.json, with a vocabulary of 8 tokens, and GGUFs.

  seeds_mapping.py DIR
"""
import json
import os
import sys

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "support"), os.path.join(TESTS, "mount")]
import tiny_repositories  # noqa: E402
from test_hub_hostile import HostileGguf, gguf  # noqa: E402

TOKENS = 8
DTYPES = {"e8m0": "uint8", "edges": "float32"}  # as in a file
# One of each architecture, and of each form of their tensors.
NAMES = """DeepSeek-V3-Tiny GLM-4-tiny-0414 OLMo-2-tiny Olmo-3-tiny-Think Phi-3-tiny-128k-instruct Qwen1.5-MoE-A100K
    Qwen2.5-Tiny-Instruct Qwen3-Tiny Qwen3.5-Tiny Qwen3.5-Tiny-MoE SmolLM3-Tiny Tiny-Llama3-200K-Instruct Tiny-Mixtral-4x100K
    bert-tiny-uncased gemma-2-tiny-it gemma-3-150k-it gemma-3-tiny-vision gemma-4-E100K-it gemma-4-tiny-A1B gpt-oss-tiny
    gpt-oss-tiny-BF16 granite-3.3-tiny-base ministral-3-tiny tiny-qwen3moe-stacked""".split()
GGUFS = {
    "gguf-blocks": {f"blk.{i}.nextn.eh_proj.weight": (8, 4) for i in range(2)},
    "gguf-scalar": {"blk.0.ssm_conv1d.weight": ()},
    "gguf-layer": {"token_embd.weight": (4, 8), "blk.0.ssm_conv1d.weight": (4, 8), "blk.0.ssm_a": (4,),
                   "blk.0.attn_q.weight": (4, 8), "blk.0.ssm_out.weight": (8, 4), "output_norm.weight": (4,)},
}


def small(config):
    """config.json of a small vocabulary, without special tokens."""
    if not isinstance(config, dict):
        return config
    return {key: TOKENS if key.startswith("vocab_size") else small(value)
            for key, value in config.items() if not key.endswith("token_id")}


def seed(name):
    repository = tiny_repositories.BUILDERS[name]()
    lines = []
    for tensor, shape in repository.shapes.items():
        dtype = repository.dtypes.get(tensor, repository.dtype)
        rows = TOKENS if any(part in tensor for part in ("embed_tokens", "lm_head", "word_embeddings")) else shape[0]
        lines.append(f"{tensor} {DTYPES.get(dtype, dtype)} {','.join(map(str, (rows, *shape[1:])))}")
    return "\n".join(lines) + "\n~~~ file config.json ~~~\n" + json.dumps(small(repository.config), separators=(",", ":"))


def main(folder):
    for name in NAMES:
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(seed(name))
    for name, tensors in GGUFS.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(gguf(HostileGguf.KEYS, tensors))


if __name__ == "__main__":
    main(*sys.argv[1:])
