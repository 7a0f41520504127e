"""The compiled path of publications: from the bytes of a read to the bytes of each connection, in
two compiled calls, however many there are (`matching.passage`).

A *run* is a sequence of PUBLISH frames from one read. `CompiledPath.cut` makes a run; the end of
the connection handles it like a batch of publications; `CompiledPath.parts` gives the driver the
results, in order: what was passed on, and the publications that are not plain (`routing.plain`),
which take the readable path. Both paths have the same results; so how many publications try the
compiled path is only a matter of cost. If one was not plain, the next ones may not be plain either:
twice as many as the last time are not tried, until one passes.

The first publication allocates the memory of these calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from reefcast.errors import ProtocolError
from reefcast.matching.passage.layout import G_WORDS, NOT_PLAIN, UNKNOWN
from reefcast.model.messages import LinkName, Publish
from reefcast.model.wire import HEAD_BYTES, KIND_AT, Codec, split_parts
from reefcast.protocol.batches import Batch
from reefcast.protocol.frames import Cutter
from reefcast.routing.plain import PlainWay
from reefcast.server.outputs import Outputs

if TYPE_CHECKING:
    from reefcast.matching.passage.desk import Desk
    from reefcast.matching.passage.leads import Leads
    from reefcast.matching.passage.sources import Source

NOTHING: Mapping[int, Publish] = MappingProxyType({})
MOST_UNTRIED = 1024
MOST_HOPS = 126
"""The most links over which a plain publication may have come: with one more, the count is still
one byte."""


class Run:
    """Publications that came together; `count` of them. `last`: the number of the publisher's last
    publication, if it is a client; publications that are not above it were here before. `error`:
    why the frame behind them is not a publication, if so. `learns`: whether others
    may have the same headers."""

    __slots__ = ("_codec", "_data", "_desk", "_learns", "_publishes", "count", "error", "last")

    def __init__(self, desk: Desk, data: bytes, count: int, codec: Codec, *, learns: bool) -> None:
        self._desk = desk
        self._data = data
        self._codec = codec
        self._learns = learns
        self._publishes: Mapping[int, Publish] = NOTHING
        self.count = count
        self.last: int | None = None
        self.error: ProtocolError | None = None
        if desk.any_odd:
            self._decode_odd()

    @property
    def size(self) -> int:
        """The bytes of its frames."""
        if not self.count:
            return 0
        start, _ = self._desk.frame_of(self._data, 0)
        return self._desk.end_of(self._data, self.count - 1) - start

    def _decode_odd(self) -> None:
        """Decode the publications that are not plain, because they may be malformed; all before
        such a one count."""
        self._publishes = decoded = {}
        for at in range(self.count):
            if not self._desk.is_plain(at):
                try:
                    decoded[at] = self._decode(at)
                except ProtocolError as error:
                    self.count, self.error = at, error
                    return

    def _decode(self, at: int) -> Publish:
        start, end = self._desk.frame_of(self._data, at)
        kind = self._data[start + KIND_AT]
        payload = self._data[start + HEAD_BYTES : end]
        publish = self._codec.decode_publish(payload, kind)
        if self._learns:
            self._desk.learn_header(bytes(split_parts(payload)[0]), publish.header)
        return publish

    def fresh(self, first: int, end: int) -> list[Publish]:
        """Return the publications from number `first` on, before `end`, that have not been here
        before."""
        found = []
        for at in range(first, end):
            publish = self._publishes.get(at) or self._decode(at)
            seq = publish.publication.seq
            if self.last is None or seq > self.last:
                found.append(publish)
                if self.last is not None:
                    self.last = seq
        return found


Output = tuple[LinkName, bool, Batch]
"""The frames for one client or neighbour: its name, whether it is a client, the frames. (A tuple
costs a fifth of a named one.)"""
Part = tuple[Output, ...] | list[Publish]
"""The output of plain publications; or publications that take the readable path."""


class Passage:
    """The compiled path of one broker, whose parts it uses. `wanted_below`: a trace has rows of
    publications with a smaller `id_hash`, which take the readable path."""

    def __init__(self, core: PlainWay, outputs: Outputs, wanted_below: int = 0) -> None:
        self.core = core
        self.outputs = outputs
        self._wanted_below = wanted_below
        self._watched_below = 0
        self._desk: Desk | None = None

    def want_below(self, number: int) -> None:
        """Have a trace get rows of publications with a smaller `id_hash` from now on."""
        self._wanted_below = number
        if self._desk is not None:
            self._desk.want_below(number)

    def compiled_path(self, codec: Codec, most_hops: int = 0) -> CompiledPath | None:
        """Return the compiled path for one link; None if nothing is ever plain there. `most_hops`:
        the header of publications that have come further is longer."""
        return CompiledPath(self, codec, most_hops) if self.core.exists else None

    @property
    def desk(self) -> Desk:
        """The desk, made at the first use."""
        if self._desk is None:
            from reefcast.matching.passage.desk import Desk

            self._desk = Desk(max(self._wanted_below, self._watched_below))
        return self._desk

    def watch_below(self, watched_below: int) -> None:
        """Have publications with a smaller `id_hash` take the readable path, too; 0: none."""
        self._watched_below = watched_below
        if self._desk is not None:
            self._desk.want_below(max(self._wanted_below, watched_below))

    def leads_to(self, name: LinkName, *, is_client: bool) -> bool:
        """Return whether publications for this client or neighbour may be plain."""
        if not self.core.leads_to(name, is_client=is_client):
            return False
        if not is_client:
            return name in self.outputs.links
        port = self.outputs.clients.get(name)
        return port is not None and port.takes_frames


class CompiledPath:
    """The compiled path of one link."""

    def __init__(self, passage: Passage, codec: Codec, most_hops: int) -> None:
        self._passage = passage
        self._codec = codec
        self._most_hops = most_hops
        self._untried = 0  # how many are not tried when one was not plain
        self._rest = 0  # of these, how many are still to come

    @property
    def cutter(self) -> Cutter | None:
        """Return what cuts the next read; None if its publications are not tried."""
        return None if self._rest else self.cut

    def rested(self, count: int) -> None:
        """Count publications that came and were not tried."""
        self._rest = max(0, self._rest - count)

    def cut(self, data: bytes, start: int) -> tuple[Run, int]:
        """Return the run that begins at `start` with a whole PUBLISH frame, and where it ends."""
        desk = self._passage.desk
        if desk.knows_enough:
            desk.forget_headers()
            self._passage.core.forget()
        count = desk.cut(data, start, self._most_hops)
        run = Run(desk, data, count, self._codec, learns=self._most_hops > 0)
        return run, desk.end_of(data, count - 1)

    def parts(self, run: Run, link: LinkName, clock: Callable[[], float]) -> Iterator[Part]:
        """Yield the results of a run that came by `link`; handle each part before the next one is
        requested. `clock`: the time, which goes on while parts are handled."""
        at = 0
        while at < run.count:
            source = self._passage.core.source(link, clock())
            if source is None:
                yield run.fresh(at, run.count)
                return
            at, stopped, passed = self._pass_on(run, at, source, link)
            if stopped == UNKNOWN:
                self._ask(at, source, link)
            if passed is not None:
                self._untried = 0
                yield passed
            if stopped == NOT_PLAIN:
                end = at + 1 + self._untried
                self._rest = max(0, end - run.count)
                self._untried = min(2 * self._untried + 1, MOST_UNTRIED)
                yield run.fresh(at, min(end, run.count))
                at = end

    def _pass_on(
        self, run: Run, first: int, source: Source, link: LinkName
    ) -> tuple[int, int, tuple[Output, ...] | None]:
        """Pass on the publications of a run from `first` on; return (the number of the first one
        that is left, why (`layout.K_STOPPED`), the outputs)."""
        last = 0 if run.last is None else run.last
        while True:
            outcome = self._passage.desk.pass_on(first, run.count, last, source)
            outputs = self._outputs(outcome[2], source.leads)
            if outputs is not None:
                break
        if source.leads.closed:
            source.leads.open_all()
        left, stopped, _, last, passed, nowhere = outcome
        if run.last is not None:
            run.last = last
        if not passed:
            return left, stopped, None
        hops: dict[LinkName, int] = {}
        delivered = 0
        for name, is_client, batch in outputs:
            if is_client:
                delivered += batch.count
            else:
                hops[name] = batch.count
        self._passage.core.passed(link, passed, nowhere, delivered, hops)
        if self._passage.core.chooses:
            self._passage.desk.count_choices(first, left)
        return left, stopped, outputs

    def _ask(self, at: int, source: Source, link: LinkName) -> None:
        """Ask the routing for the course, or the choice of next hops, that is not known for the
        publication with this number."""
        desk, core = self._passage.desk, self._passage.core
        number, header = desk.header_of(at)
        found = desk.found
        if found is None:
            core.set_course(source, link, number, header)
        else:
            core.choose(source, link, number, header, found)

    def _outputs(self, touched: memoryview, leads: Leads) -> tuple[Output, ...] | None:
        """Return the output for each destination; None if some of it must not go out like this,
        whose destinations are then closed."""
        outputs, leads_to, frames = [], self._passage.leads_to, self._passage.desk.frames
        written: dict[int, bytes] = {}  # some share what they get
        words, plain = touched.tolist(), True
        for first in range(0, len(words), G_WORDS):
            to, at, size, count = words[first : first + G_WORDS]
            name, is_client = leads.destinations[to]
            if not leads_to(name, is_client=is_client):
                leads.close(to)
                plain = False
            data = written.get(at)
            if data is None:
                data = written[at] = frames(at, size)
            outputs.append((name, is_client, Batch(data, count)))
        return tuple(outputs) if plain else None
