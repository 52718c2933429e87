/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks send and a test looks for on the network; no part of it comes there by chance. */
#pragma once

enum { KNOWN_BYTES = 64 };

static const char known_bytes[KNOWN_BYTES + 1] =
    "k7Qz!pW3vE9#tR2yU6&iO1aS4dF8gH5jL0zX-cV_bN=mM+qA/wD.eC,rB;tG:yJx";
