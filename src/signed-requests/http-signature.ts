// HTTP message signatures (RFC 9421) of requests, with the tag `web-bot-auth`: parses the headers and rebuilds the text that
// was signed. Only what agents sign is supported: derived components and headers without parameters, besides `signature-agent`.

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
const HEADER_NAME = /^[a-z0-9_-]+$/;
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
  /** Without its question mark. */
  readonly query?: string;
  readonly headers: Headers;
}

export interface MessageSignature {
  /** The value of `signature-agent`, if it is signed. */
  readonly agent: string | undefined;
  /** The names of the components that are signed. */
  readonly components: ReadonlySet<string>;
  readonly keyId: string;
  /** Undefined if the key alone decides. */
  readonly algorithm: string | undefined;
  readonly nonce: string | undefined;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly signature: Buffer;
  /** The text that was signed. */
  readonly base: string;
}

/**
 * Undefined if the request has no signature with this tag, and by this key if one is given; a string says what is wrong with
 * the signature.
 */
export function readSignature(
  message: SignedMessage,
  byKeyId?: string,
): MessageSignature | string | undefined {
  const { headers } = message;
  const input = members(SIGNATURE_INPUT, headers.get("signature-input"));
  if (input === undefined) return "the Signature-Input header cannot be read";
  const found = input.find(
    ([, , , , parameters = ""]) =>
      parameterIn(parameters, "tag") === TAG &&
      (byKeyId === undefined || parameterIn(parameters, "keyid") === byKeyId),
  );
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
    components: covered.names,
    keyId,
    algorithm: parameterIn(parameters, "alg"),
    nonce: parameterIn(parameters, "nonce"),
    createdAt: Number(created) * 1_000,
    expiresAt: Number(expires) * 1_000,
    signature: Buffer.from(encoded, "base64"),
    base: [...covered.lines, `"@signature-params": ${signedParameters}`].join("\n"),
  };
}

interface CoveredComponents {
  readonly lines: readonly string[];
  readonly names: ReadonlySet<string>;
  readonly agent: string | undefined;
}

function coveredLines(message: SignedMessage, components: string): CoveredComponents | string {
  const lines: string[] = [];
  const identifiers = new Set<string>();
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
          ? componentValue(message, name)
          : undefined;
    if (value === undefined) return `the component ${identifier} is not supported or missing`;
    if (identifiers.has(identifier)) return `the component ${identifier} is signed twice`;
    identifiers.add(identifier);
    names.add(name);
    if (name === "signature-agent") agent = agentIn(value);
    lines.push(`${identifier}: ${value}`);
  }
  if (!names.has("@authority") && !names.has("@target-uri"))
    return "the signature must cover `@authority` or `@target-uri`";
  return { lines, names, agent };
}

/** A derived component, or a header as it was sent. */
function componentValue(message: SignedMessage, name: string): string | undefined {
  if (name.startsWith("@")) return DERIVED[name]?.(message);
  return HEADER_NAME.test(name) ? message.headers.get(name)?.trim() : undefined;
}

const DERIVED: Readonly<Record<string, (message: SignedMessage) => string>> = Object.assign(
  Object.create(null),
  {
    "@method": ({ method }: SignedMessage) => method,
    "@authority": ({ authority }: SignedMessage) => authority,
    "@scheme": ({ scheme }: SignedMessage) => scheme,
    "@path": ({ path }: SignedMessage) => path,
    "@query": ({ query = "" }: SignedMessage) => `?${query}`,
    "@request-target": (message: SignedMessage) => pathAndQuery(message),
    "@target-uri": (message: SignedMessage) =>
      `${message.scheme}://${message.authority}${pathAndQuery(message)}`,
  },
);

function pathAndQuery({ path, query = "" }: SignedMessage): string {
  return query === "" ? path : `${path}?${query}`;
}

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
