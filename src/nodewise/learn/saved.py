"""Saved models: ``config.json`` and ``model.safetensors`` in a folder, checked by checksums. Neither can run code."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from nodewise._util.atomic import new_folder, put_back
from nodewise._util.errors import InputError, StoreError
from nodewise._util.os_errors import reading
from nodewise._version import __version__

FORMAT = "nodewise-model"
FORMAT_VERSION = 2
CONFIG, TENSORS = "config.json", "model.safetensors"


def is_model(path: Path) -> bool:
    """Whether a folder is a model, sound or not, and nothing else."""
    try:
        written = json.loads((path / CONFIG).read_bytes())["format"] == FORMAT
        return written and {entry.name for entry in path.iterdir()} <= {CONFIG, TENSORS}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
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
    config = json.loads(json.dumps(config, default=_plain))
    config["config_sha256"] = _digest(config)
    with new_folder(path, overwrite=True, ours=is_model) as folder:
        (folder / TENSORS).write_bytes(numbers)
        (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, torch.Tensor]]:
    """The parameters, what was fitted, and the tensors of a model folder, checked by their checksums."""
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    config = read_config(path)
    if config["kind"] != kind:
        raise StoreError(f"{path}: holds a {config['kind']}, not a {kind}; load it with {config['kind']}.load")
    numbers = _read(path / TENSORS)
    if hashlib.sha256(numbers).hexdigest() != config["tensors_sha256"]:
        raise StoreError(f"{path / TENSORS}: altered or cut short (its SHA-256 is not the one in {CONFIG}); restore it")
    try:
        return config["params"], config["fitted"], from_bytes(numbers)
    except SafetensorError as error:
        raise StoreError(f"{path / TENSORS}: not a safetensors file ({error}); restore it") from error


def read_config(path: Path) -> dict[str, Any]:
    """A model's ``config.json``, checked."""
    put_back(path)
    if not path.is_dir():
        raise StoreError(f"{path}: no such model folder; expected one written by save() or 'nodewise train'")
    file = path / CONFIG
    try:
        config = json.loads(_read(file))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise StoreError(f"{file}: not JSON ({error}); restore it or train the model again") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise StoreError(f"{file}: not a nodewise model; expected a folder written by save() or 'nodewise train'")
    if config.get("format_version") != FORMAT_VERSION:
        raise StoreError(
            f"{file}: format version {config.get('format_version')}, written by {config.get('written_by')}; this is "
            f"nodewise {__version__}, which reads version {FORMAT_VERSION}. Upgrade nodewise"
        )
    if config.get("config_sha256") != _digest(config):
        raise StoreError(f"{file}: altered since it was written (its checksum does not match); restore it")
    kinds = {"kind": str, "params": dict, "fitted": dict, "tensors_sha256": str}
    wrong = [key for key, kind in kinds.items() if not isinstance(config.get(key), kind)]
    if wrong:
        raise StoreError(
            f"{file}: its {wrong[0]!r} is missing or of the wrong type; restore it or train the model again"
        )
    return config


def _plain(value: Any) -> Any:
    """A numpy number, as parameters from a search are, as Python's own; a group of parameters as a dictionary."""
    if hasattr(value, "__dataclass_fields__"):
        return asdict(value)
    if hasattr(value, "item"):
        return value.item()
    raise InputError(f"a parameter is {value!r}, which cannot be saved; expected a number, a string or None")


def _read(file: Path) -> bytes:
    with reading(file, raises=StoreError, advice="restore it or train the model again"):
        return file.read_bytes()


def _digest(config: dict[str, Any]) -> str:
    content = {key: value for key, value in config.items() if key != "config_sha256"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
