// Stored responses, which let a conversation continue by id with any provider. Owns the tables stored_response and
// stored_item. Responses are stored only on request, encrypted, per account and for 30 days; never at a provider.

import { Fault, invalid } from "../base/fault.ts";
import { isId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import type { Secret } from "../base/secret.ts";
import type { ParsedRequest } from "../inference/request/parse-request.ts";
import type { JsonObject } from "../base/json.ts";
import type { CallInput, StatefulCall } from "../inference/lifecycle/call.ts";
import type { Db, Tx } from "../store/db.ts";
import type { StoredResponseView } from "./api-record.ts";
import { type Background, type BackgroundDeps, createBackground } from "./background.ts";
import { deriveKek } from "./encryption.ts";
import {
  decryptStored,
  readHistory,
  NOT_STORED_NEXT_STEPS,
  RETENTION_TEXT,
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
  accountStorageUsage,
} from "./rows.ts";
import { createStoredCall } from "./stored-call.ts";

const ACCOUNT_RESPONSES_MAX = 20_000;
const ACCOUNT_BYTES_MAX = 1_073_741_824;
const SWEEP_BATCH = 200;

export interface Responses {
  /** Prepares a call that stores or continues responses; undefined, without a promise, for every other call. */
  readonly prepareCall: (
    request: ParsedRequest,
    input: CallInput,
  ) => Promise<StatefulCall | Response | undefined> | undefined;
  readonly find: (accountId: string, id: string, now: number) => Promise<StoredResponseView>;
  readonly remove: (tx: Tx, accountId: string, id: string, now: number) => Promise<void>;
  readonly cancel: (accountId: string, id: string, now: number) => Promise<StoredResponseView>;
  /** Deletes expired responses. */
  readonly sweep: (now: number) => Promise<void>;
  /** Fails background responses of dead processes. */
  readonly failOrphaned: (startedBefore: number) => Promise<void>;
  /** Aborts responses that were canceled or deleted through another process. */
  readonly abortCanceled: () => Promise<void>;
  /** Aborts all background responses, for shutdown; their usage so far is charged. */
  readonly abortAll: () => void;
  /** Resolves when no background response is running. */
  readonly whenIdle: () => Promise<void>;
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
    return { stored, decrypted: decryptStored(kek, stored), usage };
  };

  return {
    prepareCall: (request, input) =>
      isStateful(request)
        ? prepareStatefulCall({ db, kek, background }, request, input)
        : undefined,
    find,
    remove: async (tx, accountId, id, now) => {
      const stored = await findResponse(tx, accountId, id, now);
      if (stored === undefined || !(await deleteResponse(tx, accountId, id))) throw notFound(id);
    },
    cancel: async (accountId, id, now) => {
      const { stored } = await find(accountId, id, now);
      if (!stored.background)
        throw invalid("id", "Only responses created with `background: true` can be canceled.");
      const stopped = await db.write((tx) =>
        stopResponse(tx, { id, accountId, status: "cancelled" }),
      );
      background.abort(id);
      const after = await find(accountId, id, now);
      if (!stopped && after.stored.status !== "cancelled")
        throw invalid(
          "id",
          `The response ${id} has already ended with status \`${after.stored.status}\`.`,
        );
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

interface StatefulCallDeps {
  readonly db: Db;
  readonly kek: Uint8Array;
  readonly background: Background;
}

async function prepareStatefulCall(
  { db, kek, background }: StatefulCallDeps,
  request: ParsedRequest,
  input: CallInput,
): Promise<StatefulCall | Response | undefined> {
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
}

// References to provider-side state are not ours: shared-credentials.ts passes them through with the caller's own provider key
// and rejects them otherwise.
function isStateful({ api, json }: ParsedRequest): boolean {
  if (api !== "responses") return false;
  const { store } = json;
  if (store !== undefined && store !== null && typeof store !== "boolean")
    throw invalid("store", "`store` must be true or false.");
  const previous = json["previous_response_id"] ?? undefined;
  const previousId = previousResponseId(json);
  if (previous !== undefined && previousId === undefined) return false;
  const conversation = json["conversation"] ?? undefined;
  if (conversation !== undefined && previousId === undefined) return false;
  if (conversation !== undefined)
    throw invalid(
      "conversation",
      "Conversation objects are not supported. Continue with `previous_response_id` alone.",
    );
  if (store === true || previousId !== undefined) return true;
  const { input } = json;
  return Array.isArray(input) && input.some((item) => referencedId(item) !== undefined);
}

/** The `previous_response_id`, if it has the format of our ids. */
function previousResponseId(json: JsonObject): string | undefined {
  const id = json["previous_response_id"];
  return typeof id === "string" && isId("resp", id) ? id : undefined;
}

function rejectStreamedBackground(json: JsonObject): void {
  if (json["stream"] === true)
    throw invalid(
      "stream",
      "Background responses cannot be streamed. Remove `stream` and poll GET /v1/responses/{id}.",
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
  throw new Fault("conflict", "storage limit reached", {
    message: `This account stores ${responses} responses with ${Math.ceil(bytes / 1_048_576)} MiB; the limit is ${ACCOUNT_RESPONSES_MAX} responses and ${ACCOUNT_BYTES_MAX / 1_048_576} MiB. Delete some with DELETE /v1/responses/{id}, or remove \`store\`.`,
    param: "store",
  });
}

function notFound(id: string): Fault {
  return new Fault("not_found", "no such stored response", {
    message: `This account has no stored response ${id.slice(0, 80)}. ${RETENTION_TEXT}`,
    param: "id",
    next: NOT_STORED_NEXT_STEPS,
  });
}
