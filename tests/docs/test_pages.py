"""What the pages promise: names that exist, links that lead somewhere, commands and examples that run."""

import doctest
import inspect
import re
import runpy
from pathlib import Path

import pytest

import nodewise as nw

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)]
REFERENCE = ROOT / "docs" / "reference.md"


def test_every_public_name_has_a_heading_in_the_reference():
    headings = re.findall(r"^### (\S+)$", REFERENCE.read_text("utf-8"), re.MULTILINE)
    assert sorted(heading.replace("\\", "") for heading in headings) == sorted(nw.__all__)


def test_every_public_name_has_an_example():
    """In its docstring or under its heading; the errors have one for all."""
    sections = re.split(r"^### ", REFERENCE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    shown = {section.split("\n")[0].replace("\\", "") for section in sections if ">>>" in section}
    shown |= {name for name in nw.__all__ if ">>>" in (inspect.getdoc(getattr(nw, name)) or "")}
    without = set(nw.__all__) - shown - {"synthetic"}  # a module: its function has one
    assert {name for name in without if not name.endswith(("Error", "Warning"))} == set()
    assert doctest.testfile(str(REFERENCE), module_relative=False).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_heading(page):
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        file = page.parent / path if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def anchors(page):
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_citation_has_the_present_version():
    assert f"\nversion: {nw.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_every_room_is_on_the_page_about_the_architecture():
    rooms = [path.parent.name for path in (ROOT / "src" / "nodewise").glob("*/__init__.py")]
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    picture = (ROOT / "docs" / "figures" / "rooms.svg").read_text("utf-8")
    assert [room for room in rooms if f"| `{room}` |" not in page or f">{room}<" not in picture] == []


def test_the_tutorial_runs_from_top_to_bottom(tmp_path, monkeypatch, run):
    """Its scripts are written under the names that the page gives them, its commands run in order."""
    monkeypatch.chdir(tmp_path)
    scripts = iter(("make_files.py", "ask.py"))
    page = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    for kind, text in re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL):
        if kind == "python":
            Path(next(scripts)).write_text(text, "utf-8")
        for command in re.findall(r"^\$ (.+)$", text, re.MULTILINE) if kind == "console" else ():
            program, *arguments = command.split()
            if program == "python":
                runpy.run_path(arguments[0], run_name="__main__")
            if program == "nodewise":
                code, _, err = run(*arguments)
                assert code == 0, err
    assert Path("subjects.csv").read_text("utf-8").startswith('"node","label","probability","known"\n"paper0000",')
