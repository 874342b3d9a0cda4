// The wires by name: the APIs that come in, and those that go out.

import type { InboundWire, OutboundWire } from "./canonical-wire.ts";
import { chatWire } from "./wires/chat/chat.ts";
import { converseWire } from "./wires/converse/converse.ts";
import { geminiWire } from "./wires/gemini/gemini.ts";
import { messagesWire } from "./wires/messages/messages.ts";
import { responsesWire } from "./wires/responses/responses.ts";

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
