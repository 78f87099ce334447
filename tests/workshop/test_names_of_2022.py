"""Chapter 97: the names that older cells call."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import annotated_transformer as at
from annotated_transformer import DataError
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.names_of_2022 import (
    ONLY_IN_2018,
    check_outputs,
    is_interactive_notebook,
    load_old_weights,
    load_trained_model,
    show_example,
    translate_sentence,
)


def test_a_kernel_is_known_by_its_shell(monkeypatch):
    ipython = SimpleNamespace(get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert not is_interactive_notebook()
    ipython.get_ipython = lambda: SimpleNamespace()  # a shell in a terminal
    assert not is_interactive_notebook() and show_example(len, ["abc"]) is None
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    assert is_interactive_notebook() and show_example(len, ["abc"]) == 3


@pytest.fixture
def model() -> at.EncoderDecoder:
    """Return an untrained but decided model: its outputs depend on the source."""
    torch.manual_seed(0)
    model = at.make_model(12, 12, 1, 8, 8, 2, dropout=0.3).train()
    for p in model.parameters():
        p.data *= 3
    return model


VOCAB = at.Vocabulary([*at.SPECIALS, *"abcdefgh"])


def test_the_outputs_checked_are_those_of_the_first_pairs(model, capsys):
    batches = [torch.tensor([[0, 4 + i, 5 + i, 1], [0, 9 - i, 1, 2]]) for i in range(3)]
    results = check_outputs([(b, b) for b in batches], model, VOCAB, VOCAB, 5)
    rows = [row[row != at.PAD] for batch in batches for row in batch]
    assert len(results) == 5
    for row, (batch, source, target, ids, text) in zip(rows, results, strict=False):
        assert torch.equal(batch.src[0], row)
        assert source == target == VOCAB.tokens(row.tolist())
        mask = torch.ones(1, 1, len(row))
        out = at.greedy_decode(model, row[None], mask, 72, 0, end_symbol=1)
        assert torch.equal(ids, out[0])
        written = VOCAB.tokens(ids.tolist())
        assert text.split() == [*(t for t in written if t != "</s>"), "</s>"]
    assert model.training and len({text for *_, text in results}) > 1
    assert capsys.readouterr().out.count("Model Output") == 5


def test_translate_sentence_is_greedy_decoding(model):
    field = SimpleNamespace(
        vocab=SimpleNamespace(stoi=VOCAB.get_stoi(), itos=VOCAB.get_itos()),
        init_token="<s>", eos_token="</s>", pad_token="<blank>", unk_token="<unk>",
        preprocess=list, lower=True,
    )  # fmt: skip
    rest = (field, field, model, "cpu", 8)
    words, seen = translate_sentence("abz", *rest)
    again, same = translate_sentence(["A", "b", "?"], *rest)
    assert again == words and torch.equal(same, seen)
    src = torch.tensor([[at.START, 4, 5, at.UNK, at.END]])
    ids = at.greedy_decode(model, src, torch.ones(1, 1, 5), 9, 0, end_symbol=1)
    assert words == VOCAB.tokens(ids[0, 1:].tolist())
    assert seen.shape == (1, 2, len(words), 5)
    assert torch.allclose(seen.sum(-1), torch.ones(1)) and not seen.requires_grad


POST = {
    "batch_size": 32, "distributed": False, "num_epochs": 8, "accum_iter": 10,
    "base_lr": 1.0, "max_padding": 72, "warmup": 3000, "file_prefix": "model_",
}  # fmt: skip


def test_the_dictionary_of_2022_is_understood():
    config = TrainingConfig.of(POST)
    assert (config.epochs, config.accum_iter, config.warmup) == (8, 10, 3000)
    assert (config.max_tokens, config.batch_tokens) == (72, 32 * 72)
    assert (config.N, config.d_model, config.schedule) == (6, 512, "inverse_sqrt")


@pytest.mark.parametrize(
    "config, words",
    [
        (POST | {"num_epochs": "eight"}, "num_epochs"),
        (POST | {"warmup": None}, "warmup"),
        (POST | {"num_epochs": 0}, "epochs=0"),
        (
            {"num_epochs": 8, "batch_size": 1, "distributed": False},
            "accum_iter.*missing",
        ),
    ],
)
def test_an_old_configuration_with_a_fault_is_refused_by_name(config, words):
    with pytest.raises(DataError, match=words):
        TrainingConfig.of(config)


def test_a_checkpoint_of_2022_loads_without_its_table_of_positions():
    source, model = (at.make_model(9, 9, 1, 8, 8, 2) for _ in range(2))
    old = {**source.state_dict(), "src_embed.1.pe": torch.zeros(1, 5000, 8)}
    with pytest.raises(RuntimeError, match="pe"):
        model.load_state_dict(old)
    load_old_weights(model, old)
    assert all(map(torch.equal, model.parameters(), source.parameters()))
    assert model.src_embed[1].pe[0, 0, 1] == 1


def test_the_trained_model_keeps_its_attention_unasked():
    model = load_trained_model()
    model.encode(torch.randint(4, 100, (1, 5)), torch.ones(1, 1, 5))
    heads = model.encoder.layers[0].self_attn.h
    assert at.get_encoder(model, 0).shape == (1, heads, 5, 5)


def test_a_name_of_2018_leads_to_the_appendix():
    notebooks = Path(at.__file__).parent / "notebooks"
    text = (notebooks / "97_coming_from_2018_or_2022.md").read_text(encoding="utf-8")
    table = re.search(r"## Only in 2018\n(.*?)\n## ", text, re.DOTALL)[1]
    old = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)
    named = {name for cell in old for name in re.findall(r"`(\w+)`", cell)}
    assert named - {*dir(at), *at.__all__} == ONLY_IN_2018
    for name in ONLY_IN_2018:
        with pytest.raises(AttributeError, match="notebooks/97"):
            getattr(at, name)
