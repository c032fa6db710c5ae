"""Normal forms of locations: two spellings have the same normal form exactly if they are the same location."""

from __future__ import annotations

import posixpath

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.storage import Storage
from lakescan.storage.locations import (
    LocationMatcher,
    adopt_root,
    is_normal,
    is_same_place,
    may_overlap,
    normal,
    normalize,
    normalize_roots,
    path_of,
    strip_roots,
)

SPELLINGS = {
    "s3://b/t/f": ["s3a://b/t/f", "s3n://b/t/f", "S3://b/t/f", "s3://b//t/f", "s3://b/t/./f", "s3a://b/t/f/"],
    "/t/f": ["file:/t/f", "file:///t/f", "file://localhost/t/f", "FILE:/t/f", "//t/f", "/t//f", "/t/x/../f", "/t/./f"],
    "hdfs://host/t/f": ["hdfs://host:8020/t/f", "hdfs://HOST/t//f", "HDFS://host/t/f"],
    "gcs://b/f": ["gs://b/f", "gcs://b//f"],
    "abfs://c@a.dfs.core.windows.net/f": ["abfss://c@a.dfs.core.windows.net/f", "wasbs://c@A.blob.core.windows.net/f"],
}
OTHERS = [
    "s3://b2/t/f",
    "s3://b/t/F",
    "hdfs://host:9000/t/f",
    "hdfs://other/t/f",
    "/t/f2",
    "/t/f%20",
    "/t/..f",
    "/t/f.",
]

names = st.sampled_from(["a", "b", ".", "..", "", ".h", "..x", "a b", "ü", "x%20y", "p=1"])


@pytest.mark.parametrize("form", SPELLINGS)
def test_spellings_of_a_location_have_one_normal_form(form: str) -> None:
    found = normalize(pa.array([form, *SPELLINGS[form]])).to_pylist()
    assert set(found) == {form}


def test_different_locations_have_different_normal_forms() -> None:
    known = [*SPELLINGS, *OTHERS]
    assert normalize(pa.array(known)).to_pylist() == known


@given(st.lists(names, min_size=1, max_size=7))
def test_paths_are_resolved_as_posix_does(parts: list[str]) -> None:
    path = "/" + "/".join(parts)
    assert normal(path) == posixpath.normpath("/" + path.lstrip("/"))


@given(st.sampled_from(["", "s3a://B", "file:", "hdfs://H:8020", "gs://b", "oss://b"]), st.lists(names, max_size=7))
def test_a_normal_form_is_its_own_normal_form(root: str, parts: list[str]) -> None:
    once = normalize(pa.array([root + "/" + "/".join(parts)]))
    assert is_normal(once).to_pylist() == [True]


def test_columns_keep_their_order_and_nulls() -> None:
    values = pa.chunked_array([["/b//x", None], ["/a", "s3a://b/x"]])
    assert normalize(values).to_pylist() == ["/b/x", None, "/a", "s3://b/x"]
    assert strip_roots(pa.array(["hdfs://h/x", "/x", "file:/y"])).to_pylist() == ["/x", "/x", "/y"]


def test_relocated_locations_are_the_same() -> None:
    places = LocationMatcher({"/wh/t": "/copy", "s3://b/t": "/copy/"})
    spelled = ["/wh/t/f", "hdfs://host:20500/wh/t/f", "s3a://b//t/f", "/copy/f"]
    assert set(places.canonicalize(pa.array(spelled)).to_pylist()) == {"/copy/f"}
    assert places.canonicalize(pa.array(["/wh/t2/f"])).to_pylist() == ["/wh/t2/f"]


def test_the_longest_prefix_wins() -> None:
    places = LocationMatcher({"/wh": "/all", "/wh/t": "/one"})
    assert places.canonicalize(pa.array(["/wh/t/f", "/wh/u/f"])).to_pylist() == ["/one/f", "/all/u/f"]


def test_a_path_below_the_tables_folder_is_on_its_host() -> None:
    places = LocationMatcher(home="hdfs://host:8020/wh/t")
    assert places.canonicalize(pa.array(["/wh/t/f", "/wh/u/f"])).to_pylist() == ["hdfs://host/wh/t/f", "/wh/u/f"]
    assert LocationMatcher(home="/wh/t").canonicalize(pa.array(["hdfs://host/wh/t/f"])).to_pylist() == [
        "hdfs://host/wh/t/f"
    ]


def test_relocation_applies_to_other_spellings_of_a_prefix() -> None:
    storage = Storage(relocate={"s3://b/t": "/copy"})
    assert storage.current_location("s3a://b/t/f") == "/copy/f"
    assert storage.current_location("s3a://b/u/f") == "s3a://b/u/f"


spelled = st.sampled_from(["/t/f", "/u/f", "s3a://b/t/f", "s3a://b/u/f", "s3://b/u/f", "s3://b//u/f", "hdfs://h/t/f"])
moves = st.dictionaries(
    st.sampled_from(["/t", "s3://b/t", "/u"]), st.sampled_from(["s3://b/u", "/u", "/v"]), max_size=2
)


@given(st.lists(spelled, min_size=1, max_size=3), st.lists(spelled, min_size=1, max_size=3), moves)
def test_different_names_in_one_scheme_family_are_different_locations(
    left: list[str], right: list[str], moved: dict[str, str]
) -> None:
    places = LocationMatcher(moved, home="hdfs://h/t")
    first, second = pa.array(left), pa.array(right)
    if places.family(first) is not None and places.family(first) == places.family(second):
        where = places.canonicalize(pa.concat_arrays([first, second])).to_pylist()
        assert len(set(where)) == len({*left, *right})


CLUSTER = ["hdfs://lake", "hdfs://one:8020", "HDFS://10.0.0.1:9000", "hdfs://", ""]  # names of the same location
ROOTS = {
    "hdfs": CLUSTER,
    "s3": ["s3://b", "s3a://b", "s3n://b"],
    "gs": ["gs://b", "gcs://b"],
    "file": ["", "file:", "file://", "file://localhost"],
    "abfs": [f"{s}://c@a.{h}.core.windows.net" for s, h in (("abfss", "dfs"), ("abfs", "dfs"), ("wasbs", "blob"))]
    + ["abfss://c", "abfss://c@a.z1.dfs.storage.azure.net"],
}


@given(st.data(), st.sampled_from(sorted(ROOTS)), st.lists(names, max_size=3), st.lists(names, max_size=2))
def test_locations_that_may_be_the_same_folder_overlap(
    data: st.DataObject, store: str, parts: list[str], more: list[str]
) -> None:
    """A search for other tables in or above a folder must find them under each name of their store."""
    one, other = (data.draw(st.sampled_from(ROOTS[store])) for _ in range(2))
    folder = "/" + "/".join(parts)
    inner = "/" + "/".join([*parts, *(each for each in more if each != "..")])  # "//" would begin with a host
    assert may_overlap(one + folder, other + inner)
    assert may_overlap(other + inner, one + folder)
    assert path_of(one + folder) == path_of(other + folder)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("s3://b/t", "s3://c/t"),
        ("s3://b/t", "gs://b/t"),
        ("s3://b/t", "/t"),
        ("hdfs://lake/t", "hdfs://lake/t2"),
        ("hdfs://lake/t", "s3://lake/t"),
        ("abfss://c@a.dfs.core.windows.net/t", "abfss://d@a.dfs.core.windows.net/t"),
    ],
)
def test_separate_locations_do_not_overlap(one: str, other: str) -> None:
    assert not may_overlap(one, other)


@pytest.mark.parametrize("form", SPELLINGS)
def test_schemes_and_hosts_have_one_normal_form_and_paths_stay(form: str) -> None:
    tail = form[len(form) - len(path_of(form)) :]
    spellings = [each for each in SPELLINGS[form] if each.endswith(tail) and not each.endswith(f"/{tail}")]
    spellings += [f"file://{each}" for each in [form] if each.startswith("/")]
    assert spellings
    assert set(normalize_roots(pa.array([form, *spellings])).to_pylist()) == {form}
    apart = pa.array(["s3a://b//x", "s3://b/x", "s3://b/./x", "/x//y", "/x/y", "rel/x"])
    assert len(set(normalize_roots(apart).to_pylist())) == len(apart)


@pytest.mark.parametrize(
    ("home", "same", "others"),
    [
        (
            "hdfs://nn/t",
            ["hdfs://nn:8020/t/f", "hdfs://NN/t/f", "hdfs:///t/f", "hdfs:/t/f", "/t/f", "hdfs://nn/t/f"],
            ["hdfs://other/t/f", "hdfs://nn:9000/t/f", "s3://nn/t/f"],
        ),
        ("hdfs://nn:8020/t", ["hdfs://nn/t/f", "/t/f"], ["hdfs://nn:8021/t/f"]),
        ("s3a://b/t", ["s3://b/t/f", "s3n://b/t/f", "/t/f"], ["s3://c/t/f", "/u/f", "/tt/f"]),
        ("gs://b/t", ["gcs://b/t/f"], ["gs://c/t/f", "s3://b/t/f"]),
        (
            "abfss://c@a.dfs.core.windows.net/t",
            ["abfs://c@a.dfs.core.windows.net/t/f", "wasbs://c@a.blob.core.windows.net/t/f"],
            ["abfss://d@a.dfs.core.windows.net/t/f"],
        ),
        ("/t", ["/t/f"], ["s3://b/t/f", "/u/f"]),
    ],
)
def test_files_of_the_tables_store_are_spelled_as_its_location(home: str, same: list[str], others: list[str]) -> None:
    assert set(adopt_root(pa.array(same), home).to_pylist()) == {f"{home}/f"}
    assert adopt_root(pa.array(others), home).to_pylist() == others


def test_a_path_without_a_host_is_on_the_host_of_the_table() -> None:
    places = LocationMatcher(home="hdfs://nn:8020/t")
    assert set(places.canonicalize(pa.array(["hdfs:///t/f", "hdfs:/t/f", "/t/f", "hdfs://nn/t/f"])).to_pylist()) == {
        "hdfs://nn/t/f"
    }


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("/wh/t", "file:///wh/t/", True),
        ("hdfs:///wh/t", "hdfs://nn:8020/wh/t", True),
        ("s3a://b/t", "s3://b/t", True),
        ("/wh/t", "/wh/u", False),
        ("/wh/t", "hdfs://nn/wh/t", False),
        ("s3://b/t", "s3://c/t", False),
    ],
)
def test_a_table_is_at_its_own_location_in_any_spelling(one: str, other: str, is_same: bool) -> None:
    assert is_same_place(one, other) is is_same_place(other, one) is is_same
