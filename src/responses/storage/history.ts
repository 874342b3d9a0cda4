// Reads the history that a request refers to: the chain of `previous_response_id` and the stored items referenced in its
// input, both limited to the caller's account.

import type { DerivedKey } from "../../base/crypto/encryption.ts";
import { Fault, invalid, type NextStep } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import { type Reach, REACH_TEXT } from "../../http/reach.ts";
import type { Reader } from "../../store/db.ts";
import {
  itemIds,
  outputItems,
  type PastItem,
  publicItems,
  referencedId,
  responseIdOf,
} from "../items.ts";
import { decryptPart } from "./response-encryption.ts";
import { findChain, findResponsesByItems, type StoredResponse } from "./response-rows.ts";

const CHAIN_MAX_RESPONSES = 1_000;
const CHAIN_MAX_BYTES = 48 * 1_048_576;
const REFERENCES_MAX = 500;

export interface DecryptedResponse {
  readonly input: () => readonly JsonObject[];
  readonly response: () => JsonObject;
}

/** The parts of a record, decrypted on access. */
export function decryptStored(kek: DerivedKey, stored: StoredResponse): DecryptedResponse {
  const decrypt = (part: "input" | "response"): unknown => {
    try {
      return JSON.parse(decryptPart(kek, stored, part));
    } catch (cause) {
      throw new Fault("internal", `stored response ${stored.id} cannot be decrypted`, {
        message: `The stored response ${stored.id} cannot be decrypted. Send the earlier turns of the conversation in \`input\`.`,
        cause,
      });
    }
  };
  return {
    input: () => {
      const input = decrypt("input");
      return Array.isArray(input) ? input.filter(isObject) : [];
    },
    response: () => {
      const response = decrypt("response");
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
  readonly kek: DerivedKey;
  readonly reach: Reach;
  readonly now: number;
}

export async function readHistory(
  { reader, kek, reach, now }: HistoryContext,
  previousId: string,
): Promise<History> {
  const chain = await findChain(reader, {
    reach,
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
      `A conversation can have at most ${CHAIN_MAX_RESPONSES} responses. Start a new one with a summary of this one.`,
    );
  const missing = chain[0]?.previousId ?? null;
  if (missing !== null) throw previousNotFound(previousId, missing);
  if (chain.reduce((sum, { bytes }) => sum + bytes, 0) > CHAIN_MAX_BYTES)
    throw new Fault("payload_too_large", "conversation too large", {
      message: `The conversation of \`previous_response_id\` is larger than ${CHAIN_MAX_BYTES / 1_048_576} MiB. Start a new one with a summary of this one.`,
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
      ? `This key has no stored response ${previousId}.`
      : `The conversation of ${previousId} continues ${missing}, which was deleted, has expired or is of another key.`;
  return new Fault("not_found", `no stored response ${missing}`, {
    message: `${message} ${RETENTION_TEXT} Send the earlier turns of the conversation in \`input\`.`,
    param: "previous_response_id",
    fields: { code: "previous_response_not_found" },
    next: NOT_STORED_NEXT_STEPS,
  });
}

export const RETENTION_TEXT =
  "Responses are stored unless created with `store: false`, as long as this gateway and this account allow it (GET /v1/account/response-storage). " +
  REACH_TEXT;

export const NOT_STORED_NEXT_STEPS: readonly NextStep[] = [
  {
    method: "GET",
    url: "/docs/api/create-response.md",
    why: "Read how to create the response again without `store: false`, or send the earlier turns in `input`.",
  },
];

function rejectUnfinished({ id, status }: StoredResponse): void {
  if (status === "completed" || status === "incomplete") return;
  throw invalid(
    "previous_response_id",
    status === "in_progress" || status === "queued"
      ? `The response ${id} is still ${status === "queued" ? "queued" : "in progress"}. Poll GET /v1/responses/${id} until its status is \`completed\`.`
      : `The response ${id} ${status === "failed" ? "failed" : "was canceled"} and cannot be continued.`,
  );
}

/** The input with references replaced by the stored items; undefined if no reference is known. */
export async function resolveReferences(
  { reader, kek, reach, now }: HistoryContext,
  input: unknown,
): Promise<readonly PastItem[] | undefined> {
  if (!Array.isArray(input) || !input.every(isObject)) return undefined;
  const wanted = new Set(input.map(referencedId).filter((id) => id !== undefined));
  if (wanted.size === 0) return undefined;
  if (wanted.size > REFERENCES_MAX)
    throw invalid(
      "input",
      `\`input\` can reference at most ${REFERENCES_MAX} stored items. Send the items themselves.`,
    );
  const owners = await findResponsesByItems(reader, reach, {
    itemIds: [...wanted],
    responseIds: [...wanted].flatMap((id) => responseIdOf(id) ?? []),
    now,
    maxBytes: CHAIN_MAX_BYTES,
  });
  if (owners === undefined)
    throw new Fault("payload_too_large", "referenced responses too large", {
      message: `The stored responses that \`input\` references are larger than ${CHAIN_MAX_BYTES / 1_048_576} MiB in total. Send the items themselves.`,
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

function itemsOfStored(kek: DerivedKey, owner: StoredResponse): readonly PastItem[] {
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
