"""The OpenAPI 3.1 document of the listener, made of its table of routes and the structs of bodies,
queries and answers."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import cleandoc
from typing import Any

import msgspec

from reefcast.http.bodies import NoQuery, Query
from reefcast.http.problems import PROBLEM_TYPE, Problem
from reefcast.http.routes import Answer, Route

VERSION = "3.1.0"
_COMPONENTS = "#/components/schemas/{name}"
_SECURITY: list[dict[str, list[str]]] = [{"basic": []}, {"bearer": []}, {}]
_SCHEMES = {
    "basic": {"type": "http", "scheme": "basic", "description": "A user and its password."},
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """Return the document of these routes, as plain data. `version`: of Reefcast."""
    routes = list(routes)
    schemas, components = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": VERSION,
        "info": {
            "title": "Reefcast over HTTP",
            "version": version,
            "description": "A publish/subscribe network that routes by content.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SCHEMES},
        "security": _SECURITY,
    }


def _schemas(routes: Iterable[Route]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return the schema of each type that bodies and answers have, and those that these name."""
    types: dict[str, Any] = {repr(Problem): Problem}
    for route in routes:
        for kind in (*route.takes.values(), *(each.body for each in route.answers.values())):
            if kind is not None:
                types[repr(kind)] = kind
    made, components = msgspec.json.schema_components(types.values(), ref_template=_COMPONENTS)
    for each in components.values():
        _tidy(each)
    return dict(zip(types, made, strict=True)), components


def _tidy(schema: dict[str, Any]) -> None:
    if "description" in schema:
        schema["description"] = cleandoc(schema["description"]).replace("\n", " ")


def _operation(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "responses": {
            **{str(status): _response(each, schemas) for status, each in route.answers.items()},
            "default": {
                "description": "It cannot be done; the problem says why (RFC 9457).",
                "content": {PROBLEM_TYPE: {"schema": schemas[repr(Problem)]}},
            },
        },
    }
    parameters = [_path_parameter(name) for name in route.names]
    parameters += _query_parameters(route.query)
    if parameters:
        made["parameters"] = parameters
    if route.takes:
        content = {kind: {"schema": schemas[repr(body)]} for kind, body in route.takes.items()}
        made["requestBody"] = {"required": True, "content": content}
    if route.open:
        made["security"] = []
    return made


def _response(answer: Answer, schemas: dict[Any, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"description": answer.about}
    if answer.body is not None:
        made["content"] = {answer.content_type: {"schema": schemas[repr(answer.body)]}}
    return made


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(query: type[Query]) -> list[dict[str, Any]]:
    """Return the parameters of a query, as its struct describes them."""
    if query is NoQuery:
        return []
    _, components = msgspec.json.schema_components([query], ref_template=_COMPONENTS)
    (schema,) = components.values()
    parameters = []
    for name, each in schema["properties"].items():
        described = dict(each)
        about = described.pop("description", "") or _about_choice(described)
        parameter: dict[str, Any] = {"name": name, "in": "query", "schema": described}
        if about:
            parameter["description"] = about
        if name in schema.get("required", ()):
            parameter["required"] = True
        parameters.append(parameter)
    return parameters


def _about_choice(schema: dict[str, Any]) -> str:
    """Return what describes one of several types of a parameter."""
    for each in schema.get("anyOf", ()):
        if "description" in each:
            return str(each["description"])
    return ""
