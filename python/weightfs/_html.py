"""How notebooks show a model and a tensor: HTML without scripts. All texts of the model are escaped."""
from __future__ import annotations

import base64
import contextlib
import html
import json
import os
import struct
import urllib.parse
import zlib
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Tuple

from ._errors import Error
from ._server import API, Server
from ._slicing import count_of

if TYPE_CHECKING:
    from ._model import Model
    from ._tensor import Tensor

MAX_ROWS = 1000  # of the table of tensors
MAX_VALUE = 200  # characters of a value
CELLS = 64  # of a heat map, on each axis
SCALE = 4  # pixels of a cell

Colour = Tuple[float, float, float]
# The scales of docs/numbers.md: blue to orange around 0, cividis for magnitudes. The first entry of a palette is for NaN.
SIGNED: Tuple[Colour, ...] = ((0, 68, 136), (102, 153, 204), (245, 245, 245), (238, 153, 85), (153, 68, 0))
MAGNITUDES: Tuple[Colour, ...] = ((0, 34, 78), (66, 78, 108), (124, 123, 120), (187, 173, 108), (254, 232, 56))
NOT_A_NUMBER = (255, 0, 255)


def text_of(value: Any) -> str:
    """A value as escaped text of one line, a number with six digits."""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(each if each.isprintable() else "\ufffd" for each in text)
    return html.escape(text if len(text) <= MAX_VALUE else text[:MAX_VALUE] + "…")


def table_of(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    cells = "".join(f"<th style='text-align:left'>{text_of(each)}</th>" for each in head)
    lines = "".join("<tr>" + "".join(f"<td style='text-align:left'>{text_of(each)}</td>" for each in row) + "</tr>" for row in rows)
    return f"<table>{'<tr>' + cells + '</tr>' if cells else ''}{lines}</table>"


def html_of_model(model: Model) -> str:
    """The summary, and the tensors in a table that is folded."""
    facts = [(name, value) for name, value in model.summary.items() if not isinstance(value, (dict, list))]
    tensors = model.tensors()
    rows = ((each.key, each.dtype, "×".join(map(str, each.shape)), f"{each.nbytes:,}") for each in tensors[:MAX_ROWS])
    more = f"<p>and {len(tensors) - MAX_ROWS:,} more</p>" if len(tensors) > MAX_ROWS else ""
    table = table_of(("tensor", "dtype", "shape", "bytes"), rows)
    return (f"<div><strong>{text_of(model.source)}</strong>{table_of((), facts)}"
            f"<details><summary>{len(tensors):,} tensors</summary>{table}{more}</details></div>")


def html_of_tensor(tensor: Tensor) -> str:
    """The statistics of a tensor and a heat map, both of a sample of its rows if it is large, which the text beside them says."""
    shape = "×".join(map(str, tensor.shape))
    title = f"<strong>{text_of(tensor.key)}</strong> {text_of(tensor.dtype)} {shape}, {tensor.nbytes:,} bytes"
    try:
        with server_of(tensor) as (server, index):
            statistics = json.loads(server.read(API + "statistics", query_of(index))[0])
            picture = picture_of(server, index, tensor)
    except Error as error:
        return f"<div>{title}<p>{text_of(str(error))}</p></div>"
    names = ("min", "max", "mean", "std", "rms", "zeros", "nan", "inf")
    table = table_of((), [(name, statistics[name]) for name in names if statistics.get(name) is not None])
    note = sample_note("Figures", statistics["count"], tensor) if statistics["sample"] else ""
    return f"<div>{title}{note}{table}{picture}</div>"


def sample_note(what: str, read: int, tensor: Tensor) -> str:
    return f"<p>{what} of a sample: {read:,} of {count_of(tensor.shape):,} elements</p>"


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


def query_of(index: int, **more: Any) -> str:
    return "?" + urllib.parse.urlencode({"t": index, "mode": "sample", **more})


def picture_of(server: Server, index: int, tensor: Tensor) -> str:
    """A heat map, or nothing for a tensor without a matrix."""
    try:
        cells, response = server.read(API + "heatmap", query_of(index, rows=CELLS, columns=CELLS))
    except Error:
        return ""
    grid: Dict[str, Any] = json.loads(response.header("Weightfs-Grid") or "{}")
    rows, columns = grid.get("rows", 0), grid.get("columns", 0)
    if rows * columns == 0 or rows * columns != len(cells):
        return ""
    lines = [cells[at:at + columns] for at in range(0, len(cells), columns)]
    image = base64.b64encode(png_of(lines, palette_of(SIGNED if grid.get("signed") else MAGNITUDES))).decode("ascii")
    limits = "no finite numbers" if grid["min"] is None else f"{grid['low']:.3g} to {grid['high']:.3g}"
    note = sample_note("Heat map", grid["read"], tensor) if grid.get("sample") else ""
    return (f"<img alt='heat map' style='image-rendering:pixelated' width={columns * SCALE} height={rows * SCALE} "
            f"src='data:image/png;base64,{image}'><div>{limits}</div>{note}")


def palette_of(points: Tuple[Colour, ...]) -> bytes:
    """256 colours: the first for NaN, the others between the points."""
    colours: List[Tuple[int, ...]] = [NOT_A_NUMBER]
    for step in range(255):
        at = step / 254 * (len(points) - 1)
        low = min(int(at), len(points) - 2)
        colours.append(tuple(round(a + (b - a) * (at - low)) for a, b in zip(points[low], points[low + 1])))
    return b"".join(bytes(colour) for colour in colours)


def png_of(lines: List[bytes], palette: bytes) -> bytes:
    """A PNG of one byte for each pixel, whose colours are in the palette."""
    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    size = struct.pack(">IIBBBBB", len(lines[0]), len(lines), 8, 3, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + line for line in lines))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"PLTE", palette) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
