"""The examples of docs/client.md do what they say."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from client_network import path_network, running

GUIDE = Path(__file__).parents[2] / "docs" / "client.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
OUTPUTS = [
    r"IBM 99\.5\n",
    r"IBM 99\.5\n",
    r"plant-7-\w+ has published event 1\n",
    r"\(\"dest = 'LAX'\", \"carrier IN \('UA', 'DL'\)\"\)\nEvent\(.*'LAX', 'carrier': 'UA'}\)\n",
    r"1000 events for the filter with number 1\n",
]


@pytest.mark.parametrize("number", range(len(OUTPUTS)))
async def test_example(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(EXAMPLES) == len(OUTPUTS)
    async with running(path_network(1)) as [url], asyncio.timeout(30):
        source = EXAMPLES[number].replace("reefcast://127.0.0.1:7301", url)
        code = compile(source, f"{GUIDE.name}, example {number + 1}", "exec")
        await asyncio.to_thread(exec, code, {"__name__": "example"})
    assert re.fullmatch(OUTPUTS[number], capsys.readouterr().out)
