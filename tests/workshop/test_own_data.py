"""A text of one's own: settings and scores that fit it, and nothing in silence."""

import json
import math
import os
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch

import annotated_transformer as at
from transformer_workshop.base.config import SCALES, choose_config, scale_for
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.shipped_models import DEFAULT_MODEL
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.cli import evaluation_commands, training_commands
from transformer_workshop.cli.terminal import main
from transformer_workshop.models import evaluation
from transformer_workshop.models.evaluation import calibrate, choose_tokenizer
from transformer_workshop.models.translator import (
    Translation,
    Translator,
    load_translator,
)
from transformer_workshop.text import cleaning, corpora
from transformer_workshop.text.cleaning import (
    as_seen,
    split_pairs,
    usual_ratio,
    with_faults,
)
from transformer_workshop.text.corpora import load_pairs, read_pairs
from transformer_workshop.text.encoding import prepare_text
from transformer_workshop.text.spelling import respell, split_sentences
from transformer_workshop.text.store import prepare_store
from transformer_workshop.training import inputs, sizing
from transformer_workshop.training.inputs import read_inputs
from transformer_workshop.training.loop import count_updates, epochs_without_gain
from transformer_workshop.training.run_folder import read_metrics


def sentences(count):
    """Return pairs of a toy language, all different."""
    draw = random.Random(0)
    words = [f"w{i}" for i in range(40)]
    return [
        (" ".join(draw.choices(words, k=6)) + ".", " ".join(draw.choices(words, k=5)))
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Write 120 training and 12 validation pairs; return their flags as settings."""
    folder = tmp_path_factory.mktemp("text")
    given = {}
    for split, pairs in (("train", sentences(120)), ("valid", sentences(132)[120:])):
        for side, lines in zip(("src", "tgt"), zip(*pairs, strict=True), strict=True):
            path = folder / f"{split}.{side}"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            given[f"{split}_{side}"] = str(path)
    return given


def flags(given):
    """Return settings as the flags of `train`."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]


def fitted(given):
    """Set a run up whose other settings are chosen by the size of its text."""
    return read_inputs(choose_config(**given), [], given=given)


# settings that fit


def test_settings_come_from_the_number_of_pairs(files):
    """The updates are about those of the scale, and the warm-up a tenth of them."""
    setup = fitted(files)
    config = setup.config
    scale = SCALES[0]
    assert (config.N, config.d_model, config.dropout) == (2, 96, scale.dropout)
    updates = count_updates(setup.train, config.batch_tokens, config.epochs)
    assert updates == pytest.approx(scale.updates, rel=0.2)
    assert config.warmup == pytest.approx(updates / 10, rel=0.2)
    assert f"--epochs {config.epochs}\n" in sizing.list_choices(config, files)


def test_what_is_given_stays(files):
    """A short run gets a short warm-up, and a given setting isn't announced."""
    given = files | {"epochs": 1, "d_model": 32, "bpe_size": 0}
    setup = fitted(given)
    config = setup.config
    assert (config.epochs, config.d_model, config.tie) == (1, 32, "none")
    assert isinstance(setup.text.tokenizer_src, at.WordTokenizer)
    assert config.warmup <= count_updates(setup.train, config.batch_tokens, 1)
    assert "--d-model" not in sizing.list_choices(config, given)


def test_few_characters_get_few_subwords(files):
    """Each subword stands for 20 characters of the training text at least."""
    text = fitted(files).text
    characters = sum(len(side) for pair in sentences(120) for side in pair)
    assert len(text.vocab_src) <= max(260, characters // 20)


def test_a_larger_corpus_gets_no_smaller_model():
    for small, large in zip(SCALES, SCALES[1:], strict=False):
        for name in ("pairs", "bpe_size", "N", "d_model", "d_ff", "h", "updates"):
            assert getattr(small, name) <= getattr(large, name)
        pairs = int(small.pairs)  # up to so many
        assert scale_for(pairs) is small and scale_for(pairs + 1) is large


def test_heads_are_those_of_the_chosen_width(files, capsys):
    shapes = {"h=6": (6, 96), "d_model=66,h=6": (6, 66), "d_model=100": (4, 100)}
    for given, expected in shapes.items():
        sizes = {k: int(v) for k, _, v in (x.partition("=") for x in given.split(","))}
        config = fitted(files | sizes).config
        assert (config.h, config.d_model) == expected
    assert main(["train", "--dry-run", "--h=5", *flags(files)]) == 2
    error = capsys.readouterr().err
    assert "h=5: does not divide d_model=96 into equal heads" in error


def test_line_ends_of_other_systems(files, tmp_path):
    source, path = files["train_src"], tmp_path / "text"
    lines = read_lines(source)
    path.write_bytes("".join(f"{line}\r\r\n" for line in lines).encode())
    pairs = read_pairs(path, files["train_tgt"])
    assert read_lines(path) == lines == [src for src, _ in pairs]


def test_a_dry_run_writes_nothing(files, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", "--dry-run", f"--run-dir={run}", *flags(files)]) == 0
    assert "--epochs" in capsys.readouterr().err
    assert not run.exists()


def test_a_refused_call_leaves_no_folder(files, tmp_path, capsys):
    run, missing = tmp_path / "a/b", files | {"valid_src": str(tmp_path / "no.txt")}
    assert main(["train", f"--run-dir={run}", *flags(missing)]) == 2
    assert "no.txt" in capsys.readouterr().err
    assert not run.parent.exists()


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_what_is_too_long_is_refused_before_anything_is_written(
    files, tmp_path, capsys, dry
):
    for side in ("src", "tgt"):
        (tmp_path / side).write_text("w " * 200 + "\n", encoding="utf-8")
    long = files | {f"valid_{side}": str(tmp_path / side) for side in ("src", "tgt")}
    assert main(["train", f"--run-dir={tmp_path}/run", *dry, *flags(long)]) == 2
    assert "valid split: holds no pair that is short" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_run_is_set_up_once(files, tmp_path, monkeypatch):
    """Each split is read once and the model built once, also if the run continues."""
    calls = Counter()

    def count(module, name):
        real = getattr(module, name)

        def counted(*arguments, **options):
            calls[name] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(module, name, counted)

    count(training_commands, "starts_so_far")
    count(corpora, "stream_parallel")
    count(inputs, "build_model")
    command = ["train", f"--run-dir={tmp_path}", "--d-model=16", "--d-ff=16"]
    for epochs in (1, 2):
        calls.clear()
        assert main([*command, f"--epochs={epochs}", *flags(files)]) == 0
        once = {"starts_so_far": 1, "stream_parallel": 2, "build_model": 1}
        assert calls == once


def test_a_useless_model_is_called_so_and_its_run_continues(files, tmp_path, capsys):
    """After two updates, nothing is recommended; without files, it is the same run."""
    run = f"--run-dir={tmp_path}"
    short = ["--epochs=1", "--d-model=16", "--d-ff=16", "--batch-tokens=4000"]
    assert main(["train", run, *short, *flags(files)]) == 0
    said = capsys.readouterr().err
    assert "not usable yet" in said
    assert said.count("→") == 2 + 5  # the first training pairs, and the worst
    assert main(["train", run]) == 0
    assert "this run is finished" in capsys.readouterr().err


def test_a_run_is_extended_and_another_begins_with_its_weights(files, tmp_path, capsys):
    """More epochs continue; a new run on other text begins below an untrained model."""
    whole = {"d_model": 16, "d_ff": 16, "epochs": 40, "threads": 1}
    first, second = (f"--run-dir={tmp_path}/{name}" for name in ("first", "second"))
    assert main(["train", first, *flags(files | whole)]) == 0
    assert main(["train", first, "--epochs=42"]) == 0
    records = read_metrics(tmp_path / "first")
    assert [record["epoch"] for record in records] == [*range(1, 43)]
    assert "epoch 42/42: loss" in capsys.readouterr().err
    init = f"--init={tmp_path}/first"
    assert main(["train", second, init, "--epochs=1", *flags(files)]) == 0
    fresh, begun = (read_metrics(tmp_path / name)[0] for name in ("first", "second"))
    assert begun["valid_nll"] < fresh["valid_nll"]
    texts = [(tmp_path / name / "vocabulary.json") for name in ("first", "second")]
    assert texts[0].read_bytes() == texts[1].read_bytes()
    for name in ("model", "best"):  # which are not needed again
        (tmp_path / "first" / f"{name}.safetensors").unlink()
    assert main(["train", second, "--epochs=2"]) == 0


@pytest.mark.parametrize(
    ("flag", "hint"), [("--batch-size=4", "--batch-tokens"), ("--lr=1", "--base-lr")]
)
def test_other_programs_flags_lead_to_ours(flag, hint, capsys):
    assert main(["train", flag]) == 2
    assert hint in capsys.readouterr().err


def test_unigram_perplexity_by_hand():
    """Three of four answers are 5; one more of each of the ten words is counted."""
    train = [([0, 1], [0, 5, 5, 5, 1])]
    expected = math.exp(-(2 * math.log(4 / 14) + math.log(2 / 14)) / 3)
    found = evaluation.unigram_perplexity(train, [([0, 1], [0, 5, 5, 1])], 10)
    assert found == pytest.approx(expected)


# scores


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Ein Hund läuft.", "13a"),
        ("Собака бежит.", "13a"),
        ("一只狗在跑。", "zh"),
        ("หมาวิ่ง", "char"),
        ("... 123", "13a"),
    ],
)
def test_the_tokenizer_follows_the_script(line, expected):
    assert choose_tokenizer([line]) == expected


@pytest.mark.parametrize("package", [True, False])
def test_japanese_and_korean_need_a_package(monkeypatch, package):
    found = (lambda name: object()) if package else (lambda name: None)
    monkeypatch.setattr(evaluation, "find_spec", found)
    expected = ["ja-mecab", "ko-mecab"] if package else ["char", "char"]
    lines = "犬が走っている。", "개가 달린다."
    assert [choose_tokenizer([line]) for line in lines] == expected


def test_perfect_japanese_is_perfect():
    """Under 13a, which takes a sentence for a word, four words are too few for BLEU."""
    lines = ["犬が走っている。", "私は本を読みます。"]
    assert at.score(lines, lines, choose_tokenizer(lines))["bleu"] == 100
    assert at.score(lines, lines)["bleu"] < 5


# nothing vanishes


@pytest.mark.parametrize(
    ("line", "language", "parts"),
    [
        ("犬が走る。猫が寝る。", "ja", ["犬が走る。", "猫が寝る。"]),
        ("「行く。」と言った。本当？", "ja", ["「行く。」と言った。", "本当？"]),
        ("他来了！你呢？", "xx", ["他来了！", "你呢？"]),
        ("كيف حالك؟ أنا بخير.", "ar", ["كيف حالك؟", "أنا بخير."]),
        ("वह आया। वह गया।", "hi", ["वह आया।", "वह गया।"]),
        ("Das ist z. B. ein Hund. Er läuft.", "de", None),
        ("¿Qué? ¡No!", "es", ["¿Qué?", "¡No!"]),
        ("Un. Deux.", "no-such-language", ["Un.", "Deux."]),
        ("Dr. Bo vidí Mrs. Lee. Jde.", "xx", ["Dr. Bo vidí Mrs. Lee.", "Jde."]),
        ("Volá Dr. Kdo (", "cs", None),
        ("  ", "ja", []),
    ],
)
def test_sentences_end_by_the_language(line, language, parts):
    found = split_sentences(line, language)
    assert "".join("".join(found).split()) == "".join(line.split())
    if parts is not None:
        assert [part.strip() for part in found] == parts


@pytest.mark.parametrize(
    "line",
    [
        "Am 3. Mai 2020 kam er.", "No. 5 is alive.", "See Fig. 3 for details.",
        "e.g. the first, i.e. this.", "Mr. Smith met Prof. Lee at 5 p.m. on Monday.",
        "approx. 5 km", "1. Open the file.", "Error loading calendar. %s",
        "user-defined locations, i.e. %s", "_Fattal et al. 2002...",
        "J. R. R. Tolkien wrote it.", "Visit www.Example.com now.", "Ja... vielleicht.",
        "was? ja! nein. doch.", "Wow!!1 Great", "«Oui!» dit-il.",
        "Version 2. 3 is out.", "Он живёт на ул. мира.", "下雨。3点停。",
    ],
)  # fmt: skip
def test_no_sentence_ends_before_what_continues_it(line):
    for language in ("xx", "en", "de", "cs", "no-such-language"):
        assert split_sentences(line, language) == [line]


@pytest.mark.parametrize("dataset", ["files", "captions"])
def test_own_text_is_read_as_it_is_unless_a_flag_says_otherwise(small, dataset):
    line = "EIN HUND. Er schlaeft. IT"
    own = replace(small, config=replace(small.config, dataset=dataset))
    parts = ["EIN HUND.", "Er schlaeft.", "IT"]
    spelled = ["Ein Hund.", "Er schläft.", "It"]
    for by_sentence in (None, True, False):
        for mend in (None, True, False):
            chosen = {"by_sentence": by_sentence, "respell": mend}
            chosen["source_language"] = "de"
            one = replace(own, config=replace(own.config, **chosen))
            ours = dataset != "files"
            split, changed = (ours if x is None else x for x in (by_sentence, mend))
            expected = parts if split else [line]
            found = one.sentences(line)
            if not changed:
                assert found == expected
            elif split:
                assert found[:2] == spelled[:2]
            else:
                assert found == ["EIN HUND. Er schläft. IT"]


def test_a_training_source_comes_out_as_it_went_in(files, tmp_path):
    """Whatever its case and its blanks: the model gets the ids that it learned."""
    odd = [
        "IT",
        "it",
        "EIN HUND. Eine Katze.",
        "Mae  ass\tgraue",
        "e\u0301t\u00e9\u00a0!",
    ]
    given = {}
    for side in ("src", "tgt"):
        path = tmp_path / side
        path.write_text("".join(f"{line}\n" for line in odd * 9), encoding="utf-8")
        given |= {f"train_{side}": str(path), f"valid_{side}": str(path)}
    (tmp_path / "tgt").write_text("".join(f"{line}!\n" for line in odd * 9))
    for bpe_size in (0, 300):
        setup = fitted(given | {"bpe_size": bpe_size})
        learned = [src for src, _ in setup.train][:5]
        german = replace(setup.config, source_language="de")
        model = Translator(None, setup.text, german)
        read = [model.encode_line(line) for line in odd]
        assert read == [[ids] for ids in learned]


def test_only_german_gets_umlauts():
    text = load_translator("models/captions", "cpu").text
    assert respell("Ein Maedchen", text) == "Ein Mädchen"
    assert respell("Ein Maedchen", text, "fr") == "Ein Maedchen"


def test_spanish_and_guillemets_are_joined():
    tokenizer = at.WordTokenizer("en")
    for line in ("¿Cómo estás?", "¡Hola!", "Er sagt »ja« und «nein»."):
        assert tokenizer.detokenize(tokenizer.tokenize(line)) == line


@pytest.fixture(scope="module")
def small():
    """Return the captions model; its texts are short."""
    return load_translator("models/captions", "cpu")


@pytest.fixture(scope="module")
def default():
    """Return the model of Multi30k that `translate` uses."""
    return load_translator(DEFAULT_MODEL, "cpu")


def test_wrong_calls_are_answered_in_words(small):
    ids = torch.ones(2, 4, dtype=torch.long)
    batch = at.data_gen(11, 2, 1)
    model = at.make_model(11, 11, N=1, d_model=16, d_ff=16, h=2)
    loss = at.SimpleLossCompute(model.generator, at.LabelSmoothing(11, 0))
    epoch = (batch, model, loss, None, None, "eval")
    assert at.run_epoch(*epoch)[0] > 0
    for call, error, words in (
        (lambda: small.translate("Ein Hund"), TypeError, "a list"),
        (lambda: small.translate(["Ein Hund."], 0), ValueError, "beam_size=0"),
        (lambda: at.Batch(ids, ids[:1]), ValueError, "2 source rows for 1 target"),
        (lambda: at.LabelSmoothing(12, 2, 1.5), ValueError, "smoothing=1.5"),
        (lambda: at.run_epoch(*epoch), ValueError, "there are no batches"),
    ):
        with pytest.raises(error, match=words):
            call()


# a translation that ran away


def test_an_output_stops_by_its_own_sources_length(small):
    """A model that never ends is cut at each row's limit, whatever the batch."""

    class Endless(Translator):
        def limit(self, src):
            return 4 if len(src) < 6 else 7

    endless = Endless(small.model, small.text, replace(small.config, max_tokens=30))
    rows = [small.encode(line) for line in ("Ein Hund.", "Ein Mann kocht eine Suppe.")]
    together = endless.decode_batch(rows, 3, 1.0)
    alone = [endless.decode_batch([row], 3, 1.0)[0] for row in rows]
    assert [ids for ids, _ in together] == [ids for ids, _ in alone]
    for (ids, _), limit in zip(together, (4, 7), strict=True):
        assert len(ids) <= limit - 1


@pytest.mark.parametrize(
    ("source", "output", "fault"),
    [
        ([5, 6, 7], [5, 6, 7], ""),
        ([5, 6, 7], [5, 5, 5], "repeats"),
        ([5, 5, 5], [6, 6, 6], ""),  # as the source does
        (list(range(4, 16)), [5, 6, 7], "missing"),
        (list(range(4, 16)), [5, 6, 7, 8], ""),
        ([5, 6, 7], list(range(100)), "cut"),
    ],
)
def test_faults_need_no_threshold(small, source, output, fault):
    unsure = replace(small, threshold=None)
    found = unsure.fault([at.START, *source, at.END], output)
    assert (fault in found) if fault else not found
    assert bool(unsure.doubt(1.0, found)) == bool(fault)


@pytest.mark.parametrize(
    ("source", "output", "lost"),
    [
        ("Niemand sitzt auf der Bank.", "Native Americans sit on the bench.", True),
        ("NIEMAND SITZT.", "A man is sitting.", True),
        ("Keinem Hund gefällt das.", "A dog likes that.", True),
        ("Er kommt nie.", "He is coming at night.", True),
        ("Niemand sitzt auf der Bank.", "No one is sitting on the bench.", False),
        ("Ein Mann ohne Hemd.", "A shirtless man.", False),
        ("Er hat keine Schuhe an.", "He is barefoot.", False),
        ("Das ist nicht gut.", "That isn't good.", False),
        ("Das ist nicht gut.", "That isn’t good.", False),
        ("Das geht nicht.", "That cannot work.", False),
        ("Eine Nichte sitzt im Kino.", "A niece is at the movies.", False),
        ("Sie neigt sich nieder.", "She bends down.", False),
        ("Ein Mann sitzt.", "No man is sitting.", False),  # an invented one
    ],
)
def test_a_lost_negation_is_a_fault_from_german_to_english(
    default, source, output, lost
):  # fmt: skip
    is_lost_from_german(default, "negation", source, output, lost)


@pytest.mark.parametrize(
    ("source", "output", "lost"),
    [
        ("Siebzehn Schüler stehen da.", "They are standing there.", True),
        ("Sieben Kinder sehen acht Vögel.", "Seven children see birds.", True),
        ("Sieben Kinder sehen acht Vögel.", "Seven children see 8 birds.", False),
        ("Zwei Frauen lachen.", "A pair of women laugh.", False),
        ("Die beiden lachen.", "They laugh.", False),
        ("Eine Frau achtet auf ihr Kind.", "A woman is minding her child.", False),
    ],
)
def test_a_lost_number_is_a_fault_from_german_to_english(
    default, source, output, lost
):  # fmt: skip
    is_lost_from_german(default, "number", source, output, lost)


def is_lost_from_german(default, what, source, output, lost):
    text, config = default.text, default.config
    src = text.encode(source)
    ids = text.vocab_tgt(text.tokenizer_tgt.tokenize(output))
    assert (what in default.fault(src, ids)) == lost
    for other in ({"source_language": "fr"}, {"dataset": "files"}):
        elsewhere = replace(default, config=replace(config, **other))
        assert elsewhere.fault(src, ids) == ""


@pytest.mark.parametrize(
    ("output", "repeats"),
    [
        ("a a", False), ("a a a", True), ("a b a b", False), ("b a b a b a c", True),
        ("a b c a b c", False), ("a b c a b c a b c", True),
        ("a b c d a b c d", True), ("x a b c d a b c d y", True),
        ("a b c d a b c", False), ("a b c d a b c e a b c d", False),
    ],
)  # fmt: skip
def test_an_output_repeats_three_tokens_thrice_or_four_twice(default, output, repeats):
    src = [at.START, *range(100, 100 + len(output.split())), at.END]
    ids = [200 + ord(letter) for letter in output.split()]
    assert (default.fault(src, ids) == "it repeats itself") == repeats


# calibration


def test_a_note_shows_a_confidence_below_the_threshold(small):
    note = replace(small, threshold=0.896).doubt(0.8959)
    assert "confidence 0.895, below 0.896" in note


@pytest.mark.parametrize(
    ("outputs", "confidences", "why"),
    [
        (["A dog ran by."] * 100, [0.5] * 100, "says nothing"),
        (["Zzz."] * 100, [i / 100 for i in range(100)], "too badly"),
        (
            ["A dog runs."] * 5 + ["A dog ran by."] * 95,
            [i / 100 for i in range(100)],
            "says nothing",
        ),
    ],
)
def test_calibration_refuses_to_mislead(small, monkeypatch, outputs, confidences, why):
    found = [Translation(*each) for each in zip(outputs, confidences, strict=True)]
    monkeypatch.setattr(Translator, "translations", lambda *_: found)
    with pytest.raises(at.DataError, match=why):
        calibrate(small, [("Ein Hund läuft.", "A dog runs.")] * 100)


def test_a_model_that_is_always_right_doubts_what_is_less_certain(small, monkeypatch):
    found = [Translation("A dog runs.", 0.5004 + i / 201) for i in range(100)]
    monkeypatch.setattr(Translator, "translations", lambda *_: found)
    chosen = calibrate(small, [("Ein Hund läuft.", "A dog runs.")] * 100)
    assert (chosen["threshold"], chosen["share"]) == (0.5, 0)


def test_evaluate_writes_the_translations(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(project_folder())
    for name, line in (("a", "Ein Hund schläft.\n"), ("b", "A dog is sleeping.\n")):
        (tmp_path / name).write_text(line, encoding="utf-8")
    out = tmp_path / "out.txt"
    command = f"evaluate --model models/captions --src {tmp_path}/a --ref {tmp_path}/b"
    assert main([*command.split(), f"--out={out}", "--tokenize=char"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert "tok:char" in scores["signature"]
    assert out.read_text(encoding="utf-8") == "A dog is sleeping.\n"
    assert scores["chrf++"] == 100
    assert scores["chrf_source"] < 60


@pytest.mark.parametrize("column", ["", ":1"])
def test_evaluate_does_not_write_over_its_input(tmp_path, capsys, column):
    file = tmp_path / "a.csv"
    file.write_text("Ein Hund.,A dog.\n", encoding="utf-8")
    command = ["evaluate", f"--src={file}{column}", f"--ref={file}:2", f"--out={file}"]
    assert main(command) == 2
    assert "is one of the files to evaluate on" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == "Ein Hund.,A dog.\n"


def evaluated(folder, pairs, capsys, *flags):
    """Run `evaluate` on pairs; return its status, its scores, and what it says."""
    src, ref = write_sides(folder, pairs)
    model = project_folder() / "models/captions"
    command = ["evaluate", f"--model={model}", "--beam-size=1", *flags]
    status = main([*command, f"--src={src}", f"--ref={ref}"])
    out, err = capsys.readouterr()
    return status, json.loads(out or "{}"), err


def test_what_cannot_be_scored_is_named_and_the_rest_is_scored(tmp_path, capsys):
    """The file of translations keeps its lines."""
    long = " ".join(["Hund"] * 500)
    pairs = [("Ein Hund schläft.", "A dog is sleeping."), (long, "Dogs."), ("", "x")]
    out = tmp_path / "out"
    status, scores, said = evaluated(tmp_path, pairs, capsys, f"--out={out}")
    assert (status, scores["sentences"], scores["chrf"]) == (0, 1, 100)
    assert "pair 2: has 50" in said and "pair 3: a side is blank. Not scored." in said
    assert out.read_text(encoding="utf-8") == "A dog is sleeping.\n\n\n"
    assert evaluated(tmp_path, pairs[1:], capsys)[0] == 2


def test_bleu_of_short_lines_is_explained(tmp_path, capsys):
    short = [("Ein Hund", "A dog"), ("Ein Kind", "A child")]
    status, scores, said = evaluated(tmp_path, short, capsys)
    assert (status, scores["bleu"]) == (0, 0) and scores["chrf"] > 0
    assert "BLEU is 0: " in said and "far apart" not in said


@pytest.mark.parametrize("late", [False, True])
def test_a_file_that_cannot_be_written_costs_no_score(
    tmp_path, capsys, monkeypatch, late
):
    """It is refused before the work; if it fails later, the scores are printed."""
    pairs, out = [("Ein Hund schläft.", "A dog is sleeping.")], f"--out={tmp_path}"
    if late:
        monkeypatch.setattr(evaluation_commands, "check_writable", lambda path: None)
    status, scores, said = evaluated(tmp_path, pairs, capsys, out)
    assert status == 2 and f"{tmp_path}: can't be written (Is a directory)" in said
    assert scores.get("chrf") == (100 if late else None)


def test_swapped_files_are_noticed_by_evaluate(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(project_folder())
    valid = [f"data/captions/valid.{side}" for side in ("de", "en")]
    for side, file in zip("ab", valid, strict=True):
        lines = read_lines(file)[:20]
        (tmp_path / side).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = "evaluate --model models/captions --beam-size 1 --src {} --ref {}"
    for names, swapped in ((("a", "b"), False), (("b", "a"), True)):
        files = [tmp_path / name for name in names]
        assert main(command.format(*files).split()) == 0
        assert ("are the two swapped?" in capsys.readouterr().err) == swapped


def test_prepare_learns_as_many_subwords_as_train(files, tmp_path):
    store = str(tmp_path / "store")
    command = ["prepare", f"--store={store}"]
    for name in ("train_src", "train_tgt"):
        command.append(f"--{name.replace('_', '-')}={files[name]}")
    assert main(command) == 0
    plain, stored = (
        fitted(given).text.vocab_src.itos for given in (files, {"store": store} | files)
    )
    assert plain == stored


def test_swapped_validation_is_noticed_by_train(tmp_path, capsys):
    given = {}
    for split in ("train", "valid"):
        for side, language in zip(("src", "tgt"), ("de", "en"), strict=True):
            lines = read_lines(f"{project_folder()}/data/captions/{split}.{language}")
            path = tmp_path / f"{split}.{language}"
            path.write_text("\n".join(lines[:200]) + "\n", encoding="utf-8")
            given[f"{split}_{side}"] = str(path)
    crossed = given | {"valid_src": given["valid_tgt"], "valid_tgt": given["valid_src"]}
    for settings, swapped in ((given, False), (crossed, True)):
        config = choose_config(**settings)
        cleaning.report_on_pairs(*(load_pairs(config, s) for s in ("train", "valid")))
        assert ("look swapped" in capsys.readouterr().err) == swapped


def test_a_pipe_is_refused_because_it_can_be_read_only_once(files, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    given = files | {"train_src": str(tmp_path / "pipe")}
    assert main(["train", "--dry-run", *flags(given)]) == 2
    assert "can be read only once" in capsys.readouterr().err


def test_settings_do_not_depend_on_the_order_of_the_lines(tmp_path):
    """Two kinds of lines take turns; no sample may see only one of them."""
    found = []
    for first in (4, 40):
        given = {}
        for side in ("src", "tgt"):
            path = tmp_path / f"{first}.{side}"
            counts = ((first, 44 - first)[i % 2] for i in range(2100))
            lines = (f"{side} " * n + f"{i // 2}\n" for i, n in enumerate(counts))
            path.write_text("".join(lines), encoding="utf-8")
            given |= {f"train_{side}": str(path), f"valid_{side}": str(path)}
        config = fitted(given | {"bpe_size": 0}).config
        found.append((config.longest, config.epochs))
    assert found[0] == found[1] and found[0][0] == 41


def write_sides(folder, pairs):
    """Write pairs to two files; return their names."""
    for side, lines in zip("ab", zip(*pairs, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in lines)
        (folder / side).write_text(text, encoding="utf-8")
    return [str(folder / side) for side in "ab"]


def test_odd_lengths_are_measured_by_the_usual_ratio():
    """Where translations are three times as short, only another ratio is odd."""
    words = [f"{i:0>3}" for i in range(50)]
    pairs = [(" ".join([word] * 30), " ".join([word] * 10)) for word in words]
    assert {why for _, why in with_faults(pairs, usual_ratio(pairs))} == {""}
    [*_, (_, why)] = with_faults([*pairs, ("999", "9" * 120)], usual_ratio(pairs))
    assert why == "of odd length"


def test_a_corpus_is_split_without_a_sentence_in_two_parts(tmp_path, capsys):
    """Sentences that differ in blanks are one; a frequent one stays in training."""
    pairs = sentences(100)
    pairs += [(f"{src} ", f"other {i}") for i, (src, _) in enumerate(pairs)]
    src, tgt = write_sides(
        tmp_path, [*pairs, *[("Ja.", f"Yes {i}") for i in range(20)]]
    )
    command = ["prepare", f"--train-src={src}", f"--train-tgt={tgt}"]
    assert main([*command, f"--text={tmp_path}/parts"]) == 0
    assert "valid 22, test 22, train 176 pairs" in capsys.readouterr().err
    sides = []
    for split in ("train", "valid", "test"):
        files = (f"{tmp_path}/parts/{split}.{side}" for side in ("src", "tgt"))
        found = read_pairs(*files)
        sides.append({as_seen(sentence) for pair in found for sentence in pair})
        assert split == "train" or "Ja." not in sides[-1]
    assert not (sides[0] & sides[1] or sides[0] & sides[2] or sides[1] & sides[2])
    assert main([*command, f"--text={tmp_path}/parts"]) == 2
    assert "exists already" in capsys.readouterr().err
    one, two, again = (split_pairs(pairs, seed)["test"] for seed in (0, 1, 0))
    assert one == again != two


def test_sentences_of_the_same_words_stay_in_one_part():
    pairs = sentences(60)
    pairs += [
        (f"„{src.upper()}“!", f"another {i} ?") for i, (src, _) in enumerate(pairs)
    ]
    parts = split_pairs(pairs)
    assert sum(map(len, parts.values())) == len(pairs)  # nothing is dropped
    words = [
        {src.strip("„“!").casefold() for src, _ in part} for part in parts.values()
    ]
    assert sum(map(len, words)) == len(set.union(*words)) == 60


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Ein Hund.", "ein  hund", True), ("“It’s”", "its!", True),
        ("a b", "ab", False),
        ("Was?", "Was!", True), ("?", "!", False), ("¿Qué?", "qué", False),
        ("STRASSE", "straße", True), ("Hund, Katze", "Hund Katze", False),
    ],
)  # fmt: skip
def test_which_sentences_have_the_same_words(one, other, same):
    assert (cleaning.as_words(one) == cleaning.as_words(other)) == same


def test_what_validation_shares_with_training_is_said(capsys):
    train = [("Ein Hund.", "A dog."), ("Ein Kind.", "A child.")]
    cleaning.report_shared(
        train, [("ein hund", "a dog"), ("Ein Kind!", "Kid"), ("A", "B")]
    )
    said = capsys.readouterr().err
    assert "of 3 pairs, 1 are training pairs, too, and 1 share a sentence" in said
    cleaning.report_shared(train, [("A", "B")])
    assert capsys.readouterr().err == ""


def test_validation_and_test_files_are_cleaned_too(tmp_path, capsys):
    (tmp_path / "valid").mkdir()
    pairs = sentences(20)
    faulty = [*pairs[:9], pairs[0], ("Hund", "Hund"), ("w1 &quot;w2&quot; w3", "w4 w5")]
    valid = write_sides(tmp_path / "valid", faulty)
    command = [f"--valid-src={valid[0]}", f"--valid-tgt={valid[1]}"]
    train = write_sides(tmp_path, pairs)
    both = [*command, f"--train-src={train[0]}", f"--train-tgt={train[1]}"]
    assert main(["train", "--dry-run", *both]) == 0
    note = "valid: of 12 pairs, 1 repeated, 1 untranslated, 1 with markup: `prepare"
    assert note in capsys.readouterr().err
    assert main(["prepare", "--clean", f"--text={tmp_path}/one", *command]) == 0
    assert main(["prepare", "--clean", f"--text={tmp_path}/two", *both]) == 0
    said = capsys.readouterr().err
    assert "valid: left out 1 repeated, 1 untranslated, 1 with markup\n" in said
    assert "train: left out 9 in validation\n" in said
    for name in ("one", "two"):
        folder = tmp_path / name
        assert read_pairs(folder / "valid.src", folder / "valid.tgt") == pairs[:9]
    rest = [*pairs[9:], pairs[15], ("Katze", "Katze")]  # kept, as nothing is cleaned
    write_sides(tmp_path, [*pairs[:9], *rest])
    assert main(["prepare", f"--text={tmp_path}/three", *both]) == 0
    written = [tmp_path / "three" / f"train.{side}" for side in ("src", "tgt")]
    assert read_pairs(*written) == rest


@pytest.mark.parametrize(
    ("pairs", "note"),
    [
        ([(src, src) for src, _ in sentences(50)], "50 untranslated"),
        ([(f"{s} <b>", t) for s, t in sentences(50)], "50 with markup"),
        ([*sentences(25), *((f"\u200b{s}", f"{t}\u00a0") for s, t in sentences(25))],
         "25 repeated"),
        (sentences(50), None),
    ],
)  # fmt: skip
def test_many_pairs_with_a_fault_are_noted(pairs, note, capsys):
    cleaning.report_on_pairs(pairs, sentences(60)[50:])
    said = capsys.readouterr().err
    assert (f"train: of 50 pairs, {note}: `prepare" in said) == bool(note)
    assert note or "prepare" not in said


def test_blank_rows_do_not_stop_a_training(files, tmp_path, capsys):
    """All of them are said at once, and once, however often the files are read."""
    pairs = sentences(20)
    rows = [*pairs[:3], ("", "x"), *pairs[3:9], (" ", "\u3000"), *pairs[9:], ("y", "")]
    src, tgt = write_sides(tmp_path, rows)
    given = files | {"train_src": src, "train_tgt": tgt}
    assert main(["train", "--dry-run", *flags(given)]) == 0
    said = capsys.readouterr().err
    assert said.count("left out 3 of 23 pairs") == 1
    assert "a side is blank (line 4, 11, 23)\n" in said
    assert read_pairs(src, tgt) == pairs


def test_one_text_is_not_two(files):
    source = files["train_src"]
    with pytest.raises(at.DataError, match="given for both languages"):
        read_pairs(source, source)


def test_validation_pairs_from_the_training_text_are_counted(files, tmp_path, capsys):
    """The first two training pairs are shown, so that a header is seen."""
    copied = files | {"run_dir": str(tmp_path / "run")}
    for side in ("src", "tgt"):
        lines = [read_lines(files[f"{split}_{side}"]) for split in ("train", "valid")]
        path = tmp_path / side
        path.write_text("\n".join(lines[0][:7] + lines[1]) + "\n", encoding="utf-8")
        copied[f"valid_{side}"] = str(path)
    assert main(["train", "--dry-run", *flags(copied)]) == 0
    said = capsys.readouterr().err
    assert "valid: of 19 pairs, 7 are training pairs, too" in said
    (src, tgt), *_ = sentences(120)
    assert f"  {src} → {tgt}\n" in said


def test_a_store_is_not_used_for_another_text(files, tmp_path, capsys):
    config = replace(choose_config(**files), store=str(tmp_path / "store"))
    prepare_store(config)
    other = files | {"store": config.store, "train_src": "other.txt"}
    assert main(["train", "--dry-run", *flags(other)]) == 2
    assert "made with another train_src" in capsys.readouterr().err


def test_clean_leaves_out_blank_fields(tmp_path, capsys):
    path = tmp_path / "text.tsv"
    path.write_text("ein Hund\ta dog\n\tx\ny\t \n", encoding="utf-8")
    given = [f"--train-src={path}:1", f"--train-tgt={path}:2", "--clean"]
    assert main(["prepare", f"--store={tmp_path}/store", *given]) == 0
    assert "left out 2 blank" in capsys.readouterr().err
    valid = [f"--valid-src={path}:1", f"--valid-tgt={path}:2"]
    path.write_text("ein Hund\ta dog\n", encoding="utf-8")
    assert main(["prepare", f"--store={tmp_path}/other", *given, *valid]) == 2
    assert "leaves no pair (1 in validation)" in capsys.readouterr().err


def test_weights_are_looked_for_before_anything_is_written(files, tmp_path, capsys):
    """A dry run reads --init's weights; an exported model names its loader."""
    for name in ("config.json", "vocabulary.json"):
        data = (project_folder() / "models/captions" / name).read_bytes()
        (tmp_path / name).write_bytes(data)
    command = ["train", "--dry-run", f"--init={tmp_path}", *flags(files)]
    assert main(command) == 2
    assert "no trained model" in capsys.readouterr().err
    (tmp_path / "model.bin").touch()
    with pytest.raises(at.DataError, match="load_exported"):
        load_translator(tmp_path)


@pytest.mark.parametrize(
    ("losses", "said"), [([3, 1, 2], True), ([3, 2, 1], False), ([3, 1, 1.01], False)]
)
def test_a_loss_that_has_risen_is_reported(small, capsys, losses, said):
    records = [{"valid_nll": nats, "perplexity": 9 + nats} for nats in losses]
    examples = [small.text.encode_pair("Ein Hund.", "A dog.")]
    evaluation.report_worth(small, examples, examples, 1e9, records)
    report = capsys.readouterr().err
    assert ("best after epoch 2 of 3: perplexity 10.00" in report) == said
    assert ("train it longer" in report) != said


def test_the_lines_that_are_right_and_the_worst_are_reported(small, capsys):
    pairs = [("Ein Hund läuft.", "A dog is running."), ("Ein Kind.", "x y z")]
    [right, _] = small.translate([src for src, _ in pairs], beam_size=1)
    examples = [small.text.encode_pair(*p) for p in [(pairs[0][0], right), pairs[1]]]
    capsys.readouterr()
    evaluation.report_worth(small, examples, examples, 1.0)
    said = capsys.readouterr().err
    assert "Of 2 greedy translations, 1 are exactly the reference" in said
    assert "9% to 91%" in said  # Wilson's interval
    assert said.index("Ein Kind") < said.index("Ein Hund")
    assert "2 lines can't tell whether it is usable" in said


def test_patience_counts_the_epochs_since_the_best():
    for losses, patience, waited in (
        ([3, 1, 2, 2], 2, 2), ([3, 1, 2, 2], 3, 0), ([3, 2, 1], 1, 0), ([], 1, 0),
        ([1, 2, 2], 0, 0),
    ):  # fmt: skip
        assert epochs_without_gain(losses, patience) == waited


def test_translate_reads_a_column(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(project_folder())
    path = tmp_path / "text.csv"
    path.write_text("id;de\n1;Ein Hund.\n2;Ein Kind.\n", encoding="utf-8")
    command = ["translate", "--model=models/captions", "--beam-size=1"]
    assert main([*command, f"{path}:de"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main([*command, str(path)]) == 2
    assert f"such as {path}:id and {path}:de." in capsys.readouterr().err


@pytest.mark.parametrize("code", ["english", "English", "e", "en-US"])
def test_a_language_is_named_by_its_code(code):
    with pytest.raises(at.DataError, match="is no language code"):
        choose_config(source_language=code)


def test_a_source_longer_than_any_in_training_is_noted(small, files):
    setup = fitted(files)
    config = setup.config
    assert config.longest == max(
        len(setup.text.encode(s)) - 2 for s, _ in sentences(120)
    )
    short = replace(small, config=replace(small.config, longest=3))
    for count, noted in ((3, False), (4, True)):
        fault = short.fault([at.START, *range(5, 5 + count), at.END], [5, 6, 7])
        assert bool(fault) == noted


@pytest.mark.parametrize("pairs", ["Ein Hund.", ["Ein Hund."]])
@pytest.mark.parametrize("bpe_size", [0, 300])
def test_sentences_are_not_taken_for_pairs(pairs, bpe_size):
    with pytest.raises(ValueError, match="values to unpack"):
        prepare_text(pairs, bpe_size)


def test_unknown_ids_are_refused(small):
    for ids in ([at.START, 10**6, at.END], [-1], [], 5, "Hund", [0.5], [[4]]):
        with pytest.raises(ValueError, match="ids must be from 0 to"):
            small.decode([ids])


def test_a_word_that_looks_like_a_special_token_is_unknown(small):
    class Spaces:
        tokenize = staticmethod(str.split)

    text = small.text._replace(tokenizer_src=Spaces(), tokenizer_tgt=Spaces())
    ids = [at.START, *[at.UNK] * 4, at.END]
    assert text.encode_pair(*[" ".join(at.SPECIALS)] * 2) == (ids, ids)


@torch.no_grad()
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_model_of_nan_is_refused(small, beam_size):
    weight = small.model.generator.proj.weight
    before = weight.clone()
    ids = small.text.encode("Ein Hund")
    weight[:] = torch.nan
    with pytest.raises(at.DataError, match="computes NaN"):
        small.decode([ids], beam_size)
    weight.copy_(before)
    small.decode([ids], beam_size)
