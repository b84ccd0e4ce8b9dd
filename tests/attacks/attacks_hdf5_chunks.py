"""HDF5 chunks: stored sizes that lie, filters that repeat, chunks and rows far larger than what the outermost container has."""
import struct
import zlib

from attack import Attack, one_file, sparse
from attacks_hdf5 import NOWHERE, Hdf5, chunk_tree, chunked
from zeros import SEGMENT, tar_gz_of, zip_of

DEFLATE, SHUFFLE, FLETCHER32, SCALE_OFFSET, LZF = 1, 2, 3, 6, 32000
BYTE = struct.pack("<BBBBIHH", 0x10, 0, 0, 0, 1, 0, 8)
MIB = 1 << 20
READERS = 6


def filters(*chosen):
    """The message of these filters; scale-offset with parameters for bytes."""
    parameters = {SHUFFLE: (4,), DEFLATE: (6,), SCALE_OFFSET: (2, 0, 0, 0, 1) + (0,) * 15}
    body = struct.pack("<BB", 2, len(chosen))
    for number in chosen:
        values = parameters.get(number, ())
        name = struct.pack("<H", 0) if number >= 256 else b""
        body += struct.pack("<H", number) + name + struct.pack("<HH", 0, len(values)) + struct.pack(f"<{len(values)}I", *values)
    return 11, body


def dataset(file, dims, chunk, chunks, *chosen):
    """A dataset of bytes with (address, stored size, place) of its chunks."""
    tree = chunk_tree(file, chunks, len(dims))
    return file.dataset(dims, chunked(tree, chunk, 1), *([filters(*chosen)] if chosen else []), kind=BYTE)


def file_of(*makes):
    """A file with a dataset of each `make(file)`."""
    file = Hdf5()
    return file.build(file.group([(b"w%d" % i, make(file)) for i, make in enumerate(makes)]))


def alone(*makes):
    return one_file("m.h5", lambda: file_of(*makes))


def zipped(make, zeros):
    return zip_of({"m.h5": make}, {"m.h5": zeros})


def tar_gz(make, zeros):
    return tar_gz_of("m.h5", make, zeros)


def deflated(size):
    """`size` zeros as zlib data, which takes little time to make."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    whole, rest = divmod(size, SEGMENT)
    block = pack.compress(bytes(SEGMENT)) + pack.flush(zlib.Z_FULL_FLUSH) if whole else b""
    adler = 1
    for length in [SEGMENT] * whole + [rest]:
        adler = zlib.adler32(bytes(length), adler)
    return b"\x78\xda" + block * whole + pack.compress(bytes(rest)) + pack.flush() + struct.pack(">I", adler)


def claims(size, *chosen, chunk=4):
    """A chunk of 4 elements that claims so many stored bytes, behind all else."""
    return lambda file: dataset(file, (chunk,), (chunk,), [(4096, size, (0,))], *chosen)


def one_chunk(size, *chosen, make=deflated):
    """A dataset that is one chunk."""
    def build(file):
        stored = make(size)
        return dataset(file, (size,), (size,), [(file.put(stored), len(stored), (0,))], *chosen)
    return build


def in_zeros(size, stored, *chosen):
    """A dataset that is one chunk, whose bytes are zeros behind all else."""
    return lambda file: dataset(file, (size,), (size,), [(8192, stored, (0,))], *chosen)


def chunks_of(count, size, *chosen, stored=None, shared=False):
    def build(file):
        data = deflated(size) if stored is None else stored
        first = file.put(data)
        places = [(first if shared or i == 0 else file.put(data), len(data), (size * i,)) for i in range(count)]
        return dataset(file, (size * count,), (size,), places, *chosen)
    return build


def packed_three_times(file):
    data = deflated(16 * MIB)
    for _ in range(2):
        data = zlib.compress(data, 9)
    return dataset(file, (16 * MIB,), (16 * MIB,), [(file.put(data), len(data), (0,))], *[DEFLATE] * 3)


def invalid_row(file):
    """1 GiB, whose only stored chunk is invalid."""
    return dataset(file, (MIB, 1024), (MIB, 16), [(file.put(b"invalid"), 7, (0, 0))], DEFLATE)


def valid_row(columns):
    def build(file):
        data = deflated(MIB)
        return dataset(file, (MIB, columns), (MIB, 1), [(file.put(data), len(data), (0, 0))], DEFLATE)
    return build


def nodes(file, names, entries, make):
    """A B-tree of nodes of `entries` chunks that `make(i)` gives, below one root."""
    leaves = []
    for at in range(0, names, entries):
        leaves.append(chunk_tree(file, [make(i) for i in range(at, at + entries)], 1))
    body = b"".join(struct.pack("<II", 0, 0) + struct.pack("<3Q", 0, 0, leaf) for leaf in leaves)
    return file.put(struct.pack("<4sBBHQQ", b"TREE", 1, 1, len(leaves), NOWHERE, NOWHERE) + body + bytes(24))


def index_shared():
    file = Hdf5()
    tree = nodes(file, 100_000, 1_000, lambda i: (96 + 4 * i, 4, (4 * i,)))
    w = [(b"w%d" % i, file.dataset((400_000,), chunked(tree, (4,), 1), kind=BYTE)) for i in range(400)]
    return file.build(file.group(w))


def index_repeated(file):
    """1,300 nodes that list the same chunks."""
    tree = nodes(file, 650_000, 500, lambda i: (96, 4, (4 * (i % 500),)))
    return file.dataset((1_000_000,), chunked(tree, (4,), 1), kind=BYTE)


def index_outside(file):
    tree = nodes(file, 500_000, 1_000, lambda i: (96, 4, (4 * (i + 100),)))
    return file.dataset((40,), chunked(tree, (4,), 1), kind=BYTE)


def cells(file):
    """A row of 1,000,000 chunks of one element that were never written."""
    return dataset(file, (1, 1_000_000), (1, 1), [], DEFLATE)


ATTACKS = [
    Attack("hdf5-stored-3-gib", "hdf5", "a chunk of 4 elements claims 3 GiB of a hole",
           sparse("m.h5", lambda: file_of(claims(3 << 30, DEFLATE)), 3_300_000_000)),
    Attack("hdf5-stored-claimed-zip", "hdf5", "a chunk of 4 elements claims 600 MB of zeros in a zip of 600 kB",
           zipped(lambda: file_of(claims(600_000_000, DEFLATE)), 38 * SEGMENT)),
    Attack("hdf5-stored-claimed-tar-gz", "hdf5", "a chunk of 4 elements claims 600 MB of zeros in a .tar.gz",
           tar_gz(lambda: file_of(claims(600_000_000, DEFLATE)), 38 * SEGMENT)),
    Attack("hdf5-stored-claimed-lzf", "hdf5", "the same of LZF", zipped(lambda: file_of(claims(600_000_000, LZF)), 38 * SEGMENT)),
    Attack("hdf5-stored-claimed-fletcher32", "hdf5", "the same of Fletcher-32",
           zipped(lambda: file_of(claims(600_000_000, FLETCHER32)), 38 * SEGMENT)),
    Attack("hdf5-stored-claimed-readers", "hdf5", "six datasets like that, and six readers",
           zipped(lambda: file_of(*[claims(600_000_000, DEFLATE)] * 6), 38 * SEGMENT), readers=READERS),
    Attack("hdf5-chunk-800-mb-zip", "hdf5", "a deflated chunk of 800 MB before zeros, in a zip of 410 kB",
           zipped(lambda: file_of(one_chunk(800_000_000, DEFLATE)), 25 * SEGMENT)),
    Attack("hdf5-chunk-800-mb-tar-gz", "hdf5", "the same in a .tar.gz",
           tar_gz(lambda: file_of(one_chunk(800_000_000, DEFLATE)), 25 * SEGMENT)),
    Attack("hdf5-chunk-800-mb-shuffled", "hdf5", "the same, shuffled",
           zipped(lambda: file_of(one_chunk(800_000_000, SHUFFLE, DEFLATE)), 25 * SEGMENT)),
    Attack("hdf5-chunk-of-zeros", "hdf5", "a chunk without filters that is 380 MB of zeros in a zip",
           zipped(lambda: file_of(in_zeros(380_000_000, 380_000_000)), 25 * SEGMENT)),
    Attack("hdf5-chunk-of-zeros-fletcher32", "hdf5", "the same with its checksum, and six readers",
           zipped(lambda: file_of(*[in_zeros(380_000_000, 380_000_004, FLETCHER32)] * 6), 25 * SEGMENT), readers=READERS),
    Attack("hdf5-chunk-of-zeros-lzf", "hdf5", "a chunk of 190 MB that LZF makes from zeros",
           zipped(lambda: file_of(in_zeros(190_000_000, 380_000_000, LZF)), 25 * SEGMENT)),
    Attack("hdf5-chunk-of-zeros-scale-offset", "hdf5", "a chunk of 380 MB that scale-offset makes from 21 zeros",
           zipped(lambda: file_of(in_zeros(380_000_000, 21, SCALE_OFFSET)), 25 * SEGMENT)),
    Attack("hdf5-shuffles-31", "hdf5", "64 chunks are one deflated chunk of 16 MiB, shuffled 31 times",
           alone(chunks_of(64, 16 * MIB, *[SHUFFLE] * 31, DEFLATE, shared=True))),
    Attack("hdf5-shuffles-31-alone", "hdf5", "the same with chunks of their own",
           alone(chunks_of(64, 16 * MIB, *[SHUFFLE] * 31, DEFLATE))),
    Attack("hdf5-deflate-thrice", "hdf5", "a chunk that is deflated three times", alone(packed_three_times)),
    Attack("hdf5-fletcher32-31", "hdf5", "a chunk of 16 MiB with 31 checksums, and six readers",
           alone(*[chunks_of(8, 16 * MIB - 256, *[FLETCHER32] * 31, DEFLATE, stored=deflated(16 * MIB - 132))] * 6),
           readers=READERS),
    Attack("hdf5-lzf-31", "hdf5", "a chunk with 31 filters LZF", alone(chunks_of(8, 8 * MIB, *[LZF] * 31, DEFLATE))),
    Attack("hdf5-chunks-64-shared", "hdf5", "64 chunks are one of 16 MiB",
           alone(chunks_of(64, 16 * MIB, SHUFFLE, DEFLATE, shared=True)), readers=READERS),
    Attack("hdf5-rows-invalid", "hdf5", "six datasets of 1 GiB with one invalid chunk each, and six readers",
           alone(*[invalid_row] * 6), readers=READERS),
    Attack("hdf5-rows-valid", "hdf5", "six datasets with a row of chunks of 1 GiB each, and six readers",
           alone(*[valid_row(1024)] * 6), readers=READERS),
    Attack("hdf5-rows-60-mb", "hdf5", "six datasets with a row of chunks of 50 MiB each, and six readers",
           alone(*[valid_row(50)] * 6), readers=READERS),
    Attack("hdf5-row-zip", "hdf5", "a row of chunks of 600 MiB, in a zip of 410 kB",
           zipped(lambda: file_of(valid_row(600)), 25 * SEGMENT)),
    Attack("hdf5-chunk-index-shared", "hdf5", "400 datasets share an index of 100,000 chunks", one_file("m.h5", index_shared)),
    Attack("hdf5-chunk-index-repeated", "hdf5", "an index that lists 500 chunks 1,300 times, in a zip",
           zipped(lambda: file_of(index_repeated), SEGMENT)),
    Attack("hdf5-chunk-index-outside", "hdf5", "an index of 500,000 chunks outside of the dataset", alone(index_outside)),
    Attack("hdf5-chunk-address-wraps", "hdf5", "chunks at 2^64 - 2 and with 2^32 - 1 bytes",
           alone(lambda file: dataset(file, (8, ), (4, ), [(NOWHERE - 1, 4, (0, )), (96, 0xFFFFFFFF, (4, ))], DEFLATE))),
    Attack("hdf5-chunks-16-mib-readers", "hdf5", "eight datasets of a chunk of 16 MiB each, and six readers",
           alone(*[one_chunk(16 * MIB, SHUFFLE, DEFLATE)] * 8), readers=READERS),
    Attack("hdf5-chunks-never-written", "hdf5", "six datasets of 1 GiB that were never written, and six readers",
           alone(*[lambda file: file.dataset((1 << 30, ), chunked(NOWHERE, (16 * MIB, ), 1), kind=BYTE)] * 6), readers=READERS),
    Attack("hdf5-chunks-of-empty-indexes", "hdf5", "six datasets of 32 MiB with an index without chunks, and six readers",
           alone(*[lambda file: dataset(file, (32 * MIB, ), (16 * MIB, ), [], DEFLATE)] * 6), readers=READERS),
    Attack("hdf5-chunks-of-one", "hdf5", "a row of 1,000,000 chunks of one element", alone(cells)),
]
