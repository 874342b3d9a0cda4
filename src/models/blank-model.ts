// A chat model of which nothing but its id is known.

import { type Model, OPERATOR_SOURCE } from "./catalog.ts";

/** For an operator's entry, or a model of a local server. */
export function blankModel(id: string): Model {
  const slash = id.indexOf("/");
  const name = id.slice(slash + 1);
  return {
    id,
    provider: id.slice(0, slash),
    name,
    title: name,
    kind: "chat",
    created: 0,
    contextLength: null,
    maxOutputTokens: null,
    inputModalities: ["text"],
    outputModalities: ["text"],
    supported: [],
    wires: [],
    aliases: [],
    spellings: [],
    prices: [],
    source: OPERATOR_SOURCE,
    checked: "1970-01-01",
    retired: false,
    shutdownDate: null,
    simulated: false,
  };
}
