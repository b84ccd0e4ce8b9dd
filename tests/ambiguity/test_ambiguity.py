"""Files that readers may take in two ways: weightfs shows what the loader of the format reads, or refuses the file.

Each file is made by a rule (zips.py, arrays.py and others), is read by the loader (loaders.py), and is compared with what weightfs
shows. A loader of Debian that this machine lacks is a skipped test; for joblib and ONNX the rules of the format are compared
nevertheless. ONLY=SUFFIX tests one format. A third of the files is compared, and all of them with EXHAUSTIVE=1.
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

GENERATORS = (zips.plain, zips.npz, zips.torch, arrays.npy_variants, arrays.safetensors_variants, arrays.torch_legacy,
              opcodes.pickle_rows, opcodes.joblib_rows, ggufs.rows, onnxs.rows, tars.rows, hdf5s.rows)
MIN_FILES = 2000
MIN_EQUAL = 16  # of each format, in a third of its files: files that are read and shown
STEP = 1 if "EXHAUSTIVE" in os.environ else 3


def all_rows():
    """Every file once, of formats with a loader."""
    known = set()
    generators = GENERATORS if loaders.LOADERS["h5"] else [each for each in GENERATORS if each is not hdf5s.rows]
    for row in (row for generator in generators for row in generator()):
        if (row.suffix, row.data) not in known:
            known.add((row.suffix, row.data))
            yield row


def loaded_by_each(row, path):
    """What each loader reads that does not refuse the file."""
    out = []
    for load in loaders.LOADERS[row.suffix]:
        try:
            out.append(collections.Counter(load(path)))
        except Exception:  # whatever the loader does not read
            if row.is_honest:
                raise
    return out


def compared(server, model, row, path):
    """"equal", "refused here", "refused by the loader", or what is wrong."""
    loaded = loaded_by_each(row, path)
    if not loaded:
        return "refused by the loader"
    try:
        found, refused = server.files(model) if row.suffix in shown.OF_FILES else server.tensors(model, row.suffix)
    except shown.Failed as error:
        return f"refused: {error}" if row.is_honest else "refused here"
    found = collections.Counter(found)
    for expected in loaded:
        more, names = found - expected, {name for name, _ in expected}
        if any(name in names or all(each not in other for other in loaded) for each in more for name in each[:1]):
            return f"shows {brief(more)}, and the loader reads {brief(expected)}"
    lacks = [each for expected in loaded for each in expected - found]
    lacks = [(name, value) for name, value in lacks if all(name in (each for each, _ in other) for other in loaded)]
    if not lacks:
        return "equal"
    is_told = not row.is_honest and (all(name in refused for name, _ in lacks) or server.is_incomplete(model))
    return "refused here" if is_told else f"lacks {brief(lacks)}"


def brief(values):
    """Names and the last bytes of their values."""
    pairs = list(values)[:4]
    return {name: value[-8:].hex() if isinstance(value, bytes) else (*value[:-1], value[-1][-8:]) for name, value in pairs}


class Ambiguity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="weightfs-ambiguity-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.rows = collections.defaultdict(list)
        for row in all_rows():
            if os.environ.get("ONLY", row.suffix) != row.suffix:
                continue
            name = f"{len(cls.rows[row.suffix]):04}.{row.suffix}"
            cls.rows[row.suffix].append((row, name))
            os.makedirs(os.path.join(cls.folder, "models", row.suffix), exist_ok=True)
            with open(os.path.join(cls.folder, "models", row.suffix, name), "wb") as file:
                file.write(row.data)
        cls.server = shown.Shown(os.path.join(cls.folder, "models"), os.path.join(cls.folder, "cache"))
        cls.addClassCleanup(cls.server.close)

    def test_there_are_many_files(self):
        self.assertGreaterEqual(sum(map(len, self.rows.values())), MIN_FILES)

    def check(self, suffix):
        if not loaders.LOADERS[suffix]:
            self.skipTest(f"no loader of .{suffix} here")
        counts, wrong = collections.Counter(), []
        rows = self.rows[suffix][::STEP]
        for row, name in rows:
            outcome = compared(self.server, (suffix, name), row, os.path.join(self.folder, "models", suffix, name))
            counts[outcome.partition(" ")[0]] += 1
            if outcome not in ("equal", "refused here", "refused by the loader"):
                wrong.append(f"{name}, {row.kind}: {outcome}")
        self.assertEqual(wrong, [], f"{len(wrong)} of {len(rows)}: {counts}")
        self.assertGreaterEqual(counts["equal"], MIN_EQUAL * 3 // STEP, counts)


def test_of(suffix):
    return lambda self: self.check(suffix)


def skip_of(package):
    return lambda self: self.skipTest(f"{package} is not installed")


for each in loaders.LOADERS:
    setattr(Ambiguity, f"test_{each}", test_of(each))
for each in loaders.MISSING:
    setattr(Ambiguity, f"test_{each.replace('-', '_')}", skip_of(each))
