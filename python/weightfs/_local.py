"""The local files that hold the bytes of tensors as they are."""
from __future__ import annotations

import os
import threading
import weakref
from typing import IO, TYPE_CHECKING, Any, Iterable, List, Optional, Tuple, cast

from ._errors import Changed, Error

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]


def identity_of(status: os.stat_result) -> str:
    """The text by which the program identifies a file: device, inode, size, mtime and ctime."""
    def seconds(nanoseconds: int) -> str:
        return "{}.{}".format(*divmod(nanoseconds, 1_000_000_000))
    return (f"file {status.st_dev}:{status.st_ino} {status.st_size} {seconds(status.st_mtime_ns)} {seconds(status.st_ctime_ns)}")


def status_of(path: str) -> Optional[os.stat_result]:
    """The status of a file or directory, or None if it cannot be examined."""
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def version_of(status: os.stat_result) -> Tuple[int, ...]:
    """What is another one after a file was replaced or written, but not after it got a new mode, owner or name."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class LocalFile:
    """A file that is the one that the program has read: found at one of the paths, and opened."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self.path = path
        self._file: Optional[IO[bytes]] = file
        self._opened = os.fstat(file.fileno())
        self.size = self._opened.st_size
        self._array: Optional[Array] = None  # mapped read-only
        self._lock = threading.RLock()  # a handler of a signal may close the model

    def mapped(self, offset: int, size: int, mode: str) -> Array:
        """These bytes, mapped read-only ("r"), or copied when they are written ("c"): nothing else sees that. Raises Changed if
        the file was written or cut since it was opened."""
        with self._lock:
            if self._file is None:
                raise Error(f"{self.path}: the model is closed")
            descriptor = self._file.fileno()
            if version_of(os.fstat(descriptor)) != version_of(self._opened):
                raise Changed(f"{self.path}: the file was written after it was opened; open it again")
            if mode != "r":
                return private(descriptor, offset, size)
            if self._array is None:
                import numpy
                self._array = numpy.memmap(cast(Any, self._file), numpy.uint8, "r", shape=(self.size,))
            return self._array[offset:offset + size]

    def check(self) -> None:
        """Raises Changed unless the file at the path is still the mapped one, unchanged."""
        try:
            now = os.stat(self.path)
        except OSError as error:
            raise Changed(f"{self.path}: {error.strerror}; arrays keep the bytes of the file that was opened") from error
        was = self._opened
        if (now.st_dev, now.st_ino) != (was.st_dev, was.st_ino):
            raise Changed(f"{self.path}: another file has this name; arrays keep the bytes of the file that was opened")
        if version_of(now) != version_of(was):
            raise Changed(f"{self.path}: the file was written after it was opened; arrays may have bytes of two versions")

    def after_fork(self) -> None:
        self._lock = threading.RLock()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):  # an interruption may have come before it was set
            self.close()

    def close(self) -> None:
        """Arrays keep their mapping."""
        with self._lock:
            self._array = None
            if self._file is not None:
                self._file.close()
            self._file = None


def private(descriptor: int, offset: int, size: int) -> Array:
    """Bytes of a file, which are copied when they are written. mmap.mmap() would keep a descriptor open for each mapping."""
    import ctypes
    import mmap

    import numpy
    libc = ctypes.CDLL(None, use_errno=True)
    map_file = getattr(libc, "mmap64", libc.mmap)  # where offsets of mmap() have 32 bits
    map_file.restype = ctypes.c_void_p
    map_file.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    before = offset % mmap.ALLOCATIONGRANULARITY
    address = map_file(None, before + size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE, descriptor, offset - before)
    if address == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    memory = (ctypes.c_uint8 * (before + size)).from_address(address)
    # Not at exit: arrays may be used until the process ends.
    weakref.finalize(memory, libc.munmap, address, before + size).atexit = False
    array: Array = numpy.frombuffer(cast(Any, memory), numpy.uint8, size, before)
    return array


def candidates(source: str, chosen: Optional[str], parts: Iterable[str]) -> List[str]:
    """The paths where a source may have its files: itself, and the files that the index names, in its directory or beside it."""
    paths = [source]
    folders = [source] if os.path.isdir(source) else [os.path.dirname(source)]
    if chosen is not None:
        paths.append(os.path.join(source, chosen))
        folders.append(os.path.dirname(paths[-1]))
    for part in parts:
        # A name in a container never leads out of its directory.
        if ".." not in part.split("/"):
            paths += [os.path.join(folder, part.lstrip("/")) for folder in folders]
    return paths


def find_files(identities: List[str], paths: List[str]) -> List[Optional[LocalFile]]:
    """The files with these identities. Those that are at none of the paths, or have changed since, are None: their bytes come from
    the server, which compares them itself."""
    wanted = {" ".join(identity.split(" ", 2)[:2]): number for number, identity in enumerate(identities)}
    found: List[Optional[LocalFile]] = [None] * len(identities)
    for path in dict.fromkeys(paths):
        try:
            status = os.stat(path)
            number = wanted.get(f"file {status.st_dev}:{status.st_ino}", -1)
            if number < 0 or found[number] is not None:
                continue
            file = open(path, "rb")
        except OSError:
            continue
        if identity_of(os.fstat(file.fileno())) == identities[number]:
            found[number] = LocalFile(path, file)
        else:
            file.close()
    return found
