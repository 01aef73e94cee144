"""Continuous batching: requests come and go while others are decoded, on a cache of pages.

    serve(requests, Scheduler(pages=512, page_size=32, slots=32), engine, ModelledClock())  ->  a Run with every time

`scheduler` decides, an engine (`engines`) does the work or says how long it would take, a clock measures or counts.
"""
