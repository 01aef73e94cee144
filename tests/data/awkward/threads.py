"""Calls models in threads, and does not wait for the last one."""

import threading
import time

import torch


def late() -> None:
    time.sleep(0.2)
    torch.nn.Linear(2, 4)(torch.ones(1, 2))


now = threading.Thread(target=lambda: torch.nn.Linear(2, 3)(torch.ones(1, 2)))
now.start()
now.join()
threading.Thread(target=late).start()
