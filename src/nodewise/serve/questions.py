"""What may be asked, and what is answered, as pydantic models: FastAPI checks the one and documents both."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

MOST_NODES = 256  # in one request
MOST_NEIGHBOURS = 10_000  # of one new node
MOST_FEATURES = 1_000_000  # of one new node

MOST_NAME = 1000  # characters

Name = Annotated[str, Field(max_length=MOST_NAME)]
Node = Annotated[int, Field(ge=0, le=2**53)] | Name
Number = Annotated[float, Field(allow_inf_nan=False)]


class Question(BaseModel):
    """What is wrong with a question is said of the first field or entry alone: a million errors take gigabytes."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, given: Any) -> Any:
        fields = {field.alias or name for name, field in cls.model_fields.items()}
        odd = next((name for name in given if name not in fields), None) if isinstance(given, dict) else None
        if odd is not None:
            words = "Extra inputs are not permitted: {name}"
            raise PydanticCustomError("extra_forbidden", words, {"name": repr(odd[:MOST_NAME])})
        return given


def _check_features(given: Any) -> Any:
    if isinstance(given, dict):
        wrong = next((name for name, value in given.items() if not _is_feature(name, value)), None)
        if wrong is not None:
            words = "{name}: expected a number, finite, and a name of at most 1,000 characters"
            raise PydanticCustomError("features", words, {"name": repr(wrong[:MOST_NAME])})
    return given


def _is_feature(name: str, value: Any) -> bool:
    """As pydantic decides: a number that float64 can hold, and text without lone surrogates."""
    try:
        name.encode()
        return len(name) <= MOST_NAME and type(value) in (int, float) and math.isfinite(value)
    except (UnicodeEncodeError, OverflowError):
        return False


class PredictQuestion(Question):
    """Nodes by id or, where the graph has names, by name."""

    nodes: Annotated[list[Node], Field(min_length=1, max_length=MOST_NODES, fail_fast=True)]
    top: Annotated[int, Field(ge=1, le=100, description="Labels per node, the most probable first.")] = 3
    coverage: Annotated[
        float | None, Field(gt=0, lt=1, description="Also give the set that holds the true label this often.")
    ] = None


class ExplainQuestion(Question):
    """A node, and the class to explain: by default the one that is predicted."""

    node: Node
    class_: Annotated[Name | int | None, Field(alias="class")] = None
    top: Annotated[int, Field(ge=1, le=200, description="Neighbours and features to list.")] = 20


class NewNode(Question):
    """A node that is not in the graph: its neighbours there, and its features by name or in order."""

    name: Name = "new node"
    neighbours: Annotated[list[Node], Field(max_length=MOST_NEIGHBOURS, fail_fast=True)]
    features: (
        Annotated[dict[Name, Number], BeforeValidator(_check_features)]
        | Annotated[list[Number], Field(max_length=MOST_FEATURES, fail_fast=True)]
        | None
    ) = None


class NewQuestion(Question):
    nodes: Annotated[list[NewNode], Field(min_length=1, max_length=MOST_NODES, fail_fast=True)]
    top: Annotated[int, Field(ge=1, le=100)] = 3


class Chance(BaseModel):
    label: str
    probability: float


class Prediction(BaseModel):
    node: str
    label: str | None
    probability: float
    known: str | None = None
    top: list[Chance]
    set: list[str] | None = None


class Predictions(BaseModel):
    predictions: list[Prediction]


class NodeList(BaseModel):
    nodes: list[str]


class About(BaseModel):
    """The graph and the model behind the answers."""

    graph: str
    nodes: int
    edges: int
    features: int
    named: bool
    feature_names: list[str]
    classes: list[str]
    several_labels_per_node: bool
    example: str


class Problem(BaseModel):
    """What went wrong, and what to do."""

    detail: str
