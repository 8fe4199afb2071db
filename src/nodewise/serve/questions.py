"""What may be asked, and what is answered, as pydantic models: FastAPI checks the one and documents both."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

MOST_NODES = 256  # in one request
MOST_NEIGHBOURS = 10_000  # of one new node
MOST_FEATURES = 1_000_000  # of one new node

Node = Annotated[int, Field(ge=0, le=2**62)] | Annotated[str, Field(max_length=1000)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class Question(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PredictQuestion(Question):
    """Nodes by id or, where the graph has names, by name."""

    nodes: Annotated[list[Node], Field(min_length=1, max_length=MOST_NODES)]
    top: Annotated[int, Field(ge=1, le=100, description="Labels per node, the most probable first.")] = 3
    coverage: Annotated[
        float | None, Field(gt=0, lt=1, description="Also give the set that holds the true label this often.")
    ] = None


class ExplainQuestion(Question):
    """A node, and the class to explain: by default the one that is predicted."""

    node: Node
    class_: Annotated[str | int | None, Field(alias="class")] = None
    top: Annotated[int, Field(ge=1, le=200, description="Neighbours and features to list.")] = 20


class NewNode(Question):
    """A node that is not in the graph: its neighbours there, and its features by name or in order."""

    name: Annotated[str, Field(max_length=1000)] = "new node"
    neighbours: Annotated[list[Node], Field(max_length=MOST_NEIGHBOURS)]
    features: dict[str, Number] | Annotated[list[Number], Field(max_length=MOST_FEATURES)] | None = None


class NewQuestion(Question):
    nodes: Annotated[list[NewNode], Field(min_length=1, max_length=MOST_NODES)]
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

    detail: Any
