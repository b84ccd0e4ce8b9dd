"""Commands without a mount, as processes: full disks, terminals, character sets, verify --tree. tests/cli has the rest."""
import copy
import json
import re
import shutil
import struct
import unittest
import zipfile

from mounting import (LIMIT_S, WEIGHTFS, Hole, Tensor, TestCase, is_sanitized, on_terminal, os, run, sample_tensors, subprocess,
                      until)
import archives
import containers


class Cat(TestCase):
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


class CatToFile(TestCase):
    def test_file_has_the_bytes_of_all_paths(self):
        source = self.sample()
        expected = run("cat", source, "metadata.json", "tensors/bias", text=False).stdout
        for argv in ([], ["--sandbox=off"]):
            done = run("cat", *argv, "-o", self.path("out"), "--force", source, "metadata.json", "tensors/bias")
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            self.assertEqual(self.read("out"), expected)
        self.assertEqual(run("cat", "-o", "-", source, "metadata.json", "tensors/bias", text=False).stdout, expected)

    def test_file_that_exists_is_kept_without_force(self):
        self.write("out", b"before")
        done = run("cat", self.sample(), "metadata.json", "--output", self.path("out"))
        self.assertEqual((done.returncode, done.stderr), (1, f"weightfs: {self.path('out')}: exists; use --force to replace it\n"))
        self.assertEqual(self.read("out"), b"before")

    def test_nothing_is_written_if_a_path_is_not_found_or_differs_from_its_checksum(self):
        source = self.sample()
        digest = "0" * 64
        for notes, paths, status in ((None, ["tensors/bias", "tensors/none"], 3), (digest, ["tensors/bias"], 7)):
            if notes:
                self.write("model.safetensors.sha256", f"{notes}  model.safetensors\n".encode())
            before = {*os.listdir(self.tmp), "cache"}
            done = run("cat", "-o", self.path("out"), source, *paths)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertTrue(done.stderr.endswith(f"weightfs: {self.path('out')}: nothing was written\n"), done.stderr)
            self.assertEqual(set(os.listdir(self.tmp)), before)


class FullDisk(TestCase):
    def run_full(self, *argv):
        with open("/dev/full", "wb") as full:
            return subprocess.run([WEIGHTFS, *argv], stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)

    # Every command that prints something here. A command without an effect on standard output succeeds on /dev/full, too.
    def test_output_that_cannot_be_written_is_an_error(self):
        source, other = self.sample(), self.sample("m.gguf", format="gguf")
        self.write("x.conf", f"SOURCE={source}\nMOUNTPOINT={self.path('mnt')}\n".encode())
        commands = [["--version"], ["ls", source], ["ls", "-lR", source], ["ls", "--json", source], ["cat", source, "tensors/bias"],
                    ["info", source], ["info", "--json", source], ["info", "--duplicates", "--json", source, source],
                    ["info", self.path()], ["stats", source], ["stats", "--json", source], ["diff", source, other],
                    ["diff", "--json", source, source], ["export", "--to", "gguf", source, "-"], ["verify", source],
                    ["cache", "path"], ["cache", "du"], ["cache", "ls", "--json"], ["mounts", "--json"], ["doctor"],
                    ["completion", "bash"], ["completion", "zsh"], ["service", "show", self.path("x.conf")]]
        helps = [[*words, "--help"] for words in ([], *([verb] for verb in self.verbs()))]
        for argv in commands + helps:
            with self.subTest(argv=argv):
                done = self.run_full(*argv)
                self.assertEqual(done.returncode, 2 if argv[0] == "diff" and "--help" not in argv else 1, done.stderr)
                self.assertRegex(done.stderr, r"^weightfs: .*standard output")

    # semantics 25.1: a failed write is the least of the causes. The statuses of `diff` are 0, 1 and 2.
    def test_worse_cause_keeps_its_status(self):
        cut = self.sample("cut.safetensors")
        os.truncate(cut, os.path.getsize(cut) - 1)
        dangerous = self.write("m.pkl", b"cos\nsystem\n(S'true'\ntR.")
        other = self.sample("m.gguf", format="gguf")
        for status, argv in ((5, ("info", cut)), (5, ("ls", cut)), (4, ("verify", "--safe", dangerous)), (2, ("diff", cut, other))):
            with self.subTest(argv=argv):
                done = self.run_full(*argv)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertRegex(done.stderr, r"weightfs: .*standard output")

    def test_closed_output_is_an_error(self):
        source = self.sample()
        for argv in (["cat", source, "tensors/bias"], ["info", source], ["ls", source], ["--version"]):
            with self.subTest(argv=argv):
                done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', WEIGHTFS, *argv], stderr=subprocess.PIPE, text=True,
                                      timeout=LIMIT_S)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertRegex(done.stderr, r"^weightfs: .*standard output")

    def verbs(self):
        page = run("--help").stdout
        return re.findall(r"^  ([a-z]+) {2,}", page[page.index("Commands:"):page.index("Exit status:")], re.MULTILINE)

    def test_every_command_is_found(self):
        self.assertTrue({"ls", "stats", "diff", "doctor", "completion"} <= set(self.verbs()))


class Mistyped(TestCase):
    def test_files_of_similar_names_are_named(self):
        source = self.sample("llama.safetensors")
        wrong = self.path("lama.safetensors")
        for argv in (["info", wrong], ["ls", wrong], ["verify", wrong], ["mount", wrong, self.path("mnt")],
                     ["serve", "--listen", f"unix:{self.path('socket')}", wrong]):
            with self.subTest(argv=argv):
                done = run(*argv)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(f"did you mean {source}?", done.stderr)
        self.assertNotIn("did you mean", run("info", self.path("other.bin")).stderr)

    def test_tensors_of_similar_names_are_named(self):
        done = run("cat", self.sample(), "bais")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("did you mean bias?", done.stderr)

    def test_directories_of_the_system_are_not_covered(self):
        self.need_mount_namespace()
        for point in ("/etc", "/usr", "/bin", "/lib"):
            with self.subTest(point=point):
                done = subprocess.run(["unshare", "--mount", WEIGHTFS, "mount", self.sample(), point], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, timeout=LIMIT_S)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("every program needs", done.stderr)


class Stored(TestCase):
    """Members of a zip that are not compressed have checksums, which reading does not compare."""

    def wrong(self):
        path = self.path("m.npz")
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("a", "b"):
                array = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1000,), }".ljust(117) + b"\n"
                archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(array)) + array + bytes(1000))
        with open(path, "r+b") as file:
            at = file.read().index(b"\n" + bytes(1000)) + 500
            file.seek(at)
            file.write(b"\1")
        return path

    def test_commands_that_read_wrong_bytes_fail(self):
        source = self.wrong()
        for argv in (["cat", source, "a"], ["cat", source, "files/a.npy"], ["cat", source, "npy/a.npy"], ["stats", source],
                     ["export", source, self.path("out.safetensors")], ["export", source, self.path("out.npz")]):
            with self.subTest(argv=argv):
                done = run(*argv, errors="replace")
                self.assertEqual(done.returncode, 7, done.stderr)
                self.assertIn("CRC-32", done.stderr)
        self.assertEqual(os.listdir(self.path()).count("out.npz"), 0)

    def test_models_of_the_same_bytes_are_verified_once(self):
        with open(self.sample("right.safetensors"), "rb") as file:
            right = file.read()
        path = self.path("m.zip")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.safetensors", right)
            again = copy.copy(archive.infolist()[0])  # a second entry of the directory for the same bytes
            again.filename = again.orig_filename = "b.safetensors"
            archive.filelist.append(again)
        done = run("verify", path)
        self.assertEqual(done.stdout.count("structure valid"), 1, done.stdout + done.stderr)

    def test_views_of_gathered_tensors_are_compared(self):
        path = self.path("f.npz")
        array = b"{'descr': '|u1', 'fortran_order': True, 'shape': (10, 100), }".ljust(117) + b"\n"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("f.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(array)) + array + bytes(1000))
        with open(path, "r+b") as file:
            at = file.read().index(b"\n" + bytes(1000)) + 500
            file.seek(at)
            file.write(b"\1")
        for name in ("tensors/f", "views/model.safetensors"):
            self.assertEqual(run("cat", path, name, errors="replace").returncode, 7, name)
        self.assertEqual(run("cat", path, "metadata.json").returncode, 0)

    def test_models_in_archives_are_verified(self):
        with open(self.sample("right.safetensors"), "rb") as file:
            right = file.read()
        path = self.path("m.zip")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("right.safetensors", right)
            archive.writestr("wrong.safetensors", right[:9] + b"!" + right[10:])
        done = run("verify", path)
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("m.zip/nested/right.safetensors: WHOLE: safetensors has no checksums; structure valid", done.stdout)
        self.assertIn("m.zip/nested/wrong.safetensors: ", done.stderr)

    def test_other_members_are_not_compared(self):
        source = self.wrong()
        for argv in (["cat", source, "b"], ["cat", source, "metadata.json"], ["stats", source, "b"],
                     ["export", "--tensors", "b", source, self.path("b.npz")]):
            with self.subTest(argv=argv):
                self.assertEqual(run(*argv, errors="replace").returncode, 0)


class Info(TestCase):
    def test_directory_of_models_has_one_line_per_model(self):
        os.mkdir(self.path("models"))
        self.sample("models/a.safetensors")
        self.sample("models/b.gguf", format="gguf")
        size = sum(len(tensor.data) for tensor in sample_tensors())
        rest = "tensors\t61\t\t32.00\t\n"
        self.assertEqual(
            run("info", self.path("models")).stdout,
            "name\tformat\ttensors\tbytes\tkind\tparameters\tquantisation\tbits_per_weight\tcode\n"
            f"a.safetensors\tsafetensors\t5\t{size}\t{rest}b.gguf\tgguf\t5\t{size}\t{rest}")
        shown = on_terminal("info", self.path("models"))
        self.assertRegex(shown, r"\A\S.*models +2 models · 1\.\d KiB\n\n  model +kind +parameters +quantised +bits +size\n")
        self.assertRegex(shown, r"\n  b\.gguf +tensors +61  float32 +32\.00 +\d+ B\n")

    def damaged(self):
        """A directory of three models with one name: complete, cut in the tensors, cut in the header."""
        whole = self.read(self.sample())
        for name, size in (("a", len(whole)), ("b", len(whole) - 1), ("c", 20)):
            self.write(os.path.join("models", name, "model.safetensors"), whole[:size])
        return self.path("models")

    # semantics 27.3
    def test_rows_of_damaged_models_say_what_is_wrong(self):
        models = self.damaged()
        _, *rows = [line.split("\t") for line in run("info", models).stdout.splitlines()]
        self.assertEqual([len(row) for row in rows], [9, 9, 9])
        self.assertEqual([row[:2] for row in rows], [["a", "safetensors"], ["b", "safetensors"], ["c", ""]])
        self.assertEqual([row[4] for row in rows][:2], ["tensors", "DAMAGED: ends 1 B early"])
        self.assertRegex(rows[2][4], "^model.safetensors: safetensors: the header is ")
        _, cut, broken = json.loads(run("info", "--json", models).stdout)
        self.assertIn("1 of 5 tensors refused", cut["incomplete"])
        self.assertEqual((broken["source"], broken["error"]["code"]), ("c", "damaged"))

    def test_messages_have_the_path_of_the_damaged_model(self):
        models = self.damaged()
        for argv in (["info", models], ["verify", models], ["verify", "--safe", models], ["verify", models + "/"],
                     ["ls", "-R", models], ["ls", "-R", "--json", models]):
            with self.subTest(argv=argv):
                done = run(*argv)
                self.assertEqual(done.returncode, 5)
                self.assertRegex(done.stderr, f"(?m)^weightfs: {models}/b: the file ends 1 bytes? early")
                self.assertRegex(done.stderr, f"(?m)^weightfs: {models}/c: model.safetensors: safetensors: the header is ")
        self.assertRegex(run("ls", models, "c").stderr, f"^weightfs: {models}/c: model.safetensors: safetensors: ")
        shutil.copy(os.path.join(models, "c", "model.safetensors"), os.path.join(models, "d.safetensors"))
        self.assertIn(f"weightfs: {models}/d.safetensors: safetensors: the header", run("verify", models).stderr)

    # semantics 27.1: 80 columns unless the terminal or COLUMNS states another width.
    def test_screen_fits_the_width(self):
        source = self.sample("m.gguf", format="gguf", metadata={"general.name": "n" * 200})
        for width, shown in ((80, run("info", source).stdout), (52, run(
                "info", source, env={**os.environ, "COLUMNS": "52"}).stdout), (40, on_terminal("info", source, columns=40)),
                             (40, on_terminal("info", source, columns=20)), (120, on_terminal("info", source, columns=120))):
            lines = shown.splitlines()
            self.assertLessEqual(max(map(len, lines)), width)
            self.assertLessEqual(len(lines), 24)
        self.assertEqual(run("info", source).stdout, on_terminal("info", source, columns=80))

    # semantics 27.2
    def test_plain_output_has_no_escape_sequences(self):
        source = self.sample()
        self.assertIn("\x1b[1m", on_terminal("info", source, NO_COLOR=""))
        for shown in (run("info", source, env={**os.environ, "NO_COLOR": ""}).stdout, on_terminal("info", source),
                      on_terminal("info", source, NO_COLOR="", TERM="dumb")):
            self.assertNotIn("\x1b", shown)

    # semantics 27.2
    def test_other_character_sets_have_ascii(self):
        source = self.sample("m.gguf", format="gguf", metadata={"general.name": "Größe"})
        for variables in ({"LC_ALL": "C"}, {"LC_ALL": "", "LC_CTYPE": "de_DE.ISO-8859-1"},
                          {"LC_ALL": "", "LC_CTYPE": "", "LANG": "POSIX"}):
            shown = run("info", "--tensors", "--metadata", source, env={**os.environ, **variables}).stdout
            self.assertTrue(shown.isascii(), shown)
            self.assertIn("GGUF 3 - 640 B", shown)

    # semantics 27.2: the static program has no files of locales, nor does a small system.
    def test_name_of_a_locale_without_files_decides_for_utf8(self):
        source = self.sample("m.gguf", format="gguf", metadata={"general.name": "Größe"})
        for variables in ({"LC_ALL": "en_US.UTF-8"}, {"LC_ALL": "xx_XX.utf8@euro"}, {"LC_ALL": "", "LC_CTYPE": "ja_JP.UTF8"},
                          {"LC_ALL": "", "LC_CTYPE": "", "LANG": "de_DE.utf8"}):
            shown = run("info", source, env={**os.environ, **variables, "LOCPATH": "/nonexistent"}).stdout
            self.assertIn("GGUF 3 · 640 B", shown)
            self.assertIn("Größe", shown)

    def test_all_tensors_and_metadata_are_listed_if_asked(self):
        source = self.sample("m.gguf", format="gguf",
                             metadata={"tokenizer.ggml.tokens": ["t"] * 2000, "short": [1, 2], "long": "x" * 1000})
        shown = run("info", "--tensors", "--metadata", source).stdout
        self.assertTrue(shown.startswith(run("info", source).stdout))
        self.assertRegex(shown, r"\n  encoder/weight +float32 +\[3,20\] +60 +240 B\n")
        self.assertIn("2,000 tokens (--tokens)\n", shown)
        self.assertIn("text of 1000 B (metadata.json)\n", shown)
        self.assertRegex(shown, r"\n  short +\[1,2\]\n")
        self.assertTrue(shown.endswith(f"\nto print a file in brackets:\nweightfs cat {source} FILE\n"), shown)


class VerifyTree(TestCase):
    # semantics 21.7
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("out"))
        self.list = self.path("out", "list")

    def large(self, size=3 << 20):
        """A model with a tree of two levels."""
        return self.sample("large.safetensors",
                           [Tensor("w", "uint8", (size, ),
                                   bytes(i * i % 251 for i in range(4096)) * (size // 4096))])

    def refused(self, *argv, status, message, left=()):
        """Checks a failed command, which leaves no other files than these."""
        done = run("verify", *argv)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(sorted(os.listdir(self.path("out"))), sorted(left))

    @unittest.skipUnless(shutil.which("fsverity"), "no fsverity here")
    def test_list_and_digest_are_those_of_fsverity(self):
        for source in (self.sample(), self.large(), self.sample("m.gguf", format="gguf")):
            done = run("verify", "--force", "--tree", self.list, source)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            digest = subprocess.run(
                ["fsverity", "digest", f"--out-merkle-tree={self.path('tree')}", f"--out-descriptor={self.path('d')}", source],
                check=True, capture_output=True, text=True).stdout
            self.assertEqual(done.stdout.splitlines(keepends=True)[-1], digest)
            self.assertEqual(self.read("out", "list"), self.read("d") + self.read("tree"))

    def test_list_is_written_after_the_verification(self):
        archives.write_carton(self.path("m.carton"), {"model/w": os.urandom(5000)})
        done = run("verify", self.path("m.carton"), "--tree", self.list)
        first, last = done.stdout.splitlines()
        self.assertEqual(first, f"{self.path('m.carton')}: WHOLE: 3 files match their checksums")
        self.assertRegex(last, rf"^sha256:[0-9a-f]{{64}} {self.path('m.carton')}$")
        self.assertEqual(os.path.getsize(self.list), 256 + 4096)

    def test_existing_file_is_replaced_with_force_only(self):
        self.write("out/list", b"old")
        os.chmod(self.list, 0o400)
        refused = run("verify", "--tree", "list", self.large(), cwd=self.path("out"))
        self.assertEqual((refused.returncode, refused.stderr), (1, "weightfs: list: exists; use --force to replace it\n"))
        self.assertEqual(self.read("out", "list"), b"old")
        self.assertEqual(run("verify", "--force", "--tree", "list", self.large(), cwd=self.path("out")).returncode, 0)
        self.assertEqual(os.path.getsize(self.list), 256 + 8 * 4096)
        self.assertEqual(os.listdir(self.path("out")), ["list"])

    def test_list_is_the_same_without_the_sandbox(self):
        source = self.large()
        self.assertEqual(run("verify", "--tree", self.list, source).returncode, 0)
        confined = self.read("out", "list")
        os.unlink(self.list)
        self.assertEqual(run("verify", "--sandbox=off", "--tree", self.list, source).returncode, 0)
        self.assertEqual(self.read("out", "list"), confined)
        self.assertEqual(os.listdir(self.path("out")), ["list"])

    def test_model_that_does_not_verify_gets_no_list(self):
        files = {"carton.toml": archives.NOOP.encode(), "model/a": b"right"}
        with archives.Zip(self.path("m.carton")) as out:
            for name, data in {**files, "model/a": b"wrong"}.items():
                out.write(name, data)
            out.write("MANIFEST", archives.manifest(files))
        self.write("out/list", b"old")
        done = run("verify", self.path("m.carton"), "--force", "--tree", self.list)
        self.assertEqual((done.returncode, done.stderr), (7, f"weightfs: {self.path('m.carton')}: 1 wrong file\n"))
        self.assertEqual(self.read("out", "list"), b"old")
        self.assertEqual(os.listdir(self.path("out")), ["list"])

    def test_directory_and_model_of_several_files_are_refused(self):
        os.mkdir(self.path("shards"))
        containers.write_safetensors_shards(self.path("shards"), [sample_tensors()[:2], sample_tensors()[2:]])
        shards = self.path("shards")
        self.refused("--tree", self.list, shards, status=4, message=f"{shards}: is a directory; --tree needs one file")
        index = self.path("shards", "model.safetensors.index.json")
        self.refused("--tree", self.list, index, status=4, message=f"{index}: is one of several files of a model")

    def test_target_that_cannot_be_written_is_one_line(self):
        source = self.sample()
        missing = self.path("missing", "list")
        self.refused("--tree", missing, source, status=1, message=f"{missing}: No such file or directory")
        self.refused("--tree", self.path("out"), source, status=1, message=f"{self.path('out')}: not a regular file")
        self.refused("--tree", "/dev/null", source, status=1, message="/dev/null: not a regular file")
        self.refused("--tree", "", source, status=2, message="not a file name")

    def test_source_is_never_replaced(self):
        source = self.sample("out/model.safetensors")
        before = self.read("out", "model.safetensors")
        os.link(source, self.list)
        for target in (source, self.list):
            self.refused("--tree", target, source, status=2, message="is SOURCE itself", left=["model.safetensors", "list"])
        self.assertEqual(self.read("out", "model.safetensors"), before)

    def test_full_disk_is_one_line_and_leaves_no_file(self):
        self.need_mount_namespace()
        script = 'mount -t tmpfs -o size=8k none "$1" && "$2" verify --tree "$1/list" "$3"; status=$?; ls -A "$1"; exit $status'
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", self.path("out"), WEIGHTFS, self.large()],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr, f"weightfs: {self.list}: No space left on device\n")
        self.assertEqual(len(done.stdout.splitlines()), 1, done.stdout)

    @unittest.skipIf(is_sanitized(), "builds with sanitizers have no broker")
    def test_killed_command_leaves_no_file(self):
        source = self.sample("hole.safetensors", [Tensor("w", "uint8", (64 << 30,), Hole(64 << 30))])
        process = subprocess.Popen([WEIGHTFS, "verify", "--tree", self.list, source], stdout=subprocess.DEVNULL)
        until(lambda: [entry for entry in os.scandir(self.path("out")) if entry.stat().st_size > 0], "writes nothing")
        process.kill()
        process.wait(60)
        until(lambda: not os.listdir(self.path("out")), "the temporary file is left")


class Help(TestCase):
    def test_lists_every_command_and_exit_status(self):
        text = run("--help").stdout
        for wanted in ("mount", "umount", "ls", "cat", "info", "Exit status: weightfs help exit-status"):
            self.assertIn(wanted, text)
        self.assertIn("8  the network or a server is temporarily unavailable", run("help", "exit-status").stdout)

    def test_version(self):
        self.assertRegex(run("--version").stdout, r"^weightfs \d+\.\d+\.\d+\n$")
