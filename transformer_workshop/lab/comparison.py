"""Which of two translations is better, and where do they differ?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from annotated_transformer import optional_import

RESAMPLES, SEED = 1000, 12345  # sacreBLEU's defaults


def compare(
    translations: Sequence[str],
    other: Sequence[str],
    references: Sequence[str],
    metric: Any = None,
) -> dict[str, Any]:
    """Measure how much better translations are than ``other``, on shared resamples.

    metric: of sacreBLEU; None: BLEU. ``difference`` is in its points, ``interval`` the
    95 % interval of the bootstrap, and ``p`` that of the paired bootstrap, as sacreBLEU
    computes it (Koehn, 2004).
    """
    np, sacrebleu = optional_import("numpy"), optional_import("sacrebleu")
    metric = metric or sacrebleu.BLEU()
    name = metric.__class__.__name__.lower()
    draws = np.random.default_rng(SEED).choice(
        len(references), size=(RESAMPLES, len(references)), replace=True
    )
    now, resampled = [], []
    for lines in (translations, other):
        counts = np.array(metric._extract_corpus_statistics(lines, [references]))
        now.append(metric.corpus_score(lines, [references]))
        sums = (counts[draw].sum(0) for draw in draws)
        scores = [metric._compute_score_from_stats(s).score for s in sums]
        resampled.append(np.array(scores))
    difference = now[0].score - now[1].score
    apart = np.sort(resampled[0] - resampled[1])
    size = np.abs(apart)
    # at least: for two that are alike, p is 1
    by_chance = (size - size.mean() >= abs(difference)).sum().item()
    cut = RESAMPLES // 40
    result = {
        name: round(now[0].score, 2),
        "difference": round(difference, 2),
        "interval": [round(apart[i].item(), 2) for i in (cut, -cut - 1)],
        "p": round((by_chance + 1) / (RESAMPLES + 1), 4),
        "signature": str(metric.get_signature()),
    }
    if name == "bleu":
        result["length"] = round(now[0].sys_len / now[0].ref_len, 4)
    return result


class Apart(NamedTuple):
    """A sentence that two translators translate differently."""

    number: int
    source: str
    reference: str
    translations: Sequence[str]  # two
    chrf: Sequence[float]


def most_different(
    pairs: Sequence[tuple[str, str]],
    translations: Sequence[str],
    other: Sequence[str],
    count: int = 10,
) -> list[Apart]:
    """Return the sentences whose chrF differs most, the largest difference first."""
    chrf = optional_import("sacrebleu").sentence_chrf
    rows = []
    for number, ((source, reference), *both) in enumerate(
        zip(pairs, translations, other, strict=True), 1
    ):
        if both[0] != both[1]:
            scores = [chrf(text, [reference]).score for text in both]
            rows.append(Apart(number, source, reference, both, scores))
    rows.sort(key=lambda row: -abs(row.chrf[0] - row.chrf[1]))
    return rows[:count]


def report(
    names: Sequence[str],
    pairs: Sequence[tuple[str, str]],
    both: Sequence[Sequence[str]],
    tokenize: str,
    count: int = 10,
) -> str:
    """Say how two translators differ: BLEU, chrF, and sentences to look at."""
    sacrebleu = optional_import("sacrebleu")
    a, b = both
    references = [reference for _, reference in pairs]
    lines = [f"A  {names[0]}", f"B  {names[1]}", ""]
    signatures = []
    for metric in (sacrebleu.BLEU(tokenize=tokenize), sacrebleu.CHRF()):
        title = {"BLEU": "BLEU", "CHRF": "chrF"}[type(metric).__name__]
        first = metric.corpus_score(a, [references]).score
        compared = compare(b, a, references, metric)
        low, high = compared["interval"]
        is_apart = compared["p"] < 0.05
        verdict = "told apart" if is_apart else "can't be told apart"
        lines.append(
            f"{title:4}  A {first:.2f}  B {compared[title.lower()]:.2f}  "
            f"B - A {compared['difference']:+.2f} ({low:+.2f} to {high:+.2f}), "
            f"p = {compared['p']:.3f}: {verdict}"
        )
        signatures.append(f"{title}: {compared['signature']}")
    same = sum(x == y for x, y in zip(a, b, strict=True))
    lines.append(
        f"{len(pairs):,} sentences, {same:,} translated alike; paired bootstrap, 95 %"
    )
    for row in most_different(pairs, a, b, count):
        scores = " and ".join(f"{score:.0f}" for score in row.chrf)
        lines += [
            "",
            f"{row.number}: chrF {scores}",
            f"      {row.source}",
            f"      {row.reference}",
            *(
                f"   {x}  {text}"
                for x, text in zip("AB", row.translations, strict=True)
            ),
        ]
    return "\n".join([*lines, "", *signatures])
