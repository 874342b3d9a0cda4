// Binding quotes: a signed offer names an account, a request, who may serve it, and the most that it costs. A call with an offer
// is priced as of the moment of the quote, and holds and pays no more than that. Offers are not stored: until it expires, an
// offer may be used by any number of calls.

import { createHash } from "node:crypto";
import { encodeJson } from "../../base/canonical-json.ts";
import { Fault } from "../../base/fault.ts";
import { newId } from "../../base/id.ts";
import type { JsonObject } from "../../base/json.ts";
import { minNano, type Nano, nanoFromUsd, usdText, usdTextOfPico } from "../../base/money/money.ts";
import { MINUTE_MS, SECOND_MS } from "../../base/time.ts";
import { API_PATHS } from "../../usage/usage.ts";
import { affordableTokens, type CostEstimate } from "../metering/cost-estimate.ts";
import { type CostCeiling, readQuoteOffer } from "../request/call-options.ts";
import { type ParsedRequest, parseRequest } from "../request/parse-request.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { PricedCandidate, PricedCandidates } from "../routing/priced-candidates.ts";
import type { CallInput, ParsedCall } from "./call.ts";

/** The `typ` of the signature's header: a receipt is never taken for a quote. */
const QUOTE_TYPE = "postern-quote+jwt";
const VERSION = 1;
/** Prices that rise in this time are the operator's cost. */
export const OFFER_LIFETIME_MS = 10 * MINUTE_MS;

const QUOTE_PAGE_STEP = {
  method: "GET",
  url: "/docs/api/create-quote.md",
  why: "Read how to get a new quote.",
} as const;

export interface OfferDeps {
  readonly baseUrl: string;
  readonly sign: (type: string, payload: JsonObject) => string;
  readonly verify: (type: string, text: string) => Promise<JsonObject | undefined>;
}

export interface AcceptedOffer {
  readonly id: string;
  /** The most that the call costs. */
  readonly max: Nano;
  /** When it was made: prices of that moment apply. */
  readonly at: number;
  /** The names of the candidates that the quote prices. */
  readonly servedBy: ReadonlySet<unknown>;
  /** Where the request carries it. */
  readonly param: string;
}

interface Offered {
  readonly input: CallInput;
  readonly request: ParsedRequest;
  readonly candidates: PricedCandidates;
  readonly estimate: CostEstimate;
  readonly max: Nano;
}

export interface SignedOffer {
  readonly id: string;
  readonly expiresAt: number;
  readonly offer: string;
}

export function signOffer(
  { baseUrl, sign }: OfferDeps,
  { input, request, candidates, estimate, max }: Offered,
): SignedOffer {
  const at = input.now;
  const [{ candidate }] = candidates;
  const id = newId("quo", at);
  const expiresAt = at + OFFER_LIFETIME_MS;
  const [card] = estimate.cards;
  // A call on the caller's own provider key costs nothing here, but one on the gateway's account does.
  const isByok = candidate.credential.byok;
  const offer = sign(QUOTE_TYPE, {
    // The members of an offer of x402's Offer and Receipt extension.
    version: VERSION,
    resourceUrl: `${baseUrl}${API_PATHS[request.api]}`,
    scheme: "upto",
    network: "postern",
    asset: "USD",
    payTo: baseUrl,
    amount: usdText(max),
    validUntil: Math.floor(expiresAt / SECOND_MS),
    // Our own.
    iss: baseUrl,
    jti: id,
    at,
    account_id: input.caller.accountId,
    api: request.api,
    model: candidate.model.id,
    provider: candidate.credential.provider.id,
    served_by: candidates
      .filter((other) => !isByok || other.candidate.credential.byok)
      .map((other) => nameOf(other.candidate)),
    request_sha256: hashRequest(request),
    price: Object.entries(card?.base ?? {}).map(([meter, unit]) => ({
      meter,
      usd: usdTextOfPico(unit),
    })),
  });
  return { id, expiresAt, offer };
}

/**
 * The offer that a request carries; undefined, without a promise, if it carries none. Throws if it does not fit the request.
 */
export function acceptOffer(
  deps: OfferDeps,
  input: CallInput,
  request: ParsedRequest,
): Promise<AcceptedOffer> | undefined {
  const carried = readQuoteOffer(request.json, input.headers);
  return carried && verifyOffer(deps, { input, request: quoted(input, request), ...carried });
}

/** A quote is for the request before guardrails changed it. */
function quoted({ api, unchecked }: CallInput, request: ParsedRequest): ParsedRequest {
  return unchecked === undefined ? request : parseRequest(api, unchecked);
}

interface CarriedOffer {
  readonly input: CallInput;
  readonly request: ParsedRequest;
  readonly offer: string;
  readonly param: string;
}

async function verifyOffer(
  { baseUrl, verify }: OfferDeps,
  { input, request, offer, param }: CarriedOffer,
): Promise<AcceptedOffer> {
  const reject = (reason: string): never => {
    throw offerFault(
      param,
      `${reason} Get a new one with POST /v1/quote, or send the call without \`${param}\`.`,
    );
  };
  const payload = await verify(QUOTE_TYPE, offer);
  if (payload === undefined)
    return reject("The quote is not an `offer` that this gateway has signed.");
  const { iss, account_id, api, amount, at, jti, request_sha256, served_by: servedBy } = payload;
  const max = typeof amount === "string" ? nanoFromUsd(amount) : undefined;
  if (iss !== baseUrl || typeof at !== "number" || typeof jti !== "string" || max === undefined)
    return reject("The quote is not an `offer` that this gateway has signed.");
  if (account_id !== input.caller.accountId) return reject("The quote is for another account.");
  if (input.now - at > OFFER_LIFETIME_MS) return reject("The quote has expired.");
  if (api !== request.api || request_sha256 !== hashRequest(request))
    return reject("The quote is for another request.");
  return { id: jti, max, at, param, servedBy: new Set(Array.isArray(servedBy) ? servedBy : []) };
}

function offerFault(param: string, message: string): Fault {
  return new Fault("invalid_request", message, { message, param, next: [QUOTE_PAGE_STEP] });
}

function nameOf({ model, credential: { provider, byok } }: Candidate): string {
  return `${model.id} at ${provider.id}${byok ? " with your provider key" : ""}`;
}

/**
 * The candidates that the quote prices: the key that asked for it may be restricted to fewer models. The call costs
 * no more than the offer, even if their prices rose since.
 */
export function withOffer(
  candidates: PricedCandidates,
  offer: AcceptedOffer,
  call: Pick<ParsedCall, "input" | "request">,
): PricedCandidates {
  const { max, servedBy, param } = offer;
  const [first, ...others] = candidates.filter(({ candidate }) => servedBy.has(nameOf(candidate)));
  if (first === undefined)
    throw offerFault(
      param,
      `None of the models that the quote prices can serve this call now. Get a new one with POST /v1/quote, or send the call without \`${param}\`.`,
    );
  if (call.input.unchecked !== undefined)
    return withinOffer([first, ...others], offer, call.request.choices);
  const capped = ({ candidate, estimate }: PricedCandidate): PricedCandidate => ({
    candidate,
    estimate: {
      ...estimate,
      amount: minNano(estimate.amount, max),
      minimum: estimate.minimum && minNano(estimate.minimum, max),
    },
  });
  return [capped(first), ...others.map(capped)];
}

/** A guardrail can make a request much longer than the one that was quoted, so the offer must cover its input. */
function withinOffer(
  candidates: PricedCandidates,
  { max, param }: AcceptedOffer,
  choices: number,
): PricedCandidates {
  const [first, ...others] = candidates.filter(
    ({ candidate, estimate }) =>
      candidate.credential.byok ||
      estimate.amount <= max ||
      affordableTokens(estimate, max) >= choices,
  );
  if (first === undefined)
    throw offerFault(
      param,
      `A guardrail has changed this request, and its input alone may now cost more than the quote. Send the call without \`${param}\`.`,
    );
  return [first, ...others];
}

/** The caller's own ceiling may be lower. */
export function withOfferCeiling(
  ceiling: CostCeiling | undefined,
  { max }: AcceptedOffer,
): CostCeiling {
  return ceiling !== undefined && ceiling.max < max ? ceiling : { max, canShorten: true };
}

/** The hash of the request without the members that do not change its price. Their order does not matter. */
function hashRequest({ json }: ParsedRequest): string {
  const { postern: _postern, stream: _stream, stream_options: _options, ...priced } = json;
  return createHash("sha256").update(encodeJson(priced)).digest("base64url");
}
