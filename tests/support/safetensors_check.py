"""A strict reader of safetensors files, written from the specification (README and tensor.rs of huggingface/safetensors): it
refuses what the reference refuses."""
import json
import mmap
import struct

BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64,
    "U64": 64
}
ORDER = list(BITS)  # enum Dtype
MAX_HEADER = 100_000_000


class Invalid(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Invalid(what)


def unique(pairs):
    """An object of JSON whose keys are unique."""
    found = dict(pairs)
    need(len(found) == len(pairs), "a key appears twice")
    return found


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def read(path):
    """({name: (dtype, shape, bytes)}, metadata) of a valid file; raises Invalid for others. The file is mapped."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        need(size >= 8, "header too small")
        data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    length, = struct.unpack("<Q", data[:8])
    need(length <= MAX_HEADER, "header too large")
    need(length + 8 <= size, "invalid header length")
    need(length % 8 == 0, "tensors are not aligned to 8 bytes")
    text = data[8:8 + length].decode("utf-8")
    need(text.startswith("{") and text.rstrip(" ").endswith("}"), "not an object that is padded with spaces")
    header = json.loads(text, object_pairs_hook=unique)
    metadata = header.pop("__metadata__", {})
    need(isinstance(metadata, dict) and all(isinstance(value, str) for value in metadata.values()), "metadata that is not text")
    tensors, at, last = {}, 0, None
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        need(set(entry) == {"dtype", "shape", "data_offsets"}, f"{name}: fields")
        need(entry["dtype"] in BITS, f"{name}: dtype")
        need(isinstance(entry["shape"], list) and all(map(is_count, entry["shape"])), f"{name}: shape")
        need(len(entry["data_offsets"]) == 2 and all(map(is_count, entry["data_offsets"])), f"{name}: offsets")
        begin, end = entry["data_offsets"]
        need(begin == at and end >= begin, f"{name}: a hole or an overlap")
        bits = BITS[entry["dtype"]]
        for dimension in entry["shape"]:
            bits *= dimension
        need(bits < 2**64 and bits % 8 == 0 and bits // 8 == end - begin, f"{name}: size")
        rank = ORDER.index(entry["dtype"])
        if end > begin and last:
            need(rank <= last, f"{name}: not in the order of the reference")
        last, at = rank, end
        tensors[name] = entry["dtype"], tuple(entry["shape"]), data[8 + length + begin:8 + length + end]
    need(8 + length + at == size, "the file is not fully covered")
    return tensors, metadata
