"""Keep the translations in step with the English.

    python tools/translations.py    (`make notebooks` runs it)

A language is a folder notebooks-<code>. Its pages have the names of the English ones:
the chapters, their solutions, the glossary, README.md, TEACHING.md. Its messages.toml
has the notes that readers see, and its words.toml what isn't prose (wording.py). Every
cell of prose ends in a mark, <!-- en: 1a2b3c4d -->, the beginning of the SHA-256 of the
English cell that it translates. A page without code is cut into cells at its headings
and its entries, the items of a list that begin in bold.

Code, outputs, and ids come from the English notebook; comments and the words of charts
and figures are put into the language. A cell of prose is found again by
its mark, wherever it went. Where the English has changed since, the translation stays,
and both a note for readers and the mark say so: <!-- en: 1a2b3c4d, now 5e6f7a8b -->.
Where there is no translation, the English stands in for it.
"""

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
from urllib.parse import quote, unquote

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


def written(path: Path, page_cells: list[NotebookNode]) -> str:
    """Return the cells as the text of a page; undoes `cells`."""
    if path.name[0].isdigit():
        notebook = nbformat.v4.new_notebook(cells=page_cells)
        notebook.metadata["jupytext"] = {"notebook_metadata_filter": "-all"}
        return jupytext.writes(notebook, "md")
    text = ""
    for cell in page_cells:
        listed = text.rpartition("\n\n")[2].startswith(ENTRY)
        text = text and text + ("\n" if listed and cell.source[:4] == ENTRY else "\n\n")
        text += cell.source
    return text + "\n"


@dataclass
class Cell:
    """A cell of prose as the translation has it."""

    number: int
    text: str  # without mark and note
    old: str = ""  # digest of the English cell it was made from
    keys: tuple[str, ...] = ()  # of the English cells it belongs to, best first
    holds_text: bool = False  # that would be lost if the cell was dropped


def _parsed(where: str, number: int, source: str) -> Cell:
    """Take a cell of prose apart.

    Raises `Refused` unless it ends in one mark.
    """
    marks = list(MARK.finditer(source))
    text = NOTE.sub("\n\n", MARK.sub("", source)).strip()
    if not text and not marks:
        return Cell(number, text)
    if len(marks) != 1 or not source.rstrip().endswith(marks[0][0]):
        fault = f"has {len(marks)} marks" if len(marks) != 1 else "goes on after it"
        raise Refused(
            f"{where}: this cell {fault}; end it in the one mark of the English cell "
            "that it translates (two blank lines begin a new cell)"
        )
    old, state, new = marks[0].group("old", "state", "new")
    untouched = old == digest(text) or state == "untranslated" and new == _plain(text)
    keys = (new, old) if state == "now" else (old,)
    return Cell(number, text, old, keys, bool(text and not (untouched and words(text))))


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

    def cell_name(self, number: int, text: str) -> str:
        start = next(iter(text.splitlines()), "empty")[:50]
        return f"{self.path.parent.name}/{self.path.name}, cell {number + 1} ({start})"

    def prose(self) -> Iterator[tuple[int, str, Cell | None]]:
        """Yield number and text of each English cell of prose, and its translation."""
        for number, cell in enumerate(self.theirs):
            if cell.cell_type == "markdown" and cell.source.strip():
                yield number, cell.source, self.ours.get(number)

    def headings(self) -> dict[str, str]:
        """Return the translated anchor of every English one."""
        anchors = {}
        for _, source, ours in self.prose():
            two = titles(source), titles(ours.text if ours else source)
            if len(two[0]) != len(two[1]):  # a stale cell: go by the numbers
                known = {_number(title): title for title in two[1]}
                two = two[0], [known.get(_number(title), title) for title in two[0]]
            anchors |= {anchor(a): anchor(b) for a, b in zip(*two)}
        return anchors


def _number(title: str) -> str:
    return "".join(re.findall(r"\d+\.\d+", title)[:1])


def _section(link: str) -> tuple[str, str]:
    """Return a link's file and the number of its section."""
    name, _, title = link.partition("#")
    return name, _number(title)


def aligned(path: Path, english: Path, words: wording.Words) -> Page:
    """Find the English cell of every translated one.

    Marks decide, wherever a cell stands. A cell whose English has changed is found by
    its place between neighbors that have not, and if more than one new cell is there,
    by the code, formulas, and links in it.

    Raises `Refused` where text would be lost.
    """
    page = Page(path, english, cells(english))
    keys = [digest(c.source) if c.cell_type == "markdown" else worded(c, words)
            for c in page.theirs]  # fmt: skip
    free = {number for number, *_ in page.prose()}
    sequence, rest = [], {}
    for number, cell in enumerate(cells(path)):
        sequence.append(cell.source)
        if cell.cell_type == "markdown":
            where = page.cell_name(number, cell.source)
            parsed = _parsed(where, number, cell.source)
            sequence[-1] = parsed.keys[0] if parsed.keys else ""
            if parsed.holds_text:
                rest[number] = parsed
    for number, parsed in list(rest.items()):
        hits = [i for key in parsed.keys for i in sorted(free) if keys[i] == key]
        if hits:
            page.ours[hits[0]] = rest.pop(number)
            free.remove(hits[0])
    blocks = SequenceMatcher(None, sequence, keys, autojunk=False).get_opcodes()
    for _, a, b, c, d in blocks:
        old = [rest[i] for i in range(a, b) if i in rest]
        new = [i for i in range(c, d) if i in free]
        if len(old) > len(new):
            raise Refused(
                f"{page.cell_name(old[-1].number, old[-1].text)}: the English has no "
                f"place for it ({len(new)} cells are new there, for {len(old)} cells "
                "here): it was deleted, merged, moved and changed, or is here twice; "
                "move what is still needed into a neighboring cell, and delete this one"
            )
        for left, cell in zip(range(len(old), 0, -1), old):
            among = new[: len(new) - left + 1]
            best = max(among, key=lambda i: _alike(page.theirs[i].source, cell.text))
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
        uncommented = (re.sub(r"(?m) # .*", "", part) for part in pattern.findall(text))
        parts[kind] = Counter(" ".join(part.split()) for part in uncommented)
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
        messages = (folder / "messages.toml").read_text(encoding="utf-8")
        self.messages = tomllib.loads(messages)
        self.words = wording.Words.of(folder)
        self.pages: dict[Path, Page] = {}  # by their English pages
        for path in sorted([*folder.glob("*.md"), *folder.glob("solutions/*.md")]):
            name = path.relative_to(folder)
            tops = root / "notebooks", root
            english = next((t / name for t in tops if (t / name).exists()), None)
            if not english:
                where = f"{folder.name}/{name}"
                raise Refused(f"{where}: no English page has this name; rename it")
            self.pages[english] = aligned(path, english, self.words)
        self.figures = self._figures()
        self.anchors = {page.english: page.headings() for page in self.pages.values()}

    def _figures(self) -> dict[Path, str]:
        """Return the figures that the pages show, with their words in the language."""
        texts = [cell.source for page in self.pages.values() for cell in page.theirs]
        shown = re.findall(r"\.\./images/(\w+\.svg)", "\n".join(texts))
        figures = {}
        for path in sorted({self.root / "images" / name for name in shown}):
            if path.exists():
                svg = path.read_text(encoding="utf-8")
                figures[self.figure(path)] = wording.figure(svg, self.words)
        return figures

    def anchor(self, english: Path, mark: str) -> str:
        """Return what an anchor of an English page is in the translation."""
        translated = self.anchors[english].get(unquote(mark))
        if not translated:
            return mark
        return re.sub("[()]", lambda bracket: quote(bracket[0]), translated)

    def target(self, link: str, page: Page) -> str:
        """Return where a link of the English page leads in the translation.

        A link that leads there already stays as it is.
        """
        if re.match(r"[a-z]+:", link):
            return link
        name, _, mark = link.partition("#")
        if not name:
            return "#" + self.anchor(page.english, mark)
        paths = [page.english.parent / name, page.path.parent / name]
        paths = [Path(os.path.normpath(path)) for path in paths]
        here, mapped = (
            path.is_relative_to(self.root)
            and (path.exists() or path.with_suffix(".md").exists())
            for path in paths
        )
        own = self.figure(paths[0])
        drawn = {path.parent for path in paths} & {self.root / "images", own.parent}
        if own in self.figures and drawn:
            there = own
        elif here and paths[0].is_relative_to(self.folder):
            there = page.english  # the English names its translation, and that, it
        elif here or mapped and paths[1].parent == self.root / "notebooks":
            there = paths[0] if here else paths[1]
            source = there.with_suffix(".md")
            if source in self.pages:
                there = self.pages[source].path.with_suffix(there.suffix)
                mark = self.anchor(source, mark)
            elif there.is_dir() and (self.folder / there.name).is_dir():
                there = self.folder / there.name
        else:
            return link
        to = Path(os.path.relpath(there, page.path.parent)).as_posix()
        return to + "/" * name.endswith("/") + (f"#{mark}" if mark else "")

    def figure(self, path: Path) -> Path:
        """Return where this language has the figure that lies at ``path``."""
        code = self.folder.name.removeprefix("notebooks-")
        return self.root / "images" / code / path.name

    def relinked(self, text: str, page: Page, source: str) -> str:
        """Return a text with its links mapped; source is the English cell.

        A link to a heading that has been translated differently since follows it.
        """

        def with_targets(text: str, target) -> str:
            def one(link: re.Match) -> str:
                to = link["to"]
                return link[0][: -len(to) - 1] + target(to) + ")" if to else link[0]

            return LINK.sub(one, text)

        text = with_targets(text, lambda link: self.target(link, page))
        should = {self.target(link, page) for link in links(source)}
        lost = should - set(links(text))

        def followed(link: str) -> str:
            candidates = [x for x in lost if _section(x) == _section(link)]
            fits = link not in should and "#" in link and len(candidates) == 1
            return candidates[0] if fits else link

        return with_targets(text, followed)

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

    def files(self, draw: bool = False) -> dict[Path, str]:
        """Return what the files of this language should hold.

        A chart whose words have changed is drawn anew, if ``draw``; else it keeps the
        English picture. Raises `Refused` where an English notebook has yet to be
        executed.
        """
        files = dict(self.figures)
        for page in self.pages.values():
            source = {i: self.source(page, *rest) for i, *rest in page.prose()}
            new = [nbformat.from_dict(dict(cell)) for cell in page.theirs]
            for number, cell in enumerate(new):
                if cell.cell_type == "code":
                    source[number] = worded(cell, self.words)
                cell.source = source.get(number, cell.source)
            files[page.path] = written(page.path, new)
            if page.path.name[0].isdigit():
                path = pair(page.english)
                executed = nbformat.read(path, 4) if path.exists() else None
                cells = executed.cells if executed else []
                if [c.source for c in cells] != [c.source for c in page.theirs]:
                    raise Refused(f"{path.name} isn't that of today's {path.stem}.md; "
                                  "run `make notebooks`")  # fmt: skip
                pictures = stored_pictures(pair(page.path))
                for number, cell in enumerate(cells):
                    cell.source = source.get(number, cell.source)
                    for output in cell.get("outputs", ()):
                        self.translate(output, pictures, draw)
                files[pair(page.path)] = nbformat.writes(executed) + "\n"
        return files

    def translate(self, output: NotebookNode, pictures: dict, draw: bool) -> None:
        """Put an output into the language: a chart, or what a check says."""
        if text := output.get("text"):
            for english in ("Exercise {0}: not answered yet.", "Exercise {0}: right."):
                said = self.messages.get("exercises", {}).get(english, english)
                pattern = re.escape(english).replace(r"\{0\}", r"([\d.]+)")
                text = re.sub(pattern, said.replace("{0}", r"\1"), text)
            output.text = text
        data = output.get("data", {})
        for kind in [kind for kind in data if kind.startswith(wording.CHART)]:
            before = data[kind]
            data[kind] = wording.chart(before, self.words)
            if data[kind] != before and "image/png" in data:
                key = json.dumps(data[kind], sort_keys=True)
                if key in pictures:
                    data["image/png"] = pictures[key]
                elif draw:
                    font = self.words.tables["font"]
                    data["image/png"] = wording.picture(data[kind], self.folder, font)

    def news(self) -> Iterator[str]:
        """Yield what a translator has to do: cells that are stale or missing."""
        for page in self.pages.values():
            for number, source, ours in page.prose():
                now = digest(source)
                if not ours and words(source):
                    yield f"{page.cell_name(number, source)}: not translated yet"
                elif ours and ours.old != now:
                    where = page.cell_name(number, ours.text)
                    yield f"{where}: stale; up to date, its mark is <!-- en: {now} -->"

    def faults(self) -> Iterator[str]:
        """Yield files out of step, and cells whose code, formulas or links differ."""
        for path, text in self.files().items():
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                yield f"{self.folder.name}/{path.name} differs; run `make notebooks`"
        for page in self.pages.values():
            for number, source, ours in page.prose():
                if ours and ours.old == digest(source):
                    where = page.cell_name(number, ours.text)
                    two = (self.relinked(x, page, source) for x in (source, ours.text))
                    yield from (f"{where}: {fault}" for fault in differences(*two))
        yield from (f"{self.folder.name}/{fault}" for fault in self.words.faults())
        for path in {
            p for f in ("", "solutions/") for p in self.folder.glob(f"{f}*.ipynb")
        }:
            if not path.with_suffix(".md").exists():
                yield f"{self.folder.name}/{path.name}: there is no .md with this name"


def stored_pictures(path: Path) -> dict[str, str]:
    """Return the pictures of a notebook's charts, by their specifications."""
    pictures = {}
    for cell in nbformat.read(path, 4).cells if path.exists() else ():
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            for kind in data:
                if kind.startswith(wording.CHART) and "image/png" in data:
                    pictures[json.dumps(data[kind], sort_keys=True)] = data["image/png"]
    return pictures


def folders(root: Path = ROOT) -> list[Path]:
    return sorted(path for path in root.glob("notebooks-*") if path.is_dir())


def faults() -> Iterator[str]:
    """Yield the faults of all languages, and print what there is to translate."""
    for folder in folders():
        try:
            language = Language(folder)
            yield from language.faults()
            for line in language.news():
                print(line)
        except Refused as refusal:
            yield str(refusal)


def main() -> int:
    try:
        for folder in folders():
            language = Language(folder)
            for path, text in language.files(draw=True).items():
                path.parent.mkdir(parents=True, exist_ok=True)
                replace(path, text)
            todo = len(list(language.news()))
            pages = f"{folder.name}: {len(language.pages)} pages"
            print(f"{pages}, {todo} cells to translate or to bring up to date")
            for text in messages.missing(folder):
                print(f"{folder.name}/messages.toml lacks {text!r}; English stands in")
    except Refused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
