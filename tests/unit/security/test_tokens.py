"""The file of bearer tokens, and the token of a call."""

import hashlib
from pathlib import Path

import pytest

from kvtier.server.security.tokens import Token, bearer_token, find_token, load_tokens
from kvtier.server.security.watched import SecretFileError
from kvtier.wire.errors import KvtierError, Reason

ONE, OTHER = (hashlib.sha256(word).hexdigest() for word in (b"one", b"other"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def test_each_line_is_a_name_and_a_hash(file: Path) -> None:
    """Comments and empty lines say nothing; hexadecimal may be of either case."""
    file.write_text(f"# tokens\n\nengine {ONE}  # of the engine\nops\t{OTHER.upper()}\n")

    assert load_tokens(file) == (
        Token("engine", bytes.fromhex(ONE)),
        Token("ops", bytes.fromhex(OTHER)),
    )


def test_a_name_may_have_a_new_token_beside_the_old(file: Path) -> None:
    """So a token is rotated without a moment in which none is known."""
    file.write_text(f"engine {ONE}\nengine {OTHER}\n")
    tokens = load_tokens(file)

    assert [find_token(word, tokens) for word in ("one", "other")] == list(tokens)


def test_a_file_without_tokens_lets_nobody_in(file: Path) -> None:
    """It is good: whoever takes the last token out means it."""
    file.write_text("# none\n")

    assert load_tokens(file) == ()


@pytest.mark.parametrize(
    "text",
    ["engine", f"engine {ONE[:-1]}", f"engine {ONE} x", f"two words {ONE}", f"eng\x1bine {ONE}"],
)
def test_a_broken_line_is_told_by_its_number(file: Path, text: str) -> None:
    """What stands in it is not repeated: it may be a token."""
    file.write_text(f"# tokens\n{text}\n")

    with pytest.raises(SecretFileError, match="line 2") as told:
        load_tokens(file)

    assert str(told.value).startswith(f"{file} ")
    assert ONE[:8] not in str(told.value)


def test_one_hash_under_two_names_is_refused(file: Path) -> None:
    """Nobody could tell whose call it is."""
    file.write_text(f"engine {ONE}\nops {ONE}\n")

    with pytest.raises(SecretFileError, match="twice"):
        load_tokens(file)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    """By path and reason."""
    with pytest.raises(SecretFileError, match="cannot be read: is a directory"):
        load_tokens(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SecretFileError, match="UTF-8"):
        load_tokens(tmp_path / "binary")


@pytest.mark.parametrize("sent", ["Bearer one", "bearer one", "BEARER one", "Bearer  one "])
def test_the_scheme_has_no_case(sent: str) -> None:
    """As HTTP has it."""
    assert bearer_token([sent]) == "one"


def test_a_call_without_authorization_has_no_token() -> None:
    """It may have a certificate."""
    assert bearer_token([]) is None


@pytest.mark.parametrize("sent", [["one"], ["Basic one"], ["Bearer "], ["Bearer one"] * 2, [""]])
def test_any_other_authorization_is_refused(sent: list[str]) -> None:
    """It is not taken for none; the answer tells the form, not what was sent."""
    with pytest.raises(KvtierError, match="Bearer TOKEN") as told:
        bearer_token(sent)

    assert told.value.reason == Reason.BAD_TOKEN
    assert "one'" not in told.value.message.replace("not one 'Bearer", "")


@pytest.mark.parametrize("token", ["", "On", "ONE", "one ", "onee", ONE])
def test_only_the_token_itself_is_found(file: Path, token: str) -> None:
    """Its hash, which stands in the file, is worth nothing."""
    file.write_text(f"engine {ONE}\n")

    assert find_token(token, load_tokens(file)) is None
