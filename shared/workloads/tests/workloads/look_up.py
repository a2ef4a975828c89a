"""Asks the code of vLLM and SGLang itself which config it takes.

python3 look_up.py FOLDER < QUESTIONS > ANSWERS

FOLDER holds the members of their wheels. Each line of the questions is an object: project, kind (experts or dense),
device, triton, folder (of the variable, or of the package for dense files), dtype, block, per_channel, down, and
experts, n, hidden or n, k, and batches. The answer has the name that the code looks for and, for each batch, the config
that it takes, or null. torch, triton and the rest of both packages are not installed; modules of stubs stand in.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import sys
import types
from pathlib import Path

ROOT = Path(sys.argv[1])

VLLM_EXPERTS = "vllm.model_executor.layers.fused_moe.fused_moe"
VLLM_DENSE = "vllm.model_executor.layers.quantization.utils.fp8_utils"
SGLANG_EXPERTS = "sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe_triton_config"
SGLANG_DENSE = "sglang.kernels.ops.gemm.fp8_kernel"
# These modules are the projects' own. All others are stubs.
REAL = {VLLM_EXPERTS, VLLM_DENSE, SGLANG_EXPERTS, SGLANG_DENSE, "vllm.utils.platform_utils"}
STUBBED = ("vllm", "sglang", "torch", "triton")


class Anything(type):
    """A class that has every attribute, can be called, inherited from, indexed and decorate a function."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})

    def __call__(cls, *args, **_):
        decorates = len(args) == 1 and isinstance(args[0], types.FunctionType)
        return args[0] if decorates else Anything("stub", (), {})

    def __getitem__(cls, _):
        return cls

    def __or__(cls, _):
        return cls

    def __ror__(cls, _):
        return cls

    def __iter__(cls):
        return iter(())

    def __bool__(cls):
        return False

    def __lt__(cls, _):
        return False

    __gt__ = __le__ = __ge__ = __lt__


class Stub(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in REAL:
            file = ROOT / (name.replace(".", "/") + ".py")
            return importlib.util.spec_from_file_location(name, file)
        if name.partition(".")[0] in STUBBED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        module.__path__ = []


def module(name):
    return importlib.import_module(name)


def ask(question):
    project, device = question["project"], question["device"]
    block, dtype = question["block"], question["dtype"] or None
    if project == "vllm":
        platform = Anything("platform", (), {"get_device_name": staticmethod(lambda *_: device)})
        module("vllm.platforms").current_platform = platform
        module("vllm.utils.platform_utils").get_device_name_as_file_name.cache_clear()
    else:
        code = module(SGLANG_EXPERTS)
        code.get_device_name = module(SGLANG_DENSE).get_device_name = lambda *_: device
        code.triton.__version__ = question["triton"]
        always = types.SimpleNamespace(enable_deterministic_inference=False)
        code.get_exec = lambda: types.SimpleNamespace(deterministic=always)
    return dense(question, block) if question["kind"] == "dense" else experts(question, dtype, block)


def experts(question, dtype, block):
    count, n, hidden = question["experts"], question["n"], question["hidden"]
    shapes = (count, 2 * n, hidden), (count, hidden, n)
    if question["project"] == "vllm":
        code = module(VLLM_EXPERTS)
        code.envs.VLLM_BATCH_INVARIANT = False
        code.envs.VLLM_TUNED_CONFIG_FOLDER = question["folder"]
        module("vllm.model_executor.layers.fused_moe").get_config = lambda: None
        code.get_moe_configs.cache_clear()
        code.get_default_config = lambda *_: None
        name = code.get_config_file_name(count, n, dtype, block)
        taken = [code.try_get_optimal_moe_config(*shapes, 8, dtype, m, block) for m in question["batches"]]
        return {"name": name, "taken": taken}
    code = module(SGLANG_EXPERTS)
    os.environ["SGLANG_MOE_CONFIG_DIR"] = question["folder"]
    module("sglang.srt.layers.moe.moe_runner.triton_utils").get_config = lambda: None
    code.get_moe_configs.cache_clear()
    code.get_default_config = lambda *_: None
    by_channel = question["per_channel"]
    name = code.get_config_file_name(count, n, dtype, block, by_channel, question["down"])
    taken = []
    for m in question["batches"]:
        up, (down, _) = code.try_get_optimal_moe_config(
            *shapes, 8, dtype, m, False, block, per_channel_quant=by_channel, return_down_config=True
        )
        taken.append(down if question["down"] else up)
    return {"name": name, "taken": taken}


def dense(question, block):
    """Dense files are only read from the package, so the file is copied there."""
    sglang = question["project"] == "sglang"
    code = module(SGLANG_DENSE if sglang else VLLM_DENSE)
    folder = Path(code.__file__).parent / "configs"
    folder.mkdir(exist_ok=True)
    if sglang:
        code.torch._dynamo.is_compiling = lambda: False
        code._is_cuda = True
    code.logger.info = code.logger.warning = lambda *_: None
    copied = [Path(shutil.copy(file, folder)) for file in Path(question["folder"]).iterdir()]
    try:
        code.get_w8a8_block_fp8_configs.cache_clear()
        configs = code.get_w8a8_block_fp8_configs(question["n"], question["k"], *block)
    finally:
        for file in copied:
            file.unlink()
    taken = [configs and configs[min(configs, key=lambda known: abs(known - m))] for m in question["batches"]]
    return {"name": copied[0].name if configs else None, "taken": taken}


def main():
    sys.meta_path.insert(0, Finder())
    sys.modules["regex"] = re  # vLLM's patterns are plain enough.
    for line in sys.stdin:
        print(json.dumps(ask(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
