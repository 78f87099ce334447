"""A text of one's own: settings and scores that fit it, and nothing in silence."""

import csv
import gzip
import io
import json
import math
import random
from dataclasses import replace

import datasets
import pytest
import torch

import annotated_transformer as at
from transformer_workshop import own_data, translator
from transformer_workshop.corpora import (
    load_examples,
    load_pairs,
    prepare_store,
    read_pairs,
)
from transformer_workshop.runs import count_updates, read_metrics
from transformer_workshop.settings import SCALES, choose_config
from transformer_workshop.spelling import respell, split_sentences
from transformer_workshop.terminal import main
from transformer_workshop.translator import (
    Translation,
    Translator,
    calibrate,
    choose_tokenizer,
    load_translator,
)


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


# settings that fit


def test_settings_come_from_the_number_of_pairs(files):
    """The updates are about those of the scale, and the warm-up a tenth of them."""
    config, text = own_data.fit_to_data(files)
    scale = SCALES[0]
    assert (config.N, config.d_model, config.dropout) == (2, 96, scale.dropout)
    examples = load_examples(config, "train", text)
    updates = count_updates(examples, config.batch_tokens, config.epochs)
    assert updates == pytest.approx(scale.updates, rel=0.2)
    assert config.warmup == pytest.approx(updates / 10, rel=0.2)
    assert f"--epochs {config.epochs}\n" in own_data.list_choices(config, files)


def test_what_is_given_stays(files):
    """A short run gets a short warm-up, and a given setting isn't announced."""
    given = files | {"epochs": 1, "d_model": 32, "bpe_size": 0}
    config, text = own_data.fit_to_data(given)
    assert (config.epochs, config.d_model, config.tie) == (1, 32, "none")
    assert isinstance(text.tokenizer_src, at.WordTokenizer)
    examples = load_examples(config, "train", text)
    assert config.warmup <= count_updates(examples, config.batch_tokens, 1)
    assert "--d-model" not in own_data.list_choices(config, given)


def test_few_characters_get_few_subwords(files):
    """Each subword stands for 20 characters of the training text at least."""
    text = own_data.fit_to_data(files)[1]
    characters = sum(len(side) for pair in sentences(120) for side in pair)
    assert len(text.vocab_src) <= max(260, characters // 20)


def test_a_larger_corpus_gets_no_smaller_model():
    for small, large in zip(SCALES, SCALES[1:], strict=False):
        for name in ("pairs", "bpe_size", "N", "d_model", "d_ff", "h", "updates"):
            assert getattr(small, name) <= getattr(large, name)


@pytest.mark.parametrize("first", [4, 60])
def test_settings_do_not_depend_on_the_order_of_the_pairs(tmp_path, first):
    """Every second line is long: a sample would see the ones or the others."""
    paths = [str(tmp_path / name) for name in ("src", "tgt")]
    for path in paths:
        counts = (first if i % 2 else 64 - first for i in range(2400))
        lines = (f"{'Katze ' * count}{i}\n" for i, count in enumerate(counts))
        (tmp_path / path).write_text("".join(lines))
    config, _ = own_data.fit_to_data(dict(zip(("train_src", "train_tgt"), paths)))
    assert config.longest > 60 and config.epochs == 24


def test_heads_are_those_of_the_chosen_width(files, capsys):
    shapes = {"h=6": (6, 96), "d_model=66,h=6": (6, 66), "d_model=100": (4, 100)}
    for given, expected in shapes.items():
        sizes = {k: int(v) for k, _, v in (x.partition("=") for x in given.split(","))}
        config, _ = own_data.fit_to_data(files | sizes)
        assert (config.h, config.d_model) == expected
    assert main(["train", "--dry-run", "--h=5", *flags(files)]) == 2
    error = capsys.readouterr().err
    assert "h=5: does not divide d_model=96 into equal heads" in error


def test_line_ends_of_other_systems(files, tmp_path, capsys):
    source, path = files["train_src"], tmp_path / "text"
    lines = at.read_lines(source)
    path.write_bytes("".join(f"{line}\r\r\n" for line in lines).encode())
    pairs = read_pairs(path, files["train_tgt"])
    assert at.read_lines(path) == lines == [src for src, _ in pairs]
    for name in ("text", "text.csv"):
        (tmp_path / name).write_bytes("\r".join(["de", *lines]).encode())
        column = "" if name == "text" else ":de"
        wrong = files | {"train_src": f"{tmp_path}/{name}{column}"}
        assert main(["train", "--dry-run", *flags(wrong)]) == 2
        assert "end with a carriage return alone" in capsys.readouterr().err


def test_a_dry_run_writes_nothing(files, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", "--dry-run", f"--run-dir={run}", *flags(files)]) == 0
    assert "--epochs" in capsys.readouterr().err
    assert not run.exists()


def test_a_refused_call_leaves_no_folder(files, tmp_path, capsys):
    run, missing = tmp_path / "run", files | {"valid_src": str(tmp_path / "no.txt")}
    assert main(["train", f"--run-dir={run}", *flags(missing)]) == 2
    assert "no.txt" in capsys.readouterr().err
    assert not run.exists()


def test_a_useless_model_is_called_so_and_its_run_continues(files, tmp_path, capsys):
    """After two updates, nothing is recommended; without files, it is the same run."""
    run = f"--run-dir={tmp_path}"
    short = ["--epochs=1", "--d-model=16", "--d-ff=16", "--batch-tokens=4000"]
    assert main(["train", run, *short, *flags(files)]) == 0
    said = capsys.readouterr().err
    assert "not usable yet" in said
    assert said.count("→") == 2 + 3  # the first training pairs, and translations
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
    found = own_data.unigram_perplexity(train, [([0, 1], [0, 5, 5, 1])], 10)
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
    monkeypatch.setattr(translator, "find_spec", found)
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
        config, text = own_data.fit_to_data(given | {"bpe_size": bpe_size})
        learned = [src for src, _ in load_examples(config, "train", text)][:5]
        model = Translator(None, text, replace(config, source_language="de"))
        read = [[model.check(part) for part in model.sentences(line)] for line in odd]
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
        (lambda: at.run_epoch(*epoch), ValueError, "data_iter is empty"),
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
    rows = [small.check(line) for line in ("Ein Hund.", "Ein Mann kocht eine Suppe.")]
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
        ([5, 6, 7], [4, 5, 4, 5], ""),
        ([5, 6, 7], [4, 5, 6, 7, 4, 5, 6, 7], "repeats"),
        (list(range(4, 16)), [5, 6, 7], "missing"),
        ([5, 6, 7], list(range(100)), "cut"),
    ],
)
def test_faults_need_no_threshold(small, source, output, fault):
    unsure = replace(small, threshold=None)
    found = unsure.fault([at.START, *source, at.END], output)
    assert (fault in found) if fault else not found
    assert bool(unsure.doubt(1.0, found)) == bool(fault)


RUNAWAYS = """Setzen Sie sich doch bitte.
Nach dem Spiel feierten die Fans vor dem Stadion.
Am 9. November 1989 fiel die Berliner Mauer.
Die Zugspitze ist 2962 Meter hoch.
Setzen Sie immer einen Helm auf, bevor Sie losfahren.
Ich liebe dich, ich liebe dich, sagte er immer wieder.
Wo ein Wille ist, ist auch ein Weg."""


def test_runaway_translations_are_noted(capfdbinary, monkeypatch):
    monkeypatch.chdir(at.project_folder())
    lines = io.TextIOWrapper(io.BytesIO(RUNAWAYS.encode()))
    monkeypatch.setattr("sys.stdin", lines)
    assert main(["translate", "--model", "models/multi30k"]) == 0
    notes = capfdbinary.readouterr().err
    assert notes.count(b"don't rely on this translation (it repeats itself)") == 7


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
    found = [Translation("A dog runs.", 0.5 + i / 200) for i in range(100)]
    monkeypatch.setattr(Translator, "translations", lambda *_: found)
    chosen = calibrate(small, [("Ein Hund läuft.", "A dog runs.")] * 100)
    assert (chosen["threshold"], chosen["share"]) == (0.5, 0)


def test_evaluate_writes_the_translations(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(at.project_folder())
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


def test_swapped_files_are_noticed_by_evaluate(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(at.project_folder())
    valid = [f"data/captions/valid.{side}" for side in ("de", "en")]
    for side, file in zip("ab", valid, strict=True):
        lines = at.read_lines(file)[:20]
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
        own_data.fit_to_data(given)[1].vocab_src.itos
        for given in (files, {"store": store} | files)
    )
    assert plain == stored


def test_a_wrong_choice_is_reported_once(capsys):
    assert main(["export", "--to=onnx", "--out=x"]) == 2
    said = capsys.readouterr().err
    assert said.count("command line") == said.count("--help") == 1


def test_swapped_validation_is_noticed_by_train(tmp_path, capsys):
    given = {}
    for split in ("train", "valid"):
        for side, language in zip(("src", "tgt"), ("de", "en"), strict=True):
            lines = at.read_lines(
                f"{at.project_folder()}/data/captions/{split}.{language}"
            )
            path = tmp_path / f"{split}.{language}"
            path.write_text("\n".join(lines[:200]) + "\n", encoding="utf-8")
            given[f"{split}_{side}"] = str(path)
    crossed = given | {"valid_src": given["valid_tgt"], "valid_tgt": given["valid_src"]}
    for settings, swapped in ((given, False), (crossed, True)):
        config = choose_config(**settings)
        own_data.report_on_pairs(*(load_pairs(config, s) for s in ("train", "valid")))
        assert ("look swapped" in capsys.readouterr().err) == swapped


def test_choose_config_is_the_commands(files):
    assert choose_config(**files).dataset == "files"


# files as people have them


TABLE = [("Ein Hund.", "A dog."), ('Er sagt "ja", oft.', "He often\nsays yes.")]


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "csv.gz", "folder"])
def test_pairs_from_a_table(tmp_path, ending):
    """A field may have quotation marks, commas, and (but in a .tsv) line breaks."""
    rows = [(de, en.replace("\n", " ")) for de, en in TABLE]
    path = tmp_path / f"text.{ending}"
    if ending == "tsv":
        lines = ["de\ten", *("\t".join(row) for row in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif ending == "jsonl":
        records = (json.dumps({"de": de, "en": en}) for de, en in TABLE)
        path.write_text("\n".join(records), encoding="utf-8")
    elif ending == "folder":
        columns = {"de": [de for de, _ in TABLE], "en": [en for _, en in TABLE]}
        datasets.Dataset.from_dict(columns).save_to_disk(str(path))
    else:
        written = io.StringIO()
        csv.writer(written).writerows([("de", "en"), *TABLE])
        data = written.getvalue().encode()
        path.write_bytes(gzip.compress(data) if ending == "csv.gz" else data)
    assert read_pairs(f"{path}:de", f"{path}:en") == rows
    if ending == "tsv":  # a table without names
        path.write_text("".join(f"{de}\t{en}\n" for de, en in rows), encoding="utf-8")
        assert read_pairs(f"{path}:1", f"{path}:2") == rows


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        (
            "de,en\na,b\n",
            "fr",
            r"row 1: has no text in column 'fr' \(columns: de, en\)",
        ),
        ("de,en\na,b\nc\n", "en", r"row 2: has no text"),
        ("de,en\na,b\nc,\n", "en", "row 2: is blank"),
        *((text, "en", "is empty") for text in ("de,en\n", "")),
        ("de,en\na,b\n", "0", r"row 1: has no text in column '0' \(columns: 1 to 2\)"),
        *(
            (f'{head}"{"b" * 200_000}', "en", "quotation marks")
            for head in ("", "de,en\n")
        ),
    ],
)
def test_a_faulty_table_is_named(tmp_path, text, column, words):
    path = tmp_path / "text.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(at.DataError, match=words):
        read_pairs(f"{path}:de", f"{path}:{column}")


def test_one_text_is_not_two(files):
    source = files["train_src"]
    with pytest.raises(at.DataError, match="given for both languages"):
        read_pairs(source, source)


def test_validation_pairs_from_the_training_text_are_counted(files, tmp_path, capsys):
    """The first two training pairs are shown, so that a header is seen."""
    copied = files | {"run_dir": str(tmp_path / "run")}
    for side in ("src", "tgt"):
        lines = [
            at.read_lines(files[f"{split}_{side}"]) for split in ("train", "valid")
        ]
        path = tmp_path / side
        path.write_text("\n".join(lines[0][:7] + lines[1]) + "\n", encoding="utf-8")
        copied[f"valid_{side}"] = str(path)
    assert main(["train", "--dry-run", *flags(copied)]) == 0
    said = capsys.readouterr().err
    assert "valid: 7 of 19 pairs are training pairs" in said
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
        data = (at.project_folder() / "models/captions" / name).read_bytes()
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
    own_data.report_worth(small, examples, examples, 1e9, records)
    report = capsys.readouterr().err
    assert ("best after epoch 2 of 3: perplexity 10.00" in report) == said
    assert ("train it longer" in report) != said


def test_translate_reads_a_column(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(at.project_folder())
    path = tmp_path / "text.csv"
    path.write_text("id;de\n1;Ein Hund.\n2;Ein Kind.\n", encoding="utf-8")
    command = ["translate", "--model=models/captions", "--beam-size=1"]
    assert main([*command, f"{path}:de"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main([*command, str(path)]) == 2
    assert f"Name the column, too: {path}:1" in capsys.readouterr().err


@pytest.mark.parametrize("code", ["english", "English", "e", "en-US"])
def test_a_language_is_named_by_its_code(code):
    with pytest.raises(at.DataError, match="is no language code"):
        choose_config(source_language=code)


def test_a_source_longer_than_any_in_training_is_noted(small, files):
    config, text = own_data.fit_to_data(files)
    assert config.longest == max(len(text.encode(s)) - 2 for s, _ in sentences(120))
    short = replace(small, config=replace(small.config, longest=3))
    for count, noted in ((3, False), (4, True)):
        fault = short.fault([at.START, *range(5, 5 + count), at.END], [5, 6, 7])
        assert bool(fault) == noted


@pytest.mark.parametrize("pairs", ["Ein Hund.", ["Ein Hund."]])
@pytest.mark.parametrize("bpe_size", [0, 300])
def test_sentences_are_not_taken_for_pairs(pairs, bpe_size):
    with pytest.raises(ValueError, match="values to unpack"):
        at.prepare_text(pairs, bpe_size)


def test_unknown_ids_are_refused(small):
    for ids in ([at.START, 10**6, at.END], [-1]):
        with pytest.raises(ValueError, match="ids must be from 0 to"):
            small.decode([ids])
