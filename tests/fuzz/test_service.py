"""Every endpoint, by what its description allows and by what it does not: ``make test-fuzz``.

The application is asked through its guard, as over a socket. No answer may be a fault of ours, and
every answer must be as /openapi.json says: status, kind, headers, body.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.core.result import Ok

from ecocompute_cube.service.guard import Guard
from ecocompute_cube.service.openapi import PATHS
from ecocompute_cube.service.rest import application

pytestmark = pytest.mark.fuzz

_SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", Guard(application(), None))
#: A board, a precision, an objective are any text to the description: it is looser than we are.
_LOOSER: Final = [schemathesis.checks.positive_data_acceptance]


def test_no_endpoint_is_left_out() -> None:
    found = [each.ok() for each in _SCHEMA.get_all_operations() if isinstance(each, Ok)]
    described = {each.label.partition(" ")[2] for each in found}
    assert described == set(PATHS) - {"/openapi.json"}  # which is what it is read from


@_SCHEMA.parametrize()
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_is_a_fault_of_ours_and_no_answer_a_surprise(
    case: schemathesis.Case[Any],
) -> None:
    case.call_and_validate(excluded_checks=_LOOSER)
