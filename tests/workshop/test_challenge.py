"""data/challenge and data/trust are what their READMEs say; what is scored is right."""

import math
import re
from collections import Counter

import pytest
import torch
from small_runs import program

import annotated_transformer as at
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import fingerprint, read_json
from transformer_workshop.base.shipped_models import DEFAULT_MODEL
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.models.translator import load_translator
from transformer_workshop.text.corpora import load_pairs

FOLDER = project_folder()
challenge = program("benchmarks/challenge.py")
ITEMS = challenge.load_items()
each_model = pytest.mark.parametrize("name", ["multi30k", "multi30k-2026"])


def words(text):
    """Return the words of a text in lower case, without punctuation marks."""
    return re.findall(r"[^\W\d_]+", text.lower())


def table(name):
    """Return the rows of a file in data/trust as dictionaries."""
    header, *lines = read_lines(FOLDER / "data/trust" / name)
    names = header.split("\t")
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines]


# ---------------------------------------------------------------- the challenge set


def test_twenty_sentences_of_each_kind_and_none_twice():
    assert set(Counter(item.kind for item in ITEMS).values()) == {20}
    assert len({item.kind for item in ITEMS}) == 15
    assert len({item.german for item in ITEMS}) == len(ITEMS) == 300


def test_partners_exchange_their_english_and_differ_little():
    for a, b in zip(ITEMS[::2], ITEMS[1::2], strict=True):
        assert a.kind == b.kind and a.german != b.german
        assert (a.right, a.wrong) == (b.wrong, b.right) and a.right != a.wrong
        one, other = words(a.right), words(b.right)
        assert len(one) == len(other), (a, b)
        assert (Counter(one) - Counter(other)).total() <= 3, (a, b)


def test_patterns_tell_the_right_english_from_the_wrong():
    for item in ITEMS:
        assert challenge.outcome(item, item.right) == "shown", item
        assert challenge.outcome(item, item.wrong) == "opposite", item


@pytest.mark.slow
@pytest.mark.multi30k
def test_every_word_is_in_the_training_data_and_no_sentence_is():
    config = TrainingConfig(dataset="multi30k")
    pairs = load_pairs(config, "train")
    theirs = [*pairs, *load_pairs(config, "valid")]
    for side, ours in ((0, [x.german for x in ITEMS]), (1, [x.right for x in ITEMS])):
        counts = Counter(word for pair in pairs for word in words(pair[side]))
        assert {w for line in ours for w in words(line) if counts[w] < 3} == set()
        seen = {pair[side].lower().rstrip(".") for pair in theirs}
        assert not seen & {line.lower().rstrip(".") for line in ours}


def test_outcome_of_a_translation():
    item = next(i for i in ITEMS if i.german == "Den Hund jagt das Mädchen.")
    assert challenge.outcome(item, "A girl chases a dog.") == "shown"
    assert challenge.outcome(item, "The dog is being chased by a girl.") == "shown"
    assert challenge.outcome(item, "A dog chases the girl.") == "opposite"
    assert challenge.outcome(item, "A dog and a girl are running.") == "neither"


# --------------------------------------------------------------------- the benchmark


def test_scores_are_the_log_probabilities_of_one_token_after_the_other():
    translator = load_translator(FOLDER / DEFAULT_MODEL, "cpu")
    model, text = translator.model, translator.text
    pairs = [(item.german, e) for item in ITEMS[:40:20] for e in item[2:4]]
    expected = []
    with at.in_mode(model, training=False), torch.inference_mode():
        for german, english in pairs:
            src, tgt = (
                torch.tensor([ids]) for ids in text.encode_pair(german, english)
            )
            mask = torch.ones(1, 1, src.size(1), dtype=torch.bool)
            memory, total = model.encode(src, mask), 0.0
            for i in range(1, tgt.size(1)):
                seen = tgt[:, :i]
                out = model.decode(memory, mask, seen, at.subsequent_mask(i))
                total += model.generator(out[:, -1])[0, tgt[0, i]].item()
            expected.append(total)
    found = challenge.log_probabilities(translator, pairs)
    assert found == pytest.approx(expected, abs=1e-3)


def test_wilson_interval():
    assert challenge.wilson(15, 20) == [53.1, 88.8]
    assert challenge.wilson(0, 20)[0] == 0 and challenge.wilson(20, 20)[1] == 100
    for bound in challenge.wilson(8, 20):  # as far from 40 % as 1.96 of its own errors
        error = math.sqrt(bound * (100 - bound) / 20)
        assert abs(40 - bound) == pytest.approx(1.96 * error, abs=0.2)


def test_stored_results_are_the_shipped_models():
    for name, model in read_json(FOLDER / "results/challenge.json")["models"].items():
        weights = (FOLDER / "models" / name / "model.safetensors").read_bytes()
        assert model["weights"] == fingerprint(weights)


@each_model
def test_readme_shows_the_stored_results(name):
    path = FOLDER / "data/challenge/README.md"
    readme = " ".join(path.read_text(encoding="utf-8").split())
    model = read_json(FOLDER / "results/challenge.json")["models"][name]

    def cell(counts):
        low, high = challenge.wilson(counts["count"], counts["of"], digits=9)
        return f"{counts['count']} ({low:.0f}–{high:.0f} %)"

    for kind, counts in model["kinds"].items():
        preferred, shown = cell(counts["preferred"]), cell(counts["shown"])
        both = counts["both of a pair"]["count"]
        assert f"| {kind} | {preferred} | {both} | {shown} |" in readme
    whole = model["all"]
    assert f"the right English for {cell(whole['preferred'])}" in readme
    assert f"in {whole['both of a pair']['count']} of the 150 pairs" in readme
    assert f"{cell(whole['shown'])} of the translations show" in readme


# ------------------------------------------------------------ the sentences to trust


def test_pages_say_how_many_translations_are_flagged():
    models = read_json(FOLDER / "results/trust.json")["models"]

    def flagged(name, group, half=""):
        found = models[name][f"at the threshold{half}"][group]
        return found["count"], found["of"]

    readme = " ".join((FOLDER / "README.md").read_text("utf-8").split())
    count, total = flagged("multi30k-2026", "bad sentences")
    assert f"Of {total} such translations that were labeled bad" in readme
    assert f"`translate` warns about {count};" in readme
    card = " ".join((FOLDER / "data/trust/README.md").read_text("utf-8").split())
    for name in models:
        cells = [
            "{} of {}".format(*flagged(name, f"{label} {group}", half))
            for group, half in (("sentences", ""), ("scenes", ", fit"), ("scenes", ""))
            for label in ("bad", "good")
        ]
        assert f"| {name} | {' | '.join(cells)} |" in card


@each_model
def test_labeled_translations_are_those_of_the_model(name):
    translator = load_translator(FOLDER / "models" / name, "cpu")
    some = slice(None, None, 16)
    sources = [row["german"] for row in table("sentences.tsv")][some]
    labeled = [row["output"] for row in table(f"sentences.{name}.tsv")][some]
    assert translator.translate(sources) == labeled
    scenes = [row["german"] for row in table("scenes.tsv")]
    labeled = [row["output"] for row in table(f"scenes.{name}.tsv")]
    assert translator.translate(scenes) == labeled
