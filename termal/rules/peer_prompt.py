"""How a prompt that another session sent is worded for the agent; the transcript shows it as it was sent."""

HEADER = "[TermAl cross-session message]"


def worded(text: str, *, sender_id: str, sender_name: str, other_project: bool) -> str:
    """``text`` behind a header that names the sender and says how to answer."""
    lines = [HEADER, f"From: {sender_name} ({sender_id})"]
    if other_project:
        lines.append("The sender works in a different repository: its paths and its branch are not yours.")
    lines.append("This was sent by another agent session, not typed by the user.")
    lines.append(f"To answer, send a message to {sender_id} with the TermAl tools; your reply here is not sent to it.")
    return "\n".join([*lines, "", text])
