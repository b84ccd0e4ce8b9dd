"""TVM: .params, the Model Library Format in directories, tensor caches."""
import json
import os

from attack import REFUSED, Attack, links_to, little, one_file, pack, put, sparse

MAGIC = 0xF7E58D4F05049CB7
ARRAY = 0xDD5E40F096B4A13F
INT8 = b"\0\x08\1\0"


def array(shape, data, dimensions=None, size=None, dtype=INT8):
    return (pack("QQIII", ARRAY, 0, 1, 0, len(shape) if dimensions is None else dimensions) + dtype + b"".join(map(little, shape)) +
            little(len(data) if size is None else size) + data)


def params(tensors):
    """`tensors`: (name, shape, data) of int8."""
    return (pack("QQQ", MAGIC, 0, len(tensors)) + b"".join(little(len(name)) + name for name, _, _ in tensors) +
            little(len(tensors)) + b"".join(array(shape, data) for _, shape, data in tensors))


def file(make):
    return one_file("m.params", make)


def library(folder, metadata='{"version": 7, "modules": {"m": {"style": "full-model"}}}'):
    put(folder, "metadata.json", metadata.encode())
    os.makedirs(os.path.join(folder, "parameters"), exist_ok=True)


def library_with_links(count, tensors, hard):
    def build(folder):
        library(folder)
        put(folder, "parameters/0.params", params([(b"t%d" % i, (), b"1") for i in range(tensors)]))
        links_to(os.path.join(folder, "parameters"), "0.params", [f"{i}.params" for i in range(1, count)], hard)
        return ""
    return build


def described(make):
    """A library with this text as metadata.json."""
    def build(folder):
        library(folder, make())
        put(folder, "parameters/m.params", params([(b"p0", (), b"1")]))
        return ""
    return build


def cache_tensor(name, shape=(4,), dtype="int8", nbytes=4, offset=0):
    return {"name": name, "shape": list(shape), "dtype": dtype, "format": "raw", "nbytes": nbytes, "byteOffset": offset}


def cache_shard(path, tensors, nbytes=4, **fields):
    return {"dataPath": path, "format": "raw-shard", "nbytes": nbytes, "records": tensors, **fields}


def cache(make, shard=b"1234", fill=None, name="tensor-cache.json"):
    """A tensor cache; `make()` returns the index as a value or as text."""
    def build(folder):
        index = make()
        put(folder, name, (index if isinstance(index, str) else json.dumps(index)).encode())
        put(folder, "s.bin", shard() if callable(shard) else shard)
        if fill:
            fill(folder)
        return ""
    return build


def linked_shards(count, hard):
    def build(folder):
        names = [f"l{i}.bin" for i in range(count)]
        links_to(folder, put(folder, "s.bin", bytes(1 << 20)), names, hard)
        put(
            folder, "tensor-cache.json",
            json.dumps({
                "records": [
                    cache_shard(name, [cache_tensor(f"t{i}")], 1 << 20, md5sum="b6d81b360a5672d80c27430f39153e2c")
                    for i, name in enumerate(names)
                ]
            }).encode())
        return ""
    return build


def deep(depth):
    return "[" * depth + "]" * depth


ATTACKS = [
    Attack("params-names-claimed", "tvm-params", "2^61 names claimed", file(lambda: pack("QQQ", MAGIC, 0, 1 << 61) + bytes(100)),
           REFUSED),
    Attack("params-arrays-claimed", "tvm-params", "2^61 arrays claimed", file(lambda: pack("QQQ", MAGIC, 0, 0) + little(1 << 61)),
           REFUSED),
    Attack("params-name-claims", "tvm-params", "a name of 2^63 bytes",
           file(lambda: pack("QQQQ", MAGIC, 0, 1, 1 << 63) + bytes(100)), REFUSED),
    Attack("params-dimensions-2-63", "tvm-params", "sizes of 2^63 - 1, whose product wraps",
           file(lambda: pack("QQQ", MAGIC, 0, 1) + little(1) + b"a" + little(1) + array(((1 << 63) - 1, 4, 2), b"1"))),
    Attack("params-dimensions-claimed", "tvm-params", "2^31 - 1 dimensions claimed",
           file(lambda: pack("QQQ", MAGIC, 0, 1) + little(1) + b"a" + little(1) + array((), b"1", dimensions=(1 << 31) - 1)),
           REFUSED),
    Attack("params-dimensions-1024", "tvm-params", "1,000 tensors of 1,024 dimensions",
           file(lambda: params([(b"%d" % i, (1, ) * 1024, b"1") for i in range(1_000)]))),
    Attack("params-hole-of-names", "tvm-params", "names in a hole: 2^24 empty ones",
           sparse("m.params", lambda: pack("QQQ", MAGIC, 0, 1 << 24), 1 << 40)),
    Attack("params-names-65535", "tvm-params", "60 names of 65,535 bytes",
           file(lambda: params([(b"%03d" % i + b"n" * 65_532, (), b"1") for i in range(60)]))),
    Attack("params-names-escapes", "tvm-params", "60 names of 65,535 control characters",
           file(lambda: params([(b"%03d" % i + b"\1" * 65_532, (), b"1") for i in range(60)]))),
    Attack("params-one-name", "tvm-params", "50,000 tensors of one name", file(lambda: params([(b"same", (), b"1")] * 50_000))),
    Attack("params-names-31-components", "tvm-params", "20,000 names of 31 components",
           file(lambda: params([(b"%d/" % i + b"a/" * 29 + b"w", (), b"1") for i in range(20_000)]))),
    Attack(
        "params-data-hole", "tvm-params", "100,000 tensors, the last of 1 TB in a hole",
        sparse("m.params", lambda: params([(b"%d" % i, (), b"1") for i in range(50_000)] + [(b"last",
                                                                                             (), b"")])[:-8] + little(1 << 40),
               (1 << 40) + 10_000_000)),
    Attack("mlf-hard-links", "tvm-mlf", "100 hard links to one .params of 30,000 tensors, in a directory",
           library_with_links(100, 30_000, True)),
    Attack("mlf-symbolic-links", "tvm-mlf", "100 symbolic links to one .params of 30,000 tensors",
           library_with_links(100, 30_000, False)),
    Attack("mlf-params-10000", "tvm-mlf", "5,000 links to one .params of one tensor", library_with_links(5_000, 1, True)),
    Attack("mlf-modules", "tvm-mlf", "60,000 modules",
           described(lambda: json.dumps({"version": 7, "modules": {f"m{i}": {} for i in range(60_000)}}))),
    Attack("mlf-metadata-deep", "tvm-mlf", "metadata.json nested 100,000 deep",
           described(lambda: '{"version": 7, "modules": {}, "x": ' + deep(100_000) + "}")),
    Attack("mlf-metadata-99-deep", "tvm-mlf", "metadata.json nested 99 deep, 1,200 times",
           described(lambda: '{"version": 7, "modules": {}, "x": [' + ",".join([deep(97)] * 1_200) + "]}")),
    Attack("mlf-metadata-objects-deep", "tvm-mlf", "objects nested 99 deep around 100,000 numbers",
           described(lambda: '{"version": 7, "modules": {}, "x": ' + '{"a":' * 96 + "[" + "1," * 100_000 + "1]" + "}" * 96 + "}")),
    Attack("mlf-metadata-empty-lists", "tvm-mlf", "130,000 empty lists in metadata.json",
           described(lambda: '{"version": 7, "modules": {}, "x": [' + "[]," * 130_000 + "1]}")),
    Attack("mlf-metadata-one-key", "tvm-mlf", "one key 130,000 times",
           described(lambda: '{"version": 7, "modules": {}, ' + ",".join(['"k": 1'] * 130_000) + "}")),
    Attack("mlf-metadata-text", "tvm-mlf", "a text of 16 MB of control characters",
           described(lambda: '{"version": 7, "modules": {}, "x": "' + "\\u0001" * 1_500_000 + '"}')),
    Attack(
        "mlf-memory-lists", "tvm-mlf", "100,000 storage records",
        described(lambda: '{"version": 1, "model_name": "m", "target": {}, "memory": [' + ",".join(
            ['{"storage_id":0,"size_bytes":1,"input_binding":"p0"}'] * 40_000) + "]}")),
    Attack("cache-one-shard-10000", "tensor-cache", "10,000 records of one shard",
           cache(lambda: {"records": [cache_shard("s.bin", [cache_tensor(f"t{i}")]) for i in range(10_000)]})),
    Attack(
        "cache-one-shard-verified-10000", "tensor-cache", "5,000 records of one shard of 4 MB, each with its MD5",
        cache(
            lambda: {
                "records": [
                    cache_shard("s.bin", [cache_tensor(f"t{i}")], 4 << 20, md5sum="b5cfa9d6c8febd618f91ac2843d50a1c")
                    for i in range(5_000)
                ]
            }, bytes(4 << 20))),
    Attack("cache-hard-links", "tensor-cache", "5,000 hard links to one shard of 1 MB, each with its MD5",
           linked_shards(5_000, True)),
    Attack("cache-symbolic-links", "tensor-cache", "500 symbolic links to one shard of 1 MB, each with its MD5",
           linked_shards(500, False)),
    Attack(
        "cache-missing-shards", "tensor-cache", "10,000 shards that are not there",
        cache(
            lambda: {
                "records": [cache_shard(f"n{i}.bin", [cache_tensor(f"t{i}")])
                            for i in range(10_000)] + [cache_shard("s.bin", [cache_tensor("t")])]
            })),
    Attack("cache-tensors-overlap", "tensor-cache", "20,000 tensors at the same bytes",
           cache(lambda: {"records": [cache_shard("s.bin", [cache_tensor(f"t{i}") for i in range(20_000)])]})),
    Attack("cache-one-name", "tensor-cache", "20,000 tensors of one name",
           cache(lambda: {"records": [cache_shard("s.bin", [cache_tensor("same")] * 20_000)]})),
    Attack("cache-shapes", "tensor-cache", "300 tensors of 1,024 dimensions",
           cache(lambda: {"records": [cache_shard("s.bin", [cache_tensor(f"t{i}", (1, ) * 1_024) for i in range(300)])]})),
    Attack("cache-names-escapes", "tensor-cache", "names of 10,000 escapes",
           cache(lambda: {"records": [cache_shard("s.bin", [cache_tensor("\1" * 10_000 + str(i)) for i in range(80)])]})),
    Attack("cache-index-deep", "tensor-cache", "an index nested 100,000 deep",
           cache(lambda: '{"records": [], "x": ' + deep(100_000) + "}")),
    Attack(
        "cache-index-99-deep", "tensor-cache", "an index with 600 lists 99 deep",
        cache(lambda: json.dumps({"records": [cache_shard("s.bin", [cache_tensor("t")])]})[:-1] + ', "x": [' + ",".join([deep(
            97)] * 600) + "]}")),
    Attack(
        "cache-config-deep", "tensor-cache", "mlc-chat-config.json nested 400,000 deep",
        cache(lambda: {"records": [cache_shard("s.bin", [cache_tensor("t")])]},
              fill=lambda folder: put(folder, "mlc-chat-config.json",
                                      deep(400_000).encode()))),
    Attack(
        "cache-shard-is-index", "tensor-cache", "shards that are the index, a FIFO, a directory, a device",
        cache(
            lambda: {
                "records": [
                    cache_shard(path, [cache_tensor(path)]) for path in ("tensor-cache.json", "fifo", ".", "zero", "s.bin", "../x")
                ]
            }, fill=lambda folder:
            (os.mkfifo(os.path.join(folder, "fifo")), os.symlink("/dev/zero", os.path.join(folder, "zero"))))),
]
