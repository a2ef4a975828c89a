"""Networks of Hugging Face's transformers with random weights, and a recommender's tower."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch
from cases import Case, Made, recommender

LAYERS = 2
"""How many layers of each network are used. All its layers are equal, and each takes equally long to compile."""


def networks() -> list[Case]:
    """The networks. All run inference in bf16, except for one training step. Some are also run in float32 with TF32."""
    found = [Case("networks", f"recommender's tower, {rows} rows", functools.partial(recommender, rows)) for rows in (64, 4096)]
    found += [
        Case("networks", f"Llama-8B, {LAYERS} layers, {tokens} tokens", functools.partial(_llama, tokens))
        for tokens in (16, 1, 512, 4096)
    ]
    rest = [
        Case("networks", f"BERT-base, {LAYERS} layers, 8 × 128", _bert),
        Case("networks", f"ViT-base, {LAYERS} layers, 8 images", _vit),
        Case("networks", f"GPT-2, {LAYERS} layers, 4 × 512, training step", _gpt2, training=True),
    ]
    return [*found, *rest, *map(_in_tf32, [*found[:2], *rest])]


def _in_tf32(case: Case) -> Case:
    def make() -> Made:
        network, inputs = case.make()
        assert isinstance(network, torch.nn.Module)
        return network.float(), tuple(value.float() if value.is_floating_point() else value for value in inputs)

    return dataclasses.replace(case, name=f"{case.name}, tf32", make=make, tf32=True)


class _Called(torch.nn.Module):
    def __init__(self, network: torch.nn.Module, given: str, wanted: str) -> None:
        super().__init__()
        self.network, self.given, self.wanted = network, given, wanted

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = getattr(self.network(**{self.given: value}), self.wanted)
        return found


def called(network: Any, given: str, wanted: str) -> torch.nn.Module:
    """A network that is called with one named input and returns one of its outputs."""
    return _Called(network, given, wanted)


def _on_gpu(network: Any, given: str, wanted: str, value: torch.Tensor) -> Made:
    return called(network.to(DEVICE, torch.bfloat16).eval(), given, wanted), (value,)


DEVICE = "cuda"


def _embedded(*size: int) -> torch.Tensor:
    return torch.randn(*size, device=DEVICE, dtype=torch.bfloat16)


def _llama(tokens: int, **sizes: int) -> Made:
    from transformers import LlamaConfig, LlamaModel

    shape = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, **sizes}
    config = LlamaConfig(num_hidden_layers=LAYERS, vocab_size=8, use_cache=False, **shape)
    return _on_gpu(LlamaModel(config), "inputs_embeds", "last_hidden_state", _embedded(1, tokens, config.hidden_size))


def _bert() -> Made:
    from transformers import BertConfig, BertModel

    network = BertModel(BertConfig(num_hidden_layers=LAYERS), add_pooling_layer=False)
    return _on_gpu(network, "inputs_embeds", "last_hidden_state", _embedded(8, 128, 768))


def _vit() -> Made:
    from transformers import ViTConfig, ViTModel

    network = ViTModel(ViTConfig(num_hidden_layers=LAYERS), add_pooling_layer=False)
    return _on_gpu(network, "pixel_values", "last_hidden_state", _embedded(8, 3, 224, 224))


class _Loss(torch.nn.Module):
    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.network(input_ids=tokens, labels=tokens).loss
        return found


def _gpt2() -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=LAYERS, use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    network = _Loss(GPT2LMHeadModel(config).to(DEVICE, torch.bfloat16).train())
    return network, (torch.randint(0, config.vocab_size, (4, 512), device=DEVICE),)
