"""The differences of two models: those of `weightfs diff --stat --json`."""
from __future__ import annotations

import dataclasses
import json
import math
import os
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple, Union

from ._errors import Error
from ._program import run_program, words_of

if TYPE_CHECKING:
    from ._model import Model

READING = frozenset(("all", "file", "follow_links", "format"))  # options that choose what of a source is opened
EQUAL, DIFFERENT, NOT_COMPARED = 0, 1, 2  # exit statuses; the last one if not everything could be compared
STATUSES = (EQUAL, DIFFERENT, NOT_COMPARED)


@dataclasses.dataclass(frozen=True)
class Deviation:
    """How far the numbers of two tensors are apart (docs/numbers.md): `b` from `a`. None where a formula has no value."""

    count: int
    differing: int
    nan: int  # pairs with a NaN, which the others leave out
    snr_db: Optional[float]  # infinite if all pairs are equal
    relative_error: Optional[float]
    rmse: Optional[float]
    cosine: Optional[float]
    max: Optional[float]
    mean: Optional[float]
    max_at: Optional[Tuple[int, ...]] = None  # the first place of `max`
    share_within_ulps: Optional[Dict[int, float]] = None
    differences: List[Dict[str, int]] = dataclasses.field(default_factory=list)  # "count" of differing pairs by "exponent"


@dataclasses.dataclass(frozen=True)
class TensorType:
    """The type of a tensor in one of the models."""

    dtype: str
    stored_dtype: str
    shape: Tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class LoneTensor:
    """A tensor that only one model has. `new_name` is its name in the second one, if its bytes have another name there."""

    name: str
    type: TensorType
    new_name: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class ChangedTensor:
    """A tensor that both models have, with another type or other bytes."""

    name: str
    change: str  # "type": another dtype or shape; "bytes"
    a: TensorType
    b: TensorType
    deviation: Optional[Deviation] = None
    no_deviation: Optional[str] = None  # why there is none


@dataclasses.dataclass(frozen=True)
class LayerDeviation:
    """The deviation of the tensors of a layer that differ."""

    name: str
    tensors: int
    deviation: Deviation


@dataclasses.dataclass(frozen=True, repr=False)
class Difference:
    """What differs between two models. Tensors are in the order of the first one, layers in that of the worst SNR."""

    a: str  # the sources
    b: str
    equal: bool
    complete: bool  # whether everything could be compared; `unreadable` and `notes` say what was not
    missing: List[LoneTensor]  # only in `a`
    added: List[LoneTensor]  # only in `b`
    renamed: List[LoneTensor]
    changed: List[ChangedTensor]
    layers: List[LayerDeviation]
    deviation: Optional[Deviation]  # of all tensors in `changed`
    metadata: List[Dict[str, Any]]  # "field", and its values "a" and "b"
    files: List[Dict[str, Any]]  # "name", and what is known of "a" and "b"
    unreadable: List[Dict[str, str]]  # "source", "name", "error"
    equal_tensors: int
    equal_files: int
    mapped_names: Optional[Dict[str, Any]]  # "source", the repository that was compared as a GGUF, and "unmapped" tensors
    notes: Tuple[str, ...]  # what the program reported beside it

    def __repr__(self) -> str:
        counts = [f"{len(getattr(self, name))} {name}" for name in ("changed", "missing", "added", "renamed")]
        counts += [f"{self.equal_tensors} equal"] + (["not compared completely"] if not self.complete else [])
        return f"<weightfs.Difference of {self.a!r} and {self.b!r}: {', '.join(counts)}>"

    def _repr_html_(self) -> str:
        from ._html import html_of_difference
        return html_of_difference(self)


def compare(a: Model, other: Union[Model, str, os.PathLike[str]], names: str, stat: bool) -> Difference:
    from ._model import Model, resolved
    if names not in ("mapped", "as-stored"):
        raise ValueError(f'names is "mapped" or "as-stored", not {names!r}')
    b = other if isinstance(other, Model) else None
    source = resolved(other) if not isinstance(other, Model) else other.source
    options = joined_options(a.options, b.options) if b is not None else a.options
    for model in (a, b):
        if model is not None:
            model._check_open()
            model.check()
    words = ["diff", "--json", *(["--stat"] if stat else []), f"--names={names}", *words_of(options), "--", a.source, source]
    text, status, message = run_program(words)
    for model in (a, b):
        if model is not None:
            model.check()  # the program has read the files that were opened
    if not text or status not in STATUSES:
        if b is None:
            Model(source, **options).close()  # raises the reason, if it is the second model
        raise Error(message or f"{a.source}: weightfs ended with status {status}")
    return difference_of(json.loads(text), a.source, source, status != NOT_COMPARED, message)


def joined_options(a: Mapping[str, Any], b: Mapping[str, Any]) -> Dict[str, Any]:
    """The options for both models. Raises ValueError if they were opened in other ways: one command compares them."""
    for name in sorted({*a, *b}):
        if a.get(name) != b.get(name) and (name in READING or (name in a and name in b)):
            raise ValueError(f"the models were opened with different values of {name}; open both with the same options")
    return {**a, **b}


def difference_of(found: Dict[str, Any], a: str, b: str, complete: bool, notes: str) -> Difference:
    lists = {name: [lone(each) for each in found[name]] for name in ("missing", "added", "renamed")}
    layers = [LayerDeviation(each["name"], each["tensors"], deviation_of(each["stat"])) for each in found.get("layers", [])]
    return Difference(a=a, b=b, equal=found["equal"], complete=complete, changed=[changed(each) for each in found["changed"]],
                      layers=layers, deviation=deviation_of(found["stat"]) if "stat" in found else None,
                      metadata=found["metadata"], files=found["files"], unreadable=found["unreadable"],
                      equal_tensors=found["equal_tensors"], equal_files=found["equal_files"],
                      mapped_names=found.get("mapped_names"), notes=tuple(notes.splitlines()), **lists)


def type_of(found: Mapping[str, Any]) -> TensorType:
    return TensorType(found["dtype"], found["stored_dtype"], tuple(found["shape"]))


def lone(found: Mapping[str, Any]) -> LoneTensor:
    return LoneTensor(found["name"], type_of(found), found.get("new_name"))


def changed(found: Mapping[str, Any]) -> ChangedTensor:
    stat = deviation_of(found["stat"]) if "stat" in found else None
    return ChangedTensor(found["name"], found["change"], type_of(found["a"]), type_of(found["b"]), stat, found.get("no_stat"))


def deviation_of(found: Mapping[str, Any]) -> Deviation:
    values = {field.name: found[field.name] for field in dataclasses.fields(Deviation) if field.name in found}
    if "max_at" in values:
        values["max_at"] = tuple(values["max_at"])
    if "share_within_ulps" in values:
        values["share_within_ulps"] = {int(ulps): share for ulps, share in values["share_within_ulps"].items()}
    if values["relative_error"] == 0:
        values["snr_db"] = math.inf  # JSON has no such number
    return Deviation(**values)
