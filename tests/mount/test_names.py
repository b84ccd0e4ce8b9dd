"""Mounts without a mount point, and the help of commands."""
import os
import subprocess
import unittest

from mounting import LIMIT_S, WEIGHTFS, MountTestCase, TestCase, on_terminal, run, until


class MountPoints(MountTestCase):
    # semantics 8.7
    def mount_here(self, source, status=0, folder=None):
        point = os.path.join(folder or self.tmp, os.path.basename(source).split(".")[0])
        self.addCleanup(self.force_unmount, point)
        done = run("mount", "--no-cache", source, cwd=folder or self.tmp)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_mount_point_is_named_after_the_model_and_removed_again(self):
        source = self.sample("Tiny-1B.safetensors")
        os.mkdir(self.path("work"))
        done = self.mount_here(source, folder=self.path("work"))
        self.assertEqual((done.stdout, done.stderr), ("mounted at ./Tiny-1B; weightfs umount ./Tiny-1B unmounts it\n", ""))
        self.assertTrue(os.path.exists(self.path("work/Tiny-1B/tensors/bias")))
        self.assertEqual(run("umount", "Tiny-1B", cwd=self.path("work")).returncode, 0)
        self.assertEqual(os.listdir(self.path("work")), [])

    def test_command_to_unmount_is_quoted_for_a_shell(self):
        source = self.sample("it's a \"name\".safetensors")
        done = self.mount_here(source)
        self.assertTrue(done.stdout.startswith("mounted at ./it's a \"name\"; weightfs umount "), done.stdout)
        command = done.stdout.partition("; weightfs ")[2].removesuffix(" unmounts it\n")
        unmounted = subprocess.run(["sh", "-c", f'"{WEIGHTFS}" {command}'], cwd=self.tmp, timeout=LIMIT_S)
        self.assertEqual((unmounted.returncode, os.path.exists(self.path("it's a \"name\""))), (0, False))

    def test_empty_directory_is_used_and_kept(self):
        os.mkdir(self.path("model"))
        self.mount_here(self.sample())
        self.assertEqual(run("umount", "model", cwd=self.tmp).returncode, 0)
        self.assertEqual(os.listdir(self.path("model")), [])

    def test_other_file_with_the_name_is_refused(self):
        source = self.sample()
        self.write("full/model/old", b"old")
        self.write("file/model", b"old")
        os.mkdir(self.path("link"))
        os.symlink(self.tmp, self.path("link/model"))
        for folder in ("full", "file", "link"):
            done = self.mount_here(source, 6, self.path(folder))
            self.assertEqual(done.stderr, "weightfs: ./model: exists and is not an empty directory; "
                                          f"use weightfs mount {source} MOUNTPOINT\n")
        self.assertEqual(self.read("full/model/old"), b"old")

    def test_second_mount_of_the_name_is_refused(self):
        source = self.sample()
        self.mount_here(source)
        done = self.mount_here(source, 6)
        self.assertEqual(done.stderr, "weightfs: ./model: weightfs is already mounted there\n")
        self.assertEqual(run("umount", "model", cwd=self.tmp).returncode, 0)
        self.assertFalse(os.path.exists(self.path("model")))

    def test_failed_mount_leaves_no_directory(self):
        self.write("bad.gguf", b"GGUF")
        done = self.mount_here("bad.gguf", 5)
        self.assertEqual(done.stdout, "")
        self.assertFalse(os.path.exists(self.path("bad")))

    def log_of(self, option):
        """The log of a mount in the foreground in which a tensor was read."""
        source, point = self.sample(), self.path("mnt")
        process = subprocess.Popen([WEIGHTFS, "mount", "-f", option, source, point], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.kill)
        self.addCleanup(self.force_unmount, point)
        until(lambda: os.path.ismount(point), "it does not mount")
        self.read("mnt/tensors/bias")
        self.unmount(point)
        return process.communicate(timeout=LIMIT_S)[1]

    def test_verbose_and_quiet_are_log_levels(self):
        self.assertIn("open tensors/bias", self.log_of("-v"))
        self.assertEqual(self.log_of("-q"), "")


class Commands(TestCase):
    # semantics 8.9
    def test_version_has_three_spellings(self):
        for word in ("--version", "-V", "version"):
            done = run(word)
            self.assertRegex(done.stdout, r"^weightfs \d+\.\d+\.\d+\n$")
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_exit_statuses_are_a_topic_of_help(self):
        self.assertIn("  7  data does not match its digest\n", run("help", "exit-status").stdout)


# semantics 8.9
class SourceAlone(TestCase):
    def test_path_is_info_of_it(self):
        source = self.sample()
        for argv in ([source], ["./model.safetensors"], ["model.safetensors", "--json"], ["."], [source, source]):
            with self.subTest(argv=argv):
                alone, info = run(*argv, cwd=self.tmp), run("info", *argv, cwd=self.tmp)
                self.assertEqual((alone.returncode, alone.stdout, alone.stderr), (0, info.stdout, ""))

    def test_name_of_a_command_is_the_command(self):
        self.write("doctor", b"")
        self.assertIn("FUSE", run("doctor", cwd=self.tmp).stdout)
        self.assertIn("an empty file", run("./doctor", cwd=self.tmp).stderr)

    def test_path_without_a_model_is_refused_with_the_reason(self):
        self.sample("llama.safetensors")
        done = run("lama.safetensors", cwd=self.tmp)
        self.assertEqual((done.returncode, done.stderr),
                         (3, "weightfs: lama.safetensors: No such file or directory; did you mean llama.safetensors?\n"))
        self.assertIn("did you mean hf://org/repo?", run("org/repo", cwd=self.tmp).stderr)

    def test_mistyped_command_gets_its_suggestion(self):
        self.assertIn('unknown command "inof"; did you mean info?', run("inof", self.sample()).stderr)

    def test_without_words_the_short_help_is_printed(self):
        done = run()
        self.assertEqual((done.returncode, done.stderr), (2, ""))
        self.assertEqual(done.stdout, run("-h").stdout)
        self.assertIn("\n  weightfs model.gguf\n", done.stdout)


class Help(TestCase):
    # semantics 8.9
    COMMANDS = ("", "mount", "umount", "mounts", "ls", "cat", "info", "stats", "plot", "diff", "export", "verify", "fetch", "cache",
                "cache ls", "service", "service show", "doctor", "completion")

    def test_short_help_fits_24_lines_at_any_width(self):
        for command in self.COMMANDS:
            for columns in (80, 40):
                lines = on_terminal(*command.split(), "-h", columns=columns).replace("\r", "").splitlines()
                with self.subTest(command=command, columns=columns):
                    self.assertLessEqual(len(lines), 24)
                    self.assertLessEqual(sum(line.startswith("  -") for line in lines), 10)
                    if columns == 80:
                        self.assertEqual([line for line in lines if len(line) > columns or line.endswith(" ...")], [])

    def test_long_help_fits_the_width(self):
        for columns in (80, 40):
            lines = on_terminal("mount", "--help", columns=columns).replace("\r", "").splitlines()
            self.assertEqual([line for line in lines if len(line) > columns and " " in line.strip()], [])


if __name__ == "__main__":
    unittest.main()
