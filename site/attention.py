"""Write site/attention.json, the attention map of the front page.

    python site/attention.py

The weights are those of models/multi30k, which chapter 5 looks into.
"""

import json
from pathlib import Path

import annotated_transformer as at

SENTENCES = [
    "Auf der Straße spielt ein alter Mann Gitarre.",
    "Ein Mädchen sieht einem alten Mann mit einer Gitarre zu.",
    "Zwei Männer in blauen Hemden reparieren ein altes Fahrrad.",
    "Ein Hund läuft über die Wiese.",
]


def specification() -> dict:
    """Return the explorer of the cross-attention over SENTENCES."""
    at.use_charts()
    translator = at.load_translator(at.project_folder() / "models/multi30k", "cpu")
    found = at.explain(translator, *SENTENCES).recordings
    cross = [each for each in found if each.kind == "cross-attention"]
    return at.explorer(*cross, layer=1, head=0).to_dict()


if __name__ == "__main__":
    path = Path(__file__).with_name("attention.json")
    text = json.dumps(specification(), ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")
