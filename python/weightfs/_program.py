"""Finds and runs the program `weightfs`."""
from __future__ import annotations

import os
import re
import shutil
from typing import Any, Dict, List, Mapping, Optional

from ._errors import Error, Refused, error_of_exit

OPTION = re.compile(r"[a-z][a-z0-9_]*")
# Options that choose what a command prints or where a server listens: the module sets them.
RESERVED = frozenset(("access_log", "allow_origin", "blocks", "duplicates", "follow", "help", "host", "idle_timeout", "json",
                      "layout", "listen", "metadata", "no_auth", "tensors", "tls_cert", "tls_key", "token_file", "until_eof",
                      "version"))


def find_program() -> str:
    """The path of the program: $WEIGHTFS, else that of the wheel, else the first on $PATH."""
    named = os.environ.get("WEIGHTFS")
    if named:
        return named
    bundled = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "weightfs")
    found = bundled if os.access(bundled, os.X_OK) else shutil.which("weightfs")
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


def read_info(source: str, options: Mapping[str, Any]) -> str:
    """The text of `weightfs info --json --tensors SOURCE`. Raises what the exit status says, unless there is a model: an
    incomplete one is opened."""
    import subprocess
    words = [find_program(), "info", "--json", "--tensors", *words_of(options), "--", source]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True)
    except OSError as error:
        raise Error(f"{words[0]}: {error.strerror}") from error
    text = done.stdout.decode("utf-8")
    message = sentence_of(done.stderr.decode("utf-8", "replace"))
    if '"tensor_list": [' in text:
        return text
    if text.startswith("["):
        raise error_of_exit(4, message_about_directory(source, text))
    if done.returncode == 0:
        message = f"{words[0]}: a version of weightfs without the index of tensors; this module needs 0.2.0 or newer"
    if os.path.isfile(source) and not os.access(source, os.R_OK):
        raise Refused(message)
    raise error_of_exit(done.returncode, message or f"{source}: weightfs ended with status {done.returncode}")


def message_about_directory(source: str, text: str) -> str:
    """The sentence for a source with several models."""
    import json
    models: List[Dict[str, Any]] = json.loads(text)
    names: List[Optional[str]] = [model.get("name", model.get("source")) for model in models[:5]]
    more = ", …" if len(models) > len(names) else ""
    return f"{source}: a directory of {len(models)} models ({', '.join(map(str, names))}{more}); open one of them"
