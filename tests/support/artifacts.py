"""OCI artifacts and images as their writers make them: CNCF ModelPack, Docker Model Runner, KitOps, ORAS, container images."""
import gzip
import hashlib
import io
import json
import os
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
FILEPATH = "org.cncf.model.filepath"
TITLE = "org.opencontainers.image.title"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def as_json(value):
    return json.dumps(value, separators=(",", ":")).encode()


def tar(files, compress=False):
    """A tar of {name: bytes}; a name that ends with `/` is a directory, a value that is a str a symbolic link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name.rstrip("/"))
            if name.endswith("/"):
                info.type = tarfile.DIRTYPE
            elif isinstance(data, str):
                info.type, info.linkname = tarfile.SYMTYPE, data
            else:
                info.size = len(data)
            archive.addfile(info, io.BytesIO(data) if isinstance(data, bytes) else None)
    return gzip.compress(out.getvalue(), mtime=0) if compress else out.getvalue()


class Artifact:
    """A manifest under construction."""

    def __init__(self, artifact_type=None, config_type="application/vnd.oci.empty.v1+json", config=None, annotations=None):
        self.blobs = {}
        self.fields = {"schemaVersion": 2, "mediaType": MANIFEST}
        if artifact_type:
            self.fields["artifactType"] = artifact_type
        self.fields["config"] = self.descriptor(config_type, as_json(config or {}))
        self.fields["layers"] = []
        if annotations:
            self.fields["annotations"] = annotations

    def descriptor(self, media_type, data, annotations=None):
        self.blobs[digest(data)] = data
        found = {"mediaType": media_type, "digest": digest(data), "size": len(data)}
        return {**found, "annotations": annotations} if annotations else found

    def add(self, media_type, data, path=None, key=FILEPATH, **annotations):
        self.fields["layers"].append(self.descriptor(media_type, data, {**({key: path} if path else {}), **annotations} or None))
        return self

    def manifest(self):
        return as_json(self.fields)

    def push(self, registry, name, tag):
        for data in self.blobs.values():
            registry.push_blob(name, data)
        registry.push_manifest(name, tag, self.manifest())
        return f"oci://{registry.host}/{name}:{tag}"


def modelpack(**fields):
    """As `modctl build` writes it."""
    config = {"descriptor": {"name": "tiny", "licenses": ["Apache-2.0"], "revision": "abc123", **fields},
              "config": {"architecture": "transformer", "format": "gguf"}, "modelfs": {"type": "layers", "diffIds": []}}
    return Artifact("application/vnd.cncf.model.manifest.v1+json", "application/vnd.cncf.model.config.v1+json", config)


def layout(folder, *tagged):
    """Writes an image layout of (tag, artifact), or of (tag, artifact, platform)."""
    manifests = []
    os.makedirs(os.path.join(folder, "blobs", "sha256"), exist_ok=True)
    for tag, artifact, *platform in tagged:
        text = artifact.manifest()
        for data in [*artifact.blobs.values(), text]:
            with open(os.path.join(folder, "blobs", "sha256", digest(data)[7:]), "wb") as file:
                file.write(data)
        entry = {"mediaType": MANIFEST, "digest": digest(text), "size": len(text),
                 "annotations": {"org.opencontainers.image.ref.name": tag}}
        manifests.append({**entry, "platform": platform[0]} if platform else entry)
    for name, value in (("oci-layout", {"imageLayoutVersion": "1.0.0"}),
                        ("index.json", {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(as_json(value))
    return folder


def saved(layers):
    """The tar of `docker save` before it wrote layouts: `layers` are tars."""
    names = [f"{hashlib.sha256(layer).hexdigest()}/layer.tar" for layer in layers]
    manifest = [{"Config": "config.json", "RepoTags": ["tiny:latest"], "Layers": names}]
    return tar({**dict(zip(names, layers)), "config.json": b"{}", "manifest.json": as_json(manifest)})


def index(manifests, artifact_type=None):
    """An index of (name, artifact)."""
    entries = [{"mediaType": MANIFEST, "digest": digest(artifact.manifest()), "size": len(artifact.manifest()),
                "annotations": {TITLE: name}} for name, artifact in manifests]
    fields = {"schemaVersion": 2, "mediaType": INDEX, **({"artifactType": artifact_type} if artifact_type else {})}
    return as_json({**fields, "manifests": entries})
