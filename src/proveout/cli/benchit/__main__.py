"""`python -m proveout.cli.benchit`: what a Slurm job runs."""

import sys

from proveout.cli import main

sys.exit(main(program="benchit"))
