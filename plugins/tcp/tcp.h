/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the tcp transport share.
 *
 * One non-blocking connection for each pair of processes, dialled when the first message is sent.
 * All descriptors are in one epoll set, which is also what the core sleeps on. It is level
 * triggered: a peer asks for EPOLLIN while its bytes have somewhere to go and for EPOLLOUT while
 * something is queued, so the set is readable exactly when there is something to progress. The set
 * hears at once what a peer asks for, and what it asks for no longer only before a sleep (arm): to
 * be woken for nothing once costs less than to tell it several times a message.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <tutti/plugin.h>
#include <tutti/plugin_queue.h>

enum {
    TCP_INBOUND_BYTES = 64 << 10, /* read ahead of posted receives, for each peer */
    TCP_TURN_BYTES = 1 << 20,     /* moved for one peer before another has its turn */
    TCP_BURST_BYTES = 1025 << 10, /* of one sendmsg: a piece of 1 MiB and its headers */
    TCP_HELD_BYTES = 16 << 10,    /* messages that wait for the one that follows them at once */
    TCP_HELD_MAX = 2 << 10,       /* the longest of them: to send it from where it is costs less */
    TCP_COPIED_MAX = 512, /* short ones are copied behind their frame: one piece costs less */
    TCP_GATHER = 16,      /* pieces of one sendmsg */
    TCP_DIRECT_PEERS = 2, /* up to here a recv each costs no more than asking epoll which to read */
    TCP_ADDRESS_BYTES = 40,
    TCP_NONCE_BYTES = 32,
    TCP_MAC_BYTES = 32,
    TCP_HELLO_BYTES = 64,
    TCP_CHALLENGE_BYTES = TCP_NONCE_BYTES + TCP_MAC_BYTES,
    TCP_ANSWER_BYTES = 32,
    TCP_HALF_OPEN_MAX = 64,
    TCP_HELLO_MS = 10000
};

/* ---- requests ------------------------------------------------------------------------------ */

/* The plugin's part of a request (tutti_request.opaque). */
struct __attribute__((may_alias)) tcp_request {
    tutti_request_place place; /* first */
    uint8_t *data;
    uint64_t bytes; /* to send; capacity of a receive, then the length of what arrives */
    uint64_t moved; /* a send: of frame and data together; a receive: of the data */
    uint64_t frame; /* a send: as it goes over the wire */
};
_Static_assert(sizeof(struct tcp_request) <= sizeof(((tutti_request *)0)->opaque), "must fit");

static inline struct tcp_request *tcp_of(tutti_request *request)
{
    return (struct tcp_request *)request->opaque;
}

/* ---- objects ------------------------------------------------------------------------------- */

/* The target of an event of the epoll set; the first member of each object there. */
struct tcp_source {
    enum { TCP_LISTENER, TCP_TIMER, TCP_GUEST, TCP_EARLY, TCP_PEER } kind;
    int fd;                 /* -1: none */
    uint32_t events;        /* asked for */
    tutti_channel *channel; /* of a connection that is encrypted */
};

/* A connection on its way from one object to another. */
struct tcp_link {
    int fd; /* -1: none */
    tutti_channel *channel;
};

/* How a process is reached. */
struct tcp_address {
    struct sockaddr_storage socket;
    socklen_t socket_bytes;
    uint64_t id; /* of the endpoint; random, so that an address used again is another endpoint's */
};

/* An incoming connection that has not proven to be a member's. */
struct tcp_guest {
    struct tcp_source source; /* fd -1: the slot is free */
    uint64_t number;          /* guests come in this order */
    int64_t deadline_ns;
    bool challenged; /* its hello has come */
    uint32_t have;
    uint8_t in[TCP_HELLO_BYTES];        /* the hello, then the proof */
    uint64_t id;                        /* of the endpoint that it says to be */
    uint8_t nonces[2][TCP_NONCE_BYTES]; /* the own one, the guest's */
};

/* A member's connection that waits for connect() to name it. */
struct tcp_early {
    struct tcp_source source;
    struct tcp_early *next;
    bool gone; /* to be freed when no event can point to it */
    uint64_t id;
};

enum tcp_state {
    TCP_IDLE,     /* no connection */
    TCP_WAITING,  /* the listener had no room; dials again soon */
    TCP_DIALING,  /* connect() is in progress */
    TCP_SECURING, /* the handshake of the encryption is under way, behind which our hello goes */
    TCP_GREETING, /* our hello is sent, the challenge is not here */
    TCP_PROVING,  /* our proof is sent, the answer is not here */
    TCP_YIELDED,  /* both dialled and the other's connection is the one to come */
    TCP_READY,
    TCP_LOST
};

struct tutti_peer {
    struct tcp_source source;
    tutti_endpoint *endpoint;
    tutti_peer *next, *previous; /* all peers of the endpoint */
    tutti_peer *next_lost;
    uint64_t label;
    struct tcp_address address;
    char name[64]; /* "127.0.0.1:4321", for words */
    enum tcp_state state;
    int64_t first_dialed_ns, dialed_ns, redial_ns;
    bool cut;                       /* a message was cancelled half-way: nothing can follow it */
    bool deaf;                      /* it takes nothing any more; what it had sent is still read */
    bool unanswered;                /* lost, since the network does not answer */
    char words[256];                /* why it is lost */
    uint8_t nonce[TCP_NONCE_BYTES]; /* of our hello */
    uint32_t answer_have;
    uint8_t answer[TCP_CHALLENGE_BYTES]; /* the challenge, then the answer */

    tutti_request_queue sends, receives;
    uint64_t turn, turn_bytes; /* sent in this turn of progress */
    uint32_t wanted;           /* events that the stream can use now */
    bool unwatched;            /* the set has more than `wanted` */
    tutti_peer *next_unwatched;
    bool unread; /* its channel has something to read that the socket does not show */
    tutti_peer *next_unread;
    uint32_t held, held_sent; /* of held_bytes: before the first of `sends` */
    uint8_t *inbound;         /* TCP_INBOUND_BYTES, of which [head, tail) is not consumed */
    uint8_t *held_bytes;      /* TCP_HELD_BYTES behind them */
    uint32_t head, tail;
    bool receiving; /* the first of `receives` is under way */
    uint64_t skip;  /* bytes of a message that nobody wants any more */
};

struct tutti_endpoint {
    const tutti_host *host;
    void *host_self;
    struct tcp_address address; /* own */
    int epoll;
    bool encrypts;
    struct tcp_source listener, timer;
    bool accept_later; /* the system lacks something for accept: again when the timer fires */
    bool accept_warned;
    struct tcp_guest guests[TCP_HALF_OPEN_MAX];
    uint64_t guest_count; /* so far */
    uint32_t half_open;
    struct tcp_early *early;
    int64_t redial_ns; /* a peer dials again then; 0: none does */
    tutti_peer *peers;
    tutti_peer *direct[TCP_DIRECT_PEERS]; /* all ready peers while they are so few */
    uint32_t ready, settling;             /* peers in state READY; on the way there */
    uint32_t turns;                       /* of progress since the set was asked */
    uint64_t turn;                        /* of progress, ever */
    tutti_peer *unwatched;                /* the set has events of theirs that they do not want */
    tutti_peer *unread;                   /* to be read without an event */
    int64_t looked_ns;                    /* when connections were last looked at */
    tutti_peer *held;                     /* whose held bytes wait for the next message */
    tutti_peer *lost;                     /* the core is still to be told */
    tutti_request_queue done;             /* complete, not yet reported */
    uint64_t sent_bytes, received_bytes, sent_messages, received_messages;
};

static inline void *tcp_allocate(tutti_endpoint *endpoint, uint64_t bytes)
{
    return endpoint->host->allocate(endpoint->host_self, bytes);
}

static inline void tcp_release(tutti_endpoint *endpoint, void *memory)
{
    if (memory)
        endpoint->host->release(endpoint->host_self, memory);
}

/* tcp.c: gives the host the message of a failure and returns `status`. */
tutti_status tcp_error(tutti_endpoint *endpoint, tutti_status status, int32_t system_errno,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));
/* tcp.c: asks the epoll set for `events` of the source, 0: takes it out. False with errno when the
 * set has no room; taking out always works. */
bool tcp_watch(tutti_endpoint *endpoint, struct tcp_source *source, uint32_t events);

/* tcp_address.c */
tutti_status tcp_address_bind(tutti_endpoint *endpoint, const char *bind_address);
void tcp_address_pack(const struct tcp_address *address, uint8_t ret_packed[TCP_ADDRESS_BYTES]);
bool tcp_address_unpack(const uint8_t *packed, uint64_t bytes, struct tcp_address *ret_address);
void tcp_address_name(const struct tcp_address *address, char *ret_name, size_t capacity);
void tcp_put(uint8_t *to, uint64_t value, unsigned bytes); /* little-endian */
uint64_t tcp_get(const uint8_t *from, unsigned bytes);

/* tcp_listen.c: connections that peers open */
void tcp_listen_accept(tutti_endpoint *endpoint);
void tcp_listen_timer(tutti_endpoint *endpoint);
void tcp_listen_guest(tutti_endpoint *endpoint, struct tcp_guest *guest);
/* An early member has closed its connection, or says what it may not. */
void tcp_listen_early(tutti_endpoint *endpoint, struct tcp_early *early);
/* Sets the timer to the first thing that has to happen without an event. */
void tcp_listen_set_timer(tutti_endpoint *endpoint);
/* Frees early members that are gone; no event of the set may be in hand. */
void tcp_listen_sweep(tutti_endpoint *endpoint);
void tcp_listen_close(tutti_endpoint *endpoint);
/* The early member `id`; its connection becomes the caller's. */
struct tcp_link tcp_listen_take(tutti_endpoint *endpoint, uint64_t id);

/* tcp_link.c: connections, encrypted where the group is */
/* Takes the connection out of the set, for the caller. */
struct tcp_link tcp_link_take(tutti_endpoint *endpoint, struct tcp_source *source);
void tcp_link_close(tutti_endpoint *endpoint, struct tcp_link link);
/* Begins the encryption of a connection, where the group encrypts; the socket stays the source's. */
tutti_status tcp_link_secure(tutti_endpoint *endpoint, struct tcp_source *source, bool listens);
/* Writes a message of the handshake, for which a new connection has room. False with errno; EINPROGRESS: that
 * of the encryption is not over. */
bool tcp_link_say(tutti_endpoint *endpoint, struct tcp_link link, const void *message,
                  size_t bytes);
/* As recv(2). */
ssize_t tcp_link_hear(tutti_endpoint *endpoint, const struct tcp_source *source, void *message,
                      size_t bytes);
/* As sendmsg(2) and readv(2), of a connection with a channel. Not inlined: the way without one stays short. */
__attribute__((noinline)) ssize_t tcp_link_send(tutti_peer *peer, const struct iovec *pieces,
                                                size_t count);
__attribute__((noinline)) ssize_t tcp_link_receive(tutti_peer *peer, const struct iovec pieces[2]);
static inline struct tcp_link tcp_link_of(const struct tcp_source *source)
{
    return (struct tcp_link){source->fd, source->channel};
}

/* tcp_proof.c: both sides prove to be members; false of a tcp_proof_…: the other one has not */
bool tcp_proof_hello(tutti_peer *peer, uint8_t ret_hello[TCP_HELLO_BYTES]);
bool tcp_proof_answer(const tutti_peer *peer, const uint8_t challenge[TCP_CHALLENGE_BYTES],
                      uint8_t ret_proof[TCP_MAC_BYTES]);
/* Whether these are the first `bytes` of a hello to this endpoint. */
bool tcp_proof_may_be_hello(const tutti_endpoint *endpoint, const uint8_t *hello, uint32_t bytes);
/* guest->in is a hello; it gets an id and nonces. */
bool tcp_proof_challenge(tutti_endpoint *endpoint, struct tcp_guest *guest,
                         uint8_t ret_challenge[TCP_CHALLENGE_BYTES]);
/* guest->in is the proof. */
bool tcp_proof_check(tutti_endpoint *endpoint, const struct tcp_guest *guest);

/* tcp_connect.c: from no connection to exactly one */
tutti_status tcp_connect_dial(tutti_peer *peer);
void tcp_connect_event(tutti_peer *peer);
/* A connection from the peer's process is here: keeps or closes it. */
void tcp_connect_admit(tutti_peer *peer, struct tcp_link link);
/* Dials again whose time has come. */
void tcp_connect_again(tutti_endpoint *endpoint);
/* Nothing can be sent any more: sends complete, the core will be told. What has come is still to be read:
 * only a read that finds the end of it loses the peer. */
void tcp_connect_deafen(tutti_peer *peer, int system_errno, const char *what);
/* The connection is over: requests complete, the core will be told. system_errno may be 0. */
void tcp_connect_lose(tutti_peer *peer, int system_errno, const char *what);
/* Loses the peers whose network has not answered for long; to be called each second. */
void tcp_connect_look(tutti_endpoint *endpoint, int64_t now_ns);
/* Closes the peer's socket without telling anyone. */
void tcp_connect_drop(tutti_peer *peer, enum tcp_state state);

/* tcp_stream.c: messages over a connection */
void tcp_stream_send(tutti_peer *peer);    /* one burst of what is queued */
void tcp_stream_receive(tutti_peer *peer); /* one burst of what has come */
/* Keeps a short message back for the one that follows; false when it does not fit. */
bool tcp_stream_hold(tutti_peer *peer, const void *data, uint64_t bytes);
/* Gives received bytes to posted receives. */
void tcp_stream_consume(tutti_peer *peer);
/* Asks the set for what the stream can use now. */
void tcp_stream_watch(tutti_peer *peer);
/* Before a sleep: for nothing else. */
void tcp_stream_unwatch(tutti_endpoint *endpoint);
/* Reads the peers whose channels have something. */
void tcp_stream_receive_unread(tutti_endpoint *endpoint);
/* Whether the peer may be sent to in this turn. */
bool tcp_stream_may_send(tutti_peer *peer);
/* The request was cancelled and is still in its queue. */
void tcp_stream_forget(tutti_peer *peer, tutti_request *request);
