#!/usr/bin/env python3
"""The table of truth: every command × every form of damage, and events while it runs × every kind of SOURCE.

  table.py WEIGHTFS [--all] [--only TEXT] [--sources TEXT] [--jobs N]

A command that ends with status 0 has delivered everything, and it is equal to the undamaged bytes. Otherwise it says on standard
error what is missing and why, with the status of the damage; it keeps nothing wrong; and once the source is repaired, the next run
completes. model.py decides what is complete; it shares no code with weightfs. Without --all a fixed twentieth of the cells is.
TEXT: only cells that contain it. The last line is `N passed, N failed, N skipped`.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from typing import NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import events  # noqa: E402
import model  # noqa: E402
import sources  # noqa: E402
from waiting import eventually  # noqa: E402

LIMIT_S = 60
FORMS = {"safetensors": model.read_safetensors, "gguf": model.read_gguf, "npz": model.read_npz}
PATIENCE = ["--timeout", "1", "--retries", "1"]


class Result(NamedTuple):
    status: int
    output: bytes
    errors: str
    is_complete: bool  # and equal to the undamaged model
    is_timeout: bool = False


class Cell:
    """A command on a source that is open for business. `during` is called with the process; `options` are added to its own."""
    during = None
    options = ()

    def __init__(self, weightfs, source, folder, outputs="out"):
        self.weightfs, self.source, self.folder, self.outputs = weightfs, source, folder, outputs
        self.small = os.path.join(folder, "small")
        self.durations = {}
        self.use_folder(folder)
        self.good = os.path.join(folder, "good.safetensors")
        with open(self.good, "wb") as file:
            file.write(model.safetensors(source.arrays))
        self.forget()

    def copy(self):
        """A run with this source and cache, and other outputs."""
        return Cell(self.weightfs, self.source, self.folder, "out2")

    def use_folder(self, folder):
        """The folder of the cache and the outputs."""
        self.place = folder
        os.makedirs(os.path.join(folder, self.outputs), exist_ok=True)

    def forget(self):
        """An empty cache, and no outputs."""
        names = ("cache", "out", "out2") if self.outputs == "out" else (self.outputs,)
        for name in names:
            shutil.rmtree(os.path.join(self.folder, name), ignore_errors=True)
        os.makedirs(os.path.join(self.folder, self.outputs))

    def clear_outputs(self):
        """The cache stays."""
        shutil.rmtree(os.path.join(self.place, self.outputs), ignore_errors=True)
        os.makedirs(os.path.join(self.place, self.outputs))

    def out(self, name):
        return os.path.join(self.place, self.outputs, name)

    def duration(self, command):
        """The result of a run that nothing disturbs, with an empty cache."""
        if command not in self.durations:
            during, self.during = self.during, None
            self.forget()
            begin = time.monotonic()
            self.do(command)
            self.durations[command] = time.monotonic() - begin
            self.during = during
            self.forget()
        return self.durations[command]

    def is_of_the_other(self, result):
        """Whether a result is that of the model that replaced the source."""
        return self.source.is_of_the_other(self, result)

    def run(self, *argv):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "AWS_"))}
        environment.update(self.source.environment, WEIGHTFS_CACHE=os.path.join(self.place, "cache"), HOME=self.folder)
        takes_options = argv[0] not in ("cache", "umount")
        patience = [*PATIENCE, "--wait-for-network", "0"] if self.source.is_remote and takes_options else []
        options = self.options if takes_options else []
        process = subprocess.Popen([self.weightfs, argv[0], *patience, *options, *argv[1:]], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        thread = self.during(process) if self.during else None
        try:
            output, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Result(-1, b"", "hangs", False, True)
        finally:
            if thread:
                thread.join()
        return Result(process.returncode, output, errors.decode(errors="replace"), False)

    def do(self, command):
        """Runs a command, and judges its output."""
        return getattr(self, "do_" + command.replace(" ", "_"))()

    def judged(self, result, is_complete):
        if result.status != 0:
            return result
        during, self.during = self.during, None  # the event is for the command, not for its judge
        try:
            return result._replace(is_complete=bool(is_complete()))
        except (ValueError, KeyError, IndexError, OSError, EOFError, StopIteration, zlib.error) as error:
            return result._replace(errors=result.errors + f"\noracle: {type(error).__name__}: {error}")
        finally:
            self.during = during

    # --- the commands

    def do_info(self):
        result = self.run("info", "--json", self.source.argument)

        def is_complete():
            found = json.loads(result.output)["tensors"]
            return not self.source.is_one_model or (found["count"] == len(self.source.arrays) and
                                                    found["nbytes"] == sum(array.nbytes for array in self.source.arrays.values()))
        return self.judged(result, is_complete)

    def do_ls(self):
        result = self.run("ls", "-R", self.source.argument)
        return self.judged(result, lambda: set(self.source.arrays) <= set(result.output.decode().splitlines()))

    def do_cat(self):
        names = [f"{self.source.prefix}tensors/{name}" for name in self.source.arrays]
        result = self.run("cat", self.source.argument, *names)
        return self.judged(result, lambda: result.output == b"".join(array.tobytes() for array in self.source.arrays.values()))

    def do_stats(self):
        result = self.run("stats", "--json", self.source.argument)

        def is_complete():
            found = {entry["name"]: (entry["min"], entry["max"]) for entry in json.loads(result.output)["tensors"]}
            return found == {name: (float(array.min()), float(array.max())) for name, array in self.source.arrays.items()}
        return self.judged(result, is_complete)

    def do_diff(self):
        result = self.run("diff", self.good, self.source.argument)
        # 1: the metadata and other files may differ, because the sources do.
        expected = ("change\t", "metadata\t", "file\t", "added\tconfig.json\t")
        return result._replace(is_complete=all(line.startswith(expected) for line in result.output.decode().splitlines()))

    def export(self, form):
        out = self.out("model." + form)
        result = self.run("export", "--to", form, self.source.argument, out)

        def read():
            if form in FORMS:
                with open(out, "rb") as file:
                    return FORMS[form](file.read())
            if form == "npy":
                arrays = {name: data for name, data in model.files_below(out).items() if name != "tensors.json"}
                return {name.removesuffix(".npy"): model.read_npy(data) for name, data in arrays.items()}
            if form == "tar":
                with open(out, "rb") as file:
                    return model.raw_tensors(model.read_members(file.read()), self.source.arrays)
            return model.raw_tensors(model.files_below(out), self.source.arrays)
        judged = self.judged(result, lambda: model.is_equal(read(), self.source.arrays))
        if result.status < 0 and os.path.lexists(out) and model.is_equal(read(), self.source.arrays):
            return judged  # killed after the output was complete
        if result.status != 0 and os.path.lexists(out):
            return judged._replace(errors=judged.errors + f"\noracle: {out} was left")
        return judged

    def do_export_safetensors(self):
        return self.export("safetensors")

    def do_export_gguf(self):
        return self.export("gguf")

    def do_export_npz(self):
        return self.export("npz")

    def do_export_npy(self):
        return self.export("npy")

    def do_export_dir(self):
        return self.export("dir")

    def do_export_tar(self):
        return self.export("tar")

    def do_verify(self):
        # It delivers no bytes: whether 0 is right is decided by the damage.
        return self.run("verify", self.source.argument)._replace(is_complete=True)

    def do_fetch(self):
        result = self.run("fetch", self.source.argument)

        def is_complete():
            names = [f"{self.source.prefix}tensors/{name}" for name in self.source.arrays]
            read = self.run("cat", "--offline", self.source.argument, *names)
            return read.status == 0 and read.output == b"".join(array.tobytes() for array in self.source.arrays.values())
        return self.judged(result, is_complete)

    def is_found_wrong(self, path):
        """Whether reads fail after the comparison: a large file with a digest is read before it (semantics 21.6)."""
        def fails():
            try:
                with open(path, "rb") as file:
                    file.read()
            except OSError:
                return True
            return False
        return eventually(fails, LIMIT_S)

    def do_mount(self):
        point = self.out("mnt")
        os.mkdir(point)
        result = self.run("mount", self.source.argument, point)
        if result.status != 0:
            return result
        equal, differing = 0, []
        try:
            for name, array in self.source.arrays.items():
                path = os.path.join(point, self.source.prefix, "tensors", name)
                try:
                    with open(path, "rb") as file:
                        data = file.read()
                except OSError:
                    continue
                equal += data == array.tobytes()
                if data != array.tobytes() and self.source.is_compared_by_mounts:
                    differing.append((name, path))
            # The digest of a large file is compared when all of it has been read.
            wrong = [name for name, path in differing if not (self.source.is_large and self.is_found_wrong(path))]
        finally:
            self.run("umount", point)
        if wrong:
            return result._replace(errors=result.errors + f"\noracle: wrong bytes of {wrong}")
        # Reads that fail tell the reader. A mount without tensors, or with refused ones, must say so itself.
        is_told = bool(result.errors) or equal == len(self.source.arrays)
        return result._replace(is_complete=is_told or self.source.is_remote or self.source.digested)


EXPORTS = [f"export {form}" for form in ("safetensors", "gguf", "npz", "npy", "dir", "tar")]
ONE_MODEL = ["stats", "diff", *EXPORTS]


def commands_of(source):
    mount = ["mount"] if os.path.exists("/dev/fuse") else []
    return [
        "info", "ls", "cat", "verify", *mount, *(ONE_MODEL if source.is_one_model else []), *(["fetch"] if source.is_remote else [])
    ]


def problem_with(cell, source, damage, command):
    """What breaks the promise; None if it holds."""
    cell.forget()
    source.heal()
    source.break_with(damage)
    result = cell.do(command)
    source.heal()
    if "oracle:" in result.errors:
        return result.errors.strip().splitlines()[-1]
    if result.is_timeout or result.status < 0:
        return result.errors or f"signal {-result.status}"
    if result.status == 0 and not result.is_complete:
        return "status 0, and not complete"
    # A read of all bytes with a digest must see the difference; a header has none of its own.
    sees_all = command in ("verify", "fetch") or (command not in ("info", "ls", "mount") and damage.kind != "flip")
    if result.status == 0 and command == "verify":
        return "status 0 of a damaged model"
    if result.status == 0 and sees_all and command == "fetch" and damage.kind == "flip":
        return "status 0 of wrong bytes"
    expected = {1, 2} if command == "diff" else set(damage.statuses)
    if command == "diff" and result.status == 1 and result.is_complete and damage.kind != "flip":
        return "status 1 and equal tensors of a damaged model"
    if result.status not in {0, *expected}:
        return f"status {result.status}, not {sorted(expected)}: {result.errors.strip()[:200]}"
    if result.status != 0 and not result.errors.strip() and not (command == "diff" and result.status == 1 and result.output):
        return f"status {result.status} without a word"
    again = cell.do("cat")
    # diff ends at the first difference, and the others read only parts: the wrong byte may be cached before all of the file can be
    # compared. The run that compares it says so, and the one after that completes.
    if command in ("info", "ls", "diff", "mount") and damage.kind == "flip" and source.is_large and again.status == 7:
        again = cell.do("cat")
    if again.status != 0 or not again.is_complete:
        return f"the next run does not complete: status {again.status}: {again.errors.strip()[:200]}"
    return None


def cells_of(source, is_all, only):
    """(damage or event, command, name, judge) of the cells to try."""
    def is_tried(name):
        return only in name and (is_all or zlib.crc32(name.encode()) % 20 == 0)

    for command in commands_of(source):
        for judge, harms in ((problem_with, source.damages()), (events.problem_with, events.events_of(source, command))):
            for harm in harms:
                name = f"{source.name} | {harm} | {command}"
                if is_tried(name):
                    yield harm, command, name, judge


def try_source(weightfs, source, is_all, only):
    """Lines about failures, and the number of cells."""
    with tempfile.TemporaryDirectory() as folder:
        place = sources.Place(folder)
        try:
            source.start(place)
            cell = Cell(weightfs, source, folder)
            failures, count = [], 0
            for command in commands_of(source):
                if only and not any(f"| {command}" in name for _, _, name, _ in cells_of(source, True, only)):
                    continue
                cell.forget()
                result = cell.do(command)
                count += 1
                if result.status not in ((0, 1) if command == "diff" else (0,)) or not result.is_complete:
                    failures.append(f"{source.name} | undamaged | {command}: status {result.status}: {result.errors.strip()[:300]}")
            for harm, command, name, judge in cells_of(source, is_all, only):
                count += 1
                if problem := judge(cell, source, harm, command):
                    failures.append(f"{name}: {problem}")
            return failures, count
        finally:
            place.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weightfs")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--sources", default="", help="only sources whose name contains this")
    parser.add_argument("--source", default="", help="only the source with this name")
    parser.add_argument("--list", action="store_true", help="print the names of the sources")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.list:
        print("\n".join(source.name for source in sources.all_sources()))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # mounts are removed
    failed = total = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        running = {source.name: pool.submit(try_source, os.path.abspath(args.weightfs), source, args.all, args.only)
                   for source in sources.all_sources() if args.sources in source.name and args.source in ("", source.name)}
        for name, future in running.items():
            failures, count = future.result()
            failed += len(failures)
            total += count
            print("\n".join([*failures, f"== {name}: {count - len(failures)} of {count}"]), flush=True)
    skipped = [] if os.path.exists("/dev/fuse") else ["mounts need /dev/fuse"]
    skipped += [] if sources.path_of("docker-registry") else ["registries need docker-registry"]
    skipped += [] if sources.path_of("nginx") else ["URLs need nginx"]
    print("".join(f"skipped: {reason}\n"
                  for reason in skipped) + f"{total - failed} passed, {failed} failed, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
