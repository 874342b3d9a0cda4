// The table of endpoints without a conversation.

import { COMPLETIONS_ENDPOINT } from "./completions-endpoint.ts";
import { DECISIONS_ENDPOINT } from "./decisions-endpoint.ts";
import { EMBEDDINGS_ENDPOINT } from "./embeddings-endpoint.ts";
import { IMAGE_EDITS_ENDPOINT, IMAGES_ENDPOINT } from "./images-endpoint.ts";
import { MODERATIONS_ENDPOINT } from "./moderations-endpoint.ts";
import type { ModelKind, RelayedEndpoint } from "./relayed-endpoint.ts";
import { RERANK_ENDPOINT } from "./rerank-endpoint.ts";
import { SPEECH_ENDPOINT } from "./speech-endpoint.ts";
import { TRANSCRIPTIONS_ENDPOINT, TRANSLATIONS_ENDPOINT } from "./transcriptions-endpoint.ts";

export const RELAYED_APIS = [
  "embeddings",
  "images",
  "image_edits",
  "speech",
  "transcriptions",
  "translations",
  "rerank",
  "moderations",
  "decisions",
  "completions",
] as const;
export type RelayedApi = (typeof RELAYED_APIS)[number];

export const RELAYED_ENDPOINTS: Readonly<Record<RelayedApi, RelayedEndpoint>> = {
  embeddings: EMBEDDINGS_ENDPOINT,
  images: IMAGES_ENDPOINT,
  image_edits: IMAGE_EDITS_ENDPOINT,
  speech: SPEECH_ENDPOINT,
  transcriptions: TRANSCRIPTIONS_ENDPOINT,
  translations: TRANSLATIONS_ENDPOINT,
  rerank: RERANK_ENDPOINT,
  moderations: MODERATIONS_ENDPOINT,
  decisions: DECISIONS_ENDPOINT,
  completions: COMPLETIONS_ENDPOINT,
};

/** The kind of models that this wire serves. */
export function kindOfWire(wire: string): ModelKind {
  const endpoints: Readonly<Record<string, RelayedEndpoint>> = RELAYED_ENDPOINTS;
  return Object.hasOwn(endpoints, wire) ? (endpoints[wire]?.kind ?? "chat") : "chat";
}
