// HTTP message signatures (RFC 9421) of requests, with the tag `web-bot-auth`: parses the headers and rebuilds the text that
// was signed. Only what agents sign is supported: derived components and `signature-agent`.

const TAG = "web-bot-auth";
const HEADER_CHARACTERS_MAX = 4_096;

/** Structured fields (RFC 8941): a string, and parameters of an item. */
const STRING = String.raw`"(?:[^"\\]|\\["\\])*"`;
const KEY = String.raw`[a-z*][a-z0-9_.*-]*`;
const PARAMETERS = String.raw`(?:;\s*${KEY}(?:=(?:${STRING}|[\w+/=:.?@-]+))?)*`;
const SIGNATURE_INPUT = new RegExp(
  String.raw`(${KEY})=(\(((?:\s*${STRING}${PARAMETERS})*)\s*\)(${PARAMETERS}))(?:\s*,\s*|\s*$)`,
  "y",
);
const SIGNATURE = new RegExp(String.raw`(${KEY})=:([A-Za-z0-9+/]+=*):(?:\s*,\s*|\s*$)`, "y");
const AGENT_MEMBER = new RegExp(
  String.raw`(${KEY})=((${STRING})${PARAMETERS})(?:\s*,\s*|\s*$)`,
  "y",
);

/** A request as it was signed. */
export interface SignedMessage {
  readonly method: string;
  /** The host of the gateway's public URL. */
  readonly authority: string;
  readonly scheme: string;
  readonly path: string;
  readonly headers: Headers;
}

export interface MessageSignature {
  /** The value of `signature-agent` that is signed. */
  readonly agent: string;
  readonly keyId: string;
  /** Undefined if the key alone decides. */
  readonly algorithm: string | undefined;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly signature: Buffer;
  /** The text that was signed. */
  readonly base: string;
}

/** Undefined if the request has no signature with this tag; a string says what is wrong with it. */
export function readSignature(message: SignedMessage): MessageSignature | string | undefined {
  const { headers } = message;
  const input = members(SIGNATURE_INPUT, headers.get("signature-input"));
  if (input === undefined) return "the Signature-Input header cannot be read";
  const found = input.find(([, , , , parameters = ""]) => parameterIn(parameters, "tag") === TAG);
  if (found === undefined) return undefined;
  const [, label = "", signedParameters = "", components = "", parameters = ""] = found;
  const [, , encoded] =
    members(SIGNATURE, headers.get("signature"))?.find(([, name]) => name === label) ?? [];
  const [created, expires, keyId] = ["created", "expires", "keyid"].map((name) =>
    parameterIn(parameters, name),
  );
  if (encoded === undefined) return `the Signature header has no valid member \`${label}\``;
  if (keyId === undefined) return "the parameter `keyid` is missing";
  if (!isSeconds(created) || !isSeconds(expires))
    return "the parameters `created` and `expires` must be Unix times in seconds";
  const covered = coveredLines(message, components);
  if (typeof covered === "string") return covered;
  return {
    agent: covered.agent,
    keyId,
    algorithm: parameterIn(parameters, "alg"),
    createdAt: Number(created) * 1_000,
    expiresAt: Number(expires) * 1_000,
    signature: Buffer.from(encoded, "base64"),
    base: [...covered.lines, `"@signature-params": ${signedParameters}`].join("\n"),
  };
}

interface CoveredComponents {
  readonly lines: readonly string[];
  readonly agent: string;
}

function coveredLines(message: SignedMessage, components: string): CoveredComponents | string {
  const lines: string[] = [];
  const names = new Set<string>();
  let agent: string | undefined;
  for (const [, quoted = "", parameters = ""] of components.matchAll(
    new RegExp(String.raw`(${STRING})(${PARAMETERS})`, "g"),
  )) {
    const name = unquote(quoted);
    const identifier = quoted + parameters;
    const value =
      name === "signature-agent"
        ? agentValue(message.headers, parameters)
        : parameters === ""
          ? DERIVED[name]?.(message)
          : undefined;
    if (value === undefined) return `the component ${identifier} is not supported or missing`;
    if (names.has(identifier)) return `the component ${identifier} is signed twice`;
    names.add(identifier);
    if (name === "signature-agent") agent = agentIn(value);
    lines.push(`${identifier}: ${value}`);
  }
  if (!names.has('"@authority"') && !names.has('"@target-uri"'))
    return "the signature must cover `@authority` or `@target-uri`";
  if (agent === undefined) return "the signature must cover `signature-agent`";
  return { lines, agent };
}

const DERIVED: Readonly<Record<string, (message: SignedMessage) => string>> = Object.assign(
  Object.create(null),
  {
    "@method": ({ method }: SignedMessage) => method,
    "@authority": ({ authority }: SignedMessage) => authority,
    "@scheme": ({ scheme }: SignedMessage) => scheme,
    "@path": ({ path }: SignedMessage) => path,
    "@request-target": ({ path }: SignedMessage) => path,
    "@target-uri": ({ scheme, authority, path }: SignedMessage) =>
      `${scheme}://${authority}${path}`,
  },
);

/** The header was a string at first and is a dictionary now, of which one member is signed. */
function agentValue(headers: Headers, parameters: string): string | undefined {
  const header = headers.get("signature-agent")?.trim();
  if (header === undefined || parameters === "") return header;
  const key = parameterIn(parameters, "key");
  return members(AGENT_MEMBER, header)?.find(([, name]) => name === key)?.[2];
}

/** The URL of a string, or of a dictionary with one member. */
function agentIn(value: string): string | undefined {
  const [quoted] = new RegExp(`^${STRING}`).exec(value) ?? [];
  if (quoted !== undefined) return unquote(quoted);
  const [first, second] = members(AGENT_MEMBER, value) ?? [];
  return second === undefined && first?.[3] !== undefined ? unquote(first[3]) : undefined;
}

/** Undefined if the header has another form or is too long. */
function members(form: RegExp, header: string | null): readonly RegExpExecArray[] | undefined {
  if (header === null) return [];
  const text = header.trim();
  if (text.length > HEADER_CHARACTERS_MAX) return undefined;
  const found: RegExpExecArray[] = [];
  for (form.lastIndex = 0; form.lastIndex < text.length;) {
    const match = form.exec(text);
    if (match === null) return undefined;
    found.push(match);
  }
  return found;
}

function parameterIn(parameters: string, name: string): string | undefined {
  for (const [, key, value = ""] of parameters.matchAll(
    new RegExp(String.raw`;\s*(${KEY})(?:=(${STRING}|[\w+/=:.?@-]+))?`, "g"),
  ))
    if (key === name) return value.startsWith('"') ? unquote(value) : value;
  return undefined;
}

function unquote(quoted: string): string {
  return quoted.slice(1, -1).replaceAll(/\\(["\\])/g, "$1");
}

function isSeconds(text: string | undefined): boolean {
  return text !== undefined && /^\d{1,12}$/.test(text);
}
