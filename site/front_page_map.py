"""Write site/front_page_map.json, the attention map of the front page.

Each row is named after the word that is read there and the one that is written next.

    python site/front_page_map.py

The weights are those of models/multi30k, which chapter 5 looks into.
"""

import dataclasses
import json
from pathlib import Path

from transformer_workshop.base.data_sets import project_folder
from transformer_workshop.models.translator import load_translator
from transformer_workshop.pictures import use_charts
from transformer_workshop.pictures.attention_maps import explain, explorer

SENTENCES = [
    "Auf der Straße spielt ein alter Mann Gitarre.",
    "Ein Mädchen sieht einem alten Mann mit einer Gitarre zu.",
    "Zwei Männer in blauen Hemden reparieren ein altes Fahrrad.",
    "Ein Hund läuft über die Wiese.",
]


def _written(rows: list[str]) -> list[str]:
    """Return "A → man" for the row of A."""
    following = [*rows[1:], "</s>"]
    return [f"{read} → {word}" for read, word in zip(rows, following, strict=True)]


def specification() -> dict:
    """Return the explorer of the cross-attention over SENTENCES."""
    use_charts()
    translator = load_translator(project_folder() / "models/multi30k", "cpu")
    found = explain(translator, *SENTENCES).recordings
    cross = [
        dataclasses.replace(each, rows=_written(each.rows))
        for each in found
        if each.kind == "cross-attention"
    ]
    return explorer(*cross, layer=1, head=0).to_dict()


if __name__ == "__main__":
    path = Path(__file__).with_name("front_page_map.json")
    text = json.dumps(specification(), ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")
