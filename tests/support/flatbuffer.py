"""Writes FlatBuffers (https://flatbuffers.dev/internals), which RTen containers consist of, without a schema."""
import struct


class Shared:
    """A table, string or vector that is written once and referenced by every use of this object. A shared value inside of
    a shared value has a higher `level`: levels are written in order, because offsets point forward."""

    def __init__(self, value, level=0):
        self.value, self.level = value, level


class FlatBuffer:
    """Writes a FlatBuffer front to back, a table before its targets, so every offset points forward.

    A table is a dict from slot to value, a string a str, a vector of tables a list, a vector of scalars (code, tuple or
    little-endian bytes), a scalar (code, number); `code` as in struct. A value that is None is absent.
    """

    def __init__(self, root):
        self.bytes = bytearray(4)
        self.waiting = {}  # shared values: level to [Shared], and the positions of their references
        self.places = {}
        self.put_at(0, root)
        while self.waiting:
            for shared in self.waiting.pop(min(self.waiting)):
                to = self.put(shared.value)
                for at in self.places.pop(id(shared)):
                    self.point(at, to)

    def align(self, size):
        self.bytes += bytes(-len(self.bytes) % size)

    def point(self, at, to):
        struct.pack_into("<I", self.bytes, at, to - at)

    def put_at(self, at, value):
        """Writes a value that is not a scalar, now or later, and an offset to it at `at`."""
        if not isinstance(value, Shared):
            return self.point(at, self.put(value))
        if id(value) not in self.places:
            self.waiting.setdefault(value.level, []).append(value)
        self.places.setdefault(id(value), []).append(at)

    def put(self, value):
        """Writes a value that is not a scalar; returns its position."""
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
                self.put_at(at + 4 + 4 * index, element)
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
            self.put_at(at, field)
        return table
