"""Pack a finished run on Multi30k into a folder of models/, at half precision.

    python benchmarks/ship.py RUN [--into models/multi30k-2026] [--scores FILE]

FILE, by default evaluate.json in the run's folder, is what `evaluate --model RUN
--dataset multi30k --split test` printed. Both the original weights and
the packed ones translate the validation split; the card says what packing changed.
"""

import argparse
import copy
import dataclasses
import re
from pathlib import Path
from typing import Any

import torch

import annotated_transformer as at
from transformer_workshop.base.config import CONFIGS, TrainingConfig, read_config_file
from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.base.files import (
    log,
    read_json,
    save_tensors,
    write_atomically,
    write_json,
)
from transformer_workshop.models.translator import Translator, load_translator
from transformer_workshop.text.corpora import load_pairs
from transformer_workshop.text.store import load_examples
from transformer_workshop.training.run_folder import read_metrics

LIMIT = 25e6  # bytes of the whole folder
INTO = "models/multi30k-2026"
CARD = """\
# {name}: German to English, {millions:.1f} million parameters

This model was trained from scratch on {pairs}, and on nothing else.

| | |
|---|---|
| architecture | {N} + {N} layers{parts}, `d_model` {d_model}, `d_ff` {d_ff}, \
{h} heads, {norm}-norm, {tie}, {parameters:,} parameters |
| weights | float16, {megabytes:.1f} MB; `load_translator` converts them to float32 |
| text | {bpe_size:,} byte-pair subwords for both languages, cased, learned from these \
pairs |
| training | {epochs} epochs in batches of {batch_tokens:,} positions, {minutes:.0f} \
minutes at {threads} ({precision}); {updates_by}, a {schedule} schedule up to \
{base_lr:g} after {warmup} updates{stable}, dropout {dropout:g}, label smoothing \
{smoothing:g}, {mean}; seed {seed} |
| command | `python {command}` |
| data and terms | [Multi30k](https://github.com/multi30k/dataset), task 1: captions \
of pictures from Flickr30k, translated by people. The data set and these weights are \
for research and education, not for commercial use |

The scores below are for beam search with a beam size of {beam_size} and a length \
penalty of {length_penalty:g}, which was chosen on the validation split. They are \
computed on cased, detokenized text
(`python annotated_transformer.py evaluate --model models/{name} --dataset multi30k \
--split test`):

| split | sentences | sacreBLEU (95% interval) | chrF |
|---|---|---|---|
{rows}

Signature: `{signature}`.

**Half precision.** The float16 weights translate {same:,} of the {count:,} validation \
sentences word for word as the float32 weights do. On this split, the float32 weights \
reach {bleu:.2f} BLEU and the float16 weights {packed:.2f}.

**Limits.** The model has read only picture captions: short sentences in the present \
tense about people, dogs, and what they do. It turns letters, news, and questions into \
nonsense in the vocabulary of captions; `translate` warns about most of it \
(`confidence.json`), but seldom about errors within captions. Subwords can spell every \
word, but the model often replaces a name or a rare word with another one. A sentence \
can have up to {max_tokens} subwords, but the longest that people wrote for training \
had {longest}. A line with several sentences is translated sentence by sentence. The \
model may repeat what the captions' writers took for granted about \
people (van Miltenburg, 2016, *Stereotyping and Bias in the Flickr30K Dataset*).
"""

PARTS = {
    "2017": "",
    "2026": " with the five changes of chapter 6 (SwiGLU is ⅔ of `d_ff` wide)",
}
OPTIMIZERS = {
    "adam": "Adam",
    "muon": "Muon for the layers' matrices, Adam for the rest",
}
STABLE = " that falls in the last {:.0%} of the run"


def packed_model(model: at.EncoderDecoder) -> at.EncoderDecoder:
    """Return a copy at half precision, in which tied weights stay tied.

    Raises DataError if a weight is too large for float16.
    """
    half = copy.deepcopy(model).half()
    if not all(weights.isfinite().all() for weights in half.parameters()):
        what = "holds a weight above 65,504, float16's largest number"
        raise at.DataError("model", what, "Ship it in bfloat16.")
    return half


def without_paths(command: str) -> str:
    """Return a command line in which folders are named relative to the project."""
    return re.sub(
        r"(?<![\w.])/(?:[^\s/]+/)*?(runs/\S+|[^\s/]+)(?=\s|$)", r"\1", command
    )


def settings_of(run: Path, config: TrainingConfig) -> dict[str, Any]:
    """Return the run's settings for config.json, without folders of this machine."""
    shipped = dataclasses.replace(config, run_dir=f"runs/{run.name}")
    starts = read_config_file(run)["starts"]
    for start in starts:
        start["command"] = without_paths(start["command"])
    return {"config": dataclasses.asdict(shipped), "starts": starts}


def described(pairs: list[tuple[str, str]], people: list[tuple[str, str]]) -> str:
    """Describe the training pairs: those of ``people``, or what diversify.py makes.

    Raises DataError for any others.
    """
    count, own = len(people), list(dict.fromkeys(people))
    if pairs == people:
        return f"the {count:,} sentence pairs of Multi30k"
    german, english = map(set, zip(*people, strict=True))
    added = pairs[len(own) :]
    if pairs[: len(own)] != own or not all(
        source in german or target in english for source, target in added
    ):
        what = "holds other pairs than Multi30k's and what benchmarks/diversify.py adds"
        raise at.DataError("train split", what, "Name a run on those pairs.")
    return (
        f"{len(pairs):,} sentence pairs: those of Multi30k ({count:,}), and "
        f"{len(added):,} of a German or English sentence of them with a translation by "
        f"a model that was trained on the same {count:,} (`benchmarks/diversify.py`, "
        "chapter 95)"
    )


def compare(
    translator: Translator, packed: Translator
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Score both on validation; return the packed one's scores and a comparison."""
    sources, references = zip(*load_pairs(packed.config, "valid"), strict=True)
    said = [each.translate(sources) for each in (translator, packed)]
    scores = [at.score(lines, references) for lines in said]
    same = sum(a == b for a, b in zip(*said, strict=True))
    parity = {"same": same, "count": len(sources), "bleu": scores[0]["bleu"]}
    return scores[1], parity | {"packed": scores[1]["bleu"]}


def checked_scores(path: Path) -> dict[str, Any]:
    """Return the scores on the test split; raise DataError if one is missing."""
    scores = read_json(path)
    wanted = {"bleu", "interval", "chrf", "sentences", "signature"}
    if not isinstance(scores, dict) or not wanted <= scores.keys():
        what = f"lacks one of {', '.join(sorted(wanted))}"
        raise at.DataError(path, what, "Store what `evaluate` printed.")
    return {name: scores[name] for name in sorted(wanted)}


def row(split: str, scores: dict[str, Any]) -> str:
    """Format a row of the card's table."""
    low, high = scores["interval"]
    bleu = f"{scores['bleu']:.1f} ({low:.1f}–{high:.1f})"
    return f"| {split} | {scores['sentences']:,} | {bleu} | {scores['chrf']:.1f} |"


def card(
    run: Path,
    into: Path,
    model: Translator,
    pairs: str,
    scores: dict[str, Any],
    parity: dict[str, Any],
) -> str:
    """Return the text of README.md; ``pairs`` says what the model was trained on."""
    config, metrics = model.config, read_metrics(run)
    examples = load_examples(CONFIGS["small"], "train", model.text)
    start = read_config_file(into)["starts"][0]
    ties = {"all": "one shared embedding table", "target": "target tables tied"}
    count = at.count_parameters(model.model)
    averaged = config.average > 1
    weights = f"mean of the weights of the last {config.average} epochs"
    return CARD.format(
        **dataclasses.asdict(config)
        | {
            "pairs": pairs,
            "millions": count / 1e6,
            "parameters": count,
            "norm": "pre" if config.norm_first else "post",
            "tie": ties.get(config.tie, "no tables tied"),
            "megabytes": (into / "model.safetensors").stat().st_size / 1e6,
            "minutes": sum(epoch["seconds"] for epoch in metrics) / 60,
            "threads": f"{config.threads} thread" + "s" * (config.threads > 1)
            + f" of {start['processor']}",
            "precision": f"{metrics[-1]['precision']} products",
            "mean": weights if averaged else "weights of the best epoch",
            "command": start["command"],
            "name": into.name,
            "parts": PARTS[config.block],
            "updates_by": OPTIMIZERS[config.optimizer],
            "stable": "" if config.decay == 1 else STABLE.format(config.decay),
            "rows": "\n".join(row(split, each) for split, each in scores.items()),
            "signature": scores["test"]["signature"],
            "longest": max(max(pair) for pair in at.lengths_of(examples)),
            **parity,
        }
    )  # fmt: skip


def ship(run: Path, into: Path, scores: Path) -> str:
    """Write the model's folder, and return its card."""
    test = checked_scores(scores)
    translator = load_translator(run, "cpu")
    config = translator.config
    if config.dataset != "multi30k":
        what = f"was trained on {config.dataset}, and the card is about Multi30k"
        raise at.DataError(run, what, "Name a run on Multi30k.")
    people = load_pairs(CONFIGS["small"], "train")
    pairs = described(load_pairs(config, "train"), people)
    half = packed_model(translator.model).state_dict()
    write_json(into / "config.json", settings_of(run, config))
    write_atomically(into / "vocabulary.json", (run / "vocabulary.json").read_bytes())
    save_tensors(into / "model.safetensors", half, {"epochs": config.epochs})
    valid, parity = compare(translator, load_translator(into, "cpu"))
    both = {"valid": valid, "test": test}
    write_json(into / "evaluate.json", {**both, "half precision": parity})
    text = card(run, into, translator, pairs, both, parity)
    write_atomically(into / "README.md", text.encode())
    size = sum(file.stat().st_size for file in into.iterdir())
    if size > LIMIT:
        what = f"holds {size / 1e6:.1f} MB, more than {LIMIT / 1e6:.0f}"
        raise at.DataError(into, what, "Ship a smaller model.")
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--into", type=Path, default=project_folder() / INTO)
    parser.add_argument("--scores", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    try:
        print(ship(given.run, given.into, given.scores or given.run / "evaluate.json"))
    except at.DataError as error:
        log(f"error: {error}")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
