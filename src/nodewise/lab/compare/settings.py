"""The settings of a method as JSON, and a method made from them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodewise._util.json_file import plain_value
from nodewise.lab.rivals import method

if TYPE_CHECKING:
    from nodewise.learn.estimator import NodeClassifier

Settings = dict[str, Any]


def plain(settings: Mapping[str, Any]) -> Settings:
    """Settings as JSON has them: tuples are lists, and a ``DiffusionConfig`` is a dictionary of its fields.

    >>> plain({"hops": (1, 2)})
    {'hops': [1, 2]}
    """
    made: Settings = json.loads(json.dumps(dict(settings), allow_nan=False, default=plain_value))
    return made


def model_of(name: str, settings: Mapping[str, Any], threads: int) -> NodeClassifier:
    """A method with settings that :func:`plain` returned."""
    params = dict(settings)
    if isinstance(params.get("diffusion"), dict):
        from nodewise.diffusion.params import DiffusionConfig

        params["diffusion"] = DiffusionConfig(**params["diffusion"])
    return method(name)(**params, threads=threads)
