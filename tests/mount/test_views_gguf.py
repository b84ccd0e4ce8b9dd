"""views/model.gguf in llama.cpp: the joined file of a split generates the same tokens as the original."""
import os
import random
import struct
import subprocess
import unittest

from mounting import LIMIT_S, WEIGHTFS, MountTestCase, Tensor, containers

import llama_cpp

EMBEDDING, HEADS, FEED_FORWARD, BLOCKS, CONTEXT = 32, 2, 64, 2, 64


def vocabulary():
    """(tokens, scores, types) of a small SentencePiece vocabulary: three special tokens, the bytes, and letters."""
    special = [("<unk>", 2), ("<s>", 3), ("</s>", 3)]
    tokens = special + [(f"<0x{byte:02X}>", 6) for byte in range(256)] + [(letter, 1)
                                                                          for letter in "\u2581abcdefghijklmnopqrstuvwxyz"]
    return [text for text, _ in tokens], [float(-i) for i in range(len(tokens))], [containers.Typed(5, kind) for _, kind in tokens]


def llama(seed):
    """The tensors and metadata of a random llama model."""
    tokens, scores, types = vocabulary()
    source = random.Random(seed)

    def matrix(name, *shape):
        count = 1
        for size in shape:
            count *= size
        return Tensor(name, "float32", shape, struct.pack(f"<{count}f", *(source.gauss(0, 0.3) for _ in range(count))))

    def ones(name):
        return Tensor(name, "float32", (EMBEDDING,), struct.pack(f"<{EMBEDDING}f", *[1.0] * EMBEDDING))

    tensors = [matrix("token_embd.weight", len(tokens), EMBEDDING)]
    for block in range(BLOCKS):
        at = f"blk.{block}."
        tensors += [ones(at + "attn_norm.weight"), ones(at + "ffn_norm.weight")]
        tensors += [matrix(f"{at}attn_{name}.weight", EMBEDDING, EMBEDDING) for name in ("q", "k", "v", "output")]
        tensors += [matrix(f"{at}ffn_{name}.weight", FEED_FORWARD, EMBEDDING) for name in ("gate", "up")]
        tensors.append(matrix(f"{at}ffn_down.weight", EMBEDDING, FEED_FORWARD))
    tensors += [ones("output_norm.weight"), matrix("output.weight", len(tokens), EMBEDDING)]
    metadata = {
        "general.architecture": "llama",
        "general.name": "random",
        "llama.context_length": CONTEXT,
        "llama.embedding_length": EMBEDDING,
        "llama.block_count": BLOCKS,
        "llama.feed_forward_length": FEED_FORWARD,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": HEADS,
        "llama.rope.dimension_count": EMBEDDING // HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    return tensors, metadata


class Llama(MountTestCase):
    """semantics 26.5"""

    def generate(self, path, mmap=True):
        result, = llama_cpp.run(self, [llama_cpp.load(path, tokens=[1, 5, 9, 13], generate=24, mmap=mmap)])
        self.assertNotIn("error", result)
        return result["generated"]

    def test_joined_split_generates_the_same_tokens(self):
        tensors, metadata = llama(17)
        containers.write_gguf(self.path("whole.gguf"), tensors, metadata)
        half = len(tensors) // 2
        containers.write_gguf_shards(self.path("m"), [tensors[:half], tensors[half:]], metadata)
        expected = self.generate(self.path("whole.gguf"))
        self.assertGreater(len(set(expected)), 1)
        joined = os.path.join(self.mount(self.path("m-00001-of-00002.gguf")), "views", "model.gguf")
        self.assertEqual(self.read("mnt", "views", "model.gguf"), self.read("whole.gguf"))
        self.assertEqual(self.generate(joined), expected)
        self.assertEqual(self.generate(joined, mmap=False), expected)

    def test_exported_model_generates_the_same_tokens(self):
        tensors, metadata = llama(23)
        containers.write_gguf(self.path("whole.gguf"), tensors, metadata)
        half = len(tensors) // 2
        containers.write_gguf_shards(self.path("m"), [tensors[:half], tensors[half:]], metadata)
        done = subprocess.run(
            [WEIGHTFS, "export", self.path("m-00001-of-00002.gguf"),
             self.path("exported.gguf")], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.generate(self.path("exported.gguf")), self.generate(self.path("whole.gguf")))


if __name__ == "__main__":
    unittest.main()
