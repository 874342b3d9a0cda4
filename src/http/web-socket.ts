// A WebSocket without the runtime's API: a route accepts the handshake, the listener upgrades the connection.

import { Fault } from "../base/fault.ts";

export interface WebSocketConnection {
  /** Sends a text message immediately. */
  readonly send: (text: string) => void;
  /** Bytes that the client has not read yet; `onDrain` is called when it has read them. */
  readonly unreadBytes: () => number;
  /** Closes after the messages that were sent. */
  readonly close: (code: number, reason: string) => void;
}

export interface WebSocketHandlers {
  readonly onOpen: (connection: WebSocketConnection) => void;
  readonly onMessage: (text: string) => void;
  /** A message that is not text. */
  readonly onBinary: () => void;
  /** The runtime answers it. */
  readonly onPing: () => void;
  readonly onDrain: () => void;
  readonly onClose: () => void;
}

/** Incomplete messages are in memory before a quota counts them, so the number of connections is limited as well. */
export const MESSAGE_MAX_BYTES = 8_388_608;

/** The status of the response makes the listener upgrade the connection. */
export const SWITCHING_PROTOCOLS = 101;

const KEY = /^[A-Za-z0-9+/]{22}==$/;

/** Whether the request opens a WebSocket; throws if it does so wrongly (RFC 6455 §4.2.1). */
export function isWebSocketHandshake(headers: Headers): boolean {
  if (headers.get("upgrade")?.toLowerCase() !== "websocket") return false;
  const version = headers.get("sec-websocket-version");
  if (version === "13" && KEY.test(headers.get("sec-websocket-key") ?? "")) return true;
  throw new Fault("invalid_request", "malformed WebSocket handshake", {
    message:
      "The WebSocket handshake is not valid. It needs `sec-websocket-version: 13` and a `sec-websocket-key` of 16 bytes in base64.",
    headers: { "sec-websocket-version": "13" },
  });
}
