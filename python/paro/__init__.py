"""PaRO: parameters, gradients and optimizer state each at a scope of its own. See paro.torch."""
