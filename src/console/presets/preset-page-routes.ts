// The routes of the page of presets.

import { z } from "zod";
import { authorize } from "../../accounts/members.ts";
import { invalid } from "../../base/fault.ts";
import { parseJson } from "../../base/json.ts";
import type { FormError } from "../../http/pages/page-response.ts";
import type { Route } from "../../http/route.ts";
import { PRESET_NAME, PresetSettings } from "../../presets/preset-record.ts";
import { deletePreset, findPreset, listPresets, savePreset } from "../../presets/presets.ts";
import { checkedForm } from "../checked-form.ts";
import { workspacePath } from "../console-layout.tsx";
import { donePath, DoneQuery } from "../done-notice.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";
import { AccountPath, workspaceForm, workspacePage } from "../workspace-routes.ts";
import { type PresetForm, presetsPage, toPresetForm } from "./presets-page.tsx";

const PATH = "/console/{account}/presets";
const NAME_MAX = 100;

export function presetPageRoutes(deps: ConsoleReadDeps): readonly Route[] {
  return [listRoute(deps), changeRoute(deps)];
}

function listRoute(deps: ConsoleReadDeps): Route {
  return workspacePage(deps, {
    path: PATH,
    id: "showPresets",
    summary: "List the presets of a workspace",
    params: AccountPath,
    query: z.object({
      ...DoneQuery,
      edit: z.string().max(NAME_MAX).optional(),
      delete: z.string().max(NAME_MAX).optional(),
    }),
    permission: "presets.read",
    run: async ({ view, account, query: { edit, delete: asked, done } }) => {
      const presets = await listPresets(deps.db, account);
      const edited = edit === undefined ? undefined : await findPreset(deps.db, account, edit);
      return presetsPage({ ...view, presets, form: edited && toPresetForm(edited), asked, done });
    },
  });
}

const ChangeForm = z.discriminatedUnion("do", [
  z.object({
    do: z.literal("save"),
    name: z.string().max(NAME_MAX),
    model: z.string().max(300),
    system: z.string().max(40_000),
    more: z.string().max(60_000),
  }),
  z.object({ do: z.literal("delete"), name: z.string().max(NAME_MAX) }),
]);

function changeRoute(deps: ConsoleReadDeps): Route {
  return workspaceForm(deps, {
    path: PATH,
    id: "changePresets",
    summary: "Save or delete a preset",
    params: AccountPath,
    body: ChangeForm,
    requestExample: { do: "save", name: "reviewer", model: "sim/echo", system: "", more: "" },
    permission: "presets.change",
    write: async (tx, { act, body }) => {
      await authorize(tx, act, "presets.change");
      if (body.do === "delete") return deletePreset(tx, act, body.name);
      const { name } = checkedForm(z.object({ name: PRESET_NAME }), { name: body.name });
      return savePreset(tx, act, name, settingsOf(body));
    },
    done: ({ account, body }) => donePath(workspacePath(account, "/presets"), body.do),
    rejected: async ({ view, account, body }, error: FormError) => {
      const presets = await listPresets(deps.db, account);
      const form = body.do === "save" ? { ...body, error } : undefined;
      return presetsPage({
        ...view,
        presets,
        form,
        errorMessage: form ? undefined : error.message,
      });
    },
  });
}

/** The fields of the form that are empty state nothing. */
function settingsOf({ model, system, more }: PresetForm): z.infer<typeof PresetSettings> {
  const further: unknown = more.trim() === "" ? {} : parseJson(more);
  if (typeof further !== "object" || further === null || Array.isArray(further))
    throw invalid("more", 'Further settings must be a JSON object, such as {"temperature": 0.2}.');
  const settings = {
    ...(model.trim() === "" ? {} : { model: model.trim() }),
    ...(system.trim() === "" ? {} : { system }),
    ...further,
  };
  return checkedForm(PresetSettings, settings);
}
