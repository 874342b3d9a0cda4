// A route is a value: its inputs, its responses and its handler. The router, the guards, the OpenAPI document, llms.txt and
// the tests all derive from it.

import type { z } from "zod";
import type { DataRules } from "../base/data-rules.ts";
import type { FaultCode, NextStep } from "../base/fault.ts";
import type { ResponseStorage } from "../base/response-storage.ts";
import type { Tx } from "../store/db.ts";
import type { KeyPolicy } from "./key-policy.ts";
import type { FormEntry } from "./request/multipart-body.ts";
import type { Scope } from "./scopes.ts";
import type { WebSocketHandlers } from "./web-socket.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** The error envelope: OpenAI's, Anthropic's, Google's, RFC 6749's flat object, JSON-RPC's, SCIM's, or an HTML page. */
export type Dialect = "openai" | "messages" | "google" | "oauth" | "jsonrpc" | "scim" | "page";
/** Amazon's error format is only for its paths, none of which has a route. */
export type ErrorDialect = Dialect | "aws";

/** The account and API key of a request. */
export interface Caller {
  readonly accountId: string;
  readonly keyId: string;
  /** What the key may call, and how fast; absent if nothing is restricted. */
  readonly policy?: KeyPolicy;
  /** The key's restrictions as they were read. A hold compares them with those of the key by then. */
  readonly restrictions?: KeyRestrictions;
  /** The account's own setting, if it has one. */
  readonly responseStorage?: ResponseStorage | undefined;
  /** The account's setting: every call gets a signed receipt. */
  readonly signsReceipts?: boolean;
  /** The account's setting: days until logged prompts of its keys are deleted; absent for the operator's. */
  readonly promptRetentionDays?: number;
  readonly granted?: ReadonlySet<Scope>;
  /** Set for a request without a key: the caller is its network, which has no account. */
  readonly isAnonymous?: true;
  /** The account's setting: what providers may do with the data of all its calls. */
  readonly dataPolicy?: DataRules;
  /** The workspace has a sink: the usage of the call is queued for it. */
  readonly exportsUsage?: true;
  /** When the guardrails of the workspace changed last; absent if it has none. */
  readonly guardrailsAt?: number;
}

/** The columns of a key that restrict its calls, as they are stored. */
export interface KeyRestrictions {
  readonly policy: string | null;
  readonly scopes: string | null;
}

/** A caller whose key was looked up, and what the key may do. */
export interface AuthenticatedKey extends Caller {
  readonly granted: ReadonlySet<Scope>;
  /** Whether a person owns the account. */
  readonly isClaimed?: boolean;
}

/** The signed-in person of a session cookie. */
export interface SessionUser {
  readonly personId: string;
  readonly issuer: string;
  readonly subject: string;
  /** Verified by the identity provider. */
  readonly email: string;
  /** An IANA time zone; undefined for UTC. */
  readonly timeZone?: string | undefined;
  /** The only workspace that the person can open, because its identity provider signed them in. */
  readonly ssoAccountId?: string | undefined;
  readonly sessionId: string;
  /** The token that every form sends in its `csrf` field. */
  readonly csrf: string;
}

/** The signed-in operator of a session cookie. */
export interface Operator {
  readonly email: string;
  readonly sessionId: string;
  /** The token that every form sends in its `csrf` field. */
  readonly csrf: string;
}

export interface RouteResponse {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** For a write route: called once its transaction has committed, for effects such as a log line. */
  readonly afterCommit?: () => void;
}

export interface ResponseDoc {
  readonly description: string;
  /** Schema of a JSON body; absent for other content types. */
  readonly schema?: z.ZodType;
  readonly contentType?: string;
  readonly example?: unknown;
  /** Documented headers, with descriptions. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Other forms of the same response, such as a stream. */
  readonly alternatives?: readonly Pick<ResponseDoc, "schema" | "contentType" | "example">[];
}

/** The documentation of a route with one response. */
export function oneResponse(
  description: string,
  schema: z.ZodType,
  example: unknown,
  status = 200,
): Readonly<Record<number, ResponseDoc>> {
  return { [status]: { description, schema, example } };
}

/** Whether a key with these scopes can take a next step. */
export type StepFilter = (granted: ReadonlySet<Scope>, step: NextStep) => boolean;

/** Input of every handler. `now` is the time of arrival in epoch milliseconds; handlers do not read a clock. */
export interface RouteInput<P, Q, B, C> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly caller: C;
  readonly now: number;
  readonly requestId: string;
  /** The client's IP, from `x-forwarded-for` behind trusted proxies; empty for model calls. */
  readonly clientIp: string;
  readonly headers: Headers;
  readonly request: Request;
  /** The undecoded body. */
  readonly bodyText: string;
  /** The body, if it is a form with files. */
  readonly form?: readonly FormEntry[] | undefined;
  /** The same undecoded. */
  readonly formBytes?: Uint8Array | undefined;
  /** Set if the connection can become a WebSocket. */
  readonly acceptWebSocket?: ((handlers: WebSocketHandlers) => void) | undefined;
  /** For errors within a response. */
  readonly allowsStep?: StepFilter | undefined;
}

/** Who may call a route, and what its requests go through: the steps of each kind are in request-steps.ts. */
export type RouteKind =
  | "public"
  | "public-write"
  | "key"
  | "key-write"
  | "model"
  | "open-page"
  | "open-form"
  | "page"
  | "form"
  | "operator-page"
  | "operator-form";

/** Whether a route requires an API key. */
export function requiresKey({ kind }: Route): boolean {
  return kind === "key" || kind === "key-write" || kind === "model";
}

/** Whether a route requires a session. */
export function requiresSession({ kind }: Route): boolean {
  return kind === "page" || kind === "form";
}

interface RouteDoc {
  readonly method: Method;
  /** An OpenAPI path: `/v1/keys/{id}`. `{name+}` matches slashes, too. */
  readonly path: string;
  /** OpenAPI's operationId: a unique verb and noun. */
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: string;
  readonly dialect: Dialect;
  readonly responses: Readonly<Record<number, ResponseDoc>>;
  /** Faults of the handler; those of the guards are documented for every route. */
  readonly faults: readonly FaultCode[];
  /** Documented example of the request body. */
  readonly requestExample?: unknown;
  /** JSON by default. "raw": the function parses `bodyText`, which is JSON, itself; the schema is documentation only. */
  readonly bodyType?: "json" | "form" | "raw";
  /** The body can be, or is, a form with files. "streamed": the function reads the body of `request` itself. */
  readonly multipart?: "allowed" | "required" | "streamed";
  /** For a route without an API key: throws if the headers do not authenticate the request, before its body is read. */
  readonly authenticate?: (headers: Headers, now: number) => Promise<unknown>;
  /** Body size limit; 64 KiB by default. */
  readonly bodyLimitBytes?: number;
  /** The response has a raw key or another secret. */
  readonly revealsSecret?: true;
  /** The handler honors `Idempotency-Key` itself, as write routes always do. */
  readonly idempotent?: true;
  /** Without a key, a wallet can pay for the call. */
  readonly acceptsWallets?: true;
  /** On a public route: what its function authenticates, if the request has it or must have it. */
  readonly credential?: "optionalKey" | "scimToken" | "metricsToken";
  /** Documented request headers, with descriptions. */
  readonly requestHeaders?: Readonly<Record<string, string>>;
  /** Provider headers that are passed on to the caller; a trailing `*` matches any suffix. */
  readonly relayedHeaders?: Readonly<Record<string, string>>;
  /** The connection stays open without traffic for as long as the call takes. */
  readonly isLongRunning?: true;
  /** Not in the API documentation, such as a page or the documentation itself. */
  readonly hidden?: boolean;
}

/** `createApiKey` → `api/create-api-key`: the page of a route in the docs. */
export function endpointSlug(routeId: string): string {
  return `api/${routeId.replaceAll(/[A-Z]+/g, (letters) => `-${letters.toLowerCase()}`)}`;
}

/** The page as Markdown; undefined for routes that are not documented. */
export function docsPathOf({ id, hidden, dialect }: Route): string | undefined {
  return hidden === true || dialect === "page" ? undefined : `/docs/${endpointSlug(id)}.md`;
}

interface RouteSchemas<P, Q, B> {
  readonly params?: z.ZodType<P>;
  readonly query?: z.ZodType<Q>;
  readonly body?: z.ZodType<B>;
}

interface RouteSpec<P, Q, B, C> extends RouteDoc, RouteSchemas<P, Q, B> {
  readonly run: (
    input: RouteInput<P, Q, B, C>,
  ) => Promise<RouteResponse | Response> | RouteResponse | Response;
}

interface WriteRouteSpec<P, Q, B, C, V> extends RouteDoc, RouteSchemas<P, Q, B> {
  /**
   * Runs in one transaction with the idempotency record. It may be retried, so it must not have side effects besides `tx`.
   */
  readonly run: (tx: Tx, input: RouteInput<P, Q, B, C>, prepared: V) => Promise<RouteResponse>;
  /** Runs before the transaction, such as a call to another service. `run` gets its result. */
  readonly before?: (input: RouteInput<P, Q, B, C>) => Promise<V>;
  /** Removes what `before` stored, if `run` failed, or did not run because the request is a repetition. */
  readonly undo?: (prepared: V) => Promise<void>;
}

/** Input of a route whose types are not known. */
export type AnyRouteInput = RouteInput<
  unknown,
  unknown,
  unknown,
  Caller | SessionUser | Operator | undefined
>;

/** A route without its type parameters, as the router stores it. */
export interface Route extends RouteDoc, RouteSchemas<unknown, unknown, unknown> {
  readonly kind: RouteKind;
  /** What an API key needs, if the route requires one; undefined if every key may. */
  readonly scope?: Scope | undefined;
  readonly read?: (
    input: AnyRouteInput,
  ) => Promise<RouteResponse | Response> | RouteResponse | Response;
  readonly write?: (tx: Tx, input: AnyRouteInput, prepared: unknown) => Promise<RouteResponse>;
  readonly before?: (input: AnyRouteInput) => Promise<unknown>;
  readonly undo?: (prepared: unknown) => Promise<void>;
}

type None = undefined;

/** A route without authentication. */
export function publicRoute<P = None, Q = None, B = None>(spec: RouteSpec<P, Q, B, None>): Route {
  return toRoute(spec, "public");
}

interface KeyAccess {
  /** What the API key needs; undefined if every key may. */
  readonly scope: Scope | undefined;
}

/** A route that requires an API key. */
export function keyRoute<P = None, Q = None, B = None>(
  spec: RouteSpec<P, Q, B, AuthenticatedKey> & KeyAccess,
): Route {
  return toRoute(spec, "key");
}

/**
 * A call of a model. It waits while the process has more than it can serve, and its hold counts it and checks its key again,
 * across all processes.
 */
export function modelRoute<P = None, Q = None, B = None>(
  spec: RouteSpec<P, Q, B, Caller> & KeyAccess,
): Route {
  return toRoute({ ...spec, isLongRunning: true }, "model");
}

/** A write route without authentication. Honors `Idempotency-Key`. */
export function publicWriteRoute<P = None, Q = None, B = None, V = void>(
  spec: WriteRouteSpec<P, Q, B, None, V>,
): Route {
  return toWriteRoute(spec, "public-write");
}

/** A write route that requires an API key. Honors `Idempotency-Key`. */
export function keyWriteRoute<P = None, Q = None, B = None, V = void>(
  spec: WriteRouteSpec<P, Q, B, Caller, V> & KeyAccess,
): Route {
  return toWriteRoute(spec, "key-write");
}

/** Pages have constructors of their own, in pages/page-routes.ts. */
export function toRoute<P, Q, B, C>(spec: RouteSpec<P, Q, B, C>, kind: RouteKind): Route {
  const { run, ...doc } = spec;
  // Safe because the request handler parses params, query and body with this spec's schemas and takes the steps of `kind`.
  return { ...doc, kind, read: run as NonNullable<Route["read"]> };
}

function toWriteRoute<P, Q, B, C, V>(spec: WriteRouteSpec<P, Q, B, C, V>, kind: RouteKind): Route {
  const { run, before, undo, ...doc } = spec;
  // Safe for the same reason as in `toRoute`; `prepared` is the result of this spec's `before`.
  const write: Route["write"] = (tx, input, prepared) =>
    run(tx, input as RouteInput<P, Q, B, C>, prepared as V);
  return before === undefined
    ? { ...doc, kind, write }
    : {
        ...doc,
        kind,
        write,
        // Safe for the same reason as in `toRoute`.
        before: (input) => before(input as RouteInput<P, Q, B, C>),
        // Safe because `prepared` is the result of this spec's `before`.
        ...(undo !== undefined && { undo: (prepared) => undo(prepared as V) }),
      };
}
