"""NeuronPerf's namespaces (`torch`, `cpu`, `cuda`, `sim`; `tensorflow` and `mxnet` are not served) and its index."""
