"""scripts/check-commit: which messages of commits it accepts, and what it does without the base or the history."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "check-commit"
LIMIT_S = 60
NO_VERB = 'the first word of "{}" is not a verb in its base form'


class CheckCommit(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weightfs-commits-ü -")
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name) / "source"
        # The settings of the user and of the repository that runs this test are others.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self.environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}
        self.install(self.home)
        self.git("init", "--quiet", "--initial-branch=main")
        self.base = self.commit("The base has no prefix and ends with a full stop.")

    def install(self, home):
        (home / "scripts").mkdir(parents=True)
        shutil.copy(SCRIPT, home / "scripts")

    def git(self, *argv, home=None):
        return subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *argv], cwd=home or self.home,
                              env=self.environment, check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout.strip()

    def commit(self, message, files=1):
        for number in range(files):
            with open(self.home / f"file {number}", "a") as file:
                file.write("x\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty-message", "-m", message)
        return self.git("rev-parse", "HEAD")

    def check(self, *argv, home=None, **more):
        """The finished script, of this repository or of the tree `home`."""
        return subprocess.run([(home or self.home) / "scripts" / "check-commit", *argv], env=self.environment | more,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)

    def assert_passes(self, done, printed=""):
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, printed, ""))

    def assert_fails(self, done, *expected):
        """The commits that are printed, in this order: hash, subject, and the reasons."""
        lines = "".join(f"{commit[:10]} {subject}\n" + "".join(f"    {reason}\n" for reason in reasons)
                        for commit, subject, *reasons in expected)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, lines, ""))

    def test_imperatives_pass(self):
        for subject in ("Cache: verify blobs while writing", "Verify blobs", "Comments, changelog: use the present tense",
                        "Summary: embed the sentence", "Server: bypass the cache", "Names: process aliases",
                        'Keep "a: b" as a name',
                        "C++20: re-read the header", "Cache: " + "verify ü".ljust(53, "x"), 'Revert "Cache: verify blobs"'):
            self.commit(subject)
        self.assert_passes(self.check(self.base))

    def test_other_first_words_fail(self):
        subjects = ("a table", "the list of rows", "no conversion", "one function", "figures of tensors", "verified blobs",
                    "verifying blobs", "verifies blobs", "how files are tested", "HDF5 files", "GGUF files", "24 commands",
                    "rings.md names the options", "unique names")
        commits = [(self.commit("Area: " + subject), "Area: " + subject, NO_VERB.format(subject)) for subject in subjects]
        commits += [(self.commit(subject), subject, NO_VERB.format(subject)) for subject in ("Fixed a bug", "fixup! Fix a bug", "")]
        self.assert_fails(self.check(self.base), *commits)

    def test_long_subject_and_full_stop_fail(self):
        long, stop = "Cache: verify " + "ü" * 47, "Cache: verify blobs."
        joined = "Cache: verify blobs\nand files, without a blank line after the subject"
        commits = [
            (self.commit(long), long, "the subject has 61 characters; the limit is 60"),
            (self.commit(stop), stop, "the subject ends with a full stop"),
            (self.commit(joined), joined.replace("\n", " "), "the subject has 69 characters; the limit is 60"),
        ]
        self.assert_fails(self.check(self.base), *commits)

    def test_many_files_need_a_body(self):
        subject, reason = "Cache: verify blobs", "4 files change, and no body gives the reason"
        self.commit(subject, files=3)
        self.commit(subject + "\n\nA damaged file was cached.\n\nSigned-off-by: A <a@example.org>", files=4)
        without = self.commit(subject, files=4)
        signed = self.commit(subject + "\n\nCo-authored-by: B <b@example.org>", files=4)
        self.assert_fails(self.check(self.base), (without, subject, reason), (signed, subject, reason))

    def test_commits_up_to_the_base_and_merges_are_not_checked(self):
        self.git("checkout", "--quiet", "-b", "other")
        self.commit("Cache: verify blobs", files=2)
        self.git("checkout", "--quiet", "main")
        base = self.commit("a commit before the base.")
        self.git("merge", "--quiet", "-m", "the other branch.", "other", "--strategy-option=ours")
        self.assert_passes(self.check(base))

    def test_branch_that_began_before_the_base_is_checked_from_there(self):
        self.git("checkout", "--quiet", "-b", "other")
        failing = self.commit("A table")
        self.git("checkout", "--quiet", "main")
        base = self.commit("The next base.")
        self.git("checkout", "--quiet", "other")
        done = self.check(base)
        note, _, rest = done.stdout.partition("\n")
        self.assertEqual(note, f"check-commit: {base} is not an ancestor of HEAD; "
                         f"checking the commits after {self.base}, which both have")
        self.assertEqual((done.returncode, rest.splitlines()[0]), (1, f"{failing[:10]} A table"))

    def test_shallow_clone_without_the_base_is_checked_as_far_as_it_goes(self):
        self.commit("A commit that the clone does not have.", files=9)
        self.commit("Cache: verify blobs", files=2)  # the oldest one in the clone, where it seems to add all files
        failing = self.commit("A table")
        clone = self.home.parent / "clone"
        self.git("clone", "--quiet", "--depth=2", self.home.as_uri(), str(clone))
        done = self.check(self.base, home=clone)
        note, _, rest = done.stdout.partition("\n")
        self.assertEqual(note, "check-commit: this clone is shallow and has no common commit with the base; "
                         "checking the commits that are here")
        self.assertEqual((done.returncode, rest), (1, f"{failing[:10]} A table\n    {NO_VERB.format('A table')}\n"))

    def test_unknown_base_is_an_error_unless_it_is_the_default(self):
        done = self.check("unknown")
        self.assertEqual((done.returncode, done.stdout), (2, "check-commit: not checked: the history does not contain unknown\n"))
        done = self.check()
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, "^check-commit: not checked: the history does not contain [0-9a-f]{40}\n$")

    def test_tree_without_history_passes(self):
        unpacked = self.home / "unpacked"  # below a folder that has a history
        self.install(unpacked)
        self.assert_passes(self.check(home=unpacked), "check-commit: not checked: this source tree has no history\n")

    def test_machine_without_git_passes(self):
        programs = self.home.parent / "bin"
        programs.mkdir()
        (programs / "python3").symlink_to(sys.executable)
        done = self.check(self.base, PATH=str(programs))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, "^check-commit: not checked: .*'git'\n$")

    def test_option_prints_the_usage(self):
        done = self.check("--help")
        self.assertEqual((done.returncode, done.stderr), (2, "usage: check-commit [BASE]\n"))


if __name__ == "__main__":
    unittest.main()
