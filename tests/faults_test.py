"""Faults are put only into lines that stay valid, in both forms; the trials of tests/mutate.py run what is needed, in order."""
import collections
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import mutate  # noqa: E402
from mutate import faults, jobs  # noqa: E402

LIMIT_S = 60

REWRITTEN = (
    ("  if (at < size) ++at;", "limit", "  if (weightfs_fault(7) ? (at <= size) : (at < size)) ++at;"),
    ("  } else if (a == b) {  // a == c", "equality", "  } else if (weightfs_fault(7) ? (a != b) : (a == b)) {  // a == c"),
    ("  while (is(x, ' ') && y)", "logic", "  while (weightfs_fault(7) ? (is(x, ' ') || y) : (is(x, ' ') && y))"),
    ("  for (int i = 0; i < n; ++i) {", "limit", "  for (int i = 0; weightfs_fault(7) ? (i <= n) : (i < n); ++i) {"),
    ("  if (bad) return failure(x < y);", "check",
     "  if (weightfs_fault(7) ? (false) : static_cast<bool>(bad)) return failure(x < y);"),
    ("  if (bad) return true;", "truth", "  if (bad) return weightfs_fault(7) ? (false) : (true);"),
    ("  return size + 1;", "number", "  return weightfs_fault(7) ? (size) : (size + 1);"),
    ("  const size_t last = size - 1u;", "number", "  const size_t last = weightfs_fault(7) ? (size) : (size - 1u);"),
    ("  return any(all, [](int x) { return x > 0; });", "limit",
     "  return any(all, [](int x) { return weightfs_fault(7) ? (x >= 0) : (x > 0); });"),
    ("  return \" < \" < text;", "limit", "  return weightfs_fault(7) ? (\" < \" <= text) : (\" < \" < text);"))

LEFT_ALONE = (
    "  if (const auto found = find(x); found != end) return *found;",
    "  if (const int* found = get(a == b)) return *found;",
    "  if constexpr (kSize < 4) {", "  static_assert(kSize < 4);", "  constexpr bool kIs = 1 < 2;",
    "  template <bool is = (1 < 2)>", "  while (true) {",
    "const bool kIs = a < b;", "  if (TRY(size()) < 4) {", "  if (a < b &&", "  return {a + 1, b};", "  // if (a < b)",
    "  return \"a < b\";", "  return x - 1.5;", "  return x + 10;", "  if (all(x, [&](int y) { return f(y); }) && z) {",
    "  bool operator==(const A& b) const { return a == b.a; }", "  const auto& x = a < b;", "#define LESS(a, b) return a < b;",
    "  if (a < b) \\")


def at_line_one(line):
    return [fault for fault in faults.faults_in("a.cc", f"int f() {{\n{line}\n}}\n") if fault.line == 1]


class Rewriting(unittest.TestCase):
    def test_line_has_both_forms(self):
        for line, kind, expected in REWRITTEN:
            with self.subTest(line):
                fault, *_ = (fault for fault in at_line_one(line) if fault.kind == kind)
                text = f"int f() {{\n{line}\n}}\n"
                self.assertEqual(faults.faulty(text, 7, fault), f'#include "base/fault.h"\nint f() {{\n{expected}\n}}\n')

    def test_other_lines_stay(self):
        for line in LEFT_ALONE:
            with self.subTest(line):
                self.assertEqual(at_line_one(line), [])

    def test_lines_of_constant_functions_texts_and_conditional_code_stay(self):
        line = "  if (a < b) return c;"
        for before, after in (("constexpr int f(int a,\n                int b) {", "}"),
                              ("template <typename T>\nconsteval int f() {", "}"),
                              ("#ifdef X\nint f() {", "}\n#endif"), ('auto x = R"(', ')";'), ("/*", "*/")):
            self.assertEqual(list(faults.faults_in("a.cc", f"{before}\n{line}\n{after}\n")), [], before)
        self.assertEqual([fault.line for fault in faults.faults_in("a.cc", f"#if X\n#endif\nint f() {{\n{line}\n}}\n")], [3])

    def test_variable_chooses_the_form_and_what_is_reached_is_recorded(self):
        text = 'int main(int count, char**) {\n  if (count < 2) return 5;\n  return count - 1;\n}\n'
        fault = next(fault for fault in faults.faults_in("a.cc", text) if fault.kind == "number")
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "base"))
            for name, content in ((faults.HEADER, faults.CODE), ("a.cc", faults.faulty(text, 7, fault))):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(content)
            compiler = ("clang++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-I.", "a.cc", "-o", "a")
            subprocess.run(compiler, cwd=folder, check=True, timeout=LIMIT_S)
            marks = os.path.join(folder, "marks")

            def run(*argv, **variables):
                with open(marks, "wb") as file:
                    file.truncate(faults.MAX_FAULTS)
                status = subprocess.run(["./a", *argv], cwd=folder, env={**os.environ, **variables}, timeout=LIMIT_S).returncode
                with open(marks, "rb") as file:
                    return status, [number for number, mark in enumerate(file.read()) if mark]

            self.assertEqual(run("x"), (1, []))
            self.assertEqual(run("x", WEIGHTFS_FAULT="7"), (2, []))
            self.assertEqual(run("x", WEIGHTFS_FAULT="8"), (1, []))
            self.assertEqual(run("x", WEIGHTFS_REACHED=marks), (1, [7]))
            self.assertEqual(run(WEIGHTFS_REACHED=marks), (5, []))


class Chosen(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = folder.name
        for room in faults.ROOMS:
            os.mkdir(os.path.join(self.home, room))
            for name in "abcd":
                with open(os.path.join(self.home, room, f"{name}.cc"), "w") as file:
                    file.write("".join(f"{line}\n" for line, _, _ in REWRITTEN) * 3)

    def test_faults_are_spread_over_rooms_files_and_kinds(self):
        found = faults.chosen(self.home, 40, 1)
        self.assertEqual(collections.Counter(fault.path.partition("/")[0] for fault in found), dict.fromkeys(faults.ROOMS, 4))
        self.assertEqual(len({fault.path for fault in found}), 40)
        kinds = {(fault.path.partition("/")[0], fault.kind) for fault in found}
        self.assertEqual((len(kinds), {kind for _, kind in kinds}), (40, set(faults.KINDS)))

    def test_seed_chooses_others(self):
        self.assertEqual(faults.chosen(self.home, 20, 1), faults.chosen(self.home, 20, 1))
        self.assertNotEqual(faults.chosen(self.home, 20, 1), faults.chosen(self.home, 20, 2))


class Trials(unittest.TestCase):
    def test_checks_of_text_are_not_run(self):
        names = {job.name for job in mutate.jobs_of_ring("program")}
        self.assertLessEqual({"words_test", "transcript_test", "test_cli", "test_mounting"}, names)
        self.assertFalse({"format_test", "layering_test", "faults_test"} & names)

    FAULT = faults.Fault("cache/a.cc", 4, 2, 7, "a < b", "a <= b", "limit")
    RING = [jobs.Job(title, None, title.partition(",")[0]) for title in
            ("base_test, plain", "cache_test, plain", "fs_test, plain", "test_cli", "test_mounts, smoke")]

    def run_with(self, outcomes, reaching=("cache_test, plain", "fs_test, plain", "test_cli", "test_mounts, smoke")):
        """What is printed, the jobs that run, and their limits, if their outcomes are these; all others pass."""
        known = {job.title: {"seconds": 10 - place, "reached": [1] if job.title in reaching else []}
                 for place, job in enumerate(self.RING)}
        run = []

        def outcome(title, program, limit_s, **variables):
            self.assertEqual((program, variables), ("program", {"WEIGHTFS_FAULT": "1", "GTEST_FAIL_FAST": "1"}))
            run.append((title, limit_s))
            return outcomes.get(title, [self.PASSES]).pop(0)

        trials = mutate.Trials({1: self.FAULT}, "program", known)
        with unittest.mock.patch.object(mutate, "outcome", outcome), contextlib.redirect_stdout(io.StringIO()) as printed:
            with unittest.mock.patch.object(mutate, "WORKERS", 1):
                trials.run(self.RING)
        return printed.getvalue(), run, len(trials.found)

    PASSES = {"failed": 0, "repeats": False, "how": ""}
    FAILS = {"failed": 1, "repeats": True, "how": "Cache.Evicts"}
    CRASHES = {"failed": 1, "repeats": False, "how": "ended with status -6"}
    PRINTED = " 1 cache/a.cc:5  a < b → a <= b  "

    def test_fault_that_tests_of_its_room_find_is_not_tried_further(self):
        self.assertEqual(self.run_with({"cache_test, plain": [self.FAILS, self.FAILS]}),
                         (f"{self.PRINTED}found by cache_test: Cache.Evicts\n", [("cache_test, plain", 66)] * 2, 1))

    def test_crash_is_not_repeated(self):
        self.assertEqual(self.run_with({"fs_test, plain": [self.CRASHES]}), (
            f"{self.PRINTED}found by fs_test: ended with status -6\n", [("cache_test, plain", 66), ("fs_test, plain", 62)], 1))

    def test_failure_that_does_not_repeat_finds_nothing(self):
        printed, run, found = self.run_with({"cache_test, plain": [self.FAILS, self.PASSES]})
        self.assertEqual((printed, found), (f"{self.PRINTED}NOT FOUND: 4 programs of tests reach it\n", 0))
        self.assertEqual([title for title, _ in run],
                         ["cache_test, plain", "cache_test, plain", "fs_test, plain", "test_cli", "test_mounts, smoke"])

    def test_fault_that_no_test_reaches_is_not_tried(self):
        self.assertEqual(self.run_with({}, reaching=()), (f"{self.PRINTED}NOT FOUND: no test reaches it\n", [], 0))


if __name__ == "__main__":
    unittest.main()
