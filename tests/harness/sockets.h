/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets that an engine has in a rank. */
#pragma once

struct sockets {
    int connected, listening, elsewhere; /* listeners on another address than 127.0.0.1 */
};

/* Those of IP that a child would inherit: none is tutti's. */
struct sockets sockets_inherited(void);
