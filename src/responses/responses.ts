// Responses that the gateway keeps for its callers, so that a conversation goes on by an id with every provider. It owns
// the tables stored_response and stored_item. Nothing is kept unless asked for, all of it sealed, for one account, and for
// a time; nothing of it is ever in a provider's account.

import { Fault, invalid } from "../base/fault.ts";
import { isId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import type { Secret } from "../base/secret.ts";
import type { ParsedRequest } from "../inference/request/parse-request.ts";
import type { JsonObject } from "../base/json.ts";
import type { CallInput, StatefulCall } from "../inference/lifecycle/call.ts";
import type { Db, Tx } from "../store/db.ts";
import { type BackgroundDeps, createBackground } from "./background.ts";
import { deriveKek } from "./encryption.ts";
import {
  type DecryptedResponse,
  decryptStored,
  readHistory,
  NOT_STORED_NEXT_STEPS,
  resolveReferences,
} from "./history.ts";
import { referencedId } from "./items.ts";
import {
  deleteExpired,
  deleteResponse,
  failOrphaned,
  findResponse,
  findUsage,
  stopResponse,
  type StoredResponse,
  accountStorageUsage,
} from "./rows.ts";
import { createStoredCall } from "./stored-call.ts";

const ACCOUNT_RESPONSES_MAX = 20_000;
const ACCOUNT_BYTES_MAX = 1_073_741_824;
const SWEEP_BATCH = 200;

export interface Responses {
  /** What a call needs that has to do with stored responses; undefined at once for every other call. */
  readonly prepareCall: (
    request: ParsedRequest,
    input: CallInput,
  ) => Promise<StatefulCall | Response | undefined> | undefined;
  readonly find: (accountId: string, id: string, now: number) => Promise<StoredResponseView>;
  readonly remove: (tx: Tx, accountId: string, id: string, now: number) => Promise<void>;
  readonly cancel: (accountId: string, id: string, now: number) => Promise<StoredResponseView>;
  /** Deletes what has expired. */
  readonly sweep: (now: number) => Promise<void>;
  /** Fails what a process that died had running in the background. */
  readonly failOrphaned: (startedBefore: number) => Promise<void>;
  /** Ends what was cancelled or deleted through another process. */
  readonly abortCanceled: () => Promise<void>;
  /** Ends what runs in the background, since the process does: what was metered is charged. */
  readonly abortAll: () => void;
  /** Resolves when nothing runs in the background. */
  readonly whenIdle: () => Promise<void>;
}

export interface StoredResponseView {
  readonly stored: StoredResponse;
  readonly opened: DecryptedResponse;
  /** What was charged where the call was stopped, which its own response does not say. */
  readonly usage: JsonObject | undefined;
}

export interface ResponsesDeps {
  readonly db: Db;
  readonly master: Secret;
  readonly log: Log;
  readonly infer: (input: CallInput) => Promise<Response>;
  readonly storeIdempotentReply: BackgroundDeps["storeIdempotentReply"];
}

export function createResponses(deps: ResponsesDeps): Responses {
  const { db } = deps;
  const kek = deriveKek(deps.master);
  const background = createBackground(deps);
  const find: Responses["find"] = async (accountId, id, now) => {
    const stored = await findResponse(db, accountId, id, now);
    if (stored === undefined) throw notFound(id);
    const isStopped = stored.status === "cancelled" || stored.status === "failed";
    const usage = isStopped ? await findUsage(db, stored) : undefined;
    return { stored, opened: decryptStored(kek, stored), usage };
  };

  const begin = async (
    request: ParsedRequest,
    input: CallInput,
  ): Promise<StatefulCall | Response | undefined> => {
    const { json } = request;
    const { accountId } = input.caller;
    const shouldStore = json["store"] === true;
    const context = { reader: db, kek, accountId, now: input.now };
    const previousId = previousResponseId(json);
    const history = previousId === undefined ? undefined : await readHistory(context, previousId);
    const resolvedItems = await resolveReferences(context, json["input"]);
    if (!shouldStore && history === undefined && resolvedItems === undefined) return undefined;
    if (shouldStore) rejectOverStorageLimit(await accountStorageUsage(db, accountId));
    const isBackground = json["background"] === true;
    if (isBackground) rejectStreamedBackground(json);
    const storedCall = createStoredCall({
      request,
      input,
      history,
      resolvedItems,
      kek,
      shouldStore,
      isBackground,
    });
    return isBackground ? background.start(storedCall, input) : storedCall.call;
  };

  return {
    prepareCall: (ask, input) => (isStateful(ask) ? begin(ask, input) : undefined),
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
      background.abort(id);
      const after = await find(accountId, id, now);
      if (!stopped && after.stored.status !== "cancelled")
        throw invalid("id", `The response ${id} has ended already: it is ${after.stored.status}.`);
      return after;
    },
    sweep: async (now) => {
      for (let swept = SWEEP_BATCH; swept === SWEEP_BATCH;)
        swept = await db.write((tx) => deleteExpired(tx, now, SWEEP_BATCH));
    },
    failOrphaned: async (startedBefore) => {
      await db.write((tx) => failOrphaned(tx, startedBefore));
    },
    abortCanceled: background.abortCanceled,
    abortAll: background.abortAll,
    whenIdle: background.whenIdle,
  };
}

// A reference into a provider's account is the guard's matter: relayed whole on the caller's own key, refused elsewhere.
function isStateful({ api, json }: ParsedRequest): boolean {
  if (api !== "responses") return false;
  const { store } = json;
  if (store !== undefined && store !== null && typeof store !== "boolean")
    throw invalid("store", "store must be true or false.");
  const previous = json["previous_response_id"] ?? undefined;
  const previousId = previousResponseId(json);
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
  return Array.isArray(input) && input.some((item) => referencedId(item) !== undefined);
}

/** The id of a response, where it has the form of ours. */
function previousResponseId(json: JsonObject): string | undefined {
  const id = json["previous_response_id"];
  return typeof id === "string" && isId("resp", id) ? id : undefined;
}

function rejectStreamedBackground(json: JsonObject): void {
  if (json["stream"] === true)
    throw invalid(
      "stream",
      "A background response is not streamed here. Leave stream out and ask for it with GET /v1/responses/{id}.",
    );
}

function rejectOverStorageLimit({
  responses,
  bytes,
}: {
  readonly responses: number;
  readonly bytes: number;
}): void {
  if (responses < ACCOUNT_RESPONSES_MAX && bytes < ACCOUNT_BYTES_MAX) return;
  throw new Fault("conflict", "too much is stored", {
    message: `This account has ${responses} stored responses of ${Math.ceil(bytes / 1_048_576)} MiB together; ${ACCOUNT_RESPONSES_MAX} of ${ACCOUNT_BYTES_MAX / 1_048_576} MiB may be kept. Delete some with DELETE /v1/responses/{id}, or leave store out.`,
    param: "store",
  });
}

function notFound(id: string): Fault {
  return new Fault("not_found", "no such stored response", {
    message: `There is no stored response ${id.slice(0, 80)} in this account. Responses are stored only where they were asked for with store: true, for 30 days.`,
    param: "id",
    next: NOT_STORED_NEXT_STEPS,
  });
}
