"""How fast `nodewise serve` answers: server and load generator on one machine.

    NODEWISE_DATA=... python benchmarks/serving.py pubmed million papers -o docs/results/serving.json

Graphs: `pubmed`; `million`, a synthetic graph of a million nodes; `papers`, the shape of ogbn-papers100M at a tenth of
its size (11 M nodes), made in --folder on first use. Each client asks about one random node at a time, on a connection
that stays open. `--requests N` follows the memory of one worker over N requests instead, `--profile` says where the
time of one node goes (for graphs that are sampled; the rest of p50 is HTTP, JSON and the queue).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np

import attacks
import nodewise as nw
import papers_store
from measuring import keep, kept
from server_process import Server

CLIENTS, WORKERS, SECONDS = (1, 8, 64), (1, 2), 6.0
FOLDER = Path(os.environ.get("TMPDIR", "/tmp")) / "nodewise-serving"  # where graphs are made


def prepared(name: str, folder: Path) -> tuple[str, int]:
    """The source of a graph, with a model of it in ``folder``, and the number of its nodes."""
    model = folder / f"{name}-model"
    if name == "pubmed":
        source, graph = "pubmed", nw.load("pubmed")
    else:
        source = str(folder / name)
        if not Path(source).exists():
            if name == "million":
                nw.write_store(nw.synthetic.dcsbm(1_000_000, avg_degree=20, classes=5, features=64, seed=0), source)
            else:
                papers_store.write(Path(source), 0.1, 0, lambda done, total: None)
        graph = nw.open_store(source, verify=False)
    if not model.exists():
        random = np.random.default_rng(0)
        labelled = random.permutation(np.flatnonzero(graph.labels >= 0))[:4000]
        nw.NIGCN().fit(graph, labelled[:3000], labelled[3000:]).save(model)
    return source, graph.num_nodes


async def client(port: int, nodes: list[int], until: float, spent: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for node in nodes:
        if time.perf_counter() > until:
            break
        started = time.perf_counter()
        writer.write(attacks.request(b'{"nodes": [%d]}' % node))
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise OSError(answer[:200])
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", answer)[1]))
        spent.append(time.perf_counter() - started)
    writer.close()


async def ask(port: int, nodes: list[int], clients: int, seconds: float) -> list[float]:
    """The seconds of each request of so many clients, for so long."""
    spent: list[float] = []
    until = time.perf_counter() + seconds
    await asyncio.gather(*(client(port, nodes[place::clients], until, spent) for place in range(clients)))
    return spent


def measure(name: str, folder: Path, options: list[str]) -> list[dict[str, Any]]:
    source, count = prepared(name, folder)
    found = []
    random = np.random.default_rng(1)
    for workers in WORKERS:
        with Server(folder / f"{name}-model", source, "--workers", str(workers), *options) as server:
            # This brings the graph into memory.
            asyncio.run(ask(server.port, random.integers(0, count, 4000).tolist(), 8, 3))
            for clients in CLIENTS:
                nodes = random.integers(0, count, 200_000).tolist()
                spent = asyncio.run(ask(server.port, nodes, clients, SECONDS))
                p50, p99 = (1000 * float(np.quantile(spent, share)) for share in (0.5, 0.99))
                row = {"workers": workers, "clients": clients, "p50_ms": p50, "p99_ms": p99}
                row["per_second"] = len(spent) / SECONDS
                print(name, {key: round(value, 2) for key, value in row.items()}, flush=True)
                found.append(row)
            found[-1]["stop_seconds"] = server.stop()[1]
    return found


def follow_memory(name: str, folder: Path, requests: int) -> list[dict[str, float]]:
    source, count = prepared(name, folder)
    curve, step = [], max(1, requests // 20)
    with Server(folder / f"{name}-model", source) as server:
        for done in range(step, requests + 1, step):
            nodes = np.random.default_rng(done).integers(0, count, step).tolist()
            asyncio.run(ask(server.port, nodes, 64, 1e9))
            curve.append({"requests": done, "megabytes": server.memory()})
            print(name, curve[-1], flush=True)
    return curve


def profile(name: str, folder: Path) -> dict[str, float]:
    """Median milliseconds of the parts of one node's answer, in this process, on one thread."""
    source, count = prepared(name, folder)
    graph, model = nw.open_store(source, verify=False), nw.NIGCN.load(folder / f"{name}-model", threads=1)
    maker = model.maker_on(graph)
    parts: dict[str, list[float]] = {}
    for node in np.random.default_rng(2).integers(0, count, 500):
        started = time.perf_counter()
        diffusion = nw.diffuse(graph, [node], **vars(maker.on(graph)))
        total = diffusion.apply(graph.features, maker.feature_norm)
        row = maker.finish(graph, np.array([node]), total)
        made = time.perf_counter()
        model.proba_of_rows(row)
        done = time.perf_counter()
        spent = {**diffusion.phases, "networks": done - made, "all": done - started}
        spent["checks and planning"] = spent["all"] - sum(value for part, value in spent.items() if part != "all")
        for part, value in spent.items():
            parts.setdefault(part, []).append(1000 * value)
    return {part: float(np.median(values[100:])) for part, values in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=["pubmed", "million", "papers"])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--requests", type=int, help="follow the memory over so many requests")
    parser.add_argument("--profile", action="store_true", help="say where the time of one node goes")
    parser.add_argument("--epsilon", help="of the served model, in place of its own")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    found = kept(options.output)
    extra = ["--epsilon", options.epsilon] if options.epsilon else []
    for name in options.names:
        if options.profile:
            found[f"{name}, profile"] = profile(name, options.folder)
            print(name, found[f"{name}, profile"])
        elif options.requests:
            found[f"{name}, memory"] = follow_memory(name, options.folder, options.requests)
        else:
            found[f"{name}, epsilon {options.epsilon}" if extra else name] = measure(name, options.folder, extra)
        keep(found, options.output)


if __name__ == "__main__":
    main()
