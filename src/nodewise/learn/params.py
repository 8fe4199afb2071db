"""The parameters of :class:`nodewise.NIGCN`, each with its default and the sentence that help texts show.

This file loads neither torch nor numba, so that help texts are quick.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from nodewise._util.params import param
from nodewise.diffusion.params import DiffusionConfig, Engine

AUTO = "auto"


@dataclass(eq=False, repr=False)
class NIGCNParams:
    """What ``NIGCN(...)`` takes."""

    omega: float | str = param(AUTO, "Where the weight of hops peaks.")
    rho: float | str = param(AUTO, "How fast far hops lose weight: 1 is the heat kernel, 0 PageRank.")
    tau: float | str = param(AUTO, "How deep to go; each node's own depth grows with it.")
    epsilon: float | str = param(AUTO, "Smallest weight that must be found; a lower one costs more.")
    _: KW_ONLY
    engine: Engine = param("auto", "auto, exact, walks or stratified.")
    max_hops: int | None = param(None, "Maximum number of hops.")
    diffusion: DiffusionConfig = DiffusionConfig()
    feature_norm: str = param(AUTO, "Scale features before the diffusion: none, l1 or l2.")
    row_norm: str = param("l2", "Scale rows after the diffusion: none, l1 or l2.")
    hidden: int | str = param(AUTO, "Width of hidden layers; auto: 32, or 64 with many labels.")
    layers: int | str = param(AUTO, "Number of linear layers.")
    weight_decay: float | str = param(AUTO, "Weight decay.")
    bias: bool = param(True, "Whether layers have a bias.")
    dropout: float | str = param(AUTO, "Dropout before each layer; auto: 0.5, or 0.1 with many labels.")
    lr: float = param(0.03, "Learning rate.")
    epochs: int = param(300, "Maximum number of epochs.")
    patience: int = param(16, "Epochs without a better validation score before stopping.")
    members: int = param(1, "Number of networks of each kind.")
    teach: bool = param(True, "Learn from unlabelled nodes too, if that helps on validation nodes.")
    class_weight: str | None = param(None, "balanced: rare classes count as much as common ones.")
    time_budget: float | None = param(None, "Seconds that training should take.")
    seed: int = 0
    threads: int | None = None
    memory: int | str | None = None
    device: str = param("auto", "cpu, cuda or auto.")
