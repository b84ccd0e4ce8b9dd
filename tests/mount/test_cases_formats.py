"""Files and directories that are whole although they look unusual, and the words for those that are not."""
import gzip
import json
import os
import struct

from cases import ABSENT, SOURCE, Case, info, table
from http_serving import HttpServer
from mounting import TestCase, run
import artifacts
import containers
import pickles
import protobuf
import stores
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


def index_of(*names, tensors=()):
    named = tensors or [f"w{i}" for i in range(len(names))]
    return {"metadata": {"total_size": 4}, "weight_map": dict(zip(named, names))}


def shards(tmp, name, count, present=None, make=safetensors):
    return {name(i, count): make(tmp, floats(f"layers.{i}.w", 4, 2), floats(f"layers.{i}.b", 2))
            for i in present or range(1, count + 1)}


def stale(index_name="model.safetensors.index.json", listed=tuple(SHARD(i, 13) for i in range(1, 14)), name=SHARD, make=safetensors,
          present=None, opened="", tensors=()):
    def build(tmp):
        files = {index_name: index_of(*listed, tensors=tensors), "config.json": {"model_type": "llama"}, **shards(tmp, name, 4, present, make)}
        return os.path.join(folder(tmp, files), opened)
    return build


BIN = "pytorch_model-{:05d}-of-{:05d}.bin".format
OTHER = "weights-{:05d}-of-{:05d}.safetensors".format

INDEXES = [
    info("case-stale-index-other-shards", stale(), parameters=40, warnings__0=STALE + ', "model-00001-of-00013.safetensors" and '
         "12 more, and none of them exists; reading 4 other shards instead"),
    Case("stale-index-warning", stale(), ("cat", SOURCE, "warnings.txt"),
         shows=[STALE, '"model-00001-of-00013.safetensors" and 12 more']),
    Case("stale-index-verify", stale(), ("verify", SOURCE), shows=[STALE, "8 tensors"]),
    info("stale-index-opened-itself", stale(opened="model.safetensors.index.json"), parameters=40),
    info("stale-index-of-checkpoints", stale("pytorch_model.bin.index.json", (BIN(1, 2), BIN(2, 2)), BIN, torch), parameters=40),
    info("stale-index-of-other-names", stale(listed=("weights.00.safetensors", "weights.01.safetensors")), parameters=40),
    info("stale-index-beside-shards-of-other-names", stale(name=OTHER, tensors=("layers.1.w", "layers.4.b")), parameters=40),
    info("stale-index-beside-other-shards", stale(name=OTHER), 3, shows=["none of 13 shards"]),
    info("stale-index-beside-incomplete-shards", stale(present=(1, 2, 4)), 5, shows=["1 of 4 shards is missing: " + SHARD(3, 4)],
         parameters=ABSENT),
    info("stale-index-alone", lambda tmp: folder(tmp, {"model.safetensors.index.json": index_of("a"), "config.json": {}}), 3),
]

ZEROS = "only zero bytes: a download that was interrupted or preallocated"


def zeroed(name, make, index=None):
    """Four shards, the first three of which are zeros."""
    def build(tmp):
        files = shards(tmp, name, 4, make=make)
        listed = {f"layers.{i}.{end}": name(i, 4) for i in range(1, 5) for end in "wb"}
        for i in range(1, 4):
            files[name(i, 4)] = bytes(len(files[name(i, 4)]))
        described = {index: {"weight_map": listed}} if index else {"config.json": {"model_type": "llama"}}
        return folder(tmp, {**files, **described})
    return build


def zeroed_gguf(tmp):
    path = folder(tmp, {"x.txt": b"x"})
    tensors = [[floats(f"blk.{i}.w", 4)] for i in range(3)]
    containers.write_gguf_shards(os.path.join(path, "m"), tensors, {"general.architecture": "llama"})
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
    opens_as("case-ct2-v2-specification-name", model_file("model.bin", ctranslate2(2, "TransformerBase")), "ctranslate2",
             version="2"),
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


# Core ML

def coreml(*kinds, pipeline=None):
    """A model of this kind, the number of its field; with `pipeline`, one of several."""
    def model(kind):
        return protobuf.number(1, 1) + protobuf.data(2, b"") + protobuf.data(kind, b"")
    if pipeline is None:
        return model(kinds[0])
    steps = b"".join(protobuf.data(1, model(kind)) for kind in kinds)
    return protobuf.number(1, 1) + protobuf.data(2, b"") + protobuf.data(pipeline, protobuf.data(1, steps))


NOT_SHOWN = "the numbers of this kind of model are not shown"
COREML = [
    Case("case-coreml-tree-wording", model_file("a.mlmodel", coreml(302)), ("info", SOURCE),
         shows=["treeEnsembleRegressor: the numbers of this kind of model"], hides=["missing", "INCOMPLETE", "DAMAGED"]),
    info("coreml-tree-parameters", model_file("a.mlmodel", coreml(302)), parameters=ABSENT),
    Case("coreml-glm", model_file("a.mlmodel", coreml(300)), ("verify", SOURCE), shows=["glmRegressor: " + NOT_SHOWN]),
    Case("coreml-svm", model_file("a.mlmodel", coreml(401)), ("verify", SOURCE), shows=["supportVectorClassifier: " + NOT_SHOWN]),
    Case("coreml-pipeline", model_file("a.mlmodel", coreml(609, 609, 604, 402, pipeline=200)), ("info", "--json", SOURCE),
         fields={"metadata.models.0": "arrayFeatureExtractor", "metadata.models.3": "treeEnsembleClassifier",
                 "incomplete": ABSENT}),
]


# Directories with something beside the model

def mlx_adapter(tmp):
    def adapter(rank):
        return safetensors(tmp, floats("model.layers.0.self_attn.q_proj.lora_a", 16, rank),
                           floats("model.layers.0.self_attn.q_proj.lora_b", rank, 16))
    return folder(tmp, {"adapter_config.json": {"fine_tune_type": "lora", "lora_parameters": {"rank": 8}, "model": "org/base"},
                        "adapters.safetensors": adapter(8), "0000100_adapters.safetensors": adapter(8),
                        "0000200_adapters.safetensors": adapter(8)})


def mlx_checkpoints(tmp):
    """A training that has not ended."""
    path = mlx_adapter(tmp)
    os.rename(os.path.join(path, "adapters.safetensors"), os.path.join(path, "0000090_adapters.safetensors"))
    return path


def with_predictor(name, blocks=(1,), nextn=True, base="Qwen3.5-9B-Q4_K_M.gguf"):
    def build(tmp):
        def model(*numbers, **metadata):
            tensors = [floats(f"blk.{number}.attn_q.weight", 4, 8) for number in numbers]
            return gguf(tmp, tensors, general__architecture="qwen35", qwen35__block_count=1, **metadata)
        extra = {"qwen35__nextn_predict_layers": 1} if nextn else {}
        return folder(tmp, {base: model(0), name: model(*blocks, **extra)})
    return build


def alternatives(name, build, chosen, *others):
    """One model, the file `chosen`, with other files as alternatives."""
    fields = {"summary.weight_files": [chosen], **{f"summary.alternatives.{i}.path": other for i, other in enumerate(others)}}
    return Case(name, build, ("info", "--json", SOURCE), fields={**fields, f"summary.alternatives.{len(others)}": ABSENT})


BESIDE = [
    alternatives("case-mlx-lora-directory", mlx_adapter, "adapters.safetensors", "0000100_adapters.safetensors",
                 "0000200_adapters.safetensors"),
    alternatives("mlx-lora-checkpoints-alone", mlx_checkpoints, "0000200_adapters.safetensors", "0000090_adapters.safetensors",
                 "0000100_adapters.safetensors"),
    alternatives("case-gguf-mtp-beside", with_predictor("mtp-Qwen3.5-9B-Q8_0.gguf"), "Qwen3.5-9B-Q4_K_M.gguf",
                 "mtp-Qwen3.5-9B-Q8_0.gguf"),
    alternatives("gguf-mtp-in-the-name", with_predictor("Qwen3.5-9B-MTP-Q8_0.gguf"), "Qwen3.5-9B-Q4_K_M.gguf",
                 "Qwen3.5-9B-MTP-Q8_0.gguf"),
    alternatives("gguf-nextn-by-its-tensors", with_predictor("draft.gguf"), "Qwen3.5-9B-Q4_K_M.gguf", "draft.gguf"),
    Case("gguf-draft-beside", with_predictor("draft-model.gguf", (0,), nextn=False), ("info", "--json", SOURCE),
         fields={"0.source": "Qwen3.5-9B-Q4_K_M.gguf", "1.source": "draft-model.gguf"}),
    Case("gguf-two-whole-models", with_predictor("other.gguf", (0, 1)), ("info", "--json", SOURCE),
         fields={"0.source": "Qwen3.5-9B-Q4_K_M.gguf", "1.source": "other.gguf"}),
    opens_as("gguf-mtp-alone", lambda tmp: folder(tmp, {"mtp-x.gguf": gguf(tmp, [floats("blk.1.nextn.eh_proj.weight", 4)])}),
             "gguf"),
]


# Files that were split by bytes

def parts(*names, opened="", cut=700, whole=False):
    def build(tmp):
        data = gguf(tmp, [floats("blk.0.attn_q.weight", 64, 32)], general__architecture="llama", general__name="x" * 100)
        pieces = [data] if whole else [data[:cut], data[cut:]]
        return os.path.join(folder(tmp, dict(zip(names, pieces))), opened)
    return build


FIRST = "the first part of a file that was split; join the parts with cat"
LATER = "a part of a file that was split; join the parts with cat"


def first_part(name, *names, **options):
    build = parts(*names, opened=names[0], **options)
    return Case(name, build, ("info", SOURCE), 4, shows=[FIRST], hides=["interrupted", "DAMAGED"])


def numbered_models(tmp):
    """The file with the next number is a model, not a part."""
    source = parts("m.part01.gguf", opened="m.part01.gguf")(tmp)
    parts("m.part02.gguf", whole=True)(tmp)
    return source


PARTS = [
    first_part("case-gguf-bytewise-part", "c15.gguf.part1of2", "c15.gguf.part2of2"),
    Case("gguf-bytewise-part-verify", parts("c15.gguf.part1of2", "c15.gguf.part2of2", opened="c15.gguf.part1of2"),
         ("verify", SOURCE), 4, shows=[FIRST]),
    Case("gguf-later-part", parts("c15.gguf.part1of2", "c15.gguf.part2of2", opened="c15.gguf.part2of2"), ("info", SOURCE), 4,
         shows=[LATER]),
    Case("gguf-parts-in-a-directory", parts("m.Q6_K.gguf-split-a", "m.Q6_K.gguf-split-b"), ("info", SOURCE), 4, shows=[FIRST]),
    first_part("gguf-split-a", "m.Q6_K.gguf-split-a", "m.Q6_K.gguf-split-b"),
    first_part("gguf-numbered-part", "m.gguf.001", "m.gguf.002"),
    first_part("gguf-part-aa", "m.gguf.partaa", "m.gguf.partab"),
    first_part("gguf-letters", "m.gguf.aa", "m.gguf.ab"),
    *(first_part(f"gguf-{first}", first, second) for first, second in (
        ("m.gguf.00", "m.gguf.01"), ("m.gguf.000", "m.gguf.001"), ("m.gguf00", "m.gguf01"), ("m.ggufaa", "m.ggufab"),
        ("m.gguf.aaa", "m.gguf.aab"),
        ("m.gguf.1", "m.gguf.2"), ("m.gguf.09", "m.gguf.10"), ("m.gguf.part01", "m.gguf.part02"),
        ("m.gguf.chunk_0", "m.gguf.chunk_1"),
        ("m.part01.gguf", "m.part02.gguf"), ("m-split-00001.gguf", "m-split-00002.gguf"), ("M.Part1.GGUF", "M.Part2.GGUF"))),
    *(first_part(f"gguf-{name}-alone", name) for name in (
        "m.gguf.part_1_of_2", "m.gguf.1of2", "m.gguf.1-of-2", "m.part1of2.gguf", "m.1of2.gguf")),
    *(Case(f"gguf-cut-is-no-part-{number}", parts(name, beside, opened=name), ("info", SOURCE), 5, shows=["interrupted download?"])
      for number, (name, beside) in enumerate((
          ("m.gguf.00", "m.gguf.02"), ("m.part01.gguf", "x"), ("m-split-00001.gguf", "m-split-1.gguf"), ("m-2.gguf", "m-3.gguf"),
          ("m-00001-of-00002.gguf", "x"), ("m.gguf.1", "rest")))),
    Case("gguf-cut-beside-a-numbered-model", numbered_models, ("info", SOURCE), 5, shows=["interrupted download?"]),
    Case("gguf-later-part-by-its-number", parts("m.part01.gguf", "m.part02.gguf", opened="m.part02.gguf"), ("info", SOURCE), 4,
         shows=[LATER]),
    first_part("gguf-part-cut-in-its-header", "m.gguf.part1of3", "m.gguf.part2of3", cut=60),
    Case("gguf-gzip-is-no-part", model_file("m.gguf.gz", gzip.compress(b"GGUF" * 99)), ("info", SOURCE), 4, shows=["gzip"],
         hides=["split"]),
    opens_as("gguf-whole-with-the-name-of-a-part", parts("m.gguf.001", whole=True, opened="m.gguf.001"), "gguf"),
    Case("gguf-cut-is-no-part", parts("m.gguf", "rest", opened="m.gguf"), ("info", SOURCE), 5, shows=["interrupted download?"]),
]


# Models that are elsewhere, and what is beside them in an index

def cloud_model(config):
    def build(tmp):
        package = stores.Package(config)
        store = stores.Store(os.path.join(tmp, "store"))
        for data in package.blobs.values():
            store.put_blob(data)
        manifest = json.loads(package.manifest())
        manifest["layers"] = None
        store.put_manifest("gpt-oss/120b-cloud", json.dumps(manifest).encode())
        return store.root
    return build


CLOUD = {"model_format": "", "model_family": "gptoss", "remote_host": "https://ollama.com:443", "remote_model": "gpt-oss:120b"}


CLOUD_MODEL = "registry.ollama.ai/library/gpt-oss/120b-cloud"


def cog_bundle(weights=1):
    """The layout of a Cog bundle: an index of an image with code and of the weights."""
    def build(tmp):
        path = os.path.join(tmp, "layout")
        image = artifacts.Artifact(config_type="application/vnd.oci.image.config.v1+json", config={"os": "linux"})
        image.add("application/vnd.oci.image.layer.v1.tar", artifacts.tar({"code.py": b"pass"}))
        entries = [(image, {"platform": {"os": "linux", "architecture": "amd64"}})]
        for i in range(weights):
            one = artifacts.Artifact("application/vnd.cog.weight.v1")
            files = {f"model-{i}.safetensors": safetensors(tmp, floats("w", 8, i + 2))}
            one.add("application/vnd.oci.image.layer.v1.tar", artifacts.tar(files))
            one.add("application/vnd.oci.image.layer.v1.tar", artifacts.tar({f"config-{i}.json": b"{}"} if i else {
                "config.json": json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}).encode()}))
            entries.append((one, {"platform": {"os": "unknown", "architecture": "unknown"},
                                  "annotations": {"vnd.cog.reference.type": "weights", "vnd.cog.weight.name": f"part{i}"}}))
        artifacts.layout(path, *(("x", one) for one, _ in entries))
        index = {"schemaVersion": 2, "mediaType": artifacts.INDEX, "manifests": [
            {"mediaType": artifacts.MANIFEST, "digest": artifacts.digest(one.manifest()), "size": len(one.manifest()), **fields}
            for one, fields in entries]}
        with open(os.path.join(path, "index.json"), "w") as file:
            json.dump(index, file)
        return path
    return build


def signed_layout(only_signature=False):
    def build(tmp):
        model = artifacts.Artifact("application/vnd.cncf.model.manifest.v1+json")
        model.add("application/vnd.cncf.model.weight.v1.raw", safetensors(tmp, floats("w", 8)), "model.safetensors")
        signature = artifacts.Artifact(config_type="application/vnd.oci.image.config.v1+json")
        signature.add("application/vnd.dev.cosign.simplesigning.v1+json", b"{}")
        tag = artifacts.digest(model.manifest()).replace(":", "-") + ".sig"
        tagged = [(tag, signature)] if only_signature else [("latest", model), (tag, signature)]
        return artifacts.layout(os.path.join(tmp, "layout"), *tagged)
    return build


ELSEWHERE = [
    Case("case-ollama-cloud-model", lambda tmp: os.path.join(cloud_model(CLOUD)(tmp), "manifests", CLOUD_MODEL), ("info", SOURCE),
         shows=["the model runs at ollama.com:443 as gpt-oss:120b"], hides=["DAMAGED", "INCOMPLETE"]),
    Case("ollama-cloud-model-in-its-store", cloud_model(CLOUD), ("info", SOURCE), shows=[CLOUD_MODEL + "\tollama\t0\t0\tremote"]),
    Case("ollama-cloud-model-json", cloud_model(CLOUD), ("info", "--json", SOURCE),
         fields={"0.summary.kind": "remote", "0.remote_model": "gpt-oss:120b", "0.summary.parameters": ABSENT}),
    info("case-oci-cog-bundle", cog_bundle(), parameters=16, kind="causal-lm"),
    Case("oci-cog-bundle-of-two-weights", cog_bundle(2), ("ls", "-R", SOURCE), shows=["part0", "part1"]),
    info("oci-layout-with-a-signature", signed_layout(), parameters=8),
    Case("oci-signature-alone", signed_layout(True), ("info", SOURCE), 4, shows=["a signature of another manifest, not a model"]),
]


# Pieces of torch.distributed.checkpoint

PIECE = "shard-{:05d}-model-{:05d}-of-{:05d}.safetensors".format


def pieces(*ranks, opened="", without=(), of=1):
    """A file for each rank: {name: (shape, place, first number)}."""
    def build(tmp):
        files = {}
        for rank, tensors in enumerate(ranks, 1):
            if rank in without:
                continue
            places = {name: {"saved_offsets": place} for name, (_, place, _) in tensors.items() if place is not None}
            data = []
            for name, (shape, _, first) in tensors.items():
                count = shape[0] * (shape[1] if len(shape) > 1 else 1)
                data.append(Tensor(name, "float32", shape, struct.pack(f"<{count}f", *range(first, first + count))))
            files[PIECE(rank, 1, of)] = written(tmp, containers.write_safetensors, data,
                                                {"format": "pt", "DCP_VERSION": "1.0", "DCP_SHARDING_INFO": json.dumps(places)})
        return os.path.join(folder(tmp, files), opened)
    return build


ROWS = ({"w": ((4, 6), [0, 0], 0), "norm": ((6,), [0], 0)}, {"w": ((4, 6), [4, 0], 24)})
THREE = tuple({"w": ((4, 4), [4 * rank, 0], 16 * rank)} for rank in range(3))
COLUMNS = ({"w": ((2, 2), [0, 0], 0)}, {"w": ((2, 3), [0, 2], 4)})
PIECES = [
    info("case-dcp-hf-sharded", pieces(*ROWS), parameters=ABSENT),
    Case("dcp-hf-number-of-processes", pieces(*ROWS), ("info", SOURCE), shows=["the files do not say how many processes"]),
    Case("dcp-hf-rows", pieces(*ROWS), ("stats", "--json", SOURCE, "w"),
         fields={"tensors.0.shape": [8, 6], "tensors.0.min": 0, "tensors.0.max": 47}),
    Case("dcp-hf-columns", pieces(*COLUMNS), ("stats", "--json", SOURCE, "w"),
         fields={"tensors.0.shape": [2, 5], "tensors.0.mean": 4.5}),
    info("dcp-hf-gap", pieces({"w": ((4, 6), [0, 0], 0)}, {"w": ((4, 6), [5, 0], 0)}), 5, ['tensor "w"']),
    info("dcp-hf-overlap", pieces({"w": ((4, 6), [0, 0], 0)}, {"w": ((4, 6), [3, 0], 0)}), 5, ['tensor "w"']),
    info("dcp-hf-huge-place", pieces({"w": ((4, 6), [0, 0], 0)}, {"w": ((4, 6), [2**64 - 2, 0], 0)}), 5, ['tensor "w"']),
    Case("dcp-hf-one-file", pieces(*ROWS, opened=PIECE(1, 1, 1)), ("info", SOURCE),
         shows=["2 tensors may be pieces of tensors that several processes saved"]),
    info("dcp-hf-one-file-parameters", pieces(*ROWS, opened=PIECE(2, 1, 1)), parameters=ABSENT),
    Case("dcp-hf-one-file-with-whole-tensors", pieces({"w": ((4, 6), [0, 0], 0), "b": ((2,), None, 0)}, opened=PIECE(1, 1, 1)),
         ("info", SOURCE), shows=["1 tensor may be a piece of"]),
    Case("dcp-hf-joined-with-whole-tensors", pieces({"w": ((4, 6), [0, 0], 0), "b": ((2,), None, 0)}, ROWS[1]), ("info", SOURCE),
         shows=["the files do not say how many processes"], hides=["open the directory to join them"]),
    info("dcp-hf-last-piece-missing", pieces(*THREE, without=(3,)), parameters=ABSENT),
    info("dcp-hf-piece-missing-inside", pieces(*THREE, without=(2,)), 5, parameters=ABSENT,
         shows=["pieces of 2 of at least 3 processes; missing shard-00002"]),
    info("dcp-hf-first-piece-missing", pieces(*THREE, without=(1,)), 5, shows=["missing shard-00001"], parameters=ABSENT),
    info("dcp-hf-gap-parameters", pieces({"w": ((4, 6), [0, 0], 0)}, {"w": ((4, 6), [5, 0], 0)}), 5, parameters=ABSENT),
    info("dcp-hf-file-missing", pieces(*ROWS, of=2), 5, shows=["pieces of 1 of 2 files; missing model-00002-of-00002"],
         parameters=ABSENT),
]


# Types of forks of ggml

def gguf_of_a_fork(tmp):
    """A tensor has the type 156, of which only the place is known: 64 bytes before the next tensor."""
    tensors = [Tensor("blk.0.ffn_down.weight", "int8", (64,), bytes(range(64))), floats("blk.0.attn_q.weight", 4, 8)]
    known, unknown = (struct.pack("<IQIQ", 1, 64, number, 0) for number in (24, 156))
    data = gguf(tmp, tensors, general__architecture="llama").replace(known, unknown)
    return os.path.join(folder(tmp, {"model.gguf": data}), "model.gguf")


class TestForks(TestCase):
    def test_types_of_forks_are_exported_as_stored(self):
        source, out = gguf_of_a_fork(self.tmp), os.path.join(self.tmp, "out.gguf")
        done = run("export", source, out)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(source, "rb") as before, open(out, "rb") as after:
            self.assertEqual(before.read(), after.read())


# LM Studio: PUBLISHER/MODEL/FILE.gguf

class TestKindsOfDirectories(TestCase):
    def kinds(self, *sources, directory=""):
        with HttpServer(*sources) as server:
            response = server.get(f"/.weightfs/api/v1/models?dir={directory}")
        self.assertEqual(response.status, 200, response.body)
        return {entry["path"]: entry["kind"] for entry in json.loads(response.body)["entries"]}

    def setUp(self):
        super().setUp()
        data = gguf(self.tmp, [floats("blk.0.attn_q.weight", 4, 8)], general__architecture="llama", llama__block_count=1)
        self.models = folder(self.tmp, {"lmstudio-community/Qwen3-VL-GGUF/Qwen3-VL-Q4_K_M.gguf": data,
                                        "lmstudio-community/Qwen3-VL-GGUF/mmproj-Qwen3-VL-F16.gguf": data,
                                        "lmstudio-community/Qwen3-VL-GGUF/downloading_Qwen3-VL-Q8_0.gguf.part": b"GGUF",
                                        ".locks/models--org--x/y.lock": b"", "alone.gguf": data, "damaged.gguf": data[:100]})

    def test_case_api_kind_of_directories(self):
        self.assertEqual(self.kinds(self.models), {".locks": "directory", "lmstudio-community": "directory", "alone.gguf": "model",
                                                   "damaged.gguf": "model"})
        self.assertEqual(self.kinds(self.models, directory="lmstudio-community"),
                         {"lmstudio-community/Qwen3-VL-GGUF": "model"})

    def test_sources_that_are_directories_beside_others(self):
        one = os.path.join(self.models, "lmstudio-community", "Qwen3-VL-GGUF")
        self.assertEqual(self.kinds(self.models, one), {"model": "directory", "Qwen3-VL-GGUF": "model"})


TestXgboost = table("TestXgboost", XGBOOST)
TestIndexes = table("TestIndexes", INDEXES)
TestDamagedShards = table("TestDamagedShards", DAMAGED_SHARDS)
TestCtranslate2 = table("TestCtranslate2", CTRANSLATE2)
TestModelRunner = table("TestModelRunner", MODEL_RUNNER)
TestCoreMl = table("TestCoreMl", COREML)
TestBeside = table("TestBeside", BESIDE)
TestParts = table("TestParts", PARTS)
TestElsewhere = table("TestElsewhere", ELSEWHERE)
TestPieces = table("TestPieces", PIECES)
