"""Commands on a directory in a mount: the source of the mount is opened. semantics 18.4"""
import json
import os
import unittest

from mounting import MountTestCase, UsersTestCase, as_nobody, run
import archives


class OneModel(MountTestCase):
    def setUp(self):
        super().setUp()
        self.source = self.sample()
        self.mnt = self.mount(self.source)

    # Each command prints what it prints of the source, but for the name.
    def test_every_command_reads_the_source_of_the_mount(self):
        for argv in (["info", "{}"], ["info", "--tensors", "{}"], ["stats", "{}"], ["stats", "{}", "bias"], ["ls", "{}"],
                     ["ls", "-R", "{}", "tensors"], ["cat", "{}", "tensors/bias"], ["cat", "{}", "bias"], ["verify", "{}"],
                     ["diff", "{}", self.source], ["diff", "--stat", self.source, "{}"], ["info", "--duplicates", "{}"]):
            with self.subTest(argv=argv):
                mounted, direct = (run(*(word.format(source) for word in argv)) for source in (self.mnt, self.source))
                self.assertEqual((mounted.returncode, mounted.stderr), (0, ""))
                title = 1 if argv[0] == "info" and "--duplicates" not in argv else 0
                self.assertEqual(mounted.stdout.replace(self.mnt, self.source).splitlines()[title:],
                                 direct.stdout.splitlines()[title:])

    def test_files_are_written_from_the_source_of_the_mount(self):
        for name, argv in (("m.gguf", ["export"]), ("m.npz", ["export"])):
            for place in (self.mnt, self.source):
                done = run(*argv, place, self.path(name + str(place == self.mnt)), "--to", name.rpartition(".")[2])
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.read(name + "True"), self.read(name + "False"))
        done = run("plot", self.mnt, "encoder/weight", "-o", self.path("p.png"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.read("p.png")[:4], b"\x89PNG")

    def test_links_to_the_mount_and_its_files_directory_are_the_model(self):
        os.symlink(self.mnt, self.path("link"))
        for place in (self.path("link"), self.mnt + "/", self.mnt + "/files", self.mnt + "/."):
            done = run("info", "--json", place)
            self.assertEqual((done.returncode, json.loads(done.stdout)["tensors"]["count"]), (0, 5), done.stderr)
        done = run("info", "--json", ".", cwd=self.mnt)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_directories_in_a_model_are_listed_and_are_no_models(self):
        self.assertEqual(run("ls", self.mnt + "/tensors").stdout, run("ls", self.source, "tensors").stdout)
        self.assertEqual(run("cat", self.mnt + "/tensors", "encoder/weight", text=False).stdout,
                         run("cat", self.source, "tensors/encoder/weight", text=False).stdout)
        done = run("info", self.mnt + "/tensors")
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertEqual(done.stderr, f'weightfs: {self.mnt}/tensors: is the directory "tensors" of a model; name the model\n')

    def test_files_are_read_through_the_mount(self):
        for path in ("files/model.safetensors", "views/model.gguf"):
            done = run("info", "--json", os.path.join(self.mnt, path))
            self.assertEqual((done.returncode, json.loads(done.stdout)["tensors"]["count"]), (0, 5), done.stderr)

    # It would show itself.
    def test_mount_is_still_refused(self):
        done = run("mount", self.mnt, self.path("again"))
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("cannot be the source of another mount", done.stderr)


class SeveralModels(MountTestCase):
    def test_path_in_the_mount_names_the_model(self):
        os.makedirs(self.path("models/sub"))
        self.sample("models/a.safetensors")
        self.sample("models/sub/b.gguf", format="gguf")
        self.sample("models/c.gguf", format="gguf")
        mnt = self.mount(self.path("models"))
        for inside, name in (("a.safetensors", "safetensors"), ("sub", "gguf"), ("c.gguf", "gguf")):
            done = run("info", "--json", os.path.join(mnt, inside))
            self.assertEqual((done.returncode, json.loads(done.stdout)["format"]), (0, name), done.stderr)
        self.assertEqual(run("ls", os.path.join(mnt, "a.safetensors")).stdout, run("ls", self.path("models/a.safetensors")).stdout)
        done = run("verify", mnt)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "3 models: 3 whole"), done.stderr)

    def test_model_in_a_container_is_named_by_its_path(self):
        self.sample("inner.gguf", format="gguf")
        with archives.Zip(self.path("m.zip")) as file:
            file.write("inner.gguf", self.read("inner.gguf"))
            file.write("notes.txt", b"text")
        mnt = self.mount(self.path("m.zip"))
        done = run("info", "--json", mnt + "/nested/inner.gguf")
        self.assertEqual((done.returncode, json.loads(done.stdout)["format"]), (0, "gguf"), done.stderr)

    def test_several_sources_are_opened_together(self):
        one, two = self.sample("one.safetensors"), self.sample("two.gguf", format="gguf")
        mnt = self.mount(one, two)
        self.assertEqual(run("ls", mnt).stdout, "one.safetensors\ntwo.gguf\n")
        done = run("info", "--json", mnt + "/two.gguf")
        self.assertEqual((done.returncode, json.loads(done.stdout)["format"]), (0, "gguf"), done.stderr)


class Trust(UsersTestCase):
    # Its server may name any source.
    def test_mount_of_another_user_is_refused(self):
        point = self.path("theirs")
        os.mkdir(point)
        os.chown(point, 65534, 65534)
        self.addCleanup(self.force_unmount, point)
        done = as_nobody(self.binary, "mount", self.source, point, env={**os.environ, "WEIGHTFS_CACHE": "/nonexistent"})
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run("info", point)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
