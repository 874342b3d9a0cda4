/** @jsxImportSource hono/jsx */
// The page of presets, and the form that saves a version of one.

import type { Child } from "hono/jsx";
import { z } from "zod";
import { invalid } from "../../base/fault.ts";
import { parseJson } from "../../base/json.ts";
import { formatInteger } from "../../base/text/format.ts";
import { Field, TextField } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import type { Route } from "../../http/route.ts";
import { PresetSettings } from "../../presets/preset-record.ts";
import { deletePreset, listPresets, type Preset, savePreset } from "../../presets/presets.ts";
import { checkedForm } from "../checked-form.ts";
import {
  type FormValues,
  ItemForm,
  type ItemForms,
  NAME_FIELD,
  namedItemsRoutes,
} from "../named-items-page.tsx";
import type { ConsoleReadDeps } from "../require-access.ts";

const PresetForm = z.object({
  do: z.literal("save"),
  ...NAME_FIELD,
  model: z.string().max(300),
  system: z.string().max(40_000),
  /** JSON. */
  more: z.string().max(60_000),
});
type PresetForm = z.infer<typeof PresetForm>;

export function presetPageRoutes(deps: ConsoleReadDeps): readonly Route[] {
  return namedItemsRoutes<Preset, PresetForm>(deps, {
    page: "/presets",
    title: "Presets",
    id: "Preset",
    noun: "preset",
    permissions: { read: "presets.read", change: "presets.change" },
    docs: { href: "/docs/presets", label: "How calls use them" },
    notes: {
      save: "New calls use it.",
      delete: "All its versions are deleted, and calls that name it get a 404.",
    },
    purpose: (
      <>
        A preset keeps the model, the system prompt and the settings of calls under a name. Calls
        name it as their model: <code>@preset/reviewer</code>.
      </>
    ),
    columns: [{ name: "Model" }, { name: "Version", isNumber: true }, { name: "Saved" }],
    cells: ({ version, createdAt, settings: { model } }) => [
      <span class="line">{typeof model === "string" ? model : "that of the call"}</span>,
      formatInteger(version),
      <RelativeTime at={createdAt} />,
    ],
    forms: (props) => <SaveForm {...props} />,
    body: PresetForm,
    requestExample: { do: "save", name: "reviewer", model: "sim/echo", system: "", more: "" },
    fieldsWithErrors: ["name", "model", "system", "more"],
    list: listPresets,
    edit: valuesOf,
    save: (tx, act, name, form) => savePreset(tx, act, name, settingsOf(form)),
    remove: deletePreset,
  });
}

function valuesOf({ name, settings }: Preset): FormValues {
  const { model, system, ...more } = settings;
  return {
    do: "save",
    name,
    model: typeof model === "string" ? model : "",
    system: typeof system === "string" ? system : "",
    more: Object.keys(more).length === 0 ? "" : JSON.stringify(more, null, 2),
  };
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

function SaveForm({ items, valuesOf: valuesOfForm, error, ...props }: ItemForms<Preset>): Child {
  const { name, model, system, more } = valuesOfForm("save") ?? {};
  const isKnown = items.some((preset) => preset.name === name);
  const errorAt = (field: string): string | undefined =>
    error?.field === field ? error.message : undefined;
  return (
    <ItemForm
      props={props}
      kind="save"
      title={isKnown ? "Save a version" : "Add a preset"}
      submit="Save preset"
      name={name}
      nameError={errorAt("name")}
      nameHint="A name that exists gets a new version."
    >
      <Field
        id="preset-model"
        name="model"
        label="Model"
        value={model ?? ""}
        error={errorAt("model")}
        hint="An id of the list of models, such as openai/gpt-5.4-mini."
        maxLength={256}
      />
      <div class="fields">
        <TextField
          id="preset-system"
          name="system"
          label="System prompt"
          rows={6}
          value={system ?? ""}
          error={errorAt("system")}
          maxLength={32_768}
        />
        <TextField
          id="preset-more"
          name="more"
          label="Further settings (JSON)"
          rows={6}
          value={more ?? ""}
          error={errorAt("more")}
          hint={
            <>
              Such as <code>{'{"temperature": 0.2, "max_output_tokens": 1000}'}</code>.
            </>
          }
        />
      </div>
    </ItemForm>
  );
}
