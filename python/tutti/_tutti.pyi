# SPDX-License-Identifier: Apache-2.0
# Made by cffi from the headers: the functions and constants of the C API.
from typing import Any

ffi: Any
lib: Any
