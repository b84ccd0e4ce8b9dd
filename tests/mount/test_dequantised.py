"""Numbers as float32 through the kernel: quantised tensors in npy/, and every numeric tensor in float32/."""
import concurrent.futures
import hashlib
import json
import mmap
import os
import random
import unittest
from typing import NamedTuple

from mounting import MountTestCase, OneMountTestCase, Tensor, containers

try:
    import numpy
except ImportError:
    numpy = None

SAMPLES = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "samples"))
THREADS = 8


class Blocks(NamedTuple):
    """A quantised type. `exponents` are the offsets in a block of the bytes with the exponents of float16 scales. `digest` begins
    the SHA-256 of the values that the scalar dequantize_row function of ggml d99724f2 makes of blocks()."""
    elements: int
    size: int
    exponents: tuple[int, ...]
    digest: str


TYPES = {
    "q4_0": Blocks(32, 18, (1,), "b50d49ace83af87d"),
    "q4_1": Blocks(32, 20, (1, 3), "50ea7c3892ca0c55"),
    "q5_0": Blocks(32, 22, (1,), "062b54c8c6d197c8"),
    "q5_1": Blocks(32, 24, (1, 3), "bfdd38123951e802"),
    "q8_0": Blocks(32, 34, (1,), "e2205dbf97781865"),
    "q2_k": Blocks(256, 84, (81, 83), "ced7c8801ab609f0"),
    "q3_k": Blocks(256, 110, (109,), "9322dbca6100296e"),
    "q4_k": Blocks(256, 144, (1, 3), "80c3e18d35afaa03"),
    "q5_k": Blocks(256, 176, (1, 3), "fc752c3a9d605b4c"),
    "q6_k": Blocks(256, 210, (209,), "17b4472153f8b931"),
    "q8_k": Blocks(256, 292, (3,), "06d79dda13530520"),
    "iq2_xxs": Blocks(256, 66, (1,), "2c59143efeb656d6"),
    "iq2_xs": Blocks(256, 74, (1,), "23e2eb0b449d0d76"),
    "iq3_xxs": Blocks(256, 98, (1,), "115fda85c7a4e9f6"),
    "iq1_s": Blocks(256, 50, (1,), "cf01a7312a7781b9"),
    "iq4_nl": Blocks(32, 18, (1,), "b0b92ec752626389"),
    "iq3_s": Blocks(256, 110, (1,), "74ec86d8def112fa"),
    "iq2_s": Blocks(256, 82, (1,), "fbe46951cd3cf201"),
    "iq4_xs": Blocks(256, 136, (1,), "320808f9e967aaec"),
    "iq1_m": Blocks(256, 56, (55,), "e28faecc4fb14035"),
    "tq1_0": Blocks(256, 54, (53,), "0c52b29e29180f5c"),
    "tq2_0": Blocks(256, 66, (65,), "443452138e247c0a"),
    "mxfp4": Blocks(32, 17, (), "9abaf2498819509d"),
    "nvfp4": Blocks(64, 36, (), "2335d2a5277a89c2"),
    "q1_0": Blocks(128, 18, (1,), "921d5208838ff3e9"),
    "q2_0": Blocks(64, 18, (1,), "9ae0f38c2940135e"),
}
COUNT = 64


def blocks(name):
    """Random blocks with finite values, as quantised_blocks() of the tests in C++ makes them."""
    its = TYPES[name]
    data = bytearray()
    for i in range(COUNT * its.size // 32 + 1):
        data += hashlib.sha256(f"{name} {i}".encode()).digest()
    del data[COUNT * its.size:]
    for i in range(COUNT):
        for offset in its.exponents:
            data[i * its.size + offset] &= 0x83 if i % 4 == 3 else 0xBF
    return bytes(data)


def values_of(path):
    """The bytes after the header of a .npy file of version 1.0."""
    with open(path, "rb") as file:
        data = file.read()
    return data[10 + int.from_bytes(data[8:10], "little"):]


def wrong_ranges(path, expected, seed, count=25):
    """The ranges of a file, read at random places, that differ from `expected`."""
    places = random.Random(seed)
    wrong = []
    fd = os.open(path, os.O_RDONLY)
    try:
        for _ in range(count):
            offset, length = places.randrange(len(expected)), places.choice((1, 3, 4, 127, 4096, 50_000))
            if os.pread(fd, length, offset) != expected[offset:offset + length]:
                wrong.append((offset, length))
    finally:
        os.close(fd)
    return wrong


class QuantisedTypes(OneMountTestCase):
    @classmethod
    def sources_of(cls, owner):
        tensors = [Tensor(name, name, (COUNT, its.elements), blocks(name)) for name, its in TYPES.items()]
        return [owner.sample("m.gguf", tensors, "gguf")]

    def test_values_have_the_bits_of_ggml(self):
        for name, its in TYPES.items():
            for view in ("npy", "float32"):
                digest = hashlib.sha256(values_of(f"{self.mnt}/{view}/{name}.npy")).hexdigest()
                self.assertEqual(digest[:16], its.digest, f"{view}/{name}")
            self.assertEqual(self.owner.read("mnt", "tensors", name), blocks(name), "tensors/ has the stored bytes")

    def test_any_range_by_eight_threads_has_the_same_bytes(self):
        """Reads a mount whose pages are not cached yet."""
        mnt = self.mount(self.owner.path("m.gguf"))
        for name in TYPES:
            whole = self.read("mnt", "npy", name + ".npy")
            path = f"{mnt}/float32/{name}.npy"
            with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
                wrong = list(pool.map(lambda seed: wrong_ranges(path, whole, seed), range(THREADS)))
            self.assertEqual(wrong, [[]] * THREADS, name)
            with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
                self.assertEqual(mapping[:], whole)

    @unittest.skipUnless(numpy, "no NumPy here")
    def test_numpy_loads_them_in_their_shape(self):
        for name, its in TYPES.items():
            array = numpy.load(f"{self.mnt}/npy/{name}.npy", mmap_mode="r")
            self.assertEqual((array.dtype, array.shape), (numpy.dtype("<f4"), (COUNT, its.elements)), name)

    def test_xattr_and_index_have_the_stored_type(self):
        index = json.loads(self.owner.read("mnt", "tensors.json"))["tensors"]
        self.assertEqual([tensor["dtype"] for tensor in index], list(TYPES))
        for view in ("npy", "float32"):
            self.assertEqual(os.getxattr(f"{self.mnt}/{view}/q4_k.npy", "user.weightfs.dtype"), b"q4_k")


@unittest.skipUnless(numpy, "no NumPy here")
class OtherTypes(MountTestCase):
    def check(self, mnt):
        """Compares float32/ with NumPy's conversion of npy/, and returns the number of compared files."""
        compared = 0
        for folder, _, files in os.walk(mnt):
            if "/npy" not in folder[len(mnt):]:
                continue
            for file in files:
                path = os.path.join(folder, file)
                array = numpy.load(path, max_header_size=1 << 20)
                dtype = os.getxattr(path, "user.weightfs.dtype")
                if dtype == b"bfloat16":
                    with open(path[:len(mnt)] + path[len(mnt):].replace("/npy", "/tensors", 1)[:-len(".npy")], "rb") as stored:
                        patterns = numpy.frombuffer(stored.read(), "<u2")
                    array = (patterns.astype("<u4") << 16).view("<f4").reshape(array.shape)
                if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8 or b"_e" in dtype:  # long double; small floats
                    continue
                with numpy.errstate(over="ignore", invalid="ignore"):
                    expected = array.astype("<f4")
                found = numpy.load(path[:len(mnt)] + path[len(mnt):].replace("/npy", "/float32", 1))
                self.assertEqual((found.dtype, found.shape), (expected.dtype, expected.shape), path)
                self.assertTrue(numpy.array_equal(found, expected, equal_nan=True), path)
                self.assertTrue(
                    numpy.array_equal(numpy.signbit(found[~numpy.isnan(found)]), numpy.signbit(expected[~numpy.isnan(expected)])),
                    path)
                compared += 1
        return compared

    def test_every_numpy_type_is_converted_as_numpy_does(self):
        noise = random.Random(5)
        dtypes = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16",
                  "float32", "float64")
        sizes = {"bool": 1, "bfloat16": 2}
        tensors = []
        for dtype in dtypes:
            size = sizes.get(dtype) or numpy.dtype(dtype).itemsize
            data = bytes(n % 2 for n in range(6000)) if dtype == "bool" else noise.randbytes(6000 * size)
            tensors.append(Tensor(dtype, dtype, (20, 300), data))
        containers.write_safetensors(self.path("m.safetensors"), tensors)
        mnt = self.mount(self.path("m.safetensors"))
        self.assertEqual(self.check(mnt), len(dtypes))

    def test_samples_of_other_formats(self):
        for folder in ("safetensors", "numpy/npy", "numpy/npz", "onnx/onnx", "tflite", "hdf5/plain", "gguf/types"):
            source = os.path.join(SAMPLES, folder)
            if not os.path.isdir(source):
                self.skipTest(f"no samples in {source}")
            with self.subTest(folder):
                mnt = self.mount(source, at=folder.replace("/", "_"))
                self.assertGreater(self.check(mnt), 0, "nothing was compared")


class Samples(MountTestCase):
    def test_samples_have_the_bits_of_ggml(self):
        folder = os.path.join(SAMPLES, "dequant")
        if not os.path.isdir(folder):
            self.skipTest(f"no samples in {folder}")
        mnt = self.mount(os.path.join(folder, "dequant.gguf"))
        with open(os.path.join(folder, "dequant.json")) as file:
            tensors = json.load(file)["tensors"]
        self.assertEqual(len(tensors), 26)
        for name, tensor in tensors.items():
            with open(os.path.join(folder, tensor["dtype"] + ".f32"), "rb") as file:
                expected = file.read()
            path = f"{mnt}/npy/{name}.npy"
            self.assertEqual(values_of(path), expected, name)
            self.assertEqual(hashlib.sha256(expected).hexdigest(), tensor["float32_sha256"])
            with open(path, "rb") as file:
                whole = file.read()
            other = f"{mnt}/float32/{name}.npy"
            with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
                self.assertEqual(list(pool.map(lambda seed: wrong_ranges(other, whole, seed), range(THREADS))), [[]] * THREADS,
                                 name)


if __name__ == "__main__":
    unittest.main()
