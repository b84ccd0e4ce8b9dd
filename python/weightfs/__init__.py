"""Models of 40 formats as NumPy arrays, by the program weightfs.

    >>> import weightfs
    >>> m = weightfs.open("demo.gguf")
    >>> list(m)[:2]
    ['token_embd.weight', 'blk.0.attn_norm.weight']
    >>> m["token_embd.weight"].shape
    (2048, 32)
    >>> m.tensor("blk.0.attn_q.weight")
    <weightfs.Tensor 'blk.0.attn_q.weight': q8_0 [32, 32]>
    >>> m.tensor("blk.0.attn_q.weight")[10:20].shape
    (10, 32)
    >>> len(m["blk.0.*"])
    5
    >>> print(f"{m.tensor('blk.0.attn_q.weight').stats().std:.4f}")
    0.0583
    >>> m.summary["architecture"]
    'llama'
    >>> m.open_file("metadata.toml").readline()
    b'architecture = "llama"\\n'
    >>> m.close()

Arrays are numbers: bfloat16, float8, float4 and quantised types become float32, unless the package ml_dtypes is installed and has
the type. `tensor(NAME).raw()` has the stored bits.

A tensor of a local file that has its elements as they are is memory of that file; nothing is copied. Everything else comes from a
server process of the program, which the first such read starts and which ends with this process. docs/python.md describes the rest.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Union

from ._errors import Changed, Error, IncompleteWarning, Mismatch, NotFound, Refused, Unavailable

if TYPE_CHECKING:
    from ._comparison import Difference
    from ._model import Model
    from ._statistics import Statistics
    from ._tensor import Tensor
    from ._tensors import Selection

__version__ = "0.2.0"
__all__ = ["Changed", "Difference", "Error", "IncompleteWarning", "Mismatch", "Model", "NotFound", "Refused", "Selection",
           "Statistics", "Tensor", "Unavailable", "open"]
# Those that are imported when they are used: NumPy, HTTP and subprocesses make an import slow.
_MODULES = {"Difference": "_comparison", "Model": "_model", "Selection": "_tensors", "Statistics": "_statistics",
            "Tensor": "_tensor"}


def open(source: Union[str, os.PathLike[str]], **options: Any) -> Model:
    """Opens a model: a file, a directory, a mount of weightfs, a URL, or a name such as "hf://org/repo" or "ollama:llama3.2".

    `options` are those of the program: `offline=True` is --offline, `cache_size="20G"` is --cache-size=20G, a list repeats an
    option; `file="lora.safetensors"` opens another file of a directory. Raises NotFound, Refused, Mismatch or Unavailable with the
    sentence of the program, and TypeError for an option that the program does not have. A model that is incomplete is opened with
    an IncompleteWarning, which says what it lacks.

    `m[name]` has numbers: types of NumPy as stored; bfloat16, float8, float4 and quantised types as float32, or as the types of
    ml_dtypes where it is installed and has them.

    >>> import weightfs
    >>> weightfs.open("missing.gguf")
    Traceback (most recent call last):
    weightfs.NotFound: ...missing.gguf: No such file or directory
    >>> with weightfs.open("demo.safetensors") as m:
    ...     m.tensor("model.norm.weight").shape
    (32,)
    """
    from ._model import Model
    return Model(source, **options)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'weightfs' has no attribute {name!r}")
    import importlib
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
