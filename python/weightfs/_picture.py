"""Heat maps as PNG, with the colours of docs/numbers.md."""
from __future__ import annotations

import base64
import struct
import zlib
from typing import List, Tuple

from ._api import HeatMap

SCALE = 4  # pixels of a cell

Colour = Tuple[float, float, float]
# Blue to orange around 0, cividis for magnitudes. The first entry of a palette is for NaN.
SIGNED: Tuple[Colour, ...] = ((0, 68, 136), (102, 153, 204), (245, 245, 245), (238, 153, 85), (153, 68, 0))
MAGNITUDES: Tuple[Colour, ...] = ((0, 34, 78), (66, 78, 108), (124, 123, 120), (187, 173, 108), (254, 232, 56))
NOT_A_NUMBER = (255, 0, 255)


def image_of(heat_map: HeatMap, alternative: str) -> str:
    """An element with the picture, whose alternative text is escaped already; nothing for one without cells."""
    cells, grid = heat_map
    rows, columns = grid.get("rows", 0), grid.get("columns", 0)
    if rows * columns == 0 or rows * columns != len(cells):
        return ""
    lines = [cells[at:at + columns] for at in range(0, len(cells), columns)]
    image = base64.b64encode(png_of(lines, palette_of(SIGNED if grid.get("signed") else MAGNITUDES))).decode("ascii")
    return (f"<img alt='{alternative}' style='image-rendering:pixelated' width={columns * SCALE} height={rows * SCALE} "
            f"src='data:image/png;base64,{image}'>")


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
