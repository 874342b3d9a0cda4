// A call that stores or continues responses: the request with its history, the request for each candidate, and the record
// that is written in the transaction of the settlement.

import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import type { JsonObject } from "../base/json.ts";
import { lazy } from "../base/lazy.ts";
import { DAY_MS } from "../base/time.ts";
import type { BatchItem } from "../inference/lifecycle/batch-item.ts";
import type {
  CallInput,
  EndedWrite,
  ResponseWrite,
  StatefulCall,
} from "../inference/lifecycle/call.ts";
import {
  containersIn,
  type ItemUse,
  keptContainerFault,
  sharedCredentialsFault as findSharedFault,
} from "../inference/lifecycle/shared-credentials.ts";
import type { ParsedRequest } from "../inference/request/parse-request.ts";
import type { Candidate } from "../inference/routing/candidates.ts";
import { abilitiesOf } from "../models/model-abilities.ts";
import type { Tx } from "../store/db.ts";
import { toCallerFault, toCallerPath, expandRequest, rawItemsOf } from "./expand-request.ts";
import {
  itemIds,
  itemsForCandidate,
  newInputItems,
  originOf,
  outputItems,
  type PastItem,
  takesItems,
} from "./items.ts";
import { withReplyOverrides, type ReplyOverrides, type CapturedResult } from "./reply-overrides.ts";
import { finishBackground } from "./storage/end-response.ts";
import type { History } from "./storage/history.ts";
import type { Envelope, Envelopes } from "./storage/response-encryption.ts";
import {
  RESPONSE_STATUSES,
  type StoredResponse,
  insertItems,
  insertResponses,
  linkUsage,
} from "./storage/response-rows.ts";

export const INPUT_MAX_BYTES = 16 * 1_048_576;
const STORED_MAX_BYTES = 32 * 1_048_576;
const ENCRYPTED_REASONING = "reasoning.encrypted_content";

export interface StoredCallOptions {
  readonly request: ParsedRequest;
  readonly input: CallInput;
  readonly history: History | undefined;
  /** The request's own items with references resolved; undefined if there were none. */
  readonly resolvedItems: readonly PastItem[] | undefined;
  readonly envelopes: Envelopes;
  readonly shouldStore: boolean;
  readonly retentionDays: number;
  readonly isBackground: boolean;
  /** Set for the call of a queued response: it completes the record that exists. */
  readonly queued: BatchItem["response"];
  /** Called with the size of each response that is about to be written. */
  readonly onStored: (accountId: string, bytes: number) => void;
}

export interface StoredCall {
  readonly id: string;
  readonly call: StatefulCall;
  readonly captured: CapturedResult;
  /** The caller's request, before expansion. */
  readonly request: ParsedRequest;
  readonly createdAt: number;
  readonly previousId: string | undefined;
  /** The record with this status and response; `text` is the response, if it was serialized already. */
  readonly toRecord: (
    status: StoredResponse["status"],
    response: JsonObject,
    text?: string,
  ) => StoredResponse;
  readonly encrypt: Envelope["encrypt"];
}

export function createStoredCall(options: StoredCallOptions): StoredCall {
  const { request, input, history, resolvedItems, shouldStore, isBackground, queued } = options;
  const id = queued?.id ?? newId("resp", input.now);
  const members = memberEdits(options);
  const expanded = expandRequest(request, {
    historyItems: history?.items.map(({ item }) => item) ?? [],
    ownItems: resolvedItems?.map(({ item }) => item),
    members,
  });
  const inputText = shouldStore ? inputTextOf(options) : "";
  const captured: CapturedResult = { response: undefined, text: undefined, failure: undefined };
  let origin: string | null = null;
  const { toRecord, encrypt } = recordWriter(options, { id, inputText, originOf: () => origin });
  const storeReply: StatefulCall["storeReply"] = () => {
    const { response, text } = captured;
    if (!shouldStore || response === undefined) return undefined;
    const record = toRecord(storedStatus(response), response, text);
    const ids = itemIds([...newInputItems(request.json), ...outputItems(response)]);
    return responseWrite({ response: record, itemIds: ids });
  };
  const overrides: ReplyOverrides = {
    id: shouldStore ? id : undefined,
    previousId: history?.parent.id,
    background: isBackground,
    fields: queued?.fields,
    canStore: (length) => inputText.length + length <= STORED_MAX_BYTES,
  };
  const sharedCredentialsFault: StatefulCall["sharedCredentialsFault"] = (use) => {
    const fault = faultOf(expanded, options, use);
    return fault && toCallerFault(fault, history?.items.length ?? 0);
  };
  const requestFor: StatefulCall["requestFor"] = (candidate) => {
    origin = originOf(candidate);
    const { pastItems, dropped, ...sent } = requestForCandidate(candidate, {
      options,
      expanded,
      members,
    });
    return {
      ...sent,
      adaptPlan: (plan) => {
        const paths = plan.dropped.map((path) => toCallerPath(path, pastItems));
        const withDropped = { ...plan, dropped: [...dropped, ...paths] };
        return withReplyOverrides(withDropped, overrides, captured);
      },
      toCallerFault: (fault) => toCallerFault(fault, pastItems),
    };
  };
  return {
    id,
    call: { request: expanded, sharedCredentialsFault, requestFor, storeReply },
    captured,
    request,
    createdAt: input.now,
    previousId: history?.parent.id,
    toRecord,
    encrypt,
  };
}

interface RecordSource {
  readonly id: string;
  readonly inputText: string;
  readonly originOf: () => string | null;
}

// Encrypts on first use: a call that fails is not stored.
function recordWriter(
  { input, history, envelopes, retentionDays, isBackground, onStored }: StoredCallOptions,
  { id, inputText, originOf: readOrigin }: RecordSource,
): Pick<StoredCall, "toRecord" | "encrypt"> {
  const { accountId, keyId } = input.caller;
  const envelope = lazy(() => envelopes({ id, accountId }));
  const sealedParts = (text: string): Pick<StoredResponse, "record" | "input" | "response"> =>
    // The input of a background response is written before its result.
    isBackground
      ? {
          record: null,
          input: envelope().encrypt("input", inputText),
          response: envelope().encrypt("response", text),
        }
      : { record: envelope().encryptRecord(inputText, text), input: "", response: "" };
  return {
    encrypt: (part, text) => envelope().encrypt(part, text),
    toRecord: (status, response, text = JSON.stringify(response)) => {
      const bytes = inputText.length + text.length;
      onStored(accountId, bytes);
      return {
        id,
        accountId,
        keyId,
        previousId: history?.parent.id ?? null,
        status,
        background: isBackground,
        holdId: input.requestId,
        origin: readOrigin(),
        bytes,
        ...sealedParts(text),
        dataKey: envelope().dataKey,
        createdAt: input.now,
        expiresAt: input.now + retentionDays * DAY_MS,
      };
    },
  };
}

function faultOf(
  expanded: ParsedRequest,
  options: StoredCallOptions,
  use: Pick<ItemUse, "sendsCalls">,
): Fault | undefined {
  const fault = findSharedFault(expanded, { ...use, ownContainers: replyContainers(options) });
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

// Without edits the request is not parsed again.
function memberEdits({
  history,
  request: { json },
  shouldStore,
  isBackground,
  queued,
}: StoredCallOptions): MemberEdits {
  return {
    ...(history === undefined ? {} : { previous_response_id: undefined }),
    ...(shouldStore && json["store"] === true ? { store: undefined } : {}),
    // Streamed, so that its usage is known when it is canceled.
    ...(isBackground && queued === undefined
      ? { background: undefined, background_options: undefined, stream: "true" }
      : {}),
  };
}

interface CandidateContext {
  readonly options: StoredCallOptions;
  readonly expanded: ParsedRequest;
  readonly members: MemberEdits;
}

interface RequestForCandidate {
  readonly request: ParsedRequest;
  readonly members: MemberEdits;
  readonly pastItems: number;
  readonly dropped: readonly string[];
}

// On the Responses wire the text is passed through, so it must suit the provider; on another wire it is translated.
function requestForCandidate(
  candidate: Candidate,
  { options, expanded, members }: CandidateContext,
): RequestForCandidate {
  const { request, history, resolvedItems, shouldStore } = options;
  const past = history?.items ?? [];
  if (!takesItems(candidate))
    return { request: expanded, members: {}, pastItems: past.length, dropped: [] };
  const kept = itemsForCandidate(candidate, past);
  const rewritten = expandRequest(request, {
    historyItems: kept,
    ownItems: resolvedItems === undefined ? undefined : itemsForCandidate(candidate, resolvedItems),
    members,
  });
  return {
    request: rewritten,
    members:
      shouldStore && candidate.credential.provider.supportsStore
        ? statelessMembers(candidate, request)
        : {},
    pastItems: kept.length,
    dropped: kept.length < past.length ? ["previous_response_id"] : [],
  };
}

function statelessMembers(candidate: Candidate, request: ParsedRequest): MemberEdits {
  const include = includeFor(candidate, request);
  return { store: "false", ...(include === undefined ? {} : { include }) };
}

// Asks for encrypted reasoning: without provider-side storage, nothing else can be sent back in the next turn.
function includeFor({ model }: Candidate, { json }: ParsedRequest): string | undefined {
  if (abilitiesOf(model).reasoning === "none") return undefined;
  const requested = json["include"] ?? [];
  if (!Array.isArray(requested) || requested.includes(ENCRYPTED_REASONING)) return undefined;
  return JSON.stringify([...requested, ENCRYPTED_REASONING]);
}

function inputTextOf({ request, resolvedItems }: StoredCallOptions): string {
  const text =
    resolvedItems === undefined
      ? `[${rawItemsOf(request)}]`
      : JSON.stringify(resolvedItems.map(({ item }) => item));
  if (text.length <= INPUT_MAX_BYTES) return text;
  throw new Fault("payload_too_large", "input too large to store", {
    message: `Inputs larger than ${INPUT_MAX_BYTES / 1_048_576} MiB cannot be stored. Set \`store: false\`, or send less.`,
    param: "store",
  });
}

function storedStatus({ status }: JsonObject): StoredResponse["status"] {
  return RESPONSE_STATUSES.find((one) => one === status) ?? "completed";
}

// Writes the responses of a batch of settlements in a few statements, in the transaction of their charges.
interface ResponseRecord {
  readonly response: StoredResponse;
  /** The ids by which later requests can reference its items. */
  readonly itemIds: readonly string[];
}

function responseWrite(record: ResponseRecord): ResponseWrite {
  return { record, writeAll };
}

async function writeAll(tx: Tx, writes: readonly EndedWrite[]): Promise<void> {
  // Safe because only `responseWrite` creates writes with this function.
  const records = writes.map(({ record, endedAt }) => ({ ...(record as ResponseRecord), endedAt }));
  const background = records.filter(({ response }) => response.background);
  const foreground = records.filter(({ response }) => !response.background);
  await insertResponses(
    tx,
    foreground.map(({ response }) => response),
  );
  const written = [...foreground];
  for (const record of background)
    if (await finishBackground(tx, record.response, record.endedAt)) written.push(record);
    else await linkUsage(tx, record.response);
  await insertItems(
    tx,
    written.flatMap(({ response: { id, accountId }, itemIds }) =>
      itemIds.map((itemId) => ({ accountId, id: itemId, responseId: id })),
    ),
  );
}
