"""Files and directories that are whole although they look unusual, and the words for those that are not."""
import json
import os
import struct

from cases import ABSENT, SOURCE, Case, info, table
import artifacts
import containers
import pickles
from tensors import Tensor


def folder(tmp, files):
    """A directory with these files below it; returns its path."""
    path = os.path.join(tmp, "model")
    for name, data in files.items():
        file = os.path.join(path, name)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb") as out:
            out.write(data if isinstance(data, bytes) else json.dumps(data).encode())
    return path


def written(tmp, write, *arguments):
    """The bytes of a file that `write` writes."""
    path = os.path.join(tmp, "being-written")
    write(path, *arguments)
    with open(path, "rb") as file:
        data = file.read()
    os.remove(path)
    return data


def floats(name, *shape):
    count = 1
    for size in shape:
        count *= size
    return Tensor(name, "float32", shape, struct.pack(f"<{count}f", *range(count)))


def safetensors(tmp, *tensors):
    return written(tmp, containers.write_safetensors, tensors)


def gguf(tmp, tensors, **metadata):
    return written(tmp, containers.write_gguf, tensors, {key.replace("__", "."): value for key, value in metadata.items()})


def torch(tmp, *tensors):
    return written(tmp, pickles.write_pytorch, tensors)


# XGBoost

def xgboost(major, minor, leaf_vector=0, booster="gbtree", written_vector=False):
    """Two trees of three nodes. Versions before 0.82 write a leaf vector of the size that the tree states."""
    def text(string):
        return struct.pack("<Q", len(string)) + string.encode()

    def tree(values):
        nodes = [(-1, 1, 2, 1 << 31), (-1 << 31, -1, -1, 0), (0, -1, -1, 0)]
        out = struct.pack("<6i", 1, 3, 0, 0, 4, leaf_vector) + bytes(124)
        out += b"".join(struct.pack("<iiiIf", *node, value) for node, value in zip(nodes, values))
        out += struct.pack("<fffi", 1, 2, 3, 0) * 3
        return out + (struct.pack("<Q3f", 3, 1, 2, 3) if written_vector else b"")

    learner = struct.pack("<fIiiiII", 0.5, 4, 0, 0, 0, major, minor) + bytes(108) + text("reg:squarederror") + text(booster)
    trees = struct.pack("<i", 2) + bytes(156) + tree((0.5, -0.25, 0.75)) + tree((1.5, -1.25, 1.75)) + struct.pack("<2i", 0, 0)
    return b"binf" + learner + trees + (struct.pack("<Q2f", 2, 1, 0.5) if booster == "dart" else b"")


def model_file(name, data):
    """A function that writes a file below the directory of a test."""
    return lambda tmp: os.path.join(folder(tmp, {name: data(tmp) if callable(data) else data}), name)


XGBOOST = [
    info("case-xgboost-2x-binary-gbtree", model_file("a.model", xgboost(2, 1, 1)), parameters=24),
    info("xgboost-3x", model_file("a.model", xgboost(3, 0, 1)), parameters=24),
    info("xgboost-1x", model_file("a.model", xgboost(1, 7)), parameters=24),
    info("xgboost-2x-dart", model_file("a.model", xgboost(2, 0, 1, "dart")), parameters=26),
    info("xgboost-before-0.82-with-leaf-vectors", model_file("a.model", xgboost(0, 0, 1, written_vector=True)), parameters=30),
    Case("xgboost-2x-verify", model_file("a.model", xgboost(2, 1, 1)), ("verify", SOURCE), shows=["23 tensors"]),
    Case("xgboost-2x-nodes", model_file("a.model", xgboost(2, 1, 1)), ("stats", "--json", SOURCE, "trees.1.nodes.info"),
         fields={"tensors.0.min": -1.25, "tensors.0.max": 1.75}),
]


# Indexes of shards

SHARD = "model-{:05d}-of-{:05d}.safetensors".format
STALE = "the index is stale: it names other files"


def index_of(*names):
    return {"metadata": {"total_size": 4}, "weight_map": {f"w{i}": name for i, name in enumerate(names)}}


def shards(tmp, name, count, present=None, make=safetensors):
    return {name(i, count): make(tmp, floats(f"layers.{i}.w", 4, 2), floats(f"layers.{i}.b", 2))
            for i in present or range(1, count + 1)}


def stale(index_name="model.safetensors.index.json", listed=tuple(SHARD(i, 13) for i in range(1, 14)), name=SHARD, make=safetensors,
          present=None, opened=""):
    def build(tmp):
        files = {index_name: index_of(*listed), "config.json": {"model_type": "llama"}, **shards(tmp, name, 4, present, make)}
        return os.path.join(folder(tmp, files), opened)
    return build


BIN = "pytorch_model-{:05d}-of-{:05d}.bin".format
OTHER = "weights-{:05d}-of-{:05d}.safetensors".format

INDEXES = [
    info("case-stale-index-other-shards", stale(), parameters=40),
    Case("stale-index-warning", stale(), ("cat", SOURCE, "warnings.txt"), shows=[STALE, '"model-00001-of-00013.safetensors" and 12 more']),
    Case("stale-index-verify", stale(), ("verify", SOURCE), shows=[STALE, "8 tensors"]),
    info("stale-index-opened-itself", stale(opened="model.safetensors.index.json"), parameters=40),
    info("stale-index-of-checkpoints", stale("pytorch_model.bin.index.json", (BIN(1, 2), BIN(2, 2)), BIN, torch), parameters=40),
    info("stale-index-of-other-names", stale(listed=("weights.00.safetensors", "weights.01.safetensors")), parameters=40),
    info("stale-index-beside-shards-of-other-names", stale(name=OTHER), parameters=40),
    info("stale-index-beside-incomplete-shards", stale(present=(1, 2, 4)), 5, shows=["3 of 4 shards; missing " + SHARD(3, 4)],
         parameters=30),
    info("stale-index-alone", lambda tmp: folder(tmp, {"model.safetensors.index.json": index_of("a"), "config.json": {}}), 3),
]

ZEROS = "only zero bytes: a download that was interrupted or preallocated"


def zeroed(name, make, index=None, **others):
    """Four shards, the first three of which are zeros."""
    def build(tmp):
        files = shards(tmp, name, 4, make=make)
        listed = {f"layers.{i}.{end}": name(i, 4) for i in range(1, 5) for end in "wb"}
        for i in range(1, 4):
            files[name(i, 4)] = bytes(len(files[name(i, 4)]))
        return folder(tmp, {**files, **others, **({index: {"weight_map": listed}} if index else {"config.json": {"model_type": "llama"}})})
    return build


def zeroed_gguf(tmp):
    path = folder(tmp, {"x.txt": b"x"})
    containers.write_gguf_shards(os.path.join(path, "m"), [[floats(f"blk.{i}.w", 4)] for i in range(3)], {"general.architecture": "llama"})
    for i in (1, 2):
        name = os.path.join(path, f"m-0000{i}-of-00003.gguf")
        size = os.path.getsize(name)
        with open(name, "wb") as file:
            file.write(bytes(size))
    return path


DAMAGED_SHARDS = [
    info("case-zero-shard-wording", zeroed(SHARD, safetensors, "model.safetensors.index.json"), 5, [ZEROS], ["header: empty"]),
    info("zero-shards-without-an-index", zeroed(SHARD, safetensors), 5, [ZEROS]),
    info("zero-shards-of-checkpoints", zeroed(BIN, torch, "pytorch_model.bin.index.json"), 5, [ZEROS]),
    info("zero-shards-of-checkpoints-without-an-index", zeroed(BIN, torch), 5, [ZEROS]),
    info("zero-shards-of-a-gguf", zeroed_gguf, 5, [ZEROS], ["magic"]),
    info("shard-that-is-a-pointer", lambda tmp: folder(tmp, {
        "model.safetensors.index.json": {"weight_map": {"layers.1.w": SHARD(1, 2), "a": SHARD(2, 2)}},
        SHARD(1, 2): shards(tmp, SHARD, 2)[SHARD(1, 2)],
        SHARD(2, 2): b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 99999999\n"}),
         5, ["a Git LFS pointer to a file of 95.4 MiB"]),
]


# CTranslate2

def ctranslate2(version, spec):
    """int16 embeddings, a matrix of int8 and a norm, as versions before 4 store them, or later ones."""
    def text(string):
        return struct.pack("<H", len(string) + 1) + string.encode() + b"\0"

    def variable(name, shape, width, number, data):
        kind = struct.pack("<BI", width, len(data) // width) if version < 4 else struct.pack("<BI", number, len(data))
        return text(name) + struct.pack(f"<B{len(shape)}I", len(shape), *shape) + kind + data

    out = struct.pack("<I", version) + text(spec) + struct.pack("<II", 2, 3)
    out += variable("decoder/embeddings/weight", (5, 4), 2, 2, struct.pack("<20h", *range(20)))
    out += variable("decoder/embeddings/weight_scale", (), 4, 0, struct.pack("<f", 2))
    out += variable("decoder/layer_norm/gamma", (4,), 4, 0, struct.pack("<4f", *range(4)))
    return out + (struct.pack("<I", 0) if version >= 3 else b"")


def ctranslate2_directory(version, spec):
    return lambda tmp: folder(tmp, {"model.bin": ctranslate2(version, spec), "shared_vocabulary.txt": b"a\nb\n"})


def opens_as(name, build, format, **fields):
    return Case(name, build, ("info", "--json", SOURCE), fields={"format": format, **fields})


CTRANSLATE2 = [
    opens_as("case-ct2-v2-specification-name", model_file("model.bin", ctranslate2(2, "TransformerBase")), "ctranslate2", version="2"),
    opens_as("ct2-directory", ctranslate2_directory(2, "TransformerBase"), "ctranslate2"),
    opens_as("ct2-big", ctranslate2_directory(2, "TransformerBig"), "ctranslate2"),
    opens_as("ct2-relative-v3", ctranslate2_directory(3, "TransformerBaseRelative"), "ctranslate2"),
    opens_as("ct2-own-name-v5", ctranslate2_directory(5, "MyModel"), "ctranslate2"),
    opens_as("ct2-without-a-name", ctranslate2_directory(2, ""), "ctranslate2"),
    opens_as("ct2-v6", ctranslate2_directory(6, "TransformerSpec"), "ctranslate2"),
]


# Docker Model Runner

def model_runner_store(tags=("ai/tiny:latest", "index.docker.io/ai/tiny:135M"), opened="", models=True):
    """A store with one model, as `docker model pull` writes it; `opened` is a path in it, where MANIFEST is its manifest."""
    def build(tmp):
        artifact = artifacts.Artifact(config_type="application/vnd.docker.ai.model.config.v0.1+json",
                                      config={"config": {"format": "gguf"}, "rootfs": {"type": "rootfs", "diff_ids": []}})
        artifact.add("application/vnd.docker.ai.gguf.v3", gguf(tmp, [floats("blk.0.w", 4, 8)], general__architecture="llama"))
        artifact.add("application/vnd.docker.ai.license", b"Apache License")
        manifest = artifact.manifest()
        name = artifacts.digest(manifest)
        files = {"blobs/" + digest.replace(":", "/"): data for digest, data in artifact.blobs.items()}
        files["manifests/" + name.replace(":", "/")] = manifest
        files["layout.json"] = {"version": "1.0.0"}
        if models:
            files["models.json"] = {"models": [{"id": name, "tags": list(tags), "files": list(artifact.blobs)}]}
        return os.path.join(folder(tmp, files), opened.replace("MANIFEST", "manifests/" + name.replace(":", "/")))
    return build


MODEL_RUNNER = [
    Case("case-docker-model-store", model_runner_store(), ("info", SOURCE), shows=["ai/tiny/latest\tgguf", "ai/tiny/135M\tgguf"]),
    Case("model-runner-one-tag", model_runner_store(["hf.co/org/tiny:Q4"]), ("info", "--json", SOURCE),
         fields={"0.source": "hf.co/org/tiny/Q4", "0.summary.parameters": 32, "1": ABSENT}),
    Case("model-runner-tag-without-a-version", model_runner_store(["ai/tiny"]), ("info", SOURCE), shows=["ai/tiny/latest"]),
    Case("model-runner-hostile-tags", model_runner_store(["../../x:y", "a/../../b", "/etc:passwd", "a\nb:c"]),
         ("info", "--json", SOURCE), fields={"0.summary.parameters": 32, "1": ABSENT}, hides=["..", "passwd"]),
    Case("model-runner-without-tags", model_runner_store([]), ("info", "--json", SOURCE), fields={"0.summary.parameters": 32}),
    Case("model-runner-verify", model_runner_store(), ("verify", SOURCE), shows=["2 files match their checksums"]),
    info("model-runner-manifest", model_runner_store(opened="MANIFEST"), parameters=32),
    info("model-runner-manifest-without-models-json", model_runner_store(opened="MANIFEST", models=False), parameters=32),
    Case("model-runner-models-json-is-damaged", lambda tmp: folder(tmp, {
        "models.json": b"[", "blobs/sha256/x": b"", "manifests/sha256/x": b""}), ("info", SOURCE), 5, shows=["models.json"]),
]


TestXgboost = table("TestXgboost", XGBOOST)
TestIndexes = table("TestIndexes", INDEXES)
TestDamagedShards = table("TestDamagedShards", DAMAGED_SHARDS)
TestCtranslate2 = table("TestCtranslate2", CTRANSLATE2)
TestModelRunner = table("TestModelRunner", MODEL_RUNNER)
