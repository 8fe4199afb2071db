"""Raw files of the walks in walks.py, made from what is on a Debian machine, and the commands to run on them."""

from __future__ import annotations

import ast
import csv
import gzip
import re
import shlex
import subprocess
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import nodewise as nw

Labels = dict[str, list[str]]  # of each node


@dataclass
class Walk:
    about: str
    commands: list[str]
    known: Labels
    later: Labels
    graph: Callable[[], nw.Graph]  # for logistic regression


def write(file: Path, header: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([header, *rows])


def pairs(labels: Labels) -> list[tuple[str, str]]:
    return [(node, label) for node, all_of_it in labels.items() for label in all_of_it]


def hide(labels: Labels) -> tuple[Labels, Labels]:
    """Known labels, of at most 20 nodes per class and at most a third of them; and the others."""
    classes = defaultdict(list)
    for node, (label,) in sorted(labels.items()):
        classes[label].append(node)
    rng = np.random.default_rng(0)
    keep = {n for nodes in classes.values() for n in rng.permutation(nodes)[: min(20, len(nodes) // 3)]}
    return {n: labels[n] for n in labels if n in keep}, {n: labels[n] for n in labels if n not in keep}


def steps(name: str) -> list[str]:
    """What follows the import of a store."""
    return [
        f"nodewise info {name}",
        f"nodewise train {name} -o {name}-model",
        f"nodewise predict {name}-model {name} -o predicted.csv",
        f"nodewise evaluate {name}-model {name} --labels later.csv",
        f"nodewise report {name}-model {name} -o report.html",
        f"nodewise describe {name}-model",
    ]


def output_of(command: str) -> str:
    return subprocess.run(shlex.split(command), check=True, capture_output=True).stdout.decode(errors="replace")


def fields_of(stanzas: str) -> Iterable[dict[str, str]]:
    """Of each stanza as apt writes them."""
    for stanza in stanzas.split("\n\n"):
        yield dict(re.findall(r"^([\w-]+): *(.*(?:\n .*)*)", stanza, flags=re.MULTILINE))


def packages(folder: Path) -> Walk:
    """Debian packages: what they depend on, the words of their descriptions, and their debtags."""
    found = {f["Package"]: f for f in fields_of(output_of("apt-cache dumpavail")) if "Package" in f}
    listed = "apt-get -o Acquire::Languages=en indextargets --format $(FILENAME) 'Created-By: Translations'"
    for f in fields_of(output_of(f"/usr/lib/apt/apt-helper cat-file {' '.join(output_of(listed).split())}")):
        if f.get("Package") in found:
            found[f["Package"]]["Description"] = f["Description-en"]
    needs = {p: f"{f.get('Depends', '')},{f.get('Recommends', '')}" for p, f in found.items()}
    edges = {(p, other) for p, names in needs.items() for other in re.findall(r"(?:^|[,|])\s*([\w.+-]+)", names)}
    words = {p: set(re.findall(r"[a-z]{3,}", f.get("Description", "").lower())) for p, f in found.items()}
    frequent = {w for w, n in Counter(w for all_of_it in words.values() for w in all_of_it).items() if n >= 5}
    tags = {
        p: re.findall(r"(?:role|interface|implemented-in|use)::[\w:+.-]+", f.get("Tag", "")) for p, f in found.items()
    }
    common = {t for t, n in Counter(t for all_of_it in tags.values() for t in all_of_it).items() if n >= 50}
    labels = {p: kept for p, all_of_it in sorted(tags.items()) if (kept := [t for t in all_of_it if t in common])}
    keep = set(np.random.default_rng(0).permutation(list(labels))[:2000])
    known, later = ({p: t for p, t in labels.items() if (p in keep) is part} for part in (True, False))
    write(folder / "depends.csv", ["package", "depends_on"], sorted((p, q) for p, q in edges if q in found))
    rows = ((p, w, 1) for p, all_of_it in words.items() for w in sorted(all_of_it & frequent))
    write(folder / "words.csv", ["node", "feature", "value"], rows)
    write(folder / "tags.csv", ["node", "label"], pairs(known))
    write(folder / "later.csv", ["node", "label"], pairs(later))
    files = "--edges depends.csv --features words.csv --labels tags.csv --multilabel"
    commands = [f"nodewise import {files} -o packages", *steps("packages")]
    about = "Debian packages, what they depend on or recommend, the words of their descriptions, and their debtags"
    return Walk(about, commands, known, later, lambda: nw.open_store(folder / "packages"))


def manpages(folder: Path) -> Walk:
    """Manual pages: their text, what they refer to, and their section."""
    texts, edges = {}, set()
    for file in sorted(Path("/usr/share/man").glob("man[1-8]/*")):
        node = file.name.removesuffix(".gz")
        if file.is_symlink() or node.startswith("gcloud"):  # a second name; 16,000 pages of one program
            continue
        source = (gzip.open if file.suffix == ".gz" else open)(file, "rb").read().decode(errors="replace")
        source = source[found.start() :] if (found := re.search(r"^\.S[hH]\b", source, re.MULTILINE)) else ""
        source = re.sub(r"^['.]\\\".*", "", source, flags=re.MULTILINE)  # comments
        source = re.sub(r"^\.Xr (\S+) (\d\w*).*", r"\1(\2)", source, flags=re.MULTILINE)
        source = re.sub(r"\\f(\[\w*\]|\(..|.)|\\[&|^/,]|\\s[+-]?\d", "", source.replace(r"\-", "-"))  # fonts
        source = re.sub(r"^[.'][ \t]*[A-Za-z]+", "", source, flags=re.MULTILINE)  # macros, not what follows them
        source = re.sub(r"\\\(..|\\\[\w*\]|\\\*?.", " ", source)
        edges |= {(node, f"{name}.{section}") for name, section in re.findall(r"([\w.:+-]+) ?\((\d\w*)\)", source)}
        texts[node] = " ".join(re.sub(r"([\w.:+-]+) ?\((\d\w*)\)", " ", source).split())
    sections = {n: [n.rsplit(".", 1)[1][0]] for n in texts if texts[n]}
    enough = {s for s, count in Counter(s for (s,) in sections.values()).items() if count >= 20}
    known, later = hide({n: s for n, s in sections.items() if s[0] in enough})
    write(folder / "refs.csv", ["from", "to"], sorted((a, b) for a, b in edges if b in sections and a != b))
    write(folder / "nodes.csv", ["node", "text", "section"], ((n, texts[n], *known.get(n, [""])) for n in sections))
    write(folder / "later.csv", ["node", "label"], pairs(later))
    files = "--edges refs.csv --features nodes.csv --labels nodes.csv --label section --text text"
    commands = [
        f"nodewise train {files} -o man-model",
        f"nodewise predict man-model {files} -o predicted.csv",
        f"nodewise report man-model {files} -o report.html",
        "nodewise describe man-model",
    ]
    nodes = folder / "nodes.csv"
    about = "manual pages, what they refer to, their text, and their section"
    options = {"label": "section", "text": "text"}
    return Walk(about, commands, known, later, lambda: nw.import_graph(folder / "refs.csv", nodes, nodes, **options))


def modules(folder: Path) -> Walk:
    """Python modules: what they import, and the package they are part of; no features."""
    files = {}
    for root in (Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))):
        for file in sorted(root.rglob("*.py")):
            parts = file.relative_to(root).with_suffix("").parts
            if all(part.isidentifier() for part in parts):
                files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    files.pop("", None)
    found = {(name, other) for name, file in files.items() for other in imports(name, file) if other in files}
    edges = sorted((a, b) for a, b in found if a != b)
    tops = {name: name.split(".")[0] for name in sorted({name for edge in edges for name in edge})}
    sizes = Counter(tops.values())
    known, later = hide({name: [top] for name, top in tops.items() if sizes[top] >= 10})
    header = f"# Python modules and what they import\n# Nodes: {len(tops)} Edges: {len(edges)}\n# FromNode ToNode\n"
    (folder / "modules.txt").write_text(header + "".join(f"{a} {b}\n" for a, b in edges))
    write(folder / "labels.csv", ["node", "label"], pairs(known))
    write(folder / "later.csv", ["node", "label"], pairs(later))
    commands = [
        "nodewise import --edges modules.txt --labels labels.csv --header-in labels -o modules",
        *steps("modules"),
    ]
    about = "Python modules, what they import, and the package that each is part of; no features"
    return Walk(about, commands, known, later, lambda: nw.open_store(folder / "modules"))


def imports(name: str, file: Path) -> Iterable[str]:
    """Modules that a module imports; names that are no modules are among them."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


WALKS = {"packages": packages, "manpages": manpages, "modules": modules}
