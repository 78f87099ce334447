"""Chapter 3: text to batches, training, translating, scoring."""

import dataclasses
import math
import os
import random
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest
import sacrebleu
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import program

import annotated_transformer as at
from annotated_transformer import END, PAD, START, UNK, DataError
from transformer_workshop.base import machine
from transformer_workshop.base.config import CONFIGS, TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import load_with_notes, read_json
from transformer_workshop.base.machine import (
    choose_device,
    describe_environment,
    gpu_report,
)
from transformer_workshop.models.architectures import build_model
from transformer_workshop.models.evaluation import evaluate
from transformer_workshop.models.speed import LeanLabelSmoothing
from transformer_workshop.names_of_2022 import (
    collate_batch,
    create_dataloaders,
    load_vocab,
    train_model,
)
from transformer_workshop.text.corpora import load_pairs, read_pairs
from transformer_workshop.text.encoding import load_text, prepare_text
from transformer_workshop.text.store import load_examples
from transformer_workshop.training.loop import build_losses, count_updates, schedule_of
from transformer_workshop.training.run_folder import read_metrics

CAPTIONS = load_pairs(TrainingConfig(), "train")
WHEN = {"Heute": "Today", "Jetzt": "Now", "Oft": "Often"}
WHO = {"er": "he", "sie": "she", "Anna": "Anna", "Paul": "Paul"}
DOES = {
    "liest ein Buch": "reads a book",
    "trinkt Tee": "drinks tea",
    "kocht Suppe": "cooks soup",
    "backt Brot": "bakes bread",
}
OWN = [
    (
        f"{when} {does.split()[0]} {who} {does.split(maxsplit=1)[1]}.",
        f"{now} {he} {do}.",
    )
    for when, now in WHEN.items()
    for who, he in WHO.items()
    for does, do in DOES.items()
]


def write_files(folder, **sides):
    """Write files of lines; return the paths as fields of a configuration."""
    paths = {}
    for name, lines in sides.items():
        paths[name] = str(folder / name)
        Path(paths[name]).write_text("".join(f"{x}\n" for x in lines), encoding="utf-8")
    return paths


def own_config(folder, **changes):
    """Return a configuration for the sentences above, trained in a second or two."""
    src, tgt = zip(*OWN, strict=True)
    files = write_files(
        folder, train_src=src, train_tgt=tgt, valid_src=src, valid_tgt=tgt
    )
    settings = dict(
        dataset="files", run_dir=str(folder / "run"), device="cpu", N=1, d_model=48,
        d_ff=64, dropout=0.1, batch_tokens=150, epochs=25, base_lr=1e-2, warmup=20,
        average=1, beam_size=2, max_tokens=20,
    )  # fmt: skip
    return TrainingConfig(**{**settings, **files, **changes})


def prepare(config):
    pairs = load_pairs(config, "train")
    return prepare_text(pairs, config.bpe_size, config.min_freq)


def train_own(config):
    return train_model(*prepare(config), config)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a configuration and its trained translator."""
    config = own_config(tmp_path_factory.mktemp("own"))
    return config, train_own(config)


# parallel text


@pytest.mark.parametrize(
    "src, tgt, complaint",
    [
        (b"a\nb\n", b"x\n", "have 2 and 1 lines"),
        (b"", b"x\n", "src: is empty"),
        (b"a\n", b"", "tgt: is empty"),
        (b"a\nb\xff\n", b"x\ny\n", "src, line 2: is not UTF-8"),
    ],
)
def test_faulty_files_are_refused_with_file_and_line(tmp_path, src, tgt, complaint):
    (tmp_path / "src").write_bytes(src)
    (tmp_path / "tgt").write_bytes(tgt)
    with pytest.raises(DataError, match=complaint):
        read_pairs(tmp_path / "src", tmp_path / "tgt")


def test_own_files_have_no_test_split(tmp_path):
    with pytest.raises(DataError, match="test split: has no files"):
        load_pairs(own_config(tmp_path), "test")


def test_own_files_take_the_place_of_a_split(tmp_path):
    own = own_config(tmp_path)
    files = {name: getattr(own, name) for name in ("train_src", "train_tgt")}
    mixed = dataclasses.replace(own, dataset="captions", valid_src=None, valid_tgt=None)
    for split in ("valid", "test"):
        expected = load_pairs(TrainingConfig(), split)
        assert load_pairs(mixed, split) == expected
    assert load_pairs(mixed, "train") == read_pairs(*files.values())
    for missing in files:
        alone = dataclasses.replace(mixed, **{missing: None})
        with pytest.raises(DataError, match="one file instead of two"):
            load_pairs(alone, "train")


# tokens


@pytest.fixture(scope="module")
def words():
    return at.load_tokenizers()


@pytest.mark.parametrize(
    "sentence, tokens",
    [
        ("A dog isn't  here.", ["A", "dog", "is", "n't", "here", "."]),
        ("the half-empty cup", ["the", "half", "-", "empty", "cup"]),
        (
            'He says "stop!" (twice)',
            ["He", "says", '"', "stop", "!", '"', "(", "twice", ")"],
        ),
    ],
)
def test_words_are_cut_and_joined_again(words, sentence, tokens):
    assert words[1].tokenize(sentence) == tokens
    assert words[1].detokenize(tokens) == " ".join(sentence.split())


# vocabulary


def test_asking_for_an_unknown_word_does_not_insert_it():
    vocab = at.Vocabulary([*at.SPECIALS, "dog"])
    assert vocab(["dog", "cat", "cat"]) == [4, UNK, UNK]
    assert len(vocab) == len(vocab.get_itos()) == len(vocab.get_stoi()) == 5


@pytest.mark.parametrize("index", [-1, 5])
def test_ids_outside_the_vocabulary_are_refused(index):
    vocab = at.Vocabulary([*at.SPECIALS, "dog"])
    assert vocab.tokens([4, END]) == ["dog", "</s>"]
    with pytest.raises(DataError, match=f"ids 0 to 4, not {index}"):
        vocab.tokens([4, index])


@pytest.mark.parametrize("tokens", [["dog"], [*at.SPECIALS, "dog", "dog"]])
def test_a_list_that_is_no_vocabulary_is_refused(tokens):
    with pytest.raises(DataError, match="vocabulary"):
        at.Vocabulary(tokens)


def test_vocabulary_holds_the_frequent_words_of_the_given_pairs(words):
    pairs = [("Ein Hund .", "A dog ."), ("Ein Hund .", "A dog ."), ("Ein Ei", "An egg")]
    src, tgt = at.build_vocabulary(*words, pairs=pairs)
    assert src.get_itos() == [*at.SPECIALS, "Ein", ".", "Hund"]
    assert tgt.get_itos() == [*at.SPECIALS, ".", "A", "dog"]
    assert at.build_vocabulary(*words, pairs=pairs, min_freq=1)[0]["Ei"] != UNK
    once = at.build_vocabulary(*words, pairs=iter(pairs))
    assert [v.get_itos() for v in once] == [src.get_itos(), tgt.get_itos()]


@pytest.fixture(scope="module")
def text():
    """Return the captions' vocabularies and tokenizers."""
    return prepare_text(CAPTIONS)


def test_default_vocabulary_is_that_of_the_captions(words, text, capsys):
    src, tgt = load_vocab(*words)
    assert str(len(src)) in capsys.readouterr().out
    assert (src.itos, tgt.itos) == (text.vocab_src.itos, text.vocab_tgt.itos)


def test_subwords_share_one_vocabulary():
    text = prepare_text(CAPTIONS[:500], bpe_size=500)
    assert text.vocab_src is text.vocab_tgt and len(text.vocab_src) == 500
    assert text.tokenizer_src is text.tokenizer_tgt
    sentence = "Zwölf Boxkämpfer, 12 €."
    ids = text.encode(sentence)
    assert (ids[0], ids[-1]) == (START, END) and UNK not in ids
    assert text.encode_pair(sentence, sentence) == (ids, ids)
    assert text.decode(ids[1:-1]) == sentence


@pytest.mark.multi30k
@pytest.mark.slow
def test_what_chapter_3_says_of_multi30ks_words(words):
    """Count again what is stored, and two words that occur once."""
    stored = read_json(project_folder() / "results" / "multi30k_facts.json")
    del stored["command"]
    assert program("benchmarks/multi30k_facts.py").measure() == stored
    train = load_pairs(TrainingConfig("multi30k"), "train")
    counts = Counter(word for src, _ in train for word in words[0].tokenize(src))
    assert counts["Schneemobil"] == counts["Luftballonhut"] == 1


# ids and batches

TEXT = st.lists(st.sampled_from(["Hund", "Ei", "rot", "."]), min_size=1, max_size=12)


GERMAN = at.load_tokenizers()[0]


@given(st.lists(st.tuples(TEXT, TEXT), max_size=20), st.integers(3, 12))
@settings(max_examples=25)
def test_a_sentence_is_whole_or_left_out(texts, max_tokens):
    vocab = at.Vocabulary([*at.SPECIALS, "Hund", "Ei", "rot", "."])
    pairs = [(" ".join(src), " ".join(tgt)) for src, tgt in texts]
    text = at.Text(vocab, vocab, GERMAN, GERMAN)
    examples, left_out = at.encode_pairs(pairs, text, max_tokens)
    short = [
        tuple([START, *vocab(side), END] for side in pair)
        for pair in texts
        if max(map(len, pair)) + 2 <= max_tokens
    ]
    assert examples == short
    assert left_out == len(pairs) - len(short)


def test_an_empty_row_leaves_ids_whole_numbers():
    assert at.padded([[], [3, 4]]).tolist() == [[PAD, PAD], [3, 4]]
    assert at.padded([[], [3, 4]]).dtype == torch.long


LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=80)


@given(LENGTHS, st.integers(1, 300))
def test_batches_hold_every_sentence_once_within_the_budget(lengths, budget):
    """Expect them to be as full, too, as the order by length allows."""
    batches = at.token_budget_batches(lengths, budget)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(max(lengths[i]) for i in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget
    for batch, following in zip(batches, batches[1:], strict=False):
        assert max(lengths[following[0]]) * (len(batch) + 1) > budget


def some_examples(count=57):
    draw = random.Random(0)
    return [
        tuple(
            [START, *draw.choices(range(4, 99), k=draw.randint(1, 9)), END]
            for _ in "st"
        )
        for _ in range(count)
    ]


def rows(batch):
    """Return the examples of a batch, without padding."""
    full = torch.cat([batch.tgt[:, :1], batch.tgt_y], 1)
    return [
        tuple([i for i in row.tolist() if i != PAD] for row in pair)
        for pair in zip(batch.src, full, strict=True)
    ]


def epoch_of(examples, epoch=0, shuffle=True):
    rng = at.epoch_rng(0, epoch) if shuffle else None
    return list(at.batches(examples, 60, rng, "cpu"))


@pytest.mark.parametrize("shuffle", [True, False])
def test_an_epoch_shows_every_example_once(shuffle):
    """Visit shuffled batches in another order than by their lengths."""
    examples = some_examples()
    epoch = epoch_of(examples, shuffle=shuffle)
    assert sorted(row for batch in epoch for row in rows(batch)) == sorted(examples)
    widths = [batch.src.size(1) for batch in epoch]
    assert (widths == sorted(widths)) != shuffle


def test_epochs_differ_and_repeat():
    examples = some_examples()
    first, again, second = (
        [rows(batch) for batch in epoch_of(examples, epoch)] for epoch in (1, 1, 2)
    )
    assert first == again
    assert first != second
    groups = [
        {frozenset(map(str, batch)) for batch in epoch} for epoch in (first, second)
    ]
    assert groups[0] != groups[1], "only the order of the same batches has changed"


# configuration


def test_configurations_go_by_name():
    small = TrainingConfig.of("small")
    assert small is TrainingConfig.of(small) is CONFIGS["small"]
    with pytest.raises(DataError, match="tiny, small, 2026, base, big"):
        TrainingConfig.of("huge")


@pytest.mark.parametrize(
    "name, sizes",
    [("base", (6, 512, 2048, 8, 0.1)), ("big", (6, 1024, 4096, 16, 0.3))],
)
def test_presets_of_the_paper(name, sizes):
    c = CONFIGS[name]
    assert (c.N, c.d_model, c.d_ff, c.h, c.dropout) == sizes
    assert (c.warmup, c.smoothing, c.schedule) == (4000, 0.1, "inverse_sqrt")


# devices


def test_auto_takes_the_first_device_there_is(monkeypatch):
    there = {"cuda": True, "mps": True}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there["cuda"])
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: there["mps"])
    assert choose_device().type == "cuda"
    there["cuda"] = False
    assert choose_device().type == "mps"
    with pytest.raises(DataError, match="device cuda:1: is not there. Use mps or cpu"):
        choose_device("cuda:1")
    there["mps"] = False
    assert choose_device().type == "cpu"
    there["cuda"] = True
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert choose_device("cuda:1").index == 1
    for name in ("cuda:2", "cpu:1"):
        with pytest.raises(DataError, match=f"{name}: is not there. Use cuda or cpu"):
            choose_device(name)


def test_a_commit_says_whether_something_has_changed_since(tmp_path, monkeypatch):
    def git(*words):
        who = "-c", "user.name=a", "-c", "user.email=a@example.org"
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True)

    monkeypatch.setattr(machine, "project_folder", lambda: tmp_path)
    assert describe_environment()["commit"] is None
    (tmp_path / "file").write_text("a")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        git(*words)
    commit = describe_environment()["commit"]
    assert len(commit) == 40
    git("tag", "-a", "v1", "-m", "a tag is no commit")
    (tmp_path / "file").write_text("b")
    assert describe_environment()["commit"] == f"{commit}-dirty"


def stand_in(folder, monkeypatch, script):
    """Put a program called nvidia-smi at the front of the PATH."""
    (folder / "nvidia-smi").write_text("#!/bin/sh\n" + script)
    (folder / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_gpu_report_tells_load_and_memory(tmp_path, monkeypatch):
    line = "echo '{}, GPU-f, 50, 16384, 4096, 12288, 555, Card {}, 0, Off, Off, 61'\n"
    stand_in(tmp_path, monkeypatch, line.format(0, "A") + line.format(1, "B"))
    assert gpu_report() == [
        "GPU 0 (Card A): 50% busy, 4,096 of 16,384 MiB used",
        "GPU 1 (Card B): 50% busy, 4,096 of 16,384 MiB used",
    ]


def test_a_missing_gputil_is_named_and_ends_nothing(monkeypatch):
    monkeypatch.setitem(sys.modules, "GPUtil", None)
    [line] = gpu_report()
    assert line.endswith("Install it: pip install GPUtil setuptools")


def test_gpu_report_without_a_gpu_is_empty(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_report() == []
    stand_in(tmp_path, monkeypatch, "echo 'No devices were found'; exit 6\n")
    assert gpu_report() == []


# training


@pytest.mark.parametrize("schedule", ["linear", "inverse_sqrt"])
def test_step_k_uses_the_rate_of_step_k(schedule):
    """Take the steps with the paper's optimizer."""
    config = TrainingConfig(schedule=schedule, base_lr=0.5, warmup=3)
    optimizer, scheduler = at.build_optimizer(
        torch.nn.Linear(1, 1), schedule_of(config, 8)
    )
    [group] = optimizer.param_groups
    assert isinstance(optimizer, torch.optim.Adam)
    assert (group["betas"], group["eps"]) == ((0.9, 0.98), 1e-9)
    for step in range(1, 9):
        expected = {
            "linear": at.linear_rate(step, 0.5, 3, 8),
            "inverse_sqrt": at.rate(step, config.d_model, 0.5, 3),
        }
        assert group["lr"] == expected[schedule]
        optimizer.step()
        scheduler.step()


def test_only_the_loss_of_training_is_smoothed():
    config = TrainingConfig(N=1, d_model=8, d_ff=8, h=2, smoothing=0.2)
    vocab = at.Vocabulary([*at.SPECIALS, "a", "b"])
    train_loss, valid_loss = build_losses(build_model(config, vocab, vocab), config)
    assert type(valid_loss.criterion) is LeanLabelSmoothing
    for each, smoothing in ((train_loss.criterion, 0.2), (valid_loss.criterion, 0.0)):
        assert (each.size, each.padding_idx, each.smoothing) == (6, PAD, smoothing)


def test_training_in_memory_is_the_run_in_a_folder(tmp_path, capsys):
    """Compare the weights of chapter 3's train and of the run that can be resumed."""
    config = own_config(tmp_path, epochs=2, dropout=0.0, warmup=3)
    text = prepare(config)
    run = train_model(*text, config)
    examples, _ = at.encode_pairs(OWN, text, max_tokens=config.max_tokens)
    torch.manual_seed(config.seed)
    model = build_model(config, text.vocab_src, text.vocab_tgt)
    same = {n: v for n, v in vars(config).items() if n in vars(at.Settings())}
    settings = at.Settings(**same, valid_per_epoch=1)
    history = at.train(model, examples, examples, settings)
    for a, b in zip(model.parameters(), run.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=2e-3)
    records = read_metrics(config.run_dir)
    assert capsys.readouterr().out.count("updates") == len(history) == 2
    for ours, theirs in zip(history, records, strict=True):
        assert ours["updates"] == theirs["step"]
        assert math.isclose(ours["train"], theirs["train_criterion"], rel_tol=1e-3)
        assert math.isclose(ours["valid"], theirs["valid_nll"], rel_tol=1e-3)


def test_the_settings_of_chapter_3_are_those_of_the_smallest_preset():
    """Expect the command to train the chapter's model, apart from its measurements."""
    ours = vars(at.Settings())
    assert ours.pop("valid_per_epoch") == 4
    tiny = vars(CONFIGS["tiny"])
    assert ours == {name: tiny[name] for name in ours}


def test_training_in_memory_keeps_the_best_weights(tmp_path):
    """Train at a rate so high that it falls apart: the last are not the best."""
    text = prepare(own_config(tmp_path))
    examples, _ = at.encode_pairs(OWN, text, max_tokens=20)
    config = TrainingConfig(N=1, d_model=16, d_ff=16, h=2, dropout=0.0)
    torch.manual_seed(0)
    model = build_model(config, text.vocab_src, text.vocab_tgt)
    settings = at.Settings(batch_tokens=150, epochs=4, base_lr=1.0, warmup=30)
    history = at.train(model, examples, examples[:9], settings)
    losses = [record["valid"] for record in history]
    assert min(losses) < losses[-1] and len(history) > settings.epochs
    criterion = at.LabelSmoothing(len(text.vocab_tgt), PAD)
    loss = at.SimpleLossCompute(model.generator, criterion)
    stream = at.batches(examples[:9], settings.batch_tokens)
    nll, _ = at.run_epoch(stream, model, loss, None, None, "eval")
    assert math.isclose(nll, min(losses), rel_tol=1e-5)
    with pytest.raises(ValueError, match="valid_data is empty"):
        at.train(model, examples, [], settings)


def test_many_unknown_words_of_the_validation_split_are_reported(tmp_path, capsys):
    german = ["eins zwei drei vier"] * 24 + ["fremd zwei drei vier"]
    english = ["one two three four"] * 25
    files = write_files(tmp_path, valid_src=german, valid_tgt=english)
    config = TrainingConfig("files", **files)
    load_examples(config, "valid", prepare_text(list(zip(german, german))))
    [target] = capsys.readouterr().err.splitlines()
    assert target.startswith("valid: 100.0% of the target tokens are unknown words")
    assert "use subwords" in target
    load_examples(config, "valid", prepare_text(list(zip(german, english))))
    assert capsys.readouterr().err == ""  # 1 of 100 source tokens


def test_training_leaves_figures_and_a_translator(trained):
    config, translator = trained
    records = read_metrics(config.run_dir)
    assert [record["epoch"] for record in records] == list(range(1, config.epochs + 1))
    examples = load_examples(config, "train", load_text(Path(config.run_dir)))
    batches = len(at.token_budget_batches(at.lengths_of(examples), config.batch_tokens))
    updates = count_updates(
        examples, config.batch_tokens, config.epochs, config.accum_iter
    )
    assert records[-1]["step"] == config.epochs * batches == updates
    tokens = sum(len(tgt) - 1 for _, tgt in examples)
    for record in records:
        assert math.isclose(record["perplexity"], math.exp(record["valid_nll"]))
        assert math.isclose(record["tokens_per_second"] * record["seconds"], tokens)
    assert records[-1]["valid_nll"] < 0.2 < 1 < records[0]["valid_nll"]
    sources, references = map(list, zip(*OWN, strict=True))
    assert translator.translate(sources) == references


def test_the_best_epoch_by_validation_is_kept(tmp_path):
    """Train at a rate so high that it falls apart: the last epoch is not the best."""
    src, tgt = zip(*OWN[-10:], strict=True)
    config = own_config(
        tmp_path, epochs=6, base_lr=0.3, warmup=1, schedule="inverse_sqrt"
    )
    write_files(tmp_path, valid_src=src, valid_tgt=tgt)
    translator = train_own(config)
    losses = [record["valid_nll"] for record in read_metrics(config.run_dir)]
    best = min(range(6), key=losses.__getitem__)
    _, notes = load_with_notes(Path(config.run_dir) / "best.safetensors")
    assert notes["epoch"] == best and math.isclose(notes["score"], losses[best])
    text = load_text(Path(config.run_dir))
    examples = load_examples(config, "valid", text)
    criterion = at.LabelSmoothing(len(text.vocab_tgt), PAD)
    loss = at.SimpleLossCompute(translator.model.generator, criterion)
    batches = at.batches(examples, config.batch_tokens)
    nll, _ = at.run_epoch(batches, translator.model, loss, None, None, "eval")
    assert math.isclose(nll, losses[best], rel_tol=1e-5)


def test_bfloat16_learns_as_float32_does(tmp_path):
    """Detect weights rounded once per epoch by autocast: they would not move in it."""
    losses = []
    for precision in ("float32", "bfloat16"):
        folder = tmp_path / precision
        folder.mkdir()
        config = own_config(folder, precision=precision, dropout=0.0, epochs=4)
        train_own(config)
        record = read_metrics(config.run_dir)[-1]
        assert record["precision"] == precision
        losses.append(record["valid_nll"])
    assert abs(losses[0] - losses[1]) < 0.1


def test_pairs_left_out_of_training_are_counted(tmp_path, capsys):
    config = own_config(tmp_path, max_tokens=7)
    long = sum(len(f"{src} {tgt}".split()) > 8 or "ein" in src for src, tgt in OWN)
    text = prepare(config)
    assert len(load_examples(config, "train", text)) == len(OWN) - long
    assert f"train: left out {long} of {len(OWN)} pairs" in capsys.readouterr().err
    config = dataclasses.replace(config, max_tokens=4)
    with pytest.raises(DataError, match="train split: holds no pair"):
        load_examples(config, "train", text)


# translating and scoring


def test_translations_keep_the_order_and_blank_lines(trained):
    _, translator = trained
    shuffled = random.Random(0).sample(OWN, len(OWN))
    sources = ["", *(src for src, _ in shuffled), " \t"]
    assert translator.translate(sources) == ["", *(tgt for _, tgt in shuffled), ""]
    assert translator.translate([]) == []


@pytest.mark.parametrize("beam_size", [1, 3])
def test_together_as_one_by_one(trained, beam_size):
    """Compare them on word salad, too, of which the model is unsure."""
    _, translator = trained
    draw = random.Random(1)
    salad = " ".join(src for src, _ in OWN).split()
    sources = [" ".join(draw.choices(salad, k=draw.randint(1, 12))) for _ in range(25)]
    together = translator.translate(sources, beam_size)
    assert together == [translator.translate([src], beam_size)[0] for src in sources]
    assert len(set(together)) > 5


def test_a_sentence_too_long_is_refused_not_cut(trained):
    config, translator = trained
    fits = " ".join(["Tee"] * (config.max_tokens - 2))
    assert len(translator.encode(fits)) == config.max_tokens
    assert translator.translate([fits])
    with pytest.raises(DataError, match=f"has {config.max_tokens + 1} tokens"):
        translator.translate(["Heute", fits + " Tee"])


def test_what_is_no_text_is_refused_with_its_line(trained):
    _, translator = trained
    with pytest.raises(TypeError, match="line 2 is None, not a string; leave it out"):
        translator.translate(["Heute", None])
    with pytest.raises(DataError, match=r"line 2: has half a character, '.ud83d'"):
        translator.translate(["Heute", "Tee \ud83d"])


def test_evaluate_is_sacrebleu(trained):
    _, translator = trained
    pairs = [
        (src, tgt.replace("tea", "coffee").replace("soup", "Soup")) for src, tgt in OWN
    ]
    result = evaluate(translator, pairs)
    output = translator.translate([src for src, _ in pairs])
    references = [[tgt for _, tgt in pairs]]
    bleu = sacrebleu.corpus_bleu(output, references)
    assert result["bleu"] == round(bleu.score, 2)
    assert result["chrf"] == round(sacrebleu.corpus_chrf(output, references).score, 2)
    assert result["sentences"] == len(pairs) and result["seconds"] >= 0
    assert {"case:mixed", "tok:13a", "bs:1000"} <= set(result["signature"].split("|"))
    low, high = result["interval"]
    assert low < result["bleu"] < high < 100


def test_the_interval_of_a_few_sentences_is_not_beyond_100():
    references = ["A dog is sleeping.", "A cat sleeps.", "A man is running."]
    score = at.score([references[0], "A cat is asleep.", references[2]], references)
    assert 0 <= score["interval"][0] < score["bleu"] < score["interval"][1] == 100


def test_scoring_needs_a_reference_for_each_translation():
    with pytest.raises(DataError, match="2 translations for 1 references"):
        at.score(["a", "b"], ["a"])
    with pytest.raises(DataError, match="0 translations"):
        at.score([], [])


# cells of 2022


def test_collate_keeps_the_end_of_a_sentence_it_shortens():
    vocab = at.Vocabulary([*at.SPECIALS, *"abcdefgh"])
    batch = [("a b c d e f g h", "a"), ("a b", "a b c")]
    with pytest.warns(UserWarning, match="1 sentences shortened to 6 ids"):
        src, tgt = collate_batch(batch, str.split, str.split, vocab, vocab, "cpu", 6)
    assert src.tolist() == [[0, 4, 5, 6, 7, 1], [0, 4, 5, 1, 2, 2]]
    assert tgt.tolist() == [[0, 4, 1, 2, 2], [0, 4, 5, 6, 1]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        src, _ = collate_batch(batch, str.split, str.split, vocab, vocab, "cpu", 10)
    assert src[0].tolist() == [0, *range(4, 12), 1]


def test_a_word_spelled_like_a_special_token_is_unknown_to_collate():
    vocab = at.Vocabulary([*at.SPECIALS, *"ab"])
    batch = [("a </s> b", "<s> b </s>")]
    src, tgt = collate_batch(batch, str.split, str.split, vocab, vocab, "cpu")
    assert src.tolist() == [[0, 4, 3, 5, 1]] and tgt.tolist() == [[0, 3, 5, 3, 1]]


def test_loaders_shuffle_training_only(text):
    train, valid = create_dataloaders("cpu", *text, batch_size=40)
    assert len(train) == math.ceil(len(CAPTIONS) / 40)

    def targets(loader):
        _, tgt = next(iter(loader))
        return [[i for i in row if i != PAD] for row in tgt.tolist()]

    def in_order(pairs):
        return [tgt for _, tgt in at.encode_pairs(pairs, text, max_tokens=128)[0]]

    first = in_order(load_pairs(TrainingConfig(), "valid")[:40])
    assert targets(valid) == first == targets(valid)
    assert targets(train) != in_order(CAPTIONS[:40])
