"""Completions of bash and zsh, with the scripts printed by the program."""
import contextlib
import os
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest

WEIGHTFS = os.path.abspath(os.environ.get("WEIGHTFS", "build/dev/weightfs"))
LIMIT_S = 30

# Calls the function like readline: with the line, and its words as split by bash.
CALL = """
source "$1"; shift
COMP_LINE=$1 COMP_POINT=${#1}; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_weightfs
printf '%s\\0' "${COMPREPLY[@]}"
"""

# A program named weightfs for typed lines: it lists a cache, and prints its arguments.
PRINTER = """#!/bin/sh
if [ "$1 $2" = "cache ls" ]; then
  printf '%s\\n' 'digest size state' '0123456789ab 1 B' 'fedcba987654 1 B'
  exit
fi
printf '<%s>' "$@"
echo
"""


def script(shell):
    return subprocess.run([WEIGHTFS, "completion", shell], check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout


class Shell:
    """An interactive shell on a pseudo-terminal."""

    def __init__(self, argv, folder, environment):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(argv[0], argv, environment)
        self.seen = ""

    def send(self, text):
        os.write(self.terminal, text.encode())

    def wait_for(self, text):
        """Reads until `text`, and returns the output before it."""
        ends = time.monotonic() + LIMIT_S
        while text not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], max(0, ends - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {text!r} in {self.seen!r}")
            self.seen += os.read(self.terminal, 65536).decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def close(self):
        os.close(self.terminal)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


class TestCase(unittest.TestCase):
    shell = None

    def setUp(self):
        if not shutil.which(self.shell):
            self.skipTest(f"no {self.shell} here")
        self.tmp = tempfile.mkdtemp(prefix="weightfs-test-")
        self.addCleanup(shutil.rmtree, self.tmp)
        self.script = self.write("completion", script(self.shell))

    def write(self, name, text=""):
        path = os.path.join(self.tmp, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def mount(self, name):
        """A model, mounted in the temporary directory."""
        model = self.write("model.safetensors", "\2" + 7 * "\0" + "{}")
        point = os.path.join(self.tmp, name)
        subprocess.run([WEIGHTFS, "mount", "--no-cache", model, point], check=True, timeout=LIMIT_S)
        self.addCleanup(subprocess.run, [WEIGHTFS, "umount", point], check=True, timeout=LIMIT_S)
        return point

    def typed(self, line, folder, *setup):
        """The arguments that weightfs gets when this line is typed into a shell after the setup lines."""
        printer = self.write("bin/weightfs", PRINTER)
        os.chmod(printer, 0o755)
        environment = dict(os.environ, PATH=f"{os.path.dirname(printer)}:{os.environ['PATH']}", PS1="ready> ", TERM="dumb",
                           HOME=self.tmp, ZDOTDIR=self.tmp, INPUTRC="/dev/null", HISTFILE="")
        shell = Shell(self.argv, folder, environment)
        with contextlib.closing(shell):
            for each in setup:
                shell.wait_for("ready> ")
                shell.send(each + "\n")
            shell.wait_for("ready> ")
            shell.send(line + "\n")
            answer = shell.wait_for(">\r\n") + ">"
        return re.findall(r"<([^<>]*)>", answer)


class Bash(TestCase):
    shell = "bash"
    argv = ["bash", "--norc", "--noprofile", "-i"]

    def offers(self, *words, line=None, folder="/", path=None, lines=None):
        """The completions of the last of these words."""
        environment = dict(os.environ, PATH=path or os.environ["PATH"])
        done = subprocess.run(["bash", "--norc", "-c", CALL, "bash", self.script, line or " ".join(words), *words], cwd=folder,
                              capture_output=True, text=True, timeout=LIMIT_S, env=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [each for each in done.stdout.split("\0") if each]

    def test_commands_are_offered(self):
        self.assertLessEqual({"mount", "umount", "ls", "cat", "info", "cache"}, set(self.offers("weightfs", "")))
        self.assertEqual(self.offers("weightfs", "inf"), ["info"])

    def test_subcommands_are_offered(self):
        self.assertLessEqual({"ls", "du", "rm", "pin"}, set(self.offers("weightfs", "cache", "")))
        self.assertEqual(self.offers("weightfs", "cache", "un"), ["unpin"])

    def test_options_of_the_command_are_offered(self):
        self.assertEqual(self.offers("weightfs", "cache", "rm", "--a"), ["--all"])
        self.assertIn("--cache-size", self.offers("weightfs", "mount", "--"))
        self.assertIn("-f", self.offers("weightfs", "mount", "-"))
        self.assertNotIn("--foreground", self.offers("weightfs", "ls", "-"))

    def test_no_options_after_double_dash(self):
        self.assertEqual(self.offers("weightfs", "ls", "--", "-"), [])

    def test_formats_are_offered(self):
        self.assertEqual(self.offers("weightfs", "ls", "--format", "gg"), ["gguf", "ggml"])

    def test_formats_are_offered_after_an_equals_sign(self):
        self.assertEqual(self.offers("weightfs", "ls", "--format", "=", "gg", line="weightfs ls --format=gg"), ["gguf", "ggml"])
        self.assertIn("rten", self.offers("weightfs", "ls", "--format", "=", line="weightfs ls --format="))

    def test_mount_options_are_offered_in_a_comma_list(self):
        self.assertIn("offline", self.offers("weightfs", "mount", "-o", ""))
        self.assertEqual(self.offers("weightfs", "mount", "-o", "all,offl"), ["all,offline"])
        self.assertEqual(self.offers("weightfs", "mount", "-o", "cache"), ["cache_size="])

    def test_mount_option_is_offered_once(self):
        self.assertEqual(self.offers("weightfs", "mount", "-o", "offline,offl"), [])

    def test_values_of_mount_options_are_offered(self):
        line = "weightfs mount -o all,format=gg"
        self.assertEqual(self.offers("weightfs", "mount", "-o", "all,format", "=", "gg", line=line), ["gguf", "ggml"])

    def test_values_of_other_options_are_offered(self):
        self.assertEqual(self.offers("weightfs", "mount", "--log-level", "w"), ["warning"])
        self.assertEqual(self.offers("weightfs", "mount", "-o", "uid", "=", "nobod", line="weightfs mount -o uid=nobod"),
                         ["nobody"])
        self.assertEqual(self.offers("weightfs", "mount", "--timeout", "3"), [])

    def test_colon_in_a_name_is_supported(self):
        line = "weightfs mount ollama:llama3.2 --off"
        self.assertEqual(self.offers("weightfs", "mount", "ollama", ":", "llama3.2", "--off", line=line), ["--offline"])

    def test_shells_are_offered(self):
        self.assertEqual(self.offers("weightfs", "completion", ""), ["bash", "zsh"])

    def test_cached_digests_are_offered(self):
        digests = ["0123456789ab", "0123ffffffff", "fedcba987654"]
        listing = "\n".join(["digest  size  state", *(f"{digest}  1 B  complete" for digest in digests)])
        program = self.write("bin/weightfs", f"#!/bin/sh\n[ \"$*\" = 'cache ls' ] && echo '{listing}'\n")
        os.chmod(program, 0o755)
        path = f"{os.path.dirname(program)}:{os.environ['PATH']}"
        self.assertEqual(self.offers("weightfs", "cache", "pin", "0123", path=path), digests[:2])
        self.assertEqual(self.offers("weightfs", "cache", "rm", digests[0], "fe", path=path), digests[2:])

    def test_script_needs_no_external_tools(self):
        with open(self.script) as file:
            self.assertEqual(re.findall(r"_get_comp_words_by_ref|_init_completion|_filedir|__ltrim", file.read()), [])

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_mount_points_are_offered_quoted(self):
        point = self.mount("my $models:1")
        typed = point[:point.index("my")]
        self.assertEqual(self.offers("weightfs", "umount", typed), [typed + r"my\ \$models:1"])
        self.assertEqual(self.offers("weightfs", "umount", "m", folder=self.tmp), [r"my\ \$models:1"])
        self.assertEqual(self.offers("weightfs", "umount", r"my\ \$models", ":", folder=self.tmp,
                                     line=r"weightfs umount my\ \$models:"), ["1"])
        self.assertEqual(self.offers("weightfs", "umount", '"my', folder=self.tmp), [r"my \$models:1"])

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_mount_point_name_is_never_executed(self):
        load = f". '{self.script}'"
        for number, name in enumerate(("$(echo run)", "`echo run`", '";echo run;echo "', "';echo run;echo '", "\\")):
            self.mount(f"{number}{name}.")
            for quote in ("", '"', "'"):
                with self.subTest(name=name, quote=quote):
                    self.assertEqual(self.typed(f"weightfs umount {quote}{number}\t", self.tmp, load),
                                     ["umount", f"{number}{name}."])
        self.mount("m!!")
        self.assertEqual(self.offers("weightfs", "umount", '"m', folder=self.tmp), [])
        self.assertEqual(self.offers("weightfs", "umount", "'m", folder=self.tmp), ["m!!"])

    def test_files_are_quoted_by_the_shell(self):
        for name in ("[a] b's.gguf", " leading space.rten", 'say "x".bt', "plain.carton"):
            self.write(f"files/{name}")
        folder, load = os.path.join(self.tmp, "files"), f". '{self.script}'"
        for begin, name in ((r"\[a", "[a] b's.gguf"), (r"\ le", " leading space.rten"), ("say", 'say "x".bt'),
                            ("'say", 'say "x".bt'), ("pl", "plain.carton")):
            with self.subTest(begin):
                self.assertEqual(self.typed(f"weightfs info {begin}\t", folder, load), ["info", name])

    def test_directories_are_offered_for_directory_arguments(self):
        self.write("here/there-dir/file")
        self.write("here/there-file")
        folder, load = os.path.join(self.tmp, "here"), f". '{self.script}'"
        self.assertEqual(self.typed("weightfs mount --blob-dir=there\t", folder, load), ["mount", "--blob-dir=there-dir/"])
        self.assertEqual(self.typed("weightfs mount -o all,blob_dir=there\t", folder, load),
                         ["mount", "-o", "all,blob_dir=there-dir/"])

    def test_typed_line_is_completed(self):
        load = f". '{self.script}'"
        self.assertEqual(self.typed("weightfs mount --cache-s\t1G --form\tgguf -o offl\t\t", self.tmp, load),
                         ["mount", "--cache-size", "1G", "--format", "gguf", "-o", "offline"])


class Zsh(TestCase):
    shell = "zsh"
    argv = ["zsh", "-f", "-i"]

    def typed(self, line, folder, *setup):
        return super().typed(line, folder, "autoload -Uz compinit; compinit -u -D", f". '{self.script}'", *setup)

    def test_script_is_valid(self):
        done = subprocess.run(["zsh", "-n", self.script], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with open(self.script) as file:
            self.assertEqual(file.readline(), "#compdef weightfs\n")

    def test_typed_line_is_completed(self):
        self.assertEqual(self.typed("weightfs mount --cache-s\t1G --form\tggu\t -o offl\t ", self.tmp),
                         ["mount", "--cache-size=1G", "--format=gguf", "-o", "offline"])

    def test_subcommands_are_completed(self):
        self.assertEqual(self.typed("weightfs cach\tunp\t0123456789ab", self.tmp), ["cache", "unpin", "0123456789ab"])

    def test_files_are_quoted(self):
        self.write("files/[a] b's.gguf")
        self.assertEqual(self.typed(r"weightfs info \[a" + "\t", os.path.join(self.tmp, "files")), ["info", "[a] b's.gguf"])

    def test_cached_digests_are_completed(self):
        self.assertEqual(self.typed("weightfs cache pin 01\t fe\t ", self.tmp), ["cache", "pin", "0123456789ab", "fedcba987654"])

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_mount_points_are_completed(self):
        self.mount("my $models:1")
        self.assertEqual(self.typed("weightfs umount m\t ", self.tmp), ["umount", "my $models:1"])

    def test_mount_options_and_their_values_are_completed(self):
        self.assertEqual(self.typed("weightfs mount -o all,format=ggu\t ", self.tmp), ["mount", "-o", "all,format=gguf"])

    def test_installed_script_completes(self):
        folder = os.path.join(self.tmp, "functions")
        os.makedirs(folder)
        shutil.copy(self.script, os.path.join(folder, "_weightfs"))
        line = "weightfs veri\tx"
        self.assertEqual(TestCase.typed(self, line, self.tmp, f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D"),
                         ["verify", "x"])


if __name__ == "__main__":
    unittest.main()
