"""One Spark session for all tests of the pipeline."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from reefcast.errors import LocalError
from reefcast.pipeline.session import check_java, spark_session


@pytest.fixture(scope="session")
def java():
    """Tests that need Java are skipped where there is none."""
    try:
        check_java()
    except LocalError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def spark(java):
    with spark_session("reefcast tests") as session:
        yield session
