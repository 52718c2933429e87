/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/delay.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

int64_t delay_of_ns(int pid)
{
    char folder[64];
    int64_t sum = 0;

    snprintf(folder, sizeof folder, "/proc/%d/task", pid);
    DIR *threads = opendir(folder);

    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        char path[sizeof folder + sizeof entry->d_name + sizeof "//schedstat"];
        int64_t delay;
        FILE *file;

        snprintf(path, sizeof path, "%s/%s/schedstat", folder, entry->d_name);
        file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (!file)
            continue;
        if (fscanf(file, "%*d %" SCNd64, &delay) == 1)
            sum += delay;
        fclose(file);
    }
    if (threads)
        closedir(threads);
    return sum;
}

int64_t delay_ns(void)
{
    return delay_of_ns(getpid());
}
