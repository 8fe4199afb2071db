"""Training: Adam on rows or on a graph, stopped by validation nodes, the best weights of every network kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import nn

from nodewise._util.errors import InputError
from nodewise.learn.adam import Adam
from nodewise.learn.heads import Heads

# Multiplications per step below which threads cost more than they give: torch's threads spin while they wait for each
# other, which on a busy machine takes ten times as long as the work itself.
WORTH_THREADS = 1 << 27
LARGE = 1 << 14  # rows in a batch at most, unless the user says otherwise
TAUGHT_ROWS, LEAST_TAUGHT, TAUGHT_NUMBERS = 256, 128, 1 << 19  # taught rows per step, and numbers in them
RUN = 1 << 8  # rows that lie side by side and stay together when they are shuffled out of a large array
WINDOW = 1 << 17  # rows copied into memory at a time, and shuffled there
OUT_OF_BOUNDS = 1e9  # learned weights are below this; NaN is not

LabelledRows: TypeAlias = tuple[torch.Tensor, torch.Tensor]  # labels: class numbers, or a 0/1 matrix
Score: TypeAlias = tuple[float, float]
AfterEpoch: TypeAlias = Callable[[int], None]


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    ``weight_decay``: one for all networks, or one for each. ``patience``: epochs without a better validation score.
    ``batch_size=None`` takes all rows at once, or batches of :data:`LARGE` where there are more than that.
    ``balanced``: every class counts as much as any other, however many rows it has; ``class_weights``: or the weight of
    each in training. ``every``: epochs between validation scores. ``linear_lr``: the learning rate of networks of one
    layer among members, if it differs.
    """

    lr: float
    weight_decay: float | Sequence[float]
    epochs: int
    patience: int
    batch_size: int | None
    seed: int
    threads: int
    balanced: bool = False
    every: int = 1
    linear_lr: float | None = None
    class_weights: torch.Tensor | None = None


def choose_device(device: str) -> torch.device:
    """``"auto"`` is CUDA where there is one, else the CPU."""
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"device={device!r}: expected 'cpu', 'cuda' or 'auto'")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device='cuda': this machine or this build of torch has no CUDA; use 'cpu' or 'auto'")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def train(
    make_heads: Callable[[torch.Generator], Heads],
    rows: LabelledRows,
    stop: LabelledRows | Sequence[int] | None,
    config: TrainConfig,
    taught: LabelledRows | None = None,
    after_epoch: AfterEpoch = lambda epoch: None,
) -> tuple[Heads, list[int]]:
    """Networks trained on ``rows``, side by side, and the epoch whose weights each of them has.

    ``stop``: validation rows by which each network keeps its best weights, or the epoch to keep for each, or None: the
    last. ``taught``: rows whose labels were guessed; some of them join every step and count as much as the labelled.
    All random numbers come from one generator per call, so that several can train at a time.
    """
    size, draw = config.batch_size or LARGE, torch.Generator().manual_seed(int(config.seed))
    with nullcontext() if rows[0].device.type == "cpu" else seeded(config.seed):  # dropout on a GPU has torch's numbers
        heads = make_heads(draw).to(rows[0].device)
        weights = balancing_weights(rows[1]) if config.balanced else config.class_weights
        step_rows = 0 if taught is None else min(TAUGHT_ROWS, max(LEAST_TAUGHT, TAUGHT_NUMBERS // rows[0].shape[1]))
        work = (min(rows[0].shape[0], size) + step_rows) * sum(weight.numel() for weight in heads.parameters())

        def losses() -> Iterator[torch.Tensor]:
            for features, labels in _batches(rows, size, draw):
                if taught is None:
                    yield loss_of(heads(features), labels, weights).sum()
                    continue
                some = torch.randperm(taught[0].shape[0], generator=draw)[:step_rows]
                out = heads(torch.cat([features, taught[0][some]]))
                known, guessed = out.tensor_split([features.shape[0]], dim=1)
                yield (loss_of(known, labels, weights) + loss_of(guessed, taught[1][some])).sum()

        def scores() -> list[Score]:
            assert isinstance(stop, tuple)
            return scores_of_rows(heads, stop, balancing_weights(stop[1]) if config.balanced else None)

        epochs = descend(heads, losses, scores if isinstance(stop, tuple) else stop, config, work, after_epoch)
    return heads.eval(), epochs


def descend(
    network: nn.Module,
    losses: Callable[[], Iterable[torch.Tensor]],
    stop: Callable[[], list[Score]] | Sequence[int] | None,
    config: TrainConfig,
    work: int,
    after_epoch: AfterEpoch = lambda epoch: None,
) -> list[int]:
    """Train ``network``; returns the epochs whose weights were kept, one for each of the networks that lie along the
    first axis of its parameters (:class:`Heads`; any other module is one).

    ``losses`` yields the losses of an epoch; a step follows each. ``stop``: gives one score per network (higher is
    better); or the epoch to keep for each; or None: the last. ``work``: multiplications per step, to decide whether
    threads are worth it.
    """
    count = getattr(network, "count", 1)
    given = None if callable(stop) else list(stop or [config.epochs] * count)
    last = config.epochs if given is None else max(given)
    optimizer = Adam(network.parameters(), config.lr, config.weight_decay)
    best, best_epoch = [(-1.0, -math.inf)] * count, [0] * count
    kept = [weight.detach().clone() for weight in network.parameters()]
    with tuned(config.threads if work > WORTH_THREADS else 1):
        for epoch in range(1, last + 1):
            network.train()
            for loss in losses():
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            after_epoch(epoch)
            better: list[int] = []
            if given is not None:
                better = [i for i in range(count) if given[i] == epoch]
            elif callable(stop) and (epoch % config.every == 0 or epoch == last):
                network.eval()
                now = stop()
                better = [i for i in range(count) if now[i] > best[i]]
                best = [max(pair) for pair in zip(now, best, strict=True)]
            for i in better:
                best_epoch[i] = epoch
                for value, weight in zip(kept, network.parameters(), strict=True):
                    value.view(count, -1)[i] = weight.detach().view(count, -1)[i]
            if callable(stop) and epoch - max(best_epoch) >= config.patience:
                break
    with torch.no_grad():
        for weight, value in zip(network.parameters(), kept, strict=True):
            weight.copy_(value)
    return best_epoch


def check_bounds(network: nn.Module, lr: float) -> None:
    """Raise if training diverged."""
    if not all(bool((weight.abs() < OUT_OF_BOUNDS).all()) for weight in network.parameters()):
        raise InputError(f"lr={lr}: training diverged (weights are not finite); lower lr")


# ---------------------------------------------------------------------- losses and scores


@torch.no_grad()
def scores_of_rows(heads: Heads, rows: LabelledRows, weights: torch.Tensor | None = None) -> list[Score]:
    """As :func:`score_of`, of what each of the networks makes of rows."""
    totals, count = np.zeros((heads.count, 2)), 0.0
    for features, labels in zip(torch.split(rows[0], WINDOW), torch.split(rows[1], WINDOW), strict=True):
        size = labels.shape[0] if weights is None or labels.ndim == 2 else float(weights[labels].sum())
        totals += size * np.array([score_of(out, labels, weights) for out in heads(features)])
        count += size
    return [(float(right), float(loss)) for right, loss in totals / count]


def score_of(out: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> Score:
    """Higher is better: the share of correct labels, then, to break ties, minus the loss.

    Where rows have several labels only the loss counts: as long as no probability reaches a half, micro-F1 is constant.
    """
    loss = -float(loss_of(out, labels, weights))
    if labels.ndim == 2:
        return 0.0, loss
    right = (out.argmax(1) == labels).double()
    each = torch.ones_like(right) if weights is None else weights[labels].double()
    return float((right * each).sum() / each.sum()), loss


def loss_of(out: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
    """Cross-entropy, of one label per row or of a 0/1 matrix; ``weights``: as :func:`balancing_weights` gives them.

    ``out`` may hold several networks' answers along its first axis; then so does the loss.
    """
    if labels.ndim == 2:
        target = labels.expand(out.shape)
        losses = nn.functional.binary_cross_entropy_with_logits(out, target, pos_weight=weights, reduction="none")
        return losses.mean((-2, -1))
    target = labels.expand(out.shape[:-1])
    losses = nn.functional.cross_entropy(out.flatten(0, -2), target.flatten(), reduction="none").view(target.shape)
    if weights is None:
        return losses.mean(-1)
    each = weights[labels]
    return (losses * each).sum(-1) / each.sum()


def balancing_weights(labels: torch.Tensor) -> torch.Tensor:
    """The weight of each class that makes all count the same: one over its number of labels.

    Of a 0/1 matrix, the weight of the ones in each column that makes them count as much as the zeros.

    >>> balancing_weights(torch.tensor([0, 0, 2])).tolist()
    [0.5, 1.0, 1.0]
    """
    if labels.ndim == 2:
        there = labels.sum(0)
        return (labels.shape[0] - there).clamp_min(1) / there.clamp_min(1)
    return 1 / torch.bincount(labels).clamp_min(1)


def row_weights(labels: torch.Tensor, balanced: bool) -> torch.Tensor | None:
    """The weight of each row, if classes are to be ``balanced``; None where all weigh the same."""
    return balancing_weights(labels)[labels] if balanced and labels.ndim == 1 else None


# ---------------------------------------------------------------------- batches


def _batches(rows: LabelledRows, size: int, draw: torch.Generator) -> Iterator[LabelledRows]:
    """All rows once, in a new order."""
    count = rows[0].shape[0]
    if size >= count:
        yield rows
    elif count <= WINDOW:
        yield from _split(rows, torch.randperm(count, generator=draw), size)
    else:
        yield from _streamed(rows, size, draw)


def _split(rows: LabelledRows, order: torch.Tensor, size: int) -> Iterator[LabelledRows]:
    for first in range(0, order.shape[0], size):
        chosen = order[first : first + size].to(rows[0].device)
        yield rows[0][chosen], rows[1][chosen]


def _streamed(rows: LabelledRows, size: int, draw: torch.Generator) -> Iterator[LabelledRows]:
    """Rows that may lie in a file: runs of neighbours in a new order, a window of them copied, shuffled and used while
    the next window is read."""
    runs = torch.randperm(-(-rows[0].shape[0] // RUN), generator=draw)
    windows = [part.sort().values for part in torch.split(runs, WINDOW // RUN)]  # in file order within a window
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(_window, rows, windows[0])
        for i in range(len(windows)):
            window = coming.result()
            if i + 1 < len(windows):
                coming = reader.submit(_window, rows, windows[i + 1])
            yield from _split(window, torch.randperm(window[0].shape[0], generator=draw), size)


def _window(rows: LabelledRows, runs: torch.Tensor) -> LabelledRows:
    spans = [slice(run * RUN, (run + 1) * RUN) for run in runs.tolist()]
    return torch.cat([rows[0][span] for span in spans]), torch.cat([rows[1][span] for span in spans])


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from ``seed``, and leave the caller's random numbers as they were."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextmanager
def tuned(threads: int, flush: bool = True) -> Iterator[None]:
    """Use this many torch threads and ``flush`` denormals; both settings are restored afterwards.

    Weight decay shrinks weights into denormal numbers, which the processor handles several times slower.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(flush)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
