"""Files that programs read in two ways: weightfs reads what the loader reads, or names both readings. See tests/ambiguity."""
import os

from cases import SOURCE, Case, info, table
import archives
import containers
from flatbuffer import FlatBuffer, Shared
from tensors import Tensor

REFUSED = 5


def write(folder, name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path


def model(folder, files, shards=()):
    """A directory of a model with these texts; a shard has the number of its place."""
    for number, name in enumerate(shards or ["model.safetensors"]):
        os.makedirs(os.path.join(folder, "m"), exist_ok=True)
        containers.write_safetensors(os.path.join(folder, "m", name), [Tensor("w", "uint8", (1,), bytes([48 + number]))])
    for name, text in files.items():
        write(folder, os.path.join("m", name), text.encode())
    return os.path.join(folder, "m")


SHARDS = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
INDEX = "model.safetensors.index.json"


def index(text):
    return lambda folder: model(folder, {INDEX: text, "config.json": '{"model_type": "llama"}'}, SHARDS)


def of_index(name, text):
    return Case(name, index(text), ("cat", SOURCE, "tensors/w"), shows=["1"], hides=["0"])


def carton(folder):
    path = os.path.join(folder, "m.carton")
    with archives.Zip(path) as out:
        for name, data in (("carton.toml", archives.NOOP.encode()), ("a", b"1"), ("a", b"2")):
            out.write(name, data)
    return path


def zipped(*names):
    def build(folder):
        containers.write_safetensors(os.path.join(folder, "t"), [Tensor("w", "uint8", (1,), b"1")])
        with open(os.path.join(folder, "t"), "rb") as file:
            data = file.read()
        with archives.Zip(os.path.join(folder, "m.zip")) as out:
            for name in names:
                out.write(name, data)
        return os.path.join(folder, "m.zip")
    return build


def toml_key_twice(folder):
    toml = archives.NOOP.replace("[runner]\n", '[runner]\nrunner_name = "torch"\n')
    with archives.Zip(os.path.join(folder, "m.carton")) as out:
        out.write("carton.toml", toml.encode())
    return os.path.join(folder, "m.carton")


def tflite_shared(folder):
    """Two entries of the list of tensors are one table, as a writer that shares equal tables makes it."""
    tensor = Shared({0: ("i", (2,)), 1: ("b", 3), 2: ("I", 1), 3: "w"})  # uint8, the second buffer
    model = {0: ("I", 3), 2: [{0: [tensor, tensor]}], 4: [{}, {0: ("B", b"12")}]}
    data = FlatBuffer(model).bytes
    root = int.from_bytes(data[:4], "little")
    return write(folder, "m.tflite", (root + 12).to_bytes(4, "little") + b"TFL3" + bytes(8) + data[4:])


CONFIG = '{"model_type": "llama", "num_hidden_layers": 1, "num_hidden_layers": 7, "model_type": "bert"}'

Ambiguity = table("Ambiguity", [
    info("config-key-twice", lambda folder: model(folder, {"config.json": CONFIG}), architecture="bert", layers=7),
    of_index("index-tensor-twice", f'{{"weight_map": {{"w": "{SHARDS[0]}", "w": "{SHARDS[1]}"}}}}'),
    of_index("index-map-twice", f'{{"weight_map": {{"w": "{SHARDS[0]}"}}, "weight_map": {{"w": "{SHARDS[1]}"}}}}'),
    Case("carton-member-twice", carton, ("info", SOURCE), REFUSED, shows=["Carton reads the first, zip programs the last"]),
    Case("carton-toml-key-twice", toml_key_twice, ("cat", SOURCE, "warnings.txt"), shows=["runner_name"]),
    Case("tflite-table-shared", tflite_shared, ("cat", SOURCE, "tensors/w%~2"), shows=["12"]),
    Case("zip-names-of-one-path", zipped("a.safetensors", "./a.safetensors"), ("info", SOURCE), REFUSED,
         shows=['several members have the path "a.safetensors" under different names']),
    Case("zip-directory-with-bytes", zipped("a.safetensors", "b.npy/"), ("verify", SOURCE), REFUSED,
         shows=["a directory with 65 bytes: some programs read it as a file"]),
])
