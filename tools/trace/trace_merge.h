/* SPDX-License-Identifier: Apache-2.0 */
/* The files that the wrapper `trace` wrote, and how far their clocks are apart. */
#pragma once

#include <glib.h>
#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>

/* One rank's file. */
struct timeline {
    char *path;
    JsonNode *root;    /* an array of events */
    JsonObject *about; /* in it: what the rank says of itself */
    int rank, size, init;
    const char *host, *run, *clock_name;
    guint calls, damaged; /* damaged: events that are left out */
    bool cut;             /* the file ends in the middle */
    struct clock *clock;
};

/* Ranks whose times come from one clock. */
struct clock {
    const char *name;
    double wall_us;   /* wall clock minus this one */
    double offset_us; /* to be added to its times; 0 for the clock of the lowest rank */
    double within_us; /* the true one is at most so far away; negative: nobody knows */
    guint calls;      /* collectives that bound it */
    bool drifts;      /* no single offset fits all of them */
};

void timeline_free(struct timeline *timeline);
/* NULL: what is wrong with the file, in `ret_words` (g_free). */
struct timeline *timeline_read(const char *path, char **ret_words);

/* The clocks of `timelines` (struct timeline, sorted by rank), struct clock; each timeline gets its own. */
GPtrArray *clocks_estimate(GPtrArray *timelines);

/* A member of an object, or what stands for it when there is none, or of another kind. */
const char *event_text(JsonObject *event, const char *member);
double event_number(JsonObject *event, const char *member, double otherwise);
/* "args"; NULL: none. */
JsonObject *event_arguments(JsonObject *event);
/* The event at `index`, NULL when it is no object. */
JsonObject *event_at(JsonNode *root, guint index);
