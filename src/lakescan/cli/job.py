"""Run a job as Python does, with every Spark session that it makes enabled: `lakescan run`.

This module imports only the standard library, so that a job starts as fast as with `python`. The engine is imported
when the job first uses a table of ours; see `lakescan.cli.first_use`.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from typing import Any

from lakescan.cli import first_use

USAGE = "usage: lakescan run JOB.py [arguments] | -m MODULE [arguments] | NOTEBOOK.ipynb [arguments]"
_OWN_FILES = (os.path.dirname(os.path.abspath(__file__)), "<frozen runpy>", "<frozen importlib._bootstrap>")
_MAIN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")


@dataclass(frozen=True)
class Job:
    """A job on the command line.

    - `target`: a script, a notebook, or with `is_module` a module's name.
    - `arguments`: the job's own arguments.
    - `catalogs`: the values of `--catalog` before the command.
    """

    target: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False
    catalogs: tuple[str, ...] = ()


def parse_job(arguments: Sequence[str]) -> Job | None:
    """Return the job of a command line `[--catalog name=folder]... run ...`.

    None for other commands, and for a `run` without a job or with an option of lakescan's own, such as `--help`.

    Args:
        arguments: The command line after the program's name.
    """
    rest, catalogs = list(arguments), []
    while rest and rest[0].startswith("--catalog"):
        name, equals, value = rest.pop(0).partition("=")
        if name != "--catalog" or not (equals or rest):
            return None
        catalogs.append(value if equals else rest.pop(0))
    if len(rest) < 2 or rest[0] != "run":
        return None
    return parse_run(rest[1:], tuple(catalogs))


def parse_run(arguments: Sequence[str], catalogs: tuple[str, ...] = ()) -> Job | None:
    """Return the job of the arguments of `run`; None without a job, or with an option of lakescan's own."""
    first, rest = arguments[0], tuple(arguments[1:])
    if first == "--" and rest:
        first, rest = rest[0], rest[1:]
    elif first == "-m" and rest:
        return Job(rest[0], rest[1:], True, catalogs)
    elif first.startswith("-m") and len(first) > 2:
        return Job(first[2:], rest, True, catalogs)
    elif first.startswith("-"):
        return None
    return Job(first, rest, False, catalogs)


def run_job(job: Job) -> None:
    """Run a job. Returns when it ends, and raises its exceptions, whose tracebacks have no frames of lakescan.

    Raises `SystemExit` with the code 2 if the script does not exist, or the notebook cannot be run.
    """
    if not job.is_module and not os.path.exists(job.target):
        _refuse(f"there is no script {job.target!r}")
    if job.catalogs:
        _register(job.catalogs)
    if job.is_module:
        run, first = _module(job)
    elif job.target.endswith(".ipynb"):
        run, first = _notebook(job)
    elif _is_package(job.target):
        run, first = _package(job)
    else:
        run, first = _script(job)
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = first
    first_use.prepare()
    try:
        run()
    except BaseException:
        _hide_own_frames(has_cells=job.target.endswith(".ipynb") and not job.is_module)
        raise


def _script(job: Job) -> tuple[Callable[[], None], str]:
    path = os.path.abspath(job.target)
    with open(path, "rb") as file:
        source = file.read()
    sys.argv = [job.target, *job.arguments]
    main = _new_main(path)

    def run() -> None:
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)

    return run, os.path.dirname(os.path.realpath(path))


def _is_package(path: str) -> bool:
    """Return whether a path is a folder or a zip file, whose `__main__` runs."""
    if os.path.isdir(path) or path.endswith(".py"):
        return os.path.isdir(path)
    import zipfile

    return zipfile.is_zipfile(path)


def _package(job: Job) -> tuple[Callable[[], None], str]:
    """Return what runs the `__main__` of a folder or zip file."""
    sys.argv = [job.target, *job.arguments]
    return lambda: _run_as_main("__main__", alter_argv=False), os.path.abspath(job.target)


def _module(job: Job) -> tuple[Callable[[], None], str]:
    sys.argv = ["-m", *job.arguments]
    return lambda: _run_as_main(job.target, alter_argv=True), os.getcwd()


def _run_as_main(name: str, *, alter_argv: bool) -> None:
    import runpy

    _new_main(None)
    run: Any = runpy._run_module_as_main  # type: ignore[attr-defined]  # as `python -m` itself does
    run(name, alter_argv)


def _notebook(job: Job) -> tuple[Callable[[], None], str]:
    from lakescan.cli.notebook import NotebookRefused, read_notebook

    path = os.path.abspath(job.target)
    try:
        cells = read_notebook(path)
    except NotebookRefused as error:
        _refuse(str(error))
    sys.argv = [job.target, *job.arguments]
    main = _new_main(None)
    main.__dict__["display"] = _display

    def run() -> None:
        for cell in cells:
            exec(compile(cell.code, cell.file, "exec", dont_inherit=True), main.__dict__)

    return run, os.path.dirname(os.path.realpath(path))


def _display(*values: Any) -> None:
    """Print values, and the first rows of data frames of Spark: the function `display` of notebooks."""
    for value in values:
        if hasattr(value, "printSchema"):
            value.show()
        else:
            print(value)


def _new_main(path: str | None) -> types.ModuleType:
    """Make an empty module `__main__`, as Python has it before it runs a script."""
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={}, __doc__=None, __package__=None, __spec__=None)
    if path is not None:
        main.__dict__.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
    sys.modules["__main__"] = main
    return main


def _hide_own_frames(*, has_cells: bool) -> None:
    """Leave lakescan's frames before the job's own out of the traceback that Python prints at the end.

    `has_cells`: the job is a notebook, whose lines `linecache` has.
    """
    hook = sys.excepthook

    def print_job_error(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        while trace is not None and _is_own(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        error.__traceback__ = trace  # Python prints the one of the exception
        if hook is sys.__excepthook__ and has_cells:
            import traceback

            traceback.print_exception(kind, error, trace)  # Python's own would look for a file of the cell's name
        else:
            hook(kind, error, trace)

    sys.excepthook = print_job_error


def _is_own(file: str) -> bool:
    return file.startswith(_OWN_FILES) or file in (_MAIN, _ENTRY)


# The script that an installer makes for the command `lakescan`, or what runs `python -m lakescan`.
_ENTRY = getattr(sys.modules.get("__main__"), "__file__", None) or ""


def _refuse(message: str) -> Any:
    print(f"lakescan run: {message}", file=sys.stderr)
    raise SystemExit(2)


def _register(catalogs: Sequence[str]) -> None:
    """Register the catalogs of `--catalog`."""
    import lakescan

    for each in catalogs:
        name, equals, folder = each.partition("=")
        if not equals:
            _refuse("catalogs are written name=folder, e.g. --catalog local=./lake")
        lakescan.catalog(name, warehouse=folder)
