"""Small faults of the C++ code: where one can be put, and the line that has both forms, between which a variable of the
environment chooses at run time.

A fault replaces an operator, a number or a truth value in an expression that stands on one line as a whole: a condition of `if`,
`while` or `for`, a value that is returned, or the value of a constant in a body. The expression `E` becomes
`weightfs_fault(7) ? (FAULTY E) : (E)`, which is valid if both forms are and have one type. Headers, constant expressions, macros
and code under `#if` are left alone.
"""
import collections
import os
import random
import re

ROOMS = ("base", "formats", "numbers", "cache", "protocols", "sources", "fs", "report", "serve", "cli")
HEADER = os.path.join("base", "fault.h")  # of the copy that has the faults
MAX_FAULTS = 4096
CODE = """#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

inline const int weightfs_chosen_fault = [] {
  const char* const chosen = std::getenv("WEIGHTFS_FAULT");
  return chosen == nullptr ? 0 : std::atoi(chosen);
}();

// A byte for each fault, in the file WEIGHTFS_REACHED, which is mapped before the sandbox refuses that.
inline char* const weightfs_reached = []() -> char* {
  const char* const path = std::getenv("WEIGHTFS_REACHED");
  const int file = path == nullptr ? -1 : ::open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const mapped = ::mmap(nullptr, MAX_FAULTS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return mapped == MAP_FAILED ? nullptr : static_cast<char*>(mapped);
}();

inline bool weightfs_fault(int number) {
  if (weightfs_reached != nullptr && weightfs_reached[number] == 0) weightfs_reached[number] = 1;
  return weightfs_chosen_fault == number;
}
""".replace("MAX_FAULTS", str(MAX_FAULTS))

ONE = r" 1(?:[uU]?[lL]{0,2})\b(?![.'])"
KINDS = {  # patterns, each with what replaces it
    "limit": ((" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > ")),
    "check": (),  # of an error: it is dropped
    "number": ((r" \+" + ONE, ""), (" -" + ONE, "")),
    "equality": ((" == ", " != "), (" != ", " == ")),
    "truth": ((r"^true$", "false"), (r"^false$", "true")),
    "logic": ((" && ", " || "), (r" \|\| ", " && "))}
CHECKED = re.compile(r"\) return failure\(")  # behind a condition

TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|R"(?P<d>[^(\n]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'
                  r"'(?:\\.|[^'\\\n])+'", re.DOTALL)
CONSTANT = re.compile(r"\b(?:constexpr|consteval|static_assert|requires|concept|operator)\b|^\s*template\b")
HEAD = re.compile(r"\b(if|while|for) \(|\b(?:return|const (?:bool|int|auto|size_t|u?int\d+_t) \w+ =) ")
# Parts of no expression, or of one that is not valid twice: declarations, bodies of lambdas, lists, and statements in macros.
NO_EXPRESSION = re.compile(r"[;{}]|(?<![=!<>+\-*/%&|^])=(?!=)|\bTRY|\bco_|\bthrow\b")

# `line` begins with 0; `start` and `end` are the columns of the expression `before`.
Fault = collections.namedtuple("Fault", "path line start end before after kind")


def without_texts(text):
    """The code with as many other characters for comments and literals, so that lines and columns stay."""
    def blank(match):
        if match[0].startswith("/"):
            return re.sub(r"[^\n]", " ", match[0])
        return '"' + re.sub(r"[^\n]", "_", match[0][1:-1]) + '"'
    return TEXT.sub(blank, text)


def closing(code, start):
    """The position of the parenthesis that closes the one before `start`; None if it is on another line."""
    depth = 1
    for found in re.compile(r"[()]").finditer(code, start):
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.start()
    return None


def is_balanced(code):
    return all(code.count(one) == code.count(other) for one, other in ("()", "[]")) and closing(code, 0) is None


def expressions(code):
    """The columns of all expressions that can be replaced in a line without texts, and whether each is the condition of a check."""
    for head in HEAD.finditer(code):
        start, end = head.end(), closing(code, head.end()) if head[1] else code.find(";", head.end())
        if end is None or end < 0:
            continue
        is_check = head[1] == "if" and CHECKED.match(code, end) is not None
        if head[1] == "for":
            clauses = code[start:end].split("; ")
            if len(clauses) != 3:
                continue
            start += len(clauses[0]) + len("; ")
            end = start + len(clauses[1])
        if head[1] and code[start:end] == "true":
            continue  # a function may end without a value behind a loop that ends
        if code[start:end].strip() and is_balanced(code[start:end]) and not NO_EXPRESSION.search(code[start:end]):
            yield start, end, is_check


def indent_of(line):
    return len(line) - len(line.lstrip())


def is_constant(lines, number):
    """Whether a line is evaluated while compiling, or may be: it, or a line above with less indent, says so."""
    indent = indent_of(lines[number]) + 1
    for line in reversed(lines[:number + 1]):
        if line.strip() and indent_of(line) < indent:
            if CONSTANT.search(line):
                return True
            indent = indent_of(line)
    return False


def code_lines(lines):
    """The numbers of lines in bodies, without macros and what is under `#if`."""
    depth = 0
    for number, line in enumerate(lines):
        depth += bool(re.match(r"\s*#\s*if", line)) - bool(re.match(r"\s*#\s*endif", line))
        if depth == 0 and line.startswith(" ") and not line.lstrip().startswith("#") and not line.endswith("\\"):
            yield number


def faults_in(path, text):
    """All faults that a file may have, in its order."""
    lines, code = text.split("\n"), without_texts(text).split("\n")
    for number in code_lines(code):
        for start, end, is_check in expressions(code[number]):
            if is_constant(code, number):
                break
            before = lines[number][start:end]
            if is_check:
                yield Fault(path, number, start, end, before, "false", "check")
            for kind, patterns in KINDS.items():
                for pattern, other in patterns:
                    if found := re.search(pattern, code[number][start:end]):
                        after = before[:found.start()] + other + before[found.end():]
                        yield Fault(path, number, start, end, before, after, kind)


def faulty(text, number, fault):
    """A file with both forms of a line; the second if the variable is the number of the fault."""
    lines = text.split("\n")
    line = lines[fault.line]
    kept = f"static_cast<bool>({fault.before})" if fault.kind == "check" else f"({fault.before})"
    lines[fault.line] = f"{line[:fault.start]}weightfs_fault({number}) ? ({fault.after}) : {kept}{line[fault.end:]}"
    return f'#include "{HEADER}"\n' + "\n".join(lines)


def faults_of_room(home, room):
    for folder, _, names in os.walk(os.path.join(home, room)):
        for name in names:
            if name.endswith(".cc"):
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as file:
                    yield from faults_in(os.path.relpath(path, home), file.read())


def chosen(home, count, seed):
    """As many of each room and of each kind, in turn, each in another file."""
    dice = random.Random(seed)
    rooms = [sorted(faults_of_room(home, room)) for room in ROOMS]
    for room in rooms:
        dice.shuffle(room)
    kinds, found, files = list(KINDS), [], set()
    for turn in range(count):
        for place, room in enumerate(rooms):
            room[:] = [fault for fault in room if fault.path not in files]
            if room and len(found) < min(count, MAX_FAULTS - 1):
                wanted = kinds[(turn + place) % len(kinds)]
                found.append(next((fault for fault in room if fault.kind == wanted), room[0]))
                files.add(found[-1].path)
    return found
