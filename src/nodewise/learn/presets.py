"""Presets: parameters for known data sets, and preset files.

Chosen on validation nodes; the diffusion of the paper's data sets is the paper's. ``nodewise tune`` writes preset
files, and ``nodewise train --preset`` reads them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from nodewise._util.errors import InputError, StoreError
from nodewise._util.json_file import read_json, typed
from nodewise._util.run_folder import write_json
from nodewise._version import __version__
from nodewise.diffusion.params import DiffusionConfig
from nodewise.learn.params import NIGCNParams

FORMAT, FORMAT_VERSION = "nodewise-preset", 1

# One network, as in the paper.
_PLAIN = {"teach": False, "feature_norm": "l1", "hidden": 64, "dropout": 0.4, "epochs": 1000, "patience": 60}
# omega, rho, tau, epsilon: the paper's Table 7. Its tau belongs to the published program's lengths.
_PAPER = {**_PLAIN, "diffusion": DiffusionConfig(convention="reference")}
_CORA = {**_PAPER, "omega": 1.15, "rho": 0.06, "tau": 1.7, "epsilon": 0.02}
_CITESEER = {**_PAPER, "omega": 1.1, "rho": 0.04, "tau": 1.2, "epsilon": 0.03, "feature_norm": "none"}
_PUBMED = {**_PAPER, "omega": 1.15, "rho": 0.1, "tau": 1.9, "epsilon": 0.01}
# Graphs with more neighbours per node: short reach, as for the paper's Amazon.
_NEAR = {**_PLAIN, "omega": 0.9, "rho": 1.0, "tau": 1.0, "epsilon": 0.02}
_DENSE = {**_NEAR, "feature_norm": "none", "layers": 2, "weight_decay": 0.001, "dropout": 0.5, "lr": 0.02}

presets: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "cora": {**_CORA, "layers": 2, "weight_decay": 0.01, "lr": 0.04},
        "citeseer": {**_CITESEER, "layers": 1, "bias": False, "weight_decay": 0.01, "patience": 40},
        "pubmed": {**_PUBMED, "members": 5, "layers": 2, "bias": False, "weight_decay": 0.01, "patience": 40},
        "amazon-computers": _DENSE,
        "amazon-photo": _DENSE,
        "coauthor-cs": {**_DENSE, "feature_norm": "l1"},
        "coauthor-physics": _DENSE,
        "arxiv-standin": {**_NEAR, "layers": 1, "bias": False, "weight_decay": 0.01},
    }
)


def find_preset(name: str) -> dict[str, Any]:
    """The parameters of the data set of this name, or of the file.

    >>> find_preset("cora")["tau"]
    1.7
    """
    if name in presets:
        return dict(presets[name])
    file = os.path.expanduser(name)
    if not os.path.exists(file):
        known = ", ".join(sorted(presets))
        raise InputError(f"preset {name}: neither a file nor one of the presets {known}")
    return read_preset(file)


def read_preset(file: str | Path) -> dict[str, Any]:
    """Parameters for :class:`nodewise.NIGCN`, from a file that :func:`write_preset` wrote.

    Their names are known; their values are checked where those that users give are, by NIGCN.
    """
    try:
        content = read_json(Path(file))
        known = {"format": FORMAT, "format_version": FORMAT_VERSION}
        if {name: content.get(name) for name in known} != known:
            raise ValueError(f"expected format {FORMAT}, version {FORMAT_VERSION}")
        params: dict[str, Any] = typed(dict[str, Any], content.get("params"), "params")
        if unknown := sorted(params.keys() - NIGCNParams.__dataclass_fields__):
            raise ValueError(f"NIGCN has no parameter {unknown[0]!r:.60}; remove it from the file")
        if "diffusion" in params:
            params["diffusion"] = DiffusionConfig(**params["diffusion"])
        return params
    except (OSError, TypeError, ValueError) as error:
        why = "not text" if isinstance(error, UnicodeDecodeError) else error
        raise StoreError(
            f"{file}: cannot be read as a preset ({why}); give a file that nodewise tune wrote, or tune again"
        ) from error


def write_preset(file: str | Path, dataset: str, params: Mapping[str, Any]) -> None:
    """Keep parameters for later; ``dataset``: what they were found on."""
    plain = {name: asdict(value) if isinstance(value, DiffusionConfig) else value for name, value in params.items()}
    facts = {"written_by": f"nodewise {__version__}", "dataset": dataset, "params": plain}
    write_json(Path(file), {"format": FORMAT, "format_version": FORMAT_VERSION, **facts})
