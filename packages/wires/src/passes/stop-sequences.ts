// Stop sequences for models and APIs that do not take them: the reply ends at the first one here. The provider writes on, and
// what it writes is billed.

import type { CanonicalRequest } from "../canonical/canonical-request.ts";
import type { ChangedRequest } from "./translation-step.ts";

export function withoutStops(request: CanonicalRequest): ChangedRequest {
  const stops = request.stop?.filter((stop) => stop !== "") ?? [];
  if (stops.length === 0) return { request };
  return { request: { ...request, stop: undefined }, createUndo: () => ({ stops }) };
}
