"""Archives of files that end with hundreds of megabytes of zeros, which take a thousandth of that and little time to build."""
import os
import struct
import zlib

from attack import put
from attacks_tar import END, head
import archives

SEGMENT = 16 << 20  # what zeros come in


def zeros_behind(data, count):
    """Deflate data of `data` and `count` zeros, a multiple of SEGMENT, as many times the same block; and the CRC-32."""
    pack = zlib.compressobj(6, zlib.DEFLATED, -15)
    blocks = [pack.compress(data) + pack.flush(zlib.Z_FULL_FLUSH), pack.compress(bytes(SEGMENT)) + pack.flush(zlib.Z_FULL_FLUSH)]
    crc, segment = zlib.crc32(data), bytes(SEGMENT)
    for _ in range(count // SEGMENT):
        crc = zlib.crc32(segment, crc)
    return blocks[0] + blocks[1] * (count // SEGMENT) + pack.flush(), crc


def zip_of(members, zeros, name="m.zip"):
    """A builder of a zip with a member of each `make()`, and zeros behind those that are named in `zeros`."""
    def build(folder):
        with archives.Zip(os.path.join(folder, name)) as out:
            for member, make in members.items():
                data, count = make(), zeros.get(member, 0)
                packed, crc = zeros_behind(data, count)
                out.write(member, b"", archives.DEFLATE, packed=packed, crc=crc, size=len(data) + count)
        return name
    return build


def tar_gz_of(member, make, zeros):
    """Zeros as a .tar.gz of one member."""
    def build(folder):
        data = make()
        size = len(data) + zeros
        packed, crc = zeros_behind(head(member.encode(), size) + data, zeros)
        end = bytes(-size % 512) + END
        pack = zlib.compressobj(9, zlib.DEFLATED, -15)
        body = packed[:-2] + pack.compress(end) + pack.flush()  # without the last, empty block
        return put(folder, "m.tar.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + body +
                   struct.pack("<II", zlib.crc32(end, crc), (512 + size + len(end)) & 0xFFFFFFFF))
    return build


def list_behind_all(data, slot):
    """The bytes of a FlatBuffer whose root has a list in this slot: its 64 Mi elements begin behind all bytes."""
    data = bytearray(data)
    data += bytes(-len(data) % 4)
    root = struct.unpack_from("<I", data)[0]
    vtable = root - struct.unpack_from("<i", data, root)[0]
    field = root + struct.unpack_from("<H", data, vtable + 4 + 2 * slot)[0]
    struct.pack_into("<I", data, field, len(data) - field)
    return bytes(data) + struct.pack("<I", 4 * SEGMENT)
