"""Element types: the names that the program uses, as NumPy's, ml_dtypes' and torch's."""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Dict, Optional

from ._errors import Refused

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

# Floats that NumPy lacks and ml_dtypes may have, which take whole bytes: integers with the same bits. Their numbers are float32.
FLOATS: Dict[str, str] = {
    "bfloat16": "<u2", "float8_e3m4": "|u1", "float8_e4m3": "|u1", "float8_e4m3b11fnuz": "|u1", "float8_e4m3fn": "|u1",
    "float8_e4m3fnuz": "|u1", "float8_e5m2": "|u1", "float8_e5m2fnuz": "|u1", "float8_e8m0fnu": "|u1"
}
# Integers below a byte: those of NumPy that have their numbers. ml_dtypes has a byte for each, too.
INTEGERS: Dict[str, str] = {"int4": "|i1", "uint4": "|u1", "int2": "|i1", "uint2": "|u1"}


def own_dtype(name: str) -> Optional[numpy.dtype[Any]]:
    """The type of ml_dtypes with this name. None if it has none, takes other bytes, or is not installed."""
    plain = FLOATS.get(name) or INTEGERS.get(name)
    if plain is None:
        return None
    try:
        found = getattr(importlib.import_module("ml_dtypes"), name, None)
    except ImportError:
        return None
    import numpy
    own = None if found is None else numpy.dtype(found)
    return own if own is not None and own.itemsize == numpy.dtype(plain).itemsize else None


def widened(bits: Any) -> Any:
    """The numbers of bfloat16 as float32, which are the same bits before 16 zeros: of an array or of a single element."""
    import numpy
    wide = numpy.left_shift(bits, numpy.uint32(16), dtype=numpy.uint32)
    return wide.view(numpy.float32)


def to_torch(name: str, array: Array) -> Any:
    """A tensor of torch with the memory of a writable array, or with a copy if the array is big-endian; of one of FLOATS the array
    has the bits. Raises Refused if torch lacks the type."""
    torch = importlib.import_module("torch")
    if name in FLOATS:
        wanted = getattr(torch, name, None)
        if wanted is None:
            raise Refused(f"torch {torch.__version__} has no type {name}")
        return torch.from_numpy(array.view("int16" if array.itemsize == 2 else "uint8")).view(wanted)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        return torch.from_numpy(array)
    except TypeError as error:
        raise Refused(f"torch has no type for {array.dtype}: {error}") from error
