"""Chapter 4: subwords, cached decoding, beam search, averages; chapter 95."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import pickle
import statistics
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import annotated_transformer as at
from transformer_workshop.base.config import CONFIGS, read_config_file
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import read_json, save_tensors
from transformer_workshop.pictures import chapter_4
from transformer_workshop.training.checkpoints import average_checkpoints

TEXTS = [
    "Ein Hund läuft über die Wiese.",
    "A dog runs across the meadow.",
    "Zwei Hunde spielen auf der Wiese mit einem Ball.",
    "Two dogs play with a ball in the meadow.",
]
ODD = [
    "",
    " ",
    "  zwei  Leerzeichen ",
    "Tab\tund\nZeile\r\n",
    "a </s> b <s> <unk> <blank>",
    "👩‍🚒 löscht 🇩🇪",
    "قطة تنام",
    "\u202eשלום\u202c",
    "e\u0301 ist nicht é",
    "中文，日本語",
    "\x00\ufffd\U0010ffff",
    "Ġ is a letter, too",
]


@pytest.fixture(scope="module")
def bpe() -> at.BytePairEncoding:
    return at.BytePairEncoding.train(TEXTS, 320)


# --- byte-pair encoding ------------------------------------------------------


def test_odd_texts_come_back(bpe):
    assert [bpe.detokenize(bpe.tokenize(text)) for text in ODD] == ODD


@given(text=st.text())
@settings(max_examples=100)
def test_any_text_comes_back(bpe, text):
    assert bpe.detokenize(bpe.tokenize(text)) == text


def test_special_tokens_come_first_and_are_never_found_in_text(bpe):
    special = at.BytePairEncoding.train(["</s> <s> <blank> <unk>"] * 50, 340)
    for encoding in (bpe, special):
        itos = encoding.get_itos()
        assert itos[:4] == at.SPECIALS and len(itos) == len(set(itos))
        for text in ["</s>", "a<unk>b", " <s> ", *TEXTS]:
            assert set(encoding.tokenize(text)) <= set(itos[4:])
    assert len(bpe.get_itos()) == 320


def test_both_sides_are_learnt_and_case_is_kept(bpe):
    assert bpe.tokenize("Wiese") == ["ĠWiese"]
    assert bpe.tokenize("meadow") == ["Ġmeadow"]
    assert bpe.tokenize("wiese") != ["Ġwiese"]
    # the first word of a text is cut like the same word further on
    assert bpe.tokenize("Wiese Wiese") == ["ĠWiese", "ĠWiese"]


def test_json_and_pickle_give_the_same_encoding(bpe):
    copies = [at.BytePairEncoding.from_json(bpe.to_json())]
    copies.append(pickle.loads(pickle.dumps(bpe)))  # as spawned workers get it
    for copy in copies:
        assert copy.get_itos() == bpe.get_itos()
        for text in TEXTS + ODD:
            assert copy.tokenize(text) == bpe.tokenize(text)


def test_a_size_that_bytes_do_not_fit_is_refused():
    with pytest.raises(ValueError, match="size=259: .* alone are 260"):
        at.BytePairEncoding.train(TEXTS, 259)
    assert len(at.BytePairEncoding.train(TEXTS, 260).get_itos()) == 260


def test_broken_bytes_become_replacement_characters(bpe):
    assert bpe.detokenize(["Ġ", "Ã"]) == "\ufffd"
    assert bpe.detokenize([]) == ""


FEW = st.text(st.sampled_from("ab c.1ä"), max_size=25)  # many ties
ANY = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=25)


@given(
    texts=st.lists(FEW | ANY, min_size=1, max_size=5),
    others=st.lists(FEW | ANY, max_size=4),
    more=st.integers(0, 40),
)
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_what_the_library_does(texts, others, more):
    written = at.Subwords.train(texts, 260 + more)
    library = at.BytePairEncoding.train(texts, 260 + more)
    merges = json.loads(library.to_json())["model"]["merges"]
    assert list(written.order) == [tuple(pair) for pair in merges]
    for text in texts + others:
        tokens = written.tokenize(text)
        assert tokens == library.tokenize(text)
        assert written.detokenize(tokens) == text


# --- decoding with a cache ---------------------------------------------------


def some_model(vocab=12, seed=0, dtype=torch.float64, **options) -> at.EncoderDecoder:
    torch.manual_seed(seed)
    model = at.make_model(11, vocab, 2, 16, 32, 4, **options).to(dtype).eval()
    for p in model.parameters():  # a fresh model is too undecided to tell us anything
        p.data += 0.3 * torch.randn_like(p)
    return model


def some_source(rows=4, seed=0):
    """Return sources of several lengths, padded with 2, and their mask."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(3, 11, (rows, 7), generator=generator)
    for row in range(rows):
        src[row, 7 - row % 5 :] = 2
    return src, (src != 2).unsqueeze(1)


def step_by_step(model, src, mask, tgt):
    """Return log-probabilities (B, L, vocab), computed with the cache."""
    memory = model.encode(src, mask)
    read = [tgt[:, : t + 1] for t in range(tgt.size(1))]
    cache = at.Cache(model.decoder, memory, mask, tgt.size(1))
    steps = [at.decode_step(model, cache, ys) for ys in read]
    return torch.stack(steps, dim=1)


@pytest.mark.parametrize(
    "norm_first, learned, dtype, near",
    [
        (True, False, torch.float64, 1e-9),
        (False, True, torch.float64, 1e-9),
        (True, False, torch.float32, 1e-4),
    ],
)
@torch.no_grad()
def test_cached_equals_uncached(norm_first, learned, dtype, near):
    model = some_model(dtype=dtype, norm_first=norm_first)
    if learned:
        model.tgt_embed[1] = at.LearnedPositions(16, 0.0).to(dtype)
    src, mask = some_source()
    tgt = torch.randint(0, 12, (4, 20))
    whole = model.generator(model(src, tgt, mask, at.subsequent_mask(20)))
    steps = step_by_step(model, src, mask, tgt)
    assert (steps - whole).abs().max() < near


@torch.no_grad()
def test_rows_can_change_places_and_leave():
    model = some_model()
    src, mask = some_source(rows=3)
    tgt = torch.randint(0, 12, (3, 5))
    memory = model.encode(src, mask)
    rows = [2, 0, 2]
    cache = at.Cache(model.decoder, memory, mask, 5)
    for t in range(4):
        at.decode_step(model, cache, tgt[:, : t + 1])
    cache.select(torch.tensor(rows))
    got = at.decode_step(model, cache, tgt[rows])
    whole = model(src[rows], tgt[rows], mask[rows], at.subsequent_mask(5))
    assert torch.allclose(got, model.generator(whole)[:, -1], atol=1e-9)


class Wrapped(nn.Module):
    """A layer inside another, as compiling or checkpointing wraps it."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.self_attn, self.src_attn = layer.self_attn, layer.src_attn

    def forward(self, *inputs):
        return self.layer(*inputs).flip(-1)


@pytest.mark.parametrize("change", ["wrapped", "hooked", "replaced"])
@torch.no_grad()
def test_a_changed_layer_changes_every_decoding(change):
    model = some_model()
    src, mask = some_source()
    layers = model.decoder.layers
    before = at.greedy_decode(model, src, mask, 12, 0)
    if change == "wrapped":
        layers[1] = Wrapped(layers[1])
    elif change == "hooked":
        layers[0].src_attn.register_forward_hook(lambda *call: -call[-1])
    else:
        layers[1].forward = lambda x, *others: x.roll(1, -1)  # no keys
    greedy = at.greedy_decode(model, src, mask, 12, 0)
    assert not torch.equal(greedy, before)
    found = at.beam_search(model, src, mask, 12, 0, end_symbol=-1, beam_size=1)
    assert [ids for ids, _ in found] == greedy[:, 1:].tolist()


def test_threads_that_decode_with_one_model_do_not_meet():
    model = some_model()
    src, mask = some_source()
    expected = search(model, src, mask)
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(search, model, src, mask) for _ in range(12)]
    assert all(job.result() == expected for job in jobs)


@torch.no_grad()
def test_a_layer_that_is_used_twice_has_two_caches():
    model, (src, mask) = some_model(), some_source()
    model.decoder.layers[1] = model.decoder.layers[0]
    tgt = torch.randint(0, 12, (4, 6))
    whole = model.generator(model(src, tgt, mask, at.subsequent_mask(6)))
    assert torch.allclose(step_by_step(model, src, mask, tgt), whole, atol=1e-9)


@torch.no_grad()
def test_a_cache_leaves_its_model_alone():
    model, (src, mask) = some_model(), some_source()
    before = {name: type(module) for name, module in model.named_modules()}
    cache = at.Cache(model.decoder, model.encode(src, mask), mask, 9, rows=8)
    at.decode_step(model, cache, torch.zeros(4, 1, dtype=torch.long))
    assert before == {name: type(module) for name, module in model.named_modules()}
    own = {id(p) for p in model.decoder.parameters()}
    assert own == {id(p) for p in cache.decoder.parameters()}
    assert [tuple(kept.shape) for kept in cache.kept] == 2 * [
        (8, 9, 16), (8, 9, 16), (8, 9, 16), (8, 9, 16)
    ]  # fmt: skip
    assert cache.filled == [1, 1, 7, 7, 1, 1, 7, 7]


@pytest.mark.parametrize("mask", [None, torch.ones(1, 1, 7), torch.ones(4, 1, 7)])
def test_a_mask_for_all_rows_is_one_for_each(mask):
    model, (src, _) = some_model(), some_source()
    expected = search(model, src, torch.ones(4, 1, 7))
    assert search(model, src, mask) == expected


@pytest.mark.parametrize("change, says", [
    ({"beam_size": 0}, "beam_size=0"), ({"beam_size": -1}, "beam_size=-1"),
    ({"max_len": 0}, "max_len=0"), ({"max_len": 8.0}, "max_len=8.0"),
    ({"max_len": [8, 8]}, "max_len has 2 numbers for 4 rows"),
    ({"src_mask": torch.ones(4, 7)}, "the mask is"),
])  # fmt: skip
def test_a_search_that_cannot_be_is_refused(change, says):
    src, mask = some_source()
    usual = {"src": src, "src_mask": mask, "max_len": 8, "start_symbol": 0}
    with pytest.raises(ValueError, match=says):
        at.beam_search(some_model(), **(usual | {"end_symbol": 1} | change))


@pytest.mark.parametrize("limit", [np.int64(8), np.full(4, 8), torch.full((4,), 8)])
def test_a_limit_may_be_a_number_of_numpy_or_torch(limit):
    model, (src, mask) = some_model(), some_source()
    found, expected = (
        at.beam_search(model, src, mask, most, 0, end_symbol=1) for most in (limit, 8)
    )
    assert found == expected


def test_each_position_is_computed_once():
    model = some_model()
    seen = []
    model.decoder.layers[1].feed_forward.register_forward_hook(
        lambda module, inputs, output: seen.append(inputs[0].shape[:2].numel())
    )
    src, mask = some_source(rows=1)
    at.beam_search(model, src, mask, 30, 0, end_symbol=-1, beam_size=1)
    assert seen == [1] * 29


def test_an_output_longer_than_the_positions_is_an_error():
    model = some_model(max_len=8)
    src, mask = some_source(rows=1)
    at.beam_search(model, src, mask, 9, 0, end_symbol=-1)
    with pytest.raises(ValueError, match="9 positions"):
        at.beam_search(model, src, mask, 10, 0, end_symbol=-1)


# --- beam search -------------------------------------------------------------


def search(model, src, mask, max_len=14, **options):
    return at.beam_search(model, src, mask, max_len, 0, end_symbol=1, **options)


def log_probability(model, src, mask, ids) -> float:
    """Compute the log-probability of `ids` after the start symbol in one full pass."""
    tgt = torch.tensor([[0, *ids[:-1]]])
    with torch.no_grad():
        out = model(src, tgt, mask, at.subsequent_mask(len(ids)))
        return model.generator(out)[0, range(len(ids)), ids].sum().item()


@pytest.mark.parametrize("seed, alpha", [(0, 0.0), (1, 1.0), (2, 3.0)])
def test_a_beam_of_one_is_greedy(seed, alpha):
    model = some_model(seed=seed, norm_first=seed % 2 == 0, dtype=torch.float32)
    model.generator.proj.bias.data[1] += 3.0  # so that many outputs end
    src, mask = some_source(12, seed)
    greedy = at.greedy_decode(model, src, mask, 14, 0, end_symbol=1, pad=2).tolist()
    found = search(model, src, mask, beam_size=1, length_penalty=alpha)
    for (_, *row), (ids, _) in zip(greedy, found, strict=True):
        assert ids == (row[: row.index(1)] if 1 in row else row)
    assert 0 < sum(1 in row for row in greedy)


@pytest.mark.parametrize("seed, alpha", [(0, -1.0), (1, 0.0), (2, 0.6), (3, 2.0)])
def test_a_full_beam_is_enumeration(seed, alpha):
    model = some_model(vocab=5, seed=seed)
    src, mask = some_source(2, seed)
    found = search(model, src, mask, 4, beam_size=64, length_penalty=alpha)
    bodies = [
        body for n in range(4) for body in itertools.product([0, 2, 3, 4], repeat=n)
    ]
    assert len(bodies) == 85
    for b, (ids, score) in enumerate(found):
        rated = []
        for body in bodies:
            written = [*body, 1][:3]  # ended, or cut after three tokens
            logp = log_probability(model, src[[b]], mask[[b]], written)
            rated.append((logp / ((5 + len(written)) / 6) ** alpha, list(body)))
        assert ids == max(rated)[1]
        assert score == pytest.approx(max(rated)[0], abs=1e-9)


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_a_batch_gives_what_each_sentence_gives(beam_size):
    model = some_model(seed=beam_size, dtype=torch.float32)
    src, mask = some_source(6)
    for b, (ids, score) in enumerate(search(model, src, mask, beam_size=beam_size)):
        length = int(mask[b].sum())
        [(alone, its_score)] = search(
            model, src[[b], :length], mask[[b], :, :length], beam_size=beam_size
        )
        assert ids == alone
        assert score == pytest.approx(its_score, abs=1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_the_rating_is_that_of_the_output(seed):
    model = some_model(seed=seed)
    src, mask = some_source(4, seed)
    for b, (ids, score) in enumerate(search(model, src, mask, length_penalty=0.8)):
        written = [*ids, 1] if len(ids) < 13 else ids
        logp = log_probability(model, src[[b]], mask[[b]], written)
        assert score == pytest.approx(logp / ((5 + len(written)) / 6) ** 0.8, abs=1e-9)


def test_the_search_is_deterministic_and_restores_the_mode():
    model = some_model(dropout=0.5)
    src, mask = some_source()
    for training in (True, False):
        model.train(training)
        first = search(model, src, mask)
        assert model.training == training
        assert all(m.training == training for m in model.modules())
        assert first == search(model, src, mask)
    model.train()
    with pytest.raises(IndexError):
        search(model, torch.full((1, 3), 999), torch.ones(1, 1, 3))
    assert model.training


def test_a_float_mask_counts_like_a_boolean_one():
    model = some_model()
    src, mask = some_source()
    for other in (mask.float(), mask.long(), mask.to(torch.uint8)):
        assert search(model, src, other) == search(model, src, mask)


class Planted:
    """A decode_step by a rule: (written so far, sentence) -> chances of 6 tokens."""

    def __init__(self, monkeypatch, rule):
        self.rule, self.batches = rule, []
        monkeypatch.setattr(at, "decode_step", self.step)

    def step(self, model, cache, ys):
        sentences = cache.memory.flatten().tolist()
        self.batches.append(len(set(sentences)))
        read = zip(ys[:, 1:].tolist(), sentences, strict=True)
        rows = torch.tensor([self.rule(past, sentence) for past, sentence in read])
        return rows.clamp_min(1e-9).log()

    def search(self, max_len=50, rows=1, **options):
        self.batches, model = [], some_model()
        model.encode = lambda *_: torch.arange(rows).view(-1, 1, 1)
        return search(model, *some_source(rows), max_len, **options)


def test_weak_early_ends_do_not_stop_the_search(monkeypatch):
    """Make token 3 right, but give the end a little at each step, as smoothing does."""

    def rule(past, sentence):
        if past == [3] * 6:
            return [0, 0.99, 0, 0, 0.01, 0]
        return [0, 0.04, 0, 0.93, 0.03, 0]

    planted = Planted(monkeypatch, rule)
    for beam_size in (1, 2, 3, 5):
        [(ids, _)] = planted.search(beam_size=beam_size)
        assert ids == [3] * 6, beam_size


def test_the_length_penalty_decides(monkeypatch):
    def rule(past, sentence):  # "3" with 0.5, "4 4 4" with 0.45
        if not past:
            return [0, 0, 0, 0.5, 0.45, 0.05]
        end = past[0] == 3 or len(past) == 3
        return [0, 1.0, 0, 0, 0, 0] if end else [0, 0, 0, 0, 1.0, 0]

    planted = Planted(monkeypatch, rule)
    assert planted.search(length_penalty=0.0)[0][0] == [3]
    assert planted.search(length_penalty=1.0)[0][0] == [4, 4, 4]


def test_a_negative_penalty_does_not_end_the_search_early(monkeypatch):
    """Offer nothing with 0.2, "3" with 0.8: longer costs more, but is still better."""

    def rule(past, sentence):
        return [0, 1.0, 0, 0, 0, 0] if past else [0, 0.2, 0, 0.8, 0, 0]

    planted = Planted(monkeypatch, rule)
    for alpha in (-1.0, -10.0):
        [(ids, score)] = planted.search(max_len=100, length_penalty=alpha)
        assert ids == [3]
        assert score == pytest.approx(math.log(0.8) / (7 / 6) ** alpha)  # it has ended


def test_the_search_stops_when_nothing_better_can_come(monkeypatch):
    """Make the end certain after "3 3"; outputs that begin differently never end."""

    def rule(past, sentence):
        if past == [3] * len(past):
            end = 0.99 if len(past) == 2 else 0.0
            return [0, end, 0, 0.99 - end, 0.005, 0.005]
        return [0, 0, 0.4, 0, 0.3, 0.3]

    planted = Planted(monkeypatch, rule)
    for alpha in (0.0, 0.6):
        found = planted.search(max_len=100, beam_size=5, length_penalty=alpha)
        assert found[0][0] == [3, 3]
        assert len(planted.batches) == 3


def test_the_search_stops_when_the_beam_is_full_of_better_outputs(monkeypatch):
    """Rate every longer output higher: a beam of 2 does not wait for it."""
    planted = Planted(monkeypatch, lambda past, sentence: [0, 0.5, 0, 0.5, 0, 0])
    [(ids, score)] = planted.search(max_len=60, beam_size=2, length_penalty=2.0)
    assert ids == [] and score == pytest.approx(math.log(0.5))
    assert len(planted.batches) == 2


def test_finished_sentences_leave_the_batch(monkeypatch):
    lengths = [1, 5, 3]

    def rule(past, sentence):
        end = float(len(past) == lengths[sentence])
        return [0, end, 0, 1.0 - end, 0, 0]

    planted = Planted(monkeypatch, rule)
    found = planted.search(rows=3, beam_size=1)
    assert [len(ids) for ids, _ in found] == lengths
    assert planted.batches == [3, 3, 2, 2, 1, 1]


def test_an_output_without_end_is_cut_and_competes(monkeypatch):
    planted = Planted(monkeypatch, None)
    for end, length in ((0.0, 5), (0.1, 5), (0.9, 0)):
        chances = [0, end, 0, 1.0 - end, 0, 0]
        planted.rule = lambda past, sentence, chances=chances: chances
        [(ids, _)] = planted.search(max_len=6, beam_size=3, length_penalty=0.0)
        assert ids == [3] * length
    assert planted.search(max_len=1)[0] == ([], 0.0)


def test_only_hypotheses_that_exist_are_decoded(monkeypatch):
    widths, step = [], at.decode_step

    def noted(model, cache, ys):
        widths.append(len(ys) // 4)
        return step(model, cache, ys)

    monkeypatch.setattr(at, "decode_step", noted)
    search(some_model(vocab=5), *some_source(), 4, beam_size=64)
    assert widths == [1, 4, 16]


# --- averages ----------------------------------------------------------------


def small(seed: int, **options) -> at.EncoderDecoder:
    torch.manual_seed(seed)
    return at.make_model(9, 9, 1, 8, 16, 2, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_mean_of_equal_models_is_that_model(dtype):
    model, result = small(1).to(dtype), small(2).to(dtype)
    at.average(result, [model] * 3)
    state = result.state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, state[name]) and state[name].dtype == dtype


@pytest.mark.parametrize("tie", ["none", "all"])
def test_the_mean_of_two_is_the_midpoint(tie):
    one, two, result = (small(seed) for seed in range(3))
    for model in (one, two, result):
        at.tie_weights(model, tie)
    at.average(result, (model for model in (one, two)))
    models = (result, one, two)
    for a, b, c in zip(*(model.parameters() for model in models), strict=True):
        assert torch.allclose(a, (b + c) / 2)
        assert a.requires_grad and a.grad_fn is None
    assert not torch.equal(one.generator.proj.weight, two.generator.proj.weight)
    shared = result.generator.proj.weight is result.src_embed[0].lut.weight
    assert shared == (tie == "all")


def test_a_model_may_be_its_own_average():
    one, two = small(1), small(2)
    expected = (one.generator.proj.weight + two.generator.proj.weight) / 2
    at.average(one, [one, two])
    assert torch.allclose(one.generator.proj.weight, expected)


def test_checkpoints_are_averaged_and_integers_kept(tmp_path):
    paths = []
    for i in range(3):
        state = {"w": torch.full((2, 2), float(3 * i)), "steps": torch.tensor(10 + i)}
        paths.append(tmp_path / f"step-{i:06}.safetensors")
        save_tensors(paths[-1], state)
    mean = average_checkpoints(paths)
    assert torch.equal(mean["w"], torch.full((2, 2), 3.0))
    assert mean["steps"].item() == 12 and not mean["steps"].is_floating_point()


def test_models_that_do_not_match_are_refused(tmp_path):
    one, deeper = small(1), at.make_model(9, 9, 2, 8, 16, 2)
    before = {name: tensor.clone() for name, tensor in one.state_dict().items()}
    with pytest.raises(at.DataError, match="model 2"):
        at.average(one, [one, deeper])
    with pytest.raises(at.DataError, match="no model"):
        at.average(one, [])
    assert all(torch.equal(before[name], t) for name, t in one.state_dict().items())
    save_tensors(tmp_path / "a.safetensors", {"w": torch.zeros(2)})
    save_tensors(tmp_path / "b.safetensors", {"w": torch.zeros(3)})
    with pytest.raises(at.DataError, match="b.safetensors"):
        average_checkpoints([tmp_path / "a.safetensors", tmp_path / "b.safetensors"])


# --- what the chapter says of measurements ---------------------------------------


# --- trainings on Multi30k ------------------------------------------------


RESULTS = project_folder() / "results"


def stored(file, *runs):
    """Return what a file in the folders of these runs holds."""
    return [read_json(RESULTS / run / file) for run in runs]


def configs(*runs):
    return [read_config_file(RESULTS / run)["config"] for run in runs]


def changed(one, other):
    """Return the names of the settings that differ, but for those of the machine."""
    names = {name for name in one if one[name] != other.get(name)}
    return names - {"run_dir", "threads", "save_seconds"}


SEEDS = [f"multi30k-2026-seed{seed}" for seed in range(3)]
DIVERSIFIED = [f"multi30k-diversified{seed}" for seed in ("", "-seed1", "-seed2")]


def comparable(*runs):
    """Return the scores on validation and on the test set, all by one signature."""
    found, tested = stored("validation.json", *runs), stored("evaluate.json", *runs)
    assert len({scores["signature"] for scores in found + tested}) == 1
    assert all(scores["sentences"] == 1000 for scores in tested)
    return found, tested


def test_the_runs_of_2026_differ_in_their_seed_alone():
    """Check that they are better than the others, as chapters 6 and 95 say."""
    for runs in (SEEDS, ["multi30k-2026", "multi30k-2026-again"]):
        first, *others = configs(*runs)
        assert all(changed(each, first) == {"seed"} for each in others)
    [recipe] = configs("multi30k-2026")
    assert changed(recipe, dataclasses.asdict(CONFIGS["2026"])) == set()
    for ours, older in zip(comparable(*SEEDS), comparable(*DIVERSIFIED), strict=True):
        assert min(x["bleu"] for x in ours) > max(x["bleu"] for x in older)
    bleu = [scores["bleu"] for scores in stored("evaluate.json", *SEEDS)]
    readme = (project_folder() / "README.md").read_text("utf-8")
    mean, deviation = statistics.mean(bleu), statistics.stdev(bleu)
    spread = f"three seeds: mean {mean:.1f}, standard deviation {deviation:.1f} |"
    assert f"{bleu[0]:.1f} sacreBLEU" in readme and spread in readme


def test_what_the_text_says_of_more_pairs_was_measured():
    runs = ["multi30k-small", *DIVERSIFIED]
    found, _ = comparable(*runs)
    assert [round(x["bleu"], 1) for x in found] == [42.8, 43.9, 43.1, 42.7]
    plain, *more = configs(*runs)
    assert [config["seed"] for config in more] == [0, 1, 2]
    allowed = {"train_src", "train_tgt", "epochs", "dropout", "keep"}
    for config in more:
        assert changed(config, plain) <= allowed | {"average", "seed"}
    shipped = read_json(project_folder() / "models/multi30k/evaluate.json")
    best = max(scores["bleu"] for scores in found)
    assert best == pytest.approx(shipped["valid"]["bleu"], abs=0.1)


# --- the ladder ---------------------------------------------------------------


def test_what_the_chapter_says_of_the_ladder_holds_for_what_is_stored():
    ladder = read_json(project_folder() / "results" / "ladder.json")
    rungs = {row["rung"]: row for row in ladder["rungs"]}
    gain = {name: row.get("difference", []) for name, row in rungs.items()}
    assert sorted(g > 2 for g in gain["subwords"]) == [False, True, True]
    assert abs(min(gain["subwords"])) < 0.1
    assert max(gain["one table"]) > 1 and min(gain["one table"]) < -0.7
    halved = rungs["one table"]["parameters"] / rungs["subwords"]["parameters"]
    assert halved == pytest.approx(0.5, abs=0.02)
    assert rungs["a cache"]["sentences"] == rungs["one table"]["sentences"]
    assert gain["a cache"] == [0, 0, 0]
    assert all(0.3 < g < 0.85 for g in gain["a beam"])
    assert sorted(g > 0.8 for g in gain["averaged"]) == [False, True, True]
    assert min(gain["averaged"]) == pytest.approx(-0.2, abs=0.05)
    unknown = ["<unk>" in line for line in rungs["words"]["sentences"][0]]
    assert sum(unknown) == 6
    for name, row in rungs.items():
        for lines in row["sentences"]:
            assert name == "words" or not any("<unk>" in line for line in lines)
    what = "nats per sentence"
    runs = [run for three in ladder["trainings"].values() for run in three]
    won = [run[what] - run[f"{what}, averaged"] for run in runs]
    assert len(won) == 9 and 0.2 < min(won) and max(won) < 0.84
    assert all(23.5 < run[what] < 30.5 for run in runs)
    settings = ladder["settings"]
    left = math.sqrt(settings["warmup"] / settings["updates"])
    assert left == pytest.approx(0.45, abs=0.005)


def test_the_ladders_chart_has_a_line_for_each_seed():
    rungs = [
        {"rung": "a", "bleu": [1.0, 2.0], "milliseconds a sentence": 3},
        {"rung": "b", "bleu": [3.0, 1.5], "milliseconds a sentence": 4},
    ]
    chart = chapter_4.ladder_chart(rungs).to_dict()
    tables = sorted(chart["datasets"].values(), key=len)
    assert [len(table) for table in tables] == [2, 4]
    of_seed = {(dot["seed"], dot["rung"]): dot["BLEU"] for dot in tables[1]}
    assert of_seed == {(0, "a"): 1.0, (1, "a"): 2.0, (0, "b"): 3.0, (1, "b"): 1.5}


def test_merges_can_be_stepped_through():
    chart = chapter_4.merge_chart(itertools.islice(at.learn(["aa aa"]), 2)).to_dict()
    [param] = chart["params"]
    assert param["name"] == "merges" and param["bind"]["max"] == param["value"] == 2
    [symbols] = chart["datasets"].values()
    assert [s["symbol"] for s in symbols if s["new"]] == ["aa", "Ġaa"]
