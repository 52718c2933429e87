/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imports a managed DLPack tensor, as a framework's __dlpack__() returns it, sums it in place and
 * releases it. Here the program takes the part of the framework, too.
 *
 * dlpack/dlpack.h is DLPack's own (Debian: libdlpack-dev).
 *
 *     cc dlpack.c $(pkg-config --cflags --libs tutti) -o dlpack
 *     tutti run -n 2 ./dlpack
 */
#include <stdio.h>
#include <stdlib.h>

#include <dlpack/dlpack.h>
#include <tutti/dlpack.h>
#include <tutti/tutti.h>

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

/* ---- the framework ---- */

struct matrix {
    float numbers[2][3];
    int64_t shape[2];
    DLManagedTensor managed;
};

/* Called when the tensor is no longer needed. */
static void give_back(DLManagedTensor *managed)
{
    free(managed->manager_ctx);
    printf("the framework has its memory back\n");
}

static DLManagedTensor *matrix_new(float value)
{
    struct matrix *m = calloc(1, sizeof *m);

    if (!m)
        exit(1);
    for (int i = 0; i < 6; i++)
        m->numbers[i / 3][i % 3] = value;
    m->shape[0] = 2;
    m->shape[1] = 3;
    m->managed = (DLManagedTensor){.dl_tensor = {.data = m->numbers,
                                                 .device = {.device_type = kDLCPU},
                                                 .ndim = 2,
                                                 .dtype = {kDLFloat, 32, 1},
                                                 .shape = m->shape},
                                   .manager_ctx = m,
                                   .deleter = give_back};
    return &m->managed;
}

/* ---- the program ---- */

int main(void)
{
    tutti_group *world;
    tutti_tensor *tensor;

    must(tutti_init(NULL, &world));
    const int rank = tutti_group_rank(world);
    DLManagedTensor *managed = matrix_new((float)(rank + 1));

    /* It is tutti's from here on. A capsule "dltensor_versioned", which newer frameworks give, is for
     * tutti_tensor_from_dlpack_versioned(). */
    must(tutti_tensor_from_dlpack(managed, &tensor));
    must(tutti_all_reduce(world, tensor, TUTTI_SUM, NULL, NULL));
    printf("rank %d: the sum is %g\n", rank, (double)((const float *)tensor->data)[5]);
    tutti_tensor_release(tensor);
    must(tutti_group_destroy(world));
    return 0;
}
