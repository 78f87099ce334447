"""Measure how well a model's confidence tells wrong translations from right ones.

    python benchmarks/trust.py [--model FOLDER …]  (default: both of Multi30k)

Translates the sentences and scenes of data/trust and Multi30k's validation split as
`translate` does, and compares the confidence of each translation with its label and
with the threshold in the model's confidence.json. Of test_2016, which had no part in
choosing it, the program only counts what is flagged. A translation is flagged if it is
below the threshold or has a fault. The labels belong to one model's outputs: if
an output has changed, the program says so and stops. Intervals are 95 % Wilson
intervals.
"""

import argparse
import csv
import hashlib
from pathlib import Path
from typing import Any

import torch
from challenge import MODELS, share

import annotated_transformer as at
from transformer_workshop.base.config import TrainingConfig
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import fingerprint, write_json
from transformer_workshop.base.machine import describe_environment
from transformer_workshop.base.text_files import read_lines
from transformer_workshop.models.translator import (
    Translation,
    load_threshold,
    load_translator,
)
from transformer_workshop.text.corpora import load_pairs

FOLDER = project_folder()
GROUPS = "sentences", "scenes", "captions"
SHARES = [0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5]


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of a file in data/trust."""
    lines = read_lines(FOLDER / "data/trust" / name)
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def labeled(
    model: str, translations: dict[str, list[Translation]]
) -> list[dict[str, Any]]:
    """Return group, half, label, and confidence of all labeled translations.

    ``translations`` holds those of each of the GROUPS, by the numbers in its file.

    Raises DataError if an output is not the one that was labeled.
    """
    rows = []
    for kind, outputs in translations.items():
        labels = table(f"{kind}.{model}.tsv")
        for row, label in zip(table(f"{kind}.tsv"), labels, strict=True):
            number = int(row["number"])
            text, confidence, fault = outputs[number - 1]
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            if label.get("output", text) != text or (
                label.get("output_sha256", digest) != digest
            ):
                what = f"labels another output of number {number}: {text!r}"
                file = FOLDER / f"data/trust/{kind}.{model}.tsv"
                raise at.DataError(file, what, "Label the new output.")
            rows.append({
                "group": kind, "half": row["half"], "label": label["label"],
                "confidence": round(confidence, 4), "fault": fault,
            })  # fmt: skip
    return rows


def measure(folder: Path, pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the threshold's result and the whole curve for one model."""
    translator = load_translator(folder, "cpu")
    captions = translator.translations([src for src, _ in pairs])
    own = {
        kind: translator.translations([row["german"] for row in table(f"{kind}.tsv")])
        for kind in GROUPS if kind != "captions"
    }  # fmt: skip
    rows = labeled(folder.name, {**own, "captions": captions})
    ranked = sorted(translation.confidence for translation in captions)

    def flagged(threshold: float, half: str = "held-out") -> dict[str, Any]:
        held = [r for r in rows if r["half"] == half]
        groups = {
            f"{label} {group}": [
                bool(r["fault"]) or r["confidence"] < threshold for r in held
                if (r["group"], r["label"]) == (group, label)
            ] for group in GROUPS for label in ("bad", "good")
        }  # fmt: skip
        return {
            "threshold": round(threshold, 4),
            "all captions": share(
                [
                    bool(fault) or confidence < threshold
                    for _, confidence, fault in captions
                ]
            ),
            **{name: share(chosen) for name, chosen in groups.items()},
        }

    threshold = load_threshold(folder)
    if threshold is None:
        what = "has no threshold"
        raise at.DataError(folder, what, "Run `calibrate --dataset multi30k` first.")
    unseen = load_pairs(TrainingConfig(dataset="multi30k"), "test")
    notes = translator.translations([src for src, _ in unseen])
    return {
        "weights": fingerprint((folder / "model.safetensors").read_bytes()),
        "unseen captions": share(
            [bool(fault) or confidence < threshold for _, confidence, fault in notes]
        ),
        "at the threshold": flagged(threshold),
        "at the threshold, fit": flagged(threshold, "fit"),
        "curve": [flagged(ranked[int(s * len(ranked))]) for s in SHARES],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, action="append")
    parser.add_argument("--out", type=Path, default=FOLDER / "results/trust.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pairs = load_pairs(TrainingConfig(dataset="multi30k"), "valid")
    result: dict[str, Any] = {**describe_environment(), "models": {}}
    for folder in arguments.model or MODELS:
        measured = measure(folder, pairs)
        result["models"][folder.name] = measured
        print(f"{folder.name}, flagged on the held-out half:")
        for name, of in measured["at the threshold"].items():
            if name != "threshold":
                low, high = of["interval"]
                counts = f"{of['count']} of {of['of']}"
                print(f"  {name:14} {counts:>11} ({low:.0f}–{high:.0f} %)")
    write_json(arguments.out, result)


if __name__ == "__main__":
    main()
