"""Checkpoints of torch.distributed.checkpoint whose places lie, and archives of torch.export whose weights do."""
import io
import json
import os
import zipfile

from attack import SHOWN, Attack, honest, one_file, put  # puts tests/support on the path
import pickles
from pickles import call, function, instance, integer, text, value

MODULE = "torch.distributed.checkpoint.metadata"
FILE = "__0_0.distcp"


def sizes(numbers):
    return call("torch", "Size", value(tuple(numbers)))


def attributes(**opcodes):
    return b"".join(text(name) + made for name, made in opcodes.items())


def properties(dtype="uint8"):
    return function(MODULE, "TensorProperties") + b")\x81(" + function("torch", dtype) + b"N\x89N\x89tb"


def chunk(offsets, shape):
    return instance(MODULE, "ChunkStorageMetadata", attributes(offsets=sizes(offsets), sizes=sizes(shape)))


def tensor(shape, chunks, dtype="uint8"):
    fields = attributes(properties=properties(dtype), size=sizes(shape), chunks=b"](" + b"".join(chunks) + b"e")
    return instance(MODULE, "TensorStorageMetadata", fields)


def place(name, offsets, path, offset, length):
    key = attributes(fqn=text(name), offset=b"N" if offsets is None else sizes(offsets), index=b"N")
    info = attributes(relative_path=text(path), offset=integer(offset), length=integer(length))
    return (instance(MODULE, "MetadataIndex", key) + instance("torch.distributed.checkpoint.filesystem", "_StorageInfo", info))


def metadata(entries, places):
    """`entries`: names and opcodes."""
    named = b"}(" + b"".join(text(name) + entry for name, entry in entries) + b"u"
    fields = attributes(state_dict_metadata=named, planner_data=b"}", storage_data=b"}(" + b"".join(places) + b"u")
    return pickles.pickle(instance(MODULE, "Metadata", fields))


def saved_object(opcodes, data=b"x"):
    """A file of torch.save with any object and a storage."""
    out = io.BytesIO()
    archive = pickles.Zip(out)
    archive.add("archive/data.pkl", pickles.pickle(opcodes))
    archive.add("archive/data/0", data)
    archive.close()
    return out.getvalue()


def saved(shape=(1,), data=b"x"):
    """With a tensor of bytes."""
    return saved_object(pickles.tensor(pickles.storage("Byte", "0", len(data)), shape), data)


def checkpoint(make, chunks=saved):
    """`make(size)`: the .metadata; `size` is that of a chunk."""
    def build(folder):
        content = chunks()
        put(folder, FILE, content)
        return put(folder, ".metadata", make(len(content)))
    return build


def cut(count):
    """`count` tensors, each of two chunks of their own."""
    def build(folder):
        one = saved()
        entries = [(f"layer.{i}.weight", tensor((2,), [chunk((0,), (1,)), chunk((1,), (1,))])) for i in range(count)]
        places = [place(f"layer.{i}.weight", (k,), FILE, (2 * i + k) * len(one), len(one)) for i in range(count) for k in (0, 1)]
        put(folder, FILE, one * (2 * count))
        return put(folder, ".metadata", metadata(entries, places))
    return build


def with_link(folder):
    os.symlink("/etc/passwd", os.path.join(folder, FILE))
    return put(folder, ".metadata", metadata([("w", tensor((1,), [chunk((0,), (1,))]))], [place("w", (0,), FILE, 0, 100)]))


def shared(count):
    """Tensors whose entry is one object in the memo."""
    one = tensor((1,), [chunk((0,), (1,))]) + b"q\0"
    return [("w", one)] + [(f"{i}", b"h\0") for i in range(count)]


def entry(name, path="s", shape=(1,), dtype=1, strides=None):
    symbols = [[{"as_int": n} for n in numbers] for numbers in (shape, shape if strides is None else strides)]
    meta = {"dtype": dtype, "sizes": symbols[0], "strides": symbols[1], "storage_offset": {"as_int": 0}, "layout": 7}
    return name, {"path_name": path, "is_param": True, "use_pickle": False, "tensor_meta": meta}


def exported(weights=lambda: [], program=lambda: "{}", method=zipfile.ZIP_STORED):
    def build():
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive:
            archive.writestr("m/archive_format", "pt2")
            archive.writestr("m/models/model.json", program())
            archive.writestr("m/data/weights/model_weights_config.json", json.dumps({"config": dict(weights())}))
            archive.writestr("m/data/weights/s", bytes(64))
        return out.getvalue()
    return one_file("m.pt2", build)


def config_of(content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("m/archive_format", "pt2")
        archive.writestr("m/data/weights/model_weights_config.json", content)
    return out.getvalue()


ATTACKS = [
    honest("dcp", "dcp", "2,000 tensors in two chunks each", cut(2_000)),
    Attack("dcp-one-place", "dcp", "20,000 tensors in one chunk",
           checkpoint(lambda size: metadata([(f"{i}", tensor((1,), [chunk((0,), (1,))])) for i in range(20_000)],
                                            [place(f"{i}", (0,), FILE, 0, size) for i in range(20_000)]))),
    Attack("dcp-columns", "dcp", "a tensor of 20,000 chunks that begin in the same row",
           checkpoint(lambda size: metadata([("w", tensor((1, 20_000), [chunk((0, i), (1, 1)) for i in range(20_000)]))],
                                            [place("w", (0, i), FILE, 0, size) for i in range(20_000)]),
                      lambda: saved((1, 1)))),
    Attack("dcp-files", "dcp", "20,000 files that do not exist",
           checkpoint(lambda size: metadata([(f"{i}", tensor((1,), [chunk((0,), (1,))])) for i in range(20_000)],
                                            [place(f"{i}", (0,), f"{i}.distcp", 0, size) for i in range(20_000)]))),
    Attack("dcp-entries-shared", "dcp", "200,000 names of one tensor", checkpoint(lambda size: metadata(shared(200_000), []))),
    Attack("dcp-dimensions", "dcp", "chunks of 2^126 elements, of 1,024 dimensions",
           checkpoint(lambda size: metadata([("v", tensor((1 << 62, 1 << 62), [chunk((0, 0), (1 << 62, 1 << 62))])),
                                             ("w", tensor((1,) * 1024, [chunk((0,) * 1024, (1,) * 1024)] * 500))], [])), SHOWN),
    Attack("dcp-link", "dcp", "a file behind a link out of the directory", with_link, SHOWN),
    Attack("dcp-range-wraps", "dcp", "a chunk of 2^63 - 1 bytes at 2^63 - 1",
           checkpoint(lambda size: metadata([("w", tensor((1,), [chunk((0,), (1,))]))],
                                            [place("w", (0,), FILE, (1 << 63) - 1, (1 << 63) - 1)])), SHOWN),
    Attack("dcp-objects", "dcp", "30,000 objects in one place",
           checkpoint(lambda size: metadata([(f"{i}", instance(MODULE, "BytesStorageMetadata", b"")) for i in range(30_000)],
                                            [place(f"{i}", None, FILE, 0, size) for i in range(30_000)]))),
    honest("pt2", "pt2", "20,000 weights", exported(lambda: [entry(f"layer.{i}.weight") for i in range(20_000)])),
    Attack("pt2-expanded", "pt2", "20 tensors of 1 TiB over 64 bytes",
           exported(lambda: [entry(f"{i}", shape=(1 << 40,), strides=(0,)) for i in range(20)]), SHOWN),
    Attack("pt2-strides", "pt2", "strides that sum to 2^64",
           exported(lambda: [entry("w", shape=(3, 3), strides=((1 << 63) - 1, (1 << 63) - 1))]), SHOWN),
    Attack("pt2-rank", "pt2", "200 tensors of 1,024 dimensions",
           exported(lambda: [entry(f"{i}", shape=(1,) * 1024) for i in range(200)])),
    Attack("pt2-nodes-deflated", "pt2", "1,000,000 nodes of as many operators, deflated",
           exported(program=lambda: '{"graph_module":{"graph":{"nodes":[' +
                    ",".join('{"target":"%x"}' % i for i in range(1_000_000)) + "]}}}", method=zipfile.ZIP_DEFLATED)),
    Attack("pt2-program-deep", "pt2", "1,000,000 lists in lists in a program",
           exported(program=lambda: '{"graph_module":{"signature":' + "[" * 1_000_000 + "]" * 1_000_000 + "}}"), SHOWN),
    Attack("pt2-config-lists", "pt2", "5,000,000 empty lists for weights",
           one_file("m.pt2", lambda: config_of('{"config":{"w":[' + ",".join(["[]"] * 5_000_000) + "]}}"))),
]
