"""Saved models: ``config.json`` and ``model.safetensors`` in a folder. Neither can run code.

Checksums tell damage. They do not tell who wrote the files, so what the configuration claims is checked as well: its
types, and that the tensors in the other file have the shapes that it implies, before anything of that size is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nodewise._util.atomic import new_folder, put_back
from nodewise._util.errors import InputError, StoreError
from nodewise._util.json_file import MOST_BYTES, parsed_json, plain_value, read_json, read_regular
from nodewise._util.memory import available_memory
from nodewise._util.os_errors import reading
from nodewise._util.types import AnyArray
from nodewise._version import __version__
from nodewise.learn.matching import NodeSet
from nodewise.learn.trainer import OUT_OF_BOUNDS

FORMAT = "nodewise-model"
FORMAT_VERSION = 2
CONFIG, TENSORS = "config.json", "model.safetensors"
NETWORKS = "networks."  # begins the names of their tensors
RESTORE = "restore it or train the model again"


@dataclass(frozen=True)
class Fit:
    """What the configuration of any model says about its fit; a method adds its own."""

    classes: list[int]
    label_names: list[str] | None
    multilabel: bool
    n_features_in: int
    epochs: int
    val_f1: float | None
    feature_names_in: list[str] | None = None
    nodes_in: NodeSet | None = None
    learned_from: dict[str, Any] | None = None

    def check(self) -> None:
        """Raise ValueError where parts contradict each other."""
        ids, names = self.classes, self.label_names
        expected = range(len(ids)) if self.multilabel else sorted(set(ids))
        if not ids or ids[0] < 0 or ids != list(expected) or (names is not None and ids[-1] >= len(names)):
            raise ValueError("its classes are not labels in order, each with a name or none")
        columns = self.feature_names_in
        named = columns is None or len(set(columns)) == len(columns) == self.n_features_in
        if self.n_features_in < 1 or not named:
            raise ValueError("its features are not one or more, each with a name of its own or none")
        if self.epochs < 0 or not (self.val_f1 is None or 0 <= self.val_f1 <= 1):
            raise ValueError("its epochs or its score are out of bounds")


def is_model(path: Path) -> bool:
    """Whether a folder is a model, sound or not, and nothing else."""
    try:
        written = read_json(path / CONFIG).get("format") == FORMAT
        return written and {entry.name for entry in path.iterdir()} <= {CONFIG, TENSORS}
    except (OSError, ValueError):
        return False


def save(
    path: Path, kind: str, params: dict[str, Any], fitted: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> None:
    """Write a model folder, whole or not at all; only another model is replaced."""
    from safetensors.torch import save as to_bytes

    numbers = to_bytes(tensors)
    config = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "written_by": f"nodewise {__version__}",
        "kind": kind,
        "params": params,
        "fitted": fitted,
        "tensors_sha256": hashlib.sha256(numbers).hexdigest(),
    }
    try:
        config = json.loads(json.dumps(config, default=plain_value, allow_nan=False))
    except TypeError as error:
        raise InputError(f"a parameter cannot be saved: {error}; expected a number, a string or None") from error
    except ValueError as error:
        raise InputError(f"a parameter is not a finite number, and cannot be saved: {params}") from error
    config["config_sha256"] = _digest(config)
    with new_folder(path, overwrite=True, ours=is_model) as folder:
        (folder / TENSORS).write_bytes(numbers)
        (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, torch.Tensor]]:
    """The parameters, what was fitted, and the tensors of a model folder, checked by their checksums."""
    from safetensors.torch import load as from_bytes

    config = read_config(path)
    if config["kind"] != kind:
        raise StoreError(f"{path}: holds a {config['kind']}, not a {kind}; load it with {config['kind']}.load")
    numbers = _read(path / TENSORS, available_memory() // 2)
    if hashlib.sha256(numbers).hexdigest() != config["tensors_sha256"]:
        raise StoreError(f"{path / TENSORS}: altered or cut short (its SHA-256 is not the one in {CONFIG}); restore it")
    try:
        return config["params"], config["fitted"], from_bytes(numbers)
    except Exception as error:  # whatever a damaged file makes safetensors raise
        raise StoreError(f"{path / TENSORS}: not a safetensors file ({error}); restore it") from error


def read_config(path: Path) -> dict[str, Any]:
    """A model's ``config.json``, checked."""
    put_back(path)
    if not path.is_dir():
        raise StoreError(f"{path}: no such model folder; expected one written by save() or 'nodewise train'")
    file = path / CONFIG
    content = _read(file, MOST_BYTES)
    try:
        config = parsed_json(content)
        digest = _digest(config)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{file}: not JSON ({error}); {RESTORE}") from error
    if config.get("format") != FORMAT:
        raise StoreError(f"{file}: not a nodewise model; expected a folder written by save() or 'nodewise train'")
    if config.get("format_version") != FORMAT_VERSION:
        raise StoreError(
            f"{file}: format version {config.get('format_version')!r:.60}, written by "
            f"{config.get('written_by')!r:.60}; this is nodewise {__version__}, which reads version {FORMAT_VERSION}. "
            f"Upgrade nodewise"
        )
    if config.get("config_sha256") != digest:
        raise StoreError(f"{file}: altered since it was written (its checksum does not match); restore it")
    kinds = {"kind": str, "params": dict, "fitted": dict, "tensors_sha256": str, "written_by": str}
    wrong = [key for key, kind in kinds.items() if not isinstance(config.get(key), kind)]
    if wrong:
        raise StoreError(f"{file}: its {wrong[0]!r} is missing or of the wrong type; {RESTORE}")
    return config


def array(tensors: Mapping[str, torch.Tensor], name: str, kind: torch.dtype, *shape: int | None) -> AnyArray:
    """A tensor of a model's file as an array. ValueError unless it has this type and shape (None: any length)."""
    found = tensors.get(name)
    if found is None:
        raise ValueError(f"{name} is missing")
    sizes = list(found.shape)
    fits = len(sizes) == len(shape) and all(want in (None, size) for want, size in zip(shape, sizes, strict=True))
    if found.dtype != kind or not fits:
        raise ValueError(f"{name} is {found.dtype} {sizes}; expected {kind} {list(shape)}")
    values: AnyArray = found.numpy()
    if kind == torch.bool and (values.view(np.uint8) > 1).any():
        raise ValueError(f"{name} holds values other than 0 and 1")
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{name} holds values that are not finite")
    return values


def fill(networks: torch.nn.Module, tensors: Mapping[str, torch.Tensor], device: torch.device) -> torch.nn.Module:
    """Networks without memory of their own (on torch's device "meta"), with the weights of a model's file."""
    wanted = networks.state_dict()
    given = [name.removeprefix(NETWORKS) for name in tensors if name.startswith(NETWORKS)]
    if unknown := [name for name in given if name not in wanted]:
        raise ValueError(f"no network has the weights {unknown[0]!r:.60}")
    weights = {name: array(tensors, f"{NETWORKS}{name}", value.dtype, *value.shape) for name, value in wanted.items()}
    if any((np.abs(weight) >= OUT_OF_BOUNDS).any() for weight in weights.values()):
        raise ValueError("its weights are out of bounds")
    filled = networks.to_empty(device=device)
    filled.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})
    return filled.eval()


def _read(file: Path, most: int) -> bytes:
    with reading(file, "a file of a model", (ValueError,), StoreError, RESTORE):
        return read_regular(file, most)


def _digest(config: dict[str, Any]) -> str:
    content = {key: value for key, value in config.items() if key != "config_sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
