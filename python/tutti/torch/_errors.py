# SPDX-License-Identifier: Apache-2.0
"""Errors of tutti as exceptions of torch, with tutti's words; python/torch/errors.hh does the same
in C++."""

from __future__ import annotations

from typing import NoReturn

from torch import distributed as dist

import tutti


def exception_of(error: Exception) -> Exception:
    """What torch raises for such an error."""
    words = f"tutti: {error}"
    if isinstance(error, tutti.UnsupportedError):
        return NotImplementedError(words)
    if isinstance(error, tutti.TimeoutError):
        return dist.DistBackendError(f"tutti: the timeout of the call passed: {error}")
    if isinstance(error, tutti.PeerLostError):
        return dist.DistNetworkError(words)
    if isinstance(error, (tutti.StoreError, tutti.StaleError)):
        return dist.DistStoreError(words)
    if isinstance(error, ValueError):
        return ValueError(words)
    return dist.DistBackendError(words)


def refuse(words: str) -> NoReturn:
    """For an argument that is not valid."""
    raise ValueError(f"tutti: {words}")


def unsupported(words: str) -> NoReturn:
    raise NotImplementedError(f"tutti: {words}")
