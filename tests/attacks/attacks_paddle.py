"""Paddle: records without data, descriptions that lie, and programs with many names."""
import os

from attack import REFUSED, SHOWN, Attack, honest, one_file, pack, put, sparse
from protobuf import data, number, varint

FLOAT32, UINT8 = 5, 20


def described(*fields):
    return number(1, UINT8) + b"".join(fields)


def record(description=None, values=b"x", levels=0):
    """A tensor without levels of detail; by default one of one byte."""
    text = described(number(2, 1)) if description is None else description
    return pack("IQ", 0, levels) + pack("II", 0, len(text)) + text + values


def file(make):
    return one_file("m.pdiparams", make)


def variable(name, *fields):
    return data(3, data(1, name) + data(2, number(1, 7)) + number(3, 1) + b"".join(fields))


def with_program(make, tensors=lambda: record()):
    """`make`: the content of the program's block."""
    def build(folder):
        put(folder, "m.pdmodel", data(1, number(1, 0) + make()))
        return put(folder, "m.pdiparams", tensors())
    return build


def with_json(operations, end="]}]}]}}"):
    """A program in JSON with these operations."""
    def build(folder):
        head = '{"base_code":{"magic":"pir"},"program":{"regions":[{"blocks":[{"ops":['
        put(folder, "m.json", (head + operations() + end).encode())
        return put(folder, "m.pdiparams", record())
    return build


def with_link(target):
    def build(folder):
        os.symlink(target, os.path.join(folder, "m.pdmodel"))
        return put(folder, "m.pdiparams", record())
    return build


EMPTY = record(described(number(2, 0)), b"")

ATTACKS = [
    Attack("paddle-records-empty", "paddle", "400,000 tensors without elements", file(lambda: EMPTY * 400_000)),
    Attack("paddle-dimensions", "paddle", "a description of 16 KB of dimensions",
           file(lambda: record(described(data(2, b"\1" * 16_000)))), REFUSED),
    Attack("paddle-dimensions-1024", "paddle", "4,000 tensors of 1,024 dimensions",
           file(lambda: record(described(data(2, b"\1" * 1024))) * 4_000)),
    Attack("paddle-size-overflows", "paddle", "a shape of 2^126 elements",
           file(lambda: record(described(number(2, (1 << 63) - 1) * 2))), REFUSED),
    Attack("paddle-size-2-62", "paddle", "a tensor of 2^62 bytes", file(lambda: record(described(number(2, 1 << 62))))),
    Attack("paddle-levels", "paddle", "2^60 levels of detail", file(lambda: record(levels=1 << 60)), REFUSED),
    Attack("paddle-levels-empty", "paddle", "2,000,000 empty levels of detail",
           file(lambda: pack("IQ", 0, 2_000_000) + bytes(16_000_000) + record()[12:])),
    Attack("paddle-description-4-gb", "paddle", "a description of 4 GiB",
           sparse("m.pdiparams", lambda: pack("IQII", 0, 0, 0, (1 << 32) - 1), 1 << 33), REFUSED),
    Attack("paddle-hole", "paddle", "a hole of 1 GB, which is tensors with a description of no bytes",
           sparse("m.pdiparams", record, 1_000_000_000), REFUSED),
    Attack("paddle-names", "paddle", "400,000 names for one tensor",
           with_program(lambda: b"".join(variable(f"w{i}") for i in range(400_000)))),
    Attack("paddle-name-repeated", "paddle", "1,000,000 variables of one name", with_program(lambda: variable("w") * 1_000_000)),
    Attack("paddle-names-long", "paddle", "200 names of 60 KB",
           with_program(lambda: b"".join(variable(f"{i}" + "n" * 60_000) for i in range(200)))),
    Attack("paddle-types-merged", "paddle", "a variable with 500,000 types",
           with_program(lambda: variable("w",
                                         data(2, b"") * 500_000))),
    Attack("paddle-program-length", "paddle", "a program whose block has 2^63 bytes", lambda folder:
           (put(folder, "m.pdmodel",
                varint(1 << 3 | 2) + varint(1 << 63)), put(folder, "m.pdiparams", record()))[1], SHOWN),
    Attack("paddle-json-names", "paddle", "400,000 names in JSON",
           with_json(lambda: ",".join('{"#":"p","A":[0,1,1,"w%d"]}' % i for i in range(400_000)))),
    Attack("paddle-json-lists", "paddle", "5,000,000 empty lists in JSON", with_json(lambda: ",".join(["[]"] * 5_000_000))),
    Attack("paddle-json-deep", "paddle", "5,000,000 lists in lists in JSON", with_json(lambda: "[" * 5_000_000, "")),
    Attack("paddle-json-name-long", "paddle", "a name of 20 MB in JSON",
           with_json(lambda: '{"#":"p","A":[0,1,1,"%s"]}' % ("n" * 20_000_000))),
    Attack("paddle-program-link", "paddle", "a program behind a link out of the directory", with_link("/etc/passwd"), SHOWN),
    Attack("paddle-program-device", "paddle", "a program that is a link to a device", with_link("/dev/zero"), SHOWN),
    honest("paddle", "paddle", "20,000 tensors with names",
           with_program(lambda: b"".join(variable(f"layer_{i:05}.weight") for i in range(20_000)), lambda: record() * 20_000)),
]
