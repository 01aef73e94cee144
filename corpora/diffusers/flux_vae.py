# labels: name::flux_vae author::black-forest-labs task::image-to-image domain::vision license::apache-2.0
"""The autoencoder of FLUX.1, 83.8 M parameters: an image to 16 latent channels and back.

Sizes of https://huggingface.co/black-forest-labs/FLUX.1-schnell/blob/main/vae/config.json
Images of 512 x 512 pixels. With --small 32 x 32, and two levels of 32 and 64 channels.
"""

from proveout.parser import parse

import torch
from diffusers import AutoencoderKL

PUBLISHED = dict(
    latent_channels=16,
    block_out_channels=(128, 256, 512, 512),
    layers_per_block=2,
    down_block_types=("DownEncoderBlock2D",) * 4,
    up_block_types=("UpDecoderBlock2D",) * 4,
    use_quant_conv=False,
    use_post_quant_conv=False,
)
SMALL = dict(
    block_out_channels=(32, 64),
    layers_per_block=1,
    down_block_types=("DownEncoderBlock2D",) * 2,
    up_block_types=("UpDecoderBlock2D",) * 2,
)

torch.manual_seed(0)

args = parse(["batch_size"])
size = 32 if args.small else 512

model = AutoencoderKL(**PUBLISHED | (SMALL if args.small else {})).eval()
image = torch.rand(args.batch_size, 3, size, size) * 2 - 1

with torch.no_grad():
    model(image)
