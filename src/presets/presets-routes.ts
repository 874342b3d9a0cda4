// Routes of /v1/presets.

import { z } from "zod";
import { namedResourceRoutes } from "../activity/named-resource-routes.ts";
import type { Route } from "../http/route.ts";
import type { Db } from "../store/db.ts";
import {
  PRESET_EXAMPLE,
  PresetRecord,
  PresetSettings,
  SETTINGS_EXAMPLE,
  toPresetRecord,
} from "./preset-record.ts";
import { deletePreset, getPreset, listPresets, savePreset } from "./presets.ts";

export function presetRoutes({ db }: { readonly db: Db }): readonly Route[] {
  return namedResourceRoutes({
    db,
    path: "/v1/presets",
    object: "preset",
    id: "Preset",
    noun: "preset",
    tag: "Presets",
    record: PresetRecord,
    example: PRESET_EXAMPLE,
    settings: PresetSettings.meta({ id: "PresetSettings" }),
    settingsExample: SETTINGS_EXAMPLE,
    query: z.strictObject({
      version: z.coerce
        .number()
        .int()
        .min(1)
        .optional()
        .meta({ description: "One of the last 100 versions; the newest by default." }),
    }),
    notes: {
      list: "The newest version of each, by name; at most 200.",
      save: 'Adds a version; the same settings again add none. Call it with `"model": "@preset/<name>"`, or `@preset/<name>@<version>` for that version. See `/docs/presets`.',
      delete: "With all its versions: calls that name it get 404.",
    },
    list: async (reader, accountId) => (await listPresets(reader, accountId)).map(toPresetRecord),
    get: async (reader, accountId, name, { version }) =>
      toPresetRecord(await getPreset(reader, accountId, name, version)),
    save: async (tx, act, name, settings) =>
      toPresetRecord(await savePreset(tx, act, name, settings)),
    remove: deletePreset,
  });
}
