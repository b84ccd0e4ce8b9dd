"""views/ of models that lack something: a table of situations."""
import os
import struct

from cases import SOURCE, Case, table
from tensors import Tensor
from test_cases_formats import coreml, folder, floats, index_of, model_file, safetensors
import containers
import stores

SHARDS = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
LAYERS = [Tensor(f"blk.{i}.w", "float32", (4,), struct.pack("<4f", *range(4))) for i in range(4)]
OTHER = "the model has numbers that are not in its tensors"
FILES = ("model.safetensors", "model.gguf", "model.npz")


def indexed(tmp):
    """An index of three tensors, and the first of two shards."""
    index = index_of(SHARDS[0], SHARDS[0], SHARDS[1], tensors=("a", "b", "c"))
    return folder(tmp, {"model.safetensors.index.json": index, "config.json": {"model_type": "llama"},
                        SHARDS[0]: safetensors(tmp, floats("a", 2), floats("b", 2))})


def shards(tmp):
    return folder(tmp, {SHARDS[1]: safetensors(tmp, floats("a", 2)), "config.json": {"model_type": "llama"}})


def split(tmp):
    path = folder(tmp, {"config.json": {}})
    containers.write_gguf_shards(os.path.join(path, "m"), [LAYERS[:2], LAYERS[2:]], {"general.architecture": "llama"})
    os.remove(os.path.join(path, "m-00002-of-00002.gguf"))
    return os.path.join(path, "m-00001-of-00002.gguf")


def ollama(lost, make=lambda tmp: stores.tiny(tmp, LAYERS)):
    """A model in a store, without the blob that `lost(package)` returns."""
    def build(tmp):
        store, package = stores.Store(os.path.join(tmp, "store")), make(tmp)
        manifest = store.put_package("tiny/latest", package)
        os.remove(store.blob_path(lost(tmp, package)))
        return manifest
    return build


def layers(tmp):
    return stores.mlx(tmp, LAYERS, {"config.json": {"model_type": "llama"}})


def has_none(name, build, reason, status=5):
    hidden = FILES if status != 3 else FILES[::2]
    return [Case(f"{name}-files", build, ("ls", SOURCE, "views"), status, shows=["warnings.txt"], hides=hidden),
            Case(f"{name}-reason", build, ("cat", SOURCE, "views/warnings.txt"), shows=["not made: " + reason])]


def has_all(name, build):
    return [Case(f"{name}-files", build, ("ls", SOURCE, "views"), 3, shows=FILES, hides=["warnings.txt"])]


TestIncomplete = table("TestIncomplete", [
    *has_none("shard-of-an-index-missing", indexed, "1 of 3 tensors cannot be read: 1 of 2 shards is missing: " + SHARDS[1]),
    *has_none("shard-without-index-missing", shards, "1 of 2 shards is missing: " + SHARDS[0]),
    *has_none("gguf-shard-missing", split, "1 of 2 shards is missing: m-00002-of-00002.gguf"),
    *has_none("ollama-model-missing", ollama(lambda tmp, package: max(package.blobs.values(), key=len)), "1 file is missing", 3),
    *has_none("ollama-tensor-missing", ollama(lambda tmp, package: stores.safetensors(tmp, [LAYERS[2]]), layers),
              "1 file is missing", 3),
    *has_all("ollama-license-missing", ollama(lambda tmp, package: stores.LICENSE)),
    *has_all("ollama-template-missing", ollama(lambda tmp, package: stores.TEMPLATE)),
    *has_none("coreml-numbers-that-are-no-tensors", model_file("a.mlmodel", coreml(302)), OTHER, 0),
    *has_none("coreml-pipeline", model_file("a.mlmodel", coreml(609, 302, pipeline=200)), OTHER, 0),
])
