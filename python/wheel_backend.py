"""Builds the wheel of the Python module, for pip (PEP 517) and for scripts/package. Needs only the standard library.

The environment variable WEIGHTFS_PROGRAM names a program that the wheel includes; then it is for this machine's kind only.
SOURCE_DATE_EPOCH is the time of all files, so that the same sources give the same wheel.
"""
import base64
import hashlib
import os
import pathlib
import platform
import sys
import tarfile
import time
import zipfile

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = pathlib.Path(__file__).resolve().parent
FIRST_TIME = 315532800  # 1980-01-01, the first time that a zip can store


def project():
    return tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]


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
    tag = f"py3-none-linux_{platform.machine()}" if program else "py3-none-any"
    folder = f"{about['name']}-{about['version']}.dist-info"
    files = list(module_files())
    if program:
        files.append(("weightfs/bin/weightfs", pathlib.Path(program).read_bytes()))
    is_pure = "false" if program else "true"
    files += [(f"{folder}/METADATA", metadata(about).encode()), (f"{folder}/entry_points.txt", entry_points(about).encode()),
              (f"{folder}/WHEEL", f"Wheel-Version: 1.0\nGenerator: weightfs\nRoot-Is-Purelib: {is_pure}\nTag: {tag}\n".encode())]
    record = "".join(f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
                     for path, data in files)
    files.append((f"{folder}/RECORD", f"{record}{folder}/RECORD,,\n".encode()))
    name = f"{about['name']}-{about['version']}-{tag}.whl"
    changed = time.gmtime(max(FIRST_TIME, int(os.environ.get("SOURCE_DATE_EPOCH", FIRST_TIME))))[:6]
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files:
            member = zipfile.ZipInfo(path, changed)
            member.external_attr = (0o100755 if path.endswith("/bin/weightfs") else 0o100644) << 16
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
