// GET /v1/responses opens a WebSocket.

import { Fault } from "../../base/fault.ts";
import { keyRoute, type Route } from "../../http/route.ts";
import { isWebSocketHandshake, SWITCHING_PROTOCOLS } from "../../http/web-socket.ts";
import type { ResponseWebSockets } from "./web-sockets.ts";

export function webSocketRoute(webSockets: ResponseWebSockets): Route {
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
      "GET /v1/responses opens a WebSocket. Send a WebSocket handshake, or send POST requests over HTTP. GET /v1/responses/{id} retrieves a response.",
    headers: { upgrade: "websocket", connection: "Upgrade" },
  });
}
