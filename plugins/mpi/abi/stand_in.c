/* SPDX-License-Identifier: Apache-2.0 */
/* A libmpi_abi.so.1 without content: linked against it, the engine names that library as one it needs,
 * and where tutti runs it finds a real one. */
extern int tutti_mpi_abi_stand_in;
int tutti_mpi_abi_stand_in;
