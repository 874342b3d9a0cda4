// What a test can order of a single reply. This one table drives the parser, the types and the page in docs/.

interface CountDirective {
  readonly takes: "count";
  readonly most: number;
  readonly does: string;
  readonly example: string;
}
interface WordDirective {
  readonly takes: readonly string[];
  readonly does: string;
  readonly example: string;
}
interface PlainDirective {
  readonly takes: "text" | "nothing";
  readonly does: string;
  readonly example: string;
}

const MINUTE_MS = 60_000;

export const DIRECTIVES = {
  latency: count(
    "latency=200",
    10 * MINUTE_MS,
    "Waits so many milliseconds before anything is answered.",
  ),
  pace: count("pace=5", MINUTE_MS, "Waits so many milliseconds between two deltas of a stream."),
  tokens: count(
    "tokens=40",
    4_000_000,
    "Replies with filler text of so many tokens; `max_tokens` still cuts it.",
  ),
  chunks: count(
    "chunks=40",
    100_000,
    "Sends the text in so many deltas. Without `tokens` the text is filler of as many tokens.",
  ),
  kb: count(
    "kb=500",
    65_536,
    "Replies with so many KiB of filler text; with `chunks=1` in one huge event.",
  ),
  text: text('text="hello there"', "Replies with this text."),
  empty: flag("empty", "Completes without any content."),
  preamble: flag("preamble", "Says a sentence before it calls a tool."),
  calls: count("calls=2", 64, "Makes so many tool calls, where tools may be called."),
  refusal: flag("refusal", "Refuses to answer, as the wire reports it."),
  filter: flag("filter", "Ends the reply as cut by a content filter."),
  "answer-model": text(
    "answer-model=sim/other",
    "Names this model in the reply instead of the requested one.",
  ),
  tier: text("tier=flex", "Names this service tier in the reply."),
  reasoning: count("reasoning=64", 100_000, "Reasons for so many tokens; 0 for none."),
  "reasoning-field": word(
    "reasoning-field=reasoning",
    ["reasoning_content", "reasoning", "none"],
    "The field that holds reasoning on the chat wire.",
  ),
  input: count("input=1000", 1e12, "Reports so many uncached input tokens."),
  output: count("output=50", 1e12, "Reports so many output tokens beside reasoning."),
  cached: count("cached=500", 1e12, "Reports so many tokens read from the prompt cache."),
  "cache-5m": count(
    "cache-5m=300",
    1e12,
    "Reports so many tokens written to the prompt cache for five minutes.",
  ),
  "cache-1h": count(
    "cache-1h=300",
    1e12,
    "Reports so many tokens written to the prompt cache for an hour.",
  ),
  usage: word(
    "usage=none",
    ["none", "twice", "negative", "huge", "missing", "zero", "text"],
    "Spoils the usage: left out, sent twice in a stream, all numbers negative, absurdly high, half of the fields missing, all zero, or texts for numbers.",
  ),
  "no-schema": flag(
    "no-schema",
    "Plays a model without a field for a JSON schema: a request that uses it is a 400.",
  ),
  "no-forced-call": flag(
    "no-forced-call",
    "Plays a model that cannot be made to call a tool: a request that forces a call is a 400.",
  ),
  status: count(
    "status=429",
    599,
    "Fails with this status (400 to 599) in the wire's own error form.",
  ),
  "retry-after": text(
    "retry-after=3",
    "The `retry-after` header of a failure; implies `status=429` when no status is given.",
  ),
  limits: count(
    "limits=5",
    10_000,
    "Says in the wire's rate-limit headers that so many requests are left.",
  ),
  message: text('message="Slow down"', "The sentence in an error that was ordered."),
  html: flag("html", "Answers with an HTML page; status 502 unless `status` says otherwise."),
  "error-body": flag("error-body", "Answers 200, but the body is the wire's error."),
  redirect: text("redirect=https://example.com/", "Answers 307 to that place."),
  drop: flag("drop", "Closes the connection before the first byte."),
  cut: count(
    "cut=3",
    1e6,
    "Closes the connection after so many deltas; a whole body is closed halfway.",
  ),
  fail: count("fail=3", 1e6, "Sends an error event after so many deltas and ends the stream."),
  garble: count(
    "garble=3",
    1e6,
    "Sends a malformed event after so many deltas and goes on; a whole body is only half of its JSON.",
  ),
  hang: count(
    "hang=3",
    1e6,
    "Falls silent after so many deltas until the client leaves, ten minutes at most; a whole body stops halfway.",
  ),
  "hang-ms": count(
    "hang-ms=500",
    10 * MINUTE_MS,
    "Ends the silence of `hang` after so many milliseconds and goes on.",
  ),
  flood: count(
    "flood=1024",
    1_048_576,
    "Repeats the first delta until so many KiB were sent, then goes on.",
  ),
  "no-end": flag("no-end", "Ends the stream without its terminal event."),
  slice: count("slice=7", 1e6, "Sends the body in pieces of so many bytes, wherever they fall."),
  slow: count(
    "slow=20",
    MINUTE_MS,
    "Waits so many milliseconds between two pieces of the body (of 16 bytes, unless `slice` says otherwise).",
  ),
  newline: word("newline=crlf", ["lf", "crlf", "cr"], "Ends the lines of a text stream this way."),
  keepalive: flag(
    "keepalive",
    "Sends a keep-alive before every delta: `ping` events on Messages, comments elsewhere.",
  ),
  gzip: flag("gzip", "Compresses the body with `content-encoding: gzip`."),
  "content-type": text("content-type=text/plain", "States this content type."),
} as const satisfies Record<string, CountDirective | WordDirective | PlainDirective>;

type Table = typeof DIRECTIVES;
export type DirectiveName = keyof Table;
type ValueOf<Row> = Row extends CountDirective
  ? number
  : Row extends { readonly takes: readonly (infer Word)[] }
    ? Word
    : Row extends { readonly takes: "nothing" }
      ? true
      : string;
export type Order = { readonly [Name in DirectiveName]?: ValueOf<Table[Name]> };

export const NO_ORDER: Order = {};

const MARK = "[[sim:";
const MARKED = /\[\[sim:([^\]]*)\]\]/g;
const WORD = /([a-z0-9-]+)(?:=(?:"([^"]*)"|(\S*)))?/gi;
const HEADER = "x-sim-";

export interface Ordered {
  readonly order: Order;
  /** Words that are no directive, or have a value that it does not take. */
  readonly mistakes: readonly string[];
}

/** Takes orders out of `[[sim: …]]` in a text; undefined where it has none. */
export function orderInText(text: string): Ordered | undefined {
  if (!text.includes(MARK)) return undefined;
  const words: [string, string | undefined][] = [];
  for (const [, inside = ""] of text.matchAll(MARKED)) {
    for (const [, name = "", quoted, bare] of inside.matchAll(WORD))
      words.push([name.toLowerCase(), quoted ?? bare]);
  }
  return readWords(words);
}

/** A text without its orders, as the reply should echo it. */
export function withoutOrders(text: string): string {
  return text.includes(MARK) ? text.replaceAll(MARKED, "").trim() : text;
}

/** Takes orders out of headers such as `x-sim-latency: 200`. */
export function orderInHeaders(
  headers: readonly (readonly [string, string])[],
): Ordered | undefined {
  const words: [string, string | undefined][] = [];
  for (const [name, value] of headers) {
    if (name.startsWith(HEADER))
      words.push([name.slice(HEADER.length), value === "" ? undefined : value]);
  }
  return words.length === 0 ? undefined : readWords(words);
}

function readWords(words: readonly [string, string | undefined][]): Ordered {
  const order: Record<string, number | string | true> = {};
  const mistakes: string[] = [];
  for (const [name, value] of words) {
    const read = isDirective(name) ? readValue(DIRECTIVES[name], value) : undefined;
    if (read === undefined) mistakes.push(value === undefined ? name : `${name}=${value}`);
    else order[name] = read;
  }
  // Every value was read by its own row of the table, which is what Order says.
  return { order, mistakes };
}

function isDirective(name: string): name is DirectiveName {
  return Object.hasOwn(DIRECTIVES, name);
}

function readValue(
  row: CountDirective | WordDirective | PlainDirective,
  value: string | undefined,
): number | string | true | undefined {
  if (row.takes === "nothing")
    return value === undefined || value === "true" || value === "1" ? true : undefined;
  if (value === undefined) return undefined;
  if (row.takes === "text") return value;
  if (row.takes === "count")
    return /^\d{1,13}$/.test(value) && "most" in row && Number(value) <= row.most
      ? Number(value)
      : undefined;
  return row.takes.includes(value) ? value : undefined;
}

function count(example: string, most: number, does: string): CountDirective {
  return { takes: "count", most, does, example };
}
function word<const Words extends readonly string[]>(example: string, takes: Words, does: string) {
  return { takes, does, example };
}
function text(
  example: string,
  does: string,
): { readonly takes: "text"; readonly does: string; readonly example: string } {
  return { takes: "text", does, example };
}
function flag(
  example: string,
  does: string,
): { readonly takes: "nothing"; readonly does: string; readonly example: string } {
  return { takes: "nothing", does, example };
}
