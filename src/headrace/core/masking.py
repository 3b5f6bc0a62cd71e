"""Secrets out of what is shown to others: found by what they are and by where they stand, not only by the name of a key.

Three nets, one behind the other. What is known to be secret (`Masker.learn`) is replaced wherever it stands, in its usual encodings
too. What stands where secrets stand (a password of a URL, a JAAS entry, an `Authorization` header, a key that is named so) is replaced
there. And what looks like a secret (private keys, tokens of known makers, JSON Web Tokens, long random words) is replaced for its looks.

Rather too much is hidden than too little. Nothing here remembers or tells what it hid.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from math import log2
from typing import Any
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "<hidden>"
_SHORTEST = 6
"""Known secrets that are shorter would hide half of every text: they are only found by where they stand."""
_PIECES = 4000

_SECRET_NAME = re.compile(
    r"passw(?:or)?d|passwd|passphrase|\bpwd\b|secret|token|credential|api[-_.]?key|apikey|access[-_.]?key|private[-_.]?key|"
    r"account[-_.]?key|shared[-_.]?access|signing[-_.]?key|encryption[-_.]?key|jaas|connection[-_.]?string|\bcookie|"
    r"authorization|\bsig$|signature$|[._-](?:key|auth|sas|pat)$|^auth$",
    re.IGNORECASE,
)
_OTHER_KEYS = re.compile(
    r"(?:partition|record|routing|sort|primary|foreign|public|message|map|group|cache|object|host|map|row|idempotency)[-_.]?key$",
    re.IGNORECASE,
)
_ABOUT_SECRETS = re.compile(
    r"(?:name|names|namespace|ref|refs|file|files|path|paths|dir|url|uri|endpoint|provider|type|types|kind|class|count|size|ms|"
    r"seconds|minutes|enabled|enable|length|mechanism|protocol|algorithm|expiry|expiration|version|location|format|"
    r"expirationseconds|audience|policy|template|mountpath|lifetime)$|"
    r"^(?:imagepullsecrets?|secrets?|tokens?matchers?|automountserviceaccounttoken|secretkey|secretkeyref|keyfieldreferences)$",
    re.IGNORECASE,
)
_HARMLESS = re.compile(
    r"(?:true|false|null|none|~|\d{1,5}|\{\}|\[\]|\(set, not shown\)|<hidden>|<no value>|"
    r"(?:sasl_)?(?:plaintext|ssl)|plain|scram-sha-(?:256|512)|oauthbearer|)",
    re.IGNORECASE,
)

_HEAD = re.compile(r"""(?<![\w.\-])(?P<q>\\?["']?)(?P<name>[\w.\-/]{1,200})(?P=q)[ \t]*(?:=>|[:=]|%3D)[ \t]*""")
_VALUE = re.compile(r"""\\?"(?:[^"\\\n]|\\(?!").|\\\\.)*\\?"|'[^'\n]*'|(?![{\[])[^\s,;&}\])"'<>]+""")
_QUOTATION = re.compile(r"""\\?["']""")
_LINE = re.compile(
    r"^(?P<head>[ \t]*(?:- )?(?P<name>[\w.\-/]+)[ \t]*[:=][ \t]*)(?P<value>[^\s\"'{\[|>&*][^\n]*)$", re.MULTILINE
)
_FLAG = re.compile(
    r"(?P<head>(?<![\w-])--?(?P<name>[\w-]*(?:password|secret|token|api-?key|private-?key|credential|passphrase)[\w-]*)[ =]+)"
    r"(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[^\s\"']+)",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
_JAAS = re.compile(
    r"(\b(?:required|requisite|sufficient|optional)\b)((?:\s+[\w.]+=(?:\\?\"(?:[^\"\\]|\\.)*?\\?\"|'[^']*'|[^\s;]+))+\s*;)"
)
_JAAS_OPTION = re.compile(r"([\w.]+)=(\\?\"(?:[^\"\\]|\\.)*?\\?\"|'[^']*'|[^\s;]+)")
_HEADER = re.compile(
    r"(?P<head>\b(?:proxy-)?authorization\\?[\"']?\s*[:=,]\s*\\?[\"']?|\b(?:set-)?cookie\\?[\"']?\s*[:=]\s*\\?[\"']?|\bx-[\w-]*(?:token|key|auth)[\w-]*"
    r"\\?[\"']?\s*[:=]\s*\\?[\"']?)(?P<value>[^\n\"'\\]+)",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"(?P<head>\b(?:bearer|basic|negotiate|digest)\s+)(?P<value>[\w.~+/=-]{6,})", re.IGNORECASE)
_USERINFO = re.compile(r"(?P<head>\b[a-z][a-z0-9+.-]*://)(?P<value>[^/\s@\"'<>]+)@", re.IGNORECASE)
_XML = re.compile(
    r"(<(?P<name>[\w.:-]*(?:password|secret|token|passphrase|credential|apikey)[\w.:-]*)>)([^<]+)(</)", re.IGNORECASE
)
_LOOKS = re.compile(
    r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*){0,3}|"  # JSON Web Tokens
    r"\b(?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16}\b|"  # Amazon
    r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{10,}|sk-[\w-]{16,}|sk_(?:live|test)_\w{10,}|"
    r"AIza[\w-]{30,}|ya29\.[\w-]{20,}|npm_\w{20,}|pypi-[\w-]{20,}|dckr_pat_[\w-]{20,}|hv[sbr]\.[\w-]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|"
    r"AGE-SECRET-KEY-1[0-9A-Z]{20,}|EAAA[\w-]{20,})"
)
_WORD = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{28,}={0,2}(?![\w+/=])")
_LEAST_ENTROPY = 3.9


class Masker:
    """Hides secrets. What it has learnt holds for everything after; an instance serves one report."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._patterns: list[re.Pattern[str]] | None = None

    def learn(self, value: str | bytes) -> None:
        """`value` is secret: hide it, and its encodings, wherever it stands. Values of less than six characters are ignored."""
        raw = value.encode() if isinstance(value, str) else value
        found = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode().rstrip("=")}
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = ""
        for plain in {text, text.strip()}:
            found |= {
                plain,
                quote(plain, safe=""),
                quote_plus(plain),
                json.dumps(plain)[1:-1],
                base64.b64encode(plain.encode()).decode(),
            }
        self._known |= {word for word in found if len(word) >= _SHORTEST and not _HARMLESS.fullmatch(word)}
        self._patterns = None

    def learn_from(self, data: Any) -> None:
        """Learn the secrets of structured data: what is in Secret objects, values of keys named like secrets, passwords in URLs.

        Texts in it that are files of their own (properties, YAML, JSON) are read in the same way.
        """
        for name, value in _leaves(data):
            if not isinstance(value, str):
                continue
            if is_secret_name(name) and not is_harmless(name, value):
                self.learn(value)
            for url in _USERINFO.finditer(value):
                self.learn(unquote(url["value"].partition(":")[2]))
            self._learn_file(value)
        for secret in _secrets_in(data):
            for value in (secret.get("stringData") or {}).values():
                self.learn(str(value))
            for value in (secret.get("data") or {}).values():
                self._learn_base64(str(value))

    def _learn_file(self, text: str) -> None:
        if text.lstrip()[:1] in ("{", "["):
            try:
                self.learn_from(json.loads(text))
            except ValueError:
                pass
        elif "\n" in text:
            for line in _LINE.finditer(text):
                # JAAS is a name of this kind too; of its value only the options are secret.
                if (
                    is_secret_name(line["name"])
                    and not is_harmless(line["name"], line["value"])
                    and not _JAAS.search(line["value"])
                ):
                    self.learn(line["value"].strip())
        for entry in _JAAS.finditer(text):
            for name, value in _JAAS_OPTION.findall(entry[2]):
                if is_secret_name(name):
                    self.learn(value.strip("\\\"'"))

    def text(self, text: str) -> str:
        """`text` without secrets."""
        for pattern in self._all_known():
            text = pattern.sub(HIDDEN, text)
        text = _PRIVATE_KEY.sub(HIDDEN, text)
        text = _JAAS.sub(lambda match: match[1] + _JAAS_OPTION.sub(_jaas_option, match[2]), text)
        text = _HEADER.sub(_keep_head, text)
        text = _SCHEME.sub(_scheme, text)
        text = _USERINFO.sub(_userinfo, text)
        text = _XML.sub(rf"\1{HIDDEN}\4", text)
        text = _LINE.sub(_line, text)
        text = _without_named(text)
        text = _FLAG.sub(lambda match: match["head"] + HIDDEN if is_secret_name(match["name"]) else match[0], text)
        text = _LOOKS.sub(HIDDEN, text)
        return _WORD.sub(lambda match: HIDDEN if looks_random(match[0]) else match[0], text)

    def data(self, data: Any, *, show_secrets: bool = False) -> Any:
        """Structured data (of JSON or YAML) without secrets; `show_secrets`: the content of Secret objects stays."""
        if isinstance(data, Mapping):
            if data.get("kind") == "Secret" and ("data" in data or "stringData" in data):
                return self._secret(data, show_secrets)
            named = data.get("name") if isinstance(data.get("value"), str) else None
            return {
                key: self._value(key if key != "value" or named is None else str(named), value, show_secrets)
                for key, value in data.items()
            }
        if isinstance(data, list):
            return [self.data(item, show_secrets=show_secrets) for item in data]
        return self.text(data) if isinstance(data, str) else data

    def _value(self, name: Any, value: Any, show_secrets: bool) -> Any:
        if isinstance(value, str) and is_secret_name(str(name)) and not is_harmless(str(name), value):
            return HIDDEN
        return self.data(value, show_secrets=show_secrets)

    def _secret(self, secret: Mapping[str, Any], show: bool) -> dict[str, Any]:
        """A Secret object: its values hidden, and what `kubectl apply` keeps of them in an annotation."""
        if show:
            return dict(secret)
        shown: dict[str, Any] = {}
        for key, value in secret.items():
            if key in ("data", "stringData") and isinstance(value, Mapping):
                shown[key] = dict.fromkeys(value, HIDDEN)
            else:
                shown[key] = self.data(value)
        metadata = shown.get("metadata")
        if isinstance(metadata, dict) and isinstance(metadata.get("annotations"), dict):
            metadata["annotations"] = {
                key: HIDDEN if key.endswith("last-applied-configuration") else value
                for key, value in metadata["annotations"].items()
            }
        return shown

    def _learn_base64(self, value: str) -> None:
        self.learn(value)
        try:
            self.learn(base64.b64decode(value, validate=True))
        except ValueError:
            pass

    def _all_known(self) -> list[re.Pattern[str]]:
        """The known secrets as patterns, the longest first, so that none is hidden in half by a shorter one."""
        if self._patterns is None:
            words = sorted(self._known, key=len, reverse=True)
            pieces = [words[at : at + _PIECES] for at in range(0, len(words), _PIECES)]
            self._patterns = [re.compile("|".join(map(re.escape, piece))) for piece in pieces]
        return self._patterns


@lru_cache(maxsize=8192)
def is_secret_name(name: str) -> bool:
    """Whether what a key of this name holds is a secret, rather than something about one (`secretName`, `token.endpoint.url`)."""
    last = re.split(r"[./]", name)[-1] or name
    plain = re.sub(r"[-_.\s]", "", last)
    whole = re.sub(r"[-_.\s]", "", name)
    about = _ABOUT_SECRETS.search(plain) or _ABOUT_SECRETS.search(whole) or _OTHER_KEYS.search(name)
    return bool(_SECRET_NAME.search(name)) and not about


def is_harmless(name: str, value: str) -> bool:
    """Whether a value under the name of a secret is none: nothing, a truth value, a small number, or a path where a file is named.

    `PWD` is a shell's word for the folder it is in.
    """
    names_a_file = name.lower().endswith("auth") or name == "PWD"
    return bool(_HARMLESS.fullmatch(value.strip())) or (names_a_file and value.startswith(("/", "./", "~/")))


def looks_random(word: str) -> bool:
    """Whether a word of 28 characters and more is none that people or programs name things with: its characters are mixed, of changing
    kind, none of them frequent.
    """
    if re.fullmatch(r"[0-9a-fA-F-]+", word) or word.count("/") > 3:
        return False
    kinds = (sum(map(str.islower, word)), sum(map(str.isupper, word)), sum(map(str.isdigit, word)))
    if min(kinds) < 2 or kinds[2] > len(word) * 0.6:
        return False
    # Names are made of words: `19/AbstractQueuedSynchronizer`. Of 1,000 random words one changes its kind so seldom.
    if sum(_kind(a) != _kind(b) for a, b in pairwise(word)) * 3 < len(word):
        return False
    counts = Counter(word)
    return -sum(n / len(word) * log2(n / len(word)) for n in counts.values()) >= _LEAST_ENTROPY


def _kind(character: str) -> tuple[bool, bool, bool]:
    return character.islower(), character.isupper(), character.isdigit()


def _keep_head(match: re.Match[str]) -> str:
    return match[0] if _HARMLESS.fullmatch(match["value"].strip()) else match["head"] + HIDDEN


def _scheme(match: re.Match[str]) -> str:
    """`Basic auth`, `Bearer token` and the like are words, not credentials."""
    return match[0] if match["value"].isalpha() and match["value"].islower() else match["head"] + HIDDEN


def _userinfo(match: re.Match[str]) -> str:
    user, colon, _ = match["value"].partition(":")
    if colon:
        return f"{match['head']}{user}:{HIDDEN}@"
    return f"{match['head']}{HIDDEN if len(user) >= 16 else user}@"


def _without_named(text: str) -> str:
    """`text` without the values that stand behind a name: `name=value`, `"name": "value"` and the like, at any depth."""
    parts, done = [], 0
    for head in _HEAD.finditer(text):
        if head.start() < done or not is_secret_name(head["name"]):
            continue
        value = _VALUE.match(text, head.end())
        if value is None:
            continue
        quotation = _QUOTATION.match(value[0])
        mark = quotation[0] if quotation else ""
        if not is_harmless(head["name"], value[0][len(mark) : len(value[0]) - len(mark)]):
            parts += [text[done : head.end()], mark, HIDDEN, mark]
            done = value.end()
    return "".join([*parts, text[done:]])


def _line(match: re.Match[str]) -> str:
    """A line of a properties, environment or YAML file: the value is all the rest of it."""
    if not is_secret_name(match["name"]) or is_harmless(match["name"], match["value"]):
        return match[0]
    return f"{match['head']}{HIDDEN}"


def _jaas_option(match: re.Match[str]) -> str:
    return f"{match[1]}={HIDDEN}" if is_secret_name(match[1]) else match[0]


def _leaves(data: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of structured data with the name that stands before it; of `{name: X, value: Y}` that is X."""
    if isinstance(data, Mapping):
        named = data.get("name") if isinstance(data.get("name"), str) and isinstance(data.get("value"), str) else None
        for key, value in data.items():
            yield from _leaves(value, str(named if key == "value" and named else key))
    elif isinstance(data, list):
        for item in data:
            yield from _leaves(item, name)
    else:
        yield name, data


def _secrets_in(data: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(data, Mapping):
        if data.get("kind") == "Secret":
            yield data
        for value in data.values():
            yield from _secrets_in(value)
    elif isinstance(data, list):
        for item in data:
            yield from _secrets_in(item)
