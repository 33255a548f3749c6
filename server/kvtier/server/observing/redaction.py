"""Keeping secrets out of log lines: the last line of defence behind not logging any."""

import json
import re
from collections.abc import MutableMapping
from typing import Any

_HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(
    r"(?i)(^|_)(token|secret|password|passwd|authorization|credentials?|private_key|secret_access_key)$"
)
# In a whole line of JSON, where a line's end is an escape.
_SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=\")|$)"
    r"|(?i:(?<=bearer )[\w.~+/=-]{16,})"
    r"|(?<=://)[^/\s\"@]+:[^/\s\"@]+(?=@)"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
)


def hide_secret_fields(
    _logger: object, _method: str, line: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Hide the values of fields that are secret by their names."""
    for name in line:
        if _SECRET_NAME.search(name):
            line[name] = _HIDDEN
    return line


def without_secrets(line: MutableMapping[str, Any], **options: Any) -> str:
    """Write a line as JSON, and hide what looks like a secret: keys, bearer tokens, passwords."""
    return _SECRETS.sub(_HIDDEN, json.dumps(line, **options))
