#!/usr/bin/python3
"""Puts small faults into the code, all in one build behind a switch, and says which of them the first ring of tests finds.

  tests/mutate.py [--count N] [--seed N] [--skip N] [--only N...] [--list] [--keep]
             --count: how many faults (default: 40), spread over all rooms; --seed: which ones (default: 1)
             --skip: begin after this number; --only: try these numbers; --list: print them, and try none
             --keep: leave the copy for the next run, which then builds only what has changed, and runs the tests without a fault
             only if the programs have changed. A run that fails leaves it, too.

It copies the tree to build/mutants, so the tree may have changes, and builds there what build/test has no compiled tests of. In the
copy each line that is chosen has two forms (tests/suite/faults.py), of which WEIGHTFS_FAULT=N chooses the faulty one. The tests
are those of the tree. First all must pass without a fault; each program records there which faults its tests reach, and how long
it takes. Then each fault is tried with the programs that reach it: the unit tests of its room, all other unit tests, and the rest
of the ring, each the shortest first, until one fails twice, crashes, or takes four times as long and 30 seconds.

It prints a line for each fault when the result is known: its number, where it is, the code before and after, and what finds it. The
last line is `N of N faults found`. A fault that changes nothing (a limit that no input reaches exactly) cannot be found.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(HERE, "suite"))
import faults  # noqa: E402
import jobs  # noqa: E402
import running  # noqa: E402
from tables import EXCLUSIVE, WORKERS  # noqa: E402

COPY = os.path.join(HOME, "build", "mutants")
BUILD = os.path.join(COPY, "build", "test")
PROGRAM = os.path.join(BUILD, "weightfs")
NOT_COPIED = ("build", ".git", "__pycache__")
PATIENCE_S = 5  # for a server that is to unmount and end


def say(text):
    print(text, flush=True)


# ---- the copy and its build

def written(path, content):
    """Writes a file that has another content. One that has it keeps its time, so that it is not compiled again."""
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == content:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def files_below(folder):
    for base, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in NOT_COPIED]
        yield from (os.path.relpath(os.path.join(base, name), folder) for name in names)


def write_copy(numbered):
    """Makes the copy equal to the tree, but for the faults."""
    by_path = {fault.path: (number, fault) for number, fault in numbered.items()}
    wanted = {name for name in files_below(HOME) if name not in NOT_COPIED}  # .git of a work tree is a file
    for name in wanted:
        with open(os.path.join(HOME, name), "rb") as file:
            content = file.read()
        if name in by_path:
            content = faults.faulty(content.decode(), *by_path[name]).encode()
        written(os.path.join(COPY, name), content)
        shutil.copymode(os.path.join(HOME, name), os.path.join(COPY, name))
    written(os.path.join(COPY, faults.HEADER), faults.CODE.encode())
    for name in set(files_below(COPY)) - wanted - {faults.HEADER, "baseline.json"}:
        os.unlink(os.path.join(COPY, name))


def cmake(folder, *argv):
    """The output of a run that fails; None if it does not."""
    done = subprocess.run(["cmake", *argv], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace")
    return done.stdout if done.returncode else None


def require(output):
    if output is not None:
        sys.exit(f"{output[-8000:]}\nmutate: the build failed")


def build(numbered):
    """Builds the copy with these faults. Returns those that compile."""
    tests = os.path.join(HOME, "build", "test")
    require(cmake(HOME, "--preset", "test"))
    require(cmake(HOME, "--build", tests, "--target", "compiled_tests"))
    while True:
        write_copy(numbered)
        require(cmake(COPY, "--preset", "test", "-D", "WEIGHTFS_WERROR=OFF", "-D", f"WEIGHTFS_COMPILED_TESTS={tests}"))
        output = cmake(COPY, "--build", BUILD, "--", "-k", "0")
        if output is None:
            return numbered
        wrong = {number for number, fault in numbered.items() if re.search(rf"{fault.path}:\d+:\d+: error: ", output)}
        if not wrong:
            require(output)
        for number in sorted(wrong):
            say(f"{described(number, numbered[number])}  does not compile")
        numbered = {number: fault for number, fault in numbered.items() if number not in wrong}


# ---- a job in a process of its own, for its environment

def jobs_of_ring(program):
    """The jobs of the first ring that start code of the product."""
    for job in jobs.quick_jobs(jobs.Build("plain", BUILD, program)):
        file = os.path.join(HERE, f"{job.name}.py")
        if os.path.exists(file):
            with open(file) as text:
                if '"WEIGHTFS"' not in text.read():
                    continue  # it checks texts
        yield job


def run_job(title, program, limit_s):
    running.TIME_LIMIT = limit_s
    job, = (job for job in jobs_of_ring(program) if job.title == title)
    result = job.run()
    late = f"no end after {limit_s} s" if "ended after" in result.output and not result.failures else ""
    status = re.search(r"ended with status -?\d+", result.output)
    how = sorted(result.failures)[:1] or [late or (status[0] if status else "a failure after the tests")]
    json.dump({"failed": result.failed, "repeats": bool(result.failures), "how": how[0], "output": result.output[-8000:]},
              sys.stdout)


def unmount_dead():
    """Unmounts what has no server any more, which tests that count mounts would find."""
    with open("/proc/self/mountinfo") as mounts:
        points = [line.split()[4].encode().decode("unicode_escape") for line in mounts if " - fuse.weightfs " in line]
    for point in points:
        try:
            found = subprocess.run(["stat", "--", point], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE_S,
                                   env={**os.environ, "LC_ALL": "C"})
        except subprocess.TimeoutExpired:
            continue  # the server of another test is slow
        if b"not connected" in found.stderr:
            subprocess.run(["fusermount3", "-u", "-z", "-q", point])


def end_left(trial):
    """Ends servers that a failed test has left, which inherited this value: they unmount, or are killed."""
    def left():
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    if f"WEIGHTFS_TRIAL={trial}".encode() in file.read().split(b"\0"):
                        yield int(path.split("/")[2])
            except OSError:
                pass  # it has ended, or is another user's
    until = time.monotonic() + PATIENCE_S
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in left():
            try:
                os.kill(pid, number)
            except OSError:
                pass
        while time.monotonic() < until and any(left()):
            time.sleep(0.1)
    unmount_dead()


def outcome(title, program, limit_s, **variables):
    """What run_job() says of a job with these variables."""
    trial = f"{os.getpid()}.{time.monotonic_ns()}"
    argv = [sys.executable, os.path.abspath(__file__), "--job", title, program, str(limit_s)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, **variables, "WEIGHTFS_TRIAL": trial})
    result = json.loads(done.stdout)
    if result["failed"]:
        end_left(trial)
    return result


# ---- without a fault

class Baseline:
    """The jobs in {title: {"seconds", "reached": numbers of faults}}, all of which pass without a fault."""

    def __init__(self, program, folder, numbers):
        self.program, self.folder, self.numbers = program, folder, sorted(numbers)
        self.known, self.failed = {}, []

    def run(self, job):
        file = os.path.join(self.folder, re.sub(r"\W+", "_", job.title))
        with open(file, "wb") as marks:
            marks.truncate(faults.MAX_FAULTS)
        os.chmod(file, 0o666)  # servers of other users write there, too
        begun = time.monotonic()
        result = outcome(job.title, self.program, running.TIME_LIMIT, WEIGHTFS_REACHED=file)
        seconds = time.monotonic() - begun
        with open(file, "rb") as marks:
            reached = [number for number, mark in enumerate(marks.read()) if mark]
        if result["failed"]:  # once more, without the file that it may not expect; then what it reaches is unknown
            result, reached = outcome(job.title, self.program, running.TIME_LIMIT), self.numbers
        if result["failed"]:
            self.failed.append(f"{result['output']}\nmutate: fails without a fault: {job.title}: {result['how']}")
        else:
            self.known[job.title] = {"seconds": seconds, "reached": reached}

    def complete(self, ring):
        """Runs the jobs of which nothing is kept from an earlier run with the same programs. Returns all."""
        programs = [PROGRAM, *sorted(glob.glob(os.path.join(BUILD, "tests", "*_test")))]
        of = [[os.stat(path).st_mtime_ns for path in programs], self.numbers]
        path = os.path.join(COPY, "baseline.json")
        if os.path.exists(path):
            with open(path) as file:
                kept = json.load(file)
            self.known = kept["known"] if kept["of"] == of else {}
        for group, workers in groups_of([job for job in ring if job.title not in self.known]):
            with concurrent.futures.ThreadPoolExecutor(workers) as pool:
                list(pool.map(self.run, group))
        with open(path, "w") as file:
            json.dump({"of": of, "known": self.known}, file)
        if self.failed:
            sys.exit("\n".join(self.failed))
        return self.known


def groups_of(ring):
    """As in the first ring: (jobs, how many at once)."""
    exclusive = [job for job in ring if job.name.startswith(EXCLUSIVE)]
    return (([job for job in ring if job not in exclusive], WORKERS), (exclusive, 1))


# ---- with the faults

def described(number, fault):
    return f"{number:2} {fault.path}:{fault.line + 1}  {fault.before} → {fault.after}"


class Trials:
    def __init__(self, numbered, program, known):
        self.numbered, self.program, self.known = numbered, program, known
        self.found = {}  # number -> what found it
        self.lock = threading.Lock()
        self.busy = collections.defaultdict(threading.Lock)  # a job is not run twice at once
        self.left = collections.Counter()  # jobs of each fault

    def stage(self, number, job):
        if job.name == f"{self.numbered[number].path.partition(os.sep)[0]}_test":
            return 0
        return 1 if job.title.endswith(", plain") else 2

    def trials_of(self, group):
        """(number, job), in the order in which they are tried."""
        pairs = [(number, job) for job in group for number in self.numbered if number in self.known[job.title]["reached"]]
        return sorted(pairs, key=lambda pair: (self.stage(*pair), pair[0], self.known[pair[1].title]["seconds"]))

    def run(self, ring):
        groups = [(self.trials_of(group), workers) for group, workers in groups_of(ring)]
        self.left.update(number for trials, _ in groups for number, _ in trials)
        for number in sorted(self.numbered.keys() - self.left.keys()):
            say(f"{described(number, self.numbered[number])}  NOT FOUND: no test reaches it")
        for trials, workers in groups:
            with concurrent.futures.ThreadPoolExecutor(workers) as pool:
                list(pool.map(lambda pair: self.attempt(*pair), trials))

    def attempt(self, number, job):
        by = None
        with self.busy[job.title]:
            if number not in self.found:
                by = self.finder(number, job)
        with self.lock:
            self.left[number] -= 1
            if by and number not in self.found:
                self.found[number] = by
                say(f"{described(number, self.numbered[number])}  found by {by}")
            elif number not in self.found and self.left[number] == 0:
                reached = sum(number in each["reached"] for each in self.known.values())
                say(f"{described(number, self.numbered[number])}  NOT FOUND: {reached} programs of tests reach it")

    def finder(self, number, job):
        """The job and its first test that fails with a fault, if one does."""
        limit_s = round(4 * self.known[job.title]["seconds"] + 30)
        variables = {"WEIGHTFS_FAULT": str(number), "GTEST_FAIL_FAST": "1"}
        result = outcome(job.title, self.program, limit_s, **variables)
        if result["failed"] and result["repeats"]:
            result = outcome(job.title, self.program, limit_s, **variables)
        return f"{job.title.removesuffix(', plain')}: {result['how']}" if result["failed"] else None


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--job", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = parse()
    if args.job:
        return run_job(args.job[0], args.job[1], int(args.job[2]))
    os.environ["ATTACKS"] = "ci"
    for name in ("WEIGHTFS_FAULT", "WEIGHTFS_REACHED"):
        os.environ.pop(name, None)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests send it, and a shell's background job ignores it
    numbered = dict(enumerate(faults.chosen(HOME, args.count, args.seed), 1))
    wanted = [number for number in numbered if number > args.skip and number in (args.only or numbered)]
    if args.list:
        return say("\n".join(described(number, numbered[number]) for number in wanted))
    begun = time.monotonic()
    numbered = build(numbered)
    say(f"== built with {len(numbered)} faults, at {time.monotonic() - begun:.0f} s")
    with tempfile.TemporaryDirectory(prefix="weightfs-mutants-") as folder:
        os.chmod(folder, 0o755)
        program = running.reachable(PROGRAM, os.path.join(folder, "program"))
        ring = list(jobs_of_ring(program))
        known = Baseline(program, folder, numbered).complete(ring)
        say(f"== {len(known)} programs of tests pass without a fault, at {time.monotonic() - begun:.0f} s")
        trials = Trials({number: numbered[number] for number in wanted if number in numbered}, program, known)
        trials.run(ring)
    if not args.keep:
        shutil.rmtree(COPY)
    say(f"== at {time.monotonic() - begun:.0f} s")
    return say(f"{len(trials.found)} of {len(trials.numbered)} faults found")


if __name__ == "__main__":
    main()
