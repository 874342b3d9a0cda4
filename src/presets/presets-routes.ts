// Routes of /v1/presets.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import { timestamp } from "../http/schemas.ts";
import type { Db } from "../store/db.ts";
import { deletePreset, getPreset, listPresets, type Preset, savePreset } from "./presets.ts";

const ModelId = z.string().min(1).max(256);
const Members = z.record(z.string(), z.unknown());

export const PresetSettings = z
  .strictObject({
    model: ModelId.meta({ description: "The model, if the call names none." }),
    models: z.array(ModelId).min(1).max(10).meta({ description: "Fallback models." }),
    provider: Members.meta({ description: "Preferences of routing, as in a call." }),
    system: z
      .string()
      .min(1)
      .max(32_768)
      .meta({ description: "Text before the system text of the call." }),
    temperature: z.number().min(0).max(2),
    top_p: z.number().min(0).max(1),
    max_output_tokens: z.int().min(1),
    reasoning_effort: z.string().min(1).max(40),
    fields: z
      .strictObject({ chat: Members, responses: Members, messages: Members })
      .partial()
      .meta({ description: "Further fields of the body by API, such as `tools`." }),
  })
  .partial();

const PresetRecord = z
  .object({
    object: z.literal("preset"),
    name: z.string(),
    version: z.int(),
    created_at: z.string(),
    settings: PresetSettings,
  })
  .meta({ id: "Preset" });

const SETTINGS_EXAMPLE = {
  model: "sim/echo",
  system: "You are a careful reviewer.",
  temperature: 0.2,
  max_output_tokens: 1_000,
};
const EXAMPLE = {
  object: "preset",
  name: "reviewer",
  version: 1,
  created_at: "2026-11-28T09:30:00.000Z",
  settings: SETTINGS_EXAMPLE,
};
const DOC = { tag: "Presets", dialect: "openai" } as const;
const ONE = { 200: { description: "The preset.", schema: PresetRecord, example: EXAMPLE } };

const Name = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, "must be lowercase letters, digits, `-` and `_`")
  .meta({ description: "The name of the preset.", example: EXAMPLE.name });
const PresetPath = z.object({ name: Name });

export function presetRoutes({ db }: { readonly db: Db }): readonly Route[] {
  return [listRoute(db), getRoute(db), saveRoute(), deleteRoute()];
}

function listRoute(db: Db): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/presets",
    id: "listPresets",
    scope: "usage:read",
    summary: "List presets",
    description: "The newest version of each, by name; at most 200.",
    responses: {
      200: {
        description: "All presets.",
        schema: z
          .object({ object: z.literal("list"), data: z.array(PresetRecord) })
          .meta({ id: "PresetList" }),
        example: { object: "list", data: [EXAMPLE] },
      },
    },
    faults: [],
    run: async ({ caller }) => {
      const presets = await listPresets(db, caller.accountId);
      return { status: 200, body: { object: "list", data: presets.map(toRecord) } };
    },
  });
}

function getRoute(db: Db): Route {
  return keyRoute({
    ...DOC,
    method: "GET",
    path: "/v1/presets/{name}",
    id: "getPreset",
    scope: "usage:read",
    summary: "Get a preset",
    params: PresetPath,
    query: z.strictObject({
      version: z.coerce
        .number()
        .int()
        .min(1)
        .optional()
        .meta({ description: "One of the last 100 versions; the newest by default." }),
    }),
    responses: ONE,
    faults: ["not_found"],
    run: async ({ caller, params: { name }, query: { version } }) => ({
      status: 200,
      body: toRecord(await getPreset(db, caller.accountId, name, version)),
    }),
  });
}

function saveRoute(): Route {
  return keyWriteRoute({
    ...DOC,
    method: "POST",
    path: "/v1/presets/{name}",
    id: "savePreset",
    scope: "account:write",
    summary: "Save a preset",
    description:
      'Adds a version; the same settings again add none. Call it with `"model": "@preset/<name>"`, or `@preset/<name>@<version>` for that version. See `/docs/presets`.',
    params: PresetPath,
    body: PresetSettings.meta({ id: "PresetSettings" }),
    requestExample: SETTINGS_EXAMPLE,
    responses: ONE,
    faults: ["conflict"],
    run: async (tx, { caller, params: { name }, body, clientIp, now }) => {
      const act = keyAct(caller, { clientIp, now });
      return { status: 200, body: toRecord(await savePreset(tx, act, name, body)) };
    },
  });
}

function deleteRoute(): Route {
  return keyWriteRoute({
    ...DOC,
    method: "DELETE",
    path: "/v1/presets/{name}",
    id: "deletePreset",
    scope: "account:write",
    summary: "Delete a preset",
    description: "With all its versions: calls that name it get 404.",
    params: PresetPath,
    responses: {
      200: {
        description: "The preset is deleted.",
        schema: z
          .object({ object: z.literal("preset"), name: z.string(), deleted: z.literal(true) })
          .meta({ id: "DeletedPreset" }),
        example: { object: "preset", name: EXAMPLE.name, deleted: true },
      },
    },
    faults: ["not_found"],
    run: async (tx, { caller, params: { name }, clientIp, now }) => {
      await deletePreset(tx, keyAct(caller, { clientIp, now }), name);
      return { status: 200, body: { object: "preset", name, deleted: true } };
    },
  });
}

function toRecord({ name, version, createdAt, settings }: Preset) {
  return { object: "preset", name, version, created_at: timestamp(createdAt), settings };
}
