// One turn of a conversation on its way through the life of a call: what is asked, with all that came before it; how each
// candidate is asked; and the record that is written with the charge.

import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import { abilitiesOf } from "../inference/abilities.ts";
import type { Ask, Json } from "../inference/ask.ts";
import type { CallInput, StatefulCall } from "../inference/call.ts";
import type { Candidate } from "../inference/candidates.ts";
import { containersIn, refusedOnShared } from "../inference/tenant-guard.ts";
import type { Tx } from "../store/db.ts";
import { type Envelope, newEnvelope } from "./envelope.ts";
import type { History } from "./history.ts";
import {
  inputItems,
  itemIds,
  itemsFor,
  originOf,
  outputItems,
  type PastItem,
  shownItems,
} from "./items.ts";
import { dressedPassage, type ReplyDress, type Seen } from "./reply.ts";
import { inOwnTerms, ownFault, rewritten } from "./request.ts";
import { endResponse, insertItems, insertResponse, STATUSES, type StoredResponse } from "./rows.ts";

const KEPT_MS = 30 * 86_400_000;
const INPUT_MAX_BYTES = 16 * 1_048_576;
const STORED_MAX_BYTES = 32 * 1_048_576;
const ENCRYPTED = "reasoning.encrypted_content";

export interface NewTurn {
  readonly ask: Ask;
  readonly input: CallInput;
  readonly history: History | undefined;
  /** The request's own items with stored ones in the places of references, where there were any. */
  readonly own: readonly PastItem[] | undefined;
  readonly kek: Uint8Array;
  readonly stores: boolean;
  readonly runsLater: boolean;
}

export interface Turn {
  readonly id: string;
  readonly call: StatefulCall;
  readonly seen: Seen;
  /** What was asked, as the caller wrote it. */
  readonly json: Json;
  readonly createdAt: number;
  readonly previousId: string | undefined;
  /** Its record while it has this response and no other. */
  readonly record: (status: StoredResponse["status"], response: Json) => StoredResponse;
  readonly seal: Envelope["seal"];
}

export function createTurn(fresh: NewTurn): Turn {
  const { ask, input, history, own, stores, runsLater } = fresh;
  const { accountId } = input.caller;
  const id = newId("resp", input.now);
  const members = membersOf(fresh);
  const expanded = rewritten(ask, {
    past: history?.items.map(({ item }) => item) ?? [],
    own: own?.map(({ item }) => item),
    members,
  });
  const items = own?.map(({ item }) => item) ?? inputItems(ask);
  const inputText = stores ? inputTextOf(items) : "";
  const envelope = newEnvelope(fresh.kek, { id, accountId });
  const sealedInput = envelope.seal("input", inputText);
  const seen: Seen = { response: undefined, failure: undefined };
  let origin: string | null = null;

  const record: Turn["record"] = (status, response) => {
    const text = JSON.stringify(response);
    return {
      id,
      accountId,
      previousId: history?.parent.id ?? null,
      status,
      background: runsLater,
      holdId: input.requestId,
      origin,
      bytes: inputText.length + text.length,
      input: sealedInput,
      response: envelope.seal("response", text),
      dataKey: envelope.dataKey,
      createdAt: input.now,
      expiresAt: input.now + KEPT_MS,
    };
  };
  const stored: StatefulCall["stored"] = () => {
    const { response } = seen;
    if (!stores || response === undefined) return undefined;
    const one = record(statusOf(response), response);
    const ids = itemIds([...shownItems(items, id), ...outputItems(response)]);
    return (tx) => writeTurn(tx, one, ids);
  };
  const dress: ReplyDress = {
    id: stores ? id : undefined,
    previousId: history?.parent.id,
    background: runsLater,
    fits: (length) => inputText.length + length <= STORED_MAX_BYTES,
  };
  const refusal: StatefulCall["refusal"] = () => {
    const refused = refusedOnShared(expanded, containersOf(fresh));
    return refused && ownFault(refused, history?.items.length ?? 0);
  };
  const pass: StatefulCall["pass"] = (candidate, make) => {
    origin = originOf(candidate);
    const { sent, pastItems, dropped } = askFor(candidate, { fresh, expanded, members });
    const passage = inOwnTerms(() => make(sent), pastItems);
    return dressedPassage({ ...passage, dropped: [...dropped, ...passage.dropped] }, dress, seen);
  };
  return {
    id,
    call: { ask: expanded, refusal, pass, stored },
    seen,
    json: ask.json,
    createdAt: input.now,
    previousId: history?.parent.id,
    record,
    seal: envelope.seal,
  };
}

// Where the account's own replies ran code.
function containersOf({ history, own }: NewTurn): ReadonlySet<string> {
  const replied = [...(history?.items ?? []), ...(own ?? [])].filter(({ isReply }) => isReply);
  return new Set(replied.flatMap(({ item }) => containersIn(item).map(({ id }) => id)));
}

type Members = Readonly<Record<string, string | undefined>>;

function membersOf({ history, stores, runsLater }: NewTurn): Members {
  return {
    ...(history === undefined ? {} : { previous_response_id: undefined }),
    ...(stores ? { store: undefined } : {}),
    // A call that nobody waits for is streamed all the same: it can be metered when it is cancelled.
    ...(runsLater ? { background: undefined, stream: "true" } : {}),
  };
}

interface Asked {
  readonly fresh: NewTurn;
  readonly expanded: Ask;
  readonly members: Members;
}

// On the caller's own wire the text is relayed as it is here, so it must be fit for that provider; on another wire it is
// read and written again.
function askFor(
  candidate: Candidate,
  { fresh, expanded, members }: Asked,
): { readonly sent: Ask; readonly pastItems: number; readonly dropped: readonly string[] } {
  const { ask, history, own, stores } = fresh;
  const past = history?.items ?? [];
  if (candidate.wires[0] !== "responses")
    return { sent: expanded, pastItems: past.length, dropped: [] };
  const { storesReplies } = candidate.credential.provider;
  const kept = itemsFor(candidate, past);
  const include = stores && storesReplies ? includeFor(candidate, ask) : undefined;
  const sent = rewritten(ask, {
    past: kept,
    own: own === undefined ? undefined : itemsFor(candidate, own),
    members: {
      ...members,
      ...(stores && storesReplies ? { store: "false" } : {}),
      ...(include === undefined ? {} : { include }),
    },
  });
  const dropped = kept.length < past.length ? ["previous_response_id"] : [];
  return { sent, pastItems: kept.length, dropped };
}

// Only encrypted reasoning can be given back by us: a provider that stored nothing knows no other.
function includeFor({ model }: Candidate, { json }: Ask): string | undefined {
  if (abilitiesOf(model).reasoning === "none") return undefined;
  const asked = json["include"] ?? [];
  if (!Array.isArray(asked) || asked.includes(ENCRYPTED)) return undefined;
  return JSON.stringify([...asked.map(String), ENCRYPTED]);
}

function inputTextOf(items: readonly Json[]): string {
  const text = JSON.stringify(items);
  if (text.length <= INPUT_MAX_BYTES) return text;
  throw new Fault("payload_too_large", "the input is too large to be stored", {
    message: `An input of more than ${INPUT_MAX_BYTES / 1_048_576} MiB is not stored. Leave store out, or send less.`,
    param: "store",
  });
}

async function writeTurn(tx: Tx, one: StoredResponse, ids: readonly string[]): Promise<void> {
  if (!one.background) await insertResponse(tx, one);
  else if (!(await endResponse(tx, one))) return;
  await insertItems(tx, one, ids);
}

function statusOf({ status }: Json): StoredResponse["status"] {
  return STATUSES.find((one) => one === status) ?? "completed";
}
