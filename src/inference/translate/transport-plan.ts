// How a call reaches the provider's API, and how its reply comes back.

import {
  type FetchedFiles,
  type GatewayTools,
  type McpToolLists,
  type StreamForm,
  type StreamMeter,
  type TranslatedRequest,
  type Turn,
  type Usage,
  WIRE_TRAITS,
} from "@postern/wires";
import type { PublicError } from "../../base/error-body.ts";
import type { Fault } from "../../base/fault.ts";
import type { JsonObject } from "../../base/json.ts";
import type { FormFile } from "../../http/request/multipart-body.ts";
import type { UpstreamWire } from "../providers/providers.ts";
import type { ParsedRequest } from "../request/parse-request.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { RequestAdjustments } from "./rewrite-request.ts";
import type { StreamingApi, StreamTransform } from "./stream-transform.ts";
import type { ClientReply } from "./translate-reply.ts";

export interface TransportPlan {
  readonly wire: UpstreamWire;
  /** The path below the provider's base URL, for a wire that names the model and the operation there. */
  readonly path: string | undefined;
  readonly body: string;
  /** False if a request that came as a form is sent as JSON. */
  readonly isForm?: false;
  /** A beta of Anthropic's API that the translated request uses. */
  readonly beta?: string | undefined;
  /** The request fields that were dropped, by path. */
  readonly dropped: readonly string[];
  readonly readUsage: (json: JsonObject) => Usage | undefined;
  /** Absent: a whole reply is read as a stream of its wire. */
  readonly isEmpty?: ((json: JsonObject) => boolean) | undefined;
  readonly writeReply: (reply: ReplyBody, usage: Usage | undefined, costUsd: string) => ClientReply;
  readonly createStreamTransform: () => StreamTransform;
  /** Meters the stream; absent: as the wire does. */
  readonly createMeter?: (() => StreamMeter) | undefined;
  /** Set if the gateway runs tools of the request. `body` is the first turn's, and the reply is composed of all turns. */
  readonly loop?: ToolLoop | undefined;
  /** Set if the reply is a stream without a conversation. */
  readonly relayedStream?: RelayedReplyStream | undefined;
  readonly isTranslated: boolean;
  /** Sent instead where the provider turns out not to have the endpoint of `path`. */
  readonly withoutEndpoint?: TransportPlan;
  /** Sent instead if the provider rejects the request for this reason. */
  readonly afterRejection?: { readonly reason: RegExp; readonly plan: () => TransportPlan };
}

/** The turns of a call in which the gateway runs tools. */
export interface ToolLoop extends Pick<GatewayTools, "search" | "fetch" | "mcp" | "writeOpening"> {
  readonly api: StreamingApi;
  /** The output limit of the whole call; undefined for that of the model. */
  readonly outputMax: number | undefined;
  readonly first: LoopTurn;
  /** The request with these turns after the caller's. Throws as a plan does. */
  readonly continueWith: (turns: readonly Turn[], limits: TurnLimits) => LoopTurn;
}

export interface TurnLimits {
  readonly outputMax: number;
  /** The functions that the model may not call again. */
  readonly exhausted: ReadonlySet<string>;
}

/** A request to the provider within a loop, and how its reply is read. */
export interface LoopTurn extends Pick<TransportPlan, "wire" | "path" | "body" | "beta"> {
  readonly readUsage: TransportPlan["readUsage"];
  readonly readReply: TranslatedRequest["readReply"];
  readonly createStreamReader: TranslatedRequest["createStreamReader"];
  readonly createMeter: () => StreamMeter;
}

export interface RelayedReplyStream extends StreamForm {
  readonly createMeter: () => StreamMeter;
  /** What the request alone tells. */
  readonly knownUsage: Usage | undefined;
}

export interface ReplyBody {
  readonly text: string;
  readonly json: JsonObject;
}

/** A request, the candidate that it is sent to, and how. */
export interface PlanInput {
  readonly request: ParsedRequest;
  readonly candidate: Candidate;
  readonly requestId: string;
  readonly now: number;
  /** The id, in `GET /v1/models`, of the model that the provider names in its reply. */
  readonly modelIdOf: (name: string) => string;
  /** What the caller sees of an error within a stream. */
  readonly toPublicError: (fault: Fault) => PublicError;
  readonly adjustments: RequestAdjustments;
  /** By their URL, if the gateway fetched files for the candidate's provider. */
  readonly files?: FetchedFiles | undefined;
  /** The files of the request, if it is a form. */
  readonly formFiles?: readonly FormFile[] | undefined;
  /** The tools of the MCP servers of the request, if the gateway calls them. */
  readonly mcp?: McpToolLists | undefined;
  /** The caller wants a 400 instead of a dropped field. */
  readonly isStrict: boolean;
  /** Whether losses that change the reply are dropped, too. */
  readonly isLossy: boolean;
}

// Google names the model and the operation in the path. Vertex names Anthropic's models in the path; elsewhere the messages wire names the model in the body.
export function requestPath(
  wire: UpstreamWire,
  { request, candidate: { credential, upstreamName } }: PlanInput,
): string | undefined {
  const { hasModelInPath, pathOf } = WIRE_TRAITS[wire];
  if (pathOf !== undefined) return pathOf(upstreamName, request.stream);
  if (!hasModelInPath || credential.provider.messagesVersion === undefined) return undefined;
  const name = encodeURIComponent(upstreamName).replaceAll("%40", "@");
  return `/${name}:${request.stream ? "streamRawPredict" : "rawPredict"}`;
}
