"""The wheel: built, installed where the checkout cannot be seen, and used."""

import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

import nodewise as nw
from models import PLAIN

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A virtual environment with the wheel; its dependencies are those of this one, without what is editable."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("fresh")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    _run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    (wheel,) = folder.glob("*.whl")
    _run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", wheel)
    home = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # A path in a .pth file is searched for packages; the .pth files in it, such as that of the checkout, are not read.
    (home / "dependencies.pth").write_text("\n".join(site.getsitepackages()), "utf-8")
    return python


def test_the_wheel_works_on_its_own(fresh, tmp_path):
    def nodewise(*args):
        return _run(fresh.parent / "nodewise", *args, cwd=tmp_path)

    where = Path(_run(fresh, "-c", "import nodewise; print(nodewise.__file__)", cwd=tmp_path).strip()).parent
    assert where.is_relative_to(fresh.parents[1])
    source = ROOT / "src" / "nodewise"
    files = [
        path.relative_to(source) for path in source.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert [file for file in files if not (where / file).is_file()] == []
    assert nodewise("--version") == f"nodewise {nw.__version__}\n"
    assert "pubmed (in the paper)" in nodewise("datasets")

    graph = nw.synthetic.dcsbm(100, classes=2, features=4, seed=0)
    nw.write_store(graph, tmp_path / "tiny")
    nodewise("predict", _model(graph, tmp_path / "model"), "tiny", "-o", "labels.csv")
    assert len((tmp_path / "labels.csv").read_text("utf-8").splitlines()) == 101


def _model(graph, path):
    nw.NIGCN(**PLAIN, engine="exact").fit(graph, range(20), range(20, 40)).save(path)
    return path


def _run(*command, cwd=None):
    """What a command printed; the checkout is not on its path."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
