/* SPDX-License-Identifier: Apache-2.0 */
/* Compares ucc_api.h with UCC's own header, where the compiler finds one: 1.3 or later. */
#include "ucc_api.h"

#if defined __has_include
#if __has_include(<ucc/api/ucc.h>)
#include <ucc/api/ucc.h>

#define SAME(ours, theirs)                                                                         \
    _Static_assert((long long)(ours) == (long long)(theirs), #ours " and " #theirs)
#define SAME_SIZE(ours, theirs) SAME(sizeof(ours), sizeof(theirs))
#define SAME_PLACE(ours, member, theirs, their_member)                                             \
    SAME(offsetof(ours, member), offsetof(theirs, their_member));                                  \
    SAME(sizeof(((ours *)0)->member), sizeof(((theirs *)0)->their_member))

SAME(UCCI_MAJOR, UCC_API_MAJOR);
SAME(UCCI_INPROGRESS, UCC_INPROGRESS);
SAME(UCCI_INITIALIZED, UCC_OPERATION_INITIALIZED);
SAME(UCCI_ERR_NOT_SUPPORTED, UCC_ERR_NOT_SUPPORTED);
SAME(UCCI_ERR_NO_MEMORY, UCC_ERR_NO_MEMORY);
SAME(UCCI_ERR_NO_MESSAGE, UCC_ERR_NO_MESSAGE);
SAME(UCCI_ALLGATHER, UCC_COLL_TYPE_ALLGATHER);
SAME(UCCI_BARRIER, UCC_COLL_TYPE_BARRIER);
SAME(UCCI_BCAST, UCC_COLL_TYPE_BCAST);
SAME(UCCI_GATHER, UCC_COLL_TYPE_GATHER);
SAME(UCCI_REDUCE, UCC_COLL_TYPE_REDUCE);
SAME(UCCI_REDUCE_SCATTERV, UCC_COLL_TYPE_REDUCE_SCATTERV);
SAME(UCCI_SCATTERV, UCC_COLL_TYPE_SCATTERV);
SAME(UCCI_INT64, UCC_DT_INT64);
SAME(UCCI_UINT8, UCC_DT_UINT8);
SAME(UCCI_UINT64, UCC_DT_UINT64);
SAME(UCCI_FLOAT16, UCC_DT_FLOAT16);
SAME(UCCI_FLOAT64, UCC_DT_FLOAT64);
SAME(UCCI_BFLOAT16, UCC_DT_BFLOAT16);
SAME(UCCI_FLOAT64_COMPLEX, UCC_DT_FLOAT64_COMPLEX);
SAME(UCCI_SUM, UCC_OP_SUM);
SAME(UCCI_PROD, UCC_OP_PROD);
SAME(UCCI_MAX, UCC_OP_MAX);
SAME(UCCI_MIN, UCC_OP_MIN);
SAME(UCCI_BXOR, UCC_OP_BXOR);
SAME(UCCI_AVG, UCC_OP_AVG);
SAME(UCCI_MEMORY_HOST, UCC_MEMORY_TYPE_HOST);
SAME(UCCI_MEMORY_CUDA, UCC_MEMORY_TYPE_CUDA);
SAME(UCCI_THREAD_MULTIPLE, UCC_THREAD_MULTIPLE);
SAME(UCCI_CONTEXT_SHARED, UCC_CONTEXT_SHARED);
SAME(UCCI_EP_MAP_CB, UCC_EP_MAP_CB);
SAME(UCCI_FLAG_IN_PLACE, UCC_COLL_ARGS_FLAG_IN_PLACE);
SAME(UCCI_FLAG_COUNT_64BIT, UCC_COLL_ARGS_FLAG_COUNT_64BIT);
SAME(UCCI_FLAG_DISPLACEMENTS_64BIT, UCC_COLL_ARGS_FLAG_DISPLACEMENTS_64BIT);
SAME(UCCI_LIB_FIELD_THREAD_MODE, UCC_LIB_PARAM_FIELD_THREAD_MODE);
SAME(UCCI_LIB_FIELD_THREAD_MODE, UCC_LIB_ATTR_FIELD_THREAD_MODE);
SAME(UCCI_CONTEXT_FIELD_TYPE, UCC_CONTEXT_PARAM_FIELD_TYPE);
SAME(UCCI_CONTEXT_FIELD_OOB, UCC_CONTEXT_PARAM_FIELD_OOB);
SAME(UCCI_TEAM_FIELD_EP, UCC_TEAM_PARAM_FIELD_EP);
SAME(UCCI_TEAM_FIELD_EP_RANGE, UCC_TEAM_PARAM_FIELD_EP_RANGE);
SAME(UCCI_TEAM_FIELD_SIZE, UCC_TEAM_PARAM_FIELD_TEAM_SIZE);
SAME(UCCI_TEAM_FIELD_OOB, UCC_TEAM_PARAM_FIELD_OOB);
SAME(UCCI_TEAM_FIELD_EP_MAP, UCC_TEAM_PARAM_FIELD_EP_MAP);
SAME(UCCI_TEAM_FIELD_ID, UCC_TEAM_PARAM_FIELD_ID);
SAME(UCCI_ARGS_FIELD_FLAGS, UCC_COLL_ARGS_FIELD_FLAGS);

SAME_SIZE(ucci_status, ucc_status_t);
SAME_SIZE(ucci_request, ucc_coll_req_t);
SAME_SIZE(ucci_lib_params, ucc_lib_params_t);
SAME_PLACE(ucci_lib_params, thread_mode, ucc_lib_params_t, thread_mode);
SAME_SIZE(ucci_lib_attr, ucc_lib_attr_t);
SAME_SIZE(ucci_oob, ucc_oob_coll_t);
SAME_PLACE(ucci_oob, info, ucc_oob_coll_t, coll_info);
SAME_PLACE(ucci_oob, members, ucc_oob_coll_t, n_oob_eps);
SAME_PLACE(ucci_oob, place, ucc_oob_coll_t, oob_ep);
SAME_SIZE(ucci_context_params, ucc_context_params_t);
SAME_PLACE(ucci_context_params, oob, ucc_context_params_t, oob);
SAME_SIZE(ucci_context_attr, ucc_context_attr_t);
SAME_SIZE(ucci_ep_map, ucc_ep_map_t);
SAME_PLACE(ucci_ep_map, by.array.map, ucc_ep_map_t, array.map);
SAME_SIZE(ucci_team_params, ucc_team_params_t);
SAME_PLACE(ucci_team_params, ep, ucc_team_params_t, ep);
SAME_PLACE(ucci_team_params, ep_range, ucc_team_params_t, ep_range);
SAME_PLACE(ucci_team_params, oob, ucc_team_params_t, oob);
SAME_PLACE(ucci_team_params, ep_map, ucc_team_params_t, ep_map);
SAME_PLACE(ucci_team_params, id, ucc_team_params_t, id);
SAME_PLACE(ucci_coll_args, coll_type, ucc_coll_args_t, coll_type);
SAME_PLACE(ucci_coll_args, src, ucc_coll_args_t, src);
SAME_PLACE(ucci_coll_args, dst, ucc_coll_args_t, dst);
SAME_PLACE(ucci_coll_args, src.even.memory, ucc_coll_args_t, src.info.mem_type);
SAME_PLACE(ucci_coll_args, src.uneven.memory, ucc_coll_args_t, src.info_v.mem_type);
SAME_PLACE(ucci_coll_args, op, ucc_coll_args_t, op);
SAME_PLACE(ucci_coll_args, flags, ucc_coll_args_t, flags);
SAME_PLACE(ucci_coll_args, root, ucc_coll_args_t, root);
SAME_PLACE(ucci_coll_args, timeout, ucc_coll_args_t, timeout);
SAME_PLACE(ucci_coll_args, active_set, ucc_coll_args_t, active_set);
_Static_assert(sizeof(ucci_coll_args) >= sizeof(ucc_coll_args_t), "the library reads further");
#endif
#endif
