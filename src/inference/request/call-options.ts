// The gateway's own options of a model call: the body field `postern`, or headers for clients that cannot add body fields.

import { invalid } from "../../base/fault.ts";
import { isObject, type JsonObject } from "../../base/json.ts";
import { MAX_NANO, type Nano, nanoFromUsd } from "../../base/money/money.ts";
import { closestName, shortName } from "../../base/text/suggest.ts";
import { CACHE_SECONDS_MAX } from "../../http/key-policy.ts";
import { SESSION_HEADERS } from "../../usage/session-labels.ts";

/** The most that the caller pays for a call. */
export interface CostCeiling {
  readonly max: Nano;
  /** Whether the output limit is lowered to fit; otherwise the call is refused. */
  readonly canShorten: boolean;
}

export const MAX_COST_HEADER = "x-postern-max-cost-usd";
export const ON_MAX_COST_HEADER = "x-postern-on-max-cost";
export const LOSSY_HEADER = "x-postern-lossy";
/** The request header with which a caller refuses every drop. */
export const STRICT_HEADER = "x-postern-strict";
export const RECEIPT_HEADER = "x-postern-receipt";
export const QUOTE_HEADER = "x-postern-quote";
export const HOLD_HEADER = "x-postern-hold";
export const CACHE_HEADER = "x-postern-cache";
export const SESSION_LIMIT_HEADER = "x-postern-session-limit-usd";

const OPTIONS = [
  "cache",
  "hold",
  "lossy",
  "max_cost_usd",
  "on_max_cost",
  "quote",
  "receipt",
] as const;
const NO_OPTIONS: JsonObject = {};

type RequestHeaders = Pick<Headers, "get">;

/** Throws for an unknown option: one that is ignored silently could cost the caller money. */
export function rejectUnknownOptions(json: JsonObject): void {
  for (const name of Object.keys(optionsOf(json))) {
    if (OPTIONS.some((known) => known === name)) continue;
    const sent = shortName(name);
    const meant = closestName(sent, [...OPTIONS]);
    throw invalid(
      `postern.${sent}`,
      `Unknown field \`postern.${sent}\`. ${meant === undefined ? `\`postern\` accepts ${OPTIONS.join(", ")}.` : `Did you mean \`${meant}\`?`}`,
    );
  }
}

/** Whether fields that the provider cannot express may be dropped. */
export function readLossy(json: JsonObject, headers: RequestHeaders): boolean {
  const { lossy } = optionsOf(json);
  if (lossy !== undefined && typeof lossy !== "boolean")
    throw invalid("postern.lossy", "`postern.lossy` must be true or false.");
  if (lossy !== undefined) return lossy;
  const value = headers.get(LOSSY_HEADER)?.trim().toLowerCase() ?? "false";
  if (value !== "true" && value !== "false")
    throw invalid(LOSSY_HEADER, `The header \`${LOSSY_HEADER}\` must be true or false.`);
  return value === "true";
}

/** Whether the caller wants a signed receipt. */
export function readReceipt(json: JsonObject, headers: RequestHeaders): boolean {
  const { receipt } = optionsOf(json);
  if (receipt !== undefined && typeof receipt !== "boolean")
    throw invalid("postern.receipt", "`postern.receipt` must be true or false.");
  if (receipt !== undefined) return receipt;
  const value = headers.get(RECEIPT_HEADER)?.trim().toLowerCase() ?? "0";
  if (value === "1" || value === "true") return true;
  if (value === "0" || value === "false") return false;
  throw invalid(RECEIPT_HEADER, `The header \`${RECEIPT_HEADER}\` must be 1 or 0.`);
}

/** Whether all that the call can cost is held before it is sent, also for a stream. */
export function readHoldsAll(json: JsonObject, headers: RequestHeaders): boolean {
  const option = optionsOf(json)["hold"] ?? undefined;
  const value = option ?? headers.get(HOLD_HEADER)?.trim().toLowerCase() ?? "rolling";
  if (value === "full") return true;
  if (value === "rolling") return false;
  const param = option === undefined ? HOLD_HEADER : "postern.hold";
  throw invalid(param, `\`${param}\` must be full or rolling.`);
}

/** The signed offer of a quote that the call is to be charged by, and the parameter that it is in. */
export function readQuoteOffer(
  json: JsonObject,
  headers: RequestHeaders,
): { readonly offer: string; readonly param: string } | undefined {
  const stated = optionsOf(json)["quote"] ?? undefined;
  const offer = stated ?? headers.get(QUOTE_HEADER) ?? undefined;
  if (offer === undefined) return undefined;
  const param = stated === undefined ? QUOTE_HEADER : "postern.quote";
  if (typeof offer !== "string")
    throw invalid(param, `\`${param}\` must be the \`offer\` of a quote.`);
  return { offer: offer.trim(), param };
}

/** For a call that waits. Its hold has the most that it can cost, and a quote would expire before it runs. */
export function rejectQuote(json: JsonObject, headers: RequestHeaders): void {
  const param = readQuoteOffer(json, headers)?.param;
  if (param !== undefined)
    throw invalid(
      param,
      `Batches and responses that wait take no quote, which would expire before they run. Remove \`${param}\`, and cap the cost with \`max_cost_usd\` in \`postern\`.`,
    );
}

/** Which replies of earlier identical calls the caller takes, and how long this one's is kept. */
export interface CacheOption {
  readonly seconds: number;
  /** Also for requests with tools. */
  readonly withTools: boolean;
  /** Also for requests whose response the gateway stores. */
  readonly withStored: boolean;
}

/**
 * Undefined if neither the request nor its key uses the cache, or if the request turns it off. `most` is the key's own setting:
 * the request can only ask for less.
 */
export function readCache(
  json: JsonObject,
  headers: RequestHeaders,
  most: number | undefined,
): CacheOption | undefined {
  const stated = optionsOf(json)["cache"] ?? undefined;
  const option = stated ?? headers.get(CACHE_HEADER) ?? most ?? "off";
  const param = stated === undefined ? CACHE_HEADER : "postern.cache";
  const text = typeof option === "number" || typeof option === "string" ? String(option) : "";
  const [lifetime = "", ...names] = text.split(",").map((part) => part.trim());
  if (lifetime === "off" && names.length === 0) return undefined;
  const seconds = /^\d{1,5}$/.test(lifetime) ? Number(lifetime) : 0;
  const isKnown = names.every((name) => name === "tools" || name === "stored");
  if (seconds < 1 || seconds > CACHE_SECONDS_MAX || !isKnown)
    throw invalid(
      param,
      `\`${param}\` must be a number of seconds from 1 to ${CACHE_SECONDS_MAX}, such as 3600, or \`3600, tools\` for requests with tools too, or off.`,
    );
  return {
    seconds: Math.min(seconds, most ?? CACHE_SECONDS_MAX),
    withTools: names.includes("tools"),
    withStored: names.includes("stored"),
  };
}

/** The limit that a call sets for its session; undefined without the header. */
export function readSessionLimit(
  headers: RequestHeaders,
  sessionId: string | undefined,
): Nano | undefined {
  const usd = headers.get(SESSION_LIMIT_HEADER)?.trim();
  if (usd === undefined || usd === "") return undefined;
  const limit = nanoFromUsd(usd);
  if (limit === undefined || limit < 0n || limit > MAX_NANO)
    throw invalid(
      SESSION_LIMIT_HEADER,
      `The header \`${SESSION_LIMIT_HEADER}\` must be an amount in US dollars with at most nine decimals, such as 5.`,
    );
  if (sessionId !== undefined) return limit;
  throw invalid(
    SESSION_LIMIT_HEADER,
    `The header \`${SESSION_LIMIT_HEADER}\` needs a session. Name it in the header \`${SESSION_HEADERS.session}\`.`,
  );
}

/** The body field wins over the header. */
export function readCostCeiling(
  json: JsonObject,
  headers: RequestHeaders,
): CostCeiling | undefined {
  const options = optionsOf(json);
  const stated = options["max_cost_usd"] ?? undefined;
  const usd = stated ?? headers.get(MAX_COST_HEADER) ?? undefined;
  if (usd === undefined) return undefined;
  const param = stated === undefined ? MAX_COST_HEADER : "postern.max_cost_usd";
  const max = typeof usd === "number" || typeof usd === "string" ? nanoFromUsd(usd) : undefined;
  if (max === undefined || max < 0n)
    throw invalid(
      param,
      `\`${param}\` must be an amount in US dollars with at most nine decimals, such as 0.05.`,
    );
  return { max, canShorten: readAction(options["on_max_cost"], headers) === "shorten" };
}

function readAction(option: unknown, headers: RequestHeaders): "shorten" | "refuse" {
  const value = option ?? headers.get(ON_MAX_COST_HEADER) ?? "shorten";
  if (value === "shorten" || value === "refuse") return value;
  const param = option === undefined ? ON_MAX_COST_HEADER : "postern.on_max_cost";
  throw invalid(param, `\`${param}\` must be shorten or refuse.`);
}

function optionsOf({ postern }: JsonObject): JsonObject {
  if (postern === undefined || postern === null) return NO_OPTIONS;
  if (!isObject(postern))
    throw invalid("postern", '`postern` must be an object, for example `{"lossy": true}`.');
  return postern;
}
