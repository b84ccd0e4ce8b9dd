"""Arrays are numbers: of each type of formats/dtype.cc, m[NAME] is the float32 of the program to the bit, from a mapped file, a
server and a mount, with ml_dtypes and without it."""
import io
import json
import math
import os
import re
import sys
import tarfile
import types
import unittest
import unittest.mock

from python_testing import ROOT, PythonTestCase, numpy, weightfs
from mounting import MountTestCase
from tensors import Tensor
import demo
import weightfs._dtypes

ROW = re.compile(r'DType\{"(\w+)", (\d+), (\d+), "[^"]*", (?:true|false)(?:, (\d+))?(?:, (ByteOrder::\w+))?\}')
# Not real, or not converted by ggml.
NO_NUMBERS = {"complex64", "complex128", "q8_1", "q4_0_4_4", "q4_0_4_8", "q4_0_8_8", "iq4_nl_4_4", "iq4_nl_4_8",
              "iq4_nl_8_8"}
OF_NUMPY = {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
            "complex64", "complex128"}
# Bits of exponent and mantissa, bias, and which patterns are no numbers.
FORMATS = {
    "bfloat16": (8, 7, 127, "ieee"), "float8_e4m3": (4, 3, 7, "ieee"), "float8_e5m2": (5, 2, 15, "ieee"),
    "float8_e4m3fn": (4, 3, 7, "all ones"), "float8_e4m3fnuz": (4, 3, 8, "minus zero"), "float8_e5m2fnuz": (5, 2, 16, "minus zero"),
    "float8_e4m3b11fnuz": (4, 3, 11, "minus zero"), "float4_e2m1fn": (2, 1, 1, "none"), "float6_e2m3fn": (2, 3, 1, "none"),
    "float6_e3m2fn": (3, 2, 3, "none")
}


def types_of_the_program():
    """The name, elements of a block and bytes of a block of each row of formats/dtype.cc but the big-endian ones."""
    with open(os.path.join(ROOT, "formats", "dtype.cc")) as file:
        rows = ROW.findall(file.read())
    return [(name, int(block), int(size)) for name, block, size, _, order in rows if not order and int(size) > 0]


def number_of(bits, name):
    """The number that a pattern of a small floating-point type has."""
    if name == "float8_e8m0fnu":
        return math.nan if bits == 0xFF else 2.0 ** (bits - 127)
    exponent_bits, mantissa_bits, bias, special = FORMATS[name]
    width = 1 + exponent_bits + mantissa_bits
    sign, rest = -1.0 if bits >> (width - 1) else 1.0, bits & ((1 << (width - 1)) - 1)
    exponent, mantissa = rest >> mantissa_bits, rest & ((1 << mantissa_bits) - 1)
    ones = exponent == (1 << exponent_bits) - 1
    if special == "ieee" and ones:
        return math.nan if mantissa else sign * math.inf
    if special == "all ones" and rest == (1 << (width - 1)) - 1 or special == "minus zero" and bits == 1 << (width - 1):
        return math.nan
    return sign * math.ldexp(mantissa + ((1 << mantissa_bits) if exponent else 0), max(exponent, 1) - bias - mantissa_bits)


def patterns_of(name, block, size):
    """Bytes of a tensor with every pattern of the small types, else pseudo-random ones, and its shape."""
    if name == "bfloat16":
        return numpy.arange(1 << 16, dtype="<u2").tobytes(), (256, 256)
    if name == "bool":
        return bytes([0, 1, 1, 0]), (2, 2)
    if name in weightfs._dtypes.INTEGERS and size == block:
        wide = range(-(1 << int(name[-1]) - 1), 1 << int(name[-1]) - 1) if name.startswith("int") else range(1 << int(name[-1]))
        return numpy.array(wide).astype("u1").tobytes(), (2, len(wide) // 2)
    rows = numpy.random.default_rng(len(name)).integers(0, 256, 4 * 256 * size, "u1")
    if size == 1 or block in (4, 8):
        rows[:256] = numpy.arange(256)
    return rows.tobytes(), (4, 256 * block)


def stub_of_ml_dtypes(left_out=()):
    """The package with types of the right size, which are told apart from integers."""
    plain = {**weightfs._dtypes.FLOATS, **weightfs._dtypes.INTEGERS}
    stub = types.ModuleType("ml_dtypes")
    for name, descr in plain.items():
        if name not in left_out:
            setattr(stub, name, numpy.dtype([(name, descr)]))
    return stub


def stub_of_torch():
    """The functions of torch that are used; a tensor is an array with the name of a type."""
    class Of:
        def __init__(self, array, dtype):
            self.array, self.dtype = array, dtype

        def view(self, dtype):
            return Of(self.array, dtype)

    stub = types.ModuleType("torch")
    stub.from_numpy = lambda array: Of(array, array.dtype.name)
    stub.__version__ = "0"
    for name in weightfs._dtypes.FLOATS:
        setattr(stub, name, name)
    return stub


class Numbers(PythonTestCase, MountTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.types = types_of_the_program()

    def without_ml_dtypes(self):
        return unittest.mock.patch.dict(sys.modules, ml_dtypes=None)

    def with_ml_dtypes(self, **options):
        return unittest.mock.patch.dict(sys.modules, ml_dtypes=stub_of_ml_dtypes(**options))

    def exported(self, types_, **metadata):
        """A directory as weightfs exports it, which has tensors of any types."""
        folder, records = self.path("export"), []
        os.makedirs(os.path.join(folder, "tensors"))
        for number, (name, block, size) in enumerate(types_):
            data, shape = patterns_of(name, block, size)
            path = f"{number}.{name}.{size}"
            with open(os.path.join(folder, "tensors", path), "wb") as file:
                file.write(data)
            records.append({"name": path, "path": path, "dtype": name, "stored_dtype": name.upper(), "shape": list(shape),
                            "nbytes": len(data)})
        lines = ",\n".join(map(json.dumps, records))
        with open(os.path.join(folder, "tensors.json"), "w") as file:
            file.write(f'{{"tensors": [\n{lines}\n]}}\n')
        with open(os.path.join(folder, "metadata.json"), "w") as file:
            json.dump({"format": "gguf", "metadata": metadata}, file)
        return folder

    def packed(self, folder):
        """A compressed archive of these files, whose tensors are never mapped."""
        with tarfile.open(folder + ".tar.gz", "w:gz", compresslevel=1) as archive:
            for name in ("tensors.json", "metadata.json", *(f"tensors/{each}" for each in sorted(os.listdir(folder + "/tensors")))):
                archive.add(os.path.join(folder, name), name)
        return folder + ".tar.gz"

    def references(self, source):
        """What the program serves in float32/: arrays by the names of their tensors."""
        found = {}
        with weightfs.open(source) as model:
            for tensor in model.tensors():
                if "float32" in model._origin.views_of(tensor._record):
                    with model.open_file(f"float32/{tensor._record['path']}.npy") as file:
                        found[tensor.key] = numpy.lib.format.read_array(io.BytesIO(file.read()))
        return found

    def check(self, array, reference, what):
        """Equal numbers, to the bit for float32; NumPy's own conversion of other types has NaN with other bits."""
        self.assertIn(array.dtype.kind, "biuf", what)
        wide = array
        if array.dtype != numpy.float32:
            with numpy.errstate(all="ignore"):
                wide = array.astype(numpy.float32)
            wide = numpy.where(numpy.isnan(wide) & numpy.isnan(reference), reference, wide)
        self.assertEqual((wide.shape, wide.tobytes()), (reference.shape, reference.tobytes()), what)

    def check_model(self, model, references):
        for tensor in model.tensors():
            name, what = tensor.dtype, (tensor.key, tensor._origin.reader)
            if name in NO_NUMBERS:
                continue
            reference = references[tensor.key]
            array = model[tensor.key]
            if name not in OF_NUMPY:
                is_integer = name.startswith(("int", "uint"))
                self.assertEqual(array.dtype, ("i1" if name[0] == "i" else "u1") if is_integer else "<f4", what)
            self.check(array, reference, what)
            self.check(numpy.asarray(tensor), reference, what)
            self.check(tensor.float32(), reference, what)
            for index in (slice(1, None), slice(None, None, -1), 1, (0, slice(3, 9)), (slice(None), [0, -1]), ..., -1):
                self.check(tensor[index], reference[index], (what, index))
            self.check(numpy.asarray(tensor[0, 0]), numpy.asarray(reference[0, 0]), what)
            self.assertEqual(tensor.raw().nbytes, tensor.nbytes, what)

    def test_every_type_has_the_numbers_of_float32_without_ml_dtypes(self):
        folder = self.exported(self.types)
        references = self.references(folder)
        self.assertEqual(sorted(key.split(".")[1] for key in references),
                         sorted(name for name, _, _ in self.types if name not in NO_NUMBERS))
        self.assertGreaterEqual(len(references), 50)
        for source in (folder, self.packed(folder), self.mount(folder)):
            with self.subTest(os.path.basename(source)), self.without_ml_dtypes():
                self.check_model(self.open(source), references)

    def test_small_floats_have_the_numbers_of_their_definition(self):
        small = [row for row in self.types if row[0] in {*FORMATS, "float8_e8m0fnu"}]
        model = self.open(self.exported(small))
        with self.without_ml_dtypes():
            for tensor in model.tensors():
                bits, width = tensor.raw(), 1 + sum(FORMATS.get(tensor.dtype, (4, 3))[:2])
                if width < 8:  # packed, from the lowest bit on
                    bits = numpy.unpackbits(bits, bitorder="little").reshape(-1, width) @ (1 << numpy.arange(width))
                elif width == 16:
                    bits = bits.view("<u2")
                numbers = {pattern: number_of(pattern, tensor.dtype) for pattern in set(bits.tolist())}
                self.assertGreaterEqual(len(numbers), 1 << width)
                expected = numpy.array([numbers[pattern] for pattern in bits.tolist()], "f4").reshape(tensor.shape)
                numpy.testing.assert_array_equal(model[tensor.key], expected, tensor.key)
                zeros = expected == 0
                numpy.testing.assert_array_equal(numpy.signbit(model[tensor.key][zeros]), numpy.signbit(expected[zeros]))

    def test_types_of_ml_dtypes_have_the_bits_without_a_copy(self):
        folder = self.exported(self.types)
        references = self.references(folder)
        for source in (folder, self.packed(folder), self.mount(folder)):
            is_folder = source == folder
            with self.subTest(os.path.basename(source)), self.with_ml_dtypes():
                model = self.open(source)
                for tensor in model.tensors():
                    own = weightfs._dtypes.own_dtype(tensor.dtype)
                    if own is None:
                        if tensor.dtype not in NO_NUMBERS:
                            self.check(model[tensor.key], references[tensor.key], tensor.key)
                        continue
                    array, plain = tensor.numpy(), own.fields[tensor.dtype][0]
                    self.assertEqual((array.dtype, array.shape), (own, tensor.shape))
                    self.check(tensor.float32(), references[tensor.key], tensor.key)
                    self.assertEqual(tensor[1].tobytes(), array[1].tobytes())
                    self.assertEqual(tensor[::-1, 3:5].tobytes(), array[::-1, 3:5].tobytes())
                    if tensor.dtype in weightfs._dtypes.INTEGERS:
                        self.check(array.view(plain), references[tensor.key], tensor.key)
                        continue
                    self.assertEqual(array.tobytes(), tensor.raw().tobytes())
                    self.assertEqual(tensor.is_mapped, is_folder, tensor.key)
                    if is_folder:
                        self.assertIsInstance(array, numpy.memmap)
                        self.assertTrue(numpy.shares_memory(array, tensor.raw()))

    def test_type_that_ml_dtypes_lacks_is_float32(self):
        model = self.open(self.exported([("float8_e8m0fnu", 1, 1), ("bfloat16", 1, 2), ("float8_e5m2", 1, 1)]))
        with self.with_ml_dtypes(left_out=("float8_e8m0fnu", "bfloat16")):
            self.assertEqual([model[name].dtype for name in list(model)[:2]], [numpy.float32] * 2)
            self.assertEqual([tensor.is_mapped for tensor in model.tensors()], [False, False, True])

    def test_bfloat16_of_a_local_file_is_converted_without_a_server(self):
        source = self.sample(tensors=demo.hugging_face_layers(1))
        tensor = self.open(source).tensor("model.embed_tokens.weight")
        with self.without_ml_dtypes():
            self.assertFalse(tensor.is_mapped)
            array = tensor.numpy()
            self.assertEqual((array.dtype, array.flags.writeable, array.shape), (numpy.float32, True, (2048, 32)))
            self.assertFalse(numpy.shares_memory(array, tensor.raw()))
            self.assertLess(abs(float(tensor.numpy().mean())), 0.001)
            self.assertEqual(tensor[5, 7], array[5, 7])
            self.assertIsInstance(tensor[5, 7], numpy.float32)
        self.assertEqual(os.listdir(self.sockets), [])

    def test_big_endian_bfloat16_has_the_same_numbers(self):
        bits = numpy.arange(1 << 16, dtype=">u2")
        folder = self.exported([("bfloat16", 1, 2)], gguf={"byte_order": "big"})
        with open(os.path.join(folder, "tensors", "0.bfloat16.2"), "wb") as file:
            file.write(bits.tobytes())
        expected = (bits.astype("u4") << 16).view("f4").reshape(256, 256)
        for source in (folder, self.packed(folder), self.mount(folder)):
            with self.subTest(os.path.basename(source)):
                tensor, = self.open(source).tensors()
                with self.without_ml_dtypes():
                    self.assertEqual(tensor.numpy().tobytes(), expected.tobytes())
                    self.assertEqual(tensor[3:5].tobytes(), expected[3:5].tobytes())
                    self.assertEqual(tensor.float32().tobytes(), expected.tobytes())
                with self.with_ml_dtypes():
                    self.assertEqual(tensor.numpy().tobytes(), bits.astype("<u2").tobytes())
                self.assertEqual(tensor.raw().tobytes(), bits.tobytes())

    def test_torch_gets_the_bits_whether_ml_dtypes_is_there_or_not(self):
        folder = self.exported([row for row in self.types if row[0] not in NO_NUMBERS])
        for source in (folder, self.packed(folder), self.mount(folder)):
            model = self.open(source)
            for patch in (self.with_ml_dtypes, self.without_ml_dtypes):
                with self.subTest(os.path.basename(source)), patch(), unittest.mock.patch.dict(sys.modules, torch=stub_of_torch()):
                    for tensor in model.tensors():
                        found = tensor.torch()
                        self.assertEqual(found.array.shape, tensor.shape)
                        self.assertTrue(found.array.flags.writeable)
                        if tensor.dtype in weightfs._dtypes.FLOATS:
                            self.assertEqual(found.dtype, tensor.dtype)
                            self.assertEqual(found.array.tobytes(), tensor.raw().tobytes())
                        else:
                            with self.without_ml_dtypes():
                                self.assertEqual((found.dtype, found.array.tobytes()),
                                                 (tensor.numpy().dtype.name, tensor.numpy().tobytes()))

    def test_empty_and_scalar_tensors_of_types_that_numpy_lacks_are_arrays(self):
        tensors = [Tensor("scalar", "bfloat16", (), b"\x80\x3f"), Tensor("empty", "bfloat16", (0, 3), b""),
                   Tensor("small", "float8_e5m2", (), b"\x3c"), Tensor("none", "float8_e5m2", (2, 0), b"")]
        source = self.sample(tensors=tensors)
        for opened in (source, self.mount(source)):
            model = self.open(opened)
            with self.without_ml_dtypes():
                for tensor in tensors:
                    array = model[tensor.name]
                    self.assertIsInstance(array, numpy.ndarray)
                    self.assertEqual((array.shape, array.dtype), (tensor.shape, numpy.float32))
                    self.assertEqual(array.tolist(), [] if 0 in tensor.shape[:1] else [[], []] if tensor.shape else 1)
                    self.assertEqual(numpy.shape(model.tensor(tensor.name)[...]), tensor.shape)


if __name__ == "__main__":
    unittest.main()
