// The table of abandoned calls: for each provider and kind of content, whether a call is read to its end without its caller,
// as the code decides it.

import { createSseParser, createStreamMeter } from "@postern/wires";
import {
  drainOf,
  isCountedByProvider,
  type OngoingCall,
} from "../../../src/inference/lifecycle/reply/client-disconnect.ts";
import { PROVIDERS } from "../../../src/inference/providers/providers.ts";
import { parseRequest } from "../../../src/inference/request/parse-request.ts";

interface AbandonedKind {
  readonly content: unknown;
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly supported?: readonly string[];
}

const PDF_DATA = "data:application/pdf;base64,JVBERi0x";

export const ABANDONED_KINDS: Readonly<Record<string, AbandonedKind>> = {
  text: { content: "hi" },
  image: { content: [{ type: "image_url", image_url: { url: "https://x.test/a.png" } }] },
  PDF: { content: [{ type: "file", file: { file_data: PDF_DATA, filename: "a.pdf" } }] },
  "audio in": {
    content: [{ type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } }],
  },
  "audio out": {
    content: "hi",
    fields: { modalities: ["text", "audio"], audio: { voice: "alloy", format: "pcm16" } },
  },
  functions: {
    content: "hi",
    fields: { tools: [{ type: "function", function: { name: "f", parameters: {} } }] },
  },
  "provider tools": {
    content: "hi",
    fields: { tools: [{ type: "web_search_20250305", name: "a" }] },
  },
  reasoning: {
    content: "hi",
    supported: ["reasoning"],
    fields: { thinking: { type: "enabled", budget_tokens: 1_024 } },
  },
  "not streamed": { content: "hi", fields: { stream: false } },
};

/** The name of a model that does not reason. OpenAI's tokenizer is known by it. */
export function nameAt(providerId: string): string {
  return providerId === "openai" || providerId === "azure" ? "gpt-4.1" : "model";
}

/** Whether the caller pays the provider's usage of the whole reply. Otherwise it pays its input and what was sent so far. */
function isReadToItsEnd(providerId: string, kind: string, wire: string): boolean {
  const { content, fields = {}, supported = [] } = ABANDONED_KINDS[kind] ?? { content: "" };
  const body = { model: "a/b", stream: true, messages: [{ role: "user", content }], ...fields };
  const request = parseRequest("chat", JSON.stringify(body));
  const provider = PROVIDERS.find(({ id }) => id === providerId);
  // Safe because these are the members that the decision reads.
  const call = {
    request,
    candidate: {
      credential: { provider, byok: false },
      model: {
        id: `${providerId}/${nameAt(providerId)}`,
        provider: providerId,
        name: nameAt(providerId),
        supported,
        wires: [wire],
      },
    },
    plan: { wire, body: request.text },
    estimate: { bounds: { fees: request.fees }, cards: [] },
  } as unknown as OngoingCall;
  const meter = createStreamMeter("chat", providerId);
  // These report the input at the start of the stream.
  if (wire === "messages" || wire === "gemini") meter.usage = { tokens: { input: 1 }, fees: {} };
  const count = isCountedByProvider(call, meter) ? { length: 0, tokens: 0 } : undefined;
  return drainOf(call, { meter, parser: createSseParser() }, { drainMs: 1, count }).waitMs > 0;
}

/** The charged part of the price, or that the provider's API has no such content. */
export function abandonedPart(
  providerId: string,
  kind: string,
  wire = providerId === "anthropic" ? "messages" : "chat",
): "100%" | "so far" | "refused" {
  if (kind === "audio in" && (wire === "messages" || wire === "responses")) return "refused";
  return isReadToItsEnd(providerId, kind, wire) ? "100%" : "so far";
}

export function abandonedCallRows(): readonly (readonly string[])[] {
  const kinds = Object.keys(ABANDONED_KINDS);
  return PROVIDERS.map(({ id }) => [`\`${id}\``, ...kinds.map((kind) => abandonedPart(id, kind))]);
}
