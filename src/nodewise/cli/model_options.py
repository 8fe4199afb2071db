"""The parameters of a model as options: generated from the fields of the estimator and of its diffusion config."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

DIFFUSION, ENSEMBLE = "Diffusion", "Ensemble"
NUMBERS = {
    "layers": int,
    "omega": float,
    "rho": float,
    "tau": float,
    "epsilon": float,
    "weight_decay": float,
}  # or auto
PAPER = ("convention", "mass", "length", "first_k")  # fields of the diffusion config

_TEXTS: dict[str, tuple[str, Any, str]] = {
    "omega": (DIFFUSION, str, "Heat: where the weight of hops peaks. (default: auto)"),
    "rho": (DIFFUSION, str, "How fast far hops lose weight; 1 is the heat kernel, 0 PageRank. (default: auto)"),
    "tau": (DIFFUSION, str, "How deep to go; each node's own depth grows with it. (default: auto)"),
    "epsilon": (DIFFUSION, str, "Smallest weight that must be found; less costs more. (default: auto)"),
    "engine": (DIFFUSION, str, "auto, exact, walks or stratified. (default: auto)"),
    "max_hops": (DIFFUSION, int, "Most hops that any node goes."),
    "feature_norm": (DIFFUSION, str, "Scale features first: none, l1 or l2. (default: auto)"),
    "row_norm": (DIFFUSION, str, "Scale diffused rows: none, l1 or l2. (default: l2)"),
    "convention": (DIFFUSION, str, "Lengths as in the paper or in its program (reference). (default: paper)"),
    "mass": (DIFFUSION, str, "theta, walks or reference. (default: theta)"),
    "length": (DIFFUSION, int, "One depth for all nodes instead of tau's."),
    "first_k": (DIFFUSION, bool, "Stop at 1/epsilon^2 neighbours, or do not."),
    "hidden": (ENSEMBLE, int, "Width of hidden layers. (default: 64)"),
    "layers": (ENSEMBLE, str, "Number of linear layers. (default: auto)"),
    "weight_decay": (ENSEMBLE, str, "Weight decay. (default: auto)"),
    "bias": (ENSEMBLE, bool, "Whether layers have a bias. (default: yes)"),
    "dropout": (ENSEMBLE, float, "Dropout before each layer. (default: 0.5)"),
    "lr": (ENSEMBLE, float, "Learning rate. (default: 0.03)"),
    "epochs": (ENSEMBLE, int, "Most epochs. (default: 300)"),
    "patience": (ENSEMBLE, int, "Epochs without a better validation score before stopping. (default: 16)"),
    "members": (ENSEMBLE, int, "Networks of each kind. (default: 1)"),
    "teach": (ENSEMBLE, bool, "Let unlabelled nodes teach. (default: yes, if validation nodes say so)"),
    "class_weight": (ENSEMBLE, str, "balanced: rare classes count as much as common ones."),
    "device": (ENSEMBLE, str, "cpu, cuda or auto. (default: auto)"),
    "time_budget": (ENSEMBLE, float, "Seconds that training should take: search and teaching get less."),
}


def with_model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give ``command`` an option for each parameter in place of its ``**params``, which get those that were set."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    generated = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(name))
        for name in _TEXTS
    ]

    def run(**options: Any) -> None:
        values = {name: options.pop(name) for name in _TEXTS}
        command(**options, **{name: _value(name, value) for name, value in values.items() if value is not None})

    run.__signature__ = signature.replace(parameters=[*own, *generated])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in [*own, *generated]}
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return run


def _annotation(name: str) -> Any:
    panel, kind, text = _TEXTS[name]
    flag = name.replace("_", "-")
    names = [f"--{flag}/--no-{flag}"] if kind is bool else []
    return Annotated[kind | None, typer.Option(*names, help=text, rich_help_panel=panel, show_default=False)]


def _value(name: str, given: Any) -> Any:
    """An option that may be a number or ``auto``, as the estimator takes it."""
    from nodewise.errors import InputError

    if name not in NUMBERS or given == "auto":
        return given
    kind = NUMBERS[name]
    try:
        return kind(given)
    except ValueError:
        raise InputError(
            f"--{name.replace('_', '-')} {given}: expected a {'whole ' * (kind is int)}number, or auto"
        ) from None


def model_params(preset: str | None, params: dict[str, Any]) -> dict[str, Any]:
    """Parameters of :class:`nodewise.NIGCN`: those of a preset, changed by those that options set."""
    from dataclasses import replace

    from nodewise.errors import InputError
    from nodewise.learn.nigcn import NIGCN, DiffusionConfig
    from nodewise.learn.presets import find_preset

    base = {} if preset is None else find_preset(preset)
    if unknown := sorted(base.keys() - NIGCN().get_params()):
        raise InputError(f"--preset {preset}: {unknown[0]!r} is no parameter of NIGCN; take it out of the file")
    try:
        NIGCN(**base).check_params()
    except InputError as error:
        raise InputError(f"--preset {preset}: {error}") from error
    paper = {name: params[name] for name in PAPER if name in params}
    rest = {name: value for name, value in params.items() if name not in PAPER}
    return {**base, **rest, "diffusion": replace(base.get("diffusion", DiffusionConfig()), **paper)}
