// A simulated provider for tests: it implements five APIs of model providers, replies deterministically, and injects faults on
// request. This file is everything that other code may import. Examples are in README.md, and run as tests.

/** A provider as a function of a request: `await createSimulator({ now: Date.now }).fetch(request)`. */
export { createSimulator, type Simulator } from "./src/create-simulator.ts";
export type { SimulatorOptions } from "./src/respond.ts";
/** Plays an agent: `createSimulator({ now: Date.now, script: () => ({ calls: [{ name: "look", input: "{}" }] }) })`. */
export type { Script, ScriptedTurn } from "./src/reply/compose-reply.ts";
/** The context window of a model in tokens, by its name: `contextWindow("claude-opus-4-6")`. */
export { contextWindow } from "./src/simulated-models.ts";
/** A frame of Bedrock's streams: `encodeEventFrame({ ":event-type": "messageStop" }, payload)`. */
export { encodeEventFrame } from "./src/encode-event-frame.ts";
