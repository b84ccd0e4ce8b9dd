"""Runs the tests of one or two builds, and prints the total as its last line: `N passed, N failed, N skipped`. scripts/test builds
and calls it.

  run.py RING --plain BUILD [--sanitized BUILD [--build]] [--portable BUILD] [NAME...]
             RING: quick, mount or all; --build: build the second while the tests of the first run; --portable: build and pack the
             portable program there after that, and in BUILD-arm64 that for aarch64, and run the tests of both (portable and arm64,
             as a NAME); those without a build are skipped
             NAME: only these: a file (test_export), a class or test of one (test_export.Files), a binary (fs_test), a suite or
             test of one (Zip, Zip.NameEndsAtAZeroByte); * stands for any text

Each file of Python tests, and each shard of a GoogleTest binary, is a job in a separate process. Jobs run in parallel. Those of
EXCLUSIVE run one after the other, beside plain GoogleTest binaries, which mount nothing; those of ALONE run without the others
(suite/tables.py). A job that takes longer than TIME_LIMIT is ended with all its processes, and fails. The processor time of a job
is that of the processes that it waits for, so not of the servers of mounts.

A job whose tests fail is run once more at the end, when no other runs, which shows whether they always fail. They fail the run
also if they pass then, except the tests of UNSTEADY. A crash, a leak or a finding of a sanitizer fails at once.
"""
import argparse
import concurrent.futures
import contextlib
import difflib
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "suite"))
import jobs  # noqa: E402
from report import Report, judged, minutes  # noqa: E402
from running import Result, end, reachable, run_here  # noqa: E402
from tables import (ALONE, CORES, EXCLUSIVE, LEFT_OUT, NOT_QUICK, NOT_SANITIZED, REPEATS_UNTIL, SANITIZED_UNTIL,  # noqa: E402
                    TOO_LONG, WHOLE_TIME_LIMIT, WORKERS)


def too_late(limit):
    return f"the run has taken {limit // 60} minutes, and these tests ran with another build"


class BackgroundBuilds:
    """Builds one after the other, with the processor time that the tests leave."""

    def __init__(self):
        self.worker = concurrent.futures.ThreadPoolExecutor(1)
        self.builds = {}
        self.process = None

    def start(self, folder, argv):
        self.builds[folder] = self.worker.submit(self.build, argv)

    def build(self, argv):
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            # At the lowest priority: the mount tests have time limits.
            self.process = subprocess.Popen(["nice", "-n", "19", *argv], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            try:
                status = self.process.wait(WHOLE_TIME_LIMIT)
            except subprocess.TimeoutExpired:
                end(self.process)
                status = "no end"
            output.seek(0)
            return status, output.read()

    def wait(self, folder, seconds=None):
        """Returns why it cannot be built here (EX_TEMPFAIL of sysexits.h) or in this time, or nothing."""
        if folder in self.builds:
            try:
                status, output = self.builds[folder].result(seconds)
            except concurrent.futures.TimeoutError:
                if self.process:
                    end(self.process)
                return "the build takes too long"
            if status == os.EX_TEMPFAIL:
                return output.strip().rpartition("\n")[2]
            if status != 0:
                sys.exit(f"{output}the build of {folder} failed")
            print(f"== built {folder}", flush=True)
        return ""


class Run:
    """Runs jobs in groups, and those that failed once more."""

    def __init__(self, report):
        self.report = report
        self.failed = []  # jobs to run once more

    def timed(self, job):
        begun = time.monotonic()
        if job.until and self.report.is_late(job.until):
            return Result(0, 0, 1, f"skipped: {too_late(job.until)}\n"), 0
        if self.report.is_late():
            return Result(0, 1, 0, f"{job.title} was not run: the run has taken {minutes(WHOLE_TIME_LIMIT)} minutes\n"), 0
        return job.run(), time.monotonic() - begun

    def groups(self, *groups, later=None):
        """Runs groups of jobs side by side, each with a number of workers. `later` returns further jobs of the last group when it
        knows them."""
        with contextlib.ExitStack() as pools:
            running = {}
            for group, workers in groups:
                pool = pools.enter_context(concurrent.futures.ThreadPoolExecutor(workers))
                running.update({pool.submit(self.timed, job): job for job in group})
            arriving = {pools.enter_context(concurrent.futures.ThreadPoolExecutor(1)).submit(later)} if later else set()
            while running or arriving:
                done, _ = concurrent.futures.wait({*running, *arriving}, 1, concurrent.futures.FIRST_COMPLETED)
                for each in done - arriving:
                    self.take(running.pop(each), *each.result())
                for each in done & arriving:
                    jobs_of_group = each.result()
                    self.report.jobs += len(jobs_of_group)
                    running.update({pool.submit(self.timed, job): job for job in jobs_of_group})
                arriving -= done
                self.report.show()

    def take(self, job, result, seconds):
        if result.failures and not self.report.is_late():
            self.report.put_off(job, result, seconds)
            self.failed.append((job, result.failures))
        else:
            self.report.add(job, result, seconds)

    def by_kind(self, found, later=None):
        """Jobs that need the machine's mounts, or its processors, for themselves run apart. `later` returns jobs that mount nothing
        and were not known at the start: they run beside the exclusive ones."""
        exclusive, alone = ([job for job in found if job.name.startswith(names)] for names in (EXCLUSIVE, ALONE))
        unmounted = [job for job in found if not job.mounts]
        self.groups(([job for job in found if job not in exclusive + alone + unmounted], WORKERS))
        self.groups((exclusive, 1), (unmounted, WORKERS - 1), later=later)
        return alone

    def at_once(self, found):
        """All together but those that unmount what others mount. Returns none that are left."""
        self.groups(([job for job in found if not job.name.startswith(EXCLUSIVE)], WORKERS))
        self.groups(([job for job in found if job.name.startswith(EXCLUSIVE)], 1))
        return []

    def further(self, found):
        """Runs jobs that were not known at the start."""
        found = list(found)
        self.report.jobs += len(found)
        self.groups((found, WORKERS))

    def repeat_failed(self):
        for job, failures in self.failed:
            result, seconds = self.timed(job)
            result, lines = judged(job, failures, result)
            self.report.repeated += lines
            self.report.add(job, result, seconds)


def named(builds, names):
    found = []
    for name in names:
        of_name = [job for build in builds for job in jobs.jobs_of_name(build, name)]
        if not of_name:
            known = {known for build in builds for known in jobs.names_of(build)}
            close = difflib.get_close_matches(name, known, 3)
            sys.exit(f"{name}: no test of this name{'; similar: ' + ', '.join(close) if close else ''}")
        found += of_name
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ring", nargs="?", choices=("quick", "mount", "all"))
    parser.add_argument("--plain")
    parser.add_argument("--sanitized")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--portable")
    parser.add_argument("names", metavar="NAME", nargs="*")
    for internal in ("--file", "--report", "--only"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    args = parser.parse_intermixed_args()
    if not args.file and (not args.ring or not args.plain or (args.ring == "all" and not args.sanitized)):
        parser.error("a ring and its builds are required")
    return args


def print_left_out(args):
    whole = {"with sanitizers": {**NOT_SANITIZED, **TOO_LONG}, "without EXHAUSTIVE=1": LEFT_OUT}
    rings = {"quick": {"by this ring": NOT_QUICK}, "all": whole}
    for where, reasons in rings.get(args.ring, {}).items():
        print(f"== not run {where}")
        for name, reason in reasons.items():
            print(f"{name}: {reason}")


def packed_builds(args):
    """{kind: the arguments of BUILD_PORTABLE, the folder first} of the builds that this run packs."""
    if not args.portable:
        return {}
    known = {jobs.PORTABLE: [args.portable], jobs.ARM64: [f"{args.portable}-arm64", jobs.ARM64]}
    return {kind: argv for kind, argv in known.items() if kind in (args.names or known)}


def packed_jobs(background, kind, folder, plain):
    reason = background.wait(folder) if folder in background.builds else too_late(REPEATS_UNTIL)
    if reason:
        return [jobs.job_without_a_build(kind, reason)]
    return jobs.PACKED[kind](jobs.portable_build(folder, kind, plain))


def main():
    args = parse()
    if args.file:
        return run_here(args.file, args.report, args.only)
    begun = time.monotonic()
    os.environ["ATTACKS"] = "ci"
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests send it, and a shell's background job ignores it
    with tempfile.TemporaryDirectory(prefix="weightfs-programs-") as programs:
        os.chmod(programs, 0o755)

        def build_of(folder, kind):
            folder = os.path.abspath(folder)
            weightfs = os.path.join(folder, "weightfs")
            if os.path.exists(weightfs):
                weightfs = reachable(weightfs, os.path.join(programs, kind))
            return jobs.Build(kind, folder, weightfs)

        background, packed = BackgroundBuilds(), packed_builds(args)
        names = [name for name in args.names if name not in packed]
        if args.build and (names or not args.names):
            background.start(args.sanitized, ["cmake", "--build", args.sanitized, "-j", str(CORES)])
        if args.names:
            for argv in packed.values():
                background.start(argv[0], [jobs.BUILD_PORTABLE, *argv])
        plain = build_of(args.plain, "plain")

        @functools.cache
        def sanitized(until=None):
            reason = background.wait(args.sanitized, until and max(0, until - (time.monotonic() - begun)))
            return build_of(args.sanitized, "sanitized"), reason

        def sanitized_jobs(jobs_of, mounts=None):
            build, reason = sanitized(SANITIZED_UNTIL)
            if reason:
                return [jobs.job_without_a_build(build.kind, reason)] if mounts is False else []
            return [job for job in jobs_of(build) if mounts in (None, job.mounts)]

        if args.names:
            found = named([plain, sanitized()[0]] if names and args.ring == "all" else [plain], names)
        else:
            found = list({"quick": jobs.quick_jobs, "mount": jobs.mount_jobs, "all": jobs.plain_jobs}[args.ring](plain))
        run, is_whole = Run(Report(len(found))), args.ring == "all" and not args.names
        if args.ring == "quick":
            alone = run.at_once(found)
        elif is_whole:
            alone = run.by_kind(found, lambda: sanitized_jobs(jobs.sanitized_jobs, mounts=False))
            run.further(sanitized_jobs(jobs.sanitized_jobs, mounts=True))
        else:
            alone = run.by_kind(found)
        run.groups((alone, CORES))
        if is_whole:
            for argv in packed.values() if not run.report.is_late(REPEATS_UNTIL) else ():
                background.start(argv[0], [jobs.BUILD_PORTABLE, *argv])
            run.further(sanitized_jobs(jobs.sanitized_mounts))
        for kind, argv in packed.items():
            run.further(packed_jobs(background, kind, argv[0], plain))
        run.repeat_failed()
        if not args.names:
            print_left_out(args)
        return run.report.close()


if __name__ == "__main__":
    sys.exit(main())
