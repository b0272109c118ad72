"""Health, status and metrics: assembled from the report, the process table and the workers, whoever is missing."""

import asyncio
import os
from pathlib import Path

import msgspec
import pytest

from termal.model.status import DaemonReport, LastExit, Latency, ProcessReport
from tests.component.gateway_app import App, serve


def write_report(app: App, *rows: ProcessReport, reason: str | None = None) -> None:
    report = DaemonReport(
        state="degraded" if reason else "ok",
        version="9.9",
        home=app.gateway.launch.home,
        url="http://127.0.0.1:8787",
        pid=1,
        started_at="2026-01-01T00:00:00Z",
        written_at="2026-01-01T00:00:00Z",
        serving=True,
        processes=list(rows),
        reason=reason,
    )
    app.gateway.home.report.write_bytes(msgspec.json.encode(report))


def row(name: str, **more: object) -> ProcessReport:
    return msgspec.convert({"name": name, "pid": None, "state": "ready", **more}, ProcessReport)


def test_health_is_ok_with_both_essential_workers(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        write_report(app, row("state"), row("coordination"), row("wake"))
        reply = await app.get("/api/health")
        assert reply.status_code == 200
        assert reply.json == {
            "ok": True,
            "state": "ok",
            "version": "9.9",
            "serverInstanceId": "epoch-1",
            "workers": {"state": "ready", "coordination": "ready", "wake": "ready"},
        }

    serve(run_dir, scenario)


def test_health_says_degraded_and_why(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        write_report(app, row("state"), row("coordination"), row("wake", state="failed"), reason="wake keeps ending")
        reply = await app.get("/api/health")
        assert (reply.status_code, reply.json["state"]) == (200, "degraded")
        assert reply.json["reason"] == "wake keeps ending"

    serve(run_dir, scenario)


def test_health_is_down_the_moment_state_is_gone_whatever_the_report_says(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        write_report(app, row("state"), row("coordination"))
        assert (await app.get("/api/health")).json["serverInstanceId"] == "epoch-1"
        await asyncio.to_thread(app.state.__exit__)
        await app.until(lambda: not app.gateway.is_up("state"), "the loss of state")
        reply = await app.get("/api/health")
        assert reply.status_code == 503
        assert (reply.json["ok"], reply.json["state"], reply.json["serverInstanceId"]) == (False, "down", "")

    serve(run_dir, scenario)


def test_status_shows_processes_databases_and_counts(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        mine = row(
            "state",
            pid=os.getpid(),
            startTimeS=1.0,
            startedAt="1970-01-01T00:00:01Z",
            restarts=2,
            queueDepth=3,
            opLatencyMs=Latency(p50=1.5, p99=9.0),
            lastExit=LastExit(code=None, signal=9, at="2026-01-01T00:00:00Z"),
        )
        gone = row("wake", pid=2**22 + 1, state="restarting", detail="soon")
        write_report(app, mine, row("coordination"), gone)
        reply = await app.get("/api/status")
        status = reply.json
        assert reply.status_code == 200
        assert (status["state"], status["version"], status["serverInstanceId"]) == ("ok", "9.9", "epoch-1")
        state, _, wake = status["processes"]
        assert (state["restarts"], state["queueDepth"], state["opLatencyMs"]) == (2, 3, {"p50": 1.5, "p99": 9.0})
        assert state["lastExit"] == {"code": None, "signal": 9, "at": "2026-01-01T00:00:00Z"}
        assert state["rssBytes"] > 1 << 20
        assert state["fds"] > 3
        assert state["uptimeSeconds"] > 1e9
        assert (wake["rssBytes"], wake["ussBytes"], wake["detail"]) == (0, None, "soon")
        assert status["databases"][0]["name"] == "termal"
        assert status["sessions"] == {"total": 3, "active": 1, "idle": 2, "approval": 0, "error": 0}
        mail = {"count": 3, "unread": 2, "unwoken": 1, "unreadSince": None, "unwokenSince": None}
        assert status["mailboxes"] == mail
        assert (status["delegations"], status["waits"]) == ({"running": 1}, {"pending": 2})
        assert status["outbox"] == {"scopeDeletions": 0, "departures": 0, "wakeReports": 0}
        assert status["uptimeSeconds"] > 0

    serve(run_dir, scenario)


def test_status_without_state_has_the_rest(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        write_report(app, row("state", state="restarting"), row("coordination"), row("runtime-acp"))
        await asyncio.to_thread(app.state.__exit__)
        await app.until(lambda: not app.gateway.is_up("state"), "the loss of state")
        status = (await app.get("/api/status")).json
        assert status["state"] == "down"
        assert "state" in status["reason"]
        assert status["sessions"]["total"] == 0
        assert status["mailboxes"]["count"] == 3
        assert [process["name"] for process in status["processes"]] == ["state", "coordination", "runtime-acp"]

    serve(run_dir, scenario)


@pytest.mark.parametrize("text", [None, b"", b"{", b"[1]"], ids=["none", "empty", "half", "other"])
def test_a_report_that_cannot_be_read_degrades_and_breaks_nothing(run_dir: Path, text: bytes | None) -> None:
    async def scenario(app: App) -> None:
        if text is not None:
            app.gateway.home.report.write_bytes(text)
        health = await app.get("/api/health")
        status = await app.get("/api/status")
        assert (health.status_code, health.json["state"]) == (200, "degraded")
        assert (status.status_code, status.json["state"]) == (200, "degraded")
        assert status.json["sessions"]["total"] == 3

    serve(run_dir, scenario)


def test_metrics_count_requests_by_route_and_operations_by_outcome(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        write_report(app, row("state", pid=os.getpid()), row("coordination"))
        await app.get("/api/sessions/one")
        await app.get("/api/sessions/two")
        await app.get("/nothing/1")
        await app.get("/nothing/2")
        async with app.stream():
            await app.until(lambda: len(app.gateway.hub), "a stream")
            reply = await app.get("/metrics")
        assert reply.headers["content-type"].startswith("text/plain")
        lines = reply.text.splitlines()
        route = 'route="/api/sessions/{session_id}"'
        assert f'termal_http_requests_total{{method="GET",{route},status="200"}} 2.0' in lines
        assert 'termal_http_requests_total{method="any",route="none",status="404"} 2.0' in lines
        assert f"termal_http_request_seconds_count{{{route}}} 2.0" in lines
        assert 'termal_call_seconds_count{operation="session.read",outcome="ok"} 2.0' in lines
        assert 'termal_operations_total{operation="session.read",outcome="ok",process="state"} 7.0' in lines
        assert 'termal_sessions{status="active"} 1.0' in lines
        assert 'termal_process_state{process="state",state="ready"} 1.0' in lines
        assert "termal_event_streams 1.0" in lines
        assert "termal_up 1.0" in lines

    serve(run_dir, scenario)
