"""Turns a config into the choice that Inductor renders."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ._core import Config
from .heuristics import Candidate
from .inductor import SCALED_TMA, TMA, hiding, kernels
from .inductor.kernels import DECOMPOSE_K

_TILED = ("triton::mm", "triton::bmm")

# The parameters that a config sets. All other parameters are equal for all configs of a template.
_OWN = {
    "BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M", "EVEN_K", "USE_FAST_ACCUM", "ACC_TYPE", "num_stages", "num_warps",
    "matrix_instr_nonkdim", "waves_per_eu", "kpack",
}  # fmt: skip

_shared_params_lock = threading.Lock()
_shared_params: dict[tuple[str, str, str, str], Mapping[str, Any]] = {}


class Offer:
    """What may be compiled for one kernel: the templates that Inductor offers, and how to get choices from them."""

    def __init__(
        self,
        get_ktc: Callable[..., Iterator[Any]],
        inputs: Any,
        templates: Sequence[Any],
        op: str,
        overrides: Mapping[str, Mapping[str, Any]] | None,
        libraries: Sequence[Any] = (),
        *,
        swapped: bool = False,
    ) -> None:
        self._get_ktc = get_ktc
        self._inputs = inputs
        self._templates = {template.uid: template for template in templates}
        self._op = op
        self._overrides = overrides or {}
        self._libraries = libraries
        """The library's choices, if they were offered before the tiles."""
        self._swapped = swapped
        """Whether the transposes are multiplied."""

    def choice(self, candidate: Candidate, *, hides_steps: bool = False, hides_strides: bool = False) -> Any:
        """The choice for a candidate. ``None`` if its template is not offered for this kernel.

        ``hides_steps`` keeps the loop over K from being unrolled, so that the kernel compiles sooner. ``hides_strides`` makes
        the kernel of unaligned rows like those of packs, where that is faster.
        """
        template = candidate.config.template
        if candidate.config.swap_ab != self._swapped:
            return None
        if template == "aten":
            return self.library()
        if template == DECOMPOSE_K:
            return self._first_choice(DECOMPOSE_K, lambda params: params.get("k_split") == candidate.config.k_split)
        if self._op in ("scaled_mm", "int_mm"):
            return self._served_choice(template, candidate)
        if template in _TILED:
            template = "triton::bmm" if self._op in ("bmm", "baddbmm") else "triton::mm"
        source = self._template(template)
        if source is None or not _was_made_for(candidate, source):
            return None
        base = self._base(template, source)
        if base is None:
            return None
        params = _params(candidate.config) if candidate.params is None else {"USE_FAST_ACCUM": False, **candidate.params}
        params["EVEN_K"] = self._divides_k(params["BLOCK_K"])
        # Never both: strides are hidden in half precision, and steps in TF32.
        if hides_strides and template == "triton::mm":
            source = hiding.unaligned_strides(source, self._inputs, params["num_stages"])
        if hides_steps and template == "triton::mm":
            source = hiding.steps(source, self._inputs)
        return kernels.build(source, self._inputs, self._op, {**base, **params, **self._overrides.get(template, {})})

    def _served_choice(self, template: str, candidate: Candidate) -> Any:
        """The choice of a scaled multiplication. Inductor's first one holds what its tile needs besides: recipes, accumulation."""
        uid = SCALED_TMA if template == TMA else "triton::mm"
        usual = next(self._choices(uid), None) if uid in self._templates else None
        if usual is None or not _was_made_for(candidate, self._templates[uid]):
            return None
        own = _params(candidate.config) if candidate.params is None else dict(candidate.params)
        own.pop("USE_FAST_ACCUM", None)
        params = {**usual.params.to_kwargs(), **own}
        if self._swapped:  # A config's blocks are those of the product, not of its transpose.
            params["BLOCK_M"], params["BLOCK_N"] = params["BLOCK_N"], params["BLOCK_M"]
        params["EVEN_K"] = kernels.divides(self._inputs.mnk_symbolic()[2], params["BLOCK_K"])
        return kernels.changed(usual, params, in_columns=self._swapped)

    def library(self) -> Any:
        """The library's choice. It is the kernel that also adds a vector bias, if that is offered and can be called."""
        for uid, template in self._templates.items():
            if kernels.is_library(template) and not (uid == kernels.LIBRARY_WITHOUT_CPP and kernels.writes_cpp()):
                choice = next(self._choices(uid), None)
                if choice is not None:
                    return choice
        return self._libraries[0] if self._libraries else None

    def _choices(self, uid: str) -> Iterator[Any]:
        return iter(self._get_ktc(self._inputs, self._templates[uid], self._op, self._overrides.get(uid, {})))

    def _first_choice(self, uid: str, wanted: Callable[[Mapping[str, Any]], bool]) -> Any:
        if uid not in self._templates:
            return None
        return next((choice for choice in self._choices(uid) if wanted(choice.params.to_kwargs())), None)

    def _template(self, uid: str) -> Any:
        """A template that Inductor offers, or that it leaves out because tiles seldom win for these sizes."""
        if uid in self._templates:
            return self._templates[uid]
        return kernels.left_out_tile(self._inputs) if uid == "triton::mm" and DECOMPOSE_K in self._templates else None

    def _base(self, uid: str, template: Any) -> Mapping[str, Any] | None:
        """The parameters that all configs of a template share, for one type of the output."""
        key = (uid, self._inputs.device_type, self._op, str(self._inputs.out_dtype()))
        with _shared_params_lock:
            known = _shared_params.get(key)
        # The parameters of the TMA template also depend on the layouts of the operands.
        if known is not None and uid != TMA:
            return known
        first = next(iter(self._get_ktc(self._inputs, template, self._op, {})), None)
        if first is None:
            return None
        base = {name: value for name, value in first.params.to_kwargs().items() if name not in _OWN or name == "ACC_TYPE"}
        with _shared_params_lock:
            _shared_params[key] = base
        return base

    def _divides_k(self, block_k: int) -> bool:
        """Whether K is known to be a multiple, not only is one now: without masks, a kernel reads past the end of rows."""
        *_, k = self._inputs.nodes()[-1].get_size()[:-1]
        return kernels.divides(k, block_k)


def _was_made_for(candidate: Candidate, template: Any) -> bool:
    """Whether a table's entry was made for this torch's version of the template. True if the entry does not say."""
    digest = getattr(template, "src_hash", None)
    return candidate.template_hash is None or digest is None or candidate.template_hash == digest


def grouped_params(config: Config) -> dict[str, Any]:
    """What the tile of a grouped multiplication is made with. The TMA form loads its operands by TMA."""
    return {
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "BLOCK_K": config.block_k,
        "num_stages": config.num_stages,
        "num_warps": config.num_warps,
        **({} if config.template == TMA else {"USE_TMA_LOAD": False}),
    }


def grouped_entry(config: Config) -> dict[str, Any]:
    """The tile of a grouped multiplication as an entry of a table. Inductor itself never looks for one."""
    params = {name: value for name, value in grouped_params(config).items() if name != "USE_TMA_LOAD"}
    return {"template_id": config.template, **params}


def _params(config: Config) -> dict[str, Any]:
    params = {
        "BLOCK_M": config.block_m,
        "BLOCK_N": config.block_n,
        "BLOCK_K": config.block_k,
        "GROUP_M": config.group_m,
        "num_stages": config.num_stages,
        "num_warps": config.num_warps,
        "USE_FAST_ACCUM": False,
    }
    if config.rocm is not None:
        params["matrix_instr_nonkdim"], params["waves_per_eu"], params["kpack"] = config.rocm
    return params
