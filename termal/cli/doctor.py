"""``termal doctor``: every check with its finding and its advice."""

import typer

from termal.cli.checks import Finding, examine
from termal.cli.console import EXIT_FAILED, Home, Json, command_app, say, say_json
from termal.cli.figures import as_count
from termal.home import find_home

_SIGNS = {"ok": "ok     ", "hint": "hint   ", "problem": "PROBLEM"}

app = command_app()


@app.command()
def doctor(home: Home = None, as_json: Json = False) -> None:
    """Check the data directory, the daemon, the port, SQLite, both databases and the agents. Exit 1 with a problem."""
    findings: list[Finding] = []
    for finding in examine(find_home(home)):
        findings.append(finding)
        if not as_json:
            say(f"{_SIGNS[finding.level]} {finding.subject}: {finding.text}")
            if finding.advice:
                say(f"        -> {finding.advice}")
    problems = sum(finding.level == "problem" for finding in findings)
    if as_json:
        say_json({"ok": not problems, "findings": findings})
    else:
        say(as_count(problems, "problem") if problems else "nothing is wrong")
    if problems:
        raise typer.Exit(EXIT_FAILED)
