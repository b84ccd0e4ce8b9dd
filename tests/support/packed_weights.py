"""Packs integers as the quantisation methods of the Hub do, element by element, by their published rules. Needs NumPy."""
import numpy

from tensors import Tensor

NAMES = {"float16": "float16", "float32": "float32", "int8": "int8", "int32": "int32", "int64": "int64", "uint8": "uint8"}


def tensor(name, array, dtype=None):
    return Tensor(name, dtype or NAMES[array.dtype.name], array.shape, numpy.ascontiguousarray(array).tobytes())


def bfloat16(array):
    """The upper halves of numbers that are bfloat16 already."""
    return (numpy.ascontiguousarray(array, numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)


def float8(codes):
    """The numbers of float8_e4m3fn."""
    codes = numpy.asarray(codes, numpy.int64)
    sign = numpy.where(codes & 128, -1.0, 1.0)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    magnitude = numpy.where(exponent == 0, mantissa * 2.0 ** -9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    return numpy.where(codes & 127 == 127, numpy.nan, sign * magnitude).astype(numpy.float32)


FLOAT4 = numpy.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], numpy.float32)


def bit_string(integers, bits):
    """Integers in the lowest bits first, in numbers of 32 bits: those of 3 bits may lie in two."""
    number = sum(int(value) << bits * i for i, value in enumerate(integers))
    return [number >> 32 * i & 0xFFFFFFFF for i in range(len(integers) * bits // 32)]


def whole_in_words(integers, bits):
    """Integers in the lowest bits first, as many as fit into a number of 32 bits."""
    factor = 32 // bits
    parts = [integers[at:at + factor] for at in range(0, len(integers), factor)]
    return [sum(int(value) << bits * i for i, value in enumerate(part)) for part in parts]


def words(rows):
    return numpy.array(rows, numpy.uint32).view(numpy.int32)


def packed_rows(integers, bits, pack=bit_string):
    return words([pack(row, bits) for row in integers])


def packed_columns(integers, bits, pack=bit_string):
    return numpy.ascontiguousarray(packed_rows(integers.T, bits, pack).T)


def in_awq_order(integers):
    out = numpy.array(integers)
    for place, output in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
        out[:, place::8] = integers[:, output::8]
    return out


class Groups:
    """Random codes of [inputs, outputs], with a scale and a zero point for each group and output."""

    def __init__(self, bits, inputs, outputs, size, zeros=None, index=None, seed=1):
        random = numpy.random.default_rng(seed)
        count = -(-inputs // size)
        self.bits = bits
        self.index = numpy.arange(inputs, dtype=numpy.int32) // size if index is None else index
        self.codes = random.integers(0, 2 ** bits, (inputs, outputs))
        self.zeros = random.integers(1, 2 ** bits, (count, outputs)) if zeros is None else numpy.full((count, outputs), zeros)
        self.scales = random.uniform(-0.01, 0.02, (count, outputs)).astype(numpy.float16)

    def weight(self):
        differences = (self.codes - self.zeros[self.index]).astype(numpy.float32)
        return numpy.ascontiguousarray((self.scales[self.index].astype(numpy.float32) * differences).T)

    def gptq(self, prefix, version=1, has_index=True, has_zeros=True):
        stored = (self.zeros - (version == 1)) % 2 ** self.bits
        tensors = [tensor(prefix + "qweight", packed_columns(self.codes, self.bits)), tensor(prefix + "scales", self.scales)]
        if has_zeros:
            tensors.append(tensor(prefix + "qzeros", packed_rows(stored, self.bits)))
        if has_index:
            tensors.append(tensor(prefix + "g_idx", self.index.astype(numpy.int32)))
        return tensors

    def awq(self, prefix):
        return [tensor(prefix + "qweight", packed_rows(in_awq_order(self.codes), 4)),
                tensor(prefix + "qzeros", packed_rows(in_awq_order(self.zeros), 4)), tensor(prefix + "scales", self.scales)]


def pack_quantized(prefix, integers, bits, scales, zeros=None, index=None):
    """compressed-tensors: signed integers of [outputs, inputs], with zero points of [outputs, groups]."""
    offset = 2 ** (bits - 1)
    tensors = [tensor(prefix + "weight_packed", packed_rows(integers + offset, bits, whole_in_words)),
               tensor(prefix + "weight_scale", scales), tensor(prefix + "weight_shape", numpy.array(integers.shape, numpy.int64))]
    if zeros is not None:
        tensors.append(tensor(prefix + "weight_zero_point", packed_columns(zeros + offset, bits, whole_in_words)))
    if index is not None:
        tensors.append(tensor(prefix + "weight_g_idx", index))
    return tensors


def pairs(codes):
    """Two codes of 4 bits in a byte, the first in the lower half."""
    return (codes[:, ::2] | codes[:, 1::2] << 4).astype(numpy.uint8)
