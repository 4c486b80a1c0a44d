"""A user and a model for tests: they answer what the server asks, and remember what it was."""

from collections.abc import Mapping
from typing import Any


class User:
    """Answers forms.

    Args:
        answers: What the message begins with → the content of the form; None declines.
    """

    def __init__(self, answers: Mapping[str, Mapping[str, Any] | None]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        message: str = params["message"]
        self.asked.append(message)
        content = next(
            content for start, content in self.answers.items() if message.startswith(start)
        )
        if content is None:
            return {"action": "decline"}
        return {"action": "accept", "content": content}


class Model:
    """Says its lines, one for each question; a line that is a dict calls the functions in it.

    Args:
        lines: Texts, or function → arguments.
    """

    def __init__(self, *lines: str | Mapping[str, Mapping[str, Any]]) -> None:
        self._lines = list(lines)
        self.asked: list[Mapping[str, Any]] = []

    def __call__(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append(params)
        line = self._lines.pop(0)
        said: Any = {"type": "text", "text": line}
        if not isinstance(line, str):
            number = len(self.asked)
            said = [
                {"type": "tool_use", "id": f"{name}-{number}", "name": name, "input": given}
                for name, given in line.items()
            ]
        return {"role": "assistant", "model": "a-model", "content": said}
