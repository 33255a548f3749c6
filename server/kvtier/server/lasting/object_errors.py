"""What goes wrong with an object server, in a few words for an operator.

The messages of obstore hold URLs, whole answers and the insides of its HTTP client. They are
taken apart here and never passed on.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

from obstore.exceptions import AlreadyExistsError, BaseError, InvalidPathError

from kvtier.server.lasting.shelf import MissingError, ShelfError

_URL = re.compile(r"Error performing [A-Z]+ (\S+) in ")
_STATUS = re.compile(r"status code: ([0-9]{3})\b")
_CODE = re.compile(r"<Code>([A-Za-z]{1,40})</Code>|\(code: ([A-Za-z]{1,40})\)")
_KIND = re.compile(r"\bHttpError \{\s+kind: ([A-Za-z]+)")
_DENIED = {"AccessDenied", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken"}
_ELSEWHERE = {"AuthorizationHeaderMalformed", "PermanentRedirect"}
_PASSING = {"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown"}
_CHECK_ENDPOINT = "check the scheme, host and port of the tier's endpoint"


class _Sign(NamedTuple):
    """What tells, in the insides of obstore's HTTP client, what became of a connection."""

    kind: str
    text: str
    reason: str
    advice: str = ""
    doubtful: bool = False


_SIGNS = (
    _Sign("", "BareRedirect", "{server} sends elsewhere", "set the tier's region"),
    _Sign("Connect", "InvalidMessage", "{server} does not speak TLS", _CHECK_ENDPOINT),
    _Sign("Connect", "InvalidCertificate", "the certificate of {server} is not trusted"),
    _Sign("Connect", "", "no answer from {server}"),
    _Sign("Timeout", "", "request timed out", doubtful=True),
    _Sign("Unknown", "Parse(", "{server} does not speak HTTP", _CHECK_ENDPOINT),
    _Sign("Unknown", "kind: Builder", "the endpoint cannot be used", _CHECK_ENDPOINT),
    _Sign("", "HttpError {", "the connection to {server} broke", doubtful=True),
)


class BucketError(ShelfError):
    """The object server refused, failed, or did not answer.

    Attributes:
        advice: What to do about it; empty when it may pass by itself.
        doubtful: Whether what was asked for may be done all the same, now or soon.
        status: The HTTP status, where it says more than the reason; else 0.
    """

    def __init__(
        self, reason: str, advice: str = "", *, doubtful: bool = False, status: int = 0
    ) -> None:
        super().__init__(reason)
        self.advice = advice
        self.doubtful = doubtful
        self.status = status


class ExistsError(BucketError):
    """There is an object of this key, or another is being written."""


@contextmanager
def explained(bucket: str) -> Iterator[None]:
    """Raise what obstore raises as errors of ours.

    Raises:
        MissingError: When there is no such object.
        ExistsError: When there is one that should not be.
        BucketError: When anything else goes wrong.
    """
    try:
        yield
    except AlreadyExistsError:
        raise ExistsError("the request is at odds with another") from None
    except (BaseError, OSError) as error:
        raise _explain(error, bucket) from None


def _explain(error: Exception, bucket: str) -> BucketError | MissingError:
    text = str(error)
    url, code, status = _first(_URL, text), _first(_CODE, text), int(_first(_STATUS, text) or 0)
    if isinstance(error, FileNotFoundError) and code == "NoSuchKey":
        return MissingError()
    if isinstance(error, InvalidPathError):
        return BucketError("an object has a key with an empty part or dots for a part")
    # Every request for an object has the bucket in its path.
    if url and f"/{bucket}" not in url:
        return BucketError("no credentials found", "give them by the environment, see AWS_*")
    return (
        _of_answer(status, code, bucket)
        or _of_connection(text, _server(url))
        or BucketError("the object server's answer cannot be understood", doubtful=True)
    )


def _of_answer(status: int, code: str, bucket: str) -> BucketError | None:
    """Return what the server's answer says; None when there was none."""
    more = f" ({code})" if code not in {"", "AccessDenied"} else ""
    if code == "NoSuchBucket":
        return BucketError(f"bucket {bucket} does not exist", "create it, or change the tier's url")
    if status in {401, 403} or code in _DENIED:
        return BucketError(
            f"access denied{more}",
            "check the credentials; they need s3:GetObject, PutObject, DeleteObject and ListBucket",
        )
    if 300 <= status < 400 or code in _ELSEWHERE:
        return BucketError(f"bucket {bucket} is in another region", "set the tier's region")
    if status >= 500 or status == 429 or code in _PASSING:
        full = status == 507
        reason = "no space left on the object server" if full else f"server error {status or code}"
        return BucketError(reason, doubtful=not full)
    if status or code:
        return BucketError(
            f"request refused with {status or 'no status'}{more}",
            "check the tier's url, endpoint and region",
            status=status,
        )
    return None


def _of_connection(text: str, server: str) -> BucketError | None:
    """Return what became of the connection; None when nothing is said of it."""
    kind = _first(_KIND, text)
    for sign in _SIGNS:
        if sign.kind in {"", kind} and sign.text in text:
            reason = sign.reason.format(server=server)
            return BucketError(reason, sign.advice, doubtful=sign.doubtful)
    return None


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return next(filter(None, found.groups()), "") if found else ""


def _server(url: str) -> str:
    """Return scheme, host and port of a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}" if host else "the object server"
