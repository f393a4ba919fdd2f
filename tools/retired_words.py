"""Words that docs/design/glossary.md retired, in names, comments and texts of C and C++ sources.

usage: retired_words.py FILE...
"""
import re
import sys

# Parts of names, and whole words of sentences. A word that English needs stands only as a name.
RETIRED = {
    r"\bkMost[A-Z]\w*|\bkMost\b": "kMax...",
    r"\bkLeast[A-Z]\w*|\bkLeast\b": "kMin...",
    r"(?i)\b\w*meeting\w*": "rendezvous",
    r"\b(?:door|doors|Door|Doors|\w*_door|\w*_doors)\b": "listener",
    r"(?i)\b\w*greet(?:ing|ings|ed)?\b": "handshake",
    r"\b(?:Introduction|introduction|Introducer)\b": "claim",
    r"\bhello\b|\bkHello|Hello\b": "handshake, request",
    r"\b(?:Reception|reception|Admission|admission)_?\b": "acceptor",
    r"\b(?:RankCard|CardNic|rank_card\w*|rank cards?)\b": "rank info",
    r"(?i)\b\w*seat(?:s|ed|ing|ings)?_?\b": "NIC assignment",
    r"\b(?:RoomRecord|RoomBook|room_book)\b": "receive credit, posted receives",
    r"(?i)\b\w*verdicts?\w*": "failure decision, result",
    r"\b(?:FailureDesk|desk|desks|desk_of)\b": "failure aggregator",
    r"(?i)\b\w*farewell\w*": "shutdown",
    r"(?i)\b\w*departures?\w*": "leave notice",
    r"(?i)\b\w*lineages?\w*": "communicator id",
    r"\b(?:Wires|wires|wires_|MeetingLine)\b": "connection set, side channel",
    r"(?i)\b\w*patience\w*": "timeout",
    r"\bworth_a_look_?\b": "has_pending",
    r"\beverybody(?:s|s_text|_ok)\b": "all_gather_values, all_ok",
    r"\b(?:Wish|wish|parse_wish|WishFile)\b": "requested strategy",
    r"\b[Tt]he lone rank\b": "single-rank baseline",
}
PATTERNS = [(re.compile(pattern), instead) for pattern, instead in RETIRED.items()]


def findings(name: str) -> list[str]:
    found = []
    with open(name, encoding="utf-8") as source:
        for number, line in enumerate(source, 1):
            for pattern, instead in PATTERNS:
                match = pattern.search(line)
                if match:
                    found.append(f"{name}:{number}: '{match.group(0)}' is retired: {instead} "
                                 "(docs/design/glossary.md)")
    return found


def main() -> None:
    found = [finding for name in sys.argv[1:] for finding in findings(name)]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
