/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build, the plugins that it finds, and what it would choose. All functions return rows, which tools
 * print as tables or JSON.
 */
#ifndef TUTTI_INFO_H
#define TUTTI_INFO_H

#include <stdint.h>

#include <tutti/export.h>
#include <tutti/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tutti_plugin_option; /* plugin.h */
struct tutti_cost;

/* One plugin file that was found. */
typedef struct tutti_plugin_info {
    const char *name;              /* the backend's name: "shm" */
    const char *path;              /* where it was found */
    const char *version;           /* as the plugin says, "" if it was refused */
    const char *license;           /* as the plugin says, "" if it was refused */
    const char *reason;            /* "" if ready; else why it was refused, and what to do */
    uint32_t abi_major, abi_minor; /* of its note, 0 when that could not be read */
    int32_t ready;                 /* 1: usable */
    int32_t lacks_library;         /* 1: not ready, since a library that it needs is missing */
    const char *provides; /* "transport", "wrapper", "collectives, bootstrap"; "" when refused */
    const struct tutti_plugin_option *options; /* tutti_plugin.options, if it was opened, or NULL */
    const struct tutti_cost *cost;             /* the same of tutti_plugin.cost */
    /* What a plugin finds here: of devices, the driver and each device, a line each; of others, the library
     * that it drives; "" otherwise. Only tutti_plugin_probe() asks. */
    const char *finds;
} tutti_plugin_info;

/** Called for each plugin file; the strings are valid during the call. */
typedef void (*tutti_plugin_info_fn)(const tutti_plugin_info *info, void *user);

/**
 * Looks for plugins as tutti_init() would (TUTTI_PLUGIN_PATH, tutti/0 beside libtutti, the
 * installation's) and calls fn
 * for each file, opening each in this process. Strings are valid during the call.
 */
TUTTI_API tutti_status tutti_plugins_list(tutti_plugin_info_fn fn, void *user);

/** As tutti_plugins_list(), but opens no file. Each row has name and path; a reason if another file hides
 * this one; and what the plugin provides if it is one of tutti's own. For callers that open each plugin
 * in a separate process. */
TUTTI_API tutti_status tutti_plugin_files(tutti_plugin_info_fn fn, void *user);

/** Opens the file at `path` in this process and calls fn once, with its description or with the reason
 * why it was refused. A plugin that drives an engine, such as an MPI, is ready only if the engine is
 * installed. The plugin may load the engine to find out, so call this in a separate process. */
TUTTI_API tutti_status tutti_plugin_probe(const char *path, tutti_plugin_info_fn fn, void *user);

/* One plugin that tutti knows by its name, whether it is installed here or not. */
typedef struct tutti_known_plugin {
    const char *name;      /* "gloo" */
    const char *provides;  /* "transport", "wrapper", "transport, collectives" */
    const char *purpose;   /* in a few words */
    const char *libraries; /* shared libraries of others that it needs; "": none */
    const char *get;       /* what to do if it is missing: "apt-get install …" */
    const char *install;   /* what to do if its libraries are missing; "": it needs none */
} tutti_known_plugin;

/** Called for each known plugin; the strings are static. */
typedef void (*tutti_known_plugin_fn)(const tutti_known_plugin *known, void *user);

/** Calls fn for each plugin that tutti knows by its name. Looks for no file: tutti_plugin_files() lists
 * those. */
TUTTI_API tutti_status tutti_plugins_known(tutti_known_plugin_fn fn, void *user);

/* One row of name and value. */
typedef void (*tutti_info_fn)(const char *section, const char *name, const char *value, void *user);

/** Rows of the sections "build", "cpu", "net", "limits" and "tuning". */
TUTTI_API tutti_status tutti_info_list(tutti_info_fn fn, void *user);

/* One variable of the environment. */
typedef struct tutti_variable_info {
    const char *name;     /* "TUTTI_BACKEND" */
    const char *value;    /* in effect: as set, or from another variable; "": none */
    const char *source;   /* "environment", "default", or the variable that has the value */
    const char *standard; /* the default; "": none */
    const char *values;   /* "OFF | WARN | INFO | DETAIL", "<number>" */
    const char *across;   /* "may differ", "same on all ranks", "same, compared at init" */
    const char *meaning;  /* "" for a name that nothing reads */
    const char *problem;  /* "", or why it is refused or has no effect */
    int32_t own;          /* 1: tutti's own, 0: set by launchers and others */
    int32_t idle;         /* 1: the value is valid, but nothing uses it, as `problem` says */
} tutti_variable_info;

/** Called for each variable. */
typedef void (*tutti_variable_fn)(const tutti_variable_info *variable, void *user);

/**
 * Calls fn for each variable of the environment that tutti reads, its own first, and then for each
 * variable that begins with TUTTI_ and that nothing reads. Strings are valid during the call; `meaning`
 * and `values` are static. Reads the environment as getenv() does: no thread may change it meanwhile.
 */
TUTTI_API tutti_status tutti_environment_list(tutti_variable_fn fn, void *user);

/** The name of a collective ("all_reduce"), numbered from 1; NULL beyond the last. Static. */
TUTTI_API const char *tutti_operation_name(int32_t number);

enum {
    TUTTI_OPERATION_MOVES = 1 << 0,   /* elements: it has a dtype and a size */
    TUTTI_OPERATION_REDUCES = 1 << 1, /* it takes a reduction */
    TUTTI_OPERATION_HAS_ROOT = 1 << 2,
    TUTTI_OPERATION_HAS_BLOCKS = 1 << 3 /* one for every member, which may differ in size ("_v") */
};

/** TUTTI_OPERATION_… of an operation, 0 for an unknown number. */
TUTTI_API uint32_t tutti_operation_traits(int32_t number);

/* One cell of what a backend serves. Strings are valid during the call. */
typedef struct tutti_matrix_cell {
    const char *operation; /* "all_reduce", "gather_v", "send" */
    const char *dtype;     /* "f32"; "": it has none */
    const char *op;        /* "sum"; "": it reduces nothing */
    const char *layout;    /* "one host", "one member on each host", … */
    const char *provider;  /* the backend: "shm", "tcp", "shm+tcp"; "": refused */
    /* The core's algorithms, from small sizes to large ones; "…_native": the backend's engine does
     * the whole operation. */
    const char *algorithms;
    const char *refusal; /* "" if it is supported, else why not */
} tutti_matrix_cell;

/** Called for each cell. */
typedef void (*tutti_matrix_fn)(const tutti_matrix_cell *cell, void *user);

/**
 * Calls fn for every operation, dtype and reduction over `backend` (NULL: TUTTI_BACKEND, else "auto"),
 * for members on one host and on several. Opens the plugins that the backend names, makes no group.
 *
 * Errors: INVALID_ARGUMENT (an unknown backend, with those that are there), UNSUPPORTED (the plugin is no
 * transport), and what a refused plugin is refused with.
 */
TUTTI_API tutti_status tutti_matrix_list(const char *backend, tutti_matrix_fn fn, void *user);

/* tutti_explain_query.flags, beside those of calls */
enum {
    /* Asks the engine that would do the whole call how it would do it: tutti_explain_row.engine. This starts the
     * engine, which may take seconds, so call it in a separate process. */
    TUTTI_EXPLAIN_ENGINE = 1 << 16
};

/* The call that tutti_explain() explains. */
typedef struct tutti_explain_query {
    uint32_t struct_size;
    int32_t members; /* 1 .. 65535 */
    /* As tutti_operation_name() has it; with "_v" its form with blocks of different sizes, where it
     * has one; "send" or "recv": a message between member 0 and `root`. */
    const char *operation;
    const char *backend; /* NULL: TUTTI_BACKEND, else "auto" */
    const char *layout;  /* members per host, "4" or "2,2"; NULL: all on one host */
    uint64_t bytes;      /* of the vector, or of each block */
    uint32_t dtype;      /* 0: f32 */
    int32_t op;          /* TUTTI_SUM, … */
    /* 0, TUTTI_FIXED_ORDER (collective.h; TUTTI_REPRODUCIBLE=1 counts too), TUTTI_EXPLAIN_ENGINE */
    uint32_t flags;
    int32_t root; /* of operations that have one; of a message the other member */
    /* Where the tensors lie: "cuda", on such devices; NULL or "cpu": in host memory. */
    const char *device;
} tutti_explain_query;

/* One candidate, best first. */
typedef struct tutti_explain_row {
    const char *provider;  /* the backend; "": none can carry it */
    const char *algorithm; /* of the core; "message" for what only carries messages */
    const char *reason;    /* why it was chosen, or why not */
    double estimated_us;   /* of the built-in cost model */
    int32_t chosen;        /* 1: the call would take it */
    int32_t steps;         /* of member 0's schedule; 0 where there is none (inline, messages) */
    const char *rule;      /* of the backend's rules, that takes the call; NULL: none */
    /* Lines of the engine about this call; NULL: none. Only there with TUTTI_EXPLAIN_ENGINE. */
    const char *engine;
    /* "pinned host memory": tensors on devices are copied there for the call, and back; NULL: the provider
       takes them where they lie */
    const char *staging;
} tutti_explain_row;

/** Called for each candidate; the strings are valid during the call. */
typedef void (*tutti_explain_fn)(const tutti_explain_row *row, void *user);

/** Calls fn for each candidate, the chosen one first. Needs no group, and opens the plugins that the
 * backend names, but no engine behind them: tutti_plugin_probe() says whether that is there. With members on
 * several hosts, `auto` asks this host for a device besides sockets, as tutti_init() does, and takes it that
 * the others have the same. An unknown backend is TUTTI_ERR_INVALID_ARGUMENT. */
TUTTI_API tutti_status tutti_explain(const tutti_explain_query *query, tutti_explain_fn fn,
                                     void *user);

#ifdef __cplusplus
}
#endif
#endif
