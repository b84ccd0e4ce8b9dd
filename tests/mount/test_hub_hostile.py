"""Repositories of which a GGUF would load and be wrong, or end llama.cpp: no view, and no export. GGUFs of which a repository would
have two tensors of one name, or which have tensors of another form.
"""
import json
import os
import struct
import unittest

from mounting import run
from test_hub_gguf import HubTestCase

import tiny_repositories
import tiny_repository

LLAMA, QWEN, PHI = "tiny-llama2-fast", "Qwen3-Tiny", "Phi-3-tiny-128k-instruct"
CORRUPT = 5
FULL, SLIDING = "full_attention", "sliding_attention"
# Fields of config.json that llama.cpp ignores, and a part of the reason.
IGNORED = (
    (PHI, {"rope_scaling": {"type": "linear", "factor": 2.0}}, "phi3 has no rope_type linear"),
    (PHI, {"rope_scaling": {"type": "longrope", "short_factor": [1.0] * 8}}, "phi3 has no rope_type longrope"),
    ("gemma-2-tiny-it", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "gemma2 has no rope_type yarn"),
    (LLAMA, {"rope_scaling": {"rope_type": "linear", "factor": 0}}, "a rope_scaling.factor of 0"),
    (LLAMA, {"rope_scaling": {"rope_type": "linear", "factor": -2.0}}, "factor is not a number of float32 from 0 on"),
    (LLAMA, {"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "llama has no rope_type longrope"),
    (LLAMA, {"layer_types": [FULL, SLIDING]}, "layer_types has other layers than full_attention"),
    (QWEN, {"layer_types": [FULL, "chunked_attention"]}, "layer_types has other layers than full_attention"),
    (QWEN, {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}, "use_sliding_window is true"),
)
# Such fields with values that change nothing.
HARMLESS = (
    (QWEN, {"layer_types": [FULL, FULL]}),
    (QWEN, {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 2}),
    (QWEN, {"use_sliding_window": True, "sliding_window": 1 << 20, "max_window_layers": 0}),
    (QWEN, {"use_sliding_window": False, "sliding_window": 16, "max_window_layers": 0}),
)


class Hostile(HubTestCase):
    def made(self, name, **parts):
        repository = tiny_repositories.BUILDERS[name]()
        changed = {part: change(getattr(repository, part)) for part, change in parts.items()}
        folder = self.path(f"r{len(os.listdir(self.path('.')))}")
        tiny_repository.write(repository._replace(**changed), folder)
        return folder

    def with_fields(self, name, fields):
        return self.made(name, config=lambda config: {**config, **fields})

    def assert_refused(self, folder, reason, status=4):
        done = run("export", "--to", "gguf", folder, self.path("out.gguf"))
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertIn(reason, done.stderr)
        self.assertFalse(os.path.exists(self.path("out.gguf")))
        self.assertIn(reason, self.bytes_of("cat", folder, "views/warnings.txt").decode())

    def test_fields_that_llama_cpp_ignores(self):
        for name, fields, reason in IGNORED:
            with self.subTest(fields):
                self.assert_refused(self.with_fields(name, fields), reason)

    def test_fields_that_change_nothing(self):
        for name, fields in HARMLESS:
            with self.subTest(fields):
                self.bytes_of("export", "--to", "gguf", self.with_fields(name, fields), "-")

    def test_tensor_that_some_layers_lack(self):
        lacks = "model.layers.1.self_attn.q_proj.bias"
        folder = self.made("Qwen2.5-Tiny-Instruct", shapes=lambda all: {n: s for n, s in all.items() if n != lacks})
        self.assert_refused(folder, '"attn_q.bias" is in 1 of 2 layers')

    def test_integers_without_scales(self):
        for dtype in ("int8", "uint8"):
            with self.subTest(dtype):
                folder = self.made(LLAMA, dtypes=lambda _, dtype=dtype: {"model.layers.0.mlp.up_proj.weight": dtype})
                self.assert_refused(folder, f"has integers ({dtype})")

    def tokenizer(self, change):
        folder = self.made(QWEN)
        path = os.path.join(folder, "tokenizer.json")
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        content = change(content)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return folder

    def test_two_tokens_of_one_text(self):
        def change(content):
            vocab = content["model"]["vocab"]
            vocab["?same?"] = vocab.pop("!")
            return json.dumps(content).replace("?same?", "#")

        self.assert_refused(self.tokenizer(change), 'are both "#"', CORRUPT)

    def test_merge_that_makes_no_token(self):
        def change(content):
            pairs = content["model"]["merges"]
            pairs.append(["!", "#"] if pairs and isinstance(pairs[0], list) else "! #")
            return content

        self.assert_refused(self.tokenizer(change), 'makes "!#", which is not a token', CORRUPT)


def gguf(keys, tensors):
    """A GGUF of keys (text or uint32) and of tensors of float32 by their shapes."""
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()

    def value(one):
        return struct.pack("<I", 8) + text(one) if isinstance(one, str) else struct.pack("<II", 4, one)

    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(text(k) + value(v) for k, v in keys.items())
    for name, shape in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", 0, 0)
    return head + bytes(-len(head) % 32) + bytes(4096)


class HostileGguf(HubTestCase):
    KEYS = {"general.architecture": "qwen35", "qwen35.block_count": 2, "qwen35.nextn_predict_layers": 2,
            "qwen35.ssm.group_count": 4, "qwen35.ssm.time_step_rank": 4}

    def reason(self, tensors):
        path = self.path("m.gguf")
        with open(path, "wb") as file:
            file.write(gguf(self.KEYS, tensors))
        return self.bytes_of("cat", path, "views/warnings.txt").decode()

    def test_two_blocks_that_predict_tokens(self):
        self.assertIn('two tensors are "mtp.fc.weight"',
                      self.reason({f"blk.{i}.nextn.eh_proj.weight": (8, 4) for i in range(2)}))

    def test_scalar_in_place_of_a_matrix(self):
        self.assertIn("[channels, width] expected", self.reason({"blk.0.ssm_conv1d.weight": ()}))


if __name__ == "__main__":
    unittest.main()
