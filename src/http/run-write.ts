// Runs a write route in one transaction with its idempotency record.

import { endedKeyFault } from "../base/fault.ts";
import type { Tx } from "../store/db.ts";
import { requireScope } from "./guards/authenticate.ts";
import type { RequestContext, RequestHandlerDeps } from "./request-context.ts";
import { idempotentCallOf } from "./request/idempotent-call.ts";
import { jsonResponse } from "./response.ts";
import type { AnyRouteInput, Route, RouteResponse } from "./route.ts";

export async function runWrite(
  deps: RequestHandlerDeps,
  context: RequestContext,
  route: Route,
  input: AnyRouteInput,
): Promise<Response> {
  const { write } = route;
  if (write === undefined) throw new Error(`route ${route.id} does not write`);
  const prepared = await route.before?.(input);
  const call = idempotentCallOf(context.path, route, input);
  const result = await deps.db.write(
    async (tx): Promise<{ response: RouteResponse; replayed: boolean }> => {
      await requireLiveKey(deps, tx, route, input);
      if (call === undefined)
        return { response: await write(tx, input, prepared), replayed: false };
      const stored = await deps.beginIdempotent(tx, call);
      if (stored !== undefined)
        return {
          response: { status: stored.status, body: JSON.parse(stored.body) },
          replayed: true,
        };
      const response = await write(tx, input, prepared);
      const body = JSON.stringify(response.body);
      await deps.finishIdempotent(tx, call, { status: response.status, body });
      return { response, replayed: false };
    },
  );
  result.response.afterCommit?.();
  const response = jsonResponse(result.response);
  response.headers.set("cache-control", "no-store");
  if (result.replayed) response.headers.set("idempotent-replayed", "true");
  return response;
}

// The key was authenticated before the body was read, which may take minutes: it may have been revoked or narrowed since.
async function requireLiveKey(
  deps: RequestHandlerDeps,
  tx: Tx,
  route: Route,
  { caller }: AnyRouteInput,
): Promise<void> {
  if (deps.findLiveKey === undefined || caller === undefined || !("keyId" in caller)) return;
  const key = await deps.findLiveKey(tx, caller.keyId, deps.now());
  if (key === undefined) throw endedKeyFault("key revoked or expired while its request was read");
  requireScope(route, key);
}
