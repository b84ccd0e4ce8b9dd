"""A file of the generator."""
from typing import NamedTuple


class Row(NamedTuple):
    suffix: str  # of the file: the format
    kind: str    # what is ambiguous in it
    data: bytes
    is_honest: bool = False  # nothing: it must be shown

    def __str__(self):
        return f"{self.suffix}: {self.kind}"


def honest(suffix, data, kind="nothing"):
    return Row(suffix, kind, data, True)
