/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of members to the first one; under the lock. The rest is in control.h. */
#ifndef TUTTI_CONTROL_NOTES_H
#define TUTTI_CONTROL_NOTES_H

#include "control/control.h"

void control_on_note(struct control *control, const uint8_t *body, size_t size);
void control_notes_free(struct control *control);

#endif
