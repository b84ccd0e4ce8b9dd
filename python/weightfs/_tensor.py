"""A tensor of a model."""
from __future__ import annotations

import ast
import importlib
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from ._dtypes import dtype_of, to_torch
from ._errors import Error, NotFound, Refused
from ._slicing import Part, count_of, part_of

if TYPE_CHECKING:
    import numpy

    from ._origin import Origin

    Array = numpy.ndarray[Any, Any]

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


def memory_of(array: "Array") -> memoryview:
    """The memory of an array of one dimension, as bytes."""
    import numpy
    memory: memoryview = array.view(numpy.uint8).data
    return memory


class Tensor:
    """A tensor of a model, whose elements are read when they are asked for.

    `name` is its name in the container, `key` that in the model: the same, unless two tensors have one name. `dtype` is a name of
    NumPy, ml_dtypes ("bfloat16") or ggml ("q4_k"), `shape` is outermost first, `nbytes` counts the bytes as stored.
    """

    def __init__(self, origin: "Origin", index: int, key: str, record: Dict[str, Any]) -> None:
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
        """Whether `numpy()` is a view of the container's file, without a copy."""
        return "descr" in self._record and self.nbytes > 0 and self._origin.local_bytes(self._record) is not None

    def numpy(self) -> "Array":
        """The elements as an array of this shape: read-only memory of the container if it is a local file that has them like that,
        else a new array. A quantised tensor is converted to float32.

        Types that NumPy lacks are those of ml_dtypes if it is installed, else unsigned integers with the same bits. Raises Refused
        for a refused tensor and for types that have no numbers, and what reading raises.
        """
        elements = self._elements("r")
        return self._read("npy") if elements is None else elements

    def float32(self) -> "Array":
        """The numbers as float32, rounded to the nearest: an array of this shape. Raises Refused for types without numbers."""
        if self.dtype == "float32" and self._record.get("descr") == "<f4":
            return self.numpy()
        return self._read("float32")

    def raw(self) -> "Array":
        """The bytes as they are stored, such as blocks of a quantised type: an array of `nbytes` uint8."""
        import numpy
        self._check_refused()
        mapped = self._origin.mapped(self._record, "r")
        if mapped is not None:
            return mapped
        array: "Array" = numpy.empty(self.nbytes, numpy.uint8)
        self._origin.reader.read_into(f"tensors/{self._record['path']}", 0, array.data)
        return array

    def torch(self) -> Any:
        """A tensor of torch with the elements of `numpy()`, also of bfloat16 and float8. Memory of the container is copied when it
        is written, so the file never changes. Raises ImportError, and Refused if torch lacks the type."""
        importlib.import_module("torch")  # before bytes are read
        elements = self._elements("c")
        return to_torch(self.dtype, self._read("npy") if elements is None else elements)

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> "Array":
        import numpy
        elements = self.numpy()
        # NumPy 2 raises ValueError for copy=False if the type is another one.
        array: "Array" = numpy.asarray(elements, dtype) if copy is None else numpy.array(elements, dtype, copy=copy)
        return array

    def __getitem__(self, index: Any) -> Any:
        """The elements that the index selects, as NumPy does. Of a tensor that is not mapped, the selected rows are read: those of
        the first integers and of the slice behind them, and all rows between for a step. Other indices read all elements."""
        if self.is_mapped:
            return self.numpy()[index]
        part = part_of(index, self._header("npy").shape)
        array = self._read_part("npy", part)
        return array[part.rest] if part.rest or not part.shape else array

    def _repr_html_(self) -> str:
        from ._html import html_of_tensor
        return html_of_tensor(self)

    def _elements(self, mode: str) -> "Optional[Array]":
        """The elements in the mapped container, or no elements. None if they are to be read."""
        if "descr" not in self._record or self._origin.is_closed:
            return None
        import numpy
        dtype = dtype_of(self.dtype, self._record["descr"])
        if count_of(self.shape) * dtype.itemsize != self.nbytes:
            return None
        mapped = numpy.empty(0, numpy.uint8) if self.nbytes == 0 else self._origin.mapped(self._record, mode)
        return None if mapped is None else mapped.view(dtype).reshape(self.shape)

    def _check_refused(self) -> None:
        """Raises the reason, which the response for its bytes has, if the tensor was refused."""
        if not self.refused:
            return
        try:
            self._origin.reader.read_into(f"tensors/{self._record['path']}", 0, memoryview(bytearray(self.nbytes > 0)))
        except Error as error:
            if type(error) is not Error or self._origin.is_closed:
                raise
            raise Refused(f"{self.key}: the tensor was refused: {error}") from error  # a mount has no reason
        raise Refused(f"{self.key}: the tensor was refused")

    def _file(self, view: str) -> str:
        """The path of the tensor's file in a view. Raises NotFound, or Refused with the reason for a refused tensor."""
        self._check_refused()
        path: Optional[str] = self._origin.views_of(self._record).get(view)
        if path is None:
            what = "no numbers" if view == "float32" else "no array"
            raise NotFound(f"{self.key}: a tensor of type {self.dtype} has {what}; raw() has its bytes")
        return path

    def _header(self, view: str) -> Header:
        known = self._headers.get(view)
        if known is None:
            path = self._file(view)
            reader = self._origin.reader
            text = bytearray(FIRST_READ)
            reader.read_into(path, 0, memoryview(text))
            extend(text, path)
            reader.read_into(path, FIRST_READ, memoryview(text)[FIRST_READ:])
            known = self._headers[view] = parsed_header(bytes(text))
        return known

    def _read(self, view: str) -> "Array":
        """The whole array of a view, by one request."""
        if view in self._headers:
            return self._read_part(view, Part(0, self._headers[view].shape, ()))
        path = self._file(view)
        text = bytearray(FIRST_READ)
        with self._origin.reader.open(path) as file:
            if file.read_into(memoryview(text)) == FIRST_READ:
                extend(text, path)
                if file.read_into(memoryview(text)[FIRST_READ:]) == len(text) - FIRST_READ:
                    self._headers[view] = header = parsed_header(bytes(text))
                    array = self._new(view, header, header.shape)
                    if file.read_into(memory_of(array)) == array.nbytes:
                        return array.reshape(header.shape)
        # The response has ended early: the next one has the reason, or the bytes.
        return self._read_part(view, Part(0, self._header(view).shape, ()))

    def _new(self, view: str, header: Header, shape: Tuple[int, ...]) -> "Array":
        """An array with one dimension for the elements of this shape."""
        import numpy
        array: "Array" = numpy.empty(count_of(shape), dtype_of(self.dtype if view == "npy" else "float32", header.descr))
        return array

    def _read_part(self, view: str, part: Part) -> "Array":
        header = self._header(view)
        array = self._new(view, header, part.shape)
        begin = header.size + part.begin * array.dtype.itemsize
        self._origin.reader.read_into(self._file(view), begin, memory_of(array))
        return array.reshape(part.shape)
