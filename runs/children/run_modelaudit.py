"""Run modelaudit on a file, by its command: ANSWER FILE. What it reports of types is what it says; it loads all the same."""

import json
import subprocess
import sys
from pathlib import Path

program = str(Path(sys.executable).parent / "modelaudit")
command = [program, "scan", "--format", "json", "--no-cache", sys.argv[2]]
done = subprocess.run(command, capture_output=True, text=True, check=False)
report = json.loads(done.stdout)
found = [f"{issue.get('rule_code')} {issue['severity']}: {issue['message']}" for issue in report["issues"]]
shown = "; ".join([f"exit {done.returncode}", *sorted(set(found))])
Path(sys.argv[1]).write_text(json.dumps({"loads": True, "shown": shown}), encoding="utf-8")
