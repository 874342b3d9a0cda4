// All wires: inbound ones read the APIs that callers use, outbound ones write to providers.

import type { InboundWire, OutboundWire } from "./canonical/wire-interfaces.ts";
import { chatWire } from "./chat/chat-wire.ts";
import { converseWire } from "./converse/converse-wire.ts";
import { geminiWire } from "./gemini/gemini-wire.ts";
import { messagesWire } from "./messages/messages-wire.ts";
import { responsesWire } from "./responses/responses-wire.ts";

export const INBOUND_WIRES: Readonly<
  Record<"chat" | "responses" | "messages" | "gemini", InboundWire>
> = {
  chat: chatWire,
  responses: responsesWire,
  messages: messagesWire,
  gemini: geminiWire,
};

export const OUTBOUND_WIRES: Readonly<
  Record<"chat" | "responses" | "messages" | "gemini" | "converse", OutboundWire>
> = {
  chat: chatWire,
  responses: responsesWire,
  messages: messagesWire,
  gemini: geminiWire,
  converse: converseWire,
};
