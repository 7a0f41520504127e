"""Confirmed publications: the termination detection of publications at one broker.

Rules
-----
- A broker that gets p by link u routes it: next hops H, local durable sessions D. It answers u when
  p is on disk for all of D, and every hop in H but u has answered (`Confirmed`). The answer names
  p, not a token of the link: it is true in any life of it. That p is on disk is seen to by
  `on_disk`, behind which all answers wait; a session without room (`blocked`) is waited for here.
- Where a copy has one way only (`Router.one_way`), p coming again by u, resent or by another way,
  is routed as from u: it goes to the hops that it has not been sent to, and u waits for its own
  hops, never for itself. One answer for all who wait would lose the side that p came from, or make
  two brokers wait for each other.
- Where there may be other ways, each copy that comes, by link and attempt, is a piece of work of
  its own: it is answered when all copies are that it caused. These form a tree, so no two wait for
  each other. Two copies of one attempt over the same link are told apart by giving the second one
  an attempt of its own. What comes round (`Decision.duplicate`) caused nothing and is answered at
  once.
- Where copies are flooded (`Router.floods`), what is sent again to a hop has an attempt of its own:
  the hop may remember the old one, and would answer at once for a tree that has lost its root. All
  pieces of work of one publication wait for the same copy then (`_also`).
- What a hop has not answered is kept here, whatever the link has acknowledged, and sent again, in
  order and before anything new, when the hop comes up without memory (`unanswered`). If u comes up
  without memory it waits for nothing here any more: it will send p again if somebody waits there.

- An answer of a hop that says `kept` rests on custody further on, and what this broker has in
  custody itself (`custody`) counts as much: who waits for nothing else is told `kept`, once, and
  hears again when the hops have answered for good.

What is remembered of p is which hops have answered. Forgotten, it is routed again, and homes
recognise it.

Source: `delivery.md`, rules 1, 2, 6 and 7. Cost: one answer for each copy, and a dict entry for
each copy under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random

from msgspec.structs import replace

from reefcast.model.messages import (
    MOST_ATTEMPTS,
    Confirmed,
    Header,
    LinkName,
    Publish,
    Send,
)
from reefcast.model.publication import PublicationId
from reefcast.routing.custody import CopyId, Custody, Stored
from reefcast.routing.recent import RecentIds
from reefcast.routing.together import together

_WorkId = tuple[PublicationId, int, LinkName]
_Out = tuple[LinkName, CopyId]


class Waiter:
    """A link that waits, with the attempt that it is answered and the copies that it waits for;
    `knows`: it has been told that the rest is kept."""

    __slots__ = ("attempt", "copies", "knows")

    def __init__(self) -> None:
        self.attempt = 0
        self.knows = False
        self.copies: set[_Out] = set()


class Work:
    """A publication under way here. `sent`: the copies, and whether each is answered; `kept`: those
    that are in custody, here or further on; `blocked`: a session has no room for it yet;
    `restored`: it was in custody when the broker started, and has not come since: nobody knows
    whether the sessions of this broker have it; `refused`: the sentence of one that did not take
    it."""

    __slots__ = ("blocked", "kept", "key", "refused", "restored", "sent", "waiters")

    def __init__(self, key: _WorkId) -> None:
        self.key = key
        self.waiters: dict[LinkName, Waiter] = {}
        self.sent: dict[_Out, bool] = {}
        self.kept: set[_Out] = set()
        self.blocked = self.restored = False
        self.refused = ""


class Confirming:
    """The confirmed publications under way at one broker. `one_way`, `floods`: see `Router`;
    `custody`: of a broker with a disk."""

    def __init__(self, one_way: bool, rng: Random, *, floods: bool = False) -> None:
        self._one_way = one_way
        self._floods = floods
        self._rng = rng
        self.custody: Custody | None = None
        self._works: dict[_WorkId, Work] = {}
        self._out: dict[LinkName, dict[CopyId, tuple[Work, Publish]]] = {}
        self._also: dict[_Out, list[Work]] = {}
        self._begun: RecentIds[CopyId] = RecentIds()
        self._blocked: dict[PublicationId, list[Work]] = {}

    def __len__(self) -> int:
        """Return how many publications are under way here."""
        return len(self._works)

    def waits_for(self) -> dict[LinkName, int]:
        """Return how many copies each neighbour has not answered."""
        return {link: len(out) for link, out in self._out.items() if out}

    # --- a publication comes ----------------------------------------------------------------------

    def came(
        self,
        publish: Publish,
        hops: Iterable[tuple[LinkName, Header]],
        link: LinkName,
        *,
        root: bool = False,
    ) -> tuple[Work, list[tuple[LinkName, Publish]], bool]:
        """Begin or join the work on a publication that came by `link` and is to go to `hops`, in an
        attempt of its own if this broker is its `root`. Return it, the copies that are to be sent
        now, and whether it is new here."""
        id = publish.publication.id
        key = (id, 0, "") if self._one_way else (id, publish.confirm, link)
        work = self._works.get(key)
        anew = work is None
        if work is None:
            work = self._works[key] = Work(key)
        is_new, work.restored = anew or work.restored, False
        if (id, publish.confirm) in self._begun:  # it comes round to where it began
            hops, is_new = (), False
        waiter = work.waiters.setdefault(link, Waiter())
        waiter.attempt = publish.confirm
        waiter.knows = False
        copies: list[tuple[LinkName, Publish]] = []
        if root:
            publish = replace(publish, confirm=self._new_attempt(id)[1])
        if anew or self._one_way:
            for hop, header in hops:
                if hop != link or not self._one_way:
                    copies += self._pass_on(work, waiter, publish, hop, header)
        return work, copies, is_new

    def _new_attempt(self, id: PublicationId) -> CopyId:
        """Return the copies of an attempt that begins here: what of it comes back ends here."""
        new: CopyId = (id, self._rng.randrange(2**32, MOST_ATTEMPTS))
        self._begun.is_new(new)
        return new

    def _pass_on(
        self, work: Work, waiter: Waiter, publish: Publish, hop: LinkName, header: Header
    ) -> list[tuple[LinkName, Publish]]:
        id, attempt = publish.publication.id, publish.confirm
        out = self._out.setdefault(hop, {})
        copy_id: CopyId = (id, 0 if self._one_way else attempt)
        if self._one_way:
            known = work.sent.get((hop, copy_id))
            if known is not None:
                if not known:
                    waiter.copies.add((hop, copy_id))
                return []
        elif copy_id in out and self._floods:  # it was in custody when this broker started
            self._also.setdefault((hop, copy_id), []).append(work)
            self._wait_too(work, waiter, (hop, copy_id), out[copy_id][0])
            return []
        elif copy_id in out:
            before, copy = out[copy_id]
            if not before.waiters and copy.header == header:  # nobody waits for that one any more
                out[copy_id] = (work, copy)
                del before.sent[hop, copy_id]
                self._wait_too(work, waiter, (hop, copy_id), before)
                return []
            attempt = self._rng.randrange(2**32, MOST_ATTEMPTS)
            copy_id = (id, attempt)
        copy = Publish(publish.publication, header, publish.body, publish.again, attempt)
        out[copy_id] = (work, copy)
        work.sent[hop, copy_id] = False
        waiter.copies.add((hop, copy_id))
        if self.custody is not None and hop in self.custody.owed:
            self._take(hop, copy_id)
        return [(hop, copy)]

    @staticmethod
    def _wait_too(work: Work, waiter: Waiter, out: _Out, before: Work) -> None:
        """Let `work` wait for a copy that `before` has sent."""
        work.sent[out] = False
        waiter.copies.add(out)
        if out in before.kept:
            work.kept.add(out)

    # --- sessions of this broker ------------------------------------------------------------------

    def block(self, work: Work) -> None:
        """Wait until all local sessions have room for it; see `unblocked`."""
        work.blocked = True
        self._blocked.setdefault(work.key[0], []).append(work)

    def unblocked(self, id: PublicationId) -> list[Send]:
        """Handle that a publication that was blocked is taken."""
        answers: list[Send] = []
        for work in self._blocked.pop(id, ()):
            work.blocked = False
            answers += self.answers(work)
        return answers

    # --- answers ----------------------------------------------------------------------------------

    def answers(self, work: Work) -> list[Send]:
        """Return the answers that are due: the final one to each link whose copies have all been
        answered, and `kept`, once, to each link whose open copies are all in custody. None is due
        while a session has no room. Forget the work when nothing of it is left."""
        if work.blocked:
            return []
        publisher, seq = work.key[0]
        done = [link for link, waiter in work.waiters.items() if not waiter.copies]
        answers: list[Send] = []
        for link in done:
            attempt = work.waiters.pop(link).attempt
            answers.append(Send(link, Confirmed(publisher, seq, attempt, refused=work.refused)))
        for link, waiter in work.waiters.items() if work.kept else ():
            if not waiter.knows and waiter.copies <= work.kept:
                waiter.knows = True
                kept = Confirmed(publisher, seq, waiter.attempt, kept=True, refused=work.refused)
                answers.append(Send(link, kept))
        if not work.waiters and all(work.sent.values()):
            self._forget(work)
        return answers

    def _forget(self, work: Work) -> None:
        if self._works.get(work.key) is work:
            del self._works[work.key]

    def all_answered(self, answer: Confirmed, link: LinkName) -> list[Send]:
        """Handle an answer for one or more publications, as `answered` does."""
        return together(send for each in answer.each() for send in self.answered(each, link))

    def answered(self, answer: Confirmed, link: LinkName) -> list[Send]:
        """Handle an answer that came by `link`; return those that this completes. One that nobody
        waits for is no error: this broker was restarted since, or has it already."""
        copy_id: CopyId = (answer.id, 0 if self._one_way else answer.attempt)
        found = self._out.get(link, {}).get(copy_id)
        if found is None:
            return []
        works = (found[0], *self._also.get((link, copy_id), ()))
        for work in works:
            work.refused = work.refused or answer.refused
        if answer.kept:
            for work in works:
                work.kept.add((link, copy_id))
            return [send for work in works for send in self.answers(work)]
        return self._done(link, copy_id) + self._use_room(link, copy_id)

    def _done(self, link: LinkName, copy_id: CopyId) -> list[Send]:
        """Handle that a copy needs no further answer: it has its final one, or was given up. Return
        the answers that this completes."""
        work, _ = self._out[link].pop(copy_id)
        out, answers = (link, copy_id), list[Send]()
        for each in (work, *self._also.pop(out, ())):
            each.sent[out] = True
            each.kept.discard(out)
            for waiter in each.waiters.values():
                waiter.copies.discard(out)
            answers += self.answers(each)
        return answers

    # --- custody ----------------------------------------------------------------------------------

    def restore(self, stored: Iterable[Stored], custody: Custody) -> None:
        """Enter what was in custody when the broker stopped; nobody waits for it here yet."""
        self.custody = custody
        for _, link, publish, item in stored:
            id, attempt = publish.publication.id, publish.confirm
            key: _WorkId = (id, 0 if self._one_way else attempt, "")
            work = self._works.setdefault(key, Work(key))
            work.restored = True
            copy_id: CopyId = key[:2]
            if custody.has(link, copy_id):  # under another attempt when it was written
                custody.drop(link, copy_id)
            self._out.setdefault(link, {})[copy_id] = (work, publish)
            work.sent[link, copy_id] = False
            work.kept.add((link, copy_id))
            custody.enter(link, copy_id, item)

    def take_all(self, link: LinkName) -> list[Send]:
        """Take into custody what `link` has not answered, the oldest first, as far as there is
        room; return the answers that rest on that."""
        answers: list[Send] = []
        for copy_id, (work, _) in self._out.get(link, {}).items():
            if (link, copy_id) not in work.kept:
                if not self._take(link, copy_id):
                    break
                answers += self.answers(work)
        return answers

    def _take(self, link: LinkName, copy_id: CopyId) -> bool:
        work, copy = self._out[link][copy_id]
        taken = self.custody is not None and self.custody.take(link, copy_id, copy)
        if taken:
            work.kept.add((link, copy_id))
        return taken

    def owed_to(self, link: LinkName) -> list[Publish]:
        """Return all copies that `link` has not answered, in their order."""
        return [copy for _, copy in self._out.get(link, {}).values()]

    def give_up(self, copy: Publish, link: LinkName, refused: str = "") -> list[Send]:
        """Stop owing a copy to `link`; return the answers that this completes. `refused`: the
        reason that they give if the copy was not taken."""
        copy_id = self._copy_id(copy)
        work, _ = self._out[link][copy_id]
        work.refused = work.refused or refused
        return self._done(link, copy_id) + self._use_room(link, copy_id)

    def move(
        self, copy: Publish, link: LinkName, hops: Iterable[tuple[LinkName, Header]]
    ) -> tuple[Work, list[tuple[LinkName, Publish]]]:
        """Owe a copy that `link` has not answered to `hops`, too. If it was in custody for `link`,
        the same write puts it into custody for them instead. Return its work, and the copies to
        send; call `give_up` for `link` afterwards."""
        copy_id = self._copy_id(copy)
        work, _ = self._out[link][copy_id]
        waiter, copies = Waiter(), list[tuple[LinkName, Publish]]()
        for hop, header in hops:
            copies += self._pass_on(work, waiter, copy, hop, header)
        for other in work.waiters.values():
            if (link, copy_id) in other.copies:
                other.copies |= waiter.copies
        if self.custody is not None and self.custody.has(link, copy_id):
            self.custody.drop(link, copy_id)
            for hop, new_id in sorted(waiter.copies - work.kept):
                self._take(hop, new_id)
        return work, copies

    def _copy_id(self, copy: Publish) -> CopyId:
        return copy.publication.id, 0 if self._one_way else copy.confirm

    def _use_room(self, link: LinkName, copy_id: CopyId) -> list[Send]:
        """Drop from custody what is answered; take what had no room."""
        if self.custody is None:
            return []
        self.custody.drop(link, copy_id)
        if not self.custody.has_room_again():
            return []
        return [send for other in sorted(self.custody.owed) for send in self.take_all(other)]

    # --- links ------------------------------------------------------------------------------------

    def sent_again(
        self, link: LinkName, kept: Sequence[Publish], waits: Iterable[Publish]
    ) -> tuple[Publish, ...]:
        """Return what to send first, in order, to `link`, which has come up without memory. `kept`:
        what it has not acknowledged; `waits`: what waits for it and is sent afterwards anyway."""
        waiting = self._copy_ids(waits)
        known = waiting | self._copy_ids(kept)
        more = [copy for id, (_, copy) in self._out.get(link, {}).items() if id not in known]
        if not self._floods:
            return (*more, *kept)
        again: dict[PublicationId, CopyId] = {}
        found: list[Publish] = []
        for copy in (*more, *kept):
            if not copy.confirm:
                found.append(copy)
            elif self._copy_id(copy) in self._out.get(link, ()):
                found += self._begin_attempt(link, self._copy_id(copy), again)
        self._put_first(link, again.values())
        return tuple(found)

    def _put_first(self, link: LinkName, ids: Iterable[CopyId]) -> None:
        """Let these copies be the first of a link again: what waits for it follows them."""
        out = self._out.get(link, {})
        self._out[link] = {id: out[id] for id in ids} | out

    def _begin_attempt(
        self, link: LinkName, old: CopyId, again: dict[PublicationId, CopyId]
    ) -> list[Publish]:
        """Let what waits for a copy wait for one with an attempt of its own: that `again` has for
        the publication, or a new one, which is returned."""
        work, copy = self._out[link].pop(old)
        works = [work, *self._also.pop((link, old), ())]
        new = again.get(old[0])
        made: list[Publish] = []
        if new is None:
            new = again[old[0]] = self._new_attempt(old[0])
            made = [replace(copy, confirm=new[1], again=True)]
            self._out[link][new] = (work, made[0])
            self._also[link, new] = works[1:]
        else:
            self._also[link, new] += works
        for each in works:
            del each.sent[link, old]
            each.sent[link, new] = False
            each.kept.discard((link, old))
            for waiter in each.waiters.values():
                if (link, old) in waiter.copies:
                    waiter.copies.remove((link, old))
                    waiter.copies.add((link, new))
        if self.custody is not None:
            self.custody.rename(link, old, new)
            if self.custody.has(link, new):
                for each in (self._out[link][new][0], *self._also[link, new]):
                    each.kept.add((link, new))
        return made

    def begin_anew(
        self, link: LinkName, hops: Sequence[tuple[LinkName, Header]]
    ) -> tuple[list[tuple[LinkName, Publish]], list[Send]]:
        """Owe what `link` has not answered to all of `hops` instead, each publication in one
        attempt of its own (where copies are flooded, and links are moved). Return the copies that
        are to be sent, and the answers if nobody is left who is to have them."""
        before = self._out.pop(link, {})
        begun: dict[PublicationId, list[CopyId]] = {}
        for old in before:
            begun.setdefault(old[0], []).append(old)
        copies, answers = list[tuple[LinkName, Publish]](), list[Send]()
        for id, olds in begun.items():
            new = self._new_attempt(id)
            copy = replace(before[olds[0]][1], confirm=new[1], again=True)
            made = [(hop, replace(copy, header=header)) for hop, header in hops]
            works = self._instead(link, {old: before[old][0] for old in olds}, new, made)
            self._keep_instead(link, olds, new, made)
            copies += made
            answers += [send for work in works for send in self.answers(work)]
        return copies, answers

    def _instead(
        self,
        link: LinkName,
        olds: Mapping[CopyId, Work],
        new: CopyId,
        made: Sequence[tuple[LinkName, Publish]],
    ) -> list[Work]:
        """Let who waits for these copies to `link` wait for those `made`; return their works."""
        works: dict[Work, None] = {}
        outs = {(hop, new) for hop, _ in made}
        for old, work in olds.items():
            for each in (work, *self._also.pop((link, old), ())):
                works[each] = None
                del each.sent[link, old]
                each.kept.discard((link, old))
                each.sent |= dict.fromkeys(outs, False)
                for waiter in each.waiters.values():
                    if (link, old) in waiter.copies:
                        waiter.copies.remove((link, old))
                        waiter.copies |= outs
        first, *others = works
        for hop, copy in made:
            self._out.setdefault(hop, {})[new] = (first, copy)
            if others:
                self._also[hop, new] = others
        return list(works)

    def _keep_instead(
        self,
        link: LinkName,
        olds: Iterable[CopyId],
        new: CopyId,
        made: Sequence[tuple[LinkName, Publish]],
    ) -> None:
        """Keep the copies `made` in custody, if any of the old ones was there, from the same write
        on; else those for neighbours that are away, as far as there is room."""
        if (custody := self.custody) is None:
            return
        were_there = [old for old in olds if custody.has(link, old)]
        for hop, copy in made:
            if were_there:
                custody.put(hop, new, copy)
            if custody.has(hop, new) or (hop in custody.owed and custody.take(hop, new, copy)):
                for work in (self._out[hop][new][0], *self._also.get((hop, new), ())):
                    work.kept.add((hop, new))
        for old in were_there:
            custody.drop(link, old)

    def _copy_ids(self, publications: Iterable[Publish]) -> set[CopyId]:
        """Return what tells these copies apart."""
        return {self._copy_id(each) for each in publications if each.confirm}

    def forgets(self, link: LinkName) -> None:
        """Stop waiting on behalf of `link`, whose other end has lost its memory or is gone."""
        for work in [work for work in self._works.values() if link in work.waiters]:
            del work.waiters[link]
            # If it comes again it may have other ways. What is under way stays: later ones of the
            # same publisher may be on the same links.
            if not self._one_way or all(work.sent.values()):
                self._forget(work)

    def under_way(self) -> Sequence[Publish]:
        """Return the copies that are not answered."""
        return [copy for out in self._out.values() for _, copy in out.values()]
