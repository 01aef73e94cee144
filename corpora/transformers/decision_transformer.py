# labels: name::decision_transformer author::edbeeching task::reinforcement-learning domain::control license::other
"""Decision Transformer for the Hopper: the next action from returns to go, states and actions.

Sizes of https://huggingface.co/edbeeching/decision-transformer-gym-hopper-expert; paper https://arxiv.org/abs/2106.01345
"""

from proveout.parser import parse

import torch
from transformers import DecisionTransformerConfig, DecisionTransformerModel

PUBLISHED = dict(
    state_dim=11,
    act_dim=3,
    hidden_size=128,
    n_layer=3,
    n_head=1,
    max_ep_len=4096,
)
SMALL = dict(
    hidden_size=64,
    n_layer=2,
)
STEPS = 20  # of the past, as in training

torch.manual_seed(0)

args = parse(["batch_size"])
(batch_size,) = args

config = DecisionTransformerConfig(**PUBLISHED | (SMALL if args.small else {}))
model = DecisionTransformerModel(config).eval()
inputs = {
    "states": torch.randn(batch_size, STEPS, config.state_dim),
    "actions": torch.randn(batch_size, STEPS, config.act_dim),
    "rewards": torch.randn(batch_size, STEPS, 1),
    "returns_to_go": torch.randn(batch_size, STEPS, 1),
    "timesteps": torch.arange(STEPS).expand(batch_size, STEPS),
    "attention_mask": torch.ones(batch_size, STEPS, dtype=torch.long),
}

with torch.no_grad():
    model(**inputs)
