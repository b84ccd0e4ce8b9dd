"""The system calls with which programs read files. Each function returns the whole file of an open descriptor."""
import ctypes
import errno
import mmap
import os
import struct
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
MAP_POPULATE = 0x8000
BLOCK = 1 << 20


def size_of(fd):
    return os.fstat(fd).st_size


def by_pread(fd):
    out = b""
    while piece := os.pread(fd, BLOCK, len(out)):
        out += piece
    return out


def by_mapping(flags):
    def read(fd):
        with mmap.mmap(fd, 0, flags, mmap.PROT_READ) as mapping:
            return mapping[:]
    return read


def by_pread_after_advice(fd):
    for advice in (os.POSIX_FADV_SEQUENTIAL, os.POSIX_FADV_RANDOM):
        os.posix_fadvise(fd, 0, 0, advice)
    return by_pread(fd)


def by_mapping_after_advice(fd):
    with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapping:
        mapping.madvise(mmap.MADV_RANDOM)
        return mapping[:]


def after_requested_read_ahead(fd):
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_WILLNEED)
    with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as mapping:
        mapping.madvise(mmap.MADV_WILLNEED)
        return mapping[:]


def by_direct_io(fd):
    """O_DIRECT, into memory that is aligned to pages."""
    direct = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_DIRECT)
    try:
        out = b""
        with mmap.mmap(-1, BLOCK) as buffer:
            while count := os.preadv(direct, [buffer], len(out)):
                out += buffer[:count]
        return out
    finally:
        os.close(direct)


def by_sendfile(fd):
    with tempfile.TemporaryFile() as out:
        offset = 0
        while count := os.sendfile(out.fileno(), fd, offset, BLOCK):
            offset += count
        out.seek(0)
        return out.read()


def by_copy_file_range(fd):
    """Where it cannot copy between file systems: by reading, as cp(1) does."""
    with tempfile.TemporaryFile() as out:
        offset = 0
        try:
            while count := os.copy_file_range(fd, out.fileno(), BLOCK, offset):
                offset += count
        except OSError as error:
            if offset > 0 or error.errno not in (errno.EXDEV, errno.EOPNOTSUPP):
                raise
            return by_pread(fd)
        out.seek(0)
        return out.read()


def by_splice(fd):
    reader, writer = os.pipe()
    try:
        out, offset = b"", 0
        while count := os.splice(fd, writer, 1 << 16, offset_src=offset):
            offset += count
            while count > 0:
                piece = os.read(reader, count)
                out, count = out + piece, count - len(piece)
        return out
    finally:
        os.close(reader)
        os.close(writer)


class IoUring:
    """Reads by io_uring(7) with several requests in flight. Standard library only. Fails with OSError where the kernel or a filter
    of system calls refuses it."""

    ENTRIES = 8
    PARAMETERS = 120  # bytes of struct io_uring_params: 10 numbers, then the offsets in the two rings
    SETUP, ENTER = 425, 426  # the numbers of the system calls
    ENTER_GETEVENTS = 1
    OP_READ = 22
    CQ_RING, SQES = 0x8000000, 0x10000000  # places to map
    SQE, CQE = 64, 16  # bytes of an entry

    def __init__(self):
        parameters = ctypes.create_string_buffer(self.PARAMETERS)
        self.ring = self.call(self.SETUP, self.ENTRIES, parameters)
        sq_count, cq_count = struct.unpack_from("2I", parameters)
        self.sq = dict(
            zip(("head", "tail", "mask", "entries", "flags", "dropped", "array"), struct.unpack_from("7I", parameters, 40)))
        self.cq = dict(zip(("head", "tail", "mask", "entries", "overflow", "cqes"), struct.unpack_from("6I", parameters, 80)))
        self.sq_ring = mmap.mmap(self.ring, self.sq["array"] + 4 * sq_count)
        self.cq_ring = mmap.mmap(self.ring, self.cq["cqes"] + self.CQE * cq_count, offset=self.CQ_RING)
        self.sqes = mmap.mmap(self.ring, self.SQE * sq_count, offset=self.SQES)

    def call(self, number, *arguments):
        result = LIBC.syscall(ctypes.c_long(number), *arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    def close(self):
        for mapping in (self.sq_ring, self.cq_ring, self.sqes):
            mapping.close()
        os.close(self.ring)

    def number(self, ring, offset):
        return struct.unpack_from("I", ring, offset)[0]

    def submit(self, fd, ranges, address):
        """Requests reads of (offset, count) into the same places of the memory at `address`, and waits for all of them. Returns the
        results in the order of `ranges`."""
        tail, mask = self.number(self.sq_ring, self.sq["tail"]), self.number(self.sq_ring, self.sq["mask"])
        for i, (offset, count) in enumerate(ranges):
            at = (tail + i) & mask
            self.sqes[at * self.SQE:(at + 1) * self.SQE] = struct.pack("<BBHiQQIIQ24x", self.OP_READ, 0, 0, fd, offset,
                                                                       address + offset, count, 0, i)
            struct.pack_into("I", self.sq_ring, self.sq["array"] + 4 * at, at)
        struct.pack_into("I", self.sq_ring, self.sq["tail"], (tail + len(ranges)) & 0xFFFFFFFF)
        submitted = 0
        results = {}
        while len(results) < len(ranges):
            try:
                submitted += self.call(self.ENTER, self.ring,
                                       len(ranges) - submitted, 1, self.ENTER_GETEVENTS, None, ctypes.c_size_t(0))
            except InterruptedError:
                pass
            results.update(self.completed())
        return [results[i] for i in range(len(ranges))]

    def completed(self):
        """Pairs of a position and the result of its read."""
        head, tail = self.number(self.cq_ring, self.cq["head"]), self.number(self.cq_ring, self.cq["tail"])
        mask = self.number(self.cq_ring, self.cq["mask"])
        while head != tail:
            yield struct.unpack_from("<Qi", self.cq_ring, self.cq["cqes"] + self.CQE * (head & mask))
            head = (head + 1) & 0xFFFFFFFF
        struct.pack_into("I", self.cq_ring, self.cq["head"], head)

    def read(self, fd, block=100_003):
        """The whole file, in blocks that begin and end inside of pages. A read of fewer bytes than requested is continued."""
        size = size_of(fd)
        left = [(offset, min(block, size - offset)) for offset in range(0, size, block)]
        with mmap.mmap(-1, size + 1) as memory:
            address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
            while left:
                ranges, left = left[:self.ENTRIES], left[self.ENTRIES:]
                for (offset, count), result in zip(ranges, self.submit(fd, ranges, address)):
                    if result < 0:
                        raise OSError(-result, os.strerror(-result))
                    if result == 0:
                        raise EOFError(f"ends at byte {offset} of {size}")
                    if result < count:
                        left.append((offset + result, count - result))
            return memory[:size]


def by_io_uring(fd):
    ring = IoUring()
    try:
        return ring.read(fd)
    finally:
        ring.close()


def refusal_of_io_uring():
    """Why io_uring cannot be used here; empty if it can."""
    try:
        IoUring().close()
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
        return f"io_uring_setup: {error.strerror}"
    return ""


# All but io_uring.
WAYS = {
    "pread": by_pread,
    "shared mapping": by_mapping(mmap.MAP_SHARED),
    "private mapping": by_mapping(mmap.MAP_PRIVATE),
    "shared mapping, populated": by_mapping(mmap.MAP_SHARED | MAP_POPULATE),
    "private mapping, populated": by_mapping(mmap.MAP_PRIVATE | MAP_POPULATE),
    "pread after posix_fadvise": by_pread_after_advice,
    "mapping after madvise": by_mapping_after_advice,
    "WILLNEED": after_requested_read_ahead,
    "O_DIRECT": by_direct_io,
    "sendfile": by_sendfile,
    "copy_file_range": by_copy_file_range,
    "splice": by_splice,
}
