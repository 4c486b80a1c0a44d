"""The prompts of a reviewer."""

# region first
from typing import Annotated, Literal

from mcpkit import AssistantMessage, Complete, MCPKit, Message, UserMessage

app = MCPKit("reviewer")


@app.prompt(title="Review code")
def review(code: str, language: Literal["Python", "Rust"] = "Python") -> str:
    """Ask for a review.

    Args:
        code: The code to review.
        language: Its programming language.
    """
    return f"Review this {language} code, and name its worst line:\n\n{code}"


# endregion first
# region messages
@app.prompt
def interview(topic: str, questions: int = 3) -> list[Message]:
    """Begin an interview."""
    return [
        UserMessage(
            f"Ask me {questions} questions about {topic}, one at a time."
        ),
        AssistantMessage("Gladly. Here is the first one."),
    ]


# endregion messages
# region complete
TEAMS = {"core": ["ada", "alan"], "web": ["grace", "tim"]}


def members(typed: str, team: str | None) -> list[str]:
    """Return the members of the chosen team."""
    everybody = [name for names in TEAMS.values() for name in names]
    names = TEAMS.get(team or "", everybody)
    return [name for name in names if name.startswith(typed)]


@app.prompt
def hand_over(
    team: Annotated[str, Complete(TEAMS)],
    person: Annotated[str, Complete(members)],
) -> str:
    """Hand work over to a colleague."""
    return f"Write to {person} of {team} what has to be done next."


# endregion complete
if __name__ == "__main__":
    app.run()
