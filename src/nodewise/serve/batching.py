"""Batcher: questions that come together are answered together; a bounded queue refuses what it cannot hold."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

MOST_WAITING = 4096  # nodes; a queue longer than that answers nobody in time
MOST_AT_ONCE = 512  # nodes


class QueueFullError(Exception):
    """Too many questions are waiting."""


class Batcher:
    """Answers questions about nodes: ``answer(items)`` gets those of all waiting questions, on a thread of its own."""

    def __init__(
        self, answer: Callable[[Sequence[Any]], Sequence[Any]], after: Callable[[int], None] = lambda size: None
    ) -> None:
        self._answer, self._after = answer, after  # the latter gets the size of each batch
        self._waiting: list[tuple[Sequence[Any], asyncio.Future[list[Any]]]] = []
        self._thread = ThreadPoolExecutor(1, "answers")
        self._others = ThreadPoolExecutor(2, "others")
        self._busy = False
        self.waiting = 0  # nodes, and other pieces of work

    async def ask(self, items: Sequence[Any]) -> list[Any]:
        """The answers, in order; raises what ``answer`` raised, or QueueFullError at once."""
        if self.waiting + len(items) > MOST_WAITING:
            raise QueueFullError
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[Any]] = loop.create_future()
        self._waiting.append((items, found))
        self.waiting += len(items)
        if not self._busy:
            self._busy = True
            self._task = loop.create_task(self._work())
        return await found

    async def _work(self) -> None:
        """Answer until nothing waits: what came in during one batch is the next one."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, size = [], 0
            while self._waiting and size < MOST_AT_ONCE:
                batch.append(self._waiting.pop(0))
                size += len(batch[-1][0])
            batch = [one for one in batch if not one[1].done()]  # else the asker has gone
            items = [item for asked, _ in batch for item in asked]
            try:
                answers = await loop.run_in_executor(self._thread, self._answer, items) if items else []
            except Exception as error:
                for _, found in batch:
                    if not found.done():
                        found.set_exception(error)
            else:
                first = 0
                for asked, found in batch:
                    if not found.done():
                        found.set_result(list(answers[first : first + len(asked)]))
                    first += len(asked)
            self.waiting -= size
            self._after(size)
        self._busy = False

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Another piece of work, on one of two threads beside; it counts as waiting until it is done."""
        if self.waiting + 1 > MOST_WAITING:
            raise QueueFullError
        self.waiting += 1
        done = self._others.submit(function, *arguments)
        loop = asyncio.get_running_loop()
        done.add_done_callback(lambda _: loop.call_soon_threadsafe(self._less))
        return await asyncio.wrap_future(done)

    def _less(self) -> None:
        self.waiting -= 1
