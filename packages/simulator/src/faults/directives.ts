// Directives change a single reply. This table drives the parser, the types and the table in docs/site/simulator.md.

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
    600_000,
    "Waits this many milliseconds before responding.",
  ),
  wait: textDirective(
    "wait=a",
    "Waits until `POST /sim/release?wait=a` before responding, at most ten minutes.",
  ),
  pace: numberDirective(
    "pace=5",
    60_000,
    "Waits this many milliseconds between two deltas of a stream.",
  ),
  tokens: numberDirective(
    "tokens=40",
    4_000_000,
    "Replies with this many tokens of filler text. `max_tokens` still applies.",
  ),
  chunks: numberDirective(
    "chunks=40",
    100_000,
    "Sends the text in this many deltas. Without `tokens`, the text is as many tokens of filler.",
  ),
  kb: numberDirective(
    "kb=500",
    65_536,
    "Replies with this many KiB of filler text. With `chunks=1`, in a single event.",
  ),
  text: textDirective('text="hello there"', "Replies with this text."),
  empty: flagDirective("empty", "Replies without content."),
  preamble: flagDirective("preamble", "Writes a sentence before the tool call."),
  calls: numberDirective("calls=2", 64, "Makes this many tool calls, if tools may be called."),
  refusal: flagDirective("refusal", "Replies with a refusal in the wire's format."),
  filter: flagDirective("filter", "Ends the reply with the content filter's finish reason."),
  "answer-model": textDirective(
    "answer-model=sim/other",
    "Reports this model instead of the requested one.",
  ),
  tier: textDirective("tier=flex", "Reports this service tier."),
  reasoning: numberDirective(
    "reasoning=64",
    100_000,
    "Reasons for this many tokens. 0 turns reasoning off.",
  ),
  "reasoning-field": enumDirective(
    "reasoning-field=reasoning",
    ["reasoning_content", "reasoning", "none"],
    "Puts reasoning in this field on the chat wire: `reasoning_content`, `reasoning` or `none`.",
  ),
  input: numberDirective("input=1000", 1e12, "Reports this many uncached input tokens."),
  output: numberDirective(
    "output=50",
    1e12,
    "Reports this many output tokens, not counting reasoning.",
  ),
  cached: numberDirective(
    "cached=500",
    1e12,
    "Reports this many tokens read from the prompt cache.",
  ),
  "cache-5m": numberDirective(
    "cache-5m=300",
    1e12,
    "Reports this many tokens written to the 5-minute prompt cache.",
  ),
  "cache-1h": numberDirective(
    "cache-1h=300",
    1e12,
    "Reports this many tokens written to the 1-hour prompt cache.",
  ),
  usage: enumDirective(
    "usage=none",
    ["none", "twice", "negative", "huge", "missing", "zero", "text"],
    "Breaks the usage object: `none` omits it, `twice` sends it twice in a stream, `negative` and `huge` make all numbers so, `missing` omits half of the fields, `zero` sets all to 0, `text` writes numbers as strings.",
  ),
  context: numberDirective(
    "context=8192",
    1e9,
    "Simulates a model with a context of this many tokens: a prompt and `max_tokens` beyond it get the provider's 400.",
  ),
  "no-schema": flagDirective(
    "no-schema",
    "Simulates a model without JSON schema support: a request with a schema gets a 400.",
  ),
  "no-forced-call": flagDirective(
    "no-forced-call",
    "Simulates a model that cannot be required to call a tool: such a request gets a 400.",
  ),
  status: numberDirective(
    "status=429",
    599,
    "Fails with this status (400 to 599) in the wire's error format.",
  ),
  "retry-after": textDirective(
    "retry-after=3",
    "Sets the `retry-after` header of an error. Implies `status=429` if no status is given.",
  ),
  limits: numberDirective(
    "limits=5",
    10_000,
    "Reports this many remaining requests in the wire's rate-limit headers.",
  ),
  message: textDirective('message="Slow down"', "Sets the message of a requested error."),
  html: flagDirective(
    "html",
    "Responds with an HTML page, with status 502 unless `status` is given.",
  ),
  "error-body": flagDirective("error-body", "Responds with status 200 and an error body."),
  redirect: textDirective(
    "redirect=https://example.com/",
    "Responds with a 307 redirect to this URL.",
  ),
  drop: flagDirective("drop", "Closes the connection before the first byte."),
  cut: numberDirective(
    "cut=3",
    1e6,
    "Closes the connection after this many deltas, or halfway through a JSON body.",
  ),
  fail: numberDirective(
    "fail=3",
    1e6,
    "Sends an error event after this many deltas and ends the stream.",
  ),
  garble: numberDirective(
    "garble=3",
    1e6,
    "Sends a malformed event after this many deltas and continues. A JSON body ends halfway.",
  ),
  hang: numberDirective(
    "hang=3",
    1e6,
    "Stops sending after this many deltas, or halfway through a JSON body, until the client disconnects or ten minutes pass.",
  ),
  "hang-ms": numberDirective(
    "hang-ms=500",
    600_000,
    "Resumes after `hang` when this many milliseconds have passed.",
  ),
  flood: numberDirective(
    "flood=1024",
    1_048_576,
    "Repeats the first delta until this many KiB have been sent, then continues.",
  ),
  "no-end": flagDirective("no-end", "Ends the stream without its terminal event."),
  slice: numberDirective(
    "slice=7",
    1e6,
    "Sends the body in chunks of this many bytes, regardless of event boundaries.",
  ),
  slow: numberDirective(
    "slow=20",
    60_000,
    "Waits this many milliseconds between two chunks of the body (16 bytes each unless `slice` is given).",
  ),
  newline: enumDirective(
    "newline=crlf",
    ["lf", "crlf", "cr"],
    "Uses these line endings in a text stream: `lf`, `crlf` or `cr`.",
  ),
  keepalive: flagDirective(
    "keepalive",
    "Sends a keep-alive before every delta: a `ping` event on Messages, a comment elsewhere.",
  ),
  gzip: flagDirective("gzip", "Compresses the body with `content-encoding: gzip`."),
  "content-type": textDirective("content-type=text/plain", "Sets the content type."),
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
  /** Unknown directives, and directives with an invalid value. */
  readonly errors: readonly string[];
}

/** Parses the `[[sim: …]]` directives in a text; undefined if it has none. */
export function directivesInText(text: string): ParsedDirectives | undefined {
  if (!text.includes(OPENING)) return undefined;
  const entries: [string, string | undefined][] = [];
  for (const [, inside = ""] of text.matchAll(INLINE_PATTERN)) {
    for (const [, name = "", quoted, bare] of inside.matchAll(WORD_PATTERN))
      entries.push([name.toLowerCase(), quoted ?? bare]);
  }
  return parseDirectives(entries);
}

/** The text without its directives, as the reply echoes it. */
export function withoutDirectives(text: string): string {
  return text.includes(OPENING) ? text.replaceAll(INLINE_PATTERN, "").trim() : text;
}

/** Parses directives in headers such as `x-sim-latency: 200`. */
export function directivesInHeaders(
  headers: readonly (readonly [string, string])[],
): ParsedDirectives | undefined {
  const entries: [string, string | undefined][] = [];
  for (const [name, value] of headers) {
    if (name.startsWith(HEADER_PREFIX))
      entries.push([name.slice(HEADER_PREFIX.length), value === "" ? undefined : value]);
  }
  return entries.length === 0 ? undefined : parseDirectives(entries);
}

function parseDirectives(entries: readonly [string, string | undefined][]): ParsedDirectives {
  const directives: Record<string, number | string | true> = {};
  const errors: string[] = [];
  for (const [name, value] of entries) {
    const parsed = isDirective(name) ? parseValue(DIRECTIVES[name], value) : undefined;
    if (parsed === undefined) errors.push(value === undefined ? name : `${name}=${value}`);
    else directives[name] = parsed;
  }
  // Every value was parsed by its own row of the table, as the type Directives states.
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
