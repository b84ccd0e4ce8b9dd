"""Requests to the API of a model's server (docs/api.md)."""
from __future__ import annotations

import contextlib
import json
import os
import urllib.parse
from typing import TYPE_CHECKING, Any, Dict, Iterator, NamedTuple, Tuple

from ._server import API, Server

if TYPE_CHECKING:
    from ._tensor import Tensor


@contextlib.contextmanager
def server_of(tensor: Tensor) -> Iterator[Tuple[Server, int]]:
    """A server that has the tensor, and its number there: that of the model, or for a mount one of the tensor's .npy file."""
    reader = tensor._origin.reader
    if isinstance(reader, Server):
        yield reader, tensor.index
        return
    file = tensor._file("npy")
    server = Server(os.path.join(reader.root, file), {})
    try:
        yield server, 0
        reader.check()  # the server read the file of the present mount
    finally:
        server.close()


def query_of(**parameters: Any) -> str:
    return "?" + urllib.parse.urlencode(parameters)


def read_object(server: Server, endpoint: str, **parameters: Any) -> Dict[str, Any]:
    """What an endpoint answers, as JSON."""
    return dict(json.loads(server.read(API + endpoint, query_of(**parameters))[0]))


class HeatMap(NamedTuple):
    """A byte for each cell, row by row: 0 for NaN, else 1 to 255 between the limits of the scale; and what `Weightfs-Grid` has."""
    cells: bytes
    grid: Dict[str, Any]


def read_heat_map(server: Server, index: int, **parameters: Any) -> HeatMap:
    cells, response = server.read(API + "heatmap", query_of(t=index, **parameters))
    return HeatMap(cells, dict(json.loads(response.header("Weightfs-Grid") or "{}")))
