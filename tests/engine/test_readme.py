"""The engine's README names tests that exist, and leaves no field, method or name of the front door out."""

from __future__ import annotations

import ast
import dataclasses
import re
from functools import cache
from pathlib import Path

import engine
from engine import MLLMScheduler, MLLMSchedulerConfig

_TESTS = Path(__file__).parent
_README = (_TESTS.parents[1] / "engine" / "README.md").read_text("utf-8")


@cache
def names_of_tests(file: str) -> set[str]:
    tree = ast.parse((_TESTS / file).read_text("utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {node.name for node in functions if node.name.startswith("test_")}


def rows(section: str) -> list[list[str]]:
    """Cells of the table under a heading that begins so."""
    (body,) = re.findall(rf"^### {section}[^\n]*\n(.*?)(?=^### |\Z)", _README, re.DOTALL | re.MULTILINE)
    lines = [line for line in body.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_test_that_is_named_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", _README)
    assert len(named) > 150
    assert not [f"{file}::{name}" for file, name in named if name not in names_of_tests(file)]


def test_every_row_names_a_test() -> None:
    sections = ("Configuration", "Requests", "Methods", "Behaviour", "The front door")
    for row in [row for section in sections for row in rows(section)]:
        assert re.search(r"`[\w/]+\.py::test_\w+`", row[-1]), row


def test_every_field_and_every_method_has_a_row() -> None:
    fields = {spec.name for spec in dataclasses.fields(MLLMSchedulerConfig)}
    assert {row[0].strip("`") for row in rows("Configuration")} == fields | {"all"}
    methods = {name for name, found in vars(MLLMScheduler).items() if callable(found) and not name.startswith("_")}
    assert {row[0].strip("`") for row in rows("Methods")} == methods | {"attributes"}


def test_every_name_of_the_front_door_is_told() -> None:
    kinds = {"MediaError", "ModelLoadError", "OutOfMemory", "PromptTooLong", "RequestRejected", "Estimate", "Phase"}
    missing = [name for name in engine.__all__ if not re.search(rf"\b{name}", _README)]
    assert not set(missing) - kinds
