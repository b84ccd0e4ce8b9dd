"""Element types: the names that the program uses, as NumPy's, ml_dtypes' and torch's."""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Dict

from ._errors import Refused

if TYPE_CHECKING:
    import numpy

# Types that NumPy lacks, which take whole bytes: their .npy files have elements of void. Without ml_dtypes their bits are shown
# as these integers. 4-bit and 2-bit integers have a byte for each element there.
BITS: Dict[str, str] = {
    "bfloat16": "uint16", "float8_e3m4": "uint8", "float8_e4m3": "uint8", "float8_e4m3b11fnuz": "uint8", "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8", "float8_e5m2": "uint8", "float8_e5m2fnuz": "uint8", "float8_e8m0fnu": "uint8", "int4": "int8",
    "uint4": "uint8", "int2": "int8", "uint2": "uint8"
}


def dtype_of(name: str, descr: Any) -> "numpy.dtype[Any]":
    """The type of the elements of an array whose .npy file has this `descr`: of NumPy, else of ml_dtypes, else an integer."""
    import numpy
    stored: "numpy.dtype[Any]" = numpy.dtype(descr)
    bits = BITS.get(name)
    if bits is None or stored.itemsize != numpy.dtype(bits).itemsize:
        return stored
    try:
        ml_dtypes = importlib.import_module("ml_dtypes")
    except ImportError:
        return numpy.dtype(bits)
    return numpy.dtype(getattr(ml_dtypes, name, bits))


def to_torch(name: str, array: "numpy.ndarray[Any, Any]") -> Any:
    """A tensor of torch with the memory of a writable array, or with a copy if the array is big-endian. Raises Refused if torch
    lacks the type."""
    torch = importlib.import_module("torch")
    bits = BITS.get(name)
    if bits is not None and array.dtype.name in (name, bits):
        if name.endswith(("int4", "int2")):  # torch's own take no whole bytes
            return torch.from_numpy(array.view(bits))
        wanted = getattr(torch, name, None)
        if wanted is None:
            raise Refused(f"torch {torch.__version__} has no type {name}")
        return torch.from_numpy(array.view("int16" if bits == "uint16" else bits)).view(wanted)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        return torch.from_numpy(array)
    except TypeError as error:
        raise Refused(f"torch has no type for {array.dtype}: {error}") from error
