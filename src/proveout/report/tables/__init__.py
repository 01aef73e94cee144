"""The reports of a store of Records: rows and columns as data, for terminal, Markdown, CSV, JSON and HTML."""
