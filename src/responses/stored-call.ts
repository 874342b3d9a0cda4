// A call that stores or continues responses: the request with its history, the request for each candidate, and the record
// that is written in the transaction of the settlement.

import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { DAY_MS } from "../base/time.ts";
import { abilitiesOf } from "../inference/translate/abilities.ts";
import type { ParsedRequest } from "../inference/request/parse-request.ts";
import type { JsonObject } from "../base/json.ts";
import type { CallInput, StatefulCall } from "../inference/lifecycle/call.ts";
import type { Candidate } from "../inference/routing/candidates.ts";
import {
  containersIn,
  keptContainerFault,
  sharedCredentialsFault as findSharedFault,
} from "../inference/lifecycle/shared-credentials.ts";
import type { Tx } from "../store/db.ts";
import { type Envelope, newEnvelope } from "./encryption.ts";
import type { History } from "./history.ts";
import {
  inputItems,
  itemIds,
  itemsForCandidate,
  originOf,
  outputItems,
  type PastItem,
  publicItems,
} from "./items.ts";
import { withReplyOverrides, type ReplyOverrides, type CapturedResult } from "./reply-overrides.ts";
import { withCallerPaths, toCallerFault, expandRequest } from "./expand-request.ts";
import {
  finishResponse,
  insertItems,
  insertResponse,
  RESPONSE_STATUSES,
  type StoredResponse,
} from "./rows.ts";

const RETENTION_MS = 30 * DAY_MS;
const INPUT_MAX_BYTES = 16 * 1_048_576;
const STORED_MAX_BYTES = 32 * 1_048_576;
const ENCRYPTED_REASONING = "reasoning.encrypted_content";

export interface StoredCallOptions {
  readonly request: ParsedRequest;
  readonly input: CallInput;
  readonly history: History | undefined;
  /** The request's own items with references resolved; undefined if there were none. */
  readonly resolvedItems: readonly PastItem[] | undefined;
  readonly kek: Uint8Array;
  readonly shouldStore: boolean;
  readonly isBackground: boolean;
}

export interface StoredCall {
  readonly id: string;
  readonly call: StatefulCall;
  readonly captured: CapturedResult;
  /** The caller's request, before expansion. */
  readonly requestJson: JsonObject;
  readonly createdAt: number;
  readonly previousId: string | undefined;
  /** The record with this status and response. */
  readonly toRecord: (status: StoredResponse["status"], response: JsonObject) => StoredResponse;
  readonly encrypt: Envelope["encrypt"];
}

export function createStoredCall(options: StoredCallOptions): StoredCall {
  const { request, input, history, resolvedItems, shouldStore, isBackground } = options;
  const { accountId } = input.caller;
  const id = newId("resp", input.now);
  const members = memberEdits(options);
  const expanded = expandRequest(request, {
    historyItems: history?.items.map(({ item }) => item) ?? [],
    ownItems: resolvedItems?.map(({ item }) => item),
    members,
  });
  const items = resolvedItems?.map(({ item }) => item) ?? inputItems(request);
  const inputText = shouldStore ? inputTextOf(items) : "";
  const envelope = newEnvelope(options.kek, { id, accountId });
  const sealedInput = envelope.encrypt("input", inputText);
  const captured: CapturedResult = { response: undefined, failure: undefined };
  let origin: string | null = null;

  const toRecord: StoredCall["toRecord"] = (status, response) => {
    const text = JSON.stringify(response);
    return {
      id,
      accountId,
      previousId: history?.parent.id ?? null,
      status,
      background: isBackground,
      holdId: input.requestId,
      origin,
      bytes: inputText.length + text.length,
      input: sealedInput,
      response: envelope.encrypt("response", text),
      dataKey: envelope.dataKey,
      createdAt: input.now,
      expiresAt: input.now + RETENTION_MS,
    };
  };
  const storeReply: StatefulCall["storeReply"] = () => {
    const { response } = captured;
    if (!shouldStore || response === undefined) return undefined;
    const storedResponse = toRecord(storedStatus(response), response);
    const ids = itemIds([...publicItems(items, id), ...outputItems(response)]);
    return (tx) => writeStoredCall(tx, storedResponse, ids);
  };
  const overrides: ReplyOverrides = {
    id: shouldStore ? id : undefined,
    previousId: history?.parent.id,
    background: isBackground,
    canStore: (length) => inputText.length + length <= STORED_MAX_BYTES,
  };
  const sharedCredentialsFault: StatefulCall["sharedCredentialsFault"] = () => {
    const fault = faultOf(expanded, options);
    return fault && toCallerFault(fault, history?.items.length ?? 0);
  };
  const planFor: StatefulCall["planFor"] = (candidate, createPlan) => {
    origin = originOf(candidate);
    const { sent, pastItems, dropped } = requestFor(candidate, { options, expanded, members });
    const plan = withCallerPaths(() => createPlan(sent), pastItems);
    const withDropped = { ...plan, dropped: [...dropped, ...plan.dropped] };
    return withReplyOverrides(withDropped, overrides, captured);
  };
  return {
    id,
    call: { request: expanded, sharedCredentialsFault, planFor, storeReply },
    captured,
    requestJson: request.json,
    createdAt: input.now,
    previousId: history?.parent.id,
    toRecord,
    encrypt: envelope.encrypt,
  };
}

function faultOf(expanded: ParsedRequest, options: StoredCallOptions): Fault | undefined {
  const fault = findSharedFault(expanded, replyContainers(options));
  return fault ?? (options.shouldStore ? keptContainerFault(expanded) : undefined);
}

// Containers in which code ran for earlier responses of this account.
function replyContainers({ history, resolvedItems }: StoredCallOptions): ReadonlySet<string> {
  const modelOutput = [...(history?.items ?? []), ...(resolvedItems ?? [])].filter(
    ({ isReply }) => isReply,
  );
  return new Set(modelOutput.flatMap(({ item }) => containersIn(item).map(({ id }) => id)));
}

type MemberEdits = Readonly<Record<string, string | undefined>>;

function memberEdits({ history, shouldStore, isBackground }: StoredCallOptions): MemberEdits {
  return {
    ...(history === undefined ? {} : { previous_response_id: undefined }),
    ...(shouldStore ? { store: undefined } : {}),
    // Streamed, so that its usage is known when it is canceled.
    ...(isBackground ? { background: undefined, stream: "true" } : {}),
  };
}

interface RewriteContext {
  readonly options: StoredCallOptions;
  readonly expanded: ParsedRequest;
  readonly members: MemberEdits;
}

// On the Responses wire the text is passed through, so it must suit the provider; on another wire it is translated.
function requestFor(
  candidate: Candidate,
  { options, expanded, members }: RewriteContext,
): {
  readonly sent: ParsedRequest;
  readonly pastItems: number;
  readonly dropped: readonly string[];
} {
  const { request, history, resolvedItems, shouldStore } = options;
  const past = history?.items ?? [];
  if (candidate.wires[0] !== "responses")
    return { sent: expanded, pastItems: past.length, dropped: [] };
  const { supportsStore } = candidate.credential.provider;
  const kept = itemsForCandidate(candidate, past);
  const include = shouldStore && supportsStore ? includeFor(candidate, request) : undefined;
  const sent = expandRequest(request, {
    historyItems: kept,
    ownItems: resolvedItems === undefined ? undefined : itemsForCandidate(candidate, resolvedItems),
    members: {
      ...members,
      ...(shouldStore && supportsStore ? { store: "false" } : {}),
      ...(include === undefined ? {} : { include }),
    },
  });
  const dropped = kept.length < past.length ? ["previous_response_id"] : [];
  return { sent, pastItems: kept.length, dropped };
}

// Asks for encrypted reasoning: without provider-side storage, nothing else can be sent back in the next turn.
function includeFor({ model }: Candidate, { json }: ParsedRequest): string | undefined {
  if (abilitiesOf(model).reasoning === "none") return undefined;
  const requested = json["include"] ?? [];
  if (!Array.isArray(requested) || requested.includes(ENCRYPTED_REASONING)) return undefined;
  return JSON.stringify([...requested.map(String), ENCRYPTED_REASONING]);
}

function inputTextOf(items: readonly JsonObject[]): string {
  const text = JSON.stringify(items);
  if (text.length <= INPUT_MAX_BYTES) return text;
  throw new Fault("payload_too_large", "input too large to store", {
    message: `Inputs larger than ${INPUT_MAX_BYTES / 1_048_576} MiB cannot be stored. Remove \`store\`, or send less.`,
    param: "store",
  });
}

async function writeStoredCall(tx: Tx, one: StoredResponse, ids: readonly string[]): Promise<void> {
  if (!one.background) await insertResponse(tx, one);
  else if (!(await finishResponse(tx, one))) return;
  await insertItems(tx, one, ids);
}

function storedStatus({ status }: JsonObject): StoredResponse["status"] {
  return RESPONSE_STATUSES.find((one) => one === status) ?? "completed";
}
