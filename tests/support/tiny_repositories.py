"""Writes tiny Hugging Face repositories, one or more for each architecture that a GGUF can be made of.

  tiny_repositories.py DIR [NAME…]     writes them (default: all) below DIR
  tiny_repositories.py --list          prints the name, tokenizer.ggml.pre and deviation of each

The same name always gives the same bytes. The name of the directory is part of the input: general.name is made of it.
Standard library only. tests/mount/golden/hub_gguf.json holds what llama.cpp's converter writes for each.
"""
import hashlib
import os
import sys

import tiny_gemmas
import tiny_llamas
import tiny_others
import tiny_qwens
import tiny_repository

BUILDERS = {**tiny_llamas.REPOSITORIES, **tiny_qwens.REPOSITORIES, **tiny_gemmas.REPOSITORIES, **tiny_others.REPOSITORIES}


def write(parent, name):
    """Writes a repository as the directory `name` in `parent`, and returns its path."""
    folder = os.path.join(parent, name)
    tiny_repository.write(BUILDERS[name](), folder)
    return folder


def digest(folder):
    """SHA-256 over the names and the bytes of all files."""
    whole = hashlib.sha256()
    for top, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(top, name)
            with open(path, "rb") as file:
                whole.update(os.path.relpath(path, folder).encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return whole.hexdigest()


def main(arguments):
    if arguments == ["--list"]:
        for name, build in BUILDERS.items():
            repository = build()
            print(name, repository.pre, repository.deviates or "-")
        return
    parent, *names = arguments
    for name in names or BUILDERS:
        print(write(parent, name))


if __name__ == "__main__":
    main(sys.argv[1:])
