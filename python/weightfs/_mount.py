"""A model in a directory that weightfs has mounted: its files are read as they are, without another process."""
from __future__ import annotations

import os
import re
import stat
from typing import Dict, List, Optional, Tuple

from ._errors import Changed, Error, NotFound, Refused, Unavailable


def is_mounted(path: str) -> bool:
    """Whether a path is a directory in a mount of weightfs."""
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            return False
        wanted = os.fsencode(os.path.realpath(path))
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    best, kind = b"", b""
    for line in lines:
        fields, _, rest = line.partition(b" - ")
        point = re.sub(rb"\\([0-7]{3})", lambda octal: bytes([int(octal[1], 8)]), fields.split(b" ")[4])
        if (wanted == point or wanted.startswith(point.rstrip(b"/") + b"/")) and len(point) >= len(best):
            best, kind = point, rest.split(b" ")[0]
    return kind == b"fuse.weightfs"


def raised(error: OSError, path: str) -> Error:
    """The exception for a failed system call (semantics 7.5)."""
    import errno
    message = f"{path}: {error.strerror}"
    if error.errno == errno.ENOENT:
        return NotFound(message)
    if error.errno == errno.ESTALE:
        return Changed(message)
    if error.errno == errno.EACCES:
        return Refused(message)
    return Unavailable(message) if error.errno == errno.EHOSTUNREACH else Error(message)


class Opened:
    """An open file of a mount, read in order."""

    def __init__(self, path: str, descriptor: int, begin: int) -> None:
        self._path, self._descriptor, self._at = path, descriptor, begin

    def read_into(self, view: memoryview) -> int:
        """Fills the memory, and returns how many bytes there were: fewer than requested at the end of the file."""
        done = 0
        try:
            while done < len(view):
                count = os.preadv(self._descriptor, [view[done:]], self._at)
                if count == 0:
                    break
                done, self._at = done + count, self._at + count
        except OSError as error:
            raise raised(error, self._path) from error
        return done

    def __enter__(self) -> "Opened":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


class Mounted:
    """The files of a mounted model."""

    def __init__(self, root: str) -> None:
        self.root = root

    def close(self) -> None:
        """Nothing stays open."""

    def open(self, path: str, begin: int = 0) -> Opened:
        """The file, from an offset on."""
        try:
            return Opened(path, os.open(os.path.join(self.root, path), os.O_RDONLY | os.O_CLOEXEC), begin)
        except OSError as error:
            raise raised(error, path) from error

    def read_into(self, path: str, begin: int, view: memoryview) -> None:
        """Fills the memory with the bytes from `begin` on."""
        with self.open(path, begin) as file:
            count = file.read_into(view)
        if count < len(view):
            raise Error(f"{path}: ends {len(view) - count} bytes early")

    def text_of(self, path: str) -> str:
        view = bytearray(self.size(path))
        self.read_into(path, 0, memoryview(view))
        return view.decode("utf-8")

    def size(self, path: str) -> int:
        try:
            return os.stat(os.path.join(self.root, path)).st_size
        except OSError as error:
            raise raised(error, path) from error

    def list(self, path: str) -> List[Tuple[str, bool, Optional[int]]]:
        try:
            with os.scandir(os.path.join(self.root, path)) as entries:
                return sorted((entry.name, entry.is_dir(), None if entry.is_dir() else entry.stat().st_size) for entry in entries)
        except OSError as error:
            raise raised(error, path) from error

    def views_of(self, path: str) -> Dict[str, str]:
        """The paths of a tensor's files in npy/ and float32/, by its path below tensors/ (semantics 3.5, 3.6)."""
        found = {}
        for view in ("npy", "float32"):
            file = self._file_in(view, path)
            if file is not None:
                found[view] = file
        return found

    def _file_in(self, view: str, path: str) -> Optional[str]:
        name = self._name_of(f"tensors/{path}")
        direct = f"{view}/{path}.npy"
        if name is None or self._name_of(direct) == name:
            return direct if name is not None else None
        folder = f"{view}/{path}".rpartition("/")[0]
        try:
            names = os.listdir(os.path.join(self.root, folder))
        except OSError:
            return None
        return next((f"{folder}/{each}" for each in sorted(names) if self._name_of(f"{folder}/{each}") == name), None)

    def _name_of(self, file: str) -> Optional[bytes]:
        try:
            return os.getxattr(os.path.join(self.root, file), "user.weightfs.name")
        except OSError:
            return None
