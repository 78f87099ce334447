"""The riddles of chapter 1 for the page in which a model learns, and eight seeds of it.

    python site/riddles.py [--measure]

writes site/riddles.json, which the site's build copies. With --measure, the model also
learns in Chromium with eight seeds, whole and with each part taken away: that takes a
quarter of an hour. A sentence is a row of bytes: the words that differ from sentence
to sentence, the answers, and the set of animals that it is about. `learner.js` unpacks
these rows.
"""

from __future__ import annotations

import base64
import html
import json
import sys
from pathlib import Path
from urllib.parse import parse_qs

SITE = Path(__file__).resolve().parent
STORED = SITE / "riddles.json"
HELD_OUT = 9  # sets of three animals, as in chapter 1
SEEDS, EVERY, UPDATES = 8, 25, 300  # a test after every 25 updates
PARTS = {
    "read": ["whole", "positions", "attention", "residuals"],
    "write": ["whole", "mask", "positions"],
}


def packed(exam: str) -> dict[str, object]:
    """Return all riddles of two questions, with numbers for words.

    exam: "read", which asks for two of the ``choices``, or "write", which asks for the
    words of the German clause. The dog, the cat, and the goat are group 0.
    """
    from transformer_workshop.lab.riddles import ANIMALS, clause, hunts

    def animals(row) -> frozenset[str]:
        return frozenset(row.sentence.split()).intersection(ANIMALS)

    task = hunts(questions=2)
    rows = task.held_out + task.learned
    rows.sort(key=lambda row: (animals(row) != {"dog", "cat", "goat"}, row.sentence))
    sentences = [row.sentence.split() for row in rows]
    words, choices, start = list(task.words), list(task.choices), None
    if exam == "write":
        clauses = [clause(row).split()[1:-1] for row in rows]
        words += sorted({word for each in clauses for word in each})
        start, choices = words.index(clauses[0][0]), []
        answers = [[words.index(word) for word in each[1:]] for each in clauses]
    else:
        answers = [[choices.index(noun) for noun in row.answers] for row in rows]
    columns = [set(column) for column in zip(*sentences)]
    frame = [words.index(*each) if len(each) == 1 else -1 for each in columns]
    groups: dict[frozenset[str], int] = {}
    data = bytearray()
    for row, sentence, answer in zip(rows, sentences, answers):
        data += bytes(words.index(w) for w, f in zip(sentence, frame) if f < 0)
        data += bytes([*answer, groups.setdefault(animals(row), len(groups))])
    return {
        "exam": exam, "words": words, "frame": frame, "choices": choices,
        "answers": len(answers[0]), "asking": sentences[0].index("it"), "start": start,
        "held": HELD_OUT, "bytes": base64.b64encode(data).decode(),
    }  # fmt: skip


def exams() -> dict[str, object]:
    """Return both exams, and the adjectives of each role."""
    from transformer_workshop.lab.riddles import OF_ROLES

    roles = [list(each) for each in OF_ROLES]
    return {"read": packed("read"), "write": packed("write"), "roles": roles}


def measure(page) -> dict[str, dict[str, object]]:
    """Return shares, a row for each seed: of all right; in the end, of each answer."""
    runs: dict[str, object] = {"every": EVERY}
    answers: dict[str, object] = {}
    for exam, parts in PARTS.items():
        for part in parts:
            name = f"{exam} {part}"
            seeds = [
                page.evaluate(MEASURE, [exam, part, seed, EVERY, UPDATES])
                for seed in range(SEEDS)
            ]
            runs[name] = [shares for shares, _ in seeds]
            answers[name] = [each for _, each in seeds]
            print(name, answers[name], flush=True)
    return {"runs": runs, "answers": answers}


MEASURE = """([exam, part, seed, every, updates]) => {
    const settings = { ...PARTS_AWAY[part], exam, seed };
    const run = learner.makeRun(settings, tasks[exam]), shares = [run.test()];
    while (run.step < updates) {
        run.learn();
        if (run.step % every === 0) shares.push(run.test());
    }
    return [shares, run.exam().each].map(all => all.map(share => +share.toFixed(3)));
}"""


def script() -> str:
    """Return a script that stores the exams and what was measured."""
    return f"const RIDDLES = {STORED.read_text(encoding='utf-8').strip()};\n"


def figure(up: str, kind: str = "") -> str:
    """Return the HTML of the figure; ``up`` leads to _static/."""
    return f'<div class="learn" data-home="{up}" data-kind="{kind}"></div>'


AWAY = {  # what a link takes away, as learn.js names it in the address
    "positions": {"en": "the positions", "zh": "位置"},
    "attention": {"en": "attention", "zh": "注意力"},
    "residuals": {"en": "the residual connections", "zh": "残差连接"},
    "mask": {"en": "the mask", "zh": "掩码"},
}
INVITATION = {
    "en": "Your turn: {}. Guess first what it will score; then a small model learns in "
    "your browser, and eight other seeds show whether yours was an exception.",
    "zh": "轮到你了：{}（英文页）。先猜它能答对多少，再看一个小模型在你的浏览器里学，"
    "最后和另外八个随机种子比一比。",
}
LINK = {"en": "take {} away", "zh": "去掉{}"}


def invitation(state: str, language: str, up: str) -> str:
    """Return a sentence with a link to the page, where ``state`` sets the switches.

    state: what its address says after "#learn?", such as "exam=write&without=mask";
    ``up`` leads to the English pages.
    """
    [part] = parse_qs(state)["without"]
    text = LINK[language].format(AWAY[part][language])
    there = html.escape(f"{up}take-a-part-away.html#learn?{state}", quote=True)
    link = f'<a href="{there}">{text}</a>'
    return f'<p class="live-intro">{INVITATION[language].format(link)}</p>'


def main() -> None:
    sys.path.append(str(SITE.parent))
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    held = exams() | {name: stored.get(name, {}) for name in ("runs", "answers")}

    def store() -> None:
        text = json.dumps(held, ensure_ascii=False, separators=(",", ":"))
        STORED.write_text(text + "\n", encoding="utf-8")

    store()
    if "--measure" in sys.argv[1:]:
        import chromium
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(**chromium.installed())
            page = browser.new_page()
            page.set_default_timeout(0)
            open_exams(page)
            held |= measure(page)
        store()


def open_exams(page) -> None:
    """Give an empty page the learner and both exams."""
    page.add_script_tag(path=str(SITE / "static/learner.js"))
    page.add_script_tag(content=script())
    page.evaluate("""() => {
        window.learner = makeLearner();
        window.PARTS_AWAY = learner.PARTS_AWAY;
        window.tasks = Object.fromEntries(["read", "write"].map(
            exam => [exam, learner.unpack(RIDDLES[exam])]));
    }""")


if __name__ == "__main__":
    main()
