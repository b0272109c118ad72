"""Which shell commands are proven to read only: the words that bash would see, and the programs that get them."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from termal.rules.delegation_commands import names_git, reads_only
from termal.rules.delegation_shell import NotPlain, commands_of

CWD = "/work/repo"


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls -la src",
        "cat 'a b' \"c d\" e\\ f",
        "grep -rn 'x;y|z>w' src | head -5 && wc -l a || true",
        "grep foo a 2>/dev/null | sort-of-not || true".replace("sort-of-not", "tail -3"),
        "ls 2>/dev/null",
        "echo '$HOME `id` {a,b} *'",
        "find . -name '*.py' -not -path './x/*'",
        "sed -n '1,20p' a.py",
        "sed -nE -e '/a|b/,+3p' -e 's/x/y/g;2q' a.py",
        "sed '$!d' a",
        "sed 's,/,_,2p' a",
        "rg -n --glob '*.py' foo",
        "date -u +%s",
        "git status --short",
        "git --no-pager diff HEAD~1 -- src",
        "git -P log --oneline -5 | head",
        "git --no-optional-locks show HEAD:a",
        "git branch -a --list 'x*'",
        "git branch --contains HEAD",
        "git remote -v",
        "git grep -n foo",
        "cd src && ls",
        f"cd {CWD} && git status",
        "cd . && git log -1",
        'for f in a.py b.py; do git log -1 -- $f | head -1; cat "${f}"; done',
    ],
)
def test_commands_that_only_read(command: str) -> None:
    assert reads_only(command, CWD)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "rm a",
        "ls; rm a",
        "ls\nrm a",
        "ls & rm a",
        "ls &",
        "ls && ",
        "| ls",
        "ls > a",
        "ls >> a",
        "ls 2>a",
        "ls 2>/dev/nullx",
        "ls 2>&1",
        "ls &> a",
        "cat < a",
        "cat <<x",
        "echo $(id)",
        "echo `id`",
        'echo "`id`"',
        "echo $HOME",
        'echo "$HOME"',
        "echo $'a'",
        "echo {a,b}",
        "ls *.py",
        "ls a?",
        "ls [ab]",
        "(ls)",
        "ls 'open",
        'ls "open',
        "ls \\",
        "FOO=1 ls",
        "/bin/ls",
        "l\u00a0s",
        "ls \u2028rm",
        "# comment",
        "! ls",
        "bash -c ls",
        "env ls",
        "xargs ls",
        "tee a",
        "find . -delete",
        "find . -exec rm x ';'",
        "find . -okdir x ';'",
        "find . -fprintf a x",
        "find . -fls a",
        "sed -i s/a/b/ a",
        "sed --in-place=.bak s/a/b/ a",
        "sed --in-pl s/a/b/ a",
        "sed p a -i",
        "sed -ni p a",
        "sed -f script a",
        "sed 'w out' a",
        "sed 's/a/b/w out' a",
        "sed 's/a/b/e' a",
        "sed '1e id' a",
        "sed 'W out' a",
        "sed '/x/{p}' a",
        "sed 's/[/]/x/w f/' a",
        "sed -e p -e 'e' a",
        "sed 'sxaxbx' a",
        "sed '\\[a[p' a",
        "sed 's[a[b[' a",
        "sed",
        "rg --pre cat x",
        "rg --pr cat x",
        "rg -z x",
        "rg --hostname-bin=x y",
        "date -s now",
        "date 010100",
        "git",
        "git commit -m x",
        "git -c core.pager=x status",
        "git -C /other status",
        "git diff --output=x",
        "git diff --outp=x",
        "git log --o=x",
        "git diff --ext-diff",
        "git diff --ext",
        "git show --textconv a",
        "git status --help",
        "git log -h",
        "git grep -O x",
        "git log --show-signature",
        "git log --show-sig",
        "git log --format=%G?",
        "git branch --format='%(signature:key)'",
        "git grep -nO x",
        "git grep --open-files x",
        "git branch x",
        "git branch -d x",
        "git branch -a x",
        "git branch -l x",
        "git branch --edit-description",
        "git remote add x y",
        "git remote update",
        "git stash list",
        "git checkout x",
        "cd /other && git status",
        "cd src && git status",
        "git status && cd ..",
        "cd - && ls",
        "cd",
        "for f in a b; do rm $f; done",
        "for f in a; do ls $g; done",
        "for f in *; do ls $f; done",
        "for f in 'a b'; do ls $f; done",
        "for f in a; do ls $f; done; rm x",
        "for f in a; do ls; done | head",
        "for f in a; do for g in b; do ls; done; done",
        "for f in a; do ls; ; done",
        "for f in; do ls; done",
        "for f in a; ls; done",
        "for f in a; do; done",
        "for rm in a; do $rm x; done".replace("a;", "rm;"),
        "while true; do ls; done",
        "for PATH in evil; do git status; done",
        "for HOME in evil; do git status; done",
        "for _ in a; do ls; done",
        "x" * 20000,
    ],
)
def test_commands_that_are_not_proven_to_read_only(command: str) -> None:
    assert not reads_only(command, CWD)


def test_a_loop_is_bounded() -> None:
    values = " ".join(f"a{number}" for number in range(64))
    assert reads_only(f"for f in {values}; do ls $f; done", CWD)
    assert not reads_only(f"for f in {values} z; do ls $f; done", CWD)
    body = "; ".join(["ls $f"] * 16)
    assert reads_only(f"for f in a; do {body}; done", CWD)
    assert not reads_only(f"for f in a; do {body}; ls; done", CWD)


def test_each_value_of_a_loop_is_looked_at() -> None:
    assert reads_only("for d in status log; do git $d; done", CWD)
    assert not reads_only("for d in status push; do git $d; done", CWD)
    assert not reads_only("for o in --oneline --output=x; do git log $o; done", CWD)


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("git push", True),
        ("/usr/bin/git push", True),
        ("g'i't push", True),
        ('"git" push', True),
        ("g\\it push", True),
        ("sh -c 'git push'", True),
        ("GIT push", True),
        ("ls .git", True),
        ("ls && git-lfs push", True),
        ("digital legit gitk git2", False),
        ("ls", False),
    ],
)
def test_whether_a_command_names_git(command: str, named: bool) -> None:
    assert names_git(command) == named


WORDS = st.text(st.sampled_from("ab '\"\\-./=:,+@%~^\u00e9\t"), min_size=1, max_size=14)


@pytest.mark.skipif(shutil.which("bash") is None, reason="compares with bash")
@settings(max_examples=60)
@given(WORDS)
def test_the_words_are_those_that_bash_sees(text: str) -> None:
    command = f"printf %s\\\\n x {text}"
    try:
        (words,) = commands_of(command)
    except NotPlain:
        return
    if any(word.startswith("~") or "=~" in word or ":~" in word for word in words):
        # A folder of somebody's: whatever it becomes begins with a slash.
        return
    said = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=10)
    assert said.stdout == "".join(f"{word}\n" for word in words[2:])


@given(st.text(max_size=60))
def test_any_text_is_decided(text: str) -> None:
    assert reads_only(text, CWD) in (True, False)
    assert names_git(text) in (True, False)
