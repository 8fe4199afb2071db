"""The search space: which parameters are tuned, and their bounds."""

from __future__ import annotations

from typing import Any

from nodewise.learn.search import CURVES

NUMBERS = {  # lower and upper bound, on a logarithmic scale
    "omega": (min(omega for omega, _ in CURVES), max(omega for omega, _ in CURVES)),
    "rho": (0.01, 2.0),
    "lr": (0.002, 0.1),
}
CHOICES: dict[str, tuple[Any, ...]] = {"hidden": (32, 64, 128, 256), "row_norm": ("l2", "none"), "teach": (True, False)}
MOST_DROPOUT = 0.8
FAR = 1e3  # no number of a point reaches this
NAMES = (*NUMBERS, "dropout", *CHOICES)


def distributions() -> dict[str, Any]:
    """The space as Optuna describes it."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    numbers = {name: FloatDistribution(*bounds, log=True) for name, bounds in NUMBERS.items()}
    choices = {name: CategoricalDistribution(values) for name, values in CHOICES.items()}
    return {**numbers, "dropout": FloatDistribution(0.0, MOST_DROPOUT), **choices}


def check_point(point: dict[str, Any]) -> None:
    """Raise ValueError unless this is a point of the space, or one near it that a model can find by itself."""
    numbers: list[Any] = [point.get(name) for name in (*NUMBERS, "dropout")]
    chosen = all((type(point.get(name)), point.get(name)) in [(type(value), value) for value in values]
                 for name, values in CHOICES.items())  # fmt: skip
    if set(point) != set(NAMES) or not chosen or not all(type(n) in (int, float) and 0 <= n < FAR for n in numbers):
        raise ValueError(f"{point!r:.200} is no point of the search space")


def neighbours(point: dict[str, Any], hops: int) -> list[dict[str, Any]]:
    """Points that differ from ``point`` in one parameter each: a search begins with them."""
    changes: list[dict[str, Any]] = [
        {"omega": 1.25 * point["omega"]},
        {"omega": point["omega"] / 1.25},
        {"rho": point["rho"] + 0.1},
        {"dropout": round(point["dropout"] + 0.2, 6)},
        {"dropout": round(point["dropout"] - 0.2, 6)},
        {"lr": point["lr"] / 3},
        {"hidden": 256},
        {"row_norm": "none"},
        {"teach": False},
    ]
    changed = [{**point, **change} for change in changes]
    return [in_reach({**within(one), "rho": one["rho"]}, hops) for one in changed]


def within(point: dict[str, Any]) -> dict[str, Any]:
    """The nearest point of the space: a logarithmic scale has no place for a rho of 0."""
    numbers = {name: min(max(float(point[name]), low), high) for name, (low, high) in NUMBERS.items()}
    choices = {name: point[name] for name in CHOICES}
    return {**numbers, "dropout": min(max(point["dropout"], 0.0), MOST_DROPOUT), **choices}


def in_reach(point: dict[str, Any], hops: int) -> dict[str, Any]:
    """``omega`` lowered if the weights would otherwise peak beyond the last hop of the bank, or not have a sum."""
    return {**point, "omega": min(point["omega"], hops ** point["rho"] if point["rho"] else 0.98)}
