"""Expand quotes and variables in words of ENV, COPY, FROM and similar instructions.

Source: https://docs.docker.com/reference/dockerfile/#environment-replacement.
"""

import re
from collections.abc import Mapping

# Digits and single signs are parameters of the shell, which are empty in instructions.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_OPERATOR = re.compile(r":?[-+?]")


class ExpansionError(Exception):
    """A word cannot be expanded; the caller adds file and line."""


def split_words(text: str, escape: str = "\\") -> list[str]:
    """Split at spaces outside of quotes; keep quotes and escapes.

    Raises:
        ExpansionError: if a quote is not closed.
    """
    words, word, quote = [], "", ""
    characters = iter(text)
    for character in characters:
        if character == escape and quote != "'":
            # A trailing escape is dropped.
            following = next(characters, "")
            word += character + following if following else ""
        elif quote:
            word += character
            quote = "" if character == quote else quote
        elif character.isspace():
            words.append(word)
            word = ""
        else:
            quote = character if character in "'\"" else ""
            word += character
    if quote:
        raise _unclosed(text, quote)
    return [each for each in (*words, word) if each]


def expand(word: str, variables: Mapping[str, str], escape: str = "\\") -> str:
    """Remove quotes and replace `$NAME`, `${NAME}`, `${NAME:-word}`, `:+`, `:?` (also without colon).

    Raises:
        ExpansionError: for other forms of `${…}`, unset variables with `:?`, and unclosed quotes or braces.
    """
    return _Expansion(word, variables, escape, "'\"").until("")


def expand_text(text: str, variables: Mapping[str, str]) -> str:
    r"""Replace variables in a file's content, where quotes have no meaning; `\$` is a dollar sign."""
    return _Expansion(text, variables, "\\", "").until("")


class _Expansion:
    """One pass over a text; `quotes` are the characters that count as quotes."""

    def __init__(self, text: str, variables: Mapping[str, str], escape: str, quotes: str) -> None:
        self._text = text
        self._variables = variables
        self._escape = escape
        self._quotes = quotes
        self._at = 0

    def until(self, end: str) -> str:
        """Expand the text up to the character `end`, or up to the end of the text if `end` is empty."""
        result = ""
        while character := self._next():
            if character == end:
                return result
            if character in self._quotes:
                result += self._double_quoted() if character == '"' else self._single_quoted()
            elif character == self._escape:
                result += self._next()
            else:
                result += self._variable() if character == "$" else character
        if end:
            raise _unclosed(self._text, end)
        return result

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1 : self._at]

    def _single_quoted(self) -> str:
        begin = self._at
        end = self._text.find("'", begin)
        if end < 0:
            raise _unclosed(self._text, "'")
        self._at = end + 1
        return self._text[begin:end]

    def _double_quoted(self) -> str:
        result = ""
        while character := self._next():
            if character == '"':
                return result
            if character == self._escape:
                # Only these characters can be escaped in double quotes.
                following = self._next()
                result += following if following in ('"', "$", self._escape) else character
                self._at -= following not in ('"', "$", self._escape)
            else:
                result += self._variable() if character == "$" else character
        raise _unclosed(self._text, '"')

    def _variable(self) -> str:
        if self._text.startswith("{", self._at):
            return self._braced()
        name = self._name()
        return self._variables.get(name, "") if name else "$"

    def _name(self) -> str:
        found = _NAME.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found[0] if found else ""

    def _braced(self) -> str:
        begin = self._at - 1
        self._at += 1
        name = self._name()
        if not name:
            raise ExpansionError(f"`{_shortened_text(self._text[begin:])}` names no variable")
        value = self._variables.get(name)
        operator = _OPERATOR.match(self._text, self._at)
        if operator:
            self._at = operator.end()
            word = self.until("}")
            is_set = value is not None and (value != "" or ":" not in operator[0])
            return _substitute(operator[0][-1], name, value or "", is_set, word)
        following = self._next()
        if not following:
            raise _unclosed(self._text, "}")
        if following != "}":
            raise ExpansionError(
                f"`{_shortened_text(self._text[begin:])}`: unknown operator; there are :- :+ :? - + ?"
            )
        return value or ""


def _substitute(operator: str, name: str, value: str, is_set: bool, word: str) -> str:
    if operator == "+":
        return word if is_set else ""
    if is_set:
        return value
    if operator == "?":
        raise ExpansionError(f"{name}: {word or 'is not set'}")
    return word


def _unclosed(text: str, end: str) -> ExpansionError:
    return ExpansionError(f"`{_shortened_text(text)}` has no closing {end}")


def _shortened_text(text: str) -> str:
    """Return the text in one line of at most 60 characters."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
