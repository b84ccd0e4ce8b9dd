"""Packages of npm that tests use: other people's readers of model files."""
import functools
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile

LIMIT_S = 300


def run_bounded(argv, timeout, **kwargs):
    """The finished process. After the timeout its children are killed, too: they would keep its pipes open."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          start_new_session=True, **kwargs) as process:
        try:
            out, error = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(argv, process.returncode, out, error)


@functools.cache
def folder_with(*packages):
    """A directory whose node_modules has these packages ("name@version"), installed into the temporary directory and kept there;
    None, with one printed line, where that is not possible. No script of a package runs, and none
    that is optional for another is installed."""
    digest = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:16]
    folder = os.path.join(tempfile.gettempdir(), f"weightfs-tests-npm-{digest}-{os.getuid()}")
    if os.path.exists(os.path.join(folder, "complete")) and os.stat(folder).st_uid == os.getuid():
        return folder
    if not shutil.which("node") or not shutil.which("npm"):
        print(f"no node or npm here; not tested: {', '.join(packages)}")
        return None
    made = tempfile.mkdtemp(prefix="weightfs-test-")
    try:
        run_bounded([
            "npm", "install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional", "--prefer-offline",
            "--prefix", made, *packages
        ], LIMIT_S, cwd=made).check_returncode()
        with open(os.path.join(made, "complete"), "w"):
            pass
        os.rename(made, folder)
        return folder
    except (OSError, subprocess.SubprocessError):
        print(f"npm cannot install packages; not tested: {', '.join(packages)}")
        return folder if os.path.exists(os.path.join(folder, "complete")) else None
    finally:
        shutil.rmtree(made, ignore_errors=True)


def run_module(folder, script, *argv, timeout=LIMIT_S):
    """The finished process of an ES module that can import the packages of the folder."""
    with tempfile.NamedTemporaryFile("w", suffix=".mjs", dir=folder) as file:
        file.write(script)
        file.flush()
        return run_bounded(["node", file.name, *argv], timeout)
