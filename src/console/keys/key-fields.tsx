/** @jsxImportSource hono/jsx */
// The fields of a key's settings, for a new key and for one that is changed.

import type { Child } from "hono/jsx";
import { LIMIT_WINDOWS } from "../../base/money/spend-window.ts";
import { Field, TextField } from "../../http/pages/components/form.tsx";
import type { KeyField, KeyFormError, KeyFormValues } from "./key-form.ts";

const WINDOW_LABELS = { day: "daily", week: "weekly", month: "monthly" } as const;

export interface KeyFieldsProps {
  /** The beginning of the ids of the inputs. */
  readonly id: string;
  readonly values: KeyFormValues;
  readonly error: KeyFormError | undefined;
  readonly sendsEmails: boolean;
}

export function KeyFields({ id, values, error, sendsEmails }: KeyFieldsProps): Child {
  const isRestricted = RESTRICTION_FIELDS.some(
    (field) => (values[field] ?? "") !== "" || error?.field === field,
  );
  const errorOf = (field: KeyField): string | undefined =>
    error?.field === field ? error.message : undefined;
  return (
    <>
      <Field
        id={`${id}-name`}
        name="name"
        label="Name"
        maxLength={100}
        value={values.name}
        error={errorOf("name")}
      />
      <div class="fields">
        <Field
          id={`${id}-limit`}
          name="limit_usd"
          label="Limit (USD, optional)"
          inputMode="decimal"
          value={values.limit_usd}
          error={errorOf("limit_usd")}
          hint="A key with a limit cannot buy credits, use webhooks or read the audit log."
        />
        <div class="field">
          <label for={`${id}-window`}>Resets</label>
          <select id={`${id}-window`} name="limit_window">
            <option value="">never</option>
            {LIMIT_WINDOWS.map((option) => (
              <option value={option} selected={option === values.limit_window}>
                {WINDOW_LABELS[option]}
              </option>
            ))}
          </select>
        </div>
        <Field
          id={`${id}-expiry`}
          name="last_day"
          type="date"
          label="Expires after (UTC, optional)"
          value={values.last_day}
          error={errorOf("last_day")}
        />
      </div>
      <details class="more" open={isRestricted}>
        <summary>Models, rates and alerts</summary>
        <RestrictionFields id={id} values={values} errorOf={errorOf} sendsEmails={sendsEmails} />
      </details>
    </>
  );
}

const RESTRICTION_FIELDS = [
  "allowed_models",
  "allowed_providers",
  "requests_per_minute",
  "tokens_per_minute",
  "max_concurrent_calls",
  "max_price_per_million_usd",
  "alert_percents",
] as const satisfies readonly KeyField[];

const NUMBER_LABELS = {
  requests_per_minute: "Requests per minute",
  tokens_per_minute: "Tokens per minute",
  max_concurrent_calls: "Calls at the same time",
} as const;

interface RestrictionProps {
  readonly id: string;
  readonly values: KeyFormValues;
  readonly errorOf: (field: KeyField) => string | undefined;
  readonly sendsEmails: boolean;
}

function SpendFields({ id, values, errorOf, sendsEmails }: RestrictionProps): Child {
  return (
    <div class="fields">
      <Field
        id={`${id}-price`}
        name="max_price_per_million_usd"
        label="Highest price per million tokens (USD)"
        inputMode="decimal"
        value={values.max_price_per_million_usd}
        error={errorOf("max_price_per_million_usd")}
        hint="More expensive models are refused."
      />
      <Field
        id={`${id}-session-limit`}
        name="session_limit_usd"
        label="Limit of each session (USD)"
        inputMode="decimal"
        value={values.session_limit_usd}
        error={errorOf("session_limit_usd")}
        hint="For the sessions of agents, such as Claude Code."
      />
      <Field
        id={`${id}-alerts`}
        name="alert_percents"
        label="Alert at these percentages of the limit"
        placeholder="80, 100"
        value={values.alert_percents}
        error={errorOf("alert_percents")}
        hint={`Sent by ${sendsEmails ? "email and " : ""}webhook. Needs a limit.`}
      />
    </div>
  );
}

function RestrictionFields({ id, values, errorOf, sendsEmails }: RestrictionProps): Child {
  return (
    <>
      <div class="fields">
        <TextField
          id={`${id}-models`}
          name="allowed_models"
          label="Allowed models"
          value={values.allowed_models}
          error={errorOf("allowed_models")}
          hint="One per line, such as openai/*. Empty: all models."
        />
        <TextField
          id={`${id}-providers`}
          name="allowed_providers"
          label="Allowed providers"
          value={values.allowed_providers}
          error={errorOf("allowed_providers")}
          hint="One per line, such as anthropic. Empty: all providers."
        />
      </div>
      <div class="fields">
        {(["requests_per_minute", "tokens_per_minute", "max_concurrent_calls"] as const).map(
          (field) => (
            <Field
              id={`${id}-${field}`}
              name={field}
              label={NUMBER_LABELS[field]}
              inputMode="numeric"
              value={values[field]}
              error={errorOf(field)}
            />
          ),
        )}
      </div>
      <SpendFields id={id} values={values} errorOf={errorOf} sendsEmails={sendsEmails} />
    </>
  );
}
