// One place where a request becomes an answer: match, guard, validate, run, answer. It knows no capability: who a key
// belongs to, and what was answered before, are functions that it is given.

import { Fault } from "../base/fault.ts";
import { newId } from "../base/id.ts";
import type { Log } from "../base/log.ts";
import type { Db, Reader, Tx } from "../store/db.ts";
import {
  answerFault,
  answerJson,
  answerPreflight,
  type ErrorContext,
  OPEN_ORIGINS,
  toFault,
} from "./answer.ts";
import { BODY_LIMIT_DEFAULT_BYTES, type Patience, readBody, textOfBody } from "./body.ts";
import { type BodyShares, createBodyShares, SMALL_SHARE_BYTES } from "./body-share.ts";
import { createFailureLog } from "./failure-log.ts";
import { decodeForm, decodeJson, demandJson, parse } from "./decode.ts";
import { dialectOf } from "./dialect.ts";
import { closeToPages, isForeignPage } from "./foreign-page.ts";
import { type IdempotentCall, idempotentCallOf } from "./idempotent-call.ts";
import { createMatcher, type Match } from "./match.ts";
import type { RateGuard } from "./rate.ts";
import { rawKeyOf } from "./raw-key.ts";
import type { Answer, Caller, Dialect, Route, Visitor } from "./route.ts";
import { demandSoundTarget, queryOf, splitTarget } from "./target.ts";
import { ownForm, signedOut, toSignIn } from "./visitor.ts";

export interface ServeParts {
  readonly routes: readonly Route[];
  readonly db: Db;
  readonly baseUrl: string;
  readonly log: Log;
  readonly now: () => number;
  /** Finds who a raw key belongs to; `cached` may be some seconds old and is asked for where the hold checks again. */
  readonly authenticate: (
    rawKey: string,
    now: number,
    cached: boolean,
  ) => Caller | undefined | Promise<Caller | undefined>;
  /** Whether a key that was found when the request began still works; asked inside the transaction of a write. */
  readonly isLiveKey?: (reader: Reader, keyId: string, now: number) => Promise<boolean>;
  /** Finds who is signed in by the request's cookies; absent where nobody can sign in. */
  readonly findVisitor?: (cookies: string | null, now: number) => Promise<Visitor | undefined>;
  /** Shows a fault to a human; absent for a line of text. */
  readonly faultPage?: (fault: Fault, requestId: string) => Response;
  readonly beginIdempotent: (
    tx: Tx,
    call: IdempotentCall,
  ) => Promise<{ readonly status: number; readonly body: string } | undefined>;
  readonly finishIdempotent: (
    tx: Tx,
    call: IdempotentCall,
    answer: { readonly status: number; readonly body: string },
  ) => Promise<void>;
  readonly rate: RateGuard | undefined;
  /** Counts what is refused of the calls that their hold counts otherwise. */
  readonly refusals?: RateGuard | undefined;
  readonly addressOf: (peer: string, forwarded: string | null) => string;
  readonly isDraining: () => boolean;
  /** What to say of an address that has no route for the request, where there is more to say than that. */
  readonly notOffered?: (path: string) => Fault | undefined;
  /** In development: pages of other machines are told nothing. */
  readonly ownPagesOnly?: boolean;
  /** Smaller shares for tests. */
  readonly bodyShares?: BodyShares | undefined;
  /** Shorter waits for tests. */
  readonly patience?: Patience | undefined;
  readonly onAnswer?: (route: Route | undefined, status: number, ms: number) => void;
}

/** The connection that a request came by. */
export interface Peer {
  readonly address: () => string;
  /** Lets the connection be silent for as long as the call takes. */
  readonly keepOpen: () => void;
}

const OVERLOADED_RETRY_SECONDS = 2;

interface Exchange {
  readonly request: Request;
  readonly path: string;
  readonly query: string;
  readonly peer: Peer;
  readonly requestId: string;
  readonly now: number;
  dialect: Dialect;
  keySent: boolean;
  route: Route | undefined;
  /** The key of a call that its hold counts: where it is refused, it is counted here. */
  heldKeyId: string | undefined;
  /** How much of a large body is counted as in memory, and as whose. */
  largeBytes: number;
  largeCaller: string;
}

/** The whole service as one function from a request to its answer; it never throws. */
export function createServe(
  parts: ServeParts,
): (request: Request, peer: Peer) => Promise<Response> {
  const match = createMatcher(parts.routes);
  const { bodyShares: shares = createBodyShares() } = parts;
  const tellFailure = createFailureLog(parts.log);
  return async (request, peer) => {
    const now = parts.now();
    const [path, query] = splitTarget(request.url);
    const exchange: Exchange = {
      request,
      path,
      query,
      peer,
      requestId: newId("req", now),
      now,
      dialect: dialectOf(path, request.headers),
      keySent: false,
      route: undefined,
      heldKeyId: undefined,
      largeBytes: 0,
      largeCaller: "",
    };
    let answer: Response;
    try {
      answer = await answerRequest({ parts, match, shares }, exchange);
    } catch (error) {
      const fault = toFault(error);
      tell(parts, exchange, { fault, tellFailure });
      answer = answerTrouble(parts, exchange, fault);
    }
    if (exchange.largeBytes > 0) shares.giveBack(exchange.largeCaller, exchange.largeBytes);
    if (answer.status >= 400 && exchange.heldKeyId !== undefined)
      parts.refusals?.count(exchange.heldKeyId, parts.now());
    // A model call's answer is born with its headers: adding them one by one costs more than its routing.
    if (!answer.headers.has("x-request-id")) dress(answer.headers, exchange);
    if (parts.ownPagesOnly === true && isForeignPage(request.headers)) closeToPages(answer.headers);
    parts.onAnswer?.(exchange.route, answer.status, parts.now() - now);
    return answer;
  };
}

interface Trouble {
  readonly fault: Fault;
  readonly tellFailure: ReturnType<typeof createFailureLog>;
}

function tell(parts: ServeParts, exchange: Exchange, { fault, tellFailure }: Trouble): void {
  const fields = {
    request_id: exchange.requestId,
    path: exchange.path,
    code: fault.code,
    detail: fault.message,
  };
  if (fault.status >= 500 && fault.options.isCallersChoice !== true)
    tellFailure({ ...fields, cause: fault.options.cause }, performance.now());
  else parts.log.debug("request refused", fields);
}

function answerTrouble(parts: ServeParts, exchange: Exchange, fault: Fault): Response {
  if (exchange.dialect === "page" && parts.faultPage !== undefined)
    return parts.faultPage(fault, exchange.requestId);
  const context: ErrorContext = {
    dialect: exchange.dialect,
    requestId: exchange.requestId,
    baseUrl: parts.baseUrl,
    keySent: exchange.keySent,
  };
  return answerFault(fault, context);
}

interface Serving {
  readonly parts: ServeParts;
  readonly match: (method: string, path: string) => Match;
  readonly shares: BodyShares;
}

async function answerRequest(
  { parts, match, shares }: Serving,
  exchange: Exchange,
): Promise<Response> {
  const { request, path } = exchange;
  demandSoundTarget(request, path, exchange.query);
  if (request.method === "OPTIONS" && path.startsWith("/v1/")) return answerPreflight(request);
  const found = demandRoute(match(request.method, path), () => parts.notOffered?.(path));
  const { route } = found;
  exchange.route = route;
  exchange.dialect = route.dialect;
  if (parts.isDraining() && route.tag !== "Operations") {
    throw new Fault("overloaded", "draining", { retryAfterSeconds: OVERLOADED_RETRY_SECONDS });
  }
  if (route.recheckedByHold === true) exchange.peer.keepOpen();
  const caller =
    route.auth === "key"
      ? admitted(parts, exchange, route, await findCaller(parts, exchange, route))
      : await findVisitor(parts, exchange, route);
  if (route.auth === "person" && caller === undefined) {
    // A form is not sent on: the page's policy (`form-action`) forbids that it ends at the identity provider, and the browser
    // then shows nothing at all.
    if (route.method !== "GET") throw signedOut();
    return toSignIn(path, exchange.query);
  }
  const limitBytes = route.bodyLimitBytes ?? BODY_LIMIT_DEFAULT_BYTES;
  const grow = (bytes: number): void => countLarge(shares, exchange, caller, bytes);
  const bodyText =
    route.method === "GET"
      ? ""
      : textOfBody(await readBody(request, limitBytes, parts.patience, grow));
  const input = inputOf(parts, exchange, found, { caller, bodyText });
  if (route.write !== undefined) return await runWrite(parts, exchange, route, input);
  const answer = await route.read?.(input);
  if (answer === undefined) throw new Error(`route ${route.id} has nothing to run`);
  return answer instanceof Response ? answer : answerJson(answer);
}

function countLarge(
  shares: BodyShares,
  exchange: Exchange,
  caller: RawInput["caller"],
  bytes: number,
): void {
  if (bytes <= SMALL_SHARE_BYTES) return;
  exchange.largeCaller = caller !== undefined && "accountId" in caller ? caller.accountId : "";
  shares.take(exchange.largeCaller, bytes - exchange.largeBytes);
  exchange.largeBytes = bytes;
}

function demandRoute(found: Match, notOffered: () => Fault | undefined): Match & { kind: "route" } {
  if (found.kind === "route") return found;
  const told = notOffered();
  if (told !== undefined) throw told;
  if (found.kind === "none") throw new Fault("not_found", "no route");
  throw new Fault("method_not_allowed", "no such method here", {
    headers: { allow: found.allow.join(", ") },
  });
}

async function findVisitor(
  parts: ServeParts,
  exchange: Exchange,
  route: Route,
): Promise<Visitor | undefined> {
  if (route.auth === "none") return undefined;
  return await parts.findVisitor?.(exchange.request.headers.get("cookie"), exchange.now);
}

type RawInput = Parameters<NonNullable<Route["read"]>>[0];

function inputOf(
  parts: ServeParts,
  exchange: Exchange,
  found: Match & { kind: "route" },
  { caller, bodyText }: Pick<RawInput, "caller" | "bodyText">,
): RawInput {
  const { request, requestId, now } = exchange;
  const { route } = found;
  return {
    params: parse(route.params, found.params, ""),
    query:
      route.query === undefined && exchange.query === ""
        ? undefined
        : parse(route.query, queryOf(exchange.query), "query "),
    body: parse(
      route.rawBody === true ? undefined : route.body,
      bodyOf(parts, exchange, found, { bodyText, caller }),
      "",
    ),
    caller,
    now,
    requestId,
    address:
      route.rawBody === true
        ? ""
        : parts.addressOf(exchange.peer.address(), request.headers.get("x-forwarded-for")),
    headers: request.headers,
    request,
    bodyText,
  };
}

function bodyOf(
  parts: ServeParts,
  { request }: Exchange,
  { route }: Match & { kind: "route" },
  { bodyText, caller }: Pick<RawInput, "bodyText" | "caller">,
): unknown {
  if (route.method !== "GET" && (route.auth === "visitor" || route.auth === "person")) {
    const visitor = caller !== undefined && "csrf" in caller ? caller : undefined;
    return ownForm(decodeForm(request, bodyText), request.headers, visitor, parts.baseUrl);
  }
  if (route.rawBody === true) demandJson(request);
  if (route.body === undefined || route.rawBody === true) return undefined;
  return route.bodyType === "form" ? decodeForm(request, bodyText) : decodeJson(request, bodyText);
}

function findCaller(
  parts: ServeParts,
  exchange: Exchange,
  route: Route,
): ReturnType<ServeParts["authenticate"]> {
  const raw = rawKeyOf(exchange.request.headers, route.dialect);
  exchange.keySent = raw !== undefined;
  if (raw === undefined)
    throw new Fault("invalid_api_key", "no key", {
      message: "No API key was sent. Send it as `authorization: Bearer <API_KEY>`.",
    });
  return parts.authenticate(raw, exchange.now, route.recheckedByHold === true);
}

function admitted(
  parts: ServeParts,
  exchange: Exchange,
  route: Route,
  caller: Caller | undefined,
): Caller {
  if (caller === undefined) throw new Fault("invalid_api_key", "unknown, expired or revoked key");
  const waitMs = waitOf(parts, exchange, route, caller.keyId);
  if (waitMs > 0)
    throw new Fault("rate_limited", "key calls too often", { retryAfterSeconds: waitMs / 1_000 });
  return caller;
}

// A model call is counted by its hold, on all processes at once, and here only where it is refused: without that, a key
// that affords nothing could send bodies without end. It is asked before its body is read.
function waitOf(parts: ServeParts, exchange: Exchange, route: Route, keyId: string): number {
  if (route.recheckedByHold !== true) return parts.rate?.take(keyId, exchange.now) ?? 0;
  const waitMs = parts.refusals?.wait(keyId, exchange.now) ?? 0;
  if (waitMs === 0) exchange.heldKeyId = keyId;
  return waitMs;
}

async function runWrite(
  parts: ServeParts,
  exchange: Exchange,
  route: Route,
  input: RawInput,
): Promise<Response> {
  const { write } = route;
  if (write === undefined) throw new Error("not a write route");
  await route.before?.(input);
  const call = idempotentCallOf(exchange.path, route, input);
  const result = await parts.db.write(
    async (tx): Promise<{ answer: Answer; replayed: boolean }> => {
      await demandLiveKey(parts, tx, input);
      if (call === undefined) return { answer: await write(tx, input), replayed: false };
      const stored = await parts.beginIdempotent(tx, call);
      if (stored !== undefined)
        return { answer: { status: stored.status, body: JSON.parse(stored.body) }, replayed: true };
      const answer = await write(tx, input);
      await parts.finishIdempotent(tx, call, {
        status: answer.status,
        body: JSON.stringify(answer.body),
      });
      return { answer, replayed: false };
    },
  );
  const response = answerJson(result.answer);
  response.headers.set("cache-control", "no-store");
  if (result.replayed) response.headers.set("idempotent-replayed", "true");
  return response;
}

// The key was looked at before the body was read, which its sender may draw out: it may have been revoked since.
async function demandLiveKey(parts: ServeParts, tx: Tx, { caller }: RawInput): Promise<void> {
  if (parts.isLiveKey === undefined || caller === undefined || !("keyId" in caller)) return;
  if (!(await parts.isLiveKey(tx, caller.keyId, parts.now())))
    throw new Fault("invalid_api_key", "the key was revoked or expired while its request came in");
}

/** RFC 6749 §5.1 asks for both headers. */
function keepOutOfCaches(headers: Headers): void {
  headers.set("cache-control", "no-store");
  headers.set("pragma", "no-cache");
}

function dress(headers: Headers, { requestId, path, dialect, route }: Exchange): void {
  headers.set("x-request-id", requestId);
  // Caches keep out of what an `authorization` header asked for, and know nothing of an `x-api-key`.
  if (route?.auth === "key" && !headers.has("cache-control"))
    headers.set("cache-control", "no-store");
  if (path.startsWith("/v1/")) {
    for (const [name, value] of Object.entries(OPEN_ORIGINS)) headers.set(name, value);
  }
  if (dialect === "oauth") keepOutOfCaches(headers);
}
