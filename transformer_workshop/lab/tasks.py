"""What can be learned in an experiment, and how is it judged?"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from annotated_transformer import (
    END,
    PAD,
    Example,
    SimpleLossCompute,
    Text,
    Vocabulary,
    WordTokenizer,
    batches,
    encode_pairs,
    epoch_rng,
    in_mode,
    linear_rate,
    mean_loss,
    subsequent_mask,
    token_stream,
    train_epoch,
    train_gpt,
)
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import data_file
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.models.muon import BuildOptimizers, build_optimizers
from transformer_workshop.models.speed import LeanLabelSmoothing, optimize_for_cpu
from transformer_workshop.text.corpora import load_pairs
from transformer_workshop.text.encoding import prepare_text

Schedule = Callable[[int, float, int], float]  # update, peak, updates -> rate


class Task(Protocol):
    """What is learned, and how. Write one of your own to measure something else.

    Everything that varies between seeds, such as the order of the data, must come from
    ``seed``: then all variants get the same batches from one seed, and differences by
    seed are small. A model is on its device already; put data where its parameters
    are. A task may also have ``check(model)``, which raises ValueError for a model that
    can't be compared with others, such as one that sees what it should predict
    (``check_causality``), and ``first_rates``, the two that a search begins with.
    """

    unit: str  # of what is compared; less is better

    def sizes(self) -> tuple[int, ...]:
        """Return the arguments of the functions that build a model."""

    def train(self, model: Any, *args: Any, **options: Any) -> Iterator[float]:
        """Train: model, rate, updates and seed are given. Yield each update's loss."""

    def judge(self, model: Any) -> dict[str, float]:
        """Measure a model on data that it wasn't trained on: {unit: …, others: …}.

        The model comes as ``train`` left it; put it into evaluation mode if it matters.
        """


def check_causality(outputs: Callable[[Tensor], Tensor], vocab: int) -> None:
    """Raise ValueError if a later token changes an earlier output.

    outputs: takes ids (1, length), returns (1, length, width). Weights of fresh models
    may hide a leak, as zeros do: check after a few updates.
    """
    length = min(16, vocab // 2)
    one, two = torch.randperm(vocab)[: 2 * length].view(2, 1, length)
    before = outputs(one)
    for start in range(1, length):
        changed = torch.cat([one[:, :start], two[:, start:]], dim=1)
        apart = (outputs(changed) - before)[:, :start].abs().amax(dim=-1)[0]
        if (apart > 1e-6 * before.abs().max()).any():
            position = int(apart.argmax()) + 1
            raise ValueError(
                f"it looks ahead: its output at position {position} changes with the"
                f" tokens from position {start + 1} on, which it is to predict, so its"
                " loss means nothing. Mask the later tokens in each self-attention that"
                " reads them"
            )


def device_of(model: Any) -> torch.device:
    """Return where a model's parameters are."""
    return next(model.parameters()).device


@dataclass(frozen=True)
class Translation:
    """Translate German. Models are built from the numbers of German and English tokens.

    The fields are settings of a training, as in TrainingConfig; how large a model is,
    its builder says.
    """

    dataset: str
    share: float = 1.0  # of the training pairs; each smaller one is part of a larger
    bpe_size: int = 0  # 0: words
    min_freq: int = 2
    max_tokens: int = 128
    batch_tokens: int = 1000
    warmup: float = 0.1  # share of the updates
    smoothing: float = 0.1
    max_norm: float = 1.0
    unit = "nats per sentence"

    def sizes(self) -> tuple[int, int]:
        """Return the numbers of source and target tokens."""
        text, _, _ = encoded(self)
        return len(text.vocab_src), len(text.vocab_tgt)

    def train(
        self,
        model: Any,
        rate: float,
        updates: int,
        seed: int,
        schedule: Schedule | None = None,
        optimizer: str | BuildOptimizers = "adam",
    ) -> Iterator[float]:
        """Train with the paper's loss and optimizer; yield each update's loss.

        schedule: a function of the update (from 1), the peak and the number of updates
        that returns the rate; without it, the rate rises to the peak in a tenth of the
        updates, and falls to zero in a straight line. optimizer: "adam", "muon", or a
        function of the model and of the rates by update, which returns an optimizer and
        a scheduler that is stepped with it.
        """
        if not (hasattr(model, "encode") and hasattr(model, "generator")):
            raise TypeError(
                "the task trains translators, which encode a source, as make_model's"
                f" do; {type(model).__name__} doesn't. For a GPT, use the task"
                " 'sentences'"
            )
        text, examples, _ = encoded(self)
        device = device_of(model)
        if device.type == "cpu":
            optimize_for_cpu(model)
        criterion = LeanLabelSmoothing(len(text.vocab_tgt), PAD, self.smoothing)
        loss = SimpleLossCompute(model.generator, criterion)

        def rate_of(step: int) -> float:
            if schedule is not None:
                return schedule(step, rate, updates)
            warmup = max(round(self.warmup * updates), 1)
            return linear_rate(step, rate, warmup, updates)

        steps = build_optimizers(model, rate_of, optimizer)
        passes = (
            batches(examples, self.batch_tokens, epoch_rng(seed, epoch), device)
            for epoch in itertools.count()
        )
        stream = itertools.chain.from_iterable(passes)
        for batch in itertools.islice(stream, updates):
            yield train_epoch([batch], model, loss, *steps, self.max_norm)

    def judge(self, model: Any) -> dict[str, float]:
        """Return the loss of the validation sentences, without smoothing."""
        text, _, judged = encoded(self)
        loss = SimpleLossCompute(
            model.generator, LeanLabelSmoothing(len(text.vocab_tgt), PAD)
        )
        stream = batches(judged, self.batch_tokens, device=device_of(model))
        nll = mean_loss(stream, model, loss)
        words = sum(len(tgt) - 1 for _, tgt in judged)
        return {self.unit: nll * words / len(judged)}

    def check(self, model: Any) -> None:
        """Raise ValueError if a decoder sees the words that it is to predict."""
        source = torch.arange(4, 8, device=device_of(model)).unsqueeze(0)
        seen = torch.ones(1, 1, 4, dtype=torch.bool, device=source.device)

        def outputs(ids: Tensor) -> Tensor:
            mask = subsequent_mask(ids.size(1)).to(source.device)
            return model(source, 4 + ids.to(source.device), seen, mask)

        with in_mode(model, training=False):
            check_causality(outputs, self.sizes()[1] - 4)  # without special tokens


@functools.cache
def encoded(task: Translation) -> tuple[Text, list[Example], list[Example]]:
    """Return text, training and validation examples."""
    config = TrainingConfig(task.dataset)
    pairs, valid = load_pairs(config, "train"), load_pairs(config, "valid")
    pairs = [pair for i, pair in enumerate(pairs) if i % 10 < 10 * task.share]
    text = prepare_text(pairs, task.bpe_size, task.min_freq)
    train, _ = encode_pairs(pairs, text, task.max_tokens)
    judged, _ = encode_pairs(valid, text, task.max_tokens)
    return text, train, judged


@functools.cache
def english_captions() -> tuple[Tensor, Vocabulary, Any, Tensor]:
    """Return the stream to learn from, its words, tokenizer, and held-out ids."""
    tokenizer = WordTokenizer("en")
    lines, held_out = (
        read_lines(data_file("captions", f"{split}.en")) for split in ("train", "valid")
    )
    stream, vocab = token_stream(lines, tokenizer)
    words = [[*vocab(tokenizer.tokenize(line)), END] for line in held_out]
    ids = torch.tensor([END, *itertools.chain.from_iterable(words)])
    return stream, vocab, tokenizer, ids


@dataclass(frozen=True)
class Continuation:
    """Continue English captions. A GPT is built from the number of words."""

    length: int = 64  # of the windows in which a model is judged
    unit = "nats per token"
    first_rates = (0.012, 0.024)  # small GPTs like them high

    def sizes(self) -> tuple[int]:
        """Return the number of words."""
        return (len(english_captions()[1]),)

    def train(
        self,
        model: Any,
        rate: float,
        updates: int,
        seed: int,
        rows: int = 32,
        length: int = 64,
    ) -> Iterator[float]:
        """Train as chapter 6 does, on ``rows`` windows of ``length`` tokens an update.

        Yields each update's loss.
        """
        stream = english_captions()[0].to(device_of(model))
        steps = train_gpt(
            model, stream, updates, rows=rows, length=length, peak=rate, seed=seed
        )
        return (loss for _, loss in steps)

    def judge(self, model: Any) -> dict[str, float]:
        """Return the loss of the validation sentences, in whole windows."""
        ids = english_captions()[3].to(device_of(model))
        whole = ids[: (len(ids) - 1) // self.length * self.length + 1]
        with in_mode(model, training=False):
            logits = model(whole[:-1].view(-1, self.length)).flatten(0, 1)
        return {self.unit: F.cross_entropy(logits, whole[1:]).item()}

    def check(self, model: Any) -> None:
        """Raise ValueError if a model sees the words that it is to predict."""
        with in_mode(model, training=False):
            device = device_of(model)
            check_causality(lambda ids: model(ids.to(device)), *self.sizes())


TASKS: dict[str, Task] = {
    "captions": Translation("captions"),
    "multi30k": Translation("multi30k", bpe_size=4000),
    "sentences": Continuation(),
}
