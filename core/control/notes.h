/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of members to the first one; under the lock. The rest is in control.h. */
#pragma once

#include "control/control.h"

void control_on_note(struct control *control, const uint8_t *body, size_t size);
void control_notes_free(struct control *control);
