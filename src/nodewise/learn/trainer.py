"""Training: Adam on the training rows, stopped by the validation rows, the best weights kept."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from nodewise.errors import InputError
from nodewise.learn.adam import Adam

# Multiplications a step below which threads cost more than they give: torch's threads spin while they wait for each
# other, which on a busy machine takes ten times as long as the work itself.
WORTH_THREADS = 1 << 27
LARGE = 1 << 14  # rows in a batch at most, unless the user says otherwise
MOST_FREE, LEAST_FREE, FREE_NUMBERS = 1 << 10, 1 << 8, 1 << 20  # unlabelled rows a step, and numbers in them
RUN = 1 << 8  # rows that lie side by side and stay together when they are shuffled out of a large array
WINDOW = 1 << 17  # rows copied into memory at a time, and shuffled there


@dataclass(frozen=True)
class Recipe:
    """How to train. ``patience`` counts epochs without a better score.

    ``batch_size=None`` takes all rows at once, or batches of :data:`LARGE` where there are more than that.
    ``balanced``: every class counts as much as any other, however many rows it has.
    """

    lr: float
    weight_decay: float
    epochs: int
    patience: int
    batch_size: int | None
    seed: int
    threads: int
    balanced: bool = False


Rows = tuple[torch.Tensor, torch.Tensor]
Score = tuple[float, float]
ExtraLoss = Callable[[nn.Module], torch.Tensor]


def choose_device(device: str) -> torch.device:
    """``"auto"`` is CUDA where there is one, else the CPU."""
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"device={device!r}: expected 'cpu', 'cuda' or 'auto'")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device='cuda': this machine or this build of torch has no CUDA; use 'cpu' or 'auto'")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def train(
    make_head: Callable[[], nn.Module], rows: Rows, val: Rows | None, recipe: Recipe, extra: Sequence[ExtraLoss] = ()
) -> tuple[nn.Module, int]:
    """A head trained on ``rows``, and the epochs that took.

    Labels are class numbers, or a 0/1 matrix for several labels a row. ``extra``: losses added to that of each step.
    """
    if val is None:
        return train_by(make_head, rows, None, recipe, extra)
    weights = balancing_weights(val[1]) if recipe.balanced else None
    return train_by(make_head, rows, lambda head: score_of_rows(head, val, weights), recipe, extra)


def train_by(
    make_head: Callable[[], nn.Module],
    rows: Rows,
    score: Callable[[nn.Module], Score] | None,
    recipe: Recipe,
    extra: Sequence[ExtraLoss] = (),
) -> tuple[nn.Module, int]:
    """As :func:`train`, stopped by any score of a head."""
    size = recipe.batch_size or LARGE
    with seeded(recipe.seed):
        head = make_head().to(rows[0].device)
        work = min(rows[0].shape[0], size) * sum(weight.numel() for weight in head.parameters())
        weights = balancing_weights(rows[1]) if recipe.balanced else None

        def losses() -> Iterator[torch.Tensor]:
            for features, labels in _batches(rows, size):
                yield sum((more(head) for more in extra), loss_of(head(features), labels, weights))

        epochs = descend(head, losses, None if score is None else partial(score, head), recipe, work)
    return head.eval(), epochs


def descend(
    network: nn.Module,
    losses: Callable[[], Iterable[torch.Tensor]],
    score: Callable[[], Score] | None,
    recipe: Recipe,
    work: int,
) -> int:
    """Train ``network`` and answer with the epochs that took; the weights of the best score are kept.

    ``losses`` makes an epoch's losses, each when it is asked for; a step follows each. ``score`` is what should grow;
    without it training runs to the last epoch. ``work``: multiplications a step, to tell whether threads are worth it.
    """
    optimizer = Adam(network.parameters(), recipe.lr, recipe.weight_decay)
    best, best_epoch, kept, epoch = (-1.0, -math.inf), 0, copy.deepcopy(network.state_dict()), 0
    with tuned(recipe.threads if work > WORTH_THREADS else 1):
        for epoch in range(1, recipe.epochs + 1):
            network.train()
            for loss in losses():
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            if score is None:
                continue
            network.eval()
            now = score()
            if now > best:
                best, best_epoch = now, epoch
                kept = {name: value.clone() for name, value in network.state_dict().items()}
            elif epoch - best_epoch >= recipe.patience:
                break
    if score is not None:
        network.load_state_dict(kept)
    network.eval()
    return epoch


@torch.no_grad()
def score_of_rows(head: nn.Module, rows: Rows, weights: torch.Tensor | None = None) -> Score:
    """As :func:`score_of`, of what ``head`` makes of rows."""
    parts = [
        (score_of(head(features), labels, weights), _count(labels, weights))
        for features, labels in zip(torch.split(rows[0], WINDOW), torch.split(rows[1], WINDOW), strict=True)
    ]
    count = sum(size for _, size in parts)
    right, loss = (sum(score[i] * size for score, size in parts) / count for i in (0, 1))
    return right, loss


def _count(labels: torch.Tensor, weights: torch.Tensor | None) -> float:
    """What a mean over these labels counts in a mean over more."""
    return labels.shape[0] if weights is None or labels.ndim == 2 else float(weights[labels].sum())


def score_of(out: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> Score:
    """What should grow: the share of labels that are right, and minus the loss to tell equal shares apart.

    Where rows have several labels only the loss counts: as long as no label reaches a half, micro-F1 stands still.
    """
    if labels.ndim == 2:
        return 0.0, -float(loss_of(out, labels, weights))
    right = _mean((out.argmax(1) == labels).double(), labels, weights)
    return float(right), -float(loss_of(out, labels, weights))


def loss_of(out: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
    """Cross-entropy, of one label a row or of a 0/1 matrix; ``weights``: as :func:`balancing_weights` gives them."""
    if labels.ndim == 2:
        return nn.functional.binary_cross_entropy_with_logits(out, labels, pos_weight=weights)
    if weights is None:
        return nn.functional.cross_entropy(out, labels)
    return _mean(nn.functional.cross_entropy(out, labels, reduction="none"), labels, weights)


def balancing_weights(labels: torch.Tensor) -> torch.Tensor:
    """What to multiply each class by so that all count the same: one over how often it is there.

    Of a 0/1 matrix, what to multiply a label that is there by, so that it counts as much as where it is not.

    >>> balancing_weights(torch.tensor([0, 0, 2])).tolist()
    [0.5, 1.0, 1.0]
    """
    if labels.ndim == 2:
        there = labels.sum(0)
        return (labels.shape[0] - there).clamp_min(1) / there.clamp_min(1)
    return 1 / torch.bincount(labels).clamp_min(1)


def rows_a_step(width: int) -> int:
    """How many unlabelled rows of so many numbers are worth a step: the wider they are, the fewer."""
    return min(MOST_FREE, max(LEAST_FREE, FREE_NUMBERS // max(1, width)))


def _mean(values: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None) -> torch.Tensor:
    if weights is None:
        return values.mean()
    each = weights[labels]
    return (values * each).sum() / each.sum()


def _batches(rows: Rows, size: int) -> Iterator[Rows]:
    """All rows once, in a new order."""
    count = rows[0].shape[0]
    if size >= count:
        yield rows
    elif count <= WINDOW:
        yield from _split(rows, torch.randperm(count), size)
    else:
        yield from _streamed(rows, size)


def _split(rows: Rows, order: torch.Tensor, size: int) -> Iterator[Rows]:
    for first in range(0, order.shape[0], size):
        chosen = order[first : first + size].to(rows[0].device)
        yield rows[0][chosen], rows[1][chosen]


def _streamed(rows: Rows, size: int) -> Iterator[Rows]:
    """Rows that may lie in a file: runs of neighbours in a new order, a window of them copied, shuffled and used while
    the next window is read."""
    runs = torch.randperm(-(-rows[0].shape[0] // RUN))
    windows = [part.sort().values for part in torch.split(runs, WINDOW // RUN)]  # in file order within a window
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(_window, rows, windows[0])
        for i in range(len(windows)):
            window = coming.result()
            if i + 1 < len(windows):
                coming = reader.submit(_window, rows, windows[i + 1])
            yield from _split(window, torch.randperm(window[0].shape[0]), size)


def _window(rows: Rows, runs: torch.Tensor) -> Rows:
    spans = [slice(run * RUN, (run + 1) * RUN) for run in runs.tolist()]
    return torch.cat([rows[0][span] for span in spans]), torch.cat([rows[1][span] for span in spans])


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw from ``seed``, and leave the caller's random numbers as they were."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextmanager
def tuned(threads: int) -> Iterator[None]:
    """On so many threads, denormals flushed, and back to what was before.

    Weight decay shrinks weights into denormal numbers, which the processor handles several times slower.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
