/* SPDX-License-Identifier: Apache-2.0 */
/* The first minor has no wrappers. This file stands before today's where the two layouts are compared. */
