"""Convolutions of 1×1 in bf16 with channels last, and what follows them in a network.

cudnn   as torch lowers them
mm      as multiplications (`conv_1x1_as_mm`), by cuBLAS
ours    the same, and the plug-in picks
"""

# name: batch, what follows, (channels in, channels out, height and width)
NETWORKS = {
    "ResNet-50 down": (32, "relu", ((256, 64, 56), (512, 128, 28), (1024, 256, 14), (2048, 512, 7), (256, 128, 56), (512, 256, 28))),
    "ResNet-50 up": (32, "residual, relu", ((64, 256, 56), (128, 512, 28), (256, 1024, 14), (512, 2048, 7))),
    "ConvNeXt-B up": (32, "gelu", ((128, 512, 56), (256, 1024, 28), (512, 2048, 14), (1024, 4096, 7))),
    "ConvNeXt-B down": (32, "residual", ((512, 128, 56), (1024, 256, 28), (2048, 512, 14), (4096, 1024, 7))),
    "SDXL": (2, "residual", ((320, 640, 64), (640, 1280, 32), (2560, 1280, 32), (1920, 1280, 32), (1920, 640, 64), (960, 640, 64), (960, 320, 128), (640, 320, 128))),
}  # fmt: skip


def cases():
    return [
        {"case": f"{network} {into}-{out} {side}x{side}", "batch": batch, "then": then, "into": into, "out": out, "side": side}
        for network, (batch, then, layers) in NETWORKS.items()
        for into, out, side in layers
    ]


def touched(case):
    others = 2 if "residual" in case["then"] else 1
    return 2 * case["batch"] * case["side"] ** 2 * (case["into"] + others * case["out"])


def inputs(case, sets):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    random = lambda *shape: torch.randn(shape, dtype=torch.bfloat16, device=device)
    image = lambda channels: random(case["batch"], channels, case["side"], case["side"]).contiguous(
        memory_format=torch.channels_last
    )
    weight = (random(case["out"], case["into"], 1, 1) * case["into"] ** -0.5).contiguous(memory_format=torch.channels_last)
    others = case["out"] if "residual" in case["then"] else 8
    return weight, random(case["out"]), [(image(case["into"]), image(others)) for _ in range(sets)]


def layer(then, x, weight, bias, other):
    import torch
    from torch.nn import functional

    y = torch.nn.functional.conv2d(x, weight, bias)
    y = y + other if "residual" in then else y
    return functional.relu(y) if "relu" in then else functional.gelu(y) if then == "gelu" else y


def variants(case):
    import torch
    import torch_diode

    def build(way):
        def compiled(given):
            weight, bias, sets = given
            torch_diode.uninstall()
            if way == "ours":
                torch_diode.install()
            then = case["then"]
            done = torch.compile(
                lambda x, weight, bias, other: layer(then, x, weight, bias, other),
                dynamic=False,
                options={} if way == "cudnn" else {"conv_1x1_as_mm": True},
            )
            call = lambda turn: done(sets[turn][0], weight, bias, sets[turn][1])
            call(0)
            torch_diode.uninstall()
            return call

        return compiled

    return [(way, build(way)) for way in ("cudnn", "mm", "ours")]
