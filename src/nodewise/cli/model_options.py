"""The parameters of a model as options, generated from the fields of the estimator and of its diffusion config."""

from __future__ import annotations

from dataclasses import Field, fields, make_dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args, get_type_hints

import typer

from nodewise._util.errors import InputError
from nodewise.cli.options import given
from nodewise.diffusion.params import DiffusionConfig
from nodewise.learn.params import AUTO, NIGCNParams

_MODEL, _PAPER = ([f for f in fields(config) if "help" in f.metadata] for config in (NIGCNParams, DiffusionConfig))
_NETWORK = {field.name for field in _MODEL[[field.name for field in _MODEL].index("hidden") :]}  # the rest: diffusion
_TYPES = {**get_type_hints(NIGCNParams), **get_type_hints(DiffusionConfig)}


def _kind(name: str) -> tuple[type, bool]:
    """The type of a parameter (str, bool, int or float), and whether it is a number that may also be "auto"."""
    kinds = get_args(_TYPES[name]) or (_TYPES[name],)
    kind = next((kind for kind in (bool, int, float) if kind in kinds), str)
    return kind, kind is not str and str in kinds


def _annotation(field: Field[Any]) -> Any:
    flag, (kind, or_auto) = field.name.replace("_", "-"), _kind(field.name)
    default = ("no", "yes")[bool(field.default)] if kind is bool else field.default
    option = typer.Option(
        *([f"--{flag}/--no-{flag}"] if kind is bool else []),
        help=field.metadata["help"] + ("" if default is None else f" (default: {default})"),
        metavar=f"<{kind.__name__}|{AUTO}>" if or_auto else None,
        rich_help_panel="Ensemble" if field.name in _NETWORK else "Paper" if field in _PAPER else "Diffusion",
    )
    return Annotated[str | None if or_auto else kind | None, option]


if TYPE_CHECKING:
    ModelOptions: TypeAlias = Any
else:
    ModelOptions = make_dataclass("ModelOptions", [(f.name, _annotation(f), None) for f in (*_MODEL, *_PAPER)])


def _value(name: str, text: Any) -> Any:
    """An option as the estimator takes it: a number that may also be ``auto`` comes as text."""
    kind, or_auto = _kind(name)
    try:
        return kind(text) if or_auto and text != AUTO else text
    except ValueError:
        raise InputError(
            f"--{name.replace('_', '-')} {text}: expected a {'whole ' * (kind is int)}number, or auto"
        ) from None


def model_params(preset: str | None, options: ModelOptions) -> dict[str, Any]:
    """Parameters of :class:`nodewise.NIGCN`: those of a preset, changed by the options that the user set."""
    from nodewise.learn.nigcn import NIGCN
    from nodewise.learn.presets import find_preset

    params = {name: _value(name, value) for name, value in given(**vars(options)).items()}
    base = {} if preset is None else find_preset(preset)
    try:
        NIGCN(**base).check_params()
    except InputError as error:
        raise InputError(f"--preset {preset}: {error}") from error
    paper = {field.name: params.pop(field.name) for field in _PAPER if field.name in params}
    return {**base, **params, "diffusion": replace(base.get("diffusion", DiffusionConfig()), **paper)}
