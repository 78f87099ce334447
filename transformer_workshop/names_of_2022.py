"""I know the older text: where are its names?"""

from __future__ import annotations

import dataclasses
import itertools
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from annotated_transformer import (
    END,
    PAD,
    START,
    UNK,
    Batch,
    BytePairEncoding,
    EncoderDecoder,
    Text,
    Vocabulary,
    WordTokenizer,
    get_decoder_self,
    get_decoder_src,
    get_encoder,
    greedy_decode,
    optional_import,
    padded,
    plain_attention,
    record,
    visualize_layer,
)
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.shipped_models import CAPTIONS_MODEL, default_model
from transformer_workshop.models.translator import Translator, load_translator
from transformer_workshop.text.corpora import load_pairs
from transformer_workshop.text.encoding import word_vocabularies
from transformer_workshop.training.epochs import TrainState, run_epoch
from transformer_workshop.training.loop import train_run
from transformer_workshop.training.processes import number_process

if TYPE_CHECKING:
    import altair

# fmt: off
__all__ = [  # what annotated_transformer finds here
    "TrainState", "run_epoch", "data_gen", "is_interactive_notebook", "show_example",
    "execute_example", "DummyOptimizer", "DummyScheduler", "load_tokenizers",
    "tokenize", "build_vocabulary", "load_vocab", "yield_tokens", "collate_batch",
    "create_dataloaders", "check_outputs", "load_trained_model",
    "run_model_example", "load_old_weights", "translate_sentence", "calculate_bleu",
    "viz_encoder_self", "viz_decoder_self", "viz_decoder_src", "train_worker",
    "train_model", "train_distributed_model",
]
# fmt: on


def train_worker(
    gpu: int,
    ngpus_per_node: int,
    vocab_src: Vocabulary,
    vocab_tgt: Vocabulary,
    spacy_de: Any,
    spacy_en: Any,
    config: Any,
    is_distributed: bool = False,
) -> None:
    """Train a configuration's model, as process ``gpu`` of ``ngpus_per_node``."""
    if is_distributed:
        number_process(gpu, ngpus_per_node)
    text = Text(vocab_src, vocab_tgt, spacy_de, spacy_en)
    config = TrainingConfig.of(config)
    train_run(dataclasses.replace(config, distributed=is_distributed), text)


def train_model(
    vocab_src: Vocabulary,
    vocab_tgt: Vocabulary,
    spacy_de: Any,
    spacy_en: Any,
    config: Any,
) -> Translator:
    """Train in this process or, if ``config.distributed``, in several."""
    config = TrainingConfig.of(config)
    train_run(config, Text(vocab_src, vocab_tgt, spacy_de, spacy_en))
    return load_translator(config.run_dir, config.device)


def train_distributed_model(
    vocab_src: Vocabulary,
    vocab_tgt: Vocabulary,
    spacy_de: Any,
    spacy_en: Any,
    config: Any,
) -> None:
    """Train in several processes on this machine: one per GPU, or two without GPUs."""
    config = dataclasses.replace(TrainingConfig.of(config), distributed=True)
    train_run(config, Text(vocab_src, vocab_tgt, spacy_de, spacy_en))


def data_gen(V: int, batch_size: int, nbatches: int) -> Iterator[Batch]:
    """Yield batches of random strings, ten symbols from 1 to V - 1, to be copied.

    Each string starts with 1; 0 is padding; there is no end symbol.
    """
    for _ in range(nbatches):
        data = torch.randint(1, V, (batch_size, 10))
        data[:, 0] = 1
        yield Batch(data, data.clone(), pad=0)


def _view(getter_fn: Callable, rows: int, columns: int) -> altair.VConcatChart:
    """Draw one kind of attention over the captions corpus's first test sentence.

    All heads of all layers; rows and columns: 0 the source's tokens, 1 the target's.
    """
    ours = load_translator(project_folder() / CAPTIONS_MODEL, optimize=False)
    sentence, _ = load_pairs(ours.config, "test")[0]
    most = ours.config.max_tokens
    src = torch.tensor([ours.text.encode(sentence)])
    read, _ = record(ours.model, src, max_len=most)
    vocabularies = zip((ours.text.vocab_src, ours.text.vocab_tgt), (src, read))
    tokens = [vocab.tokens(ids[0].tolist()) for vocab, ids in vocabularies]
    return optional_import("altair").vconcat(*(
        visualize_layer(ours.model, layer, getter_fn, 30, tokens[rows], tokens[columns])
        for layer in range(ours.config.N)
    ))  # fmt: skip


def viz_encoder_self() -> altair.VConcatChart:
    """Draw the encoder's self-attention over the first test sentence."""
    return _view(get_encoder, 0, 0)


def viz_decoder_self() -> altair.VConcatChart:
    """Draw the decoder's self-attention over the first test sentence."""
    return _view(get_decoder_self, 1, 1)


def viz_decoder_src() -> altair.VConcatChart:
    """Draw the cross-attention of the first test sentence."""
    return _view(get_decoder_src, 1, 0)


def is_interactive_notebook() -> bool:
    """Return whether an IPython kernel runs this code."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


def show_example(fn: Callable, args: Iterable = ()) -> Any:
    """Return the function's result in a notebook, and None elsewhere."""
    return fn(*args) if is_interactive_notebook() else None


def execute_example(fn: Callable, args: Iterable = ()) -> None:
    """Call the function for its effects, in a notebook only."""
    show_example(fn, args)


class DummyOptimizer(torch.optim.Optimizer):
    """Take no step; for old cells that evaluate."""

    def __init__(self) -> None:
        self.param_groups = [{"lr": 0}]

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Do nothing."""

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Do nothing."""


class DummyScheduler:
    """Change no learning rate; for old cells that evaluate."""

    def step(self) -> None:
        """Do nothing."""


def load_tokenizers() -> tuple[WordTokenizer, WordTokenizer]:
    """Return the tokenizers of German and of English words."""
    return WordTokenizer("de"), WordTokenizer("en")


def tokenize(text: str, tokenizer: WordTokenizer | BytePairEncoding) -> list[str]:
    """Return the tokens of a text."""
    return tokenizer.tokenize(text)


def build_vocabulary(
    spacy_de: WordTokenizer,
    spacy_en: WordTokenizer,
    *,
    pairs: Iterable[tuple[str, str]] | None = None,
    min_freq: int = 2,
) -> tuple[Vocabulary, Vocabulary]:
    """Return source and target vocabulary of the words seen ``min_freq`` times.

    pairs are training pairs; without them those of the captions corpus count.
    """
    if pairs is None:
        pairs = load_pairs(TrainingConfig(), "train")
    return word_vocabularies(pairs, spacy_de, spacy_en, min_freq)


def load_vocab(
    spacy_de: WordTokenizer, spacy_en: WordTokenizer
) -> tuple[Vocabulary, Vocabulary]:
    """Return the vocabularies of the captions corpus, and print their sizes."""
    vocabs = build_vocabulary(spacy_de, spacy_en)
    print("Vocabulary sizes:", *map(len, vocabs))
    return vocabs


def yield_tokens(data_iter: Iterable, tokenizer: Callable, index: int) -> Iterator:
    """Yield the tokens of one side (0 source, 1 target) of every pair."""
    for pair in data_iter:
        yield tokenizer(pair[index])


def collate_batch(
    batch: Sequence[tuple[str, str]],
    src_pipeline: Callable,
    tgt_pipeline: Callable,
    src_vocab: Vocabulary,
    tgt_vocab: Vocabulary,
    device: torch.device | str,
    max_padding: int = 128,
    pad_id: int = PAD,
) -> tuple[Tensor, Tensor]:
    """Return pairs as two tensors of ids (B, S) and (B, T), each row with its </s>.

    Rows with more than ``max_padding`` ids are shortened, with a warning.
    """
    room = max_padding - 2  # without <s> and </s>
    src = [src_vocab(src_pipeline(sentence)) for sentence, _ in batch]
    tgt = [tgt_vocab(tgt_pipeline(sentence)) for _, sentence in batch]
    if cut := sum(len(body) > room for body in src + tgt):
        warnings.warn(f"{cut} sentences shortened to {max_padding} ids", stacklevel=2)

    def whole(body: list[int]) -> list[int]:
        # what is spelled like a special token is an unknown word, as in Text.encode
        return [START, *(max(word, UNK) for word in body[:room]), END]

    def ids(side: list[list[int]]) -> Tensor:
        return padded([whole(body) for body in side], pad_id).to(device)

    return ids(src), ids(tgt)


def create_dataloaders(
    device: torch.device | str,
    vocab_src: Vocabulary,
    vocab_tgt: Vocabulary,
    spacy_de: Any,
    spacy_en: Any,
    batch_size: int = 12000,
    max_padding: int = 128,
    is_distributed: bool = True,
) -> tuple[DataLoader, DataLoader]:
    """Return loaders for the training and validation pairs of the captions corpus.

    ``batch_size`` counts sentences, as in 2022. In a distributed run each
    process gets its share of the training pairs.
    """

    def collate(batch: Sequence[tuple[str, str]]) -> tuple[Tensor, Tensor]:
        pipelines = spacy_de.tokenize, spacy_en.tokenize
        return collate_batch(
            batch, *pipelines, vocab_src, vocab_tgt, device, max_padding
        )

    train: Any = load_pairs(TrainingConfig(), "train")
    valid: Any = load_pairs(TrainingConfig(), "valid")
    several = is_distributed and torch.distributed.is_initialized()
    sampler: Any = DistributedSampler(train) if several else None
    return (
        DataLoader(train, batch_size, not several, sampler, collate_fn=collate),
        DataLoader(valid, batch_size, collate_fn=collate),
    )


def check_outputs(
    valid_dataloader: Iterable[tuple[Tensor, Tensor]],
    model: EncoderDecoder,
    vocab_src: Vocabulary,
    vocab_tgt: Vocabulary,
    n_examples: int = 15,
    pad_idx: int = 2,
    eos_string: str = "</s>",
) -> list[tuple]:
    """Print greedy translations of the first sentences of a loader.

    Return (batch, source tokens, reference tokens, output ids, output
    text) for each sentence; the batch holds only this pair, without padding.
    """
    end, results = vocab_tgt[eos_string], []
    pairs = (pair for batch in valid_dataloader for pair in zip(*batch, strict=True))
    for number, pair in enumerate(itertools.islice(pairs, n_examples)):
        src, tgt = (row[row != pad_idx] for row in pair)
        batch = Batch(src[None], tgt[None], pad_idx)
        room = max(72, 2 * len(src))
        model_out = greedy_decode(
            model, batch.src, batch.src_mask, room, 0, end_symbol=end, pad=pad_idx
        )[0]
        src_tokens = vocab_src.tokens(src.tolist())
        tgt_tokens = vocab_tgt.tokens(tgt.tolist())
        written = [t for t in vocab_tgt.tokens(model_out.tolist()) if t != eos_string]
        model_txt = " ".join([*written, eos_string])
        print(f"\nExample {number} ========\n")
        print("Source Text (Input)        :", " ".join(src_tokens))
        print("Target Text (Ground Truth) :", " ".join(tgt_tokens))
        print("Model Output               :", model_txt)
        results.append((batch, src_tokens, tgt_tokens, model_out, model_txt))
    return results


def load_trained_model() -> EncoderDecoder:
    """Return the trained model that comes with the project."""
    return load_translator(default_model(), optimize=False).model


def run_model_example(n_examples: int = 5) -> tuple[EncoderDecoder, list[tuple]]:
    """Return the captions model and its translations of validation sentences."""
    ours = load_translator(project_folder() / CAPTIONS_MODEL, optimize=False)
    _, valid = create_dataloaders("cpu", *ours.text, batch_size=1, is_distributed=False)
    vocabs = ours.text.vocab_src, ours.text.vocab_tgt
    return ours.model, check_outputs(valid, ours.model, *vocabs, n_examples)


def load_old_weights(model: EncoderDecoder, weights: dict[str, Tensor]) -> None:
    """Load a state_dict of the 2018 or 2022 code into a model of the same size."""
    kept = {key: value for key, value in weights.items() if not key.endswith(".pe")}
    model.load_state_dict(kept)


def translate_sentence(
    sentence: str | list[str],
    src_field: Any,
    trg_field: Any,
    model: EncoderDecoder,
    device: torch.device | str,
    max_len: int = 50,
) -> tuple[list[str], Tensor]:
    """Translate greedily, and return the tokens and the last layer's attention.

    sentence is a string or a list of tokens. Return the output tokens, with the
    end symbol if it was reached, and the cross-attention (1, h, L, S) of the last
    decoder layer; row t belongs to token t.
    """
    if isinstance(sentence, str):
        tokens = src_field.preprocess(sentence)
    else:
        tokens = [t.lower() if src_field.lower else t for t in sentence]
    known, wanted = src_field.vocab.stoi, trg_field.vocab.stoi
    words = [src_field.init_token, *tokens, src_field.eos_token]
    unknown = known[src_field.unk_token]
    src = torch.tensor([[known.get(word, unknown) for word in words]], device=device)
    src_mask = torch.ones_like(src).unsqueeze(1)
    with plain_attention(model):
        ids = greedy_decode(
            model, src, src_mask, max_len + 1, wanted[trg_field.init_token],
            end_symbol=wanted[trg_field.eos_token], pad=wanted[trg_field.pad_token],
        )  # fmt: skip
    written = [trg_field.vocab.itos[i] for i in ids[0, 1:].tolist()]
    last: Any = model.decoder.layers[-1]
    return written, last.src_attn.attn


def calculate_bleu(
    data: Iterable,
    src_field: Any,
    trg_field: Any,
    model: EncoderDecoder,
    device: torch.device | str,
    max_len: int = 50,
) -> float:
    """Return torchtext's BLEU (0 to 1) of greedy translations of a data set.

    It is computed on the tutorial's own tokens; compare it only with scores computed
    the same way. ``evaluate`` gives the score to report.
    """
    bleu_score = optional_import("torchtext.data.metrics").bleu_score
    outputs, references = [], []
    for example in data:
        arguments = (src_field, trg_field, model, device, max_len)
        words, _ = translate_sentence(example.src, *arguments)
        outputs.append([w for w in words if w != trg_field.eos_token])
        references.append([example.trg])
    return bleu_score(outputs, references)
