"""Every attack of the tables is one test: exit status, peak memory and CPU time of `info`, `ls -lR`, `verify` and of a mounted
and walked tree. Nothing is left behind, and a regular model beside the attack is served afterwards.

  WEIGHTFS=build/dev/weightfs python3 -m unittest discover -s tests/attacks [-k NAME]
  WEIGHTFS=build/dev/weightfs python3 tests/attacks/test_attacks.py --table [NAME...]     the cost of each, and the failures
"""
import concurrent.futures
import itertools
import multiprocessing
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import limits  # noqa: E402
import runner  # noqa: E402
from attack import COMPLETE, REFUSED  # noqa: E402

WEIGHTFS = os.path.abspath(os.environ.get("WEIGHTFS", "build/dev/weightfs"))
ATTACKS = runner.load_attacks()
# The whole table takes half an hour; `scripts/test` runs the rows of ci.txt, which has some of each kind.
if os.environ.get("ATTACKS") == "ci":
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ci.txt")) as chosen:
        kept = set(chosen.read().split()) | {"empty-model"}
    ATTACKS = {name: attack for name, attack in ATTACKS.items() if name in kept}
WORKERS = int(os.environ.get("ATTACKS_WORKERS", "2"))  # as many as CI has cores
MISMATCH = 7
RUNS = 3  # of an attack that takes too long: a busy host of virtual machines adds to the CPU time
SLOWDOWN = limits.DEBUG_SLOWDOWN if limits.is_debug_build(WEIGHTFS) else 1


class Results:
    """Measures attacks in WORKERS processes, a few rows ahead of the running test."""

    def __init__(self, names):
        self.names = names
        self.pool = concurrent.futures.ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn"))
        self.started = {}
        self.empty = self.start("empty-model").result()["runs"]

    def start(self, name):
        if name not in self.started:
            self.started[name] = self.pool.submit(runner.measure, WEIGHTFS, name, SLOWDOWN)
        return self.started[name]

    def get(self, name):
        position = self.names.index(name)
        for following in itertools.islice(self.names, position, position + 2 * WORKERS):
            self.start(following)
        result = self.started[name].result()
        self.started[name] = None  # its text may be long
        return result

    def repeat(self, name):
        """Measures an attack once more, when no other runs."""
        for other in self.started.values():
            if other is not None:
                other.exception()
        return self.pool.submit(runner.measure, WEIGHTFS, name, SLOWDOWN).result()

    def close(self):
        self.pool.shutdown(cancel_futures=True)


def cpu_limit(attack, result, verb, empty):
    run = result["runs"][verb]
    requests = (run.get("walk") or {}).get("requests", 0)
    return (limits.cpu_limit(result["bytes"], attack, SLOWDOWN) + empty[verb]["cpu"] +
            (requests * limits.CPU_PER_REQUEST_S + run.get("lines", 0) * limits.CPU_PER_LINE_S) * SLOWDOWN)


def takes_too_long(attack, result, empty):
    return any(run["status"] in ("timeout", "SIGXCPU") or run["cpu"] > cpu_limit(attack, result, verb, empty)
               for verb, run in result.get("runs", {}).items())


def lines_of(attack):
    """How many lines `info` may print on standard error."""
    if attack.format == "directory":
        return (0, 1)  # each of several models has its own on standard output
    if attack.format == "ollama store":
        return range(1, 10_000)  # one for each incomplete model
    return range(1, 6) if attack.format == "ollama" else (1,)  # of several blobs that differ


def problems(attack, result, empty):
    """The failures of an attack, one line each."""
    if "build" in result:
        return ["cannot be built: " + result["build"]]
    found = []
    for verb, run in result["runs"].items():
        allowed = {"walk": COMPLETE, "verify": attack.verify or attack.expect | REFUSED | {MISMATCH}}.get(verb, attack.expect)
        if run["status"] not in allowed:
            found.append(f"{verb}: status {run['status']}, not {sorted(allowed)}: {run['stderr'][:300].strip()}")
        if verb == "info" and run["status"] != 0 and run["stderr"].count("\n") not in lines_of(attack):
            found.append(f"info: {run['stderr'].count(chr(10))} lines on standard error: {run['stderr'][:300]}")
        memory = limits.memory_limit(result["bytes"], attack) + empty[verb]["memory"]
        if run["memory"] > memory:
            found.append(f"{verb}: {run['memory'] / 1e6:.0f} MB of memory, limit {memory / 1e6:.0f} MB")
        cpu = cpu_limit(attack, result, verb, empty)
        if run["cpu"] > cpu:
            found.append(f"{verb}: {run['cpu']:.1f} s of CPU, limit {cpu:.1f} s")
    walk = result["runs"].get("walk")
    if walk and walk["error"]:
        found.append("walk: " + walk["error"].strip().splitlines()[-1])
    if walk and not walk["served"]:
        found.append("walk: the honest model is not served afterwards")
    found += [f"left behind: {name}" for name in result["left"]]
    return found


@unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here")
class Attacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.results = Results(sorted(ATTACKS))
        cls.addClassCleanup(cls.results.close)


def make_test(name):
    def test(self):
        attack, empty = ATTACKS[name], self.results.empty
        result = self.results.get(name)
        for _ in range(1, RUNS):
            if takes_too_long(attack, result, empty):
                result = self.results.repeat(name)
        self.assertEqual(problems(attack, result, empty), [], f"{attack.format}: {attack.what}")
    test.__doc__ = ATTACKS[name].what
    return test


for each in ATTACKS:
    setattr(Attacks, "test_" + each.replace("-", "_"), make_test(each))


def print_table(chosen):
    """Runs the rows of these names (all, if there is none): a line per attack with its cost, followed by its failures."""
    names = chosen or sorted(ATTACKS)
    results = Results(names)
    failed = cpu = 0
    for name in names:
        result = results.get(name)
        found = problems(ATTACKS[name], result, results.empty)
        failed += bool(found)
        runs = result.get("runs", {})
        cpu += sum(run["cpu"] for run in runs.values())
        print(f"{'FAIL' if found else 'ok  '} {name:44} {ATTACKS[name].format:14} {result.get('bytes', 0) / 1e6:7.2f} MB  " +
              "  ".join(f"{verb} {run['status']} {run['cpu']:.2f} s {run['memory'] / 1e6:.0f} MB" for verb, run in runs.items()) +
              f"  [{result.get('build_s', 0):.1f} s, {result.get('wall_s', 0):.1f} s]")
        for line in found:
            print(f"       {line}")
        sys.stdout.flush()
    results.close()
    print(f"{len(names)} attacks, {failed} fail, {cpu:.0f} s of CPU")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        print_table(sys.argv[2:] if all(name in ATTACKS for name in sys.argv[2:]) else
                    [name for name in sorted(ATTACKS) if any(part in name for part in sys.argv[2:])])
    else:
        unittest.main()
