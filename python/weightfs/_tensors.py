"""Tensors by their names: what a model and a selection of its tensors have in common."""
from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, overload

from ._errors import Error, NotFound
from ._tensor import Tensor

if TYPE_CHECKING:
    from typing import Literal

    import numpy

    from ._origin import Origin
    from ._statistics import Statistics

    Array = numpy.ndarray[Any, Any]
    Base = Mapping[str, Array]
else:
    Base = Mapping

WILDCARDS = "*?["


class Tensors(Base):
    """A mapping from names of tensors to arrays, in the order of the container.

    `m["name"]` is `m.tensor("name").numpy()`: numbers, as float32 where NumPy and ml_dtypes have no such type. `m["blk.0.*"]`
    is `m.select("blk.0.*")`, the tensors whose names match; a tensor that has the pattern itself as its name is found first.
    """

    source: str
    _origin: Origin
    _tensors: Dict[str, Tensor]

    def __getitem__(self, name: str) -> Any:
        if name not in self._tensors and isinstance(name, str) and any(each in name for each in WILDCARDS):
            return self.select(name)
        return self.tensor(name).numpy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._tensors)

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def get(self, name: str, default: Any = None) -> Any:
        """The array of this name, or the default if there is no such tensor. Raises what reading it raises, also NotFound for a
        tensor without an array."""
        return self[name] if name in self else default

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def _check_open(self) -> None:
        if self._origin.is_closed:
            raise Error(f"{self.source}: the model is closed")

    def _lack(self) -> str:
        """What the model lacks, as the end of a sentence."""
        raise NotImplementedError

    def tensor(self, name: str) -> Tensor:
        """The tensor of this name, without reading it. Raises NotFound, with what the model lacks if it is incomplete."""
        self._check_open()
        try:
            return self._tensors[name]
        except KeyError:
            raise NotFound(f"{self.source}: no tensor {name!r}{self._lack()}") from None

    def tensors(self) -> List[Tensor]:
        """All tensors, in the order of the container."""
        return list(self._tensors.values())

    def select(self, *patterns: str) -> Selection:
        """The tensors whose names match one of the patterns, as a mapping like the model; all without patterns. `*`, `?` and
        `[...]` are those of a shell, also across dots and slashes. Raises NotFound for a pattern without a match."""
        self._check_open()
        wanted = set() if patterns else set(self._tensors)
        for pattern in patterns:
            found = [name for name in self._tensors if name == pattern or fnmatch.fnmatchcase(name, pattern)]
            if not found:
                raise NotFound(f"{self.source}: no tensor matches {pattern!r}{self._lack()}")
            wanted.update(found)
        return Selection(self, patterns, {name: tensor for name, tensor in self._tensors.items() if name in wanted})

    def stats(self, *, sample: bool = False, exact: bool = False) -> Iterator[Statistics]:
        """The figures of each tensor, which are computed when the iterator comes to it: `next(m.stats())`, `list(m.stats())`,
        `pandas.DataFrame(m.stats())`. Tensors without figures have the reason as `error`. `sample` reads at most 64 rows of a
        tensor, and `exact` reads it twice, as the options of `weightfs stats`. Raises what reading raises."""
        from ._statistics import statistics_or_reason, mode_of
        mode = mode_of(sample, exact)
        self._check_open()
        return (statistics_or_reason(tensor, mode) for tensor in self._tensors.values())

    @overload
    def state_dict(self, framework: Literal["numpy"] = "numpy") -> Dict[str, Array]:
        ...

    @overload
    def state_dict(self, framework: str) -> Dict[str, Any]:
        ...

    def state_dict(self, framework: str = "numpy") -> Dict[str, Any]:
        """All tensors in a dict: arrays as of `m[name]`, or with `framework="torch"` tensors of torch as of `Tensor.torch()`, for
        `load_state_dict()`. Memory of the container where it has the elements as they are. Raises ValueError for another
        framework, ImportError without torch, and what reading raises: Refused for a refused tensor, so that none is missing."""
        if framework not in ("numpy", "torch"):
            raise ValueError(f'framework is "numpy" or "torch", not {framework!r}')
        self._check_open()
        if framework == "torch":
            importlib.import_module("torch")  # before bytes are read
            return {name: tensor.torch() for name, tensor in self._tensors.items()}
        return {name: tensor.numpy() for name, tensor in self._tensors.items()}


class Selection(Tensors):
    """Some tensors of a model, which are its own: `m["blk.0.*"]`. A mapping as the model is."""

    def __init__(self, model: Tensors, patterns: Any, tensors: Dict[str, Tensor]) -> None:
        self.source = model.source
        self.patterns = tuple(patterns)
        self._origin = model._origin
        self._tensors = tensors
        self._model = model

    def _lack(self) -> str:
        return self._model._lack()

    def __repr__(self) -> str:
        return f"<weightfs.Selection {', '.join(map(repr, self.patterns))} of {self.source!r}: {len(self)} tensors>"

    def _repr_html_(self) -> str:
        from ._html import html_of_selection
        return html_of_selection(self)
