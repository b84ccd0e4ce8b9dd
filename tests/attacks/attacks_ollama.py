"""Ollama: manifests whose layers name one blob or none, stores of many manifests, configs."""
import io
import json
import os
import zipfile

from attack import EITHER, Attack, links_to, put
from limits import CPU_PER_MODEL_S, MEMORY_PER_MODEL
from attacks_gguf import model as gguf
from attacks_gguf import tensor as gguf_tensor
from attacks_safetensors import deep, shard_of
from stores import CONFIG, IMAGE, MANIFEST, digest, sha256

NAME = "manifests/registry.ollama.ai/library/m/latest"


def layer(kind, blob, size=None, **fields):
    return {"mediaType": kind if "/" in kind else IMAGE + kind, "digest": blob if isinstance(blob, str) else digest(blob),
            "size": len(blob) if size is None else size, **fields}


def manifest(layers, config=None, **fields):
    return {"schemaVersion": 2, "mediaType": MANIFEST, **({"config": config} if config else {}), "layers": layers, **fields}


def put_blob(folder, data):
    put(folder, f"blobs/sha256-{sha256(data)}", data)
    return data


def store(fill, whole=False):
    """A store with one manifest: `fill(folder)` writes the blobs and returns the manifest, as a value or as text."""
    def build(folder):
        os.makedirs(os.path.join(folder, "blobs"))
        value = fill(folder)
        put(folder, NAME, (value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))).encode())
        return "" if whole else NAME
    return build


def one_blob(kind, count, make, **fields):
    """`count` layers of one blob; in texts, {} is replaced by the index of the layer."""
    def fill(folder):
        blob = put_blob(folder, make())
        name = digest(blob)
        return manifest(
            [layer(kind, name, len(blob), **{key: value.format(i) for key, value in fields.items()}) for i in range(count)])
    return store(fill)


def with_config(make, media_type=CONFIG):
    def fill(folder):
        model = put_blob(folder, gguf(tensors=[gguf_tensor(b"t")]))
        return manifest([layer("model", model)], layer(media_type, put_blob(folder, make().encode())))
    return store(fill)


def with_layer(kind, make):
    def fill(folder):
        return manifest(
            [layer("model", put_blob(folder, gguf(tensors=[gguf_tensor(b"t")]))),
             layer(kind, put_blob(folder,
                                  make().encode()))])
    return store(fill)


def text(make):
    """A manifest with this text."""
    return store(lambda folder: make())


def many_manifests(count, make, hard=True):
    """A store with `count` tags, which are links to one manifest."""
    def build(folder):
        os.makedirs(os.path.join(folder, "blobs"))
        first = put(folder, NAME, make(folder))
        links_to(os.path.dirname(os.path.join(folder, first)), "latest", [f"t{i}" for i in range(count)], hard)
        return ""
    return build


def lists(depth, width):
    """Nested lists of manifests, each with the same entry `width` times."""
    def fill(folder):
        inner = json.dumps(manifest([layer("model", put_blob(folder, gguf(tensors=[gguf_tensor(b"t")])))])).encode()
        for _ in range(depth):
            put_blob(folder, inner)
            inner = json.dumps({
                "schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.list.v2+json",
                "manifests": [{"mediaType": MANIFEST, "digest": digest(inner), "size": len(inner), "runner": f"r{i}"}
                              for i in range(width)]
            }).encode()
        return inner.decode()
    return store(fill)


def odd_blobs(folder):
    blobs = [b"fifo", b"loop", b"directory", b"device"]
    paths = [os.path.join(folder, "blobs", "sha256-" + sha256(blob)) for blob in blobs]
    os.mkfifo(paths[0])
    os.symlink(os.path.basename(paths[1]), paths[1])
    os.mkdir(paths[2])
    os.symlink("/dev/zero", paths[3])
    return manifest([layer("model", blob)
                     for blob in blobs] + [layer("model", "sha256:../../../../etc/passwd", 10),
                                           layer("model", "", 10)])


def model_of(tensors):
    return lambda: gguf(tensors=[gguf_tensor(b"t%d" % i) for i in range(tensors)])


def zip_of(count):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for i in range(count):
            file.writestr(f"{i}", b"")
    return out.getvalue()


MISMATCHED = EITHER | {7}
MISSING = "sha256:{:064x}"

ATTACKS = [
    # Many layers.
    Attack("ollama-tensor-layers-one-blob", "ollama", "13,000 tensor layers of one blob with 1,000 tensors",
           one_blob("tensor", 13_000, lambda: shard_of(1_000), name="t{}")),
    Attack("ollama-tensor-layers-small-blob", "ollama", "20,000 tensor layers of one blob with one tensor",
           one_blob("tensor", 18_000, lambda: shard_of(1), name="t{}")),
    Attack("ollama-tensor-layers-large-blob", "ollama", "13,000 tensor layers of one blob of 8 MB",
           one_blob("tensor", 13_000, lambda: shard_of(1) + bytes(8 << 20), name="t{}")),
    Attack("ollama-model-layers-one-gguf", "ollama", "300 model layers of one GGUF of 20,000 tensors",
           one_blob("model", 300, model_of(20_000))),
    Attack("ollama-model-layers-13000", "ollama", "13,000 model layers of one GGUF of 100 tensors",
           one_blob("model", 13_000, model_of(100))),
    Attack("ollama-adapter-layers", "ollama", "13,000 adapters and projectors of one GGUF",
           one_blob("adapter", 13_000, model_of(1_000))),
    Attack("ollama-license-layers", "ollama", "13,000 license layers of one blob of 1 MB",
           one_blob("license", 13_000, lambda: b"L" * 1_000_000)),
    Attack("ollama-params-layers", "ollama", "13,000 params layers of one blob of 500 KB",
           one_blob("params", 13_000, lambda: b'{"stop": ["' + b"x" * 500_000 + b'"]}')),
    Attack("ollama-messages-layers", "ollama", "13,000 messages layers of one blob of 16 KB",
           one_blob("messages", 13_000, lambda: b'[{"role": "user", "content": "' + b"\\u0001" * 2_700 + b'"}]')),
    Attack("ollama-json-layers", "ollama", "13,000 JSON layers called config.json of one blob",
           one_blob("json", 13_000, lambda: b'{"quantization": {}}', name="config.json")),
    Attack("ollama-unknown-layers", "ollama", "13,000 layers of unknown types that may be containers, one zip of 1,000 members",
           one_blob("x/unknown", 13_000, lambda: zip_of(1_000))),
    Attack("ollama-missing-layers", "ollama", "20,000 layers whose blobs are missing, each another one",
           store(lambda folder: manifest([layer("tensor", MISSING.format(i), 10, name=f"t{i}") for i in range(18_000)]))),
    Attack("ollama-missing-layer-repeated", "ollama", "20,000 layers of one missing blob",
           store(lambda folder: manifest([layer("tensor", MISSING.format(1), 10, name=f"t{i}") for i in range(18_000)]))),
    Attack("ollama-layers-100000", "ollama", "100,000 empty layers",
           text(lambda: '{"schemaVersion":2,"mediaType":"' + MANIFEST + '","layers":[' + ",".join(["{}"] * 100_001) + "]}")),
    Attack("ollama-sizes", "ollama", "layers of 2^63 - 1 bytes",
           store(lambda folder: manifest([layer("model", put_blob(folder, b"x%d" % i), (1 << 63) - 1) for i in range(500)])),
           MISMATCHED),
    Attack("ollama-odd-blobs", "ollama", "blobs that are a FIFO, a loop, a directory, a device, outside", store(odd_blobs)),
    Attack(
        "ollama-wrong-blob", "ollama", "a blob of the right size with other bytes",
        store(lambda folder: (put(folder, f"blobs/sha256-{1:064x}",
                                  model_of(1)()), manifest([layer("model", MISSING.format(1), len(model_of(1)()))]))[1]),
        MISMATCHED),

    # Names, media types.
    Attack("ollama-names-31-components", "ollama", "10,000 tensor layers with names of 31 components",
           one_blob("tensor", 10_000, lambda: shard_of(1), name="{}/" + "a/" * 29 + "w")),
    Attack("ollama-names-long", "ollama", "60 layers with names of 60,000 escapes",
           one_blob("json", 60, lambda: b"{}", name="\1" * 10_000 + "{}")),
    Attack("ollama-names-repeated", "ollama", "13,000 JSON layers of one name", one_blob("json", 13_000, lambda: b"{}",
                                                                                         name="same")),
    Attack(
        "ollama-media-type-parameters", "ollama", "media types with 100,000 parameters",
        store(lambda folder: manifest([layer("tensor" + "".join(f"; p{i}=1" for i in range(100_000)), put_blob(folder, b"x"))]))),
    Attack(
        "ollama-media-type-escapes", "ollama", "a media type with a quoted value of 3 MB",
        store(lambda folder: manifest(
            [layer('tensor; name="' + "\\a" * 700_000 + '"; dtype=F32; shape=1', put_blob(folder, b"1234"))]))),
    Attack(
        "ollama-bare-shape", "ollama", "bare tensors with 400,000 sizes",
        store(lambda folder: manifest(
            [layer("tensor; name=w; dtype=F32; shape=" + "1," * 400_000 + "1", put_blob(folder, b"1234"))]))),
    Attack(
        "ollama-bare-shape-wraps", "ollama", "a bare tensor whose shape wraps",
        store(lambda folder: manifest(
            [layer("tensor; name=w; dtype=F32; shape=4294967296,4294967296,4", put_blob(folder, b"1234"))]))),

    # JSON.
    Attack("ollama-manifest-deep", "ollama", "a manifest nested 500,000 deep",
           text(lambda: '{"mediaType":"' + MANIFEST + '","layers":' + deep(500_000) + "}")),
    Attack("ollama-manifest-values", "ollama", "a manifest of 1,300,000 empty lists",
           text(lambda: '{"mediaType":"' + MANIFEST + '","layers":[],"x":[' + "[]," * 1_300_000 + "1]}")),
    Attack("ollama-manifest-keys", "ollama", "300,000 times the key layers",
           text(lambda: '{"mediaType":"' + MANIFEST + '"' + ',"layers":[]' * 300_000 + "}")),
    Attack("ollama-config-deep", "ollama", "a config nested 500,000 deep", with_config(lambda: '{"a":' * 100_000)),
    Attack("ollama-config-99-deep", "ollama", "a config with 5,000 lists 97 deep",
           with_config(lambda: '{"a":[' + ",".join([deep(97)] * 5_000) + "]}")),
    Attack("ollama-config-values-deep", "ollama", "60,000 values below 96 levels",
           with_config(lambda: '{"a":' * 96 + "[" + "1," * 60_000 + "1]" + "}" * 96)),
    Attack("ollama-config-text", "ollama", "a config of 1 MB of escapes",
           with_config(lambda: '{"model_family":"' + "\\u0001" * 170_000 + '"}')),
    Attack("ollama-config-large", "ollama", "a config of 8 MB", with_config(lambda: '{"a":"' + "x" * 8_000_000 + '"}')),
    Attack("ollama-license-large", "ollama", "a license of 8 MB in one line", with_layer("license", lambda: "L" * 8_000_000)),
    Attack("ollama-params-deep", "ollama", "parameters nested 100 deep, 4,000 times",
           with_layer("params", lambda: '{"stop":[' + ",".join([deep(99)] * 4_000) + "]}")),
    Attack("ollama-messages-many", "ollama", "200,000 messages",
           with_layer("messages", lambda: "[" + ",".join(['{"role":"user","content":""}'] * 200_000) + "]")),

    # Lists and stores.
    Attack("ollama-lists-nested", "ollama", "lists of manifests, 8 deep, 100 times the same in each", lists(8, 100)),
    Attack("ollama-lists-wide", "ollama", "a list with 10,000 times one manifest", lists(1, 10_000)),
    Attack("ollama-lists-deep", "ollama", "lists of manifests, 300 deep", lists(300, 1)),
    Attack("ollama-store-empty-manifests", "ollama store", "5,000 tags of one manifest without layers",
           many_manifests(5_000, lambda folder: b"{}"), memory=5_000 * MEMORY_PER_MODEL, cpu=5_000 * CPU_PER_MODEL_S),
    Attack(
        "ollama-store-manifests", "ollama store", "5,000 tags of one manifest whose blobs are missing",
        many_manifests(5_000,
                       lambda folder: json.dumps(manifest([layer("model", MISSING.format(i), 10) for i in range(20)])).encode()),
        memory=5_000 * MEMORY_PER_MODEL, cpu=5_000 * CPU_PER_MODEL_S),
    Attack(
        "ollama-store-large-manifests", "ollama store", "1,000 tags of one manifest of 3 MB",
        many_manifests(
            1_000, lambda folder: json.dumps(manifest([layer("tensor", MISSING.format(i), 10) for i in range(18_000)])).encode()),
        memory=1_000 * MEMORY_PER_MODEL, cpu=1_000 * CPU_PER_MODEL_S),
    Attack(
        "ollama-store-models", "ollama store", "100 tags of one GGUF of 10,000 tensors",
        many_manifests(100, lambda folder: json.dumps(manifest([layer("model", put_blob(folder,
                                                                                        model_of(10_000)()))])).encode()),
        memory=1_500_000_000, cpu=100),
    Attack("ollama-store-deep-manifests", "ollama store", "2,000 tags of a manifest of brackets",
           many_manifests(2_000, lambda folder: b"[" * 1_000_000), memory=2_000 * MEMORY_PER_MODEL, cpu=2_000 * CPU_PER_MODEL_S),
]
