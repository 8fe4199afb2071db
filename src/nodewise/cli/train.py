"""nodewise train: learn on a graph's few labels, report the score, save the model."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nodewise.cli.console import print_json, print_table, progress, say
from nodewise.cli.options import DataDir, Json, Source, Threads, given, load_source
from nodewise.cli.shards import Address, Memory, On
from nodewise.cli.splitting import (
    Inductive,
    NamedSplit,
    PerClass,
    SplitFile,
    Splits,
    Test,
    Val,
    check_split_options,
    choose_splits,
)

if TYPE_CHECKING:
    from nodewise.graph import Graph
    from nodewise.learn.decoupled import RowMaker
    from nodewise.learn.evaluate import Evaluation, SplitResult
    from nodewise.splits import Split

_DIFFUSION, _NETWORK, _RECIPE = "Diffusion", "Network", "Beyond the paper"
_AUTO = "(default: auto)"


def _option(panel: str, text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False)


def train(
    source: Source,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Where to save the model. (default: ./NAME-model)", show_default=False),
    ] = None,
    splits: Splits = None,
    split_file: SplitFile = None,
    split: NamedSplit = None,
    per_class: PerClass = None,
    val: Val = None,
    test: Test = None,
    inductive: Inductive = False,
    preset: Annotated[
        str | None, _option(_DIFFUSION, "Start from the parameters of this data set, or in this file. (default: none)")
    ] = None,
    omega: Annotated[str | None, _option(_DIFFUSION, f"Heat: where the weight of hops peaks. {_AUTO}")] = None,
    rho: Annotated[
        str | None,
        _option(_DIFFUSION, f"How fast far hops lose weight; 1 is the heat kernel, 0 PageRank. {_AUTO}"),
    ] = None,
    tau: Annotated[
        str | None, _option(_DIFFUSION, f"How deep to go; each node's own depth grows with it. {_AUTO}")
    ] = None,
    epsilon: Annotated[
        str | None, _option(_DIFFUSION, f"Smallest weight that must be found; less costs more. {_AUTO}")
    ] = None,
    allowance: Annotated[
        float | None,
        _option(_DIFFUSION, "Seconds that rows may take; epsilon is the least that keeps to it. (default: no limit)"),
    ] = None,
    engine: Annotated[str | None, _option(_DIFFUSION, "auto, exact, walks or stratified.")] = None,
    convention: Annotated[
        str | None, _option(_DIFFUSION, "Lengths as in the paper or in its program (reference).")
    ] = None,
    mass: Annotated[str | None, _option(_DIFFUSION, "theta, walks or reference.")] = None,
    length: Annotated[int | None, _option(_DIFFUSION, "One depth for all nodes instead of tau's.")] = None,
    max_hops: Annotated[int | None, _option(_DIFFUSION, "No node goes further than this.")] = None,
    first_k: Annotated[
        bool | None, _option(_DIFFUSION, "Stop at 1/epsilon^2 neighbours, or do not.", "--first-k/--no-first-k")
    ] = None,
    hidden: Annotated[int | None, _option(_NETWORK, "Width of hidden layers.")] = None,
    bias: Annotated[bool | None, _option(_NETWORK, f"Whether layers have a bias. {_AUTO}", "--bias/--no-bias")] = None,
    heads: Annotated[int | None, _option(_NETWORK, "Networks whose probabilities are averaged.")] = None,
    layers: Annotated[str | None, _option(_NETWORK, f"Number of linear layers. {_AUTO}")] = None,
    dropout: Annotated[float | None, _option(_NETWORK, "Dropout before each layer.")] = None,
    lr: Annotated[float | None, _option(_NETWORK, "Learning rate.")] = None,
    weight_decay: Annotated[str | None, _option(_NETWORK, f"Weight decay. {_AUTO}")] = None,
    epochs: Annotated[int | None, _option(_NETWORK, "Most epochs.")] = None,
    patience: Annotated[
        int | None, _option(_NETWORK, "Epochs without a better validation score before stopping.")
    ] = None,
    batch_size: Annotated[int | None, _option(_NETWORK, "Rows a step. (default: all, of many 16384)")] = None,
    feature_norm: Annotated[str | None, _option(_NETWORK, "Scale features first: none, l1 or l2.")] = None,
    row_norm: Annotated[str | None, _option(_NETWORK, "Scale diffused rows: none, l1 or l2.")] = None,
    recipe: Annotated[
        str | None,
        _option(_RECIPE, "paper, or full: all of the following, unless validation nodes say no. (default: paper)"),
    ] = None,
    hop_attention: Annotated[
        bool | None,
        _option(_RECIPE, "Let every node weigh its hops itself.", "--hop-attention/--no-hop-attention"),
    ] = None,
    raw_features: Annotated[
        bool | None,
        _option(_RECIPE, "A node's own features beside the diffused ones.", "--raw-features/--no-raw-features"),
    ] = None,
    label_reuse: Annotated[
        bool | None,
        _option(_RECIPE, "The classes of labelled nodes in reach beside them.", "--label-reuse/--no-label-reuse"),
    ] = None,
    consistency: Annotated[
        float | None, _option(_RECIPE, "Weight of agreement between draws of walks of unlabelled nodes; 0: off.")
    ] = None,
    self_training: Annotated[
        int | None, _option(_RECIPE, "Most rounds of learning from the surest predictions; 0: off.")
    ] = None,
    class_shares: Annotated[
        bool | None,
        _option(
            _RECIPE,
            "Teach classes as common as they are among validation nodes.",
            "--class-shares/--no-class-shares",
        ),
    ] = None,
    correct_and_smooth: Annotated[
        bool | None,
        _option(
            _RECIPE,
            "Mend predictions by labels and residuals in reach.",
            "--correct-and-smooth/--no-correct-and-smooth",
        ),
    ] = None,
    unlabelled: Annotated[int | None, _option(_RECIPE, "Most unlabelled nodes that teach. (default: 2048)")] = None,
    class_weight: Annotated[
        str | None, _option(_NETWORK, "balanced: rare classes count as much as common ones.")
    ] = None,
    device: Annotated[str | None, _option(_NETWORK, "cpu, cuda or auto.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of splits, walks and network.")] = 0,
    threads: Threads = None,
    memory: Memory = None,
    on: On = "local",
    address: Address = None,
    data_dir: DataDir = None,
    json: Json = False,
) -> None:
    """Train on SOURCE and save the model.

    Reports micro-F1 on test nodes, split by split. Of several splits the model
    with the best validation score is saved. What no option sets is found on
    the validation nodes, or is a default that suits most graphs.
    """
    check_split_options(splits, split_file, split, per_class=per_class, val=val, test=test)
    params = given(
        omega=_number("omega", omega), rho=_number("rho", rho), tau=_number("tau", tau),
        epsilon=_number("epsilon", epsilon), layers=_number("layers", layers, int),
        weight_decay=_number("weight-decay", weight_decay), allowance=allowance, engine=engine, convention=convention,
        mass=mass,
        length=length, max_hops=max_hops, first_k=first_k, hidden=hidden, bias=bias, heads=heads, dropout=dropout,
        lr=lr, epochs=epochs, patience=patience, batch_size=batch_size,
        feature_norm=feature_norm, row_norm=row_norm, recipe=recipe, hop_attention=hop_attention,
        raw_features=raw_features, label_reuse=label_reuse, consistency=consistency, self_training=self_training,
        class_shares=class_shares, correct_and_smooth=correct_and_smooth, unlabelled=unlabelled,
        class_weight=class_weight, device=device, threads=threads, memory=memory,
    )  # fmt: skip
    started = time.perf_counter()
    graph = load_source(source, data_dir)
    loading = time.perf_counter() - started
    place = output or Path(f"{Path(graph.name).name}-model")
    _check_place(place)
    chosen = choose_splits(graph, splits, split_file, split, per_class, val, test, seed).splits
    with _row_maker(on, address, source, data_dir, threads) as make_rows:
        settings = {**_preset(preset), **params, "seed": seed}
        result = _evaluate(graph, chosen, settings, inductive, make_rows)
    result.best.save(place)
    if json:
        print_json({**result.to_json(), "model": str(place)})
    else:
        _show(result, loading)
        say(f"model saved in {place}")


def _check_place(place: Path) -> None:
    """Raise before the work is done, not after."""
    from nodewise.atomic import check_new_folder
    from nodewise.learn.bundle import is_model

    check_new_folder(place, overwrite=True, ours=is_model)


def _row_maker(
    on: str, address: str | None, source: str, data_dir: Path | None, threads: int | None
) -> AbstractContextManager[RowMaker | None]:
    """Who makes the rows: nobody else, or a cluster."""
    from nodewise.errors import InputError

    if on not in ("local", "ray"):
        raise InputError(f"--on {on}: expected local or ray")
    if on == "local" and address is not None:
        raise InputError(f"--address {address}: is that of a Ray cluster; pass --on ray too, or leave it out")
    if on == "local":
        return nullcontext()
    from nodewise.engines import row_maker

    return row_maker(source, data_dir, address=address, threads=threads)


def _evaluate(
    graph: Graph, chosen: list[Split], params: dict[str, Any], inductive: bool, make_rows: RowMaker | None
) -> Evaluation:
    from nodewise.learn.evaluate import evaluate
    from nodewise.learn.nigcn import NIGCN

    model = NIGCN(**params)
    with progress(f"train {graph.name}", len(chosen)) as advance:
        return evaluate(model, graph, chosen, inductive=inductive, make_rows=make_rows, progress=lambda _: advance(1))


def _number(name: str, text: str | None, kind: type[int] | type[float] = float) -> float | str | None:
    """An option that may be a number or ``auto``."""
    from nodewise.errors import InputError

    if text is None or text == "auto":
        return text
    try:
        return kind(text)
    except ValueError:
        raise InputError(f"--{name} {text}: expected a {'whole ' * (kind is int)}number, or auto") from None


def _preset(name: str | None) -> dict[str, Any]:
    from nodewise.errors import InputError
    from nodewise.learn.nigcn import NIGCN
    from nodewise.learn.presets import find_preset

    params = {} if name is None else find_preset(name)
    if unknown := sorted(params.keys() - NIGCN().get_params()):
        raise InputError(f"--preset {name}: {unknown[0]!r} is no parameter of NIGCN; take it out of the file")
    try:
        NIGCN(**params).check_params()
    except InputError as error:
        raise InputError(f"--preset {name}: {error}") from error
    return params


def _show(result: Evaluation, loading: float) -> None:
    columns = ("split", "val F1 %", "test F1 %", "macro-F1 %", "prepare s", "train s", "epochs")
    rows = [
        (
            str(s.split),
            *("" if score is None else f"{100 * score:.2f}" for score in (s.val_f1, s.test_f1, s.test_macro_f1)),
            f"{s.preparation_seconds:.3f}",
            f"{s.train_seconds:.3f}",
            str(s.epochs),
        )
        for s in result.splits
    ]
    print_table(columns, rows, right=columns)
    typer.echo(f"{result.dataset}: {_score(result)}, engine {result.engine}")
    which = "" if len(result.splits) == 1 else f", split {result.splits[-1].split}"
    for how, found in _found_how(result.splits[-1]).items():
        if found:
            typer.echo(f"{how}{which}: " + ", ".join(f"{name} {_short(value)}" for name, value in found.items()))
    for name, times in Counter(part for s in result.splits for part in s.kept).items():
        typer.echo(f"kept {name}" + (f" in {times} of {len(result.splits)} splits" if len(result.splits) > 1 else ""))
    preparation, training = (sum(getattr(s, f"{p}_seconds") for s in result.splits) for p in ("preparation", "train"))
    typer.echo(f"loading {loading:.2f} s, preparation {preparation:.2f} s, training {training:.2f} s")


def _found_how(split: SplitResult) -> dict[str, dict[str, Any]]:
    """What was found, by how that was done."""
    found = dict(split.found)
    guide = found.pop("guide", "nothing")
    if split.val_f1 is not None:
        return {"found on validation nodes": found}
    searched = ("omega", "rho", "tau", "hops") if guide != "nothing" else ()
    return {
        f"found on {guide}": {name: value for name, value in found.items() if name in searched},
        "taken without validation nodes": {name: value for name, value in found.items() if name not in searched},
    }


def _short(value: float | bool) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else f"{value:.3g}"


def _score(result: Evaluation) -> str:
    if result.test_f1_mean is None or result.test_f1_std is None:
        return "no test nodes"
    several = len(result.test_f1) > 1
    spread = f" ± {100 * result.test_f1_std:.2f} over {len(result.test_f1)} splits" if several else ""
    macro = f", macro-F1 {100 * (result.test_macro_f1_mean or 0):.2f}%"
    return f"test micro-F1 {100 * result.test_f1_mean:.2f}%{spread}{macro}"
