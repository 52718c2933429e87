/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets and descriptors that an engine has in a rank. */
#pragma once

struct sockets {
    int connected, listening, elsewhere; /* listeners on another address than 127.0.0.1 */
};

/* Those of IP that a child would inherit: none is tutti's. */
struct sockets sockets_inherited(void);
/* All of IP. */
struct sockets sockets_all(void);

/* How many descriptors a program has that the rank starts. */
int descriptors_of_a_child(void);
