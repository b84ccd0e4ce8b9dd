"""The local files that hold the bytes of tensors as they are."""
from __future__ import annotations

import os
import threading
from typing import IO, TYPE_CHECKING, Any, Iterable, List, Optional, cast

from ._errors import Changed

if TYPE_CHECKING:
    import numpy


def identity_of(status: os.stat_result) -> str:
    """The text by which the program identifies a file: device, inode, size, mtime and ctime."""
    def seconds(nanoseconds: int) -> str:
        return "{}.{}".format(*divmod(nanoseconds, 1_000_000_000))
    return (f"file {status.st_dev}:{status.st_ino} {status.st_size} {seconds(status.st_mtime_ns)} {seconds(status.st_ctime_ns)}")


class LocalFile:
    """A file that is the one that the program has read: found at one of the paths, and opened."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self.path = path
        self.size = os.fstat(file.fileno()).st_size
        self._file: Optional[IO[bytes]] = file
        self._opened = os.fstat(file.fileno())
        self._array: "Optional[numpy.ndarray[Any, Any]]" = None  # mapped read-only
        self._lock = threading.Lock()

    def mapped(self, mode: str) -> "numpy.ndarray[Any, Any]":
        """The bytes, mapped read-only ("r"), once; or copied when they are written ("c"), each time anew."""
        if mode != "r":
            return self.new_mapping(mode)
        with self._lock:
            if self._array is None:
                self._array = self.new_mapping(mode)
            return self._array

    def new_mapping(self, mode: str) -> "numpy.ndarray[Any, Any]":
        """As `mapped`, but nothing else sees what is written to it. Raises Changed if the file was cut."""
        import numpy
        file = self.opened()
        if os.fstat(file.fileno()).st_size < self.size:
            raise Changed(f"{self.path}: the file was cut after it was opened")
        return numpy.memmap(cast(Any, file), numpy.uint8, cast(Any, mode), shape=(self.size,))

    def opened(self) -> IO[bytes]:
        if self._file is None:
            raise Changed(f"{self.path}: the model is closed")
        return self._file

    def check(self) -> None:
        """Raises Changed unless the file at the path is still the mapped one, unchanged. A new mode, owner or name of the file
        is not a change."""
        try:
            now = os.stat(self.path)
        except OSError as error:
            raise Changed(f"{self.path}: {error.strerror}; arrays keep the bytes of the file that was opened") from error
        was = self._opened
        if (now.st_dev, now.st_ino) != (was.st_dev, was.st_ino):
            raise Changed(f"{self.path}: another file has this name; arrays keep the bytes of the file that was opened")
        if (now.st_size, now.st_mtime_ns) != (was.st_size, was.st_mtime_ns):
            raise Changed(f"{self.path}: the file was written after it was opened; arrays may have bytes of two versions")

    def after_fork(self) -> None:
        self._lock = threading.Lock()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Arrays keep their mapping."""
        self._array = None
        if self._file is not None:
            self._file.close()
        self._file = None


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
