"""The proof of test_engine.py on fewer examples, for every day; .ci/run and the mutants take it whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_engine import OWN_RULES, test_the_engine_is_the_specification

from refimpl.aggregate import RULES

whole = test_the_engine_is_the_specification.hypothesis.inner_test
del test_the_engine_is_the_specification  # pytest would collect it here, too


@pytest.mark.parametrize("rule", [*RULES, *OWN_RULES])
@settings(max_examples=min(25, settings.default.max_examples))
@given(st.data())
def test_the_engine_is_the_specification_in_a_few_cases(rule, data):
    whole(rule, data)
