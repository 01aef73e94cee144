"""The perf sheet: one call as rows, what would make it cheaper, and the files that tt-metal's tools read."""
