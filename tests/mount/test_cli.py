"""ls, cat and info: the tree without a mount, so they work without /dev/fuse."""
import json

from mounting import WEIGHTFS, Hole, Tensor, TestCase, numbers, on_terminal, os, run, sample_tensors, subprocess


class List(TestCase):
    def test_lists_the_top_directory(self):
        done = run("ls", self.sample())
        self.assertEqual(done.stdout, "files\nmetadata.json\nmetadata.toml\nnpy\ntensors\ntensors.json\n")

    def test_lists_a_directory_and_a_file(self):
        source = self.sample()
        self.assertEqual(run("ls", source, "tensors/encoder").stdout, "weight\n")
        self.assertEqual(run("ls", source, "tensors/bias").stdout, "tensors/bias\n")

    def test_long_form_has_modes_and_sizes(self):
        line = run("ls", "-l", self.sample(), "tensors/encoder").stdout.split()
        self.assertEqual((line[0], line[1], line[2], line[-1]), ("-r--r--r--", "1", "240", "weight"))

    def test_recursive_listing_has_headings_like_ls(self):
        done = run("ls", "-R", self.sample(), "tensors")
        self.assertEqual(done.stdout, ".:\nbias\nbytes\nempty\nencoder\nscalar\n\nencoder:\nweight\n")

    def test_json_output_is_one_array(self):
        entries = json.loads(run("ls", "-R", "--json", self.sample(), "tensors").stdout)
        self.assertIn({"path": "encoder", "type": "directory", "size": 0}, entries)
        self.assertIn({"path": "encoder/weight", "type": "file", "size": 240}, entries)
        self.assertEqual(len(entries), 6)

    def test_missing_path_fails(self):
        done = run("ls", self.sample(), "tensors/absent")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(len(done.stderr.splitlines()), 1)


class Cat(TestCase):
    def cat(self, *argv):
        return subprocess.run([WEIGHTFS, "cat", *argv], capture_output=True)

    def test_writes_the_bytes_of_each_path(self):
        done = self.cat(self.sample(), "tensors/bias", "tensors/bytes")
        self.assertEqual((done.returncode, done.stdout), (0, numbers("i", 4) + numbers("b", 5)))

    def test_closed_pipe_ends_it_without_a_message(self):
        source = self.sample(tensors=[Tensor("big", "int8", (64 << 20,), Hole(64 << 20))])
        command = subprocess.Popen([WEIGHTFS, "cat", source, "tensors/big"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.assertEqual(command.stdout.read(10), bytes(10))
        command.stdout.close()
        self.assertEqual(command.stderr.read(), b"")
        command.stderr.close()
        self.assertEqual(command.wait(60), -13)  # SIGPIPE, like cat

    def test_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([WEIGHTFS, "cat", self.sample(), "tensors/bias"], stdout=full, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"No space left", done.stderr)
            for verb in (["ls"], ["info"], ["info", "--json"]):
                done = subprocess.run([WEIGHTFS, *verb, self.sample()], stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 1, verb)

    def test_directory_is_refused(self):
        self.assertNotEqual(self.cat(self.sample(), "tensors").returncode, 0)


class Info(TestCase):
    def test_summary_is_readable_text(self):
        source = self.sample("m.gguf", format="gguf", metadata={"general.name": "Tiny", "general.architecture": "llama"})
        page = run("info", source).stdout
        for wanted in ("m.gguf", "gguf 3", "Tiny", "llama", "encoder/weight", "[3,20]", "240 B"):
            self.assertIn(wanted, page)
        self.assertTrue(all(len(line) < 120 for line in page.splitlines()))

    def test_json_output_is_metadata_json(self):
        source = self.sample()
        self.assertEqual(json.loads(run("info", "--json", source).stdout),
                         json.loads(run("cat", source, "metadata.json").stdout))

    def test_directory_of_models_has_one_line_per_model(self):
        os.mkdir(self.path("models"))
        self.sample("models/a.safetensors")
        self.sample("models/b.gguf", format="gguf")
        size = sum(len(tensor.data) for tensor in sample_tensors())
        self.assertEqual(run("info", self.path("models")).stdout, f"a.safetensors\tsafetensors\t5\t{size}\nb.gguf\tgguf\t5\t{size}\n")
        shown = on_terminal("info", self.path("models"))
        self.assertRegex(shown, r"model +format +tensors +size\n")
        self.assertRegex(shown, r"b\.gguf +gguf +5 +\d+ B\n")

    def test_control_characters_are_escaped(self):
        source = self.sample(metadata={"evil\x1b[31m": "\x1b]0;title\x07 \x9b31m"})
        for line in run("info", source).stdout.splitlines():
            self.assertTrue(line.isprintable(), repr(line))


class Help(TestCase):
    def test_lists_every_command_and_exit_status(self):
        text = run("--help").stdout
        for wanted in ("mount", "umount", "ls", "cat", "info", "Exit status", "8  temporarily unavailable"):
            self.assertIn(wanted, text)

    def test_version(self):
        self.assertRegex(run("--version").stdout, r"^weightfs \d+\.\d+\.\d+\n$")


class ForcedFormat(TestCase):
    def test_layout_can_be_forced(self):
        source = self.sample("m.bt", format="bintensors-legacy")
        self.assertEqual(run("ls", "--format", "bintensors-legacy", source, "tensors/encoder").stdout, "weight\n")
        self.assertNotEqual(run("ls", "--format", "bintensors-release", source).returncode, 0)
