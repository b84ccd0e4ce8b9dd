"""Runs every test of a plain and of a sanitized build and adds them up; ends with `N passed, N failed, N skipped`.

  run.py --plain BUILD --sanitized BUILD

GoogleTest binaries (unit, contract, golden and fuzz-replay tests) run from both builds; so do the black-box tests, which
mount, and a minute of fuzzing. If `../shared/conform.py` exists beside the project, it checks the plain build with its samples.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFORM = os.path.join(os.path.dirname(HOME), "shared", "conform.py")
FORMATS = ("rten", "bintensors", "/gguf/", "safetensors", "carton", "/tvm/", "ollama")

# Files behind links to a server on loopback, which does not exist and which a container must not name
# (docs/formats/carton.md, LINKS).
LINKED = ("carton/crafted/links_", "carton/packed/linked.carton", "carton/packed/symlinks.carton")


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, title, passed, failed, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped
        print(f"== {title}: {passed} passed, {failed} failed, {skipped} skipped", flush=True)


def run_googletest(count, title, binary):
    with tempfile.TemporaryDirectory() as tmp:
        report = os.path.join(tmp, "report.json")
        environment = dict(os.environ, ASAN_OPTIONS="detect_stack_use_after_return=1:allocator_may_return_null=0",
                           UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
        done = subprocess.run([binary, "--gtest_brief=1", f"--gtest_output=json:{report}"], stdin=subprocess.DEVNULL,
                              env=environment)
        if not os.path.exists(report):
            print(f"{binary} ended with status {done.returncode} and no report")
            return count.add(title, 0, 1)
        with open(report) as file:
            suites = json.load(file)["testsuites"]
    tests = [test for suite in suites for test in suite["testsuite"]]
    skipped = [test for test in tests if test["result"] == "SKIPPED"]
    failed = sum("failures" in test for test in tests)
    # A leak is found at exit, after every test has passed.
    failed += done.returncode != 0 and failed == 0
    count.add(title, len(tests) - failed - len(skipped), failed, len(skipped))


def run_unittests(count, title, folder, pattern, weightfs):
    """Servers run in the background, so their sanitizer reports, also about leaks, are written to logs."""
    logs = tempfile.TemporaryDirectory(prefix="weightfs-sanitizer-")
    os.chmod(logs.name, 0o777)  # servers of other users write there, too
    os.environ["WEIGHTFS"] = weightfs
    os.environ["ASAN_OPTIONS"] = f"log_path={logs.name}/log"
    os.environ["UBSAN_OPTIONS"] = f"log_path={logs.name}/log:print_stacktrace=1:halt_on_error=1"
    # Modules imported for another build refer to its program.
    for name in [name for name, module in sys.modules.items() if (getattr(module, "__file__", None) or "").startswith(os.path.join(HOME, "tests", ""))]:
        if name != "__main__":
            del sys.modules[name]
    suite = unittest.TestLoader().discover(os.path.join(HOME, folder), pattern)
    result = unittest.TextTestRunner(sys.stdout, verbosity=0).run(suite)
    for reason in sorted({reason for _, reason in result.skipped}):
        print(f"skipped: {reason}")
    failed = len({test.id().split(" ")[0] for test, _ in result.failures + result.errors})
    for log in glob.glob(f"{logs.name}/*"):
        with open(log) as file:
            print(file.read())
    if os.listdir(logs.name):
        count.add(f"{title}: sanitizers", 0, 1)
    logs.cleanup()
    count.add(title, result.testsRun - failed - len(result.skipped), failed, len(result.skipped))


def run_conform(count, weightfs):
    if not os.path.exists(CONFORM) or not os.path.exists("/dev/fuse"):
        print(f"skipped: conform.py needs {'/dev/fuse' if os.path.exists(CONFORM) else 'its samples beside the project'}")
        return count.add("conform", 0, 0, 1)
    for name in FORMATS:
        done = subprocess.run([sys.executable, CONFORM, weightfs, os.path.join(os.path.dirname(CONFORM), "samples"), "--only", name],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        *failures, last = done.stdout.strip().splitlines() or ["no output"]
        linked = [line for line in failures if line.removeprefix("FAIL ").startswith(LINKED) and ": unreadable: " in line]
        print("\n".join(line for line in failures if line not in linked), done.stderr, end="")
        for line in linked:
            print(f"skipped: {line.split()[1]} has files behind links to a server that is not there")
        words = last.split()
        if len(words) == 4 and words[1] == "passed,":
            count.add(f"conform {name}", int(words[0]), int(words[2]) - len(linked), len(linked))
        else:
            print(last)
            count.add(f"conform {name}", 0, 1)


def run_fuzzers(count):
    """A minute of all fuzz targets; a target fails when it finds something."""
    if not glob.glob("/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a"):
        print("skipped: fuzzing needs clang's libFuzzer (libclang-rt-14-dev)")
        return count.add("fuzzing", 0, 0, 1)
    done = subprocess.run([os.path.join(HOME, "scripts", "fuzz"), "--no-install", "--seconds", "60", "--seed", "1"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="", end="")
    words = done.stdout.splitlines()[-1].split() if done.stdout else []
    if len(words) != 6 or words[5] != "findings":
        return count.add("fuzzing", 0, 1)
    count.add("fuzzing", int(words[0]) - int(words[4]), int(words[4]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", required=True)
    parser.add_argument("--sanitized", required=True)
    args = parser.parse_args()
    args.plain, args.sanitized = map(os.path.abspath, (args.plain, args.sanitized))
    count = Count()
    for kind, build in (("plain", args.plain), ("sanitized", args.sanitized)):
        for binary in sorted(glob.glob(os.path.join(build, "tests", "*_test"))):
            run_googletest(count, f"{os.path.basename(binary)}, {kind}", binary)
        run_unittests(count, f"mounts, {kind}", "tests/mount", "test_*.py", os.path.join(build, "weightfs"))
    # Limits of memory and CPU time do not apply under a sanitizer.
    os.environ["ATTACKS"] = "ci"
    run_unittests(count, "attacks, plain", "tests/attacks", "test_*.py", os.path.join(args.plain, "weightfs"))
    run_unittests(count, "layering, pages, package", "tests", "*_test.py", os.path.join(args.plain, "weightfs"))
    run_conform(count, os.path.join(args.plain, "weightfs"))
    run_fuzzers(count)
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped")
    return 1 if count.failed or not count.passed else 0


if __name__ == "__main__":
    sys.exit(main())
