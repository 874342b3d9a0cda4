// A route is a value: what it takes, what it answers and what runs. The router, the guards, the OpenAPI description,
// llms.txt and the tests all read this one value; there is no second copy of the API.

import type { z } from "zod";
import type { FaultCode } from "../base/fault.ts";
import type { Tx } from "../store/db.ts";

export type Method = "GET" | "POST" | "PATCH" | "DELETE";

/** The form of a route's errors: OpenAI's envelope, Anthropic's, RFC 6749's flat one, or a page for a human. */
export type Dialect = "openai" | "messages" | "oauth" | "page";

/** Who is calling, as the key that was sent says. */
export interface Caller {
  readonly accountId: string;
  readonly keyId: string;
}

/** Who is signed in, as the session cookie says. */
export interface SessionUser {
  readonly personId: string;
  readonly issuer: string;
  readonly subject: string;
  /** Verified by the identity provider. */
  readonly email: string;
  readonly sessionId: string;
  /** Every form carries it in the field `csrf`: another site cannot know it. */
  readonly csrf: string;
}

export interface RouteResponse {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ResponseDoc {
  readonly description: string;
  /** A JSON body's schema; absent for other content types. */
  readonly schema?: z.ZodType;
  readonly contentType?: string;
  readonly example?: unknown;
  /** Headers worth knowing, with what they say. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Other forms of the same answer, such as a stream. */
  readonly alternatives?: readonly Pick<ResponseDoc, "schema" | "contentType" | "example">[];
}

/** What every `run` is given. `now` is the time of arrival in epoch milliseconds: nothing below reads a clock. */
export interface RouteInput<P, Q, B, C> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly caller: C;
  readonly now: number;
  readonly requestId: string;
  /** The client's network address, by the trusted proxies' word where there are any. A model call is not asked for it. */
  readonly clientIp: string;
  readonly headers: Headers;
  readonly request: Request;
  /** The body as it came. */
  readonly bodyText: string;
}

interface RouteDoc {
  readonly method: Method;
  /** OpenAPI's form: `/v1/keys/{id}`. A last `{name+}` takes the rest of the path, slashes and all. */
  readonly path: string;
  /** The operation's name: a verb and a noun, unique. */
  readonly id: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: string;
  readonly dialect: Dialect;
  readonly responses: Readonly<Record<number, ResponseDoc>>;
  /** The faults that this route itself can give; those of its guards are added by `serve`. */
  readonly faults: readonly FaultCode[];
  /** An example of a request body, for the documents. */
  readonly requestExample?: unknown;
  readonly bodyType?: "json" | "form";
  /** The body is not parsed here: `run` reads `bodyText`, and the schema is for the documents. */
  readonly rawBody?: true;
  /** The largest body; the default is 64 KiB. */
  readonly bodyLimitBytes?: number;
  /** It honours `Idempotency-Key` by itself, as a route that writes always does. */
  readonly idempotent?: true;
  /** Headers of the request that change the answer, with what they do. */
  readonly requestHeaders?: Readonly<Record<string, string>>;
  /** Headers of a provider that its answers and its errors carry on; a name that ends in `*` is the beginning of many. */
  readonly relayedHeaders?: Readonly<Record<string, string>>;
  /** The hold of a model call checks the key again in its own transaction, so a look-up some seconds old will do. */
  readonly recheckedByHold?: true;
  /** The answer shows a secret once: a repetition by `Idempotency-Key` shows it to the key that asked, and to no other. */
  readonly revealsSecret?: true;
  /** Left out of the documents, such as a page or the documents themselves. */
  readonly hidden?: boolean;
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

interface WriteRouteSpec<P, Q, B, C> extends RouteDoc, RouteSchemas<P, Q, B> {
  /**
   * Runs inside one transaction together with the idempotency record: a crash leaves both or neither. It may run more
   * than once, so it does nothing but talk to `tx`.
   */
  readonly run: (tx: Tx, input: RouteInput<P, Q, B, C>) => Promise<RouteResponse>;
  /** Work that must come before the transaction, such as a call to another service. */
  readonly before?: (input: RouteInput<P, Q, B, C>) => Promise<void>;
}

type AnyRouteInput = RouteInput<unknown, unknown, unknown, Caller | SessionUser | undefined>;

/** A route with its types folded away, as the table of contents holds it. */
export interface Route extends RouteDoc, RouteSchemas<unknown, unknown, unknown> {
  readonly auth: "none" | "key" | "visitor" | "person";
  readonly read?: (
    input: AnyRouteInput,
  ) => Promise<RouteResponse | Response> | RouteResponse | Response;
  readonly write?: (tx: Tx, input: AnyRouteInput) => Promise<RouteResponse>;
  readonly before?: (input: AnyRouteInput) => Promise<void>;
}

type None = undefined;

/** A route that anybody may call. */
export function publicRoute<P = None, Q = None, B = None>(spec: RouteSpec<P, Q, B, None>): Route {
  return toRoute(spec, "none");
}

/** A route that takes a gateway API key. */
export function keyRoute<P = None, Q = None, B = None>(spec: RouteSpec<P, Q, B, Caller>): Route {
  return toRoute(spec, "key");
}

/** A page for whoever comes, who may be signed in. Its posts are forms, and refused where they come from elsewhere. */
export function optionalSessionRoute<P = None, Q = None, B = None>(
  spec: RouteSpec<P, Q, B, SessionUser | undefined>,
): Route {
  return toRoute(spec, "visitor");
}

/** A page for a signed-in person; whoever is not is sent to sign in. */
export function sessionRoute<P = None, Q = None, B = None>(
  spec: RouteSpec<P, Q, B, SessionUser>,
): Route {
  return toRoute(spec, "person");
}

/** A route that anybody may call, which writes, and honours `Idempotency-Key`. */
export function publicWriteRoute<P = None, Q = None, B = None>(
  spec: WriteRouteSpec<P, Q, B, None>,
): Route {
  return toWriteRoute(spec, "none");
}

/** A route that takes a gateway API key, which writes, and honours `Idempotency-Key`. */
export function keyWriteRoute<P = None, Q = None, B = None>(
  spec: WriteRouteSpec<P, Q, B, Caller>,
): Route {
  return toWriteRoute(spec, "key");
}

function toRoute<P, Q, B, C>(spec: RouteSpec<P, Q, B, C>, auth: Route["auth"]): Route {
  const { run, ...doc } = spec;
  // Safe because `serve` parses params, query and body with this same spec's schemas, and authenticates by this `auth`.
  return { ...doc, auth, read: (input) => run(input as RouteInput<P, Q, B, C>) };
}

function toWriteRoute<P, Q, B, C>(spec: WriteRouteSpec<P, Q, B, C>, auth: Route["auth"]): Route {
  const { run, before, ...doc } = spec;
  // Safe for the same reason as in `fold`.
  const write: Route["write"] = (tx, input) => run(tx, input as RouteInput<P, Q, B, C>);
  // Safe for the same reason as in `fold`.
  return before === undefined
    ? { ...doc, auth, write }
    : { ...doc, auth, write, before: (input) => before(input as RouteInput<P, Q, B, C>) };
}
