"""The exceptions of the module. Their texts are the sentences of the program."""
from __future__ import annotations

from typing import Optional, Tuple, Type


class Error(Exception):
    """A model cannot be opened or read. Exceptions below this class say why."""


class NotFound(Error, KeyError):
    """A source, a tensor or a path does not exist. Also a KeyError, as of a dict."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class Refused(Error):
    """An unsupported or corrupt container, a refused tensor, or access that a rule or a server denies."""


class Mismatch(Error):
    """Bytes do not match their digest."""


class Unavailable(Error):
    """The network or a server is temporarily unavailable, or `offline=True` forbids its use. A retry may succeed."""


class Changed(Error):
    """The container was replaced or changed since it was opened. Open it again."""


class IncompleteWarning(UserWarning):
    """A model that was opened lacks tensors, or has some that cannot be read."""


_kinds: Tuple[type, ...] = (Error, NotFound, Refused, Mismatch, Unavailable, Changed, IncompleteWarning)
for _kind in _kinds:
    _kind.__module__ = "weightfs"  # tracebacks show the name that a program can catch

# The exit statuses of the program (man weightfs, EXIT STATUS) and the values of the field Weightfs-Error of its responses.
_OF_STATUS = {3: NotFound, 4: Refused, 5: Refused, 7: Mismatch, 8: Unavailable}
_OF_NAME = {"not-found": NotFound, "damaged": Refused, "unsupported": Refused, "forbidden": Refused, "mismatch": Mismatch,
            "network": Unavailable, "unreachable": Unavailable, "changed": Changed}
_OF_HTTP = {403: Refused, 404: NotFound, 409: Changed, 412: Changed, 422: Refused, 502: Refused, 503: Unavailable,
            504: Unavailable}


def error_of_exit(status: int, message: str) -> Exception:
    """The exception for a command that failed with this exit status: TypeError for an option or a value that it does not have."""
    kind: Type[Exception] = TypeError if status == 2 else _OF_STATUS.get(status, Error)
    return kind(message)


def error_of_response(status: int, name: Optional[str], message: str) -> Error:
    """The exception for a response of the server; `name` is its field Weightfs-Error."""
    kind: Type[Error] = _OF_NAME.get(name or "", _OF_HTTP.get(status, Error))
    return kind(message)
