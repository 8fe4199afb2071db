"""The expected cost of a fit, and how much to do within a time budget.

Seconds are counts of work times nanoseconds per unit on an ordinary two-core machine, as in the planner
(diffusion/plan.py). Nothing is timed, so that the same budget gives the same model anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nodewise._util.errors import warn
from nodewise._util.memory import memory_budget, too_small
from nodewise._util.types import IntArray
from nodewise.diffusion.diffuse import plan_diffusion
from nodewise.diffusion.params import DiffusionParams
from nodewise.graph import Graph
from nodewise.learn.ensemble import JUDGES as VOTE_JUDGES
from nodewise.learn.ensemble import ROSTER
from nodewise.learn.fitting import RIDGE_ROWS, RIDGE_SYSTEM, STEP_ROWS, WIDEST
from nodewise.learn.search import COLUMNS, COPIES, DEEPEST, JUDGES, answers_bytes, most_rows
from nodewise.learn.teach import ROUNDS, SURE
from nodewise.learn.trainer import TAUGHT_ROWS

EPSILON = 0.01  # of rows, by default
FEW_BYTES = 256 << 20  # of answers that are not counted
UNLABELLED = 1000  # at most this many nodes to teach from

# Nanoseconds on one core.
MULTIPLY = 0.03  # one multiplication and addition in a large product
WRITE = 1.0  # a number of a row
MIX = 0.3  # a number of a hop bank, read for a curve
SOLVE = 0.15  # per cube of a system's size, for its eigenvalues
EPOCHS = 90  # until a network's validation score stops growing
EPOCH_OVERHEAD = 1.5e6
CANDIDATE_OVERHEAD = 6e6


@dataclass(frozen=True)
class Effort:
    """How much a fit does. ``curves``: the search tries every n-th curve, on ``columns`` columns of the features.

    ``unlabelled``: nodes to teach from. ``epsilon``: of rows. ``own``: whether some networks see nodes' own features.
    """

    curves: int = 1
    columns: int = COLUMNS
    unlabelled: int = UNLABELLED
    epsilon: float = EPSILON
    own: bool = True


EFFORTS = (
    Effort(),
    Effort(curves=2, columns=500, unlabelled=500, own=False),
    Effort(curves=4, columns=250, unlabelled=250, epsilon=2 * EPSILON, own=False),
    Effort(curves=4, columns=250, unlabelled=0, epsilon=5 * EPSILON, own=False),
    Effort(curves=8, columns=100, unlabelled=0, epsilon=20 * EPSILON, own=False),
)


@dataclass(frozen=True)
class Fit:
    """The size of a fit: nodes, candidates of the search, and ``networks`` of two layers (linear ones cost little).

    ``params``: of the diffusion.
    """

    train: int
    val: int
    asked: int
    candidates: int
    networks: int
    hidden: int
    params: DiffusionParams
    threads: int


def expected_seconds(graph: Graph, nodes: IntArray, fit: Fit, effort: Effort) -> dict[str, float]:
    """Seconds by stage. ``nodes``: those that rows are made for, or as many others."""
    params = fit.params
    asked = nodes[: fit.train + fit.val + fit.asked + effort.unlabelled]
    row = graph.num_features * (2 if effort.own and fit.candidates else 1)
    making = _diffusion_seconds(graph, asked, replace(params, epsilon=effort.epsilon)) + asked.size * row * WRITE / 1e9
    columns = min(effort.columns, graph.num_features)
    learned = min(fit.train, most_rows(columns))
    searched = learned + min(fit.val, JUDGES)
    hops = (DEEPEST if params.max_hops is None else params.max_hops) + 1
    size = min(learned, columns)
    candidate = searched * columns * (hops * MIX + size * MULTIPLY) + SOLVE * size**3 + CANDIDATE_OVERHEAD
    search = fit.candidates / effort.curves * candidate / 1e9 / min(fit.threads, 2)
    coarse = replace(params, epsilon=min(0.5, 3 * effort.epsilon), per_hop=True, max_hops=hops - 1)
    bank = 2 * _diffusion_seconds(graph, nodes[:searched], coarse) * columns / graph.num_features
    width = (min(graph.num_features, WIDEST) + min(row, WIDEST)) / 2
    steps = -(-fit.train // STEP_ROWS)
    rows = fit.train + steps * (TAUGHT_ROWS if effort.unlabelled else 0) / 2
    epochs = max(10, EPOCHS // steps)
    networks = fit.networks if effort.unlabelled else -(-fit.networks // 2)
    epoch = networks * (EPOCH_OVERHEAD * steps + 4 * rows * width * fit.hidden * MULTIPLY)
    most = RIDGE_SYSTEM if graph.num_features >= RIDGE_SYSTEM else RIDGE_ROWS
    solved = min(fit.train, most) + SURE * effort.unlabelled
    ridges = (ROUNDS + 1) * solved * graph.num_features * min(solved, graph.num_features) * MULTIPLY / 2
    return {
        "search": search + bank if fit.candidates else 0.0,
        "rows": making,
        "training": (epochs * epoch + (ridges if fit.candidates else 0.0)) / 1e9 / min(fit.threads, 2),
    }


def check_classes(fit: Fit, columns: int, classes: int, memory: int | str | None) -> None:
    """Raise if the answers for so many classes do not fit into memory: in the search, or as members get votes."""
    judged = min(fit.val, JUDGES) or min(fit.train, most_rows(min(COLUMNS, columns)))
    votes = COPIES * 8 * len(ROSTER) * min(fit.val, VOTE_JUDGES) * classes
    needed, budget = max(answers_bytes(judged, classes), votes), memory_budget(memory)
    if needed > max(budget, FEW_BYTES):
        raise too_small(f"learning to tell {classes:,} classes apart", budget, needed)


def _diffusion_seconds(graph: Graph, nodes: IntArray, params: DiffusionParams) -> float:
    plan = plan_diffusion(graph, nodes, **{**vars(params), "engine": "auto"}).plan
    return plan.seconds.get(params.engine, min(plan.seconds.values()))


def affordable(graph: Graph, nodes: IntArray, fit: Fit, budget: float) -> Effort:
    """The most effort that is expected to take at most ``budget`` seconds. The final training is never shortened."""
    total = 0.0
    for effort in EFFORTS:
        total = sum(expected_seconds(graph, nodes, fit, effort).values())
        if total <= budget:
            return effort
    warn(
        f"time_budget={budget:g}: even with the least effort this fit is expected to take {total:.3g} s; the search is "
        f"as short as it can be, and the training is not shortened"
    )
    return EFFORTS[-1]
