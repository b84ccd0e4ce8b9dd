"""Completions of bash, zsh and fish, with the scripts printed by the program."""
import contextlib
import json
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

# A program named weightfs for typed lines: it completes, and otherwise prints its arguments.
PRINTER = """#!/bin/sh
[ "$1" != complete ] || exec "$WEIGHTFS" "$@"
printf '<%s>' "$@"
echo
"""


def safetensors(names):
    """A file with empty tensors of these names."""
    header = json.dumps({name: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for name in names}).encode()
    return len(header).to_bytes(8, "little") + header


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

    def write_model(self, name, tensors):
        with open(os.path.join(self.tmp, name), "wb") as file:
            file.write(safetensors(tensors))

    def printer(self):
        path = self.write("bin/weightfs", PRINTER)
        os.chmod(path, 0o755)
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
        environment = dict(os.environ, PATH=f"{os.path.dirname(self.printer())}:{os.environ['PATH']}", WEIGHTFS=WEIGHTFS,
                           PS1="ready> ", TERM="dumb", HOME=self.tmp, ZDOTDIR=self.tmp, INPUTRC="/dev/null", HISTFILE="")
        shell = Shell(self.argv, folder, environment)
        with contextlib.closing(shell):
            for each in setup:
                shell.wait_for("ready> ")
                shell.send(each + "\n")
            shell.wait_for("ready> ")
            shell.send(line + "\n")
            answer = shell.wait_for(">\r\n") + ">"
        return re.findall(r"<([^<>]*)>", answer)


class Program(TestCase):
    """What the program prints for the scripts."""
    shell = "sh"

    def setUp(self):
        self.tmp = tempfile.mkdtemp(prefix="weightfs-test-")
        self.addCleanup(shutil.rmtree, self.tmp)
        self.environment = {"PATH": os.environ["PATH"], "HOME": self.tmp, "WEIGHTFS_CACHE": os.path.join(self.tmp, "cache")}

    def offers(self, *words):
        done = subprocess.run([WEIGHTFS, "complete", "fish", "--", *words], capture_output=True, text=True, timeout=LIMIT_S,
                              cwd=self.tmp, env=self.environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [line.partition("\t")[0] for line in done.stdout.splitlines()]

    def model(self, name="model.safetensors", tensors=("layer.0.weight", "layer.1.weight", "head")):
        self.write_model(name, tensors)

    def test_paths_in_a_model_are_offered(self):
        self.model()
        self.assertLessEqual({"metadata.json", "tensors/", "npy/"}, set(self.offers("ls", "model.safetensors", "")))
        self.assertEqual(self.offers("cat", "model.safetensors", "metadata.json", "tensors/la"),
                         ["tensors/layer.0.weight", "tensors/layer.1.weight"])
        self.assertEqual(self.offers("cat", "model.safetensors", "tensors/absent/"), [])

    def test_tensors_are_offered(self):
        self.model()
        self.assertEqual(self.offers("stats", "model.safetensors", "la"), ["layer.0.weight", "layer.1.weight"])
        self.assertEqual(self.offers("cat", "~/model.safetensors", "la"), ["layer.0.weight", "layer.1.weight"])
        self.assertEqual(self.offers("export", "model.safetensors", "out.npz", "--tensors", "he"), ["head"])
        self.assertEqual(self.offers("fetch", "model.safetensors", "la"), [])

    def test_options_before_the_cursor_are_used(self):
        self.model("name-without-suffix")
        self.assertEqual(self.offers("stats", "--format", "gguf", "name-without-suffix", "la"), [])
        self.assertEqual(self.offers("stats", "--format", "safetensors", "name-without-suffix", "he"), ["head"])

    def test_file_that_is_not_a_model_has_no_candidates_and_no_message(self):
        self.write("broken.safetensors", "x" * 100)
        for source in ("broken.safetensors", "absent.gguf", "https://192.0.2.1/model.gguf", "hf://org/repo", "ollama:absent"):
            with self.subTest(source):
                begin = time.monotonic()
                self.assertEqual(self.offers("cat", source, "t"), [])
                self.assertLess(time.monotonic() - begin, 3, "it waited for the network")

    def test_control_characters_in_names_are_not_printed(self):
        self.model("odd.safetensors", ["la\x1b[31m", "la\nrm", "last"])
        self.assertEqual(self.offers("stats", "odd.safetensors", "la"), ["last"])

    def test_models_of_ollama_are_offered(self):
        for name in ("registry.ollama.ai/library/llama3.2/latest", "registry.ollama.ai/library/llama3.2/1b",
                     "registry.ollama.ai/someone/tuned/q4", "example.com/team/other/latest"):
            self.write(f".ollama/models/manifests/{name}")
        self.assertEqual(self.offers("ls", "ollama:"),
                         ["ollama:example.com/team/other", "ollama:llama3.2", "ollama:llama3.2:1b", "ollama:someone/tuned:q4"])
        self.assertEqual(self.offers("ls", "olla"), ["ollama:"])

    def test_repositories_in_the_cache_of_the_hub_are_offered(self):
        for name in ("models--org--repo-1", "models--gpt2", "datasets--org--data"):
            os.makedirs(os.path.join(self.tmp, ".cache/huggingface/hub", name))
        self.assertEqual(self.offers("info", "hf:"), ["hf://gpt2", "hf://org/repo-1"])
        self.assertEqual(self.offers("info", "hf://org/r"), ["hf://org/repo-1"])
        for words in (("diff",), ("diff", "a.gguf"), ("stats", "a.gguf", "--against"), ("plot", "a.gguf", "--against")):
            self.assertEqual(self.offers(*words, "hf:"), ["hf://gpt2", "hf://org/repo-1"], words)

    def test_file_that_begins_like_a_scheme_is_left_to_the_shell(self):
        self.write("hf-model.gguf")
        self.assertEqual(self.offers("ls", "hf"), [":file"])

    def test_cached_digests_are_offered(self):
        digest = "0123456789abcdef" * 4
        self.write(f"cache/v1/blobs/01/{digest}", "x")
        for name in ("index", "making"):
            os.makedirs(os.path.join(self.tmp, "cache/v1", name))
        for directory, _, _ in os.walk(os.path.join(self.tmp, "cache")):
            os.chmod(directory, 0o700)
        self.assertEqual(self.offers("cache", "pin", "0123"), [digest[:12]])
        self.assertEqual(self.offers("cache", "rm", digest[:13]), [digest])

    def test_invalid_calls_print_nothing(self):
        for words in ((), ("bash",), ("bash", "--")):
            done = subprocess.run([WEIGHTFS, "complete", *words], capture_output=True, timeout=LIMIT_S)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (2, b"", b""))


class Bash(TestCase):
    shell = "bash"
    argv = ["bash", "--norc", "--noprofile", "-i"]

    def typed(self, line, folder, *setup):
        return super().typed(line, folder, f". '{self.script}'", *setup)

    def test_script_needs_no_external_tools(self):
        with open(self.script) as file:
            self.assertEqual(re.findall(r"_get_comp_words_by_ref|_init_completion|_filedir|__ltrim", file.read()), [])

    def test_colon_and_equals_sign_in_a_word_are_supported(self):
        self.write(".ollama/models/manifests/registry.ollama.ai/library/llama3.2/1b")
        self.assertEqual(self.typed("weightfs ls ollama:ll\t --form\tgg\tu\t", self.tmp),
                         ["ls", "ollama:llama3.2:1b", "--format", "gguf"])
        self.assertEqual(self.typed("weightfs ls --format=ggu\tx", self.tmp), ["ls", "--format=gguf", "x"])
        self.assertEqual(self.typed("weightfs mount -o all,format=ggu\t", self.tmp), ["mount", "-o", "all,format=gguf"])

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
    def test_mount_points_are_completed(self):
        point = self.mount("my $models:1")
        for begin in (point[:-10], "m", r"my\ \$models:", '"my', "'my"):
            with self.subTest(begin):
                self.assertIn(self.typed(f"weightfs umount {begin}\t", self.tmp)[1], (point, "my $models:1"))

    def test_name_of_a_tensor_is_never_executed(self):
        for number, name in enumerate(("$(echo run)", "`echo run`", '";echo run;echo "', "';echo run;echo '", "\\")):
            self.write_model(f"{number}.safetensors", [f"t{name}."])
            for quote in ("", '"', "'"):
                with self.subTest(name=name, quote=quote):
                    self.assertEqual(self.typed(f"weightfs stats {number}.safetensors {quote}t\t", self.tmp),
                                     ["stats", f"{number}.safetensors", f"t{name}."])

    def test_files_are_quoted_by_the_shell(self):
        for name in ("[a] b's.gguf", " leading space.rten", 'say "x".bt', "plain.carton"):
            self.write(f"files/{name}")
        folder = os.path.join(self.tmp, "files")
        for begin, name in ((r"\[a", "[a] b's.gguf"), (r"\ le", " leading space.rten"), ("say", 'say "x".bt'),
                            ("'say", 'say "x".bt'), ("pl", "plain.carton")):
            with self.subTest(begin):
                self.assertEqual(self.typed(f"weightfs info {begin}\t", folder), ["info", name])

    def test_directories_are_offered_for_directory_arguments(self):
        self.write("here/there-dir/file")
        self.write("here/there-file")
        folder = os.path.join(self.tmp, "here")
        self.assertEqual(self.typed("weightfs mount --blob-dir=there\t", folder), ["mount", "--blob-dir=there-dir/"])
        self.assertEqual(self.typed("weightfs mount -o all,blob_dir=there\t", folder), ["mount", "-o", "all,blob_dir=there-dir/"])

    def test_typed_line_is_completed(self):
        self.assertEqual(self.typed("weightfs mount --cache-s\t1G --form\tgguf -o offl\t", self.tmp),
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
        self.assertEqual(self.typed("weightfs mount --cache-s\t1G --form\tggu\t-o offl\t ", self.tmp),
                         ["mount", "--cache-size", "1G", "--format", "gguf", "-o", "offline"])

    def test_subcommands_are_completed(self):
        self.assertEqual(self.typed("weightfs cach\tunp\t0123456789ab", self.tmp), ["cache", "unpin", "0123456789ab"])

    def test_names_in_a_model_are_quoted(self):
        self.write_model("a model.safetensors", ["the $(run) one"])
        self.assertEqual(self.typed(r"weightfs ls a\ model.safetensors tensors/th" + "\t", self.tmp),
                         ["ls", "a model.safetensors", "tensors/the $(run) one"])

    def test_names_with_colons_are_completed(self):
        self.write(".ollama/models/manifests/registry.ollama.ai/library/llama3.2/1b")
        self.assertEqual(self.typed("weightfs ls oll\tll\tx", self.tmp), ["ls", "ollama:llama3.2:1b", "x"])

    def test_files_are_quoted(self):
        self.write("files/[a] b's.gguf")
        self.assertEqual(self.typed(r"weightfs info \[a" + "\t", os.path.join(self.tmp, "files")), ["info", "[a] b's.gguf"])

    def test_directories_are_completed_behind_an_equals_sign(self):
        self.write("here/there-dir/file")
        self.assertEqual(self.typed("weightfs mount --blob-dir=there\tx", os.path.join(self.tmp, "here")),
                         ["mount", "--blob-dir=there-dir/x"])

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


class Fish(TestCase):
    """`complete -C LINE` prints what fish would offer."""
    shell = "fish"

    def offers(self, line):
        environment = dict(os.environ, HOME=self.tmp, XDG_CONFIG_HOME=self.tmp, WEIGHTFS=WEIGHTFS,
                           PATH=f"{os.path.dirname(self.printer())}:{os.environ['PATH']}")
        done = subprocess.run(["fish", "--no-config", "-c", 'source $argv[1]; complete -C $argv[2]', self.script, line],
                              cwd=self.tmp, capture_output=True, text=True, timeout=LIMIT_S, env=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [each.partition("\t")[0] for each in done.stdout.splitlines()]

    def test_commands_and_options_are_offered(self):
        self.assertEqual(self.offers("weightfs inf"), ["info"])
        self.assertEqual(self.offers("weightfs cache un"), ["unpin"])
        self.assertEqual(self.offers("weightfs cache rm --al"), ["--all"])
        self.assertEqual(set(self.offers("weightfs ls --format=gg")), {"--format=gguf", "--format=ggml"})

    def test_help_is_shown(self):
        done = subprocess.run([WEIGHTFS, "complete", "fish", "--", "inf"], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.stdout, "info\tshow what a model is: size, quantisation, memory, blocks\n")

    def test_names_in_a_model_are_offered(self):
        self.write_model("a model.safetensors", ["head"])
        self.assertEqual(self.offers(r"weightfs stats a\ model.safetensors he"), ["head"])

    def test_files_and_directories_are_offered(self):
        self.write("there-dir/file")
        self.write("there-file")
        self.assertEqual(set(self.offers("weightfs info there")), {"there-dir/", "there-file"})
        self.assertEqual(self.offers("weightfs mount --blob-dir=there"), ["--blob-dir=there-dir/"])


if __name__ == "__main__":
    unittest.main()
