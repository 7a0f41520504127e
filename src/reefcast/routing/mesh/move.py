"""The Delta-move: a broker A replaces its primary link to N by one to B, within Delta hops of A.

The idea
--------
The primary tree before, T0, and after, T1 = T0 - (A, N) + (A, B), have each their own tables: those
of T1 are built beside those of T0, along T1 alone, while T0's work on. Each set of tables is right
by itself, so a copy that meets only tables of one set is delivered exactly once, whatever soft
links, strategies and covering there are. So that it does, each copy carries a *stamp* that says
which; the first affected broker chooses, and all after it obey.

Let P = (N, ..., B) be the *move path*, the primary path between the two. *Affected* is who is
within Delta hops of A, or within Delta - 1 of P: all others have the same MOM in T0 and T1, and
whatever they are told by affected ones has the same anchor. They have one set of tables that is
right for both, and know nothing of the move. The affected brokers are connected in T0 and in T1; a
copy that leaves them never comes back; and of two copies that come in from outside, at different
affected brokers, each leads to the same brokers by either tree. So these may be stamped unlike.

Phases
------
Each phase goes from A to all affected brokers along primary links, and is over when all have done
what it asks for, and what that caused has settled (`settlement`).

- *Preparation*: A asks the coordinator, who grants one move after the other (so no two overlap).
  The request reaches it by flooding, and so do its answer and A's word that the move is over
  (`permissions`). A gives its wish up if N is not its neighbour now, or B not within Delta beyond
  N.
- *Begin* (initialization, along T0): from now on affected brokers stamp copies; an unstamped copy
  from one of them is one by T0. Soft and candidate links that bypass A are dropped, and until the
  end nobody here opens or accepts any, or looks at what its links are worth. A then opens a soft
  link to B, if there is none, and asks over it that it becomes a primary one (`MoveJoin`): so it
  is not given up any more. T0 goes on to use it as a soft link.
- *Build* (update, along T1): each makes new tables. What its clients said, and what neighbours told
  that are not affected, is taken from the old ones; all other advertisements, subscriptions and
  vicinities spread anew among the affected brokers, along T1 (messages in `Beside`). From now on,
  what clients and neighbours outside say goes into both tables. Neighbours outside are told what
  either tables want said: rows that only one of the two needs there do no harm, as their anchors
  are right for both.
- *Switch*: copies that come in from outside, and those of own clients, are stamped with T1.
- *Drain*: a broker says on a link to U that nothing by T0 follows (`MoveDrained`) when it has
  heard that on all its links, primary and soft, but those into U's branch; as such a copy goes
  from one branch into another. The word so travels from the leaves inwards and back out. It is said
  on a primary link only when those soft links into the same branch have confirmed it: what they
  would lose goes through a tunnel by the primary link. Who has heard it on all links is dry; that
  is reported back to A, leaves first (`MoveDry`).
- *End* (wrap-up, along T1, from A to B before all others): the new tables take the place of the
  old ones. What only the old ones wanted said is taken back. Copies are stamped on, and messages
  still come as `Beside`, for others may have both tables yet: so what comes plainly is for tables
  that are gone.
- *Forget*: no stamps and no `Beside` any more. N closes the link to A, and A tells the coordinator.
  A broker does so only if all that it passed the *end* on to have answered. When two brokers give
  each other up, their answers to A are missing, and its *forget* may come before an *end* that
  waits for a disk. Such a broker has A's word that the move was carried out instead.

Costs
-----
Three floods of the network by a small message; six messages over each primary link between affected
brokers and two over each soft one; and, the greatest part, each advertisement and each subscription
that some affected broker has is said once more over each affected T1 link that it has to cross.
Nothing beyond the affected brokers is told anew. (On T1 links off the move path these are mostly
the same rows as before, with the same or other anchors: a finer protocol could say only those whose
anchor or existence changes. It would have to keep two versions of what covering hides.)

Brokers that fail
-----------------
Nobody comes to *end* before all are dry. So who hears that an affected neighbour lost its memory,
or is gone, and is not dry (with all that *switch* was passed on to), has the move abandoned: all
brokers are told, as they are of permissions. The affected ones drop their new tables, which are no
more than a copy of what the old ones say. Copies that were stamped with them are lost, as others
are with a broker.

Who is dry does not know whether A has come to *end*. Its word goes up to A, which has the move
abandoned, or goes on; until it hears which, it tells neighbours without memory nothing. Once A has
come to the end, there is no way back, nor need there be: the new tables are complete. Who misses a
wave, because a broker on its way failed, hears of the end from that one when it is back: neighbours
tell it how far the move has come (or the wave of the *end* does, which reaches it later), and it
tells those who had not heard. If A itself fails, B knows: it came to the end before all others, or
nobody did. A, when it is back, goes by what it is told.

The next move may begin when the coordinator hears that this one is over: each link keeps its order,
so that no wave overtakes that word.

Publications that are to be confirmed
-------------------------------------
Where links may be moved, a publication that is to be confirmed follows no tables: it is flooded
over the primary links, each attempt by itself. A flood reaches every broker if all pass it on along
one tree. Brokers that die and come back know different ones; so each copy names the tree that it
goes by, and nothing depends on what a move has done when.

- The *epoch* of a broker is the number of the last move that it knows to be carried out (0: none);
  T(e) is the tree after move e. Invariant: a broker of epoch e has at least its links in T(e). The
  mover and the old end drop the old link and reach the epoch in one step, and in one write; the
  mover has the new link by then. The new end reaches it only when it has the new link. All others
  have the same links in both trees, and reach it when they hear of the move. Who restarts has the
  epoch and the links of its disk (`moved_links`).
- A broker passes on a copy of its own epoch. A copy of an earlier one begins anew there: as an
  attempt of its own, over all links of that broker, also the one that it came by; when that is
  answered, so is the copy. A copy of a later epoch waits until this broker has reached that.
- What a neighbour has not answered that comes up without memory begins anew in the same way. So
  does what is owed to one that is left (`Part`); it goes over in custody in the same write.

Why no confirmation comes too early: let all copies of an attempt be answered. If a broker has begun
it anew, that attempt was answered before, and reached everybody (by induction on when attempts
end). If none has, all brokers that got it got it in one epoch e, and each has sent it over all of
its links in T(e), and waited for the answers. So the neighbours in T(e) of all that got it got it,
too; T(e) is connected, so that these are all brokers. Restarts, and links that break, make
copies begin anew; they take no broker out of this. What is in custody is a copy like others, and
goes by the same rules when it is handed over.

Why it comes at last: when all brokers are up, each hears from its neighbours of the last move that
was carried out; then all have the same epoch, and nothing waits or begins anew any more. The mover
and both ends tell of the move in each life. Until then a publication waits; it is not lost.

Moves and disks
---------------
- *The mover's disk decides.* At its end it writes which links it has, and only when that is synced
  does it send *end* (and nobody sends *begin*, *end* or a permission before what it wrote is
  synced). With disks the other end of the new link therefore waits when the mover is gone, and
  abandons nothing that it has reported dry. A mover that comes back says what its disk says: that
  the move was carried out, to all, in every life; or that it is abandoned. Brokers remember the
  last word of each mover (`Permissions.carried_out`), and tell it to who comes up: one that has
  slept through a move learns so that a link of it is gone.
- Who hears so that a move was carried out, and not by the wave, is over with it at once, and tells
  its neighbours (`MoveOver`): what they say plainly before they are over with it, too, is of old
  tables, and is dropped.
- *The coordinator's disk* has the number of the last move, so that none is given again
  (`permissions`).
- Two brokers are linked if one of them has the link, by the network file or by its disk, and
  neither has left the other: the new neighbour takes the mover in that it does not know of.
- On a link for whose other end publications wait here (`holding`) nothing is said to be drained.

Brokers that come and go
------------------------
An operator adds leaves, and takes out leaves that own nothing any more (`Neighbours`), also while a
link moves: a move that affects a new neighbour, or one that is gone, is abandoned, as when a broker
fails. The number of the last move stays, and floods take the links that each broker has. Who has no
settled session yet, or none any more, need not be reached.

Of brokers that were taken out all others forget the wishes, and which links they had by moves
(`taken_out`); only that those moves were carried out is still told, for the epoch. Otherwise who
restarts would wait for such a link, and the coordinator for the end of such a move; and a broker
that comes again under that name would be left by those whom the former one had left. Who knows by
its network file that a mover is gone waits for none of its links either (`is_broker`).

Rows of both trees on disk, in place of floods, would not do: who restarts between two neighbours of
different trees has rows of both, and none of them says to which tree a copy in custody belongs. The
price is that each publication that is to be confirmed reaches every broker.

Limits
------
Subscriptions, advertisements and publications come and go all the while, soft links may fail, and a
broker at a time (with disks, any number). One that is about to stop has a move abandoned that
begins to affect it. Without disks, if a second one fails before the first one's failure is dealt
with, the two trees may get mixed up. If a broker does not come back, those that reported their
dryness to it and heard no more wait for it for ever; they are off from A then, by primary links.
When the network file has got the moved links, it is the file of all brokers: one that starts with
an old file, and has slept through the move, takes part in floods by the old tree.

Source: section 6 of the paper ("Primary link management"), Fig. 7. Departures: its update loses
publications; so all within Delta - 1 of the whole move path are affected and place all anchors anew
(the paper: only those around A, and only anchors that point to A), and there are two tables and
stamps in place of duplicates that A sorts out.
"""

from __future__ import annotations

from typing import NamedTuple

from reefcast.model.messages import LinkName
from reefcast.routing.mesh.maps import Neighbourhood
from reefcast.routing.mesh.move_messages import MoveWave, Phase


class Plan(NamedTuple):
    """A move that was granted. `path`: from the mover's old neighbour to its new one."""

    move: int
    mover: LinkName
    path: tuple[LinkName, ...]
    delta: int

    @property
    def old(self) -> LinkName:
        return self.path[0]

    @property
    def new(self) -> LinkName:
        return self.path[-1]

    def wave(self, phase: Phase) -> MoveWave:
        return MoveWave(phase=phase, move=self.move, mover=self.mover, path=self.path)

    def affects(self, mom: Neighbourhood, broker: LinkName) -> bool:
        """Return whether the move affects a broker; `mom`: that of an affected broker, before the
        move, with `broker` in it. Brokers of the move path that are not in it are not the ones that
        `broker` is nearest to."""
        return any(
            _hops(mom, place, broker) <= self.delta - (place != self.mover)
            for place in (self.mover, *self.path)
            if place == mom.me or place in mom
        )

    def bypasses(self, mom: Neighbourhood, broker: LinkName) -> bool:
        """Return whether a link to this broker, which is in this MOM, bypasses the mover."""
        return self.mover in mom.path(broker)[:-1]

    def joins(self, a: LinkName, b: LinkName) -> bool:
        """Return whether the new link is between these."""
        return {a, b} == {self.mover, self.new}

    def links_after(self, me: LinkName, links: list[LinkName]) -> list[LinkName]:
        """Return the primary links of `me` after the move; `links`: before."""
        changes = {
            self.mover: (self.old, self.new),
            self.old: (self.mover, None),
            self.new: (None, self.mover),
        }
        gone, come = changes.get(me, (None, None))
        return sorted([link for link in links if link != gone] + ([come] if come else []))


def _hops(mom: Neighbourhood, a: LinkName, b: LinkName) -> int:
    """Return the primary hops between two brokers of a MOM."""
    one, other = mom.path(a), mom.path(b)
    shared = 0
    while shared < min(len(one), len(other)) and one[shared] == other[shared]:
        shared += 1
    return len(one) + len(other) - 2 * shared
