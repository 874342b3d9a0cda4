// Routes of /v1/responses/{id}. Stored responses are created by POST /v1/responses.

import { z } from "zod";
import { invalid, Fault, readPageStep } from "../base/fault.ts";
import { reachOf } from "../http/reach.ts";
import { keyRoute, keyWriteRoute, oneResponse, type Route } from "../http/route.ts";
import { isWebSocketHandshake, SWITCHING_PROTOCOLS } from "../http/web-socket.ts";
import { compactRoute } from "./compaction/compaction-routes.ts";
import {
  InputItemList,
  toInputItemList,
  toResponseRecord,
  StoredResponseRecord,
} from "./response-record.ts";
import type { Responses } from "./responses.ts";
import { type StorageRouteDeps, storageRoutes } from "./storage/response-storage-routes.ts";
import type { ResponseWebSockets } from "./websocket/web-sockets.ts";

export interface ResponsesRouteDeps extends StorageRouteDeps {
  readonly responses: Responses;
  readonly webSockets: ResponseWebSockets;
}

const ID_EXAMPLE = "resp_01kvf2q8xn3m5r7t9w1y4z6b8d";
const TAG = "Models";

const params = z.object({
  id: z.string().max(200).meta({ description: "The stored response's id.", example: ID_EXAMPLE }),
});

const EXAMPLE = {
  id: ID_EXAMPLE,
  object: "response",
  created_at: 1_795_000_000,
  status: "completed",
  model: "sim/echo",
  output: [
    {
      id: "msg_1",
      type: "message",
      role: "assistant",
      content: [{ type: "output_text", text: "You said: Hello", annotations: [] }],
    },
  ],
  previous_response_id: null,
  store: true,
  usage: { cost: 0.000012, input_tokens: 4, output_tokens: 4, total_tokens: 8 },
};

const STREAM_EXAMPLE = `event: response.output_text.delta
data: {"type":"response.output_text.delta","sequence_number":4,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"You"}

`;

const ITEM_EXAMPLE = {
  id: "msg_01kvf2q8xn3m5r7t9w1y4z6b8din0",
  type: "message",
  status: "completed",
  role: "user",
  content: [{ type: "input_text", text: "Hello" }],
};

export function responsesRoutes({
  responses,
  webSockets,
  ...storage
}: ResponsesRouteDeps): readonly Route[] {
  return [
    webSocketRoute(webSockets),
    retrieveRoute(responses),
    deleteRoute(responses),
    inputItemsRoute(responses),
    cancelRoute(responses),
    compactRoute(responses),
    ...storageRoutes(storage),
  ];
}

function retrieveRoute(responses: Responses): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/responses/{id}",
    id: "getResponse",
    scope: "models:read",
    tag: TAG,
    summary: "Get a stored response",
    description:
      "Responses are stored encrypted, unless created with `store: false`, and are visible only to the account that created them; a key with a restriction reaches only its own. A background response is `queued` or `in_progress` until it is `completed`, `incomplete`, `failed` or `cancelled`.",
    dialect: "openai",
    params,
    // Loose: official clients send further parameters, such as `include`, which change nothing here.
    query: z.looseObject({
      stream: z.enum(["true", "false"]).optional().meta({
        description:
          "`true` for the events of a response that was created with `background: true` and `stream: true`, as server-sent events.",
      }),
      starting_after: z.coerce.number().int().min(0).optional().meta({
        description: "With `stream=true`: the `sequence_number` after which to begin.",
      }),
    }),
    responses: {
      200: {
        description: "The response, or the events of its stream.",
        schema: StoredResponseRecord,
        example: EXAMPLE,
        alternatives: [{ contentType: "text/event-stream", example: STREAM_EXAMPLE }],
      },
    },
    faults: ["not_found", "rate_limited"],
    run: async ({ caller, params: { id }, query, now }) => {
      if (query.stream === "true")
        return await responses.stream(reachOf(caller), id, query.starting_after ?? -1);
      if (query.starting_after !== undefined)
        throw invalid("starting_after", "`starting_after` requires `stream=true`.");
      const found = await responses.find(reachOf(caller), id, now);
      return {
        status: 200,
        body: toResponseRecord(found),
        headers: { "cache-control": "no-store" },
      };
    },
  });
}

function deleteRoute(responses: Responses): Route {
  return keyWriteRoute({
    method: "DELETE",
    path: "/v1/responses/{id}",
    id: "deleteResponse",
    scope: "models:write",
    tag: TAG,
    summary: "Delete a stored response",
    description:
      "Deletes the response and its input immediately. Later responses of the same conversation can still be read, but not continued. A running background response is stopped.",
    dialect: "openai",
    params,
    responses: oneResponse(
      "The response was deleted.",
      z
        .object({ id: z.string(), object: z.literal("response"), deleted: z.literal(true) })
        .meta({ id: "DeletedResponse" }),
      { id: ID_EXAMPLE, object: "response", deleted: true },
    ),
    faults: ["not_found"],
    run: async (tx, { caller, params: { id }, now }) => {
      await responses.remove(tx, reachOf(caller), id, now);
      return { status: 200, body: { id, object: "response", deleted: true } };
    },
  });
}

function inputItemsRoute(responses: Responses): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/responses/{id}/input_items",
    id: "listInputItems",
    scope: "models:read",
    tag: TAG,
    summary: "List the input items of a stored response",
    description:
      "Lists the items of the request that created the response. Items of earlier turns are listed by the earlier responses.",
    dialect: "openai",
    params,
    query: z.looseObject({
      limit: z.coerce.number().int().min(1).max(100).default(20).meta({
        description: "Number of items per page.",
      }),
      order: z
        .enum(["asc", "desc"])
        .default("desc")
        .meta({ description: "`asc` for the order of the request, `desc` for the reverse." }),
      after: z
        .string()
        .max(200)
        .optional()
        .meta({ description: "`last_id` of the previous page." }),
    }),
    responses: oneResponse("A page of input items.", InputItemList, {
      object: "list",
      data: [ITEM_EXAMPLE],
      first_id: ITEM_EXAMPLE.id,
      last_id: ITEM_EXAMPLE.id,
      has_more: false,
    }),
    faults: ["not_found"],
    run: async ({ caller, params: { id }, query, now }) => {
      const found = await responses.find(reachOf(caller), id, now);
      const { limit, order, after } = query;
      return { status: 200, body: toInputItemList(found, { limit, order, after }) };
    },
  });
}

function cancelRoute(responses: Responses): Route {
  return keyRoute({
    method: "POST",
    path: "/v1/responses/{id}/cancel",
    id: "cancelResponse",
    scope: "models:write",
    tag: TAG,
    summary: "Cancel a background response",
    description:
      "Stops the provider and charges the usage so far. `usage` may still be null in this response; read the response again to get it. Canceling a canceled response changes nothing.",
    dialect: "openai",
    params,
    responses: oneResponse("The canceled response.", StoredResponseRecord, {
      ...EXAMPLE,
      status: "cancelled",
      output: [],
      usage: null,
      background: true,
    }),
    faults: ["not_found"],
    run: async ({ caller, params: { id }, now }) => {
      const found = await responses.cancel(reachOf(caller), id, now);
      return { status: 200, body: toResponseRecord(found) };
    },
  });
}

// GET /v1/responses opens a WebSocket.
function webSocketRoute(webSockets: ResponseWebSockets): Route {
  return keyRoute({
    method: "GET",
    path: "/v1/responses",
    id: "connectResponses",
    scope: "models:write",
    summary: "Open a WebSocket for responses",
    description:
      "OpenAI's WebSocket mode. Each message `response.create` has the fields of POST /v1/responses and is answered with the events of its stream, one message each; one response runs at a time. `previous_response_id` also continues the connection's last response with `store: false`, until a continuation fails. `generate: false` keeps the input for the next request without a call. An `error` event has the status and the error of the HTTP response. The connection closes after 60 minutes, and with 1008 after five rejected messages in a row or when more than eight messages wait; each message counts in the request rate of the key.",
    tag: "Models",
    dialect: "openai",
    responses: {
      101: { description: "The connection is a WebSocket." },
      426: { description: "The request does not open a WebSocket." },
    },
    faults: ["invalid_request"],
    run: ({ headers, caller, clientIp, requestId, acceptWebSocket }) => {
      if (acceptWebSocket === undefined || !isWebSocketHandshake(headers)) throw upgradeRequired();
      acceptWebSocket(
        webSockets.accept({
          keyId: caller.keyId,
          accountId: caller.accountId,
          clientIp,
          headers: new Headers(headers),
          requestId,
        }),
      );
      return new Response(null, { status: SWITCHING_PROTOCOLS });
    },
  });
}

// Codex continues over HTTP after this status alone.
function upgradeRequired(): Fault {
  return new Fault("method_not_allowed", "not a WebSocket handshake", {
    status: 426,
    message:
      "GET /v1/responses opens a WebSocket. Send a WebSocket handshake with an API key, or send POST requests over HTTP, each of which can be signed. GET /v1/responses/{id} retrieves a response.",
    headers: { upgrade: "websocket", connection: "Upgrade" },
    next: [readPageStep("/docs/api/create-response.md")],
  });
}
