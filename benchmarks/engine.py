"""Compare our decoder with the models that `export` writes: outputs, BLEU, speed, size.

    python benchmarks/engine.py [--rounds 5]

Both models for Multi30k, ours and exported, translate test_2016_flickr, greedily and
with a beam of 5. The program prints how many lines differ from ours, and for the beam
how many would differ with CTranslate2's own length penalty and its own stopping rule.
Of the lines in which the two beams differ, it counts those for which one program found
a translation that rates higher. No choice is based on these figures (the settings of
`ExportedTranslator` were chosen on the validation split), so this look at the test set
is not logged.
"""

import argparse
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import turns

import annotated_transformer as at
from transformer_workshop.base.config import CONFIGS
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.models.export import (
    QUANTIZATIONS,
    ExportedTranslator,
    export_to_ctranslate2,
    load_exported,
)
from transformer_workshop.models.translator import Translator, load_translator
from transformer_workshop.text.corpora import load_pairs

THREADS = 2
MODELS = ("multi30k", "multi30k-2026")


def megabytes(folder: Path) -> float:
    """Return the size of a folder's files."""
    return round(sum(file.stat().st_size for file in folder.iterdir()) / 1e6, 1)


def beside(ours: Sequence[str], theirs: Sequence[str], references: Sequence[str]):
    """Count the lines that differ, and compute BLEU."""
    differ = sum(a != b for a, b in zip(ours, theirs, strict=True))
    return {"lines that differ": differ, "bleu": at.score(theirs, references)["bleu"]}


def who_rates_higher(
    ours: Translator, theirs: Translator, sentences: Sequence[str]
) -> dict[str, int]:
    """Count, among sentences that they translate differently, whose beam found more.

    A translation's rating is its log-probability over the length penalty, as the
    program that found it computes it; "equal" is within 0.001 nats.
    """
    alpha = ours.config.length_penalty
    rows = [ours.encode(sentence) for sentence in sentences]

    def ratings(translator: Translator) -> list[float]:
        decoded = translator.decode(rows, 5, alpha)
        lengths = [len(ids) + 1 for ids, _ in decoded]
        sums = [math.log(decoded[i][1]) * n for i, n in enumerate(lengths)]
        pairs = zip(sums, lengths, strict=True)
        return [at.length_normalized(log_p, n, alpha) for log_p, n in pairs]

    pairs = zip(ratings(ours), ratings(theirs), strict=True)
    more = [a - b for a, b in pairs]
    return {
        "ours": sum(by > 1e-3 for by in more),
        "equal": sum(abs(by) <= 1e-3 for by in more),
        "theirs": sum(by < -1e-3 for by in more),
    }


def by_its_own_rules(
    engine: ExportedTranslator, sentences: Sequence[str], alpha: float
) -> dict[str, list[str]]:
    """Translate by beam 5 with the engine's stopping, and with its penalty or ours."""
    rows = [engine.text.vocab_src.tokens(engine.encode(s)[1:-1]) for s in sentences]
    chosen: dict[str, list[str]] = {"its own penalty and stopping": []}
    chosen["our penalty, its own stopping"] = []
    limits = {"max_input_length": 0, "min_decoding_length": 0}
    limits["max_decoding_length"] = engine.config.max_tokens - 1
    search = {"beam_size": 5, "max_batch_size": 50, "return_scores": True, **limits}
    for result in engine.model.translate_batch(rows, length_penalty=alpha, **search):
        chosen["its own penalty and stopping"].append(result.hypotheses[0])
    results = engine.model.translate_batch(
        rows, length_penalty=0, num_hypotheses=5, **search
    )
    for result in results:
        rated = zip(result.scores, result.hypotheses, strict=True)
        best = max(
            rated, key=lambda x: at.length_normalized(x[0], len(x[1]) + 1, alpha)
        )
        chosen["our penalty, its own stopping"].append(best[1])
    return {
        name: [engine.text.tokenizer_tgt.detokenize(tokens) for tokens in outputs]
        for name, outputs in chosen.items()
    }


def step(translator: Translator, sentences: Sequence[str], beam: int) -> Callable:
    """Return a step that translates the sentences."""

    def translate() -> int:
        torch.set_num_threads(THREADS)
        return len(translator.translate(sentences, beam))

    return translate


def measure(model: Path, rounds: int) -> dict[str, Any]:
    """Return sizes, outputs and speeds of a model, ours and exported."""
    ours = load_translator(model, "cpu")
    pairs = load_pairs(CONFIGS["small"], "test")
    sentences, references = ([pair[i] for pair in pairs] for i in (0, 1))
    systems: dict[str, Translator] = {"ours": ours}
    sizes = {"ours": megabytes(model)}
    tables: dict[str, Any] = {"megabytes": sizes}
    with tempfile.TemporaryDirectory() as folder:
        for name in QUANTIZATIONS:
            export_to_ctranslate2(ours, Path(folder) / name, name)
            systems[name] = load_exported(Path(folder) / name, "cpu")
            sizes[name] = megabytes(Path(folder) / name)
    print("folder, MB:", ", ".join(f"{name} {size}" for name, size in sizes.items()))
    for beam in (1, 5):
        kind = "greedy" if beam == 1 else f"beam {beam}"
        texts = {n: t.translate(sentences, beam) for n, t in systems.items()}
        rated = {}
        if beam == 5:
            three = zip(sentences, texts["ours"], texts["float32"], strict=True)
            apart = [src for src, one, other in three if one != other]
            rated = {"rated higher": who_rates_higher(ours, systems["float32"], apart)}
            texts |= by_its_own_rules(
                systems["float32"], sentences, ours.config.length_penalty
            )
        outputs = {n: beside(texts["ours"], t, references) for n, t in texts.items()}
        steps = {name: step(t, sentences, beam) for name, t in systems.items()}
        speed = turns.compare(turns.take_turns(steps, 0.0, rounds), "ours")
        tables[kind] = {"outputs": outputs, "speed": speed} | rated
        print(f"\n{kind}", *(f"rated higher: {counts}" for counts in rated.values()))
        for name, row in outputs.items():
            bleu, differ = row["bleu"], row["lines that differ"]
            print(f"  {name:34} BLEU {bleu:.2f}, {differ} of {len(texts[name])} differ")
        turns.report(speed, "sentences")
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    root = project_folder()
    result: dict[str, Any] = {}
    for name in MODELS:
        print(f"\n{name}")
        result[name] = measure(root / "models" / name, arguments.rounds)
    result["environment"] = describe_environment()
    write_json(root / "results" / "engine.json", result)


if __name__ == "__main__":
    main()
