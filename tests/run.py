"""Runs every test of a plain and of a sanitized build, and prints the total as its last line: `N passed, N failed, N skipped`.

  run.py --plain BUILD --sanitized BUILD [--build] [--only TEXT]
                                  --build: build the second first, while the tests of the first run
                                  TEXT: only the jobs whose title contains it

GoogleTest binaries (unit, contract, golden and fuzz-replay tests) run from both builds; so do the mount tests that are not in
NOT_SANITIZED, and the fuzzers for a short time. If `../shared/conform.py` exists, it checks the plain build against its samples.

Each file of Python tests, and each shard of a GoogleTest binary, is a job in a separate process. Jobs run in parallel. Those of
EXCLUSIVE run one after the other, beside plain GoogleTest binaries, which mount nothing; those of ALONE run without the others. A
job that takes longer than TIME_LIMIT is ended with all its processes, and fails. The processor time of a job is that of the
processes that it waits for, so not of the servers of mounts.

A job whose tests fail is run once more at the end, when no other runs, which shows whether they always fail. They fail the run
also if they pass then, except the tests of UNSTEADY. A crash, a leak or a finding of a sanitizer fails at once.

The end of the output lists the slowest tests, the reasons of skipped tests, and what is not run with sanitizers.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import faulthandler
import glob
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

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFORM = os.path.join(os.path.dirname(HOME), "shared", "conform.py")
FORMATS = ("rten", "bintensors", "/gguf/", "safetensors", "carton", "/tvm/", "ollama", "pytorch", "/onnx/", "numpy", "hdf5",
           "tflite", "dduf", "llamafile", "coreml", "executorch", "nemo", "msgpack", "paddle", "ggml_legacy")

SAMPLES = os.path.join(os.path.dirname(CONFORM), "samples")
MORE_FORMATS = ("/pickle/", "/joblib/", "/tensorflow/", "/xgboost/", "/lightgbm/", "/ort/", "/ncnn/", "/darknet/", "/ctranslate2/",
                "/nnef/", "/openvino/", "/caffe/", "/tfjs/", "/coreml/", "/mxnet/", "/mindspore/", "/dcp/", "/pt2/")
MORE_SAMPLES = os.path.join(os.path.dirname(CONFORM), "more-samples")
WITH_LINK = "onnx/external/refused"  # refused if link.bin is a symbolic link; some ways to copy samples make a file of it

# Files whose read fails, because their link names a server on loopback, which does not run and is not permitted in containers
# (docs/formats/carton.md, LINKS).
LINKED = ("carton/crafted/links_", "carton/packed/linked.carton", "carton/packed/symlinks.carton")

CORES = os.cpu_count() or 1
WORKERS = 2 * CORES  # mount tests spend most of their time waiting
SHARDS = {"fs_test": 6, "formats_test": 3, "cache_test": 3, "base_test": 2}
SLOWEST = 15  # tests that are listed at the end
TIME_LIMIT = 15 * 60  # of a job, in seconds; the longest takes 3 minutes
WHOLE_TIME_LIMIT = 70 * 60  # jobs that would begin later fail
FUZZING = 4  # seconds for each target

# Jobs that run one at a time, beside those that mount nothing: they unmount or count what other tests mount.
EXCLUSIVE = ("test_mounts", "test_system", "package_test")
# Jobs that measure CPU time and memory. They run last, as many as there are processors.
ALONE = ("test_api_attacks", "test_attacks", "test_changes", "test_http_attacks", "test_living_attacks", "test_many_attacks",
         "test_memory", "test_numbers_attacks")

KNOWN_LEAKS = os.path.join(HOME, "tests", "support", "leaks.txt")

SANDBOX = "a sanitized process has no sandbox and no limit of its address space"
UNITS = "units and processes, not code that reads models"
TRACED = "counts system calls, which sanitizers add"
IN_UNIT_TESTS = "its code runs sanitized in cli_test, formats_test and fs_test"
CLIENTS = "its code runs sanitized in fs_test, test_http and test_http_conformance"
DOWNLOADS = "its code runs sanitized in cache_test and sources_test, and in test_urls, test_url_ranges and test_fetch_and_cache"
# Mount tests that are not repeated with sanitizers, each with the reason: a start of a sanitized program takes half a second.
NOT_SANITIZED = {
    "test_confinement": SANDBOX, "test_sandbox": SANDBOX, "test_memory": SANDBOX, "test_doctor": UNITS, "test_fleet": UNITS,
    "test_kubernetes": UNITS, "test_mounts": UNITS, "test_service": UNITS, "test_starting": UNITS, "test_system": UNITS,
    "test_systemd": UNITS, "test_nothing_runs": TRACED, "test_pickles": TRACED, "test_dequantised": IN_UNIT_TESTS,
    "test_page": CLIENTS, "test_page_access": CLIENTS, "test_page_numbers": CLIENTS, "test_page_graph": CLIENTS,
    "test_page_hostile": CLIENTS, "test_page_far": CLIENTS,
    "test_http_clients": CLIENTS, "test_http_origins": CLIENTS, "test_http_replaced": CLIENTS, "test_export": IN_UNIT_TESTS,
    "test_views_gguf": IN_UNIT_TESTS, "test_fetching": DOWNLOADS, "test_fetching_crashes": DOWNLOADS, "test_hub": DOWNLOADS,
    "test_oci": DOWNLOADS, "test_ollama": DOWNLOADS, "test_real_servers": DOWNLOADS, "test_registry": DOWNLOADS,
    "test_s3": DOWNLOADS, "test_url_names": DOWNLOADS
}
BUDGET = "reads until a budget is used up, and shorter ones read the same code"
THREADS = "compares the results of many threads for a tensor of many megabytes"
MANY = "lists a hundred thousand values"
# Unit tests that are not repeated with sanitizers, each with the reason.
TOO_LONG = {
    "All/HostileValues.StayWithinBudget/cache_*": BUDGET, "All/HostileValues.StayWithinBudget/mlf_*": BUDGET,
    "ArchiveBudget.HostileArchivesStayWithinTheBudget": BUDGET, "PytorchZip.SharedValuesExhaustTheBudget": BUDGET,
    "SafetensorsIndex.ShardsShareOneBudget": BUDGET,
    "Deviation.OfLargeTensorsDoesNotDependOnTheThreads": THREADS, "Statistics.OfLargeTensorsDoNotDependOnTheThreads": THREADS,
    "HuggingfaceFiles.TooManyValuesAreRefused": MANY, "TvmParams.BoundsMemoryOfNamesAndHeaders": MANY,
    "Zip.ListsHundredThousandMembers*": MANY}

# Tests that may pass only when they are run once more, each with the reason. A name is one of those that a job prints.
UNSTEADY = {}

# `failures`: the names of the failed tests, if the job may be run once more: not after a crash or a finding of a sanitizer.
Result = collections.namedtuple("Result", "passed failed skipped output times failures spent", defaults=("", {}, frozenset(), 0))
# `mounts`: whether it may mount, or needs what mounts take: inotify instances.
Job = collections.namedtuple("Job", "title run mounts", defaults=(True,))


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


def run_googletest(binary, kind, shard, shards):
    with tempfile.TemporaryDirectory() as tmp:
        report = os.path.join(tmp, "report.json")
        environment = dict(os.environ, ASAN_OPTIONS="detect_stack_use_after_return=1:allocator_may_return_null=0",
                           LSAN_OPTIONS=leak_options(),
                           UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
                           GTEST_TOTAL_SHARDS=str(shards), GTEST_SHARD_INDEX=str(shard),
                           GTEST_FILTER=f"-{':'.join(TOO_LONG)}" if kind == "sanitized" else "*")
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


def run_here(file, report):
    """Runs one file of Python tests in this process and writes a report."""
    folder, name = os.path.split(file)
    sys.path.insert(0, folder)
    suite = unittest.TestLoader().discover(folder, name)
    faulthandler.dump_traceback_later(TIME_LIMIT - 30, file=sys.stdout)  # says which test hangs
    result = unittest.TextTestRunner(sys.stdout, verbosity=0, resultclass=Timed).run(suite)
    ended = result.failures + result.errors + result.skipped
    failed = sorted({test.id().split(" ")[0] for test, _ in result.failures + result.errors})
    # A class that cannot be set up, or is skipped then, is no test that was run.
    classes = {test.id() for test, _ in ended if not isinstance(test, unittest.TestCase)}
    with open(report, "w") as out:
        json.dump({"run": result.testsRun + len(classes), "failed": failed, "skipped": [reason for _, reason in result.skipped],
                   "times": result.times}, out)


def run_unittests(file, weightfs, build):
    with tempfile.TemporaryDirectory(prefix="weightfs-tests-") as tmp:
        logs, report = os.path.join(tmp, "logs"), os.path.join(tmp, "report.json")
        os.chmod(tmp, 0o755)
        os.mkdir(logs)
        os.chmod(logs, 0o777)  # servers of other users write there, too
        argv = [sys.executable, os.path.abspath(__file__), "--file", file, "--report", report]
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


def run_conform(weightfs, name, samples=SAMPLES):
    program = [CONFORM] if samples == SAMPLES else [os.path.join(HOME, "tests", "conform_more.py"), CONFORM]
    _, printed, spent = run_to_end([sys.executable, *program, weightfs, samples, "--only", name])
    *failures, last = printed.strip().splitlines() or ["no output"]
    linked = {line: "has files behind links to a server that does not run" for line in failures
              if line.removeprefix("FAIL ").startswith(LINKED) and ": unreadable: " in line}
    linked |= {line: "needs a symbolic link, which a copy of the samples has lost" for line in failures
               if line.startswith(f"FAIL {WITH_LINK}/") and not os.path.islink(os.path.join(SAMPLES, WITH_LINK, "link.bin"))}
    output = "".join(f"{line}\n" for line in failures if line not in linked)
    output += "".join(f"skipped: {line.split()[1].rstrip(':')} {reason}\n" for line, reason in linked.items())
    words = last.split()
    if len(words) == 4 and words[1] == "passed,":
        return Result(int(words[0]), int(words[2]) - len(linked), len(linked), output, spent=spent)
    return Result(0, 1, 0, f"{output}{last}\n")


def run_fuzzers(sanitized):
    """Runs all fuzz targets of the sanitized build for FUZZING seconds; a target with a finding fails."""
    if not glob.glob("/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a"):
        return Result(0, 0, 1, "skipped: fuzzing needs clang's libFuzzer (libclang-rt-dev)\n")
    fuzz = [os.path.join(HOME, "scripts", "fuzz"), "--no-install", "--sanitized", "--build", sanitized, "--seconds", str(FUZZING)]
    _, output, spent = run_to_end([*fuzz, "--seed", "1"])
    words = output.splitlines()[-1].split() if output else []
    if len(words) != 6 or words[5] != "findings":
        return Result(0, 1, 0, output)
    return Result(int(words[0]) - int(words[4]), int(words[4]), 0, output, spent=spent)


def conform_jobs(weightfs):
    if not os.path.exists(CONFORM) or not os.path.exists("/dev/fuse"):
        needs = "/dev/fuse" if os.path.exists(CONFORM) else "its samples beside the project"
        yield Job("conform", lambda: Result(0, 0, 1, f"skipped: conform.py needs {needs}\n"))
        return
    for name in FORMATS:
        yield Job(f"conform {name}", lambda name=name: run_conform(weightfs, name))
    for name in MORE_FORMATS:
        yield Job(f"conform {name}", lambda name=name: run_conform(weightfs, name, MORE_SAMPLES))


def run_truth(weightfs, source):
    """A tenth of the table of truth, of one kind of source."""
    _, printed, spent = run_to_end(
        [sys.executable,
         os.path.join(HOME, "tests", "truth", "table.py"), weightfs, "--source", source, "--jobs", "1"])
    found = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", printed.strip().splitlines()[-1] if printed.strip() else "")
    passed, failed, skipped = map(int, found.groups()) if found else (0, 1, 0)
    return Result(passed, failed, skipped, printed, spent=spent)


def truth_jobs(weightfs):
    listed = subprocess.run([sys.executable, os.path.join(HOME, "tests", "truth", "table.py"), weightfs, "--list"],
                            capture_output=True, text=True, check=True)
    for source in listed.stdout.splitlines():
        yield Job(f"truth, {source}", lambda source=source: run_truth(weightfs, source))


def files_in(folder, pattern):
    return sorted(glob.glob(os.path.join(HOME, "tests", folder, pattern)))


def jobs_of(kind, build, weightfs):
    """The jobs that run in both builds."""
    for file in files_in("mount", "test_*.py"):
        name = os.path.basename(file).removesuffix(".py")
        if kind == "plain" or name not in NOT_SANITIZED:
            yield Job(f"{name}, {kind}", lambda file=file: run_unittests(file, weightfs, build))
    for binary in sorted(glob.glob(os.path.join(build, "tests", "*_test"))):
        name = os.path.basename(binary)
        shards = SHARDS.get(name, 1)
        for shard in range(shards):
            part = f" {shard + 1}/{shards}" if shards > 1 else ""
            yield Job(f"{name}{part}, {kind}",
                      lambda binary=binary, shard=shard, shards=shards: run_googletest(binary, kind, shard, shards),
                      mounts=name == "fs_test")


def plain_jobs(build, weightfs):
    # Limits of memory and CPU time are not meaningful under a sanitizer.
    yield from jobs_of("plain", build, weightfs)
    folders = ("ambiguity", "attacks", "python")
    for file in [file for folder in folders for file in files_in(folder, "test_*.py")] + files_in("", "*_test.py"):
        yield Job(os.path.basename(file).removesuffix(".py"), lambda file=file: run_unittests(file, weightfs, build))
    yield from conform_jobs(weightfs)
    yield from truth_jobs(weightfs)


def sanitized_jobs(build, weightfs):
    yield Job("fuzzing", lambda: run_fuzzers(build))
    yield from jobs_of("sanitized", build, weightfs)


class Build:
    """Builds a configured folder with the processor time that the tests leave."""

    def __init__(self, folder):
        self.folder = folder
        self.output = tempfile.TemporaryFile("w+", errors="replace")
        # At the lowest priority: the mount tests have time limits.
        build = ["nice", "-n", "19", "cmake", "--build", folder, "-j", str(CORES)]
        self.process = subprocess.Popen(build, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output)

    def wait(self):
        try:
            status = self.process.wait(WHOLE_TIME_LIMIT)
        except subprocess.TimeoutExpired:
            end(self.process)
            status = "no end"
        self.output.seek(0)
        if status != 0:
            sys.exit(f"{self.output.read()}the build of {self.folder} failed")
        print(f"== built {self.folder}", flush=True)


def judged(job, failures, repeated):
    """The result of a job that was run once more after these tests had failed, and lines on those that passed then."""
    if repeated.failed:
        return repeated, []
    lines = [
        f"passed only when run once more: {test} ({job.title}): {UNSTEADY.get(test, 'this fails the run')}"
        for test in sorted(failures)
    ]
    failed = len(failures - set(UNSTEADY))
    return repeated._replace(passed=repeated.passed - failed, failed=failed), lines


def minutes(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class Report:
    def __init__(self):
        self.begun = time.monotonic()
        self.passed = self.failed = self.skipped = 0
        self.times = {}
        self.repeated = []  # lines on jobs that passed when they were run once more
        self.reasons = collections.Counter()  # of skipped tests

    def is_late(self):
        return time.monotonic() - self.begun > WHOLE_TIME_LIMIT

    def add(self, job, result, seconds):
        self.passed += result.passed
        self.failed += result.failed
        self.skipped += result.skipped
        self.reasons.update(re.findall(r"^skipped: (.*)$|: Skipped\n(.+)$", result.output, re.M))
        kind = job.title.rpartition(", ")[2]
        self.times.update({f"{name} ({kind})": taken for name, taken in result.times.items()})
        print(
            f"{result.output}== {job.title}: {result.passed} passed, {result.failed} failed, {result.skipped} skipped, {seconds:.0f} s "
            f"({result.spent:.0f} s of processor time), at {minutes(time.monotonic() - self.begun)}", flush=True)

    def put_off(self, job, result, seconds):
        print(f"{result.output}== {job.title}: {result.failed} failed in {seconds:.0f} s; it is run once more at the end",
              flush=True)

    def close(self):
        print("== slowest tests")
        for name, seconds in sorted(self.times.items(), key=lambda entry: -entry[1])[:SLOWEST]:
            print(f"{seconds:6.1f} s  {name}")
        print("== skipped")
        for (of_python, of_googletest), count in sorted(self.reasons.items()):
            print(f"{count:4} × {of_python or of_googletest}")
        for line in self.repeated:
            print(line)
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed or not self.passed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain")
    parser.add_argument("--sanitized")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--report", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.file:
        return run_here(args.file, args.report)
    if not args.plain or not args.sanitized:
        parser.error("--plain and --sanitized are required")
    os.environ["ATTACKS"] = "ci"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests send it, and a shell's background job ignores it
    report = Report()
    failed = []  # jobs to run once more

    def timed(job):
        begun = time.monotonic()
        if report.is_late():
            return Result(0, 1, 0, f"{job.title} was not run: the run has taken {minutes(WHOLE_TIME_LIMIT)} minutes\n"), 0
        return job.run(), time.monotonic() - begun

    def run_groups(*groups):
        """Runs groups of jobs side by side, each with a number of workers."""
        with contextlib.ExitStack() as pools:
            running = {}
            for group, workers in groups:
                pool = pools.enter_context(concurrent.futures.ThreadPoolExecutor(workers))
                running.update({pool.submit(timed, job): job for job in group if args.only in job.title})
            for done in concurrent.futures.as_completed(running):
                job, (result, seconds) = running[done], done.result()
                if result.failures and not report.is_late():
                    report.put_off(job, result, seconds)
                    failed.append((job, result.failures))
                else:
                    report.add(job, result, seconds)

    def repeat_failed():
        for job, failures in failed:
            result, seconds = timed(job)
            result, lines = judged(job, failures, result)
            report.repeated += lines
            report.add(job, result, seconds)

    programs = tempfile.TemporaryDirectory(prefix="weightfs-programs-")
    os.chmod(programs.name, 0o755)

    def jobs_in(build, jobs_of_kind):
        build = os.path.abspath(build)
        program = reachable(os.path.join(build, "weightfs"), os.path.join(programs.name, os.path.basename(build)))
        return list(jobs_of_kind(build, program))

    build = Build(args.sanitized) if args.build else None
    jobs = jobs_in(args.plain, plain_jobs)
    exclusive, alone = ([job for job in jobs if job.title.startswith(titles)] for titles in (EXCLUSIVE, ALONE))
    unmounted = [job for job in jobs if not job.mounts]
    run_groups(([job for job in jobs if job not in exclusive + alone + unmounted], WORKERS))
    run_groups((exclusive, 1), (unmounted, WORKERS - 1))
    if build:
        build.wait()
    run_groups((jobs_in(args.sanitized, sanitized_jobs), WORKERS))
    run_groups((alone, CORES))
    repeat_failed()
    print("== not run with sanitizers")
    for name, reason in {**NOT_SANITIZED, **TOO_LONG}.items():
        print(f"{name}: {reason}")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
