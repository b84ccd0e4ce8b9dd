"""Figures of the numbers of a tensor: those of `weightfs stats --json` (docs/numbers.md)."""
from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from ._api import read_object, server_of
from ._errors import NotFound, Refused
from ._slicing import count_of

if TYPE_CHECKING:
    from ._server import Server
    from ._tensor import Tensor


@dataclasses.dataclass(frozen=True, repr=False)
class Statistics:
    """Figures of the numbers of a tensor, with the names that `weightfs stats --json` has. docs/numbers.md says how exact they
    are. Those from `min` on are of the finite numbers, and None if there are none.
    """

    name: str  # the key of the tensor in its model
    dtype: str
    shape: Tuple[int, ...]
    elements: int  # of the tensor
    error: Optional[str] = None  # why there are no figures: the tensor was refused, or its type has no numbers
    sample: bool = False  # whether `count` elements were read instead of all
    count: int = 0  # elements that were read
    zeros: int = 0
    nan: int = 0
    inf: int = 0  # of both signs
    rows: Optional[int] = None  # None of a sample, and of a tensor without rows
    dead_rows: Optional[int] = None  # those of zeros only
    min: Optional[float] = None
    max: Optional[float] = None
    mean: Optional[float] = None
    std: Optional[float] = None
    skewness: Optional[float] = None
    kurtosis: Optional[float] = None
    l1: Optional[float] = None
    l2: Optional[float] = None
    rms: Optional[float] = None
    percentiles: Dict[float, float] = dataclasses.field(default_factory=dict)  # by 0.1, 1, 5, 10, 25, 50 and so on
    exact: Optional[bool] = None  # of percentiles, `near_zero` and the histogram
    near_zero: Optional[int] = None
    distinct: Optional[int] = None  # None for types of more than 16 bits
    histogram: List[int] = dataclasses.field(default_factory=list)  # of 64 intervals between `min` and `max`
    log2_histogram: List[Dict[str, int]] = dataclasses.field(default_factory=list)  # by "exponent": "negative", "positive"
    scales: Optional[Dict[str, Any]] = None  # figures of the scales of a quantised type
    minimums: Optional[Dict[str, Any]] = None

    def __repr__(self) -> str:
        if self.error is not None:
            return f"<weightfs.Statistics {self.name!r}: {self.error}>"
        figures = ("min", "max", "mean", "std")
        shown = [f"{name} {getattr(self, name):.6g}" for name in figures if getattr(self, name) is not None]
        shown += [f"{name} {getattr(self, name)}" for name in ("nan", "inf", "dead_rows") if getattr(self, name)]
        if self.sample:
            shown.append(f"of a sample: {self.count:,} of {self.elements:,} elements")
        return f"<weightfs.Statistics {self.name!r}: {', '.join(shown) or 'no finite numbers'}>"


def mode_of(sample: bool, exact: bool) -> str:
    """The parameter `mode` of the API. Raises ValueError for both."""
    if sample and exact:
        raise ValueError("a sample has no exact figures: sample=True or exact=True")
    return "sample" if sample else "exact" if exact else "full"


def read_statistics(server: Server, index: int, tensor: Tensor, mode: str) -> Statistics:
    """Computes them: `mode` is "sample", "full", or "exact" for a second pass. Raises what reading the tensor raises."""
    found = read_object(server, "statistics", t=index, mode=mode, scales=1)
    # A mount has a file of the tensor's numbers, which has another name, and perhaps another type.
    found.update(name=tensor.key, dtype=tensor.dtype, shape=tensor.shape, elements=count_of(tensor.shape))
    if "percentiles" in found:
        found["percentiles"] = {float(share): number for share, number in found["percentiles"].items()}
    return Statistics(**{field.name: found[field.name] for field in dataclasses.fields(Statistics) if field.name in found})


def statistics_of(tensor: Tensor, mode: str) -> Statistics:
    tensor._check_refused()
    with server_of(tensor) as (server, index):
        return read_statistics(server, index, tensor, mode)


def statistics_or_reason(tensor: Tensor, mode: str) -> Statistics:
    """The statistics, or those of a tensor that has none: it was refused, or its type has no numbers."""
    try:
        return statistics_of(tensor, mode)
    except (Refused, NotFound) as error:
        return Statistics(tensor.key, tensor.dtype, tensor.shape, count_of(tensor.shape), str(error))
