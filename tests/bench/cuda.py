"""Measures models on an NVIDIA GPU, PyTorch's modes beside ours: `python tests/bench/cuda.py [-o FILE] [ROW…]`.

One process per row; inside it the modes take turns and medians are kept. Rows that the file holds already are not
measured again, so that a run that was stopped (or that `--budget-s` ends) goes on where it was. A row is
MODEL|NUMBERS|BATCH. Of a model like `gpt2 64+64`, decoding a token over a static cache is measured. Times are
microseconds per call:
 device   CUDA events around calls that follow each other, inputs on the GPU
 host     wall time per call from host memory and back to it, two calls in flight where there are two queues
`cuda_tables.py` makes the documentation's tables of the file.
"""

# Nothing else: PyTorch looks for a package of this name, and finds this file while scripts beside it run.
if __name__ == "__main__":
    from cuda_rows import main

    main()
