// What a request goes on from: the chain of stored responses behind `previous_response_id`, and the stored items that its
// input refers to, both of the caller's own account.

import { Fault, invalid, type NextStep } from "../base/fault.ts";
import { isObject, type JsonObject } from "../base/json.ts";
import type { Reader } from "../store/db.ts";
import { unsealPart, type SealedPart } from "./encryption.ts";
import { itemIds, outputItems, type PastItem, referencedId, publicItems } from "./items.ts";
import { findChain, findItemOwners, type StoredResponse } from "./rows.ts";

/** The most responses that a conversation has. */
const CHAIN_MAX_RESPONSES = 1_000;
const CHAIN_MAX_BYTES = 48 * 1_048_576;
const REFERENCES_MAX = 500;

export interface DecryptedResponse {
  readonly input: () => readonly JsonObject[];
  readonly response: () => JsonObject;
}

/** The parts of a record, each opened when it is asked for. */
export function decryptStored(kek: Uint8Array, stored: StoredResponse): DecryptedResponse {
  const open = (part: SealedPart): unknown => {
    try {
      return JSON.parse(unsealPart(kek, stored, part));
    } catch (cause) {
      throw new Fault("internal", `stored response ${stored.id} does not open`, {
        message: `The stored response ${stored.id} cannot be opened. Send the conversation's earlier turns in \`input\`.`,
        cause,
      });
    }
  };
  return {
    input: () => {
      const input = open("input");
      return Array.isArray(input) ? input.filter(isObject) : [];
    },
    response: () => {
      const response = open("response");
      return isObject(response) ? response : {};
    },
  };
}

export interface History {
  readonly parent: StoredResponse;
  readonly items: readonly PastItem[];
}

export interface HistoryContext {
  readonly reader: Reader;
  readonly kek: Uint8Array;
  readonly accountId: string;
  readonly now: number;
}

export async function readHistory(
  { reader, kek, accountId, now }: HistoryContext,
  previousId: string,
): Promise<History> {
  const chain = await findChain(reader, {
    accountId,
    id: previousId,
    now,
    maxLength: CHAIN_MAX_RESPONSES,
  });
  const parent = chain.at(-1);
  if (parent === undefined) throw previousNotFound(previousId, previousId);
  rejectUnfinished(parent);
  if (chain.length >= CHAIN_MAX_RESPONSES)
    throw invalid(
      "previous_response_id",
      `A conversation may have ${CHAIN_MAX_RESPONSES} responses. Begin a new one with a summary of this one.`,
    );
  const missing = chain[0]?.previousId ?? null;
  if (missing !== null) throw previousNotFound(previousId, missing);
  if (chain.reduce((sum, { bytes }) => sum + bytes, 0) > CHAIN_MAX_BYTES)
    throw new Fault("payload_too_large", "the chain is too large", {
      message: `The conversation behind previous_response_id is larger than ${CHAIN_MAX_BYTES / 1_048_576} MiB. Begin a new one with a summary of this one.`,
      param: "previous_response_id",
    });
  const items = chain.flatMap((stored) => {
    const { input, response } = decryptStored(kek, stored);
    return pastItems(stored, input(), outputItems(response()));
  });
  return { parent, items };
}

function previousNotFound(previousId: string, missing: string): Fault {
  const message =
    previousId === missing
      ? `There is no stored response ${previousId} in this account.`
      : `The conversation of ${previousId} goes on from ${missing}, which was deleted or has expired.`;
  return new Fault("not_found", `no stored response ${missing}`, {
    message: `${message} Responses are stored only where they were asked for with store: true, for 30 days. Send the conversation's earlier turns in \`input\`.`,
    param: "previous_response_id",
    fields: { code: "previous_response_not_found" },
    next: NOT_STORED_NEXT_STEPS,
  });
}

/** There is no list of stored responses to look one up in. */
export const NOT_STORED_NEXT_STEPS: readonly NextStep[] = [
  {
    method: "POST",
    url: "/v1/responses",
    why: "Create it again with store: true, or go on without it: send the earlier turns in input.",
  },
];

function rejectUnfinished({ id, status }: StoredResponse): void {
  if (status === "completed" || status === "incomplete") return;
  throw invalid(
    "previous_response_id",
    status === "in_progress"
      ? `The response ${id} is still in progress. Wait until GET /v1/responses/${id} says that it is completed.`
      : `The response ${id} has ${status === "failed" ? "failed" : "been cancelled"}, so there is nothing to go on from.`,
  );
}

/** The input with stored items in the places of their references; undefined where it refers to none that is known. */
export async function resolveReferences(
  { reader, kek, accountId, now }: HistoryContext,
  input: unknown,
): Promise<readonly PastItem[] | undefined> {
  if (!Array.isArray(input) || !input.every(isObject)) return undefined;
  const wanted = new Set(input.map(referencedId).filter((id) => id !== undefined));
  if (wanted.size === 0) return undefined;
  if (wanted.size > REFERENCES_MAX)
    throw invalid(
      "input",
      `input may refer to ${REFERENCES_MAX} items. Send the items themselves.`,
    );
  const owners = await findItemOwners(reader, accountId, {
    itemIds: [...wanted],
    now,
    maxBytes: CHAIN_MAX_BYTES,
  });
  if (owners === undefined)
    throw new Fault("payload_too_large", "the items' responses are too large", {
      message: "The stored responses that input refers to are too large together. Send the items.",
      param: "input",
    });
  const known = new Map<string, PastItem>();
  for (const owner of owners)
    for (const item of itemsOfStored(kek, owner))
      for (const id of itemIds([item.item])) known.set(id, item);
  if (known.size === 0) return undefined;
  return input.map((item) => {
    const id = referencedId(item);
    return (
      (id === undefined ? undefined : known.get(id)) ?? { item, origin: undefined, isReply: false }
    );
  });
}

function itemsOfStored(kek: Uint8Array, owner: StoredResponse): readonly PastItem[] {
  const { input, response } = decryptStored(kek, owner);
  return pastItems(owner, publicItems(input(), owner.id), outputItems(response()));
}

function pastItems(
  stored: StoredResponse,
  inputItems: readonly JsonObject[],
  replyItems: readonly JsonObject[],
): readonly PastItem[] {
  const origin = stored.origin ?? "";
  return [
    ...inputItems.map((item) => ({ item, origin, isReply: false })),
    ...replyItems.map((item) => ({ item, origin, isReply: true })),
  ];
}
