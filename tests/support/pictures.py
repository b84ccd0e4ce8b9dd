"""The pixels of PNGs, decoded without a library."""
import struct
import zlib


def chunks_of(png):
    """The header and the decompressed data of a PNG of 8-bit RGB."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data, size = 8, b"", None
    while at < len(png):
        length, = struct.unpack(">I", png[at:at + 4])
        name, body = png[at + 4:at + 8], png[at + 8:at + 8 + length]
        assert zlib.crc32(name + body) == struct.unpack(">I", png[at + 8 + length:at + 12 + length])[0]
        if name == b"IHDR":
            size = struct.unpack(">IIBBBBB", body)
        elif name == b"IDAT":
            data += body
        at += length + 12
    width, height, depth, colour, _, _, interlace = size
    assert (depth, colour, interlace) == (8, 2, 0), size
    return width, height, zlib.decompress(data)


def unfiltered(kind, raw, before):
    """The bytes of a row, by the filter of PNG that it has."""
    if kind == 0:
        return bytes(raw)
    line = bytearray(raw)
    for i in range(len(line)):
        left, up, corner = (line[i - 3] if i >= 3 else 0), before[i], (before[i - 3] if i >= 3 else 0)
        if kind == 1:
            line[i] = (line[i] + left) & 255
        elif kind == 2:
            line[i] = (line[i] + up) & 255
        elif kind == 3:
            line[i] = (line[i] + (left + up) // 2) & 255
        elif kind == 4:
            guess = left + up - corner
            nearest = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
            line[i] = (line[i] + nearest) & 255
    return bytes(line)


def pixels_of(png):
    """The rows of a PNG of 8-bit RGB, each a list of (red, green, blue). Equal rows are one list."""
    width, height, data = chunks_of(png)
    stride, before, rows = 3 * width, bytes(3 * width), []
    lines, pixels = {}, {}
    for row in range(height):
        kind, raw = data[row * (stride + 1)], data[row * (stride + 1) + 1:(row + 1) * (stride + 1)]
        key = (kind, raw, before)
        if key not in lines:
            lines[key] = unfiltered(*key)
        before = lines[key]
        if before not in pixels:
            pixels[before] = [tuple(before[i:i + 3]) for i in range(0, stride, 3)]
        rows.append(pixels[before])
    return rows
