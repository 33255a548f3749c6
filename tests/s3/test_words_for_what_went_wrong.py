"""What obstore says is told in words of ours, also what no server of the tests does."""

import pytest
from obstore.exceptions import GenericError, InvalidPathError

from kvtier.server.lasting.object_errors import BucketError, explained

_SENDING = "Error performing GET https://user:secret@s3.example:443/kv/a?x=secret in 1ms - "


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            GenericError(_SENDING + "Http(HttpError {\n kind: Connect, InvalidCertificate(secret)"),
            "the certificate of https://s3.example:443 is not trusted",
        ),
        (
            GenericError(_SENDING + "Http(HttpError {\n kind: Interrupted, secret"),
            "the connection to https://s3.example:443 broke",
        ),
        (
            GenericError("Error performing POST REDACTED in 1ms - status code: 403: secret"),
            "no credentials found",
        ),
        (
            GenericError("DeleteObjects request failed for key a: secret (code: AccessDenied)"),
            "access denied",
        ),
        (
            GenericError("DeleteObjects request failed for key a: secret (code: InternalError)"),
            "server error InternalError",
        ),
        (
            InvalidPathError("secret//path"),
            "an object has a key with an empty part or dots for a part",
        ),
        (GenericError("secret"), "the object server's answer cannot be understood"),
        (OSError("secret"), "the object server's answer cannot be understood"),
    ],
)
def test_errors_are_told_in_words_of_ours(error: Exception, words: str) -> None:
    """Nothing but a few words and the name of the server is passed on."""
    with pytest.raises(BucketError) as caught, explained("kv"):
        raise error

    assert str(caught.value) == words
