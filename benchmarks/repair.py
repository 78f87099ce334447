"""Fine-tune models/multi30k on captions that begin with a place or an object.

    python benchmarks/repair.py [--seeds 0 1 2]     (needs the Multi30k data)
    python benchmarks/repair.py --write             writes data/repair/training.tsv

For chapter 3. Each training makes one pass over the 400 captions of
data/repair/training.tsv, with the place or the object first or, as the control, the
same captions in the usual order; the seed is that of their order. ``tally`` of
transformer_workshop/lab/repair.py counts what becomes of the minimal pairs. `bleu` is
that of 300 captions of Multi30k's validation split, decoded greedily. A training takes
about 15 CPU seconds, and its figures as many; each is kept in runs/repair/, so that the
program goes on where it was stopped. results/repair.json has them all.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import sys
from typing import Any

import torch

import annotated_transformer as at
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import log, read_json, write_atomically, write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.lab.repair import Lesson, lessons, tally
from transformer_workshop.models.speed import optimize_for_cpu
from transformer_workshop.models.translator import Translator, load_translator
from transformer_workshop.text.corpora import load_pairs

FOLDER = project_folder()
KEPT = FOLDER / "runs" / "repair"
OF_EACH_KIND = 200
LONGEST = 11  # German tokens
SETTINGS = at.Settings(
    batch_tokens=200, epochs=1, base_lr=3e-4, warmup=5, valid_per_epoch=1
)


def write_lessons() -> None:
    """Write the captions to train on: each scene of the grammar in two word orders."""
    sys.path.insert(0, str(FOLDER / "data" / "captions"))
    import captions as grammar

    def pattern(german: str, english: str) -> grammar.Pattern:
        return grammar.Pattern(1, "one", tuple(german.split()), tuple(english.split()))

    with_place, without = "S B G O P .", "S B G O ."
    orders = {
        "place first": (
            pattern("S V O P X .", with_place), pattern("P V S O X .", with_place),
        ),
        "object first": (
            pattern("S V O X .", without), pattern("O V S X .", without),
        ),
    }  # fmt: skip

    def shows_its_roles(scene: grammar.Scene) -> bool:
        """Return whether an article or the verb tells the subject from the object."""
        who, what = scene.subject, scene.object
        if not isinstance(what, grammar.NounPhrase):
            return False
        if who.plural != what.plural and who.determiner != "group":
            return True
        return any(
            each.realise("nom").de[0].text != each.realise("acc").de[0].text
            for each in (who, what)
        )

    rng = grammar.Chooser(grammar.SEED)
    rows = ["\t".join(Lesson._fields)]
    for kind, (usual, changed) in orders.items():
        needed = changed if kind == "place first" else usual
        activities = [
            activity
            for activity in grammar.ACTIVITIES
            if grammar.suits("one", activity) and grammar.supplies(activity, needed)
            and not activity.reflexive
        ]  # fmt: skip
        written: set[str] = set()
        while len(written) < OF_EACH_KIND:
            try:
                scene = grammar.Scene(rng, grammar.pick(rng, activities, 80.0))
                if grammar.objections(usual, scene) or grammar.objections(
                    changed, scene
                ):
                    continue
                if kind == "object first" and not shows_its_roles(scene):
                    continue
                pair = [grammar.realise(order, [scene]) for order in (usual, changed)]
            except grammar.Unfit:
                continue
            german, other = (each.line("de") for each in pair)
            if len(pair[0].german) <= LONGEST and german not in written:
                written.add(german)
                rows.append("\t".join([kind, german, other, pair[0].line("en")]))
    text = "".join(f"{row}\n" for row in rows)
    write_atomically(FOLDER / "data/repair/training.tsv", text.encode())


def figures(translator: Translator, valid: list[tuple[str, str]]) -> dict[str, Any]:
    """Return what a translator makes of the minimal pairs and of ordinary captions."""
    sources, references = zip(*valid, strict=True)
    lines = [each.text for each in translator.translations(sources, beam_size=1)]
    return {
        "outcomes": tally(translator), "bleu": at.score(lines, references)["bleu"]
    }  # fmt: skip


def fine_tune(how: str, seed: int) -> Translator:
    """Return models/multi30k after a pass over the lessons in an order of words."""
    translator = load_translator("multi30k", "cpu", optimize=False)
    pairs = [(getattr(lesson, how), lesson.english) for lesson in lessons()]
    random.Random(seed).shuffle(pairs)
    examples, _ = at.encode_pairs(pairs, translator.text, max_tokens=128)
    settings = at.Settings(**{**vars(SETTINGS), "seed": seed})
    torch.manual_seed(seed)  # dropout
    with contextlib.redirect_stdout(io.StringIO()):  # it validates only at the end
        at.train(translator.model, examples, examples[:20], settings)
    optimize_for_cpu(translator.model.eval())
    return translator


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--write", action="store_true", help="only write the lessons")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.write:
        write_lessons()
        return
    valid = load_pairs(TrainingConfig(dataset="multi30k"), "valid")[:300]
    runs = [("before", 0)]
    runs += [(how, seed) for seed in arguments.seeds for how in ("changed", "usual")]
    measured = []
    for how, seed in runs:
        kept = KEPT / f"{how}-{seed}.json"
        if not kept.exists():
            before = how == "before"
            translator = (
                load_translator("multi30k", "cpu") if before else fine_tune(how, seed)
            )
            write_json(kept, figures(translator, valid))
        measured.append({"trained on": how, "seed": seed, **read_json(kept)})
        log(measured[-1])
    write_json(
        FOLDER / "results/repair.json",
        {**describe_environment(), "settings": vars(SETTINGS), "runs": measured},
    )


if __name__ == "__main__":
    main()
