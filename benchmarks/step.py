"""What each measure of chapter 93 saves: one step of training, each taken away.

    python benchmarks/step.py

Every variant runs in a process of its own, since memory is kept for good.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import time

import torch
from torch.nn import functional as F

import annotated_transformer as at

VARIANTS = (
    "all", "torch's dropout", "memory given back", "torch's attention kernel",
    "float32", "float32, the larger copied", "float32, torch's products",
)  # fmt: skip
STEPS, ROUNDS, VOCAB, ROWS, LENGTH = 30, 5, 8000, 94, 16


def fused(query, key, value, mask=None, dropout=None):
    """Attention as ``fused_attention`` computes it on graphics cards."""
    p = dropout.p if dropout.training else 0.0
    return F.scaled_dot_product_attention(query, key, value, mask, dropout_p=p), None


def copying_the_larger(ctx, grad):
    """The product's backward with the gradient always first, whatever its size."""
    x, weight = ctx.saved_tensors
    flat, rows = grad.flatten(0, -2), x.flatten(0, -2)
    d_weight = at._OneDNNProduct.apply(flat.t(), rows.t(), None)
    d_bias = flat.sum(0) if ctx.needs_input_grad[2] else None
    return at._OneDNNProduct.apply(grad, weight.t(), None), d_weight, d_bias


def milliseconds(variant: str) -> float:
    """A training step of the small configuration, on 1,504 random tokens a side."""
    torch.manual_seed(0)
    torch.set_num_threads(2)
    config = at.CONFIGS["small"]
    words = at.Vocabulary([*at.SPECIALS, *(f"w{i}" for i in range(4, VOCAB))])
    model = at.build_model(config, words, words)
    if variant == "float32, torch's products":
        at._onednn_is_faster = lambda: False
    if variant == "torch's dropout":
        at.CheapDropout = torch.nn.Dropout
    at.optimize_for_cpu(model)
    if variant != "memory given back":
        at.keep_freed_memory()
    if variant == "torch's attention kernel":
        for module in model.modules():
            if isinstance(module, at.MultiHeadedAttention):
                module.attention = fused
    if variant == "float32, the larger copied":
        at._OneDNNProduct.backward = staticmethod(copying_the_larger)
    optimizer, scheduler = at.build_optimizer(model, config, 10_000)
    loss = at.SimpleLossCompute(model.generator, at.LeanLabelSmoothing(VOCAB, 2, 0.1))
    src, tgt = (torch.randint(4, VOCAB, (ROWS, LENGTH + more)) for more in (0, 1))
    batch = at.Batch(src, tgt)
    device = torch.device("cpu")
    asked = "float32" if variant.startswith("float32") else "auto"
    precision = at.choose_precision(asked, device)
    for steps in (5, STEPS):  # the first few are not counted
        start = time.perf_counter()
        with at.autocast(precision, device):
            many = [batch] * steps
            at.run_epoch(many, model, loss, optimizer, scheduler, max_norm=1.0)
        seconds = time.perf_counter() - start
    return 1000 * seconds / STEPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    if variant := parser.parse_args().variant:
        print(milliseconds(variant))
        return
    taken: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for _ in range(ROUNDS):
        for variant, times in taken.items():
            command = [sys.executable, __file__, "--variant", variant]
            times.append(float(subprocess.check_output(command)))
    for variant, times in taken.items():
        ratios = [mine / ours for mine, ours in zip(times, taken["all"], strict=True)]
        print(
            f"{variant:26} {statistics.median(times):6.0f} ms a step, "
            f"{statistics.median(ratios):.2f} times "
            f"({min(ratios):.2f}–{max(ratios):.2f})"
        )


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
