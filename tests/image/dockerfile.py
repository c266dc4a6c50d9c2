"""Reads a Dockerfile, as much of it as ours use; an instruction that is not known here is an error, so that none goes by
unchecked."""

import json
import re
from dataclasses import dataclass, field

# Instructions that change nothing that is checked.
SILENT = ("EXPOSE", "LABEL")


@dataclass
class Stage:
    name: str
    base: str
    steps: list = field(default_factory=list)  # (instruction, text), in order: ARG, COPY, RUN, WORKDIR, ENV, …

    def last(self, instruction, default=None):
        return next((text for word, text in reversed(self.steps) if word == instruction), default)


def instructions(text):
    """(instruction, text) with lines joined and comments left out."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*#", line)]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word.upper(), rest.strip()


def read(text, arguments):
    """The stages; `arguments` are build arguments by name, and go before the file's own defaults."""
    given, stages = dict(arguments), []
    for word, rest in instructions(text):
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(name or str(len(stages)), filled(base, given)))
        elif word == "ARG" and not stages:
            name, _, default = rest.partition("=")
            given.setdefault(name, default)
        elif word in ("ARG", "COPY", "RUN", "WORKDIR", "ENV", "USER", "ENTRYPOINT", "CMD", "HEALTHCHECK"):
            stages[-1].steps.append((word, rest))
        elif word not in SILENT:
            raise SystemExit(f"the instruction {word} is not known to this check")
    return stages


def filled(text, given):
    return re.sub(r"\$\{(\w+)\}", lambda match: given[match[1]], text)


def flags(text):
    """Leading `--name=value`, and the rest."""
    found = []
    while match := re.match(r"--([a-z]+)=(\S+)\s+", text):
        found.append((match[1], match[2]))
        text = text[match.end() :]
    return found, text


def words(text):
    """The words of an instruction in its JSON form, which alone works without a shell."""
    return json.loads(text)


def ignored(rules, path):
    """Whether .dockerignore keeps a path out of the context: the last rule that matches decides."""
    out = False
    for rule in rules.splitlines():
        rule = rule.strip()
        if rule and not rule.startswith("#"):
            keep, pattern = rule.startswith("!"), rule.lstrip("!").strip("/")
            if pattern == "*" or path == pattern or path.startswith(f"{pattern}/"):
                out = not keep
    return out
