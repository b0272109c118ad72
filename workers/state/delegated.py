"""Delegated work put together: its parts, its operations, and where it takes part in turns, requests and removals."""

import os
from collections.abc import Mapping

from termal.bus.server import Handler
from termal.store.reader import Reader
from termal.worker.process import Process
from workers.state.change import Book, Change
from workers.state.delegation_audit import Audit
from workers.state.delegation_cards import Cards
from workers.state.delegation_control import Control
from workers.state.delegation_ends import Ends
from workers.state.delegation_files import Files
from workers.state.delegation_links import mend_links
from workers.state.delegation_reads import Reads
from workers.state.delegation_reviews import Reviews
from workers.state.delegation_spawn import Spawns
from workers.state.delegation_waits import Waits
from workers.state.delegations import Delegations
from workers.state.endings import Endings
from workers.state.interactions import Interactions
from workers.state.links import Links
from workers.state.prompts import Again
from workers.state.readiness import Agents
from workers.state.runtimes import Runtimes
from workers.state.session_record import SessionRecord
from workers.state.sessions import Defaults
from workers.state.turns import Turns
from workers.state.workflow_queues import WorkflowQueues

DELEGATED = (
    "delegation.spawn",
    "delegation.list",
    "delegation.status",
    "delegation.result",
    "delegation.output",
    "delegation.cancel",
    "delegation.followup",
    "delegation.wait",
    "delegation.waits",
    "delegation.capacity",
    "delegation.audit",
    "delegation.audited",
    "review.submit",
)
"""The operations that are served here."""


class Delegated:
    def __init__(
        self,
        book: Book,
        *,
        turns: Turns,
        endings: Endings,
        interactions: Interactions,
        workflows: WorkflowQueues,
        runtimes: Runtimes,
        links: Links,
        agents: Agents,
        reader: Reader,
        process: Process,
    ) -> None:
        loop, log = process.loop, process.log
        self._book = book
        self._held = interactions.held
        self._turns = turns
        self._agents = agents
        self._audit = audit = Audit(book.journal)
        self._cards = cards = Cards(book)
        self._files = files = Files(loop, process.home.worktrees, log)
        self._waits = waits = Waits(book, workflows, loop)
        self._reviews = reviews = Reviews(book, links, audit, log)
        ends = Ends(book, cards, audit, runtimes, loop=loop, lifted=interactions.held.lifted)
        self._delegations = Delegations(
            book, ends=ends, cards=cards, waits=waits, reviews=reviews, files=files, loop=loop
        )
        turns.on_closed.append(self._delegations.closed)
        interactions.on_changed.append(self._delegations.asked)
        endings.on_removing.append(self._delegations.removing)
        self._control = Control(
            book, self._delegations, turns=turns, endings=endings, cards=cards, audit=audit, reader=reader
        )
        summaries = book.projections.delegations
        self._reads = Reads(book, self._delegations, summaries=summaries, audit=audit, reader=reader, log=log)

    def table(self, defaults: Defaults, again: Again) -> Mapping[str, Handler]:
        """``defaults``: what new sessions of an agent begin with. ``again`` runs a request that had to wait."""
        spawns = Spawns(
            self._book,
            self._turns,
            cards=self._cards,
            audit=self._audit,
            files=self._files,
            agents=self._agents,
            defaults=defaults,
            again=again,
            unstarted=self._delegations.unstarted,
            environ=os.environ,
        )
        return {
            **spawns.table(),
            **self._control.table(),
            **self._reads.table(),
            **self._waits.table(),
            **self._reviews.table(),
        }

    def rewritten(self, parent: SessionRecord) -> None:
        """Another transcript was put in place of that of ``parent``."""
        self._cards.forget(parent)

    def boot(self, change: Change) -> None:
        """The store is loaded; turns that nobody holds have ended within ``change``."""
        mend_links(self._book.registry, change)
        self._delegations.boot(change)

    def begin(self) -> None:
        """The start is over, and everybody can be asked."""
        registry = self._book.registry
        self._files.clean({*registry.delegations, *registry.quarantined})
        self._files.look()
        self._delegations.begin()
        self._held.lifted()
