"""Arguments of calls, as a rewrite needs them: taken out, renamed, and put in without a trace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

__all__ = ["Args", "expression", "string_of"]


def expression(code: str) -> cst.BaseExpression:
    """Return the tree of an expression."""
    return cst.parse_expression(code)


def string_of(node: cst.BaseExpression | None) -> str | None:
    """Return the value of a string that is written out; None for anything else."""
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        found = node.evaluated_value
        return found if isinstance(found, str) else None
    return None


class Args:
    """The arguments of a call while it is rewritten.

    Args:
        call: With the arguments as they are.
    """

    def __init__(self, call: cst.Call) -> None:
        self._call = call
        self.all: list[cst.Arg] = list(call.args)
        self._without_last = False

    @property
    def positional(self) -> list[cst.Arg]:
        """Those without a keyword, up to the first star."""
        found: list[cst.Arg] = []
        for each in self.all:
            if each.keyword is not None or each.star:
                break
            found.append(each)
        return found

    @property
    def keywords(self) -> list[str]:
        """The keywords, in order."""
        return [each.keyword.value for each in self.all if each.keyword is not None]

    def get(self, name: str) -> cst.BaseExpression | None:
        """Return the value of a keyword; None if it is not there."""
        found = self._find(name)
        return None if found is None else found.value

    def take(self, name: str) -> cst.BaseExpression | None:
        """Take a keyword out, and return its value; None if it is not there."""
        found = self._find(name)
        if found is not None:
            self.all.remove(found)
            self._without_last = self._without_last or found is self._call.args[-1]
        return None if found is None else found.value

    def rename(self, name: str, ours: str) -> None:
        """Give a keyword another name."""
        found = self._find(name)
        if found is not None and found.keyword is not None:
            place = self.all.index(found)
            keyword = found.keyword.with_changes(value=ours)
            self.all[place] = found.with_changes(keyword=keyword)

    def replace(self, name: str, value: cst.BaseExpression) -> None:
        """Give a keyword another value."""
        found = self._find(name)
        if found is not None:
            self.all[self.all.index(found)] = found.with_changes(value=value)

    def add(self, name: str, value: cst.BaseExpression) -> None:
        """Add a keyword at the end, unless it is there."""
        if self._find(name) is None:
            self.all.append(_keyword(name, value))

    def put(self, name: str, new: Sequence[tuple[str, cst.BaseExpression]]) -> None:
        """Put keywords in the place of one."""
        found = self._find(name)
        if found is None:
            return
        place = self.all.index(found)
        made = [_keyword(each, value) for each, value in new]
        if made:
            # The comma, the break and the comment behind it stay.
            made[-1] = made[-1].with_changes(
                comma=found.comma, whitespace_after_arg=found.whitespace_after_arg
            )
        self.all[place : place + 1] = made

    def first(self, value: cst.BaseExpression) -> None:
        """Put a value before all others."""
        self.all.insert(0, cst.Arg(value))

    def swap(self) -> None:
        """Have the first two change places."""
        self.all[:2] = reversed(self.all[:2])

    def positional_as(self, names: Iterable[str]) -> None:
        """Give the values without a keyword, from the second on, their names."""
        count = len(self.positional)
        for place, name in enumerate(names, 1):
            if place < count:
                self.all[place] = _keyword(name, self.all[place].value).with_changes(
                    comma=self.all[place].comma
                )

    def call(self, function: cst.BaseExpression | None = None) -> cst.Call:
        """Return the call with what has become of its arguments."""
        args = [*self.all]
        before = self._call.args
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        if isinstance(self._call.whitespace_before_args, cst.ParenthesizedWhitespace):
            comma = cst.Comma(whitespace_after=_break(self._call.whitespace_before_args))
        end = before[-1].comma if before else None
        for place, each in enumerate(args[:-1]):
            if not isinstance(each.comma, cst.Comma) or each.comma is end:
                args[place] = each.with_changes(comma=comma)
        if args and before:
            last = before[-1]
            behind = last.comma
            if self._without_last and isinstance(behind, cst.Comma):
                behind = behind.with_changes(whitespace_after=_uncommented(behind.whitespace_after))
            args[-1] = args[-1].with_changes(
                comma=behind, whitespace_after_arg=last.whitespace_after_arg
            )
        changes: dict[str, object] = {"args": args}
        if not args:
            changes["whitespace_before_args"] = cst.SimpleWhitespace("")
        if function is not None:
            changes["func"] = function
        return self._call.with_changes(**changes)

    def _find(self, name: str) -> cst.Arg | None:
        for each in self.all:
            if each.keyword is not None and each.keyword.value == name:
                return each
        return None


def _uncommented(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    """Return white space without the comment on what is gone."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    line = space.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    return space.with_changes(first_line=line)


def _break(before: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    """Return the white space before the first argument, without a comment in it."""
    line = before.first_line.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
    return before.with_changes(first_line=line, empty_lines=())


def _keyword(name: str, value: cst.BaseExpression) -> cst.Arg:
    return cst.Arg(
        value,
        keyword=cst.Name(name),
        equal=cst.AssignEqual(
            whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")
        ),
    )
