/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of UCX that the plugin looks for, by their names; library.h makes a table of them. */
#pragma once

/* Functions that every UCX from 1.13 on has. */
#define UCX_VERSION_FUNCTIONS(X)                                                                   \
    X(ucp_get_version)                                                                             \
    X(ucp_get_version_string)
#define UCX_FUNCTIONS(X)                                                                           \
    X(ucp_config_read)                                                                             \
    X(ucp_config_modify)                                                                           \
    X(ucp_config_release)                                                                          \
    X(ucp_config_print)                                                                            \
    X(ucp_init_version)                                                                            \
    X(ucp_context_query)                                                                           \
    X(ucp_cleanup)                                                                                 \
    X(ucp_worker_create)                                                                           \
    X(ucp_worker_query)                                                                            \
    X(ucp_worker_get_address)                                                                      \
    X(ucp_worker_release_address)                                                                  \
    X(ucp_worker_progress)                                                                         \
    X(ucp_worker_get_efd)                                                                          \
    X(ucp_worker_arm)                                                                              \
    X(ucp_worker_signal)                                                                           \
    X(ucp_worker_destroy)                                                                          \
    X(ucp_ep_create)                                                                               \
    X(ucp_ep_query)                                                                                \
    X(ucp_ep_flush_nbx)                                                                            \
    X(ucp_ep_close_nbx)                                                                            \
    X(ucp_ep_print_info)                                                                           \
    X(ucp_dt_create_generic)                                                                       \
    X(ucp_dt_destroy)                                                                              \
    X(ucp_tag_send_nbx)                                                                            \
    X(ucp_tag_recv_nbx)                                                                            \
    X(ucp_tag_probe_nb)                                                                            \
    X(ucp_tag_msg_recv_nbx)                                                                        \
    X(ucp_tag_recv_request_test)                                                                   \
    X(ucp_request_check_status)                                                                    \
    X(ucp_request_cancel)                                                                          \
    X(ucp_request_free)                                                                            \
    X(ucs_status_string)

/* Functions that may be missing; then the member is NULL. */
#define UCX_OPTIONAL_FUNCTIONS(X)                                                                  \
    X(ucp_worker_address_query)                                                                    \
    X(ucp_request_query)

/* What libuct tells of devices. */
#define UCX_DEVICE_FUNCTIONS(X)                                                                    \
    X(uct_query_components)                                                                        \
    X(uct_release_component_list)                                                                  \
    X(uct_component_query)                                                                         \
    X(uct_md_config_read)                                                                          \
    X(uct_md_open)                                                                                 \
    X(uct_md_close)                                                                                \
    X(uct_md_query_tl_resources)                                                                   \
    X(uct_release_tl_resource_list)                                                                \
    X(uct_md_iface_config_read)                                                                    \
    X(uct_config_get)                                                                              \
    X(uct_config_modify)                                                                           \
    X(uct_config_release)
