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
    tokenize: str = "13a",
) -> dict[str, Any]:
    """Measure by how many points of BLEU translations are better than ``other``.

    ``interval`` is the 95 % interval of the difference, from the bootstrap, and ``p``
    that of sacreBLEU's paired bootstrap (Koehn, 2004).
    """
    np, sacrebleu = optional_import("numpy"), optional_import("sacrebleu")
    metric = sacrebleu.BLEU(tokenize=tokenize)
    (now, before), p = paired_bootstrap(translations, other, references, metric)
    one, two = (
        np.array([_counts(metric, *pair) for pair in zip(lines, references)])
        for lines in (translations, other)
    )
    draws = np.random.default_rng(SEED).choice(
        len(references), size=(RESAMPLES, len(references)), replace=True
    )
    apart = sorted(
        _bleu(metric, one[draw].sum(0)) - _bleu(metric, two[draw].sum(0))
        for draw in draws
    )
    cut = RESAMPLES // 40
    whole = metric.corpus_score(translations, [references])
    return {
        "bleu": round(now, 2),
        "difference": round(now - before, 2),
        "interval": [round(apart[i], 2) for i in (cut, -cut - 1)],
        "p": round(p, 4),
        "signature": str(metric.get_signature()),
        "length": round(whole.sys_len / whole.ref_len, 4),
    }


def paired_bootstrap(
    translations: Sequence[str],
    other: Sequence[str],
    references: Sequence[str],
    metric: Any,
) -> tuple[tuple[float, float], float]:
    """Return both scores in a metric of sacreBLEU, and p of its paired bootstrap."""
    significance = optional_import("sacrebleu.significance")
    systems = [("other", list(other)), ("translations", list(translations))]
    test = significance.PairedTest(
        systems, {"metric": metric}, [list(references)], "bs", RESAMPLES
    )
    _, found = test()
    [name] = found.keys() - {"System"}
    before, now = found[name]
    if list(translations) == list(other):  # where sacreBLEU's p is the least possible
        return (now.score, before.score), 1.0
    return (now.score, before.score), now.p_value


def _counts(metric: Any, line: str, reference: str) -> list[int]:
    """Return what BLEU counts in one sentence; sums of it are those of a corpus."""
    found = metric.corpus_score([line], [[reference]])
    return [*found.counts, *found.totals, found.sys_len, found.ref_len]


def _bleu(metric: Any, counts: Any) -> float:
    """Return BLEU, in points, from sums of counts."""
    numbers = counts.tolist()
    found = metric.compute_bleu(
        numbers[:4], numbers[4:8], *numbers[8:], smooth_method=metric.smooth_method
    )
    return found.score


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
    compared = compare(b, a, references, tokenize)
    low, high = compared["interval"]
    interval = f" ({low:+.2f} to {high:+.2f})"
    for title, metric, more in (
        ("BLEU", sacrebleu.BLEU(tokenize=tokenize), interval),
        ("chrF", sacrebleu.CHRF(), ""),
    ):
        (now, before), p = paired_bootstrap(b, a, references, metric)
        verdict = "told apart" if p < 0.05 else "can't be told apart"
        lines.append(
            f"{title}  A {before:.2f}  B {now:.2f}  "
            f"B - A {now - before:+.2f}{more}, p = {p:.3f}: {verdict}"
        )
        signatures.append(f"{title}: {metric.get_signature()}")
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
