"""Writes FlatBuffers (https://flatbuffers.dev/internals) without a schema: what an RTen container is made of."""
import struct


class FlatBuffer:
    """Writes a FlatBuffer front to back, a table before what it points to: so every offset points forward.

    A table is a dict from slot to value, a string a str, a vector of tables a list, a vector of scalars (code, tuple or
    little-endian bytes), a scalar (code, number); `code` as in struct. A value that is None is absent.
    """

    def __init__(self, root):
        self.bytes = bytearray(4)
        self.point(0, self.put(root))

    def align(self, size):
        self.bytes += bytes(-len(self.bytes) % size)

    def point(self, at, to):
        struct.pack_into("<I", self.bytes, at, to - at)

    def put(self, value):
        """Writes anything but a scalar; returns where it is."""
        if isinstance(value, dict):
            return self.put_table({slot: field for slot, field in value.items() if field is not None})
        self.align(4)
        at = len(self.bytes)
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogateescape")
            self.bytes += struct.pack("<I", len(data)) + data + b"\0"
        elif isinstance(value, list):
            self.bytes += struct.pack("<I", len(value)) + bytes(4 * len(value))
            for index, element in enumerate(value):
                self.point(at + 4 + 4 * index, self.put(element))
        else:
            code, elements = value
            data = struct.pack(f"<{len(elements)}{code}", *elements) if isinstance(elements, tuple) else elements
            self.bytes += struct.pack("<I", len(data) // struct.calcsize(code)) + data
        return at

    def put_table(self, fields):
        self.align(2)
        vtable = len(self.bytes)
        vtable_size = 2 * (2 + 1 + max(fields, default=-1))
        self.bytes += bytes(vtable_size)
        self.align(4)
        table = len(self.bytes)
        self.bytes += struct.pack("<i", table - vtable)
        targets = []
        for slot, field in fields.items():
            scalar = isinstance(field, tuple) and isinstance(field[1], (int, float))
            code, number = field if scalar else ("I", 0)
            self.align(struct.calcsize(code))
            at = len(self.bytes)
            self.bytes += struct.pack("<" + code, number)
            struct.pack_into("<H", self.bytes, vtable + 2 * (2 + slot), at - table)
            if not scalar:
                targets.append((at, field))
        struct.pack_into("<HH", self.bytes, vtable, vtable_size, len(self.bytes) - table)
        for at, field in targets:
            self.point(at, self.put(field))
        return table
