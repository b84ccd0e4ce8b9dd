#!/usr/bin/python3
"""Puts small faults into the code, one at a time, and says which of them the first ring of tests finds.

  tests/mutate.py [--count N] [--seed N] [--skip N] [--list]
             --count: how many faults (default: 40), spread over all rooms; --seed: which ones; --skip: begin with a later
             one; --list: only print them

Needs a tree without changes, and builds build/test there. A fault is a comparison that includes or excludes its limit, or is the
opposite, a check that is dropped, a number that is off by one, `and` for `or`, or a wrong truth value. Each takes some minutes. A
fault that changes nothing (a limit that no input reaches exactly) cannot be found. The last line is `N of N faults found`.
"""
import argparse
import collections
import concurrent.futures
import os
import random
import re
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(HERE, "suite"))
import jobs  # noqa: E402
from tables import EXCLUSIVE, WORKERS  # noqa: E402

ROOMS = ("base", "formats", "numbers", "cache", "protocols", "sources", "fs", "report", "serve", "cli")
BUILD = os.path.join(HOME, "build", "test")
FAULTS = [  # a pattern, what replaces it
    (r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "),
    (r" && ", " || "), (r" \|\| ", " && "), (r" \+ 1\b", ""), (r" - 1\b", ""), (r"\breturn true;", "return false;"),
    (r"\breturn false;", "return true;"), (r"\bif \((?=.*\) return failure\()", "if (false && ")]
NO_CODE = re.compile(r"^\s*(//|#|template|\*)|<<|>>|operator|static_assert|requires")

Fault = collections.namedtuple("Fault", "path line before after")


def faults_in(room):
    for base, _, names in os.walk(os.path.join(HOME, room)):
        for name in sorted(names):
            if not name.endswith(".cc"):
                continue
            path = os.path.join(base, name)
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")
            for number, line in enumerate(lines):
                if NO_CODE.search(line):
                    continue
                for pattern, other in FAULTS:
                    found = re.search(pattern, line)
                    if found and line.count('"', 0, found.start()) % 2 == 0:
                        yield Fault(os.path.relpath(path, HOME), number, line, line[:found.start()] + other + line[found.end():])


def chosen(count, seed):
    """As many of each room, in turn: no two of one file."""
    dice = random.Random(seed)
    rooms = [sorted(faults_in(room)) for room in ROOMS]
    for room in rooms:
        dice.shuffle(room)
    found, files = [], set()
    while len(found) < count and any(rooms):
        for room in rooms:
            while room and room[-1].path in files:
                room.pop()
            if room and len(found) < count:
                found.append(room.pop())
                files.add(found[-1].path)
    return found


def write(fault, line):
    path = os.path.join(HOME, fault.path)
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    lines[fault.line] = line
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def builds():
    return subprocess.run(["cmake", "--build", BUILD], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def finder(room):
    """The title of the first job that fails: binaries of the room first. None if all pass."""
    build = jobs.Build("plain", BUILD, os.path.join(BUILD, "weightfs"))
    every = [job for job in jobs.quick_jobs(build) if not job.name.startswith(EXCLUSIVE)]
    every.sort(key=lambda job: (job.name != f"{room}_test", not job.title.endswith(", plain")))
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        running = {pool.submit(job.run): job for job in every}
        for done in concurrent.futures.as_completed(running):
            if done.result().failed:
                pool.shutdown(wait=False, cancel_futures=True)
                return running[done].title
    return None


def tried(fault):
    """Who finds a fault; "" if it does not compile."""
    write(fault, fault.after)
    try:
        return finder(fault.path.partition("/")[0]) if builds() else ""
    finally:
        write(fault, fault.before)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests send it, and a shell's background job ignores it
    faults = chosen(args.count, args.seed)[args.skip:]
    if not args.list:
        if subprocess.run(["git", "-C", HOME, "diff", "--quiet"]).returncode != 0:
            sys.exit("mutate: the tree has changes")
        subprocess.run(["cmake", "--preset", "test", "-B", BUILD], cwd=HOME, stdout=subprocess.DEVNULL, check=True)
        if not builds() or (failed := finder("base")):
            sys.exit(f"mutate: the tree without a fault does not pass: {failed or 'it does not build'}")
    found = compiled = 0
    for fault in faults:
        print(f"{fault.path}:{fault.line + 1}\n-{fault.before}\n+{fault.after}", flush=True)
        if args.list:
            continue
        by = tried(fault)
        compiled += by != ""
        found += bool(by)
        print(f"  {'does not compile' if by == '' else f'found by {by}' if by else 'NOT FOUND'}", flush=True)
    if not args.list:
        builds()
        print(f"{found} of {compiled} faults found")


if __name__ == "__main__":
    main()
