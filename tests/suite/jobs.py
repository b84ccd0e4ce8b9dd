"""The jobs of each ring: a file of Python tests, a part of a GoogleTest binary, or another program that checks the build."""
import collections
import fnmatch
import glob
import os
import subprocess
import sys

from running import HOME, Result, last_counts, run_googletest, run_to_end, run_unittests
from tables import (COMMANDS, EXHAUSTIVE, FUZZING, NOT_QUICK, NOT_SANITIZED, PORTABLE_FILES, PORTABLE_SAMPLES, REPEATS_UNTIL,
                    SANITIZED_UNTIL, SHARDS, TOO_LONG, VERB_FILES)

CONFORM = os.path.join(os.path.dirname(HOME), "shared", "conform.py")
SAMPLES = os.path.join(os.path.dirname(CONFORM), "samples")
MORE_SAMPLES = os.path.join(os.path.dirname(CONFORM), "more-samples")
FORMATS = ("rten", "bintensors", "/gguf/", "safetensors", "carton", "/tvm/", "ollama", "pytorch", "/onnx/", "numpy", "hdf5",
           "tflite", "dduf", "llamafile", "coreml", "executorch", "nemo", "msgpack", "paddle", "ggml_legacy")
MORE_FORMATS = ("/pickle/", "/joblib/", "/tensorflow/", "/xgboost/", "/lightgbm/", "/ort/", "/ncnn/", "/darknet/", "/ctranslate2/",
                "/nnef/", "/openvino/", "/caffe/", "/tfjs/", "/coreml/", "/mxnet/", "/mindspore/", "/dcp/", "/pt2/")
WITH_LINK = "onnx/external/refused"  # refused if link.bin is a symbolic link; some ways to copy samples make a file of it
# Files whose read fails, because their link names a server on loopback, which does not run and is not permitted in containers
# (docs/formats/carton.md, LINKS).
LINKED = ("carton/crafted/links_", "carton/packed/linked.carton", "carton/packed/symlinks.carton")
TABLE = os.path.join(HOME, "tests", "truth", "table.py")
PORTABLE = "portable"
ARM64 = "arm64"  # the portable program for aarch64
BUILD_PORTABLE = os.path.join(HOME, "tests", "suite", "build_portable")

# `name`: the file or binary, as on the command line. `mounts`: whether it may mount, or needs what mounts take: inotify instances.
# `until`: when it is skipped, in seconds after the begin of the run, because its tests ran with another build; 0: never.
Job = collections.namedtuple("Job", "title run name mounts until", defaults=(True, 0))
# A build: `kind` is plain, sanitized, PORTABLE or ARM64; `compared`: the program whose output is right.
Build = collections.namedtuple("Build", "kind folder weightfs compared", defaults=("",))


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


def conform_jobs(build):
    if not os.path.exists(CONFORM) or not os.path.exists("/dev/fuse"):
        needs = "/dev/fuse" if os.path.exists(CONFORM) else "its samples beside the project"
        yield Job("conform", lambda: Result(0, 0, 1, f"skipped: conform.py needs {needs}\n"), "conform")
        return
    for name in FORMATS:
        yield Job(f"conform {name}", lambda name=name: run_conform(build.weightfs, name), "conform")
    for name in MORE_FORMATS:
        yield Job(f"conform {name}", lambda name=name: run_conform(build.weightfs, name, MORE_SAMPLES), "conform")


def run_truth(weightfs, source):
    """A twentieth of the table of truth, of one kind of source."""
    _, printed, spent = run_to_end([sys.executable, TABLE, weightfs, "--source", source, "--jobs", "1"])
    passed, failed, skipped = last_counts(printed) or (0, 1, 0)
    return Result(passed, failed, skipped, printed, spent=spent)


def truth_jobs(build):
    listed = subprocess.run([sys.executable, TABLE, build.weightfs, "--list"], capture_output=True, text=True, check=True)
    for source in listed.stdout.splitlines():
        yield Job(f"truth, {source}", lambda source=source: run_truth(build.weightfs, source), "truth")


def run_fuzzers(folder):
    """Runs all fuzz targets of the sanitized build for FUZZING seconds; a target with a finding fails."""
    if not glob.glob("/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a"):
        return Result(0, 0, 1, "skipped: fuzzing needs clang's libFuzzer (libclang-rt-dev)\n")
    fuzz = [os.path.join(HOME, "scripts", "fuzz"), "--no-install", "--sanitized", "--build", folder, "--seconds", str(FUZZING)]
    _, output, spent = run_to_end([*fuzz, "--seed", "1"])
    targets, found = last_counts(output, r"^(\d+) targets, \d+ executions, (\d+) findings$") or (0, 1)
    return Result(targets - found if targets else 0, found, 0, output, spent=spent)


def fuzzing_job(build):
    return Job("fuzzing", lambda: run_fuzzers(build.folder), "fuzzing", mounts=False)


def files_in(folder, pattern):
    return sorted(glob.glob(os.path.join(HOME, "tests", folder, pattern)))


def name_of(file):
    return os.path.basename(file).removesuffix(".py")


def unittest_job(file, build, kind="", only=""):
    title = ", ".join(word for word in (name_of(file), only, kind) if word)
    return Job(title, lambda: run_unittests(file, build.weightfs, build.folder, only), name_of(file))


def googletest_jobs(build):
    excluded = TOO_LONG if build.kind == "sanitized" else ()
    for binary in sorted(glob.glob(os.path.join(build.folder, "tests", "*_test"))):
        name = os.path.basename(binary)
        shards = SHARDS.get(name, 1)
        for shard in range(shards):
            part = f" {shard + 1}/{shards}" if shards > 1 else ""
            yield Job(f"{name}{part}, {build.kind}",
                      lambda binary=binary, shard=shard, shards=shards: run_googletest(binary, excluded, shard, shards), name,
                      name == "fs_test")


def mount_files(build):
    return [file for file in files_in("mount", "test_*.py") if build.kind == "plain" or name_of(file) not in NOT_SANITIZED]


def python_files():
    """Those that are run with one build: clients, attacks, and checks of the documents and of the code."""
    folders = ("ambiguity", "attacks", "python")
    return [file for folder in folders for file in files_in(folder, "test_*.py")] + files_in("", "*_test.py")


def quick_jobs(build):
    """The first ring: no kernel but for one test of each file that mounts."""
    yield from googletest_jobs(build)
    for file in files_in("", "*_test.py") + files_in("python", "test_*.py") + files_in("mount", "test_*.py"):
        name = name_of(file)
        if not name.startswith(tuple(NOT_QUICK)):
            is_whole = name.startswith(COMMANDS) or name.endswith("_test")
            yield unittest_job(file, build, only="" if is_whole else "smoke")


def mount_jobs(build):
    """The second ring: through the kernel, and what clients and other readers see."""
    for file in mount_files(build) + files_in("python", "test_*.py"):
        yield unittest_job(file, build)
    yield from conform_jobs(build)
    yield from truth_jobs(build)


def mixed(waiting, busy):
    """Both lists in their order, evenly spread, so that jobs that wait and jobs that compute run at the same time."""
    placed = [(place / len(jobs), job) for jobs in (waiting, busy) for place, job in enumerate(jobs)]
    return [job for _, job in sorted(placed, key=lambda entry: entry[0])]


def plain_jobs(build):
    """The third ring, without sanitizers: under them, limits of memory and CPU time mean nothing."""
    mounts = [unittest_job(file, build, build.kind) for file in mount_files(build)]
    others = [unittest_job(file, build) for file in python_files()]
    waiting = [job for job in mounts if not job.name.startswith(COMMANDS)]
    busy = [job for job in mounts if job not in waiting]
    return mixed(waiting, [*busy, *googletest_jobs(build), *others, *conform_jobs(build), *truth_jobs(build)])


def sanitized_jobs(build):
    until = 0 if EXHAUSTIVE else SANITIZED_UNTIL
    return [job._replace(until=until) for job in (fuzzing_job(build), *googletest_jobs(build))]


def sanitized_mounts(build):
    """Tests of files that mount, then every second test of those that run commands, or all."""
    half = "" if EXHAUSTIVE else "half"
    files = sorted(mount_files(build), key=lambda file: name_of(file).startswith(VERB_FILES))
    return [unittest_job(file, build, build.kind, half if name_of(file).startswith(VERB_FILES) else "")._replace(
        until=0 if EXHAUSTIVE else REPEATS_UNTIL) for file in files]


def portable_build(folder, kind, plain):
    """A build of BUILD_PORTABLE: its program is the one that was packed."""
    program, = glob.glob(os.path.join(os.path.abspath(folder), "portable", "*", "weightfs"))
    return Build(kind, os.path.abspath(folder), program, plain.weightfs)


def run_with_archive(build, name, *options):
    """A program of tests/ that runs what was packed, and compares it with the plain program."""
    archive, = glob.glob(os.path.join(build.folder, "*.tar.xz"))
    _, printed, spent = run_to_end([sys.executable, os.path.join(HOME, "tests", name), *options, "--archive", archive],
                                   dict(os.environ, WEIGHTFS=build.compared))
    passed, failed, skipped = last_counts(printed) or (0, 1, 0)
    reasons = "".join(f"{line}\n" for line in printed.splitlines() if line.startswith("skipped: "))
    return Result(passed, failed, skipped, printed if failed else reasons, spent=spent)


def job_without_a_build(kind, reason):
    """One that is skipped."""
    skipped = Result(0, 0, 1, f"skipped: the {kind} program is not built: {reason}\n")
    return Job(f"{kind} program", lambda: skipped, kind, mounts=False, until=REPEATS_UNTIL)


def portable_jobs(build):
    """Tests that need no build, the samples, and a root of busybox."""
    files = [unittest_job(file, build, PORTABLE) for file in files_in("mount", "test_*.py") + files_in("", "*_test.py")
             if name_of(file) in PORTABLE_FILES]
    conform = [job._replace(title=f"{job.title}, {PORTABLE}") for job in conform_jobs(build)
               if PORTABLE_SAMPLES is None or job.title.removeprefix("conform ") in PORTABLE_SAMPLES]
    busybox = Job("busybox, portable", lambda: run_with_archive(build, "portable", "--root", "busybox"), PORTABLE)
    return mixed(files, [busybox, *conform])


def arm64_jobs(build):
    return [Job("emulated, arm64", lambda: run_with_archive(build, "arm64"), ARM64)]


# Builds that are packed, each with the tests that run only what was packed.
PACKED = {PORTABLE: portable_jobs, ARM64: arm64_jobs}


def googletest_matches(build, name):
    """A job for each binary that has tests of this name: a suite, or a pattern of suite and test."""
    pattern = name if "." in name else f"{name}.*"
    for binary in sorted(glob.glob(os.path.join(build.folder, "tests", "*_test"))):
        listed = subprocess.run([binary, "--gtest_list_tests", f"--gtest_filter={pattern}"], stdout=subprocess.PIPE, text=True,
                                check=True)
        if any(line.startswith("  ") for line in listed.stdout.splitlines()):
            yield Job(f"{os.path.basename(binary)} {pattern}, {build.kind}",
                      lambda binary=binary: run_googletest(binary, only=pattern), os.path.basename(binary))


def files_of(build):
    return mount_files(build) + (python_files() if build.kind == "plain" else [])


def names_of(build):
    """The names of files and binaries that run with a build."""
    binaries = glob.glob(os.path.join(build.folder, "tests", "*_test"))
    return [*map(name_of, files_of(build)), *map(os.path.basename, binaries), "conform", "truth", "fuzzing", PORTABLE, ARM64]


def jobs_of_name(build, name):
    """The jobs that a NAME stands for: a file or binary, a class or test of a file (FILE.CLASS.TEST), a suite or test of a binary;
    with * for any text."""
    file, _, only = name.partition(".")
    is_named = (lambda known: known == file) if only else (lambda known: fnmatch.fnmatch(known, name))
    found = [unittest_job(path, build, build.kind, only) for path in files_of(build) if is_named(name_of(path))]
    if not only:
        found += [job for job in googletest_jobs(build) if is_named(job.name)]
        special = {("conform", "plain"): conform_jobs, ("truth", "plain"): truth_jobs,
                   ("fuzzing", "sanitized"): lambda build: [fuzzing_job(build)]}.get((name, build.kind))
        found += special(build) if special else []
    return found or list(googletest_matches(build, name))
