"""Pictures by matplotlib, which loads when the first one is drawn: the colours of all, and a figure saved as PNG."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from nodewise._util.atomic import new_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of Okabe and Ito's colours, which people with any colour vision can tell apart.
VERMILLION, BLUE, GREY = "#d55e00", "#0072b2", "#8a8f98"


def save_picture(make_figure: Callable[[], Figure], path: Path, extra: str) -> bool:
    """Write a figure as PNG; False, and a warning that names the ``extra`` to install, if matplotlib is missing."""
    try:
        figure = make_figure()
    except ImportError:
        install = f"pip install 'nodewise[{extra}]', then run the command again"
        logging.getLogger("nodewise").warning("no picture without matplotlib: %s", install)
        return False
    with new_file(path) as temporary:
        figure.savefig(temporary, format="png")
    return True
