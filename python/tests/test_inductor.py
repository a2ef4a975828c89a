"""Only one part of the package uses Inductor."""

from __future__ import annotations

import ast
from pathlib import Path

from workspace import ROOT

PACKAGE = ROOT / "python" / "torch_diode"


def imported(path: Path) -> set[str]:
    """The modules that a file imports, also inside functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def private(name: str) -> bool:
    """Whether a module is of those parts of torch that change from version to version."""
    return name.startswith(("torch._inductor", "torch._dynamo", "torch.utils._"))


def test_nothing_else_imports_inductor() -> None:
    outside = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "inductor"]
    assert len(outside) > 20
    for path in outside:
        assert not {name for name in imported(path) if private(name)}, path
        attributes = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        assert not attributes & {"_inductor", "_dynamo", "_guards"}, path


def test_the_adapter_asks_for_no_version() -> None:
    for path in (PACKAGE / "inductor").glob("*.py"):
        assert "__version__" not in path.read_text(encoding="utf-8"), path


def test_modules_import_each_other_one_way() -> None:
    """No two modules import each other, not even through others and wherever in a file the import stands."""
    edges: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        edges[name] = set()
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
                target = f"{base}.{node.module}" if node.module else base
                edges[name] |= {target, *(f"{target}.{one.name}" for one in node.names)}
    # The package's own name gives access to all modules, so it is left out.
    modules = set(edges) - {"torch_diode", "torch_diode.__main__"}
    edges = {name: edges[name] & modules - {name} for name in modules}

    def reached(name: str, seen: set[str]) -> set[str]:
        for other in edges[name] - seen:
            seen.add(other)
            reached(other, seen)
        return seen

    circles = sorted(name for name in modules if name in reached(name, set()))
    assert not circles
