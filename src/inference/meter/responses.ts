// OpenAI's Responses: usage on whichever event ends the stream, and tools that are charged by the piece among the items.

import type { Usage } from "../../base/meters.ts";
import { addFee, countedFees, type Fees } from "./fees.ts";
import type { SkimPlan } from "./skim.ts";
import { splitInput, splitOutput } from "./split.ts";
import {
  createMeter,
  noteError,
  noteModel,
  noteText,
  type StreamMeter,
  type StreamState,
} from "./stream.ts";
import {
  at,
  count,
  firstNumber,
  listOf,
  member,
  nameOf,
  objectOf,
  statedCost,
  tierOf,
  usageFrom,
  type Json,
  type Path,
  type Tally,
} from "./tally.ts";

const TERMINAL_EVENTS = [
  "response.completed",
  "response.incomplete",
  "response.failed",
  "response.cancelled",
  "response.done",
];
// Sound, in base64.
const SOUND_EVENTS = ["response.audio.delta", "response.output_audio.delta"];
const MAX_CONTAINERS = 64;
const COUNTED: readonly Path[] = [["input_tokens"], ["output_tokens"], ["total_tokens"]];

/** The items that were charged for, counted as they come. */
interface ItemFees {
  readonly fees: Fees;
  readonly containers: Set<string>;
}

/** The usage that a response states. */
export function usageOfResponses(body: unknown, _provider: string): Usage | undefined {
  const items = newItemFees();
  for (const item of listOf(member(body, "output"))) noteItem(items, item);
  return readResponse(body, items.fees);
}

const PLAN: SkimPlan = {
  counts: { delta: 0 },
  reads: ["error"],
  types: [...TERMINAL_EVENTS, "response.created", "response.output_item.done", "error"],
  silent: SOUND_EVENTS,
};

export function createResponsesStreamMeter(provider: string): StreamMeter {
  const items = newItemFees();
  return createMeter({
    plan: PLAN,
    read: (state, name, data) => readEvent(state, name, data, { provider, items }),
  });
}

interface StreamContext {
  readonly provider: string;
  readonly items: ItemFees;
}

function readEvent(
  state: StreamState,
  name: string,
  data: Json,
  { provider, items }: StreamContext,
): boolean {
  const type = nameOf(data["type"]) ?? name;
  const response = data["response"];
  noteModel(state, member(response, "model"));
  noteError(state, name, data);
  if (!SOUND_EVENTS.includes(type)) noteText(state, data["delta"]);
  if (type === "response.output_item.done") {
    noteItem(items, data["item"]);
    Object.assign(state.fees, items.fees);
  }
  if (!TERMINAL_EVENTS.includes(type)) return false;
  state.finished = true;
  if (type === "response.failed") state.failed = true;
  // Some leave the output out of the last event: what was seen on the way counts then.
  const output = listOf(member(response, "output"));
  const usage =
    output.length === 0 ? readResponse(response, items.fees) : usageOfResponses(response, provider);
  if (usage === undefined) return false;
  state.usage = usage;
  state.exact = true;
  return true;
}

function readResponse(body: unknown, itemFees: Fees): Usage | undefined {
  const usage = objectOf(member(body, "usage"));
  if (usage === undefined || firstNumber(usage, COUNTED) === undefined) return undefined;
  const tally: Tally = { clamped: false };
  const images = imageLeg(tally, body);
  const output = count(tally, usage["output_tokens"]);
  const total = count(tally, usage["total_tokens"]);
  const input = count(tally, usage["input_tokens"] ?? Math.max(0, total - output));
  const details = usage["input_tokens_details"];
  return usageFrom(
    {
      tokens: {
        ...splitInput(tally, {
          all: input,
          cached: count(tally, member(details, "cached_tokens")),
          written: count(tally, member(details, "cache_write_tokens")),
          audio: count(tally, member(details, "audio_tokens")),
          image: count(tally, member(details, "image_tokens")),
        }),
        ...outputTokens(tally, usage, { input, output, total }),
      },
      fees: feesOf(tally, { body, usage, itemFees, imagesMetered: images !== undefined }),
      model: nameOf(member(body, "model")),
      serviceTier: tierOf(member(body, "service_tier")),
      statedCostUsd: statedCost(usage),
      also: images === undefined ? [] : [images],
    },
    tally,
  );
}

// Reasoning lies within the output here, xAI's too, unless the sums say otherwise.
function outputTokens(
  tally: Tally,
  usage: Json,
  sums: { input: number; output: number; total: number },
) {
  const reasoning = count(tally, at(usage, ["output_tokens_details", "reasoning_tokens"]));
  const addsUp = reasoning > 0 && sums.total === sums.input + sums.output + reasoning;
  return splitOutput(tally, {
    all: sums.output + (addsUp || reasoning > sums.output ? reasoning : 0),
    reasoning,
    audio: count(tally, at(usage, ["output_tokens_details", "audio_tokens"])),
    image: count(tally, at(usage, ["output_tokens_details", "image_tokens"])),
  });
}

interface FeeSources {
  readonly body: unknown;
  readonly usage: Json;
  readonly itemFees: Fees;
  readonly imagesMetered: boolean;
}

// A provider that counts its tools is believed; else the items are counted.
function feesOf(tally: Tally, sources: FeeSources): Fees {
  const counted = countedFees(tally, sources.usage);
  if (objectOf(sources.usage["server_side_tool_usage_details"]) !== undefined) return counted;
  const fees: Fees = { ...sources.itemFees, ...counted };
  const searches = at(sources.body, ["tool_usage", "web_search", "num_requests"]);
  if (typeof searches === "number") fees.web_search = count(tally, searches);
  if (sources.imagesMetered) delete fees.image_generation;
  return fees;
}

// Images made by a tool are metered in tokens of the image model where the reply says so, and are a fee otherwise.
function imageLeg(tally: Tally, body: unknown): Usage | undefined {
  const usage = at(body, ["tool_usage", "image_gen"]);
  const input = count(tally, member(usage, "input_tokens"));
  const output = count(tally, member(usage, "output_tokens"));
  if (input + output === 0) return undefined;
  const tool = listOf(member(body, "tools")).find(
    (one) => member(one, "type") === "image_generation",
  );
  const own: Tally = { clamped: false };
  return usageFrom(
    {
      tokens: {
        ...splitInput(own, {
          all: input,
          cached: 0,
          image: count(own, at(usage, ["input_tokens_details", "image_tokens"])),
        }),
        ...splitOutput(own, {
          all: output,
          reasoning: 0,
          image: count(own, at(usage, ["output_tokens_details", "image_tokens"])),
        }),
      },
      model: nameOf(member(tool, "model")),
    },
    own,
  );
}

function newItemFees(): ItemFees {
  return { fees: {}, containers: new Set() };
}

function noteItem(items: ItemFees, item: unknown): void {
  if (member(item, "status") === "failed") return;
  switch (member(item, "type")) {
    case "web_search_call":
      // Opening a page, or finding something in it, is part of the search that led there.
      if ((at(item, ["action", "type"]) ?? "search") === "search") addFee(items.fees, "web_search");
      return;
    case "file_search_call":
      return addFee(items.fees, "file_search");
    case "image_generation_call":
      return addFee(items.fees, "image_generation");
    case "x_search_call":
      return addFee(items.fees, "x_search");
    case "code_interpreter_call":
      return noteContainer(items, member(item, "container_id"));
    case "shell_call":
      if (at(item, ["environment", "type"]) === "container_reference") {
        noteContainer(items, at(item, ["environment", "container_id"]));
      }
  }
}

// Code runs in a container, and the container is what costs, however many calls run in it.
function noteContainer(items: ItemFees, id: unknown): void {
  const name = nameOf(id) ?? "";
  if (items.containers.has(name) || items.containers.size >= MAX_CONTAINERS) return;
  items.containers.add(name);
  addFee(items.fees, "code_execution");
}
