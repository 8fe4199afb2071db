"""The parameters of a diffusion, for :func:`nodewise.diffuse`, the estimator and the command line.

This file loads neither numba nor numpy, so that help texts are quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nodewise._util.params import param

Engine = Literal["auto", "exact", "walks", "stratified"]
Convention = Literal["paper", "reference"]
Mass = Literal["theta", "walks", "reference"]


@dataclass(frozen=True)
class DiffusionConfig:
    """The parameters that only the paper's ablations change.

    >>> DiffusionConfig(first_k=False).convention
    'paper'
    """

    convention: Convention = param("paper", "paper or reference: lengths as in the paper, or as in its program.")
    mass: Mass = param("theta", "What weights sum to when first-K stops the walks early: theta, walks or reference.")
    first_k: bool = param(True, "Stop the walks of a node at 1/epsilon^2 neighbours.")
    eta: float = 2.0
    delta: float = 0.01
    length: int | None = param(None, "One depth for all nodes, instead of one by tau.")


@dataclass(frozen=True, kw_only=True)
class DiffusionParams(DiffusionConfig):
    """All arguments of :func:`nodewise.diffuse`, by the same names."""

    omega: float = 1.15
    rho: float = 0.1
    tau: float = 1.9
    epsilon: float = 0.01
    engine: Engine = "auto"
    max_hops: int | None = None
    seed: int = 0
    threads: int | None = None
    memory: int | str | None = None
    per_hop: bool = False
