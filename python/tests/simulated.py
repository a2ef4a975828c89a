"""A simulated GPU: Inductor lowers and generates code for it, and nothing is launched.

Tensors are fake and the device's properties are stated. So the real lowerings, templates and code generation of the installed
torch run on a machine without a GPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch._dynamo import device_interface
from torch._dynamo.source import ConstantSource
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._python_dispatch import _get_current_dispatch_mode

from torch_diode import problems

H200 = {
    "name": "NVIDIA H200",
    "gcnArchName": "NVIDIA H200",
    "major": 9,
    "minor": 0,
    "multi_processor_count": 132,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 232448,
    "warp_size": 32,
    "regs_per_multiprocessor": 65536,
    "max_threads_per_multi_processor": 2048,
    "max_threads_per_block": 1024,
    "total_memory": 141 << 30,
    "L2_cache_size": 60 << 20,
}


@contextlib.contextmanager
def gpu(**properties: Any) -> Iterator[None]:
    """Stands in for an H200, or for another GPU if some properties are given."""
    stated = types.SimpleNamespace(**{**H200, **properties})
    of_any = staticmethod(lambda device=None: stated)
    capability = lambda device=None: (stated.major, stated.minor)
    driver = types.SimpleNamespace(
        get_current_target=lambda: types.SimpleNamespace(backend="cuda", arch=90, warp_size=32),
        get_active_torch_device=lambda: torch.device("cuda", 0),
    )
    interface = device_interface.CudaInterface
    patches: list[contextlib.AbstractContextManager[Any]] = [
        mock.patch.object(torch.cuda, "get_device_properties", of_any.__func__),
        mock.patch.object(torch.cuda, "get_device_capability", capability),
        mock.patch.object(torch.cuda, "current_device", lambda: 0),
        mock.patch.object(torch.cuda, "device_count", lambda: 1),
        mock.patch.object(interface, "get_device_properties", of_any),
        mock.patch.object(interface, "current_device", staticmethod(lambda: 0)),
        mock.patch.object(interface.Worker, "get_device_properties", of_any),
        mock.patch.object(interface, "is_available", staticmethod(lambda: True)),
        mock.patch("triton.runtime.driver.driver._active", driver, create=True),
    ]
    # After this call, torch uses objects of the first calling thread in every thread. So that thread must
    # not end.
    torch._C._ensureCUDADeviceGuardSet()
    _forget_devices()
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield
    _forget_devices()


@contextlib.contextmanager
def served_gpu(**properties: Any) -> Iterator[None]:
    """The same for scaled and grouped multiplications, for which torch looks at more of the device."""
    from torch._subclasses import fake_tensor
    from torch.utils import _triton

    cached = [one for one in vars(_triton).values() if hasattr(one, "cache_clear")]
    stated = {**H200, **properties}
    memory = {"max_shared_mem": stated["shared_memory_per_block_optin"], "multiprocessor_count": stated["multi_processor_count"]}
    with gpu(**properties), contextlib.ExitStack() as stack:
        from triton.runtime.driver import driver

        driver._active.utils = types.SimpleNamespace(get_device_properties=lambda device: memory)
        driver._active.get_current_device = lambda: 0
        stack.enter_context(mock.patch.object(torch.cuda, "is_available", lambda: True))
        if hasattr(fake_tensor, "init_gpu_context"):  # It would make a real tensor, because CUDA seems to be available.
            stack.enter_context(mock.patch.object(fake_tensor, "init_gpu_context", lambda device: None))
        stack.enter_context(mock.patch.object(torch, "empty_strided", _without_memory(torch.empty_strided)))
        for one in cached:
            one.cache_clear()
        yield
    for one in cached:
        one.cache_clear()


def _without_memory(make: Callable[..., Any]) -> Callable[..., Any]:
    """Makes real tensors of the simulated GPU without memory. For a TMA tile, torch 2.10 makes one to benchmark with."""

    def made(*sizes: Any, device: Any = None, **named: Any) -> Any:
        is_real = _get_current_dispatch_mode() is None and device is not None and torch.device(device).type == "cuda"
        return make(*sizes, device="meta" if is_real else device, **named)

    return made


def _forget_devices() -> None:
    """Clears what torch and the plug-in have cached about devices."""
    DeviceProperties.create.cache_clear()
    device_interface.caching_worker_device_properties.clear()
    problems.described_device.cache_clear()
    from torch._inductor.lookup_table import LookupTableChoices
    from torch._inductor.utils import is_big_gpu

    is_big_gpu.cache_clear()
    LookupTableChoices._get_device_key.cache_clear()


@dataclasses.dataclass
class Compiled:
    """The code that Inductor made of a function."""

    code: str

    def kernels(self) -> list[str]:
        """The Triton matmul kernels and library calls, in the order of the code."""
        lines = self.code.splitlines()
        return [line.strip() for line in lines if line.lstrip().startswith(("extern_kernels.", "triton_tem"))]

    def constants(self, name: str) -> list[str]:
        """The values of a constant in each of the Triton kernels: ``BLOCK_M : tl.constexpr = 64``."""
        marks = (f"{name} : tl.constexpr = ", f"'{name}': ")
        return [line.split(marks[0])[1].strip() for line in self.code.splitlines() if marks[0] in line]


def tensor(
    shape: Sequence[int | str], dtype: torch.dtype = torch.bfloat16, stride: Sequence[int] | None = None
) -> tuple[Any, ...]:
    """An input of a function to compile. It is dense unless strides are given. A size that may change is written ``"k=256"``."""
    return tuple(shape), dtype, tuple(stride) if stride is not None else None


def compile(function: Callable[..., Any], *inputs: tuple[Any, ...]) -> Compiled:
    """Lowers a function for the simulated GPU and generates its code."""
    return Compiled(code_of(function, *inputs))


def code_of(function: Callable[..., Any], *inputs: tuple[Any, ...], cpp: bool = False) -> str:
    """All code that Inductor generates for a function, in Python or in C++."""
    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    sizes: dict[str, Any] = {}
    with mode:
        tensors = [_fake(environment, sizes, *one) for one in inputs]
        graph_module = make_fx(function, decomposition_table=select_decomp_table())(*tensors)
        graph_module.graph.eliminate_dead_code()
    graph = GraphLowering(graph_module, example_inputs=tensors, shape_env=environment, is_inference=True, cpp_wrapper=cpp)
    with (
        V.set_graph_handler(graph),
        V.set_fake_mode(mode),
        V.set_debug_handler(mock.MagicMock()),
        V.set_extern_kernel_nodes([]),
    ):
        graph.run(*tensors)
        code, _ = graph.codegen()
    return code.value if hasattr(code, "value") else str(code)


def _fake(
    environment: ShapeEnv, sizes: dict[str, Any], shape: Sequence[int | str], dtype: torch.dtype, stride: Sequence[int] | None
) -> torch.Tensor:
    known = [_symbol(environment, sizes, size) if isinstance(size, str) else size for size in shape]
    if stride is None:
        return torch.empty(known, dtype=dtype, device="cuda:0")
    return torch.empty_strided(known, stride, dtype=dtype, device="cuda:0")


def _symbol(environment: ShapeEnv, sizes: dict[str, Any], text: str) -> Any:
    if text not in sizes:
        name, hint = text.split("=")
        source = ConstantSource(name)
        symbol = environment.create_symbol(int(hint), source=source, dynamic_dim=DimDynamic.DYNAMIC)
        sizes[text] = environment.create_symintnode(symbol, hint=int(hint), source=source)
    return sizes[text]


@contextlib.contextmanager
def offered() -> Iterator[list[list[Any]]]:
    """The choices among which a benchmark would pick each kernel. No benchmark runs: the first choice is taken."""
    from torch._inductor.select_algorithm import get_algorithm_selector_cache

    lists: list[list[Any]] = []

    def cut(choices: list[Any]) -> list[Any]:
        lists.append(list(choices))
        return choices[:1]

    functions = get_algorithm_selector_cache().preprocessing_fns
    functions.append(cut)
    try:
        yield lists
    finally:
        functions.remove(cut)


@contextlib.contextmanager
def benchmarks(milliseconds: Callable[[Any], float]) -> Iterator[None]:
    """Replaces the times that Inductor's autotuning measures by given ones."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    times = lambda choices, *rest: {choice: milliseconds(choice) for choice in choices}
    config = torch._inductor.config
    names = ("benchmark_template_fusion", "benchmark_epilogue_fusion")
    fusion = next(name for name in names if name in config._config)
    with (
        mock.patch.object(AlgorithmSelectorCache, "make_benchmark_fn", lambda *arguments, **named: times),
        mock.patch.object(AlgorithmSelectorCache, "make_precompile_fn", lambda *arguments, **named: dict),
        config.patch({fusion: False}),
    ):
        yield
