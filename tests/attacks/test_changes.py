"""Attacks that change files under a mount, or link to files that the mounting user can read and the owner of the directory cannot.

A read returns the bytes of the file that was opened, or an error; never bytes that were written later, for any modification
time (semantics 6.1, 12).
"""
import json
import os
import sys
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "mount"))
from mounting import NOBODY, MountTestCase, Tensor, UsersTestCase, run, unittest  # noqa: E402
import archives  # noqa: E402
import containers  # noqa: E402
import stores  # noqa: E402

MEGABYTE = 1 << 20
SIZE = 8 * MEGABYTE
OLD, NEW = b"old.", b"new!"
TENSOR = [Tensor("w", "float32", (SIZE // 4,), OLD * (SIZE // 4))]


def forge(path):
    """Overwrites a file in place with bytes of the same size, and restores the modification time."""
    before = os.stat(path)
    with open(path, "r+b") as file:
        data = file.read()
        at = data.index(OLD * 4)
        end = data.rindex(OLD * 4) + 16
        file.seek(at)
        file.write((NEW * (SIZE // 4 + 1))[:end - at])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def read_at(path, at, size=4096):
    """The bytes of a read, or None for an error."""
    try:
        with open(path, "rb", buffering=0) as file:
            file.seek(at)
            return file.read(size)
    except OSError:
        return None


class ForgedTimes(MountTestCase):
    """Reads the beginning, overwrites the file in place with its modification time restored, reads the rest."""

    def attack(self, source, shown, changed):
        point = self.mount(source)
        path = os.path.join(point, shown)
        first = read_at(path, 0)
        self.assertIn(OLD, first)
        forge(changed)
        for at in range(MEGABYTE, SIZE, MEGABYTE):
            rest = read_at(path, at)
            self.assertFalse(rest is not None and NEW in rest, f"bytes that were written later are served at {at}")

    def test_safetensors(self):
        containers.write_safetensors(self.path("m.safetensors"), TENSOR)
        self.attack(self.path("m.safetensors"), "tensors/w", self.path("m.safetensors"))

    def test_gguf(self):
        containers.write_gguf(self.path("m.gguf"), TENSOR, {"general.name": "m"})
        self.attack(self.path("m.gguf"), "tensors/w", self.path("m.gguf"))

    def test_rten(self):
        containers.write_rten(self.path("m.rten"), TENSOR)
        self.attack(self.path("m.rten"), "tensors/w", self.path("m.rten"))

    def test_member_of_a_zip(self):
        with zipfile.ZipFile(self.path("m.zip"), "w") as out:
            out.writestr("w", OLD * (SIZE // 4))
        self.attack(self.path("m.zip"), "files/w", self.path("m.zip"))

    def test_shard_of_an_index(self):
        os.mkdir(self.path("m"))
        containers.write_safetensors_shards(self.path("m"), [TENSOR])
        self.attack(self.path("m"), "tensors/w", self.path("m", "model-00001-of-00001.safetensors"))

    def test_shard_of_a_tensor_cache(self):
        self.write("m/s.bin", OLD * (SIZE // 4))
        self.write(
            "m/tensor-cache.json",
            json.dumps({
                "records": [{
                    "dataPath": "s.bin", "format": "raw-shard", "nbytes": SIZE, "records": [{
                        "name": "w", "shape": [SIZE // 4], "dtype": "float32", "format": "raw", "nbytes": SIZE, "byteOffset": 0
                    }]
                }]
            }).encode())
        self.attack(self.path("m"), "tensors/w", self.path("m", "s.bin"))

    def test_file_of_a_carton_directory(self):
        archives.write_carton_directory(self.path("m"), {"model/w": OLD * (SIZE // 4)})
        self.attack(self.path("m"), "files/model/w", self.path("m", "model", "w"))

    def test_verified_blob_of_a_store(self):
        store = stores.Store(self.path("store"))
        data = stores.gguf(self.tmp, TENSOR)
        manifest = store.put_package("m/latest", stores.Package().add("model", data))
        blob = store.blob_path(data)
        point = self.mount(manifest)
        with open(os.path.join(point, "files", "model.gguf"), "rb") as file:
            self.assertEqual(file.read(), data)  # verified
        self.unmount(point)
        self.attack(manifest, "tensors/w", blob)

    def test_verified_blob_between_two_mounts(self):
        store = stores.Store(self.path("store"))
        data = stores.gguf(self.tmp, TENSOR)
        manifest = store.put_package("m/latest", stores.Package().add("model", data))
        point = self.mount(manifest)
        self.assertIn(OLD, read_at(os.path.join(point, "tensors", "w"), 0))
        self.unmount(point)
        forge(store.blob_path(data))
        point = self.mount(manifest)
        for at in range(0, SIZE, MEGABYTE):
            rest = read_at(os.path.join(point, "tensors", "w"), at)
            self.assertFalse(rest is not None and NEW in rest, f"wrong bytes are served under a verified digest at {at}")

    def test_verify_finds_a_damaged_cached_blob(self):
        with zipfile.ZipFile(self.path("m.zip"), "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr("w", OLD * (SIZE // 4))
        point = self.mount(self.path("m.zip"))
        with open(os.path.join(point, "files", "w"), "rb") as file:
            self.assertEqual(file.read(), OLD * (SIZE // 4))
        self.unmount(point)
        blobs = [os.path.join(base, name) for base, _, names in os.walk(self.path("cache")) for name in names]
        for blob in (blob for blob in blobs if os.lstat(blob).st_size == SIZE):
            os.chmod(blob, 0o600)
            forge(blob)
        done = run("verify", self.path("m.zip"))
        point = self.mount(self.path("m.zip"))
        served = read_at(os.path.join(point, "files", "w"), 0, SIZE)
        if done.returncode == 0:
            self.assertFalse(served is not None and NEW in served, f"verify prints {done.stdout}, and wrong bytes are served")


class LinksOfOthers(UsersTestCase):
    """Root mounts a user's directory for others; the directory has links to files that only root can read."""

    SECRET = b"only root may read this" * 100

    def setUp(self):
        super().setUp()
        os.chmod(self.write("root/secret", self.SECRET), 0o600)
        containers.write_safetensors(self.path("root", "secret.safetensors"),
                                     [Tensor("w", "int8", (len(self.SECRET), ), self.SECRET)])
        os.chmod(self.path("root", "secret.safetensors"), 0o600)
        os.chmod(self.path("root"), 0o700)
        os.mkdir(self.path("user"))

    def link(self, name, target):
        os.symlink(self.path("root", target), self.path("user", name))

    def attack(self, *options):
        """Whether any file of a mount for other users has the secret."""
        for base, directories, names in os.walk(self.path("user")):
            for name in [".", *directories, *names]:
                os.chown(os.path.join(base, name), NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
        done = run("mount", "--allow-other", *options, self.path("user"), self.path("mnt"))
        if done.returncode != 0:
            return  # refused
        self.addCleanup(self.force_unmount, self.path("mnt"))
        for base, _, names in os.walk(self.path("mnt")):
            for name in names:
                found = read_at(os.path.join(base, name), 0, 1 << 20)
                self.assertFalse(found and self.SECRET[:200] in found, f"{os.path.join(base, name)} has what only root may read")
        self.unmount(self.path("mnt"))

    def test_shard_of_an_index(self):
        self.link("m.safetensors", "secret.safetensors")
        self.write("user/m.safetensors.index.json", json.dumps({"weight_map": {"w": "m.safetensors"}}).encode())
        self.attack()

    def test_shard_of_a_tensor_cache(self):
        self.link("s.bin", "secret")
        size = len(self.SECRET)
        self.write(
            "user/tensor-cache.json",
            json.dumps({
                "records": [{
                    "dataPath": "s.bin", "format": "raw-shard", "nbytes": size,
                    "records": [{"name": "w", "shape": [size], "dtype": "int8", "format": "raw", "nbytes": size, "byteOffset": 0}]
                }]
            }).encode())
        self.attack()

    def test_model_in_a_directory(self):
        self.link("m.safetensors", "secret.safetensors")
        self.attack()

    def test_any_file_with_all(self):
        self.link("notes.txt", "secret")
        self.attack("--all")

    def test_directory_with_all(self):
        os.symlink(self.path("root"), self.path("user", "directory"))
        self.attack("--all")

    def test_file_of_a_carton_directory(self):
        archives.write_carton_directory(self.path("user"), {"model/w": b"w"})
        self.link("model/secret", "secret")
        self.attack()

    def test_blob_of_a_store(self):
        store = stores.Store(self.path("user", "store"))
        with open(self.path("root", "secret.safetensors"), "rb") as file:
            data = file.read()
        os.symlink(self.path("root", "secret.safetensors"), store.blob_path(data))
        store.put_manifest("m/latest", stores.as_go({"schemaVersion": 2, "mediaType": stores.MANIFEST, "layers": [
            {"mediaType": stores.IMAGE + "tensor", "digest": stores.digest(data), "size": len(data), "name": "w"}]}))
        self.attack()


if __name__ == "__main__":
    unittest.main()
