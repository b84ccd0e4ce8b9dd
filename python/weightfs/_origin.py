"""Where the bytes of a model come from: local files that are mapped, and a reader for everything else."""
from __future__ import annotations

import json
import os
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

from ._errors import NotFound, Refused
from ._local import LocalFile
from ._mount import Mounted
from ._server import Server

if TYPE_CHECKING:
    import numpy

    Reader = Union[Server, Mounted]


class Origin:
    """What the tensors of a model share. Does not refer to them, so that a model is freed, and its server ends, at its last use."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.files: List[Optional[LocalFile]] = []
        self.is_closed = False
        self._is_big_endian: Optional[bool] = None
        _origins.add(self)

    def close(self) -> None:
        self.is_closed = True
        for file in self.files:
            if file is not None:
                file.close()
        self.reader.close()

    def local_bytes(self, record: Dict[str, Any]) -> Optional[Tuple[LocalFile, int]]:
        """The local file that has the bytes of a tensor, and their offset."""
        if "local" not in record or self.is_closed:
            return None
        number, offset = record["local"]
        file = self.files[number] if number < len(self.files) else None
        return None if file is None or offset + record["nbytes"] > file.size else (file, offset)

    def mapped(self, record: Dict[str, Any], mode: str) -> Optional[numpy.ndarray[Any, Any]]:
        """The bytes of a tensor in the mapped container."""
        place = self.local_bytes(record)
        if place is None or record["nbytes"] == 0:
            return None
        file, offset = place
        return file.mapped(offset, record["nbytes"], mode)

    @property
    def is_big_endian(self) -> bool:
        """Whether numbers in tensors/ are, which only a GGUF may have."""
        known = self._is_big_endian
        if known is None:
            fields = json.loads(self.reader.text_of("metadata.json")).get("metadata", {})
            gguf = fields.get("gguf") if isinstance(fields, dict) else None
            known = self._is_big_endian = isinstance(gguf, dict) and gguf.get("byte_order") == "big"
        return known

    def reason_of_refused(self, record: Dict[str, Any], key: str) -> str:
        """Why the program refused a tensor: its sentence, also if the model is in a mount, whose files have no sentences."""
        if isinstance(self.reader, Mounted):
            return f"tensor {key!r} was refused: {self._reason_in_mount(record['name'])}"
        try:
            with self.reader.open(f"tensors/{record['path']}"):
                return f"{key}: the tensor was refused"
        except Refused as error:
            return str(error)

    def _reason_in_mount(self, name: str) -> str:
        lack = json.loads(self.reader.text_of("metadata.json")).get("incomplete")
        try:
            lines = self.reader.text_of("warnings.txt").splitlines()
        except NotFound:
            lines = []
        # The names of tensors are between quotation marks there.
        found = next((line for line in lines if f'"{name}"' in line), None)
        return found or lack or "see warnings.txt"

    def views_of(self, record: Dict[str, Any]) -> Dict[str, str]:
        """The paths of a tensor's files in npy/ and float32/."""
        if isinstance(self.reader, Mounted):
            return self.reader.views_of(record["path"])
        return {view: record[view] for view in ("npy", "float32") if view in record}


_origins: weakref.WeakSet[Origin] = weakref.WeakSet()


def _after_fork() -> None:
    for origin in list(_origins):
        for file in origin.files:
            if file is not None:
                file.after_fork()


os.register_at_fork(after_in_child=_after_fork)
