/* SPDX-License-Identifier: Apache-2.0 */
/* Results as JSON ("tutti.bench/1") and CSV, and files of them read again. */
#pragma once

#include <glib.h>
#include <stdbool.h>

#include "bench/result.h"
#include "cli.h"

/* The document of the results (struct bench_result). */
JsonBuilder *document_build(const struct bench_facts *facts, const GArray *results);

/* Writes it to a file, whole or not at all. False after having said why not. */
bool document_save(const struct bench_facts *facts, const GArray *results, const char *path);

void document_print_csv_head(void);
void document_print_csv(const struct bench_result *result);

/* What a saved file holds. */
struct bench_saved;

/* NULL after having said what is wrong with the file. */
struct bench_saved *saved_open(const char *path);
void saved_free(struct bench_saved *saved);

/* A warning if the saved run was not of the same kind (ranks, backend, CPU); NULL: it was. g_free(). */
char *saved_difference(const struct bench_saved *saved, const struct bench_facts *facts);

/* Sets before_us, ratio and verdict if the file has the same cell. */
void saved_compare(const struct bench_saved *saved, struct bench_result *result);
