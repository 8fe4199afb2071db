"""From rows to an ensemble: teach, train, choose and calibrate (learn), and refit on all labels (learn_again)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from nodewise._util.progress import Progress, silent
from nodewise.learn import ridge
from nodewise.learn.calibrate import best_scale
from nodewise.learn.ensemble import (
    ROSTER,
    ROSTER_OF_MANY,
    Ensemble,
    Member,
    Trained,
    assembled,
    choose,
    of_ridge,
    train_members,
)
from nodewise.learn.heads import Heads
from nodewise.learn.metrics import micro_f1
from nodewise.learn.params import AUTO
from nodewise.learn.search import prior_logits, shift_of
from nodewise.learn.task import drawn
from nodewise.learn.teach import Lesson, class_targets, shares_of, teach
from nodewise.learn.trainer import LabelledRows, TrainConfig, check_bounds, row_weights

LOOK_EVERY = 4  # epochs between two looks at the validation rows, where several networks are compared
LINEAR_PACE = 10  # times the learning rate for linear networks: without dropout theirs is a smooth, convex problem
FEWEST_PATIENCE = 8  # epochs, where an epoch is many steps
STEP_ROWS = 1 << 10  # labelled rows per step
WIDEST = 1 << 12  # columns that networks see: the heaviest, of wider rows
MANY = 1 << 11  # labelled rows beyond which unlabelled ones have nothing to add
HIDDEN, DROPOUT = (32, 64), (0.5, 0.1)  # of few labels, and of more than MANY
RIDGE_ROWS, RIDGE_SYSTEM = 1 << 16, 4096  # rows that a ridge is solved on, and equations
LEFT_OUT = 800  # rows that are left out in turn
MOST_SHARES = 500  # labelled rows of which a model keeps what each adds to a ridge
ALONE = (Member(2, False, 0.01), Member(2, True, 0.01))  # who votes where there is no judge
ALONE_EPOCHS = 100
FEWEST_TO_HALVE = 20  # validation rows, to find the temperature
TENSORS_OF_LEARNED = ("ensemble", "duals")  # which a saved model keeps apart from numbers
THRESHOLDS = tuple(round(0.05 * i, 2) for i in range(1, 11))  # beyond which a node has a label, of several


@dataclass(frozen=True)
class NetworkConfig:
    """The networks and their training; where ``layers`` or ``weight_decay`` is "auto", validation rows choose.

    ``hidden`` and ``dropout`` may be "auto" too, until :meth:`suited` sets them. ``many``: whether labels are many.
    """

    hidden: int | str
    layers: int | str
    weight_decay: float | str
    bias: bool
    dropout: float | str
    lr: float
    epochs: int
    patience: int
    members: int
    teach: bool
    balanced: bool
    seed: int
    threads: int
    many: bool = False

    def suited(self, labels: int) -> NetworkConfig:
        """The same for this many labels."""
        many = labels > MANY
        hidden = HIDDEN[many] if self.hidden == AUTO else self.hidden
        return replace(self, many=many, hidden=hidden, dropout=DROPOUT[many] if self.dropout == AUTO else self.dropout)

    def roster(self, taught: bool, own: bool) -> list[Member]:
        """The networks to train; without a teacher, those that it would teach learn from labels alone.

        ``own``: whether rows hold each node's own features.
        """
        wanted = [
            Member(
                member.layers if self.layers == AUTO else int(self.layers),
                member.taught and taught,
                member.weight_decay if self.weight_decay == AUTO else float(self.weight_decay),
                member.own,
            )
            for member in (ROSTER_OF_MANY if self.many else ROSTER)
            if own or not member.own
        ]
        return [member for member in dict.fromkeys(wanted) for _ in range(self.members)]

    @property
    def uses_ridge(self) -> bool:
        """Whether a ridge votes or teaches: not where the user says what the network is."""
        return self.teach or AUTO in (self.layers, self.weight_decay)


@dataclass(frozen=True)
class TrainingData:
    """Rows and labels to learn from; ``unlabelled`` may be empty. ``shares``: how common the classes are, if known.

    ``diffused``: the number of diffused columns; further columns, if there are any, are nodes' own features.
    ``class_weights``: the weight of a label of each class, if they differ.
    """

    classes: int
    train: LabelledRows
    val: LabelledRows | None
    unlabelled: torch.Tensor
    shares: torch.Tensor | None
    diffused: int
    class_weights: torch.Tensor | None = None

    @property
    def multilabel(self) -> bool:
        return self.train[1].ndim == 2

    def without_own(self) -> TrainingData:
        """The same without nodes' own features."""
        train, val = self.train, self.val and (self.val[0][:, : self.diffused], self.val[1])
        unlabelled = self.unlabelled[:, : self.diffused]
        return replace(self, train=(train[0][:, : self.diffused], train[1]), val=val, unlabelled=unlabelled)


@dataclass(frozen=True)
class Learned:
    """An ensemble, the members that vote in it, and what makes probabilities and labels of its logits.

    ``duals``: where ridges vote and labelled rows ``z_i`` are few, what these add to their logits: ``(z z_i + 1)
    dual_i`` to those of a row ``z``.
    """

    ensemble: Ensemble
    members: list[Member]
    votes: list[float]
    scales: list[float]
    ridge_scales: list[float]
    temperature: float
    threshold: float
    duals: torch.Tensor | None = None

    @property
    def own(self) -> bool:
        """Whether its rows hold each node's own features."""
        return any(member.own for member in self.members)

    @property
    def epochs(self) -> int:
        """Of all networks together."""
        return sum(member.epoch for member in self.members)


def known_shares(val: torch.Tensor | None, train: torch.Tensor, classes: int) -> torch.Tensor | None:
    """How common the classes are, by validation labels or, without any, by training labels drawn from all nodes."""
    labels = train if val is None else val
    return None if labels.ndim == 2 else shares_of(labels, classes)


def can_teach(data: TrainingData, config: NetworkConfig) -> bool:
    """Whether unlabelled rows can teach: one label per node, few known, and a way to tell whether it helps.

    That is validation rows or, without any, the classes' shares.
    """
    judged = data.val is not None or data.shares is not None
    few = data.train[0].shape[0] <= MANY
    return config.teach and judged and few and not data.multilabel and data.unlabelled.shape[0] > 0


def learn(
    data: TrainingData,
    penalties: tuple[float, float],
    config: NetworkConfig,
    progress: Progress = silent,
) -> Learned:
    """Teach, train every member once, and let the validation rows choose who votes.

    ``penalties``: of the ridge that votes, and of the one that teaches.
    """
    ridges, ridge_scales, lesson = _ridges(data, penalties, config, can_teach(data, config))
    roster = config.roster(lesson is not None, own=data.train[0].shape[1] > data.diffused)
    if data.val is None and config.uses_ridge:
        roster = [member for member in ALONE if lesson is not None or not member.taught]
    trained = [*ridges, *_train(data, roster, lesson, config, progress)]
    members = [member for part in trained for member in part.members]
    if data.val is None or len(set(roster)) + len(ridges) == 1:
        votes, scales = [1 / len(members)] * len(members), [1.0] * len(members)
    else:
        votes, scales = choose(trained, data.val, row_weights(data.val[1], config.balanced))
    ensemble = assembled(trained, votes, scales)
    kept = [i for i, vote in enumerate(votes) if vote]
    check_bounds(ensemble, config.lr)
    chosen, shares, factors = [members[i] for i in kept], [votes[i] for i in kept], [scales[i] for i in kept]
    learned = Learned(ensemble, chosen, shares, factors, ridge_scales, 1.0, 0.5, _duals(ridges, votes, scales))
    if data.val is not None:
        learned = _calibrated(learned, trained, data.val, config)
    return learned if learned.own else replace(learned, ensemble=ensemble.narrowed(data.diffused))


def as_common_as(before: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor | None:
    """The weight of each class among ``labels`` that makes classes as common as they were ``before``.

    The penalties were chosen for that: with 20 labels per class and others drawn from all nodes, a ridge with a large
    penalty would assign most nodes to the largest class.
    """
    if labels.ndim == 2:
        return None
    counts = [torch.bincount(part, minlength=classes) + 1 for part in (before, labels)]
    return (counts[0] / counts[0].sum()) / (counts[1] / counts[1].sum())


def learn_again(
    data: TrainingData,
    before: Learned,
    penalties: tuple[float, float],
    config: NetworkConfig,
    progress: Progress = silent,
) -> Learned:
    """The members that vote, trained anew on more labels for as many epochs; votes and scales stay.

    ``data`` has no validation rows: these are among the labels now. Linear networks take steps a tenth as long, and ten
    times as many: with long ones, the result after a given number of epochs depends too much on the labels.
    """
    data = data if before.own else data.without_own()
    pace = LINEAR_PACE if config.uses_ridge else 1
    networks = [replace(m, epoch=m.epoch * (pace if m.layers == 1 else 1)) for m in before.members if not m.ridge]
    teaches = any(member.taught for member in before.members)
    ridges, _, lesson = _ridges(data, penalties, config, teaches, before.ridge_scales)
    trained = {member.taught: part for part in ridges for member in part.members}
    ridges = [trained[member.taught] for member in before.members if member.ridge]
    voting = [*ridges, *_train(data, networks, lesson, config, progress)]
    assert [str(m) for part in voting for m in part.members] == [str(m) for m in before.members]  # both are sorted
    ensemble = assembled(voting, before.votes, before.scales)
    return replace(before, ensemble=ensemble, duals=_duals(ridges, before.votes, before.scales))


def _duals(ridges: Sequence[Trained], votes: Sequence[float], scales: Sequence[float]) -> torch.Tensor | None:
    """What labelled rows add to the logits of the ridges that vote, these being the first members."""
    factors = [vote * scale for vote, scale in zip(votes, scales, strict=True)]
    parts = [f * part.duals for f, part in zip(factors, ridges, strict=False) if f and part.duals is not None]
    return torch.stack(parts).sum(0) if parts else None


def _ridges(
    data: TrainingData,
    penalties: tuple[float, float],
    config: NetworkConfig,
    teaches: bool,
    scales: Sequence[float] = (),
) -> tuple[list[Trained], list[float], Lesson | None]:
    """The ridge as a member and, if it ``teaches``, the one that learned from unlabelled rows, and its lesson.

    ``scales``: what makes logits of their answers, where that was found before.
    """
    if not config.uses_ridge:
        return [], [], None
    width, taught_rows = data.train[0].shape[1], data.unlabelled[:, : data.diffused]
    rows, labels = data.without_own().train
    chosen = drawn(rows.shape[0], RIDGE_ROWS if rows.shape[1] < RIDGE_SYSTEM else RIDGE_SYSTEM, config.seed)
    rows, labels = rows[chosen], labels[chosen]
    weights = None if data.class_weights is None else data.class_weights[labels]
    if config.balanced and labels.ndim == 1:
        weights = row_weights(labels, balanced=True)
    targets, offset = class_targets(labels, data.classes), prior_logits(labels)
    ridges, used, lesson = [], list(scales), None
    for i, penalty in enumerate(penalties if teaches else penalties[:1]):
        shift = shift_of(penalty, rows.shape[0], weights)
        coefficients = ridge.solve(rows, targets, shift, weights)
        if len(used) == i:
            if data.val is None:
                some = slice(None, None, -(-rows.shape[0] // LEFT_OUT))
                each = None if weights is None else weights[some]
                said, truth = ridge.Path(rows[some], targets[some], each).left_out(shift), labels[some]
            else:
                said, truth = ridge.answer(data.val[0][:, : data.diffused], coefficients), data.val[1]
                each = row_weights(truth, config.balanced)
            used.append(float(best_scale(said, truth, each, offset)[0]))
        if i == 1:
            lesson = teach((rows, labels), taught_rows, coefficients, shift, used[i], data.shares, weights)
            coefficients = lesson.coefficients
        solved = of_ridge(coefficients, used[i], offset, taught=i == 1)
        columns = torch.arange(data.diffused, device=rows.device)
        few = rows.shape[0] <= MOST_SHARES
        duals = used[i] * ridge.duals(rows, targets, shift, coefficients, weights) if few else None
        ridges.append(replace(solved, heads=solved.heads.widened(columns, width), duals=duals))
    return ridges, used, lesson


def _train(
    data: TrainingData, roster: Sequence[Member], lesson: Lesson | None, config: NetworkConfig, progress: Progress
) -> list[Trained]:
    """Networks on the heaviest columns of the rows; the others have weights of 0."""
    if not roster:
        return []
    count, width = data.train[0].shape
    steps = -(-count // STEP_ROWS) if config.uses_ridge else 1  # per epoch: of many rows, an epoch is many steps
    alone = data.val is None and config.uses_ridge
    how = TrainConfig(
        lr=config.lr,
        weight_decay=0.0,
        epochs=max(10, (min(ALONE_EPOCHS, config.epochs) if alone else config.epochs) // steps),
        patience=max(min(FEWEST_PATIENCE, config.patience), config.patience // steps),
        batch_size=STEP_ROWS if config.uses_ridge else None,
        seed=config.seed,
        threads=config.threads,
        balanced=config.balanced,
        every=LOOK_EVERY if steps == 1 and config.uses_ridge else 1,
        class_weights=data.class_weights,
        linear_lr=LINEAR_PACE * config.lr if config.uses_ridge and data.val is not None else None,
    )
    taught = None if lesson is None else (data.unlabelled[lesson.places], lesson.labels)
    seen = {own: width if own else data.diffused for own in {member.own for member in roster}}
    columns = {own: _heaviest(data.train[0][:, :last], config.uses_ridge) for own, last in seen.items()}
    rows = {own: [_cut(part, columns[own]) for part in (data.train, taught, data.val)] for own in seen}

    def make(member: Member, count: int, draw: torch.Generator) -> Heads:
        inputs = columns[member.own].numel()
        share = 0.0 if member.layers == 1 and config.uses_ridge else float(config.dropout)  # linear: no worse without
        return Heads(count, inputs, data.classes, int(config.hidden), member.layers, share, config.bias, draw=draw)

    trained = train_members(
        roster, make, lambda member: rows[member.own], how, lambda done, total: progress("training", done, total)
    )
    return [replace(part, heads=part.heads.widened(columns[part.members[0].own], width)) for part in trained]


def _heaviest(rows: torch.Tensor, bounded: bool) -> torch.Tensor:
    """The columns with the largest sums of squares: all or, if ``bounded``, as many as networks see."""
    if rows.shape[1] <= WIDEST or not bounded:
        return torch.arange(rows.shape[1], device=rows.device)
    some = rows[:: -(-rows.shape[0] // RIDGE_SYSTEM)]
    return torch.topk(some.square().sum(0), WIDEST).indices.sort().values


def _cut(part: LabelledRows | None, columns: torch.Tensor) -> LabelledRows | None:
    """Some columns; the first ones without a copy, since rows may lie in a file."""
    if part is None:
        return None
    first = columns.numel()
    whole = first == 0 or int(columns[-1]) == first - 1
    return part[0][:, :first] if whole else part[0][:, columns], part[1]


@torch.no_grad()
def _calibrated(learned: Learned, trained: Sequence[Trained], val: LabelledRows, config: NetworkConfig) -> Learned:
    """With the temperature that suits validation rows best and, of several labels per node, the best threshold.

    Rows that chose who votes flatter them. So the temperature is that of ensembles chosen by half of the rows, on the
    other half.
    """
    logits = learned.ensemble(val[0])
    weights = row_weights(val[1], config.balanced)
    if len(learned.members) > 1 and val[0].shape[0] >= FEWEST_TO_HALVE:
        logits = torch.empty_like(logits)
        halves = [slice(half, None, 2) for half in (0, 1)]
        for mine, other in (halves, halves[::-1]):
            chosen = choose(trained, (val[0][mine], val[1][mine]), None if weights is None else weights[mine])
            logits[other] = assembled(trained, *chosen)(val[0][other])
    scale, _ = best_scale(logits, val[1], weights)
    threshold = 0.5
    if val[1].ndim == 2:
        proba, truth = torch.sigmoid(logits * scale), val[1].cpu().numpy()
        said = {t: (proba > t).scatter(1, proba.argmax(1, keepdim=True), True) for t in THRESHOLDS}
        threshold = max(THRESHOLDS, key=lambda t: micro_f1(truth, said[t].cpu().numpy()))
    return replace(learned, temperature=1 / float(scale), threshold=threshold)
