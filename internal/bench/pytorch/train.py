#!/usr/bin/env python3
"""One training step of a benchmark model in PyTorch, timed: the other side of `go run ./internal/bench`.

Prints one JSON object with the keys of examples/bench that both sides have. The models, data and optimizer are the same:
float32, AdamW with decay on every parameter, random batches made before the clock starts.
"""

import argparse
import json
import os
import resource
import statistics
import time


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True, choices=["babygpt", "gpt2", "mlp", "cnn", "vit"])
    p.add_argument("--batch", type=int, required=True)
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--infer", action="store_true")
    p.add_argument("--checkpoint", action="store_true")
    return p.parse_args()


args = arguments()
# Both pools must know before torch is loaded.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(args.threads)

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(1337)

TOKENS = 256


class Block(nn.Module):
    """Pre-norm transformer block; `mask` hides the future, or is None."""

    def __init__(self, width, heads, mask):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.mask = heads, mask

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        scores = (q @ k.transpose(2, 3)) * (c // self.heads) ** -0.5
        if self.mask is not None:
            scores = scores.masked_fill(self.mask, float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


def through(blocks, x):
    for block in blocks:
        x = checkpoint(block, x) if args.checkpoint and not args.infer else block(x)
    return x


class GPT(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, positions):
        super().__init__()
        future = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads, future) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        return F.linear(self.norm(through(self.blocks, x)), self.tokens.weight).flatten(0, 1)


class ViT(nn.Module):
    def __init__(self, width=192, heads=3, layers=6, patch=4, size=32):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(Block(width, heads, None) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(through(self.blocks, x))[:, 0])


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


# model, vocabulary or shape of an image
MODELS = {
    "babygpt": (lambda: GPT(6, 384, 6, 65, 256), 65),
    "gpt2": (lambda: GPT(12, 768, 12, 50257, 1024), 50257),
    "mlp": (mlp, (784,)),
    "cnn": (cnn, (1, 28, 28)),
    "vit": (ViT, (3, 32, 32)),
}


def batch(kind):
    if isinstance(kind, int):
        return torch.randint(kind, (args.batch, TOKENS)), torch.randint(kind, (args.batch * TOKENS,))
    return torch.randn(args.batch, *kind), torch.randint(10, (args.batch,))


def step(model, optimizer, x, y):
    """Gives the loss and when forward, backward and update had ended."""
    if args.infer:
        with torch.no_grad():
            return [F.cross_entropy(model(x), y).item(), *[time.perf_counter()] * 3]
    loss = F.cross_entropy(model(x), y)
    value, forward = loss.item(), time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    backward = time.perf_counter()
    optimizer.step()
    return value, forward, backward, time.perf_counter()


def main():
    build, kind = MODELS[args.model]
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    losses, times = [], []
    for i in range(2 + args.steps):
        x, y = batch(kind)
        begin = time.perf_counter()
        loss, forward, backward, end = step(model, optimizer, x, y)
        losses.append(loss)
        if i >= 2:
            times.append([1e3 * t for t in (end - begin, forward - begin, backward - forward, end - backward)])
    names = ["step_ms", "fwd_ms", "bwd_ms", "opt_ms"]
    print(json.dumps({
        "model": args.model, "batch": args.batch, "threads": args.threads, "steps": 2 + args.steps,
        **{n: statistics.median_high(t) for n, t in zip(names, zip(*times))},
        "loss_first": losses[0], "loss_last": losses[-1], "parameters": sum(p.numel() for p in model.parameters()),
        "rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, "torch": torch.__version__,
    }))


main()
