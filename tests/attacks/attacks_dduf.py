"""Zips that are models: DDUF and llamafile."""
import json
import os
import zlib

from attack import REFUSED, SHOWN, Attack, pack, sparse
from attacks_zip import STORED, RawZip, zipped

INDEX = b'{"_class_name": "P"}'


def safetensors(tensors):
    header = json.dumps({f"t{i}": {"dtype": "U8", "shape": [], "data_offsets": [i, i + 1]} for i in range(tensors)}).encode()
    return pack("Q", len(header)) + header + bytes(tensors)


def add(out, name, data, crc=None):
    at = out.local(name.encode(), data)
    out.entry(name, at, len(data), len(data), STORED, zlib.crc32(data) if crc is None else crc)
    return at


def pipeline(fill, index=lambda: INDEX):
    def members(out):
        add(out, "model_index.json", index())
        fill(out)
    return zipped(members, "m.dduf")


def shared_weights(count, tensors):
    """`count` members that are one range."""
    def fill(out):
        data = safetensors(tensors)
        at = out.local(b"", data)
        for i in range(count):
            out.entry(f"f{i}/m.safetensors", at, len(data), len(data), STORED, zlib.crc32(data))
    return pipeline(fill)


def folders(count):
    def fill(out):
        at = out.local(b"", b"")
        for i in range(count):
            out.entry(f"{i}/x", at, 0, 0)
    return pipeline(fill)


def llamafile(fill, head=b"MZqFpD='"):
    def build(folder):
        path = os.path.join(folder, "m.llamafile")
        with RawZip(path) as out:
            out.bytes_at(head + bytes(1024))
            fill(out)
        return "m.llamafile"
    return build


def ggufs(count):
    def fill(out):
        data = b"GGUF" + pack("IQQ", 3, 0, 0)
        at = out.local(b"", data)
        for i in range(count):
            out.entry(f"{i}.gguf", at, len(data), len(data), STORED, zlib.crc32(data))
    return fill


ATTACKS = [
    Attack("dduf-weights-shared", "dduf", "5,000 members share one file of 20,000 tensors", shared_weights(5_000, 20_000),
           SHOWN | REFUSED),
    Attack("dduf-weights-shared-small", "dduf", "50,000 members share one file of a tensor", shared_weights(50_000, 1),
           SHOWN | REFUSED),
    Attack("dduf-folders", "dduf", "100,000 folders that break the rules", folders(100_000), SHOWN),
    Attack("dduf-index-deep", "dduf", "a model_index.json nested 500,000 deep", pipeline(lambda out: None, lambda: b"[" * 500_000),
           SHOWN),
    Attack("dduf-index-values", "dduf", "a model_index.json of 500,000 values",
           pipeline(lambda out: None, lambda: b'{"a":[' + b"1," * 500_000 + b"1]}"), SHOWN),
    Attack("dduf-index-large", "dduf", "a model_index.json of 64 MB", pipeline(lambda out: None, lambda: b" " * 64_000_000 + INDEX),
           SHOWN),
    Attack("llamafile-ggufs-shared", "llamafile", "100,000 members share one GGUF file", llamafile(ggufs(100_000)),
           SHOWN | REFUSED),
    Attack("llamafile-cut-gguf", "llamafile", "a GGUF file of 2^64 tensors",
           llamafile(lambda out: add(out, "m.gguf", b"GGUF" + pack("IQQ", 3, 2**64 - 1, 2**64 - 1))), SHOWN | REFUSED),
    Attack("llamafile-no-zip", "llamafile", "an executable of 1 TiB without a zip, in a hole",
           sparse("m.llamafile", lambda: b"MZqFpD='", 1 << 40), REFUSED),
]
