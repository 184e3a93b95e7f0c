#!/usr/bin/env python3
"""Counts what passed and failed, from Bazel's build events and the exit codes of other checks.

usage: count_results.py EVENTS_DIR NAME=EXIT_CODE...

Where EVENTS_DIR holds NAME.json, NAME is a run of `bazel test`, and each of its targets counts;
any other NAME counts as one. Shows the end of the failed tests' logs, prints as the last line
"N passed, N failed[, N skipped]", and exits 1 if anything failed or nothing was counted.
"""

import json
import os
import sys
import urllib.parse

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
LOG_LINES = 80


def read_events(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def results_of_bazel(events):
    """Returns {label: (result, paths of logs)}: tests, and other targets that failed to build."""
    results = {}
    tests = set()
    for event in events:
        kind, event_id = next(iter(event["id"].items()))
        label = event_id.get("label") if isinstance(event_id, dict) else None
        if kind == "targetConfigured" and "testSize" in event.get("configured", {}):
            tests.add(label)
        elif kind == "targetCompleted":
            if event.get("aborted", {}).get("reason") == "SKIPPED":
                if label in tests:
                    results[label] = (SKIPPED, [])
            elif not event.get("completed", {}).get("success"):
                results.setdefault(label, (FAILED, []))
        elif kind == "testSummary" and "testSummary" in event:
            summary = event["testSummary"]
            passed = summary["overallStatus"] in ("PASSED", "FLAKY")
            logs = [log["uri"] for log in summary.get("failed", [])]
            results[label] = (PASSED if passed else FAILED, logs)
        elif kind in ("configuredLabel", "unconfiguredLabel", "pattern") and "aborted" in event:
            if event["aborted"].get("reason") != "SKIPPED":
                results.setdefault(label or kind, (FAILED, []))
    return results


def show_failure(name, logs):
    print(f"FAILED: {name}")
    for uri in logs:
        path = urllib.parse.unquote(urllib.parse.urlparse(uri).path)
        with open(path, encoding="utf-8", errors="replace") as log:
            print("".join("    " + line for line in log.readlines()[-LOG_LINES:]))


def main(events_dir, checks):
    counts = {PASSED: 0, FAILED: 0, SKIPPED: 0}
    for check in checks:
        name, exit_code = check.split("=")
        results = {}
        events_file = os.path.join(events_dir, name + ".json")
        if os.path.exists(events_file):
            results = results_of_bazel(read_events(events_file))
        failed = any(result == FAILED for result, _ in results.values())
        if not results or (exit_code != "0" and not failed):
            results[f"{name} (exit code {exit_code})"] = (PASSED if exit_code == "0" else FAILED, [])
        for label, (result, logs) in results.items():
            counts[result] += 1
            if result == FAILED:
                show_failure(label, logs)
    line = f"{counts[PASSED]} passed, {counts[FAILED]} failed"
    print(line + (f", {counts[SKIPPED]} skipped" if counts[SKIPPED] else ""))
    return 1 if counts[FAILED] or not counts[PASSED] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
