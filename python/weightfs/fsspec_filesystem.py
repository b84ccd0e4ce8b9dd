"""The files of models for fsspec: `weightfs://SOURCE!/PATH`, as in "weightfs:///models/demo.gguf!/metadata.json".

    >>> import fsspec
    >>> with fsspec.open("weightfs://demo.gguf!/metadata.toml", "rt") as file:
    ...     file.readline()
    'architecture = "llama"\\n'

SOURCE is what `weightfs.open()` takes, up to the first "!/"; options of the file system are those of that function.
"""
from __future__ import annotations

import os
import threading
from typing import Any, Dict, List, Optional, Tuple

from fsspec.spec import AbstractFileSystem

from ._errors import Changed, Error, NotFound
from ._files import TreeFile
from ._model import Model, resolved

SEPARATOR = "!/"


class WeightfsFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Read-only files of models. Each model is opened once, and again after it has changed."""

    protocol = "weightfs"
    root_marker = ""

    def __init__(self, *args: Any, **storage_options: Any) -> None:
        super().__init__(*args, **storage_options)
        own = ("use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache", "asynchronous", "loop")
        self._options = {name: value for name, value in storage_options.items() if name not in own}
        self._models: Dict[str, Model] = {}
        self._models_lock = threading.Lock()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text = str(path)
        return text[len("weightfs://"):].rstrip("/") if text.startswith("weightfs://") else text.rstrip("/")

    @classmethod
    def _parent(cls, path: Any) -> str:
        source, inner = parts_of(cls._strip_protocol(path))
        return f"{source}{SEPARATOR}{inner.rpartition('/')[0]}"

    def _model(self, source: str) -> Model:
        source = resolved(source)
        with self._models_lock:
            model = self._models.get(source)
            if model is not None:
                try:
                    model.check()
                except Changed:
                    self._models.pop(source).close()
                    model = None
            if model is None:
                try:
                    model = self._models[source] = Model(source, **self._options)
                except NotFound as error:
                    raise FileNotFoundError(str(error)) from error
            return model

    def info(self, path: str, **_: Any) -> Dict[str, Any]:
        path = self._strip_protocol(path)
        source, inner = parts_of(path)
        if not inner:
            self._model(source)
            return entry(path, True, None)
        folder, _slash, name = inner.rpartition("/")
        for each in self._list(source, folder):
            if each[0] == name:
                size = each[2] if each[1] or each[2] is not None else self._model(source)._origin.reader.size(inner)
                return entry(path, each[1], size)
        raise FileNotFoundError(path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> List[Any]:
        path = self._strip_protocol(path)
        source, inner = parts_of(path)
        if inner and self.info(path)["type"] == "file":
            entries = [self.info(path)]
        else:
            above = f"{source}{SEPARATOR}{inner + '/' if inner else ''}"
            entries = [entry(above + name, is_directory, size) for name, is_directory, size in self._list(source, inner)]
        return entries if detail else [each["name"] for each in entries]

    def _list(self, source: str, inner: str) -> List[Tuple[str, bool, Optional[int]]]:
        try:
            return self._model(source).list(inner)
        except NotFound as error:
            raise FileNotFoundError(str(error)) from error

    def _open(self, path: str, mode: str = "rb", *_: Any, **__: Any) -> TreeFile:
        if mode != "rb":
            raise OSError(f"{path}: models are read-only")
        source, inner = parts_of(self._strip_protocol(path))
        try:
            return self._model(source)._open_file(inner)
        except NotFound as error:
            raise FileNotFoundError(str(error)) from error
        except Error as error:
            if self.isdir(path):
                raise IsADirectoryError(str(error)) from error
            raise

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_: Any) -> bytes:
        with self._open(path) as file:
            begin, stop, _step = slice(start, end).indices(file.seek(0, os.SEEK_END))
            return file.read_range(begin, stop)


def parts_of(path: str) -> Tuple[str, str]:
    """The source and the path in its model."""
    source, _, inner = path.partition(SEPARATOR)
    source = source[:-1] if source.endswith("!") else source
    return source, inner.strip("/")


def entry(name: str, is_directory: bool, size: Optional[int]) -> Dict[str, Any]:
    return {"name": name, "type": "directory" if is_directory else "file", "size": 0 if is_directory else size}
