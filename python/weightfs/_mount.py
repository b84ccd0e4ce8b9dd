"""A model in a directory that weightfs has mounted: its files are read as they are, without another process."""
from __future__ import annotations

import errno
import io
import os
import stat
from typing import Dict, List, Optional, Tuple

from ._errors import Changed, Error, NotFound, Refused, Unavailable
from ._local import version_of


def is_mounted(path: str) -> bool:
    """Whether a path is a directory in a mount of weightfs."""
    try:
        status = os.stat(path)
        if not stat.S_ISDIR(status.st_mode):
            return False
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return False
    device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}".encode("ascii")
    return any(line.split(b" ")[2] == device and line.partition(b" - ")[2].startswith(b"fuse.weightfs ") for line in lines)


def raised(error: OSError, path: str) -> Error:
    """The exception for a failed system call (semantics 7.5)."""
    message = f"{path}: {error.strerror}"
    if error.errno == errno.ENOENT:
        return NotFound(message)
    if error.errno == errno.ESTALE:
        return Changed(message)
    if error.errno == errno.EACCES:
        return Refused(message)
    # ENOTCONN: the server of the mount has ended.
    return Unavailable(message) if error.errno in (errno.EHOSTUNREACH, errno.ENOTCONN) else Error(message)


class Opened:
    """An open file of a mount, read in order."""

    def __init__(self, path: str, file: io.FileIO, begin: int) -> None:
        self._path, self._file, self._at = path, file, begin

    def read_into(self, view: memoryview) -> int:
        """Fills the memory, and returns how many bytes there were: fewer than requested at the end of the file."""
        done = 0
        try:
            while done < len(view):
                count = os.preadv(self._file.fileno(), [view[done:]], self._at)
                if count == 0:
                    break
                done, self._at = done + count, self._at + count
        except OSError as error:
            raise raised(error, self._path) from error
        return done

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class Mounted:
    """The files of a mounted model. All are of the version that was opened: an open file has the bytes of one version, and a model
    that replaces it has another tensors.json, so that is compared after each file was opened. Nothing stays open, so that the mount
    can be unmounted."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.version = ""

    def start(self) -> str:
        """The text of tensors.json, which identifies the version."""
        try:
            with io.FileIO(self._path("tensors.json")) as file:
                self.version = str(version_of(os.fstat(file.fileno())))
                return file.readall().decode("utf-8")
        except FileNotFoundError:
            raise NotFound(f"{self.root}: no tensors.json here; if it is a directory of models, open one of them") from None
        except OSError as error:
            raise raised(error, self._path("tensors.json")) from error

    def check(self) -> None:
        """Raises Changed if the model is not that of `start()`."""
        try:
            now = str(version_of(os.stat(self._path("tensors.json"))))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
                raise raised(error, self.root) from error
            now = ""
        if now != self.version:
            raise Changed(f"{self.root}: the model has changed since it was opened; open it again")

    def close(self) -> None:
        """Nothing stays open."""

    def _path(self, path: str) -> str:
        return os.path.join(self.root, path)

    def _raised(self, error: OSError, path: str) -> Error:
        """The exception for a failed system call: Changed if the model was replaced meanwhile."""
        exception = raised(error, path)
        if not isinstance(exception, Unavailable):
            self.check()
        return exception

    def open(self, path: str, begin: int = 0) -> Opened:
        """The file, from an offset on."""
        try:
            file = io.FileIO(self._path(path))
        except OSError as error:
            raise self._raised(error, path) from error
        try:
            self.check()
        except BaseException:
            file.close()
            raise
        return Opened(path, file, begin)

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
            status = os.stat(self._path(path))
        except OSError as error:
            raise self._raised(error, path) from error
        if stat.S_ISDIR(status.st_mode):
            raise Error(f"{path}: a directory, not a file")
        self.check()
        return status.st_size

    def list(self, path: str) -> List[Tuple[str, bool, Optional[int]]]:
        try:
            with os.scandir(self._path(path)) as entries:
                found = sorted((entry.name, entry.is_dir(), None if entry.is_dir() else entry.stat().st_size) for entry in entries)
        except OSError as error:
            raise self._raised(error, path) from error
        self.check()
        return found

    def views_of(self, path: str) -> Dict[str, str]:
        """The paths of a tensor's files in npy/ and float32/, by its path below tensors/ (semantics 3.5, 3.6)."""
        found = {}
        for view in ("npy", "float32"):
            file = self._file_in(view, path)
            if file is not None:
                found[view] = file
        self.check()
        return found

    def _file_in(self, view: str, path: str) -> Optional[str]:
        name = self._name_of(f"tensors/{path}")
        direct = f"{view}/{path}.npy"
        if name is None or self._name_of(direct) == name:
            return direct if name is not None else None
        folder = f"{view}/{path}".rpartition("/")[0]
        try:
            names = os.listdir(self._path(folder))
        except OSError:
            return None
        return next((f"{folder}/{each}" for each in sorted(names) if self._name_of(f"{folder}/{each}") == name), None)

    def _name_of(self, file: str) -> Optional[bytes]:
        try:
            return os.getxattr(self._path(file), "user.weightfs.name")
        except OSError:
            return None
