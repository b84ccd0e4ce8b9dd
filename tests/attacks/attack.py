"""What a row of the attack tables is, and the helpers that the tables share.

An attack is a hostile input, or an honest large one, which must not be refused. It is built in a directory of its own, in
which nothing else lies; the same row always builds the same bytes. Sizes are chosen so that a reader that follows the
input blindly exceeds its limits many times over, while the input itself takes little disk and is built in a moment.
"""
import os
import struct
import sys
from typing import Callable, NamedTuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

# Exit statuses (cli/exit.h) that the commands may end with. A signal, a timeout, an I/O error (1) and "unavailable" (8: out
# of memory, no network) are never among them, unless a row says so.
SHOWN = frozenset({0})             # the model is shown, perhaps with warnings
REFUSED = frozenset({4, 5})        # the model is refused: unsupported or corrupt
EITHER = SHOWN | REFUSED           # the parser may refuse the model or a part of it


class Attack(NamedTuple):
    """One input. `build(folder)` writes it and returns the path to open, relative to the folder ("" for the folder)."""
    name: str                        # unique; becomes the name of the test
    format: str
    what: str                        # what is attacked: a sentence
    build: Callable[[str], str]
    expect: frozenset = EITHER       # statuses of `info` and `ls`
    verify: frozenset | None = None  # statuses of `verify`; by default those of `info`, refused (of a part) and mismatch (7)
    options: tuple = ()              # of every command
    serve: Callable | None = None    # answers HTTP requests on loopback: called with each connection; see serve.py
    # A directory of many models has as many outermost containers, each with limits of its own: bytes and seconds for those.
    memory: int = 0
    cpu: float = 0


def honest(name, format, what, build, **fields):
    """A large input that must be shown, and whose checksums are right."""
    return Attack("honest-" + name, format, what, build, SHOWN, SHOWN, **fields)


def put(folder, name, data):
    """Writes a file of bytes or of a sequence of bytes; returns `name`."""
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        if isinstance(data, (bytes, bytearray)):
            file.write(data)
        else:
            file.writelines(data)
    return name


def one_file(name, make):
    """A builder that writes what `make()` returns into one file."""
    return lambda folder: put(folder, name, make())


def sparse(name, make, size):
    """As one_file(), but the file ends with a hole that makes it `size` bytes long."""
    def build(folder):
        put(folder, name, make())
        os.truncate(os.path.join(folder, name), size)
        return name
    return build


def little(number, size=8):
    return number.to_bytes(size, "little")


def pack(layout, *values):
    return struct.pack("<" + layout, *values)


def links_to(folder, target, names, hard=False):
    """Writes links in `folder` to the file `target` in it."""
    for name in names:
        path = os.path.join(folder, name)
        if hard:
            os.link(os.path.join(folder, target), path)
        else:
            os.symlink(target, path)
