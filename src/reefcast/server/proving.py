"""How a network with a `[security]` section proves who connects.

Rules
-----
- A certificate comes first. It proves the member of the network that it names (`tls.identity`), or
  the user that a `[[certificate]]` gives its subject. Then nothing is asked.
- Others are asked (`protocol.proofs`): clients and administrators for a password, a token or the
  network's key, brokers and peers for the key. The network's key proves a part of the network,
  which may do everything.
- The end that dialled demands the same: a certificate that names the broker, or the key. With TLS
  brokers and peers need certificates, for the key says nothing about who hears what is said later.
- Failed attempts are slowed down (`security.attempts`), counted (`proofs_failed`), and written to
  the audit log. Passwords go by connections that nobody else can read only.
- What a user may do comes from the names of its roles (`model.grants`).
- When the network file changes, another one of these takes the place of this one (`for_network`).
  It knows the failures of before."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from reefcast.errors import BusyError, ConfigurationError, ProtocolError
from reefcast.logs import part
from reefcast.model.wire import Hello, Role
from reefcast.network.file import NetworkFile
from reefcast.network.sections import CertificateEntry
from reefcast.network.subjects import Subject, subject_of
from reefcast.network.watching import Watched
from reefcast.protocol.principal import ALL_ROLES, ANONYMOUS, NETWORK, Principal, UserRole
from reefcast.protocol.privacy import Shown
from reefcast.protocol.proofs import (
    Answer,
    Credentials,
    Method,
    Question,
    Respondent,
    confirm_key,
    decode_answer,
    encode_proof,
    has_key,
)
from reefcast.security.attempts import Attempts
from reefcast.security.checking import PasswordChecker
from reefcast.security.credentials import NetworkKey
from reefcast.security.files import read_key
from reefcast.security.showing import NoCredentials, circumstances, fresh_nonce
from reefcast.security.tokens import Tokens, read_token_keys, roles_in
from reefcast.security.users import NO_USERS, Users, check_name, read_users
from reefcast.server.certified import OF_PROVED, OF_STORAGE, PROOF, Certified
from reefcast.server.greeting import Authenticator, Greeting
from reefcast.timing import now_us
from reefcast.tls.identity import identity_of

log = part("security")
BY_NAME = {"storage": UserRole.STORAGE, "administrator": UserRole.ADMINISTRATOR}
"""Names of roles that say what their users may be, where the network file has no `[[role]]`."""
PASSWORD, TOKEN = "password", "token"
WRONG = "the user or the password is wrong"


class RoleNames:
    """What the names of roles say of their users. `network`: its `[[role]]`s, if it has any, grant
    rights; without them, two names do (`BY_NAME`)."""

    def __init__(self, network: NetworkFile) -> None:
        self._known = {entry.name for entry in network.role} or None

    def user(self, name: str, proof: str, granted: Iterable[str], **more: Any) -> Principal:
        """Return the principal of a user with these roles."""
        names = tuple(granted)
        own = names if self._known is None else ()
        roles = {UserRole.CLIENT, *(BY_NAME[each] for each in own if each in BY_NAME)}
        return Principal(name, frozenset(roles), proof, names, **more)

    def unknown(self, granted: Iterable[str]) -> list[str]:
        """Return the names that are not those of roles of the network file."""
        return [] if self._known is None else sorted(set(granted) - self._known)


class Certificates:
    """What certificates prove in a network with TLS; `members`: who is a broker or a peer."""

    def __init__(self, network: NetworkFile, members: Certified, names: RoleNames) -> None:
        self._members = members
        self._names = names
        self._network = network.network.name
        self._storages = [entry.name for entry in network.storage]
        self._users: Mapping[Subject, CertificateEntry] = {
            subject_of(entry.subject): entry for entry in network.certificate
        }

    def prove(self, greeting: Greeting, users: Users) -> Principal | None:
        """Return whom the certificate of the other end proves; None if a client shows none, or one
        that proves nobody. Raises `ProtocolError` for a broker or a peer that shows no other."""
        if greeting.hello.role in (Role.BROKER, Role.SOFT):
            return self._members.prove(greeting)
        shown = identity_of(greeting.shown("ssl_object"))
        if shown is None:
            return None
        for name in self._storages:
            if shown.is_storage(self._network, name):
                return Principal(name, OF_STORAGE, PROOF, expires_at_s=shown.ends_s)
        if shown.is_some_broker(self._network):
            return Principal(NETWORK, OF_PROVED, PROOF, expires_at_s=shown.ends_s)
        entry = self._users.get(subject_of(shown.subject)) if shown.subject else None
        if entry is None:
            return None
        granted = entry.roles or users.roles_of(entry.user)
        more = {"signed_by": shown.subject, "expires_at_s": shown.ends_s}
        return self._names.user(entry.user, PROOF, granted, **more)

    def roles_of(self, principal: Principal, users: Users) -> tuple[str, ...] | None:
        """Return the present roles of a principal that was proved by a certificate; None if that
        proves nothing any more."""
        if not principal.signed_by and principal.roles != {UserRole.CLIENT}:
            return principal.granted  # a part of the network
        subject = subject_of(principal.signed_by) if principal.signed_by else None
        own = [
            tuple(entry.roles)
            for its, entry in self._users.items()
            if entry.user == principal.user and subject in (None, its)
        ]
        if not own or principal.granted in filter(None, own):
            return principal.granted if own else None
        return own[0] or users.roles_of(principal.user)


class Proving(Authenticator):
    """The authenticator of broker `name` of a network with a `[security]` section. `counters`:
    where failures are counted; `members`: who is a member by its certificate, None without TLS;
    `former`: the one whose place this one takes. Raises `ConfigurationError` for files that are not
    there, or wrong."""

    def __init__(
        self,
        network: NetworkFile,
        name: str,
        counters: Counter[str],
        members: Certified | None = None,
        former: Proving | None = None,
    ) -> None:
        security = network.security
        assert security is not None
        self._security = security
        self._network, self._name = network.network.name, name
        self._counters = counters
        self._members = members
        self._names = RoleNames(network)
        self._certificates = (
            None if members is None else Certificates(network, members, self._names)
        )
        for entry in network.certificate:
            check_name(entry.user)
        self._key = read_key(Path(security.key)) if security.key else None
        self._users_file = _watched(security.users, read_users)
        self._users = self._known(_first(self._users_file) or NO_USERS)
        self._tokens_file = _watched(security.tokens, read_token_keys)
        self._tokens = self._with_keys(_first(self._tokens_file) or ())
        self._passwords: PasswordChecker = (
            PasswordChecker() if former is None else former._passwords
        )
        self._attempts: Attempts = Attempts() if former is None else former._attempts

    def for_network(self, network: NetworkFile) -> Proving:
        members = None if self._members is None else self._members.for_network(network)
        return Proving(network, self._name, self._counters, members, self)

    def _with_keys(self, keys: Any) -> Tokens:
        return Tokens(keys, self._security.issuer, self._security.audience)

    def _known(self, users: Users) -> Users:
        """Return the users; report roles that the network file does not have."""
        for entry in users.by_name.values():
            for role in self._names.unknown(entry.roles):
                log.warning("user %s has a role %r, which the network file lacks", entry.name, role)
        return users

    # --- this broker, where it dialled ------------------------------------------------------------

    def respond(self, hello: Hello, shown: Shown, to: str) -> Respondent:
        credentials: Credentials = NoCredentials() if self._key is None else NetworkKey(self._key)
        return Respondent(credentials, circumstances(hello, shown), to)

    def _dialled(self, greeting: Greeting) -> Principal:
        """Return the principal of the broker that was dialled, if it has proved itself by the key.
        Raises `ProtocolError` if it has not."""
        name, respondent = greeting.hello.name, greeting.respondent
        if respondent is None or not respondent.proved or respondent.proved != name:
            raise ProtocolError(
                f"broker {name!r} did not prove that it belongs to this network: give both brokers "
                "the same [security] key, or certificates that name them"
            )
        return Principal(name, ALL_ROLES, "key")

    # --- others -----------------------------------------------------------------------------------

    def prove(self, greeting: Greeting) -> Principal | Coroutine[Any, Any, Principal]:
        certificates = self._certificates
        certified = None if certificates is None else certificates.prove(greeting, self._users)
        if certified is not None:
            return certified
        return self._dialled(greeting) if greeting.dialled else self._ask(greeting)

    async def _ask(self, greeting: Greeting) -> Principal:
        question = self._question(greeting)
        greeting.send(encode_proof(question))
        answer = decode_answer(await greeting.receive())
        if answer.method not in question.methods and answer.method is not Method.NOTHING:
            raise ProtocolError(f"broker {self._name} accepts no {answer.method} here")
        if answer.method is Method.PASSWORD:
            return await self._by_password(greeting, answer)
        try:
            if answer.method is Method.KEY:
                return self._by_key(greeting, question, answer)
            if answer.method is Method.TOKEN:
                return self._by_token(answer)
        except ProtocolError:
            self._failed(greeting.address, "")
            with suppress(BusyError):  # what is wrong now will be wrong later
                await self._slow_down(greeting.address, "")
            raise
        return self._anonymous(greeting)

    def _question(self, greeting: Greeting) -> Question:
        methods = [Method.KEY] if self._key is not None else []
        if greeting.hello.role in (Role.CLIENT, Role.ADMIN) and greeting.is_private:
            methods += [Method.PASSWORD] if self._security.users else []
            methods += [Method.TOKEN] if self._security.tokens else []
        return Question(self._network, self._name, tuple(map(str, methods)), fresh_nonce())

    async def _by_password(self, greeting: Greeting, answer: Answer) -> Principal:
        loop, users, checker = asyncio.get_running_loop(), self._users, self._passwords
        user, password, address = answer.user, answer.secret, greeting.address
        greeting.tried = user if user in users.by_name else ""
        if not checker.was_right(users, user, password, loop.time()):
            await self._slow_down(address, user)
            if not await checker.is_right(users, user, password, loop.time()):
                self._failed(address, user)
                raise ProtocolError(WRONG)
            self._attempts.succeeded(user)
            if self._users.hash_of(user) != users.hash_of(user):  # the file changed meanwhile
                raise ProtocolError(WRONG)
        return self._names.user(user, PASSWORD, self._users.roles_of(user))

    def _by_token(self, answer: Answer) -> Principal:
        verified = self._tokens.verify(answer.secret, now_us() / 1e6)
        granted = roles_in(verified.claims, self._security.roles_claim)
        more = {"claims": verified.claims, "expires_at_s": verified.expires_at_s}
        return self._names.user(verified.user, TOKEN, granted, signed_by=verified.key, **more)

    def _by_key(self, greeting: Greeting, question: Question, answer: Answer) -> Principal:
        hello = greeting.hello
        if self._key is None or not has_key(self._key, question, hello, answer):
            raise ProtocolError(
                f"{hello.name!r} has another key of the network than broker {self._name}, or none"
            )
        greeting.send(encode_proof(confirm_key(self._key, question, hello, answer)))
        is_broker = hello.role in (Role.BROKER, Role.SOFT)
        return Principal(hello.name if is_broker else NETWORK, ALL_ROLES, "key")

    def _anonymous(self, greeting: Greeting) -> Principal:
        may_be = greeting.hello.role in (Role.CLIENT, Role.ADMIN) and self._security.anonymous
        if not may_be:
            self._counters["proofs_failed"] += 1
            raise ProtocolError(
                f"broker {self._name} asks who this is, and nothing is shown: give a user and a "
                "password, a token, or the key of the network (see REEFCAST_USER)"
            )
        return self._names.user(ANONYMOUS, "nothing", self._security.anonymous)

    # --- failures ---------------------------------------------------------------------------------

    def _failed(self, address: str, user: str) -> None:
        self._counters["proofs_failed"] += 1
        self._attempts.failed(address, user, asyncio.get_running_loop().time())

    async def _slow_down(self, address: str, user: str) -> None:
        """Wait as long as former failures demand. Raises `BusyError` if that is too long: what is
        shown may be right, and others at this address have failed."""
        wait_s, may_go_on = self._attempts.begin(address, user, asyncio.get_running_loop().time())
        if not wait_s:
            return
        self._counters["proofs_slowed"] += 1
        if not may_go_on:
            raise BusyError(
                f"too many attempts to prove something failed; try again in {wait_s:.0f} s"
            )
        await asyncio.sleep(wait_s)

    # --- what changes while connections are open --------------------------------------------------

    def ask_again(self, principal: Principal) -> bytes | None:
        if principal.proof != TOKEN:
            return None
        return encode_proof(Question(self._network, self._name, (Method.TOKEN,), fresh_nonce()))

    def renew(self, principal: Principal, payload: bytes) -> Principal:
        answer = decode_answer(payload)
        if answer.method is not Method.TOKEN:
            raise ProtocolError("no token is shown where a newer one is asked for")
        renewed = self._by_token(answer)
        if renewed.user != principal.user:
            raise ProtocolError(f"the newer token is that of user {renewed.user!r}")
        return renewed

    def look(self) -> bool:
        try:
            keys = None if self._tokens_file is None else self._tokens_file.look()
            users = None if self._users_file is None else self._users_file.look()
        except ConfigurationError as error:
            log.error("users and keys stay as they were: %s", error)
            return False
        if keys is not None:
            self._tokens = self._with_keys(keys)
        if users is not None:
            self._users = self._known(users)
        return users is not None or keys is not None

    def review(self, principal: Principal) -> Principal | None:
        granted = self._granted_now(principal)
        if granted is None or granted == principal.granted:
            return None if granted is None else principal
        more = {"expires_at_s": principal.expires_at_s, "signed_by": principal.signed_by}
        return self._names.user(principal.user, principal.proof, granted, **more)

    def _granted_now(self, principal: Principal) -> Iterable[str] | None:
        """Return the roles that this user has by now; None if its proof no longer counts."""
        if principal.proof == TOKEN:
            counts = not principal.signed_by or self._tokens.trusts(principal.signed_by)
            return principal.granted if counts else None
        if principal.proof == PASSWORD:
            entry = self._users.by_name.get(principal.user)
            return tuple(entry.roles) if entry is not None and entry.hash else None
        if principal.proof == PROOF and self._certificates is not None:
            return self._certificates.roles_of(principal, self._users)
        if principal.user == ANONYMOUS:
            return tuple(self._security.anonymous) or None
        return principal.granted

    def close(self) -> None:
        self._passwords.close()


def _watched(path: str, read: Callable[[Path], Any]) -> Watched[Any] | None:
    return Watched(Path(path), read) if path else None


def _first(watched: Watched[Any] | None) -> Any:
    return None if watched is None else watched.look()
