"""Files as people have them: tables, memories, catalogs, subtitles, and others."""

import csv
import gettext
import gzip
import io
import json

import babel.messages.mofile
import babel.messages.pofile
import datasets
import pyarrow.parquet
import pytest

import annotated_transformer as at
from transformer_workshop.text.corpora import read_pairs
from transformer_workshop.text.tables import stream_text

TABLE = [("Ein Hund.", "A dog."), ('Er sagt "ja", oft.', "He often\nsays yes.")]


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "csv.gz", "folder"])
def test_pairs_from_a_table(tmp_path, ending):
    """A field may have quotation marks, commas, and (but in a .tsv) line breaks."""
    rows = [(de, en.replace("\n", " ")) for de, en in TABLE]
    path = tmp_path / f"text.{ending}"
    if ending == "tsv":
        lines = ["de\ten", *("\t".join(row) for row in rows)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    elif ending == "jsonl":
        records = (json.dumps({"de": de, "en": en}) for de, en in TABLE)
        path.write_text("\n".join(records), encoding="utf-8")
    elif ending == "folder":
        columns = {"de": [de for de, _ in TABLE], "en": [en for _, en in TABLE]}
        datasets.Dataset.from_dict(columns).save_to_disk(str(path))
    else:
        written = io.StringIO()
        csv.writer(written).writerows([("de", "en"), *TABLE])
        data = written.getvalue().encode()
        path.write_bytes(gzip.compress(data) if ending == "csv.gz" else data)
    assert read_pairs(f"{path}:de", f"{path}:en") == rows
    if ending == "tsv":  # a table without names
        path.write_text("".join(f"{de}\t{en}\n" for de, en in rows), encoding="utf-8")
        assert read_pairs(f"{path}:1", f"{path}:2") == rows


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        (
            "de,en\na,b\n",
            "fr",
            r"text.csv, line 1: has no column 'fr'; it has de, en\.",
        ),
        ("de,en\na,b\nc\n", "en", "row 2: has no column 'en'; it has de"),
        ("de,en\na,b\nc,d, e\n", "en", "row 2: has 3 columns where others have 2"),
        ('de,en\na,b\n"c,d\ne,f\n', "en", "text.csv, line 3: .* quotation marks"),
        ('de,en\n"ja" sagte er,b\n', "en", "text.csv, line 2: .* quotation marks"),
        ('sep=;\nde;en\na;b\n"c;d\n', "en", "text.csv, line 4: .* quotation marks"),
        (
            'de,en\na,b\n"c,d\n' + "e,f\n" * 9 + 'g",h\n',
            "en",
            "text.csv, line 3: has a quotation mark that swallows 10 more rows",
        ),
        ("de,en,en\na,b,c\n", "EN", "2 columns called 'en'"),
        ("", "en", "is empty"),
        ("de,en\n", "en", "has names of columns, and no row below them"),
        ("de,en\na,b\n", "0", "row 1: has no column '0'; it has 1, 2"),
        *(
            (f'{head}"{"b" * 200_000}', "en", "quotation marks")
            for head in ("", "de,en\n")
        ),
    ],
)
def test_a_faulty_table_is_named(tmp_path, text, column, words):
    path = tmp_path / "text.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(at.DataError, match=words):
        read_pairs(f"{path}:de", f"{path}:{column}")


PLAIN = [("Der Hund läuft.", "The dog runs."), ("Die Katze, ja.", "The cat, yes.")]
SEMICOLONS = "de;en\n" + "".join(f"{de};{en}\n" for de, en in PLAIN)
OBJECTS = [{"de": de, "en": en} for de, en in PLAIN]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("text.csv", SEMICOLONS),
        ("text.CSV", SEMICOLONS),
        ("text.tsv", SEMICOLONS),
        ("text.csv", SEMICOLONS.replace(";", "|")),
        ("text.csv", SEMICOLONS.replace(";", "\t")),
        ("text.txt", SEMICOLONS.replace(";", "\t")),
        ("text.csv", "sep=;\r\n" + SEMICOLONS),
        ("text.csv", "\ufeff" + SEMICOLONS.replace("de;en", " de ; EN ")),
        ("text.csv", SEMICOLONS + "\n\n \n"),
        ("text.csv", SEMICOLONS.replace("\n", "\r\r\n")),
        ("text.csv", SEMICOLONS.replace("\n", "\r")),
        ("text.csv", '"de", "en"\n' + "".join(f'"{a}", "{b}"\n' for a, b in PLAIN)),
        ("text.tsv", '"de"\t"en"\n' + "".join(f'"{a}"\t"{b}"\n' for a, b in PLAIN)),
        ("text.json", json.dumps(OBJECTS, indent=1)),
        ("text.jsonl", json.dumps(OBJECTS)),
        ("text.jsonl", "\n".join(map(json.dumps, OBJECTS)) + "\n\n"),
        ("text.txt", "\n".join(map(json.dumps, OBJECTS))),
        ("text.txt", json.dumps(OBJECTS)),
        ("text.json", "\n \n" + json.dumps(OBJECTS)),
        ("text.csv", "SEP=;\n" + SEMICOLONS),
        ("text.txt", SEMICOLONS.replace(";", " ||| ")),
    ],
)  # fmt: skip
def test_a_table_is_read_whatever_wrote_it(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text.encode())
    assert read_pairs(f"{path}:de", f"{path}:en") == PLAIN
    assert read_pairs(f"{path}:1", f"{path}:2") == PLAIN  # a header is no pair


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("text.csv:en", "de,en\na,b\n  \nc,d\n", ["b", "", "d"]),  # a blank row
        ("text.csv:1", 'x\n"a\nb\nc\nd"\n', ["x", "a b c d"]),  # a single column
        ("text.json:1", '["a", "b"]', ["a", "b"]),  # a list of texts, on one line
        ("text.json:2", '[[1, "a"], [2, "b"]]', ["a", "b"]),
        ("text.jsonl:1", '"a"\n"b"\n', ["a", "b"]),
        ("text.json:1", '[\n"a",\n"b"\n]', ["a", "b"]),
        ("text.json:1", "[]", []),
        ("text.jsonl:de", '\n{"de": "a"}', ["", "a"]),
    ],
)
def test_no_row_is_lost(tmp_path, name, text, expected):
    (tmp_path / name.split(":")[0]).write_text(text, encoding="utf-8")
    assert list(stream_text(tmp_path / name)) == expected


def test_quotation_marks_between_tabs(tmp_path):
    """Doubled ones show that a program has added the outer ones; others are text."""
    path = tmp_path / "text.tsv"
    path.write_text('"Er sagte ""ja"""\tHe\n"Halt"\tStop\n', encoding="utf-8")
    assert read_pairs(f"{path}:1", f"{path}:2")[0] == ('Er sagte "ja"', "He")
    path.write_text('"Ja", sagte er\t"Yes"\n"Halt"\tStop\n', encoding="utf-8")
    pairs = [('"Ja", sagte er', '"Yes"'), ('"Halt"', "Stop")]
    assert read_pairs(f"{path}:1", f"{path}:2") == pairs


TMX = """<?xml version="1.0"?><tmx version="1.4"><header/><body>{}</body></tmx>"""
UNIT = """<tu><tuv xml:lang="de-DE"><seg><bpt i="1">&lt;b&gt;</bpt>{}</seg></tuv>
<tuv xml:lang="EN"><seg>{}</seg></tuv></tu>"""
XLIFF = """<xliff version="1.2"><file source-language="de" target-language="en">
{}<trans-unit><source>neu</source></trans-unit></file></xliff>"""
MESSAGES = """msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"

{}#, fuzzy
msgid "vielleicht"
msgstr "perhaps"
"""


ONE_LANGUAGE = """<xliff version="1.2"><file source-language="de"><trans-unit>
<source>a</source><target>A</target></trans-unit></file></xliff>"""
UNITS = TMX.format(
    '<tu><tuv xml:lang="de-DE"><seg>a</seg></tuv></tu>'
    '<tu><tuv xml:lang="EN-US"><seg>B</seg></tuv><tuv lang="de"><seg>b</seg></tuv></tu>'
    '<tu><tuv xml:lang="en-us"><seg>C</seg></tuv></tu>'
)
TARGETS = (
    "<trans-unit><source>a</source><target>A</target></trans-unit>"
    '<trans-unit><source>b</source><target state="new">b</target></trans-unit>'
)
SEGMENTS = (
    '<xliff srcLang="de" trgLang="en"><unit><segment>'
    '<source>a<ph subType="xlf:lb"/>a</source><target>A<pc>A</pc><ph/></target>'
    '</segment><segment state="initial"><source>b</source><target>b</target></segment>'
    '</unit><unit translate="no"><segment><source>c</source><target>c</target>'
    "</segment></unit></xliff>"
)
WITHOUT_BLANK_LINES = """\
#, fuzzy
msgctxt "menu"
msgid "z"
msgstr "Z"
# about a
msgid "a"
msgid_plural "as"
msgstr[0] "A"
msgstr[1] "As"
msgid "b"

msgstr ""
"B"
#~ msgid "old"
#~ msgstr "OLD"
"""


@pytest.mark.parametrize(
    ("name", "data", "first", "second"),
    [
        ("a.tmx", UNITS, ("de", ["a", "b", ""]), ("en", ["", "B", "C"])),
        ("a.gz", gzip.compress(UNITS.encode(), mtime=0), ("1", ["a", "", ""]),
         ("EN-US", ["", "B", "C"])),
        ("a.xlf", XLIFF.format(TARGETS), ("de", ["a", "b", "neu"]),
         ("target", ["A", "", ""])),
        ("a.xlf", ONE_LANGUAGE, ("de", ["a"]), ("target", ["A"])),
        ("a.xliff", SEGMENTS, ("de", ["a a", "b"]), ("en", ["AA", ""])),
        ("a.po", WITHOUT_BLANK_LINES, ("msgid", ["z", "a", "b"]),
         ("2", ["", "A", "B"])),
    ],
)  # fmt: skip
def test_units_as_other_programs_write_them(tmp_path, name, data, first, second):
    """What is marked as not translated yet has no translation."""
    (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    for column, texts in (first, second):
        assert list(stream_text(f"{tmp_path / name}:{column}")) == texts


def compiled(pairs):
    """Return pairs, with a plural each, as an MO file: Babel is another program."""
    catalog = babel.messages.Catalog(locale="en")
    for de, en in pairs:
        catalog.add((de, f"{de}s"), (en, f"{en}s"), context="menu")
    written = io.BytesIO()
    babel.messages.mofile.write_mo(written, catalog)
    return written.getvalue()


@pytest.mark.parametrize("ending", ["tmx", "tmx.gz", "xlf", "po", "mo", "parquet"])
def test_pairs_from_a_translators_file(tmp_path, ending, capsys):
    """What isn't translated is left out and said; what is fuzzy is no translation."""
    path, columns = tmp_path / f"text.{ending}", ("de", "en")
    if ending == "parquet":
        table = pyarrow.table({"id": [1, 2], "translation": OBJECTS})
        pyarrow.parquet.write_table(table, path)
        columns = ("translation.de", "3")
    elif ending == "mo":
        path.write_bytes(compiled(PLAIN))
        columns = ("msgid", "2")
    elif ending == "po":
        entry = 'msgid "{}"\nmsgstr ""\n"{}"\n\n'
        text = "".join(entry.format(*pair) for pair in PLAIN)
        path.write_text(MESSAGES.format(text), encoding="utf-8")
        columns = ("1", "msgstr")
    else:
        unit = "<trans-unit><source>{}</source><target>{}</target></trans-unit>"
        whole, unit = (XLIFF, unit) if ending == "xlf" else (TMX, UNIT)
        data = whole.format("".join(unit.format(*pair) for pair in PLAIN)).encode()
        path.write_bytes(gzip.compress(data) if ending == "tmx.gz" else data)
    assert sorted(read_pairs(*(f"{path}:{c}" for c in columns))) == sorted(PLAIN)
    said = capsys.readouterr().err
    blank = "left out 1 of 3 pairs, of which a side is blank" in said
    assert blank == (ending in ("xlf", "po"))
    assert ("plurals (2)" in said, "fuzzy translations (1)" in said) == (
        ending == "mo", ending == "po"
    )  # fmt: skip
    first = "id" if ending == "parquet" else columns[0]
    first = {"tmx": "de-DE", "tmx.gz": "de-DE", "xlf": "source", "po": "msgid"}.get(
        ending, first
    )
    with pytest.raises(at.DataError, match=f"Name the column, too.*{path}:{first}"):
        read_pairs(path, f"{path}:1")


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n"
CUES = b"""1
00:00:01,000 --> 00:00:02,000
<i>Ja --> nein.</i>

2
00:00:03,5 --> 00:00:04,0
-Ich?
-Du.
"""
PORTUGUESE = TMX.format(
    '<tu><tuv xml:lang="pt-BR"><seg>a</seg></tuv>'
    '<tuv xml:lang="pt-PT"><seg>b</seg></tuv></tu>'
).encode()


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.zip", b"PK\x03\x04", "is a zip archive. Unpack it: `python -m zipfile -e"),
        ("a.xlsx", b"PK\x03\x04", "office program. Save it there as CSV"),
        ("a.tar.gz", b"\x1f\x8b", "is a tar archive. Unpack it: `python -m tarfile -e"),
        ("a.xz", b"\xfd7zXZ\0", "Unpack it: `xz -dk"),
        ("a.txt", "Hund".encode("utf-16"), "is UTF-16. Convert it: `iconv"),
        ("a.txt", "Der Hund\n".encode("utf-16-le"), "is UTF-16LE. Convert it: `iconv"),
        (
            "a.txt",
            "Die Größe überrascht.\n".encode("cp1250"),
            "If 'Die Größe .* is CP1250. Conv",
        ),
        (
            "a.txt.gz",
            gzip.compress(f"{'a' * 60} überrascht\n".encode("cp1252"), mtime=0),
            "'a+ überrascht' .* `gzip -dc .*/a.txt.gz . iconv .*/a.utf8.txt`",
        ),
        ("a.gz", LFS, "is a pointer of Git LFS.* `git lfs pull`"),
        ("a.tmx:de", LFS, "is a pointer of Git LFS"),
        ("a.srt", LFS, "is a pointer of Git LFS"),
        ("a.csv:1", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is no text: it has NUL bytes"),
        ("a.txt", b"Hund\n" * 2000 + b"Kat\0ze\n", "line 2001: has a NUL byte"),
        ("a.rtf", rb"{\rtf1\ansi Hund}", "is RTF. Save its text"),
        (
            "a.db",
            b"SQLite format 3\0",
            "is an SQLite database. Export a table: `sqlite3",
        ),
        ("a.7z", b"7z\xbc\xaf\x27\x1c", "is a 7z archive"),
        ("a.yml", b"de:\n  hund: dog\n", "is YAML. Write its texts as CSV"),
        ("a.txt", b"---\nhund: dog\n", "is YAML"),
        ("a.txt", b"<!DOCTYPE html>\n<html>404", "is a web page"),
        ("a.sgm", b'<srcset setid="x">', "is SGML. Convert it: `sed"),
        ("a.txt", b"Hund\tdog\nKatze\tcat\n", "looks like a table: each line has 2"),
        ("a.xml", b"<?xml version='1.0'?><TS/>", "is XML of another kind .<TS>"),
        ("a.tmx", b"<tmx><tu>", "a.tmx: can't be read .no element found"),
        ("a.xml:1", b"<?xml version='1.0'?><TS/>", "is XML of another kind .<TS>"),
        ("a.csv:2", b"a, a,b\nc,d\n", "row 2: has 2 columns where others have 3"),
        ("a.csv:", b"de,en\na,b\n", "has no column ''; it has de, en"),
        ("a.json:1", b'{\n"data": []}', "one object of JSON, not a list"),
        ("a.json:1", b'{"a": 1}{"a": 2}', "not JSON .* an object on each line"),
        ("a.json:-1", b'["a", "b"]', "row 1: has no column '-1'; it has 1"),
        ("a.tsv:1", b"a" * 200_000 + b"\tb", "limit .*. Cut that text into sentences"),
        ("a.po:1", b'msgid "a\nmsgstr "b"\n', "a.po, line 1: has a quotation mark too"),
        ("a.po:1", b'msgid"a"\nmsgstr "b"\n', "a.po.*line 1"),
        (
            "a.po:1",
            b'#~ msgid "a"\n#~ msgstr "b"\n',
            "no text but what is left out: obsolete messages .1.",
        ),
        (
            "a.tmx:fr",
            b'<tmx><tu><tuv lang="de"><seg>a</seg></tuv></tu></tmx>',
            "a.tmx: has no column 'fr'; it has de",
        ),
        ("a.tmx:pt", PORTUGUESE, "unit 1: has pt-BR and pt-PT for 'pt'. Name one"),
        (
            "a.srt",
            CUES,
            "are of two kinds, so nothing says which texts belong together",
        ),
        (
            "a.txt",
            b"Hund ||| dog\nKatze ||| cat\n",
            "looks like a table: each line has 2",
        ),
        ("a.txt", b"{0}{25}Hund\n{30}{40}Katze\n", "are of two kinds"),  # MicroDVD
        ("a.jsonl:de", b'{"de": "\\ud83d"}', "row 1: holds half a character"),
    ],
)
def test_what_cannot_be_read_is_named_with_a_way_out(tmp_path, name, data, words):
    path = tmp_path / name
    (tmp_path / name.split(":")[0]).write_bytes(data)
    (tmp_path / "other").write_text("A dog.\n", encoding="utf-8")
    with pytest.raises(at.DataError, match=words):
        read_pairs(path, tmp_path / "other")


# units


def test_a_language_is_itself_first_then_its_range(tmp_path, capsys):
    """Each unit is asked for pt: it may have that, a kind of it, or two texts in it."""
    path, part = tmp_path / "a.tmx", '<tuv xml:lang="{}"><seg>{}</seg></tuv>'.format
    units = [
        [("en", "a"), ("pt-BR", "BR"), ("pt", "PT")],
        [("en", "b"), ("PT_br", "BR")],
        [("en", "c"), ("pt", "one"), ("pt", "two")],
        [("en", "d"), ("ptx", "no")],
    ]
    body = "".join(f"<tu>{''.join(part(*p) for p in unit)}</tu>" for unit in units)
    path.write_bytes(TMX.format(body).encode("utf-16"))
    pairs = [("a", "PT"), ("b", "BR"), ("c", "one")]
    assert read_pairs(f"{path}:en", f"{path}:pt") == pairs
    said = capsys.readouterr().err
    assert "left out second texts in pt (1)\n" in said
    assert "texts are 2 in pt, 1 in pt-br\n" in said
    assert "left out 1 of 4 pairs, of which a side is blank (row 4)" in said
    assert list(stream_text(f"{path}:pt-BR")) == ["BR", "BR", "", ""]


def test_segments_belong_together_by_their_mid(tmp_path, capsys):
    mark = '<mrk mtype="seg" mid="{}">{}</mrk>'.format
    sides = [(1, "a"), (2, "b"), (3, "c")], [(3, "C"), (1, "A"), (2, ""), (4, "D")]
    source, target = ("".join(mark(*each) for each in side) for side in sides)
    unit = (
        "<trans-unit><source>abc</source><seg-source>{}</seg-source><target><g>{}</g>"
    )
    whole = "<trans-unit><source>d</source><target>D</target></trans-unit>"
    not_to = (
        '<trans-unit translate="no"><source>x</source><target>x</target></trans-unit>'
    )
    path = tmp_path / "a.sdlxliff"
    text = unit.format(source, target) + "</target></trans-unit>" + whole + not_to
    path.write_text(XLIFF.format(text), encoding="utf-8")
    pairs = [("a", "A"), ("c", "C"), ("d", "D")]
    assert read_pairs(f"{path}:de", f"{path}:target") == pairs
    said = capsys.readouterr().err
    for what in ("segments without a source (1)", "segments not to translate (1)"):
        assert what in said


PLURAL_FORMS = {  # 1 doesn't always have the first one
    "sl": "nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100>2&&n%100<5 ? 3:0)",
    "ar": "nplurals=6; plural=n==0?0:n==1?1:n==2?2:n%100>=3&&n%100<11?3:n%100>=11?4:5;",
    "ru": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 ? 1:2);",
    "ja": "nplurals=1; plural=0;",
}


@pytest.mark.parametrize("language", PLURAL_FORMS)
def test_the_singular_gets_the_form_of_one(tmp_path, language, capsys):
    """Gettext itself says which that is; PO and MO, which Babel compiles, agree."""
    header = PLURAL_FORMS[language]
    count = int(header.split(";")[0].removeprefix("nplurals="))
    forms = "".join(f'msgstr[{i}] "form {i}"\n' for i in range(count))
    text = f"""msgid ""
msgstr "Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: {header}\\n"

# a blank line between the flag and its message
#, fuzzy, c-format

msgid "perhaps"
msgstr "no"

msgid "a \\"file\\"\\n"
"of %d"
msgid_plural "%d files"
{forms}
msgctxt "menu"
msgid "Öffnen"
msgstr "Open"
#~ msgid "old"
#~ msgstr "no"
"""
    catalog = babel.messages.pofile.read_po(io.BytesIO(text.encode()), locale=language)
    written = io.BytesIO()
    babel.messages.mofile.write_mo(written, catalog)
    truth = gettext.GNUTranslations(io.BytesIO(written.getvalue()))
    one = 'a "file"\nof %d'
    expected = {
        (one.replace("\n", " "), truth.ngettext(one, "%d files", 1)),
        ("Öffnen", truth.pgettext("menu", "Öffnen")),
    }
    for name, data in (("a.po", text.encode()), ("a.mo", written.getvalue()),
                       ("a.po.gz", gzip.compress(text.encode()))):  # fmt: skip
        path = tmp_path / name
        path.write_bytes(data)
        assert set(read_pairs(f"{path}:msgid", f"{path}:msgstr")) == expected
        said = capsys.readouterr().err
        left_out = ["fuzzy translations", "plurals", "obsolete messages"]
        found = [what for what in left_out if f"{what} (1)" in said]
        assert found == (["plurals"] if name == "a.mo" else left_out)


def test_two_catalogs_pair_if_their_messages_are_the_same(tmp_path):
    message = 'msgid "{}"\nmsgstr "{}"\n\n'.format
    catalogs = {"de": ("a A", "b B"), "fr": ("a Á", "b Ç"), "cs": ("b Ç", "a Á")}
    for name, texts in catalogs.items():
        text = PO_HEADER + "".join(message(*each.split()) for each in texts)
        text += f"#, {'fuzzy' if name == 'de' else 'c-format'}\n{message('c', 'x')}"
        (tmp_path / name).with_suffix(".po").write_text(text, encoding="utf-8")
    de, fr, cs = (f"{tmp_path}/{name}.po:msgstr" for name in catalogs)
    assert read_pairs(de, fr) == [("A", "Á"), ("B", "Ç")]
    with pytest.raises(at.DataError, match="number 1 is 'a' in one and 'b' in the oth"):
        read_pairs(de, cs)


PO_HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'


# subtitles

VTT = """WEBVTT

NOTE for nobody

intro
00:01.000 --> 00:02.000
<v Anna>Yes &amp; no.

NOTE for nobody

00:03.500 --> 00:04.000 align:start
-Me?
-You.
"""
ASS = """[Script Info]
ScriptType: v4.00+

[V4+ Styles]

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Comment: 0,0:00:00.00,0:00:00.00,Default,,0,0,0,,nobody
Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,{\\i1}Yes & no.
Dialogue: 0,0:00:03.50,0:00:04.00,Default,,0,0,0,,-Me?\\N-You.
"""


@pytest.mark.parametrize(("ending", "text"), [("vtt", VTT), ("ass", ASS), ("txt", VTT)])
def test_subtitles_pair_by_their_times(tmp_path, ending, text, capsys):
    de, en = tmp_path / "film.de.srt", tmp_path / f"film.en.{ending}"
    de.write_bytes(CUES)
    en.write_text(text, encoding="utf-8")
    assert read_pairs(de, en) == [
        ("Ja --> nein.", "Yes & no."),
        ("-Ich? -Du.", "-Me? -You."),
    ]
    assert ("comments or drawings (1)" in capsys.readouterr().err) == (ending == "ass")
    en.write_text(text.replace("04.00", "04.01"), encoding="utf-8")
    words = "number 2 is '3.500-4.000 s' in one and '3.500-4.010 s' in the other"
    with pytest.raises(at.DataError, match=words):
        read_pairs(de, en)
    de.write_bytes(CUES.replace(b"03,5", b"x"))
    with pytest.raises(at.DataError, match="srt: can't be read .1 of 2 times are dam"):
        list(stream_text(de))


# columns


def test_a_column_may_have_colons(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("name,label::English (en),label::German (de)\nq,Dog,Hund\n")
    names = (
        f"{path}:label::{language}" for language in ("English (en)", "German (de)")
    )
    assert read_pairs(*names) == [("Dog", "Hund")]
    missing = f"{tmp_path}/no.csv:label::English (en)"
    with pytest.raises(at.DataError, match=f"^{tmp_path}/no.csv: can't be read"):
        read_pairs(missing, f"{path}:1")


@pytest.mark.parametrize(
    ("first", "is_header"),
    [
        ("de,en", True), ("id,German,English", True), ("source,target", True),
        ("\ufeffquestion,de-DE,en_US", False), (",de-DE,en_US", True),
        ("de-DE,en-US", True), ("source_text,target_text", True), ("-,?", False),
        ("no,no", False), ("Hund,dog", False), ("translation.de,translation.en", True),
    ],
)  # fmt: skip
def test_a_header_is_no_pair(tmp_path, first, is_header, capsys):
    path, width = tmp_path / "a.csv", first.count(",") + 1
    path.write_text(f"{first}\n{','.join('xyz'[:width])}\n", encoding="utf-8")
    texts = list(stream_text(f"{path}:{width}"))
    assert texts == [first.split(",")[-1], "xyz"[width - 1]][is_header:]
    assert (
        "its first row has names of columns" in capsys.readouterr().err
    ) == is_header
