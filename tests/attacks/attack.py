"""The row type of the attack tables, and shared helpers.

An attack is a hostile input, or a large regular one, which must not be refused. It is built in an otherwise empty directory;
the same row always builds the same bytes. Sizes are chosen so that a reader that trusts the input exceeds its limits many
times over, while the input itself takes little disk space and is built quickly.
"""
import os
import struct
import sys
from typing import Callable, NamedTuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

# Exit statuses (cli/exit.h) that the commands may have. A signal, a timeout, an I/O error (1) and "unavailable" (8: out
# of memory, no network) are never permitted, unless a row lists them.
COMPLETE = frozenset({0})          # the model is shown, perhaps with warnings
SHOWN = frozenset({0, 3, 4, 5})    # the model is shown; the status tells if a part is missing or refused
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
    serve: Callable | None = None    # serves HTTP requests on loopback: called with each connection; see serve.py
    readers: int = 1                 # threads that walk the mount at once
    # Every model in a directory is an outermost container with its own limits: bytes and seconds for all of them.
    memory: int = 0
    cpu: float = 0


def honest(name, format, what, build, **fields):
    """A large regular input that must be shown, with correct checksums."""
    return Attack("honest-" + name, format, what, build, COMPLETE, COMPLETE, **fields)


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
    """A builder that writes the result of `make()` into one file."""
    return lambda folder: put(folder, name, make())


def sparse(name, make, size):
    """Like one_file(), but the file ends with a hole and has `size` bytes."""
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
