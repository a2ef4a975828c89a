"""Networks in the forms that serve or train them: fp8 linear layers, and Hugging Face's experts with random weights."""

from __future__ import annotations

import functools
from typing import Any

import torch
from cases import Case, Made
from networks import DEVICE, LAYERS, called
from torch import nn

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
_MOST = {FP8: 448, torch.float8_e5m2: 57344}


def served_networks() -> list[Case]:
    """fp8 by row and by tensor, experts that are grouped and decoded, and a training step in fp8."""
    case = lambda name, make, *sizes, **named: Case("served networks", name, functools.partial(make, *sizes), **named)
    found = [
        case(f"Llama-8B in fp8 by row, {LAYERS} layers, {tokens} tokens", _llama, tokens, True)
        for tokens in (1, 16, 64, 256, 1024)
    ]
    found += [case(f"{name} block, grouped_mm, {tokens} tokens", make, tokens, "grouped_mm")
              for name, make in (("Qwen3-30B-A3B", _qwen), ("Mixtral", _mixtral)) for tokens in (64, 512, 4096)]  # fmt: skip
    found += [case(f"{name} block, decoding {tokens} tokens", make, tokens, "batched_mm")
              for name, make in (("Qwen3-30B-A3B", _qwen), ("Mixtral", _mixtral)) for tokens in (1, 4, 16)]  # fmt: skip
    found += [case("Llama-8B in fp8, training step, 2,048 tokens", _training, 2048, training=True)]
    found += [case(f"Llama-8B in fp8 by tensor, {LAYERS} layers, {tokens} tokens", _llama, tokens, False) for tokens in (16, 256)]
    return found


class Scaled(nn.Module):
    """A linear layer in fp8 that quantises its rows as it runs, as torchao writes it with ``KernelPreference.TORCH``."""

    def __init__(self, linear: nn.Linear, by_row: bool) -> None:
        super().__init__()
        self._dims = [-1] if by_row else [-2, -1]
        weight, scale = self._quantised(linear.weight.detach())
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale.t().contiguous())

    def _quantised(self, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scale = (value.abs().amax(self._dims, keepdim=True) / _MOST[FP8]).float()
        return (value.float() / scale).clamp(-_MOST[FP8], _MOST[FP8]).to(FP8), scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, scale = self._quantised(x.reshape(-1, x.shape[-1]))
        found = torch._scaled_mm(rows, self.weight.t(), scale, self.scale, out_dtype=BF16, use_fast_accum=True)
        return found.reshape(*x.shape[:-1], -1)


def _in_fp8(network: nn.Module, layer: Any) -> None:
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, layer(child))


def _small_llama() -> Any:
    from transformers import LlamaConfig, LlamaModel

    shape = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}
    with torch.device(DEVICE):
        return LlamaModel(LlamaConfig(num_hidden_layers=LAYERS, vocab_size=8, use_cache=False, **shape)).to(BF16)


def _llama(tokens: int, by_row: bool) -> Made:
    network = _small_llama().eval()
    _in_fp8(network, lambda linear: Scaled(linear, by_row))
    return called(network, "inputs_embeds", "last_hidden_state"), (torch.randn(1, tokens, 4096, device=DEVICE, dtype=BF16),)


class _Product(torch.autograd.Function):
    """A product in fp8 with one scale for each tensor; gradients in e5m2 with slow accumulation, as torchao's float8 training."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(x, weight)
        (a, sa), (b, sb) = _of_tensor(x, FP8), _of_tensor(weight, FP8)
        return torch._scaled_mm(a, b.t(), sa, sb, out_dtype=BF16, use_fast_accum=True)

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, weight = context.saved_tensors
        (g, sg), (b, sb), (a, sa) = _of_tensor(gradient, torch.float8_e5m2), _of_tensor(weight, FP8), _of_tensor(x, FP8)
        columns = lambda one: one.t().contiguous().t()
        of_x = torch._scaled_mm(g, columns(b), sg, sb, out_dtype=BF16)
        return of_x, torch._scaled_mm(g.t().contiguous(), columns(a), sg, sa, out_dtype=BF16)


def _of_tensor(value: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    scale = (value.abs().amax() / _MOST[dtype]).float().clamp(min=1e-12)
    return (value.float() / scale).clamp(-_MOST[dtype], _MOST[dtype]).to(dtype), scale


class _Trained(nn.Module):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight = linear.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Product.apply(x.reshape(-1, x.shape[-1]), self.weight).reshape(*x.shape[:-1], -1)


class _Loss(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.network(inputs_embeds=x).last_hidden_state.float().square().mean()
        return found


def _training(tokens: int) -> Made:
    network = _small_llama().train()
    _in_fp8(network, _Trained)
    return _Loss(network), (torch.randn(1, tokens, 4096, device=DEVICE, dtype=BF16),)


class _Block(nn.Module):
    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = self.block(x)
        output: torch.Tensor = found[0] if isinstance(found, tuple) else found
        return output


def _block(kind: Any, config: Any, experts: str, tokens: int) -> Made:
    config._experts_implementation = experts
    with torch.device(DEVICE), torch.no_grad():
        block = kind(config).to(BF16).eval()
        for parameter in block.parameters():
            parameter.normal_(std=parameter.shape[-1] ** -0.5)
    return _Block(block), (torch.randn(1, tokens, config.hidden_size, device=DEVICE, dtype=BF16),)


def _qwen(tokens: int, experts: str) -> Made:
    from transformers import Qwen3MoeConfig
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

    config = Qwen3MoeConfig(
        hidden_size=2048, moe_intermediate_size=768, num_experts=128, num_experts_per_tok=8, norm_topk_prob=True
    )
    return _block(Qwen3MoeSparseMoeBlock, config, experts, tokens)


def _mixtral(tokens: int, experts: str) -> Made:
    from transformers import MixtralConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock

    config = MixtralConfig(hidden_size=4096, intermediate_size=14336, num_local_experts=8, num_experts_per_tok=2)
    return _block(MixtralSparseMoeBlock, config, experts, tokens)
