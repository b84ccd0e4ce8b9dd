"""Repositories of the Hub for the benchmark, whose views/model.gguf is computed: one whose queries and keys are permuted, one whose
tensors are stored as the GGUF has them."""
import os
import random
import resource
import subprocess

from tensors import Hole, Tensor
from tiny_repository import Repository, config, decoder, plain_layer, write
from tiny_tokenizers import byte_level, template

HEADS, KEY_HEADS = 32, 8
LARGE = {"hidden_size": 4096, "intermediate_size": 14336}  # a layer has 436 MB
SMALL = {"hidden_size": 1024, "intermediate_size": 3584}
UPPER_BYTES = bytes((0x3C | byte & 1 | byte & 0x80) for byte in range(256))  # of numbers between 1/128 and 1/8, of both signs


class Weights(Hole):
    """Numbers of bfloat16 as weights have them: operations with subnormal numbers and NaNs would take longer."""
    BLOCK = bytearray(random.Random(1).randbytes(1 << 20))
    BLOCK[1::2] = BLOCK[1::2].translate(UPPER_BYTES)

    def write_to(self, file):
        for start in range(0, self.size, len(self.BLOCK)):
            file.write(memoryview(self.BLOCK)[:min(self.size - start, len(self.BLOCK))])


def numbers(name, dtype, shape):
    count = 2
    for size in shape:
        count *= size
    return Tensor(name, dtype, shape, Weights(count))


def write_repository(folder, architecture, size):
    """Writes a repository of `llama` or `qwen3` of about `size` bytes; returns the path of its safetensors."""
    sizes = LARGE if size >= 1 << 29 else SMALL
    head = sizes["hidden_size"] // HEADS
    special = ("<|begin_of_text|>", "<|end_of_text|>")
    words = byte_level("llama-bpe" if architecture == "llama" else "qwen2", special, pairs=False,
                       post=lambda ids: template((special[0], ids[special[0]])), bos_token=special[0], eos_token=special[1])
    layer = 2 * sizes["hidden_size"]**2 * 2 * (1 + KEY_HEADS / HEADS) + 6 * sizes["hidden_size"] * sizes["intermediate_size"]
    document = config({"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}[architecture], architecture, words.size,
                      num_attention_heads=HEADS, num_key_value_heads=KEY_HEADS, head_dim=head,
                      num_hidden_layers=max(1, round(size / layer)), bos_token_id=words.ids[special[0]],
                      eos_token_id=words.ids[special[1]], **sizes)
    norms = (head, head) if architecture == "qwen3" else None
    shapes = decoder(document, plain_layer(document, head_norms=norms))
    write(Repository("", document, dict(sorted(shapes.items())), words.files), folder, numbers)  # by name, as transformers writes
    return os.path.join(folder, "model.safetensors")


def processor_seconds(*command):
    """The time that a process took of a processor, with the kernel's work for it. The process has to succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
