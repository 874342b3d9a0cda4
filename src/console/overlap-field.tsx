/** @jsxImportSource hono/jsx */
// The form field that says how long a replaced secret stays valid.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { DAY_MS, HOUR_MS } from "../base/time.ts";

const OVERLAPS = {
  none: { label: "None", ms: 0 },
  hour: { label: "1 hour", ms: HOUR_MS },
  day: { label: "24 hours", ms: DAY_MS },
  week: { label: "7 days", ms: 7 * DAY_MS },
} as const;

export const Overlap = z.enum(["none", "hour", "day", "week"]);

export function overlapMs(overlap: z.infer<typeof Overlap>): number {
  return OVERLAPS[overlap].ms;
}

export function OverlapField({
  id,
  secretName,
}: {
  readonly id: string;
  readonly secretName: string;
}): Child {
  return (
    <div class="field">
      <label for={id}>Overlap</label>
      <select id={id} name="overlap" aria-describedby={`${id}-hint`}>
        {Overlap.options.map((value) => (
          <option value={value} selected={value === "day"}>
            {OVERLAPS[value].label}
          </option>
        ))}
      </select>
      <p id={`${id}-hint`} class="hint">
        How long the {secretName} works too. Choose none if it may have leaked.
      </p>
    </div>
  );
}
