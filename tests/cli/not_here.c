/* SPDX-License-Identifier: Apache-2.0 */
/* A library that a plugin is linked with and that nobody finds. */
int not_here(void);

int not_here(void)
{
    return 0;
}
