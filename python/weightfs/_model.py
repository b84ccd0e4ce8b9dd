"""A model: its tensors by their names, its metadata and its files."""
from __future__ import annotations

import json
import os
import warnings
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, List, Optional, Tuple, Union, cast

from . import _local
from ._errors import IncompleteWarning, NotFound
from ._mount import Mounted, is_mounted
from ._origin import Origin
from ._program import read_info
from ._server import Server, digest_of, index_of
from ._tensor import Tensor
from ._tensors import Tensors

if TYPE_CHECKING:
    from ._comparison import Difference
    from ._files import TreeFile

INDEX = ("v", "local_files", "tensor_list")


class Model(Tensors):
    """A model that was opened by `weightfs.open()`: a mapping from the names of its tensors to arrays.

    `m["name"]` is `m.tensor("name").numpy()`: numbers, as float32 where NumPy and ml_dtypes have no such type. `m["blk.0.*"]` is
    `m.select("blk.0.*")`, a mapping of the tensors whose names match. Names are in the order of the container. If tensors have
    the same name, the first has it; the others have their paths below tensors/ as names. The model can be used by several
    threads, after a fork, and as a context manager; `pickle` stores the source and the options, and opens it again.
    """

    def __init__(self, source: Union[str, os.PathLike[str]], **options: Any) -> None:
        self.source: str = resolved(source)
        self.options: Dict[str, Any] = dict(options)
        self._origin = Origin(Mounted(self.source) if is_mounted(self.source) else Server(self.source, options))
        self._document: Optional[Dict[str, Any]] = None
        self._lacking = ""  # what an incomplete model lacks
        try:
            records = self._open()
        except BaseException:
            self._origin.close()
            raise
        self._tensors: Dict[str, Tensor] = {}
        self._name(records)
        if self._lacking:
            warnings.warn(self._lacking, IncompleteWarning, stacklevel=3)  # at the call of weightfs.open()

    def _open(self) -> List[Dict[str, Any]]:
        """Reads the index: from a mount, from a local source by the program, else from the server."""
        reader = self._origin.reader
        if isinstance(reader, Mounted) or reader.status is None:
            records = list(json.loads(reader.start())["tensors" if isinstance(reader, Mounted) else "tensor_list"])
            refused = sum(record.get("refused", False) for record in records)
            if refused:
                self._lacking = f"{self.source}: {refused} of {len(records)} tensors refused{self._lack()}"
            return records
        text, self._lacking = read_info(self.source, self.options)
        reader.index = digest_of(index_of(text))
        index = json.loads(text)
        self._document = {name: value for name, value in index.items() if name not in INDEX}
        parts = {record["storage"]["file"] for record in index["tensor_list"] if "local" in record and "storage" in record}
        paths = _local.candidates(self.source, self.options.get("file"), parts)
        self._origin.files = _local.find_files(index["local_files"], paths)
        return list(index["tensor_list"])

    def _name(self, records: List[Dict[str, Any]]) -> None:
        names = {record["name"] for record in records}
        used = set()
        for index, record in enumerate(records):
            key, number = record["name"], 2
            if key in used:
                key = record["path"]
                while key in used or key in names:
                    key, number = f"{record['path']}%~{number}", number + 1
            used.add(key)
            self._tensors[key] = Tensor(self._origin, index, key, record)

    def _lack(self) -> str:
        lack = self.metadata.get("incomplete")
        return f"; the model is incomplete: {lack}" if lack else ""

    # Metadata and files.

    @property
    def metadata(self) -> Dict[str, Any]:
        """The content of metadata.json: format, version, source, common fields, summary, and the container's own fields under
        "metadata"."""
        document = self._document
        if document is None:
            document = self._document = dict(json.loads(self._origin.reader.text_of("metadata.json")))
        return document

    @property
    def code(self) -> List[Dict[str, str]]:
        """What may run code when another program loads the model: "what", "where" (the file) and "runs" (when). Empty if weightfs
        knows of nothing."""
        code: List[Dict[str, str]] = self.metadata.get("code", [])
        return code

    @property
    def summary(self) -> Dict[str, Any]:
        """What the model is: kind, parameters, context length and others (docs/summary.md)."""
        summary: Dict[str, Any] = self.metadata.get("summary", {})
        return summary

    @property
    def files(self) -> List[str]:
        """The paths of the container's own files, "files/config.json", for `open_file()`."""
        found: List[str] = []
        folders = ["files"]
        while folders:
            folder = folders.pop()
            for name, is_directory, _ in self._origin.reader.list(folder):
                (folders if is_directory else found).append(f"{folder}/{name}")
        return sorted(found)

    def list(self, path: str = "") -> List[Tuple[str, bool, Optional[int]]]:
        """The entries of a directory of the model: name, whether it is a directory, and size in bytes if it is known. Raises
        NotFound."""
        return self._origin.reader.list(inside(path))

    def open_file(self, path: str) -> BinaryIO:
        """A file of the model's tree, as a seekable binary file that reads the ranges that are asked for: "metadata.toml",
        "files/config.json", "views/model.safetensors". Raises NotFound."""
        return cast(BinaryIO, self._open_file(path))

    def _open_file(self, path: str) -> TreeFile:
        from ._files import TreeFile
        return TreeFile(self._origin.reader, inside(path))

    def check(self) -> None:
        """Raises Changed if a container was replaced or written since it was opened: mapped arrays keep the bytes of the file that
        was opened, and reads through the server fail. If a mapped file was cut, access to the missing part ends the process with
        SIGBUS (docs/python.md)."""
        files = [file for file in self._origin.files if file is not None]
        for file in files:
            file.check()
        if not files:
            self._origin.reader.check()

    def diff(self, other: Union[Model, str, os.PathLike[str]], *, names: str = "mapped", stat: bool = True) -> Difference:
        """What is different in another model, or in that of a source: `weightfs diff --stat --json`. A repository of the Hub and
        a GGUF are compared by the names and values that the GGUF has, unless `names` is "as-stored". `stat=False` computes no
        deviations of tensors that differ. The options of this model apply to both. Raises Error if the comparison fails, and what
        opening the source raises; what could not be compared is in `unreadable`."""
        from ._comparison import compare
        return compare(self, other, names, stat)

    # Opening and closing.

    def close(self) -> None:
        """Ends the server process, if there is one. Arrays stay valid."""
        self._origin.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Any, ...]:
        return opened, (self.source, self.options)

    def __repr__(self) -> str:
        return f"<weightfs.Model {self.source!r}: {len(self)} tensors>"

    def _repr_html_(self) -> str:
        from ._html import html_of_model
        return html_of_model(self)


def resolved(source: Union[str, os.PathLike[str]]) -> str:
    """The source, which is an absolute path if it exists in the present directory."""
    given = os.fspath(source)
    if not isinstance(given, str):
        raise TypeError("a source is a text or a path")
    return os.path.abspath(given) if os.path.exists(given) else given


def inside(path: str) -> str:
    """A path below the root of the tree. Raises NotFound for one that leads out of it."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise NotFound(f"{path}: not a path in a model")
    return "/".join(parts)


def opened(source: str, options: Dict[str, Any]) -> Model:
    return Model(source, **options)
