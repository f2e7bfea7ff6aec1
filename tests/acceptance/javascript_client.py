"""The official JavaScript client against a running sidecar; `make test-clients` installs it.

Not named as a test: `make test` needs neither Node nor npm.
"""

import json
import os
import subprocess
from pathlib import Path

from tests.acceptance.conftest import Start
from tests.acceptance.test_clients import KEY, serve

SCRIPT = """
import { TypeSafeClient, choice, noul, score } from "@typesafe-ai/sdk";
const [baseURL, apiKey] = process.argv.slice(2);
const client = new TypeSafeClient({ baseURL, apiKey, timeout: 60000 });
const response = await client.systemOne({
  state: { mail: "Second invoice for the same seat, please undo it. ".repeat(40) },
  questions: {
    team: choice("Who handles this?", { billing: "money", tech: null }),
    anger: score("How angry?", ["calm", "cross", "mad"]),
    refund: noul("Is money wanted back?"),
  },
});
const refused = [];
for (const [key, model] of [["wrong", "jev-latest"], [apiKey, "gpt"]]) {
  try {
    await new TypeSafeClient({ baseURL, apiKey: key })
      .systemOne({ model, state: "a", questions: { q: noul("b?") } });
  } catch (error) {
    refused.push(error.status);
  }
}
const models = await client.models.list();
console.log(JSON.stringify({ answers: response.answers, models, refused }));
"""


def test_the_javascript_client(start: Start, tiny_model: Path, tmp_path: Path) -> None:
    """Unchanged: it asks, lists the models, and understands our refusals."""
    modules = Path(os.environ["NODE_MODULES"]).absolute()
    keys = tmp_path / "keys"
    keys.write_text(KEY)
    (tmp_path / "node_modules").symlink_to(modules)
    script = tmp_path / "client.mjs"
    script.write_text(SCRIPT)
    _, url = serve(start, tiny_model, "--api-keys-file", str(keys))
    done = subprocess.run(
        ["node", str(script), url, KEY], capture_output=True, text=True, timeout=110
    )
    assert 0 == done.returncode, done.stderr
    said = json.loads(done.stdout)

    assert {"billing", "tech"} == set(said["answers"]["team"]["probabilities"])
    assert {"0": "calm", "1": "cross", "2": "mad"} == said["answers"]["anger"]["legend"]
    assert 0 <= said["answers"]["refund"]["noul"] <= 1
    assert "tiny" in json.dumps(said["models"])
    assert [401, 400] == said["refused"]
