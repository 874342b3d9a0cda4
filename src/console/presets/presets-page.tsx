/** @jsxImportSource hono/jsx */
// The presets of a workspace, and the form that saves a version of one.

import type { Child } from "hono/jsx";
import { hasPermission } from "../../accounts/members.ts";
import { formatInteger } from "../../base/text/format.ts";
import { Card, EmptyState } from "../../http/pages/components/content.tsx";
import { ErrorMessage, Field, TextField } from "../../http/pages/components/form.tsx";
import { RelativeTime } from "../../http/pages/components/local-time.tsx";
import { Table } from "../../http/pages/components/table.tsx";
import type { PageLayout } from "../../http/pages/layout.tsx";
import type { FormError } from "../../http/pages/page-response.ts";
import type { SessionUser } from "../../http/route.ts";
import type { Preset } from "../../presets/presets.ts";
import { ConfirmDelete, CONFIRM_ID, withQuery } from "../confirm.tsx";
import { consolePage, HiddenFields, workspacePath } from "../console-layout.tsx";
import { DoneNotice } from "../done-notice.tsx";
import type { WorkspaceContext } from "../require-access.ts";

const PAGE = "/presets";
const DONE_TEXTS = {
  save: "The preset is saved. New calls use it.",
  delete: "The preset is deleted. Calls that name it get a 404.",
} as const;

export interface PresetForm {
  readonly name: string;
  readonly model: string;
  readonly system: string;
  /** JSON. */
  readonly more: string;
  readonly error?: FormError;
}

export function toPresetForm({ name, settings }: Preset): PresetForm {
  const { model, system, ...more } = settings;
  return {
    name,
    model: typeof model === "string" ? model : "",
    system: typeof system === "string" ? system : "",
    more: Object.keys(more).length === 0 ? "" : JSON.stringify(more, null, 2),
  };
}

export interface PresetsPageProps {
  readonly user: SessionUser;
  readonly workspace: WorkspaceContext;
  readonly presets: readonly Preset[];
  /** The preset that is edited, or a rejected form. */
  readonly form: PresetForm | undefined;
  /** The preset whose deletion is to be confirmed. */
  readonly asked?: string | undefined;
  readonly done?: string | undefined;
  readonly errorMessage?: string | undefined;
}

export function presetsPage(props: PresetsPageProps): PageLayout {
  const { user, workspace, presets, asked, done, errorMessage } = props;
  const path = workspacePath(workspace.accountId, PAGE);
  const canChange = hasPermission(workspace.role, "presets.change");
  return consolePage({
    title: "Presets",
    workspace,
    user,
    page: PAGE,
    main: (
      <>
        <DoneNotice texts={DONE_TEXTS} done={done} />
        <ErrorMessage message={errorMessage} />
        {canChange ? (
          <ConfirmDelete user={user} path={path} noun="preset" items={presets} asked={asked}>
            Delete {asked} with all its versions? Calls that name it get a 404.
          </ConfirmDelete>
        ) : null}
        <Card id="presets" title="Presets" aside={<a href="/docs/presets">How calls use them</a>}>
          {presets.length === 0 ? (
            <EmptyState title="No presets yet">
              <p class="muted">
                A preset keeps the model, the system text and the settings of calls under a name.
                Calls name it as their model: <code>@preset/reviewer</code>.
              </p>
            </EmptyState>
          ) : (
            <PresetTable presets={presets} path={path} canChange={canChange} />
          )}
        </Card>
        {canChange ? <SaveForm {...props} path={path} /> : null}
      </>
    ),
  });
}

function PresetTable({
  presets,
  path,
  canChange,
}: {
  readonly presets: readonly Preset[];
  readonly path: string;
  readonly canChange: boolean;
}): Child {
  return (
    <Table
      label="Presets"
      isStacked
      columns={[
        { name: "Name" },
        { name: "Model" },
        { name: "Version", isNumber: true },
        { name: "Saved" },
        { name: "Actions", isNumber: true },
      ]}
      rows={presets.map(({ name, version, createdAt, settings: { model } }) => [
        canChange ? (
          <a class="line" href={`${withQuery(path, { edit: name })}#save`}>
            {name}
          </a>
        ) : (
          <span class="line">{name}</span>
        ),
        <span class="line">{typeof model === "string" ? model : "that of the call"}</span>,
        formatInteger(version),
        <RelativeTime at={createdAt} />,
        canChange ? (
          <span class="row-actions">
            <a href={`${withQuery(path, { delete: name })}#${CONFIRM_ID}`}>
              Delete <span class="visually-hidden">{name}</span>
            </a>
          </span>
        ) : (
          "–"
        ),
      ])}
    />
  );
}

const EMPTY_FORM = { name: "", model: "", system: "", more: "", error: undefined };

function SaveForm({
  user,
  presets,
  form,
  path,
}: Pick<PresetsPageProps, "user" | "presets" | "form"> & { readonly path: string }): Child {
  const { name, model, system, more, error } = form ?? EMPTY_FORM;
  const isKnown = presets.some((preset) => preset.name === name);
  const errorAt = (field: string): string | undefined =>
    error?.field === field ? error.message : undefined;
  const isElsewhere =
    error !== undefined && !["name", "model", "system"].includes(error.field ?? "");
  return (
    <Card id="save" title={isKnown ? "Save a version" : "Add a preset"}>
      <form method="post" action={path}>
        <HiddenFields user={user} fields={{ do: "save" }} />
        <div class="fields">
          <Field
            id="preset-name"
            name="name"
            label="Name"
            value={name}
            error={errorAt("name")}
            hint="Lowercase letters, digits, - and _. A name that exists gets a new version."
            maxLength={64}
            isRequired
          />
          <Field
            id="preset-model"
            name="model"
            label="Model"
            value={model}
            error={errorAt("model")}
            hint="An id of the list of models, such as openai/gpt-5-mini."
            maxLength={256}
          />
        </div>
        <div class="fields">
          <TextField
            id="preset-system"
            name="system"
            label="System text"
            rows={6}
            value={system}
            error={errorAt("system")}
            maxLength={32_768}
          />
          <TextField
            id="preset-more"
            name="more"
            label="Further settings (JSON)"
            rows={6}
            value={more}
            error={isElsewhere ? error.message : undefined}
            hint={
              <>
                Such as <code>{'{"temperature": 0.2, "max_output_tokens": 1000}'}</code>.
              </>
            }
          />
        </div>
        <div class="actions">
          <button type="submit">Save preset</button>
        </div>
      </form>
    </Card>
  );
}
