"""Run modelaudit's command on a file: ANSWER FILE. Its messages about types are recorded; the file counts as loaded."""

import json
import subprocess
import sys
from pathlib import Path

program = str(Path(sys.executable).parent / "modelaudit")
command = [program, "scan", "--format", "json", "--no-cache", sys.argv[2]]
done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
report = json.loads(done.stdout)
found = [f"{issue.get('rule_code')} {issue['severity']}: {issue['message']}" for issue in report["issues"]]
shown = "; ".join([f"exit {done.returncode}", *sorted(set(found))])
Path(sys.argv[1]).write_text(json.dumps({"loads": True, "shown": shown}), encoding="utf-8")
