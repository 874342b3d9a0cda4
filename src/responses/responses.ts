// Responses that the gateway keeps for its callers, so that a conversation goes on by an id with every provider. It owns
// the tables stored_response and stored_item. Nothing is kept unless asked for, all of it sealed, for one account, and for
// a time; nothing of it is ever in a provider's account.

import { Fault, invalid } from "../base/fault.ts";
import { isId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import type { Secret } from "../base/secret.ts";
import type { Ask, Json } from "../inference/ask.ts";
import type { CallInput, StatefulCall } from "../inference/call.ts";
import type { Db, Tx } from "../store/db.ts";
import { type BackgroundParts, createBackground } from "./background.ts";
import { deriveKek } from "./envelope.ts";
import { type Opened, openStored, readHistory, WITHOUT_IT, withReferences } from "./history.ts";
import { referenceOf } from "./items.ts";
import {
  deleteExpired,
  deleteResponse,
  failDead,
  findResponse,
  findUsage,
  stopResponse,
  type StoredResponse,
  sumOfAccount,
} from "./rows.ts";
import { createTurn } from "./turn.ts";

const ACCOUNT_RESPONSES_MAX = 20_000;
const ACCOUNT_MAX_BYTES = 1_073_741_824;
const SWEEP_MOST = 200;

export interface Responses {
  /** What a call needs that has to do with stored responses; undefined at once for every other call. */
  readonly stateOf: (
    ask: Ask,
    input: CallInput,
  ) => Promise<StatefulCall | Response | undefined> | undefined;
  readonly find: (accountId: string, id: string, now: number) => Promise<Found>;
  readonly remove: (tx: Tx, accountId: string, id: string, now: number) => Promise<void>;
  readonly cancel: (accountId: string, id: string, now: number) => Promise<Found>;
  /** Deletes what has expired. */
  readonly sweep: (now: number) => Promise<void>;
  /** Fails what a process that died had running in the background. */
  readonly failDead: (startedBefore: number) => Promise<void>;
  /** Ends what was cancelled or deleted through another process. */
  readonly watch: () => Promise<void>;
  /** Ends what runs in the background, since the process does: what was metered is charged. */
  readonly stopAll: () => void;
  /** Resolves when nothing runs in the background. */
  readonly idle: () => Promise<void>;
}

export interface Found {
  readonly stored: StoredResponse;
  readonly opened: Opened;
  /** What was charged where the call was stopped, which its own response does not say. */
  readonly usage: Json | undefined;
}

export interface ResponsesParts {
  readonly db: Db;
  readonly master: Secret;
  readonly log: Log;
  readonly infer: (input: CallInput) => Promise<Response>;
  readonly finishCall: BackgroundParts["finishCall"];
}

export function createResponses(parts: ResponsesParts): Responses {
  const { db } = parts;
  const kek = deriveKek(parts.master);
  const background = createBackground(parts);
  const find: Responses["find"] = async (accountId, id, now) => {
    const stored = await findResponse(db, accountId, id, now);
    if (stored === undefined) throw notFound(id);
    const isStopped = stored.status === "cancelled" || stored.status === "failed";
    const usage = isStopped ? await findUsage(db, stored) : undefined;
    return { stored, opened: openStored(kek, stored), usage };
  };

  const begin = async (
    ask: Ask,
    input: CallInput,
  ): Promise<StatefulCall | Response | undefined> => {
    const { json } = ask;
    const { accountId } = input.caller;
    const stores = json["store"] === true;
    const asking = { reader: db, kek, accountId, now: input.now };
    const previousId = previousOf(json);
    const history = previousId === undefined ? undefined : await readHistory(asking, previousId);
    const own = await withReferences(asking, json["input"]);
    if (!stores && history === undefined && own === undefined) return undefined;
    if (stores) refuseFull(await sumOfAccount(db, accountId));
    const runsLater = json["background"] === true;
    if (runsLater) refuseBackground(json);
    const turn = createTurn({ ask, input, history, own, kek, stores, runsLater });
    return runsLater ? background.start(turn, input) : turn.call;
  };

  return {
    stateOf: (ask, input) => (asksForState(ask) ? begin(ask, input) : undefined),
    find,
    remove: async (tx, accountId, id, now) => {
      const stored = await findResponse(tx, accountId, id, now);
      if (stored === undefined || !(await deleteResponse(tx, accountId, id))) throw notFound(id);
    },
    cancel: async (accountId, id, now) => {
      const { stored } = await find(accountId, id, now);
      if (!stored.background)
        throw invalid("id", "Only a response that was created with background: true is cancelled.");
      const stopped = await db.write((tx) =>
        stopResponse(tx, { id, accountId, status: "cancelled" }),
      );
      background.stop(id);
      const after = await find(accountId, id, now);
      if (!stopped && after.stored.status !== "cancelled")
        throw invalid("id", `The response ${id} has ended already: it is ${after.stored.status}.`);
      return after;
    },
    sweep: async (now) => {
      for (let swept = SWEEP_MOST; swept === SWEEP_MOST;)
        swept = await db.write((tx) => deleteExpired(tx, now, SWEEP_MOST));
    },
    failDead: async (startedBefore) => {
      await db.write((tx) => failDead(tx, startedBefore));
    },
    watch: background.watch,
    stopAll: background.stopAll,
    idle: background.idle,
  };
}

// A reference into a provider's account is the guard's matter: relayed whole on the caller's own key, refused elsewhere.
function asksForState({ api, json }: Ask): boolean {
  if (api !== "responses") return false;
  const { store } = json;
  if (store !== undefined && store !== null && typeof store !== "boolean")
    throw invalid("store", "store must be true or false.");
  const previous = json["previous_response_id"] ?? undefined;
  const previousId = previousOf(json);
  if (previous !== undefined && previousId === undefined) return false;
  const conversation = json["conversation"] ?? undefined;
  if (conversation !== undefined && previousId === undefined) return false;
  if (conversation !== undefined)
    throw invalid(
      "conversation",
      "There are no conversation objects here. Go on with previous_response_id alone.",
    );
  if (store === true || previousId !== undefined) return true;
  const { input } = json;
  return Array.isArray(input) && input.some((item) => referenceOf(item) !== undefined);
}

/** The id of a response, where it has the form of ours. */
function previousOf(json: Json): string | undefined {
  const id = json["previous_response_id"];
  return typeof id === "string" && isId("resp", id) ? id : undefined;
}

function refuseBackground(json: Json): void {
  if (json["stream"] === true)
    throw invalid(
      "stream",
      "A background response is not streamed here. Leave stream out and ask for it with GET /v1/responses/{id}.",
    );
}

function refuseFull({
  responses,
  bytes,
}: {
  readonly responses: number;
  readonly bytes: number;
}): void {
  if (responses < ACCOUNT_RESPONSES_MAX && bytes < ACCOUNT_MAX_BYTES) return;
  throw new Fault("conflict", "too much is stored", {
    message: `This account has ${responses} stored responses of ${Math.ceil(bytes / 1_048_576)} MiB together; ${ACCOUNT_RESPONSES_MAX} of ${ACCOUNT_MAX_BYTES / 1_048_576} MiB may be kept. Delete some with DELETE /v1/responses/{id}, or leave store out.`,
    param: "store",
  });
}

function notFound(id: string): Fault {
  return new Fault("not_found", "no such stored response", {
    message: `There is no stored response ${id.slice(0, 80)} in this account. Responses are stored only where they were asked for with store: true, for 30 days.`,
    param: "id",
    next: WITHOUT_IT,
  });
}
