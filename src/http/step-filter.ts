// Leaves out the next steps of an error that the scopes of the caller's key do not allow.

import type { PublicError } from "../base/error-body.ts";
import { READ_OWN_KEY_STEP } from "../base/fault.ts";
import type { Route, StepFilter } from "./route.ts";
import { createRouter } from "./router.ts";
import type { Scope } from "./scopes.ts";

export function createStepFilter(routes: readonly Route[], baseUrl: string): StepFilter {
  const match = createRouter(routes);
  return (granted, { method, url }) => {
    const found = match(method, new URL(url, baseUrl).pathname);
    return (
      found.kind !== "route" || found.route.scope === undefined || granted.has(found.route.scope)
    );
  };
}

/** `granted` is undefined without a key. If no step is left, the caller reads what its key may do. */
export function withAllowedSteps(
  error: PublicError,
  granted: ReadonlySet<Scope> | undefined,
  allows: StepFilter | undefined,
): PublicError {
  const { next = [] } = error;
  if (granted === undefined || allows === undefined || next.length === 0) return error;
  const allowed = next.filter((step) => allows(granted, step));
  return { ...error, next: allowed.length === 0 ? [READ_OWN_KEY_STEP] : allowed };
}
