"""Train on three small corpora of made-up sentences, with the settings `train` chooses.

python benchmarks/own_data.py              all three, into results/own_data.json
python benchmarks/own_data.py es-it        one of them, printed only

The files are written to runs/own_data/PAIR; the commands are those of the README.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from pathlib import Path

from transformer_workshop.files import write_json
from transformer_workshop.machine import describe_environment

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
    found = []
    for each in itertools.product(people, deeds, times):
        es, it = (" ".join(filter(None, words)) for words in zip(*each, strict=True))
        found += [(f"{es}.", f"{it}."), (f"¿{es}?", f"{it}?")]
    return found


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


CORPORA = {
    "es-it": (spanish_italian, 150),
    "de-fr": (german_french, 400),
    "ja-en": (japanese_english, 400),
}
HELD_OUT = 50  # pairs for validation, and as many for the test


def write_corpus(name: str, folder: Path) -> list[str]:
    """Write train, valid, and test files; return the flags that name them."""
    grammar, size = CORPORA[name]
    pairs = grammar()
    random.Random(0).shuffle(pairs)
    src, tgt = name.split("-")
    parts = {
        "test": pairs[:HELD_OUT],
        "valid": pairs[HELD_OUT : 2 * HELD_OUT],
        "train": pairs[2 * HELD_OUT :][:size],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for part, some in parts.items():
        for language, lines in zip((src, tgt), zip(*some, strict=True), strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{part}.{language}").write_text(text, encoding="utf-8")
    return [
        f"--{part}-{side}={folder}/{part}.{language}"
        for part in ("train", "valid")
        for side, language in (("src", src), ("tgt", tgt))
    ]


def measure(name: str) -> dict[str, object]:
    """Train and evaluate as the README says; return what came of it."""
    folder = ROOT / "runs" / "own_data" / name
    files = write_corpus(name, folder)
    program = [sys.executable, str(ROOT / "annotated_transformer.py")]
    run = f"--run-dir={folder}/run"
    started = time.perf_counter()
    subprocess.run([*program, "train", run, "--restart", *files], check=True)
    seconds = time.perf_counter() - started
    src, tgt = name.split("-")
    pairs = [f"--src={folder}/test.{src}", f"--ref={folder}/test.{tgt}"]
    judged = subprocess.run(
        [*program, "evaluate", f"--model={folder}/run", *pairs],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    scores = json.loads(judged.stdout)
    return {"pairs": CORPORA[name][1], "train_seconds": round(seconds)} | scores


def main() -> None:
    """Measure the corpora that are named, or all."""
    names = sys.argv[1:] or list(CORPORA)
    found = {name: measure(name) for name in names}
    for name, row in found.items():
        print(name, row)
    if not sys.argv[1:]:
        about = {"command": "python benchmarks/own_data.py"} | describe_environment()
        write_json(ROOT / "results" / "own_data.json", about | {"corpora": found})


if __name__ == "__main__":
    main()
