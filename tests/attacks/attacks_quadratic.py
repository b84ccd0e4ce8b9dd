"""Work that grows with the square of the input, or with the product of two of its lists: names that collide, lists that many refer
to, a search of all for each."""
import hashlib
import io
import json
import os
import tarfile
import zipfile
import zlib

from attack import SHOWN, Attack, one_file, pack, put  # puts tests/support on the path
from attacks_dduf import pipeline
from attacks_hdf5 import Hdf5, contiguous
from attacks_ollama import layer, manifest, put_blob, store
from attacks_pytorch import checkpoint
from attacks_tvm import params
from attacks_zip import zipped
from collisions import libzip_names, std_names
from limits import CPU_PER_MODEL_S
from protobuf import data, onnx_graph, onnx_model, onnx_node, onnx_tensor
import pickles

UINT8 = 2


def sha256(blob):
    return hashlib.sha256(blob).hexdigest()


def safetensors(tensor_names, metadata=None):
    header = {name: {"dtype": "U8", "shape": [], "data_offsets": [i, i + 1]} for i, name in enumerate(tensor_names)}
    text = json.dumps({"__metadata__": metadata, **header} if metadata else header, separators=(",", ":")).encode()
    return pack("Q", len(text)) + text + bytes(len(header))


# ---- OCI

def kitfile(sections, layers):
    """A manifest of `layers` layers without annotations, and a Kitfile with other digests."""
    config = json.dumps(
        {"manifestVersion": "1.0", "code": [{"path": f"f{i}", "digest": f"sha256:{i:064x}"} for i in range(sections)]},
        separators=(",", ":")).encode()
    described = [{"mediaType": "application/vnd.kitops.modelkit.code.v1.tar", "digest": f"sha256:{1 << 200 | i:064x}", "size": 9}
                 for i in range(layers)]
    whole = {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "artifactType": "application/vnd.kitops.modelkit.manifest.v1", "config": {
            "mediaType": "application/vnd.kitops.modelkit.config.v1+json", "digest": "sha256:" + sha256(config), "size": len(config)
        }, "layers": described
    }

    def build(folder):
        put(folder, "blobs/sha256/" + sha256(config), config)
        main = json.dumps(whole, separators=(",", ":")).encode()
        put(folder, "blobs/sha256/" + sha256(main), main)
        put(folder, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        return put(folder, "index.json", json.dumps({"schemaVersion": 2, "manifests": [
            {"mediaType": whole["mediaType"], "digest": "sha256:" + sha256(main), "size": len(main)}]}).encode())
    return build


# ---- archives

def hard_link_after(members):
    """A compressed tar of members whose names collide, and a hard link, for which they are put into a table."""
    def build(folder):
        with tarfile.open(os.path.join(folder, "m.tar.gz"), "w:gz", format=tarfile.USTAR_FORMAT) as out:
            for name in std_names(members):
                out.addfile(tarfile.TarInfo(name.decode()))
            link = tarfile.TarInfo("link")
            link.type, link.linkname = tarfile.LNKTYPE, "none"
            out.addfile(link)
        return "m.tar.gz"
    return build


def long_names(count, prefix):
    """Names that begin alike for `prefix` bytes, then have 31 components: a search for each component compares what is alike."""
    def build(folder):
        with tarfile.open(os.path.join(folder, "m.tar.gz"), "w:gz", format=tarfile.GNU_FORMAT) as out:
            for i in range(count):
                out.addfile(tarfile.TarInfo("n" * prefix + "/a" * 30 + f"/{i}"))
        return "m.tar.gz"
    return build


def colliding(make, count):
    """A zip of one file under names that collide."""
    def fill(out):
        at = out.local(b"", b"x")
        for name in make(count):
            out.entry(name, at, 1, 1, crc=zlib.crc32(b"x"))
    return zipped(fill)


def many_folders(keys, folders):
    """A DDUF with an index of `keys` names and other folders."""
    def fill(out):
        at = out.local(b"", b"")
        for i in range(folders):
            out.entry(f"{i}/x.txt", at, 0, 0)

    return pipeline(fill,
                    lambda: json.dumps({"_class_name": "P", **{f"k{i}": i for i in range(keys)}}, separators=(",", ":")).encode())


def modules(count, tensors):
    """A Model Library Format of `count` modules whose parameters are hard links to one file."""
    def build(folder):
        described = {"version": 7, "modules": {f"m{i}": {"memory": {"sids": [{"storage_id": 0}]}} for i in range(count)}}
        content = params([(b"p%d" % i, (), b"1") for i in range(tensors)])
        with tarfile.open(os.path.join(folder, "m.tar.gz"), "w:gz", format=tarfile.USTAR_FORMAT) as out:
            for name, text in (("metadata.json", json.dumps(described).encode()), ("parameters/m0.params", content)):
                member = tarfile.TarInfo(name)
                member.size = len(text)
                out.addfile(member, io.BytesIO(text))
            for i in range(1, count):
                link = tarfile.TarInfo(f"parameters/m{i}.params")
                link.type, link.linkname = tarfile.LNKTYPE, "parameters/m0.params"
                out.addfile(link)
        return "m.tar.gz"
    return build


# ---- pickles

def shared_pairs(items, calls):
    """An OrderedDict of one list of numbers, many times: none of them is a pair."""
    return (b"](" + b"K\1" * items + b"eq\0" + pickles.function("collections", "OrderedDict") + b"q\1"
            b"](" + b"h\1h\0\x85R" * calls + b"e")


def long_keys(count, length):
    """Identifiers of one storage with a long key."""
    identifier = b"(" + pickles.text("storage") + pickles.function("torch", "FloatStorage") + pickles.text("k" * length) + \
        pickles.text("cpu") + pickles.integer(1) + b"t"
    return pickles.legacy(identifier + b"q\0](" + b"h\0Q" * count + b"e", [])


def sharded(index, shards):
    """A directory of these files, and an index that has a tensor in each."""
    def build(folder):
        names = []
        for name, content in shards():
            names.append(put(folder, name, content))
        return put(folder, index, json.dumps({"weight_map": {name: name for name in names}}).encode())
    return build


def dangerous(count, length):
    """Checkpoints that each name another function of a module that runs code."""
    return ((f"{i:05}.bin", pickles.legacy(pickles.function("os", f"{i:05}" + "n" * length), [])) for i in range(count))


# ---- other models

def keras(count, datasets):
    """Small HDF5 files, whose tensors are appended to one list."""
    file = Hdf5()
    dataset = file.dataset((2,), contiguous(96, 8))
    content = file.build(file.group([(b"%d" % i, dataset) for i in range(datasets)]))
    return ((f"{i:05}.h5", content) for i in range(count))


def ollama_tensors(count):
    """A blob of tensors whose names collide."""
    def fill(folder):
        blob = put_blob(folder, safetensors([name.decode() for name in std_names(count)]))
        return manifest([layer("tensor", blob, name="t")])
    return store(fill)


def ollama_layers(count):
    """Layers whose names collide."""
    def fill(folder):
        blob = put_blob(folder, b"{}")
        return manifest([layer("json", blob, name=name.decode()) for name in std_names(count)])
    return store(fill)


def onnx_initializers(count):
    return onnx_graph([onnx_tensor(name.decode(), UINT8, (1, ), data(9, b"x"))
                       for name in std_names(count)]) + data(11, data(1, b"x"))


def onnx_below(scope, count):
    """Initializers of a subgraph whose path is long."""
    inner = data(5, b"") * count
    return onnx_graph(nodes=[onnx_node("Loop", (), (), data(1, "body") + data(6, inner), name="n" * scope)])


def deep_directory(depth, entries):
    """Many subdirectories of the innermost of many directories: each remembers how it was reached."""
    def build(folder):
        path = os.path.join(folder, *["d"] * depth)
        os.makedirs(path)
        for i in range(entries):
            os.mkdir(os.path.join(path, str(i)))
        return ""
    return build


ATTACKS = [
    Attack("quadratic-oci-kitfile", "oci", "12,000 layers that are searched in a Kitfile of 10,000 sections",
           kitfile(10_000, 12_000)),
    Attack("quadratic-zip-names", "zip", "65,000 names that collide in the table of libzip", colliding(libzip_names, 65_000)),
    Attack("quadratic-tar-hard-link", "tar.gz", "60,000 members whose names collide, and a hard link", hard_link_after(60_000)),
    Attack("quadratic-names-alike", "tar.gz", "900 names of 65,000 bytes that begin alike, with 31 components",
           long_names(900, 65_000)),
    Attack("quadratic-dduf-folders", "dduf", "60,000 folders that are searched in an index of 9,000 names",
           many_folders(9_000, 60_000), SHOWN),
    Attack("quadratic-mlf-modules", "tvm-mlf", "100 modules whose parameters are one file of 120,000", modules(100, 120_000)),
    Attack("quadratic-pickle-pairs", "pytorch", "100,000 dicts of one list of 50,000 numbers",
           checkpoint(lambda: shared_pairs(50_000, 100_000), zipfile.ZIP_DEFLATED)),
    Attack("quadratic-pickle-keys", "pytorch-legacy", "500,000 identifiers of a storage with a key of 32 KB",
           one_file("m.pt", lambda: long_keys(500_000, 32_000))),
    Attack("quadratic-index-dangerous", "pytorch-index", "6,000 shards that each name a function of 3,500 letters",
           sharded("pytorch_model.bin.index.json", lambda: dangerous(6_000, 3_500))),
    Attack("quadratic-keras-shards", "keras-sharded", "6,000 shards of 60 tensors",
           sharded("m.weights.json", lambda: keras(6_000, 60))),
    Attack("quadratic-ollama-tensors", "ollama", "60,000 tensors whose names collide", ollama_tensors(60_000)),
    Attack("quadratic-ollama-layers", "ollama", "14,000 layers whose names collide", ollama_layers(14_000)),
    Attack("quadratic-onnx-initializers", "onnx", "60,000 initializers whose names collide",
           one_file("m.onnx", lambda: onnx_model(onnx_initializers(60_000)))),
    Attack("quadratic-onnx-scope", "onnx", "100,000 tensors of a subgraph whose path has 60,000 bytes",
           one_file("m.onnx", lambda: onnx_model(onnx_below(60_000, 100_000)))),
    Attack("quadratic-directory-deep", "directory", "3,000 subdirectories below 450 directories", deep_directory(450, 3_000),
           SHOWN | {5}, cpu=3_450 * CPU_PER_MODEL_S),  # the kernel follows the path to each
]
