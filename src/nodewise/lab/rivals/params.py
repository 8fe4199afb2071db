"""Types of the rivals' parameters, which say what values are allowed, and the check of them.

The number beside ``int`` is the smallest value, the string beside ``float`` an interval, a tuple lists the choices.
"""

from __future__ import annotations

import math
from numbers import Real
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from nodewise._util.errors import InputError
from nodewise.graph.features import NORMS
from nodewise.learn.task import check_whole

Whole = Annotated[int, 1]
WholeOrZero = Annotated[int, 0]
Positive = Annotated[float, "(0, inf)"]
NonNegative = Annotated[float, "[0, inf)"]
Share = Annotated[float, "(0, 1]"]
UnitInterval = Annotated[float, "[0, 1]"]
Dropout = Annotated[float, "[0, 1)"]
Restart = Annotated[float, "(0, 1)", "a larger one stays closer to the node"]
Tolerance = Annotated[float, "(0, 1)", "a smaller one is more exact and costs more"]
Exactness = Annotated[float, "(0, inf]", "a smaller one is more exact and costs more"]
Norm = Annotated[str, NORMS]


def check_types(params: Any) -> None:
    """Raise at the first attribute whose value is not one that its type allows.

    >>> from nodewise.lab.rivals import SGC
    >>> check_types(SGC(lr=0))
    Traceback (most recent call last):
    nodewise._util.errors.InputError: lr=0: expected a number in (0, inf)
    """
    for name, hint in get_type_hints(type(params), include_extras=True).items():
        value = getattr(params, name, None)
        optional = get_origin(hint) in (Union, UnionType) and value is not None
        kind = get_args(hint)[0] if optional else hint  # the type that None stands beside
        if get_origin(kind) is Literal:
            _check_value(name, value, get_args(kind))
        elif get_origin(kind) is Annotated:
            _check_value(name, value, *kind.__metadata__)


def _check_value(name: str, value: Any, allowed: int | str | tuple[str, ...], hint: str = "") -> None:
    if isinstance(allowed, int):
        check_whole(name, value, allowed)
    elif isinstance(allowed, tuple):
        if value not in allowed:
            raise InputError(f"{name}={value!r}: expected one of {', '.join(map(repr, allowed))}")
    else:
        low, high = map(float, allowed[1:-1].split(","))
        number = float(value) if isinstance(value, Real) else math.nan
        ends = (number == low and allowed[0] == "[") or (number == high and allowed[-1] == "]")
        if not (low < number < high or ends):
            raise InputError(f"{name}={value!r}: expected a number in {allowed}" + (f"; {hint}" if hint else ""))
