"""What is tuned, and between which bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nodewise.diffusion.ghd import ghd
from nodewise.diffusion.length import tau_of_length
from nodewise.graph import Graph
from nodewise.learn.hop_weights import LEAST_RHO, MOST_OMEGA, MOST_RHO, worthwhile_hops
from nodewise.learn.nigcn import OPEN_HEADS
from nodewise.learn.self_tuning import EPSILON

if TYPE_CHECKING:
    from optuna import Trial

FEATURE_NORM = "l1"  # of the bank, and so of all trials
NUMBERS = {  # name: least, most; all of them more alike by ratio than by difference
    "omega": (0.3, MOST_OMEGA),
    "rho": (LEAST_RHO, MOST_RHO),
    "lr": (0.002, 0.1),
    "weight_decay": (1e-5, 0.05),
}
CHOICES: dict[str, tuple[Any, ...]] = {
    "layers": (1, 2, 3),
    "hidden": (32, 64, 128, 256),
    "bias": (True, False),
    "row_norm": ("l2", "none"),
}
MOST_DROPOUT = 0.8


def suggested(trial: Trial) -> dict[str, Any]:
    """A point of the space."""
    return {
        **{name: trial.suggest_float(name, *bounds, log=True) for name, bounds in NUMBERS.items()},
        "dropout": trial.suggest_float("dropout", 0.0, MOST_DROPOUT),
        **{name: trial.suggest_categorical(name, values) for name, values in CHOICES.items()},
    }


def completed(point: dict[str, Any], graph: Graph, hops: int) -> dict[str, Any]:
    """Parameters of a model: the point, its depth, and what all trials have in common; ``tau`` is where weights end."""
    point = in_reach(point, hops)
    tau = tau_of_length(graph, worthwhile_hops(ghd(point["omega"], point["rho"], hops)), "paper")
    common = {"epsilon": EPSILON, "max_hops": hops, "feature_norm": FEATURE_NORM, "heads": OPEN_HEADS}
    return {**point, "tau": tau, **common}


def in_reach(point: dict[str, Any], hops: int) -> dict[str, Any]:
    """``omega`` lowered where the weights would peak beyond the last hop of the bank."""
    return {**point, "omega": min(point["omega"], hops ** point["rho"])}


def within(params: dict[str, Any]) -> dict[str, Any]:
    """The point of the space that is nearest to the parameters of a model."""
    numbers = {name: min(max(float(params[name]), low), high) for name, (low, high) in NUMBERS.items()}
    choices = {name: params[name] if params[name] in values else values[0] for name, values in CHOICES.items()}
    return {**numbers, **choices, "dropout": min(float(params["dropout"]), MOST_DROPOUT)}
