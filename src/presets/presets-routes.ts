// Routes of /v1/presets.

import { z } from "zod";
import { keyAct } from "../activity/audit.ts";
import { keyRoute, keyWriteRoute, type Route } from "../http/route.ts";
import type { Db } from "../store/db.ts";
import {
  PRESET_EXAMPLE,
  PRESET_NAME,
  PresetRecord,
  PresetSettings,
  SETTINGS_EXAMPLE,
  toPresetRecord,
} from "./preset-record.ts";
import { deletePreset, getPreset, listPresets, savePreset } from "./presets.ts";

const DOC = { tag: "Presets", dialect: "openai" } as const;
const ONE = { 200: { description: "The preset.", schema: PresetRecord, example: PRESET_EXAMPLE } };

const PresetPath = z.object({ name: PRESET_NAME });

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
    query: z.strictObject({}),
    responses: {
      200: {
        description: "All presets.",
        schema: z
          .object({ object: z.literal("list"), data: z.array(PresetRecord) })
          .meta({ id: "PresetList" }),
        example: { object: "list", data: [PRESET_EXAMPLE] },
      },
    },
    faults: [],
    run: async ({ caller }) => {
      const presets = await listPresets(db, caller.accountId);
      return { status: 200, body: { object: "list", data: presets.map(toPresetRecord) } };
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
      body: toPresetRecord(await getPreset(db, caller.accountId, name, version)),
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
      return { status: 200, body: toPresetRecord(await savePreset(tx, act, name, body)) };
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
        example: { object: "preset", name: PRESET_EXAMPLE.name, deleted: true },
      },
    },
    faults: ["not_found"],
    run: async (tx, { caller, params: { name }, clientIp, now }) => {
      await deletePreset(tx, keyAct(caller, { clientIp, now }), name);
      return { status: 200, body: { object: "preset", name, deleted: true } };
    },
  });
}
