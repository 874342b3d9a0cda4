/** @jsxImportSource hono/jsx */
// The form fields that choose the event types of a webhook.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { ALL_EVENTS, EVENT_TYPES } from "../../activity/events.ts";
import { Option } from "../../http/pages/components/form.tsx";

const Checkbox = z.literal("on").optional();

export const EVENT_FIELDS = {
  all_events: Checkbox,
  ...Object.fromEntries(EVENT_TYPES.map((type) => [type, Checkbox])),
};

/** Undefined, which is all events, if none or all are chosen. */
export function chosenEvents(
  form: Readonly<Record<string, string | undefined>>,
): readonly string[] | undefined {
  if (form["all_events"] === "on") return undefined;
  const chosen = EVENT_TYPES.filter((type) => form[type] === "on");
  return chosen.length === 0 ? undefined : chosen;
}

export function EventFields({
  id,
  events = [ALL_EVENTS],
}: {
  readonly id: string;
  readonly events?: readonly string[] | undefined;
}): Child {
  const isAll = events.includes(ALL_EVENTS);
  return (
    <fieldset class="events">
      <legend>Events</legend>
      <Option
        id={`${id}-all`}
        input={{ type: "checkbox", name: "all_events", value: "on" }}
        isChecked={isAll}
        label="All events, also those that are added later"
      />
      <p class="hint">Clear it to choose some.</p>
      <div class="event-options">
        {EVENT_TYPES.map((type) => (
          <Option
            id={`${id}-${type}`}
            input={{ type: "checkbox", name: type, value: "on" }}
            isChecked={!isAll && events.includes(type)}
            label={<code>{type}</code>}
          />
        ))}
      </div>
    </fieldset>
  );
}
