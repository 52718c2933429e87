/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin ABI: what a backend exports and what it is given.
 *
 * A plugin is one shared object, libtutti-NAME.so, that exports one const data symbol, `tutti_plugin_v0`.
 * TUTTI_PLUGIN_EXPORT defines it, and an ELF note that the core reads before any constructor runs. A
 * plugin does not link tutti: the core passes it a table of host services. All data that cross are
 * fixed-width, opaque or bytes. Structs that may grow begin with their size, a minor version only
 * appends, and TUTTI_HAS() guards each member that an older peer may lack.
 *
 * The file of backend or wrapper NAME is libtutti-NAME.so in the first of these directories that has
 * it: those of TUTTI_PLUGIN_PATH (colon separated), tutti/0 beside libtutti, the installation's. The
 * core opens only that file, and only if no one but root, the user of the process or the owner of
 * libtutti could have written it. Every directory on its path counts. TUTTI_PLUGIN_TRUST=any switches
 * this check off; set-id programs ignore both variables.
 *
 * A plugin installs no signal handlers, atexit functions or malloc hooks, and never aborts. To fail, it
 * gives tutti_host.error() a message and returns the status.
 */
#ifndef TUTTI_PLUGIN_H
#define TUTTI_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#include <tutti/export.h>
#include <tutti/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The ABI of this header: a major that differs is refused, a minor only appends. */
#define TUTTI_PLUGIN_ABI_MAJOR 0
/** See TUTTI_PLUGIN_ABI_MAJOR. */
#define TUTTI_PLUGIN_ABI_MINOR 9
#define TUTTI_PLUGIN_MAGIC UINT64_C(0x6e696c7069747475) /* "uttiplin" */
/** The one symbol that a plugin exports. */
#define TUTTI_PLUGIN_SYMBOL "tutti_plugin_v0"

/** Whether the peer's struct `ops` is new enough to have `member`, and the member is set. */
#define TUTTI_HAS(ops, member)                                                                     \
    ((ops)->struct_size >= (size_t)((const char *)(&(ops)->member + 1) - (const char *)(ops)) &&   \
     (ops)->member != 0)

/* ---- what the core gives ---- */

typedef struct tutti_host_mates tutti_host_mates; /* the members on one host, proven by the core */
typedef struct tutti_exchange tutti_exchange;     /* descriptors on their way between local peers */
typedef struct tutti_wrapped_group tutti_wrapped_group; /* a group, as wrappers see it */
typedef struct tutti_channel tutti_channel;             /* an encrypted connection */

/** A piece of what is sent. */
typedef struct tutti_piece {
    const void *data; /* may be NULL if there are no bytes */
    uint64_t bytes;   /* of it */
} tutti_piece;

/*
 * Host services. `self` is the first argument of each and belongs to one endpoint. Any thread may
 * call log, now_ns, allocate, release, config, error, wake_mate, reduce_local, mac; the others are called
 * from inside an operation of the endpoint only.
 */
typedef struct tutti_host {
    uint32_t struct_size;
    uint32_t abi_minor; /* of the core */

    /** level: 1 warning, 2 info, 3 detail. */
    void (*log)(void *self, int32_t level, const char *words);
    /** CLOCK_MONOTONIC. */
    int64_t (*now_ns)(void *self);
    /** Zeroed memory, or NULL. */
    void *(*allocate)(void *self, uint64_t bytes);
    /** Frees memory of allocate; NULL is allowed. */
    void (*release)(void *self, void *memory);
    /** The value of an option of this plugin, or NULL. "dir" reads TUTTI_NAME_DIR, with _ for each - of
     * the name; "" (since minor 2) reads TUTTI_NAME. Valid until close. */
    const char *(*config)(void *self, const char *key);
    /** Records the message of a failure and returns `status`. system_errno may be 0. */
    tutti_status (*error)(void *self, tutti_status status, int32_t system_errno, const char *words);

    /**
     * All-gather of descriptors among local peers, in their order: each member gives `count`
     * descriptors (the same number everywhere, at most 8; they stay the caller's) and receives
     * count of them from each local peer, close-on-exec, which become the caller's. share_test returns
     * TUTTI_ERR_NOT_READY until the exchange is complete. Then it frees the exchange, whatever it
     * returns. Every local peer starts its exchanges in the same order.
     */
    tutti_status (*share_start)(void *self, tutti_host_mates *mates, const int32_t *descriptors,
                                uint32_t count, tutti_exchange **ret_exchange);
    /** See share_start. */
    tutti_status (*share_test)(void *self, tutti_exchange *exchange, int32_t *ret_descriptors);

    /** Wakes local peer `index` if it sleeps. Call it after you have published something in memory that
     * this peer maps; it contains the necessary fence. */
    void (*wake_mate)(void *self, tutti_host_mates *mates, uint32_t index);

    /** Reports that the process with `label` (tutti_transport_ops.connect) is gone. Call it once, as soon as
     * you know, also if no request fails. */
    void (*peer_lost)(void *self, uint64_t label, const char *words);

    /** dst[i] = a[i] op b[i]; dst may be a or b. UNSUPPORTED for an unknown combination. */
    tutti_status (*reduce_local)(void *self, uint32_t dtype, int32_t op, void *dst, const void *a,
                                 const void *b, uint64_t count);

    /* since minor 2, for wrappers */
    /** Sends at most 192 bytes to the wrapper of the same name on the group's first member, which gets
     * them later, in order (tutti_wrapper_ops.hear). The call does not wait. The bytes are lost if that
     * member has no such wrapper, and may be lost if it reads too slowly. From begin and end only. */
    void (*tell)(void *self, const tutti_wrapped_group *group, const void *bytes, uint64_t count);

    /* since minor 4 */
    /** Instead of peer_lost, if the network no longer answers (ETIMEDOUT, EHOSTUNREACH): the process with
     * `label` may be alive and reach others. The message to users names the connection. */
    void (*link_lost)(void *self, uint64_t label, const char *words);
    /** For an open that must wait for other processes. Call it every 50 ms or so while you wait: it makes
     * progress on the group's own connections. TUTTI_OK: go on. TUTTI_ERR_TIMEOUT: the deadline has passed;
     * open fails and names what it waited for. Anything else: the group will not be made, for instance since
     * a member was lost; open returns that status, without a message. Continue to wait for a second after
     * your own deadline, since one member reaches the deadline first and tells the others. Call it only from
     * inside open, on the thread that called open. */
    tutti_status (*keep_waiting)(void *self);

    /* since minor 6 */
    /**
     * HMAC-SHA256 of `bytes` bytes, under a key that the members of the group have for this plugin and nobody
     * else. With it, two processes that connect prove to each other that they are members: each sends a random
     * nonce and the MAC over both nonces, over who of both it is, and over what tells this connection from others.
     * Never send the MAC of bytes that the other side alone has chosen. Compare MACs in a time that does not
     * depend on where they differ.
     */
    tutti_status (*mac)(void *self, const void *data, uint64_t bytes, uint8_t ret_mac[32]);

    /* since minor 7: encrypted connections, for transports with TUTTI_CAP_ENCRYPTS. All of them, or none. */
    /**
     * Begins TLS 1.3 on a connected, non-blocking stream socket, which stays the caller's, with a key that the
     * members of the group have for this plugin and nobody else. `listens`: 1 where the connection was accepted,
     * 0 where it was dialed. An accepted one gets memory only when its first byte is one of TLS:
     * TUTTI_ERR_NOT_READY: no byte is there yet; TUTTI_ERR_DENIED: another one is, or the end of the connection.
     * These two have no message.
     */
    tutti_status (*channel_open)(void *self, int32_t fd, int32_t listens,
                                 tutti_channel **ret_channel);
    /** Frees it. NULL is allowed. */
    void (*channel_close)(tutti_channel *channel);
    /**
     * How many bytes of the pieces have left, or -1 with errno, as of sendmsg(2). EINPROGRESS: the handshake
     * waits for the other side, and nothing was taken: call again when the socket is readable. EAGAIN: the socket
     * takes no more for now. What has been encrypted must be given again, as the beginning of the pieces, until
     * it counts as sent; more may follow it.
     */
    int64_t (*channel_send)(tutti_channel *channel, const tutti_piece *pieces, uint32_t count);
    /** As recv(2), with errno. EBADMSG: what has come was not encrypted with the same key, or was altered. */
    int64_t (*channel_recv)(tutti_channel *channel, void *data, uint64_t bytes);
    /** 1 if channel_recv may return something although the socket is not readable. */
    int32_t (*channel_has_unread)(const tutti_channel *channel);

    /* since minor 8: for providers that open with a group */
    /**
     * All-gather of `count` bytes, at most 64 KiB and the same number everywhere, among all members of the group,
     * over its control connections: for what a library has its members tell each other while it starts. From the
     * provider's open until its close, on any thread, also one of the plugin. A provider has one gather at a time;
     * all members start them in the same order. `bytes` may be changed at once.
     */
    tutti_status (*gather_start)(void *self, const void *bytes, uint64_t count,
                                 tutti_exchange **ret_exchange);
    /**
     * TUTTI_ERR_NOT_READY until every member has given its bytes: call it again, and sleep some 100 µs in between on
     * a thread of your own. TUTTI_OK: `ret_all` has count bytes of each member, in the order of ranks.
     * TUTTI_ERR_MISMATCH: a member gathers another number of bytes. TUTTI_ERR_TIMEOUT: the deadline of the group's
     * making has passed, or later its time-out for calls. TUTTI_ERR_PEER_LOST: a member has left. Anything else: the
     * group has ended. What is not NOT_READY frees the exchange; the group cannot use the provider after a failure,
     * whose message is given to the user where the provider returns the same status without one.
     */
    tutti_status (*gather_test)(void *self, tutti_exchange *exchange, void *ret_all);
} tutti_host;

/* ---- transports ---- */

typedef struct tutti_endpoint tutti_endpoint; /* the transport's own */
typedef struct tutti_peer tutti_peer;         /* the transport's own: a connection to one process */
typedef struct tutti_map tutti_map; /* the transport's own: memory that local peers share */
struct tutti_engine_version;        /* plugin_engine.h */

/*
 * One send or receive. The memory is the core's; the transport keeps its state in `opaque` while the
 * request is not complete. `status` is TUTTI_ERR_NOT_READY until then, afterwards the result.
 */
typedef struct tutti_request {
    int32_t status;     /* tutti_status */
    uint32_t flags;     /* of a receive, the core's: TUTTI_RECEIVE_…; since minor 9, 0 before */
    uint64_t bytes;     /* received; meaningful when a receive is complete */
    void *user;         /* the core's; never touched by the transport */
    uint64_t opaque[9]; /* the transport's */
} tutti_request;

/* tutti_transport_ops.capabilities */
enum {
    TUTTI_CAP_MAP = 1 << 0,       /* map_start … map_close are there */
    TUTTI_CAP_HOST_ONLY = 1 << 1, /* reaches local peers only */
    /* since minor 7: encrypts what it sends, all of it, if tutti_endpoint_options.flags says so */
    TUTTI_CAP_ENCRYPTS = 1 << 2
};

/* tutti_endpoint_options.flags */
enum {
    TUTTI_ENDPOINT_ENCRYPT = 1 << 0 /* only if the transport has TUTTI_CAP_ENCRYPTS */
};

/* tutti_transport_ops.threads. Read again when open has returned: what an engine allows may be known
 * only then. After the first it is the same for all endpoints. */
enum {
    TUTTI_THREADS_ANY = 0,
    TUTTI_THREADS_ONE_AT_A_TIME = 1, /* any thread, one at a time */
    TUTTI_THREADS_CALLERS_ONLY = 2,  /* one at a time, never from a thread of the core (minor 3) */
    TUTTI_THREADS_MAIN_ONLY = 3
};

/* tutti_request.flags of a receive */
enum {
    /* The memory is a piece of so much that it does not stay in a cache: streaming stores to it are faster. */
    TUTTI_RECEIVE_UNCACHED = 1 << 0
};

/* flags of isend */
enum {
    /* The next isend, send_short or send_pair to this peer and lane is called at once. Where the transport refuses that one, it
     * sends what it holds back in its next progress() or test(): nothing may come after it. */
    TUTTI_SEND_MORE = 1 << 0
};

enum { TUTTI_ARMED = 0, TUTTI_EVENTS_PENDING = 1 }; /* answers of arm */

/** Options of tutti_transport_ops.open. */
typedef struct tutti_endpoint_options {
    uint32_t struct_size;
    int32_t rank;             /* in the group */
    const char *bind_address; /* numeric address of the route to the rendezvous; may be NULL */
    const char *run_id;       /* the job's name; valid until open returns */
    uint8_t token[16];   /* shared by the members of the group, for this plugin; keeps strays out */
    int32_t size;        /* since minor 3: of the group */
    uint32_t flags;      /* since minor 7: TUTTI_ENDPOINT_… */
    int64_t deadline_ns; /* since minor 3: until when the group must be made; 0: no deadline */
} tutti_endpoint_options;

/**
 * Since minor 5: a message that has arrived, in the transport's memory. One that goes around the end of a ring
 * is in two parts.
 */
typedef struct tutti_shown {
    const void *data;    /* the message, or its first part */
    uint64_t bytes;      /* of that */
    const void *rest;    /* the second part */
    uint64_t rest_bytes; /* of that; 0: there is none */
} tutti_shown;

/*
 * A transport moves messages between two processes, in order on each numbered lane. It does no
 * matching, buffering of unexpected messages or flow control: the core posts a receive for each
 * message before it arrives or soon after, or looks at it by `show`. A transport may refuse to read further
 * from a peer while no receive is posted. No function blocks, except that open and close may take some milliseconds.
 *
 * isend and irecv with 0 bytes are legal. A received message longer than the posted capacity
 * completes with TUTTI_ERR_INTERNAL, never truncated.
 *
 * If a peer is gone, its requests complete with TUTTI_ERR_PEER_LOST: sends as soon as the loss is known,
 * receives only after everything that the peer had sent was received, also by receives that are posted
 * later. A peer may leave as soon as it has what it needs, so a send often fails while the peer's last
 * messages are still unread. TUTTI_ERR_PEER_LOST of a send therefore does not end the receives. A send
 * whose bytes the transport has passed on completes with TUTTI_OK, even if the peer is lost afterwards.
 */
typedef struct tutti_transport_ops {
    uint32_t struct_size;
    uint32_t threads;      /* TUTTI_THREADS_… */
    uint64_t capabilities; /* TUTTI_CAP_… */
    uint64_t max_message;  /* bytes; 0: no limit */
    uint32_t lanes;        /* 1 or more */
    uint32_t reserved;

    /* required */
    /** Makes an endpoint of this process, for one group; a process has several at a time. `host` and
     * `host_self` stay valid until close. */
    tutti_status (*open)(const tutti_host *host, void *host_self,
                         const tutti_endpoint_options *options, tutti_endpoint **ret_endpoint);
    /** Returns how other processes reach this endpoint: at most 64 KiB, opaque to the core. Returns
     * TUTTI_ERR_INTERNAL if `capacity` is too small. `connect` of the receiver checks the contents. */
    tutti_status (*address)(tutti_endpoint *endpoint, void *ret_address, uint64_t capacity,
                            uint64_t *ret_bytes);
    /** Called on both sides with the other's address, before any request that names the peer. Makes an
     * object. The transport dials when the first message is sent, and settles which side dials. `label`
     * is the argument for tutti_host.peer_lost(). */
    tutti_status (*connect)(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                            uint64_t label, tutti_peer **ret_peer);
    /** TUTTI_OK: taken (request->status may be final at once, and is then not reported again by
     * progress); TUTTI_ERR_BUSY: nothing was taken, try again after progress. The memory is the
     * transport's until the request is complete or cancel has returned. When the peer is gone:
     * TUTTI_ERR_PEER_LOST, or the request is taken and completes with it. */
    tutti_status (*isend)(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                          const void *data, uint64_t bytes, uint32_t flags, tutti_request *request);
    /** As isend, for the next message of this peer on the lane. */
    tutti_status (*irecv)(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *data,
                          uint64_t capacity, tutti_request *request);
    /** Progresses the endpoint and returns request->status. Of other requests that became complete on
     * the way the status is final, too. */
    tutti_status (*test)(tutti_endpoint *endpoint, tutti_request *request);
    /** Frees everything, peers included; outstanding requests are dropped. What a send that is complete
     * has passed on still arrives. */
    void (*close)(tutti_endpoint *endpoint);

    /* optional: NULL, or not there in an older plugin */
    /** Moves everything that can move. Stores up to `capacity` requests that became complete since
     * (each is reported once) and returns how many. A request that is complete stays the transport's,
     * its `opaque` member included, until it is reported here, or test has returned its status, or cancel
     * takes it back. A transport without progress lets go of it when it sets the status. */
    uint32_t (*progress)(tutti_endpoint *endpoint, tutti_request **ret_done, uint32_t capacity);
    /** Takes a request back, also one that is complete and not reported. Afterwards its memory is the
     * caller's. The peer's stream may be unusable then, so the core cancels only if the peer or the
     * group has failed. */
    void (*cancel)(tutti_endpoint *endpoint, tutti_request *request);
    /** A descriptor that becomes readable when there is something to progress; the endpoint's. */
    tutti_status (*wait_fd)(tutti_endpoint *endpoint, int32_t *ret_fd);
    /** The core calls it before it sleeps on wait_fd. TUTTI_ARMED: sleep. TUTTI_EVENTS_PENDING: make
     * progress first. */
    int32_t (*arm)(tutti_endpoint *endpoint);
    /** Frees one peer and drops its requests. */
    void (*disconnect)(tutti_endpoint *endpoint, tutti_peer *peer);
    /** Bytes and messages written to and read from connections, and bytes written to mapped
     * memory, since open: ret_counters[5] = sent bytes, received bytes, sent messages, received
     * messages, mapped bytes. */
    void (*traffic)(tutti_endpoint *endpoint, uint64_t ret_counters[5]);

    /* TUTTI_CAP_MAP: memory of every local peer, mapped by every local peer. */
    /** Starts mapping `bytes` zeroed bytes for each of `count` local peers. `peers[i]` is the connection
     * to local peer i (NULL at `self_index`). A transport may use the same segment for its messages to
     * them. */
    tutti_status (*map_start)(tutti_endpoint *endpoint, tutti_host_mates *mates,
                              tutti_peer *const *peers, uint32_t count, uint32_t self_index,
                              uint64_t bytes, tutti_map **ret_map);
    /** TUTTI_ERR_NOT_READY until mapped; ret_bases[count] receives each local peer's memory, 4096-aligned. */
    tutti_status (*map_test)(tutti_endpoint *endpoint, tutti_map *map, void **ret_bases);
    /** Unmaps. The core does not touch the memory after this. */
    void (*map_close)(tutti_endpoint *endpoint, tutti_map *map);

    /* since minor 3; optional */
    /** The size in bytes of the pieces in which the core sends long messages; 0: the core's choice, 1 MiB.
     * Longer pieces are for engines with a high cost per message. A short message waits behind a piece,
     * and cancel takes back a whole piece. Only used if there is `cancel`. Limited to 64 KiB to 64 MiB,
     * and to max_message. Each member sends pieces of its own plugin's size, and receives those of any
     * other. Read again after open has returned. */
    uint64_t piece_bytes;

    /* since minor 5; optional: short messages without requests. All of them, or none. */
    /** The longest message for send_short, in bytes. Once open has returned it is fixed. */
    uint64_t short_bytes;
    /** Sends one message, made of two parts behind each other, at once or not at all. TUTTI_OK: it is on its
     * way, behind what was sent before, and the memory is the caller's again. TUTTI_ERR_BUSY: nothing was
     * sent, because something waits before it or there is no room: the core uses isend. Other statuses, and
     * the peer's death, are for isend to tell: BUSY here. */
    tutti_status (*send_short)(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                               const void *head, uint64_t head_bytes, const void *body,
                               uint64_t body_bytes);
    /** Shows the next message of the peer on the lane, where it lies, however it was sent. Only called while
     * no receive of the peer is posted on the lane. TUTTI_OK: the memory stays as it is until `take`, and is
     * shown again until then. A hostile peer may write to it all the same: read each word once. TUTTI_ERR_NOT_READY: none is here;
     * from now on `arm` and `wait_fd` tell of the next one as if a receive were posted. TUTTI_ERR_BUSY: it
     * is longer than short_bytes, and has to be received by irecv. Other statuses end the stream. */
    tutti_status (*show)(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                         tutti_shown *ret_message);
    /** Drops the message that was shown. Called once for each, before a receive of the peer is posted. */
    void (*take)(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane);

    /* since minor 8; optional */
    /** As tutti_collectives_ops.engine, which is asked instead if the plugin has both. */
    tutti_status (*engine)(const tutti_host *host, void *host_self,
                           struct tutti_engine_version *ret_version);
    /** 1: this host has a device of this transport that reaches other hosts by other means than sockets.
     * `auto` then uses the transport between hosts if it is so on all members. `host` is as for `engine`. */
    int32_t (*fabric)(const tutti_host *host, void *host_self);
    /** Writes what it drives on this host, one line of UTF-8 for `tutti info`: the library's version and file, its
     * devices. `host` is as for `engine`. */
    void (*describe)(const tutti_host *host, void *host_self, char *ret_words, uint64_t capacity);

    /* since minor 9; optional, both or none, with send_short: a message behind a short one, without requests */
    /** Sends two messages at once or neither: `head`, which send_short would take, and `body` behind it, which is not
     * empty. Results as of send_short. TUTTI_ERR_BUSY, too, if `body` is too long to be sent at once. */
    tutti_status (*send_pair)(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                              const void *head, uint64_t head_bytes, const void *body,
                              uint64_t body_bytes);
    /** Takes the message that was shown, and the next one, which has `bytes` bytes, not 0, and is copied to `to`. The peer
     * may have sent them by any function. Waits some microseconds for a message that is on its way. TUTTI_ERR_NOT_READY: took
     * neither, since the second has not come whole, or is too long to be taken at once; the core takes the first and
     * posts a receive for the second. `to` may have been written by then. */
    tutti_status (*take_pair)(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, void *to,
                              uint64_t bytes);
} tutti_transport_ops;

/* ---- what a plugin exports ---- */

enum tutti_provider_kind {
    TUTTI_PROVIDER_TRANSPORT = 1,
    TUTTI_PROVIDER_COLLECTIVES = 2, /* since minor 3 */
    TUTTI_PROVIDER_DEVICE = 3,      /* since minor 8 */
    TUTTI_PROVIDER_BOOTSTRAP = 4,   /* since minor 3 */
    TUTTI_PROVIDER_WRAPPER = 5      /* since minor 2 */
};

/** One thing that a plugin offers. */
typedef struct tutti_provider {
    uint32_t struct_size;
    uint32_t kind;    /* TUTTI_PROVIDER_… */
    const char *name; /* for messages: one line of UTF-8, not empty */
    const void *ops;  /* the operations of its kind */
} tutti_provider;

/* ---- what a plugin says of itself (since minor 4) ---- */

/* tutti_plugin_option.across */
enum {
    TUTTI_OPTION_MAY_DIFFER = 0,
    /** tutti_init() fails with both sides' values where members of a group over this plugin differ. */
    TUTTI_OPTION_COMPARED = 1
};

/** A variable of the environment that the plugin reads by tutti_host.config(). */
typedef struct tutti_plugin_option {
    /** "TUTTI_NAME", or "TUTTI_NAME_" and more; "TUTTI_NAME_<WORD>" (since minor 8): all such names. */
    const char *variable;
    /** "fast | safe": one of these, in upper or lower case. The core checks "<words>", "<seconds>" and
     * "<name>". Other text in angle brackets is for readers, and the plugin checks the value. */
    const char *values;
    const char *standard; /* the default; "": none */
    const char *meaning;  /* a sentence or two */
    /** Of a wrapper: the effect if the variable is set and nothing names the wrapper, such as "nothing is
     * injected". NULL: not a wrapper's option, or no warning. */
    const char *idle;
    uint32_t across;      /* TUTTI_OPTION_… */
    uint32_t reserved[3]; /* 0 */
} tutti_plugin_option;

/** A variable by which a launcher shows that it started this process. */
typedef struct tutti_launcher_variable {
    const char *variable; /* "PMI_RANK"; set and not empty: this launcher started the process */
    const char *launcher; /* for messages: "a launcher with PMI" */
} tutti_launcher_variable;

/**
 * The cost of a transport's messages, for the built-in model. The model chooses between a composed
 * algorithm and messages alone, and `tutti explain` prints its figures. Picoseconds, measured between
 * two members on hosts that the transport is for. Members with different figures make no group.
 */
typedef struct tutti_cost {
    uint32_t struct_size;
    uint32_t reserved;
    uint64_t message_ps; /* from the send of a message to its receipt, without its bytes: alpha */
    uint64_t further_ps; /* each further message that a member has in flight at the same time */
    uint64_t byte_ps;    /* a byte of a long message: beta */
} tutti_cost;

/** What a plugin exports, under the name TUTTI_PLUGIN_SYMBOL. */
typedef struct tutti_plugin {
    uint64_t magic; /* TUTTI_PLUGIN_MAGIC */
    uint32_t struct_size;
    uint32_t abi_major;                     /* TUTTI_PLUGIN_ABI_MAJOR */
    uint32_t abi_minor;                     /* TUTTI_PLUGIN_ABI_MINOR */
    uint32_t provider_count;                /* of `providers` */
    const char *name;                       /* as in the file's name */
    const char *version;                    /* of the plugin and the library that it uses */
    const char *license;                    /* SPDX */
    const tutti_provider *const *providers; /* what it offers, one of a kind */

    /* since minor 3; optional */
    /** The process exits: finalize an engine here that lives as long as the process. `clean` is 1 if no
     * group of this process has failed and none is left; if it is 0, do not wait for other processes.
     * Not called in a forked child, nor if the process ends other than by exit(3). */
    void (*leave)(int32_t clean);

    /* since minor 4; optional */
    /** What `tutti check` needs to run the plugin; a list that ends with NULL. "TUTTI_NAME=VALUE" sets a
     * variable if it is not set; "launcher=mpi" runs the processes of a check as an MPI job. */
    const char *const *trial;
    /** Its options, up to one whose `variable` is NULL. */
    const tutti_plugin_option *options;
    /** Of a bootstrap provider: the variables of its launchers, up to one whose `variable` is NULL. */
    const tutti_launcher_variable *launcher_variables;
    /** Of a transport. NULL: the cost of shared memory if the transport maps memory or reaches one host
     * only, otherwise that of TCP. */
    const tutti_cost *cost;
} tutti_plugin;

/* The ELF note: owner "tutti", type 1, two words {major, minor}. */
typedef struct tutti_plugin_note {
    uint32_t name_bytes, desc_bytes, type; /* 6 with the NUL, 8, 1 */
    char name[8];                          /* "tutti" */
    uint32_t desc[2];                      /* major, minor */
} tutti_plugin_note;

/* clang-format off */
#define TUTTI_PLUGIN_EXPORT(plugin_name, plugin_version, plugin_license, plugin_providers, count)  \
    TUTTI_PLUGIN_EXPORT_LEAVE(plugin_name, plugin_version, plugin_license, plugin_providers,       \
                              count, 0)

/* As TUTTI_PLUGIN_EXPORT, with tutti_plugin.leave. */
#define TUTTI_PLUGIN_EXPORT_LEAVE(plugin_name, plugin_version, plugin_license, plugin_providers,   \
                                  count, plugin_leave)                                             \
    TUTTI_PLUGIN_EXPORT_TRIAL(plugin_name, plugin_version, plugin_license, plugin_providers,       \
                              count, plugin_leave, 0)

/* As TUTTI_PLUGIN_EXPORT, with tutti_plugin.leave, which may be NULL, and tutti_plugin.trial. */
#define TUTTI_PLUGIN_EXPORT_TRIAL(plugin_name, plugin_version, plugin_license, plugin_providers,   \
                                  count, plugin_leave, plugin_trial)                               \
    TUTTI_PLUGIN_EXPORT_ABOUT(plugin_name, plugin_version, plugin_license, plugin_providers,       \
                              count, plugin_leave, plugin_trial, 0, 0, 0)

/* As TUTTI_PLUGIN_EXPORT_TRIAL, with tutti_plugin.options, launcher_variables and cost; each may be NULL. */
#define TUTTI_PLUGIN_EXPORT_ABOUT(plugin_name, plugin_version, plugin_license, plugin_providers,   \
                                  count, plugin_leave, plugin_trial, plugin_options,               \
                                  plugin_launcher_variables, plugin_cost)                          \
    __attribute__((section(".note.tutti"), used, aligned(4)))                                      \
    static const tutti_plugin_note tutti_plugin_note_v0 = {                                        \
        6, 8, 1, "tutti", {TUTTI_PLUGIN_ABI_MAJOR, TUTTI_PLUGIN_ABI_MINOR}};                       \
    TUTTI_API extern const tutti_plugin tutti_plugin_v0;                                           \
    const tutti_plugin tutti_plugin_v0 = {                                                         \
        TUTTI_PLUGIN_MAGIC, sizeof(tutti_plugin), TUTTI_PLUGIN_ABI_MAJOR, TUTTI_PLUGIN_ABI_MINOR,  \
        (count),            (plugin_name),        (plugin_version),       (plugin_license),        \
        (plugin_providers), (plugin_leave),       (plugin_trial),         (plugin_options),        \
        (plugin_launcher_variables), (plugin_cost)}
/* clang-format on */

/**
 * Registers a plugin that is linked into the program, as if its file had been found first.
 * `plugin` must live as long as the process.
 */
TUTTI_API tutti_status tutti_plugin_register(const tutti_plugin *plugin);

#ifdef __cplusplus
}
#endif

#include <tutti/plugin_wrapper.h>
#endif
