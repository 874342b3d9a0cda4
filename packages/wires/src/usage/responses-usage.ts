// Usage on the responses wire (OpenAI). The terminal event of a stream reports usage; tool uses that are charged per call
// appear as output items.

import { arrayIn, objectIn, type JsonObject } from "../json-fields.ts";
import type { ScanPlan } from "./event-scanner.ts";
import { addFee, readFeeCounts, type Fees } from "./fee-counts.ts";
import {
  valueAt,
  readCount,
  firstNumber,
  ownMember,
  readName,
  readStatedCost,
  readTier,
  buildUsage,
  type Path,
  type ReadNotes,
} from "./read-numbers.ts";
import {
  createUsageMeter,
  detectError,
  setModel,
  addAudio,
  addText,
  addToolCall,
  type StreamMeter,
  type StreamState,
} from "./stream-meter.ts";
import { splitInput, splitOutput } from "./token-breakdown.ts";
import type { Usage } from "./usage-meters.ts";

const TERMINAL_EVENTS = [
  "response.completed",
  "response.incomplete",
  "response.failed",
  "response.cancelled",
  "response.done",
];
// Audio in base64.
const AUDIO_EVENTS = ["response.audio.delta", "response.output_audio.delta"];
const CONTAINERS_MAX = 64;
const LONG_WRITES_PATH: Path = ["cache_write_tokens_details", "ttl_12h_tokens"];
const COUNT_PATHS: readonly Path[] = [["input_tokens"], ["output_tokens"], ["total_tokens"]];

/** Fees counted from the output items. */
interface ItemFees {
  readonly fees: Fees;
  readonly containers: Set<string>;
}

/** The usage of a response. */
export function usageOfResponses(body: unknown, _provider: string): Usage | undefined {
  const items = createItemFees();
  for (const item of arrayIn(ownMember(body, "output"))) addItemFee(items, item);
  return buildResponsesUsage(body, items.fees);
}

const SCAN_PLAN: ScanPlan = {
  textSlots: { delta: 0 },
  parseKeys: ["error"],
  parseTypes: [
    ...TERMINAL_EVENTS,
    ...AUDIO_EVENTS,
    "response.created",
    "response.output_item.added",
    "response.output_item.done",
    "error",
  ],
};

export function createResponsesStreamMeter(provider: string): StreamMeter {
  const items = createItemFees();
  return createUsageMeter({
    plan: SCAN_PLAN,
    read: (state, name, data) => readResponsesEvent(state, name, data, { provider, items }),
    // Only the terminal event, which repeats the whole output, is so long and has usage.
    usageEvent: (usage, model) => ({ type: "response.completed", response: { model, usage } }),
  });
}

const PROVIDER_CALL = /^(?!function_call$|custom_tool_call$).*_call$/;

interface StreamContext {
  readonly provider: string;
  readonly items: ItemFees;
}

function readResponsesEvent(
  state: StreamState,
  name: string,
  data: JsonObject,
  { provider, items }: StreamContext,
): boolean {
  const type = readName(data["type"]) ?? name;
  const response = data["response"];
  setModel(state, ownMember(response, "model"));
  detectError(state, name, data);
  if (AUDIO_EVENTS.includes(type)) addAudio(state, data["delta"]);
  else addText(state, data["delta"]);
  if (type === "response.created") state.providerCalls ??= 0;
  if (type === "response.output_item.added") {
    addToolCall(state, ownMember(data["item"], "name"));
    if (PROVIDER_CALL.test(String(ownMember(data["item"], "type"))))
      state.providerCalls = (state.providerCalls ?? 0) + 1;
  }
  if (type === "response.output_item.done") {
    addItemFee(items, data["item"]);
    Object.assign(state.fees, items.fees);
  }
  if (!TERMINAL_EVENTS.includes(type)) return false;
  state.finished = true;
  // The status of a response is its finish reason.
  state.hasStopReason = typeof ownMember(response, "status") === "string";
  if (type === "response.failed") state.failed = true;
  // Some providers omit the output from the terminal event: then the items seen in the stream count.
  const output = arrayIn(ownMember(response, "output"));
  const usage =
    output.length === 0
      ? buildResponsesUsage(response, items.fees)
      : usageOfResponses(response, provider);
  if (usage === undefined) return false;
  state.usage = usage;
  state.isUsageFinal = true;
  return true;
}

function buildResponsesUsage(body: unknown, itemFees: Fees): Usage | undefined {
  const usage = objectIn(ownMember(body, "usage"));
  if (usage === undefined || firstNumber(usage, COUNT_PATHS) === undefined) return undefined;
  const notes: ReadNotes = { clamped: false };
  const images = imageToolUsage(notes, body);
  const output = readCount(notes, usage["output_tokens"]);
  const total = readCount(notes, usage["total_tokens"]);
  const input = readCount(notes, usage["input_tokens"] ?? Math.max(0, total - output));
  const details = usage["input_tokens_details"];
  return buildUsage(
    {
      tokens: {
        ...splitInput(notes, {
          total: input,
          cached: readCount(notes, ownMember(details, "cached_tokens")),
          written: readCount(notes, ownMember(details, "cache_write_tokens")),
          writtenLong: readCount(notes, valueAt(details, LONG_WRITES_PATH)),
          audio: readCount(notes, ownMember(details, "audio_tokens")),
          image: readCount(notes, ownMember(details, "image_tokens")),
        }),
        ...outputTokens(notes, usage, { input, output, total }),
      },
      fees: feesOf(notes, { body, usage, itemFees, areImagesMetered: images !== undefined }),
      model: readName(ownMember(body, "model")),
      serviceTier: readTier(ownMember(body, "service_tier")),
      statedCostUsd: readStatedCost(usage),
      additional: images === undefined ? [] : [images],
    },
    notes,
  );
}

// Reasoning is part of the output here, also at xAI, unless the sums show otherwise.
function outputTokens(
  notes: ReadNotes,
  usage: JsonObject,
  sums: { input: number; output: number; total: number },
) {
  const reasoning = readCount(notes, valueAt(usage, ["output_tokens_details", "reasoning_tokens"]));
  const isInside = sums.total > 0 && sums.total === sums.input + sums.output;
  const isOutside =
    !isInside &&
    (reasoning > sums.output ||
      (reasoning > 0 && sums.total === sums.input + sums.output + reasoning));
  return splitOutput(notes, {
    total: sums.output + (isOutside ? reasoning : 0),
    reasoning: isOutside ? reasoning : Math.min(reasoning, sums.output),
    audio: readCount(notes, valueAt(usage, ["output_tokens_details", "audio_tokens"])),
    image: readCount(notes, valueAt(usage, ["output_tokens_details", "image_tokens"])),
  });
}

interface FeeSources {
  readonly body: unknown;
  readonly usage: JsonObject;
  readonly itemFees: Fees;
  readonly areImagesMetered: boolean;
}

// Counts reported by the provider win over counted items.
function feesOf(notes: ReadNotes, sources: FeeSources): Fees {
  const counted = readFeeCounts(notes, sources.usage);
  if (objectIn(sources.usage["server_side_tool_usage_details"]) !== undefined) return counted;
  const fees: Fees = { ...sources.itemFees, ...counted };
  const searches = valueAt(sources.body, ["tool_usage", "web_search", "num_requests"]);
  if (typeof searches === "number") fees.web_search = readCount(notes, searches);
  if (sources.areImagesMetered) delete fees.image_generation;
  return fees;
}

/**
 * The price of the image model of OpenAI's tool if the request names none. OpenAI chooses it; those that it offers since
 * GPT Image 1 ended cost the same.
 */
export const DEFAULT_IMAGE_MODEL = "gpt-image-2";

// Images generated by a tool are charged as tokens of the image model if the reply reports them, otherwise as a fee.
function imageToolUsage(notes: ReadNotes, body: unknown): Usage | undefined {
  const usage = valueAt(body, ["tool_usage", "image_gen"]);
  const input = readCount(notes, ownMember(usage, "input_tokens"));
  const output = readCount(notes, ownMember(usage, "output_tokens"));
  if (input + output === 0) return undefined;
  const tool = arrayIn(ownMember(body, "tools")).find(
    (definition) => ownMember(definition, "type") === "image_generation",
  );
  const own: ReadNotes = { clamped: false };
  return buildUsage(
    {
      tokens: {
        ...splitInput(own, {
          total: input,
          cached: readCount(own, valueAt(usage, ["input_tokens_details", "cached_tokens"])),
          image: readCount(own, valueAt(usage, ["input_tokens_details", "image_tokens"])),
          cachedImage: readCount(
            own,
            valueAt(usage, ["input_tokens_details", "cached_tokens_details", "image_tokens"]),
          ),
        }),
        ...splitOutput(own, {
          total: output,
          reasoning: 0,
          image: readCount(own, valueAt(usage, ["output_tokens_details", "image_tokens"])),
        }),
      },
      model: readName(ownMember(tool, "model")) ?? DEFAULT_IMAGE_MODEL,
    },
    own,
  );
}

function createItemFees(): ItemFees {
  return { fees: {}, containers: new Set() };
}

function addItemFee(items: ItemFees, item: unknown): void {
  if (ownMember(item, "status") === "failed") return;
  switch (ownMember(item, "type")) {
    case "web_search_call":
      // Opening a page or finding text in it is not charged as another search.
      if ((valueAt(item, ["action", "type"]) ?? "search") === "search")
        addFee(items.fees, "web_search");
      return;
    case "file_search_call":
      return addFee(items.fees, "file_search");
    case "image_generation_call":
      return addFee(items.fees, "image_generation");
    case "x_search_call":
      return addFee(items.fees, "x_search");
    case "code_interpreter_call":
      return addContainerFee(items, ownMember(item, "container_id"));
    case "shell_call":
      if (valueAt(item, ["environment", "type"]) === "container_reference") {
        addContainerFee(items, valueAt(item, ["environment", "container_id"]));
      }
  }
}

// Containers are charged, not the calls that run in them.
function addContainerFee(items: ItemFees, id: unknown): void {
  const name = readName(id) ?? "";
  if (items.containers.has(name) || items.containers.size >= CONTAINERS_MAX) return;
  items.containers.add(name);
  addFee(items.fees, "code_execution");
}
