"""Runs a program or a file of Python tests to its end, within a time limit, and says what came of it."""
import collections
import faulthandler
import glob
import inspect
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TIME_LIMIT = 15 * 60 if "EXHAUSTIVE" not in os.environ else 3 * 60 * 60  # of a job, in seconds
KNOWN_LEAKS = os.path.join(HOME, "tests", "support", "leaks.txt")
RUN = os.path.join(HOME, "tests", "run.py")

# `failures`: the names of the failed tests, if the job may be run once more: not after a crash or a finding of a sanitizer.
Result = collections.namedtuple("Result", "passed failed skipped output times failures spent", defaults=("", {}, frozenset(), 0))


def children_of(pid):
    """The processes below a process, itself last."""
    found = []
    for stat in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(stat) as file:
                for child in file.read().split():
                    found += children_of(child)
        except OSError:
            pass  # it has ended
    return found + [int(pid)]


def end(process):
    """Kills a process and all processes below it, also those in sessions of their own."""
    for pid in children_of(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        pass  # it waits for the kernel, which a signal cannot end


def processor_seconds(pid):
    """The processor time of a process that has ended and was not waited for, and of its children."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def run_to_end(argv, environment=None):
    """Runs a program; returns its status, its output and its processor time. The output goes to a file: a process that a test
    leaves behind would keep a pipe open."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment)
        late, spent = "", 0
        ending = os.pidfd_open(process.pid)
        has_ended, _, _ = select.select([ending], [], [], TIME_LIMIT)
        os.close(ending)
        if has_ended:
            spent = processor_seconds(process.pid)
            process.wait()
        else:
            end(process)
            late = f"ended after {TIME_LIMIT} s: {' '.join(argv)}\n"
        output.seek(0)
        return process.returncode, output.read() + late, spent


def leak_options(suppressions=KNOWN_LEAKS):
    return f"suppressions='{suppressions}':print_suppressions=0"


def environment_of(weightfs, build, logs):
    """Environment of sanitized servers, which run in the background: findings and leaks are written to a log."""
    options = f"log_path={logs}/log"
    beside = os.path.join(os.path.dirname(weightfs), os.path.basename(KNOWN_LEAKS))
    leaks = leak_options(beside if os.path.exists(beside) else KNOWN_LEAKS)
    return dict(os.environ, WEIGHTFS=weightfs, WEIGHTFS_BUILD=build, ASAN_OPTIONS=options, LSAN_OPTIONS=leaks,
                UBSAN_OPTIONS=f"{options}:print_stacktrace=1:halt_on_error=1")


def reachable(weightfs, folder):
    """A path of the program for tests that run it as other users: a copy in the folder, with the list of known leaks, if these
    cannot enter its own."""
    above = weightfs
    while above != "/":
        above = os.path.dirname(above)
        if not os.stat(above).st_mode & 0o001:
            os.makedirs(folder)
            shutil.copy(KNOWN_LEAKS, folder)
            return shutil.copy(weightfs, folder)
    return weightfs


def run_googletest(binary, excluded=(), shard=0, shards=1, only="*"):
    """Runs a GoogleTest binary, or one of several parts of it. `only`, `excluded`: patterns of names."""
    with tempfile.TemporaryDirectory() as tmp:
        report = os.path.join(tmp, "report.json")
        environment = dict(os.environ, ASAN_OPTIONS="detect_stack_use_after_return=1:allocator_may_return_null=0",
                           LSAN_OPTIONS=leak_options(), UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
                           GTEST_TOTAL_SHARDS=str(shards), GTEST_SHARD_INDEX=str(shard),
                           GTEST_FILTER=f"{only}-{':'.join(excluded)}" if excluded else only)
        status, output, spent = run_to_end([binary, "--gtest_brief=1", f"--gtest_output=json:{report}"], environment)
        if not os.path.exists(report):
            return Result(0, 1, 0, f"{output}{binary} ended with status {status} and no report\n")
        with open(report) as file:
            suites = json.load(file)["testsuites"]
    tests = [(suite["name"], test) for suite in suites for test in suite["testsuite"] if test["status"] == "RUN"]
    skipped = sum(test["result"] == "SKIPPED" for _, test in tests)
    failures = {f"{suite}.{test['name']}" for suite, test in tests if "failures" in test}
    failed = len(failures)
    # Leaks are detected at exit, after all tests have passed.
    leaks = status != 0 and failed == 0
    failed += leaks
    output = output if failed or skipped else ""
    times = {f"{suite}.{test['name']}": float(test["time"].rstrip("s")) for suite, test in tests}
    return Result(len(tests) - failed - skipped, failed, skipped, output, times, frozenset() if leaks else failures, spent)


class Timed(unittest.TextTestResult):
    """Records the duration of each test."""

    def __init__(self, *args):
        super().__init__(*args)
        self.times = {}

    def startTest(self, test):
        self.begun = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        self.times[test.id()] = time.monotonic() - self.begun
        super().stopTest(test)


def tests_in(suite):
    for test in suite:
        yield from tests_in(test) if isinstance(test, unittest.TestSuite) else [test]


def line_of(test):
    method = getattr(type(test), getattr(test, "_testMethodName", ""), None)
    try:
        return inspect.getsourcelines(inspect.unwrap(method))[1]
    except (OSError, TypeError):
        return 0


def chosen(suite, only):
    """The tests that `only` names: all if it is empty, the first in the file for "smoke", every second one for "half", else a class
    or a test."""
    if not only:
        return suite
    tests = list(tests_in(suite))
    if only == "half":
        return unittest.TestSuite(tests[::2])
    if only == "smoke":
        first = [test for test in tests if not getattr(type(test), "__unittest_skip__", False)] or tests
        return unittest.TestSuite(sorted(first, key=line_of)[:1])
    return unittest.TestSuite(test for test in tests if f".{only}." in f".{test.id()}.")


def run_here(file, report, only):
    """Runs one file of Python tests in this process and writes a report."""
    folder, name = os.path.split(file)
    sys.path.insert(0, folder)
    suite = chosen(unittest.TestLoader().discover(folder, name), only)
    faulthandler.dump_traceback_later(TIME_LIMIT - 30, file=sys.stdout)  # says which test hangs
    result = unittest.TextTestRunner(sys.stdout, verbosity=0, resultclass=Timed).run(suite)
    ended = result.failures + result.errors + result.skipped
    failed = sorted({test.id().split(" ")[0] for test, _ in result.failures + result.errors})
    # A class that cannot be set up, or is skipped then, is no test that was run.
    classes = {test.id() for test, _ in ended if not isinstance(test, unittest.TestCase)}
    with open(report, "w") as out:
        json.dump({"run": result.testsRun + len(classes), "failed": failed, "skipped": [reason for _, reason in result.skipped],
                   "times": result.times}, out)


def run_unittests(file, weightfs, build, only=""):
    """Runs a file of Python tests in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="weightfs-tests-") as tmp:
        logs, report = os.path.join(tmp, "logs"), os.path.join(tmp, "report.json")
        os.chmod(tmp, 0o755)
        os.mkdir(logs)
        os.chmod(logs, 0o777)  # servers of other users write there, too
        argv = [sys.executable, RUN, "--file", file, "--report", report, "--only", only]
        status, output, spent = run_to_end(argv, environment_of(weightfs, build, logs))
        if not os.path.exists(report):
            return Result(0, 1, 0, f"{output}{file} ended with status {status} and no report\n")
        with open(report) as found:
            counts = json.load(found)
        output = output if counts["failed"] else ""
        output += "".join(f"skipped: {reason}\n" for reason in sorted(set(counts["skipped"])))
        for log in glob.glob(f"{logs}/*"):
            with open(log) as text:
                output += text.read()
        found_by_sanitizers = bool(os.listdir(logs))
        skipped, failed = len(counts["skipped"]), len(counts["failed"])
        return Result(counts["run"] - failed - skipped, failed + found_by_sanitizers, skipped, output, counts["times"],
                      frozenset() if found_by_sanitizers else frozenset(counts["failed"]), spent)


def last_counts(text, pattern=r"^(\d+) passed, (\d+) failed, (\d+) skipped$"):
    """The numbers in the last line of a program's output; none if it is another line."""
    lines = text.strip().splitlines()
    found = re.search(pattern, lines[-1]) if lines else None
    return tuple(map(int, found.groups())) if found else None
