// Call ids are made unique for a provider, so a reused id does not come back unchanged. fast-check prefers some texts, such as
// `constructor`, and so repeats ids.

import type { Turn } from "../src/canonical/canonical-request.ts";

export function hasUniqueCallIds(turns: readonly Turn[]): boolean {
  const ids = turns.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.type === "tool_call" ? [part.id] : [])),
  );
  return new Set(ids).size === ids.length;
}
