// The shapes that an SDK can send and receive, read from its types: each with a request that has it.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type { Api, Json, Wire } from "../translation/support/harness.ts";
import { readTypes, resolve, type Type, type Types } from "./read-types.ts";
import { literalsOf, membersOf, sampleObject, sampleOf, variantsOf } from "./sample-value.ts";

/** APIs of callers; the calls of Google's have the model in the path. */
export type CallerApi = Api | "gemini";

/** One thing that a client may send: a field of the body, or a type or field of an item, part or tool in it. */
export interface SentShape {
  readonly api: CallerApi;
  /** `input[agent_message].author`. */
  readonly name: string;
  readonly fields: Json;
  /** Where the value is in the body. */
  readonly value: unknown;
}

export interface ReceivedEvent {
  readonly api: Wire;
  readonly type: string;
  readonly event: Json;
}

export interface Endpoint {
  readonly method: string;
  readonly path: string;
}

export interface Surface {
  readonly sent: readonly SentShape[];
  readonly events: readonly ReceivedEvent[];
  readonly endpoints: readonly Endpoint[];
}

interface Source {
  readonly api: CallerApi;
  /** Folders or files of the package with its declarations. */
  readonly folders: readonly string[];
  /** Undefined if a type of the package has more than the body. */
  readonly body?: string;
  readonly ignored?: readonly string[];
  readonly places: readonly { readonly name: string; readonly type: string; readonly put: Put }[];
  readonly events?: string;
}

type Put = (value: Json) => Json;

const USER: Json = { role: "user", content: "hi" };
const inContent: Put = (part) => ({ messages: [{ role: "user", content: [part] }] });
const inTools: Put = (tool) => ({ tools: [tool] });

function responses(prefix: string, folder: string): Source {
  return {
    api: "responses",
    folders: [folder, "resources/shared.d.ts"],
    body: "ResponseCreateParamsBase",
    ignored: ["model", "input", "stream", "betas"],
    places: [
      {
        name: "input",
        type: `${prefix}ResponseInputItem`,
        put: (item) => ({ input: [item, USER] }),
      },
      {
        name: "content",
        type: `${prefix}ResponseInputContent`,
        put: (part) => ({ input: [{ role: "user", content: [part] }] }),
      },
      { name: "tools", type: `${prefix}Tool`, put: inTools },
    ],
    events: `${prefix}ResponseStreamEvent`,
  };
}

const SOURCES: Readonly<Record<string, readonly Source[]>> = {
  openai: [
    responses("", "resources/responses"),
    responses("Beta", "resources/beta/responses"),
    {
      api: "chat",
      folders: ["resources/chat", "resources/shared.d.ts"],
      body: "ChatCompletionCreateParamsBase",
      ignored: ["model", "messages", "stream"],
      places: [
        {
          name: "messages",
          type: "ChatCompletionMessageParam",
          put: (message) => ({ messages: [USER, message, USER] }),
        },
        { name: "content", type: "ChatCompletionContentPart", put: inContent },
        { name: "tools", type: "ChatCompletionTool", put: inTools },
      ],
    },
  ],
  "@anthropic-ai/sdk": [
    {
      api: "messages",
      // Of equal names the later one counts.
      folders: ["resources/messages", "resources/beta"],
      body: "MessageCreateParamsBase",
      ignored: ["model", "messages", "max_tokens", "stream", "betas"],
      places: [
        { name: "content", type: "BetaContentBlockParam", put: inContent },
        {
          name: "messages",
          type: "BetaMessageParam",
          put: (message) => ({ messages: [USER, message] }),
        },
        { name: "tools", type: "BetaToolUnion", put: inTools },
      ],
      events: "BetaRawMessageStreamEvent",
    },
  ],
  "@google/genai": [
    {
      api: "gemini",
      folders: ["dist/genai.d.ts"],
      places: [
        {
          name: "parts",
          type: "Part",
          put: (part) => ({ contents: [{ role: "user", parts: [{ text: "hi" }, part] }] }),
        },
        { name: "tools", type: "Tool", put: inTools },
        { name: "toolConfig", type: "ToolConfig", put: (toolConfig) => ({ toolConfig }) },
        {
          name: "generationConfig",
          type: "GenerationConfig",
          put: (generationConfig) => ({ generationConfig }),
        },
        {
          name: "safetySettings",
          type: "SafetySetting",
          put: (setting) => ({ safetySettings: [setting] }),
        },
      ],
    },
  ],
  "@openrouter/sdk": [
    {
      api: "chat",
      folders: ["esm/models"],
      body: "ChatRequest$Outbound",
      ignored: ["model", "messages", "stream"],
      places: [
        {
          name: "messages",
          type: "ChatMessages$Outbound",
          put: (message) => ({ messages: [USER, message, USER] }),
        },
        { name: "content", type: "ChatContentItems$Outbound", put: inContent },
      ],
    },
  ],
};

const GOOGLE = "@google/genai";

export const TYPED_PACKAGES = Object.keys(SOURCES);

/** `folder` contains the package. */
export function readSurface(packageName: string, folder: string): Surface {
  const root = path.join(folder, packageName);
  const sent: SentShape[] = [];
  const events: ReceivedEvent[] = packageName === GOOGLE ? [...geminiReplies(root)] : [];
  for (const source of SOURCES[packageName] ?? []) {
    const types = readDeclarations(root, source.folders);
    if (types.size === 0) continue;
    sent.push(
      ...bodyFields(types, source),
      ...source.places.flatMap((place) => variants(types, source, place)),
    );
    events.push(...eventsOf(types, source));
  }
  return { sent: distinct(sent), events, endpoints: readEndpoints(root) };
}

function distinct(shapes: readonly SentShape[]): readonly SentShape[] {
  return [...new Map(shapes.map((shape) => [`${shape.api} ${shape.name}`, shape])).values()];
}

function readDeclarations(root: string, folders: readonly string[]): Types {
  const types: Types = new Map();
  for (const folder of folders)
    for (const file of filesOf(path.join(root, folder)))
      if (file.endsWith(".d.ts")) readTypes(readFileSync(file, "utf8"), types);
  return types;
}

function filesOf(place: string): readonly string[] {
  if (!existsSync(place)) return [];
  if (place.endsWith(".d.ts")) return [place];
  return readdirSync(place, { recursive: true, encoding: "utf8" })
    .toSorted()
    .map((file) => path.join(place, file));
}

function bodyFields(types: Types, { api, body, ignored = [] }: Source): readonly SentShape[] {
  const type = body === undefined ? undefined : named(types, body);
  return (type === undefined ? [] : (membersOf(types, type) ?? []))
    .filter(({ name }) => !ignored.includes(name))
    .flatMap(({ name, type: fieldType }): SentShape[] => {
      const value = sampleOf(types, fieldType, name);
      const own = value === undefined ? [] : [{ api, name, fields: { [name]: value }, value }];
      return [
        ...own,
        ...settings(types, fieldType).map(([path, inner]): SentShape => ({
          api,
          name: `${name}${path}`,
          fields: { [name]: inner },
          value: inner,
        })),
      ];
    });
}

/** The settings that a field's object may have, each with an object that has it. */
function settings(types: Types, type: Type): readonly (readonly [path: string, value: Json])[] {
  const variantTypes = [...variantsOf(types, type)];
  return variantTypes.flatMap(([label, variant]) =>
    (membersOf(types, variant) ?? [])
      .filter(({ name }) => name !== "type")
      .map(({ name }): readonly [string, Json] => [
        `${variantTypes.length > 1 ? `[${label}]` : ""}.${name}`,
        sampleObject(types, variant, 0, [name]),
      ]),
  );
}

function variants(
  types: Types,
  { api }: Source,
  place: { readonly name: string; readonly type: string; readonly put: Put },
): readonly SentShape[] {
  const union = named(types, place.type);
  if (union === undefined) return [];
  return [...variantsOf(types, union)].flatMap(([label, type]) => {
    const name = `${place.name}[${label}]`;
    const value = sampleObject(types, type);
    const optional = (membersOf(types, type) ?? []).filter(({ isOptional }) => isOptional);
    return [
      { api, name, fields: place.put(value), value },
      ...optional.map((member) => {
        const more = sampleObject(types, type, 0, [member.name]);
        return { api, name: `${name}.${member.name}`, fields: place.put(more), value: more };
      }),
    ];
  });
}

function eventsOf(types: Types, { api, events }: Source): readonly ReceivedEvent[] {
  const union = events === undefined ? undefined : named(types, events);
  if (union === undefined) return [];
  return [...variantsOf(types, union)].map(([type, variant]) => ({
    api,
    type,
    event: sampleObject(types, variant),
  }));
}

/** Each kind of part, and each reason for the end. */
function geminiReplies(root: string): readonly ReceivedEvent[] {
  const types = readDeclarations(root, ["dist/genai.d.ts"]);
  const [part, reasons] = [named(types, "Part"), named(types, "FinishReason")];
  if (part === undefined || reasons === undefined) return [];
  const reply = (type: string, content: Json, finishReason: unknown): ReceivedEvent => ({
    api: "gemini",
    type,
    event: { candidates: [{ content: { role: "model", parts: [content] }, finishReason }] },
  });
  return [
    ...(membersOf(types, part) ?? []).map(({ name }) =>
      reply(`part ${name}`, sampleObject(types, part, 0, [name]), "STOP"),
    ),
    ...literalsOf(types, reasons).map((reason) =>
      reply(`finish reason ${reason}`, { text: "hi" }, reason),
    ),
  ];
}

function named(types: Types, name: string): Type | undefined {
  const found = resolve(types, { name, scope: "" });
  return found && { kind: "name", name, scope: "" };
}

const CALL =
  /_client\.(get|post|put|patch|delete|getAPIList)\(\s*(?:\(0, \w+\.path\) )?(?:path)?[`'"]([^`'"]+)[`'"]/g;

function readEndpoints(root: string): readonly Endpoint[] {
  const endpoints = new Map<string, Endpoint>();
  for (const file of filesOf(path.join(root, "resources"))) {
    if (!file.endsWith(".js")) continue;
    for (const [, verb = "", target = ""] of readFileSync(file, "utf8").matchAll(CALL)) {
      const method = verb === "getAPIList" ? "GET" : verb.toUpperCase();
      const endpoint = target.replaceAll(/\$\{[^}]*\}/g, "x").replace(/\?.*$/, "");
      const full = endpoint.startsWith("/v1") ? endpoint : `/v1${endpoint}`;
      endpoints.set(`${method} ${full}`, { method, path: full });
    }
  }
  return [...endpoints.values()];
}
