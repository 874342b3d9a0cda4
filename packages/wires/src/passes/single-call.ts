// One call at a time, for providers that cannot forbid parallel calls: the reply keeps the first.

import type { CanonicalRequest } from "../canonical/canonical-request.ts";
import type { ChangedRequest } from "./translation-step.ts";

export function withSingleCall(request: CanonicalRequest): ChangedRequest {
  return request.parallelToolCalls === false
    ? { request, createUndo: () => ({ keepsFirstCall: true }) }
    : { request };
}
