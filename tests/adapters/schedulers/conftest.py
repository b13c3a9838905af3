"""Asserts of the contract suite speak as those of test modules do."""

import pytest

pytest.register_assert_rewrite("tests.adapters.schedulers.contract")
