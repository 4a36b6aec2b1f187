"""The API: what it answers, what it refuses, and what stands on every reply."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ecocompute_cube.analysis.query import query
from ecocompute_cube.model.published import published
from ecocompute_cube.report.estimated import estimate_document
from ecocompute_cube.service import answers, replies
from ecocompute_cube.service.guard import MOST_BODY, Guard
from ecocompute_cube.service.openapi import PATHS, openapi
from ecocompute_cube.service.rest import application
from tests.service.asking import ask, get, post

REPORT: Final = next(Path(__file__).parents[2].glob("data/h200/runs/*-verdict/arms/*/energy.json"))
BOARDS: Final = ("h200", "rtx 4090", "a100", "t4", "NVIDIA GeForce RTX 5090")


def checked(reply: dict[str, Any], schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(reply)


def test_an_estimate_is_the_one_that_the_engine_gives() -> None:
    from ecocompute_cube.analysis.estimator import answer

    found = get("/v1/estimate", params_b=7, gpu="rtx 4090", precision="int8").json()
    asked = query(7, gpu="rtx 4090", precision="INT8")
    expected = json.loads(json.dumps(estimate_document(asked, answer(asked))))
    assert found == {**expected, "unread": []}


def test_a_query_and_a_body_get_the_same_answer() -> None:
    asked = {"params_b": 13, "arch": "ampere", "precision": "NF4", "batch": 4, "ctx": 2048}
    assert get("/v1/estimate", **asked).json() == post("/v1/estimate", asked).json()
    searched = {"params_b": 7, "gpu": "rtx 4090", "precisions": ["NF4", "FP16"], "batches": [1, 4]}
    listed = {**searched, "precisions": "NF4,FP16"}
    assert get("/v1/optimize", **listed).json() == post("/v1/optimize", searched).json()


def test_a_question_in_words_is_understood_and_what_was_not_is_told() -> None:
    found = get("/v1/estimate", q="13B on A100, int8, batch 32, 8k context, xyz77").json()
    assert found["input"] == {
        "params_b": 13.0,
        "gpu": "NVIDIA A100-SXM4-80GB",
        "arch": "ampere",
        "precision": "INT8",
        "runtime": "eager",
        "batch": 32,
        "ctx": 8192,
    }
    assert found["unread"] == ["xyz77"]


@settings(max_examples=60, deadline=None)
@given(
    params_b=st.floats(0.01, 2000),
    gpu=st.sampled_from(BOARDS),
    precision=st.sampled_from(["NF4", "INT8", "FP16", "fp8-wo", "q4"]),
    batch=st.integers(1, 4096),
    form=st.sampled_from(answers.FORMS),
)
def test_every_estimate_is_as_the_description_says(
    params_b: float, gpu: str, precision: str, batch: int, form: str
) -> None:
    found = get(
        "/v1/estimate", params_b=params_b, gpu=gpu, precision=precision, batch=batch, form=form
    )
    if found.status_code == 200:
        checked(found.json(), replies.estimate_reply())
    else:  # the published form has neither every board nor every precision
        assert found.status_code == 400 and form == "published"
        checked(found.json(), replies.mistake_reply())


@pytest.mark.parametrize("objective", ["energy", "latency", "throughput", "vram"])
@pytest.mark.parametrize("params_b", [0.5, 7, 70])
def test_every_optimum_is_as_the_description_says(objective: str, params_b: float) -> None:
    found = get("/v1/optimize", params_b=params_b, gpu="rtx 4090", objective=objective)
    checked(found.json(), replies.optimize_reply())


def test_generations_and_datasets_are_as_the_description_says() -> None:
    generations, datasets = get("/v1/architectures").json(), get("/v1/datasets").json()
    checked(generations, replies.architectures_reply())
    checked(datasets, replies.datasets_reply())
    assert generations["ada"]["precisions"]["NF4"]["sessions"] >= 5
    told = {each["source"] for each in datasets["datasets"]}
    dois = {row.doi for row in published() if isinstance(row.doi, str) and row.runtime == "eager"}
    assert dois <= told and any(source.startswith("data/") for source in told)


def test_a_report_is_checked() -> None:
    document = json.loads(REPORT.read_text(encoding="utf-8"))
    assert post("/v1/validate", document).json()["verdict"] != "schema-invalid"
    document["results"] = "none"
    found = post("/v1/validate", document).json()
    assert found["verdict"] == "schema-invalid" and found["schema_errors"]


MISTAKES: Final = (
    ({"params_b": "nan", "gpu": "h200"}, "params_b"),
    ({"params_b": "inf", "gpu": "h200"}, "params_b"),
    ({"params_b": "1e9", "gpu": "h200"}, "params_b"),
    ({"params_b": "-7", "gpu": "h200"}, "params_b"),
    ({"params_b": "seven", "gpu": "h200"}, "params_b"),
    ({"params_b": ["7", "8"], "gpu": "h200"}, "params_b"),
    ({"gpu": "h200"}, "params_b"),
    ({"params_b": "7"}, "arch"),
    ({"params_b": "7", "gpu": "rtx 4091"}, "gpu"),
    ({"params_b": "7", "gpu": "\N{SNOWMAN}" * 99}, "gpu"),
    ({"params_b": "7", "arch": "adda"}, "arch"),
    ({"params_b": "7", "gpu": "h200", "batch": "0"}, "batch"),
    ({"params_b": "7", "gpu": "h200", "batch": "1.5"}, "batch"),
    ({"params_b": "7", "gpu": "h200", "batch": "9" * 5000}, "batch"),
    ({"params_b": "7", "gpu": "h200", "context": "99999999"}, "context"),
    ({"params_b": "7", "gpu": "h200", "precision": "INT3"}, "precision"),
    ({"params_b": "7", "gpu": "h200", "runtime": "vllm"}, "runtime"),
    ({"params_b": "7", "gpu": "h200", "form": "new"}, "form"),
    ({"params_b": "7", "gpu": "h200", "precission": "NF4"}, "precission"),
    ({"q": "nothing to see"}, "params_b"),
)


@pytest.mark.parametrize(("asked", "parameter"), MISTAKES)
def test_a_mistake_names_its_parameter(asked: dict[str, Any], parameter: str) -> None:
    found = get("/v1/estimate", **asked)
    assert found.status_code == 400, found.text[:200]
    checked(found.json(), replies.mistake_reply())
    assert found.json()["parameter"] == parameter
    assert len(found.text) < 1000


def test_a_mistake_of_few_choices_tells_them_and_an_unknown_board_its_neighbours() -> None:
    wrong = get("/v1/estimate", params_b=7, arch="adda").json()
    assert "ada" in wrong["supported"]
    assert "RTX 4090" in get("/v1/estimate", params_b=7, gpu="rtx 4091").json()["fix"]


@pytest.mark.parametrize(
    "asked",
    [
        {"objective": "min_cost"},
        {"objective": "best"},
        {"batches": ",".join(map(str, range(1, 100)))},
        {"precisions": "NF4,,"},
        {"max_vram_gb": "-1"},
        {
            "batches": ",".join(map(str, range(1, 65))),
            "contexts": ",".join(map(str, range(1, 65))),
        },
    ],
)
def test_an_optimum_that_cannot_be_had_is_refused_by_name(asked: dict[str, str]) -> None:
    found = get("/v1/optimize", params_b=7, gpu="rtx 4090", **asked)
    assert found.status_code == 400 and found.json()["parameter"]


json_values: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names: Final = st.sampled_from([*answers.ESTIMATE, *answers.OPTIMIZE]) | st.text(max_size=8)


@settings(max_examples=150, deadline=None)
@given(path=st.sampled_from(["estimate", "optimize", "validate"]), body=json_values)
def test_no_body_is_a_fault_of_ours(path: str, body: object) -> None:
    data = json.dumps(body).encode(errors="surrogatepass")
    sent = ask("POST", f"/v1/{path}", content=data, headers={"content-type": "application/json"})
    assert sent.status_code in {200, 400}, sent.text


@settings(max_examples=150, deadline=None)
@given(
    path=st.sampled_from(["estimate", "optimize"]),
    body=st.dictionaries(names, json_values, max_size=5),
)
def test_no_parameter_is_a_fault_of_ours(path: str, body: dict[str, object]) -> None:
    told = {"params_b": 7, "gpu": "h200"} | body
    data = json.dumps(told).encode(errors="surrogatepass")
    sent = ask("POST", f"/v1/{path}", content=data, headers={"content-type": "application/json"})
    assert sent.status_code in {200, 400}, sent.text


@settings(max_examples=150, deadline=None)
@given(query=st.binary(max_size=60))
def test_no_query_is_a_fault_of_ours(query: bytes) -> None:
    from urllib.parse import quote_from_bytes

    safe = quote_from_bytes(query, safe="=&%+,;")
    found = ask("GET", f"/v1/estimate?params_b=7&gpu=h200&{safe}")
    assert found.status_code in {200, 400}, found.text


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"7", b'{"params_b": NaN}', b'{"a":1,"a":2}', b"\xff\xfe", b"[" * 60_000],
)
def test_what_is_no_object_of_json_is_refused(body: bytes) -> None:
    found = ask("POST", "/v1/estimate", content=body, headers={"content-type": "application/json"})
    assert (found.status_code, found.json()["parameter"]) == (400, "body")


def test_a_body_must_be_called_json() -> None:
    found = ask("POST", "/v1/estimate", content=b"{}", headers={"content-type": "text/plain"})
    assert (found.status_code, found.json()["parameter"]) == (415, "body")


@pytest.mark.parametrize("announced", [True, False])
def test_a_large_body_is_refused_announced_or_not(announced: bool) -> None:
    async def pieces() -> Any:  # noqa: ANN401
        for _ in range(MOST_BODY // 1024 + 1):
            yield b" " * 1024

    content = b" " * (MOST_BODY + 1) if announced else pieces()
    found = ask(
        "POST", "/v1/validate", content=content, headers={"content-type": "application/json"}
    )
    assert (found.status_code, found.json()["parameter"]) == (413, "body")


def test_a_client_that_hangs_up_within_its_body_is_no_fault_of_ours() -> None:
    sent: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]
    told = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(told)

    async def send(message: Any) -> None:  # noqa: ANN401
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/validate",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    asyncio.run(Guard(application(), None)(scope, receive, send))
    assert sent[0]["status"] == 400


def test_parameters_in_two_places_are_refused() -> None:
    assert ask("POST", "/v1/estimate?params_b=7", json={}).json()["parameter"] == "query"


def test_an_unknown_path_is_refused_with_the_nearest() -> None:
    found = get("/v1/estimates")
    assert (found.status_code, found.json()["fix"]) == (404, "Did you mean /v1/estimate?")
    assert get("/v1/estimate/").status_code == 404


def test_a_wrong_method_is_told_the_right_ones() -> None:
    found = ask("DELETE", "/v1/validate")
    assert found.status_code == 405
    assert found.headers["allow"] == "POST" and "POST" in found.json()["fix"]


@pytest.mark.parametrize(
    "found",
    [
        get("/v1/estimate", params_b=7, gpu="h200"),
        get("/v1/estimate", params_b=0),
        get("/nothing"),
        ask("OPTIONS", "/v1/estimate"),
        ask("POST", "/v1/estimate", content=b"{"),
    ],
    ids=lambda found: str(found.status_code),
)
def test_every_reply_may_be_read_from_anywhere_and_runs_nothing(found: Any) -> None:  # noqa: ANN401
    assert found.headers["access-control-allow-origin"] == "*"
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["referrer-policy"] == "no-referrer"
    if found.content:
        assert found.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_browser_may_post() -> None:
    found = ask("OPTIONS", "/v1/estimate", headers={"origin": "https://example.org"})
    assert found.status_code == 204
    assert "POST" in found.headers["access-control-allow-methods"]
    assert found.headers["access-control-allow-headers"] == "content-type"


def test_answers_may_be_kept_for_a_while_and_nothing_else() -> None:
    asked = {"params_b": 7, "gpu": "h200"}
    assert "max-age" in get("/v1/estimate", **asked).headers["cache-control"]
    for found in (post("/v1/estimate", asked), get("/v1/estimate"), get("/x"), get("/health")):
        assert found.headers["cache-control"] == "no-store"


def test_an_answer_that_has_not_changed_is_not_sent_again() -> None:
    first = get("/v1/architectures")
    again = ask("GET", "/v1/architectures", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    other = ask("GET", "/v1/architectures", headers={"if-none-match": '"x"'})
    assert other.status_code == 200 and other.content


def test_a_head_has_the_headers_of_a_get() -> None:
    found, head = get("/v1/datasets"), ask("HEAD", "/v1/datasets")
    assert head.status_code == 200 and head.headers["etag"] == found.headers["etag"]


def test_the_description_names_every_path_and_parameter() -> None:
    told = get("/openapi.json").json()
    assert set(told["paths"]) == set(PATHS) == set(get("/").json()["endpoints"])
    for path, known in (("/v1/estimate", answers.ESTIMATE), ("/v1/optimize", answers.OPTIMIZE)):
        assert [each["name"] for each in told["paths"][path]["get"]["parameters"]] == list(known)
        body = told["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert set(body["properties"]) == set(known)
    assert told["servers"] == [{"url": "http://eco.test"}]
    assert openapi("http://eco.test")["info"]["version"]


def test_a_site_is_served_beside_it_with_its_own_policy(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>hello</p>")
    app = application(tmp_path)
    page = ask("GET", "/site/", app=app)
    assert (page.status_code, page.text) == (200, "<p>hello</p>")
    assert page.headers["content-type"].startswith("text/html")
    assert "content-security-policy" not in page.headers  # the page has one of its own
    assert page.headers["x-content-type-options"] == "nosniff"
    for path in ("/site/../pyproject.toml", "/site/%2e%2e/secret", "/site/nothing"):
        assert ask("GET", path, app=app).status_code == 404
    assert get("/site/").status_code == 404


def test_a_fault_of_ours_tells_nothing_but_that_it_is_one() -> None:
    async def broken(request: Request) -> Response:
        raise RuntimeError("secret")

    app = application()
    app.router.routes.append(Route("/broken", broken))
    found = ask("GET", "/broken", app=app)
    assert found.status_code == 500 and "secret" not in found.text
    checked(found.json(), replies.mistake_reply())
