// The routes' example bodies, with a model that this gateway can call.

import { isObject } from "../base/json.ts";
import type { Route } from "../http/route.ts";
import type { DiscoverySettings } from "./discovery-settings.ts";
import { EMBEDDINGS_ROUTE } from "./route-keys.ts";

export function exampleRequest(route: Route, settings: DiscoverySettings): unknown {
  return withExampleModel(route, settings, route.requestExample);
}

/** `example` is that of one of the route's responses. */
export function exampleResponse(
  route: Route,
  settings: DiscoverySettings,
  example: unknown,
): unknown {
  return isModelCall(route) ? withExampleModel(route, settings, example) : example;
}

function isModelCall({ requestExample }: Route): boolean {
  return isObject(requestExample) && typeof requestExample["model"] === "string";
}

const SPEECH = { model: "groq/canopylabs/orpheus-v1-english", voice: "hannah" };
/** What examples have in place of a simulated model on a gateway without the simulator. */
const PROVIDER_MODELS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "sim/image": { model: "openai/gpt-image-2" },
  "sim/rerank": { model: "cohere/rerank-v4.0-pro" },
  "sim/speech": SPEECH,
  "sim/transcribe": { model: "openai/gpt-transcribe" },
  "sim/moderation": { model: "openai/omni-moderation-latest" },
};

const SIMULATED_MODEL = /\bsim\/(?:embed|image|rerank|speech|transcribe|moderation)(?![\w-])/g;
const SPEECH_VOICE = /(?<=voice"?\s?[:=]\s?")alloy/g;

/** A text with models that this gateway can call in place of the simulated ones. */
export function withExampleModels(text: string, settings: DiscoverySettings): string {
  const { exampleModel, exampleEmbeddingModel } = settings;
  const named = text.replaceAll("sim/echo", exampleModel);
  if (exampleEmbeddingModel.startsWith("sim/")) return named;
  return named
    .replaceAll(SPEECH_VOICE, SPEECH.voice)
    .replaceAll(
      SIMULATED_MODEL,
      (name) => PROVIDER_MODELS[name]?.["model"] ?? exampleEmbeddingModel,
    );
}

function withExampleModel(route: Route, settings: DiscoverySettings, example: unknown): unknown {
  if (!isObject(example) || typeof example["model"] !== "string") return example;
  const { model } = example;
  if (Object.hasOwn(PROVIDER_MODELS, model))
    return settings.exampleEmbeddingModel.startsWith("sim/")
      ? example
      : { ...example, ...PROVIDER_MODELS[model] };
  const isEmbeddings = `${route.method} ${route.path}` === EMBEDDINGS_ROUTE;
  return {
    ...example,
    model: isEmbeddings ? settings.exampleEmbeddingModel : settings.exampleModel,
  };
}
