"""Writes zips (with the methods of Carton) and cartons: input of tests and benchmarks. Standard library only.

Zstandard is written as frames of raw and repeated blocks (RFC 8878, 3.1.1.2): no compressor is needed, and every reader
accepts them.
"""
import hashlib
import os
import struct
import zipfile
import zlib

STORED, DEFLATE, ZSTD = 0, 8, 93

NOOP = """spec_version = 1

[runner]
runner_name = "noop"
required_framework_version = "=1.0.0"
runner_compat_version = 1
"""


def zstd(data, block=1 << 17):
    """`data` as one frame with its size. A block of one repeated byte takes four bytes."""
    out = [struct.pack("<IBBQ", 0xFD2FB528, 0xC0, 0x38, len(data))]  # a window of 128 KiB, the size in eight bytes
    blocks = [data[i:i + block] for i in range(0, len(data), block)] or [b""]
    for i, piece in enumerate(blocks):
        last = i + 1 == len(blocks)
        repeated = len(piece) > 1 and piece == piece[:1] * len(piece)
        out.append(struct.pack("<I", len(piece) << 3 | (1 if repeated else 0) << 1 | last)[:3])
        out.append(piece[:1] if repeated else piece)
    return b"".join(out)


def deflate(data, level=6):
    packer = zlib.compressobj(level, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


PACK = {STORED: bytes, DEFLATE: deflate, ZSTD: zstd}


class Zip:
    """A zip as the official packager of Carton writes it; write() also accepts compressed bytes, which may be invalid."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.directory = []

    def write(self, name, data, method=STORED, mode=0o100644, packed=None, crc=None, size=None):
        raw = name if isinstance(name, bytes) else name.encode()
        packed = PACK[method](data) if packed is None else packed
        crc = zlib.crc32(data) if crc is None else crc
        size = len(data) if size is None else size
        flags = 0 if raw.isascii() or isinstance(name, bytes) else 1 << 11
        head = struct.pack("<HHHHHIIIHH", 20, flags, method, 0, 0x21, crc, len(packed), size, len(raw), 0)
        offset = self.file.tell()
        self.file.write(b"PK\3\4" + head + raw + packed)
        self.directory.append(b"PK\1\2" + struct.pack("<H", 0x032E) + head +
                              struct.pack("<HHHII", 0, 0, 0, mode << 16, offset) + raw)

    def link(self, name, target):
        self.write(name, target.encode(), mode=0o120777)

    def close(self):
        begin = self.file.tell()
        for record in self.directory:
            self.file.write(record)
        count = len(self.directory)
        end = self.file.tell()
        if count > 0xFFFF:
            self.file.write(b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 0x032D, 45, 0, 0, count, count, end - begin, begin))
            self.file.write(b"PK\6\7" + struct.pack("<IQI", 0, end, 1))
        shown = min(count, 0xFFFF)
        self.file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, shown, shown, end - begin, begin, 0))
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def manifest(files, links=None, linked=None):
    """MANIFEST of {path: bytes}; `links`: {path: path of the target}, `linked`: files that are not in the carton."""
    lines = {path: hashlib.sha256(data).hexdigest() for path, data in {**files, **(linked or {})}.items()}
    lines.update({path: lines[target] for path, target in (links or {}).items()})
    return "".join(f"{path}={digest}\n" for path, digest in sorted(lines.items(), key=lambda line: line[0].encode())).encode()


def write_carton(path, files, method=ZSTD, links=None, linked=None, urls=None):
    """A carton of {path: bytes} (carton.toml is added). `links`: {path: (text of the link, path of its target)}; `linked`:
    {path: bytes} of files that are only in LINKS; `urls`: {path: [URL]}."""
    files = {"carton.toml": NOOP.encode(), **files}
    links = links or {}
    linked = linked or {}
    with Zip(path) as out:
        for name, data in files.items():
            out.write(name, data, method)
        for name, (text, _) in links.items():
            out.link(name, text)
        out.write("MANIFEST", manifest(files, {name: target for name, (_, target) in links.items()}, linked))
        if urls:
            rows = [f"{hashlib.sha256(linked[name]).hexdigest()} = {list(urls[name])}\n".replace("'", '"') for name in urls]
            out.write("LINKS", ("version = 1\n\n[urls]\n" + "".join(rows)).encode())


def write_carton_directory(path, files):
    files = {"carton.toml": NOOP.encode(), **files}
    for name, data in {**files, "MANIFEST": manifest(files)}.items():
        os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
        with open(os.path.join(path, name), "wb") as out:
            out.write(data)


def write_zip64(path, files):
    """A zip with 64-bit sizes everywhere, as Python writes a stream of unknown size."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            with out.open(name, "w", force_zip64=True) as member:
                member.write(data)
