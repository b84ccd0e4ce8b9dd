"""Writes Ollama stores, content of registries (manifests and their blobs), and the caches of other programs with blobs by
digest. Standard library only.

A Package is a model that can be written into a store, or pushed to a registry; both must then
show the same tree.
"""
import base64
import hashlib
import json
import os

import archives
import containers

IMAGE = "application/vnd.ollama.image."
CONFIG = "application/vnd.docker.container.image.v1+json"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DEFAULT_HOST = "registry.ollama.ai"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def digest(data):
    return "sha256:" + sha256(data)


def as_go(value):
    """JSON as encoding/json of Go writes it: compact, with a newline at its end."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode() + b"\n"


def gguf(folder, tensors, metadata=None):
    """The bytes of a GGUF; `folder` for a temporary file."""
    return written(containers.write_gguf, folder, tensors, metadata or {"general.architecture": "llama", "general.name": "Tiny"})


def safetensors(folder, tensors, metadata=None):
    return written(containers.write_safetensors, folder, tensors, metadata)


def written(writer, folder, *what):
    path = os.path.join(folder, "being-written")
    writer(path, *what)
    with open(path, "rb") as file:
        data = file.read()
    os.remove(path)
    return data


class Package:
    """A manifest under construction: layers in order, each with its blob."""

    def __init__(self, config=None):
        self.blobs = {}
        self.layers = []
        config = {"model_format": "gguf", "model_family": "llama", "model_type": "1.2M", "file_type": "F32"
                  } if config is None else config
        self.config = self.descriptor(CONFIG, as_go(config)) if config else None

    def descriptor(self, media_type, data, **fields):
        self.blobs[sha256(data)] = data
        return {"mediaType": media_type, "digest": digest(data), "size": len(data), **fields}

    def add(self, kind, data, **fields):
        """A layer; `kind` is the end of its media type."""
        self.layers.append(self.descriptor(IMAGE + kind, data, **fields))
        return self

    def manifest(self, **fields):
        out = {"schemaVersion": 2, "mediaType": MANIFEST}
        if self.config:
            out["config"] = self.config
        return as_go({**out, "layers": self.layers, **fields})


TEMPLATE = b"{{ .System }}\n{{ .Prompt }}"
LICENSE = b"Do what you like.\nBut not here.\n" * 10
PARAMETERS = {"stop": ["<|end|>"], "temperature": 0.5}


def tiny(folder, tensors, name="Tiny"):
    """The result of `ollama create` for a GGUF."""
    package = Package()
    package.add("model", gguf(folder, tensors, {"general.architecture": "llama", "general.name": name}))
    package.add("template", TEMPLATE)
    package.add("license", LICENSE)
    package.add("params", as_go(PARAMETERS))
    return package


def mlx(folder, tensors, files):
    """A model whose tensors are layers; `files`: {name: content of that JSON file}."""
    package = Package({"model_format": "safetensors", "model_family": "", "model_type": "1.2M", "file_type": "bf16"})
    for tensor in tensors:
        package.add("tensor", safetensors(folder, [tensor]), name=tensor.name)
    for name, value in files.items():
        package.add("json", as_go(value), name=name)
    return package


def document(tensors, files):
    """A manifest in the layout of the document: parameters of the media type describe a layer; the config is a layer; the
    blob of a tensor is its bare bytes."""
    package = Package(config={})
    package.layers.append(package.descriptor(IMAGE + "config; type=safetensors", as_go({"model_type": "llama"})))
    for tensor in tensors:
        shape = ",".join(map(str, tensor.shape))
        dtype = containers.DTYPES[tensor.dtype].safetensors
        package.add(f'tensor; name="{tensor.name}"; dtype={dtype}; shape={shape}', bytes(tensor.data))
    for kind, data in files.items():
        package.add(kind, data)
    return as_go({"layers": package.layers}), package.blobs


class Store:
    """A store directory as written by `ollama serve`."""

    def __init__(self, root):
        self.root = root
        os.makedirs(os.path.join(root, "manifests"))
        os.makedirs(os.path.join(root, "blobs"))

    def blob_path(self, data, separator="-"):
        return os.path.join(self.root, "blobs", f"sha256{separator}{sha256(data)}")

    def put_blob(self, data, separator="-"):
        return self.put(self.blob_path(data, separator), data)

    def put_manifest(self, name, manifest):
        """`name`: host/namespace/model/tag, or the part that starts with the model."""
        path = name if name.count("/") == 3 else f"{DEFAULT_HOST}/library/{name}"
        return self.put(os.path.join(self.root, "manifests", path), manifest)

    def put_package(self, name, package, separator="-"):
        for data in package.blobs.values():
            self.put_blob(data, separator)
        return self.put_manifest(name, package.manifest())

    @staticmethod
    def put(path, data):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return path


def everything_in(folder):
    """Every path below a folder with the attributes that a write would change."""
    found = {}
    for base, directories, names in os.walk(folder):
        for path in [base, *(os.path.join(base, name) for name in directories + names)]:
            status = os.lstat(path)
            link = os.readlink(path) if os.path.islink(path) else None
            found[path] = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, link)
    return found


def put_in_hub_cache(folder, repository, name, data):
    """Stores a file like the clients of the Hugging Face hub; returns the path of the blob."""
    top = os.path.join(folder, "models--" + repository.replace("/", "--"))
    revision = "0" * 40
    blob = Store.put(os.path.join(top, "blobs", sha256(data)), data)
    os.makedirs(os.path.join(top, "snapshots", revision), exist_ok=True)
    os.symlink(f"../../blobs/{sha256(data)}", os.path.join(top, "snapshots", revision, name))
    Store.put(os.path.join(top, "refs", "main"), revision.encode())
    return blob


def put_snapshot_in_hub_cache(folder, files, id="org/demo", kind="models", commit="1" * 40, revision="main"):
    """Stores a commit of hub_server.File by path like the clients of the Hugging Face hub; returns the snapshot."""
    top = os.path.join(folder, f"{kind}--{id.replace('/', '--')}")
    for path, file in files.items():
        blob = file.sha256 if file.is_lfs else file.oid
        Store.put(os.path.join(top, "blobs", blob), file.content)
        link = os.path.join(top, "snapshots", commit, path)
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink("../" * (2 + path.count("/")) + "blobs/" + blob, link)
    Store.put(os.path.join(top, "refs", revision), commit.encode())
    return os.path.join(top, "snapshots", commit)


def model_signature(digests):
    """A model.sig of OpenSSF Model Signing, with an empty signature. `digests`: SHA-256 in hex by path."""
    resources = [{"name": path, "algorithm": "sha256", "digest": digest} for path, digest in sorted(digests.items())]
    statement = {"_type": "https://in-toto.io/Statement/v1", "subject": [], "predicateType": "https://model_signing/signature/v1.0",
                 "predicate": {"serialization": {"method": "files", "hash_type": "sha256"}, "resources": resources}}
    envelope = {"payload": base64.b64encode(json.dumps(statement).encode()).decode(), "payloadType": "application/vnd.in-toto+json",
                "signatures": [{"sig": "", "keyid": ""}]}
    return json.dumps(
        {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": {},
         "dsseEnvelope": envelope}).encode()


def put_in_carton_cache(folder, data, url):
    """Stores a file like the official tool of Carton; returns the path of the blob."""
    Store.put(os.path.join(folder, "files", sha256(data), "info.json"), json.dumps({"url": url}).encode())
    return Store.put(os.path.join(folder, "files", sha256(data), "file"), data)


def linked_carton(path, far, near=None, tensors=()):
    """A carton whose LINKS have `far`: {path: (bytes, [URL])}. `tensors`: (name, dtype, shape, file in tensor_data) of
    its index; their files are local or linked."""
    near = dict(near or {})
    if tensors:
        near["tensor_data/index.toml"] = "".join(
            f'[[tensor]]\nname = "{name}"\ndtype = "{dtype}"\nshape = {list(shape)}\nfile = "{file}"\ninner = []\n\n'
            for name, dtype, shape, file in tensors).encode()
    archives.write_carton(path, near, linked={name: data for name, (data, _) in far.items()},
                          urls={name: urls for name, (_, urls) in far.items()})
    return path
