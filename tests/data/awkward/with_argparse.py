"""Reads its own command line, and works only under `python with_argparse.py`."""

import argparse

import torch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=4)
    arguments = parser.parse_args()
    torch.nn.Linear(arguments.width, 2)(torch.ones(1, arguments.width))


if __name__ == "__main__":
    main()
