"""A tensor of a model."""
from __future__ import annotations

import ast
import importlib
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from ._dtypes import FLOATS, own_dtype, to_torch, widened
from ._errors import Error, NotFound, Refused
from ._slicing import Part, count_of, part_of

if TYPE_CHECKING:
    import numpy

    from ._origin import Origin
    from ._statistics import Statistics

    Array = numpy.ndarray[Any, Any]
    DType = numpy.dtype[Any]

FIRST_READ = 64  # headers are multiples of it


class Header:
    """The header of a .npy file: the type as in its `descr`, the shape, and where the elements begin."""

    def __init__(self, descr: Any, shape: Tuple[int, ...], size: int) -> None:
        self.descr, self.shape, self.size = descr, shape, size


def prefix_of(text: bytes) -> int:
    """The number of bytes of a .npy file before the text of its header: 10 in version 1.0, 12 in 3.0, which the program writes for
    names of fields that are not ASCII. 0 for others."""
    return {b"\x93NUMPY\x01\x00": 10, b"\x93NUMPY\x03\x00": 12}.get(text[:8], 0)


def parsed_header(text: bytes) -> Header:
    fields = ast.literal_eval(text[prefix_of(text):].decode("utf-8"))
    if fields["fortran_order"]:
        raise Error("a .npy file in Fortran order, which weightfs does not write")
    return Header(fields["descr"], tuple(fields["shape"]), len(text))


def extend(text: bytearray, path: str) -> None:
    """Makes room for the rest of a header of which the first bytes are there. Raises Error if it is not one."""
    prefix = prefix_of(bytes(text[:8]))
    if prefix == 0:
        raise Error(f"{path}: not a .npy file of version 1.0 or 3.0")
    text += bytes(max(0, prefix + int.from_bytes(text[8:prefix], "little") - FIRST_READ))


def memory_of(array: Array) -> memoryview:
    """The memory of an array of one dimension, as bytes."""
    import numpy
    memory: memoryview = array.view(numpy.uint8).data
    return memory


class Tensor:
    """A tensor of a model, whose elements are read when they are asked for.

    `name` is its name in the container, `key` that in the model: the same, unless two tensors have one name. `dtype` is a name of
    NumPy, ml_dtypes ("bfloat16") or ggml ("q4_k"), `shape` is outermost first, `nbytes` counts the bytes as stored.

    Elements are numbers, never bit patterns: see `numpy()`. `raw()` has the bytes as stored.
    """

    def __init__(self, origin: Origin, index: int, key: str, record: Dict[str, Any]) -> None:
        self._origin = origin
        self._record = record
        self._headers: Dict[str, Header] = {}
        self.index = index
        self.key = key
        self.name: str = record["name"]
        self.dtype: str = record["dtype"]
        self.stored_dtype: str = record["stored_dtype"]
        self.shape: Tuple[int, ...] = tuple(record["shape"])
        self.nbytes: int = record["nbytes"]
        self.refused: bool = record.get("refused", False)
        self.sha256: Optional[str] = record.get("sha256")

    def __repr__(self) -> str:
        return f"<weightfs.Tensor {self.key!r}: {self.dtype} {list(self.shape)}>"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    @property
    def is_mapped(self) -> bool:
        """Whether `numpy()` is a view of the container's file, without a copy: not if it is converted to float32."""
        own = own_dtype(self.dtype)
        view = self._view(own)
        return (self._stored_type(view) is not None and (view != "raw" or own is not None) and self.nbytes > 0
                and self._origin.local_bytes(self._record) is not None)

    def numpy(self) -> Array:
        """The numbers as an array of this shape: read-only memory of the container if it is a local file that has them like that,
        else a new array.

        Types that NumPy has are as stored. bfloat16 and float8 have the type of ml_dtypes if it is installed, else they are
        float32, as are float4, float6 and quantised types: the values of `float32()`. Integers below a byte have the type of
        ml_dtypes, else int8 or uint8. `raw()` has the bits. Raises Refused for a refused tensor, NotFound for types that have no
        array, and what reading raises.
        """
        own = own_dtype(self.dtype)
        return self._typed(self._array(self._view(own)), own)

    def float32(self) -> Array:
        """The numbers as float32, rounded to the nearest: an array of this shape. Raises Refused for types without numbers."""
        if self.dtype == "float32" and self._record.get("descr") == "<f4":
            return self.numpy()
        if self.dtype == "bfloat16":
            return self._typed(self._array("raw"), None)
        return self._read("float32")

    def raw(self) -> Array:
        """The bytes as they are stored, such as blocks of a quantised type: an array of `nbytes` uint8."""
        import numpy
        self._check_refused()
        mapped = self._origin.mapped(self._record, "r")
        if mapped is not None:
            return mapped
        array: Array = numpy.empty(self.nbytes, numpy.uint8)
        self._origin.reader.read_into(f"tensors/{self._record['path']}", 0, array.data)
        return array

    def torch(self) -> Any:
        """A tensor of torch with the elements of `numpy()`; bfloat16 and float8 have the types of torch, and the bits as stored.
        Memory of the container is copied when it is written, so the file never changes. Raises ImportError, and Refused if torch
        lacks the type."""
        importlib.import_module("torch")  # before bytes are read
        return to_torch(self.dtype, self._array("raw" if self.dtype in FLOATS else "npy", "c"))

    def stats(self, *, sample: bool = False, exact: bool = False) -> Statistics:
        """The figures of its numbers, as `weightfs stats` has them: of at most 64 rows for `sample`, with exact quantiles of all
        types for `exact`. Raises Refused for a refused tensor and for types without numbers, and what reading raises."""
        from ._statistics import mode_of, statistics_of
        return statistics_of(self, mode_of(sample, exact))

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Array:
        import numpy
        elements = self.numpy()
        # NumPy 2 raises ValueError for copy=False if the type is another one.
        array: Array = numpy.asarray(elements, dtype) if copy is None else numpy.array(elements, dtype, copy=copy)
        return array

    def __getitem__(self, index: Any) -> Any:
        """The elements that the index selects, as NumPy does. If the tensor is not mapped, the selected rows are read: those of
        the first integers and of the slice behind them, and all rows between for a step. Other indices read all elements."""
        own = own_dtype(self.dtype)
        view = self._view(own)
        mapped = self._mapped(view, "r")
        if mapped is not None:
            return widened(mapped[index]) if view == "raw" and own is None else self._typed(mapped, own)[index]
        part = part_of(index, self._header(view).shape)
        array = self._typed(self._read_part(view, part), own)
        return array[part.rest] if part.rest or not part.shape else array

    def _repr_html_(self) -> str:
        from ._html import html_of_tensor
        return html_of_tensor(self)

    def _view(self, own: Optional[DType]) -> str:
        """Where the elements come from: the bits in tensors/ ("raw") or the numbers in "npy" or "float32"."""
        if self.dtype not in FLOATS:
            return "npy"
        if own is not None or self.dtype == "bfloat16":
            return "raw"
        return "float32" if "float32" in self._origin.views_of(self._record) else "npy"

    def _stored_type(self, view: str) -> Optional[DType]:
        """The type of NumPy that the elements of a view have in the bytes as stored. None if these are others."""
        descr = FLOATS[self.dtype] if view == "raw" else self._record.get("descr") if view == "npy" else None
        if descr is None or self.refused:
            return None
        import numpy
        dtype: DType = numpy.dtype(descr)
        return dtype if count_of(self.shape) * dtype.itemsize == self.nbytes else None

    def _mapped(self, view: str, mode: str) -> Optional[Array]:
        """The elements of a view in the mapped container, or no elements. None if they are to be read."""
        dtype = None if self._origin.is_closed else self._stored_type(view)
        if dtype is None:
            return None
        import numpy
        mapped = numpy.empty(0, numpy.uint8) if self.nbytes == 0 else self._origin.mapped(self._record, mode)
        return None if mapped is None else mapped.view(dtype).reshape(self.shape)

    def _array(self, view: str, mode: str = "r") -> Array:
        mapped = self._mapped(view, mode)
        return self._read(view) if mapped is None else mapped

    def _typed(self, array: Array, own: Optional[DType]) -> Array:
        """The numbers of an array of a view: bits have the type of ml_dtypes, those of bfloat16 without it become float32."""
        import numpy
        if own is not None:
            return array.view(own)
        return numpy.asarray(widened(array)) if self.dtype == "bfloat16" else array

    def _check_refused(self) -> None:
        """Raises the reason, which the program has, if the tensor was refused."""
        if self.refused:
            raise Refused(self._origin.reason_of_refused(self._record, self.key))

    def _file(self, view: str) -> str:
        """The path of the tensor's file in a view. Raises NotFound, or Refused with the reason for a refused tensor."""
        self._check_refused()
        if view == "raw":
            return f"tensors/{self._record['path']}"
        path: Optional[str] = self._origin.views_of(self._record).get(view)
        if path is None:
            what = "no numbers" if view == "float32" else "no array"
            raise NotFound(f"{self.key}: a tensor of type {self.dtype} has {what}; raw() has its bytes")
        return path

    def _header(self, view: str) -> Header:
        known = self._headers.get(view)
        if known is None and view == "raw":
            if self._stored_type(view) is None:
                self._check_refused()
                raise Error(f"{self.key}: {self.nbytes} bytes are not the elements of {self.dtype} {list(self.shape)}")
            descr = FLOATS[self.dtype]
            if descr.startswith("<") and self._origin.is_big_endian:
                descr = ">" + descr[1:]
            known = self._headers[view] = Header(descr, self.shape, 0)
        if known is None:
            path = self._file(view)
            reader = self._origin.reader
            text = bytearray(FIRST_READ)
            reader.read_into(path, 0, memoryview(text))
            extend(text, path)
            reader.read_into(path, FIRST_READ, memoryview(text)[FIRST_READ:])
            known = self._headers[view] = parsed_header(bytes(text))
        return known

    def _read(self, view: str) -> Array:
        """The whole array of a view, by one request."""
        if view in self._headers or view == "raw":
            return self._read_part(view, Part(0, self._header(view).shape, ()))
        path = self._file(view)
        text = bytearray(FIRST_READ)
        with self._origin.reader.open(path) as file:
            if file.read_into(memoryview(text)) == FIRST_READ:
                extend(text, path)
                if file.read_into(memoryview(text)[FIRST_READ:]) == len(text) - FIRST_READ:
                    self._headers[view] = header = parsed_header(bytes(text))
                    array = self._new(header, header.shape)
                    if file.read_into(memory_of(array)) == array.nbytes:
                        return array.reshape(header.shape)
        # The response has ended early: the next one has the reason, or the bytes.
        return self._read_part(view, Part(0, self._header(view).shape, ()))

    def _new(self, header: Header, shape: Tuple[int, ...]) -> Array:
        """An array with one dimension for the elements of this shape."""
        import numpy
        array: Array = numpy.empty(count_of(shape), header.descr)
        return array

    def _read_part(self, view: str, part: Part) -> Array:
        header = self._header(view)
        array = self._new(header, part.shape)
        begin = header.size + part.begin * array.dtype.itemsize
        self._origin.reader.read_into(self._file(view), begin, memory_of(array))
        if view == "raw":
            array = array.astype(FLOATS[self.dtype], copy=False)  # in the byte order of this machine
        return array.reshape(part.shape)
