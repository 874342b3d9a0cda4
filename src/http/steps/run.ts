// Runs the function of a route: alone, or in one transaction with its idempotency record.

import { endedKeyFault } from "../../base/fault.ts";
import type { Db, Reader, Tx } from "../../store/db.ts";
import type { RequestContext, Step } from "../request-context.ts";
import { type IdempotentCall, idempotentCallOf } from "../request/idempotent-call.ts";
import { jsonResponse } from "../response.ts";
import type { AnyRouteInput, AuthenticatedKey, Route, RouteResponse } from "../route.ts";
import { requireScope } from "./authenticate.ts";

interface StoredReply {
  readonly status: number;
  readonly body: string;
}

export interface WriteDeps {
  readonly db: Db;
  readonly beginIdempotent: (tx: Tx, call: IdempotentCall) => Promise<StoredReply | undefined>;
  readonly finishIdempotent: (tx: Tx, call: IdempotentCall, reply: StoredReply) => Promise<unknown>;
  /** Rechecks, inside the transaction, a key that was authenticated when the request arrived. */
  readonly findLiveKey?: (
    reader: Reader,
    keyId: string,
    now: number,
  ) => Promise<AuthenticatedKey | undefined>;
}

export const runRead: Step = (context, route) => {
  if (route.read === undefined) throw new Error(`route ${route.id} does not read`);
  return route.read(inputOf(context, route));
};

export function runWrite(deps: WriteDeps, clock: () => number): Step {
  return async (context, route) => {
    const { write } = route;
    if (write === undefined) throw new Error(`route ${route.id} does not write`);
    const input = inputOf(context, route);
    const prepared = await route.before?.(input);
    const call = idempotentCallOf(context.path, route, input);
    const run = async (
      tx: Tx,
    ): Promise<{ readonly response: RouteResponse; readonly isReplayed: boolean }> => {
      await requireLiveKey(deps, tx, context, { route, now: clock() });
      if (call === undefined)
        return { response: await write(tx, input, prepared), isReplayed: false };
      const stored = await deps.beginIdempotent(tx, call);
      if (stored !== undefined)
        return {
          response: { status: stored.status, body: JSON.parse(stored.body) },
          isReplayed: true,
        };
      const response = await write(tx, input, prepared);
      const body = JSON.stringify(response.body);
      await deps.finishIdempotent(tx, call, { status: response.status, body });
      return { response, isReplayed: false };
    };
    const { response: result, isReplayed } = await deps.db.write(run).catch(async (error) => {
      await route.undo?.(prepared);
      throw error;
    });
    if (isReplayed) await route.undo?.(prepared);
    result.afterCommit?.();
    const response = jsonResponse(result);
    response.headers.set("cache-control", "no-store");
    if (isReplayed) response.headers.set("idempotent-replayed", "true");
    return response;
  };
}

function inputOf({ input }: RequestContext, { id }: Route): AnyRouteInput {
  if (input === undefined) throw new Error(`the input of ${id} was not parsed`);
  return input;
}

// The key was authenticated before the body was read, which may take minutes: it may have been revoked or narrowed since.
async function requireLiveKey(
  { findLiveKey }: WriteDeps,
  tx: Tx,
  { caller: { key } }: RequestContext,
  { route, now }: { readonly route: Route; readonly now: number },
): Promise<void> {
  if (findLiveKey === undefined || key === undefined) return;
  const live = await findLiveKey(tx, key.keyId, now);
  if (live === undefined) throw endedKeyFault("key revoked or expired while its request was read");
  requireScope(route, live);
}
