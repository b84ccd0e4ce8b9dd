"""The undamaged model of the table, and readers of what weightfs writes. They share no code with weightfs or with the writers of
the other tests, and decide what is complete. NumPy and the standard library only."""
import io
import json
import os
import random
import struct
import tarfile
import zipfile

import numpy

KINDS = {"F32": numpy.float32, "F16": numpy.float16, "I8": numpy.int8}
GGUF_TYPES = {numpy.dtype(numpy.float32): 0, numpy.dtype(numpy.float16): 1, numpy.dtype(numpy.int8): 24}


def tensors(count=6, bytes_each=24 << 10, seed=1):
    """Arrays by name, of float32, float16 and int8."""
    source = random.Random(seed)
    out = {}
    for i in range(count):
        kind = (numpy.float32, numpy.float16, numpy.int8)[i % 3]
        raw = numpy.frombuffer(source.randbytes(bytes_each), numpy.int8)
        out[f"layer.{i}.weight"] = (raw.astype(kind) / 8).astype(kind)[:bytes_each // numpy.dtype(kind).itemsize].reshape(8, -1)
    return out


def safetensors(arrays):
    header, data = {}, b""
    names = {numpy.dtype(kind): name for name, kind in KINDS.items()}
    for name, array in arrays.items():
        raw = array.tobytes()
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def index(shards):
    """The index of {file name: arrays}."""
    return json.dumps({"metadata": {}, "weight_map": {name: file for file, arrays in shards.items() for name in arrays}}).encode()


def gguf(arrays, keys=()):
    def string(text):
        return struct.pack("<Q", len(text)) + text.encode()
    facts = [("general.architecture", 8, string("llama")), *keys]
    out = b"GGUF" + struct.pack("<IQQ", 3, len(arrays), len(facts))
    for key, kind, value in facts:
        out += string(key) + struct.pack("<I", kind) + value
    offset, data = 0, b""
    for name, array in arrays.items():
        raw = array.tobytes()
        out += string(name) + struct.pack("<I", array.ndim) + struct.pack(f"<{array.ndim}Q", *reversed(array.shape))
        out += struct.pack("<IQ", GGUF_TYPES[array.dtype], offset)
        raw += bytes(-len(raw) % 32)
        data += raw
        offset += len(raw)
    return out + bytes(-len(out) % 32) + data


def gguf_shards(arrays, count=2):
    """{file name: bytes} of a split model."""
    names = list(arrays)
    out = {}
    for i in range(count):
        part = {name: arrays[name] for name in names[i::count]}
        keys = [("split.no", 2, struct.pack("<H", i)), ("split.count", 2, struct.pack("<H", count)),
                ("split.tensors.count", 5, struct.pack("<i", len(names)))]
        out[f"model-{i + 1:05d}-of-{count:05d}.gguf"] = gguf(part, keys)
    return out


def npz(arrays):
    out = io.BytesIO()
    numpy.savez_compressed(out, **arrays)
    return out.getvalue()


# --- readers of exports

def read_safetensors(data):
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin:8 + length + end]
        out[name] = numpy.frombuffer(raw, KINDS[entry["dtype"]]).reshape(entry["shape"])
    return out


def read_gguf(data):
    at = 4

    def take(code):
        nonlocal at
        values = struct.unpack_from("<" + code, data, at)
        at += struct.calcsize("<" + code)
        return values[0] if len(values) == 1 else values

    def string():
        nonlocal at
        length = take("Q")
        at += length
        return data[at - length:at].decode()

    def value(kind):
        if kind == 8:
            return string()
        if kind == 9:
            inner, count = take("I"), take("Q")
            return [value(inner) for _ in range(count)]
        return take({0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}[kind])

    _, count, keys = take("IQQ")
    facts = {}
    for _ in range(keys):
        key = string()
        facts[key] = value(take("I"))
    alignment, entries = facts.get("general.alignment", 32), []
    for _ in range(count):
        name, dimensions = string(), take("I")
        shape = [take("Q") for _ in range(dimensions)]
        entries.append((name, shape[::-1], take("I"), take("Q")))
    begin = at + -at % alignment
    types = {number: kind for kind, number in GGUF_TYPES.items()}
    out = {}
    for name, shape, kind, offset in entries:
        elements = int(numpy.prod(shape))
        out[name] = numpy.frombuffer(data, types[kind], elements, begin + offset).reshape(shape)
    return out


def read_npy(data):
    return numpy.load(io.BytesIO(data), allow_pickle=False)


def read_npz(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name.removesuffix(".npy"): read_npy(archive.read(name)) for name in archive.namelist()}


def files_below(folder):
    out = {}
    for top, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(top, name), "rb") as file:
                out[os.path.relpath(os.path.join(top, name), folder)] = file.read()
    return out


def read_members(data):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}


def raw_tensors(files, arrays):
    """The tensors of an export as files below tensors/, which have no types of their own."""
    out = {}
    for path, data in files.items():
        name = path.removeprefix("tensors/")
        if path.startswith("tensors/") and name in arrays and len(data) == arrays[name].nbytes:
            out[name] = numpy.frombuffer(data, arrays[name].dtype).reshape(arrays[name].shape)
    return out


def is_equal(found, arrays):
    """Whether these are the undamaged tensors, all of them."""
    return found.keys() == arrays.keys() and all(
        found[name].dtype == array.dtype and found[name].shape == array.shape and found[name].tobytes() == array.tobytes()
        for name, array in arrays.items())
