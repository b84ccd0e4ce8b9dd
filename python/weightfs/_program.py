"""Finds and runs the program `weightfs`."""
from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from typing import IO, Any, Dict, List, Mapping, Optional, Tuple

from ._errors import Error, Refused, error_of_exit

END_S = 15  # a server completes responses for 10 seconds
LOST = 1  # the exit status of a process for which other code has waited, or whose status an interruption has lost
OPTION = re.compile(r"[a-z][a-z0-9_]*")
# Options that choose what a command prints or where a server listens: the module sets them.
RESERVED = frozenset(("access_log", "allow_origin", "blocks", "duplicates", "follow", "help", "host", "idle_timeout", "json",
                      "layout", "listen", "metadata", "no_auth", "tensors", "tls_cert", "tls_key", "token_file", "until_eof",
                      "version"))


def installed_program() -> Optional[str]:
    """The program that pip installed with this module from a wheel that has it; None if there is none."""
    try:
        files = importlib.metadata.files("weightfs") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    scripts = [str(file.locate()) for file in files if file.name == "weightfs" and file.parent.name == "bin"]
    # pip install --target moves it, but does not say so.
    for path in (*scripts, os.path.join(folder, "bin", "weightfs")):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.normpath(path)
    return None


def find_program() -> str:
    """The path of the program: $WEIGHTFS, else that of the wheel, else the first on $PATH."""
    named = os.environ.get("WEIGHTFS")
    if named:
        return named
    found = installed_program() or shutil.which("weightfs")
    if found is None:
        raise Error("the program weightfs was not found; install it, or name it in the environment variable WEIGHTFS")
    return found


def words_of(options: Mapping[str, Any]) -> List[str]:
    """The words of a command line: `blob_dir="x"` is --blob-dir=x, True a flag, a list repeats its option; None and False are
    left out."""
    words: List[str] = []
    for name, value in options.items():
        if not OPTION.fullmatch(name) or name in RESERVED:
            raise TypeError(f"weightfs.open() has no option {name!r}")
        option = "--" + name.replace("_", "-")
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if each is True:
                words.append(option)
            elif each is not None and each is not False:
                words.append(f"{option}={os.fspath(each) if isinstance(each, os.PathLike) else each}")
    return words


def sentence_of(text: str) -> str:
    """What the program wrote to standard error: its lines without its name."""
    return "\n".join(line[10:] if line.startswith("weightfs: ") else line for line in text.splitlines()).strip()


class Process:
    """A run of the program, whose output is read from `stdout`. Only the process that started it ends it and waits for it.

    `subprocess` starts it, and nothing more: an interruption of Popen.poll() or wait() can leave a lock held, and the next wait()
    would never return. Unbuffered pipes have no lock that another thread could hold during a fork.
    """

    def __init__(self, words: List[str], stdin: int) -> None:
        self.owner = os.getpid()
        self.status: Optional[int] = None  # as Popen.returncode; None while it runs
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        try:
            # A session of its own: Ctrl-C in a terminal is for this program only.
            self._popen = subprocess.Popen(words, bufsize=0, stdin=stdin, stdout=subprocess.PIPE, stderr=self._errors,
                                           start_new_session=True)
        except OSError as error:
            self._errors.close()
            raise Error(f"{words[0]}: {error.strerror}") from error
        except BaseException:
            self._errors.close()
            raise
        self.pid = self._popen.pid
        assert self._popen.stdout is not None
        self.stdout: IO[bytes] = self._popen.stdout

    def log(self) -> str:
        """What it has written to standard error."""
        self._errors.seek(0)
        return sentence_of(self._errors.read().decode("utf-8", "replace"))

    def has_ended(self) -> bool:
        """Whether it has ended. False in processes that were forked, which cannot know."""
        if self.status is None and os.getpid() == self.owner:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.status = LOST
                return True
            if pid != 0:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def wait(self, seconds: float = float("inf")) -> bool:
        """Waits for its end, and returns whether it has ended."""
        end, delay = time.monotonic() + seconds, 0.0005
        while not self.has_ended():
            if time.monotonic() > end:
                return False
            time.sleep(delay)
            delay = min(2 * delay, 0.05)
        return True

    def end(self) -> None:
        """Ends it and waits for it. After an interruption, another call completes this."""
        if self._popen.stdin is not None:
            self._popen.stdin.close()  # a server ends with the last process that has its input
        if os.getpid() == self.owner and not self.has_ended():
            os.kill(self.pid, signal.SIGTERM)
            if not self.wait(END_S):
                os.kill(self.pid, signal.SIGKILL)
                self.wait()
        self.stdout.close()
        self._errors.close()
        self._popen.returncode = self.status or 0  # Popen has nothing to wait for


def run_program(words: List[str]) -> Tuple[str, int, str]:
    """Runs the program, and returns its output, its exit status, and what it has written to standard error."""
    process = Process([find_program(), *words], subprocess.DEVNULL)
    try:
        text = process.stdout.read().decode("utf-8")
        process.wait()
        return text, process.status or 0, process.log()
    finally:
        process.end()


def read_info(source: str, options: Mapping[str, Any]) -> Tuple[str, str]:
    """The text of `weightfs info --json --tensors SOURCE`, and what an incomplete model lacks. Raises what the exit status says,
    unless there is a model."""
    text, status, message = run_program(["info", "--json", "--tensors", *words_of(options), "--", source])
    if '"tensor_list": [' in text:
        return text, message if status != 0 else ""
    if text.startswith("["):
        raise error_of_exit(4, message_about_directory(source, text))
    if status == 0:
        message = f"{find_program()}: a version of weightfs without the index of tensors; this module needs 0.2.0 or newer"
    if os.path.isfile(source) and not os.access(source, os.R_OK):
        raise Refused(message)
    raise error_of_exit(status, message or f"{source}: weightfs ended with status {status}")


def message_about_directory(source: str, text: str) -> str:
    """The sentence for a source with several models."""
    import json
    models: List[Dict[str, Any]] = json.loads(text)
    names: List[Optional[str]] = [model.get("name", model.get("source")) for model in models[:5]]
    more = ", …" if len(models) > len(names) else ""
    return f"{source}: a directory of {len(models)} models ({', '.join(map(str, names))}{more}); open one of them"
