"""Keep the translations in step with the English, which never waits for them.

    python tools/translations.py

A language is a folder notebooks-<code>. Its pages have the names of the English ones:
the chapters, their solutions, the glossary, README.md, TEACHING.md. Its messages.toml
has the notes that readers see, and its words.toml what isn't prose (wording.py). Every
cell of prose ends in a mark, <!-- en: 1a2b3c4d -->, the beginning of the SHA-256 of the
English cell that it translates. A page without code is cut into cells at its headings
and its entries, the items of a list that begin in bold.

Code, outputs, and ids come from the English notebook; comments and the words of charts
and figures are put into the language. A cell of prose is found again by its mark,
wherever it went. Where the English has changed since, the translation stays, and both a
note for readers and the mark say so: <!-- en: 1a2b3c4d, now 5e6f7a8b -->. Where there
is no translation, the English stands in. What a translator has to do is listed.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from urllib.parse import unquote

import jupytext
import messages
import nbformat
import wording
from chapters import ROOT, Refused, pair, replace, tags
from links import LINK, anchor, links, titles
from nbformat import NotebookNode

MARK = re.compile(
    r"<!-- en: (?P<old>[0-9a-f]{8})"
    r"(, (?P<state>now|untranslated) (?P<new>[0-9a-f]{8}))? -->"
)
WHOLE = "<!-- whole -->"  # a page with it stays as it is
NOTE = re.compile(r"\n* *> [^\n]*<!-- note -->\n*")
ENTRY = "- **"
UNCHANGED = {  # beside links; comments in a listing can be translated
    "listings": re.compile(r"^```.*?^```", re.M | re.S),
    "headings": re.compile(r"^#+(?= )", re.M),
    "code": re.compile(r"(?<!`)`[^`]+`(?!`)"),
    "formulas": re.compile(r"\$\$.+?\$\$", re.S),
    "formulas in a line": re.compile(r"\$[^$]+\$"),
}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _plain(text: str) -> str:
    """Return a digest that line breaks don't change."""
    return digest(" ".join(text.split()))


def cells(path: Path) -> list[NotebookNode]:
    """Return the cells of a chapter, or of a page without code."""
    if path.name[0].isdigit():
        return jupytext.read(path).cells
    parts = [""]
    fenced = False
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if not fenced and line.startswith(("# ", "## ", "### ", ENTRY)):
            parts.append("")
        fenced ^= line.startswith("```")
        parts[-1] += line
    texts = [part.strip() for part in parts]
    return [nbformat.v4.new_markdown_cell(text) for text in texts if text]


def written(path: Path, found: list[NotebookNode]) -> str:
    """Return the cells as the text of a page; undoes `cells`."""
    if path.name[0].isdigit():
        notebook = nbformat.v4.new_notebook(cells=found)
        notebook.metadata["jupytext"] = {"notebook_metadata_filter": "-all"}
        return jupytext.writes(notebook, "md")
    text = ""
    for cell in found:
        listed = text.rpartition("\n\n")[2].startswith(ENTRY)
        text = text and text + ("\n" if listed and cell.source[:4] == ENTRY else "\n\n")
        text += cell.source
    return text + "\n"


@dataclass
class Cell:
    """A cell of prose as the translation has it."""

    text: str  # without mark and note
    old: str  # digest of the English cell it was made from
    keys: list[str]  # of the English cells it belongs to, best first


def _parsed(where: str, source: str) -> Cell:
    """Take a cell of prose apart; its text is "" where the English stands in.

    Raises `Refused` unless it ends in one mark.
    """
    marks = list(MARK.finditer(source))
    if len(marks) != 1 or not source.rstrip().endswith(marks[0][0]):
        raise Refused(
            f"{where}: end this cell in the one mark of the English cell that it "
            "translates (two blank lines begin a new cell)"
        )
    text = NOTE.sub("\n\n", MARK.sub("", source)).strip()
    old, state, new = marks[0].group("old", "state", "new")
    if state == "untranslated" and new == _plain(text):
        text = ""
    return Cell(text, old, [new, old] if state == "now" else [old])


def words(text: str) -> bool:
    """Say whether a text has words to translate, beside code and formulas."""
    return bool(re.search(r"[^\W\d_]{3}", bare(text)[0]))


@dataclass
class Page:
    """A page of a translation, with the English page that it translates."""

    path: Path
    english: Path
    theirs: list[NotebookNode]  # the English cells
    ours: dict[int, Cell] = field(default_factory=dict)  # by the English cell's number
    lost: list[str] = field(default_factory=list)  # texts without an English cell

    def place(self, number: int, text: str) -> str:
        start = text.partition("\n")[0][:50]
        return f"{self.path.parent.name}/{self.path.name}, cell {number + 1} ({start})"

    def prose(self) -> Iterator[tuple[int, str, Cell | None]]:
        """Yield number and text of each English cell of prose, and its translation."""
        for number, cell in enumerate(self.theirs):
            if cell.cell_type == "markdown" and cell.source.strip():
                yield number, cell.source, self.ours.get(number)

    def by_number(self) -> dict[str, str]:
        """Return what ``headings`` does, for a page of an earlier English one."""
        ours = {_kind(t): t for t in titles(self.path.read_text(encoding="utf-8"))}
        theirs = titles("\n\n".join(cell.source for cell in self.theirs))
        found = {title: ours.get(_kind(title), title) for title in theirs}
        return {anchor(a): anchor(b) for a, b in found.items() if _number(a)}

    def headings(self) -> dict[str, str]:
        """Return the translated anchor of every English one."""
        found = {}
        for _, source, ours in self.prose():
            two = titles(source), titles(ours.text if ours else source)
            if len(two[0]) != len(two[1]):  # a stale cell: go by the numbers
                known = {_number(title): title for title in two[1]}
                two = two[0], [known.get(_number(title), title) for title in two[0]]
            found |= {anchor(a): anchor(b) for a, b in zip(*two)}
        return found


def _kind(title: str) -> tuple[bool, str]:
    """Return whether a heading is an exercise's or a section's, and its number."""
    return title[:1].isdigit(), _number(title)


def _number(title: str) -> str:
    return "".join(re.findall(r"\d+\.\d+", title)[:1])


def _section(link: str) -> tuple[str, str]:
    """Return the name of a link's file and the number of its section."""
    name, _, title = link.partition("#")
    return name if ":" in name else Path(name).name, _number(title)


def aligned(path: Path, english: Path, words: wording.Words) -> Page:
    """Find the English cell of every translated one.

    Marks decide, wherever a cell stands. A cell whose English has changed is found by
    its place between neighbors that have not, and if there are several, by the code,
    formulas, and links in it.
    """
    page = Page(path, english, cells(english))
    keys = [digest(c.source) if c.cell_type == "markdown" else worded(c, words)
            for c in page.theirs]  # fmt: skip
    free = [number for number, *_ in page.prose()]
    sequence, rest = [], {}
    for number, cell in enumerate(cells(path)):
        sequence.append(cell.source)
        if cell.cell_type == "markdown" and cell.source.strip():
            found = _parsed(page.place(number, cell.source), cell.source)
            sequence[-1] = found.keys[0]
            hits = [i for key in found.keys for i in free if keys[i] == key]
            if found.text and hits:
                page.ours[hits[0]] = found
                free.remove(hits[0])
            elif found.text:
                rest[number] = found
    blocks = SequenceMatcher(None, sequence, keys, autojunk=False).get_opcodes()
    for _, a, b, c, d in blocks:
        old = [rest[i] for i in range(a, b) if i in rest]
        new = [i for i in range(c, d) if i in free]

        def alike(cell: Cell, number: int) -> float:
            return _alike(page.theirs[number].source, cell.text)

        while len(old) > len(new):
            scores = [max([alike(cell, i) for i in new], default=0) for cell in old]
            page.lost.append(old.pop(scores.index(min(scores))).text)
        for left, cell in zip(range(len(old), 0, -1), old):
            best = max(new[: len(new) - left + 1], key=lambda i: alike(cell, i))
            page.ours[best] = cell
            new = new[new.index(best) + 1 :]
    return page


def worded(cell: NotebookNode, words: wording.Words) -> str:
    """Return a cell of code with its comments in the language."""
    return wording.code(cell.source, words, docstrings="exercise" in tags(cell))


def bare(text: str) -> tuple[str, dict[str, Counter]]:
    """Return the words of a text, and apart from them what no translation changes."""
    parts = {}
    for kind, pattern in UNCHANGED.items():
        found = (re.sub(r"(?m) # .*", "", part) for part in pattern.findall(text))
        parts[kind] = Counter(" ".join(part.split()) for part in found)
        text = pattern.sub("", text)
    parts["links"] = Counter(links(text))
    return LINK.sub(lambda link: link["words"] or "", text), parts


def _alike(one: str, other: str) -> float:
    """Return how much two cells share of what no translation changes, from 0 to 1."""
    a, b = (sum(bare(text)[1].values(), Counter()) for text in (one, other))
    return (a & b).total() / max((a | b).total(), 1)


def differences(source: str, text: str) -> Iterator[str]:
    """Yield what an English cell and its translation should share but don't."""
    theirs, ours = bare(source)[1], bare(text)[1]
    for kind in theirs:
        if theirs[kind] != ours[kind]:
            gone, extra = theirs[kind] - ours[kind], ours[kind] - theirs[kind]
            yield (f"{kind}: only in the English {list(gone.elements())}, "
                   f"only in the translation {list(extra.elements())}")  # fmt: skip


class Language:
    """All pages of one language, brought in line with the English in memory."""

    def __init__(self, folder: Path, root: Path = ROOT):
        self.folder, self.root = folder, root
        text = (folder / "messages.toml").read_text(encoding="utf-8")
        self.messages = tomllib.loads(text)
        self.words = wording.Words.of(folder)
        self.images = root / "images" / folder.name.removeprefix("notebooks-")
        self.pages: dict[Path, Page] = {}  # by their English pages
        for path in sorted([*folder.glob("*.md"), *folder.glob("solutions/*.md")]):
            name = path.relative_to(folder)
            places = [top / name for top in (root / "notebooks", root)]
            english = next((place for place in places if place.exists()), None)
            if not english:
                where = f"{folder.name}/{name}"
                raise Refused(f"{where}: no English page has this name; rename it")
            self.pages[english] = aligned(path, english, self.words)
        paths = [page.path for page in self.pages.values()]
        self.whole = {p for p in paths if WHOLE in p.read_text(encoding="utf-8")}
        self.figures = self._figures()
        self.anchors = {page.english: page.headings() for page in self.pages.values()}
        for page in self.pages.values():
            if page.path in self.whole:
                self.anchors[page.english] = page.by_number()

    def _figures(self) -> dict[Path, str]:
        """Return the figures that the pages show, with their words in the language."""
        texts = [cell.source for page in self.pages.values() for cell in page.theirs]
        shown = re.findall(r"\.\./images/(\w+\.svg)", "\n".join(texts))
        found = {}
        for path in sorted({self.root / "images" / name for name in shown}):
            if path.exists():
                svg = path.read_text(encoding="utf-8")
                found[self.images / path.name] = wording.figure(svg, self.words)
        return found

    def anchor(self, english: Path, mark: str) -> str:
        """Return what an anchor of an English page is in the translation."""
        found = self.anchors[english].get(unquote(mark))
        return found or mark

    def target(self, link: str, page: Page) -> str:
        """Return where a link of the English page leads in the translation."""
        name, _, mark = link.partition("#")
        if not name:
            return "#" + self.anchor(page.english, mark)
        there = Path(os.path.normpath(page.english.parent / name))
        source = there.with_suffix(".md")
        if not (
            there.is_relative_to(self.root) and (there.exists() or source.exists())
        ):
            return link
        if self.images / there.name in self.figures and there.parent.name == "images":
            there = self.images / there.name
        elif there.is_relative_to(self.folder):
            there = page.english  # the English names its translation, and that, it
        elif source in self.pages:
            there = self.pages[source].path.with_suffix(there.suffix)
            mark = self.anchor(source, mark)
        elif there.is_dir() and (self.folder / there.name).is_dir():
            there = self.folder / there.name
        to = Path(os.path.relpath(there, page.path.parent)).as_posix()
        return to + "/" * name.endswith("/") + (f"#{mark}" if mark else "")

    def relinked(self, text: str, page: Page, source: str) -> str:
        """Return a text with its links mapped; source is the English cell.

        A link to a page or a heading that has been translated since follows it.
        """
        targets = {link: self.target(link, page) for link in links(source)}
        lost = set(targets.values()) - set(links(text))

        def mapped(link: re.Match) -> str:
            to = link["to"]
            if not to or to in targets.values():
                return link[0]
            same = [x for x in lost if _section(x) == _section(to)]
            new = targets.get(to) or (same[0] if len(same) == 1 else to)
            return link[0][: -len(to) - 1] + new + ")"

        return LINK.sub(mapped, text)

    def source(self, page: Page, source: str, ours: Cell | None) -> str:
        """Return a cell of prose as it is written, with its note and its mark."""
        text = self.relinked(ours.text if ours else source, page, source)
        state, note, now = "", "", digest(source)
        if not ours and words(source):
            state, note = f", untranslated {_plain(text)}", "missing"
        elif ours and ours.old != now:
            state, note = f", now {now}", "stale"
        mark = f"<!-- en: {ours.old if ours else now}{state} -->"
        note = note and f"> {self.messages['notes'][note]} <!-- note -->"
        if text.startswith(ENTRY):
            return f"{text}\n  {note} {mark}" if note else f"{text} {mark}"
        head, _, body = text.partition("\n") if text[:1] == "#" else ("", "", text)
        parts = (head, note, body.strip(), mark)
        return "\n\n".join(part for part in parts if part)

    def files(self) -> dict[Path, str]:
        """Return what the files of this language should hold.

        Raises `Refused` where an English notebook has yet to be executed.
        """
        found = dict(self.figures)
        for page in self.pages.values():
            if page.path in self.whole:
                continue
            texts = {i: self.source(page, *rest) for i, *rest in page.prose()}
            cells = [nbformat.from_dict(dict(cell)) for cell in page.theirs]
            for number, cell in enumerate(cells):
                if cell.cell_type == "code":
                    texts[number] = worded(cell, self.words)
                cell.source = texts.get(number, "")
            found[page.path] = written(page.path, cells)
            if page.path.name[0].isdigit():
                path = pair(page.english)
                executed = nbformat.read(path, 4) if path.exists() else None
                theirs = executed.cells if executed else []
                if [c.source for c in theirs] != [c.source for c in page.theirs]:
                    raise Refused(f"{path.name} isn't that of today's {path.stem}.md; "
                                  "run `make notebooks`")  # fmt: skip
                pictures = stored_pictures(pair(page.path))
                for number, cell in enumerate(theirs):
                    cell.source = texts.get(number, "")
                    for output in cell.get("outputs", ()):
                        self.translate(output, pictures)
                found[pair(page.path)] = nbformat.writes(executed) + "\n"
        return found

    def translate(self, output: NotebookNode, pictures: dict) -> None:
        """Put an output into the language: a chart, or what a check says."""
        if text := output.get("text"):
            for english in ("Exercise {0}: not answered yet.", "Exercise {0}: right."):
                said = self.messages.get("exercises", {}).get(english, english)
                pattern = re.escape(english).replace(r"\{0\}", r"([\w.]+)")
                text = re.sub(pattern, said.replace("{0}", r"\1"), text)
            output.text = text
        for kind in charts(output):
            data = output.data
            before, data[kind] = data[kind], wording.chart(data[kind], self.words)
            if data[kind] != before and "image/png" in data:
                key = json.dumps(data[kind], sort_keys=True)
                if key not in pictures:
                    font = self.words.tables["font"]
                    pictures[key] = wording.picture(data[kind], self.folder, font)
                data["image/png"] = pictures[key]

    def news(self) -> Iterator[str]:
        """Yield what a translator has to do; `files` comes first."""
        for page in self.pages.values():
            name = f"{self.folder.name}/{page.path.name}"
            if page.path in self.whole:
                yield f"{name}: stays as it is as long as it has a line with {WHOLE}"
                continue
            for text in page.lost:
                yield f"{name}: no English cell has this text; left out:\n{text}"
            for number, source, ours in page.prose():
                where = page.place(number, ours.text if ours else source)
                now = digest(source)
                if not ours and words(source):
                    yield f"{where}: not translated yet"
                elif ours and ours.old != now:
                    yield f"{where}: stale; up to date, its mark is <!-- en: {now} -->"
                elif ours:
                    two = (self.relinked(x, page, source) for x in (source, ours.text))
                    yield from (f"{where}: {fault}" for fault in differences(*two))
        for table, text in sorted(self.words.missing):
            yield f"{self.folder.name}/words.toml, [{table}]: lacks {text!r}"
        for text in messages.missing(self.folder):
            yield f"{self.folder.name}/messages.toml lacks {text!r}"


def charts(output: NotebookNode) -> list[str]:
    """Return the kinds of an output's data that are charts."""
    return [kind for kind in output.get("data", ()) if kind.startswith(wording.CHART)]


def stored_pictures(path: Path) -> dict[str, str]:
    """Return the pictures of a notebook's charts, by their specifications."""
    cells = nbformat.read(path, 4).cells if path.exists() else []
    return {
        json.dumps(output.data[kind], sort_keys=True): output.data["image/png"]
        for cell in cells
        for output in cell.get("outputs", ())
        for kind in charts(output)
        if "image/png" in output.data
    }


def folders(root: Path = ROOT) -> list[Path]:
    return sorted(path for path in root.glob("notebooks-*") if path.is_dir())


def main() -> int:
    try:
        for folder in folders():
            language = Language(folder)
            for path, text in language.files().items():
                path.parent.mkdir(parents=True, exist_ok=True)
                replace(path, text)
            todo = list(language.news())
            print(*todo, sep="\n")
            print(f"{folder.name}: {len(language.pages)} pages, {len(todo)} to-dos")
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    raise SystemExit(main())
