"""The web app, `proveout app`: five tasks to try live, and everything that the store holds.

serve.py      the server's process: Streamlit's, with the store read ahead
main.py       the table of pages; Streamlit runs it at every interaction
options.py    what the command line gave: the store and the folder of weights
theme.py      one visual language: style sheet, badges, tiles, charts
playground.py one page a task; it only starts runs and reads their events
own.py        one's own model: a script through find, prove and bring-up, by commands.py
children.py   a child process with limits, as pages see it
runs.py       a run of a task: such a child, its events and its log
worker.py     the worker's side: inputs and weights in, events and a Record out
tasks/        what each of the five tasks is
weights.py    which weights can be had, and what is said about them
explorer_*.py the pages about the store; data.py reads it
"""
