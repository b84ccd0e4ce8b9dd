"""Builds the wheel of the Python module, for pip (PEP 517) and for scripts/package. Needs only the standard library.

The environment variable WEIGHTFS_PROGRAM names a program that the wheel includes, one static file, and WEIGHTFS_MACHINE its machine
(x86_64 or aarch64; default: this one). Such a wheel is for any Linux of that machine: its tags name both C libraries.
SOURCE_DATE_EPOCH is the time of all files, so that the same sources give the same wheel.
"""
import base64
import hashlib
import json
import os
import pathlib
import platform
import re
import sys
import tarfile
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
# pip installs it on the oldest systems with these: a static file needs neither C library (PEP 600, PEP 656).
PLATFORMS = ("manylinux_2_17_{0}", "manylinux2014_{0}", "musllinux_1_1_{0}")
PROGRAM = "{name}-{version}.data/scripts/weightfs"
FIRST_TIME = 315532800  # 1980-01-01, the first time that a zip can store


def project():
    """The table `project` of pyproject.toml. Before 3.11 Python has no parser of TOML, and pip would have to download one; here
    each value is on one line, and as in JSON."""
    root = table = {}
    for line in (HERE / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            table = root
            for name in re.findall(r'[^."\[\]]+|"[^"]+"', line):
                table = table.setdefault(name.strip('"'), {})
        elif line:
            key, value = line.split(" = ", 1)
            table[key] = json.loads(value)
    return root["project"]


def metadata(about):
    """METADATA (PEP 566)."""
    lines = ["Metadata-Version: 2.1", f"Name: {about['name']}", f"Version: {about['version']}", f"Summary: {about['description']}",
             f"License: {about['license']}", f"Requires-Python: {about['requires-python']}"]
    lines += [f"Requires-Dist: {each}" for each in about["dependencies"]]
    for extra, wanted in about["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f"Requires-Dist: {each}; extra == '{extra}'" for each in wanted)]
    return "\n".join(lines) + "\n"


def entry_points(about):
    groups = about["entry-points"].items()
    return "\n".join("\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""])
                     for group, entries in groups)


def module_files():
    """The files of the module: (path in the wheel, bytes)."""
    for path in sorted((HERE / "weightfs").iterdir()):
        if path.suffix == ".py" or path.name == "py.typed":
            yield f"weightfs/{path.name}", path.read_bytes()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel, and returns its name."""
    about, program = project(), os.environ.get("WEIGHTFS_PROGRAM")
    machine = os.environ.get("WEIGHTFS_MACHINE", platform.machine())
    platforms = [each.format(machine) for each in PLATFORMS] if program else ["any"]
    tag = f"py3-none-{'.'.join(platforms)}"
    folder = f"{about['name']}-{about['version']}.dist-info"
    files = list(module_files())
    if program:
        # pip installs it beside its own commands, so that `weightfs` starts without Python.
        files.append((PROGRAM.format(**about), pathlib.Path(program).read_bytes()))
    is_pure = "false" if program else "true"
    tags = "".join(f"Tag: py3-none-{each}\n" for each in platforms)
    files += [(f"{folder}/METADATA", metadata(about).encode()), (f"{folder}/entry_points.txt", entry_points(about).encode()),
              (f"{folder}/WHEEL", f"Wheel-Version: 1.0\nGenerator: weightfs\nRoot-Is-Purelib: {is_pure}\n{tags}".encode())]
    record = "".join(f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
                     for path, data in files)
    files.append((f"{folder}/RECORD", f"{record}{folder}/RECORD,,\n".encode()))
    name = f"{about['name']}-{about['version']}-{tag}.whl"
    changed = time.gmtime(max(FIRST_TIME, int(os.environ.get("SOURCE_DATE_EPOCH", FIRST_TIME))))[:6]
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files:
            member = zipfile.ZipInfo(path, changed)
            member.external_attr = (0o100755 if path.endswith("/scripts/weightfs") else 0o100644) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(member, data)
    return name


def build_sdist(sdist_directory, config_settings=None):
    """Writes the sources of the module, and returns the name of the archive."""
    about = project()
    folder = f"{about['name']}-{about['version']}"
    with tarfile.open(os.path.join(sdist_directory, f"{folder}.tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path in ("pyproject.toml", "wheel_backend.py", *(path for path, _ in module_files())):
            archive.add(HERE / path, f"{folder}/{path}")
    return f"{folder}.tar.gz"


if __name__ == "__main__":
    print(os.path.join(sys.argv[1], build_wheel(sys.argv[1])))
