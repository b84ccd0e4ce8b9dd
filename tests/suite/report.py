"""Counts what jobs have found, shows how far they are, and lists the slowest, the skipped and the failed tests at the end."""
import collections
import re
import sys
import time

from tables import UNSTEADY, WHOLE_TIME_LIMIT

SLOWEST = 20  # tests that are listed at the end
LINES_OF_FAILURE = 30  # of the output of each job that failed, which are repeated at the end


def minutes(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


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


class Report:
    def __init__(self, jobs=0, out=sys.stdout):
        self.begun = time.monotonic()
        self.out, self.is_terminal = out, out.isatty()
        self.jobs, self.ended = jobs, 0
        self.passed = self.failed = self.skipped = 0
        self.times = {}
        self.spent = collections.Counter()  # processor time by the name of a file or binary
        self.repeated = []  # lines on jobs that passed when they were run once more
        self.reasons = collections.Counter()  # of skipped tests
        self.failures = []  # lines on jobs that failed

    def is_late(self, limit=WHOLE_TIME_LIMIT):
        return time.monotonic() - self.begun > limit

    def say(self, text):
        """Prints lines above the progress."""
        self.out.write(("\r\x1b[K" if self.is_terminal else "") + text)
        self.show()

    def show(self):
        if self.is_terminal:
            self.out.write(f"\r\x1b[K{self.ended} of {self.jobs} groups, {self.passed} passed, {self.failed} failed, "
                           f"{minutes(time.monotonic() - self.begun)}")
        self.out.flush()

    def add(self, job, result, seconds):
        self.ended += 1
        self.passed += result.passed
        self.failed += result.failed
        self.skipped += result.skipped
        self.spent[job.name] += result.spent
        if result.failed:
            self.failures.append(f"== failed: {' '.join([job.title, *sorted(result.failures)])}")
            self.failures += result.output.splitlines()[-LINES_OF_FAILURE:]
        self.reasons.update(re.findall(r"^skipped: (.*)$|: Skipped\n(.+)$", result.output, re.M))
        kind = job.title.rpartition(", ")[2]
        self.times.update({f"{name} ({kind})": taken for name, taken in result.times.items()})
        line = (f"{result.output}== {job.title}: {result.passed} passed, {result.failed} failed, {result.skipped} skipped, "
                f"{seconds:.0f} s ({result.spent:.0f} s of processor time), at {minutes(time.monotonic() - self.begun)}\n")
        self.say("" if self.is_terminal and not result.failed else line)

    def put_off(self, job, result, seconds):
        self.say(f"{result.output}== {job.title}: {result.failed} failed in {seconds:.0f} s; it is run once more at the end\n")

    def close(self):
        self.say("== slowest tests\n")
        for name, seconds in sorted(self.times.items(), key=lambda entry: -entry[1])[:SLOWEST]:
            self.out.write(f"{seconds:6.1f} s  {name}\n")
        self.out.write("== processor time\n")
        self.out.write("".join(f"{seconds:6.0f} s  {name}\n" for name, seconds in self.spent.most_common(SLOWEST) if seconds >= 1))
        self.out.write("== skipped\n")
        for (of_python, of_googletest), count in sorted(self.reasons.items()):
            self.out.write(f"{count:4} × {of_python or of_googletest}\n")
        self.out.write("".join(f"{line}\n" for line in self.failures + self.repeated))
        self.out.write(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped\n")
        return 1 if self.failed or not self.passed else 0
