/* SPDX-License-Identifier: Apache-2.0 */
/* Visibility of what libtutti and plugins export. */
#ifndef TUTTI_EXPORT_H
#define TUTTI_EXPORT_H

#if defined(__GNUC__) || defined(__clang__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

#endif
