// What a test can order of a single reply. This one table drives the parser, the types and the page in docs/.

import { MINUTE_MS } from "../../base/time.ts";

interface NumberDirective {
  readonly takes: "count";
  readonly max: number;
  readonly description: string;
  readonly example: string;
}
interface EnumDirective {
  readonly takes: readonly string[];
  readonly description: string;
  readonly example: string;
}
interface SimpleDirective {
  readonly takes: "text" | "nothing";
  readonly description: string;
  readonly example: string;
}

export const DIRECTIVES = {
  latency: numberDirective(
    "latency=200",
    10 * MINUTE_MS,
    "Waits so many milliseconds before anything is answered.",
  ),
  pace: numberDirective(
    "pace=5",
    MINUTE_MS,
    "Waits so many milliseconds between two deltas of a stream.",
  ),
  tokens: numberDirective(
    "tokens=40",
    4_000_000,
    "Replies with filler text of so many tokens; `max_tokens` still cuts it.",
  ),
  chunks: numberDirective(
    "chunks=40",
    100_000,
    "Sends the text in so many deltas. Without `tokens` the text is filler of as many tokens.",
  ),
  kb: numberDirective(
    "kb=500",
    65_536,
    "Replies with so many KiB of filler text; with `chunks=1` in one huge event.",
  ),
  text: textDirective('text="hello there"', "Replies with this text."),
  empty: flagDirective("empty", "Completes without any content."),
  preamble: flagDirective("preamble", "Says a sentence before it calls a tool."),
  calls: numberDirective("calls=2", 64, "Makes so many tool calls, where tools may be called."),
  refusal: flagDirective("refusal", "Refuses to answer, as the wire reports it."),
  filter: flagDirective("filter", "Ends the reply as cut by a content filter."),
  "answer-model": textDirective(
    "answer-model=sim/other",
    "Names this model in the reply instead of the requested one.",
  ),
  tier: textDirective("tier=flex", "Names this service tier in the reply."),
  reasoning: numberDirective("reasoning=64", 100_000, "Reasons for so many tokens; 0 for none."),
  "reasoning-field": enumDirective(
    "reasoning-field=reasoning",
    ["reasoning_content", "reasoning", "none"],
    "The field that holds reasoning on the chat wire.",
  ),
  input: numberDirective("input=1000", 1e12, "Reports so many uncached input tokens."),
  output: numberDirective("output=50", 1e12, "Reports so many output tokens beside reasoning."),
  cached: numberDirective("cached=500", 1e12, "Reports so many tokens read from the prompt cache."),
  "cache-5m": numberDirective(
    "cache-5m=300",
    1e12,
    "Reports so many tokens written to the prompt cache for five minutes.",
  ),
  "cache-1h": numberDirective(
    "cache-1h=300",
    1e12,
    "Reports so many tokens written to the prompt cache for an hour.",
  ),
  usage: enumDirective(
    "usage=none",
    ["none", "twice", "negative", "huge", "missing", "zero", "text"],
    "Spoils the usage: left out, sent twice in a stream, all numbers negative, absurdly high, half of the fields missing, all zero, or texts for numbers.",
  ),
  "no-schema": flagDirective(
    "no-schema",
    "Plays a model without a field for a JSON schema: a request that uses it is a 400.",
  ),
  "no-forced-call": flagDirective(
    "no-forced-call",
    "Plays a model that cannot be made to call a tool: a request that forces a call is a 400.",
  ),
  status: numberDirective(
    "status=429",
    599,
    "Fails with this status (400 to 599) in the wire's own error form.",
  ),
  "retry-after": textDirective(
    "retry-after=3",
    "The `retry-after` header of a failure; implies `status=429` when no status is given.",
  ),
  limits: numberDirective(
    "limits=5",
    10_000,
    "Says in the wire's rate-limit headers that so many requests are left.",
  ),
  message: textDirective('message="Slow down"', "The sentence in an error that was ordered."),
  html: flagDirective(
    "html",
    "Answers with an HTML page; status 502 unless `status` says otherwise.",
  ),
  "error-body": flagDirective("error-body", "Answers 200, but the body is the wire's error."),
  redirect: textDirective("redirect=https://example.com/", "Answers 307 to that place."),
  drop: flagDirective("drop", "Closes the connection before the first byte."),
  cut: numberDirective(
    "cut=3",
    1e6,
    "Closes the connection after so many deltas; a whole body is closed halfway.",
  ),
  fail: numberDirective(
    "fail=3",
    1e6,
    "Sends an error event after so many deltas and ends the stream.",
  ),
  garble: numberDirective(
    "garble=3",
    1e6,
    "Sends a malformed event after so many deltas and goes on; a whole body is only half of its JSON.",
  ),
  hang: numberDirective(
    "hang=3",
    1e6,
    "Falls silent after so many deltas until the client leaves, ten minutes at most; a whole body stops halfway.",
  ),
  "hang-ms": numberDirective(
    "hang-ms=500",
    10 * MINUTE_MS,
    "Ends the silence of `hang` after so many milliseconds and goes on.",
  ),
  flood: numberDirective(
    "flood=1024",
    1_048_576,
    "Repeats the first delta until so many KiB were sent, then goes on.",
  ),
  "no-end": flagDirective("no-end", "Ends the stream without its terminal event."),
  slice: numberDirective(
    "slice=7",
    1e6,
    "Sends the body in pieces of so many bytes, wherever they fall.",
  ),
  slow: numberDirective(
    "slow=20",
    MINUTE_MS,
    "Waits so many milliseconds between two pieces of the body (of 16 bytes, unless `slice` says otherwise).",
  ),
  newline: enumDirective(
    "newline=crlf",
    ["lf", "crlf", "cr"],
    "Ends the lines of a text stream this way.",
  ),
  keepalive: flagDirective(
    "keepalive",
    "Sends a keep-alive before every delta: `ping` events on Messages, comments elsewhere.",
  ),
  gzip: flagDirective("gzip", "Compresses the body with `content-encoding: gzip`."),
  "content-type": textDirective("content-type=text/plain", "States this content type."),
} as const satisfies Record<string, NumberDirective | EnumDirective | SimpleDirective>;

type DirectiveTable = typeof DIRECTIVES;
export type DirectiveName = keyof DirectiveTable;
type ValueOf<Row> = Row extends NumberDirective
  ? number
  : Row extends { readonly takes: readonly (infer Word)[] }
    ? Word
    : Row extends { readonly takes: "nothing" }
      ? true
      : string;
export type Directives = { readonly [Name in DirectiveName]?: ValueOf<DirectiveTable[Name]> };

export const NO_DIRECTIVES: Directives = {};

const OPENING = "[[sim:";
const INLINE_PATTERN = /\[\[sim:([^\]]*)\]\]/g;
const WORD_PATTERN = /([a-z0-9-]+)(?:=(?:"([^"]*)"|(\S*)))?/gi;
const HEADER_PREFIX = "x-sim-";

export interface ParsedDirectives {
  readonly directives: Directives;
  /** Words that are no directive, or have a value that it does not take. */
  readonly errors: readonly string[];
}

/** Takes orders out of `[[sim: …]]` in a text; undefined where it has none. */
export function directivesInText(text: string): ParsedDirectives | undefined {
  if (!text.includes(OPENING)) return undefined;
  const words: [string, string | undefined][] = [];
  for (const [, inside = ""] of text.matchAll(INLINE_PATTERN)) {
    for (const [, name = "", quoted, bare] of inside.matchAll(WORD_PATTERN))
      words.push([name.toLowerCase(), quoted ?? bare]);
  }
  return parseDirectives(words);
}

/** A text without its orders, as the reply should echo it. */
export function withoutDirectives(text: string): string {
  return text.includes(OPENING) ? text.replaceAll(INLINE_PATTERN, "").trim() : text;
}

/** Takes orders out of headers such as `x-sim-latency: 200`. */
export function directivesInHeaders(
  headers: readonly (readonly [string, string])[],
): ParsedDirectives | undefined {
  const words: [string, string | undefined][] = [];
  for (const [name, value] of headers) {
    if (name.startsWith(HEADER_PREFIX))
      words.push([name.slice(HEADER_PREFIX.length), value === "" ? undefined : value]);
  }
  return words.length === 0 ? undefined : parseDirectives(words);
}

function parseDirectives(words: readonly [string, string | undefined][]): ParsedDirectives {
  const directives: Record<string, number | string | true> = {};
  const errors: string[] = [];
  for (const [name, value] of words) {
    const parsed = isDirective(name) ? parseValue(DIRECTIVES[name], value) : undefined;
    if (parsed === undefined) errors.push(value === undefined ? name : `${name}=${value}`);
    else directives[name] = parsed;
  }
  // Every value was read by its own row of the table, which is what Order says.
  return { directives, errors };
}

function isDirective(name: string): name is DirectiveName {
  return Object.hasOwn(DIRECTIVES, name);
}

function parseValue(
  row: NumberDirective | EnumDirective | SimpleDirective,
  value: string | undefined,
): number | string | true | undefined {
  if (row.takes === "nothing")
    return value === undefined || value === "true" || value === "1" ? true : undefined;
  if (value === undefined) return undefined;
  if (row.takes === "text") return value;
  if (row.takes === "count")
    return /^\d{1,13}$/.test(value) && "max" in row && Number(value) <= row.max
      ? Number(value)
      : undefined;
  return row.takes.includes(value) ? value : undefined;
}

function numberDirective(example: string, max: number, description: string): NumberDirective {
  return { takes: "count", max, description, example };
}
function enumDirective<const Words extends readonly string[]>(
  example: string,
  takes: Words,
  description: string,
) {
  return { takes, description, example };
}
function textDirective(
  example: string,
  description: string,
): { readonly takes: "text"; readonly description: string; readonly example: string } {
  return { takes: "text", description, example };
}
function flagDirective(
  example: string,
  description: string,
): { readonly takes: "nothing"; readonly description: string; readonly example: string } {
  return { takes: "nothing", description, example };
}
