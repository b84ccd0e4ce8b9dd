"""TensorFlow.js: manifests that name files without end or outside, and weights that lie."""
import json
import os

from attack import REFUSED, SHOWN, Attack, honest, put


def weight(name, shape=(1,), dtype="float32", **more):
    return {"name": name, "shape": list(shape), "dtype": dtype, **more}


def group(weights, paths=("w.bin",)):
    return {"paths": list(paths), "weights": weights}


def model(make, weights=lambda: bytes(64)):
    """`make`: the groups, or a text that is the whole file."""
    def build(folder):
        put(folder, "w.bin", weights())
        content = make()
        text = content if isinstance(content, str) else json.dumps({"format": "layers-model", "weightsManifest": content})
        return put(folder, "model.json", text.encode())
    return build


def with_link(folder):
    os.symlink("/etc/passwd", os.path.join(folder, "s.bin"))
    return put(folder, "model.json", json.dumps({"weightsManifest": [group([weight("w")], ["s.bin"])]}).encode())


ATTACKS = [
    Attack("tfjs-paths-repeated", "tfjs", "one file 500,000 times in a group",
           model(lambda: [group([weight("w", (1_000_000,))], ["w.bin"] * 500_000)])),
    Attack("tfjs-paths-many", "tfjs", "200,000 files that do not exist",
           model(lambda: [group([weight("w")], [f"{i}.bin" for i in range(200_000)])])),
    Attack("tfjs-weights-empty", "tfjs", "200,000 weights without elements",
           model(lambda: [group([weight(f"w{i}", (0,)) for i in range(200_000)])])),
    Attack("tfjs-strings", "tfjs", "8,000,000 strings, which are walked to find the next weight",
           model(lambda: [group([weight("s", (8_000_000,), "string"), weight("w", (1,), "bool")])], lambda: bytes(32_000_001))),
    Attack("tfjs-strings-claimed", "tfjs", "2^40 strings", model(lambda: [group([weight("s", (1 << 40,), "string")])]), SHOWN),
    Attack("tfjs-shape-overflows", "tfjs", "a shape of 2^120 elements", model(lambda: [group([weight("w", (1 << 60, 1 << 60))])]),
           SHOWN),
    Attack("tfjs-offsets-wrap", "tfjs", "weights whose sizes sum to 2^64",
           model(lambda: [group([weight(f"w{i}", (1 << 61,)) for i in range(9)])]), SHOWN),
    Attack("tfjs-topology-deep", "tfjs", "1,000,000 lists in lists in the topology",
           model(lambda: '{"modelTopology":' + "[" * 1_000_000 + "]" * 1_000_000 + ',"weightsManifest":[]}'), REFUSED),
    Attack("tfjs-facts", "tfjs", "3,000,000 values of metadata",
           model(lambda: '{"weightsManifest":[],"userDefinedMetadata":[' + ",".join("0" * 3_000_000) + "]}")),
    Attack("tfjs-manifest-lists", "tfjs", "5,000,000 empty lists in the manifest",
           model(lambda: '{"weightsManifest":[' + ",".join(["[]"] * 5_000_000) + "]}")),
    Attack("tfjs-link", "tfjs", "a file behind a link out of the directory", with_link, SHOWN),
    honest("tfjs", "tfjs", "20,000 weights in four files",
           model(lambda: [group([weight(f"layer_{i}/kernel", (4,)) for i in range(20_000)], ["w.bin"] * 4)],
                 lambda: bytes(80_000))),
]
