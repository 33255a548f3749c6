"""The kinds of values that settings have, and how they are read."""

import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    StringConstraints,
    model_serializer,
)

from kvtier.wire.sizes import exact_size, parse_size

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX_PART = re.compile(r"[A-Za-z0-9._-]{1,128}")


class Settings(BaseModel):
    """A group of settings: unknown ones are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    def idle(self) -> Mapping[str, str]:
        """Return the settings that do nothing beside the others, each with what to do about it."""
        return {}

    @model_serializer(mode="wrap")
    def _without_what_is_idle(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # So that a dump, which has every default, is a configuration.
        idle = self.idle()
        return {name: value for name, value in dump(self).items() if name not in idle}


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{value} is not a number; write one")  # noqa: TRY004 - pydantic wants it
    return value


def in_any_case(value: Any) -> Any:
    """Return a word in small letters, and anything else as it is."""
    return value.lower() if isinstance(value, str) else value


# A size in bytes, read by `parse_size`: bytes, or a number with a unit such as 64GiB.
Size = Annotated[
    int, BeforeValidator(parse_size), PlainSerializer(exact_size, return_type=str, when_used="json")
]
# A whole number above 0.
Count = Annotated[int, BeforeValidator(_no_flag), Field(ge=1, le=2**31 - 1)]
# A time in seconds.
Seconds = Annotated[float, BeforeValidator(_no_flag), Field(allow_inf_nan=False)]
# A short name, as in paths, metrics and command lines.
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,63}$")]
# A node's id: what a host name may hold.
NodeId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.-]{1,253}$")]


def split_bucket(url: str) -> tuple[str, str]:
    """Return bucket and prefix of `s3://BUCKET/PREFIX`.

    Raises:
        ValueError: When it is something else, or a part of the prefix is empty or dots.
    """
    scheme, _, rest = url.partition("://")
    bucket, _, prefix = rest.partition("/")
    parts = prefix.rstrip("/").split("/")
    good = _BUCKET.fullmatch(bucket) and all(_PREFIX_PART.fullmatch(part) for part in parts)
    if scheme != "s3" or not good or {".", ".."}.intersection(parts):
        # A secret that somebody wrote into it is not for the log.
        told = "this" if set(url) & set("@?") else f"{url!r:.200}"
        raise ValueError(
            f"{told} is not s3://BUCKET/PREFIX; write a bucket and a prefix of letters, "
            "digits, '.', '_', '-' and '/', such as s3://kv-cache/node-a"
        )
    return bucket, "/".join(parts)


def check_endpoint(url: str) -> None:
    """Check that a URL names a server, and nothing more.

    Raises:
        ValueError: When it does not, or has a user, a password, a query or a fragment in it.
    """
    if not _names_a_server(url):
        raise ValueError(
            "the endpoint is not http://HOST:PORT or https://HOST:PORT; write such a URL, without "
            "credentials: these come from the usual AWS sources"
        )


def _names_a_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    more = "@" in parts.netloc or parts.query or parts.fragment or url.split() != [url]
    return parts.scheme in {"http", "https"} and named and not more
