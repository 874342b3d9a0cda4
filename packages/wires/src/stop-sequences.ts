// Stop sequences for providers that accept only some of them.

import { addFieldLoss, type Loss } from "./canonical/canonical-losses.ts";
import type { CanonicalRequest } from "./canonical/canonical-request.ts";

/** Claude's APIs reject a sequence of white space. */
export function nonBlankStops(
  request: CanonicalRequest,
  losses: Loss[],
): readonly string[] | undefined {
  const stops = request.stop?.filter((stop) => stop.trim() !== "");
  if (stops?.length !== request.stop?.length)
    addFieldLoss(
      losses,
      request,
      "stop",
      "This provider rejects stop sequences that contain only whitespace.",
    );
  return stops?.length === 0 ? undefined : stops;
}

export function firstStops(
  request: CanonicalRequest,
  max: number,
  losses: Loss[],
): readonly string[] | undefined {
  const stops = request.stop?.slice(0, max);
  if (stops?.length !== request.stop?.length)
    addFieldLoss(losses, request, "stop", `This provider accepts at most ${max} stop sequences.`);
  return stops;
}
