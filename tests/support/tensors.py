"""The tensors of which a container is written. Their data may be bytes, or be generated without being held in memory."""
import os
import random
import struct
from typing import NamedTuple


class Hole:
    """`size` zeros, which take no space on disk."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __bytes__(self):
        return bytes(self.size)

    def write_to(self, file):
        file.seek(self.size, os.SEEK_CUR)


class Noise(Hole):
    """Pseudo-random bytes, generated while they are written."""

    def pieces(self, size=1 << 20):
        source = random.Random(self.size)
        for start in range(0, self.size, size):
            yield source.randbytes(min(size, self.size - start))

    def __bytes__(self):
        return b"".join(self.pieces())

    def write_to(self, file):
        file.writelines(self.pieces())


class Tensor(NamedTuple):
    """`dtype` as named by NumPy, ml_dtypes or ggml (in lower case); `shape` outermost first; `data` little-endian."""
    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes | Hole


def text(string):
    """The bytes of a text. A lone surrogate (U+DC80 to U+DCFF) stands for one byte, for names that are not UTF-8."""
    return string.encode("utf-8", "surrogateescape")


def round_up(number, multiple):
    return number + -number % multiple


def laid_out(tensors, alignment=1):
    """Each tensor and the offset of its data from the start of the data."""
    offset = 0
    for tensor in tensors:
        offset = round_up(offset, alignment)
        yield tensor, offset
        offset += len(tensor.data)


def put_data(file, tensors, alignment=1):
    """Writes the data of `tensors` at the current position, and truncates the file after it."""
    start = file.tell()
    for (_, _, _, data), offset in laid_out(tensors, alignment):
        if start + offset != file.tell():
            file.seek(start + offset)
        if isinstance(data, Hole):
            data.write_to(file)
        else:
            file.write(data)
    file.truncate()


class ManyNames:
    """`count` scalars, generated on request; bench/floor_names.cc generates the same names.

    A name has at most 35 bytes, so that a million of them fit a safetensors header, which ends at 100,000,000 bytes.
    """

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __iter__(self):
        for index in range(self.count):
            matrix, projection = divmod(index, 3)
            layer, expert = divmod(matrix, 512)
            name = f"layers.{layer}.experts.{expert}.{('down', 'gate', 'up')[projection]}.weight"
            yield Tensor(name, "float32", (), struct.pack("<f", index))


def one_tensor(size, fill):
    """One tensor of `size` bytes, a multiple of 4."""
    return [Tensor("weight", "float32", (size // 4,), Noise(size) if fill else Hole(size))]
