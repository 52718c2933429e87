# SPDX-License-Identifier: Apache-2.0
"""What bench/compare is made of: programs, runs, figures, the machine, the report, the pictures."""
