"""JAX: a function that XLA compiles for the device."""

import os

# Else it takes three quarters of the device at once.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

from _day import Done, need  # noqa: E402

(jax,) = need("jax")
import sys  # noqa: E402

import jax.numpy as jnp  # noqa: E402

if jax.default_backend() != "gpu":
    print("not installed: jax for CUDA")
    sys.exit(77)


@jax.jit
def step(w, x):
    return w - 0.01 * jax.grad(lambda v: jnp.mean((jnp.tanh(x @ v) - 1.0) ** 2))(w)


x = jax.random.normal(jax.random.PRNGKey(1), (512, 256))
w = jax.random.normal(jax.random.PRNGKey(2), (256, 64))
with Done("jax: first step") as it:
    w = step(w, x)
    it.result = float(jnp.abs(w).mean())
with Done("jax: 100 steps") as it:
    for _ in range(100):
        w = step(w, x)
    it.result = float(jnp.abs(w).mean())
