"""Finds what looks like a secret in the files of a bundle, which is handed on.

Known forms alone: whoever bundles gets few false alarms, and none for what looks random, as digests do.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from argosy.bundle.contents import Member
from argosy.errors import ArgosyError
from argosy.results.hidden_values import SECRET_NAME

FORMS: Mapping[str, bytes] = {
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "an access key of AWS": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a token of GitHub": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
    "a token of GitLab": rb"\bglpat-[A-Za-z0-9_-]{20,}",
    "a token of Hugging Face": rb"\bhf_[A-Za-z0-9]{30,}",
    "a token of Slack": rb"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "a JSON web token": rb"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "a login of a registry": rb"\"auth\"\s*:\s*\"[A-Za-z0-9+/=]{8,}\"",
    "an address with a password": rb"\b[a-z][a-z0-9+.-]*://[^\s/:@'\"<>{}$]+:[^\s/:@'\"<>{}$]{3,}@[A-Za-z0-9]",
}
"""What it is, by its name, and the text of it."""

_SHORTEST = 8
"""Characters of a variable's value that is looked for: shorter ones are in many texts."""
_MOST_NAMED = 5
_OVERLAP = 4096
_CHUNK = 4 << 20


@dataclass(frozen=True)
class Found:
    """Something that looks like a secret: in which file and line, and what it is."""

    name: str
    line: int
    what: str


def refuse_secrets(members: Sequence[Member], environment: Mapping[str, str] = os.environ) -> None:
    """Raise ArgosyError, naming files and lines, when a file holds what looks like a secret.

    Args:
        members: all files.
        environment: values of its variables with names such as HF_TOKEN are looked for as well.
    """
    pattern, titles = _pattern(environment)
    found: list[Found] = []
    for member in members:
        found += _secrets_in(member, pattern, titles)
    if not found:
        return
    named = "; ".join(f"{each.name}:{each.line}: {each.what}" for each in found[:_MOST_NAMED])
    more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    raise ArgosyError(
        f"a bundle is handed on, and these look like secrets: {named}{more}",
        f"take them out, or leave the file behind: --exclude '/{found[0].name}'",
    )


def _pattern(environment: Mapping[str, str]) -> tuple[re.Pattern[bytes], list[str]]:
    """Return one pattern of all forms, a group each, and what each group is."""
    forms = dict(FORMS)
    for name, value in sorted(environment.items()):
        if SECRET_NAME.search(name) and len(value) >= _SHORTEST and not Path(value).exists():
            forms[f"the value of the variable {name}"] = re.escape(os.fsencode(value))
    return re.compile(b"|".join(b"(%b)" % form for form in forms.values())), [*forms]


def _secrets_in(
    member: Member, pattern: re.Pattern[bytes], titles: Sequence[str]
) -> Iterator[Found]:
    with member.open() as file:
        lines, before = 1, b""
        while chunk := file.read(_CHUNK):
            text = before + chunk
            for match in pattern.finditer(text):
                # What began in the part that was looked at before was found there.
                if match.end() > len(before):
                    assert match.lastindex
                    line = lines + text.count(b"\n", 0, match.start())
                    yield Found(member.name, line, titles[match.lastindex - 1])
            before = text[-_OVERLAP:]
            lines += text.count(b"\n", 0, len(text) - len(before))
