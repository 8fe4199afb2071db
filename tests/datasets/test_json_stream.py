"""JSON objects item by item, against the standard library's reader of whole files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewise.datasets import json_stream
from nodewise.datasets.archive import FileMember
from nodewise.datasets.json_stream import json_items
from nodewise.errors import InputError

values = st.one_of(st.integers(), st.lists(st.integers(0, 1)), st.text(), st.floats(allow_nan=False), st.none())


@settings(max_examples=150, deadline=None)
@given(content=st.dictionaries(st.text(), values), chunk=st.integers(1, 30), indent=st.none() | st.integers(0, 2))
def test_items_are_those_of_the_whole_wherever_chunks_end(
    content: dict[str, object], chunk: int, indent: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("json") / "any.json"
    path.write_text(json.dumps(content, indent=indent, ensure_ascii=False), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK_BYTES", chunk)
        assert list(json_items(FileMember(path))) == list(content.items())


@settings(max_examples=150, deadline=None)
@given(text=st.text(alphabet='{}[]",:01 \n', max_size=12), chunk=st.integers(1, 4))
def test_what_the_standard_reader_refuses_is_refused(
    text: str, chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("json") / "any.json"
    path.write_text(text)
    try:
        expected = json.loads(text, object_pairs_hook=list)
    except ValueError:
        expected = None
    is_object = expected is not None and text.lstrip().startswith("{")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK_BYTES", chunk)
        if is_object:
            assert [(key, json.dumps(value)) for key, value in json_items(FileMember(path))] == [
                (key, json.dumps(dict(value) if isinstance(value, list) and text.count("{") > 1 else value))
                for key, value in expected
            ]
        else:
            with pytest.raises(InputError, match=r"any\.json: character \d+ is wrong"):
                list(json_items(FileMember(path)))


def test_a_file_that_is_cut_off_or_not_text(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text('{"0": [0, 1], "1": [0,')
    with pytest.raises(InputError, match=r"cut\.json: character 19 is wrong .*cut off"):
        list(json_items(FileMember(path)))
    path.write_bytes(b'{"0": "\xff"}')
    with pytest.raises(InputError, match=r"cut\.json: is not text in UTF-8"):
        list(json_items(FileMember(path)))


def test_a_value_without_end_is_not_read_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "MAX_ITEM", 1000)
    monkeypatch.setattr(json_stream, "CHUNK_BYTES", 100)
    path = tmp_path / "long.json"
    path.write_text('{"0": [' + "0," * 100_000 + "0]}")
    member = FileMember(path)
    with pytest.raises(InputError, match="character 6 is wrong"):
        list(json_items(member))
