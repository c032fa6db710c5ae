"""Run the code blocks of the README and of the tour, unchanged, against small sample tables.

`python -m tests.support.readme FOLDER` does so with the installed lakescan, to check the built wheel. FOLDER receives
the tables. No test library is needed.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

from samples.shop import Shop, make_shop

ROOT = Path(__file__).parents[2]


README, TOUR = ROOT / "README.md", ROOT / "docs" / "tour.md"


def blocks(language: str, page: Path = README) -> list[str]:
    """Return the page's code blocks of a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def run_python_and_sql(page: Path, spark: Any, shop: Shop, folder: Path) -> dict[str, Any]:
    """Run the page's Python blocks in one namespace, then its SQL blocks; return the namespace.

    Paths under `/lake` are replaced by those of the sample tables and of `folder`, which is also the working directory.
    """
    places = {
        "/lake/shop/orders": shop.orders,
        "/lake/customers": shop.customers,
        "/lake/local": f"{folder}/local",
        "/lake/checkpoint": f"{folder}/checkpoint",
    }

    def here(text: str) -> str:
        for place, path in places.items():
            text = text.replace(place, path)
        assert "/lake/" not in text, f"{page.name} names a path that has no sample table"
        return text

    names: dict[str, Any] = {"spark": spark}
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(folder):
        exec(compile(here("\n".join(blocks("python", page))), page.name, "exec"), names)
        for statement in blocks("sql", page):
            spark.sql(here(statement).replace("CREATE TEMPORARY", "CREATE OR REPLACE TEMPORARY"))
    return names


def unknown_commands() -> list[str]:
    """Return the README's shell lines that are neither Makefile targets nor installations of known extras."""
    targets = set(re.findall(r"^([a-z0-9.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    extras = set(re.findall(r"^([a-z]+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line and not _known(line, targets, extras)]


def _known(line: str, targets: set[str], extras: set[str]) -> bool:
    make = re.fullmatch(r"make ([a-z0-9.-]+)", line)
    install = re.fullmatch(r"pip install '?lakescan(?:\[([a-z,]+)\])?'?", line)
    if make:
        return make[1] in targets
    return bool(install) and set((install[1] or "all").split(",")) <= extras


def main(folder: Path) -> None:
    """Run all blocks on a session of this process; raise if one fails."""
    import lakescan
    from tests.support.session import local_session

    assert ROOT / "src" not in Path(lakescan.__file__).parents, "this runs the checkout, not the installed package"
    assert not unknown_commands(), unknown_commands()
    spark = local_session("README", {"spark.sql.warehouse.dir": f"{folder}/warehouse"})
    with contextlib.redirect_stdout(io.StringIO()):
        shop = make_shop(folder / "shop", rows=6_000)
        for page in (README, TOUR):
            names = run_python_and_sql(page, spark, shop, folder / page.stem)
            assert names["table"].num_rows == names["frame"].count() > 0
    spark.stop()
    counts = {page.name: len(blocks("python", page)) + len(blocks("sql", page)) for page in (README, TOUR)}
    print(f"blocks that run with lakescan {lakescan.__version__}, as installed: {counts}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
