"""Training: Adam on the training rows, stopped by the validation rows, the best weights kept."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn

from nodewise.errors import InputError
from nodewise.learn.adam import Adam
from nodewise.learn.head import Head

# Multiplications a step below which threads cost more than they give: torch's threads spin while they wait for each
# other, which on a busy machine takes ten times as long as the work itself.
WORTH_THREADS = 1 << 27
LARGE = 1 << 14  # rows in a batch at most, unless the user says otherwise
RUN = 1 << 8  # rows that lie side by side and stay together when they are shuffled out of a large array
WINDOW = 1 << 17  # rows copied into memory at a time, and shuffled there


@dataclass(frozen=True)
class Recipe:
    """How to train. ``patience`` counts epochs without a better score.

    ``batch_size=None`` takes all rows at once, or batches of :data:`LARGE` where there are more than that.
    """

    lr: float
    weight_decay: float
    epochs: int
    patience: int
    batch_size: int | None
    seed: int
    threads: int


Rows = tuple[torch.Tensor, torch.Tensor]


def choose_device(device: str) -> torch.device:
    """``"auto"`` is CUDA where there is one, else the CPU."""
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"device={device!r}: expected 'cpu', 'cuda' or 'auto'")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device='cuda': this machine or this build of torch has no CUDA; use 'cpu' or 'auto'")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def train(make_head: Callable[[], Head], rows: Rows, val: Rows | None, recipe: Recipe) -> tuple[Head, int]:
    """A head trained on ``rows``, and the epochs that took.

    Labels are class numbers, or a 0/1 matrix for several labels a row.
    """
    with _seeded(recipe.seed):
        head = make_head().to(rows[0].device)
        step = min(rows[0].shape[0], recipe.batch_size or LARGE)
        work = step * sum(weight.numel() for weight in head.parameters())
        with _tuned(recipe.threads if work > WORTH_THREADS else 1):
            epochs = _run(head, rows, val, recipe)
    return head.eval(), epochs


def _run(head: Head, rows: Rows, val: Rows | None, recipe: Recipe) -> int:
    optimizer = Adam(head.parameters(), recipe.lr, recipe.weight_decay)
    best, best_epoch, kept, epoch = (-1.0, -math.inf), 0, copy.deepcopy(head.state_dict()), 0
    for epoch in range(1, recipe.epochs + 1):
        head.train()
        for features, labels in _batches(rows, recipe.batch_size or LARGE):
            optimizer.zero_grad()
            _loss(head(features), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if val is None:
            continue
        score = _evaluate(head, val)
        if score > best:
            best, best_epoch = score, epoch
            kept = {name: value.clone() for name, value in head.state_dict().items()}
        elif epoch - best_epoch >= recipe.patience:
            break
    if val is not None:
        head.load_state_dict(kept)
    return epoch


def _evaluate(head: Head, rows: Rows) -> tuple[float, float]:
    """What should grow: the share of labels that are right, and minus the loss to tell equal shares apart.

    Where rows have several labels only the loss counts: as long as no label reaches a half, micro-F1 stands still.
    """
    head.eval()
    right, loss, count = 0.0, 0.0, rows[0].shape[0]
    with torch.no_grad():
        for features, labels in zip(torch.split(rows[0], WINDOW), torch.split(rows[1], WINDOW), strict=True):
            out = head(features)
            right += 0.0 if labels.ndim == 2 else float((out.argmax(1) == labels).double().sum())
            loss += float(_loss(out, labels)) * labels.shape[0]
    return right / count, -loss / count


def _loss(out: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    if labels.ndim == 2:
        return nn.functional.binary_cross_entropy_with_logits(out, labels)
    return nn.functional.cross_entropy(out, labels)


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
def _seeded(seed: int) -> Iterator[None]:
    """Draw from ``seed``, and leave the caller's random numbers as they were."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


@contextmanager
def _tuned(threads: int) -> Iterator[None]:
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
