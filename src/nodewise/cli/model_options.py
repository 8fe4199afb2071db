"""The parameters of a model as options: generated from the fields of the estimator and of its diffusion config."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field, fields, replace
from typing import Annotated, Any, get_args, get_type_hints

import typer

from nodewise._util.errors import InputError
from nodewise.diffusion.params import DiffusionConfig
from nodewise.learn.params import AUTO, NIGCNParams

_PAPER = tuple(field.name for field in fields(DiffusionConfig) if "help" in field.metadata)
_FIELDS: dict[str, Field[Any]] = {
    field.name: field
    for config in (NIGCNParams, DiffusionConfig)
    for field in fields(config)
    if "help" in field.metadata
}
_TYPES = {**get_type_hints(NIGCNParams), **get_type_hints(DiffusionConfig)}
_NETWORK = [*_FIELDS][[*_FIELDS].index("hidden") : -len(_PAPER)]  # the rest is about the diffusion


def with_model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give ``command`` an option for each parameter in place of its ``**params``, which get those that were set."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    generated = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(field))
        for name, field in _FIELDS.items()
    ]

    def run(**options: Any) -> None:
        values = {name: options.pop(name) for name in _FIELDS}
        command(**options, **{name: _value(name, value) for name, value in values.items() if value is not None})

    run.__signature__ = signature.replace(parameters=[*own, *generated])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in [*own, *generated]}
    run.__doc__, run.__name__ = command.__doc__, command.__name__
    return run


def _annotation(field: Field[Any]) -> Any:
    flag, kind = field.name.replace("_", "-"), _number(field.name)
    if _may_be_auto(field.name) or kind is None:  # a word, or a number that may be "auto"
        kind = str
    names = [f"--{flag}/--no-{flag}"] if kind is bool else []
    default = ("no", "yes")[bool(field.default)] if kind is bool else field.default
    text = field.metadata["help"] + ("" if default is None else f" (default: {default})")
    panel = "Ensemble" if field.name in _NETWORK else "Diffusion"
    return Annotated[kind | None, typer.Option(*names, help=text, rich_help_panel=panel, show_default=False)]


def _number(name: str) -> type | None:
    """Which of int, float and bool a parameter is, if any."""
    kinds = get_args(_TYPES[name]) or (_TYPES[name],)
    return next((kind for kind in (bool, int, float) if kind in kinds), None)


def _may_be_auto(name: str) -> bool:
    return str in get_args(_TYPES[name])


def _value(name: str, given: Any) -> Any:
    """An option that may be a number or ``auto``, as the estimator takes it."""
    kind = _number(name)
    if kind is None or not _may_be_auto(name) or given == AUTO:
        return given
    try:
        return kind(given)
    except ValueError:
        raise InputError(
            f"--{name.replace('_', '-')} {given}: expected a {'whole ' * (kind is int)}number, or auto"
        ) from None


def model_params(preset: str | None, params: dict[str, Any]) -> dict[str, Any]:
    """Parameters of :class:`nodewise.NIGCN`: those of a preset, changed by those that options set."""
    from nodewise.learn.nigcn import NIGCN
    from nodewise.learn.presets import find_preset

    base = {} if preset is None else find_preset(preset)
    if unknown := sorted(base.keys() - NIGCN().get_params()):
        raise InputError(f"--preset {preset}: {unknown[0]!r} is no parameter of NIGCN; take it out of the file")
    try:
        NIGCN(**base).check_params()
    except InputError as error:
        raise InputError(f"--preset {preset}: {error}") from error
    paper = {name: params[name] for name in _PAPER if name in params}
    rest = {name: value for name, value in params.items() if name not in _PAPER}
    return {**base, **rest, "diffusion": replace(base.get("diffusion", DiffusionConfig()), **paper)}
