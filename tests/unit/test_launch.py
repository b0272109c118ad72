"""What a worker gets from the supervisor."""

import msgspec
import pytest

from termal.wire.launch import MARK_VARIABLE, VARIABLE, Launch

LAUNCH = Launch(name="state", home="/h", run_dir="/h/run", control_fd=5, start="boot", mark="abc")


def test_the_text_of_a_launch() -> None:
    assert LAUNCH.to_environment() == {
        VARIABLE: '{"name":"state","home":"/h","run_dir":"/h/run","control_fd":5,"start":"boot","mark":"abc",'
        '"host":"127.0.0.1","port":8787,"running":[],"portable":false,"wait":false,"listen_fd":null,'
        '"auth":"none"}',
        MARK_VARIABLE: "abc",
    }


@pytest.mark.parametrize(
    "launch",
    [
        LAUNCH,
        Launch(
            name="gateway",
            home="/ä b",
            run_dir="/r",
            control_fd=9,
            start="replacement",
            mark="m",
            host="::1",
            port=0,
            running=["state", "runtime-acp"],
            portable=True,
            listen_fd=3,
        ),
    ],
    ids=["least", "all"],
)
def test_a_launch_comes_back_as_it_was(launch: Launch) -> None:
    assert Launch.from_environment({**launch.to_environment(), "PATH": "/bin"}) == launch


def test_a_program_that_no_supervisor_started_is_told_by_the_missing_variable() -> None:
    with pytest.raises(KeyError):
        Launch.from_environment({"PATH": "/bin"})


@pytest.mark.parametrize("text", ["", "{}", "null", '{"name":"state"}'])
def test_a_launch_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(msgspec.MsgspecError):
        Launch.from_environment({VARIABLE: text})


def test_a_launch_of_another_kind_of_start_is_refused() -> None:
    text = LAUNCH.to_environment()[VARIABLE].replace('"boot"', '"again"')
    with pytest.raises(msgspec.ValidationError):
        Launch.from_environment({VARIABLE: text})
