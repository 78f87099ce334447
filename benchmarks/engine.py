"""Compare our decoder with the model that `export` writes: outputs, BLEU, speed, size.

    python benchmarks/engine.py [--model models/multi30k] [--rounds 5]

Both translate test_2016_flickr, greedily and with a beam of 5. The program prints how
many lines differ from ours, and for the beam how many would differ with CTranslate2's
own length penalty and its own stopping rule. No choice is based on these figures (the
settings of `ExportedTranslator` were chosen on the validation split), so this look at
the test set is not logged.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import turns

import annotated_transformer as at

THREADS = 2


def megabytes(folder: Path) -> float:
    """Return the size of a folder's files."""
    return round(sum(file.stat().st_size for file in folder.iterdir()) / 1e6, 1)


def beside(ours: Sequence[str], theirs: Sequence[str], references: Sequence[str]):
    """Count the lines that differ, and compute BLEU."""
    differ = sum(a != b for a, b in zip(ours, theirs, strict=True))
    return {"lines that differ": differ, "bleu": at.score(theirs, references)["bleu"]}


def by_its_own_rules(
    engine: at.ExportedTranslator, sentences: Sequence[str], alpha: float
) -> dict[str, list[str]]:
    """Translate by beam 5 with the engine's stopping, and with its penalty or ours."""
    rows = [engine.text.vocab_src.tokens(engine.check(s)[1:-1]) for s in sentences]
    found: dict[str, list[str]] = {"its own penalty and stopping": []}
    found["our penalty, its own stopping"] = []
    limits = {"max_input_length": 0, "min_decoding_length": 0}
    limits["max_decoding_length"] = engine.config.max_tokens - 1
    search = {"beam_size": 5, "max_batch_size": 50, "return_scores": True, **limits}
    for result in engine.model.translate_batch(rows, length_penalty=alpha, **search):
        found["its own penalty and stopping"].append(result.hypotheses[0])
    results = engine.model.translate_batch(
        rows, length_penalty=0, num_hypotheses=5, **search
    )
    for result in results:
        rated = zip(result.scores, result.hypotheses, strict=True)
        best = max(
            rated, key=lambda x: at.length_normalized(x[0], len(x[1]) + 1, alpha)
        )
        found["our penalty, its own stopping"].append(best[1])
    return {
        name: [engine.text.tokenizer_tgt.detokenize(tokens) for tokens in outputs]
        for name, outputs in found.items()
    }


def step(translator: at.Translator, sentences: Sequence[str], beam: int) -> Callable:
    """Return a step that translates the sentences."""

    def translate() -> int:
        torch.set_num_threads(THREADS)
        return len(translator.translate(sentences, beam))

    return translate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="models/multi30k")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    ours = at.load_translator(arguments.model, "cpu")
    pairs = at.load_pairs(at.CONFIGS["small"], "test")
    sentences, references = ([pair[i] for pair in pairs] for i in (0, 1))
    systems: dict[str, at.Translator] = {"ours": ours}
    sizes = {"ours": megabytes(Path(arguments.model))}
    with tempfile.TemporaryDirectory() as folder:
        for name in at.QUANTIZATIONS:
            at.export_to_ctranslate2(ours, Path(folder) / name, name)
            systems[name] = at.load_exported(Path(folder) / name, "cpu")
            sizes[name] = megabytes(Path(folder) / name)
    print("folder, MB:", ", ".join(f"{name} {size}" for name, size in sizes.items()))
    tables: dict[str, dict] = {"megabytes": sizes}
    for beam in (1, 5):
        kind = "greedy" if beam == 1 else f"beam {beam}"
        texts = {n: t.translate(sentences, beam) for n, t in systems.items()}
        if beam == 5:
            texts |= by_its_own_rules(
                systems["float32"], sentences, ours.config.length_penalty
            )
        outputs = {n: beside(texts["ours"], t, references) for n, t in texts.items()}
        steps = {name: step(t, sentences, beam) for name, t in systems.items()}
        speed = turns.compare(turns.take_turns(steps, 0.0, arguments.rounds), "ours")
        tables[kind] = {"outputs": outputs, "speed": speed}
        print(f"\n{kind}")
        for name, row in outputs.items():
            bleu, differ = row["bleu"], row["lines that differ"]
            print(f"  {name:34} BLEU {bleu:.2f}, {differ} of {len(texts[name])} differ")
        turns.report(speed, "sentences")
    path = at.project_folder() / "results" / "engine.json"
    at.write_json(path, tables | {"environment": at.describe_environment()})


if __name__ == "__main__":
    main()
