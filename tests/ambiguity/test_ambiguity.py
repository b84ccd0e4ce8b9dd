"""Files that readers may take in two ways: weightfs shows what the loader of the format reads, or refuses the file.

Each file is made by a rule (zips.py, arrays.py, …), is read by the loader (loaders.py), and is compared with what weightfs shows. A
loader that Debian has and this machine lacks is one skipped test; its rules are still compared.
"""
import collections
import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arrays  # noqa: E402
import ggufs  # noqa: E402
import hdf5s  # noqa: E402
import loaders  # noqa: E402
import onnxs  # noqa: E402
import opcodes  # noqa: E402
import shown  # noqa: E402
import tars  # noqa: E402
import zips  # noqa: E402

GENERATORS = (zips.plain, zips.npz, zips.torch, arrays.npy_variants, arrays.safetensors_variants, arrays.torch_legacy, opcodes.pickle_rows,
              opcodes.joblib_rows, ggufs.rows, onnxs.rows, tars.rows, hdf5s.rows)
MIN_FILES = 2000


def all_rows():
    """Every file once."""
    known = set()
    for row in (row for generator in GENERATORS for row in generator()):
        if (row.suffix, row.data) not in known:
            known.add((row.suffix, row.data))
            yield row


def difference(server, model, row, path):
    """What is wrong; None if weightfs shows what each loader reads, or one of them refuses the file."""
    loaded = []
    for load in loaders.LOADERS[row.suffix]:
        try:
            loaded.append(collections.Counter(load(path)))
        except Exception as error:  # whatever the loader does not read
            if row.is_honest:
                return f"{load.__name__} refuses it: {error!r}"
    read = server.files if row.suffix in shown.OF_FILES else lambda model: server.tensors(model, row.suffix)
    try:
        found, refused = read(model) if loaded else ([], [])
    except shown.Failed as error:
        return f"refused: {error}" if row.is_honest else None
    for expected in loaded:
        more, lacks = collections.Counter(found) - expected, expected - collections.Counter(found)
        names = {name for name, _ in expected}
        if any(name in names or all((name, value) not in other for other in loaded) for name, value in more):
            return f"shows {brief(more)}, and the loader reads {brief(expected)}"
        others = [{name for name, _ in other} for other in loaded]
        lacks = {(name, value) for name, value in lacks if all(name in names for names in others)}
        is_told = all(name in refused for name, _ in lacks) or server.is_incomplete(model)
        if lacks and (row.is_honest or not is_told):
            return f"lacks {brief(lacks)}"
    return None


def brief(values):
    """Names and the last bytes of their values."""
    return {name: value[-8:].hex() if isinstance(value, bytes) else (*value[:-1], value[-1][-8:]) for name, value in list(values)[:4]}
