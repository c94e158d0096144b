"""Many files: arguments, worker processes, reports in order."""
