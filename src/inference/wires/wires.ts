// All wires: inbound ones read the APIs that callers use, outbound ones write to providers.

import type { InboundWire, OutboundWire } from "../canonical/wire.ts";
import { chatWire } from "./chat/chat.ts";
import { converseWire } from "./converse/converse.ts";
import { geminiWire } from "./gemini/gemini.ts";
import { messagesWire } from "./messages/messages.ts";
import { responsesWire } from "./responses/responses.ts";

export const INBOUND_WIRES: Readonly<Record<"chat" | "responses" | "messages", InboundWire>> = {
  chat: chatWire,
  responses: responsesWire,
  messages: messagesWire,
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
