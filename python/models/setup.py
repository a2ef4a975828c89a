"""Brings the released models of `trained_models/` into the package while it is built."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

TRAINED = Path(__file__).resolve().parents[2] / "trained_models"


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


setup(cmdclass={"build_py": WithModels})
