"""Train on small corpora with the settings `train` chooses, and with too few updates.

python benchmarks/own_data.py              all of them, into results/own_data.json
python benchmarks/own_data.py es-it        one of them, stored with the others

Three corpora are made-up sentences; de-en is the first 2,000 training pairs of
Multi30k, tested on half of its validation split. "too few" trains es-it with --config
small, whose number of epochs is meant for 29,000 pairs. The files are written to
runs/own_data/PAIR; the commands are those of chapter 3.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
import time
from pathlib import Path

from transformer_workshop.base.data_sets import data_file
from transformer_workshop.base.files import read_json, write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.text.corpora import read_pairs
from transformer_workshop.training.run_folder import read_metrics

ROOT = Path(__file__).resolve().parent.parent
Pair = tuple[str, str]


def table(text: str) -> list[list[str]]:
    """Return the rows of a text: a line each, its fields between bars."""
    return [line.strip().split("|") for line in text.strip().splitlines()]


def spanish_italian() -> list[Pair]:
    """Return statements and questions: who does what to what, and when."""
    people = table("""
        El niño|Il bambino
        La niña|La bambina
        Mi madre|Mia madre
        Tu hermano|Tuo fratello
        La profesora|L'insegnante
    """)
    deeds = table("""
        come una manzana|mangia una mela
        come el pan|mangia il pane
        compra una manzana|compra una mela
        compra el pan|compra il pane
        compra un libro|compra un libro
        compra la camisa roja|compra la camicia rossa
        lee un libro|legge un libro
        lee la carta|legge la lettera
        busca la carta|cerca la lettera
        busca el perro|cerca il cane
        busca la camisa roja|cerca la camicia rossa
    """)
    times = [["", ""], *table("hoy|oggi\npor la mañana|la mattina\nen casa|a casa")]
    pairs = []
    for parts in itertools.product(people, deeds, times):
        es, it = (" ".join(filter(None, words)) for words in zip(*parts, strict=True))
        pairs += [(f"{es}.", f"{it}."), (f"¿{es}?", f"{it}?")]
    return pairs


def german_french() -> list[Pair]:
    """Return sentences in which the German verb comes last."""
    people = table("""
        Der Mann|L'homme
        Die Frau|La femme
        Mein Freund|Mon ami
        Unsere Nachbarin|Notre voisine
        Das Kind|L'enfant
        Der Lehrer|Le professeur
    """)
    wishes = table("will|veut\nkann|peut\nmuss|doit")
    times = table("""
        heute|aujourd'hui
        morgen|demain
        am Abend|le soir
        im Sommer|en été
    """)
    deeds = table("""
        einen Kuchen backen|faire un gâteau
        das Haus malen|peindre la maison
        ein Lied singen|chanter une chanson
        nach Paris fahren|aller à Paris
        den Brief schreiben|écrire la lettre
        im Garten arbeiten|travailler dans le jardin
        das Fenster öffnen|ouvrir la fenêtre
    """)
    return [
        (f"{wer} {will} {wann} {was}.", f"{qui} {veut} {quoi} {quand}.")
        for (wer, qui), (will, veut), (wann, quand), (was, quoi) in itertools.product(
            people, wishes, times, deeds
        )
    ]


def japanese_english() -> list[Pair]:
    """Return sentences without spaces, with the verb last; some verbs take an s."""
    people = table("""
        私|I|
        先生|The teacher|s
        母|My mother|s
        友達|My friend|s
        子供|The child|s
        田中さん|Mr. Tanaka|s
    """)
    places = table("""
        |
        家で| at home
        公園で| in the park
        駅で| at the station
        学校で| at school
    """)
    deeds = table("""
        本を読みます|read| a book
        水を飲みます|drink| water
        音楽を聞きます|listen| to music
        手紙を書きます|write| letters
        犬を見ます|see| a dog
        写真を撮ります|take| photos
    """)
    times = table("|\n毎日| every day\n今日| today")
    return [
        (f"{when}{who}は{where}{deed}。", f"{name} {verb}{s}{what}{place}{day}.")
        for (when, day), (who, name, s), (where, place), (deed, verb, what) in (
            itertools.product(times, people, places, deeds)
        )
    ]


HELD_OUT = 50  # pairs for validation, and as many for the test
GRAMMARS = {
    "es-it": (spanish_italian, 150),
    "de-fr": (german_french, 400),
    "ja-en": (japanese_english, 400),
}
NAMES = [*GRAMMARS, "de-en", "too few"]


def corpus(name: str) -> dict[str, list[Pair]]:
    """Return the training, validation, and test pairs."""
    if name == "de-en":
        train, held_out = (
            read_pairs(*(data_file("multi30k", f"{part}.{x}.gz") for x in ("de", "en")))
            for part in ("train", "val")
        )
        return {
            "train": train[:2000],
            "valid": held_out[:500],
            "test": held_out[500:1000],
        }
    grammar, size = GRAMMARS[name]
    pairs = grammar()
    random.Random(0).shuffle(pairs)
    return {
        "test": pairs[:HELD_OUT],
        "valid": pairs[HELD_OUT : 2 * HELD_OUT],
        "train": pairs[2 * HELD_OUT :][:size],
    }


def measure(name: str) -> dict[str, object]:
    """Train and evaluate as the README says; return what came of it."""
    folder = ROOT / "runs" / "own_data" / name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    flags = ["--config=small"] if name == "too few" else []
    name = "es-it" if name == "too few" else name
    parts, languages = corpus(name), dict(zip(("src", "tgt"), name.split("-")))
    for part, pairs in parts.items():
        for (side, language), lines in zip(languages.items(), zip(*pairs)):
            path = folder / f"{part}.{language}"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            if part != "test":
                flags.append(f"--{part}-{side}={path}")
    program = [sys.executable, str(ROOT / "annotated_transformer.py")]
    run = folder / "run"
    started = time.perf_counter()
    subprocess.run(
        [*program, "train", f"--run-dir={run}", "--restart", *flags], check=True
    )
    seconds = time.perf_counter() - started
    src, ref = (folder / f"test.{language}" for language in languages.values())
    judged = subprocess.run(
        [*program, "evaluate", f"--model={run}", f"--src={src}", f"--ref={ref}",
         f"--out={folder}/translations.txt"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    last = read_metrics(run)[-1]
    config = read_json(run / "config.json")["config"]
    written = (folder / "translations.txt").read_text(encoding="utf-8").splitlines()
    firsts = zip(parts["test"][:3], written)
    return {
        "pairs": len(parts["train"]),
        "updates": last["step"],
        "warmup": config["warmup"],
        "train_seconds": round(seconds),
        "perplexity": round(last["perplexity"], 2),
        **json.loads(judged.stdout),
        "first": [[source, line] for (source, _), line in firsts],
    }


def main() -> None:
    """Measure the corpora that are named, or all, and store the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    about = f"one of {', '.join(NAMES)}; without any, all of them"
    parser.add_argument("names", nargs="*", metavar="NAME", help=about)
    names = parser.parse_args().names
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"no corpus is called {unknown[0]}; there are {', '.join(NAMES)}")
    path = ROOT / "results" / "own_data.json"
    corpora = read_json(path)["corpora"] if names else {}
    for name in names or NAMES:
        corpora[name] = measure(name)
        print(name, corpora[name])
    about = {"command": "python benchmarks/own_data.py"} | describe_environment()
    write_json(path, about | {"corpora": corpora})


if __name__ == "__main__":
    main()
