"""views/ through the kernel: the whole model as files of other formats, read by other people's readers."""
import hashlib
import json
import mmap
import os
import random
import shutil
import struct
import subprocess
import unittest
import zipfile
from concurrent.futures import ThreadPoolExecutor

from mounting import LIMIT_S, WEIGHTFS, Hole, MountTestCase, Tensor, containers, numbers, run, sample_tensors, until

import npm_packages
import safetensors_check

try:
    import numpy
except ImportError:
    numpy = None

HUB = "@huggingface/hub@2.17.5"
GGUF = "@huggingface/gguf@0.4.6"


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class ViewsTestCase(MountTestCase):
    def views_of(self, source, *options, at="mnt"):
        return os.path.join(self.mount(*options, source, at=at), "views")

    def tensors_of(self, point):
        """{name: (dtype, shape, bytes)} of a mount."""
        with open(os.path.join(point, "tensors.json")) as file:
            index = json.load(file)["tensors"]
        found = {}
        for tensor in index:
            with open(os.path.join(point, "tensors", tensor["path"]), "rb") as file:
                found[tensor["name"]] = tensor["dtype"], tuple(tensor["shape"]), file.read()
        return found


class Safetensors(ViewsTestCase):
    """semantics 26.3 and 26.4"""

    def check_file(self, path, tensors):
        found, _ = safetensors_check.read(path)
        expected = {t.name: (containers.DTYPES[t.dtype].safetensors, tuple(t.shape), bytes(t.data)) for t in tensors}
        self.assertEqual(found, expected)

    def test_strict_reader_accepts_the_file_of_every_format(self):
        formats = ("safetensors", "gguf", "bintensors", "rten")
        mnt = self.mount(*(self.sample("model." + format, format=format) for format in formats))
        for format in formats:
            with self.subTest(format):
                self.check_file(os.path.join(mnt, "model." + format, "views", "model.safetensors"), sample_tensors())

    def test_file_of_safetensors_that_the_reference_wrote_is_the_same_again(self):
        tensors = [Tensor("b", "int64", (2,), numbers("q", 2)), Tensor("a", "float32", (3,), numbers("f", 3)),
                   Tensor("z", "float32", (), numbers("f", 1)), Tensor("u", "uint8", (5,), numbers("B", 5))]
        source = self.sample(tensors=tensors)
        views = self.views_of(source)
        self.check_file(os.path.join(views, "model.safetensors"), tensors)
        again = self.views_of(os.path.join(views, "model.safetensors"), at="again")
        self.assertEqual(digest(os.path.join(again, "model.safetensors")), digest(os.path.join(views, "model.safetensors")))

    def test_view_mounted_again_has_the_same_tensors(self):
        source = self.sample("model.gguf", format="gguf")
        self.mount(source)
        first = self.tensors_of(self.path("mnt"))
        names = ("model.safetensors", "model.gguf", "model.npz")
        again = self.mount(*(self.path("mnt", "views", name) for name in names), at="again")
        for name in names:
            with self.subTest(name):
                self.assertEqual(self.tensors_of(os.path.join(again, name)), first)

    def test_tensors_without_a_dtype_are_float32(self):
        tensors = sample_tensors() + [Tensor("quantised", "q4_0", (32,), b"\x00\x3c" + bytes([0x79] * 16))]
        views = self.views_of(self.sample("model.gguf", tensors, "gguf"))
        self.check_file(os.path.join(views, "model.safetensors"),
                        sample_tensors() + [Tensor("quantised", "float32", (32,), struct.pack("<32f", *[1.0] * 16, *[-1.0] * 16))])
        self.assertEqual(sorted(os.listdir(views)), ["model.float32.safetensors", "model.gguf", "model.npz", "model.safetensors"])

    def test_shards_have_an_index_and_their_own_sizes(self):
        tensors = [Tensor(f"t{i}", "float32", (1 << 17,), numbers("f", 4) * (1 << 15)) for i in range(5)]
        views = self.views_of(self.sample(tensors=tensors), "--shard-size", "1M")
        self.assertEqual(sorted(os.listdir(os.path.join(views, "sharded"))), [
            "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors",
            "model.safetensors.index.json"
        ])
        with open(os.path.join(views, "sharded", "model.safetensors.index.json")) as file:
            index = json.load(file)
        self.assertEqual(index["metadata"]["total_size"], 5 << 19)
        for shard in set(index["weight_map"].values()):
            names = {name for name, its in index["weight_map"].items() if its == shard}
            self.check_file(os.path.join(views, "sharded", shard), [t for t in tensors if t.name in names])
        # The shards are one model again.
        shutil.copytree(os.path.join(views, "sharded"), self.path("copy"))
        again = self.mount(self.path("copy"), at="again")
        self.assertEqual(self.tensors_of(again), self.tensors_of(self.path("mnt")))

    def test_option_of_the_size_of_shards(self):
        source = self.sample()
        point = self.mount("-o", "shard_size=0", source)
        self.assertFalse(os.path.exists(os.path.join(point, "views", "sharded")))
        done = run("mount", "--shard-size", "12", source, self.path("other"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("from 1M on", done.stderr)

    def test_parser_of_the_hub_reads_the_header(self):
        folder = npm_packages.folder_with(GGUF, HUB)
        if folder is None:
            self.skipTest("no npm packages")
        views = self.views_of(self.sample("model.gguf", format="gguf"))
        script = """
import { parseSafetensorsMetadata } from "@huggingface/hub";
import { readFile } from "node:fs/promises";
const bytes = await readFile(process.argv[2]);
const fetch = async (url, options = {}) => {
  if (String(url).includes("/api/")) return Response.json({ id: "o/m", siblings: [] });
  const range = /bytes=(\\d+)-(\\d*)/.exec(new Headers(options.headers).get("range") ?? "bytes=0-");
  const end = Math.min(range[2] === "" ? bytes.length - 1 : Number(range[2]), bytes.length - 1);
  const headers = { etag: '"e"', "content-range": `bytes ${range[1]}-${end}/${bytes.length}`,
                    "content-length": String(end + 1 - Number(range[1])), "x-linked-size": String(bytes.length) };
  return new Response(bytes.subarray(Number(range[1]), end + 1), { status: 206, headers });
};
const parsed = await parseSafetensorsMetadata({ repo: "o/m", path: "model.safetensors", fetch, hubUrl: "https://hub.invalid" });
console.log(JSON.stringify(parsed.header));
"""
        done = npm_packages.run_module(folder, script, os.path.join(views, "model.safetensors"), timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        header = json.loads(done.stdout)
        header.pop("__metadata__", None)
        self.assertEqual({name: tuple(entry["shape"]) for name, entry in header.items()},
                         {tensor.name: tuple(tensor.shape) for tensor in sample_tensors()})


class Complete(ViewsTestCase):
    """semantics 26.3: a file has every tensor, or does not exist."""

    def check(self, tensors, files, lines, **sample):
        views = self.views_of(self.sample(tensors=tensors, **sample))
        expected = files + (["warnings.txt"] if lines else [])
        self.assertEqual(sorted(os.listdir(views)), sorted(expected))
        if lines:
            self.assertEqual(self.read("mnt", "views", "warnings.txt").decode().splitlines(), lines)
        for name in files:
            done = run("info", "--json", os.path.join(views, name))
            self.assertEqual((done.returncode, json.loads(done.stdout)["tensors"]["count"]), (0, len(tensors)), name)
        self.unmount(self.path("mnt"))

    def test_types_that_a_format_lacks_are_float32(self):
        half = Tensor("h", "bfloat16", (2,), b"\x80\x3f\x00\x40")
        small = [Tensor("u", "uint8", (2,), b"\1\2"), Tensor("b", "bool", (2,), b"\1\0"), half]
        self.check(small, ["model.float32.safetensors", "model.gguf", "model.npz", "model.safetensors"], [])
        self.check([Tensor("w", "float32", (1,), bytes(4))], ["model.gguf", "model.npz", "model.safetensors"], [])
        # As float32 it would be the same file.
        self.check([Tensor("q", "q8_0", (32,), bytes(34))], ["model.gguf", "model.npz", "model.safetensors"], [],
                   name="q.gguf", format="gguf")

    def test_limits_of_a_format_make_its_file_absent(self):
        long, deep = Tensor("n" * 64, "float32", (1,), bytes(4)), Tensor("deep", "float32", (1,) * 5, bytes(4))
        self.check([*sample_tensors(), long, deep], ["model.float32.safetensors", "model.npz", "model.safetensors"], [
            "model.gguf: not made: it would lack 2 of 7 tensors",
            f'model.gguf: tensor "{"n" * 64}": a name of 64 bytes, ggml accepts 63',
            'model.gguf: tensor "deep": 5 dimensions, ggml accepts 4'
        ])

    def test_type_without_numbers_makes_the_file_absent(self):
        complex64 = Tensor("c", "complex64", (1,), bytes(8))
        self.check([*sample_tensors(), complex64], ["model.float32.safetensors", "model.npz", "model.safetensors"], [
            "model.gguf: not made: it would lack 1 of 6 tensors",
            'model.gguf: tensor "c": GGUF has no type for complex64'
        ])

    def test_refused_tensor_makes_all_files_absent(self):
        source = self.sample()
        os.truncate(source, os.path.getsize(source) - 1)
        views = os.path.join(self.mount(source, lacks="1 of 5 tensors refused"), "views")
        self.assertEqual(os.listdir(views), ["warnings.txt"])
        lines = self.read("mnt", "views", "warnings.txt").decode().splitlines()
        self.assertEqual(lines, ["not made: the file ends 1 byte early: 1 of 5 tensors refused; interrupted download?"])


class Reads(ViewsTestCase):
    """semantics 26.6: reads and mappings of any range."""

    def tensors(self):
        source = random.Random(26)
        return [Tensor(f"t{i}", "uint8" if i % 2 else "float32", (size if i % 2 else size // 4,), source.randbytes(size))
                for i, size in enumerate([4, 4096, 0, 1 << 20, 12, 70_000, 4, 300_000])]

    def test_random_reads_and_mappings_equal_sequential_bytes(self):
        views = self.views_of(self.sample(tensors=self.tensors()))
        for name in ("model.safetensors", "model.gguf", "model.npz"):
            path = os.path.join(views, name)
            with open(path, "rb") as file:
                whole = file.read()
            self.assertEqual(len(whole), os.stat(path).st_size)

            def check(seed):
                places = random.Random(seed)
                with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                    for _ in range(50):
                        at, size = places.randrange(len(whole)), places.randrange(200_000)
                        if os.pread(file.fileno(), size, at) != whole[at:at + size] or mapped[at:at + size] != whole[at:at + size]:
                            return f"{name}: {size} bytes at {at}"
                return ""

            with ThreadPoolExecutor(8) as pool:
                self.assertEqual(set(pool.map(check, range(8))), {""})

    def test_listing_reads_no_tensor(self):
        """The tensors are in a hole of 8 TiB, of which the headers are made."""
        tensors = [Tensor(f"t{i}", "float32", (1 << 38,), Hole(1 << 40)) for i in range(8)]
        views = self.views_of(self.sample(tensors=tensors))
        sizes = {
            name: os.stat(os.path.join(views, name)).st_size for name in sorted(os.listdir(views)) if name.startswith("model.")
        }
        self.assertEqual(sorted(sizes), ["model.gguf", "model.npz", "model.safetensors"])
        self.assertTrue(all(8 << 40 < size < (8 << 40) + 10_000 for size in sizes.values()), sizes)


@unittest.skipIf(numpy is None, "needs NumPy")
class Npz(ViewsTestCase):
    """semantics 26.6"""

    def test_numpy_and_unzip_accept_it(self):
        views = self.views_of(self.sample())
        path = os.path.join(views, "model.npz")
        with numpy.load(path) as arrays:
            self.assertEqual(sorted(arrays.files), sorted(tensor.name for tensor in sample_tensors()))
            for tensor in sample_tensors():
                self.assertEqual(arrays[tensor.name].tobytes(), tensor.data)
                self.assertEqual(arrays[tensor.name].shape, tuple(tensor.shape))
                self.assertEqual(arrays[tensor.name].dtype.name, tensor.dtype)
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())
        if shutil.which("unzip"):
            done = subprocess.run(["unzip", "-tq", path], capture_output=True, text=True, timeout=LIMIT_S)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        else:
            print("no unzip here")

    def test_checksums_are_remembered_until_the_file_changes(self):
        def blobs():
            root = self.path("cache", "v1", "blobs")
            return sorted(name for _, _, names in os.walk(root) for name in names)

        source = self.sample()
        path = os.path.join(self.views_of(source), "model.npz")
        first = digest(path)
        until(lambda: len(blobs()) == 1, "the checksums are not cached")
        remembered = blobs()
        self.unmount(self.path("mnt"))
        self.assertEqual(digest(os.path.join(self.views_of(source), "model.npz")), first)
        self.assertEqual(blobs(), remembered)
        self.unmount(self.path("mnt"))
        self.sample(tensors=[Tensor("other", "uint8", (3,), b"abc")])
        with numpy.load(os.path.join(self.views_of(source), "model.npz")) as arrays:
            self.assertEqual(arrays["other"].tobytes(), b"abc")
        until(lambda: len(blobs()) == 2, "the new checksums are not cached")

    def test_without_a_cache(self):
        path = os.path.join(self.views_of(self.sample(), "--no-cache"), "model.npz")
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())

    def test_progress_is_in_the_status_and_a_killed_reader_ends(self):
        """The tensor is a hole of 4 TiB: its checksum takes many minutes, and a killed reader must not wait for it."""
        tensors = [Tensor("w", "uint8", (1 << 42,), Hole(1 << 42))]
        views = self.views_of(self.sample(tensors=tensors))
        command = [
            "dd", "if=" + os.path.join(views, "model.npz"), "of=/dev/null", "bs=4096", "count=1", "iflag=direct", "status=none"
        ]
        reader = subprocess.Popen(command)
        self.addCleanup(reader.wait, LIMIT_S)
        self.addCleanup(reader.kill)

        def running():
            return json.loads(self.read("mnt", ".weightfs", "status.json"))["checksums"]

        until(lambda: running() and running()[0]["done"] > 0, lambda: f"no progress: {running()}")
        shown, = running()
        self.assertTrue(shown["name"].endswith("model.safetensors: model.npz"), shown)
        self.assertGreater(shown["size"], 1 << 42)
        reader.kill()
        reader.wait(LIMIT_S)
        until(lambda: running() == [], "the computation does not end with its reader")


class Gguf(ViewsTestCase):
    """semantics 26.5"""

    def test_parser_of_the_hub_accepts_it(self):
        folder = npm_packages.folder_with(GGUF, HUB)
        if folder is None:
            self.skipTest("no npm packages")
        tensors = sample_tensors() + [Tensor("quantised", "q4_0", (2, 32), bytes(36))]
        views = self.views_of(self.sample("model.gguf", tensors, "gguf", {"general.architecture": "llama", "general.name": "Tiny"}))
        script = """
import { gguf } from "@huggingface/gguf";
const { metadata, tensorInfos } = await gguf(process.argv[2], { allowLocalFile: true });
console.log(JSON.stringify({ metadata, tensorInfos }, (key, value) => typeof value === "bigint" ? Number(value) : value));
"""
        done = npm_packages.run_module(folder, script, os.path.join(views, "model.gguf"), timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = json.loads(done.stdout)
        self.assertEqual((found["metadata"]["general.architecture"], found["metadata"]["general.name"]), ("llama", "Tiny"))
        self.assertEqual({info["name"]: tuple(reversed(info["shape"])) for info in found["tensorInfos"]},
                         {tensor.name: tuple(tensor.shape) for tensor in tensors})

    def test_other_process_reads_the_tensors(self):
        views = self.views_of(self.sample())
        expected, = [tensor.data for tensor in sample_tensors() if tensor.name == "encoder/weight"]
        done = subprocess.run([WEIGHTFS, "cat", os.path.join(views, "model.gguf"), "tensors/encoder/weight"], capture_output=True,
                              timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, expected, b""))


if __name__ == "__main__":
    unittest.main()
