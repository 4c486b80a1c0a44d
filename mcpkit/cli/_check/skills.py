"""Rules about skills."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mcpkit.cli._check.listing import Listing
from mcpkit.cli._check.rules import Match, rule

_WHEN: Final = re.compile(
    r"\b(use[ds]?|using|useful|when(ever)?|if|before|after|while|whether)\b", re.IGNORECASE
)


@rule(
    "SKILL001 error: skill that hosts refuse",
    reason="Hosts verify each file of a skill by the size and digest that are listed, and compare "
    "the frontmatter. They do not use a skill that differs from its entry.",
    fix="list the bytes that resources/read returns, and the whole frontmatter",
    source="https://modelcontextprotocol.io/seps/2640-skills-extension#integrity-and-verification",
)
def refused(listing: Listing) -> Iterator[Match]:
    return (Match(each, each.fault) for each in listing.of("skill") if each.fault)


@rule(
    "SKILL002 warning: skill that does not say when to use it",
    reason="A model sees only the description until it decides to read the skill.",
    fix="say what the skill is for, and when to use it, in words that users use",
    source="https://agentskills.io/specification#description-field",
)
def without_occasion(listing: Listing) -> Iterator[Match]:
    return (Match(e) for e in listing.of("skill") if not _WHEN.search(e.description))
