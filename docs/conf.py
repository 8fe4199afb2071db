"""The site of documentation: `make docs` builds it into docs/_build."""

from __future__ import annotations

import dataclasses
from typing import Any

import nodewise

project = "nodewise"
author = "the nodewise authors"
project_copyright = author
version = release = nodewise.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"nodewise {release}"
html_show_sphinx = False
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signature has the names, the text their meaning


def add_parameters(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """List the parameters of a dataclass, from the sentences that the command line shows as help."""
    if what != "class" or not dataclasses.is_dataclass(thing):
        return
    told = [field for field in dataclasses.fields(thing) if "help" in field.metadata]
    if told:
        lines += ["", "Parameters, each with its default:", ""]
        lines += [f"* ``{field.name}={field.default!r}``: {field.metadata['help']}" for field in told]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", add_parameters)
