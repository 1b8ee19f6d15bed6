"""Names of tools as they look to a person: what lists that refuse are matched against.

Lists that permit hold exact names; a list that refuses must not be escaped by a name that only looks different.
"""

from __future__ import annotations

import unicodedata

# Letters of other scripts that look like Latin ones (Unicode confusables, the common part). After NFKC and case folding,
# so small letters only.
_LOOK_ALIKES = str.maketrans(
    {
        # Cyrillic
        "а": "a",
        "в": "b",
        "г": "r",
        "е": "e",
        "з": "3",
        "к": "k",
        "м": "m",
        "н": "h",
        "о": "o",
        "п": "n",
        "р": "p",
        "с": "c",
        "т": "t",
        "у": "y",
        "х": "x",
        "ь": "b",
        "ѕ": "s",
        "і": "i",
        "ї": "i",
        "ј": "j",
        "ԁ": "d",
        "ԛ": "q",
        "ԝ": "w",
        "һ": "h",
        "ӏ": "l",
        "ү": "y",
        "ґ": "r",
        "ԍ": "g",
        "ѵ": "v",
        "ѐ": "e",
        "ё": "e",
        # Greek
        "α": "a",
        "β": "b",
        "γ": "y",
        "ε": "e",
        "η": "n",
        "ι": "i",
        "κ": "k",
        "ν": "v",
        "ο": "o",
        "ρ": "p",
        "σ": "o",
        "τ": "t",
        "υ": "u",
        "χ": "x",
        "ω": "w",
        "ϲ": "c",
        "ϳ": "j",
        # Armenian
        "օ": "o",
        "ո": "n",
        "ս": "u",
        "հ": "h",
        "ց": "g",
        "զ": "q",
        "ք": "p",
        "յ": "j",
        # Latin that is not ASCII
        "ı": "i",
        "ȷ": "j",
        "ɑ": "a",
        "ɡ": "g",
        "ɩ": "i",
        "ɪ": "i",
        "ʋ": "v",
        "ʏ": "y",
        "ᴄ": "c",
        "ᴏ": "o",
        "ᴜ": "u",
        "ᴠ": "v",
        "ᴡ": "w",
        "ᴢ": "z",
        "ꜱ": "s",
        "ø": "o",
        "đ": "d",
        "ħ": "h",
        "ł": "l",
        "ŧ": "t",
        # punctuation that names use
        "‐": "-",
        "‑": "-",
        "‒": "-",
        "–": "-",
        "—": "-",
        "―": "-",
        "−": "-",
        "﹘": "-",
        "ߺ": "_",
        "·": ".",
        "․": ".",
        "۔": ".",
        "∕": "/",
        "⁄": "/",
        "ː": ":",
        "∶": ":",
        "։": ":",
        "׃": ":",
    }
)
_LEFT_OUT = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Mn", "Me", "Zs", "Zl", "Zp"})
# Drawn as nothing, though their category is that of a letter.
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def fold_name(name: str) -> str:
    """The generous form of a name: compatibility forms, case, white space, invisible characters, accents and common
    look-alikes from other scripts no longer tell it apart (C025). Folding twice changes nothing."""
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", name).casefold()).casefold()
    kept = "".join(
        char for char in text if unicodedata.category(char) not in _LEFT_OUT and char not in _BLANK_LETTERS
    )
    return kept.translate(_LOOK_ALIKES)
