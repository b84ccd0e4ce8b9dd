"""The files of models for fsspec: `weightfs://SOURCE!/PATH`, as in "weightfs:///models/demo.gguf!/metadata.json".

    >>> import fsspec
    >>> with fsspec.open("weightfs://demo.gguf!/metadata.toml", "rt") as file:
    ...     file.readline()
    'architecture = "llama"\\n'

SOURCE is what `weightfs.open()` takes, up to the first "!/"; options of the file system are those of that function.
"""
from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from typing import Any, Dict, List, Optional, Tuple

from fsspec.spec import AbstractFileSystem

from ._errors import Changed, Error, NotFound
from ._files import TreeFile
from ._model import Model, resolved

SEPARATOR = "!/"
MAX_MODELS = 32  # that stay open


class Slot:
    """A model of the cache. Its lock is held while it is opened, which may take long."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.model: Optional[Model] = None

    def opened(self, source: str, options: Dict[str, Any]) -> Model:
        """The model, opened again if it has changed. The former one ends with its last open file."""
        with self.lock:
            if self.model is not None:
                try:
                    self.model.check()
                except Changed:
                    self.model = None
            if self.model is None or self.model._origin.is_closed:
                self.model = Model(source, **options)
            return self.model


class Cache:
    """The models that were used last, by source and options: fsspec makes a file system for each thread, and keeps them all."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._slots: OrderedDict[str, Slot] = OrderedDict()

    def model(self, source: str, options: Dict[str, Any]) -> Model:
        key = repr((source, sorted(options.items())))
        with self._lock:
            slot = self._slots.setdefault(key, Slot())
            self._slots.move_to_end(key)
            if len(self._slots) > MAX_MODELS:
                self._slots.popitem(last=False)  # a model ends with its last open file
        try:
            return slot.opened(source, options)
        except BaseException:
            if slot.model is None:
                with self._lock:
                    if self._slots.get(key) is slot:
                        del self._slots[key]
            raise

    def after_fork(self) -> None:
        """Another thread may have held a lock."""
        self._lock = threading.RLock()
        for slot in self._slots.values():
            slot.lock = threading.RLock()

    def clear(self) -> None:
        with self._lock:
            self._slots.clear()


_cache = Cache()
os.register_at_fork(after_in_child=_cache.after_fork)


class WeightfsFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Read-only files of models. A model is opened once in a process, and again after it has changed."""

    protocol = "weightfs"
    root_marker = ""

    def __init__(self, *args: Any, **storage_options: Any) -> None:
        super().__init__(*args, **storage_options)
        own = ("use_listings_cache", "listings_expiry_time", "max_paths", "skip_instance_cache", "asynchronous", "loop")
        self._options = {name: value for name, value in storage_options.items() if name not in own}

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

    @classmethod
    def clear_instance_cache(cls) -> None:
        """Forgets the file systems, and the models too."""
        super().clear_instance_cache()
        _cache.clear()

    def _model(self, source: str) -> Model:
        try:
            return _cache.model(resolved(source), self._options)
        except NotFound as error:
            raise FileNotFoundError(str(error)) from error

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

    def ukey(self, path: str) -> str:
        """Another text after the model has changed: copies of other file systems are then made again."""
        path = self._strip_protocol(path)
        reader = self._model(parts_of(path)[0])._origin.reader
        return hashlib.sha256(f"{reader.version} {self.info(path)}".encode("utf-8", "surrogatepass")).hexdigest()

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
    source, separator, inner = path.partition(SEPARATOR)
    if not separator and source.endswith("!"):
        source = source[:-1]  # the root, whose slash was stripped
    return source, inner.strip("/")


def entry(name: str, is_directory: bool, size: Optional[int]) -> Dict[str, Any]:
    return {"name": name, "type": "directory" if is_directory else "file", "size": 0 if is_directory else size}
