"""Copies the released models of `trained_models/` into the package while it is built."""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parents[2]
TRAINED = ROOT / "trained_models"


def version() -> str:
    """The version of the whole project, which the workspace's Cargo.toml states once."""
    stated = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.MULTILINE)
    if stated is None:
        raise SystemExit(f"error: {ROOT / 'Cargo.toml'} states no version; build from a checkout of the repository")
    return stated.group(1)


class WithModels(build_py):
    def run(self) -> None:
        super().run()
        models = sorted(TRAINED.rglob("*.safetensors"))
        if not models:
            raise SystemExit(f"error: {TRAINED} holds no models; build from a checkout of the repository")
        for model in models:
            for file in (model, model.with_name("card.md")):
                target = Path(self.build_lib) / "torch_diode_models" / file.relative_to(TRAINED)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)


setup(version=version(), cmdclass={"build_py": WithModels})
