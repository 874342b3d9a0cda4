// Background responses with a completion window. The call is a batch of one, which holds its cost when the response is created; the
// response stays `queued` until the transaction that charges the call completes it, or the end of the batch fails it.

import type { DerivedKey } from "../../base/crypto/encryption.ts";
import { invalid } from "../../base/fault.ts";
import { isObject, isSet } from "../../base/json.ts";
import { HOUR_MS } from "../../base/time.ts";
import { wholeAccount } from "../../http/reach.ts";
import type { CallInput } from "../../inference/lifecycle/call.ts";
import type { ResponseQueue, ResponseEnd } from "../../inference/lifecycle/response-queue.ts";
import { sha256 } from "../../inference/lifecycle/settle.ts";
import { withHold } from "../../inference/lifecycle/with-idempotency.ts";
import { withMembers } from "../../inference/request/json-edit.ts";
import type { ParsedRequest } from "../../inference/request/parse-request.ts";
import type { Tx } from "../../store/db.ts";
import { stopBackground } from "../storage/end-response.ts";
import { decryptStored } from "../storage/history.ts";
import { encryptResponse } from "../storage/response-encryption.ts";
import { findResponse, insertResponses } from "../storage/response-rows.ts";
import type { StoredCall } from "../stored-call.ts";
import {
  type BackgroundDeps,
  initialResponseOf,
  jsonResponse,
  PROVIDER_FAILED_MESSAGE,
} from "./background.ts";

const WINDOW = "background_options.completion_window";
/** `2h` and `8h` are OpenAI's; batches of providers promise 24 hours. */
const WINDOW_HOURS: Readonly<Record<string, number>> = { "2h": 2, "8h": 8, "24h": 24 };

/** How long the response may wait; undefined if it starts at once. */
export function completionWindowMs({
  json,
  stream,
  serviceTier = "default",
}: Pick<ParsedRequest, "json" | "stream" | "serviceTier">): number | undefined {
  const { background, background_options: options } = json;
  const window = isObject(options) ? options["completion_window"] : undefined;
  if (!isSet(window) || window === "soonest") return undefined;
  const hours = WINDOW_HOURS[String(window)];
  if (hours === undefined)
    throw invalid(WINDOW, `\`${WINDOW}\` must be \`soonest\`, \`2h\`, \`8h\` or \`24h\`.`);
  if (background !== true) throw invalid(WINDOW, `\`${WINDOW}\` requires \`background: true\`.`);
  if (stream)
    throw invalid(
      "stream",
      `A response with a \`${WINDOW}\` has no stream. Remove \`stream\`, and poll it, or send \`soonest\`.`,
    );
  if (serviceTier !== "default" && serviceTier !== "auto")
    throw invalid(
      "service_tier",
      `A response with a \`${WINDOW}\` has the standard service tier. Remove \`service_tier\`.`,
    );
  return hours * HOUR_MS;
}

/** Resolves once the cost is held and the record is written. */
export async function queueResponse(
  {
    queue,
    storeIdempotentReply,
  }: Pick<BackgroundDeps, "storeIdempotentReply"> & { readonly queue: ResponseQueue },
  storedCall: StoredCall,
  input: CallInput,
  windowMs: number,
): Promise<Response> {
  if (input.session?.limit !== undefined)
    throw invalid(
      "x-postern-session-limit-usd",
      `A response with a \`${WINDOW}\` is of no session. Remove \`x-postern-session-limit-usd\`.`,
    );
  const { id: responseId, request } = storedCall;
  const members = { background: undefined, background_options: undefined, stream: undefined };
  const body = withMembers(request.text, request.spans, { ...members, store: "true" });
  const requestSha256 = sha256(input.received ?? input.text);
  const call = { input, responseId, body, requestSha256, windowMs };
  let text = "";
  await queue.add(call, async (tx, { batchId, fields }) => {
    const response = { ...initialResponseOf(storedCall), ...fields, status: "queued" };
    text = JSON.stringify(response);
    const record = storedCall.toRecord("queued", response, text);
    // Kept from the end of its window on: its result may come then.
    const expiresAt = record.expiresAt + windowMs;
    await insertResponses(tx, [{ ...record, holdId: batchId, expiresAt }]);
    const { idempotent } = input;
    if (idempotent !== undefined)
      await storeIdempotentReply(tx, withHold(idempotent, input.requestId), {
        status: 200,
        body: text,
      });
  });
  return jsonResponse(text);
}

/** Ends a response that its call has not completed. */
export async function endQueued(
  tx: Tx,
  kek: DerivedKey,
  { id, accountId, status, message = PROVIDER_FAILED_MESSAGE }: ResponseEnd,
  now: number,
): Promise<void> {
  const stored = await findResponse(tx, wholeAccount(accountId), id, now);
  if (stored?.status !== "queued") return;
  if (status === "cancelled")
    return void (await stopBackground(tx, { id, accountId, status }, now));
  const response = decryptStored(kek, stored).response();
  const failed = { ...response, status, error: { code: "server_error", message } };
  const sealed = encryptResponse(kek, stored, JSON.stringify(failed));
  await stopBackground(tx, { id, accountId, status }, now, sealed);
}
