"""pytest's mark refimpl: a test that carries it returns a function, and the audit judges that.

    @pytest.mark.refimpl("krum")
    def test_krum():
        return my_rules.krum

Whoever installs refimpl has this loaded in every run of pytest, so it imports nothing until a mark asks for it.
"""

import inspect
import unittest

import pytest

ABOUT = (
    'refimpl(kind, known="", **options): judges the function that the test returns, as audit.assert_right does'
)


def pytest_configure(config: pytest.Config) -> None:
    """pytest calls this once, at its start."""
    config.addinivalue_line("markers", ABOUT)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """pytest calls this before each test."""
    if item.get_closest_marker("refimpl") and issubclass(
        getattr(item, "cls", None) or object, unittest.TestCase
    ):
        pytest.fail("the mark refimpl is for pytest's own tests, not for those of a TestCase", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """pytest calls this to run a test; None leaves it to others. A failure shows the judge's report alone."""
    mark = pyfuncitem.get_closest_marker("refimpl")
    if mark is None:
        return None
    test, fixtures = pyfuncitem.obj, pyfuncitem.funcargs
    function = test(**{name: fixtures[name] for name in inspect.signature(test).parameters if name in fixtures})
    if not callable(function):
        pytest.fail(f"the test needs to return the function to judge, got {function!r}", pytrace=False)
    from refimpl.audit import assert_right

    try:
        assert_right(function, *mark.args, **mark.kwargs)
    except (AssertionError, ValueError, TypeError) as error:  # the last two are about what the mark was given
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    return True
