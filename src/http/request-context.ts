// The state of one request, which the steps of its handling share.

import type { Fault } from "../base/fault.ts";
import type { BodyHash } from "./request/body-hash.ts";
import type { FormEntry } from "./request/multipart-body.ts";
import type { AnyRouteInput, AuthenticatedKey, Operator, Route, SessionUser } from "./route.ts";
import type { RouteResponse } from "./route.ts";
import type { WebSocketHandlers } from "./web-socket.ts";

/** The client's connection. */
export interface Peer {
  readonly address: () => string;
  /** Keeps the connection open without traffic for as long as the call takes. */
  readonly disableIdleTimeout: () => void;
  /** Upgrades the connection to a WebSocket after the response; absent if the request has no connection of its own. */
  readonly acceptWebSocket?: (handlers: WebSocketHandlers) => void;
  /** The key of a request that this process makes itself for a session of the MCP server. A key that the request sends counts first. */
  readonly sessionKey?: AuthenticatedKey | undefined;
}

/** Who sent a request, as far as the steps that authenticate know. */
export interface RequestCaller {
  readonly key?: AuthenticatedKey | undefined;
  readonly user?: SessionUser | Operator | undefined;
  /** The key that was sent, if it worked once and does not any more. */
  readonly endedKey?: EndedKey | undefined;
  /** For a signed request: throws unless the body is the one that was signed. */
  readonly checkBody?: (body: BodyHash) => void;
}

export interface EndedKey {
  readonly accountId: string;
  readonly keyId: string;
}

export interface ReceivedBody {
  /** Empty if the body is a form with files. */
  readonly text: string;
  readonly form?: readonly FormEntry[];
  readonly formBytes?: Uint8Array;
}

export interface RequestContext {
  readonly request: Request;
  readonly path: string;
  readonly query: string;
  readonly peer: Peer;
  readonly requestId: string;
  readonly now: number;
  /** Called once the response has begun, in any order: what a step counted, it releases here. */
  readonly onResponse: ((response: Response, fault: Fault | undefined) => void)[];
  /** Set by `matchRoute`. */
  match: { readonly route: Route; readonly params: Readonly<Record<string, string>> } | undefined;
  /** Set by the steps that authenticate. */
  caller: RequestCaller;
  /** Set by `receiveBody`. */
  body: ReceivedBody;
  /** Set by `parseInput`. */
  input: AnyRouteInput | undefined;
}

type StepResult = RouteResponse | Response | undefined;

/** One step of the handling of a request. It throws a fault, or returns the response if the request ends here. */
export type Step = (context: RequestContext, route: Route) => StepResult | Promise<StepResult>;
