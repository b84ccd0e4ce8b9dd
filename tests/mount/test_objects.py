"""Pickles of arrays and estimators: large arrays are served in place, boosters are models inside of them."""
import os
import struct

from mounting import MountTestCase, run, unittest
import pickles

SIZE = 10 << 30
OPENED = 8 << 20
END = b"the end"
MARK = b"<the array>"

LIGHTGBM = b"""tree
version=v4
num_class=1
num_tree_per_iteration=1
max_feature_idx=0
objective=regression
feature_names=a
feature_infos=[0:1]
tree_sizes=100

Tree=0
num_leaves=2
num_cat=0
split_feature=0
threshold=0.5
left_child=-1
right_child=-2
leaf_value=1 2
shrinkage=1

end of trees

feature_importances:
a=1

parameters:
[objective: regression]

end of parameters

pandas_categorical:null
"""


def beside(array):
    """The opcodes of {"w": array, "note": "end"}."""
    return pickles.pickle(pickles.dictionary([("w", array), ("note", pickles.text("end"))]))


class LargeArrays(MountTestCase):
    def write_sparse(self, name, before, after):
        """A file with a hole between these bytes, at whose end is END."""
        with open(self.path(name), "wb") as file:
            file.write(before)
            file.seek(SIZE - len(END), os.SEEK_CUR)
            file.write(END + after)
        return self.path(name)

    def copied(self):
        """The bytes of all read(2) calls of the server."""
        with open(f"/proc/{self.server(self.path('mnt'))}/io") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("rchar:"))

    def check(self, source):
        mount = self.mount(source)
        self.assertEqual(os.listdir(f"{mount}/tensors"), ["w"])
        self.assertEqual(os.listdir(f"{mount}/npy"), ["w.npy"])
        self.assertEqual(os.path.getsize(f"{mount}/tensors/w"), SIZE)
        self.assertIn('"note": "end"', self.read(mount, "metadata.json").decode())
        self.assertLess(self.copied(), OPENED)
        with open(f"{mount}/tensors/w", "rb") as file:
            file.seek(SIZE - len(END))
            self.assertEqual(file.read(), END)
        self.assertLess(self.copied(), 2 * OPENED)
        self.unmount(mount)
        self.assertEqual(run("verify", "--safe", source).returncode, 0)
        # Nothing was decoded into the cache.
        cached = [os.path.join(folder, name) for folder, _, names in os.walk(self.path("cache")) for name in names]
        self.assertLess(sum(map(os.path.getsize, cached)), OPENED)

    def test_array_of_ten_gigabytes_in_a_pickle_is_served_in_place(self):
        whole = beside(pickles.array("u1", (SIZE, ), MARK))
        before, after = whole.split(b"B" + struct.pack("<I", len(MARK)) + MARK)
        self.check(self.write_sparse("m.pkl", before + b"\x8e" + struct.pack("<Q", SIZE), after))

    def test_array_of_ten_gigabytes_in_a_file_of_joblib_is_served_in_place(self):
        before, after = beside(pickles.joblib_array("u1", (SIZE, ), MARK)).split(MARK)
        self.check(self.write_sparse("m.joblib", before, after))


class Boosters(MountTestCase):
    def booster(self, text):
        state = pickles.text("handle") + pickles.text(text.decode())
        booster = pickles.instance("lightgbm.basic", "Booster", state)
        attributes = pickles.text("_Booster") + booster + pickles.text("classes_") + pickles.array("i4", (1, ), b"\1\0\0\0")
        return self.write("m.pkl", pickles.pickle(pickles.instance("lightgbm.sklearn", "LGBMClassifier", attributes)))

    def test_booster_is_a_model_inside_of_the_pickle(self):
        source = self.booster(LIGHTGBM)
        mount = self.mount(source)
        self.assertEqual(sorted(os.listdir(f"{mount}/files")), ["_Booster.txt", "m.pkl"])
        self.assertEqual(self.read(mount, "files", "_Booster.txt"), LIGHTGBM)
        self.assertEqual(os.listdir(f"{mount}/tensors"), ["classes_"])
        self.assertEqual(os.listdir(f"{mount}/nested"), ["_Booster.txt"])
        self.assertEqual(self.read(mount, "nested", "_Booster.txt", "tensors", "trees.0.leaf_value"), struct.pack("<2d", 1, 2))
        self.unmount(mount)
        self.assertRegex(run("info", source).stdout, r"nested +_Booster\.txt")
        self.assertEqual(run("verify", "--safe", source).returncode, 0)

    def test_damaged_booster_is_an_error_of_its_directory(self):
        source = self.booster(LIGHTGBM.replace(b"num_leaves", b"\0"))
        mount = self.mount(source)
        self.assertEqual(self.read(mount, "tensors", "classes_"), b"\1\0\0\0")
        with self.assertRaises(OSError):
            os.listdir(f"{mount}/nested/_Booster.txt")
        self.unmount(mount)
        done = run("verify", "--safe", source)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("_Booster.txt: lightgbm: ", done.stderr)


if __name__ == "__main__":
    unittest.main()
