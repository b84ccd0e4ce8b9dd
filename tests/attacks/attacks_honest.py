"""Large regular models: they must be shown completely, and their checksums must match."""
import io
import os
import struct
import tarfile

from attack import SHOWN, Attack, honest
from limits import CPU_PER_MODEL_S, MEMORY_PER_MODEL
import archives
import containers
from tensors import ManyNames, Tensor


def names(writer, count, name):
    def build(folder):
        writer(os.path.join(folder, name), ManyNames(count))
        return name
    return build


def zip_of(count):
    def build(folder):
        with archives.Zip(os.path.join(folder, "m.zip")) as out:
            for i in range(count):
                out.write(f"data/{i // 1000}/{i}.txt", b"%d\n" % i)
        return "m.zip"
    return build


def carton_of(count):
    def build(folder):
        archives.write_carton(os.path.join(folder, "m.carton"), {f"model/{i // 100}/{i}": b"%d\n" % i * 50 for i in range(count)},
                              archives.DEFLATE)
        return "m.carton"
    return build


def tar_of(count, mode, name):
    def build(folder):
        with tarfile.open(os.path.join(folder, name), mode, format=tarfile.GNU_FORMAT) as out:
            for i in range(count):
                member = tarfile.TarInfo(f"data/{i // 1000}/{i}.txt")
                data = b"%d\n" % i * 20
                member.size = len(data)
                out.addfile(member, io.BytesIO(data))
        return name
    return build


def vocabulary(folder):
    tokens = [f"token{i}" for i in range(150_000)]
    metadata = {"general.architecture": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": [0.0] * 150_000,
                "tokenizer.ggml.merges": [f"t{i} u{i}" for i in range(150_000)]}
    containers.write_gguf(os.path.join(folder, "m.gguf"), list(ManyNames(300)), metadata)
    return "m.gguf"


def shards(folder):
    every = list(ManyNames(20_000))
    containers.write_safetensors_shards(folder, [every[i:i + 200] for i in range(0, len(every), 200)], {"format": "pt"})
    return ""


def splits(folder):
    every = list(ManyNames(20_000))
    containers.write_gguf_shards(os.path.join(folder, "m"), [every[i:i + 200] for i in range(0, len(every), 200)],
                                 {"general.name": "m"})
    return "m-00001-of-00100.gguf"


def empty(folder):
    containers.write_safetensors(os.path.join(folder, "m.safetensors"), [Tensor("a", "float32", (), struct.pack("<f", 1))])
    return "m.safetensors"


def models(folder):
    for i in range(1_000):
        containers.write_safetensors(os.path.join(folder, f"m{i}.safetensors"), [Tensor("a", "float32", (), struct.pack("<f", 1))])
    return ""


ATTACKS = [
    Attack("empty-model", "safetensors", "one tensor: what the program itself takes", empty, SHOWN, SHOWN),
    honest("safetensors-200000", "safetensors", "200,000 tensors", names(containers.write_safetensors, 200_000, "m.safetensors")),
    honest("gguf-200000", "gguf", "200,000 tensors", names(containers.write_gguf, 200_000, "m.gguf")),
    honest("gguf-vocabulary", "gguf", "150,000 tokens, scores and merges", vocabulary),
    honest("gguf-splits", "gguf split", "100 shards of 200 tensors", splits),
    honest("bintensors-100000", "bintensors", "100,000 tensors", names(containers.write_bintensors, 100_000, "m.bt")),
    honest("bintensors-legacy-100000", "bintensors", "100,000 tensors, legacy layout",
           names(containers.write_bintensors_legacy, 100_000, "m.bt")),
    honest("rten-20000", "rten", "20,000 constants",
           names(lambda path, tensors: containers.write_rten(path, list(tensors)), 20_000, "m.rten")),
    honest("index-100-shards", "safetensors index", "100 shards of 200 tensors", shards),
    honest("zip-100000", "zip", "100,000 members", zip_of(100_000)),
    honest("carton-5000", "carton", "5,000 files", carton_of(5_000)),
    honest("tar-20000", "tar", "20,000 members", tar_of(20_000, "w:", "m.tar")),
    honest("tar-gz-20000", "tar.gz", "20,000 members", tar_of(20_000, "w:gz", "m.tar.gz")),
    honest("directory-1000", "directory", "1,000 models", models, memory=1_000 * MEMORY_PER_MODEL, cpu=1_000 * CPU_PER_MODEL_S),
]
