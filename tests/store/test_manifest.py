"""A manifest that lies, or is of another version."""

from __future__ import annotations

import json

import pytest
from written import rewrite_manifest

from nodewise import StoreError
from nodewise.store import open_store


def test_a_store_of_a_newer_version_says_who_wrote_it_and_to_upgrade(full):
    rewrite_manifest(full, lambda content: content.update(format_version=3, written_by="9.1.0", surprise=True))
    with pytest.raises(StoreError, match=r"store format 3, written by nodewise '9\.1\.0'.*Upgrade nodewise"):
        open_store(full)


def test_a_folder_that_is_no_store_says_so(tmp_path):
    with pytest.raises(StoreError, match="no such folder"):
        open_store(tmp_path / "missing")
    with pytest.raises(StoreError, match=r"has no manifest\.json"):
        open_store(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": "something else"}')
    with pytest.raises(StoreError, match="Not a store of nodewise"):
        open_store(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '"x"', '{"format": NaN}', "[" * 100_000, '{"format": 1' + "0" * 5000 + "}", "\x00"],
)
def test_a_manifest_that_is_no_json_object_is_an_error_of_the_store(full, text):
    (full / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match=r"manifest\.json: "):
        open_store(full)


def test_a_manifest_that_is_no_text_is_an_error_of_the_store(full):
    (full / "manifest.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(StoreError, match=r"manifest\.json: is cut off or not JSON"):
        open_store(full)


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "../s/labels.npy",
        "splits/../labels.npy",
        "splits/../../x.npy",
        "splits//x.npy",
        "splits/.npy",
        "splits/a/b.npy",
        "splits/a\\..\\b.npy",
        "splits/train.npy\n",
        "splits/tr\x00ain.npy",
        "LABELS.NPY",
        "",
        ".",
    ],
)
def test_a_manifest_cannot_name_files_outside_the_store(full, name):
    rewrite_manifest(full, lambda content: content["files"].update({name: content["files"]["labels.npy"]}))
    with pytest.raises(StoreError, match="which stores do not have"):
        open_store(full)


HARM = {
    "huge shape": lambda c: c["files"]["features.npy"].update(shape=[30, 2**61]),
    "shape that overflows": lambda c: c["files"]["features.npy"].update(shape=[2**32, 2**32]),
    "number beyond 64 bits": lambda c: c["files"]["features.npy"].update(shape=[30, 10**30]),
    "negative shape": lambda c: c["files"]["features.npy"].update(shape=[-30, -4]),
    "fractional shape": lambda c: c["files"]["features.npy"].update(shape=[30.0, 4]),
    "true as a length": lambda c: c["files"]["features.npy"].update(shape=[True, 4]),
    "text shape": lambda c: c["files"]["features.npy"].update(shape="30"),
    "no shape": lambda c: c["files"]["features.npy"].pop("shape"),
    "shape of another rank": lambda c: c["files"]["features.npy"].update(shape=[120]),
    "object dtype": lambda c: c["files"]["features.npy"].update(dtype="|O"),
    "list dtype": lambda c: c["files"]["features.npy"].update(dtype=["<f4"]),
    "other dtype": lambda c: c["files"]["indices.npy"].update(dtype="<f4"),
    "negative bytes": lambda c: c["files"]["features.npy"].update(bytes=-1),
    "too many bytes": lambda c: c["files"]["features.npy"].update(bytes=10**9),
    "no block size": lambda c: c["files"]["features.npy"].update(block_bytes=0),
    "negative block size": lambda c: c["files"]["features.npy"].update(block_bytes=-4096),
    "too few checksums": lambda c: c["files"]["features.npy"].update(sha256=[]),
    "too many checksums": lambda c: c["files"]["features.npy"]["sha256"].append("0" * 64),
    "checksum that is no text": lambda c: c["files"]["features.npy"].update(sha256=[0]),
    "checksum in short": lambda c: c["files"]["features.npy"].update(sha256=["00"]),
    "entry that is no object": lambda c: c["files"].update({"features.npy": 7}),
    "files that are no object": lambda c: c.update(files=[]),
    "labels out of order": lambda c: c.update(present_labels=[1, 0]),
    "labels beyond the classes": lambda c: c.update(present_labels=[0, 99]),
    "labels that are no numbers": lambda c: c.update(present_labels=["a"]),
    "degrees that are no object": lambda c: c.update(degrees=[1, 2]),
    "degrees without the least": lambda c: c["degrees"].pop("least"),
    "degrees beyond every float": lambda c: c["degrees"].update(total=10**400),
    "degrees of zero": lambda c: c["degrees"].update(total=0),
    "degrees that are text": lambda c: c["degrees"].update(least="1"),
    "a least degree above the mean": lambda c: c["degrees"].update(least=10**6),
    "a least degree below any loop": lambda c: c["degrees"].update(least=1e-300),
    "too few label names": lambda c: c.update(label_names=["a"]),
    "classes without labels": lambda c: (c["files"].pop("labels.npy"), c.update(present_labels=None)),
    "name that no terminal can show": lambda c: c.update(name="\ud800"),
    "int8 without steps": lambda c: c["files"]["features.npy"].update(dtype="|i1"),
    "steps without int8": lambda c: c["files"].update({"feature_steps.npy": c["files"]["features.npy"]}),
    "no files": lambda c: c.pop("files"),
    "no indices": lambda c: c["files"].pop("indices.npy"),
    "no counts": lambda c: c.pop("counts"),
    "no nodes": lambda c: c["counts"].update(nodes=0),
    "negative nodes": lambda c: c["counts"].update(nodes=-30),
    "too many nodes": lambda c: c["counts"].update(nodes=2**40),
    "text nodes": lambda c: c["counts"].update(nodes="30"),
    "no number of nodes": lambda c: c["counts"].update(nodes=None),
    "other edges": lambda c: c["counts"].update(edges=1),
    "other features": lambda c: c["counts"].update(features=5),
    "weights that are not": lambda c: c["files"].pop("weights.npy"),
    "sparse that is not": lambda c: c["flags"].update(sparse_features=True),
    "multilabel that is not": lambda c: c["flags"].update(multilabel=True),
    "flag that is no flag": lambda c: c["flags"].update(weighted=1),
    "label names that are no list": lambda c: c.update(label_names={"a": 1}),
    "label names that are no text": lambda c: c.update(label_names=[1]),
    "feature names that are no text": lambda c: c.update(feature_names=[1, 2, 3, 4]),
    "feature names that are no list": lambda c: c.update(feature_names="abcd"),
    "too few feature names": lambda c: c.update(feature_names=["a"]),
    "feature names twice": lambda c: c.update(feature_names=["a", "b", "a", "c"]),
    "name that is no text": lambda c: c.update(name=None),
    "provenance that is no object": lambda c: c.update(provenance=[]),
    "format version of zero": lambda c: c.update(format_version=0),
    "format version as text": lambda c: c.update(format_version="1"),
    "format version true": lambda c: c.update(format_version=True),
    "no format version": lambda c: c.pop("format_version"),
}


@pytest.mark.parametrize("harm", HARM.values(), ids=HARM.keys())
def test_a_manifest_that_cannot_be_is_an_error_of_the_store(full, harm):
    rewrite_manifest(full, harm)
    with pytest.raises(StoreError, match=r"manifest\.json: "):
        open_store(full)


def test_not_a_number_in_the_manifest_is_an_error_of_the_store(full):
    text = (full / "manifest.json").read_text()
    (full / "manifest.json").write_text(text.replace('"nodes": 30', '"nodes": NaN'))
    with pytest.raises(StoreError, match="NaN is not a finite number"):
        open_store(full)


def test_a_manifest_altered_to_another_that_still_fits_is_noticed(full):
    """Only the checksum can tell: the name of the graph decides nothing else."""
    path = full / "manifest.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "name": "another"}))
    with pytest.raises(StoreError, match=r"manifest\.json: its content does not match its checksum"):
        open_store(full)


def test_a_store_without_names_of_features_opens_without(full):
    rewrite_manifest(full, lambda content: content.pop("feature_names"))
    assert open_store(full).feature_names is None
