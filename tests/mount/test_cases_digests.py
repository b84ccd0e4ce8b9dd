"""Digests that lie beside the bytes of a model on disk, and the causes of tensors that cannot be read: a table of situations."""
import hashlib
import json
import os
import struct

from cases import SOURCE, Case, table
from hub_server import git_id
from mounting import NOBODY, WEIGHTFS, TestCase, as_nobody, is_sanitized, run
from tensors import Tensor
import containers
import protobuf
import stores

TENSORS = [Tensor("a", "int8", (64,), bytes(range(64))), Tensor("b", "float32", (4,), struct.pack("<4f", 1, 2, 3, 4))]
DIFFERS = "should be"
IS_SANITIZED = is_sanitized()
NO_DIGEST = "no digest known"


def gguf(tmp):
    return stores.gguf(tmp, TENSORS)


def safetensors(tmp):
    return stores.safetensors(tmp, TENSORS)


def flipped(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def put(tmp, path, data):
    stores.Store.put(os.path.join(tmp, path), data)
    return os.path.join(tmp, path)


def linked(target, tmp, path):
    os.makedirs(os.path.dirname(os.path.join(tmp, path)), exist_ok=True)
    os.symlink(target, os.path.join(tmp, path))
    return os.path.join(tmp, path)


def verify(name, build, status, shows=(), hides=()):
    return Case(name, build, ("verify", "--verbose", SOURCE), status, {}, shows, hides)


def rows(name, build, where="beside the file", shows=()):
    """`build(tmp, data)` writes a model whose bytes are `data(model)` beside the digest of the model: right bytes, and others."""
    def right(tmp):
        return build(tmp, lambda data: data)

    def wrong(tmp):
        return build(tmp, flipped)

    reads = [
        Case(f"{name}-cat", wrong, ("cat", SOURCE, "tensors/a"), 7),
        Case(f"{name}-export", wrong, ("export", "--force", "--to", "npz", SOURCE, "/dev/null"), 7),
        Case(f"{name}-stats", wrong, ("stats", SOURCE), 7),
    ]
    return [
        verify(name, wrong, 7, (DIFFERS, *shows)),
        verify(f"{name}-right", right, 0, ("1 file matches its checksum",)),
        *([] if IS_SANITIZED else reads),  # they differ from each other, not from name to name
        Case(f"{name}-info", right, ("info", SOURCE), 0, {}, (f"digest {where}: not compared yet",), (NO_DIGEST,)),
    ]


def blob(name, by_git=False):
    """A file at `name`, in which HEX is the digest."""
    def build(tmp, change):
        data = gguf(tmp)
        return put(tmp, name.replace("HEX", git_id(data) if by_git else sha256(data)), change(data))
    return build


def link_to(path, target):
    def build(tmp, change):
        data = gguf(tmp)
        linked(os.path.abspath(put(tmp, target.replace("HEX", sha256(data)), change(data))), tmp, "first.gguf")
        return linked("first.gguf", tmp, path)
    return build


def in_directory_of_blobs(tmp):
    data = gguf(tmp)
    return os.path.dirname(put(tmp, f"blobs/sha256-{sha256(data)}", flipped(data)))


BLOBS = table("Blobs", [
    *rows("verify-blob-by-name", blob("blobs/sha256-HEX"), "in the name", ("by its name",)),
    *rows("blob-of-old-ollama", blob("blobs/sha256:HEX"), "in the name"),
    *rows("blob-of-hub", blob("models--org--demo/blobs/HEX"), "in the name"),
    *rows("blob-of-hub-by-git-id", blob("models--org--demo/blobs/HEX", by_git=True), "in the name"),
    *rows("blob-of-docker", blob(".docker/models/blobs/sha256/HEX"), "in the name"),
    *rows("object-of-git-lfs", lambda tmp, change: put(tmp, "lfs/objects/{0:.2}/{1:.2}/{0}".format(
        sha256(gguf(tmp)), sha256(gguf(tmp))[2:]), change(gguf(tmp))), "in the name"),
    *rows("link-to-link-to-blob", link_to("model.gguf", "blobs/sha256-HEX"), "in the name"),
    *rows("link-to-blob-of-docker", link_to("model.gguf", "blobs/sha256/HEX"), "in the name"),
    verify("directory-of-blobs", in_directory_of_blobs, 7, (DIFFERS,)),
    # A name that is not a digest, or may be that of something else.
    verify("name-that-is-short", lambda tmp: put(tmp, "blobs/sha256-" + "0" * 63, gguf(tmp)), 0, ("no checksums",)),
    verify("name-of-hex-elsewhere", lambda tmp: put(tmp, "cache/" + "0" * 64, gguf(tmp)), 0, ("no checksums",)),
    verify("blob-of-ramalama", lambda tmp: os.makedirs(f"{tmp}/store/snapshots") or put(
        tmp, "store/blobs/sha256-" + sha256(b"name"), gguf(tmp)), 0, ("no checksums",)),
])


def note(etag, time=4e9):
    return f"{'a' * 40}\n{etag}\n{time}\n".encode()


def local_directory(path="model.safetensors", source="", by_git=False, time=4e9, notes=".cache/huggingface/download",
                    quote="{}"):
    def build(tmp, change):
        data = safetensors(tmp)
        etag = git_id(data) if by_git else sha256(data)
        put(tmp, f"local/{path}", change(data))
        put(tmp, f"local/{notes}/{path}.metadata", note(quote.format(etag), time))
        return os.path.join(tmp, "local", source)
    return build


def local_directory_with(path="config.json", time=4e9, change=bytes):
    """`path` differs from the note about it."""
    def build(tmp):
        source = local_directory()(tmp, change)
        put(tmp, f"local/.cache/huggingface/download/{path}.metadata", note(git_id(b'{"model_type": "llama"}'), time))
        put(tmp, f"local/{path}", b'{"model_type": "qwen2"}')
        return source
    return build


def local_directory_of_external_data(tmp):
    """The name of a file with a tensor does not tell that it has one."""
    tensor = protobuf.onnx_external("w", protobuf.ONNX_FLOAT, (2,), location="numbers", offset=0, length=8)
    put(tmp, "local/model.onnx", protobuf.onnx_model(protobuf.onnx_graph([tensor])))
    put(tmp, "local/numbers", struct.pack("<2f", 1, 2))
    put(tmp, "local/.cache/huggingface/download/numbers.metadata", note("0" * 64, 1))
    return os.path.join(tmp, "local")


def local_directory_with_damaged_note(tmp):
    put(tmp, "local/.cache/huggingface/download/model.safetensors.metadata", b"\xff\0" * 999)
    return put(tmp, "local/model.safetensors", safetensors(tmp))


NOTE = "by .cache/huggingface/download/model.safetensors.metadata"
DOWNLOADS = table("Downloads", [
    *rows("verify-localdir-metadata", local_directory(), shows=(NOTE,)),
    *rows("localdir-file", local_directory(source="model.safetensors"), shows=(NOTE,)),
    *rows("localdir-git-id", local_directory(by_git=True), shows=("Git object id is",)),
    *rows("localdir-quoted-etag", local_directory(quote='W/"{}"')),
    *rows("localdir-nested-file", local_directory("q4/model.safetensors", "q4/model.safetensors")),
    *rows("localdir-nested-directory", local_directory("onnx/q4/model.safetensors", "onnx/q4")),
    *rows("localdir-first-version", local_directory(notes=".huggingface/download")),
    verify("localdir-modified", lambda tmp: local_directory(time=1)(tmp, flipped), 7, ("the file was modified after that",)),
    verify("localdir-modified-and-right", lambda tmp: local_directory(time=1)(tmp, lambda data: data), 0, ("1 file matches",)),
    verify("localdir-config", local_directory_with(), 7, ('"config.json": Git object id is',)),
    Case("localdir-config-cat", local_directory_with(), ("cat", SOURCE, "files/config.json"), 7),
    # People edit files that hold no tensors.
    *(verify(f"localdir-edited-{path}", local_directory_with(path, 1), 0, (
        f'warning: "{path}": modified after the download, and differs from it', "1 file matches its checksum"))
      for path in ("config.json", "tokenizer.json", "README.md", "tokenizer.model", "onnx/config.json")),
    Case("localdir-edited-cat", local_directory_with(time=1), ("cat", SOURCE, "files/config.json"), 0, shows=("qwen2",)),
    Case("localdir-edited-stats", local_directory_with(time=1), ("stats", SOURCE), 0),
    verify("localdir-edited-and-wrong", local_directory_with(time=1, change=flipped), 7, (
        '"model.safetensors": SHA-256', 'warning: "config.json": modified after the download')),
    verify("localdir-external-data-modified", local_directory_of_external_data, 7, ('"numbers": SHA-256', "modified after that")),
    verify("localdir-note-without-time", lambda tmp: local_directory(time="")(tmp, flipped), 7, (DIFFERS,)),
    verify("localdir-note-is-damaged", local_directory_with_damaged_note, 0, ("no checksums",)),
])


def beside(name, text, path="model.gguf", source="model.gguf", encoding="utf-8"):
    """A list called `name`; in its text, HEX is the SHA-256, and MD5 and SHA1 are others."""
    def build(tmp, change):
        data = gguf(tmp)
        put(tmp, path, change(data))
        filled = text.replace("HEX", sha256(data)).replace("MD5", hashlib.md5(data).hexdigest()).replace(
            "SHA1", hashlib.sha1(data).hexdigest())
        put(tmp, name, filled.encode(encoding))
        return os.path.join(tmp, source)
    return build


def only(name, text, status, shows=(), **named):
    return verify(name, lambda tmp: beside(text[0], text[1], **named)(tmp, flipped), status, shows)


def shards_with_list(damaged):
    def build(tmp):
        folder = os.path.join(tmp, "model")
        os.makedirs(folder)
        containers.write_safetensors_shards(folder, [TENSORS[:1], TENSORS[1:]])
        lines = ""
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            lines += f"{sha256(data)}  {name}\n"
            if name == damaged:
                put(folder, name, flipped(data))
        put(folder, "SHA256SUMS", (lines + f"{'0' * 64}  other/file.bin\n").encode())
        return folder
    return build


def shards(tmp):
    folder = shards_with_list("")(tmp)
    os.remove(os.path.join(folder, "SHA256SUMS"))
    return folder


def with_another_file(another, text="0" * 64):
    """The digest in model.sha256 may be that of either file."""
    def build(tmp):
        put(tmp, f"models/{another}", b"other bytes")
        put(tmp, "models/model.sha256", text.encode())
        return put(tmp, "models/model.gguf", gguf(tmp))
    return build


def with_another_file_but_named(tmp, change):
    data = gguf(tmp)
    with_another_file("model.tar.gz", f"{sha256(data)}  model.gguf\n")(tmp)
    return put(tmp, "models/model.gguf", change(data))


MANY_LINES = "".join(f"{'0' * 64}  other/{i}.gguf\n" for i in range(9_000))


def many_lists(right):
    """Lists of 800 kB; one of them has the line of the model, too, and all the others have lines of other files."""
    def build(tmp):
        data = gguf(tmp)
        for name in ("SHA1SUMS", "SHA256SUM", "SHA256SUM.txt", "SHA256SUMS", "SHA256SUMS.txt", "SHA256SUMS.TXT"):
            line = f"{sha256(data)}  model.gguf\n" if name == right else ""
            put(tmp, f"model/{name}", (MANY_LINES + line).encode())
        return put(tmp, "model/model.gguf", flipped(data))
    return build


LISTS = table("Lists", [
    *rows("sha256-of-file", beside("model.gguf.sha256", "HEX\n"), shows=("by model.gguf.sha256",)),
    *rows("sha256-of-stem", beside("model.sha256", "HEX")),
    *rows("sha256-with-name", beside("model.gguf.sha256", "HEX  model.gguf\n")),
    *rows("sha256sums", beside("SHA256SUMS", "HEX  model.gguf\n" + "0" * 64 + "  absent.gguf\n"), shows=("by SHA256SUMS",)),
    *rows("sha256sums-txt", beside("sha256sums.txt", "HEX *./model.gguf\r\n")),
    *rows("sha256sum-of-any-name", beside("release.sha256sum", "HEX  model.gguf\n")),
    *rows("sha256-tagged", beside("checksums.txt", "SHA256 (model.gguf) = HEX\n")),
    *rows("md5-checklist", beside("checklist.chk", "MD5  model.gguf\n"), shows=("MD5 is",)),
    *rows("sha1sums", beside("SHA1SUMS", "SHA1  model.gguf\n"), shows=("SHA-1 is",)),
    *rows("list-of-a-directory", beside("d/SHA256SUMS", "HEX  model.gguf\n", "d/model.gguf", "d")),
    verify("list-of-shards", shards_with_list(""), 0, ("3 files match their checksums",)),
    verify("list-of-shards-wrong", shards_with_list("model-00002-of-00002.safetensors"), 7, ("model-00002-of-00002", DIFFERS)),
    *rows("list-in-utf-16", beside("SHA256SUMS", "\ufeffHEX  .\\model.gguf\r\n", encoding="utf-16-le"), shows=("by SHA256SUMS",)),
    *rows("sha256-of-file-in-utf-16", beside("model.gguf.sha256", "\ufeffHEX\r\n", encoding="utf-16-be")),
    *rows("list-with-backslashes", beside("m/SHA256SUMS", "HEX  unet\\model.gguf\r\n", "m/unet/model.gguf", "m/unet/model.gguf")),
    *rows("list-above-a-file", beside("SHA256SUMS", "HEX  sub/model.gguf\n", "sub/model.gguf", "sub/model.gguf"),
          shows=("by ../SHA256SUMS",)),
    *rows("list-above-a-directory", beside("sha256sums.txt", "HEX *./sub/model.gguf\n", "sub/model.gguf", "sub")),
    *rows("list-above-a-directory-with-its-name", beside("sub.sha256", "HEX  sub/model.gguf\n", "sub/model.gguf", "sub")),
    *(only(f"list-above-{number}", (name, "0" * 64 + f"  {line}\n"), 0, ("no checksums",), path=path, source=path)
      for number, (name, line, path) in enumerate((
          ("SHA256SUMS", "model.gguf", "sub/model.gguf"), ("SHA256SUMS", "su/model.gguf", "sub/model.gguf"),
          ("SHA256SUMS", "../sub/model.gguf", "sub/model.gguf"), ("SHA256SUMS", "a/sub/model.gguf", "a/sub/model.gguf"),
          ("other.sha256", "sub/model.gguf", "sub/model.gguf")))),
    *(only(f"digest-of-another-kind-{number}", (name, "0" * 128 + line), 0,
           (f'{name}: only SHA-256, SHA-1 and MD5 are supported; "model.gguf" is not compared with it', "no checksums"))
      for number, (name, line) in enumerate((
          ("model.gguf.sha512", ""), ("model.sha512", ""), ("SHA512SUMS", "  model.gguf\n"), ("checksums.txt", "  model.gguf\n")))),
    *rows("sha256sums-beside-sha512", lambda tmp, change: put(tmp, "model.gguf.sha512", b"0" * 128) and beside(
        "SHA256SUMS", "HEX  model.gguf\n")(tmp, change)),
    *(Case(f"info-of-a-directory-{name}", digest, ("info", SOURCE), 0, {}, shows, hides) for name, digest, shows, hides in (
        ("without-digests", lambda tmp: shards(tmp), (NO_DIGEST,), ()),
        ("with-a-list", shards_with_list(""), ("digest beside the file: not compared yet",), (NO_DIGEST,)))),
    # Lists that say nothing about the model.
    only("list-of-other-files", ("SHA256SUMS", "0" * 64 + "  other.gguf\n"), 0, ("no checksums",)),
    only("list-outside", ("SHA256SUMS", "0" * 64 + "  ../model.gguf\n" + "0" * 64 + "  /model.gguf\n"), 0, ("no checksums",)),
    only("list-is-empty", ("SHA256SUMS", ""), 0, ("warning: \"SHA256SUMS\": not a list of checksums",)),
    only("list-is-cut", ("model.gguf.sha256", "0" * 63), 0, ("warning: \"model.gguf.sha256\": not a list of checksums",)),
    only("list-is-a-page", ("SHA256SUMS", "<!doctype html>" * 99), 0, ("not a list of checksums",)),
    only("list-is-large", ("SHA256SUMS", "\n" * (2 << 20)), 0, ("2097152 bytes, at most 1048576",)),
    only("list-of-file-is-large", ("model.gguf.sha256", "\n" * (65 << 10)), 0, ("66560 bytes, at most 65536",)),
    *rows("list-of-thousands-of-files", beside("SHA256SUMS", MANY_LINES + "HEX  model.gguf\n")),
    verify("lists-of-too-many-bytes", many_lists("SHA256SUMS.txt"), 0, (
        "no checksums", 'warning: "SHA256SUMS.txt": too many bytes together with other lists')),
    verify("lists-of-too-many-bytes-after-the-right-one", many_lists("SHA256SUMS"), 7, (DIFFERS, "by SHA256SUMS")),
    only("checksums-of-another-kind", ("checksums.txt", "crc 12345\n"), 0, ("no checksums",)),
    *(verify(f"digest-beside-{another}", with_another_file(another), 0, ("no checksums",)) for another in (
        "model.safetensors", "model.tar.gz", "model.zip", "model.tar", "model.gguf.zst", "model.7z", "model.json")),
    *rows("list-names-one-of-two-files", with_another_file_but_named, shows=("by model.sha256",)),
    *rows("sha256-of-stem-beside-notes", lambda tmp, change: put(tmp, "model.civitai.info", b"{}") and put(
        tmp, "model-2.tar.gz", b"") and put(tmp, "model.md5", b"") and beside("model.sha256", "HEX")(tmp, change)),
])


def civitai(hash, name="model.safetensors", **more):
    return {"name": name, "hashes": {"SHA256": hash.upper(), "AutoV2": hash[:10]}, **more}


def managed(suffix, note):
    """`note(hash, size)` is the object in the file of a manager of models."""
    def build(tmp, change):
        data = safetensors(tmp)
        put(tmp, "model" + suffix, json.dumps(note(sha256(data), len(data))).encode())
        return put(tmp, "model.safetensors", change(data))
    return build


def not_noted(name, suffix, note):
    """The note of a manager is about another file."""
    return verify(name, lambda tmp: managed(suffix, lambda hash, size: note)(tmp, bytes), 0, ("no checksums",))


MANAGERS = table("Managers", [
    *rows("civitai-info", managed(".civitai.info", lambda hash, size: {"id": 1, "files": [civitai(hash)]}),
          shows=("by model.civitai.info",)),
    *rows("civitai-info-renamed", managed(".civitai.info", lambda hash, size: {
        "files": [civitai(hash, "v1.safetensors", sizeKB=size / 1024)]})),
    *rows("civitai-info-in-other-case", managed(".civitai.info", lambda hash, size: {
        "files": [civitai(hash, "Model.SafeTensors")]})),
    *rows("civitai-info-of-equal-names", managed(".civitai.info", lambda hash, size: {
        "files": [civitai("0" * 64, sizeKB=1.5), civitai(hash, sizeKB=size / 1024)]})),
    # A model that was converted from the noted one.
    not_noted("civitai-info-of-the-unconverted", ".civitai.info", {"files": [civitai("0" * 64, "model.ckpt", sizeKB=4 << 20)]}),
    not_noted("civitai-info-without-a-size", ".civitai.info", {"files": [civitai("0" * 64, "model.ckpt")]}),
    not_noted("civitai-info-without-a-name", ".civitai.info", {"files": [{"hashes": {"SHA256": "0" * 64}}]}),
    not_noted("civitai-info-of-equal-names-and-other-sizes", ".civitai.info", {
        "files": [civitai("0" * 64, sizeKB=1.5), civitai("1" * 64, sizeKB=2)]}),
    not_noted("metadata-json-of-the-unconverted", ".metadata.json", {"file_path": "/models/model.ckpt", "sha256": "0" * 64}),
    *rows("metadata-json-with-a-path", managed(".metadata.json", lambda hash, size: {
        "file_path": "C:\\old\\MODEL.safetensors", "sha256": hash})),
    *rows("civitai-info-of-several", managed(".civitai.info", lambda hash, size: {
        "files": [civitai("0" * 64, "full.safetensors", sizeKB=1.5), civitai(hash, "pruned.safetensors", sizeKB=size / 1024)]})),
    *rows("metadata-json", managed(".metadata.json", lambda hash, size: {"file_name": "model", "sha256": hash})),
    *rows("metadata-json-of-civitai", managed(".metadata.json", lambda hash, size: {"civitai": {"files": [civitai(hash)]}})),
    *rows("cm-info", managed(".cm-info.json", lambda hash, size: {"ModelId": 1, "Hashes": {"SHA256": hash}})),
    verify("civitai-info-of-other-files", lambda tmp: managed(".civitai.info", lambda hash, size: {
        "files": [civitai("0" * 64, "x.zip", sizeKB=1), civitai("1" * 64, "y.zip", sizeKB=2)]})(tmp, flipped), 0,
           ("no checksums",)),
    verify("civitai-info-is-cut", lambda tmp: put(tmp, "model.civitai.info", b'{"files": [') and put(
        tmp, "model.safetensors", safetensors(tmp)), 0, ('warning: "model.civitai.info"',)),
    verify("metadata-json-of-another-kind", lambda tmp: managed(".metadata.json", lambda hash, size: [1])(tmp, flipped), 0,
           ("no checksums",)),
])


LAYERS = [Tensor(f"l.{i}.w", "float32", (8, 4), struct.pack("<32f", *range(i, i + 32))) for i in range(4)]


def sharded(tmp):
    folder = os.path.join(tmp, "model")
    os.makedirs(folder)
    containers.write_safetensors_shards(folder, [LAYERS[:2], LAYERS[2:]])
    put(folder, "config.json", b'{"model_type": "llama"}')
    return folder, os.path.join(folder, "model-00002-of-00002.safetensors")


def by_index(tmp):
    folder, shard = sharded(tmp)
    return os.path.join(folder, "model.safetensors.index.json"), shard


def without_index(tmp):
    folder, shard = sharded(tmp)
    os.remove(os.path.join(folder, "model.safetensors.index.json"))
    return folder, shard


def split(tmp):
    folder = os.path.join(tmp, "model")
    os.makedirs(folder)
    containers.write_gguf_shards(os.path.join(folder, "model"), [LAYERS[:2], LAYERS[2:]], {"general.architecture": "llama"})
    names = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
    return names[0], names[1]


def ollama(tmp):
    store = stores.Store(os.path.join(tmp, "store"))
    package = stores.tiny(tmp, LAYERS)
    return store.put_package("tiny/latest", package), store.blob_path(max(package.blobs.values(), key=len))


def store_of_one(tmp):
    manifest, blob = ollama(tmp)
    return os.path.join(tmp, "store"), blob


def layers(tmp):
    store = stores.Store(os.path.join(tmp, "store"))
    package = stores.mlx(tmp, LAYERS, {"config.json": {"model_type": "llama"}})
    return store.put_package("tiny/latest", package), store.blob_path(stores.safetensors(tmp, [LAYERS[2]]))


def harm(path, kind):
    size = os.path.getsize(path)
    if kind in ("missing", "directory"):
        os.remove(path)
    if kind == "directory":
        os.mkdir(path)
    if kind in ("empty", "cut"):
        os.truncate(path, 0 if kind == "empty" else size // 2)
    if kind == "unreadable":
        os.chmod(path, 0)
    if kind == "flip":
        with open(path, "r+b") as file:
            file.seek(size - 9)
            byte = file.read(1)[0]
            file.seek(size - 9)
            file.write(bytes([byte ^ 1]))


class Causes(TestCase):
    """A tensor in a part that is missing or cannot be read fails with the status of that part, whatever is asked of it."""

    def give_to_nobody(self, kind="unreadable"):
        """Root can read every file."""
        if kind == "unreadable" and os.geteuid() == 0:
            for folder, directories, names in os.walk(self.tmp):
                for name in [".", *directories, *names]:
                    os.chown(os.path.join(folder, name), NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)

    def run_as_user(self, *argv, kind="unreadable"):
        return as_nobody(WEIGHTFS, *argv) if kind == "unreadable" and os.geteuid() == 0 else run(*argv)

    def check(self, build, kind, status, sentence, name="l.2.w"):
        source, part = build(self.path(kind))
        harm(part, kind)
        os.makedirs(self.path("out"), exist_ok=True)
        self.give_to_nobody(kind)
        out = self.path("out", "m.npz")
        for argv in (["cat", source, f"tensors/{name}"], ["cat", source, name], ["cat", source, f"npy/{name}.npy"],
                     ["stats", source, name], ["stats", source, "*"], ["export", "--tensors", name, source, out],
                     ["export", "--tensors", "l.*", source, out], ["plot", "-o", self.path("out", "m.png"), source, name]):
            with self.subTest(build=build.__name__, kind=kind, argv=argv):
                done = self.run_as_user(*argv, kind=kind)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(sentence, done.stderr)
                self.assertEqual(os.listdir(self.path("out")), [])
        self.assertEqual(self.run_as_user("info", source, kind=kind).returncode, status)

    def check_all(self, build, *rows):
        for kind, status, sentence in rows:
            os.makedirs(self.path(kind))
            self.check(build, kind, status, sentence)

    # semantics 25.2
    def test_shards_of_an_index(self):
        shard = "model-00002-of-00002.safetensors"
        for build in (sharded, by_index):
            with self.subTest(build.__name__):
                self.check_all(build, ("missing", 5, shard), ("empty", 5, "an empty file"),
                               ("cut", 5, "ends 196 bytes early"), ("unreadable", 1, f"{shard}: Permission denied"),
                               ("directory", 1, "not a regular file"))
                self.clear()
                os.makedirs(self.tmp)

    def test_shards_without_an_index(self):
        self.check_all(without_index, ("missing", 5, "1 of 2 shards is missing: model-00002-of-00002.safetensors"),
                       ("cut", 5, "ends 196 bytes early"), ("unreadable", 1, "Permission denied"))

    def test_split_gguf(self):
        self.check_all(split, ("missing", 5, "1 of 2 shards is missing: model-00002-of-00002.gguf"),
                       ("empty", 5, "model-00002-of-00002.gguf"),
                       ("cut", 5, "ends 240 bytes early"), ("unreadable", 1, "Permission denied"),
                       ("directory", 1, "not a regular file"))

    def test_layers_of_ollama(self):
        for build in (ollama, layers, store_of_one):
            with self.subTest(build.__name__):
                self.check_all(build, ("missing", 3, "not cached"), ("empty", 7, "has 0 bytes"), ("cut", 7, "bytes, not"),
                               ("unreadable", 1, "Permission denied"), ("directory", 1, "not a regular file"),
                               ("flip", 7, "digest mismatch"))
                self.clear()
                os.makedirs(self.tmp)

    def test_layer_that_exists_is_not_missing(self):
        for kind, status, sentence in (("unreadable", 1, "Permission denied; it is left out"), ("cut", 7, "bytes, not ")):
            os.makedirs(self.path(kind))
            source, part = ollama(self.path(kind))
            harm(part, kind)
            self.give_to_nobody(kind)
            store = source[:source.index("/manifests/")]
            for argv in (["info", source], ["verify", source], ["info", store], ["stats", store]):
                with self.subTest(kind=kind, argv=argv):
                    done = self.run_as_user(*argv, kind=kind)
                    self.assertEqual(done.returncode, status, done.stderr)
                    self.assertIn("1 file cannot be read: ", done.stderr)
                    self.assertIn(sentence, done.stderr)
                    self.assertNotIn("missing", done.stderr)

    def test_index_tells_which_shard_a_tensor_is_in(self):
        folder = self.path("model")
        os.makedirs(folder)
        containers.write_safetensors_shards(folder, [LAYERS[:2], LAYERS[2:3], LAYERS[3:]])
        harm(os.path.join(folder, "model-00002-of-00003.safetensors"), "missing")
        harm(os.path.join(folder, "model-00003-of-00003.safetensors"), "unreadable")
        self.give_to_nobody()
        for name, status, sentence in (("l.2.w", 5, "model-00002-of-00003.safetensors\": missing"),
                                       ("l.3.w", 1, "Permission denied"), ("l.4.w", 3, "does not exist")):
            done = self.run_as_user("cat", folder, name)
            self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
            self.assertIn(sentence, done.stderr)

    def test_store_of_one_model_is_that_model(self):
        files = stores.Store(self.path("store"))
        files.put_package("tiny/latest", stores.tiny(self.tmp, LAYERS))
        store = self.path("store")
        sources = [store]
        for form in ("safetensors", "npy", "dir"):
            sources.append(self.path(form))
            done = run("export", "--to", form, store, sources[-1])
            self.assertEqual(done.returncode, 0, done.stderr)
        for source in sources:
            whole = run("cat", source, "l.2.w", text=False)
            self.assertEqual((whole.returncode, whole.stdout), (0, LAYERS[2].data), whole.stderr)
        files.put_package("other/latest", stores.tiny(self.tmp, LAYERS[:1]))
        done = run("export", store, self.path("m.npz"))
        self.assertEqual(done.returncode, 4)
        self.assertIn("several models: registry.ollama.ai/library/other/latest, registry.ollama.ai/library/tiny/latest; name one",
                      done.stderr)

    def test_directory_of_models_names_the_one_that_cannot_be_read(self):
        put(self.tmp, "models/x.safetensors", stores.safetensors(self.tmp, LAYERS[2:])[:10])
        put(self.tmp, "models/y.gguf", stores.gguf(self.tmp, LAYERS[:2]))
        for argv in (["cat", self.path("models"), "l.2.w"], ["stats", self.path("models"), "x.safetensors/l.2.w"]):
            done = run(*argv)
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn("the header is 128 bytes long", done.stderr)
        whole = run("cat", self.path("models"), "l.0.w", text=False)
        self.assertEqual((whole.returncode, whole.stdout), (0, LAYERS[0].data), whole.stderr)
