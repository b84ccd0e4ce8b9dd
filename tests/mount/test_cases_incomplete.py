"""Models that lack a file: the numbers of the whole are absent, and each sentence names all that is missing."""
import os
import unittest

from cases import ABSENT, SOURCE, Case, info, table
from mounting import Tensor, containers
import pickles

SHARD = "model-{:05d}-of-00003.{}".format
LAYERS = [[Tensor(f"blk.{i}.w", "float32", (4, 8), bytes(128))] for i in range(3)]
UNKNOWN = "tensors are missing: the number of parameters is not known"
SUMS = {"parameters": ABSENT, "weight_bytes": ABSENT, "bits_per_weight": ABSENT, "buffer_elements": ABSENT}


def write_torch(folder, shards):
    for number, tensors in enumerate(shards, 1):
        pickles.write_pytorch(os.path.join(folder, SHARD(number, "bin")), tensors)


def write_split(folder, shards):
    containers.write_gguf_shards(os.path.join(folder, "model"), shards, {"general.architecture": "llama"})


def write_unindexed(folder, shards):
    containers.write_safetensors_shards(folder, shards)
    os.remove(os.path.join(folder, "model.safetensors.index.json"))


def incomplete(write, suffix, opened="", **harms):
    """Three shards; `harms`: what happens to a shard, such as missing=2."""
    def build(tmp):
        folder = os.path.join(tmp, "model")
        os.mkdir(folder)
        with open(os.path.join(folder, "config.json"), "w") as file:
            file.write('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
        write(folder, LAYERS)
        for harm, number in harms.items():
            path = os.path.join(folder, SHARD(number, suffix))
            size = os.path.getsize(path)
            if harm == "missing":
                os.remove(path)
            else:
                os.truncate(path, {"cut": size - 40, "zeros": 0}[harm])
                os.truncate(path, size if harm == "zeros" else size - 40)
        return os.path.join(folder, opened)
    return build


def in_directory(tmp):
    """A model beside another one."""
    incomplete(INDEXED, "safetensors", missing=2)(tmp)
    containers.write_gguf(os.path.join(tmp, "other.gguf"), LAYERS[0], {"general.architecture": "llama"})
    return tmp


MISSING = "1 of 3 shards is missing: " + SHARD(2, "safetensors")
FIRST = SHARD(1, "gguf")
INDEXED = containers.write_safetensors_shards

Incomplete = table("Incomplete", (
    info("complete", incomplete(INDEXED, "safetensors"), parameters=96, weight_bytes=384, layers=3, warnings=ABSENT),
    info("shard-missing", incomplete(INDEXED, "safetensors", missing=2), 5,
         ["1 of 3 tensors cannot be read: " + MISSING + "\n"], **SUMS, layers=ABSENT, warnings=[UNKNOWN]),
    info("shard-of-zeros", incomplete(INDEXED, "safetensors", zeros=2), 5, ["only zero bytes"], **SUMS, warnings=[UNKNOWN]),
    info("shard-of-zeros-and-another-missing", incomplete(INDEXED, "safetensors", zeros=3, missing=2), 5,
         ["only zero bytes", MISSING], **SUMS),
    info("shard-missing-without-an-index", incomplete(write_unindexed, "safetensors", missing=2), 5, [MISSING + "\n"],
         ["file is missing"], **SUMS),
    info("cut-shard-has-its-shapes", incomplete(INDEXED, "safetensors", cut=2), 5, ["ends 40 bytes early"], parameters=96),
    info("cut-shard-and-another-missing", incomplete(INDEXED, "safetensors", cut=3, missing=2), 5,
         ["ends 40 bytes early", MISSING], **SUMS),
    info("part-of-a-gguf-missing", incomplete(write_split, "gguf", FIRST, missing=2), 5, ["is missing: " + SHARD(2, "gguf")],
         **SUMS, warnings=[UNKNOWN]),
    info("part-of-a-gguf-missing-and-another-of-zeros", incomplete(write_split, "gguf", FIRST, missing=2, zeros=3), 5,
         ["1 of 3 shards is missing: " + SHARD(2, "gguf"), SHARD(3, "gguf"), "only zero bytes"], **SUMS),
    info("part-of-a-gguf-missing-and-another-cut", incomplete(write_split, "gguf", FIRST, missing=2, cut=3), 5,
         ["1 of 3 shards is missing: " + SHARD(2, "gguf"), "ends 40 bytes early"], **SUMS),
    info("checkpoint-missing", incomplete(write_torch, "bin", missing=2), 5, [SHARD(2, "bin")], **SUMS),
    Case("table-has-no-number", in_directory, ("info", SOURCE), 5, shows=["\tINCOMPLETE: 2 of 3 tensors\t\t\t\t\n"]),
    Case("screen-says-why", incomplete(INDEXED, "safetensors", missing=2), ("info", SOURCE), 5,
         shows=["  parameters   " + UNKNOWN]),
))

if __name__ == "__main__":
    unittest.main()
