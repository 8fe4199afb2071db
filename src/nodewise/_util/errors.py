"""The errors that a user's mistake can raise, and the warning that goes with them.

Each message names the file or value, what was expected, and what to do next. The command line turns both errors into
one line and exit code 2.
"""

import sys
import warnings


class NodewiseError(Exception):
    """Base of the errors that the library raises on purpose."""


class InputError(NodewiseError, ValueError):
    """A value, array or file given by the user cannot be used."""


class StoreError(NodewiseError, OSError):
    """A file of ours (a store, a model, a download) is missing, damaged, too new, or cannot be written."""


class NodewiseWarning(UserWarning):
    """Something that works, but probably not as meant."""


def warn(message: str) -> None:
    """Issue a :class:`NodewiseWarning` that points at the line outside this package that caused it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "nodewise":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, NodewiseWarning, stacklevel=level)
