"""Which elements of an array an index needs."""
from __future__ import annotations

from typing import Any, NamedTuple, Tuple


class Part(NamedTuple):
    """Consecutive elements of an array in C order, from element `begin` on, as an array of this shape; `rest` is the index that
    is applied to it."""
    begin: int
    shape: Tuple[int, ...]
    rest: Tuple[Any, ...]


def count_of(shape: Tuple[int, ...]) -> int:
    """The number of elements."""
    count = 1
    for size in shape:
        count *= size
    return count


def is_integer(value: Any) -> bool:
    kind = getattr(getattr(value, "dtype", None), "kind", "i")
    return hasattr(value, "__index__") and not isinstance(value, bool) and kind in "iu" and getattr(value, "ndim", 0) == 0


def is_basic(item: Any) -> bool:
    """Whether NumPy's basic indexing has it; a list or a mask makes integers beside it lists."""
    return item is None or item is Ellipsis or isinstance(item, slice) or is_integer(item)


def part_of(index: Any, shape: Tuple[int, ...]) -> Part:
    """The rows that an index selects: its first integers, then a slice. With any other index, such as a list or a mask, all
    elements are needed. Raises IndexError.

    >>> part_of(slice(10, 20), (100, 8))
    Part(begin=80, shape=(10, 8), rest=(slice(None, None, 1),))
    >>> part_of((3, slice(None, None, 2)), (10, 6))
    Part(begin=18, shape=(5,), rest=(slice(None, None, 2),))
    >>> part_of(-1, (4, 5))
    Part(begin=15, shape=(5,), rest=())
    """
    items = index if isinstance(index, tuple) else (index,)
    if not all(is_basic(item) for item in items):
        return Part(0, shape, items)
    begin = 0
    while items and shape and is_integer(items[0]):
        at, size = items[0].__index__(), shape[0]
        if not -size <= at < size:
            raise IndexError(f"index {at} is out of bounds for an axis of size {size}")
        shape = shape[1:]
        begin += (at + size if at < 0 else at) * count_of(shape)
        items = items[1:]
    if items and shape and isinstance(items[0], slice):
        rows = range(*items[0].indices(shape[0]))
        first, last = (min(rows[0], rows[-1]), max(rows[0], rows[-1])) if len(rows) > 0 else (0, -1)
        begin += first * count_of(shape[1:])
        return Part(begin, (last + 1 - first, *shape[1:]), (slice(None, None, rows.step), *items[1:]))
    return Part(begin, shape, items)
