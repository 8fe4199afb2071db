"""Pages of HTML that need no other file: light and dark, on paper and on a phone. Names in them are escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from nodewise._util.atomic import AnyPath, check_new_file
from nodewise._util.errors import InputError
from nodewise._util.words import UNSEEN
from nodewise._version import __version__

LONGEST = 300  # characters of a name that a page shows
_UNSEEN = re.compile(f"[{UNSEEN}]")


def escape(text: str, most: int = LONGEST) -> str:
    """Text of anyone's as HTML: no markup, nothing unseen, and not endless.

    >>> escape("<b>\\u202eevil")
    '&lt;b&gt;\ufffdevil'
    """
    text = text if len(text) <= most else f"{text[: most - 1]}…"
    return html.escape(seen(text))


def seen(text: str) -> str:
    """Text in which nothing is unseen."""
    return _UNSEEN.sub("\ufffd", text)


def new_target(path: AnyPath, endings: Sequence[str], overwrite: bool) -> Path:
    """The file to write, whose name must have one of ``endings``; raises before anything is computed."""
    target = Path(path)
    if target.suffix.lower() not in endings:
        raise InputError(f"{target}: expected a name that ends in {' or '.join(endings)}")
    check_new_file(target, overwrite)
    return target


def page(title: str, heading: str, parts: Iterable[str]) -> str:
    """A whole page; ``parts`` are HTML."""
    text = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    words = {"title": escape(title), "heading": escape(heading), "version": __version__}
    return Template(text).substitute(words, body="\n".join(parts))


def section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def paragraph(words: str) -> str:
    return f"<p>{escape(words, most=10 * LONGEST)}</p>"


def facts(*pairs: tuple[str, str]) -> str:
    """Numbers in large type, each with what it counts."""
    cells = "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for value, name in pairs)
    return f'<div class="facts">{cells}</div>'


def figures(*pairs: tuple[str, str]) -> str:
    """Pictures side by side where there is room: a title and an ``<svg>``, or other HTML, each."""
    cells = "".join(f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>" for title, svg in pairs)
    return f'<div class="figures">{cells}</div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>'


def bars(rows: Iterable[tuple[str, float]]) -> str:
    """Shares of 1 as bars, each with its name and its percentage."""
    lines = "".join(
        f'<tr><td>{escape(name)}</td><td><span class="bar" style="--share:{100 * share:.1f}%"></span></td>'
        f"<td>{100 * share:.1f}%</td></tr>"
        for name, share in rows
    )
    return f'<table class="bars">{lines}</table>'
