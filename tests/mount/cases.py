"""A table of situations that users reported: a file that a test builds, a command, and the right answer."""
import functools
import json
import os
from typing import Any, Callable, Dict, NamedTuple, Sequence, Tuple

from mounting import TestCase, run

ABSENT = object()  # the value of a field that must not be there
SOURCE = "SOURCE"  # in a command: what `build` has written


class Case(NamedTuple):
    """A row: `build` writes the files below a directory, and returns the path of the source."""
    name: str
    build: Callable[[str], str]
    command: Tuple[str, ...]  # such as ("info", "--json", SOURCE)
    status: int = 0
    fields: Dict[str, Any] = {}  # of the JSON on standard output: "summary.parameters" → value or ABSENT
    shows: Sequence[str] = ()  # texts of standard output and standard error
    hides: Sequence[str] = ()  # texts that are in neither


def file(name, data):
    """Builds a file of these bytes."""
    def build(tmp):
        path = os.path.join(tmp, name)
        with open(path, "wb") as out:
            out.write(data)
        return path

    return build


def info(name, build, status=0, shows=(), hides=(), **fields):
    """A row for `info --json`: `parameters=5` is the field `summary.parameters`, `kv_cache__dtype` one in an object of it."""
    named = {"summary." + field.replace("__", "."): value for field, value in fields.items()}
    return Case(name, build, ("info", "--json", SOURCE), status, named, shows, hides)


def field_of(document, path):
    for name in path.split("."):
        if isinstance(document, list) and name.isdigit() and int(name) < len(document):
            document = document[int(name)]
        elif isinstance(document, dict) and name in document:
            document = document[name]
        else:
            return ABSENT
    return document


def check(test, case):
    source = case.build(test.tmp)
    done = run(*(source if word == SOURCE else word for word in case.command))
    output = done.stdout + done.stderr
    test.assertEqual(done.returncode, case.status, output)
    document = json.loads(done.stdout) if case.fields else None
    for path, value in case.fields.items():
        test.assertEqual(field_of(document, path), value, f"{path} in {output}")
    for text in case.shows:
        test.assertIn(text, output)
    for text in case.hides:
        test.assertNotIn(text, output)


def table(name, cases):
    """A class with a test for each row."""
    tests = {f"test_{case.name.replace('-', '_')}": functools.partialmethod(check, case) for case in cases}
    assert len(tests) == len(cases), f"{name}: two rows have one name"
    return type(name, (TestCase,), tests)
