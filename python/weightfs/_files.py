"""Files of a model's tree as binary files."""
from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from ._mount import Mounted
    from ._server import Server

FIRST_BLOCK = 256 * 1024  # bytes that a small read requests
MAX_BLOCK = 8 * 1024 * 1024


class TreeFile(io.RawIOBase):
    """A file of the tree, which can be sought. A read requests the range that it returns, a small one a block of it, which grows
    while the reads are in order; none returns fewer bytes than requested before the end."""

    def __init__(self, reader: Union[Server, Mounted], path: str) -> None:
        super().__init__()
        self._reader = reader
        self._size = reader.size(path)
        self._at = 0
        self._block = memoryview(b"")
        self._block_at = 0
        self._block_size = FIRST_BLOCK
        self.name = path
        self.mode = "rb"

    @property
    def size(self) -> int:
        """The number of bytes of the file, which fsspec needs."""
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check_open()
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}
        if whence not in bases:
            raise ValueError(f"{self.name}: no position is relative to {whence!r}")
        at = offset + bases[whence]
        if at < 0:
            raise ValueError(f"{self.name}: a negative position {at}")
        self._at = at
        return at

    def peek(self, _size: int = 0) -> bytes:
        """Bytes from the position on, at least one before the end, without moving it."""
        self._check_open()
        if not self._is_buffered():
            self._grow()
            self._fill()
        return bytes(self._block[self._at - self._block_at:][:FIRST_BLOCK])

    def readinto(self, buffer: Any) -> int:
        self._check_open()
        view = memoryview(buffer).cast("B")[:max(0, self._size - self._at)]
        done = 0
        while done < len(view):
            wanted = view[done:]
            if not self._is_buffered():
                self._grow()
                if len(wanted) >= self._block_size:
                    self._reader.read_into(self.name, self._at, wanted)
                    self._at += len(wanted)
                    self._block, self._block_at = memoryview(b""), self._at
                    break
                self._fill()
            part = self._block[self._at - self._block_at:][:len(wanted)]
            wanted[:len(part)] = part
            self._at += len(part)
            done += len(part)
        return len(view)

    def read_range(self, begin: int, end: int) -> bytes:
        """These bytes and no others, wherever the position is."""
        content = bytearray(max(0, min(end, self._size) - begin))
        self._reader.read_into(self.name, begin, memoryview(content))
        return bytes(content)

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError(f"{self.name}: the file is closed")

    def _is_buffered(self) -> bool:
        return self._block_at <= self._at < self._block_at + len(self._block)

    def _grow(self) -> None:
        """Doubles the next block if the position is the end of the last one."""
        is_in_order = self._at == self._block_at + len(self._block) > 0
        self._block_size = min(2 * self._block_size, MAX_BLOCK) if is_in_order else FIRST_BLOCK

    def _fill(self) -> None:
        block = memoryview(bytearray(max(0, min(self._block_size, self._size - self._at))))
        self._reader.read_into(self.name, self._at, block)
        self._block, self._block_at = block, self._at
