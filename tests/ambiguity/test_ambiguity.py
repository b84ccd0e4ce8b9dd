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
import loaders  # noqa: E402
import onnxs  # noqa: E402
import opcodes  # noqa: E402
import shown  # noqa: E402
import tars  # noqa: E402
import zips  # noqa: E402

GENERATORS = (zips.plain, zips.npz, zips.torch, arrays.npy_variants, arrays.safetensors_variants, arrays.torch_legacy, opcodes.pickle_rows,
              opcodes.joblib_rows, ggufs.rows, onnxs.rows, tars.rows)
MIN_FILES = 2000


def all_rows():
    """Every file once."""
    known = set()
    for row in (row for generator in GENERATORS for row in generator()):
        if (row.suffix, row.data) not in known:
            known.add((row.suffix, row.data))
            yield row


def difference(server, model, row, path):
    """What is wrong; None if weightfs and the loader agree, or one of them refuses the file."""
    read = server.files if row.suffix in shown.OF_FILES else lambda model: server.tensors(model, row.suffix)
    try:
        found, refused = read(model)
    except shown.Failed as error:
        return f"refused: {error}" if row.is_honest else None
    try:
        expected = loaders.RULES[row.suffix](path)
    except Exception as error:  # whatever the loader does not read
        return f"the loader refuses it: {error}" if row.is_honest else None
    wrong = collections.Counter(found) - collections.Counter(expected)
    if wrong:
        return f"shows {list(wrong)[:2]}, and the loader reads {expected[:3]}"
    lacks = collections.Counter(expected) - collections.Counter(found)
    lost = [name for name, _ in lacks if name not in refused]
    if lost and not server.is_incomplete(model) or row.is_honest and lacks:
        return f"lacks {list(lacks)[:2]}"
    return None
