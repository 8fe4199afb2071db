"""The settings of a method as JSON, and a method made from them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nodewise.lab.rivals import method

if TYPE_CHECKING:
    from nodewise.learn.estimator import NodeClassifier

Settings = dict[str, Any]


def plain(settings: Mapping[str, Any]) -> Settings:
    """Settings as JSON has them: tuples are lists, and a ``DiffusionConfig`` is a dictionary of its fields.

    >>> plain({"hops": (1, 2)})
    {'hops': [1, 2]}
    """
    made: Settings = json.loads(json.dumps(dict(settings), allow_nan=False, default=_plain_value))
    return made


def model_of(name: str, settings: Mapping[str, Any], threads: int) -> NodeClassifier:
    """A method with settings that :func:`plain` returned."""
    params = dict(settings)
    if isinstance(params.get("diffusion"), dict):
        from nodewise.diffusion.params import DiffusionConfig

        params["diffusion"] = DiffusionConfig(**params["diffusion"])
    return method(name)(**params, threads=threads)


def _plain_value(value: Any) -> Any:
    """What JSON does not know: a configuration as its fields, a numpy number as a Python number."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} is not a number, text, or the like")
